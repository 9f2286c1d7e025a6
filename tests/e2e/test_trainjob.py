"""TrainJobs and their runtimes: from Kubeflow Trainer's manifests to real torchrun."""

import json
import os
import re

from harness import EXAMPLES, PORT_OF_TRAINJOBS, Muster, Skip, apart, check, need_kubectl, run, torch_pythons, wait_for

JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %(name)s, labels: {kai.scheduler/queue: default-queue}, annotations: {kai.scheduler/note: x}}
spec:
  runtimeRef: {name: %(runtime)s}
  %(spec)s
"""


FOREVER = 'trap "exit 0" TERM; sleep 600 & wait'  # a shell as process 1 would ignore SIGTERM


def create(m, name, command, spec="suspend: false", runtime="plain", trainer="numNodes: 1"):
    text = JOB % {"name": name, "runtime": runtime, "spec": spec}
    text += "  trainer: {%s, command: [sh, -c, '%s']}\n" % (trainer, command)
    m.new(text)


def conditions(m, name):
    status = (m.get("trainjob", name) or {}).get("status", {})
    return {c["type"]: c for c in status.get("conditions", [])}


def phase(m, name):
    return (m.get("trainjob", name) or {}).get("status", {}).get("phase")


def holds(m, name, kind):
    found = conditions(m, name).get(kind, {})
    return found if found.get("status") == "True" else None


def pods(m, name):
    return [p for p in m.get("pods") if p["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == name]


def env_of(pod):
    return {e["name"]: e.get("value") for e in pod["spec"]["containers"][0].get("env", [])}


def state(m, name):
    return m.kubectl("get", "trainjob", name, "--no-headers").stdout.split()[1]


def test_a_job_runs_as_one_gang_and_completes():
    need_kubectl(23)
    with Muster() as m:
        names = m.kubectl("get", "clustertrainingruntimes", "-o", "name").stdout
        check("torch-distributed" in names and "mpi-distributed" in names, names)
        create(m, "fine", "until test -e /tmp/end-of-it; do :; done", trainer="numNodes: 3", runtime="torch-distributed")
        m.kubectl("wait", "trainjob/fine", "--for=jsonpath={.status.phase}=Running", "--timeout=60s", limit=90)
        check(state(m, "fine") == "Running", state(m, "fine"))
        found = pods(m, "fine")
        check(len(found) == 3, f"{len(found)} pods")
        env = env_of(found[0])
        check(env["PET_NNODES"] == "3" and env["PET_MASTER_ADDR"] == "fine-node-0-0.fine" and env["PET_MASTER_PORT"] == "29500",
              str(env))
        groups = {p["metadata"]["annotations"]["pod-group-name"] for p in found}
        check(len(groups) == 1, str(groups))
        group = m.get("podgroup", groups.pop())
        least = [s["minMember"] for s in group["spec"]["subGroups"] if s["name"] == "node-replica-0"]
        check(least == [3] and group["spec"]["queue"] == "default-queue", str(group["spec"]))
        for pod in found:
            check(pod["metadata"]["labels"]["kai.scheduler/queue"] == "default-queue", str(pod["metadata"]))
            check(pod["metadata"]["annotations"]["kai.scheduler/note"] == "x", str(pod["metadata"]))
            m.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/end-of-it", ok=False)
        m.kubectl("wait", "trainjob/fine", "--for=condition=Complete", "--timeout=60s", limit=90)
        check(state(m, "fine") == "Complete", state(m, "fine"))
        ends = m.get("trainjob", "fine")["status"]["conditions"]
        check([(c["type"], c["message"]) for c in ends] == [("Complete", "jobset completed successfully")], str(ends))
        status = m.get("trainjob", "fine")["status"]["jobsStatus"]
        check(status == [{"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}], str(status))
        check("mlPolicy" in m.get("configmap", "fine-runtime-snapshot")["data"]["runtime"], "no copy of the runtime")
        m.kubectl("delete", "trainjob", "fine")
        wait_for(lambda: not m.get("jobsets") and not pods(m, "fine"), "all of it to go")


def test_failure_deadline_suspension_and_pending_reasons():
    need_kubectl(26)
    with Muster(gpus_per_node=1) as m:
        create(m, "bad", "exit 3", runtime="plain")
        wait_for(lambda: holds(m, "bad", "Failed"), "the job to fail", 60)
        check(holds(m, "bad", "Failed")["reason"] == "ReachedMaxRestarts", str(conditions(m, "bad")))
        check(m.get("jobset", "bad")["status"]["restarts"] == 3, "it was not tried again")

        create(m, "late", FOREVER, "activeDeadlineSeconds: 2")
        wait_for(lambda: holds(m, "late", "Failed"), "the deadline to pass", 60)
        check(holds(m, "late", "Failed")["reason"] == "DeadlineExceeded", str(conditions(m, "late")))
        wait_for(lambda: m.get("jobset", "late") is None and not pods(m, "late"), "its pods to go", 60)

        create(m, "stop", FOREVER, "suspend: true")
        wait_for(lambda: holds(m, "stop", "Suspended"), "the job to be suspended")
        check(state(m, "stop") == "Suspended" and not pods(m, "stop"), "it is not suspended")
        m.kubectl("patch", "trainjob", "stop", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        wait_for(lambda: phase(m, "stop") == "Running", "the job to run")
        check(state(m, "stop") == "Running" and conditions(m, "stop")["Suspended"]["reason"] == "Resumed",
              str(conditions(m, "stop")))
        m.kubectl("patch", "trainjob", "stop", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_for(lambda: not pods(m, "stop"), "the pods to go", 60)

        create(m, "wide", "true", trainer="numNodes: 1, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}")
        wait_for(lambda: m.get("trainjob", "wide").get("status", {}).get("reason") == "Unschedulable", "the reason of the wait")
        status = m.get("trainjob", "wide")["status"]
        check("gpu" in status["message"].lower() and not status.get("conditions"), str(status))
        events = wait_for(lambda: m.kubectl("events", "--for=trainjob/wide").stdout, "its events")
        check("Unschedulable" in events, events)


RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: staged, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}
  template:
    spec:
      ttlSecondsAfterFinished: 2
      volumeClaimPolicies:
        - templates: [{metadata: {name: initializer},
            spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
      replicatedJobs:
        - name: dataset-initializer
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
            spec: {template: {spec: {restartPolicy: Never, containers: [{name: dataset-initializer, image: x,
              command: [sh, -c, "echo $STORAGE_URI $EXTRA > /workspace/data"],
              volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}
        - name: node
          dependsOn: [{name: dataset-initializer, status: Complete}]
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {restartPolicy: Never, containers: [{name: node, image: x,
              command: [sh, -c, "cat /workspace/data; echo $FIRST $SECOND $PET_NPROC_PER_NODE; sleep 600"],
              volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}
"""


