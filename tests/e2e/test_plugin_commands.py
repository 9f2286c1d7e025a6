"""kubectl torchrun: every command, alone and through kubectl, and what it says when it cannot."""

import json
import os
import re
import tempfile

from harness import Muster, Skip, binary, check, free_port, run, torch_pythons, wait_for
from kubectls import kubectls
from pods import apply, container, pod, wait_phase

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: demo}
spec:
  nodeResources: {gpus: 2, cpus: 1, memory: 2Gi}
"""
FLAGS = ["--cpus-per-node", "16", "--memory-per-node", "64Gi"]


def need_torch():
    if not torch_pythons():
        raise Skip("no Python here can import torch")


def project(m, **files):
    folder = os.path.join(m.folder, "project")
    os.makedirs(folder, exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(folder, name.replace("__", ".")), "w") as f:
            f.write(text)
    return folder


def one_line(done, *words):
    text = (done.stdout + done.stderr).strip()
    check(done.returncode != 0, f"it should have failed: {text}")
    check(len(text.splitlines()) == 1, f"expected one line, got:\n{text}")
    for word in words:
        check(word in text, f"the line does not mention {word!r}: {text}")


def test_every_command_about_a_job():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="print('hello from the ranks', flush=True)\n")
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "job", "--detach",
                          "--env", "COLOUR=blue", "--setup", "export SHADE=dark",
                          "python main.py; echo $SHADE $COLOUR; sleep 600", cwd=folder)
        check(done.stdout.strip() == "job", f"submit --detach prints the name: {done.stdout!r}")
        wait_for(lambda: m.torchrun("logs", "job").stdout.count("dark blue") == 4, "all ranks to print", 90)
        logs = m.torchrun("logs", "job", "--rank", "2").stdout
        check("[rank2] hello from the ranks" in logs and "[rank0]" not in logs, f"--rank: {logs}")
        check("job" in m.torchrun("list").stdout, "list")
        listed = json.loads(m.torchrun("list", "-o", "json").stdout)
        check(listed["kind"] == "TorchrunJob" and listed["metadata"]["name"] == "job", f"{listed}")
        check(m.torchrun("list", "-o", "name").stdout == "torchrunjob.torchrun.ai/job\n", "-o name")
        check("name: job" in m.torchrun("status", "job", "-o", "yaml").stdout, "-o yaml")
        apply(m, pod("job-worker-7", container("echo forged; sleep 600"), labels={
            "torchrun-job-name": "job", "torchrun.ai/role": "worker", "torchrun.ai/index": "7"}))
        wait_phase(m, "job-worker-7", "Running")
        status = m.torchrun("status", "job").stdout
        check(re.search(r"Phase: +Running", status) and "job-worker-1" in status, status)
        others = [status, m.torchrun("logs", "job").stdout, m.torchrun("autopsy", "job", ok=False).stdout]
        check(not [said for said in others if "forged" in said or "worker-7" in said], f"a label makes no worker: {others}")
        queues = m.torchrun("queues").stdout
        check(re.search(r"demo +demo +2 +1 +4 +0", queues), f"queues: {queues}")
        check("Running" in m.torchrun("explain", "job").stdout, "explain")
        top = m.torchrun("top", "--once").stdout
        check("node-0" in top and "of 4 GPUs" in top and "job" in top, top)
        done = m.torchrun("exec", "job", "--", "sh", "-c", "echo in $HOSTNAME")
        check(done.stdout.strip() == "in job-worker-0", f"exec: {done.stdout!r}")
        check("main.py" in m.torchrun("exec", "job", "--", "ls").stdout, "exec starts where the command does")
        m.torchrun("suspend", "job")
        wait_for(lambda: m.phase("job") == "Suspended", "the job to be suspended", 60)
        m.torchrun("resume", "job")
        wait_for(lambda: m.phase("job") == "Running", "the job to run again", 60)
        before = {p["metadata"]["uid"] for p in m.get("pods") if p["metadata"]["name"] != "job-worker-7"}
        m.torchrun("restart", "job", "--pods")
        wait_for(lambda: m.phase("job") == "Running" and not before & {
            p["metadata"]["uid"] for p in m.get("pods") if "-worker-" in p["metadata"]["name"]},
            "new pods", 90)
        check(m.get("pod", "job-worker-7")["status"]["phase"] == "Running", "somebody else's pod is left alone")
        m.kubectl("delete", "pod", "job-worker-7", "--now")
        m.torchrun("delete", "--force", *m.torchrun("list", "-o", "name").stdout.split())
        wait_for(lambda: not m.get("torchrunjobs") and not m.get("pods"), "everything to go", 60)


def test_the_exit_status_and_the_last_lines_of_the_failing_rank():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE.replace("spec:", "spec:\n  reliability: {restartPolicy: Never}"))
        folder = project(m, main__py=("import os, sys, time\n"
                                      "if os.environ['RANK'] == '1':\n"
                                      "    print('the reason it failed', flush=True)\n"
                                      "    sys.exit(7)\n"
                                      "time.sleep(600)\n"))
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "2", "--name", "bad",
                          "python main.py", cwd=folder, ok=False)
        check(done.returncode == 7, f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
        check("[rank1] the reason it failed" in done.stdout, done.stdout)
        end = done.stderr.strip().splitlines()[-6:]
        check("rank 1" in end[-1] and end[-1].endswith(": the reason it failed") and "[rank1]" not in "\n".join(end),
              "the end names the rank and the cause; the other lines of the rank stand right above:\n" + "\n".join(end))


def test_what_cannot_be_is_said_in_one_line():
    with Muster(nodes=1, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m)
        submit = lambda *argv: m.torchrun("submit", *argv, cwd=folder, ok=False)
        one_line(submit("--queue", "demno", "--gpus", "1", "true"), "demno", "demo")
        one_line(submit("--queue", "demo", "true"), "--gpus")
        one_line(submit("--queue", "demo", "--gpus", "1", "--nodes", "1", "true"), "--nodes")
        one_line(submit("--queue", "demo", "--gpus", "x", "true"), "--gpus")
        one_line(submit("--queue", "demo", "--gpus", "1", "--dir", "/nonexistent", "true"),
                 "/nonexistent")
        done = submit("--queue", "demo", "--gpus", "1", "--name", "Not_A_Name", "--no-workspace", "--dry-run", "true")
        check(done.returncode == 0 and "the job's name is not-a-name" in done.stderr, f"{done}")
        one_line(submit("--bogus"), "--bogus")
        one_line(submit("--queue", "demo", "--gpus", "64", "true"), "64 GPUs", "it has 4 in all")
        m.apply(QUEUE.replace("demo", "small").replace("spec:", "spec:\n  queue: {name: small, "
                "resources: {gpu: {limit: 1}}}"))
        wait_for(lambda: m.get("queues.scheduling.run.ai", "small"), "the scheduling queue", 30)
        one_line(submit("--queue", "small", "--gpus", "2", "true"), "limit of queue small", "at most 1")
        one_line(submit("--gpus", "1", "true"), "--queue")  # there are two
        for command in ("status", "logs", "explain", "suspend", "pull", "delete", "sync", "restart"):
            one_line(m.torchrun(command, "nope", ok=False), "nope")
        m.apply("apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: held}\n"
                "spec: {jobQueue: demo, numGPUs: 1, command: 'true', suspend: true}\n")
        one_line(m.torchrun("scale", "held", "--gpus", "64", ok=False), "64 GPUs", "it has 4 in all")
        m.torchrun("scale", "held", "--gpus", "4")
        check(m.get("torchrunjob", "held")["spec"]["numGPUs"] == 4, "what fits is done")
        m.torchrun("delete", "--force", "held")
        one_line(submit("--queue", "demo", "--gpus", "1", "--name", "a" * 64, "--no-workspace", "true"),
                 "at most 54 characters")
        check(not m.get("torchrunjobs"), "nothing was left behind")


DOWN = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
"""


