"""logs, exec, attach, cp and port-forward with the real kubectl."""

import os
import re
import subprocess
import time
import urllib.request

from harness import Muster, check, free_port, wait_for
from pods import apply, container, logs, pod, run_pod, wait_phase, wait_ready
from test_hostile import Wire


def test_logs_in_every_form():
    with Muster() as m:
        run_pod(m, "a", "for i in 1 2 3 4 5; do echo line $i; done; echo err >&2; printf unfinished")
        check(logs(m, "a", "--tail", "3") == "line 5\nerr\nunfinished\n", logs(m, "a", "--tail", "3"))
        stamped = logs(m, "a", "--timestamps").splitlines()
        check(all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ", line) for line in stamped), f"{stamped}")
        check(logs(m, "a", "--limit-bytes", "10") == "line 1\nlin", logs(m, "a", "--limit-bytes", "10"))
        check(logs(m, "a", "--since", "1h").startswith("line 1\n"), "since an hour ago: all")
        apply(m, pod("two", container("echo one"), container("echo two", name="other")))
        wait_phase(m, "two", "Succeeded")
        out = logs(m, "two", "--all-containers")
        check("one\n" in out and "two\n" in out, out)
        check(logs(m, "two", "-c", "other") == "two\n", "one container of two")
        bad = m.kubectl("logs", "two", "-c", "nope", ok=False)
        check(bad.returncode != 0 and "nope" in bad.stderr, bad.stderr)


def test_logs_follow_until_the_container_ends():
    with Muster() as m:
        apply(m, pod("a", container("for i in 1 2 3 4 5; do echo tick $i; sleep 0.2; done; exit 3")))
        wait_for(lambda: "tick 1" in logs(m, "a"), "the first line")
        out = m.kubectl("logs", "-f", "a").stdout
        check(out == "".join(f"tick {i}\n" for i in range(1, 6)), out)


def test_exec_runs_inside_and_returns_the_exit_code():
    with Muster() as m:
        apply(m, pod("a", container("echo 1 > /only-here; sleep 300"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        done = m.kubectl("exec", "a", "--", "sh", "-c", "cat /only-here; echo oops >&2; exit 9", ok=False)
        check(done.returncode == 9 and done.stdout == "1\n" and "oops" in done.stderr, f"{done}")
        check(m.kubectl("exec", "-i", "a", "--", "cat", input="through\n").stdout == "through\n", "stdin")
        missing = m.kubectl("exec", "a", "--", "no-such-program", ok=False)
        check(missing.returncode != 0 and "no-such-program" in missing.stderr, missing.stderr)
        big = "x" * 50_000_000
        check(m.kubectl("exec", "-i", "a", "--", "wc", "-c", input=big).stdout.strip() == "50000000", "much of it")
        late = m.kubectl("exec", "-i", "a", "--", "sh", "-c", "sleep 1; wc -c", input=big).stdout.strip()
        check(late == "50000000", f"to a program that begins to read late: {late}")
        few = m.kubectl("exec", "-i", "a", "--", "sh", "-c", "head -c 3; exit 7", input=big, ok=False)
        check(few.stdout == "xxx" and few.returncode == 7, f"to a program that ends before it has read all: {few}")


def test_exec_with_a_terminal():
    with Muster() as m:
        apply(m, pod("a", container("sleep 300"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        command = "kubectl exec -it a -- sh -c 'test -t 0 && test -t 1 && tty && echo is-a-tty'"
        done = subprocess.run(["script", "-qec", command, "/dev/null"], env=m.env, text=True, timeout=30,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        check("is-a-tty" in done.stdout and "/dev/" in done.stdout, done.stdout)


def test_files_are_copied_in_and_out():
    with Muster() as m:
        apply(m, pod("a", container("sleep 300"), terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        source, back = os.path.join(m.folder, "src"), os.path.join(m.folder, "back")
        with open(source, "wb") as f:
            f.write(os.urandom(300_000))
        m.kubectl("cp", source, "a:/tmp/copied")
        m.kubectl("cp", "a:/tmp/copied", back)
        check(open(source, "rb").read() == open(back, "rb").read(), "the same bytes")


def test_attach_shows_what_comes_and_passes_stdin():
    with Muster() as m:
        apply(m, pod("a", container("while read x; do echo got $x; test $x = end && exit 0; done", stdin=True)))
        wait_phase(m, "a", "Running")
        done = subprocess.Popen(["kubectl", "attach", "-i", "a"], env=m.env, text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        done.stdin.write("one\nend\n")
        done.stdin.flush()
        wait_phase(m, "a", "Succeeded")
        out = done.communicate(timeout=20)[0]
        check("got one" in out, out)


def test_ports_are_forwarded():
    there = free_port()
    with Muster() as m:
        apply(m, pod("a", container(["python3", "-m", "http.server", str(there)], workingDir="/usr/share",
                                    readinessProbe={"tcpSocket": {"port": there}, "periodSeconds": 1}),
                     terminationGracePeriodSeconds=0))
        wait_ready(m, "a")
        port = free_port()
        forward = subprocess.Popen(["kubectl", "port-forward", "a", f"{port}:{there}"], env=m.env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page = wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read(),
                            "an answer through the forwarded port")
            check(b"Directory listing" in page, f"{page[:200]}")
        finally:
            forward.terminate()
            forward.wait()


def test_logs_of_pods_that_are_gone():
    with Muster() as m:
        def log(name, query=""):
            return m.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{name}/log{query}", ok=False).stdout
        for generation in ("1", "2"):
            apply(m, pod("a", container(f"echo generation {generation}; echo last"),
                         labels={"torchrun.ai/generation": generation}))
            wait_phase(m, "a", "Succeeded")
            m.kubectl("delete", "pod", "a", "--wait=true")
        wait_for(lambda: log("a") == "generation 2\nlast\n", "the newest one's log to be kept")
        check(log("a", "?generation=1") == "generation 1\nlast\n", log("a", "?generation=1"))
        check(log("a", "?generation=1&tailLines=1") == "last\n", log("a", "?generation=1&tailLines=1"))
        check(log("a", "?generation=3") == "" and log("b") == "", "and nothing of others")
        apply(m, pod("a", container("echo now; sleep 1000"), labels={"torchrun.ai/generation": "3"},
                     terminationGracePeriodSeconds=0))
        wait_for(lambda: log("a") == "now\n", "a pod that is there to come first")
        check(log("a", "?generation=2") == "generation 2\nlast\n", "an older one, while the next one runs")


def test_who_does_not_read_results_keeps_nobody_else_from_them():
    """Eight readers of one namespace that read nothing; another namespace's reader gets a place, of theirs."""
    def files(name, text, ns):
        made = pod(name, container(f"{text}; sleep 600", volumeMounts=[{"name": "v", "mountPath": "/out"}]),
                   volumes=[{"name": "v", "emptyDir": {}}], terminationGracePeriodSeconds=0)
        made["metadata"]["namespace"] = ns
        return made
    with Muster() as m:
        for ns in ("evil", "good"):
            m.kubectl("create", "namespace", ns)
        apply(m, files("a", "truncate -s 64M /out/large; touch /out/done", "evil"),
              files("b", "echo mine > /out/small; touch /out/done", "good"))
        asked = "GET /api/v1/namespaces/%s/pods/%s/results?folder=/out HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n"

        def ask(ns, name):
            wire = Wire(m)
            wire.send((asked % (ns, name, wire.token)).encode())
            return wire, wire.line_and_headers()
        for ns, name in (("evil", "a"), ("good", "b")):
            wait_for(lambda: m.kubectl("exec", "-n", ns, name, "--", "ls", "/out/done", ok=False).returncode == 0, "its files")
        silent = [ask("evil", "a") for _ in range(8)]
        check(all(b" 200 " in head for _, head in silent), f"{[head for _, head in silent]}")
        wire, head = ask("good", "b")
        while b"mine" not in wire.rest and b" 200 " in head:
            wire.rest += wire.tls.recv(65536)
        check(b" 200 " in head, f"{head}")
        check(b"mine" in wire.rest, "all of it")
