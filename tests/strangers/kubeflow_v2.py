"""Kubeflow's SDK v2 as its users write it; run by kubeflow_sdk.py with a Python that has it, KUBECONFIG set."""

import os
import sys
import time

from kubeflow_steps import Steps, expect

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient

PATIENCE = float(sys.argv[1])


def train():
    import time

    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {int(value.item())}", flush=True)
    time.sleep(5)  # long enough to be seen running
    dist.destroy_process_group()


def fail():
    import os
    print(f"rank {os.environ['RANK']} is about to fail", flush=True)
    raise ValueError("this is the failure")


def main():
    step = Steps()
    client = TrainerClient(KubernetesBackendConfig(config_file=os.environ["KUBECONFIG"], namespace="default"))
    runtime = step("the runtime is there", lambda: client.get_runtime("torch-distributed"))
    step("runtimes are listed", lambda: expect("torch-distributed" in [r.name for r in client.list_runtimes()], "it is not"))
    job = step("a job is made of a function",
               lambda: client.train(runtime=runtime, trainer=CustomTrainer(func=train, num_nodes=2)))
    wait = {"timeout": int(120 * PATIENCE), "polling_interval": 1}
    step("it runs", lambda: client.wait_for_job_status(job, status={"Running"}, **wait))
    step("it is complete", lambda: client.wait_for_job_status(job, **wait))
    for node in (0, 1):
        def logs():
            text = "\n".join(client.get_job_logs(job, step=f"node-{node}"))
            expect(" of 2: sum 2" in text, f"the log of node {node}: {text[-500:]}")
        step(f"the log of node {node}", logs)
    step("its nodes are listed", lambda: expect({s.name for s in client.get_job(job).steps} >= {"node-0", "node-1"},
                                                str(client.get_job(job).steps)))
    step("it has events", lambda: expect(client.get_job_events(job), "it has none"))
    step("it is deleted", lambda: client.delete_job(job))
    step("it is not listed any more", lambda: gone(client, job))

    bad = step("a job that fails is made", lambda: client.train(runtime=runtime, trainer=CustomTrainer(func=fail, num_nodes=2)))
    step("it is seen to fail", lambda: client.wait_for_job_status(bad, status={"Failed"}, **wait))

    def said():
        text = "\n".join("\n".join(client.get_job_logs(bad, step=f"node-{n}")) for n in (0, 1))
        expect("this is the failure" in text, f"the logs: {text[-500:]}")
    step("its logs say why", said)
    step("a failure has events", lambda: expect(client.get_job_events(bad), "it has none"))
    step("a job that failed is deleted", lambda: client.delete_job(bad))
    return step.bad


def gone(client, job):
    deadline = time.monotonic() + 60 * PATIENCE
    while any(j.name == job for j in client.list_jobs()):
        expect(time.monotonic() < deadline, "it still is")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
