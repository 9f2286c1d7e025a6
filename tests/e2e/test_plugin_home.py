"""What a job wrote is in the folder that it was submitted from, when it has ended."""

import os
import re

from harness import Muster, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_plugin_results import let_go, read

# Both pods write; one file is new, one is changed, one is changed at home too, and one is beside the folder.
MAIN = """
import os, time
if os.environ["LOCAL_RANK"] == "0":
    import torch
    os.makedirs("out", exist_ok=True)
    torch.save({"weights": torch.ones(3), "pod": os.environ["MUSTER_NODE_RANK"]}, "out/model.pt")
    open("config", "w").write("the job's\\n")
    open("mine", "w").write("the job's\\n")
    open("ignored.log", "w").write("the job's\\n")
    open(os.environ["OUTSIDE"] + "/kept", "w").write("outside")
    print("written", flush=True)
while not os.path.exists("/app/go"):
    time.sleep(0.05)
"""


def test_submit_brings_results_home_and_keeps_what_changed_there():
    need_torch()
    with Muster(nodes=2, gpus_per_node=2, flags=FLAGS, pytorch="ranks") as m:
        m.apply(QUEUE)
        folder = project(m, main__py=MAIN, config="old\n", mine="old\n", __gitignore="*.log\n", ignored__log="old\n")
        outside = os.path.join(m.folder, "outside")
        job = m.spawn_torchrun("submit", "--gpus", "4", "--name", "job", "--write", outside, "--env",
                               f"OUTSIDE={outside}", f"python main.py --logs {m.folder}", cwd=folder)
        wait_for(lambda: m.torchrun("logs", "job", ok=False).stdout.count("written") == 2, "every pod to have written", 120)
        with open(os.path.join(folder, "mine"), "w") as f:
            f.write("edited meanwhile\n")
        let_go(m, "job", 2)
        said = job.communicate(timeout=120)[0]
        check(job.returncode == 0, said)
        check(os.path.getsize(os.path.join(folder, "out", "model.pt")) > 0, "the model is in the folder")
        check(read(folder, "config") == "the job's\n" and read(folder, "ignored.log") == "the job's\n", "as the job left it")
        check(read(folder, "mine") == "edited meanwhile\n", "newer work was overwritten")
        check(read(folder, "mine.job") == "the job's\n", "the job's is beside it")
        check(read(folder, ".muster/replaced/job/config") == "old\n", "what was replaced is kept")
        check(read(outside, "kept") == "outside", "--write goes through")
        for words in ("out/model.pt", "mine changed here since", "mine.job", "1 other pod wrote files too",
                      f"{m.folder} is lost with its pod; --write {m.folder}"):
            check(words in said, f"{words!r} is not told: {said}")
        check(f"{outside} is lost" not in said, said)

        # Later, and again: what came home is no change of the person's.
        os.remove(os.path.join(folder, "mine"))
        m.torchrun("pull", "job", "--home")
        check(read(folder, "mine") == "the job's\n", "its place was free")
        done = m.torchrun("pull", "job", "--home", "--force", ok=False)
        check(done.returncode != 0 and "--home" in done.stderr, done.stderr)


def test_a_job_that_fails_brings_home_what_it_wrote():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        m.env["TZ"] = "CET-1"
        folder = project(m, main__py="import os\nopen('trace-' + os.environ['RANK'], 'w').write('x')\nraise SystemExit(7)\n")
        done = m.torchrun("submit", "--gpus", "1", "--name", "bad", "python main.py", cwd=folder, ok=False)
        check(done.returncode == 7, f"{done.returncode}: {done.stderr}")
        check(os.path.exists(os.path.join(folder, "trace-0")), done.stderr)
        for said in (done.stderr, m.torchrun("status", "bad").stdout):
            check(re.search(r"ended with exit code 7.* at 20\S+\+01:00", said), f"by the person's clock: {said}")
        failure = m.get("torchrunjob", "bad")["status"]["failure"]["message"]
        check(re.search(r"at 20\S+Z", failure), f"what is for programs stays as it is: {failure}")


# The second pod fails when it is let go; the first one notices nothing, and saves more when it is told to end.
SAVES = ("if [ $RANK != 0 ]; then until [ -e $OUTSIDE/go ]; do sleep 0.1; done; exit 3; fi; echo weights > model; "
         "trap 'echo saved > last; exit 0' TERM; echo written; while :; do sleep 0.1; done")


def test_what_a_pod_saves_when_the_job_is_over_comes_home():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))
        outside = os.path.join(m.folder, "outside")
        folder = project(m, config="mine\n")
        job = m.spawn_torchrun("submit", "--nodes", "2", "--name", "job", "--max-restarts", "0", "--write", outside,
                               "--env", f"OUTSIDE={outside}", SAVES, cwd=folder)
        wait_for(lambda: "written" in m.torchrun("logs", "job", ok=False).stdout, "the first pod to have written", 120)
        open(os.path.join(outside, "go"), "w").close()
        wait_for(lambda: m.phase("job") == "Failed", "the job to be over", 60)
        m.torchrun("pull", "job", "--to", os.path.join(m.folder, "pulled"))
        said = job.communicate(timeout=120)[0]
        check(job.returncode == 3, f"{job.returncode}: {said}")
        check(read(folder, "model") == "weights\n" and read(folder, "last") == "saved\n", "what it saved at its end")
        check(read(m.folder, "pulled", "last") == "saved\n", "what it saved at its end, by pull")


def test_a_training_succeeds_although_nobody_can_copy_what_it_wrote():
    """Its pods go with its end, as its queue says; on a cluster no ended pod can be read."""
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE + "  reliability: {cleanPodPolicy: All}\n")
        folder = project(m, main__py="open('x', 'w').write('x')\n")
        done = m.torchrun("submit", "--gpus", "1", "--name", "clean", "python main.py", cwd=folder)
        check("note: nothing was copied" in done.stderr or os.path.exists(os.path.join(folder, "x")), done.stderr)
