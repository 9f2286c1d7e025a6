#!/usr/bin/env python3
"""golden.py [--write]: every command that prints a table or a page, on a terminal of 80 x 24, against one fixed cluster.

What it prints is held against tests/golden/NAME.txt (--write: makes them anew), and no line may be wider than the terminal. Of
every command the help is looked at too, its width alone: what it says is in docs/reference. A command that is neither in CASES
nor in NO_PAGE fails the test, so that a new one is not forgotten.

The cluster is this program: a server that answers lists and gets of the objects below. Moments are so long ago that ages do not
depend on the second, and times of day that are printed are replaced by others of the same width.
"""

import datetime
import fcntl
import http.server
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("MUSTER_BUILD") or os.path.join(ROOT, "build")
GOLDEN = os.path.join(ROOT, "tests", "golden")
ROWS, COLUMNS = 24, 80
LIMIT_S = 60
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
STARTED = re.compile(r"\b\d\d-\d\d \d\d:\d\d\b")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# name: program and words. Those of both programs are one implementation: each is looked at through one of them.
CASES = {
    "list": "kubectl-torchrun list",
    "list-wide": "kubectl-torchrun list -o wide",
    "list-all": "muster list -A",
    "list-selected": "muster list -l team=vision",
    "list-name": "muster list -o name",
    "status-running": "muster status llama-finetune-on-the-big-corpus",
    "status-waiting": "muster status waits",
    "status-failed": "kubectl-torchrun status broke",
    "queues": "muster queues",
    "queues-name": "muster queues -o name",
    "explain": "muster explain waits",
    "explain-pod": "kubectl-torchrun explain llama-finetune-on-the-big-corpus-worker-0",
    "top": "muster top --once",
    "history": "muster history",
    "history-selected": "muster history -l team=vision",
    "history-yaml": "muster history -l team=speech -o yaml",
    "report": "muster report --since 0 -l ended=yes",
    "report-job": "muster report --since 0 --by job -l ended=yes",
    "report-selected": "muster report --since 0 --by user -l team=speech",
    "gpu": "muster gpu",
    "gpu-selected": "muster gpu -l zone=b",
    "user-list": "muster user list",
    "user-list-yaml": "muster user list -l team=vision -o yaml",
    "autopsy": "kubectl-torchrun autopsy llama-finetune-on-the-big-corpus",
    "wait": "muster wait done",
    "suspend": "muster suspend waits",
}
# Of these only the help is a page: they do something, follow what others print, or serve.
NO_PAGE = {"run", "submit", "cancel", "sync", "resume", "scale", "restart", "delete", "exec", "shell", "checkpoints", "stop",
           "up", "doctor", "store", "kubeconfig", "image", "operator", "reserve-gpu", "hollow-nodes", "simulate", "replay",
           "open", "pull", "logs", "checkpoint-gpu", "backup", "restore", "support"}
BEGAN = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=20, hours=12)  # so that no age is at an edge


def moment(minutes=0):
    """When everything was made, and so many minutes later."""
    return (BEGAN + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(name, ns="default", **more):
    meta.count += 1
    out = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(meta.count), "creationTimestamp": moment(), **more}
    return {**out, "namespace": ns} if ns else out


meta.count = 0


