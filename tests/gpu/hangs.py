#!/usr/bin/env python3
"""hangs.py [FAULT...]: on a machine with an NVIDIA GPU, ranks that hang, are killed, fail or are slow on the card.

Two ranks train on one card with DistributedDataParallel. NCCL refuses two ranks on one card, so gradients go over gloo, and each
rank has a communicator of NCCL of its own besides, which it uses in every step. Prints what was said of each fault and after how
many seconds; ends with `N passed, N failed, N skipped`. Needs the programs (MUSTER_BUILD, default: build/) and a Python that can
import torch.
"""

import os
import re
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run import Cluster  # noqa: E402

TRAIN = '''
import os, signal, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
fault = os.environ["FAULT"]
first = os.environ.get("MUSTER_GENERATION", "0") == "0" and os.environ.get("MUSTER_ROUND", "0") == "0"
torch.cuda.set_device(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
alone = [dist.new_group([r], backend="nccl") for r in range(dist.get_world_size())][rank]
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)).cuda())
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(256, 512, device="cuda")
for step in range(1, 10001 if fault == "slow" else 61):
    mine = first and rank == 1 and step >= 30
    if mine and step == 30:
        print("planted at", time.time(), flush=True)
        if fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "cuda":
            x[torch.tensor([1 << 20], device="cuda")].sum().item()  # an assertion fails on the card
        if fault == "kernel":
            for _ in range(300):  # the card works, and works
                torch.cuda._sleep(1 << 31)
    # The card waits for its process meanwhile, as it does for data.
    time.sleep(0.3 * (1.2 if mine else 1) if fault == "slow" else 0.1)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    total = torch.ones(1, device="cuda")
    dist.all_reduce(total, group=alone)
    optimizer.step()
    if step % 10 == 0:
        print("rank", rank, "step", step, "loss", round(loss.item(), 4), "nccl", total.item(), flush=True)
'''
# fault: (what is said of it, whether the gang restarts). A card that works without an end may be meant so.
FAULTS = {
    "stop": (r"rank 1 .*is stopped by a signal.*; 1 rank waits for it", True),
    "kill": (r"SIGKILL|signal 9|137", True),
    "cuda": (r"(?i)SIGABRT|cuda error|device-side assert|AcceleratorError", True),
    "kernel": (r"rank 1 .*is at work in|Suspected: rank 1", False),
    "slow": (r"Slow: rank 1 .*before its peers can go on.*it is on GPU \d+", False),
}
JOBS = "/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunjobs"


def status(c, fault):
    return c.call("GET", f"{JOBS}/{fault}").get("status", {})


def told(c, fault):
    """All that is said of the job."""
    now = status(c, fault)
    failure = now.get("failure", {})
    return f"{now.get('message', '')} {failure.get('reason', '')} {failure.get('exitCode', '')} {failure.get('message', '')}"


def planted(c, pod):
    """When the fault was, by the pod's own words, before or after it was restarted."""
    for which in ("", "?previous=true"):
        try:
            said = re.search(r"planted at ([0-9.]+)", str(c.call("GET", f"/api/v1/namespaces/default/pods/{pod}/log{which}")))
        except OSError:
            continue  # there is no such log
        if said:
            return float(said.group(1))
    return None


def play(c, fault):
    words, restarts = FAULTS[fault]
    script = os.path.join(c.folder, f"{fault}.py")
    with open(script, "w") as f:
        f.write(TRAIN)
    c.call("POST", JOBS, {
        "apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": fault},
        "spec": {"jobQueue": "gpu", "numNodes": 1, "nprocPerNode": 2, "command": f"python3 {script}",
                 "env": [{"name": "FAULT", "value": fault}]}})
    since = c.wait(lambda: planted(c, f"{fault}-worker-0"), "the fault to be planted", 120)
    said = c.wait(lambda: re.search(words, told(c, fault), re.DOTALL) and told(c, fault), "the fault to be named", 120)
    print(f"{fault}: named after {time.time() - since:.1f} s: {said.strip()}", flush=True)
    if not restarts:
        assert not status(c, fault).get("restarts"), status(c, fault)
        c.call("DELETE", f"{JOBS}/{fault}")
        return
    c.wait(lambda: status(c, fault).get("phase") in ("Succeeded", "Failed"), "the job to end", 180)
    end = status(c, fault)
    print(f"{fault}: {end['phase']} after {time.time() - since:.1f} s, {end.get('restarts', 0)} restarts", flush=True)
    assert end["phase"] == "Succeeded" and end.get("restarts") == 1, end
    c.call("DELETE", f"{JOBS}/{fault}")


def main(faults):
    passed = failed = 0
    c = Cluster()
    try:
        c.call("POST", "/apis/torchrun.ai/v1alpha1/namespaces/default/torchrunqueues",
               {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": {"name": "gpu"},
                "spec": {"nodeResources": {"gpus": 1, "cpus": 4, "memory": "32Gi"}}})
        for fault in faults or FAULTS:
            print("==", fault, flush=True)
            try:
                play(c, fault)
                passed += 1
            except Exception:
                traceback.print_exc()
                failed += 1
                print("-- it says:", told(c, fault))
                for pod in c.call("GET", "/api/v1/namespaces/default/pods")["items"]:
                    print("--", pod["metadata"]["name"], pod["metadata"].get("annotations", {}).get("muster.dev/ranks"))
                    print(c.logs(pod["metadata"]["name"])[-3000:], flush=True)
                c.call("DELETE", f"{JOBS}/{fault}")
    finally:
        c.log.seek(0)
        print("-- muster up\n" + c.log.read()[-2000:])
        c.close()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
