"""A registry that has one image under every name: what the guides name is pulled, and has this machine's /usr in it."""

import hashlib
import http.server
import json
import tarfile
import threading

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class Registry(threading.Thread):
    """Serves a docker archive of one layer (node.docker_archive) at the address."""

    def __init__(self, address, archive):
        super().__init__(daemon=True)
        self.blobs, self.pulled = {}, set()
        with tarfile.open(archive) as tar:
            told = json.load(tar.extractfile("manifest.json"))[0]
            config, layer = (tar.extractfile(name).read() for name in (told["Config"], told["Layers"][0]))
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": self.blob(CONFIG, config),
                                    "layers": [self.blob(LAYER, layer)]}).encode()
        self.blob(MANIFEST, self.manifest)
        registry = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.answer(self, self.command == "GET")

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 5000), Answers)

    def blob(self, media, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = (media, data)
        return {"mediaType": media, "size": len(data), "digest": digest}

    def answer(self, request, with_body):
        path = request.path.split("?")[0].rstrip("/").split("/")  # /v2/NAME.../manifests/TAG, /v2/NAME.../blobs/DIGEST
        if len(path) > 4 and path[-2] == "manifests" and not path[-1].startswith("sha256:"):
            self.pulled.add("/".join(path[2:-2]) + ":" + path[-1])
            media, data = MANIFEST, self.manifest
        else:
            media, data = self.blobs.get(path[-1], ("text/plain", b"" if path[-1] == "v2" else None))
        request.send_response(404 if data is None else 200)
        data = data or b""
        request.send_header("Content-Type", media)
        request.send_header("Content-Length", str(len(data)))
        request.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(data).hexdigest())
        request.end_headers()
        if with_body:
            request.wfile.write(data)

    def run(self):
        self.server.serve_forever()
