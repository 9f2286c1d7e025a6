"""The shipped roles are enough, and none of their rules is idle."""

import copy
import json
import os

from cluster import ROOT, Cluster
from harness import Failure, check, run, wait_for
from test_operator import QUEUE, job

ACCOUNT = "system:serviceaccount:muster-system:muster-operator"
ROLES = os.path.join(ROOT, "deploy", "rbac", "role.yaml")


def shipped(m):
    """The objects of role.yaml as data."""
    text = m.kubectl("create", "--dry-run=client", "-o", "json", "-f", ROLES).stdout
    decoder, at, objects = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at)
        objects += value["items"] if value["kind"] == "List" else [value]
        while at < len(text) and text[at].isspace():
            at += 1
    return objects


def test_the_shipped_roles_are_enough():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", ROLES)
    kubeconfig = plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
    with Cluster(nodes=2, gpus_per_node=8, kubeconfig=kubeconfig) as m:
        m.apply(QUEUE)
        m.apply(job("allowed", 16))
        wait_for(lambda: len(m.get("pods")) == 2, "the pods of the job")
        wait_for(lambda: (m.phase("allowed") or "") == "Running", "the job to run", 30)
        m.kubectl("delete", "torchrunjob", "allowed")
        wait_for(lambda: not m.get("pods"), "its pods to go")
        refused = [l for l in m.operators[0].tail(10000).splitlines() if "forbidden" in l]
        check(not refused, "the server refused nothing: " + "\n".join(refused[:3]))