def test_initializers_overrides_of_every_generation_and_the_snapshot():
    with Muster(flags=("--node-labels", "pool=a")) as m:
        m.apply(RUNTIME)
        m.new("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: over}
spec:
  runtimeRef: {kind: TrainingRuntime, name: staged}
  labels: {team: blue}
  initializer: {dataset: {storageUri: "hf://some/data", env: [{name: EXTRA, value: more}]}}
  trainer: {numNodes: 1, env: [{name: FIRST, value: "1"}], resourcesPerNode: {requests: {cpu: 1}}}
  podSpecOverrides: [{targetJobs: [{name: node}], nodeSelector: {pool: a}}]
  podTemplateOverrides: [{targetJobs: [{name: node}], metadata: {labels: {generation: two}},
    spec: {tolerations: [{operator: Exists}]}}]
  runtimePatches:
    - manager: example.com/patch
      trainingRuntimeSpec: {template: {metadata: {labels: {set: three}}, spec: {replicatedJobs: [{name: node, template: {spec: {
        template: {metadata: {annotations: {generation: three}}, spec: {terminationGracePeriodSeconds: 1}}}}}]}}}
""")
        wait_for(lambda: phase(m, "over") == "Running", "the job to run", 60)
        pod = [p for p in pods(m, "over") if "-node-" in p["metadata"]["name"]][0]
        logs = wait_for(lambda: m.said(pod["metadata"]["name"]).count("\n") == 2 and m.said(pod["metadata"]["name"]), "its lines")
        check(logs.split() == ["hf://some/data", "more", "1", "1"], logs)
        spec, meta = pod["spec"], pod["metadata"]
        check(spec["nodeSelector"] == {"pool": "a"} and spec["terminationGracePeriodSeconds"] == 1, str(spec))
        check(meta["labels"]["generation"] == "two" and meta["labels"]["team"] == "blue", str(meta))
        check(pod["metadata"]["annotations"]["generation"] == "three", str(pod["metadata"]))
        check(m.get("jobset", "over")["metadata"]["labels"]["set"] == "three", "the JobSet lacks a label")
        m.kubectl("delete", "trainingruntime", "staged")
        m.kubectl("delete", "pod", pod["metadata"]["name"])
        wait_for(lambda: [p for p in pods(m, "over") if "-node-" in p["metadata"]["name"]
                          and p["metadata"]["uid"] != pod["metadata"]["uid"]], "the pod to come back without its runtime", 60)
        m.kubectl("delete", "trainjob", "over")

        m.apply(RUNTIME.replace("sleep 600", "true"))
        m.new("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: brief}
spec: {runtimeRef: {kind: TrainingRuntime, name: staged}}
""")
        wait_for(lambda: holds(m, "brief", "Complete"), "the job to be done", 60)
        wait_for(lambda: m.get("jobset", "brief") is None, "its time to live to end", 60)
        check(holds(m, "brief", "Complete"), "a job whose pods are gone is done no more")


