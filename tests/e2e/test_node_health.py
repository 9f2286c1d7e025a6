"""Nodes that jobs fail on are suspected, tested, and cleared or kept out; gangs leave what is proven bad."""

import os
import shutil
import tempfile

from harness import Muster, Skip, binary, check, run, torch_pythons, wait_for
from kubeflow import create
from test_gpu_health import make_driver

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 1}
"""
# It ends as if it had been killed by SIGSEGV: no torch is needed for that.
KILLED = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}}}
spec:
  runPolicy: {{backoffLimit: 0}}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {{kubernetes.io/hostname: node-0}}
          containers:
          - name: pytorch
            image: x
            command: [sh, -c, "exit 139"]
            resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""
LONG = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: {name}}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {{name: pytorch, image: x, command: [sleep, "600"], resources: {{limits: {{nvidia.com/gpu: 1}}}}}}
"""


def node(m, name="node-0"):
    return m.get("node", name)


def taint(m, name="node-0"):
    return next((t["value"] for t in node(m, name)["spec"].get("taints", []) if t["key"] == "muster.dev/suspect"), None)


def notes(m, name="node-0"):
    return node(m, name)["metadata"].get("annotations", {})


def words(m, name="node-0"):
    return notes(m, name).get("muster.dev/suspect", "")


def test_jobs_that_are_killed_on_one_node_have_it_tested_and_cleared():
    with Muster(nodes=2, gpus_per_node=2) as m:
        m.apply(QUEUE)
        for i in range(3):
            m.apply(KILLED.format(name=f"j{i}"))
            wait_for(lambda: any(k.startswith("blame.muster.dev/") and f" Killed default/j{i}:" in v
                                 for k, v in notes(m).items()) or "muster.dev/self-test" in notes(m) or taint(m),
                     f"job {i} to blame the node", 60)
        tested = wait_for(lambda: notes(m).get("muster.dev/self-test"), "the test", 90)
        check(tested.startswith("passed ") and "memory, products of matrices and sums are right" in tested, tested)
        wait_for(lambda: taint(m) is None and not words(m), "the taint to go", 30)
        check(not [a for a in notes(m) if a.startswith("blame.")], "what was said is forgotten")
        events = m.kubectl("get", "events", "-A").stdout
        check("NodeSuspect" in events and "SelfTestPassed" in events, events)


def test_batch_jobs_and_jobsets_blame_a_node_as_others_do():
    pods = {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": "node-0"}, "containers": [
        {"name": "main", "image": "x", "command": ["sh", "-c", "exit 139"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    spec = {"backoffLimit": 0, "template": {"spec": pods}}
    alone = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "alone"}, "spec": spec}
    jobset = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "many"},
              "spec": {"failurePolicy": {"maxRestarts": 1}, "replicatedJobs": [{"name": "w", "template": {"spec": spec}}]}}
    with Muster(nodes=2, gpus_per_node=2) as m:
        create(m, alone, jobset)
        for name in ("alone", "many"):
            wait_for(lambda: any(k.startswith("blame.muster.dev/") and f" Killed default/{name}:" in v
                                 for k, v in notes(m).items()), f"{name} to blame the node", 60)
        check(taint(m) is None, "two jobs are not enough")
        create(m, {**alone, "metadata": {"name": "third"}})
        wait_for(lambda: notes(m).get("muster.dev/self-test", "").startswith("passed "), "the test", 90)
        check("default/alone" in m.kubectl("get", "events", "-A").stdout, "the event does not name who said it")


