"""Admission webhooks of a configuration are asked by the embedded server."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

from harness import Muster, check, free_port, wait_for
from pods import apply, container, pod, wait_ready

HERE = os.path.dirname(os.path.abspath(__file__))


def certificate(folder, *names):
    """A self-signed certificate and its key, as files."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=webhook", "-keyout", f"{folder}/key", "-out", f"{folder}/cert",
                    "-addext", "subjectAltName=" + ",".join(names)], check=True, capture_output=True)
    with open(f"{folder}/cert", "rb") as file:
        return base64.b64encode(file.read()).decode()


def configuration(kind, name, ca, where, **more):
    rules = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "webhooks": [dict({"name": f"{name}.example.com", "rules": rules, "sideEffects": "None",
                               "admissionReviewVersions": ["v1"], "timeoutSeconds": 10,
                               "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                               "clientConfig": dict({"caBundle": ca}, **where)}, **more)]}


def test_webhooks_are_asked_before_a_write():
    folder = tempfile.mkdtemp()
    ca = certificate(folder, "IP:127.0.0.1", "DNS:hook.default.svc")
    port, other = free_port(), free_port()
    server = subprocess.Popen([sys.executable, f"{HERE}/webhook_server.py", "127.0.0.1", str(port), f"{folder}/cert",
                               f"{folder}/key"], stdout=subprocess.PIPE, text=True)
    try:
        check(server.stdout.readline() == "ready\n", "the webhook listens")
        with Muster() as m:
            url = {"url": f"https://127.0.0.1:{port}/mutate"}
            apply(m, configuration("MutatingWebhookConfiguration", "label", ca, url))
            apply(m, configuration("ValidatingWebhookConfiguration", "deny", ca,
                                  {"url": f"https://127.0.0.1:{port}/deny"},
                                  matchConditions=[{"name": "n", "expression": "request.name != 'free'"}]))
            m.kubectl("create", "configmap", "a", "--from-literal=x=y")
            check(m.get("configmap", "a")["metadata"]["labels"] == {"seen": "yes"}, "the mutating one was asked")
            bad = m.kubectl("label", "configmap", "a", "bad=1", ok=False)
            check(bad.returncode != 0 and 'admission webhook "deny.example.com" denied the request: it is bad'
                  in bad.stderr and "think again" in bad.stderr, f"{bad}")
            check("bad" not in m.get("configmap", "a")["metadata"]["labels"], "nothing was written")
            m.kubectl("create", "configmap", "free", "--from-literal=x=y")
            m.kubectl("label", "configmap", "free", "bad=1")
            check(m.get("configmap", "kube-root-ca.crt", ns="kube-system"), "other namespaces are not asked about")
            # A pod of the embedded server answers at the name of its Service.
            apply(m, pod("hook", container(f"exec {sys.executable} {HERE}/webhook_server.py 0.0.0.0 {other} "
                                           f"{folder}/cert {folder}/key",
                                           readinessProbe={"tcpSocket": {"port": other}, "periodSeconds": 1}),
                         labels={"app": "hook"}, terminationGracePeriodSeconds=0),
                  {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
                   "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": other}]}})
            wait_ready(m, "hook")
            # Who enters a pod is asked about as well.
            enter = [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]}]
            apply(m, configuration("ValidatingWebhookConfiguration", "enter", ca, {"url": f"https://127.0.0.1:{port}/deny"},
                                  rules=enter))
            check(m.kubectl("exec", "hook", "--", "echo", "good").stdout == "good\n", "it may be entered")
            bad = m.kubectl("exec", "hook", "--", "echo", "bad", ok=False)
            check(bad.returncode != 0 and bad.stdout == "" and "it is bad" in bad.stderr, f"{bad}")
            m.kubectl("delete", "validatingwebhookconfiguration", "enter")
            apply(m, configuration("ValidatingWebhookConfiguration", "deny", ca,
                                  {"service": {"namespace": "default", "name": "hook", "path": "/deny"}}))
            wait_for(lambda: "it is bad" in m.kubectl("label", "configmap", "a", "bad=1", ok=False).stderr,
                     "the service's pod refuses")
            # One that is dead is named; Ignore passes it by.
            m.kubectl("delete", "mutatingwebhookconfiguration", "label")
            dead = {"url": f"https://127.0.0.1:{free_port()}/"}
            apply(m, configuration("ValidatingWebhookConfiguration", "deny", ca, dead))
            failed = m.kubectl("create", "configmap", "b", ok=False)
            check('failed calling webhook "deny.example.com"' in failed.stderr, failed.stderr)
            apply(m, configuration("ValidatingWebhookConfiguration", "deny", ca, dead, failurePolicy="Ignore"))
            m.kubectl("create", "configmap", "b")
            m.kubectl("delete", "configmap", "--all")
            wrong = m.kubectl("create", "-f", "-", ok=False, input=json.dumps(
                configuration("ValidatingWebhookConfiguration", "w", ca, {"url": "http://a/"}, sideEffects="Some")))
            check("'https' is the only allowed URL scheme" in wrong.stderr and "sideEffects" in wrong.stderr,
                  wrong.stderr)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def endpoints(where, **more):
    """A CRD whose versions a webhook converts."""
    def version(name, storage, *fields):
        texts = {field: {"type": "string"} for field in fields}
        return {"name": name, "served": True, "storage": storage, "selectableFields": [{"jsonPath": f".spec.{fields[0]}"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": texts}}}}}
    storage = more.get("storage", "v1")
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sites.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "sites", "kind": "Site"},
                     "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": where,
                                                                       "conversionReviewVersions": ["v1"]}},
                     "versions": [version("v1", storage == "v1", "hostPort"),
                                  version("v2", storage == "v2", "host", "port")]}}


