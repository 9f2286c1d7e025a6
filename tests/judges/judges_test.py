#!/usr/bin/env python3
"""judges_test.py: every judge finds the fault that it is there for, in an answer that was made wrong by hand, and is content
with the right one. Ends with `N passed, N failed`."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import scenes  # noqa: E402
import shares  # noqa: E402
from cluster import Cluster, documents, text_of  # noqa: E402
from judge import Case, judge  # noqa: E402
from placer import place  # noqa: E402
from rules import State  # noqa: E402
from scenes import group, node, pod, queue, required  # noqa: E402

BASE = [{"config": {}}, scenes.topology(("zone", "rack"))]


def outcome(docs, binds=(), evictions=(), cycles=5):
    """What the simulator would say: binds [(cycle, pod, node)], evictions [(cycle, pod, action, by)], and True of
    those that are only moved."""
    pods = [d["metadata"] for d in docs if d.get("kind") == "Pod"]
    return {"pods": [{"name": p["name"]} for p in pods], "waiting": [], "cycles": cycles,
            "binds": [{"cycle": c, "pod": p, "node": n} for c, p, n in binds],
            "evictions": [{"cycle": c, "pod": p, "action": a, "moved": bool(moved),
                           "message": f"{a}ed for default/{by} of queue q"}
                          for c, p, a, by, *moved in evictions]}


def kinds(docs, *, scene="mixed", **said):
    return {v[0] for v in judge(scene, Cluster(documents(text_of(BASE + docs))), outcome(docs, **said))[0]}


def gang(name, sizes, queue_name="q", minimum=None, at=None, **more):
    spec = {k: more.pop(k) for k in ("age", "priority", "preemptibility", "topologyConstraint") if k in more}
    return ([group(name, queue_name, minimum or len(sizes), running=bool(at), **spec)] +
            [pod(f"{name}-{i}", name, size, at=at, **more) for i, size in enumerate(sizes)])


class Placer(unittest.TestCase):
    def fits(self, docs, name):
        cluster = Cluster(BASE + docs)
        state = State.of(cluster, {p.name: p.node for p in cluster.pods.values() if p.node})
        return place(state, [p for p in cluster.groups[name].pods if not p.node], cluster.groups[name])

    def test_the_small_one_goes_beside_a_large_one(self):
        nodes = [node("a", 4), node("b", 5), queue("q")]
        self.assertTrue(self.fits(nodes + gang("g", [1, 4, 4]), "g"))
        self.assertFalse(self.fits(nodes + gang("g", [2, 4, 4]), "g"))

    def test_racks_of_one_name_in_two_zones_are_two(self):
        nodes = [node("a", 2, labels={"zone": "x", "rack": "r"}), node("b", 2, labels={"zone": "y", "rack": "r"}), queue("q")]
        in_one = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
        self.assertFalse(self.fits(nodes + gang("g", [2, 2], **in_one), "g"))
        self.assertTrue(self.fits(nodes + gang("g", [1, 1], **in_one), "g"))

    def test_shares_of_a_gpu_are_packed(self):
        halves = [group("g", "q", 3)] + [pod(f"g-{i}", "g", notes={"gpu-fraction": "0.5"}) for i in range(3)]
        self.assertTrue(self.fits([node("a", 2), queue("q")] + halves, "g"))
        self.assertFalse(self.fits([node("a", 1), queue("q")] + halves, "g"))

    def test_the_first_of_those_that_are_near_each_other_goes_anywhere(self):
        near = required(podAffinity=[{"topologyKey": "zone", "labelSelector": {"matchLabels": {"gang": "g"}}}])
        nodes = [node("a", 1, labels={"zone": "x"}), node("b", 1, labels={"zone": "y"}), queue("q")]
        self.assertFalse(self.fits(nodes + gang("g", [1, 1], affinity=near), "g"))
        self.assertTrue(self.fits(nodes + [node("c", 1, labels={"zone": "y"})] + gang("g", [1, 1], affinity=near), "g"))

    def test_spread_counts_only_nodes_that_the_pod_may_use(self):
        nodes = [node(n, 1, labels={"zone": n, "kind": k}) for n, k in (("a", "x"), ("b", "x"), ("c", "y"))] + [queue("q")]
        spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                   "labelSelector": {"matchLabels": {"gang": "g"}}}]
        four = [node("d", 3, labels={"zone": "a", "kind": "x"}), node("e", 3, labels={"zone": "b", "kind": "x"})]
        pods = gang("g", [1] * 4, topologySpreadConstraints=spread, nodeSelector={"kind": "x"})
        self.assertTrue(self.fits(nodes + four + pods, "g"))
        self.assertFalse(self.fits(nodes + four[:1] + pods, "g"))


class Volumes(unittest.TestCase):
    NODES = [node(n, 2, labels={"zone": n, "kubernetes.io/hostname": n}) for n in "ab"] + [queue("q")]

    def mounting(self, *claims):
        docs = gang("g", [1] * len(claims))
        for doc, name in zip(docs[1:], claims):
            doc["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        return docs

    def fits(self, docs):
        return Placer.fits(self, self.NODES + docs, "g")

    def test_a_pod_goes_where_its_volume_can_be_used(self):
        disk = [scenes.disk("d", "zonal", 1, "zone", ["b"], ("default", "c")), scenes.claim("c", "default", "zonal", volume="d")]
        self.assertTrue(self.fits(self.mounting("c", "c") + disk))
        self.assertFalse(self.fits(self.mounting("c", "c", "c") + disk))
        self.assertFalse(self.fits(self.mounting("nowhere") + disk))
        docs = self.NODES + self.mounting("c") + disk
        self.assertIn("hard-volume", kinds(docs, binds=[(1, "g-0", "a")]))
        self.assertNotIn("hard-volume", kinds(docs, binds=[(1, "g-0", "b")]))

    def test_every_claim_needs_a_local_disk_of_its_own_that_is_large_enough(self):
        here = [scenes.storage_class("local", "kubernetes.io/no-provisioner"),
                scenes.disk("one", "local", 1, "kubernetes.io/hostname", ["a"]),
                scenes.disk("two", "local", 2, "kubernetes.io/hostname", ["a", "b"])]
        large, small = scenes.claim("large", "default", "local", 2), scenes.claim("small", "default", "local", 1)
        self.assertTrue(self.fits(self.mounting("small", "large") + here + [large, small]))
        self.assertFalse(self.fits(self.mounting("small", "large") + here[:2] + [large, small]))

    def test_a_claim_that_waits_is_made_once_in_a_zone_that_is_allowed_and_as_often_as_the_node_attaches(self):
        def made(count):
            return [scenes.storage_class("made", scenes.DRIVER, allowedTopologies=[
                {"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]),
                {"kind": "CSINode", "metadata": {"name": "b"}, "spec": {"drivers": [
                    {"name": scenes.DRIVER, "allocatable": {"count": count}}]}}]
        two = [scenes.claim(f"c{i}", "default", "made") for i in range(2)]
        self.assertTrue(self.fits(self.mounting("c0", "c1") + made(2) + two))
        self.assertFalse(self.fits(self.mounting("c0", "c1") + made(1) + two))
        self.assertFalse(self.fits(self.mounting("c0", "c0", "c0") + made(2) + two))


class Shares(unittest.TestCase):
    def row(self, name, quota, weight, demand, number=0, limit=None, priority=100):
        return {"name": name, "quota": quota, "limit": limit, "weight": weight, "priority": priority, "demand": demand,
                "number": number}

    def test_examples_of_the_documents(self):
        self.assertEqual(shares.divide(12, [self.row("a", 6, 1, 12), self.row("b", 2, 3, 12)]), {"a": 7, "b": 5})
        self.assertEqual(shares.divide(10, [self.row("a", 2, 2, 8), self.row("b", 1, 1, 8), self.row("c", 3, 1, 1)]),
                         {"a": 6, "b": 3, "c": 1})
        self.assertEqual(shares.divide(10, [self.row("a", 0, 2, 20, 0), self.row("b", 0, 1, 20, 1), self.row("c", 0, 1, 20, 2)]),
                         {"a": 5, "b": 3, "c": 2})

    def test_more_guaranteed_than_there_is_is_not_decided(self):
        self.assertIsNone(shares.divide(4, [self.row("a", 4, 1, 4), self.row("b", 4, 1, 4)]))


class Judges(unittest.TestCase):
    """Each row: a wrong answer, and the kind of violation that it is."""
    plain = [node("a", 4), queue("q")]

    def test_right_answers_are_right(self):
        self.assertEqual(kinds(self.plain + gang("g", [1, 2]), binds=[(1, "g-0", "a"), (1, "g-1", "a")]), set())
        self.assertEqual(kinds(self.plain + gang("g", [5])), set())

    def test_room_and_gangs(self):
        self.assertIn("waits-beside-room", kinds(self.plain + gang("g", [2, 2])))
        self.assertIn("hard-room", kinds(self.plain + gang("g", [3, 3]), binds=[(1, "g-0", "a"), (1, "g-1", "a")]))
        self.assertIn("hard-gang", kinds(self.plain + gang("g", [2, 2]), binds=[(1, "g-0", "a")]))
        self.assertIn("waits-extra", kinds(self.plain + gang("g", [1, 1], minimum=1), binds=[(1, "g-0", "a")]))

    def test_constraints(self):
        two = [node("a", 4, labels={"zone": "x", "rack": "1"}), node("b", 4, labels={"zone": "y", "rack": "1"}), queue("q")]
        on_both = [(1, "g-0", "a"), (1, "g-1", "b")]
        in_one = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
        near = required(podAffinity=[{"topologyKey": "zone", "labelSelector": {"matchLabels": {"gang": "g"}}}])
        apart = required(podAntiAffinity=[{"topologyKey": "rack", "labelSelector": {"matchLabels": {"gang": "g"}}}])
        spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                   "labelSelector": {"matchLabels": {"gang": "g"}}}]
        self.assertIn("hard-topology", kinds(two + gang("g", [1, 1], **in_one), binds=on_both))
        self.assertIn("hard-near", kinds(two + gang("g", [1, 1], affinity=near), binds=on_both))
        self.assertIn("hard-apart", kinds(two + gang("g", [1, 1], affinity=apart), binds=on_both))
        self.assertIn("hard-spread", kinds(two + gang("g", [1, 1], topologySpreadConstraints=spread),
                                           binds=[(1, "g-0", "a"), (1, "g-1", "a")]))
        self.assertIn("hard-ports", kinds(two + gang("g", [1, 1], ports=[80]), binds=[(1, "g-0", "a"), (1, "g-1", "a")]))
        self.assertIn("hard-node", kinds(two + gang("g", [1], nodeSelector={"zone": "y"}), binds=[(1, "g-0", "a")]))

    def test_limits_and_quotas(self):
        small = [node("a", 8), queue("q", gpu=(2, 3)), queue("r", gpu=(2, -1))]
        self.assertIn("hard-limit", kinds(small + gang("g", [4]), binds=[(1, "g-0", "a")]))
        self.assertIn("hard-quota", kinds(small + gang("g", [3], priority="build"), binds=[(1, "g-0", "a")]))
        full = gang("v1", [4], "r", at="a") + gang("v2", [4], "r", at="a")
        self.assertIn("waits-quota", kinds(small + full + gang("g", [2])))
        self.assertIn("victim-quota", kinds(small + gang("v", [2], "r", at="a") + gang("g", [2]),
                                            evictions=[(1, "v-0", "reclaim", "g")], binds=[(2, "g-0", "a")]))

    def test_victims(self):
        full = self.plain + gang("v", [4], at="a", priority="build")
        self.assertIn("victim-fixed", kinds(full + gang("g", [4], priority="inference"), evictions=[(1, "v-0", "preempt", "g")]))
        full = self.plain + gang("v", [4], at="a")
        self.assertIn("victim-wrong", kinds(full + gang("g", [4]), evictions=[(1, "v-0", "preempt", "g")]))
        self.assertIn("victim-for-nothing", kinds(full + gang("g", [5], priority="build"),
                                                  evictions=[(1, "v-0", "preempt", "g")]))
        self.assertIn("victim-needless", kinds(self.plain + gang("v", [2], at="a") + gang("g", [2], priority="build"),
                                               evictions=[(1, "v-0", "preempt", "g")], binds=[(2, "g-0", "a")]))
        self.assertIn("waits-priority", kinds(full + gang("g", [2], priority="build")))

    def test_what_was_not_there_when_it_was_decided_makes_no_victim_needless(self):
        two = [node("a", 2), queue("q"), queue("r", gpu=(0, -1))]
        docs = two + gang("v", [1], "r", at="a") + gang("g", [1, 1], minimum=1)
        evicted = [(1, "v-0", "reclaim", "g")]
        self.assertEqual(kinds(docs, evictions=evicted, binds=[(1, "g-0", "a"), (2, "g-1", "a")]), set())
        self.assertIn("victim-for-nothing", kinds(docs, evictions=evicted, binds=[(1, "g-0", "a")]))
        docs = two + gang("v", [1], "r", at="a") + gang("w", [1], "r", at="a") + gang("g", [1])
        back = [*evicted, (2, "w-0", "reclaim", "v")]
        self.assertNotIn("victim-needless", kinds(docs, evictions=back, binds=[(2, "g-0", "a"), (3, "v-0", "a")]))

    def test_who_had_to_go_is_asked_beside_those_who_come_back_and_by_those_who_came(self):
        two = [node("a", 2), node("b", 0), queue("q"), queue("r", gpu=(0, -1))]
        docs = two + gang("v", [1], "r", at="a") + gang("m", [1], "r", at="a") + gang("g", [1])
        said = {"evictions": [(1, "v-0", "reclaim", "g"), (1, "m-0", "reclaim", "g", True)],
                "binds": [(2, "g-0", "a"), (3, "m-0", "a")]}
        self.assertNotIn("victim-needless", kinds(docs, **said))
        labels = {"labels": {"app": "x"}}
        spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                   "labelSelector": {"matchLabels": labels["labels"]}}]
        said = {"evictions": [(1, "v-0", "reclaim", "g")], "binds": [(2, "g-0", "a")]}
        for more, needless in (({}, True), ({"topologySpreadConstraints": spread}, False)):
            docs = two + gang("v", [1], "r", at="a", **labels) + gang("g", [1], **labels, **more)
            self.assertEqual("victim-needless" in kinds(docs, **said), needless)

    def test_room_of_a_limit_is_on_no_node(self):
        docs = [node("a", 4), node("b", 4), queue("d", gpu=(-1, 4)), queue("l", "d"), queue("m", "d", gpu=(0, -1)),
                *gang("v", [2], "m", at="a"), *gang("g", [2], "l"), *gang("h", [4], "l", priority="build-preemptible")]
        said = {"evictions": [(1, "v-0", "reclaim", "g")]}
        self.assertNotIn("victim-for-nothing", kinds(docs, binds=[(2, "h-0", "b")], **said))
        self.assertIn("victim-for-nothing", kinds(docs, **said))

    def test_a_gang_goes_as_a_whole(self):
        docs = self.plain + gang("v", [1, 1], at="a") + gang("g", [3], priority="build")
        self.assertIn("hard-torn", kinds(docs, evictions=[(1, "v-0", "preempt", "g")], binds=[(2, "g-0", "a")]))

    def test_room_is_kept_beside_those_whom_a_gang_has_to_be_near(self):
        near = required(podAffinity=[{"topologyKey": "zone", "labelSelector": {"matchLabels": {"gang": "y"}}}])
        for more, waits in (({"affinity": near}, False), ({"nodeSelector": {"zone": "z"}}, True)):
            docs = [node("a", 4, labels={"zone": "x"}), queue("q"), *gang("y", [1], at="a"), *gang("v", [1], at="a"),
                    *gang("old", [3], age=2000, **more), *gang("g", [1])]
            self.assertEqual("waits-beside-room" in kinds(docs), waits)

    def test_devices_of_the_end_say_nothing_of_where_a_pod_was_before(self):
        share = {"gpu-fraction": "0.75"}
        docs = BASE + [node("a", 2), node("b", 2), queue("q")] + gang("g", [0], notes=share) + gang("h", [0], notes=share)
        binds = [(1, "g-0", "a"), (1, "h-0", "a"), (3, "h-0", "b")]
        end = outcome(docs, binds=binds, evictions=[(2, "h-0", "consolidation", "x")])
        for pod_of in end["pods"]:
            pod_of["gpuGroups"] = ["0"]
        case = Case(Cluster(docs), end)
        self.assertEqual(case.state({"g-0": "a", "h-0": "a"}).rooms["a"].gpus, 0)
        self.assertEqual(case.state().rooms["b"].gpus, 1)

    def test_a_right_is_asked_of_the_queues_at_the_first_level_where_two_differ(self):
        def docs(quota):
            return [node("a", 4), queue("x", gpu=(0, -1)), queue("d", gpu=(0, -1)), queue("dl", "d"), queue("e", gpu=(quota, -1)),
                    queue("el", "e", gpu=(1, -1)), *gang("v", [4], "x", at="a"), *gang("g", [4], "dl"), *gang("h", [4], "el")]
        said = {"evictions": [(1, "v-0", "reclaim", "g")], "binds": [(2, "h-0", "a")]}
        self.assertNotIn("victim-for-nothing", kinds(docs(4), **said))
        self.assertIn("victim-for-nothing", kinds(docs(3), **said))

    def test_who_is_below_a_queue_that_is_above_a_quota_is_not_sure_to_be_given_anything(self):
        for quota, sure in ((3, True), (2, False)):
            docs = [node("a", 4, cpus=4), queue("p", gpu=(quota, -1)), queue("l", "p"), queue("r", gpu=(0, -1)),
                    *gang("u", [3], "l", at="a", cpus=2, priority="build"), *gang("v", [1], "r", at="a", cpus=2),
                    *gang("w", [0], "l", cpus=2)]
            self.assertEqual("waits-quota" in kinds(docs), sure)

    def test_moves(self):
        two = [node("a", 4), node("b", 4), queue("q")]
        self.assertIn("waits-move", kinds(two + gang("v", [2], at="a") + gang("w", [2], at="b") + gang("g", [4]), scene="moves"))
        fixed = gang("v", [2], at="a", priority="build") + gang("w", [2], at="b", priority="build")
        self.assertNotIn("waits-move", kinds(two + fixed + gang("g", [4]), scene="moves"))

    def test_shares_of_demand_that_nobody_can_use(self):
        docs = [node("a", 4), queue("q", gpu=(0, -1)), queue("r", gpu=(0, -1)), queue("s", gpu=(0, -1))]
        for i in range(4):
            docs += gang(f"r{i}", [1], "r", at="a") + gang(f"s{i}", [1], "s")
        docs += gang("never", [100], "q")
        self.assertIn("share", kinds(docs, scene="shares"))

    def test_room_that_is_kept(self):
        ends = gang("v", [4], at="a", priority="build", notes={"simulate.muster.dev/fails": "3"})
        docs = self.plain + ends + gang("g", [4], age=1000)
        self.assertIn("late", kinds(docs, scene="aged", cycles=20))
        self.assertNotIn("late", kinds(docs, scene="aged", cycles=20, binds=[(4, "g-0", "a")]))

    def test_what_never_rests(self):
        self.assertIn("no-rest", kinds(self.plain, cycles=40))


if __name__ == "__main__":
    done = unittest.main(exit=False, verbosity=0).result
    bad = len(done.failures) + len(done.errors)
    print(f"{done.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
