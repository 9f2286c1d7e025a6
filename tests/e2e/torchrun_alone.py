"""Pythons of tests, which start in less time than the one with the PyTorch 1.13 of this machine; where there is none, tests use
the real ones.

alone   for tests that are about jobs and not about training: its torchrun starts without PyTorch. Real torchrun on real PyTorch
        needs 1.5 seconds of a processor for every pod before it does anything, this one 0.3. It is Python and torchrun of that
        PyTorch, with standin_torch/ instead of the compiled part.
ranks   for tests that train and are not about torchrun: its torchrun is alone, and its PyTorch is there but for parts that no
        test calls (quick_torch.py): 1.3 seconds of a processor to import it and not 1.8."""

import glob
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, "standin_torch")
QUICK = os.path.join(HERE, "quick_torch.py")
FOLDER = "MUSTER_TEST_TORCHRUN"  # in the environment: where python3 of `alone` is
RANKS = "MUSTER_TEST_RANKS"  # and of `ranks`
LOOK = ("import importlib.util, sys; print(sys.version_info[0], sys.version_info[1], "
        "importlib.util.find_spec('torch').submodule_search_locations[0])")
COMPILED = "/usr/lib/*/libtorch_cpu.so.1.13"  # Debian's
NOT_CALLED = re.compile(r"\(NEEDED\).*\[(lib(?:opencv|av|sw)[\w.]+)\]")  # what it needs of others


def make(build, pythons):
    """{FOLDER: folder of a python3, RANKS: another} in `build`, "" each where `pythons`, of (path, version), have no 1.13. Whole
    at once, as others may look for them, and the same for every run of the same files."""
    python = next((path for path, version in pythons if version.startswith("1.13.")), None)
    if not python:
        return {FOLDER: "", RANKS: ""}
    major, minor, torch = subprocess.run([python, "-c", LOOK], check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    sources = [os.path.join(path, name) for path, _, names in os.walk(STANDIN) for name in names] + [QUICK, __file__]
    newest = max(os.stat(path).st_mtime_ns for path in sources)
    made = {}
    for key, name, fill in ((FOLDER, "alone", _fill_alone), (RANKS, "ranks", _fill_ranks)):
        folder = os.path.join(build, f"torchrun-{name}-{newest}")
        if not os.path.exists(folder):
            new = f"{folder}.{os.getpid()}"
            _write(new, python, f"python{major}.{minor}", torch, fill)
            try:
                os.rename(new, folder)
            except OSError:  # somebody else was quicker
                shutil.rmtree(new)
        made[key] = os.path.join(folder, "bin")
    return made


def _write(folder, python, name, torch, fill):
    """A virtual environment, by hand: a second of `python -m venv` is for pip."""
    site = os.path.join(folder, "lib", name, "site-packages")
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(site)
    for word in ("python3", "python"):
        os.symlink(python, os.path.join(folder, "bin", word))
    with open(os.path.join(folder, "pyvenv.cfg"), "w") as f:
        f.write(f"home = {os.path.dirname(python)}\ninclude-system-site-packages = true\nversion = {name[6:]}\n")
    fill(site, torch)
    # Pods may not write what Python makes of it.
    subprocess.run([python, "-m", "compileall", "-q", site], check=True)


def _fill_alone(site, torch):
    shutil.copytree(STANDIN, os.path.join(site, "torch"), ignore=shutil.ignore_patterns("__pycache__"))
    os.symlink(os.path.join(torch, "version.py"), os.path.join(site, "torch", "version.py"))


def _fill_ranks(site, torch):
    _fill_alone(os.path.join(site, "alone"), torch)
    shutil.copy(QUICK, site)
    with open(os.path.join(site, "quick_torch.pth"), "w") as f:
        f.write("import quick_torch\n")
    for library in glob.glob(COMPILED) if shutil.which("cc") else []:
        said = subprocess.run(["readelf", "-d", library], check=True, text=True, stdout=subprocess.PIPE).stdout
        _empty_libraries(site, sorted(NOT_CALLED.findall(said)))


def _empty_libraries(site, names):
    """quick.so, which brings an empty library of each name: what needs these finds them loaded."""
    cc = ["cc", "-shared", "-x", "c", "/dev/null", "-o"]
    subprocess.run([*cc, os.path.join(site, "empty.so")], check=True)
    for name in names:
        os.symlink("empty.so", os.path.join(site, name))
    subprocess.run([*cc, os.path.join(site, "quick.so"), f"-L{site}", "-Wl,--no-as-needed,-rpath,$ORIGIN",
                    *(f"-l:{name}" for name in names)], check=True)
