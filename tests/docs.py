#!/usr/bin/env python3
"""docs.py: what the pages say about the tree is so. Ends with `N passed, N failed, N skipped`.

links      A link between pages leads to a file, and behind # to a heading of it.
features   Every row of the tables with a column "Muster" (README's features, docs/migrating.md, the threats of docs/security.md)
           names the tests that show it, in an HTML comment anywhere in the row, which readers do not see:

               | gangs start whole or not at all | yes <!-- test: e2e.scheduling.a_gang_waits, unit.a_gang --> | ...

           unit.NAME         TEST(NAME) in a *_test.c
           e2e.FILE.NAME     test_NAME in tests/e2e/test_FILE.py
           kubernetes.NAME   test_NAME in a file of tests/kubernetes
           scenario.NAME     tests/scenarios/NAME.yaml
           suite.NAME        a test of meson.build: suite.conformance
           stranger.NAME     a program of tests/strangers/run.py (make strangers)
           failure.NAME      a failure of tests/failures/run.py (make failures)
           seed.NUMBER       tests/seeds/NUMBER.txt (make seeds)

           A row in which Muster's column says "no" needs none.
found      Every row of the table of docs/internals/found.md names such tests in its last cell, for readers to see.
ways       Every row of the tables of docs/results.md that say what becomes of results names its tests in such a comment.
named      Every test that a page names so, in any comment or as `unit.NAME`, is there; and every row of a table with a column
           "Test" (attacks and their tests in docs/security.md) names one.
examples   Every manifest of examples/scheduling is on the page that KAI's users look at, docs/migrating.md.
blocks     A fenced block says what it is: ```sh runnable is executed by tests/e2e/test_docs.py, which looks for the lines of
           ```text printed in what the page's blocks print.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLES = ("README.md", "docs/migrating.md", "docs/security.md")  # pages with such a table
FOUND = "docs/internals/found.md"
LANGUAGES = {"", "sh", "sh runnable", "text printed", "yaml", "python", "c", "json", "console", "text", "toml", "ini", "promql"}


def tracked():
    text = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    return [f for f in text.splitlines() if os.path.isfile(os.path.join(ROOT, f))]


def read(file):
    with open(os.path.join(ROOT, file), encoding="utf-8", errors="replace") as f:
        return f.read()


def fences(text):
    """(line, language, body) of each fenced block."""
    start, language, body = 0, None, []
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r" *```(.*)$", line)
        if fence and language is None:
            start, language, body = number, fence.group(1).strip(), []
        elif fence:
            yield start, language, "\n".join(body)
            language = None
        elif language is not None:
            body.append(line)
    if language is not None:
        yield start, "never closed", ""


def prose(text):
    """Without fenced blocks and code spans, line for line."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r"^ *```.*?^ *```[^\n]*$", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", blank, text)


