#!/usr/bin/env python3
"""package.py: the Debian package of dist/ lives: it installs, its service starts, and it goes, leaving nothing but data.

Everything happens in a scratch root: a layer over this machine's file system in a mount namespace of its own, so dpkg is
the real one, dependencies are checked for real, and what is left behind is what the layer holds. The service is
started as systemd would: ExecStartPre and ExecStart of the unit, with its environment files and state folder. The krew
manifest is installed by its own rules. Ends with `N passed, N failed, N skipped`; exits 77, saying why, where it cannot run.
"""

import glob
import hashlib
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
UNIT = "lib/systemd/system/muster.service"
READY_S = 60
VERSION = re.search(r"version : '([^']+)'", open(os.path.join(ROOT, "meson.build")).read()).group(1)
GLIBC = re.compile(r"(libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl)\.so|ld-linux|linux-vdso")
# What dpkg itself writes, and what every program may.
BOOKKEEPING = re.compile(r"^(var/lib/dpkg|var/log|var/cache|tmp|run|"
                         r"etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|etc/\.pwd)")


def skip(why):
    print(f"package: skipped: {why}")
    sys.exit(77)


def run(argv, check=True, **more):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class Scratch:
    """A layer over / ; inside() runs in it."""
    enter = None  # a command that runs another in what is started there; None: it is entered by chroot

    def __init__(self, folder):
        self.layer = os.path.join(folder, "layer")
        self.root = os.path.join(folder, "root")
        for name in ("layer", "work", "root"):
            os.mkdir(os.path.join(folder, name))
        run(["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir=/,upperdir={self.layer},workdir={folder}/work", self.root])
        for name in ("proc", "sys", "dev"):
            run(["mount", "--rbind", f"/{name}", os.path.join(self.root, name)])
        for name in ("run", "tmp"):
            run(["mount", "-t", "tmpfs", "tmpfs", os.path.join(self.root, name)])

    def argv(self, *argv):
        return [*(self.enter or ["chroot", self.root]), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", *argv]

    def inside(self, *argv, **more):
        return run(self.argv(*argv), **more)

    def path(self, name):
        return os.path.join(self.root, name)

    def changed(self):
        """Files and links of the layer; a deleted file is not one."""
        for folder, _, names in os.walk(self.layer):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.islink(path) or os.path.isfile(path):
                    yield os.path.relpath(path, self.layer)


class Unit:
    """As much of systemd as the unit uses."""

    def __init__(self, text):
        self.settings = re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)

    def all(self, key):
        return [value for name, value in self.settings if name == key]

    def environment(self, scratch):
        env = dict(text.split("=", 1) for text in self.all("Environment"))
        for file in self.all("EnvironmentFile"):
            path = scratch.path(file.lstrip("-/"))
            if os.path.exists(path):
                env.update(re.findall(r"^(\w+)=(.*)$", open(path).read(), re.MULTILINE))
        return [f"{k}={v}" for k, v in env.items()]

    def start(self, scratch, log):
        for key, parent in (("StateDirectory", "var/lib"), ("RuntimeDirectory", "run")):
            for name in self.all(key):
                os.makedirs(scratch.path(os.path.join(parent, name)), exist_ok=True)
        for command in self.all("ExecStartPre"):
            scratch.inside(*shlex.split(command))
        walls = ",".join(f"-{word[4:].lower()}" for word in self.all("CapabilityBoundingSet")[0].lstrip("~").split())
        return subprocess.Popen(scratch.argv(*self.environment(scratch), "setpriv", "--bounding-set", walls,
                                             *shlex.split(self.all("ExecStart")[0])),
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=self.limit)

    def limit(self):
        """What it may have, and less where root of a container may not set it."""
        files = int(self.all("LimitNOFILE")[0])
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write(self.all("OOMScoreAdjust")[0])
        except (OSError, ValueError):
            pass


