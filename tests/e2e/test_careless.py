"""Nothing is taken and ignored: manifests as a careless person writes them, of every kind, and what says so. Each is refused, or
warned about, or an event of what it made has the words; what needs none of it is not written here. Fields alone are
test_typos.py's."""

import json

from harness import Failure, Muster, wait_for

SOON_S = 40
PLAIN = {"name": "c", "image": "none", "command": ["sleep", "1000"]}
HALF = {"gpu-fraction": "0.5"}


def pod(notes=None, labels=None, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": notes or {}, "labels": labels or {}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [PLAIN], "terminationGracePeriodSeconds": 0, **spec}}


def training(notes=None, pods=None, role="Worker", container="pytorch", **spec):
    template = {"metadata": {"annotations": pods or {}}, "spec": {"containers": [{**PLAIN, "name": container}]}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"annotations": notes or {}},
            "spec": {"pytorchReplicaSpecs": {role: {"replicas": 1, "template": template}}, **spec}}


def torchrun(kind, **spec):
    return {"apiVersion": "torchrun.ai/v1alpha1", "kind": kind, "metadata": {}, "spec": spec}


def job_of_queue(**spec):
    return torchrun("TorchrunJob", **{"jobQueue": "q", "command": "sleep 1000", **spec})


def tensorstack(**spec):
    one = {"type": "worker", "template": {"spec": {"containers": [{**PLAIN, "name": "pytorch"}]}}}
    return {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "PyTorchTrainingJob", "metadata": {},
            "spec": {"replicaSpecs": [one], **spec}}


def trainjob(**spec):
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {},
            "spec": {"runtimeRef": {"name": "torch-distributed"}, **spec}}


def deployment(notes=None, **template):
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [PLAIN], **template}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": notes or {}},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods}}


