"""What GPU time was spent on: every second of a job in one state, kept over a crash and the job's deletion."""

import contextlib
import json
import os
import re
import shutil
import subprocess

from harness import ROOT, Muster, binary, check, needs, run, wait_for
from kubeflow import CLAIM, WAIT, create, job, wait_condition
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_protect import CLASS


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


# The page's own sums of a job, by its own model. Arguments: web/, a file with its lines of /accounts.
PAGE_SUMS = """
import { readFileSync } from "node:fs";
const { accountSums, lastAccount } = await import(process.argv[1] + "/model.js");
console.log(JSON.stringify(accountSums(lastAccount(readFileSync(process.argv[2], "utf8")), Date.now())));
"""


def page_sums(m, uid):
    """None where there is no node."""
    if not shutil.which("node"):
        return None
    folder = os.path.join(m.folder, "page")
    shutil.copytree(os.path.join(ROOT, "web"), folder)
    path = os.path.join(folder, "account")
    account = m.kubectl("get", "--raw", f"/accounts?uid={uid}").stdout
    for name, text in ("package.json", '{"type": "module"}'), ("account", account):
        with open(os.path.join(folder, name), "w") as f:  # as tests/page/model.mjs
            f.write(text)
    return json.loads(run(["node", "--input-type=module", "-e", PAGE_SUMS, folder, path]).stdout)


def seconds_told(text):
    """{"queued": 11, ...} of "queued 11s, training 1m14s: ETTR 55.5 %"."""
    scale = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    return {word: sum(int(n) * scale[unit] for n, unit in re.findall(r"(\d+)([dhms])", span))
            for word, span in re.findall(r"(\w+) ((?:\d+[dhms])+)", text.partition(":")[0])}


@needs("the accounts that muster up keeps")
def test_all_who_tell_of_a_job_that_gave_way_agree_and_add_up():
    need_torch()
    until = "echo started; until [ -e go ]; do sleep 0.1; done"
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        m.apply(json.dumps(CLASS))
        folder = project(m)

        def submit(name, *flags):
            m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", name, *flags, "--detach", until, cwd=folder)
            wait_for(lambda: m.phase(name) == "Running", f"{name} to run", 120)

        def end(name):
            wait_for(lambda: "started" in m.torchrun("logs", name, ok=False).stdout, f"{name} to have begun", 120)
            m.torchrun("exec", name, "--", "touch", "go")
            wait_for(lambda: m.phase(name) == "Succeeded", f"{name} to end", 60)

        submit("low")
        wait_for(lambda: "started" in m.torchrun("logs", "low", ok=False).stdout, "low to have begun", 120)
        submit("dear", "--priority", "dear")
        end("dear")
        wait_for(lambda: m.phase("low") == "Running", "low to run again", 120)
        end("low")

        # They have ended: whoever asks now and later is told the same.
        report = rows(m, "job")["default/low"]
        wall = report["milliseconds"]
        status = m.get("torchrunjobs", "low")
        moments = [status["metadata"]["creationTimestamp"], status["status"]["completionTime"]]
        whole = 1000 * int(run(["sh", "-c", "echo $(($(date -d $2 +%s) - $(date -d $1 +%s)))", "-", *moments]).stdout)
        check(status["status"]["generation"] == 1 and abs(sum(wall.values()) - whole) <= 2000, f"its whole time: {wall}, {whole}")
        waited, ran = wall["queued"], sum(wall.values()) - wall["queued"]
        check(waited > 0 and ran > 0, f"{wall}")
        line = next(json.loads(line) for line in m.torchrun("history", "-o", "json").stdout.splitlines() if '"low"' in line)
        told = next(line for line in m.torchrun("status", "low").stdout.splitlines() if line.startswith("Time:"))
        seconds = seconds_told(told.removeprefix("Time:"))
        check(seconds == {state: ms // 1000 for state, ms in wall.items() if ms >= 1000}, f"status: {told}, {wall}")
        figures = {"history": (line["queuedSeconds"], line["runSeconds"], line["gpuSeconds"])}
        page = page_sums(m, status["metadata"]["uid"])
        if page:
            figures["page"] = (page["waited"] / 1000, page["ran"] / 1000, page["gpu"] / 1000)
        for who, found in figures.items():  # whole seconds, of each part
            check(all(abs(1000 * a - b) <= 2500 for a, b in zip(found, (waited, ran, ran))), f"{who}: {found}, {waited} {ran}")
        both = rows(m, "queue")["demo"]["gpuMilliseconds"]
        metric = r'muster_job_gpu_seconds_total\{queue_name="demo"[^}]*,state="(\w+)"\} ([\d.]+)'
        counted = {state: float(n) for state, n in re.findall(metric, m.kubectl("get", "--raw", "/metrics").stdout)}
        check(counted and all(abs(1000 * n - both[state]) <= 1000 for state, n in counted.items()), f"metrics: {counted}, {both}")


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


@contextlib.contextmanager
def without_accounts(m, env):
    """The environment of somebody to whom nobody gives accounts, as on a cluster: what is kept of them is refused on the way."""
    with subprocess.Popen(["kubectl", "proxy", "--port=0", "--reject-paths=^/accounts"], env=env, text=True,
                          stdout=subprocess.PIPE) as proxy:
        try:
            port = proxy.stdout.readline().strip().rpartition(":")[2]
            path = os.path.join(m.folder, "proxied.kubeconfig")
            with open(path, "w") as f:
                json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "p", "users": [{"name": "p", "user": {}}],
                           "clusters": [{"name": "p", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                           "contexts": [{"name": "p", "context": {"cluster": "p", "user": "p"}}]}, f)
            yield dict(env, KUBECONFIG=path)
        finally:
            proxy.terminate()


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
        check(sorted(users) == ["muster:owner"] and users["muster:owner"]["jobs"] == 3, f"a label charges somebody: {users}")
        check(rows(m, "node")["node-0"]["jobs"] == 3, "a job has no node")
        metrics = m.kubectl("get", "--raw", "/metrics").stdout
        check('muster_job_gpu_seconds_total{queue_name="default-queue",state="training"}' in metrics, "no metric of it")
        # Who may list the jobs of all namespaces has the same, and where there are no accounts, what the objects say:
        # the same jobs, since their pods began.
        env = reader(m)
        with without_accounts(m, env) as bare:
            check(run(["kubectl", "get", "--raw", "/accounts"], env=bare, ok=False).returncode != 0,
                  "there are accounts")
            for each in (env, bare):
                done = run([binary("muster"), "report", "--by", "job", "-o", "json"], env=each)
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
