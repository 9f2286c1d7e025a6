#!/usr/bin/env python3
"""A real Kubernetes control plane on loopback, in a folder of its own.

    with ControlPlane() as k:            # etcd, kube-apiserver, kube-controller-manager
        run([..., "--kubeconfig", k.kubeconfig])

Programs come from binaries.sh; Skip is raised when they cannot be had. Every port is a free one, every
process is ended by its pid. Run as a program it stays up until SIGINT or SIGTERM and prints how to reach it.
"""

import base64
import ctypes
import datetime
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import Failure, Skip, free_port, run, wait_for  # noqa: E402


PR_SET_PDEATHSIG = 1

# Whom the operator is to the API server (deploy/rbac).
ACCOUNT = "system:serviceaccount:muster-system:muster-operator"


# What Kubernetes has of gangs is off unless it is asked for: gates, and beta and alpha versions of its own groups.
WORKLOAD_GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadWithJob", "PodGroupPreemptionPolicy",
                  "DRAWorkloadResourceClaims")
WORKLOAD_SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"


def has_workloads():
    """The Kubernetes that is asked for has them: 1.37 or later."""
    return int(os.environ.get("MUSTER_KUBE_VERSION", "v1.33").split(".")[1]) >= 37


def workload_options():
    """Of a ControlPlane with gangs of Kubernetes itself, where it has them."""
    return {"gates": WORKLOAD_GATES, "apiserver_flags": [WORKLOAD_SERVED]} if has_workloads() else {}


def binaries(*programs):
    """The folder that holds these programs; Skip with the reason when there is none."""
    done = subprocess.run([os.path.join(HERE, "binaries.sh"), *programs], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Skip((done.stderr.strip().splitlines() or ["binaries.sh failed"])[-1])
    return done.stdout.strip()


def die_with_parent():
    """In a child: SIGTERM when whoever started it is gone, so that nothing outlives a run that was killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """A program in the background, its output in a file."""

    def __init__(self, name, argv, log, env=None):
        self.name, self.argv, self.log, self.env = name, argv, log, env
        self.process = None

    def start(self):
        with open(self.log, "a") as out:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=self.env, start_new_session=True, preexec_fn=die_with_parent)
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def tail(self, lines=15):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def check(self):
        if not self.alive():
            raise Failure(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
        return True

    def kill(self):
        if self.alive():
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self, limit=20):
        """SIGTERM, and SIGKILL after the limit. Returns the seconds it took."""
        if not self.process:
            return 0
        began = time.monotonic()
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(limit)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return time.monotonic() - began


class Certificates:
    """An authority and what it signs, made with openssl."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *argv):
        run(["openssl", *argv])

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", self.path(name + ".key"), "-out", self.path(name + ".crt"), "-days", "2",
                     "-subj", f"/CN={name}")

    def sign(self, name, subject, usage, names=None, authority="ca"):
        extensions = self.path(name + ".ext")
        with open(extensions, "w") as f:
            f.write(f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
                    f"extendedKeyUsage={usage}\n")
            if names:
                f.write(f"subjectAltName={names}\n")
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", self.path(name + ".key"), "-out", self.path(name + ".csr"),
                     "-subj", subject)
        self.openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(authority + ".crt"),
                     "-CAkey", self.path(authority + ".key"), "-set_serial", str(secrets.randbits(63)), "-days", "2",
                     "-extfile", extensions, "-out", self.path(name + ".crt"))

    def data(self, name):
        with open(self.path(name), "rb") as f:
            return base64.b64encode(f.read()).decode()

    def kubeconfig(self, path, server, user=None, token=None):
        """A kubeconfig for a certificate made by sign(), or for a token."""
        who = (f"token: {token}" if token else
               f"client-certificate-data: {self.data(user + '.crt')}, client-key-data: {self.data(user + '.key')}")
        with open(path, "w") as f:
            f.write(f"""apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{server}", certificate-authority-data: {self.data('ca.crt')}}}}}]
users: [{{name: test, user: {{{who}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
""")
        os.chmod(path, 0o600)
        return path


def lacks_right(event):
    """Refused for that, not as a pod is whose service account or quota is not there yet."""
    status = event.get("responseStatus", {})
    message = status.get("message", "")
    return status.get("code") == 403 and (
        event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid" or
        "blockOwnerDeletion" in message or "attempting to grant" in message)


