"""Admission webhooks on a real API server: what they refuse and change, and that nobody depends on them being up."""

import base64
import json
import ssl
import threading
import time

from harness import check, wait_for
from webhooks import WebhookCluster

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, annotations: {ANNOTATIONS}}
spec:
  schedulerName: SCHEDULER
  containers: [{name: main, image: i}, {name: other, image: i}]
"""


def pod(name, annotations="", scheduler="kai-scheduler"):
    return POD.replace("NAME", name).replace("ANNOTATIONS", annotations).replace("SCHEDULER", scheduler)


TEMPLATE = "{spec: {containers: [{name: CONTAINER, image: i}]}}"


def replicas(kind, specs, container, role="Master", count=2):
    template = TEMPLATE.replace("CONTAINER", container)
    return f"""
apiVersion: kubeflow.org/v1
kind: {kind}
metadata: {{name: bad, namespace: default}}
spec: {{{specs}: {{{role}: {{replicas: {count}, template: {template}}}}}}}
"""


# Kind: a manifest that is refused, and what the message must name.
BAD = {
    "Queue": ("""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: bad}
spec: {resources: {gpu: {quota: -3}}}
""", "spec.resources.gpu.quota"),
    "PodGroup": ("""
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: bad, namespace: default}
spec: {queue: q, minMember: 1, subGroups: [{name: a, parent: b}]}
""", "spec.subGroups[0].parent"),
    "TorchrunJob": ("""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: bad, namespace: default}
spec: {jobName: bad, queue: q, command: c, elastic: {minNodes: 4, maxNodes: 2}}
""", "spec.elastic.maxNodes"),
    "TorchrunQueue": ("""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: bad, namespace: default}
spec: {storage: {shmSizePerGPU: 4 GB}}
""", "spec.storage.shmSizePerGPU"),
    "PyTorchTrainingJob": ("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: bad, namespace: default}
spec:
  torchrunConfig: {enabled: true, maxRestarts: 1, procPerNode: "0", rdzvBackend: c10d}
  replicaSpecs: [{type: node, replicas: 1, template: {spec: {containers: [{name: pytorch, image: i}]}}}]
""", "spec.torchrunConfig.procPerNode"),
    "PyTorchJob": (replicas("PyTorchJob", "pytorchReplicaSpecs", "pytorch"), "spec.pytorchReplicaSpecs.Master.replicas"),
    "TFJob": (replicas("TFJob", "tfReplicaSpecs", "tensorflow", "Chief"), "spec.tfReplicaSpecs.Chief.replicas"),
    "XGBoostJob": (replicas("XGBoostJob", "xgbReplicaSpecs", "main", count=1),
                   "spec.xgbReplicaSpecs.Master.template.spec.containers"),
    "JAXJob": (replicas("JAXJob", "jaxReplicaSpecs", "main", "Worker", 1),
               "spec.jaxReplicaSpecs.Worker.template.spec.containers"),
    "PaddleJob": (replicas("PaddleJob", "paddleReplicaSpecs", "main", "Worker", 1),
                  "spec.paddleReplicaSpecs.Worker.template.spec.containers"),
    "MPIJob": (replicas("MPIJob", "mpiReplicaSpecs", "main", "Worker", 1), "spec.mpiReplicaSpecs.Launcher"),
    "TrainJob": ("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bad, namespace: default}
spec: {runtimeRef: {name: r}, trainer: {numProcPerNode: 0}}
""", "spec.trainer.numProcPerNode"),
    "TrainingRuntime": ("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: bad, namespace: default}
spec:
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: main, image: i}]}}}
""", "spec.template.spec.replicatedJobs[0]"),
    "JobSet": ("""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: bad, namespace: default}
spec:
  replicatedJobs:
    - {name: a, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}
  successPolicy: {operator: All, targetReplicatedJobs: [b]}
""", "spec.successPolicy"),
}


