"""`muster operator` and pods with a share of a GPU that it suspends, through exec. The node here is muster up's, whose own agent
suspends what has the annotation; so what is shown is an operator that finds a pod in the middle of it and takes it back."""

import json
import os
import subprocess

from harness import BUILD, Muster, Skip, binary, check, free_port, needs, wait_for
from test_suspend import counted, goes_on, running, suspended

HELPER = "/.muster-gpu/muster-launch"


def share(name):
    """A program on the driver of tests/preload, with what admission gives it on a cluster."""
    folder = os.path.join(BUILD, "tests", "preload")
    env = {"LD_LIBRARY_PATH": folder, "FAKE_DEVICES_SEEN": "1", "LD_PRELOAD": "/.muster-gpu/libmuster-gpu.so",
           "MUSTER_GPU_MEMORY_MIB": "400", "MUSTER_GPU_REGION": "/tmp/region", "MUSTER_GPU_SUSPEND": "1"}
    return json.dumps({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {"gpu-fraction": "0.5", "muster.dev/may-be-suspended": "true",
                                                   "torchrun.ai/gpu-memory-enforced": "false"}},
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                 "volumes": [{"name": "library", "hostPath": {"path": BUILD}}],
                 "containers": [{"name": "main", "image": "x", "env": [{"name": k, "value": v} for k, v in env.items()],
                                 "command": ["sh", "-c", f"sleep 100000 | exec {folder}/preload-moved"],
                                 "volumeMounts": [{"name": "library", "mountPath": "/.muster-gpu"}]}]}})


def say(m, name, reason):
    found = m.get("pod", name)
    found["status"].setdefault("conditions", []).append(
        {"type": "Suspended", "status": "False", "reason": reason, "message": "x"})
    m.rest.ask("PUT", f"/api/v1/namespaces/default/pods/{name}/status", json.dumps(found))


def operator(m, *flags):
    log = open(os.path.join(m.folder, "operator.log"), "a")
    return subprocess.Popen([binary("muster"), "operator", "--kubeconfig", m.kubeconfig, "--leader-elect=false",
                             "--scheduler-name=nobody", "--listen", f"127.0.0.1:{free_port()}", *flags],
                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@needs("the node agent of muster up, which runs commands in pods")
def test_an_operator_takes_back_a_suspension_that_another_one_left_in_the_middle():
    if os.uname().machine != "x86_64":
        raise Skip("the library moves memory on x86-64")
    with Muster(gpus_per_node=1) as m:
        m.apply(share("p"))
        wait_for(lambda: running(m, "p") and len(counted(m, "p")) > 5, "the program to use its memory")
        seen = m.kubectl("exec", "p", "--", "sh", "-c", "ls -d /proc/[0-9]* | wc -l").stdout
        if int(seen) > 20:
            raise Skip("pods here have no process numbers of their own: others would be moved as well")
        check(m.kubectl("exec", "p", "--", HELPER, "gpu-memory", "out").stdout == "ok out 1 50\n", "its memory is away")
        stood = len(counted(m, "p"))
        say(m, "p", "Suspending")
        check(len(counted(m, "p")) == stood, "a call went through while the memory was away")
        process = operator(m, "--gpu-sharing", f"--webhook-listen=127.0.0.1:{free_port()}", "--gpu-memory-limits",
                           "--launcher-image=x", "--gpu-suspend")
        try:
            wait_for(lambda: suspended(m, "p", "Resumed"), "the operator to take it back")
            goes_on(m, "p", stood)
        finally:
            process.terminate()
            process.wait()
        check("not so" not in m.kubectl("logs", "p").stdout, "its memory is not whole")


def test_suspension_on_a_cluster_needs_the_library():
    with Muster() as m:
        process = operator(m, "--gpu-sharing", "--launcher-image=x", "--gpu-suspend")
        check(process.wait(30) != 0, "it started")
        with open(os.path.join(m.folder, "operator.log")) as f:
            check("--gpu-suspend: needs --gpu-memory-limits" in f.read(), "it does not say why")
