"""Nodes that jobs fail on, on a real API server: the operator taints them, has them tested, and believes the test."""

import json

from cluster import Cluster
from harness import check, wait_for
from processes import ProcessCluster

FLAGS = ["--node-health", "--launcher-image=muster:test"]
TAINT = "muster.dev/suspect"


def killed(name, node="hollow-0"):
    """A job whose only pod ends as if SIGSEGV had ended it."""
    return json.dumps({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {"backoffLimit": 0}, "pytorchReplicaSpecs": {"Master": {
            "replicas": 1, "restartPolicy": "OnFailure", "template": {
                "metadata": {"annotations": {"hollow.muster.dev/run-ms": "200", "hollow.muster.dev/exit-code": "139"}},
                "spec": {"schedulerName": "kai-scheduler", "nodeSelector": {"kubernetes.io/hostname": node}, "containers": [{
                    "name": "pytorch", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}}}})


def node(m, name="hollow-0"):
    return m.get("node", name)


def taint(m, name="hollow-0"):
    return next((t.get("value") for t in node(m, name)["spec"].get("taints", []) if t["key"] == TAINT), None)


def notes(m, name="hollow-0"):
    return node(m, name)["metadata"].get("annotations", {})


def blame(m, jobs=3):
    for i in range(jobs):
        m.apply(killed(f"j{i}"))
        wait_for(lambda: any(v.split(" ")[1:3] == ["Killed", f"default/j{i}:"] for k, v in notes(m).items()
                             if k.startswith("blame.muster.dev/")) or taint(m), f"job {i} to blame the node", 30)


def events(m, reason):
    return [e for e in m.get("events") if e["reason"] == reason]


def self_test(m):
    done = m.kubectl("get", "pod", "-n", "muster-system", "self-test-hollow-0", "-o", "json", ok=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def end_test(m, code, words):
    """As a kubelet would say it."""
    ended = {"exitCode": code, "message": words, "reason": "Completed" if code == 0 else "Error",
             "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z"}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [
        {"name": "self-test", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}]}
    m.kubectl("patch", "pod", "-n", "muster-system", "self-test-hollow-0", "--subresource=status", "--type=merge", "-p",
              json.dumps({"status": status}))


def test_three_jobs_that_fail_on_one_node_have_it_tested_by_a_pod_and_cleared():
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=FLAGS + ["--self-test-image=torch:test"]) as m:
        blame(m, 2)
        check(taint(m) is None, "two jobs are not enough")
        m.apply(killed("j2"))
        wait_for(lambda: taint(m) == "Blamed", "the taint", 30)
        check(taint(m, "hollow-1") is None, "the other node is well")
        told = wait_for(lambda: events(m, "NodeSuspect"), "the event")[0]["message"]
        check("default/j2 (Killed)" in told and "a self-test decides" in told, told)
        pod = wait_for(lambda: self_test(m), "the pod that tests it", 30)
        spec, test = pod["spec"], pod["spec"]["containers"][0]
        check(spec["nodeName"] == "hollow-0" and test["image"] == "torch:test", f"{spec}")
        check(test["resources"]["limits"] == {"nvidia.com/gpu": "8"}, f"all cards are free: {test['resources']}")
        check(spec["initContainers"][0]["image"] == "muster:test", "the program comes from our own image")
        check(not spec.get("automountServiceAccountToken", True), "it can ask the API server nothing")
        end_test(m, 0, "all is right")
        wait_for(lambda: taint(m) is None and TAINT not in notes(m), "the taint to go", 30)
        check(notes(m)["muster.dev/self-test"].startswith("passed ") and "all is right" in notes(m)["muster.dev/self-test"],
              f"{notes(m)}")
        check(not [k for k in notes(m) if k.startswith("blame.")], "what was said is forgotten")
        wait_for(lambda: not self_test(m) and events(m, "SelfTestPassed"), "the pod to go, and the event", 30)


def test_a_real_test_in_a_pod_clears_a_node():
    """Nodes whose pods are processes: what the pod runs is the test itself."""
    m = ProcessCluster(nodes=2, gpus_per_node=0)
    m.operator_flags += ["--node-health", "--self-test-image=x", "--self-test-command", "echo the fan is on"]
    with m:
        m.kubectl("taint", "node", "node-0", f"{TAINT}=asked:NoSchedule")
        tested = wait_for(lambda: notes(m, "node-0").get("muster.dev/self-test"), "the test", 60)
        check(tested.startswith("passed ") and "memory, products of matrices and sums are right" in tested, tested)
        wait_for(lambda: taint(m, "node-0") is None, "the taint to go", 30)


def test_a_node_whose_test_fails_is_kept_out():
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=FLAGS + ["--self-test-image=torch:test"]) as m:
        m.kubectl("taint", "node", "hollow-0", f"{TAINT}=asked:NoSchedule")  # anybody may ask for a test
        wait_for(lambda: self_test(m), "the pod that tests it", 30)
        end_test(m, 70, "GPU 3: memory did not keep what was written to it")
        wait_for(lambda: taint(m) == "SelfTestFailed", "the word of the taint", 30)
        check("GPU 3: memory did not keep" in notes(m)[TAINT] and "in muster-system" in notes(m)[TAINT], f"{notes(m)}")
        before = self_test(m)["metadata"]["uid"]
        m.kubectl("delete", "pod", "-n", "muster-system", "self-test-hollow-0", "--wait=false")
        wait_for(lambda: (self_test(m) or {"metadata": {"uid": before}})["metadata"]["uid"] != before, "another test", 30)
        end_test(m, 0, "all is right")
        wait_for(lambda: taint(m) is None, "the taint to go", 30)


def test_without_an_image_a_suspect_node_waits_for_somebody():
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=FLAGS) as m:
        blame(m)
        wait_for(lambda: taint(m) == "Blamed", "the taint", 30)
        told = wait_for(lambda: events(m, "NodeSuspect"), "the event")[0]["message"]
        check("there is no self-test without --self-test-image; take the taint" in told, told)
        check(not self_test(m), "there is no test")
        m.kubectl("taint", "node", "hollow-0", f"{TAINT}-")
        wait_for(lambda: TAINT not in notes(m), "what was said to be forgotten", 30)
        check(not [k for k in notes(m) if k.startswith("blame.")] and taint(m) is None, f"{notes(m)}")


def test_nobody_writes_on_nodes_unless_asked():
    with Cluster(nodes=2, gpus_per_node=8) as m:
        for i in range(3):
            m.apply(killed(f"j{i}"))

        def failed(job):
            return any(c["type"] == "Failed" and c["status"] == "True" for c in job.get("status", {}).get("conditions", []))
        wait_for(lambda: all(failed(j) for j in m.get("pytorchjobs")), "the jobs to fail", 30)
        check(taint(m) is None and not [k for k in notes(m) if "muster.dev" in k and "blame" in k], f"{notes(m)}")
