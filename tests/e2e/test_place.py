"""JobSets and TrainJobs restart in the pods that they have: real torchrun, of which a rank is killed."""

import os
import re
import signal
import time

from harness import PORT_OF_TRAINJOBS, Muster, apart, check, needs, python_of_ranks, torch_pythons, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "ddp.py")  # without an end until it is restarted, then of 20 steps
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
# As JobSet wants it for this strategy, but for its sidecar, which our nodes need not. The pods have JobSet's own default for
# restartPolicy, OnFailure: by it alone a node would restart one and leave its peers as they are.
SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: t, labels: {kai.scheduler/queue: default-queue}}
spec:
  failurePolicy: {maxRestarts: 3, restartStrategy: InPlaceRestart}
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        parallelism: 1
        completions: 1
        backoffLimit: 2147483647
        podReplacementPolicy: Failed
        template:
          spec:
            containers:
            - name: main
              image: pytorch
              command: [sh, -c, "exec %(torchrun)s -m torch.distributed.run --nnodes 2 --nproc_per_node 2 --node_rank $NODE \\
                --master_addr t-w-0-0.t --master_port 29500 --no_python %(python)s %(program)s 20"]
              env:
              - {name: NODE, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/job-index']"}}}
              - {name: MUSTER_TEST_FOLDER, value: %(folder)s}
              resources: {limits: {nvidia.com/gpu: 1}}
"""
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: t
  labels: {kai.scheduler/queue: default-queue}
  annotations: {muster.dev/restart-mode: InPlace}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 2
    command: [%(torchrun)s, -m, torch.distributed.run, --no_python, %(python)s, %(program)s, "20"]
    env: [{name: MUSTER_TEST_FOLDER, value: %(folder)s}]
    resourcesPerNode: {limits: {nvidia.com/gpu: 1}}
"""


def apply(m, text, current=False):
    """`current`: ranks and torchrun are of a current PyTorch; else of one that starts in a third of the time."""
    quick = python_of_ranks()
    python = torch_pythons()[0][0] if current else quick
    m.apply(text % {"python": python, "torchrun": python, "program": PROGRAM, "folder": m.folder})


def status(m, kind="jobset"):
    return (m.get(kind, "t") or {}).get("status", {})


def places(m):
    """Which pods there are, and where they are."""
    return {p["metadata"]["uid"]: p["spec"].get("nodeName") for p in m.get("pods")}


def said(m):
    return m.kubectl("logs", "-l", "jobset.sigs.k8s.io/jobset-name=t", "--tail=-1").stdout


def pid(m, rank):
    """The process out here that is the rank."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as f:
                environment = f.read().split(b"\0")
            with open(f"/proc/{number}/cmdline", "rb") as f:
                command = f.read().split(b"\0")
        except OSError:
            continue
        if f"RANK={rank}".encode() in environment and PROGRAM.encode() in command and \
                f"MUSTER_TEST_FOLDER={m.folder}".encode() in environment:
            return int(number)
    return None


def restarts_in_place(m):
    """A rank is killed while all make steps; the pods stay, and the set trains to its end in them."""
    wait_for(lambda: {r for r in re.findall(r"step 10 rank (\d)", said(m))} == set("0123"), "four ranks to make steps", 120)
    before = places(m)
    check(len(before) == 2 and len(set(before.values())) == 2, f"{before}")
    os.kill(pid(m, 2), signal.SIGKILL)
    since = time.monotonic()
    wait_for(lambda: status(m).get("currentInPlaceRestartAttempt") == 1, "the set to restart in place", 60)
    print(f"all had stopped after {time.monotonic() - since:.1f} s")
    check("restart 1 of 3, in place" in m.kubectl("get", "events").stdout, "told in an event")
    wait_for(lambda: status(m).get("terminalState"), "the set to end", 120)
    print(f"trained to its end after {time.monotonic() - since:.1f} s")
    end = status(m)
    check(end["terminalState"] == "Completed" and end["restarts"] == 0 and end["restartsCountTowardsMax"] == 1, f"{end}")
    check(places(m) == before, "the pods are the same, and where they were")
    counts = [c["restartCount"] for p in m.get("pods") for c in p["status"]["containerStatuses"]]
    check(counts == [1, 1], f"{counts}")
    check({r for r in re.findall(r"done rank (\d)", said(m))} == set("0123"), said(m))


@needs("a node agent that keeps pods")
@apart(PORT_OF_TRAINJOBS)
def test_a_jobset_restarts_in_the_pods_that_it_has():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        apply(m, SET, current=True)
        restarts_in_place(m)


@needs("a node agent that keeps pods")
@apart(PORT_OF_TRAINJOBS)
def test_a_trainjob_restarts_in_the_pods_that_it_has():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        apply(m, JOB)
        restarts_in_place(m)
        wait_for(lambda: status(m, "trainjob").get("phase") == "Complete", "the job to be complete")


def restarts_after_a_hang(m, in_place):
    """A rank is stopped while all make steps: it is named, and the set starts again and trains to its end."""
    wait_for(lambda: {r for r in re.findall(r"step 10 rank (\d)", said(m))} == set("0123"), "four ranks to make steps", 120)
    before = set(places(m))
    os.kill(pid(m, 2), signal.SIGSTOP)
    since = time.monotonic()
    wait_for(lambda: "is stopped by a signal" in m.kubectl("get", "events").stdout, "the rank to be named", 60)
    print(f"named after {time.monotonic() - since:.1f} s")
    wait_for(lambda: status(m).get("restartsCountTowardsMax") == 1, "the restart to be counted", 60)
    if in_place:  # the program counts rounds, and has an end in the second
        wait_for(lambda: status(m).get("terminalState") == "Completed", "the set to end", 120)
    else:
        wait_for(lambda: not before & set(places(m)) and {r for r in re.findall(r"step 10 rank (\d)", said(m))} == set("0123"),
                 "four ranks to make steps in new pods", 120)
    print(f"trained again after {time.monotonic() - since:.1f} s")
    end = status(m)
    check(end["restarts"] == (0 if in_place else 1), f"{end}")
    hung = next(c for c in end["conditions"] if c["type"] == "Hung")
    named = re.search(r"rank 2 \(pod \S+, node \S+\) is stopped by a signal", hung["message"])
    check(hung["status"] == "False" and named, f"{hung}")
    check((set(places(m)) == before) == in_place, "the pods are the same where they restart in place, and others elsewhere")


@needs("a node agent that looks at the ranks")
@apart(PORT_OF_TRAINJOBS)
def test_a_stopped_rank_of_a_jobset_is_named_and_the_set_starts_again():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        apply(m, SET.replace(", restartStrategy: InPlaceRestart", "").replace("backoffLimit: 2147483647", "backoffLimit: 0"))
        restarts_after_a_hang(m, in_place=False)


@needs("a node agent that looks at the ranks")
@apart(PORT_OF_TRAINJOBS)
def test_a_stopped_rank_of_a_trainjob_is_named_and_it_restarts_in_place():
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        apply(m, JOB)
        restarts_after_a_hang(m, in_place=True)
        told = m.kubectl("describe", "trainjob", "t").stdout
        check("is stopped by a signal" in told, told)


@needs("a node agent that keeps pods")
def test_a_jobset_that_fails_in_place_again_and_again_ends():
    with Muster() as m:
        m.apply("""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: t, annotations: {muster.dev/restart-mode: InPlace}}
spec:
  failurePolicy: {maxRestarts: 2}
  replicatedJobs:
  - {name: w, template: {spec: {parallelism: 2, backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [
      {name: main, image: ubuntu,
       command: [sh, -c, "echo round $MUSTER_ROUND; sleep 3; exit $((3 + JOB_COMPLETION_INDEX))"]}]}}}}}
""")
        wait_for(lambda: status(m).get("terminalState"), "the set to end", 60)
        end = status(m)
        failed = [c for c in end["conditions"] if c["type"] == "Failed"][0]
        check(end["terminalState"] == "Failed" and failed["reason"] == "ReachedMaxRestarts", f"{end}")
        check((end["restarts"], end["restartsCountTowardsMax"], end["currentInPlaceRestartAttempt"]) == (0, 2, 2), f"{end}")
        # The pod to blame, which its node has let go, is there to be looked at.
        wait_for(lambda: [p for p in m.get("pods") if p["status"]["phase"] == "Failed"], "a pod that failed")
        wait_for(lambda: not [p for p in m.get("pods") if p["status"]["phase"] == "Running"], "nothing to run")
        check("round 2" in said(m), said(m))
