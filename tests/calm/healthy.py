#!/usr/bin/env python3
"""healthy.py NAME SECONDS: a training of two ranks over gloo that is well and looks odd, written as the documents of the
libraries that it stands for show it. Each does what could be taken for a hang for SECONDS, between steps like any others.
--list: all names.

A program that needs a package which is not here ends with status 77; calm.py counts it as skipped.
"""

import asyncio
import concurrent.futures
import contextlib
import fcntl
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 45
STEPS = 30  # before and after what is odd
SHORT_S = 0.05
PROGRAMS = {}

if sys.argv[1:2] != ["--list"]:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def need(module):
    try:
        return __import__(module)
    except Exception as e:
        print(f"{module} is not here: {e}", flush=True)
        os._exit(77)


# ---- what they share ----

class Training:
    def __init__(self, ddp=True, model=None, optimizer=None):
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        torch.manual_seed(1)
        model = model or torch.nn.Linear(8, 8)
        self.model = DistributedDataParallel(model) if ddp else model
        self.optimizer = (optimizer or torch.optim.SGD)(self.model.parameters(), lr=0.01)

    def loss(self):
        return self.model(torch.randn(4, 8)).sum()

    def step(self, pause=SHORT_S):
        time.sleep(pause)
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def steps(self, count=STEPS, pause=SHORT_S):
        for _ in range(count):
            self.step(pause)


def odd(what, who=(0,), **options):
    """Steps, what is odd on some ranks while the others go on to the next backward pass, and steps."""
    training = Training(**options)
    training.steps()
    if RANK in who:
        what()
    training.steps()


def aside(function):
    """A process that is nobody's child: a server on another machine, a person at a terminal."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for name in ("RANK", "MUSTER_RANKS_DIR"):
                os.environ.pop(name, None)
            try:
                function()
            finally:
                os._exit(0)
        os._exit(0)
    os.wait()


def slow_server(answer=b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"):
    """The port of a server that takes SECONDS for its answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)

    def serve():
        peer, _ = listener.accept()
        peer.recv(4096)
        time.sleep(SECONDS)
        peer.sendall(answer)
        peer.close()
    aside(serve)
    return listener.getsockname()[1]


def fetch(port):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1000).read()


def compute(seconds=None):
    end, x = time.monotonic() + (seconds or SECONDS), torch.randn(64, 64)
    while time.monotonic() < end:
        x = (x @ x).clamp(-1, 1)


def late_fifo(text=b"go\n"):
    path = os.path.join(tempfile.mkdtemp(), "fifo")
    os.mkfifo(path)

    def write():
        time.sleep(SECONDS)
        with open(path, "wb") as f:
            f.write(text)
    aside(write)
    return path


# ---- steps ----

@program
def accumulation():
    """PyTorch's no_sync(): one step of many micro-batches."""
    training = Training()
    training.steps()
    with training.model.no_sync():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(0.5)
            training.loss().backward()
    training.steps()


@program
def steps_differ_a_hundredfold():
    training, chance = Training(), random.Random(RANK)
    for _ in range(STEPS):
        training.step(0.02 * chance.choice([1, 1, 1, 3, 10, 100]))


@program
def passes_without_a_step():
    """As Lightning's lr_find and gradient surgery do: backward passes, no optimizer."""
    training = Training()
    training.steps()
    for _ in range(int(SECONDS)):
        time.sleep(1)
        training.loss().backward()
    training.steps()


@program
def lbfgs():
    """A closure that is called many times in a step."""
    training = Training(optimizer=torch.optim.LBFGS)
    for _ in range(4):
        def closure():
            time.sleep(SECONDS / 200)
            training.optimizer.zero_grad()
            loss = training.loss()
            loss.backward()
            return loss
        training.optimizer.step(closure)


@program
def gan():
    """Two models, two optimizers, one trained ten times as often."""
    first, second = Training(), Training()
    for i in range(3):
        first.steps(10)
        second.step(SECONDS / 10)


@program
def gradient_checkpointing():
    from torch.utils.checkpoint import checkpoint
    training = Training()
    inner = torch.nn.Linear(8, 8)
    for _ in range(STEPS):
        x = torch.randn(4, 8, requires_grad=True)
        training.optimizer.zero_grad()
        training.model(checkpoint(inner, x, **({} if torch.__version__ < "2" else {"use_reentrant": True}))).sum().backward()
        training.optimizer.step()


