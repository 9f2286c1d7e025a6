"""Addresses, names, services, and the API server from inside a pod."""

import errno
import socket

from harness import Muster, Skip, check, run, torch_pythons, wait_for
from pods import apply, container, events, logs, pod, run_pod, wait_phase, wait_ready

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


def connects(address, port=80):
    with socket.socket() as s:
        s.settimeout(10)
        return s.connect_ex((address, port))


def a_service_leads_to_who_is_there(flags):
    with Muster(flags=flags) as m:
        apply(m, service("front"), service("hand", selector=None, ports=[{"port": 80}]),
              service("far", selector=None, clusterIP="None", ports=None))
        address, hand = (m.get("service", name)["spec"]["clusterIP"] for name in ("front", "hand"))
        check(connects(address) == errno.ECONNREFUSED, "without a pod")
        # Whoever waits for it waits until it is there.
        wait = ("import os, socket, time\nwhile True:\n  try: socket.create_connection((os.environ['AT'], 80)); break\n"
                "  except OSError: time.sleep(0.1)\nprint('there')")
        apply(m, pod("waits", container(["python3", "-c", wait], env=[{"name": "AT", "value": address}])))
        wait_phase(m, "waits", "Running")
        apply(m, web("w0"))
        wait_ready(m, "w0")
        check(connects(address) == 0, "a pod is ready")
        wait_phase(m, "waits", "Succeeded")
        ip = m.get("pod", "w0")["status"]["podIP"]
        # By hand: as Endpoints, and as an EndpointSlice of a headless one.
        check(connects(hand) == errno.ECONNREFUSED, "nobody wrote anything")
        apply(m, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hand"},
                  "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 8080}]}]},
              {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
               "metadata": {"name": "far-1", "labels": {"kubernetes.io/service-name": "far"}},
               "endpoints": [{"addresses": [ip]}]})
        wait_for(lambda: connects(hand) == 0, "what was written to be passed on to")
        for name, url in (("a", "http://hand"), ("b", "http://far:8080")):
            check(run_pod(m, name, ["python3", "-c", FETCH, url]).strip() == "w0", url)
        said = m.kubectl("patch", "endpoints", "hand", "--type=merge", "-p",
                         '{"subsets":[{"addresses":[{"ip":"127.0.0.1"}],"ports":[{"port":8080}]}]}', ok=False)
        check("loopback" in said.stderr, said.stderr)
        m.kubectl("label", "pod", "w0", "app-")
        wait_for(lambda: connects(address) == errno.ECONNREFUSED, "a pod that is not one of it any more")
        check(connects(hand) == 0, "what was written stays")


def test_a_service_refuses_connections_until_somebody_is_there():
    a_service_leads_to_who_is_there(["--pod-network=host"])


def test_a_server_on_all_addresses_with_the_port_of_its_service_on_the_hosts_network():
    with Muster(flags=["--pod-network=host"]) as m:
        apply(m, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                  "spec": {"selector": {"app": "s"}, "ports": [{"port": 8087}]}})
        at = wait_for(lambda: m.get("service", "s")["spec"].get("clusterIP"), "the service to have an address")
        listen = ("import os, socket, time; s = socket.socket(); s.bind((os.environ.get('AT', '0.0.0.0'), 8087)); s.listen(); "
                  "time.sleep(600)")
        ready = {"tcpSocket": {"port": 8087}, "periodSeconds": 1}
        apply(m, pod("alone", container(["python3", "-c", listen], readinessProbe=ready), labels={"app": "s"},
                     terminationGracePeriodSeconds=0))
        wait_ready(m, "alone")
        check(connects(at, 8087) == 0, "its Service leads to it")
        check(not any(reason == "PortUnavailable" for reason, _ in events(m, "s")), str(events(m, "s")))
        m.kubectl("delete", "pod", "alone")
        # Beside another that is ready we listen there, and it cannot: that is said.
        apply(m, pod("first", container(["python3", "-c", listen], env=[{"name": "AT", "valueFrom": {"fieldRef": {
            "fieldPath": "status.podIP"}}}]), labels={"app": "s"}, terminationGracePeriodSeconds=0))
        wait_for(lambda: connects(at, 8087) == 0, "the first")
        apply(m, pod("s", container(["python3", "-c", listen]), labels={"app": "s"}, restart="Always"),
              pod("other", container(["python3", "-c", "raise SystemExit(3)"]), restart="Always"))

        def told(name):
            state = m.get("pod", name)["status"].get("containerStatuses", [{}])[0].get("state", {})
            return state.get("waiting", {}).get("reason") == "CrashLoopBackOff" and state["waiting"]["message"]
        words = wait_for(lambda: told("s"), "the container to be restarted")
        check("port 8087 of Service s is taken for a server that listens on 0.0.0.0" in words, words)
        check("status.podIP" in words, words)
        check("Service" not in wait_for(lambda: told("other"), "the other to be restarted"), "it is of no Service")
