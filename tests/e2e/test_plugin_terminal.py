"""What a person at a terminal sees: the tests read the screen through a pseudo-terminal."""

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from harness import PATIENCE, Failure, Muster, binary, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project


class Terminal:
    """A program on a terminal of 120 x 30."""

    def __init__(self, m, *argv, cwd=None, env=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        environment = dict(m.env, TERM="xterm-256color")
        environment.pop("NO_COLOR", None)
        environment.update(env or {})
        self.process = subprocess.Popen(
            [binary("kubectl-torchrun"), *argv], stdin=slave, stdout=slave, stderr=slave,
            cwd=cwd or m.folder, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.text = ""

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace")
                return True
            except OSError as e:
                if e.errno != errno.EIO:
                    raise
        return False

    def expect(self, words, limit=60):
        deadline = time.monotonic() + limit * PATIENCE
        while words not in self.text:
            if time.monotonic() > deadline or (not self.read(0.2) and self.process.poll() is not None
                                               and not self.read(0)):
                raise Failure(f"{words!r} did not appear:\n{self.text[-3000:]!r}")

    def type(self, keys):
        os.write(self.master, keys.encode())

    def end(self, limit=30):
        deadline = time.monotonic() + limit * PATIENCE
        while self.process.poll() is None:
            self.read(0.1)
            if time.monotonic() > deadline:
                self.process.kill()
                raise Failure(f"it did not end:\n{self.text[-3000:]!r}")
        while self.read(0):
            pass
        os.close(self.master)
        return self.process.returncode


def test_submit_shows_the_gang_forming_and_ctrl_c_asks():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="import time\nprint('it runs', flush=True)\ntime.sleep(600)\n")
        t = Terminal(m, "submit", "--queue", "demo", "--gpus", "4", "--name", "seen",
                     "python main.py", cwd=folder)
        t.expect("pods placed")
        t.expect("it runs", 90)
        check("\x1b[" in t.text, "colours on a terminal")
        t.type("\x03")
        t.expect("[d]etach, [c]ancel")
        t.type("d\n")
        t.expect("detached from seen")
        check(t.end() == 0, "detaching is no failure")
        check(m.phase("seen") == "Running", "the job goes on")

        t = Terminal(m, "logs", "-f", "seen", env={"NO_COLOR": "1"})
        t.expect("[rank0] it runs")
        t.type("\x03")
        t.expect("[d]etach, [c]ancel")
        t.type("c\n")
        t.expect("cancelled")
        t.end()
        wait_for(lambda: not m.get("torchrunjobs"), "the job to be gone", 60)


def test_a_job_that_waits_says_for_what():
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m)
        m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "first", "--no-workspace",
                   "--detach", "sleep 600", cwd=folder)
        wait_for(lambda: m.phase("first") == "Running", "the first job to run", 60)
        t = Terminal(m, "submit", "--queue", "demo", "--gpus", "1", "--name", "wait",
                     "--no-workspace", "true", cwd=folder)
        t.expect("0 of 1 pods placed")
        t.expect("GPU")
        t.process.send_signal(signal.SIGINT)
        t.expect("[d]etach")
        t.type("d\n")
        t.end()


def test_top_fills_the_screen_until_q():
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        t = Terminal(m, "top")
        t.expect("There is nothing")
        t.expect("q quits")
        t.type("3")
        t.expect("node-1")
        check("\x1b[?1049h" in t.text, "the alternate screen")
        t.type("q")
        check(t.end() == 0, "q ends it")
        check("\x1b[?1049l" in t.text, "the screen is given back")
