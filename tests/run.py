#!/usr/bin/env python3
"""run.py [--only BUILD | --check]: run every suite and end with `N passed, N failed, N skipped, N flaky`.

Everything that meson knows as a test runs in build/; the unit tests and the suite `again`, which is a few of
the end-to-end tests, run in build-asan/, under AddressSanitizer and UBSan. Suites run beside each other, one for each core;
those of a priority below 0, which fill the machine themselves, begin when the others are over, one after another. Beside the
last of them, which mostly waits (priority -2), build-asan is made and its unit tests run, nicely.

A suite that ends with `N passed, N failed[, N skipped[, N flaky]]` counts as its tests, another one as one test; one that
exits 77 was skipped, and its last line says why. What is skipped is no failure, but it is counted, and every reason is shown
(`skipped: ...`). A flaky test failed once and passed when it was repeated: it is named, and too many fail their suite
(tests/e2e/flaky.py). Each suite has the time limit meson.build gives it, times MUSTER_TEST_PATIENCE, and its whole output is
in BUILD/logs/SUITE.log; it is shown when the suite fails.

--check runs what takes seconds in build/ (CHECK): what to run before each commit.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZE = ["-Dbuildtype=debugoptimized", "-Dc_args=-fno-sanitize-recover=all"]
OUTPUT_LINES_MAX = 60  # of a failed suite
CHECK = ("unit", "tidy", "docs", "run", "reference", "golden", "purity", "dependencies", "scenarios", "conformance",
         "conformance-strict", "sched-property", "sim")
EXIT_SKIPPED = 77  # as automake and meson have it
NAMED = re.compile(r"^(?:failed: |FAIL )(.*)$", re.MULTILINE)  # a failed test in a suite's output
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped(?:, (\d+) flaky)?)?", re.MULTILINE)
NICELY = ("nice", "-n", "10")
WAITS = -2  # the priority of a suite that leaves the machine idle
# What runs in build-asan, and what the end-to-end tests there start.
SANITIZED = ("unit", "muster", "kubectl-torchrun", "muster-launch", "muster-shim", "libmuster-gpu.so")


def build_asan():
    """Configure build-asan/ and compile what is run of it; False, with the reason printed, when that fails."""
    commands = [[*NICELY, "ninja", "-C", "build-asan", "--quiet", *SANITIZED]]
    if not os.path.exists(os.path.join(ROOT, "build-asan", "build.ninja")):
        commands.insert(0, ["meson", "setup", "build-asan", "-Db_sanitize=address,undefined"] + SANITIZE)
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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
    elif not counts:
        passed = 1
    elif passed + failed + skipped + flaky == 0:
        failed, reasons = 1, ["it ran no test at all"]
    if skipped and not any("skipped: " in line for line in reasons):
        reasons = [*reasons, f"skipped: {skipped} without a reason"]
    return passed, failed, skipped, flaky, reasons


def run_suite(build, test):
    """Run one suite; ([passed, failed, skipped, flaky], reasons, seconds, output)."""
    patience = float(os.environ.get("MUSTER_TEST_PATIENCE", "1")) * (3 if "san" in build else 1)
    env = dict(os.environ, **test["env"])
    env["MUSTER_BUILD"] = os.path.join(ROOT, build)
    env["MUSTER_TEST_PATIENCE"] = str(patience)
    env.setdefault("ASAN_OPTIONS", "abort_on_error=1:detect_stack_use_after_return=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    log = os.path.join(ROOT, build, "logs", test["name"].replace("/", "-") + ".log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    start = time.monotonic()
    late = False
    with open(log, "w", encoding="utf-8", errors="replace") as out:
        process = subprocess.Popen([*(NICELY if "san" in build else ()), *test["cmd"]], env=env, stdout=out,
                                   cwd=test.get("workdir") or os.path.join(ROOT, build), stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(timeout=(test["timeout"] or 3600) * patience)
        except subprocess.TimeoutExpired:
            late = True
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    with open(log, encoding="utf-8", errors="replace") as file:
        output = file.read()
    seconds = time.monotonic() - start
    *counts, reasons = judge(output, process.returncode, late)
    if late:
        output += f"\nended after its limit of {test['timeout'] * patience:.0f} s"
    return counts, reasons, seconds, output


def words(counts):
    return ", ".join(f"{count} {word}" for count, word in zip(counts, ("passed", "failed", "skipped", "flaky")))


class Total:
    """What all suites came to: told as each ends, and what failed once more at the end, where it is looked for first."""

    def __init__(self):
        self.counts = [0, 0, 0, 0]
        self.failed = {}  # suite: lines about it
        self.lock = threading.Lock()

    def add(self, suite, counts, reasons, seconds=0.0, output=""):
        with self.lock:
            self.counts = [a + b for a, b in zip(self.counts, counts)]
            if counts[1]:
                print("\n".join(output.splitlines()[-OUTPUT_LINES_MAX:]))
                why = [line for line in reasons if not re.search(r"^flaky: |(^|: )skipped: ", line)]
                self.failed[suite] = [f"failed: {suite}: {name}" for name in NAMED.findall(output) or why or [words(counts)]]
            for line in reasons:
                print(f"{suite}: {line}")
            print(f"{suite}: {words(counts)} ({seconds:.1f} s)", flush=True)


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
    run_suites("build", [test for test in tests if test["priority"] > WAITS], total)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_suites, "build", [test for test in tests if test["priority"] <= WAITS], total)
        left = run_sanitized(total)
        waiting.result()
    run_suites("build-asan", left, total)


def main(argv):
    only = argv[argv.index("--only") + 1] if "--only" in argv else None
    check = "--check" in argv
    total = Total()
    start = time.monotonic()
    if check:
        run_suites("build", [test for test in suites("build", False) if test["name"] in CHECK], total)
    elif only:
        run_suites(only, list(suites(only, "san" in only)), total)
    else:
        run_everything(total)
    failed = [line for lines in total.failed.values() for line in lines]
    print("\n".join([*failed, f"{time.monotonic() - start:.0f} s", words(total.counts)]))
    return 1 if total.counts[1] or not total.counts[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
