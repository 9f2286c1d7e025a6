#!/usr/bin/env python3
"""tests/large.py: a result of 5 GB comes home whole, and nobody holds it in memory. Some 10 GB of disk, a minute."""

import os
import resource
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "e2e"))
from harness import Muster, Skip, check, wait_for  # noqa: E402
from test_plugin_commands import FLAGS, QUEUE, need_torch, project  # noqa: E402

BYTES, STEP = 5 * 1000 ** 3, 250 * 1000 ** 2
MEMORY_MIB = 300  # of either program, at most
MAIN = f"""
import os, time
with open("model.pt", "wb") as f:
    f.truncate({BYTES})
    for at in range(0, {BYTES}, {STEP}):
        f.seek(at)
        f.write(b"at %012d" % at)
"""


def most_mib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM"))


def main():
    try:
        need_torch()
    except Skip as e:
        print(f"0 passed, 0 failed, 1 skipped ({e})")
        return
    with Muster(gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))
        folder = project(m, main__py=MAIN)
        m.torchrun("submit", "--gpus", "1", "--name", "job", "--results=false", "python main.py", cwd=folder, limit=300)
        m.torchrun("pull", "job", "--to", folder, limit=600)
        path = os.path.join(folder, "model.pt")
        check(os.path.getsize(path) == BYTES, "its size")
        with open(path, "rb") as f:
            for at in range(0, BYTES, STEP):
                f.seek(at)
                check(f.read(15) == b"at %012d" % at, f"what is at {at}")
        server, client = most_mib(m.process.pid), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(f"5 GB came home; at most {server} MiB in muster, {client} MiB in kubectl-torchrun")
        check(server < MEMORY_MIB and client < MEMORY_MIB, "somebody held it in memory")
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