def test_each_kind_is_refused_with_the_field_in_words():
    with WebhookCluster() as m:
        for kind, (manifest, field) in BAD.items():
            words = m.refused(manifest, "--dry-run=server") or "taken"
            check(field in words and "bad" in words, f"{kind}: {words}")
        # In a template, which the API server keeps unseen: as who writes it asks for.
        job = replicas("PyTorchJob", "pytorchReplicaSpecs", "pytorch", count=1).replace("image: i", "image: i, imagee: i")
        field = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].imagee"
        words = m.refused(job, "--dry-run=server", "--validate=strict") or "taken"
        check(f"{field}: Forbidden: unknown field" in words, words)
        warned = m.kubectl("apply", "--dry-run=server", "--validate=warn", "-f", "-", input=job)
        check(f'unknown field "{field}"' in warned.stderr, warned.stderr)
        ignored = m.kubectl("apply", "--dry-run=server", "--validate=ignore", "-f", "-", input=job)
        check("imagee" not in ignored.stderr, ignored.stderr)


def test_pods_with_shares_are_checked_and_prepared_and_others_left_alone():
    with WebhookCluster(sharing=True, nodes=1) as m:
        for annotations, field in (('gpu-fraction: "1.5"', "gpu-fraction"), ('gpu-memory: "0"', "gpu-memory"),
                                   ('gpu-fraction-num-devices: "2"', "gpu-fraction-num-devices"),
                                   ('mps: "true"', "mps"),
                                   ('gpu-fraction: "0.5", gpu-fraction-container-name: x', "container-name")):
            words = m.refused(pod("bad", annotations), "--dry-run=server") or "taken"
            check(f"metadata.annotations[{field}" in words or field in words, words)
        check(m.refused(pod("foreign", 'gpu-fraction: "1.5"', "default-scheduler")) is None, "a foreign pod is taken")
        spec = json.loads(m.kubectl("get", "pod", "foreign", "-o", "json").stdout)["spec"]
        check("env" not in spec["containers"][0], "and not changed")

        check(m.refused(pod("half", 'gpu-fraction: "0.5", gpu-fraction-container-name: other')) is None, "taken")
        made = json.loads(m.kubectl("get", "pod", "half", "-o", "json").stdout)
        prefix = made["metadata"]["annotations"]["runai/shared-gpu-configmap"]
        container = made["spec"]["containers"][1]
        named = {e["name"]: e["valueFrom"]["configMapKeyRef"]["name"] for e in container["env"]}
        check(set(named) == {"NVIDIA_VISIBLE_DEVICES", "GPU_PORTION", "RUNAI_NUM_OF_GPUS"}, str(named))
        check(set(named.values()) == {prefix + "-1"}, f"{named} of {prefix}")
        check(container["envFrom"][0]["configMapRef"]["name"] == prefix + "-1-evar", str(container))
        check("env" not in made["spec"]["containers"][0], "the other container is as it was")


def test_shares_are_limits_where_the_operator_is_told_so():
    with WebhookCluster(sharing=True, limits=True, nodes=1) as m:
        check(m.refused(pod("half", 'gpu-fraction: "0.5"')) is None, "taken")
        check(m.refused(pod("plain")) is None and m.refused(
            pod("out", 'gpu-fraction: "0.5", torchrun.ai/gpu-memory-enforced: "false"')) is None, "taken")
        half, plain, out = (json.loads(m.kubectl("get", "pod", name, "-o", "json").stdout)["spec"]
                            for name in ("half", "plain", "out"))
        init, main = half["initContainers"][0], half["containers"][0]
        values = {e["name"]: e.get("value") for e in main["env"]}
        check(values["LD_PRELOAD"] == "/.muster-gpu/libmuster-gpu.so", str(values))
        check(values["MUSTER_GPU_REGION"] == "/.muster-gpu-region/region", str(values))
        mounts = {v["name"]: v for v in main["volumeMounts"]}
        check(mounts["muster-gpu"]["readOnly"] and "muster-gpu-region" in mounts, str(mounts))
        check(init["image"] == "muster:test" and init["command"][1:] ==
              ["install", "/.muster-gpu/libmuster-gpu.so", "/usr/lib/muster/libmuster-gpu.so"], str(init))
        check("muster-gpu" not in json.dumps(half["containers"][1]), "the other container is as it was")
        check("muster-gpu" not in json.dumps(plain) + json.dumps(out), "pods without a share, or without the wish, too")


def test_sharing_that_is_off_is_said_at_once():
    with WebhookCluster(nodes=1) as m:
        words = m.refused(pod("half", 'gpu-fraction: "0.5"')) or "taken"
        check("GPU sharing is off" in words, words)


