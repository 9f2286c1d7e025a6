"""The kubectls to test with: the one on PATH, those named in MUSTER_TEST_KUBECTLS (paths separated by ":"),
and Debian's old one (1.20), unpacked from its package into the build folder where apt-get can fetch it."""

import fcntl
import glob
import json
import os
import shutil
import subprocess
import tempfile

from harness import BUILD


def version(path):
    done = subprocess.run([path, "version", "--client", "-o", "json"], text=True, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return None
    info = json.loads(done.stdout)["clientVersion"]
    return int(info["major"]), int(info["minor"].rstrip("+"))


def debian_package():
    """The kubectl of the package kubernetes-client, without installing it; None when that fails."""
    folder = os.path.join(BUILD, "kubectl-debian")
    path = os.path.join(folder, "usr", "bin", "kubectl")
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    # Tests run side by side: one of them unpacks, into a folder that appears whole.
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path
        with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
            try:
                subprocess.run(["apt-get", "download", "kubernetes-client"], cwd=temporary, timeout=120,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                return None
            unpacked = os.path.join(temporary, "unpacked")
            for package in glob.glob(os.path.join(temporary, "kubernetes-client_*.deb")):
                subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
            if os.path.exists(os.path.join(unpacked, "usr", "bin", "kubectl")):
                shutil.rmtree(folder, ignore_errors=True)
                os.rename(unpacked, folder)
    return path if os.path.exists(path) else None


def kubectls():
    """(version, path) of every kubectl there is, each version once, oldest first."""
    found = {}
    paths = [shutil.which("kubectl")] + os.environ.get("MUSTER_TEST_KUBECTLS", "").split(":")
    for path in paths:
        if path and os.path.exists(path):
            found.setdefault(version(path), path)
    if not any(v and v < (1, 25) for v in found):
        path = debian_package()
        if path:
            found.setdefault(version(path), path)
    return sorted((v, p) for v, p in found.items() if v)
