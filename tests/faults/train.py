#!/usr/bin/env python3
"""train.py STEPS: DistributedDataParallel over gloo, with a checkpoint after every 15 steps; goes on from the last one that
can be read. /checkpoints/faults.log has what really happened, a line of JSON each, by rank 0's clock.

FAULT, in the first run and at step FAULT_AT (40): what becomes of the rank that it is planted in.
"""

import json
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1])
FOLDER = "/checkpoints"
FAULT = os.environ.get("FAULT", "")
FAULT_AT = int(os.environ.get("FAULT_AT", "40"))
SAVE_EVERY = 15
STEP_SECONDS = 0.1
SHM_MAX_MIB = 64
LIMIT_BYTES = int(os.environ.get("MEMORY_BYTES", "0"))
RUN = 1000 * int(os.environ.get("MUSTER_GENERATION", "0")) + int(os.environ.get("MUSTER_ROUND", "0"))


def log(**line):
    with open(os.path.join(FOLDER, "faults.log"), "a") as f:
        f.write(json.dumps(dict(line, run=RUN, rank=int(os.environ["RANK"]))) + "\n")


class Numbers(Dataset):
    def __init__(self, begin):
        self.begin = begin

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        if FAULT == "loader" and RUN == 0 and self.begin + i + 1 == FAULT_AT and dist.get_rank() == 3:
            log(fault=time.time())
            while not os.path.exists(os.path.join(FOLDER, "go")):
                time.sleep(0.2)
        return torch.full((8,), float(i % 7))


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def hog():
    kept = []
    while sum(map(len, kept)) < LIMIT_BYTES * 11 // 10:
        kept.append(bytearray(b"x" * (32 << 20)))
    sys.exit(77)  # nobody keeps to the limit here


def fill():
    """No room is left in /dev/shm, which is small here."""
    with open("/dev/shm/filler", "wb", buffering=0) as f:
        for _ in range(SHM_MAX_MIB):
            try:
                f.write(bytes(1 << 20))
            except OSError:
                break
        else:
            sys.exit(77)  # nobody keeps to the limit here
        try:
            while f.write(bytes(512)):
                pass
        except OSError:
            pass


def fail():
    raise RuntimeError("this was planted")


def planted(side):
    """What happens before the step, by rank."""
    return {"stop": (3, lambda: os.kill(os.getpid(), signal.SIGSTOP)), "deadlock": (3, deadlock),
            "skip": (3, lambda: dist.barrier(group=side)), "oom": (3, hog), "exception": (3, fail),
            }.get(FAULT, (None, None))


def save(step, model, optimizer):
    begin = time.time()
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if FAULT == "disk" and RUN == 0 and step > FAULT_AT:
        fill()
        log(fault=time.time())
        # As large as real ones: of a few kilobytes a PyTorch that is old says nothing when they do not fit.
        torch.save(dict(state, more=torch.ones(1 << 20)), "/dev/shm/full.pt")
    path = os.path.join(FOLDER, f"{step}.pt")
    torch.save(state, path + ".new")
    os.rename(path + ".new", path)
    log(saved=step, begin=begin, end=time.time())
    if FAULT == "corrupt" and RUN == 0 and step > FAULT_AT:
        os.truncate(path, os.path.getsize(path) // 2)
        log(fault=time.time())
        os.kill(os.getpid(), signal.SIGKILL)


def resume(model, optimizer):
    found = sorted((int(name[:-3]) for name in os.listdir(FOLDER) if name.endswith(".pt")), reverse=True)
    for step in found:
        try:
            state = torch.load(os.path.join(FOLDER, f"{step}.pt"))
        except Exception as e:
            print(f"the checkpoint of step {step} cannot be read: {e}", flush=True)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return step
    return 0


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    side = dist.new_group()
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    begin = resume(model, optimizer)
    who, fault = planted(side)
    for i, x in enumerate(DataLoader(Numbers(begin), batch_size=1)):
        step = begin + i + 1
        if step > STEPS:
            break
        time.sleep(STEP_SECONDS)
        if RUN == 0 and step == FAULT_AT and rank == who:
            log(fault=time.time())
            fault()
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if rank == 0:
            log(step=step, t=time.time())
            if step % SAVE_EVERY == 0:
                save(step, model, optimizer)
    print(f"done rank {rank}", flush=True)


if __name__ == "__main__":
    main()
