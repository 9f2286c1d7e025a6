"""Pods that give up their GPUs and stay: frozen, counted without a GPU, and going on where they were."""

import json
import os
import re
import signal

from harness import BUILD, Muster, Skip, check, needs, torch_pythons, wait_for
from pods import phase

STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.py")

COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
# Stands for a program that uses the GPU: what the agent goes by is the driver's library in its memory.
CUDA = """
import ctypes, time
ctypes.CDLL(%r)
for i in range(1, 1000000):
    print(i, flush=True)
    time.sleep(0.05)
"""
DRIVER = os.path.join(BUILD, "tests", "suspend", "libcuda.so.1")


def pod(name, command, probe=None):
    container = {"name": "main", "image": "x", "command": command,
                 "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "100m", "memory": "1Gi"}}}
    if probe:
        container["livenessProbe"] = {"exec": {"command": probe}, "periodSeconds": 1, "failureThreshold": 1}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                       "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never",
                                "terminationGracePeriodSeconds": 1, "containers": [container]}})


def running(m, name):
    return phase(m, name) == "Running"


def counted(m, name):
    """What it has counted so far, and nothing else that it may say."""
    return [int(n) for n in re.findall(r"^(?:.*step )?(\d+)(?:/.*)?$", m.kubectl("logs", name).stdout, re.MULTILINE)]


def counted_in(place):
    """The same, from the disk: for when muster is not there to be asked."""
    text = ""
    for folder, _, names in os.walk(place):
        for name in sorted(n for n in names if n.endswith(".log")):
            with open(os.path.join(folder, name), errors="replace") as f:
                text += f.read()
    return [int(n) for n in re.findall(r"(\d+)$", text, re.MULTILINE)]


def suspend(m, name, wish):
    m.kubectl("annotate", "pod", name, "--overwrite", f"muster.dev/suspend={wish}")


