"""judge: is what the scheduler did right? Each judge looks at a cluster and at what became of it, and knows rules only.

A violation is (kind, who, words, expectation): the last is what the file has to say under `expect:` to show it.
"""

import collections
import itertools
import re

import shares
from cluster import play
from placer import Cut, place
from rules import State, node_allows, ports_clash, selected

RESOURCES = ("gpu", "cpu", "memory")
FOR = re.compile(r" for (\S+?)/(\S+)")  # whom a victim had to make room for, in the message of the eviction


class Case:
    """A cluster, what became of it, and what judges ask of both."""

    def __init__(self, cluster, outcome):
        self.cluster, self.outcome = cluster, outcome
        self.steps = play(cluster, outcome)
        self.changes = [step for step in self.steps if step.bound]
        self.where = self.steps[-1].after if self.steps else {}
        self.shares = {p["name"]: p.get("gpuGroups") for p in outcome["pods"]}
        self.cut = 0       # questions that the placer could not answer
        self.unsure = collections.Counter()  # reasons for which a judge could not decide something
        self.settled = outcome["cycles"] < self.most
        self.events = any(any(p.times.values()) for p in cluster.pods.values())
        self.here = {p.name for p in cluster.pods.values() if p.times["from"] <= outcome["cycles"]}

    most = 40  # cycles that a simulation may have

    def state(self, where=None):
        """Which devices pods have is known of the end: of one that was elsewhere before, it is not."""
        where = self.where if where is None else where
        return State.of(self.cluster, where, {name: devices for name, devices in self.shares.items()
                                              if where.get(name) == self.where.get(name)})

    def running(self, group, where=None):
        where = self.where if where is None else where
        return [p for p in group.pods if p.name in where]

    def fixed_part(self, group, pods):
        """Those of its running pods that nobody may evict, and that need quota."""
        if group.preemptible == "non-preemptible":
            return pods
        return pods[:sum(part.minimum for part in group.leaves())] if group.preemptible == "semi-preemptible" else []

    def used(self, where=None, fixed=False):
        """What every queue uses; fixed: by work that is not preemptible."""
        total = {name: dict.fromkeys(RESOURCES, 0) for name in self.cluster.queues}
        for group in self.cluster.groups.values():
            pods = self.running(group, where)
            for pod in self.fixed_part(group, pods) if fixed else pods:
                charge = pod.charge(self.cluster.mib)
                for queue in self.cluster.ancestors(group.queue):
                    for resource in RESOURCES:
                        total[queue.name][resource] += charge[resource]
        return total

    def request(self, pods):
        charges = [p.charge(self.cluster.mib) for p in pods]
        return {r: sum(c[r] for c in charges) for r in RESOURCES}

    def admitted(self, group, pods, where=None, fixed=None):
        """Do limits, and quotas for what is not preemptible, let these pods in?"""
        want = self.request(pods)
        used = self.used(where)
        not_preemptible = fixed if fixed is not None else group.preemptible != "preemptible"
        used_fixed = self.used(where, fixed=True) if not_preemptible else None
        for queue in self.cluster.ancestors(group.queue):
            for r in RESOURCES:
                limit, quota = queue.limit.get(r), queue.quota.get(r)
                if want[r] and limit is not None and used[queue.name][r] + want[r] > limit:
                    return False
                if want[r] and not_preemptible and quota is not None and used_fixed[queue.name][r] + want[r] > quota:
                    return False
        return True

    def exists(self, group):
        """Its queue and all above it are there, and it is a leaf."""
        path = self.cluster.ancestors(group.queue)
        return bool(path) and path[-1].parent == "" and not any(q.parent == group.queue for q in self.cluster.queues.values())

    def waiting(self):
        """Groups that could start as far as they themselves are concerned, with the pods that have to."""
        for group in self.cluster.groups.values():
            pods = [p for p in group.pods if p.name in self.here and not p.gated and not p.times["fails"]]
            if self.running(group) or not pods or not self.exists(group) or not group.whole(pods) or len(pods) < len(group.pods):
                continue
            yield group, self.first_pods(group, pods)

    def first_pods(self, group, pods):
        """The minimum of each part; generated groups have equal pods in parts that need not be whole."""
        first = []
        for part in group.leaves():
            first += [p for p in pods if group.leaf_of(p) is part][:part.minimum]
        return first

    def room_for(self, group, pods, where=None):
        """Is there any placement? None: not known."""
        if not pods:
            return False
        try:
            return place(self.state(where), pods, group)
        except Cut:
            self.cut += 1
            return None

    def others_have_room_kept(self, group):
        """A gang that has waited long enough has room kept: what others find idle may be that. It starts once all others have
        ended, or all but those whom it has to be near."""
        for other, pods in self.waiting():
            company = {n: at for n, at in self.where.items()
                       if any(selected(self.cluster, term, p, self.cluster.pods[n]) for p in pods for term in p.near)}
            if (other is not group and other.age + self.outcome["cycles"] >= self.cluster.reserve_after and
                    any(self.room_for(other, pods, where) is not False for where in ({}, company))):
                return True
        return False


