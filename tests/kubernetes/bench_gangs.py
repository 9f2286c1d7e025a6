#!/usr/bin/env python3
"""bench_gangs.py [GANGS [NODES [RUNS]]]: gangs bound a second on Kubernetes 1.37, by its own scheduler and by ours.

Each gang is a PodGroup of scheduling.k8s.io with 8 pods of one GPU, all of which must start together. Both schedulers are
given the same objects, on one API server with the gates of the Workload API on, one after the other; each of RUNS rounds
begins with the other one, and medians count. As in bench.py all pods exist before the scheduler starts, nodes are hollow
and run nothing, and a watcher takes the time. It is counted twice: from the first bound pod, which leaves out what a
scheduler does for all gangs before it binds one, and from its start, with the reading of everything there is. The goal stands
beside what was measured; nothing is asserted.
"""

import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import workloads  # noqa: E402
from bench import GANG, REQUESTS, Bench, verdict  # noqa: E402
from cluster import Operator  # noqa: E402
from controlplane import binaries  # noqa: E402
from harness import Skip  # noqa: E402

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GOAL = 10  # times as many as kube-scheduler
# A group would stay for its finalizer, which a controller takes off that does not run here.
NO_ADMISSION = "--disable-admission-plugins=ServiceAccount,PodGroupProtection"


class GangBench(Bench):
    def create(self, scheduler):
        self.load("gangs", self.pods, GANG, scheduler)

    def clean(self):
        super().clean()
        self.plane.request("DELETE", GROUPS)

    def operator(self):
        return Operator("operator", self.plane.folder, self.plane.kubeconfig,
                        ["--leader-elect=false", f"--kube-api-qps={REQUESTS}", "--scheduler-name", "muster"]).start()

    def muster(self):
        return self.round("muster", "muster", self.operator)

    def measure(self, turn):
        """Gangs a second: from the first bound pod, and from the start of the scheduler."""
        bound = turn() / GANG
        return bound, self.pods / GANG / self.took


def main(argv):
    gangs, nodes, runs = (int(a) for a in (argv + ["100", "100", "3"][len(argv):])[:3])
    binaries("etcd", "kube-apiserver", "kube-scheduler")
    with workloads.plane(controllers=False, apiserver_flags=[NO_ADMISSION]) as plane:
        bench = GangBench(plane, gangs * GANG, nodes)
        bench.prepare()
        turns = [("muster", bench.muster), ("kube-scheduler", bench.kube_scheduler)]
        rates = {name: [] for name, _ in turns}
        for i in range(runs):
            print(f"round {i + 1}", flush=True)
            for name, turn in turns[i % 2:] + turns[:i % 2]:
                rates[name].append(bench.measure(turn))
        print(f"{gangs} gangs of {GANG} pods on {nodes} hollow nodes, medians of {runs}:")
        for i, what in enumerate(("from the first bound pod to the last", "from the start of the scheduler")):
            ours, theirs = (statistics.median(seen[i] for seen in rates[name]) for name, _ in turns)
            print(f"  {what:37} muster {ours:6.1f} gangs/s, kube-scheduler {theirs:6.1f}: "
                  f"{ours / theirs:.1f} times as many, at least {GOAL}: {verdict(ours >= GOAL * theirs)}")


if __name__ == "__main__":
    try:
        main([a for a in sys.argv[1:] if not a.startswith("-")])
    except Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
