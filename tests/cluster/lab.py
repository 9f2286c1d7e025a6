"""The cluster of the day: a control plane of Kubernetes, two nodes with kubelet and containerd, a registry, and a provisioner
that makes folders of a node. Everything in namespaces of its own; nothing of it stays.
"""

import concurrent.futures
import json
import os
import signal
import ssl
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", folder) for folder in ("e2e", "kubernetes")]
from controlplane import ControlPlane, binaries  # noqa: E402
from harness import BUILD, EXAMPLES, PATIENCE, binary, run, wait_for  # noqa: E402
from node import ADDRESS, Node, host_archive, stop_all  # noqa: E402
from provisioner import CLASS, Provisioner  # noqa: E402
from registry import Registry  # noqa: E402

CHART = os.path.join(ROOT, "deploy", "chart", "muster")
SYSTEM = "muster-system"
NODES, GPUS = 2, 2
# A node is away when its kubelet has said nothing for so long; Kubernetes' own default is 50 s.
GRACE = "20s"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: ubuntu, command: [sleep, "3600"], resources: {requests: {cpu: 10m}}}]
"""


class Lab:
    def __enter__(self):
        self.bin = binaries("kubelet", "kube-proxy", "helm", "kubectl")
        self.plane = ControlPlane(scheduler=True, address=ADDRESS, manager_flags=[f"--node-monitor-grace-period={GRACE}"])
        self.nodes = [Node(self.plane, number, GPUS) for number in range(1, NODES + 1)]
        self.folder = self.plane.folder
        self.provisioner = Provisioner(self.plane, self.folder)
        self.said = []  # of the step that goes on
        self.beside = concurrent.futures.ThreadPoolExecutor()  # as long as the nodes: a process ends with its thread
        image = os.path.join(self.folder, "muster.tar")
        try:
            building = self.beside.submit(
                run, [os.path.join(ROOT, "deploy", "image", "build.py"), "--build", BUILD, "--out", image], limit=400)
            self.plane.start()
            archive = os.path.join(self.folder, "host.tar")
            host_archive(archive)
            Registry(ADDRESS, archive).start()
            building.result()
            for started in [self.beside.submit(node.start, image) for node in self.nodes]:
                started.result()
            self.apply(CLASS)
            self.provisioner.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.provisioner.ended.set()
        try:
            stop_all(self.plane, self.nodes)
        finally:
            self.plane.stop()
            self.beside.shutdown()

    def say(self, words):
        self.said.append(words)

    def kubectl(self, *argv, **options):
        return self.plane.kubectl(*argv, **options)

    def get(self, *argv):
        return json.loads(self.kubectl("get", *argv, "-o", "json").stdout)

    def apply(self, text):
        self.kubectl("apply", "-f", "-", input=text)

    def apply_example(self, name):
        self.kubectl("apply", "-f", os.path.join(EXAMPLES, name))

    def helm(self, *argv):
        wait = ["--wait", "--timeout", f"{200 * PATIENCE:.0f}s"]
        return run([os.path.join(self.bin, "helm"), *argv, "--namespace", SYSTEM, *wait], limit=240,
                   env=dict(os.environ, KUBECONFIG=self.plane.kubeconfig, HOME=self.folder))

    def torchrun(self, *argv, kubeconfig=None, cwd=None, limit=240, ok=True):
        env = dict(os.environ, KUBECONFIG=kubeconfig or self.plane.kubeconfig, HOME=self.folder,
                   PATH=f"{os.path.dirname(binary('muster'))}:{self.bin}:{os.environ['PATH']}")
        return run([binary("kubectl-torchrun"), *argv], env=env, cwd=cwd, limit=limit, ok=ok)

    def source(self, **files):
        """A folder with a person's code: {name without .py: text}"""
        folder = tempfile.mkdtemp(dir=self.folder)
        for name, text in files.items():
            with open(os.path.join(folder, name + ".py"), "w") as f:
                f.write(text)
        return folder

    def pods(self, *where):
        return [p for p in self.get("pods", *where)["items"] if not p["metadata"].get("deletionTimestamp")]

    def running(self, *where):
        return [p for p in self.pods(*where) if p["status"].get("phase") == "Running"]

    def logs(self, *argv):
        return self.kubectl("logs", *argv, ok=False).stdout

    def binds(self, name, limit=90):
        """A pod for which nobody has to wait is bound by our scheduler, and runs; then it goes."""
        self.apply(POD.replace("NAME", name))
        wait_for(lambda: self.get("pod", name)["status"]["phase"] == "Running", f"pod {name} to run", limit)
        self.kubectl("delete", "pod", name, "--wait=false")

    def operators(self):
        """Replicas that are ready."""
        return [p for p in self.pods("-n", SYSTEM) if {"type": "Ready", "status": "True"}.items() <=
                next((c for c in p["status"].get("conditions", []) if c["type"] == "Ready"), {}).items()]

    def restarts(self):
        return {p["metadata"]["name"]: sum(s["restartCount"] for s in p["status"].get("containerStatuses", []))
                for p in self.pods("-n", SYSTEM)}

    def leader(self):
        """The name of the pod that holds the Lease."""
        return self.get("lease", "muster-operator", "-n", SYSTEM)["spec"].get("holderIdentity", "").split("_")[0]

    def wait_until_led(self, by_another_than=None):
        wait_for(lambda: self.leader() in [p["metadata"]["name"] for p in self.operators()] and
                 self.leader() != by_another_than, "an operator to lead", 120)

    def pid(self, pod):
        """Of the first container of a pod, on this machine."""
        node = next(n for n in self.nodes if n.name == pod["spec"]["nodeName"])
        container = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        lines = node.ctr("tasks", "ls").stdout.splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(container)))

    def signal(self, pods, number):
        for pod in pods:
            os.kill(self.pid(pod), number)

    def kill_leader(self):
        name = self.leader()
        self.signal([p for p in self.pods("-n", SYSTEM) if p["metadata"]["name"] == name], signal.SIGKILL)
        return name

    def metric(self, name):
        """Summed over the replicas that answer."""
        total = 0.0
        for pod in self.operators():
            path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
            for line in self.plane.request("GET", path).splitlines():
                if line.split(" ")[0].split("{")[0] == name:
                    total += float(line.split()[-1])
        return total

    def refused(self, manifest, words):
        """The API server asks our webhooks about it, and they answer."""
        def asked():
            said = self.kubectl("create", "--dry-run=server", "-f", "-", input=manifest, ok=False).stderr
            return words in said
        wait_for(asked, f"to be refused with {words!r}", 60)

    def certificate_of_server(self):
        return ssl.get_server_certificate(("127.0.0.1", self.plane.port))

    def dump(self, path):
        """What somebody wants to see who looks for the reason."""
        with open(path, "w") as f:
            for argv in (["get", "pods,torchrunjobs,pytorchjobs,trainjobs,pytorchtrainingjobs,pvc,pv,nodes", "-A", "-o", "wide"],
                         ["get", "events", "-A", "--sort-by=.lastTimestamp"], ["describe", "pods", "-A"],
                         ["logs", "deploy/muster-operator", "-n", SYSTEM, "--all-pods", "--tail=200"]):
                f.write(f"--- kubectl {' '.join(argv)}\n{self.kubectl(*argv, ok=False).stdout}\n")
            for pod in self.get("pods", "-A")["items"]:
                where = [pod["metadata"]["name"], "-n", pod["metadata"]["namespace"]]
                f.write(f"--- {' '.join(where)}\n{self.logs(*where, '--all-containers')[-3000:]}\n")
