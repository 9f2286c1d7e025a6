#!/usr/bin/env python3
"""hanging.py NAME: a training of two ranks over gloo that hangs after some steps, in its first run alone. --list: all names,
each with what is to be said of it and whether it is proof, which restarts it.
"""

import asyncio
import atexit
import concurrent.futures
import ctypes
import multiprocessing
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import healthy
from healthy import RANK, program

FIRST = os.environ.get("MUSTER_GENERATION", "0") == "0" and os.environ.get("MUSTER_ROUND", "0") == "0"
EXPECTED = {}
CODE = r"rank 1 .*waits .*in its own code"


def hangs(words, proof):
    def note(function):
        EXPECTED[function.__name__] = (words, proof)
        return program(function)
    return note


def stuck(what, **options):
    """Rank 1 does it between two steps."""
    healthy.odd(what if FIRST else lambda: None, who=(1,), **options)


def twice(lock):
    lock.acquire()
    lock.acquire()


@hangs(r"rank 1 .*is stopped by a signal", True)
def stopped_by_a_signal():
    stuck(lambda: os.kill(os.getpid(), signal.SIGSTOP))


@hangs(CODE, True)
def a_lock_taken_twice():
    stuck(lambda: twice(threading.Lock()))


@hangs(CODE, True)
def a_lock_where_the_group_has_a_limit():
    """PyTorch would end it after five minutes."""
    import datetime
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    stuck(lambda: twice(threading.Lock()))


@hangs(CODE, True)
def two_locks_in_two_orders():
    a, b = threading.Lock(), threading.Lock()

    def cross():
        there = threading.Barrier(2)

        def other():
            with b:
                there.wait()
                with a:
                    pass
        threading.Thread(target=other, daemon=True).start()
        with a:
            there.wait()
            with b:
                pass
    stuck(cross)


@hangs(CODE, True)
def a_queue_that_nobody_fills():
    stuck(lambda: queue.Queue().get())


@hangs(CODE, True)
def a_thread_that_never_ends():
    def wait():
        thread = threading.Thread(target=twice, args=(threading.Lock(),), daemon=True)
        thread.start()
        thread.join()
    stuck(wait)


@hangs(CODE, True)
def a_future_that_nobody_sets():
    stuck(lambda: concurrent.futures.Future().result())


@hangs(CODE, True)
def a_barrier_of_threads_that_one_misses():
    stuck(lambda: threading.Barrier(2).wait())


@hangs(CODE, True)
def a_loop_that_waits_for_a_condition():
    """As queues of one's own have it: the flag is never set, and nobody is there to notify."""
    def wait():
        condition = threading.Condition()
        with condition:
            condition.wait_for(lambda: False)
    stuck(wait)


@hangs(CODE, False)
def a_queue_of_processes_that_nobody_fills():
    stuck(lambda: multiprocessing.get_context("fork").Queue().get())


