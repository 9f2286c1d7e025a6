"""What happens to a pod's containers: order, restarts, probes, hooks, the ways to end."""

import json
import os
import time

from harness import Muster, Skip, check, need_kubectl, wait_for
from pods import (apply, container, ended, events, logs, phase, pod, run_pod, status, wait_phase,
                  wait_ready)


def test_init_containers_run_in_turn_before_the_main_one():
    with Muster() as m:
        mounts = [{"name": "d", "mountPath": "/d"}]
        apply(m, pod("a", container("cat /d/log", volumeMounts=mounts),
                     initContainers=[container(f"echo {n} >> /d/log", name=n, volumeMounts=mounts)
                                     for n in ("one", "two")],
                     volumes=[{"name": "d", "emptyDir": {}}]))
        wait_phase(m, "a", "Succeeded")
        check(logs(m, "a") == "one\ntwo\n", logs(m, "a"))
        check(ended(m, "a", "one")["reason"] == "Completed", "the init container has a status")


def test_a_failed_init_container_fails_the_pod():
    with Muster() as m:
        apply(m, pod("a", container("echo never"), initContainers=[container("exit 4", name="i")]))
        wait_phase(m, "a", "Failed")
        check(ended(m, "a", "i")["exitCode"] == 4, "exit code of the init container")
        said = {c["type"]: c.get("message") for c in m.get("pod", "a")["status"]["conditions"]}
        check(said["Initialized"] == "containers with incomplete status: [i]", str(said))
        check("waiting" in status(m, "a")["state"], "the main container never ran")


def test_a_sidecar_runs_beside_the_main_container_and_ends_after_it():
    with Muster() as m:
        mounts = [{"name": "d", "mountPath": "/d"}]
        side = container("trap 'echo side >> /d/log; exit 0' TERM; touch /d/up; while :; do sleep 0.1; done",
                         name="side", restartPolicy="Always", volumeMounts=mounts,
                         startupProbe={"exec": {"command": ["test", "-e", "/d/up"]}, "periodSeconds": 1})
        apply(m, pod("a", container("test -e /d/up && echo main >> /d/log", volumeMounts=mounts),
                     initContainers=[side], volumes=[{"name": "d", "emptyDir": {}}]))
        wait_phase(m, "a", "Succeeded")
        check(ended(m, "a", "side") is not None, "the sidecar was ended")


def test_exit_codes_and_signals_are_reported():
    with Muster() as m:
        apply(m, pod("code", container("exit 3")),
              pod("seg", container(["python3", "-c", "import ctypes; ctypes.string_at(0)"])))
        for name in ("code", "seg"):
            wait_phase(m, name, "Failed", "Succeeded")
        check(ended(m, "code")["exitCode"] == 3, f"{ended(m, 'code')}")
        check(ended(m, "code")["reason"] == "Error", f"{ended(m, 'code')}")
        check(ended(m, "seg")["exitCode"] == 139, f"{ended(m, 'seg')}")
        check(ended(m, "seg")["signal"] == 11, f"{ended(m, 'seg')}")


