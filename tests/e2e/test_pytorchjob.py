"""PyTorchJobs: real torch and torchrun, elastic jobs, restarts of the gang or of one pod, and the walkthroughs that
people follow."""

import datetime
import os

from harness import EXAMPLES, PORT_OF_PYTORCHJOBS, Muster, apart, check, needs, python_of_ranks, wait_for
from kubeflow import CLAIM, WAIT, create, job, once, pods, status, wait_condition

NODES = ("--cpus-per-node", "64", "--memory-per-node", "64Gi")
KIND = "PyTorchJob"


def example(name):
    return os.path.join(EXAMPLES, "kubeflow", name)


def with_torch():
    """The folder of a Python that has torch; in front of the PATH it is found, and the machine's torchrun behind."""
    return os.path.dirname(python_of_ranks())


def scale(m, name, replicas):
    m.kubectl("scale", "pytorchjob", name, f"--replicas={replicas}")


@apart(PORT_OF_PYTORCHJOBS)
def test_master_and_workers_meet_and_torchrun_needs_no_flags():
    with Muster(nodes=2, flags=NODES, path_first=with_torch()) as m:
        m.kubectl("apply", "-f", example("pytorch-simple.yaml"))
        m.kubectl("apply", "-f", example("pytorch-torchrun.yaml"))
        wait_condition(m, KIND, "pytorch-simple", "Succeeded", 120)
        logs = [m.said(f"pytorch-simple-{pod}").strip() for pod in ("master-0", "worker-0", "worker-1")]
        check(logs == [f"rank {i} of 3: sum 3" for i in range(3)], f"all_reduce said {logs}")
        wait_condition(m, KIND, "torchrun-cpu", "Succeeded", 120)
        logs = m.said("torchrun-cpu-master-0")
        check("rank 0 of 4: sum 4" in logs and "rank 1 of 4: sum 4" in logs, f"torchrun said {logs}")
        seen = status(m, KIND, "torchrun-cpu")
        check(seen["replicaStatuses"]["Worker"]["succeeded"] == 1 and seen["replicaStatuses"]["Master"]["active"] == 0,
              f"counters: {seen['replicaStatuses']}")


@apart(PORT_OF_PYTORCHJOBS)
def test_elastic_workers_meet_through_torchrun():
    with Muster(nodes=2, flags=NODES, path_first=with_torch()) as m:
        m.kubectl("apply", "-f", example("pytorch-elastic.yaml"))
        m.kubectl("apply", "-f", example("pytorch-elastic-etcd.yaml"))
        wait_condition(m, KIND, "elastic-etcd", "Succeeded", 60)
        logs = m.said("elastic-etcd-worker-0")
        check("etcdserver" in logs, f"the store answered {logs}")
        wait_condition(m, KIND, "elastic-echo", "Succeeded", 120)
        # The first agent that is done ends the job; agents that still run are stopped.
        logs = "".join(m.said(pod, ok=False) for pod in ("elastic-echo-worker-0", "elastic-echo-worker-1"))
        check("of 4" in logs or "of 2" in logs or "of 1" in logs, f"the ranks said {logs}")


