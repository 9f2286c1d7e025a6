"""A machine that permits no namespaces: pods are plain processes, and what cannot be is said, not tried for ever."""

import os
import shutil
import subprocess

from harness import EXAMPLES, Muster, Skip, binary, check, run, wait_for
from pods import apply, container, events, pod, run_pod, wait_phase

# A user namespace that may have no others in it, as the default profiles of container engines have it.
LIMITED = ["unshare", "--user", "--map-root-user", "sh", "-c",
           "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"",
           "sh"]


class Plain(Muster):
    def __init__(self, **more):
        super().__init__(**more)
        if not shutil.which("unshare") or subprocess.run([*LIMITED, "true"], stderr=subprocess.DEVNULL).returncode:
            raise Skip("user namespaces cannot be limited here")
        self.prefix = LIMITED


def test_without_namespaces_pods_are_plain_processes():
    with Plain() as m:
        node = wait_for(lambda: m.get("node", "node-0"), "the node")
        found = {c["type"]: c for c in node["status"]["conditions"]}["PodsIsolated"]
        check(found["status"] == "False" and "plain processes" in found["message"], str(found))
        out = run_pod(m, "a", "echo $GREETING; exit 0", container={"env": [{"name": "GREETING", "value": "hello"}]})
        check(out == "hello\n", out)
        apply(m, pod("slow", container("echo begun; sleep 1000"), terminationGracePeriodSeconds=0))
        wait_phase(m, "slow", "Running")
        check(m.kubectl("exec", "slow", "--", "echo", "inside").stdout == "inside\n", "exec")
        m.kubectl("delete", "pod", "slow")
        said = run([*LIMITED, binary("muster"), "doctor", "--data-dir", m.data], env=m.env, ok=False).stdout
        check("none: pods run as plain processes" in said and "user.max_user_namespaces" in said, said)


def test_without_namespaces_what_needs_a_volume_fails_with_the_reason():
    with Plain(gpus_per_node=1) as m:
        apply(m, pod("a", container("true", volumeMounts=[{"name": "v", "mountPath": "/data"}]), restart="Always",
                     volumes=[{"name": "v", "emptyDir": {}}]))
        wait_phase(m, "a", "Failed")
        status = m.get("pod", "a")["status"]
        check(status["reason"] == "NotPermitted" and "container main wants a volume at /data" in status["message"] and
              "muster doctor" in status["message"], str(status))
        check(any(reason == "NotPermitted" for reason, _ in events(m, "a")), str(events(m, "a")))
        # Submitting says so at once.
        m.kubectl("apply", "-f", os.path.join(EXAMPLES, "queue.yaml"))
        queue = m.get("torchrunqueues")[0]["metadata"]["name"]
        folder = os.path.join(m.folder, "code")
        os.mkdir(folder)
        said = m.torchrun("submit", "--queue", queue, "--gpus", "1", "true", cwd=folder, ok=False)
        check(said.returncode != 0 and "no node can give the job its workspace" in said.stderr, said.stdout + said.stderr)
        check(m.get("torchrunjobs") == [], "and nothing is left behind")
