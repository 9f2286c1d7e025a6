#!/usr/bin/env python3
"""copy.py [EXPERIMENT...]: on a machine with an NVIDIA GPU, what our library's copy makes of suspension, beside the driver's.

Where work may be suspended libmuster-gpu.so owns the memory of cuMemAlloc() and moves it through pinned memory by itself; the
driver checkpoints the small rest. Prints a line per observation; ends with `N passed, N failed`. Needs the programs
(MUSTER_BUILD, default: build/), root, a driver of 570 or newer, x86-64 and a Python that can import torch. Without words:
`alone 4 cost kinds 2 hold 4 hold 40 hold 90`, in about five minutes.

    alone GIB   one program without `muster up`, moved by the helper: what it reports, seconds, whole
    cost        what a small kernel costs with the library's gate, and without it
    kinds GIB   the same with expandable segments, cudaMallocAsync, and CUDA graphs: whole, and who moved how much
    hold GIB    through `muster up`, by the library and by the driver: seconds out and in, nothing on the card, weights as in
                an undisturbed run
"""

import functools
import glob
import os
import subprocess
import sys
import tempfile
import time
import traceback

import alternate
import run

BEGUN = time.monotonic()
LIBRARY = os.path.join(run.BUILD, "libmuster-gpu.so")
STEPS = 800
GOALS = {"library": {40: (10, 5)}}

SERVE = """
import os, sys, time, torch
gib, kind = int(sys.argv[1]), sys.argv[2]
pieces = [torch.full(((1 << 30) // 8,), i * 7919, dtype=torch.int64, device="cuda") for i in range(gib)]
model = torch.nn.Linear(256, 256).cuda()
x = torch.randn(64, 256, device="cuda")
total = torch.zeros(1, device="cuda")
graph = None
if kind == "graphs":
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            total += model(x).square().mean() * 0 + 1
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total += model(x).square().mean() * 0 + 1
    total.zero_()
torch.cuda.synchronize()
before = model(x).sum().item()
print("ready", os.getpid(), torch.cuda.memory_reserved() >> 20, flush=True)
steps = 0
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    if graph:
        graph.replay()
    else:
        total += model(x).square().mean() * 0 + 1
    steps += 1
    torch.cuda.synchronize()
    if steps % 100 == 0:
        print("step", steps, flush=True)
    time.sleep(0.002)
whole = all(bool((piece == i * 7919).all()) for i, piece in enumerate(pieces))
same = model(x).sum().item() == before and int(total.item()) == steps
del pieces
torch.cuda.empty_cache()
y = torch.ones(64 << 20, device="cuda").sum().item()
print("end whole", whole, "same", same, "afterwards", y == 64 << 20, flush=True)
"""

LAUNCHES = """
import time, torch
x = torch.zeros(16, device="cuda")
for n in (2000, 100000):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(n):
        x.add_(1)
    torch.cuda.synchronize()
    took = time.perf_counter() - begun
print(f"{took / n * 1e6:.2f} us", "sum", int(x.sum().item()))
"""


def log(*words):
    print(f"    [{time.monotonic() - BEGUN:5.1f}]", *words, flush=True)


def own_env(**more):
    return dict(os.environ, LD_PRELOAD=LIBRARY, MUSTER_GPU_SUSPEND="1", **more)


