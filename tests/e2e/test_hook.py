"""A training that is watched (src/observe/hook.py) behaves as if it were not, and its steps are counted."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from harness import PATIENCE, ROOT, Skip, check, torch_pythons

SITE = "print('the user was here'); import sys; sys.user_was_here = True\n"
# To import torch takes longer than all else: before there is a page, a process may become several ranks.
FORKED = """
import os, sys, torch
def forked(run, *args):
    if os.fork() == 0:
        run(*args)
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0
"""
TRAIN = FORKED + """
assert getattr(sys, 'user_was_here', False) is True
def train():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for _ in range(7):
        optimizer.zero_grad()
        model(torch.ones(4)).sum().backward()
        optimizer.step()
        scheduler.step()
    forked(optimizer.step)  # a child of a rank is not that rank
    print(os.getpid())
pages = os.environ["MUSTER_RANKS_DIR"]
os.rename(pages, pages + "-away")
forked(train)  # where there is no folder for pages it trains as well
os.rename(pages + "-away", pages)
train()
"""

# As much of torch as the hook looks at.
SMALL_TORCH = """
import sys, types
optim = types.ModuleType("torch.optim.optimizer")
class Optimizer: pass
optim.Optimizer = Optimizer
hooks = []
optim.register_optimizer_step_post_hook = hooks.append
sys.modules["torch.optim.optimizer"] = optim
autograd = types.SimpleNamespace(backward=lambda: None)
def save(): pass
"""
FAMILY = """
import importlib.util, subprocess, sys
assert importlib.util.find_spec("torch").loader.is_package("torch")
import torch
assert type(torch.__spec__.loader).__name__ == "SourceFileLoader", torch.__spec__
assert not any(getattr(f, "__name__", "") == "Finder" for f in sys.meta_path), sys.meta_path
torch.optim.Optimizer()
child = "import torch; torch.optim.Optimizer(); [hook() for hook in torch.hooks]"
import os
os.environ["RANK"] = "4"  # another rank, though it is started by this one
subprocess.run([sys.executable, "-c", child], check=True)
for hook in torch.hooks:
    hook()
