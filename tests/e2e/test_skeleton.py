"""One real job through the whole path: submit, gather, train with real torchrun and PyTorch, end."""

import os
import re
import shutil
import subprocess
import tempfile

from harness import (EXAMPLES, PATIENCE, Muster, Skip, binary, check, free_port, run, torch_pythons, torchrun_of_pods,
                     wait_for)

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: demo}
spec:
  nodeResources: {gpus: 2, cpus: 1, memory: 2Gi}
"""


def need_torch():
    if not torch_pythons():
        raise Skip("no Python here can import torch")


def project(m):
    """A user's project folder, with the training script in it."""
    folder = os.path.join(m.folder, "project")
    shutil.copytree(os.path.join(EXAMPLES, "train"), folder)
    return folder


def losses(text):
    return [float(x) for x in re.findall(r"step \d+/\d+ loss ([0-9.]+)", text)]


def check_trained(text, ranks, steps):
    for rank in range(ranks):
        check(f"rank {rank} of {ranks}: all_reduce" in text, f"rank {rank} of {ranks} did not report:\n{text}")
    check(f"done: {steps} steps" in text, f"the training did not end:\n{text}")
    seen = losses(text)
    check(len(seen) >= 2 and seen[-1] < seen[0] / 10, f"the loss did not fall: {seen}\n{text}")


def test_submit_trains_on_two_pods_and_returns_success():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, pytorch=True) as m:
        m.apply(QUEUE)
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "first",
                          "python train.py --steps 60", cwd=project(m))
        check_trained(done.stdout, ranks=4, steps=60)
        check(m.phase("first") == "Succeeded", f"phase is {m.phase('first')}")
        workers = [p["metadata"]["name"] for p in m.get("pods")
                   if p["metadata"]["name"].startswith("first-worker-")]
        check(len(workers) == 2, f"expected 2 worker pods, found {workers}")
        check("first" in m.torchrun("list").stdout, "list does not show the job")
        check_trained(m.torchrun("logs", "first").stdout, ranks=4, steps=60)
        m.torchrun("delete", "--force", "first")
        wait_for(lambda: not m.get("torchrunjobs") and not m.get("pods"), "the job's objects to go")


def test_failing_command_gives_its_exit_status():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4) as m:
        m.apply(QUEUE.replace("spec:", "spec:\n  reliability: {restartPolicy: Never}"))  # else it is tried three times more
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "broken",
                          "python -c 'import sys; print(\"giving up\"); sys.exit(7)'",
                          cwd=project(m), ok=False)
        check(done.returncode == 7, f"exit status {done.returncode}, expected 7:\n{done.stdout}{done.stderr}")
        check(m.phase("broken") == "Failed", f"phase is {m.phase('broken')}")


def test_muster_killed_in_the_middle_of_training_loses_nothing():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, pytorch="ranks") as m:
        m.apply(QUEUE)
        m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "survivor", "--detach",
                   "python train.py --steps 80 --step-seconds 0.1", cwd=project(m))
        wait_for(lambda: "step 10/80" in m.said("survivor-worker-0", ok=False),
                 "the training to be under way", 90)
        m.kill()
        m.start()
        wait_for(lambda: m.phase("survivor") in ("Succeeded", "Failed"), "the job to end", 120)
        check(m.phase("survivor") == "Succeeded", f"phase is {m.phase('survivor')}")
        text = m.torchrun("logs", "survivor").stdout
        check_trained(text, ranks=4, steps=80)
        for step in [1, *range(10, 81, 10)]:
            check(f"step {step}/80" in text, f"step {step} is missing from the log:\n{text}")


