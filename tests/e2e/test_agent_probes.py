"""Probes that speak TLS and gRPC."""

import os
import shutil

from harness import Muster, Skip, check, run, wait_for
from pods import apply, container, events, logs, pod, status, wait_ready

HTTPS = ("import http.server, os, ssl\n"
         "class H(http.server.BaseHTTPRequestHandler):\n"
         "  def do_GET(self): self.send_response(200 if self.path == '/fine' else 500); self.end_headers()\n"
         "  def log_message(self, *a): pass\n"
         "s = http.server.ThreadingHTTPServer((os.environ['IP'], 8443), H)\n"
         "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
         "c.load_cert_chain('/tls/crt', '/tls/key')\n"
         "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
         "s.serve_forever()\n")

# As much of HTTP/2 as a health check needs: settings, headers, one message, trailers. The service "ill" is not serving.
GRPC = ("import os, socket, struct\n"
        "def frame(kind, flags, stream, body):\n"
        "    return struct.pack('>I', len(body))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + body\n"
        "s = socket.create_server((os.environ['IP'], 9090))\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    seen = b''\n"
        "    while True:\n"
        "        more = c.recv(65536)\n"
        "        seen += more\n"
        "        if not more or b'/grpc.health.v1.Health/Check' in seen: break\n"
        "    c.settimeout(0.5)\n"
        "    try: seen += c.recv(65536)\n"
        "    except OSError: pass\n"
        "    state = 2 if b'ill' in seen else 1\n"
        "    c.sendall(frame(4, 0, 0, b'') + frame(1, 4, 1, b'\\x88') +\n"
        "              frame(0, 0, 1, b'\\0' + struct.pack('>I', 2) + bytes([8, state])) + frame(1, 5, 1, b'\\x88'))\n"
        "    c.close()\n")
IP = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def server(name, script, probe, **more):
    return pod(name, container(["python3", "-c", script], env=IP, readinessProbe={"periodSeconds": 1, **probe}, **more),
               terminationGracePeriodSeconds=0)


def unhealthy(m, name, words):
    return any(reason == "Unhealthy" and words in text for reason, text in events(m, name))


def test_an_https_probe_looks_at_the_status_and_at_no_certificate():
    if not shutil.which("openssl"):
        raise Skip("needs openssl to make a certificate")
    with Muster() as m:
        folder = os.path.join(m.folder, "tls")
        os.mkdir(folder)
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "1",
             "-keyout", folder + "/key", "-out", folder + "/crt"])
        for name, path in (("good", "/fine"), ("bad", "/broken")):
            made = server(name, HTTPS, {"httpGet": {"scheme": "HTTPS", "path": path, "port": 8443}, "timeoutSeconds": 5},
                          volumeMounts=[{"name": "tls", "mountPath": "/tls"}])
            made["spec"]["volumes"] = [{"name": "tls", "hostPath": {"path": folder}}]
            apply(m, made)
        wait_ready(m, "good")
        wait_for(lambda: unhealthy(m, "bad", "statuscode: 500"), "the other one to be told apart")
        check(not status(m, "bad")["ready"], str(status(m, "bad")))


def test_a_grpc_probe_asks_the_health_service():
    with Muster() as m:
        apply(m, server("good", GRPC, {"grpc": {"port": 9090}, "timeoutSeconds": 5}),
              server("bad", GRPC, {"grpc": {"port": 9090, "service": "ill"}, "timeoutSeconds": 5}))
        wait_ready(m, "good")
        wait_for(lambda: unhealthy(m, "bad", "status 2"), "the other one to be told apart")
        check(not status(m, "bad")["ready"], str(status(m, "bad")))


TOLD = ("import os, socket\n"
        "s = socket.create_server((os.environ['IP'], 8090))\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    print(c.recv(65536), flush=True)\n"
        "    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n"
        "    c.close()\n")


def test_a_probe_is_one_request():
    with Muster() as m:
        more = {"path": "/a HTTP/1.1\r\nHost: x\r\n\r\nDELETE /all"}, {"httpHeaders": [{"name": "A", "value": "b\r\nX: y"}]}
        apply(m, *[server(f"p{n}", TOLD, {"httpGet": {"port": 8090, **what}}) for n, what in enumerate(more)])
        for n in range(2):
            wait_for(lambda: unhealthy(m, f"p{n}", "may have no line breaks"), "the probe to be refused", 20)
            check("DELETE" not in logs(m, f"p{n}") and "X: y" not in logs(m, f"p{n}"), logs(m, f"p{n}"))
