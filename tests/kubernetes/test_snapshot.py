"""/debug/snapshot of a running operator, replayed by `muster simulate`: the same decisions."""

import json
import urllib.request

from cluster import Cluster
from harness import binary, check, run, wait_for

SIZES = (3, 2, 4, 1, 2)  # pods of the gangs, 4 GPUs each, on 3 nodes of 8: not all of them fit


def gang(name, pods, gpus=4):
    yield {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
           "metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": pods, "queue": "default-queue"}}
    for i in range(pods):
        yield {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": f"{name}-{i}", "namespace": "default",
                            "labels": {"kai.scheduler/queue": "default-queue"},
                            "annotations": {"pod-group-name": name}},
               "spec": {"schedulerName": "kai-scheduler",
                        "containers": [{"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "hunter2"}],
                                        "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}}]}}


def snapshot(operator):
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.debug_port}/debug/snapshot", timeout=20) as answer:
        return answer.read().decode()


def simulate(text):
    return json.loads(run([binary("muster"), "simulate", "-o", "json", "-"], input=text).stdout)


def places(pods):
    return {p["metadata"]["name"]: p["spec"].get("nodeName") for p in pods}


def test_a_snapshot_decided_by_simulate_is_what_the_scheduler_then_does():
    with Cluster(nodes=3, gpus_per_node=8, operator_flags=["--scheduler-name=nobody"]) as m:
        wait_for(lambda: m.get("queues"), "the default queues")
        items = [o for i, n in enumerate(SIZES) for o in gang(f"gang-{i}", n)]
        m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        operator = m.leader()

        def complete():
            before = json.loads(snapshot(operator))
            kinds = [i["kind"] for i in before["items"] if i["metadata"]["name"].startswith("gang-")]
            return kinds.count("Pod") == sum(SIZES) and kinds.count("PodGroup") == len(SIZES) and before
        before = wait_for(complete, "everything in the snapshot")
        check("hunter2" not in json.dumps(before), "values of variables are left out")
        check(before["config"]["schedulerName"] == "nobody" and before["time"], "settings and moment are told")
        check(all(p["state"] == "Waiting" for p in simulate(json.dumps(before))["pods"]),
              "as it is, nobody schedules these pods, and neither does the replay")
        before["config"]["schedulerName"] = "kai-scheduler"
        foretold = simulate(json.dumps(before))
        expected = {p["name"]: p.get("node") for p in foretold["pods"]}
        check(any(expected.values()) and not all(expected.values()), f"some fit and some wait: {expected}")

        operator.stop()
        m.operators, m.operator_flags = [], []
        m.start_operator(1)
        wait_for(lambda: places(m.get("pods")) == expected, f"pods where the replay put them: {expected}", 60)
        waiting = {p["group"]: p["message"] for p in foretold["pods"] if "message" in p}
        for group, message in waiting.items():
            wait_for(lambda: m.get("podgroup", group).get("status", {}).get("message") == message,
                     f"{group} to say: {message}", 30)
        after = simulate(snapshot(m.leader()))
        check({p["name"]: p.get("node") for p in after["pods"]} == expected and not after["evictions"],
              "a snapshot of what was decided stays as it is")
