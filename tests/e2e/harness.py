"""Starts a real `muster up` for a test and talks to it with the real kubectl and kubectl-torchrun.

What a test looks at again and again while it waits, objects and logs, it asks for itself (get(), said(): rest.py).

Nothing here sleeps for a fixed time: wait_for() polls a condition up to a limit and says what it was
waiting for when the limit passes. Every process a test starts is ended by its pid.

    with Muster(nodes=2, gpus_per_node=4) as m:
        m.apply(QUEUE)
        m.kubectl("get", "pods")
        m.torchrun("submit", "--queue", "q", "--gpus", "4", "python train.py", cwd=folder)
"""

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import torchrun_alone
from rest import Rest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")))
EXAMPLES = os.path.join(ROOT, "examples")
# A slow machine, or a sanitizer build, multiplies every limit.
PATIENCE = float(os.environ.get("MUSTER_TEST_PATIENCE", "1"))
# Every kind that makes pods.
JOBS = ("torchrunjobs,pytorchjobs,tfjobs,mpijobs,xgboostjobs,jaxjobs,paddlejobs,"
        "pytorchtrainingjobs,tensorboards,trainjobs,jobsets,jobs")
# On the embedded API server these are nobody else's.
WORKLOADS = "deployments,replicasets,statefulsets,daemonsets,cronjobs,replicationcontrollers"
# What sanitizers say in the logs of the programs under test, and how much of it is shown.
FINDINGS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", ": runtime error: ")
FINDING_CHARACTERS = 4000
# Where trainings of these kinds meet unless they are told another one (apart()).
PORT_OF_TRAINJOBS = "port 29500"
PORT_OF_PYTORCHJOBS = "port 23456"
APPLIED = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict"  # as kubectl apply does
CREATED = "fieldManager=kubectl-create&fieldValidation=Strict"  # as kubectl create does
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KNOWN_TORCH = "MUSTER_TEST_TORCH"  # lines of "path version", once that was found out


# What a look at something says that is not there yet, or not whole: a member of None, the first of no items.
NOT_YET = (subprocess.CalledProcessError, OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration)


class Skip(Exception):
    """Raised by a test that cannot run here; the reason is printed and counted apart."""


class Failure(AssertionError):
    pass


def needs(what):
    """Marks a test that needs more than Kubernetes' own API and pods that run, in words: "a kill of the API server
    that ...". tests/kubernetes, which runs the same files on a real API server, skips it and says so."""
    def mark(test):
        test.needs = what
        return test
    return mark


def apart(what):
    """Marks tests that cannot run beside each other, in words: "a port on which anybody's training listens". Pods without a
    network of their own share the machine's."""
    def mark(test):
        test.apart = what
        return test
    return mark


def binary(name):
    return os.path.join(BUILD, name)


def check(condition, message):
    if not condition:
        raise Failure(message)


def wait_for(condition, what, limit=30, slowest=0.25):
    """The first true value of condition(); Failure once `limit` seconds have passed. `slowest`: how late it may be seen, where
    its moment is measured. To look takes a third of the time at most: one that starts a program would else keep a core busy."""
    deadline = time.monotonic() + limit * PATIENCE
    pause = 0.03
    last = None
    while True:
        looked = time.monotonic()
        try:
            last = condition()
            if last:
                return last
        except NOT_YET as e:
            last = e
        took = time.monotonic() - looked
        if time.monotonic() > deadline:
            raise Failure(f"waited {limit * PATIENCE:.0f} s for {what}; last seen: {last!r}")
        time.sleep(max(pause, min(2 * took, 1)))
        pause = min(pause * 1.5, slowest)


