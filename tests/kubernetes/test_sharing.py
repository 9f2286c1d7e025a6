"""Shared GPUs on a real API server: reservation pods, what a pod with a share is told, release, and crashes.

Hollow nodes hand out devices as a device plugin does and fail what does not fit, so a device given twice is seen.
"""

import json

from harness import check, wait_for
from webhooks import WebhookCluster

RESERVED = "kai-resource-reservation"


class Shared(WebhookCluster):
    """A cluster that shares GPUs."""

    def __init__(self, **options):
        options.setdefault("nodes", 1)
        options.setdefault("gpus_per_node", 2)
        super().__init__(sharing=True, **options)

    def share(self, name, annotations='gpu-fraction: "0.5"', **more):
        spec = {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "i"}], **more}
        self.apply(f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{kai.scheduler/queue: default-queue}}, annotations: {{{annotations}}}}}
spec: {json.dumps(spec)}
""")

    def whole(self, name, count=1):
        self.share(name, "", containers=[{"name": "main", "image": "i",
                                          "resources": {"limits": {"nvidia.com/gpu": count}}}])

    def pod(self, name):
        return json.loads(self.kubectl("get", "pod", name, "-o", "json").stdout)

    def running(self, *names, limit=30):
        for name in names:
            wait_for(lambda: self.pod(name)["status"]["phase"] == "Running", f"{name} to run", limit)

    def reservations(self):
        """Group: device, of the reservation pods there are."""
        items = json.loads(self.kubectl("get", "pods", "-n", RESERVED, "-o", "json").stdout)["items"]
        return {p["metadata"]["labels"]["runai-gpu-group"]:
                p["metadata"].get("annotations", {}).get("run.ai/reserve_for_gpu_index") for p in items}

    def groups(self, name):
        labels = self.pod(name)["metadata"]["labels"]
        return {v for k, v in labels.items() if k.split("/")[0] == "runai-gpu-group"}

    def told(self, name, container=0):
        """What the ConfigMaps of a pod say."""
        prefix = self.pod(name)["metadata"]["annotations"]["runai/shared-gpu-configmap"]
        data = {}
        for suffix in ("", "-evar"):
            cm = json.loads(self.kubectl("get", "configmap", f"{prefix}-{container}{suffix}", "-o", "json").stdout)
            check(cm["metadata"]["ownerReferences"][0]["name"] == name, "the pod owns its ConfigMaps")
            data.update(cm.get("data", {}))
        return data

    def allocatable(self):
        return {n["metadata"]["name"]: n["status"]["allocatable"]["nvidia.com/gpu"] for n in self.get("nodes")}

    def nothing_failed(self):
        failed = [p["metadata"]["name"] for p in json.loads(self.kubectl("get", "pods", "-A", "-o", "json").stdout)["items"]
                  if p["status"].get("phase") == "Failed"]
        check(not failed, f"a node refused {failed}: a device was given twice")


def test_two_halves_share_a_device_and_a_third_takes_another():
    with Shared() as m:
        before = m.allocatable()
        m.share("a")
        m.running("a")
        m.share("b")
        m.running("b")
        m.share("c")
        m.running("c")
        check(m.groups("a") == m.groups("b") != m.groups("c"), "a and b are in one group, c in another")
        reserved = m.reservations()
        check(set(reserved) == m.groups("a") | m.groups("c"), f"a reservation for each group: {reserved}")
        for name in "abc":
            said, (group,) = m.told(name), m.groups(name)
            check(said["NVIDIA_VISIBLE_DEVICES"] == reserved[group], f"{name} is told its device: {said}")
            check(said["GPU_PORTION"] == said["RUNAI_NUM_OF_GPUS"] == "0.50", str(said))
            check(m.pod(name)["metadata"]["annotations"]["received-resource-type"] == "Fraction", "as a fraction")
        check(m.allocatable() == before == {"hollow-0": "2"}, "the node's allocatable is as it was")
        m.kubectl("delete", "pod", "a", "--wait=false")
        wait_for(lambda: not m.get("pods", "a"), "a to go")
        check(set(m.reservations()) == m.groups("b") | m.groups("c"), "b still holds its device")
        m.kubectl("delete", "pod", "b", "--wait=false")
        m.whole("w")  # not before: c would be moved beside b to make room for it
        m.running("w")
        check(set(m.reservations()) == m.groups("c"), "the last user's device is released, and is a whole one again")
        m.kubectl("delete", "pod", "c", "--wait=false")
        wait_for(lambda: not m.reservations(), "no reservation to be left")
        m.nothing_failed()


def test_memory_and_several_devices():
    with Shared(node_flags=["--gpu-memory", "16000"], gpus_per_node=4) as m:
        m.share("quarter", 'gpu-memory: "4000"')
        m.running("quarter")
        said = m.told("quarter")
        check(said["GPU_PORTION"] == "0.25" and said["MUSTER_GPU_MEMORY_MIB"] == "4000", str(said))
        m.share("pair", 'gpu-fraction: "0.8", gpu-fraction-num-devices: "2", mps: "true"')
        m.running("pair")
        said = m.told("pair")
        devices = said["NVIDIA_VISIBLE_DEVICES"].split(",")
        reserved = m.reservations()
        check(sorted(devices) == sorted(reserved[g] for g in m.groups("pair")), f"{devices} of {reserved}")
        check(len(set(devices)) == 2 and said["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "80", str(said))
        m.share("init", 'gpu-fraction: "0.2", gpu-fraction-container-name: other',
                containers=[{"name": "main", "image": "i"}, {"name": "other", "image": "i"}])
        m.running("init")
        check(m.told("init", 1)["GPU_PORTION"] == "0.20", "the named container is told")
        m.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for(lambda: not m.reservations(), "no reservation to be left")
        m.nothing_failed()


def test_an_operator_killed_midway_leaves_nothing_and_gives_nothing_twice():
    gated = {"schedulingGates": [{"name": "later"}]}
    with Shared(nodes=2, gpus_per_node=2) as m:
        m.share("kept")
        m.running("kept")
        for i in range(6):
            m.share(f"s{i}", 'gpu-fraction: "0.5"', **gated)
        for i in range(6):
            m.kubectl("patch", "pod", f"s{i}", "--type=json", "-p", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
            if len(m.reservations()) > 1:  # some are bound, some about to be
                break
        m.operators[0].kill()
        for later in range(i + 1, 6):
            m.kubectl("patch", "pod", f"s{later}", "--type=json", "-p",
                      '[{"op": "remove", "path": "/spec/schedulingGates"}]')
        m.operators.clear()
        m.splitter.targets.clear()
        m.start_operator()
        wait_for(lambda: m.leader(), "another operator to lead", 30)
        m.running("kept", *(f"s{i}" for i in range(6)), limit=60)
        by_device = {}
        for name in ["kept", *(f"s{i}" for i in range(6))]:
            by_device.setdefault(m.told(name)["NVIDIA_VISIBLE_DEVICES"], []).append(name)
        check(all(len(users) <= 2 for users in by_device.values()), f"no device has more than two halves: {by_device}")
        used = set().union(*(m.groups(n) for n in ["kept", *(f"s{i}" for i in range(6))]))
        wait_for(lambda: set(m.reservations()) == used, f"exactly the reservations in use to be left, {used}")
        check(sorted(by_device) == sorted(m.reservations().values()), "and theirs are the devices")
        m.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for(lambda: not m.reservations(), "no reservation to be left")
        m.nothing_failed()


def test_a_lost_reservation_removes_its_users():
    with Shared() as m:
        m.share("a")
        m.running("a")
        m.kubectl("delete", "pods", "-n", RESERVED, "--all", "--force", "--grace-period=0")
        wait_for(lambda: not m.get("pods", "a"), "the user of the lost device to be removed", 30)


def test_a_device_that_one_node_fails_to_give_is_sought_on_another():
    """The first node's device plugin is broken: without a word of it in the node's status."""
    with Shared(nodes=2, node_flags=["--broken-gpus", "1"]) as m:
        m.share("a", nodeSelector={"kubernetes.io/hostname": "hollow-0"})
        wait_for(lambda: "that failed to give a GPU for sharing lately" in
                 m.kubectl("get", "pod", "a", "-o", "json").stdout, "a, which can go nowhere else, to say why it waits")
        m.share("b", 'gpu-fraction: "0.6"')
        m.share("c", 'gpu-fraction: "0.6"')
        m.running("b", "c", limit=10)
        check({m.pod(name)["spec"]["nodeName"] for name in "bc"} == {"hollow-1"}, "b and c run on the other node")
        events = m.kubectl("get", "events", "-o", "json").stdout
        check("could not be bound to node hollow-0" in events, events)
        m.kubectl("delete", "pods", "--all", "--wait=false")
        wait_for(lambda: not m.reservations(), "no reservation to be left")


def test_a_pod_that_slipped_past_admission_says_what_to_do():
    with Shared() as m:
        m.kubectl("delete", "mutatingwebhookconfiguration", "muster")
        m.share("a")
        wait_for(lambda: "delete it and create it again" in m.kubectl("get", "pod", "a", "-o", "json").stdout,
                 "the pod to say why it waits")


def test_free_shares_are_told():
    with Shared() as m:
        m.share("a", 'gpu-fraction: "0.3"')
        m.running("a")
        metrics = m.leader().fetch("/metrics")
        wanted = ('muster_node_gpus{node="hollow-0"} 2', 'muster_node_gpus_free{node="hollow-0"} 1',
                  'muster_node_gpu_shares_free{node="hollow-0"} 0.7')
        check(all(w in metrics for w in wanted), "\n".join(l for l in metrics.splitlines() if "muster_node" in l))


def test_a_share_that_is_to_be_suspended_is_prepared_and_asked_and_says_that_it_is_not_reached():
    """On hollow nodes nobody answers exec: everything but the copy, which tests/preload shows."""
    with Shared(limits=True, suspend=True) as m:
        m.share("plain")
        m.share("asked", 'gpu-fraction: "0.5", muster.dev/gpu-copy: library')
        m.running("plain", "asked")
        check("MUSTER_GPU_SUSPEND" not in m.told("plain") and m.told("asked")["MUSTER_GPU_SUSPEND"] == "1", "the library is told")
        check(m.pod("asked")["metadata"]["annotations"]["muster.dev/may-be-suspended"] == "true", "and so is the scheduler")

        def condition(name):
            return next((c for c in m.pod(name)["status"]["conditions"] if c["type"] == "Suspended"), {})
        m.kubectl("annotate", "pod", "plain", "asked", "muster.dev/suspend=hold")
        wait_for(lambda: condition("plain").get("reason") == "SuspendFailed", "one that was not prepared to be refused")
        wait_for(lambda: condition("asked").get("reason") == "Suspending", "the operator to begin")
        wait_for(lambda: "cannot be reached" in m.kubectl("get", "events").stdout, "an event that tells of it", 60)
        check(condition("asked")["status"] == "False", "it has its share until its memory is away")
        m.nothing_failed()
