"""deploy/lab.sh: from the kubeconfig of a cluster to the first gang over two nodes."""

import os
import subprocess

from cluster import RBAC, ROOT, Cluster
from harness import BUILD, Skip, check, python_with, run, wait_for
from processes import ProcessCluster
from test_deploy import operator_of_the_deployment, said_by, take_every_right_away

SCRIPT = os.path.join(ROOT, "deploy", "lab.sh")
STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: lab, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
"""


def lab(m, *argv, ok=True, limit=240):
    env = dict(m.env, PATH=f"{BUILD}:{m.env['PATH']}")
    return run([SCRIPT, "--kubeconfig", m.kubeconfig, *argv], env=env, cwd=m.folder, limit=limit, ok=ok)


def forget(m, *people):
    m.kubectl("delete", "clusterrolebinding", *(f"muster-lab-{p}" for p in people), "--ignore-not-found", ok=False)
    m.kubectl("delete", "clusterrole", "muster-lab-edit", "muster-lab-everybody", "--ignore-not-found", ok=False)
    m.kubectl("delete", "namespace", *people, "--ignore-not-found", "--wait=false", ok=False)


def test_the_lab_script_installs_what_becomes_ready_and_may_be_repeated():
    plane = Cluster.plane
    with Cluster(nodes=2, gpus_per_node=4, operators=0) as m:
        done = lab(m, "--image", "registry.example.org/muster:9", "--users", "ann", ok=False)
        check(done.returncode == 1 and "no default StorageClass" in done.stderr, f"storage is asked for: {done.stderr}")
        done = lab(m, "--users", "ann", ok=False)
        check(done.returncode == 1 and "--image: name the operator's image" in done.stderr, f"so is the image: {done.stderr}")
        done = lab(m, "--image", "i", "--users", "Ann", ok=False)
        check(done.returncode == 1 and '"Ann" cannot be the name of a namespace' in done.stderr, done.stderr)
        m.apply(STORAGE)
        take_every_right_away(plane)
        try:
            for _ in range(2):
                done = lab(m, "--image", "registry.example.org/muster:9", "--users", "ann", "--plain", "--no-wait", "--no-gang")
                check("2 nodes, 8 GPUs; the pod of a whole node gets 4 GPUs" in done.stdout, done.stdout)
            deployed = m.get("deployment", "muster-operator", ns="muster-system")["spec"]["template"]["spec"]["containers"][0]
            check(deployed["image"] == "registry.example.org/muster:9" and
                  "--launcher-image=registry.example.org/muster:9" in deployed["args"], f"the image is the one named: {deployed}")
            queue = m.get("torchrunqueue", "default", ns="ann")["spec"]
            check(queue["nodeResources"]["gpus"] == 4 and queue["queue"]["resources"]["gpu"]["quota"] == 8, f"{queue}")
            check(queue["namespaces"] == ["ann"], f"her queue takes her work alone: {queue}")
            check(m.get("namespace", "ann", ns=None)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline",
                  "pods of people may not have the node")
            lab(m, "--no-install", "--users", "eve", "--no-gang", "--out", "others")
            queue = m.get("torchrunqueue", "default", ns="eve")["spec"]
            check(queue["queue"]["resources"]["gpu"]["quota"] == 4, f"who came earlier has a share too: {queue}")
            check(os.path.exists(os.path.join(m.folder, "others", "eve.kubeconfig")), "the folder is one of where it was started")
            with operator_of_the_deployment(plane) as operator:
                wait_for(lambda: said_by(operator) == "ok\n", "the operator that was installed", 60)
        finally:
            for file in ("webhooks.yaml", "deployment.yaml"):
                plane.kubectl("delete", "-f", os.path.join(ROOT, "deploy", file), "--ignore-not-found", "--wait=false", ok=False)
            plane.kubectl("apply", "-f", RBAC)
            forget(m, "ann", "eve")


def test_the_lab_script_runs_the_first_gang_over_two_nodes_as_a_person():
    if not python_with("torch"):
        raise Skip("no Python with torch")
    with ProcessCluster(nodes=2) as m:
        m.apply(STORAGE)
        try:
            done = lab(m, "--no-install", "--users", "cal,dan", ok=False)
            check(done.returncode == 0, f"{done.stdout}\n{done.stderr}")
            for rank in range(2):
                check(f"rank {rank} of 2" in done.stdout and "the sum of all ranks is 3" in done.stdout, done.stdout)
            check("the first gang ran on 2 nodes: node-0 node-1" in done.stdout, done.stdout)
            cal = os.path.join(m.folder, "lab-users", "cal.kubeconfig")
            check(os.stat(cal).st_mode & 0o777 == 0o600, "a token is for its person's eyes")

            def may(*words):
                return subprocess.run(["kubectl", "--kubeconfig", cal, "auth", "can-i", *words], text=True, env=m.env,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip() == "yes"
            check(may("create", "torchrunjobs.torchrun.ai") and may("get", "pods/log") and
                  may("list", "queues.scheduling.run.ai"), "she has what she needs")
            check(not may("update", "torchrunqueues.torchrun.ai") and not may("update", "queues.scheduling.run.ai") and
                  not may("update", "torchrunjobs.torchrun.ai", "--subresource", "status") and
                  not may("get", "torchrunjobs.torchrun.ai", "-n", "dan") and not may("get", "secrets", "-n", "dan"),
                  "and nothing of others")
        finally:
            m.kubectl("delete", "torchrunjobs", "--all", "-n", "cal", ok=False)
            forget(m, "cal", "dan")
