#!/usr/bin/env python3
"""conformance_page.py [--write]: docs/reference/conformance.md, from tests/expected/conformance.txt.

The list has a line a failure, name and reason, and lines `#= GROUP: N passed, N failed, N not applicable` with what was
counted when the list was last made; lines `#- ...` are notes on that, which the page repeats
and `#@ COMMIT DAY FLAGS` is what ran. `#~ GROUP: ...` and
`#! NAME why` are the same of groups that were not run whole, or not since something was mended. Without --write it exits 1
when the page does not say what the list says.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "reference", "conformance.md")
HEAD = """# Conformance

What Kubernetes 1.33's own tests say of `muster up --nodes 2 --images oci --allow-privileged --pod-network bridge`; without
images and a network of their own, most pods of these tests cannot do what is asked of them. `make conformance` runs the tests
of its end-to-end suite that are marked as conformance, built from the pinned Go module, and kubectl's command-line tests:
`test-cmd` counts their functions, each of which ends at the first command that fails, and `test-cmd-checks` the assertions in
them, of a function that fails to its end. `CONFORMANCE_FOCUS='sig-apps'` runs some of them; `CONFORMANCE_FOCUS=test-cmd`
needs neither the end-to-end suite nor images. An unexpected failure fails the target, and so does an unexpected success. This
page is made from the list of what is expected (tests/expected) by `make reference`.

"""


def read(name):
    """([(group, counts)], [note], {reason: [test]}) of a list, and the same without notes of groups run in part."""
    counts, notes, reasons, part, open_reasons = [], [], {}, [], {}
    path = os.path.join(ROOT, "tests", "expected", name + ".txt")
    if not os.path.exists(path):
        return counts, notes, reasons, part, open_reasons
    with open(path) as f:
        for line in f:
            counted = re.match(r"#([=~]) ([^:]+): (.*)", line)
            failed = re.match(r"(?:#! )?(\[\S+|[^#\s]\S*)(.*)", line)
            ran = re.match(r"#@ (\S+) (\S+) (.*)", line)
            if ran:
                notes.append(f"Run on {ran.group(2)} on commit {ran.group(1)} with `muster up {ran.group(3)}`, in one piece.")
            elif line.startswith("#- "):
                notes.append(line[3:].strip())
            elif counted:
                (counts if counted.group(1) == "=" else part).append((counted.group(2), re.findall(r"\d+", counted.group(3))))
            elif failed:
                into = open_reasons if line.startswith("#!") else reasons
                into.setdefault(failed.group(2).strip() or "not looked at yet", []).append(failed.group(1))
    return counts, notes, reasons, part, open_reasons


def table(counts, columns):
    if not counts:
        return []
    return (["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"] +
            [f"| {group} | " + " | ".join(numbers) + " |" for group, numbers in counts] + [""])


def listed(reasons):
    out = []
    for why, tests in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        out.append(f"- {why}:")
        out += [f"  - {test.replace('_', ' ')}" if test.startswith("[") else f"  - `{test}`" for test in sorted(tests)]
    return out


def section(title, name, columns):
    counts, notes, reasons, part, open_reasons = read(name)
    out = [f"## {title}\n"] + table(counts, columns) + [note + "\n" for note in notes]
    out += ["What does not pass, and why:\n"] + listed(reasons) if reasons else ["Nothing is expected to fail."]
    if part:
        out += ["", "## Groups that were run in part, or not again\n"] + table(part, columns) + listed(open_reasons)
    return "\n".join(out) + "\n"


def page():
    return HEAD + section("Kubernetes' tests", "conformance", ("passed", "failed", "not applicable"))


def main(argv):
    if "--write" in argv:
        with open(PAGE, "w") as f:
            f.write(page())
        return 0
    with open(PAGE) as f:
        if f.read() == page():
            return 0
    print("docs/reference/conformance.md is not what tests/expected says; run: make reference")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
