#!/usr/bin/env python3
"""run.py [--torch VERSION] [WORD...]: twenty failures planted in real gangs (torchrun, two pods with two ranks each), and what
Muster says of them, with every PyTorch on this machine (--torch: with those whose version begins so).

Each runs train.py on one `muster up`. When it is over, all that a person would look at is held against what was planted: the
job's status (phase, message, status.failure with pod, node, rank, exit code, reason and last lines), its events, what `kubectl
torchrun` prints as status and logs. Prints a table in Markdown for each PyTorch, `failed: torch-VERSION/NAME` for each that was
not told truly, and `N passed, N failed, N skipped`. WORD: only those with it in their name. Two of them are among the end-to-end
tests (tests/e2e/test_failures.py).
"""

import json
import os
import re
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

from harness import NOT_YET, PATIENCE, Failure, Muster, torch_pythons, wait_for  # noqa: E402

FLAGS = ("--cpus-per-node", "8", "--memory-per-node", "16Gi")
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 2, cpus: 2, memory: 4Gi}
"""
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: q
  numGPUs: 4
  command: {command}
  reliability: {{maxRestarts: {restarts}{reliability}}}
{more}"""
LIMIT_S = 120
FINAL = ("Succeeded", "Failed", "TimedOut")
EXIT_SKIPPED = 77
ANY = "any"
LOST_PEER = "Connection closed by peer|Connection reset by peer|Broken pipe|Connection refused"


class Case:
    """What is planted, and what is true of it. `ranks`: those of which one is to be named; (): none is. Words are patterns."""

    def __init__(self, name, how, command, *, ranks=(), code=None, reason="Error", phase="Failed", status="", message="",
                 event="", logs=(), restarts=0, reliability="", more="", act=None, before=()):
        self.name, self.how, self.command = name, how, command
        self.ranks, self.code, self.reason, self.phase = ranks, code, reason, phase
        self.status, self.message, self.logs, self.before = status, message, logs, before
        self.event = event or (phase if phase != "Succeeded" else ""), status
        self.restarts, self.reliability, self.more, self.act = restarts, reliability, more, act

    def manifest(self):
        return JOB.format(name=self.name, command=repr(self.command), restarts=self.restarts, reliability=self.reliability,
                          more=self.more)


def planted(fault, rank, *words):
    return " ".join(["python train.py", fault, str(rank), *words])


def delete_pod(m, job):
    m.kubectl("delete", "pod", f"{job}-worker-1", "--wait=false")


def drain_node(m, job):
    """As `kubectl drain` does: the node is closed and the pod evicted; the node is opened again when that is known."""
    node = m.get("pod", f"{job}-worker-0")["spec"]["nodeName"]
    m.kubectl("cordon", node)
    m.rest.ask("POST", f"/api/v1/namespaces/default/pods/{job}-worker-0/eviction", json.dumps(
               {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"{job}-worker-0"}}))
    wait_for(lambda: any(e["reason"] == "Preempted" for e in events(m, job)), f"{job} to say that it lost a pod", 60)
    m.kubectl("uncordon", node)


