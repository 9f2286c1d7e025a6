"""More of examples/: shards, use over time, queues that burst or protect their work, levels of topology; and all of
examples/ as strictly as an API server reads it."""

import glob
import http.server
import os
import re
import threading

from harness import EXAMPLES, Muster, check, need_kubectl, wait_for
from test_scheduling_manifests import example, running, text, waits_because
from test_shards import Prometheus, applied

SLOTS = "topology.example/"


def create(m, name, **replace):
    """The example, with words of it replaced (_ stands for -); its pods end at once when they are told to."""
    manifest = text(name).replace("schedulerName: kai-scheduler",
                                  "schedulerName: kai-scheduler\n  terminationGracePeriodSeconds: 0")
    for old, new in replace.items():
        manifest = manifest.replace(old.replace("_", "-"), new)
    m.new(manifest)


def node_of(m, name):
    return running(m, name) and m.get("pod", name)["spec"]["nodeName"]


def allocated(m, queue, resource):
    return m.get("queue", queue).get("status", {}).get("allocated", {}).get(resource, "0")


def test_a_cpu_pod_is_charged_to_its_queue_and_those_above_and_leaves_gpu_nodes_alone():
    need_kubectl(24)
    with Muster(nodes=2, gpus_per_node=1) as m:
        nodes = [n["metadata"]["name"] for n in m.get("nodes")]
        m.kubectl("patch", "node", nodes[0], "--subresource=status", "--type=json", "-p",
                  '[{"op": "remove", "path": "/status/allocatable/nvidia.com~1gpu"},'
                  ' {"op": "remove", "path": "/status/capacity/nvidia.com~1gpu"}]')
        create(m, "cpu-only-pod.yaml")
        check(wait_for(lambda: node_of(m, "cpu-only-pod"), "cpu-only-pod to run") == nodes[0], "it runs on a node with GPUs")
        for queue in ("default-queue", "default-parent-queue"):
            wait_for(lambda: allocated(m, queue, "cpu") == "100m" and allocated(m, queue, "memory") in ("250M", "250000000"),
                     f"{queue} to be charged")


def test_a_gpu_pod_goes_where_fewest_gpus_are_left():
    with Muster(nodes=3, gpus_per_node=2) as m:
        create(m, "gpu-pod.yaml", gpu_pod="first")
        first = wait_for(lambda: node_of(m, "first"), "first to run")
        create(m, "gpu-pod.yaml")
        check(wait_for(lambda: node_of(m, "gpu-pod"), "gpu-pod to run") == first, "it opened an empty node")
        wait_for(lambda: allocated(m, "default-parent-queue", "nvidia.com/gpu") == "2", "the queues to be charged")


def test_two_teams_run_beside_each_other_or_wait_for_their_turn():
    with Muster(nodes=2, gpus_per_node=8) as m:
        m.kubectl("apply", "-f", example("time-based-queues.yaml"))
        m.kubectl("create", "-f", example("time-based-jobs.yaml"))
        for name in ("turn-of-team-a", "turn-of-team-b"):
            wait_for(lambda: running(m, name), f"{name} to run")


def test_two_teams_take_turns_once_use_over_time_counts():
    with Muster(nodes=1, gpus_per_node=8) as m:
        m.kubectl("apply", "-f", example("time-based-queues.yaml"))
        ends_at_once = "schedulerName: kai-scheduler\n  terminationGracePeriodSeconds: 0"
        first, second = text("time-based-jobs.yaml").replace("schedulerName: kai-scheduler", ends_at_once).split("---")
        m.new(first)
        wait_for(lambda: running(m, "turn-of-team-a"), "the first to run")
        m.new(second)
        wait_for(lambda: waits_because(m, "turn-of-team-b"), "the second to say why it waits")
        check(running(m, "turn-of-team-a"), "an equal share is half a node: nobody may take the whole from the other")
        fast = re.sub("windowSize: .*", "windowSize: 60s", text("time-based-shard.yaml"))
        m.apply(re.sub("halfLifePeriod: .*", "halfLifePeriod: 2s", re.sub("fetchInterval: .*", "fetchInterval: 200ms", fast)))
        wait_for(lambda: running(m, "turn-of-team-b"), "the second to get its turn", 60)
        wait_for(lambda: m.get("pod", "turn-of-team-a") is None, "the first to be gone: nobody makes a bare pod again")


