"""A real node: kubelet and containerd in namespaces of their own, a TorchrunJob trained by real torchrun."""

import os
import subprocess
import sys

from harness import PATIENCE, Failure, Skip

HERE = os.path.dirname(os.path.abspath(__file__))


def test_two_pods_train_with_real_torchrun_and_take_new_code():
    done = subprocess.run([sys.executable, os.path.join(HERE, "real_node.py")], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=900 * PATIENCE)
    if done.returncode == 3:
        raise Skip(done.stdout.strip().split("skipped: ")[-1])
    if done.returncode != 0:
        raise Failure(f"real_node.py: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}")