def test_a_server_that_is_down_is_told_with_how_to_start_it():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kubeconfig")
        with open(path, "w") as f:
            f.write(DOWN % free_port())
        for command in (["list"], ["status", "j"], ["submit", "--queue", "q", "--gpus", "1", "--no-workspace", "true"]):
            done = run([binary("kubectl-torchrun"), *command], env={**os.environ, "KUBECONFIG": path, "HOME": folder}, ok=False)
            one_line(done, "127.0.0.1", "start it with `muster up`")


def test_as_a_plugin_of_every_kubectl():
    job = ("apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: held}\n"
           "spec: {jobQueue: demo, numGPUs: 1, command: 'sleep 600', suspend: true}\n")
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        path = os.path.join(m.folder, "held.yaml")
        with open(path, "w") as f:
            f.write(job)
        for version, kubectl in kubectls():
            # What each prints; logs, checkpoints and exec of a job without pods say so instead.
            cases = [(["version"], ""), (["completion", "bash"], "submit"), (["queues"], "demo"),
                     (["submit", "-f", path, "--detach", "--no-workspace"], "held"), (["list"], "held"),
                     (["status", "held"], "Suspended"), (["explain", "held"], "suspended"), (["top", "--once"], "held"),
                     (["scale", "held", "--gpus", "2"], "scaled"), (["suspend", "held"], "held"), (["logs", "held"], ""),
                     (["delete", "held", "--force"], "held")]
            for argv, words in cases:
                if argv == ["status", "held"]:
                    wait_for(lambda: m.phase("held") == "Suspended", "the job to be held", 60)
                done = run([kubectl, "torchrun", *argv], env=m.env, cwd=m.folder)
                check(words in done.stdout + done.stderr, f"{version} {argv}: {done.stdout}{done.stderr}")
            for command in ("exec", "pull", "checkpoints", "sync", "restart", "resume"):
                done = run([kubectl, "torchrun", command, "--help"], env=m.env)
                check("Usage" in done.stdout or "usage" in done.stdout, f"{version} {command} --help: {done.stdout}")
            wait_for(lambda: not m.get("torchrunjobs"), "the job to go", 30)


