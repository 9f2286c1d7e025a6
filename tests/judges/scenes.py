"""scenes: random clusters. Each scene is about one question and has what that needs; `mixed` has everything at once.

A cluster is small, so that every placement can be tried, and tight, so that it matters where things go.
"""

import datetime

from cluster import PRIORITIES, START, Cluster
from rules import State

MIG = "nvidia.com/mig-1g.10gb"
GPU_MIB = 40000


def stamp(age_s):
    return (START - datetime.timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name, gpus, cpus=64, labels=None, taints=None, other=None, slots=110):
    room = {"cpu": str(cpus), "memory": "256Gi", "pods": str(slots), **(other or {})}
    if gpus:
        room["nvidia.com/gpu"] = str(gpus)
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": str(GPU_MIB), **(labels or {})}
    spec = {"taints": taints} if taints else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}


def queue(name, parent="", gpu=None, cpu=None, memory=None, priority=100, weight=1):
    """gpu, cpu, memory: (quota, limit), -1 for none, or None: not named. (-1, -1) unless told."""
    resources = {}
    for word, said in (("gpu", gpu), ("cpu", cpu), ("memory", memory)):
        if said is not False:
            quota, limit = said or (-1, -1)
            resources[word] = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    spec = {"priority": priority, "resources": resources} | ({"parentQueue": parent} if parent else {})
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": name, "creationTimestamp": stamp(864000)}, "spec": spec}


def group(name, queue_name, minimum, age=0, priority="train", preemptibility=None, namespace="default", running=False, **more):
    notes = {"kai.scheduler/last-start-timestamp": stamp(age)} if running else {}
    spec = {"queue": queue_name, "minMember": minimum, "priorityClassName": priority, **more}
    if preemptibility:
        spec["preemptibility"] = preemptibility
    if "subGroups" in more:
        del spec["minMember"]
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": stamp(age), "annotations": notes},
            "spec": spec}


def pod(name, group_name, gpus=0, cpus=1, at=None, namespace="default", labels=None, notes=None, age=0, ports=None, other=None,
        **spec):
    request = {"cpu": str(cpus), "memory": "1Gi", **(other or {})}
    if gpus:
        request["nvidia.com/gpu"] = str(gpus)
    container = {"name": "c", "image": "i", "resources": {"requests": request}}
    if ports:
        container["ports"] = [{"containerPort": p, "hostPort": p} for p in ports]
    meta = {"name": name, "namespace": namespace, "labels": {"gang": group_name, **(labels or {})},
            "creationTimestamp": stamp(age), "annotations": {"pod-group-name": group_name, **(notes or {})}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], **spec}
    doc = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if at:
        spec["nodeName"] = at
        doc["status"] = {"phase": "Running"}
    return doc


def required(**terms):
    return {word: {"requiredDuringSchedulingIgnoredDuringExecution": term} for word, term in terms.items()}


def topology(levels):
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "dc"},
            "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def classes():
    return [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in PRIORITIES.items()]


def namespaces():
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
            for name in ("default", "other")]


FEATURES = ("uneven", "subgroups", "topology", "spread", "near", "apart", "ports", "fraction", "mig", "selector", "taint", "cpus",
            "elastic", "namespaces", "slots")


def some(rng, chance=0.3):
    return {f for f in FEATURES if rng.random() < chance}


# ---- nodes ----
def nodes(rng, on, least=2, most=5):
    docs = []
    zones = rng.choice((["a"], ["a", "b"], ["a", "a.b"]))
    for i in range(rng.randint(least, most)):
        zone = rng.choice(zones)
        labels = {"zone": zone, "rack": rng.choice(("r1", "r2", "b.r1")), "kind": rng.choice(("x", "y"))}
        if rng.random() < 0.05:
            del labels[rng.choice(("zone", "rack"))]
        tainted = "taint" in on and rng.random() < 0.3
        taints = [{"key": "own", "effect": rng.choice(("NoSchedule", "NoExecute"))}] if tainted else None
        mig = "mig" in on and rng.random() < 0.4
        cpus = rng.choice((8, 12, 16)) if "cpus" in on else 64
        docs.append(node(f"n{i}", 0 if mig else rng.choice((2, 3, 4, 4, 5, 6, 8)), cpus, labels, taints,
                         {MIG: str(rng.randint(1, 4))} if mig else None,
                         rng.randint(2, 4) if "slots" in on and "fraction" not in on else 110))
    return docs


