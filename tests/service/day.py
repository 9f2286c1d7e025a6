#!/usr/bin/env python3
"""day.py [--inside]: a day of the packaged service on one machine: an older package is installed and started as its unit says,
three people get an account and a queue, jobs run, kill -9, a newer package over it, a full disk, a reboot with ip_forward 0, the
report of the month, which adds up to the pods' own times, a backup, a revocation, the loss of the machine, a restore on another
one, and purge. Nothing may be lost that was not named.

The machines are layers over this one's file system in namespaces of their own (tests/package.py), with a file system of their own
for /var/lib/muster. The first process of each is systemd, which knows of nothing else there; where it does not start, or with
SERVICE_SUPERVISOR=own, a supervisor that reads the unit takes its place: ExecStart, settings, limits, Restart=, and the skipped
line says so. SERVICE_OLDER=FILE is the package to begin with; unless told it is the one of dist/ under an older version. Needs
root, and make deb."""

import csv
import datetime
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [TESTS, os.path.join(TESTS, "e2e")]

import package  # noqa: E402
from harness import Failure, Muster, Skip, check, run, wait_for  # noqa: E402
from test_disk import SmallDisk  # noqa: E402
from test_people import Person  # noqa: E402

PEOPLE = {"alice": 70001, "bob": 70002, "carol": 70003}
SETTINGS = """MUSTER_GPUS_PER_NODE=4
MUSTER_CPUS_PER_NODE=16
MUSTER_MEMORY_PER_NODE=32Gi
"""
OLDER = "0.1.0+1.g00000001"
STEPS = []


def step(text):
    STEPS.append(text)
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", flush=True)


def forward(word):
    with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
        f.write(word + "\n")


