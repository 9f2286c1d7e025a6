"""Small images for tests, made from this machine's own programs: an OCI layout, or a docker archive."""

import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import threading

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PROGRAMS = ("sh", "cat", "ls", "id", "sleep", "env", "pwd", "grep", "touch", "hostname")


def host_files():
    """{path in the image: path here} of a few programs and the libraries they need."""
    files = {}
    for program in PROGRAMS:
        path = os.path.realpath(shutil.which(program))
        files["bin/" + program] = path
        listed = subprocess.run(["ldd", path], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for library in re.findall(r"(/\S+)", listed):
            files[library.lstrip("/")] = os.path.realpath(library)
    return files


def layer(files=(), texts=None, extra=()):
    """A tar of files of this machine, of texts, and of tarfile.TarInfo entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, path in dict(files).items():
            tar.add(path, arcname=name)
        for name, text in (texts or {}).items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
        for info in extra:
            tar.addfile(info)
    return out.getvalue()


def blob(folder, content):
    digest = hashlib.sha256(content).hexdigest()
    os.makedirs(folder + "/blobs/sha256", exist_ok=True)
    with open(f"{folder}/blobs/sha256/{digest}", "wb") as f:
        f.write(content)
    return {"digest": "sha256:" + digest, "size": len(content)}


def oci_layout(folder, name, layers, **config):
    """An OCI layout; every second layer is compressed."""
    kind = "application/vnd.oci.image."
    packed = [dict(blob(folder, gzip.compress(data) if i % 2 else data),
                   mediaType=kind + ("layer.v1.tar+gzip" if i % 2 else "layer.v1.tar")) for i, data in enumerate(layers)]
    described = blob(folder, json.dumps({
        "architecture": ARCHITECTURE, "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]},
    }).encode())
    described["mediaType"] = kind + "config.v1+json"
    manifest = blob(folder, json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": described,
                                        "layers": packed}).encode())
    manifest.update(mediaType=MANIFEST, annotations={"org.opencontainers.image.ref.name": name})
    with open(folder + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
    with open(folder + "/oci-layout", "w") as f:
        json.dump({"imageLayoutVersion": "1.0.0"}, f)
    return folder


@contextlib.contextmanager
def registry(folder):
    """A registry on the loopback that has the layout's one image under every name; its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with open(folder + "/index.json") as f:
                manifest = json.load(f)["manifests"][0]["digest"]
            kind, what = self.path.split("/")[-2:] if self.path != "/v2/" else ("", "")
            if kind == "manifests" and not what.startswith("sha256:"):
                what = manifest
            path = f"{folder}/blobs/sha256/{what.removeprefix('sha256:')}"
            content = b""
            if kind:
                if not os.path.exists(path):
                    self.send_error(404)
                    return
                with open(path, "rb") as f:
                    content = f.read()
            self.send_response(200)
            self.send_header("Content-Type", MANIFEST if kind == "manifests" else "application/octet-stream")
            self.send_header("Docker-Content-Digest", what)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def docker_archive(path, name, layers, **config):
    """What `docker save` writes."""
    with tarfile.open(path, "w") as tar:
        def add(member, data):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        add("config.json", json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": config}).encode())
        for i, data in enumerate(layers):
            add(f"{i}/layer.tar", data)
        add("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [name],
                                          "Layers": [f"{i}/layer.tar" for i in range(len(layers))]}]).encode())
    return path