def test_a_shard_gets_its_prometheus_from_the_config_or_keeps_the_books_itself():
    server = http.server.HTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Muster(gpus_per_node=1) as m:
            m.kubectl("apply", "-f", example("time-based-queues.yaml"))
            m.apply(text("time-based-shard-minimal.yaml") + "    usageParams: {fetchInterval: 200ms}\n")
            said = wait_for(lambda: applied(m), "the shard to be answered")
            check(said["status"] == "True" and "Muster's own records" in said["message"], said)
            wait_for(lambda: m.get("queue", "team-a")["status"].get("usage", {}).get("gpu") == 0, "books of its own")
            m.apply(re.sub("externalPrometheusUrl: .*", f"externalPrometheusUrl: http://127.0.0.1:{server.server_port}",
                           text("kai-config.yaml")))
            wait_for(lambda: m.get("queue", "team-a")["status"].get("usage", {}).get("gpu") == 0.75,
                     "the number of the Prometheus that kai-config names")
            wait_for(lambda: f"127.0.0.1:{server.server_port}" in applied(m)["message"], "the shard to say where it asks")
    finally:
        server.shutdown()


def test_every_setting_of_the_prometheus_shard_is_taken():
    with Muster(gpus_per_node=1) as m:
        m.apply(text("time-based-shard-prometheus.yaml"))
        said = wait_for(lambda: applied(m), "the shard to be answered")
        check(said["status"] == "True" and "prometheus-operated" in said["message"], said)


def test_a_pool_with_a_shard_of_its_own_runs_its_queues():
    with Muster(nodes=2, gpus_per_node=2) as m:
        nodes = sorted(n["metadata"]["name"] for n in m.get("nodes"))
        m.kubectl("label", "node", nodes[1], "kai.scheduler/node-pool=gpu-nodes")
        m.kubectl("create", "-f", example("gpu-shard.yaml"))
        said = wait_for(lambda: applied(m, "gpu-shard"), "the shard to be answered")
        check(said["status"] == "True", said)
        m.new(text("node-pool.yaml").split("---")[2].replace("pool-queue", "gpu-queue")
              .replace("node-pool: foo", "node-pool: gpu-nodes"))
        check(wait_for(lambda: node_of(m, "pool-pod"), "pool-pod to run") == nodes[1], "it runs outside of its pool")
        group = next(g for g in m.get("podgroups") if "pool-pod" in g["metadata"]["name"])
        check(group["metadata"]["labels"]["kai.scheduler/node-pool"] == "gpu-nodes", group["metadata"])


def test_arguments_that_mean_nothing_here_are_named():
    with Muster() as m:
        m.apply(text("gpu-shard.yaml").split("---")[0] + '    leader-elect: "true"\n    log-level: "4"\n')
        said = wait_for(lambda: applied(m, "gpu-shard"), "the shard to be answered")
        check(said["status"] == "False" and "leader-elect" in said["message"] and "log-level" in said["message"], said)
        check("default-staleness" not in said["message"], said)


def test_overrides_hold_and_unknown_names_are_told():
    with Muster(nodes=2, gpus_per_node=2) as m:
        m.kubectl("create", "-f", example("shard-overrides.yaml"))
        said = wait_for(lambda: applied(m), "the shard to be answered")
        for word in ("mycustomplugin", "mycustomaction"):
            check(word in said["message"], said)
        check("relcaimer" not in said["message"] and "kValue" not in said["message"], said)
        for name in ("one", "two"):
            create(m, "gpu-pod.yaml", gpu_pod=name)
            wait_for(lambda: running(m, name), f"{name} to run")
        check(node_of(m, "one") != node_of(m, "two"), "the strategy beside the unknown names does not hold")


