"""The operator on a real API server: it leads, controls, and hands over."""

import json
import time
import urllib.request

from cluster import Cluster
from harness import PATIENCE, check, wait_for

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: team, namespace: default}
spec: {nodeResources: {gpus: 8, cpus: 8, memory: 16Gi}}
"""


def job(name, gpus, **extra):
    more = "".join(f"  {k}: {v}\n" for k, v in extra.items())
    return f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}, namespace: default}}
spec:
  jobQueue: team
  command: python train.py
  numGPUs: {gpus}
{more}"""


def test_makes_the_objects_of_a_job():
    with Cluster(nodes=2, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("one", 16))
        wait_for(lambda: len(m.get("pods")) == 2, "two worker pods")
        wait_for(lambda: m.get("podgroups"), "a pod group")
        check(m.get("service", "one"), "a headless service")
        owner = m.get("pods")[0]["metadata"]["ownerReferences"][0]
        check(owner["kind"] == "TorchrunJob", f"owned by {owner}")


def test_metrics_name_the_queue_and_the_snapshot_leaves_values_out():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("one", 8, env="[{name: TOKEN, value: hunter2}]"))
        wait_for(lambda: m.phase("one") == "Running", "the job to run")
        operator = m.leader()
        line = 'kai_queue_allocated_gpus{queue_name="team",queue_metadata_name="team",queue_display_name=""} 8'
        wait_for(lambda: line in operator.fetch("/metrics"),
                 "the queue's GPUs in /metrics")
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.debug_port}/debug/snapshot", timeout=10) as answer:
            items = json.load(answer)["items"]
        kinds = {i["kind"] for i in items}
        check({"Node", "Pod", "Queue", "PodGroup"} <= kinds, f"kinds of the snapshot: {kinds}")
        text = json.dumps(items)
        check("hunter2" not in text and "python train.py" not in text, "environments and commands are left out")


def test_second_replica_follows_an_orderly_stop_within_two_seconds():
    with Cluster(nodes=1, gpus_per_node=8, operators=2) as m:
        first = m.leader()
        wait_for(lambda: all(o.ready() for o in m.operators), "both replicas to be ready")
        began = time.monotonic()
        first.stop()
        second = wait_for(lambda: m.leader(), "the other replica to lead", 10)
        took = time.monotonic() - began
        print(f"followed {took:.1f} s after SIGTERM")
        check(second is not first and took < 2 * PATIENCE, f"followed {took:.1f} s after SIGTERM")
        m.apply(QUEUE)
        m.apply(job("after", 8))
        wait_for(lambda: m.get("pods"), "the new leader to make pods")


def test_second_replica_follows_a_killed_one_within_ten_seconds():
    with Cluster(nodes=1, gpus_per_node=8, operators=2) as m:
        first = m.leader()
        m.apply(QUEUE)
        first.kill()
        began = time.monotonic()
        wait_for(lambda: m.leader(), "the other replica to lead", 15)
        took = time.monotonic() - began
        print(f"followed {took:.1f} s after SIGKILL")
        check(took < 10, f"followed {took:.1f} s after SIGKILL")
        m.apply(job("after", 8))
        wait_for(lambda: m.get("pods"), "the new leader to make pods")


CONFIG = """
apiVersion: kai.scheduler/v1
kind: Config
metadata: {name: kai-config}
spec: {namespace: elsewhere, global: {queueLabelKey: team}}
"""


def test_kais_config_is_followed_and_told_what_took_effect():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        wait_for(lambda: m.get("queues"), "the default queues")
        m.apply(CONFIG)

        def said():
            conditions = (m.get("config.kai.scheduler", "kai-config") or {}).get("status", {}).get("conditions", [])
            return next((c for c in conditions if c["type"] == "Applied"), {})
        wait_for(lambda: said().get("reason") == "PartlyIgnored", "the Config to be answered")
        check("namespace" in said()["message"] and "queueLabelKey" not in said()["message"], said()["message"])
        m.apply(json.dumps({"apiVersion": "v1", "kind": "Pod",
                            "metadata": {"name": "labelled", "namespace": "default", "labels": {"team": "default"}},
                            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}}))
        wait_for(lambda: [g["spec"]["queue"] for g in m.get("podgroups")] == ["default"], "a group in the queue of the label")


def pod_of(scheduler, name):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                       "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}})


def test_another_scheduler_name_is_gone_by_everywhere():
    """Pods of that name are placed, those of jobs carry it, and the usual name is somebody else's."""
    with Cluster(nodes=1, gpus_per_node=8, operator_flags=["--scheduler-name", "ours"]) as m:
        m.apply(pod_of("kai-scheduler", "theirs"))
        m.apply(pod_of("ours", "placed"))
        wait_for(lambda: m.get("pod", "placed")["status"]["phase"] == "Running", "the pod of that name to run")
        m.apply(QUEUE)
        m.apply(job("one", 8))
        wait_for(lambda: m.phase("one") == "Running", "the job to run")
        check(m.get("pod", "one-worker-0")["spec"]["schedulerName"] == "ours", "its pod carries the name")
        theirs = m.get("pod", "theirs")
        check(not theirs["spec"].get("nodeName") and "pod-group-name" not in theirs["metadata"].get("annotations", {}),
              "a pod of the usual name is left alone")