def suspended(m, name, reason):
    conditions = m.get("pod", name)["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "Suspended" and c["reason"] == reason), None)


def goes_on(m, name, from_number):
    wait_for(lambda: counted(m, name)[-1] > from_number, f"{name} to go on")
    numbers = counted(m, name)
    check(numbers == list(range(1, len(numbers) + 1)), f"{name} lost a step or did one twice: {numbers}")


@needs("the node agent of muster up, which freezes pods")
def test_a_pod_gives_up_its_gpu_and_goes_on_where_it_was():
    with Muster(gpus_per_node=1) as m:
        m.apply(pod("first", ["sh", "-c", COUNT], probe=["true"]))
        wait_for(lambda: running(m, "first") and len(counted(m, "first")) > 5, "the first pod to count")
        m.apply(pod("second", ["sh", "-c", COUNT]))
        suspend(m, "first", "hold")
        wait_for(lambda: suspended(m, "first", "Frozen"), "the first pod to be suspended")
        wait_for(lambda: running(m, "second"), "the second pod to have the GPU")
        stood = len(counted(m, "first"))
        m.kill()
        m.start()
        wait_for(lambda: len(counted(m, "second")) > 20, "the second pod to count")
        check(len(counted(m, "first")) == stood, "a pod that is suspended runs")
        # Its turn comes when the GPU is free again, and not before.
        suspend(m, "first", "yield")
        wait_for(lambda: any("suspended on node" in g.get("status", {}).get("message", "") for g in m.get("podgroups")),
                 "the first pod to say what it waits for")
        check(len(counted(m, "first")) == stood, "two pods run on one GPU")
        m.kubectl("delete", "pod", "second", "--wait=false")
        wait_for(lambda: suspended(m, "first", "Resumed"), "the first pod to be resumed")
        goes_on(m, "first", stood)
        check("muster.dev/suspend" not in m.get("pod", "first")["metadata"]["annotations"], "the wish is still there")
        check(m.get("pod", "first")["status"]["containerStatuses"][0]["restartCount"] == 0, "it was started again")
        # One that is deleted while it stands ends as any other.
        suspend(m, "first", "hold")
        wait_for(lambda: suspended(m, "first", "Frozen"), "the first pod to be suspended again")
        m.kubectl("delete", "pod", "first")


@needs("the node agent of muster up, which freezes pods")
def test_what_a_process_has_on_the_gpu_is_moved_before_it_is_frozen_and_after_it_is_woken():
    if not os.path.exists(DRIVER):
        raise Skip("there is no driver to test with")
    with Muster(gpus_per_node=1, env={"MUSTER_CUDA_LIBRARY": DRIVER}) as m:
        fake = os.path.join(m.folder, "fake")
        os.makedirs(fake)
        m.stop()
        m.env["MUSTER_FAKE_CUDA"] = fake
        m.start()
        calls = lambda: [line.split()[0] for line in open(os.path.join(fake, "calls"))]
        m.apply(pod("p", ["python3", "-c", CUDA % DRIVER]))
        wait_for(lambda: running(m, "p") and len(counted(m, "p")) > 5, "the pod to count")
        # It does not come to an end of its work: it runs on, and says why.
        busy = os.path.join(fake, "busy")
        open(busy, "w").close()
        suspend(m, "p", "hold")
        refused = wait_for(lambda: suspended(m, "p", "SuspendFailed"), "the pod to say that it cannot be suspended")
        check("did not finish its work" in refused["message"], f"{refused}")
        goes_on(m, "p", len(counted(m, "p")))
        os.remove(busy)
        m.kubectl("annotate", "pod", "p", "muster.dev/suspend-")
        wait_for(lambda: suspended(m, "p", "Resumed"), "the wish to be forgotten")
        suspend(m, "p", "hold")
        wait_for(lambda: suspended(m, "p", "Checkpointed"), "the pod to be suspended")
        check(calls() == ["lock", "checkpoint"], f"{calls()}")
        stood = len(counted(m, "p"))
        suspend(m, "p", "yield")
        wait_for(lambda: suspended(m, "p", "Resumed"), "the pod to be resumed")
        check(calls() == ["lock", "checkpoint", "restore", "unlock"], f"{calls()}")
        goes_on(m, "p", stood)
        # What cannot be brought back is evicted.
        suspend(m, "p", "hold")
        wait_for(lambda: suspended(m, "p", "Checkpointed"), "the pod to be suspended once more")
        open(os.path.join(fake, "broken"), "w").close()
        suspend(m, "p", "yield")
        wait_for(lambda: m.get("pod", "p")["status"].get("reason") == "Evicted", "the pod to be evicted")
        check("cannot be resumed" in m.get("pod", "p")["status"]["message"], f"{m.get('pod', 'p')['status']}")


class Driver:
    """The driver of tests/suspend, as a folder: what it did, and where it is to wait or to fail."""

    def __init__(self, m):
        if not os.path.exists(DRIVER):
            raise Skip("there is no driver to test with")
        self.folder = os.path.join(m.folder, "fake")
        os.makedirs(self.folder)
        m.env.update(MUSTER_CUDA_LIBRARY=DRIVER, MUSTER_FAKE_CUDA=self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name):
        open(self.path(name), "w").close()

    def drop(self, name):
        os.remove(self.path(name))

    def calls(self):
        with open(self.path("calls")) as f:
            return [line.split()[0] for line in f]


@needs("the node agent of muster up, which freezes pods")
def test_muster_is_killed_at_every_step_of_a_suspension_and_no_step_is_lost_or_repeated():
    m = Muster(gpus_per_node=1)
    driver = Driver(m)
    with m:
        m.apply(pod("p", ["python3", "-c", CUDA % DRIVER]))
        wait_for(lambda: running(m, "p") and len(counted(m, "p")) > 5, "the pod to count")
        place = os.path.join(m.data, "pods", m.get("pod", "p")["metadata"]["uid"])

        def killed_in(call, wish):
            driver.put(f"wait-{call}")
            suspend(m, "p", wish)
            wait_for(lambda: os.path.exists(driver.path(f"at-{call}")), f"the driver to be asked to {call}")
            m.kill()  # its helper goes on, and the next muster starts another one
            driver.drop(f"at-{call}")
            m.start()
            driver.drop(f"wait-{call}")

        for out, back in (("lock", "restore"), ("checkpoint", "unlock")):
            before = len(driver.calls()) if os.path.exists(driver.path("calls")) else 0
            killed_in(out, "hold")
            wait_for(lambda: suspended(m, "p", "Checkpointed"), f"the pod to be suspended, killed in {out}")
            check(driver.calls()[before:] == ["lock", "checkpoint"], f"killed in {out}: {driver.calls()[before:]}")
            stood = len(counted(m, "p"))
            killed_in(back, "yield")
            wait_for(lambda: suspended(m, "p", "Resumed"), f"the pod to go on, killed in {back}")
            check(driver.calls()[before:] == ["lock", "checkpoint", "restore", "unlock"],
                  f"killed in {back}: {driver.calls()[before:]}")
            goes_on(m, "p", stood)
        # Killed when what it has on the GPU is out, and its processes still run.
        driver.put("wait-checkpoint")
        suspend(m, "p", "hold")
        wait_for(lambda: os.path.exists(driver.path("at-checkpoint")), "the driver to be asked to checkpoint")
        os.kill(m.process.pid, signal.SIGSTOP)
        driver.drop("wait-checkpoint")
        wait_for(lambda: open(os.path.join(place, "suspend.gpu")).read().startswith("ok out"), "the helper to be done")
        m.kill()
        m.start()
        wait_for(lambda: suspended(m, "p", "Checkpointed"), "the pod to be suspended, killed before it stood still")
        # Killed between standing still and writing so down: the disk has the stage before.
        m.kill()
        with open(os.path.join(place, "suspend")) as f:
            line = f.read()
        check(line.startswith("frozen "), line)
        with open(os.path.join(place, "suspend"), "w") as f:
            f.write(line.replace("frozen", "freezing", 1))
        stood = len(counted_in(place))
        m.start()
        wait_for(lambda: suspended(m, "p", "Checkpointed"), "the pod to be suspended, killed when it stood still")
        check(len(counted(m, "p")) == stood, "it ran while it was suspended")
        suspend(m, "p", "yield")
        wait_for(lambda: suspended(m, "p", "Resumed"), "the pod to go on")
        goes_on(m, "p", stood)
        check(m.get("pod", "p")["status"]["containerStatuses"][0]["restartCount"] == 0, "it was started again")
        check(driver.calls() == ["lock", "checkpoint", "restore", "unlock"] * 3, f"{driver.calls()}")


def moved_by_library(name, annotations):
    """A program on the driver of tests/preload, which has memory that can be moved; it ends with its input."""
    folder = os.path.join(BUILD, "tests", "preload")
    body = json.loads(pod(name, ["sh", "-c", f"sleep 100000 | exec {folder}/preload-moved"]))
    body["metadata"]["annotations"] = annotations
    body["spec"]["containers"][0]["env"] = [{"name": "LD_LIBRARY_PATH", "value": folder},
                                            {"name": "FAKE_DEVICES_SEEN", "value": "1"}]
    return json.dumps(body)


@needs("the node agent of muster up, which preloads the library")
def test_the_library_moves_gpu_memory_where_work_may_be_suspended_also_if_muster_is_killed_meanwhile():
    if os.uname().machine != "x86_64":
        raise Skip("the library moves memory on x86-64")
    m = Muster(gpus_per_node=1)
    driver = Driver(m)
    events = lambda: [e["message"] for e in m.get("events") if e["reason"] == "Checkpointed"]
    with m:
        m.apply(moved_by_library("p", {"muster.dev/on-preemption": "suspend"}))
        wait_for(lambda: running(m, "p") and len(counted(m, "p")) > 5, "the program to use its memory")
        for call, wish, reason in (("lock", "hold", "Checkpointed"), ("unlock", "yield", "Resumed")):
            driver.put(f"wait-{call}")  # on the way out the library has moved all by now, on the way in nothing
            suspend(m, "p", wish)
            wait_for(lambda: os.path.exists(driver.path(f"at-{call}")), f"the driver to be asked to {call}")
            stood = len(counted(m, "p"))
            m.kill()
            m.start()
            check(len(counted(m, "p")) == stood, "a call went through while the memory was away")
            driver.drop(f"wait-{call}")
            wait_for(lambda: suspended(m, "p", reason), f"the pod to be {reason}, killed in {call}")
        goes_on(m, "p", stood)
        check(any("50 MiB of it copied by Muster's library" in e for e in events()), f"{events()}")
        check(driver.calls() == ["lock", "checkpoint", "restore", "unlock"], f"{driver.calls()}")
        check("not so" not in m.kubectl("logs", "p").stdout, "its memory is not whole")
        # Where the driver is to do it the library is not there.
        m.kubectl("delete", "pod", "p", "--wait=false")
        m.apply(moved_by_library("q", {"muster.dev/on-preemption": "suspend", "muster.dev/gpu-copy": "driver"})
                .replace("exec ", "env; exec "))
        wait_for(lambda: "FAKE_DEVICES_SEEN" in m.kubectl("logs", "q", ok=False).stdout, "the other one to start")
        check("MUSTER_GPU_SUSPEND" not in m.kubectl("logs", "q").stdout, m.kubectl("logs", "q").stdout)


@needs("the node agent of muster up, which freezes pods")
def test_work_that_cannot_be_moved_out_is_evicted_with_the_reason_also_if_muster_is_killed_meanwhile():
    m = Muster(gpus_per_node=1)
    driver = Driver(m)
    with m:
        m.apply(pod("p", ["python3", "-c", CUDA % DRIVER]))
        wait_for(lambda: running(m, "p") and len(counted(m, "p")) > 5, "the pod to count")
        driver.put("full")
        driver.put("wait-unlock")
        suspend(m, "p", "yield")
        wait_for(lambda: os.path.exists(driver.path("at-unlock")), "what was done to be taken back")
        m.kill()
        m.start()
        # It has its GPU all the time, so nobody may be told otherwise.
        check(not any(c["type"] == "Suspended" and c["status"] == "True"
                      for c in m.get("pod", "p")["status"]["conditions"]), f"{m.get('pod', 'p')['status']}")
        driver.drop("wait-unlock")
        wait_for(lambda: m.get("pod", "p")["status"].get("reason") == "Evicted", "the pod to be evicted")
        said = m.get("pod", "p")["status"]["message"]
        check("cannot be suspended" in said and "moved to host memory: CUDA error 1" in said, said)


@needs("the node agent of muster up, which freezes pods")
def test_a_notebook_whose_gpu_nobody_uses_gives_way_after_notice_and_is_back_when_somebody_wants_it():
    m = Muster(gpus_per_node=1)
    use = os.path.join(m.folder, "use")
    with open(use, "w") as f:
        f.write("0/0")
    m.env["MUSTER_TEST_GPU_USE"] = use
    with m:
        notebook = json.loads(pod("notebook", ["sh", "-c", COUNT]))
        notebook["metadata"]["annotations"] = {"muster.dev/suspend-unused-after": "2s"}
        m.apply(json.dumps(notebook))
        wait_for(lambda: running(m, "notebook") and len(counted(m, "notebook")) > 5, "the notebook to run")
        m.apply(pod("train", ["sh", "-c", COUNT]))
        events = lambda: [e["reason"] for e in m.get("events") if e["involvedObject"]["name"] == "notebook"]
        wait_for(lambda: "GpusUnused" in events(), "it to be announced", 60)
        wait_for(lambda: suspended(m, "notebook", "Frozen"), "the notebook to give way")
        wait_for(lambda: running(m, "train"), "the pod that waited to run")
        stood = len(counted(m, "notebook"))
        said = m.kubectl("exec", "notebook", "--", "true", ok=False)
        check(said.returncode != 0 and "its GPUs were unused; it is back in line" in said.stderr, said.stderr)
        wait_for(lambda: any("suspended on node" in g.get("status", {}).get("message", "") for g in m.get("podgroups")),
                 "the notebook to be in line")
        check(len(counted(m, "notebook")) == stood, "two pods run on one GPU")
        with open(use, "w") as f:
            f.write("50/1024")
        m.kubectl("delete", "pod", "train", "--wait=false")
        wait_for(lambda: suspended(m, "notebook", "Resumed"), "the notebook to go on")
        goes_on(m, "notebook", stood)


@needs("the node agent of muster up, which freezes pods")
def test_a_share_of_a_gpu_is_given_up_and_had_back_while_its_neighbour_runs_on():
    def half(name, priority):
        body = json.loads(pod(name, ["sh", "-c", COUNT]))
        del body["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        body["metadata"].update(labels={"priorityClassName": priority},
                                annotations={"gpu-fraction": "0.5", "muster.dev/on-preemption": "suspend"})
        return json.dumps(body)
    with Muster(gpus_per_node=1) as m:
        for name, priority in (("low", "train"), ("beside", "build-preemptible")):
            m.apply(half(name, priority))
            wait_for(lambda: running(m, name) and len(counted(m, name)) > 5, f"{name} to count")
        m.apply(half("high", "build-preemptible"))
        wait_for(lambda: running(m, "high"), "the more important share to run")
        check(suspended(m, "low", "Frozen"), f"{m.get('pod', 'low')['status']}")
        stood, beside = len(counted(m, "low")), len(counted(m, "beside"))
        m.kill()
        m.start()
        goes_on(m, "beside", beside)
        check(len(counted(m, "low")) == stood, "three halves of one GPU run")
        m.kubectl("delete", "pod", "high", "--wait=false")
        wait_for(lambda: suspended(m, "low", "Resumed"), "the share to be had back")
        goes_on(m, "low", stood)
        check(not any(c["type"] == "Suspended" for c in m.get("pod", "beside")["status"]["conditions"]),
              "the neighbour was suspended as well")


QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 1, cpus: 1, memory: 2Gi}
"""
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: %s}
spec:
  jobQueue: q
  numNodes: 2
  command: python3 %s 100000 0.05 /tmp
"""


