"""muster up as a service: restarts with other flags, restores, full disks, several people. Nothing is lost that is not named."""

import glob
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess

from harness import ROOT, Muster, Skip, binary, check, run, wait_for
from pods import apply, container, phase, pod, shims, wait_phase
from test_disk import SmallDisk
from test_scheduling_metrics import documented


def log_of(m):
    with open(m.log) as f:
        return f.read()


def make(m, name, text):
    """The status of the answer to a write."""
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": text}}
    return m.rest.ask("POST", "/api/v1/namespaces/default/configmaps", json.dumps(made))[0]


def ready(m, name):
    node = m.get("node", name)
    return node and next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")


def with_nodes(m, count):
    m.flags[m.flags.index("--nodes") + 1] = str(count)


def test_pods_of_a_node_that_is_no_more_end_with_a_reason_and_keep_what_they_wrote():
    with Muster(nodes=2, gpus_per_node=1) as m:
        gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
        writes = container("echo kept; echo wrote > /d/model; sleep 300", **gpu,
                           volumeMounts=[{"name": "d", "mountPath": "/d"}])
        apply(m, pod("stays", container("sleep 300", **gpu)),
              pod("leaves", writes, node="node-1", volumes=[{"name": "d", "emptyDir": {}}]))
        wait_phase(m, "stays", "Running")
        wait_for(lambda: m.said("leaves", ok=False) == "kept\n", "the pod of node-1 to write")
        uid = m.get("pod", "leaves")["metadata"]["uid"]
        m.kill()
        with_nodes(m, 1)
        m.start()
        wait_phase(m, "leaves", "Failed")
        status = m.get("pod", "leaves")["status"]
        check(status["reason"] == "NodeLost" and "--nodes 1" in status["message"], str(status))
        wait_for(lambda: uid not in shims(m), "its processes to end")
        check(m.said("leaves") == "kept\n", "its log is there")
        check(os.path.exists(os.path.join(m.data, "pods", uid, "volumes", "d", "model")), "and so is what it wrote")
        check(phase(m, "stays") == "Running", "the other node's pod goes on")
        wait_for(lambda: ready(m, "node-1") == "False", "node-1 to be told as away")
        keys = wait_for(lambda: {(t["key"], t["effect"]) for t in m.get("node", "node-1")["spec"].get("taints", [])},
                        "node-1 to have taints")
        check(keys == {("node.kubernetes.io/not-ready", e) for e in ("NoSchedule", "NoExecute")}, str(keys))
        # Nothing is bound there any more, and what names it by hand does not wait for ever.
        free = pod("waits", container("true", **gpu))
        del free["spec"]["nodeName"]
        apply(m, free, pod("named", container("true"), node="node-1"))
        wait_phase(m, "named", "Failed")
        m.kubectl("delete", "pod", "stays", "--wait=false")
        wait_phase(m, "waits", "Succeeded")
        check(m.get("pod", "waits")["spec"]["nodeName"] == "node-0", "bound to the node that is there")
        m.kubectl("delete", "pod", "leaves", "named", "--wait=true")
        m.kill()
        with_nodes(m, 2)
        m.start()
        wait_for(lambda: ready(m, "node-1") == "True", "node-1 to be ready again")
        wait_for(lambda: not m.get("node", "node-1")["spec"].get("taints"), "its taints to go")
        apply(m, pod("again", container("true"), node="node-1"))
        wait_phase(m, "again", "Succeeded")


