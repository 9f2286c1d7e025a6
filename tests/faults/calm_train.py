#!/usr/bin/env python3
"""calm_train.py SEED SECONDS: a training over gloo that is well, and does what could be taken for a hang: steps with tenfold
jitter, and SECONDS each of compilation, of evaluation and of writing a checkpoint. In what order, and whether one rank does it
while the others wait for it in a collective, or all of them, is by the seed.
"""

import os
import random
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SEED, SECONDS = int(sys.argv[1]), float(sys.argv[2])
FOLDER = "/checkpoints"
STEPS = 40  # before, between and after
SHORTEST_S, JITTER = 0.03, 10
CHUNK = 4 << 20
NETWORK_S = 0.2  # of each chunk, as on storage that is far away: 20 MB a second
SOURCE = "".join(f"double f{i}(double x) {{ for (int i = 0; i < 9; i++) x = x * {i}.5 + i; return x; }}\n" for i in range(800))


def time_left(begin):
    """Whether there is time left."""
    return time.monotonic() - begin < SECONDS


def compiles(model):
    """As an extension in C++ is built, or torch.compile does it: by processes of its own, and the rank waits for them."""
    begin = time.monotonic()
    if hasattr(torch, "compile"):
        try:
            torch.compile(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()))(torch.ones(3, 16))
        except Exception as e:
            print(f"torch.compile does not work here: {e}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernels.c")
        with open(path, "w") as f:
            f.write(SOURCE)
        while time_left(begin):
            subprocess.run(["cc", "-O2", "-c", "-o", path + ".o", path], check=True)


def evaluates(model):
    begin = time.monotonic()
    with torch.no_grad():
        while time_left(begin):
            model.module(torch.randn(64, 256)).sum().item()
            time.sleep(0.02)  # for the next batch


def saves(model):
    """A file that is long, on a disk that is slow."""
    begin = time.monotonic()
    path = os.path.join(FOLDER, f"{SEED}-{dist.get_rank()}.pt")

    class Slow:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            at = self.file.tell()
            written = self.file.write(data)
            while len(data) >= CHUNK and time_left(begin):
                time.sleep(NETWORK_S)
                self.file.seek(at)
                written = self.file.write(data)
                os.fsync(self.file.fileno())
            return written

        def flush(self):
            self.file.flush()

    with open(path, "wb", buffering=0) as f:
        torch.save({"model": model.state_dict(), "more": torch.ones(CHUNK // 4)}, Slow(f))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, chance, together = dist.get_rank(), random.Random(f"{SEED}-{os.environ['RANK']}"), random.Random(SEED)
    torch.manual_seed(SEED)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)))
    optimizer = torch.optim.Adam(model.parameters())

    def steps():
        for _ in range(STEPS):
            time.sleep(SHORTEST_S * chance.uniform(1, JITTER))
            optimizer.zero_grad()
            model(torch.randn(8, 256)).sum().backward()
            optimizer.step()

    phases = [compiles, evaluates, saves]
    together.shuffle(phases)
    for phase in phases:
        steps()
        who = together.choice([range(dist.get_world_size()), [0], [dist.get_world_size() - 1]])
        print(f"{phase.__name__}: {len(who)} of {dist.get_world_size()} ranks, {SECONDS:.0f} s", flush=True)
        if rank in who:
            phase(model)
        dist.barrier()
    steps()
    print(f"done rank {rank}", flush=True)


if __name__ == "__main__":
    main()
