"""What the server does not take is told on whoever made it: every kind that makes objects, crossed with every way a create can be
refused. The event is there once, in the server's words and with what to do; the status says it too; nothing says that something
was made which is not there."""

import json
import os
import subprocess
import sys
import tempfile

from harness import Failure, Muster, check, free_port, wait_for
from pods import apply
from test_webhooks import certificate

HERE = os.path.dirname(os.path.abspath(__file__))
ADVICE = "it is tried again: change what refuses it, or what this asks for"


def template(**more):
    one = {"name": "c", "image": "none", "command": ["sleep", "1000"], "resources": {"limits": {"cpu": "200m"}}}
    return {"metadata": {"labels": {"app": "x", "bad": "1"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [one], **more}}


def workload(version, kind, **spec):
    return lambda name, pods: {"apiVersion": version, "kind": kind, "metadata": {"name": name},
                               "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pods, **spec}}


def training(kind, specs, role, **spec):
    return lambda name, pods: {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        specs: {role: {"replicas": 1, "template": {**pods, "spec": {**pods["spec"], "containers": [
            {**c, "name": {"TFJob": "tensorflow", "MPIJob": "mpi"}.get(kind, kind[:-3].lower())}
            for c in pods["spec"]["containers"]]}}}}, **spec}}


def job_template(pods):
    return {"spec": {"template": {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}}}


def job(name, pods):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, **job_template(pods)}


def cronjob(name, pods):
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {"schedule": "@every 1s", "jobTemplate": job_template(pods)}}


def old_set(name, pods):
    return {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name}, "spec": {"template": pods}}


def jobset(name, pods):
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": "w", "template": job_template(pods)}]}}


def trainjob(name, pods):
    part = {"name": "node", "template": job_template(pods)}
    part["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    part["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    runtime = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": name + "-rt"},
               "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [part]}}}}
    return [runtime, {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name},
                      "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": name + "-rt"}}}]


def torchrunjob(name, pods):
    queue = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": name + "-q"},
             "spec": {"kaiQueue": "default-queue", "podTemplate": {"metadata": pods["metadata"], "spec": {
                 **pods["spec"], "containers": [{**pods["spec"]["containers"][0], "name": "trainer"}]}}}}
    return [queue, {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": name},
                    "spec": {"jobQueue": name + "-q", "numNodes": 1, "command": "sleep 1000", "labels": {"bad": "1"}}}]


def tensorstack(name, pods):
    return {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob", "metadata": {"name": name},
            "spec": {"replicaSpecs": [{"type": "worker", "replicas": 1, "template": pods}]}}


# What it is, how it is written, the reason of its event, the object that has it, and a name that it needs.
KINDS = {
    "deployment": (workload("apps/v1", "Deployment"), "FailedCreate", "ReplicaSet", None),
    "replicaset": (workload("apps/v1", "ReplicaSet"), "FailedCreate", None, None),
    "statefulset": (workload("apps/v1", "StatefulSet", serviceName="s"), "FailedCreate", None, "{}-0"),
    "daemonset": (workload("apps/v1", "DaemonSet"), "FailedCreate", None, None),
    "replicationcontroller": (old_set, "FailedCreate", None, None),
    "job": (job, "FailedCreate", None, None),
    "jobset": (jobset, "FailedCreate", "Job", None),
    "trainjob": (trainjob, "FailedCreate", "Job", None),
    "pytorchjob": (training("PyTorchJob", "pytorchReplicaSpecs", "Worker"), "FailedCreatePod", None, "{}-worker-0"),
    "tfjob": (training("TFJob", "tfReplicaSpecs", "Worker"), "FailedCreatePod", None, "{}-worker-0"),
    "xgboostjob": (training("XGBoostJob", "xgbReplicaSpecs", "Master"), "FailedCreatePod", None, "{}-master-0"),
    "jaxjob": (training("JAXJob", "jaxReplicaSpecs", "Worker"), "FailedCreatePod", None, "{}-worker-0"),
    "paddlejob": (training("PaddleJob", "paddleReplicaSpecs", "Worker"), "FailedCreatePod", None, "{}-worker-0"),
    "mpijob": (training("MPIJob", "mpiReplicaSpecs", "Worker"), "FailedCreatePod", None, "{}-worker-0"),
    "torchrunjob": (torchrunjob, "FailedCreate", None, "{}-worker-0"),
    "pytorchtrainingjob": (tensorstack, "FailedCreate", None, "{}-worker-0"),
}


