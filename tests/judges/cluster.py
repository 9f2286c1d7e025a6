"""cluster: what a file of `muster simulate` says, read without the scheduler's code, and what became of it, cycle by cycle.

A file is JSON documents between lines of `---`, which YAML reads as well. Amounts are whole numbers: CPUs and GPUs in
thousandths, memory in bytes, everything else in pieces.
"""

import datetime
import functools
import json
import re

START = datetime.datetime(2027, 1, 15, 8, 0, tzinfo=datetime.timezone.utc)  # of every simulation
PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
QUEUE_UNITS = {"gpu": 1000, "cpu": 1, "memory": 10**6}  # a Queue counts devices, millicores and megabytes
TIMES = ("from", "fails", "back", "lingers")


def documents(text):
    return [json.loads(part) for part in text.split("\n---\n") if part.strip()]


def text_of(docs):
    return "\n---\n".join(json.dumps(doc) for doc in docs) + "\n"


@functools.lru_cache(maxsize=None)
def amount(text, milli=False):
    if text.endswith("m"):
        return int(text[:-1]) // (1 if milli else 1000)
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()
    return int(float(number) * UNITS[unit] * (1000 if milli else 1))


def is_mig(resource):
    return resource.startswith("nvidia.com/mig-")


class Node:
    def __init__(self, doc):
        room = doc["status"]["allocatable"]
        self.name = doc["metadata"]["name"]
        self.labels = doc["metadata"].get("labels", {})
        self.taints = doc.get("spec", {}).get("taints", [])
        self.cordoned = doc.get("spec", {}).get("unschedulable", False)
        self.cpu = amount(room.get("cpu", "0"), True)
        self.memory = amount(room.get("memory", "0"))
        self.slots = amount(room.get("pods", "110"))
        self.gpus = amount(room.get("nvidia.com/gpu", "0"))
        self.gpu_mib = int(self.labels.get("nvidia.com/gpu.memory", 0))
        self.other = {k: amount(v) for k, v in room.items() if k not in ("cpu", "memory", "pods", "nvidia.com/gpu")}
        self.mig = any(is_mig(name) for name in self.other)


class Queue:
    def __init__(self, doc, number):
        spec = doc["spec"]
        self.name = doc["metadata"]["name"]
        self.parent = spec.get("parentQueue", "")
        self.priority = spec.get("priority", 100)
        self.number = number
        self.quota, self.limit, self.weight = {}, {}, {}  # without an entry: not named; None: no bound
        for resource, unit in QUEUE_UNITS.items():
            if resource in spec.get("resources", {}):
                said = spec["resources"][resource]
                self.quota[resource] = None if said.get("quota", 0) < 0 else int(said.get("quota", 0) * unit)
                self.limit[resource] = None if said.get("limit", -1) < 0 else int(said["limit"] * unit)
                self.weight[resource] = said.get("overQuotaWeight", 1)


