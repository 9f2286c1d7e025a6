#!/usr/bin/env python3
"""run.py [COMMIT...]: an older muster with running work is stopped, and this one starts on its folder.

The programs of each COMMIT (7038ca8 and HEAD~100 unless told) are built from this repository's history, once, outside of the tree
(build.sh). The older muster runs pods and jobs of many kinds, with clients' objects of others beside them. It is stopped, once as
a service manager does it and once by kill -9; while nobody is there one pod ends. Then this muster starts on the same folder:
every process runs on, none is started twice, no object is lost or another one, what ended is known, what waits still waits and
runs when there is room, shims of the older version answer exec, logs and deletion, and `muster store check` finds nothing.
"""

import json
import os
import re
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import harness  # noqa: E402
from harness import Muster, check, wait_for  # noqa: E402
from pods import apply, container, ended, logs, phase, pod, run_pod, shims, status, wait_phase  # noqa: E402

OLDER = ("7038ca8", "HEAD~100")
NOW = harness.BUILD
EXIT_SKIPPED = 77
# Says once that it began, then counts; ends with 7 when /d/stop-NAME or /d/stop is there.
TICK = ("import os, sys, time\nname = sys.argv[1]\nopen('/d/starts', 'a').write(name + '\\n')\nn = 0\n"
        "while not (os.path.exists('/d/stop-' + name) or os.path.exists('/d/stop')):\n"
        "  print('tick', n, flush=True)\n  n += 1\n  time.sleep(0.05)\nsys.exit(int(sys.argv[2]))")
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"},
         "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}}
VOLUMES = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
MOUNTS = [{"name": "d", "mountPath": "/d"}]
KINDS = ("pods,services,configmaps,secrets,persistentvolumeclaims,serviceaccounts,deployments,replicasets,jobs,pytorchjobs,"
         "jobsets,torchrunjobs,torchrunqueues,queues,priorityclasses,podgroups,customresourcedefinitions,widgets,nodes")
CRD = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
       "metadata": {"name": "widgets.example.com"},
       "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}


def ticking(name, code=0, **more):
    return container(["python3", "-c", TICK, name, str(code)], volumeMounts=MOUNTS, **more)


def template(name, code=0, restart="Never", queue=None, limits=None):
    spec = {"restartPolicy": restart, "volumes": VOLUMES, "terminationGracePeriodSeconds": 5,
            "containers": [ticking(name, code, resources={"limits": limits or {}})]}
    if queue:
        spec["schedulerName"] = "kai-scheduler"
    labels = {"app": name, **({"kai.scheduler/queue": queue} if queue else {})}
    return {"metadata": {"labels": labels}, "spec": spec}


def pytorchjob(name, workers, gpus):
    made = template(name, queue="team", limits={"nvidia.com/gpu": str(gpus)})
    made["spec"]["containers"][0]["name"] = "pytorch"
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team"}},
            "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "restartPolicy": "Never", "template": made},
                                             "Worker": {"replicas": workers, "restartPolicy": "Never", "template": made}}}}


def jobset(name):
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {
                "parallelism": 1, "completions": 1, "backoffLimit": 0, "template": template(name)}}}]}}


def workload(expected):
    yield CLAIM
    yield CRD
    yield {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"},
           "spec": {"resources": {"gpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
                                  "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
                                  "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 1}}}}
    yield {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "small"},
           "spec": {"nodeResources": {"gpus": 1, "cpus": 1, "memory": "1Gi"}}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"a": "b"}}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"a": "b"}}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"},
           "spec": {"selector": {"app": "dep"}, "ports": [{"port": 80}]}}
    for i in range(3):
        yield pod(f"plain-{i}", ticking(f"plain-{i}", 7), volumes=VOLUMES)
    yield pod("always", ticking("always"), restart="Always", volumes=VOLUMES)
    yield pod("fine", container("echo done"))
    yield pod("broken", container("exit 3"))
    if "dep" in expected:
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dep"},
               "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "dep"}},
                        "template": template("dep", restart="Always")}}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"},
           "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template("batch")}}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "over"},
           "spec": {"backoffLimit": 0,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container("echo over")]}}}}
    yield jobset("set")
    yield pytorchjob("train", 1, 1)
    yield pytorchjob("waits", 1, 1)


# A folder that the older plugin ships; its job says where it is and goes on until somebody says stop there.
SHIPPED = "echo at $PWD; n=0; while [ ! -e stop ]; do echo tick $n; n=$((n + 1)); sleep 0.1; done; echo stopped"


