"""A TorchrunJob trains on from its checkpoint whatever happens to its pods, its node or the server."""

import os
import re

from harness import Muster, Skip, check, needs, torch_pythons, wait_for

STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.py")
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {name}}}
spec:
  queue: {{name: {name}, resources: {{gpu: {{quota: {quota}}}}}}}
  nodeResources: {{gpus: 1, cpus: 4, memory: 8Gi}}
  env: [{{name: MUSTER_TEST_FOLDER, value: {folder}}}]
  storage:
    checkpoints: {{enabled: true, size: 1Gi}}
"""
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: {queue}
  numNodes: {nodes}
  command: python3 {steps} {count} {seconds}
  reliability: {{maxRestarts: {restarts}}}
  {more}
"""


class Training:
    """One job on a server of its own: what it says, and how it ends."""

    def __init__(self, m, name="t", queue="q", nodes=2, count=40, seconds=0.1, restarts=1, more=""):
        self.m, self.name, self.nodes, self.count = m, name, nodes, count
        m.apply(JOB.format(name=name, queue=queue, nodes=nodes, steps=STEPS, count=count, seconds=seconds,
                           restarts=restarts, more=more))

    def status(self):
        return (self.m.get("torchrunjob", self.name) or {}).get("status", {})

    def text(self, pod=0):
        return self.m.said(f"{self.name}-worker-{pod}", ok=False)

    def step(self):
        steps = re.findall(r"step (\d+)/", self.text())
        return int(steps[-1]) if steps else 0

    def wait_step(self, step, limit=120):
        wait_for(lambda: self.step() >= step, f"{self.name} to be at step {step}", limit)

    def wait(self, what, limit=120, **wanted):
        def reached():
            now = self.status()
            return all(now.get(key) == value for key, value in wanted.items()) and now
        return wait_for(reached, f"{self.name}: {what}", limit)

    def pids(self):
        """Processes of this job's pods, whoever runs them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environment = f.read()
            except OSError:
                continue
            if f"MUSTER_JOB=default/{self.name}\0".encode() in environment and \
                    f"MUSTER_TEST_FOLDER={self.m.folder}\0".encode() in environment:
                found.append(int(pid))
        return found

    def finish(self, generation, restarts, preemptions, limit=180):
        """It ended well, with every step done once it mattered, and left nothing behind."""
        wait_for(lambda: self.status().get("phase") in ("Succeeded", "Failed"), f"{self.name} to end", limit)
        end = self.status()
        check(end["phase"] == "Succeeded", f"{end}")
        counted = (end["generation"], end.get("restarts", 0), end.get("preemptions", 0))
        check(counted == (generation, restarts, preemptions), f"generation, restarts, preemptions: {counted}")
        for pod in range(self.nodes):
            check(f"done: {self.count} steps" in self.text(pod), f"pod {pod} is not done:\n{self.text(pod)}")
        if generation:
            check("resumed at step" in self.text(), f"it began anew:\n{self.text()}")
        wait_for(lambda: not self.pids(), f"no process to be left of {self.name}", 30)
        return end


def server(nodes, gpus=1):
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    m = Muster(nodes=nodes, gpus_per_node=gpus, flags=NODES)
    return m


def start(m, *queues):
    for name, quota in queues or (("q", -1),):
        m.apply(QUEUE.format(name=name, quota=quota, folder=m.folder))


def test_a_rank_killed_and_then_the_server_killed():
    with server(2) as m:
        start(m)
        t = Training(m, count=60)
        t.wait_step(5)
        m.kubectl("exec", "t-worker-1", "--", "sh", "-c", "kill -9 $(pgrep -of '[s]teps.py 60')")
        t.wait("the next generation", generation=1, restarts=1)
        failure = t.status()["failure"]
        check(failure["exitCode"] == 137 and failure["pod"] == "t-worker-1", f"{failure}")
        wait_for(lambda: "resumed at step" in t.text(), "the training to go on", 120)
        m.kill()
        m.start()
        t.finish(generation=1, restarts=1, preemptions=0)


def test_a_lost_node_is_left_and_the_gang_formed_elsewhere():
    with server(3) as m:
        start(m)
        t = Training(m, restarts=0)
        t.wait_step(5)
        lost = m.get("pod", "t-worker-1")["spec"]["nodeName"]
        m.kubectl("delete", "node", lost, "--wait=false")
        t.wait("the next generation", limit=60, generation=1)
        check("node" in t.status()["message"] or t.status()["phase"] != "Restarting", t.status()["message"])
        t.finish(generation=1, restarts=0, preemptions=1)
        check(m.get("pod", "t-worker-1")["spec"]["nodeName"] != lost, "it is still on the lost node")


def test_preempted_by_another_queue_and_resumed():
    with server(2) as m:
        start(m, ("low", 0), ("high", 2))
        t = Training(m, queue="low", restarts=0)
        t.wait_step(5)
        urgent = Training(m, name="urgent", queue="high", count=2)
        preempted = t.wait("to give way", limit=60, phase="Preempted")
        check("urgent" in preempted["message"], preempted["message"])
        urgent.finish(generation=0, restarts=0, preemptions=0)
        m.kubectl("delete", "torchrunjob", "urgent")
        t.finish(generation=1, restarts=0, preemptions=1)


def test_suspended_and_resumed_twice():
    with server(2) as m:
        start(m)
        t = Training(m, restarts=0)
        for turn in (1, 2):
            t.wait_step(6 * turn)
            m.torchrun("suspend", "t")
            t.wait("to be suspended", limit=30, phase="Suspended")
            wait_for(lambda: not [p for p in m.get("pods") if "-worker-" in p["metadata"]["name"]],
                     "the pods to go", 60)
            check(not t.pids(), f"processes of a suspended job: {t.pids()}")
            m.torchrun("resume", "t")
        t.finish(generation=2, restarts=0, preemptions=0)


def test_logs_of_every_generation_outlive_their_pods():
    with server(2) as m:
        start(m)
        folder = os.path.join(m.folder, "project")
        os.mkdir(folder)
        with open(STEPS) as f, open(os.path.join(folder, "steps.py"), "w") as to:
            to.write(f.read())
        m.torchrun("submit", "--queue", "q", "--nodes", "2", "--name", "l", "--env", "MUSTER_TEST_FAIL_AT=3",
                   "--detach", "python3 steps.py 6 0.05", cwd=folder)
        wait_for(lambda: m.phase("l") in ("Succeeded", "Failed"), "the job to end", 180)
        end = m.get("torchrunjob", "l")["status"]
        check((end["phase"], end["generation"]) == ("Succeeded", 1), f"{end}")
        check((end["failure"]["pod"], end["failure"]["exitCode"]) == ("l-worker-1", 3), f"{end['failure']}")
        if not hasattr(m, "plane"):  # on a cluster it stays for a while: no node keeps the logs there
            wait_for(lambda: m.get("pod", "l-sync-0")["status"]["phase"] == "Succeeded", "its sync pod to end", 60)
            check(m.kubectl("logs", "l-sync-0").stdout, "what the sync pod said is gone")
        newest = m.torchrun("logs", "l").stdout
        check("resumed at step" in newest and "failing now" not in newest, newest)
        for argv in (["--previous"], ["--generation", "0"]):
            first = m.torchrun("logs", "l", *argv).stdout
            check("[rank1] failing now" in first and "[rank0] step 1/6" in first, f"{argv}: {first}")
            check("resumed" not in first, f"{argv} shows another generation: {first}")
            check(not re.search(r"^\[\S+\] ?$", first, re.MULTILINE), f"{argv} shows empty lines: {first}")
        only = m.torchrun("logs", "l", "--generation", "0", "--rank", "1", "--tail", "1").stdout
        check(only == "[rank1] failing now\n", only)
        refused = m.torchrun("logs", "l", "--generation", "7", ok=False)
        check(refused.returncode == 1 and "only in generation 1" in refused.stderr, refused.stderr)
        m.torchrun("delete", "--force", "l")
        wait_for(lambda: not m.get("pods"), "every pod to go with the job", 60)


HOLDER = """
apiVersion: v1
kind: Pod
metadata: {{name: holder-{i}, labels: {{kai.scheduler/queue: q}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: c, image: x, command: [sleep, "600"], resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""


def test_elastic_from_two_to_four_to_three_and_back():
    with server(4) as m:
        start(m)
        for i in range(2):
            m.apply(HOLDER.format(i=i))
        wait_for(lambda: all(m.get("pod", f"holder-{i}")["status"].get("phase") == "Running" for i in range(2)),
                 "the holders to run")
        # That PyTorch's ranks meet again is test_frameworks' a_pytorchjob_is_scaled_while_it_trains.
        m.apply(f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: e}}
spec:
  jobQueue: q
  elastic: {{minNodes: 2, maxNodes: 4}}
  command: MUSTER_TEST_MEET=1 python3 {STEPS} 400 0.2
""")
        said = lambda: "".join(m.said(f"e-worker-{i}", ok=False) for i in range(4))
        world = lambda n: lambda: f"rank {n - 1} of {n}\n" in said()
        wait_for(world(2), "two pods to train", 120)
        m.kubectl("delete", "pod", "holder-0", "holder-1", "--wait=false")
        wait_for(world(4), "four pods to train", 180)
        m.torchrun("scale", "e", "--max-nodes", "3")
        wait_for(world(3), "three pods to train", 180)
        check("resumed at step" in said(), said())
        # The rendezvous is not worker 0's: it may go, and come back, and the others stay.
        uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in m.get("pods")}
        m.kubectl("delete", "pod", "e-worker-0", "--wait=false")
        wait_for(lambda: (m.get("pod", "e-worker-0") or {"metadata": {"uid": uids["e-worker-0"]}})["metadata"]["uid"]
                 != uids["e-worker-0"], "worker 0 to come back", 60)
        wait_for(lambda: re.search(r"step \d+/400 rank \d of 3\n", m.said("e-worker-0", ok=False)),
                 "worker 0 to train with the others again", 180)
        status = m.get("torchrunjob", "e")["status"]
        check((status["phase"], status["generation"]) == ("Running", 0), f"{status}")
        check(m.get("pod", "e-worker-1")["metadata"]["uid"] == uids["e-worker-1"], "worker 1 was started anew")


APPLIED = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: applied}
spec:
  jobQueue: q
  numNodes: 2
  command: echo "of generation $MUSTER_GENERATION"; exec sleep 300
"""


def applied_said(m, text, *argv):
    """Whether this is all that the ranks of the applied job have said."""
    done = m.torchrun("logs", "applied", *argv, ok=False)
    ranks = [line for line in done.stdout.splitlines() if line.startswith("[rank")]
    return ranks == [f"[rank0] {text}", f"[rank1] {text}"]


@needs("the logs of pods that are gone, which the nodes of muster up keep")
def test_logs_of_an_applied_job_outlive_their_pods():
    with server(2) as m:
        start(m)
        m.apply(APPLIED)

        def said(text, *argv):
            return applied_said(m, text, *argv)

        wait_for(lambda: said("of generation 0"), "both ranks to speak", 60)
        m.kubectl("delete", "pod", "applied-worker-1", "--wait=false", "--grace-period=1")
        wait_for(lambda: said("of generation 1"), "both ranks to start again", 60)
        for argv in (["--previous"], ["--generation", "0"]):
            wait_for(lambda: said("of generation 0", *argv), f"logs {argv} to show the first", 30)
            last = m.torchrun("logs", "applied", *argv, "--rank", "0", "--tail", "1").stdout
            check(last == "[rank0] of generation 0\n", f"the last line of the rank, whatever torchrun said after it: {last}")
        late = '{"spec":{"reliability":{"activeDeadlineSeconds":1}}}'
        m.kubectl("patch", "torchrunjob", "applied", "--type=merge", "-p", late)
        wait_for(lambda: m.phase("applied") == "TimedOut" and not m.get("pod", "applied-worker-0") and
                 not m.get("pod", "applied-worker-1"), "its time to be over, and its pods to go", 60)
        wait_for(lambda: said("of generation 1"), "what ran to the end to be shown", 30)


def test_a_workspace_of_its_own_keeps_the_logs_of_an_applied_job_on_any_cluster():
    with server(2) as m:
        start(m)
        m.apply(APPLIED + "  workspaceStorage: {source: existing}\n")
        wait_for(lambda: applied_said(m, "of generation 0"), "both ranks to speak", 90)
        m.kubectl("delete", "pod", "applied-worker-1", "--wait=false", "--grace-period=1")
        wait_for(lambda: applied_said(m, "of generation 1"), "both ranks to start again", 90)
        wait_for(lambda: applied_said(m, "of generation 0", "--previous"), "the sync pod to tell what was said before", 30)
        check(m.get("pod", "applied-sync-0")["status"]["phase"] == "Running", "its sync pod")
