#!/usr/bin/env python3
"""run.py [--each N] [--seed S] [-j J] [--minutes M] [--folder DIR]... [--as-built] [WORD...]: plant faults and see who notices.

One fault at a time: those of tests/mutants/by_hand.txt, and N in each folder made by rule (tests/mutants/rules.py). With WORDs,
only those whose name has one of them. The one file is compiled with its fault and linked before the libraries of build/, so that
it takes the place of the sound one; nothing in the tree is touched. Then the suites run, those of the same folder first, until
one fails. They run in a box (tests/mutants/box.sh): a fault may well delete or kill what it should not. What a compiler refuses
is no fault and not counted.

Nothing of build/ is written, each of the J jobs has a folder of its own, and each suite a box of its own: as many run at once as
there are processors. End-to-end tests are none of the suites, they are for who survives. Another machine, without a network
or a compiler of ours, can do it: tests/mutants/pack.py packs all that is needed, inside.sh runs it there, with --as-built.

What became of each is kept in build-mutants/results.json, and the table in build-mutants/table-DATE.txt. A run that was stopped
goes on where it was (M minutes: it stops by itself); who was caught stays caught while the fault's file is the same, and
survivors are tried again when anything is new.
The table says what caught each and how fast; survivors are `failed: NAME`. Those that are the same program are listed in
tests/expected/mutants.txt with the proof. Exits with 75 when there is more to do.
"""

import argparse
import concurrent.futures
import datetime
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import rules

ROOT = rules.ROOT
BUILD = os.path.join(ROOT, "build")
SCRATCH = os.path.join(ROOT, "build-mutants")
BOX = os.path.join(ROOT, "tests", "mutants", "box.sh")
EXIT_MORE = 75
EXIT_SKIPPED = 77
MEMORY_BYTES_MAX = 4 << 30  # the largest unit test needs a tenth of it
# Ten times what a suite needs without a fault, and never less than this: only what hangs is stopped.
CPU_S_MIN, WALL_S_MIN = 30, 120
# Cheapest first: name, program, command ({} is the program). A suite without the fault's folder in it is passed over.
SUITES = [
    ("units of the folder", "unit", ["{}", "--first"]),
    ("properties", "sched-property", ["{}", "1", "2", "500"]),
    ("scenarios", "muster", ["../tests/scenarios/run.sh", "{}"]),
    ("conformance", "conformance", ["../tests/conformance/run.sh", "{}"]),
    ("other units", "unit", ["{}", "--first"]),
    ("simulator", "sim", ["{}", "--seed", "1", "--seeds", "50", "--shrink=false"]),
    ("simulator, one by one", "sim", ["{}", "--seed", "1", "--seeds", "50", "--one-by-one", "--shrink=false"]),
    ("simulator, every write", "sim", ["{}", "--every-write"]),
    ("suspension", "sched-suspension", ["{}", "1", "20", "200"]),
    ("store-kill", "src/store/store_kill", ["{}", "8"]),
]
# Who survives all of these is compiled once more with gcc's sanitizers: what it reads beyond the end of something is seen then.
SANITIZED = "units, sanitized"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# What these programs have of a folder is not what the suite is about: it would only cost time.
ONLY_FOR = {"scenarios": {"sched", "api"}, "store-kill": {"store"}, "suspension": {"sched"}, "properties": {"sched"}}


def unit_names():
    """The tests of each folder of src/, by name."""
    names = {}
    for file in rules.listed():
        if file.endswith("_test.c"):
            with open(os.path.join(ROOT, file)) as f:
                names.setdefault(file.split("/")[1], []).extend(re.findall(r"^TEST\((\w+)\)", f.read(), re.M))
    return names


