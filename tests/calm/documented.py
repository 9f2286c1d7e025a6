#!/usr/bin/env python3
"""documented.py NAME SECONDS: further trainings that are well and look odd, from what documents of libraries show: limits
that end a wait and are caught, files that are locked, remote calls, hooks of communication, loaders with limits, launchers.
--list: all names.
"""

import asyncio
import concurrent.futures
import contextlib
import datetime
import http.server
import itertools
import multiprocessing
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

import healthy
from healthy import RANK, SECONDS, SHORT_S, STEPS, WORLD, aside, odd, program

NAMES = []
SHARED = os.path.join(tempfile.gettempdir(), f"calm-{os.environ.get('MASTER_PORT', '0')}")

if sys.argv[1:2] != ["--list"]:
    import torch
    import torch.distributed as dist


def documented(function):
    NAMES.append(function.__name__)
    return program(function)


# ---- limits that are meant ----

def given_up(wait):
    """A wait in PyTorch that is to end by its limit, in a group of its own; what it raises is caught."""
    training = healthy.Training()
    side = dist.new_group(timeout=datetime.timedelta(seconds=SECONDS))
    training.steps()
    if RANK == 1:
        with contextlib.suppress(RuntimeError):
            wait(side)
            print("nobody was expected there", flush=True)
            os._exit(1)
    training.steps()


@documented
def a_barrier_that_is_given_up():
    """Who is there? A barrier in a group with a limit, which the others have no time for."""
    given_up(lambda side: dist.barrier(group=side))


@documented
def a_message_that_is_given_up():
    """irecv() and wait() with a limit: nothing has come, and it goes on without."""
    given_up(lambda side: dist.irecv(torch.empty(8), 0, group=side).wait(datetime.timedelta(seconds=SECONDS)))


@documented
def a_missing_rank_that_is_told_and_forgiven():
    """monitored_barrier() tells who is missing; rank 0 goes on without it."""
    training = healthy.Training()
    side = dist.new_group()
    training.steps()
    if RANK == 0:
        with contextlib.suppress(RuntimeError):
            dist.monitored_barrier(side, datetime.timedelta(seconds=SECONDS))
    training.steps()


@documented
def a_key_that_is_given_up():
    """store.wait() with a limit, by a thread of a pool, again and again."""
    training = healthy.Training()
    training.steps()
    store = dist.distributed_c10d._get_default_store()

    def ask():
        with contextlib.suppress(RuntimeError):
            store.wait(["nobody writes it"], datetime.timedelta(seconds=SECONDS / 2))
    if RANK == 1:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for _ in range(2):
                pool.submit(ask).result()
    training.steps()


# ---- files ----

@documented
def a_lock_file_of_the_first():
    """filelock, as Hugging Face's hub and datasets have it: who comes first downloads, the others wait for the lock."""
    filelock = healthy.need("filelock")
    port = healthy.slow_server()
    training = healthy.Training()
    training.steps()
    dist.barrier()
    time.sleep(0 if RANK == 0 else 1)
    with filelock.FileLock(SHARED + ".lock"):
        if not os.path.exists(SHARED + ".data"):
            healthy.fetch(port)
            open(SHARED + ".data", "w").close()
    training.steps()


