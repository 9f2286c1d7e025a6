#!/usr/bin/env python3
"""analyze.py [--tool gcc|clang|cppcheck] [--jobs N] [FOLDER...]: what static analyzers say of src and preload, or these folders.

gcc -fanalyzer, clang's analyzer and cppcheck look at each source file (none of the tests) with the compile commands of build/.
A finding is TOOL:CHECK:FILE:FUNCTION, so that it stays the same when lines move. tests/expected/analysis.txt has those that were
looked at and are right as they are, one a line with the reason behind it. Any other is printed as `failed: FINDING`, and so is
one of that list that is not found any more. A tool that is not here, and a file that takes a tool more than TIME_LIMIT_S of a
processor, are skipped and counted.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from result import read_expected

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXPECTED = os.path.join(ROOT, "tests", "expected", "analysis.txt")
TIME_LIMIT_S = 600
OUT_OF_TIME = "CPU time limit exceeded"  # as gcc says it of its compiler
PROGRAMS = {"gcc": ["gcc-12", "gcc"], "clang": ["clang-14", "clang"], "cppcheck": ["cppcheck"]}
# What cppcheck says of almost any macro of ours once it is expanded, and what it says when it cannot go on.
OF_MACROS = ["constStatement", "incorrectStringBooleanError"]
GAVE_UP = ["internalAstError", "syntaxError", "cppcheckError", "internalError"]
PLANTED = """#include <stdlib.h>
int planted(int leaves);
int planted(int leaves)
{
    int *lost = malloc(sizeof(*lost));

    if (!lost)
        return 0;
    *lost = leaves;
    if (*lost > 1)
        return 1;
    free(lost);
    return 2;
}
"""
# A definition in our form: its name stands in the last line without indent before the body.
FUNCTION = re.compile(r"^(?![\s#/{}*]).*?(\w+)\(")


def flags(command, build):
    """Of a compile command: where headers are and what is defined; nothing about warnings, speed or output."""
    words, kept = shlex.split(command), []
    for i, word in enumerate(words):
        if word.startswith(("-I", "-D", "-U", "-std=", "-isystem")) and "_FORTIFY_SOURCE" not in word:
            kept.append("-I" + os.path.normpath(os.path.join(build, word[2:])) if word.startswith("-I") else word)
        elif i and words[i - 1] == "-isystem":
            kept.append(word)
    return kept


def sources(build, folders):
    """(path from the root, flags) of each file"""
    found = {}
    with open(os.path.join(build, "compile_commands.json")) as f:
        for entry in json.load(f):
            path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
            if path.startswith(("src/", "preload/")) and not path.endswith("_test.c"):
                if not folders or any(path.startswith(folder.rstrip("/") + "/") or path == folder for folder in folders):
                    found.setdefault(path, flags(entry["command"], build))
    return sorted(found.items())


def function_at(path, line):
    """The name of the function in which a line is."""
    try:
        with open(os.path.join(ROOT, path)) as f:
            before = f.read().splitlines()[:line]
    except OSError:
        return "-"
    for text in reversed(before):
        match = FUNCTION.match(text)
        if match:
            return match[1]
    return "-"


def command_of(tool, program, path, options, scratch):
    if tool == "gcc":
        return [program, *options, "-O0", "-fanalyzer", "-fdiagnostics-plain-output", "-S", "-o", os.devnull, path]
    if tool == "clang":
        return [program, *options, "--analyze", "--analyzer-output", "text", path]
    return [program, "--quiet", "--enable=warning,portability,performance", "--std=c11", "--error-exitcode=0",
            *(f"--suppress={check}" for check in OF_MACROS), "--template={file}:{line}:{column}: warning: {message} [{id}]",
            os.path.join(scratch, "expanded.c")]


def expand(path, options, scratch):
    """What gcc's preprocessor makes of a file, for cppcheck, whose own knows no __VA_OPT__, without system headers, which it
    knows by itself, and without the checks of types that curl's macros bring. (file, line) of each line that is left."""
    done = subprocess.run(["gcc", *options, "-DCURL_DISABLE_TYPECHECK", "-E", path], cwd=ROOT, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    # cppcheck knows these by their usual names.
    kept = [f"#define __builtin_{name} {name}" for name in ("va_start", "va_end", "va_copy", "va_arg")]
    places, file, number = [(path, 1)] * len(kept), path, 1
    for text in done.stdout.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"', text)
        if marker:
            number, file = int(marker[1]), marker[2]
            continue
        if not file.startswith(("/usr/", "<")):
            kept.append(text)
            places.append((file, number))
        number += 1
    with open(os.path.join(scratch, "expanded.c"), "w") as f:
        f.write("\n".join(kept) + "\n")
    return places


# file:line:column: warning: text [check], as all three of them write it
FINDING = re.compile(r"^([^\s:]+):(\d+):(?:\d+:)? (?:warning|error): (.*) \[(?:CWE-\d+\] \[)?(?:-W)?([\w.,-]+)\]$", re.MULTILINE)


def is_checks(tool, check):
    """Whether a check is the analyzer's and not the compiler's."""
    return {"gcc": check.startswith("analyzer-"), "clang": "." in check, "cppcheck": True}[tool]


def analyze(tool, program, path, options):
    """(findings as {key: sentence}, why it was skipped or None)"""
    with tempfile.TemporaryDirectory() as scratch:
        places = expand(path, options, scratch) if tool == "cppcheck" else []
        command = command_of(tool, program, path, options, scratch)
        # Of a processor and not of the clock: others may want it at the same time.
        limited = ["prlimit", f"--cpu={TIME_LIMIT_S}:{TIME_LIMIT_S + 60}", *command]
        done = subprocess.run(limited, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
    if done.returncode == -signal.SIGXCPU or OUT_OF_TIME in done.stdout:
        return {}, f"it took more than {TIME_LIMIT_S} s of a processor"
    if done.returncode:
        return {}, f"{program} ended with {done.returncode}: {' '.join(done.stdout.strip().splitlines()[-1:])}"
    found = {}
    for file, number, text, check in FINDING.findall(done.stdout):
        if places:
            file, number = places[min(int(number), len(places)) - 1]
        if check in GAVE_UP:
            return {}, f"{program} cannot read it: {text}"
        if is_checks(tool, check) and not file.startswith("/usr/"):
            where, function = os.path.relpath(os.path.join(ROOT, file), ROOT), function_at(file, int(number))
            found.setdefault(f"{tool}:{check}:{where}:{function}", f"{where}, {function}(), line {number}: {text}")
    return found, None


def is_awake(tool, program):
    """Whether it finds a fault that is there: optimized code, say, leaves gcc's analyzer nothing to find."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "planted.c")
        with open(path, "w") as f:
            f.write(PLANTED)
        return bool(analyze(tool, program, path, [])[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", choices=sorted(PROGRAMS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("folders", nargs="*")
    args = parser.parse_args()
    files, expected = sources(args.build, args.folders), read_expected(EXPECTED)
    passed = failed = skipped = 0
    seen, looked_at, whole = set(), set(), set()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for tool in [args.tool] if args.tool else PROGRAMS:
            program = next(filter(shutil.which, PROGRAMS[tool]), None)
            if not program:
                print(f"skipped: {tool} is not here")
                skipped += len(files)
                continue
            if not is_awake(tool, program):
                print(f"failed: {tool}\n    it does not find a leak that was planted", flush=True)
                failed += 1
                continue
            for (path, _), (found, why) in zip(files, pool.map(lambda file, t=tool, p=program: analyze(t, p, *file), files)):
                new = {key: text for key, text in found.items() if key not in expected and key not in seen}
                seen.update(found)
                for key, text in new.items():
                    print(f"failed: {key}\n    {text}", flush=True)
                if why:
                    print(f"skipped: {tool} {path}: {why}", flush=True)
                else:
                    looked_at.add(f"{tool}:{path}")
                whole.update([] if args.folders else [tool])  # a header's findings come from any of the files
                passed, failed, skipped = passed + (not new and not why), failed + bool(new), skipped + bool(why)
    for key in sorted(expected - seen):
        tool, _, path, _ = key.split(":")
        if f"{tool}:{path}" in looked_at or path.endswith(".h") and tool in whole:
            print(f"failed: {key}\n    it is not found any more: take it off {os.path.relpath(EXPECTED, ROOT)}")
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
