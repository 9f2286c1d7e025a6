#!/usr/bin/env python3
"""calm.py [--jobs N] [NAME...]: the zoo. Trainings that are well and look odd (healthy.py, others.py, built.py,
documented.py), and some that
hang (hanging.py), each a TorchrunJob of two ranks with real torchrun, N of them at once (they wait most of the time). None that
is well may be called hung, be restarted or fail; suspicions are counted and listed. Of each that hangs the right rank is named;
it is restarted when that is proof, not otherwise.

SECONDS=45 is how long the odd thing takes; LOAD=8 processes compute besides; TORCH=debian|current is the PyTorch (else every
one that is here; the current one with the packages of packages.sh, where they are). RECORD=FILE adds what was told of the ranks
of each that passed: tests/calm/recorded.txt, which src/control/job/recorded_test.c plays on virtual time.

It needs the programs (MUSTER_BUILD, default: build/) and a Python that can import torch, no kubectl and no network.
"""

import argparse
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
START_S = 1800
JOBS, JOBS_MAX = 6, 32
SECONDS, LOAD = float(os.environ.get("SECONDS", "45")), int(os.environ.get("LOAD", "0"))
RECORD = os.environ.get("RECORD")
RECORDED = ("rank", "act", "since", "phase", "wait", "steps", "last", "step", "quiet", "began", "resumed", "world", "passes",
            "line", "lined")
# Seconds until anything is said of them, by design. The longest begin first, so that nobody waits for them in the end.
LONGEST = {"a_lock_at_exit": 500, "an_endless_loop_in_c": 400, "every_rank_in_the_same_line": 400}
API = "/apis/torchrun.ai/v1alpha1/namespaces/default/"
QUEUE = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "q"},
         "spec": {"nodeResources": {"gpus": 1, "cpus": 2, "memory": "8Gi"}}}
# What somebody does to a job that has made some steps: (after how many seconds, what of its spec is another then).
CHANGES = {
    "suspended_and_resumed": [(0, {"suspend": True, "keepWhileSuspended": True}), (SECONDS, {"suspend": False})],
    "elastic_and_changed": [(0, {"elastic": {"minNodes": 1, "maxNodes": 1}}), (20, {"elastic": {"minNodes": 1, "maxNodes": 2}})],
}
NEEDS = {"fsspec_over_http": ["fsspec", "aiohttp"], "grpc_in_a_thread": ["grpc"], "hugging_face_trainer": ["transformers"],
         "lightning": ["lightning"], "accelerate": ["accelerate"], "a_lock_file_of_the_first": ["filelock"],
         "a_server_of_asyncio_for_scores": ["grpc"]}
SPECS = {"elastic_and_changed": {"nprocPerNode": 1, "elastic": {"minNodes": 1, "maxNodes": 2}}}


def listed(script):
    done = subprocess.run([sys.executable, os.path.join(HERE, script), "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def missing(python):
    """Programs whose packages this Python does not have, and which these are."""
    modules = sorted({module for needs in NEEDS.values() for module in needs})
    probe = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])"
    done = subprocess.run([python, "-c", probe, *modules], stdout=subprocess.PIPE, text=True, check=True)
    gone = set(done.stdout.split())
    return {program: sorted(gone & set(needs)) for program, needs in NEEDS.items() if gone & set(needs)}


def zoo_python(python):
    """The same with the packages of packages.sh, where they are."""
    cache = os.environ.get("MUSTER_ZOO_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster", "zoo")
    own = os.path.join(cache, "bin", "python3")
    return own if not python.startswith("/usr/") and os.path.exists(os.path.join(cache, "complete")) else python


def asked(m, method, path, body=None):
    """Whether it was done; somebody else may have been first."""
    status, text = m.rest.ask(method, path, body and json.dumps(body))
    if status >= 300 and status not in (404, 409):
        raise Failure(f"{method} {path}: {status} {text.decode(errors='replace')}")
    return status < 300


