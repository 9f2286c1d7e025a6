"""journey: an ordinary day, as somebody has it who knows torchrun, pip or Slurm and types what comes to mind.

A journey is a function of a Day: it writes a project as people have them, types commands, and says what the person must find.
A Day has a home, a project folder, and no muster, no kubeconfig and no queue; what it starts is gone afterwards.
"""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from harness import PATIENCE, Failure, Skip, binary, check, run, torch_pythons, wait_for  # noqa: E402,F401

LIMIT_S = 180  # for one command
KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "ASAN_OPTIONS", "UBSAN_OPTIONS")


class Day:
    def __init__(self, python=None):
        pythons = torch_pythons()
        if not pythons:
            raise Skip("no Python here can import torch")
        self.python = python or os.environ.get("JOURNEY_PYTHON") or pythons[0][0]
        self.folder = tempfile.mkdtemp(prefix="journey-")
        self.home = os.path.join(self.folder, "home")
        self.project = os.path.join(self.folder, "project")
        self.shared = os.path.join(self.folder, "shared")  # with --write, a job sees what comes there
        for folder in (self.home, self.project, self.shared):
            os.mkdir(folder)
        self.data = os.path.join(self.folder, "data")
        self.env = {k: v for k, v in os.environ.items() if k in KEPT}
        self.env.update(HOME=self.home, MUSTER_DATA_DIR=self.data, USER="student", SHELL="/bin/bash",
                        PATH=f"{os.path.dirname(self.python)}:{os.path.dirname(binary('muster'))}:{os.environ['PATH']}")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        said = run([binary("muster"), "stop", "--all"], env=self.env, ok=False, limit=90)
        log = os.path.join(self.data, "muster.log")
        if value is not None and os.path.exists(log):
            with open(log) as f:
                print("--- muster.log\n" + "".join(f.readlines()[-20:]) + said.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def read(self, name):
        with open(os.path.join(self.project, name)) as f:
            return f.read()

    def there(self, name):
        return os.path.exists(os.path.join(self.project, name))

    def type(self, *argv, ok=True, input=None, env=None, cwd=None):
        """A command that ends; its output with the order of both streams lost."""
        done = run(argv, env={**self.env, **(env or {})}, cwd=cwd or self.project, ok=ok, limit=LIMIT_S, input=input)
        done.all = done.stdout + done.stderr
        return done

    def muster(self, *argv, **more):
        return self.type(binary("muster"), *argv, **more)

    def fails(self, *argv, **more):
        done = self.muster(*argv, ok=False, **more)
        check(done.returncode != 0, f"{' '.join(argv)} should fail: {done.all}")
        return done

    def begin(self, *argv):
        """One that goes on."""
        return Running(self, [binary("muster"), *argv])

    def terminal(self, *argv):
        return Terminal(self, [binary("muster"), *argv])


class Running:
    def __init__(self, day, argv):
        self.out = os.path.join(day.folder, f"out-{time.monotonic_ns()}")
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(argv, env=day.env, cwd=day.project, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                            start_new_session=True)

    def said(self):
        with open(self.out) as f:
            return f.read()

    def until(self, words, limit=LIMIT_S):
        wait_for(lambda: words in self.said() or self.process.poll() is not None, f"{words!r} in {self.said()!r}", limit)
        check(words in self.said(), f"it ended and never said {words!r}: {self.said()}")

    def end(self, limit=LIMIT_S):
        return self.process.wait(limit * PATIENCE)


class Terminal:
    """A command at a terminal of 100 columns."""

    def __init__(self, day, argv):
        self.text = ""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(argv, env=day.env, cwd=day.project, stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def read(self, pause=0.2):
        if not select.select([self.master], [], [], pause)[0]:
            return
        try:
            got = os.read(self.master, 65536)
        except OSError:
            got = b""
        self.text += got.decode(errors="replace")

    def until(self, words, limit=LIMIT_S):
        deadline = time.monotonic() + limit * PATIENCE
        while words not in self.text:
            check(time.monotonic() < deadline, f"waited for {words!r}; the screen had: {self.text!r}")
            ended = self.process.poll() is not None
            before = self.text
            self.read()
            check(not ended or self.text != before, f"it ended and never showed {words!r}: {self.text!r}")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def close(self):
        """The window is closed."""
        os.close(self.master)
        os.killpg(self.process.pid, signal.SIGHUP)

    def end(self, limit=LIMIT_S):
        deadline = time.monotonic() + limit * PATIENCE
        while self.process.poll() is None:
            check(time.monotonic() < deadline, f"it did not end; the screen had: {self.text!r}")
            self.read()
        for _ in range(20):
            self.read(0.05)
        return self.process.returncode
