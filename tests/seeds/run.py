#!/usr/bin/env python3
"""run.py [NUMBER...]: the guides that this project began with (seeds 000 to 004), typed line by line on `muster up`.

A script NUMBER.txt has one line for each line that its guide has the reader type, in the guide's order:

    $ COMMAND     typed as it stands; it must end well
    @ FILE        a manifest of the guide, which is FILE of this repository, applied
    > WORDS       the output of the line before has these words, at once or, when the line is typed again, soon
    - COMMAND     not typed as it stands: the next line says why
    : REASON      and, when there is one,
    + COMMAND     what is typed in its place, which must end well too

FLAGS: in the first lines gives muster up its flags. Each script has a server of its own and a folder to work in, with the
repository's examples/ and deploy/ in it; `oc` is kubectl there. Ends with the number of lines that passed, deviated and failed.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

from harness import PATIENCE, Muster, torch_pythons  # noqa: E402

LINE_LIMIT_S = 60
SOON_S = 60
PAUSE_S = 0.3


class Line:
    def __init__(self, number, mark, text):
        self.number, self.mark, self.text = number, mark, text
        self.words = []
        self.reason = ""
        self.instead = []


def read(path):
    """(flags of muster up, lines)"""
    flags, lines = [], []
    with open(path) as f:
        for number, raw in enumerate(f, 1):
            text = raw.rstrip("\n")
            if not text or text.startswith("#"):
                continue
            if text.startswith("FLAGS:"):
                flags = text[6:].split()
                continue
            mark, rest = text[0], text[2:]
            if mark in "$@-":
                lines.append(Line(number, mark, rest))
            elif mark == ">":
                lines[-1].words.append(rest)
            elif mark == ":":
                lines[-1].reason = rest
            elif mark == "+":
                lines[-1].instead.append(rest)
            else:
                raise SystemExit(f"{path}:{number}: no line begins with {mark!r}")
    for line in lines:
        if line.mark == "-" and not line.reason:
            raise SystemExit(f"{path}:{line.number}: a line that deviates has no reason")
    return flags, lines


def typed(m, folder, command):
    """(exit status, output) of one line in a shell, as a person would type it."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=m.env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LINE_LIMIT_S * PATIENCE)
    return done.returncode, done.stdout


def play(m, folder, line):
    """What is wrong with the line, in words; nothing when all is well."""
    commands = line.instead if line.mark == "-" else [line.text]
    if line.mark == "@":
        commands = [f"kubectl apply -f {shlex.quote(line.text)}"]
    output = ""
    for command in commands:
        status, output = typed(m, folder, command)
        if status:
            return f"exit status {status}: {output.strip()[-400:]}"
    until = time.monotonic() + SOON_S * PATIENCE
    while any(word not in output for word in line.words):
        if time.monotonic() > until:
            return f"the output has not all of {line.words}: {output.strip()[-400:]}"
        time.sleep(PAUSE_S)
        _, output = typed(m, folder, commands[-1])
    return ""


def play_script(path):
    """(passed, deviating, failed)"""
    flags, lines = read(path)
    counts = {"passed": 0, "deviating": 0, "failed": 0}
    pythons = torch_pythons()
    first = os.path.dirname(pythons[-1][0]) if pythons else None
    with Muster(nodes=4, gpus_per_node=8, flags=flags, path_first=first) as m:
        folder = os.path.join(m.folder, "work")
        os.makedirs(folder)
        for name in ("examples", "deploy"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
        programs = os.path.join(m.folder, "bin")
        os.makedirs(programs)
        os.symlink(shutil.which("kubectl"), os.path.join(programs, "oc"))
        m.env["PATH"] = programs + ":" + m.env["PATH"]
        for line in lines:
            wrong = play(m, folder, line)
            result = "failed" if wrong else "deviating" if line.mark == "-" else "passed"
            counts[result] += 1
            note = wrong or line.reason
            print(f"{os.path.basename(path)}:{line.number}: {result}: {line.text}{': ' + note if note else ''}", flush=True)
    return counts


def main():
    names = sys.argv[1:] or sorted(n[:-4] for n in os.listdir(HERE) if n.endswith(".txt"))
    total = {"passed": 0, "deviating": 0, "failed": 0}
    for name in names:
        for result, count in play_script(os.path.join(HERE, name + ".txt")).items():
            total[result] += count
    print(f"{sum(total.values())} lines: {total['passed']} passed, {total['deviating']} deviating, {total['failed']} failed")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
