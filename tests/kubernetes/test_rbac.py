"""The shipped roles are enough, and none of their rules is idle.

The operator runs as its own account; the API server's audit log says what it refused. One exercise touches everything the
roles are for. With the shipped roles nothing is refused; with any one rule taken away something that rule allows is.
"""

import copy
import json
import os

from cluster import ROOT, Cluster, Operator
from controlplane import ACCOUNT
from harness import Failure, check, wait_for

ROLES = os.path.join(ROOT, "deploy", "rbac", "role.yaml")
REFUSED_WITHIN = 20  # seconds from the start of an operator that lacks a rule

# What one exercise creates; NAME is new each time, so that nothing has to be cleaned up in between.
EXERCISE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME}
provisioner: kubernetes.io/no-provisioner
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: NAME, namespace: default}
spec: {nodeResources: {gpus: 8, cpus: 8, memory: 16Gi}, storage: {workspace: {storageClass: NAME}}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: NAME, namespace: default, annotations: {torchrun.ai/workspace: upload}}
spec: {jobQueue: NAME, command: python train.py, numGPUs: 8}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: NAME-plain, namespace: default}
spec: {jobQueue: NAME, command: python train.py, numGPUs: 8}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME-wide, namespace: default}
spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 9}}}]}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: NAME-py, namespace: default}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization,
    averageUtilization: 80}}}]}
  pytorchReplicaSpecs:
    Worker: {replicas: 1, template: {spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: i}]}}}
