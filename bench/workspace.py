#!/usr/bin/env python3
"""bench/workspace.py [FILES MEGABYTES]: bringing a folder to a job's pods, beside tar and rsync in the same run.

Everything is measured as a user has it: the plugin's whole process, TLS, the API server's proxy, the sync pod,
and for a change also the way into the worker's /app. Each line: what, seconds, the same by tar, rsync or find.
Nothing is removed before the end: ext4 makes the next files slowly for some seconds after many were removed.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
from harness import Muster, wait_for  # noqa: E402

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: bench}
spec:
  nodeResources: {gpus: 1, cpus: 1, memory: 2Gi}
"""
EDITS = 40
ROUNDS = 3


def make_tree(folder, files, megabytes):
    """Like a checked-out project with its data: many small files, sizes spread over three decades."""
    rng = random.Random(11)
    weights = [rng.lognormvariate(0, 1.2) for _ in range(files)]
    scale = megabytes * 1e6 / sum(weights)
    block = rng.randbytes(1 << 20)
    for i, weight in enumerate(weights):
        path = os.path.join(folder, f"d{i % 37}", f"e{i % 407}")
        if i < 407 * 37:
            os.makedirs(path, exist_ok=True)
        size = int(weight * scale)
        with open(os.path.join(path, f"f{i}.py"), "wb") as f:
            start = rng.randrange(len(block) - 1000)
            while size > 0:
                piece = block[start:start + size]
                f.write(piece)
                size -= len(piece)
                start = 0


def timed(argv, **kw):
    start = time.monotonic()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
    return time.monotonic() - start


def line(what, seconds, *others):
    print(f"B11 {what:<34} {seconds:8.3f} s   " + "   ".join(f"{n} {s:.3f} s" for n, s in others), flush=True)


def edit_latency(m, folder, pod_app):
    """Seconds from the rename of a file here to its new content in the pod."""
    target = os.path.join(folder, "d0", "edited.txt")
    seen = os.path.join(pod_app, "d0", "edited.txt")
    times = []
    for i in range(EDITS):
        text = f"edit {i}\n"
        with open(target + "~", "w") as f:
            f.write(text)
        start = time.monotonic()
        os.rename(target + "~", target)
        while True:
            try:
                with open(seen) as f:
                    if f.read() == text:
                        break
            except FileNotFoundError:
                pass
            if time.monotonic() - start > 20:
                raise SystemExit(f"edit {i} did not arrive within 20 s")
            time.sleep(0.0002)
        times.append(time.monotonic() - start)
        time.sleep(0.02)
    return times


def app_folder(pod):
    """The /app of a pod, seen from here: through a process that runs in it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read()
        except OSError:
            continue
        if b"muster-launch\0worker" in words and f"HOSTNAME={pod}\0".encode() in environment:
            return f"/proc/{pid}/root/app"
    raise SystemExit(f"no process of pod {pod} found")


def main():
    files, megabytes = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) == 3 else (40700, 254)
    work = tempfile.mkdtemp(prefix="muster-bench-")
    try:
        folder = os.path.join(work, "project")
        os.mkdir(folder)
        make_tree(folder, files, megabytes)
        tar, rsync_first, rsync_again, find = [], [], [], []
        for i in range(ROUNDS):
            to = os.path.join(work, f"tar{i}")
            os.mkdir(to)
            tar.append(timed(["sh", "-c", f"tar -C {folder} -cf - . | tar -C {to} -xf -"]))
            find.append(timed(["find", folder, "-newer", "/"]))
            if shutil.which("rsync"):
                to = os.path.join(work, f"rsync{i}")
                rsync_first.append(timed(["rsync", "-a", folder + "/", to]))
                rsync_again.append(timed(["rsync", "-a", folder + "/", to]))
        with Muster(nodes=1, gpus_per_node=8, flags=["--cpus-per-node", "16", "--memory-per-node", "64Gi"]) as m:
            m.apply(QUEUE)
            first, again = [], []
            for i in range(ROUNDS):
                done = m.torchrun("submit", "--queue", "bench", "--gpus", "1", "--name", f"b{i}", "--detach",
                                  "echo ready; sleep 600", cwd=folder)
                first.append(float(done.stderr.rsplit(" in ", 1)[1].split()[0]))
                time.sleep(0.1)
                m.torchrun("sync", f"b{i}", cwd=folder)
                start = time.monotonic()
                m.torchrun("sync", f"b{i}", cwd=folder)
                again.append(time.monotonic() - start)
                # The pod's own start (torchrun, PyTorch) must not run beside the next round.
                wait_for(lambda: "ready" in m.kubectl("logs", f"b{i}-worker-0", ok=False).stdout, "the rank", 120)
            best = lambda times: min(times) if times else float("nan")
            line(f"first upload, {files} files", best(first), ("tar|tar", best(tar)), ("rsync", best(rsync_first)))
            line("unchanged", best(again), ("rsync", best(rsync_again)), ("find", best(find)))
            pod = f"b{ROUNDS - 1}-worker-0"
            wait_for(lambda: os.path.exists(os.path.join(app_folder(pod), "d0")), "the workspace in the pod", 120)
            watch = m.spawn_torchrun("sync", f"b{ROUNDS - 1}", "--watch", cwd=folder)
            try:
                while "watching" not in watch.stdout.readline():
                    pass
                times = edit_latency(m, folder, app_folder(pod))
            finally:
                watch.terminate()
                watch.wait(20)
            line("one change, until it is in the pod", statistics.median(times), ("worst", max(times)))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
