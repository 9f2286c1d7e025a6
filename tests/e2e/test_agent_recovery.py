"""muster dies and comes back; its pods do not notice."""

import os
import signal

from harness import Muster, check, wait_for
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
