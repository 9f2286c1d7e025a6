"""The workspace: what arrives in the pods, hot reload, restart in place, resuming after cuts."""

import datetime
import os
import re
import signal
import time

from harness import Muster, check, needs, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, one_line, project


def spec_of(m, pod):
    return m.get("pod", pod)["metadata"]["uid"]


def test_the_folder_arrives_as_it_is():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="print('x')\n", __gitignore="*.log\n/data/\n",
                         __torchrunignore="secret\n", a__log="no", secret="no")
        os.makedirs(os.path.join(folder, "empty"))
        os.makedirs(os.path.join(folder, "data"))
        os.makedirs(os.path.join(folder, ".git"))
        with open(os.path.join(folder, "data", "big"), "w") as f:
            f.write("no")
        with open(os.path.join(folder, "训练 données.txt"), "w") as f:
            f.write("unicode")
        with open(os.path.join(folder, "large.bin"), "wb") as f:
            f.write(os.urandom(1 << 20) * 5)
        os.chmod(os.path.join(folder, "main.py"), 0o755)
        os.symlink("main.py", os.path.join(folder, "link"))
        os.symlink("/etc/passwd", os.path.join(folder, "out"))
        os.makedirs(os.path.join(folder, "env"))
        open(os.path.join(folder, "env", "pyvenv.cfg"), "w").close()
        submit = ("submit", "--queue", "demo", "--gpus", "1", "--name", "look", "-e", "PASSWORD=pa$$w0rd$(HOME)",
                  "find . -not -path './.muster*' -printf '%y %m %P %l %s\\n' | sort; "
                  "test $$ -gt 1 && echo \"got $PASSWORD in $(basename $PWD)\"")
        one_line(m.torchrun(*submit, cwd=m.folder, ok=False), m.folder, "is your home folder", "--dir")
        done = m.torchrun(*submit, cwd=folder)
        text = re.sub(r"\[rank0\] ", "", done.stdout)
        for line in ("f 755 main.py  11", "d 755 empty", "f 644 训练 données.txt  7",
                     "l 777 link main.py", "f 644 large.bin  5242880", "l 777 out /etc/passwd",
                     "got pa$$w0rd$(HOME) in app"):
            check(line in text, f"{line!r} is missing:\n{text}")
        for word in ("a.log", "data", "secret", ".git\n", "pyvenv"):
            check(word not in text, f"{word!r} should not be there:\n{text}")
        for words in ("left out by .gitignore: ", "a.log (*.log)", "data/ (/data/)", "left out by .torchrunignore: secret",
                      "left out: env/ (an environment of Python"):
            check(words in done.stderr, f"what was left out is said, {words!r}: {done.stderr}")


@needs("a muster that `run` finds: elsewhere it begins one of its own, and a cluster's users submit")
def test_a_script_by_its_whole_path_is_the_one_that_was_sent():
    need_torch()
    with Muster(nodes=1, gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="print('sent', flush=True)\n", conf="sent\n")
        script = os.path.join(os.path.realpath(folder), "main.py")
        m.torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "first", "--detach",
                   "until [ -e go ]; do sleep 0.1; done", cwd=folder)
        waiting = ("--queue", "demo", "--gpus", "1", "--detach", "--name")
        said = {"one": m.torchrun("submit", *waiting, "one", f"python {script}", cwd=folder),
                "two": m.torchrun("run", *waiting, "two", script, cwd=folder),
                "three": m.torchrun("submit", *waiting, "three", f"cd / && python {script}", cwd=folder)}
        check("reads that file as it is then" not in said["one"].stderr + said["two"].stderr,
              "no note of what is as it should be")
        check("reads that file as it is then" in said["three"].stderr, said["three"].stderr)
        with open(script, "w") as f:
            f.write("print('edited', flush=True)\n")
        wait_for(lambda: m.phase("first") == "Running", "the first to run", 120)
        m.torchrun("exec", "first", "--", "touch", "go")
        for name, text in (("one", "sent"), ("two", "sent"), ("three", "edited")):
            wait_for(lambda: m.phase(name) == "Succeeded", f"{name} to end", 120)
            check(text in m.torchrun("logs", name).stdout, f"{name}: {m.torchrun('logs', name).stdout}")


