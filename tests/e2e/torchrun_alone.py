"""A Python whose torchrun starts without PyTorch, for tests that are about jobs and not about training: real torchrun on real
PyTorch needs 1.5 seconds of a processor for every pod before it does anything, this one 0.3. It is Python and torchrun of the
PyTorch 1.13 on this machine, with standin_torch/ instead of the compiled part; where there is no 1.13, tests use the real one."""

import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, "standin_torch")
FOLDER = "MUSTER_TEST_TORCHRUN"  # in the environment: where its python3 is
LOOK = ("import importlib.util, sys; print(sys.version_info[0], sys.version_info[1], "
        "importlib.util.find_spec('torch').submodule_search_locations[0])")


def make(build, pythons):
    """The folder of such a python3 in `build`, None where `pythons`, of (path, version), have no 1.13. Whole at once, as others
    may look for it, and the same for every run of the same files."""
    python = next((path for path, version in pythons if version.startswith("1.13.")), None)
    if not python:
        return None
    major, minor, torch = subprocess.run([python, "-c", LOOK], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    newest = max(os.stat(os.path.join(path, name)).st_mtime_ns for path, _, names in os.walk(STANDIN) for name in names)
    folder = os.path.join(build, f"torchrun-alone-{newest}")
    if not os.path.exists(folder):
        new = f"{folder}.{os.getpid()}"
        _write(new, python, f"python{major}.{minor}", torch)
        try:
            os.rename(new, folder)
        except OSError:  # somebody else was quicker
            shutil.rmtree(new)
    return os.path.join(folder, "bin")


def _write(folder, python, name, torch):
    """A virtual environment, by hand: a second of `python -m venv` is for pip."""
    site = os.path.join(folder, "lib", name, "site-packages")
    os.makedirs(os.path.join(folder, "bin"))
    for word in ("python3", "python"):
        os.symlink(python, os.path.join(folder, "bin", word))
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as f:
        f.write(f"home = {os.path.dirname(python)}\ninclude-system-site-packages = true\nversion = {name[6:]}\n")
    shutil.copytree(STANDIN, os.path.join(site, "torch"), ignore=shutil.ignore_patterns("__pycache__"))
    os.symlink(os.path.join(torch, "version.py"), os.path.join(site, "torch", "version.py"))
    # Pods may not write what Python makes of it.
    subprocess.run([python, "-m", "compileall", "-q", site], check=True)