def test_conditions_that_others_wrote_stay_when_the_pod_ends():
    need_kubectl(24)  # patch --subresource
    with Muster() as m:
        apply(m, pod("a", container("while ! test -e /tmp/end; do sleep 0.1; done")))
        wait_ready(m, "a")
        m.kubectl("patch", "pod", "a", "--subresource", "status", "-p", json.dumps({"status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}}))
        m.kubectl("exec", "a", "--", "touch", "/tmp/end")
        wait_phase(m, "a", "Succeeded")
        found = json.loads(m.kubectl("get", "pod", "a", "-o", "json").stdout)["status"]
        types = {c["type"]: c for c in found["conditions"]}
        check("DisruptionTarget" in types, f"the scheduler's word is lost: {types}")
        check(types["Ready"]["reason"] == "PodCompleted" and len(found["podIPs"]) == 1, f"{found}")


def test_a_command_that_is_not_there_says_so():
    with Muster() as m:
        apply(m, pod("a", container(["/no/such/program"])))
        wait_phase(m, "a", "Failed")
        check(ended(m, "a")["reason"] == "StartError", f"{ended(m, 'a')}")
        check("/no/such/program" in ended(m, "a")["message"], f"{ended(m, 'a')}")


def test_a_termination_message_is_read_back():
    with Muster() as m:
        run_pod(m, "a", "echo because > /dev/termination-log; exit 1", expect="Failed")
        check(ended(m, "a")["message"] == "because\n", f"{ended(m, 'a')}")
        run_pod(m, "b", "echo noise; echo last words; exit 1", expect="Failed",
                container={"terminationMessagePolicy": "FallbackToLogsOnError"})
        check("last words" in ended(m, "b")["message"], f"{ended(m, 'b')}")


def test_restarts_follow_the_policy_with_a_back_off():
    with Muster() as m:
        apply(m, pod("always", container("echo run; exit 0"), restart="Always"),
              pod("onfail", container("test -e /d/x && exit 0; touch /d/x; exit 1",
                                      volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                  restart="OnFailure", volumes=[{"name": "d", "emptyDir": {}}]))
        wait_phase(m, "onfail", "Succeeded")
        check(status(m, "onfail")["restartCount"] == 1, f"{status(m, 'onfail')}")
        wait_for(lambda: status(m, "always")["restartCount"] == 2, "two restarts")
        waiting = wait_for(lambda: status(m, "always")["state"].get("waiting"), "the back-off")
        check(waiting["reason"] == "CrashLoopBackOff", f"{waiting}")
        check(status(m, "always")["restartCount"] == 2, "what waits to be started again has not been")
        check(logs(m, "always", "--previous") == "run\n", "the log of the instance before")
        check("back-off" in waiting["message"], f"{waiting}")


def test_a_node_refuses_a_pod_whose_host_port_another_one_has():
    with Muster() as m:
        ports = [{"containerPort": 8080, "hostPort": 28080}]
        apply(m, pod("first", container("sleep 600", ports=ports)))
        wait_ready(m, "first")
        apply(m, pod("second", container("sleep 600", ports=ports)),
              pod("other", container("sleep 600", ports=[{"containerPort": 8080, "hostPort": 28080, "protocol": "UDP"}])))
        wait_phase(m, "second", "Failed")
        found = m.get("pod", "second")["status"]
        check(found["reason"] == "NodePorts" and "default/first has host port 28080" in found["message"], f"{found}")
        wait_ready(m, "other")
        m.kubectl("delete", "pod", "first", "second", "--grace-period=0", "--force")
        apply(m, pod("second", container("sleep 600", ports=ports)))
        wait_ready(m, "second")


def test_the_deadline_ends_a_pod():
    with Muster() as m:
        forever = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
        apply(m, pod("a", container(forever), activeDeadlineSeconds=1), pod("later", container(forever)))
        wait_phase(m, "a", "Failed")
        check(m.get("pod", "a")["status"]["reason"] == "DeadlineExceeded", "status.reason")
        wait_phase(m, "later", "Running")
        m.kubectl("patch", "pod", "later", "-p", '{"spec":{"activeDeadlineSeconds":1}}')
        wait_phase(m, "later", "Failed")


def test_deletion_is_graceful_and_then_not():
    with Muster() as m:
        mounts = [{"name": "d", "mountPath": "/d"}]
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"},
                 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
        apply(m, claim,
              pod("kind", container("trap 'echo bye > /d/kind; exit 0' TERM; echo up; while :; do sleep 0.1; done",
                                    volumeMounts=mounts), volumes=volumes, terminationGracePeriodSeconds=60),
              pod("stubborn", container("trap '' TERM; echo up; while :; do sleep 0.1; done"),
                  terminationGracePeriodSeconds=1),
              pod("hook", container("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done",
                                    volumeMounts=mounts,
                                    lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "echo pre > /d/pre"]}}}),
                  volumes=volumes, terminationGracePeriodSeconds=60))
        for name in ("kind", "stubborn", "hook"):
            wait_for(lambda n=name: logs(m, n) == "up\n", f"{name} to be up")
        start = time.monotonic()
        m.kubectl("delete", "pod", "kind", "hook")
        check(time.monotonic() - start < 30, "a pod that listens goes at once, not at the end of its grace period")
        m.kubectl("delete", "pod", "stubborn")
        check(run_pod(m, "look", "cat /d/kind /d/pre", volumes=volumes,
                      container={"volumeMounts": mounts}) == "bye\npre\n", "the last words of both")


