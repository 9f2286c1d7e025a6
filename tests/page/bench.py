#!/usr/bin/env python3
"""bench.py [--nodes N] [--pods N]: what the web page costs a large cluster and its viewers; `make bench-page`.

A muster up with hollow nodes and pods in gangs (1,000 and 10,000 unless told). Prints, each with its budget:

  first paint   after the document is there, in a real Chromium
  all of it     until the whole state is drawn
  a change      from its commit to the screen
  20 viewers    what they cost muster beside itself, in memory and CPU, at 100 changes a second

Ends with 1 when a budget is missed. Nothing else should run on the machine: figures are those of a quiet one."""

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)

from harness import Muster, Skip, binary, check, wait_for  # noqa: E402
from run import cache, chromium  # noqa: E402
from test_page import Browser  # noqa: E402
from test_rights import Client  # noqa: E402

GANG = 40
TEAMS, STILL = 10, 50
VIEWERS, RATE, SECONDS, ROUNDS = 20, 100, 10, 5
PAINT_MS, CHANGE_MS, MEMORY_MB, CPU_PERCENT = 300, 200, 10, 5


def gang(number):
    container = {"name": "pytorch", "image": "x", "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": {"name": f"gang-{number}", "namespace": f"team-{number % TEAMS}",
                         "labels": {"kai.scheduler/queue": "default-queue"}},
            "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": GANG, "template": {"spec": {"containers": [container]}}}}}}


def used(pid):
    """(seconds of CPU, bytes of memory of its own) of a process."""
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/smaps_rollup") as f:
        pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), pss << 10


