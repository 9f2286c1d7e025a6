"""Options of `muster up` about scheduling: each changes what it says. What shards change while it runs is in test_shards.py."""

from harness import Muster, check, wait_for
from test_scheduling_manifests import example, text, waits_because
from test_scheduling_status import create, group_of, running

GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pair}
spec: {queue: production, minMember: 2}
"""


def node_of(m, name):
    wait_for(lambda: running(m, name), f"{name} to run")
    return m.get("pod", name)["spec"]["nodeName"]


def test_queue_label_default_queue_and_placement():
    flags = ["--queue-label-key", "team", "--default-queue", "everybody", "--gpu-placement", "spread", "--cpu-placement",
             "spread"]
    with Muster(nodes=2, gpus_per_node=2, flags=flags) as m:
        wait_for(lambda: m.get("queue", "everybody"), "the default queue to be made")
        create(m, "one", queue="ignored")  # under the label that does not count now
        check(wait_for(lambda: group_of(m, "one"), "its group")["spec"]["queue"] == "everybody", group_of(m, "one"))
        create(m, "two", queue="ignored")
        check(node_of(m, "one") != node_of(m, "two"), "pods with GPUs are packed")
        m.new(text("cpu-only-pod.yaml").replace("kai.scheduler/queue", "team")
              .replace("default-queue", "everybody"))
        m.new(text("cpu-only-pod.yaml").replace("cpu-only-pod", "cpu-2"))
        check(node_of(m, "cpu-only-pod") != node_of(m, "cpu-2"), "pods without GPUs are packed")
        m.new(text("gpu-pod.yaml").replace("kai.scheduler/queue", "team"))
        check(wait_for(lambda: group_of(m, "gpu-pod"), "its group")["spec"]["queue"] == "default-queue",
              "the label of the option does not count")


def test_running_work_is_left_alone_for_as_long_as_the_options_say():
    with Muster(gpus_per_node=1, flags=["--preempt-min-runtime", "1h", "--reclaim-min-runtime", "1h"]) as m:
        m.kubectl("create", "-f", example("burst-queue.yaml"))
        create(m, "low", queue="burst-queue")
        node_of(m, "low")
        create(m, "urgent", queue="burst-queue", priority="build-preemptible")
        create(m, "entitled")
        for name in ("urgent", "entitled"):
            wait_for(lambda: waits_because(m, name), f"{name} to say why it waits")
        check(running(m, "low"), "low was stopped within its hour")
        # A queue that says so itself goes before the option.
        m.kubectl("patch", "queue", "burst-queue", "--type=merge", "-p",
                  '{"spec": {"preemptMinRuntime": "1ms", "reclaimMinRuntime": "1ms"}}')
        wait_for(lambda: not running(m, "low"), "low to be stopped")


def test_a_gang_below_its_minimum_ends_after_the_grace_of_the_option():
    with Muster(gpus_per_node=2, flags=["--staleness-grace", "500ms"]) as m:
        m.kubectl("create", "-f", example("min-runtime-queue.yaml"))
        m.apply(GANG)
        for name in ("stays", "goes"):
            create(m, name, queue="production", notes="pod-group-name: pair")
        for name in ("stays", "goes"):
            node_of(m, name)
        m.kubectl("delete", "pod", "goes", "--grace-period=0", "--force")
        wait_for(lambda: not running(m, "stays"), "the rest of the gang to be stopped")


def test_one_of_kais_ways_can_be_had_back():
    with Muster(gpus_per_node=2, flags=["--quirk", "unset-limit-zero"]) as m:
        m.kubectl("create", "-f", example("research-queues.yaml"))
        m.new(text("gpu-pod.yaml").replace("default-queue", "ml-team"))
        check(wait_for(lambda: waits_because(m, "gpu-pod"), "gpu-pod to say why it waits") == "OverLimit",
              "a limit that is left out does not mean 0")


def pods_of(m, job):
    return [p for p in m.get("pods") if p["metadata"].get("labels", {}).get("job-name") == job]


def quick(manifest):
    """Its pods end at once when they are told to."""
    return manifest.replace("restartPolicy: Never", "restartPolicy: Never\n      terminationGracePeriodSeconds: 0")


def says(pod, words):
    return any(words in c.get("message", "") for c in pod["status"].get("conditions", []))


def test_work_ends_after_its_maximum_run_time_and_stands_in_line_again_where_it_asks():
    """As examples/scheduling/max-run-time.yaml, in seconds."""
    again = quick(text("max-run-time.yaml")).replace("8h", "2s")
    with Muster() as m:
        m.new(again)
        m.new(again.replace("name: max-run-time", "name: once")
              .replace('muster.dev/requeue-after-max-run-time: "true"', 'a: b'))
        seen = set()

        def ran_twice():
            seen.update(p["metadata"]["name"] for p in pods_of(m, "max-run-time") if p["status"].get("phase") == "Running")
            return len(seen) > 1
        wait_for(ran_twice, "a second pod to run", 60)
        wait_for(lambda: any(says(p, "has run for its maxRunTime of 2s") for p in pods_of(m, "once")),
                 "the pod of the other job to say why it does not start", 60)


SURE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: sure-all}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: sure}
spec:
  parentQueue: sure-all
  resources: {gpu: {quota: 2, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}
"""


