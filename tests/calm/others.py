#!/usr/bin/env python3
"""others.py NAME SECONDS: more trainings that are well and look odd, from what people do around the libraries: other processes,
files, signals, tools, engines that sample, and what a cluster does to a job (calm.py changes the jobs of the last two while they
run). --list: all names.
"""

import asyncio
import concurrent.futures
import ctypes
import datetime
import fcntl
import mmap
import multiprocessing
import os
import pty
import queue
import sched
import signal
import socket
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


def other(function):
    NAMES.append(function.__name__)
    return program(function)


# ---- processes ----

@other
def actors_over_sockets():
    """As Ray's: processes with a mailbox each; the driver waits for what they answer, without a limit."""
    ours, theirs = zip(*[socket.socketpair() for _ in range(3)])
    for i, end in enumerate(theirs):
        aside(lambda i=i, end=end: (end.recv(16), time.sleep(SECONDS * (i + 1) / 3), end.send(b"done")))

    def ask():
        for end in ours:
            end.send(b"go")
        for end in ours:
            end.recv(16)
    odd(ask)


@other
def frames_of_a_decoder():
    """As ffmpeg is used: a child writes frames to a pipe, and the first one takes long."""
    def read():
        child = subprocess.Popen(["sh", "-c", f"sleep {SECONDS}; head -c 1000000 /dev/zero"], stdout=subprocess.PIPE)
        while child.stdout.read(65536):
            pass
        child.wait()
    odd(read)


@other
def a_queue_of_a_process():
    """torch.multiprocessing: what a child has put into a queue."""
    def wait():
        items = multiprocessing.get_context("fork").Queue()
        child = multiprocessing.get_context("fork").Process(target=lambda: (time.sleep(SECONDS), items.put(1)))
        child.start()
        items.get()
        child.join()
    odd(wait)


@other
def rewards_over_queues_of_tensors():
    """torch.multiprocessing, as its documents show it: a server that is spawned, and asked without a limit."""
    ask, answer = (torch.multiprocessing.get_context("spawn").Queue() for _ in range(2))
    if RANK == 0:
        os.environ.pop("RANK")
        server = torch.multiprocessing.get_context("spawn").Process(target=rewards, args=(ask, answer, SECONDS), daemon=True)
        server.start()
        os.environ["RANK"] = "0"

    def score():
        ask.put(torch.ones(4))
        answer.get().sum().item()
    odd(score)


def rewards(ask, answer, seconds):
    words = ask.get()
    time.sleep(seconds)
    answer.put(words * 2)
    time.sleep(seconds)  # what it has put is its own until it was taken


@other
def uploads_of_a_pool():
    """concurrent.futures: what two threads send, and whoever takes it takes its time; result() has no limit."""
    def upload(listener):
        with socket.create_connection(listener.getsockname()) as peer:
            peer.sendall(bytes(1 << 20))
            peer.recv(16)

    def take(listener):
        peer, _ = listener.accept()
        left = 1 << 20
        while left:
            left -= len(peer.recv(65536))
        time.sleep(SECONDS)
        peer.send(b"200 OK")

    def send():
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for listener in listeners:
            aside(lambda listener=listener: take(listener))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(upload, listener) for listener in listeners]:
                done.result()
    odd(send)


@other
def a_barrier_of_keys_while_one_computes():
    """A store of its own, as a library's barrier has it, with a long limit; who comes last uses its CPU for that long."""
    training = healthy.Training()
    training.steps()
    port = training_port()
    store = dist.TCPStore("127.0.0.1", port, WORLD, RANK == 0, timeout=datetime.timedelta(minutes=30))
    if RANK == 0:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    store.set(f"here-{RANK}", "1")
    store.wait([f"here-{rank}" for rank in range(WORLD)], datetime.timedelta(minutes=10))
    training.steps()


