"""What a pod can see, use and do to others."""

import ctypes
import os

from harness import Muster, Skip, check, wait_for
from pods import apply, container, ended, logs, phase, pod, run_pod, status, wait_phase


def test_a_pod_cannot_write_outside_its_volumes():
    with Muster() as m:
        marker = f"/etc/muster-test-{os.getpid()}"
        out = run_pod(m, "a", f"touch {marker} && echo written; mkdir -p /app/sub && echo made")
        check("made" in out, "mount points and folders can be made")
        check(not os.path.exists(marker), "the host's file system is untouched")


def test_data_folder_tokens_and_kubeconfig_are_hidden():
    with Muster() as m:
        out = run_pod(m, "a", f"cat {m.kubeconfig}; ls -A {m.data}; cat {m.data}/token; ls {m.data}/pods; true")
        lines = [line for line in out.splitlines() if ": " not in line]
        check(not lines, f"seen inside the pod:\n{out}")


def test_a_privileged_pod_changes_nothing_of_what_is_hidden_from_others():
    """It may mount, so the empty folder that it sees must not be the one that others see."""
    with Muster(flags=["--allow-privileged"]) as m:
        look = f"stat -c 'mode %a' {m.data}; ls -A {m.data} /.muster/nothing; true"
        run_pod(m, "mounts", f"mount -o remount,rw {m.data}; chmod 755 {m.data}; echo hers > {m.data}/evil; true",
                container={"securityContext": {"privileged": True}})
        out = run_pod(m, "plain", look)
        check("mode 0" in out.splitlines() and "evil" not in out, f"a privileged pod left this for others:\n{out}")


