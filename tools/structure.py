#!/usr/bin/env python3
"""structure.py [--check] [BUILD]: which folder uses which, and the cycles inside the folders.

Without --check it prints the folders with their sizes, what each uses, and every cycle of files. With --check it
compares the tree with the table under "Folders" in docs/ARCHITECTURE.md, whose column "may use" is the list of
allowed dependencies, and fails, one line a finding, on

  folders   an #include, or a symbol that an object file needs, of a folder that the table does not allow
  cycles    a cycle of more than CYCLE_FILES_MAX files of one folder, by symbols
  exports   a function or table that is not static and that no other file uses, not even a test; and a header that only
            unit tests include, and whose own file only they call
  files     a tracked file that no other tracked file names

BUILD is the folder that ninja fills (default: build); its object files must be up to date. A folder may always use
itself and the folders under it that the table does not list apart. Unit tests (*_test.c, *_fuzz.c, and what they
share, listed in TEST_PARTS) follow the same rules for includes, and may be the only caller of an export.
"""

import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "docs/ARCHITECTURE.md"
CYCLE_FILES_MAX = 5
UNIT_TESTS = re.compile(r"(_test\.[ch]|_fuzz\.c)$")
TEST_PARTS = re.compile(r"(_test\.[ch]|_fuzz\.c|^tests/.*|^bench/.*|"
                        r"^src/(store/harness|store/faulty|control/core/scene|plugin/view_scene)\.[ch])$")
# Named by a pattern (tests/e2e/run.py, meson.build, make) or by the tools that read them by convention.
FILES_BY_PATTERN = re.compile(r"^(\.ci/run|\.clang-format|\.clang-tidy|\.gitignore|LICENSE|CONTRIBUTING\.md|README\.md|"
                              r"(.*/)?meson\.build|meson_options\.txt|tests/(e2e|kubernetes)/test_.*\.py|tests/corpus/.*|"
                              r"tests/scenarios/.*|tests/conformance/strict/.*|tests/store/version-\d+\.sql|"
                              r"deploy/crds/.*|deploy/runtimes/.*|"
                              r"deploy/chart/.*|deploy/kinds/.*|docs/reference/.*|src/api/types/.*)$")