# ---- what is never broken ----
def judge_nodes(case):
    """Hard constraints of every pod that was bound, at the moment of its bind."""
    for step in case.changes:
        state = State.of(case.cluster, step.after)
        gone = {e["pod"] for e in step.evicted}
        crowded, alone = wrong_in_order(case, step)

        def alike(pod, step=step):
            """Without those of the cycle that have no such constraint: they may have come after it."""
            later = {b["pod"] for b in step.bound if case.cluster.pods.get(b["pod"], pod).spread != pod.spread}
            return State.of(case.cluster, {n: at for n, at in step.after.items() if n not in later})
        for b in step.bound:
            pod, node = case.cluster.pods.get(b["pod"]), case.cluster.nodes.get(b["node"])
            if not pod:
                continue
            group = case.cluster.groups.get(pod.group)
            if pod.gated or not node_allows(pod, node, surely=False):
                yield "hard-node", pod.group, f"{pod.name} is on {node.name}, which its selectors, taints or gates forbid"
            if any(ports_clash(pod.ports, p.ports) for p in state.rooms[node.name].pods if p is not pod):
                yield "hard-ports", pod.group, f"{pod.name} has a port on {node.name} that another pod there has"
            if not state.apart_allows(pod, node.name):
                yield "hard-apart", pod.group, f"{pod.name} is on {node.name} beside a pod that it must be apart from"
            if not gone and pod.name in alone and not state.near_allows(pod, node.name):
                yield "hard-near", pod.group, f"{pod.name} is on {node.name} without the pod that it must be near"
            if pod.claims and not state.volumes_allow(pod, node.name):
                yield "hard-volume", pod.group, f"{pod.name} is on {node.name}, where its volumes cannot be used"
            if not state.topology_allows(pod, node.name, group):
                yield "hard-topology", pod.group, f"{pod.name} is on {node.name}, in another domain than the rest of {pod.group}"
            if not gone and pod.name in crowded and not any(spread_holds(s, pod, node) for s in (state, alike(pod))):
                yield "hard-spread", pod.group, f"{pod.name} is on {node.name}, where its kind is too crowded"


ORDERED_MAX = 8  # pods of a cycle that are tried in every order


def some_order(state, pods):
    """Is there an order of [(pod, node)] in which all may be bound, one after another? Who is there counts."""
    seen = set()

    def search(left):
        if not left:
            return True
        if left in seen:
            return False
        seen.add(left)
        for i in sorted(left):
            pod, node = pods[i]
            if not (state.spread_allows(pod, node) and state.near_allows(pod, node)):
                continue
            state.put(pod, node)
            found = search(left - {i})
            state.take(pod)
            if found:
                return True
        return False
    return len(pods) <= ORDERED_MAX and search(frozenset(range(len(pods))))