class Supervisor:
    """Starts what the unit says, and again when it failed, as Restart=on-failure does."""

    def __init__(self, machine, log):
        self.machine, self.log, self.process = machine, log, None
        self.over = threading.Event()

    def start(self):
        with open(self.machine.path(package.UNIT)) as f:
            self.unit = package.Unit(f.read())
        check(self.unit.all("Restart") == ["on-failure"] and self.unit.all("KillMode") == ["process"], "the unit is another one")
        self.over.clear()
        self.spawn()
        threading.Thread(target=self.watch, args=(self.process,), daemon=True).start()

    def spawn(self):
        with open(self.log, "a") as log:
            self.process = self.unit.start(self.machine, log)

    def watch(self, process):
        while process.wait() and not self.over.wait(float(self.unit.all("RestartSec")[0])):
            self.spawn()
            process = self.process

    def stop(self):
        self.over.set()
        self.process.terminate()
        self.process.wait()

    def kill(self):
        killed = self.process
        killed.kill()
        wait_for(lambda: self.process is not killed, "the supervisor to start it again", 30)

    def upgraded(self):
        self.stop()
        self.start()

    def power_off(self):
        self.over.set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            if int(name) not in (1, os.getpid()):
                try:
                    os.kill(int(name), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()
        shutil.rmtree(self.machine.path("run/muster"), ignore_errors=True)

    def over_with(self):
        pass


class Systemd:
    """The machine's first process, with namespaces and a control group of its own. Commands of the machine see what it sees."""

    # What it would start besides the service is this machine's, and writes to its kernel.
    EMPTY = [f"{name}.target" for name in ("sysinit", "basic", "multi-user", "network", "local-fs", "shutdown")]
    GROUPS = "/sys/fs/cgroup"

    def __init__(self, machine, log):
        self.machine, self.log, self.process = machine, log, None
        self.group = f"muster-day-{os.path.basename(os.path.dirname(machine.root))}"
        units = machine.path("etc/systemd/system")
        machine.inside("rm", "-rf", *[f"/{folder}/systemd/system/{name}{end}" for folder in ("etc", "usr/lib")
                                      for name in self.EMPTY for end in ("", ".wants", ".requires")])
        for name in self.EMPTY:
            with open(os.path.join(units, name), "w") as f:
                f.write("[Unit]\nDefaultDependencies=no\n")
        os.makedirs(os.path.join(units, "muster.service.d"), exist_ok=True)
        with open(os.path.join(units, "muster.service.d", "log.conf"), "w") as f:  # there is no journal
            f.write("[Service]\nStandardOutput=append:/var/log/muster.log\nStandardError=inherit\n")
        self.boot()  # which leaves what every machine has, a machine-id among it
        self.power_off()

    def boot(self):
        machine, root = self.machine, self.machine.root
        # Of each hierarchy; where it is not taken (a cpuset without processors) it stays where this one is.
        script = (f"for g in {self.GROUPS}/*/; do "
                  f"mkdir -p ${{g}}{self.group} && echo 0 > ${{g}}{self.group}/cgroup.procs; done 2> /dev/null; "
                  f"mount -t proc proc {root}/proc && mount -t tmpfs tmpfs {root}/run && "
                  f"exec chroot {root} env -i container=day PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin "
                  "/lib/systemd/systemd --unit=multi-user.target --show-status=no --log-target=console")
        with open(self.log + ".systemd", "a") as log:
            spaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
            self.process = subprocess.Popen([*spaces, "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"

        def is_up():
            check(self.process.poll() is None, "systemd ended")
            with open(children) as f:
                first = f.read().strip()
            if not first:
                return False
            machine.enter = ["nsenter", "-t", first, "--mount", "--pid", "--uts", "--ipc", "--root", "--wd"]
            return subprocess.run(machine.argv("systemctl", "list-units"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode == 0
        try:
            wait_for(is_up, "systemd to be there", 60)
        except BaseException:
            self.power_off()
            raise

    def main(self):
        return self.machine.inside("systemctl", "show", "muster", "-p", "MainPID", "--value").strip()

    def start(self):
        if not self.process:
            self.boot()
        self.machine.inside("systemctl", "enable", "--now", "muster")

    def stop(self):
        self.machine.inside("systemctl", "stop", "muster")

    def kill(self):
        killed = self.main()
        self.machine.inside("systemctl", "kill", "--kill-who=main", "--signal=KILL", "muster")
        wait_for(lambda: self.main() not in ("0", killed), "systemd to start it again", 30)

    def upgraded(self):
        """The package has had it restarted."""

    def power_off(self):
        if self.machine.enter and self.process.poll() is None:
            os.kill(int(self.machine.enter[2]), signal.SIGKILL)  # and all that is in its namespace
        else:
            self.process.kill()
        self.process.wait()
        self.process, self.machine.enter = None, None

    def over_with(self):
        for folder, _, _ in os.walk(self.GROUPS, topdown=False):
            if f"/{self.group}" in folder:
                try:
                    os.rmdir(folder)
                except OSError:
                    pass

    @staticmethod
    def starts(folder):
        """Whether it can be had here."""
        if os.environ.get("SERVICE_SUPERVISOR") == "own" or not os.path.exists("/lib/systemd/systemd"):
            return False
        os.mkdir(folder)
        try:
            Systemd(package.Scratch(folder), os.path.join(folder, "log")).over_with()
        except (AssertionError, OSError) as e:
            print(f"systemd does not start here: {e}")
            return False
        return True


class Service(Muster):
    """The installed package on a machine of its own."""

    supervised_by = Supervisor

    def __init__(self, folder, deb):
        super().__init__()
        os.mkdir(folder)
        self.machine = package.Scratch(folder)
        self.data = self.machine.path("var/lib/muster")
        self.kubeconfig = os.path.join(self.data, "kubeconfig")
        self.env["KUBECONFIG"] = self.kubeconfig
        self.supervisor = self.supervised_by(self.machine, self.log)
        if self.supervised_by is Systemd:
            self.log = self.machine.path("var/log/muster.log")
        self.before = set(self.machine.changed())
        self.install(deb)
        shutil.rmtree(self.data, ignore_errors=True)  # of a service of this machine itself
        self.disk = SmallDisk(self, "size=256m")
        os.chmod(self.data, 0o755)  # StateDirectoryMode=

    def install(self, deb):
        shutil.copy(deb, self.machine.path("tmp/muster.deb"))
        self.machine.inside("dpkg", "-i", "/tmp/muster.deb")
        with open(self.machine.path("etc/default/muster")) as f:
            if SETTINGS in f.read():
                return
        with open(self.machine.path("etc/default/muster"), "a") as f:
            f.write(SETTINGS)

    def version(self):
        return self.machine.inside("dpkg-query", "-W", "-f", "${Version}", "muster")

    def muster(self, *argv):
        return self.machine.inside("env", "KUBECONFIG=/var/lib/muster/kubeconfig", "muster", *argv)

    def start(self):
        self.supervisor.start()
        self.ready()

    def ready(self):
        wait_for(lambda: os.path.exists(self.kubeconfig) and self.rest.ask("GET", "/readyz")[0] == 200,
                 "the service to be ready", 60)

    def kill(self):
        """kill -9; the supervisor starts it again."""
        self.supervisor.kill()
        self.ready()

    def power_off(self):
        """Nothing that the machine ran goes on, and what was in memory is gone."""
        self.supervisor.power_off()

    def stop(self):
        self.power_off()
        self.supervisor.over_with()
        self.found_nothing()


class Worker(Person):
    """A person with an account of the machine."""

    def __init__(self, m, name, uid):
        m.machine.inside("useradd", "--create-home", "--uid", str(uid), name)
        self.m, self.name, self.uid = m, name, uid
        self.file = m.machine.path(f"home/{name}/kubeconfig")

    def add(self, *flags):
        said = self.m.muster("user", "add", self.name, "--out", f"/home/{self.name}/kubeconfig", *flags)
        mode = os.stat(self.file)
        check((mode.st_uid, mode.st_mode & 0o777) == (self.uid, 0o600), f"{self.file} is not {self.name}'s alone: {said}")


def job(name, seconds, gpus=1):
    return {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": name},
            "spec": {"jobQueue": "default", "numGPUs": gpus, "nprocPerNode": 1,
                     "command": f"sleep {seconds}; echo {name} is done"}}


def status(person, name):
    return json.loads(person.kubectl("get", "torchrunjob", name, "-o", "json").stdout).get("status", {})


def submit(person, name, seconds):
    person.kubectl("create", "-f", "-", input=json.dumps(job(name, seconds)))


def becomes(person, phase, *names):
    for name in names:
        def is_so():
            now = status(person, name)
            check(phase == "Failed" or now.get("phase") != "Failed", f"{person.name}'s {name} failed: {now}")
            return now.get("phase") == phase
        wait_for(is_so, f"{person.name}'s {name} to be {phase}", 180)


def pod_seconds(people):
    """GPU seconds of every worker of a job, by when its container began and ended."""
    def at(text):
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    total = {}
    for person in people:
        for pod in json.loads(person.kubectl("get", "pods", "-l", "torchrun.ai/job-name", "-o", "json").stdout)["items"]:
            for container in pod["spec"]["containers"]:
                gpus = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
                for one in pod["status"].get("containerStatuses", []):
                    over = one["state"].get("terminated")
                    if gpus and over and one["name"] == container["name"]:
                        total[person.name] = total.get(person.name, 0) + gpus * (at(over["finishedAt"]) - at(over["startedAt"]))
    return total


def month(m):
    """The report of the month, a row a user."""
    out = m.muster("report", "--by", "user", "--since", "30d", "-o", "csv")
    print(out, end="", flush=True)
    return {row["user"]: row for row in csv.DictReader(io.StringIO(out))}


def morning(m, people, newer):
    alice, bob, _ = people
    step("the package is installed; three people have an account, a queue and a kubeconfig that is theirs alone")
    for person in people:
        person.add()
        submit(person, "first", 3)
    submit(alice, "long", 60)
    becomes(alice, "Running", "long")
    step("kill -9 while jobs run: it is started again, and they go on")
    m.kill()
    for person in people:
        becomes(person, "Succeeded", "first")
    m.muster("support", "/tmp/support.txt")
    with open(m.machine.path("tmp/support.txt")) as f:
        text = f.read()
    check("it runs, and is ready" in text and "MUSTER_GPUS_PER_NODE=4" in text, f"what a maintainer needs: {text[:2000]}")
    step("another build's package is installed over it, under a running job, which goes on")
    old = m.version()
    began = status(alice, "long")
    m.install(newer)
    m.supervisor.upgraded()
    m.ready()
    check(m.version() != old, f"{old} and {m.version()}")
    build = json.loads(m.kubectl("get", "--raw", "/version").stdout)["gitVersion"]
    print(f"{old} -> {m.version()}, which says it is {build}", flush=True)
    becomes(alice, "Succeeded", "long")
    check(status(alice, "long").get("restarts", 0) == began.get("restarts", 0), f"{status(alice, 'long')}")
    step("the disk is full: what is there is served, deletes are taken, writes come back with room")
    m.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: default}\n")
    m.disk.fill()
    check(m.get("configmap", "kept", ns="default"), "what is there is served")
    m.disk.free()
    wait_for(lambda: m.rest.ask("GET", "/readyz")[0] == 200, "it to be ready", 60)
    submit(bob, "second", 2)
    becomes(bob, "Succeeded", "second")


def noon(m, people):
    carol = people[2]
    step("reboot with ip_forward 0: what ran ends, is named and runs again; nobody's job fails for it")
    submit(carol, "second", 20)
    becomes(carol, "Running", "second")
    m.power_off()
    forward("0")
    m.start()
    submit(carol, "third", 2)
    wait_for(lambda: status(carol, "third").get("phase"), "carol's job to be known", 60)
    check(status(carol, "third")["phase"] != "Failed", "a job does not fail for the machine's settings")
    forward("1")
    becomes(carol, "Succeeded", "second", "third")
    step("the month's report adds up to the pods' own times")
    own, told = pod_seconds(people), month(m)
    print(json.dumps({"pods": own}), flush=True)
    check(set(told) >= set(PEOPLE), f"everybody has a row: {sorted(told)}")
    for name in PEOPLE:
        # A container is a little longer there than its ranks: it is made, and its end is seen.
        apart = own[name] - float(told[name]["held_gpu_seconds"])
        print(f"{name}: {own[name]:.0f} s by the pods, {told[name]['held_gpu_seconds']} by the report", flush=True)
        check(abs(apart) <= 2 * int(told[name]["jobs"]), f"{name}: {own[name]} by the pods, {told[name]}")


def evening(m, people):
    """The folder of the backup, on this machine's file system, as another machine's would be."""
    _, bob, _ = people
    step("a backup; then bob is revoked")
    m.muster("backup", "/home/backup", "--data-dir", "/var/lib/muster")
    m.muster("user", "revoke", "bob")
    check(bob.kubectl("get", "pods", ok=False).returncode != 0, "bob's credentials are worth nothing")
    return m.machine.path("home/backup")


def night(m, people, backup):
    """On another machine, from the backup."""
    alice, bob, carol = people
    shutil.copytree(backup, m.machine.path("home/backup"))
    said = m.muster("restore", "/home/backup", "--data-dir", "/var/lib/muster")
    print(said, end="", flush=True)
    check(all(f"credentials of {name} are good until" in said for name in PEOPLE), f"who is back is named: {said}")
    m.start()
    for person, names in ((alice, ("first", "long")), (bob, ("first", "second")), (carol, ("first", "second", "third"))):
        for name in names:
            check(status(person, name).get("phase") == "Succeeded", f"{person.name}'s {name} is known: {status(person, name)}")
    check(m.get("configmap", "kept", ns="default"), "and what the owner made")
    check(set(month(m)) >= set(PEOPLE), "and what everybody used")
    submit(alice, "after", 2)
    becomes(alice, "Succeeded", "after")
    m.muster("user", "revoke", "bob")
    check(bob.kubectl("get", "pods", ok=False).returncode != 0, "bob is revoked again")
    step("purge: the package goes, the data stays, with the account that has it")
    m.supervisor.stop()
    m.machine.inside("dpkg", "-P", "muster")
    left = [f for f in set(m.machine.changed()) - m.before if not package.BOOKKEEPING.match(f)]
    left = [f for f in left if not f.startswith(("var/lib/muster/", "home/"))]
    check(not left, f"purging leaves {left[:5]}")
    check(os.path.exists(os.path.join(m.data, "store.db")), "the data is there")
    check("muster:" in m.machine.inside("getent", "passwd"), "its account is there")


def older_than(deb, folder):
    """The same package under an older version."""
    tree, made = os.path.join(folder, "tree"), os.path.join(folder, "older.deb")
    run(["dpkg-deb", "-R", deb, tree])
    path = os.path.join(tree, "DEBIAN", "control")
    with open(path) as f:
        lines = [f"Version: {OLDER}\n" if line.startswith("Version:") else line for line in f]
    with open(path, "w") as f:
        f.writelines(lines)
    run(["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, made])
    shutil.rmtree(tree)
    return made


def inside(deb):
    run(["ip", "link", "set", "lo", "up"])
    forward("1")
    top = "/mnt"
    run(["mount", "-t", "tmpfs", "tmpfs", top])  # what is on a layer already cannot carry another one everywhere
    try:
        if Systemd.starts(os.path.join(top, "probe")):
            Service.supervised_by = Systemd
        m = Service(os.path.join(top, "one"), os.environ.get("SERVICE_OLDER") or older_than(deb, top))
    except AssertionError as e:
        raise Skip(f"no layer over / can be made here: {e}")
    with m:
        people = [Worker(m, name, uid) for name, uid in PEOPLE.items()]
        morning(m, people, deb)
        noon(m, people)
        backup = evening(m, people)
    step("the machine is lost; the backup is restored on another")
    other = Service(os.path.join(top, "two"), deb)
    for person in people:
        kept = person.file
        other.machine.inside("useradd", "--create-home", "--uid", str(person.uid), person.name)
        person.m, person.file = other, other.machine.path(f"home/{person.name}/kubeconfig")
        shutil.copy(kept, person.file)
    try:
        night(other, people, backup)
    except BaseException:
        other.dump()
        raise
    finally:
        other.stop()
    step("done: nothing was lost that was not named")
    skipped = Service.supervised_by is Supervisor
    if skipped:
        print("skipped: systemd itself, which cannot run here; its place is taken by a supervisor that reads the unit")
    print(f"{len(STEPS)} passed, 0 failed, {int(skipped)} skipped")


def main():
    found = sorted(glob.glob(os.path.join(package.ROOT, "dist", f"muster_*_{package.ARCH}.deb")), key=os.path.getmtime)
    if os.geteuid() != 0 or not shutil.which("dpkg-deb") or not found:
        raise Skip("needs root, dpkg and a package in dist/ (make deb)")
    if "--inside" not in sys.argv:
        sys.exit(subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", sys.executable,
                                 os.path.abspath(__file__), "--inside"]).returncode)
    inside(found[-1])


if __name__ == "__main__":
    try:
        main()
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(77)
    except Failure as why:
        print(f"failed: {STEPS[-1] if STEPS else 'the start'}\n{why}\n{max(len(STEPS) - 1, 0)} passed, 1 failed")
        sys.exit(1)
