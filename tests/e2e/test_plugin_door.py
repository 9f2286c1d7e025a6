"""Whom a job's sync service serves: its own pods, and people who may read the job's secret; nobody else."""

import http.client
import os
import socket
import struct

from harness import Muster, Skip, check, need_kubectl, wait_for
from test_agent_bridge import own_network
from test_plugin_commands import FLAGS, QUEUE, project
from test_plugin_hostile import SECRET, Sync, commit, entry

NOBODY = 65534


def ask(port, method, path, body=b"", secret=None):
    """Status and words of a refusal; an answer that is none is not read: some have no end."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    c.request(method, path, body, {"Muster-Job-Secret": secret} if secret is not None else {})
    answer = c.getresponse()
    return f"{answer.status} {answer.read().decode() if answer.status >= 400 else ''}"


def use_store(port):
    """A client of the rendezvous store: sets a key and asks for it."""
    def text(t):
        return struct.pack("=Q", len(t)) + t

    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        try:
            s.sendall(b"\0" + struct.pack("=I", 0x3C85F7CE) + b"\1" + text(b"k") + text(b"v") + b"\3" + text(b"k"))
            return "answered" if s.recv(100) else "closed"
        except ConnectionError:
            return "closed"


def put_and_hang_up(port, reset):
    """A request whose sender is gone before anybody reads it."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(b"PUT /v2/keys/mine?value=x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        if reset:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return "gone"


REQUESTS = (("POST", "/v1/pull?rank=0"), ("POST", "/v1/missing"), ("POST", "/v1/blobs"), ("POST", "/v1/commit"),
            ("POST", "/v1/restart"), ("POST", "/v1/ack?rank=0"), ("GET", "/v1/state"), ("GET", "/v1/wait"),
            ("GET", "/v1/log?generation=0"), ("POST", "/v1/log?rank=0&generation=0&offset=0"))


def as_nobody(what, *args):
    """What the function says in a process of another user; no program is started, as it might not be allowed to."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            said = what(*args)
        except BaseException as e:
            said = repr(e)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    os.waitpid(child, 0)
    return said


def need_root():
    if os.getuid() != 0:
        raise Skip("another user's process needs root")


def test_without_the_secret_nothing_is_served():
    with Sync() as s:
        for method, path in REQUESTS:
            for secret in (None, "", SECRET[:-1], SECRET + "0", "f" * 64):
                said = ask(s.port, method, path, secret=secret)
                check(said.startswith("401 ") and "Muster-Job-Secret" in said and "default/hostile" in said,
                      f"{method} {path} with {secret!r}: {said}")
        said = ask(s.port, "POST", "/v1/commit", commit(entry("evil", "d", 0o755)))
        check(said.startswith("401 ") and not os.path.exists(os.path.join(s.workspace, "evil")), said)
        check(ask(s.port, "GET", "/v1/state", secret=SECRET) == "200 ", "with the secret it is served")
        check(ask(s.port, "GET", "/healthz") == "200 ", "probes need none")


def test_strangers_on_the_hosts_network_are_refused():
    need_root()
    with Sync() as s:
        evil = commit(entry("evil", "d", 0o755))
        for path, body in (("/v1/pull?rank=0", b""), ("/v1/commit", evil), ("/v1/restart", b"")):
            said = as_nobody(ask, s.port, "POST", path, body)
            check(said.startswith("401 "), f"{path}: {said}")
        for method, path in (("GET", "/v2/keys/"), ("PUT", "/v2/keys/a?value=b"), ("DELETE", "/v2/keys/a")):
            said = as_nobody(ask, s.port, method, path)
            check(said.startswith("403 ") and "default/hostile" in said, f"{path}: {said}")
        said = as_nobody(use_store, s.store_port)
        check(said == "closed", f"the rendezvous store: {said}")
        check(not os.path.exists(os.path.join(s.workspace, "evil")), "nothing was written")
        # The job's own processes are served as before.
        check(ask(s.port, "PUT", "/v2/keys/a?value=b") == "201 ", "keys")
        check(use_store(s.store_port) == "answered", "the store")


def test_a_stranger_that_hangs_up_is_still_a_stranger():
    """A socket that nobody holds any more says it is root's: what it sent must not be taken for root's."""
    need_root()
    with Sync() as s:
        for reset in (False, True):
            for _ in range(10):
                said = as_nobody(put_and_hang_up, s.port, reset)
                check(said == "gone", said)
        said = ask(s.port, "GET", "/v2/keys/mine")
        check(said.startswith("404 "), said)


def test_a_store_without_a_job_serves_keys_alone():
    with Sync(MUSTER_SYNC_NOTE="no job") as s:
        check(ask(s.port, "PUT", "/v2/keys/a?value=b") == "201 ", "keys")
        for method, path in REQUESTS:
            for secret in (None, "", SECRET):
                said = ask(s.port, method, path, secret=secret)
                check(said.startswith("401 ") and "only keys" in said, f"{method} {path}: {said}")
        with socket.socket() as probe:
            check(probe.connect_ex(("127.0.0.1", s.store_port)) != 0, "no rendezvous store")


def test_a_sync_pod_of_an_older_muster_says_what_to_do():
    with Sync(MUSTER_JOB="team/old") as s:
        said = ask(s.port, "GET", "/v1/state")
        check(said.startswith("401 ") and "delete pod old-sync-0" in said, said)


STORE = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: stored}
spec:
  elasticPolicy: {rdzvBackend: etcd-v2, minReplicas: 1, maxReplicas: 2}
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: pytorch
            image: any
            command: [python3, -c]
            args:
            - |
              import os, time, urllib.error, urllib.request
              url = "http://" + os.environ["PET_RDZV_ENDPOINT"]
              try: urllib.request.urlopen(url + "/v1/state"); raise SystemExit("the state was served")
              except urllib.error.HTTPError as e: print("state:", e.code)
              print("keys:", urllib.request.urlopen(url + "/v2/keys/", timeout=50).status)
"""


