"""The manifests of examples/{kubeflow,jobset,trainjob,tensorstack,torchrun-controller} reach the state their first line
names, and the commands of the guides to KAI Scheduler and Kubeflow Trainer work line by line."""

import os
import re

from harness import (EXAMPLES, PORT_OF_PYTORCHJOBS, PORT_OF_TRAINJOBS, Muster, apart, check, need_kubectl, needs,
                     python_of_ranks, torch_pythons, wait_for)
from kubeflow import KINDS, create, job

LIMIT_S = 150  # for one folder: the jobs run beside each other
OURS = ("kubeflow.org", "trainer.kubeflow.org", "jobset.x-k8s.io", "batch.tensorstack.dev")


def example(*path):
    return os.path.join(EXAMPLES, *path)


def state(m, kind, name):
    status = (m.get(kind, name) or {}).get("status", {})
    true = [c["type"] for c in status.get("conditions", []) if c["status"] == "True"]
    return true + [status.get("phase")]


def promises(folder):
    """{file: (what it reaches, text)} of the manifests of a folder."""
    found = {}
    for file in sorted(os.listdir(example(folder))):
        text = open(example(folder, file)).read() if file.endswith(".yaml") else ""
        reaches = re.match(r"# Reaches (\w+)", text)
        if reaches:
            found[file] = (reaches.group(1), text)
    return found


def is_job(kind, group=""):
    return group in OURS and not kind.endswith("runtime")


def run_files(folder, chosen, gpus=0):
    """Create the manifests beside each other and wait for what they promise; {name: (kind, file)} of the jobs."""
    python = os.path.dirname(python_of_ranks()) if torch_pythons() else None
    flags = ("--cpus-per-node", "64", "--memory-per-node", "64Gi")
    with Muster(nodes=2, gpus_per_node=gpus, flags=flags, path_first=python) as m:
        m.kubectl("create", "-f", example("kubeflow", "queues.yaml"))  # as seed 002 types it: nothing of it is there before
        jobs = []
        for file, (word, text) in chosen.items():
            if "torch.distributed" in text and not python:
                print(f"not run, no Python here can import torch: {file}")
                continue
            made = m.kubectl("create", "-f", example(folder, file), "-o", "name").stdout.split()
            ours = [name for name in made if is_job(*name.split("/")[0].split(".", 1))]
            check(ours, f"{file} made no job: {made}")
            jobs += [(name, word, file) for name in ours]
        for name, word, file in jobs:
            wait_for(lambda: word in state(m, *name.split("/")), f"{file}: {name} to reach {word}", LIMIT_S)
        yield m


def run_folder(folder, least, only=None, gpus=0):
    chosen = {file: what for file, what in promises(folder).items() if not only or only(file, what[1])}
    check(len(chosen) >= least, f"too few examples: {sorted(chosen)}")
    return run_files(folder, chosen, gpus)


def is_real(_, text):
    """Ranks of it are PyTorch's: several at a time are enough for a small machine."""
    return "torch.distributed" in text


def is_light(file, text):
    return not is_real(file, text)


def test_jobsets():
    for _ in run_folder("jobset", 12):
        pass


@apart(PORT_OF_TRAINJOBS)
def test_trainjobs():
    for m in run_folder("trainjob", 14, gpus=4):
        pod = [p["metadata"]["name"] for p in m.get("pods") if p["metadata"]["name"].startswith("torchtune-node-")][0]
        logs = m.said(pod).split("\n")
        check(logs[0] == "tune run --rdzv_endpoint=torchtune-node-0-0.torchtune:29500 full_finetune_distributed --config "
              "llama3_2/1B_full.yaml output_dir=/workspace/output tokenizer.path=/workspace/model/tokenizer.model epochs=1 "
              "batch_size=4" and logs[1:3] == ["hf://example/alpaca/data", "hf://example/llama"], str(logs))
        group = [g for g in m.get("podgroups") if "-elastic-" in g["metadata"]["name"]][0]
        least = [s["minMember"] for s in group["spec"]["subGroups"] if "minMember" in s]
        check(least == [2], f"the gang of an elastic job: {group['spec']}")


@apart(PORT_OF_TRAINJOBS)
def test_pytorchtrainingjobs():
    for m in run_folder("tensorstack", 8, gpus=4):
        message = m.get("pytorchtrainingjob", "other-device")["status"]["conditions"]
        check("2 nodes too small" in str(message), f"why it waits: {message}")


@apart(PORT_OF_PYTORCHJOBS)
@needs("logs of pods that are gone")
def test_pytorchjobs_that_train():
    for m in run_folder("kubeflow", 6, is_real, gpus=4):
        logs = m.said("pytorch-sendrecv-master-0")
        check("the token came back as 4" in logs, logs)
        logs = m.said("pytorch-deepspeed-demo-worker-0")
        check("rank 1 of 2 took 3 steps" in logs, logs)
        check("loss" in m.said("pytorch-mnist-gloo-worker-0"), "no training")
        # Whichever of its pods failed first: the other one goes while it runs.
        logs = m.kubectl("logs", "-l", "training.kubeflow.org/job-name=pytorch-mnist-mpi").stdout
        check("no MPI" in logs, f"why it failed: {logs}")