def test_probes_decide_what_is_ready_and_what_lives():
    with Muster() as m:
        mounts = [{"name": "d", "mountPath": "/d"}]
        apply(m, pod("http", container(
                  ["python3", "-m", "http.server", "8123", "--bind", "0.0.0.0"],
                  ports=[{"name": "web", "containerPort": 8123}],
                  readinessProbe={"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1,
                                  "failureThreshold": 60})),
              pod("dies", container("touch /d/x; sleep 1; rm /d/x; while :; do sleep 0.1; done", volumeMounts=mounts,
                                    livenessProbe={"exec": {"command": ["test", "-e", "/d/x"]}, "periodSeconds": 1,
                                                   "failureThreshold": 2}),
                  restart="Always", terminationGracePeriodSeconds=0, volumes=[{"name": "d", "emptyDir": {}}]),
              pod("never", container("sleep 60", readinessProbe={"tcpSocket": {"port": 1}, "periodSeconds": 1}),
                  terminationGracePeriodSeconds=0))
        wait_ready(m, "http")
        wait_for(lambda: status(m, "dies")["restartCount"] > 0, "the liveness probe to bite")
        check(any(r == "Unhealthy" for r, _ in events(m, "dies")), f"{events(m, 'dies')}")
        check(not status(m, "never")["ready"] and phase(m, "never") == "Running", "runs, is not ready")


def test_a_post_start_hook_runs():
    with Muster() as m:
        hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo hooked > /proc/1/fd/1"]}}}
        apply(m, pod("a", container("echo up; sleep 60", lifecycle=hook), terminationGracePeriodSeconds=0))
        wait_for(lambda: "hooked" in logs(m, "a"), "the hook's output")


def test_images_without_a_command_pause_or_say_what_is_missing():
    with Muster() as m:
        apply(m, pod("quiet", container(None, image="registry.k8s.io/pause:3.9"), restart="Always"),
              pod("lost", container(None, image="example.org/service:1"), restart="Always"))
        wait_ready(m, "quiet")

        def waiting():
            found = status(m, "lost")
            return (found or {}).get("state", {}).get("waiting", {}).get("reason") == "CreateContainerError" and found
        found = wait_for(waiting, "the other to say what it lacks", 30)
        check("container main has no command" in found["state"]["waiting"]["message"], str(found))
        # It is asked again each second, and that is no restart.
        apply(m, pod("clock", container("sleep 3")))
        wait_phase(m, "clock", "Succeeded")
        check(waiting()["restartCount"] == 0, str(status(m, "lost")))
        m.kubectl("delete", "pod", "quiet", "lost")


def test_a_pod_that_never_starts_leaves_no_groups():
    base = "/sys/fs/cgroup/pids/muster"
    if not os.access("/sys/fs/cgroup/pids", os.W_OK):
        raise Skip("no control groups of version 1 here")
    with Muster() as m:
        missing = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "k"}}}]
        apply(m, pod("never", container("true", env=missing), activeDeadlineSeconds=2),
              pod("wrong", container(["/not/there"])))
        for name in "never", "wrong":
            wait_phase(m, name, "Failed")
            group = os.path.join(base, m.get("pod", name)["metadata"]["uid"])
            wait_for(lambda: not os.path.exists(group), f"the groups of {name} to go: {group}", 10)


def test_pods_weigh_as_much_as_they_ask_for():
    base = "/sys/fs/cgroup/cpu/muster"
    if not os.access("/sys/fs/cgroup/cpu", os.W_OK):
        raise Skip("no control groups of version 1 here")

    def shares(*path):
        with open(os.path.join(base, *path, "cpu.shares")) as f:
            return int(f.read())
    with Muster(flags=("--cpus-per-node", "8")) as m:
        apply(m, pod("two", container("sleep 1000", "a", resources={"requests": {"cpu": "1"}}),
                     container("sleep 1000", "b", resources={"requests": {"cpu": "500m"}})))
        wait_ready(m, "two")  # both of it, not only the first
        uid = m.get("pod", "two")["metadata"]["uid"]
        check((shares(uid), shares(uid, "a"), shares(uid, "b")) == (1536, 1024, 512), f"{shares(uid)}")
        check(shares() == 1024 * len(os.sched_getaffinity(0)) or shares() == 1024 * os.cpu_count(), f"all: {shares()}")
        m.kubectl("delete", "pod", "two", "--grace-period=1")
