#!/usr/bin/env python3
"""real_node.py STEP...: Muster installed by its chart on a real kubelet with containerd, and then what is named: `train`, a
TorchrunJob trained by real torchrun from a workspace whose claim waits for its first consumer; `share`, a GPU shared by two pods;
`upgrade`, and its removal. Run by test_node.py, alone.
"""

import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from node import ADDRESS, HOST, Node, own_namespaces, stop_all  # noqa: E402
from cluster import ROOT  # noqa: E402
from controlplane import ControlPlane  # noqa: E402
from harness import Skip, binary, check, run, wait_for  # noqa: E402
from provisioner import CLASS, SELECTED, Provisioner  # noqa: E402

IMAGE = "local/muster:1"
CHART = os.path.join(ROOT, "deploy", "chart", "muster")
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
"""
WRONG = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: wrong}
spec: {parentQueue: wrong, resources: {}}
"""
# A pod with half a GPU.
HALF = f"""
apiVersion: v1
kind: Pod
metadata: {{name: NAME, namespace: default, labels: {{kai.scheduler/queue: default-queue}}, annotations: {{gpu-fraction: "0.5"}}}}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: docker.io/{HOST}
      command: [sleep, "3600"]
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


def main():
    own_namespaces()
    with ControlPlane(scheduler=True, address=ADDRESS) as plane:
        node = Node(plane)
        try:
            image = os.path.join(plane.folder, "muster.tar")
            run([os.path.join(ROOT, "deploy", "image", "build.py"), "--build", os.environ.get("MUSTER_BUILD", ROOT + "/build"),
                 "--out", image, "--tag", "docker.io/" + IMAGE], limit=400)
            node.start(image)
            install(plane)
            for step in sys.argv[1:]:
                {"train": train, "share": share, "upgrade": upgrade_and_remove}[step](plane, node)
        except BaseException:
            dump(plane)
            raise
        finally:
            stop_all(plane, [node])


def dump(plane):
    for argv in (["get", "pods,torchrunjobs,pvc,pv,services", "-A", "-o", "wide"], ["describe", "pods"], ["get", "events", "-A"],
                 ["logs", "deploy/muster-operator", "-n", "muster-system", "--all-pods", "--tail=60"]):
        print(plane.kubectl(*argv, ok=False).stdout[-6000:], file=sys.stderr)
    for pod in json.loads(plane.kubectl("get", "pods", "-o", "json", ok=False).stdout or '{"items":[]}')["items"]:
        name = pod["metadata"]["name"]
        print("---", name, plane.kubectl("logs", name, "--all-containers", ok=False).stdout[-1500:], file=sys.stderr)


def apply(plane, text):
    plane.kubectl("apply", "-f", "-", input=text)


def helm(plane, *argv):
    return run([os.path.join(plane.bin, "helm"), *argv, "--namespace", "muster-system"], limit=180,
               env=dict(os.environ, KUBECONFIG=plane.kubeconfig, HOME=plane.folder))


def pods(plane, *where):
    return json.loads(plane.kubectl("get", "pods", *where, "-o", "json").stdout)["items"]


def install(plane):
    """By the chart, as it is: two replicas with the shipped rights, as nobody, without a writable file."""
    helm(plane, "install", "muster", CHART, "--create-namespace", "--wait", "--timeout", "150s",
         "--set-string", "global.tag=1", "--set",
         "global.registry=docker.io/local,global.gpuSharing=true")
    status = [s for p in pods(plane, "-n", "muster-system") for s in p["status"]["containerStatuses"]]
    check(len(status) == 2 and all(s["ready"] and not s["restartCount"] for s in status), f"two replicas are ready: {status}")
    wait_for(lambda: "its own parent" in plane.kubectl("create", "--dry-run=server", "-f", "-", input=WRONG, ok=False).stderr,
             "the API server to ask the webhooks through their Service", 30)
    print("installed by helm: two replicas ready, webhooks answer through their Service")


def train(plane, node):
    provisioner = Provisioner(plane, plane.folder)
    provisioner.start()
    apply(plane, CLASS)
    apply(plane, QUEUE)
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
    claim = json.loads(plane.kubectl("get", "pvc", "t-workspace", "-o", "json").stdout)
    at = claim["metadata"]["annotations"].get(SELECTED)
    check(claim["status"]["phase"] == "Bound" and at == node.name and provisioner.made.get("default/t-workspace") == at,
          f"the workspace was made where the scheduler said: {claim}, {provisioner.made}")
    provisioner.stop()
    print("its workspace is of a class that waits for its first consumer, and was made for the node of the gang")
    done = plane.kubectl("exec", "t-worker-0", "-c", "trainer", "--", "sh", "-c", "echo inside $HOSTNAME")
    check("inside t-worker-0" in done.stdout, done.stdout)
    print("exec works")
    with open(os.path.join(source, "train.py"), "w") as f:
        f.write(TRAIN.replace("WORD", "second"))
    torchrun("sync", "t", "--restart")
    wait_for(lambda: logs().count("word second") == 2, "the new code to run in the same pods", 120)
    check(all(s["restartCount"] == 0 for p in pods(plane) for s in p["status"]["containerStatuses"]),
          "no container was restarted")
    print("hot reload: new code, same containers")


def run_half(plane, name):
    apply(plane, HALF.replace("NAME", name))
    wait_for(lambda: pods(plane, f"--field-selector=metadata.name={name}")[0]["status"]["phase"] == "Running",
             f"{name} to run", 90)


def share(plane, node):
    """Two halves on one of the node's two GPUs, which the kubelet gave to a reservation pod."""
    def seen(name):
        return plane.kubectl("exec", name, "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES $GPU_PORTION").stdout.split()

    def reserved():
        return {p["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"]
                for p in pods(plane, "-n", "kai-resource-reservation")}
    told = []
    for name in ("half-a", "half-b", "half-c"):
        run_half(plane, name)
        told.append(seen(name))
    check(told[0] == told[1] and told[0][1] == "0.50", f"two halves see one device: {told}")
    check({told[0][0], told[2][0]} == set(node.gpus) == reserved(), f"the third has the other one: {told}, {reserved()}")
    plane.kubectl("delete", "pods", "half-a", "half-b", "half-c")
    wait_for(lambda: not pods(plane, "-n", "kai-resource-reservation"), "the GPUs to be given back", 60)
    print("shares: reservation pods hold what the device plugin gave them, their pods see it, and it is given back")


