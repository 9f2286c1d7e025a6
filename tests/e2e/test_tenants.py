"""What a tenant may ask for, what it may cost, and that it is written down."""

import json
import os

from harness import Muster, check, free_port, wait_for
from pods import wait_ready
from test_hostile import Wire
from test_rights import Client, account, rule
from test_websockets import Socket

PODS = "/api/v1/namespaces/default/pods"


def pod(name="p", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "command": ["true"]}],
                                                 "schedulerName": "nobody", **spec}}


def test_namespaces_enforce_pod_security():
    with Muster() as m:
        owner = Client(m)
        label = "pod-security.kubernetes.io/"
        owner.says(422, "POST", "/api/v1/namespaces", {"metadata": {"name": "n", "labels": {label + "enforce": "strict"}}})
        owner.says(201, "POST", "/api/v1/namespaces", {"metadata": {"name": "n", "labels": {
            label + "enforce": "baseline", label + "warn": "restricted", label + "warn-version": "v1.29"}}})
        pods = "/api/v1/namespaces/n/pods"
        answer = owner.says(403, "POST", pods, pod(hostNetwork=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}]))
        check(answer["message"] == 'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces '
              '(hostNetwork=true), hostPath volumes (volume "v")', answer["message"])
        done = m.kubectl("apply", "-n", "n", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod()}))
        check('would violate PodSecurity "restricted:v1.29": allowPrivilegeEscalation != false (container "c" must set '
              'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities' in done.stderr and
              'seccompProfile (pod or container "c"' in done.stderr, done.stderr)
        owner.says(201, "POST", PODS, pod(hostNetwork=True))


def test_names_of_pods_are_no_lines_of_a_file():
    with Muster() as m:
        owner = Client(m)
        for field in ("hostname", "subdomain"):
            answer = owner.says(422, "POST", PODS, pod(**{field: "a\n6.6.6.6 registry"}))
            check(f"spec.{field}: Invalid value" in answer["message"], str(answer))
        many = [{"name": f"c{i}", "image": "i"} for i in range(10001)]
        answer = owner.says(413, "POST", PODS, pod(containers=many))
        check("spec.containers has 10001 items, at most 10000" in answer["message"], str(answer))
        text = json.dumps(pod())
        with Wire(m) as w:
            code, _ = w.ask(f"POST {PODS}\nContent-Type: application/json\nContent-Length: {4 << 20}", text.encode())
            check(code == 413, f"{code}: four megabytes are more than an object can be")


def test_one_user_has_only_so_much_under_way():
    with Muster() as m:
        owner = Client(m)
        bot, other = (account(m, owner, name, rule("create,list", "configmaps")) for name in ("bot", "other"))
        begun = []
        head = (f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: "
                f"{bot.headers['Authorization']}\r\nContent-Type: application/json\r\nContent-Length: {3 << 20}\r\n\r\n").encode()
        try:
            for _ in range(10):  # bodies that are announced and do not come
                begun.append(Wire(m))
                begun[-1].send(head + b"{")
            wait_for(lambda: refused(m, head), "the eleventh to be told to wait")
            other.says(201, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
            bot.says(200, "GET", "/api/v1/namespaces/default/configmaps")
        finally:
            for w in begun:
                w.tls.close()
        wait_for(lambda: bot.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "d"}})[0] in (201, 409),
                 "the others to be forgotten")


LISTEN = """
import socket, time
s = socket.socket()
s.bind(("", {port}))
s.listen(4096)
time.sleep(1000)
"""


def test_connections_to_pods_count_among_the_streams_of_a_user():
    """Each takes a descriptor of the server: a thousand port-forwards of hundreds would take all there are."""
    port = free_port()
    with Muster() as m:
        owner = Client(m)
        bot = account(m, owner, "bot", rule("create", "pods/portforward"))
        owner.says(201, "POST", PODS, pod("a", schedulerName="default-scheduler", containers=[
            {"name": "c", "image": "i", "command": ["python3", "-c", LISTEN.format(port=port)],
             "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}}]))
        wait_ready(m, "a")
        token = bot.headers["Authorization"].split()[1]
        ports, sockets = ",".join([str(port)] * 60), []
        try:
            for _ in range(17):
                sockets.append(Socket(m, f"a/portforward?ports={ports}", "v4.channel.k8s.io", token))
            said = {}
            while not any(b"as much as one user may have" in words for words in said.values()):
                _, data = sockets[-1].frame()
                said[data[0]] = said.get(data[0], b"") + data[1:]
        finally:
            for s in sockets:
                s.__exit__(None, None, None)


def refused(m, head):
    """Whether one more is answered, and with 429, before its body is read."""
    try:
        with Wire(m, timeout=5) as w:
            w.send(head + b"{")
            answer = w.line_and_headers()
    except TimeoutError:  # it is waited for, since not all of the ten are known yet
        return False
    else:
        check(answer.split()[1] == b"429" and b"Retry-After: 1" in answer, str(answer))
        return True


def test_writes_are_written_down():
    m = Muster()
    log = os.path.join(m.folder, "audit.log")
    m.flags += ["--audit-log", log]
    with m:
        owner = Client(m)
        maps = "/api/v1/namespaces/default/configmaps"
        bot = account(m, owner, "bot", rule("create", "configmaps"))
        bot.says(201, "POST", maps, {"metadata": {"name": "c"}, "data": {"secret": "pst"}})
        bot.says(403, "DELETE", maps + "/c")
        owner.says(200, "GET", maps + "/c")
        owner.says(403, "DELETE", maps + "/c", **{"Impersonate-User": "eve"})

        def lines():
            with open(log) as f:
                return [json.loads(line) for line in f]
        wait_for(lambda: len([e for e in lines() if e["objectRef"]["resource"] == "configmaps"]) == 3, "three lines")
        events = [e for e in lines() if e["objectRef"]["resource"] == "configmaps"]
        check([(e["user"]["username"], e["verb"], e["responseStatus"]["code"]) for e in events] == [
            ("system:serviceaccount:default:bot", "create", 201), ("system:serviceaccount:default:bot", "delete", 403),
            ("muster:owner", "delete", 403)], str(events))
        check(events[1]["objectRef"] == {"resource": "configmaps", "namespace": "default", "name": "c", "apiVersion": "v1"},
              str(events[1]))
        check(events[2]["impersonatedUser"]["username"] == "eve" and events[2]["requestReceivedTimestamp"].endswith("Z"),
              str(events[2]))
        with open(log) as f:
            check("pst" not in f.read(), "bodies are nobody's business")
        check(os.stat(log).st_mode & 0o777 == 0o600, "the log is for its owner")
