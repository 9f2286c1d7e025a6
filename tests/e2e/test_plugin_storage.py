"""kubectl torchrun beside volumes: checkpoints, workspaces from a bucket or a claim, jobs that change their size."""

import os
import tarfile

from harness import Muster, check, needs, run, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, one_line, project

WITH_CHECKPOINTS = QUEUE + "  storage: {checkpoints: {enabled: true, size: 1Gi}}\n"


def test_scale_and_checkpoints():
    need_torch()
    with Muster(nodes=2, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(WITH_CHECKPOINTS)
        folder = project(m)
        m.torchrun("submit", "--queue", "demo", "--gpus", "2", "--name", "s", "--detach",
                   "touch /checkpoints/step-$RANK-of-$WORLD_SIZE; echo world $WORLD_SIZE; sleep 600", cwd=folder)
        wait_for(lambda: m.torchrun("logs", "s").stdout.count("world 2") == 2, "two ranks", 90)
        check("step-1-of-2" in m.torchrun("checkpoints", "s").stdout, "checkpoints does not list what is there")
        one_line(m.torchrun("scale", "s", ok=False), "--gpus")
        one_line(m.torchrun("scale", "nobody", "--gpus", "2", ok=False), "nobody")
        m.torchrun("scale", "s", "--gpus", "4")
        wait_for(lambda: m.torchrun("logs", "s").stdout.count("world 4") == 4, "four ranks", 120)
        status = m.get("torchrunjob", "s")["status"]
        check((status["numNodes"], status["generation"], status["restarts"]) == (2, 1, 0), f"{status}")
        check("step-3-of-4" in m.torchrun("checkpoints", "s").stdout, "the checkpoints of all ranks")
        m.torchrun("suspend", "s")
        wait_for(lambda: m.phase("s") == "Suspended" and not m.get("pods"), "the pods of the suspended job to go", 60)
        one_line(m.torchrun("checkpoints", "s", ok=False), "no pod of job s is running")


@needs("a node agent, which has the claims of all jobs on its disk")
def test_runs_of_one_folder_keep_it_once():
    need_torch()
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = os.path.join(m.folder, "project")
        os.makedirs(os.path.join(folder, "data"))
        with open(os.path.join(folder, "data", "tokens"), "wb") as f:
            f.write(os.urandom(16 << 20))

        def taken(where=""):
            """MiB on the disk; of what goes while it is counted, du says so and counts the rest."""
            counted = run(["du", "-sk", os.path.join(m.data, where)], ok=False).stdout
            return int(counted.split()[0]) / 1024

        before = taken()
        for name in ("one", "two", "three"):  # the first runs, the others wait
            m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", name, "--detach",
                       "echo written > model; echo started; until [ -e go ]; do sleep 0.1; done", cwd=folder)
        wait_for(lambda: "started" in m.torchrun("logs", "one", ok=False).stdout, "the first to run", 120)
        wait_for(lambda: taken("volumes") < 18, "one original for three jobs", 60)
        check(taken("pods") > 16, "what a pod may write to is its own")
        waiting = {"two", "three"}  # created in one second perhaps, so either may come first

        def begun(names):
            return next((n for n in names if "started" in m.torchrun("logs", n, ok=False).stdout), None)

        for names in ({"one"}, waiting, waiting):
            name = wait_for(lambda: begun(names), "the next to run", 120)
            waiting.discard(name)
            m.torchrun("exec", name, "--", "touch", "go")
            wait_for(lambda: m.phase(name) == "Succeeded", f"{name} to end", 60)
        wait_for(lambda: taken() < before + 8, "what ended jobs were sent to go", 60)
        m.torchrun("pull", "two", "--to", "two")
        check(os.path.exists(os.path.join(m.folder, "two", "model")), "what it wrote is there")


SOURCE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: demo
  numGPUs: 1
  command: "python main.py"
  reliability: {{restartPolicy: Never}}
  {more}
"""
FILL = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: code}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: fill}
spec:
  restartPolicy: Never
  volumes: [{name: code, persistentVolumeClaim: {claimName: code}}]
  containers:
  - name: c
    image: x
    command: [sh, -c, "echo \\"print('from a claim', flush=True)\\" > /code/main.py"]
    volumeMounts: [{name: code, mountPath: /code}]
"""
# Stands for the command-line client of an object store: s3://bucket/... is a folder here.
AWS = """#!/bin/sh
[ "$1 $2 $3" = "s3 cp --quiet" ] || { echo "unexpected: $*" >&2; exit 2; }
exec cp "BUCKET/${4#s3://bucket/}" "$5"
"""


def test_a_workspace_from_a_bucket_and_from_a_claim():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        # Programs of pods come from the server's PATH.
        tools = os.path.join(m.folder, "tools")
        os.mkdir(tools)
        m.stop()
        m.env["PATH"] = tools + ":" + m.env["PATH"]
        with open(os.path.join(tools, "aws"), "w") as f:
            f.write(AWS.replace("BUCKET", m.folder))
        os.chmod(os.path.join(tools, "aws"), 0o755)
        m.start()
        m.apply(QUEUE)
        m.apply(FILL)
        main = os.path.join(m.folder, "main.py")
        with open(main, "w") as f:
            f.write("print('from a bucket', flush=True)\n")
        with tarfile.open(os.path.join(m.folder, "code.tar.gz"), "w:gz") as t:
            t.add(main, "main.py")
        m.apply(SOURCE.format(name="bucket", more='workspaceStorage: {source: s3, url: "s3://bucket/code.tar.gz"}'))
        wait_for(lambda: m.get("pod", "fill")["status"].get("phase") == "Succeeded", "the claim to be filled", 60)
        m.apply(SOURCE.format(name="claim", more="""workspaceStorage: {source: existing}
  storage: {workspace: {enabled: true, existingClaim: code}}"""))
        for name in ("bucket", "claim"):
            wait_for(lambda: m.phase(name) in ("Succeeded", "Failed"), f"job {name} to end", 120)
            check(f"[rank0] from a {name}" in m.torchrun("logs", name).stdout,
                  f"{name}: {m.get('torchrunjob', name)['status']['message']}")
        m.torchrun("delete", "--force", "claim")
        wait_for(lambda: not m.get("torchrunjob", "claim"), "the job to go", 30)
        check(m.get("pvc", "code"), "somebody else's claim went with the job")
