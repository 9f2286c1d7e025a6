"""Gangs of Kubernetes itself (scheduling.k8s.io/v1beta1) where its own API server and controllers serve them."""

from cluster import Cluster
from harness import Skip, check, wait_for
from test_claims import DEVICES, POD, SHARING, given, phases

KIND = "podgroups.scheduling.k8s.io"
RESOURCE = "example.com/thing"
CLASS = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %s}
value: %d
"""
GROUP = """
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %(name)s, labels: {kai.scheduler/queue: default-queue}}
spec: {schedulingPolicy: {gang: {minCount: %(least)d}}, priorityClassName: %(priority)s, disruptionMode: {%(mode)s: {}}}
"""
MEMBER = """
---
apiVersion: v1
kind: Pod
metadata: {name: %(name)s}
spec:
  schedulerName: %(scheduler)s
  schedulingGroup: {podGroupName: %(group)s}
  priorityClassName: %(priority)s
  containers: [{name: main, image: any, resources: {limits: {example.com/thing: 1}}}]
"""


class Workloads(Cluster):
    """A cluster with a node of two things; skipped where the server has no such groups."""

    def __enter__(self):
        if "scheduling.k8s.io/v1beta1\n" not in self.plane.kubectl("api-versions").stdout:
            raise Skip("the server does not serve scheduling.k8s.io/v1beta1, which Kubernetes has since 1.37; "
                       "MUSTER_KUBE_VERSION=v1.37.1 takes one that does")
        m = super().__enter__()
        things = {"status": {"capacity": {RESOURCE: "2"}, "allocatable": {RESOURCE: "2"}}}
        self.plane.request("PATCH", "/api/v1/nodes/hollow-0/status", things)
        m.apply(CLASS % ("low-things", 60) + CLASS % ("high-things", 70))
        return m

    def stop(self):
        self.kubectl("delete", "priorityclasses", "low-things", "high-things", ok=False)
        self._remove_all("pods")
        self._remove_all(KIND)
        self.kubectl("delete", "deviceclasses,resourceslices,resourceclaimtemplates", "--all", ok=False)
        self._remove_all("resourceclaims")
        super().stop()


def group(name, least=2, priority="low-things", mode="single"):
    return GROUP % {"name": name, "least": least, "priority": priority, "mode": mode}


def member(name, of, priority="low-things", scheduler="kai-scheduler"):
    return MEMBER % {"name": name, "group": of, "priority": priority, "scheduler": scheduler}


def conditions(m, resource, name):
    """{type: (status, reason)}"""
    found = (m.get(resource, name) or {}).get("status", {}).get("conditions", [])
    return {c["type"]: (c["status"], c.get("reason")) for c in found}


def told(m, name):
    found = m.get("pod", name).get("status", {}).get("conditions", [])
    return next((c.get("message", "") for c in found if c["type"] == "PodScheduled"), "")


def test_a_gang_starts_whole_and_learns_its_group_with_its_node():
    with Workloads() as m:
        m.apply(group("gang") + member("a", "gang"))
        wait_for(lambda: told(m, "a"), "the pod to say that another is missing")
        check("pod-group-name" not in m.get("pod", "a")["metadata"].get("annotations", {}), "nothing had to be written on it")
        m.apply(member("b", "gang"))
        wait_for(lambda: phases(m, "a", "b") == ["Running", "Running"], "both pods to run")
        check([m.get("pod", name)["metadata"]["annotations"]["pod-group-name"] for name in "ab"] == ["podgroup-gang"] * 2,
              "they know their group")
        wait_for(lambda: conditions(m, KIND, "gang").get("PodGroupInitiallyScheduled") == ("True", "Scheduled"),
                 "the group to say that it was scheduled")


def test_a_group_with_pods_of_two_schedulers_is_refused_and_not_touched():
    with Workloads() as m:
        m.apply(group("mixed") + member("theirs", "mixed", scheduler="somebody-else") + member("a", "mixed") +
                member("b", "mixed"))
        wait_for(lambda: 'the same .spec.schedulerName set, got: "kai-scheduler" and "somebody-else"' in told(m, "a"),
                 "our pod to say why it waits")
        check(not m.get("pod", "a")["spec"].get("nodeName"), "a pod of a group that is refused was bound")
        check(not conditions(m, KIND, "mixed"), f"the group was touched: {conditions(m, KIND, 'mixed')}")
        check(not told(m, "theirs"), "the other scheduler's pod was touched")
        m.kubectl("delete", "pod", "theirs", "--force", "--grace-period=0")
        wait_for(lambda: phases(m, "a", "b") == ["Running", "Running"], "our pods to run without it")


def test_a_group_that_is_stopped_for_another_says_so_with_all_of_its_pods():
    with Workloads() as m:
        m.apply(group("victim", mode="all") + member("a", "victim") + member("b", "victim"))
        wait_for(lambda: phases(m, "a", "b") == ["Running", "Running"], "the victims to run")
        m.apply(group("over", least=1, priority="high-things") + member("high", "over", "high-things"))
        seen = {}

        def stopped():
            for name in "ab":
                seen.update({name: found for found in [conditions(m, "pod", name).get("DisruptionTarget")] if found})
            return phases(m, "high") == ["Running"]
        wait_for(stopped, "the other to run")
        check(set(seen.values()) == {("True", "PreemptionByScheduler")} and len(seen) == 2, f"what its pods say: {seen}")
        check(conditions(m, KIND, "victim").get("DisruptionTarget") == ("True", "PreemptionByScheduler"),
              f"what the group says: {conditions(m, KIND, 'victim')}")


def test_pods_of_a_gang_share_the_claim_of_their_group():
    with Workloads() as m:
        m.apply(DEVICES % {"node": "hollow-0"})
        pod = POD.replace("  restartPolicy:", "  schedulingGroup: {podGroupName: sharing}\n  restartPolicy:")
        m.apply(SHARING + "".join(pod % {"name": f"s{i}", "group": ""} for i in range(2)))
        wait_for(lambda: phases(m, "s0", "s1") == ["Running", "Running"], "both pods to run")
        claims = m.get("resourceclaims")
        check(len(claims) == 1 and len(given(claims[0])) == 1, f"one claim of one device: {claims}")
