#!/usr/bin/env python3
"""The story of `make demo`: a small cluster on this machine, and what happens on it in a minute or two.

Starts `muster up` in a folder of its own, plays the acts below with real torchrun and PyTorch, prints a summary
and cleans up. Everything it does, it does with the commands it prints. --keep (make demo KEEP=1) leaves the
server running. An act that does not happen within its limit ends the demo with an error and muster's last lines.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = os.path.join(ROOT, "examples")
NODES, GPUS_PER_NODE = 4, 8
LIMIT = 240 * float(os.environ.get("MUSTER_TEST_PATIENCE", "1"))  # seconds, of each thing waited for


class Stop(Exception):
    """What went wrong, for the person who watches."""


class Screen:
    """Lines, and below them one that changes: on a terminal in place, elsewhere a new line every few seconds."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        colours = self.live and not os.environ.get("NO_COLOR")
        self.bold, self.dim, self.green, self.plain = (
            ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if colours else ("", "", "", ""))
        self.last = ""
        self.printed = time.monotonic()

    def line(self, text=""):
        sys.stdout.write(("\r\033[K" if self.live and self.last else "") + text + "\n")
        sys.stdout.flush()
        self.last, self.printed = "", time.monotonic()

    def act(self, text):
        self.line(f"\n{self.bold}{text}{self.plain}")

    def command(self, text):
        if len(text) > 100:  # a program's own command line goes below ours
            text = text.replace(' "', ' \\\n        "', 1)
        self.line(f"  {self.dim}${self.plain} {text}")

    def result(self, text):
        self.line(f"    {text}")

    def done(self, text):
        self.line(f"  {self.green}✓{self.plain} {text}")

    def progress(self, text):
        if not text or text == self.last:
            return
        if self.live:
            width = shutil.get_terminal_size().columns
            sys.stdout.write("\r\033[K" + f"    {text}"[: width - 1])
            sys.stdout.flush()
            self.last = text
        elif time.monotonic() > self.printed + 4:
            self.result(text)
            self.last = text