---
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: NAME-mpi, namespace: default}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {schedulerName: kai-scheduler, containers: [{name: mpi, image: i}]}}}
    Worker: {replicas: 1, template: {spec: {schedulerName: kai-scheduler, containers: [{name: mpi, image: i}]}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: NAME, namespace: default}
spec: {runtimeRef: {name: plain}, trainer: {numNodes: 1, command: [sleep, "60"]}}
---
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: NAME-pt, namespace: default}
spec:
  tensorboardSpec: {image: i, trainingLogFilesets: ["file:///logs"]}
  replicaSpecs: [{type: master, replicas: 1, template: {spec: {schedulerName: kai-scheduler,
    containers: [{name: pytorch, image: i}]}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: default}
spec: {template: {spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: NAME}
spec: {partitionLabelValue: NAME}
"""


def shipped(plane):
    """The objects of role.yaml as data."""
    return stream(plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", ROLES).stdout)


def stream(text):
    """What kubectl prints for several objects."""
    decoder, at, objects = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at)
        objects += value["items"] if value["kind"] == "List" else [value]
        while at < len(text) and text[at].isspace():
            at += 1
    return objects


def apply_all(plane, objects):
    plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def account(plane):
    return plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])


def plural(kind):
    return {"StorageClass": "storageclasses"}.get(kind, kind.lower() + "s")


def path_of(item):
    ns = "/namespaces/default" if item["metadata"].get("namespace") else ""
    return f"/api{'s' if '/' in item['apiVersion'] else ''}/{item['apiVersion']}{ns}/{plural(item['kind'])}"


def exercise(m, name):
    for item in m.exercise:
        m.plane.request("POST", path_of(item), json.loads(json.dumps(item).replace("NAME", name)))


def remove(m, name):
    """What an exercise has made; what these own goes with them."""
    for item in m.exercise:
        m.plane.request("DELETE", path_of(item) + "/" + item["metadata"]["name"].replace("NAME", name))


def suspend(m, name):
    m.plane.request("PATCH", f"/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunjobs/{name}-plain",
                    {"spec": {"suspend": True}})


def read_exercise(m):
    """EXERCISE as data, so that it needs no kubectl each time."""
    done = m.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=EXERCISE.replace("NAME", "name-of-it"))
    m.exercise = [json.loads(json.dumps(i).replace("name-of-it", "NAME")) for i in stream(done.stdout)]


def replace_roles(plane, objects, names):
    for item in objects:
        if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] in names:
            ns = "/namespaces/muster-system" if item["kind"] == "Role" else ""
            path = f"/apis/rbac.authorization.k8s.io/v1{ns}/{item['kind'].lower()}s/{item['metadata']['name']}"
            plane.request("PUT", path, item)


def finish(m, name):
    """Everything that the exercise is to lead to has happened."""
    wait_for(lambda: m.phase(f"{name}-plain") == "Running", "the TorchrunJob to run")
    wait_for(lambda: m.get("pvc", f"{name}-workspace"), "the workspace of the other one")
    wait_for(lambda: m.get("mpijob", f"{name}-mpi")["status"]["replicaStatuses"]["Worker"]["active"] == 1, "the MPIJob's worker")
    wait_for(lambda: m.get("job", f"{name}-node-0"), "the TrainJob's Job")
    wait_for(lambda: m.get("pytorchtrainingjob", f"{name}-pt")["status"].get("phase") == "Running",
             "the PyTorchTrainingJob to run")
    wait_for(lambda: m.get("schedulingshard", name).get("status"), "the shard to be read")
    wait_for(lambda: any(e["reason"] == "Scheduled" for e in m.get("events")), "events")
    wait_for(lambda: m.get("tensorboard", f"{name}-pt-tensorboard").get("status"), "the TensorBoard to be told about")
    wait_for(lambda: m.get("hpa", f"{name}-py"), "the PyTorchJob's autoscaler")
    suspend(m, name)
    wait_for(lambda: m.phase(f"{name}-plain") == "Suspended", "the TorchrunJob to be suspended")


def words(event):
    ref = event.get("objectRef", {})
    sub = "/" + ref["subresource"] if ref.get("subresource") else ""
    return f"{event['verb']} {ref.get('resource')}{sub}: {event['responseStatus'].get('message', '')}"


def test_the_shipped_roles_are_enough():
    plane = Cluster.plane
    apply_all(plane, shipped(plane))
    start = plane.refusals()[1]
    with Cluster(nodes=4, gpus_per_node=8, kubeconfig=account(plane)) as m:
        read_exercise(m)
        exercise(m, "enough")
        finish(m, "enough")
    refused = [words(e) for e in plane.refusals(start)[0]]
    check(not refused, "the server refused: " + "\n".join(refused[:5]))


def allows(rule):
    """{(group, resource, verb)} of a rule."""
    return {(g, r, v) for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def without(objects, role, index):
    """The objects with what the rule allows taken away, wherever it is allowed: parts share some of their rights."""
    changed = copy.deepcopy(objects)
    roles = [o for o in changed if o["kind"] in ("Role", "ClusterRole")]
    gone = next(o for o in roles if o["metadata"]["name"] == role)["rules"][index]
    for item in roles:
        rules = []
        for rule in item["rules"]:
            if rule == gone and item["metadata"]["name"] == role:
                continue
            shared = allows(rule) & allows(gone)
            if not shared or rule.get("resourceNames") != gone.get("resourceNames"):
                rules.append(rule)
                continue
            rules += [{"apiGroups": [g], "resources": [r], "verbs": [v]} for g, r, v in sorted(allows(rule) - shared)]
        item["rules"] = rules
    return changed, gone


def belongs(event, rule):
    """Was this refused because the rule is missing?"""
    ref, message = event.get("objectRef", {}), event["responseStatus"].get("message", "")
    resource = ref.get("resource", "") + ("/" + ref["subresource"] if ref.get("subresource") else "")
    if (ref.get("apiGroup", ""), resource, event["verb"]) in allows(rule):
        return True
    # Rights that others' requests are checked for: of an owner's finalizers, and of what a Role grants.
    return ("blockOwnerDeletion" in message and any(r.endswith("/finalizers") for r in rule["resources"])) or \
           ("attempting to grant" in message and "pods/exec" in rule["resources"])


def missed(m, number, objects, role, index):
    """What the server refuses an operator that lacks the rule; None: nothing within REFUSED_WITHIN."""
    plane, name = m.plane, f"r{number}"
    changed, rule = without(objects, role, index)
    differ = {a["metadata"]["name"] for a, b in zip(objects, changed) if a != b}
    replace_roles(plane, changed, differ)
    plane.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases")
    start = plane.refusals()[1]
    operator = Operator(name, m.folder, m.account).start()
    try:
        exercise(m, name)
        if allows(rule) == {("", "pods", "delete")}:
            suspend(m, "first")  # its pods have to be deleted
        return wait_for(lambda: next((words(e) for e in plane.refusals(start)[0] if belongs(e, rule)), None),
                        f"rule {index} of {role} to be missed", REFUSED_WITHIN)
    except Failure:
        return None
    finally:
        operator.kill()
        replace_roles(plane, objects, differ)
        remove(m, name)


def test_each_rule_is_needed():
    plane = Cluster.plane
    objects = shipped(plane)
    apply_all(plane, objects)
    idle, number = [], 0
    with Cluster(nodes=64, gpus_per_node=8, operators=0) as m:
        m.account = account(plane)
        read_exercise(m)
        operator = Operator("operator-0", m.folder, m.account).start()
        exercise(m, "first")
        wait_for(lambda: m.phase("first-plain") == "Running", "the first job to run")
        operator.stop()
        for item in [o for o in objects if o["kind"] in ("Role", "ClusterRole")]:
            for index, rule in enumerate(item["rules"]):
                role, number = item["metadata"]["name"], number + 1
                refused = missed(m, number, objects, role, index)
                print(f"without rule {index} of {role}: {(refused or 'NOTHING')[:150]}", flush=True)
                if not refused:
                    idle.append(f"rule {index} of {role} ({rule['resources']}: {rule['verbs']})")
    check(not idle, "nobody missed " + "; ".join(idle))
