"""What a job wrote into its folder: pulled while it runs and after its end, and not destroyed without a word."""

import http.server
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

from harness import Muster, binary, check, need_kubectl, run, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_plugin_terminal import Terminal

# Every pod writes: a result, a change to shipped code, what nobody should be led by. Then it waits to be let go.
MAIN = """
import os, time
if os.environ["LOCAL_RANK"] == "0":
    os.makedirs("out/deep")
    open("out/deep/model", "w").write("weights of " + os.environ["MUSTER_NODE_RANK"])
    open("config", "w").write("NEW\\n")
    os.symlink("/etc/passwd", "evil-file")
    os.symlink("/etc", "evil-folder")
    os.mkfifo("pipe")
    open("name\\x1b[31m", "w").write("red")
    print("written", flush=True)
while not os.path.exists("/app/go"):
    time.sleep(0.05)
"""


def everything_below(folder):
    return sorted(os.path.relpath(os.path.join(d, f), folder) for d, folders, files in os.walk(folder)
                  for f in files + [f for f in folders if os.path.islink(os.path.join(d, f))])


def read(*parts):
    with open(os.path.join(*parts)) as f:
        return f.read()


def submit(m, name, gpus):
    need_torch()
    m.apply(QUEUE)
    folder = project(m, main__py=MAIN, config="OLD\n")
    m.torchrun("submit", "--queue", "demo", "--gpus", str(gpus), "--name", name, "--detach", "python main.py",
               cwd=folder)
    wait_for(lambda: m.torchrun("logs", name).stdout.count("written") == gpus // 2, "every pod to have written", 120)


def without_token(m):
    """The kubeconfig without its own token."""
    path = os.path.join(m.folder, "anonymous")
    with open(m.kubeconfig) as f, open(path, "w") as out:
        out.write("".join(line for line in f if "token:" not in line))
    return path


def let_go(m, name, pods):
    for i in range(pods):
        m.torchrun("exec", name, "--worker", str(i), "--", "touch", "/app/go")
    wait_for(lambda: m.phase(name) == "Succeeded", "the job to end", 60)


def test_pull_while_it_runs_and_after_its_end():
    need_kubectl(24)
    wrote = ["config", "name\x1b[31m", "out/deep/model"]
    with Muster(nodes=2, gpus_per_node=2, flags=FLAGS) as m:
        submit(m, "job", 4)
        done = m.torchrun("pull", "job")
        here = os.path.join(m.folder, "job")
        check(everything_below(here) == wrote, f"what the job wrote or changed, and no more: {everything_below(here)}")
        check(read(here, "config") == "NEW\n" and read(here, "out/deep/model") == "weights of 0", "as it wrote it")
        for words in ("evil-file is a link", "evil-folder is a link", "pipe is a pipe"):
            check(words in done.stderr, f"{words!r} is not told: {done.stderr}")

        with open(os.path.join(here, "config"), "w") as f:
            f.write("mine\n")
        done = m.torchrun("pull", "job", ok=False)
        check(done.returncode != 0 and "job/config" in done.stderr and "--force" in done.stderr, done.stderr)
        check("\x1b" not in done.stderr, f"a name must not speak to the terminal: {done.stderr!r}")
        check(read(here, "config") == "mine\n", "it was overwritten")
        m.torchrun("pull", "job", "--force")
        check(read(here, "config") == "NEW\n", "--force replaces")

        # Who may not exec may not read: pods/log is another right.
        m.kubectl("create", "serviceaccount", "bot")
        m.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
        m.kubectl("create", "rolebinding", "bots", "--role=reader", "--serviceaccount=default:bot")
        token = m.kubectl("create", "token", "bot").stdout.strip()
        raw = ["kubectl", "--token", token, "--kubeconfig", without_token(m), "get", "--raw"]
        pod = "/api/v1/namespaces/default/pods/job-worker-0"
        wait_for(lambda: run([*raw, pod + "/log"], env=m.env, ok=False).stdout, "the log, which the bot may read", 30)
        done = run([*raw, pod + "/results?container=trainer&folder=/app"], env=m.env, ok=False)
        check(done.returncode != 0 and "pods/exec" in done.stderr, f"{done.stdout[:200]}{done.stderr}")
        m.kubectl("create", "role", "execs", "--verb=create", "--resource=pods/exec")
        m.kubectl("create", "rolebinding", "execs", "--role=execs", "--serviceaccount=default:bot")
        wait_for(lambda: subprocess.run([*raw, pod + "/results?container=trainer&folder=/app&list=true"], env=m.env,
                                        stdout=subprocess.DEVNULL).returncode == 0, "the list, now that it may exec", 30)
        done = run(["kubectl", *raw[1:5], "replace", "--raw", pod + "/results", "-f", m.kubeconfig], env=m.env, ok=False)
        check(done.returncode != 0 and "pods/results" in done.stderr, f"reading is all it may: {done.stderr}")
        for folder in ("/", "/etc", "/app/..", "/app/evil-folder"):
            done = m.kubectl("get", "--raw", f"{pod}/results?container=trainer&folder={folder}", ok=False)
            check(done.returncode != 0 and "root:" not in done.stdout, f"{folder}: {done.stdout[:200]}{done.stderr}")

        let_go(m, "job", 2)
        m.torchrun("pull", "job", "out/", "--to", "some")
        check(everything_below(os.path.join(m.folder, "some")) == ["out/deep/model"], "a PATH, after the end")
        m.torchrun("pull", "job", "--all", "--to", "all")
        for rank in (0, 1):
            check(read(m.folder, f"all/rank-{rank}/out/deep/model") == f"weights of {rank}", f"pod {rank}")
        m.torchrun("pull", "job", "--rank", "3", "--generation", "0", "--to", "third")  # two ranks a pod
        check(read(m.folder, "third/out/deep/model") == "weights of 1", "the pod of rank 3")
        for flags, words in ((["--rank", "4"], "no pod with rank 4"), (["--generation", "1"], "only in generation 0"),
                             (["--rank", "1", "--all"], "--all")):
            done = m.torchrun("pull", "job", *flags, "--to", "no", ok=False)
            check(done.returncode != 0 and words in done.stderr, f"{flags}: {done.stderr}")
        for path, words in (("nothing", "nothing"), ("../x", ".."), ("evil-folder/passwd", "evil-folder")):
            done = m.torchrun("pull", "job", path, "--to", "no", ok=False)
            check(done.returncode != 0 and words in done.stderr, f"{path}: {done.stderr}")
        check(not os.path.exists(os.path.join(m.folder, "no")), "nothing was written")


class OtherCluster:
    """Something that is no `muster up`, by its own account, and hands everything else on. kubectl speaks past it."""

    def __init__(self, m):
        self.kubeconfig = os.path.join(m.folder, "other")
        with open(m.kubeconfig) as f:
            config = f.read()
        target, token = f"https://{m.listen}", re.search(r"token: *(\S+)", config)[1].strip('"')
        context = ssl._create_unverified_context()

        class Handler(http.server.BaseHTTPRequestHandler):
            def tunnel(self):
                """What is upgraded (exec): the same head, with the token, and then bytes both ways."""
                host, port = m.listen.rsplit(":", 1)
                there = context.wrap_socket(socket.create_connection((host, int(port))))
                head = "".join(f"{k}: {v}\r\n" for k, v in self.headers.items() if k.lower() != "authorization")
                there.sendall(f"GET {self.path} HTTP/1.1\r\n{head}Authorization: Bearer {token}\r\n\r\n".encode())

                def copy(read, write):
                    while piece := read(65536):
                        write(piece)
                threading.Thread(target=copy, args=(self.rfile.read1, there.sendall), daemon=True).start()
                copy(there.recv, self.connection.sendall)
                self.close_connection = True

            def do_GET(self):
                if self.headers.get("Upgrade"):
                    self.tunnel()
                    return
                if self.path == "/version":
                    status, body = 200, b'{"major":"1","minor":"32","gitVersion":"v1.32.0"}'
                else:
                    request = urllib.request.Request(target + self.path, headers={"Authorization": f"Bearer {token}"})
                    try:
                        with urllib.request.urlopen(request, context=context) as answer:
                            status, body = answer.status, answer.read()
                    except urllib.error.HTTPError as e:
                        status, body = e.code, e.read()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        with open(self.kubeconfig, "w") as f:
            f.write("apiVersion: v1\nkind: Config\ncurrent-context: o\nclusters: [{name: o, cluster: {server: "
                    f"'http://127.0.0.1:{self.server.server_port}'" "}}]\nusers: [{name: o, user: {token: none}}]\n"
                    "contexts: [{name: o, context: {cluster: o, user: o}}]\n")
        programs = os.path.join(m.folder, "programs")
        os.mkdir(programs)
        with open(os.path.join(programs, "kubectl"), "w") as f:  # --kubeconfig FILE --context NAME, and then the same
            f.write(f"#!/bin/sh\nshift 4\nexec {shutil.which('kubectl')} --kubeconfig {m.kubeconfig} \"$@\"\n")
        os.chmod(os.path.join(programs, "kubectl"), 0o755)
        self.env = dict(m.env, KUBECONFIG=self.kubeconfig, PATH=f"{programs}:{m.env['PATH']}")

    def torchrun(self, m, *argv, ok=True):
        return run([binary("kubectl-torchrun"), *argv], env=self.env, cwd=m.folder, ok=ok)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_delete_names_what_it_destroys_and_asks():
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        submit(m, "job", 2)
        with OtherCluster(m) as other:  # there kubectl exec fetches it, and only while the pod runs
            other.torchrun(m, "pull", "job", "--to", "elsewhere")
            check(read(m.folder, "elsewhere/out/deep/model") == "weights of 0", "through exec")
            check("main.py" not in os.listdir(os.path.join(m.folder, "elsewhere")), "what the job wrote, and no more")
            let_go(m, "job", 1)
            done = other.torchrun(m, "pull", "job", "--to", "late", ok=False)
            check(done.returncode != 0 and "has ended" in done.stderr and "CHECKPOINT_DIR" in done.stderr, done.stderr)
        done = m.torchrun("delete", "job", ok=False)
        check(done.returncode != 0 and m.phase("job") == "Succeeded", f"it was deleted unasked: {done.stderr}")
        for words in ("out/deep/model", "job-workspace", "--force", "pull job"):
            check(words in done.stderr, f"{words!r} is not told: {done.stderr}")
        for answer, status in (("n\n", 1), ("\n", 1), ("y\n", 0)):
            t = Terminal(m, "delete", "job")
            t.expect("out/deep/model")
            t.expect("[y/N]")
            check(m.phase("job") == "Succeeded", "before the answer nothing is deleted")
            t.type(answer)
            check(t.end() == status, f"{answer!r}: {t.text}")
        wait_for(lambda: not m.get("torchrunjobs"), "the job to go", 30)
        done = m.torchrun("pull", "job", ok=False)
        check("does not exist" in done.stderr, done.stderr)


GENERATIONS = """
import os, time
if os.environ["LOCAL_RANK"] == "0":
    generation = os.environ["MUSTER_GENERATION"]
    open("model", "w").write("of generation " + generation)
    print("written by", generation, flush=True)
time.sleep(600)
"""


def test_what_an_earlier_generation_wrote_is_kept_also_when_the_job_is_deleted():
    need_torch()
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py=GENERATIONS)
        m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "again", "--detach", "python main.py", cwd=folder)
        kept = os.path.join(m.data, "results")
        for generation in ("0", "1"):
            wait_for(lambda: f"written by {generation}" in m.torchrun("logs", "again", ok=False).stdout, "the file", 90)
            if generation == "0":
                m.torchrun("restart", "again", "--pods")
        for flags, content in ((["--generation", "0"], "of generation 0"), ([], "of generation 1")):
            m.torchrun("pull", "again", *flags, "--to", "there", "--force")
            check(read(m.folder, "there/model") == content, f"{flags}: {read(m.folder, 'there/model')}")
        check(everything_below(os.path.join(m.folder, "there")) == ["model"], "and nothing that was shipped")
        done = m.kubectl("exec", "again-worker-0", "-c", "trainer", "--", "cat", "/app/model")
        check(done.stdout == "of generation 1", f"without the plugin, as docs/results.md says: {done.stdout}")
        m.torchrun("pull", "again", "--generation", "0", "--all", "--to", "all")
        check(read(m.folder, "all/rank-0/model") == "of generation 0", "of every pod of it")
        check(len(os.listdir(kept)) == 1, f"one generation is over: {os.listdir(kept)}")
        m.torchrun("delete", "again", "--force")  # nobody was told what goes: it is kept
        wait_for(lambda: len(os.listdir(kept)) == 2, "what the last generation wrote to be kept", 60)
        m.torchrun("pull", "again", "--to", "after")
        check(read(m.folder, "after/model") == "of generation 1", "the newest, by the name of the job")
