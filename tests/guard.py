#!/usr/bin/env python3
"""guard.py [--bound] COMMAND...: run a command so that nothing of it is left behind, however it ends: no process, no mount, no
control group of a pod, no folder of a test. Ends with the command's exit status; tests/run.py starts every suite this way,
and tests/e2e/run.py itself. --bound: it ends when its caller does, too.

Three processes: the first is what the caller knows and may kill; the second has a session of its own and adopts whatever the
command loses (a subreaper); the third is the command. Whichever of them is killed, another one cleans up: the second when the
command or the first is gone, and the command when the second is, because it is sent SIGTERM then.

What belongs to a run is known by its name: RUN is a word in the environment that harness.py puts into the names of folders.
"""

import ctypes
import os
import re
import secrets
import select
import shutil
import signal
import sys
import tempfile
import time

import counted

RUN = "MUSTER_TEST_RUN"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE_S = 30  # for the command to end by itself after SIGTERM: tests end their servers, which end their pods
ROUNDS_MAX = 200  # of killing what is left, which may fork meanwhile
DEPTH_MAX = 8  # of folders in which a pod's may lie
GROUPS = "/sys/fs/cgroup"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def prctl(option, value):
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def folders(run):
    """The folders of a run's tests."""
    place = tempfile.gettempdir()
    return [os.path.join(place, name) for name in os.listdir(place) if name.startswith(f"muster-test-{run}-")]


def pods(folder):
    """The uids of pods that have a folder somewhere in this one."""
    for path, names, _ in os.walk(folder):
        yield from (name for name in names if UID.fullmatch(name))
        if path.count("/") - folder.count("/") >= DEPTH_MAX:
            names.clear()


def groups(uids):
    """The control groups of these pods, of every controller, the innermost first."""
    bases = [GROUPS, *(os.path.join(GROUPS, name) for name in os.listdir(GROUPS))] if os.path.isdir(GROUPS) else []
    for base in bases:
        for uid in uids:
            for path, _, _ in os.walk(os.path.join(base, "muster", uid), topdown=False):
                yield path


def thaw(uids):
    """A frozen process does not even die."""
    for group in groups(uids):
        for file, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            try:
                with open(os.path.join(group, file), "r+") as f:
                    f.write(word)
            except OSError:
                pass


def remove_groups(uids):
    left = 0
    for group in groups(uids):
        try:
            os.rmdir(group)
            left += 1
        except OSError:
            pass  # in use by somebody after all, or gone
    return left


def remove_mounts(places):
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4].replace("\\040", " ") for line in f]
    ours = [p for p in points if any(p.startswith(place + "/") for place in places)]
    libc = ctypes.CDLL(None, use_errno=True)
    return sum(libc.umount2(point.encode(), 2) == 0 for point in reversed(ours))  # 2: MNT_DETACH


def clean(places):
    """Removes what stands in these folders, whose processes are gone; (mounts, control groups) that were left."""
    uids = {uid for place in places for uid in pods(place)}
    left = remove_mounts(places), remove_groups(uids)
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
    return left


def children():
    """Pids of this process's own, the adopted ones included."""
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        return [int(word) for word in f.read().split()]


def end_children():
    """Kills what is still there, generation by generation: whoever loses its parent is adopted here."""
    ended = set()
    for _ in range(ROUNDS_MAX):
        alive = children()
        if not alive:
            break
        for pid in alive:
            os.kill(pid, signal.SIGKILL)  # it is ours until it is reaped
        ended.update(alive)
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and os.waitpid(-1, os.WNOHANG) == (0, 0):
            time.sleep(0.005)
    return len(ended)


def reap(command):
    """Takes what has ended; the command's wait status, once it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            return None
        if pid == command:
            return status


def attend(command, caller):
    """Waits for the command, reaping others meanwhile; its wait status. `caller` can be read when the first process is gone."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    asked = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.append(1))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    told = deadline = None
    while (status := reap(command)) is None:
        if not told and (asked or caller is None):
            told, deadline = True, time.monotonic() + GRACE_S
            os.kill(command, signal.SIGTERM)
        elif told and time.monotonic() > deadline:
            os.kill(command, signal.SIGKILL)
        ready, _, _ = select.select([f for f in (woken, caller) if f is not None], [], [], 1 if told else None)
        if woken in ready:
            os.read(woken, 4096)
        if caller in ready:
            caller = None
    return status


def stand_guard(argv, run, caller):
    """The second process; never returns."""
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    command = os.fork()
    if command == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != guard:
            os._exit(1)
        try:
            os.execvpe(argv[0], argv, {**os.environ, RUN: run})
        except OSError as e:
            print(f"guard: {argv[0]}: {e.strerror}", flush=True)
            os._exit(127)
    status = attend(command, caller)
    places = folders(run)
    thaw({uid for place in places for uid in pods(place)})
    ended = end_children()
    mounts, made = clean(places)
    counted.remove_all(run)
    if ended or mounts or made:
        print(f"guard: left behind and removed: {ended} processes, {mounts} mounts, {made} control groups", flush=True)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def main(argv):
    if argv[:1] == ["--bound"]:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        argv = argv[1:]
    if not argv or argv[0].startswith("-"):
        sys.exit(__doc__.strip().splitlines()[0])
    caller, held = os.pipe2(os.O_CLOEXEC)
    guard = os.fork()
    if guard == 0:
        os.close(held)
        stand_guard(argv, secrets.token_hex(2), caller)
    os.close(caller)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(guard, signal.SIGTERM))
    _, status = os.waitpid(guard, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