def look_at(pid):
    """All that helps to find out why a process was not moved by the library."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            words = [w.decode(errors="replace") for w in f.read().split(b"\0")]
        log("environment:", [w for w in words if w.startswith(("LD_PRELOAD", "MUSTER_GPU", "CUDA_VISIBLE", "PYTORCH"))])
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            log("libraries:", sorted({line.split()[-1] for line in f if "muster-gpu" in line or "libcuda.so" in line}))
        links = [os.readlink(p) for p in glob.glob(f"/proc/{pid}/fd/*") if os.path.islink(p)]
        log("page:", [link for link in links if "muster-gpu" in link] or "none", "of", len(links), "descriptors")
        names = [open(p, encoding="utf-8").read().strip() for p in glob.glob(f"/proc/{pid}/task/*/comm")]
        log("threads:", {name: names.count(name) for name in sorted(set(names))})
        for path in glob.glob(f"/proc/{pid}/fd/*"):
            if "muster-gpu-page" in os.readlink(path):
                with open(path, "rb") as f:
                    page = f.read(4096)
                numbers = [int.from_bytes(page[i:i + 4], "little") for i in range(16, 36, 4)]
                log("order, turn, answered, state, failed:", numbers, "held, moved, copied MiB:",
                    [int.from_bytes(page[i:i + 8], "little") >> 20 for i in (40, 48, 56)],
                    "words:", page[64:304].split(b"\0")[0].decode(errors="replace"))
    except OSError as e:
        log("process", pid, e)


def cuda_processes():
    found = []
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                if "libmuster-gpu.so" in f.read() and int(path.split("/")[2]) != os.getpid():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


class Served:
    def __init__(self, gib, kind="plain", **env):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, "-c", SERVE, str(gib), kind], env=own_env(**env), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.file = tempfile.mktemp(prefix="muster-copy-")
        self.line("ready")

    def line(self, word):
        for text in iter(self.process.stdout.readline, ""):
            if text.startswith(word):
                return text.strip()
        self.errors.seek(0)
        raise AssertionError(f"the program ended ({self.process.wait()}): {self.errors.read()[-3000:]}")

    def move(self, direction):
        begun = time.monotonic()
        done = subprocess.run([os.path.join(run.BUILD, "muster"), "checkpoint-gpu", direction, self.file,
                               str(self.process.pid)], check=False, timeout=250, stderr=subprocess.PIPE, text=True)
        took = time.monotonic() - begun
        said = open(self.file, encoding="utf-8").read().strip() if os.path.exists(self.file) else done.stderr
        if os.path.exists(self.file):
            os.unlink(self.file)
        log(f"{direction}: {took:.2f} s, {alternate.used_mib()} MiB on the card; the helper: {said}")
        if not said.startswith("ok"):
            look_at(self.process.pid)
            raise AssertionError(said)
        return said.split()

    def turn(self):
        before = alternate.used_mib()
        said = self.move("out")
        away = alternate.used_mib()
        self.move("in")
        log(f"{before} -> {away} MiB on the card; {said[4]} MiB moved by the library, {' '.join(said[5:]) or 'no note'}")
        assert away < 600, f"{away} MiB are still on the card"
        return int(said[4])

    def end(self):
        self.line("step")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.line("end")
        log(said)
        assert "False" not in said, said
        assert self.process.wait(60) == 0
        self.errors.seek(0)
        text = self.errors.read().strip()
        if text:
            log("standard error:", text[-1500:])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def served(gib, kind="plain", least_mib=0, **env):
    program = Served(gib, kind, **env)
    try:
        look_at(program.process.pid)
        moved = [program.turn(), program.turn()]
        program.end()
        assert min(moved) >= least_mib, f"the library moved {moved} MiB, {least_mib} were expected"
    finally:
        program.kill()


def alone(gib):
    served(int(gib), least_mib=int(gib) * 1024)


def cost():
    for name, env in (("with the library", own_env()), ("without it", dict(os.environ))):
        done = subprocess.run([sys.executable, "-c", LAUNCHES], env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=120)
        log(f"a small kernel {name}: {done.stdout.strip()[-500:]}")
        assert done.returncode == 0


def kinds(gib):
    for kind, least, env in (("graphs", int(gib) * 1024, {}),
                             ("expandable", 0, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
                             ("async", 0, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})):
        log("==", kind, env)
        served(int(gib), kind, least, **env)


def hold_once(c, gib, who, alone_weights):
    name = f"held-{who}"
    alternate.start(c, name, gib, STEPS, 1, "train", {"muster.dev/on-preemption": "suspend", "muster.dev/gpu-copy": who})
    c.wait(lambda: alternate.step(c, name) > 0, "the program to train", 120)
    if who == "library":
        for pid in cuda_processes():
            look_at(pid)
    before, begun = alternate.used_mib(), time.monotonic()
    alternate.patch(c, name, {"annotations": {"muster.dev/suspend": "hold"}})
    c.wait(lambda: alternate.reason(c, name) == "Checkpointed", "the program to leave the card", 200)
    out_s, away = time.monotonic() - begun, alternate.used_mib()
    stood, begun = alternate.step(c, name), time.monotonic()
    alternate.patch(c, name, {"annotations": {"muster.dev/suspend": "yield"}})
    c.wait(lambda: alternate.reason(c, name) == "Resumed", "the program to be back", 200)
    in_s = time.monotonic() - begun
    log(f"{gib} GiB by the {who}: out {out_s:.1f} s, in {in_s:.1f} s; {before} -> {away} -> {alternate.used_mib()} MiB on "
        f"the card; at step {stood} of {STEPS}")
    for event in alternate.events(c, name, "Checkpointed"):
        log("event:", event["type"], event["message"])
    c.wait(lambda: c.get(name)["status"]["phase"] in ("Succeeded", "Failed"), f"{name} to end", 120)
    text = c.logs(name)
    steps = [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]
    assert c.get(name)["status"]["phase"] == "Succeeded", text[-2000:]
    weights, ballast = text.split("weights ")[1].split()[0], text.split("ballast ")[1].split()[0]
    log(f"weights {weights}, undisturbed {alone_weights}, ballast whole: {ballast}")
    assert weights == alone_weights and ballast == "True" and away < 600, text[-500:]
    assert steps == sorted(set(steps)), f"a step was done twice: {steps}"
    out_goal, in_goal = GOALS.get(who, {}).get(gib, (None, None))
    if out_goal:
        log(f"goals for {gib} GiB: out {out_goal} s: {'reached' if out_s <= out_goal else 'MISSED'}, in {in_goal} s: "
            f"{'reached' if in_s <= in_goal else 'MISSED'}")
    c.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")


@functools.cache
def undisturbed():
    return alternate.undisturbed(STEPS, 1)


def hold(gib):
    gib, weights = int(gib), undisturbed()
    for who in ("library", "driver"):
        if who == "driver" and time.monotonic() - BEGUN > 270:
            log(f"the driver's figures for {gib} GiB are left out: the time is over")
            continue
        c = run.Cluster()
        try:
            hold_once(c, gib, who, weights)
        except Exception:
            for pid in cuda_processes():
                look_at(pid)
            c.log.seek(0)
            print("-- muster up\n" + c.log.read()[-3000:], flush=True)
            try:
                print("-- the program\n" + c.logs(f"held-{who}")[-2000:], flush=True)
            except OSError as e:
                print(e)
            raise
        finally:
            c.close()


def main():
    words = sys.argv[1:] or "alone 4 cost kinds 2 hold 4 hold 40 hold 90".split()
    plan, failed = [], 0
    while words:
        take = 1 if words[0] == "cost" else 2
        plan.append(words[:take])
        words = words[take:]
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], text=True,
                         stdout=subprocess.PIPE, check=False).stdout.strip(), "huge pages:",
          open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="utf-8").read().strip(), "library:",
          os.path.exists(LIBRARY), "infiniband:", glob.glob("/dev/infiniband/*"), flush=True)
    for name, *arguments in plan:
        print("==", name, *arguments, flush=True)
        try:
            globals()[name](*arguments)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed += 1
    print(f"{len(plan) - failed} passed, {failed} failed in {time.monotonic() - BEGUN:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
