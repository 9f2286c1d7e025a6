"""Other people's own definitions of the kinds that the guides use, as installations bring them: those of Kubeflow's training
operator, of Trainer, of JobSet and of KAI Scheduler from their Go modules, by version. KAI_CRDS names a folder with those of
another KAI Scheduler, of which the module proxy has few.

    theirs, missing = crds.folders()     # folders with CRDs in them, and in words what could not be had
    crds.install(m, theirs)              # as `kubectl apply -k` of the other project does
"""

import glob
import json
import os
import shutil
import subprocess

from harness import wait_for

MODULES = (
    ("github.com/kubeflow/training-operator", "v1.8.1", "manifests/base/crds"),
    ("github.com/kubeflow/trainer/v2", "v2.3.0", "manifests/base/crds"),
    ("sigs.k8s.io/jobset", "v0.12.0", "config/components/crd/bases"),
    ("github.com/NVIDIA/KAI-scheduler", "v0.12.0", "deployments/kai-scheduler/crds"),
)
DOWNLOAD_S = 300


def module(path, version, folder):
    """Where that folder of a module is; nothing when the module cannot be had."""
    go = shutil.which("go", path=os.environ["PATH"] + ":/usr/local/go/bin")
    if not go:
        return None
    try:
        done = subprocess.run([go, "mod", "download", "-json", f"{path}@{version}"], cwd="/", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=DOWNLOAD_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.path.join(json.loads(done.stdout)["Dir"], folder)


def folders():
    """([folder], [what could not be had])"""
    found, missing = [], []
    for path, version, folder in MODULES:
        where = module(path, version, folder)
        found += [where] if where else []
        missing += [] if where else [f"{path} {version}"]
    kai = os.environ.get("KAI_CRDS")
    return found + ([os.path.abspath(kai)] if kai else []), missing


def files(folder):
    return [path for path in sorted(glob.glob(os.path.join(folder, "*.yaml"))) if "kustom" not in os.path.basename(path)]


def install(m, found):
    """Their definitions in place of ours; of kinds that we do not have, beside them."""
    for folder in found:
        for path in files(folder):
            m.kubectl("apply", "--server-side", "--force-conflicts", "-f", path)
    established(m)


def established(m):
    def all_are():
        return all(any(c["type"] == "Established" and c["status"] == "True" for c in crd["status"].get("conditions", []))
                   for crd in m.get("crds"))
    wait_for(all_are, "every CRD to be established", 30)
