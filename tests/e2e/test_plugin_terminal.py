"""What a person at a terminal sees: the tests read the screen through a pseudo-terminal."""

import errno
import fcntl
import json
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
        folder = project(m, main__py="""import os, time
open(f'model-{os.environ["RANK"]}.pt', 'w').write('weights')
print('it runs', flush=True)
while not os.path.exists('go'):
    time.sleep(0.02)
for i in range(20):
    time.sleep(0.02)
    print('more', flush=True)
""")
        submit = ("submit", "--queue", "demo", "--gpus", "4", "--name")
        t = Terminal(m, *submit, "seen", "python main.py", cwd=folder)
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
        t.type("\x03\x03")
        t.expect("detached from seen")
        check(t.end() in (0, -signal.SIGINT), "leaving is no failure")
        check(m.phase("seen") == "Running" and "[c]ancel" not in t.text, "who looks on, leaves")
        m.torchrun("cancel", "seen", "--force")
        wait_for(lambda: not m.get("torchrunjobs"), "the job to be gone", 60)

        t = Terminal(m, *submit, "twice", "python main.py", cwd=folder)
        t.expect("it runs", 90)
        t.type("\x03")
        t.expect("[d]etach, [c]ancel")
        t.type("\x03")
        t.expect("cancelled")
        t.end()
        check(os.path.exists(os.path.join(folder, "model-0.pt")), "what it wrote came home first")
        wait_for(lambda: not m.get("torchrunjobs"), "the job to be gone", 60)

        t = Terminal(m, *submit, "ends", "python main.py", cwd=folder)
        t.expect("it runs", 90)
        t.type("\x03")
        t.expect("[d]etach, [c]ancel")
        project(m, go="")
        m.torchrun("sync", "ends", cwd=folder)
        check(t.end() == 0, "it ends with the job, though nobody answered")
        check("job ends succeeded" in t.text, t.text[-2000:])
        check("[d]etach, [c]ancel" in t.text[t.text.index("more"):], "the question stays below the lines")


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


def screen(t, keys, *words):
    """What the screen shows after some keys, once it has all the words."""
    t.text = ""
    t.type(keys)
    for word in words:
        t.expect(word, 20)


def test_top_has_panes_a_filter_rows_that_open_and_logs():
    with Muster(nodes=1, gpus_per_node=4) as m:
        for name, gpus in (("alpha", 1), ("beta", 4)):
            worker = {"name": "pytorch", "image": "x", "command": ["sh", "-c", f"echo said by {name}; sleep 600"],
                      "resources": {"limits": {"nvidia.com/gpu": gpus}}}
            spec = {"terminationGracePeriodSeconds": 0, "containers": [worker]}
            m.apply(json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
                                "metadata": {"name": name, "labels": {"kai.scheduler/queue": "default-queue"}},
                                "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": spec}}}}}))
            if name == "alpha":
                wait_for(lambda: (m.get("pods") or [{}])[0].get("status", {}).get("phase") == "Running", "alpha to run")
        m.kubectl("annotate", "node", "node-0", "muster.dev/gpu-use=85/40960,0/0,0/0,0/0")
        t = Terminal(m, "top")
        screen(t, "", "default/alpha", "default/beta", "Running", "needs 4 GPUs")
        screen(t, "2", "QUOTA", "default-queue", "default-parent-queue")
        screen(t, "j\r", "Queue:", "default/beta")
        screen(t, "\x1b", "QUOTA")
        screen(t, "3", "HELD BY", "default/alpha-worker-0", "85 %", "40.0 GiB")
        screen(t, "\r", "Node:", "alpha-worker-0")
        screen(t, "\t", "SAYS", "default/alpha")
        # An arrow in the filter chooses a row; it is no letter of it.
        screen(t, "/bet\x1b[B\x1b[A\x1bOBa", "/beta_")
        check("default/alpha" not in t.text.split("/beta_")[-1], "the filter leaves the others out")
        screen(t, "\r\r", "Job:", "default/beta", "Waits for:", "needs 4 GPUs")
        screen(t, "\x1b", "/beta")
        screen(t, "\x1b", "default/alpha", "default/beta")
        screen(t, "/alp\rl", "Log of alpha-worker-0", "said by alpha")
        t.type("q")
        check(t.end() == 0, "q ends it")
