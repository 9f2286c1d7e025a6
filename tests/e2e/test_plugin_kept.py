"""What a job wrote, when its pods have ended: on one's own machine and, in tests/kubernetes, on a cluster."""

import os

from harness import Muster, check, wait_for
from test_plugin_commands import FLAGS, need_torch, project

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: demo}
spec:
  nodeResources: {gpus: 2, cpus: 1, memory: 2Gi}
  reliability: {maxRestarts: 1}
"""
# The first generation fails, so that there is a second one.
MAIN = """
import os, sys
generation = os.environ["MUSTER_GENERATION"]
if os.environ["LOCAL_RANK"] == "0":
    os.makedirs("out", exist_ok=True)
    open("out/model", "w").write("weights " + generation)
    open("large", "wb").write(b"x" * (5 << 20))
sys.exit(0 if generation == "1" else 3)
"""


def read(*parts):
    with open(os.path.join(*parts)) as f:
        return f.read()


def test_what_an_ended_job_wrote_comes_home_and_can_be_pulled():
    need_torch()
    with Muster(gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py=MAIN)
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "2", "--name", "job", "python main.py",
                          cwd=folder, limit=180)
        check("results: 2 files" in done.stderr, done.stderr)
        check(read(folder, "out", "model") == "weights 1", "of the last generation")
        check(os.path.getsize(os.path.join(folder, "large")) == 5 << 20, "what is large comes whole")
        m.torchrun("pull", "job", "out", "--to", "some", cwd=m.folder)
        check(os.listdir(os.path.join(m.folder, "some")) == ["out"], "only what is asked for")
        m.torchrun("pull", "job", "--generation", "0", "--to", "earlier", cwd=m.folder)
        check(read(m.folder, "earlier", "out", "model") == "weights 0", "of the generation before")
        done = m.torchrun("pull", "job", "nowhere", "--to", "none", cwd=m.folder, ok=False)
        check(done.returncode != 0 and "no such" in done.stderr.lower(), f"{done.returncode} {done.stderr}")


# Writes, saves more when it is told to end, and ends by itself when it is let go.
JOB = ("echo weights > model; trap 'echo saved > last; exit 0' TERM; echo written; "
       "until [ -e go ]; do sleep 0.1; done; echo done > end")


def test_limits_cancelling_and_a_drain_lose_nothing():
    need_torch()
    with Muster(gpus_per_node=6, flags=FLAGS) as m:
        m.apply(QUEUE)
        folders = {}
        for name in ("timed", "cancelled", "drained"):
            folders[name] = os.path.join(m.folder, name)
            os.mkdir(folders[name])
            m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", name, "--time", "1h",
                       "--detach", JOB, cwd=folders[name])
        for name in folders:
            wait_for(lambda: "written" in m.torchrun("logs", name, ok=False).stdout, f"{name} to have written", 180)

        m.kubectl("patch", "torchrunjob", "timed", "--type=merge", "-p", '{"spec": {"maxRunTime": "1s"}}')
        wait_for(lambda: m.phase("timed") == "TimedOut", "its limit", 60)
        m.torchrun("pull", "timed", "--home")
        check(read(folders["timed"], "model") == "weights\n" and read(folders["timed"], "last") == "saved\n", "a limit")

        m.torchrun("cancel", "cancelled")
        check(read(folders["cancelled"], "model") == "weights\n", "cancelled")

        # On a cluster what the first pod wrote is in a claim, and what serves it may be evicted.
        m.torchrun("exec", "drained", "--", "touch", "/app/go")
        wait_for(lambda: m.phase("drained") == "Succeeded", "the job to end", 60)
        if hasattr(m, "plane"):
            sync = m.get("pods", "drained-sync-0")
            m.kubectl("create", "--raw", "/api/v1/namespaces/default/pods/drained-sync-0/eviction", "-f", "-",
                      input='{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "drained-sync-0"}}')
            wait_for(lambda: (m.get("pods", "drained-sync-0", ok=False) or sync)["metadata"]["uid"] != sync["metadata"]["uid"],
                     "another sync pod", 60)
        m.torchrun("pull", "drained", "--home")
        check(read(folders["drained"], "model") == "weights\n" and read(folders["drained"], "end") == "done\n", "a drain")
