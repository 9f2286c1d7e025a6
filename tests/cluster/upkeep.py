"""What the administrator does: install, upgrade, renew certificates, remove."""

import os
import re
import shlex
import time

from harness import check, wait_for
from lab import CHART, ROOT, SYSTEM

WRONG = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: wrong}
spec: {parentQueue: wrong, resources: {}}
"""
# Of the whole cluster; what is in a namespace goes with it.
LEFT = ("priorityclasses,clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,"
        "crds,namespaces,apiservices")
LIFETIME = "90s"  # of the webhooks' certificate: it is replaced after one minute


def install(lab):
    """By the chart as it is, with the image as `make image` and `ctr images import` leave it: no registry was told."""
    began = time.monotonic()
    lab.helm("install", "muster", CHART, "--create-namespace", "--set", "global.gpuSharing=true")
    # Helm is content with one of them, as an upgrade is (maxUnavailable).
    replicas = wait_for(lambda: len(lab.operators()) == 2 and lab.operators(), "both replicas to be ready", 60)
    check(not any(lab.restarts().values()), f"none was restarted: {lab.restarts()}")
    check(len({p["spec"]["nodeName"] for p in replicas}) == 2, "they are on different nodes")
    lab.say(f"two replicas on two nodes after {time.monotonic() - began:.0f} s")
    lab.refused(WRONG, "its own parent")


def commands_of_page(page, *words):
    """The lines of a page that call kubectl with one of these words, as arguments."""
    with open(os.path.join(ROOT, page)) as f:
        lines = [shlex.split(line.split("#")[0])[1:] for line in f if line.startswith("kubectl delete")]
    return [[os.path.join(ROOT, part) if part.startswith("deploy/") else part for part in line] for line in lines
            if any(word in " ".join(line) for word in words)]


def secret(lab):
    return lab.get("secret", "muster-webhook", "-n", SYSTEM)["data"]["tls.crt"]


def upgrade(lab):
    before, old = lab.long_pods(), {p["metadata"]["name"] for p in lab.operators()}
    lab.helm("upgrade", "muster", CHART, "--reuse-values", "--set",
             f"operator.logLevel=debug,admission.certificateLifetime={LIFETIME}")
    wait_for(lambda: not {p["metadata"]["name"] for p in lab.pods("-n", SYSTEM)} & old, "the old replicas to be gone", 90)
    lab.wait_until_led()
    check(lab.long_pods() == before, f"the running gang has the same pods and containers: {before}, {lab.long_pods()}")
    lab.say("a new replica leads, the running gang has its pods")


def certificates(lab):
    """The webhooks' own, which the operator makes and replaces, and the API server's, which somebody else does."""
    first = secret(lab)
    lab.kubectl("delete", "secret", "muster-webhook", "-n", SYSTEM)  # with it its authority: that one was for 90 days
    second = wait_for(lambda: secret(lab) != first and secret(lab), "the operator to make another certificate", 120)
    lab.refused(WRONG, "its own parent")
    wait_for(lambda: secret(lab) != second, "the operator to replace its certificate", 240)
    lab.refused(WRONG, "its own parent")
    restarts, old = lab.restarts(), lab.certificate_of_server()
    lab.plane.sign_server()
    wait_for(lambda: lab.certificate_of_server() != old, "the API server to have its new certificate", 180)
    lab.binds("after-renewal")
    check(lab.restarts() == restarts, f"no replica restarted: {restarts}, {lab.restarts()}")
    lab.say("the webhooks answer with a new certificate, pods are bound through a new one of the API server")


def uninstall(lab):
    before = lab.long_pods()
    lab.helm("uninstall", "muster")
    wait_for(lambda: not lab.pods("-n", SYSTEM), "the operator to be gone", 90)
    check(lab.long_pods() == before, "what runs goes on")
    check("torchrunjobs" in lab.kubectl("get", "crd", "-o", "name").stdout, "kinds stay")
    for commands in commands_of_page("docs/uninstall.md", "lease", "priorityclass", "crds", "namespace"):
        lab.kubectl(*commands, limit=200)
    left = [o for o in lab.kubectl("get", LEFT, "-o", "name").stdout.split()
            if re.search("muster|torchrun|run.ai|kubeflow|priorityclass", o) and "/system-" not in o]
    check(not left, f"nothing is left behind: {left}")
    lab.say("what ran went on; then, by the page, nothing was left")
