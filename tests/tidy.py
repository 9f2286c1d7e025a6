#!/usr/bin/env python3
"""tidy.py [FILE...]: the house rules that can be checked without compiling.

Format (clang-format 14, where it is installed), size of files and functions, number of parameters, depth of
nesting, calls that have a better replacement here, templates of JSON, leftovers, files that nothing uses. One check a
rule; ends with `N passed, N failed, N skipped`. With files, only these are looked at.
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
NESTING_MAX = 4
COLUMNS_MAX = 130  # of what clang-format does not lay out: Python and shell

# A call, and what to use instead.
BANNED = {
    "strcpy": "str_dup() or buf_add()", "strcat": "buf_add()", "sprintf": "buf_addf() or snprintf()",
    "vsprintf": "buf_addf()", "strtok": "str_cut()", "strtok_r": "str_cut()",
    "atoi": "str_to_i64()", "atol": "str_to_i64()", "atoll": "str_to_i64()", "strtol": "str_to_i64()",
    "strtoll": "str_to_i64()", "strtoul": "str_to_u64()", "strtoull": "str_to_u64()", "strtod": "json_i64()",
    "gmtime": "time_format()", "localtime": "time_format()", "ctime": "time_format()",
    "strerror": "strerrordesc_np()", "dup": "fcntl(F_DUPFD_CLOEXEC)", "accept": "accept4(SOCK_CLOEXEC)",
    "alloca": "an arena", "system": "posix_spawn() or uv_spawn()", "popen": "posix_spawn()",
    "sleep": "a condition with a limit", "usleep": "a condition with a limit", "rand": "rng_next()",
    "srand": "struct rng", "tmpnam": "mkstemp()", "mktemp": "mkstemp()",
}
# Fine in tests and benches, which own their machine and end when something is odd.
PRODUCT_ONLY = {"system", "rand", "srand", "strtod", "strtoul", "strtoull", "strtoll", "strtol", "atol", "strerror"}
# Functions with more parameters, and better so, with the reason. This list should only shrink.
EXCEPTIONS = {
    "session_list": "each is a column filter the caller has at hand",
    "http_reply_parts": "a reply has these parts",
    "walk_index": "hot loop: no struct is built for it",
    "answer": "what libmicrohttpd calls has these parameters",
    "topology_subsets": "hot loop: no struct is built for it",
}
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
CONTROL = re.compile(r"^(\} else )?(if|for|while|switch|do|else|[A-Z_]+_FOREACH)\b")


def tracked():
    text = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    return [f for f in text.splitlines() if os.path.isfile(os.path.join(ROOT, f))]


def read(file):
    with open(os.path.join(ROOT, file), encoding="utf-8", errors="replace") as f:
        return f.read()


def without_text(source):
    """C with comments and literals blanked, line for line."""
    def blank(match):
        text = match.group(0)
        return re.sub(r"[^\n]", " ", text) if text[0] == "/" else text[0] + " " * (len(text) - 2) + text[0]
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, source, flags=re.DOTALL)


def functions(source):
    """(name, first line, lines, parameters, nesting) of each function; relies on the format."""
    lines = source.split("\n")
    for start, line in enumerate(lines):
        if line != "{":
            continue
        head = start - 1
        while head > 0 and lines[head] and lines[head][0] not in "}#" and not lines[head].endswith(";"):
            head -= 1
        text = " ".join(lines[head + 1:start])
        match = re.search(r"(\w+)\((.*)\)[^()]*$", text)
        end = start + 1
        while end < len(lines) and lines[end] != "}":
            end += 1
        if not match:
            continue
        depth, deepest, stack = 0, 0, []
        for body in lines[start + 1:end]:
            code = body.strip()
            if code.startswith("}") and stack:
                depth -= stack.pop()
            if code.endswith("{"):
                stack.append(1 if CONTROL.match(code) else 0)
                depth += stack[-1]
                deepest = max(deepest, depth)
        parameters = 0 if match.group(2) in ("", "void") else count_commas(match.group(2)) + 1
        yield match.group(1), start, end - start - 1, parameters, deepest


def count_commas(text):
    depth, commas = 0, 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        commas += c == "," and depth == 0
    return commas


def check_format(files):
    program = shutil.which("clang-format-14")
    if not program:
        print("tidy: clang-format-14 is not installed: the format is not checked")
        return
    done = subprocess.run([program, "--dry-run", "-Werror", "--ferror-limit=1"] + files["c"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in done.stdout.splitlines():
        if ": error:" in line:
            yield line.split(": error:")[0] + ": not as clang-format-14 lays it out"


def check_file_size(files):
    for file in files["c"]:
        count = read(file).count("\n")
        if count > FILE_LINES_MAX:
            yield f"{file}: {count} lines, more than {FILE_LINES_MAX}"


def check_functions(files):
    for file in files["c"]:
        for name, line, count, parameters, nesting in functions(without_text(read(file))):
            where = f"{file}:{line}: {name}()"
            if count > FUNCTION_LINES_MAX and not name.startswith("TEST"):
                yield f"{where}: {count} lines, more than {FUNCTION_LINES_MAX}"
            if parameters > PARAMETERS_MAX and name not in EXCEPTIONS:
                yield f"{where}: {parameters} parameters, more than {PARAMETERS_MAX}"
            if nesting > NESTING_MAX:
                yield f"{where}: nested {nesting} deep, more than {NESTING_MAX}"


def check_banned(files):
    pattern = re.compile(r"(?<![\w>.])(" + "|".join(BANNED) + r")\s*\(")
    for file in files["c"]:
        source = read(file).split("\n")
        product = file.startswith(("src/", "preload/")) and not file.endswith("_test.c")
        for number, line in enumerate(without_text("\n".join(source)).split("\n"), 1):
            if "NOLINT" in source[number - 1]:
                continue  # with its reason beside it
            for match in pattern.finditer(line):
                if not product and match.group(1) in PRODUCT_ONLY:
                    continue
                yield f"{file}:{number}: {match.group(1)}(): use {BANNED[match.group(1)]}"


def check_leftovers(files):
    for file in files["all"]:
        if file == "tests/tidy.py" or not re.search(r"\.(c|h|py|sh|md|build|yaml|yml)$|Makefile$", file):
            continue
        for number, line in enumerate(read(file).split("\n"), 1):
            if LEFTOVERS.search(line):
                yield f"{file}:{number}: left over: {line.strip()[:60]}"


def check_dead_files(files):
    builds = "".join(read(f) for f in files["all"] if f.endswith("meson.build"))
    included = set(re.findall(r"#\s*include \"([^\"]+)\"", "".join(read(f) for f in files["c"])))
    for file in files["c"]:
        name = os.path.basename(file)
        if file.endswith(".c") and f"'{name}'" not in builds and f"/{name}'" not in builds:
            yield f"{file}: no meson.build names it"
        if file.endswith(".h") and not any(file.endswith(i) for i in included) and f"'{file}'" not in builds:
            yield f"{file}: nothing includes it"


def template_arguments(source, start):
    """The $ in a template's text and the arguments behind it, for a call whose arguments begin at `start`."""
    parts, depth, part, literal = [], 0, "", False
    for at in range(start, len(source)):
        char = source[at]
        if char == '"' and source[at - 1] != "\\":
            literal = not literal
        if not literal:
            if char in "([{":
                depth += 1
            elif char in ")]}":
                depth -= 1
            if depth < 0 or (char == "," and depth == 0):
                parts.append(part)
                part = ""
                if depth < 0:
                    break
                continue
        part += char
    template = next((i for i, p in enumerate(parts) if p.strip()[:1] == '"'), None)
    return None if template is None else (re.sub(r"'[^']*'", "", parts[template]).count("$"), len(parts) - template - 1)


