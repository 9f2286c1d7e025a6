"""Addresses, names, services, and the API server from inside a pod."""

from harness import Muster, Skip, check, run, torch_pythons, wait_for
from pods import apply, container, logs, pod, run_pod, wait_phase, wait_ready

SERVER = ("import http.server, os\n"
          "class H(http.server.BaseHTTPRequestHandler):\n"
          "  def do_GET(self):\n"
          "    self.send_response(200); self.end_headers(); self.wfile.write(os.environ['HOSTNAME'].encode())\n"
          "  def log_message(self, *a): pass\n"
          "http.server.ThreadingHTTPServer((os.environ['IP'], 8080), H).serve_forever()\n")
IP = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


def web(name):
    return pod(name, container(["python3", "-c", SERVER], env=IP, ports=[{"name": "web", "containerPort": 8080}],
                               readinessProbe={"tcpSocket": {"port": "web"}, "periodSeconds": 1}),
               labels={"app": "web"}, hostname=name, subdomain="all", terminationGracePeriodSeconds=0)


def service(name, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "web"}], **spec}}


def test_services_and_pods_are_reached_by_their_names():
    with Muster() as m:
        apply(m, service("front"), service("same", sessionAffinity="ClientIP", type="NodePort"),
              service("all", clusterIP="None"), web("w0"), web("w1"))
        wait_ready(m, "w0")
        wait_ready(m, "w1")
        wait_for(lambda: m.get("service", "front")["spec"].get("clusterIP"), "the service to get an address")
        def fetch(n, url):
            return run_pod(m, n, ["python3", "-c", FETCH, url]).strip()
        check(fetch("a", "http://w1.all:8080") == "w1", "a pod by its subdomain")
        check(fetch("b", "http://w0.all.default.svc.cluster.local:8080") == "w0", "and by its whole name")
        check(fetch("c", "http://front") in ("w0", "w1"), "a service by its name")
        check(fetch("d", "http://front.default.svc") in ("w0", "w1"), "and with its namespace")
        often = "import urllib.request as u; print(len({u.urlopen('http://%s').read() for _ in range(6)}))"
        check(run_pod(m, "f", ["python3", "-c", often % "front"]).strip() == "2", "the pods of a service take turns")
        check(run_pod(m, "g", ["python3", "-c", often % "same"]).strip() == "1", "sessionAffinity ClientIP")
        port = m.get("service", "same")["spec"]["ports"][0]["nodePort"]
        node = m.get("nodes")[0]["status"]["addresses"][0]["address"]
        check(fetch("h", f"http://{node}:{port}") in ("w0", "w1"), "a port of the node")
        names = run_pod(m, "e", ["python3", "-c", "import socket; print(sorted({a[4][0] for a in "
                                 "socket.getaddrinfo('all', 80)}))"])
        check(all(m.get("pod", n)["status"]["podIP"] in names for n in ("w0", "w1")), f"a headless service: {names}")


# Listens for both on its own address; what comes by UDP is answered with the pod's name.
BOTH = """import os, socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind((os.environ["IP"], 8080))
t = socket.create_server((os.environ["IP"], 8080))
while True:
    text, client = u.recvfrom(1000)
    u.sendto(text + b" from " + os.uname().nodename.encode(), client)"""
# UDP may lose what is sent: it is sent again until an answer comes.
ASK = """import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.connect((sys.argv[1], 5353))
for _ in range(60):
    try:
        s.send(b"hello")
        print(s.recv(1000).decode())
        break
    except OSError:
        pass"""


def test_a_udp_port_of_a_service_is_passed_on():
    with Muster() as m:
        ready = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        apply(m, pod("w0", container(["python3", "-c", BOTH], env=IP, readinessProbe=ready),
                     labels={"app": "web"}, hostname="w0", terminationGracePeriodSeconds=0),
              service("names", ports=[{"name": "u", "port": 5353, "targetPort": 8080, "protocol": "UDP"},
                                      {"name": "t", "port": 5353, "targetPort": 8080}]))
        wait_ready(m, "w0")
        address = wait_for(lambda: m.get("service", "names")["spec"].get("clusterIP"), "the service to get an address")
        out = run_pod(m, "a", ["python3", "-c", ASK, "names"])
        check(out.startswith("hello from "), out)
        check(run(["python3", "-c", ASK, address]).stdout.startswith("hello from "), "and from the machine")


