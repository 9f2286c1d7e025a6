#!/usr/bin/env python3
"""step.py [SECONDS]: what it costs a step of a training that Muster watches it (src/observe/hook.py).

Two TorchrunJobs on one `muster up`, the same but for the annotation muster.dev/observe: "off", take turns of a few steps: a
small transformer, and one layer, whose step is so short that the difference is the cost itself. Of each pair of turns the ratio
is taken, and of these the median, with the range that 95 of 100 such medians would be in. SECONDS (60): how long for each.
"""

import os
import socket
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from harness import PATIENCE, Muster, cached_torch, torch_pythons  # noqa: E402
from server import cpu_s  # noqa: E402

LIMIT = 0.2  # percent
MODELS = {"transformer": 1, "layer": 25}  # steps of a turn
WARM_UP = 20  # turns
API = "torchrun.ai/v1alpha1"
QUEUE = {"apiVersion": API, "kind": "TorchrunQueue", "metadata": {"name": "q"},
         "spec": {"nodeResources": {"gpus": 1, "cpus": 1, "memory": "8Gi"}}}


def job(observe, port):
    return {"apiVersion": API, "kind": "TorchrunJob",
            "metadata": {"name": f"watched-{observe}", "annotations": {"muster.dev/observe": observe}},
            "spec": {"jobQueue": "q", "numNodes": 1, "nprocPerNode": 1,
                     "command": f"python3 {os.path.abspath(__file__)} --rank {port}"}}


def trains(port):
    """In the rank: as many steps of a model as it is told to make, and how long they took."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, dropout=0, batch_first=True)
    models = {"transformer": (torch.nn.TransformerEncoder(layer, 4), torch.randn(4, 64, 256)),
              "layer": (torch.nn.Linear(8, 8), torch.randn(4, 8))}
    ready = {}
    for name, (model, data) in models.items():
        model = DistributedDataParallel(model)
        ready[name] = model, data, torch.optim.Adam(model.parameters())
    with socket.create_connection(("127.0.0.1", port)) as driver:
        driver.sendall(("off\n" if os.environ.get("MUSTER_RANKS_DIR") is None else "on\n").encode())
        for line in driver.makefile():
            name, count = line.split()
            model, data, optimizer = ready[name]
            begin = time.perf_counter_ns()
            for _ in range(int(count)):
                optimizer.zero_grad()
                model(data).sum().backward()
                optimizer.step()
            driver.sendall(b"%d\n" % (time.perf_counter_ns() - begin))


class Rank:
    def __init__(self, connection):
        self.connection, self.answers = connection, connection.makefile()
        self.watched = self.answers.readline().strip() == "on"

    def turn(self, model, count):
        """Microseconds of a step."""
        self.connection.sendall(f"{model} {count}\n".encode())
        return int(self.answers.readline()) / 1000 / count


def measure(on, off, model, count, seconds):
    """Pairs of turns: (with it, without it), in microseconds a step; who begins takes turns as well."""
    pairs, begin = [], time.monotonic()
    while time.monotonic() - begin < seconds or len(pairs) < 3 * WARM_UP:
        times = {}
        for rank in ((on, off), (off, on))[len(pairs) % 2]:
            times[rank] = rank.turn(model, count)
        pairs.append((times[on], times[off]))
    return pairs[WARM_UP:]


def show(model, pairs):
    changes = [100 * (a / b - 1) for a, b in pairs]
    middle = statistics.median(changes)
    spread = statistics.median(abs(c - middle) for c in changes) * 1.4826
    range_ = 1.96 * 1.2533 * spread / len(changes) ** 0.5
    on, off = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    extra = statistics.median(a - b for a, b in pairs)
    print(f"  {model:<12} {len(pairs):>5} pairs   {on:>9.1f} us with it   {off:>9.1f} us without   {extra:>+7.1f} us   "
          f"{middle:+.3f} % (+-{range_:.3f})", flush=True)
    return extra, off


def main(seconds):
    pythons = torch_pythons()
    if not pythons:
        print("step: skipped: no Python here can import torch")
        return
    current = [os.path.dirname(path) for path, _ in cached_torch()]
    print(f"A step that is watched, and one that is not (PyTorch {pythons[0][1]}; at most {LIMIT} % more):", flush=True)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(120 * PATIENCE)
    port = listener.getsockname()[1]
    flags = ["--cpus-per-node", "64", "--memory-per-node", "64Gi"]
    with Muster(nodes=1, gpus_per_node=2, flags=flags, path_first=current[0] if current else None) as m:
        for made in (QUEUE, job("on", port), job("off", port)):
            m.create(made)
        ranks = {rank.watched: rank for rank in (Rank(listener.accept()[0]) for _ in range(2))}
        begin, used = time.monotonic(), cpu_s(m.process.pid)
        extra = {}
        for model, count in MODELS.items():
            extra[model] = show(model, measure(ranks[True], ranks[False], model, count, seconds))
        part = 100 * (cpu_s(m.process.pid) - used) / (time.monotonic() - begin)
        cost, step = extra["layer"][0], extra["transformer"][1]
        print(f"  {cost:.1f} us are {100 * cost / step:.3f} % of the transformer's step; muster, which looks at the "
              f"ranks, takes {part:.2f} % of a core meanwhile")
        for rank in ranks.values():
            rank.connection.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        trains(int(sys.argv[2]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
