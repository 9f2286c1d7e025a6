"""What users of TorchrunQueue and TorchrunJob were promised: the manifests and commands they know, word for word,
on a machine that pretends to have their nodes. Ranks are real torchrun's; what they run is light."""

import os
import subprocess

from harness import EXAMPLES, ROOT, Muster, Skip, check, need_kubectl, wait_for

NODES = ("--cpus-per-node", "128", "--memory-per-node", "1024Gi",
         "--node-labels", "gpu.nvidia.com/class=H100,torchrun.ai/gpu-type=h100-80gb")
QUEUES = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: gpu-training-queue
spec:
  kaiQueue: "gpu-training"
  parentKaiQueue: "default"
  nodeResources:
    gpus: 8
    cpus: 96
    memory: "512Gi"
  image: "pytorch/pytorch:2.0.1-cuda11.7-cudnn8-runtime"
  storage:
    workspace:
      enabled: true
      sizePerGPU: "10Gi"
    checkpoints:
      enabled: true
      sizePerGPU: "50Gi"
  scheduling:
    scheduler: "kai-scheduler"
    priorityClassName: "gpu-priority"
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: h100-training
spec:
  kaiQueue: gpu-h100-queue
  image: dream3dml/pytorch:latest
  nodeResources:
    cpus: 128
    memory: "1024Gi"
    gpus: 8
    gpuType: "h100-80gb"
  scheduling:
    scheduler: kai-scheduler
    nodeSelector:
      gpu.nvidia.com/class: H100
  storage:
    shmSizePerGPU: "8Gi"
    workspace:
      enabled: true
      sizePerGPU: "10Gi"
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: dev-queue
spec:
  nodeResources:
    gpus: 4
    cpus: 32
    memory: "128Gi"
  image: pytorch/pytorch:latest
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata:
  name: prod-queue
spec:
  nodeResources:
    gpus: 8
    cpus: 96
    memory: "512Gi"
  image: company/pytorch-optimized:latest
  scheduling:
    priorityClassName: production-priority
"""
TRAINING_JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: training-job
spec:
  jobQueue: gpu-training-queue
  numGPUs: 16
  command: "python train.py --epochs 100"
  distributed:
    backend: "nccl"
    rdzvBackend: "etcd-v2"
"""
VIT_TRAINING = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: vit-training
spec:
  jobQueue: h100-training
  command: "python train.py --model vit_large"
  numGPUs: 32
  distributed:
    backend: nccl
    rdzvBackend: etcd-v2
"""
# Prints who it is and waits for a file that only a later sync brings.
TRAIN = """
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], VERSION, flush=True)
open(f"/checkpoints/{os.environ['RANK']}", "w").close() if os.path.isdir("/checkpoints") else None
end = time.monotonic() + 200
while WAIT and not os.path.exists("go") and time.monotonic() < end:
    time.sleep(0.1)
sys.exit(0 if not WAIT or os.path.exists("go") else 5)
"""


def server(nodes, pytorch=False):
    """Pods find Debian's PyTorch there, which has python3-etcd."""
    if subprocess.run(["/usr/bin/python3", "-c", "import etcd, torch"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("/usr/bin/python3 has no PyTorch with python3-etcd")
    return Muster(nodes=nodes, gpus_per_node=8, flags=NODES, pytorch=pytorch)


def project(m, wait):
    folder = os.path.join(m.folder, "my-training-project")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "train.py"), "w") as f:
        f.write(f"WAIT, VERSION = {wait}, 'first'\n{TRAIN}")
    return folder


def submit_file(m, folder, text, name):
    path = os.path.join(m.folder, name + ".yaml")
    with open(path, "w") as f:
        f.write(text)
    m.torchrun("submit", "-f", path, "--detach", cwd=folder)


def queues_are_active(m):
    m.apply(QUEUES)
    for queue in ("gpu-training-queue", "h100-training", "dev-queue", "prod-queue"):
        wait_for(lambda: m.get("torchrunqueue", queue).get("status", {}).get("phase") == "Active", f"{queue} to be Active")
    for name, parent in (("gpu-training", "default"), ("gpu-h100-queue", "default"), ("dev-queue", "default")):
        check(m.get("queue", name)["spec"]["parentQueue"] == parent, f"queue {name} is not below {parent}")


def run_whole(m, folder, name, pods, world):
    """The job starts whole, moves its counts, ends well; every rank's words are in the logs."""
    running = wait_for(lambda: m.phase(name) == "Running" and m.get("torchrunjob", name)["status"], f"{name} to run", 240)
    check(running["numNodes"] == pods and running["numGPUs"] == world, f"{running}")
    check(running["workersStatus"].startswith(f"{pods}/{pods}"), running["workersStatus"])
    wait_for(lambda: m.torchrun("logs", name).stdout.count(f"of {world}") >= world, f"all ranks of {name} to speak", 120)
    with open(os.path.join(folder, "go"), "w"):
        pass
    m.torchrun("sync", name, cwd=folder)
    wait_for(lambda: m.phase(name) in ("Succeeded", "Failed"), f"{name} to end", 120)
    end = m.get("torchrunjob", name)["status"]
    check(end["phase"] == "Succeeded", f"{name}: {end}")
    check(end["workers"]["succeeded"] == pods and end["workers"].get("running", 0) == 0, f"{end['workers']}")
    text = m.torchrun("logs", name).stdout
    for rank in range(world):
        check(f"[rank{rank}] rank {rank} of {world}" in text, f"rank {rank} of {world} is not in the logs")
    os.unlink(os.path.join(folder, "go"))


