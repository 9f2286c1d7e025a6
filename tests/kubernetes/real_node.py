#!/usr/bin/env python3
"""real_node.py: a TorchrunJob on a real kubelet with containerd, trained by real torchrun. Run by test_node.py, alone."""

import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from node import HOST, Node, own_namespaces  # noqa: E402
from cluster import ROOT, Operator  # noqa: E402
from controlplane import ControlPlane  # noqa: E402
from harness import Skip, binary, check, run, wait_for  # noqa: E402

IMAGE = "local/muster:1"
QUEUE = f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: team, namespace: default}}
spec:
  nodeResources: {{gpus: 0, cpus: 500m, memory: 2Gi}}
  imagePullPolicy: Never
  image: docker.io/{HOST}
  podTemplate:
    spec:
      terminationGracePeriodSeconds: 2
      containers:
        - name: trainer
          image: docker.io/{HOST}
          env: [{{name: OMP_NUM_THREADS, value: "1"}}]
          volumeMounts:
            - {{name: usr, mountPath: /usr, readOnly: true}}
            - {{name: alternatives, mountPath: /etc/alternatives, readOnly: true}}
      volumes:
        - {{name: usr, hostPath: {{path: /usr}}}}
        - {{name: alternatives, hostPath: {{path: /etc/alternatives}}}}
"""
VOLUME = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
"""
TRAIN = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(t)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(t.item())} word WORD", flush=True)
while not os.path.exists("stop"):
    time.sleep(0.2)
"""


def volume(number, folder):
    """ReadWriteOnce storage, as a person without a provisioner makes it."""
    path = os.path.join(folder, f"volume-{number}")
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o777)
    return f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: volume-{number}}}
spec:
  capacity: {{storage: 10Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  persistentVolumeReclaimPolicy: Delete
  hostPath: {{path: {path}}}
---
"""


def main():
    own_namespaces()
    with ControlPlane() as plane:
        node = Node(plane)
        try:
            image = os.path.join(plane.folder, "muster.tar")
            run([os.path.join(ROOT, "deploy", "image", "build.py"), "--build", os.environ.get("MUSTER_BUILD", ROOT + "/build"),
                 "--out", image, "--tag", "docker.io/" + IMAGE])
            node.start(image)
            train(plane)
        except BaseException:
            dump(plane)
            raise
        finally:
            node.stop()


def dump(plane):
    for argv in (["get", "pods,torchrunjobs,pvc,pv", "-A", "-o", "wide"], ["describe", "pods"], ["get", "events", "-A"]):
        print(plane.kubectl(*argv, ok=False).stdout[-6000:], file=sys.stderr)
    for pod in json.loads(plane.kubectl("get", "pods", "-o", "json", ok=False).stdout or '{"items":[]}')["items"]:
        name = pod["metadata"]["name"]
        print("---", name, plane.kubectl("logs", name, "--all-containers", ok=False).stdout[-1500:], file=sys.stderr)


def train(plane):
    apply = lambda text: plane.kubectl("apply", "-f", "-", input=text)
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("create", "namespace", "muster-system")
    apply(VOLUME)
    apply("".join(volume(i, plane.folder) for i in range(3)))
    operator = Operator("operator", plane.folder, plane.kubeconfig, [f"--launcher-image=docker.io/{IMAGE}"]).start()
    wait_for(operator.leading, "the operator to lead")
    apply(QUEUE)
    source = tempfile.mkdtemp(dir=plane.folder)
    with open(os.path.join(source, "train.py"), "w") as f:
        f.write(TRAIN.replace("WORD", "first"))
    env = dict(os.environ, KUBECONFIG=plane.kubeconfig, HOME=plane.folder,
               PATH=os.path.dirname(binary("muster")) + ":" + os.environ["PATH"])

    def torchrun(*argv, limit=180, ok=True):
        return run([binary("kubectl-torchrun"), *argv], env=env, cwd=source, limit=limit, ok=ok)

    def logs():
        return "".join(plane.kubectl("logs", f"t-worker-{i}", "-c", "trainer", ok=False).stdout for i in range(2))

    print(torchrun("submit", "--queue", "team", "--nodes", "2", "--name", "t", "--detach", "python3 train.py").stdout)
    wait_for(lambda: "rank 0 of 2: sum 3 word first" in logs() and "rank 1 of 2: sum 3 word first" in logs(),
             "two pods to have reduced together", 90)
    print("trained: two pods, real torchrun, DNS")
    done = plane.kubectl("exec", "t-worker-0", "-c", "trainer", "--", "sh", "-c", "echo inside $HOSTNAME")
    check("inside t-worker-0" in done.stdout, done.stdout)
    print("exec works")
    with open(os.path.join(source, "train.py"), "w") as f:
        f.write(TRAIN.replace("WORD", "second"))
    torchrun("sync", "t", "--restart")
    wait_for(lambda: logs().count("word second") == 2, "the new code to run in the same pods", 120)
    pods = json.loads(plane.kubectl("get", "pods", "-o", "json").stdout)["items"]
    check(all(s["restartCount"] == 0 for p in pods for s in p["status"]["containerStatuses"]), "no container was restarted")
    print("hot reload: new code, same containers")
    operator.stop()


if __name__ == "__main__":
    try:
        main()
        print("ok")
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(3)
