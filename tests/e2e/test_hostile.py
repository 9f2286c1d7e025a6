"""The API server and clients that mean harm or know no better: every one of them gets the right status or is
cut off, and the server goes on serving."""

import base64
import json
import os
import resource
import socket
import ssl
import time

from harness import PATIENCE, Muster, Skip, check, wait_for


class Wire:
    """A raw TLS connection to the server of a muster."""

    def __init__(self, muster, timeout=30):
        host, port = muster.listen.split(":")
        with open(muster.kubeconfig) as f:
            text = f.read()
        self.token = text.split("token: ")[1].split()[0]
        authority = base64.b64decode(text.split("certificate-authority-data: ")[1].split()[0]).decode()
        context = ssl.create_default_context(cadata=authority)
        self.plain = socket.create_connection((host, int(port)), timeout=timeout)
        self.tls = context.wrap_socket(self.plain, server_hostname=host)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tls.close()

    def send(self, data):
        self.tls.sendall(data)

    def line_and_headers(self):
        while b"\r\n\r\n" not in self.rest:
            more = self.tls.recv(65536)
            if not more:
                raise EOFError(f"closed after {self.rest[:200]!r}")
            self.rest += more
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        return head

    def status(self):
        """The status and body of one answer."""
        head = self.line_and_headers()
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(self.rest) < length:
            self.rest += self.tls.recv(65536)
        body, self.rest = self.rest[:length], self.rest[length:]
        return int(head.split()[1]), body

    def ask(self, request, body=b""):
        """A request with our token and the headers it needs."""
        line, *headers = request.split("\n")
        text = "\r\n".join([f"{line} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}", *headers])
        self.send(text.encode() + b"\r\n\r\n" + body)
        return self.status()


def serving(m):
    with Wire(m) as w:
        check(w.ask("GET /api/v1/namespaces/default")[0] == 200, "it no longer serves")


def test_malformed_requests_get_the_right_status():
    rows = [
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/2.7\r\nHost: x\r\n\r\n", 505),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
    ]
    with Muster() as m:
        for request, wanted in rows:
            with Wire(m) as w:
                w.send(request)
                got, _ = w.status()
                check(got == wanted, f"{request[:60]!r}: status {got}, expected {wanted}")
        # not TLS at all, and TLS that stops in the middle
        for junk in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", os.urandom(5000)):
            host, port = m.listen.split(":")
            with socket.create_connection((host, int(port))) as s:
                s.sendall(junk)
        serving(m)


def test_wrong_requests_get_a_status_object():
    pods = "/api/v1/namespaces/default/pods"
    rows = [
        ("GET /api/v1/../../etc/passwd", b"", 400),
        ("GET /api/v1/namespaces/%2e%2e/pods", b"", 400),
        ("GET /api/v1/namespaces/default/pods/%00", b"", 400),
        ("GET /api/v1/namespaces/default/nonsense", b"", 404),
        ("GET /apis/nonsense/v1", b"", 404),
        ("GET /nonsense", b"", 404),
        ("POST /version\nContent-Length: 0", b"", 405),
        (f"POST {pods}/a\nContent-Length: 2", b"{}", 405),
        (f"POST {pods}\nContent-Length: 0", b"", 400),
        (f"POST {pods}\nContent-Length: 1", b"{", 400),
        (f"POST {pods}\nContent-Length: 2", b"[]", 400),
        (f"POST {pods}\nContent-Length: 5", b'"x\xff"}', 400),
        (f"POST {pods}\nContent-Type: text/plain\nContent-Length: 2", b"{}", 415),
        (f"PATCH {pods}/a\nContent-Type: application/json\nContent-Length: 2", b"{}", 415),
        (f"POST {pods}\nContent-Type: application/vnd.kubernetes.protobuf\nContent-Length: 4", b"k8s\x01", 400),
        (f"GET {pods}?labelSelector=%21%21", b"", 400),
        (f"GET {pods}?fieldSelector=nonsense", b"", 400),
        (f"GET {pods}?watch=true&resourceVersion=abc", b"", 400),
        (f"GET {pods}/a/exec?command=x", b"", 400),
    ]
    with Muster() as m:
        for request, body, wanted in rows:
            with Wire(m) as w:
                got, answer = w.ask(request, body)
                check(got == wanted, f"{request!r}: status {got}, expected {wanted}: {answer[:300]!r}")
                status = json.loads(answer)
                check(status["kind"] == "Status" and status["code"] == wanted and status["message"],
                      f"{request!r}: {answer!r}")
        # as with kube-apiserver, which has no such route
        for path in (pods, f"{pods}/a"):
            with Wire(m) as w:
                w.send(f"HEAD {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {w.token}\r\n\r\n".encode())
                got = int(w.line_and_headers().split()[1])
                check(got == 405, f"HEAD {path}: {got}")
        with Wire(m) as w:
            got, answer = w.ask(f"DELETE {pods}", b"")
            check(got == 200 and json.loads(answer)["kind"] == "PodList", f"a collection: {got} {answer[:300]!r}")
        # what a pod may not be
        with Wire(m) as w:
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
                   "spec": {"containers": [{"name": "c", "image": 7}]}}
            text = json.dumps(pod).encode()
            got, answer = w.ask(f"POST {pods}\nContent-Length: {len(text)}", text)
            check(got in (400, 422), f"wrong type: {got} {answer!r}")
        serving(m)