class Idle:
    """A backward pass in which the host does nothing: an accelerator works."""

    @staticmethod
    def layer(seconds):
        class Wait(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                time.sleep(seconds)
                return grad
        return Wait.apply


@program
def backward_on_an_accelerator():
    training = Training()
    training.steps()
    wait = Idle.layer(SECONDS if RANK == 1 else 0)
    training.model(wait(torch.randn(4, 8, requires_grad=True))).sum().backward()
    training.optimizer.step()
    training.steps()


@program
def first_compilation():
    """torch.compile's first call is long; compilers are processes of their own."""
    training = Training()
    training.step()
    end = time.monotonic() + SECONDS
    if hasattr(torch, "compile"):
        with contextlib.suppress(Exception):
            torch.compile(torch.nn.GELU())(torch.ones(3))
    while time.monotonic() < end:
        subprocess.run(["cc", "-x", "c", "-O2", "-c", "-o", "/dev/null", "-"], input=b"int f(int x) { return x * x; }\n" * 1)
    training.steps()


# ---- evaluation, checkpoints, data ----

@program
def evaluation_by_all():
    odd(compute, who=(0, 1))


@program
def evaluation_by_one():
    odd(compute)


@program
def evaluation_by_a_server():
    port = slow_server()
    odd(lambda: fetch(port))


@program
def rewards_by_a_server_in_threads():
    """As RLHF loops score their samples: futures of a pool."""
    ports = [slow_server() for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        odd(lambda: [f.result() for f in [pool.submit(fetch, port) for port in ports]])


@program
def evaluation_in_a_process():
    odd(lambda: subprocess.run(["sleep", str(SECONDS)], check=True))


@program
def preparation_in_a_pool():
    import multiprocessing
    odd(lambda: multiprocessing.get_context("fork").Pool(1).map(time.sleep, [SECONDS]))


@program
def checkpoint_to_a_slow_disk():
    class Slow:
        def write(self, data):
            time.sleep(SECONDS / 20)
            return len(data)

        def flush(self):
            pass
    odd(lambda: torch.save({"a": torch.ones(1 << 20), "b": torch.ones(1 << 20)}, Slow()))


@program
def checkpoint_in_a_thread():
    """The next one waits for the last one to be written."""
    def save():
        time.sleep(SECONDS)
        torch.save({"a": 1}, os.path.join(tempfile.mkdtemp(), "a.pt"))

    def wait():
        thread = threading.Thread(target=save)
        thread.start()
        thread.join()
    odd(wait)


@program
def upload_at_every_checkpoint():
    """What was restarted until the job had failed: a long pause, again and again."""
    training = Training()
    for _ in range(2):
        training.steps(20)
        if RANK == 0:
            asyncio_fetch(slow_server())
    training.steps()


@program
def download_by_the_first():
    """The others wait in a barrier, as Hugging Face's main_process_first() has them."""
    port = slow_server()
    training = Training()
    training.steps()
    if RANK == 0:
        fetch(port)
    dist.barrier()
    training.steps()


@program
def a_file_that_appears_later():
    path = os.path.join(tempfile.gettempdir(), f"calm-{os.environ.get('MASTER_PORT', '0')}")

    def wait():
        while not os.path.exists(path):
            time.sleep(1)
    if RANK == 0:
        aside(lambda: (time.sleep(SECONDS), open(path, "w").close()))
    odd(wait, who=(0, 1))


@program
def a_file_that_is_locked():
    path = os.path.join(tempfile.gettempdir(), f"calm-lock-{os.environ.get('MASTER_PORT', '0')}")

    def hold():
        with open(path, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            time.sleep(SECONDS)
    if RANK == 0:
        aside(hold)
    training = Training()
    training.steps()
    if RANK == 1:
        with open(path, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
    training.steps()


@program
def workers_that_load_slowly():
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            time.sleep(SECONDS if i == 10 else SHORT_S)
            return torch.ones(8)
    training = Training()
    for x in DataLoader(Slow(), batch_size=1, num_workers=1):
        training.optimizer.zero_grad()
        training.model(x).sum().backward()
        training.optimizer.step()
    training.steps()


# ---- threads that wait for the network or a timer ----

def asyncio_fetch(port):
    """As fsspec, s3fs, gcsfs do it: a loop in a thread, and the caller waits for a future without a limit."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        return await reader.read()
    answer = asyncio.run_coroutine_threadsafe(ask(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    return answer


@program
def asyncio_in_a_thread():
    port = slow_server()
    odd(lambda: asyncio_fetch(port))


@program
def asyncio_timer_in_a_thread():
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    odd(lambda: asyncio.run_coroutine_threadsafe(asyncio.sleep(SECONDS), loop).result())


@program
def fsspec_over_http():
    fsspec = need("fsspec")
    need("aiohttp")
    port = slow_server()
    odd(lambda: fsspec.filesystem("http").cat(f"http://127.0.0.1:{port}/"))


@program
def grpc_in_a_thread():
    """A channel that is not ready yet: its poller is a thread of C."""
    grpc = need("grpc")

    def wait():
        try:
            grpc.channel_ready_future(grpc.insecure_channel("127.0.0.1:1")).result(timeout=SECONDS)
        except grpc.FutureTimeoutError:
            pass
    odd(wait)


@program
def event_with_a_limit():
    odd(lambda: threading.Event().wait(SECONDS))


@program
def event_of_a_timer():
    def wait():
        event = threading.Event()
        threading.Timer(SECONDS, event.set).start()
        event.wait()
    odd(wait)


@program
def queue_of_a_slow_producer():
    def wait():
        items = queue.Queue()
        port = slow_server()
        threading.Thread(target=lambda: items.put(fetch(port)), daemon=True).start()
        items.get()
    odd(wait)


@program
def condition_with_a_heartbeat():
    def wait():
        end, event = time.monotonic() + SECONDS, threading.Event()
        while time.monotonic() < end:
            event.wait(1)
    odd(wait)


# ---- other shapes than DDP ----

@program
def pipeline():
    """Two stages: what one does in its backward pass the other waits for in recv()."""
    stages(1)


@program
def pipeline_with_micro_batches():
    stages(4)


def stages(micro):
    training = Training(ddp=False)
    for i in range(20):
        wait = Idle.layer(SECONDS / micro if i == 12 else SHORT_S)
        training.optimizer.zero_grad()
        for _ in range(micro):
            if RANK == 0:
                out = training.model(torch.randn(4, 8))
                dist.send(out.detach(), 1)
                grad = torch.empty(4, 8)
                dist.recv(grad, 1)
                out.backward(grad)
            elif RANK == 1:
                x = torch.empty(4, 8)
                dist.recv(x, 0)
                x.requires_grad_()
                training.model(wait(x)).sum().backward()
                dist.send(x.grad, 0)
        training.optimizer.step()


@program
def parameter_server():
    training = Training(ddp=False)
    for i in range(20):
        if RANK == 0:
            for p in training.model.parameters():
                p.grad = torch.empty_like(p)
                dist.recv(p.grad, 1)
            training.optimizer.step()
            for p in training.model.parameters():
                dist.send(p.data, 1)
        elif RANK == 1:
            time.sleep(SECONDS if i == 12 else SHORT_S)
            training.optimizer.zero_grad()
            training.loss().backward()
            for p in training.model.parameters():
                dist.send(p.grad, 0)
            for p in training.model.parameters():
                dist.recv(p.data, 0)
            training.optimizer.step()


@program
def actor_and_learner():
    """The learner waits for what the actor plays, which waits for its environment."""
    training = Training(ddp=False)
    for i in range(20):
        if RANK == 1:
            time.sleep(SECONDS if i == 12 else SHORT_S)
            dist.send(torch.randn(4, 8), 0)
            training.step(0)
        elif RANK == 0:
            x = torch.empty(4, 8)
            dist.recv(x, 1)
            training.step(0)


@program
def expert_parallel():
    """Tokens go to experts on other ranks, and one has more of them than others."""
    training = Training(ddp=False)
    for i in range(STEPS):
        parts = [torch.empty(4, 8) for _ in range(WORLD)]
        dist.all_gather(parts, torch.randn(4, 8))
        if i == 15 and RANK == 1:
            compute()
        training.step()
        for p in training.model.parameters():
            dist.all_reduce(p.grad)


@program
def gradients_averaged_by_hand():
    training = Training(ddp=False)
    for i in range(STEPS):
        training.optimizer.zero_grad()
        training.loss().backward()
        if i == 15 and RANK == 0:
            time.sleep(SECONDS)
        for p in training.model.parameters():
            dist.all_reduce(p.grad)
        training.optimizer.step()


@program
def objects_broadcast():
    def slow():
        time.sleep(SECONDS)
        return [1]
    training = Training()
    training.steps()
    things = [slow() if RANK == 0 else None]
    dist.broadcast_object_list(things)
    training.steps()


@program
def a_key_of_the_store():
    training = Training()
    training.steps()
    store = dist.distributed_c10d._get_default_store()
    if RANK == 0:
        time.sleep(SECONDS)
        store.set("calm", "1")
    store.get("calm")
    training.steps()


@program
def trainings_one_after_another():
    """A search for hyperparameters: each with its own model and optimizer, and a pause for thought."""
    for _ in range(3):
        Training().steps(15)
        time.sleep(SECONDS / 3)


@program
def ranks_by_spawn():
    """torch.multiprocessing.spawn beneath one process that has RANK=0."""
    if RANK == 0:
        os.environ["CALM_PORT"] = str(free_port())
        os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # else nobody makes the store: torchrun's is another one
        import torch.multiprocessing as mp
        mp.spawn(spawned, nprocs=2)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def spawned(rank):
    global RANK
    RANK = rank
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method="tcp://127.0.0.1:" + os.environ["CALM_PORT"])
    odd(lambda: threading.Event().wait(SECONDS))


@program
def one_is_done_first():
    """A launcher waits for its ranks in order; one of them evaluates to the end."""
    training = Training()
    training.steps()
    dist.barrier()
    if RANK == 0:
        dist.destroy_process_group()
        compute()


@program
def launcher_that_waits_in_order():
    """[p.wait() for p in ps]: who is done first is a zombie until the other one is."""
    if RANK == 0:
        port = str(free_port())
        ps = [subprocess.Popen([sys.executable, __file__, "one_is_done_first", str(SECONDS)],
                               env=dict(os.environ, RANK=str(i), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                        TORCHELASTIC_USE_AGENT_STORE="False")) for i in range(2)]
        sys.exit(max(p.wait() for p in ps))


# ---- people ----

@program
def notebook():
    """Cells, and a person who reads in between."""
    path = late_fifo(b"training.steps()\n")
    training = Training()
    training.steps()
    if RANK == 0:
        with open(path) as f:
            f.read()
    training.steps()


@program
def debugger_at_a_breakpoint():
    """pdb waits for a line of its terminal."""
    path = late_fifo(b"c\n")

    def stop():
        import pdb
        with open(path) as f, open(os.devnull, "w") as out:
            pdb.Pdb(stdin=f, stdout=out, nosigint=True, readrc=False).set_trace()
            time.sleep(0)
    odd(stop)


@program
def stopped_by_hand():
    """Twenty seconds of kill -STOP, and kill -CONT."""
    pid = os.getpid()

    def hold():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(20)
        os.kill(pid, signal.SIGCONT)
    odd(lambda: (aside(hold), time.sleep(2)))


# ---- the libraries themselves ----

@program
def hugging_face_trainer():
    transformers = need("transformers")
    from torch.utils.data import Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 160

        def __getitem__(self, i):
            return {"x": torch.ones(8), "labels": torch.zeros(1)}

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x, labels):
            return {"loss": (self.layer(x) - labels).pow(2).mean()}

    class Pause(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            time.sleep(SECONDS if state.global_step == 20 and RANK == 0 else SHORT_S)
    args = transformers.TrainingArguments(tempfile.mkdtemp(), per_device_train_batch_size=2, max_steps=40, use_cpu=True,
                                          report_to=[], save_strategy="no", disable_tqdm=True)
    transformers.Trainer(Small(), args, train_dataset=Numbers(), callbacks=[Pause()]).train()


@program
def lightning():
    pl = need("lightning").pytorch

    class Small(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def training_step(self, batch, i):
            time.sleep(SHORT_S)
            return self.layer(batch).pow(2).mean()

        def on_train_epoch_end(self):
            if self.global_rank == 0:
                threading.Event().wait(SECONDS)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)
    data = torch.utils.data.DataLoader(torch.ones(80, 8), batch_size=2)
    pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
               enable_progress_bar=False).fit(Small(), data)


@program
def accelerate():
    accelerator = need("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = torch.nn.Linear(8, 8)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for i in range(160):
        with accelerator.accumulate(model):
            time.sleep(SHORT_S / 2)
            accelerator.backward(model(torch.randn(4, 8)).sum())
            optimizer.step()
            optimizer.zero_grad()
        if i == 80:
            with accelerator.main_process_first():
                time.sleep(SECONDS if accelerator.is_main_process else 0)


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(PROGRAMS))
    else:
        torch.set_num_threads(1)
        PROGRAMS[sys.argv[1]]()
        print(f"done rank {RANK}", flush=True)