def test_a_node_that_somebody_deletes_comes_back_and_its_pods_go_on():
    with Muster() as m:
        apply(m, pod("p", container("sleep 300")))
        wait_phase(m, "p", "Running")
        uid = m.get("node", "node-0")["metadata"]["uid"]
        m.kubectl("delete", "node", "node-0", "--wait=false")
        wait_for(lambda: (m.get("node", "node-0", ok=False) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid,
                 "the node to register again", 40)
        wait_for(lambda: ready(m, "node-0") == "True", "it to be ready")
        check(phase(m, "p") == "Running", "its pod goes on")


def test_what_an_older_store_does_not_know_is_moved_aside_and_named():
    with Muster() as m:
        apply(m, pod("old", container("sleep 300")))
        wait_phase(m, "old", "Running")
        copy = os.path.join(m.folder, "copy.db")
        run([binary("muster"), "store", "backup", copy, "--data-dir", m.data], env=m.env)
        apply(m, pod("new", container("echo hours > /d/model; sleep 300", volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                     volumes=[{"name": "d", "emptyDir": {}}]))
        uid = wait_for(lambda: m.get("pod", "new")["metadata"]["uid"], "its uid")
        wrote = os.path.join(m.data, "pods", uid, "volumes", "d", "model")
        wait_for(lambda: os.path.exists(wrote), "the new pod to write")
        m.kill()
        shutil.copy(copy, os.path.join(m.data, "store.db"))
        for end in ("-wal", "-shm"):
            if os.path.exists(os.path.join(m.data, "store.db" + end)):
                os.unlink(os.path.join(m.data, "store.db" + end))
        m.flags.append("--accept-lost-writes")
        m.start()
        wait_for(lambda: uid not in shims(m), "its processes to end")
        aside = os.path.join(m.data, "aside")
        found = wait_for(lambda: [n for n in os.listdir(aside) if n.endswith("_" + uid)], "its folder to be moved aside")
        with open(os.path.join(aside, found[0], "volumes", "d", "model")) as f:
            check(f.read() == "hours\n", "what it wrote is there")
        said = log_of(m)
        check("level=warn event=pods.unknown count=1" in said, said[-2000:])
        check(f"level=warn event=pod.orphan uid={uid} kept={aside}/" in said, said[-2000:])
        check(phase(m, "old") == "Running", "what the store knows goes on")


def test_a_delete_on_a_full_disk_takes_what_belongs_to_it_along():
    m = Muster()
    with SmallDisk(m, "size=96m") as disk, m:
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
        uid = m.get("configmap", "owner")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        hog = pod("hog", container("head -c 30000000 /dev/zero > /d/big; sleep 300",
                                   volumeMounts=[{"name": "d", "mountPath": "/d"}]), volumes=[{"name": "d", "emptyDir": {}}])
        hog["metadata"]["ownerReferences"] = [owner]
        apply(m, hog)
        wait_phase(m, "hog", "Running")
        folder = os.path.join(m.data, "pods", m.get("pod", "hog")["metadata"]["uid"])
        wait_for(lambda: os.path.getsize(os.path.join(folder, "volumes", "d", "big")) == 30000000, "the pod to write")
        numbers = iter(range(1000))

        def full():
            disk.fill()
            return make(m, f"c{next(numbers)}", "x" * 500000) == 503
        wait_for(full, "the store to be read-only")
        check(m.rest.ask("DELETE", "/api/v1/namespaces/default/configmaps/owner")[0] == 200, "a delete is taken")
        wait_for(lambda: not os.path.exists(folder), "what belongs to it to go, and its files", 60)
        wait_for(lambda: m.rest.ask("GET", "/readyz")[0] == 200, "the store to be written to again", 60)


def test_a_start_on_a_full_disk_uses_its_reserve():
    m = Muster()
    with SmallDisk(m, "size=96m") as disk, m:
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
        m.process.terminate()  # a stop that leaves no log of SQLite's, for which there must be room at the start
        m.process.wait()
        disk.fill()
        with open(m.log, "a") as log:
            m.process = subprocess.Popen([binary("muster"), "up", "--data-dir", m.data, "--listen", m.listen,
                                          "--kubeconfig-out", m.kubeconfig, *m.flags], stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=log, env=m.env, start_new_session=True)

        def answers():
            check(m.process.poll() is None, f"it did not start:\n{log_of(m)[-1000:]}")
            return m.rest.ask("GET", "/healthz")[0] == 200
        wait_for(answers, "muster to serve on a full disk")
        code, text = m.rest.ask("GET", "/readyz")
        check(code == 503 and b"full" in text, f"{code} {text}")
        check(m.rest.ask("DELETE", "/api/v1/namespaces/default/configmaps/c")[0] == 200, "a delete is taken")
        disk.free()
        wait_for(lambda: make(m, "d", "") == 201, "a write to be taken again")


def test_a_backup_is_the_service_and_a_restore_names_who_is_back():
    with Muster() as m:
        for name in ("alice", "bob"):
            with open(os.path.join(m.folder, name), "w") as f:
                f.write(run([binary("muster"), "user", "add", name, "--uid", "70001" if name == "alice" else "70002"],
                            env=m.env).stdout)
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}})
        copy, elsewhere = os.path.join(m.folder, "monday"), os.path.join(m.folder, "elsewhere")
        said = run([binary("muster"), "backup", copy, "--data-dir", m.data], env=m.env).stdout
        check("every right" in said and os.stat(copy).st_mode & 0o777 == 0o700, said)
        meant = dict(m.env, KUBECONFIG=os.path.join(m.data, "kubeconfig"))  # whose data folder it is needs no flag
        again = run([binary("muster"), "backup", copy], env=meant, ok=False)
        check(again.returncode == 1 and "already exists" in again.stderr, again.stderr)
        run([binary("muster"), "user", "revoke", "bob"], env=m.env)
        gone = run([binary("muster"), "user", "renew", "bob"], env=m.env, ok=False)
        check("`muster user add bob` gives new ones" in gone.stderr, gone.stderr)
        apply(m, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}})
        busy = run([binary("muster"), "restore", copy, "--data-dir", m.data], env=m.env, ok=False)
        check(busy.returncode == 1 and "in use by another muster" in busy.stderr, busy.stderr)
        m.process.terminate()
        m.process.wait()
        broken = os.path.join(m.folder, "broken")
        shutil.copytree(copy, broken)
        with open(os.path.join(broken, "token-key"), "a") as f:
            f.write("x")
        refused = run([binary("muster"), "restore", broken, "--data-dir", m.data], env=m.env, ok=False)
        check(refused.returncode == 1 and "token-key is not what was backed up" in refused.stderr, refused.stderr)
        said = run([binary("muster"), "restore", copy, "--data-dir", m.data], env=m.env).stdout
        check("credentials of alice are good until" in said and "alice are good until" in said, said)
        bob = next(line for line in said.splitlines() if "bob" in line)
        check("not known" not in said, said)
        check("REVOKED" in bob and "REVOKED" not in said.replace(bob, ""), said)
        check("replaced-" in said and os.path.exists(re.search(r"is in (\S+)", said)[1] + "/store.db"), said)
        m.start()  # without --accept-lost-writes
        check(m.get("configmap", "kept") and not m.get("configmap", "later", ok=False), "the state of the backup")
        hers = run(["kubectl", "--kubeconfig", os.path.join(m.folder, "alice"), "get", "pods", "-n", "alice"])
        check(hers.returncode == 0, "her token and the authority are those of before")
        said = run([binary("muster"), "restore", copy, "--data-dir", elsewhere], env=m.env).stdout
        check("who was revoked after the backup is not known, as the store of then is not here" in said, said)
        with open(os.path.join(elsewhere, "store.db"), "r+") as f:
            f.write("x" * 100)
        said = run([binary("muster"), "restore", copy, "--data-dir", elsewhere], env=m.env).stdout
        check("as the store of then cannot be read" in said and "REVOKED" not in said, said)
        check(sorted(os.listdir(os.path.join(elsewhere, "tls"))) == sorted(os.listdir(os.path.join(copy, "tls"))),
              "another machine gets the same")