def written(kind, name, pods):
    made = KINDS[kind][0](name, pods)
    made = made if isinstance(made, list) else [made]
    if kind == "mpijob":
        launcher = made[0]["spec"]["mpiReplicaSpecs"]["Worker"]
        made[0]["spec"]["mpiReplicaSpecs"] = {"Launcher": launcher, "Worker": launcher}
    return made


# How it is refused: what is in the namespace, what pods have besides, and the server's words.
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
LIMITS = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
          "spec": {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}}
WAYS = {
    "quota": ([QUOTA], {}, "exceeded quota: full"),
    "limitrange": ([LIMITS], {}, "maximum cpu usage per Container is 100m"),
    "priorityclass": ([], {"priorityClassName": "missing"}, "no PriorityClass with name missing was found"),
    "podsecurity": ([], {}, "violates PodSecurity"),
    "webhook": ([], {}, "denied the request: it is bad"),
    "policy": ([], {}, "no pods on Wednesdays"),
    "taken": ([], {}, "already exists and belongs to somebody else; delete it, or rename one of them"),
}
SECURITY = "pod-security.kubernetes.io/enforce"
POLICY = [{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "never"},
           "spec": {"failurePolicy": "Fail", "validations": [{"expression": "false", "message": "no pods on Wednesdays"}],
                    "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                                            "resources": ["pods"]}]}}},
          {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
           "metadata": {"name": "never"}, "spec": {
               "policyName": "never", "validationActions": ["Deny"],
               "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "policy"}}}}}]
# TorchrunJobs leave such a class out, and say so: no pod is refused.
NO_REFUSAL = {("torchrunjob", "priorityclass")}


def webhook(ca, port):
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "deny"},
            "webhooks": [{"name": "deny.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": rules,
                          "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "webhook"}},
                          "clientConfig": {"caBundle": ca, "url": f"https://127.0.0.1:{port}/deny"}}]}


class Scene:
    def __init__(self, m):
        self.m = m
        self.findings = []

    def events(self, ns):
        return self.m.get("events", ns=ns)

    def fill(self, way):
        """Everything in a namespace where it is refused."""
        objects, more, _ = WAYS[way]
        labels = {SECURITY: "restricted"} if way == "podsecurity" else {}
        apply(self.m, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": way, "labels": labels}})
        made = list(objects)
        for kind in KINDS:
            if (kind, way) in NO_REFUSAL or (way == "taken" and not KINDS[kind][3]):
                continue
            if way == "taken":
                made.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": KINDS[kind][3].format(kind)},
                             "spec": {**template()["spec"], "schedulerName": "nobody"}})
            made += written(kind, kind, template(**more))
        for one in made:
            one["metadata"]["namespace"] = way
        apply(self.m, *made)

    def told(self, way, kind):
        """The events of refusals of that workload, or of what it made for its pods."""
        _, reason, child, _ = KINDS[kind]
        return [e for e in self.events(way) if e["reason"] == reason and e["type"] == "Warning"
                and (e["involvedObject"]["name"] + "-").startswith(kind + "-")
                and e["involvedObject"]["kind"].lower() == (child or kind).lower()]

    def look(self, way, kind):
        words = WAYS[way][2]
        wait_for(lambda: self.told(way, kind), f"{kind} to tell of {way}")
        for event in self.told(way, kind):
            if words not in event["message"] or ADVICE not in event["message"]:
                self.findings.append(f"{way} {kind}: {event['message']}")
        told = [(e["message"], e.get("count", 1)) for e in self.told(way, kind)]
        if len(told) != 1 or told[0][1] != 1:
            self.findings.append(f"{way} {kind}: told more than once: {told}")

        def said():
            return words in json.dumps(self.m.get(kind, kind, ns=way).get("status", {}))
        try:
            wait_for(said, f"the status of {kind} to tell of {way}", 10)
        except Failure:  # the table has it
            self.findings.append(f"{way} {kind}: its status does not say it: {self.m.get(kind, kind, ns=way).get('status')}")

    def false_words(self, way):
        """What is said to be made, and is not there."""
        there = {p["metadata"]["name"] for p in self.m.get("pods", ns=way)}
        for event in self.events(way):
            words = event["message"].replace("Created pod: ", "create Pod ").split()
            if event["message"].startswith(("Created pod: ", "create Pod ")) and words[2] not in there:
                self.findings.append(f"{way}: {event['involvedObject']['kind']} says {event['message']!r}, and it is not there")


def test_what_is_refused_is_told_once_in_words_and_nothing_false_is_said():
    folder = tempfile.mkdtemp()
    ca, port = certificate(folder, "IP:127.0.0.1"), free_port()
    server = subprocess.Popen([sys.executable, f"{HERE}/webhook_server.py", "127.0.0.1", str(port), f"{folder}/cert",
                               f"{folder}/key"], stdout=subprocess.PIPE, text=True)
    try:
        check(server.stdout.readline() == "ready\n", "the webhook listens")
        with Muster() as m:
            scene = Scene(m)
            apply(m, webhook(ca, port), *POLICY)
            for way in WAYS:
                scene.fill(way)
            shapes = 0
            for way in WAYS:
                for kind in KINDS:
                    if (kind, way) not in NO_REFUSAL and (way != "taken" or KINDS[kind][3]):
                        scene.look(way, kind)
                        shapes += 1
                scene.false_words(way)
            print(f"{len(KINDS)} kinds, {len(WAYS)} ways, {shapes} refusals, {len(scene.findings)} findings")
            check(not scene.findings, "\n".join(scene.findings))
            # An end of what refused it is heard of, and nothing of it is left in the status.
            m.kubectl("delete", "resourcequota", "full", "-n", "quota")
            wait_for(lambda: m.get("job", "job", ns="quota")["status"].get("active") == 1, "the job to have its pod")
            wait_for(lambda: "exceeded" not in json.dumps(m.get("jobset", "jobset", ns="quota")["status"]),
                     "the set to say so no more")
            made = [e for e in scene.events("quota")
                    if e["reason"] == "SuccessfulCreate" and e["involvedObject"]["name"] == "job"]
            check(len(made) == 1, f"{made}")
            # In a namespace that ends nothing is made, and nothing is said to be.
            m.kubectl("delete", "namespace", "policy", "--wait=false")
            wait_for(lambda: not m.get("jobs", ns="policy"), "the namespace to be emptied")
            scene.false_words("policy")
            check(not scene.findings, "\n".join(scene.findings))
    finally:
        server.kill()
        server.wait()


# What makes no pods itself: the kind, what it makes, and the reason of its event.
MAKERS = {
    "deployment": ("replicasets.apps", "ReplicaSetCreateError"),
    "cronjob": ("jobs.batch", "FailedCreate"),
    "jobset": ("jobs.batch", "JobCreationFailed"),
    "trainjob": ("jobsets.jobset.x-k8s.io", "TrainJobResourcesCreationFailed"),
    "pytorchjob": ("services", "FailedCreatePod"),
    "torchrunjob": ("services", "FailedCreate"),
}


def test_objects_other_than_pods_that_are_refused_are_told_too():
    with Muster() as m:
        scene = Scene(m)
        for kind, (what, _) in MAKERS.items():
            ns = "no-" + kind
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full", "namespace": ns},
                     "spec": {"hard": {f"count/{what}": "0"}}}
            made = [cronjob(kind, template())] if kind == "cronjob" else written(kind, kind, template())
            if kind == "torchrunjob":
                made[-1]["spec"]["numNodes"] = 2  # which need names
            apply(m, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})
            for one in made:
                one["metadata"]["namespace"] = ns
            apply(m, quota, *made)
        for kind, (_, reason) in MAKERS.items():
            def told():
                return [e for e in scene.events("no-" + kind)
                        if e["reason"] == reason and e["involvedObject"]["name"] == kind]
            wait_for(told, f"{kind} to tell")
            check(len(told()) == 1 and "exceeded quota: full" in told()[0]["message"] and ADVICE in told()[0]["message"],
                  f"{kind}: {[e['message'] for e in told()]}")
            if kind != "cronjob":
                wait_for(lambda: "exceeded quota" in json.dumps(m.get(kind, kind, ns="no-" + kind).get("status", {})),
                         f"the status of {kind} to say it: {m.get(kind, kind, ns='no-' + kind).get('status')}")
            false = [e for e in scene.events("no-" + kind) if e["reason"] in ("SuccessfulCreate", "ScalingReplicaSet")
                     or e["message"].startswith("Created service")]
            check(not false, f"{kind}: {[e['message'] for e in false]}")
