#!/usr/bin/env python3
"""calm.py [NAME...]: the zoo. Trainings that are well and look odd (healthy.py), and some that hang (hanging.py), each a
TorchrunJob of two ranks with real torchrun, JOBS=2 of them at once. None that is well may be called hung, be restarted or fail;
suspicions are counted and listed. Of each that hangs the right rank is named; it is restarted when that is proof, not otherwise.

SECONDS=45 is how long the odd thing takes; LOAD=8 processes compute besides; TORCH=debian|current is the PyTorch (else every
one that is here). RECORD=FILE adds what was told of the ranks of each that passed: tests/calm/recorded.txt, which
src/control/job/recorded_test.c plays on virtual time.
"""

import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import PATIENCE, Failure, Muster, torch_pythons  # noqa: E402

LOOK_S = 0.5
SECONDS, JOBS, LOAD = float(os.environ.get("SECONDS", "45")), int(os.environ.get("JOBS", "2")), int(os.environ.get("LOAD", "0"))
RECORD = os.environ.get("RECORD")
RECORDED = ("rank", "act", "since", "phase", "wait", "steps", "last", "step", "quiet", "began", "resumed", "world", "passes")
LONGEST = {"an_endless_loop_in_c": 1900, "a_lock_at_exit": 330}  # seconds until anything is said of them, by design
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 1, cpus: 2, memory: 8Gi}
"""
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: "{name}"}}
spec:
  jobQueue: q
  numNodes: 1
  nprocPerNode: 2
  command: {python} {script} {program} {seconds}
"""


def listed(script):
    done = subprocess.run([sys.executable, os.path.join(HERE, script), "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Run:
    def __init__(self, program, expected=None):
        self.program, self.name = program, program.replace("_", "-")
        self.expected = expected  # (words, proof) of one that hangs
        self.suspicions, self.alarms, self.phase, self.begin = {}, [], "", time.monotonic()
        self.told, self.records = None, []

    def look(self, m, job, pods):
        status = job.get("status", {})
        self.phase = status.get("phase", "")
        for condition in status.get("conditions", []):
            if condition["type"] == "Hung" and condition["status"] == "True":
                if condition["reason"] == "Suspected":
                    self.suspicions[re.sub(r" since \S+", "", condition["message"])] = True
                else:
                    self.alarms.append(f"{condition['reason']}: {condition['message']}")
        if status.get("restarts") or status.get("failure"):
            self.alarms.append(f"restarted: {status.get('failure', {}).get('message', status.get('message', ''))}")
        for pod in pods:
            told = pod["metadata"].get("annotations", {}).get("muster.dev/ranks")
            if told and told != self.told and pod["metadata"]["name"].startswith(self.name + "-worker"):
                self.told = told
                ranks = [{key: rank[key] for key in RECORDED if key in rank} for rank in json.loads(told)]
                self.records.append((int(time.time() * 1000), ranks))

    def is_over(self):
        if self.phase in ("Succeeded", "Failed"):
            return True
        if self.expected and not self.expected[1]:  # it is only reported
            return any(re.search(self.expected[0], message) for message in self.suspicions)
        limit = LONGEST.get(self.program, 300 + 4 * SECONDS) * PATIENCE
        if time.monotonic() - self.begin > limit:
            self.alarms.append(f"after {limit:.0f} s it is {self.phase}")
            self.phase = "Late"
        return self.phase == "Late"

    def record(self):
        """A line of what it is, and then each: milliseconds, and what was told of the ranks from then on."""
        if not RECORD or not self.records or not self.passed():
            return
        first = self.records[0][0]
        with open(RECORD, "a") as f:
            print(f"# {self.program} {'well' if not self.expected else 'proof' if self.expected[1] else 'suspicion'}", file=f)
            for at, ranks in self.records:
                for rank in ranks:
                    for key in ("since", "last", "began"):
                        if key in rank and rank[key]:
                            rank[key] = max(1, rank[key] - first + 1000000)
                f.write(f"{at - first + 1000000} {json.dumps(ranks, separators=(',', ':'))}\n")

    def passed(self):
        if not self.expected:
            return self.phase == "Succeeded" and not self.alarms
        words, proof = self.expected
        said = [*self.suspicions, *self.alarms]
        return any(re.search(words, message, re.DOTALL) for message in said) and \
            bool([a for a in self.alarms if a.startswith("restarted")]) == proof


def play(m, python, runs):
    """All of them, JOBS at a time."""
    waiting, running = list(runs), []
    while waiting or running:
        while waiting and len(running) < JOBS:
            run = waiting.pop(0)
            script = os.path.join(HERE, "hanging.py" if run.expected else "healthy.py")
            m.apply(JOB.format(name=run.name, python=python, script=script, program=run.program, seconds=SECONDS))
            run.begin = time.monotonic()
            running.append(run)
        jobs = {job["metadata"]["name"]: job for job in m.get("torchrunjobs")}
        pods = m.get("pods")
        for run in list(running):
            run.look(m, jobs.get(run.name, {}), pods)
            if not run.is_over():
                continue
            running.remove(run)
            run.said = m.said(f"{run.name}-worker-0", ok=False)
            run.record()
            report(run)
            m.kubectl("delete", "torchrunjob", run.name, "--wait=false")
        time.sleep(LOOK_S)


def is_skipped(run):
    return not run.expected and " is not here: " in run.said


def report(run):
    word = "skipped" if is_skipped(run) else "passed" if run.passed() else "failed"
    print(f"{word}: {run.program} ({len(run.suspicions)} suspicions)", flush=True)
    for line in [*run.suspicions, *dict.fromkeys(run.alarms)]:
        print(f"  {line}", flush=True)
    if word == "failed":
        print(run.said[-2000:], flush=True)


def main(names):
    wanted = os.environ.get("TORCH", "")
    pythons = [p for p in torch_pythons() if not wanted or p[0].startswith("/usr/") == (wanted == "debian")]
    if not pythons:
        print("skipped: no Python here can import torch")
        return 77
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        for python, version in pythons:
            print(f"PyTorch {version}, {SECONDS:.0f} s each, {JOBS} at once, a load of {LOAD}", flush=True)
            runs = [Run(name) for name, in listed("healthy.py")]
            runs += [Run(name, (words, proof == "1")) for name, proof, words in listed("hanging.py")]
            runs = [run for run in runs if not names or run.program in names]
            if not runs:
                raise Failure(f"no program is called {' or '.join(names)}; see healthy.py --list and hanging.py --list")
            with Muster(nodes=1, gpus_per_node=JOBS, flags=["--cpus-per-node", "64", "--memory-per-node", "256Gi"],
                        path_first=os.path.dirname(python)) as m:
                m.apply(QUEUE)
                play(m, python, runs)
            for run in runs:
                counts["skipped" if is_skipped(run) else "passed" if run.passed() else "failed"] += 1
            suspicions = sum(len(run.suspicions) for run in runs if not run.expected)
            print(f"{suspicions} suspicions of programs that are well", flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