def submit(m):
    folder = os.path.join(m.folder, "shipped")
    os.makedirs(folder)
    with open(os.path.join(folder, "run.sh"), "w") as f:
        f.write(SHIPPED)
    m.torchrun("submit", "--queue", "small", "--gpus", "1", "--name", "shipped", "--detach", "sh run.sh", cwd=folder)
    wait_for(lambda: "tick 0" in m.said(shipped_pod(m)), "the shipped job to run", 90)


def shipped_pod(m):
    return next(p["metadata"]["name"] for p in m.get("pods")
                if p["metadata"]["name"].startswith("shipped-") and "-sync-" not in p["metadata"]["name"])


def shipped_ends(m):
    said = m.said(shipped_pod(m))
    ticks = [int(n) for n in re.findall(r"\btick (\d+)$", said, re.M)]
    places = re.findall(r"\bat (/\S+)$", said, re.M)
    check(ticks == list(range(len(ticks))) and len(places) == 1, f"the shipped job did not begin once: {said[:600]}")
    m.kubectl("exec", shipped_pod(m), "--", "touch", f"{places[0]}/stop")
    wait_for(lambda: m.phase("shipped") == "Succeeded", "the shipped job to succeed", 60)


def conditions(m, kind, name):
    found = m.get(kind, name) or {}
    return {c["type"] for c in found.get("status", {}).get("conditions", []) if c["status"] == "True"}


def all_objects(m):
    """What people and controllers made: (kind, namespace, name): object. What stands for parts of muster is its own affair."""
    seen = {}
    for kind in KINDS.split(","):
        path = m.rest.path(kind)
        for item in m.rest.get(path)["items"] if path else []:
            meta = item["metadata"]
            if meta.get("labels", {}).get("app.kubernetes.io/managed-by") == "muster":
                continue
            seen[kind, meta.get("namespace", ""), meta["name"]] = item
    return seen


def volume(m):
    top = os.path.join(m.data, "volumes")
    return next(folder for folder, _, files in os.walk(top) if "starts" in files)


def starts(m):
    with open(os.path.join(volume(m), "starts")) as f:
        said = f.read().split()
    return {name: said.count(name) for name in set(said)}


def stop_work(m, name=None):
    open(os.path.join(volume(m), f"stop-{name}" if name else "stop"), "w").close()


RUNNING = {"plain-0": 1, "plain-1": 1, "plain-2": 1, "always": 1, "dep": 2, "batch": 2, "set": 2, "train": 2}


def began(m):
    """Everything runs; returns how often each began."""
    expected = {name: count for name, count in RUNNING.items() if name != "dep" or m.rest.path("deployments")}
    apply(m, *workload(expected))
    wait_for(lambda: starts(m) == expected, "the older muster to start everything", 90)
    wait_for(lambda: conditions(m, "pytorchjob", "train") & {"Running"}, "the training to be running", 60)
    wait_for(lambda: "Complete" in conditions(m, "job", "over"), "a job to be over")
    m.apply(json.dumps({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}))
    submit(m)
    wait_phase(m, "fine", "Succeeded")
    wait_phase(m, "broken", "Failed")
    waiting = [p for p in m.get("pods") if p["metadata"]["name"].startswith("waits-")]
    check(len(waiting) == 2 and all(p["status"]["phase"] == "Pending" for p in waiting), "a gang waits for GPUs")
    return expected


def nothing_lost(m, before, running, expected):
    """The same objects, the same processes."""
    wait_for(lambda: all(m.get("node", n)["status"]["conditions"] for n in ("node-0",)), "the node to report")
    after = all_objects(m)
    lost = [key for key in before if key not in after]
    check(not lost, f"lost: {lost}")
    other = [key for key in before if before[key]["metadata"]["uid"] != after[key]["metadata"]["uid"]]
    check(not other, f"made anew: {other}")
    more = [key for key in after if key not in before and key[0] in ("pods", "jobs", "replicasets", "podgroups")]
    check(not more, f"made twice: {more}")
    changed = [key for key in before if key[0] in ("configmaps", "secrets", "widgets") and key[1] == "default" and
               any(before[key].get(f) != after[key].get(f) for f in ("data", "spec"))]
    check(not changed, f"changed: {changed}")
    gone = {uid for uid, pid in running.items() if shims(m).get(uid) != pid}
    check(not gone, f"shims that are gone or others: {gone}")
    restarted = [p["metadata"]["name"] for p in m.get("pods")
                 for c in p["status"].get("containerStatuses", []) if c["restartCount"]]
    check(not restarted, f"restarted: {restarted}")
    check(starts(m) == expected, f"started twice: {starts(m)}")


