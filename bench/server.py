#!/usr/bin/env python3
"""The API server: what bench-server measures, then `muster up` as a whole (memory and processor time, idle and
with 13,000 pods), then kube-apiserver and etcd under the same load where KUBEBUILDER_ASSETS names their folder.

The clients run on the same cores as the server they load, and take their part of them.
"""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "e2e"))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "kubernetes"))
from harness import BUILD, Muster, run, wait_for  # noqa: E402
from controlplane import ControlPlane  # noqa: E402

LOADER = os.path.join(BUILD, "bench", "bench-server")
IDLE_S = 10
SETTLED_S = 6
IDLE_MB, IDLE_SHARE, FULL_MB = 20, 0.1, 120
TOKEN = "bench-token"


def memory_mb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        user, system = f.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def idle_share(pid):
    """Percent of one core over IDLE_S seconds in which nobody asks anything."""
    before = cpu_s(pid)
    time.sleep(IDLE_S)
    return (cpu_s(pid) - before) / IDLE_S * 100


def settle(pid):
    """Wait until the scheduler and the controllers have nothing left to do with what is there. One still second is no
    sign of it: a pod whose group was not made is told so after three."""
    last, still = [cpu_s(pid)], [0]

    def quiet():
        time.sleep(1)
        now = cpu_s(pid)
        still[0], last[0] = still[0] + 1 if now - last[0] < 0.02 else 0, now
        return still[0] >= SETTLED_S
    wait_for(quiet, "muster to have nothing to do", 300)


def say(name, what, value, unit, most):
    print(f"{name:<16} {what:<22} {value:8.2f} {unit} (most {most})", flush=True)


def measure_up():
    with Muster() as m:
        pid = m.process.pid
        settle(pid)
        say("muster up", "memory, idle", memory_mb(pid), "MB", IDLE_MB)
        say("muster up", "of a core, idle", idle_share(pid), "%", IDLE_SHARE)
        with open(os.path.join(m.data, "token")) as f:
            token = f.read().strip()
        print(run([LOADER, "fill", "muster up", m.listen.split(":")[1], token, str(pid)]).stdout, end="")
        settle(pid)
        count = int(m.kubectl("get", "--raw", "/api/v1/pods?limit=1").stdout.split('"remainingItemCount":')[1]
                    .split("}")[0].split(",")[0]) + 1
        say("muster up", f"memory, {count} pods", memory_mb(pid), "MB", FULL_MB)
        say("muster up", "of a core, idle", idle_share(pid), "%", IDLE_SHARE)
        m.kill()  # deleting them all is no part of this


def measure_kubernetes():
    """etcd with its fsync: the promise is the same as ours."""
    os.environ["PATH"] = os.environ["KUBEBUILDER_ASSETS"] + ":" + os.environ["PATH"]
    plane = ControlPlane(controllers=False, etcd_flags=["--unsafe-no-fsync=false"])
    tokens = os.path.join(plane.folder, "tokens.csv")
    with open(tokens, "w") as f:
        f.write(f"{TOKEN},bench,bench,system:masters\n")
    plane.apiserver_flags = [f"--token-auth-file={tokens}", "--disable-admission-plugins=ServiceAccount"]
    with plane:
        pids = [str(plane.apiserver.process.pid), str(plane.etcd.process.pid)]
        print(run([LOADER, "at", "kube-apiserver", str(plane.port), TOKEN, *pids], limit=400).stdout, end="")


def main():
    with open("/proc/loadavg") as f:
        load = f.read().split()[0]
    print(f"server: {os.cpu_count()} cores for server and clients together; load average before: {load}", flush=True)
    run_out = run([LOADER], limit=300)
    print(run_out.stdout, end="", flush=True)
    measure_up()
    if os.environ.get("KUBEBUILDER_ASSETS"):
        measure_kubernetes()
    else:
        print("kube-apiserver   not measured: KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver")


if __name__ == "__main__":
    main()
