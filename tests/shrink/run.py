#!/usr/bin/env python3
"""run.py [--list FILE] [--seeds N] [WORD...]: bugs planted in the control plane, found by the simulator, and shrunk.

Each bug of tests/shrink/planted.txt is compiled into a simulator of its own (tests/mutants/run.py does it; nothing in the tree is
touched). It runs seeds until one fails, and shrinks that. What is left must be at most EVENTS_MAX events from outside, fail again
with the command that is printed, and be told as a story that ends with what went wrong.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))

import rules  # noqa: E402
import run as mutants  # noqa: E402

EVENTS_MAX = 12
SHRUNK = re.compile(r"^shrunk: (\d+) events from outside to (\d+), in (\d+) runs: (.*)$", re.M)
OUTSIDE = re.compile(r"Somebody | dies| operator (is killed|is told to stop|stands still|is cut off)")
AGAIN = re.compile(r"^again: build/sim (.*)$", re.M)


def play(program, args):
    done = subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False, cwd=ROOT)
    return done.returncode, done.stdout


def judge(judges, fault, flags, seeds, place):
    """A sentence that says what is wrong, or None; and a row of the table."""
    made = judges.object(fault.file, fault.text, place)
    if not made:
        return "it does not compile", None
    program = judges.program("sim", made, place)
    code, output = play(program, ["--seed", "1", "--seeds", str(seeds), *flags])
    found = SHRUNK.search(output)
    if not found:
        return (f"{seeds} seeds do not notice it" if code == 0 else f"it is not shrunk: {output[-300:]}"), None
    before, after, runs, text = int(found[1]), int(found[2]), int(found[3]), found[4]
    again = shlex.split(AGAIN.findall(output)[-1])
    code, story = play(program, [*again, "--shrink=false"])
    seed = again[again.index("--seed") + 1]
    row = f"{fault.name}: seed {seed}: {before} events to {after} in {runs} runs: {text}"
    told = play(program, [*[a for a in again if a != "--story"], "--story"])[1]
    if code == 0 or f"FAILED: {text}" not in story:
        return f"{' '.join(again)} does not fail again in the same way", row
    if f"This must not be: {text}." not in told or (after and not OUTSIDE.search(told)):
        return "its story does not say what happened", row
    if after > EVENTS_MAX:
        return f"{after} events are left, more than {EVENTS_MAX}", row
    return None, row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--list", default=os.path.join(ROOT, "tests", "shrink", "planted.txt"))
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    judges = mutants.Judge(["sim"])
    passed = failed = 0
    for fault in rules.by_hand(options.list):
        # What follows + in a name are flags of the simulator.
        flags = [f"--{word}" for word in fault.name.split("+")[1:]]
        if options.words and not any(word in fault.name for word in options.words):
            continue
        with tempfile.TemporaryDirectory() as place:
            wrong, row = judge(judges, fault, flags, options.seeds, place)
        if row:
            print(row, flush=True)
        if wrong:
            print(f"failed: {fault.name}: {wrong}", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