class Run:
    def __init__(self, script, program, expected=None):
        self.script, self.program, self.name = script, program, program.replace("_", "-")
        self.changes, self.changed_at = list(CHANGES.get(program, [])), 0
        self.expected = expected  # (words, proof) of one that hangs
        self.suspicions, self.alarms, self.phase, self.begin = {}, [], "", time.monotonic()
        self.told, self.records = {}, []

    def look(self, m, job, pods):
        status = job.get("status", {})
        self.phase = status.get("phase", "")
        for condition in status.get("conditions", []):
            if condition["type"] == "Hung" and condition["status"] == "True":
                if condition["reason"] == "Suspected":
                    same = re.sub(r" since \S+| at \S+:\d+ in [^ ;]+| \(\w+[.\w]*\)", "", condition["message"])
                    self.suspicions[same] = condition["message"]
                else:
                    self.alarms.append(f"{condition['reason']}: {condition['message']}")
        if status.get("restarts") or status.get("failure"):
            self.alarms.append(f"restarted: {status.get('failure', {}).get('message', status.get('message', ''))}")
        for pod in pods:
            told = pod["metadata"].get("annotations", {}).get("muster.dev/ranks")
            name = pod["metadata"]["name"]
            if told and told != self.told.get(name) and name.startswith(self.name + "-worker"):
                self.told[name] = told
                ranks = [{key: rank[key] for key in RECORDED if key in rank} for rank in json.loads(told)]
                self.records.append((int(time.time() * 1000), ranks))

    def change(self, m):
        """As somebody does with kubectl edit."""
        began = any(rank.get("steps", 0) >= 10 for _, ranks in self.records for rank in ranks)
        if not self.changes or not began:
            return
        self.changed_at = self.changed_at or time.monotonic()
        if time.monotonic() - self.changed_at < self.changes[0][0]:
            return
        job = m.get("torchrunjob", self.name)
        job["spec"].update(self.changes[0][1])
        if asked(m, "PUT", f"{API}torchrunjobs/{self.name}", job):
            self.changes.pop(0)

    def is_over(self):
        if self.phase in ("Succeeded", "Failed"):
            return True
        if self.expected and not self.expected[1]:  # it is only reported
            return any(re.search(self.expected[0], message) for message in self.suspicions.values())
        if not any(rank.get("steps") for _, ranks in self.records for rank in ranks) and time.monotonic() - self.begin < START_S:
            self.trains = time.monotonic()  # on a busy machine the imports take longer than all the rest
        limit = LONGEST.get(self.program, 300 + 4 * SECONDS) * PATIENCE
        if time.monotonic() - self.trains > limit:
            self.alarms.append(f"after {limit:.0f} s it is {self.phase}")
            self.phase = "Late"
        return self.phase == "Late"

    def record(self):
        """A line of what it is, and then each: milliseconds, and what was told of the ranks from then on."""
        if not RECORD or not self.records or len(self.told) > 1 or not self.passed():
            return
        first = self.records[0][0]
        with open(RECORD, "a") as f:
            print(f"# {self.program} {'well' if not self.expected else 'proof' if self.expected[1] else 'suspicion'}", file=f)
            for at, ranks in self.records:
                for rank in ranks:
                    for key in ("since", "last", "began", "lined"):
                        if key in rank and rank[key]:
                            rank[key] = max(1, rank[key] - first + 1000000)
                f.write(f"{at - first + 1000000} {json.dumps(ranks, separators=(',', ':'))}\n")

    def passed(self):
        if not self.expected:
            return self.phase == "Succeeded" and not self.alarms
        words, proof = self.expected
        said = [*self.suspicions.values(), *self.alarms]
        return any(re.search(words, message, re.DOTALL) for message in said) and \
            bool([a for a in self.alarms if a.startswith("restarted")]) == proof


