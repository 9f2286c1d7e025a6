#!/usr/bin/env python3
"""arena.py MUSTER [TRACES]: every figure of docs/benchmarks.md that comes from traces.

TRACES is the folder of the public traces (docs/benchmarks.md says where they come from); without it only the trace of
our own is played. SEEDS=10 and LISTS="default gpuspec33" in the environment choose less.
"""

import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEDS = os.environ.get("SEEDS", "10")
LISTS = os.environ.get("LISTS", "").split()


def play(muster, *args):
    print("$ muster replay " + " ".join(args), flush=True)
    subprocess.run([muster, "replay", *args], check=True)
    print(flush=True)


def nodes(folder, name, eights, twos):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write("name,gpus\n")
        out.writelines(f"eight-{i:04d},8\n" for i in range(eights))
        out.writelines(f"two-{i:04d},2\n" for i in range(twos))
    return path


def fill(muster, traces):
    cluster = os.path.join(traces, "openb", "nodes.csv")
    for path in sorted(glob.glob(os.path.join(traces, "openb", "pods-*.csv"))):
        name = os.path.basename(path)[len("pods-"):-len(".csv")]
        if LISTS and name not in LISTS:
            continue
        policies = "muster,fgd,best-fit,random" if name == "default" else "muster,fgd"
        play(muster, path, "--cluster", cluster, "--seeds", SEEDS, "--policy", policies)


def record(muster, folder):
    """A recording with 100,000 events, and the same in several files."""
    program = os.path.join(os.path.dirname(muster), "sched-recording")
    path = os.path.join(folder, "day.recording")
    for argv in ([program, "100000", path], [program, "rotate", "100000", "1000000"]):
        print("$ " + " ".join(map(os.path.basename, argv)), flush=True)
        subprocess.run(argv, check=True)
    play(muster, path)


def main():
    muster = os.path.abspath(sys.argv[1])
    traces = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "..", "shared", "traces")
    play(muster, os.path.join(ROOT, "examples", "replay", "small.csv"), "--nodes", "3", "--policy", "muster,kai,fifo,las")
    if not os.path.exists(os.path.join(traces, "philly.csv")):
        print(f"public traces: skipped, there is no {traces}")
        return
    fill(muster, traces)
    with tempfile.TemporaryDirectory() as folder:
        # The published cluster: 2,490 GPUs on nodes of 8 and 2; and a fifth of it, to make it hurt.
        for cluster in (nodes(folder, "2490.csv", 231, 321), nodes(folder, "500.csv", 62, 2)):
            play(muster, os.path.join(traces, "philly.csv"), "--cluster", cluster,
                 "--policy", "muster,kai,fifo,las,fgd,best-fit,random")
        # Gangs against everybody else: room kept for them sooner, lent to who is expected to be done in time; and the
        # same with more of each line looked at.
        for after in ("1000h", "300h", "100h"):
            play(muster, os.path.join(traces, "philly.csv"), "--cluster", cluster, "--policy", "muster",
                 "--reserve-after", after, "--lend-expected")
        play(muster, os.path.join(traces, "philly.csv"), "--cluster", cluster, "--policy", "muster,kai",
             "--window", "1000", "--reserve-after", "320h", "--lend-expected")
        play(muster, os.path.join(traces, "philly.csv"), "--cluster", cluster, "--policy", "muster", "--estimates", "500")
        record(muster, folder)


main()
