"""muster dies and comes back; its pods do not notice."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess

from harness import Muster, Skip, check, wait_for
from pods import apply, container, ended, logs, phase, pod, run_pod, shims, status, wait_phase

COUNT = 20
TICK = ("import sys, time, os\nn = 0\nwhile not os.path.exists('/d/stop'):\n  print('tick', n, flush=True)\n"
        "  n += 1\n  time.sleep(0.05)\nsys.exit(7)")


def test_twenty_pods_survive_kill_9_of_muster():
    with Muster() as m:
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"},
                 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        apply(m, claim, *[pod(f"p{i}", container(["python3", "-c", TICK],
                                                 volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                              volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}])
                          for i in range(COUNT)])
        names = [f"p{i}" for i in range(COUNT)]
        wait_for(lambda: all("tick 3\n" in logs(m, n) for n in names), "all pods to tick", 60)
        before = shims(m)
        m.kill()
        m.start()
        wait_for(lambda: len(m.get("pods")) == COUNT and
                 all(p["status"]["phase"] == "Running" for p in m.get("pods")), "all pods to be running")
        check(shims(m) == before, "the same processes keep the pods")
        check(all(status(m, n)["restartCount"] == 0 for n in names), "nothing was restarted")
        # One ends while muster is away, the rest after it is back.
        m.kill()
        open(next(os.path.join(f, "stop") for f, _, _ in os.walk(os.path.join(m.data, "volumes"))
                  if f.endswith(tuple(os.listdir(os.path.join(m.data, "volumes"))))), "w").close()
        wait_for(lambda: sum(os.path.exists(os.path.join(m.data, "pods", uid, "c/main/0.exit")) for uid in before)
                 == COUNT, "the pods to end")
        m.start()
        for n in names:
            wait_phase(m, n, "Failed")
            check(ended(m, n)["exitCode"] == 7, f"{ended(m, n)}")
            ticks = [int(line.split()[1]) for line in logs(m, n).splitlines()]
            check(ticks == list(range(len(ticks))), f"the log of {n} has a hole: {ticks}")


def test_a_lost_pod_is_told_so_and_restarted_where_the_policy_says():
    with Muster() as m:
        apply(m, pod("never", container("sleep 300")), pod("always", container("sleep 300"), restart="Always"))
        wait_phase(m, "never", "Running")
        wait_phase(m, "always", "Running")
        m.kill()
        for pid in shims(m).values():
            os.kill(pid, signal.SIGKILL)
        m.start()
        wait_phase(m, "never", "Failed")
        check(ended(m, "never")["reason"] == "ContainerStatusUnknown", f"{ended(m, 'never')}")
        wait_for(lambda: status(m, "always")["restartCount"] == 1 and phase(m, "always") == "Running",
                 "the other pod to be restarted")


def test_what_nobody_owns_is_cleaned_up():
    with Muster() as m:
        apply(m, pod("a", container("sleep 300")), pod("b", container("sleep 300")))
        wait_phase(m, "a", "Running")
        wait_phase(m, "b", "Running")
        found = shims(m)
        gone = m.get("pod", "a")["metadata"]["uid"]
        m.kubectl("delete", "pod", "a", "--force", "--grace-period=0", "--wait=false")
        wait_for(lambda: not os.path.exists(os.path.join(m.data, "pods", gone)), "its folder to go")
        wait_for(lambda: not os.path.exists(f"/proc/{found[gone]}"), "its shim to go")
        m.kill()
        # A folder whose pod no longer exists, as a crash between two steps would leave it.
        orphan = os.path.join(m.data, "pods", "00000000-dead-beef-0000-000000000000")
        os.makedirs(os.path.join(orphan, "c", "main"))
        m.start()
        wait_for(lambda: not os.path.exists(orphan), "the orphan's folder to go")
        check(run_pod(m, "c", "echo fine") == "fine\n", "and life goes on")


@contextlib.contextmanager
def small_disk(m, size):
    """The data folder of `m`, not started yet, on a file system of its own."""
    os.mkdir(m.data)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "muster-test", m.data]).returncode:
        raise Skip("mounting a small file system takes root")
    try:
        yield
    except Exception:
        m.dump()
        raise
    finally:
        try:
            m.stop()
        finally:
            subprocess.run(["umount", "-l", m.data], check=True)


def fill(path):
    """A file that takes all the room there is."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return f.read().split()


