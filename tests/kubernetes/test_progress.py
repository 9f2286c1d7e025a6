"""What trainings tell of themselves, on a real API server: every replica of the operator takes it, from who may tell it."""

import contextlib
import http.client
import json
import socket
import ssl
import threading

from harness import binary, check, run, wait_for
from proxy import Proxy
from test_trainer import trainjob
from test_webhook import secret_data
from webhooks import WebhookCluster

HOST = "muster-webhook.muster-system.svc"
GOOD = {"trainerStatus": {"progressPercentage": 42, "estimatedRemainingSeconds": 7,
                          "metrics": [{"name": "loss", "value": "0.5"}]}}


def audience(job, ns="default"):
    return f"trainer.kubeflow.org/v1alpha1/namespaces/{ns}/trainjobs/{job}/status"


def token_for(m, job, ns="default"):
    return m.kubectl("create", "token", "default", "-n", ns, "--audience", audience(job)).stdout.strip()


def tell(port, ca, token, body=None, path="/apis/" + audience("told"), host=HOST):
    """The status of the answer of whoever serves that port and is `host` to the authority."""
    connection = http.client.HTTPConnection(host)
    connection.sock = ssl.create_default_context(cadata=ca).wrap_socket(
        socket.create_connection(("127.0.0.1", port), 10), server_hostname=host)
    try:
        connection.request("POST", path, json.dumps(GOOD) if body is None else body,
                           {"Authorization": "Bearer " + token} if token else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def create(m, name):
    """A TrainJob, and what its trainer is told: variables, and the ConfigMap of the authority."""
    m.kubectl("create", "-n", "default", "-f", "-", input=json.dumps(trainjob(name)))
    made = wait_for(lambda: m.get("jobset", name), "the JobSet")
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod, {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}


def authority(m, name):
    return m.get("configmap", f"{name}-tls-config")["data"]["ca.crt"]


def test_a_training_tells_its_progress_to_any_replica_and_nothing_else():
    with WebhookCluster(operators=2, node_flags=("--run-jobs-for", "600s")) as m:
        pod, env = create(m, "told")
        check(env["KUBEFLOW_TRAINER_SERVER_URL"] == f"https://{HOST}/apis/{audience('told')}", str(env))
        sources = next(v["projected"]["sources"] for v in pod["volumes"] if "projected" in v)
        check(sources[0]["serviceAccountToken"]["audience"] == audience("told"), str(sources))
        ca, token = authority(m, "told"), token_for(m, "told")
        api = m.kubectl("create", "token", "default", "-n", "default").stdout.strip()
        far = json.dumps({"trainerStatus": {"progressPercentage": 142}})
        other, configmaps = "/apis/" + audience("other"), "/api/v1/namespaces/default/configmaps"
        for operator in m.operators:
            def answer(token, *rest):
                return tell(operator.webhook_port, ca, token, *rest)
            rows = (("good", answer(token), 200), ("a value that cannot be", answer(token, far), 422),
                    ("nothing", answer(token, "{}"), 422), ("no JSON", answer(token, "x"), 400),
                    ("too much", answer(token, "[" * 70000), 413), ("another's job", answer(token, None, other), 403),
                    ("the API's token", answer(api), 403), ("no token of anybody's", answer("x.y.z"), 403),
                    ("another namespace's", answer(token_for(m, "told", "kube-system")), 403),
                    ("no token", answer(""), 401), ("no such job", answer(token_for(m, "other"), None, other), 404),
                    ("something else", answer(token, "{}", configmaps), 404))
            wrong = [f"{why}: {got}, not {wanted}" for why, got, wanted in rows if got != wanted]
            check(not wrong, f"{operator.name}: {wrong}")
            told = m.get("trainjob", "told")["status"]["trainerStatus"]
            check(told.pop("lastUpdatedTime") and told == GOOD["trainerStatus"], str(told))
            m.kubectl("patch", "trainjob", "told", "--subresource=status", "--type=merge", "-p",
                      '{"status":{"trainerStatus":null}}')


def test_trainings_that_run_learn_of_a_new_authority():
    with WebhookCluster(operators=2, node_flags=("--run-jobs-for", "600s")) as m:
        create(m, "told")
        old = authority(m, "told")
        m.kubectl("patch", "secret", "muster-webhook", "-n", "muster-system", "-p", '{"data":{"ca.key":null}}')
        wait_for(lambda: authority(m, "told") != old, "the ConfigMap to follow", 30)
        both, token = authority(m, "told"), token_for(m, "told")
        check(old.strip() in both and both == secret_data(m)["ca.crt"], "the old one is still known")
        first = both[:both.index("-----END CERTIFICATE-----") + 25] + "\n"

        def signed(port):
            try:
                return tell(port, first, token) == 200
            except ssl.SSLCertVerificationError:
                return False
        for operator in m.operators:
            wait_for(lambda: signed(operator.webhook_port), f"{operator.name} to serve what the new one signed", 60)


def test_the_url_can_be_another_and_its_host_is_in_the_certificate():
    url = "https://train.example:8443"
    with WebhookCluster(operator_flags=[f"--progress-url={url}"], node_flags=("--run-jobs-for", "600s")) as m:
        _, env = create(m, "told")
        check(env["KUBEFLOW_TRAINER_SERVER_URL"].startswith(f"{url}/apis/"), str(env))
        for host in ("train.example", HOST):
            got = tell(m.operators[0].webhook_port, authority(m, "told"), token_for(m, "told"), host=host)
            check(got == 200, f"{host}: {got}")
        for wrong in ("http://train.example", "https://", "https://:8443", "https://train.example/"):
            done = run([binary("muster"), "operator", "--kubeconfig", m.operator_kubeconfig, "--listen=", "--debug-listen=",
                        "--webhook-listen=127.0.0.1:0", f"--progress-url={wrong}"], ok=False)
            check(done.returncode != 0 and "--progress-url" in done.stderr, f"{wrong}: {done.stderr}")


def test_no_more_than_so_many_tokens_are_looked_at_at_once():
    most = 32  # PROGRESS_UNKNOWN_MAX
    with Proxy(WebhookCluster.plane) as proxy, WebhookCluster(kubeconfig=proxy.kubeconfig) as m:
        create(m, "told")
        port, ca, token, answers = m.operators[0].webhook_port, authority(m, "told"), token_for(m, "told"), []

        def reviews(method, path):
            return path.split("?")[0].endswith("/tokenreviews")
        proxy.faults(100, kinds=("500",), only=reviews)
        check(tell(port, ca, token) == 503, "a token that cannot be checked is nobody's fault")
        proxy.faults(100, kinds=("timeout-before",), only=reviews)
        tellers = [threading.Thread(target=lambda: answers.append(tell(port, ca, token))) for _ in range(most)]
        for teller in tellers:
            teller.start()
        wait_for(lambda: proxy.injected.get("timeout-before") == most, f"{most} tokens to be looked at")
        check(tell(port, ca, token) == 429 and tell(port, ca, "") == 401, "one more is too many")
        proxy.clear()
        proxy.drop()
        for teller in tellers:
            teller.join()
        # 200: what was cut on a connection that had been used before is sent once more.
        check(len(answers) == most and set(answers) <= {503, 200}, str(answers))
        wait_for(lambda: tell(port, ca, token) == 200, "the next to be heard")

        def unheard():
            with contextlib.suppress(OSError, http.client.HTTPException):
                tell(port, ca, token)
        proxy.faults(100, kinds=("timeout-before",), only=reviews)
        last = threading.Thread(target=unheard)
        last.start()
        wait_for(lambda: proxy.injected["timeout-before"] == most + 1, "the last token to be looked at")
        check(m.operators[0].stop() < 10, "an operator that stops does not wait for it")
        last.join()
