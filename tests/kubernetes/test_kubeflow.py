"""Kubeflow's kinds on a real API server: the CRDs are accepted, their rules refuse what the embedded server refuses,
the examples pass, and the operator runs jobs."""

import json
import os

from cluster import ROOT, Cluster
from harness import check, wait_for
from kubeflow import KINDS, job, status, wait_condition

EXAMPLES = os.path.join(ROOT, "examples", "kubeflow")


def try_out(plane, body):
    """What the server says to an object; empty when it takes it."""
    done = plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(body), ok=False)
    return done.stderr if done.returncode else ""


def test_the_rules_of_the_crds_refuse_what_cannot_work():
    plane = Cluster.plane
    for kind in KINDS:
        body = job(kind, "good")
        body["metadata"]["namespace"] = "default"
        wait_for(lambda: try_out(plane, body) == "", f"the server to take a {kind}")
    for file in sorted(os.listdir(EXAMPLES)):
        plane.kubectl("create", "--dry-run=server", "-n", "default", "-f", os.path.join(EXAMPLES, file))
    two = job("PyTorchJob", "bad")
    two["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    odd = job("PyTorchJob", "bad")
    odd["spec"]["pytorchReplicaSpecs"]["worker"] = odd["spec"]["pytorchReplicaSpecs"].pop("Worker")
    rows = [
        (two, "spec.pytorchReplicaSpecs.Master.replicas must be 1"),
        (odd, 'supported values: "Master", "Worker"'),
        (job("PyTorchJob", "bad", elasticPolicy={"minReplicas": 3, "maxReplicas": 2}), "maxReplicas must be at least"),
        (job("PyTorchJob", "bad", elasticPolicy={"nProcPerNode": 2}, nprocPerNode="2"), "use spec.nprocPerNode"),
        (job("PyTorchJob", "bad", run={"managedBy": "me"}), "managedBy"),
        (job("PyTorchJob", "1st"), "metadata.name"),
    ]
    for body, words in rows:
        body["metadata"]["namespace"] = "default"
        said = try_out(plane, body)
        check(words in said, f"{words!r} is not in {said!r}")


def test_the_operator_runs_a_pytorchjob_and_an_mpijob():
    with Cluster(nodes=2, gpus_per_node=4) as m:
        for kind in ("PyTorchJob", "MPIJob"):
            body = job(kind, kind.lower(), workers=2)
            specs = body["spec"][KINDS[kind][1]]
            for role in specs.values():
                role["template"]["spec"]["schedulerName"] = "kai-scheduler"
            m.kubectl("create", "-f", "-", input=json.dumps(body))
        for kind in ("PyTorchJob", "MPIJob"):
            wait_condition(m, kind, kind.lower(), "Running", 60)
            wait_for(lambda: status(m, kind, kind.lower())["replicaStatuses"]["Worker"]["active"] == 2,
                     f"both workers of the {kind}")
        services = {s["metadata"]["name"] for s in m.get("services")}
        check({"pytorchjob-master-0", "pytorchjob-worker-1", "mpijob"} <= services, f"services: {services}")
        check(m.get("role", "mpijob-launcher") and m.get("configmap", "mpijob-config"), "the launcher's objects")
