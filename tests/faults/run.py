#!/usr/bin/env python3
"""run.py [FAULT...]: plants faults in a training with real torchrun (gloo, 2 pods of 2 ranks), and says what muster made of it.

REPEAT=5 times each, with new pods, in place, and in place with warm processes (MODES="Pods InPlace Warm"), JOBS=1 at a time.
TORCH=debian|current is the PyTorch, else the first one that is found. Prints a table and keeps it in build/results. A fault
passes when, every time, the right rank and cause were named, nothing was restarted that should not be, the training came to its
end, and the account was right to 1 % of the time. Times are shown and not judged.
"""

import concurrent.futures
import ctypes
import datetime
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import NOT_YET, PATIENCE, ROOT, Failure, Muster, Skip, binary, run, torch_pythons, wait_for  # noqa: E402

# (steps, at which of them the fault is planted): processes have to become warm first
STEPS = {False: (100, 40), True: (220, 160)}
ACCOUNT_ERROR = 1.0  # percent of the job's time
MOMENT = 0.05  # seconds: how late a moment is seen that the account is compared with; a hundredth of a job is some tenths
MEMORY = 1500 << 20
CLONE_NEWNET = 0x40000000
STATES = ("training", "saving", "recomputing", "hung")
# fault: (pod that is named, words of the cause, restarted, hangs)
FAULTS = {
    "stop": ("t-worker-1", r"rank 3 .*is stopped by a signal", True, True),
    "deadlock": ("t-worker-1", r"rank 3 .*waits for a lock in its own code", True, True),
    "skip": ("t-worker-1", r"rank 3 .*waits .*in its own code", True, True),
    "loader": ("t-worker-1", r"rank 3 .*waits in the data loader", False, True),
    "oom": ("t-worker-1", r"OOMKilled|out of memory", True, False),
    "exception": ("t-worker-1", r"RuntimeError: this was planted", True, False),
    "node": ("t-worker-1", r"node", True, False),
    "network": ("", r"all ranks wait", False, True),
    "disk": ("t-worker-0", r"rank 0 .*(no space is left on /dev/shm|No space left on device)", True, False),
    "corrupt": ("t-worker-0", r"SIGKILL|signal 9|137", True, False),
}
JOB = """
{"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "q"},
 "spec": {"nodeResources": {"gpus": 1, "cpus": 4, "memory": "%(memory)s"},
          "storage": {"shmSizePerGPU": "16Mi", "checkpoints": {"enabled": true, "size": "1Gi"}}}}
---
{"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": "t"},
 "spec": {"jobQueue": "q", "numNodes": 2, "nprocPerNode": 2, "command": "python3 %(script)s %(steps)s",
          "env": [{"name": "FAULT", "value": "%(fault)s"}, {"name": "FAULT_AT", "value": "%(fault_at)s"},
                  {"name": "MEMORY_BYTES", "value": "%(memory)s"}],
          "reliability": {"restartMode": "%(mode)s", "warmProcesses": %(warm)s}}}
"""