@apart(PORT_OF_TRAINJOBS)
def test_real_torchrun_on_two_nodes():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python with torch")
    new = [p for p, version in pythons if not version.startswith("1.")]
    python = (new or [p for p, _ in pythons])[0]
    with Muster(nodes=2) as m:
        script = os.path.join(EXAMPLES, "trainjob", "allreduce.py")
        command = [python, "-m", "torch.distributed.run", script]
        text = JOB % {"name": "reduce", "runtime": "torch-distributed", "spec": "suspend: false"}
        text += "  trainer: {numNodes: 2, numProcPerNode: 2, command: [%s]}\n" % ", ".join(f'"{c}"' for c in command)
        m.new(text)
        m.kubectl("wait", "trainjob/reduce", "--for=condition=Complete", "--timeout=120s", limit=150)
        logs = m.kubectl("logs", "-l", "jobset.sigs.k8s.io/jobset-name=reduce", "--tail=-1").stdout
        # Not "to the end of the line": torchrun runs Python unbuffered, and two ranks' lines may share one.
        check(sorted(re.findall(r"rank \d of 4: sum 6(?!\d)", logs))
              == [f"rank {i} of 4: sum 6" for i in range(4)], logs)


# What Kubeflow's SDK does, by hand: each answer is a line.
TELL = """
import json, os, ssl, urllib.error, urllib.request
def tell(url, body, token):
    trust = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
    request = urllib.request.Request(url, data=body, method="POST", headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request, context=trust) as answer: print(answer.status, flush=True)
    except urllib.error.HTTPError as e: print(e.code, flush=True)
url, token = os.environ["KUBEFLOW_TRAINER_SERVER_URL"], open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
good = json.dumps({"trainerStatus": {"progressPercentage": 42, "estimatedRemainingSeconds": 7,
                                     "metrics": [{"name": "loss", "value": "0.5"}]}}).encode()
tell(url, good, token)
tell(url, json.dumps({"trainerStatus": {"progressPercentage": 142}}).encode(), token)
tell(url, b"{}", token)
tell(url, b"[" * 70000, token)
tell(url.replace("trainjobs/told", "trainjobs/other"), good, token)
tell(url, good, open("/var/run/secrets/kubernetes.io/serviceaccount/token").read())
tell(url.split("/apis/")[0] + "/api/v1/namespaces/default/configmaps", b"{}", token)
"""


