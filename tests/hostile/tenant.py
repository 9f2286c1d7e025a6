#!/usr/bin/env python3
"""tenant.py: a hostile tenant beside a training one, on one muster up, for HOSTILE_SECONDS (600). Its verdict on speed counts
from 60 seconds on.

The training (alice, with a CPU request) prints the time of each step, in turns alone and beside bob, whose pods burn CPU,
memory and processes at their limits and whose credentials are used to ask for what is alice's. Steps may slow down by what her
request allows: with a request of R of N CPUs she is promised R / N of the machine. Nothing of hers may be read or changed.
What else the machine does meanwhile slows both down, so a turn beside is compared with the one alone before it.

Beside them an account with `edit` in a namespace of its own, and bob again, try the ways out of a pod (attacks.py), read what the
owner writes into his home while their pods run, ask for two billion pods and for objects that would hold the loop, fill their
namespace, and open streams that they do not read."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

from attacks import Editor, merge, person_leads_out, reads_kubeconfig  # noqa: E402
from harness import Failure, Skip, check, wait_for  # noqa: E402
from pods import container, pod  # noqa: E402
from test_people import Two, mount, write  # noqa: E402

ROUNDS = 4  # of both, one after the other; a third of each is alone
SLOWER_MAX = 1.5  # times, of what the request promises
SECONDS = int(os.environ.get("HOSTILE_SECONDS") or "600")
STEP = ("import time\nx = 0\nwhile True:\n  began = time.monotonic()\n  for i in range(100000): x += i * i\n"
        "  print('step', round(1000 * (time.monotonic() - began)), flush=True)\n")
BURN = "import os\nfor i in range(%d):\n  if os.fork() == 0:\n    while True: pass\nwhile True: pass" % (2 * os.cpu_count())
EAT = "x = []\nwhile True: x.append(bytearray(16 << 20))"
FORK = "import os, time\nwhile True:\n  try:\n    if os.fork() == 0: time.sleep(600)\n  except OSError: time.sleep(1)"


def steps(person, since):
    out = person.kubectl("logs", "training", ok=False).stdout.split()
    return [int(n) for n in out[1::2]][since:]


def measure(person, seconds):
    """Milliseconds of each step of so many seconds from now on."""
    since, end = len(steps(person, 0)), time.monotonic() + seconds
    while time.monotonic() < end or len(steps(person, since)) < 5:
        yield
        time.sleep(1)
    return steps(person, since)


def taken(moves, between=lambda: None):
    while True:
        try:
            next(moves)
        except StopIteration as end:
            return end.value
        between()


class Attack:
    """What the hostile ones do, as often as there is time for it."""

    def __init__(self, t, home):
        self.t, self.home, self.tries, self.merged = t, home, 0, None
        self.editor = Editor(t.m, t.top)
        self.editor.begin()
        small = {"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}}
        t.bob.create(pod("waits", container(["sleep", "36000"], resources=small), terminationGracePeriodSeconds=0))
        wait_for(lambda: "Running" in t.bob.kubectl("get", "pod", "waits").stdout, "bob's pod", 120)

    def __enter__(self):
        small = {"requests": {"cpu": "100m"}, "limits": {"memory": "256Mi"}}
        for name, code in ("burn", BURN), ("eat", EAT), ("fork", FORK):
            self.t.bob.create(pod(name, container(["python3", "-c", code], resources=small), restart="Always",
                                  terminationGracePeriodSeconds=0))
        self.editor.flood(2_000_000_000)
        self.merged = self.merged or merge(self.t.m, self.home)
        return self

    def __exit__(self, *how):
        self.t.bob.kubectl("delete", "pod", "burn", "eat", "fork", "--timeout=120s")
        self.editor.flood(0)
        self.editor.let_go()

    def once(self):
        bob = self.t.bob
        got = (self.editor.attack() or person_leads_out(bob, self.tries) or reads_kubeconfig(self.editor, "waits", self.merged)
               or reads_kubeconfig(bob, "waits", self.merged))
        check(not got, f"a way out: {got}")
        for words in (["get", "secrets", "-n", "alice"], ["delete", "pods", "--all", "-n", "alice"],
                      ["exec", "-n", "alice", "training", "--", "id"], ["delete", "node", "node-0"], ["get", "pods", "-A"],
                      ["patch", "namespace", "bob", "-p", '{"metadata":{"annotations":{"torchrun.ai/person-uid":"70001"}}}']):
            said = bob.kubectl(*words, ok=False)
            check(said.returncode != 0 and "hers" not in said.stdout, f"{words}: {said.stdout}")
        spec = mount(self.t.alice.home)
        bad = pod(f"look{self.tries}", container("cat /m/data", **spec["container"]), volumes=spec["volumes"])
        check(bob.create(bad, ok=False).returncode != 0, "bob mounts alice's home")
        self.tries += 9


def compare(t, home):
    """(milliseconds of steps alone, beside, how many times slower each round was, requests)"""
    alone, beside, slower, attack = [], [], [], None
    for _ in range(ROUNDS):
        calm = taken(measure(t.alice, SECONDS / ROUNDS / 3))
        attack = attack or Attack(t, home)
        with attack:
            rough = taken(measure(t.alice, SECONDS / ROUNDS * 2 / 3), attack.once)
        slower.append(statistics.median(rough) / statistics.median(calm))
        print(f"alone {statistics.median(calm)} ms ({len(calm)} steps), beside {statistics.median(rough)} ms ({len(rough)})",
              flush=True)
        alone, beside = alone + calm, beside + rough
    return alone, beside, slower, attack.tries


def play(home, prefix):
    cpus = os.cpu_count()
    with Two(prefix) as t:
        write(f"{t.alice.home}/data", "hers\n", 70001, 0o600)
        request = {"requests": {"cpu": f"{500 * cpus}m", "memory": "256Mi"}}
        t.alice.create(pod("training", container(["python3", "-uc", STEP], resources=request)))
        t.alice.kubectl("create", "secret", "generic", "key", "--from-literal=a=hers")
        wait_for(lambda: len(steps(t.alice, 0)) > 3, "the training to run", 120)
        alone, beside, slower, tries = compare(t, home)
        with open(f"{t.alice.home}/data") as f:
            check(f.read() == "hers\n", "her file is as it was")
        found = json.loads(t.alice.kubectl("get", "pod", "training", "-o", "json").stdout)["status"]
        check(found["phase"] == "Running" and found["containerStatuses"][0]["restartCount"] == 0, f"{found}")
        turns = re.findall(r"^muster_loop_(\w+) ([\d.]+)$", t.m.kubectl("get", "--raw", "/metrics").stdout, re.MULTILINE)
        print("the server's loop:", ", ".join(f"{name} {value}" for name, value in turns), flush=True)
    times = statistics.median(slower)
    print(f"step alone: {statistics.median(alone)} ms ({len(alone)} steps); beside hostile ones: {statistics.median(beside)} ms "
          f"({len(beside)} steps); {times:.2f} times, in rounds {', '.join(f'{by:.2f}' for by in slower)}; {tries} requests "
          "refused; nothing read or changed")
    # One thread of a request of half the machine: what is promised is at least one CPU from two on.
    allowed = max(1.0, 1 / (0.5 * cpus)) * SLOWER_MAX
    print(f"allowed by the request: {allowed:.2f} times")
    good = times <= allowed or SECONDS < 60
    if not good:
        print("failed: steps")
    print(f"{1 + good} passed, {1 - good} failed, 0 skipped")
    return 0 if good else 1


def main():
    """The owner's home is one that is made for this: a kubeconfig is written into it."""
    folder = tempfile.mkdtemp(prefix="muster-home-", dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        with open("/etc/passwd") as f, open(f"{folder}/passwd", "w") as out:
            for line in f:
                words = line.split(":")
                out.write(":".join([*words[:5], folder, *words[6:]]) if words[0] == "root" else line)
        return play(folder, ["unshare", "-m", "sh", "-c", f'mount --bind {folder}/passwd /etc/passwd && exec "$@"', "sh"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(77)
    except (Failure, subprocess.TimeoutExpired) as why:
        print(f"{why}\nfailed: hostile\n0 passed, 1 failed, 0 skipped")
        sys.exit(1)
