"""shrink: the smallest cluster that still shows a violation. Leaves out documents, then fields, as long as it stays."""

import copy

TRIES_MAX = 1000  # simulations of one violation
BATCH = 40        # of one process

FIELDS = (("metadata", "labels"), ("metadata", "annotations"), ("spec",), ("spec", "affinity"), ("spec", "resources"),
          ("spec", "topologySpreadConstraints", 0), ("spec", "subGroups"), ("spec", "containers", 0),
          ("spec", "containers", 0, "resources", "requests"), ("status", "allocatable"))
KEPT = {"nodeName", "containers", "name", "queue", "image", "labelSelector", "topologyKey", "whenUnsatisfiable", "maxSkew",
        "pods", "pod-group-name", "resources", "gpu", "cpu", "memory", "minMember"}

WHOLE = ("Namespace", "PriorityClass")  # without them names mean something else


def without(docs, index):
    """Without one document, and all that makes no sense without it."""
    gone = docs[index]
    name = gone.get("metadata", {}).get("name")
    rest = docs[:index] + docs[index + 1:]
    if gone.get("kind") == "PodGroup":
        rest = [d for d in rest if d.get("metadata", {}).get("annotations", {}).get("pod-group-name") != name]
    elif gone.get("kind") == "Node":
        lost = {d["metadata"]["annotations"]["pod-group-name"] for d in rest if d.get("spec", {}).get("nodeName") == name}
        rest = [d for d in rest if d.get("metadata", {}).get("annotations", {}).get("pod-group-name") not in lost and
                not (d.get("kind") == "PodGroup" and d["metadata"]["name"] in lost)]
    elif gone.get("kind") == "Pod":
        mine = gone["metadata"]["annotations"]["pod-group-name"]
        rest = [copy.deepcopy(d) for d in rest]
        for d in rest:
            if d.get("kind") == "PodGroup" and d["metadata"]["name"] == mine and d["spec"].get("minMember", 1) > 1:
                d["spec"]["minMember"] -= 1
    elif gone.get("kind") == "Queue":
        rest = [d for d in rest if d.get("spec", {}).get("queue") != name and d.get("spec", {}).get("parentQueue") != name]
    return rest


def inside(doc, path):
    for step in path:
        if isinstance(doc, list) and isinstance(step, int) and step < len(doc):
            doc = doc[step]
        elif isinstance(doc, dict) and step in doc:
            doc = doc[step]
        else:
            return None
    return doc


def amounts(doc):
    return inside(doc, ("status", "allocatable")) or inside(doc, ("spec", "containers", 0, "resources", "requests"))


def smaller(docs):
    """Clusters that are simpler in one thing."""
    for index, doc in enumerate(docs):
        if doc.get("kind", "Namespace") not in WHOLE or "gangs" in doc:
            yield without(docs, index)
    for index, doc in enumerate(docs):
        for path in FIELDS if doc.get("kind", "Namespace") not in WHOLE else ():
            part = inside(doc, path)
            for key in list(part) if isinstance(part, dict) else ():
                if key not in KEPT:
                    new = copy.deepcopy(docs)
                    del inside(new[index], path)[key]
                    yield new
    for index, doc in enumerate(docs):
        room = amounts(doc)
        for key in ("nvidia.com/gpu", "cpu"):
            if room and room.get(key, "").isdigit() and int(room[key]) > 1:
                new = copy.deepcopy(docs)
                amounts(new[index])[key] = str(int(room[key]) - 1)
                yield new


def groups_only(docs, names):
    return [d for d in docs if d.get("kind") not in ("Pod", "PodGroup") or
            names & {d["metadata"]["name"], d["metadata"].get("annotations", {}).get("pod-group-name")}]


def shrink(docs, shows, who):
    """shows(list of clusters) -> index of the first that still shows the violation, or None. who: groups that it is about."""
    others = sorted({d["metadata"]["name"] for d in docs if d.get("kind") == "PodGroup"} - who)
    early = [groups_only(docs, who | set(others[i::n])) for n in (len(others) + 1, 4, 2) for i in range(n)] if others else []
    found = shows(early) if early else None
    docs = docs if found is None else early[found]
    tries = at = 0
    clean = False  # nothing could go since the list was last begun
    while tries < TRIES_MAX:
        batch = list(smaller(docs))[at:at + BATCH]
        if not batch:
            if clean:
                break
            at, clean = 0, True
            continue
        found = shows(batch)
        tries += len(batch) if found is None else found + 1
        if found is None:
            at += len(batch)
        else:
            docs, at, clean = batch[found], at + found, False
    return tidy(docs)


def tidy(docs):
    """Without what is empty."""
    def clean(value):
        if isinstance(value, dict):
            kept = ("config", "labelSelector", "namespaceSelector")
            return {k: clean(v) for k, v in value.items() if v not in ({}, []) or k in kept}
        return [clean(v) for v in value] if isinstance(value, list) else value
    return [clean(doc) for doc in docs]
