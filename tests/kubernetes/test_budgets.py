"""PodDisruptionBudgets and who gives way, on a real API server, whose own controller counts what a budget allows."""

import json

from cluster import Cluster
from harness import check, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: {kai.scheduler/queue: default-queue, app: %(app)s}}
spec:
  schedulerName: kai-scheduler
  priorityClassName: %(priority)s
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: busybox, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 1}}}]
---
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: BUDGET}
spec: {minAvailable: 1, selector: {matchLabels: {app: APP}}}
"""
SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {args: {refused-victims: Delete}}
"""


class Budgets(Cluster):
    def stop(self):
        self._remove_all("poddisruptionbudgets")
        super().stop()


def create(m, name, app="none", priority="train"):
    m.apply(POD % {"name": name, "app": app, "priority": priority})


def node(m, name):
    return next((p["spec"].get("nodeName") for p in m.get("pods") if p["metadata"]["name"] == name), None)


def runs(m, name):
    wait_for(lambda: any(p["metadata"]["name"] == name and p["status"].get("phase") == "Running" for p in m.get("pods")),
             f"{name} to run")


def reasons(m, name):
    """Of the events about a pod."""
    return [e["reason"] for e in m.get("events") if e["involvedObject"]["name"] == name]


def guarded(m, budget):
    """The cluster's controller has looked at it, and it allows nothing."""
    m.apply(BUDGET.replace("BUDGET", budget).replace("APP", budget))
    wait_for(lambda: m.get("poddisruptionbudget", budget).get("status", {}).get("currentHealthy") == 1 and
             m.get("poddisruptionbudget", budget)["status"]["disruptionsAllowed"] == 0, f"{budget} to be counted")


def test_a_victim_that_a_budget_keeps_is_left_alone_and_another_one_goes():
    with Budgets(nodes=2, gpus_per_node=1) as m:
        create(m, "other")
        runs(m, "other")
        create(m, "keep", app="kept")  # the youngest is asked first
        runs(m, "keep")
        guarded(m, "kept")
        uid = m.get("pod", "keep")["metadata"]["uid"]
        create(m, "first", priority="build-preemptible")
        runs(m, "first")
        check(node(m, "keep") and not node(m, "other"), "the one without a budget went")
        wait_for(lambda: "EvictionRefused" in reasons(m, "keep"), "it to be said that the budget kept it")
        wait_for(lambda: "Evict" in reasons(m, "other"), "the other to be said to be evicted")

        # Nobody else is left: who comes now waits, and asks no more than once in a while.
        for name in ("second", "third"):
            create(m, name, priority="build-preemptible")
            wait_for(lambda: m.get("pod", name).get("status", {}).get("conditions"), f"{name} to be told why it waits")
        check("Evict" not in reasons(m, "keep"), f"nobody evicted it: {reasons(m, 'keep')}")
        asked = sum(e.get("count", 1) for e in m.get("events")
                    if e["involvedObject"]["name"] == "keep" and e["reason"] == "EvictionRefused")
        check(asked <= 2, f"it was asked {asked} times within half a minute")
        check(m.get("pod", "keep")["metadata"]["uid"] == uid and not node(m, "second"), "it runs on, and the second waits")
        condition = next((c for c in m.get("pod", "keep")["status"]["conditions"] if c["type"] == "DisruptionTarget"), {})
        check(condition.get("status") != "True", f"it is not marked as evicted: {condition}")


def test_where_the_pool_says_delete_a_budget_keeps_nobody():
    with Budgets(nodes=1, gpus_per_node=1) as m:
        m.apply(SHARD)
        wait_for(lambda: any(c["type"] == "Applied" for c in m.get("schedulingshard", "default").get("status", {}).get(
            "conditions", [])), "the shard to be applied")
        create(m, "keep", app="kept")
        runs(m, "keep")
        guarded(m, "kept")
        create(m, "first", priority="build-preemptible")
        runs(m, "first")
        check(not node(m, "keep"), f"it was deleted: {json.dumps(m.get('pods'))[:500]}")
        check("Evict" in reasons(m, "keep"), f"and is said to be: {reasons(m, 'keep')}")
