"""Every manifest under examples/torchrun runs and does what its first line says."""

import os

from harness import EXAMPLES, Muster, Skip, check, torch_pythons, wait_for

FOLDER = os.path.join(EXAMPLES, "torchrun")
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
FINAL = ("Succeeded", "Failed", "TimedOut")


def run_example(m, name, jobs, limit=240):
    m.kubectl("apply", "-f", os.path.join(FOLDER, name + ".yaml"))
    for job in jobs:
        wait_for(lambda: m.phase(job) in FINAL, f"{job} to end", limit)
        status = m.get("torchrunjob", job)["status"]
        check(status["phase"] == "Succeeded", f"{job}: {status['phase']}: {status['message']}")


def logs(m, job, pods):
    return "".join(m.said(f"{job}-worker-{i}") for i in range(pods))


def ranks(text, world):
    for rank in range(world):
        check(f"rank {rank} of {world} sees {world}" in text, f"rank {rank} of {world} is missing:\n{text}")


def torch_or_skip():
    if not torch_pythons():
        raise Skip("no Python here can import torch")


def test_single_node():
    torch_or_skip()
    with Muster(nodes=1, gpus_per_node=8, flags=NODES, pytorch="ranks") as m:
        run_example(m, "single-node", ["single-node"])
        ranks(logs(m, "single-node", 1), 2)


def test_multi_node():
    torch_or_skip()
    with Muster(nodes=2, gpus_per_node=8, flags=NODES, pytorch="ranks") as m:
        run_example(m, "multi-node", ["multi-node"])
        ranks(logs(m, "multi-node", 2), 4)
        check(m.get("torchrunjob", "multi-node")["status"]["distribution"] == "2x2", "not two pods of two")


def test_uneven():
    torch_or_skip()
    with Muster(nodes=3, gpus_per_node=2, flags=NODES, pytorch="ranks") as m:
        run_example(m, "uneven", ["uneven"])
        check(m.get("torchrunjob", "uneven")["status"]["distribution"] == "2x2+1", "not 2, 2 and 1")
        ranks(logs(m, "uneven", 3), 5)


def test_elastic():
    torch_or_skip()
    with Muster(nodes=2, gpus_per_node=2, flags=NODES, pytorch=True) as m:
        run_example(m, "elastic", ["elastic"])
        check(m.get("torchrunjob", "elastic")["status"]["generation"] == 0, "it was started anew")


def test_cpu_only():
    torch_or_skip()
    with Muster(nodes=2, gpus_per_node=0, flags=NODES, pytorch="ranks") as m:
        run_example(m, "cpu-only", ["cpu-only"])
        ranks(logs(m, "cpu-only", 2), 4)


def test_queues_overrides_and_checkpoints():
    torch_or_skip()
    with Muster(nodes=1, gpus_per_node=8, flags=NODES, pytorch="ranks") as m:
        run_example(m, "several-queues", ["vision-job", "language-job"])
        check(m.get("queue", "vision")["spec"]["parentQueue"] == "teams", "vision is not below teams")
        run_example(m, "priority-override", ["urgent"])
        check("hello from rank 0 in /tmp" in logs(m, "urgent", 1), logs(m, "urgent", 1))
        check(m.get("pod", "urgent-worker-0")["spec"]["priorityClassName"] == "build-preemptible", "priority")
        run_example(m, "checkpoints", ["checkpoints"])
        check("resumed at 100" in logs(m, "checkpoints", 1), logs(m, "checkpoints", 1))
        status = m.get("torchrunjob", "checkpoints")["status"]
        check((status["restarts"], status["generation"]) == (1, 1), f"restarts and generation: {status}")
        m.kubectl("delete", "torchrunjob", "checkpoints")
        wait_for(lambda: not m.get("pod", "checkpoints-worker-0"), "the job's pod to go")
        check(m.get("pvc", "with-checkpoints-checkpoints"), "the checkpoints went with the job")
