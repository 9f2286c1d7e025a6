"""Several people on one machine: what bob tries against alice."""

import json
import os
import shutil
import subprocess
import tempfile

from harness import Muster, Skip, binary, check, need_kubectl, run, wait_for
from pods import container, pod

ALICE, BOB = 70001, 70002


class Person:
    """A person with a home folder and the kubeconfig that `muster user add` printed."""

    def __init__(self, m, top, name, uid, *flags):
        self.m, self.name, self.uid = m, name, uid
        self.home = os.path.join(top, name)
        if not os.path.isdir(self.home):
            os.mkdir(self.home, 0o755)
            os.chown(self.home, uid, uid)
        self.file = os.path.join(top, name + ".kubeconfig")
        self.add(*flags)

    def add(self, *flags):
        made = run([binary("muster"), "user", "add", self.name, "--uid", str(self.uid), "--home", self.home,
                    "--kubeconfig", self.m.kubeconfig, *flags])
        with open(self.file, "w") as f:
            f.write(made.stdout)

    def kubectl(self, *argv, input=None, ok=True):
        return run(["kubectl", "--kubeconfig", self.file, *argv], input=input, ok=ok)

    def open(self, *argv, until):
        """A command that goes on, once it has said what it is about."""
        made = subprocess.Popen(["kubectl", "--kubeconfig", self.file, *argv], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        line = made.stdout.readline()
        while line and until not in line:
            line = made.stdout.readline()
        check(line, f"{argv} said nothing of {until}")
        return made

    def create(self, made, ok=True):
        made["spec"].pop("nodeName", None)
        return self.kubectl("create", "-f", "-", input=json.dumps(made), ok=ok)

    def phase(self, name):
        found = json.loads(self.kubectl("get", "pod", name, "-o", "json").stdout)["status"]
        return found if found.get("phase") in ("Succeeded", "Failed") else None

    def run(self, name, command, **spec):
        more = spec.pop("container", {})
        self.create(pod(name, container(command, **more), **spec))
        found = wait_for(lambda: self.phase(name), f"{self.name}'s pod {name} to end", 60)
        return found, self.kubectl("logs", name, ok=False).stdout


def mount(path, at="/m", **more):
    return {"container": {"volumeMounts": [{"name": "v", "mountPath": at}]},
            "volumes": [{"name": "v", "hostPath": {"path": path, **more}}]}


def write(path, text, uid, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chown(path, uid, uid)
    os.chmod(path, mode)


class Two:
    """muster up on a bridge, alice and bob, and a folder for their homes."""

    def __init__(self, prefix=()):
        self.prefix = list(prefix)  # a command that runs muster

    def __enter__(self):
        if os.geteuid() != 0:
            raise Skip("people need root")
        self.top = tempfile.mkdtemp(prefix="muster-people-", dir="/tmp")
        os.chmod(self.top, 0o755)
        self.shared = os.path.join(self.top, "shared")
        os.mkdir(self.shared)
        self.m = Muster(flags=["--pod-network=bridge"])
        self.m.prefix = self.prefix
        self.m.__enter__()
        self.alice = Person(self.m, self.top, "alice", ALICE)
        self.bob = Person(self.m, self.top, "bob", BOB, "--queue", "default-queue", "--paths", self.shared)
        return self

    def __exit__(self, *how):
        self.m.__exit__(*how)
        shutil.rmtree(self.top, ignore_errors=True)


def test_people_run_as_themselves_and_see_their_own_home():
    with Two() as t:
        write(f"{t.alice.home}/data", "hers\n", ALICE, 0o600)
        found, out = t.alice.run("who", "id -u; id -g; echo $HOME; cat $HOME/data; echo x > $HOME/scratch && echo wrote")
        check(out.split() == [str(ALICE), str(ALICE), t.alice.home, "hers", "wrote"], f"{out} {found}")
        _, out = t.alice.run("token", "test -s /m/token && cat /m/token | wc -l && stat -c %u:%a /m/token",
                             container={"volumeMounts": [{"name": "v", "mountPath": "/m"}]}, volumes=[
                                 {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}])
        check(out.split() == ["0", f"{ALICE}:600"], f"her pod reads its token: {out}")
        check(not os.path.exists(f"{t.alice.home}/scratch"), "what is not a volume is written to a layer")
        _, out = t.alice.run("keeps", "cp /m/data /m/copy; cat /m/copy", **mount(t.alice.home))
        check(out == "hers\n" and os.stat(f"{t.alice.home}/copy").st_uid == ALICE, f"a mounted home is hers: {out}")
        _, out = t.bob.run("looks", f"cat {t.alice.home}/*; ls -A {t.top}/alice {t.top}; ls -A /root /home; id -u")
        check("hers" not in out and "data" not in out and str(BOB) in out, f"bob sees alice's home:\n{out}")
        label = json.loads(t.bob.kubectl("get", "pod", "looks", "-o", "json").stdout)["metadata"]["labels"]
        check(label.get("kai.scheduler/queue") == "default-queue", f"bob's queue is his: {label}")


def test_a_job_of_a_person_runs_no_longer_than_she_may():
    with Two() as t:
        user = [binary("muster"), "user", "set", "alice", "--kubeconfig", t.m.kubeconfig]
        said = run([*user, "--time", "never"], ok=False)
        check("--time: \"never\" is not a time such as 90m or 8h" in said.stderr, said.stderr)
        run([*user, "--time", "3s"])
        listed = json.loads(run([binary("muster"), "user", "list", "--kubeconfig", t.m.kubeconfig, "-o", "json"]).stdout)
        check([(p["name"], p["time"]) for p in listed] == [("alice", "3s"), ("bob", "")], f"{listed}")
        job = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "metadata": {"name": "long"},
               "spec": {"jobQueue": "default", "numNodes": 1, "command": "sleep 600", "maxRunTime": "1h"}}
        said = t.alice.kubectl("create", "-f", "-", input=json.dumps(job), ok=False)
        check("spec.maxRunTime 1h: the longest run of person alice is 3s" in said.stderr, said.stderr)
        del job["spec"]["maxRunTime"]
        t.alice.kubectl("create", "-f", "-", input=json.dumps(job))
        ended = wait_for(lambda: json.loads(t.alice.kubectl("get", "torchrunjob", "long", "-o", "json").stdout)["status"].get(
            "phase") == "TimedOut", "alice's job to end", 60)
        check(ended, "it ended")
        run([*user, "--time", ""])
        job["metadata"]["name"], job["spec"]["maxRunTime"] = "free", "1h"
        t.alice.kubectl("create", "-f", "-", input=json.dumps(job))


def test_people_do_not_get_what_is_not_theirs():
    need_kubectl(24)
    with Two() as t:
        # The page opens on what is hers; the owner's on everything.
        for file, words in ((t.alice.file, "/ui/enter?ns=alice#"), (t.m.kubeconfig, "/ui/enter#")):
            link = run([binary("muster"), "open", "--print", "--kubeconfig", file]).stdout
            check(words in link, f"the link is {link}")
        uid = {"securityContext": {"runAsUser": ALICE}}
        tries = {
            "foreign-uid": (container("id"), uid), "root": (container("id"), {"securityContext": {"runAsUser": 0}}),
            "in-container": (container("id", **uid), {}), "group": (container("id"), {"securityContext": {"fsGroup": 6}}),
            "network": (container("id"), {"hostNetwork": True}), "pids": (container("id"), {"hostPID": True}),
            "etc": (container("id"), {"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}),
            "home": (container("id"), {"volumes": [{"name": "v", "hostPath": {"path": t.alice.home}}]}),
            "dots": (container("id"), {"volumes": [{"name": "v", "hostPath": {"path": t.bob.home + "/../alice"}}]}),
            "privileged": (container("id", securityContext={"privileged": True}), {}),
            "port": (container("id", ports=[{"containerPort": 8080, "hostPort": 28080}]), {}),
            "below": (container("id", ports=[{"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"}]), {}),
            "caps": (container("id", securityContext={"capabilities": {"add": ["NET_RAW"]}}), {}),
        }
        for name, (box, spec) in tries.items():
            said = t.bob.create(pod(name, box, **spec), ok=False)
            check(said.returncode != 0 and "is forbidden" in said.stderr, f"{name}: {said.stdout} {said.stderr}")
        t.bob.add("--queue", "default-queue", "--paths", t.shared, "--ports", "28080-28081")
        t.bob.create(pod("given", container("id", ports=[{"containerPort": 8080, "hostPort": 28080}])))
        said = t.bob.create(pod("other", container("id", ports=[{"containerPort": 8080, "hostPort": 28082}])), ok=False)
        check("hostPort 28082: bob may have those that `muster user add --ports` named" in said.stderr, said.stderr)
        said = t.bob.kubectl("create", "-f", "-", input=json.dumps(pod("node", container("id"))), ok=False)
        check("placed by the scheduler" in said.stderr, f"a pod that chooses its node: {said.stderr}")
        said = t.bob.create(pod("queue", container("id"), labels={"kai.scheduler/queue": "other"}), ok=False)
        check("queue of bob is default-queue" in said.stderr, f"another queue: {said.stderr}")
        for words in (["get", "pods", "-n", "alice"], ["get", "secrets", "-A"], ["get", "namespace", "alice"],
                      ["annotate", "namespace", "bob", "torchrun.ai/person-uid=0", "--overwrite"],
                      ["create", "token", "bob", "-n", "muster-people"],
                      ["create", "token", "alice", "-n", "muster-people"]):
            said = t.bob.kubectl(*words, ok=False)
            check(said.returncode != 0 and "orbidden" in said.stderr, f"{words}: {said.stdout} {said.stderr}")


def test_links_and_shut_folders_are_no_way_to_what_is_not_theirs():
    with Two() as t:
        write(f"{t.alice.home}/data", "hers\n", ALICE)
        os.symlink(t.alice.home, f"{t.bob.home}/link")
        private = os.path.join(t.shared, "alice")
        os.makedirs(f"{private}/open")
        write(f"{private}/open/data", "hers\n", ALICE)
        os.chmod(private, 0o700)
        os.chown(private, ALICE, ALICE)
        swapped = os.path.join(t.top, "scratch", "bob")  # his in a folder of everybody: he puts a link there
        os.makedirs(os.path.dirname(swapped))
        os.chmod(os.path.dirname(swapped), 0o1777)
        os.symlink(f"{private}/open", swapped)
        os.lchown(swapped, BOB, BOB)
        t.bob.add("--queue", "default-queue", "--paths", f"{t.shared},{swapped}")
        for name, path in ("link", f"{t.bob.home}/link"), ("shut", f"{private}/open"), ("swapped", swapped):
            t.bob.create(pod(name, container("cat /m/data", **mount(path)["container"]), volumes=mount(path)["volumes"]))
        tries = ("link", "shut", "swapped")

        def refused():
            seen = [json.loads(t.bob.kubectl("get", "pod", name, "-o", "json").stdout) for name in tries]
            told = json.dumps(seen) + t.bob.kubectl("get", "events").stdout
            return all(words in told for words in ("create it first", "Permission denied", "a link on the way"))
        wait_for(refused, "the mounts to be refused", 60)
        for name in tries:
            check("hers" not in t.bob.kubectl("logs", name, ok=False).stdout, f"{name} shows alice's file")


def test_credentials_end_when_they_are_revoked():
    with Two() as t:
        check(t.alice.kubectl("auth", "can-i", "create", "torchrunjobs.torchrun.ai").stdout == "yes\n", "she may work")
        t.alice.create(pod("p", container("echo began; sleep 600"), terminationGracePeriodSeconds=0))
        wait_for(lambda: "began" in t.alice.kubectl("logs", "p", ok=False).stdout, "her pod to run", 60)
        streams = [t.alice.open(*words, until=until) for words, until in (
            (("get", "pods", "--watch"), "p "), (("logs", "-f", "p"), "began"),
            (("exec", "p", "--", "sh", "-c", "echo inside; sleep 600"), "inside"),
            (("port-forward", "p", ":8080"), "Forwarding"))]
        other = t.bob.open("get", "configmaps", "--watch", until="kube-root-ca")
        said = run([binary("muster"), "user", "revoke", "alice", "--kubeconfig", t.m.kubeconfig])
        check("revoked" in said.stdout and "what runs in namespace alice goes on" in said.stdout, said.stdout)
        for stream in streams:
            wait_for(lambda: stream.poll() is not None, f"{stream.args[3:]} to end with her credentials")
        check(other.poll() is None, "bob's goes on")
        other.terminate()
        for stream in (*streams, other):
            stream.communicate()
        wait_for(lambda: "nauthorized" in t.alice.kubectl("get", "pods", ok=False).stderr, "her token to be worth nothing")
        listed = json.loads(run([binary("muster"), "user", "list", "-o", "json", "--kubeconfig", t.m.kubeconfig]).stdout)
        states = {row["name"]: row["credentials"] for row in listed}
        check(states["alice"] == "revoked" and states["bob"].startswith("until "), f"{states}")
        t.alice.add("--valid", "1h")
        wait_for(lambda: t.alice.kubectl("get", "pods", ok=False).returncode == 0, "new credentials to be good")
        for flags, words in (["--uid", str(BOB)], "is bob's"), (["--uid", "5", "--valid", "2y"], "--valid"), ([], "--uid"):
            said = run([binary("muster"), "user", "add", "carol", "--kubeconfig", t.m.kubeconfig, *flags], ok=False)
            check(said.returncode != 0 and words in said.stderr, f"{flags}: {said.stderr}")
        run([binary("muster"), "user", "remove", "alice", "--yes", "--kubeconfig", t.m.kubeconfig])
        wait_for(lambda: not t.m.get("namespace", "alice", ok=False), "her namespace to go")


def test_who_has_the_name_of_somebody_before_has_nothing_of_hers():
    with Two() as t:
        _, out = t.alice.run("p", "echo hers")
        check(out == "hers\n", out)
        log = ("get", "--raw", "/api/v1/namespaces/alice/pods/p/log")
        t.alice.kubectl("delete", "pod", "p")
        wait_for(lambda: t.alice.kubectl(*log, ok=False).stdout == "hers\n", "the log of her pod to be kept")
        run([binary("muster"), "user", "remove", "alice", "--yes", "--kubeconfig", t.m.kubeconfig])
        wait_for(lambda: not t.m.get("namespace", "alice", ok=False), "her namespace to go")
        check(t.m.kubectl(*log).stdout == "hers\n", "the owner reads it while nobody has the name")
        for kept in os.scandir(f"{t.m.data}/logs"):  # a name of one second is one name
            os.utime(kept.path, (kept.stat().st_mtime - 5, kept.stat().st_mtime - 5))
        second = Person(t.m, t.top, "alice", ALICE + 100)
        second.run("q", "echo mine")
        said = second.kubectl(*log, ok=False)
        check("hers" not in said.stdout and "NotFound" in said.stderr, f"another alice reads: {said.stdout} {said.stderr}")


def test_what_a_pod_mounts_makes_nothing_on_the_machine_that_its_person_could_not():
    with Two() as t:
        private, locked = os.path.join(t.shared, "alice"), os.path.join(t.shared, "locked")
        for path, mode in (private, 0o700), (locked, 0o755):
            os.mkdir(path, mode)
        os.chown(private, ALICE, ALICE)
        os.mkdir(f"{t.bob.home}/own")
        os.chown(f"{t.bob.home}/own", BOB, BOB)
        volumes = [{"name": "v", "hostPath": {"path": t.shared}}, {"name": "h", "hostPath": {"path": t.bob.home}},
                   {"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "kube-root-ca.crt"}}]
        shared, empty = {"name": "v", "mountPath": "/m"}, {"name": "e"}
        tries = {"folder": {"volumeMounts": [shared, {**empty, "mountPath": "/m/locked/a/b"}]},
                 "shut": {"volumeMounts": [shared, {**empty, "mountPath": "/m/alice/a"}]},
                 "file": {"volumeMounts": [shared, {"name": "c", "mountPath": "/m/locked/f", "subPath": "ca.crt"}]},
                 "message": {"volumeMounts": [shared], "terminationMessagePath": "/m/locked/message"}}
        for name, more in tries.items():
            found, _ = t.bob.run(name, "true", container=more, volumes=volumes)
            why = found["containerStatuses"][0]["state"]["terminated"]
            check(why["exitCode"] == 128 and "Permission denied" in why["message"], f"{name}: {why}")
        check(not os.listdir(private) and not os.listdir(locked), f"made as root: {os.listdir(private)} {os.listdir(locked)}")
        more = {"volumeMounts": [{"name": "h", "mountPath": "/h"}, {**empty, "mountPath": "/h/own/a/b"},
                                 {**empty, "mountPath": "/opt/new/place"}]}
        _, out = t.bob.run("own", "touch /h/own/a/b/x /opt/new/place/x && echo done", container=more, volumes=volumes)
        check(out == "done\n" and os.stat(f"{t.bob.home}/own/a/b").st_uid == BOB, f"in his own he may: {out}")


def test_what_people_and_the_owner_run_is_shared_evenly():
    need_kubectl(24)
    with Muster(gpus_per_node=4) as m:
        def user(*words, ok=True):
            return run([binary("muster"), "user", *words, "--kubeconfig", m.kubeconfig], ok=ok)

        def queue(name):
            return json.loads(m.kubectl("get", "queues.scheduling.run.ai", name, "-o", "json").stdout)

        def ready(ns, name):
            phase = ["get", "torchrunqueue", "-n", ns, name, "-o", "jsonpath={.status.phase}"]
            return wait_for(lambda: m.kubectl(*phase).stdout == "Active", f"queue {name} of {ns} to take jobs")

        for who, uid, *flags in (("alice", ALICE, "--queue", "vision"), ("bob", BOB, "--queue", "speech"), ("carol", 70003)):
            user("add", who, "--uid", str(uid), "--home", "/nonexistent", *flags)
        # Who has no queue of her own shares one with the owner: it takes jobs beside those of the others.
        for ns, name in (("alice", "vision"), ("bob", "speech"), ("carol", "default")):
            ready(ns, name)
        # Nobody is guaranteed all there is, so whoever came first gives back what is above an equal part.
        for name in ("vision", "speech"):
            check(queue(name)["spec"]["resources"]["gpu"] == {"quota": 0, "limit": -1, "overQuotaWeight": 1}, f"{queue(name)}")
        for ns, name in (("alice", "vision"), ("bob", "speech")):
            sleeps = container("sleep 300", resources={"limits": {"nvidia.com/gpu": "1"}})
            pods = [pod(f"p{i}", sleeps, labels={"kai.scheduler/queue": name}) for i in range(4)]
            for made in pods:
                made["spec"].pop("nodeName", None)
                made["spec"]["schedulerName"] = "kai-scheduler"
                m.kubectl("create", "-n", ns, "-f", "-", input=json.dumps(made))
        wait_for(lambda: {queue(n)["status"]["fairShare"]["nvidia.com/gpu"] for n in ("vision", "speech")} == {"2"},
                 "both to have two: the second had them back")
        # What the administrator says of a queue stays.
        m.kubectl("patch", "queues.scheduling.run.ai", "vision", "--type", "merge", "-p",
                  '{"spec":{"resources":{"gpu":{"quota":3}}}}')
        user("add", "alice", "--uid", str(ALICE), "--home", "/nonexistent", "--queue", "vision")
        m.kubectl("patch", "torchrunqueue", "-n", "alice", "vision", "--type", "merge", "-p", '{"spec":{"maxRunTime":"8h"}}')
        ready("alice", "vision")
        check(queue("vision")["spec"]["resources"]["gpu"]["quota"] == 3, f"{queue('vision')}")
        # A queue that is above others takes no jobs.
        below = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "below"},
                 "spec": {"parentQueue": "lab", "resources": {}}}
        m.kubectl("create", "-f", "-", input=json.dumps(below))
        said = user("add", "dan", "--uid", "70004", "--home", "/nonexistent", "--queue", "lab", ok=False)
        check("queue lab takes no jobs, because queue below is below it" in said.stderr, said.stderr)
        # It goes with the last who had it.
        user("remove", "bob", "--yes")
        wait_for(lambda: "speech" not in m.kubectl("get", "queues.scheduling.run.ai").stdout, "the queue of nobody to go")
