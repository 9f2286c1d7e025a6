"""muster run: no server, no queue, no kubectl; a script on GPUs, and what it wrote in the folder."""

import os
import shutil
import signal
import subprocess
import tempfile

from harness import PATIENCE, Failure, binary, check, run, torchrun_of_pods, wait_for
from test_plugin_commands import need_torch

TRAIN = """
import argparse, os, torch, torch.distributed as dist
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
lr = p.parse_args().lr
dist.init_process_group("gloo")
w = torch.ones(2) * dist.get_rank() * lr
dist.all_reduce(w)
print("sum", w.tolist(), flush=True)
if dist.get_rank() == 0:
    torch.save(w, "model.pt")
dist.destroy_process_group()
"""


def processes(data):
    """Processes that have the folder in their command line, or something open there, as the keepers of pods have."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if data in f.read() or any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith(data + "/")
                                           for fd in os.listdir(f"/proc/{pid}/fd")):
                    found.append(pid)
        except OSError:
            pass
    return found


def name_of(pid):
    with open(f"/proc/{pid}/cmdline") as f:
        return f.read().strip("\0").replace("\0", " ")


class Own:
    """A person without a muster: a home, a folder, and no kubectl. `pytorch`: as Muster()'s."""

    def __init__(self, pytorch=False):
        self.folder = tempfile.mkdtemp(prefix="muster-run-")
        self.data = os.path.join(self.folder, "data")
        self.project = os.path.join(self.folder, "project")
        os.mkdir(self.project)
        self.env = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG",)}
        path = ":".join(filter(None, (torchrun_of_pods(pytorch), self.env["PATH"])))
        self.env.update(HOME=self.folder, MUSTER_DATA_DIR=self.data, NO_COLOR="1", PATH=path)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        run([binary("muster"), "stop", "--all"], env=self.env, ok=False, limit=90)
        log = os.path.join(self.data, "muster.log")
        if value is not None and os.path.exists(log):
            with open(log) as f:
                print("--- muster.log\n" + "".join(f.readlines()[-30:]))
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, text):
        with open(os.path.join(self.project, name), "w") as f:
            f.write(text)

    def muster(self, *argv, ok=True):
        return run([binary("muster"), *argv], env=self.env, cwd=self.project, ok=ok, limit=180)


def test_run_starts_a_muster_trains_and_brings_the_model_home():
    need_torch()
    with Own(pytorch="ranks") as own:
        own.write("train.py", TRAIN)
        done = own.muster("run", "--gpus", "2", "--name", "first", "train.py", "--lr", "0.5")
        check(done.stdout.count("sum [0.5, 0.5]") == 2 and "[rank1]" in done.stdout, done.stdout + done.stderr)
        check("\x1b" not in done.stdout + done.stderr, "plain where there is no terminal")
        for words in ("started a muster of your own", "queue default was made", "model.pt"):
            check(words in done.stderr, f"{words!r} is not told: {done.stderr}")
        check(os.path.getsize(os.path.join(own.project, "model.pt")) > 0, "the model is in the folder")

        # The same one serves again; any command, and its exit status.
        done = own.muster("run", "--name", "second", "--no-workspace", "--", "exit 7", ok=False)
        check(done.returncode == 7 and "started a muster" not in done.stderr, f"{done.returncode} {done.stderr}")
        listed = own.muster("list").stdout
        check("first" in listed and "second" in listed, listed)
        check("default" in own.muster("queues").stdout, "muster queues finds it")
        check(own.muster("wait", "first").stdout == "first Succeeded\n", "wait")

        # Interrupted twice, where nobody can be asked.
        own.write("long.py", "import time\nopen('half', 'w').write('half')\nprint('it runs', flush=True)\ntime.sleep(600)\n")
        job = subprocess.Popen([binary("muster"), "run", "--name", "long", "long.py"], env=own.env, cwd=own.project,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in job.stdout:
            if "it runs" in line:
                break
        done = own.muster("stop", ok=False)
        check(done.returncode != 0 and "1 job is not over: long" in done.stderr, done.stderr)
        job.send_signal(signal.SIGINT)
        for line in job.stderr:
            if "once more cancels" in line:
                break
        job.send_signal(signal.SIGINT)
        said = job.communicate(timeout=60 * PATIENCE)[1]
        check(job.returncode == 130 and "cancelled" in said, f"{job.returncode}: {said}")
        check(os.path.exists(os.path.join(own.project, "half")), f"what it wrote so far: {said}")

        # What is not at home is named before it goes.
        own.muster("run", "--name", "away", "--results=false", "--", "echo weights > model")
        own.muster("run", "--name", "held", "--detach", "--no-workspace", "--", "trap '' TERM; echo holds; sleep 600")
        wait_for(lambda: "holds" in own.muster("logs", "held", ok=False).stdout, "one that does not end when it is told", 60)
        keepers = [pid for pid in processes(own.data) if name_of(pid) == "muster-shim default/held-worker-0"]
        check(len(keepers) == 1, f"who keeps its pod is seen: {[name_of(pid) for pid in processes(own.data)]}")
        done = own.muster("stop", "--all")
        check("is removed" in done.stdout and "default/away-worker-0" in done.stderr, done.stdout + done.stderr)
        check("first" not in done.stderr, f"it came home: {done.stderr}")
        check(not os.path.exists(own.data), "its folder is gone")
        for folder in (".cache/muster", ".local/state/muster"):
            check(not os.path.exists(os.path.join(own.folder, folder)), f"{folder} is left")
        wait_for(lambda: not processes(own.data), f"no process: {processes(own.data)}", 20)


REFUSING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refusing}
webhooks:
  - name: refusing.example.org
    clientConfig: {url: "https://127.0.0.1:9/"}
    rules: [{apiGroups: [torchrun.ai], apiVersions: ["*"], operations: [DELETE], resources: [torchrunjobs]}]
    failurePolicy: Fail
    timeoutSeconds: 1
    sideEffects: None
    admissionReviewVersions: [v1]
