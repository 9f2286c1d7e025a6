"""What people do: jobs of the guides, submit, a careful namespace, a tenant with `edit`."""

import json
import os

from harness import PATIENCE, Skip, check, wait_for
from lab import GPUS
from provisioner import SELECTED

TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(t)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(t.item())} WORD", flush=True)
"""
DEBIAN = "/usr/bin/torchrun"
# NAME in NAMESPACE: a pod is a whole node.
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  kaiQueue: NAMESPACE-NAME
  image: pytorch/pytorch:latest
  nodeResources: {gpus: %d, cpus: 500m, memory: 2Gi}
  storage: {workspace: {enabled: true, size: 1Gi}}
""" % GPUS
CONTEXTS = """  podSecurityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""
CAREFUL = """
apiVersion: v1
kind: Namespace
metadata: {name: careful, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: all, namespace: careful}
spec: {hard: {requests.cpu: "3", requests.memory: 8Gi, limits.cpu: "8", limits.memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: all, namespace: careful}
spec:
  limits: [{type: Container, default: {cpu: "1", memory: 512Mi}, defaultRequest: {cpu: 20m, memory: 64Mi}, max: {memory: 4Gi}}]
"""
TENANT = """
apiVersion: v1
kind: Namespace
metadata: {name: ann}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: person, namespace: ann}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit, namespace: ann}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: person, namespace: ann}]
"""
PROD_QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: prod-queue}
spec:
  parentQueue: default-parent-queue
  resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}
"""


def gone(lab, *what):
    lab.kubectl("delete", *what, "--wait=false")
    wait_for(lambda: not [p for p in lab.get("pods")["items"] if p["metadata"]["name"].startswith(what[-1])],
             f"the pods of {what[-1]} to go", 90)


def until(lab, what, condition, limit=200):
    lab.kubectl("wait", what, f"--for=condition={condition}", f"--timeout={limit * PATIENCE:.0f}s", limit=limit + 20)


def guides(lab):
    """Of each guide its job. The third's, which wants 32 GPUs, and the fourth's are for these nodes: see submit, and QUEUE."""
    lab.apply_example("kubeflow/pytorch-simple.yaml")
    until(lab, "pytorchjob/pytorch-simple", "Succeeded")
    check("rank 0 of 3: sum 3" in lab.logs("pytorch-simple-master-0"), lab.logs("pytorch-simple-master-0"))
    lab.apply(PROD_QUEUE)
    lab.apply_example("trainjob/pytorch-kai-runtime.yaml")
    lab.apply_example("trainjob/pytorch-kai-job.yaml")
    of_set = ["-l", "jobset.sigs.k8s.io/jobset-name=pytorch-kai-job"]
    wait_for(lambda: len(lab.running(*of_set)) == 4, "four pods of the TrainJob with a GPU each", 120)
    check(len({p["spec"]["nodeName"] for p in lab.pods(*of_set)}) == 2, "they are on both nodes")
    gone(lab, "trainjob", "pytorch-kai-job")
    lab.apply_example("kubeflow/queues.yaml")
    lab.apply_example("kubeflow/pytorch-dist-gpu.yaml")
    until(lab, "pytorchjob/pytorch-dist-mnist-nccl", "Running")
    wait_for(lambda: "GPU GPU-3f1a" in lab.logs("pytorch-dist-mnist-nccl-master-0"), "the master to see its GPU", 60)
    gone(lab, "pytorchjob", "pytorch-dist-mnist-nccl")
    lab.apply_example("scheduling/gpu-sharing.yaml")
    until(lab, "pod/gpu-sharing", "Ready", 120)
    lab.kubectl("delete", "pod", "gpu-sharing", "--wait=false")
    lab.apply_example("tensorstack/ddp-torchrun.yaml")
    wait_for(lambda: lab.get("pytorchtrainingjob", "ddp-torchrun")["status"].get("phase") == "Succeeded",
             "the PyTorchTrainingJob with torchrun to succeed", 200)
    lab.kubectl("delete", "pytorchtrainingjob", "ddp-torchrun", "--wait=false")
    lab.say("PyTorchJob, TrainJob on 4 GPUs, PyTorchJob with GPUs, a shared GPU, PyTorchTrainingJob")