def test_sixteen_and_thirty_two_gpus_start_whole():
    with server(4) as m:
        queues_are_active(m)
        folder = project(m, True)
        submit_file(m, folder, TRAINING_JOB, "training-job")
        wait_for(lambda: m.phase("training-job") == "Running", "training-job to run", 240)
        submit_file(m, folder, VIT_TRAINING, "vit-training")
        wait_for(lambda: m.phase("vit-training") == "Queued", "vit-training to wait for whole nodes", 60)
        wait_for(lambda: "GPU" in m.get("torchrunjob", "vit-training")["status"]["message"],
                 "vit-training to say what it waits for", 60)
        check(not [p for p in m.get("pods") if p["metadata"]["name"].startswith("vit-training-worker")
                   and p["spec"].get("nodeName")], "a part of it was placed")
        run_whole(m, folder, "training-job", 2, 16)
        run_whole(m, folder, "vit-training", 4, 32)
        jobs = m.kubectl("get", "torchrunjobs").stdout
        check("vit-training" in jobs and "32" in jobs and "Succeeded" in jobs, jobs)
        story = m.kubectl("describe", "torchrunjob", "vit-training").stdout
        for word in ("Syncing", "Queued", "Running", "Succeeded"):
            check(word in story.split("Events:")[1], f"{word} is not in the story:\n{story}")
        pods = m.kubectl("get", "pods", "-l", "torchrun-job-name=vit-training", "-o", "name").stdout
        check(pods.count("vit-training-worker-") == 4, pods)
        # Time to live: it goes, does not come back, and the checkpoints stay.
        m.kubectl("patch", "torchrunjob", "training-job", "--type=merge",
                  "-p", '{"spec":{"reliability":{"ttlSecondsAfterFinished":1}}}')
        wait_for(lambda: m.get("torchrunjob", "training-job") is None, "the finished job to be removed", 60)
        wait_for(lambda: "training-job" not in m.kubectl("get", "pods", "-A").stdout, "its pods to go", 60)
        check(m.get("pvc", "gpu-training-queue-checkpoints"), "the checkpoints went with the job")
        check(m.get("pvc", "training-job-workspace") is None or
              m.get("pvc", "training-job-workspace")["metadata"].get("deletionTimestamp"), "the workspace stayed")


def test_submit_change_and_submit_again():
    with server(1) as m:
        queues_are_active(m)
        folder = project(m, False)
        first = m.torchrun("submit", "--queue", "h100-training", "--gpus", "8", "--name", "one", "--follow",
                           "python train.py --epochs 10", cwd=folder)
        check("rank 7 of 8 --epochs 10 first" in first.stdout, first.stdout)
        check(m.get("pvc", "one-workspace"), "no workspace claim")
        with open(os.path.join(folder, "train.py")) as f:
            text = f.read()
        with open(os.path.join(folder, "train.py"), "w") as f:
            f.write(text.replace("first", "second"))
        # A queue whose priority class does not exist: said, and run with the default one.
        second = m.torchrun("submit", "--queue", "prod-queue", "--gpus", "8", "--name", "two", "--follow",
                            "python train.py --epochs 20", cwd=folder)
        check("rank 0 of 8 --epochs 20 second" in second.stdout, second.stdout)
        check("production-priority" in m.kubectl("describe", "torchrunjob", "two").stdout, "no word of the priority")
        check("rank 0 of 8 --epochs 10 first" in m.torchrun("logs", "one").stdout, "jobs share a workspace")
        for argv in (["get", "torchrunqueue", "h100-training"], ["describe", "nodes"], ["get", "storageclass"],
                     ["get", "pvc", "two-workspace"], ["get", "pvc", "-l", "torchrun-job-name=two"]):
            check(m.kubectl(*argv).stdout.strip(), f"kubectl {' '.join(argv)} shows nothing")


def test_the_manifests_in_the_docs_are_accepted():
    need_kubectl(25)
    with Muster(nodes=1, gpus_per_node=8, flags=NODES) as m:
        for name in ("torchrunqueue", "torchrunjob"):
            with open(os.path.join(ROOT, "docs", "kinds", name + ".md")) as f:
                manifest = f.read().split("```yaml\n")[1].split("```")[0]
            done = m.kubectl("apply", "--validate=strict", "-f", "-", input=manifest, ok=False)
            check(done.returncode == 0 and "created" in done.stdout, f"{name}: {done.stdout}{done.stderr}")
        wait_for(lambda: m.get("torchrunqueue", "research").get("status", {}).get("phase") == "Active", "the queue")


def test_etcd_v2_without_an_etcd():
    with server(2, pytorch="ranks") as m:
        m.kubectl("apply", "-f", os.path.join(EXAMPLES, "torchrun", "etcd-v2.yaml"))
        wait_for(lambda: m.phase("over-etcd") in ("Succeeded", "Failed"), "over-etcd to end", 240)
        status = m.get("torchrunjob", "over-etcd")["status"]
        check(status["phase"] == "Succeeded", f"{status}")
        text = "".join(m.said(f"over-etcd-worker-{i}") for i in range(2))
        for rank in range(4):
            check(f"rank {rank} of 4 sees 4" in text, f"rank {rank} is missing:\n{text}")
