"""What becomes of a TorchrunJob: restarts, suspension, deadlines, lost pods, and words for every wait."""

import os

from harness import EXAMPLES, Muster, Skip, check, needs, torch_pythons, wait_for

TRAIN = os.path.join(EXAMPLES, "train", "train.py")
STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.py")
NODES = ("--cpus-per-node", "64", "--memory-per-node", "256Gi")
QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  nodeResources: {gpus: 2, cpus: 8, memory: 16Gi}
  storage:
    checkpoints: {enabled: true, size: 1Gi}
"""


def job(name, command, gpus=2, **spec):
    lines = "".join(f"  {key}: {value}\n" for key, value in spec.items())
    return f"""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}}}
spec:
  jobQueue: q
  numGPUs: {gpus}
  command: '{command}'
{lines}"""


def status(m, name):
    return (m.get("torchrunjob", name) or {}).get("status", {})


def pods(m, name):
    return [p for p in m.get("pods") if p["metadata"]["name"].startswith(f"{name}-worker-")]


def wait_phase(m, name, *phases, limit=120):
    return wait_for(lambda: status(m, name).get("phase") in phases and status(m, name),
                    f"{name} to be {' or '.join(phases)}", limit)


def need_torch():
    if not torch_pythons():
        raise Skip("no Python here can import torch")


def training(steps, *more):
    return f"python3 {TRAIN} --steps {steps} --checkpoint-dir /checkpoints/run {' '.join(more)}"


def test_a_failed_rank_restarts_all_from_the_checkpoint():
    need_torch()
    with Muster(nodes=2, gpus_per_node=2, flags=NODES, pytorch="ranks") as m:
        m.apply(QUEUE)
        m.apply(job("t", training(40, "--fail-at-step", "22"), gpus=4, reliability="{maxRestarts: 2}"))
        end = wait_phase(m, "t", "Succeeded", "Failed", limit=200)
        check(end["phase"] == "Succeeded", end["message"])
        check((end["restarts"], end["generation"], end["preemptions"]) == (1, 1, 0), f"counted wrong: {end}")
        text = m.said("t-worker-0")
        check("resumed at step 20" in text and "done: 40 steps" in text, text)
        # The rank that failed, not a peer in the other pod that lost its connection to it a moment later.
        check(end["failure"]["exitCode"] == 3, f"the failure is not the first rank's: {end['failure']}")
        check("ended with exit code 3 at 20" in end["failure"]["message"], f"{end['failure']}")


def test_the_budget_of_restarts_ends_and_a_missing_command_is_not_tried_again():
    need_torch()
    with Muster(nodes=1, gpus_per_node=4, flags=NODES) as m:
        m.apply(QUEUE)
        m.apply(job("f", "exit 9", gpus=1, reliability="{maxRestarts: 1}"))
        m.apply(job("missing", "no-such-program --now", gpus=1))
        m.apply(job("typo", "python3 /no-such-script.py", gpus=1))
        end = wait_phase(m, "f", "Failed")
        check(end["restarts"] == 1 and end["exitCode"] == 9, f"{end}")
        check("all 1 restarts are used up" in end["message"], end["message"])
        end = wait_phase(m, "typo", "Failed")
        check(end["restarts"] == 0 and "/no-such-script.py" in end["message"], f"{end}")
        end = wait_phase(m, "missing", "Failed")
        check(end["restarts"] == 0 and end["exitCode"] == 127, f"{end}")
        check("command not found" in end["message"], end["message"])
        story = m.kubectl("describe", "torchrunjob", "f").stdout
        for word in ("Queued", "Running", "Restarting", "Failed"):
            check(word in story.split("Events:")[1], f"{word} is not in the story:\n{story}")


def test_a_gang_that_restarts_keeps_its_gpus_while_another_job_waits():
    need_torch()
    with Muster(nodes=2, gpus_per_node=1, flags=NODES) as m:
        script = os.path.join(m.folder, "once.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"cd {m.folder}\nuntil test -e go; do sleep 0.1; done\n"
                    "mkdir failed 2>/dev/null && exit 7\nexec sleep 300\n")
        m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))
        m.apply(job("gang", f"sh {script}", gpus=2, reliability="{maxRestarts: 2}"))
        wait_phase(m, "gang", "Running")
        m.apply(job("rival", "sleep 300", gpus=1))
        wait_phase(m, "rival", "Queued")
        before = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods(m, "gang")}
        with open(os.path.join(m.folder, "go"), "w", encoding="utf-8"):
            pass
        wait_for(lambda: status(m, "gang").get("restarts") == 1, "the gang to restart")
        wait_for(lambda: status(m, "gang").get("phase") == "Running" and status(m, "gang").get("generation") == 1,
                 "the gang to run again")
        after = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods(m, "gang")}
        check(before == after, f"the gang was at {before} and is at {after}")
        check(not any(p["spec"].get("nodeName") for p in pods(m, "rival")), "the other job took a GPU")
        check(status(m, "rival")["phase"] == "Queued", f"{status(m, 'rival')}")
        # What is held goes with the job, at once.
        m.kubectl("delete", "torchrunjob", "gang")
        wait_phase(m, "rival", "Running")


def test_a_deleted_pod_costs_no_restart_and_suspension_keeps_the_work():
    need_torch()
    with Muster(nodes=2, gpus_per_node=2, flags=NODES) as m:
        m.apply(QUEUE.replace("gpus: 2", "gpus: 1"))  # two pods with a rank each, as they are started three times
        # As PyTorch trains it is above.
        m.apply(job("s", f"python3 {STEPS} 60 0.3", gpus=2, reliability="{maxRestarts: 0}"))
        trained = lambda text: lambda: text in m.said("s-worker-0", ok=False)
        wait_for(trained("step 10/60"), "ten steps", 90)
        m.kubectl("delete", "pod", "s-worker-1", "--wait=false")
        wait_for(lambda: status(m, "s").get("generation") == 1, "a new generation", 60)
        wait_for(trained("resumed at step"), "the training to go on", 120)
        m.kubectl("patch", "torchrunjob", "s", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_phase(m, "s", "Suspended", limit=60)
        wait_for(lambda: not m.get("pods"), "the pods to go", 60)
        m.kubectl("patch", "torchrunjob", "s", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        end = wait_phase(m, "s", "Succeeded", "Failed", limit=150)
        check(end["phase"] == "Succeeded", end["message"])
        check((end["restarts"], end["generation"], end["preemptions"]) == (0, 2, 1), f"counted wrong: {end}")
        check("done: 60 steps" in m.said("s-worker-0"), "the training did not end")


def test_time_to_live_and_deadline():
    need_torch()
    with Muster(nodes=1, gpus_per_node=4, flags=NODES) as m:
        m.apply(QUEUE)
        m.apply(job("gone", "true", gpus=1, reliability="{ttlSecondsAfterFinished: 2}"))
        m.apply(job("late", "sleep 600", gpus=1, reliability="{activeDeadlineSeconds: 2}"))
        end = wait_phase(m, "late", "TimedOut")
        check("activeDeadlineSeconds (2)" in end["message"], end["message"])
        wait_for(lambda: m.get("torchrunjob", "gone") is None, "the finished job to be removed", 90)
        wait_for(lambda: not [p for p in m.get("pods") if p["metadata"]["name"].startswith("gone-")],
                 "its pods to go", 30)
        check(m.get("pvc", "q-checkpoints"), "the checkpoints went with the job")
        check(not [p for p in m.get("pods") if p["status"]["phase"] == "Running"], "a pod is left over")


def test_every_wait_says_why():
    with Muster(nodes=2, gpus_per_node=4, flags=(*NODES, "--node-labels", "torchrun.ai/gpu-type=a100")) as m:
        m.apply(QUEUE)
        m.apply("""
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: bad}
spec:
  podTemplate: {spec: {containers: [{name: main, image: x}]}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: big}