def wrong_in_order(case, step):
    """Pods whose spread did not hold when those of the cycle are bound one after another, as they are listed; and pods that were
    not near whom they must be. The first of those that are near each other may go anywhere."""
    state = State.of(case.cluster, {n: at for n, at in step.before.items() if n not in {e["pod"] for e in step.evicted}})
    crowded, alone = set(), set()
    came = [(case.cluster.pods[b["pod"]], b["node"]) for b in step.bound if b["pod"] in case.cluster.pods]
    if not any(pod.in_order for pod, _ in came) or some_order(state, came):
        return crowded, alone
    for b in step.bound:
        pod = case.cluster.pods.get(b["pod"])
        if pod and pod.spread and not state.spread_allows(pod, b["node"]):
            crowded.add(pod.name)
        if pod and not state.near_allows(pod, b["node"]):
            alone.add(pod.name)
        if pod:
            state.put(pod, b["node"])
    return crowded, alone


def spread_holds(state, pod, node):
    """After all binds of a cycle: the order in which they were decided is not known."""
    if not pod.spread:
        return True
    state.take(pod)
    allowed = state.spread_allows(pod, node.name)
    state.put(pod, node.name)
    return allowed


def judge_room(case):
    for step in [*case.changes, *case.steps[-1:]]:
        last = step is case.steps[-1]
        state = State.of(case.cluster, step.after, case.shares if last else None)
        touched = {b["node"] for b in step.bound}
        for room in state.rooms.values():
            name = room.node.name
            if not (name in touched or (last and any(b["node"] == name for b in case.outcome["binds"]))):
                continue
            whole = room.node.gpus - sum(p.gpus for p in room.pods)
            short = [word for word, left in (("CPUs", room.cpu), ("memory", room.memory), ("pod slots", room.slots),
                                             ("GPUs", room.gpus if last else whole), *room.other.items(),
                                             *room.shares.items()) if left < 0 and (last or word not in room.shares)]
            if short:
                yield "hard-room", name, f"{name} has more than its {', '.join(short)}"


def judge_gangs(case):
    """All or none: a group that has nothing running begins with what it needs."""
    for step in case.changes:
        came = {case.cluster.pods[b["pod"]].group for b in step.bound if b["pod"] in case.cluster.pods}
        for group in (case.cluster.groups[name] for name in sorted(came & set(case.cluster.groups))):
            before, after = case.running(group, step.before), case.running(group, step.after)
            if not before and after and not group.whole(after):
                yield "hard-gang", group.name, f"{len(after)} pods of {group.name} were started, which are too few"
    for step in case.steps:
        lost = {e["pod"] for e in step.evicted if not e["moved"]}
        for group in (case.cluster.groups[name] for name in sorted({case.cluster.pods[n].group for n in lost
                                                                    if n in case.cluster.pods} & set(case.cluster.groups))):
            before = case.running(group, step.before)
            left = [p for p in before if p.name not in lost]
            if left and group.whole(before) and not group.whole(left):
                yield "hard-torn", group.name, f"{group.name} was left with {len(left)} pods, which are too few"
    for name in case.cluster.held & {b["pod"].rsplit("-", 1)[0] for b in case.outcome["binds"]}:
        yield "hard-held", name, f"{name} is held and was started"


def judge_limits(case):
    for step in case.changes:
        used, fixed = case.used(step.after), case.used(step.after, fixed=True)
        came = {case.cluster.pods[b["pod"]].group for b in step.bound if b["pod"] in case.cluster.pods}
        for group in (case.cluster.groups[name] for name in came if name in case.cluster.groups):
            want = case.request([case.cluster.pods[b["pod"]] for b in step.bound
                                 if case.cluster.pods.get(b["pod"]) in group.pods])
            for queue in case.cluster.ancestors(group.queue):
                for r in RESOURCES:
                    limit, quota = queue.limit.get(r), queue.quota.get(r)
                    if want[r] and limit is not None and used[queue.name][r] > limit:
                        yield "hard-limit", group.name, f"{queue.name} uses {used[queue.name][r]} of {r}, its limit is {limit}"
                    if (want[r] and group.preemptible == "non-preemptible" and quota is not None and
                            fixed[queue.name][r] > quota):
                        yield ("hard-quota", group.name,
                               f"what is not preemptible uses {fixed[queue.name][r]} of {r} in {queue.name}, its quota {quota}")


