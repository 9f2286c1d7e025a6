#!/usr/bin/env python3
"""run.py: on a machine with an NVIDIA GPU, show that Muster finds it, trains on it and shares it.

Needs nothing but the programs (MUSTER_BUILD, default: build/) and a Python that can import torch. Says what it
does and what it saw; ends with `N passed, N failed, N skipped`.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("MUSTER_BUILD", os.path.join(ROOT, "build")))

TRAIN = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
print("nccl", ".".join(map(str, torch.cuda.nccl.version())), "on", torch.cuda.get_device_name(), "sum", total.item())
torch.manual_seed(0)
x = torch.randn(4096, 256, device="cuda")
y = x @ torch.randn(256, 8, device="cuda")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 8).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(200):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step % 50 == 0 or step == 199:
        print("step", step, "loss", round(loss.item(), 5), flush=True)
assert loss.item() < 1.0, loss
dist.destroy_process_group()
"""

SHARE = """
import os, time, torch
x = torch.ones(1 << 28, device="cuda")
print("devices", torch.cuda.device_count(), "portion", os.environ.get("GPU_PORTION"), "sum", int(x.sum().item()),
      flush=True)
time.sleep(600)
"""

HELD = """
import torch
free, total = torch.cuda.mem_get_info()
print("a card of", total >> 20, "MiB")
try:
    x = torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError as e:
    print("refused:", str(e).splitlines()[0][:100])
x = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
print("3 GiB fit", flush=True)
"""


class Cluster:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="muster-gpu-")
        self.kubeconfig = os.path.join(self.folder, "kubeconfig")
        self.env = dict(os.environ, KUBECONFIG=self.kubeconfig, NO_COLOR="1")
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen([os.path.join(BUILD, "muster"), "up", "--data-dir", self.folder + "/data",
                                         "--listen", "127.0.0.1:0", "--kubeconfig-out", self.kubeconfig],
                                        stdout=self.log, stderr=self.log, env=self.env)
        self.wait(lambda: os.path.exists(self.kubeconfig), "muster up")
        with open(self.kubeconfig) as f:
            self.config = f.read()
        self.server = self.field("server")
        self.token = self.field("token")
        self.tls = ssl._create_unverified_context()
        self.wait(lambda: self.call("GET", "/api/v1/nodes")["items"], "the node")

    def field(self, name):
        return next(line.split(":", 1)[1].strip().strip('"') for line in self.config.splitlines()
                    if line.strip().startswith(name + ":"))

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.server + path, method=method,
                                         data=json.dumps(body).encode() if body else None,
                                         headers={"Authorization": "Bearer " + self.token,
                                                  "Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=self.tls, timeout=30) as answer:
            data = answer.read().decode()
        return json.loads(data) if data.startswith("{") else data

    def wait(self, condition, what, limit=120):
        end = time.monotonic() + limit
        last = None
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                last = condition()
                if last:
                    return last
            except (OSError, KeyError, urllib.error.URLError) as e:
                last = e
            time.sleep(0.05)
        self.log.seek(0)
        raise AssertionError(f"waited for {what}; last seen: {last!r}\n{self.log.read()[-3000:]}")

    def pod(self, name, command, annotations=None, **container):
        body = {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "annotations": annotations or {},
                             "labels": {"kai.scheduler/queue": "default-queue"}},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                         "schedulerName": "kai-scheduler",
                         "containers": [{"name": "main", "image": "none", "command": command, **container}]}}
        self.call("POST", "/api/v1/namespaces/default/pods", body)

    def get(self, name):
        return self.call("GET", f"/api/v1/namespaces/default/pods/{name}")

    def logs(self, name):
        return self.call("GET", f"/api/v1/namespaces/default/pods/{name}/log")

    def close(self):
        try:
            self.call("DELETE", "/api/v1/namespaces/default/pods")
            # Those that stand for parts of muster itself stay.
            others = "/api/v1/pods?labelSelector=app.kubernetes.io%2Fmanaged-by%21%3Dmuster"
            self.wait(lambda: not self.call("GET", others)["items"], "pods to go", 30)
        finally:
            self.process.terminate()
            self.process.wait(20)
            shutil.rmtree(self.folder, ignore_errors=True)


def test_the_node_shows_the_card(c):
    node = c.call("GET", "/api/v1/nodes")["items"][0]
    labels = {k: v for k, v in node["metadata"]["labels"].items() if k.startswith("nvidia.com/")}
    print("capacity nvidia.com/gpu:", node["status"]["capacity"]["nvidia.com/gpu"], labels)
    assert int(node["status"]["capacity"]["nvidia.com/gpu"]) >= 1


def test_a_job_trains_with_nccl(c):
    c.call("POST", "/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunqueues",
           {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "gpu"},
            "spec": {"nodeResources": {"gpus": 1, "cpus": 4, "memory": "16Gi"}}})
    project = os.path.join(c.folder, "project")
    os.mkdir(project)
    with open(os.path.join(project, "train.py"), "w") as f:
        f.write(TRAIN)
    done = subprocess.run([os.path.join(BUILD, "kubectl-torchrun"), "submit", "--queue", "gpu", "--gpus", "1",
                           "python train.py"], cwd=project, env=c.env, text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    assert done.returncode == 0 and "step 199" in done.stdout, done.returncode


def test_two_pods_share_the_card(c):
    for name in ("half-a", "half-b"):
        c.pod(name, [sys.executable, "-c", SHARE], annotations={"gpu-fraction": "0.5"})
    for name in ("half-a", "half-b"):
        c.wait(lambda n=name: "sum 268435456" in c.logs(n), f"{name} to use the card")
    for name in ("half-a", "half-b"):
        print(name, c.get(name)["status"]["phase"], c.logs(name).strip())
        assert c.get(name)["status"]["phase"] == "Running"
    for name in ("half-a", "half-b"):  # the next ones need room on the card
        c.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")


def test_a_pod_is_held_to_its_share(c):
    c.pod("held", [sys.executable, "-c", HELD], annotations={"gpu-memory": "4096"})
    c.wait(lambda: c.get("held")["status"]["phase"] in ("Succeeded", "Failed"), "the pod to end")
    said = c.logs("held")
    print(said.strip())
    assert "a card of 4096 MiB" in said and "refused: CUDA out of memory" in said and "3 GiB fit" in said


def test_a_pod_without_gpus_sees_none(c):
    c.pod("none", [sys.executable, "-c", "import torch; print('cuda', torch.cuda.is_available())"])
    c.wait(lambda: c.get("none")["status"]["phase"] in ("Succeeded", "Failed"), "the pod to end")
    print(c.logs("none").strip())
    assert "cuda False" in c.logs("none")


def test_memory_limits_hold(c):
    c.pod("hog", [sys.executable, "-c", "x = bytearray(1 << 30)"], resources={"limits": {"memory": "128Mi"}})
    state = c.wait(lambda: c.get("hog")["status"]["containerStatuses"][0]["state"].get("terminated"), "the end")
    fs = subprocess.run(["stat", "-f", "-c", "%T", "/sys/fs/cgroup"], text=True, stdout=subprocess.PIPE).stdout
    print("cgroups:", fs.strip(), "->", state["reason"], state["exitCode"])
    assert state["reason"] == "OOMKilled", state


def main():
    failed = passed = 0
    c = Cluster()
    try:
        for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
            print("==", name[5:].replace("_", " "), flush=True)
            try:
                test(c)
                passed += 1
            except Exception:
                traceback.print_exc()
                failed += 1
    finally:
        c.log.seek(0)
        print("-- muster up\n" + c.log.read()[-2000:])
        c.close()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
