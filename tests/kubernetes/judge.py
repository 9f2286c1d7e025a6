#!/usr/bin/env python3
"""judge.py [--pods N] [--seed N] [--nodes N]: kube-scheduler as a judge of our filters, on a real API server.

Every case is a pod that can go to one node only, a few others that are there already, and namespaces of its own. It is asked
twice, of kube-scheduler and of `muster operator`, in twin namespaces that do not see each other: both bind it, or neither does.
Pods are pinned to their node by an affinity to its name, or by a resource that only that node has, which leaves the counts of
topology spread alone. Volumes are bound already, or are to be made: nobody makes them here, so that what is told their claim,
or who is given one, is the answer. Ends with `N passed, N failed`; a disagreement is printed with the whole pod, and
`--only NUMBER` asks it again.
"""

import argparse
import http.client
import json
import os
import random
import ssl
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e"), os.path.dirname(HERE)]
from cluster import RBAC, Operator  # noqa: E402
from controlplane import ACCOUNT, ControlPlane  # noqa: E402
from harness import PATIENCE, Failure, Skip, wait_for  # noqa: E402

BATCH = 100      # cases that are under way at a time
THREADS = 8
DECIDED_S = 120  # for one batch
WHOLE_MAX = 20   # disagreements that are printed with all of their pods
VOLUMES = 0.35   # of the pods have some
SIDES = {"k": "default-scheduler", "m": "kai-scheduler"}
BOUND = {"bound", "zoned", "alone", "limited", "going", "lost"}  # claims that have their volume
STATIC = {"local", "mode", "chosen", "shared", "kept"}  # that get one of those that are there
OWN = {"own", "foreign"}  # that are made for the pod; "foreign": somebody else made it
KINDS = ("bound", "bound", "zoned", "alone", "limited", "going", "lost", "waits", "waits", "room", "room", "told", "local",
         "local", "mode", "chosen", "shared", "kept", "now", "missing", "own", "foreign")
GATE = "example.com/claim"
GROUPS = "/apis/scheduling.run.ai/v2alpha2"
SELECTED = "volume.kubernetes.io/selected-node"
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
# What every kubelet would be, but for what admission adds to nodes that have just come, and to pods without a service account.
FLAGS = ["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,DefaultTolerationSeconds"]


# ---- what is asked ----
def nodes(rng, count):
    """Nodes that differ in labels, taints and room; each has a resource of its own name."""
    for i in range(count):
        labels = {"kubernetes.io/hostname": f"n{i}", "zone": rng.choice("abc"), "rack": rng.choice("xy"),
                  "gen": str(rng.randint(1, 5))}
        if i % 4:
            labels["topology.kubernetes.io/zone"] = labels["zone"]
        if rng.random() < 0.15:
            del labels[rng.choice(("zone", "rack"))]
        taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in
                  (("own", "a", "NoSchedule"), ("old", "", "NoExecute"), ("soft", "", "PreferNoSchedule")) if rng.random() < 0.2]
        room = {"cpu": "4000", "memory": "8Ti", "pods": "100000", f"example.com/pin-{i}": "1000000"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", "labels": labels},
               "spec": {"taints": taints, "unschedulable": i == count - 1},
               "status": {"allocatable": room, "capacity": room, "conditions": [
                   {"type": "Ready", "status": "True", "reason": "Made", "message": "", "lastHeartbeatTime": None,
                    "lastTransitionTime": None}]}}


def selector(rng):
    return rng.choice(({"matchLabels": {"app": rng.choice("xy")}}, {"matchLabels": {"app": "x"}}, {}, None,
                       {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]},
                       {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))