# ---- who waits ----
def judge_waiting(case):
    """Nobody waits beside room that it could use."""
    if not case.settled:
        return
    for group, pods in case.waiting():
        if case.admitted(group, pods) and case.room_for(group, pods) and not case.others_have_room_kept(group):
            kind = "waits-beside-room" if all_named(case, group, pods) else "waits-beside-room-unnamed"
            yield kind, group.name, f"{group.name} waits, and there is a placement for it", len(pods)
    for group in case.cluster.groups.values():
        running = case.running(group)
        extra = [p for p in group.pods if p not in running and p.name in case.here and not p.gated and not p.times["fails"]]
        if (running and extra and group.whole(running) and group.elastic() and not group.parts[""].below and
                case.exists(group) and case.admitted(group, extra[:1], fixed=group.preemptible == "non-preemptible") and
                case.room_for(group, extra[:1]) and not case.others_have_room_kept(group)):
            yield "waits-extra", group.name, f"{group.name} could have one pod more", len(running) + 1


def all_named(case, group, pods):
    """Does every queue above it say something of every resource that it asks for?"""
    want = case.request(pods)
    return all(r in queue.quota for queue in case.cluster.ancestors(group.queue) for r in RESOURCES if want[r])


def guaranteed(queue, used, want):
    """What the queue names is within its quota with that, and speaks for all that goes along with it."""
    return speaks_for(queue, want) and all(queue.quota.get(r) is None or used[queue.name][r] + want[r] <= queue.quota[r]
                                           for r in RESOURCES if want[r])


def within_quota(case, group, pods, beside=None):
    """Do its queues guarantee it that? beside: another group: what is above both is guaranteed to both, and says nothing about
    who of them comes first."""
    want, used = case.request(pods), case.used()
    both = case.cluster.ancestors(beside.queue) if beside else []
    return all(guaranteed(queue, used, want) for queue in case.cluster.ancestors(group.queue) if queue not in both)


def within_all(case, group):
    """Are its queue and those above it within all their quotas, whatever is asked for? One that is above its fair share of
    anything takes nothing from others, nor one that is above its quota of anything what is within a fair share (KAI 4.3), and
    what it is above is shared out nobody knows how."""
    used = case.used()
    within = all(quota is None or used[queue.name][r] <= quota for queue in case.cluster.ancestors(group.queue)
                 for r, quota in queue.quota.items())
    case.unsure["its queue has more than its quota of something else"] += not within
    return within


def speaks_for(queue, want):
    """Does the queue name any of what is asked for? Of the rest it guarantees nothing."""
    return any(want[r] for r in queue.quota) or not any(want.values())


def diverge(cluster, mine, theirs):
    """The two queues at the first level where the paths of two leaves differ."""
    one, other = cluster.ancestors(mine)[::-1], cluster.ancestors(theirs)[::-1]
    for a, b in zip(one, other):
        if a is not b:
            return a, b
    return None, None


def over_quota(queue, used):
    """Above what it is guaranteed, which is never more than its limit."""
    bounds = [(r, b) for r, q in queue.quota.items() for b in (q, queue.limit[r]) if b is not None]
    return any(used[r] > bound for r, bound in bounds)