def answered(m, name, ca):
    """The certificate that a client gets which asks for `name`; None: it does not trust it."""
    context = ssl.create_default_context(cafile=ca)
    host, port = m.listen.split(":")
    try:
        with socket.create_connection((host, int(port)), 30) as s, context.wrap_socket(s, server_hostname=name) as t:
            return t.getpeercert()
    except ssl.SSLError as e:
        print(e)
        return None


def test_the_certificate_has_further_names_and_may_be_ones_own():
    m = Muster(flags=["--page-name", "page.lab", "--tls-name", "api.lab", "--tls-name", "192.0.2.7"])
    crt, key = os.path.join(m.folder, "own.crt"), os.path.join(m.folder, "own.key")
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", crt, "-days", "2", "-subj",
         "/CN=own.lab", "-addext", "subjectAltName=DNS:own.lab"])
    with m:
        ca = os.path.join(m.data, "tls", "ca.crt")
        for name in ("localhost", "page.lab", "api.lab"):
            check(answered(m, name, ca), f"{name} is in the certificate")
        check(("IP Address", "192.0.2.7") in answered(m, "localhost", ca)["subjectAltName"], "and so is an address")
        check(not answered(m, "own.lab", ca), "what nobody named is not")
        m.process.terminate()
        m.process.wait()
        m.flags += ["--tls-cert-file", crt, "--tls-private-key-file", key]
        m.start()
        check(answered(m, "own.lab", crt), "who asks for its name gets one's own")
        check(answered(m, "localhost", ca), "pods and kubeconfigs get ours")
        m.process.terminate()
        m.process.wait()
        m.flags = m.flags[:-2]
        said = run([binary("muster"), "up", "--data-dir", m.data, *m.flags], env=m.env, ok=False)
        check(said.returncode == 1 and "give both, or neither" in said.stderr, said.stderr)
        m.flags = m.flags[:-2]
        m.start()


