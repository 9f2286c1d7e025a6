#!/usr/bin/env python3
"""calm.py [RUNS]: trainings that are well and look like hangs (calm_train.py), with real torchrun (gloo, 2 pods of 2 ranks),
five of them at once; none may be called hung, suspected or a straggler, and none restarted.

PAUSE=120 seconds of each of compilation, evaluation and writing a checkpoint; SEED=1 is the first run's. That ranks wait for
one that works is said of such a job, and is true: it is shown here and is no alarm.
"""

import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import PATIENCE, Failure, Muster, cached_torch, torch_pythons  # noqa: E402

LOOK_S = 0.5
STRAGGLER = re.compile(r"takes \d+ .?s of each step")
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 1, cpus: 2, memory: 8Gi}
  storage: {checkpoints: {enabled: true, size: 1Gi}}
"""
JOB = """
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: calm-{seed}}}
spec:
  jobQueue: q
  numNodes: 2
  nprocPerNode: 2
  command: python3 {script} {seed} {seconds}
"""


class Run:
    def __init__(self, name):
        self.name, self.alarms, self.looks, self.waited, self.phase = name, set(), 0, 0, ""

    def look(self, job):
        status = job.get("status", {})
        self.phase = status.get("phase", "")
        self.looks += self.phase == "Running"
        message = status.get("message", "")
        for condition in status.get("conditions", []):
            if condition["type"] == "Hung" and condition["status"] == "True":
                self.alarms.add(f"{condition['reason']}: {condition['message']}")
        if STRAGGLER.search(message):
            self.alarms.add(message)
        elif message.startswith("Slow"):
            self.waited += 1
        if status.get("restarts") or status.get("failure"):
            self.alarms.add(f"restarted: {status.get('failure', {}).get('message', message)}")

    def over(self):
        return self.phase in ("Succeeded", "Failed")


def watch(m, runs, limit_s):
    begin = time.monotonic()
    while not all(run.over() for run in runs.values()):
        if time.monotonic() - begin > limit_s:
            raise Failure("they did not end: " + ", ".join(f"{run.name} is {run.phase}" for run in runs.values()))
        for job in m.get("torchrunjobs"):
            runs[job["metadata"]["name"]].look(job)
        time.sleep(LOOK_S)
    for event in m.get("events"):
        name = event["involvedObject"]["name"]
        if event["reason"] in ("Hung", "Suspected") and name in runs:
            runs[name].alarms.add(f"event {event['reason']}: {event['message']}")


def main(count):
    pythons = torch_pythons()
    if not pythons:
        print("skipped: no Python here can import torch")
        return 77
    seconds, first = float(os.environ.get("PAUSE", "120")), int(os.environ.get("SEED", "1"))
    current = [os.path.dirname(path) for path, _ in cached_torch()]
    flags = ["--cpus-per-node", "64", "--memory-per-node", "256Gi"]
    seeds = range(first, first + count)
    print(f"PyTorch {pythons[0][1]}, seeds {first} to {seeds[-1]}", flush=True)
    with Muster(nodes=2, gpus_per_node=count, flags=flags, path_first=current[0] if current else None) as m:
        script = os.path.join(HERE, "calm_train.py")
        m.apply(QUEUE + "".join(JOB.format(seed=seed, script=script, seconds=seconds) for seed in seeds))
        runs = {f"calm-{seed}": Run(f"calm-{seed}") for seed in seeds}
        watch(m, runs, (300 + 6 * seconds) * PATIENCE)
        failed = 0
        for run in runs.values():
            said = m.said(f"{run.name}-worker-0")
            phases = ", ".join(re.findall(r"\[rank0\] (\w+: \d of \d) ranks", said))
            good = run.phase == "Succeeded" and not run.alarms
            failed += not good
            print(f"{'passed' if good else 'failed'}: {run.name} ({phases}; that ranks wait for one that works was said in "
                  f"{run.waited} of {run.looks} looks)")
            for alarm in sorted(run.alarms):
                print(f"  {alarm}")
            if run.phase != "Succeeded":
                print(said[-2000:])
    print(f"{count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
