"""What a job wrote is not lost or torn when muster is killed, and a disk without room gets nothing."""

import os
import subprocess

from harness import Muster, Skip, check, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch, project
from test_plugin_results import everything_below

FILES, LARGE, BYTES = 600, 20, 20 << 20
# Small files one after another, and then large ones, which are holes here and bytes where they are copied to.
MAIN = f"""
import os, time
if os.environ["LOCAL_RANK"] == "0":
    os.makedirs("out")
    for i in range({FILES}):
        open(f"out/small-{{i}}", "w").write(str(i) * 100)
        if i == 50:
            print("some are written", flush=True)
        time.sleep(0.005)
    for i in range({LARGE}):
        with open(f"out/large-{{i}}", "wb") as f:
            f.truncate({BYTES})
    print("all are written", flush=True)
time.sleep(600)
"""


def whole(folder):
    """The files that are there, each as the job wrote it."""
    found = [name for name in everything_below(folder) if os.path.basename(name)[0] != "."]
    for name in found:
        kind, number = os.path.basename(name).split("-")
        size = BYTES if kind == "large" else 100 * len(number)
        check(os.path.getsize(os.path.join(folder, name)) == size, f"{name} is torn")
    return len(found)


def test_muster_killed_while_files_are_written_and_while_they_are_copied():
    need_torch()
    with Muster(gpus_per_node=1, flags=FLAGS) as m:
        m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))
        folder = project(m, main__py=MAIN)
        m.torchrun("submit", "--gpus", "1", "--name", "job", "--detach", "python main.py", cwd=folder)
        wait_for(lambda: "some are written" in m.said("job-worker-0", ok=False), "the first files", 90)
        m.kill()
        m.start()
        wait_for(lambda: "all are written" in m.said("job-worker-0", ok=False), "all files", 90)

        here = os.path.join(m.folder, "job")
        pull = m.spawn_torchrun("pull", "job")
        wait_for(lambda: os.path.isdir(here) and whole(here) > 0, "the first file to be here")
        m.kill()
        said = pull.communicate(timeout=120)[0]
        came = whole(here)
        check(came <= FILES + LARGE and (pull.returncode != 0 or came == FILES + LARGE), f"{came} files: {said}")
        m.start()
        m.torchrun("pull", "job", "--force")
        check(whole(here) == FILES + LARGE and len(everything_below(here)) == FILES + LARGE, "all of them, and no more")


def test_a_disk_without_room_gets_nothing_and_the_job_keeps_its_files():
    need_torch()
    with Muster(gpus_per_node=1, flags=FLAGS) as m:
        small = os.path.join(m.folder, "small")
        os.mkdir(small)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "muster-test", small], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise Skip(f"no file system can be mounted here: {done.stderr.strip()}")
        try:
            m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))
            with open(os.path.join(small, "main.py"), "w") as f:
                f.write("open('model', 'wb').write(b'x' * (3 << 20))\n")
            done = m.torchrun("submit", "--gpus", "1", "--name", "job", "python main.py", cwd=small, ok=False)
            check(done.returncode == 1 and "does not fit" in done.stderr, f"{done.returncode} {done.stderr}")
            check(os.listdir(small) == ["main.py"], f"something was copied: {os.listdir(small)}")
            done = m.torchrun("pull", "job", "--to", os.path.join(small, "new"), ok=False)
            check(done.returncode != 0 and "has room for" in done.stderr, done.stderr)
            m.torchrun("pull", "job")
            check(os.path.getsize(os.path.join(m.folder, "job", "model")) == 3 << 20, "the job has it still")
        finally:
            subprocess.run(["umount", "-l", small])
