"""attacks.py: what a pod, an account with `edit` in one namespace (Pod Security baseline) and a person try against the rest, each
with the credentials it would have. A function returns the words of what it got, or nothing."""

import json
import os
import subprocess

from harness import binary, run, wait_for
from pods import container, pod
from test_escape import LONG_PATH, SPY

NAMESPACE = "guest"
WAITING_MAX = 4096  # WORKLOAD_WAITING_MAX of src/control/builtin/workload.h
STORED_MAX_MIB = 32  # of the namespace, as its annotation says
GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "chain"}}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "choosy"}}


def too_much():
    """(an object, what its refusal names): each would hold the loop, or has what is somebody else's."""
    chain = [{"name": f"s{n}", **({"parent": f"s{n - 1}"} if n else {})} for n in range(3000)]
    yield {**GROUP, "spec": {"minMember": 1, "subGroups": [*chain[:-1], {**chain[-1], "minMember": 1}]}}, "subGroups"
    labels = {f"k{n}": "v" for n in range(40000)}
    yield {**BUDGET, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}, "selector"
    asked = {f"example.com/{n}-{'long' * 12}": "1" for n in range(19000)}
    yield pod("extended", container("true"), resources={"limits": asked, "requests": asked}), "is too large"
    for port in ({"hostPort": 80, "hostIP": "127.0.0.1"}, {"hostPort": 53, "protocol": "UDP"}, {"hostPort": 30100}):
        yield pod("port", container("true", ports=[{"containerPort": 80, **port}])), "hostPort"