def play(m, python, runs, at_once):
    waiting, running = sorted(runs, key=lambda run: -LONGEST.get(run.program, 0)), []
    while waiting or running:
        while waiting and len(running) < at_once:
            run = waiting.pop(0)
            command = f"{python} {os.path.join(HERE, run.script)} {run.program} {SECONDS}"
            spec = {"jobQueue": "q", "numNodes": 1, "nprocPerNode": 2, "command": command, **SPECS.get(run.program, {})}
            m.create({"apiVersion": QUEUE["apiVersion"], "kind": "TorchrunJob", "metadata": {"name": run.name}, "spec": spec})
            run.begin = run.trains = time.monotonic()
            running.append(run)
        jobs = {job["metadata"]["name"]: job for job in m.get("torchrunjobs")}
        pods = m.get("pods")
        for run in list(running):
            run.look(m, jobs.get(run.name, {}), pods)
            run.change(m)
            if not run.is_over():
                continue
            running.remove(run)
            run.said = m.said(f"{run.name}-worker-0", ok=False)
            run.record()
            report(run)
            asked(m, "DELETE", f"{API}torchrunjobs/{run.name}?propagationPolicy=Background")
        time.sleep(LOOK_S)


def is_skipped(run):
    return not run.expected and " is not here: " in run.said


def report(run):
    word = "skipped" if is_skipped(run) else "passed" if run.passed() else "failed"
    print(f"{word}: {run.program} ({time.monotonic() - run.begin:.0f} s)", flush=True)
    for line in [f"suspected: {run.program}: {words}" for words in run.suspicions.values()] + list(dict.fromkeys(run.alarms)):
        print(f"  {line}" if run.expected else line, flush=True)
    if word == "failed":
        print(run.said[-2000:], flush=True)


def collection():
    runs = [Run(script, name) for script in ("healthy.py", "others.py", "built.py", "documented.py") for name, in listed(script)]
    return runs + [Run("hanging.py", name, (words, proof == "1")) for name, proof, words in listed("hanging.py")]


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split(":")[1], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=JOBS, choices=range(1, JOBS_MAX + 1), metavar="N", help=f"at once ({JOBS})")
    parser.add_argument("names", nargs="*", metavar="NAME", help="one of the zoo; none: all of them")
    options = parser.parse_args(argv)
    unknown = set(options.names) - {run.program for run in collection()}
    if unknown:
        parser.error(f"no program is called {' or '.join(sorted(unknown))}; those beside this one --list them")
    wanted = os.environ.get("TORCH", "")
    pythons = [(zoo_python(path), version) for path, version in torch_pythons()
               if not wanted or path.startswith("/usr/") == (wanted == "debian")]
    if not pythons:
        print("skipped: no Python here can import torch")
        return 77
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        for python, version in pythons:
            play_with(python, version, [run for run in collection() if not options.names or run.program in options.names],
                      options.jobs, counts)
    finally:
        for process in load:
            process.kill()
            process.wait()
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return 1 if counts["failed"] else 0


def play_with(python, version, runs, at_once, counts):
    print(f"PyTorch {version}, {SECONDS:.0f} s each, {at_once} at once, a load of {LOAD}", flush=True)
    begin, gone = time.monotonic(), missing(python)
    for run in [run for run in runs if run.program in gone]:
        print(f"skipped: {run.program}: {' and '.join(gone[run.program])} is not here (tests/calm/packages.sh)", flush=True)
        counts["skipped"] += 1
    runs = [run for run in runs if run.program not in gone]
    with Muster(nodes=1, gpus_per_node=2 * at_once, flags=["--cpus-per-node", str(8 * JOBS_MAX), "--memory-per-node", "1024Gi"],
                path_first=os.path.dirname(python)) as m:
        m.create(QUEUE)
        play(m, python, runs, at_once)
    for run in runs:
        counts["skipped" if is_skipped(run) else "passed" if run.passed() else "failed"] += 1
    well = [run for run in runs if not run.expected and not is_skipped(run)]
    print(f"PyTorch {version}: {len(well)} that are well, {sum(bool(run.alarms) for run in well)} alarms, "
          f"{sum(len(run.suspicions) for run in well)} suspicions of {sum(bool(run.suspicions) for run in well)}; "
          f"{sum(bool(run.expected) for run in runs)} that hang; {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
