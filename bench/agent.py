#!/usr/bin/env python3
"""agent.py: how fast the node agent starts pods, and what it costs in memory.

POST of a pod to the first instruction of its process on an idle machine; short pods a second when many are asked
for at once, beside what the kernel alone can do in the same namespaces, with and without the root file system every
pod gets (bench/spawn.c); memory with 100 running pods. Needs root for namespaces.

The rates are medians of alternating rounds: a file system that has just removed many files is slower for all of them.
"""

import http.client
import json
import os
import shutil
import socket
import ssl
import statistics
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
ROUNDS = 3
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


class Poster:
    """Creates pods with as little work as possible: it shares the machine with what it measures."""

    def __init__(self, server, token):
        host, port = server.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), timeout=60)
        self.socket = ssl._create_unverified_context().wrap_socket(raw, server_hostname=host)
        self.head = (f"POST {PODS} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\n"
                     "Content-Type: application/json\r\nContent-Length: ")

    def post(self, body):
        self.socket.sendall(f"{self.head}{len(body)}\r\n\r\n{body}".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(65536)
        head, rest = answer.split(b"\r\n\r\n", 1)
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += self.socket.recv(65536)
        if not head.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(f"POST {PODS}: {head[:100]} {rest[:300]}")


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
    posters = [Poster(server, token) for _ in range(CLIENTS)]
    client = Client(server, token)
    bodies = [pod(f"many-{i}", [first]) for i in range(MANY)]

    def create(k):
        for body in bodies[k::CLIENTS]:
            posters[k].post(body)
    begin = time.monotonic()
    threads = [threading.Thread(target=create, args=(k,)) for k in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    until(lambda: not unfinished(client), "the short pods to succeed")
    return MANY / (time.monotonic() - begin)


def rates(server, token, client, data, programs):
    """Medians: short pods, plain spawns, plain spawns with a root of their own."""
    first, spawn = programs
    rounds = []
    for _ in range(ROUNDS):
        out = subprocess.run([spawn, first], check=True, text=True, stdout=subprocess.PIPE).stdout
        rounds.append([sustained(server, token, first), *map(float, out.split())])
        clear(client)
        settle(data)
    return [statistics.median(column) for column in zip(*rounds)]


def clear(client):
    client.call("DELETE", PODS)
    until(lambda: not client.call("GET", PODS)["items"], "the pods to go")


def settle(data):
    """Until nothing is left of pods that were deleted: their processes go first, then their files."""
    until(lambda: not os.listdir(data + "/pods") and not os.listdir(data + "/trash"), "the folders of the pods to go")


def memory(client, data, muster):
    for i in range(RUNNING):
        client.call("POST", PODS, pod(f"run-{i}", ["sleep", "1000"]))
    until(lambda: sum(p["status"].get("phase") == "Running" for p in client.call("GET", PODS)["items"]) == RUNNING,
          "the pods to run")
    folders = {f"{data}/pods/{uid}" for uid in os.listdir(data + "/pods")}
    shims = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") in folders:
                shims.append(rss_kib(pid))
        except OSError:
            pass
    result = rss_kib(muster) / 1024, max(shims)
    clear(client)
    settle(data)
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
                                "--kubeconfig-out", config, "--cpus-per-node", "10000", "--max-pods", "1000",
                                "--log-level", "error"],
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
        clear(client)
        settle(data)
        rate, bare, rooted = rates(server, token, client, data, (first, spawn))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"agent: POST to first instruction: p50 {p50:.1f} ms (budget 5), p99 {p99:.1f} ms (budget 15)")
    print(f"agent: the same, bound to its node when posted: p50 {bound50:.1f} ms, p99 {bound99:.1f} ms")
    print(f"agent: short pods: {rate:.0f}/s (budget 300), {100 * rate / rooted:.0f} % of {rooted:.0f} plain spawns/s "
          "in the same namespaces and root (budget 50 %)")
    print(f"agent: the same namespaces alone, on the host's own root: {bare:.0f} plain spawns/s, "
          f"{100 * rate / bare:.0f} %")
    print(f"agent: {RUNNING} running pods: muster {rss:.1f} MiB (budget 40), largest shim {shim} KiB (budget 1024)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
