"""A process of a pod that watches for commands which join it: it looks into them, stops them, and leads them elsewhere."""

import json
import os
import tempfile

from harness import Muster, Skip, binary, check, need_kubectl, run, wait_for
from pods import apply, container, ended, logs, pod, shims, wait_phase, wait_ready
from test_agent_rootless import Rootless
from test_people import ALICE, Two, mount, write

# Whatever is open in a process that it did not start, other than streams; and files of the machine by way of it.
SPY = """
import os, sys
seen, me = set(), str(os.getpid())
print("up", flush=True)
while True:
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid in ("1", me):
            continue
        try:
            seen.add(pid)
            for way in ["cwd", "root"] + ["fd/" + n for n in os.listdir(f"/proc/{pid}/fd")]:
                for up in "../../token", "../../../token", "../../../../../../../../../../../../" + sys.argv[1]:
                    try:
                        with open(f"/proc/{pid}/{way}/{up}") as f:
                            print("reached", way, up, f.read()[:8], flush=True)
                    except OSError:
                        pass
                link = os.readlink(f"/proc/{pid}/{way}")
                if "/pods/" in link or "shim" in link:
                    print("reached", way, link, flush=True)
        except OSError:
            pass
    if os.path.exists("/tmp/tell"):
        print("watched", len(seen), flush=True)
        os.unlink("/tmp/tell")
"""
LONG_PATH = ":".join(["/n"] * 20000) + ":/usr/local/bin:/usr/bin:/bin"
EXECS = 8


