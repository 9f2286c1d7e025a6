#!/usr/bin/env python3
"""day.py [WORD...]: a day of a cluster of two real kubelets with containerd, Muster installed by its chart: make test-cluster.

The steps are in jobs.py (what people do), trouble.py (what goes wrong) and upkeep.py (what the administrator does), in the order
of DAY. With words, only the steps whose names have one of them, behind the installation. Prints a line for each, with what was
measured; of one that failed there is a file in build/results, with what a maintainer wants to see. Exits 77 where a node cannot
be had.
"""

import os
import sys
import time
import traceback

from lab import ROOT, Lab  # first: it says where the rest is
import jobs
import trouble
import upkeep
from harness import Failure, Skip
from node import own_namespaces

DAY = [upkeep.install, jobs.guides, jobs.debian, jobs.submit, jobs.restricted, jobs.tenant, trouble.start_long, trouble.drain,
       trouble.stopped_kubelet, trouble.killed_leader, trouble.killed_server, trouble.silent_webhooks, trouble.too_old_watch,
       upkeep.upgrade, upkeep.certificates, trouble.wrong_clock, upkeep.uninstall]
NEEDED = (upkeep.install, trouble.start_long)
EXIT_SKIPPED = 77


def play(lab, step):
    """passed, failed or skipped"""
    began, lab.said = time.monotonic(), []
    try:
        step(lab)
        result, words = "passed", "; ".join(lab.said)
    except Skip as e:
        result, words = "skipped", str(e)
    except Exception as e:  # the others are played all the same
        result, words = "failed", str(e) if isinstance(e, Failure) else traceback.format_exc()
        path = os.path.join(ROOT, "build", "results", f"cluster-{step.__name__}.log")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        lab.dump(path)
        words += f"\n  ({path})"
    print(f"{result}: {step.__name__} ({time.monotonic() - began:.0f} s){': ' if words else ''}{words}", flush=True)
    return result


def main():
    own_namespaces()
    wanted = [step for step in DAY if step in NEEDED or not sys.argv[1:] or any(w in step.__name__ for w in sys.argv[1:])]
    began, results = time.monotonic(), []
    try:
        with Lab() as lab:
            print(f"two nodes are Ready ({time.monotonic() - began:.0f} s)", flush=True)
            for step in wanted:
                results.append(play(lab, step))
                if results == ["failed"]:
                    break  # nothing is installed
    except Skip as reason:
        print(f"skipped: {reason}")
        return EXIT_SKIPPED
    counts = [results.count(word) for word in ("passed", "failed", "skipped")]
    print(f"{time.monotonic() - began:.0f} s in all")
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