def test_sync_restart_keeps_pods_and_brings_new_code():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        code = "import time\nprint('version {}', flush=True)\ntime.sleep(600)\n"
        folder = project(m, main__py=code.format("one"))
        m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "hot", "--detach",
                   "python main.py", cwd=folder)
        wait_for(lambda: m.torchrun("logs", "hot").stdout.count("version one") == 4, "4 ranks", 90)
        before = [spec_of(m, f"hot-worker-{i}") for i in (0, 1)]
        project(m, main__py=code.format("two"))
        start = time.time()
        done = m.torchrun("sync", "hot", "--restart", cwd=folder)
        check("on 2 workers" in done.stderr, done.stderr)
        again = "all workers have stopped; starting the ranks again"
        for worker in ("hot-worker-0", "hot-worker-1"):
            log = wait_for(lambda: (lambda text: again in text and text)(
                m.kubectl("logs", worker, "--timestamps").stdout), f"{worker} to start its ranks again", 60)
            check(log.count("restarting the ranks in place") == log.count(again) == 1, log)
            check(log.index("restarting the ranks in place") < log.index(again), log)
            stamp = [line for line in log.splitlines() if again in line][0].split()[0]
            moment = datetime.datetime.fromisoformat(stamp[:26].rstrip("Z") + "+00:00").timestamp()
            print(f"sync --restart: {worker} starts new ranks after {moment - start:.2f} s", flush=True)
        wait_for(lambda: m.torchrun("logs", "hot").stdout.count("version two") == 4, "new code", 90)
        check([spec_of(m, f"hot-worker-{i}") for i in (0, 1)] == before, "the pods stayed")
        check(m.get("torchrunjob", "hot")["status"].get("restarts", 0) == 0, "no restart is counted")
        done = m.torchrun("sync", "hot", "--restart", cwd=folder)
        check("nothing changed" in done.stderr, done.stderr)


CUT = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata:
  name: cut
  annotations: {torchrun.ai/workspace: upload}
spec:
  jobQueue: demo
  numGPUs: 1
  command: python main.py; sleep 600
"""


def test_an_upload_that_was_cut_leaves_no_job_that_waits_for_ever():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="print('arrived', flush=True)\n")
        submit = ("submit", "--queue", "demo", "--gpus", "1", "--name")

        m.kubectl("cordon", "node-0")  # the sync pod does not start: the upload cannot end
        stopped = m.spawn_torchrun(*submit, "stopped", "python main.py", cwd=folder)
        wait_for(lambda: m.get("torchrunjob", "stopped"), "the job", 30)
        stopped.send_signal(signal.SIGINT)
        said, _ = stopped.communicate(timeout=60)
        check(stopped.returncode == 130 and "job stopped was deleted" in said, f"{stopped.returncode}: {said}")
        wait_for(lambda: not m.get("torchrunjob", "stopped"), "the job to go", 30)
        m.kubectl("uncordon", "node-0")

        m.apply(CUT)  # what a submit leaves that was killed
        wait_for(lambda: m.phase("cut") == "Syncing", "the job to wait for its folder", 60)
        done = m.torchrun(*submit, "cut", "python main.py", cwd=folder, ok=False)
        one_line(done, "torchrun sync cut", "torchrun delete")
        m.torchrun("sync", "cut", cwd=folder)
        wait_for(lambda: "arrived" in m.torchrun("logs", "cut", ok=False).stdout, "the job to run", 90)
        one_line(m.torchrun(*submit, "cut", "python main.py", cwd=folder, ok=False), "another --name")

        project(m, main__py="print('again', flush=True)\n")
        done = m.torchrun("sync", "cut", cwd=folder)
        revision = re.search(r"revision (\w+) is on 1 worker", done.stderr).group(1)
        status = m.torchrun("status", "cut").stdout
        check(re.search(rf"Workspace: +{revision}", status), f"status shows revision {revision}: {status}")
        log = m.said("cut-sync-0")
        check(re.search(rf"T\S+Z revision {revision} from \S+@\S+: 1 entry", log), f"who sent it, and when: {log}")
        check(f"worker 0 has revision {revision}" in log, f"and who has it: {log}")

        # Whatever the job does to its folder, a revision arrives, and what it wrote stays.
        inside = ("exec", "cut", "--", "sh", "-c")
        m.torchrun(*inside, "echo newer > model.pt; rm main.py; mkdir main.py; touch main.py/x")
        project(m, model__pt="older", main__py="print('third')\n", other__py="arrived")
        done = m.torchrun("sync", "cut", cwd=folder)
        for words in ("kept: model.pt of worker 0", "kept: main.py of worker 0", "is on 1 worker"):
            check(words in done.stderr, f"{words!r}: {done.stderr}")
        found = m.torchrun(*inside, "cat model.pt other.py; ls main.py").stdout
        check(found.split() == ["newer", "arrivedx"], f"in the job: {found}")
        os.unlink(os.path.join(folder, "model.pt"))
        done = m.torchrun("sync", "cut", cwd=folder)
        check("kept: model.pt" in done.stderr, done.stderr)
        check(m.torchrun(*inside, "cat model.pt").stdout == "newer\n", "what is gone here stays there")


CHECKER = """
import glob, os, time
seen = 0
last = -1
print('ready', flush=True)
while True:
    try:
        text = open('big.txt').read()
    except FileNotFoundError:
        continue
    if len(text) != 1 << 20 or len(set(text)) != 1:
        print('TORN', len(text), flush=True)
    try:
        number = int(open('counter').read())
    except (FileNotFoundError, ValueError) as e:
        number = last
        print('BAD', e, flush=True)
    if number < last:
        print('BACKWARDS', last, number, flush=True)
    last = max(last, number)
    files = sorted(glob.glob('edit/*'))
    if len(files) > seen:
        seen = len(files)
        print('has', seen, 'files, counter', last, flush=True)
