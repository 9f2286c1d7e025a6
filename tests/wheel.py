#!/usr/bin/env python3
"""wheel.py [WHEEL]: the wheel of dist/ does what its page promises, in a fresh virtual environment: its tag is true, it installs
without a compiler and without root's help, `muster run` trains on two ranks with the PyTorch of this machine, the model is in
the folder, and nothing is left after `muster stop --all` and `pip uninstall`.

Ends with `N passed, N failed, N skipped`; exits 77, saying why, where it cannot run.
"""

import glob
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), os.path.join(ROOT, "tools")]
from harness import PATIENCE, check, run, torch_pythons, wait_for  # noqa: E402
from test_run import TRAIN, processes  # noqa: E402
import wheel as maker  # noqa: E402


def skip(why):
    print(f"wheel: skipped: {why}")
    sys.exit(77)


def find_wheel():
    if len(sys.argv) > 1:
        return os.path.abspath(sys.argv[1])
    found = glob.glob(os.path.join(ROOT, "dist", f"*_{platform.machine()}.whl"))
    if not found:
        skip("there is no wheel for this machine in dist/: run make wheel")
    return max(found, key=os.path.getmtime)


def environment(folder, python):
    """A virtual environment that sees the machine's PyTorch, and its own programs first."""
    venv = os.path.join(folder, "venv")
    run([python, "-m", "venv", "--system-site-packages", "--without-pip", venv])
    # No server, and no other program of muster's.
    env = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "PYTHONPATH")}
    path = [p for p in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(p, "muster"))]
    env.update(HOME=folder, MUSTER_DATA_DIR=os.path.join(folder, "data"), PATH=":".join([venv + "/bin", *path]),
               VIRTUAL_ENV=venv, NO_COLOR="1")
    return venv, env


def pip(venv, *argv):
    return run([sys.executable, "-m", "pip", "--python", os.path.join(venv, "bin/python"), *argv, "--disable-pip-version-check"])


def check_tag(wheel, venv):
    package = glob.glob(os.path.join(venv, "lib/python3*/site-packages/muster_train"))[0]
    elves = [os.path.join(d, n) for d, _, names in os.walk(package) for n in names if maker.is_elf(os.path.join(d, n))]
    major, minor = maker.glibc_needed(elves)
    check(f"manylinux_{major}_{minor}_" in os.path.basename(wheel), f"it needs glibc {major}.{minor}: {wheel}")
    check(not maker.missing_libraries(elves, set(map(os.path.basename, elves))), "libraries are missing")


def check_run(project, env):
    with open(os.path.join(project, "train.py"), "w") as f:
        f.write(TRAIN)
    began = time.monotonic()
    done = run(["muster", "run", "--gpus", "2", "train.py", "--lr", "0.5"], cwd=project, env=env, limit=300)
    check(done.stdout.count("sum [0.5, 0.5]") == 2, done.stdout + done.stderr)
    check(os.path.getsize(os.path.join(project, "model.pt")) > 0, done.stderr)
    print(f"wheel: from nothing to a trained model in {time.monotonic() - began:.1f} s")
    done = run(["python", "-c", "import muster_train; raise SystemExit(muster_train.run('train.py', '--lr', 1, gpus=2))"],
               cwd=project, env=env, limit=300)
    check(done.stdout.count("sum [1.0, 1.0]") == 2, done.stdout + done.stderr)
    check("default" in run(["kubectl-torchrun", "queues"], cwd=project, env=env).stdout, "kubectl-torchrun")


def main():
    wheel = find_wheel()
    pythons = [p for p, _ in torch_pythons()]
    if not pythons:
        skip("no Python here can import torch")
    if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL).returncode:
        skip("there is no pip")
    folder = tempfile.mkdtemp(prefix="muster-wheel-")
    try:
        venv, env = environment(folder, pythons[-1])
        project = os.path.join(folder, "project")
        os.mkdir(project)
        pip(venv, "install", "--no-index", "--no-deps", wheel)
        check_tag(wheel, venv)
        try:
            check_run(project, env)
        finally:
            run(["muster", "stop", "--all"], env=env, ok=False, limit=120)
        data = env["MUSTER_DATA_DIR"]
        check(not os.path.exists(data), f"{data} is left")
        wait_for(lambda: not processes(data) and not processes(venv + "/lib"), "no process to be left", 20 * PATIENCE)
        pip(venv, "uninstall", "-y", maker.NAME)
        left = [d for d, _, names in os.walk(venv) for n in names if "muster" in os.path.join(d, n) and folder not in n
                and "muster" in os.path.join(d, n)[len(folder):]]
        check(not left, f"left after uninstalling: {left}")
    except Exception as e:
        print(f"FAIL wheel: {e}\n0 passed, 1 failed, 0 skipped")
        sys.exit(1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("1 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    main()