class ControlPlane:
    """`network`: X of 10.X.0.0/16, the pod network of nodes whose pods are processes of this machine (src/cmd/hollow.h);
    Services then have their addresses from it, and the nodes' own certificates are taken for what they are.
    `address`: of this machine, where kubelets in other network namespaces reach it (`outside`); pods as Service "kubernetes".
    `gates`: feature gates that are turned on in the API server, the controllers and the scheduler."""

    def __init__(self, controllers=True, scheduler=False, apiserver_flags=(), etcd_flags=(), network=None, gates=(), address=None,
                 manager_flags=()):
        programs = ["etcd", "kube-apiserver"]
        programs += ["kube-controller-manager"] if controllers else []
        programs += ["kube-scheduler"] if scheduler else []
        self.bin = binaries(*programs)
        self.folder = tempfile.mkdtemp(prefix="muster-kubernetes-")
        self.certs = Certificates(os.path.join(self.folder, "pki"))
        self.kubeconfig = os.path.join(self.folder, "admin.kubeconfig")
        self.controllers, self.scheduler, self.network = controllers, scheduler, network
        self.services = f"10.{network}.128." if network else "10.96.0."
        self.apiserver_flags, self.etcd_flags, self.manager_flags = list(apiserver_flags), list(etcd_flags), list(manager_flags)
        self.gates = ["--feature-gates=" + ",".join(f"{gate}=true" for gate in gates)] if gates else []
        self.etcd_port, self.peer_port, self.port = free_port(), free_port(), free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.address, self.outside = address, f"https://{address or '127.0.0.1'}:{self.port}"
        self.audit_log = os.path.join(self.folder, "audit.log")
        self.starts = []  # (begun, ready) of the API server
        self.etcd = self.apiserver = self.manager = self.kube_scheduler = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()

    def _program(self, name):
        path = os.path.join(self.bin, name)
        return path if os.path.exists(path) else shutil.which(name)

    def _process(self, name, *argv, env=None):
        log = os.path.join(self.folder, name + ".log")
        return Process(name, [self._program(name), *argv], log, env).start()

    def make_certificates(self):
        c = self.certs
        c.authority("ca")
        c.authority("front-proxy-ca")
        self.sign_server()
        c.sign("kubelet-client", "/O=system:masters/CN=kubelet-client", "clientAuth")
        c.sign("front-proxy", "/CN=front-proxy", "clientAuth", authority="front-proxy-ca")
        c.sign("admin", "/O=system:masters/CN=admin", "clientAuth")
        c.sign("manager", "/CN=system:kube-controller-manager", "clientAuth")
        c.sign("scheduler", "/CN=system:kube-scheduler", "clientAuth")
        c.openssl("genrsa", "-out", c.path("sa.key"), "2048")
        c.openssl("rsa", "-in", c.path("sa.key"), "-pubout", "-out", c.path("sa.pub"))
        c.kubeconfig(self.kubeconfig, self.server, "admin")
        for user in ("manager", "scheduler"):
            c.kubeconfig(c.path(user + ".kubeconfig"), self.server, user)

    def sign_server(self):
        """The API server's own certificate; it reads a new one while it runs."""
        self.certs.sign("apiserver", "/CN=kube-apiserver", "serverAuth",
                        "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,"
                        f"IP:{self.services}1" + (f",IP:{self.address}" if self.address else ""))

    def start_etcd(self):
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self.etcd = self._process(
            "etcd", "--name", "e0", "--data-dir", os.path.join(self.folder, "etcd"),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"e0={peer}", "--unsafe-no-fsync", *self.etcd_flags,
            env=dict(os.environ, ETCD_UNSUPPORTED_ARCH="arm64"))

    def audit_policy(self):
        """What the operator asked, when it runs as its own account, and what it was told."""
        path = os.path.join(self.folder, "audit.yaml")
        with open(path, "w") as f:
            f.write(f"""apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["{ACCOUNT}"]
- level: None
""")
        return path

    def refusals(self, since=0):
        """(refused requests of the operator behind byte `since` of the audit log, where the log ends now)"""
        with open(self.audit_log, "rb") as f:
            f.seek(since)
            data = f.read()
        whole = data[:data.rfind(b"\n") + 1]
        events = [json.loads(line) for line in whole.splitlines()]
        return [e for e in events if lacks_right(e) and not self.was_starting(e)], since + len(whole)

    def was_starting(self, event):
        """An API server refuses what it will allow until it has read the roles."""
        when = datetime.datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
        return any(begin <= when <= end for begin, end in self.starts)

    def start_apiserver(self):
        began = time.time()
        p = self.certs.path
        self.apiserver = self._process(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--bind-address={'0.0.0.0' if self.address else '127.0.0.1'}", f"--secure-port={self.port}",
            f"--advertise-address={self.address or '127.0.0.1'}",
            f"--endpoint-reconciler-type={'lease' if self.address else 'none'}", f"--tls-cert-file={p('apiserver.crt')}",
            f"--tls-private-key-file={p('apiserver.key')}", f"--client-ca-file={p('ca.crt')}",
            f"--service-account-key-file={p('sa.pub')}",
            f"--service-account-signing-key-file={p('sa.key')}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={self.services}0/{17 if self.network else 16}", "--authorization-mode=Node,RBAC",
            # As OpenShift does: who names an owner that blocks deletion must have a right to the owner.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement", "--allow-privileged=true",
            f"--audit-policy-file={self.audit_policy()}", f"--audit-log-path={self.audit_log}",
            f"--kubelet-client-certificate={p('kubelet-client.crt')}",
            f"--kubelet-client-key={p('kubelet-client.key')}",
            *([] if self.network else [f"--kubelet-certificate-authority={p('ca.crt')}"]),
            "--kubelet-preferred-address-types=InternalIP",
            f"--requestheader-client-ca-file={p('front-proxy-ca.crt')}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={p('front-proxy.crt')}",
            f"--proxy-client-key-file={p('front-proxy.key')}", "--profiling=false",
            *self.gates, *self.apiserver_flags)
        wait_for(lambda: self.apiserver.check() and self.ready(), "kube-apiserver to be ready", 60)
        self.starts.append((began, time.time()))

    def request(self, method, path, body=None):
        """One request of the administrator, without a kubectl; the answer as text."""
        context = ssl.create_default_context(cafile=self.certs.path("ca.crt"))
        context.load_cert_chain(self.certs.path("admin.crt"), self.certs.path("admin.key"))
        asked = urllib.request.Request(self.server + path, method=method, data=json.dumps(body).encode() if body else None,
                                       headers={"Content-Type": "application/merge-patch+json" if method == "PATCH"
                                                else "application/json"})
        with urllib.request.urlopen(asked, context=context, timeout=15) as answer:
            return answer.read().decode()

    def ready(self):
        return self.request("GET", "/readyz") == "ok"

    def start_manager(self):
        kubeconfig = self.certs.path("manager.kubeconfig")
        p = self.certs.path
        self.manager = self._process(
            "kube-controller-manager", f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
            f"--service-account-private-key-file={p('sa.key')}", f"--root-ca-file={p('ca.crt')}",
            "--use-service-account-credentials=true", "--kube-api-qps=300", "--kube-api-burst=600",
            "--leader-elect=false", f"--controllers=*,-nodeipam{'' if has_workloads() else ',-node-route-controller'}",
            *self.gates, *self.manager_flags)

    def start_scheduler(self, kubeconfig=None, per_second=5000):
        kubeconfig = kubeconfig or self.certs.path("scheduler.kubeconfig")
        config = os.path.join(self.folder, "scheduler.yaml")
        with open(config, "w") as f:
            f.write(f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: {per_second}, burst: {per_second}}}