def test_a_node_whose_self_test_fails_is_kept_out_and_gangs_leave_it():
    with tempfile.TemporaryDirectory(prefix="muster-health-") as folder:
        os.chmod(folder, 0o755)
        fan = os.path.join(folder, "fan")
        command = f'[ ! -e {fan} ] || {{ echo the fan is off; exit 1; }}'
        with Muster(nodes=2, gpus_per_node=2, flags=("--self-test-command", command)) as m:
            open(fan, "w").close()
            m.apply(LONG.format(name="long"))

            def pod():
                return next((p for p in m.get("pods") if p["metadata"]["name"] == "long-master-0"), {})
            wait_for(lambda: pod().get("status", {}).get("phase") == "Running", "the gang to run", 60)
            bad = pod()["spec"]["nodeName"]
            other = {"node-0": "node-1", "node-1": "node-0"}[bad]
            # A person asks for a test: what runs goes on until something is found.
            m.kubectl("taint", "node", bad, "muster.dev/suspect=asked:NoSchedule")
            wait_for(lambda: taint(m, bad) == "SelfTestFailed", "the test to fail", 90)
            check("the administrator's test ended with exit status 1: the fan is off" in words(m, bad), words(m, bad))
            shown = run([binary("muster"), "gpu"], env=m.env).stdout
            check("FAULT" in shown and "the self-test failed" in shown, shown)
            wait_for(lambda: pod().get("spec", {}).get("nodeName") == other and pod()["status"]["phase"] == "Running",
                     "the gang to run on the other node", 90)
            job = m.get("pytorchjob", "long")["status"]
            check(not [c for c in job["conditions"] if c["type"] == "Failed" and c["status"] == "True"], f"nothing failed: {job}")
            os.unlink(fan)
            m.kubectl("delete", "pod", "-n", "kube-system", f"self-test-{bad}")
            wait_for(lambda: taint(m, bad) is None, "the node to be cleared", 90)
            check("FAULT" not in run([binary("muster"), "gpu"], env=m.env).stdout, "nothing is said against it")


def test_a_gang_is_tested_before_its_ranks_start_and_goes_elsewhere():
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    with Muster(nodes=2, gpus_per_node=1) as m:
        m.apply(QUEUE)
        # The job's own test is one that only the node fails where the first pod is.
        m.apply("""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: t}
spec:
  jobQueue: q
  numGPUs: 1
  command: 'true'
  env:
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: MUSTER_TEST_COMMAND, value: '[ "$NODE" != node-0 ] || { echo a link is down; exit 1; }'}
  reliability: {preflightFrom: 1}
  scheduling: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
    {weight: 100, preference: {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-0]}]}}]}}}
""")
        wait_for(lambda: "SelfTestPassed" in m.kubectl("get", "events", "-A").stdout, "the node to be tested", 120)
        wait_for(lambda: m.get("torchrunjob", "t")["status"].get("phase") == "Succeeded", "the job to succeed", 120)
        status = m.get("torchrunjob", "t")["status"]
        check(status["restarts"] == 1 and status["failure"]["node"] == "node-0", f"{status}")
        check("the self-test before the start failed: the administrator's test ended with exit status 1: a link is down"
              in status["failure"]["message"], status["failure"]["message"])


def test_the_operator_refuses_flags_that_would_do_nothing():
    cases = ((["--self-test-image=i"], "--self-test-image: needs --node-health"),
             (["--self-test-command=true"], "--self-test-command: needs --node-health"),
             (["--node-health", "--self-test-command=true"], "--self-test-command: needs --self-test-image"),
             (["--node-health", "--shadow"], "leave --node-health out"),
             (["--node-health", "--controllers=-nodehealth"], "--controllers leaves out nodehealth"))
    for flags, words in cases:
        done = run([binary("muster"), "operator", "--kubeconfig", "/nowhere", *flags], ok=False)
        check(done.returncode == 1 and words in done.stderr, f"{flags}: {done.stderr}")


def test_a_gang_leaves_a_card_that_fell_off_the_bus():
    if not shutil.which("cc"):
        raise Skip("no compiler for a library that stands in for NVIDIA's")
    with tempfile.TemporaryDirectory(prefix="muster-nvml-") as folder:
        xid = make_driver(folder, cards=2)
        m = Muster(env={"LD_LIBRARY_PATH": folder, "FAKE_XID_FILE": xid})
        m.flags = ["--nodes", "2"]
        with m:
            m.apply(LONG.format(name="g"))

            def where():
                return next((p["spec"].get("nodeName") for p in m.get("pods") if p["metadata"]["name"] == "g-master-0"
                             and p["status"]["phase"] == "Running"), None)
            first = wait_for(where, "the gang to run", 60)
            with open(xid + ".new", "w") as f:
                f.write(first[-1])  # node-1 has the second card
            os.replace(xid + ".new", xid)
            wait_for(lambda: where() not in (None, first), "the gang to run on the other node", 120)
