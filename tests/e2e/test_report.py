"""What GPU time was spent on: every second of a job in one state, kept over a crash and the job's deletion."""

import json

from harness import Muster, binary, check, needs, run, wait_for
from kubeflow import create, job, wait_condition


def rows(m, by):
    """{key: row} of the report."""
    done = run([binary("muster"), "report", "--by", by, "-o", "json"], env=m.env)
    return {row[by]: row for row in json.loads(done.stdout)["rows"]}


def spent(m, state):
    return rows(m, "job").get("default/two", {"milliseconds": {}})["milliseconds"].get(state, 0)


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
