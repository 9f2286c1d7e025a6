#!/usr/bin/env python3
"""train.py FAULT RANK [gloo]: two ranks in each of two pods, and what is to go wrong in one of them (run.py has the table).

Every rank says that it begins. With gloo they sum numbers until the fault; without it they only wait. In a generation after the
first all is well, unless the fault is `again`.
"""

import os
import signal
import sys
import time

FAULT, CULPRIT = sys.argv[1], int(sys.argv[2])
RANK = int(os.environ["RANK"])
FIRST = os.environ.get("MUSTER_GENERATION", "0") == "0"
FAULT_AT = 3  # steps, so that all are connected


def torchrun():
    """The pid of the torchrun above this rank: its parent is muster-launch."""
    with open(f"/proc/{os.getppid()}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("PPid:"))


def take_memory():
    taken = []
    while True:
        taken.append(bytearray(os.urandom(1 << 20) * 32))


def fail():
    print(f"planted: {FAULT} on rank {RANK}", flush=True)
    if FAULT in ("raise", "linger", "twice"):
        raise ValueError(f"planted on rank {RANK}")
    if FAULT == "exit":
        sys.exit(7)
    if FAULT == "again":
        sys.exit(3 if FIRST else 5)
    if FAULT == "early":
        os._exit(0)
    if FAULT == "abort":
        os.abort()
    if FAULT in ("SIGKILL", "SIGSEGV"):
        os.kill(os.getpid(), getattr(signal, FAULT))
    if FAULT == "torchrun":
        os.kill(torchrun(), signal.SIGKILL)
    if FAULT == "memory":
        take_memory()
    if FAULT == "import":
        import muster_has_no_such_module  # noqa: F401
    time.sleep(3600)


def step():
    import torch
    import torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))


def is_culprit():
    if FAULT == "import":
        return True
    if FAULT == "again" and not FIRST:
        return RANK == CULPRIT - 1
    return RANK == CULPRIT


def main():
    print(f"rank {RANK} begins", flush=True)
    if not FIRST and FAULT != "again":
        print(f"rank {RANK} is done", flush=True)
        return
    if FAULT == "linger" and RANK == CULPRIT - 1:  # beside the culprit: its pod ends late
        signal.signal(signal.SIGTERM, lambda *_: (time.sleep(6), os._exit(0)))
    for _ in range(FAULT_AT if "gloo" in sys.argv else 0):
        step()
    if is_culprit():
        fail()
    if FAULT == "twice" and RANK == CULPRIT + 1:  # in the other pod, and later
        time.sleep(1)
        fail()
    while "gloo" in sys.argv and not (FAULT == "linger" and RANK == CULPRIT - 1):
        step()
    time.sleep(3600)


if __name__ == "__main__":
    main()