def anchors(text):
    """What can stand behind #, as the usual renderers name headings."""
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", re.sub(r"^ *```.*?^ *```[^\n]*$", "", text,
                                                             flags=re.DOTALL | re.MULTILINE), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(slug if not count else f"{slug}-{count}")
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def check_links(pages):
    for page in pages:
        for number, line in enumerate(prose(read(page)).split("\n"), 1):
            for target in re.findall(r"\]\(([^()\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                if not os.path.exists(os.path.join(ROOT, file)):
                    yield f"{page}:{number}: {target}: there is no {file}"
                elif anchor and file.endswith(".md") and anchor not in anchors(read(file)):
                    yield f"{page}:{number}: {target}: {file} has no heading #{anchor}"


def known_tests(files):
    known = set()
    for file in files:
        if file.endswith("_test.c"):
            known.update("unit." + name for name in re.findall(r"^TEST\((\w+)\)", read(file), re.MULTILINE))
        match = re.fullmatch(r"tests/(e2e|kubernetes)/(\w+)\.py", file)
        if match:
            names = re.findall(r"^def test_(\w+)\(", read(file), re.MULTILINE)
            folder = f"e2e.{match.group(2)[5:]}." if match.group(1) == "e2e" else "kubernetes."
            known.update(folder + name for name in names)
        match = re.fullmatch(r"tests/scenarios/(.+)\.yaml", file)
        if match:
            known.add("scenario." + match.group(1))
        match = re.fullmatch(r"tests/seeds/(\d+)\.txt", file)
        if match:
            known.add("seed." + match.group(1))
    known.update("stranger." + name for name in re.findall(r'^    "([\w-]+)": ', read("tests/strangers/run.py"), re.MULTILINE))
    known.update("failure." + name for name in re.findall(r'^    Case\("([\w-]+)"', read("tests/failures/run.py"), re.MULTILINE))
    builds = "".join(read(f) for f in files if f.endswith("meson.build"))
    known.update("suite." + name for name in re.findall(r"^ *test\('([^']+)'", builds, re.MULTILINE))
    return known


def feature_rows(text):
    """(line, cells, Muster's cell, the row) of each row of the feature table."""
    column, row_count = None, 0
    for number, line in enumerate(text.split("\n"), 1):
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.strip().startswith("|") else []
        if not cells:
            column = None
        elif column is None and "Muster" in cells:
            column, row_count = cells.index("Muster"), 0
        elif column is not None and len(cells) > column:
            row_count += 1
            if row_count > 1:  # the first is the rule below the header
                yield number, cells, re.sub(r"<!--.*?-->", "", cells[column]).strip(), line


def check_features(pages):
    for page in TABLES:
        yield from table_problems(page)


def table_problems(readme):
    known = known_tests(tracked())
    rows = list(feature_rows(read(readme)))
    if not rows:
        yield f"{readme}: no table with a column \"Muster\""
    for number, cells, ours, line in rows:
        named = [n.strip() for c in re.findall(r"<!-- *tests?: *(.*?) *-->", line) for n in c.split(",")]
        if not named and ours.lower() not in ("no", "-", "—"):
            yield f"{readme}:{number}: \"{cells[0]}\" names no test; see tests/docs.py"
        for name in named:
            if name not in known:
                yield f"{readme}:{number}: \"{cells[0]}\": there is no test {name}"


def check_found(pages):
    known = known_tests(tracked())
    rows = [(number, line) for number, line in enumerate(read(FOUND).split("\n"), 1) if line.startswith("| ")][1:]
    if not rows:
        yield f"{FOUND}: no table"
    for number, line in rows:
        named = re.findall(r"`([^`]+)`", line.strip(" |").rsplit("|", 1)[-1])
        if not named:
            yield f"{FOUND}:{number}: the row names no test"
        for name in named:
            if name not in known:
                yield f"{FOUND}:{number}: there is no test {name}"


def named_rows(text):
    """(line, cells, the cell of the column "Test") of each row of such a table."""
    column = None
    for number, line in enumerate(text.split("\n"), 1):
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.strip().startswith("|") else []
        if not cells:
            column = None
        elif "Test" in cells:
            column = cells.index("Test")
        elif column is not None and len(cells) > column and not re.fullmatch(r":?-+:?", cells[column]):
            yield number, cells, cells[column]


WAYS = "docs/results.md"  # whatever ends a job: a row, and its test


def check_ways(pages):
    rows = [line for line in read(WAYS).split("## Ways to end")[1].split("\n## ")[0].split("\n") if line.startswith("| ")]
    if len(rows) < 15:
        yield f"{WAYS}: the table of ways to end has {len(rows)} rows"
    for line in rows:
        if not re.search(r"<!-- test: ", line) and not re.match(r"\| (the job|how it was made) \|", line):
            yield f"{WAYS}: \"{line.split('|')[1].strip()}\" names no test"


NAMED = r"((?:unit|e2e\.\w+|kubernetes|scenario)\.[a-z]\w{8,})"  # shorter ones are files: unit.yaml


def check_named(pages):
    known = known_tests(tracked())
    for page in pages:
        text = read(page)
        for number, cells, test in named_rows(text):
            if page in TABLES and not re.search(NAMED, test):
                yield f"{page}:{number}: \"{cells[0]}\" names no test"
        for number, line in enumerate(text.split("\n"), 1):
            comments = " ".join(re.findall(r"<!-- *tests?: *(.*?) *-->", line))
            for name in re.findall(rf"(?<![\w./]){NAMED}\b", comments) + re.findall(rf"`{NAMED}`", line):
                if name not in known:
                    yield f"{page}:{number}: there is no test {name}"


def check_examples(pages):
    page = read("docs/migrating.md")
    for file in tracked():
        if file.startswith("examples/scheduling/") and f"(../{file})" not in page:
            yield f"docs/migrating.md: {file} is not there"


def check_blocks(pages):
    for page in pages:
        for number, language, _ in fences(read(page)):
            if language not in LANGUAGES:
                yield f"{page}:{number}: a block \"{language}\"; known are {', '.join(sorted(LANGUAGES - {''}))}"


def main():
    pages = [f for f in tracked() if f.endswith(".md")]
    passed, failed = 0, 0
    for name, check in sorted(globals().items()):
        if not name.startswith("check_"):
            continue
        problems = list(check(pages))
        for problem in problems:
            print(problem)
        if problems:
            print(f"FAIL {name[6:]}: {len(problems)}")
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{len(pages)} pages, {len(list(feature_rows(read('README.md'))))} features")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
