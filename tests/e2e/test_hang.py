"""Ranks that hang are named, and a hang that is proven restarts the gang. The ranks have PyTorch; their torchrun has none
(torchrun_alone.py), as it only starts and ends them."""

import json
import os
import signal
import time

from harness import Muster, check, needs, python_of_ranks, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: q}}
spec:
  nodeResources: {{gpus: 1}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: t, annotations: {{muster.dev/observe: "{observe}"}}}}
spec:
  jobQueue: q
  numNodes: 2
  nprocPerNode: 2
  command: {python} {script} 20 {file}
  env:
  - {{name: MUSTER_TEST_FOLDER, value: {folder}}}
  - {{name: MUSTER_TEST_FAULT, value: "{fault}"}}
  - {{name: MUSTER_TEST_ROUNDS, value: "1"}}
  reliability: {{restartMode: {mode}}}
"""


class Training:
    def __init__(self, m, fault="", mode="Pods", observe="on"):
        self.m = m
        self.file = f"/tmp/{os.path.basename(m.folder)}.go"  # in the pod
        m.apply(JOB.format(python=python_of_ranks(), script=os.path.join(HERE, "ddp.py"), file=self.file, folder=m.folder,
                           fault=fault, mode=mode, observe=observe))

    def status(self):
        return (self.m.get("torchrunjob", "t") or {}).get("status", {})

    def hung(self):
        return next((c for c in self.status().get("conditions", []) if c["type"] == "Hung"), {})

    def ranks(self):
        """What is told of them: rank -> report."""
        found = {}
        for pod in self.m.get("pods"):
            for report in json.loads(pod["metadata"].get("annotations", {}).get("muster.dev/ranks", "[]")):
                found[report["rank"]] = report
        return found

    def pid(self, rank):
        """The process out here that is the rank."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environment = f.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    command = f.read().split(b"\0")
            except OSError:
                continue
            if f"RANK={rank}".encode() in environment and command[1:2] == [os.path.join(HERE, "ddp.py").encode()] and \
                    f"MUSTER_TEST_FOLDER={self.m.folder}".encode() in environment:
                return int(pid)
        return None

    def torchrun(self, rank):
        """The torchrun out here that the rank is of."""
        pid = self.pid(rank)
        while pid > 1:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"torch.distributed.run" in f.read().split(b"\0"):
                    return pid
            with open(f"/proc/{pid}/stat") as f:
                pid = int(f.read().rsplit(")", 1)[1].split()[1])
        return None

    def wait_training(self):
        wait_for(lambda: [r["act"] for r in self.ranks().values()] == ["stepping"] * 4, "four ranks to make steps", 90)

    def wait_suspected(self, words):
        def suspected():
            hung = self.hung()
            return hung.get("status") == "True" and words in hung["message"] and hung
        hung = wait_for(suspected, "somebody to be suspected", 120)
        print(hung["message"])
        check(hung["reason"] == "Suspected" and "rank 3 (pod t-worker-1, node " in hung["message"], f"{hung}")

    def finish(self, restarts):
        wait_for(lambda: self.status().get("phase") in ("Succeeded", "Failed"), "the job to end", 90)
        end = self.status()
        check(end["phase"] == "Succeeded" and end.get("restarts", 0) == restarts, f"{end}")
        return end


@needs("a node agent that looks at the ranks")
def test_a_stopped_rank_is_named_and_the_gang_starts_again():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        training = Training(m)
        training.wait_training()
        os.kill(training.pid(2), signal.SIGSTOP)
        since = time.monotonic()
        failure = wait_for(lambda: training.status().get("failure"), "the hang to be a failure", 90)
        print(f"named after {time.monotonic() - since:.1f} s: {failure['message']}")
        check(failure["pod"] == "t-worker-1" and failure["reason"] == "Hung", f"{failure}")
        check("rank 2 (pod t-worker-1, node " in failure["message"] and "is stopped by a signal" in failure["message"] and
              "3 ranks wait for it" in failure["message"], f"{failure}")
        training.finish(restarts=1)
        print(f"trained to its end after {time.monotonic() - since:.1f} s")
        told = m.kubectl("get", "events").stdout
        check("is stopped by a signal" in told, told)
        check(training.hung()["status"] == "False", f"{training.hung()}")


@needs("a node agent that looks at the ranks")
def test_a_gang_restarts_in_place_after_a_hang_and_after_a_failure():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        training = Training(m, mode="InPlace")
        training.wait_training()
        pods = {p["metadata"]["uid"] for p in m.get("pods")}
        first = training.pid(0)
        os.kill(training.pid(2), signal.SIGSTOP)
        since = time.monotonic()
        wait_for(lambda: training.status().get("restartsInPlace") == 1, "the gang to restart in place", 90)
        check("restart 1 of 3, in place" in m.kubectl("get", "events").stdout, "told in an event")
        wait_for(lambda: training.pid(0) not in (None, first), "a new rank 0", 90)
        training.wait_training()
        print(f"a stopped rank: steps again after {time.monotonic() - since:.1f} s")
        check("1 (1 in place)" in m.torchrun("status", "t").stdout, "told by the plugin")
        since = time.monotonic()
        os.kill(training.pid(2), signal.SIGKILL)
        end = training.finish(restarts=2)
        print(f"a killed rank: trained to its end after {time.monotonic() - since:.1f} s")
        check(end.get("restartsInPlace") == 2 and end.get("generation", 0) == 0, f"{end}")
        check(end["failure"]["pod"] == "t-worker-1", f"{end}")
        check({p["metadata"]["uid"] for p in m.get("pods")} == pods, "the pods are the same")


