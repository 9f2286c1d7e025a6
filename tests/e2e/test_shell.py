"""A shell on GPUs of a queue, and the address of a program in a job."""

import os
import shutil
import signal
import subprocess
import urllib.request

from harness import Muster, binary, check, wait_for
from test_plugin_open import apply_page
from test_plugin_terminal import Terminal

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: dev}
spec: {nodeResources: {gpus: 2}}
"""
PAGE = """
apiVersion: v1
kind: Pod
metadata:
  name: web-worker-0
  labels: {torchrun-job-name: web, torchrun.ai/role: worker, torchrun.ai/index: "0"}
  ownerReferences: [{apiVersion: torchrun.ai/v1alpha1, kind: TorchrunJob, name: web, uid: UID, controller: true}]
spec:
  restartPolicy: Never
  containers:
    - name: trainer
      image: i
      command: [sh, -c, 'd=/tmp/web-$IP; mkdir -p $d; cd $d; echo hello > page; exec python3 -m http.server 8000 --bind $IP']
      env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
"""


def test_a_shell_holds_its_gpus_and_gives_them_back():
    with Muster(gpus_per_node=2) as m:
        m.apply(QUEUE)
        folder = os.path.join(m.folder, "work")
        os.mkdir(folder)
        done = m.torchrun("shell", "--gpus", "2", "--", "sh", "-c", "echo in $PWD; echo x > left; exit 3", cwd=folder, ok=False)
        check(done.returncode == 3 and f"in {folder}" in done.stdout, f"{done}")
        check("asks for 2 GPUs in queue dev" in done.stderr, done.stderr)
        with open(os.path.join(folder, "left")) as f:
            check(f.read() == "x\n", "what a shell writes in the folder stays")
        wait_for(lambda: m.kubectl("get", "pods", "-o", "name").stdout == "", "the pod of the shell to go")
        done = m.torchrun("shell", "--queue", "nope", ok=False)
        check("torchrunqueue nope does not exist" in done.stderr, done.stderr)


def without_kubectl(m):
    """A PATH on which there is everything else that a shell of this test needs."""
    folder = os.path.join(m.folder, "programs")
    os.mkdir(folder)
    for name in ("sh", "bash", "sleep", "cat", "mkdir", "rm"):
        os.symlink(shutil.which(name), os.path.join(folder, name))
    return dict(m.env, PATH=folder)


def test_a_shell_needs_no_kubectl():
    with Muster(gpus_per_node=1) as m:
        m.apply(QUEUE)
        env = without_kubectl(m)
        done = subprocess.run([binary("kubectl-torchrun"), "shell", "--", "sh", "-c", "cat; echo words >&2; exit 3"],
                              input="x" * 100000 + "end\n", env=env, cwd=m.folder, capture_output=True, text=True, timeout=120)
        check(done.returncode == 3 and done.stdout == "x" * 100000 + "end\n" and "words" in done.stderr,
              f"{done.returncode} {done.stdout[-100:]!r} {done.stderr}")
        t = Terminal(m, "shell", "--", "sh", "-c", "echo ready; read word; stty size; echo $word-42; exit 5", env=env)
        t.expect("ready")
        t.type("it\r")
        t.expect("30 120")
        t.expect("it-42")
        check(t.end() == 5, f"the exit status of what ran on the terminal: {t.text}")
        t = Terminal(m, "shell", "--idle", "2s", env=env)  # bash waits at its prompt
        t.expect("timed out waiting for input")
        t.end()
        wait_for(lambda: m.kubectl("get", "pods", "-o", "name").stdout == "", "the pod of the shell to go")


def test_a_shell_whose_program_was_killed_gives_its_gpus_back():
    with Muster(gpus_per_node=1) as m:
        m.apply(QUEUE)
        shell = subprocess.Popen([binary("kubectl-torchrun"), "shell", "--", "sh", "-c", "echo here; exec cat"], env=m.env,
                                 cwd=m.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        check(shell.stdout.readline() == b"here\n", "the shell to be inside")
        os.killpg(shell.pid, signal.SIGKILL)  # kubectl too: nobody is left to say that it ended
        shell.wait()
        wait_for(lambda: all(p["status"].get("phase") in ("Succeeded", "Failed") for p in m.get("pods")),
                 "the keeper to end", 60)


def test_the_address_of_a_program_in_a_job():
    with Muster() as m:
        apply_page(m, PAGE)
        done = m.torchrun("open", "nobody", "8000", ok=False)
        check("no pod of job nobody runs" in done.stderr, done.stderr)

        def address():
            return m.torchrun("open", "web", "8000", ok=False).stdout.strip()

        url = wait_for(address, "something to listen")
        with urllib.request.urlopen(url + "/page") as answer:
            check(answer.read() == b"hello\n", "the page of the pod")
        done = m.torchrun("open", "web", "8001", ok=False)
        check("listens at" in done.stderr and "--bind_all" in done.stderr, done.stderr)
