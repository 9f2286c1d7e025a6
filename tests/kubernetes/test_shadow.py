"""`muster operator --shadow` beside another scheduler, which is this test: it binds pods by hand. With the shipped rights, which
only read."""

import json
import os
import urllib.request

from cluster import ROOT, Cluster, Operator
from harness import check, wait_for

MANIFEST = os.path.join(ROOT, "deploy", "shadow.yaml")
ACCOUNT = "system:serviceaccount:muster-shadow:muster-shadow"
QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 0, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: full}
spec: {resources: {gpu: {quota: 0, limit: 0}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def gang(name, queue, pods, gpus):
    """A PodGroup and its pods, as KAI's pod grouper leaves them."""
    items = [{"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"},
              "spec": {"queue": queue, "minMember": pods}}]
    for i in range(pods):
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": f"{name}-{i}", "namespace": "default", "annotations": {"pod-group-name": name}},
            "spec": {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0, "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def report(operator):
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.debug_port}/shadow?output=json", timeout=5) as answer:
        return {g["name"]: g for g in json.loads(answer.read())["gangs"]}


def bind(m, pod, node):
    m.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{pod}/binding", "-f", "-", input=json.dumps(
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
         "target": {"apiVersion": "v1", "kind": "Node", "name": node}}))


def verdict(operator, name, word):
    wait_for(lambda: report(operator).get(name, {}).get("verdict") == word, f"{name} to be {word}")
    return report(operator)[name]


def versions(m):
    return {(o["kind"], o["metadata"]["name"]): o["metadata"]["resourceVersion"]
            for kind in ("podgroups", "queues") for o in m.get(kind)}


def test_a_shadow_says_where_it_would_have_decided_otherwise_and_writes_nothing():
    plane = Cluster.plane
    with Cluster(nodes=2, gpus_per_node=8, operators=0) as m:
        plane.kubectl("apply", "-f", MANIFEST)
        kubeconfig = plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
        shadow = Operator("shadow", m.folder, kubeconfig, ["--shadow"]).start()
        try:
            m.apply(QUEUES)
            for objects in (gang("same", "team", 2, 8), gang("full", "full", 1, 1)):
                m.apply(objects)
            before = versions(m)
            check(verdict(shadow, "same", "onlyOurs")["ours"]["nodes"] == {"hollow-0": 1, "hollow-1": 1}, "ours, on both nodes")
            check(verdict(shadow, "full", "bothWait")["ours"]["reason"] == "OverLimit", "and what waits for us says why")
            bind(m, "same-0", "hollow-1")
            bind(m, "same-1", "hollow-0")
            verdict(shadow, "same", "same")
            bind(m, "full-0", "hollow-0")
            verdict(shadow, "full", "onlyTheirs")
            m.kubectl("delete", "pod", "--all", "--force", "--grace-period=0")
            m.apply(gang("apart", "team", 1, 1))
            ours = list(verdict(shadow, "apart", "onlyOurs")["ours"]["nodes"])
            bind(m, "apart-0", "hollow-1" if ours == ["hollow-0"] else "hollow-0")
            check(verdict(shadow, "apart", "elsewhere")["theirs"]["nodes"] != {ours[0]: 1}, "theirs is another node")
            metrics = shadow.fetch("/metrics")
            for word in ("same", "onlyTheirs", "elsewhere"):
                check(f'muster_shadow_compared_total{{verdict="{word}"}} 1\n' in metrics, f"{word} is counted: {metrics[-800:]}")
            check(shadow.tail(1000).count("shadow.differs") == 2, f"differences are in the log: {shadow.tail()}")
            after = versions(m)
            check(all(after[key] == value for key, value in before.items()), f"no status was written: {before} {after}")
        finally:
            shadow.stop()
            plane.kubectl("delete", "-f", MANIFEST, "--ignore-not-found", "--wait=false", ok=False)
