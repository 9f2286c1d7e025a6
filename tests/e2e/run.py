#!/usr/bin/env python3
"""run.py [--list] [--jobs N] [WORD...]: run the end-to-end tests whose file or name contains one of the words.

A test is a function test_* in a file test_*.py of this folder. Tests mostly wait, so several run beside each
other (--jobs, or MUSTER_TEST_JOBS; twice the cores unless told), each in a process of its own with its own
server. A test that failed beside others is tried once more alone, and the output says so: limits are for a
machine that does one thing. Ends with `N passed, N failed, N skipped`.
"""

import concurrent.futures
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

from harness import BUILD, PATIENCE, Skip  # noqa: E402

LIMIT_S = 300  # for one test
EXIT_SKIPPED = 77
TIMES = os.path.join(BUILD, "logs", "e2e-times.json")
SLOWEST_SHOWN = 5
RETRIES_MAX = 8  # more failures than this are no matter of a crowded machine


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
    try:
        dict(tests())[name]()
    except Skip as e:
        print(e)
        return EXIT_SKIPPED
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def run_apart(name):
    """The test in a process of its own: (name, exit status, output, seconds)."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--one", name], text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
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


def main(argv):
    if argv[:1] == ["--one"]:
        return run_one(argv[1])
    if "--help" in argv or "-h" in argv:
        print(__doc__.strip())
        return 0
    jobs = int(os.environ.get("MUSTER_TEST_JOBS") or 2 * (os.cpu_count() or 1))
    if "--jobs" in argv:
        jobs = int(argv.pop(argv.index("--jobs") + 1))
    words = [a for a in argv if not a.startswith("-")]
    chosen = [n for n, _ in tests() if not words or any(w in n for w in words)]
    if "--list" in argv:
        print("\n".join(chosen))
        return 0
    passed, failed, skipped = 0, [], 0
    times = read_times()
    chosen.sort(key=lambda name: -times.get(name, LIMIT_S))  # the longest first: nothing long is left for the end
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(jobs, 1)) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_apart, name) for name in chosen]):
            name, status, output, seconds = done.result()
            times[name] = seconds
            if status == 0:
                result, passed = "ok", passed + 1
            elif status == EXIT_SKIPPED:
                result, skipped = f"skipped: {output.strip()}", skipped + 1
            else:
                result = "FAILED"
                failed.append(name)
                print(output, end="")
            print(f"{name}: {result} ({seconds:.1f} s)", flush=True)
    crowded, failed = (failed, []) if jobs > 1 and len(failed) <= RETRIES_MAX else ([], failed)
    for name in crowded:
        _, status, output, seconds = run_apart(name)
        if status == 0:
            passed += 1
        else:
            failed.append(name)
            print(output, end="")
        print(f"{name}: {'ok' if status == 0 else 'FAILED'} alone, after failing beside others ({seconds:.1f} s)",
              flush=True)
    write_times(times)
    slowest = sorted((n for n in chosen), key=lambda n: -times[n])[:SLOWEST_SHOWN]
    print("slowest: " + ", ".join(f"{name} {times[name]:.0f} s" for name in slowest))
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