CASES = [
    Case("exception", "an exception", planted("raise", 2), ranks=[2], code=1, status="worker-1 ended with exit status 1",
         message="ValueError: planted on rank 2", logs=[r"rank2\].*ValueError: planted on rank 2"]),
    Case("exit-code", "sys.exit(7)", planted("exit", 0), ranks=[0], code=7, status="worker-0 ended with exit status 7",
         message="rank 0 ended with exit code 7", logs=[r"rank0\] planted: exit"]),
    Case("abort", "os.abort()", planted("abort", 1), ranks=[1], code=134, status="worker-0 was ended by signal 6",
         message="rank 1 was killed by SIGABRT", logs=[r"rank1\] planted: abort"]),
    Case("killed", "SIGKILL to a rank, the others lose it (gloo)", planted("SIGKILL", 3, "gloo"), ranks=[3], code=137,
         status="worker-1 was ended by signal 9", message="rank 3 was killed by SIGKILL",
         logs=[r"rank3\] planted: SIGKILL"]),
    Case("segfault", "SIGSEGV in a rank, the others lose it (gloo)", planted("SIGSEGV", 2, "gloo"), ranks=[2], code=139,
         status="worker-1 was ended by signal 11", message="rank 2 was killed by SIGSEGV",
         logs=[r"rank2\] planted: SIGSEGV"]),
    Case("out-of-memory", "more memory than the pod has", planted("memory", 3), ranks=[3], code=137, reason="OOMKilled",
         status="worker-1 was ended by signal 9, OOMKilled", message="rank 3 was killed by SIGKILL",
         logs=[r"rank3\] planted: memory"], more="  nodeResources: {memory: 1500Mi}\n"),
    Case("no-script", "a script that is not there; three restarts are left", "python tran.py", ranks=ANY, code=2, restarts=3,
         status="the script .*tran.py does not exist; it is not restarted", message="can't open file '.*tran.py'",
         logs=["can't open file '.*tran.py'"]),
    Case("syntax", "a syntax error; three restarts are left", "python wrong.py", ranks=ANY, code=1, restarts=3,
         status="Python cannot read the script; it is not restarted", message="SyntaxError",
         logs=["SyntaxError"]),
    Case("no-module", "import of a module that is not there, in all ranks", planted("import", 0), ranks=ANY, code=1,
         status="ended with exit status 1", message="No module named 'muster_has_no_such_module'",
         logs=["No module named 'muster_has_no_such_module'"]),
    Case("no-command", "a command that is not there; three restarts are left", "muster-has-no-such-command", ranks=ANY, code=127,
         restarts=3, status=r"command not found \(exit status 127\)", message="not found", logs=["not found"]),
    Case("setup", "setupCommand ends with 4", planted("raise", 0), code=4, status="ended with exit status 4",
         message="setupCommand ended with exit code 4", logs=["before the setup failed"],
         more="  setupCommand: echo before the setup failed; exit 4\n"),
    Case("deleted-pod", "a pod is deleted by hand", planted("wait", 9), phase="Succeeded", event="Preempted",
         status="worker-1 was evicted or deleted; the whole job starts again", logs=["rank 3 is done"],
         before=["rank 3 begins"], act=delete_pod),
    Case("drained-node", "the node of a pod is drained", planted("wait", 9), phase="Succeeded", event="Preempted",
         status="worker-0 was evicted", logs=["rank 0 is done"], before=["rank 0 begins"], act=drain_node),
    Case("deadline", "activeDeadlineSeconds: 3", planted("wait", 9), phase="TimedOut",
         status=r"ran longer than activeDeadlineSeconds \(3\)", reliability=", activeDeadlineSeconds: 3"),
    Case("torchrun-killed", "SIGKILL to torchrun itself", planted("torchrun", 2), code=137,
         status="worker-1 was ended by signal 9", message="torchrun was killed by SIGKILL before any of its ranks failed",
         logs=[r"rank2\] planted: torchrun"]),
    Case("early-end", "a rank ends with 0 too early, the others lose it (gloo)", planted("early", 3, "gloo"), ranks=[0, 1, 2],
         code=1, status="ended with exit status 1", message=LOST_PEER, logs=[r"rank3\] planted: early", LOST_PEER]),
    Case("after-victims", "an exception, the others lose the rank (gloo)", planted("raise", 3, "gloo"), ranks=[3], code=1,
         status="worker-1 ended with exit status 1", message="ValueError: planted on rank 3",
         logs=[r"rank3\].*ValueError: planted on rank 3"]),
    Case("ends-late", "the same, and the culprit's pod ends six seconds after the others'", planted("linger", 3, "gloo"),
         ranks=[3], code=1, status="worker-1 ended with exit status 1", message="ValueError: planted on rank 3",
         logs=[r"rank3\].*ValueError: planted on rank 3"]),
    Case("two-exceptions", "an exception in rank 1, and a second later one in rank 2 (gloo)", planted("twice", 1, "gloo"),
         ranks=[1], code=1, status="worker-0 ended with exit status 1", message="ValueError: planted on rank 1",
         logs=[r"rank1\].*ValueError: planted on rank 1"]),
    Case("restarted", "rank 2 ends with 3, after the restart rank 1 with 5", planted("again", 2), ranks=[1], code=5, restarts=1,
         status="worker-0 ended with exit status 5; all 1 restarts are used up", message="rank 1 ended with exit code 5",
         logs=[r"rank1\] planted: again"], before=[r"rank2\] planted: again"]),
]