def test_a_training_tells_its_progress_and_nothing_else():
    with Muster() as m:
        job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "told"}, "spec": {
            "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1, "command": ["python3", "-c", TELL]}}}
        m.new(json.dumps(job))
        m.kubectl("wait", "trainjob/told", "--for=condition=Complete", "--timeout=60s", limit=90)
        codes = m.kubectl("logs", "-l", "jobset.sigs.k8s.io/jobset-name=told", "--tail=-1").stdout.split()
        # The last is another path: known to an API server, not to an operator.
        check(codes[:-1] == ["200", "422", "422", "413", "403", "403"] and codes[-1] in ("401", "404"), str(codes))
        told = m.get("trainjob", "told")["status"]["trainerStatus"]
        check(told.pop("lastUpdatedTime") and told == {"progressPercentage": 42, "estimatedRemainingSeconds": 7, "metrics": [
            {"name": "loss", "value": "0.5"}]}, str(told))
        check("BEGIN CERTIFICATE" in m.get("configmap", "told-tls-config")["data"]["ca.crt"], "no certificate")


def test_keys_of_mpi_are_a_pair():
    with Muster() as m:
        create(m, "mpi", "cat /etc/mpi/hostfile; sleep 600", runtime="mpi-distributed", trainer="numNodes: 3")
        secret = wait_for(lambda: m.get("secret", "mpi-mpi-ssh-auth"), "the keys")
        check(secret["type"] == "kubernetes.io/ssh-auth" and secret.get("immutable"), str(secret))
        import base64
        private = os.path.join(m.folder, "key")
        with open(private, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(base64.b64decode(secret["data"]["ssh-privatekey"]))
        public = base64.b64decode(secret["data"]["ssh-publickey"]).decode().split()
        derived = run(["ssh-keygen", "-y", "-f", private]).stdout.split()
        check(derived[:2] == public[:2], f"{derived} is not {public}")
        hosts = m.get("configmap", "mpi-mpi-hostfile")["data"]["hostfile"]
        check(hosts == "mpi-launcher-0-0.mpi slots=1\nmpi-node-0-0.mpi slots=1\nmpi-node-0-1.mpi slots=1\n", hosts)
        launcher = wait_for(lambda: [p for p in pods(m, "mpi") if "launcher" in p["metadata"]["name"]], "the launcher")[0]
        wait_for(lambda: "slots=1" in m.said(launcher["metadata"]["name"]), "the launcher to see the hosts")


def test_what_cannot_work_is_refused():
    with Muster() as m:
        def refused(spec, field, name="x", runtime="plain"):
            done = m.kubectl("create", "-f", "-", ok=False, input=JOB % {"name": name, "runtime": runtime, "spec": spec})
            check(done.returncode != 0 and field in done.stderr, f"{spec}: {done.stderr}")
        refused("suspend: false", "metadata.name", name="1st")
        refused("trainer: {env: [{name: PET_NNODES, value: x}]}", "spec.trainer.env")
        refused("trainer: {env: [{name: A}, {name: A}]}", "spec.trainer.env")
        refused("trainer: {numNodes: -1}", "spec.trainer.numNodes")
        refused("trainer: {numProcPerNode: many}", "spec.trainer.numProcPerNode")
        refused("activeDeadlineSeconds: 0", "spec.activeDeadlineSeconds")
        refused("managedBy: somebody", "spec.managedBy")
        refused("initializer: {dataset: {storageUri: nowhere}}", "spec.initializer.dataset.storageUri")
        refused("runtimePatches: [{manager: me}]", "spec.runtimePatches[0].manager")
        create(m, "x", FOREVER)
        done = m.kubectl("patch", "trainjob", "x", "--type=merge", "-p", '{"spec":{"trainer":{"numNodes":2}}}', ok=False)
        check("spec.trainer" in done.stderr and "immutable" in done.stderr, done.stderr)
        done = m.kubectl("patch", "trainjob", "x", "--type=merge", "-p",
                         '{"spec":{"podTemplateOverrides":[{"targetJobs":[{"name":"node"}]}]}}', ok=False)
        check("only while the TrainJob is suspended" in done.stderr, done.stderr)
        create(m, "z", "true", "podTemplateOverrides: [{targetJobs: [{name: nobody}]}]")
        wait_for(lambda: "nobody" in (m.get("trainjob", "z").get("status") or {}).get("message", ""),
                 "a word about the wrong target")
        bad = RUNTIME.replace("name: node, image", "name: main, image")
        check("a container named node" in m.kubectl("apply", "-f", "-", input=bad, ok=False).stderr, "a runtime without node")
        both = RUNTIME.replace("numNodes: 1, torch", "numNodes: 1, jax: {}, torch")
        check("spec.mlPolicy" in m.kubectl("apply", "-f", "-", input=both, ok=False).stderr, "two policies")


def test_a_runtime_that_is_not_there_or_old_is_told():
    """At once where admission sees other objects; a cluster's webhook sees the job alone, and the status tells."""
    with Muster() as m:
        done = m.kubectl("create", "-f", "-", ok=False, input=JOB % {"name": "x", "runtime": "nothing", "spec": "suspend: false"})
        if done.returncode == 0:
            wait_for(lambda: "spec.runtimeRef: there is no" in (m.get("trainjob", "x").get("status") or {}).get("message", ""),
                     "a word about the runtime")
            return
        check("spec.runtimeRef" in done.stderr, done.stderr)
        m.apply(RUNTIME.replace("trainer.kubeflow.org/framework: torch", "trainer.kubeflow.org/support: deprecated"))
        done = m.kubectl("create", "--dry-run=server", "-f", "-", input=JOB % {
            "name": "old", "runtime": "staged, kind: TrainingRuntime", "spec": "suspend: true"})
        check("TrainingRuntime staged is deprecated" in done.stderr, f"no warning: {done.stderr}")
