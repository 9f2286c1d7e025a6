"""Runs every ```sh runnable block of the pages, as a reader would: from the top of the tree, top to bottom of a page,
in one shell, with the programs on the PATH and KUBECONFIG pointing at a running server with four nodes of 8 GPUs.

A block must exit 0. The lines of a ```text printed block of the page are among what they print, in this order; other outputs
are examples. A page must leave nothing behind in the tree.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from docs import fences, read, tracked  # noqa: E402
from harness import ROOT, Failure, Muster, check, run  # noqa: E402

BLOCK = "sh runnable"
PRINTED = "text printed"


def runnable_pages():
    for page in sorted(f for f in tracked() if f.endswith(".md")):
        blocks = [(line, body) for line, language, body in fences(read(page)) if language == BLOCK]
        if blocks:
            yield page, blocks


def script_of(page, blocks):
    """The page as one script that says which block it is in."""
    lines = ["set -euo pipefail"]
    for line, body in blocks:
        lines += [f"echo '--- {page}:{line}' >&2", body]
    return "\n".join(lines) + "\n"


def not_printed(page, said):
    """The first line of each block that the page shows and its blocks did not print behind those before it."""
    for line, language, body in fences(read(page)):
        rest = iter([text.rstrip() for text in said.splitlines()])
        missing = [text for text in body.splitlines() if text.rstrip() not in rest] if language == PRINTED else []
        yield from (f"{page}:{line}: {text}" for text in missing[:1])


def test_runnable_blocks_run():
    pages = list(runnable_pages())
    check(pages, f"no page has a block ```{BLOCK}")
    before = run(["git", "status", "--porcelain"], cwd=ROOT, ok=False).stdout
    for page, blocks in pages:
        with Muster(nodes=4, gpus_per_node=8, pytorch="ranks") as m:
            done = run(["bash", "-c", script_of(page, blocks)], cwd=ROOT, env=m.env, ok=False, limit=240)
            if done.returncode != 0:
                raise Failure(f"{page}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
            missing = list(not_printed(page, done.stdout))
            check(not missing, "not printed:\n" + "\n".join(missing) + f"\nbut\n{done.stdout[-2000:]}")
        print(f"{page}: {len(blocks)} blocks")
    check(run(["git", "status", "--porcelain"], cwd=ROOT, ok=False).stdout == before, "a page left files in the tree")
