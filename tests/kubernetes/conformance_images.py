"""The images that Kubernetes' tests name, made of agnhost (from the Go module) and of this machine's programs.

The image busybox has busybox' shell where this machine has one (package busybox-static), for what tests read of its words.
Nothing is fetched from a registry of images. What these tests want of nginx and httpd is a web server on port 80 with a file that
they can take away (webserver/). Images that this machine cannot make (perl's, redis', an API server's) are left out: their pods
wait for them.
"""

import os
import shutil
import subprocess
import tarfile

import images
from harness import binary, run

# What shell scripts of the tests call; what this machine does not have is left out.
PROGRAMS = ("awk base64 bash cat chgrp chmod chown cp curl cut date dd df dig du echo env expr false find getent grep head "
            "hexdump hostname id ip kill ln ls md5sum mkdir mknod mktemp mount mv nc nslookup od perl ping "
            "printenv printf ps pwd readlink rm rmdir "
            "sed seq sh sleep sort ss stat sync sysctl tail tee test timeout touch "
            "tr true umount uname uniq wc wget whoami").split()
ACCOUNTS = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
                  "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\n"
                 "group-defined-in-image:x:50000:user-defined-in-image\n",
}
WEB_PAGE = {"usr/local/apache2/htdocs/index.html": "<html><body><h1>It works!</h1></body></html>\n"}
# Where this machine has no nc, what the tests want of it: one line there, what comes back within some seconds.
NC = """#!/bin/bash
protocol=tcp wait=5 look=
while getopts tuvzw:q: flag; do
    case $flag in u) protocol=udp ;; z) look=1 ;; w) wait=$OPTARG ;; esac
done
shift $((OPTIND - 1))
timeout "$wait" bash -c 'exec 3<>/dev/$0/$1/$2' $protocol "$1" "$2" || exit 1
[ "$look" ] && exit 0
exec 3<>/dev/$protocol/$1/$2
cat >&3
timeout "$wait" cat <&3
exit 0
"""
# Names are in /etc/hosts here; this says what they lead to.
NSLOOKUP = """#!/bin/sh
getent hosts "$1"
"""
E2E = "registry.k8s.io/e2e-test-images/"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def directory(name, mode=0o755):
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def module_file(folder, path):
    """A file of the Kubernetes module."""
    listed = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"], text=True, check=True,
                            cwd=os.path.join(os.path.dirname(folder), "kubernetes"), stdout=subprocess.PIPE,
                            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/local/go/bin", "GOFLAGS": "-mod=mod"}).stdout
    return os.path.join(listed.strip(), path)


def layers(muster, folder):
    """Programs alone, the same with busybox' shell, with agnhost, agnhost alone, programs with a web server: one layer an image,
    for a second one would be compressed, which takes long."""
    images.PROGRAMS = [program for program in PROGRAMS if shutil.which(program)]
    programs = images.host_files()
    programs["bin/sh"] = os.path.realpath(shutil.which("bash"))  # the tests say [[, which busybox' sh takes as well
    folders = [directory("tmp", 0o1777), directory("root", 0o700), directory("uploads"), directory("var"),
               directory("var/tmp", 0o1777), directory("usr"), link("usr/bin", "../bin"), directory("home"),
               directory("home/user-defined-in-image")]
    for name, text in (("nc", NC), ("nslookup", NSLOOKUP)):
        path = os.path.join(muster.folder, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)
        programs.setdefault("bin/" + name, path)
    agnhost = {"agnhost": os.path.join(folder, "agnhost"),
               "localhost.crt": module_file(folder, "test/images/agnhost/porter/localhost.crt"),
               "localhost.key": module_file(folder, "test/images/agnhost/porter/localhost.key")}
    again = link("agnhost-2", "agnhost")
    web = {**programs, "webserver": os.path.join(folder, "webserver")}
    shell = shutil.which("busybox")
    return (images.layer(programs, ACCOUNTS, folders),
            images.layer({**programs, **({"bin/sh": os.path.realpath(shell)} if shell else {})}, ACCOUNTS, folders),
            images.layer({**programs, **agnhost}, ACCOUNTS, [*folders, again]),
            images.layer(agnhost, extra=[again]), images.layer(web, {**ACCOUNTS, **WEB_PAGE}, folders))


def escalating(muster, folder):
    """A program that runs as its owner, if it is let: it says as whom it ran."""
    path = os.path.join(muster.folder, "nnp")
    shutil.copyfile(os.path.join(folder, "nonewprivs"), path)
    os.chmod(path, 0o4755)
    return images.layer({"usr/local/bin/nnp": path}, ACCOUNTS)


def catalogue(muster, folder):
    """[(name, layers, configuration)]"""
    base, busybox, both, agnhost, web = layers(muster, folder)
    found = [
        (E2E + "agnhost:2.53", [both], {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}),
        (E2E + "busybox:1.36.1-1", [busybox], {"Cmd": ["sh"]}),
        (E2E + "nonroot:1.4", [base], {"Cmd": ["sh"], "User": "1234"}),
        (E2E + "nonewprivs:1.3", [escalating(muster, folder)], {"Cmd": ["nnp"]}),
        (E2E + "jessie-dnsutils:1.7", [base], {"Cmd": ["sh"]}),
        ("registry.k8s.io/pause:3.10", [agnhost], {"Entrypoint": ["/agnhost", "pause"]}),
    ]
    for name in ("nautilus", "kitten"):
        data = images.layer({"data.json": module_file(folder, f"test/images/{name}/html/data.json")})
        found.append((E2E + name + ":1.7", [both, data], {"Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"]}))
    for name in ("nginx:1.14-4", "nginx:1.15-4", "httpd:2.4.38-4", "httpd:2.4.39-4"):
        found.append((E2E + name, [web], {"Entrypoint": ["/webserver"]}))
    return found


def provide(muster, folder):
    """Imports all of them into the data folder of a muster."""
    for i, (name, contents, config) in enumerate(catalogue(muster, folder)):
        layout = images.oci_layout(os.path.join(muster.folder, f"image-{i}"), name, contents, Env=[PATH], **config)
        run([binary("muster"), "image", "import", layout, "--name", name, "--data-dir", muster.data], env=muster.env)
        shutil.rmtree(layout)