def test_pods_of_a_job_reach_its_rendezvous_on_a_network_of_their_own():
    """They are known by their addresses, which the job's Service names."""
    own_network()
    with Muster(nodes=1, flags=["--pod-network", "bridge"]) as m:
        m.apply(STORE)
        wait_for(lambda: (m.get("pod", "stored-worker-0") or {}).get("status", {}).get("phase") in ("Succeeded", "Failed"),
                 "the worker to end", 60)
        said = m.said("stored-worker-0")
        check("state: 401" in said and "keys: 200" in said, said)


READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [torchrun.ai], resources: [torchrunjobs], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [pods, pods/proxy, pods/log], verbs: [get, list, watch, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
"""


def as_reader(m):
    """A kubeconfig of the account above."""
    path = os.path.join(m.folder, "reader")
    token = m.kubectl("create", "token", "reader").stdout.strip()
    with open(m.kubeconfig) as f:
        lines = [f"{line.split('token:')[0]}token: {token}\n" if "token:" in line else line for line in f]
    with open(path, "w") as f:
        f.writelines(lines)
    return path


def test_a_person_who_may_not_read_the_secret_is_told():
    need_kubectl(24)
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        m.apply(READER)
        folder = project(m, main__py="print('x')\n")
        m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "mine", "--detach", "sleep 600", cwd=folder)
        job = m.get("torchrunjob", "mine")
        name = "mine-sync-" + job["metadata"]["uid"][:8]
        secret = m.get("secret", name)
        check(secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"], f"{secret}")
        for pod in ("mine-sync-0", "mine-worker-0"):
            found = wait_for(lambda pod=pod: m.get("pod", pod), pod)
            env = {e["name"]: e for e in found["spec"]["containers"][0]["env"]}
            check(env["MUSTER_JOB_SECRET"]["valueFrom"]["secretKeyRef"]["name"] == name, f"{env}")
        reader = as_reader(m)
        for argv in (("sync", "mine"), ("restart", "mine")):
            done = m.torchrun(*argv, "--kubeconfig", reader, ok=False, cwd=folder)
            check(done.returncode != 0, f"{argv} should have failed: {done.stdout}{done.stderr}")
            for word in (name, "get", "secrets", "namespace default"):
                check(word in done.stderr, f"{argv} does not say {word!r}: {done.stderr}")
        m.torchrun("sync", "mine", cwd=folder)
        m.torchrun("delete", "mine", "--force")
        wait_for(lambda: not m.get("secret", name), "the secret to go with its job")