@documented
def a_folder_that_is_watched():
    """inotify by a thread, as watchdog does it; the program waits for what the thread sees."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tempfile.mkdtemp()

    def wait():
        seen, watch = threading.Event(), libc.inotify_init1(0)
        libc.inotify_add_watch(watch, folder.encode(), 0x100)  # IN_CREATE
        threading.Thread(target=lambda: (os.read(watch, 4096), seen.set()), daemon=True).start()
        aside(lambda: (time.sleep(SECONDS), open(os.path.join(folder, "go"), "w").close()))
        seen.wait()
    odd(wait)


@documented
def a_mapped_dataset_on_a_slow_disk():
    """A thread reads ahead of the training from a map whose file is slow to read, and hands over by a queue of one."""
    path = healthy.late_fifo(bytes(4096))
    ahead = queue.Queue(maxsize=1)

    def read():
        for i in range(2 * STEPS):
            ahead.put(open(path, "rb").read() if i == STEPS and RANK == 0 else bytes(4096))
    threading.Thread(target=read, daemon=True).start()
    training = healthy.Training()
    for _ in range(2 * STEPS):
        ahead.get()
        training.step()


# ---- loaders ----

@documented
def workers_with_a_limit():
    """DataLoader(timeout=...), workers that stay, and a batch that takes most of that time."""
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, i):
            time.sleep(SECONDS if i == 12 and RANK == 1 else SHORT_S)
            return torch.ones(8)
    training = healthy.Training()
    loader = torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=2, persistent_workers=True, timeout=3 * SECONDS)
    for x in loader:
        training.optimizer.zero_grad()
        training.model(x).sum().backward()
        training.optimizer.step()


@documented
def samples_of_an_asynchronous_source():
    """An IterableDataset whose iterator asks a server by asyncio in a thread of its own, as WebDataset's kin do."""
    port = healthy.slow_server()

    class Source(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield from itertools.repeat(torch.ones(8), STEPS)
            if RANK == 0:
                healthy.asyncio_fetch(port)
            yield from itertools.repeat(torch.ones(8), STEPS)
    training = healthy.Training()
    for x in torch.utils.data.DataLoader(Source(), batch_size=1):
        time.sleep(SHORT_S)
        training.optimizer.zero_grad()
        training.model(x).sum().backward()
        training.optimizer.step()


@documented
def environments_in_processes():
    """As Gymnasium's AsyncVectorEnv: pipes to processes, and multiprocessing.connection.wait() for whichever answers."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(3)]

    def play(i, end):
        for step in range(2):
            end.recv()
            time.sleep(SECONDS * (i + 1) / 6)
            end.send(step)
    for i, (_, end) in enumerate(pipes):
        context.Process(target=play, args=(i, end), daemon=True).start()

    def rollout():
        for _ in range(2):
            for ours, _ in pipes:
                ours.send("step")
            waiting = [ours for ours, _ in pipes]
            while waiting:
                for ready in multiprocessing.connection.wait(waiting):
                    ready.recv()
                    waiting.remove(ready)
    odd(rollout)


# ---- remote calls ----

def remote():
    if not hasattr(dist, "rpc") or not dist.rpc.is_available():
        print("torch.distributed.rpc is not here: this build has none", flush=True)
        os._exit(77)
    training = healthy.Training()
    dist.rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=WORLD)
    training.steps()
    return training


@documented
def remote_calls_that_wait_for_a_thread():
    """rpc_async() and wait_all(); what is called waits for a timer of its own."""
    training = remote()
    if RANK == 1:
        calls = [dist.rpc.rpc_async("worker0", late, args=(SECONDS,), timeout=0) for _ in range(2)]
        torch.futures.wait_all(calls)
    training.steps()
    dist.rpc.shutdown()


def late(seconds):
    event = threading.Event()
    threading.Timer(seconds, event.set).start()
    event.wait()
    return 1


@documented
def a_hook_of_communication():
    """DDP's register_comm_hook(): a future that a thread completes when it is there."""
    training = healthy.Training()
    training.steps()
    once = [RANK == 1]

    def hook(_, bucket):
        done = torch.futures.Future()
        reduced = dist.all_reduce(bucket.buffer() / WORLD, async_op=True)

        def finish(seconds):
            time.sleep(seconds)
            reduced.wait()
            done.set_result(bucket.buffer())
        threading.Thread(target=finish, args=(SECONDS if once[0] else 0,)).start()
        once[0] = False
        return done
    training.model.register_comm_hook(None, hook)
    training.steps()


@documented
def a_server_of_asyncio_for_scores():
    """grpc.aio: a server and its caller in one loop of a thread; the training waits for the caller's future."""
    grpc = healthy.need("grpc")

    class Scores(grpc.GenericRpcHandler):
        def service(self, details):
            async def score(request, context):
                await asyncio.sleep(SECONDS)
                return request
            return grpc.unary_unary_rpc_method_handler(score)

    async def ask():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Scores(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary("/calm/score")(b"x")
        await server.stop(0)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    odd(lambda: asyncio.run_coroutine_threadsafe(ask(), loop).result())


@documented
def a_page_that_shows_the_training():
    """http.server in a thread, and somebody who presses "go on"."""
    go_on = threading.Event()

    class Page(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            go_on.set()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def press():
        import urllib.request
        time.sleep(SECONDS)
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{server.server_port}/", b"", method="POST"))
    if RANK == 0:
        aside(press)
    odd(go_on.wait)


# ---- launchers, signals, shells ----

@documented
def a_script_that_waits_for_all():
    """rank & rank & wait: a shell is the launcher, and one of its ranks evaluates when the other is done."""
    if RANK == 0:
        port = str(healthy.free_port())
        line = "for rank in 0 1; do RANK=$rank python3 $0 one_is_done_first $1 & done; wait"
        line = line.replace("python3", sys.executable)
        env = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE="False")
        subprocess.run(["sh", "-c", line, healthy.__file__, str(SECONDS)], env=env, check=True)


@documented
def an_evaluation_by_a_script():
    """A pipe of programs by a pool of threads, as harnesses are run for a checkpoint."""
    line = f"(sleep {SECONDS}; echo 0.5) | cat & wait"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        odd(lambda: pool.submit(subprocess.check_output, ["sh", "-c", line]).result())


@documented
def a_checkpoint_on_a_signal():
    """As submitit: SIGUSR2, and a thread that sends what is saved to a server; the loop waits for it."""
    asked, port = threading.Event(), healthy.slow_server()
    signal.signal(signal.SIGUSR2, lambda *_: asked.set())
    training = healthy.Training()
    training.steps()
    if RANK == 0:
        os.kill(os.getpid(), signal.SIGUSR2)
        asked.wait()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(healthy.fetch, port).result()
    training.steps()


@documented
def a_lock_of_a_service():
    """As with redis or etcd: asked for again and again by a thread, which signals the program through a pipe of its own."""
    def wait():
        ours, theirs = os.pipe()
        port = healthy.slow_server()
        threading.Thread(target=lambda: (healthy.fetch(port), os.write(theirs, b"x")), daemon=True).start()
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        poll.poll()
    odd(wait)


@documented
def a_proxy_of_a_manager():
    """multiprocessing.Manager().Event(), which another process sets; asked by a thread, as libraries of sweeps do."""
    def wait():
        context = multiprocessing.get_context("fork")
        with context.Manager() as manager, concurrent.futures.ThreadPoolExecutor(1) as pool:
            event = manager.Event()
            context.Process(target=lambda: (time.sleep(SECONDS), event.set())).start()
            pool.submit(event.wait).result()
    odd(wait)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(NAMES))
    else:
        torch.set_num_threads(1)
        healthy.PROGRAMS[sys.argv[1]]()
        print(f"done rank {RANK}", flush=True)
