"""Workspaces that come from elsewhere: git, an archive by URL, a claim that is already there."""

import os
import subprocess
import tarfile

from harness import Muster, check, run, wait_for
from test_plugin_commands import FLAGS, QUEUE, need_torch

JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: demo
  numGPUs: 1
  command: "python main.py; ls -a"
  reliability: {{restartPolicy: Never}}
  workspaceStorage: {{source: {source}, url: "{url}"}}
"""


def ended(m, name):
    wait_for(lambda: m.phase(name) in ("Succeeded", "Failed"), f"job {name} to end", 120)
    text = m.torchrun("logs", name).stdout
    check(m.phase(name) == "Succeeded", f"{name}: {m.phase(name)}\n{text}")
    return text


def test_git_and_archives_by_url():
    need_torch()
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        repo = os.path.join(m.folder, "repo")
        os.makedirs(repo)
        with open(os.path.join(repo, "main.py"), "w") as f:
            f.write("print('from a branch', flush=True)\n")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", repo]
        for argv in (["init", "-q", "-b", "work"], ["add", "."], ["commit", "-q", "-m", "x"]):
            run([*git, *argv])
        m.apply(JOB.format(name="cloned", source="git", url=f"file://{repo}#work"))
        text = ended(m, "cloned")
        check("[rank0] from a branch" in text and "[rank0] .git\n" not in text, text)

        with open(os.path.join(repo, "main.py"), "w") as f:
            f.write("print('from an archive', flush=True)\n")
        os.symlink("/etc/passwd", os.path.join(repo, "out"))
        archive = os.path.join(m.folder, "code.tar.gz")
        with tarfile.open(archive, "w:gz") as t:
            for name in ("main.py", "out"):
                t.add(os.path.join(repo, name), name)
        m.apply(JOB.format(name="fetched", source="zip", url=f"file://{archive}"))
        text = ended(m, "fetched")
        check("[rank0] from an archive" in text and "[rank0] out\n" not in text, text)


def test_a_source_that_cannot_be_fetched_says_so():
    with Muster(nodes=1, gpus_per_node=2, flags=FLAGS) as m:
        m.apply(QUEUE)
        m.apply(JOB.format(name="lost", source="git", url="file:///nowhere/at/all"))
        wait_for(lambda: "fetching file:///nowhere/at/all failed" in
                 m.said("lost-sync-0", ok=False), "the sync pod to say why", 60)
