#!/usr/bin/env python3
"""wheel.py ARCH: a Python wheel in dist/, from what `tools/dist.sh ARCH` built: our programs, the shared libraries that they
need beyond glibc, and the package of python/.

The platform tag is not claimed but found: the newest symbol version of glibc that any file in the wheel needs. A library
that is neither in the wheel nor part of glibc is an error, and so is a wheel above 12 MB. WHEEL_NAME names the
distribution (default muster-train); the commands keep their names. The same tree gives the same bytes.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = os.environ.get("WHEEL_NAME", "muster-train")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
PACKAGE = "muster_train"
BYTES_MAX = 12 << 20
# What every glibc system has: the libraries that a manylinux wheel may expect.
SYSTEM = re.compile(r"^(libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl)\.so|^ld-linux")


def version():
    with open(os.path.join(ROOT, "meson.build")) as f:
        return re.search(r"version : '([^']+)'", f.read()).group(1)


def readelf(flag, path):
    return subprocess.run(["readelf", "-W", flag, path], text=True, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=dict(os.environ, LC_ALL="C")).stdout


def glibc_needed(paths):
    """(2, 34), from the symbol versions that the files name."""
    newest = (2, 17)  # what the oldest tag of this form stands for
    for path in paths:
        for minor in re.findall(r"\bGLIBC_2\.(\d+)", readelf("-V", path)):
            newest = max(newest, (2, int(minor)))
    return newest


def missing_libraries(paths, have):
    found = set()
    for path in paths:
        found.update(re.findall(r"\(NEEDED\).*\[(.*?)\]", readelf("-d", path)))
    return sorted(name for name in found if name not in have and not SYSTEM.match(name))


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def files_of(tree):
    """{path in the wheel: path here}"""
    files = {}
    for folder, target in ((os.path.join(tree, "bin"), f"{PACKAGE}/bin"), (os.path.join(tree, "lib"), f"{PACKAGE}/lib"),
                           (os.path.join(ROOT, "python", PACKAGE), PACKAGE)):
        for here, folders, names in os.walk(folder):
            folders[:] = [f for f in folders if f != "__pycache__"]
            for name in names:
                path = os.path.join(here, name)
                files[os.path.join(target, os.path.relpath(path, folder))] = path
    return files


def metadata(licences):
    with open(os.path.join(ROOT, "README.md")) as f:
        readme = f.read()
    names = "".join(f"License-File: {name}\n" for name in licences)
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version()}\n"
            "Summary: distributed PyTorch training on Kubernetes, and on one machine without it\n"
            f"License: Apache-2.0\n{names}Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{readme}")


def build(arch, tree):
    files = files_of(tree)
    elves = [path for path in files.values() if is_elf(path)]
    have = {os.path.basename(path) for path in elves}
    lacking = missing_libraries(elves, have)
    if lacking:
        sys.exit(f"wheel.py: these libraries are neither in the wheel nor part of glibc: {', '.join(lacking)}")
    major, minor = glibc_needed(elves)
    tag = f"py3-none-manylinux_{major}_{minor}_{MACHINES[arch]}"
    plain = re.sub(r"[-_.]+", "_", NAME)
    info = f"{plain}-{version()}.dist-info"
    licences = {"LICENSE": os.path.join(ROOT, "LICENSE")}
    folder = os.path.join(tree, "share/doc/muster/licences")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        licences[f"licences/{name}"] = os.path.join(folder, name)
    contents = {name: open(path, "rb").read() for name, path in files.items()}
    contents.update({f"{info}/licenses/{name}": open(path, "rb").read() for name, path in licences.items()})
    contents[f"{info}/METADATA"] = metadata(licences).encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    contents[f"{info}/entry_points.txt"] = (f"[console_scripts]\nmuster = {PACKAGE}:_muster\n"
                                            f"kubectl-torchrun = {PACKAGE}:_kubectl_torchrun\n").encode()
    return os.path.join(ROOT, "dist", f"{plain}-{version()}-{tag}.whl"), info, contents


def write(path, info, contents):
    record = ""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        def add(name, data):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if f"/{PACKAGE}/bin/" in f"/{name}" else 0o100644) << 16
            out.writestr(entry, data)
        for name in sorted(contents):
            digest = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(contents[name])}\n"
            add(name, contents[name])
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in MACHINES:
        sys.exit("usage: tools/wheel.py amd64|arm64")
    arch = sys.argv[1]
    tree = os.path.join(ROOT, f"build-dist-{arch}", f"muster-{version()}-linux-{arch}")
    if not os.path.isdir(tree):
        sys.exit(f"wheel.py: there is no {tree}: run tools/dist.sh {arch}")
    path, info, contents = build(arch, tree)
    write(path, info, contents)
    size = os.path.getsize(path)
    if size > BYTES_MAX:
        os.unlink(path)
        sys.exit(f"wheel.py: {os.path.basename(path)} has {size} bytes, above the {BYTES_MAX} that a download may have")
    print(f"{os.path.relpath(path, ROOT)}: {size / (1 << 20):.1f} MiB")


if __name__ == "__main__":
    main()