def events(m, job):
    return [e for e in m.get("events") if e["involvedObject"]["kind"] == "TorchrunJob" and e["involvedObject"]["name"] == job]


class Seen:
    """What Muster told."""

    def __init__(self, m, name):
        self.m, self.name, self.nodes = m, name, {}

    def status(self):
        for pod in self.m.get("pods"):  # while there are any
            node = pod["spec"].get("nodeName")
            if node and pod["metadata"]["name"].startswith(f"{self.name}-worker-"):
                self.nodes[pod["metadata"]["name"]] = node
        return self.m.get("torchrunjob", self.name).get("status", {})

    def wait(self, phases):
        return wait_for(lambda: (s := self.status()).get("phase") in phases and s,
                        f"{self.name} to be {'/'.join(phases)}", LIMIT_S)

    def begun(self):
        """All ranks have said that they begin."""
        wait_for(lambda: self.m.torchrun("logs", self.name, ok=False).stdout.count(" begins") == 4, "all ranks to begin", LIMIT_S)

    def logs(self, *flags):
        done = self.m.torchrun("logs", self.name, *flags, ok=False)
        return done.stdout + done.stderr


def pattern(words, text):
    return re.search(words, text, re.DOTALL) is not None


def wrong_failure(case, seen, failure):
    """What status.failure says that is not true."""
    if case.code is None:
        return [f"status.failure is {failure}, and nothing failed"] if failure else []
    wrong = []
    pod, rank = failure.get("pod", ""), failure.get("rank")
    ranks = [0, 1, 2, 3] if case.ranks == ANY else case.ranks
    if case.ranks and rank not in ranks and case.ranks != ANY:
        wrong.append(f"status.failure.rank is {rank}")
    if not case.ranks and rank is not None:
        wrong.append(f"status.failure.rank is {rank}, and no rank failed")
    if rank is not None and pod != f"{case.name}-worker-{rank // 2}":
        wrong.append(f"rank {rank} is not of status.failure.pod {pod}")
    if not pod or failure.get("node") != seen.nodes.get(pod):
        wrong.append(f"status.failure.node is {failure.get('node')}, pod {pod} ran on {seen.nodes.get(pod)}")
    if failure.get("exitCode") != case.code or failure.get("reason") != case.reason:
        wrong.append(f"status.failure has {failure.get('exitCode')} and {failure.get('reason')}")
    if not pattern(case.message, failure.get("message", "")):
        wrong.append(f"status.failure.message is {failure.get('message')!r}")
    return wrong


def wrong_words(case, seen, status):
    """The same of the phase, the message, events and logs."""
    wrong = []
    if status["phase"] != case.phase:
        wrong.append(f"the phase is {status['phase']}")
    if case.phase != "Succeeded" and not pattern(case.status, status.get("message", "")):
        wrong.append(f"status.message is {status.get('message')!r}")
    if case.restarts == 3 and status.get("restarts", 0):
        wrong.append(f"it was restarted {status['restarts']} times")
    reason, words = case.event
    told = [(e["reason"], e["message"]) for e in events(seen.m, case.name)]
    if not any(r == reason and pattern(words, text) for r, text in told):
        wrong.append(f"no event {reason} has {words!r}: {told}")
    for flags, wanted in (((), case.logs), (("--previous",), case.before)):
        logs = seen.logs(*flags) if wanted else ""
        wrong += [f"logs {' '.join(flags)} have no {w!r}: {logs[-600:]!r}" for w in wanted if not pattern(w, logs)]
    return wrong


