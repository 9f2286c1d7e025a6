"""The chart with values that nobody tried first: what Helm makes of them (skipped where there is no Helm, which
tests/kubernetes/binaries.sh builds), and its NetworkPolicies, filled in as Helm would.
"""

import glob
import json
import os
import re
import shutil
import sys

from harness import Muster, binary, check, need_kubectl, run

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kubernetes"))
from controlplane import binaries  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(ROOT, "deploy/chart/muster/templates")


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def helm():
    os.environ.setdefault("MUSTER_KUBE_BUILD", "0")  # not built for this
    return shutil.which("helm") or os.path.join(binaries("helm"), "helm")


def render(*values, release="muster", namespace="muster-system", ok=True):
    sets = [part for value in values for part in ("--set", value)]
    done = run([helm(), "template", release, os.path.join(ROOT, "deploy/chart/muster"), "--namespace", namespace,
                "--kube-version", "1.33.0", *sets], ok=False)
    check(not ok or done.returncode == 0, f"{values}: {done.stderr[-500:]}")
    return done.stdout if ok else done


def documents(text, kind, name=None):
    """Those of a kind, as text."""
    return [d for d in re.split(r"^---\n", text, flags=re.MULTILINE) if re.search(rf"^kind: {kind}$", d, re.MULTILINE) and
            (not name or re.search(rf"^  name: {name}$", d, re.MULTILINE))]


def test_values_that_contradict_each_other_are_refused_by_name():
    off = "admission.enabled=false"
    for values, words in (
            (["global.leaderElection=false"], "global.leaderElection"),
            (["binder.runtimeClassName=nvidia"], "binder.runtimeClassName"),
            (["global.execNamespaces={a}"], "global.execNamespaces"), (["global.selfTestImage=i"], "global.selfTestImage"),
            (["global.gpuMemoryLimits=true"], "global.gpuMemoryLimits"), ([off, "global.gpuSharing=true"], "global.gpuSharing"),
            ([off, "admission.blockNvidiaVisibleDevices=true"], "admission.blockNvidiaVisibleDevices"),
            ([off, "admission.gpuPodRuntimeClassName=nvidia"], "admission.gpuPodRuntimeClassName"),
            ([off, "global.podLabelSelector.a=b"], "global.podLabelSelector"),
            ([off, "global.namespaceLabelSelector.a=b"], "global.namespaceLabelSelector"),
            (["global.nodeHealth=true", "operator.controllers={-nodehealth}"], "nodehealth"),
            (["global.provisioningClass=c", "operator.controllers={torchrunjob}"], "provisioning"),
            (["global.queueSecrets=true", "operator.controllers={-torchrunqueue}"], "torchrunqueue"),
            (["page.plain=true", "page.tlsSecret=t"], "page.plain"),
            (["page.proxy.clientSecretName=s"], "page.proxy.clientSecretName"),
            (["operator.controllers={-pytorchjobs}"], "operator.controllers.0"), (["global.tag=7"], "global.tag")):
        done = render(*values, ok=False)
        check(done.returncode != 0 and words in done.stderr, f"{values}: {done.stdout[:200]}{done.stderr[-300:]}")


def test_options_of_the_operator_that_nobody_would_heed_are_refused():
    for flags, needs in ((["--gpu-sharing", "--launcher-image=i"], "--webhook-listen"),
                         (["--block-nvidia-visible-devices"], "--webhook-listen"),
                         (["--gpu-pod-runtime-class=nvidia"], "--webhook-listen"),
                         (["--progress-url=https://a"], "--webhook-listen"),
                         (["--reservation-runtime-class=nvidia"], "--gpu-sharing"), (["--reservation-image=i"], "--gpu-sharing"),
                         (["--page-name=a"], "--page-listen"), (["--page-plain"], "--page-listen"),
                         (["--page-proxy-secret-file=a"], "--page-listen")):
        done = run([binary("muster"), "operator", "--kubeconfig", "/nowhere", *flags], ok=False)
        words = f"{flags[0].split('=')[0]}: needs {needs}"
        check(done.returncode == 1 and words in done.stderr, f"{flags}: {done.returncode} {done.stderr}")


