"""Whatever ends a job, what it wrote is not lost: the rows of docs/results.md that need real processes. The others are units."""

import json
import os
import time

from harness import Muster, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch
from test_plugin_results import read

# Writes, says so, saves more when it is told to end, and ends by itself when it is let go.
JOB = ("echo weights of $MUSTER_ARRAY_INDEX > model; ln -sf model latest; echo theirs > config; "
       "trap 'echo saved > last; exit 0' TERM; echo written; until [ -e $GO ]; do sleep 0.1; done; echo done > end")


class Folder:
    """A project of its own, and the job that is submitted from it."""

    def __init__(self, m, name, *flags, follow=False):
        self.m, self.name = m, name
        self.path = os.path.join(m.folder, name)
        os.mkdir(self.path)
        self.write("config", "mine\n")
        argv = ["submit", "--queue", "demo", "--gpus", "1", "--name", name, "--env", f"GO=go-{name}", *flags]
        if follow:
            self.process = m.spawn_torchrun(*argv, JOB, cwd=self.path)
        else:
            m.torchrun(*argv, "--detach", JOB, cwd=self.path)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(text)

    def written(self, job=None):
        job = job or self.name
        wait_for(lambda: "written" in self.m.torchrun("logs", job, ok=False).stdout, f"{job} to have written", 120)

    def home(self, *names):
        for name, text in names:
            check(read(self.path, name) == text, f"{self.name}: {name}: {read(self.path, name)!r}")


def test_limits_conflicts_arrays_deletion_and_a_dead_muster_lose_nothing():
    need_torch()
    with Muster(nodes=1, gpus_per_node=8, flags=FLAGS) as m:
        m.apply(QUEUE)
        timed = Folder(m, "timed", "--time", "1h", follow=True)
        conflict = Folder(m, "conflict")
        array = Folder(m, "array", "--array", "0-1")
        gone = Folder(m, "gone")
        late = Folder(m, "late")
        for folder in (timed, conflict, gone, late):
            folder.written()
        for index in (0, 1):
            array.written(f"array-{index}")

        # A limit: its last words too, and the link that it made.
        m.kubectl("patch", "torchrunjob", "timed", "--type=merge", "-p", '{"spec": {"maxRunTime": "1s"}}')
        said = timed.process.communicate(timeout=120)[0]
        check(m.phase("timed") == "TimedOut", said)
        timed.home(("model", "weights of\n"), ("last", "saved\n"), ("config", "theirs\n"))
        check(os.readlink(os.path.join(timed.path, "latest")) == "model", "links come home")
        timed.home((".muster/replaced/timed/config", "mine\n"))
        check("timed" in said and ".muster/replaced" in said, said)
        wait_for(lambda: not m.get("pods", "timed-worker-0", ok=False), "its pod to go", 60)
        os.remove(os.path.join(timed.path, "model"))
        m.torchrun("pull", "timed", "--home")  # long after its pods
        timed.home(("model", "weights of\n"))
        lines = [json.loads(line) for line in m.torchrun("history", "-o", "json").stdout.splitlines()]
        check([line.get("exitCode") for line in lines if line["name"] == "timed"] == [None], f"no exit status: {lines}")

        # A conflict: the job's is beside it, and what came is known one by one.
        conflict.write("config", "newer\n")
        for _ in range(2):
            done = m.torchrun("pull", "conflict", "--home")
            check("model changed" not in done.stderr, done.stderr)
            conflict.home(("config", "newer\n"), ("config.conflict", "theirs\n"), ("model", "weights of\n"))
        m.torchrun("cancel", "conflict")
        conflict.home(("config", "newer\n"), ("model", "weights of\n"))

        # An array: a folder for each of its jobs, before it is deleted.
        m.torchrun("cancel", "array")
        for index in ("0", "1"):
            array.home((f"array-{index}/model", f"weights of {index}\n"))

        # Deleted by somebody who asks nobody: it is kept, by its name.
        m.kubectl("delete", "torchrunjob", "gone")
        wait_for(lambda: not m.get("pods", "gone-worker-0", ok=False), "its pod to go", 60)
        m.torchrun("pull", "gone", "--home")
        gone.home(("model", "weights of\n"), ("last", "saved\n"))

        # It ends well within its limit, and nobody is there to see it.
        start = m.get("torchrunjobs", "late")["status"]["startTime"]
        limit = int(time.time() - time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone) + 5
        m.kubectl("patch", "torchrunjob", "late", "--type=merge", "-p",
                  json.dumps({"spec": {"reliability": {"activeDeadlineSeconds": limit}}}))
        m.kill()
        for folder in working_folders(m):
            open(os.path.join(folder, "go-late"), "w").close()
        begun = time.time()
        wait_for(lambda: time.time() > begun + 6 and has_ended(m), "the limit to pass, and the job to have ended", 60)
        m.start()
        wait_for(lambda: m.phase("late") in ("Succeeded", "Failed", "TimedOut"), "the job to be judged", 60)
        check(m.phase("late") == "Succeeded", m.torchrun("status", "late").stdout)
        m.torchrun("pull", "late", "--home")
        late.home(("end", "done\n"), ("model", "weights of\n"))


def working_folders(m):
    """Of pods that are on the disk and have written."""
    pods = os.path.join(m.data, "pods")
    return [folder for pod in os.listdir(pods) for folder, _, names in os.walk(os.path.join(pods, pod, "volumes"))
            if "model" in names]


def has_ended(m):
    """The shim of a pod with the last file has written down that its container has ended."""
    return any(os.path.exists(os.path.join(folder, "end")) and
               any(name.endswith(".exit") for _, _, names in os.walk(os.path.join(folder, "..", "..", "c")) for name in names)
               for folder in working_folders(m))
