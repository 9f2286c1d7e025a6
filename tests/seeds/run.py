#!/usr/bin/env python3
"""run.py [--on PLACE] [--crds WHOSE] [NUMBER...]: the guides that this project began with (seeds 000 to 004), typed line by line.

PLACE is muster (`muster up`) or kubernetes: a real control plane with `muster operator` and nodes whose pods are processes
(tests/kubernetes/processes.py). WHOSE is own; before: Kubeflow's and KAI's own CRDs were there when Muster came; or after: they
came when Muster was there (crds.py). Without these flags, all of them in turn.

A script NUMBER.txt has one line for each line that its guide has the reader type, in the guide's order:

    = FILE        a file that the guide takes for granted, or shows: the lines that follow with | are what is in it. FILE may
                  be an address of the web (web.py)
    < FILE OURS   the same, which is OURS of this repository (a file, or a folder)
    * WORD TEXT   for WORD, a placeholder, the reader writes TEXT in the lines that follow
    ! COMMAND     what the guide takes for done: typed before, counted as no line of it; it must end well
    $ COMMAND     typed as it stands; it must end well. `cd` holds for the lines after it
    & COMMAND     typed as it stands; it does not end by itself, and is interrupted when its output has the words
    @ FILE        a manifest of the guide, which is FILE of this repository, applied
    > WORDS       the output of the line before has these words, at once or, when the line is typed again, soon
    - COMMAND     not typed as it stands: the next line says why
    : REASON      and, when there is one,
    + COMMAND     what is typed in its place, which must end well too
    ~ REASON      on a control plane of Kubernetes' own the line before is not typed as it stands, and this is why; what
                  follows is for there: + COMMAND in its place, > WORDS
    ^ REASON      the same where other people's CRDs came after ours

A line that is typed as it stands passes; so does one whose file, address or placeholder is told above. One with - or, at its
place, ~ or ^ deviates. FLAGS: in the first lines gives muster up, or the nodes of the cluster, flags. Each script has a server
of its own and a folder to work in, with the repository's examples/ and deploy/ in it; `oc` is kubectl there. Prints
`failed: PLACE/WHOSE/NUMBER:LINE` for each line that failed, and ends with the number of lines that passed, failed and deviated,
in all and of each place.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("e2e", "kubernetes")]

import crds  # noqa: E402
from cluster import Cluster  # noqa: E402
from controlplane import ControlPlane  # noqa: E402
from harness import PATIENCE, Failure, Muster, Skip, torch_pythons  # noqa: E402
from processes import ProcessCluster, free_network  # noqa: E402
from web import Web  # noqa: E402

PLACES = ("muster", "kubernetes")
WHOSE = ("own", "before", "after")
RESULTS = ("passed", "failed", "deviating")
EXIT_SKIPPED = 77
LINE_LIMIT_S = 60
SOON_S = 60
PAUSE_S = 0.3


class Line:
    """One line of a guide: its mark, what it says, and for a line that deviates the reason and what is typed instead."""

    def __init__(self, number, mark, text):
        self.number, self.mark, self.text = number, mark, text
        self.words = []
        self.content = []  # of a file
        self.reason = ""
        self.instead = []
        self.elsewhere = {}  # the same line by "~" and "^", where it differs

    def differs(self, mark, reason):
        line = self.elsewhere[mark] = Line(self.number, "-", self.text)
        line.reason = reason
        return line

    def at(self, place, whose):
        """The line as it is typed there."""
        marks = "^" * (whose == "after") + "~" * (place != "muster")
        return next((self.elsewhere[mark] for mark in marks if mark in self.elsewhere), self)

    def commands(self):
        if self.mark == "-":
            return self.instead
        return [f"kubectl apply -f {shlex.quote(self.text)}" if self.mark == "@" else self.text]


def read(path):
    """(flags of muster up, lines)"""
    flags, lines, last = [], [], None
    with open(path) as f:
        for number, raw in enumerate(f, 1):
            text = raw.rstrip("\n")
            if not text or text.startswith("#"):
                continue
            if text.startswith("FLAGS:"):
                flags = text[6:].split()
                continue
            mark, rest = text[0], text[2:]
            if mark in "$&@-=<*!":
                last = Line(number, mark, rest)
                lines.append(last)
            elif mark == "|":
                last.content.append(rest)
            elif mark in "~^":
                last = lines[-1].differs(mark, rest)
            elif mark == ">":
                last.words.append(rest)
            elif mark == ":":
                last.reason = rest
            elif mark == "+":
                last.instead.append(rest)
            else:
                raise SystemExit(f"{path}:{number}: no line begins with {mark!r}")
    for line in lines:
        if line.mark == "-" and not line.reason:
            raise SystemExit(f"{path}:{line.number}: a line that deviates has no reason")
    return flags, lines


def typed(m, folder, command):
    """(exit status, output) of one line in a shell, as a person would type it."""
    env = {**m.env, **m.web.env} if "https://" in command else m.env
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=line_limit(command) * PATIENCE)
    return done.returncode, done.stdout


def line_limit(command):
    """Seconds: what the line itself waits for comes to that."""
    told = re.search(r"--timeout=(\d+)s", command)
    return LINE_LIMIT_S + (int(told.group(1)) if told else 0)


def interrupted(m, folder, line):
    """What is wrong with a line that does not end by itself: it is interrupted as soon as it has said what it should."""
    with tempfile.TemporaryFile("w+") as said:
        watching = subprocess.Popen(["bash", "-c", line.text], cwd=folder, env=m.env, stdin=subprocess.DEVNULL, stdout=said,
                                    stderr=subprocess.STDOUT, start_new_session=True)
        until, output = time.monotonic() + SOON_S * PATIENCE, ""
        while any(word not in output for word in line.words) and watching.poll() is None and time.monotonic() < until:
            time.sleep(PAUSE_S)
            said.seek(0)
            output = said.read()
        ended = watching.poll()
        if ended is None:
            os.killpg(watching.pid, signal.SIGINT)
            watching.wait(LINE_LIMIT_S)
    if all(word in output for word in line.words):
        return ""
    return f"exit status {ended}, the output has not all of {line.words}: {output.strip()[-400:]}"


def prepare(m, home, line):
    """A file, or what stands at an address, as the script has it."""
    name, text = line.text, "\n".join(line.content) + "\n"
    if line.mark == "<":
        name, source = line.text.split()
        if not name.startswith("https://"):
            os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
            os.symlink(os.path.join(ROOT, source), os.path.join(home, name))
            return
        with open(os.path.join(ROOT, source)) as f:
            text = f.read()
    if name.startswith("https://"):
        m.web.pages[name] = text
        return
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def play(m, folder, line):
    """What is wrong with the line, in words; nothing when all is well."""
    if line.mark == "&":
        return interrupted(m, folder, line)
    commands, output = line.commands(), ""
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


def bring_crds(m, place, whose, theirs):
    if whose == "own":
        return
    crds.install(m, theirs)
    if whose == "before" and place == "muster":  # writes its own when it starts
        m.kill()
        m.start()
    elif whose == "before":
        m.kubectl("apply", "--server-side", "--force-conflicts", "-f", os.path.join(ROOT, "deploy", "crds"))
    crds.established(m)


def work_folder(m):
    """Where the guide is typed, with what it takes for granted."""
    folder = os.path.join(m.folder, "work")
    os.makedirs(folder)
    for name in ("examples", "deploy"):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    programs = os.path.join(m.folder, "programs")
    os.makedirs(programs)
    os.symlink(shutil.which("kubectl"), os.path.join(programs, "oc"))
    m.env["PATH"] = programs + ":" + m.env["PATH"]
    m.env["HOME"] = folder
    return folder


def addresses(lines):
    """{address of the web: nothing yet}"""
    return {line.text.split()[0]: None for line in lines if line.mark in "=<" and line.text.startswith("https://")}


def play_script(number, place, whose, theirs, counts):
    """One script; its lines are added to what is counted."""
    flags, lines = read(os.path.join(HERE, number + ".txt"))
    pythons = torch_pythons()
    first = os.path.dirname(pythons[-1][0]) if pythons else None
    server = Muster if place == "muster" else ProcessCluster
    placeholders = {}
    with server(nodes=4, gpus_per_node=8, flags=flags, path_first=first) as m, Web(addresses(lines)) as m.web:
        bring_crds(m, place, whose, theirs)
        folder = home = work_folder(m)
        for line in lines:
            line = line.at(place, whose)
            if line.mark in "=<":
                prepare(m, home, line)
                continue
            if line.mark == "*":
                placeholders.update([line.text.split(" ", 1)])
                continue
            for word, text in placeholders.items():
                line.text = line.text.replace(word, text)
            if line.mark == "!":
                status, output = typed(m, folder, line.text)
                if status:
                    raise Failure(f"line {line.number}: {line.text}: {output.strip()[-400:]}")
                continue
            if line.text.startswith("cd "):
                folder = os.path.join(home, line.text[3:].replace("~/", "", 1))
            wrong = play(m, folder, line)
            result = "failed" if wrong else "deviating" if line.mark == "-" else "passed"
            counts[result] += 1
            note = wrong or line.reason
            name = f"{place}/{whose}/{number}:{line.number}"
            print(f"{result}: {name}{' ' if result == 'failed' else ': '}{line.text}{': ' + note if note else ''}", flush=True)


@contextlib.contextmanager
def control_plane(place):
    """What the clusters of a place stand on."""
    if place == "muster":
        yield
        return
    with ControlPlane(network=free_network()) as plane:
        Cluster.plane = plane
        yield


def words(counts):
    return f"{sum(counts.values())} lines, {counts['passed']} passed, {counts['deviating']} deviating, {counts['failed']} failed"


def play_setting(place, whose, theirs, numbers):
    counts = dict.fromkeys(RESULTS, 0)
    with control_plane(place):
        for number in numbers:
            try:
                play_script(number, place, whose, theirs, counts)
            except (Failure, OSError, subprocess.SubprocessError) as e:  # the server, not a line
                print(f"failed: {place}/{whose}/{number} {e}", flush=True)
                counts["failed"] += 1
    print(f"{place}, CRDs {whose}: {words(counts)}", flush=True)
    return counts


def chosen(argv):
    """(places, whose, numbers)"""
    told = {"--on": PLACES, "--crds": WHOSE}
    for flag, all_of in list(told.items()):
        if flag in argv:
            at = argv.index(flag)
            told[flag] = tuple(argv[at + 1:at + 2])
            del argv[at:at + 2]
            if not set(told[flag]) & set(all_of):
                raise SystemExit(f"run.py: {flag} is one of {', '.join(all_of)}")
    return told["--on"], told["--crds"], argv or sorted(n[:-4] for n in os.listdir(HERE) if n.endswith(".txt"))


def main():
    places, whose, numbers = chosen(sys.argv[1:])
    theirs, missing = crds.folders() if set(whose) - {"own"} else ([], [])
    for what in missing:
        print(f"without CRDs of {what}")
    total, said, skipped = dict.fromkeys(RESULTS, 0), [], 0
    for place in places:
        for one in whose:
            try:
                counts = play_setting(place, one, theirs, numbers)
            except Skip as e:
                print(f"skipped: {place}, CRDs {one}: {e}")
                skipped += 1
                continue
            said.append(f"{place}/{one} {words(counts)}")
            for result, count in counts.items():
                total[result] += count
    print(f"{total['passed']} passed, {total['failed']} failed, {skipped} skipped, {total['deviating']} deviating of "
          f"{sum(total.values())} lines: {'; '.join(said)}")
    return 1 if total["failed"] else 0 if said else EXIT_SKIPPED


if __name__ == "__main__":
    sys.exit(main())
