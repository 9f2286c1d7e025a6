"""The shipped roles are enough, and none of their rules is idle.

The operator runs as its own account; the API server's audit log says what it refused. With the shipped roles nothing is
refused (every Cluster sees to that, so in every test of this folder); with any one rule taken away something that rule
allows is. Which test takes the rules of which role away, each rule in turn:

    role.yaml     muster-leader, muster-scheduler, one a controller                 each_rule_is_needed
    mpi.yaml      muster-mpijob, muster-mpi-exec                                    each_rule_is_needed
    secrets.yaml  muster-secrets                                                    a_queue_that_makes_secrets_needs_its_rule
    webhook.yaml  muster-webhook (Role and ClusterRole)                             each_rule_of_the_webhooks_is_needed
    sharing.yaml  muster-sharing (Role and ClusterRole)                             each_rule_of_sharing_is_needed
    sharing.yaml  muster-reservation, which reservation pods have                   a_reservation_needs_its_rule
    suspend.yaml  muster-suspend                                                    each_rule_of_suspension_is_needed
    health.yaml   muster-health                                                     each_rule_of_node_health_is_needed
    provisioning.yaml muster-provisioning                                           each_rule_of_provisioning_is_needed
    self-test.yaml muster-self-test                                                 node_health_alone_has_the_rights_that_it_needs

The chart renders the same files (deploy.the_chart_grants_what_the_files_grant).
"""

import contextlib
import copy
import datetime
import json
import os
import urllib.error

from cluster import RBAC, Cluster, Operator, words
from controlplane import Process
from harness import Failure, binary, check, wait_for
from test_health import end_test, killed, self_test
from test_progress import tell
from test_provisioning import Provisioning, gang
from test_sharing import RESERVED, Shared
from test_webhook import secret_data

CONTROLLERS = ("defaults", "torchrunqueue", "torchrunjob", "notify", "jobset", "trainjob", "runtimes", "pytorchtrainingjob",
               "tensorboard", "pytorchjob", "tfjob", "xgboostjob", "jaxjob", "paddlejob", "mpijob", "podgrouper",
               "podgroupstatus", "gangstatus")
TAKEN_AWAY = {  # role: the test that takes its rules away
    **{f"muster-{name}": "each_rule_is_needed" for name in ("leader", "scheduler", "mpi-exec", *CONTROLLERS)},
    "muster-secrets": "a_queue_that_makes_secrets_needs_its_rule",
    "muster-webhook": "each_rule_of_the_webhooks_is_needed", "muster-sharing": "each_rule_of_sharing_is_needed",
    "muster-reservation": "a_reservation_needs_its_rule", "muster-suspend": "each_rule_of_suspension_is_needed",
    "muster-provisioning": "each_rule_of_provisioning_is_needed",
    "muster-health": "each_rule_of_node_health_is_needed", "muster-self-test": "node_health_alone_has_the_rights_that_it_needs"}
LATER = {  # what only a later Kubernetes than this one serves: nobody can miss it here
    ("scheduling.k8s.io", "podgroups", "get"), ("scheduling.k8s.io", "podgroups", "list"),
    ("scheduling.k8s.io", "podgroups", "watch"), ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("resource.k8s.io", "resourceclaims", "create"),
    ("resource.k8s.io", "resourceclaims", "patch"), ("resource.k8s.io", "resourceclaims/status", "patch"),
    ("resource.k8s.io", "resourceclaims/binding", "patch")}
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
spec: {nodeResources: {gpus: 8, cpus: 8, memory: 16Gi}, storage: {workspace: {storageClass: NAME}},
  resources: [{name: settings, nameMode: prefix, template: {apiVersion: v1, kind: ConfigMap, data: {NCCL_DEBUG: WARN}}}]}
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
apiVersion: v1
kind: Pod
metadata: {name: NAME-flow, namespace: default, ownerReferences: [{apiVersion: example.com/v1, kind: NobodysFlow, name: NAME,
  uid: 5d6a3c1e-0000-4000-8000-000000000001, controller: true}]} # of a kind that only a Karta could describe