def job(name, phase, gpus, ns="default", **status):
    labels = {"team": "speech" if name == "broke" else "vision", "ended": "yes" if "completionTime" in status else "no"}
    return {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": meta(name, ns, labels=labels),
           "spec": {"jobQueue": "research-vision", "numGPUs": gpus, "command": "python train.py --epochs 40 --out model.pt"},
           "status": {"phase": phase, "numGPUs": gpus, "numNodes": (gpus + 3) // 4, "distribution": "4", **status}}


def owner(name):
    return [{"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "name": name, "uid": f"uid-{name}", "controller": True}]


def worker(name, node, phase="Running", gpus=4):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(
        f"{name}-worker-0", labels={"torchrun-job-name": name, "torchrun.ai/role": "worker", "torchrun.ai/index": "0",
                                    "torchrun.ai/generation": "1"},
        annotations={"pod-group-name": f"pg-{name}-uid-{name}"}, ownerReferences=owner(name)),
        "spec": {**({"nodeName": node} if node else {}), "containers": [
            {"name": "trainer", "image": "torch", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {"phase": phase, "podIP": "10.0.0.1", **({} if node else {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": WAITS}]})}}


def node(name, zone):
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta(name, None, labels={"zone": zone}),
            "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "64", "memory": "512Gi"}}}


def queue(name, parent, quota, held):
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta(name, None),
            "spec": {**({"parentQueue": parent} if parent else {}), "resources": {"gpu": {"quota": quota, "limit": -1}}},
            "status": {"fairShare": {"nvidia.com/gpu": str(quota)}, "allocated": {"nvidia.com/gpu": str(held)},
                       "requested": {"nvidia.com/gpu": str(held + 4)}, "pendingGroups": 1 if parent else 0}}


def group(name, phase, message=""):
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta(
        f"pg-{name}-uid-{name}", ownerReferences=owner(name)),
        "spec": {"queue": "research-vision", "minMember": 1},
        "status": {"phase": phase, "running": int(not message), "pending": int(bool(message)), **({
            "message": message, "explanation": {
                "nodes": {"too few free GPUs": 2}, "place": 1, "line": 1,
                "change": "8 GPUs less in use by others, or a queue with a larger quota"}} if message else {})}}


def person(name, team):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name, None, labels={"team": team}, annotations={
        "torchrun.ai/person": name, "torchrun.ai/person-uid": "1001", "torchrun.ai/person-queue": "research-vision",
        "torchrun.ai/person-home": f"/home/{name}", "torchrun.ai/person-paths": "/data/public,/data/corpora/large",
        "torchrun.ai/person-until": "2999-01-02T03:04:05Z"})}


WAITS = ("the job waits for 8 GPUs in pods of 4: 2 of 2 nodes have too few free GPUs, which jobs of research-vision hold; it is "
         "first in line of its queue")
LONG = "llama-finetune-on-the-big-corpus"
OBJECTS = {
    "torchrunjobs": [
        job(LONG, "Running", 4, workersStatus="1/1", restarts=2, restartsInPlace=1, startTime=moment(120)),
        job("waits", "Queued", 8, workersStatus="0/2", message=WAITS),
        job("done", "Succeeded", 4, workersStatus="1/1", startTime=moment(60), completionTime=moment(210), runSeconds=9000,
            exitCode=0),
        job("broke", "Failed", 8, workersStatus="0/2", startTime=moment(60), completionTime=moment(90), runSeconds=1800,
            exitCode=1, message="rank 3 ended with exit code 1",
            failure={"pod": "broke-worker-0", "exitCode": 1,
                     "message": "RuntimeError: CUDA error: an illegal memory access was encountered in train.py, line 812, "
                                "in forward(), which was called by step()"}),
        job("elsewhere", "Suspended", 4, ns="speech"),
    ],
    "torchrunqueues": [{"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue", "metadata": meta("research-vision"),
                        "spec": {"nodeResources": {"gpus": 4}}}],
    "queues": [queue("research", "", 8, 4), queue("research-vision", "research", 4, 4),
               queue("research-speech", "research", 4, 0)],
    "podgroups": [group(LONG, "Running"), group("waits", "Pending", WAITS)],
    "pods": [worker(LONG, "gpu-node-1"), worker("waits", "", "Pending"), worker("done", "gpu-node-1", "Succeeded")],
    "nodes": [node("gpu-node-1", "a"), node("gpu-node-2", "b")],
    "events": [{"apiVersion": "v1", "kind": "Event", "metadata": meta("waits.1"), "reason": "Unschedulable",
                "involvedObject": {"kind": "TorchrunJob", "name": "waits"}, "type": "Warning",
                "message": "no room yet: another gang of the same queue is larger and came first, so its room is kept for it"}],
    "namespaces": [person("alice", "vision"), person("bartholomew", "speech")],
    "serviceaccounts": [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta("alice", "muster-people")}],
}
STACKS = {"processes": [{"pid": 71, "rank": 0, "main": True, "python": "3.11.7", "threads": [
    {"tid": 71, "state": "R", "frames": [
    {"function": "all_reduce", "file": "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", "line": 2806},
    {"function": "step", "file": "/app/train.py", "line": 812}]}]}]}
LOG = "".join(f"step {i} loss {2 / (i + 1):.4f}\n" for i in range(4))


def selected(labels, text):
    return all(labels.get(k) == v for k, _, v in (term.partition("=") for term in text.split(",") if term))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200, kind="application/json"):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def missing(self):
        self.answer({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
                     "message": f"{self.path} is not here"}, 404)

    def do_PATCH(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        words = url.path.strip("/").split("/")
        if url.path == "/version":
            self.answer({"major": "1", "minor": "33", "gitVersion": "v1.33.0+muster-golden"})
            return
        if words[0] not in ("api", "apis"):
            self.missing()
            return
        words = words[2 if words[0] == "api" else 3:]
        ns = ""
        if len(words) > 2 and words[0] == "namespaces":
            ns, words = words[1], words[2:]
        found = [o for o in OBJECTS.get(words[0], []) if not ns or o["metadata"].get("namespace") == ns]
        if words[0] not in OBJECTS:
            self.missing()
        elif len(words) == 3 and words[2] == "log":
            self.answer(LOG, kind="text/plain")
        elif len(words) == 3 and words[2] == "stacks":
            self.answer(STACKS)
        elif len(words) > 1:
            one = [o for o in found if o["metadata"]["name"] == words[1]]
            self.answer(one[0]) if one and len(words) == 2 else self.missing()
        else:
            items = [o for o in found if selected(o["metadata"].get("labels", {}), query.get("labelSelector", ""))]
            self.answer({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})

    def log_message(self, *_):
        pass


def screen(argv, env, folder):
    """What a program prints on a terminal, and its exit status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=env, cwd=folder, close_fds=True)
    os.close(slave)
    late = threading.Timer(LIMIT_S * float(os.environ.get("MUSTER_TEST_PATIENCE", "1")), process.kill)
    late.start()
    data = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the last one that had it is gone
            break
        if not piece:
            break
        data += piece
    os.close(master)
    status = process.wait()
    late.cancel()
    text = ESCAPE.sub("", data.decode().replace("\r\n", "\n"))
    text = STARTED.sub("01-02 03:04", MOMENT.sub("2026-01-02T03:04:05Z", text))
    return re.sub(r" +$", "", text, flags=re.MULTILINE), status


def wide(text):
    return [line for line in text.splitlines() if len(line) > COLUMNS]


def commands(program):
    """Every command that a program has, also those that its help does not list."""
    script = [os.path.join(BUILD, program), "completion", "bash"]
    text = subprocess.run(script, text=True, stdout=subprocess.PIPE, check=True).stdout
    return set(re.findall(r"^    ([a-z-]+)\) case", text, re.MULTILINE))


def check_case(name, words, env, folder, write):
    program, *rest = words.split()
    text, status = screen([os.path.join(BUILD, program), *rest], env, folder)
    text = f"$ {words}\n{text}" + (f"(exit status {status})\n" if status else "")
    path = os.path.join(GOLDEN, f"{name}.txt")
    if wide(text):
        return f"{name}: a line is wider than {COLUMNS}: {wide(text)[0]!r}"
    if write:
        with open(path, "w") as f:
            f.write(text)
        return None
    with open(path) as f:
        golden = f.read()
    return None if text == golden else f"{name}: was\n{golden}is now\n{text}(tests/golden.py --write makes it so)"


def check_help(program, known, env, folder):
    for command in sorted(commands(program)):
        if command not in known:
            yield f"{program} {command}: neither in CASES nor in NO_PAGE of tests/golden.py"
        text, status = screen([os.path.join(BUILD, program), command, "--help"], env, folder)
        page = text.partition("\nExamples:\n")[0]  # those are lines to copy
        if status or wide(page):
            yield f"{program} {command} --help: status {status}, a line is wider than {COLUMNS}: {wide(page)[:1]}"


def main():
    write = "--write" in sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "kubeconfig")
        with open(config, "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "golden",
                       "clusters": [{"name": "golden", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                       "contexts": [{"name": "golden", "context": {"cluster": "golden", "user": "golden"}}],
                       "users": [{"name": "golden", "user": {}}]}, f)
        env = {"PATH": os.environ["PATH"], "HOME": folder, "KUBECONFIG": config, "TERM": "xterm",
               "MUSTER_DATA_DIR": f"{folder}/data",
               **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
        failures = [check_case(name, words, env, folder, write) for name, words in CASES.items()]
        known = NO_PAGE | {words.split()[1] for words in CASES.values()} | {"completion", "help", "version", "man"}
        for program in ("muster", "kubectl-torchrun"):
            found = list(check_help(program, known, env, folder))
            failures += found or [None]
    spare = set(os.listdir(GOLDEN)) - {f"{name}.txt" for name in CASES}
    failures.append(f"tests/golden has files of no case: {sorted(spare)}" if spare else None)
    failed = [f for f in failures if f]
    for failure in failed:
        print(f"FAIL {failure}")
    print(f"{len(failures) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
