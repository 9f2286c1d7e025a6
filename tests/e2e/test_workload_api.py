"""PodGroups of Kubernetes itself (scheduling.k8s.io/v1beta1), and pods that name them."""

from harness import Muster, check, wait_for
from test_scheduling_manifests import text
from test_scheduling_status import create, running

GROUP, JOB = text("workload.yaml").split("---")
KIND = "podgroups.scheduling.k8s.io"


def pods(m):
    return [p for p in m.get("pods") if p["metadata"]["name"].startswith("workload-")]


def bound(m):
    return [p["metadata"]["name"] for p in pods(m) if p["spec"].get("nodeName")]


def told(pod):
    return next((c["message"] for c in pod["status"].get("conditions", [])
                 if c["type"] == "PodScheduled" and c["status"] == "False"), "")


def scheduled(m, name="workload"):
    """(status, reason) of the group's condition."""
    conditions = m.get(KIND, name).get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "PodGroupInitiallyScheduled"), None)


def test_a_gang_of_kubernetes_own_waits_whole_and_starts_whole():
    with Muster(gpus_per_node=3) as m:
        create(m, "first")
        wait_for(lambda: running(m, "first"), "first to run")
        m.new(JOB)
        wait_for(lambda: [p for p in pods(m) if 'waits for PodGroup "workload"' in told(p)],
                 "a pod to say that its group does not exist")
        m.new(GROUP)
        wait_for(lambda: scheduled(m) == ("False", "Unschedulable"), "the gang to say that it cannot start")
        check(not bound(m), f"a part of the gang is bound: {bound(m)}")
        check("Gang" in m.kubectl("get", KIND).stdout and "Unschedulable" in m.kubectl("get", KIND).stdout,
              m.kubectl("get", KIND).stdout)
        m.kubectl("delete", "pod", "first", "--wait=false")
        wait_for(lambda: len([p for p in pods(m) if p["status"]["phase"] == "Running"]) == 3, "the gang to run")
        wait_for(lambda: scheduled(m) == ("True", "Scheduled"), "the gang to say that it was scheduled")
        # It stays until none of its pods is left.
        m.kubectl("delete", KIND, "workload", "--wait=false")
        check(m.get(KIND, "workload"), "the group went before its pods")
        m.kubectl("delete", "job", "workload", "--wait=false")
        wait_for(lambda: not m.get(KIND, "workload"), "the group to go with its last pod")


def test_a_job_makes_its_gang_itself():
    with Muster(gpus_per_node=3) as m:
        create(m, "first")
        wait_for(lambda: running(m, "first"), "first to run")
        m.new(JOB.replace("      schedulingGroup: {podGroupName: workload}\n", "").replace(
              "  parallelism: 3\n", "  parallelism: 3\n  scheduling: {schedulingPolicy: {gang: {}}}\n"))
        name = wait_for(lambda: [g["metadata"]["name"] for g in m.get(KIND)], "the group of the job")[0]
        wait_for(lambda: scheduled(m, name) == ("False", "Unschedulable"), "the gang to say that it cannot start")
        check(not bound(m), f"a part of the gang is bound: {bound(m)}")
        # Two are enough now; they fit.
        m.kubectl("patch", "job", "workload", "--type=merge", "-p",
                  '{"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}}')
        wait_for(lambda: len(bound(m)) == 2, "two of the gang to start")
        wait_for(lambda: scheduled(m, name) == ("True", "Scheduled"), "the gang to say that it was scheduled")


CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %s}
value: %d
"""
GANG = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %(name)s}
spec: {priorityClassName: %(priority)s, disruptionMode: {%(mode)s: {}}, schedulingPolicy: {gang: {minCount: %(pods)d}}}
"""
MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s-%(index)d}
spec:
  schedulerName: kai-scheduler
  priorityClassName: %(priority)s
  schedulingGroup: {podGroupName: %(name)s}
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: ubuntu, command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


def gang(m, name, priority, mode, pods):
    said = {"name": name, "priority": priority, "mode": mode, "pods": pods}
    m.new("---".join([GANG % said] + [MEMBER % {**said, "index": i} for i in range(pods)]))


def left(m, name):
    return [p["metadata"]["name"] for p in m.get("pods") if p["metadata"]["name"].startswith(f"{name}-")
            and p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")]


def test_a_gang_is_stopped_pod_by_pod_or_as_a_whole_as_it_says():
    with Muster(gpus_per_node=2) as m:
        m.new(CLASS % ("low", 100) + "---" + CLASS % ("high", 1000))
        for mode, stay in (("single", 1), ("all", 0)):
            gang(m, mode, "low", mode, 2)
            wait_for(lambda: len(left(m, mode)) == 2, f"the gang {mode} to run")
            gang(m, f"over-{mode}", "high", "single", 1)
            wait_for(lambda: running(m, f"over-{mode}-0"), "a higher priority to run")
            wait_for(lambda: len(left(m, mode)) == stay, f"{stay} of the gang {mode} to be left")
            m.kubectl("delete", "pod", "--all", "--wait=false")
            wait_for(lambda: not m.get("pods"), "all to go")
