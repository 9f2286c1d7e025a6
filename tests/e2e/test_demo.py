"""`make demo`, and that each of its acts happened: asked of the API, not of what the demo printed."""

import os
import subprocess

from harness import ROOT, Muster, check, run, wait_for

DEMO = os.path.join(ROOT, "tools", "demo.py")


class LeftRunning(Muster):
    """The server that the demo leaves behind, for asking and for stopping."""

    def start(self):
        self.env["TMPDIR"] = self.folder
        self.printed = run([DEMO, "--keep", "--folder", self.folder], env=self.env, limit=400).stdout
        pid = int(self.printed.split("kill ")[1].split(";")[0])
        self.process = Adopted(pid)


class Adopted:
    """As much of Popen as Muster.stop() needs, for a process that somebody else started."""

    def __init__(self, pid):
        self.pid = pid

    def poll(self):
        try:
            with open(f"/proc/{self.pid}/stat") as f:
                return 0 if f.read().rsplit(")", 1)[1].split()[0] == "Z" else None
        except OSError:
            return 0

    def terminate(self):
        os.kill(self.pid, 15)

    def kill(self):
        os.kill(self.pid, 9)

    def wait(self, limit=30):
        try:
            wait_for(lambda: self.poll() is not None, "the demo's server to end", limit)
        except AssertionError:
            raise subprocess.TimeoutExpired("muster up", limit)


def test_every_act_of_the_demo_happened():
    with LeftRunning(pytorch="ranks") as m:
        nodes = m.get("nodes")
        check([n["status"]["capacity"]["nvidia.com/gpu"] for n in nodes] == ["8"] * 4, "four nodes of eight GPUs")
        queues = {q["metadata"]["name"]: q["spec"].get("parentQueue") for q in m.get("queues")}
        check(queues["vision"] == queues["lab"] == "company", f"a tree of queues: {queues}")

        events = [(e["reason"], e["involvedObject"]["name"], e.get("message", "")) for e in m.get("events")]

        def job(name):
            return m.get("torchrunjob", name)["status"]

        # A gang of 16: two pods bound in one revision of the store, 16 ranks in one all_reduce.
        check(job("resnet")["phase"] == "Succeeded", job("resnet"))
        logs = m.torchrun("logs", "resnet").stdout
        check(all(f"rank {r} of 16: all_reduce 136 is right" in logs for r in range(16)), logs[-2000:])
        first, last = logs.split("done: 60 steps, loss ")[1].split()[0:3:2]
        check(float(last) < float(first) / 10, f"the loss falls: {first} -> {last}")

        # A job that does not fit waited, with its reason, and never had a pod on a node.
        why = [e for e in events if e[1].startswith(("too-big", "pg-too-big"))]
        check(any("24 GPUs" in e[2] for e in why), f"why too-big waits: {why}")
        check(not [e for e in events if e[0] in ("Scheduled", "Started") and e[1].startswith("too-big-worker")], why)

        # The urgent job took the place of the patient one, which went on from its checkpoint.
        check(job("urgent")["phase"] == "Succeeded", job("urgent"))
        patient = job("patient")
        check(patient["phase"] == "Succeeded", patient)
        check(patient["preemptions"] == 1 and patient["restarts"] == 0, patient)
        check(any(e[0] in ("Evict", "Evicted", "Preempted") and e[1].startswith(("patient", "pg-patient"))
                  for e in events), f"an eviction is told: {sorted({e[0] for e in events})}")

        # The same pods ran the edited file.
        logs = m.torchrun("logs", "patient").stdout
        check("learning rate 0.05" in logs and "learning rate 0.2" in logs, logs[-2000:])
        check("done: 150 steps" in logs, logs[-2000:])