def test_who_makes_what_no_controller_acts_on_is_warned():
    train = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t, namespace: default}\n" \
            "spec: {runtimeRef: {name: torch-distributed}}\n"
    mpi = replicas("MPIJob", "mpiReplicaSpecs", "main", "Launcher", 1)
    torch = replicas("PyTorchJob", "pytorchReplicaSpecs", "pytorch", count=1)
    m = WebhookCluster(nodes=1)
    m.operator_flags += ["--controllers=-podgrouper,-trainjob,-mpijob"]
    with m:
        for kind, manifest, told in (("TrainJob", train, True), ("MPIJob", mpi, True), ("PyTorchJob", torch, False)):
            said = m.kubectl("apply", "--dry-run=server", "-f", "-", input=manifest).stderr
            check((f"{kind}: Muster does nothing with it" in said) == told, f"{kind}: {said}")


def serial(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


class Reviews:
    """Pods with shares are created, dry, by several at once: each is one review, and none may fail."""

    THREADS = 4
    BODY = {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "asked", "namespace": "default", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "i"}]}}

    def __init__(self, plane):
        self.plane, self.failures, self.count, self.over = plane, [], 0, threading.Event()
        self.threads = [threading.Thread(target=self._ask) for _ in range(self.THREADS)]

    def _ask(self):
        while not self.over.is_set():
            try:
                self.plane.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", self.BODY)
                self.count += 1
            except OSError as e:
                self.failures.append(f"{e} {e.read().decode() if hasattr(e, 'read') else ''}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.over.set()
        for thread in self.threads:
            thread.join()
        print(f"{self.count} reviews, {len(self.failures)} failed")

    def check(self):
        check(self.count > 0 and not self.failures, f"{len(self.failures)} reviews failed, first: {self.failures[:1]}")


def secret_data(m):
    text = m.kubectl("get", "secret", "muster-webhook", "-n", "muster-system", "-o", "json").stdout
    return {key: base64.b64decode(value).decode() for key, value in json.loads(text)["data"].items()}


def bundles(m):
    """The authorities that the API server trusts our webhooks by: the same for all of them, as it should be."""
    return {base64.b64decode(w["clientConfig"]["caBundle"]).decode() for kind in ("mutating", "validating")
            for w in json.loads(m.kubectl("get", f"{kind}webhookconfiguration", "muster", "-o", "json").stdout)["webhooks"]}


def test_certificates_are_replaced_while_reviews_go_on():
    with WebhookCluster(sharing=True, operators=2, lifetime="15s") as m:
        first = [serial(o.webhook_port) for o in m.operators]
        check(first[0] == first[1], "both replicas serve the same certificate")
        with Reviews(m.plane) as reviews:
            for operator, old in zip(m.operators, first):
                wait_for(lambda: serial(operator.webhook_port) != old, f"{operator.name} to serve another", 40)
        reviews.check()
        check(bundles(m) == {secret_data(m)["ca.crt"]}, "every webhook has the authority of the Secret")


def test_the_authority_is_replaced_while_reviews_go_on():
    with WebhookCluster(sharing=True, operators=2) as m:
        old, served = secret_data(m)["ca.crt"], serial(m.operators[0].webhook_port)
        with Reviews(m.plane) as reviews:
            # Whoever has lost the key cannot sign any more: a new authority comes beside the old one.
            m.kubectl("patch", "secret", "muster-webhook", "-n", "muster-system", "-p", '{"data":{"ca.key":null}}')
            wait_for(lambda: "ca.key" in secret_data(m) and bundles(m) == {secret_data(m)["ca.crt"]}, "a new authority", 30)
            both = secret_data(m)["ca.crt"]
            check(both != old and old.strip() in both, "the old authority is still trusted")
            for operator in m.operators:
                wait_for(lambda: serial(operator.webhook_port) != served, f"{operator.name} to serve what it signed", 60)
        reviews.check()


def test_a_lost_authority_is_made_again_and_told():
    with WebhookCluster(operators=2) as m:
        m.kubectl("delete", "secret", "muster-webhook", "-n", "muster-system")
        def told():
            done = m.kubectl("get", "secret", "muster-webhook", "-n", "muster-system", "-o", "json", ok=False)
            if done.returncode:
                return False
            data = json.loads(done.stdout)["data"]
            hooks = json.loads(m.kubectl("get", "validatingwebhookconfiguration", "muster", "-o", "json").stdout)
            return "tls.crt" in data and hooks["webhooks"][0]["clientConfig"]["caBundle"] == data["ca.crt"]
        wait_for(told, "a new authority", 30)
        wait_for(m.asked, "reviews to be answered again", 30)


def test_marks_of_the_scheduler_are_nobody_elses():
    with WebhookCluster(nodes=1) as m:
        m.kubectl("create", "clusterrole", "groups", "--verb=*", "--resource=podgroups.scheduling.run.ai", ok=False)
        m.kubectl("create", "rolebinding", "eve-groups", "--clusterrole=groups", "--user=eve", "-n", "default", ok=False)
        m.kubectl("create", "rolebinding", "eve-edits", "--clusterrole=edit", "--user=eve", "-n", "default", ok=False)
        group = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: of-eve, namespace: default}