class Editor:
    """The account of a namespace whose pods may be root, but nothing that reaches the node."""

    def __init__(self, m, top):
        self.m, self.file, self.tries, self.held = m, os.path.join(top, "editor.kubeconfig"), 0, []
        m.kubectl("create", "namespace", NAMESPACE)
        m.kubectl("annotate", "namespace", NAMESPACE, f"muster.dev/bytes-max={STORED_MAX_MIB}Mi")
        m.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=baseline")
        m.kubectl("create", "serviceaccount", "editor", "-n", NAMESPACE)
        m.kubectl("create", "rolebinding", "editor", "-n", NAMESPACE, "--clusterrole=edit",
                  f"--serviceaccount={NAMESPACE}:editor")
        self.account("editor", self.file)

    def account(self, name, file):
        """A kubeconfig of that account."""
        token = self.m.kubectl("create", "token", name, "-n", NAMESPACE).stdout.strip()
        with open(self.m.kubeconfig) as f, open(file, "w") as out, open(os.path.join(self.m.data, "token")) as own:
            out.write(f.read().replace(own.read().strip(), token).replace("namespace: default", f"namespace: {NAMESPACE}"))

    def kubectl(self, *argv, input=None, ok=True):
        return run(["kubectl", "--kubeconfig", self.file, *argv], input=input, ok=ok)

    def create(self, made, ok=True):
        made.get("spec", {}).pop("nodeName", None)
        return self.kubectl("create", "-f", "-", input=json.dumps(made), ok=ok)

    def said(self, name):
        return self.kubectl("logs", name, ok=False).stdout

    def begin(self):
        """A pod that watches what joins it, and one that stops it."""
        small = {"requests": {"cpu": "50m"}, "limits": {"cpu": "200m", "memory": "256Mi"}}
        stop = ("import os, signal, time\nwhile True:\n  for pid in os.listdir('/proc'):\n"
                "    if pid.isdigit() and int(pid) not in (1, os.getpid()): os.kill(int(pid), signal.SIGSTOP)\n")
        path = [{"name": "PATH", "value": LONG_PATH}]
        self.create(pod("spy", container(["/usr/bin/python3", "-c", SPY, self.m.data.lstrip("/") + "/token"], env=path,
                                         resources=small), terminationGracePeriodSeconds=0))
        self.create(pod("stops", container(["/usr/bin/python3", "-c", stop], env=path, resources=small),
                        terminationGracePeriodSeconds=0))
        wait_for(lambda: "up" in self.said("spy"), "the spy", 120)
        self.create(pod("talks", container(["yes"], resources=small), terminationGracePeriodSeconds=0))
        self.create(pod("waits", container(["sleep", "36000"], resources=small), terminationGracePeriodSeconds=0))
        wait_for(lambda: "Running" in self.kubectl("get", "pod", "waits").stdout, "a pod that waits", 120)

    def flood(self, replicas):
        """A set of as many pods as a number can say, all at once, some of which fit; 0: they go."""
        if not replicas:
            self.kubectl("delete", "statefulset", "flood", "--cascade=foreground", "--timeout=120s")
            return
        self.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "flood"}, "spec": {
            "replicas": replicas, "serviceName": "flood", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "flood"}}, "template": {"metadata": {"labels": {"app": "flood"}}, "spec": {
                "terminationGracePeriodSeconds": 0, "containers": [container(["sleep", "600"], resources={
                    "requests": {"cpu": "100m"}, "limits": {"cpu": "100m", "memory": "64Mi"}})]}}}})

    def flooded(self):
        """Whether there are more pods of it than may wait, and those that fit."""
        pods = self.kubectl("get", "pods", "-l", "app=flood", "-o", "jsonpath={.items[*].spec.nodeName}{'/'}{.items[*].kind}")
        bound, there = (len(part.split()) for part in pods.stdout.split("/"))
        return f"a StatefulSet of 2e9: {there} pods, {bound} on a node" if there > bound + WAITING_MAX else None

    def look(self):
        self.kubectl("exec", "spy", "--", "true", ok=False)
        got = [line for line in self.said("spy").splitlines() if line.startswith("reached")]
        return f"exec: {got[0]}" if got else None

    def lead_out(self):
        name = f"doors{self.tries}"
        doors = [container("cat ../../token", name=f"d{n}", workingDir=f"/proc/self/fd/{n}") for n in range(3, 20)]
        self.create(pod(name, *doors))

        def over():
            found = json.loads(self.kubectl("get", "pod", name, "-o", "json").stdout)["status"]
            return found.get("phase") in ("Failed", "Succeeded") and found
        ends = [c["state"]["terminated"] for c in wait_for(over, "the doors to shut", 120)["containerStatuses"]]
        self.kubectl("delete", "pod", name, "--wait=false")
        got = [end for end in ends if end["exitCode"] != 128]
        return f"workingDir: {got[0]}" if got else None

    def grow(self):
        env = [{"name": "L0", "value": "x" * 4096}] + [{"name": f"L{n + 1}", "value": f"$(L{n})" * 4} for n in range(12)]
        self.kubectl("delete", "pod", f"grows{self.tries - 1}", "--ignore-not-found", "--wait=false")
        self.create(pod(f"grows{self.tries}", container(["true"], env=env), restart="Always"))

    def overask(self):
        """What is stored of what could never be."""
        bad = pod("negative", container("true"), resources={"requests": {"cpu": "-3"}})
        job = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": "large"},
               "spec": {"numNodes": 100000}}
        for made in bad, job:
            if self.create(made, ok=False).returncode == 0:
                return f"stored: {made['kind']} {made['metadata']['name']}"
        return None

    def overload(self):
        """What is taken, or refused for another reason than its own."""
        for made, word in too_much():
            said = self.create(made, ok=False)
            if said.returncode == 0 or word not in said.stderr:
                return f"{made['kind']} {made['metadata']['name']}, not refused for its {word}: {said.stdout}{said.stderr[-300:]}"
        return None

    def hoard(self):
        """More bytes than the namespace may have, once; they go again."""
        if self.tries > 1:
            return None
        full = {"data": {"a": "x" * 1000000}}
        for part in range(5):
            maps = [{"apiVersion": "v1", "kind": "ConfigMap", **full,
                     "metadata": {"name": f"hoard{part}-{n}", "labels": {"of": "hoard"}}} for n in range(8)]
            said = self.create({"apiVersion": "v1", "kind": "List", "items": maps}, ok=False)
        self.kubectl("delete", "configmap", "-l", "of=hoard", "--wait=false")
        return None if "bytes-max" in said.stderr else f"40 MB are stored: {said.stdout[-200:]}{said.stderr[-300:]}"

    def hold(self):
        """Streams that are opened and not read until the next time, and readers of stacks that leave at once."""
        self.let_go()
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        words = [["get", "--raw", f"{pods}/waits/results?folder=/usr"]] * 6 + [["logs", "-f", "talks"]] * 4
        leave = [["get", "--raw", f"{pods}/spy/stacks"]] * 4
        self.held = [subprocess.Popen(["kubectl", "--kubeconfig", self.file, *argv], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL) for argv in words + leave]
        for process in self.held[len(words):]:
            process.kill()

    def let_go(self):
        for process in self.held:
            process.kill()
            process.communicate()
        self.held = []

    def revoked(self):
        """An account that the owner deletes while it watches: that ends."""
        name, file = f"gone{self.tries}", f"{self.file}.gone"
        self.m.kubectl("create", "serviceaccount", name, "-n", NAMESPACE)
        self.m.kubectl("create", "rolebinding", name, "-n", NAMESPACE, "--clusterrole=view",
                       f"--serviceaccount={NAMESPACE}:{name}")
        self.account(name, file)
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        with subprocess.Popen(["kubectl", "--kubeconfig", file, "get", "--raw", f"{pods}?watch=true"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
            seen = watch.stdout.readline()
            self.m.kubectl("delete", "serviceaccount", name, "-n", NAMESPACE)
            try:
                watch.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                watch.kill()
                return "the watch of an account that was deleted goes on"
        return None if seen else "an account that is there sees no pods"

    def attack(self):
        self.tries += 1
        self.grow()
        self.hold()
        for what in self.look, self.lead_out, self.overask, self.overload, self.hoard, self.revoked, self.flooded:
            got = what()
            if got:
                return got
        return None


def person_leads_out(person, number):
    """Of a person: the same ways with her own id."""
    name = f"door{number}"
    person.create(pod(name, *[container("cat ../../token", name=f"d{n}", workingDir=f"/proc/self/fd/{n}") for n in (3, 4, 5, 6)]))
    found = wait_for(lambda: person.phase(name), "the door to shut", 120)
    person.kubectl("delete", "pod", name, "--wait=false")
    got = [c for c in found["containerStatuses"] if c["state"]["terminated"]["exitCode"] != 128]
    return f"workingDir: {got[0]}" if got else None


def merge(m, home):
    """The owner writes a kubeconfig into the machine's home, while pods run already; its path."""
    if not os.path.exists(f"{m.data}/kubeconfig"):
        os.link(m.kubeconfig, f"{m.data}/kubeconfig")  # where it is unless --kubeconfig-out says otherwise
    return run([binary("muster"), "kubeconfig", "--data-dir", m.data, "--merge"], env={**m.env, "HOME": home}).stdout.strip()


def reads_kubeconfig(who, name, path):
    """From a pod that ran before it was written."""
    said = who.kubectl("exec", name, "--", "cat", path, ok=False)
    return f"{path}: {said.stdout[:200]}" if "token" in said.stdout else None
