#!/usr/bin/env python3
"""ddp.py STEPS [FILE]: a small training with DistributedDataParallel over gloo, in its first generation without an end, in later
ones of STEPS steps. MUSTER_TEST_ROUNDS: so many restarts in place are of the first generation, too.

MUSTER_TEST_FAULT, for the last rank of the first generation, at step 30:
    loader  its data loader waits until there is a FILE; the gang ends STEPS steps later
    lock    it waits for a lock that it holds
    slow    from then on it takes a fifth longer than the others for its own part of a step
"""

import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1])
FAULT = os.environ.get("MUSTER_TEST_FAULT", "")
FAULT_AT = 30
OWN_SECONDS = 0.3
STEP_SECONDS = 0.05  # of rest: a training that waits for its fault would keep every processor busy


class Numbers(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        if FAULT == "loader" and i == FAULT_AT and dist.get_rank() == dist.get_world_size() - 1:
            while not os.path.exists(sys.argv[2]):
                time.sleep(0.2)
        return torch.full((8,), float(i % 7))


def main():
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    first = os.environ.get("MUSTER_GENERATION", "0") == "0" and \
        int(os.environ.get("MUSTER_ROUND", "0")) <= int(os.environ.get("MUSTER_TEST_ROUNDS", "0"))
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, x in enumerate(DataLoader(Numbers(), batch_size=1)):
        if (not first and step >= STEPS) or (FAULT == "loader" and step >= FAULT_AT + STEPS):
            break
        if FAULT == "lock" and first and step == FAULT_AT and rank == last:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        own = OWN_SECONDS * (1.2 if step >= FAULT_AT and rank == last else 1) if FAULT == "slow" else STEP_SECONDS
        time.sleep(own)
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} rank {rank}", flush=True)
    print(f"done rank {rank}", flush=True)


if __name__ == "__main__":
    main()
