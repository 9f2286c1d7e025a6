"""`Muster` of the end-to-end tests on a real control plane: the same test files, another server below.

Nodes are `muster hollow-nodes --processes`, so pods are processes of this machine, and kubectl logs, exec and
port-forward go through the real API server to them. The operator runs beside it, with the scheduler for every pod,
as embedded: no other scheduler is there; its webhooks check the kinds and prepare pods that share GPUs, which
reservation pods hold. kill() and start() crash and restart both; the API server stays.
"""

import fcntl
import os
import re
import socket

import harness
from controlplane import Process
from harness import Failure, Skip, binary, wait_for
from webhooks import WebhookCluster

# Of `muster up`: what the nodes are told, what the operator is.
NODE_FLAGS = {"--cpus-per-node", "--memory-per-node", "--node-labels", "--gpu-time-slices", "--images", "--pod-network"}
# The first that two network namespaces of this machine are not likely to use; one for each control plane.
NETWORKS = range(240, 250)
PODS = "/api/v1/pods"


def free_network():
    """X of a 10.X.0.0/16 that no interface of this machine has, held by a lock file while this process lives."""
    for number in NETWORKS:
        lock = open(f"/tmp/muster-network-{number}.lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        try:
            socket.create_server((f"10.{number}.0.1", 0)).close()
        except OSError:  # not an address of this machine
            free_network.held = lock
            return number
    raise Failure("10.240.0.0 to 10.249.0.0 are all in use")


class ProcessCluster(WebhookCluster):
    def __init__(self, nodes=1, gpus_per_node=0, flags=(), env=None, path_first=None, pytorch=False):
        super().__init__(nodes=nodes, gpus_per_node=gpus_per_node, env=env, sharing=True)
        self.add_entrypoint()
        path_first = path_first or harness.torchrun_of_pods(pytorch)
        if path_first:
            self.env["PATH"] = harness.BUILD + ":" + path_first + ":" + self.env["PATH"]
        self.data = os.path.join(self.folder, "data")
        self.listen = self.plane.server.split("//")[1]
        self.operator_flags += ["--scheduler-name", ""]
        flags = [part for flag in flags for part in (flag.split("=", 1) if flag.startswith("--") else [flag])]
        for flag, value in zip(flags[::2], flags[1::2]):
            if flag not in NODE_FLAGS:
                self.operator_flags += [flag, value]
            elif flag == "--node-labels":
                self.node_flags += [part for label in value.split(",") for part in ("--label", label)]
            else:
                self.node_flags += [flag, re.sub("Gi$", "", value)]

    def manifest(self):
        """Every pod is the operator's, so every pod is asked about."""
        return super().manifest().replace("object.spec.schedulerName == 'kai-scheduler'", "true")

    def webhook_flags(self, port):
        """Where pods reach it too, without a service network: at the address of their node."""
        return [f"--webhook-listen=0.0.0.0:{port}", f"--progress-url=https://10.{self.plane.network}.0.1:{port}"]

    def add_entrypoint(self):
        """What the image of a pod that holds a shared GPU would run: here images are this machine."""
        folder = os.path.join(self.folder, "bin")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "reserve-gpu")
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\nexec {binary('muster')} reserve-gpu\n")
        os.chmod(path, 0o755)
        self.env["PATH"] += ":" + folder

    def start_nodes(self):
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        with open(os.path.join(self.data, "network"), "w") as f:
            f.write(f"{self.plane.network}\n")
        size = [] if "--cpus-per-node" in self.node_flags else ["--cpus-per-node", str(os.cpu_count())]
        self.hollow = Process("hollow-nodes", [
            binary("muster"), "hollow-nodes", str(self.nodes), "--kubeconfig", self.kubeconfig, "--prefix", "node",
            "--processes", self.data, "--pod-network", "bridge", "--gpus-per-node", str(self.gpus), *size,
            *self.node_flags], os.path.join(self.folder, "hollow.log"), env=self.env).start()

        def usable():
            if not self.hollow.alive() and "pod network: " in self.hollow.tail():
                raise Skip(self.hollow.tail(1).strip())
            self.hollow.check()
            nodes = self.get("nodes")
            return len(nodes) >= self.nodes and not any(n["spec"].get("taints") for n in nodes)
        wait_for(usable, f"{self.nodes} nodes", 60)

    # Pods run: nothing is beyond reach.
    kubectl = harness.Muster.kubectl
    said = harness.Muster.said
    torchrun = harness.Muster.torchrun

    @property
    def process(self):
        return self.hollow.process if self.hollow else None

    def dump(self):
        super().dump()
        if self.hollow:
            print("--- hollow-nodes\n" + self.hollow.tail(30))

    def kill(self):
        for operator in self.operators:
            operator.kill()
        self.operators = []
        self.hollow.kill()

    def stop(self):
        """Jobs go first, while somebody acts on it; then the pods, by the nodes that run them."""
        if self.hollow and self.hollow.alive():
            try:
                for path in filter(None, map(self.rest.path, harness.JOBS.split(","))):
                    for job in self.rest.get(path)["items"]:
                        self.rest.delete_item(path, job, propagationPolicy="Background")
                for pod in self.rest.get(PODS)["items"]:
                    self.rest.delete_item(PODS, pod, gracePeriodSeconds=1)
                wait_for(lambda: not self.rest.get(PODS)["items"], "the pods to end", 20)
            except (Failure, OSError) as e:
                print(e)
        super().stop()