def debian(lab):
    """PyTorchJob and TrainJob with the torchrun of Debian 12, told what docs/kinds/pytorchjob.md says."""
    if not os.path.exists(DEBIAN):
        raise Skip(f"there is no {DEBIAN} (Debian 12: python3-torch)")
    own = [{"name": name, "value": "9:1"} for name in ("PET_REDIRECTS", "PET_TEE")]
    command = [DEBIAN, "--no_python", "/usr/bin/python3", "-c", TRAIN.replace("WORD", "debian")]
    container = {"image": "debian:12", "command": command, "env": own}
    role = {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", **container}]}}}
    named = {"name": "debian", "namespace": "default"}
    lab.apply(json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": named,
                          "spec": {"nprocPerNode": "2", "pytorchReplicaSpecs": {"Master": role, "Worker": role}}}))
    until(lab, "pytorchjob/debian", "Succeeded")
    check("rank 0 of 4: sum 10 debian" in lab.logs("debian-master-0"), lab.logs("debian-master-0"))
    lab.apply(json.dumps({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": named,
                          "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {
                              **container, "numNodes": 2, "numProcPerNode": 1}}}))
    until(lab, "trainjob/debian", "Complete")
    logs = lab.logs("-l", "jobset.sigs.k8s.io/jobset-name=debian", "--tail=-1")
    check("rank 1 of 2: sum 3 debian" in logs, logs)
    for kind in ("pytorchjob", "trainjob"):
        lab.kubectl("delete", kind, "debian", "--wait=false")
    lab.say("PyTorch 1.13 of Debian 12: four ranks of a PyTorchJob and two of a TrainJob reduced")


def submit(lab):
    """A gang over both nodes, its workspace of a class that waits for its first consumer."""
    lab.apply(QUEUE.replace("NAMESPACE", "default").replace("NAME", "team"))
    code = lab.source(train=TRAIN.replace("WORD", "first"))
    said = lab.torchrun("submit", "--queue", "team", "--nodes", "2", "--name", "guide", "python3 train.py", cwd=code)
    check(all(f"rank {rank} of 4: sum 10 first" in said.stdout for rank in range(4)), said.stdout + said.stderr)
    claim = lab.get("pvc", "guide-workspace")
    at = claim["metadata"]["annotations"].get(SELECTED)
    check(claim["status"]["phase"] == "Bound" and lab.provisioner.made.get("default/guide-workspace") == at,
          f"the workspace was made where the scheduler said: {claim}")
    lab.say(f"four ranks on two nodes reduced; the workspace waited for its first consumer and was made on {at}")
    lab.kubectl("delete", "torchrunjob", "guide")


def restricted(lab):
    lab.apply(CAREFUL)
    wait_for(lambda: lab.kubectl("get", "serviceaccount", "default", "-n", "careful", ok=False).returncode == 0,
             "its account", 60)
    lab.apply(QUEUE.replace("NAMESPACE", "careful").replace("NAME", "team") + CONTEXTS)
    code = lab.source(train=TRAIN.replace("WORD", "restricted"))
    said = lab.torchrun("submit", "-n", "careful", "--queue", "team", "--nodes", "2", "--name", "tight", "python3 train.py",
                        cwd=code)
    check("rank 3 of 4: sum 10 restricted" in said.stdout, said.stdout + said.stderr)
    used = lab.get("resourcequota", "all", "-n", "careful")["status"]["used"]
    lab.say(f"trained under restricted, a quota and a LimitRange; its quota has used {json.dumps(used)}")
    lab.kubectl("delete", "torchrunjob", "tight", "-n", "careful")


def tenant(lab):
    lab.apply(TENANT)
    lab.apply(QUEUE.replace("NAMESPACE", "ann").replace("NAME", "team"))
    token = lab.kubectl("create", "token", "person", "-n", "ann", "--duration", "1h").stdout.strip()
    ann = lab.plane.certs.kubeconfig(os.path.join(lab.folder, "ann.kubeconfig"), lab.plane.server, token=token)
    code = lab.source(train=TRAIN.replace("WORD", "tenant"))
    said = lab.torchrun("submit", "-n", "ann", "--queue", "team", "--nodes", "1", "--name", "hers", "python3 train.py",
                        kubeconfig=ann, cwd=code)
    check("rank 1 of 2: sum 3 tenant" in said.stdout, said.stdout + said.stderr)
    listed = lab.torchrun("list", "-n", "ann", kubeconfig=ann)
    check("hers" in listed.stdout, listed.stdout)
    queue = QUEUE.replace("NAMESPACE", "ann").replace("NAME", "more")
    denied = lab.kubectl("--as=system:serviceaccount:ann:person", "apply", "-f", "-", input=queue, ok=False)
    check("forbidden" in denied.stderr, f"queues stay the administrator's: {denied.stderr}")
    lab.say("with `edit` alone a job was submitted, followed and listed; a queue was refused")
    lab.kubectl("delete", "torchrunjob", "hers", "-n", "ann")
