#!/usr/bin/env python3
"""run.py [--time S] [--kills N] [--seed N] [--out FILE]: a muster up under churn for a long time, and whether it stays as it was.

Without --kills, for S seconds: work of every kind, users, queues and watchers come and go (load.py), hollow nodes join and leave,
and every twelfth of the time something happens to muster: a clean restart, kill -9, the calendar ten minutes ahead and back
again, a disk that takes 30 ms longer for each sync, a pod that writes 80 MiB of log. Memory, descriptors, threads, files, the
store, its log and the write-ahead log are looked at all the time and must be flat: the last third no higher than the first, but
for a small margin. With --kills, N times kill -9 under the same load, at moments that the seed chooses.

In both, nothing that was acknowledged may be lost, and no pod may run twice. The samples go to FILE as a table (build/results
unless told); the end is `N passed, N failed`.
"""

import argparse
import collections
import datetime
import json
import os
import random
import signal
import sqlite3
import statistics
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import harness  # noqa: E402
from harness import BUILD, Muster, binary, wait_for  # noqa: E402
from load import ACTORS, CLAIM, NODE, Ledger  # noqa: E402
from pods import container, shims  # noqa: E402

SAMPLE_S = 2
PARTS = 12  # of the time, with something that happens in each
AHEAD_MS = 600000
SYNC_MS = 30
CHATTY_MIB = 80
HOLLOW = 5
EVENT_TTL_S = 180  # so that as many go as come long before the first third is over
# What is looked at, and by how much the last third may be above the first: a factor, and something for small numbers.
MEASURES = {"rss_mib": (1.35, 24), "fds": (1.3, 30), "threads": (1.2, 8), "files": (1.5, 400), "store_mib": (1.5, 24),
            "wal_mib": (1.5, 12), "objects": (1.5, 300), "log_rows": (1.6, 6000)}
LOG_BYTES_MAX = 51 << 20  # of one container: SHIM_LOG_FILES_MAX of SHIM_LOG_BYTES, and the pod's other files