class Pod:
    def __init__(self, doc):
        meta, spec = doc["metadata"], doc["spec"]
        notes = meta.get("annotations", {})
        request = spec["containers"][0].get("resources", {}).get("requests", {})
        self.name, self.namespace = meta["name"], meta.get("namespace", "default")
        self.group = notes.get("pod-group-name", "")
        self.labels = meta.get("labels", {})
        self.subgroup = self.labels.get("kai.scheduler/subgroup-name", "")
        self.cpu = amount(request.get("cpu", "0"), True)
        self.memory = amount(request.get("memory", "0"))
        self.gpus = amount(request.get("nvidia.com/gpu", "0"))
        self.other = {k: amount(v) for k, v in request.items() if k not in ("cpu", "memory", "nvidia.com/gpu")}
        self.fraction = round(float(notes.get("gpu-fraction", 0)) * 1000)
        self.mib = int(notes.get("gpu-memory", 0))
        self.devices = int(notes.get("gpu-fraction-num-devices", 1))
        self.ports = [(p["hostPort"], p.get("protocol", "TCP"), p.get("hostIP", "0.0.0.0"))
                      for p in spec["containers"][0].get("ports", []) if p.get("hostPort")]
        self.selector = spec.get("nodeSelector", {})
        affinity = spec.get("affinity", {})
        self.node_terms = (affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
                           .get("nodeSelectorTerms"))
        self.near = affinity.get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
        self.apart = affinity.get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
        self.spread = [c for c in spec.get("topologySpreadConstraints", []) if c["whenUnsatisfiable"] == "DoNotSchedule"]
        self.tolerations = spec.get("tolerations", [])
        self.gated = bool(spec.get("schedulingGates"))
        self.node = spec.get("nodeName")
        self.shares = [self.labels["runai-gpu-group"]] if "runai-gpu-group" in self.labels else []
        self.times = {word: int(notes.get("simulate.muster.dev/" + word, 0)) for word in TIMES}
        self.held_back = notes.get("muster.dev/suspend") == "hold"
        if self.held_back:  # a suspended pod keeps everything but its GPUs
            self.gpus = self.fraction = self.mib = 0
        self.mounts = [f"{self.namespace}/{v['persistentVolumeClaim']['claimName']}" for v in spec.get("volumes", [])
                       if "persistentVolumeClaim" in v]
        self.claims = []  # the same, as the cluster has them; None: there is none
        alike = {word: value for word, value in spec.items() if word != "volumes"}
        self.shape = json.dumps([alike, self.labels, notes.get("gpu-fraction"), self.mib, self.devices], sort_keys=True)
        self.in_order = bool(self.near or self.spread)  # whether it may go somewhere depends on who went before

    def part(self, mib):
        """Thousandths of one device that it takes of a card of so many MiB; 0: whole GPUs or none."""
        return -(-self.mib * 1000 // mib) if self.mib and mib else self.fraction

    def charge(self, mib):
        """What its queue pays."""
        mig = sum(int(re.search(r"mig-(\d+)g", name).group(1)) * n for name, n in self.other.items() if is_mig(name))
        return {"gpu": self.gpus * 1000 + self.part(mib) * self.devices + mig * 1000, "cpu": self.cpu, "memory": self.memory}


class Disk:
    """A PersistentVolume."""

    def __init__(self, doc):
        spec = doc["spec"]
        self.name, self.cls = doc["metadata"]["name"], spec.get("storageClassName", "")
        self.size, self.modes = amount(spec["capacity"]["storage"]), set(spec["accessModes"])
        self.terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
        self.driver = spec.get("csi", {}).get("driver", "")
        ref = spec.get("claimRef")
        self.claim = f"{ref['namespace']}/{ref['name']}" if ref else ""


class Claim:
    """A PersistentVolumeClaim, with the disk that it has, or what its class says of those that are to come."""

    def __init__(self, doc, disks, classes):
        meta, spec = doc["metadata"], doc["spec"]
        self.key = f"{meta.get('namespace', 'default')}/{meta['name']}"
        self.cls, self.modes = spec.get("storageClassName", ""), set(spec["accessModes"])
        self.size = amount(spec["resources"]["requests"]["storage"])
        self.disk = disks.get(spec.get("volumeName"))
        said = classes.get(self.cls, {})
        self.waits = said.get("volumeBindingMode") == "WaitForFirstConsumer" and not self.disk
        self.local = self.waits and said["provisioner"] == "kubernetes.io/no-provisioner"
        self.topologies = said.get("allowedTopologies") if self.waits and not self.local else None
        self.driver = self.disk.driver if self.disk else "" if self.local else said.get("provisioner", "")
        self.alone = "ReadWriteOncePod" in self.modes
        self.shape = json.dumps([spec, self.disk.terms if self.disk else None], sort_keys=True)


class Part:
    """A node of a group's tree: a subgroup, or the group itself."""

    def __init__(self, name, doc, minimum):
        self.name = name
        self.minimum = minimum                     # pods, of a leaf
        self.few = doc.get("minSubGroup")          # members, of an inner one; None: all
        constraint = doc.get("topologyConstraint") or {}
        self.topology = constraint.get("topology")
        self.required = constraint.get("requiredTopologyLevel")
        self.above, self.below = None, []


class Group:
    def __init__(self, doc):
        spec, meta = doc["spec"], doc["metadata"]
        self.name, self.namespace = meta["name"], meta.get("namespace", "default")
        self.queue = spec["queue"]
        self.priority = PRIORITIES[spec.get("priorityClassName", "train")]
        self.preemptible = spec.get("preemptibility", "preemptible" if self.priority < 100 else "non-preemptible")
        self.created = datetime.datetime.fromisoformat(meta["creationTimestamp"].replace("Z", "+00:00"))
        self.age = (START - self.created).total_seconds()
        self.parts = {"": Part("", spec, spec.get("minMember", 1))}
        for sub in spec.get("subGroups", []):
            self.parts[sub["name"]] = Part(sub["name"], sub, sub.get("minMember", 0))
        for sub in spec.get("subGroups", []):
            part = self.parts[sub["name"]]
            part.above = self.parts[sub.get("parent") or ""]
            part.above.below.append(part)
        self.pods = []

    def leaf_of(self, pod):
        return self.parts.get(pod.subgroup if self.parts[""].below else "")

    def path(self, pod):
        part, path = self.leaf_of(pod), []
        while part:
            path.append(part)
            part = part.above
        return path

    def leaves(self):
        return [part for part in self.parts.values() if not part.below]

    def whole(self, pods):
        """Do these pods make a gang?"""
        def satisfied(part):
            if not part.below:
                return sum(1 for p in pods if self.leaf_of(p) is part) >= part.minimum
            some = sum(map(satisfied, part.below))
            return some >= (len(part.below) if part.few is None else min(part.few, len(part.below)))
        return satisfied(self.parts[""])

    def complete(self):
        return self.whole([p for p in self.pods if not p.gated])

    def elastic(self):
        return len(self.pods) > sum(part.minimum for part in self.leaves()) or any(p.few is not None for p in self.parts.values())


class Cluster:
    def __init__(self, docs):
        kinds = {}
        for doc in docs:
            kinds.setdefault(doc.get("kind", ""), []).append(doc)
        self.docs = docs
        self.config = next((d["config"] for d in kinds.get("", []) if "config" in d), {})
        self.nodes = {n.name: n for n in map(Node, kinds.get("Node", []))}
        self.queues = {q.name: q for q in (Queue(d, i) for i, d in enumerate(kinds.get("Queue", [])))}
        self.topologies = {d["metadata"]["name"]: [level["nodeLabel"] for level in d["spec"]["levels"]]
                           for d in kinds.get("Topology", [])}
        self.namespaces = {d["metadata"]["name"]: d["metadata"].get("labels", {}) for d in kinds.get("Namespace", [])}
        self.groups = {g.name: g for g in map(Group, kinds.get("PodGroup", []))}
        self.pods = {p.name: p for p in map(Pod, kinds.get("Pod", []))}
        for pod in self.pods.values():
            if pod.group in self.groups:
                self.groups[pod.group].pods.append(pod)
        self.read_volumes(kinds)
        self.held = {g["name"] for d in kinds.get("", []) for g in d.get("gangs", []) if g.get("held")}
        self.mib = max([n.gpu_mib for n in self.nodes.values()], default=0)
        self.reserve_after = float(self.config.get("reserveAfter", "300s").rstrip("s"))

    def read_volumes(self, kinds):
        self.disks = {d["metadata"]["name"]: Disk(d) for d in kinds.get("PersistentVolume", [])}
        classes = {d["metadata"]["name"]: d for d in kinds.get("StorageClass", [])}
        claims = {c.key: c for c in (Claim(d, self.disks, classes) for d in kinds.get("PersistentVolumeClaim", []))}
        self.attach = {(d["metadata"]["name"], one["name"]): one["allocatable"]["count"] for d in kinds.get("CSINode", [])
                       for one in d["spec"]["drivers"]}
        users = [name for pod in self.pods.values() for name in pod.mounts]
        for pod in self.pods.values():
            pod.claims = [claims.get(name) for name in pod.mounts]
            own = [name if users.count(name) > 1 or not claim else claim.shape for name, claim in zip(pod.mounts, pod.claims)]
            pod.shape += json.dumps(own) if own else ""

    def ancestors(self, queue):
        path = []
        while queue in self.queues and len(path) < len(self.queues):
            path.append(self.queues[queue])
            queue = self.queues[queue].parent
        return path

    def domain(self, node, topology, level):
        """What tells the node's domain from all others: its labels down to that level. None: it is in none."""
        levels = self.topologies.get(topology, [])
        if level not in levels or any(name not in node.labels for name in levels):
            return None
        return tuple(node.labels[name] for name in levels[:levels.index(level) + 1])


class Step:
    """One cycle: who was where before the decision, what was decided, who is where after it."""

    def __init__(self, cycle, before, evicted, bound, after):
        self.cycle, self.before, self.evicted, self.bound, self.after = cycle, before, evicted, bound, after


def play(cluster, outcome):
    """The cycles of a simulation; `before` and `after` have the node of every pod that is on one."""
    where = {p.name: p.node for p in cluster.pods.values() if p.node}
    ending = {}  # pod: cycle in which it is gone
    steps = []
    for cycle in range(1, outcome["cycles"] + 1):
        for name in [n for n, c in ending.items() if c == cycle]:
            where.pop(name, None)
            del ending[name]
        for pod in cluster.pods.values():
            if pod.times["fails"] == cycle and pod.name not in ending:
                where.pop(pod.name, None)
        before = dict(where)
        evicted = [e for e in outcome["evictions"] if e["cycle"] == cycle]
        bound = [b for b in outcome["binds"] if b["cycle"] == cycle]
        for e in evicted:
            if e["pod"] in cluster.pods:
                lingers = cluster.pods[e["pod"]].times["lingers"]
                if lingers:
                    ending[e["pod"]] = cycle + lingers
                else:
                    where.pop(e["pod"], None)
        for b in bound:
            where[b["pod"]] = b["node"]
        steps.append(Step(cycle, before, evicted, bound, dict(where)))
    return steps