def site(version, name, **spec):
    return {"apiVersion": f"example.com/{version}", "kind": "Site", "metadata": {"name": name}, "spec": spec}


def test_versions_of_a_crd_are_converted_by_its_webhook():
    folder = tempfile.mkdtemp()
    ca = certificate(folder, "IP:127.0.0.1")
    port = free_port()
    server = subprocess.Popen([sys.executable, f"{HERE}/webhook_server.py", "127.0.0.1", str(port), f"{folder}/cert",
                               f"{folder}/key"], stdout=subprocess.PIPE, text=True)
    try:
        check(server.stdout.readline() == "ready\n", "the webhook listens")
        where = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": ca}
        with Muster() as m:
            apply(m, endpoints(where))
            apply(m, site("v1", "a", hostPort="one:80"))
            # Read, written, patched and selected in a version that is not stored.
            seen = m.get("sites.v2.example.com", "a")
            check(seen["apiVersion"] == "example.com/v2" and seen["spec"] == {"host": "one", "port": "80"}, f"{seen}")
            check(seen["metadata"]["generation"] == 1, "the rest of the metadata is as it was")
            apply(m, site("v2", "b", host="two", port="81"))
            check(m.get("sites.v1.example.com", "b")["spec"] == {"hostPort": "two:81"}, "it was stored as v1")
            m.kubectl("patch", "sites.v2.example.com", "a", "--type=merge", "-p", '{"spec":{"port":"82"}}')
            m.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(site("v2", "b", port="83")))
            check(m.get("sites.v1.example.com", "a")["spec"] == {"hostPort": "one:82"}, "the patch was of v2")
            names = m.kubectl("get", "sites.v2.example.com", "--field-selector", "spec.host=two", "-o", "name").stdout
            check(names == "site.example.com/b\n", names)
            # What is stored moves on; what was there before is found in both.
            apply(m, endpoints(where, storage="v2"))
            apply(m, site("v2", "c", host="three", port="84"))
            for version, spec in (("v1", {"hostPort": "three:84"}), ("v2", {"host": "three", "port": "84"})):
                items = m.get(f"sites.{version}.example.com")
                check([item["metadata"]["name"] for item in items] == ["a", "b", "c"] and items[2]["spec"] == spec
                      and all(item["apiVersion"] == f"example.com/{version}" for item in items), f"{items}")
            # A webhook that is gone is named, and keeps nothing from being deleted.
            server.kill()
            server.wait()
            failed = m.kubectl("get", "sites.v1.example.com", "c", ok=False)
            check("conversion webhook for example.com/v1, Kind=Site failed: Post" in failed.stderr, failed.stderr)
            m.kubectl("delete", "sites.v1.example.com", "c")
            wrong = m.kubectl("apply", "-f", "-", ok=False, input=json.dumps(endpoints({"url": "http://a/"})))
            check("'https' is the only allowed URL scheme" in wrong.stderr, wrong.stderr)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)
