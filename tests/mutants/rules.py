"""rules.py: faults made by rule in the sources, and those written down by hand.

A fault's name is RULE:FILE:FUNCTION#N, the Nth place in the function where the rule could be applied. Which are taken is decided
by a hash of seed and name, so a change elsewhere takes few away and brings few in.
"""

import collections
import hashlib
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests"))  # behind: it has a run.py as well

from result import read_expected  # noqa: E402

HAND = os.path.join(ROOT, "tests", "mutants", "by_hand.txt")
PROVEN = os.path.join(ROOT, "tests", "expected", "mutants.txt")  # the same program, with the proofs
FOLDERS = ["sched", "store", "control", "exec", "workspace", "agent", "server", "api"]
# What a rule makes of a place, each with a name. A comparison that only steers a loop is as good as any other.
RULES = [
    ("less", r"(?<![<-])<(?![<=])(?= )", "<="),
    ("less-equal", r"<=(?= )", "<"),
    ("greater", r"(?<![->])>(?![>=])(?= )", ">="),
    ("greater-equal", r">=(?= )", ">"),
    ("equal", r"==", "!="),
    ("not-equal", r"!=", "=="),
    ("and", r"&&", "||"),
    ("or", r"\|\|", "&&"),
    ("plus-one", r"\+ 1\b", "+ 0"),
    ("minus-one", r"- 1\b", "- 0"),
    ("plus", r"\+=", "-="),
    ("if-not", r"\bif \(!", "if ("),
    ("if-never", r"\bif \((?!!)", "if (0 && ("),
    ("true", r"\breturn true;", "return false;"),
    ("false", r"\breturn false;", "return true;"),
    ("call", r"^( +)[a-z]\w*\([^;{}]*\);$", r"\1;"),
    ("set", r"^( +)[a-z]\w*(?:->|\.)[\w.>\[\]-]+ = [^;{}]+;$", r"\1;"),
    ("count", r"^( +)[a-z][\w.>\[\]-]*(?:\+\+|--);$", r"\1;"),
]
# Only frees what is free at the end anyhow, or tells a person something: leaving it out is no fault that a test of rules sees.
HARMLESS = re.compile(r"^\s*(?:\w+_(?:done|free|unref)|free|log_\w+|err_\w+|printf|fprintf|assert|test_\w+)\(")

Fault = collections.namedtuple("Fault", "name file text")


def listed():
    packed = os.path.join(ROOT, "build-mutants", "listed.json")
    if not os.path.exists(os.path.join(ROOT, ".git")) and os.path.exists(packed):  # what pack.py took along
        with open(packed) as f:
            return json.load(f)
    said = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "src", "tests"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, check=True)
    return [file for file in said.stdout.split() if os.path.exists(os.path.join(ROOT, file))]


def read(file):
    with open(os.path.join(ROOT, file)) as f:
        return f.read()


def by_hand(listed_in=HAND):
    """name: file, then <<< text === text >>>."""
    with open(listed_in) as f:
        text = f.read()
    for name, file, old, new in re.findall(r"^(\S+): (\S+)\n<<<\n(.*?)\n===\n(.*?)\n?>>>$", text, re.M | re.S):
        source = read(file)
        if source.count(old) != 1:
            sys.exit(f"{os.path.relpath(listed_in, ROOT)}: {name}: its text is {source.count(old)} times in {file}, not once")
        yield Fault(name, file, source.replace(old, new))


def functions(text):
    """(name, start, end) of each body: ours begin with { and end with } at the margin."""
    for m in re.finditer(r"^([a-z_][^;={}#/]*?\b(\w+)\([^;{}]*\))\n\{\n(.*?)^\}", text, re.M | re.S):
        yield m.group(2), m.start(3), m.end(3)


def without_comments(text):
    """The same places, with nothing in them where a comment was."""
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "~", m.group()), text, flags=re.S)


def in_text(text, at):
    line = text[text.rfind("\n", 0, at) + 1:at]
    return line.count('"') % 2 or "assert(" in line


def closing(text):
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return at
    return 0


def apply(text, place, rule, instead):
    rest, changed = text[place.end():], place.expand(instead)
    if rule == "if-never":  # the condition gets a bracket of its own
        end = closing(rest)
        rest = rest[:end] + ")" + rest[end:]
    return text[:place.start()] + changed + rest


def possible(file):
    text = without_comments(read(file))
    for function, start, end in functions(text):
        for rule, pattern, instead in RULES:
            count = 0
            for place in re.compile(pattern, re.M).finditer(text, start, end):
                if in_text(text, place.start()) or (rule == "call" and HARMLESS.match(place.group())):
                    continue
                count += 1
                yield f"{rule}:{file}:{function}#{count}", place, rule, instead


def by_rule(each, seed, folders):
    """In turns from each folder: a part of a run is a fair sample. Those with a proof are always among them, as long as there is
    such a place: which ones are chosen changes with the sources."""
    always = read_expected(PROVEN)
    files = [f for f in listed() if f.endswith(".c") and not f.endswith(("_test.c", "_fuzz.c"))]
    taken = []
    for folder in folders:
        made = []
        for file in files:
            # The harness of unit tests and the twins for tests are no part of a program.
            if file.startswith(f"src/{folder}/") and os.path.basename(file) not in ("harness.c", "faulty.c"):
                made += [(hashlib.sha256(f"{seed} {name}".encode()).hexdigest(), name, file, place, rule, instead)
                         for name, place, rule, instead in possible(file)]
        made.sort(key=lambda row: row[0])
        taken += enumerate(made[:each] + [row for row in made[each:] if row[1] in always])
    for _, (_, name, file, place, rule, instead) in sorted(taken, key=lambda row: (row[0], row[1][0])):
        yield Fault(name, file, apply(read(file), place, rule, instead))
