"""The kubectls to test with: the one on PATH, those named in MUSTER_TEST_KUBECTLS (paths separated by ":"),
and Debian's old one (1.20), unpacked from its package into the build folder where apt-get can fetch it."""

import glob
import json
import os
import shutil
import subprocess

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
    if os.path.exists(path):
        return path
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    os.makedirs(folder, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "kubernetes-client"], cwd=folder, timeout=120,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    for package in glob.glob(os.path.join(folder, "kubernetes-client_*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
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
