"""Gangs on a real API server, where the binds of a gang are separate requests: whole in the end, or not at all."""

import time

from cluster import Cluster
from harness import check, wait_for
from proxy import Proxy
from test_operator import QUEUE, job

UNDONE_WITHIN = 20  # seconds in which a gang that cannot be whole has lost the pods that were bound


def pods_of(m, name):
    return [p for p in m.get("pods") if p["metadata"]["name"].startswith(name + "-worker-")]


def bound(pods):
    return [p for p in pods if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")]


def runs(m, name, count, limit=60):
    wait_for(lambda: m.phase(name) == "Running" and len(bound(pods_of(m, name))) == count,
             f"{name} to run with {count} pods", limit)


def test_a_gang_that_does_not_fit_waits_whole_and_says_why():
    with Cluster(nodes=2, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("first", 8))
        runs(m, "first", 1)
        m.apply(job("second", 16))
        wait_for(lambda: len(pods_of(m, "second")) == 2, "the pods of the second job")

        def reason():
            groups = [g for g in m.get("podgroups") if "second" in g["metadata"]["name"]]
            return groups and groups[0].get("status", {}).get("message")
        check("GPU" in wait_for(reason, "a reason in the group's status"), "the reason names what is missing")
        check(not bound(pods_of(m, "second")), "no pod of a gang that does not fit is bound")
        m.kubectl("delete", "torchrunjob", "first", "--wait=false")
        runs(m, "second", 2)


def test_binds_that_fail_or_whose_answer_is_lost_complete_the_gang():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        m.apply(QUEUE)
        proxy.faults(percent=50, seed=7, kinds=("500", "429", "500-after", "reset-before", "reset-after"),
                     only=lambda method, path: path.split("?")[0].endswith("/binding"))
        m.apply(job("whole", 32))
        runs(m, "whole", 4)
        check(sum(proxy.injected.values()) > 0, "binds were disturbed")
        check(m.operators[0].metric("muster_gangs_undone_total") == 0, "nothing had to be undone")


def test_a_gang_with_one_impossible_bind_is_undone_and_formed_again():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        m.apply(QUEUE)
        proxy.faults(percent=100, kinds=("409",),
                     only=lambda method, path: "/pods/torn-worker-3/binding" in path)
        m.apply(job("torn", 32))
        operator = m.operators[0]
        wait_for(lambda: operator.metric("muster_gangs_undone_total") > 0, "the gang to be undone", 30)
        proxy.clear()
        runs(m, "torn", 4)


def test_a_leader_killed_in_the_middle_of_a_gang_leaves_no_part_of_it():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig) as m:
        first = m.operators[0]
        m.operator_kubeconfig = m.plane.kubeconfig
        m.apply(QUEUE)
        second = m.start_operator(1)
        wait_for(lambda: second.ready(), "the second replica")
        proxy.faults(percent=100, kinds=("timeout-before",),
                     only=lambda method, path: path.split("?")[0].endswith("/binding") and "worker-0" not in path)
        m.apply(job("half", 32))
        wait_for(lambda: len(bound(pods_of(m, "half"))) == 1, "one of four pods to be bound")
        first.kill()
        wait_for(lambda: second.leading(), "the second replica to lead", 20)
        began = time.monotonic()
        runs(m, "half", 4)
        check(time.monotonic() - began < UNDONE_WITHIN, f"whole after {time.monotonic() - began:.1f} s")


def test_logs_of_pods_that_are_gone_are_said_to_be_gone():
    """No node keeps them here, and an applied job without a workspace has no sync pod."""
    with Cluster(nodes=2, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("applied", 16))
        runs(m, "applied", 2)
        m.kubectl("delete", "pod", "applied-worker-1", "--wait=false", "--grace-period=1")
        wait_for(lambda: m.get("torchrunjob", "applied")["status"].get("generation") == 1, "the next generation")
        runs(m, "applied", 2)
        done = m.torchrun("logs", "applied", "--previous", ok=False)
        for words in ("the pods of that generation are gone", "job applied has no sync pod that kept their logs",
                      "workspaceStorage.source: existing", "`status` has what failed last\n"):
            check(words in done.stderr, f"{words!r} is not in {done.stderr!r}")
