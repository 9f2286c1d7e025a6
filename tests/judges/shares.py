"""shares: who is due how much of one resource, by water-filling: quotas first, then what is left by weight, the highest priority
of queues first, never more than can be used. Numbers are whole; what remains of a division goes to the largest remainder."""


def divide(total, queues):
    """queues: [{name, quota (None: all), limit (None), weight, priority, demand, number}]; returns {name: share}, or None where
    more is guaranteed than there is: who goes short then is nobody's rule."""
    due = {}
    for q in queues:
        q = q | {"most": q["demand"] if q["limit"] is None else min(q["demand"], q["limit"])}
        due[q["name"]] = [q, min(total if q["quota"] is None else q["quota"], q["most"])]
    rest = total - sum(share for _, share in due.values())
    if rest < 0:
        return None
    for priority in sorted({q["priority"] for q in queues}, reverse=True):
        level = [entry for entry in due.values() if entry[0]["priority"] == priority]
        rest = pour(rest, level)
    return {name: share for name, (_, share) in due.items()}


def pour(rest, level):
    while rest > 0:
        thirsty = [e for e in level if e[0]["most"] > e[1] and e[0]["weight"] > 0]
        weights = sum(e[0]["weight"] for e in thirsty)
        if not thirsty:
            return rest
        parts = [(e, rest * e[0]["weight"] / weights) for e in thirsty]
        full = [(e, e[0]["most"] - e[1]) for e, part in parts if e[0]["most"] - e[1] <= part]
        if full:
            for entry, want in full:
                entry[1] += want
                rest -= want
            continue
        for entry, part in parts:
            entry[1] += int(part)
            rest -= int(part)
        for entry, part in sorted(parts, key=lambda p: (-(p[1] - int(p[1])), p[0][0]["number"])):
            if rest > 0 and entry[1] < entry[0]["most"]:
                entry[1] += 1
                rest -= 1
        return rest
    return rest


def tree(total, queues, demand):
    """Shares of all queues, or None. queues: {name: Queue}; demand: leaf -> units that it could use. A parent can use what its
    children can."""
    def usable(name):
        below = [q for q in queues.values() if q.parent == name]
        want = sum(usable(q.name) for q in below) if below else demand.get(name, 0)
        limit = queues[name].limit.get("gpu")
        return want if limit is None else min(want, limit // 1000)

    def level(name, amount):
        below = [q for q in queues.values() if q.parent == name]
        rows = [{"name": q.name, "quota": None if q.quota.get("gpu", 0) is None else q.quota.get("gpu", 0) // 1000,
                 "limit": None if q.limit.get("gpu") is None else q.limit["gpu"] // 1000, "weight": q.weight.get("gpu", 1),
                 "priority": q.priority, "demand": usable(q.name), "number": q.number} for q in below]
        shares = divide(amount, rows)
        for q in below if shares is not None else ():
            lower = level(q.name, shares[q.name])
            shares = None if lower is None else shares | lower
            if shares is None:
                break
        return shares

    return level("", total)