def term(rng, side):
    one = {"topologyKey": rng.choice(("zone", "rack", "kubernetes.io/hostname")), "labelSelector": selector(rng)}
    if rng.random() < 0.3:
        one["namespaceSelector"] = {"matchLabels": {"case": side}} if rng.random() < 0.7 else {"matchLabels": {"case": "none"}}
    elif rng.random() < 0.2:
        one["namespaces"] = [side + "-b"]
    if one["labelSelector"] is not None and rng.random() < 0.2:
        one[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    return one


def spread(rng):
    one = {"maxSkew": rng.randint(1, 2), "topologyKey": rng.choice(("zone", "rack", "kubernetes.io/hostname")),
           "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(rng)}
    for word, values in (("nodeAffinityPolicy", ("Honor", "Ignore")), ("nodeTaintsPolicy", ("Honor", "Ignore")),
                         ("minDomains", (1, 2, 4)), ("matchLabelKeys", (["version"],))):
        if rng.random() < 0.3:
            one[word] = rng.choice(values)
    if rng.random() < 0.15:  # a wish, which refuses nobody
        one["whenUnsatisfiable"] = "ScheduleAnyway"
        one.pop("minDomains", None)
    if one["labelSelector"] is None:
        one.pop("matchLabelKeys", None)
    return one


def node_term(rng):
    return {"matchExpressions": [rng.choice((
        {"key": "zone", "operator": "In", "values": rng.sample("abc", 2)}, {"key": "zone", "operator": "NotIn", "values": ["a"]},
        {"key": "rack", "operator": "Exists"}, {"key": "rack", "operator": "DoesNotExist"},
        {"key": "gen", "operator": "Gt", "values": ["2"]}, {"key": "gen", "operator": "Lt", "values": ["4"]}))]}


def tolerations(rng):
    words = ({"key": "own", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, {"key": "own", "operator": "Exists"},
             {"key": "own", "operator": "Equal", "value": "b"}, {"key": "old", "operator": "Exists", "effect": "NoExecute"},
             {"key": "old", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}, {"key": "own", "value": "a"},
             {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
             {"key": "old", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60})
    return rng.sample(words, rng.randint(0, 3))


def mounts(claims):
    """Volumes of a pod: of claims by name, and of one that is made for it (kind "own")."""
    return [{"name": claim, "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}} if kind in OWN else
        {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim, kind in claims]


def port(rng, number):
    return {"containerPort": 1, "hostPort": number, "protocol": rng.choice(("TCP", "TCP", "UDP", "SCTP")),
            "hostIP": rng.choice(("", "0.0.0.0", "127.0.0.1", "127.0.0.2"))}


def pod(name, namespace, rng, **spec):
    labels = {"app": rng.choice("xyz"), "version": rng.choice("12")}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}, **spec.pop("container", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}}


def limited(space):
    """A driver that is one pod's."""
    return f"{space}.limited.example.com"


def disk_driver(doc):
    return doc.get("spec", {}).get("csi", {}).get("driver")


def terms_of(rng, node_count):
    """Nodes from which a volume can be used, as a node affinity."""
    return [{"matchExpressions": [rng.choice((
        {"key": "zone", "operator": "In", "values": rng.sample("abc", 2)}, {"key": "rack", "operator": "NotIn", "values": ["x"]},
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{i}" for i in range(node_count) if rng.random() < 0.6]
         or ["n0"]}))]}]


def volumes(rng, space, node_count, target):
    """(documents, [(claim, kind)]) of a pod's volumes; a few kinds of claims, each with what it needs."""
    docs, claims = [], []
    for i in range(rng.choice((1, 1, 2))):
        kind = rng.choice(KINDS)
        claim, volume, cls = f"c{i}", f"{space}-{i}", f"{space}-{i}"
        name = f"asked-{claim}" if kind in OWN else claim
        driver = {"limited": limited(space), "room": "room.example.com"}.get(kind, "disks.example.com")
        spec = {"accessModes": ["ReadWriteOncePod" if kind == "alone" else "ReadWriteOnce"], "storageClassName": cls,
                "resources": {"requests": {"storage": rng.choice(("1Gi", "2Gi"))}}}
        disk = {"capacity": {"storage": rng.choice(("1Gi", "2Gi", "3Gi"))}, "accessModes": list(spec["accessModes"]),
                "storageClassName": cls, "persistentVolumeReclaimPolicy": "Retain", "csi": {
                    "driver": driver, "volumeHandle": volume}}
        meta, of, phase = {"name": volume}, {"name": name, "annotations": {}}, "Available"
        klass = {"provisioner": "kubernetes.io/no-provisioner" if kind in STATIC else driver,
                 "volumeBindingMode": "Immediate" if kind in BOUND or kind == "now" else "WaitForFirstConsumer"}
        ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": space, "name": name}
        if kind == "zoned":
            meta["labels"] = {rng.choice(("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")):
                              rng.choice(("a", "b__c", "a__b"))}
        elif kind in ("waits", "room") and rng.random() < 0.7:
            zones = rng.sample("abc", rng.randint(1, 2))
            klass["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]
            if rng.random() < 0.3:
                klass["allowedTopologies"].append({"matchLabelExpressions": [{"key": "rack", "values": ["x"]}]})
        elif kind == "told":  # another node, by whoever came before
            of["annotations"][SELECTED] = f"n{(target + 1) % node_count}"
        elif kind == "mode":
            disk["volumeMode"], spec["volumeMode"] = rng.choice((
                ("Block", "Filesystem"), ("Filesystem", "Block"), ("Block", "Block")))
        elif kind == "chosen":
            meta["labels"] = {"disk": rng.choice(("ssd", "hdd"))}
            spec["selector"] = {"matchLabels": {"disk": "ssd"}}
        elif kind == "shared":
            spec["accessModes"] = ["ReadWriteMany"]
            disk["accessModes"] = ["ReadWriteOnce", *rng.choice(([], ["ReadWriteMany"]))]
        elif kind == "kept":  # for the claim, or for one of its name before it
            disk["claimRef"] = {**ref, **rng.choice(({}, {"uid": "before"}, {"name": "another"}))}
            phase = "Released" if "uid" in disk["claimRef"] else "Available"
        elif kind == "going":
            of["finalizers"] = ["example.com/stays"]
        elif kind == "own":
            of["ownerReferences"] = []
        if kind in ("bound", "going") or kind in STATIC:
            disk["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms_of(rng, node_count)}}
        if kind in BOUND:
            spec["volumeName"], disk["claimRef"], phase = volume, ref, "Bound"
            of["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        claims.append((claim, kind))
        docs.append(("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": cls}, **klass}))
        if kind == "room":
            for n in range(rng.choice((1, 2))):
                size = {rng.choice(("capacity", "maximumVolumeSize")): rng.choice(("1Gi", "2Gi"))}
                docs.append((f"/apis/storage.k8s.io/v1/namespaces/{space}/csistoragecapacities", {
                    "metadata": {"name": f"room-{i}-{n}"}, "storageClassName": cls, **size, "nodeTopology": rng.choice((
                        {"matchLabels": {"zone": rng.choice("abc")}}, {"matchLabels": {"rack": "x"}}, {}))}))
        if (kind in BOUND and kind != "lost") or kind in STATIC:
            docs.append(("/api/v1/persistentvolumes", {"metadata": meta, "spec": disk, "status": {"phase": phase}}))
        if kind != "missing":
            docs.append((f"/api/v1/namespaces/{space}/persistentvolumeclaims", {
                "metadata": of, "spec": spec}))
    return docs, claims


def there(rng, space, number, node_count):
    """A pod that is there: on a node, maybe about to end, or ended."""
    more = {"nodeName": f"n{rng.randrange(node_count)}", "schedulerName": SIDES["k"]}
    if rng.random() < 0.3:
        more["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(rng, space)]}}
    if rng.random() < 0.3:
        more["container"] = {"ports": [port(rng, number)]}
    if rng.random() < 0.1:
        more["initContainers"] = [{"name": "i", "image": "i", "ports": [port(rng, number)],
                                   **rng.choice(({}, {"restartPolicy": "Always"}))}]
    state = rng.random()
    return more, "ends" if state < 0.1 else "Succeeded" if state < 0.2 else ""


def case(number, seed, side, node_count):
    """Documents of one side: those that are there already, the pod that is asked about, and what its volumes are. Both sides
    draw the same."""
    rng = random.Random(f"{seed} {number}")
    space = f"{side}-{number}"
    host_port = (10000 if side == "k" else 35000) + number % 20000
    target = rng.randrange(node_count)
    docs = []
    for i in range(rng.randint(0, 4)):
        more, state = there(rng, space, host_port, node_count)
        docs.append(pod(f"there-{i}", space if rng.random() < 0.8 else space + "-b", rng, **more))
        if state == "ends":
            docs[-1]["metadata"]["finalizers"] = ["example.com/stays"]
        elif state:
            docs[-1]["status"] = {"phase": state}
    storage, claims = volumes(rng, space, node_count, target) if rng.random() < VOLUMES else ([], [])
    for claim, kind in claims:
        if kind in ("alone", "limited") and rng.random() < 0.5:
            docs.append(pod(f"has-{claim}", space, rng, nodeName=f"n{rng.choice((target, rng.randrange(node_count)))}",
                            schedulerName=SIDES["k"], volumes=mounts([(claim, kind)])))
    spec, affinity, container = {"schedulerName": SIDES[side], "tolerations": tolerations(rng)}, {}, {}
    if rng.random() < 0.4:
        near = [term(rng, space) for _ in range(rng.choice((1, 1, 2)))]
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": near}
    if rng.random() < 0.4:
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term(rng, space)]}
    if rng.random() < 0.5:
        spec["topologySpreadConstraints"] = [spread(rng)]
        if rng.random() < 0.2:
            other = spread(rng)
            if other["topologyKey"] != spec["topologySpreadConstraints"][0]["topologyKey"]:
                spec["topologySpreadConstraints"].append(other)
    if rng.random() < 0.2:
        spec["nodeSelector"] = rng.choice(({"zone": rng.choice("abc")}, {"rack": "x"}, {"kubernetes.io/hostname": f"n{target}"}))
    terms = [node_term(rng) for _ in range(rng.randint(1, 2))] if rng.random() < 0.3 else None
    if rng.random() < 0.4:
        container["ports"] = [port(rng, host_port)]
    if rng.random() < 0.1:
        spec["initContainers"] = [{"name": "i", "image": "i", "ports": [port(rng, host_port)],
                                   **rng.choice(({}, {"restartPolicy": "Always"}))}]
    request = {"cpu": "1m"}
    if rng.random() < 0.4:
        pin = [{"key": "metadata.name", "operator": "In", "values": [f"n{target}"]}]
        terms = [{**t, "matchFields": pin} for t in terms or [{}]]
    else:
        request[f"example.com/pin-{target}"] = "1"
    container["resources"] = {"requests": request, "limits": {k: v for k, v in request.items() if k != "cpu"}}
    if terms:
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if affinity:
        spec["affinity"] = affinity
    if claims:
        spec["volumes"] = mounts(claims)
    if any(kind == "own" for _, kind in claims):
        spec["schedulingGates"] = [{"name": GATE}]  # until its claim is there, which names its uid
    return docs, storage, pod("asked", space, rng, container=container, **spec)


# ---- the server ----
class Client:
    """One connection a thread."""

    def __init__(self, plane):
        self.plane = plane
        self.context = ssl.create_default_context(cafile=plane.certs.path("ca.crt"))
        self.context.load_cert_chain(plane.certs.path("admin.crt"), plane.certs.path("admin.key"))
        self.connection = None

    def ask(self, method, path, body=None, kind="application/json"):
        for last in (False, True):
            try:
                self.connection = self.connection or http.client.HTTPSConnection(
                    "127.0.0.1", self.plane.port, context=self.context, timeout=60 * PATIENCE)
                self.connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": kind})
                answer = self.connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self.connection = None
                if last:
                    raise
        if answer.status >= 400 and answer.status not in (404, 409):
            raise Failure(f"{method} {path}: {answer.status} {text.decode(errors='replace')[:500]}")
        return json.loads(text)


class Judge:
    def __init__(self, plane, options):
        self.plane, self.options = plane, options
        self.operator = None
        self.clients = [Client(plane) for _ in range(THREADS)]
        self.pool = ThreadPoolExecutor(THREADS)
        self.spent = {"making": 0.0, "deciding": 0.0, "clearing": 0.0}  # seconds

    def timed(self, what, began):
        """What has been done since then, and the time now."""
        now = time.monotonic()
        self.spent[what] += now - began
        return now

    def each(self, work, items):
        """work(client, item) for all items, THREADS at a time, each with a connection of its own."""
        items = list(items)
        parts = [items[i::THREADS] for i in range(THREADS)]
        list(self.pool.map(lambda pair: [work(pair[0], item) for item in pair[1]], zip(self.clients, parts)))

    def make_nodes(self):
        for node in nodes(random.Random(f"{self.options.seed} nodes"), self.options.nodes):
            self.clients[0].ask("POST", "/api/v1/nodes", node)
            name = node["metadata"]["name"]
            self.clients[0].ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": node["status"]},
                                "application/merge-patch+json")
            self.clients[0].ask("POST", "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": name}, "spec": {"drivers": []}})
        self.clients[0].ask("POST", "/apis/storage.k8s.io/v1/csidrivers", {
            "metadata": {"name": "room.example.com"}, "spec": {"attachRequired": False, "storageCapacity": True}})

    def limit(self, sides):
        """What each node can attach of the drivers that are limited: each of these is one pod's."""
        spaces = sorted({(number, asked["metadata"]["namespace"]) for number, _, _, storage, asked in sides
                         if any(limited(asked["metadata"]["namespace"]) == disk_driver(doc) for _, doc in storage)})
        for i in range(self.options.nodes):
            drivers = [{"name": limited(space), "nodeID": f"n{i}", "allocatable": {
                "count": random.Random(f"{self.options.seed} {number} {i} limit").choice((0, 1, 1, 2))}}
                for number, space in spaces]
            self.clients[0].ask("PATCH", f"/apis/storage.k8s.io/v1/csinodes/n{i}", {"spec": {"drivers": drivers}},
                                "application/merge-patch+json")

    def make_queues(self):
        for name, parent in (("default-parent-queue", None), ("default-queue", "default-parent-queue")):
            spec = {"resources": {r: UNLIMITED for r in ("gpu", "cpu", "memory")}, **({"parentQueue": parent} if parent else {})}
            self.clients[0].ask("POST", "/apis/scheduling.run.ai/v2/queues", {
                "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec})

    @staticmethod
    def make_storage(client, item):
        """An object and its status, which nobody else here sets. Admission adds what protects it from being deleted."""
        path, doc = item
        client.ask("POST", path, doc)
        if doc.get("status", {}).get("phase", "Bound") != "Bound":  # of what is bound, other fields say so
            client.ask("PATCH", f"{path}/{doc['metadata']['name']}/status", {"status": doc["status"]},
                       "application/merge-patch+json")
        if doc["metadata"].get("finalizers"):
            client.ask("DELETE", f"{path}/{doc['metadata']['name']}")

    @staticmethod
    def make_pod(client, doc):
        path = f"/api/v1/namespaces/{doc['metadata']['namespace']}/pods"
        at = f"{path}/{doc['metadata']['name']}"
        doc["metadata"]["uid"] = client.ask("POST", path, doc)["metadata"].get("uid")
        if doc.get("status"):
            client.ask("PATCH", at + "/status", {"status": doc["status"]}, "application/merge-patch+json")
        if doc["metadata"].get("finalizers"):
            client.ask("DELETE", at + "?gracePeriodSeconds=0")

    @staticmethod
    def let_go(client, doc):
        """The claim that is made for a pod is there, and is its own."""
        client.ask("PATCH", f"/api/v1/namespaces/{doc['metadata']['namespace']}/pods/{doc['metadata']['name']}",
                   {"spec": {"schedulingGates": None}}, "application/merge-patch+json")

    @staticmethod
    def drop_pod(client, doc):
        at = f"/api/v1/namespaces/{doc['metadata']['namespace']}/pods/{doc['metadata']['name']}"
        if doc["metadata"].get("finalizers"):
            client.ask("PATCH", at, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        client.ask("DELETE", at + "?gracePeriodSeconds=0")

    def clear(self, numbers):
        """What is to be asked again begins with nothing."""
        began = time.monotonic()
        sides = [case(n, self.options.seed, side, self.options.nodes) for n in numbers for side in SIDES]
        self.each(self.drop_pod, [doc for docs, *_ in sides for doc in docs])
        self.each(self.drop_storage, [item for _, storage, _ in sides for item in storage])
        self.timed("clearing", began)

    @staticmethod
    def drop_storage(client, item):
        path, doc = item
        at = f"{path}/{doc['metadata']['name']}"
        client.ask("PATCH", at, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        client.ask("DELETE", at)

    def chosen(self, before):
        """{namespace: node} of claims that were told a node, and of claims that were given a volume: "given". Not of those
        that were `before` anybody was asked."""
        told = {}
        for item in self.clients[0].ask("GET", "/api/v1/persistentvolumeclaims")["items"]:
            node = item["metadata"].get("annotations", {}).get(SELECTED)
            if node and (item["metadata"]["namespace"], item["metadata"]["name"], node) not in before:
                told[item["metadata"]["namespace"]] = node
        for item in self.clients[0].ask("GET", "/api/v1/persistentvolumes")["items"]:
            ref = item["spec"].get("claimRef") or {}
            if ref.get("uid", "before") != "before":
                told.setdefault(ref["namespace"], "given")
        return told

    def batch(self, numbers):
        """{number: (kube-scheduler's node or None, ours)}"""
        began = time.monotonic()
        sides = [(n, side, *case(n, self.options.seed, side, self.options.nodes)) for n in numbers for side in SIDES]
        names = {doc["metadata"]["namespace"] for *_, docs, _, asked in sides for doc in [*docs, asked]}
        self.each(lambda c, name: c.ask("POST", "/api/v1/namespaces", {"metadata": {
            "name": name, "labels": {"case": name.removesuffix("-b")}}}), names)
        storage = [item for *_, items, _ in sides for item in items]
        made = {asked["metadata"]["namespace"]: asked for *_, asked in sides if asked["spec"].get("schedulingGates")}
        late = [(path, doc) for path, doc in storage if "ownerReferences" in doc["metadata"]]
        self.limit(sides)
        self.each(self.make_storage, [item for item in storage if item not in late])
        self.each(self.make_pod, [d for _, _, docs, *_ in sides for d in docs])
        self.each(self.make_pod, [asked for *_, asked in sides])
        for path, doc in late:
            doc["metadata"]["ownerReferences"] = [{
                "apiVersion": "v1", "kind": "Pod", "name": "asked", "controller": True,
                "uid": made[path.split("/")[4]]["metadata"]["uid"]}]
        self.each(self.make_storage, late)
        self.each(self.let_go, made.values())
        before = {(path.split("/")[4], doc["metadata"]["name"], doc["metadata"]["annotations"].get(SELECTED))
                  for path, doc in storage if path.endswith("claims")}
        answers = {}

        def decided():
            if not self.operator.alive():  # on a crowded machine it may lose its lease, and ends
                self.operator.start()
            items = self.clients[0].ask("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dasked")["items"]
            told = self.chosen(before) if storage else {}  # after the pods: one that waits for its claim has chosen a node by now
            for item in items:
                conditions = {c["type"]: c for c in item.get("status", {}).get("conditions", [])}
                scheduled = conditions.get("PodScheduled", {})
                refused = scheduled.get("status") == "False" and scheduled.get("reason") != "SchedulingGated"
                node = item["spec"].get("nodeName") or told.get(item["metadata"]["namespace"])
                if node or refused:
                    answers[item["metadata"]["namespace"]] = (node, scheduled.get("message", ""))
            return all(asked["metadata"]["namespace"] in answers for *_, asked in sides)
        began = self.timed("making", began)
        def words():
            return ", ".join(a["metadata"]["namespace"] for *_, a in sides if a["metadata"]["namespace"] not in answers)
        try:
            wait_for(decided, f"{len(sides)} pods to be decided", DECIDED_S, slowest=2)
        except Failure as e:
            raise Failure(f"{e}; of these nothing is known: {words()}") from None
        began = self.timed("deciding", began)
        # What is bound, and what was made for it, is in nobody's way: every case has names of its own.
        self.each(self.drop_pod, [asked for *_, asked in sides])
        self.each(lambda c, name: c.ask("DELETE", f"{GROUPS}/namespaces/{name}/podgroups"),  # nobody collects garbage here
                  [asked["metadata"]["namespace"] for _, side, *_, asked in sides if side == "m"])
        self.timed("clearing", began)
        return {n: tuple(answers[f"{side}-{n}"] for side in SIDES) for n in numbers}


def differ(answers):
    """Each pod has one node to go to: whether it does is all there is to know."""
    return bool(answers[0][0]) != bool(answers[1][0])


def report(number, seed, node_count, answers, said):
    """One disagreement, with everything that is needed to see who is right."""
    docs, storage, asked = case(number, seed, "m", node_count)
    print(f"failed: pod-{number}\n  kube-scheduler: {answers[0][0] or 'refuses it: ' + answers[0][1]}\n"
          f"  muster: {answers[1][0] or 'refuses it: ' + answers[1][1]}")
    if said:
        for doc in [*docs, asked]:
            print("  " + json.dumps({"metadata": doc["metadata"], "spec": doc["spec"]}))
        for _, doc in storage:
            print("  " + json.dumps(doc))


def play(options):
    with ControlPlane(controllers=False, scheduler=True, apiserver_flags=FLAGS) as plane:
        judge = Judge(plane, options)
        judge.make_nodes()
        judge.make_queues()
        plane.kubectl("apply", "-f", RBAC)
        account = plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
        judge.operator = Operator("operator", plane.folder, account).start()
        try:
            wait_for(judge.operator.ready, "the operator to be ready", 60)
            return ask_all(judge, options)
        finally:
            judge.operator.stop()


def ask_all(judge, options):
    numbers = [options.only] if options.only is not None else list(range(options.pods))
    began, bad, bound = time.monotonic(), 0, 0
    print(f"seed {options.seed}, {len(numbers)} pods, {options.nodes} nodes", flush=True)
    for first in range(0, len(numbers), BATCH):
        part = judge.batch(numbers[first:first + BATCH])
        bound += sum(bool(answers[0][0]) for answers in part.values())
        unlike = [number for number, answers in part.items() if differ(answers)]
        # What one had not heard of yet is no disagreement: they are asked again.
        if unlike:
            judge.clear(unlike)
        for number, answers in judge.batch(unlike).items() if unlike else ():
            if differ(answers):
                bad += 1
                report(number, options.seed, options.nodes, answers, bad <= WHOLE_MAX)
        print(f"{first + len(part)} asked, {len(unlike)} of the last ones twice, {bad} disagreements", flush=True)
    spent = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in judge.spent.items())
    print(f"{len(numbers)} pods, {bound} of them bound by kube-scheduler, {bad} disagreements, {time.monotonic() - began:.0f} s: "
          f"{spent}")
    print(f"{len(numbers) - bad} passed, {bad} failed")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--only", type=int, help="the number of a single pod")
    try:
        return play(parser.parse_args())
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