class Soak:
    def __init__(self, options):
        self.seed, self.options = options.seed, options
        self.over, self.ended = threading.Event(), threading.Event()
        self.trouble = collections.Counter()
        self.keep, self.left, self.samples, self.events, self.failures = [], [], [], [], []
        self.m = Muster(gpus_per_node=2, flags=["--cpus-per-node", "64", "--pod-network", "host", "--max-pods", "200",
                                                    "--event-ttl", f"{EVENT_TTL_S}s"])
        self.weather_file = os.path.join(self.m.folder, "weather")
        self.weather(0, 0)
        self.m.env.update(LD_PRELOAD=os.path.join(BUILD, "tests", "soak", "weather.so"), SOAK_WEATHER=self.weather_file)
        self.ledger = Ledger(os.path.join(self.m.data, "volumes"))
        self.hollow = None
        self.began = time.monotonic()

    def weather(self, ahead_ms, sync_ms):
        with open(self.weather_file, "r+b" if os.path.exists(self.weather_file) else "wb") as f:
            f.write(struct.pack("<qq", ahead_ms, sync_ms))

    def say(self, text):
        self.events.append((time.monotonic() - self.began, text))
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    # ---- what is looked at ----

    def sample(self):
        pid, data = self.m.process.pid, self.m.data
        with open(f"/proc/{pid}/status") as f:
            words = dict(line.split(":", 1) for line in f)
        sizes = {name: os.path.getsize(os.path.join(data, name)) for name in os.listdir(data) if name.startswith("store.db")}
        with sqlite3.connect(f"file:{data}/store.db?mode=ro", uri=True, timeout=5) as db:
            objects, rows = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("objects", "log"))
        return {"rss_mib": int(words["VmRSS"].split()[0]) / 1024, "threads": int(words["Threads"]),
                "fds": len(os.listdir(f"/proc/{pid}/fd")), "files": sum(len(files) for _, _, files in os.walk(data)),
                "store_mib": sizes.get("store.db", 0) / 2**20, "wal_mib": sizes.get("store.db-wal", 0) / 2**20,
                "objects": objects, "log_rows": rows}

    def watch(self):
        while not self.over.wait(SAMPLE_S):
            try:
                self.samples.append((time.monotonic() - self.began, self.sample()))
            except (OSError, KeyError, sqlite3.Error):  # it is being restarted
                self.trouble["samples left out"] += 1

    # ---- what happens ----

    def restart(self, clean):
        if clean:
            self.m.process.send_signal(signal.SIGTERM)
            code = self.m.process.wait(60 * harness.PATIENCE)
            if code:
                self.failures.append(f"muster up ended with {code}")
        else:
            self.m.kill()
        self.m.start()

    def chatty(self):
        name = f"chatty-{len(self.events)}"
        command = f"yes 0123456789012345678901234567890123456789 | head -c {CHATTY_MIB << 20}"
        self.m.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                                 "spec": {"restartPolicy": "Never", "nodeSelector": NODE, "containers": [container(command)]}}))
        wait_for(lambda: self.m.get("pod", name)["status"].get("phase") == "Succeeded", f"pod {name} to end", 120)
        uid = self.m.get("pod", name)["metadata"]["uid"]
        place = os.path.join(self.m.data, "pods", uid)
        kept = sum(os.path.getsize(os.path.join(folder, f)) for folder, _, files in os.walk(place) for f in files)
        if kept > LOG_BYTES_MAX:
            self.failures.append(f"a pod that wrote {CHATTY_MIB} MiB has {kept >> 20} MiB of log on disk")
        self.say(f"a pod wrote {CHATTY_MIB} MiB of log, {kept >> 20} MiB are kept")
        self.m.kubectl("delete", "pod", name)

    def nodes(self, join):
        if join and not self.hollow:
            with open(os.path.join(self.m.folder, "hollow.log"), "a") as log:
                self.hollow = subprocess.Popen([binary("muster"), "hollow-nodes", str(HOLLOW), "--kubeconfig", self.m.kubeconfig,
                                                "--taint=false"],
                                               stdout=log, stderr=log, env={**self.m.env, "LD_PRELOAD": ""})
        elif not join and self.hollow:
            self.hollow.terminate()
            self.hollow.wait()
            self.hollow = None
            self.m.kubectl("delete", "nodes", *(f"hollow-{i}" for i in range(HOLLOW)), ok=False)

    def happen(self, number):
        what = number % 6
        if what == 0:
            self.say("a clean restart")
            self.restart(True)
        elif what == 1:
            self.say(f"{HOLLOW} nodes join")
            self.nodes(True)
        elif what == 2:
            self.say("kill -9")
            self.restart(False)
        elif what == 3:
            self.say("the calendar is ten minutes ahead, then right again")
            self.weather(AHEAD_MS, 0)
            self.over.wait(min(20, self.options.time / PARTS / 2))
            self.weather(0, 0)
        elif what == 4:
            self.say(f"{HOLLOW} nodes leave; every sync takes {SYNC_MS} ms longer for a while")
            self.nodes(False)
            self.weather(0, SYNC_MS)
            self.over.wait(min(60, self.options.time / PARTS / 2))
            self.weather(0, 0)
        else:
            self.chatty()

    def disturb(self):
        part = self.options.time / PARTS
        for number in range(PARTS):
            self.over.wait(max(0, self.began + part * (number + 0.5) - time.monotonic()))
            self.happen(number)
        self.over.wait(max(0, self.began + self.options.time - time.monotonic()))

    def kill(self):
        chance = random.Random(self.seed)
        for number in range(1, self.options.kills + 1):
            self.over.wait(chance.uniform(0, 1.5))
            self.restart(False)
            if number % 25 == 0:
                self.say(f"{number} kills, {sum(self.ledger.made.values())} objects made, {self.ledger.ended} pods ended")

    # ---- the end ----

    def play(self):
        self.m.apply('{"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "small"}, '
                     '"spec": {"nodeResources": {"gpus": 0, "cpus": 1, "memory": "256Mi"}}}')
        self.m.apply(json.dumps(CLAIM))
        actors = [kind(self, n) for kind, count in ACTORS.items() for n in range(count)]
        actors.append(threading.Thread(target=self.watch, daemon=True))
        for actor in actors:
            actor.start()
        try:
            (self.kill if self.options.kills else self.disturb)()
        finally:
            self.over.set()
            for actor in actors:
                actor.join(60 * harness.PATIENCE)
            self.nodes(False)
        self.judge()
        self.ended.set()

    def judge(self):
        for at in self.left:
            self.ledger.there.pop(at, None)
        lost = [at for at, uid in self.ledger.there.items()
                if (self.m.rest.get(at) or {}).get("metadata", {}).get("uid") != uid]
        twice = [name for name, count in self.ledger.starts().items() if name.startswith("pods-") and count > 1]
        self.say(f"made: {dict(self.ledger.made)}; {self.ledger.ended} pods ended; lost: {len(lost)}; ran twice: {len(twice)}")
        self.failures += [f"lost: {at}" for at in lost] + [f"ran twice: {name}" for name in twice] + self.ledger.wrong
        if not self.ledger.ended:
            self.failures.append("no pod came to its end")
        self.m.delete_pods()
        wait_for(lambda: not shims(self.m), "the last shim to end", 30)
        done = harness.run([binary("muster"), "store", "check", "--data-dir", self.m.data], env={**self.m.env, "LD_PRELOAD": ""},
                           ok=False)
        if done.returncode:
            self.failures.append(f"muster store check: {done.stdout}{done.stderr}")
        if not self.options.kills:
            self.flat()

    def flat(self):
        """The last third against the first, warming up aside."""
        end = self.samples[-1][0]
        for name, (factor, slack) in MEASURES.items():
            first = [s[name] for at, s in self.samples if end * 0.08 < at < end * 0.4]
            last = [s[name] for at, s in self.samples if at > end * 0.67]
            if not first or not last:
                self.failures.append(f"{name}: too few samples")
                continue
            before, after = statistics.median(first), statistics.median(last)
            grew = after > before * factor + slack
            self.say(f"{name}: {before:.1f} in the first third, {after:.1f} in the last{', which is not flat' if grew else ''}")
            self.failures += [f"{name} is not flat"] if grew else []


