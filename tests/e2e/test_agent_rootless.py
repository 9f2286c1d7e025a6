"""The core of it without root: as an ordinary user, in user namespaces."""

import os
import shutil

from harness import Muster, Skip, binary, check, wait_for
from pods import apply, container, ended, logs, pod, run_pod, wait_phase
from test_agent_hostpath import check_hidden

USER = 65534


class Rootless(Muster):
    def __init__(self, **more):
        super().__init__(**more)
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                raise Skip("setpriv is not installed")
            os.chown(self.folder, USER, USER)
            self.prefix = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
            probe = os.spawnvp(os.P_WAIT, "setpriv", [*self.prefix, "test", "-x", binary("muster-shim")])
            if probe != 0:
                raise Skip("the build folder is not readable by other users")


def test_pods_run_isolated_without_root():
    with Rootless() as m:
        out = run_pod(m, "a", "id -u; cat /proc/1/cmdline | tr '\\0' ' '; mkdir -p /app/x && echo made; hostname; "
                              f"ls {m.data} 2>&1 | grep -c .; touch /etc/x 2>&1 | grep -o denied; ls /.muster")
        lines = out.split("\n")
        check(lines[0] == str(os.geteuid() or USER), f"the invoking user: {out}")
        check(lines[1].startswith("sh -c"), f"a pid namespace of its own: {out}")
        check("made" in out and "\na\n" in out and "muster-launch" in out, out)
        out = run_pod(m, "sys", "awk '$5 ~ \"^/sys\" {print $5, $6}' /proc/self/mountinfo")
        check(out and all(line.split()[1].startswith("ro") for line in out.splitlines()), f"can be written to:\n{out}")


def test_who_asks_for_memory_is_told_where_nothing_holds_a_job_to_it():
    with Rootless(gpus_per_node=1) as m:
        m.apply("apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\nmetadata: {name: q}\n"
                "spec: {nodeResources: {gpus: 1}}\n")
        enforced = wait_for(lambda: {c["type"]: c for c in m.get("nodes")[0]["status"]["conditions"]}["LimitsEnforced"],
                            "what the node says of its limits")
        if enforced["status"] == "True":
            raise Skip("an ordinary user has control groups here")
        ask = ["submit", "--queue", "q", "--gpus", "1", "--no-workspace", "--dry-run"]
        said = m.torchrun(*ask, "--memory", "64Mi", "true").stderr
        check(f"nothing stops a job that takes more ({enforced['message']})" in said, said)
        check("takes more" not in m.torchrun(*ask, "true").stderr, "nobody asked")


def test_volumes_names_logs_and_exec_without_root():
    with Rootless() as m:
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}},
              pod("a", container("cat /c/k; echo x > /d/x; cat /d/x /etc/hosts; trap 'exit 3' TERM; "
                                 "while :; do sleep 0.1; done",
                                 volumeMounts=[{"name": "c", "mountPath": "/c"}, {"name": "d", "mountPath": "/d"},
                                               {"name": "m", "mountPath": "/m"}]),
                  volumes=[{"name": "c", "configMap": {"name": "c"}}, {"name": "d", "emptyDir": {}},
                           {"name": "m", "emptyDir": {"medium": "Memory"}}]))
        wait_for(lambda: "localhost" in logs(m, "a"), "the pod's output")
        check(logs(m, "a").startswith("vx\n"), logs(m, "a"))
        done = m.kubectl("exec", "a", "--", "sh", "-c", "cat /d/x; exit 4", ok=False)
        check(done.returncode == 4 and done.stdout == "x\n", f"{done}")
        m.kubectl("delete", "pod", "a")


def test_kill_9_without_root():
    with Rootless() as m:
        apply(m, pod("a", container("while ! test -e /d/stop; do echo tick; sleep 0.1; done; exit 5",
                                    volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                     volumes=[{"name": "d", "emptyDir": {}}]))
        wait_for(lambda: "tick" in logs(m, "a"), "a tick")
        m.kill()
        m.start()
        m.kubectl("exec", "a", "--", "touch", "/d/stop")
        wait_phase(m, "a", "Failed")
        check(ended(m, "a")["exitCode"] == 5, f"{ended(m, 'a')}")


def test_the_data_folder_is_hidden_without_root():
    with Rootless() as m:
        check_hidden(m)