os.environ["RANK"] = "5"  # this one trains by now: an evaluation with ranks of its own
subprocess.run([sys.executable, "-c", child], check=True)
os.environ["RANK"] = "3"
subprocess.run([sys.executable, "-c", child], check=True)
print(os.getpid())
"""


# Goes on from a checkpoint of five steps, makes five and another checkpoint.
RESUME = """
import os, sys, threading, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
state = optimizer.state_dict()
state["state"] = {i: {"step": torch.tensor(5.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                  for i, p in enumerate(model.parameters())}
with open(sys.argv[1], "wb") as f:
    torch.save(state, f)
with open(sys.argv[1], "rb") as f:
    optimizer.load_state_dict(torch.load(f))
def step():
    optimizer.zero_grad()
    model(torch.ones(4)).sum().backward()
    optimizer.step()
for _ in range(5):
    step()
torch.save(optimizer.state_dict(), sys.argv[1])
try:
    torch.save(optimizer.state_dict(), "/proc/nowhere")  # one that fails is none
except Exception:
    step()
aside = threading.Thread(target=torch.save, args=(1, sys.argv[1] + ".aside"))  # it holds up nobody
aside.start()
aside.join()
torch.load(sys.argv[1] + ".aside")  # as evaluation does
print(os.getpid())
"""


# The own part of a step is at least what it sleeps outside of the backward pass.
OWN = FORKED + """
import time, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def train(rank):
    os.environ["RANK"] = rank
    if rank == "0":
        dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + os.environ["MUSTER_RANKS_DIR"] + "-store")
    model = torch.nn.Linear(4, 4)
    model = DistributedDataParallel(model) if rank == "0" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(26):
        time.sleep(0.03)
        optimizer.zero_grad()
        model(torch.ones(4)).sum().backward()
        optimizer.step()
    print(os.getpid())
forked(train, "0")
train("1")
"""


# What the hook touches (its own head has the list), through pickle, copy, processes of both kinds, and torch.compile.
TOUCHED = """
import concurrent.futures, copy, inspect, io, multiprocessing, os, pickle, sys, torch
from torch.nn.parallel import DistributedDataParallel
import torch.utils.data.dataloader as data
import torch.distributed as dist
FOLDER = sys.argv[1]
names = ["torch.save", "torch.load", "torch.autograd.backward", "torch.Tensor.backward", "torch.optim.Optimizer",
         "torch.optim.Optimizer.__init__", "torch.optim.Optimizer.load_state_dict", "torch.optim.SGD",
         "torch.utils.data.DataLoader", "data._BaseDataLoaderIter",
         "data._BaseDataLoaderIter.__next__",
         "DistributedDataParallel", "DistributedDataParallel.__init__", "torch.serialization.save", "torch.serialization.load",
         "torch.serialization._open_file", "torch.serialization._open_file.__exit__",
         "torch.serialization._open_zipfile_writer_file.__exit__"]
try:
    import torch.distributed.checkpoint as dcp
    names += ["dcp." + name for name in ("save", "async_save", "load", "save_state_dict") if hasattr(dcp, name)]
except ImportError:
    dcp = None

class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.ones(4) * i

def trained():
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x in torch.utils.data.DataLoader(Pairs()):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    return model, optimizer

def total(model):
    return "%.4f" % sum(p.double().sum().item() for p in model.parameters())

def main():
    torch.set_num_threads(1)
    held = {name: eval(name) for name in names}
    model, optimizer = trained()  # by now all that the hook waits for has been there
    for name in names:
        there = eval(name)
        again = pickle.loads(pickle.dumps(there))
        assert there is held[name], name
        assert again is there and copy.deepcopy(there) is there and copy.copy(there) is there, name
        assert "muster" not in there.__module__ and "<locals>" not in there.__qualname__, (name, there.__qualname__)
        assert inspect.signature(there) == inspect.signature(inspect.unwrap(there)), name
    assert torch.save is torch.serialization.save and torch.load is torch.serialization.load
    for f in torch.save, torch.load, getattr(dcp, "save", len), getattr(dcp, "load", len):
        assert "sitecustomize" not in getattr(f, "__code__", main.__code__).co_filename, f
    gloo = getattr(dist, "ProcessGroupGloo", int)
    assert pickle.loads(pickle.dumps(gloo)) is gloo and copy.deepcopy(gloo) is gloo
    class Own(gloo):
        pass
    if gloo is not int:
        own = Own(dist.FileStore(os.path.join(FOLDER, "own"), 1), 0, 1)
        assert type(own) is Own and own.size() == 1 and own.rank() == 0
    for twin in copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer)):
        assert type(twin) is type(optimizer) and len(twin.state) == len(optimizer.state) > 0
    assert total(copy.deepcopy(model)) == total(pickle.loads(pickle.dumps(model))) == total(model)
    memory = io.BytesIO()
    torch.save((model, optimizer), memory)
    multiprocessing.set_forkserver_preload(["torch"])
    for start in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(start)
        path = os.path.join(FOLDER, start)
        with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
            pool.submit(torch.save, {"a": torch.ones(2)}, path).result()
            assert pool.submit(torch.load, path).result()["a"].sum() == 2
        if start == "spawn":
            continue  # each other one imports torch again; a server that forks has done so once, and is as strange to all here
        with context.Pool(1) as pool:
            assert pool.map(torch.load, [path])[0]["a"].sum() == 2
            pool.starmap(torch.save, [([1], path)])
        process = context.Process(target=torch.save, args=([1], path))
        process.start()
        process.join()
        assert process.exitcode == 0 and torch.load(path) == [1]
    compiled(model, optimizer)  # it starts threads, after which nobody should fork
    print("done")

def compiled(model, optimizer):
    if hasattr(torch, "compile"):
        counts = []
        def backend(graph, inputs):
            counts.append(len(graph.graph.nodes))
            return graph.forward
        def step(x):
            model(x).sum().backward()
            return x + 1
        def save(x):
            torch.save(x, io.BytesIO())
            return x * 2
        x = torch.ones(4)
        def graphs():
            del counts[:]
            torch._dynamo.reset()
            for function in step, save, lambda x: (optimizer.step(), x)[1]:
                torch.compile(function, backend=backend)(x)
            return list(counts)
        watched, hooks = graphs(), sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
        assert len(hooks) == 1 and hasattr(torch.autograd.backward, "__wrapped__")
        hooks.clear()
        torch.autograd.backward = torch.autograd.backward.__wrapped__
        assert graphs() == watched, (watched, counts)

