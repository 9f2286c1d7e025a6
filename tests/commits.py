#!/usr/bin/env python3
"""commits.py: every commit since this file came is one that a person can read: its subject has at most 72 characters, it has a
body, and when it changes more than 1,000 lines its body says why in a sentence that has the word "lines". Lines of
docs/reference and tests/golden, which programs write, and files that only moved are not counted. Ends with `N passed, N failed`;
exits 77 where there is no history to look at."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ITSELF = "tests/commits.py"
SUBJECT_MAX = 72
LINES_MAX = 1000
WRITTEN = ("docs/reference/", "tests/golden/")
MARK = "\x1e"


def git(*argv):
    return subprocess.run(["git", *argv], cwd=ROOT, text=True, errors="replace", check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def lines_of(numstat):
    """Lines added and removed, of what people wrote."""
    rows = [row.split("\t") for row in numstat.strip().splitlines()]
    return sum(int(added) + int(removed) for added, removed, path in rows if added != "-" and not path.startswith(WRITTEN))


def judge(subject, body, lines):
    """What is wrong with a commit: a list of sentences."""
    said = []
    if len(subject) > SUBJECT_MAX:
        said.append(f"its subject has {len(subject)} characters, {SUBJECT_MAX} are the most")
    if not body.strip():
        said.append("it has no body: say what the problem was, for whom, and why this is the answer")
    if lines > LINES_MAX and not re.search(r"\blines\b", body):
        said.append(f"it changes {lines} lines, above {LINES_MAX}, and its body does not say why: make it several, or add a "
                    "sentence with the word \"lines\"")
    return said


def commits():
    """(name, subject, body, lines) of all since this file came."""
    came = git("log", "--diff-filter=A", "--format=%H", "--", ITSELF).split()
    since = [f"{came[-1]}..HEAD"] if came else ["HEAD", "-1"]
    for text in git("log", "--no-merges", "-M", "--numstat", f"--format={MARK}%h%n%s%n%b{MARK}", *since).split(MARK)[1:]:
        if text.startswith("\n"):  # what follows the format's end
            yield (*head, lines_of(text))
        else:
            name, subject, *body = text.split("\n")
            head = name, subject, "\n".join(body)


def main():
    try:
        found = list(commits())
    except (OSError, subprocess.CalledProcessError):
        print("no history of git here")
        return 77
    bad = {name: judge(*rest) for name, *rest in found}
    for name, said in bad.items():
        for sentence in said:
            print(f"failed: commit {name}: {sentence}")
    failed = sum(bool(said) for said in bad.values())
    print(f"{len(bad) - failed + (not bad)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
