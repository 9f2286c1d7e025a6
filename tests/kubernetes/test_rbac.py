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


# The part of the operator that stops working without a rule: what a user would see not happening.
def exercise(m, limit):
    """Everything the roles are for, in one job; raises Failure when something does not happen."""
    m.apply(QUEUE)
    m.apply(job("all", 16))
    wait_for(lambda: m.phase("all") == "Running", "the job to run", limit)
    wait_for(lambda: any(q["metadata"]["name"] == "team" for q in m.get("queues")), "the queue", limit)
    wait_for(lambda: any(e["reason"] == "Scheduled" for e in m.get("events")), "events", limit)


def rules():
    """(role, rule) of every rule whose removal the exercise must notice."""
    return [("muster-leader", 0), ("muster-leader", 1), ("muster-jobs", 0), ("muster-jobs", 1), ("muster-jobs", 3),
            ("muster-groups", 0), ("muster-scheduler", 1)]


def without(objects, role, index):
    changed = copy.deepcopy(objects)
    for item in changed:
        if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] == role:
            del item["rules"][index]
    return changed


def apply_all(m, objects):
    m.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def removed(role, index):
    """The exercise fails when this rule is missing."""
    plane = Cluster.plane
    objects = shipped(plane)
    kubeconfig = plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
    apply_all(plane, without(objects, role, index))
    try:
        with Cluster(nodes=2, gpus_per_node=8, kubeconfig=kubeconfig, start_limit=5, quiet=True) as m:
            exercise(m, 5)
    except Failure:
        return
    finally:
        apply_all(plane, objects)
    raise Failure(f"rule {index} of {role} was removed and nothing was missing")


def _make(role, index):
    def test():
        removed(role, index)
    return test


for _role, _index in rules():
    _name = f"test_rule_{_index}_of_{_role.replace('-', '_')}_is_needed"
    globals()[_name] = _make(_role, _index)
