"""The API server's proxy to pods and services: ports by name and number, TLS, links and redirects."""

import os
import shutil

from harness import Muster, Skip, check, run
from pods import apply, container, pod, wait_ready

# Plain on 8080, by TLS on 8443: both tell which they are, what they were asked for, and serve a page and a redirect.
SERVER = """import http.server, os, ssl, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        own = f"http://{os.environ['IP']}:8080/"
        page = f'<!-- <a href="/c"> --><a href="/x?a=1&amp;b">{self.server.word}</a><img src="{own}i.png"><a href="y">'
        kind, text = {"/page": ("text/html; charset=utf-8", page), "/text": ("text/plain", page)}.get(
            self.path, ("text/plain", self.server.word + " " + self.path + " " + self.headers["X-Forwarded-Uri"]))
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "/there")
        else:
            self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
def serve(port, word, tls=None):
    server = http.server.ThreadingHTTPServer((os.environ["IP"], port), Handler)
    server.word = word
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("/tls/crt", "/tls/key")
serve(8443, "secret", tls)
serve(8080, "plain")
"""
IP = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
SERVICE = """apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: plain, port: 80, targetPort: 8080}
  - {name: tls, port: 443, targetPort: 8443}
"""
ROOT = "/api/v1/namespaces/default/"


def served(m):
    if not shutil.which("openssl"):
        raise Skip("needs openssl to make a certificate")
    folder = os.path.join(m.folder, "tls")
    os.mkdir(folder)
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "1",
         "-keyout", folder + "/key", "-out", folder + "/crt"])
    os.chmod(folder + "/key", 0o644)
    m.apply(SERVICE)
    apply(m, pod("web", container(["python3", "-c", SERVER], env=IP, volumeMounts=[{"name": "tls", "mountPath": "/tls"}],
                                  readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1}),
                 labels={"app": "web"}, terminationGracePeriodSeconds=0,
                 volumes=[{"name": "tls", "hostPath": {"path": folder}}]))
    wait_ready(m, "web")


def test_a_proxy_finds_ports_by_name_and_number_and_speaks_tls():
    with Muster() as m:
        served(m)
        for target, word in (("pods/web:8080", "plain"), ("pods/http:web:8080", "plain"),
                             ("pods/https:web:8443", "secret"), ("services/web:80", "plain"),
                             ("services/web:plain", "plain"), ("services/http:web:80", "plain"),
                             ("services/https:web:443", "secret"), ("services/https:web:tls", "secret")):
            said = m.kubectl("get", "--raw", f"{ROOT}{target}/proxy/a/b?c=d").stdout
            check(said == f"{word} /a/b?c=d {ROOT}{target}/proxy/a/b", f"{target}: {said}")
        for target, words in (("services/web:8080", "no service port 8080 found for service"),
                              ("services/web:other", "no endpoints available"),
                              ("services/ftp:web:80", 'invalid service request "ftp:web:80"'),
                              ("pods/https:web:8080", "TLS"), ("pods/web:https", "is not a port number")):
            done = m.kubectl("get", "--raw", f"{ROOT}{target}/proxy/", ok=False)
            check(done.returncode != 0 and words in done.stderr, f"{target}: {done.stdout} {done.stderr}")


def test_links_of_pages_and_redirects_lead_through_the_proxy():
    with Muster() as m:
        served(m)
        for target, word in (("pods/web:8080", "plain"), ("services/https:web:443", "secret")):
            proxy = f"{ROOT}{target}/proxy"
            page = m.kubectl("get", "--raw", proxy + "/page").stdout
            image = f"{proxy}/i.png" if word == "plain" else f"http://{m.get('pod', 'web')['status']['podIP']}:8080/i.png"
            check(page == f'<!-- <a href="/c"> --><a href="{proxy}/x?a=1&amp;b">{word}</a><img src="{image}"><a href="y">',
                  page)
            check('href="/x?a=1&amp;b"' in m.kubectl("get", "--raw", proxy + "/text").stdout, "other answers stay")
            # kubectl follows it, and finds it.
            said = m.kubectl("get", "--raw", proxy + "/away").stdout
            check(said == f"{word} /there {proxy}/there", said)
