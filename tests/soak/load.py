"""load.py: what people do to a muster while it is soaked: work of every kind, users, queues, nodes, and what they look at.

Each Actor is a thread that makes something, sees what becomes of it and takes it away again, until it is told to stop. What
muster acknowledged goes into the Ledger; a pod of it writes a line when it starts. So in the end it can be said whether
anything was lost, and whether anything ran twice.
"""

import collections
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

from pods import container  # noqa: E402

NODE = {"kubernetes.io/hostname": "node-0"}
PATIENCE_S = 240  # for one thing to come to its end, restarts and a slow disk included
GONE = (404, 409)


class Ledger:
    """What was acknowledged and what became of it."""

    def __init__(self, folder):
        self.folder = folder  # in the volume that pods write to
        self.lock = threading.Lock()
        self.there = {}  # path: uid, of what must be there
        self.ended = 0  # pods that were seen to succeed
        self.made = collections.Counter()
        self.wrong = []
        self.latency = collections.defaultdict(list)  # what: [ms]

    def starts(self):
        found = next((os.path.join(at, "starts") for at, _, files in os.walk(self.folder) if "starts" in files), None)
        if not found:
            return collections.Counter()
        with open(found) as f:
            return collections.Counter(f.read().split())

    def complain(self, text):
        with self.lock:
            self.wrong.append(text)
        print(f"wrong: {text}", flush=True)


