"""A real node: kubelet, containerd and kube-proxy in namespaces of their own, Muster in pods there."""

import os
import subprocess
import sys

from harness import PATIENCE, Failure, Skip

HERE = os.path.dirname(os.path.abspath(__file__))


def test_installed_by_helm_it_trains_with_real_torchrun_and_shares_a_gpu():
    done = subprocess.run([sys.executable, os.path.join(HERE, "real_node.py")], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=900 * PATIENCE)
    if done.returncode == 3:
        raise Skip(done.stdout.strip().split("skipped: ")[-1])
    if done.returncode != 0:
        raise Failure(f"real_node.py: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}")
