"""The machine as nodes: what they have, what they are called, that they live, and what doctor says of them."""

import os
import platform
import re
import tempfile

from harness import Muster, Skip, binary, check, run, torch_pythons, wait_for

FLAGS = ("--cpus-per-node", "96", "--memory-per-node", "512Gi", "--gpu-time-slices", "3",
         "--node-labels", "rack=r1,example.com/disk=ssd")


def test_virtual_nodes_have_what_they_were_told_and_live():
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        nodes = {n["metadata"]["name"]: n for n in m.get("nodes")}
        check(sorted(n for n in nodes if n.startswith("node-")) == ["node-0", "node-1"], str(list(nodes)))
        for name in ("node-0", "node-1"):
            status, labels = nodes[name]["status"], nodes[name]["metadata"]["labels"]
            for amounts in (status["capacity"], status["allocatable"]):
                check((amounts["cpu"], amounts["nvidia.com/gpu"]) == ("96", "12"), str(amounts))
                check(amounts["memory"] == "512Gi" and amounts["pods"] not in ("", "0"), str(amounts))
                check({"ephemeral-storage", "hugepages-2Mi"} <= set(amounts), str(amounts))
            wanted = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "rack": "r1",
                      "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
                      "example.com/disk": "ssd", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "4",
                      "nvidia.com/gpu.replicas": "3"}
            check({k: labels.get(k) for k in wanted} == wanted, str(labels))
            check("topology.kubernetes.io/zone" in labels and int(labels["nvidia.com/gpu.memory"]) > 0, str(labels))
            check(labels["nvidia.com/gpu.product"].endswith("-SHARED"), str(labels))
            conditions = {c["type"]: c["status"] for c in status["conditions"]}
            check(conditions["Ready"] == "True" and conditions["DiskPressure"] == "False", str(conditions))

        def renewed():
            return m.get("lease", "node-0", ns="kube-node-lease")["spec"]["renewTime"]
        first = wait_for(renewed, "the lease of the node", 40)
        wait_for(lambda: renewed() != first, "the lease to be renewed", 40)
        described = m.kubectl("describe", "node", "node-1").stdout
        check("nvidia.com/gpu:" in described and "Kubelet Version" in described, described)


def test_doctor_says_what_the_conditions_say():
    with Muster() as m:
        said = run([binary("muster"), "doctor", "--data-dir", m.data], env=m.env, ok=False).stdout.splitlines()
        marks = {line[1:17].strip(): line[0] for line in said if line[:1] in "✓✗-"}
        check({"root", "namespaces", "overlay", "control groups", "GPUs", "PyTorch", "crun"} <= set(marks), str(said))
        conditions = {c["type"]: c["status"] for c in m.get("node", "node-0")["status"]["conditions"]}
        for finding, condition in (("namespaces", "PodsIsolated"), ("overlay", "WritableRoot"),
                                   ("control groups", "LimitsEnforced")):
            check((marks[finding] == "✓") == (conditions[condition] == "True"), f"{finding}: {marks} {conditions}")
        for at, line in enumerate(said):
            check(line[:1] not in ("✗", "-") or said[at + 1].startswith("   "), f"no fix for: {line}")
        required = said[said.index("Required:"):said.index("Optional:")]
        check(any("muster-launch" in line for line in required) and not any("crun" in line for line in required), str(said))


def test_doctor_finds_the_pytorch_that_jobs_run_with():
    found = [version for python, version in torch_pythons() if python == "/usr/bin/python3"]
    if not found:
        raise Skip("/usr/bin/python3 cannot import torch")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("python", "python3"):  # first on PATH, and without torch
            with open(os.path.join(folder, name), "w") as f:
                f.write("#!/bin/sh\nexit 1\n")
            os.chmod(os.path.join(folder, name), 0o755)
        env = dict(os.environ, PATH=f"{folder}:/usr/bin:/bin")
        said = run([binary("muster"), "doctor", "--data-dir", folder], env=env, ok=False).stdout
        check(re.search(r"✓ PyTorch +\d.*/usr/bin/python3", said), said)
