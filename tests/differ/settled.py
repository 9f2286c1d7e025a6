#!/usr/bin/env python3
"""settled.py [--only REGEX] [--record | --recorded [--quick]]: what controllers make of the same objects, in Kubernetes and here.

Each case of cases.py has a namespace of its own and is played on a real control plane and on ours, with the test as the
scheduler and the kubelet: it binds pods to two nodes that nobody runs, and writes their status. When nothing has changed for a
while, what is there is compared, without names and times that each chooses. What differs fails. A line of
tests/expected/settled.txt says what of an object is left out first, on both sides, and why: a regular expression, what stands in
its place, and the reason.

--record writes what Kubernetes had to settled.txt; --recorded plays the cases against `muster up` alone, --quick some of each
kind, which `make test` does. Ends with `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import json
import os
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "kubernetes"), os.path.join(TESTS, "e2e")]

from cases import CASES, NODES  # noqa: E402
from differ import MERGE, server_of  # noqa: E402
from harness import PATIENCE, Failure, Muster, Skip  # noqa: E402

RECORDED = os.path.join(HERE, "settled.txt")
LIST = os.path.join(TESTS, "expected", "settled.txt")
QUICK = (r"^(deployment (ready|changed|that is gone)|replicas ready|set (ready|changed)|daemons ready|"
         r"job (done|failed|that is late)|cron suspended|endpoints|budget of (a deployment|single pods|a job)|"
         r"quota of pods|namespace that is gone)$")
UNSETTLED = "it changes and changes"
QUIET_S, LIMIT_S, LOOK_S = 4, 90, 0.3
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "500"}
PLURALS = {
    "": ["pods", "endpoints", "resourcequotas", "persistentvolumeclaims", "replicationcontrollers"],
    "apps/v1": ["deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"],
    "batch/v1": ["jobs", "cronjobs"], "policy/v1": ["poddisruptionbudgets"], "discovery.k8s.io/v1": ["endpointslices"]}


def root_of(version):
    return "/apis/" + version if "/" in version else "/api/v1"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """A namespace of a server, with a kubelet."""

    def __init__(self, server, ns):
        self.server, self.ns, self.addresses = server, ns, 0
        self.must("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})

    def must(self, method, path, body=None, media="application/json"):
        status, said = self.server.ask(method, path, body, media)
        if status == 0 or status >= 300 and status not in (404, 409):
            raise Failure(f"{method} {path}: {status} {said[:300]}")
        return json.loads(said)

    def path(self, version, plural, name=""):
        return f"{root_of(version)}/namespaces/{self.ns}/{plural}" + (f"/{name}" if name else "")

    def make(self, version, plural, body):
        return self.must("POST", self.path(version, plural), {"apiVersion": version, **body})

    def patch(self, version, plural, name, body, sub=""):
        return self.must("PATCH", self.path(version, plural, name) + sub, body, MERGE)

    def delete(self, version, plural, name, options=None):
        return self.must("DELETE", self.path(version, plural, name), options or {})

    def items(self, version, plural):
        status, said = self.server.ask("GET", self.path(version, plural))
        return json.loads(said).get("items") or [] if status == 200 else []

    # ---- the kubelet ----

    def act(self):
        for pod in self.items("v1", "pods"):
            name, meta, spec = pod["metadata"]["name"], pod["metadata"], pod["spec"]
            does = meta.get("annotations", {}).get("does", "ready")
            phase = pod.get("status", {}).get("phase", "Pending")
            if meta.get("deletionTimestamp"):
                if not meta.get("finalizers") or phase in ("Pending", "Running"):
                    self.delete("v1", "pods", name, {"gracePeriodSeconds": 0})
            elif not spec.get("nodeName"):
                if does != "waits":
                    self.must("POST", self.path("v1", "pods", name) + "/binding",
                              {"metadata": {"name": name}, "target": {"kind": "Node", "name": self.node_of(spec)}})
            elif phase not in ("Succeeded", "Failed"):
                self.tell(name, pod, does)

    @staticmethod
    def node_of(spec):
        affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in affinity.get("nodeSelectorTerms", []):
            for field in term.get("matchFields", []):
                return field["values"][0]
        return NODES[0]

    def tell(self, name, pod, does):
        ends, _, code = does.partition(":")
        ready, phase = ends == "ready", {"succeeds": "Succeeded", "fails": "Failed"}.get(ends, "Running")
        before = pod.get("status", {})
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in before.get("conditions", []))
        if before.get("phase") == phase and is_ready == ready:
            return
        over = phase in ("Succeeded", "Failed")
        state = {"terminated": {"exitCode": int(code or (ends == "fails")), "reason": "Error" if ends == "fails" else "Completed",
                                "startedAt": now(), "finishedAt": now()}} if over else {"running": {"startedAt": now()}}
        known = [c for c in before.get("conditions", []) if c["type"] not in ("Ready", "ContainersReady", "Initialized")]
        self.addresses += 1
        self.patch("v1", "pods", name, {"status": {
            "phase": phase, "podIP": f"10.200.0.{self.addresses % 250 + 1}", "startTime": now(),
            "conditions": known + [{"type": t, "status": "True" if ready or t == "Initialized" else "False",
                                    "lastTransitionTime": now()} for t in ("Initialized", "Ready", "ContainersReady")],
            "containerStatuses": [{"name": c["name"], "image": c["image"], "imageID": "x", "ready": ready, "started": not over,
                                   "restartCount": 0, "state": state, "lastState": {}}
                                  for c in pod["spec"]["containers"]]}}, "/status")

    # ---- what is there ----

    def state(self):
        """Lines, sorted."""
        lines = []
        for version, plurals in PLURALS.items():
            for plural in plurals:
                lines += [self.line(plural, item) for item in self.items(version or "v1", plural)]
        status, said = self.server.ask("GET", f"/api/v1/namespaces/{self.ns}")
        if status == 200:
            lines.append("namespaces " + shown(json.loads(said).get("status", {}), self.ns))
        return sorted(lines)

    def line(self, plural, item):
        meta, spec, status = item["metadata"], item.get("spec", {}), dict(item.get("status", {}))
        seen = {"name": meta["name"], "labels": meta.get("labels"), "annotations": meta.get("annotations"),
                "finalizers": sorted(meta.get("finalizers", [])), "deleted": bool(meta.get("deletionTimestamp")),
                "owners": sorted(f"{o['kind']}/{o['name']}" for o in meta.get("ownerReferences", []))}
        if status.pop("observedGeneration", meta.get("generation")) != meta.get("generation"):
            seen["observed"] = "another generation"
        if plural == "pods":
            seen["spec"] = {k: spec.get(k) for k in ("nodeName", "hostname", "subdomain", "restartPolicy")}
            seen["env"] = [[e["name"] for e in c.get("env", [])] for c in spec["containers"]]
            seen["volumes"] = [v["name"] for v in spec.get("volumes", [])]
            status = {"phase": status.get("phase"), "conditions": status.get("conditions")}
        elif plural in ("endpoints", "endpointslices"):
            seen["spec"] = {k: in_order(item.get(k)) for k in ("subsets", "endpoints", "ports", "addressType")}
        elif plural == "controllerrevisions":
            seen["spec"] = {"revision": item["revision"]}
        else:
            seen["spec"] = {k: spec.get(k) for k in ("replicas", "suspend", "parallelism", "completions", "paused")}
        if isinstance(status.get("conditions"), list):
            told = ("type", "status", "reason") + (() if plural == "jobs" else ("message",))  # the words of Jobs are our own
            status["conditions"] = sorted(({k: c.get(k) for k in told} for c in status["conditions"]), key=lambda c: c["type"])
        seen["status"] = status
        return plural + " " + shown(seen, self.ns)


CHOSEN = re.compile(r"(Time|Timestamp|At|Times|uid|resourceVersion)$")  # by each for itself
HASHES = r"pod-template-hash|controller-revision-hash|controller\.kubernetes\.io/hash"
HASH = r"[bcdf-hj-np-tv-xz0-9]{5,11}"


def bare(value):
    """Without what each server chooses; empty texts, zeros and nulls are as if they were not there."""
    if isinstance(value, dict):
        out = {key: bare(inner) for key, inner in value.items() if not CHOSEN.search(key)}
        return {key: inner for key, inner in out.items() if inner not in (None, {}, [], "", 0, False)}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def in_order(value):
    """Ports and addresses are in an order that says nothing."""
    if isinstance(value, dict):
        return {key: in_order(inner) for key, inner in value.items()}
    return sorted(map(in_order, value), key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(value, list) else value


def shown(value, ns):
    text = json.dumps(bare(value), sort_keys=True).replace(ns, "NS")
    text = re.sub(rf"\b([a-z]+[0-9]?)-{HASH}-{HASH}\b", r"\1-#-#", text)
    text = re.sub(rf"\b([a-z]+[0-9]?(?:-[0-9])?)-{HASH}\b", r"\1-#", text)
    text = re.sub(rf'("(?:{HASHES}|[a-zA-Z]+Revision)": )"[^"]*"', r'\1"#"', text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}", "UID", text)
    text = re.sub(r'((?:scheduled-timestamp|trigger-time)": )"[^"]*"', r'\1"TIME"', text)
    return re.sub(r"10\.200\.0\.\d+", "IP", text)


def settle(world, least=0):
    """Acts until nothing has changed for a while; what is there."""
    began = changed = time.monotonic()
    last = None
    while True:
        world.act()
        state = world.state()
        if state != last:
            last, changed = state, time.monotonic()
        at = time.monotonic()
        if at - changed > QUIET_S * PATIENCE and at - began > least * PATIENCE:
            return state
        if at - began > (LIMIT_S + least) * PATIENCE:
            return state + [UNSETTLED]
        time.sleep(LOOK_S)


def played(server, number, case):
    world = World(server, f"settled-{number}")
    try:
        for step in case.steps:
            step(world)
            state = settle(world, case.least)
        return state
    except Failure as e:
        return [f"failed: {e}".replace(world.ns, "NS")]


# ---- servers ----

def beat(server, ended):
    """What kubelets say of themselves, so that nobody takes them for lost."""
    while not ended.wait(5):
        for name in NODES:
            server.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}]}}, MERGE)


@contextlib.contextmanager
def nodes_of(server):
    ended = threading.Event()
    for name in NODES:
        server.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"settled": "here"}}})
        server.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": {
            "capacity": ROOM, "allocatable": ROOM,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}]}}, MERGE)
        server.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)
    thread = threading.Thread(target=beat, args=(server, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def play(server, cases):
    with nodes_of(server), concurrent.futures.ThreadPoolExecutor(8) as pool:
        return dict(zip([c.name for c in cases], pool.map(lambda each: played(server, *each), enumerate(cases))))


def ours(cases):
    with Muster(flags=["--allow-privileged"]) as muster:
        return play(server_of(muster.kubeconfig), cases)


def theirs(cases):
    from controlplane import ControlPlane
    with ControlPlane(apiserver_flags=["--disable-admission-plugins=ServiceAccount"]) as plane:
        return play(server_of(plane.kubeconfig), cases)


def read_list():
    """[(regular expression, what stands in its place)]"""
    rows = []
    if os.path.exists(LIST):
        with open(LIST) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    pattern, instead = line.split("  # ", 1)[0].rstrip().split(" => ")
                    rows.append((re.compile(pattern), instead.strip("'")))
    return rows


def agreed(lines, rows, used):
    """The lines, without what the list leaves out."""
    for line in lines:
        for at, (pattern, instead) in enumerate(rows):
            line, count = pattern.subn(instead, line)
            used[at] += bool(count)
        if line:
            yield line


def differences(name, real, mine):
    real, mine = collections.Counter(real), collections.Counter(mine)
    for line, count in sorted((real - mine).items()):
        yield f"{name}: Kubernetes has {count} {line}"
    for line, count in sorted((mine - real).items()):
        yield f"{name}: here are {count} {line}"


def compare(cases, real, mine):
    rows, failed, used = read_list(), 0, collections.Counter()
    for case in cases:
        lines = list(differences(case.name, agreed(real[case.name], rows, used), agreed(mine[case.name], rows, used)))
        failed += bool(lines)
        print("\n".join(lines) if lines else f"alike: {case.name}", flush=True)
    print(f"{len(cases)} settled states; {len(rows)} lines say what is left out, {len(rows) - len(used)} of them of nothing")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def recorded():
    with open(RECORDED) as f:
        return dict(json.loads(line) for line in f if not line.startswith("#"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cases = [case for case in CASES if re.search(QUICK if options.quick else options.only, case.name)]
    try:
        if options.recorded:
            real = recorded()
            cases = [case for case in cases if case.name in real]
        else:
            real = theirs(cases)
        if options.record:
            known = {**recorded(), **{name: state for name, state in real.items() if UNSETTLED not in state}}
            with open(RECORDED, "w") as f:
                f.write("# What settled.py saw a Kubernetes settle at: the name of a case of cases.py, and what is there.\n")
                f.writelines(json.dumps([name, state]) + "\n" for name, state in known.items())
        return compare(cases, real, ours(cases))
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
