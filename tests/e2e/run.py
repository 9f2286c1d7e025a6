#!/usr/bin/env python3
"""run.py [--list] [--jobs N] [WORD...]: run the end-to-end tests whose file or name contains one of the words.

A test is a function test_* in a file test_*.py of this folder. Tests mostly wait, so several run beside each
other (--jobs, or MUSTER_TEST_JOBS; three times the cores unless told), each in a process of its own with its own
server. A word or a flag that nobody knows is an error. However the run ends, nothing of it is left: tests/guard.py.

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
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import guard  # noqa: E402
from flaky import EXIT_SKIPPED, LIMIT_S, Run, known_times  # noqa: E402
from harness import BUILD, PATIENCE, Skip, know_torch  # noqa: E402

TIMES = os.path.join(BUILD, "logs", "e2e-times.json")
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
    jobs = int(os.environ.get("MUSTER_TEST_JOBS") or 3 * (os.cpu_count() or 1))
    words = list(argv)
    if "--jobs" in words[:-1] and words[words.index("--jobs") + 1].isdigit():
        at = words.index("--jobs")
        jobs = int(words[at + 1])
        del words[at:at + 2]
    if any(word.startswith("-") and word != "--list" for word in words):
        print(__doc__.strip())
        return 0 if "--help" in words or "-h" in words else 2
    found = dict(tests())
    chosen = choose(list(found), [word for word in words if word != "--list"])
    if "--list" in words:
        print("\n".join(chosen))
        return 0
    if guard.RUN not in os.environ:
        os.execv(guard.__file__, [guard.__file__, *sys.argv[:1], *argv])
    signal.signal(signal.SIGTERM, end_all)
    know_torch()
    before = {**known_times(), **read_times()}
    run = Run(chosen, run_apart, before, {name: getattr(found[name], "apart", None) for name in chosen})
    run.all(jobs)
    write_times({**read_times(), **run.times})
    run.write_flaky(FLAKY)
    return run.summary()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