def test_a_burst_queue_uses_what_is_idle_and_gives_it_back():
    with Muster(gpus_per_node=1) as m:
        m.kubectl("create", "-f", example("burst-queue.yaml"))
        create(m, "gpu-pod.yaml", gpu_pod="burst", default_queue="burst-queue")
        wait_for(lambda: running(m, "burst"), "burst to run: its queue says nothing of memory, so that is not limited")
        create(m, "gpu-pod.yaml")
        wait_for(lambda: running(m, "gpu-pod"), "a queue with a weight to take the GPU back", 60)


def test_work_of_a_queue_with_a_minimum_run_time_is_left_alone_for_that_long():
    with Muster(gpus_per_node=1) as m:
        m.apply(text("min-runtime-queue.yaml").replace("20s", "1h"))
        create(m, "train-priority-pod.yaml", test="production")
        wait_for(lambda: running(m, "train-pod"), "train-pod to run")
        m.new(text("train-priority-pod.yaml").replace(": test", ": production")
              .replace("train-pod", "urgent").replace(": train", ": build-preemptible"))
        wait_for(lambda: waits_because(m, "urgent"), "urgent to say why it waits")
        check(running(m, "train-pod"), "train-pod was stopped within its hour")
        m.apply(text("min-runtime-queue.yaml").replace("20s", "1ms"))
        wait_for(lambda: running(m, "urgent"), "urgent to run once train-pod ran long enough", 60)


def domain(m, level, pods):
    nodes = {n["metadata"]["name"]: n["metadata"]["labels"] for n in m.get("nodes")}
    return {nodes[m.get("pod", name)["spec"]["nodeName"]][SLOTS + level] for name in pods}


def test_parts_of_gangs_keep_to_their_levels():
    places = ("zone=z0,S/spine=s0,S/rack=r0", "zone=z0,S/spine=s0,S/rack=r1", "zone=z0,S/spine=s1,S/rack=r2",
              "zone=z1,S/spine=s2,S/rack=r3", "zone=z1,S/spine=s3,S/rack=r4")
    with Muster(nodes=5, gpus_per_node=3) as m:
        for node, place in zip(m.get("nodes"), places):
            m.kubectl("label", "node", node["metadata"]["name"], *(SLOTS + place.replace("S/", SLOTS)).split(","))
        m.kubectl("create", "-f", example("topology-levels.yaml"))
        names = sorted(set(re.findall(r"metadata: {name: ([\w-]+)", text("topology-levels.yaml"))))
        check(len(names) == 11, names)
        for name in names:
            wait_for(lambda: running(m, name), f"{name} to run")
        for level, prefixes in (("rack", ["racks-left"]), ("rack", ["racks-right"]), ("zone", ["nested"]),
                                ("spine", ["nested-a", "nested-b"])):
            pods = [n for n in names if any(n.startswith(p) for p in prefixes)]
            check(len(domain(m, level, pods)) == 1, f"{prefixes} are in {level}s {domain(m, level, pods)}")
        for group in ("racks", "nested"):
            wait_for(lambda: m.get("podgroup", group)["status"].get("phase") == "Running", f"{group} to be Running")


def test_objects_every_cluster_starts_with_may_be_applied_again():
    with Muster() as m:
        before = {c["metadata"]["name"]: c["value"] for c in m.get("priorityclasses")}
        m.kubectl("apply", "-f", example("priority-classes.yaml"))
        after = {c["metadata"]["name"]: c["value"] for c in m.get("priorityclasses")}
        check(before.items() <= after.items(), f"before {before}, after {after}")
        m.kubectl("apply", "-f", os.path.join(EXAMPLES, "monitoring", "grafana-datasource.yaml"))
        check("prometheus" in m.get("configmap", "muster-datasource")["data"]["muster.yaml"], "no data source")


