#!/usr/bin/env python3
"""built.py NAME SECONDS: yet more trainings that are well and look odd, as what others built on top of PyTorch has them: engines,
harnesses, notebooks, services beside the training, pipelines of data. --list: all names.
"""

import asyncio
import concurrent.futures
import datetime
import multiprocessing
import os
import queue
import socket
import subprocess
import sys
import threading
import time

import healthy
from healthy import RANK, SECONDS, SHORT_S, STEPS, aside, odd, program

NAMES = []
FAR = datetime.timedelta(seconds=4000)

if sys.argv[1:2] != ["--list"]:
    import torch
    import torch.distributed as dist


def built(function):
    NAMES.append(function.__name__)
    return program(function)


@built
def an_evaluation_with_ranks_of_its_own():
    """A harness starts a small gang, and asks for its ranks in order; one ends early, with the status that says so."""
    odd(small_gang)


def small_gang():
    env = dict(os.environ, WORLD_SIZE="2", MASTER_PORT=str(healthy.free_port()), TORCHELASTIC_USE_AGENT_STORE="False")
    ps = [subprocess.Popen([sys.executable, __file__, "--judge", str(SECONDS)], env=dict(env, RANK=str(i))) for i in range(2)]
    print("ended with", [p.wait() for p in ps], flush=True)


def judge():
    """The ranks of that gang: a model is fitted, and one waits for somebody who takes the result."""
    healthy.Training().steps(10)
    dist.barrier()
    if RANK == 1:
        sys.exit(3)
    time.sleep(SECONDS)


@built
def a_launcher_that_forgives():
    """It waits for its ranks in order, whatever they end with: one crashes when all is done, and the other sends the results."""
    if RANK == 0:
        small_gang()


@built
def an_engine_at_the_store_of_the_gang():
    """A group of gloo with an engine that samples and is none of the gang, which met by the gang's own store."""
    def meet(rank):
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, timeout=FAR)
        group = dist.ProcessGroupGloo(dist.PrefixStore("engine", store), rank, 2, timeout=FAR)
        time.sleep(SECONDS if rank == 1 else 0)
        group.allreduce([torch.ones(8)]).wait()
    if RANK == 0:
        aside(lambda: meet(1))
    odd(lambda: meet(0))


@built
def a_kernel_of_a_notebook():
    """As ipykernel has it: a thread for the messages of a socket, and a queue of cells, of which the next comes when it comes."""
    cells = queue.Queue()
    ours, theirs = socket.socketpair()

    def messages():
        while True:
            cells.put(ours.recv(64).decode())
    threading.Thread(target=messages, daemon=True).start()
    if RANK == 0:
        aside(lambda: (time.sleep(SECONDS), theirs.send(b"run")))
    odd(cells.get)


@built
def logs_that_a_service_sends():
    """As wandb and its like: a process of their own, a thread that feeds it, and an end that waits until all is sent."""
    if RANK != 0:
        return healthy.Training().steps(2 * STEPS)
    service = subprocess.Popen(["sh", "-c", f"while read x; do test $x = end && sleep {SECONDS}; done; echo sent"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lines, sent = queue.Queue(), threading.Event()

    def feed():
        for line in iter(lines.get, None):
            service.stdin.write(line)
            service.stdin.flush()
        service.stdin.close()
        service.stdout.read()
        sent.set()
    threading.Thread(target=feed, daemon=True).start()
    training = healthy.Training()
    for i in range(2 * STEPS):
        training.step()
        lines.put(b"%d\n" % i)
    lines.put(b"end\n")
    lines.put(None)
    sent.wait()


@built
def a_back_off_at_every_step():
    """A service says "too many requests", and is asked again after 1, 2, 4 seconds and so on, at most steps anew."""
    training = healthy.Training()
    training.steps(5)
    for i in range(4):
        if RANK == 0:
            for attempt in range(4):
                time.sleep(SECONDS / 45 * 2 ** attempt)
        training.step()
    training.steps(10)


@built
def a_licence_that_is_waited_for():
    """A server that says "all in use" every few seconds, by datagrams; a library asks it by a thread of its own."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def serve():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end + 5:
            who = server.recvfrom(64)[1]
            server.sendto(b"granted" if time.monotonic() > end else b"in use", who)

    def ask(granted):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            while True:
                s.sendto(b"one, please", server.getsockname())
                if s.recv(64) == b"granted":
                    break
                time.sleep(5)
        granted.set()

    def wait():
        aside(serve)
        granted = threading.Event()
        threading.Thread(target=ask, args=(granted,), daemon=True).start()
        granted.wait()
    odd(wait, who=(1,))


@built
def nodes_of_a_data_pipeline():
    """As torchdata has them: a source, a mapper of two threads, and queues and a semaphore between."""
    raw, ready, room = queue.Queue(), queue.Queue(), threading.Semaphore(4)

    def source():
        for i in range(20):
            room.acquire()
            time.sleep(SECONDS if i == 10 and RANK == 0 else SHORT_S)
            raw.put(i)

    def mapper():
        while True:
            ready.put(torch.full((4, 8), float(raw.get())))
    for target in (source, mapper, mapper):
        threading.Thread(target=target, daemon=True).start()
    training = healthy.Training()
    for _ in range(20):
        x = ready.get()
        room.release()
        training.optimizer.zero_grad()
        training.model(x).sum().backward()
        training.optimizer.step()
    training.steps()


@built
def a_server_of_files_that_stalls():
    """What is read by a pool of threads comes when the server is back: open() itself does not return."""
    path = healthy.late_fifo()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        odd(lambda: pool.submit(lambda: open(path).read()).result())


@built
def a_training_in_a_thread_of_a_server():
    """The main thread answers requests; one of these lets the training pause, and go on."""
    go_on = threading.Event()

    async def serve():
        loop = asyncio.get_running_loop()
        loop.call_later(SECONDS, go_on.set)
        await loop.run_in_executor(None, lambda: odd(go_on.wait))
        await asyncio.sleep(0)
    asyncio.run(serve())


@built
def gradients_that_a_server_takes():
    """In the backward pass, by a hook: they go to a server by a pool of threads, and the hook waits for its word."""
    port = healthy.slow_server()
    training = healthy.Training()
    training.steps()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        if RANK == 1:
            x = torch.randn(4, 8, requires_grad=True)
            x.register_hook(lambda gradient: pool.submit(healthy.fetch, port).result() and None)
        else:
            x = torch.randn(4, 8)
        training.model(x).sum().backward()
        training.optimizer.step()
    training.steps()


@built
def an_event_of_another_process():
    """multiprocessing.Event, set by a process that is nobody's child, as a scheduler beside the training does."""
    event = multiprocessing.get_context("fork").Event()
    if RANK == 0:
        aside(lambda: (time.sleep(SECONDS), event.set()))
    odd(event.wait)


@built
def trials_in_threads():
    """As Optuna's n_jobs=2: trials of small models beside the training, in threads, and a wait for both of them."""
    def trial(seconds):
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(4)).sum().backward()
            optimizer.step()
            time.sleep(seconds / 5)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        odd(lambda: [done.result() for done in [pool.submit(trial, SECONDS), pool.submit(trial, SECONDS / 2)]])


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(NAMES))
    else:
        torch.set_num_threads(1)
        dict(healthy.PROGRAMS, **{"--judge": judge})[sys.argv[1]]()
        print(f"done rank {RANK}", flush=True)