""")
        self.kube_scheduler = self._process(
            "kube-scheduler", f"--config={config}", f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}", *self.gates)

    def start(self):
        self.make_certificates()
        self.start_etcd()
        self.start_apiserver()
        # Before the garbage collector starts: it looks for new kinds every 30 s only.
        self.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        if self.controllers:
            self.start_manager()
            wait_for(lambda: self.manager.check() and
                     self.kubectl("get", "serviceaccount", "default", ok=False).returncode == 0,
                     "the default service account", 60)
        if self.scheduler:
            self.start_scheduler()

    def stop(self):
        for process in (self.kube_scheduler, self.manager, self.apiserver, self.etcd):
            if process:
                process.stop()
        if not os.environ.get("MUSTER_TEST_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def kubectl(self, *argv, ok=True, input=None, limit=60):
        return run([shutil.which("kubectl") or self._program("kubectl"), "--kubeconfig", self.kubeconfig,
                    *argv], ok=ok, input=input, limit=limit, env=dict(os.environ, HOME=self.folder))

    def user(self, name, groups=()):
        """A kubeconfig for a certificate of that common name."""
        organizations = "".join(f"/O={g}" for g in groups)
        self.certs.sign("user-" + name.replace(":", "-"), f"{organizations}/CN={name}", "clientAuth")
        return self.certs.kubeconfig(os.path.join(self.folder, name.replace(":", "-") + ".kubeconfig"),
                                     self.server, "user-" + name.replace(":", "-"))


def main():
    with ControlPlane(scheduler="--scheduler" in sys.argv) as k:
        print(f"export KUBECONFIG={k.kubeconfig}", flush=True)
        signal.signal(signal.SIGTERM, lambda *unused: sys.exit(0))
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    try:
        main()
    except Skip as reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(3)
