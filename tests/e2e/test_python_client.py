"""A client nobody here wrote: the official Python client lists, watches, patches and runs commands."""

import fcntl
import os
import subprocess
import sys

from harness import Muster, Skip, check, free_port, run

# Runs in the virtual environment, with the kubeconfig of the muster under test.
SCRIPT = r'''
import json, threading, time
from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

config.load_kube_config()
core, custom = client.CoreV1Api(), client.CustomObjectsApi()

assert client.VersionApi().get_code().major == "1"
core.create_namespaced_config_map("default", client.V1ConfigMap(
    metadata=client.V1ObjectMeta(name="cm", labels={"app": "x"}), data={"a": "1"}))
for i in range(5):
    core.create_namespaced_config_map("default", {"metadata": {"name": f"many-{i}", "labels": {"app": "many"}}})

# lists, in pieces and by selector
page = core.list_namespaced_config_map("default", limit=2, label_selector="app=many")
names = [item.metadata.name for item in page.items]
while page.metadata._continue:
    page = core.list_namespaced_config_map("default", limit=2, label_selector="app=many",
                                           _continue=page.metadata._continue)
    names += [item.metadata.name for item in page.items]
assert names == [f"many-{i}" for i in range(5)], names

# patches: strategic by default, JSON patch for a list
assert core.patch_namespaced_config_map("cm", "default", {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
assert core.patch_namespaced_config_map(
    "cm", "default", [{"op": "remove", "path": "/data/a"}]).data == {"b": "2"}

# update with its own copy, and the conflict of an old one
seen = core.read_namespaced_config_map("cm", "default")
seen.data = {"c": "3"}
core.replace_namespaced_config_map("cm", "default", seen)
try:
    core.replace_namespaced_config_map("cm", "default", seen)
    raise AssertionError("an old version was accepted")
except ApiException as e:
    assert e.status == 409 and json.loads(e.body)["reason"] == "Conflict", e.body
try:
    core.read_namespaced_config_map("nope", "default")
    raise AssertionError("found what is not there")
except ApiException as e:
    assert e.status == 404, e.status

# watch: what is there, then changes, until the deletion
def change():
    for i in range(3):
        core.patch_namespaced_config_map("cm", "default", {"data": {"round": str(i)}})
    core.delete_namespaced_config_map("cm", "default")
threading.Timer(0.5, change).start()
events = []
for event in watch.Watch().stream(core.list_namespaced_config_map, "default", label_selector="app=x",
                                  timeout_seconds=20):
    events.append((event["type"], (event["object"].data or {}).get("round")))
    if event["type"] == "DELETED":
        break
assert events == [("ADDED", None), ("MODIFIED", "0"), ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], events
start = time.monotonic()
assert list(watch.Watch().stream(core.list_namespaced_secret, "default", timeout_seconds=1,
                                 label_selector="none=such")) == []
assert time.monotonic() - start < 10

# custom objects, typed and dynamic
queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "py"},
         "spec": {"resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}}}
custom.create_cluster_custom_object("scheduling.run.ai", "v2", "queues", queue)
patched = custom.patch_cluster_custom_object("scheduling.run.ai", "v2", "queues", "py",
                                             {"metadata": {"labels": {"by": "python"}}})
assert patched["metadata"]["labels"]["by"] == "python"
queues = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="scheduling.run.ai/v2", kind="Queue")
assert "py" in [q.metadata.name for q in queues.get().items]

# a pod: wait by watching, logs, a command over WebSocket
core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": {
    "terminationGracePeriodSeconds": 1,
    "containers": [{"name": "c", "image": "any", "command": ["bash", "-c", "echo from the pod; sleep 600"]}]}})
for event in watch.Watch().stream(core.list_namespaced_pod, "default", field_selector="metadata.name=p",
                                  timeout_seconds=30):
    if event["object"].status.phase == "Running":
        break
while "from the pod" not in core.read_namespaced_pod_log("p", "default"):
    time.sleep(0.05)
out = stream(core.connect_get_namespaced_pod_exec, "p", "default", command=["echo", "hello"],
             stdout=True, stderr=True, stdin=False, tty=False)
assert out == "hello\n", out
core.delete_namespaced_pod("p", "default")
assert client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(
    spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(
        verb="create", resource="pods", namespace="default")))).status.allowed
print("all of it")
'''


