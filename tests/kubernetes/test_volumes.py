"""Volumes decide where pods can go. The provisioner is this test: it does what one does when a claim names its node."""

import json

from cluster import Cluster
from harness import check, wait_for

CLASSES = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %(name)s}
spec: {storageClassName: %(class)s, accessModes: [%(mode)s], resources: {requests: {storage: 1Gi}}}
---
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: %(name)s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: %(class)s
  %(source)s
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%(node)s]}]}]}
---
"""
LOCAL = "local: {path: /mnt/disk}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, %(group)s labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: busybox, command: [sleep, "600"], resources: {requests: {cpu: %(cpu)s}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %(claim)s}}]
---
"""
GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: default-queue}
---
"""
IN_GANG = "annotations: {pod-group-name: gang},"
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: team}
spec:
  nodeResources: {gpus: 1, cpus: 1, memory: 1Gi}
  storage: {workspace: {storageClass: waits}, checkpoints: {enabled: true, storageClass: waits}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: train, annotations: {torchrun.ai/workspace: upload}}
spec: {jobQueue: team, command: python train.py, numGPUs: 2}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: plain}
spec: {jobQueue: team, command: python train.py, numGPUs: 2}
"""


class Volumes(Cluster):
    def stop(self):
        self._remove_all("pods")
        self._remove_all("persistentvolumeclaims")
        self._remove_all("persistentvolumes")
        self._remove_all("csinodes")
        super().stop()


def claim(m, name):
    return m.get("persistentvolumeclaim", name)


def selected(m, name):
    return claim(m, name)["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")


def node(m, name):
    return m.get("pod", name)["spec"].get("nodeName")


def said(m, name):
    return str(m.get("pod", name).get("status", {}).get("conditions"))