ON_PODS = "read on pods, so it belongs into the template"
OTHERWISE = "which is the same in another spelling; leave one of them out"
# name: (manifest, words)
ANYWHERE = {
    "fraction-on-the-job": (training(notes=HALF), ON_PODS),
    "fraction-in-words": (training(pods={"gpu-fraction": "half"}), 'must be a number between 0 and 1, such as "0.5"'),
    "fraction-among-labels": (pod(labels=HALF), "it is read as an annotation"),
    "fraction-above-one": (pod({"gpu-fraction": "1.5"}), 'must be a number between 0 and 1, such as "0.5"'),
    "fraction-of-another-name": (pod({"runai/gpu-fraction": "0.5"}), "nothing reads it"),
    "fraction-for-nobody": (pod({**HALF, "gpu-fraction-container-name": "no"}), "no container or init container of that name"),
    "memory-with-a-unit": (pod({"gpu-memory": "2Gi"}), "must be a positive number of MiB"),
    "mps-yes": (pod({**HALF, "mps": "yes"}), "it must be one of true, false"),
    "key-misspelt": (training(notes={"muster.dev/on-hagn": "Report"}), "the one most alike is muster.dev/on-hang"),
    "key-misspelt-in-a-template": (training(pods={"muster.dev/obsreve": "off"}), "the one most alike is muster.dev/observe"),
    "word-misspelt": (training(pods={"muster.dev/observe": "no"}), "it must be one of off, on"),
    "queue-as-an-annotation": (training(notes={"kai.scheduler/queue": "q"}), "it is read as a label"),
    "queue-misspelt": (pod(labels={"kai.scheduler/quue": "q"}), "the one most alike is kai.scheduler/queue"),
    "queue-unknown": (pod(labels={"kai.scheduler/queue": "no"}), '"no" does not exist; those that would take it: '),
    "class-unknown": (pod(labels={"priorityClassName": "no"}), "there is no such PriorityClass"),
    "preemptibility-misspelt": (pod(labels={"kai.scheduler/preemptibility": "yes"}), "which means nothing"),
    "role-in-small-letters": (training(role="worker"), 'supported values: "Master", "Worker"'),
    "container-of-another-name": (training(container="main"), 'one container must be named "pytorch"'),
    "policy-a-level-too-high": (training(cleanPodPolicy="All"), 'unknown field "spec.cleanPodPolicy"'),
    "number-for-a-word": (training(nprocPerNode=2), "must be of type string"),
    "two-spellings-of-the-queue": (job_of_queue(queue="other"), OTHERWISE),
    "two-sizes": (job_of_queue(minNodes=1, elastic={"minNodes": 2, "maxNodes": 3}), OTHERWISE),
    "two-queues": (torchrun("TorchrunQueue", kaiQueue="a", queue={"name": "b"}), OTHERWISE),
    "on-and-off": (tensorstack(runMode={"pause": {"enabled": False, "enable": True}}), OTHERWISE),
    "command-as-a-list": (job_of_queue(command=["python", "train.py"]), "must be of type string"),
    "field-of-another-kind": (torchrun("TorchrunQueue", nodeResources={"cpu": 4}), 'unknown field "spec.nodeResources.cpu"'),
    "policy-in-small-letters": (tensorstack(runPolicy={"cleanUpPolicy": "all"}), 'supported values: "All", "Unfinished", "None"'),
    "processes-in-words": (trainjob(trainer={"numProcPerNode": "two"}), "must be a positive number, auto, cpu or gpu"),
    "override-of-nobody": (trainjob(trainer={"numNodes": 1}, podTemplateOverrides=[{"targetJobs": [{"name": "no"}]}]),
                           'no replicatedJob "no"'),
}
# Where the API server is ours, which knows what else is there.
EMBEDDED = {
    "for-kueue": (deployment(notes={"kueue.x-k8s.io/queue-name": "q"}), "there is no Kueue here"),
    "for-volcano": (pod({"scheduling.volcano.sh/group-name": "g"}), "there is no Volcano here"),
    "for-coscheduling": (pod(labels={"scheduling.x-k8s.io/pod-group": "g"}), "there is no coscheduling plugin here"),
    "for-yunikorn": (training(pods={"yunikorn.apache.org/task-groups": "[]"}), "there is no YuniKorn here"),
    "fraction-on-a-deployment": (deployment(notes=HALF), ON_PODS),
    "scheduler-in-a-template": (deployment(schedulerName="volcano"), "these wait until a scheduler of that name"),
    "long-dead": (pod({"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}), 'use the "seccompProfile" field'),
}


def post(m, name, manifest):
    """What the answer to one manifest says, as kubectl apply would ask."""
    body = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
    own, path = m.rest.own, m.rest.path(manifest["kind"].lower(), ns="default")
    own.connection.request("POST", f"{path}?fieldValidation=Strict", json.dumps(body),
                           {"Content-Type": "application/json", **own.headers})
    answer = own.connection.getresponse()
    text = answer.read().decode()
    return "\n".join([*(answer.headers.get_all("Warning") or []), text if answer.status >= 400 else ""]).replace('\\"', '"')


def told(m, name):
    """What events say of what has that name, or was made for it."""
    return "\n".join(event.get("message", "") for event in m.get("events")
                     if event["involvedObject"]["name"].removeprefix("pg-").startswith(name))


def test_what_a_careless_person_writes_is_refused_or_said():
    with Muster(nodes=1, gpus_per_node=2) as m:
        m.create(torchrun("TorchrunQueue", image="none") | {"metadata": {"name": "q"}})
        manifests = {**ANYWHERE, **(EMBEDDED if m.runs_batch_jobs else {})}
        silent = {name: words for name, (manifest, words) in manifests.items() if words not in post(m, name, manifest)}

        def left():
            return [f"{name} ({words})" for name, words in silent.items() if words not in told(m, name)]
        try:
            wait_for(lambda: not left(), "every one of them to be told", SOON_S)
        except Failure:
            raise Failure(f"{len(left())} of {len(manifests)} are taken without a word: {'; '.join(left())}") from None
