"""The manifests of examples/scheduling, each with the outcome its first lines promise; gangs and shares over a kill."""

import json
import os

from harness import EXAMPLES, Muster, binary, check, run, wait_for


def example(name):
    return os.path.join(EXAMPLES, "scheduling", name)


def text(name):
    with open(example(name)) as f:
        return f.read()


def running(m, name):
    pod = m.get("pod", name)
    return pod and pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def waits_because(m, name):
    group = next((g for g in m.get("podgroups") if g["metadata"]["name"] == name
                  or g["metadata"]["name"].startswith(f"pg-{name}-")), None)
    conditions = (group or {}).get("status", {}).get("schedulingConditions", [])
    return conditions and conditions[-1]["reasons"][-1]["reason"]


def test_a_build_pod_in_a_queue_without_quota_says_that_it_needs_one():
    with Muster(gpus_per_node=1) as m:
        m.new("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: test}\n"
              "spec: {resources: {gpu: {quota: 0, limit: -1}}}\n")
        m.kubectl("create", "-f", example("build-priority-pod.yaml"))
        reason = wait_for(lambda: waits_because(m, "build-pod"), "build-pod to say why it waits")
        check(reason == "NonPreemptibleOverQuota", reason)


def test_queues_that_leave_limits_out_are_not_limited_by_that():
    with Muster(gpus_per_node=2) as m:
        m.kubectl("create", "-f", example("research-queues.yaml"))
        m.new(text("gpu-pod.yaml").replace("default-queue", "ml-team"))
        wait_for(lambda: running(m, "gpu-pod"), "gpu-pod to run in ml-team")


def test_a_misspelt_resource_block_is_named_and_a_queue_may_leave_it_out():
    with Muster(gpus_per_node=1) as m:
        head = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: production}\nspec: "
        done = m.kubectl("create", "-f", "-", ok=False, input=head + "{resourceQuota: {gpu: 1}}\n")
        check(done.returncode != 0 and "resourceQuota" in done.stderr, done.stderr)
        m.new(head + "{preemptMinRuntime: 20s, reclaimMinRuntime: 30s}\n")
        m.new(text("gpu-pod.yaml").replace("default-queue", "production"))
        wait_for(lambda: running(m, "gpu-pod"), "gpu-pod to run in a queue that limits nothing")


def test_a_misspelt_subgroup_list_is_named():
    with Muster() as m:
        done = m.kubectl("create", "-f", "-", ok=False,
                         input=text("subgroups.yaml").split("---")[0].replace("subGroups", "subgroups"))
        check(done.returncode != 0 and "subgroups" in done.stderr, done.stderr)


def test_parts_of_a_gang_start_together():
    with Muster(gpus_per_node=3) as m:
        m.kubectl("create", "-f", example("subgroups.yaml"))
        for name in ("leader-0", "leader-1", "helper-0"):
            wait_for(lambda: running(m, name), f"{name} to run")
        wait_for(lambda: m.get("podgroup", "parts")["status"].get("phase") == "Running", "the group to be Running")