def sh(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


class Table:
    """The folders of ARCHITECTURE.md, in its order, and what each may use."""

    def __init__(self):
        self.may_use = {}
        text = open(os.path.join(ROOT, TABLE), encoding="utf-8").read().split("## Folders", 1)[1]
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and len(cells) == 3 and re.match(r"^src(/\w+)+$", cells[0]):
                self.may_use[cells[0]] = {"src/" + word for word in cells[1].replace(",", " ").split() if word != "-"}
        for folder, uses in self.may_use.items():
            for used in uses - set(self.may_use):
                sys.exit(f"{TABLE}: {folder} may use {used}, which the table does not list")

    def folder(self, path):
        """The longest folder of the table that holds a path; None when there is none."""
        parts = path.split("/")[:-1]
        while parts:
            if "/".join(parts) in self.may_use:
                return "/".join(parts)
            parts.pop()
        return None

    def allows(self, user, used):
        return user == used or used in self.may_use[user]


def tracked():
    return [path for path in sh("git", "ls-files", "-co", "--exclude-standard").splitlines()
            if os.path.isfile(os.path.join(ROOT, path))]


def includes(files):
    """(path, included path) for every #include "..." of ours; a path is relative to src or to its own folder."""
    known = set(files)
    for path in files:
        if not re.match(r"^(src|tests|bench|tools)/.*\.[ch]$", path):
            continue
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            for found in (os.path.normpath(os.path.join(os.path.dirname(path), name)), "src/" + name):
                if found in known:
                    yield path, found
                    break


class Symbols:
    """What each source file defines for others and needs from them, from the object files of a build."""

    def __init__(self, build):
        self.defined, self.needed, objects = {}, {}, {}
        with open(os.path.join(ROOT, build, "compile_commands.json"), encoding="utf-8") as file:
            for entry in json.load(file):
                path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
                output = os.path.join(entry["directory"], entry["output"])
                if os.path.exists(output):
                    objects.setdefault(output, path)
        ours = [output for output, path in objects.items() if re.match(r"^(src|tests|bench)/", path)]
        text = subprocess.run(["nm", "--format=posix", "-A"] + ours, check=True, text=True, stdout=subprocess.PIPE).stdout
        for line in text.splitlines():
            output, _, rest = line.partition(": ")
            name, kind = rest.split()[:2]
            path = objects[output]
            if kind == "U":
                self.needed.setdefault(path, set()).add(name)
            elif kind.isupper():
                self.defined.setdefault(name, set()).add(path)

    def uses(self):
        """(path, path that defines what it needs, symbol); the nearest one, where programs have the same name twice."""
        for path, names in sorted(self.needed.items()):
            for name in sorted(names):
                homes = self.defined.get(name, ())
                if not homes or path in homes:
                    continue
                yield path, max(sorted(homes), key=lambda home: len(os.path.commonprefix([home, path]))), name


def cycles(edges):
    """The strongly connected components of two or more files, largest first (Tarjan, without recursion)."""
    graph = collections.defaultdict(set)
    for user, used in edges:
        graph[user].add(used)
    index, low, stack, on, found = {}, {}, [], set(), []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            child = next(rest, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = set()
                    while node not in group:
                        group.add(stack[-1])
                        on.discard(stack.pop())
                    if len(group) > 1:
                        found.append(sorted(group))
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                on.add(child)
                work.append((child, iter(sorted(graph[child]))))
            elif child in on:
                low[node] = min(low[node], index[child])
    return sorted(found, key=lambda group: (-len(group), group))


def folder_cycles(table, symbols):
    """{folder: its cycles of files}; a folder's sub-folders that the table lists are folders of their own."""
    edges = collections.defaultdict(set)
    for user, used, _ in symbols.uses():
        folder = table.folder(user)
        if folder and folder == table.folder(used) and not TEST_PARTS.search(user):
            edges[folder].add((user, used))
    return {folder: cycles(edges[folder]) for folder in table.may_use}


def check_folders(table, files, symbols):
    seen = set()
    for path in files:
        if re.match(r"^src/.*\.[ch]$", path) and table.folder(path) is None:
            yield f"{path}: its folder is not in the table of {TABLE}"
    for user, used in includes(files):
        a, b = table.folder(user), table.folder(used)
        if a and b and not table.allows(a, b):
            seen.add((user, b))
            yield f"{user}: includes {used}; {a} may not use {b}"
    for user, used, name in symbols.uses():
        a, b = table.folder(user), table.folder(used)
        if a and b and not table.allows(a, b) and (user, b) not in seen:
            seen.add((user, b))
            yield f"{user}: needs {name} of {used}; {a} may not use {b}"


def check_cycles(table, symbols):
    for folder, groups in folder_cycles(table, symbols).items():
        largest = len(groups[0]) if groups else 0
        if largest > CYCLE_FILES_MAX:
            yield f"{folder}: {largest} files use each other in a cycle: {' '.join(os.path.basename(f) for f in groups[0])}"


def check_exports(files, symbols):
    used, users = collections.defaultdict(set), collections.defaultdict(set)
    for user, home, name in symbols.uses():
        users[os.path.splitext(home)[0] + ".h"].add(user)
        for each in symbols.defined[name]:  # two programs may each have one of that name
            used[each].add(name)
    for name, homes in sorted(symbols.defined.items()):
        if name == "main" or name.startswith("kind_"):
            continue
        for home in sorted(homes):
            if name not in used[home] and home.startswith("src/") and not TEST_PARTS.search(home):
                yield f"{home}: {name} has no caller in another file; make it static or remove it"
    for user, header in includes(files):
        if os.path.splitext(user)[0] != os.path.splitext(header)[0]:
            users[header].add(user)
    for header in files:
        if not re.match(r"^src/.*\.h$", header) or TEST_PARTS.search(header):
            continue
        if all(UNIT_TESTS.search(user) for user in users[header]):
            yield f"{header}: only {' '.join(sorted(users[header])) or 'its own file'} uses it; remove it"


def check_files(files):
    words = collections.Counter()
    for path in files:
        try:
            text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        except UnicodeDecodeError:
            continue
        words.update({word.rsplit("/", 1)[-1] for word in re.findall(r"[\w./-]+", text) if word.rsplit("/", 1)[-1]
                      != os.path.basename(path)})
    for path in files:
        base = os.path.basename(path)
        stem = base.rsplit(".", 1)[0]
        if not FILES_BY_PATTERN.match(path) and not words[base] and not words[stem]:
            yield f"{path}: no tracked file names it"


def report(table, files, symbols):
    uses = collections.defaultdict(set)
    for user, used in includes(files):
        a, b = table.folder(user), table.folder(used)
        if a and b and a != b and not TEST_PARTS.search(user):
            uses[a].add(b[4:])
    found = folder_cycles(table, symbols)
    for folder in table.may_use:
        own = [path for path in files if table.folder(path) == folder and path.endswith(".c")]
        print(f"{folder}: {len(own)} files; uses {', '.join(sorted(uses[folder])) or 'nothing'}; "
              f"cycles of {', '.join(str(len(group)) for group in found[folder]) or 'no'} files")
        for group in found[folder]:
            print("    " + " ".join(os.path.basename(path) for path in group))


def main(argv):
    check = "--check" in argv
    build = next((word for word in argv if not word.startswith("-")), os.environ.get("MUSTER_BUILD", "build"))
    table, files, symbols = Table(), tracked(), Symbols(build)
    if not check:
        report(table, files, symbols)
        return 0
    failed = 0
    parts = (("folders", check_folders(table, files, symbols)), ("cycles", check_cycles(table, symbols)),
             ("exports", check_exports(files, symbols)), ("files", check_files(files)))
    for part, findings in parts:
        findings = list(findings)
        for finding in findings:
            print(finding)
        print(f"FAIL {part}: {len(findings)}" if findings else f"ok   {part}")
        failed += bool(findings)
    print(f"{len(parts) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
