#!/usr/bin/env python3
"""portable.py [WORD...]: compile the sources that kubectl-torchrun links for macOS (arm64 and x86-64), or those with a WORD in
their path. Nothing is linked: the libraries for it cannot be had here, and no package for macOS is claimed.

The compiler is $MUSTER_ZIG, or the ziglang of PyPI, which is put once into muster/ziglang-VERSION in $XDG_CACHE_HOME or
~/.cache. Where it cannot be had the test is skipped (exit 77). What a library declares (libuv, libcurl, ...) is read from the
headers of this machine; libc's own are those that the compiler brings for macOS.

NOT_YET has the files that do not compile yet. One that does by now fails the test, so that the list can only become shorter.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("MUSTER_BUILD") or os.path.join(ROOT, "build")
PROGRAM = "kubectl-torchrun"
TARGETS = ("aarch64-macos", "x86_64-macos")
NOT_YET = {}  # path: why
ONLY_THERE = ("src/workspace/watch_poll.c",)  # which no program links on Linux
VERSION = "0.17.0"
PIP_LIMIT_S = 240
COMPILE_LIMIT_S = 300
ROOM_BYTES = 2 << 30  # for the package, unpacked, and what pip has of it meanwhile
LIBRARIES = ("curl", "gnutls", "uv", "uv.h", "xxh3.h", "xxhash.h", "yaml.h", "zconf.h", "zlib.h", "zstd.h", "zstd_errors.h")
# Only what does not compile there is looked for; what is bad style is found by the builds for Linux.
FLAGS = ("-std=gnu17", "-w", "-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types")
EXIT_SKIPPED = 77


class Skip(Exception):
    pass


def install(package, folder):
    """pip's package in a folder; Skip, with what pip said, where that fails."""
    above = os.path.dirname(folder)
    os.makedirs(above, exist_ok=True)
    if shutil.disk_usage(above).free < ROOM_BYTES:
        raise Skip(f"{package} needs {ROOM_BYTES >> 30} GiB of room in {above}")
    with tempfile.TemporaryDirectory(dir=above) as scratch:
        python, new = os.path.join(scratch, "venv", "bin", "python3"), os.path.join(scratch, "new")
        venv.create(os.path.join(scratch, "venv"), with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps",
                   "--only-binary", ":all:", "--target", new, package]
        done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PIP_LIMIT_S, check=False)
        if done.returncode:
            raise Skip(f"pip could not install {package}: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
        try:
            os.rename(new, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another run had it first
                raise


def compiler():
    """The path of a zig that starts."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "muster", f"ziglang-{VERSION}")
    zig = os.environ.get("MUSTER_ZIG") or os.path.join(folder, "ziglang", "zig")
    try:
        if not os.access(zig, os.X_OK) and not os.environ.get("MUSTER_ZIG"):
            install(f"ziglang=={VERSION}", folder)
        subprocess.run([zig, "version"], check=True, stdout=subprocess.DEVNULL, timeout=COMPILE_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as e:
        raise Skip(f"the compiler ziglang {VERSION} cannot be had: {e}")
    return zig


def linked(scratch):
    """{path: flags} of the sources whose objects the linker takes for the program."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    said = subprocess.run(["ninja", "-t", "commands", PROGRAM], cwd=BUILD, text=True, check=True, stdout=subprocess.PIPE).stdout
    link = [word for word in shlex.split(said.splitlines()[-1]) if os.path.basename(word) != "ccache"]
    link[link.index("-o") + 1] = os.path.join(scratch, PROGRAM)
    link.append("-Wl,-Map=" + os.path.join(scratch, "map"))
    subprocess.run(link, cwd=BUILD, check=True)
    with open(os.path.join(scratch, "map"), encoding="utf-8") as file:
        members = set(re.findall(r"lib([\w-]+)\.a(?:\.p/|\()([\w.-]+?)\.o", file.read()))
    found = {}
    for command in commands:
        inside = re.search(r"lib([\w-]+)\.a\.p/([\w.-]+)\.o$", command["output"])
        path = os.path.relpath(os.path.join(command["directory"], command["file"]), ROOT)
        ours = command["output"].startswith(PROGRAM + ".p/") or (inside and inside.groups() in members)
        if ours or path in ONLY_THERE:
            found[path] = [word for word in shlex.split(command["command"])
                           if word.startswith(("-I", "-D")) and not word.startswith(("-I/usr", "-D_FORTIFY"))]
    return found


def headers(folder):
    """A folder with the libraries' headers alone, without this machine's libc beside them."""
    os.mkdir(folder)
    for name in LIBRARIES:
        for path in [f"/usr/include/{name}", *glob.glob(f"/usr/include/*-linux-gnu*/{name}")]:
            if os.path.exists(path) and not os.path.lexists(os.path.join(folder, name)):
                os.symlink(path, os.path.join(folder, name))
    return folder


def complain(zig, scratch, include, target, path, flags):
    """What the compiler has against a file; None when nothing."""
    cache = os.path.join(scratch, "cache")
    env = dict(os.environ, ZIG_GLOBAL_CACHE_DIR=cache, ZIG_LOCAL_CACHE_DIR=cache)
    out = os.path.join(scratch, f"{target}-{path.replace('/', '-')}.o")
    command = [zig, "cc", "-target", target, *FLAGS, "-c", "-o", out, *flags, "-I" + include, os.path.join(ROOT, path)]
    done = subprocess.run(command, cwd=BUILD, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=COMPILE_LIMIT_S, check=False)
    return None if done.returncode == 0 else done.stdout.strip() or f"the compiler ended with {done.returncode}"


def judge(path, words):
    """True when a file did what was expected of it; says which not."""
    if words and path not in NOT_YET:
        print(f"{words}\nfailed: {path} does not compile: put what macOS has not behind src/system")
    elif not words and path in NOT_YET:
        print(f"failed: {path} compiles now: take it off NOT_YET in tests/portable.py")
    else:
        return True
    return False


def main(wanted):
    try:
        zig = compiler()
    except Skip as e:
        print(f"skipped: {e}")
        return EXIT_SKIPPED
    os.nice(5)  # beside other suites it is the one that can wait
    with tempfile.TemporaryDirectory() as scratch:
        sources = {path: flags for path, flags in sorted(linked(scratch).items())
                   if not wanted or any(word in path for word in wanted)}
        include = headers(os.path.join(scratch, "include"))
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            answers = {path: [pool.submit(complain, zig, scratch, include, target, path, flags) for target in TARGETS]
                       for path, flags in sources.items()}
            words = {path: next((said.result() for said in both if said.result()), None) for path, both in answers.items()}
    good = [judge(path, said) for path, said in words.items()]
    gone = [] if wanted else sorted(set(NOT_YET) - set(sources))
    for path in gone:
        print(f"failed: {PROGRAM} does not link {path}: take it off NOT_YET in tests/portable.py")
    if NOT_YET:
        print(f"{len(NOT_YET)} files do not compile yet, as is known")
    failed = good.count(False) + len(gone)
    print(f"{good.count(True)} passed, {failed} failed")
    return 1 if failed or not good else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
