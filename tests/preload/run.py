#!/usr/bin/env python3
"""run.py LIBRARY CHECKS FOLDER [--bench]: libmuster-gpu.so on a driver of our own (driver.c, in FOLDER), preloaded into
CHECKS and into ordinary programs. Ends with `N passed, N failed, N skipped`; --bench: prints what a call costs, with a bare
call beside it.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

LIBRARY, CHECKS, FOLDER = (os.path.abspath(p) for p in sys.argv[1:4])
LIMIT_S = 120
MIB = 100  # LIMIT_MIB of checks.c


class Case:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="muster-preload-")
        self.region = os.path.join(self.folder, "region")

    def env(self, preload=LIBRARY, limit=str(MIB), region=None, driver=True, **more):
        env = {"PATH": os.environ["PATH"], "FAKE_DRIVER": os.path.join(self.folder, "driver"), **more}
        if preload:
            env["LD_PRELOAD"] = preload
        if limit is not None:
            env["MUSTER_GPU_MEMORY_MIB"] = limit
        env["MUSTER_GPU_REGION"] = self.region if region is None else region
        if driver:
            env["LD_LIBRARY_PATH"] = FOLDER
        return env

    def run(self, argv, **settings):
        return subprocess.run(argv, env=self.env(**settings), text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check(self, name, **settings):
        if os.path.exists(os.path.join(self.folder, "driver")):
            os.unlink(os.path.join(self.folder, "driver"))
        done = self.run([CHECKS, name], **settings)
        assert done.returncode == 0 and not done.stderr, f"{name} {settings}: {done.returncode}\n{done.stdout}{done.stderr}"


def plain(name, **settings):
    def test(case):
        case.check(name, **settings)
    return test


def test_malformed_limits_do_nothing(case):
    for limit in (None, "", "0", "-1", "abc", "1e3", "100 ", " 100", "0x10", "9" * 40, "1099511627777", "100MiB"):
        case.check("inert", limit=limit)


def test_without_a_region_each_process_has_the_limit(case):
    read_only = os.path.join(case.folder, "read-only")
    foreign = os.path.join(case.folder, "foreign")
    for path, text in ((read_only, ""), (foreign, "something else " * 40000)):
        with open(path, "w") as f:
            f.write(text)
    os.chmod(read_only, stat.S_IRUSR)
    os.symlink(case.region, os.path.join(case.folder, "link"))
    unusable = ["", "relative", "/nowhere/region", case.folder, "/dev/null", foreign, os.path.join(case.folder, "link"),
                "/" + "x" * 5000] + ([read_only] if os.geteuid() else [])
    for region in unusable:
        case.check("limit", region=region)
        case.check("virtual", region=region)
    with open(foreign) as f:
        assert f.read() == "something else " * 40000, "a file of somebody else's is left as it is"


def test_a_region_of_an_earlier_container_is_cleared(case):
    """Process numbers come again; the processes of before are gone."""
    for _ in range(3):
        case.check("fork")
        case.check("exec")
    assert os.path.getsize(case.region) < 1 << 20, "it fits into its volume"
    assert stat.S_IMODE(os.stat(case.region).st_mode) == 0o666, "other users can count in it"


def test_programs_without_a_driver_do_not_notice(case):
    for argv in (["true"], ["sh", "-c", "exit 0"], [sys.executable, "-c", "import ctypes, threading, json"]):
        done = case.run(argv, driver=False)
        assert done.returncode == 0 and done.stderr == "" and not os.path.exists(case.region), done
    code = ("import ctypes\n"
            "try:\n  ctypes.CDLL('libcuda.so.1'); print('found')\nexcept OSError as e:\n  print(e)\n"
            f"library = ctypes.CDLL({LIBRARY!r})\n"
            "print(library.cuMemAlloc_v2(ctypes.byref(ctypes.c_ulonglong()), 10), library.cuMemFree_v2(1))\n")
    done = case.run([sys.executable, "-c", code], driver=False)
    if "found" in done.stdout:
        return  # this machine has a driver
    assert done.returncode == 0 and done.stdout.splitlines()[1] == "3 3", done


def test_it_says_what_it_refuses_only_when_asked(case):
    done = case.run([CHECKS, "limit"], MUSTER_GPU_DEBUG="1")
    assert done.returncode == 0 and "libmuster-gpu: refused 42991616 bytes: 62914560 of 104857600" in done.stderr, done


def test_it_needs_nothing_but_libc(case):
    if not shutil.which("readelf"):
        return
    text = subprocess.run(["readelf", "-d", LIBRARY], text=True, stdout=subprocess.PIPE, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]
    assert set(needed) <= {"libc.so.6", "libdl.so.2", "ld-linux-aarch64.so.1"}, needed
    text = subprocess.run(["readelf", "-V", "-W", LIBRARY], text=True, stdout=subprocess.PIPE, check=True).stdout
    newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", text))
    assert newest <= (2, 17), f"needs glibc {newest}: images with an older one would not start a program"


TESTS = {
    "an allocation above the limit is refused as CUDA does it": plain("limit"),
    "a failed allocation gives back": plain("failure"),
    "every way to allocate counts": plain("every-way"),
    "memory with handles counts as long as it is mapped": plain("virtual"),
    "memory goes with its context": plain("contexts"),
    "linked and looked-up functions are held to it as well": plain("linked"),
    "other preloaded libraries find what they look for": plain(
        "next", preload=f"{LIBRARY}:{os.path.join(FOLDER, 'next.so')}"),
    "and in front of it": plain("next", preload=f"{os.path.join(FOLDER, 'next.so')}:{LIBRARY}"),
    "NVML tells the share": plain("nvml"),
    "threads never pass the limit": plain("threads"),
    "processes never pass the limit": plain("race"),
    "a killed process gives back": plain("killed"),
    "a forked process counts for itself": plain("fork"),
    "a program started anew holds nothing": plain("exec"),
}


def bench():
    case = Case()
    try:
        for _ in range(3):
            bare, held = (float(case.run([CHECKS, "bench"], preload=p).stdout) for p in (None, LIBRARY))
            print(f"libmuster-gpu.so: {held:.0f} ns a call of a driver that does nothing, {bare:.0f} ns without it")
    finally:
        shutil.rmtree(case.folder)


def main():
    if "--bench" in sys.argv:
        return bench()
    named = {name[5:].replace("_", " "): test for name, test in globals().items() if name.startswith("test_")}
    failed = 0
    for name, test in {**TESTS, **named}.items():
        case = Case()
        try:
            test(case)
            print(f"{name}: ok")
        except Exception as e:
            failed += 1
            print(f"{name}: FAILED\n{e!r}")
        finally:
            shutil.rmtree(case.folder)
    print(f"{len(TESTS) + len(named) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
