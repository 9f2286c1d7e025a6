#!/usr/bin/env python3
"""limits.py [LIBRARY]: on a machine with an NVIDIA GPU, show that libmuster-gpu.so holds real PyTorch to a share.

Needs the library (default: in MUSTER_BUILD, which is build/ unless told, or in ../lib/muster from there) and a Python
that can import torch; neither muster nor root. Says what it did and saw; ends with `N passed, N failed, N skipped`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")))
PLACES = [os.path.join(BUILD, "libmuster-gpu.so"), os.path.join(BUILD, "../lib/muster/libmuster-gpu.so")]
LIBRARY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else next(filter(os.path.exists, PLACES), PLACES[0]))
LIMIT_MIB = 8192
LIMIT_S = 240

# What most programs below begin with.
START = """
import os, time, torch
GIB = 1 << 30
def take(gib):
    return torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")
def refused(gib):
    try:
        take(gib)
    except torch.cuda.OutOfMemoryError as e:
        return str(e).splitlines()[0][:150]
    raise SystemExit(f"{gib} GiB were not refused")
"""


class Share:
    """An environment as a container with a share has it."""

    def __init__(self, limit=LIMIT_MIB, preload=True, **more):
        self.folder = tempfile.mkdtemp(prefix="muster-gpu-limits-")
        self.env = dict(os.environ, PYTHONUNBUFFERED="1", **more)
        if preload:
            self.env.update(LD_PRELOAD=LIBRARY, MUSTER_GPU_MEMORY_MIB=str(limit),
                            MUSTER_GPU_REGION=os.path.join(self.folder, "region"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def spawn(self, code):
        return subprocess.Popen([sys.executable, "-c", START + code], env=self.env, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, code):
        process = self.spawn(code)
        out, _ = process.communicate(timeout=LIMIT_S)
        print(out.strip(), flush=True)
        assert process.returncode == 0, process.returncode
        return out

    def holder(self, gib):
        """A process that has so much and waits for its standard input to end."""
        process = self.spawn(f"x = take({gib}); print('holds', flush=True); import sys; sys.stdin.read()")
        line = process.stdout.readline()
        assert line == "holds\n", line + process.stdout.read()
        return process


def test_above_the_limit_pytorch_says_out_of_memory_and_goes_on():
    with Share() as s:
        out = s.run("""
free, total = torch.cuda.mem_get_info()
print("mem_get_info: free", free >> 20, "of", total >> 20, "MiB; device properties:",
      torch.cuda.get_device_properties(0).total_memory >> 20, "MiB")
x = take(5)
print("5 GiB taken, free", torch.cuda.mem_get_info()[0] >> 20, "MiB")
print("4 more:", refused(4))
y = take(2)
print("2 more taken, free", torch.cuda.mem_get_info()[0] >> 20, "MiB")
del x, y
torch.cuda.empty_cache()
print("all given back, free", torch.cuda.mem_get_info()[0] >> 20, "MiB")
x = take(7.9)
x.fill_(3)
print("7.9 GiB taken and written, sum of a part", int(x[:1000].sum()))
""")
        assert f"free {LIMIT_MIB} of {LIMIT_MIB} MiB; device properties: {LIMIT_MIB} MiB" in out
        assert f"given back, free {LIMIT_MIB} MiB" in out and "sum of a part 3000" in out


def test_two_processes_have_one_limit_and_a_killed_one_gives_back():
    with Share() as s:
        first = s.holder(5)
        try:
            s.run("print('beside 5 GiB of another:', refused(4)); x = take(2.5); print('2.5 GiB fit')")
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
        s.run("x = take(7.5); print('7.5 GiB fit after it was killed')")


def test_expandable_segments():
    with Share(PYTORCH_ALLOC_CONF="expandable_segments:True", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") as s:
        out = s.run("""
x = take(5)
print("expandable:", any(b.get("is_expandable") for b in torch.cuda.memory_snapshot()), "free",
      torch.cuda.mem_get_info()[0] >> 20, "MiB")
