"""Real nodes for a ControlPlane: containerd, kubelet, kube-proxy and a device plugin each. The first is in the network and mount
namespaces of this process, every other in its own, with a cable to the first.

Call own_namespaces() first: it makes them and runs the program again inside, so that nothing of the host's network is
touched. Programs are looked for in $MUSTER_NODE_BIN, in the cache of binaries.sh (node/) and in PATH; Skip when
something is missing. Images are made here and imported. What they need of a system, and a Python with PyTorch, every container
has from this machine: the runtime mounts it, as it does with the libraries of a GPU, so pods need no volume for it.
"""

import contextlib
import functools
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
from harness import Skip, cached_torch, python_with, run, wait_for

ADDRESS = "10.250.0.1"  # of the first node and the control plane; the others count on
GPU = "nvidia.com/gpu"
KUBELET = "/var/lib/kubelet"  # where a kubelet and device plugins meet, whatever its own folder is
PACKAGES = "containerd, runc, containernetworking-plugins, nftables, python3-grpcio"
ALL_PODS = "10.244.0.0/16"
PAUSE = "local/pause:1"
HOST = "local/host:1"  # nothing but links to what is mounted into every container
MOUNTED_USR = "host/usr"  # not /usr, where an image may have its own
CGROUPS = "/sys/fs/cgroup"
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


def docker_archive(path, tag, files, entrypoint=None, env=()):
    """An image of one layer: {path: bytes, a link's target as str, or None for a folder where everybody may write}."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
            else:
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
    data = layer.getvalue()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = json.dumps({"architecture": machine, "os": "linux", "config": {
        "Entrypoint": entrypoint, "Env": list(env)}, "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": ["docker.io/" + tag], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, content in ((name, config), ("layer.tar", data), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def host_archive(path):
    """The image whose system is this machine's /usr."""
    links = {d: f"{MOUNTED_USR}/{d}" for d in ("bin", "sbin", "lib", "lib64")}
    chosen = "etc/alternatives"  # where Debian's libraries of linear algebra are links to
    links.update({f"{chosen}/{name}": os.readlink(f"/{chosen}/{name}") for name in
                  (os.listdir("/" + chosen) if os.path.isdir("/" + chosen) else ()) if os.path.islink(f"/{chosen}/{name}")})
    docker_archive(path, HOST, {
        **links, "usr": MOUNTED_USR, "etc/passwd": b"root:x:0:0::/root:/bin/sh\n", "etc/nsswitch.conf": b"hosts: files dns\n",
        "tmp": None, "root/.keep": b""},
        env=[f"PATH={python_places()[0]}:/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS=1"])


@functools.cache
def python_places():
    """(the folder of this machine's Python with PyTorch, every folder it is installed in beside /usr)"""
    known = cached_torch()
    python = known[0][0] if known else python_with("torch")
    asked = "import sys, os; print(sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix))"
    places = run([python, "-c", asked]).stdout.split()
    return os.path.dirname(python), sorted({p for p in places if not (p + "/").startswith("/usr/")})


