#!/usr/bin/env python3
"""scale.py [NODES [GANG]]: the scenarios of KAI Scheduler's scale tests, on hollow nodes with a real API server.

    gang            one gang of GANG pods with 2 GPUs each, on as many nodes
    fill            a job with one GPU for every GPU of NODES nodes
    unschedulable   the cluster is full, and all but 79 GPUs are its queue's quota: how long until a gang of 10 whole
                    nodes is told that it cannot start; mean of 5
    reclaim         the cluster is full of jobs of a queue without a quota, and another queue wants as many: how long
                    until the last of these has its GPU
    consolidation   three such jobs are left on each node, and gangs of 10 pods with 6 GPUs each want what is free: jobs
                    must move together

As there, jobs are created while the scheduler is off, and the time runs from its start (of `muster operator`, with
the reading of everything there is) to the last pod that has a node; of `unschedulable`, which finds it running, from
the creation of the group to the condition of its status. Unlike there, jobs are pods with a pod group each, which no Job
controller makes; what is evicted a program makes again, as that would. Beside each figure is KAI's from the example file of its
repository (docs/scale-tests/example-results.json, 500 nodes simulated by KWOK, of 2026-07-03; the machine is not said).
Nothing is asserted.
"""

import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from bench import REQUESTS  # noqa: E402
from controlplane import ControlPlane, Process  # noqa: E402
from cluster import Operator  # noqa: E402
from harness import Skip, binary, run, wait_for  # noqa: E402

GPUS = 8
GANG_PODS = 10
SAMPLES = 5
SECONDS = 1500  # for any one step
MOVED_GPUS = 6  # of each pod for which others move
LEFT = 3        # jobs of one GPU on each node that have to move
KAI = {"gang": 48.7, "fill": 398, "unschedulable": 249.5, "reclaim": 694, "consolidation": 456}

QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: parent}
spec: {resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: without}
spec: {parentQueue: parent, resources: {gpu: {quota: QUOTA, limit: -1, overQuotaWeight: 0}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: entitled}
spec: {parentQueue: parent, resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}}}
"""

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {args: {max-consolidation-preemptees: "4000"}}
"""


