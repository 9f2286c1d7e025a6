#!/usr/bin/env python3
"""release.py ARCH...: what `make release` adds to the packages that are in dist/: the Helm chart as an archive, a bill of
materials (SPDX 2.3) for each architecture, the changes since the last tag, and the sums of everything. A package that is missing
for a named architecture is an error. The same tree gives the same bytes. RELEASE_DIST: another folder than dist/."""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import licences

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIST = os.environ.get("RELEASE_DIST", os.path.join(ROOT, "dist"))
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def version():
    with open(os.path.join(ROOT, "meson.build")) as f:
        return re.search(r"version : '([^']+)'", f.read()).group(1)


def packages(arch):
    """Patterns of the packages that a release has for an architecture, and the file of each; None: it is missing."""
    names = os.listdir(DIST)
    for pattern in (rf"muster-{version()}-linux-{arch}\.tar\.gz", rf"muster_{version()}_{arch}\.deb",
                    rf".*-{version()}-py3-none-manylinux_.*_{MACHINES[arch]}\.whl"):
        yield pattern, next((n for n in sorted(names) if re.fullmatch(pattern, n)), None)


def write(name, data):
    with open(os.path.join(DIST, name), "wb") as f:
        f.write(data)


def chart():
    out = io.BytesIO()
    folder = os.path.join(ROOT, "deploy/chart/muster")

    def plain(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for here, folders, names in os.walk(folder, followlinks=True):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(here, name)
                tar.add(path, os.path.join("muster", os.path.relpath(path, folder)), filter=plain)
    write(f"muster-chart-{version()}.tgz", gzip.compress(out.getvalue(), 9, mtime=0))


def components(arch):
    """(package, version, files with their hashes) of the distribution for each library in the tarball, from what tools/dist.sh
    noted."""
    owners, current = {}, ("", "")
    with open(os.path.join(ROOT, f"build-dist-{arch}", "packages")) as f:
        for line in f:
            line = line.rstrip("\n")
            if line.startswith("/"):
                owners[os.path.basename(line)] = current
            elif line:
                current = tuple(line.split(" ", 1))
    with tarfile.open(os.path.join(DIST, f"muster-{version()}-linux-{arch}.tar.gz")) as tar:
        found = {}
        for entry in tar.getmembers():
            name = os.path.basename(entry.name)
            if re.search(r"/lib/[^/]+\.so[^/]*$", entry.name) and entry.isfile():
                whose = owners.get(name, (name, "NOASSERTION"))
                found.setdefault(whose, []).append((name, hashlib.sha256(tar.extractfile(entry).read()).hexdigest()))
    return [(name, release, files) for (name, release), files in sorted(found.items())]


def bill(arch):
    parts = [{"SPDXID": "SPDXRef-muster", "name": "muster", "versionInfo": version(), "licenseConcluded": "Apache-2.0",
              "licenseDeclared": "Apache-2.0", "downloadLocation": "NOASSERTION"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": "SPDXRef-muster"}]
    notices = f"{ROOT}/build-dist-{arch}/muster-{version()}-linux-{arch}/share/doc/muster/licences"
    for name, release, files in components(arch):
        identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)
        parts.append({"SPDXID": identity, "name": name, "versionInfo": release, "licenseConcluded": "NOASSERTION",
                      **licences.fields(os.path.join(notices, name)), "downloadLocation": "NOASSERTION",
                      "packageFileName": files[0][0],
                      "checksums": [{"algorithm": "SHA256", "checksumValue": files[0][1]}],
                      "comment": "; ".join(f"{file} sha256:{sum_}" for file, sum_ in files)})
        relations.append({"spdxElementId": "SPDXRef-muster", "relationshipType": "DYNAMIC_LINK",
                          "relatedSpdxElement": identity})
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"muster-{version()}-{arch}", "packages": parts, "relationships": relations, **licences.extracted(parts),
                "documentNamespace": f"https://spdx.org/spdxdocs/muster-{version()}-{arch}",
                "creationInfo": {"created": "1980-01-01T00:00:00Z", "creators": ["Tool: muster-release"]}}
    write(f"muster-{version()}-{arch}.spdx.json", (json.dumps(document, indent=1) + "\n").encode())


def git(*argv):
    done = subprocess.run(["git", "-C", ROOT, *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def changes():
    last = git("describe", "--tags", "--abbrev=0")
    lines = git("log", "--no-merges", "--format=- %s", *([f"{last}..HEAD"] if last else [])).splitlines()
    since = f", since {last}" if last else ""
    write("CHANGELOG.md", f"# Muster {version()}{since}\n\n".encode() + "\n".join(lines).encode() + b"\n")


def sums():
    lines = []
    for name in sorted(os.listdir(DIST)):
        if name != "SHA256SUMS" and os.path.isfile(os.path.join(DIST, name)):
            with open(os.path.join(DIST, name), "rb") as f:
                lines.append(f"{hashlib.sha256(f.read()).hexdigest()}  {name}\n")
    write("SHA256SUMS", "".join(lines).encode())


def placeholders():
    """Lines of what people read first that whoever publishes has to fill in: @SECURITY_CONTACT@ and the like."""
    files = ["SECURITY.md"]
    for folder in (".github", ".gitlab"):
        for top, _, names in os.walk(os.path.join(ROOT, folder)):
            files += [os.path.relpath(os.path.join(top, name), ROOT) for name in names]
    found = []
    for name in sorted(files):
        with open(os.path.join(ROOT, name)) as f:
            found += [f"{name}: {word}" for word in re.findall(r"@[A-Z][A-Z_]+@", f.read())]
    return found


def main():
    arches = sys.argv[1:]
    if not arches or any(a not in MACHINES for a in arches):
        sys.exit("usage: tools/release.py amd64|arm64...")
    if placeholders() and not os.environ.get("RELEASE_DRAFT"):
        sys.exit("release.py: fill in what stands for you first (RELEASE_DRAFT=1: not for others):\n  " +
                 "\n  ".join(placeholders()))
    missing = [pattern for arch in arches for pattern, name in packages(arch) if not name]
    if missing:
        sys.exit(f"release.py: dist/ has no file {missing[0]}: run make wheel deb for each architecture")
    if not os.path.exists(os.path.join(DIST, f"muster-image-{version()}.tar")):
        sys.exit(f"release.py: dist/ has no file muster-image-{version()}.tar: run deploy/image/build.py --out with its name")
    chart()
    for arch in arches:
        bill(arch)
    changes()
    sums()
    print(f"{os.path.relpath(DIST, ROOT)}: {len(os.listdir(DIST))} files, sums in SHA256SUMS")


if __name__ == "__main__":
    main()
