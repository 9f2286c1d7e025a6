#!/usr/bin/env python3
"""million.py PROPERTY [SEED [CLUSTERS [EVENTS]]]: random events for the scheduler's core, a million unless told otherwise.

PROPERTY is sched-property, best built with sanitizers. Each cluster is a process and has a seed of its own: SEED and the
numbers after it; without SEED the clock gives a fresh one, and it is printed. They run on all cores (JOBS: so many at a time).
One that breaks, or that takes longer than CLUSTER_SECONDS, is named with the command that plays it again; the others go on.
Ends with `N passed, N failed, N skipped`, in clusters, and the slowest one.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

CLUSTER_SECONDS = 300  # a thousand events take seconds, under sanitizers on a busy machine tens of them
LINES_MAX = 40  # of what a broken cluster says
ENV = {"ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1:handle_sigill=1", **os.environ}


def play(program, seed, events):
    """One cluster: (its seconds and seed, what broke or "")."""
    command = [program, str(seed), "1", str(events)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=ENV, text=True, timeout=CLUSTER_SECONDS, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = "\n".join(done.stdout.splitlines()[-LINES_MAX:]) if done.returncode else ""
        broken = done.returncode != 0
    except subprocess.TimeoutExpired:
        text = f"not done after {CLUSTER_SECONDS} s"
        broken = True
    return (time.monotonic() - start, seed), f"{text}\nagain: {' '.join(command)}" if broken else ""


def main():
    program = sys.argv[1]
    seed, clusters, events = (int(sys.argv[i]) if i < len(sys.argv) else value
                              for i, value in ((2, int(time.time())), (3, 1000), (4, 1000)))
    jobs = int(os.environ.get("JOBS", "0")) or os.cpu_count()
    start = time.monotonic()
    slowest = (0, seed)
    failed = 0
    print(f"{clusters} clusters of {events} events from seed {seed}, {jobs} at a time", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        played = pool.map(lambda s: play(program, s, events), range(seed, seed + clusters))
        for done, (took, broken) in enumerate(played, 1):
            slowest = max(slowest, took)
            if broken:
                failed += 1
                print(broken, flush=True)
            if done % 100 == 0:
                print(f"{done * events} events, {time.monotonic() - start:.0f} s", flush=True)
    print(f"slowest: seed {slowest[1]}, {slowest[0]:.1f} s")
    print(f"{clusters - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
