"""rules: may this pod go to this node beside those that are there? Written from Kubernetes' documents and KAI's.

A State knows who is where. `fits` asks one pod of one node, as Kubernetes' filters do, one pod after another.
"""

import itertools


def matches_label(labels, expression):
    value, values = labels.get(expression["key"]), expression.get("values", [])
    operator = expression["operator"]
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def matches(labels, selector):
    """A label selector; an empty one selects everything, none selects nothing."""
    if selector is None:
        return False
    return (all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and
            all(matches_label(labels, e) for e in selector.get("matchExpressions", [])))


def with_keys(selector, term, labels):
    """matchLabelKeys: as if the selector named the pod's own values of these labels."""
    keys = [k for k in term.get("matchLabelKeys", []) if k in labels]
    if not keys or selector is None:
        return selector
    own = [{"key": k, "operator": "In", "values": [labels[k]]} for k in keys]
    return {**selector, "matchExpressions": selector.get("matchExpressions", []) + own}


def selected(cluster, term, owner, other):
    """Does a term of `owner` mean the pod `other`?"""
    names = term.get("namespaces", [])
    if "namespaceSelector" in term:
        there = other.namespace in names or matches(cluster.namespaces.get(other.namespace, {}), term["namespaceSelector"])
    else:
        there = other.namespace in (names or [owner.namespace])
    return there and matches(other.labels, with_keys(term.get("labelSelector"), term, owner.labels))


def tolerated(pod, taint):
    return any(t.get("effect", taint["effect"]) == taint["effect"] and
               (not t.get("key") or t["key"] == taint["key"]) and
               (t.get("operator", "Equal") == "Exists" or t.get("value", "") == taint.get("value", ""))
               for t in pod.tolerations)


def taints_allow(pod, node):
    return all(t["effect"] == "PreferNoSchedule" or tolerated(pod, t) for t in node.taints)


def labels_allow(pod, node):
    if any(node.labels.get(k) != v for k, v in pod.selector.items()):
        return False
    fields = {"metadata.name": node.name}
    return pod.node_terms is None or any(
        (t.get("matchExpressions") or t.get("matchFields")) and
        all(matches_label(node.labels, e) for e in t.get("matchExpressions", [])) and
        all(matches_label(fields, e) for e in t.get("matchFields", [])) for t in pod.node_terms)


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node_allows(pod, node, surely=True):
    """What depends on nobody else. surely: may it be demanded that the pod goes there?"""
    if (node.cordoned and not tolerated(pod, CORDON)) or not taints_allow(pod, node) or not labels_allow(pod, node):
        return False
    if node.mig and surely and not pod.other:
        return False  # its cards are in pieces, and KAI's documents leave open whether work without GPUs goes there
    return not (pod.mib and not node.gpu_mib)


def terms_mean(terms, node):
    """Of a volume: may it be used from the node?"""
    return terms is None or any(all(matches_label(node.labels, e) for e in t.get("matchExpressions", [])) for t in terms)


def ports_clash(one, other):
    return any(a[0] == b[0] and a[1] == b[1] and (a[2] == b[2] or "0.0.0.0" in (a[2], b[2])) for a in one for b in other)


class Room:
    """What is left of a node."""

    def __init__(self, node):
        self.node = node
        self.cpu, self.memory, self.slots, self.gpus = node.cpu, node.memory, node.slots, node.gpus
        self.other = dict(node.other)
        self.shares = {}  # device: thousandths that are left
        self.pods = []

    def closed(self, count):
        """Names of devices that nobody has a part of."""
        names = (f"new-{i}" for i in itertools.count())
        return list(itertools.islice((name for name in names if name not in self.shares), count))