def test_jobs_of_kubeflow():
    for m in run_folder("kubeflow", 20, is_light, gpus=8):
        logs = m.said("mpi-hello-launcher")
        said = sorted(line for line in logs.splitlines() if not line.startswith("["))  # mpirun warns of itself in brackets
        check(said == ["mpi-hello-worker-0", "mpi-hello-worker-1"], f"ranks ran on {logs}")
        logs = m.said("mpi-elastic-launcher")
        check(sorted(logs.splitlines()) == [f"rank of mpi-elastic-worker-{i} with 1 slot" for i in range(2)], logs)
        logs = m.said("xgboost-dist-master-0")
        check(logs.strip() == "ranks 1 2 of xgboost-dist-worker-0,xgboost-dist-worker-1", logs)
        logs = m.said("xgboost-rabit-test-worker-1")
        check(logs.strip() == "rank 2 of 3: sum 3", logs)
        logs = m.said("lightgbm-dist-train-worker-1")
        check("lightgbm-dist-train-worker-1 9991" in logs and "--tree_learner=feature" in logs, logs)
        logs = m.said("jax-dist-spmd-mnist-worker-0")
        check(logs.strip() == f"sum over all processes {sum(range(64))}", logs)
        logs = m.said("dist-mnist-worker-1")
        check("dist-mnist-ps-1.default.svc:2222 parameters" in logs, logs)
        logs = m.said("jaxjob-simple-worker-2")
        check(logs.strip() == "process 2 of 3 at jaxjob-simple-worker-0:6666", logs)
        # One object in both of its versions.
        seen = m.kubectl("get", "mpijobs.v2beta1.kubeflow.org", "mpi-hello", "-o", "jsonpath={.apiVersion}").stdout
        check(seen == "kubeflow.org/v2beta1", seen)


def test_manifests_of_torchrun_controller():
    """Queues and jobs in the words of torchrun-controller; the queue that cannot work is told so and runs nothing."""
    folder = "torchrun-controller"
    with Muster(gpus_per_node=4, path_first=os.path.dirname(python_of_ranks())) as m:
        files = promises(folder)
        check(len(files) == 7, f"examples: {sorted(files)}")
        for file in sorted(files, key=lambda name: "job" in name):
            m.kubectl("create", "-f", example(folder, file))
        bad = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": "bad-job"},
               "spec": {"queue": "invalid", "numNodes": 1, "command": "true"}}
        create(m, bad)
        for file, (word, text) in files.items():
            kind, name = re.search(r"kind: (\w+)\nmetadata:\n  name: ([\w-]+)", text).groups()
            wait_for(lambda: word in state(m, kind.lower(), name), f"{file}: {name} to reach {word}", LIMIT_S)
        invalid = [c for c in m.get("torchrunqueue", "invalid")["status"]["conditions"] if c["type"] == "Valid"][0]
        check(invalid["status"] == "False" and 'must be "trainer"' in invalid["message"], str(invalid))
        check(not m.get("pod", "bad-job-worker-0") and "trainer" in m.get("torchrunjob", "bad-job")["status"]["message"],
              "a job of a queue that cannot work was started, or does not say why not")
        check(m.get("configmap", "podspec-queue-settings") and m.get("configmap", "shared-settings"), "objects of the queue")
        queue = m.get("queue", "head-queue")["spec"]
        check(queue["parentQueue"] == "default" and queue["resources"]["gpu"]["quota"] == 4, str(queue))


