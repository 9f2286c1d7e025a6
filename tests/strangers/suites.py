"""End-to-end suites that others wrote for their own controllers, as they are, against `muster up`: JobSet's and Kubeflow
Trainer's, built from their Go modules (tests/kubernetes/binaries.sh), and KAI Scheduler's where KAI_E2E names the program.

Pods run from images here. No registry of images is asked: one image, made of this machine's programs, has all that the suites
start (a shell, ping, Python, mpirun and ssh), and stands under every name. It comes when the first pod waits for it, as on a node
that pulls. Each spec runs in a process of its own. What differs from the suites' own clusters: the Deployment that JobSet's suite
waits for is an idle one; the image has an ssh server of ours (go/sshd), and our ping where this machine has none (go/ping)."""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

import images
from harness import PATIENCE, Failure, Muster, Skip, binary, run

FLAGS = ("--images", "oci", "--pod-network", "bridge", "--cpus-per-node", "16", "--memory-per-node", "64Gi")
JOBS = 3
# Most specs take seconds; JobSet's pings sleep for half a minute. Their own limits are ten minutes each.
SPEC_S = 150
PROGRAMS = ("awk bash cat chmod cp cut date echo env false getent grep head hostname id kill ln ls mkdir mv nc ping ps pwd rm "
            "sed seq sh sleep sort ssh stat tail tee test touch tr true uname wc whoami mpirun orted").split()
# What mpirun loads to start processes; what it loads for messages between them has no use here.
LAUNCHING = ("errmgr", "ess", "filem", "grpcomm", "iof", "odls", "oob", "plm", "pmix", "ras", "reachable", "regx", "rmaps",
             "rml", "routed", "rtc", "schizo", "state")
TEXTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n",
    "etc/group": "root:x:0:\nmpiuser:x:1000:\n",
    "etc/ssh/ssh_config": "Port 2222\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
    "home/mpiuser/.sshd_config": "",
}
PAUSE = "#!/bin/sh\nexec sleep 100000\n"  # what the image of this name does
IDLE = """
apiVersion: v1
kind: Namespace
metadata: {name: %(ns)s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %(name)s, namespace: %(ns)s}
spec:
  selector: {matchLabels: {app: %(app)s}}
  template:
    metadata: {labels: {app: %(app)s}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: idle, image: idle, command: [sleep, "100000"]}]}
"""


# ---- the image ----