def training_port():
    """A port that is free at rank 0, known to all."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = torch.tensor([taken.getsockname()[1]])
    dist.broadcast(port, 0)
    return int(port)


@other
def workers_that_stay():
    """persistent_workers and prefetch: an epoch begins with a long look at the disk."""
    class Epochs(torch.utils.data.Dataset):
        seen = 0

        def __len__(self):
            return 20

        def __getitem__(self, i):
            self.seen += 1
            time.sleep(SECONDS if self.seen == 11 and RANK == 0 else SHORT_S)
            return torch.ones(8)
    training = healthy.Training()
    loader = torch.utils.data.DataLoader(Epochs(), batch_size=1, num_workers=2, persistent_workers=True, prefetch_factor=4)
    for _ in range(2):
        for x in loader:
            training.optimizer.zero_grad()
            training.model(x).sum().backward()
            training.optimizer.step()


@other
def remote_procedure_calls():
    """torch.distributed.rpc beside DDP."""
    if not hasattr(dist, "rpc") or not dist.rpc.is_available():
        print("torch.distributed.rpc is not here: this build has none", flush=True)
        os._exit(77)
    training = healthy.Training()
    dist.rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=WORLD)
    training.steps()
    if RANK == 0:
        dist.rpc.rpc_sync("worker1", time.sleep, args=(SECONDS,), timeout=0)
    training.steps()
    dist.rpc.shutdown()


# ---- files ----

@other
def pages_of_a_mapped_file():
    """A page of a file that is far away, now and then."""
    with tempfile.TemporaryFile() as f:
        f.truncate(64 * mmap.PAGESIZE)
        pages = mmap.mmap(f.fileno(), 0)

        def read():
            for i in range(20):
                time.sleep(SECONDS / 20)
                pages[i * mmap.PAGESIZE] = pages[(i + 1) * mmap.PAGESIZE]
        odd(read)


@other
def ranks_that_lock_a_file_in_turn():
    """Who comes first prepares the data; the others wait for the lock and find it done."""
    def prepare():
        with open(SHARED + "-turn", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            if not os.path.exists(SHARED + "-made"):
                open(SHARED + "-made", "w").close()
                time.sleep(SECONDS)
    odd(prepare, who=(0, 1))


@other
def a_barrier_of_files():
    """As scripts for MPI have it: a file a rank, and a look at the folder every few seconds."""
    training = healthy.Training()
    training.steps()
    time.sleep(SECONDS if RANK == 0 else 0)
    open(f"{SHARED}-here-{RANK}", "w").close()
    while not all(os.path.exists(f"{SHARED}-here-{rank}") for rank in range(WORLD)):
        time.sleep(2)
    training.steps()


@other
def a_queue_of_checkpoints():
    """A thread writes what it is given, one at a time; the training waits where that is too slow."""
    todo = queue.Queue(maxsize=1)

    def write():
        while True:
            state = todo.get()
            time.sleep(SECONDS / 2)
            torch.save(state, os.path.join(tempfile.gettempdir(), f"calm-{os.getpid()}.pt"))
            todo.task_done()
    threading.Thread(target=write, daemon=True).start()

    def save():
        for i in range(3):
            todo.put({"step": i})
        todo.join()
    odd(save)


# ---- time ----

@other
def a_rate_limit():
    """All ranks ask a service that lets each ask once in so long."""
    odd(lambda: time.sleep(SECONDS), who=(0, 1))


@other
def a_timer_by_signal():
    """setitimer() and a handler: all threads wait for locks without a limit, and the kernel wakes one."""
    def wait():
        event = threading.Event()
        signal.signal(signal.SIGALRM, lambda *_: event.set())
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        event.wait()
    odd(wait)


@other
def a_signal_of_somebody():
    """kill -USR1, as schedulers send it before they take a machine."""
    def wait():
        event, pid = threading.Event(), os.getpid()
        signal.signal(signal.SIGUSR1, lambda *_: event.set())
        aside(lambda: (time.sleep(SECONDS), os.kill(pid, signal.SIGUSR1)))
        event.wait()
    odd(wait)


@other
def stopped_and_continued_again_and_again():
    """As cpulimit does it."""
    pid = os.getpid()

    def limit():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
    if RANK == 0:
        aside(limit)
    training = healthy.Training()
    for _ in range(12):
        healthy.compute(1)
        training.step()


@other
def all_are_stopped_for_a_while():
    """kill -STOP for the whole training, by somebody who needs the machine for a moment."""
    pid = os.getpid()
    training = healthy.Training()
    training.steps()
    dist.barrier()
    aside(lambda: (os.kill(pid, signal.SIGSTOP), time.sleep(SECONDS), os.kill(pid, signal.SIGCONT)))
    time.sleep(2)
    training.steps()


# ---- tools ----

@other
def a_profiler():
    """Some steps are recorded, and what was recorded is written and looked through."""
    training = healthy.Training()
    training.steps()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profiler:
        training.steps(10)
    if RANK == 0:
        profiler.export_chrome_trace(os.path.join(tempfile.mkdtemp(), "trace.json"))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            profiler.key_averages().table()
            time.sleep(1)
    training.steps()


@other
def a_debugger_attached():
    """gdb -p, and a person who looks around."""
    pid, libc = os.getpid(), ctypes.CDLL(None, use_errno=True)
    attach, detach, any_process = 16, 17, 0x59616d61  # of ptrace; PR_SET_PTRACER
    libc.prctl(any_process, ctypes.c_ulong(-1), 0, 0, 0)

    def debug():
        libc.ptrace(attach, pid, None, None)
        os.waitpid(pid, 0x40000000)  # __WALL
        time.sleep(SECONDS)
        libc.ptrace(detach, pid, None, None)
    odd(lambda: (aside(debug), time.sleep(3)))


@other
def one_has_less_to_do():
    """DDP's join(): who is done mirrors the collectives of the others, one of which is slow."""
    training = healthy.Training()
    with training.model.join():
        for i in range(20 if RANK == 0 else 40):
            time.sleep(SECONDS if i == 30 else SHORT_S)
            training.optimizer.zero_grad()
            training.loss().backward()
            training.optimizer.step()


