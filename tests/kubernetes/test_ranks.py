"""What pods tell of their ranks, on a real API server: every replica takes it, from the pod that it is about."""

import json
import os
import signal
import subprocess
import sys
import time

from harness import check, wait_for
from processes import ProcessCluster
from test_hang import NODES, Training
from test_progress import HOST, tell
from test_webhook import secret_data
from webhooks import WebhookCluster

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {ns}, annotations: {{hollow.muster.dev/run-ms: "600000"}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, image: x}}]
"""
TELL_PY = os.path.join(os.path.dirname(__file__), "../../src/launch/tell.py")
TO_THIS_MACHINE = "import socket\nto = socket.create_connection\n" \
                  "socket.create_connection = lambda address, limit: to(('127.0.0.1', address[1]), limit)\n"
NOT_NOW = 75
STOPPED = [{"rank": 2, "pid": 70, "act": "stopped", "since": 5, "phase": 0, "steps": 41, "note": "not kept"}]


def audience(pod, ns="default"):
    return f"v1/namespaces/{ns}/pods/{pod}/ranks"


def token_of(m, pod, path=None, ns="default", bound=True):
    """As kubelet makes it for the volume of a pod, for the path of another one if that is said."""
    of = ["--bound-object-kind", "Pod", "--bound-object-name", pod] if bound else []
    return m.kubectl("create", "token", "default", "-n", ns, "--audience", path or audience(pod, ns), *of).stdout.strip()


def annotation(m, pod):
    return json.loads(m.get("pod", pod)["metadata"].get("annotations", {}).get("muster.dev/ranks", "null"))


def tell_as_the_launcher(m, port, ca, token, path):
    """The exit status of what muster-launch runs."""
    files = [os.path.join(m.folder, name) for name in ("token", "authority")]
    for file, text in zip(files, (token, ca)):
        with open(file, "w") as f:
            f.write(text)
    with open(TELL_PY) as f:
        program = TO_THIS_MACHINE + f.read()
    return subprocess.run([sys.executable, "-I", "-S", "-B", "-c", program, f"https://{HOST}:{port}{path}", *files],
                          input=json.dumps(STOPPED), text=True, timeout=60).returncode


def test_a_pod_tells_of_its_own_ranks_to_any_replica_and_of_no_others():
    with WebhookCluster(operators=2) as m:
        m.kubectl("create", "namespace", "other", ok=False)
        for name, ns in (("p", "default"), ("q", "default"), ("p", "other")):
            m.apply(POD.format(name=name, ns=ns))
        ca = secret_data(m)["ca.crt"]
        p, q = "/api/" + audience("p"), "/api/" + audience("q")
        for operator in m.operators:
            def answer(token, body=STOPPED, path=p):
                return tell(operator.webhook_port, ca, token, body if isinstance(body, str) else json.dumps(body), path)
            good = token_of(m, "p")
            rows = (("another pod's token", answer(token_of(m, "q")), 403),
                    ("another pod's token for this path", answer(token_of(m, "q", audience("p"))), 403),
                    ("this pod's token for another path", answer(good, path=q), 403),
                    ("a token of no pod", answer(token_of(m, "p", bound=False)), 403),
                    ("the pod of that name in another namespace", answer(token_of(m, "p", audience("p"), "other")), 403),
                    ("no token of anybody's", answer("x.y.z"), 403), ("no token", answer(""), 401),
                    ("too much", answer(good, "[" * 70000), 413),
                    ("another subresource", answer(good, path="/api/v1/namespaces/default/pods/p/log"), 404))
            wrong = [f"{why}: {got}, not {wanted}" for why, got, wanted in rows if got != wanted]
            check(not wrong and annotation(m, "p") is None and annotation(m, "q") is None, f"{operator.name}: {wrong}")
            check(answer(good) == 200, "the pod's own")
            check(answer(good) == 429, "not again at once")
            told = annotation(m, "p")
            check(len(told) == 1 and told[0]["act"] == "stopped" and "note" not in told[0], str(told))
            check(annotation(m, "q") is None, "nothing is said of the other pod")
            for body, wanted in (("{}", 422), ("x", 400), ("[]", 200)):
                got = wait_for(lambda: (code := answer(good, body)) != 429 and code, "its next turn", 10)
                check(got == wanted, f"{body}: {got}, not {wanted}")
            def launched():
                return tell_as_the_launcher(m, operator.webhook_port, ca, good, p)
            wait_for(lambda: launched() == 0, "its launcher to be heard", 30)
            check(annotation(m, "p") == told, f"{annotation(m, 'p')}")
            wait_for(lambda: launched() == NOT_NOW, "its launcher to be told to try again", 30)
            m.kubectl("annotate", "pod", "p", "muster.dev/ranks-")


def test_a_token_of_a_pod_that_was_deleted_writes_nothing_to_the_next_of_its_name():
    with WebhookCluster() as m:
        m.apply(POD.format(name="p", ns="default"))
        port, ca, old = m.operators[0].webhook_port, secret_data(m)["ca.crt"], token_of(m, "p")
        path, body = "/api/" + audience("p"), json.dumps(STOPPED)
        check(tell(port, ca, old, body, path) == 200, "while it is there")
        m.kubectl("delete", "pod", "p", "--force", "--grace-period=0")
        m.apply(POD.format(name="p", ns="default"))
        got = wait_for(lambda: (code := tell(port, ca, old, body, path)) != 429 and code, "its next turn", 10)
        check(got in (404, 409), f"{got}: the operator still knew the token, the pod is another")
        check(annotation(m, "p") is None, "nothing was written")
        check(tell(port, ca, token_of(m, "p"), body, path) in (200, 429), "the new one is heard")


class UnobservedCluster(ProcessCluster):
    """Its nodes look at no rank, as where kubelets run the pods."""

    def __init__(self, **options):
        super().__init__(**options)
        self.node_flags.append("--unobserved")


def test_a_rank_that_is_stopped_is_named_by_its_launcher_and_the_gang_starts_again():
    with UnobservedCluster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        training = Training(m)
        training.wait_training()
        first = {p["metadata"]["name"]: p["metadata"]["uid"] for p in m.get("pods") if "-worker-" in p["metadata"]["name"]}
        check(len(first) == 2, str(first))
        os.kill(training.pid(2), signal.SIGSTOP)
        since = time.monotonic()
        failure = wait_for(lambda: training.status().get("failure"), "the hang to be a failure", 60)
        print(f"named after {time.monotonic() - since:.1f} s: {failure['message']}")
        check(failure["pod"] == "t-worker-1" and failure["reason"] == "Hung", f"{failure}")
        check("rank 2 (pod t-worker-1, node " in failure["message"] and "is stopped by a signal" in failure["message"] and
              "3 ranks wait for it" in failure["message"], f"{failure}")
        words = "rank 2 (pod t-worker-1, node "
        wait_for(lambda: words in m.torchrun("status", "t").stdout, "the plugin to tell it", 60)
        end = training.finish(restarts=1)
        print(f"trained to its end after {time.monotonic() - since:.1f} s")
        uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in m.get("pods")}
        check(end["generation"] == 1 and not any(uids[name] == uid for name, uid in first.items()), f"new pods: {end}")
        check("is stopped by a signal" in m.kubectl("get", "events").stdout, "told in an event")
        check(training.hung()["status"] == "False", f"{training.hung()}")
        ranks = training.ranks()
        check(sorted(ranks) == [0, 1, 2, 3] and all(r["steps"] >= 20 for r in ranks.values()), f"how far they came: {ranks}")


def test_ranks_that_are_left_alone_are_not_told_of():
    with UnobservedCluster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        training = Training(m, observe="off")
        wait_for(lambda: "step 10 rank" in m.kubectl("logs", "t-worker-0", ok=False).stdout, "it to train", 90)
        check(not training.ranks(), f"{training.ranks()}")
        for pod in m.get("pods"):
            names = [e["name"] for e in pod["spec"]["containers"][0]["env"]]
            check("MUSTER_RANKS_URL" not in names, str(names))