def percentiles(ledger):
    for method, taken in sorted(ledger.latency.items()):
        ms = sorted(taken)
        at = [ms[min(len(ms) - 1, int(len(ms) * q))] for q in (0.5, 0.9, 0.99, 0.999)]
        yield (f"{method:7} {len(ms):8} requests: p50 {at[0]:.1f} ms, p90 {at[1]:.1f}, p99 {at[2]:.1f}, p99.9 {at[3]:.1f}, "
               f"most {ms[-1]:.0f}")


def write_table(path, soak):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("seconds\t" + "\t".join(MEASURES) + "\n")
        for at, sample in soak.samples:
            f.write(f"{at:.1f}\t" + "\t".join(f"{sample[name]:.1f}" for name in MEASURES) + "\n")
        for at, text in soak.events:
            f.write(f"# {at:.1f} s: {text}\n")
        f.writelines(f"# {line}\n" for line in percentiles(soak.ledger))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", type=float, default=3600)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    name = "kills" if options.kills else "soak"
    out = options.out or os.path.join(ROOT, "build", "results", f"{name}-{datetime.datetime.now():%Y-%m-%dT%H%M%S}.tsv")
    soak = Soak(options)
    try:
        with soak.m:
            soak.play()
    except Exception as e:  # told with what else is wrong
        soak.failures.append(f"{type(e).__name__}: {e}")
    finally:
        soak.over.set()
        soak.ended.set()
        if soak.hollow:
            soak.hollow.kill()
    write_table(out, soak)
    print("\n".join(percentiles(soak.ledger)))
    print(f"trouble that clients met and went on from: {dict(soak.trouble)}")
    for text in soak.failures:
        print(f"failed: {name}: {text}")
    print(f"samples: {out}")
    print(f"{0 if soak.failures else 1} passed, {1 if soak.failures else 0} failed")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