# ---- others that the gang waits for ----

FAR = datetime.timedelta(seconds=4000)


@other
def weights_for_an_engine():
    """As RLHF libraries send them: a group of gloo with an engine that samples, which is none of the gang and is busy."""
    port = healthy.free_port()

    def meet(rank):
        store = dist.TCPStore("127.0.0.1", port, 2, rank == 0, timeout=FAR)
        time.sleep(SECONDS if rank == 1 else 0)
        group = dist.ProcessGroupGloo(dist.PrefixStore("engine", store), rank, 2, timeout=FAR)
        for i in range(3):
            time.sleep(SECONDS if (rank, i) == (1, 1) else 0)
            group.allreduce([torch.ones(8)]).wait()
    if RANK == 0:
        aside(lambda: meet(1))
    odd(lambda: meet(0))


@other
def a_key_that_a_thread_waits_for():
    """Of a store beside the gang's, as a coordinator has one: the program waits for its thread."""
    port = healthy.free_port()

    def coordinate():
        store = dist.TCPStore("127.0.0.1", port, None, True, timeout=FAR, wait_for_workers=False)
        time.sleep(SECONDS)
        store.set("go", "1")
        time.sleep(SECONDS)

    def wait():
        store = dist.TCPStore("127.0.0.1", port, None, False, timeout=FAR, wait_for_workers=False)
        thread = threading.Thread(target=store.get, args=("go",))
        thread.start()
        thread.join()
    if RANK == 0:
        aside(coordinate)
    odd(wait)


@other
def a_barrier_with_a_long_limit():
    """Rank 0 evaluates by a thread, the others wait for it in a barrier that tells who is missing."""
    training = healthy.Training()
    training.steps()
    if RANK == 0:
        thread = threading.Thread(target=time.sleep, args=(SECONDS,))
        thread.start()
        thread.join()
    dist.monitored_barrier(timeout=FAR)
    training.steps()


@other
def a_thread_that_saves_while_others_wait():
    """All gather what is to be saved; rank 0 writes it to a server by a thread of a pool, and the others are in the next step."""
    port = healthy.slow_server()
    training = healthy.Training()
    training.steps()
    parts = [None] * WORLD
    dist.all_gather_object(parts, {"rank": RANK})
    if RANK == 0:
        thread = threading.Thread(target=healthy.fetch, args=(port,), daemon=True)
        thread.start()
        thread.join()
    training.steps()


@other
def a_manager_of_processes():
    """multiprocessing.Manager: a queue in a process of its own, which another fills."""
    def fill(items):
        time.sleep(SECONDS)
        items.put(1)

    def wait():
        context = multiprocessing.get_context("fork")
        with context.Manager() as manager:
            items = manager.Queue()
            context.Process(target=fill, args=(items,)).start()
            items.get()
    odd(wait)


@other
def a_semaphore_of_another_process():
    """A thread waits for one that a process raises which is nobody's child; the program waits for the thread."""
    turn = multiprocessing.get_context("fork").Semaphore(0)
    if RANK == 0:
        aside(lambda: (time.sleep(SECONDS + 5), turn.release()))

    def wait():
        thread = threading.Thread(target=turn.acquire)
        thread.start()
        thread.join()
    odd(wait)


@other
def a_child_that_writes_the_checkpoint():
    """fork() takes a picture of memory; the next checkpoint waits for the last one to be written."""
    def save():
        for _ in range(2):
            child = os.fork()
            if child == 0:
                time.sleep(SECONDS / 2)
                os._exit(0)
            os.waitpid(child, 0)
    odd(save)


