"""muster explain: the reason of a wait in words and as a record, and both gone when it is over."""

import json

from harness import Muster, binary, check, run, wait_for

PODS = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {kai.scheduler/queue: default-queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
        - {name: c, image: i, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 4}}}
"""


def test_a_wait_is_explained_in_words_and_as_a_record():
    with Muster(nodes=1, gpus_per_node=4) as m:
        def explain(*flags):
            return run([binary("muster"), "explain", *flags, "default/second"], env=m.env).stdout

        m.apply(PODS.replace("NAME", "first"))
        wait_for(lambda: any(p["status"].get("phase") == "Running" for p in m.get("pods")), "the first to run")
        m.apply(PODS.replace("NAME", "second"))
        wait_for(lambda: any(g.get("status", {}).get("explanation") for g in m.get("podgroups")), "a record")

        text = explain()
        for words in ("Job", "needs 4 GPUs", "Would help", "1 of 1 that wait in its queue", "default-queue"):
            check(words in text, f"no {words!r} in\n{text}")
        record = json.loads(explain("-o", "json"))
        check(record["kind"] == "Job" and record["queue"] == "default-queue", record)
        why = record["explanation"]
        check(why["request"]["gpu"] == 4 and why["free"]["gpu"] == 0 and why["total"]["gpu"] == 4, why)
        check(why["place"] == 1 and why["queue"]["allocated"]["gpu"] == 4, why)

        m.kubectl("delete", "job", "first", "--wait=false")
        wait_for(lambda: all("explanation" not in g.get("status", {}) and not g.get("status", {}).get("message")
                             for g in m.get("podgroups") if "second" in g["metadata"]["name"]), "the record to go")
        check("Would help" not in explain(), explain())


def test_a_wait_says_when_it_will_be_over():
    with Muster(nodes=1, gpus_per_node=4) as m:
        def told(name, words):
            explain = [binary("muster"), "explain", f"default/{name}"]
            wait_for(lambda: words in run(explain, env=m.env, ok=False).stdout, words)  # its group may not be there yet

        m.apply(PODS.replace("NAME, ", "first, annotations: {muster.dev/max-run-time: 30m}, "))
        wait_for(lambda: any(p["status"].get("phase") == "Running" for p in m.get("pods")), "the first to run")
        m.apply(PODS.replace("NAME", "second"))
        told("second", "Estimate     starts in about")
        group = next(g for g in m.get("podgroups") if "second" in g["metadata"]["name"])
        estimate = group["status"]["explanation"]["estimate"]
        check(estimate["percent"] == 80 and estimate["earliest"] <= estimate["latest"], str(estimate))
        # Nobody knows how long the second will run.
        m.apply(PODS.replace("NAME", "third"))
        told("third", "no estimate: no job like those before it has ended yet; set maxRunTime")


POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: {kai.scheduler/queue: %(queue)s, priorityClassName: %(priority)s}, annotations: {%(notes)s}}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  %(more)s
  containers: [{name: main, image: busybox, command: [sleep, "3600"], resources: {limits: {%(asks)s}}}]
"""


def create(m, name, queue="default-queue", priority="train", notes="", more="", asks="nvidia.com/gpu: 1"):
    m.new(POD % locals())


def told(m, name, *words):
    """What `muster explain NAME` says, once it has all of the words."""
    def look():
        text = run([binary("muster"), "explain", name], env=m.env).stdout
        return all(w in text for w in words) and text
    return wait_for(look, f"explain {name} to say {words}")