def provision(m, name, at, class_name="waits"):
    """What a provisioner does: a volume that is the claim's already."""
    volume = VOLUME % {"name": "made-" + name, "class": class_name, "node": at,
                       "source": "csi: {driver: disks.example.com, volumeHandle: h-%s}" % name}
    ref = claim(m, name)["metadata"]
    m.apply(volume.replace("spec:\n", "spec:\n  claimRef: " + json.dumps(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": ref["uid"]}) + "\n"))


def test_a_claim_is_made_for_the_node_of_its_gang_which_is_bound_when_it_is_there():
    with Volumes(nodes=3) as m:
        m.apply(CLASSES + CLAIM % {"name": "data", "class": "waits", "mode": "ReadWriteOnce"})
        m.apply(GANG + "".join(POD % {"name": f"p{i}", "group": IN_GANG, "cpu": 1, "claim": "data"} for i in range(2)))
        at = wait_for(lambda: selected(m, "data"), "the claim to be told a node")
        wait_for(lambda: "waits for PersistentVolumeClaim data" in said(m, "p0"), "the pod to say which claim it waits for")
        check(not node(m, "p0") and not node(m, "p1"), "nobody of the gang is bound before its volume is there")
        provision(m, "data", at)
        wait_for(lambda: node(m, "p0") == at and node(m, "p1") == at, f"both pods to be bound to {at}, where the volume is")

        # A volume that is there decides where the next pod goes, whatever else is free.
        m.apply(POD % {"name": "later", "group": "", "cpu": 1, "claim": "data"})
        wait_for(lambda: node(m, "later") == at, f"the next pod to follow its volume to {at}")

        # A pod whose volume is on a node that does not want it waits, and says for what.
        m.kubectl("cordon", at)
        m.apply(POD % {"name": "stays", "group": "", "cpu": 1, "claim": "data"})
        wait_for(lambda: "its volumes cannot be used" in said(m, "stays"), "the pod to say that its volume is elsewhere")
        check(not node(m, "stays"), "it is bound nowhere")
        m.kubectl("uncordon", at)
        wait_for(lambda: node(m, "stays") == at, "it to go when the node takes pods again")


def test_local_volumes_are_given_to_claims_and_a_gang_waits_as_a_whole():
    with Volumes(nodes=3) as m:
        m.apply(CLASSES + VOLUME % {"name": "disk-1", "class": "local", "node": "hollow-1", "source": LOCAL})
        m.apply("".join(CLAIM % {"name": f"c{i}", "class": "local", "mode": "ReadWriteOnce"} for i in range(2)))
        m.apply(GANG + "".join(POD % {"name": f"p{i}", "group": IN_GANG, "cpu": 1, "claim": f"c{i}"} for i in range(2)))
        wait_for(lambda: "volumes cannot be used" in said(m, "p0") + said(m, "p1"), "the gang to say what it lacks")
        check([claim(m, f"c{i}")["status"]["phase"] for i in range(2)] == ["Pending", "Pending"],
              "no volume is given away before all have one")
        m.apply(VOLUME % {"name": "disk-2", "class": "local", "node": "hollow-2", "source": LOCAL})
        wait_for(lambda: sorted((node(m, "p0") or "", node(m, "p1") or "")) == ["hollow-1", "hollow-2"],
                 "each pod to be bound where its disk is")
        for i in range(2):
            disk = claim(m, f"c{i}")["spec"]["volumeName"]
            check(node(m, f"p{i}") == "hollow-" + disk[-1], f"p{i} is where {disk} is")


def test_a_claim_that_is_not_bound_is_named_and_a_node_attaches_no_more_than_it_can():
    with Volumes(nodes=2) as m:
        m.apply(CLASSES + CLAIM % {"name": "typo", "class": "none", "mode": "ReadWriteOnce"})
        m.apply(POD % {"name": "lost", "group": "", "cpu": 1, "claim": "typo"})
        wait_for(lambda: "default/typo, which names a StorageClass that does not exist" in said(m, "lost"), "the pod to say why")
        m.apply(POD % {"name": "lonely", "group": "", "cpu": 1, "claim": "nowhere"})
        wait_for(lambda: "default/nowhere, which does not exist" in said(m, "lonely"), "the other to say that there is none")

        for i in range(2):
            m.apply("apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: hollow-%d}\nspec: {drivers: [{name: "
                    "disks.example.com, nodeID: node, allocatable: {count: 1}}]}\n" % i)
        for name in "abc":
            m.apply(CLAIM % {"name": name, "class": "waits", "mode": "ReadWriteOnce"})
            m.apply(POD % {"name": "pod-" + name, "group": "", "cpu": 1, "claim": name})
        wait_for(lambda: sum(bool(selected(m, name)) for name in "abc") == 2, "two claims to be told a node")
        there = {name: selected(m, name) for name in "abc" if selected(m, name)}
        check(len(set(there.values())) == 2, f"a node each: {there}")
        waits = next(name for name in "abc" if name not in there)
        wait_for(lambda: "volumes cannot be used" in said(m, "pod-" + waits), "the third pod to say so")


def test_volumes_of_a_job_are_made_where_its_pods_go():
    """The workspace is one node's, checkpoints are used from all: the job's pods are bound once they are there."""
    with Volumes(nodes=2, gpus_per_node=2) as m:
        m.apply(CLASSES + QUEUE)
        at = {}
        for name in ("train-workspace", "team-checkpoints"):
            at[name] = wait_for(lambda: m.kubectl("get", "pvc", name, ok=False).returncode == 0 and selected(m, name),
                                f"claim {name} to be told a node")
        check(not any(p["spec"].get("nodeName") for p in m.get("pods")), "nobody is bound before its volumes are")
        for name in at:
            provision(m, name, at[name])
        wait_for(lambda: node(m, "train-sync-0") == at["train-workspace"], "the pod that has the workspace to be bound")
        wait_for(lambda: all(node(m, f"plain-worker-{i}") == at["team-checkpoints"] for i in range(2)),
                 "the ranks to be bound where their checkpoints are")
