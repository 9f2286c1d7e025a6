#!/usr/bin/env python3
"""A small real training: a linear model learned with DistributedDataParallel from synthetic data.

    torchrun --nproc-per-node 2 train.py --steps 100

Saves a checkpoint every few steps when --checkpoint-dir is given, and carries on from the newest one,
so it may be stopped at any moment. Prints what a person wants to see and what the tests look for.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LEARNING_RATE = 0.05


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="least duration of a step")
    parser.add_argument("--checkpoint-dir", default="")
    parser.add_argument("--checkpoint-every", type=int, default=5)
    parser.add_argument("--fail-at-step", type=int, default=-1, help="exit 3 there on rank 1, unless resumed from a checkpoint")
    return parser.parse_args()


def check_all_reduce(device):
    """The sum of the ranks is known: anything else means the gang is not whole."""
    rank, world = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([float(rank + 1)], device=device)
    dist.all_reduce(total)
    expected = world * (world + 1) / 2
    if total.item() != expected:
        raise SystemExit(f"rank {rank}: all_reduce gave {total.item()}, expected {expected}")
    print(f"rank {rank} of {world}: all_reduce {total.item():.0f} is right", flush=True)


def newest(folder):
    names = [n for n in os.listdir(folder) if n.startswith("step-")] if os.path.isdir(folder) else []
    return os.path.join(folder, max(names, key=lambda n: int(n.split("-")[1].split(".")[0]))) if names else None


def save(folder, step, model, optimizer):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"step-{step}.pt")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)  # a reader never sees half a checkpoint


def main():
    args = parse()
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, local = dist.get_rank(), int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    check_all_reduce(device)

    torch.manual_seed(7)
    truth = torch.randn(args.features, 1, device=device)
    model = DistributedDataParallel(torch.nn.Linear(args.features, 1, bias=False).to(device),
                                    device_ids=[local] if cuda else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    start = 0
    found = newest(args.checkpoint_dir) if args.checkpoint_dir else None
    if found:
        state = torch.load(found, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE  # what this file says now, not what it said at the checkpoint
        start = state["step"]
        print(f"rank {rank}: resumed at step {start}, learning rate {LEARNING_RATE}", flush=True)

    torch.manual_seed(1000 + rank)
    first = None
    for step in range(start + 1, args.steps + 1):
        began = time.monotonic()
        x = torch.randn(args.batch, args.features, device=device)
        loss = torch.nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first = loss.item() if first is None else first
        if rank == 0 and (step % 10 == 0 or step == args.steps or step == start + 1):
            print(f"step {step}/{args.steps} loss {loss.item():.6f}", flush=True)
        if args.checkpoint_dir and rank == 0 and step % args.checkpoint_every == 0:
            save(args.checkpoint_dir, step, model, optimizer)
        if step == args.fail_at_step and rank == 1 and start == 0:
            print(f"rank {rank}: failing at step {step} as asked", flush=True)
            os._exit(3)
        time.sleep(max(0.0, args.step_seconds - (time.monotonic() - began)))
    if rank == 0:
        last = loss.item() if args.steps > start else 0.0
        print(f"done: {args.steps} steps, loss {first or 0.0:.6f} -> {last:.6f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