spec: {queue: q, minMember: 1}
"""
        job = """
apiVersion: batch/v1
kind: Job
metadata: {name: of-eve, namespace: default}
spec:
  template:
    metadata: {annotations: {torchrun.ai/gpu-devices: "0"}}
    spec: {schedulerName: kai-scheduler, restartPolicy: Never, containers: [{name: c, image: i}]}
"""
        eve = ("--as=eve", "--as-group=system:authenticated")
        for verb, what in ("patch", "podgroups.scheduling.run.ai"), ("create", "jobs"):
            wait_for(lambda: m.kubectl("auth", "can-i", verb, what, "-n", "default", *eve, ok=False).returncode == 0,
                     "eve's rights to be known")
        words = m.refused(pod("marked", 'torchrun.ai/gpu-devices: "0"'), *eve) or "taken"
        check("torchrun.ai/gpu-devices" in words and "only the scheduler" in words, words)
        check(m.refused(pod("plain"), *eve) is None, "a pod without marks is taken")
        check(m.refused(pod("of-another", 'torchrun.ai/gpu-devices: "0"', "default-scheduler"), *eve) is None, "a foreign pod")
        words = m.kubectl("annotate", "pod", "plain", "received-resource-type=Regular", *eve, ok=False).stderr
        check("received-resource-type" in words, words)
        words = m.kubectl("label", "pod", "plain", "muster.dev/stand-in=true", *eve, ok=False).stderr
        check("muster.dev/stand-in" in words, words)
        check(m.kubectl("label", "pod", "plain", "mine=true", *eve, ok=False).returncode == 0, "another label is taken")
        check(m.refused(group) is None, "a pod group")
        stamp = "kai.scheduler/last-start-timestamp=2099-01-01T00:00:00Z"
        words = m.kubectl("annotate", "podgroup.scheduling.run.ai", "of-eve", stamp, *eve, ok=False).stderr
        check("last-start-timestamp" in words, words)
        operator = ("--as=system:serviceaccount:muster-system:muster-operator", "--as-group=system:serviceaccounts")
        m.kubectl("annotate", "podgroup.scheduling.run.ai", "of-eve", stamp, *operator)
        # Templates bring none along, whoever makes the pods.
        check(m.refused(job, *eve) is None, "the job itself has no marks")
        wait_for(lambda: "torchrun.ai/gpu-devices" in m.kubectl("get", "events", "-n", "default", "-o", "json").stdout,
                 "the Job's controller to be refused")
        for what in ("job/of-eve", "podgroup.scheduling.run.ai/of-eve", "rolebinding/eve-edits", "rolebinding/eve-groups"):
            m.kubectl("delete", what, "-n", "default", "--ignore-not-found", "--wait=false")
        m.kubectl("delete", "clusterrole", "groups", "--ignore-not-found")


def test_with_no_operator_up_foreign_pods_are_created_and_shares_refused():
    with WebhookCluster(sharing=True, nodes=1) as m:
        m.operators[0].kill()
        began = time.monotonic()
        check(m.refused(pod("foreign", "", "default-scheduler")) is None, "a foreign pod is created")
        check(time.monotonic() - began < 2, "without waiting for us")
        check(m.refused(pod("whole")) is None, "a pod of ours without a share too")
        words = m.refused(pod("half", 'gpu-fraction: "0.5"')) or "taken"
        check("shares.muster.dev" in words, words)


def test_one_replica_of_two_is_enough():
    with WebhookCluster(sharing=True, operators=2, nodes=1) as m:
        leader = m.leader()
        leader.kill()
        for i in range(4):
            check(m.refused(pod(f"half-{i}", 'gpu-fraction: "0.5"'), "--dry-run=server") is None, "answered by the other")
