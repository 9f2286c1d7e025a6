"""The official Python client: dynamic client on a custom resource, a watch, and a shell that is talked to in text."""

import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.stream import stream

NS = "official"


def dynamic_client(api):
    """A custom resource from its definition to server-side apply."""
    dyn = dynamic.DynamicClient(api)
    definitions = dyn.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    definitions.create(body={
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.strangers.example"},
        "spec": {"group": "strangers.example", "scope": "Namespaced",
                 "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "properties": {"spec": {"type": "object", "properties": {
                         "sails": {"type": "integer", "minimum": 1}}}}}}}]}})
    deadline = time.monotonic() + 60
    while True:
        try:
            dyn.resources.invalidate_cache()
            boats = dyn.resources.get(api_version="strangers.example/v1", kind="Boat")
            break
        except dynamic.exceptions.ResourceNotFoundError:
            assert time.monotonic() < deadline, "the definition is never served"
            time.sleep(0.1)
    boat = {"apiVersion": "strangers.example/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {"sails": 2}}
    boats.create(body=boat, namespace=NS)
    applied = boats.server_side_apply(body={**boat, "spec": {"sails": 3}}, namespace=NS, name="one", field_manager="stranger",
                                      force_conflicts=True)
    assert applied.spec.sails == 3, applied
    try:
        boats.patch(body={"spec": {"sails": 0}}, namespace=NS, name="one", content_type="application/merge-patch+json")
        raise AssertionError("a boat without sails was accepted")
    except dynamic.exceptions.UnprocessibleEntityError:
        pass
    assert [item.metadata.name for item in boats.get(namespace=NS).items] == ["one"]
    boats.delete(name="one", namespace=NS)
    definitions.delete(name="boats.strangers.example")


def watched(core):
    seen = []

    def change():
        core.create_namespaced_config_map(NS, {"metadata": {"name": "w"}, "data": {"a": "1"}})
        core.patch_namespaced_config_map("w", NS, {"data": {"a": "2"}})
        core.delete_namespaced_config_map("w", NS)
    start = core.list_namespaced_config_map(NS).metadata.resource_version
    threading.Thread(target=change).start()
    for event in watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version=start, timeout_seconds=60):
        if event["object"].metadata.name == "w":
            seen.append(event["type"])
        if event["type"] == "DELETED":
            break
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


def shell(core):
    core.create_namespaced_pod(NS, {"metadata": {"name": "p"}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "any", "command": ["sleep", "1000"]}]}})
    for event in watch.Watch().stream(core.list_namespaced_pod, NS, field_selector="metadata.name=p", timeout_seconds=120):
        if event["object"].status.phase == "Running":
            break
    # Without a terminal, in text: what is written is what the shell reads.
    talk = stream(core.connect_get_namespaced_pod_exec, "p", NS, command=["sh"], stderr=True, stdin=True, stdout=True, tty=False,
                  _preload_content=False)
    talk.write_stdin("echo grüße $((40 + 2)); echo wrong >&2; exit 3\n")
    talk.run_forever(timeout=60)
    assert talk.read_stdout() == "grüße 42\n" and talk.read_stderr() == "wrong\n", "what the shell said"
    assert talk.returncode == 3, talk.returncode
    # With one: what is typed comes back, before or after the shell's prompt.
    talk = stream(core.connect_get_namespaced_pod_exec, "p", NS, command=["sh"], stderr=False, stdin=True, stdout=True, tty=True,
                  _preload_content=False)
    talk.write_stdin("echo he''llo\n")
    said, deadline = "", time.monotonic() + 60
    while "hello" not in said and time.monotonic() < deadline:
        said += talk.read_stdout(timeout=1) or ""
    assert "he''llo" in said and "hello" in said, repr(said)
    talk.write_stdin("exit\n")
    talk.run_forever(timeout=60)
    talk.close()


def main():
    config.load_kube_config()
    api = client.ApiClient()
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": NS}})
    dynamic_client(api)
    watched(core)
    shell(core)
    core.delete_namespace(NS)


main()
