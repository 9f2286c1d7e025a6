"""The operator beside other operators of the same kinds: it leaves them theirs, says so, and goes on when they are gone."""

import json

from cluster import Cluster
from harness import check, wait_for
from kubeflow import job as kubeflow_job
from test_operator import QUEUE, job


def other(name, image, container="manager"):
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                       "spec": {"containers": [{"name": container, "image": image}]}})


def pods_of(m, owner):
    return [p for p in m.get("pods") if any(o["name"] == owner for o in p["metadata"].get("ownerReferences", []))]


def left(m, name):
    return f'muster_left_to_others{{operator="{name}"}} 1' in m.leader().fetch("/metrics")


def torchrun_job_has_pods(m, name):
    """Proof that controllers have had their turn since."""
    m.apply(job(name, 8))
    wait_for(lambda: pods_of(m, name), f"pods of TorchrunJob {name}")


def test_kinds_of_a_running_training_operator_are_its_own_until_it_is_gone():
    with Cluster(nodes=2, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(other("training-operator-x", "docker.io/kubeflow/training-operator:v1-855e096"))
        wait_for(lambda: left(m, "kubeflow-training-operator"), "the training operator to be seen")
        m.apply(json.dumps(kubeflow_job("PyTorchJob", "theirs")))
        torchrun_job_has_pods(m, "ours")
        check(not pods_of(m, "theirs"), "nobody touched the PyTorchJob")
        wait_for(lambda: "LeftToOtherOperator" in m.kubectl("get", "events").stdout, "an event that says so")
        check("others.left" in m.leader().tail(1000), "a line in the log")
        m.kubectl("delete", "pod", "training-operator-x", "--force", "--grace-period=0")
        wait_for(lambda: pods_of(m, "theirs"), "the PyTorchJob to be taken up", 90)
        check(not left(m, "kubeflow-training-operator"), "the metric is back at 0")
        m.kubectl("delete", "pytorchjob", "theirs")


def test_an_operator_that_was_there_first_is_seen_before_anything_is_done():
    with Cluster(nodes=1, gpus_per_node=8, operators=1) as m:
        m.operators[0].stop()
        m.operators = []
        m.apply(other("jobset-controller-manager-x", "registry.k8s.io/jobset/jobset:v0.8.0"))
        m.apply(json.dumps({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set", "namespace": "default"},
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}]}}))
        m.start_operator(1)
        wait_for(lambda: m.leader() and left(m, "jobset"), "JobSet's controller to be seen", 30)
        m.apply(QUEUE)
        torchrun_job_has_pods(m, "ours")
        check(not m.get("jobs"), "no Job was made for the JobSet")
        m.kubectl("delete", "jobset", "set", "--wait=false")


def test_told_to_ignore_others_it_acts_all_the_same():
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=["--other-operators=ignore"]) as m:
        m.apply(other("training-operator-x", "kubeflow/training-operator:v1"))
        m.apply(json.dumps(kubeflow_job("PyTorchJob", "taken")))
        wait_for(lambda: pods_of(m, "taken"), "pods of the PyTorchJob")
        m.kubectl("delete", "pytorchjob", "taken")


def test_kai_scheduler_keeps_its_pods_while_it_runs():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(other("scheduler-x", "ghcr.io/nvidia/kai-scheduler/scheduler:v0.9.0", "scheduler"))
        wait_for(lambda: left(m, "kai-scheduler"), "KAI to be seen")
        m.apply(json.dumps({"apiVersion": "v1", "kind": "Pod",
                            "metadata": {"name": "waits", "namespace": "default",
                                         "labels": {"kai.scheduler/queue": "default-queue"}},
                            "spec": {"schedulerName": "kai-scheduler",
                                     "containers": [{"name": "c", "image": "i"}]}}))
        m.apply(QUEUE)
        torchrun_job_has_pods(m, "made")
        check(not m.get("pod", "waits")["spec"].get("nodeName"), "nobody bound its pod")
        m.kubectl("delete", "pod", "scheduler-x", "--force", "--grace-period=0")
        wait_for(lambda: m.get("pod", "waits")["spec"].get("nodeName"), "the pod to be bound when KAI is gone", 90)


def pod_of(scheduler, name, gpus, node=None):
    return json.dumps({"apiVersion": "v1", "kind": "Pod",
                       "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "default-queue"}},
                       "spec": {"schedulerName": scheduler, "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [
                           {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}})


def test_pods_of_other_schedulers_hold_room_and_are_not_touched():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(pod_of("default-scheduler", "theirs", 6, "hollow-0"))
        m.apply(pod_of("default-scheduler", "waits-for-them", 1))
        wait_for(lambda: m.get("pod", "theirs")["status"]["phase"] == "Running", "their pod to run")
        m.apply(pod_of("kai-scheduler", "ours", 2))
        wait_for(lambda: m.get("pod", "ours")["status"]["phase"] == "Running", "ours to run beside it")
        m.apply(pod_of("kai-scheduler", "too-many", 1))
        wait_for(lambda: any(c["type"] == "PodScheduled" and c["status"] == "False"
                             for c in m.get("pod", "too-many")["status"].get("conditions", [])), "the next to say that it waits")
        for name in ("theirs", "waits-for-them"):
            check("pod-group-name" not in m.get("pod", name)["metadata"].get("annotations", {}), f"{name} is nobody's group's")
        check(not m.get("pod", "waits-for-them")["spec"].get("nodeName"), "nobody bound their pod")
        groups = {g["metadata"]["name"] for g in m.get("podgroups")}
        check(len(groups) == 2 and not any("theirs" in g or "waits-for-them" in g for g in groups),
              f"groups of ours only: {groups}")
        m.kubectl("delete", "pod", "theirs", "--force", "--grace-period=0")
        wait_for(lambda: m.get("pod", "too-many")["status"]["phase"] == "Running", "their room to be given out")


def test_pods_of_a_deployment_are_scheduled_with_the_shipped_rights():
    """Their owner is a kind that the operator may not read."""
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(json.dumps({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web", "kai.scheduler/queue": "default-queue"}},
                "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}}}}))
        try:
            wait_for(lambda: m.get("deployment", "web")["status"].get("readyReplicas") == 2, "both replicas to be ready")
        finally:
            m.kubectl("delete", "deployment", "web")
