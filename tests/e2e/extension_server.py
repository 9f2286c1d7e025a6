"""An API server for tests that another one hands requests on to: extension_server.py ADDRESS PORT CERT KEY KUBECONFIG.

It serves fish of tests.example.com/v1, in memory. It reads in kube-system whom to believe who asks (the ConfigMap
extension-apiserver-authentication), and asks the API server whether he may (SubjectAccessReview), as every server of
k8s.io/apiserver does. Each object of the answer tells in an annotation who asked."""

import http.server
import json
import os
import ssl
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rest import Rest  # noqa: E402

BASE = "/apis/tests.example.com/v1"
api = Rest(sys.argv[5], 30)
fish = {}
changed = threading.Condition()
events = []


def resources():
    def one(name, **more):
        return dict({"name": name, "singularName": "", "namespaced": True, "kind": "Fish",
                     "verbs": ["create", "delete", "get", "list", "watch"]}, **more)
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "tests.example.com/v1",
            "resources": [one("fishes", singularName="fish", shortNames=["fi"]), one("fishes/status", verbs=["get"])]}


def document():
    of = {"group": "tests.example.com", "version": "v1", "kind": "Fish"}
    return {"openapi": "3.0.0", "info": {"title": "fish", "version": "v1"}, "paths": {
        BASE + "/namespaces/{namespace}/fishes": {"get": {
            "responses": {"200": {"description": "fine"}}, "x-kubernetes-action": "list",
            "x-kubernetes-group-version-kind": of}}},
        "components": {"schemas": {"com.example.Fish": {
            "type": "object", "description": "What swims.", "x-kubernetes-group-version-kind": [of],
            "properties": {"scales": {"type": "integer", "description": "How many it has."}}}}}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, what, code=200):
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def who(self):
        """Who asks, by the word of the API server whose certificate this connection has; or nobody."""
        peer = self.connection.getpeercert() or {}
        names = [value for part in peer.get("subject", ()) for key, value in part if key == "commonName"]
        if names != json.loads(trusted["requestheader-allowed-names"]):
            return None
        return {"user": self.headers["X-Remote-User"], "groups": self.headers.get_all("X-Remote-Group", []),
                "uid": self.headers.get("X-Remote-Uid", "")}

    def may(self, user, verb, ns, name):
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": dict(
            user, resourceAttributes={"group": "tests.example.com", "version": "v1", "resource": "fishes", "verb": verb,
                                      "namespace": ns, "name": name})}
        status, text = api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", json.dumps(review))
        return status == 201 and json.loads(text)["status"]["allowed"]

    def do(self):
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        user = self.who()
        if path == BASE:
            self.answer(resources())
        elif path == "/openapi/v3":
            self.answer({"paths": {BASE[1:]: {"serverRelativeURL": f"/openapi/v3{BASE}?hash=1"}}})
        elif path == "/openapi/v3" + BASE:
            self.answer(document())
        elif not user:
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401,
                         "message": "nobody vouches for you"}, 401)
        elif path == BASE + "/slow":
            time.sleep(3600)
        else:
            parts = path[len(BASE):].strip("/").split("/")  # namespaces NS fishes NAME
            ns, name = (parts[1], parts[3] if len(parts) > 3 else "") if parts[0] == "namespaces" else ("", "")
            verb = {"POST": "create", "DELETE": "delete"}.get(self.command, "get" if name else "list")
            if not self.may(user, verb, ns, name):
                self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                             "code": 403, "message": "the extension refuses"}, 403)
            else:
                self.serve(verb, ns, name, query, body, user)

    do_GET = do_POST = do_DELETE = do

    def serve(self, verb, ns, name, query, body, user):
        def show(item):
            return dict(item, metadata=dict(item["metadata"], annotations={
                "asked": user["user"], "groups": ",".join(user["groups"]), "own": self.headers.get("X-Own", "")}))
        with changed:
            if verb == "create":
                item = json.loads(body)
                item["metadata"].update(namespace=ns, uid="u", resourceVersion=str(len(events) + 1))
                fish[ns, item["metadata"]["name"]] = item
                events.append({"type": "ADDED", "object": item})
                changed.notify_all()
                self.answer(show(item), 201)
            elif verb == "list" and "watch=" not in query:
                self.answer({"kind": "FishList", "apiVersion": "tests.example.com/v1",
                             "metadata": {"resourceVersion": str(len(events))},
                             "items": [show(item) for key, item in sorted(fish.items()) if not ns or key[0] == ns]})
            elif verb == "list":
                self.watch()
            elif (ns, name) not in fish:
                self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                             "message": f'fishes.tests.example.com "{name}" not found'}, 404)
            else:
                item = fish.pop((ns, name)) if verb == "delete" else fish[ns, name]
                self.answer(show(item))

    def watch(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        told = 0
        while True:
            while told < len(events):
                line = json.dumps(events[told]).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
                told += 1
            changed.wait()


trusted = api.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")["data"]
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
context.verify_mode = ssl.CERT_OPTIONAL
with tempfile.NamedTemporaryFile("w") as file:
    file.write(trusted["requestheader-client-ca-file"])
    file.flush()
    context.load_verify_locations(file.name)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
