"""What GPU time was spent on: every second of a job in one state, kept over a crash and the job's deletion."""

import json

from harness import Muster, binary, check, needs, run, wait_for
from kubeflow import CLAIM, create, job, wait_condition


def rows(m, by):
    """{key: row} of the report."""
    done = run([binary("muster"), "report", "--by", by, "-o", "json"], env=m.env)
    return {row[by]: row for row in json.loads(done.stdout)["rows"]}


def spent(m, state, name="two"):
    return rows(m, "job").get(f"default/{name}", {"milliseconds": {}})["milliseconds"].get(state, 0)


# What src/agent/hook.py writes for a training that fails after 40 steps, with a checkpoint after 20, and goes on from there.
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