@needs("the node agent of muster up, which freezes pods")
def test_a_job_that_is_suspended_with_its_pods_goes_on_where_it_was():
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    with Muster(nodes=2, gpus_per_node=1, flags=("--cpus-per-node", "16", "--memory-per-node", "64Gi")) as m:
        m.apply(QUEUE)
        m.apply(JOB % ("one", STEPS))
        ranks = ("one-worker-0", "one-worker-1")
        wait_for(lambda: m.phase("one") == "Running" and all(len(counted(m, r)) > 5 for r in ranks), "the job to count", 60)
        uids = {m.get("pod", r)["metadata"]["uid"] for r in ranks}
        check("its pods stay" in m.torchrun("suspend", "one", "--keep").stdout, "suspend --keep")
        wait_for(lambda: "2 pods keep their memory" in m.torchrun("status", "one").stdout, "the job to be suspended")
        check(m.phase("one") == "Suspended", f"{m.phase('one')}")
        stood = [len(counted(m, r)) for r in ranks]
        m.apply(JOB % ("two", STEPS))
        wait_for(lambda: m.phase("two") == "Running", "another job to have its GPUs", 60)
        m.torchrun("resume", "one")
        wait_for(lambda: "suspended on node" in m.torchrun("explain", "one").stdout, "the job to say what it waits for")
        check([len(counted(m, r)) for r in ranks] == stood, "a job that is suspended runs")
        m.torchrun("delete", "two", "--force")
        wait_for(lambda: m.phase("one") == "Running", "the job to run again", 60)
        for rank, number in zip(ranks, stood):
            goes_on(m, rank, number)
        check({m.get("pod", r)["metadata"]["uid"] for r in ranks} == uids, "the job has other pods")
        check(m.get("torchrunjob", "one")["status"].get("generation", 0) == 0, "it was started again")


