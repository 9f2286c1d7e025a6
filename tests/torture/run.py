#!/usr/bin/env python3
"""run.py FAILING_SO TORTURE_STORE TORTURE_SHIM BUILD: rerun real programs with their Nth call of the system failing.

The store: whatever call fails, once or from then on, the process neither crashes nor hangs, what it could not
do has a reason, and everything it acknowledged is there when the file is opened again; without memory it ends
and says so. The client: whatever call on a socket fails, it ends in time, with a reason unless it succeeded
all the same. The server: whatever call on a socket fails, it lives on. The shim: whatever call on a file fails, once
or from then on, it tells how its container ended, the file that says so is written as soon as that can be, and no
container is started twice. Ends with `N passed, N failed,
N skipped`.
"""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 20.0 * float(os.environ.get("MUSTER_TEST_PATIENCE", "1"))
RUNS_MAX = 120  # of one program; with more calls than this, every so many-th fails
OBJECTS = 6
SERVER_POINTS = 12


class Broken(Exception):
    """A promise that was not kept; the words say which and when."""


def run(argv, failing=None, at=0, **settings):
    """(exit status, stdout, stderr); a program that does not end is Broken."""
    env = dict(os.environ)
    if failing:
        env.update(LD_PRELOAD=failing, TORTURE_AT=str(at), **settings)
    try:
        done = subprocess.run(argv, env=env, text=True, errors="replace", timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired as e:
        raise Broken(f"call {at} {settings}: did not end within {LIMIT_S:.0f} s") from e
    return done.returncode, done.stdout, done.stderr


def count_calls(argv, failing, folder, kind):
    file = os.path.join(folder, "count")
    status, _, err = run(argv, failing, 0, TORTURE_KIND=kind, TORTURE_COUNT=file)
    if status != 0:
        raise Broken(f"fails without any call failing: {err}")
    with open(file, encoding="ascii") as f:
        return int(f.read())


def points(calls):
    return range(1, calls + 1, max(1, -(-calls // RUNS_MAX)))


def torture_store(failing, program, stay):
    """Each point: write with a failing call, read back without."""
    folder = tempfile.mkdtemp(prefix="muster-torture-")
    path = os.path.join(folder, "db")
    try:
        calls = count_calls([program, path, "write", str(OBJECTS)], failing, folder, "files")
        refused = 0
        for at in points(calls):
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
            status, out, err = run([program, path, "write", str(OBJECTS)], failing, at, TORTURE_KIND="files",
                                   TORTURE_STAY=stay)
            if status not in (0, 3):
                raise Broken(f"file call {at} of {calls} (stay {stay}): exit {status}: {out}{err}")
            if status == 3 and not err.strip():
                raise Broken(f"file call {at} of {calls}: did not open and gave no reason")
            refused += status == 3 or "\nno " in "\n" + out
            acknowledged = {line[4:] for line in out.splitlines() if line.startswith("ack ")}
            if any(line.startswith("no ") and line.endswith(": ") for line in out.splitlines()):
                raise Broken(f"file call {at} of {calls}: a write failed without a reason")
            status, out, err = run([program, path, "read"])
            if status != 0:
                raise Broken(f"file call {at} of {calls} (stay {stay}): the store does not open again: {err}")
            lost = acknowledged - {line[4:] for line in out.splitlines() if line.startswith("has ")}
            if lost:
                raise Broken(f"file call {at} of {calls} (stay {stay}): acknowledged and lost: {sorted(lost)}")
        if not refused:
            raise Broken("no failing call was ever noticed: the torture does not bite")
        return f"{len(points(calls))} of {calls} calls, {refused} noticed"
    finally:
        shutil.rmtree(folder)


def torture_memory(program):
    """A process that gets no more memory ends, and says why."""
    limit = 256 << 20
    done = subprocess.run([program, "none", "memory"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT_S, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    if done.returncode != -signal.SIGABRT or "out of memory" not in done.stderr:
        raise Broken(f"exit {done.returncode}: {done.stderr}")
    return done.stderr.strip()


class Server:
    def __init__(self, build, failing=None, at=0):
        self.folder = tempfile.mkdtemp(prefix="muster-torture-")
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")
        env = dict(os.environ)
        if failing:
            env.update(LD_PRELOAD=failing, TORTURE_AT=str(at), TORTURE_KIND="sockets", TORTURE_ERRNO="104")
        self.process = subprocess.Popen([os.path.join(build, "muster"), "up", "--data-dir", os.path.join(self.folder, "d"),
                                         "--listen", "127.0.0.1:0", "--kubeconfig-out", self.kubeconfig], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_S
        while not os.path.exists(self.kubeconfig):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise Broken(f"muster up did not start (socket call {at} failing)")
            time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def torture_client(failing, build):
    server = Server(build)
    try:
        argv = [os.path.join(build, "kubectl-torchrun"), "list", "--kubeconfig", server.kubeconfig]
        calls = count_calls(argv, failing, server.folder, "sockets")
        refused = 0
        for at in points(calls):
            status, _, err = run(argv, failing, at, TORTURE_KIND="sockets", TORTURE_ERRNO="104", TORTURE_STAY="1")
            if status < 0 or (status > 0 and not err.strip()):
                raise Broken(f"socket call {at} of {calls}: exit {status}: {err}")
            refused += status > 0
        if not refused:
            raise Broken("no failing call was ever noticed: the torture does not bite")
        return f"{len(points(calls))} of {calls} calls, {refused} noticed"
    finally:
        server.stop()


def torture_server(failing, build):
    for at in range(1, SERVER_POINTS + 1):
        server = Server(build, failing, at)
        try:
            argv = [os.path.join(build, "kubectl-torchrun"), "list", "--kubeconfig", server.kubeconfig]
            for _ in range(3):  # the failing call is behind us by then
                status, _, err = run(argv)
            if server.process.poll() is not None:
                raise Broken(f"socket call {at} ended the server with {server.process.returncode}")
            if status != 0:
                raise Broken(f"socket call {at}: the server does not answer any more: {err}")
        finally:
            server.stop()
    return f"{SERVER_POINTS} calls"


class Shim:
    """A shim with one container, which says that it ran and ends with 7. Calls are counted from its start on."""

    def __init__(self, program, folder, env, command="echo ran >> ran; exit 7", laid_out=lambda: None):
        self.folder = folder
        os.makedirs(os.path.join(folder, "c/main"), exist_ok=True)
        self.put("pod", "hostname=h")
        self.put("c/main/0.spec", "arg=/bin/sh", "arg=-c", f"arg={command}", f"cwd={folder}", "env=PATH=/bin")
        laid_out()
        self.begin = os.path.join(folder, "begin")
        self.process = subprocess.Popen([program, folder], env=dict(os.environ, TORTURE_WHEN=self.begin, **env),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while self.link.connect_ex(os.path.join(folder, "shim.sock")):
            if time.monotonic() > deadline:
                raise Broken("the shim did not start")
            time.sleep(0.01)
        self.hear("hello")

    def put(self, name, *records):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as f:
            f.write("".join(r + "\0" for r in records))

    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return None
        with open(path, encoding="ascii") as f:
            return f.read()

    def hear(self, *words):
        """The next message that begins with one of them."""
        try:
            while True:
                text = self.link.recv(4096).decode()
                if not text:
                    raise Broken(f"the shim is gone; it should have said {words}")
                if text.split()[0] in words:
                    return text
        except TimeoutError as e:
            raise Broken(f"the shim did not say {words} within {LIMIT_S:.0f} s") from e

    def say(self, text):
        self.link.send(text.encode())

    def end(self, text):
        self.say(text)
        status = self.process.wait(LIMIT_S)
        if status != 0:
            raise Broken(f"the shim ended with {status}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.link.close()


def check_end(shim, text):
    """Either it ran, once, and that is its status; or it did not, and the words say why."""
    first, _, words = text.partition("\n")
    code, flags = first.split()[0], first.split()[4]
    ran = shim.read("ran")
    if (code, flags, ran) != ("7", "-", "ran\n") and not (code == "128" and flags == "s" and words and not ran):
        raise Broken(f"told {text!r}, ran {ran!r}")


def torture_shim_once(program, folder, env, stay):
    """True when the failing call was noticed."""
    shim = Shim(program, folder, env)
    try:
        open(shim.begin, "w").close()
        shim.say("start main 0")
        said = shim.hear("ended", "exited")
        late = said.startswith("ended")
        if late:
            check_end(shim, said.split(" ", 3)[3])
            shim.say("state")
            again = shim.hear("ended", "running", "exited", "synced")
            if again not in (said, "exited main 0"):
                raise Broken(f"said {said!r}, then {again!r}: what has no file is said again")
            if again == said and not stay:
                shim.hear("exited")
        text = shim.read("c/main/0.exit")
        if text is not None:
            check_end(shim, text)
        elif not stay:
            raise Broken("said to be written, and is not there")
        # Whoever asks again, and however the disk is: not a second time.
        shim.say("start main 0")
        shim.say("state")
        shim.hear("synced")
        shim.end("stop forget" if stay else "stop")
        if shim.read("c/main/0.exit") != text or (shim.read("ran") or "ran\n") != "ran\n":
            raise Broken(f"started again: {text!r}, then {shim.read('c/main/0.exit')!r}, ran {shim.read('ran')!r}")
        return late or "128 0" in text
    finally:
        shim.kill()
        shutil.rmtree(folder)


def torture_shim(failing, program, stay):
    top = tempfile.mkdtemp(prefix="muster-torture-")
    folder, file = os.path.join(top, "pod"), os.path.join(top, "count")
    env = {"LD_PRELOAD": failing, "TORTURE_KIND": "files", "TORTURE_ERRNO": "28", "TORTURE_STAY": stay}
    try:
        torture_shim_once(program, folder, dict(env, TORTURE_AT="0", TORTURE_COUNT=file), False)
        with open(file, encoding="ascii") as f:
            calls = int(f.read())
        noticed = 0
        for at in range(1, calls + 1):
            try:
                noticed += torture_shim_once(program, folder, dict(env, TORTURE_AT=str(at)), stay == "1")
            except Broken as e:
                raise Broken(f"call {at} of {calls} (stay {stay}): {e}") from e
        if not noticed:
            raise Broken("no failing call was ever noticed: the torture does not bite")
        return f"{calls} calls, {noticed} noticed"
    finally:
        shutil.rmtree(top)


def killed_for_memory(program):
    """Of two instances in one group the kernel kills both at once: whichever is seen first, both say so. One that it killed
    alone does not make the other's later end one for memory."""
    def ends(first, last, together):
        top = tempfile.mkdtemp(prefix="muster-torture-")
        shim = Shim(program, os.path.join(top, "pod"), {}, "exec sleep 60")
        try:
            shim.put("events", "oom_kill 0")
            pids = []
            for instance in (0, 1):
                shim.put(f"c/main/{instance}.spec", "arg=/bin/sleep", "arg=60", "env=PATH=/bin",
                         f"cgroup.oom={os.path.join(shim.folder, 'events')}")
                shim.say(f"start main {instance}")
                pids.append(int(shim.hear("started").split()[3]))
            shim.put("events", "oom_kill 2")
            os.kill(pids[first], signal.SIGKILL)
            shim.hear("exited")
            os.kill(pids[last], signal.SIGKILL if together else signal.SIGTERM)
            shim.hear("exited")
            return [shim.read(f"c/main/{i}.exit").split()[4] for i in (first, last)]
        finally:
            shim.kill()
            shutil.rmtree(top)

    for first, last in ((0, 1), (1, 0)):
        for together, flags in ((True, ["o", "o"]), (False, ["o", "-"])):
            seen = ends(first, last, together)
            if seen != flags:
                raise Broken(f"instance {first} ended before {last}, together {together}: {seen}, not {flags}")
    return "4 orders"


def main(argv):
    failing, store, shim, build = (os.path.abspath(a) for a in argv)
    passed, failed = 0, 0
    for name, check in (("store, one call fails", lambda: torture_store(failing, store, "0")),
                        ("store, all calls fail from then on", lambda: torture_store(failing, store, "1")),
                        ("shim, one call fails", lambda: torture_shim(failing, shim, "0")),
                        ("shim, all calls fail from then on", lambda: torture_shim(failing, shim, "1")),
                        ("shim, killed for memory", lambda: killed_for_memory(shim)),
                        ("memory ends", lambda: torture_memory(store)),
                        ("client, connection lost", lambda: torture_client(failing, build)),
                        ("server, connection lost", lambda: torture_server(failing, build))):
        start = time.monotonic()
        try:
            result, passed = check(), passed + 1
        except Broken as e:
            result, failed = f"FAILED: {e}", failed + 1
        print(f"torture {name}: {result} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