def test_pods_do_not_see_each_others_processes():
    with Muster() as m:
        apply(m, pod("a", container(["sh", "-c", "sleep 300", "secret-name"]),
                     terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        out = run_pod(m, "b", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; kill -9 -1; echo alive")
        check("secret-name" not in out and "muster" not in out, out)
        check(phase(m, "a") == "Running", "the other pod goes on")


def test_memory_limits_are_kept_and_told_as_oomkilled():
    with Muster() as m:
        hog = "import sys; x = bytearray(300 << 20); print(len(x))"
        apply(m, pod("hog", container(["python3", "-c", hog], resources={"limits": {"memory": "64Mi"}})),
              pod("calm", container(["python3", "-c", "print(1)"], resources={"limits": {"memory": "64Mi"}})))
        wait_phase(m, "hog", "Failed")
        check(ended(m, "hog")["reason"] == "OOMKilled" and ended(m, "hog")["exitCode"] == 137, f"{ended(m, 'hog')}")
        wait_phase(m, "calm", "Succeeded")


def test_a_fork_bomb_ends_at_the_pods_limit():
    with Muster() as m:
        bomb = ("import os, time\nn = 0\ntry:\n  while n < 20000:\n    if os.fork() == 0: time.sleep(3600)\n"
                "    n += 1\nexcept BlockingIOError:\n  print('stopped at', n)")
        out = run_pod(m, "a", ["python3", "-c", bomb], limit=60)
        check("stopped at" in out and int(out.split()[-1]) < 4096, out)
        check(run_pod(m, "b", "echo fine") == "fine\n", "others start as before")


def test_a_flood_of_output_is_bounded_and_the_newest_is_kept():
    with Muster() as m:
        flood = "import sys\nfor i in range(1500000): print('line', i, 'x' * 40)"
        run_pod(m, "a", ["python3", "-c", flood], limit=120)
        check(logs(m, "a", "--tail", "1").startswith("line 1499999 "), "the last line is there")
        first, second = logs(m, "a", "--limit-bytes", "400").splitlines()[:2]
        check(first.startswith("[muster] the beginning of this log was dropped"), first)
        check(second.startswith("line "), second)
        used = sum(os.path.getsize(os.path.join(folder, f))
                   for folder, _, files in os.walk(os.path.join(m.data, "pods")) for f in files)
        check(used < 60 << 20, f"the logs take {used} bytes")


def test_sub_paths_cannot_lead_out_of_a_volume():
    with Muster() as m:
        volumes = [{"name": "d", "emptyDir": {}}]
        init = container("ln -s /etc /d/link; ln -s ../../.. /d/up; mkdir /d/ok; echo in > /d/ok/f", name="i",
                         volumeMounts=[{"name": "d", "mountPath": "/d"}])
        def mounted(name, sub):
            apply(m, pod(name, container("ls -A /m; echo; cat /m/f /m/passwd", volumeMounts=[
                {"name": "d", "mountPath": "/m", "subPath": sub}]), initContainers=[init], volumes=volumes))
            wait_phase(m, name, "Succeeded", "Failed")
            return logs(m, name) if ended(m, name)["reason"] != "StartError" else ""
        check("in\n" in mounted("ok", "ok"), "an ordinary subPath works")
        check("root:" not in mounted("link", "link"), "a link to /etc stays inside")
        check("root:" not in mounted("up", "up/up/etc"), "so does one that climbs")
        bad = m.kubectl("apply", "-f", "-", ok=False, input=__import__("json").dumps(
            pod("dots", container("true", volumeMounts=[{"name": "d", "mountPath": "/m", "subPath": "../x"}]),
                volumes=volumes)))
        if bad.returncode == 0:
            wait_phase(m, "dots", "Failed")
            check("subPath" in ended(m, "dots")["message"], f"{ended(m, 'dots')}")


def test_privileges_are_dropped():
    with Muster() as m:
        out = run_pod(m, "a", "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; mount -t tmpfs x /mnt; "
                              "mknod /tmp/sda b 8 0; unshare -U true; echo 1 > /proc/sys/vm/drop_caches; true")
        caps = int(out.split("CapEff:")[1].split()[0], 16)
        check(caps & (1 << 21) == 0 and caps & (1 << 27) == 0, f"no CAP_SYS_ADMIN, no CAP_MKNOD: {caps:x}")
        check("NoNewPrivs:\t1" in out and "Seccomp:\t2" in out, out)
        check("Read-only" in out and "drop_caches" in out, f"/proc/sys cannot be written:\n{out}")


RAW = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); print('raw')"
RING = ("import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for call in 425, 426, 427:\n"
        "    libc.syscall(call, 0, 0, 0, 0, 0, 0)\n"
        "    print(os.strerror(ctypes.get_errno()))")


def test_a_pod_on_the_hosts_network_has_no_raw_sockets():
    with Muster(flags=["--pod-network=host"]) as m:
        run_pod(m, "plain", ["python3", "-c", RAW], expect="Failed")
        check("PermissionError" in logs(m, "plain"), logs(m, "plain"))
        for cap in "NET_RAW", "NET_ADMIN":
            name = "asks-" + cap.lower().replace("_", "-")
            apply(m, pod(name, container(["python3", "-c", RAW], securityContext={"capabilities": {"add": [cap]}})))
            wait_phase(m, name, "Failed")
            said = m.get("pod", name)["status"]
            check(said.get("reason") == "NotPermitted" and cap in said["message"], f"{said}")
        check(run_pod(m, "ring", ["python3", "-c", RING]).split("\n")[:3] == ["Operation not permitted"] * 3,
              "no call of io_uring gets through")


def test_abstract_sockets_of_a_pod_are_its_own():
    if ctypes.CDLL(None).syscall(444, None, 0, 1) < 6:
        raise Skip("this kernel's Landlock cannot scope abstract sockets (Linux 6.12 can)")
    name = f"muster-{os.getpid()}"
    serve = f"import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(chr(0) + {name!r})\ns.listen()\n"
    call = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(chr(0) + {name!r})\nprint('connected')"
    with Muster(flags=["--pod-network=host"]) as m:
        apply(m, pod("server", container(["python3", "-uc", serve + "print('up')\ntime.sleep(300)"]),
                     container(["sleep", "300"], name="beside"), terminationGracePeriodSeconds=0))
        wait_for(lambda: "up" in logs(m, "server", "-c", "main"), "the server to listen")
        beside = m.kubectl("exec", "server", "-c", "beside", "--", "python3", "-c", call)
        check("connected" in beside.stdout, f"containers of one pod share them: {beside.stderr}")
        run_pod(m, "stranger", ["python3", "-c", call], expect="Failed")
        check("PermissionError" in logs(m, "stranger"), logs(m, "stranger"))


def test_users_and_groups_are_those_asked_for():
    with Muster() as m:
        out = run_pod(m, "a", "id -u; id -g; id -G; touch /d/x && stat -c %g /d/x",
                      container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
                      securityContext={"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456},
                      volumes=[{"name": "d", "emptyDir": {}}])
        check(out.split() == ["1234", "2345", "2345", "3456", "3456"], out)
        apply(m, pod("root", container("true"), securityContext={"runAsNonRoot": True, "runAsUser": 0}))
        wait_phase(m, "root", "Failed", "Pending")
        wait_for(lambda: "runAsNonRoot" in str(status(m, "root")["state"]), "the refusal to say why")


def test_a_pod_that_fills_the_disk_is_evicted():
    with Muster() as m:
        fill = "dd if=/dev/zero of=/d/x bs=1M count=64 2>/dev/null; sleep 300"
        apply(m, pod("hog", container(fill, volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                     volumes=[{"name": "d", "emptyDir": {"sizeLimit": "8Mi"}}]),
              pod("calm", container("sleep 300", resources={"limits": {"ephemeral-storage": "8Mi"}}),
                  terminationGracePeriodSeconds=0))
        wait_phase(m, "hog", "Failed", limit=60)
        check(m.get("pod", "hog")["status"]["reason"] == "Evicted", f"{m.get('pod', 'hog')['status']}")
        check(phase(m, "calm") == "Running", "a pod within its limit goes on")


def test_of_very_many_pods_the_last_one_is_measured_too():
    with Muster(flags=["--max-pods", "300"]) as m:
        small = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"ephemeral-storage": "8Mi"}}
        apply(m, *[pod(f"calm{n}", container(["sleep", "600"], resources=small), terminationGracePeriodSeconds=0)
                   for n in range(256)])  # as many as are measured at a time
        wait_for(lambda: m.kubectl("get", "pods").stdout.count("Running") == 256, "the pods to run", 120)
        apply(m, pod("hog", container("dd if=/dev/zero of=/tmp/x bs=1M count=16 2>/dev/null; sleep 600", resources=small)))
        wait_phase(m, "hog", "Failed", limit=60)
        check(m.get("pod", "hog")["status"]["reason"] == "Evicted", f"{m.get('pod', 'hog')['status']}")