spec: {schedulerName: kai-scheduler, containers: [{name: c, image: i}]}
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
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: NAME-tf, namespace: default}
spec: {tfReplicaSpecs: {Worker: {replicas: 1, template: {spec: {schedulerName: kai-scheduler,
  containers: [{name: tensorflow, image: i}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: NAME-xgb, namespace: default}
spec: {xgbReplicaSpecs: {Master: {replicas: 1, template: {spec: {schedulerName: kai-scheduler,
  containers: [{name: xgboost, image: i}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: NAME-jax, namespace: default}
spec: {jaxReplicaSpecs: {Worker: {replicas: 1, template: {spec: {schedulerName: kai-scheduler,
  containers: [{name: jax, image: i}]}}}}}
---
apiVersion: kubeflow.org/v1
kind: PaddleJob
metadata: {name: NAME-paddle, namespace: default}
spec: {paddleReplicaSpecs: {Worker: {replicas: 1, template: {spec: {schedulerName: kai-scheduler,
  containers: [{name: paddle, image: i}]}}}}}
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


PEOPLE = "users.yaml"  # not the operator's


def shipped(plane, *files):
    """The objects of these files of deploy/rbac as data."""
    return [o for file in files or sorted(os.listdir(RBAC)) for o in
            stream(plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", os.path.join(RBAC, file)).stdout)]


def rules_of(objects, test):
    """(object, index, rule) of every rule that a test takes away."""
    return [(o, i, rule) for o in objects if o["kind"] in ("Role", "ClusterRole") and
            TAKEN_AWAY.get(o["metadata"]["name"]) == test for i, rule in enumerate(o["rules"])]


def stream(text):
    """What kubectl prints for several objects."""
    decoder, at, objects = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at)
        objects += value["items"] if value["kind"] == "List" else [value]
        while at < len(text) and text[at].isspace():
            at += 1
    return objects


def said_by(operator):
    """What /readyz answers, ready or not."""
    operator.check()
    try:
        return operator.fetch("/readyz")
    except urllib.error.HTTPError as e:
        return e.read().decode()


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


def replace_roles(plane, objects):
    for item in objects:
        meta = item["metadata"]
        ns = f"/namespaces/{meta['namespace']}" if item["kind"] == "Role" else ""
        plane.request("PUT", f"/apis/rbac.authorization.k8s.io/v1{ns}/{item['kind'].lower()}s/{meta['name']}", item)


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


def test_the_shipped_roles_are_enough():
    with Cluster(nodes=4, gpus_per_node=8) as m:
        read_exercise(m)
        exercise(m, "enough")
        finish(m, "enough")


def test_every_role_has_a_test_that_takes_its_rules_away():
    files = [file for file in os.listdir(RBAC) if file != PEOPLE]
    names = {o["metadata"]["name"] for o in shipped(Cluster.plane, *files) if o["kind"] in ("Role", "ClusterRole")}
    check(names == set(TAKEN_AWAY), f"roles of deploy/rbac and of the table differ: {names ^ set(TAKEN_AWAY)}")
    missing = [t for t in TAKEN_AWAY.values() if "test_" + t not in globals()]
    check(not missing, f"no such tests: {missing}")


def allows(rule):
    """{(group, resource, verb)} of a rule."""
    return {(g, r, v) for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def without(objects, role, index):
    """The roles with what the rule allows taken away, wherever it is allowed: parts share some of their rights."""
    changed = copy.deepcopy([o for o in objects if o["kind"] in ("Role", "ClusterRole")])
    gone = role["rules"][index]
    for item in changed:
        rules = []
        for rule in item["rules"]:
            shared = allows(rule) & allows(gone)
            if not shared or rule.get("resourceNames", gone.get("resourceNames")) != gone.get("resourceNames"):
                rules.append(rule)
                continue
            names = {"resourceNames": rule["resourceNames"]} if rule.get("resourceNames") else {}
            rules += [{"apiGroups": [g], "resources": [r], "verbs": [v], **names} for g, r, v in sorted(allows(rule) - shared)]
        item["rules"] = rules
    return changed


def belongs(event, role, rule):
    """Was this refused because the rule is missing?"""
    ref, message = event.get("objectRef", {}), event["responseStatus"].get("message", "")
    resource = ref.get("resource", "") + ("/" + ref["subresource"] if ref.get("subresource") else "")
    if (ref.get("apiGroup", ""), resource, event["verb"]) in allows(rule) and \
            role["metadata"].get("namespace", ref.get("namespace")) == ref.get("namespace"):
        return True
    # Rights that others' requests are checked for: of an owner's finalizers, and of what a Role grants.
    return ("blockOwnerDeletion" in message and any(r.endswith("/finalizers") for r in rule["resources"])) or \
           ("attempting to grant" in message and "pods/exec" in rule["resources"])


def missed(m, objects, role, index, act):
    """What the server refuses an operator that lacks the rule; None: nothing within REFUSED_WITHIN. `act` starts it and
    gives it something to do; what it returns ends both."""
    plane = m.plane
    changed = without(objects, role, index)
    before = [a for a in objects if any(a["kind"] == b["kind"] and a["metadata"] == b["metadata"] and a != b for b in changed)]
    replace_roles(plane, [b for b in changed if any(a["kind"] == b["kind"] and a["metadata"] == b["metadata"] for a in before)])
    plane.request("DELETE", "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases")
    start, end = plane.refusals()[1], lambda: None
    try:
        end = act()
        return wait_for(lambda: next((words(e) for e in plane.refusals(start)[0] if belongs(e, role, role["rules"][index])),
                                     None), "the rule to be missed", REFUSED_WITHIN)
    except Failure:
        return None
    finally:
        replace_roles(plane, before)
        end()
        m.audited = plane.refusals()[1]  # these were wanted


def each_is_missed(m, objects, test, act):
    """Takes each rule of a test away, what several roles allow once from all of them; act(name, role, rule) as in missed()."""
    idle, taken = [], set()
    for number, (role, index, rule) in enumerate(rules_of(objects, test)):
        what = {(role["metadata"].get("namespace"), *right) for right in allows(rule)}
        if allows(rule) <= LATER or what <= taken:
            continue
        taken |= what
        which = f"rule {index} of {role['kind']} {role['metadata']['name']}"
        refused = missed(m, objects, role, index, lambda: act(f"r{number}", rule))
        print(f"without {which}: {(refused or 'NOTHING')[:150]}", flush=True)
        if not refused:
            idle.append(f"{which} ({rule['resources']}: {rule['verbs']})")
    check(not idle, "nobody missed " + "; ".join(idle))


def test_each_rule_is_needed():
    objects = shipped(Cluster.plane, "role.yaml", "mpi.yaml")
    with Cluster(nodes=64, gpus_per_node=8, operators=0) as m:
        for others in ("webhook.yaml", "sharing.yaml", "suspend.yaml", "health.yaml", "self-test.yaml",
                       "secrets.yaml", "provisioning.yaml"):
            m.kubectl("delete", "-f", os.path.join(RBAC, others))
        read_exercise(m)
        operator = Operator("operator-0", m.folder, m.operator_kubeconfig).start()
        exercise(m, "first")
        wait_for(lambda: m.phase("first-plain") == "Running", "the first job to run")
        operator.stop()

        def act(name, rule):
            operator = Operator(name, m.folder, m.operator_kubeconfig).start()
            exercise(m, name)
            if allows(rule) == {("", "pods", "delete")}:
                suspend(m, "first")  # its pods have to be deleted

            def end():
                operator.kill()
                remove(m, name)
            return end
        each_is_missed(m, objects, "each_rule_is_needed", act)


def test_each_rule_of_the_webhooks_is_needed():
    with Shared() as m:
        m.operators.pop().stop()

        def act(name, rule):
            """From the beginning: neither certificates nor somebody who knows their authority."""
            m.kubectl("delete", "secret", "muster-webhook", "-n", "muster-system", "--ignore-not-found")
            m.kubectl("apply", "-f", "-", input=m.manifest())
            if "patch" in rule["verbs"] and "secrets" in rule["resources"]:
                m.kubectl("create", "secret", "generic", "muster-webhook", "-n", "muster-system")
            operator = m.start_operator()
            if "tokenreviews" in rule["resources"]:
                wait_for(operator.ready, "the operator to serve trainings", 30)
                tell(operator.webhook_port, secret_data(m)["ca.crt"], "anybody's")
            return operator.kill
        each_is_missed(m, shipped(m.plane), "each_rule_of_the_webhooks_is_needed", act)
        m.operators.clear()


def test_each_rule_of_sharing_is_needed():
    with Shared(nodes=4) as m:
        m.operators.pop().stop()

        def act(name, rule):
            operator = m.start_operator()
            wait_for(operator.ready, "the operator to answer webhooks", 30)
            m.share(name)
            return operator.kill
        each_is_missed(m, shipped(m.plane), "each_rule_of_sharing_is_needed", act)
        m.operators.clear()


def test_each_rule_of_suspension_is_needed():
    with Shared(nodes=1, limits=True, suspend=True) as m:
        m.operators.pop().stop()

        def act(name, rule):
            operator = m.start_operator()
            wait_for(operator.ready, "the operator to answer webhooks", 30)
            m.share(name, 'gpu-fraction: "0.1", muster.dev/gpu-copy: library')
            m.running(name)
            m.kubectl("annotate", "pod", name, "muster.dev/suspend=hold")
            return operator.kill
        each_is_missed(m, shipped(m.plane), "each_rule_of_suspension_is_needed", act)
        m.operators.clear()


def test_each_rule_of_node_health_is_needed():
    with Cluster(nodes=2, gpus_per_node=8, operators=0) as m:

        def failed(name):
            return any(c["type"] == "Failed" for c in m.get("pytorchjob", name).get("status", {}).get("conditions", []))

        def act(name, rule):
            operator = Operator(name, m.folder, m.operator_kubeconfig, ["--node-health"]).start()
            m.apply(killed(name))
            # What cannot be said of its node does not hold up the job.
            if allows(rule) == {("", "nodes", "patch")}:
                wait_for(lambda: failed(name) and "event=reconcile.lost" in operator.tail(50),
                         "the job to fail, and a line in the log")
            return operator.kill
        each_is_missed(m, shipped(m.plane), "each_rule_of_node_health_is_needed", act)


def test_each_rule_of_provisioning_is_needed():
    with Provisioning(operators=0) as m:

        def act(name, rule):
            operator = Operator(name, m.folder, m.operator_kubeconfig, m.flags).start()
            m.apply(gang(name))
            return operator.kill
        each_is_missed(m, shipped(m.plane), "each_rule_of_provisioning_is_needed", act)


def bindings_of(objects, controller):
    """(path, object) of each binding that is there for this controller; None: that is there without any."""
    for o in objects:
        meta = o["metadata"]
        if o["kind"].endswith("RoleBinding") and meta.get("annotations", {}).get("muster.dev/controllers") == controller:
            ns = f"/namespaces/{meta['namespace']}" if o["kind"] == "RoleBinding" else ""
            yield f"/apis/rbac.authorization.k8s.io/v1{ns}/{o['kind'].lower()}s", o


class Alone(Cluster):
    """Nobody has the rights of a controller; the scheduler has its own."""

    def __init__(self):
        super().__init__(nodes=2, gpus_per_node=8, operators=0)
        self.objects = shipped(self.plane, *(file for file in os.listdir(RBAC) if file != PEOPLE))

    def start(self):
        super().start()
        for name in (*CONTROLLERS, "nodehealth", None):
            for path, o in bindings_of(self.objects, name):
                if o["metadata"]["name"] not in ("muster-leader", "muster-scheduler"):
                    self.plane.request("DELETE", f"{path}/{o['metadata']['name']}")

    @contextlib.contextmanager
    def operator(self, name, *flags):
        """Of this controller alone, with its own rights."""
        for path, o in bindings_of(self.objects, name):
            self.plane.request("POST", path, o)
        operator = Operator(name, self.folder, self.operator_kubeconfig, [f"--controllers={name}", *flags]).start()
        try:
            wait_for(operator.ready, f"{name} alone", 30)
            yield operator
        finally:
            operator.stop()
            for path, o in bindings_of(self.objects, name):
                self.plane.request("DELETE", f"{path}/{o['metadata']['name']}")

    def stop(self):
        self.kubectl("apply", "-f", RBAC)
        super().stop()


def test_a_controller_alone_is_ready_with_its_own_roles_alone():
    with Alone() as m:
        for name in CONTROLLERS:
            with m.operator(name):
                pass


def test_node_health_alone_has_the_rights_that_it_needs():
    with Alone() as m, m.operator("nodehealth", "--node-health", "--launcher-image=muster:test", "--self-test-image=torch:test"):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        m.kubectl("annotate", "node", "hollow-0",
                  *(f"blame.muster.dev/{i}={now} Killed default/j{i}: by a signal" for i in range(3)))
        wait_for(lambda: self_test(m), "the pod that tests the node")
        end_test(m, 0, "all is right")
        wait_for(lambda: not self_test(m), "it to go")


QUEUE_WITH_A_SECRET = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: with-a-secret, namespace: default}
spec:
  nodeResources: {gpus: 8, cpus: 8, memory: 16Gi}
  resources: [{name: token, template: {apiVersion: v1, kind: Secret, stringData: {token: abc}}}]
"""


def test_a_queue_that_makes_secrets_needs_its_rule():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.kubectl("delete", "-f", os.path.join(RBAC, "secrets.yaml"))
        m.apply(QUEUE_WITH_A_SECRET)
        wait_for(lambda: 'resource "secrets"' in said_by(m.operators[0]), "the right to be missed")
        check("secrets.yaml" in said_by(m.operators[0]), f"what to apply: {said_by(m.operators[0])}")
        m.kubectl("apply", "-f", RBAC)
        wait_for(lambda: m.get("secret", "token"), "the Secret, once there is the right to it", 60)
        m.audited = m.plane.refusals()[1]  # these were wanted


def test_a_reservation_needs_its_rule():
    with Shared() as m:
        m.apply(f"""
apiVersion: v1
kind: Pod
metadata: {{name: holder, namespace: {RESERVED}}}
spec: {{nodeName: nowhere, containers: [{{name: c, image: i}}]}}
""")
        token = m.kubectl("create", "token", "muster-reservation", "-n", RESERVED).stdout.strip()
        account = m.plane.certs.kubeconfig(os.path.join(m.folder, "reservation.kubeconfig"), m.plane.server, token=token)
        role = next(o for o in shipped(m.plane, "sharing.yaml") if o["metadata"]["name"] == "muster-reservation" and
                    o["kind"] == "Role")

        def hold(device):
            return Process(f"reserve-{device}", [
                binary("muster"), "reserve-gpu", "--kubeconfig", account, "--namespace", RESERVED, "--pod", "holder"],
                os.path.join(m.folder, f"reserve-{device}.log"), dict(m.env, NVIDIA_VISIBLE_DEVICES=device)).start()

        def device():
            return json.loads(m.kubectl("get", "pod", "holder", "-n", RESERVED, "-o", "json").stdout)["metadata"].get(
                "annotations", {}).get("run.ai/reserve_for_gpu_index")
        replace_roles(m.plane, [dict(role, rules=[])])
        holder = hold("GPU-a")
        try:
            wait_for(lambda: "cannot patch" in holder.tail() or "forbidden" in holder.tail(), "the server to refuse it")
            check(not device(), "nothing is told without the rule")
            replace_roles(m.plane, [role])
            wait_for(lambda: device() == "GPU-a", "the device to be told once the rule is there")
        finally:
            replace_roles(m.plane, [role])
            holder.stop()
