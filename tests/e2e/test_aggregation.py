"""Other API servers behind the embedded one: an APIService leads requests of its group to a Service."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from harness import Muster, check, free_port, wait_for
from pods import apply
from test_rights import Client, binding, role, rule
from test_webhooks import certificate

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP = "tests.example.com"
FISHES = f"/apis/{GROUP}/v1/namespaces/default/fishes"
SERVICE = f"v1.{GROUP}"
ADDRESS = "127.64.0.9"  # as a pod of the machine would have one: to its own loopback no slice leads


def account(m, name):
    """A kubeconfig of an account that may do what every extension server is given, and no more."""
    m.kubectl("create", "serviceaccount", name)
    m.kubectl("create", "clusterrolebinding", name, "--clusterrole=system:auth-delegator", f"--serviceaccount=default:{name}")
    m.kubectl("create", "rolebinding", name, "-n", "kube-system", "--role=extension-apiserver-authentication-reader",
              f"--serviceaccount=default:{name}")
    token = m.kubectl("create", "token", name).stdout.strip()
    with open(m.kubeconfig) as file:
        authority = file.read().split("certificate-authority-data: ")[1].split()[0]
    path = os.path.join(m.folder, name + ".kubeconfig")
    with open(path, "w") as file:
        file.write(f"server: https://{m.listen}\ncertificate-authority-data: {authority}\ntoken: {token}\n")
    return path


@contextlib.contextmanager
def extension(m, port, folder):
    """The other API server, as a process of this machine that a Service without a selector leads to."""
    server = subprocess.Popen([sys.executable, f"{HERE}/extension_server.py", ADDRESS, str(port), f"{folder}/cert",
                               f"{folder}/key", f"{m.folder}/fish.kubeconfig"], stdout=subprocess.PIPE, text=True)
    try:
        check(server.stdout.readline() == "ready\n", "it listens")
        yield server
    finally:
        server.kill()
        server.wait()


def service(port):
    """A Service whose address somebody wrote as an EndpointSlice."""
    return ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fish"}, "spec": {"ports": [{"port": 443}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
             "metadata": {"name": "fish", "labels": {"kubernetes.io/service-name": "fish"}},
             "endpoints": [{"addresses": [ADDRESS]}], "ports": [{"name": "", "port": port}]})


def api_service(**spec):
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": SERVICE},
            "spec": dict({"group": GROUP, "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10,
                          "service": {"namespace": "default", "name": "fish"}}, **spec)}


def available(m):
    for condition in (m.get("apiservice", SERVICE, ns=None).get("status") or {}).get("conditions", []):
        if condition["type"] == "Available":
            return condition
    return {}


def wait_reason(m, reason, words=""):
    wait_for(lambda: available(m).get("reason") == reason and words in available(m)["message"],
             f"{reason} {words}: {available(m)}")
    check(available(m)["status"] == ("True" if reason in ("Passed", "Local") else "False"), f"{available(m)}")


def fish(name):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Fish", "metadata": {"name": name}}


def test_another_api_server_answers_for_its_group():
    folder, other = tempfile.mkdtemp(), tempfile.mkdtemp()
    ca, wrong = certificate(folder, "DNS:fish.default.svc"), certificate(other, "DNS:fish.default.svc")
    port = free_port()
    try:
        with Muster() as m:
            account(m, "fish")
            owner = Client(m)
            apply(m, api_service(caBundle=ca))
            wait_reason(m, "ServiceNotFound", 'service/fish in "default" is not present')
            listed = m.kubectl("get", "apiservice", SERVICE, "--no-headers").stdout
            check("default/fish   False (ServiceNotFound)" in listed, listed)
            code, text = owner.ask("GET", FISHES)
            check((code, text) == (503, "service unavailable\n"), f"{code} {text}")
            apply(m, service(port)[0])
            wait_reason(m, "MissingEndpoints", 'endpoints for service/fish in "default" have no addresses')
            apply(m, service(port)[1])
            wait_reason(m, "FailedDiscoveryCheck", f"https://{ADDRESS}:{port}/apis/{GROUP}/v1")
            with extension(m, port, folder):
                wait_reason(m, "Passed", "all checks passed")
                speak(m, owner)
                discover(m, owner)
                rights(m, owner)
                watch(m)
                trust(m, owner, ca, wrong)
            wait_for(lambda: owner.ask("GET", FISHES)[0] == 503, "nobody is there any more")
            wait_reason(m, "FailedDiscoveryCheck")
            failed = m.kubectl("get", "--raw", FISHES, ok=False)
            check("the server is currently unable to handle the request" in failed.stderr, failed.stderr)
            m.kubectl("delete", "apiservice", SERVICE)
            owner.says(404, "GET", FISHES)
            check(GROUP not in json.dumps(owner.says(200, "GET", "/apis")), "its group is gone")
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(other)


def test_what_this_server_serves_has_an_apiservice_while_it_does():
    def local(name):
        found = m.get("apiservice", name, ns=None, ok=False)
        return found and [c["reason"] for c in (found.get("status") or {}).get("conditions", [])] == ["Local"]
    names = {"plural": "nets", "kind": "Net"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    with Muster() as m:
        apply(m, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                  "metadata": {"name": "nets.sea.example.com"},
                  "spec": {"group": "sea.example.com", "scope": "Namespaced", "names": names, "versions": [version]}})
        wait_for(lambda: local("v1.sea.example.com"), "the definition's version")
        uid = m.get("apiservice", "v1.apps", ns=None)["metadata"]["uid"]
        m.kubectl("delete", "apiservice", "v1.apps")
        wait_for(lambda: local("v1.apps") and m.get("apiservice", "v1.apps", ns=None)["metadata"]["uid"] != uid,
                 "what is built in comes back")
        m.kubectl("delete", "crd", "nets.sea.example.com")
        wait_for(lambda: not m.get("apiservice", "v1.sea.example.com", ns=None, ok=False), "it goes with the definition")
        check("False" not in m.kubectl("get", "apiservices").stdout, "all of them are available")


def speak(m, owner):
    """The usual verbs of kubectl, and who is told to have asked."""
    m.kubectl("create", "-f", "-", input=json.dumps(fish("carp")))
    check(m.kubectl("get", "fi", "-o", "name").stdout == f"fish.{GROUP}/carp\n", "kubectl gets it by its short name")
    one = json.loads(m.kubectl("get", "fish", "carp", "-o", "json").stdout)
    check(one["metadata"]["annotations"]["asked"] == "muster:owner", f"{one}")
    gone = m.kubectl("get", "fish", "cod", ok=False)
    check(f'fishes.{GROUP} "cod" not found' in gone.stderr, gone.stderr)
    # Nobody says himself who he is; other headers pass.
    liar = owner.says(200, "GET", FISHES + "/carp", **{"X-Remote-User": "eve", "X-Remote-Group": "system:eve", "X-Own": "7"})
    told = liar["metadata"]["annotations"]
    check(told["asked"] == "muster:owner" and "eve" not in told["groups"] and told["own"] == "7", f"{told}")
    as_ann = owner.ask("GET", FISHES + "/carp", **{"Impersonate-User": "ann"})
    check(as_ann[0] == 403 and 'User "ann" cannot get resource "fishes"' in as_ann[1]["message"], f"{as_ann}")


def discover(m, owner):
    names = m.kubectl("api-resources", "--api-group=" + GROUP, "--no-headers").stdout.split()
    check(names == ["fishes", "fi", GROUP + "/v1", "true", "Fish"], f"{names}")
    groups = {group["name"]: group for group in owner.says(200, "GET", "/apis")["groups"]}
    check(groups[GROUP]["preferredVersion"]["version"] == "v1", f"{groups[GROUP]}")
    check(owner.says(200, "GET", "/apis/" + GROUP)["versions"][0]["groupVersion"] == GROUP + "/v1", "of the group alone")
    check(len(owner.says(200, "GET", f"/apis/{GROUP}/v1")["resources"]) == 2, "its own list")
    asked = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    items = {item["metadata"].get("name"): item for item in owner.says(200, "GET", "/apis", **asked)["items"]}
    version = items[GROUP]["versions"][0]
    check(version["freshness"] == "Current" and version["resources"][0]["subresources"][0]["subresource"] == "status",
          f"{version}")
    told = m.kubectl("explain", "fish").stdout
    check("What swims." in told and "How many it has." in told, told)
    # What this server serves itself has an APIService as well, and stays its own.
    local = m.get("apiservice", "v1.apps", ns=None)
    check(local["status"]["conditions"][0]["reason"] == "Local", f"{local}")
    check(m.get("apiservice", "v1.", ns=None) and m.get("apiservice", "v1alpha1.torchrun.ai", ns=None), "all of them")
    claimed = m.kubectl("patch", "apiservice", "v1.apps", "--type=merge", ok=False, input=None, *[
        "-p", json.dumps({"spec": {"service": {"namespace": "default", "name": "fish"}}})])
    check("this server serves the group version itself" in claimed.stderr, claimed.stderr)


def rights(m, owner):
    """This server asks whether he may before the other one does; both are asked."""
    m.kubectl("create", "serviceaccount", "reader")
    reader = Client(m, m.kubectl("create", "token", "reader").stdout.strip())
    denied = reader.says(403, "GET", FISHES)
    check('cannot list resource "fishes" in API group "tests.example.com"' in denied["message"], f"{denied}")
    reader.says(403, "GET", f"/apis/{GROUP}/v1/namespaces/default/fishes/carp/a/b/c")
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
    owner.says(201, "POST", roles + "roles", role("reader", rule("get,list", "fishes", GROUP)))
    owner.says(201, "POST", roles + "rolebindings", binding("reader", "reader"))
    told = reader.says(200, "GET", FISHES + "/carp")["metadata"]["annotations"]
    check(told["asked"] == "system:serviceaccount:default:reader" and "system:serviceaccounts:default" in told["groups"],
          f"{told}")
    reader.says(403, "DELETE", FISHES + "/carp")
    reader.says(200, "GET", f"/apis/{GROUP}/v1")  # what there is, everybody may ask


def watch(m):
    watcher = subprocess.Popen(["kubectl", "--kubeconfig", m.kubeconfig, "get", "fishes", "--watch-only", "-o", "name"],
                               stdout=subprocess.PIPE, text=True)
    try:
        check(watcher.stdout.readline() == f"fish.{GROUP}/carp\n", "what was there")
        m.kubectl("create", "--validate=false", "-f", "-", input=json.dumps(fish("pike")))
        check(watcher.stdout.readline() == f"fish.{GROUP}/pike\n", "what comes")
    finally:
        watcher.kill()
        watcher.wait()


def trust(m, owner, ca, wrong):
    """Whoever else answers at its address is not believed."""
    apply(m, api_service(caBundle=wrong))
    wait_reason(m, "FailedDiscoveryCheck", "TLS: The certificate is NOT trusted")
    check(owner.ask("GET", FISHES)[0] == 503, "it is not asked")
    stale = owner.says(200, "GET", "/apis", Accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    check([item["versions"][0]["freshness"] for item in stale["items"] if item["metadata"].get("name") == GROUP] == ["Stale"],
          "discovery says so")
    changed = api_service(insecureSkipTLSVerify=True)
    changed["spec"]["caBundle"] = None
    m.kubectl("patch", "apiservice", SERVICE, "--type=merge", "-p", json.dumps({"spec": changed["spec"]}))
    wait_reason(m, "Passed")
    owner.says(200, "GET", FISHES)
    m.kubectl("patch", "apiservice", SERVICE, "--type=merge", "-p",
              json.dumps({"spec": {"insecureSkipTLSVerify": None, "caBundle": ca}}))
    wait_reason(m, "Passed")