def still(number):
    """A job that is suspended: its changes cost muster little, so that what they cost for viewers is seen."""
    container = {"name": "main", "image": "x", "command": ["true"], "env": [{"name": "FILL", "value": "x" * 600}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"still-{number}", "namespace": "team-0"},
            "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}


class Changes:
    """RATE changes a second of jobs, or as many as the machine does, on one connection, until it is over."""

    def __init__(self, m, names):
        self.client, self.names, self.over, self.made = Client(m), names, False, 0
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        began = time.monotonic()
        connection = http.client.HTTPSConnection(self.client.url.split("//")[1], context=self.client.context, timeout=60)
        headers = {**self.client.headers, "Content-Type": "application/merge-patch+json"}
        while not self.over:
            name = self.names[self.made % len(self.names)]
            connection.request("PATCH", f"/apis/batch/v1/namespaces/team-0/jobs/{name}",
                               json.dumps({"metadata": {"labels": {"bench": str(self.made)}}}), headers)
            answer = connection.getresponse()
            answer.read()
            check(answer.status == 200, f"a change was answered {answer.status}")
            self.made += 1
            time.sleep(max(0, began + self.made / RATE - time.monotonic()))

    def measure(self, pid):
        """Over SECONDS: what RATE changes a second cost in percent of a core, changes a second, bytes at the end, and how many
        of them each change added.

        A change costs what it costs: where the machine is too busy for RATE of them, what was spent is counted for RATE."""
        (cpu, before), made, began = used(pid), self.made, time.monotonic()
        time.sleep(SECONDS)
        spent, (more, after) = time.monotonic() - began, used(pid)
        return {"cpu": (more - cpu) / (self.made - made) * RATE * 100, "rate": (self.made - made) / spent, "bytes": after,
                "made": self.made, "growth": (after - before) / (self.made - made)}


class Reader(Browser):
    """A tab, until it is closed."""

    def stream_bytes(self, query):
        where, port = self.url.split("//")[1].split(":")
        connection = http.client.HTTPSConnection(where, int(port), context=self.context, timeout=600)
        connection.request("GET", "/ui/stream?" + query, headers=self.headers)
        answer = connection.getresponse()
        while piece := answer.read1(262144):
            yield piece


@contextlib.contextmanager
def viewers(m):
    """Open tabs that read all they are told."""
    link = subprocess.run(["muster", "open", "--print"], env=m.env, text=True, check=True, stdout=subprocess.PIPE).stdout.strip()
    one = Reader(m, {"code": link.split("#")[1]})
    with open(os.path.join(os.path.dirname(os.path.dirname(HERE)), "web", "model.js")) as f:
        text = f.read()
    kinds = [line.split('path: "')[1].split('"')[0] + "/" + line.split('plural: "')[1].split('"')[0]
             for line in text.splitlines() if 'plural: "' in line]
    watches = ["v1/nodes", "scheduling.run.ai/v2/queues", "scheduling.run.ai/v2alpha2/podgroups", "v1/pods", *kinds,
               "kai.scheduler/v1alpha1/topologies"]
    query = "&".join("watch=" + w for w in watches)
    told = [0] * VIEWERS
    over = threading.Event()

    def read(index):
        with contextlib.suppress(http.client.HTTPException, OSError):  # muster ends before they do
            for piece in one.stream_bytes(query):
                told[index] += piece.count(b'"t":"SYNCED"')
                if over.is_set():
                    return
    threads = [threading.Thread(target=read, args=(index,), daemon=True) for index in range(VIEWERS)]
    for thread in threads:
        thread.start()
    wait_for(lambda: all(n >= len(watches) - 3 for n in told), "the viewers to have everything", 300)
    yield
    over.set()
    for thread in threads:
        thread.join()


def tell(what, value, unit, budget):
    good = value <= budget
    print(f"{what:52} {value:8.1f} {unit:4} budget {budget} {unit}{'' if good else '   MISSED'}", flush=True)
    return good


def middle(values):
    return sorted(values)[len(values) // 2]


def measure(m, folder):
    pid = m.process.pid
    token = open(m.kubeconfig).read().split("token: ")[1].split()[0]
    env = dict(m.env, MUSTER_URL="https://" + m.listen, MUSTER_CHROMIUM=chromium(), MUSTER_PAGE_CACHE=folder, MUSTER_TOKEN=token,
               MUSTER_JOB="gang-0")
    done = subprocess.run(["node", os.path.join(HERE, "bench.mjs")], env=env, text=True, stdout=subprocess.PIPE, timeout=900)
    if done.returncode:
        sys.exit("bench.mjs failed")
    at = json.loads(done.stdout)
    print(f"{'load of the machine, of its cores':52} {os.getloadavg()[0]:8.1f} of {os.cpu_count()}")
    good = tell("first paint after the document, middle of 5", middle(at["paints"]), "ms", PAINT_MS)
    print(f"{'  the quickest of them':52} {min(at['paints']):8.1f} ms")
    print(f"{'the whole state is drawn after, middle of 5':52} {middle(at['whole']):8.1f} ms")
    good &= tell("a change on the screen after its commit, middle of 10", middle(at["seen"]), "ms", CHANGE_MS)
    print(f"{'  the quickest and the slowest of them':52} {min(at['seen']):8.1f} and {max(at['seen']):.1f} ms")
    for view, ms in at["views"].items():
        print(f"{view + ' is drawn, from its address':52} {ms:8.1f} ms")
    changes = Changes(m, [f"still-{number}" for number in range(STILL)])
    changes.thread.start()
    time.sleep(5)
    alone, watched = [], []
    for _ in range(ROUNDS):  # in turns: what else the machine does, and muster's own history, is in both
        alone.append(changes.measure(pid))
        with viewers(m):
            time.sleep(2)
            watched.append(changes.measure(pid))
    changes.over = True
    changes.thread.join()

    def of(rows, field):
        return middle([row[field] for row in rows])
    cost = [w["cpu"] - a["cpu"] for a, w in zip(alone, watched)]
    grows = max(0, of(alone, "growth"))  # muster's own history, a change, until that is full
    room = [(w["bytes"] - a["bytes"] - grows * (w["made"] - a["made"])) / 1e6 for a, w in zip(alone, watched)]
    print(f"{'changes a second, without and with viewers':52} {of(alone, 'rate'):8.1f} and {of(watched, 'rate'):.1f}")
    print(f"{f'muster alone: CPU at {RATE} a second, memory':52} {of(alone, 'cpu'):8.1f} %    {of(alone, 'bytes') / 1e6:.1f} MB")
    good &= tell(f"{VIEWERS} viewers: CPU beside that, middle of {ROUNDS}", middle(cost), "%", CPU_PERCENT)
    print(f"{'  each time':52} {', '.join(f'{c:.1f}' for c in cost)} %")
    good &= tell(f"{VIEWERS} viewers: memory beside that, most of {ROUNDS}", max(room), "MB", MEMORY_MB)
    print(f"{'  each time':52} {', '.join(f'{r:.1f}' for r in room)} MB")
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10000)
    options = parser.parse_args()
    try:
        folder = cache(False)
        chromium()
    except Skip as e:
        print(f"skipped: {e}")
        return 0
    with Muster(nodes=1) as m:
        with open(os.path.join(m.folder, "hollow.log"), "w") as log:
            hollow = subprocess.Popen([binary("muster"), "hollow-nodes", str(options.nodes), "--kubeconfig", m.kubeconfig,
                                       "--gpus-per-node", "16", "--run-jobs-for", "24h", "--taint=false"],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(lambda: len(m.get("nodes")) > options.nodes, f"{options.nodes} hollow nodes", 300)
            gangs = -(-options.pods // GANG)
            for team in range(TEAMS):
                m.kubectl("create", "namespace", f"team-{team}")
            m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [still(i) for i in range(STILL)]}))
            for begin in range(0, gangs, 25):
                m.apply(json.dumps({"apiVersion": "v1", "kind": "List",
                                    "items": [gang(i) for i in range(begin, min(gangs, begin + 25))]}))
            wait_for(lambda: sum(g.get("status", {}).get("running", 0) or 0 for g in m.get("podgroups", ns=None)) >= gangs * GANG,
                     f"{gangs} gangs of {GANG} pods to run", 900)
            print(f"{options.nodes} hollow nodes, {gangs * GANG} pods in {gangs} gangs", flush=True)
            return 0 if measure(m, folder) else 1
        finally:
            hollow.terminate()
            hollow.wait()


if __name__ == "__main__":
    sys.exit(main())