@hangs(CODE, False)
def a_file_that_stays_locked():
    """By a process that is nobody's child, and has forgotten it."""
    import fcntl
    path = os.path.join(tempfile.mkdtemp(), "lock")

    def hold():
        with open(path, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            time.sleep(600)

    def wait():
        healthy.aside(hold)
        time.sleep(1)
        with open(path, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
    stuck(wait)


@hangs(r"rank 1 .*waits in the data loader", False)
def a_worker_that_was_forked_under_a_lock():
    """A thread holds a lock, as one that logs does, while DataLoader forks: the lock stays closed in the worker."""
    import torch
    lock = threading.Lock()

    class Logs(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, i):
            with lock:
                return torch.ones(8)
    training = healthy.Training()
    training.steps(25)
    if RANK == 1 and FIRST:
        lock.acquire()
    for x in torch.utils.data.DataLoader(Logs(), batch_size=1, num_workers=1):
        training.model(x).sum().backward()
        training.optimizer.step()


@hangs(CODE, True)
def another_collective_than_its_peers():
    import torch.distributed as dist
    training = healthy.Training()
    side = dist.new_group()
    training.steps()
    if RANK == 1 and FIRST:
        dist.barrier(group=side)
    training.steps()


@hangs(CODE, False)
def a_lock_where_gradients_are_averaged_by_hand():
    import torch.distributed as dist
    training = healthy.Training(ddp=False)
    for i in range(40):
        if i == 25 and RANK == 1 and FIRST:
            twice(threading.Lock())
        training.step()
        for p in training.model.parameters():
            dist.all_reduce(p.grad)


@hangs(r"all ranks wait.*rank 0 is in .*rank 1 is in ", False)
def a_collective_that_one_leaves_out():
    import torch.distributed as dist
    training = healthy.Training(ddp=False)
    for i in range(40):
        training.step()
        for p in training.model.parameters():
            dist.all_reduce(p.grad)
        if i == 25 and FIRST:
            dist.broadcast(p.grad, 0) if RANK == 1 else dist.barrier()


@hangs(r"rank 1 .*waits in the data loader", False)
def a_loader_that_brings_nothing():
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Stuck(Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, i):
            if i == 25 and RANK == 1 and FIRST:
                time.sleep(10000)
            return torch.ones(8)
    training = healthy.Training()
    for x in DataLoader(Stuck(), batch_size=1):
        training.model(x).sum().backward()
        training.optimizer.step()
        time.sleep(healthy.SHORT_S)


@hangs(CODE, False)
def a_fifo_that_nobody_writes():
    path = os.path.join(tempfile.mkdtemp(), "fifo")
    os.mkfifo(path)
    stuck(lambda: open(path).read())


@hangs(CODE, False)
def a_line_that_nobody_types():
    reader, _ = os.pipe()
    stuck(lambda: os.read(reader, 1))


@hangs(CODE, False)
def a_child_that_never_ends():
    stuck(lambda: subprocess.run(["sleep", "10000"]))


@hangs(CODE, False)
def a_server_that_never_answers():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    stuck(lambda: healthy.asyncio_fetch(listener.getsockname()[1]))


@hangs(CODE, False)
def tasks_that_wait_for_each_other():
    """In a loop of asyncio, which waits for sockets meanwhile."""
    async def both():
        tasks = []

        async def other(which):
            await asyncio.sleep(0)
            await asyncio.shield(tasks[1 - which])
        tasks[:] = [asyncio.ensure_future(other(which)) for which in range(2)]
        await asyncio.wait(tasks)
    stuck(lambda: asyncio.run(both()))


@hangs(CODE, False)
def a_library_that_keeps_the_interpreter():
    """C code that waits for ever and did not release Python's lock: no thread of the program goes on."""
    stuck(lambda: ctypes.PyDLL(None).pause())


@hangs(r"rank 1 (.*waits .*|is in [^;]*) at hanging.py:\d+ in twice", False)
def a_lock_in_a_hook_of_the_backward_pass():
    """All ranks are in the same pass; which one holds up the others is told by its line alone."""
    training = healthy.Training()
    training.steps()
    if RANK == 1 and FIRST:
        training.model.module.bias.register_hook(lambda gradient: twice(threading.Lock()))
    training.steps()


@hangs(r"rank 1 .*in its own code.* at hanging.py:\d+ in twice .*1 of 2 ranks have ended", False)
def a_lock_at_exit():
    """After its peer has ended: nobody waits for it but its launcher. PyTorch 1.13 asks for its store meanwhile, all the time."""
    training = healthy.Training()
    training.steps()
    if RANK == 1 and FIRST:
        atexit.register(twice, threading.Lock())


@hangs(r"rank 1 .*is at work .*at hanging.py:\d+ in endless", False)
def an_endless_loop_in_c():
    stuck(endless)


@hangs(r"2 of 2 use CPU time; rank 0 .*at hanging.py:\d+ in endless; rank 1 .*at hanging.py:\d+ in endless", False)
def every_rank_in_the_same_line():
    healthy.odd(endless if FIRST else lambda: None, who=(0, 1))


def endless():
    """As a regular expression is for some of its texts."""
    re.match(r"(a+)+$", "a" * 60 + "b")


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        for name, (words, proof) in EXPECTED.items():
            print(f"{name}\t{proof:d}\t{words}")
    else:
        import torch
        torch.set_num_threads(1)
        healthy.PROGRAMS[sys.argv[1]]()
        print(f"done rank {RANK}", flush=True)