def test_every_way_to_wait_is_told_in_words_that_help():
    with Muster(nodes=2, gpus_per_node=2) as m:
        m.apply("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: small}\n"
                "spec: {parentQueue: default, resources: {gpu: {quota: 1, limit: 1}}}\n---\n"
                "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: poor}\n"
                "spec: {parentQueue: default, resources: {gpu: {quota: 0, limit: -1}}}\n")
        create(m, "running", queue="small")
        told(m, "running", "Running", "one pod is enough to start; 1 run, 0 wait", "small, in GPUs: holds 1")
        create(m, "limit", queue="small")
        told(m, "limit", "OverLimit", "raise the limit of queue small by 1 GPU", "1 of 1 that wait")
        create(m, "quota", queue="poor", priority="build")
        told(m, "quota", "NonPreemptibleOverQuota", "or make the group preemptible")
        create(m, "nowhere", queue="nowhere")
        told(m, "nowhere", "QueueDoesNotExist", "nowhere does not exist; see: muster queues", "create queue nowhere")
        create(m, "large", queue="poor", asks="nvidia.com/gpu: 9")
        told(m, "large", "LargerThanAnyNode", "add a node with 7 GPUs more")
        create(m, "other", queue="poor", asks="example.com/fpga: 2")
        text = told(m, "other", "needs 2 of example.com/fpga; no node has any", "add a node with 2 of example.com/fpga")
        check(not any(w in text for w in ("needs 0", " 0 CPUs", " 0 MiB")), f"an amount of nothing is told:\n{text}")
        create(m, "memory", asks="memory: 9000Gi")
        told(m, "memory", "needs 9000 GiB of memory;", "GiB of memory are free", "GiB of memory more than the largest")
        create(m, "selector", more="nodeSelector: {disk: none}")
        told(m, "selector", "NoMatchingNode", "label a node as its selector asks")
        create(m, "gated", more="schedulingGates: [{name: later}]")
        told(m, "gated", "SchedulingGated", "remove the scheduling gates of 1 pod")
        create(m, "memory-of-gpu", notes='gpu-memory: "90000000"', asks="")
        check("9000000 GPUs" not in told(m, "memory-of-gpu", "NotEnoughResources"), "charged as if GPUs had 100 MiB")
        create(m, "volume", more="volumes: [{name: v, persistentVolumeClaim: {claimName: absent}}]", asks="")
        told(m, "volume", "VolumeNotReady", "default/absent, which does not exist", "create the PersistentVolumeClaim")
        # What was written first is not said to be the whole line once others have come.
        told(m, "quota", "when this was written", "wait in its queue now")


GROUPS = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: parts}
spec: {queue: default-queue, subGroups: [{name: leaders, minMember: 2}, {name: helpers, minMember: 1}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: placed}
spec: {queue: default-queue, minMember: 2, topologyConstraint: {topology: none, requiredTopologyLevel: rack}}
"""


def test_gangs_say_how_many_start_together_and_who_is_outside():
    with Muster(nodes=1, gpus_per_node=4) as m:
        m.apply(GROUPS)
        create(m, "lost", notes="pod-group-name: parts")
        told(m, "parts", "starts with 3 pods or not at all", "1 pod is not scheduled (lost)", "kai.scheduler/subgroup-name")
        wait_for(lambda: any('references subgroup ""' in c.get("message", "")
                             for c in m.get("pod", "lost")["status"].get("conditions", [])), "the pod to say so too")
        m.kubectl("label", "pod", "lost", "kai.scheduler/subgroup-name=leaders")
        text = told(m, "parts", "NotReady", "1 pod found while 2 required for gang leaders", "1 more pod")
        check("not scheduled" not in text, text)
        for i in range(2):
            create(m, f"placed-{i}", notes="pod-group-name: placed")
        told(m, "placed", 'topology "none" does not exist', "create the Topology")
        # A group that nobody owns is known by its own name.
        out = wait_for(lambda: (lambda t: "default/parts" in t and t)(
            run([binary("muster"), "queues"], env=m.env).stdout), "muster queues to name the group")
        check("default/ " not in out, out)


def test_names_that_cannot_be_and_empty_clusters():
    with Muster(nodes=1) as m:
        for name in ("default/", "/x", ""):
            done = run([binary("muster"), "explain", name], env=m.env, ok=False)
            check(done.returncode != 0 and "NAMESPACE/NAME" in done.stderr, f"{name!r}: {done}")
        done = run([binary("muster"), "explain", "default/nothing"], env=m.env, ok=False)
        check(done.returncode != 0 and '"nothing"' in done.stderr, done)
        check(json.loads(run([binary("muster"), "gpu", "-o", "json"], env=m.env).stdout) == [], "a GPU from nowhere")
        rows = json.loads(run([binary("muster"), "queues", "-o", "json"], env=m.env).stdout)
        check({q["name"] for q in rows} == {"default-parent-queue", "default-queue"}, rows)
        check("no node has a GPU" in run([binary("muster"), "gpu"], env=m.env).stdout, "an empty table says nothing")