@needs("a node agent that looks at the ranks")
def test_an_elastic_gang_restarts_in_place_after_a_hang_and_when_a_torchrun_ends():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES, pytorch="ranks") as m:
        training = Training(m, mode="InPlace}\n  elastic: {minNodes: 1, maxNodes: 2")
        training.wait_training()

        def workers():
            return {p["metadata"]["uid"] for p in m.get("pods") if "-worker-" in p["metadata"]["name"]}
        pods = workers()
        first = training.pid(0)
        os.kill(training.pid(2), signal.SIGSTOP)
        wait_for(lambda: training.status().get("restartsInPlace") == 1, "the gang to restart in place", 90)
        wait_for(lambda: training.pid(0) not in (None, first), "a new rank 0", 90)
        training.wait_training()
        check(workers() == pods, "the pods are the same")
        os.kill(training.torchrun(2), signal.SIGKILL)
        end = training.finish(restarts=2)
        check(end.get("restartsInPlace") == 2 and end.get("generation", 0) == 0, f"{end}")
        check(workers() <= pods, "a pod was made anew")  # one that is done ends an elastic gang, and the others go


@needs("a node agent that looks at the ranks")
def test_a_rank_that_waits_for_data_is_named_and_nothing_is_restarted():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        training = Training(m, "loader")
        training.wait_suspected("waits in the data loader")
        wait_for(lambda: "Suspected: rank 3" in m.torchrun("status", "t").stdout, "the plugin to say so")
        m.kubectl("exec", "t-worker-1", "--", "touch", training.file)
        training.finish(restarts=0)
        check(training.hung()["status"] == "False", f"{training.hung()}")


@needs("a node agent that looks at the ranks")
def test_a_rank_that_waits_for_its_own_lock_is_named():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        Training(m, "lock").wait_suspected("waits for a lock in its own code")


@needs("a node agent that looks at the ranks")
def test_a_rank_that_is_a_fifth_slower_is_named():
    """It works a fifth longer outside of the collective; the steps of all ranks take the same time."""
    with Muster(nodes=2, gpus_per_node=2, flags=NODES) as m:
        training = Training(m, "slow")

        def named():
            message = training.status().get("message", "")
            return "Slow: rank 3 (pod t-worker-1, node " in message and message
        message = wait_for(named, "the slow rank to be named", 120)
        steps = training.ranks()[3]["steps"]
        print(f"named after {steps - 30} steps: {message}")
        check("and wait for it; it is on GPU " in message, message)
        check(training.hung().get("status") != "True" and not training.status().get("restarts"), f"{training.status()}")
        wait_for(lambda: "Slow: rank 3" in m.torchrun("status", "t").stdout, "the plugin to tell it", 60)


@needs("a node agent that looks at the ranks")
def test_a_spare_takes_the_place_of_a_pod_whose_node_is_lost():
    with Muster(nodes=3, gpus_per_node=1, flags=NODES) as m:
        training = Training(m, mode="InPlace, spares: 1")
        training.wait_training()

        def pods():
            return {p["metadata"]["name"]: p for p in m.get("pods")}

        def waits():
            return "1 of 1 spare pods wait" in training.status().get("message", "")
        wait_for(waits, "the spare to wait", 90)
        before = pods()
        nodes = {name: p["spec"]["nodeName"] for name, p in before.items() if "-sync-" not in name}
        check(len(set(nodes.values())) == 3, f"the spare is on a node of its own: {nodes}")
        check("this pod is a spare" in m.kubectl("logs", "t-spare-0").stdout, "its log says what it is")
        first = training.pid(0)
        since = time.monotonic()
        m.kubectl("delete", "node", nodes["t-worker-1"], "--wait=false")
        wait_for(lambda: training.status().get("restartsInPlace") == 1, "the gang to restart in place", 90)
        print(f"{training.status()['message']}: after {time.monotonic() - since:.1f} s")
        check("1 spare pod takes its place" in m.kubectl("get", "events").stdout, "told in an event")
        wait_for(lambda: training.pid(0) not in (None, first), "a new rank 0", 90)
        training.wait_training()
        print(f"steps again after {time.monotonic() - since:.1f} s")
        after = pods()
        check(after["t-worker-0"]["metadata"]["uid"] == before["t-worker-0"]["metadata"]["uid"], "the first pod stayed")
        check("t-worker-1" not in after, "the lost pod is gone")
        taken = after["t-spare-0"]["metadata"]
        check(taken["uid"] == before["t-spare-0"]["metadata"]["uid"] and taken["labels"]["torchrun.ai/role"] == "worker"
              and taken["labels"]["torchrun.ai/index"] == "1", f"{taken}")
        check(m.torchrun("exec", "t", "--worker", "1", "--", "hostname").stdout.strip() == "t-spare-0", "exec finds it")
        wait_for(lambda: "t-spare-1" in pods(), "the next spare")
        os.kill(training.pid(2), signal.SIGKILL)
        end = training.finish(restarts=1)
        check(end.get("generation", 0) == 0 and end["preemptions"] == 1 and end["restartsInPlace"] == 2, f"{end}")
        wait_for(lambda: not any("-spare-1" in name for name in pods()), "the spare to go with the job")
