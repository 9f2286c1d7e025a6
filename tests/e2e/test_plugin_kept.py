"""What a job wrote, when its pods have ended: on one's own machine and, in tests/kubernetes, on a cluster."""

import os

from harness import Muster, check
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
