#!/usr/bin/env python3
"""build.py [--build DIR] [--out FILE.tar] [--tag NAME:TAG] [--add ARCH=BUILD:SYSROOT]: an OCI archive without a daemon.

The image holds muster, muster-launch, kubectl-torchrun, libmuster-gpu.so, the shared libraries they need, certificate authorities
and a user, and nothing else: no shell, no package manager. The same inputs give the same bytes: entries are sorted,
owned by root, dated SOURCE_DATE_EPOCH (default 0), and the compressor writes no time. Which packages the libraries
come from, with versions, licences and hashes, is in FILE-ARCH.spdx.json and in the image under /usr/share/sbom.

--add puts another platform into the same index, whose libraries are looked up under the sysroot; for example
arm64=build-dist-arm64/build:build-dist-arm64/sysroot, which `tools/dist.sh --programs arm64` makes. Needs
readelf and strip (binutils); dpkg-query where the libraries are Debian's.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import licences  # noqa: E402

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
PROGRAMS = ("muster", "muster-launch", "kubectl-torchrun")
PRELOADED = "libmuster-gpu.so"  # copied from here into containers with a share of a GPU (src/api/limit.c)
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
USER = 65532
BYTES_MAX = 60 << 20  # of the whole archive, one platform
# Loaded by name at run time, so that no program lists them: name lookup of the C library.
LOADED_LATER = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")


def version():
    with open(os.path.join(ROOT, "meson.build")) as f:
        return re.search(r"version : '([^']+)'", f.read()).group(1)


def whole_name(tag):
    """What a kubelet looks for where a pod says `tag`: a name without a registry is Docker's, as `docker save` writes it."""
    registry, rest = ([""] + tag.split("/", 1))[-2:]
    if "." in registry or ":" in registry or registry == "localhost":
        return tag
    return "docker.io/" + (tag if registry else "library/" + rest)