# What the client's own examples do with a pod: all of it over WebSocket, in text messages.
PODS_SCRIPT = r'''
import sys, urllib.request
from kubernetes import client, config, watch
from kubernetes.stream import portforward, stream

PORT = int(sys.argv[1])
config.load_kube_config()
core = client.CoreV1Api()
core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": {
    "terminationGracePeriodSeconds": 0,
    "containers": [
        {"name": "c", "image": "any", "stdin": True, "command": ["sh", "-c", "while read x; do echo got $x; done"]},
        {"name": "web", "image": "any", "workingDir": "/usr/share", "command": ["python3", "-m", "http.server", str(PORT)],
         "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1}}]}})
for event in watch.Watch().stream(core.list_namespaced_pod, "default", field_selector="metadata.name=p"):
    statuses = event["object"].status.container_statuses or []
    if len(statuses) == 2 and all(s.ready for s in statuses):
        break

talk = stream(core.connect_get_namespaced_pod_exec, "p", "default", container="c", command=["sh"], stdin=True,
              stdout=True, stderr=True, tty=False, _preload_content=False)
talk.write_stdin("echo one\n")
assert talk.readline_stdout(timeout=60) == "one"
talk.write_stdin("echo two >&2\n")
assert talk.readline_stderr(timeout=60) == "two"
talk.write_stdin("exit 3\n")  # apart: the client reads no line of a stream whose end it has seen
talk.run_forever(timeout=60)
assert talk.returncode == 3, talk.returncode

talk = stream(core.connect_get_namespaced_pod_attach, "p", "default", container="c", stdin=True, stdout=True,
              stderr=True, tty=False, _preload_content=False)
talk.write_stdin("attached\n")
assert talk.readline_stdout(timeout=60) == "got attached"
talk.close()

forward = portforward(core.connect_get_namespaced_pod_portforward, "p", "default", ports=str(PORT))
wire = forward.socket(PORT)
wire.setblocking(True)
wire.sendall(b"GET / HTTP/1.0\r\n\r\n")
page = b""
while b"Directory listing" not in page:
    more = wire.recv(4096)
    assert more, page
    page += more
wire.close()
assert forward.error(PORT) is None, forward.error(PORT)
print("all of it")
'''


def environment():
    """A Python with the client in it: a virtual environment beside that of tests/torch.sh, as it takes a minute to install."""
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "muster")
    folder = os.path.join(cache, "kubernetes-client")
    python = os.path.join(folder, "bin", "python3")
    os.makedirs(cache, exist_ok=True)
    with open(folder + ".lock", "w") as lock:  # two tests want it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.access(python, os.X_OK) and os.path.exists(os.path.join(folder, "complete")):
            return python
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", folder], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        try:
            put = made.returncode == 0 and subprocess.run([python, "-m", "pip", "install", "--quiet", "kubernetes"], timeout=300,
                                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as e:
            raise Skip("the Python client could not be installed within 300 s") from e
        if not put or put.returncode != 0 or subprocess.run([python, "-c", "import kubernetes"]).returncode != 0:
            raise Skip("the Python client could not be installed")
        open(os.path.join(folder, "complete"), "w").close()
    return python


def test_the_official_python_client():
    python = environment()
    with Muster() as m:
        done = run([python, "-c", SCRIPT], env=m.env, limit=120)
        check("all of it" in done.stdout, done.stdout + done.stderr)


def test_the_official_python_client_talks_to_pods():
    python = environment()
    with Muster() as m:
        done = run([python, "-c", PODS_SCRIPT, str(free_port())], env=m.env, limit=60)
        check("all of it" in done.stdout, done.stdout + done.stderr)
