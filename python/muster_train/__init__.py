"""Muster runs distributed PyTorch training. This package brings its programs, `muster` and `kubectl-torchrun`, and starts them.

    import muster_train
    status = muster_train.run("train.py", "--lr", "0.1", gpus=2)
"""

import os
import subprocess
import sys

__all__ = ["program", "run", "submit"]


def program(name="muster"):
    """The path of one of the programs that came with this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"{path} is not a program of this package")
    return path


def _flags(options):
    """gpus=2, gpu_type="x", detach=True, env=["A=1", "B"] as flags."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is not None:
                words.append(f"{flag}={str(item).lower() if isinstance(item, bool) else item}")
    return words


def run(script, *args, **options):
    """`muster run` with its flags as options. Returns the exit status of the training."""
    return subprocess.call([program(), "run", *_flags(options), str(script), *map(str, args)])


def submit(command, **options):
    """`muster submit` with its flags as options: a command for the shell. Returns the exit status of the training."""
    return subprocess.call([program(), "submit", *_flags(options), "--", str(command)])


def _muster():
    os.execv(program("muster"), ["muster", *sys.argv[1:]])


def _kubectl_torchrun():
    os.execv(program("kubectl-torchrun"), ["kubectl-torchrun", *sys.argv[1:]])
