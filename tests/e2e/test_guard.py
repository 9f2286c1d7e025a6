"""A run of these tests that is cut off leaves nothing behind (tests/guard.py)."""

import glob
import json
import os
import signal
import subprocess
import sys

import guard
from harness import PATIENCE, check, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
# A test like any other, which never ends. Its pod has a volume in memory, which is a mount, and a process that ignores SIGTERM.
ENDLESS = """
import json, sys, time
sys.path[:0] = [%r]
from harness import Muster, wait_for
POD = '''
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - {name: c, image: any, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"], resources: {limits: {memory: 64Mi}},
     volumeMounts: [{name: m, mountPath: /m}]}
  volumes: [{name: m, emptyDir: {medium: Memory}}]
'''
with Muster() as m:
    m.apply(POD)
    pod = wait_for(lambda: (p := m.get("pod", "p"))["status"]["phase"] == "Running" and p, "the pod to run", 60)
    print(json.dumps([m.folder, pod["metadata"]["uid"]]), flush=True)
    time.sleep(600)
"""


def processes(folder):
    """Pids whose command or surroundings name this folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as surroundings:
                if folder.encode() in line.read() + surroundings.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def mounts(folder):
    with open("/proc/self/mountinfo") as f:
        return [line for line in f if folder in line]


def test_a_run_that_is_cut_off_leaves_nothing():
    env = {name: value for name, value in os.environ.items() if name != guard.RUN}
    run = subprocess.Popen([guard.__file__, sys.executable, "-c", ENDLESS % HERE], stdout=subprocess.PIPE, text=True, env=env)
    folder, uid = json.loads(run.stdout.readline())
    check(processes(folder), f"nothing runs in {folder}: this test shows nothing")
    groups = list(guard.groups([uid]))
    check(groups or not os.access("/sys/fs/cgroup/memory/muster", os.W_OK), f"pod {uid} has no control group: this shows nothing")
    with open(f"/proc/{run.pid}/task/{run.pid}/children") as f:
        second = int(f.read())
    with open(f"/proc/{second}/task/{second}/children") as f:
        os.kill(int(f.read().split()[0]), signal.SIGKILL)  # as the kernel does when memory is short: no handler runs
    said, _ = run.communicate(timeout=60 * PATIENCE)
    check(run.returncode == 128 + signal.SIGKILL, f"ended with {run.returncode}")
    wait_for(lambda: not processes(folder), f"the processes of {folder} to be gone", 10)
    check(not list(guard.groups([uid])), f"control groups are left: {list(guard.groups([uid]))}")
    check(not mounts(folder) and not glob.glob(folder), f"left: {mounts(folder)} {glob.glob(folder)}")
    check(said.startswith("guard: left behind and removed: "), said)
