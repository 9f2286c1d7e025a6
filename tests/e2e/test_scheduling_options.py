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
        m.kubectl("create", "-f", "-", input=text("cpu-only-pod.yaml").replace("kai.scheduler/queue", "team")
                  .replace("default-queue", "everybody"))
        m.kubectl("create", "-f", "-", input=text("cpu-only-pod.yaml").replace("cpu-only-pod", "cpu-2"))
        check(node_of(m, "cpu-only-pod") != node_of(m, "cpu-2"), "pods without GPUs are packed")
        m.kubectl("create", "-f", "-", input=text("gpu-pod.yaml").replace("kai.scheduler/queue", "team"))
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
        m.kubectl("create", "-f", "-", input=text("gpu-pod.yaml").replace("default-queue", "ml-team"))
        check(wait_for(lambda: waits_because(m, "gpu-pod"), "gpu-pod to say why it waits") == "OverLimit",
              "a limit that is left out does not mean 0")