"""


def test_two_hundred_edits_arrive_in_order_and_never_torn():
    need_torch()
    with Muster(nodes=2, gpus_per_node=4, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py=CHECKER, counter="0")
        os.makedirs(os.path.join(folder, "edit"))
        big = os.path.join(folder, "big.txt")

        def write(path, text):
            with open(path + "~", "w") as f:
                f.write(text)
            os.rename(path + "~", path)

        write(big, "a" * (1 << 20))
        m.torchrun("submit", "--queue", "demo", "--gpus", "4", "--name", "edits", "--detach",
                   "[ $LOCAL_RANK = 0 ] && exec python main.py; sleep 600", cwd=folder)
        for worker in ("edits-worker-0", "edits-worker-1"):
            wait_for(lambda: "ready" in m.said(worker, ok=False), "the checkers", 150)
        watch = m.spawn_torchrun("sync", "edits", "--watch", cwd=folder)
        try:
            wait_for(lambda: "watching" in (watch.stdout.readline() or "watching"), "the watch", 30)
            for i in range(1, 201):
                write(os.path.join(folder, "edit", f"{i:03}"), str(i))
                write(os.path.join(folder, "counter"), str(i))
                if i % 10 == 0:
                    write(big, chr(ord("a") + i // 10 % 26) * (1 << 20))
            for worker in ("edits-worker-0", "edits-worker-1"):
                wait_for(lambda: "has 200 files" in m.said(worker),
                         f"200 edits in {worker}", 60)
                text = m.said(worker)
                for word in ("TORN", "BACKWARDS", "BAD"):
                    check(word not in text, f"{worker}: {word}\n" + text[-2000:])
                done = m.kubectl("exec", worker, "--", "sh", "-c", "cat /app/edit/* | tr -d '\\n'")
                check(done.stdout == "".join(str(i) for i in range(1, 201)), "contents of the edits")
                wait_for(lambda: m.kubectl("exec", worker, "--", "cat", "/app/counter").stdout == "200",
                         "the last counter", 60)
            os.remove(os.path.join(folder, "edit", "007"))
            wait_for(lambda: m.kubectl("exec", "edits-worker-1", "--", "ls", "/app/edit").stdout.
                     count("\n") == 199, "a removal to arrive", 60)
        finally:
            watch.terminate()
            watch.wait(20)


def test_upload_goes_on_when_the_server_was_killed():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        folder = project(m, main__py="print('done')\n")
        for i in range(40):
            with open(os.path.join(folder, f"part{i}"), "wb") as f:
                f.write(os.urandom(2 << 20))
        submit = m.spawn_torchrun("submit", "--queue", "demo", "--gpus", "1", "--name", "cut",
                                  "ls part* | wc -l; cat part* | wc -c", cwd=folder)
        wait_for(lambda: m.get("pod", "cut-sync-0"), "the sync pod", 30)
        m.kill()
        m.start()
        output = submit.communicate(timeout=150)[0]
        check(submit.returncode == 0, f"exit {submit.returncode}:\n{output}")
        check("[rank0] 40" in output and f"[rank0] {80 << 20}" in output, output)
