#!/usr/bin/env python3
"""run.py [--list] [--jobs N] [WORD...]: run the end-to-end tests whose file or name contains one of the words.

A test is a function test_* in a file test_*.py of this folder. Tests mostly wait, so several run beside each
other (--jobs, or MUSTER_TEST_JOBS; twice the cores unless told), each in a process of its own with its own
server. A word that no test has is an error.

A test that failed is repeated under the same load, and counted as flaky when it passes then (flaky.py); what it said is in
BUILD/logs/e2e-flaky.txt. Ends with `N passed, N failed, N skipped, N flaky`.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from flaky import EXIT_SKIPPED, LIMIT_S, Run, known_times  # noqa: E402
from harness import BUILD, PATIENCE, Skip, know_torch  # noqa: E402

TIMES = os.path.join(BUILD, "logs", "e2e-times.json")
SLOWEST_SHOWN = 5
RUNNING = set()  # processes of tests
FLAKY = os.path.join(BUILD, "logs", "e2e-flaky.txt")


def tests():
    for file in sorted(os.listdir(HERE)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = importlib.import_module(file[:-3])
        for name, value in list(vars(module).items()):
            if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                yield f"{file[5:-3]}.{name[5:]}", value


def run_one(name):
    """The test of exactly this name, in this process."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the test cleans up behind itself
    file, test = name.split(".")
    try:
        getattr(importlib.import_module(f"test_{file}"), f"test_{test}")()
    except Skip as e:
        print(e)
        return EXIT_SKIPPED
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def end_all(*_):
    """SIGTERM: so that every test cleans up behind itself."""
    for process in list(RUNNING):
        process.terminate()
    for process in list(RUNNING):
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    os._exit(1)


def run_apart(name):
    """The test in a process of its own: (name, exit status, output, seconds)."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--one", name], text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    RUNNING.add(process)
    try:
        output, _ = process.communicate(timeout=LIMIT_S * PATIENCE)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.terminate()  # the harness ends what the test started
        try:
            output, _ = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        output, status = output + f"ended after {LIMIT_S * PATIENCE:.0f} s\n", 1
    RUNNING.discard(process)
    return name, status, output, time.monotonic() - start


def read_times():
    """Seconds of each test the last time it ran here."""
    try:
        with open(TIMES) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def write_times(times):
    os.makedirs(os.path.dirname(TIMES), exist_ok=True)
    with open(TIMES, "w") as f:
        json.dump(times, f, indent=1, sort_keys=True)


def choose(names, words):
    """The names that have one of the words; SystemExit when a word is in none."""
    unknown = [word for word in words if not any(word in name for name in names)]
    if unknown:
        sys.exit(f"run.py: no test has {' or '.join(unknown)} in its name; --list prints them all")
    return [name for name in names if not words or any(word in name for word in words)]


def main(argv):
    if argv[:1] == ["--one"]:
        return run_one(argv[1])
    if "--help" in argv or "-h" in argv:
        print(__doc__.strip())
        return 0
    jobs = int(os.environ.get("MUSTER_TEST_JOBS") or 2 * (os.cpu_count() or 1))
    if "--jobs" in argv:
        at = argv.index("--jobs")
        jobs = int(argv[at + 1])
        del argv[at:at + 2]
    found = dict(tests())
    chosen = choose(list(found), [a for a in argv if not a.startswith("-")])
    if "--list" in argv:
        print("\n".join(chosen))
        return 0
    signal.signal(signal.SIGTERM, end_all)
    know_torch()
    before = {**known_times(), **read_times()}
    run = Run(chosen, run_apart, before, {name: getattr(found[name], "apart", None) for name in chosen})
    run.all(jobs)
    write_times({**read_times(), **run.times})
    run.write_flaky(FLAKY)
    slowest = sorted(run.times, key=lambda name: -run.times[name])[:SLOWEST_SHOWN]
    print("slowest: " + ", ".join(f"{name} {run.times[name]:.0f} s" for name in slowest))
    return run.summary()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
