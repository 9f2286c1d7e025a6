"""kopf: an operator of a custom resource: it makes a child, reports in the status, and its finalizer is honoured."""

import asyncio
import threading
import time

import kopf
import kubernetes

GROUP, VERSION, PLURAL, NS = "strangers.example", "v1", "crates", "kopf"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": PLURAL, "singular": "crate", "kind": "Crate"},
             "versions": [{"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
ended = []


@kopf.on.create(GROUP, VERSION, PLURAL)
def made(body, spec, name, namespace, logger, **_):
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name + "-child"}, "data": {"size": str(spec["size"])}}
    kopf.adopt(child)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, child)
    kopf.info(body, reason="Packed", message="it is packed")
    return {"child": name + "-child"}


@kopf.on.update(GROUP, VERSION, PLURAL, field="spec.size")
def resized(name, namespace, new, **_):
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name + "-child", namespace, {"data": {"size": str(new)}})


@kopf.on.delete(GROUP, VERSION, PLURAL)
def unmade(name, **_):
    ended.append(name)


def wait(condition, what):
    deadline = time.monotonic() + 120
    while True:
        try:
            found = condition()
        except kubernetes.client.exceptions.ApiException as e:
            found = None
            assert e.status == 404, e
        if found:
            return found
        assert time.monotonic() < deadline, "waited for " + what
        time.sleep(0.1)


def story(stop):
    core, custom = kubernetes.client.CoreV1Api(), kubernetes.client.CustomObjectsApi()
    custom.create_namespaced_custom_object(GROUP, VERSION, NS, PLURAL, {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "Crate", "metadata": {"name": "c"}, "spec": {"size": 1}})

    def crate():
        return custom.get_namespaced_custom_object(GROUP, VERSION, NS, PLURAL, "c")
    wait(lambda: crate().get("status", {}).get("made"), "the operator's status")
    assert crate()["metadata"]["finalizers"], "the operator's finalizer"
    wait(lambda: [e for e in core.list_namespaced_event(NS).items if e.reason == "Packed"], "the operator's event")
    custom.patch_namespaced_custom_object(GROUP, VERSION, NS, PLURAL, "c", {"spec": {"size": 2}})
    wait(lambda: core.read_namespaced_config_map("c-child", NS).data["size"] == "2", "the child to follow")
    custom.delete_namespaced_custom_object(GROUP, VERSION, NS, PLURAL, "c")
    wait(lambda: ended == ["c"], "the operator to see the end")
    wait(lambda: "c-child" not in [c.metadata.name for c in core.list_namespaced_config_map(NS).items], "the child to go")


def main():
    kubernetes.config.load_kube_config()
    definitions = kubernetes.client.ApiextensionsV1Api()
    definitions.create_custom_resource_definition(DEFINITION)
    kubernetes.client.CoreV1Api().create_namespace({"metadata": {"name": NS}})
    wait(lambda: [c for c in definitions.read_custom_resource_definition(f"{PLURAL}.{GROUP}").status.conditions or []
                  if c.type == "Established" and c.status == "True"], "the definition to be established")
    ready, stop, failed = threading.Event(), threading.Event(), []
    operator = threading.Thread(target=lambda: asyncio.run(kopf.operator(
        namespaces=[NS], standalone=True, ready_flag=ready, stop_flag=stop)), daemon=True)
    operator.start()
    assert ready.wait(120), "the operator never began"
    try:
        story(stop)
    finally:
        stop.set()
        operator.join(60)
    definitions.delete_custom_resource_definition(f"{PLURAL}.{GROUP}")
    assert not failed, failed


main()
