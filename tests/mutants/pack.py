#!/usr/bin/env python3
"""pack.py [FILE]: everything that `make mutants` needs, for a machine that has no compiler of ours and no network.

FILE (build-mutants/root.tar.xz unless told) is the tree, build/, the compiler, its headers and libraries, a Python and a shell,
each at the place it has here. tests/mutants/inside.sh unpacks it there and runs a command in it. The headers are those that
build/ was made with (ninja knows them), the libraries those that its programs are linked with; nothing else is taken.
"""

import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import tempfile

import rules
import run

ROOT, BUILD = run.ROOT, run.BUILD
# Of these Debian packages, what can be run: box.sh, the suites' scripts and the tests' own children use them.
PACKAGES = ["coreutils", "bash", "dash", "grep", "sed", "mawk", "findutils", "diffutils", "util-linux", "mount", "procps", "tar",
            "libc-bin", "hostname"]
PYTHON = "/usr/bin/python3"  # the distribution's: what a user put before it in PATH may be a script
COMMANDS = [PYTHON, "ip", "cc", "as", "ld", "ld.bfd", "ld.gold", "ninja", "awk", "env", "which"]
FILES = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/protocols",
         "/etc/services", "/lib64/ld-linux-x86-64.so.2"]
# Programs that the runs link themselves, and those of other suites.
PROGRAM_BYTES_MAX = 1 << 20
TAKEN_PROGRAMS = {"muster-shim", "muster-launch", "kubectl-torchrun"}


def said(*command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout


class Pack:
    """A set of paths; a link brings what it points to."""

    def __init__(self):
        self.paths = {}

    def add(self, path):
        folder, name = os.path.split(os.path.normpath(path))
        here = os.path.join(os.path.realpath(folder), name)
        if here in self.paths or not os.path.lexists(here):
            return
        self.paths[here] = None
        if os.path.islink(here):
            self.add(os.path.join(os.path.dirname(here), os.readlink(here)))

    def add_program(self, path):
        self.add(path)
        for library in re.findall(r"(/\S+\.so\S*)", said("ldd", path)):
            self.add(library)

    def add_folder(self, folder, leave=lambda path: False):
        for where, folders, names in os.walk(os.path.realpath(folder)):
            folders[:] = [f for f in folders if not leave(os.path.join(where, f))]
            for name in names:
                if not leave(os.path.join(where, name)):
                    self.add(os.path.join(where, name))


def is_other_program(path):
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size < PROGRAM_BYTES_MAX or not status.st_mode & 0o111:
        return False
    return os.path.basename(path) not in TAKEN_PROGRAMS


def take_system(pack):
    for package in PACKAGES:
        for path in said("dpkg", "-L", package).split():
            if re.match(r"(/usr)?/s?bin/", path) and os.path.isfile(path):
                pack.add_program(path)
    for name in COMMANDS:
        path = said("which", name).strip()
        if path:
            pack.add_program(path)
    for path in FILES:
        pack.add(path)
    for name in ("cc1", "collect2", "lto-wrapper", "liblto_plugin.so"):
        pack.add_program(said("cc", f"-print-prog-name={name}").strip())
    inner = os.path.dirname(said("cc", "-print-libgcc-file-name").strip())
    wanted = re.compile(r"(\.h|crt\w+\.o|libgcc\w*\.(a|so)|lib(a|ub)san\w*\.(o|so)|liblto_plugin\.so)$")
    pack.add_folder(inner, lambda p: os.path.isfile(p) and not wanted.search(p))
    for path in said("dpkg", "-L", "libc6-dev").split():
        if re.search(r"\.(o|so|a)$", path) and os.path.isfile(path) and os.path.getsize(path) < PROGRAM_BYTES_MAX:
            pack.add(path)
    # The rest of what libc.so and libm.so, which are scripts, name.
    for path in ["libc.so.6", "libm.so.6", "libmvec.so.1", "libgcc_s.so.1", "libnss_files.so.2", "libdl.so.2", "libpthread.so.0"]:
        pack.add(said("cc", f"-print-file-name={path}").strip())
    library = said(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").strip()
    for library_of_it in re.findall(r"(/\S+\.so\S*)", said("sh", "-c", f"ldd {library}/lib-dynload/*.so")):
        pack.add(library_of_it)
    pack.add_folder(library, lambda p: re.search(r"/(test|tests|idlelib|site-packages|dist-packages|tkinter|lib2to3|__pycache__"
                                                 r"|config-\S+|ensurepip|turtledemo|pydoc_data)$", p))


def take_build(pack, link):
    for path in re.findall(r"^    (\S+)$", said("ninja", "-t", "deps", cwd=BUILD), re.M):
        pack.add(os.path.join(BUILD, path))
    for program, command in link.items():
        for path in re.findall(r"(/\S+\.(?:so|a))\b", command):
            pack.add(path)
        pack.add_program(os.path.join(BUILD, program))
    pack.add_folder(BUILD, lambda p: os.path.isfile(p) and is_other_program(p))
    for program in {os.path.join(BUILD, program) for program in link}:
        pack.paths.pop(program, None)


def without_debug(path, scratch):
    """What a debugger reads is two thirds of an object file, and no run here is debugged."""
    if not path.startswith(BUILD) or not path.endswith(".o"):
        return path
    out = os.path.join(scratch, "object.o")
    subprocess.run(["objcopy", "--strip-debug", "--preserve-dates", path, out], check=True)
    return out


def main():
    out = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(run.SCRATCH, "root.tar.xz"))
    os.makedirs(run.SCRATCH, exist_ok=True)
    pack = Pack()
    take_system(pack)
    take_build(pack, run.Judge().link)
    for name in said("git", "ls-files", "-co", "--exclude-standard").split():
        pack.add(os.path.join(ROOT, name))
    with open(os.path.join(run.SCRATCH, "listed.json"), "w") as f:
        json.dump(rules.listed(), f)
    for name in ("listed.json", "results.json", "limits.json"):
        pack.add(os.path.join(run.SCRATCH, name))
    with (tempfile.TemporaryDirectory() as scratch, open(out, "wb") as file,
          subprocess.Popen(["xz", "-T0", "-6"], stdin=subprocess.PIPE, stdout=file) as xz):
        with tarfile.open(fileobj=xz.stdin, mode="w|") as tar:
            for link in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
                if os.path.islink("/" + link):
                    tar.add("/" + link, arcname=link, recursive=False)
            for path in sorted(pack.paths):
                tar.add(without_debug(path, scratch), arcname=path.lstrip("/"), recursive=False)
            tree = tarfile.TarInfo("tree")  # inside.sh goes there
            tree.size = len(ROOT)
            tar.addfile(tree, io.BytesIO(ROOT.encode()))
            for folder in ("proc", "dev", "sys", "run", "mnt", "tmp", "root", "var/tmp"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder.endswith("tmp") else 0o755
                tar.addfile(entry)
        xz.stdin.close()
    if xz.returncode:
        sys.exit("pack: xz failed")
    print(f"{out}: {os.path.getsize(out) >> 20} MB, {len(pack.paths)} files")


if __name__ == "__main__":
    main()
