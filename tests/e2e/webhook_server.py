"""A webhook for tests: /mutate adds a label, /deny refuses what has the label "bad", /convert makes spec.host and spec.port (v2)
of spec.hostPort (v1) and the other way round, /count tells how often it was asked."""

import base64
import http.server
import json
import ssl
import sys

asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        if self.path.startswith("/convert"):
            self.convert(request)
            return
        asked.append({"path": self.path, "operation": request["operation"], "user": request["userInfo"]["username"],
                      "kind": request["kind"]["kind"], "dryRun": request["dryRun"]})
        response = {"uid": request["uid"], "allowed": True}
        labels = ((request["object"] or request["oldObject"]).get("metadata", {}).get("labels") or {})
        if self.path.startswith("/mutate"):
            patch = [{"op": "add", "path": "/metadata/labels", "value": dict(labels, seen="yes")}]
            response.update(patchType="JSONPatch", patch=base64.b64encode(json.dumps(patch).encode()).decode())
        elif "bad" in labels or "bad" in (request["object"] or {}).get("command", []):
            response.update(allowed=False, status={"code": 403, "message": "it is bad"}, warnings=["think again"])
        self.answer({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def convert(self, request):
        asked.append({"path": self.path, "version": request["desiredAPIVersion"], "count": len(request["objects"])})
        for item in request["objects"]:
            spec = item["spec"]
            item["apiVersion"] = request["desiredAPIVersion"]
            item["metadata"]["generation"] = 77  # not its to change
            if item["apiVersion"].endswith("v2"):
                spec["host"], spec["port"] = spec.pop("hostPort").split(":")
            else:
                spec["hostPort"] = spec.pop("host") + ":" + spec.pop("port")
        self.answer({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                     "response": {"uid": request["uid"], "result": {"status": "Success"},
                                  "convertedObjects": request["objects"]}})

    def do_GET(self):
        self.answer(asked)

    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
