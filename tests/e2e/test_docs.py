"""Runs every ```sh runnable block of the pages, as a reader would: from the top of the tree, top to bottom of a page,
in one shell, with the programs on the PATH and KUBECONFIG pointing at a running server with four nodes of 8 GPUs.

A block must exit 0. What it prints is not compared: outputs on the pages are examples. A page must leave nothing
behind in the tree.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from docs import fences, read, tracked  # noqa: E402
from harness import ROOT, Failure, Muster, check, run  # noqa: E402

BLOCK = "sh runnable"


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


def test_runnable_blocks_run():
    pages = list(runnable_pages())
    check(pages, f"no page has a block ```{BLOCK}")
    before = run(["git", "status", "--porcelain"], cwd=ROOT, ok=False).stdout
    for page, blocks in pages:
        with Muster(nodes=4, gpus_per_node=8) as m:
            done = run(["bash", "-c", script_of(page, blocks)], cwd=ROOT, env=m.env, ok=False, limit=240)
            if done.returncode != 0:
                raise Failure(f"{page}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        print(f"{page}: {len(blocks)} blocks")
    check(run(["git", "status", "--porcelain"], cwd=ROOT, ok=False).stdout == before, "a page left files in the tree")
