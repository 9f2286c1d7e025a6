#!/usr/bin/env python3
"""bench.py [PODS [NODES [RUNS]]]: pods bound a second on a real API server, in one run side by side:

    loop            a bare loop that binds, nothing else: the limit
    muster          `muster operator`, gangs of 8
    kube-scheduler  the same pods, no gangs

All pods exist before the scheduler starts, so that creating them costs nobody anything; a watcher takes the
time from the first bound pod to the last. Nodes are hollow and do not run what is bound. All three ask as the same
user, with the same limit of requests. Each of RUNS rounds begins with another of them; medians count, and what share of
the two processors' time went to the API server says what the limit is. Then the operator's memory with 20,000 pods on
1,000 nodes. Budgets stand beside what was measured; none is asserted.
"""

import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from controlplane import ControlPlane, Process  # noqa: E402
from cluster import Operator  # noqa: E402
from harness import Skip, binary, run, wait_for  # noqa: E402

GANG = 8
MEMORY_PODS = 20000
OF_THE_LOOP = 0.9
MEMORY_BYTES = 100 * 1000 * 1000
REQUESTS = 5000  # a second, for whoever has a limit; far beyond what the server answers


class Bench:
    def __init__(self, plane, pods, nodes):
        self.plane, self.pods, self.nodes = plane, pods, nodes
        self.took = 0.0  # seconds of the last round, from the start of the scheduler to the last bound pod

    def load(self, *argv, limit=600, ok=True):
        return run([binary("tests/kubernetes/load"), self.plane.kubeconfig, *map(str, argv)], limit=limit, ok=ok).stdout

    def prepare(self):
        nodes = Process("hollow", [binary("muster"), "hollow-nodes", str(self.nodes), "--kubeconfig",
                                   self.plane.kubeconfig, "--heartbeat", "0s", "--taint=false"],
                        os.path.join(self.plane.folder, "hollow.log")).start()
        wait_for(lambda: nodes.check() and "hollow.ready" in nodes.tail(), "the nodes", 120)
        nodes.stop()
        # Once installed: without its queues the first cycle would tell every pod that there are none.
        operator = self.operator()
        wait_for(lambda: operator.check() and self.plane.kubectl("get", "queue", "default-queue", ok=False).returncode == 0,
                 "the default queues", 60)
        operator.stop()

    def watcher(self, count):
        return subprocess.Popen([binary("tests/kubernetes/load"), self.plane.kubeconfig, "watch", str(count)],
                                text=True, stdout=subprocess.PIPE)

    def rate(self, watcher):
        count, seconds = watcher.communicate(timeout=900)[0].split()
        return int(count) / float(seconds)

    def clean(self):
        """To delete thousands takes the server longer than a client waits at times: again until nothing is left."""
        def empty():
            self.load("delete", ok=False)
            return self.plane.kubectl("get", "pods", "-o", "name").stdout == ""
        wait_for(empty, "an empty cluster", 300)

    def create(self, scheduler):
        self.load("create", self.pods, GANG, scheduler)

    def round(self, name, scheduler, start):
        self.create(scheduler)
        watcher = self.watcher(self.pods)
        began = time.monotonic()
        server, process = cpu_seconds(self.plane.apiserver), start()
        rate = self.rate(watcher)
        self.took = time.monotonic() - began
        own, server = cpu_seconds(process), cpu_seconds(self.plane.apiserver) - server
        rss = status(process, "VmHWM") if process.alive() else 0
        process.stop()
        print(f"  {name:15} {rate:6.0f} pods/s   CPU of its own {own:5.1f} s, of the API server {server:5.1f} s"
              + (f", peak RSS {rss / 1e6:.0f} MB" if rss else ""), flush=True)
        self.clean()
        return rate

    def loop(self):
        return self.round("loop", "bare-loop", lambda: Process(
            "loop", [binary("tests/kubernetes/load"), self.plane.kubeconfig, "bind", str(self.pods), str(GANG),
                     str(self.nodes)], os.path.join(self.plane.folder, "loop.log")).start())

    def operator(self):
        return Operator("operator", self.plane.folder, self.plane.kubeconfig,
                        ["--leader-elect=false", f"--kube-api-qps={REQUESTS}"]).start()

    def muster(self):
        return self.round("muster", "kai-scheduler", self.operator)

    def kube_scheduler(self):
        def start():
            self.plane.start_scheduler(self.plane.kubeconfig, REQUESTS)
            return self.plane.kube_scheduler
        return self.round("kube-scheduler", "default-scheduler", start)

    def memory(self):
        """RSS of the operator once it has seen MEMORY_PODS bound pods."""
        self.load("create", MEMORY_PODS, GANG, "kai-scheduler", limit=1200)
        self.load("bind", MEMORY_PODS, GANG, self.nodes, limit=1200)
        operator = self.operator()
        wait_for(operator.ready, "the operator to know everything", 300)
        rss = status(operator, "VmRSS")
        operator.stop()
        return rss


def status(process, key):
    with open(f"/proc/{process.process.pid}/status") as f:
        return next((int(l.split()[1]) * 1024 for l in f if l.startswith(key)), 0)  # 0: it is ending


def cpu_seconds(process):
    """User and system time so far; of one that has ended, none."""
    try:
        with open(f"/proc/{process.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def verdict(met):
    return "met" if met else "MISSED"


def main(argv):
    pods, nodes, runs = (int(a) for a in (argv + ["5000", "1000", "3"][len(argv):])[:3])
    pods -= pods % GANG
    with ControlPlane(controllers=False, apiserver_flags=["--disable-admission-plugins=ServiceAccount"]) as plane:
        bench = Bench(plane, pods, nodes)
        bench.prepare()
        turns = [("loop", bench.loop), ("muster", bench.muster), ("kube-scheduler", bench.kube_scheduler)]
        rates = {name: [] for name, _ in turns}
        for i in range(runs):
            print(f"round {i + 1}", flush=True)
            for name, turn in turns[i % 3:] + turns[:i % 3]:
                rates[name].append(turn())
        median = {name: statistics.median(seen) for name, seen in rates.items()}
        print(f"{pods} pods on {nodes} hollow nodes, medians of {runs}:")
        for name, rate in median.items():
            print(f"  {name:15} {rate:6.0f} pods/s   {100 * rate / median['loop']:4.0f} % of the loop")
        muster = median["muster"]
        print(f"  at least {100 * OF_THE_LOOP:.0f} % of the loop: {verdict(muster >= OF_THE_LOOP * median['loop'])}\n"
              f"  at least kube-scheduler, without gangs: {verdict(muster >= median['kube-scheduler'])}", flush=True)
        if "--no-memory" not in sys.argv:
            rss = bench.memory()
            print(f"  operator with {MEMORY_PODS} pods on {nodes} nodes: {rss / 1e6:.0f} MB RSS, at most "
                  f"{MEMORY_BYTES / 1e6:.0f}: {verdict(rss <= MEMORY_BYTES)}")


if __name__ == "__main__":
    try:
        main([a for a in sys.argv[1:] if not a.startswith("-")])
    except Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
