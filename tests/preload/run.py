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
import time

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


class Moved:
    """A program whose memory is moved by `muster checkpoint-gpu`, on the two drivers of our own: one has the memory, the other
    one says what became of the process."""

    def __init__(self, case, *words, devices="1", **more):
        self.case, build = case, os.path.dirname(LIBRARY)
        self.muster = os.path.join(build, "muster")
        self.orders, self.fake = os.path.join(case.folder, "orders"), os.path.join(case.folder, "fake")
        self.file = os.path.join(case.folder, "report")
        for folder in (self.orders, self.fake):
            os.makedirs(folder)
        self.env = dict(os.environ, MUSTER_FAKE_CUDA=self.fake,
                        MUSTER_CUDA_LIBRARY=os.path.join(build, "tests", "suspend", "libcuda.so.1"))
        env = case.env(limit=more.pop("limit", None), MUSTER_GPU_SUSPEND="1", FAKE_ORDERS=self.orders,
                       FAKE_DEVICES_SEEN=devices, **more)
        self.said = open(os.path.join(case.folder, "said"), "w+")
        self.process = subprocess.Popen([os.path.join(FOLDER, "preload-moved"), *words], env=env, stdin=subprocess.PIPE,
                                        stdout=self.said, stderr=subprocess.PIPE, text=True)
        self.wait(lambda: self.steps() > 0, "a step")

    def steps(self):
        with open(self.said.name) as f:
            text = f.read()
        assert "not so" not in text, text[-400:]
        return text.count("step ")

    def wait(self, condition, what):
        end = time.monotonic() + LIMIT_S / 2
        while not condition():
            assert time.monotonic() < end and self.process.poll() is None, f"waited for {what}: {self.process.poll()}"
            time.sleep(0.005)

    def goes_on(self):
        before = self.steps()
        self.wait(lambda: self.steps() > before, "a step")

    def start(self, direction):
        return subprocess.Popen([self.muster, "checkpoint-gpu", direction, self.file, str(self.process.pid)], env=self.env,
                                stderr=subprocess.DEVNULL)

    def report(self):
        with open(self.file) as f:
            text = f.read().strip()
        os.unlink(self.file)
        return text.replace(str(self.process.pid), "PID")

    def move(self, direction):
        self.start(direction).wait(LIMIT_S)
        return self.report()

    def calls(self):
        path = os.path.join(self.fake, "calls")
        return [line.split()[0] for line in open(path)] if os.path.exists(path) else []

    def order(self, name, folder=None):
        open(os.path.join(folder or self.orders, name), "w").close()

    def undo(self, name, folder=None):
        os.unlink(os.path.join(folder or self.orders, name))

    def on_card_mib(self):
        with open(os.path.join(self.case.folder, "driver"), "rb") as f:
            return int.from_bytes(f.read(8), sys.byteorder) >> 20

    def end(self):
        _, errors = self.process.communicate("", timeout=LIMIT_S)
        self.steps()
        assert self.process.returncode == 0, f"{self.process.returncode}: {errors}"
        return errors


def needs_x86(test):
    return test if os.uname().machine == "x86_64" else lambda case: None


