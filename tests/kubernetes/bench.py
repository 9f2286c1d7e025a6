#!/usr/bin/env python3
"""bench.py [PODS [NODES [RUNS]]]: pods bound a second on a real API server, in one run side by side:

    loop            a bare loop that binds, nothing else: the limit
    muster          `muster operator`, gangs of 8
    kube-scheduler  the same pods, no gangs

All pods exist before the scheduler starts, so that creating them costs nobody anything; a watcher takes the
time from the first bound pod to the last. Nodes are hollow and do not run what is bound. Medians of RUNS rounds.
Then the operator's memory with 20,000 pods on 1,000 nodes.
"""

import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from controlplane import ControlPlane, Process  # noqa: E402
from cluster import Operator  # noqa: E402
from harness import Skip, binary, run, wait_for  # noqa: E402

GANG = 8
MEMORY_PODS = 20000


class Bench:
    def __init__(self, plane, pods, nodes):
        self.plane, self.pods, self.nodes = plane, pods, nodes

    def load(self, *argv, limit=600):
        return run([binary("tests/kubernetes/load"), self.plane.kubeconfig, *map(str, argv)], limit=limit).stdout

    def prepare(self):
        nodes = Process("hollow", [binary("muster"), "hollow-nodes", str(self.nodes), "--kubeconfig",
                                   self.plane.kubeconfig, "--heartbeat", "0s"],
                        os.path.join(self.plane.folder, "hollow.log")).start()
        wait_for(lambda: nodes.check() and "hollow.ready" in nodes.tail(), "the nodes", 120)
        nodes.stop()

    def watcher(self, count):
        return subprocess.Popen([binary("tests/kubernetes/load"), self.plane.kubeconfig, "watch", str(count)],
                                text=True, stdout=subprocess.PIPE)

    def rate(self, watcher):
        count, seconds = watcher.communicate(timeout=900)[0].split()
        return int(count) / float(seconds)

    def clean(self):
        self.load("delete")
        wait_for(lambda: self.plane.kubectl("get", "pods", "-o", "name").stdout == "", "an empty cluster", 300)

    def round(self, name, scheduler, start):
        self.load("create", self.pods, GANG, scheduler)
        watcher = self.watcher(self.pods)
        process = start()
        rate = self.rate(watcher)
        rss = peak_rss(process)
        process.stop()
        self.clean()
        print(f"  {name}: {rate:.0f} pods/s, peak RSS {rss >> 20} MiB", flush=True)
        return rate

    def loop(self):
        return self.round("loop", "bare-loop", lambda: Process(
            "loop", [binary("tests/kubernetes/load"), self.plane.kubeconfig, "bind", str(self.pods), str(GANG),
                     str(self.nodes)], os.path.join(self.plane.folder, "loop.log")).start())

    def muster(self):
        return self.round("muster", "kai-scheduler", lambda: Operator(
            "operator", self.plane.folder, self.plane.kubeconfig, ["--leader-elect=false"]).start())

    def kube_scheduler(self):
        def start():
            self.plane.start_scheduler()
            return self.plane.kube_scheduler
        return self.round("kube-scheduler", "default-scheduler", start)

    def memory(self):
        """RSS of the operator once it has seen MEMORY_PODS bound pods."""
        self.load("create", MEMORY_PODS, GANG, "kai-scheduler", limit=1200)
        self.load("bind", MEMORY_PODS, GANG, self.nodes, limit=1200)
        operator = Operator("operator", self.plane.folder, self.plane.kubeconfig, ["--leader-elect=false"]).start()
        wait_for(operator.ready, "the operator to know everything", 300)
        rss = current_rss(operator)
        operator.stop()
        return rss


def status(process, key):
    with open(f"/proc/{process.process.pid}/status") as f:
        return next(int(l.split()[1]) * 1024 for l in f if l.startswith(key))


def peak_rss(process):
    try:
        return status(process, "VmHWM")
    except (OSError, StopIteration):
        return 0


def current_rss(process):
    return status(process, "VmRSS")


def main(argv):
    pods, nodes, runs = (int(a) for a in (argv + ["5000", "1000", "3"][len(argv):])[:3])
    pods -= pods % GANG
    with ControlPlane(controllers=False, apiserver_flags=["--disable-admission-plugins=ServiceAccount"]) as plane:
        bench = Bench(plane, pods, nodes)
        bench.prepare()
        rates = {"loop": [], "muster": [], "kube-scheduler": []}
        for i in range(runs):
            print(f"round {i + 1}", flush=True)
            rates["loop"].append(bench.loop())
            rates["muster"].append(bench.muster())
            rates["kube-scheduler"].append(bench.kube_scheduler())
        best = {k: statistics.median(v) for k, v in rates.items()}
        print(f"{pods} pods in gangs of {GANG} on {nodes} hollow nodes, medians of {runs}:")
        for name, rate in best.items():
            print(f"  {name:15} {rate:6.0f} pods/s   {100 * rate / best['loop']:5.0f} % of the loop")
        if "--no-memory" not in sys.argv:
            print(f"  operator with {MEMORY_PODS} pods: {bench.memory() >> 20} MiB RSS (at most 100)")


if __name__ == "__main__":
    try:
        main([a for a in sys.argv[1:] if not a.startswith("-")])
    except Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