def test_every_controller_with_a_role_may_be_named_in_the_values():
    schema = json.loads(read(ROOT, "deploy/chart/muster/values.schema.json"))
    pattern = schema["properties"]["operator"]["properties"]["controllers"]["items"]["pattern"]
    named = set(re.search(r"\(([a-z|]+)\)", pattern).group(1).split("|"))
    roles = {name for path in glob.glob(os.path.join(ROOT, "deploy/rbac/*.yaml"))
             for name in re.findall(r'muster.dev/controllers: "([a-z]+)"', read(path))}
    check(named == roles, f"operator.controllers: {named ^ roles}")


def test_one_replica_without_a_lease_is_gone_before_the_next():
    deployment = documents(render("global.leaderElection=false", "operator.replicaCount=1"), "Deployment")[0]
    check("type: Recreate" in deployment and "rollingUpdate" not in deployment, deployment)
    check("--leader-elect=false" in deployment, deployment)
    check("rollingUpdate" in documents(render(), "Deployment")[0], "with a lease two may be there")


def test_another_namespace_and_another_name_of_the_release_reach_everything():
    every = ["global.gpuSharing=true", "global.gpuMemoryLimits=true", "global.gpuSuspend=true", "global.mpi=true",
             "global.nodeHealth=true", "global.selfTestImage=i", "global.queueSecrets=true", "global.provisioningClass=c",
             "page.enabled=true", "page.tlsSecret=t", "page.proxy.secretName=s", "networkPolicy.enabled=true",
             "serviceMonitor.enabled=true", "alerts.enabled=true", "dashboard.enabled=true"]
    text = render(*every, release="training", namespace="ml-platform")
    check("muster-system" not in text, [line for line in text.splitlines() if "muster-system" in line])
    check("{{" not in re.sub(r"(?s)kind: (ConfigMap|PrometheusRule).*?(?=\n---|\Z)", "", text), "nothing is left to fill in")
    for service in re.findall(r"service: \{namespace: ([a-z-]+), name: ([a-z-]+)", text):
        check(service[0] == "ml-platform" and documents(text, "Service", service[1]),
              f"webhooks ask a Service that is there: {service}")


def test_a_private_registry_is_for_whoever_runs_the_operators_image():
    text = render("global.registry=registry.example.com/team/", "global.imagePullSecrets[0].name=mine", "global.gpuSharing=true")
    images = set(re.findall(r"(?:image: |--launcher-image=)(\S+)", documents(text, "Deployment")[0]))
    check(len(images) == 1 and images.pop().startswith("registry.example.com/team/muster:"), "a slash at the end is one slash")
    accounts = documents(text, "ServiceAccount")
    check(len(accounts) == 2 and all('imagePullSecrets: [{"name":"mine"}]' in a for a in accounts),
          f"pods that hold shared GPUs run this image too: {accounts}")


def rendered():
    text = read(TEMPLATES, "networkpolicy.yaml")
    text = re.sub(r"^ *\{\{- (if|range|end).*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{\{- include .*\}\}", " {app.kubernetes.io/name: muster}", text)
    text = re.sub(r"\{\{- toYaml .*\}\}", " {}", text)
    text = text.replace("{{ .Release.Namespace }}", "default").replace("{{ . }}", "default")
    check("{{" not in text, f"a template that this test does not know:\n{text}")
    return text


def test_network_policies_of_the_chart_are_valid_and_name_what_is_there():
    need_kubectl(25)
    with Muster() as m:
        said = m.kubectl("create", "--validate=strict", "-f", "-", input=rendered()).stdout
        check(said.count("created") == 2, f"two policies: {said}")
        policies = {p["metadata"]["name"]: p["spec"] for p in m.get("networkpolicies")}
        ports = {port["port"] for rule in policies["muster-operator"]["ingress"] for port in rule["ports"]}
        served = {int(n) for n in re.findall(r"containerPort: (\d+)", read(TEMPLATES, "deployment.yaml"))}
        check(ports == served, f"the operator serves {served}, its policy names {ports}")
        label = policies["muster-rendezvous"]["podSelector"]["matchLabels"]
        job = read(ROOT, "src/control/job/job.h")
        check(list(label.values()) == ["sync"] and all(f'"{key}"' in job for key in label),
              f"sync pods have other labels: {label}")
        check(policies["muster-rendezvous"]["ingress"] == [{"from": [{"podSelector": {}}]}], "pods of the namespace, no others")
