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
    m.new(POD % locals())


def running(m, name):
    pod = m.get("pod", name)
    return pod and pod["status"].get("phase") == "Running"


def nominated(m, name):
    return m.get("pod", name)["status"].get("nominatedNodeName", "")


def test_a_nomination_goes_when_it_is_no_longer_true():
    with Muster(gpus_per_node=1) as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        create(m, "low", grace=600)
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

        def of(metric, queue):
            return f'{metric}{{queue_name="{queue}",queue_metadata_name="{queue}",queue_display_name=""}}'
        node = m.get("nodes")[0]["metadata"]["name"]
        wait_for(lambda: value("muster_scheduler_bound_pods_total") == 2, "two pods to be counted")
        for line, expected in ((of("kai_queue_info", "small"), 1),
                               (of("kai_queue_deserved_gpus", "small"), 1),
                               (of("kai_queue_allocated_gpus", "small"), 1.25),
                               (of("kai_queue_allocated_gpus", "default"), 1.25),
                               (f'muster_node_gpus{{node="{node}"}}', 2),
                               (f'muster_node_gpus_free{{node="{node}"}}', 0),
                               (f'muster_node_gpus_shared{{node="{node}"}}', 1),
                               (f'muster_node_gpu_shares_free{{node="{node}"}}', 0.75),
                               ("kai_task_bind_latency_milliseconds_count", 2),
                               ('kai_pod_group_evicted_pods_total{action="preempt"}', 0)):
            check(value(line) == expected, f"{line} is {value(line)}, not {expected}")


def queue_says(m, name, **numbers):
    """Whether the queue's status has these amounts of GPUs, and pendingGroups."""
    status = m.get("queue", name).get("status", {})
    return all(status.get("pendingGroups") == n if key == "pending" else
               status.get(key, {}).get("nvidia.com/gpu", "0") == str(n) for key, n in numbers.items())


def group_of(m, pod):
    return next((g for g in m.get("podgroups") if g["metadata"]["name"].startswith(f"pg-{pod}-")), None)


def test_numbers_and_reasons_go_when_they_are_no_longer_true():
    with Muster(gpus_per_node=2) as m:
        m.apply(QUEUE)
        create(m, "runs", queue="small")
        create(m, "short", queue="small", gpus="")
        wait_for(lambda: running(m, "runs") and running(m, "short"), "both to run")
        create(m, "waits", queue="small", gpus="nvidia.com/gpu: 2")
        wait_for(lambda: queue_says(m, "small", allocated=1, requested=3, pending=1), "the queue to count them")
        wait_for(lambda: queue_says(m, "default", allocated=1, requested=3, pending=1), "its parent as well")
        wait_for(lambda: group_of(m, "waits")["status"].get("schedulingConditions"), "the group to say why it waits")
        # The queue moves: what it holds is counted elsewhere.
        m.kubectl("patch", "queue", "small", "--type=merge", "-p", '{"spec": {"parentQueue": "default-parent-queue"}}')
        wait_for(lambda: queue_says(m, "default", allocated=0, requested=0, pending=0), "the old parent to be rid of it")
        wait_for(lambda: "small" not in m.get("queue", "default")["status"].get("childQueues", []), "and of the child")
        wait_for(lambda: queue_says(m, "default-parent-queue", allocated=1, requested=3, pending=1), "the new one to have it")
        # What waits starts: no word of waiting is left.
        m.kubectl("delete", "pod", "runs", "--grace-period=0", "--force")
        wait_for(lambda: running(m, "waits"), "waits to run")
        wait_for(lambda: queue_says(m, "small", allocated=2, requested=2, pending=0), "the queue to follow")

        def quiet():
            status = group_of(m, "waits")["status"]
            return status["phase"] == "Running" and status["running"] == 1 and not status["pending"] and not any(
                status.get(key) for key in ("message", "schedulingConditions", "explanation"))
        wait_for(quiet, "its group to say nothing of waiting")
        check(group_of(m, "runs") is None, "the group of a deleted pod is left")
        m.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
        wait_for(lambda: queue_says(m, "small", allocated=0, requested=0, pending=0), "the empty queue to be empty")
        wait_for(lambda: queue_says(m, "default-parent-queue", allocated=0, requested=0, fairShare=0), "and all above it")


def test_a_pod_that_has_ended_holds_nothing():
    with Muster(gpus_per_node=1) as m:
        m.new((POD % {
              "name": "ends", "queue": "default-queue", "priority": "build-preemptible", "notes": "", "grace": 0,
              "gpus": "nvidia.com/gpu: 1"}).replace("trap '' TERM; while :; do sleep 0.2; done", "true").replace(
              "schedulerName", "restartPolicy: Never\n  schedulerName"))
        wait_for(lambda: group_of(m, "ends")["status"].get("phase") == "Succeeded", "the group to have succeeded")
        status = group_of(m, "ends")["status"]
        check((status["succeeded"], status["running"], status["pending"]) == (1, 0, 0), status)
        check(not status["resourcesStatus"]["allocated"] and not status["resourcesStatus"]["requested"], status)
        wait_for(lambda: queue_says(m, "default-queue", allocated=0, requested=0), "the queue to be rid of it")


def test_what_a_group_holds_counts_shares_and_whether_it_may_be_stopped():
    with Muster(gpus_per_node=2) as m:
        m.apply(QUEUE)
        create(m, "fixed", queue="small", priority="build")
        create(m, "memory", queue="small", gpus="", notes='gpu-memory: "2000"')
        wait_for(lambda: running(m, "fixed") and running(m, "memory"), "both to run")
        wait_for(lambda: group_of(m, "fixed")["status"]["resourcesStatus"]["allocatedNonPreemptible"].get("nvidia.com/gpu")
                 == "1", "work that may not be stopped to be counted as such")
        held = wait_for(lambda: group_of(m, "memory")["status"]["resourcesStatus"]["allocated"], "the share to be counted")
        check(held.get("run.ai/gpu.memory") == "2k", held)
        check(not group_of(m, "memory")["status"]["resourcesStatus"]["allocatedNonPreemptible"], "it is preemptible")


def test_after_a_restart_what_was_told_before_is_taken_back():
    with Muster(gpus_per_node=1) as m:
        create(m, "waits", gpus="nvidia.com/gpu: 2")
        wait_for(lambda: group_of(m, "waits")["status"].get("explanation"), "the group to say why it waits")
        m.kill()
        m.flags[m.flags.index("--gpus-per-node") + 1] = "2"
        m.start()
        wait_for(lambda: running(m, "waits"), "it to run on the larger node")
        wait_for(lambda: not any(group_of(m, "waits")["status"].get(key) for key in
                                 ("message", "schedulingConditions", "explanation")), "the old words to go")
        wait_for(lambda: queue_says(m, "default-queue", allocated=2, requested=2, pending=0), "the queue to follow")


def test_the_same_reason_is_one_event_however_often_its_numbers_change():
    with Muster(gpus_per_node=4) as m:
        create(m, "large", gpus="nvidia.com/gpu: 4", priority="build-preemptible", notes="")
        wait_for(lambda: running(m, "large"), "large to run")
        create(m, "waits", gpus="nvidia.com/gpu: 4")
        for i in range(6):  # each changes what there is to say
            create(m, f"small-{i}", gpus="nvidia.com/gpu: 1")
            wait_for(lambda: group_of(m, f"small-{i}")["status"].get("message"), "the next one to wait")

        def events():
            return [e for e in m.get("events") if e["involvedObject"]["name"].startswith("pg-waits-")
                    and e["reason"] == "Unschedulable"]
        check(len(wait_for(events, "an event of the group")) == 1, events())
