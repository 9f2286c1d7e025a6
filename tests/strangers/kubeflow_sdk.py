#!/usr/bin/env python3
"""kubeflow_sdk.py [v1|v2]...: Kubeflow's own Python SDKs against `muster up`, with every PyTorch on this machine: a job from a
function, Running and Succeeded, the logs of every node, events, a failure, delete. v2 is `pip install kubeflow` (TrainJobs,
kubeflow_v2.py), v1 `pip install kubeflow-training` (PyTorchJobs, kubeflow_v1.py); each is installed once into
muster/kubeflow-VERSION in $XDG_CACHE_HOME or ~/.cache, or $MUSTER_KUBEFLOW_V1 and $MUSTER_KUBEFLOW_V2 name a Python that has
it. What cannot be had is skipped. Ends with `N passed, N failed, N skipped`."""

import os
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from harness import PATIENCE, Muster, Skip, torch_pythons  # noqa: E402

PACKAGES = {"v1": ("kubeflow-training", "kubeflow.training"), "v2": ("kubeflow", "kubeflow.trainer")}
PIP_LIMIT_S = 600
LIMIT_S = 300  # for one SDK with one PyTorch


def can_import(python, module):
    return subprocess.run([python, "-c", f"import {module}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=120 * PATIENCE).returncode == 0


def sdk_python(version):
    """A Python that has the SDK; Skip, with what pip said, where there is none."""
    package, module = PACKAGES[version]
    named = os.environ.get(f"MUSTER_KUBEFLOW_{version.upper()}")
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster", f"kubeflow-{version}")
    python = named or os.path.join(folder, "bin", "python3")
    if os.access(python, os.X_OK) and can_import(python, module):
        return python
    if named:
        raise Skip(f"{named} cannot import {module}")
    try:
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", package]
        done = subprocess.run(install, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PIP_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as e:
        raise Skip(f"{package} could not be installed: {e}")
    if done.returncode or not can_import(python, module):
        raise Skip(f"pip could not install {package}: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
    return python


def play(version, torch):
    """One SDK with one PyTorch; [(name, None or what went wrong)]."""
    python = sdk_python(version)
    with Muster(nodes=2, flags=("--cpus-per-node", "16", "--memory-per-node", "64Gi"), path_first=os.path.dirname(torch)) as m:
        done = subprocess.run([python, os.path.join(HERE, f"kubeflow_{version}.py"), str(PATIENCE)], env=m.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S * PATIENCE)
        results = [tuple(line.split(": ", 2)[1:]) for line in done.stdout.splitlines() if line.startswith("result: ")]
        if done.returncode:
            results.append(("the script", "failed"))
        if any(word != "ok" for _, word in results):
            print(done.stdout)
            m.dump()
        return results


def main(wanted):
    passed = failed = skipped = 0
    for version in wanted or sorted(PACKAGES):
        pythons = torch_pythons()
        if not pythons:
            print("skipped: no Python here can import torch")
            skipped += 1
        for torch, torch_version in pythons:
            try:
                for name, word in play(version, torch):
                    print(f"SDK {version}, torch {torch_version}: {name}: {word}", flush=True)
                    passed += word == "ok"
                    failed += word != "ok"
            except Skip as e:
                print(f"skipped: SDK {version}, torch {torch_version}: {e}")
                skipped += 1
            except Exception as e:  # one that breaks is one that failed, and the others go on
                print(f"SDK {version}, torch {torch_version}: FAILED: {e}")
                failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
