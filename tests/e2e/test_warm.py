"""Processes that have torch imported before they are needed: they become the ranks of the next restart in place."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from harness import PATIENCE, Muster, Skip, binary, check, needs, torch_pythons, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")

# Stands for torch: says who imported it. Its torchrun starts one rank, and ends as that does.
TORCH = {
    "__init__.py": "import os\nLOADED_BY = os.getpid()\n",
    "version.py": "__version__ = '2.0.0'\n",
    "distributed/__init__.py": "",
    "distributed/run.py": "import os, subprocess, sys\n"
                          "environment = dict(os.environ, RANK='0', LOCAL_RANK='0', WORLD_SIZE='1')\n"
                          "done = subprocess.run(sys.argv[sys.argv.index('--no_python') + 1:], env=environment)\n"
                          "sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)\n",
}
PROGRAM = """
import json, os, sys
import torch
own = {k: v for k, v in os.environ.items() if k not in ("MUSTER_RUN_DIR", "PATH", "SHLVL", "_", "OLDPWD")}
print(json.dumps({"warm": torch.LOADED_BY != os.getpid()}), flush=True)
print(json.dumps({"argv": sys.argv, "env": own, "cwd": os.getcwd(), "path": sys.path[0], "main": __name__, "file": __file__,
                  "umask": os.umask(0), "executable": sys.executable, "stdin": sys.stdin.read()}, sort_keys=True), flush=True)
print("to stderr", file=sys.stderr, flush=True)
"""
FAILS = "\ndef deep():\n    raise ValueError('planted')\ndeep()\n"
KILLED = "\nos.kill(os.getpid(), 9)\n"
# (why, command, what the program does besides, whether it may be warm)
PROGRAMS = (
    ("it ends well", "python3 program.py one 'two words'", "", True),
    ("it ends with a status of its own", "python3 -u program.py", "sys.exit(7)", True),
    ("an exception is told as ever", "python3 program.py", FAILS, True),
    ("a program that cannot be compiled, too", "python3 program.py", "if", None),
    ("it is killed", "python3 program.py", KILLED, True),
    ("a module is run", "python3 -m program x", "", True),
    ("of a script, a second Python", "umask 027; cd sub && python3 ../program.py", "", True),
    ("a limit that the shell sets counts", "ulimit -n 100; python3 program.py", "", False),
    ("what Python reads at its start counts", "PYTHONDONTWRITEBYTECODE=1 python3 program.py", "", False),
    ("an option of Python counts", "python3 -B program.py", "", False),
    ("a file of the program hides a module",
     "echo 'import os; LOADED_BY = os.getpid()' > torch.py; python3 program.py", "", False),
    ("there is no such script", "python3 other.py", "", None),
)


class Launch:
    """muster-launch as the first process of a container, with a folder of its own for everything."""

    def __init__(self, command, more, warm):
        self.folder = tempfile.mkdtemp(prefix="muster-warm-")
        for name, text in TORCH.items():
            self.write(os.path.join("torch-here", "torch", name), text)
        self.write("app/program.py", PROGRAM + more + "\n")
        self.write("app/sub/empty", "")
        self.write("bin/empty", "")
        for name in ("python", "python3"):
            os.symlink(sys.executable, os.path.join(self.folder, "bin", name))
        os.mkdir(self.at("tmp"))
        self.message = self.at("message")
        environment = {"PATH": self.at("bin") + ":/usr/bin:/bin", "PYTHONPATH": self.at("torch-here"), "TMPDIR": self.at("tmp"),
                       "HOME": "/", "MUSTER_COMMAND": command, "MUSTER_APP_DIR": self.at("app"),
                       "MUSTER_TERMINATION_LOG": self.message, "MUSTER_NPROC": "1"}
        if warm:
            environment["MUSTER_STANDBY"] = self.at("go")
        self.process = subprocess.Popen([binary("muster-launch"), "worker"], env=environment, text=True, cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w") as f:
            f.write(text)

    def go(self):
        wait_for(lambda: glob.glob(self.at("tmp/muster-*/warm.sock")), "a Python that is warm")
        check(self.process.poll() is None, "it waits for its turn")
        open(self.at("go"), "w").close()

    def end(self):
        out, _ = self.process.communicate(timeout=60 * PATIENCE)
        told = open(self.message).read() if os.path.exists(self.message) else ""
        shutil.rmtree(self.folder)
        return {"status": self.process.returncode, "out": self.plain(out), "message": self.plain(told)}

    def plain(self, text):
        """Without what is another one every time: folders, moments, and what only a warm one says."""
        text = re.sub(r"muster-launch: torchrun starts from .*\n", "", text.replace(self.folder, "FOLDER"))
        text = text.replace("FOLDER/bin/python3: can't", "python3: can't")  # an error of Python itself has its name
        return re.sub(r"at \S+Z|\d{4}-\d\d-\d\dT\S+|[0-9]{16,}", "WHEN", text)


def parted(result):
    """(whether it was warm, all the rest); two streams may come in any order."""
    rest = {name: sorted(re.sub(r'"warm": \w+', "", result[name]).splitlines()) for name in ("out", "message")}
    return '"warm": true' in result["out"], dict(rest, status=result["status"])


def test_a_warm_process_becomes_the_same_program():
    cold = [Launch(command, more, False) for _, command, more, _ in PROGRAMS]
    cold = [parted(launch.end()) for launch in cold]
    started = [Launch(command, more, True) for _, command, more, _ in PROGRAMS]
    for launch in started:
        launch.go()
    for (why, _, _, may), (warm, result), (_, expected) in zip(PROGRAMS, [parted(s.end()) for s in started], cold):
        check(result == expected, f"{why}: {json.dumps(result, indent=1)}\nand not\n{json.dumps(expected, indent=1)}")
        check(may is None or warm == may, f"{why}: it was {'warm' if warm else 'cold'}: {result}")


def test_a_warm_rank_looks_whether_the_first_one_listens():
    """PyTorch would sleep for a second; whoever has come that far by itself, or has the agent's store, need not."""
    rows = (("RANK=1 TORCHELASTIC_RUN_ID=x", 1), ("RANK=0 TORCHELASTIC_RUN_ID=x", 0), ("RANK=1", 0),
            ("RANK=1 TORCHELASTIC_RUN_ID=x TORCHELASTIC_USE_AGENT_STORE=True", 0))
    for settings, expected in rows:
        with socket.create_server(("127.0.0.1", 0)) as first:
            first.setblocking(False)
            where = f"MASTER_ADDR=127.0.0.1 MASTER_PORT={first.getsockname()[1]}"
            launch = Launch(f"{settings} {where} python3 program.py", "", True)
            launch.go()
            warm, result = parted(launch.end())
            check(warm and result["status"] == 0, f"{settings}: {result}")
            came = 0
            try:
                while True:
                    first.accept()[0].close()
                    came += 1
            except BlockingIOError:
                pass
            check(came == expected, f"{settings}: {came} connections")


