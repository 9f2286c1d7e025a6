#!/usr/bin/env python3
"""run.py [--list] [WORD...]: clients that nobody here wrote, each in a short real use against `muster up`.

Each comes from its registry by name and pinned version, into a folder of its own in the cache ($XDG_CACHE_HOME or ~/.cache,
muster/strangers), never into the system: Python packages into virtual environments, npm packages beside a script. One that
cannot be had here is skipped and counted. WORD: only those with it in their name. Ends with `N passed, N failed, N skipped`,
and a line `failed: NAME` for each that failed; none is expected to (tests/result.py compares).
"""

import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

from harness import Failure, Muster, Skip, run  # noqa: E402

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster", "strangers")
INSTALL_S = 1800
LIMIT_S = 300


def install(name, make):
    """The folder of this name in the cache; make(folder) fills it once. Skip when that fails."""
    folder = os.path.join(CACHE, name)
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        make(folder)
    except (OSError, subprocess.SubprocessError) as e:
        said = (getattr(e, "stderr", None) or str(e)).strip().splitlines()
        raise Skip(f"{name} cannot be had here: {said[-1] if said else e}") from e
    with open(os.path.join(folder, "complete"), "w"):
        pass
    return folder


def command(*argv, env=None, cwd=None):
    subprocess.run(argv, check=True, text=True, timeout=INSTALL_S, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def python(script, *packages):
    """A test that runs a script in a virtual environment with these packages."""
    def play(m):
        def make(folder):
            command(sys.executable, "-m", "venv", folder)
            command(os.path.join(folder, "bin/pip"), "install", "--quiet", *packages)
        folder = install("python-" + "-".join(p.replace("==", "-") for p in packages), make)
        run([os.path.join(folder, "bin/python"), os.path.join(HERE, "python", script)], env=m.env, limit=LIMIT_S)
    return play


def node(m):
    package = "@kubernetes/client-node@1.4.0"

    def make(folder):
        command("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder, package, cwd=folder)
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("no node and npm here")
    folder = install(package.replace("/", "-").replace("@", "-").strip("-"), make)
    script = os.path.join(folder, "client.mjs")  # beside its packages, where node looks for them
    shutil.copyfile(os.path.join(HERE, "node/client.mjs"), script)
    run(["node", script], env=m.env, limit=LIMIT_S)


STRANGERS = {
    "python-kubernetes": python("official.py", "kubernetes==37.0.2"),
    "python-kubernetes-asyncio": python("asynchronous.py", "kubernetes_asyncio==36.1.0"),
    "python-kr8s": python("kr8s_objects.py", "kr8s==0.20.15"),
    "python-lightkube": python("lightkube_objects.py", "lightkube==1.0.1", "lightkube-models==1.37.0.8"),
    "python-kopf": python("kopf_operator.py", "kopf==1.45.2", "kubernetes==37.0.2"),
    "node-client": node,
}


def play(name):
    """(what became of it, why) of one client, with a muster of its own."""
    try:
        with Muster() as m:
            STRANGERS[name](m)
    except Skip as e:
        return "skipped", str(e)
    except (Failure, OSError, subprocess.SubprocessError) as e:
        return "failed", str(e)
    return "passed", ""


def main(argv):
    words = [a for a in argv if not a.startswith("-")]
    names = [name for name in STRANGERS if not words or any(word in name for word in words)]
    if "--list" in argv:
        print("\n".join(names))
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        start = time.monotonic()
        verdict, why = play(name)
        counts[verdict] += 1
        print(f"{verdict}: {name} ({time.monotonic() - start:.0f} s){': ' + why if why else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
