"""Pods for tests of the node agent: short to write down, bound to a node by hand."""

import json
import os

from harness import check, wait_for


def container(command, name="main", **more):
    """A container that runs a shell command, or an argv."""
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    made = {"name": name, "image": "none", "command": argv, **more}
    return {key: value for key, value in made.items() if value is not None}


def pod(name, *containers, node="node-0", restart="Never", labels=None, annotations=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"nodeName": node, "restartPolicy": restart, "terminationGracePeriodSeconds": 5,
                     "containers": list(containers), **spec}}


def apply(m, *objects):
    m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def phase(m, name):
    found = m.get("pod", name)
    return found and found["status"].get("phase")


def wait_phase(m, name, *phases, limit=30):
    return wait_for(lambda: phase(m, name) in phases and phase(m, name), f"pod {name} to be {phases}", limit)


def wait_ready(m, name, limit=30):
    def ready():
        conditions = m.get("pod", name)["status"].get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    wait_for(ready, f"pod {name} to be ready", limit)


def status(m, name, which="main"):
    found = m.get("pod", name)["status"]
    for entry in found.get("initContainerStatuses", []) + found.get("containerStatuses", []):
        if entry["name"] == which:
            return entry
    return None


def ended(m, name, which="main"):
    return status(m, name, which)["state"].get("terminated")


def logs(m, name, *flags):
    return m.kubectl("logs", name, *flags).stdout if flags else m.said(name)


def run_pod(m, name, command, expect="Succeeded", limit=30, **spec):
    """Run one container to its end; its output."""
    more = spec.pop("container", {})
    apply(m, pod(name, container(command, **more), **spec))
    seen = wait_phase(m, name, "Succeeded", "Failed", limit=limit)
    out = logs(m, name)
    check(seen == expect, f"pod {name} ended {seen}, not {expect}: {ended(m, name)}\n{out}")
    return out


def events(m, name):
    return [(e["reason"], e["message"]) for e in m.get("events")
            if e["involvedObject"].get("name") == name]


def shims(m):
    """Process ids of the shims of this muster's pods, by uid: each works in its pod's folder. A child that has not
    become its container's program yet looks the same, but for its parent."""
    seen = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            folder, program = (os.readlink(f"/proc/{pid}/{link}") for link in ("cwd", "exe"))
            with open(f"/proc/{pid}/stat", errors="replace") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if os.path.dirname(folder) == os.path.join(m.data, "pods") and "muster-shim" in program:
            seen[int(pid)] = os.path.basename(folder), parent
    return {uid: pid for pid, (uid, parent) in seen.items() if parent not in seen}
