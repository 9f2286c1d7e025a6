"""`muster operator --shadow` beside another scheduler: that of muster up. It has the rights of deploy/shadow.yaml, which only
read."""

import json
import os
import subprocess
import urllib.request

from harness import ROOT, Muster, binary, check, free_port, need_kubectl, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: i, command: [sleep, "3600"], resources: {limits: {nvidia.com/gpu: 1}}}]
"""


class Shadow:
    """`muster operator --shadow` with a token of the shipped account."""

    def __init__(self, m, *flags):
        with open(os.path.join(ROOT, "deploy", "shadow.yaml")) as f:
            rights = [d for d in f.read().split("\n---\n") if "kind: Deployment" not in d]
        m.apply("\n---\n".join(rights))
        token = m.kubectl("create", "token", "muster-shadow", "-n", "muster-shadow").stdout.strip()
        config = json.loads(m.kubectl("config", "view", "--raw", "--flatten", "-o", "json").stdout)
        config["users"] = [{"name": u["name"], "user": {"token": token}} for u in config["users"]]
        self.kubeconfig = os.path.join(m.folder, "shadow.kubeconfig")
        with open(self.kubeconfig, "w") as f:
            json.dump(config, f)
        self.port, self.debug_port = free_port(), free_port()
        self.log = os.path.join(m.folder, "shadow.log")
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                [binary("muster"), "operator", "--shadow", "--scheduler-name", "", "--kubeconfig", self.kubeconfig, "--listen",
                 f"127.0.0.1:{self.port}", "--debug-listen", f"127.0.0.1:{self.debug_port}", *flags], stdout=out, stderr=out)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()

    def fetch(self, path, port=None):
        with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def is_ready(self):
        try:
            return self.fetch("/readyz") == "ok\n"
        except OSError:
            return False

    def said(self):
        with open(self.log) as f:
            return f.read()

    def gang(self, pod):
        """What it has of the group of a pod."""
        gangs = json.loads(self.fetch("/shadow?output=json", self.debug_port))["gangs"]
        return next((g for g in gangs if g["name"].startswith(f"pg-{pod}-")), {})


def test_a_shadow_agrees_says_where_it_differs_and_writes_nothing():
    need_kubectl(24)  # create token
    with Muster(nodes=2, gpus_per_node=4) as m, Shadow(m, "--gpu-placement", "spread") as shadow:
        wait_for(lambda: "scheduler.synced" in shadow.said(), "the shadow to see the cluster")
        wait_for(shadow.is_ready, "it to say that it has all it watches")
        for pod in ("one", "two"):
            m.apply(POD.replace("NAME", pod))
            wait_for(lambda pod=pod: m.get("pod", pod)["status"].get("phase") == "Running", f"{pod} to run")
        wait_for(lambda: shadow.gang("one").get("verdict") in ("same", "elsewhere"), "the first to be compared")
        wait_for(lambda: shadow.gang("two").get("verdict") == "elsewhere", "the second, which it would put on the other node")
        nodes = [m.get("pod", pod)["spec"]["nodeName"] for pod in ("one", "two")]
        two = shadow.gang("two")
        check(nodes[0] == nodes[1] and two["theirs"]["nodes"] == {nodes[1]: 1}, f"theirs is where it is: {nodes} {two}")
        check(list(two["ours"]["nodes"]) != [nodes[1]], f"ours is the other node: {two}")
        check("shadow.differs verdict=elsewhere" in shadow.said(), f"the log has it: {shadow.said()}")
        text = shadow.fetch("/shadow", shadow.debug_port)
        check(": elsewhere\n  ours:   " in text and "  theirs: " + nodes[1] in text, f"and the page for people: {text}")
        metrics = shadow.fetch("/metrics")
        check('muster_shadow_compared_total{verdict="elsewhere"}' in metrics
              and "\nmuster_api_client_errors_total 0\n" in metrics,
              f"differences are counted, and nothing was tried that it may not do: {metrics}")
