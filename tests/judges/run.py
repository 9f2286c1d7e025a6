#!/usr/bin/env python3
"""run.py [--clusters N] [--seed N] [--scene NAME] [--keep FOLDER] [--muster FILE]: random clusters, decided by `muster simulate`
and judged by those who do not know how it decides (judge.py). run.py FILE...: judge these clusters.

Cluster number I of a run has the seed SEED * 1000000 + I, and is made again by --only of that. The first violations of every kind
are made as small as they go and written to FOLDER (build/judges), with what has to come out under `expect:`.
"""

import argparse
import collections
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "tests")]
from cluster import Cluster, documents, text_of  # noqa: E402
from judge import Case, judge  # noqa: E402
from rules import State  # noqa: E402
from result import read_expected  # noqa: E402
from scenes import SCENES  # noqa: E402
from shrink import shrink  # noqa: E402

BATCH = 200     # clusters of one process
SHRUNK_MAX = 3  # of each kind, unless told otherwise
SEEDS_MAX = 10  # of each kind that are printed


class Simulator:
    def __init__(self, muster):
        self.muster = muster
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)

    def run(self, clusters):
        """What becomes of each list of documents."""
        paths = []
        for i, docs in enumerate(clusters):
            paths.append(os.path.join(self.folder.name, f"{i}.yaml"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(text_of(docs))
        done = subprocess.run([self.muster, "simulate", "--each", "--cycles", str(Case.most), *paths], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if len(lines) != len(clusters):
            raise RuntimeError(f"{len(lines)} answers for {len(clusters)} clusters: {done.returncode} {done.stderr[-500:]}")
        return lines


def judged(scene, docs, outcome):
    if "error" in outcome:
        return [("unreadable", "", outcome["error"], None)], 0, {}
    return judge(scene, Cluster(docs), outcome)


def make(scene, seed):
    return SCENES[scene](random.Random(f"{scene} {seed}"))


def possible(docs):
    """What runs at the beginning has room."""
    cluster = Cluster(docs)
    rooms = State.of(cluster, {p.name: p.node for p in cluster.pods.values() if p.node}).rooms.values()
    return all(min(r.cpu, r.memory, r.slots, r.gpus, *r.other.values()) >= 0 for r in rooms)


def small(simulator, scene, docs, kind):
    """The smallest cluster with a violation of this kind, and the violation."""
    def shows(clusters):
        for index, outcome in enumerate(simulator.run(clusters)):
            try:
                if possible(clusters[index]) and any(v[0] == kind for v in judged(scene, clusters[index], outcome)[0]):
                    return index
            except (KeyError, StopIteration, IndexError, ZeroDivisionError):
                continue  # too little is left for a cluster
        return None
    least = shrink(docs, shows, {v[1] for v in judged(scene, docs, simulator.run([docs])[0])[0] if v[0] == kind})
    violations, *_ = judged(scene, least, simulator.run([least])[0])
    return least, next(v for v in violations if v[0] == kind)


def write(folder, name, docs, violation):
    kind, who, words, running = violation
    os.makedirs(folder, exist_ok=True)
    docs = [{"about": f"{kind}: {words}", **docs[0]}, *docs[1:]]
    if running is not None:
        docs.append({"expect": [{"gang": who, "running": running}]})
    path = os.path.join(folder, f"{name}.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text_of(docs))
    return path


def features(docs):
    """What the cluster has that could be the cause, in the name of its file."""
    pods = [d for d in docs if d.get("kind") == "Pod"]
    text = json.dumps(docs)
    waiting = {}
    for p in pods:
        if "nodeName" not in p["spec"]:
            waiting.setdefault(p["metadata"]["annotations"].get("pod-group-name"), set()).add(
                json.dumps(p["spec"]["containers"][0].get("resources", {}), sort_keys=True))
    words = {"subgroups": "subGroups", "topology": "requiredTopologyLevel", "spread": "topologySpread", "near": "podAffinity",
             "apart": "podAntiAffinity", "ports": "hostPort", "fraction": "gpu-fraction", "memory": "gpu-memory", "mig": "/mig-",
             "selector": "nodeSelector", "namespaces": "namespaceSelector", "keys": "matchLabelKeys", "semi": "semi-pre",
             "held": "held", "gated": "schedulingGates", "limit": '"limit": [0-9]'}
    found = [name for name, word in words.items() if re.search(word, text)]
    return (["uneven"] if any(len(sizes) > 1 for sizes in waiting.values()) else []) + found


def begins_alone(simulator, docs, who):
    """Does the gang start where nothing else is? If not, it waits for no room that was kept for it."""
    alone = [d for d in docs if d.get("kind") not in ("Pod", "PodGroup") or who in
             (d["metadata"]["name"], d["metadata"].get("annotations", {}).get("pod-group-name"))]
    return any(b["pod"].startswith(who + "-") for b in simulator.run([alone])[0].get("binds", []))


def judge_batch(muster, scene, seeds):
    """[(seed, [kind], cut, reasons)] of those that are not simply right."""
    simulator = simulators.get(muster) or simulators.setdefault(muster, Simulator(muster))
    clusters = [make(scene, seed) for seed in seeds]
    found = []
    for seed, docs, outcome in zip(seeds, clusters, simulator.run(clusters)):
        violations, cut, unsure = judged(scene, docs, outcome)
        kinds = dict.fromkeys("waits-beside-room" if v[0] == "late" and not begins_alone(simulator, docs, v[1]) else v[0]
                              for v in violations)
        if kinds or cut or unsure:
            found.append((seed, list(kinds), cut, list(unsure)))
    return scene, len(seeds), found


simulators = {}  # of this process


class Run:
    """Counts what was judged, and makes the first violations of each kind small."""

    def __init__(self, options):
        self.options, self.simulator = options, Simulator(options.muster)
        self.kinds, self.clusters = collections.Counter(), collections.Counter()
        self.broken = self.cut = 0
        self.unsure = collections.Counter()
        self.known = read_expected(options.known) if options.known else set()

    def add(self, scene, count, found):
        self.clusters[scene] += count
        for seed, kinds, cut, unsure in found:
            self.cut += cut > 0
            self.unsure.update(unsure)
            self.broken += bool(kinds)
            for kind in kinds:
                self.violation(scene, seed, kind)

    def violation(self, scene, seed, kind):
        name = f"{scene}/{kind}"
        self.kinds[name] += 1
        if self.kinds[name] > self.options.shrink or name in self.known:
            if self.kinds[name] <= SEEDS_MAX:
                print(f"{name}: seed {seed}", flush=True)
            return
        asked = "late" if (scene, kind) == ("aged", "waits-beside-room") else kind
        docs, violation = small(self.simulator, scene, make(scene, seed), asked)
        path = write(self.options.keep, "-".join([scene, kind, *features(docs), str(seed)]), docs, violation)
        print(f"{name}: seed {seed}: {violation[2]} ({os.path.relpath(path, ROOT)})", flush=True)

    def report(self, seconds):
        total = sum(self.clusters.values())
        for name, count in sorted(self.kinds.items()):
            known = ", which is known" if name in self.known else ""
            print(f"{name}: {count} of {self.clusters[name.split('/')[0]]} clusters{known}")
        for reason, count in sorted(self.unsure.items()):
            print(f"cannot decide something in {count} clusters: {reason}")
        news = sorted(set(self.kinds) - self.known)
        for name in news:
            print(f"failed: {name}")
        print(f"{total} clusters ({', '.join(f'{n} {s}' for s, n in self.clusters.items())}), {self.broken} with a violation, "
              f"{self.cut} not decided whole, {seconds:.0f} s")
        print(f"{total - (self.broken if news else 0)} passed, {self.broken if news else 0} failed")
        return 1 if news else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the seed of a single cluster")
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--keep", default=os.path.join(ROOT, "build", "judges"))
    parser.add_argument("--muster", default=os.path.join(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")), "muster"))
    parser.add_argument("--shrink", type=int, default=SHRUNK_MAX, help="violations of each kind that are made small")
    parser.add_argument("--known", help="a list of kinds that are known: they are counted, and fail nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if options.files:
        return judge_files(Simulator(options.muster), options)
    run, began = Run(options), time.monotonic()
    names = options.scene or list(SCENES)
    if options.only is not None:
        for name in names:
            run.add(*judge_batch(options.muster, name, [options.only]))
        return run.report(time.monotonic() - began)
    print(f"seed {options.seed}, {options.clusters} clusters", flush=True)
    first, last = options.seed * 1000000, options.seed * 1000000 + options.clusters
    batches = [(names[number % len(names)], range(at, min(at + BATCH, last)))
               for number, at in enumerate(range(first, last, BATCH))]
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in pool.map(judge_batch, itertools.repeat(options.muster), *zip(*batches)):
            run.add(*done)
    return run.report(time.monotonic() - began)


def judge_files(simulator, options):
    """Each with the judges of every scene that was asked for, or of the one in its name."""
    bad = 0
    for path in options.files:
        with open(path, encoding="utf-8") as f:
            docs = [d for d in documents(f.read()) if "expect" not in d]
        scenes = options.scene or [s for s in SCENES if os.path.basename(path).startswith(s)] or ["mixed"]
        for scene in scenes:
            violations, *_ = judged(scene, docs, simulator.run([docs])[0])
            bad += bool(violations)
            for kind, _, words, _ in violations:
                print(f"{path}: {kind}: {words}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
