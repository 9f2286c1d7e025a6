"""Every cause of trouble is in the job's status, in words, a moment after it arose."""

import os
import shutil
import time

from harness import PORT_OF_PYTORCHJOBS, Muster, Skip, apart, check, torch_pythons, wait_for

NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 8}
"""
UNBOUND = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: imagenet}
spec:
  storageClassName: tape
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: slow}
spec:
  nodeResources: {gpus: 8}
  storage: {datasets: {enabled: true, existingClaim: imagenet}}
"""
JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: {queue}
  numGPUs: {gpus}
  command: '{command}'
  reliability: {{maxRestarts: 0}}
{more}"""
# Far more than it takes, for a crowded machine; what is measured is printed.
LIMIT_S = 20


def say_why(m, name, words, phases, limit=LIMIT_S, since=None):
    """The job is in one of the phases and names the cause; prints how long that took."""
    since = since or time.monotonic()

    def says():
        now = (m.get("torchrunjob", name) or {}).get("status", {})
        return now.get("phase") in phases and all(w in now.get("message", "") for w in words) and now
    now = wait_for(says, f"{name} to be {'/'.join(phases)} and to say {words}", limit)
    print(f"{name}: {time.monotonic() - since:.2f} s: {now['message']}")
    return now


def submit(m, name, queue="q", gpus=1, command="true", more=""):
    m.apply(JOB.format(name=name, queue=queue, gpus=gpus, command=command, more=more))
    return time.monotonic()


def test_gpus_held_by_others_and_a_claim_that_nobody_binds():
    with Muster(nodes=1, gpus_per_node=8, flags=NODES) as m:
        m.apply(QUEUE)
        m.apply(UNBOUND)
        m.apply("""
apiVersion: v1
kind: Pod
metadata: {name: holder, labels: {kai.scheduler/queue: q}}
spec:
  containers: [{name: c, image: x, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 5}}}]
""")
        wait_for(lambda: m.get("pod", "holder")["status"].get("phase") == "Running", "the holder to run")
        said = submit(m, "big", gpus=8)
        now = say_why(m, "big", ["GPU", "3", "8"], ["Queued"], since=said)
        check("free" in now["message"], now["message"])
        said = submit(m, "unbound", queue="slow")
        say_why(m, "unbound", ["imagenet"], ["Provisioning"], since=said)


@apart(PORT_OF_PYTORCHJOBS)
def test_what_stops_ranks_from_starting():
    if not torch_pythons():
        raise Skip("no Python here can import torch")
    with Muster(nodes=2, gpus_per_node=8, flags=NODES, pytorch="ranks") as m:
        m.apply(QUEUE.replace("gpus: 8", "gpus: 1"))
        submit(m, "missing", command="no-such-program --now")
        # Listens, and only then lets the setup go on. Pods may share a network: then one of the two fails to. Connections of an
        # earlier training may linger on the port; they stop no training, nor this.
        listener = ("import os, socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
                    "s.bind((\"\", 23456)); s.listen(); "
                    "os.fork() and os._exit(0); time.sleep(600)")
        submit(m, "taken", gpus=2, more=f"""  distributed: {{rdzvBackend: c10d, port: 23456}}
  setupCommand: python3 -c '{listener}' > /dev/null 2>&1 || true
""")
        submit(m, "unset", more="  setupCommand: exit 4\n")
        end = say_why(m, "unset", ["exit status 4"], ["Failed"], limit=90)
        check("setupCommand ended with exit code 4" in end["failure"]["message"], f"{end['failure']}")
        end = say_why(m, "missing", ["command not found", "127"], ["Failed"], limit=90)
        check(end["exitCode"] == 127 and end.get("restarts", 0) == 0, f"{end}")
        say_why(m, "taken", ["port 23456", "distributed.port"], ["Failed"], limit=90)


def test_a_rendezvous_that_does_not_answer_or_lacks_its_package():
    pythons = [p for p, _ in torch_pythons()]
    with_etcd = [p for p in pythons if os.system(f"{p} -c 'import etcd' 2>/dev/null") == 0]
    without = [p for p in pythons if p not in with_etcd]
    if not with_etcd and not without:
        raise Skip("no Python here can import torch")
    etcd = "  distributed: {rdzvBackend: etcd-v2, rdzvEndpoint: \"127.0.0.1:9\"}\n"
    if with_etcd:
        with Muster(nodes=2, gpus_per_node=8, flags=NODES, path_first=os.path.dirname(with_etcd[0])) as m:
            m.apply(QUEUE.replace("gpus: 8", "gpus: 1"))
            submit(m, "silent", gpus=2, more=etcd)
            say_why(m, "silent", ["127.0.0.1:9", "cannot be reached"], ["Failed"], limit=90)
    if without:
        with Muster(nodes=2, gpus_per_node=8, flags=NODES, path_first=os.path.dirname(without[0])) as m:
            m.apply(QUEUE.replace("gpus: 8", "gpus: 1"))
            submit(m, "bare", gpus=2, more=etcd)
            say_why(m, "bare", ["python-etcd", "setupCommand"], ["Failed"], limit=90)
            # The job's own place to meet has another way: by c10d, in the same pod.
            submit(m, "own", gpus=2, more="  distributed: {rdzvBackend: etcd-v2}\n")
            wait_for(lambda: m.get("torchrunjob", "own")["status"].get("phase") == "Succeeded", "it to meet by c10d", 90)
            end = m.get("torchrunjob", "own")
            check(end["metadata"]["annotations"]["muster.dev/rendezvous"] == "c10d", f"{end['metadata']}")
            check(end["status"].get("restarts", 0) == 0 and end["status"]["generation"] == 1, f"{end['status']}")
            told = [e["message"] for e in m.get("events") if e["involvedObject"]["name"] == "own"]
            check(any("meet by c10d instead, in the same place" in words for words in told), f"{told}")


def test_an_image_that_is_not_there():
    if not shutil.which("crun"):
        raise Skip("no crun here: --images=oci cannot be used")
    with Muster(nodes=1, gpus_per_node=8, flags=(*NODES, "--images", "oci")) as m:
        m.apply(QUEUE.replace("spec:", "spec:\n  image: registry.example/nope:1"))
        said = submit(m, "img")
        say_why(m, "img", ["ImagePullBackOff", "registry.example/nope:1"], ["Queued"], since=said)
