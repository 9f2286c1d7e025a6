"""The chart's NetworkPolicies, filled in as Helm would, are what an API server takes and name what is there."""

import os
import re

from harness import Muster, check, need_kubectl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(ROOT, "deploy/chart/muster/templates")


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


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