def own_network():
    if not shutil.which("ip"):
        raise Skip("no ip here (Debian's package iproute2), which makes the pods' network")
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        raise Skip("network namespaces need root")
    run(["ip", "link", "set", "lo", "up"])
    if subprocess.run(["ip", "link", "add", "probe0", "type", "bridge"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("this kernel has no bridges")
    run(["ip", "link", "del", "probe0"])


class Trial:
    """One training, one fault."""

    def __init__(self, m, fault, mode):
        self.m, self.fault = m, fault
        self.restarted = None  # when it was first seen to be: what it is asked next takes a while on a busy machine
        memory = MEMORY if fault == "oom" else 64 << 30
        self.warm = mode == "Warm"
        steps, self.fault_at = STEPS[self.warm]
        made = JOB % {"script": os.path.join(HERE, "train.py"), "steps": steps, "fault_at": self.fault_at, "fault": fault,
                      "memory": memory, "mode": "Pods" if mode == "Pods" else "InPlace", "warm": str(self.warm).lower()}
        for text in made.split("---"):
            m.create(json.loads(text))

    def status(self):
        status = (self.m.get("torchrunjob", "t") or {}).get("status", {})
        if not self.restarted and status.get("restarts", 0) + status.get("preemptions", 0) > 0:
            self.restarted = time.time()
        return status

    def folder(self):
        found = glob.glob(os.path.join(self.m.data, "**", "faults.log"), recursive=True)
        return os.path.dirname(found[0]) if found else None

    def log(self):
        """What really happened; a last line may be cut."""
        try:
            with open(os.path.join(self.folder(), "faults.log")) as f:
                return [json.loads(line) for line in f if line.endswith("\n")]
        except NOT_YET:
            return []

    def steps(self, run_id=None):
        return [e for e in self.log() if "step" in e and run_id in (None, e["run"])]

    def plant(self):
        """When it happened: the training itself does it, or we."""
        if self.fault not in ("node", "network"):
            return wait_for(lambda: [e["fault"] for e in self.log() if "fault" in e], "the fault", 120)[0]
        wait_for(lambda: self.steps()[-1]["step"] >= self.fault_at, "the step of the fault", 120)
        if self.fault == "node":  # by no kubectl, which takes seconds to end on a busy machine
            node = self.m.get("pod", "t-worker-1")["spec"]["nodeName"]
            status, text = self.m.rest.ask("DELETE", self.m.rest.path("nodes", node))
            if status != 200:
                raise Failure(f"{node} was not deleted: {text}")
        else:
            self.link("down")
        return time.time()

    def link(self, state):
        """The network of the second pod."""
        address = self.m.get("pod", "t-worker-1")["status"]["podIP"]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            inside = ["nsenter", "-t", pid, "-n", "ip"]
            try:
                if b"train.py" not in open(f"/proc/{pid}/cmdline", "rb").read() or \
                        os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                    continue
            except OSError:
                continue
            if f" {address}/" in run([*inside, "address"]).stdout:
                run([*inside, "link", "set", "eth0", state])
                return
        raise Failure("the second pod has no network of its own")

    def named(self):
        """What is said of it, once anything is."""
        status = self.status()
        hung = next((c for c in status.get("conditions", []) if c["type"] == "Hung"), {})
        if status.get("failure"):
            failure = status["failure"]
            return {"pod": failure["pod"], "words": f"{failure['reason']} {failure['exitCode']} {failure['message']}"}
        if hung.get("status") == "True":
            pod = re.search(r"\(pod ([^ ,]+)", hung["message"])
            return {"pod": pod.group(1) if pod else "", "words": f"{hung['reason']} {hung['message']}"}
        if status.get("preemptions"):
            # What the status says is soon about the pods to come.
            told = " ".join([status["message"], *(e.get("message", "") for e in self.m.get("events"))])
            lost = re.search(r"the node of pod (\S+) is lost", told)
            return {"pod": lost.group(1) if lost else "", "words": lost.group(0) if lost else status["message"]}
        return None

    def unnoticed(self):
        phase = self.status().get("phase")
        return phase in ("Succeeded", "Failed") and {"pod": "", "words": f"nothing was said, and it has {phase.lower()}"}

    def went_on(self):
        status = self.status()
        return status.get("restarts", 0) + status.get("preemptions", 0) > 0

    def play(self):
        pod, words, restarts, _ = FAULTS[self.fault]
        planted = self.plant()
        named = wait_for(lambda: self.named() or self.unnoticed(), "the fault to be named", 150, slowest=MOMENT)
        result = {"named_s": time.time() - planted, "words": named["words"]}
        if restarts:
            wait_for(lambda: self.went_on() or self.unnoticed(), "a restart", 90, slowest=MOMENT)
            result["restart_s"] = (self.restarted or time.time()) - planted
        else:
            if self.fault == "network":
                self.link("up")
            open(os.path.join(self.folder(), "go"), "w").close()
        wait_for(lambda: self.status().get("phase") in ("Succeeded", "Failed"), "the job to end", 240, slowest=MOMENT)
        self.ended = time.time()
        end = self.status()
        if end.get("failure", {}).get("exitCode") == 77:
            raise Skip("limits of memory are not kept here")
        result["right"] = named["pod"] == pod and bool(re.search(words, named["words"], re.DOTALL))
        result["end"] = end["phase"] == "Succeeded" and self.went_on() == restarts
        if self.warm and restarts and self.fault != "node":
            result["end"] = result["end"] and "has torch imported" in self.m.said("t-worker-0")
        result.update(self.measured(planted))
        return result

    def measured(self, planted):
        first = [e for e in self.steps(0)]
        before = [e for e in first if e["t"] <= planted]
        rest = [e for e in self.steps() if e["run"] != 0]
        result = {"lost": 0, "next_s": None}
        if rest and self.restarted:
            result["lost"] = first[-1]["step"] - rest[0]["step"] + 1
            result["next_s"] = rest[0]["t"] - self.restarted
        result["account"], result["error"] = self.account(first, before, rest)
        return result

    def account(self, first, before, rest):
        """What the report says, and how far that is from what happened, in percent of the job's time."""
        done = run([binary("muster"), "report", "--since", "0", "--by", "job", "-o", "json"], env=self.m.env)
        told = json.loads(done.stdout)["rows"][0]["milliseconds"]
        hangs = FAULTS[self.fault][3]
        true = dict.fromkeys(STATES, 0.0)
        true["saving"] = sum(e["end"] - e["begin"] for e in self.log() if "saved" in e)
        if rest:
            top = first[-1]["step"]
            again = [e["t"] for e in rest if e["step"] <= top]
            true["recomputing"] = again[-1] - rest[0]["t"] if again else 0
            if hangs:
                true["hung"] = self.restarted - before[-1]["t"]
            whole = self.restarted - first[0]["t"] + self.ended - rest[0]["t"]
        else:
            if hangs:
                # A step of the others may still have ended after it was planted: the longest wait from then on.
                times = [e["t"] for e in first if e["t"] >= before[-1]["t"]]
                true["hung"] = max(b - a for a, b in zip(times, times[1:]))
            whole = self.ended - first[0]["t"]
        true["training"] = whole - true["saving"] - true["recomputing"] - true["hung"]
        off = sum(abs(told[state] / 1000 - true[state]) for state in STATES)
        shown = {state: [round(told[state] / 1000, 1), round(true[state], 1)] for state in STATES}
        return shown, 100 * off * 1000 / sum(told.values())


def torch():
    """(its Python, its version)"""
    wanted = os.environ.get("TORCH", "")
    found = [(path, version) for path, version in torch_pythons()
             if not wanted or path.startswith("/usr/") == (wanted == "debian")]
    if not found:
        raise Skip("no Python here can import torch")
    return found[0]


def trial(fault, mode):
    python, _ = torch()
    flags = ["--cpus-per-node", "64", "--memory-per-node", "256Gi"]
    if fault == "network":
        own_network()
        flags += ["--pod-network", "bridge"]
    with Muster(nodes=3 if fault == "node" else 2, gpus_per_node=1, flags=flags, path_first=os.path.dirname(python)) as m:
        return Trial(m, fault, mode).play()


def apart(fault, mode):
    """In a process of its own, which may leave this network."""
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--trial", fault, mode], text=True, cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900 * PATIENCE)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired as e:
        return {"broken": f"it did not end: {e}"}
    except (IndexError, ValueError):
        return {"broken": (done.stderr or done.stdout or "it said nothing")[-3000:]}


def one(of, done):
    if done and "skip" in done[-1]:
        return
    done.append(apart(*of))
    print(f"{of[0]} {of[1]}: {json.dumps(done[-1])}", flush=True)


def row(fault, mode, results):
    """(a row of the table, passed)"""
    whole = [r for r in results if "named_s" in r]
    if not whole:
        return [fault, mode, "0", "-", "-", "-", "-", "-", "-"], False
    names = [r["named_s"] for r in whole]
    restarts = [r["restart_s"] for r in whole if "restart_s" in r]
    nexts = [r["next_s"] for r in whole if r["next_s"] is not None]
    passed = len(whole) == len(results) and all(r["right"] and r["end"] and r["error"] <= ACCOUNT_ERROR for r in whole)
    return [fault, mode, str(len(whole)), f"{statistics.median(names):.1f} ({max(names):.1f})",
            f"{sum(r['right'] for r in whole)} of {len(whole)}",
            f"{statistics.median(restarts):.1f} ({max(restarts):.1f})" if restarts else "never",
            f"{statistics.median(nexts):.1f} ({max(nexts):.1f})" if nexts else "no restart",
            f"{max(r['lost'] for r in whole)}", f"{max(r['error'] for r in whole):.1f}"], passed


def table(rows):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "".join("   ".join(cell.ljust(width) for cell, width in zip(r, widths)).rstrip() + "\n" for r in rows)


def main(faults):
    try:
        print(f"PyTorch {torch()[1]}", flush=True)
    except Skip as e:
        print(f"skipped: {e}")
        return 77
    repeat, modes = int(os.environ.get("REPEAT", "5")), os.environ.get("MODES", "Pods InPlace Warm").split()
    results = {(fault, mode): [] for fault in faults or FAULTS for mode in (modes if FAULTS[fault][2] else modes[:1])}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
        for _ in range(repeat):  # in turn: who stops it early has some of each
            for of, done in results.items():
                pool.submit(one, of, done)
    rows = [["FAULT", "MODE", "RUNS", "NAMED AFTER s", "RIGHT", "RESTARTED AFTER s", "NEXT STEP s", "STEPS LOST", "ACCOUNT %"]]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for (fault, mode), done in results.items():
        if "skip" in done[-1]:
            counts["skipped"] += 1
            print(f"skipped: {fault}-{mode}: {done[-1]['skip']}", flush=True)
            continue
        line, passed = row(fault, mode, done)
        rows.append(line)
        counts["passed" if passed else "failed"] += 1
        print(f"{'passed' if passed else 'failed'}: {fault}-{mode}", flush=True)
    text = table(rows) + ", ".join(f"{n} {word}" for word, n in counts.items()) + "\n"
    folder = os.path.join(ROOT, "build", "results")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"faults-table-{datetime.datetime.now():%Y-%m-%d-%H%M}.txt"), "w") as f:
        f.write(text)
    print(text, end="")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trial"]:
        try:
            print(json.dumps(trial(*sys.argv[2:4])))
        except Skip as e:
            print(json.dumps({"skip": str(e)}))
    else:
        sys.exit(main(sys.argv[1:]))