def test_credentials_are_written_for_nobody_but_the_person():
    with Muster() as m:
        home = os.path.join(m.folder, "home")
        os.mkdir(home)
        out = os.path.join(home, "config")
        if os.geteuid() == 0:
            os.chown(home, 70001, 70001)
        os.symlink("/etc/passwd", out)  # somebody waits for a careless root
        uid = str(70001 if os.geteuid() == 0 else os.geteuid())
        said = run([binary("muster"), "user", "add", "alice", "--uid", uid, "--queue", "q", "--out", out], env=m.env)
        found = os.lstat(out)
        check(stat.S_ISREG(found.st_mode) and found.st_mode & 0o777 == 0o600 and found.st_uid == int(uid) and not said.stdout,
              f"{oct(found.st_mode)} {found.st_uid} {said.stdout}")
        run(["kubectl", "--kubeconfig", out, "get", "pods"])
        with open(out) as f:
            first = f.read()
        shell = os.path.join(m.folder, "careless")
        run(["sh", "-c", f"umask 022; {binary('muster')} user renew alice --valid 1h > {shell}"], env=m.env)
        check(os.stat(shell).st_mode & 0o777 == 0o600, "a file of the shell is shut, too")
        with open(shell) as f:
            check(f.read() != first, "other credentials")
        notes = m.get("namespace", "alice")["metadata"]["annotations"]
        check((notes["torchrun.ai/person-queue"], notes["torchrun.ai/person-uid"]) == ("q", uid), f"nothing else is new: {notes}")
        run(["kubectl", "--kubeconfig", shell, "get", "pods"])
        none = run([binary("muster"), "user", "renew", "nobody"], env=m.env, ok=False)
        check(none.returncode == 1 and "there is no person nobody" in none.stderr, none.stderr)


def test_whose_pods_cannot_run_is_told_when_a_person_is_added_and_they_wait_with_the_reason():
    if os.geteuid() != 0:
        raise Skip("people need root")
    with Muster(flags=["--pod-network=host"]) as m:
        added = run([binary("muster"), "user", "add", "alice", "--uid", "70001", "--home", "/nonexistent"], env=m.env)
        check("pods of alice will wait on node-0" in added.stderr and "--pod-network=bridge" in added.stderr, added.stderr)
        spec = pod("j", container("id -u"))["spec"]
        del spec["nodeName"]
        m.apply(json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "alice"},
                            "spec": {"backoffLimit": 0, "template": {"spec": spec}}}))

        def waits():
            found = m.get("pods", ns="alice")[0]["status"]
            check(found.get("phase") != "Failed", str(found))
            waiting = found["containerStatuses"][0]["state"]["waiting"]
            return waiting["reason"] == "NetworkNotReady" and waiting
        check("--pod-network=bridge" in wait_for(waits, "her pod to say why it waits")["message"], "and what to do")
        m.kill()
        m.flags[m.flags.index("--pod-network=host")] = "--pod-network=bridge"
        m.start()
        wait_for(lambda: m.get("job", "j", ns="alice")["status"].get("succeeded") == 1, "it to run once there is a network", 60)


def test_the_version_says_which_commit():
    said = run([binary("muster"), "--version"]).stdout
    check(re.fullmatch(r"muster \d+\.\d+\.\d+ \(\d+\.g[0-9a-f]{8}(\.modified)?\)\n", said), said)
    with Muster() as m:
        commit = json.loads(m.kubectl("get", "--raw", "/version").stdout)["gitCommit"]
        check(f"({commit})" in said, f"{commit} {said}")


