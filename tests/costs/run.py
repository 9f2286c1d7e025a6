#!/usr/bin/env python3
"""run.py [--long | --bytes N] [--jobs N] [WORD...]: what an object costs by its size (costs.c), of every shape or of those
that are named so.

Makes the program in build-costs/, where every basic block is counted, and runs it in N processes (as many as there are cores): at
32 and 64 KB, or with --long at half of the largest object and at the largest. A WORD is a part of a shape's name. Shapes that are
known to fail stand in tests/expected/costs-quick.txt (costs.txt), one a line with its reason; one more is a failure, and so is
one of them that passes.

--build     makes the program and no more
--built     takes it as it is, on a machine that cannot compile
--calibrate plays the same twice, with blocks counted and in build/ with the clock: how many blocks a second are that
"""

import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))

import result  # noqa: E402

LONG_BYTES = "700000"  # twice that is the largest object, 1.5 MiB, with what is filled in
LEAST_MS = 10.0  # a shorter turn says little about one of 100 ms: much of it is what the machine does for one long text
MOST = re.compile(r"^most: (\w+) ([\d.]+) (.*)$", re.MULTILINE)
TURN = re.compile(r"^(\S+): \d+ watch .* turn ([\d.]+) (\w+)", re.MULTILINE)


def build(folder="build-costs"):
    """The program, in a folder of its own: what is counted runs slower, and nobody else needs it."""
    options = ["-Dtrace=true", "-Doptimization=1"] if folder == "build-costs" else []
    if "--built" not in sys.argv:
        subprocess.run(["tools/configure.sh", folder, *options], cwd=ROOT, check=True)
        subprocess.run(["ninja", "-C", folder, "--quiet", "tests/costs/costs"], cwd=ROOT, check=True)
    return os.path.join(ROOT, folder, "tests/costs/costs")


def play(program, jobs, options):
    """What the processes said, each its part of the shapes."""
    running = [subprocess.Popen([program, "--part", f"{n + 1}/{jobs}", *options], stdout=subprocess.PIPE, text=True,
                                errors="replace") for n in range(jobs)]
    return [(process.communicate()[0], process.returncode) for process in running]


def calibrate(size, words):
    said = [play(program, 1, ["--all", *more, *size, *words])[0][0]
            for program, more in ((build(), []), (build("build"), ["--time"]))]
    blocks, times = ({name: (float(n), step) for name, n, step in TURN.findall(output)} for output in said)
    rates = sorted((blocks[name][0] / ms, name, blocks[name][0], ms) for name, (ms, step) in times.items()
                   if ms >= LEAST_MS and name in blocks and blocks[name][1] == step)
    if not rates:
        sys.exit(f"no turn takes {LEAST_MS} ms: choose other words, or --long")
    for rate, name, counted, ms in [*rates[:5], *rates[-5:]]:
        print(f"{rate * 1000:7.0f} million blocks a second: {name}: {counted} million in {ms} ms")
    print(f"{len(rates)} turns: million blocks in 100 ms: slowest {100 * rates[0][0]:.0f}, "
          f"median {100 * statistics.median(rate for rate, *_ in rates):.0f}, quickest {100 * rates[-1][0]:.0f}")
    return 0


def most(outputs):
    """The largest factor of each step and the longest turn, with the shape that has it."""
    best = {}
    for step, value, name in MOST.findall("\n".join(outputs)):
        if step not in best or float(value) > best[step][0]:
            best[step] = float(value), name
    return [f"most: {step} {value:.2f} {name}" for step, (value, name) in best.items()]


def main(argv):
    long = "--long" in argv
    jobs = int(argv[argv.index("--jobs") + 1]) if "--jobs" in argv else os.cpu_count() or 1
    size = ["--bytes", LONG_BYTES if long else argv[argv.index("--bytes") + 1]] if long or "--bytes" in argv else []
    words = [word for at, word in enumerate(argv)
             if not word.startswith("--") and argv[at - 1:at] not in (["--jobs"], ["--bytes"])]
    if "--build" in argv:
        return 0 if build() else 1
    if "--calibrate" in argv:
        return calibrate(size, words)
    done = play(build(), jobs, [*size, *words])
    outputs = [output for output, _ in done]
    lines = [line for output in outputs for line in output.splitlines() if not line.startswith("most: ")]
    counts = [line for line in lines if re.match(r"\d+ passed, \d+ failed$", line)]
    print("\n".join([line for line in lines if line not in counts] + most(outputs)))
    if len(counts) != jobs:
        print(f"failed: {jobs - len(counts)} of {jobs} processes did not come to their end")
        return 1
    failed = {line.split(" ", 1)[1].strip() for line in lines if line.startswith("failed: ")}
    passed = sum(int(line.split()[0]) for line in counts)
    # Of a long run tests/result.py knows them.
    expected = set() if long else result.read_expected(os.path.join(ROOT, "tests/expected/costs-quick.txt"))
    again = expected - failed if not words else set()
    for name in sorted(failed - expected if not long else ()):
        print(f"FAIL {name}")
    for name in sorted(again):
        print(f"FAIL {name}: passes now, take it off tests/expected/costs-quick.txt")
    wrong = len(failed - expected) + len(again)
    print(f"{passed + len(failed & expected) - len(again)} passed, {wrong} failed")
    return 1 if wrong or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
