#!/usr/bin/env python3
"""bench/loop.py: a file is saved, and the training runs its new code: the whole loop, in seconds.

A job of two ranks trains; `sync --watch --restart` looks at its folder. The clock runs from the rename that saves train.py until
rank 0 has done its first step with the new code, gradients averaged over both. Beside it, what of that is the training's own:
Python, `import torch`, the process group and the step, which the same file needs under plain torchrun as well.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "e2e")]
from harness import Muster, wait_for  # noqa: E402
from workspace import QUEUE, app_folder  # noqa: E402

ROUNDS = 7
PUBLISHED = "Kubetorch publishes under 2 s for a code change to be live, without a training's own start"
TRAIN = """
import os, time
with open("/proc/self/stat") as f:
    began = float(f.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")  # since the machine started
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
model(torch.ones(4, 8)).sum().backward()
dist.all_reduce(model.weight.grad)
if dist.get_rank() == 0:
    with open("stepped.part", "w") as f:
        f.write(str(time.clock_gettime(time.CLOCK_BOOTTIME) - began))
    os.rename("stepped.part", "stepped.VERSION")
time.sleep(600)
"""


def save(folder, version):
    part = os.path.join(folder, "train.py~")
    with open(part, "w") as f:
        f.write(TRAIN.replace("VERSION", str(version)))
    start = time.monotonic()
    os.rename(part, os.path.join(folder, "train.py"))
    return start


def stepped(app, version):
    """The seconds that the rank itself took; None: not yet."""
    try:
        with open(os.path.join(app, f"stepped.{version}")) as f:
            return float(f.read())
    except FileNotFoundError:
        return None


def main():
    folder = tempfile.mkdtemp(prefix="muster-loop-")
    whole, own = [], []
    try:
        save(folder, 0)
        with Muster(nodes=1, gpus_per_node=2, flags=["--cpus-per-node", "16", "--memory-per-node", "64Gi"]) as m:
            m.apply(QUEUE.replace("gpus: 1", "gpus: 2"))
            m.torchrun("submit", "--queue", "bench", "--gpus", "2", "--name", "loop", "--detach", "python train.py",
                       cwd=folder)
            wait_for(lambda: m.phase("loop") == "Running", "the job to run", 120)
            app = wait_for(lambda: app_folder("loop-worker-0"), "the pod", 60)
            wait_for(lambda: stepped(app, 0) is not None, "the first step", 120)
            watch = m.spawn_torchrun("sync", "loop", "--watch", "--restart", cwd=folder)
            try:
                while "watching" not in watch.stdout.readline():
                    pass
                for version in range(1, ROUNDS + 1):
                    start = save(folder, version)
                    while stepped(app, version) is None:
                        if time.monotonic() - start > 120:
                            raise SystemExit(f"version {version} did not train within 120 s")
                        time.sleep(0.002)
                    whole.append(time.monotonic() - start)
                    own.append(stepped(app, version))
            finally:
                watch.terminate()
                watch.wait(20)
        print(f"B27 edit to training again, 2 ranks     {statistics.median(whole):6.2f} s   of that the training's own start "
              f"{statistics.median(own):.2f} s   worst {max(whole):.2f} s   ({PUBLISHED})")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