def test_pytorchjobs_are_gangs_of_their_roles():
    kubeflow = os.path.join(EXAMPLES, "kubeflow")
    with Muster(gpus_per_node=1) as m:
        for name in ("queues", "pytorch-dist-gpu", "pytorch-elastic"):
            m.kubectl("apply", "-f", os.path.join(kubeflow, name + ".yaml"))

        def shape(job):
            spec = next((g["spec"] for g in m.get("podgroups") if g["metadata"]["name"].startswith(f"pg-{job}-")), None)
            return spec and (spec["minMember"], {s["name"]: s["minMember"] for s in spec["subGroups"]})
        for job, expected in (("pytorch-dist-mnist-nccl", (3, {"master": 1, "worker": 2})), ("elastic-echo", (1, {"worker": 1}))):
            found = wait_for(lambda: shape(job), f"the group of {job}")
            check(found == expected, f"{job}: {found}")


def test_kubectl_shows_what_a_kind_is_about():
    need_kubectl(27)
    with Muster(gpus_per_node=2) as m:
        for name in ("topology.yaml", "gpu-shard.yaml", "shard-overrides.yaml", "gpu-pod.yaml"):
            m.kubectl("create", "-f", example(name))
        wait_for(lambda: running(m, "gpu-pod"), "gpu-pod to run")
        wait_for(lambda: applied(m) and applied(m, "gpu-shard"), "the shards to be answered")
        for kind, words in (("topologies", ("WIDEST", "NARROWEST", "topology.example/block", "kubernetes.io/hostname")),
                            ("schedulingshards", ("POOL", "GPU", "CPU", "APPLIED", "gpu-nodes", "spread", "False")),
                            ("podgroups", ("QUEUE", "MIN", "RUNNING", "PENDING", "PHASE", "default-queue")),
                            ("queues", ("QUOTA", "LIMIT", "ALLOCATED", "FAIR-SHARE", "PENDING"))):
            out = m.kubectl("get", kind).stdout
            check(all(w in out for w in words), f"not all of {words} in\n{out}")
        out = m.kubectl("explain", "schedulingshard.spec.usageDBConfig.usageParams.halfLifePeriod").stdout
        check("counts half" in out, out)
        for change, word in ((("topology.example/block", "topology.example/hall"), "cannot be changed"),):
            done = m.kubectl("apply", "-f", "-", input=text("topology.yaml").replace(*change), ok=False)
            check(done.returncode != 0 and word in done.stderr, done.stderr)


# Fields of examples that show whole manifests of other systems: accepted, and each write is told that it does nothing here.
IDLE = {"spec.actions.mycustomaction.priority", "spec.global.replicaCount", "spec.namespace", "spec.podGroupPolicy",
        "spec.sshAuthMountPath", "spec.structureDefinition.rootComponent.statusDefinition"}


def test_every_example_is_valid_to_the_letter():
    need_kubectl(25)
    with Muster(nodes=1, gpus_per_node=1) as m:
        files = glob.glob(os.path.join(EXAMPLES, "**", "*.yaml"), recursive=True)
        files = [f for f in files if f"{os.sep}policy{os.sep}" not in f]  # that is input of muster simulate
        done = m.kubectl("create", "--dry-run=server", "--validate=strict", *[w for f in files for w in ("-f", f)], ok=False)
        # Default objects are there already; a job's runtime, which stands above it in its file, is not made by a dry run.
        told = re.findall("^Warning: (.*): has no effect here; see kubectl explain$", done.stderr, re.M)
        check(set(told) == IDLE, f"without effect: {told}")
        answers = [line for line in done.stderr.splitlines() if not line.endswith(": has no effect here; see kubectl explain")]
        others = [line for line in answers if "as there is no Kueue here" in line]  # a manifest of Kubeflow's, with its mark
        check(len(others) == 1, f"marks of other systems: {others}")
        answers = [line for line in answers if line not in others]
        wrong = [line for line in answers if "AlreadyExists" not in line and "create it first" not in line]
        check(not wrong, "\n".join(wrong))
        made = len(done.stdout.splitlines()) + len(answers)
        written = sum(len(re.findall("^apiVersion:", open(f).read(), re.M)) for f in files)
        check(made == written, f"{written} objects are written there, {made} were answered")