def check_templates(files):
    """json_make() and json_fill() abort where the arguments are too many or too few."""
    bad = []
    for file in (f for f in files["c"] if f.endswith(".c")):
        source = read(file)
        for call in re.finditer(r"\bjson_(?:make|fill)\(", source):
            found = template_arguments(source, call.end())
            if found and found[0] != found[1]:
                line = source.count("\n", 0, call.start()) + 1
                bad.append(f"{file}:{line}: the template has {found[0]} $, and {found[1]} arguments follow it")
    return bad


def check_pragma(files):
    for file in files["c"]:
        if file.endswith(".h") and not read(file).startswith("#pragma once\n"):
            yield f"{file}: does not start with #pragma once"


def check_keys(files):
    """A label or annotation of ours that src/api/keys.c does not have would be warned about as one that nothing reads."""
    known = re.findall(r'\{"([a-z][\w./-]*)(\*?)"', read("src/api/keys.c"))
    for file in files["c"]:
        if file.endswith(("_test.c", "_test.h", "_fuzz.c")) or not file.startswith("src/"):
            continue
        keys = re.findall(r'"((?:kai\.scheduler|muster\.dev|run\.ai|runai|torchrun\.ai)/(?!v\d)[a-z][\w.-]*)', read(file))
        for key in set(keys):
            if not any(key.startswith(k) if star else key == k for k, star in known):
                yield f"{file}: {key} is not in src/api/keys.c"


def check_columns(files):
    for file in files["all"]:
        if not file.endswith((".py", ".sh")):
            continue
        for number, line in enumerate(read(file).split("\n"), 1):
            if len(line) > COLUMNS_MAX and "'^" not in line:
                yield f"{file}:{number}: {len(line)} columns, more than {COLUMNS_MAX}"


def check_scripts(files):
    for file in files["all"]:
        if not file.endswith((".sh", ".py")) or not read(file).startswith("#!"):
            continue
        if not os.access(os.path.join(ROOT, file), os.X_OK):
            yield f"{file}: a script that is not executable"


def main(argv):
    every = tracked()
    chosen = [f for f in every if not argv or f in argv]
    files = {"all": chosen, "c": [f for f in chosen if f.endswith((".c", ".h"))]}
    passed, failed = 0, 0
    for name, check in sorted(globals().items()):
        if not name.startswith("check_") or (argv and name == "check_dead_files"):
            continue
        problems = list(check(files))
        for problem in problems:
            print(problem)
        if problems:
            print(f"FAIL {name[6:]}: {len(problems)}")
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