class Scale:
    def __init__(self, plane, nodes, gang):
        self.plane, self.nodes, self.gang = plane, nodes, gang
        self.operator = None
        self.hollow = []
        self.seconds = {}

    def load(self, *argv, ok=True):
        return run([binary("tests/kubernetes/load"), self.plane.kubeconfig, *map(str, argv)], limit=SECONDS, ok=ok).stdout

    def process(self, name, *argv):
        return Process(name, [*map(str, argv)], os.path.join(self.plane.folder, name + ".log")).start()

    def add_nodes(self, count, prefix):
        name = "hollow-" + prefix
        nodes = self.process(name, binary("muster"), "hollow-nodes", count, "--kubeconfig", self.plane.kubeconfig,
                             "--prefix", prefix, "--heartbeat", "0s", "--taint=false")
        wait_for(lambda: nodes.check() and "hollow.ready" in nodes.tail(), f"{count} nodes", 300)
        self.hollow.append(nodes)
        return nodes

    def on(self):
        self.operator = Operator("operator", self.plane.folder, self.plane.kubeconfig,
                                 ["--leader-elect=false", f"--kube-api-qps={REQUESTS}"]).start()

    def off(self):
        if self.operator:
            self.operator.stop()
        self.operator = None

    def install(self):
        """The kinds, and the default queues without which no cycle is complete."""
        self.on()
        wait_for(lambda: self.operator.check() and
                 self.plane.kubectl("get", "queue", "default-queue", ok=False).returncode == 0, "the default queues", 120)
        self.off()
        self.queues(0)

    def queues(self, quota):
        self.plane.kubectl("apply", "-f", "-", input=QUEUES.replace("QUOTA", str(quota)))

    def create(self, pods, gang, gpus, queue, prefix):
        self.load("create", pods, gang, "kai-scheduler", gpus, queue, prefix)

    def measure(self, pods, prefix):
        """Seconds from the start of the scheduler until so many of these pods have a node."""
        watcher = subprocess.Popen([binary("tests/kubernetes/load"), self.plane.kubeconfig, "watch", str(pods), prefix],
                                   stdout=subprocess.DEVNULL)
        began = time.monotonic()
        self.on()
        try:
            watcher.wait(SECONDS)
        finally:
            watcher.kill()
        took = time.monotonic() - began
        self.operator.check()
        return took

    def clean(self):
        self.off()

        def empty():
            self.load("delete", ok=False)
            return self.plane.kubectl("get", "pods,podgroups", "-o", "name").stdout == ""
        wait_for(empty, "an empty cluster", 600)

    def say(self, name, what, seconds):
        beside = f"   KAI's example {KAI[name]:6.1f} s" if self.nodes == 500 else ""
        print(f"  {name:14} {what:50} {seconds:8.1f} s{beside}", flush=True)

    # ---- the scenarios ----
    def play_gang(self):
        extra = self.add_nodes(self.gang - self.nodes, "extra") if self.gang > self.nodes else None
        self.create(self.gang, self.gang, 2, "without", "gang")
        self.say("gang", f"{self.gang} pods with 2 GPUs", self.measure(self.gang, "gang"))
        self.clean()
        if extra:
            extra.stop()
            self.plane.kubectl("delete", "nodes", *[f"extra-{i}" for i in range(self.gang - self.nodes)])

    def play_fill(self):
        jobs = self.nodes * GPUS
        self.create(jobs, 1, 1, "without", "job")
        self.say("fill", f"{jobs} jobs with one GPU", self.measure(jobs, "job"))

    def play_unschedulable(self):
        """On what `fill` left, with its scheduler."""
        self.queues(self.nodes * GPUS - GANG_PODS * GPUS + 1)
        total = 0.0
        for i in range(SAMPLES):
            began = time.monotonic()
            self.create(GANG_PODS, GANG_PODS, GPUS, "entitled", f"no{i}x")
            wait_for(lambda: self.is_told(f"gno{i}x0"), "the condition of the group", 600)
            total += time.monotonic() - began
            self.plane.kubectl("delete", "podgroup", f"gno{i}x0")
            self.plane.kubectl("delete", "pods", "--force", "--grace-period=0", *[f"no{i}x{j}" for j in range(GANG_PODS)])
        self.say("unschedulable", f"a gang of {GANG_PODS} pods with {GPUS} GPUs, mean of {SAMPLES}", total / SAMPLES)

    def play_reclaim(self):
        """On what `fill` left."""
        self.off()
        self.queues(0)
        jobs = self.nodes * GPUS
        self.create(jobs, 1, 1, "entitled", "other")
        self.say("reclaim", f"{jobs} jobs with one GPU", self.measure_with_jobs(jobs, "other"))
        self.clean()

    def play_consolidation(self):
        jobs = self.nodes * GPUS
        pods = self.nodes * (GPUS - LEFT) // (MOVED_GPUS * GANG_PODS) * GANG_PODS
        self.plane.kubectl("apply", "-f", "-", input=SHARD)
        self.create(jobs, 1, 1, "without", "job")
        self.measure(jobs, "job")
        self.off()
        self.load("thin", LEFT)
        self.create(pods, GANG_PODS, MOVED_GPUS, "entitled", "moves")
        self.say("consolidation", f"{pods // GANG_PODS} gangs of {GANG_PODS} pods with {MOVED_GPUS} GPUs",
                 self.measure_with_jobs(pods, "moves"))
        left = self.plane.kubectl("get", "pods", "--field-selector=spec.nodeName!=", "-o", "name").stdout.split()
        print(f"  {'':14} then {sum('/job' in name for name in left)} of {self.nodes * LEFT} jobs have a node", flush=True)
        self.clean()

    def measure_with_jobs(self, pods, prefix):
        """As measure(), with a Job controller for `job`, if you like: what is evicted comes again."""
        keeper = self.process("keep", binary("tests/kubernetes/load"), self.plane.kubeconfig, "keep", self.nodes * GPUS, "job")
        try:
            return self.measure(pods, prefix)
        finally:
            keeper.stop()

    def is_told(self, group):
        found = json.loads(self.plane.kubectl("get", "podgroup", group, "-o", "json").stdout)
        return any(c["type"] == "UnschedulableOnNodePool" for c in found.get("status", {}).get("schedulingConditions", []))


def main(argv):
    nodes, gang = (int(a) for a in (argv + ["500", "512"][len(argv):])[:2])
    with ControlPlane(controllers=False, apiserver_flags=["--disable-admission-plugins=ServiceAccount"]) as plane:
        scale = Scale(plane, nodes, gang)
        scale.add_nodes(nodes, "hollow")
        scale.install()
        print(f"{nodes} hollow nodes with {GPUS} GPUs, on {os.cpu_count()} cores with their API server:", flush=True)
        try:
            scale.play_gang()
            scale.play_fill()
            scale.play_unschedulable()
            scale.play_reclaim()
            scale.play_consolidation()
        finally:
            scale.off()
            for process in scale.hollow:
                process.stop()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