def wrong_view(case, seen, failure):
    """And `kubectl torchrun status`."""
    if not failure:
        return []
    rank = "" if failure.get("rank") is None else f"rank {failure['rank']}, "
    text = seen.m.torchrun("status", case.name).stdout
    wanted = rf"Failed pod: +{failure['pod']} \({rank}{failure['node']}\)"
    return [] if pattern(wanted, text) else [f"status prints {text!r}"]


def play(m, folder, case):
    """(what is wrong, status)"""
    seen = Seen(m, case.name)
    path = os.path.join(folder, "job.yaml")
    with open(path, "w") as f:
        f.write(case.manifest())
    m.torchrun("submit", "-f", path, "--detach", "--dir", folder)
    if case.act:
        seen.wait(("Running",))
        seen.begun()
        case.act(m, case.name)
    status = seen.wait(FINAL)
    failure = status.get("failure", {})
    wrong = wrong_words(case, seen, status) + wrong_failure(case, seen, failure) + wrong_view(case, seen, failure)
    m.torchrun("delete", "--force", case.name)
    wait_for(lambda: not m.get("pods"), f"the pods of {case.name} to go", 60)
    return wrong, status, seen


def cell(text):
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").strip()


def row(number, case, wrong, status):
    failure = status.get("failure") or {}
    who = "-" if not failure else f"{failure.get('pod')} on {failure.get('node')}, rank {failure.get('rank', '-')}"
    what = "-" if not failure else f"{failure.get('exitCode')}, {failure.get('reason')}"
    words = failure.get("message", "").strip().splitlines()
    return "| " + " | ".join(map(cell, (number, case.how, who, what, f"{status.get('phase')}: {status.get('message', '')}",
                                        words[-1] if words else "-", "no: " + "; ".join(wrong) if wrong else "yes"))) + " |"


def play_all(cases, python=None):
    """[(name, what is wrong, row)]; with the torchrun that stands beside this Python, or the one that is found"""
    folder = tempfile.mkdtemp(prefix="muster-failures-")
    shutil.copy(os.path.join(HERE, "train.py"), folder)
    with open(os.path.join(folder, "wrong.py"), "w") as f:
        f.write("def train(:\n    pass\n")
    results = []
    try:
        with Muster(nodes=2, gpus_per_node=2, flags=FLAGS, path_first=python and os.path.dirname(python)) as m:
            m.apply(QUEUE)
            for number, case in enumerate(cases, 1):
                began, status = time.monotonic(), {}
                try:
                    wrong, status, _ = play(m, folder, case)
                except (Failure, *NOT_YET) as e:
                    wrong = [str(e)]
                    m.torchrun("delete", "--force", case.name, ok=False)
                print(f"{case.name}: {'; '.join(wrong) or 'true'} ({time.monotonic() - began:.0f} s)", flush=True)
                results.append((case.name, wrong, row(number, case, wrong, status)))
    finally:
        shutil.rmtree(folder)
    return results


def print_table(results):
    print("\n| | planted | who is named | exit code, reason | phase and message | last line | true |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(line for _, _, line in results) + "\n")


def chosen(words):
    return [c for c in CASES if not words or any(word in c.name for word in words)]


def pythons(argv):
    """[(path, version)] of the PyTorches to play with; what is said about them is taken from argv."""
    wanted = ""
    if "--torch" in argv:
        at = argv.index("--torch")
        wanted = "".join(argv[at + 1:at + 2])
        del argv[at:at + 2]
    return [(path, version) for path, version in torch_pythons() if version.startswith(wanted)]


def main(argv):
    found = pythons(argv)
    cases = chosen(argv)
    if not found:
        print(f"skipped: no Python here can import such a torch\n0 passed, 0 failed, {len(cases)} skipped")
        return EXIT_SKIPPED
    passed, failed, said = 0, [], []
    for python, version in found:
        print(f"{len(cases)} failures, PyTorch {version}, limits times {PATIENCE:g}", flush=True)
        results = play_all(cases, python)
        print_table(results)
        wrong = [f"torch-{version}/{name}" for name, why, _ in results if why]
        passed, failed = passed + len(results) - len(wrong), failed + wrong
        said.append(f"PyTorch {version}: {len(results) - len(wrong)} of {len(results)} true")
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, 0 skipped; {'; '.join(said)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
