"""The pod network: bridge and pairs. Every test makes a network namespace of its own first, for itself and all it
starts: nothing here touches the machine's interfaces."""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys

from harness import Muster, Skip, check, run, wait_for
from pods import apply, container, ended, events, logs, pod, run_pod, shims, wait_phase, wait_ready
from test_agent_network import FETCH, a_service_leads_to_who_is_there, rendezvous_and_reduce, service, web, who_am_i
from test_rights import Client, account, rule

CLONE_NEWNET = 0x40000000
FLAGS = ("--pod-network", "bridge")
# As ping does it where it has no rights: a datagram socket.
PING = """import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(20)
s.sendto(bytes((8, 0, 0, 0, 0, 0, 0, 1)), (sys.argv[1], 0))
print("answer", s.recv(100)[0])"""


def own_network():
    if os.geteuid() != 0:
        raise Skip("a pod network needs root")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise Skip("this machine permits no network namespaces")
    run(["ip", "link", "set", "lo", "up"])
    if subprocess.run(["ip", "link", "add", "probe0", "type", "bridge"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("this kernel has no bridges")
    run(["ip", "link", "del", "probe0"])


def interfaces():
    return [line.split(":")[1].strip().split("@")[0] for line in run(["ip", "-o", "link"]).stdout.splitlines()]


def ours():
    return [name for name in interfaces() if name.startswith("mus")]


def test_two_pods_of_the_pod_network_rendezvous_and_reduce_with_real_torchrun():
    own_network()
    rendezvous_and_reduce(FLAGS)


ECHO = """import socket, sys, threading
def tcp():
    s = socket.create_server(("0.0.0.0", 8080))
    while True:
        c, _ = s.accept()
        c.sendall(sys.argv[1].encode())
        c.close()
threading.Thread(target=tcp, daemon=True).start()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("0.0.0.0", 8080))
while True:
    _, who = u.recvfrom(100)
    u.sendto(sys.argv[1].encode(), who)"""


def answer(address, port, udp=False):
    """What a server says there; "" where there is none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as s:
            s.settimeout(5)
            s.connect((address, port))
            s.send(b"x")
            return s.recv(100).decode()
    except OSError:
        return ""


def test_a_host_port_is_passed_on_to_its_pod():
    own_network()
    with Muster(flags=FLAGS) as m:
        def echo(name, **port):
            return pod(name, container(["python3", "-c", ECHO, name], ports=[{"containerPort": 8080, "hostPort": 28080, **port}],
                                       readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1}))
        apply(m, echo("plain", hostPort=28081), echo("local", hostIP="127.0.0.1"))
        wait_ready(m, "plain")
        wait_ready(m, "local")
        node = m.get("pod", "plain")["status"]["hostIP"]
        apply(m, echo("tcp", hostIP=node), echo("udp", hostIP=node, protocol="UDP"))
        wait_ready(m, "tcp")
        wait_ready(m, "udp")
        check(answer(node, 28081) == "plain", "without an address it is the node's")
        check(answer("127.0.0.1", 28080) == "local", "at one address")
        check(answer(node, 28080) == "tcp", "the same port at another address")
        check(answer(node, 28080, udp=True) == "udp", "and of another protocol")
        m.kubectl("delete", "pod", "local", "--grace-period=0", "--force")
        wait_for(lambda: answer("127.0.0.1", 28080) == "", "the port to go with its pod")
        check(answer(node, 28080) == "tcp", "others stay")
        # What is somebody else's: a nodePort is no pod's, and one that a program of the machine has is told.
        said = m.kubectl("create", "-f", "-", input=json.dumps(echo("node-port", hostPort=30080)), ok=False)
        check("ports 30000 to 32767 are the nodePorts of Services" in said.stderr, said.stderr)
        with socket.create_server((node, 30080)):
            apply(m, web("w0"), service("taken", type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}]))
            wait_for(lambda: any(reason == "PortUnavailable" and "TCP port 30080" in words and "choose another port" in words
                                 for reason, words in events(m, "taken")), "an event about it")
        # An account with a role in its namespace: in a pod, and in what pods are made of.
        tenant = account(m, Client(m), "tenant", rule("create,update,patch", "pods"), rule("create", "deployments", "apps"))
        services = m.get("service", "taken")["spec"]["clusterIP"]
        for port, words in (({"hostPort": 80}, "below 1024"), ({"hostPort": 28090, "hostIP": "127.0.0.1"}, "loopback"),
                            ({"hostPort": 28090, "hostIP": services}, "addresses of Services")):
            made = echo("no", **port)
            said = tenant.says(403, "POST", "/api/v1/namespaces/default/pods", made)
            check(words in said["message"] and "container main" in said["message"], str(said))
            labels = {"app": "no"}
            said = tenant.says(403, "POST", "/apis/apps/v1/namespaces/default/deployments", {
                "metadata": {"name": "no"}, "spec": {"selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": made["spec"]["containers"]}}}})
            check(words in said["message"], str(said))
        tenant.says(201, "POST", "/api/v1/namespaces/default/pods", echo("yes", hostPort=28091))


def test_a_service_refuses_connections_until_somebody_is_there():
    own_network()
    a_service_leads_to_who_is_there(FLAGS)


def test_names_services_and_addresses_on_the_pod_network():
    own_network()
    with Muster(flags=FLAGS) as m:
        apply(m, service("front"), service("all", clusterIP="None"), web("w0"), web("w1"))
        wait_ready(m, "w0")
        wait_ready(m, "w1")
        wait_for(lambda: m.get("service", "front")["spec"].get("clusterIP"), "the service to get an address")
        addresses = [m.get("pod", n)["status"]["podIP"] for n in ("w0", "w1")]
        check(len(set(addresses)) == 2 and all(a.startswith("10.") for a in addresses), str(addresses))

        def fetch(n, url):
            return run_pod(m, n, ["python3", "-c", FETCH, url]).strip()
        check(fetch("a", "http://w1.all:8080") == "w1", "a pod by its subdomain")
        check(fetch("b", "http://front.default.svc.cluster.local") in ("w0", "w1"), "a service by its name")
        out = run_pod(m, "p", ["python3", "-c", PING, "w1.all"])
        check(out.strip() == "answer 0", f"pods ping each other: {out}")
        # The loopback is the pod's own: what listens there is nobody else's business.
        out = run_pod(m, "c", "cat /proc/net/dev | grep -c :; cat /proc/net/tcp | grep -c 0100007F || true")
        check(out.split() == ["2", "0"], f"lo and eth0, and no listener of the host: {out}")
        # From the host, and through the API server.
        check(run(["python3", "-c", FETCH, f"http://{addresses[0]}:8080"]).stdout.strip() == "w0", "from the node")
        proxied = m.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/w1:8080/proxy/").stdout
        check(proxied == "w1", proxied)
        block = m.get("servicecidr", "kubernetes")["spec"]["cidrs"]
        check(len(block) == 1 and block[0].split(".")[:2] == addresses[0].split(".")[:2], f"services have a block: {block}")
        host = run_pod(m, "d", "echo $IP", hostNetwork=True, container={"env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}).strip()
        check(host.endswith(".0.1"), f"a pod on the host's network has the node's address: {host}")


def test_a_pod_of_the_pod_network_has_kernel_settings_of_its_own():
    own_network()
    with Muster(flags=FLAGS) as m:
        def settings(**values):
            return {"sysctls": [{"name": name.replace("__", "."), "value": value} for name, value in values.items()]}
        out = run_pod(m, "own", "cd /proc/sys; cat kernel/shm_rmid_forced net/ipv4/ip_local_port_range",
                      securityContext=settings(kernel__shm_rmid_forced="1", net__ipv4__ip_local_port_range="2000 2999"))
        check(out.split() == ["1", "2000", "2999"], out)
        check(run_pod(m, "other", "cat /proc/sys/net/ipv4/ip_local_port_range").split()[0] != "2000", "the machine's as before")
        apply(m, pod("all", container("true"), securityContext=settings(kernel__msgmax="1")))
        wait_phase(m, "all", "Failed")
        message = m.get("pod", "all")["status"]["message"]
        check("it is not one that a pod may set" in message, message)
        shared = pod("shared", container("true"), hostNetwork=True, securityContext=settings(net__ipv4__tcp_syncookies="1"))
        refused = m.kubectl("apply", "-f", "-", input=json.dumps(shared), ok=False)
        check(refused.returncode != 0 and "shares what it is about with its node" in refused.stderr, f"{refused}")


def test_ports_of_a_pod_are_not_those_of_the_machine():
    """What listens on the machine's loopback is reached neither by a proxy to a pod nor by a probe of it."""
    own_network()
    with socket.socket() as secret, Muster(flags=FLAGS) as m:
        secret.bind(("127.0.0.1", 0))
        secret.listen(64)
        port = secret.getsockname()[1]
        probe = {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
        apply(m, pod("a", container("sleep 1000", readinessProbe=probe), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        got = m.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/a:{port}/proxy/", ok=False)
        check(got.returncode != 0 and "refused" in got.stderr.lower(), f"{got}")
        told = wait_for(lambda: [e for e in m.get("events") if e["reason"] == "Unhealthy"], "the probe's words")
        check("the machine's own" in told[0]["message"], told[0]["message"])
        secret.setblocking(False)
        try:
            secret.accept()
            check(False, "somebody came to the machine's loopback")
        except BlockingIOError:
            pass


def test_the_api_server_is_reached_from_the_pod_network():
    own_network()
    out = who_am_i(FLAGS)
    check(out == "system:serviceaccount:default:default\ndefault\n", out)


def test_the_pod_network_survives_muster_and_goes_with_the_last_pod():
    own_network()
    m = Muster(flags=FLAGS)
    with m:
        apply(m, web("w0"), pod("w1", container("sleep 1000"), terminationGracePeriodSeconds=0))
        wait_ready(m, "w0")
        wait_phase(m, "w1", "Running")
        before = sorted(ours())
        check(len(before) == 3, f"a bridge and a port for each pod: {before}")
        address = m.get("pod", "w0")["status"]["podIP"]
        m.kill()
        m.start()
        check(run(["python3", "-c", FETCH, f"http://{address}:8080"]).stdout.strip() == "w0", "still there")
        check(sorted(ours()) == before, f"{ours()} is not {before}")
        check(run_pod(m, "a", ["python3", "-c", FETCH, f"http://{address}:8080"]).strip() == "w0", "and to new pods")
        m.kubectl("delete", "pod", "w1", "a", "--wait=true")
        wait_for(lambda: len(ours()) == 2, "the port of the deleted pod to go")
        m.kubectl("delete", "pod", "w0", "--wait=true")
    wait_for(lambda: ours() == [], "the bridge to go with muster: the kernel takes its time")


def test_a_shim_that_is_killed_leaves_no_interface():
    own_network()
    with Muster(flags=FLAGS) as m:
        apply(m, pod("a", container("sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        uid = m.get("pod", "a")["metadata"]["uid"]
        os.kill(shims(m)[uid], 9)
        wait_phase(m, "a", "Failed")
        check(ended(m, "a")["exitCode"] == 137, str(ended(m, "a")))
        wait_for(lambda: len(ours()) == 1, "only the bridge to be left")
        check(logs(m, "a") == "", "its logs are still asked for")


# Waits for its interface to be given to it, then tells who calls.
OUTSIDE = """
import http.server, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = self.client_address[0].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
print("born", flush=True)
sys.stdin.readline()
http.server.HTTPServer(("192.0.2.2", 8000), Handler).serve_forever()
"""


@contextlib.contextmanager
def outside():
    """A machine on the other side of this one's 192.0.2.1 that knows no way back to pods."""
    def leave():
        if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
            os._exit(1)
    process = subprocess.Popen([sys.executable, "-c", OUTSIDE], preexec_fn=leave, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        check(process.stdout.readline() == "born\n", "the machine outside starts")
        run(["ip", "link", "add", "out0", "type", "veth", "peer", "name", "out1", "netns", str(process.pid)])
        run(["ip", "address", "add", "192.0.2.1/24", "dev", "out0"])
        run(["ip", "link", "set", "out0", "up"])
        there = ["nsenter", "-t", str(process.pid), "-n", "ip"]
        run([*there, "address", "add", "192.0.2.2/24", "dev", "out1"])
        run([*there, "link", "set", "out1", "up"])
        process.stdin.write("go\n")
        process.stdin.flush()
        wait_for(lambda: run(["python3", "-c", FETCH, "http://192.0.2.2:8000"], ok=False).stdout == "192.0.2.1\n",
                 "it to answer")
        yield "http://192.0.2.2:8000"
    finally:
        process.kill()
        process.wait()


def test_pods_reach_the_outside_behind_the_machines_address():
    own_network()
    if not shutil.which("nft"):
        raise Skip("nft is not installed: pods behind a masquerade not tried")
    with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
        f.write("1\n")  # of the test's own namespace
    if subprocess.run(["nft", "list", "tables"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Skip("this kernel has no nftables: pods behind a masquerade not tried")
    with outside() as url, Muster(flags=("--pod-network", "auto")) as m:
        check("mus" in run(["nft", "list", "tables"]).stdout, "where all is there, the bridge is what auto takes")
        out = run_pod(m, "a", ["python3", "-c", FETCH, url]).strip()
        check(out == "192.0.2.1", f"the pod calls by the machine's address: {out}")
        check(m.get("pod", "a")["status"]["podIP"].startswith("10."), "and has one of its own")
        # Between pods nothing is rewritten.
        apply(m, web("w0"))
        wait_ready(m, "w0")
        address = m.get("pod", "w0")["status"]["podIP"]
        check(run_pod(m, "b", ["python3", "-c", FETCH, f"http://{address}:8080"]).strip() == "w0", "pod to pod")
    check("mus" not in run(["nft", "list", "tables"]).stdout, "the table goes with muster")


# One question of the domain name system by hand, and what comes back: a resolver of libc would look into /etc/hosts first.
DIG = """import socket, struct, sys
def name(text):
    return b"".join(bytes([len(p)]) + p.encode() for p in text.split(".")) + b"\\0"
def skip(m, at):
    while m[at] and m[at] < 192:
        at += m[at] + 1
    return at + (2 if m[at] else 1)
def read(m, at):
    out = []
    while m[at]:
        if m[at] >= 192:
            at = struct.unpack(">H", m[at:at + 2])[0] & 0x3fff
            continue
        out.append(m[at + 1:at + 1 + m[at]].decode())
        at += m[at] + 1
    return ".".join(out)
def ask(what, kind, tcp):
    number = {"A": 1, "AAAA": 28, "SRV": 33, "PTR": 12, "CNAME": 5}[kind]
    q = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name(what) + struct.pack(">2H", number, 1)
    server = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect((server, 53))
    s.sendall(struct.pack(">H", len(q)) + q if tcp else q)
    m = s.recv(5000)
    m = m[2:] if tcp else m
    at, out = 12 + len(name(what)) + 4, ["code %d" % (m[3] & 15)]
    for _ in range(struct.unpack(">H", m[6:8])[0]):
        at = skip(m, at)
        kind, _, _, size = struct.unpack(">HHIH", m[at:at + 10])
        at += 10
        out.append({1: lambda: ".".join(map(str, m[at:at + 4])), 5: lambda: read(m, at), 12: lambda: read(m, at),
                    33: lambda: "%d:%s" % (struct.unpack(">H", m[at + 4:at + 6])[0], read(m, at + 6))}[kind]())
        at += size
    return " ".join(out)
for line in sys.argv[1:]:
    kind, what, *tcp = line.split()
    print(ask(what, kind, bool(tcp)))
"""
# The machine's name server: everything it is asked for is 192.0.2.1.
UPSTREAM = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
while True:
    q, who = s.recvfrom(600)
    end = q.index(b"\\0", 12) + 5
    head = q[:2] + b"\\x81\\x80" + q[4:6] + b"\\0\\1\\0\\0\\0\\0" + q[12:end]
    s.sendto(head + b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\5\\0\\4\\xc0\\0\\2\\1", who)
"""


@contextlib.contextmanager
def machine_server(folder):
    """A resolv.conf of this test's own, in a mount namespace of its own, and the server that it names."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x00020000) != 0: # CLONE_NEWNS
        raise Skip("this machine permits no mount namespaces")
    run(["mount", "--make-rprivate", "/"])
    path = os.path.join(folder, "resolv.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write("nameserver 127.0.0.1\nsearch far.example\n")
    run(["mount", "--bind", path, os.path.realpath("/etc/resolv.conf")])
    with subprocess.Popen([sys.executable, "-c", UPSTREAM]) as server:
        try:
            yield
        finally:
            server.kill()


def test_a_name_server_knows_services_pods_and_what_the_machine_knows():
    own_network()
    m = Muster(flags=FLAGS)
    with machine_server(m.folder), m:
        m.apply("apiVersion: v1\nkind: Service\nmetadata: {name: out}\n"
                "spec: {type: ExternalName, externalName: www.example.com}\n")
        apply(m, service("front", ports=[{"name": "http", "port": 80, "targetPort": "web"}]),
              service("all", clusterIP="None"), web("w0"), web("w1"))
        wait_ready(m, "w0")
        wait_ready(m, "w1")
        front = wait_for(lambda: m.get("service", "front")["spec"].get("clusterIP"), "the service to get an address")
        w0, w1 = (m.get("pod", n)["status"]["podIP"] for n in ("w0", "w1"))
        api = w0.rsplit(".", 2)[0] + ".128.1"
        zone = "default.svc.cluster.local"
        rows = [("A front." + zone, f"code 0 {front}"), ("A front." + zone + " tcp", f"code 0 {front}"),
                ("AAAA front." + zone, "code 0"), ("A nobody." + zone, "code 3"),
                ("A kubernetes." + zone, f"code 0 {api}"), ("A w1.all." + zone, f"code 0 {w1}"),
                (f"A {w0.replace('.', '-')}.default.pod.cluster.local", f"code 0 {w0}"),
                ("SRV _http._tcp.front." + zone, f"code 0 80:front.{zone}"),
                (f"PTR {'.'.join(reversed(front.split('.')))}.in-addr.arpa", f"code 0 front.{zone}"),
                ("A www.example.com", "code 0 192.0.2.1"), ("CNAME out." + zone, "code 0 www.example.com"),
                ("A out." + zone, "code 0 www.example.com 192.0.2.1")]
        said = run_pod(m, "asks", ["python3", "-c", DIG, *(r[0] for r in rows), "A all." + zone]).splitlines()
        for (asked, want), got in zip(rows, said):
            check(got == want, f"{asked}: {got}, not {want}")
        check(sorted(said[-1].split()[2:]) == sorted([w0, w1]), f"a headless service: {said[-1]}")
        # As libc looks it up: by the search list, which /etc/hosts has nothing to say about.
        look = "import socket; print(socket.gethostbyname('www.example.com'))"
        out = run_pod(m, "libc", f'cat /etc/resolv.conf; python3 -c "{look}"')
        out = "\n".join(line for line in out.splitlines() if line == f"nameserver {api}" or "nameserver" not in line)
        check(out.splitlines() == [f"nameserver {api}", "search default.svc.cluster.local svc.cluster.local cluster.local "
                                   "far.example", "options ndots:5", "192.0.2.1"], out)
        out = run_pod(m, "host", ["python3", "-c", DIG, "A front." + zone], hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
        check(out == f"code 0 {front}\n", f"from the machine's network: {out}")
        out = run_pod(m, "default", "cat /etc/resolv.conf", dnsPolicy="Default")
        check(api not in out and "127." not in out, f"the machine's own, less what cannot be reached: {out}")
