"""/debug/snapshot of a running operator, replayed by `muster simulate`: the same decisions."""

import json
import urllib.request

from cluster import Cluster
from harness import binary, check, run, wait_for

SIZES = (3, 2, 4, 1, 2)  # pods of the gangs, 4 GPUs each, on 3 nodes of 8: not all of them fit


def gang(name, pods, gpus=4, queue="default-queue", labels=None):
    yield {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
           "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
           "spec": {"minMember": pods, "queue": queue}}
    for i in range(pods):
        yield {"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": f"{name}-{i}", "namespace": "default",
                            "labels": {"kai.scheduler/queue": queue, **(labels or {})},
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


def objects_are_known(operator, items):
    """The snapshot once it has all of them, else None."""
    told = json.loads(snapshot(operator))
    have = {(i["kind"], i["metadata"]["name"]) for i in told["items"]}
    return told if {(i["kind"], i["metadata"]["name"]) for i in items} <= have else None


POOL = {"kai.scheduler/node-pool": "wide"}
SHARDS = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {partitionLabelValue: "", kValue: 0.25, queueDepthPerAction: {reclaim: 3}, minRuntime: {preemptMinRuntime: 7m}}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: wide}
spec: {partitionLabelValue: wide, placementStrategy: {gpu: spread}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: wide, labels: {kai.scheduler/node-pool: wide}}
spec: {resources: {cpu: {quota: -1, limit: -1}, gpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def test_a_snapshot_tells_the_policy_of_every_node_pool_and_the_replay_follows_it():
    with Cluster(nodes=4, gpus_per_node=8, operator_flags=["--scheduler-name=nobody"]) as m:
        wait_for(lambda: m.get("queues"), "the default queues")
        for node in [n["metadata"]["name"] for n in m.get("nodes")][2:]:
            m.kubectl("label", "node", node, "kai.scheduler/node-pool=wide")
        m.apply(SHARDS)
        try:
            # A gang of two fits one node: it is packed, but where the pool's shard says spread.
            items = [*gang("packed", 2), *gang("spread", 2, queue="wide", labels=POOL)]
            m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            operator = m.leader()

            def complete():
                told = objects_are_known(operator, items)
                pools = {p["name"]: p for p in told["config"]["pools"]} if told else {}
                return pools.get("wide", {}).get("gpuPlacement") == "spread" and told["config"]["kValue"] == 0.25 and told
            before = wait_for(complete, "the policies of both shards in the snapshot")
            config = before["config"]
            check(config["gpuPlacement"] == "binpack" and config["preemptMinRuntime"] == "420000ms" and
                  config["queueDepthPerAction"] == {"reclaim": 3} and config["devices"] == "whole", str(config))
            config["schedulerName"] = "kai-scheduler"
            expected = {p["name"]: p.get("node") for p in simulate(json.dumps(before))["pods"]}
            check(expected["packed-0"] == expected["packed-1"] and expected["spread-0"] != expected["spread-1"],
                  f"the replay packs one and spreads the other: {expected}")

            operator.stop()
            m.operators, m.operator_flags = [], []
            m.start_operator(1)
            wait_for(lambda: places(m.get("pods")) == expected, f"pods where the replay put them: {expected}", 60)
        finally:
            m.kubectl("delete", "schedulingshards.kai.scheduler", "--all")


def test_a_snapshot_decided_by_simulate_is_what_the_scheduler_then_does():
    with Cluster(nodes=3, gpus_per_node=8, operator_flags=["--scheduler-name=nobody"]) as m:
        wait_for(lambda: m.get("queues"), "the default queues")
        items = [o for i, n in enumerate(SIZES) for o in gang(f"gang-{i}", n)]
        m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        operator = m.leader()
        before = wait_for(lambda: objects_are_known(operator, items), "everything in the snapshot")
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