def test_metrics_tell_of_the_process_the_store_and_the_disk():
    m = Muster()
    with SmallDisk(m, "size=96m") as disk, m:
        def value(name):
            status, text = m.rest.ask("GET", "/metrics", accept="text/plain")
            check(status == 200, text)
            return float(re.search(rf"^{name} (\S+)$", text.decode(), re.M)[1])
        check(value("muster_leading") == 1 and value("muster_store_read_only") == 0, "it leads, and writes")
        check(value("process_resident_memory_bytes") > 1e6 and value("process_open_fds") > 5, "of its process")
        check(value("muster_store_objects") > 10 and value("muster_disk_free_bytes") > 1e6, "of its store and disk")
        before = value('muster_server_requests_total{method="GET",code="4xx"}'.replace("{", r"\{").replace("}", r"\}")) \
            if m.rest.ask("GET", "/nothing")[0] == 404 else -1
        m.rest.ask("GET", "/nothing")
        check(value(r'muster_server_requests_total\{method="GET",code="4xx"\}') > before >= 1, "requests are counted")
        numbers = iter(range(1000))

        def full():
            disk.fill()
            return make(m, f"c{next(numbers)}", "x" * 500000) == 503
        wait_for(full, "the store to be read-only")
        check(value("muster_store_read_only") == 1, "an alert can see it")
        said = run([binary("muster"), "doctor", "--data-dir", m.data], env=m.env, ok=False)
        check(said.returncode == 1 and "✗ disk " in said.stdout, said.stdout)
        check(re.search(r"✗ muster up +the store .*until there is space", said.stdout), said.stdout)
        disk.free()


def test_alerts_and_panels_ask_for_metrics_that_there_are():
    page = set(documented())
    for name in ("alerts.yaml", "dashboard.json"):
        with open(os.path.join(ROOT, "deploy", "monitoring", name)) as f:
            asked = set(re.findall(r"\b(?:muster|kai)_[a-z_]+\b", f.read()))
        known = {n + end for n in page for end in ("", "_bucket", "_sum", "_count")}
        check(asked and asked <= known | {"muster_system"}, f"{name}: {sorted(asked - known)}")


def test_one_file_has_what_a_maintainer_needs_and_no_secrets():
    m = Muster()
    m.flags += ["--record", os.path.join(m.folder, "recordings")]
    m.env["MUSTER_EVENT_TTL"] = "2h"
    with m:
        secret = pod("p", container("echo pst-command; sleep 300", env=[{"name": "TOKEN", "value": "pst-env"}]))
        apply(m, secret, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "pst-secret"}},
              {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "pst-map"}})
        wait_phase(m, "p", "Running")
        turns = iter(range(1000))

        def recorded():  # what is held back is written with an event that comes later
            m.kubectl("annotate", "pod", "p", "--overwrite", f"turn={next(turns)}")
            return any(os.path.getsize(f) for f in glob.glob(os.path.join(m.folder, "recordings", "*")))
        wait_for(recorded, "a recording")
        out = os.path.join(m.folder, "support.txt")
        said = run([binary("muster"), "support", out, "--data-dir", m.data, "--log", m.log], env=m.env).stdout
        with open(out) as f:
            text = f.read()
        parts = re.findall(r"^==== ([a-z ]+) \((\d+) bytes", text, re.M)
        check([n for n, _ in parts] == ["version", "flags", "doctor", "store check", "log", "recording", "readyz", "metrics",
                                        "nodes", "queues", "torchrunqueues", "torchrunjobs", "podgroups", "pods", "events"],
              str(parts))
        check(all(f"{n:14s}" in said for n, _ in parts) and "not there" not in text, said)
        check(all(w in text for w in ("0 problems", "--data-dir", "it runs, and is ready", "runner.synced", "muster_leading 1",
                                      "MUSTER_EVENT_TTL=2h", '{"muster":1,"settings"')), text[:3000])
        check("pst" not in text.replace("pst-command\n", ""), "no secrets: " + text[max(0, text.find("pst") - 200):][:400])
        check(os.stat(out).st_mode & 0o777 == 0o600, "for its owner")
        m.process.terminate()
        m.process.wait()
        run([binary("muster"), "support", out, "--data-dir", m.data], env=m.env)
        with open(out) as f:
            text = f.read()
        check("no muster up runs on this data folder" in text and "0 problems" in text, "without a server: " + text[:2000])
        m.start()


def test_a_release_with_nobody_to_write_to_is_refused():
    env = {k: v for k, v in os.environ.items() if k != "RELEASE_DRAFT"}
    said = run([os.path.join(ROOT, "tools", "release.py"), "amd64"], env=env, ok=False)
    check(said.returncode and "SECURITY.md: @SECURITY_CONTACT@" in said.stderr, said.stderr)
    for name in (".github/workflows/ci.yml", ".forgejo/workflows/ci.yml", ".gitlab-ci.yml"):
        with open(os.path.join(ROOT, name)) as f:
            check(".ci/run" in f.read(), f"{name} runs what every change runs")
