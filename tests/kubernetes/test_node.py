"""A real node: kubelet, containerd and kube-proxy in namespaces of their own, Muster in pods there."""

import os
import subprocess
import sys

from harness import PATIENCE, Failure, Skip

HERE = os.path.dirname(os.path.abspath(__file__))


def play(*steps):
    done = subprocess.run([sys.executable, os.path.join(HERE, "real_node.py"), *steps], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=900 * PATIENCE)
    if done.returncode == 3:
        raise Skip(done.stdout.strip().split("skipped: ")[-1])
    if done.returncode != 0:
        raise Failure(f"real_node.py: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}")


def test_a_job_whose_workspace_waits_for_its_first_consumer_trains_on_a_real_kubelet():
    play("train")


def test_installed_by_helm_it_shares_a_gpu_and_is_upgraded_and_removed_beside_running_pods():
    play("share", "upgrade")
