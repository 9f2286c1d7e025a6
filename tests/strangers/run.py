#!/usr/bin/env python3
"""run.py [--list] [WORD...]: clients and suites that nobody here wrote, each against `muster up`.

Each comes from its registry by name and pinned version, into a folder of its own in the cache ($XDG_CACHE_HOME or ~/.cache,
muster/strangers), never into the system: Python packages into virtual environments, npm packages beside a script, Go programs
built from their modules (go/go.mod, tests/kubernetes/binaries.sh), crates by cargo, jars by Maven. One that cannot be had here is
skipped and counted. Of a suite every spec counts (suites.py), of Kubeflow's SDKs every step with every PyTorch (kubeflow_sdk.py),
of published manifests each (manifests.py). KAI_E2E=FILE runs KAI
Scheduler's compiled suite as well. WORD: only those with it in their name. Ends with `N passed, N failed, N skipped`; a line
`failed: NAME` names each that failed (tests/expected/strangers.txt has those that are known to; tests/result.py compares).
"""

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import kubeflow_sdk  # noqa: E402
import manifests  # noqa: E402
import suites  # noqa: E402
from harness import Failure, Muster, Skip, check, run, torch_pythons  # noqa: E402

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster", "strangers")
INSTALL_S = 1800
LIMIT_S = 300
SLOW_S = 900  # of a client that takes half a minute to be imported, several times over
UV = "uv==0.13.8"
LINT = 3  # promtool's exit status when it has advice
GO = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/local/go/bin", "GOFLAGS": "-mod=mod", "GOWORK": "off", "CGO_ENABLED": "0",
      "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "local")}


# ---- what is installed ----

def install(name, make):
    """The folder of this name in the cache; make(folder) fills it once. Skip when that fails."""
    folder = os.path.join(CACHE, name)
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        make(folder)
    except (OSError, subprocess.SubprocessError) as e:
        said = (getattr(e, "stderr", None) or str(e)).strip().splitlines()
        raise Skip(f"{name} cannot be had here: {said[-1] if said else e}") from e
    with open(os.path.join(folder, "complete"), "w"):
        pass
    return folder


def command(*argv, env=None, cwd=None):
    subprocess.run(argv, check=True, text=True, timeout=INSTALL_S, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def digest_of(folder):
    """Of the sources in it."""
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.*"), recursive=True)):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                digest.update(f.read())
    return digest.hexdigest()[:12]


def built(name):
    """A Go program of go/, built."""
    def make(folder):
        shutil.copytree(os.path.join(HERE, "go"), os.path.join(folder, "source"))
        command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", folder + "/", "./...", env=GO,
                cwd=os.path.join(folder, "source"))
    if not shutil.which("go", path=GO["PATH"]):
        raise Skip("no Go here")
    return os.path.join(install("go-" + digest_of(os.path.join(HERE, "go")), make), name)


def pinned(program):
    """A program that tests/kubernetes/binaries.sh builds."""
    done = subprocess.run([os.path.join(ROOT, "tests/kubernetes/binaries.sh"), program], text=True, stdout=subprocess.PIPE,
                          timeout=INSTALL_S, check=False)
    if done.returncode:
        raise Skip(f"{program} cannot be had here")
    return os.path.join(done.stdout.strip(), program)


# ---- clients ----

def alone(play, **options):
    """A client with a muster of its own: one result."""
    def results(name):
        start = time.monotonic()
        with Muster(**options) as m:
            play(m)
        yield name, "passed", "", time.monotonic() - start
    return results


def python(script, *packages, programs=(), limit=LIMIT_S, **options):
    """A script in a virtual environment with these packages. uv finds out in seconds which of a hundred others go together; pip
    takes ten minutes. programs: of these packages of the distribution, beside the environment's own."""
    def play(m):
        def make(folder):
            command(sys.executable, "-m", "venv", folder)
            command(os.path.join(folder, "bin/pip"), "install", "--quiet", UV)
            command(os.path.join(folder, "bin/uv"), "pip", "install", "--quiet", "--python", os.path.join(folder, "bin/python"),
                    *packages)
            if programs:
                command("apt-get", "download", *programs, cwd=folder)
            for package in glob.glob(os.path.join(folder, "*.deb")):
                command("dpkg", "-x", package, os.path.join(folder, "programs"))
            for name in glob.glob(os.path.join(folder, "programs/bin/nc.*")):
                os.symlink(name, os.path.join(folder, "bin/nc"))
        folder = install("python-" + "-".join(re.sub(r"==|[^\w.]+", "-", p) for p in packages), make)
        path = ":".join([os.path.join(folder, "bin"), os.path.join(folder, "programs/usr/bin"), m.env["PATH"]])
        libraries = ":".join(glob.glob(os.path.join(folder, "programs/usr/lib/*/")))
        run([os.path.join(folder, "bin/python"), os.path.join(HERE, "python", script)], limit=limit,
            env={**m.env, "PATH": path, **({"LD_LIBRARY_PATH": libraries} if libraries else {})})
    return alone(play, **options)


