"""Kinds that a Karta describes, on a real API server: the operator reads them with a right that is granted for them."""

import json
import os

from cluster import Cluster
from controlplane import ACCOUNT
from harness import ROOT, check, wait_for
from test_karta import FLOW, pod

EXAMPLE = os.path.join(ROOT, "examples/scheduling/karta.yaml")
# The shipped roles name no kind of others.
RIGHT = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: flows}}
rules: [{{apiGroups: [example.com], resources: [flows], verbs: [get, list, watch]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: flows}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flows}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: "{ACCOUNT}"}}]
"""


def test_pods_of_a_kind_that_a_karta_describes_are_a_gang():
    with Cluster(nodes=2) as m:
        try:
            m.apply(RIGHT)
            m.kubectl("apply", "-f", EXAMPLE)
            m.kubectl("wait", "--for=condition=established", "crd/flows.example.com", "--timeout=60s")
            m.apply(FLOW)
            uid = json.loads(m.kubectl("get", "flows.example.com", "flow", "-o", "json").stdout)["metadata"]["uid"]
            pod(m, uid, "head", "head")
            pod(m, uid, "worker-0", "worker")
            name = f"pg-{uid}-flow"
            group = wait_for(lambda: m.get("podgroups.scheduling.run.ai", name, ok=False), "the group of the Karta")
            check([(s["name"], s["minMember"]) for s in group["spec"]["subGroups"]] == [("head", 1), ("worker", 2)],
                  f"{group['spec']}")
            wait_for(lambda: m.get("pods", "worker-0")["metadata"].get("annotations", {}).get("pod-group-name") == name,
                     "its pod")
            check(not m.get("pods", "head")["spec"].get("nodeName"), "a part of a gang started alone")
            pod(m, uid, "worker-1", "worker")
            for each in ("head", "worker-0", "worker-1"):
                wait_for(lambda: m.get("pods", each)["status"].get("phase") == "Running", f"{each} to run")
        finally:
            m.kubectl("delete", "-f", EXAMPLE, "--wait=false", ok=False)
            m.kubectl("delete", "clusterrole,clusterrolebinding", "flows", ok=False)


def test_a_pod_says_which_kind_the_operator_may_not_read():
    """Without the right its pods wait, and say what is to be granted."""
    with Cluster(nodes=1, quiet=True) as m:  # it is refused on purpose
        try:
            m.kubectl("apply", "-f", EXAMPLE)
            m.kubectl("wait", "--for=condition=established", "crd/flows.example.com", "--timeout=60s")
            m.apply(FLOW)
            uid = json.loads(m.kubectl("get", "flows.example.com", "flow", "-o", "json").stdout)["metadata"]["uid"]
            pod(m, uid, "head", "head")
            wait_for(lambda: "Flow of example.com/v1: the operator needs get, list and watch of that kind" in str(
                m.get("pod", "head").get("status", {}).get("conditions")), "the pod to say what it waits for")
        finally:
            m.kubectl("delete", "-f", EXAMPLE, "--wait=false", ok=False)
