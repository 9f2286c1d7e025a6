"""muster is killed at many points of binding a gang: the gang is whole or gone, nothing leaks, no GPU is given twice."""

import json
import os
import random
import shutil
import sqlite3

from harness import BUILD, Muster, Skip, binary, check, wait_for
from pods import container, shims

POINTS = int(os.environ.get("MUSTER_TEST_KILLS", "8"))
FAILING = os.path.join(BUILD, "tests", "torture", "failing.so")
HALVES = ("half-0", "half-1")
GANG = ("gang-0", "gang-1", "gang-2", "gang-3")  # two whole GPUs, and two halves of a third


def manifest(name, share, group=None):
    notes = {"pod-group-name": group} if group else {}
    limits = {"cpu": "100m"}
    if share:
        notes["gpu-fraction"] = "0.5"
    else:
        limits["nvidia.com/gpu"] = "1"
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": notes, "labels": {"kai.scheduler/queue": "default-queue"}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "containers": [container("exec sleep 1000", resources={"limits": limits})]}}


def halves():
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [manifest(name, True) for name in HALVES]})


def gang():
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"},
             "spec": {"minMember": len(GANG), "queue": "default-queue"}}
    pods = [manifest(name, i >= 2, "gang") for i, name in enumerate(GANG)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [group, *pods]})


def bound_on_disk(m):
    """The gang's pods that have a node, as the store has them while muster is dead."""
    folder = os.path.join(m.folder, "copy")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for name in os.listdir(m.data):
        if name.startswith("store.db"):
            shutil.copy(os.path.join(m.data, name), folder)
    with sqlite3.connect(os.path.join(folder, "store.db")) as store:
        found = dict(store.execute("SELECT key, value FROM objects WHERE key LIKE '/pods/default/gang-%'").fetchall())
    return [key for key, value in found.items() if json.loads(value)["spec"].get("nodeName")]


def all_running(m, names):
    phases = {p["metadata"]["name"]: p["status"].get("phase") for p in m.get("pods", ok=False) or []}
    return all(phases.get(name) == "Running" for name in names)


def check_devices(m):
    used = {}
    for p in m.get("pods"):
        notes = p["metadata"]["annotations"]
        for device in notes["torchrun.ai/gpu-devices"].split(","):
            at = (p["spec"]["nodeName"], device)
            used[at] = used.get(at, 0) + float(notes.get("torchrun.ai/gpu-portion", "1"))
    check(all(share <= 1.0 for share in used.values()), f"a GPU is given twice: {used}")
    check(sum(used.values()) == 4.0, f"everybody has what they asked for: {used}")


def restart(m, **torture):
    """kill -9 if it lives, then again, with calls on files counted once the file `begin` is there."""
    if m.process.poll() is None:
        m.kill()
    begin = os.path.join(m.folder, "begin")
    if os.path.exists(begin):
        os.unlink(begin)
    for name in [name for name in m.env if name.startswith(("TORTURE_", "LD_PRELOAD"))]:
        del m.env[name]
    if torture:
        m.env.update(LD_PRELOAD=FAILING, TORTURE_KIND="files", TORTURE_WHEN=begin, **torture)
    m.start()
    open(begin, "w").close()


def remove_gang(m):
    m.kubectl("delete", "pods", *GANG, "--ignore-not-found")
    m.kubectl("delete", "podgroup", "gang", "--ignore-not-found")
    wait_for(lambda: {p["metadata"]["name"] for p in m.get("pods")} == set(HALVES), "the gang to be gone")
    wait_for(lambda: len(shims(m)) == len(HALVES), "its processes to be gone")
    groups = [g["metadata"]["name"] for g in m.get("podgroups")]
    check(sorted(name[:9] for name in groups) == ["pg-half-0", "pg-half-1"], f"groups that nobody needs: {groups}")


def count_calls(m):
    file = os.path.join(m.folder, "count")
    restart(m, TORTURE_COUNT=file)
    m.apply(gang())
    wait_for(lambda: all_running(m, GANG), "the gang to run")
    m.process.terminate()
    m.process.wait()
    with open(file, encoding="ascii") as f:
        return int(f.read())


def kill_at(m, call, calls):
    restart(m, TORTURE_AT=str(call), TORTURE_KILL="1")
    m.kubectl("apply", "-f", "-", input=gang(), ok=False)
    wait_for(lambda: m.process.poll() is not None or all_running(m, GANG), "the end, or the gang to run")
    died = m.process.poll() is not None
    if not died:
        m.kill()
    bound = bound_on_disk(m)
    check(len(bound) in (0, len(GANG)), f"call {call} of {calls}: a part of the gang is bound: {bound}")
    before = {uid: pid for uid, pid in shims(m).items()}
    restart(m)
    m.apply(gang())
    wait_for(lambda: all_running(m, GANG), f"call {call} of {calls}: the gang to run after all")
    check_devices(m)
    check(before.items() <= shims(m).items(), f"call {call} of {calls}: a process was started twice")
    check(len(shims(m)) == len(GANG) + len(HALVES), f"call {call} of {calls}: {shims(m)}")
    remove_gang(m)
    return died, bool(bound)


def test_a_gang_is_whole_or_gone_wherever_muster_is_killed():
    with open(binary("muster"), "rb") as f:
        if b"libasan" in f.read():
            raise Skip("a program with a sanitizer in it cannot be preloaded into")
    seed = int(os.environ.get("MUSTER_TEST_SEED", random.randrange(1 << 30)))
    print(f"again: MUSTER_TEST_SEED={seed}")
    with Muster(nodes=2, gpus_per_node=2) as m:
        m.apply(halves())
        wait_for(lambda: all_running(m, HALVES), "the halves to run")
        calls = count_calls(m)
        restart(m)
        remove_gang(m)
        offset = random.Random(seed).random()
        # Closer together at the beginning: there the gang is made and bound, then its pods start.
        outcomes = [kill_at(m, 1 + int(calls * ((i + offset) / POINTS) ** 2), calls) for i in range(POINTS)]
        print(f"{calls} calls; died, bound: {outcomes}")
        check(sum(died for died, _ in outcomes) >= POINTS / 2, f"most points are met: {outcomes}")
        restart(m)
