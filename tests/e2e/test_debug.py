"""kubectl debug: containers that are added to a pod that runs."""

import json
import subprocess

from harness import Muster, check, need_kubectl, wait_for
from pods import apply, container, logs, pod, wait_phase


def ephemeral(m, name, which):
    statuses = m.get("pod", name)["status"].get("ephemeralContainerStatuses", [])
    return next((s["state"] for s in statuses if s["name"] == which), {})


def test_kubectl_debug_adds_a_container_to_a_pod_that_runs():
    need_kubectl(24)
    with Muster() as m:
        apply(m, pod("a", container("echo 1 > /only-main; exec sleep 31234"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        m.kubectl("debug", "a", "--image=busybox", "-c", "look", "--", "sh", "-c",
                  "hostname; test -e /only-main || echo own files; grep -c sleep /proc/1/cmdline; exit 3")
        wait_for(lambda: "terminated" in ephemeral(m, "a", "look"), "the container has ended")
        check(ephemeral(m, "a", "look")["terminated"]["exitCode"] == 3, f"{ephemeral(m, 'a', 'look')}")
        check(logs(m, "a", "-c", "look").startswith("a\nown files\n"), logs(m, "a", "-c", "look"))
        check(m.get("pod", "a")["status"]["phase"] == "Running", "the pod runs on")
        m.kubectl("debug", "a", "--image=busybox", "-c", "near", "--target=main", "--", "sh", "-c",
                  "tr '\\0' ' ' < /proc/1/cmdline; echo; sleep 300")
        wait_for(lambda: "sleep 31234" in logs(m, "a", "-c", "near"), "it sees the target's processes")
        check(m.kubectl("exec", "a", "-c", "near", "--", "echo", "in").stdout == "in\n", "exec")
        command = "kubectl debug -it a --image=busybox -c tty -- sh -c 'read x; test -t 0 && echo is-a-tty; echo got $x'"
        done = subprocess.run(["script", "-qec", command, "/dev/null"], env=m.env, text=True, timeout=60,
                              input="word\n", capture_output=True)
        check("is-a-tty" in done.stdout and "got word" in done.stdout, done.stdout + done.stderr)
        m.kill()
        m.start()
        wait_for(lambda: "running" in ephemeral(m, "a", "near"), "it is found again after a restart")
        check(ephemeral(m, "a", "look")["terminated"]["exitCode"] == 3, "and how the other ended is known")
        m.kubectl("delete", "pod", "a", "--wait=true")


def test_kubectl_debug_copies_a_pod():
    with Muster() as m:
        apply(m, pod("a", container("exec sleep 300"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        m.kubectl("debug", "a", "--copy-to=b", "--image=busybox", "-c", "extra", "--", "sh", "-c",
                  "echo here; exec sleep 300")
        wait_phase(m, "b", "Running")
        wait_for(lambda: logs(m, "b", "-c", "extra") == "here\n", "the added container runs in the copy")
        refused = m.kubectl("auth", "can-i", "patch", "pods/ephemeralcontainers",
                            "--as=system:serviceaccount:default:default", ok=False)
        check(refused.stdout.startswith("no"), f"{refused}")
        verbs = [r["verbs"] for r in json.loads(m.kubectl("get", "--raw", "/api/v1").stdout)["resources"]
                 if r["name"] == "pods/ephemeralcontainers"]
        check(verbs == [["get", "patch", "update"]], f"{verbs}")
