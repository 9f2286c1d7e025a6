#!/usr/bin/env python3
"""run.py [--only BUILD | --check | --measure]: run every suite and end with `N passed, N failed, N skipped, N flaky`.

Everything that meson knows as a test runs in build/; the unit tests and the suite `again`, which is a few of
the end-to-end tests, run in build-asan/, under AddressSanitizer and UBSan. Suites run beside each other, one for each core;
those of a priority below 0, which mostly wait, begin when the others are over, one after another. Beside them build-asan is
made and its unit tests run, with what they leave of the machine.

A suite that ends with `N passed, N failed[, N skipped[, N flaky]]` counts as its tests, another one as one test; one that
exits 77 was skipped, and its last line says why. What is skipped is no failure, but it is counted, and every reason is shown
(`skipped: ...`). A flaky test failed once and passed when it was repeated: it is named, and too many fail their suite
(tests/e2e/flaky.py). Each suite has the time limit meson.build gives it, times MUSTER_TEST_PATIENCE, and its whole output is
in BUILD/logs/SUITE.log; it is shown when the suite fails.

Every suite has a budget of processor time in tests/budgets.txt; one that takes more fails, and so does one without a line there.
The seconds are those of all that it started (tests/counted.py), so they hardly depend on what else the machine does.
MUSTER_TEST_PATIENCE multiplies them, for a machine that is slower. Before the total, the slowest tests of all suites are named.

--check runs what takes seconds in build/ (CHECK): what to run before each commit. --measure writes no verdict on budgets but
prints, at the end, the lines that budgets.txt would have after this run.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from counted import Counted

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZE = ["-Doptimization=0", "-Dc_args=-fsanitize-undefined-trap-on-error -w"]  # as in the Makefile
OUTPUT_LINES_MAX = 60  # of a failed suite
CHECK = ("unit", "tidy", "docs", "run", "reference", "golden", "purity", "dependencies", "scenarios", "conformance",
         "conformance-strict", "sched-property", "sim", "judges-few")
EXIT_SKIPPED = 77  # as automake and meson have it
NAMED = re.compile(r"^(?:failed: |FAIL )(.*)$", re.MULTILINE)  # a failed test in a suite's output
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped(?:, (\d+) flaky)?)?", re.MULTILINE)
# With what others leave: between sessions Linux shares by the niceness of the session, not of the process (sched(7), autogroup).
NICELY = ("sh", "-c", '{ echo 15 > /proc/self/autogroup; } 2> /dev/null; exec nice -n 15 "$@"', "nicely")
PATIENCE = float(os.environ.get("MUSTER_TEST_PATIENCE", "1"))
GUARD = os.path.join(ROOT, "tests", "guard.py")
BUDGETS = os.path.join(ROOT, "tests", "budgets.txt")
BUDGET_MARGIN = 3  # what a line has, of what was measured on quiet cores: some machines take twice as long, seen with the units
BUDGET_LEAST_S = 10  # of a line: below it a start of Python is half of what is measured
SLOWEST_SHOWN = 30
# A test of a suite that says how long each took: `NAME: ok (1.2 s)` of the end-to-end tests, `slow: NAME (1.2 s)` of the units.
TIMED = re.compile(r"^(?:slow: (\S+)|(\S+): (?:ok|flaky|FAILED)) \((\d+\.\d+) s\)$", re.MULTILINE)
# What runs in build-asan, and what the end-to-end tests there start.
SANITIZED = ("unit", "muster", "kubectl-torchrun", "muster-launch", "muster-shim", "libmuster-gpu.so")


def build_asan():
    """Configure build-asan/ and compile what is run of it; False, with the reason printed, when that fails."""
    commands = [[GUARD, "--bound", *NICELY, "ninja", "-C", "build-asan", "--quiet", *SANITIZED]]
    if not os.path.exists(os.path.join(ROOT, "build-asan", "build.ninja")):
        commands.insert(0, ["meson", "setup", "build-asan", "-Db_sanitize=address,undefined"] + SANITIZE)
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True)
        if done.returncode != 0:
            print("\n".join(done.stdout.splitlines()[-OUTPUT_LINES_MAX:]))
            return False
    return True


def suites(build, again):
    """What runs in a build folder; `again`: one of a sanitizer."""
    text = subprocess.run(["meson", "introspect", "--tests", build], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    for test in sorted(json.loads(text), key=lambda t: -t["priority"]):
        marked = any(s.split(":")[-1] == "again" for s in test["suite"])
        if again and test["name"] == "unit":
            yield from parts(test, os.cpu_count() or 1)
        elif marked == again:
            yield test


def parts(test, count):
    """The unit tests in several processes, where one would be the last thing that runs."""
    for part in range(count):
        yield {**test, "name": f"{test['name']}-{part + 1}", "cmd": [*test["cmd"], "--part", f"{part + 1}/{count}"]}


def judge(output, status, late):
    """What a suite's output and exit status say: (passed, failed, skipped, flaky, [lines about the last two])."""
    counts = COUNTS.findall(output)
    passed, failed, skipped, flaky = (int(n or 0) for n in counts[-1]) if counts else (0, 0, 0, 0)
    reasons = [line.strip() for line in output.splitlines() if re.search(r"^flaky: |(^|: )skipped: ", line)]
    if status == EXIT_SKIPPED and not late and not failed:
        last = (output.strip().splitlines() or ["it does not say why"])[-1]
        return passed, 0, max(skipped, 1), flaky, reasons or [f"skipped: {last.strip()}"]
    if status != 0 or late:
        failed = max(failed, 1)
        signalled = status - 128 if status > 128 else -status  # the guard has it as a shell
        if not counts and (late or signalled > 0):
            reasons = [*reasons, "it did not end in time" if late else f"it was ended by signal {signalled}"]
    elif not counts:
        passed = 1
    elif passed + failed + skipped + flaky == 0:
        failed, reasons = 1, ["it ran no test at all"]
    if skipped and not any("skipped: " in line for line in reasons):
        reasons = [*reasons, f"skipped: {skipped} without a reason"]
    return passed, failed, skipped, flaky, reasons