def older_shims_answer(m):
    check(m.kubectl("exec", "plain-1", "--", "echo", "hello").stdout == "hello\n", "exec in a pod of the older version")
    check("tick 0\n" in logs(m, "plain-1"), "its log from the beginning")
    m.kubectl("delete", "pod", "plain-2")
    check(m.get("pod", "plain-2", ok=False) is None, "a pod of the older version is deleted")


def goes_on(m, expected):
    shipped_ends(m)
    stop_work(m, "train")
    wait_for(lambda: "Succeeded" in conditions(m, "pytorchjob", "train"), "the training to succeed", 60)
    wait_for(lambda: starts(m).get("waits") == 2, "the gang that waited to run", 60)
    check(run_pod(m, "new", "echo new") == "new\n", "a new pod runs")
    stop_work(m)
    for kind, name, condition in (("pytorchjob", "waits", "Succeeded"), ("job", "batch", "Complete"),
                                  ("jobset", "set", "Completed")):
        wait_for(lambda k=kind, n=name, c=condition: c in conditions(m, k, n), f"{kind} {name} to be {condition}", 60)
    once = {name: count for name, count in starts(m).items() if name not in ("always", "dep")}
    wanted = {**{k: v for k, v in expected.items() if k not in ("always", "dep")}, "waits": 2}
    check(once == wanted, f"started: {once}, not {wanted}")


def upgrade(older, clean):
    harness.BUILD = older
    m = Muster(gpus_per_node=3, flags=["--cpus-per-node", "64", "--pod-network", "host"])
    m.env["PATH"] = older + ":" + m.env["PATH"]
    with m:
        try:
            expected = began(m)
            before, running = all_objects(m), shims(m)
            gone = before["pods", "default", "plain-0"]["metadata"]["uid"]
            # Controllers of the older version may be amid something: what counts is what the last look saw.
            if clean:
                m.process.terminate()
                check(m.process.wait(30 * harness.PATIENCE) == 0, f"the older muster ended with {m.process.returncode}")
            else:
                m.kill()
            stop_work(m, "plain-0")
            wait_for(lambda: os.path.exists(os.path.join(m.data, "pods", gone, "c/main/0.exit")),
                     "a pod to end while nobody is there")
        finally:
            harness.BUILD = NOW
        m.env["PATH"] = NOW + ":" + m.env["PATH"]
        m.start()
        wait_phase(m, "plain-0", "Failed")
        check(ended(m, "plain-0")["exitCode"] == 7, f"its exit code: {ended(m, 'plain-0')}")
        ticks = [int(line.split()[1]) for line in logs(m, "plain-0").splitlines()]
        check(ticks == list(range(len(ticks))), "its log has a hole")
        nothing_lost(m, before, {uid: pid for uid, pid in running.items() if uid != gone}, expected)
        older_shims_answer(m)
        # And once more, as this version stops and starts.
        m.kill()
        m.start()
        check(status(m, "plain-1")["restartCount"] == 0 and phase(m, "plain-1") == "Running", "a second start changes nothing")
        goes_on(m, expected)
        done = harness.run([harness.binary("muster"), "store", "check", "--data-dir", m.data], env=m.env, ok=False)
        check(done.returncode == 0, f"muster store check: {done.stdout}{done.stderr}")


def main(argv):
    passed = failed = skipped = 0
    for commit in argv or OLDER:
        built = subprocess.run([os.path.join(HERE, "build.sh"), commit], stdout=subprocess.PIPE, text=True, check=False)
        said = (built.stdout.strip().splitlines() or ["it does not say why"])[-1]
        if built.returncode:
            known = built.returncode == EXIT_SKIPPED
            print(said if known else f"failed: upgrade-from-{commit}: it does not build: {said}", flush=True)
            skipped, failed = skipped + known, failed + (not known)
            continue
        for clean in (True, False):
            name = f"upgrade-from-{commit}-{'stopped' if clean else 'killed'}"
            try:
                upgrade(said, clean)
            except Exception:  # the next one is tried all the same
                traceback.print_exc()
                print(f"failed: {name}", flush=True)
                failed += 1
            else:
                print(f"ok {name}", flush=True)
                passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else EXIT_SKIPPED if not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
