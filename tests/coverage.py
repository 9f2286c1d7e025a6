#!/usr/bin/env python3
"""coverage.py [--holes N] [--seeds N] [--read] BUILD: how many branches of src the suites take, by folder.

BUILD was made with -Db_coverage=true and has unit, sched-property, muster and sim. They run: units, random events for the
scheduler, all scenarios, and seeds of the simulator in its three forms. --read runs nothing and counts what ran before. Then gcov
says of each line which of its branches were taken; a line of assert() is not counted, since a test cannot take its other branch.
Prints a table by folder and, of the folders that are pure, `failed: FOLDER` where fewer than GOAL_PERCENT of the branches were
taken. --holes N: the N functions there of which the most branches were not.
"""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PURE = ["base", "http1", "page", "api", "cel", "cache", "sched", "estimate", "control"]
GOAL_PERCENT = 90


def suites(build, seeds):
    """(name, command) of what runs"""
    some = ["--seed", "1", "--seeds", str(seeds), "--shrink=false"]
    return [("units", [f"{build}/unit"]),
            ("property", [f"{build}/sched-property", "1", "4", "500"]),
            ("scenarios", [f"{ROOT}/tests/scenarios/run.sh", f"{build}/muster"]),
            ("sim", [f"{build}/sim", *some]),
            ("sim --one-by-one", [f"{build}/sim", *some, "--one-by-one"]),
            ("sim --suspend", [f"{build}/sim", *some, "--suspend"])]


def run(build, seeds):
    """How many of them failed; what was counted before is forgotten."""
    for path in glob.glob(f"{build}/**/*.gcda", recursive=True):
        os.unlink(path)
    failed = 0
    for name, command in suites(build, seeds):
        done = subprocess.run(command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode:
            failed += 1
            print(f"failed: {name}\n" + "\n".join(done.stdout.splitlines()[-10:]), flush=True)
    return failed


def read_notes(build, paths):
    """What gcov says of these object files, one document each."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *paths], cwd=build, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def is_ours(path):
    return path.startswith("src/") and not path.endswith(("_test.c", "_fuzz.c"))


def take_in(document, files):
    """Add a document to {file: {line: [function, times, [times of each branch]]}}; what several objects have is added up."""
    for file in document["files"]:
        path = os.path.relpath(os.path.join(document["current_working_directory"], file["file"]), ROOT)
        if not is_ours(path):
            continue
        for line in file["lines"]:
            branches = [branch["count"] for branch in line["branches"]]
            entry = files[path].setdefault(line["line_number"], [line.get("function_name", "-"), 0, [0] * len(branches)])
            entry[1] += line["count"]
            # A macro or an inline function may leave another number of branches in another object.
            entry[2] += [0] * (len(branches) - len(entry[2]))
            for i, count in enumerate(branches):
                entry[2][i] += count


def assertions(path):
    """The numbers of its lines that assert something."""
    with open(os.path.join(ROOT, path)) as f:
        return {number for number, text in enumerate(f, 1) if text.lstrip().startswith("assert(")}


def collect(build):
    notes = sorted(os.path.relpath(path, build) for path in glob.glob(f"{build}/**/*.gcno", recursive=True))
    files = collections.defaultdict(dict)
    parts = [notes[i:i + 20] for i in range(0, len(notes), 20)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for documents in pool.map(lambda part: read_notes(build, part), parts):
            for document in documents:
                take_in(document, files)
    return files


def count(files):
    """({folder: [lines, taken, branches, taken]}, {(file, function): branches not taken})"""
    folders, holes = collections.defaultdict(lambda: [0] * 4), collections.Counter()
    for path, lines in files.items():
        sums, skip = folders[path.split("/")[1]], assertions(path)
        for number, (function, times, branches) in lines.items():
            if number not in skip:
                taken = sum(1 for times_taken in branches if times_taken)
                for i, value in enumerate([1, times > 0, len(branches), taken]):
                    sums[i] += value
                holes[path, function] += len(branches) - taken
    return folders, holes


def percent(part, whole):
    return 100 * part / whole if whole else 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--holes", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--read", action="store_true")
    parser.add_argument("build")
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    broken = 0 if args.read else run(build, args.seeds)
    folders, holes = count(collect(build))
    print(f"{'folder':<12} {'lines':>7} {'taken':>7} {'branches':>9} {'taken':>7}")
    missed = 0
    for name, (lines, lines_taken, branches, taken) in sorted(folders.items(), key=lambda item: (item[0] not in PURE, item[0])):
        print(f"{name:<12} {lines:>7} {percent(lines_taken, lines):>6.1f}% {branches:>9} {percent(taken, branches):>6.1f}%"
              f"{'  pure' if name in PURE else ''}")
    for name in PURE:
        if percent(folders[name][3], folders[name][2]) < GOAL_PERCENT:
            print(f"failed: src/{name}")
            missed += 1
    pure = [(number, where) for where, number in holes.items() if where[0].split("/")[1] in PURE]
    for number, (path, function) in sorted(pure, reverse=True)[:args.holes]:
        print(f"{number:>5} branches not taken: {path} {function}")
    print(f"{len(PURE) - missed} passed, {missed + broken} failed, 0 skipped")
    return 1 if missed + broken else 0


if __name__ == "__main__":
    sys.exit(main())
