"""Somebody's own CRDs in place of ours, as `kubectl apply -k` of another operator brings them."""

import json

from harness import Muster, check, wait_for
from kubeflow import conditions, create, job

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Of a status only what a person reads, in the shape that Kubeflow's kinds have; what is not named is dropped.
STATUS = {"type": "object", "properties": {
    "conditions": {"type": "array", "items": {"type": "object", "required": ["status", "type"], "properties": {
        name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime")}}},
    "replicaStatuses": {"type": "object", "additionalProperties": {"type": "object", "properties": {
        "active": {"type": "integer"}, "failed": {"type": "integer"}, "succeeded": {"type": "integer"},
        "selector": {"type": "string"}}}},
    "startTime": {"type": "string"}, "completionTime": {"type": "string"}, "lastReconcileTime": {"type": "string"}}}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "pytorchjobs.kubeflow.org"},
    "spec": {"group": "kubeflow.org", "scope": "Namespaced",
             "names": {"kind": "PyTorchJob", "listKind": "PyTorchJobList", "plural": "pytorchjobs", "singular": "pytorchjob"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                               "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                               "spec": ANYTHING, "status": STATUS}}}}]}}


def test_restart_limits_hold_and_it_is_said_that_the_crd_is_foreign():
    with Muster() as m:
        m.kubectl("replace", "-f", "-", input=json.dumps(CRD))
        failing = job("PyTorchJob", "bad", chief="exit 1", run={"backoffLimit": 2})
        del failing["spec"]["pytorchReplicaSpecs"]["Worker"]
        create(m, failing)
        wait_for(lambda: conditions(m, "PyTorchJob", "bad").get("Failed") == "True", "the restarts to be used up", 60)
        found = m.get("pytorchjobs", "bad")
        check(not {"restarts", "phase"} & set(found["status"]), f"the CRD is ours: {found['status']}")
        words = next(c["message"] for c in found["status"]["conditions"] if c["type"] == "Failed")
        check("all 2 restarts are used up" in words and "pytorchjobs.kubeflow.org is not muster's" in words, words)
        memory = json.loads(found["metadata"]["annotations"]["muster.dev/memory"])
        check(memory["restarts"] == 2 and memory["phase"] == "Failed", str(memory))
        said = [e for e in m.get("events") if e["reason"] == "ForeignCRD" and e["involvedObject"]["name"] == "bad"]
        check(len(said) == 1 and said[0].get("count", 1) == 1 and "pytorchjobs.kubeflow.org" in said[0]["message"], str(said))
        with open(m.log) as log:
            check(sum("crd.foreign" in line for line in log) == 1, "the log says it once")
