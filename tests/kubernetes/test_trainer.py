"""TrainJob, its runtimes, JobSet and PyTorchTrainingJob on a real API server: the CRDs are accepted and their rules refuse what
the embedded server refuses, the examples pass, and the operator runs jobs of each kind on nodes that pretend to run them."""

import json
import os

from cluster import ROOT, Cluster
from harness import check, wait_for

EXAMPLES = os.path.join(ROOT, "examples")
HOLLOW = {"name": "node", "image": "none"}


def try_out(plane, body, *argv):
    """What the server says to an object; empty when it takes it."""
    done = plane.kubectl("create", "--dry-run=server", "-n", "default", *argv, "-f", "-", input=json.dumps(body), ok=False)
    return done.stderr if done.returncode else ""


def trainjob(name="bad", **spec):
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, **spec}}


def runtime(policy, name="bad"):
    pod = {"restartPolicy": "Never", "schedulerName": "kai-scheduler", "containers": [HOLLOW]}
    part = {"name": "node", "template": {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                         "spec": {"backoffLimit": 0, "template": {"spec": pod}}}}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime", "metadata": {"name": name},
            "spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [part]}}}}


def jobset(name="bad", parts=("w",), **spec):
    pod = {"restartPolicy": "Never", "schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "none"}]}
    template = {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": pod}}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": part, "replicas": 1, "template": template} for part in parts], **spec}}


def training(name="bad", **spec):
    main = {"name": "pytorch", "image": "none", "args": ["train.py"]}
    template = {"spec": {"schedulerName": "kai-scheduler", "containers": [main]}}
    return {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob", "metadata": {"name": name},
            "spec": {"replicaSpecs": [{"type": "worker", "replicas": 2, "template": template}], **spec}}


def test_the_rules_of_the_crds_refuse_what_cannot_work():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    for body in (trainjob("good"), runtime({"torch": {}}, "good"), jobset("good"), training("good")):
        wait_for(lambda: try_out(plane, body) == "", f"the server to take a {body['kind']}")
    on = {"enabled": True}
    rows = [
        (trainjob("1st"), "metadata.name"),
        (trainjob(trainer={"env": [{"name": "PET_NNODES", "value": "2"}]}), "spec.trainer.env"),
        (trainjob(trainer={"numNodes": -1}), "spec.trainer.numNodes"),
        (trainjob(trainer={"numProcPerNode": "many"}), "spec.trainer.numProcPerNode"),
        (trainjob(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds"),
        (trainjob(managedBy="somebody"), "spec.managedBy"),
        (trainjob(initializer={"dataset": {"storageUri": "nowhere"}}), "spec.initializer.dataset.storageUri"),
        (trainjob(runtimePatches=[{"manager": "me"}]), "manager"),
        (runtime({"torch": {}, "jax": {}}), "spec.mlPolicy"),
        (runtime({"torch": {"elasticPolicy": {"minNodes": 3, "maxNodes": 2}}}), "maxNodes"),
        (jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}), "spec.successPolicy.target"),
        (jobset(coordinator={"replicatedJob": "x"}), "spec.coordinator.replicatedJob"),
        (jobset(coordinator={"replicatedJob": "w", "jobIndex": 1}), "spec.coordinator.jobIndex"),
        (jobset(failurePolicy={"rules": [{"action": "Explode"}]}), "action"),
        (jobset(managedBy="nobody"), "spec.managedBy"),
        (jobset(startupPolicy={"startupPolicyOrder": "Some"}), "startupPolicyOrder"),
        (training("1st"), "metadata.name"),
        (training(runPolicy={"backoffLimit": -1}), "spec.runPolicy.backoffLimit"),
        (training(runPolicy={"cleanUpPolicy": "Some"}), "spec.runPolicy.cleanUpPolicy"),
        (training(scheduler={"t9kScheduler": {"priority": 5}}), "spec.scheduler.t9kScheduler.queue"),
        (training(scheduler={"t9kScheduler": {"queue": "a", "priority": 101}}), "spec.scheduler.t9kScheduler.priority"),
        (training(elastic={"enabled": True, "minReplicas": 1, "maxReplicas": 2}), "spec.torchrunConfig"),
        (training(torchrunConfig=on, elastic={**on, "minReplicas": 3, "maxReplicas": 2}), "spec.elastic.maxReplicas"),
        (training(torchrunConfig={"enabled": True, "procPerNode": "many"}), "spec.torchrunConfig.procPerNode"),
        (training(runMode={"debug": {**on, "replicaSpecs": [{"type": "other"}]}}), "spec.runMode.debug.replicaSpecs"),
    ]
    for body, words in rows:
        said = try_out(plane, body)
        check(words in said, f"{words!r} is not in {said!r} about {body['spec']}")


def test_the_examples_are_accepted():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    for folder in ("trainjob", "jobset", "tensorstack"):
        for file in sorted(os.listdir(os.path.join(EXAMPLES, folder))):
            if file.endswith(".yaml"):
                plane.kubectl("create", "--dry-run=server", "-n", "default", "-f", os.path.join(EXAMPLES, folder, file))


def conditions(m, resource, name):
    return {c["type"]: c["status"] for c in (m.get(resource, name) or {}).get("status", {}).get("conditions", [])}