def test_a_dry_run_and_a_file_from_the_user():
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m)
        done = m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "dry", "--dry-run",
                          "-o", "json", "true", cwd=folder)
        job = json.loads(done.stdout)
        check(job["spec"] == {"jobQueue": "demo", "numGPUs": 1, "command": "true"}, f"{job}")
        check(not m.get("torchrunjobs"), "a dry run makes nothing")
        path = os.path.join(m.folder, "job.yaml")
        with open(path, "w") as f:
            f.write("apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: filed}\n"
                    "spec: {jobQueue: demo, numGPUs: 1, command: 'sleep 600'}\n")
        m.torchrun("submit", "-f", path, "--detach", "--no-workspace", cwd=folder)
        check(m.get("torchrunjob", "filed")["spec"]["command"] == "sleep 600", "the file's command")
        m.apply(QUEUE.replace("name: demo", "name: other").replace("spec:", "spec:\n  kaiQueue: lab-vision"))
        m.torchrun("submit", "--queue", "lab-vision", "--gpus", "1", "--name", "either", "--detach", "--no-workspace", "true",
                   cwd=folder)
        check(m.get("torchrunjob", "either")["spec"]["jobQueue"] == "other", "a queue is meant by either of its names")


def test_following_goes_on_through_a_restart_of_the_server():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py=("import time\nfor i in range(150):\n"
                                      "    print('line', i, flush=True)\n    time.sleep(0.1)\n"))
        follow = m.spawn_torchrun("submit", "--queue", "demo", "--gpus", "2", "--name", "long",
                                  "python main.py", cwd=folder)
        wait_for(lambda: "line 10" in m.said("long-worker-0", ok=False), "the first lines", 90)
        m.kill()
        m.start()
        output = follow.communicate(timeout=150)[0]
        check(follow.returncode == 0, f"exit {follow.returncode}:\n{output[-3000:]}")
        for rank in (0, 1):
            seen = re.findall(rf"\[rank{rank}\] line (\d+)$", output, re.M)
            check(seen == [str(i) for i in range(150)], f"rank {rank} is not whole and in order: {seen}")


def test_logs_that_are_not_there_are_said_and_not_waited_for():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "once", "--no-workspace", "echo said once")
        check(m.torchrun("logs", "once").stdout.endswith("[rank0] said once\n"), "the log")
        done = m.torchrun("logs", "once", "--previous", ok=False, limit=20)
        check(done.returncode == 1 and "once-worker-0" in done.stderr and not done.stdout, f"{done}")
        one_line(m.torchrun("logs", "once", "--rank", "7", ok=False, limit=20), "once", "no rank 7")
        for argv in (["suspend"], ["resume"], ["restart"], ["restart", "--pods"], ["scale", "--gpus", "2"]):
            one_line(m.torchrun(argv[0], "once", *argv[1:], ok=False), "once", "over (Succeeded)", "never runs again")