"""


def test_a_stop_that_cannot_delete_the_jobs_keeps_the_notes_of_where_they_came_from():
    need_torch()
    with Own() as own:
        own.write("train.py", "open('model.pt', 'w').write('weights')\n")
        own.muster("run", "--name", "one", "train.py")
        kubectl = ["kubectl", "--kubeconfig", os.path.join(own.data, "kubeconfig")]
        run([*kubectl, "apply", "-f", "-"], env=own.env, input=REFUSING)
        done = own.muster("stop", "--all", ok=False)
        check(done.returncode == 1 and "refusing.example.org" in done.stderr, f"{done.returncode} {done.stderr}")
        os.unlink(os.path.join(own.project, "model.pt"))
        own.muster("pull", "one", "--home")
        check(os.path.exists(os.path.join(own.project, "model.pt")), "it still comes home")
        run([*kubectl, "delete", "validatingwebhookconfiguration", "refusing"], env=own.env)
        own.muster("stop", "--all")
        check(not os.path.exists(os.path.join(own.folder, ".local/state/muster")), "and then they are gone")



def test_a_muster_of_ones_own_ends_when_idle():
    with Own() as own:
        with open(os.path.join(own.folder, "log"), "w") as log:
            up = subprocess.Popen([binary("muster"), "up", "--listen", "127.0.0.1:0", "--stop-when-idle", "1s"],
                                  env=own.env, stdout=log, stderr=log)
        try:
            check(up.wait(60 * PATIENCE) == 0, "it ended well")
        except subprocess.TimeoutExpired:
            up.kill()
            raise Failure("it did not end")
        with open(os.path.join(own.folder, "log")) as f:
            check("up.idle" in f.read(), "it says why")


def test_an_address_for_everybody_is_one_that_can_be_reached():
    """Also on a data folder whose certificate was made for another address."""
    with Own() as own:
        for listen in ("127.0.0.1:0", "0.0.0.0:0"):
            log = os.path.join(own.folder, "log")
            kubeconfig = os.path.join(own.folder, listen)
            with open(log, "w") as out:
                up = subprocess.Popen([binary("muster"), "up", "--listen", listen, "--kubeconfig-out", kubeconfig],
                                      env=own.env, stdout=out, stderr=out)
            try:
                wait_for(lambda: "muster is ready" in open(log).read(), "muster up to be ready", 60)
                with open(kubeconfig) as f:
                    check("https://0.0.0.0" not in f.read(), "nobody can connect to 0.0.0.0")
                run([binary("kubectl-torchrun"), "queues", "--kubeconfig", kubeconfig], env=own.env)
            finally:
                up.terminate()
                up.wait(60 * PATIENCE)
