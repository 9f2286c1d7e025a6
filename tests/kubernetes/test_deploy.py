"""What is shipped to be applied can be applied, by kubectl and by helm."""

import os
import subprocess

from cluster import ROOT, Cluster
from controlplane import binaries
from harness import check, run

CHART = os.path.join(ROOT, "deploy", "chart", "muster")


def applied(plane, text):
    """Accepted by the server, with unknown fields refused."""
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)


def test_the_plain_manifests_are_accepted():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "rbac", "role.yaml"))
    plane.kubectl("create", "namespace", "kai-resource-reservation", ok=False)
    for file in ("deployment.yaml", "webhooks.yaml", "rbac/webhook.yaml", "rbac/sharing.yaml"):
        with open(os.path.join(ROOT, "deploy", file)) as f:
            applied(plane, f.read())


def render(*flags):
    helm = os.path.join(binaries("helm"), "helm")
    return run([helm, "template", "muster", CHART, "--namespace", "muster-system", "--kube-version", "1.33.0", *flags],
               ok=False)


def test_the_chart_renders_to_what_the_server_accepts():
    plane = Cluster.plane
    done = render("--set", "standInLabels.control-plane=kubeflow-training-operator", "--set", "operator.replicaCount=1",
                  "--set", "global.imagePullSecrets[0].name=s", "--set", "global.nodeSelector.a=b")
    check(done.returncode == 0, done.stderr)
    plane.kubectl("create", "namespace", "muster-system", ok=False)
    applied(plane, done.stdout)
    check("kubeflow-training-operator" in done.stdout, "stand-in labels are there")


def test_helm_installs_and_removes_it():
    plane = Cluster.plane
    helm = os.path.join(binaries("helm"), "helm")
    env = dict(os.environ, KUBECONFIG=plane.kubeconfig, HOME=plane.folder)
    plane.kubectl("delete", "-f", os.path.join(ROOT, "deploy", "rbac", "role.yaml"), "--ignore-not-found", limit=120)
    run([helm, "install", "muster", CHART, "--namespace", "muster-helm", "--create-namespace"], env=env)
    try:
        check("muster-operator" in plane.kubectl("get", "deployments", "-n", "muster-helm", "-o", "name").stdout,
              "the deployment is there")
    finally:
        run([helm, "uninstall", "muster", "--namespace", "muster-helm"], env=env)


def test_sharing_and_webhooks_are_rendered_where_they_are_wanted():
    plane = Cluster.plane
    done = render("--set", "global.gpuSharing=true")
    check(done.returncode == 0, done.stderr)
    for words in ("--gpu-sharing=true", "--webhook-listen", "name: muster-sharing", "matchConditions", "kind: Namespace"):
        check(words in done.stdout, f"{words} is there")
    for namespace in ("muster-system", "kai-resource-reservation"):
        plane.kubectl("create", "namespace", namespace, ok=False)
    applied(plane, done.stdout)
    off = render("--set", "admission.enabled=false").stdout
    check("WebhookConfiguration" not in off and "--webhook-listen" not in off, "webhooks can be left out")
    done = render("--set", "admission.enabled=false", "--set", "global.gpuSharing=true")
    check(done.returncode != 0 and "admission.enabled" in done.stderr, done.stderr[-500:])
    check("--gpu-memory-limits" not in render("--set", "global.gpuSharing=true").stdout, "shares are no limits unless asked")
    done = render("--set", "global.gpuSharing=true", "--set", "global.gpuMemoryLimits=true")
    check("--gpu-memory-limits" in done.stdout, done.stderr[-500:])
    done = render("--set", "global.gpuMemoryLimits=true")
    check(done.returncode != 0 and "global.gpuSharing" in done.stderr, done.stderr[-500:])
    old = render("--kube-version", "1.26.0").stdout
    check("matchConditions:" not in old and "failurePolicy: Fail" not in old, "an old server waits for nobody")


def test_dashboard_and_alerts_name_only_metrics_that_exist():
    import json
    import re
    with Cluster(nodes=1, gpus_per_node=8) as m:
        told = set(re.findall(r"^# TYPE (\S+)", m.leader().fetch("/metrics"), re.M))
    folder = os.path.join(ROOT, "deploy", "monitoring")
    for file in os.listdir(folder):
        with open(os.path.join(folder, file)) as f:
            text = f.read()
        if file.endswith(".json"):
            text = " ".join(t["expr"] for p in json.loads(text)["panels"] for t in p["targets"])
        else:
            text = " ".join(re.findall(r"expr: (.*)", text))
        named = {re.sub("_bucket$", "", name) for name in re.findall(r"\b(?:muster|kai)_[a-z_0-9]+", text)}
        check(named and named <= told, f"{file} names what /metrics does not tell: {named - told}")