@needs("the node agent of muster up, which freezes pods")
def test_work_that_gives_way_is_suspended_where_it_says_so_and_loses_nothing():
    with Muster(gpus_per_node=1) as m:
        low, high = json.loads(pod("low", ["sh", "-c", COUNT])), json.loads(pod("high", ["sh", "-c", COUNT]))
        low["metadata"].update(labels={"priorityClassName": "train"}, annotations={"muster.dev/on-preemption": "suspend"})
        high["metadata"].update(labels={"priorityClassName": "build-preemptible"})
        m.apply(json.dumps(low))
        wait_for(lambda: running(m, "low") and len(counted(m, "low")) > 5, "the first pod to count")
        uid = m.get("pod", "low")["metadata"]["uid"]
        m.apply(json.dumps(high))
        m.kill()  # whatever was decided by now, it ends the same way
        m.start()
        wait_for(lambda: running(m, "high"), "the more important pod to run")
        check(suspended(m, "low", "Frozen"), f"{m.get('pod', 'low')['status']}")
        stood = len(counted(m, "low"))
        wait_for(lambda: len(counted(m, "high")) > 5, "the more important pod to count")
        check(len(counted(m, "low")) == stood, "two pods run on one GPU")
        m.kubectl("delete", "pod", "high", "--wait=false")
        m.kill()
        m.start()
        wait_for(lambda: suspended(m, "low", "Resumed"), "the first pod to be resumed")
        goes_on(m, "low", stood)
        check(m.get("pod", "low")["metadata"]["uid"] == uid, "it is another pod")
