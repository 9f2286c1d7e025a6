"""Two people and an administrator on one machine."""

import os

from days import journey
from journey import Skip, binary, check, run, wait_for


class Person:
    """Somebody with the kubeconfig that the administrator handed over, a home, and a folder of her own."""

    def __init__(self, day, name, uid, *flags):
        self.day, self.home = day, os.path.join(day.folder, name)
        os.mkdir(self.home, 0o755)
        os.chown(self.home, uid, uid)
        made = day.muster("user", "add", name, "--uid", str(uid), "--home", self.home, *flags, env=day.admin)
        self.said = made.stderr
        self.file = os.path.join(self.home, f"{name}.kubeconfig")
        with open(self.file, "w") as f:
            f.write(made.stdout)
        self.project = os.path.join(self.home, "code")
        os.mkdir(self.project, 0o755)
        os.chown(self.project, uid, uid)
        with open(os.path.join(self.project, "train.py"), "w") as f:
            f.write("import os\nprint('trained as', os.getuid(), flush=True)\nopen('model.pt', 'w').write('x')\n")

    def muster(self, *argv, ok=True):
        env = {"KUBECONFIG": self.file, "HOME": self.home, "MUSTER_DATA_DIR": os.path.join(self.home, "data")}
        return self.day.type(binary("muster"), *argv, env=env, cwd=self.project, ok=ok)


@journey()
def two_people_and_an_administrator(day):
    """The administrator adds two people with one command each; they train at once and see how full the machine is."""
    if os.geteuid() != 0:
        raise Skip("muster up for several people needs root")
    os.chmod(day.folder, 0o755)
    file = os.path.join(day.folder, "admin.kubeconfig")
    day.admin = {"KUBECONFIG": file}
    up = day.begin("up", "--listen", "127.0.0.1:0", "--gpus-per-node", "4", "--pod-network", "bridge", "--kubeconfig-out", file)
    try:
        wait_for(lambda: os.path.exists(file), "muster up", 60)
        up.until("muster is ready")
        alice = Person(day, "alice", 70011, "--queue", "vision")
        bob = Person(day, "bob", 70012, "--queue", "vision")
        check("queue vision was made" in alice.said and "password" in alice.said, alice.said)
        done = alice.muster("run", "train.py")
        check("trained as 70011" in done.stdout, done.all)
        check(os.path.exists(os.path.join(alice.project, "model.pt")), done.all)
        check("trained as 70012" in bob.muster("run", "train.py").stdout, "bob trains too")
        check("4" in bob.muster("gpu").stdout, "how full it is may be seen")
        check("4 GPUs" in bob.muster("top", "--once").stdout, "by top too")
        check("vision" in bob.muster("queues").stdout, "and queues")
        said = bob.muster("logs", "-n", "alice", "train", ok=False)
        check(said.returncode != 0 and "forbidden" in said.all, f"alice's logs are hers, at once: {said.all}")
        refused = day.muster("user", "remove", "bob", ok=False, env=day.admin)
        check(refused.returncode != 0 and "--yes" in refused.all, refused.all)
        day.muster("user", "remove", "bob", "--yes", env=day.admin)
        check("bob" not in day.muster("user", "list", env=day.admin).stdout, "bob is gone")
    finally:
        up.process.terminate()
        up.end(60)