class Node:
    """Node `number` of a ControlPlane(address=ADDRESS), with so many GPUs."""

    def __init__(self, plane, number=1, gpus=2):
        self.plane, self.number, self.name = plane, number, f"node{number}"
        self.address, self.pods = f"10.250.0.{number}", f"10.244.{number}.0/24"
        self.gpus = [f"GPU-3f1a{number:02}{i:02}" for i in range(1, gpus + 1)]
        self.folder = os.path.join(plane.folder, self.name)
        self.state = os.path.join("/run", f"{os.path.basename(plane.folder)}-{number}")  # sockets want short paths
        self.cgroup = os.path.basename(self.state)
        self.bin = binaries("kubelet", "kube-proxy", "helm")
        extracted = os.path.join(os.path.dirname(self.bin), "node", "usr")
        self.search = ":".join(filter(None, [os.environ.get("MUSTER_NODE_BIN"), extracted + "/bin", extracted + "/sbin",
                                             os.environ["PATH"], "/usr/sbin:/sbin"]))
        self.cni = next((d for d in (extracted + "/lib/cni", "/usr/lib/cni", "/opt/cni/bin")
                         if os.path.exists(d + "/ptp")), None)
        self.containerd_path, self.ctr_path = self.program("containerd"), self.program("ctr")
        for name in ("runc", "nft"):
            self.program(name)
        self.grpc_python = next((p for p in (sys.executable, "/usr/bin/python3") if subprocess.run(
            [p, "-c", "import grpc"], stderr=subprocess.DEVNULL).returncode == 0), None)
        if not self.cni or not self.grpc_python:
            raise Skip(f"a real node needs {'grpcio' if self.cni else 'the CNI plugins'} (Debian: {PACKAGES})")
        self.inside = []  # in front of what runs in namespaces of the node's own
        self.house = self.containerd = self.kubelet = self.proxy = self.plugin = None

    def program(self, name):
        found = shutil.which(name, path=self.search)
        if not found:
            raise Skip(f"a real node needs {name} (Debian: {PACKAGES})")
        return found

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def process(self, name, *argv):
        """A program of the node, started; its log is NAME-NODE.log in the folder of the control plane."""
        log = os.path.join(self.plane.folder, f"{name}-{self.name}.log")
        return Process(f"{name} of {self.name}", [*self.inside, *argv], log, dict(os.environ, PATH=self.search)).start()

    def run(self, *argv, ok=True):
        return run([*self.inside, *argv], ok=ok)

    def ctr(self, *argv, ok=True):
        return self.run(self.ctr_path, "-a", self.state + "/containerd.sock", "-n", "k8s.io", *argv, ok=ok)

    def start_house(self):
        """Namespaces of its own, a cable to the first node, and the ways between their pods."""
        if self.number == 1:
            return
        os.makedirs(self.folder, exist_ok=True)
        self.house = self.process("house", "unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity")
        pid = str(self.house.process.pid)
        wait_for(lambda: os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"), "namespaces of a node", 20)
        self.inside = ["nsenter", "--target", pid, "--net", "--mount"]
        near, far = f"10.251.{self.number}.1", f"10.251.{self.number}.2"
        run(["ip", "link", "add", self.name, "type", "veth", "peer", "name", "node1", "netns", pid])
        run(["ip", "addr", "add", near + "/30", "dev", self.name])
        run(["ip", "link", "set", self.name, "up"])
        for argv in (["link", "set", "lo", "up"], ["addr", "add", self.address + "/32", "dev", "lo"],
                     ["addr", "add", far + "/30", "dev", "node1"], ["link", "set", "node1", "up"],
                     ["route", "add", "10.96.0.0/16", "dev", "lo", "src", self.address],
                     ["route", "add", ADDRESS, "via", near, "src", self.address],
                     ["route", "add", "10.244.1.0/24", "via", near, "src", self.address]):
            self.run("ip", *argv)
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for to in (self.address, self.pods):
            run(["ip", "route", "add", to, "via", far, "src", ADDRESS])

    def start_cgroups(self):
        """Where the kubelet may make those of its pods: two on one machine must not clear each other's away."""
        for folder in self.cgroups():
            os.makedirs(folder, exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(os.path.join(folder, name)):
                    with open(os.path.join(os.path.dirname(folder), name)) as above, open(os.path.join(folder, name), "w") as f:
                        f.write(above.read())

    def cgroups(self):
        """One in each hierarchy; systemd leaves empty folders of those that there are not."""
        return [os.path.join(folder, self.cgroup) for folder in
                ([CGROUPS] if os.path.exists(CGROUPS + "/cgroup.controllers") else
                 [entry.path for entry in os.scandir(CGROUPS) if entry.is_dir(follow_symlinks=False) and
                  os.path.exists(entry.path + "/cgroup.procs")])]

    def base_spec(self):
        """What containerd begins each container's specification with: its own default, and what of this machine is in all."""
        spec = json.loads(self.ctr("oci", "spec").stdout)
        spec["process"].pop("rlimits", None)
        for place in ("/usr", *python_places()[1]):
            spec["mounts"].append({"destination": "/" + MOUNTED_USR if place == "/usr" else place, "source": place,
                                   "type": "bind", "options": ["rbind", "ro"]})
        return self.write("base-spec.json", json.dumps(spec))

    def start_containerd(self):
        os.makedirs(self.state, exist_ok=True)
        # Routed, not bridged: answers of a Service's pod to another pod of this node pass kube-proxy's rules.
        self.write("cni/10-pods.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "pods", "plugins": [
                {"type": "ptp", "ipam": {
                    "type": "host-local", "dataDir": self.folder + "/cni-data", "ranges": [[{"subnet": self.pods}]],
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
      base_runtime_spec = "{self.base_spec()}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.cni}"
    conf_dir = "{self.folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{self.folder}/registries"
""")
        # Whoever serves images to the nodes (registry.py) does it here, whatever the name in front of them.
        self.write("registries/_default/hosts.toml", f"""[host."http://{ADDRESS}:5000"]
  capabilities = ["pull", "resolve"]
""")
        self.containerd = self.process("containerd", self.containerd_path, "-c", config)
        wait_for(lambda: self.containerd.check() and self.ctr("version", ok=False).returncode == 0, "containerd", 30)

    def import_images(self, *archives):
        source = self.write("pause.c", PAUSE_SOURCE)
        run(["gcc", "-static", "-O2", "-o", self.folder + "/pause", source])
        with open(self.folder + "/pause", "rb") as f:
            docker_archive(self.folder + "/pause.tar", PAUSE, {"pause": f.read()}, ["/pause"])
        host_archive(self.folder + "/host.tar")
        for archive in (self.folder + "/pause.tar", self.folder + "/host.tar", *archives):
            self.ctr("images", "import", archive)

    def start_proxy(self):
        c = self.plane.certs
        user = f"kube-proxy-{self.name}"
        c.sign(user, "/CN=system:kube-proxy", "clientAuth")
        self.plane.kubectl("create", "clusterrolebinding", "kube-proxy", "--clusterrole=system:node-proxier",
                           "--user=system:kube-proxy", ok=False)
        config = self.write("kube-proxy.yaml", f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
bindAddress: {self.address}
clientConnection: {{kubeconfig: {c.kubeconfig(c.path(user + ".kubeconfig"), self.plane.outside, user)}}}
clusterCIDR: {ALL_PODS}
mode: nftables
hostnameOverride: {self.name}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
""")
        self.proxy = self.process("kube-proxy", os.path.join(self.bin, "kube-proxy"), f"--config={config}")

    def start_plugin(self):
        self.plugin = self.process("device-plugin", self.grpc_python,
                                   os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_plugin.py"),
                                   KUBELET + "/device-plugins", GPU, *self.gpus)

        def told():
            self.plugin.check()
            node = json.loads(self.plane.kubectl("get", "node", self.name, "-o", "json").stdout)
            return node["status"]["allocatable"].get(GPU) == str(len(self.gpus))
        wait_for(told, f"the kubelet of {self.name} to tell its GPUs", 60)

    def start_kubelet(self):
        c = self.plane.certs
        for folder in (KUBELET, self.state + "/kubelet"):
            os.makedirs(folder, exist_ok=True)
        if not self.kubelet:
            self.run("mount", "--bind", self.state + "/kubelet", KUBELET)
        client, server = f"kubelet-{self.name}", f"kubelet-server-{self.name}"
        c.sign(client, f"/O=system:nodes/CN=system:node:{self.name}", "clientAuth")
        c.sign(server, f"/O=system:nodes/CN=system:node:{self.name}", "serverAuth", f"DNS:{self.name},IP:{self.address}")
        kubeconfig = c.kubeconfig(c.path(client + ".kubeconfig"), self.plane.outside, client)
        config = self.write("kubelet.yaml", f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {self.address}
readOnlyPort: 0
tlsCertFile: {c.path(server + '.crt')}
tlsPrivateKeyFile: {c.path(server + '.key')}
authentication: {{x509: {{clientCAFile: {c.path('ca.crt')}}}, webhook: {{enabled: true}}, anonymous: {{enabled: false}}}}
authorization: {{mode: Webhook}}
containerRuntimeEndpoint: unix://{self.state}/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /{self.cgroup}
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
serializeImagePulls: false
""")
        self.kubelet = self.process(
            "kubelet", os.path.join(self.bin, "kubelet"), f"--kubeconfig={kubeconfig}", f"--config={config}",
            f"--hostname-override={self.name}", f"--node-ip={self.address}", f"--root-dir={self.folder}/kubelet",
            f"--cert-dir={self.folder}/kubelet-pki")
        wait_for(self.ready, f"{self.name} to be Ready", 90)

    def ready(self):
        self.kubelet.check()
        text = self.plane.kubectl("get", "node", self.name, "-o", "json", ok=False).stdout
        conditions = json.loads(text)["status"]["conditions"] if text else []
        return any(x["type"] == "Ready" and x["status"] == "True" for x in conditions)

    def start(self, *archives):
        self.start_house()
        self.start_cgroups()
        self.start_containerd()
        self.import_images(*archives)
        if self.number == 1:
            Dns(self.plane).start()
        self.start_kubelet()
        self.start_proxy()
        self.start_plugin()

    def stop(self):
        """Once its pods are deleted."""
        for process in (self.plugin, self.proxy, self.kubelet):
            if process:
                process.stop()
        if self.containerd and self.containerd.alive():
            for task in self.ctr("tasks", "ls", "-q", ok=False).stdout.split():
                self.ctr("tasks", "kill", "-s", "SIGKILL", task, ok=False)
            wait_for(lambda: not self.ctr("tasks", "ls", "-q", ok=False).stdout.split() or self._reap(), "containers to end", 20)
            self.containerd.stop()
        if self.house:
            self.house.stop()
        for line in reversed(open("/proc/mounts").read().splitlines()):
            where = line.split()[1]
            if where.startswith((self.folder + "/", self.state + "/")) or where == KUBELET and self.number == 1:
                subprocess.run(["umount", "-l", where], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.state, ignore_errors=True)
        for top in self.cgroups():
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # a process that still ends
                    os.rmdir(folder)

    def _reap(self):
        for task in self.ctr("tasks", "ls", "-q", ok=False).stdout.split():
            self.ctr("tasks", "rm", "-f", task, ok=False)
        return False


def stop_all(plane, nodes):
    plane.kubectl("delete", "pods", "--all", "-A", "--force", "--grace-period=0", "--wait=false", ok=False, limit=60)
    for node in reversed(nodes):
        node.stop()
