"""The manifests of examples/{jobset,trainjob,tensorstack} are accepted as they are and reach the state their first line names,
and the commands of the guides to KAI Scheduler and Kubeflow Trainer work line by line."""

import os
import re

from harness import EXAMPLES, Muster, check, wait_for


def example(*path):
    return os.path.join(EXAMPLES, *path)


def state(m, kind, name):
    status = (m.get(kind, name) or {}).get("status", {})
    true = [c["type"] for c in status.get("conditions", []) if c["status"] == "True"]
    return true + [status.get("phase")]


def run_folder(folder, kind):
    with Muster(nodes=2) as m:
        expected = {}
        for file in sorted(os.listdir(example(folder))):
            text = open(example(folder, file)).read() if file.endswith(".yaml") else ""
            reaches = re.match(r"# Reaches (\w+)", text)
            if reaches:
                m.kubectl("create", "-f", example(folder, file))
                expected[file[:-5]] = reaches.group(1)
        check(len(expected) >= 4, f"too few examples: {expected}")
        for name, word in expected.items():
            wait_for(lambda: word in state(m, kind, name), f"{name} to reach {word}", 90)


def test_jobsets():
    run_folder("jobset", "jobset")


def test_trainjobs():
    run_folder("trainjob", "trainjob")


def test_pytorchtrainingjobs():
    run_folder("tensorstack", "pytorchtrainingjob")


def test_the_guide_to_kubeflow_with_kai_line_by_line():
    with Muster(nodes=4, gpus_per_node=1) as m:
        m.kubectl("get", "crd", "pytorchjobs.kubeflow.org")
        m.kubectl("get", "pods", "-n", "kubeflow")
        m.kubectl("wait", "--for=condition=ready", "pod", "-l", "control-plane=kubeflow-training-operator", "-n", "kubeflow",
                  "--timeout=120s")
        m.kubectl("get", "crd", "trainjobs.trainer.kubeflow.org")
        m.kubectl("get", "crd", "clustertrainingruntimes.trainer.kubeflow.org")
        m.kubectl("wait", "--for=condition=ready", "pod", "-l", "app.kubernetes.io/name=kubeflow-trainer",
                  "-n", "kubeflow-trainer-system", "--timeout=120s")
        m.kubectl("wait", "--for=condition=ready", "pod", "--all", "-n", "kai-scheduler", "--timeout=120s")
        check(not m.get("podgroups", ns="kai-scheduler"), "a pod that stands for this program was grouped")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-simple.yaml"))
        m.kubectl("wait", "trainjob/pytorch-simple", "--for=condition=Complete", "--timeout=120s", limit=150)

        m.apply("""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: prod-queue}
spec: {parentQueue: default-parent-queue,
  resources: {gpu: {quota: 4, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
""")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-kai-runtime.yaml"))
        m.kubectl("apply", "-f", example("trainjob", "pytorch-kai-job.yaml"))
        m.kubectl("wait", "trainjob/pytorch-kai-job", "--for=condition=Running", "--timeout=120s", limit=150)
        pods = [p for p in m.get("pods") if p["metadata"]["name"].startswith("pytorch-kai-job-")]
        check(len(pods) == 4, f"{len(pods)} pods")
        groups = {p["metadata"]["annotations"]["pod-group-name"] for p in pods}
        group = m.get("podgroup", groups.pop())["spec"]
        check(not groups and group["queue"] == "prod-queue" and group["minMember"] == 4, str(group))
        check(len({p["spec"]["nodeName"] for p in pods}) == 4, "one GPU each")
        m.kubectl("delete", "trainjob", "pytorch-kai-job", "--wait=false")


def test_a_controller_that_is_off_has_no_pod():
    with Muster(flags=("--controllers=-trainjob",)) as m:
        wait_for(lambda: m.get("pod", "training-operator", ns="kubeflow"), "the other pods")
        check(m.get("pod", "kubeflow-trainer-controller-manager", ns="kubeflow-trainer-system") is None, "it is off")
        m.kubectl("apply", "-f", example("trainjob", "pytorch-simple.yaml"))
        wait_for(lambda: m.get("pod", "jobset-controller-manager", ns="kubeflow-trainer-system"), "the pods to be made")
        check(not (m.get("trainjob", "pytorch-simple") or {}).get("status"), "a controller that is off did something")


def test_a_pod_that_stands_for_a_controller_comes_back():
    with Muster() as m:
        before = wait_for(lambda: m.get("pod", "training-operator", ns="kubeflow"), "the pod")["metadata"]["uid"]
        m.kubectl("delete", "pod", "training-operator", "-n", "kubeflow", "--wait=false")
        wait_for(lambda: (m.get("pod", "training-operator", ns="kubeflow") or {"metadata": {"uid": before}})
                 ["metadata"]["uid"] != before, "it to come back")