# ---- gangs ----
def size(rng, on, most=4):
    """What a pod asks for: arguments of pod()."""
    kind = rng.random()
    cpus = rng.choice((1, 1, 2, 4, 6)) if "cpus" in on else 1
    if "fraction" in on and kind < 0.4:
        notes = ({"gpu-fraction": rng.choice(("0.25", "0.5", "0.75"))} if rng.random() < 0.7 else
                 {"gpu-memory": str(rng.choice((10000, 20000, 30000)))})
        if rng.random() < 0.15:
            notes["gpu-fraction-num-devices"] = "2"
        return {"cpus": cpus, "notes": notes}
    if "mig" in on and kind < 0.7:
        return {"cpus": cpus, "other": {MIG: str(rng.randint(1, 2))}}
    return {"cpus": cpus, "gpus": rng.randint(0 if "cpus" in on else 1, most)}


def shape(rng, on, name, namespace):
    """Constraints that all pods of a gang have."""
    more, labels, affinity = {}, {"app": rng.choice(("x", "y"))}, {}
    key = lambda: rng.choice(("zone", "rack", "kubernetes.io/hostname"))
    if "spread" in on and rng.random() < 0.6:
        selector = rng.choice(({"matchLabels": {"gang": name}}, {"matchLabels": {"app": labels["app"]}}))
        constraint = {"maxSkew": rng.randint(1, 2), "topologyKey": key(), "whenUnsatisfiable": "DoNotSchedule",
                      "labelSelector": selector}
        more["topologySpreadConstraints"] = [constraint]
        for word, values in (("nodeAffinityPolicy", ("Honor", "Ignore")), ("nodeTaintsPolicy", ("Honor", "Ignore")),
                             ("minDomains", (1, 2)), ("matchLabelKeys", (["version"],))):
            if rng.random() < 0.25:
                constraint[word] = rng.choice(values)
    if "near" in on and rng.random() < 0.5:
        whom = rng.choice(({"app": rng.choice(("x", "y"))}, {"gang": name}))
        term = {"topologyKey": key(), "labelSelector": {"matchLabels": whom}}
        affinity |= required(podAffinity=[foreign(rng, on, term)])
    if "apart" in on and rng.random() < 0.6:
        whom = rng.choice(({"gang": name}, {"app": rng.choice(("x", "y"))}))
        term = {"topologyKey": key(), "labelSelector": {"matchLabels": whom}}
        affinity |= required(podAntiAffinity=[foreign(rng, on, term)])
    if "selector" in on and rng.random() < 0.3:
        affinity |= required(nodeAffinity={"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": rng.choice(("NotIn", "In")), "values": ["a"]}]}]})
    if affinity:
        more["affinity"] = affinity
    if "ports" in on and rng.random() < 0.6:
        more["ports"] = [rng.choice((8000, 8001))]
    if "taint" in on and rng.random() < 0.5:
        more["tolerations"] = [{"key": "own", "operator": "Exists"}]
    labels["version"] = rng.choice(("1", "2"))
    return {"labels": labels, "namespace": namespace, **more}


def foreign(rng, on, term):
    if "namespaces" in on:
        if rng.random() < 0.5:
            term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "other"}}))
        if rng.random() < 0.3:
            term["matchLabelKeys"] = ["version"]
    return term