spec:
  nodeResources: {gpus: 8}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: h100}
spec:
  nodeResources: {gpus: 4, gpuType: h100-80gb}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: slow}
spec:
  nodeResources: {gpus: 4}
  storage: {workspace: {enabled: true, storageClass: tape}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: limited}
spec:
  queue: {name: limited, resources: {gpu: {quota: 1, limit: 1}}}
  nodeResources: {gpus: 4}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: lost}
spec:
  nodeResources: {gpus: 4}
  storage: {datasets: {enabled: true, existingClaim: imagenet}}
""")
        cases = {
            "no-queue": ("nope", 1, "Pending", 'TorchrunQueue "nope" does not exist'),
            "bad-template": ("bad", 1, "Pending", 'the first container is named "main"'),
            "too-big": ("big", 8, "Queued", "GPU"),
            "no-type": ("h100", 1, "Pending", 'no node has GPUs of type "h100-80gb"'),
            "no-class": ("slow", 1, "Provisioning", "StorageClass tape"),
            "no-claim": ("lost", 1, "Provisioning", "PersistentVolumeClaim imagenet (datasets) does not exist"),
        }
        for name, (queue, gpus, _, _) in cases.items():
            m.apply(job(name, "true", gpus=gpus).replace("jobQueue: q", f"jobQueue: {queue}"))
        said = m.kubectl("create", "-f", "-", input=job("over-limit", "true", gpus=2).replace("jobQueue: q", "jobQueue: limited"),
                         ok=False)
        check("queue limited may never have more than 1; ask for fewer" in said.stderr, said.stderr)
        for name, (_, _, phase, words) in cases.items():
            def says():
                now = status(m, name)
                return now.get("phase") == phase and words.lower() in now.get("message", "").lower()
            try:
                wait_for(says, f"{name} to say why it waits", 30)
            except AssertionError as e:
                raise AssertionError(f"{e}: {status(m, name)}") from e
        check(not m.get("pods") or all(not p["spec"].get("nodeName") for p in m.get("pods")), "something runs")
        invalid = m.get("torchrunqueue", "bad")["status"]
        check(invalid["phase"] == "Updating", f"{invalid}")
        check([c for c in invalid["conditions"] if c["type"] == "Valid" and c["status"] == "False"], f"{invalid}")


@needs("a warning of the server about a queue that is deleted")
def test_queues_of_one_name_in_two_namespaces_and_a_queue_deleted_under_its_job():
    with Muster(nodes=1, gpus_per_node=1, flags=NODES) as m:
        m.apply(QUEUE)
        wait_for(lambda: (m.get("torchrunqueue", "q").get("status") or {}).get("phase") == "Active", "the first queue")
        m.kubectl("create", "namespace", "other")
        m.kubectl("apply", "-n", "other", "-f", "-", input=QUEUE)
        told = wait_for(lambda: (m.get("torchrunqueue", "q", ns="other").get("status") or {}).get("message"), "the second queue")
        check("scheduling queue q belongs to TorchrunQueue default/q" in told, told)

        m.apply(job("waits", "true", gpus=2))
        wait_for(lambda: status(m, "waits").get("phase") == "Queued", "the job to wait")
        done = m.kubectl("delete", "torchrunqueue", "q")
        check("1 TorchrunJobs that have not ended use this queue" in done.stderr, f"no warning: {done.stderr}")
        wait_for(lambda: "does not exist" in status(m, "waits").get("message", ""), "the job to say so")
        check(m.get("queue", "q"), "the scheduling queue went under its job")
        m.kubectl("delete", "torchrunjob", "waits")
        # Whoever waited for the name has it now.
        wait_for(lambda: m.get("torchrunqueue", "q", ns="other")["status"]["phase"] == "Active", "the second queue to have it")
