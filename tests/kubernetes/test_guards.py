"""What the operator writes while others write too: it loses nothing of theirs, and touches no later object of a name.

The proxy stops a request of the operator on its way, lets the test change the object, and passes the request on: what
happens to a write that was decided on a view that has become old.
"""

import json

from cluster import Cluster
from harness import check, wait_for
from proxy import Proxy
from test_operator import QUEUE, job
from test_snapshot import gang

QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: guarded}
spec: {resources: {gpu: {quota: 8, limit: 8, overQuotaWeight: 1}, cpu: {quota: -1}, memory: {quota: -1}}}
"""
OURS, THEIRS = "PodScheduled", "example.com/Checked"


def pod(name, gpus, priority="train", finalizers=()):
    return json.dumps({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "finalizers": list(finalizers),
                     "labels": {"kai.scheduler/queue": "guarded", "priorityClassName": priority}},
        "spec": {"schedulerName": "kai-scheduler",
                 "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}})


def conditions(m, name):
    return {c["type"]: c for c in m.get("pod", name).get("status", {}).get("conditions", [])}


def set_condition(m, name):
    """What a kubelet or another controller does: a strategic patch of one condition."""
    m.kubectl("patch", "pod", name, "--subresource=status", "--type=strategic", "-p",
              json.dumps({"status": {"conditions": [{"type": THEIRS, "status": "True"}]}}))


def before(proxy, method, ending, act):
    """Calls `act` before the first such request goes on to the API server; the list is filled when it did."""
    done = []

    def look(seen, path):
        if not done and seen == method and path.split("?")[0].endswith(ending):
            done.append(path)
            act()
        return False
    proxy.faults(percent=100, only=look)
    return done


def guarded(operator_flags=()):
    proxy = Proxy(Cluster.plane)
    return proxy, Cluster(nodes=1, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                          operator_flags=["--leader-elect=false", *operator_flags])


def test_why_a_pod_waits_is_written_beside_a_condition_that_came_meanwhile():
    proxy, cluster = guarded()
    with proxy, cluster as m:
        m.apply(QUEUES)
        met = before(proxy, "PATCH", "/pods/large/status", lambda: set_condition(m, "large"))
        m.apply(pod("large", 9))
        wait_for(lambda: met and OURS in conditions(m, "large"), "the pod to be told why it waits", 60)
        there = conditions(m, "large")
        check(THEIRS in there and there[OURS]["status"] == "False", f"both conditions: {there}")


def test_an_eviction_is_written_beside_a_condition_that_came_meanwhile():
    proxy, cluster = guarded()
    with proxy, cluster as m:
        m.apply(QUEUES)
        m.apply(pod("victim", 8, finalizers=["example.com/stay"]))
        wait_for(lambda: "Ready" in conditions(m, "victim"), "the victim to run", 60)
        met = before(proxy, "PATCH", "/pods/victim/status", lambda: set_condition(m, "victim"))
        m.apply(pod("urgent", 8, priority="build"))
        wait_for(lambda: met and "muster.dev/Evicted" in conditions(m, "victim"), "the victim to be evicted", 60)
        check({THEIRS, "Ready", "DisruptionTarget"} <= set(conditions(m, "victim")),
              f"all conditions: {conditions(m, 'victim')}")


def test_an_eviction_decided_for_one_pod_does_not_reach_the_next_of_its_name():
    proxy, cluster = guarded()
    with proxy, cluster as m:
        m.apply(QUEUES)
        m.apply(pod("victim", 8))
        wait_for(lambda: "Ready" in conditions(m, "victim"), "the victim to run", 60)
        first = m.get("pod", "victim")["metadata"]["uid"]

        def replace():
            m.kubectl("delete", "pod", "victim", "--force", "--grace-period=0")
            m.apply(pod("victim", 0))  # in nobody's way: what evicts it was not meant for it
        met = before(proxy, "POST", "/pods/victim/eviction", replace)
        m.apply(pod("urgent", 8, priority="build"))
        wait_for(lambda: met and m.get("pod", "urgent")["spec"].get("nodeName"), "the urgent pod to be bound", 60)
        later = m.get("pod", "victim")
        check(later["metadata"]["uid"] != first and not later["metadata"].get("deletionTimestamp"),
              "the pod that came later lives")
        check("DisruptionTarget" not in conditions(m, "victim"), "and nothing is said on it about the first")


def is_guarded(method, path, body):
    """Whether a write names the object it means: its uid or its revision."""
    if method == "POST" and not path.endswith("/eviction"):
        return True  # a create meets nothing, and a binding of the name's later pod is refused by its uid
    text = json.loads(body or b"{}")
    if isinstance(text, list):
        return any(o.get("path") in ("/metadata/uid", "/metadata/resourceVersion") for o in text if o["op"] == "test")
    if method == "DELETE" or path.endswith("/eviction"):
        text = {"metadata": text.get("deleteOptions", text).get("preconditions", {})}
    meta = text.get("metadata", {})
    return bool(meta.get("uid") or meta.get("resourceVersion"))


def test_every_write_names_the_uid_or_the_revision_it_means():
    proxy, cluster = guarded()
    with proxy, cluster as m:
        writes, without = set(), set()

        def look(method, path, body):
            path = path.split("?")[0]
            if method == "GET":
                return
            resource = [p for p in path.split("/") if p]
            named = resource[-1] if resource[-1] in ("status", "binding", "eviction") else ""
            what = (method, resource[-3 if named else -2], named)
            writes.add(what)
            if not is_guarded(method, path, body):
                without.add((*what, body[:200]))
        proxy.look = look
        m.apply(QUEUE)
        m.apply(QUEUES)
        m.apply(job("one", 8))
        wait_for(lambda: m.phase("one") == "Running", "a job to run", 60)
        m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(gang("none", 2, gpus=8))}))
        m.apply(job("two", 8))
        m.kubectl("delete", "torchrunjob", "one", "--wait=false")
        m.kubectl("delete", "pods", "-l", "kai.scheduler/queue=default-queue", "--force", "--grace-period=0")
        wait_for(lambda: m.phase("two") == "Running", "the second job to run", 60)
        m.kubectl("delete", "torchrunjob", "two", "--wait=false")
        wait_for(lambda: not m.get("pods"), "no pod left", 60)
        m.apply(pod("victim", 8))
        wait_for(lambda: "Ready" in conditions(m, "victim"), "a pod to run", 60)
        m.apply(pod("urgent", 8, priority="build"))
        wait_for(lambda: m.get("pod", "urgent")["spec"].get("nodeName"), "a pod in its place", 60)
        check(not without, f"unguarded: {without}")
        for what in (("PATCH", "pods", "status"), ("POST", "pods", "eviction"), ("PATCH", "podgroups", "status"),
                     ("PATCH", "queues", "status"), ("PATCH", "torchrunjobs", "status")):
            check(what in writes, f"{what} was among {sorted(writes)}")
        check(m.operators[0].metric("muster_api_unguarded_total") == 0, "the operator counts none either")