def watch_execs(m, **more):
    """Commands, a hook and a probe join a container whose processes watch: what they reach."""
    spy = container(["/usr/bin/python3", "-c", SPY, m.data.lstrip("/") + "/token"], env=[{"name": "PATH", "value": LONG_PATH}],
                    lifecycle={"postStart": {"exec": {"command": ["true"]}}},
                    readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}, **more)
    apply(m, pod("spy", spy, terminationGracePeriodSeconds=0))
    wait_for(lambda: "up" in logs(m, "spy"), "the spy")
    wait_ready(m, "spy")
    for _ in range(EXECS):
        m.kubectl("exec", "spy", "--", "true")
    m.kubectl("exec", "spy", "--", "touch", "/tmp/tell")
    wait_for(lambda: "watched" in logs(m, "spy"), "what the spy saw")
    said = logs(m, "spy")
    check("reached" not in said, f"a process of the pod reached what is the shim's:\n{said}")
    check(int(said.split()[-1]) > EXECS // 2, f"the spy saw the commands come: {said}")


def test_commands_that_join_a_container_bring_nothing_along():
    with Muster() as m:
        watch_execs(m)
        owned = shims(m)
        check(owned and all(os.stat(f"/proc/{pid}/environ").st_uid == 0 for pid in owned.values()), f"{owned}")


def test_commands_bring_nothing_along_without_root():
    with Rootless() as m:
        watch_execs(m, securityContext={"capabilities": {"drop": ["ALL"]}})


def test_a_working_directory_leads_to_nothing_that_the_shim_has_open():
    with Muster() as m:
        doors = [container("ls; cat ../../token", name=f"d{n}", workingDir=f"/proc/self/fd/{n}") for n in range(3, 24)]
        apply(m, pod("doors", *doors))
        wait_phase(m, "doors", "Failed", "Succeeded")
        for door in doors:
            end = ended(m, "doors", door["name"])
            check(end["exitCode"] == 128 and "working directory" in end["message"], f"{door['workingDir']}: {end}")


def test_who_stops_the_commands_that_join_it_stops_nothing_else():
    """The shim waits for none of them: it goes on to read what the pod says, and ends it when it is told to."""
    freeze = ("import os, signal\nme = os.getpid()\nprint('up', flush=True)\nwhile True:\n  for pid in os.listdir('/proc'):\n"
              "    if pid.isdigit() and int(pid) not in (1, me):\n      os.kill(int(pid), signal.SIGSTOP)\n"
              "      print('stopped', flush=True)")
    with Muster() as m:
        apply(m, pod("a", container(["/usr/bin/python3", "-c", freeze], env=[{"name": "PATH", "value": LONG_PATH}]),
                     container("while :; do echo tick; sleep 0.1; done", name="beside"), terminationGracePeriodSeconds=1))
        wait_for(lambda: "up" in logs(m, "a", "-c", "main"), "the pod")
        held = run(["timeout", "3", "kubectl", "exec", "a", "-c", "main", "--", "true"], env=m.env, ok=False)
        check(held.returncode == 124, f"the command is held: {held}")
        before = len(logs(m, "a", "-c", "beside"))
        wait_for(lambda: len(logs(m, "a", "-c", "beside")) > before + 5, "what the other container says now")
        m.kubectl("delete", "pod", "a", limit=30)


def test_a_folder_that_a_person_may_not_enter_is_no_working_directory():
    with Two() as t:
        private = os.path.join(t.shared, "alice")
        os.makedirs(f"{private}/open")
        write(f"{private}/open/data", "hers\n", ALICE)
        os.chmod(private, 0o700)
        os.chown(private, ALICE, ALICE)
        for name, folder in ("enters", "/m/alice/open"), ("makes", "/m/alice/new"):
            found, out = t.bob.run(name, "cat data; pwd", container={"workingDir": folder, **mount(t.shared)["container"]},
                                   volumes=mount(t.shared)["volumes"])
            check("hers" not in out and "working directory" in json.dumps(found), f"{out} {found}")
        check(os.listdir(private) == ["open"], f"made in alice's folder: {os.listdir(private)}")
        _, out = t.bob.run("own", "pwd", container={"workingDir": "/some/where"})
        check(out == "/some/where\n", f"what is missing in the pod's own file system is made: {out}")


def test_what_is_merged_while_a_pod_runs_is_not_seen_there_and_can_be_taken_back():
    need_kubectl(24)
    if os.geteuid() != 0:
        raise Skip("another /etc/passwd needs root")
    m = Muster()
    home, passwd = os.path.join(m.folder, "home"), os.path.join(m.folder, "passwd")
    os.mkdir(home)
    with open(passwd, "w") as f:
        f.write(f"root:x:0:0:root:{home}:/bin/sh\n")
    m.prefix = ["unshare", "-m", "sh", "-c", f'mount --bind {passwd} /etc/passwd && exec "$@"', "sh"]
    with m:
        apply(m, pod("a", container(["sleep", "300"]), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        os.link(m.kubeconfig, f"{m.data}/kubeconfig")  # where it is unless --kubeconfig-out says otherwise

        def muster(*words):
            return run([binary("muster"), "kubeconfig", "--data-dir", m.data, *words], env={**m.env, "HOME": home})
        merged = muster("--merge").stdout.strip()
        check(merged == f"{home}/.kube/config" and os.path.getsize(merged), merged)
        look = m.kubectl("exec", "a", "--", "sh", "-c", f"cat {merged}; ls -A {home}; mkdir {home}/.kube && echo own")
        check(look.stdout == "own\n", f"the pod sees {look.stdout}")
        with open(merged) as f, open(f"{m.data}/token") as token:
            check(token.read().strip() not in f.read(), "the owner's token")

        def ask(*words):
            return run(["kubectl", "--kubeconfig", merged, *words], ok=False)
        wait_for(lambda: ask("auth", "can-i", "*", "*").stdout == "yes\n", "the owner's rights")
        m.kubectl("create", "serviceaccount", "editor")
        m.kubectl("create", "clusterrolebinding", "editor", "--clusterrole=edit", "--serviceaccount=default:editor")
        said = m.kubectl("create", "token", "muster-owner", "-n", "kube-system", "--as",
                         "system:serviceaccount:default:editor", ok=False)
        check(said.returncode != 0 and "is the owner's" in said.stderr, f"{said}")
        check("worth nothing" in muster("--revoke").stdout, "what revoke says")
        wait_for(lambda: "must be logged in" in ask("get", "nodes").stderr, "the token to be worth nothing")
        m.kubectl("get", "nodes")


def test_an_owner_that_a_pod_names_is_no_path():
    with Muster() as m, tempfile.TemporaryDirectory(prefix="muster-victim-", dir="/tmp") as top:
        os.chmod(top, 0o755)
        victim = os.path.join(top, "v")
        os.mkdir(victim)
        write(f"{victim}/kept", "the machine's\n", 0)
        up = "/.." * len([part for part in os.path.realpath(m.data).split("/") if part] + ["results", "name"])
        owner = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunJob", "name": "j", "uid": up + victim, "controller": True}
        check(len(owner["uid"]) < 64, f"{owner}: what is longer is not looked at")
        for _ in range(2):
            apply(m, pod("p", container("echo mine > /app/file; echo wrote; sleep 600", name="trainer", volumeMounts=[
                {"name": "app", "mountPath": "/app"}]), labels={"torchrun.ai/role": "worker", "torchrun.ai/generation": "0"},
                volumes=[{"name": "app", "emptyDir": {}}], terminationGracePeriodSeconds=0))
            wait_for(lambda: "wrote" in logs(m, "p"), "the pod to write")
            m.kubectl("patch", "pod", "p", "--type=merge", "-p", json.dumps({"metadata": {"ownerReferences": [owner]}}))
            m.kubectl("delete", "pod", "p", "--ignore-not-found")
            wait_for(lambda: not os.listdir(f"{m.data}/pods"), "what the pod left to be put away")
        check(os.listdir(top) == ["v"] and os.listdir(victim) == ["kept"], f"{os.listdir(top)} {os.listdir(victim)}")