print("4 more:", refused(4))
del x
torch.cuda.empty_cache()
print("given back, free", torch.cuda.mem_get_info()[0] >> 20, "MiB")
x = take(7.5)
""")
        assert "expandable: True" in out and f"given back, free {LIMIT_MIB} MiB" in out


def test_stream_ordered_allocation():
    with Share(PYTORCH_ALLOC_CONF="backend:cudaMallocAsync", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync") as s:
        out = s.run("""
print("backend", torch.cuda.get_allocator_backend())
x = take(5)
print("4 more:", refused(4))
del x
torch.cuda.synchronize()
x = take(7.5)
print("7.5 GiB fit")
""")
        assert "backend cudaMallocAsync" in out and "7.5 GiB fit" in out


TRAIN = """
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29544", RANK="0", WORLD_SIZE="1")
dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
total = torch.ones(1 << 20, device="cuda")
dist.all_reduce(total)
print("nccl", ".".join(map(str, torch.cuda.nccl.version())), "sum", int(total.sum()))
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4096, 1024, device="cuda")
for step in range(50):
    loss = model(x).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x @ x.T
graph.replay()
torch.cuda.synchronize()
print("trained, loss", round(loss.item(), 4), "graph", tuple(y.shape))
dist.destroy_process_group()
"""


def test_nccl_training_and_graphs_go_on_as_without_it():
    said = []
    for preload in (False, True):
        with Share(preload=preload) as s:
            said.append(s.run(TRAIN))
    assert said[0] == said[1] and "trained" in said[1], "the same numbers with and without"


def test_nvml_and_nvidia_smi_show_the_share():
    with Share() as s:
        holder = s.holder(2)
        try:
            query = ["nvidia-smi", "--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader"]
            out = subprocess.run(query, env=s.env, text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
            print("nvidia-smi: total, used, free:", out.replace("\n", "; "))
            assert out.startswith(f"{LIMIT_MIB} MiB, 2048 MiB, {LIMIT_MIB - 2048} MiB"), out
            out = s.run("""
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
nvml.nvmlDeviceGetMemoryInfo(device, memory)
print("NVML: total, free, used:", *(m >> 20 for m in memory))
""")
            assert f"NVML: total, free, used: {LIMIT_MIB} {LIMIT_MIB - 2048} 2048" in out
        finally:
            holder.stdin.close()
            holder.wait()


BENCH = """
import ctypes
torch.zeros(1, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")
pointer = ctypes.c_ulonglong()
where = ctypes.byref(pointer)
def per_call(count, allocate, give):
    best = None
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            allocate()
            give()
        seconds = (time.perf_counter() - start) / count / 2
        best = min(best or seconds, seconds)
    return best * 1e9
alloc, free, alloc_async, free_async = (getattr(cuda, name) for name in (
    "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync"))
print(per_call(300, lambda: alloc(where, ctypes.c_size_t(2 << 20)), lambda: free(pointer)),
      per_call(20000, lambda: alloc_async(where, ctypes.c_size_t(4096), None), lambda: free_async(pointer, None)))
"""


def test_what_it_costs():
    """From Python: the same overhead of ctypes is in both columns."""
    rows = []
    for preload in (False, True):
        with Share(preload=preload) as s:
            process = s.spawn(BENCH)
            rows.append([float(word) for word in process.communicate(timeout=LIMIT_S)[0].split()])
    for name, bare, held in zip(("cuMemAlloc/cuMemFree, 2 MiB", "cuMemAllocAsync/FreeAsync, 4 KiB"), *rows):
        print(f"{name}: {held:.0f} ns a call, {bare:.0f} without the library")


def main():
    failed = passed = 0
    if not os.path.exists(LIBRARY):
        print(f"{LIBRARY} is not there: build it, or name it")
        return 2
    for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
        print("==", name[5:].replace("_", " "), flush=True)
        try:
            test()
            passed += 1
        except Exception:
            traceback.print_exc()
            failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