def test_a_topology_on_a_job_keeps_its_pods_together():
    with Muster(flags=["--node-labels", "topology.example/block=b0,topology.example/rack=r0"]) as m:
        m.kubectl("create", "-f", example("topology.yaml"))
        change = ("patch", "topology", "cluster-topology", "--type=json", "-p")
        m.kubectl(*change, '[{"op": "add", "path": "/spec/levels/1/alias", "value": "rack"}]')
        done = m.kubectl(*change, '[{"op": "replace", "path": "/spec/levels/0/nodeLabel", "value": "x"}]', ok=False)
        check(done.returncode != 0 and "cannot be changed" in done.stderr, done)
        job = text("topology-job.yaml").replace("placement: topology.example/rack", "placement: rack")
        m.new(job)
        wait_for(lambda: m.get("job", "distributed-training")["status"].get("succeeded") == 3, "the job to succeed", 60)
        groups = [g for g in m.get("podgroups") if "distributed-training" in g["metadata"]["name"]]
        check(len(groups) == 1, f"{len(groups)} pod groups")
        check(groups[0]["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "rack", groups[0]["spec"])
        check(groups[0]["spec"]["minMember"] == 3, groups[0]["spec"])


def test_a_node_pool_keeps_its_nodes_and_pods_together():
    with Muster(nodes=2, gpus_per_node=1) as m:
        names = sorted(n["metadata"]["name"] for n in m.get("nodes"))
        m.kubectl("label", "node", names[1], "kai.scheduler/node-pool=foo")
        m.kubectl("create", "-f", example("node-pool.yaml"))
        wait_for(lambda: running(m, "pool-pod"), "pool-pod to run")
        check(m.get("pod", "pool-pod")["spec"]["nodeName"] == names[1], "it runs outside of its pool")


def test_shares_by_memory_by_mps_and_of_an_init_container():
    with Muster(gpus_per_node=2) as m:
        for name, pod in (("gpu-memory.yaml", "gpu-memory"), ("gpu-sharing-with-mps.yaml", "gpu-sharing-with-mps"),
                          ("gpu-sharing-init-container.yaml", "gpu-sharing-init")):
            m.kubectl("create", "-f", example(name))
            wait_for(lambda: running(m, pod), f"{pod} to run")
        out = m.said("gpu-sharing-init", container="gpu-init").strip()
        check(out, "the init container saw no device")


def test_time_based_queues_and_shard_apply():
    with Muster(gpus_per_node=1) as m:
        m.kubectl("apply", "-f", example("time-based-queues.yaml"))
        m.kubectl("apply", "-f", example("time-based-shard.yaml"))
        said = wait_for(lambda: m.get("schedulingshard", "default").get("status", {}).get("conditions"), "the shard to be read")
        check(said[0]["status"] == "True", said)
        wait_for(lambda: m.get("queue", "training-department")["status"].get("childQueues") == ["team-a", "team-b"],
                 "the parent to list its children")


def walkthrough_shared(label):
    """Shares of time-sliced GPUs: what the node offers does not change."""
    with Muster(gpus_per_node=1, flags=["--gpu-time-slices", "4"]) as m:
        node = m.get("nodes")[0]
        check(node["status"]["allocatable"]["nvidia.com/gpu"] == "4", node["status"]["allocatable"])
        product = node["metadata"]["labels"].get("nvidia.com/gpu.product", "")
        check(product.endswith("-SHARED"), f"product is {product!r}")
        m.kubectl("apply", "-f", example("limited-queue.yaml"))
        for name in ("gpu-sharing", "gpu-sharing-2"):
            m.new(text("gpu-sharing.yaml").replace("name: gpu-sharing", f"name: {name}")
                  .replace("kai.scheduler/queue: default-queue", f"{label}: test"))
            wait_for(lambda: running(m, name), f"{name} to run")
        out = m.kubectl("get", "node", "--selector", f"nvidia.com/gpu.product={product}",
                        "-o", "jsonpath-as-json={.items[0].status.allocatable}").stdout
        check(json.loads(out)[0]["nvidia.com/gpu"] == "4", out)
        devices = [m.kubectl("exec", name, "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").stdout.strip()
                   for name in ("gpu-sharing", "gpu-sharing-2")]
        check(devices[0] and devices[0] == devices[1], devices)


def test_shares_of_time_sliced_gpus():
    walkthrough_shared("kai.scheduler/queue")


def test_shares_of_time_sliced_gpus_with_the_old_label():
    walkthrough_shared("runai/queue")


GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 4, queue: default-queue}
"""


def member(name, gpu, group):
    return json.dumps({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": "default-queue"},
                     "annotations": dict({"pod-group-name": group} if group else {},
                                         **({} if gpu == 1 else {"gpu-fraction": "0.5"}))},
        "spec": {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0,
                 "containers": [{"name": "main", "image": "x", "command": ["sleep", "3600"],
                                 "resources": {"limits": {"nvidia.com/gpu": 1}} if gpu == 1 else {}}]}})


def bound_of(m):
    return {p["metadata"]["name"]: p for p in m.get("pods") if p["spec"].get("nodeName")}


def devices_of(pod):
    """What it has of its node: numbers, or on a cluster, where whole devices have no names, the group of a shared one."""
    notes, labels = pod["metadata"]["annotations"], pod["metadata"].get("labels", {})
    if "torchrun.ai/gpu-devices" in notes:
        return notes["torchrun.ai/gpu-devices"].split(",")
    return [labels["runai-gpu-group"]] if "gpu-fraction" in notes else []


def test_killed_while_a_gang_is_bound_it_is_whole_or_waits_and_no_share_is_given_twice():
    """kill -9 at moments all over the way from the first create to the last start."""
    with Muster(nodes=2, gpus_per_node=3) as m:
        for moment in range(6):
            objects = [GANG] + [member(f"g{i}", 1, "gang") for i in range(4)]
            objects += [member(f"half{i}", 0.5, None) for i in range(3)]
            for manifest in objects[:2 + moment]:
                m.apply(manifest)
            m.kill()
            m.start()
            bound = [n for n in bound_of(m) if n.startswith("g")]
            check(len(bound) in (0, 4), f"moment {moment}: a part of the gang is bound: {bound}")
            m.apply("\n---\n".join(objects))
            for name in ("g0", "g1", "g2", "g3", "half0", "half1", "half2"):
                wait_for(lambda: running(m, name), f"moment {moment}: {name} to run")
            used = {}
            for name, pod in bound_of(m).items():
                for device in devices_of(pod):
                    key = (pod["spec"]["nodeName"], device)
                    used[key] = used.get(key, 0) + float(pod["metadata"]["annotations"].get("gpu-fraction", "1"))
            check(all(v <= 1 for v in used.values()), f"moment {moment}: {used}")
            m.kubectl("delete", "pods,podgroups", "--all", "--wait=true", "--grace-period=0", "--force")
            wait_for(lambda: not m.get("pods") and not m.get("podgroups"), "everything to be gone")


def test_queues_and_gpus_as_json():
    with Muster(gpus_per_node=1) as m:
        m.kubectl("create", "-f", example("gpu-sharing.yaml"))
        wait_for(lambda: running(m, "gpu-sharing"), "gpu-sharing to run")
        devices = json.loads(run([binary("muster"), "gpu", "-o", "json"], env=m.env).stdout)
        check(devices[0]["pods"] == ["default/gpu-sharing"] and devices[0]["freePercent"] == 50, devices)

        def queue():
            rows = json.loads(run([binary("muster"), "queues", "-o", "json"], env=m.env).stdout)
            row = next(q for q in rows if q["name"] == "default-queue")
            return row["parent"] == "default-parent-queue" and row.get("allocated", {}).get("nvidia.com/gpu") == "500m"
        wait_for(queue, "the queue to hold half a GPU")
