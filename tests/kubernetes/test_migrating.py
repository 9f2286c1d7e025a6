"""docs/migrating.md from KAI Scheduler, step by step on a real API server, and the way back.

KAI is played by a Deployment that looks like its scheduler's, and by the objects that it would have written.
"""

import json

from harness import check, wait_for
from test_sharing import RESERVED, Shared

GROUP = "3c3e7b52-kai"  # of a shared GPU
FREE = {r: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for r in ("cpu", "gpu", "memory")}


def kai_deployment():
    labels = {"app": "scheduler"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scheduler", "namespace": "kai-scheduler"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [{"name": "scheduler", "image": "ghcr.io/nvidia/kai-scheduler/scheduler:v0.9.0"}]}}}}


def queue(name, parent=None):
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
            "spec": {"resources": FREE, **({"parentQueue": parent} if parent else {})}}


def group(name, members, owner=None):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}] if owner else []
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
            "spec": {"queue": "team", "minMember": members, "priorityClassName": "train"}}


def pod(name, gpus, node=None, ns="default", labels=None, notes=None):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": ns, "annotations": notes or {},
                         "labels": {"kai.scheduler/queue": "team", **(labels or {})}},
            "spec": {"schedulerName": "kai-scheduler", "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}}]}}


class Migrated(Shared):
    """KAI is at work before Muster starts."""

    def put(self, *objects):
        for item in objects:
            self.apply(json.dumps(item))

    def grouped(self, name, gpus, node, **more):
        """A pod that KAI has grouped and bound."""
        self.put(pod(name, gpus, node, **more))
        meta = self.pod(name)["metadata"]
        self.put(group(f"pg-{name}-{meta['uid']}", 1, meta))
        self.kubectl("annotate", "pod", name, f"pod-group-name=pg-{name}-{meta['uid']}")

    def start_nodes(self):
        super().start_nodes()
        self.kubectl("delete", "mutatingwebhookconfiguration", "muster", ok=False)  # Muster is not installed yet
        self.kubectl("create", "namespace", "kai-scheduler", ok=False)
        self.put(kai_deployment(), queue("department"), queue("team", "department"))
        wait_for(self.kai, "KAI's pod")
        self.grouped("runs", 4, "hollow-0")
        reservation = pod("gpu-reservation-hollow-0-kai", 1, "hollow-0", RESERVED, {"runai-gpu-group": GROUP, "app": RESERVED},
                          {"run.ai/reserve_for_gpu_index": "GPU-kai"})
        del reservation["spec"]["schedulerName"]
        self.put(reservation)
        self.grouped("half", 0, "hollow-0", labels={"runai-gpu-group": GROUP}, notes={"gpu-fraction": "0.5"})
        self.put(group("gang", 2), *(pod(f"gang-{i}", 4, notes={"pod-group-name": "gang"}) for i in range(2)))
        self.running("runs", "half")
        self.before = self.identities()
        self.scale_kai(0)
        self.kubectl("apply", "-f", "-", input=self.manifest())

    def scale_kai(self, replicas):
        self.kubectl("scale", "deployment", "-n", "kai-scheduler", "--all", f"--replicas={replicas}")
        wait_for(lambda: len(self.kai()) == replicas, f"{replicas} pods of KAI")

    def kai(self):
        return json.loads(self.kubectl("get", "pods", "-n", "kai-scheduler", "-o", "json").stdout)["items"]

    def identities(self):
        """Name: uid of everything that KAI knows."""
        return {f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"] for kind in ("pods", "podgroups", "queues")
                for item in self.get(kind)}


def test_from_kai_scheduler_and_back():
    with Migrated(nodes=2, gpus_per_node=8) as m:
        try:
            m.running("gang-0", "gang-1", limit=60)
            check({m.pod(f"gang-{i}")["spec"]["nodeName"] for i in range(2)} == {"hollow-1"}, "what ran holds its room")
            now = m.identities()
            check(m.before.items() <= now.items(), f"everything is the object it was: {m.before.items() - now.items()}")
            made = {n for n in now.keys() - m.before.keys() if n.startswith("podgroups/")}
            check(not made, f"no second group was made: {made}")
            wait_for(lambda: m.get("queue", "team")["status"]["allocated"]["nvidia.com/gpu"] == "12500m",
                     "the queue to count four GPUs, a half, and the gang's eight")
            m.share("joins", 'gpu-fraction: "0.5"')
            m.running("joins")
            check(m.groups("joins") == {GROUP} == set(m.reservations()), f"it joins KAI's device: {m.groups('joins')}")
            check(m.told("joins")["NVIDIA_VISIBLE_DEVICES"] == m.reservations()[GROUP], "and is told which one it is")

            for operator in m.operators:
                operator.stop()
            m.operators.clear()
            half = json.dumps(pod("later", 0, notes={"gpu-fraction": "0.5"}))
            check("muster" in (m.refused(half) or ""), "with nobody behind the webhooks KAI's users would be refused")
            m.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "muster")
            check(m.refused(half) is None, "without them they are not")
            m.scale_kai(1)
            check(now.items() <= m.identities().items(), "KAI finds everything that there was")
            check(all(m.pod(n)["status"]["phase"] == "Running" for n in ("runs", "half", "joins", "gang-0", "gang-1")),
                  "and everything ran on")
        finally:
            m.kubectl("delete", "namespace", "kai-scheduler", "--wait=false")