def test_elastic_jobs_grow_and_shrink_without_a_restart():
    elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3,
                                 "metrics": [{"type": "Resource", "resource": {
                                     "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}
    body = job(KIND, "grow", workers=2, **elastic)
    del body["spec"]["pytorchReplicaSpecs"]["Master"]
    with Muster(flags=NODES) as m:
        create(m, body)
        wait_for(lambda: list(pods(m, "grow").values()) == ["Running"] * 2, "two workers to run")
        first = {p["metadata"]["name"]: p["metadata"]["uid"] for p in m.get("pods")}
        hpa = m.get("hpa", "grow")
        check(hpa["spec"]["minReplicas"] == 1 and hpa["spec"]["maxReplicas"] == 3, f"autoscaler: {hpa['spec']}")
        scale(m, "grow", 3)
        wait_for(lambda: list(pods(m, "grow").values()) == ["Running"] * 3, "three workers to run")
        wait_for(lambda: m.kubectl("get", "pytorchjob", "grow", "-o", "jsonpath={.status.replicaStatuses.Worker.active}")
                 .stdout == "3", "the status to say so")
        scale(m, "grow", 1)
        wait_for(lambda: list(pods(m, "grow")) == ["grow-worker-0"], "one worker to stay")
        left = m.get("pods", "grow-worker-0")
        check(left["metadata"]["uid"] == first["grow-worker-0"], "worker 0 was restarted")
        seen = status(m, KIND, "grow")
        check(seen["generation"] == 0 and seen["restarts"] == 0, f"scaling cost a restart: {seen}")
        m.kubectl("delete", "pod", "grow-worker-0", "--wait=false")
        wait_for(lambda: m.get("pods", "grow-worker-0") and m.get("pods", "grow-worker-0")["metadata"]["uid"]
                 != first["grow-worker-0"] and list(pods(m, "grow").values()) == ["Running"], "the job to come back")


def test_ranks_restart_together_unless_told_otherwise():
    with Muster(flags=NODES) as m:
        create(m, CLAIM, job(KIND, "together", worker=once("together", 1), run={"backoffLimit": 1}),
               job(KIND, "alone", worker=once("alone", 1), run={"backoffLimit": 1},
                   annotations={"torchrun.ai/restart-scope": "pod"}))
        wait_for(lambda: status(m, KIND, "together").get("restarts") == 1
                 and list(pods(m, "together").values()) == ["Running", "Running"], "the gang to run again", 60)
        wait_for(lambda: status(m, KIND, "alone").get("containerRestarts") == 1, "the one pod to be restarted", 60)
        born = {name: m.get("pods", name)["metadata"]["labels"]["torchrun.ai/generation"]
                for name in ("together-master-0", "alone-master-0")}
        check(born == {"together-master-0": "1", "alone-master-0": "0"}, f"generations of the masters: {born}")
        check(status(m, KIND, "together")["generation"] == 1, "the generation did not change")
        events = {e["reason"] for e in m.get("events") if e["involvedObject"]["name"] == "together"}
        for reason in ("PyTorchJobCreated", "PyTorchJobRunning", "PyTorchJobRestarting", "SuccessfulCreatePod",
                       "SuccessfulDeletePod", "SuccessfulCreateService"):
            check(reason in events, f"no event {reason} among {events}")


def test_jobs_of_others_are_left_alone_and_queues_and_priorities_reach_the_gang():
    with Muster(flags=NODES) as m:
        m.kubectl("apply", "-f", example("queues.yaml"))
        create(m, job(KIND, "theirs", run={"managedBy": "kueue.x-k8s.io/multikueue"}),
               job(KIND, "ours", workers=3, run={"schedulingPolicy": {"queue": "test", "minAvailable": 2,
                                                                      "priorityClass": "build"}}))
        wait_condition(m, KIND, "ours", "Running")
        group = [g for g in m.get("podgroups") if "-ours-" in g["metadata"]["name"]][0]
        check(group["spec"]["queue"] == "test" and group["spec"]["minMember"] == 2
              and group["spec"]["priorityClassName"] == "build", f"pod group: {group['spec']}")
        check(status(m, KIND, "theirs") == {} and not pods(m, "theirs"), "somebody else's job was run")


@needs("the pods that stand for other operators on one machine")
def test_the_walkthrough_of_a_simple_job():
    """README of KAI's PyTorchJob example, from the CRD to the pods."""
    with Muster(nodes=2, flags=NODES, path_first=with_torch()) as m:
        m.kubectl("get", "crd", "pytorchjobs.kubeflow.org")
        m.kubectl("get", "pods", "-n", "kubeflow")
        m.kubectl("wait", "--for=condition=ready", "pod", "-l", "control-plane=kubeflow-training-operator", "-n",
                  "kubeflow", "--timeout=120s", limit=130)
        m.kubectl("apply", "-f", example("pytorch-simple.yaml"))
        check("pytorch-simple" in m.kubectl("get", "pytorchjobs").stdout, "kubectl get pytorchjobs shows nothing")
        wait_for(lambda: len(m.kubectl("get", "pods", "-l", "training.kubeflow.org/job-name=pytorch-simple",
                                       "--no-headers").stdout.splitlines()) == 3, "three pods by their label")
        group = m.get("podgroups")[0]
        check(group["spec"]["minMember"] == 3 and group["spec"]["queue"] == "default-queue", f"group: {group['spec']}")
        wait_condition(m, KIND, "pytorch-simple", "Succeeded", 120)


def test_the_walkthrough_of_batch_scheduling():
    """A project, queues, a gang of three GPUs that waits for room as a whole and is then scheduled at once."""
    with Muster(nodes=1, gpus_per_node=4, flags=NODES) as m:
        m.kubectl("create", "namespace", "sandbox")
        m.kubectl("config", "set-context", "--current", "--namespace=sandbox")
        m.kubectl("apply", "-f", example("queues.yaml"))
        blocker = {"apiVersion": "v1", "kind": "Pod",
                   "metadata": {"name": "blocker", "namespace": "sandbox", "labels": {"kai.scheduler/queue": "test"}},
                   "spec": {"schedulerName": "kai-scheduler", "containers": [
                       {"name": "c", "image": "none", "command": ["sh", "-c", WAIT],
                        "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}
        create(m, blocker)
        m.kubectl("wait", "pod/blocker", "--for=condition=Ready", "--timeout=60s", limit=90)
        m.kubectl("create", "-f", example("pytorch-dist-gpu.yaml"))
        label = ("-l", "training.kubeflow.org/job-name=pytorch-dist-mnist-nccl")
        wait_for(lambda: "GPU" in m.kubectl("get", "pytorchjob", "pytorch-dist-mnist-nccl", "-o",
                                            "jsonpath={.status.message}").stdout, "the job to say what it waits for")
        nodes = m.kubectl("get", "pods", *label, "-o", "jsonpath={.items[*].spec.nodeName}").stdout
        check(nodes == "", f"half a gang was bound: {nodes}")
        m.kubectl("delete", "pod", "blocker")
        m.kubectl("wait", "pytorchjob/pytorch-dist-mnist-nccl", "--for=condition=Running", "--timeout=600s", "-n",
                  "sandbox", limit=90)
        bound = sorted(m.kubectl("get", "pods", *label, "-o", 'jsonpath={range .items[*]}{.status.conditions[?(@.type==' +
                              '"PodScheduled")].lastTransitionTime}{"\\n"}{end}').stdout.split())
        first, last = (datetime.datetime.strptime(bound[i], "%Y-%m-%dT%H:%M:%SZ") for i in (0, -1))
        check((last - first).total_seconds() <= 1, f"bound at different times: {bound}")  # a second may turn in between
        check(len(m.kubectl("get", "pods", *label, "--no-headers").stdout.splitlines()) == 3, "not three pods")
        m.kubectl("delete", "pytorchjob", "pytorch-dist-mnist-nccl")
        wait_for(lambda: m.kubectl("get", "pods", *label, "-o", "name").stdout == "", "the pods to go with the job", 60)