def level(rng, on, chance):
    if "topology" in on and rng.random() < chance:
        return {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": rng.choice(("zone", "rack"))}}
    return {}


def gang(rng, on, name, queue_name, age=0, priority="train", preemptibility=None, most=4, pods_max=6, at=None, times=None):
    """A pod group and its pods. at: pod's number -> node where it runs."""
    namespace = "other" if "namespaces" in on and rng.random() < 0.3 else "default"
    same = shape(rng, on, name, namespace)
    count = rng.randint(1, pods_max)
    more = level(rng, on, 0.5)
    sizes, subs, docs = [], [], []
    if "subgroups" in on and count > 1:
        for s in range(rng.randint(2, min(3, count))):
            n = rng.randint(1, max(1, count // 2))
            subs.append({"name": f"s{s}", "minMember": n, **level(rng, on, 0.5)})
            one = size(rng, on, most)
            sizes += [(f"s{s}", one)] * n
        if rng.random() < 0.3:
            for sub in subs[:2]:
                sub["parent"] = "half"
            subs.insert(0, {"name": "half", **level(rng, on, 0.5)})
        more["subGroups"] = subs
    elif "uneven" in on:
        kinds = [size(rng, on, most) for _ in range(rng.randint(2, 3))]
        sizes = [(None, rng.choice(kinds)) for _ in range(count)]
    else:
        sizes = [(None, size(rng, on, most))] * count
    uniform = not subs and all(s == sizes[0] for s in sizes)
    minimum = rng.randint(1, len(sizes)) if "elastic" in on and uniform and rng.random() < 0.6 else len(sizes)
    docs.append(group(name, queue_name, minimum, age, priority, preemptibility, namespace, running=bool(at), **more))
    for i, (sub, one) in enumerate(sizes):
        extra = {"labels": {**same["labels"], **({"kai.scheduler/subgroup-name": sub} if sub else {})}}
        own = {**same, **one, **extra}
        own["notes"] = {**one.get("notes", {}), **{f"simulate.muster.dev/{k}": str(v) for k, v in (times or {}).items()}}
        if "selector" in on and rng.random() < 0.25 and (not uniform or minimum == len(sizes)):
            own["nodeSelector"] = {"kind": rng.choice(("x", "y"))}
        docs.append(pod(f"{name}-{i}", name, age=age, at=at.get(i) if at else None, **own))
    return docs


def settle(rng, docs, new):
    """Put the pods of a running gang somewhere they may be; None: there is no such place that is found at random."""
    state_docs = docs + new
    cluster = Cluster(state_docs)
    state = State(cluster)
    for p in cluster.pods.values():
        if p.node:
            state.put(p, p.node, p.shares or None)
    one = next(d for d in new if d["kind"] == "PodGroup")
    grp = cluster.groups[one["metadata"]["name"]]
    chosen = {}
    for p in grp.pods:
        spots = [n for n in cluster.nodes if state.choices(p, n) and state.fits(p, n, grp)]
        if not spots or p.part(GPU_MIB):  # who shares a GPU with whom is written in labels: those begin by waiting
            return None
        chosen[p.name] = rng.choice(spots)
        state.put(p, chosen[p.name])
    for d in new:
        if d["kind"] == "Pod":
            d["spec"]["nodeName"] = chosen[d["metadata"]["name"]]
            d["status"] = {"phase": "Running"}
        else:
            d["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"] = d["metadata"]["creationTimestamp"]
    return new


def start(on, **config):
    docs = [{"config": {**config}}, topology(("zone", "rack")), *classes()]
    return docs + (namespaces() if "namespaces" in on else [])


# ---- scenes ----
def scene_gang(rng):
    """Gangs on nodes where others run that stay: they run if there is any placement."""
    on = some(rng)
    docs = start(on, reserveAfter="360000s") + nodes(rng, on) + [queue("q"), queue("fill")]
    for i in range(rng.randint(0, 3)):
        new = gang(rng, on - {"subgroups", "topology", "elastic"}, f"f{i}", "fill", 3600, "build", pods_max=2)
        docs += settle(rng, docs, new) or []
    for i in range(rng.choice((1, 1, 2))):
        docs += gang(rng, on, f"g{i}", "q", priority=rng.choice(("train", "build")))
    return docs


def scene_moves(rng):
    """A gang that fits once another is moved."""
    on = some(rng, 0.15) - {"elastic", "mig", "fraction"}
    docs = start(on, reserveAfter="360000s") + nodes(rng, on, 2, 4) + [queue("q"), queue("fill")]
    for i in range(rng.randint(1, 4)):
        docs += settle(rng, docs, gang(rng, on, f"f{i}", "fill", 3600, pods_max=2)) or []
    docs += gang(rng, on, "g0", "q", pods_max=3)
    return docs


def tree(rng, total, cpus=None, named=1.0):
    """Queues: flat, or departments with leaves; ([documents], [names of leaves])"""
    docs, leaves = [], []
    deep = rng.random() < 0.5
    tops = [f"d{i}" for i in range(rng.randint(2, 3))]

    def bounds(most):
        quota = rng.choice((-1, 0, rng.randint(0, most), rng.randint(0, most)))
        limit = rng.choice((-1, -1, -1, rng.randint(max(quota, 0), most + 2)))
        return quota, limit

    def rest(unit):
        if rng.random() >= named:
            return False
        return (-1, -1) if not cpus or rng.random() < 0.7 else tuple(v * unit if v >= 0 else -1 for v in bounds(cpus))

    for top in tops:
        docs.append(queue(top, "", bounds(total), rest(1000), rest(1000), rng.choice((100, 100, 100, 50)),
                          rng.choice((1, 1, 2, 0.5))))
        below = [f"{top}l{i}" for i in range(rng.randint(1, 2))] if deep else []
        for leaf in below:
            docs.append(queue(leaf, top, bounds(total), rest(1000), rest(1000), weight=rng.choice((1, 1, 3))))
        leaves += below or [top]
    return docs, leaves


def scene_queues(rng, on=None):
    """Queues with quotas and limits, work that runs and work that waits."""
    on = some(rng, 0.1) - {"namespaces"} if on is None else on
    docs = start(on) + nodes(rng, on, 1, 3)
    total = sum(int(d["status"]["allocatable"].get("nvidia.com/gpu", 0)) for d in docs if d.get("kind") == "Node")
    named = rng.choice((1.0, 1.0, 0.0))
    trees, leaves = tree(rng, total, 24 if "cpus" in on else None, named)
    docs += trees
    kinds = [("train", None), ("train", None), ("build-preemptible", None), ("build", None), ("train", "semi-preemptible")]
    for i in range(rng.randint(1, 6)):
        priority, preemptibility = rng.choice(kinds)
        new = gang(rng, on, f"r{i}", rng.choice(leaves), rng.randint(60, 3600), priority, preemptibility, pods_max=2)
        docs += settle(rng, docs, new) or []
    for i in range(rng.randint(1, 4)):
        priority, preemptibility = rng.choice(kinds)
        times = {"from": rng.randint(2, 4)} if rng.random() < 0.3 else None
        age = rng.choice((1, 100, 200, 1200))
        docs += gang(rng, on, f"w{i}", rng.choice(leaves), age, priority, preemptibility, pods_max=3, times=times)
    return docs


def scene_mixed(rng):
    docs = scene_queues(rng, some(rng, 0.3))
    if rng.random() < 0.2:
        leaf = [d for d in docs if d.get("kind") == "Queue"][-1]["metadata"]["name"]
        docs.append({"gangs": [{"name": "held", "queue": leaf, "pods": 2, "gpus": 1, "held": True}]})
    return docs


def scene_shares(rng):
    """Pods of one GPU, all preemptible, and demand that nobody can use: shares are those of the demand that somebody can."""
    total = rng.randint(4, 14)
    docs = [{"config": {}}, *classes()]
    docs += [node("n0", total)] if rng.random() < 0.5 else [node("n0", total - 2), node("n1", 2)]
    trees, leaves = tree(rng, total)
    docs += trees
    number = 0
    for leaf in leaves:
        for i in range(rng.choice((0, 2, total // 2, total))):
            docs += [group(f"{leaf}-{i}", leaf, 1, 200 - number), pod(f"{leaf}-{i}-0", f"{leaf}-{i}", 1, age=200 - number)]
            number += 1
    busy = rng.choice(leaves)
    path = [q["spec"] for q in trees if q["metadata"]["name"] in (busy, busy[:2])]
    limits = [spec["resources"]["gpu"]["limit"] for spec in path]
    most = min([limit for limit in limits if limit >= 0], default=total)  # nothing runs beyond a limit
    free = {d["metadata"]["name"]: int(d["status"]["allocatable"]["nvidia.com/gpu"]) for d in docs if d.get("kind") == "Node"}
    for d in docs:
        if d.get("kind") == "Pod" and d["metadata"]["name"].startswith(busy + "-") and any(free.values()) and most:
            most -= 1
            d["spec"]["nodeName"] = next(n for n, left in free.items() if left)
            d["status"] = {"phase": "Running"}
            free[d["spec"]["nodeName"]] -= 1
    phantom = rng.choice(("none", "impossible", "uneven", "ports", "incomplete", "gated", "held"))
    leaf = rng.choice(leaves)
    many = rng.randint(2, total)
    if phantom == "impossible":
        docs += [group("p", leaf, 1, 100), pod("p-0", "p", 100)]
    elif phantom == "uneven":
        docs += [group("p", leaf, 2, 100), pod("p-0", "p", total - 1), pod("p-1", "p", 2)]
    elif phantom == "ports":  # more than there are nodes
        docs += [group("p", leaf, 3, 100)] + [pod(f"p-{i}", "p", 1, ports=[8000]) for i in range(3)]
    elif phantom == "incomplete":
        docs += [group("p", leaf, many + 1, 100)] + [pod(f"p-{i}", "p", 1) for i in range(many)]
    elif phantom == "gated":
        docs += [group("p", leaf, many, 100)] + [pod(f"p-{i}", "p", 1, schedulingGates=[{"name": "wait"}]) for i in range(many)]
    elif phantom == "held":
        docs.append({"gangs": [{"name": "p", "queue": leaf, "pods": many, "gpus": 1, "held": True}]})
    return docs


def scene_aged(rng):
    """A gang that has waited long, nodes full of work that ends, and small work that keeps coming."""
    on = some(rng, 0.25) - {"elastic", "mig", "fraction", "near", "spread", "namespaces", "slots"}
    docs = start(on) + nodes(rng, on, 2, 5) + [queue("q"), queue("r")]
    docs += gang(rng, on, "big", "q", rng.randint(400, 2000), rng.choice(("train", "build")), pods_max=4)
    free = {d["metadata"]["name"]: int(d["status"]["allocatable"].get("nvidia.com/gpu", 0))
            for d in docs if d.get("kind") == "Node"}
    number, end = 0, 4
    for name, left in free.items():
        while left:
            gpus = rng.randint(1, left)
            docs += [group(f"r{number}", "r", 1, 4000 - number, "build", running=True),
                     pod(f"r{number}-0", f"r{number}", gpus, at=name, notes={"simulate.muster.dev/fails": str(end)},
                         tolerations=[{"operator": "Exists"}])]
            left -= gpus
            number += 1
            end += rng.randint(0, 2)
    for i in range(rng.randint(4, 16)):
        end += 2
        docs += [group(f"s{i}", "r", 1, 0, "build"),
                 pod(f"s{i}-0", f"s{i}", rng.randint(1, 3), tolerations=[{"operator": "Exists"}],
                     notes={"simulate.muster.dev/from": "3", "simulate.muster.dev/fails": str(min(end, 39))})]
    return docs


# ---- volumes ----
DRIVER = "disks.example.com"


def storage_class(name, provisioner, **more):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer", **more}


def claim(name, namespace, cls, size=1, mode="ReadWriteOnce", volume=None):
    doc = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
           "spec": {"storageClassName": cls, "accessModes": [mode], "resources": {"requests": {"storage": f"{size}Gi"}}}}
    if volume:
        doc["spec"]["volumeName"], doc["status"] = volume, {"phase": "Bound"}
    return doc


def disk(name, cls, size, key, values, owner=None, mode="ReadWriteOnce"):
    """owner: (namespace, claim) that has it."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
    source = {"local": {"path": "/disk"}}
    if owner:
        source = {"csi": {"driver": DRIVER, "volumeHandle": name}, "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": owner[0], "name": owner[1]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"storageClassName": cls, "capacity": {"storage": f"{size}Gi"}, "accessModes": [mode], **source,
                     "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
            "status": {"phase": "Bound" if owner else "Available"}}


VOLUMES = ("bound", "bound", "made", "made", "local", "local", "alone", "missing")


def with_volumes(rng, new, zones, kinds=VOLUMES):
    """The documents of a gang whose pods mount claims: each one of its own, or all the same one; and the claims."""
    pods = [d for d in new if d["kind"] == "Pod"]
    space, name = pods[0]["metadata"]["namespace"], new[0]["metadata"]["name"]
    kind = rng.choice(kinds)
    mode = "ReadWriteOncePod" if kind == "alone" else "ReadWriteOnce"
    shared = kind != "local" and rng.random() < 0.4
    claims = [f"{name}-data"] if shared else [f"{name}-c{i}" for i in range(len(pods))]
    here = rng.sample(zones, rng.randint(1, len(zones)))
    for i, one in enumerate(pods):
        if rng.random() < 0.85:
            one["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claims[0 if shared else i]}}]
    for one in claims if kind != "missing" or not shared else ():
        if kind == "local":
            new.append(claim(one, space, "local", rng.randint(1, 2)))
        elif kind == "made":
            new.append(claim(one, space, "made-" + name))
        else:
            new.append(claim(one, space, "zonal", mode=mode, volume="disk-" + one))
            new.append(disk("disk-" + one, "zonal", 1, "zone", here if shared else [rng.choice(zones)], (space, one), mode))
    if kind == "made":
        some_zones = [{"matchLabelExpressions": [{"key": "zone", "values": here}]}]
        new.append(storage_class("made-" + name, DRIVER, **({"allowedTopologies": some_zones} if rng.random() < 0.7 else {})))
    return new


def scene_volumes(rng):
    """Gangs whose pods go where their volumes can be: all that fits is placed, and nobody is where they cannot be used."""
    on = some(rng, 0.15) - {"elastic", "fraction", "mig"}
    docs = start(on, reserveAfter="360000s") + nodes(rng, on, 2, 4) + [queue("q"), queue("fill")]
    there = [d for d in docs if d.get("kind") == "Node"]
    zones = sorted({d["metadata"]["labels"].get("zone", "a") for d in there})
    docs.append(storage_class("local", "kubernetes.io/no-provisioner"))
    for n in there:
        name = n["metadata"]["name"]
        for i in range(rng.randint(0, 2)):
            docs.append(disk(f"local-{name}-{i}", "local", rng.randint(1, 3), "kubernetes.io/hostname", [name]))
        if rng.random() < 0.3:
            docs.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {
                "drivers": [{"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.randint(1, 3)}}]}})
    for i in range(rng.randint(0, 2)):
        docs += settle(rng, docs, gang(rng, on - {"subgroups", "topology"}, f"f{i}", "fill", 3600, "build", pods_max=2)) or []
    for i in range(rng.choice((1, 1, 2))):
        docs += with_volumes(rng, gang(rng, on, f"g{i}", "q", priority=rng.choice(("train", "build")), pods_max=4), zones)
    return docs


def scene_attached(rng):
    """Work of a lower priority runs with its volumes, and some of a higher one waits with volumes, or with one of those."""
    on = some(rng, 0.1) - {"elastic", "namespaces"}
    docs = start(on, reserveAfter="360000s") + nodes(rng, on, 1, 3) + [queue("q")]
    there = [d for d in docs if d.get("kind") == "Node"]
    zones = sorted({d["metadata"]["labels"].get("zone", "a") for d in there})
    for n in there:
        if rng.random() < 0.7:
            name = n["metadata"]["name"]
            docs.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {
                "drivers": [{"name": DRIVER, "nodeID": name, "allocatable": {"count": rng.randint(1, 3)}}]}})
    mine = ("Pod", "PodGroup")
    for i in range(rng.randint(1, 4)):
        new = gang(rng, on, f"l{i}", "q", 900 + i, pods_max=2)
        new = with_volumes(rng, new, zones, ("bound", "alone"))  # as volumes of what runs are
        docs += [d for d in new if d["kind"] not in mine]
        docs += settle(rng, docs, [d for d in new if d["kind"] in mine]) or []
    taken = [d["spec"]["volumes"] for d in docs if d.get("kind") == "Pod" and d["spec"].get("volumes")]
    for i in range(rng.randint(1, 2)):
        new = with_volumes(rng, gang(rng, on, f"h{i}", "q", 9, "build-preemptible", pods_max=2), zones)
        if taken and rng.random() < 0.3:
            next(d for d in new if d["kind"] == "Pod")["spec"]["volumes"] = rng.choice(taken)
        docs += new
    return docs


SCENES = {"gang": scene_gang, "volumes": scene_volumes, "attached": scene_attached, "queues": scene_queues,
          "shares": scene_shares, "aged": scene_aged, "moves": scene_moves, "mixed": scene_mixed}
