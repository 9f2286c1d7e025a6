"""What the scheduler says about pods, groups and nodes: nominations, numbers of queues, metrics."""

from harness import Muster, check, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %(name)s
  labels: {kai.scheduler/queue: %(queue)s, priorityClassName: %(priority)s}
  annotations: {%(notes)s}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: %(grace)d
  containers:
  - name: main
    image: busybox
    command: ["sh", "-c", "trap '' TERM; while :; do sleep 0.2; done"]
    resources: {limits: {%(gpus)s}}
"""

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: small}
spec:
  parentQueue: default
  resources:
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    gpu: {quota: 1, limit: 2, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""


def create(m, name, queue="default-queue", priority="train", grace=0, gpus="nvidia.com/gpu: 1", notes=""):
    m.kubectl("create", "-f", "-", input=POD % locals())


def running(m, name):
    pod = m.get("pod", name)
    return pod and pod["status"].get("phase") == "Running"


def nominated(m, name):
    return m.get("pod", name)["status"].get("nominatedNodeName", "")


def test_a_nomination_goes_when_it_is_no_longer_true():
    with Muster(gpus_per_node=1) as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        create(m, "low", grace=20)
        wait_for(lambda: running(m, "low"), "low to run")
        create(m, "high", priority="build-preemptible")
        wait_for(lambda: nominated(m, "high") == node, "high to be told where it will go")
        m.kubectl("cordon", node)
        wait_for(lambda: nominated(m, "high") == "", "the nomination to go with the node")
        m.kubectl("uncordon", node)
        wait_for(lambda: nominated(m, "high") == node, "the nomination to come back")
        m.kubectl("delete", "pod", "low", "--grace-period=0", "--force")
        wait_for(lambda: running(m, "high"), "high to run")
        wait_for(lambda: nominated(m, "high") == "", "a pod that runs to be nominated no more")


def test_a_queue_that_stands_in_the_way_shows_its_numbers():
    with Muster(gpus_per_node=8) as m:
        m.apply(QUEUE)
        create(m, "one", queue="small", priority="build")
        wait_for(lambda: running(m, "one"), "one to run")

        def details(name, reason):
            for group in m.get("podgroups"):
                if not group["metadata"]["name"].startswith(f"pg-{name}-"):
                    continue
                for condition in group["status"].get("schedulingConditions", []):
                    said = condition["reasons"][0]
                    if said["reason"] == reason:
                        return said["details"]["queueDetails"]
            return None

        create(m, "quota", queue="small", priority="build")
        said = wait_for(lambda: details("quota", "NonPreemptibleOverQuota"), "the group over quota to say so")
        check(said["name"] == "small" and said["queueDeservedResources"]["nvidia.com/gpu"] == "1", said)
        check(said["queueAllocatedNonPreemptibleResources"]["nvidia.com/gpu"] == "1", said)
        check(said["podGroupRequestedNonPreemptibleResources"]["nvidia.com/gpu"] == "1", said)
        create(m, "limit", queue="small", gpus="nvidia.com/gpu: 3")
        said = wait_for(lambda: details("limit", "OverLimit"), "the group over the limit to say so")
        check(said["queueResourceLimits"] == {"cpu": "-1", "memory": "-1", "nvidia.com/gpu": "2"}, said)
        check(said["podGroupRequestedResources"]["nvidia.com/gpu"] == "3", said)
        check(said["podGroupRequestedNonPreemptibleResources"]["nvidia.com/gpu"] == "0", said)
        check(said["queueRequestedResources"]["nvidia.com/gpu"] == "5", said)


def test_metrics_of_muster_up():
    with Muster(nodes=1, gpus_per_node=2) as m:
        m.apply(QUEUE)
        create(m, "whole", queue="small")
        create(m, "part", queue="small", notes='gpu-fraction: "0.25"', gpus="")
        wait_for(lambda: running(m, "whole") and running(m, "part"), "both to run")

        def value(line):
            text = m.kubectl("get", "--raw", "/metrics").stdout
            found = [l.rsplit(" ", 1)[1] for l in text.splitlines() if l.startswith(line + " ")]
            return float(found[0]) if found else None
        node = m.get("nodes")[0]["metadata"]["name"]
        wait_for(lambda: value("muster_scheduler_bound_pods_total") == 2, "two pods to be counted")
        for line, expected in (('kai_queue_info{queue_name="small"}', 1),
                               ('kai_queue_deserved_gpus{queue_name="small"}', 1),
                               ('kai_queue_allocated_gpus{queue_name="small"}', 1.25),
                               ('kai_queue_allocated_gpus{queue_name="default"}', 1.25),
                               (f'muster_node_gpus{{node="{node}"}}', 2),
                               (f'muster_node_gpus_free{{node="{node}"}}', 0),
                               (f'muster_node_gpus_shared{{node="{node}"}}', 1),
                               (f'muster_node_gpu_shares_free{{node="{node}"}}', 0.75),
                               ("kai_task_bind_latency_milliseconds_count", 2),
                               ('kai_pod_group_evicted_pods_total{action="preempt"}', 0)):
            check(value(line) == expected, f"{line} is {value(line)}, not {expected}")