@apart(PORT_OF_TRAINJOBS)
@needs("the pods that stand for other operators on one machine")
def test_the_guide_to_kubeflow_with_kai_line_by_line():
    need_kubectl(23)
    with Muster(nodes=4, gpus_per_node=1) as m:
        m.kubectl("get", "crd", "pytorchjobs.kubeflow.org")
        m.kubectl("get", "pods", "-n", "kubeflow")
        m.kubectl("wait", "--for=condition=ready", "pod", "-l", "control-plane=kubeflow-training-operator", "-n", "kubeflow",
                  "--timeout=120s")
        version = wait_for(lambda: m.get("configmap", "kubeflow-trainer-public", ns="kubeflow-system"), "the trainer's version")
        check("kubeflow_trainer_version" in version["data"], version)
        m.kubectl("get", "crd", "trainjobs.trainer.kubeflow.org")
        m.kubectl("get", "crd", "clustertrainingruntimes.trainer.kubeflow.org")
        m.kubectl("wait", "--for=condition=ready", "pod", "-l", "app.kubernetes.io/name=kubeflow-trainer",
                  "-n", "kubeflow-trainer-system", "--timeout=120s")
        m.kubectl("wait", "--for=condition=ready", "pod", "--all", "-n", "kai-scheduler", "--timeout=120s")
        check(not m.get("podgroups", ns="kai-scheduler"), "a pod that stands for this program was grouped")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-simple.yaml"))
        m.kubectl("wait", "trainjob/pytorch-simple", "--for=condition=Complete", "--timeout=120s", limit=150)

        m.apply("""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: prod-queue}
spec: {parentQueue: default-parent-queue,
  resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
""")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-kai-runtime.yaml"))
        m.kubectl("apply", "-f", example("trainjob", "pytorch-kai-job.yaml"))
        m.kubectl("wait", "trainjob/pytorch-kai-job", "--for=jsonpath={.status.phase}=Running", "--timeout=120s", limit=150)
        pods = [p for p in m.get("pods") if p["metadata"]["name"].startswith("pytorch-kai-job-")]
        check(len(pods) == 4, f"{len(pods)} pods")
        groups = {p["metadata"]["annotations"]["pod-group-name"] for p in pods}
        group = m.get("podgroup", groups.pop())["spec"]
        least = [s["minMember"] for s in group["subGroups"] if "minMember" in s]
        check(not groups and group["queue"] == "prod-queue" and least == [4], str(group))
        check(len({p["spec"]["nodeName"] for p in pods}) == 4, "one GPU each")
        m.kubectl("delete", "trainjob", "pytorch-kai-job", "--wait=false")


TENSORBOARD = {"apiVersion": "tensorstack.dev/v1beta1", "kind": "TensorBoard", "metadata": {"name": "board"},
               "spec": {"logDir": {"pvc": [{"name": "logs"}]}}}
BATCH = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": {"template": {"spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}}}
QUEUE = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "dev"},
         "spec": {"nodeResources": {"gpus": 1, "cpus": 1, "memory": "1Gi"}}}
TORCHRUN = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": "run"},
            "spec": {"queue": "dev", "command": "true", "numNodes": 1}}


def one_of_each():
    """{controller: (resource, name, object)}: something small for every controller of a kind."""
    found = {kind.lower(): (KINDS[kind][0], f"{kind.lower()}-x", job(kind, f"{kind.lower()}-x")) for kind in KINDS}
    for name, resource, body in (("tensorboard", "tensorboard", TENSORBOARD), ("job", "job", BATCH),
                                 ("torchrunqueue", "torchrunqueue", QUEUE), ("torchrunjob", "torchrunjob", TORCHRUN)):
        found[name] = (resource, body["metadata"]["name"], body)
    for name, file in (("trainjob", "trainjob/pytorch-simple.yaml"), ("jobset", "jobset/parallel-jobs.yaml"),
                       ("pytorchtrainingjob", "tensorstack/ddp.yaml")):
        found[name] = (name, os.path.basename(file)[:-5], file)
    return found


def left_off(names):
    """With these controllers off, nothing happens to their kinds and everything to the others."""
    with Muster(flags=("--controllers=" + ",".join("-" + name for name in names),)) as m:
        things = one_of_each()
        for resource, name, body in things.values():
            if isinstance(body, str):
                m.kubectl("create", "-f", example(*body.split("/")))
            else:
                create(m, body)
        for controller, (resource, name, _) in things.items():
            if controller not in names:
                wait_for(lambda: (m.get(resource, name) or {}).get("status"), f"{resource} {name} to be looked at")
        for controller in names:
            if controller == "job" and not m.runs_batch_jobs:
                continue
            resource, name, _ = things[controller]
            seen = (m.get(resource, name) or {}).get("status")
            check(not seen, f"{controller} is off, and {name} has the status {seen}")


def test_every_controller_can_be_left_off():
    names = sorted(one_of_each())
    left_off(names[::2])
    left_off(names[1::2])


@needs("the pods that stand for other operators on one machine")
def test_a_controller_that_is_off_has_no_pod():
    with Muster(flags=("--controllers=-trainjob",)) as m:
        wait_for(lambda: m.get("pod", "training-operator", ns="kubeflow"), "the other pods")
        check(m.get("pod", "kubeflow-trainer-controller-manager", ns="kubeflow-trainer-system") is None, "it is off")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-simple.yaml"))
        wait_for(lambda: m.get("pod", "jobset-controller-manager", ns="kubeflow-trainer-system"), "the pods to be made")
        check(not (m.get("trainjob", "pytorch-simple") or {}).get("status"), "a controller that is off did something")


@needs("the pods that stand for other operators on one machine")
def test_a_pod_that_stands_for_a_controller_comes_back():
    with Muster() as m:
        before = wait_for(lambda: m.get("pod", "training-operator", ns="kubeflow"), "the pod")["metadata"]["uid"]
        m.kubectl("delete", "pod", "training-operator", "-n", "kubeflow", "--timeout=30s")
        wait_for(lambda: (m.get("pod", "training-operator", ns="kubeflow") or {"metadata": {"uid": before}})
                 ["metadata"]["uid"] != before, "it to come back")
