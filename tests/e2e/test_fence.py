"""Ranks of a pod that was given up, and runs on: they hear of the next gang through the checkpoint volume."""

import os
import shutil
import subprocess
import tempfile

from harness import PATIENCE, Failure, binary, check, python_with, torchrun_of_pods, wait_for


class Pod:
    """muster-launch as the first process of a container, with a folder of its own, in this generation of a job."""

    def __init__(self, volume, generation, command):
        self.folder = tempfile.mkdtemp(dir=volume, prefix="pod-")
        self.log = os.path.join(self.folder, "log")
        python = torchrun_of_pods(pytorch=False) or os.path.dirname(python_with("torch"))
        environment = {"PATH": f"{python}:/usr/bin:/bin", "HOME": self.folder, "TMPDIR": self.folder, "MUSTER_NPROC": "1",
                       "MUSTER_COMMAND": command, "MUSTER_APP_DIR": self.folder, "MUSTER_GENERATION": str(generation),
                       "MUSTER_FENCE": os.path.join(volume, ".muster-1"),
                       "MUSTER_TERMINATION_LOG": os.path.join(self.folder, "message")}
        with open(self.log, "w") as out:
            self.process = subprocess.Popen([binary("muster-launch"), "worker"], env=environment, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def read(self, name):
        with open(os.path.join(self.folder, name)) as f:
            return f.read()

    def end(self):
        try:
            return self.process.wait(30 * PATIENCE)
        except subprocess.TimeoutExpired as e:
            raise Failure(f"it goes on:\n{self.read('log')}") from e


def test_ranks_of_a_lost_pod_end_when_the_next_gang_begins():
    volume = tempfile.mkdtemp(prefix="muster-fence-")
    pods = []
    try:
        pods.append(Pod(volume, 0, 'echo "rank is $$"; exec sleep 1000'))
        wait_for(lambda: "rank is" in pods[0].read("log"), "the first gang to train", 60)
        rank = int(pods[0].read("log").split("rank is ")[1].split()[0])
        check(not os.path.exists(os.path.join(volume, ".muster-1")), "the first gang leaves nothing on the volume")
        pods.append(Pod(volume, 1, "echo next; exec sleep 1000"))
        check(pods[0].end() == 75, f"it ends as what may be tried elsewhere: {pods[0].process.returncode}")
        check("a later gang of this job trains, generation 1" in pods[0].read("message"), pods[0].read("message"))
        check(not os.path.exists(f"/proc/{rank}"), "its rank is gone")
        wait_for(lambda: "next" in pods[1].read("log"), "the next gang to train", 60)
        check(pods[1].process.poll() is None, "the next gang trains on")
        pods.append(Pod(volume, 0, "echo late"))
        check(pods[2].end() == 75 and "late\n" not in pods[2].read("log"), f"who is late starts no rank: {pods[2].read('log')}")
    finally:
        for pod in pods:
            pod.process.terminate()
            pod.process.wait()
        shutil.rmtree(volume)