def wait_ready(process, scratch, kubeconfig):
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"muster ended with {process.returncode}"
        if os.path.exists(kubeconfig):
            done = subprocess.run(["kubectl", "--kubeconfig", kubeconfig, "get", "nodes", "-o", "name"], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if done.returncode == 0 and done.stdout.startswith("node/"):
                return
        time.sleep(0.1)
    raise AssertionError(f"no node within {READY_S} s")


POD = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "who"}, "spec": {"restartPolicy": "Never",
"containers": [{"name": "c", "image": "any", "command": ["id", "-un"]}]}}"""


def service_lives(scratch):
    """Start, run a pod as the unit's user, stop; the pods' folder stays."""
    with open(scratch.path("etc/default/muster"), "a") as f:
        f.write("MUSTER_LISTEN=127.0.0.1:0\n")  # as an admin would: this machine may have another muster
    kubeconfig = scratch.path("var/lib/muster/kubeconfig")
    unit = Unit(open(scratch.path(UNIT)).read())
    with tempfile.TemporaryFile("w+") as log:
        process = unit.start(scratch, log)
        try:
            wait_ready(process, scratch, kubeconfig)
            kubectl = ["kubectl", "--kubeconfig", kubeconfig]
            run(kubectl + ["create", "-f", "-"], input=POD)
            deadline = time.monotonic() + READY_S
            phase = ""
            while phase not in ("Succeeded", "Failed") and time.monotonic() < deadline:
                phase = run(kubectl + ["get", "pod", "who", "-o", "jsonpath={.status.phase}"])
                time.sleep(0.1)
            said = run(kubectl + ["logs", "who"]).strip()
            assert said == "muster", f"a pod of the service runs as {said!r} ({phase}), not as muster"
        except AssertionError:
            log.seek(0)
            print(log.read()[-3000:])
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
    assert process.returncode == 0, f"SIGTERM ended muster with {process.returncode}"


def check_package(scratch, deb):
    before = set(scratch.changed())
    shutil.copy(deb, scratch.path("tmp/muster.deb"))
    scratch.inside("dpkg", "-i", "/tmp/muster.deb")
    yield "it installs", scratch.inside("muster", "version").strip() != ""
    if shutil.which("systemd-analyze"):
        said = scratch.inside("systemd-analyze", "verify", "--man=no", "/" + UNIT, check=False)
        wrong = [line for line in said.splitlines() if "muster.service" in line]
        yield f"systemd finds nothing wrong with the unit {wrong}", not wrong
    for name in ("usr/share/man/man1/muster.1.gz", "usr/share/man/man1/kubectl-torchrun.1.gz",
                 "usr/share/bash-completion/completions/muster", "usr/share/zsh/vendor-completions/_muster",
                 "usr/share/fish/vendor_completions.d/muster.fish", "usr/bin/muster-shim", "usr/bin/muster-launch",
                 "usr/lib/muster/libmuster-gpu.so"):
        yield f"it has {name}", os.path.exists(scratch.path(name))
    yield "muster finds the library of GPU shares", "memory is limited by" in scratch.inside("muster", "doctor", check=False)
    yield "kubectl finds the plugin", "torchrun" in scratch.inside("kubectl-torchrun", "version")
    service_lives(scratch)
    yield "the service starts, runs a pod as user muster, and stops", True
    scratch.inside("dpkg", "-r", "muster")
    left = [f for f in set(scratch.changed()) - before if not BOOKKEEPING.match(f)]
    extra = [f for f in left if not f.startswith("var/lib/muster/") and f != "etc/default/muster"]
    yield f"removing it leaves data and settings, not {extra[:5]}", not extra
    scratch.inside("dpkg", "-P", "muster")
    left = [f for f in set(scratch.changed()) - before if not BOOKKEEPING.match(f)]
    extra = [f for f in left if not f.startswith("var/lib/muster/")]
    yield f"purging it leaves data, not {extra[:5]}", not extra
    yield "the data is still there", any(f.startswith("var/lib/muster/") for f in left)
    yield "the user stays with the data that is its own", "muster" in scratch.inside("getent", "passwd")


def check_krew(manifest, folder):
    """Install by the manifest's rules, as krew does with --archive."""
    with open(manifest) as f:
        text = f.read()
    found = False
    for part in text.split("- selector:")[1:]:
        field = dict(re.findall(r"(arch|uri|sha256|bin): (\S+)", part))
        archive = os.path.join(ROOT, "dist", os.path.basename(field["uri"]))
        with open(archive, "rb") as f:
            yield f"krew: the sum of {field['arch']}", hashlib.sha256(f.read()).hexdigest() == field["sha256"]
        if field["arch"] != ARCH:
            continue
        found = True
        with tarfile.open(archive) as tar:
            tar.extractall(os.path.join(folder, "archive"), filter="data")
        for source, target in re.findall(r"from: (\S+)\n\s+to: (\S+)", part):
            files = glob.glob(os.path.join(folder, "archive", source))
            yield f"krew: {source} is in the archive", files
            os.makedirs(os.path.join(folder, "store", target), exist_ok=True)
            for file in files:
                shutil.copy(file, os.path.join(folder, "store", target))
        os.makedirs(os.path.join(folder, "bin"))
        link = os.path.join(folder, "bin", "kubectl-torchrun")
        os.symlink(os.path.join(folder, "store", field["bin"]), link)
        yield "krew: kubectl torchrun runs", "torchrun" in run([link, "version"])
        for program in (link, os.path.join(folder, "archive", f"muster-{VERSION}-linux-{ARCH}", "bin", "muster")):
            loaded = run([program], env={"LD_TRACE_LOADED_OBJECTS": "1"})
            foreign = [line.split()[0] for line in loaded.splitlines()
                       if "=>" in line and folder not in line and not GLIBC.match(line.strip())]
            yield f"{os.path.basename(program)} loads its own libraries, not the machine's {foreign}", not foreign
    yield f"krew: there is a platform {ARCH}", found


def main():
    deb = os.path.join(ROOT, "dist", f"muster_{VERSION}_{ARCH}.deb")
    if os.geteuid() != 0:
        skip("needs root for a scratch root")
    if not shutil.which("dpkg") or not os.path.exists(deb):
        skip(f"needs dpkg and {os.path.relpath(deb, ROOT)} (make deb)")
    if "--inside" not in sys.argv:
        done = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", sys.executable,
                               os.path.abspath(__file__), "--inside"])
        return done.returncode
    run(["ip", "link", "set", "lo", "up"])
    # On a tmpfs: what is on a layer already cannot carry another one everywhere.
    folder = "/mnt"
    run(["mount", "-t", "tmpfs", "tmpfs", folder])
    try:
        scratch = Scratch(folder)
    except AssertionError as e:
        skip(f"no layer over / can be made here: {e}")
    os.mkdir(os.path.join(folder, "krew"))
    passed, failed = 0, 0
    manifest = os.path.join(ROOT, "dist", "torchrun.yaml")
    for check in (check_package(scratch, deb), check_krew(manifest, os.path.join(folder, "krew"))):
        try:
            for what, good in check:
                print(f"{'ok' if good else 'FAILED'}: {what}")
                passed, failed = passed + bool(good), failed + (not good)
        except AssertionError as e:
            print(f"FAILED: {e}")
            failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