def test_an_exit_status_survives_a_full_disk():
    m = Muster()
    try:
        with small_disk(m, "32m"):
            m.start()
            gate = os.path.join(m.folder, "gate")
            os.mkdir(gate)
            os.chmod(gate, 0o777)
            def waits(name, code):
                return pod(name, container(f"echo ran >> /gate/{name}; while ! test -e /gate/open; do sleep 0.05; done; "
                                           f"exit {code}", volumeMounts=[{"name": "g", "mountPath": "/gate"}]),
                           volumes=[{"name": "g", "hostPath": {"path": gate}}])
            apply(m, waits("good", 0), waits("bad", 7))
            wait_phase(m, "good", "Running")
            wait_phase(m, "bad", "Running")
            found = shims(m)
            m.kill()  # so that nobody makes room behind our back
            fill(os.path.join(m.data, "fill"))
            open(os.path.join(gate, "open"), "w").close()
            wait_for(lambda: not any(children(pid) for pid in found.values()), "both containers to end")
            check(not [uid for uid in found if os.path.exists(os.path.join(m.data, "pods", uid, "c/main/0.exit"))],
                  "the disk is full: nothing could be written down")
            os.unlink(os.path.join(m.data, "fill"))
            m.start()
            for name, wanted in (("good", ("Succeeded", 0)), ("bad", ("Failed", 7))):
                seen = wait_phase(m, name, "Succeeded", "Failed"), ended(m, name)["exitCode"]
                check(seen == wanted, f"{name}: {seen}, not {wanted}: {ended(m, name)}")
                with open(os.path.join(gate, name)) as f:
                    check(f.read() == "ran\n" and status(m, name)["restartCount"] == 0, f"{name} ran once")
            wait_for(lambda: not shims(m), "the shims to go when all is written down")
    finally:
        m.__exit__(None, None, None)


def test_a_shim_that_is_still_coming_is_waited_for():
    """As if muster was killed between asking for a shim and the shim making its socket. The test is that shim: it holds
    the lock, and makes the socket late."""
    with Muster() as m:
        apply(m, pod("slow", container("sleep 300")), pod("other", container("sleep 300")))
        wait_phase(m, "slow", "Running")
        wait_phase(m, "other", "Running")
        uid = m.get("pod", "slow")["metadata"]["uid"]
        folder = os.path.join(m.data, "pods", uid)
        m.kill()
        os.kill(shims(m)[uid], signal.SIGKILL)
        wait_for(lambda: uid not in shims(m), "its shim to be gone")
        os.unlink(os.path.join(folder, "shim.sock"))
        with open(os.path.join(folder, "shim.lock"), "w") as lock, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            wait_for(lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB) is None, "the lock")
            m.start()
            check(run_pod(m, "next", "echo fine") == "fine\n", "others do not wait for it")
            check(phase(m, "slow") == "Running" and uid not in shims(m),
                  f"neither given up nor started again: {status(m, 'slow')}")
            here = os.getcwd()
            os.chdir(folder)
            s.bind("shim.sock")
            os.chdir(here)
            s.listen(1)
            s.settimeout(60)
            agent, _ = s.accept()
            with agent:
                agent.settimeout(60)
                check(agent.recv(4096) == b"state", "it is asked how things are")
                for line in (b"hello 4", b"running main 0 1 1700000000000", b"synced"):
                    agent.send(line)
                wait_for(lambda: status(m, "slow")["state"].get("running", {}).get("startedAt") == "2023-11-14T22:13:20Z",
                         "its answer to be told")
                check(uid not in shims(m), "no second shim was started")
                # Its link breaks; while the lock is held it is only late.
            again, _ = s.accept()
            with again:
                again.settimeout(60)
                check(again.recv(4096) == b"state", "it is asked again")
                check(phase(m, "slow") == "Running", "a broken link is no end")
            os.unlink(os.path.join(folder, "shim.sock"))
        wait_phase(m, "slow", "Failed")
        check(ended(m, "slow")["reason"] == "ContainerStatusUnknown", f"{ended(m, 'slow')}")


def test_a_pod_whose_files_were_not_made_yet_gets_them_from_the_next_muster():
    """As if muster was killed between asking for a shim and making the files that the pod's containers need."""
    with Muster() as m:
        waits = container("cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; ls -d /scratch",
                          env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}],
                          volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}])
        apply(m, pod("early", waits, volumes=[{"name": "scratch", "emptyDir": {}}]))
        uid = m.get("pod", "early")["metadata"]["uid"]
        wait_for(lambda: uid in shims(m), "its shim")
        folder = os.path.join(m.data, "pods", uid)
        wait_for(lambda: os.path.exists(os.path.join(folder, "hostname")), "its files")
        m.kill()
        for name in ("hostname", "hosts"):
            os.unlink(os.path.join(folder, name))
        for name in ("volumes", "c"):
            shutil.rmtree(os.path.join(folder, name))
        m.start()
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"a": "1"}})
        wait_phase(m, "early", "Succeeded")
        check(logs(m, "early") == "default/scratch\n", logs(m, "early"))
