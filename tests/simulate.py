#!/usr/bin/env python3
"""simulate.py [--runs N] [--seed FIRST] [--jobs N] [--sim PROGRAM]: many seeds of the simulator in all of its forms.

Without PROGRAM one is built in build-sim first, optimized by a profile of itself: a third more runs a second. The seeds from
FIRST on are run in each form before the next ones, until there were N runs; of the forms with two operators, which take five
times as long, a fifth as many. A run that fails is told as `failed: SEED,FORM` with its last steps, and the rest of its chunk is
left out; `build/sim --seed SEED FORM --story` tells it to a person.
"""

import argparse
import concurrent.futures
import glob
import itertools
import os
import re
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build-sim")
FORMS = ["", "--one-by-one", "--suspend", "--one-by-one --suspend", "--wide", "--wide --one-by-one", "--wide --suspend",
         "--one-by-one --operators", "--wide --one-by-one --operators"]
CHUNK = 500
SLOW_CHUNK = 100  # with two operators
PROFILE_SEEDS = 10
TOTALS = re.compile(r"^\w+: (\d+) runs from seed \d+, (\d+) steps, (\d+) crashes, (\d+) pods, \d+ suspended, ([\d.]+) h")
AGAIN = re.compile(r"^again: build/sim --seed (\d+)", re.MULTILINE)


def run(*command):
    """(exit status, output)"""
    done = subprocess.run(command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


def quietly(*command):
    code, output = run(*command)
    if code:
        sys.exit(f"{' '.join(command)} failed:\n{output[-4000:]}")


def build():
    """A simulator that knows its own profile."""
    # Sources may have changed since the last profile was made. Functions that no seed reaches have none.
    quietly("tools/configure.sh", BUILD, "-Dbuildtype=release", "-Db_lto=true", "-Dc_args=-Wno-missing-profile")
    quietly("meson", "configure", BUILD, "-Db_pgo=generate")
    for path in glob.glob(f"{BUILD}/**/*.gcda", recursive=True):
        os.unlink(path)
    quietly("ninja", "-C", BUILD, "sim")
    for form in FORMS:
        quietly(f"{BUILD}/sim", "--seeds", str(PROFILE_SEEDS), "--shrink=false", *form.split())
    quietly("meson", "configure", BUILD, "-Db_pgo=use")
    quietly("ninja", "-C", BUILD, "sim")
    return f"{BUILD}/sim"


def chunks(first, runs):
    """(form, first seed, how many), as long as fewer than `runs` were given out"""
    given = 0
    for seed in itertools.count(first, CHUNK):
        for form in FORMS:
            if given >= runs:
                return
            count = min(SLOW_CHUNK if "--operators" in form else CHUNK, runs - given)
            given += count
            yield form, seed, count


class Sums:
    def __init__(self, runs):
        self.wanted = runs
        self.began = time.monotonic()
        self.told = 0
        self.runs = self.steps = self.crashes = self.pods = self.failed = 0
        self.hours = 0.0
        self.lock = threading.Lock()

    def add(self, form, seed, status, output):
        totals = TOTALS.match(output.splitlines()[-1]) if output else None
        again = AGAIN.search(output)
        with self.lock:
            if totals:
                runs, steps, crashes, pods = (int(group) for group in totals.groups()[:4])
                self.runs += runs
                self.steps += steps
                self.crashes += crashes
                self.pods += pods
                self.hours += float(totals[5])
            if status or not totals:
                self.failed += 1
                print("\n".join(output.splitlines()[-20:]))
                print(f"failed: {again[1] if again else seed},{form.replace(' ', ',') or 'plain'}", flush=True)
            if self.runs - self.told >= self.wanted / 20:
                self.say()

    def say(self):
        self.told = self.runs
        seconds = time.monotonic() - self.began
        print(f"{self.runs} runs in {seconds:.0f} s, {self.runs / seconds:.1f} a second, {self.failed} failed: "
              f"{self.steps} steps, {self.crashes} crashes, {self.pods} pods, "
              f"{self.hours / 24 / 365:.2f} years of virtual time", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sim")
    args = parser.parse_args()
    program = args.sim or build()
    sums = Sums(args.runs)

    def play(chunk):
        form, seed, count = chunk
        sums.add(form, seed, *run(program, "--seed", str(seed), "--seeds", str(count), "--shrink=false", *form.split()))

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(play, chunks(args.seed, args.runs)))
    if sums.told != sums.runs:
        sums.say()
    print(f"{sums.runs} passed, {sums.failed} failed, 0 skipped")
    return 1 if sums.failed else 0


if __name__ == "__main__":
    sys.exit(main())