class Actor(threading.Thread):
    """One that does act() again and again; a muster that is away is asked again."""

    def __init__(self, soak, number):
        super().__init__(daemon=True)
        self.soak, self.m, self.ledger, self.number = soak, soak.m, soak.ledger, number
        self.random = random.Random(f"{soak.seed} {type(self).__name__} {number}")
        self.count = 0

    def run(self):
        while not self.soak.over.is_set():
            self.count += 1
            self.own = []
            try:
                self.act(f"{type(self).__name__.lower()}-{self.number}-{self.count}")
            except TimeoutError as e:
                if not self.soak.over.is_set():
                    self.ledger.complain(str(e))
            except Exception as e:  # a muster that is killed amid an answer: any sort of garbage
                self.soak.trouble[type(e).__name__] += 1
                self.soak.left += self.own  # what it would have taken away
            self.soak.over.wait(self.random.uniform(0, 0.2))

    def ask(self, method, path, body=None):
        """(status, document) once muster answers; it may be away for a while."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            began = time.monotonic()
            try:
                status, text = self.m.rest.ask(method, path, body and json.dumps(body))
                if status < 500 and status != 429:
                    self.ledger.latency[method].append((time.monotonic() - began) * 1000)
                    return status, json.loads(text) if text.startswith(b"{") else {}
            except (OSError, ValueError):
                pass
            if time.monotonic() > deadline or self.soak.ended.is_set():
                raise TimeoutError(f"{method} {path}: nobody answered for {PATIENCE_S} s")
            time.sleep(0.1)

    def make(self, path, body):
        """Created, and known to be: an answer that was lost may mean that it was, too."""
        status, made = self.ask("POST", path, body)
        at = f"{path}/{body['metadata']['name']}"
        if status == 409:
            status, made = self.ask("GET", at)
        if status not in (200, 201):
            self.ledger.complain(f"POST {at}: {status} {made.get('message', '')}")
            return None
        with self.ledger.lock:
            self.ledger.there[at] = made["metadata"]["uid"]
            self.ledger.made[body["kind"]] += 1
        self.own.append(at)
        return at

    def look(self, at):
        status, found = self.ask("GET", at)
        if status != 200:
            self.ledger.complain(f"lost: {at}: {status}")
            raise RuntimeError(at)
        return found

    def take(self, at):
        with self.ledger.lock:
            self.ledger.there.pop(at, None)
        self.own = [own for own in self.own if own != at]
        status, said = self.ask("DELETE", at, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
        if status not in (200, 202, *GONE):
            self.ledger.complain(f"DELETE {at}: {status} {said.get('message', '')}")

    def until(self, at, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not self.soak.over.is_set():
            found = self.look(at)
            if condition(found):
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{at}: not {what} after {PATIENCE_S} s: {json.dumps(found.get('status', {}))[:300]}")
            time.sleep(0.15)
        return None


CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"},
         "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}}


def notes(name, seconds):
    return container(f"echo {name} >> /d/starts; sleep {seconds:.2f}; echo done", volumeMounts=[{"name": "d", "mountPath": "/d"}])


def pod_spec(*containers, restart="Never"):
    return {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "nodeSelector": NODE, "containers": list(containers),
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}


def has(*types):
    return lambda o: any(c["type"] in types and c["status"] == "True" for c in o.get("status", {}).get("conditions", []))


class Pods(Actor):
    def act(self, name):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": pod_spec(notes(name, self.random.uniform(0, 1.5)))}
        at = self.make("/api/v1/namespaces/default/pods", body)
        found = at and self.until(at, lambda o: o.get("status", {}).get("phase") in ("Succeeded", "Failed"), "over")
        if not found:
            return
        if found["status"]["phase"] != "Succeeded":
            self.ledger.complain(f"pod {name} failed: {json.dumps(found['status'])[:400]}")
        self.ledger.ended += 1
        self.take(at)


class Jobs(Actor):
    """Jobs of every kind; their pods write down who they are, by the job and the index that it gives them."""

    def act(self, name):
        seconds = self.random.uniform(0, 1)
        pod = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(notes(name, seconds))}
        kind = self.random.choice(("Job", "PyTorchJob", "JobSet", "TorchrunJob"))
        if kind == "Job":
            path, spec, end, runs = "/apis/batch/v1", {"backoffLimit": 0, "template": pod}, has("Complete"), 1
        elif kind == "PyTorchJob":
            pod["spec"]["containers"][0]["name"] = "pytorch"
            replica = {"replicas": 1, "restartPolicy": "Never", "template": pod}
            path, end, runs = "/apis/kubeflow.org/v1", has("Succeeded"), 2
            spec = {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}, "runPolicy": {"cleanPodPolicy": "None"}}
        elif kind == "JobSet":
            job = {"backoffLimit": 0, "template": pod}
            path, end, runs = "/apis/jobset.x-k8s.io/v1alpha2", has("Completed"), 2
            spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job}}]}
        else:
            path, runs = "/apis/torchrun.ai/v1alpha1", None  # it has no volume to say so
            spec = {"jobQueue": "small", "numNodes": 1, "nprocPerNode": 1, "command": f"sleep {seconds:.2f}"}
            end = lambda o: o.get("status", {}).get("phase") in ("Succeeded", "Failed")  # noqa: E731
        body = {"apiVersion": path[6:], "kind": kind, "metadata": {"name": name}, "spec": spec}
        at = self.make(f"{path}/namespaces/default/{kind.lower()}s", body)
        if not at:
            return
        done = self.until(at, lambda o: end(o) or has("Failed")(o), "over")
        count = self.ledger.starts()[name]
        if done and (not end(done) or (runs and count != runs)):
            self.ledger.complain(f"{kind} {name}: {count} starts, not {runs}: {json.dumps(done.get('status'))[:300]}")
        self.take(at)


class Deployments(Actor):
    def act(self, name):
        pod = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(container("exec sleep 1000"), restart="Always")}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": pod}
        at = self.make("/apis/apps/v1/namespaces/default/deployments",
                       {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
        if at and self.until(at, lambda o: o.get("status", {}).get("availableReplicas") == 1, "available"):
            self.take(at)


class Objects(Actor):
    """ConfigMaps and Secrets: written, changed, read back as they were written."""

    def act(self, name):
        path, kind = self.random.choice((("configmaps", "ConfigMap"), ("secrets", "Secret")))
        field = "data" if kind == "ConfigMap" else "stringData"
        text = "x" * self.random.randint(10, 20000)
        at = self.make(f"/api/v1/namespaces/default/{path}",
                       {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: {"text": text}})
        for n in range(self.random.randint(0, 5) if at else 0):
            found = self.look(at)
            found.setdefault("metadata", {}).setdefault("annotations", {})["n"] = str(n)
            status, _ = self.ask("PUT", at, found)
            if status == 200 and self.look(at)["metadata"]["annotations"].get("n") != str(n):
                self.ledger.complain(f"lost: a change of {at}")
        if at and self.random.random() < 0.95:
            self.take(at)
        elif at:  # stays for a while: what a crash must not take
            self.soak.keep.append(at)
            if len(self.soak.keep) > 40:
                self.take(self.soak.keep.pop(0))


class Users(Actor):
    def act(self, name):
        api, rbac = "/api/v1/namespaces/default", "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        account = self.make(f"{api}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        role = self.make(f"{rbac}/roles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                            "metadata": {"name": name},
                                           "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]})
        binding = self.make(f"{rbac}/rolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
        if account:
            status, said = self.ask("POST", f"{account}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                                 "spec": {}})
            if status != 201:
                self.ledger.complain(f"token of {name}: {status} {said.get('message', '')}")
        for at in filter(None, (binding, role, account)):
            self.take(at)


class Queues(Actor):
    def act(self, name):
        resources = {r: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for r in ("cpu", "gpu", "memory")}
        at = self.make("/apis/scheduling.run.ai/v2/queues", {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
                                                             "metadata": {"name": name}, "spec": {"resources": resources}})
        if at:
            self.take(at)
        self.ask("GET", "/api/v1/namespaces/default/pods")
        self.ask("GET", "/api/v1/nodes")


class Watchers(Actor):
    """Somebody who watches, and looks away again."""

    def act(self, name):
        seconds = self.random.randint(1, 15)
        path = self.random.choice(("/api/v1/pods", "/api/v1/configmaps", "/apis/batch/v1/jobs"))
        self.m.rest.ask("GET", f"{path}?watch=true&timeoutSeconds={seconds}&allowWatchBookmarks=true")


ACTORS = {Pods: 3, Jobs: 2, Deployments: 1, Objects: 2, Users: 1, Queues: 1, Watchers: 2}
