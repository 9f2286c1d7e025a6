#!/usr/bin/env python3
"""release.py: what `make release` left in dist/ is whole: every sum holds, the chart's links are files, the bill of materials
names the libraries of the tarball, and a package that is missing is an error. Exits 77, saying why, where there is none."""

import glob
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIST = os.path.join(ROOT, "dist")


def the_sums_hold():
    assert subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=DIST).returncode == 0
    with open(os.path.join(DIST, "SHA256SUMS")) as f:
        named = {line.split()[1] for line in f}
    assert named == set(os.listdir(DIST)) - {"SHA256SUMS"}, named


def the_chart_has_files_where_the_tree_has_links():
    with tarfile.open(glob.glob(os.path.join(DIST, "muster-chart-*.tgz"))[0]) as tar:
        assert all(m.isfile() for m in tar.getmembers())
        names = tar.getnames()
    assert "muster/Chart.yaml" in names and "muster/files/role.yaml" in names
    assert sum(n.startswith("muster/crds/") for n in names) == len(os.listdir(os.path.join(ROOT, "deploy/crds")))


def the_bill_names_every_library():
    for path in glob.glob(os.path.join(DIST, "*.spdx.json")):
        with open(path) as f:
            packages = json.load(f)["packages"]
        parts = {p["name"]: p["versionInfo"] for p in packages}
        for p in packages:
            if p["name"] != "muster":
                assert len(p["checksums"][0]["checksumValue"]) == 64 and p["packageFileName"].split(".so")[1:], p
        known = {p["name"] for p in packages if p["licenseDeclared"] != "NOASSERTION"}
        assert {"libgnutls30", "libzstd1"} & parts.keys() <= known, f"licences of {parts.keys() - known} are not known"
        assert {"muster", "libgnutls30", "libuv1"} <= parts.keys() and "NOASSERTION" not in parts.values(), parts


def the_image_is_whole_and_for_every_architecture():
    with tarfile.open(glob.glob(os.path.join(DIST, "muster-image-*.tar"))[0]) as tar:
        for name in tar.getnames():
            if name.startswith("blobs/sha256/"):
                data = tar.extractfile(name).read()
                assert hashlib.sha256(data).hexdigest() == name.rsplit("/", 1)[1], name
        index = json.load(tar.extractfile("index.json"))
        while index["manifests"][0]["mediaType"].endswith("index.v1+json"):
            index = json.load(tar.extractfile("blobs/" + index["manifests"][0]["digest"].replace(":", "/")))
    found = {m["platform"]["architecture"] for m in index["manifests"]}
    wanted = {a for a in ("amd64", "arm64") if glob.glob(os.path.join(DIST, f"*_{a}.deb"))}
    assert wanted <= found, f"{found} of {wanted}"


def a_missing_package_is_an_error():
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([os.path.join(ROOT, "tools/release.py"), "amd64"], env=dict(os.environ, RELEASE_DIST=empty),
                              text=True, stderr=subprocess.PIPE)
        assert done.returncode != 0 and "has no file" in done.stderr and not os.listdir(empty), done.stderr


def main():
    if not os.path.exists(os.path.join(DIST, "SHA256SUMS")):
        print("release: skipped: there is no dist/SHA256SUMS: run make release")
        sys.exit(77)
    failed = 0
    tests = (the_sums_hold, the_chart_has_files_where_the_tree_has_links, the_bill_names_every_library,
             the_image_is_whole_and_for_every_architecture, a_missing_package_is_an_error)
    for test in tests:
        try:
            test()
        except AssertionError as e:
            failed += 1
            print(f"FAIL {test.__name__}: {e}")
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
