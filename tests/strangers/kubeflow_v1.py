"""Kubeflow's SDK v1 as its users write it; run by kubeflow_sdk.py with a Python that has it, KUBECONFIG set."""

import os
import sys
import time

from kubeflow_steps import Steps, expect

from kubeflow.training import (KubeflowOrgV1PyTorchJob, KubeflowOrgV1PyTorchJobSpec, KubeflowOrgV1ReplicaSpec,
                               KubeflowOrgV1RunPolicy, TrainingClient)
from kubernetes import client

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


def failing_job():
    """As an object: from a function a job restarts for as long as it fails."""
    container = client.V1Container(name="pytorch", image="x", command=["sh", "-c", "echo this is the failure; exit 7"])
    replica = KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="Never", template=client.V1PodTemplateSpec(
        spec=client.V1PodSpec(containers=[container])))
    return KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1", kind="PyTorchJob", metadata=client.V1ObjectMeta(name="bad"),
        spec=KubeflowOrgV1PyTorchJobSpec(run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
                                         pytorch_replica_specs={"Master": replica, "Worker": replica}))


def main():
    step = Steps()
    sdk = TrainingClient(config_file=os.environ["KUBECONFIG"], namespace="default", job_kind="PyTorchJob")
    wait = {"wait_timeout": int(120 * PATIENCE), "polling_interval": 1}
    step("a job is made of a function",
         lambda: sdk.create_job(name="good", train_func=train, num_workers=2, num_procs_per_worker=1, base_image="x"))
    step("it runs", lambda: sdk.wait_for_job_conditions("good", expected_conditions={"Running"}, **wait))
    step("it succeeds", lambda: sdk.wait_for_job_conditions("good", **wait))
    step("its conditions", lambda: expect(sdk.is_job_succeeded("good") and not sdk.is_job_failed("good"),
                                          str(sdk.get_job_conditions("good"))))

    def logs():
        found, _ = sdk.get_job_logs("good", is_master=False)
        expect(len(found) == 2 and all(" of 2: sum 2" in text for text in found.values()), str(found)[-800:])
    step("the logs of every node", logs)
    step("its pods", lambda: expect(len(sdk.get_job_pod_names("good")) == 2, str(sdk.get_job_pod_names("good"))))
    step("its events are there", lambda: expect(sdk.get_job_logs("good", verbose=True)[1], "it has none"))
    step("it is deleted", lambda: sdk.delete_job("good"))
    step("it is not listed any more", lambda: gone(sdk, "good"))

    step("a job that fails is made", lambda: sdk.create_job(job=failing_job()))
    step("it is seen to fail", lambda: sdk.wait_for_job_conditions("bad", expected_conditions={"Failed"}, **wait))

    def said():
        found, _ = sdk.get_job_logs("bad", is_master=False)
        expect(any("this is the failure" in text for text in found.values()), str(found)[-800:])
    step("its logs say why", said)
    step("it has failed", lambda: expect(sdk.is_job_failed("bad"), str(sdk.get_job_conditions("bad"))))
    step("a job that failed is deleted", lambda: sdk.delete_job("bad"))
    return step.bad


def gone(sdk, job):
    deadline = time.monotonic() + 60 * PATIENCE
    while any(j.metadata.name == job for j in sdk.list_jobs()):
        expect(time.monotonic() < deadline, "it still is")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