def libraries(paths):
    """{path in the image: path here} of what these programs are linked with."""
    listed = subprocess.run(["ldd", *paths], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    return {path.lstrip("/"): os.path.realpath(path) for path in re.findall(r"(/\S+) \(0x", listed)}


def content(ours):
    images.PROGRAMS = [program for program in PROGRAMS if shutil.which(program)]
    files = images.host_files()
    files["bin/python3"] = os.path.realpath("/usr/bin/python3")
    files["usr/sbin/sshd"] = os.path.join(ours, "sshd")
    files.setdefault("bin/ping", os.path.join(ours, "ping"))
    folders = glob.glob("/usr/lib/python3.*") + glob.glob("/usr/lib/*/openmpi") + glob.glob("/usr/lib/*/pmix2")
    folders += glob.glob("/usr/share/openmpi") + glob.glob("/usr/share/pmix*") + glob.glob("/etc/openmpi")
    files.update({folder.lstrip("/"): folder for folder in folders})
    plugins = [path for name in LAUNCHING for path in glob.glob(f"/usr/lib/*/openmpi/lib/openmpi*/mca_{name}_*.so")]
    plugins += glob.glob("/usr/lib/*/pmix2/lib/pmix/*.so")
    files.update(libraries([files["bin/python3"], *plugins, *glob.glob("/usr/lib/python3.*/lib-dynload/_ssl*.so"),
                            *glob.glob("/usr/lib/python3.*/lib-dynload/_hashlib*.so")]))
    return files


class Images:
    """Imports the image under every name that a pod waits for."""

    def __init__(self, muster, ours):
        pause = os.path.join(muster.folder, "pause")
        with open(pause, "w") as f:
            f.write(PAUSE)
        os.chmod(pause, 0o755)
        extra = []
        for name, mode in (("tmp", 0o1777), ("root", 0o700), ("run", 0o755), ("usr/bin", None)):
            info = images.tarfile.TarInfo(name)
            info.type = images.tarfile.DIRTYPE if mode else images.tarfile.SYMTYPE
            info.mode, info.linkname = mode or 0o777, "" if mode else "../bin"
            extra.append(info)
        data = images.layer({**content(ours), "pause": pause}, TEXTS, extra)
        self.layout = images.oci_layout(os.path.join(muster.folder, "image"), "all", [data], Cmd=["/bin/bash"],
                                        Env=["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
        self.muster, self.names, self.over, self.said = muster, set(), threading.Event(), []
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self):
        while not self.over.wait(0.3):
            try:
                for pod in self.muster.rest.get("/api/v1/pods")["items"]:
                    for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                        self.have(container["image"])
            except (Failure, OSError, subprocess.SubprocessError) as e:
                self.said.append(str(e))

    def have(self, name):
        if name not in self.names:
            run([binary("muster"), "image", "import", self.layout, "--name", name, "--data-dir", self.muster.data],
                env=self.muster.env)
            self.names.add(name)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


# ---- the specs ----

def specs(program, folder):
    """[full text] of every spec of a program."""
    report = os.path.join(folder, "specs.json")
    run([program, "--ginkgo.dry-run", "--ginkgo.no-color", f"--ginkgo.json-report={report}"], cwd=folder)
    with open(report) as f:
        found = json.load(f)[0]["SpecReports"]
    return [" ".join([*(s["ContainerHierarchyTexts"] or []), s["LeafNodeText"]]) for s in found if s["LeafNodeType"] == "It"]


def short(text):
    """A spec's name as one word, without the words that all of them begin with."""
    return re.sub(r"\W+", "_", re.split(r"^.*? when ", text, maxsplit=1)[-1]).strip("_")


def one(muster, program, text, number):
    """(verdict, why, seconds) of one spec."""
    report = os.path.join(muster.folder, f"spec-{number}.json")
    limit = int(SPEC_S * PATIENCE)
    start = time.monotonic()
    with open(os.path.join(muster.folder, f"spec-{number}.log"), "w") as log:
        process = subprocess.Popen([program, "--ginkgo.no-color", f"--ginkgo.json-report={report}", "--ginkgo.grace-period=5s",
                                    f"--ginkgo.timeout={limit}s", f"--ginkgo.focus={re.escape(text)}$"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=muster.env, cwd=muster.folder)
        try:
            process.wait(limit + 60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    seconds = time.monotonic() - start
    try:
        with open(report) as f:
            reports = [s for s in json.load(f)[0]["SpecReports"] if s["State"] != "skipped"]
    except (OSError, ValueError):
        return "failed", "it left no report", seconds
    ran = [s for s in reports if s["LeafNodeType"] == "It"]
    bad = [s for s in reports if s["State"] != "passed"]
    if bad:
        return "failed", re.sub(r"\s+", " ", bad[0].get("Failure", {}).get("Message", bad[0]["State"]))[:600], seconds
    return ("passed", "", seconds) if ran else ("failed", "it did not run", seconds)


def play(muster, program, prefix, jobs=JOBS):
    """Yields (name, verdict, why, seconds) of every spec."""
    texts = specs(program, muster.folder)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        doing = {pool.submit(one, muster, program, text, i): text for i, text in enumerate(texts)}
        for done in concurrent.futures.as_completed(doing):
            yield (f"{prefix}/{short(doing[done])}", *done.result())
    finally:
        pool.shutdown(cancel_futures=True)


def needs_images():
    if os.geteuid() != 0 or not shutil.which("crun"):
        raise Skip("pods run from images here, which needs root and crun")
    if not os.path.exists("/usr/bin/python3"):
        raise Skip("the image needs /usr/bin/python3")


def jobset(program, ours):
    needs_images()
    with Muster(nodes=2, flags=FLAGS) as m, Images(m, ours):
        m.apply(IDLE % {"ns": "jobset-system", "name": "jobset-controller-manager", "app": "jobset"})
        yield from play(m, program, "jobset-e2e")


def trainer(program, ours):
    needs_images()
    if not shutil.which("mpirun") or not shutil.which("ssh"):
        raise Skip("the image needs mpirun and ssh: install openmpi-bin and openssh-client")
    with Muster(nodes=2, flags=FLAGS) as m, Images(m, ours):
        yield from play(m, program, "trainer-e2e")


def kai(program):
    """Its specs are counted and those that fail are named; not all of them apply here, and none is on the list of those that
    must pass. Its clean-up waits for a pod labelled as its own scheduler."""
    counts = {"passed": 0, "failed": 0}
    start = time.monotonic()
    with Muster(nodes=4, gpus_per_node=8) as m:
        m.apply(IDLE % {"ns": "kai-scheduler", "name": "kai-scheduler-default", "app": "kai-scheduler-default"})
        for name, verdict, why, seconds in play(m, program, "kai-e2e", 1):
            counts[verdict] += 1
            print(f"  {verdict}: {name} ({seconds:.0f} s){': ' + why if why else ''}", flush=True)
    said = f"{counts['passed']} of {sum(counts.values())} specs passed"
    yield "kai-e2e", "passed" if counts["passed"] else "failed", said, time.monotonic() - start


if __name__ == "__main__":
    sys.exit("run.py runs these")
