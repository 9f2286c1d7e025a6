#!/usr/bin/env python3
"""run.py [--long] [WORD...]: what an object costs by its size (costs.c), of every shape or of those whose name has a WORD.

Makes the program in build-costs/, where every basic block is counted, and runs it: at 32 and 64 KB, or with --long at half of
the largest object and at the largest. Shapes that are known to fail stand in tests/expected/costs-quick.txt (costs.txt), one a
line with the reason behind it; one more is a failure, and so is one of them that passes.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))

import result  # noqa: E402

LONG_BYTES = "700000"  # twice that is the largest object, 1.5 MiB, with what is filled in


def build():
    """The program, in a folder of its own: what is counted runs slower, and nobody else needs it."""
    subprocess.run(["tools/configure.sh", "build-costs", "-Dtrace=true"], cwd=ROOT, check=True)
    subprocess.run(["ninja", "-C", "build-costs", "--quiet", "tests/costs/costs"], cwd=ROOT, check=True)
    return os.path.join(ROOT, "build-costs/tests/costs/costs")


def main(argv):
    long = "--long" in argv
    words = [word for word in argv if word != "--long"]
    expected = result.read_expected(os.path.join(ROOT, "tests/expected", "costs.txt" if long else "costs-quick.txt"))
    output, status = result.play([build(), *(["--bytes", LONG_BYTES] if long else []), *words])
    failed = {line.split(" ", 1)[1].strip() for line in output.splitlines() if line.startswith("failed: ")}
    passed = sum(int(line.split()[0]) for line in output.splitlines() if " passed, " in line)
    if long:
        return status  # tests/result.py knows which are expected
    again = expected - failed if not words else set()
    for name in sorted(failed - expected):
        print(f"FAIL {name}")
    for name in sorted(again):
        print(f"FAIL {name}: passes now, take it off tests/expected/costs-quick.txt")
    if not passed:
        print("it did not come to its end")
        return 1
    wrong = len(failed - expected) + len(again)
    print(f"{passed + len(failed & expected) - len(again)} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