def units(case, mine):
    """What could be reclaimed, at once: (pods, leaf, queue that must be above its quota)."""
    for group in case.cluster.groups.values():
        running = case.running(group)
        if not running or group.preemptible == "non-preemptible" or group.queue == mine.queue or not case.exists(group):
            continue
        if group.parts[""].below or not group.whole(running):
            continue
        _, theirs = diverge(case.cluster, mine.queue, group.queue)
        minimum = group.parts[""].minimum
        if len(running) > minimum:
            yield running[-1:], case.cluster.queues[group.queue], theirs
        elif group.preemptible == "preemptible":
            yield running, case.cluster.queues[group.queue], theirs


def left_out(queue, used, want):
    """Of what is asked for the queue has less than it is guaranteed of some, and no more of any: it loses nothing for that,
    whatever else it has beyond its quota (KAI 0.17)."""
    has = [(used[queue.name][r], quota) for r, quota in queue.quota.items() if want[r] and quota is not None]
    return any(n < quota for n, quota in has) and not any(n > quota for n, quota in has)


def may_lose(case, pods, victims):
    """For these pods: is every unit taken from queues that are above their quota at that moment, in whatever order they are
    taken? It is if that holds for each where all others went before: what a queue uses only becomes less."""
    want_first = case.request(pods)
    if any(theirs is None or left_out(theirs, case.used(), want_first) for _, _, theirs in victims):
        return False

    def legal(last):
        used = case.used()
        for pods, leaf, _ in (v for v in victims if v is not last):
            for queue in case.cluster.ancestors(leaf.name):
                for r, n in case.request(pods).items():
                    used[queue.name][r] -= n
        pods, leaf, theirs = last
        want = case.request(pods)
        return not any(speaks_for(q, want) and not over_quota(q, used[q.name]) for q in (theirs, leaf))
    return all(map(legal, victims))


def keeps_room_from(case, group, pods, other):
    """It has waited long enough for room, or what is left of a limit, to be kept for it, and the other one does not go first:
    it is guaranteed that as well, or is of the same queue, where who is first in line is first."""
    if group is other or group.age + case.outcome["cycles"] < case.cluster.reserve_after:
        return False
    if group.queue == other.queue:
        return group.priority >= other.priority
    return within_quota(case, group, pods, beside=other)


def judge_quota(case):
    """What is guaranteed is given: by what is idle, or by what others have beyond their quotas."""
    if not case.settled:
        return
    for group, pods in case.waiting():
        if not within_quota(case, group, pods):
            continue
        most = 3 if within_all(case, group) else 1
        if any(keeps_room_from(case, g, p, group) for g, p in case.waiting()):
            continue
        kind = "waits-quota" if all_named(case, group, pods) else "waits-quota-unnamed"
        for count in range(most):
            hit = False
            for victims in itertools.combinations(list(units(case, group)), count):
                gone = {p.name for unit in victims for p in unit[0]}
                where = {n: at for n, at in case.where.items() if n not in gone}
                if may_lose(case, pods, victims) and case.admitted(group, pods, where) and case.room_for(group, pods, where):
                    words = "idle room" if not gone else f"what {', '.join(sorted(gone))} use beyond a quota"
                    yield kind, group.name, f"{group.name} is within its quota and waits, although there is {words}", len(pods)
                    hit = True
                    break
            if hit:
                break


def led_by(case, pods, gone):
    """Does where these may go depend on those that would have to go for them? Who is near nobody may be the first anywhere, and
    where the others come back to depends on that."""
    names = [case.cluster.pods[name] for name in gone]
    found = any(selected(case.cluster, term, pod, other) for pod in pods for term in pod.near for other in names)
    case.unsure["who had to go leads those that come"] += found
    return found


def judge_priority(case):
    """A higher priority of the same queue does not wait for a lower one."""
    if not case.settled:
        return
    for group, pods in case.waiting():
        lower = [g for g in case.cluster.groups.values() if g.queue == group.queue and g.priority < group.priority and
                 g.preemptible == "preemptible" and case.running(g)]
        gone = {p.name for g in lower for p in case.running(g)}
        where = {n: at for n, at in case.where.items() if n not in gone}
        if case.others_have_room_kept(group) or led_by(case, pods, gone):
            continue
        if lower and case.admitted(group, pods, where) and case.room_for(group, pods, where):
            yield ("waits-priority" if all_named(case, group, pods) else "waits-priority-unnamed", group.name,
                   f"{group.name} waits for {', '.join(g.name for g in lower)} of a lower priority in its queue", len(pods))