def node(m):
    package = "@kubernetes/client-node@1.4.0"

    def make(folder):
        command("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder, package, cwd=folder)
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("no node and npm here")
    folder = install(package.replace("/", "-").replace("@", "-").strip("-"), make)
    script = os.path.join(folder, "client.mjs")  # beside its packages, where node looks for them
    shutil.copyfile(os.path.join(HERE, "node/client.mjs"), script)
    run(["node", script], env=m.env, limit=LIMIT_S)


def rust(m):
    source = os.path.join(HERE, "rust")

    def make(folder):
        shutil.copytree(source, os.path.join(folder, "source"))
        command("cargo", "build", "--quiet", "--release", cwd=os.path.join(folder, "source"))
    if not shutil.which("cargo"):
        raise Skip("no cargo here")
    run([os.path.join(install("rust-" + digest_of(source), make), "source/target/release/stranger")], env=m.env, limit=LIMIT_S)


def java(m):
    """fabric8's client: Maven has its jars, the JDK runs the source."""
    group, name, version = "io.fabric8", "kubernetes-client", "7.7.0"

    def make(folder):
        with open(os.path.join(folder, "pom.xml"), "w") as f:
            f.write(f'<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId>'
                    f"<artifactId>x</artifactId><version>1</version><dependencies><dependency><groupId>{group}</groupId>"
                    f"<artifactId>{name}</artifactId><version>{version}</version></dependency></dependencies></project>")
        command("mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=jars", cwd=folder)
    if not shutil.which("mvn") or not shutil.which("java"):
        raise Skip("no JDK and Maven here")
    jars = os.path.join(install(f"java-{name}-{version}", make), "jars", "*")
    run(["java", "-cp", jars, os.path.join(HERE, "java/Client.java")], env=m.env, limit=LIMIT_S)


def go(name):
    def play(m):
        run([built(name)], env={**m.env, "KUBE_FEATURE_WatchListClient": "true"}, limit=LIMIT_S)
    return alone(play)


def helm(m):
    program, chart = pinned("helm"), os.path.join(HERE, "chart")

    def do(*argv):
        return run([program, "--namespace", "helm", *argv], env=m.env, limit=LIMIT_S).stdout

    def ready():
        return m.get("deployment", "s", "helm")["status"].get("readyReplicas")
    do("install", "s", chart, "--create-namespace", "--wait")
    check(ready() == 1, f"{ready()} pods after install --wait")
    do("upgrade", "s", chart, "--set", "replicas=2,greeting=again", "--wait")
    check(ready() == 2, f"{ready()} pods after upgrade --wait")
    check(m.get("configmap", "s", "helm")["data"] == {"greeting": "again"}, "the upgrade")
    do("rollback", "s", "1", "--wait")
    check(m.get("configmap", "s", "helm")["data"] == {"greeting": "hello"}, "the rollback")
    check([line.split()[0] for line in do("history", "s").splitlines()[1:]] == ["1", "2", "3"], do("history", "s"))
    check("Phase:          Succeeded" in do("test", "s", "--logs"), "helm test")
    do("uninstall", "s", "--wait")
    check(do("list", "-q") == "" and m.get("deployment", "s", "helm", ok=False) is None, "something is left after uninstall")
    # Over what kubectl brought, as docs/cluster.md has it.
    m.kubectl("apply", "-n", "helm", "-f", "-", input=do("template", "s", chart, "--no-hooks"))
    refused = subprocess.run([program, "--namespace", "helm", "install", "s", chart], env=m.env, text=True, timeout=LIMIT_S,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(refused.returncode and "invalid ownership metadata" in refused.stdout, refused.stdout)
    do("install", "s", chart, "--take-ownership", "--wait")
    check(ready() == 1, f"{ready()} pods after install --take-ownership")


def rules(folder):
    """Files of rules, as Prometheus reads them, of deploy/monitoring: the alerts, and each expression of the dashboard."""
    with open(os.path.join(ROOT, "deploy/monitoring/alerts.yaml")) as f:
        alerts = re.sub(r"(?m)^  ", "", f.read().split("spec:\n", 1)[1])
    with open(os.path.join(ROOT, "deploy/monitoring/dashboard.json")) as f:
        found = re.findall(r'"expr": ("(?:[^"\\]|\\.)*")', f.read())
    expressions = [re.sub(r"\$\{?\w+\}?", "5m", json.loads(text)) for text in found]
    check(expressions, "the dashboard has no expressions")
    board = {"groups": [{"name": "dashboard", "rules": [{"record": f"panel:{i}", "expr": e} for i, e in enumerate(expressions)]}]}
    paths = [os.path.join(folder, "alerts.yaml"), os.path.join(folder, "dashboard.yaml")]
    for path, text in zip(paths, (alerts, json.dumps(board))):
        with open(path, "w") as f:
            f.write(text)
    return paths


def promtool(m):
    program = pinned("promtool")
    m.kubectl("create", "configmap", "counted")
    done = subprocess.run([program, "check", "metrics"], input=m.kubectl("get", "--raw", "/metrics").stdout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    # Names of KAI Scheduler's metrics, which its dashboards ask for, are not as Prometheus recommends.
    said = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("kai_")]
    check(done.returncode in (0, LINT) and not said, f"promtool check metrics: exit {done.returncode}\n" + "\n".join(said))
    run([program, "check", "rules", *rules(m.folder)], limit=LIMIT_S)


# ---- suites, and Kubeflow's SDKs ----

def suite(play, program):
    return lambda name: play(pinned(program), os.path.dirname(built("sshd")))


def kai(name):
    if not os.environ.get("KAI_E2E"):
        raise Skip("its suite is in no registry: KAI_E2E=FILE names the compiled test program")
    return suites.kai(os.path.abspath(os.environ["KAI_E2E"]))


def published(word):
    def results(name):
        suites.needs_images()
        start = time.monotonic()
        for manifest, verdict, why in manifests.play(word):
            yield f"{name}/{manifest}", verdict, why, time.monotonic() - start
            start = time.monotonic()
    return results


def sdk(version):
    def results(name):
        pythons = torch_pythons()
        if not pythons:
            raise Skip("no Python here can import torch")
        for torch, torch_version in pythons:
            start = time.monotonic()
            for step, word in kubeflow_sdk.play(version, torch):
                yield (f"{name}/torch-{torch_version}/{step.replace(' ', '_')}", "passed" if word == "ok" else "failed",
                       "" if word == "ok" else word, time.monotonic() - start)
                start = time.monotonic()
    return results


STRANGERS = {
    "python-kubernetes": python("official.py", "kubernetes==37.0.2"),
    "python-kubernetes-asyncio": python("asynchronous.py", "kubernetes_asyncio==36.1.0"),
    "python-kr8s": python("kr8s_objects.py", "kr8s==0.20.15"),
    "python-lightkube": python("lightkube_objects.py", "lightkube==1.0.1", "lightkube-models==1.37.0.8"),
    "python-kopf": python("kopf_operator.py", "kopf==1.45.2", "kubernetes==37.0.2"),
    "python-dask": python("dask_cluster.py", "dask-kubernetes==2026.3.0", "distributed==2026.8.0", "dask==2026.8.0"),
    "python-airflow": python("airflow_dag.py", "apache-airflow-core==3.3.2",
                             "apache-airflow-providers-cncf-kubernetes==10.25.0", limit=SLOW_S),
    "python-skypilot": python("skypilot_check.py", "skypilot[kubernetes]==0.14.1", limit=SLOW_S, nodes=2, gpus_per_node=8,
                              programs=("socat", "libwrap0", "netcat-openbsd")),
    "node-client": alone(node),
    "rust-kube": alone(rust),
    "java-fabric8": alone(java),
    "go-client": go("client"),
    "go-controller-runtime": go("controller"),
    "helm": alone(helm),
    "promtool": alone(promtool),
    "kubeflow-sdk-v1": sdk("v1"),
    "kubeflow-sdk-v2": sdk("v2"),
    "jobset-e2e": suite(suites.jobset, "jobset-e2e"),
    "trainer-e2e": suite(suites.trainer, "trainer-e2e"),
    "kai-e2e": kai,
    "manifests-kai": published("KAI-scheduler"),
    "manifests-training-operator": published("training-operator"),
    "manifests-trainer": published("trainer/v2"),
    "manifests-jobset": published("jobset"),
}


def results(name):
    """Yields (name, what became of it, why, seconds)."""
    start = time.monotonic()
    try:
        yield from STRANGERS[name](name)
    except Skip as e:
        yield name, "skipped", str(e), time.monotonic() - start
    except (Failure, OSError, subprocess.SubprocessError) as e:
        yield name, "failed", str(e), time.monotonic() - start


def main(argv):
    words = [a for a in argv if not a.startswith("-")]
    names = [name for name in STRANGERS if not words or any(word in name for word in words)]
    if "--list" in argv:
        print("\n".join(names))
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # what was started ends as well
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        for part, verdict, why, seconds in results(name):
            counts[verdict] += 1
            print(f"{verdict}: {part} ({seconds:.0f} s){': ' + why if why else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
