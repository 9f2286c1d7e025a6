#!/usr/bin/env python3
"""agent.py: how fast the node agent starts pods, and what it costs in memory.

POST of a pod to the first instruction of its process on an idle machine; short pods a second when many are asked
for at once, beside plain spawns in the same namespaces; memory with 100 running pods. Needs root for namespaces.
"""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build"))
PODS = "/api/v1/namespaces/default/pods"
SINGLES = 100
MANY = 1000
CLIENTS = 4
RUNNING = 100
TICK = 0.005


class Client:
    def __init__(self, server, token):
        self.connection = http.client.HTTPSConnection(server, context=ssl._create_unverified_context(), timeout=60)
        self.headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}

    def call(self, method, path, body=None):
        self.connection.request(method, path, body, self.headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]}")
        return json.loads(data)


def pod(name, command, node=None):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        **({"nodeName": node} if node else {}), "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "command": command}]}})


def until(condition, what, limit=120):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(TICK)
    sys.exit(f"bench: waited {limit} s for {what}")


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def unfinished(client):
    """One pod that has not succeeded, or none: asked for so that the answer stays small."""
    return client.call("GET", PODS + "?limit=1&fieldSelector=status.phase!%3DSucceeded")["items"]


def latency(client, data, first, node=None):
    took = []
    for i in range(SINGLES):
        begin = time.time_ns()
        uid = client.call("POST", PODS, pod(f"one-{node}-{i}".lower(), [first], node))["metadata"]["uid"]
        log = f"{data}/pods/{uid}/c/main/0.log"
        until(lambda: os.path.exists(log) and os.path.getsize(log), "the pod's output")
        with open(log) as f:
            took.append((int(f.read().split()[-1]) - begin) / 1e6)
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


def sustained(server, token, first):
    clients = [Client(server, token) for _ in range(CLIENTS)]

    def create(k):
        for i in range(k, MANY, CLIENTS):
            clients[k].call("POST", PODS, pod(f"many-{i}", [first]))
    begin = time.monotonic()
    threads = [threading.Thread(target=create, args=(k,)) for k in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    until(lambda: not unfinished(clients[0]), "the short pods to succeed")
    return MANY / (time.monotonic() - begin)


def clear(client):
    client.call("DELETE", PODS)
    until(lambda: not client.call("GET", PODS)["items"], "the pods to go")


def memory(client, data, muster):
    for i in range(RUNNING):
        client.call("POST", PODS, pod(f"run-{i}", ["sleep", "1000"]))
    until(lambda: sum(p["status"].get("phase") == "Running" for p in client.call("GET", PODS)["items"]) == RUNNING,
          "the pods to run")
    shims = []
    for uid in os.listdir(data + "/pods"):
        try:
            with open(f"{data}/pods/{uid}/shim.pid") as f:
                shims.append(rss_kib(int(f.read().split()[0])))
        except OSError:
            pass
    result = rss_kib(muster) / 1024, max(shims)
    clear(client)
    return result


def main():
    if os.geteuid() != 0:
        print("agent: skipped: needs root for namespaces")
        return 0
    first, spawn = (os.path.join(BUILD, "bench", f"bench-{n}") for n in ("first", "spawn"))
    for program in (first, spawn):
        if not os.path.exists(program):
            sys.exit(f"bench: {program} is missing: ninja -C build bench/bench-first bench/bench-spawn")
    folder = tempfile.mkdtemp(prefix="muster-bench-")
    data, config = folder + "/data", folder + "/kubeconfig"
    process = subprocess.Popen([os.path.join(BUILD, "muster"), "up", "--data-dir", data, "--listen", "127.0.0.1:0",
                                "--kubeconfig-out", config, "--cpus-per-node", "10000", "--log-level", "error"],
                               stdout=subprocess.DEVNULL)
    try:
        until(lambda: os.path.exists(config), "muster up")
        with open(config) as f:
            lines = [line.split(":", 1) for line in f.read().splitlines() if ":" in line]
        field = {k.strip(" -"): v.strip().strip('"') for k, v in lines}
        server, token = field["server"].split("//")[1], field["token"]
        client = Client(server, token)
        until(lambda: client.call("GET", "/api/v1/nodes")["items"], "the node")
        rss, shim = memory(client, data, process.pid)
        p50, p99 = latency(client, data, first)
        bound50, bound99 = latency(client, data, first, node="node-0")
        limit = float(subprocess.run([spawn, first], check=True, text=True, stdout=subprocess.PIPE).stdout)
        rate = sustained(server, token, first)
        clear(client)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"agent: POST to first instruction: p50 {p50:.1f} ms (budget 5), p99 {p99:.1f} ms (budget 15)")
    print(f"agent: the same, bound to its node when posted: p50 {bound50:.1f} ms, p99 {bound99:.1f} ms")
    print(f"agent: short pods: {rate:.0f}/s (budget 300), {100 * rate / limit:.0f} % of {limit:.0f} plain spawns/s "
          "in four namespaces (budget 50 %)")
    print(f"agent: {RUNNING} running pods: muster {rss:.1f} MiB (budget 40), largest shim {shim} KiB (budget 1024)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