class Judge:
    """Compiles, links and runs; one for all threads."""

    def __init__(self, programs=None):
        with open(os.path.join(BUILD, "compile_commands.json")) as f:
            self.compile = {os.path.normpath(os.path.join(c["directory"], c["file"])): c["command"] for c in json.load(f)}
        self.link = {}
        for program in programs or {p for _, p, _ in SUITES}:
            said = subprocess.run(["ninja", "-t", "commands", program], cwd=BUILD, text=True, stdout=subprocess.PIPE, check=True)
            self.link[program] = said.stdout.strip().splitlines()[-1]
        self.names = unit_names()
        self.gold = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []
        self.limits = {}
        self.sanitary = {}

    def has(self, program, folder):
        return f"src/{folder}/lib" in self.link[program]

    def object(self, file, text, place, more=()):
        source, out = os.path.join(place, os.path.basename(file)), os.path.join(place, "fault.o")
        with open(source, "w") as f:
            f.write(text)
        args, given = shlex.split(self.compile[os.path.join(ROOT, file)]), []
        for arg in args:
            if given and given[-1] in ("-o", "-MF", "-MQ"):
                given.pop()
            elif arg not in ("ccache", "-MD", "-c") and not arg.endswith(".c") and "FORTIFY" not in arg:
                given.append("-O0" if arg == "-O2" else arg)
        given += ["-w", "-g0", "-iquote", os.path.join(ROOT, os.path.dirname(file)), *more, "-c", source, "-o", out]
        done = subprocess.run(given, cwd=BUILD, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        return out if done.returncode == 0 else None

    def program(self, name, fault, place, more=()):
        out = os.path.join(place, os.path.basename(name))
        args = shlex.split(self.link[name])
        at = args.index("-o")
        args[at + 1] = out
        if fault:
            args.insert(at + 2, fault)
        subprocess.run([*args, *(more or self.gold), "-Wl,-s"], cwd=BUILD, check=True)
        return out

    def runs(self, suite, command):
        """(whether it ended well, what failed, seconds of CPU)"""
        cpu_s, wall_s = self.limits.get(suite, (600, 1200))

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            if suite != SANITIZED:  # which sets a sixth of all addresses aside
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        with subprocess.Popen([BOX, ROOT, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=limit,
                              start_new_session=True, text=True, errors="replace", env=environment) as process:
            timer = threading.Timer(wall_s, lambda: os.killpg(process.pid, signal.SIGKILL))
            timer.start()
            said, tail = "", ""
            for line in process.stdout:
                tail = line
                if line.startswith("FAIL "):
                    said = line.split()[1]
            _, status, used = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
        code = process.returncode
        if code in (-signal.SIGKILL, -signal.SIGXCPU, 137, 128 + signal.SIGXCPU):
            said = "does not end"
        elif code and not said:
            said = tail.strip()[:100] if tail and suite not in ("units of the folder", "other units") else f"ends with {code}"
        return code in (0, EXIT_SKIPPED), said, used.ru_utime + used.ru_stime

    def command(self, suite, folder, command, program):
        own = self.names.get(folder, [])
        if suite == "units of the folder":
            return own and [*(program if a == "{}" else a for a in command), *own]
        if suite == "other units":
            return [*(program if a == "{}" else a for a in command),
                    *(n for f, names in self.names.items() if f != folder for n in names)]
        return [program if a == "{}" else a for a in command]

    def sound(self):
        """The suites without a fault: they pass, and how long they take. What is known of their time stays, and then it is enough
        that the unit tests pass."""
        known = bool(self.limits)
        place = os.path.join(SCRATCH, "sound")
        os.makedirs(place, exist_ok=True)
        for suite, name, template in SUITES:
            if known and name != "unit":
                continue
            began = time.monotonic()
            for folder in rules.FOLDERS if suite == "units of the folder" else ["-"]:
                command = self.command(suite, folder, template, self.program(name, None, place))
                ok, said, cpu_s = self.runs(suite, command) if command else (True, "", 0)
                if not ok:
                    sys.exit(f"mutants: {suite} fails without any fault: {said}")
                was = self.limits.get(suite, (0, 0))
                self.limits[suite] = (max(was[0], CPU_S_MIN + int(10 * cpu_s)),
                                      max(was[1], WALL_S_MIN + int(10 * (time.monotonic() - began))))

    def judge(self, fault, place):
        """[suite that catches it, what failed there, seconds]"""
        began = time.monotonic()
        os.makedirs(place, exist_ok=True)
        made = self.object(fault.file, fault.text, place)
        if not made:
            return ["compiler", "", time.monotonic() - began]
        folder = fault.file.split("/")[1]
        for suite, name, template in SUITES:
            if not self.has(name, folder) or folder not in ONLY_FOR.get(suite, {folder}):
                continue
            command = self.command(suite, folder, template, self.program(name, made, place))
            ok, said, _ = self.runs(suite, command) if command else (True, "", 0)
            if not ok:
                return [suite, said, time.monotonic() - began]
        said = self.sanitized(fault.file, fault.text, place)
        if said:
            if fault.file not in self.sanitary:  # it is no fault of this fault where the sound file does the same
                self.sanitary[fault.file] = not self.sanitized(fault.file, rules.read(fault.file), place)
            if self.sanitary[fault.file]:
                return [SANITIZED, said, time.monotonic() - began]
        return ["", "", time.monotonic() - began]

    def sanitized(self, file, text, place):
        """What failed; empty: nothing."""
        folder = file.split("/")[1]
        made = self.object(file, text, place, SANITIZE)
        if not made or not self.has("unit", folder):
            return ""
        command = self.command("units of the folder", folder, ["{}", "--first"], self.program("unit", made, place, SANITIZE))
        ok, said, _ = self.runs(SANITIZED, command) if command else (True, "", 0)
        return "" if ok else said


def digest(*texts):
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def state_of_tree():
    """Changes with every file that a suite is made of."""
    names = [f for f in rules.listed() if f.endswith((".c", ".h", ".yaml"))]
    total = hashlib.sha256()
    for name in sorted(names):
        with open(os.path.join(ROOT, name), "rb") as f:
            total.update(hashlib.sha256(f.read()).digest())
    return total.hexdigest()[:16]


class Results:
    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        try:
            with open(path) as f:
                self.of = json.load(f)
        except (OSError, ValueError):
            self.of = {}

    def known(self, fault, state):
        was = self.of.get(fault.name)
        if not was or was["text"] != digest(fault.text) or (not was["of"][0] and was["state"] != state):
            return None
        return was["of"]

    def keep(self, fault, state, result):
        with self.lock:
            self.of[fault.name] = {"text": digest(fault.text), "state": state, "of": result}
            with open(self.path + ".new", "w") as f:
                json.dump(self.of, f, indent=0)
            os.replace(self.path + ".new", self.path)


def play(faults, args, results, state):
    """Judges what is not known yet; False when time ran out."""
    todo = [f for f in faults if results.known(f, state) is None]
    if not todo:
        return True
    judge = Judge()
    keep = os.path.join(SCRATCH, "limits.json")
    try:
        with open(keep) as f:
            was, judge.limits = json.load(f)
    except (OSError, ValueError):
        was = None
    if was != state:
        judge.sound()
        with open(keep, "w") as f:
            json.dump([state, judge.limits], f)
    deadline = time.monotonic() + args.minutes * 60
    places = [os.path.join(SCRATCH, f"{n}") for n in range(args.jobs)]

    def one(fault):
        if time.monotonic() > deadline:
            return
        place = places.pop()
        result = judge.judge(fault, place)
        places.append(place)
        results.keep(fault, state, result)
        print(f"  {result[0] or 'NOBODY':<22} {result[2]:6.1f} s  {fault.name}  {result[1]}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, todo))
    return all(results.known(f, state) for f in faults)


def table(faults, results, state):
    """Prints the tally; the whole, a line a fault, goes to a file with the day in its name."""
    lines = tallied(faults, results, state)
    print("\n".join(lines))
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    path = os.path.join(SCRATCH, f"table-{day}.txt")
    with open(path, "w") as f:
        for fault in faults:
            suite, what, seconds = results.known(fault, state)
            f.write(f"{suite or 'NOBODY':<24} {seconds:6.1f} s  {fault.name}  {what}\n")
        f.write("\n".join(lines) + "\n")
    print(f"mutants: the table is in {os.path.relpath(path, ROOT)}")
    return any(line.startswith("failed: ") for line in lines)


def tallied(faults, results, state):
    tally, folders, refused, survived = {}, {}, 0, []
    for fault in faults:
        suite, _, seconds = results.known(fault, state)
        if suite == "compiler":
            refused += 1
            continue
        tally.setdefault(suite, []).append(seconds)
        of = folders.setdefault(fault.file.split("/")[1], [0, 0])
        of[0] += bool(suite)
        of[1] += 1
        if not suite:
            survived.append(fault.name)
    lines = [f"failed: {name}" for name in survived]
    for suite, seconds in sorted(tally.items(), key=lambda item: -len(item[1])):
        seconds.sort()
        by = f"caught by {suite}" if suite else "survived"
        lines.append(f"{len(seconds):5} {by:<36} median {seconds[len(seconds) // 2]:6.1f} s, longest {seconds[-1]:6.1f} s")
    lines.append(f"{refused:5} refused by the compiler, not counted")
    lines.append("  " + ", ".join(f"{folder} {caught} of {count}" for folder, (caught, count) in sorted(folders.items())))
    total = sum(len(s) for s in tally.values())
    lines.append(f"{total - len(survived)} passed, {len(survived)} failed, 0 skipped")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=25, metavar="N", help="so many faults by rule in each folder")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--as-built", action="store_true", help="take build/ as it is; nothing but the faults is compiled")
    parser.add_argument("--minutes", type=float, default=90, help="stop after that; the next run goes on")
    parser.add_argument("--folder", action="append", help="only these folders of src/")
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args()
    print(f"mutants: seed {args.seed}", flush=True)
    if not args.as_built:
        subprocess.run(["ninja", "-C", BUILD, "--quiet", *sorted({p for _, p, _ in SUITES})], check=True)
    os.makedirs(SCRATCH, exist_ok=True)
    folders = args.folder or rules.FOLDERS
    faults = [f for f in [*rules.by_hand(), *rules.by_rule(args.each, args.seed, folders)]
              if f.file.split("/")[1] in folders and (not args.words or any(w in f.name for w in args.words))]
    results, state = Results(os.path.join(SCRATCH, "results.json")), state_of_tree()
    if not play(faults, args, results, state):
        known = [f for f in faults if results.known(f, state)]
        print(f"mutants: {len(known)} of {len(faults)} are known; the next run goes on")
        table(known, results, state)
        return EXIT_MORE
    return table(faults, results, state)


if __name__ == "__main__":
    sys.exit(main())