def test_signals_reach_a_program_that_was_warm():
    waits = "\nimport signal\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\nprint('waits', flush=True)\n" \
            "while True:\n    signal.pause()\n"
    ends = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        for warm in (False, True):
            launch = Launch("python3 program.py", waits, warm)
            if warm:
                launch.go()
            said = ""
            while "waits" not in said:
                line = launch.process.stdout.readline()
                check(line, f"it ended: {said}")
                said += line
            check(('"warm": true' in said) == warm, said)
            launch.process.send_signal(number)
            ends.append((number, launch.end()["status"]))
    check(ends[0] == ends[1] and ends[2] == ends[3], f"{ends}")


def test_a_container_that_is_never_needed_ends_when_it_is_told():
    launch = Launch("python3 program.py", "", True)
    wait_for(lambda: glob.glob(launch.at("tmp/muster-*/warm.sock")), "a Python that is warm")
    launch.process.send_signal(signal.SIGTERM)
    end = launch.end()
    check(end["status"] == 128 + signal.SIGTERM and end["out"] == "", f"{end}")


def warm_pids(m, number):
    """Processes that wait with torch imported, of containers that will be restart `number` of their pods."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                command = f.read().split(b"\0")
            wanted = {f"MUSTER_TEST_FOLDER={m.folder}".encode(), f"MUSTER_ROUND={number}".encode()}
            if wanted <= set(environment) and command[1].endswith(b"/warm.py") and \
                    os.path.exists(os.fsdecode(f"/proc/{pid}/root".encode() + command[2])):
                found.append(int(pid))
        except (OSError, IndexError):
            continue
    return found


JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: q}}
spec:
  nodeResources: {{gpus: 1}}
  reliability: {{restartMode: InPlace, warmProcesses: true}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: t}}
spec:
  jobQueue: q
  numNodes: {nodes}
  nprocPerNode: 1
  command: {command}
  env:
  - {{name: MUSTER_TEST_FOLDER, value: {folder}}}
{env}
"""
# An optimizer makes steps until it is told to end: badly, but in its last round.
STEPS = """
import os, sys, time
import torch
from torch.optim.optimizer import Optimizer


class One(Optimizer):
    def step(self):
        time.sleep(0.05)


one, number = One(), os.environ.get("MUSTER_ROUND", "0")
print("warm" if torch.LOADED_BY != os.getpid() else "cold", number, flush=True)
while number != "2" and not os.path.exists("/tmp/end-" + number):
    one.step()
sys.exit(0 if number == "2" else 1)
"""