def judge_moves(case):
    """A gang that fits once one other is moved elsewhere does not wait."""
    if not case.settled:
        return
    for group, pods in case.waiting():
        if group.preemptible != "preemptible" or not case.admitted(group, pods):
            continue
        for other in case.cluster.groups.values():
            running = case.running(other)
            if not running or other.preemptible != "preemptible" or other is group or any(p.held_back for p in running):
                continue
            if any(p.in_order for p in [*pods, *running]):
                continue  # while one is away, the other may go where it must not be beside it
            gone = {p.name for p in running}
            try:
                # The gang first, then the other wherever it fits beside it: a sure yes, a no only for this order.
                state = case.state({n: at for n, at in case.where.items() if n not in gone})
                moved = place(state, pods, group) and place(state, running, other)
            except Cut:
                case.cut += 1
                continue
            if moved:
                yield "waits-move", group.name, f"{group.name} waits, and would fit if {other.name} were moved", len(pods)
                break


# ---- who had to go ----
def judge_victims(case):
    for step in case.steps:
        if not step.evicted:
            continue
        used = case.used(step.before)
        came = [case.cluster.pods[b["pod"]] for b in step.bound if b["pod"] in case.cluster.pods]
        came += promised(case, step)
        for e in step.evicted:
            pod = case.cluster.pods.get(e["pod"])
            group = case.cluster.groups.get(pod.group) if pod else None
            found = FOR.search(e["message"])
            by = case.cluster.groups.get(found.group(2)) if found else None
            if not group or e["action"] not in ("reclaim", "preempt", "consolidation"):
                continue
            if group.preemptible == "non-preemptible":
                yield "victim-fixed", group.name, f"{pod.name} is not preemptible and was evicted ({e['message']})"
            left = [p for p in case.running(group, step.before) if p.name not in {x["pod"] for x in step.evicted}]
            if group.preemptible == "semi-preemptible" and not e["moved"] and not group.whole(left):
                yield "victim-fixed", group.name, f"{group.name} is semi-preemptible, and has too few ({e['message']})"
            if not by or e["moved"]:
                continue
            if e["action"] == "preempt" and (by.queue != group.queue or by.priority <= group.priority):
                yield "victim-wrong", group.name, f"{pod.name} was preempted by no higher priority of its queue ({e['message']})"
            if e["action"] == "reclaim":
                _, theirs = diverge(case.cluster, by.queue, group.queue)
                extra = {r: 0 for r in RESOURCES}
                for p in came:
                    other = case.cluster.groups.get(p.group)
                    if theirs and other and theirs in case.cluster.ancestors(other.queue):
                        for r, n in p.charge(case.cluster.mib).items():
                            extra[r] += n
                if theirs is None:
                    yield "victim-wrong", group.name, f"{pod.name} was reclaimed for its own queue ({e['message']})"
                elif (speaks_for(theirs, case.request(case.running(group, step.before))) and
                      not over_quota(theirs, {r: used[theirs.name][r] + extra[r] for r in RESOURCES})):
                    yield ("victim-quota", group.name,
                           f"{theirs.name} was within its quota and lost {pod.name} ({e['message']})")


def promised(case, step):
    """Pods that others were evicted or moved for in this cycle, or that start in the next one: their queue has that room from
    then on."""
    names = {found.group(2) for found in (FOR.search(e["message"]) for e in step.evicted) if found}
    names |= {case.cluster.pods[b["pod"]].group for b in case.outcome["binds"]
              if b["cycle"] == step.cycle + 1 and b["pod"] in case.cluster.pods}
    groups = [case.cluster.groups[name] for name in sorted(names & set(case.cluster.groups))]
    return [p for group in groups for p in group.pods if p.name not in step.after]