class Demo:
    def __init__(self, options):
        self.options = options
        self.screen = Screen()
        self.folder = options.folder or tempfile.mkdtemp(prefix="muster-demo.")
        os.makedirs(self.folder, exist_ok=True)
        self.project = os.path.join(self.folder, "project")
        self.log = os.path.join(self.folder, "muster.log")
        build = os.path.abspath(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")))
        self.env = dict(os.environ, KUBECONFIG=os.path.join(self.folder, "kubeconfig"),
                        PATH=build + ":" + os.environ["PATH"])
        self.server = None
        self.times = []  # (what, seconds)
        self.gpus = real_gpus()
        if self.gpus < 4:  # too few for the story: pretend, and keep the ranks off a real one
            self.gpus = 0
            self.env["CUDA_VISIBLE_DEVICES"] = ""

    # ---- what a person would type ----

    def run(self, *argv, ok=True):
        done = subprocess.run(argv, env=self.env, cwd=self.project, text=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ok and done.returncode:
            raise Stop(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}")
        return done.stdout

    def torchrun(self, *argv, show=True):
        if show:
            quoted = [f'"{a}"' if " " in a else a for a in argv]
            self.screen.command("kubectl torchrun " + " ".join(quoted))
        if argv[0] == "submit" and not self.gpus:
            argv = ("submit", "--env", "CUDA_VISIBLE_DEVICES=", *argv[1:])
        return self.run("kubectl-torchrun", *argv)

    def get(self, *argv):
        return json.loads(self.run("kubectl", "get", *argv, "-o", "json"))

    def job(self, name):
        """Asked again and again: with the plugin, which is quicker to start than kubectl."""
        return json.loads(self.run("kubectl-torchrun", "status", name, "-o", "json")).get("status", {})

    def logs(self, name):
        """What the ranks of the job's present pods printed; empty before there is a log."""
        return self.run("kubectl-torchrun", "logs", name, ok=False)

    def wait(self, what, look, progress=lambda: ""):
        """The first true value of look(); the line below says how far it is."""
        deadline = time.monotonic() + LIMIT
        while True:
            found = look()
            if found:
                return found
            if self.server.poll() is not None:
                raise Stop(f"muster up ended with {self.server.returncode}")
            if time.monotonic() > deadline:
                raise Stop(f"waited {LIMIT:.0f} s for {what}")
            self.screen.progress(progress() or f"{what} ...")
            time.sleep(0.2)

    def trained(self, name, pattern):
        """Wait until a line of the job's log matches; shows the newest loss meanwhile."""
        text = ""

        def look():
            nonlocal text
            status = self.job(name)
            if status.get("phase") in ("Failed", "TimedOut"):
                raise Stop(f"job {name} failed: {status.get('message')}\n{self.logs(name)[-1500:]}")
            text = self.logs(name)
            return re.search(pattern, text)

        def progress():
            steps = re.findall(r"step \d+/\d+ loss [\d.]+", text)
            if steps:
                return f"{name}: {steps[-1]}"
            ranks = len(set(re.findall(r"rank (\d+) of \d+: all_reduce", text)))
            status = self.job(name)
            return f"{name}: {ranks} ranks joined" if ranks else \
                f"{name}: {status.get('phase', 'Pending')} {status.get('message', '')}"

        return self.wait(f"{name} to print {pattern!r}", look, progress)

    def ended(self, name):
        return self.wait(f"{name} to end", lambda: self.job(name).get("phase") == "Succeeded",
                         lambda: "".join(re.findall(r"step \d+/\d+ loss [\d.]+", self.logs(name))[-1:]))

    def timed(self, what, began):
        seconds = time.monotonic() - began
        self.times.append((what, seconds))
        return f"{seconds:.1f} s"

    # ---- the acts ----

    def start(self):
        screen, began = self.screen, time.monotonic()
        shutil.copytree(os.path.join(EXAMPLES, "train"), self.project, dirs_exist_ok=True)
        shape = ["--nodes", "1"] if self.gpus else \
            ["--nodes", str(NODES), "--gpus-per-node", str(GPUS_PER_NODE), "--cpus-per-node", "32",
             "--memory-per-node", "256Gi"]
        screen.act(f"1  A cluster: {self.gpus} GPUs of this machine" if self.gpus else
                   f"1  A cluster: {NODES} virtual nodes of {GPUS_PER_NODE} pretend GPUs, and a tree of queues")
        screen.command("muster up " + " ".join(shape))
        with open(self.log, "w") as log:
            self.server = subprocess.Popen(
                ["muster", "up", "--data-dir", os.path.join(self.folder, "data"), "--listen", "127.0.0.1:0",
                 "--kubeconfig-out", self.env["KUBECONFIG"], *shape],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.wait("muster up to be ready", lambda: os.path.exists(self.env["KUBECONFIG"]) and
                  self.run("kubectl", "get", "--raw", "/readyz", ok=False).strip() == "ok")
        screen.command("kubectl apply -f examples/demo/queues.yaml")
        self.run("kubectl", "apply", "-f", os.path.join(EXAMPLES, "demo", "queues.yaml"))
        if self.gpus:
            self.run("kubectl", "patch", "torchrunqueue", "vision", "--type=merge", "-p",
                     json.dumps({"spec": {"nodeResources": {"gpus": self.gpus}}}))
        self.wait("the queues to be Active", lambda: all(
            q.get("status", {}).get("phase") == "Active" for q in self.get("torchrunqueues")["items"]))
        for row in self.run("muster", "queues").rstrip().splitlines():
            if not row.lstrip("├└─│ ").startswith("default"):
                screen.result(row)
        screen.done(f"up in {self.timed('a cluster and its queues', began)}")

    def gang(self):
        screen, began = self.screen, time.monotonic()
        self.big = self.gpus // 2 if self.gpus else 16
        screen.act(f"2  A gang: {self.big} GPUs at once, or none")
        screen.result("train.py is an ordinary DDP script; this folder is sent along")
        self.torchrun("submit", "--queue", "vision", "--gpus", str(self.big), "--name", "resnet", "--detach",
                      "python train.py --steps 60 --step-seconds 0.2")
        world = f"of {self.big}: all_reduce"
        self.wait("all ranks to meet", lambda: self.logs("resnet").count(world) == self.big,
                  lambda: f"resnet: {self.logs('resnet').count(world)} of {self.big} ranks have met")
        pods = self.get("pods", "-l", "torchrun-job-name=resnet,torchrun.ai/role=worker")["items"]
        bound = {c["lastTransitionTime"] for p in pods for c in p["status"]["conditions"]
                 if c["type"] == "PodScheduled"}
        where = ", ".join(sorted(p["spec"]["nodeName"] for p in pods))
        screen.done(f"{len(pods)} pods placed together ({where}), {self.big} ranks agree on one all_reduce: "
                    f"{self.timed('16 ranks gathered and training', began)}")
        if len(bound) > 1:
            screen.result(f"placed over {len(bound)} seconds")

    def waits(self):
        screen, began = self.screen, time.monotonic()
        size = self.gpus if self.gpus else 24
        screen.act("3  A job that does not fit waits whole, and says why")
        self.torchrun("submit", "--queue", "vision", "--gpus", str(size), "--name", "too-big", "--detach",
                      "python train.py")
        self.wait("too-big to be queued", lambda: self.job("too-big").get("phase") == "Queued",
                  lambda: f"too-big: {self.job('too-big').get('message', '')}")
        self.wait("the reason", lambda: "GPU" in self.job("too-big").get("message", ""))
        self.reason = self.job("too-big")["message"]
        for row in self.torchrun("explain", "too-big").splitlines():
            if row.startswith(("TorchrunJob", "Says")):
                screen.result(row)
        self.torchrun("delete", "--force", "too-big")
        screen.done(f"no GPU was held for it meanwhile ({self.timed('a reason for waiting', began)})")
        self.ended("resnet")
        losses = re.search(r"loss ([\d.]+) -> ([\d.]+)", self.logs("resnet"))
        screen.done(f"resnet finished: loss {losses[1]} -> {losses[2]}")

    def preempts(self):
        screen = self.screen
        screen.act("4  An urgent job takes the place of a patient one")
        self.torchrun("submit", "--queue", "lab", "--gpus", "4", "--name", "patient", "--detach",
                      "python train.py --steps 150 --step-seconds 0.1 --checkpoint-dir $CHECKPOINT_DIR")
        self.trained("patient", r"step 20/150")
        screen.result("patient trains on all 4 GPUs that lab may use")
        shutil.copy(os.path.join(EXAMPLES, "demo", "urgent.yaml"), self.project)
        began = time.monotonic()
        self.torchrun("submit", "-f", "urgent.yaml", "--detach")
        self.wait("patient to give way", lambda: self.job("patient").get("phase") in ("Preempted", "Queued"),
                  lambda: f"patient: {self.job('patient').get('phase')}")
        screen.command("kubectl get events --field-selector reason=Evict")
        for event in self.get("events", "--field-selector", "reason=Evict")["items"]:
            screen.result(f"{event['involvedObject']['name']}: {event['message']}")
        self.ended("urgent")
        screen.done(f"urgent is through in {self.timed('an urgent job, from submit to success', began)}")
        began = time.monotonic()
        self.trained("patient", r"resumed at step \d+")
        step = re.search(r"resumed at step (\d+)", self.logs("patient"))[1]
        screen.done(f"patient went on by itself from its checkpoint at step {step} "
                    f"({self.timed('the preempted job back at its checkpoint', began)})")

    def reloads(self):
        screen = self.screen
        screen.act("5  Edit a file, keep the GPUs")
        path = os.path.join(self.project, "train.py")
        screen.command("sed -i 's/^LEARNING_RATE = .*/LEARNING_RATE = 0.2/' train.py")
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(re.sub(r"(?m)^LEARNING_RATE = .*", "LEARNING_RATE = 0.2", text))
        before = {p["metadata"]["uid"] for p in self.get("pods", "-l", "torchrun-job-name=patient")["items"]}
        began = time.monotonic()
        self.torchrun("sync", "patient", "--restart")
        self.trained("patient", r"resumed at step \d+, learning rate 0\.2")
        step = re.search(r"resumed at step (\d+), learning rate 0\.2", self.logs("patient"))[1]
        after = {p["metadata"]["uid"] for p in self.get("pods", "-l", "torchrun-job-name=patient")["items"]}
        if before != after:
            raise Stop("the pods of patient were replaced by the hot reload")
        screen.done(f"the same pods run the new code from step {step}: "
                    f"{self.timed('an edited file running on every rank', began)}")
        self.ended("patient")
        screen.done("patient finished: " + re.findall(r"done: .*", self.logs("patient"))[-1])

    def summary(self, began):
        screen = self.screen
        screen.act("What happened")
        for what, seconds in self.times:
            screen.result(f"{seconds:6.1f} s  {what}")
        screen.result(f"{time.monotonic() - began:6.1f} s  in all")
        screen.line()
        for row in self.run("kubectl", "get", "torchrunjobs").rstrip().splitlines():
            screen.result(row)
        if os.geteuid():
            screen.result("not root: pods had no network or cgroups of their own; `muster doctor` says how to get them")
        screen.act("Where to look next")
        screen.result("README.md              a workstation in one command, a cluster in three")
        screen.result("examples/              manifests for every kind of job, all of them tested")
        screen.result("make demo KEEP=1       the same, left running for you to play with")

    def play(self):
        began = time.monotonic()
        for act in (self.start, self.gang, self.waits, self.preempts, self.reloads):
            act()
        self.summary(began)

    def finish(self, ok):
        if ok and self.options.keep:
            self.screen.act("Left running")
            self.screen.command(f"export KUBECONFIG={self.env['KUBECONFIG']}")
            self.screen.command(f"kill {self.server.pid}; rm -r {self.folder}    # when you have seen enough")
            return
        if self.server and self.server.poll() is None:
            self.screen.progress("cleaning up ...")
            for what in ("torchrunjobs", "pods"):
                self.run("kubectl", "delete", what, "--all", "--grace-period=0", "--force", ok=False)
            self.server.send_signal(signal.SIGTERM)
            try:
                self.server.wait(20)
            except subprocess.TimeoutExpired:
                self.server.kill()
        if not ok and os.path.exists(self.log):
            with open(self.log, errors="replace") as f:
                sys.stderr.write("--- the last lines of muster up\n" + "".join(f.readlines()[-20:]))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.screen.line()


def real_gpus():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return 0
    return sum(row.startswith("GPU ") for row in done.stdout.splitlines()) if done.returncode == 0 else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    parser.add_argument("--folder", help="where everything goes (default: a new one, removed at the end)")
    demo = Demo(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ok = False
    try:
        demo.play()
        ok = True
    except (Stop, subprocess.TimeoutExpired) as e:
        demo.screen.line(f"demo: {e}")
    except KeyboardInterrupt:
        demo.screen.line("demo: stopped")
    finally:
        demo.finish(ok)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
