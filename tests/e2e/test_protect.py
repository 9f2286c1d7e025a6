"""A machine that is short of something, and one that is asked for too much at once."""

import json
import os

from harness import Muster, check, wait_for
from pods import apply, container, events, phase, pod, wait_phase

HOLD = ["python3", "-uc", "import time; x = bytearray(%d << 20); print('holds'); time.sleep(600)"]
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "dear"}, "value": 1000}


def holding(mib):
    return HOLD[:2] + [HOLD[2] % mib]


class Machine:
    """What /proc says to muster."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "pressure"))
        self.left(50)

    def left(self, percent):
        with open(os.path.join(self.folder, "meminfo.new"), "w") as f:
            f.write(f"MemTotal: 1000000 kB\nMemFree: 0 kB\nMemAvailable: {percent * 10000} kB\n")
        os.rename(os.path.join(self.folder, "meminfo.new"), os.path.join(self.folder, "meminfo"))


def node(m):
    found = m.get("node", "node-0")
    state = next(c["status"] for c in found["status"]["conditions"] if c["type"] == "MemoryPressure")
    return state, [t["key"] for t in found["spec"].get("taints", [])]


def test_memory_pressure_stops_starts_then_evicts_and_ends():
    m = Muster(env={})
    machine = Machine(os.path.join(m.folder, "proc"))
    m.env["MUSTER_TEST_PROC"] = machine.folder
    with m:
        m.apply(json.dumps(CLASS))
        m.kubectl("taint", "node", "node-0", "mine=true:PreferNoSchedule")
        apply(m, pod("dear", container(holding(80)), priorityClassName="dear", terminationGracePeriodSeconds=0),
              pod("cheap", container(holding(40))),
              pod("within", container(holding(60), resources={"requests": {"memory": "500Mi"}}),
                  terminationGracePeriodSeconds=0))
        for name in "dear", "cheap", "within":
            wait_for(lambda: "holds" in m.said(name, ok=False), f"{name} to hold its memory")
        machine.left(4)
        wait_for(lambda: node(m)[0] == "True", "the node to tell of it")
        apply(m, pod("late", container("true")))
        wait_for(lambda: any(r == "NodeUnderPressure" and "short of memory" in w for r, w in events(m, "late")),
                 "a new pod to be told why it waits")
        wait_phase(m, "cheap", "Failed", limit=60)
        machine.left(50)
        said = m.get("pod", "cheap")["status"]
        check(said["reason"] == "Evicted" and "low on resource: memory" in said["message"], f"{said}")
        wait_phase(m, "late", "Succeeded", limit=60)
        wait_for(lambda: node(m) == ("False", ["mine"]), "the node to be fine, and others' taints to stay")
        # On a slow machine the next had to go before this test could say that there is memory again.
        gone = [name for name in ("dear", "within") if m.get("pod", name)["status"].get("reason") == "Evicted"]
        check(gone != ["within"], "who stays within its request goes last")


def test_pods_that_ask_for_nothing_do_not_all_start_at_once():
    with Muster(nodes=2, flags=["--max-pods", "4"]) as m:
        whole = int(m.get("nodes")[0]["status"]["capacity"]["memory"][:-2])
        with open("/proc/meminfo") as f:
            check(whole <= int(f.read().split()[1]) // 2 + 1, "two nodes share the memory of one machine")
        made = [pod(f"p{i}", container("sleep 600"), terminationGracePeriodSeconds=0) for i in range(9)]
        for one in made:
            one["spec"].pop("nodeName")
            one["spec"]["schedulerName"] = "kai-scheduler"
        apply(m, *made)
        names = [f"p{i}" for i in range(9)]
        wait_for(lambda: [phase(m, n) for n in names].count("Running") == 4, "as many as there may be to run")
        check([phase(m, n) for n in names].count("Pending") == 5, "the others wait")
        m.kubectl("delete", "pod", next(n for n in names if phase(m, n) == "Running"), "--wait=false")
        wait_for(lambda: [p["status"]["phase"] for p in m.get("pods")].count("Running") == 4 and len(m.get("pods")) == 8,
                 "the next to take the place of one that is gone", 60)