def upgrade_and_remove(plane, _):
    run_half(plane, "stays")

    def holder():
        lease = json.loads(plane.kubectl("get", "lease", "muster-operator", "-n", "muster-system", "-o", "json").stdout)
        return lease["spec"].get("holderIdentity", "")

    def names():
        return {p["metadata"]["name"] for p in pods(plane, "-n", "muster-system") if not p["metadata"].get("deletionTimestamp")}
    old = names()
    helm(plane, "upgrade", "muster", CHART, "--reuse-values", "--wait", "--timeout", "150s", "--set", "operator.logLevel=debug")
    wait_for(lambda: not names() & old, "the old replicas to be gone", 60)
    wait_for(lambda: any(n in holder() for n in names()), f"one of {names()} to lead", 30)
    check(all(p["status"]["phase"] == "Running" for p in pods(plane)), "jobs ran on")
    helm(plane, "uninstall", "muster", "--wait", "--timeout", "60s")
    wait_for(lambda: not names(), "the operator to be gone", 60)
    check(all(p["status"]["phase"] == "Running" for p in pods(plane)), "jobs run on without it")
    check("torchrunjobs" in plane.kubectl("get", "crd", "-o", "name").stdout, "kinds and objects stay")
    print("upgraded by helm, a new replica leads; removed, jobs run on")


if __name__ == "__main__":
    try:
        main()
        print("ok")
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(3)
