"""Whatever ends a job, what it wrote is not lost: the rows of docs/results.md that need real processes. The others are units."""

import json
import os
import re
import shutil
import signal
import time

from harness import PATIENCE, Muster, Skip, binary, check, run, wait_for
from pods import shims
from test_plugin_commands import FLAGS, QUEUE, need_torch
from test_plugin_results import read

# Writes, says so, saves more when it is told to end, and ends by itself when it is let go.
JOB = ("echo weights of $MUSTER_ARRAY_INDEX > model; ln -sf model latest; echo theirs > config; "
       "trap 'echo saved > last; exit 0' TERM; echo written; until [ -e $GO ]; do sleep 0.1; done; echo done > end")


# Both end by themselves, in half of their time.
BARE = """
apiVersion: v1
kind: Pod
metadata: {name: late-pod}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: %d
  containers: [{name: c, image: none, command: [sleep, "%d"]}]
"""
TRAINJOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: late-too}
spec:
  runtimeRef: {name: torch-distributed}
  activeDeadlineSeconds: %d
  trainer: {numNodes: 1, command: [sleep, "%d"]}
"""


class Folder:
    """A project of its own, and the job that is submitted from it."""

    def __init__(self, m, name, *flags, follow=False, command=JOB, queue="demo", gpus="1"):
        self.m, self.name = m, name
        self.path = os.path.join(m.folder, name)
        os.makedirs(self.path, exist_ok=True)
        self.write("config", "mine\n")
        argv = ["submit", "--queue", queue, "--gpus", gpus, "--name", name, "--env", f"GO=go-{name}", *flags]
        if follow:
            self.process = m.spawn_torchrun(*argv, command, cwd=self.path)
        else:
            m.torchrun(*argv, "--detach", command, cwd=self.path)

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

        # An array: a folder for each of its jobs, before it is deleted; one of them by itself.
        m.torchrun("pull", "array-1", "--home")
        array.home(("array-1/model", "weights of 1\n"))
        check(not os.path.exists(os.path.join(array.path, "array-0")), "only what was asked for")
        m.torchrun("cancel", "array")
        for index in ("0", "1"):
            array.home((f"array-{index}/model", f"weights of {index}\n"))
        wait_for(lambda: not [p for p in m.get("pods") if p["metadata"]["name"].startswith("array-")], "its pods to go", 60)
        shutil.rmtree(os.path.join(array.path, "array-0"))
        for argv, folder in (["--home"], array.path), (["--to", "copies"], os.path.join(m.folder, "copies")):
            m.torchrun("pull", "array", *argv)  # by its name, though it was deleted
            for index in ("0", "1"):
                check(read(folder, f"array-{index}/last") == "saved\n", f"{folder}: its last words")
                check(read(folder, f"array-{index}/model") == f"weights of {index}\n", f"{folder}: its results")

        # Deleted by somebody who asks nobody: it is kept, by its name.
        m.kubectl("delete", "torchrunjob", "gone")
        wait_for(lambda: not m.get("pods", "gone-worker-0", ok=False), "its pod to go", 60)
        m.torchrun("pull", "gone", "--home")
        gone.home(("model", "weights of\n"), ("last", "saved\n"))

        # They end well within their limits, and nobody is there to see it: a job, a pod by itself, a TrainJob.
        seconds = int(10 * PATIENCE)
        start = m.get("torchrunjobs", "late")["status"]["startTime"]
        ran = time.time() - time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone
        m.kubectl("patch", "torchrunjob", "late", "--type=merge", "-p",
                  json.dumps({"spec": {"reliability": {"activeDeadlineSeconds": int(ran) + seconds}}}))
        for kind in (BARE, TRAINJOB):
            m.apply(kind % (seconds, seconds // 2))
        wait_for(lambda: len([p for p in m.get("pods") if p["metadata"]["name"].startswith("late-")
                              and p["status"]["phase"] in ("Running", "Succeeded")]) == 4, "them to run", 120)
        passed = time.time() + seconds + 1
        ended = [(p["metadata"]["uid"], p["metadata"]["name"]) for p in m.get("pods")
                 if p["metadata"]["name"].startswith("late-") and "-sync-" not in p["metadata"]["name"]]
        m.kill()
        for folder in working_folders(m):
            open(os.path.join(folder, "go-late"), "w").close()
        wait_for(lambda: time.time() > passed and all(has_ended(m, uid) for uid, _ in ended),
                 f"the limit to pass, and {ended} to have ended", 60)
        m.start()
        wait_for(lambda: m.phase("late") in ("Succeeded", "Failed", "TimedOut"), "the job to be judged", 60)
        check(m.phase("late") == "Succeeded", m.torchrun("status", "late").stdout)
        wait_for(lambda: m.get("pods", "late-pod")["status"]["phase"] != "Running", "the pod to be judged", 60)
        check(m.get("pods", "late-pod")["status"]["phase"] == "Succeeded", str(m.get("pods", "late-pod")["status"]))
        wait_for(lambda: m.get("trainjobs", "late-too")["status"]["phase"] != "Running", "the TrainJob to be judged", 60)
        check(m.get("trainjobs", "late-too")["status"]["phase"] == "Complete", str(m.get("trainjobs", "late-too")["status"]))
        m.torchrun("pull", "late", "--home")
        late.home(("end", "done\n"), ("model", "weights of\n"))


def test_nodes_queues_people_and_gangs_that_go_and_a_full_disk_lose_nothing():
    need_torch()
    with Muster(nodes=2, gpus_per_node=8, flags=[*FLAGS, "--pod-network=bridge"]) as m, \
            Small(os.path.join(m.folder, "full")), Small(os.path.join(m.folder, "many")):
        user = [binary("muster"), "user"]
        run([*user, "add", "alice", "--uid", "70001", "--home", m.folder, "--kubeconfig", m.kubeconfig])
        m.apply(QUEUE)
        m.apply(QUEUE.replace("name: demo", "name: gone"))
        m.apply(QUEUE.replace("name: demo", "name: hers, namespace: alice"))
        full = Folder(m, "full", follow=True, command="dd if=/dev/zero bs=1M count=4 | tr '\\0' x > model; echo written")
        many = Folder(m, "many", command="for i in $(seq 400); do echo $i > part-$i; done; echo written; "
                                         "until [ -e go ]; do sleep 0.1; done")
        queued = Folder(m, "queued", queue="gone")
        elastic = Folder(m, "elastic", "--min-nodes", "1", "--max-nodes", "2", gpus="4")
        lost = Folder(m, "lost")
        Folder(m, "hers", "--namespace", "alice", queue="hers")
        for folder in (queued, elastic, lost):
            folder.written()
        wait_for(lambda: "written" in m.torchrun("logs", "hers", "--namespace", "alice", ok=False).stdout,
                 "hers to have written", 120)

        # Your disk is full: nothing is half there, and all of it can go elsewhere.
        said = full.process.communicate(timeout=120)[0]
        check(full.process.returncode == 1 and "does not fit" in said and "pull full" in said, said)
        check(os.listdir(full.path) == ["config"], str(os.listdir(full.path)))
        m.torchrun("pull", "full", "--to", "roomy")
        check(os.path.getsize(os.path.join(m.folder, "roomy", "model")) == 4 << 20, "what did not fit")
        left = [os.path.join(folder, name) for folder, _, names in os.walk(m.data) for name in names if name == "config"
                and "/pods/" in folder and os.path.exists(os.path.join(folder, "model"))
                and os.path.getsize(os.path.join(folder, "model")) == 4 << 20]
        check(not left, f"what was sent is kept in a pod that has ended: {left}")

        # It fills while the copy is under way, because of small files: each is at home, or is said not to be.
        many.written()
        for index in range(1, 401, 4):
            many.write(f"part-{index}", "mine\n")
        done = m.torchrun("pull", "many", "--home", ok=False)
        check(done.returncode == 1 and "No space left" in done.stderr, done.stderr)
        brought = int(re.search(r"results: (\d+) file", done.stderr)[1])
        missing = [line for line in done.stderr.splitlines() if line.startswith("not copied: ")]
        told = sum(int((re.search(r"^not copied: (\d+) more", line) or [0, 1])[1]) for line in missing)
        check(brought < 400 and brought + told == 400, f"{brought} came, {told} did not: {done.stderr}")
        for name in re.findall(r"the job's is beside it, (\S+)", done.stderr):
            check(os.path.exists(os.path.join(many.path, name)), f"{name} is not there: {done.stderr}")
        for index in range(1, 401, 4):
            check(read(many.path, f"part-{index}") == "mine\n", f"part-{index} was the user's")
        m.kubectl("delete", "torchrunjob", "many", "--wait=false")

        # Its queue goes: who removes it is told, what runs goes on.
        done = m.kubectl("delete", "torchrunqueue", "gone")
        check("what runs goes on" in done.stderr, done.stderr)
        m.torchrun("cancel", "queued")
        queued.home(("model", "weights of\n"), ("config", "theirs\n"))

        # Its folder goes: it is said where its results can go.
        os.rename(lost.path, lost.path + "-moved")
        said = m.torchrun("pull", "lost", "--home", ok=False).stderr
        check("is not there any more" in said and "--to DIR" in said, said)
        os.rename(lost.path + "-moved", lost.path)

        # A member of an elastic job is replaced: what it wrote is there, beside what its successor writes.
        first = m.get("pods", "elastic-worker-1")["metadata"]["uid"]
        m.torchrun("exec", "elastic", "--worker", "1", "--", "sh", "-c", "echo of the first > /app/epoch-1")
        m.kubectl("delete", "pod", "elastic-worker-1")
        wait_for(lambda: first not in [p["metadata"]["uid"] for p in m.get("pods")]
                 and m.get("pods", "elastic-worker-1", ok=False), "another one", 60)
        m.torchrun("pull", "elastic", "--all", "--generation", "0", "--to", "members")
        check(read(m.folder, "members/rank-1/epoch-1") == "of the first\n", "of a member that was replaced")
        m.kubectl("delete", "torchrunjob", "elastic", "--wait=false")

        # A person goes, with her namespace: what her jobs wrote is kept by their names.
        run([*user, "remove", "alice", "--yes", "--kubeconfig", m.kubeconfig])
        wait_for(lambda: not m.get("namespace", "alice", ok=False), "her namespace to go", 60)
        m.torchrun("pull", "hers", "--namespace", "alice", "--to", "hers-kept")
        check(read(m.folder, "hers-kept/model") == "weights of\n", "of somebody who has gone")

        # The machine goes, and comes back: what ran begins again, and what it had written is kept.
        m.kill()
        for pid in shims(m).values():
            os.kill(pid, signal.SIGKILL)
        m.start()
        wait_for(lambda: m.get("torchrunjobs", "lost")["status"].get("restarts"), "the job to begin again", 120)
        check("restarted" in m.torchrun("status", "lost").stdout, m.torchrun("status", "lost").stdout)
        m.torchrun("pull", "lost", "--generation", "0", "--to", "before")
        check(read(m.folder, "before/model") == "weights of\n", "before the machine went")


class Small:
    """A disk of its own with room for a megabyte."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        os.mkdir(self.path)
        done = run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", self.path], ok=False)
        if done.returncode != 0:
            raise Skip(f"no disk of its own can be mounted: {done.stderr.strip()}")

    def __exit__(self, *_):
        run(["umount", self.path])


def working_folders(m):
    """Of pods that are on the disk and have written."""
    pods = os.path.join(m.data, "pods")
    return [folder for pod in os.listdir(pods) for folder, _, names in os.walk(os.path.join(pods, pod, "volumes"))
            if "model" in names]


def has_ended(m, uid):
    """The shim of the pod has written down that its containers have ended."""
    containers = os.path.join(m.data, "pods", uid, "c")
    return all(any(name.endswith(".exit") for name in os.listdir(os.path.join(containers, container)))
               for container in os.listdir(containers))