def test_pods_on_one_port_do_not_meet():
    with Muster() as m:
        apply(m, web("w0"), web("w1"))
        wait_ready(m, "w0")
        wait_ready(m, "w1")
        check(m.get("pod", "w0")["status"]["podIP"] != m.get("pod", "w1")["status"]["podIP"], "two addresses")


def who_am_i(flags=()):
    """What the API server says to a pod that asks who it is."""
    with Muster(flags=flags) as m:
        wait_for(lambda: m.get("serviceaccount", "default"), "the default ServiceAccount")
        ask = ("import json, os, ssl, urllib.request\n"
               "d = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
               "url = f\"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}\"\n"
               "group = 'authentication.k8s.io/v1'\n"
               "r = urllib.request.Request(url + f'/apis/{group}/selfsubjectreviews', method='POST',\n"
               "    data=json.dumps({'apiVersion': group, 'kind': 'SelfSubjectReview'}).encode(),\n"
               "    headers={'Authorization': 'Bearer ' + open(d + 'token').read(),\n"
               "             'Content-Type': 'application/json'})\n"
               "c = ssl.create_default_context(cafile=d + 'ca.crt')\n"
               "print(json.load(urllib.request.urlopen(r, context=c))['status']['userInfo']['username'])\n"
               "print(open(d + 'namespace').read())\n")
        return run_pod(m, "a", ["python3", "-c", ask])


def test_a_pod_reaches_the_api_server_as_its_service_account():
    out = who_am_i()
    check(out == "system:serviceaccount:default:default\ndefault\n", out)


def rendezvous_and_reduce(flags=()):
    """Two pods, one torchrun each, all_reduce with gloo."""
    found = torch_pythons()
    if not found:
        raise Skip("no Python here can import torch")
    script = ("import torch, torch.distributed as d\n"
              "d.init_process_group('gloo')\n"
              "t = torch.tensor([float(d.get_rank() + 1)])\n"
              "d.all_reduce(t)\n"
              "print('rank', d.get_rank(), 'of', d.get_world_size(), 'sum', t.item(), flush=True)\n"
              "d.destroy_process_group()\n")
    with Muster(nodes=2, flags=flags) as m:
        m.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\ndata:\n  t.py: |\n"
                + "".join("    " + line + "\n" for line in script.splitlines()))
        apply(m, service("job", clusterIP="None"))
        def worker(i):
            run = [found[-1][0], "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1",
                   "--rdzv_backend", "c10d", "--rdzv_id", "x",
                   "--rdzv_endpoint", "w0.job.default.svc.cluster.local:29400",
                   "--max_restarts", "0", "-r", "1", "-t", "1", "/code/t.py"]
            return pod(f"w{i}", container(run, volumeMounts=[{"name": "code", "mountPath": "/code"}],
                                          env=[{"name": "OMP_NUM_THREADS", "value": "1"}]),
                       node=f"node-{i}", hostname=f"w{i}", subdomain="job", labels={"app": "web"},
                       volumes=[{"name": "code", "configMap": {"name": "code"}}])
        apply(m, worker(0), worker(1))
        for i in (0, 1):
            wait_phase(m, f"w{i}", "Succeeded", "Failed", limit=120)
        out = logs(m, "w0") + logs(m, "w1")
        check(out.count("sum 3.0") == 2, out)


def test_two_pods_rendezvous_and_reduce_with_real_torchrun():
    rendezvous_and_reduce()


def test_a_server_whose_port_its_service_has_on_the_hosts_network_is_told_why_it_ends():
    with Muster(flags=["--pod-network=host"]) as m:
        apply(m, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                  "spec": {"selector": {"app": "s"}, "ports": [{"port": 8087}]}})
        wait_for(lambda: m.get("service", "s")["spec"].get("clusterIP"), "the service to have an address")
        listen = "import socket; s = socket.socket(); s.bind(('0.0.0.0', 8087)); s.listen(); input()"
        apply(m, pod("s", container(["python3", "-c", listen]), labels={"app": "s"}, restart="Always"),
              pod("other", container(["python3", "-c", "raise SystemExit(3)"]), restart="Always"))

        def told(name):
            state = m.get("pod", name)["status"].get("containerStatuses", [{}])[0].get("state", {})
            return state.get("waiting", {}).get("reason") == "CrashLoopBackOff" and state["waiting"]["message"]
        words = wait_for(lambda: told("s"), "the container to be restarted")
        check("port 8087 of Service s is taken for a server that listens on 0.0.0.0" in words and "status.podIP" in words, words)
        check("Service" not in wait_for(lambda: told("other"), "the other to be restarted"), "it is of no Service")
