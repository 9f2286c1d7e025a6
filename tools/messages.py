#!/usr/bin/env python3
"""Every message that the programs can show, on one page: docs/reference/messages.md.

    tools/messages.py           prints the page
    tools/messages.py --write   writes it (make reference)
    tools/messages.py --check   fails when the page is not up to date (the test "reference")

A message is a string in the source that has at least two words: error texts, log messages, conditions, events, help
texts and what the commands print. It does not matter which function gets the string, so no message is missed because
a new function passes it on. Strings for machines are left out: SQL, JSON, HTTP headers, scripts, wire formats, asserts.
Adjacent strings are one message; a macro between them is shown as <ITS_NAME>. The page has no line numbers,
because they would change with every edit."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/messages.md"
FOLDERS = ("src", "preload")
NOT_SHIPPED = re.compile(r"(_test|_fuzz|_bench)\.c$|_harness|(^|/)(test|harness|unit|scene)[a-z_]*\.[ch]$")

TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<include>^[ \t]*\#[ \t]*(include|pragma|error|warning)[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<char>'(?:[^'\\\n]|\\.)*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<space>(?:\s|\\\n)+)
      | (?P<other>.)""",
    re.S | re.M | re.X)

# Strings inside these calls are for programmers.
NOT_FOR_PEOPLE = {"assert", "static_assert", "_Static_assert", "__attribute__", "asm", "__asm__"}
SQL = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE FROM|CREATE|ALTER|DROP|PRAGMA|BEGIN|COMMIT|ROLLBACK|VACUUM|"
                 r"WITH|REPLACE|FROM|WHERE|ORDER BY|ATTACH|REINDEX)\b(?! of\b)")
HEADER = re.compile(r"^HTTP/1|^[A-Z][A-Za-z]*(-[A-Z][A-Za-z]*)+: |^(GET|POST|PUT|HEAD|OPTIONS|PATCH) |\\r\\n|^text/plain")
SCRIPT = re.compile(r"^\s*[{<]|^\[\[|^#!|^#compdef|\$\(\(|\$\{|\$<|\$1|^import |^trap |^apiVersion: |^users:|^table ip|"
                    r"^ chain|^delete table|^local -a|COMPREPLY|^\.(SS|TH|SH) |^-----|^# HELP %|:string:0|if \(\(|"
                    r"-n '__fish|^sum by |^\+cpu|^mnt_id|^stop\\nforget")
WIRE = {"src/shim/message.c", "src/http/spdy.c", "src/launch/shell.c", "src/net/hosts.c", "src/server/openapi_v2.c"}
FORMAT = re.compile(r"%[-+ #0-9.*]*(hh|h|ll|l|j|z|t)?[a-zA-Z%]|<[A-Za-z0-9_]+>|\\[a-z]")
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
TABLE_LINES = 8  # a string of as many lines is a table: each line is a message


def strings(text):
    """The strings of a C file, neighbours joined, each with the names of the calls it stands in."""
    calls, word = [], ""
    parts, between = [], []
    for match in TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind in ("comment", "space"):
            continue
        if kind == "string":
            parts += between + [token[1:-1]]
            between = []
            continue
        if kind == "word" and parts and token.isupper() or kind == "word" and token.startswith("PRI"):
            between.append("<" + token + ">")
            word = token
            continue
        if parts:
            yield "".join(parts + [name for name in between if name.startswith("<PRI")]), tuple(calls)
        parts, between = [], []
        if token == "(":
            calls.append(word)
        elif token == ")" and calls:
            calls.pop()
        word = token if kind == "word" else ""


def is_message(text, calls):
    if NOT_FOR_PEOPLE.intersection(calls) or any("sql" in call for call in calls):
        return False
    if SQL.match(text) or HEADER.search(text) or SCRIPT.search(text):
        return False
    return len(WORD.findall(FORMAT.sub(" ", text))) >= 2 and " " in text.strip()


def plain(text):
    """As one reads it: no escapes, and one line."""
    text = re.sub(r"%?[0-9]*<(STR_FMT|PRI\w+)>", "%s", text)
    text = text.replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\").replace("%%", "%")
    text = re.sub(r"\\x1b\[[0-9;]*[A-Za-z]|\\033\[[0-9;]*[A-Za-z]", "", text)
    return re.sub(r"\s+", " ", text.replace("\\n", " ").replace("\\t", " ")).strip()


def page():
    lines = ["# Messages", "",
             "All texts that the programs can show: errors, log messages, conditions, events, help. `make reference` writes this",
             "page from the source (tools/messages.py); do not edit it. `%s` and the like stand for a name or a number, `<NAME>`",
             "for a constant.", ""]
    files = sorted(f for d in FOLDERS for f in (ROOT / d).rglob("*.[ch]"))
    folder = None
    for file in sorted(files, key=lambda f: (str(f.parent), f.name)):
        name = str(file.relative_to(ROOT))
        if NOT_SHIPPED.search(name) or name in WIRE:
            continue
        found = {}
        for text, calls in strings(file.read_text()):
            is_table = text.count("\\n") >= TABLE_LINES and not SCRIPT.match(text)
            for part in text.split("\\n") if is_table else [text]:
                if is_message(part, calls):
                    found[plain(part)] = True
        if not found:
            continue
        if file.parent != folder:
            folder = file.parent
            lines += ["## " + str(folder.relative_to(ROOT)), ""]
        lines += ["### " + file.name, ""]
        lines += ["- `` " + text + " ``" for text in found] + [""]
    return "\n".join(lines)


def main():
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    elif sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit("docs/reference/messages.md is not what the source says; run: make reference")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
