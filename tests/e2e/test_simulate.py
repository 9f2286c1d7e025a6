"""muster simulate --live: what would happen to a cluster that runs, and nothing does."""

import json

from harness import Muster, binary, check, run, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: i, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 2}}}]
"""


def test_what_would_happen_without_a_node_with_a_quota_and_with_a_pod_more():
    with Muster(nodes=2, gpus_per_node=2) as m:
        def simulate(*args, **more):
            return run([binary("muster"), "simulate", "--live", *args], env=m.env, **more)

        m.apply(POD.replace("NAME", "first"))
        wait_for(lambda: any(p["status"].get("phase") == "Running" for p in m.get("pods")), "the pod to run")
        node = m.get("pods")[0]["spec"]["nodeName"]

        check("first" not in simulate().stdout, "what stays is not listed")
        told = {p["name"]: p for p in json.loads(simulate("--drain", node, "-o", "json").stdout)["pods"]}
        check(told["first"]["state"] == "Running" and told["first"]["node"] != node, told)
        told = simulate("--drain", node, "-f", "-", input=POD.replace("NAME", "second")).stdout
        check("Queued" in told and "Running" in told, told)
        told = simulate("--quota", "default-queue=1").stdout
        check("first" not in told, told)

        check(m.get("pods")[0]["spec"]["nodeName"] == node and len(m.get("pods")) == 1, "nothing happened")
        wrong = simulate("--drain", "nowhere", ok=False)
        check(wrong.returncode == 1 and 'no node "nowhere"' in wrong.stderr, wrong.stderr)
        wrong = simulate("--quota", "default-queue=many", ok=False)
        check(wrong.returncode == 1 and "number of GPUs" in wrong.stderr, wrong.stderr)