def judge_needless(case):
    """Whoever was evicted had to be: those that it was for run, and where it was there is no room for it any more."""
    for index, step in enumerate(case.steps):
        for name, victims in victims_of(case, step).items():
            by = case.cluster.groups[name]
            # What starts in the cycle of an eviction found its room idle: the eviction is for those of its pods that come later.
            start = next((s for s in case.steps[index + 1:] if any(b["pod"] in {p.name for p in by.pods} for b in s.bound)), None)
            if start is None:
                if case.settled and not case.events and not went_to_better(case, index, by, victims):
                    gone = ", ".join(p.name for p in victims)
                    yield "victim-for-nothing", name, f"{gone} had to go for {name}, which never started"
                continue
            where = start.after | gone_later(case, step, start) | coming_back(case, step, start)
            state = case.state(where)
            for group in {p.group for p in victims}:
                unit = [p for p in victims if p.group == group]
                if could_stay(case, state, where, step, unit, by):
                    yield ("victim-needless", group,
                           f"{', '.join(p.name for p in unit)} had to go for {name}, and would fit beside it where it was")


def went_to_better(case, index, by, victims):
    """Did somebody start where the victims were, or in what they had of a limit, who comes before the one that they had to go
    for? That is who is before it in its own queue, and who is within its quota where the other one is not: what is guaranteed
    goes before what is only due. Asked are the queues at the first level where the two differ (KAI 4.3)."""
    nodes = {case.steps[index].before[p.name] for p in victims}
    limited = {q.name for p in victims for q in case.cluster.ancestors(case.cluster.groups[p.group].queue)
               if any(limit is not None for limit in q.limit.values())}

    def took(b):
        group = case.cluster.groups.get(case.cluster.pods[b["pod"]].group) if b["pod"] in case.cluster.pods else None
        return group and (b["node"] in nodes or any(q.name in limited for q in case.cluster.ancestors(group.queue)))
    for step in case.steps[index + 1:]:
        for name in {case.cluster.pods[b["pod"]].group for b in step.bound if took(b)}:
            group = case.cluster.groups.get(name)
            if not group or group is by:
                continue
            if group.queue == by.queue:
                if group.priority >= by.priority:
                    return True
                continue
            mine, theirs = diverge(case.cluster, group.queue, by.queue)
            used = case.used(step.before)
            if mine and guaranteed(mine, used, case.request(group.pods)) and not guaranteed(theirs, used, case.request(by.pods)):
                return True
    return False


def victims_of(case, step):
    found = {}
    for e in step.evicted:
        by = FOR.search(e["message"])
        if by and by.group(2) in case.cluster.groups and not e["moved"] and e["action"] in ("reclaim", "preempt"):
            found.setdefault(by.group(2), []).append(case.cluster.pods[e["pod"]])
    return found


def gone_later(case, step, start):
    """Pods that had to go, or were moved, after that step and before the start, and where they were: the room that they left was
    not there when it was decided."""
    return {e["pod"]: s.before[e["pod"]] for s in case.steps if step.cycle < s.cycle <= start.cycle for e in s.evicted
            if e["pod"] in s.before}


def coming_back(case, step, start):
    """Pods that were moved in that step and are not there yet: their room, and what they count in their queues, is their own."""
    moved = {e["pod"] for e in step.evicted if e["moved"]} - set(start.after)
    return {b["pod"]: b["node"] for b in reversed(case.outcome["binds"]) if b["pod"] in moved and b["cycle"] > start.cycle}