def test_what_is_above_the_minimum_of_semi_preemptible_work_gives_way_and_the_rest_stays():
    with Muster(gpus_per_node=2) as m:
        m.apply(SURE)
        m.new(quick(text("semi-preemptible.yaml")).replace("default-queue", "sure"))

        def alive():
            return [p for p in pods_of(m, "semi-preemptible")
                    if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
        wait_for(lambda: len(alive()) == 2, "both pods to run", 60)
        create(m, "first", queue="sure", priority="build-preemptible")
        wait_for(lambda: running(m, "first"), "first to take the place of one", 60)
        create(m, "second", queue="sure", priority="build-preemptible")
        wait_for(lambda: waits_because(m, "second"), "second to say why it waits")
        check(len(alive()) == 1, "the last pod was stopped")


def test_the_users_of_a_queue_share_it():
    queue = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: shared}
spec: {order: fairUsers, parentQueue: default-parent-queue, resources: {gpu: {quota: -1, limit: -1}}}
"""
    with Muster(gpus_per_node=2) as m:
        m.apply(queue)

        def submit(name, user):
            m.new(text("gpu-pod.yaml").replace("gpu-pod", name)
                  .replace("kai.scheduler/queue: default-queue", f"kai.scheduler/queue: shared\n    user: {user}"))
        for name in ("a1", "a2"):
            submit(name, "alice")
            wait_for(lambda: running(m, name), f"{name} to run")
        submit("a3", "alice")
        wait_for(lambda: waits_because(m, "a3"), "a3 to wait")
        submit("b1", "bob")
        wait_for(lambda: waits_because(m, "b1"), "b1 to wait")
        m.kubectl("delete", "pod", "a1", "--grace-period=0", "--force")
        wait_for(lambda: running(m, "b1"), "bob to get what alice gave")
        check(not running(m, "a3"), "alice has more than bob")
        metrics = m.kubectl("get", "--raw", "/metrics").stdout
        check('muster_queue_user_allocated_gpus{queue_name="shared",user="bob"} 1' in metrics, "no metric of the users")


def test_gpus_of_a_model_are_limited():
    queue = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: few}
spec: {parentQueue: default-parent-queue, resources: {gpu: {quota: -1, limit: -1, models: [{product: Pretend-GPU, limit: 1}]}}}
"""
    with Muster(gpus_per_node=2) as m:
        m.apply(queue)
        create(m, "one", queue="few")
        wait_for(lambda: running(m, "one"), "one to run")
        create(m, "two", queue="few")
        wait_for(lambda: waits_because(m, "two"), "two to say why it waits")
        check(not running(m, "two"), "a second one was given")
        create(m, "other")
        wait_for(lambda: running(m, "other"), "another queue to use it")