def run(argv, *, input=None, cwd=None, env=None, limit=120, ok=True):
    """Run a command to its end; Failure with its output unless it exits 0 (ok=False: any status)."""
    done = subprocess.run(argv, input=input, cwd=cwd, env=env, text=True, timeout=limit * PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if ok and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def cached_torch():
    """[(path, version)] of the current PyTorch that tests/torch.sh installed; [] when it has not."""
    cache = os.environ.get("MUSTER_TORCH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster", "torch")
    try:
        with open(os.path.join(cache, "complete")) as f:
            version = f.read().strip()
    except OSError:
        return []
    python = os.path.join(cache, "bin", "python3")
    return [(python, version)] if version and os.access(python, os.X_OK) else []


def torch_pythons():
    """Every Python on this machine that can import torch: (path, version). First the one of tests/torch.sh."""
    if KNOWN_TORCH in os.environ:
        return [tuple(line.split(" ", 1)) for line in os.environ[KNOWN_TORCH].splitlines()]
    found = cached_torch()
    candidates = [shutil.which("python3"), "/usr/bin/python3"]
    candidates += os.environ.get("MUSTER_TEST_PYTHONS", "").split(":")
    for python in candidates:
        if not python or not os.path.exists(python) or any(python == p for p, _ in found):
            continue
        probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if probe.returncode == 0:
            found.append((python, probe.stdout.strip()))
    return found


def know_torch():
    """For the tests that this process starts: importing torch takes seconds, and many of them ask for it."""
    os.environ[KNOWN_TORCH] = "\n".join(" ".join(found) for found in torch_pythons())
    os.environ.update(torchrun_alone.make(BUILD, torch_pythons()))


def torchrun_of_pods(pytorch):
    """The folder in which pods are to find it, "" for the usual ones."""
    return "" if pytorch is True else os.environ.get(torchrun_alone.RANKS if pytorch else torchrun_alone.FOLDER, "")


def python_of_ranks():
    """A Python for ranks of tests that are not about PyTorch itself, the quickest; Skip where none has it."""
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    folder = torchrun_of_pods(pytorch="ranks")
    return os.path.join(folder, "python3") if folder else torch_pythons()[-1][0]


def python_with(*modules, where="True"):
    """A Python on this machine that can import all of them, and finds `where` true; Skip, with a line that says what is missing,
    when there is none."""
    candidates = [shutil.which("python3"), "/usr/bin/python3"] + os.environ.get("MUSTER_TEST_PYTHONS", "").split(":")
    for python in candidates:
        probe = [python, "-c", f"import {', '.join(modules)}; assert {where}"]
        if python and os.path.exists(python) and subprocess.run(
                probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60 * PATIENCE).returncode == 0:
            return python
    raise Skip(f"no Python here can import {' and '.join(modules)} (MUSTER_TEST_PYTHONS names further ones)")


@functools.cache
def kubectl_minor():
    """The 27 of kubectl 1.27."""
    text = subprocess.run(["kubectl", "version", "--client", "-o", "json"], check=True, text=True, stdout=subprocess.PIPE,
                          timeout=60 * PATIENCE).stdout
    return int(re.match(r"\d+", json.loads(text)["clientVersion"]["minor"])[0])


def need_kubectl(minor):
    """Skips where kubectl is older than 1.`minor`, which knows what the test types (Debian 12's is 1.20)."""
    if kubectl_minor() < minor:
        raise Skip(f"needs kubectl 1.{minor}; this machine's is 1.{kubectl_minor()}")


class Muster:
    runs_batch_jobs = True  # and no kube-controller-manager does

    def __init__(self, nodes=1, gpus_per_node=0, flags=(), env=None, path_first=None, pytorch=False):
        """`path_first`: a folder that pods look into first. Where it is not given, pods find a whole PyTorch (`pytorch` is True),
        their ranks do ("ranks"), or there is torchrun alone (False): torchrun_alone.py."""
        self.folder = tempfile.mkdtemp(prefix=f"muster-test-{os.environ.get('MUSTER_TEST_RUN', '')}-")
        self.data = os.path.join(self.folder, "data")
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")
        self.log = os.path.join(self.folder, "muster.log")
        self.flags = ["--nodes", str(nodes), "--gpus-per-node", str(gpus_per_node), *flags]
        if nodes > 1 and "--cpus-per-node" not in flags:  # what a test needs does not depend on the machine
            self.flags += ["--cpus-per-node", str(max(2, os.cpu_count()))]
        self.env = dict(os.environ, KUBECONFIG=self.kubeconfig, NO_COLOR="1", HOME=self.folder)
        self.env.update(env or {})
        if "/shims/" in (shutil.which("python3") or ""):  # a script that looks for this one, in every pod
            self.env["PATH"] = os.path.dirname(sys.executable) + ":" + self.env["PATH"]
        path_first = path_first or torchrun_of_pods(pytorch)
        if path_first:
            self.env["PATH"] = path_first + ":" + self.env["PATH"]
        self.env["PATH"] = BUILD + ":" + self.env["PATH"]
        self.listen = "127.0.0.1:0"
        self.prefix = []  # a command that runs muster, as another user for instance
        self.process = None

    @functools.cached_property
    def rest(self):
        return Rest(self.kubeconfig, 60 * PATIENCE)

    @functools.cached_property
    def made(self):
        """{(path, name): document} of what apply() has created."""
        return {}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, traceback):
        if value is not None and not isinstance(value, (Skip, SystemExit)):
            self.dump()
        self.stop()
        if os.environ.get("MUSTER_TEST_KEEP"):
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def dump(self):
        """What a person would look at first when a test failed."""
        for argv in (["get", "pods,torchrunjobs,podgroups,queues", "-A", "-o", "wide"],
                     ["get", "events", "-A"]):
            done = self.kubectl(*argv, ok=False, limit=20)
            print(f"--- kubectl {' '.join(argv)}\n{done.stdout}{done.stderr}", file=sys.stderr)
        if not os.path.exists(self.log):
            return
        with open(self.log, errors="replace") as f:
            print("--- muster up\n" + "".join(f.readlines()[-60:]), file=sys.stderr)

    def start(self):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [*self.prefix, binary("muster"), "up", "--data-dir", self.data, "--listen", self.listen,
                 "--kubeconfig-out", self.kubeconfig, *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                start_new_session=True)
        def ready():
            if self.process.poll() is not None:
                with open(self.log) as f:
                    raise Failure(f"muster up ended with {self.process.returncode}:\n{f.read()[-3000:]}")
            if self.rest.ask("GET", "/readyz")[0] != 200:
                return False
            nodes = self.rest.get("/api/v1/nodes")["items"]
            return len(nodes) >= int(self.flags[self.flags.index("--nodes") + 1])  # they come once it is ready
        try:
            wait_for(lambda: os.path.exists(self.kubeconfig) and ready(), "muster up to be ready", 30)
        except BaseException:
            self.kill()
            raise
        # A restart keeps the address, so that clients and pods find the server again.
        self.listen = self.rest.server().split("//")[1]

    def kill(self):
        """kill -9, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def delete_pods(self):
        """What makes pods first, then the pods; those that stand for parts of muster itself stay."""
        for path in filter(None, map(self.rest.path, f"{WORKLOADS},{JOBS}".split(","))):
            for found in self.rest.get(path)["items"]:
                self.rest.delete_item(path, found, propagationPolicy="Background")

        def left():
            others = self.rest.get("/api/v1/pods?labelSelector=app.kubernetes.io/managed-by!%3Dmuster")["items"]
            for pod in others:
                if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
                    self.rest.delete_item("/api/v1/pods", pod, gracePeriodSeconds=0)
            return len(others)
        wait_for(lambda: left() == 0, "the pods of the test to end", 20)

    def stop(self):
        """Delete every pod, so that nothing outlives the test, then SIGTERM."""
        if self.process is None:
            return
        if self.process.poll() is None:
            try:
                self.delete_pods()
            except (Failure, OSError) as e:
                print(e, file=sys.stderr)
            self.process.terminate()
            try:
                self.process.wait(20 * PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure("muster up did not end within 20 s of SIGTERM")
        self.process = None
        self.found_nothing()

    def found_nothing(self):
        """What sanitizers said in the logs of this test, leaks at the end included; nothing in a build without them."""
        said = []
        for name in sorted(n for n in os.listdir(self.folder) if n.endswith(".log")):
            with open(os.path.join(self.folder, name), errors="replace") as f:
                text = f.read()
            places = [i for i in map(text.find, FINDINGS) if i >= 0]
            said += [f"{name}: {text[min(places):][:FINDING_CHARACTERS]}"] if places else []
        if said:
            raise Failure("\n".join(said))

    def kubectl(self, *argv, ok=True, input=None, limit=60, kubectl="kubectl"):
        # It ends before it has made much garbage: to collect that is a fifth of what it does.
        return run([kubectl, *argv], env={**self.env, "GOGC": "off"}, ok=ok, input=input, limit=limit)

    def torchrun(self, *argv, ok=True, cwd=None, limit=180):
        return run([binary("kubectl-torchrun"), *argv], env=self.env, ok=ok, cwd=cwd or self.folder,
                   limit=limit)

    def spawn_torchrun(self, *argv, cwd=None):
        return subprocess.Popen([binary("kubectl-torchrun"), *argv], env=self.env, text=True,
                                cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def apply(self, manifest):
        """What a manifest holds is there: what is new is asked for directly, kubectl changes the rest and says what is wrong."""
        documents = documents_of(manifest)
        while documents and self._made(documents[0]):
            documents.pop(0)
        if documents:
            # It reads what begins with a brace as JSON to the end, and separators are none.
            self.kubectl("apply", "-f", "-", input="---\n" + "\n---\n".join(documents))

    def new(self, manifest):
        """What a manifest holds is made, as `kubectl create` does it, which starts for a tenth of a second of a processor."""
        for document in documents_of(manifest, note=False):
            path, status, text = self._ask_for(document, CREATED)
            if not path:
                self.kubectl("create", "-f", "-", input=document)
            elif status != 201:
                raise Failure(f"{document}\n{status} {text.decode(errors='replace')}")

    def _ask_for(self, document, how):
        """(path, status, answer) of creating an object of this document; no path where its text does not tell one."""
        group, version, kind, ns = place_of(document)
        path = kind and self.rest.path(f"{kind.lower()}.{version}.{group}", ns=ns)
        if not path:
            return None, 0, b""
        return path, *self.rest.ask("POST", f"{path}?{how}", document.encode(),
                                    content="application/json" if as_json(document) else "application/yaml")

    def _made(self, document):
        """Whether an object of this document has been created. If one in YAML was so before, the note of it is made up for."""
        path, status, text = self._ask_for(document, APPLIED)
        if not path:
            return False
        if status == 201 and LAST_APPLIED not in document:
            self.made[path, json.loads(text)["metadata"]["name"]] = document
        elif status == 409 and (before := self.made.pop((path, json.loads(text)["details"]["name"]), None)):
            self.kubectl("apply", "set-last-applied", "--create-annotation", "-f", "-", input=before)
        return status == 201

    def create(self, made, ns="default"):
        """An object, as Python data: for what also runs where there is no kubectl."""
        status, text = self.rest.ask("POST", self.rest.path(made["kind"].lower(), ns=ns), json.dumps(made))
        if status != 201:
            raise Failure(f"{made['kind']} {made['metadata']['name']}: {status} {text.decode(errors='replace')}")

    def get(self, resource, name=None, ns="default", ok=True):
        """An object, or the items of a list, as Python data; None when it does not exist."""
        try:
            path = self.rest.path(resource, name, ns)
            if not path:
                raise Failure(f"{resource}: the server has no such resource")
            found = self.rest.get(path)
        except (Failure, OSError):
            if ok:
                raise
            return None
        if not found or name:
            return found
        for item in found["items"]:  # as kubectl shows them
            item.setdefault("apiVersion", found["apiVersion"])
            item.setdefault("kind", found["kind"].removesuffix("List"))
        return found["items"]

    def said(self, pod, ns="default", ok=True, **query):
        """What a pod has said; query: container, tailLines, as in the API. ok=False: "" when it cannot be had."""
        try:
            found = self.get("pod", pod, ns)
            if not found:  # as for kubectl: logs that outlive their pods are another matter
                raise OSError(f"pod {pod} does not exist")
            query.setdefault("container", found["spec"]["containers"][0]["name"])
            return self.rest.log(pod, ns, **query)
        except OSError:
            if ok:
                raise
            return ""

    def phase(self, job, ns="default"):
        found = self.get("torchrunjob", job, ns)
        return found and found.get("status", {}).get("phase")


def as_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def documents_of(manifest, note=True):
    """Its objects, each as text; those in JSON with the note of them that kubectl apply would leave, unless they need none."""
    made = as_json(manifest)
    if made:
        items = made["items"] if made.get("kind") == "List" else [made]
        return [json.dumps(noted(item) if note else item) for item in items]
    return [text for text in re.split(r"^---.*$", manifest, flags=re.MULTILINE) if re.search(r"^[^#\s]", text, re.MULTILINE)]


def noted(item):
    metadata = item.get("metadata", {})
    notes = {**(metadata.get("annotations") or {}), LAST_APPLIED: json.dumps(item)}
    return {**item, "metadata": {**metadata, "annotations": notes}}


def place_of(document):
    """(group, version, kind, namespace) of an object's text; kind None where that does not stand at its usual place."""
    made = as_json(document)
    if made:
        version, kind, ns = made.get("apiVersion"), made.get("kind"), made.get("metadata", {}).get("namespace")
    else:
        version, kind = (found and found[1] for found in (re.search(rf"^{key}: *([\w./-]+) *$", document, re.MULTILINE)
                                                         for key in ("apiVersion", "kind")))
        metadata = re.search(r"^metadata:(.*\n(?:(?: .*)?\n)*)", document + "\n", re.MULTILINE)
        found = metadata and re.search(r"[\s{,]namespace: *[\"']?([\w.-]+)", metadata[1])
        ns = found and found[1]
    group, _, version = (version or "").rpartition("/")
    return group, version, kind, ns or "default"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