def test_nobody_enters_without_a_token():
    with Muster() as m:
        for path, wanted in (("/healthz", 200), ("/livez", 200), ("/readyz", 200), ("/version", 200), ("/api", 401),
                             ("/", 401), ("/openapi/v2", 401), ("/api/v1/secrets", 401)):
            for header in ("", "Authorization: Bearer wrong\r\n", "Authorization: Basic eDp5\r\n",
                           "Authorization: Bearer \r\n"):
                with Wire(m) as w:
                    w.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode())
                    got, _ = w.status()
                    check(got == wanted, f"{path} with {header!r}: {got}, expected {wanted}")
        mode = os.stat(os.path.join(m.data, "token")).st_mode & 0o777
        check(mode == 0o600, f"token has mode {mode:o}")
        check(os.stat(m.kubeconfig).st_mode & 0o777 == 0o600, "kubeconfig is readable by others")
        check(os.stat(m.data).st_mode & 0o777 == 0o700, "data folder is open to others")


def test_bodies_beyond_the_limit_are_refused():
    with Muster() as m:
        for framing in (f"Content-Length: {100 << 20}", "Transfer-Encoding: chunked"):
            with Wire(m) as w:
                w.send(f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                       f"{w.token}\r\n{framing}\r\n\r\n".encode())
                piece = b" " * 65536
                if "chunked" in framing:
                    piece = b"10000\r\n" + piece + b"\r\n"
                try:
                    for _ in range(1600):
                        w.send(piece)
                except OSError:
                    pass
                got, _ = w.status()
                check(got == 413, f"{framing}: {got}")
        # an announced body that never comes, and one answered before it comes
        with Wire(m) as w:
            w.send(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
            check(w.status()[0] == 401, "refused before the body")
        serving(m)


def test_requests_in_one_go_are_answered_in_order():
    with Muster() as m, Wire(m) as w:
        one = f"GET /api/v1/namespaces/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {w.token}\r\n\r\n"
        names = ["default", "nope", "kube-system"] * 20
        w.send("".join(one % name for name in names).encode())
        for name in names:
            got, body = w.status()
            check(got == (404 if name == "nope" else 200) and name.encode() in body, f"{name}: {got}")
        # a chunked request, cut byte by byte
        body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
        text = (f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {w.token}"
                f"\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
        text += b"5\r\n" + body[:5] + b"\r\n" + b"%x;a=b\r\n" % len(body[5:]) + body[5:] + b"\r\n0\r\n\r\n"
        for i in range(len(text)):
            w.send(text[i:i + 1])
        check(w.status()[0] == 201, "chunked create")


def test_ten_thousand_connections():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10000
    if hard < wanted + 200:
        raise Skip(f"only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Muster() as m:
        host, port = m.listen.split(":")
        held = []
        try:
            # Half of them say nothing, half of them begin a handshake and stop.
            for i in range(wanted):
                s = socket.create_connection((host, int(port)), timeout=30)
                if i % 2:
                    s.sendall(b"\x16\x03\x01")
                held.append(s)
            start = time.monotonic()
            serving(m)
            check(time.monotonic() - start < 10, "an answer among ten thousand connections takes too long")
        finally:
            for s in held:
                s.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wait_for(lambda: open_descriptors(m) < 200, "the connections to be let go", 40)
        serving(m)


def open_descriptors(m):
    return len(os.listdir(f"/proc/{m.process.pid}/fd"))


def test_watchers_that_leave_are_let_go():
    """A watcher that hangs up without an event in sight must not stay."""
    with Muster() as m:
        held = []
        for _ in range(50):
            w = Wire(m)
            w.send(f"GET /api/v1/namespaces/default/secrets?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                   f"{w.token}\r\n\r\n".encode())
            check(b"200" in w.line_and_headers().split(b"\r\n")[0], "watch")
            held.append(w)
        during = open_descriptors(m)
        for w in held:
            w.tls.close()
        wait_for(lambda: open_descriptors(m) <= during - 50, "the watches to be let go", 30)


def test_a_watcher_that_does_not_read_is_told_to_list_again():
    """It costs bounded memory, gets 410 when it reads at last, and others are not held up."""
    with Muster() as m, Wire(m) as slow, Wire(m) as writer:
        slow.send(f"GET /api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1 HTTP/1.1\r\nHost: x\r\n"
                  f"Authorization: Bearer {slow.token}\r\n\r\n".encode())
        slow.line_and_headers()
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"},
                           "data": {"x": "y" * 3000}}).encode()
        path = "/api/v1/namespaces/default/configmaps"
        check(writer.ask(f"POST {path}\nContent-Length: {len(body)}", body)[0] == 201, "create")
        memory = resident_mb(m)
        writers = [Wire(m) for _ in range(64)]
        for i in range(160):
            for w in writers:  # all in one go, so that they share a commit
                patch = b'{"metadata":{"labels":{"i":"%d-%d"}}}' % (i, w.tls.fileno())
                w.send(f"PATCH {path}/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {w.token}\r\nContent-Type: "
                       f"application/merge-patch+json\r\nContent-Length: {len(patch)}\r\n\r\n".encode() + patch)
            for w in writers:
                check(w.status()[0] == 200, "patch")
        for w in writers:
            w.tls.close()
        check(resident_mb(m) < memory + 150 * PATIENCE, f"memory grew from {memory} to {resident_mb(m)} MB")
        seen = b""
        while b'"code":410' not in seen[-4096:]:
            more = slow.tls.recv(65536)
            check(more, "the stream ended without a word")
            seen = seen[-8192:] + more


def resident_mb(m):
    with open(f"/proc/{m.process.pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
    return 0


def test_a_patch_that_multiplies_is_refused_before_it_takes_memory():
    """Small requests that would become gigabytes; the server has one to live with, and lives."""
    m = Muster()
    m.prefix = ["prlimit", f"--data={1 << 30}"]
    path = "/api/v1/namespaces/default/configmaps"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    copies = [{"op": "add", "path": "/data", "value": {"0": "x" * (1 << 20)}}]
    copies += [{"op": "copy", "from": "/data/0", "path": f"/data/{i}"} for i in range(1, 9000)]
    deep = dict(config, **{"x" * 500_000: {str(i): {} for i in range(15_000)}})
    with m:
        def patch(kind, body, query=""):
            text = json.dumps(body).encode()
            with Wire(m, timeout=60 * PATIENCE) as w:
                got, answer = w.ask(f"PATCH {path}/c{query}\nContent-Type: application/{kind}\nContent-Length: {len(text)}",
                                    text)
            serving(m)
            return got, json.loads(answer)
        with Wire(m) as w:
            text = json.dumps(config).encode()
            check(w.ask(f"POST {path}\nContent-Length: {len(text)}", text)[0] == 201, "create")
        got, answer = patch("json-patch+json", copies)
        check(got == 413 and "too large" in answer["message"], f"copies: {got} {answer}")
        # What nobody knows is refused or dropped, and its long name is not written down for every member.
        got, answer = patch("apply-patch+yaml", deep, "?fieldManager=x")
        check(got == 400 and len(answer["message"]) < 10_000, f"apply: {got} {str(answer)[:300]}")
        got, answer = patch("strategic-merge-patch+json", deep)
        check(got == 200 and "data" not in answer, f"merge: {got} {str(answer)[:300]}")
        got, answer = patch("json-patch+json", copies[:1])
        check(got == 200 and len(answer["data"]["0"]) == 1 << 20, f"an honest one: {got}")