def read_budgets():
    """{suite: seconds of processor time}"""
    with open(BUDGETS) as f:
        return {name: float(seconds) for name, seconds in (line.split() for line in f if line.strip() and line[0] != "#")}


def over_budget(suite, cpu_s, budgets):
    """Lines that say why a suite's processor time fails it: none or one."""
    suite = suite if suite in budgets else re.sub(r"-\d+$", "", suite)  # the units run in parts
    if suite not in budgets:
        return [f"{suite} has no line in tests/budgets.txt: add one (--measure prints it); this run took {cpu_s:.1f} s"]
    if cpu_s <= budgets[suite] * PATIENCE:
        return []
    return [f"{suite} took {cpu_s:.1f} s of processor time, its budget in tests/budgets.txt is {budgets[suite] * PATIENCE:.0f}: "
            "make it quicker, or keep a part of it here and give its long form a target of its own in the Makefile"]


def finish(process, limit_s):
    """Waits for the leader of a group, and ends the group after its limit; (late, what it and those it waited for used)."""
    late = threading.Event()

    def end():
        late.set()
        process.terminate()  # the guard's first process: what it guards is ended and cleaned up behind
    timer = threading.Timer(limit_s, end)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return late.is_set(), usage


def run_suite(build, test):
    """Run one suite; ([passed, failed, skipped, flaky], reasons, seconds, output, seconds of processor time)."""
    patience = PATIENCE * (3 if "san" in build else 1)
    env = dict(os.environ, **test["env"])
    env["MUSTER_BUILD"] = os.path.join(ROOT, build)
    env["MUSTER_TEST_PATIENCE"] = str(patience)
    env.setdefault("ASAN_OPTIONS", "abort_on_error=1:detect_stack_use_after_return=1:handle_sigill=1")
    log = os.path.join(ROOT, build, "logs", test["name"].replace("/", "-") + ".log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    start = time.monotonic()
    with open(log, "w", encoding="utf-8", errors="replace") as out, Counted() as counted:
        command = counted.argv([GUARD, "--bound", *(NICELY if "san" in build else ()), *test["cmd"]])
        process = subprocess.Popen(command, env=env, stdout=out, cwd=test.get("workdir") or os.path.join(ROOT, build),
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        late, waited = finish(process, (test["timeout"] or 3600) * patience)
        cpu_s = counted.seconds(waited)
    with open(log, encoding="utf-8", errors="replace") as file:
        output = file.read()
    seconds = time.monotonic() - start
    *counts, reasons = judge(output, process.returncode, late)
    if late:
        output += f"\nended after its limit of {test['timeout'] * patience:.0f} s"
    return counts, reasons, seconds, output, cpu_s


def words(counts):
    return ", ".join(f"{count} {word}" for count, word in zip(counts, ("passed", "failed", "skipped", "flaky")))


def idle_s():
    """Seconds in which a processor had nothing to do, since the machine started, of all processors together."""
    with open("/proc/stat") as f:
        _, _, _, _, idle, wait, *_ = f.readline().split()
    return (int(idle) + int(wait)) / os.sysconf("SC_CLK_TCK")


class Total:
    """What all suites came to: told as each ends, and what failed once more at the end, where it is looked for first."""

    def __init__(self, budgets=None):
        self.budgets = budgets  # None: they are not judged
        self.counts = [0, 0, 0, 0]
        self.failed = {}  # suite: lines about it
        self.cpu_s = {}  # suite: seconds of processor time
        self.slow = []  # (seconds, suite or test of one)
        self.idle_s = idle_s()
        self.lock = threading.Lock()

    def add(self, suite, counts, reasons, seconds=0.0, output="", cpu_s=0.0):
        with self.lock:
            over = over_budget(suite, cpu_s, self.budgets) if self.budgets is not None else []
            counts, reasons = [counts[0], counts[1] + len(over), *counts[2:]], [*reasons, *over]
            self.cpu_s[suite] = cpu_s
            timed = [(float(s), f"{suite}: {unit or other}") for unit, other, s in TIMED.findall(output)]
            self.slow += timed or [(seconds, suite)]
            self.counts = [a + b for a, b in zip(self.counts, counts)]
            if counts[1]:
                print("\n".join(output.splitlines()[-OUTPUT_LINES_MAX:]))
                why = [line for line in reasons if not re.search(r"^flaky: |(^|: )skipped: ", line)]
                named = [*NAMED.findall(output), *over] or why or [words(counts)]
                self.failed[suite] = [f"failed: {suite}: {name}" for name in named]
            for line in reasons:
                print(f"{suite}: {line}")
            print(f"{suite}: {words(counts)} ({seconds:.1f} s, {cpu_s:.1f} s of processor time)", flush=True)

    def tell(self, seconds):
        """What there is to say at the end."""
        print("\n".join(f"slowest: {s:6.1f} s {name}" for s, name in sorted(self.slow, reverse=True)[:SLOWEST_SHOWN]))
        print("\n".join(line for lines in self.failed.values() for line in lines))
        idle = f"{idle_s() - self.idle_s:.0f} of {seconds * (os.cpu_count() or 1):.0f} s idle"
        print(f"{seconds:.0f} s, {sum(self.cpu_s.values()):.0f} s of processor time, {idle}\n{words(self.counts)}")

    def measured(self):
        """The lines of budgets.txt after this run."""
        return [f"{suite} {max(BUDGET_LEAST_S, round(s * BUDGET_MARGIN))}" for suite, s in sorted(self.cpu_s.items())]


def run_suites(build, tests, total):
    """All of them; failures are kept in the order of the suites, whichever ended first."""
    def one(test):
        total.add(f"{build}/{test['name']}", *run_suite(build, test))
    total.failed.update({f"{build}/{test['name']}": [] for test in tests})
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(one, [test for test in tests if test["priority"] >= 0]))
    for test in tests:
        if test["priority"] < 0:
            one(test)


def run_sanitized(total):
    """What may run beside other suites; returns what is left."""
    if not build_asan():
        total.add("build-asan", [0, 1, 0, 0], ["it does not build"])
        return []
    tests = list(suites("build-asan", True))
    run_suites("build-asan", [test for test in tests if test["priority"] >= 0], total)
    return [test for test in tests if test["priority"] < 0]


def run_everything(total):
    tests = list(suites("build", False))
    run_suites("build", [test for test in tests if test["priority"] >= 0], total)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_suites, "build", [test for test in tests if test["priority"] < 0], total)
        left = run_sanitized(total)
        waiting.result()
    run_suites("build-asan", left, total)


def main(argv):
    build = argv[1] if argv[:1] == ["--only"] and len(argv) == 2 else None
    if not build and argv not in ([], ["--check"], ["--measure"]):
        print(__doc__.strip())
        return 0 if argv in (["--help"], ["-h"]) else 2
    total = Total(None if argv == ["--measure"] else read_budgets())
    start = time.monotonic()
    if argv == ["--check"]:
        run_suites("build", [test for test in suites("build", False) if test["name"] in CHECK], total)
    elif build:
        run_suites(build, list(suites(build, "san" in build)), total)
    else:
        run_everything(total)
    total.tell(time.monotonic() - start)
    if argv == ["--measure"]:
        print("\n".join(total.measured()))
    return 1 if total.counts[1] or not total.counts[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
