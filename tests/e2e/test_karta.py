"""Kinds that a Karta describes: their pods are grouped by it."""

import json
import os

from harness import ROOT, Muster, check, needs, wait_for

FLOW = """
apiVersion: example.com/v1
kind: Flow
metadata: {name: flow}
spec: {worker: {replicas: 2}}
"""


def pod(m, uid, name, role):
    m.new(json.dumps({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"example.com/role": role},
                     "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Flow", "name": "flow", "uid": uid}]},
        "spec": {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0,
                 "containers": [{"name": "main", "image": "any", "command": ["sleep", "600"]}]}}))


def test_pods_of_a_kind_that_a_karta_describes_start_together():
    """A gang of a head and two workers of a kind without a rule: nobody starts before all of them are there."""
    with Muster() as m:
        m.kubectl("apply", "-f", os.path.join(ROOT, "examples/scheduling/karta.yaml"))
        m.kubectl("wait", "--for=condition=established", "crd/flows.example.com", "--timeout=60s")
        m.apply(FLOW)
        uid = json.loads(m.kubectl("get", "flows.example.com", "flow", "-o", "json").stdout)["metadata"]["uid"]
        pod(m, uid, "head", "head")
        pod(m, uid, "worker-0", "worker")
        name = f"pg-{uid}-flow"
        group = wait_for(lambda: m.get("podgroups.scheduling.run.ai", name, ok=False), "the group of the Karta")
        check(group["spec"].get("minSubGroup") == 2, f"{group['spec']}")
        check([(s["name"], s["minMember"]) for s in group["spec"]["subGroups"]] == [("head", 1), ("worker", 2)],
              f"{group['spec']}")
        wait_for(lambda: m.get("pods", "worker-0")["metadata"].get("annotations", {}).get("pod-group-name") == name, "its pod")
        check(m.get("pods", "worker-0")["metadata"]["labels"].get("kai.scheduler/subgroup-name") == "worker",
              "the pod is in another subgroup")
        check(not m.get("pods", "head")["spec"].get("nodeName"), "a part of a gang started alone")
        pod(m, uid, "worker-1", "worker")
        for each in ("head", "worker-0", "worker-1"):
            wait_for(lambda: m.get("pods", each)["status"].get("phase") == "Running", f"{each} runs")


@needs("Kartas checked when they are written; a cluster has no webhook for them")
def test_a_karta_with_an_expression_that_is_not_understood_is_refused():
    """What could not be followed is refused when it is written, with the component and the field."""
    with Muster() as m:
        with open(os.path.join(ROOT, "examples/scheduling/karta.yaml")) as f:
            karta = f.read().split("---")[1].replace(".spec.worker.replicas", "walk(.)")
        said = m.kubectl("create", "-f", "-", input=karta, ok=False).stderr
        check("scaleDefinition.replicasPath: this function is not understood" in said, said)