@needs_x86
def test_memory_goes_to_host_memory_and_comes_back_whole_and_calls_are_held_meanwhile(case):
    moved = Moved(case)
    for turn in range(1, 4):
        assert moved.on_card_mib() == 51, moved.on_card_mib()
        assert moved.move("out") == "ok out 1 50 50"
        stood = moved.steps()
        assert moved.on_card_mib() == 1, "what is small is the driver's to move"
        assert moved.calls() == ["lock", "checkpoint", "restore", "unlock"] * (turn - 1) + ["lock", "checkpoint"]
        assert moved.steps() == stood, "a call went through"
        assert moved.move("in") == "ok in 1 0 0"
        moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_a_copy_that_fails_leaves_all_as_it_was_and_the_driver_moves_it(case):
    moved = Moved(case)
    moved.order("no-copy")
    said = moved.move("out")
    assert said == "ok out 1 0 0 process PID: the copy to host memory failed: CUDA error 719", said
    assert moved.calls() == ["lock", "checkpoint"] and moved.on_card_mib() == 51
    assert moved.move("in") == "ok in 1 0 0"
    moved.undo("no-copy")
    moved.goes_on()
    assert moved.move("out") == "ok out 1 50 50"
    moved.order("no-copy")  # and on the way back nothing is lost
    said = moved.move("in")
    assert said == "failed process PID: the copy back to the card failed: CUDA error 719", said
    stood = moved.steps()
    moved.undo("no-copy")
    assert moved.steps() == stood, "it ran without its memory"
    assert moved.move("in") == "ok in 1 0 0"
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_what_the_driver_refuses_is_taken_back(case):
    moved = Moved(case)
    moved.order("full", moved.fake)
    said = moved.move("out")
    assert said == "failed process PID cannot be moved to host memory: CUDA error 1", said
    moved.goes_on()
    assert moved.on_card_mib() == 51
    moved.undo("full", moved.fake)
    moved.order("busy", moved.fake)
    said = moved.move("out")
    assert said.startswith("failed process PID did not finish its work on the GPU within 10 s"), said
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_a_card_without_room_is_tried_again(case):
    moved = Moved(case)
    assert moved.move("out") == "ok out 1 50 50"
    moved.order("no-room")
    said = moved.move("in")
    assert said.startswith("failed process PID: memory of the GPU cannot be had back, "), said
    moved.undo("no-room")
    assert moved.move("in") == "ok in 1 0 0"
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_a_helper_that_is_killed_is_followed_by_another(case):
    moved = Moved(case)
    for back in (True, False):
        moved.order("slow")  # in the middle of the copy
        helper = moved.start("out")
        moved.wait(lambda: os.path.exists(os.path.join(moved.orders, "at-slow")), "the copy")
        helper.kill()
        helper.wait()
        moved.undo("at-slow")
        after = moved.start("in" if back else "out")
        moved.undo("slow")
        after.wait(LIMIT_S)
        assert moved.report() == ("ok in 1 0 0" if back else "ok out 1 50 50")
        if back:
            moved.goes_on()
    helper = moved.start("in")  # as soon as it has begun, or before
    helper.kill()
    helper.wait()
    if os.path.exists(moved.file):
        os.unlink(moved.file)
    assert moved.move("in") == "ok in 1 0 0"
    moved.goes_on()
    moved.order("wait-checkpoint", moved.fake)  # when all is in host memory
    helper = moved.start("out")
    moved.wait(lambda: os.path.exists(os.path.join(moved.fake, "at-checkpoint")), "the driver")
    helper.kill()
    helper.wait()
    moved.undo("wait-checkpoint", moved.fake)
    assert moved.on_card_mib() == 1
    assert moved.move("in") == "ok in 1 0 0"
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_work_that_does_not_end_is_let_go_on(case):
    moved = Moved(case)
    moved.order("busy")
    said = moved.move("out")
    assert said == "ok out 1 0 0 process PID: work on the GPU did not end within 10 s", said
    assert moved.move("in") == "ok in 1 0 0"
    moved.goes_on()
    moved.undo("busy")
    assert moved.end() == ""


@needs_x86
def test_memory_that_others_hold_or_that_is_on_several_cards_stays_the_drivers(case):
    lent = Moved(case, "lent")
    assert lent.move("out") == "ok out 1 42 42"
    assert lent.move("in") == "ok in 1 0 0"
    lent.goes_on()
    assert lent.end() == ""
    other = Case()
    try:
        ipc = Moved(other, "ipc")
        assert "muster.dev/gpu-copy: driver" in ipc.end()
    finally:
        shutil.rmtree(other.folder)
    other = Case()
    try:
        several = Moved(other, "none", devices="2")
        assert several.move("out") == "ok out 1 0 0"
        assert several.move("in") == "ok in 1 0 0"
        assert several.end() == ""
    finally:
        shutil.rmtree(other.folder)