if __name__ == "__main__":
    main()
"""
# Ranks that one process starts, as torch.multiprocessing.spawn does where a pod has RANK=0 for all of them.
SPAWN = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def train(rank):
    model = torch.nn.Linear(4, 4)
    if rank:  # it is made before it is known which rank it is of
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method="file://" + sys.argv[1])
    if not rank:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = torch.nn.parallel.DistributedDataParallel(model)
    for _ in range(3):
        model(torch.ones(4)).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


# Groups of a gang, and then one with somebody else, as with an engine that samples, by a store of its own or by the gang's; of
# how many ranks the page says DDP is.
GROUPS = FORKED + """
import struct, torch.distributed as dist
pages = os.environ["MUSTER_RANKS_DIR"]
def world():
    (page,) = [name for name in os.listdir(pages) if name.endswith("-%d" % os.getpid())]
    with open(os.path.join(pages, page), "rb") as f:
        return struct.unpack("20Q", f.read(160))[18]
def ddp():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    torch.optim.SGD(model.parameters(), lr=0.1)
def train(whose):
    def store(name):
        return dist.PrefixStore("any", dist.FileStore(pages + whose + name, 1))
    gang = store("-gang")
    dist.init_process_group("gloo", rank=0, world_size=1, store=gang)
    ddp()
    dist.new_group()
    before = world()
    if whose == "own":
        made = {"__name__": "torch.distributed.distributed_c10d", "make": dist.ProcessGroupGloo, "store": store("-engine")}
        exec("group = make(store, 0, 1)", made)  # as its new_group() does it
        group = made["group"]
    else:
        group = dist.ProcessGroupGloo(dist.PrefixStore("engine", gang), 0, 1)
    group.allreduce([torch.ones(1)]).wait()
    after = world()
    ddp()
    print(whose, before, after, world())
forked(train, "own")
train("shared")
"""


class Hook:
    """hook.py as pods have it: a folder at the front of PYTHONPATH, and one for pages."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="muster-hook-")
        for name in ("hook", "user", "ranks"):
            os.mkdir(os.path.join(self.folder, name))
        shutil.copy(os.path.join(ROOT, "src/observe/hook.py"), os.path.join(self.folder, "hook/sitecustomize.py"))
        with open(os.path.join(self.folder, "user/sitecustomize.py"), "w") as f:
            f.write(SITE)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self, python, *args, hook=True, rank="3"):
        path = [os.path.join(self.folder, "hook")] * hook + [os.path.join(self.folder, "user")]
        env = dict(os.environ, PYTHONPATH=":".join(path), MUSTER_RANKS_DIR=os.path.join(self.folder, "ranks"),
                   RANK=rank, LOCAL_RANK="1")
        return subprocess.run([python, *args], env=env, text=True, timeout=240 * PATIENCE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).stdout

    def pages(self, members=9):
        folder = os.path.join(self.folder, "ranks")
        return {name: struct.unpack(f"{members}Q", open(os.path.join(folder, name), "rb").read(8 * members))
                for name in os.listdir(folder)}


def test_a_child_of_a_rank_is_not_that_rank():
    with Hook() as hook:
        os.mkdir(os.path.join(hook.folder, "user/torch"))
        with open(os.path.join(hook.folder, "user/torch/__init__.py"), "w") as f:
            f.write(SMALL_TORCH)
        said = hook.run(sys.executable, "-c", FAMILY)
        pages = hook.pages()
        check(sorted(name.split("-")[0] for name in pages) == ["3", "4"], f"{pages}\n{said}")
        check(pages.get(f"3-{said.split()[-1]}", [0] * 9)[5] == 1, f"{pages}\n{said}")


