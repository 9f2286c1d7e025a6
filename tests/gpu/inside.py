#!/usr/bin/env python3
"""inside.py [GIB [TURNS]]: on a machine with an NVIDIA GPU, shares that give way as they do on somebody's cluster.

There no agent of ours is on the node: the operator has `muster-launch gpu-memory out|in` run in the container, and the library
that holds a program to its share moves its memory. Here two PyTorch programs with that library and half of the card each take
turns: the memory of one goes out, the other one computes alone, and so on. Prints a line per turn; the weights must be those of
undisturbed runs. Ends with `N passed, N failed`. Needs the programs (MUSTER_BUILD, default: build/), root and a Python that can
import torch.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from alternate import PROGRAM, STEP_S, undisturbed, used_mib
from run import BUILD

LIMIT_S = 300
CONTEXT_MIB = 2048  # at most, of what stays of both: contexts, and what is too small to be moved


class Share:
    """A program that may have half of the card."""

    def __init__(self, folder, name, gib, steps, seed, half_mib):
        self.name, self.seed, self.steps = name, seed, steps
        self.said = open(os.path.join(folder, name), "w+")
        env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "libmuster-gpu.so"), MUSTER_GPU_SUSPEND="1",
                   MUSTER_GPU_MEMORY_MIB=str(half_mib), MUSTER_GPU_REGION=os.path.join(folder, name + ".region"))
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(gib), str(steps), str(seed), str(STEP_S)],
                                        env=env, stdout=self.said, stderr=subprocess.STDOUT, text=True)

    def text(self):
        with open(self.said.name) as f:
            return f.read()

    def step(self):
        lines = [line for line in self.text().splitlines() if line.startswith("step ")]
        return int(lines[-1].split()[1]) if lines else 0

    def goes_on(self):
        stood, end = self.step(), time.monotonic() + LIMIT_S
        while self.step() == stood:
            assert self.process.poll() is None and time.monotonic() < end, f"{self.name} stands still\n{self.text()[-2000:]}"
            time.sleep(0.01)

    def move(self, direction):
        """Seconds that it took."""
        begun = time.monotonic()
        done = subprocess.run([os.path.join(BUILD, "muster-launch"), "gpu-memory", direction, str(self.process.pid)], text=True,
                              timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"{self.name} {direction}: {done.stdout}"
        return time.monotonic() - begun

    def finish(self):
        assert self.process.wait(timeout=LIMIT_S) == 0, self.text()[-2000:]
        text, alone = self.text(), undisturbed(self.steps, self.seed)
        weights, ballast = text.split("weights ")[1].split()[0], text.split("ballast ")[1].split()[0]
        print(f"    {self.name}: weights {weights}, undisturbed {alone}, ballast whole: {ballast}", flush=True)
        return weights == alone and ballast == "True"


def play(folder, gib, turns):
    total = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], text=True,
                           stdout=subprocess.PIPE, check=True).stdout
    steps = int((20 + 5 * turns) / STEP_S)
    one, two = (Share(folder, name, gib, steps, seed, int(total.split()[0]) // 2) for name, seed in (("one", 1), ("two", 2)))
    ok = True
    try:
        one.goes_on()
        two.goes_on()
        for turn in range(turns):
            away, stays = (one, two) if turn % 2 == 0 else (two, one)
            before = used_mib()
            out_s = away.move("out")
            held, left = away.step(), used_mib()
            stays.goes_on()
            still = away.step() == held
            in_s = away.move("in")
            away.goes_on()
            print(f"    {away.name}: out {out_s:.1f} s, in {in_s:.1f} s; {before} -> {left} -> {used_mib()} MiB on the card",
                  flush=True)
            ok = ok and still and left < before - gib * 1024 + CONTEXT_MIB
        return all([one.finish(), two.finish(), ok])
    finally:
        for share in (one, two):
            share.process.kill()


def main():
    gib, turns = (int(word) for word in (sys.argv[1:] + ["10", "4"][len(sys.argv) - 1:])[:2])
    folder = tempfile.mkdtemp(prefix="muster-inside-")
    print(f"== two halves of a card, {gib} GiB each, {turns} turns", flush=True)
    try:
        ok = play(folder, gib, turns)
    finally:
        shutil.rmtree(folder)
    print(f"{int(ok)} passed, {int(not ok)} failed")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
