"""The client of the API server: connections, watches, credentials."""

import base64
import json
import os
import shutil
import socket
import threading

from cluster import Cluster, Operator
from controlplane import ControlPlane
from harness import Skip, binary, check, free_port, run, wait_for
from proxy import Proxy
from test_operator import QUEUE, job
from test_snapshot import gang


def connections(pid, port):
    """Established TCP connections of a process to a port."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    with open(f"/proc/{pid}/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(1 for r in rows if r[9] in inodes and r[3] == "01" and int(r[2].split(":")[1], 16) == port)


def test_all_watches_share_one_connection():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("one", 8))
        wait_for(lambda: m.phase("one") == "Running", "the job to run")
        operator = m.leader()
        watches = operator.metric("muster_watches")
        open_now = connections(operator.process.pid, m.plane.port)
        check(watches > 15 and open_now == 1, f"{watches} watches over {open_now} connections")


def test_watches_begin_with_what_there_is_where_the_server_does_that():
    with ControlPlane(apiserver_flags=["--feature-gates=WatchList=true"]) as plane:
        shared, Cluster.plane = Cluster.plane, plane
        try:
            with Cluster(nodes=1, gpus_per_node=8) as m:
                m.apply(QUEUE)
                m.apply(job("one", 8))
                wait_for(lambda: m.phase("one") == "Running", "the job to run")
                operator = m.leader()
                check(operator.metric("muster_watch_streamed_total") > 15, "initial states came by streams")
                check(operator.metric("muster_watch_listed_total") == 0, "and none by lists")
        finally:
            Cluster.plane = shared


def test_watches_list_where_the_server_does_not():
    with Cluster(nodes=1) as m:
        operator = m.leader()
        if operator.metric("muster_watch_streamed_total") > 0:
            raise Skip("this server begins watches with what there is by default")
        check(operator.metric("muster_watch_listed_total") > 15, "lists")


def test_binds_go_before_events_when_requests_are_few():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig, operator_flags=[
            "--leader-elect=false", "--kube-api-qps=10"]) as m:
        wait_for(lambda: m.get("queues"), "the default queues")
        sent = []

        def record(method, path):
            if method == "POST" and path.split("?")[0].endswith(("/binding", "/events")):
                sent.append(path.split("?")[0].rsplit("/", 1)[1])
            return False
        proxy.faults(percent=100, only=record)
        items = [o for i in range(30) for o in gang(f"gang-{i}", 1, gpus=1)]
        m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        wait_for(lambda: sent.count("binding") == 30 and sent.count("events") >= 10, "30 binds, and events about them", 90)
        last = len(sent) - 1 - sent[::-1].index("binding")
        check(sent[:last].count("events") <= sent.count("events") / 2,
              f"events waited for binds: {''.join(word[0] for word in sent)}")


# ---- kubeconfigs ----

class Credentials:
    """Kubeconfigs of all sorts for the control plane of this run, and a client that uses them."""

    def __init__(self, folder):
        self.plane, self.folder = Cluster.plane, folder
        self.ca = self.plane.certs.path("ca.crt")
        self.plane.kubectl("create", "serviceaccount", "client-test", ok=False)
        self.plane.kubectl("create", "clusterrolebinding", "client-test", "--clusterrole=cluster-admin",
                           "--serviceaccount=default:client-test", ok=False)
        self.token = self.plane.kubectl("create", "token", "client-test").stdout.strip()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def config(self, cluster=None, user=None, name="config"):
        at = {"server": self.plane.server, "certificate-authority": self.ca}
        at.update(cluster or {})
        at = {k: v for k, v in at.items() if v is not None}
        return self.write(name, json.dumps({
            "clusters": [{"name": "c", "cluster": at}],
            "users": [{"name": "u", "user": user or {"token": self.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}))

    def works(self, config, **env):
        """Whether `muster queues` can ask the server."""
        done = run([binary("muster"), "queues"], ok=False,
                   env=dict(os.environ, KUBECONFIG=config, HOME=self.folder, **env))
        return done.returncode == 0, done.stderr


def tunnel(port, seen):
    """A proxy that understands CONNECT, for one connection after the other."""
    listening = socket.create_server(("127.0.0.1", port))

    def pump(a, b):
        try:
            while data := a.recv(1 << 16):
                b.sendall(data)
        except OSError:
            pass
        b.close()

    def serve():
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            seen.append(head.split(b"\r\n")[0].decode())
            host, to = seen[-1].split()[1].rsplit(":", 1)
            server = socket.create_connection((host, int(to)))
            client.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            threading.Thread(target=pump, args=(server, client), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return listening


def test_every_way_a_kubeconfig_names_server_and_user():
    with Cluster(nodes=1) as m:
        c = Credentials(m.folder)
        plugin = c.write("plugin", "#!/bin/sh\n[ \"$WHO\" = me ] && [ \"$1\" = token ] && cat <<E\n" + json.dumps(
            {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
             "status": {"token": c.token}}) + "\nE\n")
        os.chmod(plugin, 0o755)
        with open(c.plane.certs.path("admin.crt"), "rb") as f:
            certificate = base64.b64encode(f.read()).decode()
        with open(c.plane.certs.path("admin.key"), "rb") as f:
            key = base64.b64encode(f.read()).decode()
        seen = []
        port = free_port()
        proxy = tunnel(port, seen)
        plug = {"apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "args": ["token"],
                "env": [{"name": "WHO", "value": "me"}], "interactiveMode": "Never"}
        rows = [  # what, the cluster, the user, words of a refusal
            ("a token", {}, {}, ""),
            ("a token in a file", {}, {"tokenFile": c.write("token", c.token + "\n")}, ""),
            ("a certificate", {}, {"client-certificate-data": certificate, "client-key-data": key}, ""),
            ("an exec plugin", {}, {"exec": plug}, ""),
            ("another name to check", {"tls-server-name": "kubernetes"}, {}, ""),
            ("a wrong name to check", {"tls-server-name": "other.example.com"}, {}, "certificate"),
            ("any certificate", {"insecure-skip-tls-verify": True, "certificate-authority": None}, {}, ""),
            ("an unknown authority", {"certificate-authority": None}, {}, "certificate"),
            ("a proxy", {"proxy-url": f"http://127.0.0.1:{port}"}, {}, ""),
            ("a wrong token", {}, {"token": "nonsense"}, "nauthorized"),
            ("no such plugin", {}, {"exec": dict(plug, command="/nowhere/plugin")}, "/nowhere/plugin"),
        ]
        for what, cluster, user, words in rows:
            works, said = c.works(c.config(cluster, user))
            check(works == (not words) and words in said, f"{what}: {'works' if works else said}")
        check(seen and seen[0].startswith("CONNECT 127.0.0.1:"), f"the proxy was asked: {seen}")
        proxy.close()


def test_kubeconfigs_are_merged():
    with Cluster(nodes=1) as m:
        c = Credentials(m.folder)
        one = c.write("one", json.dumps({"users": [{"name": "u", "user": {"token": c.token}}], "current-context": "x"}))
        two = c.write("two", json.dumps({
            "clusters": [{"name": "c", "cluster": {"server": c.plane.server, "certificate-authority": c.ca}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "shadowed"}}]}))
        works, words = c.works(f"{one}:/nonexistent:{two}")
        check(works, words)


class Pod:
    """The operator as a pod would run it: everything it knows of the cluster is a mounted service account."""

    def __init__(self, m, port):
        if not shutil.which("unshare") or os.geteuid() != 0:
            raise Skip("needs unshare and root, to mount a service account")
        self.credentials = Credentials(m.folder)
        mounted = os.path.join(m.folder, "mounted")
        os.mkdir(mounted)
        self.write("ca.crt", open(self.credentials.ca).read())
        self.write("token", self.credentials.token)
        self.write("namespace", "default")
        m.operators[0].stop()
        self.operator = operator = Operator("pod", m.folder, "unused", ["--leader-elect=false"])
        at = operator.argv.index("--kubeconfig")
        operator.argv = ["unshare", "--mount", "sh", "-c",
                         'mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && '
                         f'ln -s {mounted} /run/secrets/kubernetes.io/serviceaccount && exec "$@"', "sh",
                         *operator.argv[:at], *operator.argv[at + 2:]]
        operator.env = dict(os.environ, KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(port),
                            KUBECONFIG="", HOME="/nonexistent")
        m.operators = [operator]

    def write(self, name, text):
        """As kubelet does it: a reader sees the old file or the new one."""
        path = self.credentials.write(f"mounted/.{name}", text)
        os.rename(path, path.replace(f"/.{name}", f"/{name}"))


def test_in_a_pod_a_token_that_was_replaced_is_read_again():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        def token(name):
            m.kubectl("create", "secret", "generic", name)
            return m.kubectl("create", "token", "client-test", "--bound-object-kind", "Secret", "--bound-object-name",
                             name).stdout
        pod = Pod(m, m.plane.port)
        operator = pod.operator
        pod.write("token", token("first"))
        operator.start()
        wait_for(lambda: m.leader(), "the operator to lead with its first token", 30)
        pod.write("token", token("second"))
        m.kubectl("delete", "secret", "first")
        m.plane.apiserver.kill()  # ends its watches, and forgets that the first token was good
        m.plane.start_apiserver()
        m.apply(QUEUE)
        m.apply(job("after", 8))
        wait_for(lambda: m.get("pods") or not operator.alive(), "pods, made with the second token", 60)
        check(operator.alive(), f"the operator lives:\n{operator.tail()}")
        m.kubectl("delete", "secret", "second")


def test_in_a_pod_an_authority_that_was_replaced_is_read_again():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=1, gpus_per_node=8) as m:
        pod = Pod(m, proxy.port)
        operator = pod.operator.start()
        wait_for(lambda: m.leader(), "the operator to lead with the first authority", 30)
        before = len(operator.tail(10000))
        proxy.certify(authority="ca-next")
        proxy.drop()
        wait_for(lambda: "certificate" in operator.tail(10000)[before:], "a server of an unknown authority to be refused", 30)
        m.apply(QUEUE)
        m.apply(job("after", 8))
        with open(m.plane.certs.path("ca-next.crt")) as f:
            pod.write("ca.crt", f.read())
        wait_for(lambda: m.get("pods") or not operator.alive(), "pods, made by way of the new authority", 60)
        check(operator.alive(), f"the operator lives:\n{operator.tail()}")
        wait_for(operator.ready, "every watch to have resumed", 60)
