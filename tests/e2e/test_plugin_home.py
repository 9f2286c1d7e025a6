"""What a job wrote is in the folder that it was submitted from, when it has ended."""

import os

from harness import Muster, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_plugin_results import let_go, read

# Both pods write; one file is new, one is changed, one is changed at home too, and one is beside the folder.
MAIN = """
import os, time, torch
if os.environ["LOCAL_RANK"] == "0":
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
    with Muster(nodes=2, gpus_per_node=2, flags=FLAGS) as m:
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
        folder = project(m, main__py="import os\nopen('trace-' + os.environ['RANK'], 'w').write('x')\nraise SystemExit(7)\n")
        done = m.torchrun("submit", "--gpus", "1", "--name", "bad", "python main.py", cwd=folder, ok=False)
        check(done.returncode == 7, f"{done.returncode}: {done.stderr}")
        check(os.path.exists(os.path.join(folder, "trace-0")), done.stderr)


def test_a_training_succeeds_although_nobody_can_copy_what_it_wrote():
    """Its pods go with its end, as its queue says; on a cluster no ended pod can be read."""
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE + "  reliability: {cleanPodPolicy: All}\n")
        folder = project(m, main__py="open('x', 'w').write('x')\n")
        done = m.torchrun("submit", "--gpus", "1", "--name", "clean", "python main.py", cwd=folder)
        check("note: nothing was copied" in done.stderr or os.path.exists(os.path.join(folder, "x")), done.stderr)
