"""Queues, priorities and shared GPUs as a person with kubectl sees them, from the manifests in examples/scheduling."""

import json
import os

from harness import EXAMPLES, Muster, check, wait_for


def example(name):
    return os.path.join(EXAMPLES, "scheduling", name)


def create(m, name, **replace):
    with open(example(name)) as f:
        text = f.read()
    for old, new in replace.items():
        text = text.replace(old.replace("__", "/").replace("_", "-"), new)
    m.new(text)


def running(m, name):
    pod = m.get("pod", name)
    return pod and pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def status_column(m, selector):
    """NAME -> STATUS as `kubectl get pods -l SELECTOR` prints it."""
    out = m.kubectl("get", "pods", "-l", selector, "--no-headers").stdout
    return {line.split()[0]: line.split()[2] for line in out.splitlines()}


def test_default_queues_exist_and_applying_them_changes_nothing():
    with Muster(gpus_per_node=1) as m:
        for name in ("default-parent-queue", "default-queue"):
            wait_for(lambda: m.get("queue", name), f"queue {name}")
        before = m.get("queue", "default-queue")["spec"]
        m.kubectl("apply", "-f", example("queues.yaml"))
        check(m.get("queue", "default-queue")["spec"] == before, "applying the default queues changed one")
        check("default-queue" in m.kubectl("get", "queues").stdout, "kubectl get queues does not show it")
        for name in ("train", "build-preemptible", "build", "inference"):
            check(m.get("priorityclass", name), f"priority class {name} is missing")


def test_plain_pods_run_from_the_default_queue():
    with Muster(gpus_per_node=1) as m:
        for name in ("cpu-only-pod", "gpu-pod"):
            m.kubectl("create", "-f", example(name + ".yaml"))
            wait_for(lambda: running(m, name), f"{name} to run")
        groups = [g["metadata"]["name"] for g in m.get("podgroups")]
        check(any(g.startswith("pg-gpu-pod") for g in groups), f"no pod group for gpu-pod: {groups}")
        m.new(open(example("gpu-pod.yaml")).read().replace("gpu-pod", "second"))

        def reason():
            conditions = m.get("pod", "second")["status"].get("conditions", [])
            return [c["message"] for c in conditions
                    if c["type"] == "PodScheduled" and c["status"] == "False" and "GPU" in c.get("message", "")]
        wait_for(reason, "the pod that does not fit to say that GPUs are missing")


def walkthrough(label):
    with Muster(gpus_per_node=2) as m:
        m.kubectl("apply", "-f", example("limited-queue.yaml"))
        replace = {"kai.scheduler__queue": label}
        create(m, "train-priority-pod.yaml", **replace)
        wait_for(lambda: running(m, "train-pod"), "train-pod to run")
        create(m, "build-priority-pod.yaml", **replace)
        # train-pod's sleep as PID 1 ignores SIGTERM, so it stays Terminating for its grace period; the
        # build pod need not wait for it: a terminating pod does not count against the queue's limit, and
        # the node has another GPU.
        seen = wait_for(lambda: (lambda s: s.get("build-pod") == "Running" and s)(status_column(m, label + "=test")),
                        "build-pod to run")
        check(seen.get("train-pod") == "Terminating", f"train-pod is {seen.get('train-pod')}")


def test_build_pod_preempts_train_pod_in_a_limited_queue():
    walkthrough("kai.scheduler/queue")


def test_the_old_queue_label_works_as_well():
    walkthrough("runai/queue")


def test_two_halves_share_one_gpu_and_allocatable_stays_whole():
    with Muster(gpus_per_node=2) as m:
        m.kubectl("create", "-f", example("gpu-sharing.yaml"))
        create(m, "gpu-sharing.yaml", gpu_sharing="gpu-sharing-2")
        for name in ("gpu-sharing", "gpu-sharing-2"):
            wait_for(lambda: running(m, name), f"{name} to run")
        devices = [m.kubectl("exec", name, "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").stdout.strip()
                   for name in ("gpu-sharing", "gpu-sharing-2")]
        check(devices[0] and devices[0] == devices[1], f"the halves are on different devices: {devices}")
        nodes = json.loads(m.kubectl("get", "nodes", "-o", "json").stdout)["items"]
        check(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "2", "a share changed what the node offers")
        # One whole GPU is left, and only one.
        m.kubectl("create", "-f", example("gpu-pod.yaml"))
        wait_for(lambda: running(m, "gpu-pod"), "gpu-pod to run on the other GPU")


def test_a_share_reaches_the_container_it_names():
    with Muster(gpus_per_node=1) as m:
        m.kubectl("create", "-f", example("gpu-sharing-non-default-container.yaml"))
        name = "gpu-sharing-other-container"
        wait_for(lambda: running(m, name), f"{name} to run")
        def devices(container):
            return m.kubectl("exec", name, "-c", container, "--", "sh", "-c",
                             "echo ${NVIDIA_VISIBLE_DEVICES-none}").stdout.strip()
        check(devices("gpu-workload") not in ("", "none", "void"), "the named container has no device")
        check(devices("sidecar") in ("", "none", "void"), "another container sees the device")


def test_batch_job_pods_are_scheduled_one_by_one():
    with Muster(gpus_per_node=1) as m:
        m.kubectl("create", "-f", example("batch-job.yaml"))
        wait_for(lambda: m.get("job", "batch-job")["status"].get("succeeded") == 2,
                 "both pods to have had their turn on the one GPU", 60)
