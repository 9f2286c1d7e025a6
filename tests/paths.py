#!/usr/bin/env python3
"""paths.py: a program is the same wherever the tree lies: two copies of it, in folders of their own, that are configured as
`make` does, make the same muster-shim and libmuster-gpu.so, bit by bit. The build-id of a program is a sum over all of it."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MADE = ("muster-shim", "libmuster-gpu.so")
NOT_BUILT_FROM = ("docs/", "deploy/chart/", "examples/", "tests/corpus/")  # not copied: it takes as long as the rest


def copy(files, into):
    for name in files:
        if not name.startswith(NOT_BUILT_FROM) and os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.join(into, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(into, name), follow_symlinks=False)


def sums(files, into):
    """Of what a copy of the tree there makes."""
    copy(files, into)
    env = dict(os.environ, MUSTER_BUILD_ID="paths", CCACHE_DISABLE="1")  # it gives an object of another folder
    for argv in (["tools/configure.sh", "out"], ["ninja", "-C", "out", "--quiet", *MADE]):
        done = subprocess.run(argv, cwd=into, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{' '.join(argv)}: {done.stdout[-3000:]}")
    found = {}
    for name in MADE:
        with open(os.path.join(into, "out", name), "rb") as f:
            found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, check=False)
    if listed.returncode != 0:
        print("skipped: the tree is no git repository, which would say what belongs to it")
        sys.exit(77)
    files, failed = listed.stdout.splitlines(), 0
    with tempfile.TemporaryDirectory(prefix="a") as one, tempfile.TemporaryDirectory(prefix="another-folder-") as other:
        first, second = sums(files, one), sums(files, other)
    for name in MADE:
        print(f"{name}: {first[name]} and {second[name]}")
        failed += first[name] != second[name]
    print(f"{len(MADE) - failed} passed, {failed} failed, 0 skipped")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
