"""What GPU time was spent on: every second of a job in one state, kept over a crash and the job's deletion."""

import json
import os

from harness import Muster, binary, check, needs, run, wait_for
from kubeflow import CLAIM, WAIT, create, job, wait_condition


def rows(m, by):
    """{key: row} of the report."""
    done = run([binary("muster"), "report", "--by", by, "-o", "json"], env=m.env)
    return {row[by]: row for row in json.loads(done.stdout)["rows"]}


def spent(m, state, name="two"):
    return rows(m, "job").get(f"default/{name}", {"milliseconds": {}})["milliseconds"].get(state, 0)


# What src/observe/hook.py writes for a training that fails after 40 steps, with a checkpoint after 20, and goes on from there.
PAGE = """
import mmap, os, sys, time
first = not os.path.exists(sys.argv[1])
with open(os.path.join(os.environ["MUSTER_RANKS_DIR"], "0-%d" % os.getpid()), "wb+") as f:
    f.write(bytes(4096))
    f.flush()
    page = memoryview(mmap.mmap(f.fileno(), 4096)).cast("Q")
page[1] = os.getpid()
page[4] = page[8] = time.monotonic_ns()
page[13] = 0 if first else int(time.time() * 1000)
page[0] = 0x3130454741504d52
while not first or page[5] < 40:
    time.sleep(0.05)
    page[6] = time.monotonic_ns()
    page[9] = page[9] or page[6]
    page[5] += 1
    if first and page[5] == 20:
        page[10], page[11] = 400000000, 21
open(sys.argv[1], "w").close()
sys.exit(1)
"""


@needs("a node agent that looks at the ranks")
def test_saving_and_steps_done_again_are_told_apart_from_training():
    body = job("PyTorchJob", "again", chief=["python3", "-c", PAGE, "/kept/failed"])
    body["spec"]["pytorchReplicaSpecs"].pop("Worker")
    with Muster(nodes=1) as m:
        create(m, CLAIM, body)
        wait_for(lambda: spent(m, "recomputing", "again"), "steps to be done again", 60)
        row = rows(m, "job")["default/again"]["milliseconds"]
        check(row["saving"] == 400 and row["training"] > 0 and row["starting"] > 0, f"{row}")
        told = m.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.annotations.muster\\.dev/ranks}").stdout
        check('"loaded":' in told and '"first":' in told, told)
        m.kill()
        m.start()
        check(rows(m, "job")["default/again"]["milliseconds"]["saving"] == 400, "it is lost in a crash")


@needs("the accounts that muster up keeps")
def test_every_second_has_a_state_and_survives_a_crash():
    body = job("PyTorchJob", "two", workers=1)
    for role in body["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    with Muster(nodes=1, gpus_per_node=2) as m:
        create(m, body)
        wait_condition(m, "PyTorchJob", "two", "Running")
        wait_for(lambda: spent(m, "training"), "some training to be counted")
        m.kill()
        m.start()
        before = spent(m, "training")
        check(before > 0, "the account was lost in a crash")
        wait_for(lambda: spent(m, "training") > before, "it to go on")
        metrics = m.kubectl("get", "--raw", "/metrics").stdout
        check('muster_job_gpu_seconds_total{queue_name="default-queue",state="training"}' in metrics, "no metric of it")
        m.kubectl("patch", "pytorchjob", "two", "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":true}}}')
        wait_for(lambda: spent(m, "idle"), "a suspended job to be idle")
        m.kubectl("delete", "pytorchjob", "two")
        idle = wait_for(lambda: spent(m, "idle"), "the account of a deleted job")
        wait_for(lambda: not m.get("pods"), "its pods to go")
        row = rows(m, "job")["default/two"]
        check(row["milliseconds"]["idle"] - idle < 60000 and sum(row["gpuMilliseconds"].values()) ==
              2 * sum(row["milliseconds"].values()), f"time times GPUs is not the GPU time: {row}")
        check(rows(m, "job")["default/two"] == row, "it goes on after the end of the job")
        nodes = rows(m, "node")
        check(nodes["node-0"]["gpuMilliseconds"]["training"] == row["gpuMilliseconds"]["training"] > 0 and
              nodes["(none)"]["gpuMilliseconds"]["idle"] == row["gpuMilliseconds"]["idle"], f"by node: {nodes}")
        table = run([binary("muster"), "report"], env=m.env).stdout
        check(table.startswith("QUEUE ") and "\n(all) " in table, table)