def test_second_job_waits_whole_says_why_and_starts_whole():
    with Muster(nodes=2, gpus_per_node=4) as m:
        m.apply(QUEUE.replace("gpus: 2", "gpus: 4"))
        for name in ("one", "two"):
            m.apply(f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: demo
  numGPUs: 8
  command: "sleep 600"
""")
            if name == "one":
                wait_for(lambda: m.phase("one") == "Running", "the first job to run", 60)
        def waiting():
            status = (m.get("torchrunjob", "two") or {}).get("status", {})
            text = status.get("message", "") + " ".join(
                c.get("message", "") for c in status.get("conditions", []))
            return status.get("phase") == "Queued" and "GPU" in text and text
        text = wait_for(waiting, "the second job to be queued with a reason that names GPUs", 30)
        bound = [p["metadata"]["name"] for p in m.get("pods")
                 if p["metadata"]["name"].startswith("two-worker-") and p["spec"].get("nodeName")]
        check(not bound, f"part of the waiting gang is bound: {bound} ({text})")
        m.torchrun("delete", "--force", "one")
        wait_for(lambda: m.phase("two") == "Running", "the second job to run", 60)
        nodes = [p["spec"].get("nodeName") for p in m.get("pods")
                 if p["metadata"]["name"].startswith("two-worker-")]
        check(len(nodes) == 2 and all(nodes) and len(set(nodes)) == 2, f"bound to {nodes}")


def test_every_torchrun_on_this_machine_works():
    pythons = torch_pythons()
    if not pythons:
        raise Skip("no Python here can import torch")
    for python, version in pythons:
        with Muster(nodes=2, gpus_per_node=2, path_first=os.path.dirname(python)) as m:
            m.apply(QUEUE)
            done = m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "any",
                              "python train.py --steps 30", cwd=project(m))
            check_trained(done.stdout, ranks=4, steps=30)
        print(f"  torch {version} ({python}): trained", flush=True)


def one_line(done, *words):
    text = (done.stdout + done.stderr).strip()
    check(done.returncode != 0, f"it should have failed: {text}")
    check(len(text.splitlines()) == 1, f"expected one line, got:\n{text}")
    for word in words:
        check(word in text, f"the line does not mention {word!r}: {text}")


def test_torchrun_alone_starts_ranks_as_that_of_pytorch_does():
    """What other tests have in its place (torchrun_alone.py): two of them meet, and tell each rank the same."""
    alone, quick = torchrun_of_pods(pytorch=False), torchrun_of_pods(pytorch="ranks")
    if not alone:
        raise Skip("no Python here has PyTorch 1.13")
    script = "env | grep -E '^(GROUP_|LOCAL_|ROLE_|TORCHELASTIC_|WORLD_|RANK|OMP)' | sort"

    def ranks(python):
        port = free_port()
        argv = [python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "2", "--rdzv_id", "x",
                "--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{port}",
                "-r", "9:1", "-t", "9:1", "--no_python", "sh", "-c", script]
        nodes = [subprocess.Popen([*argv[:3], "--rdzv_conf", f"is_host={host}", *argv[3:]], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) for host in (1, 0)]
        said = [node.communicate(timeout=60 * PATIENCE) for node in nodes]
        check(all(node.returncode == 0 for node in nodes), f"{said}")
        return sorted(line for lines, _ in said for line in lines.splitlines() if not re.search("PORT|ERROR_FILE", line))
    said = [ranks(os.path.join(folder, "python3")) for folder in ("/usr/bin", alone, quick)]
    check(len(said[0]) > 40 and said[0] == said[1] == said[2], f"{said}")


def test_mistakes_get_one_clear_line():
    muster = binary("muster")
    with Muster(nodes=1, gpus_per_node=1) as m:
        m.apply(QUEUE)
        one_line(m.torchrun("submit", "--queue", "nope", "--gpus", "1", "--no-workspace", "true", ok=False), "nope")
        one_line(m.torchrun("submit", "--queue", "demo", "--gpus", "many", "true", ok=False), "--gpus", "many")
        one_line(m.torchrun("submit", "--quue", "demo", "--gpus", "1", "true", ok=False), "--quue")
        other = tempfile.mkdtemp(dir=m.folder)
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}  # those of tests are told
        one_line(run([muster, "up", "--data-dir", other, "--listen", m.listen], ok=False, env=env), m.listen.split(":")[1])
        one_line(run([muster, "up", "--data-dir", m.data, "--listen", "127.0.0.1:0"], ok=False, env=env), m.data)
        one_line(run([muster, "up", "--data-dir", "/proc/nowhere", "--listen", "127.0.0.1:0"], ok=False, env=env),
                 "/proc/nowhere")
        one_line(run([muster, "up", "--nodes", "none"], ok=False), "--nodes", "none")
        one_line(run([muster, "upp"], ok=False), "upp")