@other
def a_line_at_a_terminal():
    """input(), and a person who thinks."""
    person, terminal = pty.openpty()
    if RANK == 0:
        aside(lambda: (time.sleep(SECONDS + 5), os.write(person, b"go on\n"), time.sleep(5)))
    odd(lambda: open(terminal, closefd=False).readline())


@other
def a_pause_until_a_signal():
    def wait():
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.alarm(int(SECONDS))
        signal.pause()
    odd(wait)


@other
def a_pause_until_it_is_continued():
    """As schedulers ask for it: SIGTSTP and SIGCONT, which the program takes for itself, to pause where it likes."""
    def wait():
        goes_on, here = threading.Event(), os.getpid()
        signal.signal(signal.SIGTSTP, lambda *_: goes_on.clear())
        signal.signal(signal.SIGCONT, lambda *_: goes_on.set())
        aside(lambda: (time.sleep(SECONDS), os.kill(here, signal.SIGCONT)))
        goes_on.wait()
    odd(wait)


@other
def settings_that_are_read_again():
    """As daemons do: on SIGHUP."""
    def wait():
        again, here = threading.Event(), os.getpid()
        signal.signal(signal.SIGHUP, lambda *_: again.set())
        aside(lambda: (time.sleep(SECONDS), os.kill(here, signal.SIGHUP)))
        again.wait()
    odd(wait)


@other
def a_timer_of_the_kernel():
    """timerfd, read by a thread."""
    libc = ctypes.CDLL(None, use_errno=True)

    def wait():
        timer = libc.timerfd_create(1, 0)
        libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, int(SECONDS), 0), None)
        thread = threading.Thread(target=os.read, args=(timer, 8))
        thread.start()
        thread.join()
    odd(wait)


@other
def a_plan_of_things_to_do():
    """The module sched, as cron for one process."""
    def wait():
        plan = sched.scheduler(time.monotonic, time.sleep)
        for i in range(3):
            plan.enter(SECONDS * (i + 1) / 3, 1, lambda: None)
        plan.run()
    odd(wait)


@other
def a_loop_of_events_that_trains():
    """asyncio.run() is the program; what is slow is waited for, or runs in a thread."""
    async def wait():
        await asyncio.sleep(SECONDS / 2)
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, SECONDS / 2)
    odd(lambda: asyncio.run(wait()))


@other
def a_disk_that_is_away():
    """A call that the kernel does not come back from, as on a server of files that is rebooted: state D."""
    def read():
        first = (os.POSIX_SPAWN_OPEN, 0, healthy.late_fifo(), os.O_RDONLY, 0)
        os.waitpid(os.posix_spawn("/bin/true", ["true"], dict(os.environ), file_actions=[first]), 0)
    odd(read)


@other
def buffers_that_are_broadcast():
    """Batch norm: ranks meet in the forward pass, too, and one is late for it."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    odd(lambda: threading.Event().wait(SECONDS), who=(1,), model=model)


@other
def steps_without_the_others():
    """Local SGD: each takes steps of its own for a while, and one is slower by far."""
    training = healthy.Training()
    training.steps()
    with training.model.no_sync():
        for _ in range(5):
            training.step(SECONDS / 5 if RANK == 1 else SHORT_S)
    training.steps()


@other
def a_checkpoint_that_is_saved_aside():
    """torch.distributed.checkpoint.async_save, to a storage that is slow; the next one waits for it."""
    healthy.need("torch.distributed.checkpoint")
    import torch.distributed.checkpoint as dcp
    if not hasattr(dcp, "async_save"):
        print("torch.distributed.checkpoint.async_save is not here: this PyTorch is older", flush=True)
        os._exit(77)

    class Slow(dcp.FileSystemWriter):
        def write_data(self, *args, **kwargs):
            time.sleep(SECONDS if RANK == 0 else 0)
            return super().write_data(*args, **kwargs)
    training = healthy.Training()
    training.steps()
    aside_group = dist.new_group()  # its collectives are not to be mixed up with those of the gradients
    saved = dcp.async_save(training.model.state_dict(), storage_writer=Slow(SHARED + "-aside"), process_group=aside_group)
    training.steps()
    saved.result()
    training.steps()


# ---- clusters ----

@other
def suspended_and_resumed():
    """With its pods kept: all of it stands still, and goes on where it was."""
    healthy.Training().steps(8 * STEPS)


@other
def elastic_and_changed():
    """One node less, and one more: torchrun forms its group anew."""
    healthy.Training().steps(10 * STEPS, 0.1)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(NAMES))
    else:
        torch.set_num_threads(1)
        healthy.PROGRAMS[sys.argv[1]]()
        print(f"done rank {RANK}", flush=True)