def pod_template(command, gpus):
    main = {"name": "main", "image": "none", "command": ["sh", "-c", command]}
    if gpus:
        main["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    return {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]}}


def batch_job(name, command, gpus, **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {"user": "ann"}},
            "spec": {"backoffLimit": 0, **spec, "template": pod_template(command, gpus)}}


def reader(m):
    """The environment of somebody who may read all objects, and is not told of /accounts."""
    m.kubectl("create", "serviceaccount", "reader")
    m.kubectl("create", "clusterrole", "reader", "--verb=get,list", "--resource=*.*")
    m.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader")
    token = m.kubectl("create", "token", "reader").stdout.strip()
    with open(m.kubeconfig) as f:
        text = f.read()
    path = os.path.join(m.folder, "reader.kubeconfig")
    with open(path, "w") as f:
        f.write(text.replace(text.split("token: ")[1].split()[0], token))
    return dict(m.env, KUBECONFIG=path)


@needs("the accounts that muster up keeps")
def test_jobsets_trainjobs_and_jobs_are_counted_once_each():
    two = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pod_template(WAIT, 1)}
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set"},
              "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": two}}]}}
    trainjob = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"},
                "spec": {"runtimeRef": {"name": "plain"}, "trainer": {
                    "numNodes": 2, "command": ["sh", "-c", WAIT], "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}}}
    ends = "until test -e /tmp/end; do sleep 0.1; done"
    with Muster(nodes=1, gpus_per_node=8) as m:
        create(m, jobset, trainjob, batch_job("plain", ends, 2), batch_job("small", WAIT, 0))
        for name in ("set", "train", "plain"):
            wait_for(lambda: spent(m, "training", name), f"{name} to train", 60)
        found = rows(m, "job")
        check(sorted(found) == ["default/plain", "default/set", "default/train"], f"{sorted(found)}")
        for name in ("set", "train", "plain"):
            row = found[f"default/{name}"]
            check(row["jobs"] == 1 and row["gpuMilliseconds"]["training"] == 2 * row["milliseconds"]["training"], f"{row}")
        users = rows(m, "user")
        check(users["ann"]["jobs"] == 1 and users["default"]["jobs"] == 2, f"{users}")
        check(rows(m, "node")["node-0"]["jobs"] == 3, "a job has no node")
        metrics = m.kubectl("get", "--raw", "/metrics").stdout
        check('muster_job_gpu_seconds_total{queue_name="default-queue",state="training"}' in metrics, "no metric of it")
        # Who may list the jobs of all namespaces has the same.
        done = run([binary("muster"), "report", "--by", "job", "-o", "json"], env=reader(m))
        seen = {row["job"]: row for row in json.loads(done.stdout)["rows"]}
        check(sorted(seen) == sorted(found), f"{sorted(seen)}")
        for row in seen.values():
            check(row["gpuMilliseconds"]["training"] == 2 * row["milliseconds"]["training"] > 0, f"{row}")
        m.kill()
        m.start()
        before = spent(m, "training", "set")
        wait_for(lambda: spent(m, "training", "set") > before > 0, "it to go on after a crash", 60)
        m.kubectl("patch", "jobset", "set", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_for(lambda: spent(m, "idle", "set"), "a suspended set to be idle", 60)
        pod = m.kubectl("get", "pods", "-l", "job-name=plain", "-o", "name").stdout.strip()
        m.kubectl("exec", pod, "--", "touch", "/tmp/end", ok=False)
        m.kubectl("wait", "job/plain", "--for=condition=complete", "--timeout=60s", limit=90)
        m.kubectl("delete", "trainjob", "train")
        wait_for(lambda: not [p for p in m.get("pods") if p["metadata"]["name"].startswith("train-")], "its pods to go")
        over, again = rows(m, "job"), rows(m, "job")
        check(again["default/plain"] == over["default/plain"] and again["default/train"] == over["default/train"],
              f"they go on after their end: {over}, {again}")
        check(sorted(again) == sorted(found), f"{sorted(again)}")
