"""Where the ranks of a job are: their Python stacks, read from outside, of ranks that hang as well."""

import json
import os

from harness import Muster, check, needs, wait_for
from kubeflow import create, job, pods
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_plugin_results import OtherCluster

# Rank 0 dead-locks, the others sleep.
PLAIN = """
import os, threading, time
def waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def load_batch():
    time.sleep(600)
def train():
    waits_for_a_lock() if os.environ["RANK"] == "0" else load_batch()
train()
"""

# Rank 1 never comes to the collective.
TORCH = """
import time, torch, torch.distributed as dist
def load_batch():
    print("rank 1 loads", flush=True)
    time.sleep(600)
def train():
    print("trains", flush=True)
    if dist.get_rank() == 1:
        load_batch()
    dist.all_reduce(torch.ones(1))
dist.init_process_group("gloo")
train()
"""

# Stands for PyTorch with NCCL: writes what its flight recorder does when it is asked through the pipe. Rank 1 is one behind.
RECORDER = """
import os, pickle, threading, time
rank = os.environ["RANK"]
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + rank + ".pipe"
def entry(seq, state):
    return {"process_group": ("0", "default_pg"), "collective_seq_id": seq, "is_p2p": False, "profiling_name": "nccl:all_reduce",
            "input_sizes": [[8]], "state": state, "frames": [{"name": "train", "filename": "/app/main.py", "line": 43}]}
def listen():
    while True:
        with open(pipe) as f:
            f.read()
        entries = [entry(6, "completed")] + ([entry(7, "started")] if rank != "1" else [])
        with open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + rank, "wb") as f:
            pickle.dump({"version": "2.10", "entries": entries}, f, protocol=2)
os.mkfifo(pipe)
threading.Thread(target=listen, daemon=True).start()
time.sleep(600)
"""


def groups(m, name):
    """{ranks: place} of a job, as --output json has it."""
    done = m.torchrun("autopsy", name, "-o", "json", ok=False)
    if done.returncode != 0:
        return {}
    return {tuple(group["ranks"]): group["where"] for group in json.loads(done.stdout)["groups"]}


@needs("the stacks that muster up reads")
def test_every_rank_of_plain_python_is_named_with_its_line():
    command = ["python3", "-c", PLAIN]
    expected = {(0,): "<string>:6 (waits_for_a_lock)", (1, 2): "<string>:8 (load_batch)"}
    with Muster(nodes=2, flags=FLAGS) as m:
        create(m, job("PyTorchJob", "stuck", chief=command, worker=command, workers=2))
        wait_for(lambda: groups(m, "stuck") == expected, "all ranks to stand where they stand", 60)
        text = m.torchrun("autopsy", "stuck", "--save", "kept/").stdout
        check(text.startswith("rank 0: <string>:6 (waits_for_a_lock), sleeps in futex\n"), text)
        check("\nranks 1,2: <string>:8 (load_batch), sleeps in " in text, text)
        for words in ("stuck-master-0", "stuck-worker-0", "train ", "<string>:10", "Python 3."):
            check(words in text, f"{words!r} is not told: {text}")
        with open(os.path.join(m.folder, "kept/stuck.txt")) as f:
            check(f.read().count("load_batch") == text.count("load_batch"), "the text was not kept")
        with open(os.path.join(m.folder, "kept/stuck.json")) as f:
            check(len(json.load(f)["pods"]) == 3, "the document was not kept")
        check(list(pods(m, "stuck").values()) == ["Running"] * 3, "looking has changed something")
        done = m.torchrun("autopsy", "nobody", ok=False)
        check(done.returncode != 0 and "no pod of a job nobody" in done.stderr, done.stderr)


@needs("the stacks that muster up reads")
def test_ranks_of_torchrun_are_named_here_and_through_exec():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS, pytorch="ranks") as m:
        m.apply(QUEUE)
        m.torchrun("submit", "--queue", "demo", "--gpus", "2", "--name", "hangs", "--detach", "python main.py",
                   cwd=project(m, main__py=TORCH))
        wait_for(lambda: groups(m, "hangs").get((1,)) == "main.py:5 (load_batch)"
                 and "(all_reduce)" in groups(m, "hangs").get((0,), ""), "both ranks to stand", 120)
        text = m.torchrun("autopsy", "hangs", "--all").stdout
        check("main.py:10" in text and "main.py:9" in text and "all_reduce" in text, text)
        if os.uname().machine == "x86_64":  # of a main thread that waits in a collective, the functions of C++ as well
            check("libc.so" in text and "c10d::" in text, text)
        text = m.torchrun("status", "hangs").stdout
        check("\nTime: " in text and "training " in text and "ETTR" in text, text)
        with OtherCluster(m) as other:
            text = other.torchrun(m, "autopsy", "hangs").stdout
            check("rank 1: main.py:5 (load_batch)" in text and "all_reduce" in text, text)
            other.env["PATH"] = "/nonexistent"  # no kubectl: the plugin speaks to the API server itself
            text = other.torchrun(m, "autopsy", "hangs").stdout
            check("rank 1: main.py:5 (load_batch)" in text and "all_reduce" in text, text)


@needs("the stacks that muster up reads")
def test_the_rank_that_did_not_call_a_collective_is_told_by_its_flight_recorder():
    with Muster(nodes=2, flags=FLAGS) as m:
        prefix = f"/tmp/{os.path.basename(m.folder)}"
        command = ["sh", "-c", f"TORCH_FR_DUMP_TEMP_FILE={prefix}.dump. TORCH_NCCL_DEBUG_INFO_PIPE_FILE={prefix}.pipe. "
                   "exec python3 -c \"$0\"", RECORDER]
        create(m, job("PyTorchJob", "flies", chief=command, worker=command, workers=2))

        def told():
            done = m.torchrun("autopsy", "flies", ok=False)
            return done.returncode == 0 and "which ranks 0,2 did" in done.stdout and done.stdout
        text = wait_for(told, "the flight recorders to be read", 60)
        check("\nLast collectives of group default_pg, as PyTorch's flight recorder has them:\n"
              "  rank 1: #6 nccl:all_reduce completed [[8]], main.py:43 (train)\n"
              "  ranks 0,2: #7 nccl:all_reduce started [[8]], main.py:43 (train)\n"
              "  rank 1 did not call #7 (nccl:all_reduce), which ranks 0,2 did\n" in text, text)
        done = json.loads(m.torchrun("autopsy", "flies", "-o", "json").stdout)
        check(done["collectives"][0]["group"] == "default_pg", f"{done['collectives']}")
