#!/usr/bin/env python3
"""suspend.py [EXPERIMENT...]: on a machine with an NVIDIA GPU, what the driver's process checkpoints can do.

Moves PyTorch processes off the card and back by the driver's own calls (cuCheckpointProcess*), from outside of them,
and prints a line per observation: seconds, memory on the card and on the host, error codes. Decides nothing; the
results are written up in docs/internals/suspend.md. Needs a Python that can import torch; root for the experiments
with other users and name spaces.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback

STATES = {0: "running", 1: "locked", 2: "checkpointed", 3: "failed", 4: "checkpointing", 5: "restoring"}
CALL_LIMIT_S = 150
TURNS = 2  # of 65 and 45 GiB

VICTIM = """
import os, sys, time, hashlib, torch
torch.manual_seed(0)
gib = float(sys.argv[1]); options = sys.argv[2:]
if "nccl" in options:
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl"); t = torch.ones(1, device="cuda"); dist.all_reduce(t)
loader = None
if "workers" in options:
    data = torch.utils.data.TensorDataset(torch.arange(100000, dtype=torch.float32))
    loader = iter(torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True))
    next(loader)
pieces = [torch.full(((1 << 30) // 8,), i * 7919 + 1, dtype=torch.int64, device="cuda") for i in range(int(gib))]
def whole():
    return all(bool((piece == i * 7919 + 1).all()) for i, piece in enumerate(pieces))
model = torch.nn.Linear(512, 512).cuda(); opt = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    x = torch.randn(64, 512, device="cuda")
    if loader is not None:
        next(loader)
    loss = model(x).square().mean(); opt.zero_grad(); loss.backward(); opt.step()
    if "nccl" in options:
        dist.all_reduce(t)
for _ in range(3):
    step()
torch.cuda.synchronize()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        step()
    torch.cuda.synchronize()
    w = hashlib.sha256(model.weight.detach().cpu().numpy().tobytes()).hexdigest()[:16]
    print("weights", w, "ballast", whole(), flush=True)
"""


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    if cuda.cuInit(0):
        raise SystemExit("cuInit failed")
    return cuda


def call(name, pid, timeout_ms):
    """One call of the driver, in this process: prints code and seconds."""
    cuda = driver()
    function = getattr(cuda, "cuCheckpointProcess" + name)
    args = (ctypes.c_uint64 * 9)()
    if name == "Lock":
        ctypes.cast(args, ctypes.POINTER(ctypes.c_uint32))[0] = timeout_ms
    begun = time.monotonic()
    code = function(ctypes.c_int(pid), ctypes.byref(args) if name in ("Lock", "Checkpoint") else None)
    print(code, f"{time.monotonic() - begun:.3f}", flush=True)


def do(name, pid, timeout_ms=10000, prefix=(), quiet=False, limit_s=CALL_LIMIT_S):
    try:
        command = [*prefix, sys.executable, os.path.abspath(__file__), "--call", name, str(pid), str(timeout_ms)]
        done = subprocess.run(command,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        print(f"    {name}: no answer within {limit_s} s", flush=True)
        return None, limit_s
    words = done.stdout.split()
    if len(words) != 2:
        print(f"    {name}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        return None, 0
    if not quiet:
        print(f"    {name}: code {words[0]}, {words[1]} s", flush=True)
    return int(words[0]), float(words[1])


def call_state(pid):
    cuda, value = driver(), ctypes.c_int(-1)
    code = cuda.cuCheckpointProcessGetState(ctypes.c_int(pid), ctypes.byref(value))
    print(STATES.get(value.value, value.value) if code == 0 else f"code {code}", flush=True)


def state(pid):
    try:
        return subprocess.run([sys.executable, os.path.abspath(__file__), "--call", "State", str(pid), "0"], text=True,
                              stdout=subprocess.PIPE, timeout=15, check=False).stdout.strip()
    except subprocess.TimeoutExpired:
        return "not told within 15 s"


def used_mib():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], text=True,
                         stdout=subprocess.PIPE, check=False).stdout
    return int(out.split()[0])


def rss_mib(pid):
    for line in open(f"/proc/{pid}/status", encoding="utf-8"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


class Victim:
    def __init__(self, gib, *options, prefix=(), env=None):
        self.process = subprocess.Popen([*prefix, sys.executable, "-c", VICTIM, str(gib), *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            raise RuntimeError(f"the victim did not start: {line!r}")
        self.pid = self.process.pid

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def out_and_in(victim, label, prefix=()):
    before, rss = used_mib(), rss_mib(victim.pid)
    codes = [do("Lock", victim.pid, prefix=prefix, quiet=True), do("Checkpoint", victim.pid, prefix=prefix, quiet=True)]
    away, rss_away = used_mib(), rss_mib(victim.pid)
    codes += [do("Restore", victim.pid, prefix=prefix, quiet=True), do("Unlock", victim.pid, prefix=prefix, quiet=True)]
    print(f"  {label}: lock, checkpoint, restore, unlock: codes {[c for c, _ in codes]}, seconds {[s for _, s in codes]}; "
          f"card {before} -> {away} -> {used_mib()} MiB; host {rss} -> {rss_away} -> {rss_mib(victim.pid)} MiB", flush=True)
    return [c for c, _ in codes] == [0, 0, 0, 0]


def sizes():
    for gib in (4, 40, 90):
        with Victim(gib) as v:
            for turn in range(2):
                out_and_in(v, f"{gib} GiB, turn {turn}")
                v.steps(5)
                print("   ", v.answer(), flush=True)


def equal():
    results = []
    for disturbed in (False, True):
        with Victim(4) as v:
            for _ in range(3):
                if disturbed:
                    v.steps(2000)  # it computes while it is asked to leave
                    out_and_in(v, "while it computes")
                else:
                    v.steps(2000)
                last = v.answer()
            results.append(last)
    print(f"  undisturbed {results[0]}; suspended three times {results[1]}; equal {results[0] == results[1]}", flush=True)


def nccl():
    with Victim(4, "nccl") as v:
        out_and_in(v, "NCCL of one rank")
        v.steps(5)
        print("   ", v.answer(), flush=True)


def workers():
    with Victim(4, "workers") as v:
        out_and_in(v, "two data loader workers")
        v.steps(5)
        print("   ", v.answer(), flush=True)


def stopped():
    """Stopped and frozen processes: does the driver need them to run?"""
    with Victim(1) as v:
        os.kill(v.pid, signal.SIGSTOP)
        print("  a process that was stopped (SIGSTOP) before:", flush=True)
        code, _ = do("Lock", v.pid, 5000, limit_s=20)
        if code == 0:
            do("Checkpoint", v.pid, limit_s=20)
        print("    state", state(v.pid), "used", used_mib(), flush=True)
        os.kill(v.pid, signal.SIGCONT)
        print("    continued: state", state(v.pid), flush=True)
        do("Unlock", v.pid, limit_s=20)
        v.steps(5)
        print("    unlocked: state", state(v.pid), v.answer(), flush=True)
    with Victim(1) as v:
        print("  stopped after the checkpoint, continued before the restore:", flush=True)
        do("Lock", v.pid)
        do("Checkpoint", v.pid)
        os.kill(v.pid, signal.SIGSTOP)
        print("    stopped: state", state(v.pid), "used", used_mib(), flush=True)
        os.kill(v.pid, signal.SIGCONT)
        do("Restore", v.pid)
        do("Unlock", v.pid)
        v.steps(5)
        print("   ", v.answer(), flush=True)


def users():
    if os.geteuid() != 0 or subprocess.run(["which", "setpriv"], stdout=subprocess.DEVNULL, check=False).returncode:
        print("  not root, or no setpriv here: left out", flush=True)
        return
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    other = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    env = {"HOME": "/tmp", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor", "USER": "u", "LOGNAME": "u"}
    with Victim(1, prefix=nobody, env=env) as v:
        out_and_in(v, "a process of another user, called by root")
        print("  called by a third user:", flush=True)
        do("Lock", v.pid, prefix=other)
        print("  called by the same user:", flush=True)
        out_and_in(v, "the same user, not root", prefix=nobody)
        v.steps(5)
        print("   ", v.answer(), flush=True)


def spaces():
    """The victim has a pid name space, a mount name space and a user name space of its own."""
    for label, flags in (("pid and mount name spaces", ["--pid", "--mount", "--mount-proc"]),
                         ("also a user name space", ["--user", "--map-root-user", "--pid", "--mount", "--mount-proc"])):
        prefix = ["unshare", *flags, "--fork", "--kill-child"]
        try:
            with Victim(1, prefix=prefix) as v:
                kids = open(f"/proc/{v.pid}/task/{v.pid}/children", encoding="utf-8").read().split()
                v.pid = int(kids[0])
                out_and_in(v, f"{label}, called from outside by the outer pid")
                v.steps(5)
                print("   ", v.answer(), flush=True)
        except (RuntimeError, OSError, IndexError) as e:
            print(f"  {label}: {e}", flush=True)


def killed():
    """The one who asks dies in the middle of a checkpoint: what is the state, and can another go on?"""
    with Victim(40) as v:
        do("Lock", v.pid)
        asker = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--call", "Checkpoint", str(v.pid), "0"])
        base = used_mib()
        limit = time.monotonic() + 30
        time.sleep(3)
        asker.kill()
        asker.wait()
        print(f"  asker killed 3 s into a checkpoint of 40 GiB: state {state(v.pid)}, "
              f"card {base} -> {used_mib()} MiB", flush=True)
        while state(v.pid) not in ("checkpointed", "failed") and time.monotonic() < limit:
            time.sleep(1)
        print(f"    later: state {state(v.pid)}, card {used_mib()} MiB", flush=True)
        if state(v.pid) == "locked":
            do("Checkpoint", v.pid)
        do("Restore", v.pid)
        do("Unlock", v.pid)
        v.steps(5)
        print("    state", state(v.pid), v.answer() if v.process.poll() is None else f"exit {v.process.returncode}", flush=True)


def share():
    library = os.environ.get("MUSTER_GPU_LIBRARY", "build/libmuster-gpu.so")
    if not os.path.exists(library):
        print(f"  {library} is not here: left out", flush=True)
        return
    env = {"LD_PRELOAD": os.path.abspath(library), "MUSTER_GPU_MEMORY_MIB": "16384"}
    with Victim(4, env=env) as v:
        out_and_in(v, "held to a share by our library")
        v.steps(5)
        print("   ", v.answer(), flush=True)
        with Victim(4, env=env) as w:
            out_and_in(v, "beside a neighbour on the same card")
            w.steps(5)
            print("    neighbour", w.answer(), flush=True)
            v.steps(5)
            print("   ", v.answer(), flush=True)


def exchange(leaves, comes):
    return [do(name, victim.pid, quiet=True) for name, victim in
            (("Lock", leaves), ("Checkpoint", leaves), ("Restore", comes), ("Unlock", comes))]


def alternate():
    """Two processes in turns; the host has to hold what is away."""
    with Victim(65) as a:
        do("Lock", a.pid)
        do("Checkpoint", a.pid)
        with Victim(45) as b:
            for turn in range(TURNS):
                begun = time.monotonic()
                ok = exchange(b, a)
                a.steps(5)
                print(f"  turn {turn}: b out, a in: {ok}, {time.monotonic() - begun:.1f} s; {a.answer()}", flush=True)
                begun = time.monotonic()
                ok = exchange(a, b)
                b.steps(5)
                print(f"  turn {turn}: a out, b in: {ok}, {time.monotonic() - begun:.1f} s; {b.answer()}", flush=True)


PINNED = """
import time, torch, concurrent.futures as cf
GIB = 1 << 30
src = torch.ones(8 * GIB, dtype=torch.uint8, device="cuda"); torch.cuda.synchronize()
def timed(label, f, size=8 * GIB):
    f_begun = time.monotonic(); f(); torch.cuda.synchronize(); s = time.monotonic() - f_begun
    print(f"  {label}: {size / s / 1e9:.1f} GB/s", flush=True)
begun = time.monotonic(); pinned = torch.empty(8 * GIB, dtype=torch.uint8, pin_memory=True)
print(f"  pinning 8 GiB: {time.monotonic() - begun:.2f} s", flush=True)
timed("card to pinned memory, once", lambda: pinned.copy_(src, non_blocking=True))
timed("card to pinned memory, again", lambda: pinned.copy_(src, non_blocking=True))
timed("pinned memory to card", lambda: src.copy_(pinned, non_blocking=True))
plain = torch.empty(8 * GIB, dtype=torch.uint8)
timed("card to plain memory, first touch", lambda: plain.copy_(src))
timed("card to plain memory, again", lambda: plain.copy_(src))
timed("plain memory to card", lambda: src.copy_(plain))
def ring(target, threads, chunk=64 << 20, slots=16):
    pieces = [pinned[i * chunk:(i + 1) * chunk] for i in range(slots)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    pool = cf.ThreadPoolExecutor(threads); waits = [None] * slots
    n = 8 * GIB // chunk
    def move(i, piece, event):
        event.synchronize(); target[i * chunk:(i + 1) * chunk].copy_(piece)
    for i in range(n):
        k = i % slots
        if waits[k] is not None:
            waits[k].result()
        with torch.cuda.stream(streams[i % 2]):
            pieces[k].copy_(src[i * chunk:(i + 1) * chunk], non_blocking=True)
            event = torch.cuda.Event(); event.record()
        waits[k] = pool.submit(move, i, pieces[k], event)
    for w in waits:
        w.result()
torch.set_num_threads(1)
for threads in (1, 2, 4, 8):
    fresh = torch.empty(8 * GIB, dtype=torch.uint8)
    timed(f"card to fresh plain memory through a pinned ring of 1 GiB, {threads} threads", lambda: ring(fresh, threads))
"""


def pinned():
    subprocess.run([sys.executable, "-c", PINNED], timeout=240, check=False)


EXPERIMENTS = [sizes, equal, nccl, workers, stopped, users, spaces, killed, share, pinned, alternate]


def main():
    if sys.argv[1:2] == ["--call"]:
        if sys.argv[2] == "State":
            call_state(int(sys.argv[3]))
        else:
            call(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    print(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], text=True,
                         stdout=subprocess.PIPE, check=False).stdout.strip(), flush=True)
    for experiment in EXPERIMENTS:
        if sys.argv[1:] and experiment.__name__ not in sys.argv[1:]:
            continue
        print(f"{experiment.__name__}:", flush=True)
        begun = time.monotonic()
        try:
            experiment()
        except Exception:  # noqa: BLE001: the next experiment is of its own
            traceback.print_exc()
        print(f"  ({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
