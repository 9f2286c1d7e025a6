#!/usr/bin/env python3
"""memory.py: what `muster up` keeps for one node, one pod, one job and one watcher.

Each figure is how much its memory (VmRSS) grew by a crowd of them, once it had nothing left to do, divided by their
number: objects in the store, in the caches of controllers and scheduler, in the log of changes that watches go on from,
and what the allocator does not give back. Pods wait at a scheduling gate, jobs are suspended, and nodes have no machine.
A watcher is a connection with TLS that watches all pods and hears nothing.
"""

import http.client
import json
import os
import socket
import ssl
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from server import Muster, memory_mb, settle  # noqa: E402

NODES, PODS, JOBS, WATCHERS = 2000, 10000, 2000, 500
MOST_KB = {"node": 8, "pod": 24, "job": 16, "watcher": 24}


def node(name):
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {},
            "status": {"capacity": amounts, "allocatable": amounts}}


def pod(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "schedulingGates": [{"name": "example.com/later"}], "schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "image": "none", "command": ["sleep", "1"],
                        "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}


def job(name):
    return {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": name},
            "spec": {"jobQueue": "default-queue", "numGPUs": 8, "suspend": True, "command": "python train.py"}}


CROWDS = (("node", NODES, "/api/v1/nodes", node), ("pod", PODS, "/api/v1/namespaces/default/pods", pod),
          ("job", JOBS, "/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunjobs", job))


def connect(listen):
    return http.client.HTTPSConnection(listen, context=ssl._create_unverified_context(), timeout=120)


def create(listen, headers, path, objects):
    connection = connect(listen)
    for each in objects:
        connection.request("POST", path, json.dumps(each), headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            sys.exit(f"bench: POST {path}: {answer.status} {said[:300]}")
    connection.close()


def watch(listen, headers):
    """A socket on which a watch of all pods was answered; it begins now."""
    host, port = listen.split(":")
    raw = socket.create_connection((host, int(port)), timeout=120)
    secure = ssl._create_unverified_context().wrap_socket(raw, server_hostname=host)
    secure.sendall((f"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: {listen}\r\nAuthorization: {headers['Authorization']}"
                    "\r\n\r\n").encode())
    if not secure.recv(65536).startswith(b"HTTP/1.1 200"):
        sys.exit("bench: the watch was refused")
    return secure


def say(what, count, grown_mb):
    kb = grown_mb * 1048.576 / count
    verdict = "met" if kb <= MOST_KB[what] else "MISSED"
    print(f"memory: a {what:<8} {kb:6.1f} KB (most {MOST_KB[what]}: {verdict}), of {count}", flush=True)


def watchers(listen, headers):
    return [watch(listen, headers) for _ in range(WATCHERS)]


def measure(what, count, crowd):
    """In a muster of its own: what one crowd gave back would be another's."""
    with Muster() as m:
        pid = m.process.pid
        with open(os.path.join(m.data, "token")) as f:
            headers = {"Authorization": "Bearer " + f.read().strip(), "Content-Type": "application/json"}
        settle(pid)
        before = memory_mb(pid)
        kept = crowd(m.listen, headers)
        settle(pid)
        say(what, count, memory_mb(pid) - before)
        for each in kept or ():
            each.close()
        m.kill()  # deleting them all is no part of this


def main():
    for what, count, path, make in CROWDS:
        measure(what, count, lambda listen, headers: create(listen, headers, path,
                                                            (make(f"bench-{what}-{i}") for i in range(count))))
    measure("watcher", WATCHERS, watchers)


if __name__ == "__main__":
    main()
