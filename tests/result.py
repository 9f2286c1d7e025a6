#!/usr/bin/env python3
"""result.py [--failing REGEX] [--keep REGEX] NAME COMMAND...: run a long suite, keep what became of it, and compare with what
is expected.

Writes build/results/NAME-DATE.txt: when, which commit, how long, what counted, what failed. tests/expected/NAME.txt has the
tests that are known to fail, one a line with the reason behind it; no such file means none. Exits 0 when exactly these failed:
one more is a regression, and one that passes now is to be taken off the list. REGEX finds a failed test's name in a line of
output, in its first group; unless told, that is `failed: NAME`. Lines that begin as --keep says are kept, too. A suite that exits
with 77 was skipped.
"""

import datetime
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTS = re.compile(r"^\d+ passed, \d+ failed.*$", re.MULTILINE)
EXIT_SKIPPED = 77


def read_expected(path):
    try:
        with open(path) as f:
            lines = [line.split() for line in f if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return set()
    return {words[0] for words in lines}


def judge(output, status, expected, failing=r"^failed: (\S+)"):
    """(exit status, lines that say why)"""
    if status == EXIT_SKIPPED:
        return status, ["skipped"]
    counts = COUNTS.findall(output)
    failed = set(re.findall(failing, output, re.MULTILINE))
    lines = [f"regression: {name}" for name in sorted(failed - expected)]
    lines += [f"passes now, take it off the list: {name}" for name in sorted(expected - failed)]
    if not counts:
        lines.append("it did not say what it counted")
    elif status and not failed:
        lines.append(f"it ended with {status} and named nothing that failed")
    return (1 if lines else 0), lines


def play(command):
    """(output, exit status) of a command whose output is shown while it comes."""
    said = []
    with subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            said.append(line)
            print(line, end="", flush=True)
    return "".join(said), process.returncode


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    return done.stdout.strip() or "no git here"


def main(argv):
    options = {"--failing": r"^failed: (\S+)", "--keep": None}
    while argv[:1] and argv[0] in options:
        options[argv[0]], argv = argv[1], argv[2:]
    failing, keep = options.values()
    if len(argv) < 2:
        sys.exit(__doc__.strip().splitlines()[0])
    name, command = argv[0], argv[1:]
    began, now = time.monotonic(), datetime.datetime.now().astimezone()
    output, status = play(command)
    verdict, lines = judge(output, status, read_expected(os.path.join(ROOT, "tests", "expected", name + ".txt")), failing)
    folder = os.path.join(ROOT, "build", "results")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}-{now:%Y-%m-%d-%H%M}.txt")
    with open(path, "w") as f:
        f.write(f"{name}, {now:%Y-%m-%d %H:%M %z}, commit {commit()}, {time.monotonic() - began:.0f} s\n")
        f.write("".join(line + "\n" for line in [*COUNTS.findall(output)[-1:], *lines]))
        f.write("".join(line + "\n" for line in output.splitlines() if keep and re.match(keep, line)))
        f.write("".join(f"failed: {test}\n" for test in sorted(set(re.findall(failing, output, re.MULTILINE)))))
    for line in lines:
        print(f"{name}: {line}")
    print(f"{name}: {'as expected' if verdict == 0 else 'not as expected' if verdict == 1 else 'skipped'} ({path})")
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
