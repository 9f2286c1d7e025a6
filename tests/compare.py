#!/usr/bin/env python3
"""compare.py: bench/compare tells what got worse, and only that. Ends with `N passed, N failed, N skipped`."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINE = ("one-gang               1000 nodes     {ms} ms (budget 1 ms: met)  8 bound, 0 evicted, 0 promised  exponent 0.10  "
        "mimic {ms} ms\n")
PLACE = ("gangs of 8      1000 nodes, 625 x 8, 1 run: {rate} pods/s (>= 2000: met), 1.45 s, p50 26.7 p99 63.1 ms, 92 % of a bare "
         "loop of 3741 (>= 90: met), computing 181 us a pod against 139, {writes} writes a pod, 0 partial gangs seen\n")

ROWS = [  # why, OLD, NEW, status, a word that is printed
    ("the same", [LINE.format(ms=0.02)] * 3, [LINE.format(ms=0.021)] * 3, 0, "0 worse, 0 better"),
    ("slower", [LINE.format(ms=0.02)] * 3, [LINE.format(ms=0.03)] * 3, 1, "WORSE  one-gang 1000 nodes: ms: 0.02 -> 0.03 (+50 %"),
    ("faster", [LINE.format(ms=0.02)] * 3, [LINE.format(ms=0.01)] * 3, 0, "better  one-gang 1000 nodes: ms"),
    ("within the noise of its runs", [LINE.format(ms=ms) for ms in (0.01, 0.02, 0.03)], [LINE.format(ms=0.03)] * 3, 0,
     "0 worse"),
    ("a rate that fell", [PLACE.format(rate=3000, writes=2.25)] * 3, [PLACE.format(rate=2000, writes=2.25)] * 3, 1,
     "pods/s: 3000 -> 2000"),
    ("a rate that rose", [PLACE.format(rate=3000, writes=2.25)] * 3, [PLACE.format(rate=4000, writes=2.25)] * 3, 0,
     "1 better"),
    ("one more write", [PLACE.format(rate=3000, writes=2.25)] * 3, [PLACE.format(rate=3000, writes=3.25)] * 3, 1,
     "writes a pod: 2.25 -> 3.25"),
    ("a case that is gone", [LINE.format(ms=0.02)], [PLACE.format(rate=3000, writes=2.25)], 2, "only in OLD"),
]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for why, old, new, status, words in ROWS:
            paths = []
            for name, lines in (("old", old), ("new", new)):
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.writelines(lines)
            done = subprocess.run([sys.executable, os.path.join(ROOT, "bench/compare"), *paths], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode != status or words not in done.stdout:
                failed += 1
                print(f"FAIL {why}: ended with {done.returncode}, expected {status} and \"{words}\":\n{done.stdout}")
    print(f"{len(ROWS) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