def needed(path):
    """(loader, libraries) that an ELF file names."""
    text = subprocess.run(["readelf", "-d", "-l", "-W", path], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    loader = re.search(r"program interpreter: ([^\]]+)\]", text)
    return loader and loader.group(1), re.findall(r"\(NEEDED\).*\[([^\]]+)\]", text)


def stripped(path, architecture):
    """One of our files without its debug data, which names the folders it was built in, and without the hash over that."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "stripped")
        subprocess.run([shutil.which(TRIPLETS[architecture] + "-strip") or "strip", "--strip-unneeded",
                        "--remove-section=.note.gnu.build-id", "-o", out, path], check=True)
        with open(out, "rb") as f:
            return f.read()


class Platform:
    """The files of one platform's image: path in the image -> bytes, or a link's target as str."""

    def __init__(self, architecture, build, sysroot="/"):
        self.architecture, self.build, self.sysroot = architecture, build, sysroot
        self.folders = [f"usr/lib/{TRIPLETS[architecture]}", f"lib/{TRIPLETS[architecture]}", "usr/lib64", "lib64",
                        "usr/lib", "lib"]
        self.files, self.libraries = {}, {}
        for program in PROGRAMS:
            path = os.path.join(build, program)
            if os.path.exists(path):
                self.add_program(path, "usr/bin/" + program)
        if "usr/bin/muster" not in self.files:
            sys.exit(f"build.py: {build}/muster does not exist: build first")
        preloaded = os.path.join(build, PRELOADED)
        if os.path.exists(preloaded):
            self.files["usr/lib/muster/" + PRELOADED] = stripped(preloaded, architecture)
        for name in LOADED_LATER:
            if self.find(name):
                self.add_library(name)
        self.add_text()

    def find(self, name):
        for folder in self.folders:
            path = os.path.join(self.sysroot, folder, name)
            if os.path.exists(path):
                return os.path.realpath(path)
        return None

    def add_program(self, path, where):
        self.files[where] = stripped(path, self.architecture)
        loader, libraries = needed(path)
        if loader:
            real = self.find(os.path.basename(loader))
            if not real:
                sys.exit(f"build.py: {loader}, which {path} needs, is not under {self.sysroot}")
            with open(real, "rb") as f:
                self.files[loader.lstrip("/")] = f.read()
            self.libraries[real] = loader.lstrip("/")
        for name in libraries:
            self.add_library(name)

    def add_library(self, name):
        where = f"usr/lib/{TRIPLETS[self.architecture]}/{name}"
        if where in self.files or name.startswith("ld-linux"):
            return
        real = self.find(name)
        if not real:
            sys.exit(f"build.py: {name} is not under {self.sysroot}")
        with open(real, "rb") as f:
            self.files[where] = f.read()
        self.libraries[real] = where
        for other in needed(real)[1]:
            self.add_library(other)

    def add_text(self):
        triplet = TRIPLETS[self.architecture]
        self.files["etc/passwd"] = (f"root:x:0:0:root:/:/usr/sbin/nologin\n"
                                    f"nonroot:x:{USER}:{USER}:nonroot:/:/usr/sbin/nologin\n").encode()
        self.files["etc/group"] = f"root:x:0:\nnonroot:x:{USER}:\n".encode()
        self.files["etc/nsswitch.conf"] = b"hosts: files dns\n"
        self.files["etc/ld.so.conf"] = f"/usr/lib/{triplet}\n".encode()
        self.files[f"lib/{triplet}"] = f"../usr/lib/{triplet}"
        # Made when their package is installed, and the same for all platforms.
        for authorities in (os.path.join(self.sysroot, AUTHORITIES), "/" + AUTHORITIES):
            if os.path.exists(authorities) and AUTHORITIES not in self.files:
                with open(authorities, "rb") as f:
                    self.files[AUTHORITIES] = f.read()
        with open(os.path.join(ROOT, "LICENSE"), "rb") as f:
            self.files["usr/share/doc/muster/LICENSE"] = f.read()

    def unpacked(self):
        """{file: (package, version)} of a sysroot, as tools/dist.sh has listed it beside."""
        owners, owner = {}, ("", "")
        path = os.path.join(os.path.dirname(self.sysroot.rstrip("/")), "packages")
        if self.sysroot != "/" and os.path.exists(path):
            with open(path) as f:
                for line in f.read().splitlines():
                    if line.startswith("/"):
                        owners[line] = owner
                    else:
                        owner = tuple(line.split(" ", 1))
        return owners

    def installed(self, path):
        """(package, version) of a file of this machine."""
        done = subprocess.run(["dpkg-query", "-S", path], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            return None
        name = done.stdout.split(": ")[0].split(",")[0]
        release = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], text=True, stdout=subprocess.PIPE).stdout
        return name.split(":")[0], release

    def packages(self):
        """{(package, version): [files]} of what was taken from the distribution."""
        found, unpacked = {}, self.unpacked()
        root = "" if self.sysroot == "/" else os.path.realpath(self.sysroot)
        for real, where in sorted(self.libraries.items()):
            path = real[len(root):]
            owner = None
            for name in (path, path.replace("/usr/lib/", "/lib/", 1)):
                owner = owner or unpacked.get(name) or (self.installed(name) if not root else None)
            found.setdefault(owner or ("", ""), []).append(where)
        return found

    def sbom(self):
        documents = [{
            "SPDXID": "SPDXRef-muster", "name": "muster", "versionInfo": version(), "licenseConcluded": "Apache-2.0",
            "licenseDeclared": "Apache-2.0", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "copyrightText": "NOASSERTION", "supplier": "NOASSERTION"}]
        relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                      "relatedSpdxElement": "SPDXRef-muster"}]
        for (name, release), where in sorted(self.packages().items()):
            identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name or "unpackaged")
            documents.append({
                "SPDXID": identity, "name": name or "unpackaged", "versionInfo": release or "NOASSERTION",
                "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                **licences.fields(licences.notice_of(name, self.sysroot)), "copyrightText": "NOASSERTION",
                "supplier": "NOASSERTION",
                "comment": "; ".join(f"{w} sha256:{hashlib.sha256(self.files[w]).hexdigest()}" for w in where),
                **({"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                      "referenceLocator": f"pkg:deb/debian/{name}@{release}"
                                                          f"?arch={self.architecture}"}]} if name else {})})
            relations.append({"spdxElementId": "SPDXRef-muster", "relationshipType": "DYNAMIC_LINK",
                              "relatedSpdxElement": identity})
        digest = hashlib.sha256(json.dumps(documents, sort_keys=True).encode()).hexdigest()
        return json.dumps({
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"muster-{version()}-{self.architecture}",
            "documentNamespace": f"https://torchrun.ai/spdx/muster-{version()}-{digest}",
            "creationInfo": {"created": stamp(), "creators": ["Tool: deploy/image/build.py"]},
            "packages": documents, "relationships": relations, **licences.extracted(documents)
        }, indent=1, sort_keys=True).encode()

    def layer(self):
        """The one layer as an uncompressed tar."""
        self.files["usr/share/sbom/muster.spdx.json"] = self.sbom()
        folders = {"tmp"}
        for path in self.files:
            parts = path.split("/")[:-1]
            folders.update("/".join(parts[:i + 1]) for i in range(len(parts)))
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(folders | set(self.files)):
                entry = tarfile.TarInfo(path)
                entry.mtime = EPOCH
                content = self.files.get(path)
                if content is None:
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
                    tar.addfile(entry)
                elif isinstance(content, str):
                    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, content, 0o777
                    tar.addfile(entry)
                else:
                    entry.size, entry.mode = len(content), 0o755 if content[:4] == b"\x7fELF" else 0o644
                    tar.addfile(entry, io.BytesIO(content))
        return out.getvalue()


def stamp():
    import datetime
    return datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Archive:
    def __init__(self):
        self.blobs = {}

    def blob(self, media, data):
        digest = hashlib.sha256(data).hexdigest()
        self.blobs["blobs/sha256/" + digest] = data
        return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}

    def manifest(self, target):
        tar = target.layer()
        packed = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as out:
            out.write(tar)
        layer = self.blob("application/vnd.oci.image.layer.v1.tar+gzip", packed.getvalue())
        config = self.blob("application/vnd.oci.image.config.v1+json", json.dumps({
            "created": stamp(), "architecture": target.architecture, "os": "linux",
            "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/muster"], "WorkingDir": "/",
                       "Env": ["PATH=/usr/bin"],
                       "Labels": {"org.opencontainers.image.title": "muster",
                                  "org.opencontainers.image.version": version(),
                                  "org.opencontainers.image.licenses": "Apache-2.0"}},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest()]},
            "history": [{"created": stamp(), "created_by": "deploy/image/build.py"}]}, sort_keys=True).encode())
        entry = self.blob("application/vnd.oci.image.manifest.v1+json", json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
            "layers": [layer]}, sort_keys=True).encode())
        return {**entry, "platform": {"architecture": target.architecture, "os": "linux"}}

    def write(self, path, tag, manifests):
        for entry in manifests:
            entry["annotations"] = {"io.containerd.image.name": whole_name(tag),
                                    "org.opencontainers.image.ref.name": tag.rsplit(":", 1)[-1]}
        self.blobs["index.json"] = json.dumps({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests}, sort_keys=True).encode()
        self.blobs["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name in sorted(self.blobs):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(self.blobs[name]), EPOCH, 0o644
                tar.addfile(entry, io.BytesIO(self.blobs[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", default=os.path.join(ROOT, "dist", f"muster-{version()}.tar"))
    parser.add_argument("--tag", default=f"muster:{version()}")
    parser.add_argument("--add", action="append", default=[], metavar="ARCH=BUILD:SYSROOT")
    options = parser.parse_args()
    platforms = [Platform(ARCHITECTURES[platform.machine()], options.build)]
    for text in options.add:
        architecture, rest = text.split("=", 1)
        platforms.append(Platform(architecture, *rest.split(":", 1)))
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    archive = Archive()
    archive.write(options.out, options.tag, [archive.manifest(p) for p in platforms])
    size = os.path.getsize(options.out)
    for target in platforms:
        with open(re.sub(r"\.tar$", "", options.out) + f"-{target.architecture}.spdx.json", "wb") as f:
            f.write(target.sbom())
    with open(options.out, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    print(f"{options.out}: {options.tag}, {', '.join(p.architecture for p in platforms)}, "
          f"{size / 1e6:.1f} MB, sha256 {digest}")
    if size > BYTES_MAX * len(platforms):
        sys.exit(f"build.py: larger than {BYTES_MAX >> 20} MB a platform")


if __name__ == "__main__":
    main()