class State:
    def __init__(self, cluster):
        self.cluster = cluster
        self.rooms = {name: Room(node) for name, node in cluster.nodes.items()}
        self.where = {}  # pod: (node, devices)

    @classmethod
    def of(cls, cluster, where, shares=None):
        """Pods on nodes; shares: pod -> devices that it has parts of."""
        state = cls(cluster)
        for name, node in where.items():
            pod = cluster.pods.get(name)
            if pod and node in state.rooms:
                state.put(pod, node, (shares or {}).get(name) or pod.shares or None)
        return state

    def put(self, pod, name, devices=None):
        """devices: of a pod with parts of GPUs; left out, new ones are opened."""
        room = self.rooms[name]
        room.cpu -= pod.cpu
        room.memory -= pod.memory
        room.slots -= 1
        room.gpus -= pod.gpus
        for resource, count in pod.other.items():
            room.other[resource] = room.other.get(resource, 0) - count
        part = pod.part(room.node.gpu_mib)
        if part and devices is None:
            devices = room.closed(pod.devices)
        for device in (devices or []) if part else []:
            if device not in room.shares:
                room.shares[device] = 1000
                room.gpus -= 1
            room.shares[device] -= part
        room.pods.append(pod)
        self.where[pod.name] = (name, devices)

    def take(self, pod):
        name, devices = self.where.pop(pod.name)
        room = self.rooms[name]
        room.cpu += pod.cpu
        room.memory += pod.memory
        room.slots += 1
        room.gpus += pod.gpus
        for resource, count in pod.other.items():
            room.other[resource] += count
        part = pod.part(room.node.gpu_mib)
        for device in (devices or []) if part else []:
            room.shares[device] += part
            if room.shares[device] == 1000:
                del room.shares[device]
                room.gpus += 1
        room.pods.remove(pod)

    def choices(self, pod, name):
        """Which devices it could have there: lists that differ, or [None] where it wants no part of one; []: it has no room."""
        room = self.rooms[name]
        if (pod.cpu > max(room.cpu, 0) or pod.memory > max(room.memory, 0) or room.slots < 1 or pod.gpus > max(room.gpus, 0)
                or any(count > room.other.get(resource, 0) for resource, count in pod.other.items())):
            return []
        part = pod.part(room.node.gpu_mib)
        if not part:
            return [None]
        if part > 1000:
            return []
        open_ = sorted((left, device) for device, left in room.shares.items() if left >= part)
        fresh = [(1000, device) for device in room.closed(min(pod.devices, max(room.gpus, 0)))]
        found = {}
        for some in itertools.combinations(open_ + fresh, pod.devices):
            found.setdefault(tuple(left for left, _ in some), [device for _, device in some])
        return list(found.values())

    # ---- who is beside it ----
    def in_domain(self, key, value):
        return [p for room in self.rooms.values() if room.node.labels.get(key) == value for p in room.pods]

    def apart_allows(self, pod, name):
        labels = self.cluster.nodes[name].labels
        for term in pod.apart:
            key = term["topologyKey"]
            if key in labels and any(p is not pod and selected(self.cluster, term, pod, p)
                                     for p in self.in_domain(key, labels[key])):
                return False
        for room in self.rooms.values():
            for other in room.pods:
                for term in other.apart if other is not pod else []:
                    key = term["topologyKey"]
                    if (key in labels and room.node.labels.get(key) == labels[key] and
                            selected(self.cluster, term, other, pod)):
                        return False
        return True

    def near_allows(self, pod, name):
        labels = self.cluster.nodes[name].labels
        if any(term["topologyKey"] not in labels for term in pod.near):
            return False
        everyone = [(p, room) for room in self.rooms.values() for p in room.pods if p is not pod and
                    all(selected(self.cluster, t, pod, p) for t in pod.near)]
        if not pod.near:
            return True
        if all(any(room.node.labels.get(t["topologyKey"]) == labels[t["topologyKey"]] for _, room in everyone)
               for t in pod.near):
            return True
        anywhere = any(t["topologyKey"] in room.node.labels for _, room in everyone for t in pod.near)
        return not anywhere and all(selected(self.cluster, t, pod, pod) for t in pod.near)

    def spread_counts(self, pod, constraint):
        """Matching pods by domain, of the nodes that count."""
        counts = {}
        keys = [c["topologyKey"] for c in pod.spread]
        selector = with_keys(constraint.get("labelSelector"), constraint, pod.labels)
        for room in self.rooms.values():
            node = room.node
            if (any(key not in node.labels for key in keys) or
                    (constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not labels_allow(pod, node)) or
                    (constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and not taints_allow(pod, node))):
                continue
            here = sum(1 for p in room.pods if p is not pod and p.namespace == pod.namespace and matches(p.labels, selector))
            domain = node.labels[constraint["topologyKey"]]
            counts[domain] = counts.get(domain, 0) + here
        return counts, int(matches(pod.labels, selector))

    def spread_allows(self, pod, name):
        labels = self.cluster.nodes[name].labels
        for constraint in pod.spread:
            if constraint["topologyKey"] not in labels:
                return False
            counts, own = self.spread_counts(pod, constraint)
            least = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
            if counts.get(labels[constraint["topologyKey"]], 0) + own - least > constraint["maxSkew"]:
                return False
        return True

    def topology_allows(self, pod, name, group):
        for part in group.path(pod) if group else []:
            if not part.required:
                continue
            domain = self.cluster.domain(self.cluster.nodes[name], part.topology, part.required)
            if domain is None:
                return False
            for other in group.pods:
                if other.name in self.where and other is not pod and part in group.path(other):
                    there = self.cluster.nodes[self.where[other.name][0]]
                    if self.cluster.domain(there, part.topology, part.required) != domain:
                        return False
        return True

    # ---- volumes ----
    def with_claims(self):
        """(pod, node) of those on nodes that mount any."""
        return [(p, room.node) for room in self.rooms.values() for p in room.pods if p.claims]

    def volumes_allow(self, pod, name):
        """One after another, as Kubernetes asks: may each of its claims be used there, and are they few enough?"""
        node, others = self.cluster.nodes[name], [(p, n) for p, n in self.with_claims() if p is not pod]
        for claim in pod.claims:
            if claim is None or not (claim.disk or claim.waits):
                return False
            users = [n for p, n in others if claim in p.claims]
            if claim.alone and users:
                return False
            if claim.disk and not terms_mean(claim.disk.terms, node):
                return False
            if claim.waits and any(n is not node for n in users):
                return False  # it is made for one node, and one node has it at a time
            if claim.topologies and not any(all(node.labels.get(e["key"]) in e["values"] for e in t["matchLabelExpressions"])
                                            for t in claim.topologies):
                return False
        return self.attachable(pod, node, others) and self.local_disks({c.key: (c, n) for p, n in [*others, (pod, node)]
                                                                        for c in p.claims if c and c.local})

    def attachable(self, pod, node, others):
        """Does the node attach so many volumes of each driver?"""
        here = {c.key: c.driver for p, n in others if n is node for c in p.claims if c} | {c.key: c.driver for c in pod.claims}
        return all(sum(d == driver for d in here.values()) <= most for (name, driver), most in self.cluster.attach.items()
                   if name == node.name and any(c.driver == driver for c in pod.claims))

    def local_disks(self, wanted):
        """Is there a disk of its own for each claim, which its node can use? wanted: {key: (claim, node)}"""
        given = {}  # disk: key

        def give(key, tried):
            claim, node = wanted[key]
            for disk in self.cluster.disks.values():
                if (disk.name in tried or disk.cls != claim.cls or disk.size < claim.size or not claim.modes <= disk.modes or
                        disk.claim not in ("", key) or not terms_mean(disk.terms, node)):
                    continue
                tried.add(disk.name)
                if disk.name not in given or give(given[disk.name], tried):
                    given[disk.name] = key
                    return True
            return False
        return all(give(key, set()) for key in wanted)

    def fits(self, pod, name, group):
        """Everything but room."""
        return (node_allows(pod, self.cluster.nodes[name]) and
                not any(ports_clash(pod.ports, p.ports) for p in self.rooms[name].pods) and
                self.topology_allows(pod, name, group) and self.apart_allows(pod, name) and
                self.near_allows(pod, name) and self.spread_allows(pod, name) and
                (not pod.claims or self.volumes_allow(pod, name)))