@needs("a node agent that looks at the ranks")
def test_what_is_warm_outlives_muster_and_is_done_without_when_it_is_gone():
    with tempfile.TemporaryDirectory(prefix="muster-torch-") as here, Muster(gpus_per_node=1, flags=NODES) as m:
        os.chmod(here, 0o755)
        files = {f"torch/{name}": text for name, text in TORCH.items()}
        files.update({"torch/__init__.py": TORCH["__init__.py"] + "import torch.optim.optimizer\n", "torch/optim/__init__.py": "",
                      "torch/optim/optimizer.py": "class Optimizer(object):\n    def __init__(self):\n        pass\n",
                      "app/steps.py": STEPS})
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(here, name)), exist_ok=True)
            with open(os.path.join(here, name), "w") as f:
                f.write(text)
        m.apply(JOB.format(nodes=1, folder=m.folder, command=f"python3 {here}/app/steps.py",
                           env=f"  - {{name: PYTHONPATH, value: {here}}}"))
        wait_for(lambda: warm_pids(m, 1), "a process that is warm", 60)
        check("cold 0" in m.kubectl("logs", "t-worker-0").stdout, "the first container is as ever")
        m.kill()
        m.start()
        wait_for(lambda: m.get("pod", "t-worker-0")["status"]["phase"] == "Running", "the pod to be found")
        check(m.get("pod", "t-worker-0")["status"]["containerStatuses"][0]["restartCount"] == 0, "it is no restart yet")
        end = ("exec", "t-worker-0", "--", "touch", "/tmp/end-0")
        wait_for(lambda: m.kubectl(*end, ok=False).returncode == 0, "the agent to find it")
        wait_for(lambda: "warm 1" in m.kubectl("logs", "t-worker-0").stdout, "the rank to come of it", 60)
        waiting = wait_for(lambda: warm_pids(m, 2), "the next one", 60)
        with open(f"/proc/{waiting[0]}/stat") as f:
            os.kill(int(f.read().rpartition(")")[2].split()[1]), signal.SIGKILL)  # the launcher, and all below
        wait_for(lambda: not glob.glob(os.path.join(m.data, "pods", "*", "c", "*", "*.standby")), "its end to be seen")
        m.kubectl("exec", "t-worker-0", "--", "touch", "/tmp/end-1")
        wait_for(lambda: m.get("torchrunjob", "t")["status"]["phase"] in ("Succeeded", "Failed"), "the job to end", 60)
        end = m.get("torchrunjob", "t")["status"]
        check(end["phase"] == "Succeeded" and end["restarts"] == 2 and end["restartsInPlace"] == 2, f"{end}")
        check("cold 2" in m.kubectl("logs", "t-worker-0").stdout, m.kubectl("logs", "t-worker-0").stdout)


@needs("a node agent that looks at the ranks")
def test_a_gang_restarts_from_processes_that_have_torch_imported():
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    with Muster(nodes=2, gpus_per_node=1, flags=NODES, pytorch=True) as m:
        m.apply(JOB.format(nodes=2, folder=m.folder, command=f"python3 {os.path.join(HERE, 'ddp.py')} 20", env=""))

        def ranks(name=""):
            return [report for pod in m.get("pods") if name in pod["metadata"]["name"]
                    for report in json.loads(pod["metadata"].get("annotations", {}).get("muster.dev/ranks", "[]"))]
        wait_for(lambda: [r["act"] for r in ranks()] == ["stepping"] * 2, "two ranks to make steps", 90)
        pods = {p["metadata"]["uid"] for p in m.get("pods")}
        wait_for(lambda: len(warm_pids(m, 1)) == 2, "a process that is warm in each pod", 90)
        m.kubectl("exec", "t-worker-1", "--", "sh", "-c", f"kill -9 {ranks('t-worker-1')[0]['pid']}")
        since = time.monotonic()
        wait_for(lambda: m.get("torchrunjob", "t")["status"]["phase"] in ("Succeeded", "Failed"), "the job to end", 90)
        print(f"a killed rank: trained to its end after {time.monotonic() - since:.1f} s")
        end = m.get("torchrunjob", "t")["status"]
        check(end["phase"] == "Succeeded" and end["restarts"] == 1 and end["restartsInPlace"] == 1, f"{end}")
        check({p["metadata"]["uid"] for p in m.get("pods")} == pods, "the pods are the same")
        for pod in ("t-worker-0", "t-worker-1"):
            out = m.kubectl("logs", pod).stdout
            check("has torch imported" in out and "done rank" in out, out)
            before = m.kubectl("logs", pod, "--previous").stdout
            check("step 0 rank" in before and "has torch imported" not in before, before)
        wait_for(lambda: [r["steps"] for r in ranks()] == [20, 20], "twenty steps of each to be told")
