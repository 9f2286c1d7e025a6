#!/usr/bin/env python3
"""ignore.py PROGRAM [TREES [SEED]]: what is sent of a folder, against `git check-ignore`.

Makes random trees with random .gitignore files in them, above them and in .git/info/exclude; PROGRAM (build/ignored) says
what would be sent of each tree, git what it ignores. The two must agree about every path. Prints the seed, and of what
differs the rules and the paths.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY_TREES = 50  # trees of one repository: one call of git for all of them
SHM = "/dev/shm"
NAMES = ["a", "b", "c", "ab", "abc", "a.py", "data.py", "metadata.py", "b.pt", "c d", "[a]", "x#y", "!a", "a-b", "aB7"]
PIECES = ["a", "b", "c", "ab", "data", "meta", ".py", ".pt", "*", "**", "?", "[ab]", "[!a]", "[^b-c]", "[]a]", "[[:alpha:]]",
          "[[:digit:]x]", "[a", "[[:no:]]", "\\", "\\*", "\\[", " ", "\\ ", "#", "!", "-", "**/", "/**", "/", "/**/", "a/", "/b"]


def pattern(rng):
    if rng.random() < 0.4:  # as people write them
        text = rng.choice(["", "", "/", "**/", "a/", "*/"]) + rng.choice(NAMES + ["*.py", "*.p?", "*", "a*", "*a", "**"]) \
            + rng.choice(["", "", "/", "/**", "/*"])
    else:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 5)))
    if rng.random() < 0.25:
        text = "!" + text
    return text + rng.choice(["", "", "", "", " ", "\r", "  "])


def rules(rng, most=5):
    return "\n".join(pattern(rng) for _ in range(rng.randint(0, most))) + rng.choice(["\n", ""])


def make_tree(rng, folder, depth=0):
    """Every path below; the folder exists."""
    paths = []
    if rng.random() < (0.9 if depth == 0 else 0.15):
        with open(os.path.join(folder, ".gitignore"), "w", newline="") as f:
            f.write(rules(rng))
        paths.append(".gitignore")
    for name in rng.sample(NAMES, rng.randint(2, 6)):
        path = os.path.join(folder, name)
        if depth < 3 and rng.random() < 0.45:
            os.mkdir(path)
            paths += [name] + [os.path.join(name, below) for below in make_tree(rng, path, depth + 1)]
        else:
            open(path, "w").close()
            paths.append(name)
    return paths


def check_repository(program, rng, top, count):
    """What differs, in words, and how many trees were compared."""
    os.makedirs(os.path.join(top, "sub", "deep"))
    env = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", HOME=top, XDG_CONFIG_HOME=top)
    subprocess.run(["git", "init", "-q", "."], cwd=top, check=True, env=env)
    for path, most in ((".gitignore", 2), ("sub/.gitignore", 2), (".git/info/exclude", 1)):
        with open(os.path.join(top, path), "w", newline="") as f:
            f.write(rules(rng, most))
    trees = {}
    for i in range(count):
        place = rng.choice(["", "sub/", "sub/deep/"]) + f"T{i}"
        os.makedirs(os.path.join(top, place))
        trees[place] = [f"{place}/{path}" for path in make_tree(rng, os.path.join(top, place))]
    asked = "\0".join(list(trees) + [path for paths in trees.values() for path in paths])
    done = subprocess.run(["git", "check-ignore", "--no-index", "--stdin", "-z"], cwd=top, input=asked, text=True, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):
        sys.exit(f"git check-ignore: {done.stderr}")
    ignored = set(done.stdout.split("\0"))
    compared = [place for place in trees if place not in ignored]  # else the rules above do not count
    sent = set(subprocess.run([program, *compared], cwd=top, text=True, check=True,
                              stdout=subprocess.PIPE).stdout.splitlines()) if compared else set()
    found = []
    for place in compared:
        wrong = [(path, path in sent) for path in trees[place] if (path in sent) == (path in ignored)]
        if wrong:
            texts = []
            for folder in ("", "sub", "sub/deep", place):
                for name in (".git/info/exclude", ".gitignore"):
                    try:
                        with open(os.path.join(top, folder, name), newline="") as f:
                            texts.append(f"{os.path.join(folder, name)}: {f.read()!r}")
                    except OSError:
                        pass
            lines = [f"{path}: {'sent' if was else 'left out'}, git says the opposite" for path, was in wrong[:5]]
            found.append("\n  ".join([f"tree {place}:", *texts, *lines]))
    return found, len(compared)


def main():
    program = os.path.abspath(sys.argv[1])
    trees = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
    if not shutil.which("git"):
        print("git is not installed: nothing to compare with")
        sys.exit(77)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    compared = 0
    found = []
    while compared < trees:
        with tempfile.TemporaryDirectory(prefix="muster-ignore-", dir=SHM if os.access(SHM, os.W_OK) else None) as top:
            words, number = check_repository(program, rng, top, REPOSITORY_TREES)
            found += words
            compared += number
    for words in found[:10]:
        print(words)
    print(f"{compared} trees compared, {len(found)} differ")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