def refused(m, resource, name, patch):
    done = m.kubectl("patch", resource, name, "--type=merge", "-p", json.dumps(patch), ok=False)
    check(done.returncode != 0, f"{resource} {name} took {patch}")
    return done.stderr


def group_of(m, selector):
    found = {p["metadata"]["annotations"].get("pod-group-name") for p in m.get("pods")
             if p["metadata"]["labels"].get(selector[0]) == selector[1]}
    check(len(found) == 1, f"one gang: {found}")
    return m.get("podgroups.scheduling.run.ai", found.pop())["spec"]


def test_the_operator_runs_jobs_of_each_kind():
    with Cluster(nodes=4, gpus_per_node=2) as m:
        m.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            runtime({"numNodes": 1, "torch": {}}, "lab"),
            {**trainjob("trained", trainer={"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}),
             "metadata": {"name": "trained", "labels": {"kai.scheduler/queue": "default-queue"}}},
            jobset("several", parts=("a", "b")),
            training("training", scheduler={"t9kScheduler": {"queue": "default-queue", "priority": 70}})]}))
        patch = {"spec": {"runtimeRef": {"name": "lab"}}}
        check("spec.runtimeRef" in refused(m, "trainjob", "trained", patch), "the runtime of a job was changed")
        names = m.kubectl("get", "clustertrainingruntimes", "-o", "name").stdout
        check("torch-distributed" in names and "deepspeed-distributed" in names, f"default runtimes: {names}")

        # Owned all the way down: TrainJob, JobSet, Job (Kubernetes' own controller), pod.
        wait_for(lambda: m.get("jobset", "trained"), "the JobSet of the TrainJob")
        wait_for(lambda: conditions(m, "trainjob", "trained").get("Complete") == "True", "the TrainJob to complete", 90)
        check(m.get("trainjob", "trained")["status"]["jobsStatus"][0]["succeeded"] == 1, "jobsStatus")
        check(m.get("configmap", "trained-runtime-snapshot"), "the copy of the runtime")
        spec = group_of(m, ("jobset.sigs.k8s.io/jobset-name", "trained"))
        least = [s["minMember"] for s in spec["subGroups"] if s["name"] == "node-replica-0"]
        check(least == [3] and spec["queue"] == "default-queue", f"pod group: {spec}")

        wait_for(lambda: conditions(m, "jobset", "several").get("Completed") == "True", "the JobSet to complete", 90)
        check(m.get("jobset", "several")["status"]["terminalState"] == "Completed", "its end")
        change = {"spec": {"successPolicy": {"operator": "Any"}}}
        check("spec.successPolicy" in refused(m, "jobset", "several", change), "the policy of a set was changed")

        wait_for(lambda: m.get("pytorchtrainingjob", "training").get("status", {}).get("phase") in ("Running", "Succeeded"),
                 "the PyTorchTrainingJob to run", 90)
        spec = group_of(m, ("tensorstack.dev/owner-name", "training"))
        check((spec["minMember"], spec["queue"], spec["priorityClassName"]) == (2, "default-queue", "tensorstack-70"), str(spec))


def test_jobs_are_suspended_resumed_and_fail_by_their_deadline():
    with Cluster(nodes=2, gpus_per_node=2, node_flags=("--run-jobs-for", "600s")) as m:
        m.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            trainjob("stopped", suspend=True, trainer={"numNodes": 2}), trainjob("late", activeDeadlineSeconds=3),
            jobset("set", suspend=True),
            training("paused", runMode={"pause": {"enabled": True}})]}))
        wait_for(lambda: conditions(m, "trainjob", "stopped").get("Suspended") == "True", "the TrainJob to be suspended")
        wait_for(lambda: conditions(m, "jobset", "set").get("Suspended") == "True", "the JobSet to be suspended")
        wait_for(lambda: m.get("pytorchtrainingjob", "paused").get("status", {}).get("phase") == "Paused", "the job to be paused")
        for resource, name, spec in (("trainjob", "stopped", {"suspend": False}), ("jobset", "set", {"suspend": False}),
                                     ("pytorchtrainingjob", "paused", {"runMode": {"pause": {"enabled": False}}})):
            m.kubectl("patch", resource, name, "--type=merge", "-p", json.dumps({"spec": spec}))
        wait_for(lambda: m.get("trainjob", "stopped")["status"].get("phase") == "Running", "the TrainJob to run", 60)
        wait_for(lambda: m.get("jobset", "set")["status"]["replicatedJobsStatus"][0]["ready"] == 1, "the JobSet to run", 60)
        wait_for(lambda: m.get("pytorchtrainingjob", "paused")["status"]["phase"] == "Running", "the resumed job to run", 60)
        wait_for(lambda: conditions(m, "trainjob", "late").get("Failed") == "True", "the deadline to pass", 60)
        wait_for(lambda: m.get("jobset", "late") is None, "its JobSet to go", 60)
        m.kubectl("delete", "trainjob", "stopped", "late")
        m.kubectl("delete", "jobset", "set")
        m.kubectl("delete", "pytorchtrainingjob", "paused")
        wait_for(lambda: not m.get("pods"), "the pods to go with their jobs", 60)