def could_stay(case, state, where, step, unit, by):
    """Back where they were, beside all that runs once the other has started; which may be where it is beside them, too: a spread
    counts who is there before a pod comes, and not after it."""
    group = case.cluster.groups[unit[0].group]
    if any(p.name in where or p.times["lingers"] for p in unit) or not case.admitted(group, unit, where):
        return False
    done = []
    try:
        for pod in unit:
            node = step.before[pod.name]
            choices = state.choices(pod, node)
            if not choices or not state.fits(pod, node, group):
                return False
            state.put(pod, node, choices[0])
            done.append(pod)
        return all(state.spread_allows(p, where[p.name]) for p in by.pods if p.name in where)
    finally:
        for pod in done:
            state.take(pod)


def judge_rest(case):
    if not case.settled and not case.events:
        yield "no-rest", "", f"something still changes after {case.outcome['cycles']} cycles"


# ---- what only some scenes can be asked ----
def judge_shares(case):
    """Of scenes with equal pods of one GPU, all preemptible, and CPUs for all: no leaf ends below its share."""
    cluster = case.cluster
    short = any(n.cpu < 1000 * n.gpus for n in cluster.nodes.values())
    if not case.settled or short or not all(map(case.exists, cluster.groups.values())):
        return
    if any(p.group not in cluster.groups or not p.gpus for p in cluster.pods.values()):
        return
    demand = {}
    for group in cluster.groups.values():
        if len(group.pods) == 1 and group.pods[0].gpus == 1 and not group.pods[0].gated and case.exists(group):
            demand[group.queue] = demand.get(group.queue, 0) + 1
    due = shares.tree(sum(n.gpus for n in cluster.nodes.values()), cluster.queues, demand)
    used = case.used()
    for name in demand if due else ():
        if used[name]["gpu"] < 1000 * (due[name] - len(cluster.ancestors(name))):  # a remainder of each level
            yield "share", name, f"{name} uses {used[name]['gpu'] // 1000} GPUs, its share is {due[name]}"


def judge_late(case):
    """A gang that has room kept for it starts when what ran at that time has ended."""
    first = [p.times["fails"] for p in case.cluster.pods.values() if p.node and p.times["fails"]]
    for group in case.cluster.groups.values():
        if group.age < case.cluster.reserve_after or any(p.node or p.times["from"] for p in group.pods) or not group.complete():
            continue
        if any(p.group != group.name and not p.node and p.times["from"] < 2 for p in case.cluster.pods.values()):
            continue  # who comes with it may go first
        due = max(first, default=0) + 3
        began = min((b["cycle"] for b in case.outcome["binds"] if b["pod"] in {p.name for p in group.pods}), default=None)
        fixed = {p.name: p.node for p in case.cluster.pods.values() if p.node and not p.times["fails"]}
        late = (began is None or began > due) and case.outcome["cycles"] >= due
        if late and case.room_for(group, case.first_pods(group, group.pods), fixed):
            said = "has not started" if began is None else f"started in cycle {began}"
            words = f"{group.name} has room kept for it, should start by cycle {due} and {said}"
            yield "late", group.name, words, len(group.pods)


ALWAYS = (judge_nodes, judge_room, judge_gangs, judge_limits, judge_victims, judge_needless)
JUDGES = {
    "gang": (*ALWAYS, judge_waiting, judge_rest),
    "queues": (*ALWAYS, judge_waiting, judge_quota, judge_priority, judge_rest),
    "shares": (*ALWAYS, judge_shares, judge_rest),
    "aged": (*ALWAYS, judge_late),
    "moves": (*ALWAYS, judge_waiting, judge_moves, judge_rest),
    "volumes": (*ALWAYS, judge_waiting, judge_rest),
    "attached": (*ALWAYS, judge_waiting, judge_priority, judge_rest),
    "mixed": (*ALWAYS, judge_waiting, judge_quota, judge_priority, judge_rest),
}


def judge(scene, cluster, outcome):
    """([violation], questions that could not be answered, {reason: how often nobody could say})"""
    case = Case(cluster, outcome)
    seen = {}
    for one in JUDGES[scene]:
        for kind, who, words, *running in one(case):
            seen.setdefault((kind, who), (kind, who, words, running[0] if running else None))
    return list(seen.values()), case.cut, +case.unsure