class Inside(Moved):
    """The same, by `muster-launch gpu-memory`, as the operator has it run in a pod of somebody's cluster: no driver moves the
    rest."""

    def __init__(self, case, *words, limit="400", **more):
        super().__init__(case, *words, limit=limit, **more)
        self.launch = os.path.join(os.path.dirname(LIBRARY), "muster-launch")

    def start(self, direction):
        return subprocess.Popen([self.launch, "gpu-memory", direction, str(self.process.pid)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def move(self, direction):
        done = self.start(direction)
        output, errors = done.communicate(timeout=LIMIT_S)
        return (done.returncode, (output + errors).strip().replace(str(self.process.pid), "PID"))


@needs_x86
def test_a_program_in_the_container_has_memory_moved_and_put_back(case):
    moved = Inside(case)
    assert moved.move("in") == (0, "ok in 1 0"), "nothing is away"
    for _ in range(3):
        assert moved.on_card_mib() == 51, moved.on_card_mib()
        assert moved.move("out") == (0, "ok out 1 50")
        stood = moved.steps()
        assert moved.on_card_mib() == 1, "what is small stays"
        assert moved.move("out") == (0, "ok out 1 50"), "again: it is there already"
        assert moved.steps() == stood, "a call went through"
        assert moved.move("in") == (0, "ok in 1 0")
        moved.goes_on()
    assert moved.end() == ""
    assert moved.calls() == [], "the driver's part stays on the card"


@needs_x86
def test_a_program_in_the_container_that_is_killed_is_followed_by_another(case):
    moved = Inside(case)
    for back in (True, False):
        moved.order("slow")
        helper = moved.start("out")
        moved.wait(lambda: os.path.exists(os.path.join(moved.orders, "at-slow")), "the copy")
        helper.kill()
        helper.communicate()
        moved.undo("at-slow")
        after = moved.start("in" if back else "out")
        moved.undo("slow")
        output, errors = after.communicate(timeout=LIMIT_S)
        assert (output, errors) == ("ok in 1 0\n" if back else "ok out 1 50\n", ""), (output, errors)
        if back:
            moved.goes_on()
    assert moved.move("in") == (0, "ok in 1 0")
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_what_cannot_be_moved_from_inside_the_container_runs_on(case):
    moved = Inside(case)
    moved.order("no-copy")
    assert moved.move("out") == (1, "process PID: the copy to host memory failed: CUDA error 719")
    moved.undo("no-copy")
    moved.goes_on()
    assert moved.on_card_mib() == 51
    assert moved.move("out") == (0, "ok out 1 50")
    moved.order("no-room")
    code, said = moved.move("in")
    assert code == 1 and said.startswith("process PID: memory of the GPU cannot be had back, "), said
    moved.undo("no-room")
    assert moved.move("in") == (0, "ok in 1 0")
    moved.goes_on()
    assert moved.end() == ""


@needs_x86
def test_memory_that_would_stay_on_the_card_is_not_left_there(case):
    several = Inside(case, "none", devices="2")
    code, said = several.move("out")
    assert code == 1 and said.startswith("no process of the container has memory on the GPU"), (code, said)
    assert several.end() == ""
    other = Case()
    try:
        pool = Inside(other, "pool")
        assert pool.on_card_mib() == 131
        code, said = pool.move("out")
        assert (code, said) == (1, "process PID has 81 MiB on the GPU that Muster's library cannot move, as expandable segments "
                                "and cudaMallocAsync have them"), said
        pool.goes_on()
        assert pool.on_card_mib() == 131 and pool.end() == ""
    finally:
        shutil.rmtree(other.folder)
    other = Case()
    try:
        uncounted = Inside(other, limit="0")  # the share has no limit: nobody knows what stays
        code, said = uncounted.move("out")
        assert code == 1 and "label the node with nvidia.com/gpu.memory" in said, (code, said)
        uncounted.goes_on()
        assert uncounted.on_card_mib() == 51 and uncounted.end() == ""
    finally:
        shutil.rmtree(other.folder)


def test_a_container_without_the_library_says_so(case):
    launch = os.path.join(os.path.dirname(LIBRARY), "muster-launch")
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = case.run([launch, "gpu-memory", "out", str(sleeper.pid)])
        assert done.returncode == 1 and "no process of the container has memory on the GPU" in done.stderr, done
    finally:
        sleeper.kill()
        sleeper.wait()


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