def test_without_torch_a_program_sees_nothing_of_the_hook():
    see = "import sys; print(sys.path, sorted(n for n in sys.modules if 'torch' in n), sys.meta_path[-1])"
    python = shutil.which("python3")
    with Hook() as hook:
        for flags in ([], ["-S"], ["-I"], ["-E"], ["-s"]):
            plain, hooked = (hook.run(python, *flags, "-c", see, hook=on) for on in (False, True))
            # Without the module site nobody takes the folder out of the path; there is nothing else in it.
            hooked = hooked.replace(f"'{hook.folder}/hook', ", "") if flags == ["-S"] else hooked
            check(plain == hooked, f"{flags}:\n{plain}\n{hooked}")
        check("the user was here" in hooked, hooked)
        # What the user's own raises is told as ever, and an environment that makes no sense harms nobody.
        with open(os.path.join(hook.folder, "user/sitecustomize.py"), "w") as f:
            f.write("raise ValueError('mine')")
        told = hook.run(python, "-c", "print('goes on')", rank="x")
        check("ValueError: mine" in told and "goes on" in told, told)
        check(not hook.pages(), f"{hook.pages()}")


def test_steps_are_counted_in_a_page_by_every_torch_there_is():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            said = hook.run(python, "-c", TRAIN).split()
            check(len(said) >= 2 and said[-2].isdigit(), f"{version}: it does not train without a page: {said}")
            pid = int(said[-1])
            page = hook.pages()
            check(list(page) == [f"3-{pid}"], f"{version}: {page} {said}")
            magic, own, rank, local, started, steps, stepped, phase, since = page[f"3-{pid}"]
            check(struct.pack("Q", magic) == b"RMPAGE01", f"{version}: {magic:x}")
            check((own, rank, local, steps, phase) == (pid, 3, 1, 7, 0), f"{version}: {page}")
            check(0 < started <= stepped <= time.monotonic_ns() and since > 0, f"{version}: {page}")


def test_checkpoints_and_where_a_training_goes_on_are_told_by_every_torch_there_is():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            before = time.time()
            said = hook.run(python, "-c", RESUME, os.path.join(hook.folder, "saved"))
            page = hook.pages(14).get(f"3-{said.split()[-1]}")
            check(page and page[5] == 6 and page[11] == 6 and page[12] == 6, f"{version}: {page} {said}")
            check(page[4] < page[9] < page[6] and 0 < page[10] < page[6] - page[4], f"{version}: {page}")
            check((before - 60) * 1000 < page[13] <= time.time() * 1000, f"{version}: {page}")


def test_what_a_rank_takes_of_a_step_for_itself_is_told_where_ranks_wait_for_each_other():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            said = hook.run(python, "-c", OWN)
            pids = said.split()[-2:]
            for rank, least, most in ("0", 30 * 10**6, 1 << 62), ("1", 0, 0):  # the second has no peers
                page = hook.pages(15).get(f"{rank}-{pids[int(rank)]}")
                check(page and page[5] == 26 and least <= page[14] <= most, f"{version}: {page} {said}")


def test_what_is_touched_can_be_pickled_copied_compared_and_compiled_as_ever():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            script = os.path.join(hook.folder, "touched.py")
            with open(script, "w") as f:
                f.write(TOUCHED)
            said = hook.run(python, "-W", "ignore", script, hook.folder)
            check(said.endswith("done\n"), f"{version}: {said}")


def test_ranks_that_a_process_spawns_are_told_apart():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            script = os.path.join(hook.folder, "spawn.py")
            with open(script, "w") as f:
                f.write(SPAWN)
            said = hook.run(python, script, os.path.join(hook.folder, "store"), rank="0")
            pages = hook.pages(20)
            told = sorted((page[2], page[5], page[18], page[19]) for page in pages.values())  # rank, steps, world, passes
            check(told == [(0, 3, 2, 3), (1, 3, 2, 3)], f"{version}: {told} {said}")


def test_a_group_with_others_than_the_gang_is_known():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Hook() as hook:
            said = hook.run(python, "-W", "ignore", "-c", GROUPS, rank="0")
            check("own 1 0 0\n" in said and said.endswith("shared 1 0 0\n"), f"{version}: {said}")
