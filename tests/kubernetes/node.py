"""One real node for a ControlPlane: containerd, kubelet, kube-proxy and a device plugin, in the network and mount
namespaces of this process.

Call own_namespaces() first: it makes them and runs the program again inside, so that nothing of the host's network is
touched. Programs are looked for in $MUSTER_NODE_BIN, in the cache of binaries.sh (node/) and in PATH; Skip when
something is missing. There is no registry: images are made here and imported.
"""

import hashlib
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import threading

from controlplane import Process, binaries
from harness import Skip, run, wait_for

ADDRESS = "10.250.0.1"
# Of the control plane: pods reach it as the Service "kubernetes".
APISERVER_FLAGS = ["--bind-address=0.0.0.0", f"--advertise-address={ADDRESS}", "--endpoint-reconciler-type=lease"]
GPU, GPUS = "nvidia.com/gpu", ("GPU-3f1a0001", "GPU-3f1a0002")
KUBELET = "/var/lib/kubelet"  # where a kubelet and device plugins meet, whatever its own folder is
PACKAGES = "containerd, runc, containernetworking-plugins, nftables, python3-grpcio"
PODS = "10.244.0.0/24"
PAUSE = "local/pause:1"
HOST = "local/host:1"  # nothing but links into /usr, which a hostPath volume brings
PAUSE_SOURCE = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop(int n) { (void)n; _exit(0); }
static void reap(int n) { (void)n; while (waitpid(-1, 0, WNOHANG) > 0) ; }
int main(void) { signal(SIGTERM, stop); signal(SIGINT, stop); signal(SIGCHLD, reap); for (;;) pause(); }
"""


def own_namespaces():
    """Go on inside namespaces of our own, with loopback up; the first call does not return."""
    if os.geteuid() != 0:
        raise Skip("a real node needs root")
    if os.environ.get("MUSTER_NODE_NAMESPACE") != "1":
        env = dict(os.environ, MUSTER_NODE_NAMESPACE="1")
        os.execvpe("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable,
                               *sys.argv], env)
    run(["ip", "link", "set", "lo", "up"])
    run(["ip", "addr", "add", ADDRESS + "/32", "dev", "lo"])
    # Where Services are: kube-proxy sends what this process and the API server ask of them on to their pods.
    run(["ip", "route", "add", "10.96.0.0/16", "dev", "lo", "src", ADDRESS])
    with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
        f.write("1")


class Dns(threading.Thread):
    """Answers A questions for services and pods with a hostname, from what the API server says, on ADDRESS:53."""

    def __init__(self, plane):
        super().__init__(daemon=True)
        self.plane = plane
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((ADDRESS, 53))

    def addresses(self, name):
        labels = name.lower().rstrip(".").split(".")
        if labels[-3:] != ["svc", "cluster", "local"] or len(labels) not in (5, 6):
            return []
        host, service, ns = (labels[:-5] or [None])[0], labels[-5], labels[-4]
        slices = json.loads(self.plane.request("GET", f"/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?"
                                               f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"))["items"]
        return [a for s in slices for e in s.get("endpoints") or [] for a in e["addresses"]
                if host is None or e.get("hostname") == host]

    def run(self):
        while True:
            question, peer = self.socket.recvfrom(4096)
            at, labels = 12, []
            while question[at]:
                labels.append(question[at + 1:at + 1 + question[at]].decode())
                at += 1 + question[at]
            kind = struct.unpack(">H", question[at + 1:at + 3])[0]
            try:
                found = self.addresses(".".join(labels))
            except (OSError, ValueError):
                found = []
            records = found if kind == 1 else []
            head = question[:2] + struct.pack(">HHHHH", 0x8580 if found else 0x8583, 1, len(records), 0, 0)
            body = b"".join(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04" + socket.inet_aton(a) for a in records)
            self.socket.sendto(head + question[12:at + 5] + body, peer)


def docker_archive(path, tag, files, entrypoint=None):
    """An image of one layer: {path: bytes, or a link's target as str}."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
    data = layer.getvalue()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps({"architecture": machine, "os": "linux", "config": {
        "Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}, "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": ["docker.io/" + tag], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, content in ((name, config), ("layer.tar", data), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


class Node:
    name = "node1"

    def __init__(self, plane):
        self.plane = plane
        self.folder = os.path.join(plane.folder, "node")
        self.state = os.path.join("/run", "muster-" + os.path.basename(plane.folder))  # sockets want short paths
        self.bin = binaries("kubelet", "kube-proxy", "helm")
        extracted = os.path.join(os.path.dirname(self.bin), "node", "usr")
        self.search = [os.environ.get("MUSTER_NODE_BIN", ""), extracted + "/bin", extracted + "/sbin",
                       *os.environ["PATH"].split(":"), "/usr/sbin", "/sbin"]
        self.cni = next((d for d in (extracted + "/lib/cni", "/usr/lib/cni", "/opt/cni/bin")
                         if os.path.exists(d + "/ptp")), None)
        self.containerd_path, self.ctr_path = self.program("containerd"), self.program("ctr")
        for name in ("runc", "nft"):
            self.program(name)
        self.grpc_python = next((p for p in (sys.executable, "/usr/bin/python3") if subprocess.run(
            [p, "-c", "import grpc"], stderr=subprocess.DEVNULL).returncode == 0), None)
        if not self.cni or not self.grpc_python:
            raise Skip(f"a real node needs {'grpcio' if self.cni else 'the CNI plugins'} (Debian: {PACKAGES})")
        self.containerd = self.kubelet = self.proxy = self.plugin = None

    def program(self, name):
        found = shutil.which(name, path=":".join(filter(None, self.search)))
        if not found:
            raise Skip(f"a real node needs {name} (Debian: {PACKAGES})")
        return found

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def ctr(self, *argv, ok=True):
        return run([self.ctr_path, "-a", self.state + "/containerd.sock", "-n", "k8s.io", *argv], ok=ok)

    def start_containerd(self):
        os.makedirs(self.state, exist_ok=True)
        # Routed, not bridged: answers of a Service's pod to another pod of this node pass kube-proxy's rules.
        self.write("cni/10-pods.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "pods", "plugins": [
                {"type": "ptp", "ipam": {
                    "type": "host-local", "dataDir": self.folder + "/cni-data", "ranges": [[{"subnet": PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        config = self.write("containerd.toml", f"""version = 2
root = "{self.folder}/containerd"
state = "{self.state}/state"
[grpc]
  address = "{self.state}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cni}"
    conf_dir = "{self.folder}/cni"
""")
        env = dict(os.environ, PATH=":".join(filter(None, self.search)))
        self.containerd = Process("containerd", [self.containerd_path, "-c", config],
                                  os.path.join(self.plane.folder, "containerd.log"), env).start()
        wait_for(lambda: self.containerd.check() and self.ctr("version", ok=False).returncode == 0, "containerd", 30)

    def import_images(self, *archives):
        source = self.write("pause.c", PAUSE_SOURCE)
        run(["gcc", "-static", "-O2", "-o", self.folder + "/pause", source])
        with open(self.folder + "/pause", "rb") as f:
            docker_archive(self.folder + "/pause.tar", PAUSE, {"pause": f.read()}, ["/pause"])
        links = {d: "usr/" + d for d in ("bin", "sbin", "lib", "lib64")}
        docker_archive(self.folder + "/host.tar", HOST, {
            **links, "etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "etc/nsswitch.conf": b"hosts: files dns\n",
            "tmp/.keep": b"", "root/.keep": b""})
        for archive in (self.folder + "/pause.tar", self.folder + "/host.tar", *archives):
            self.ctr("images", "import", archive)

    def start_proxy(self):
        c = self.plane.certs
        c.sign("kube-proxy", "/CN=system:kube-proxy", "clientAuth")
        self.plane.kubectl("create", "clusterrolebinding", "kube-proxy", "--clusterrole=system:node-proxier",
                           "--user=system:kube-proxy")
        config = self.write("kube-proxy.yaml", f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: {ADDRESS}
clientConnection: {{kubeconfig: {c.kubeconfig(c.path("kube-proxy.kubeconfig"), self.plane.server, "kube-proxy")}}}
clusterCIDR: {PODS}
mode: nftables
hostnameOverride: {self.name}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
""")
        self.proxy = Process("kube-proxy", [os.path.join(self.bin, "kube-proxy"), f"--config={config}"],
                             os.path.join(self.plane.folder, "kube-proxy.log"),
                             dict(os.environ, PATH=":".join(filter(None, self.search)))).start()

    def start_plugin(self):
        self.plugin = Process("device-plugin", [
            self.grpc_python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_plugin.py"),
            KUBELET + "/device-plugins", GPU, *GPUS], os.path.join(self.plane.folder, "device-plugin.log")).start()

        def told():
            self.plugin.check()
            node = json.loads(self.plane.kubectl("get", "node", self.name, "-o", "json").stdout)
            return node["status"]["allocatable"].get(GPU) == str(len(GPUS))
        wait_for(told, "the kubelet to tell its GPUs", 60)

    def start_kubelet(self):
        c = self.plane.certs
        for folder in (KUBELET, self.state + "/kubelet"):
            os.makedirs(folder, exist_ok=True)
        run(["mount", "--bind", self.state + "/kubelet", KUBELET])
        c.sign("kubelet", f"/O=system:nodes/CN=system:node:{self.name}", "clientAuth")
        c.sign("kubelet-server", f"/O=system:nodes/CN=system:node:{self.name}", "serverAuth",
               f"DNS:{self.name},IP:{ADDRESS}")
        kubeconfig = c.kubeconfig(c.path("kubelet.kubeconfig"), self.plane.server, "kubelet")
        config = self.write("kubelet.yaml", f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {ADDRESS}
readOnlyPort: 0
tlsCertFile: {c.path('kubelet-server.crt')}
tlsPrivateKeyFile: {c.path('kubelet-server.key')}
authentication: {{x509: {{clientCAFile: {c.path('ca.crt')}}}, webhook: {{enabled: true}}, anonymous: {{enabled: false}}}}
authorization: {{mode: Webhook}}
containerRuntimeEndpoint: unix://{self.state}/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /
failCgroupV1: false
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [{ADDRESS}]
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
podLogsDir: {self.folder}/pod-logs
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
""")
        self.kubelet = Process("kubelet", [
            os.path.join(self.bin, "kubelet"), f"--kubeconfig={kubeconfig}", f"--config={config}",
            f"--hostname-override={self.name}", f"--node-ip={ADDRESS}", f"--root-dir={self.folder}/kubelet",
            f"--cert-dir={self.folder}/kubelet-pki"], os.path.join(self.plane.folder, "kubelet.log"),
            dict(os.environ, PATH=":".join(filter(None, self.search)))).start()

        def ready():
            self.kubelet.check()
            text = self.plane.kubectl("get", "node", self.name, "-o", "json", ok=False).stdout
            conditions = json.loads(text)["status"]["conditions"] if text else []
            return any(x["type"] == "Ready" and x["status"] == "True" for x in conditions)
        wait_for(ready, "the node to be Ready", 90)

    def start(self, *archives):
        self.start_containerd()
        self.import_images(*archives)
        Dns(self.plane).start()
        self.start_kubelet()
        self.start_proxy()
        self.start_plugin()

    def stop(self):
        self.plane.kubectl("delete", "pods", "--all", "-A", "--force", "--grace-period=0", ok=False, limit=60)
        for process in (self.plugin, self.proxy, self.kubelet):
            if process:
                process.stop()
        if self.containerd and self.containerd.alive():
            for task in self.ctr("tasks", "ls", "-q", ok=False).stdout.split():
                self.ctr("tasks", "kill", "-s", "SIGKILL", task, ok=False)
            wait_for(lambda: not self.ctr("tasks", "ls", "-q", ok=False).stdout.split() or self._reap(), "containers to end", 20)
            self.containerd.stop()
        for line in reversed(open("/proc/mounts").read().splitlines()):
            where = line.split()[1]
            if where.startswith((self.folder, self.state, KUBELET)):
                subprocess.run(["umount", "-l", where], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.state, ignore_errors=True)

    def _reap(self):
        for task in self.ctr("tasks", "ls", "-q", ok=False).stdout.split():
            self.ctr("tasks", "rm", "-f", task, ok=False)
        return False
