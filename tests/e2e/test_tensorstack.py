"""PyTorchTrainingJobs of batch.tensorstack.dev: in both spellings, debug, pause and resume, TensorBoard."""

import json
import os
import re
import shutil
import urllib.request

from harness import EXAMPLES, Muster, Skip, check, free_port, python_of_ranks, python_with, torch_pythons, wait_for

JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: %(name)s}
spec:
  %(spec)s
  replicaSpecs: [%(replicas)s]
"""
REPLICA = """{type: %(type)s, replicas: %(count)d, %(more)s template: {spec: {terminationGracePeriodSeconds: 1, containers: [
  {name: pytorch, image: x, command: [sh, -c], args: ['%(command)s']}]}}}"""
FOREVER = 'trap "exit 0" TERM; sleep 600 & wait'


def replica(type, command, count=1, more=""):
    return REPLICA % {"type": type, "command": command, "count": count, "more": more}


def create(m, name, replicas, spec="runPolicy: {cleanUpPolicy: None}"):
    m.new(JOB % {"name": name, "spec": spec, "replicas": ", ".join(replicas)})


def status(m, name):
    return (m.get("pytorchtrainingjob", name) or {}).get("status", {})


def phase(m, name):
    return status(m, name).get("phase")


def conditions(m, name):
    return {c["type"]: c["status"] for c in status(m, name).get("conditions", [])}


def pods(m, name):
    return [p for p in m.get("pods") if p["metadata"]["labels"].get("tensorstack.dev/owner-name") == name]


def patch(m, name, spec):
    m.kubectl("patch", "pytorchtrainingjob", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def test_success_failure_restart_and_clean_up():
    with Muster() as m:
        env = "echo $RANK of $WORLD_SIZE at $MASTER_ADDR"
        create(m, "fine", [replica("master", env), replica("worker", env, 2)])
        wait_for(lambda: phase(m, "fine") == "Succeeded", "the job to succeed", 60)
        logs = m.kubectl("logs", "-l", "tensorstack.dev/owner-name=fine", "--tail=-1").stdout
        check("0 of 3 at fine-master-0" in logs, logs)
        got = status(m, "fine")
        check([t["type"] for t in got["tasks"]] == ["master", "worker"], str(got["tasks"]))
        check(got["tasks"][1]["replicas"] == got["tasks"][1]["replicaStatus"] and len(got["tasks"][1]["replicas"]) == 2, str(got))
        check(got["tasks"][0]["replicas"][0]["containers"][0]["exitCode"] == 0, str(got["tasks"][0]))
        check(conditions(m, "fine") == {"Initialized": "True", "Running": "False", "ReplicaFailure": "False", "Completed": "True",
                                        "Failed": "False", "Paused": "False"}, str(conditions(m, "fine")))

        create(m, "never", [replica("worker", "exit 3")])
        wait_for(lambda: phase(m, "never") == "Failed", "a failure with restartPolicy Never to be final", 60)
        check(status(m, "never")["backoffCount"] == 0, str(status(m, "never")))
        check(conditions(m, "never")["ReplicaFailure"] == "True", str(conditions(m, "never")))

        retry = 'restartPolicy: ExitCode,'
        create(m, "code", [replica("worker", "exit 138", 1, retry)], "runPolicy: {backoffLimit: 1, cleanUpPolicy: All}")
        wait_for(lambda: phase(m, "code") == "Failed", "the restarts to be used up", 60)
        check(status(m, "code")["backoffCount"] == 1, str(status(m, "code")))
        wait_for(lambda: not pods(m, "code"), "all pods to be cleaned up")
        create(m, "final", [replica("worker", "exit 1", 1, retry)], "runPolicy: {backoffLimit: 3}")
        wait_for(lambda: phase(m, "final") == "Failed", "another exit code to be final", 60)
        check(status(m, "final")["backoffCount"] == 0, str(status(m, "final")))

        create(m, "late", [replica("worker", FOREVER)], "runPolicy: {activeDeadlineSeconds: 2, cleanUpPolicy: Unfinished}")
        wait_for(lambda: phase(m, "late") == "Failed", "the deadline to pass", 60)
        wait_for(lambda: not pods(m, "late"), "what runs to be cleaned up")


def test_debug_pause_and_resume():
    with Muster() as m:
        debug = "runMode: {debug: {enable: true, replicaSpecs: [{type: worker, skipInitContainer: true}]}}"
        create(m, "look", [replica("worker", "echo trained; " + FOREVER, 2)], debug)
        wait_for(lambda: phase(m, "look") == "Running", "the debug pods to run")
        found = pods(m, "look")
        check(len(found) == 2 and found[0]["spec"]["containers"][0]["command"] == ["sleep", "inf"], str(found[0]["spec"]))
        said = m.kubectl("exec", "look-worker-1", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE").stdout
        check(said.strip() == "rank 1 of 2", said)
        patch(m, "look", {"runMode": {"debug": {"enable": False}}})
        wait_for(lambda: "trained" in m.said("look-worker-0", ok=False), "the training itself", 60)

        pause = "runMode: {pause: {enabled: false, resumeSpecs: [{type: worker, args: ['echo resumed; %s']}]}}" % FOREVER
        create(m, "stop", [replica("worker", "echo started; " + FOREVER)], pause)
        wait_for(lambda: "started" in m.said("stop-worker-0", ok=False), "the first run")
        patch(m, "stop", {"runMode": {"pause": {"enabled": True}}})
        wait_for(lambda: phase(m, "stop") == "Paused" and not pods(m, "stop"), "the job to pause", 60)
        check(conditions(m, "stop")["Paused"] == "True", str(conditions(m, "stop")))
        wait_for(lambda: status(m, "stop")["aggregate"]["deleted"] == 1, "the stopped pod to be counted as deleted")
        patch(m, "stop", {"runMode": {"pause": {"enabled": False}}})
        wait_for(lambda: "resumed" in m.said("stop-worker-0", ok=False), "the run with resumeSpecs", 60)
        wait_for(lambda: phase(m, "stop") == "Running", "the phase to follow")


def test_queue_priority_and_elastic_size():
    with Muster() as m:
        m.apply("""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: lab}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
""")
        options = ("scheduler: {t9kScheduler: {Queue: lab, priority: 70}}\n  torchrunConfig: {enable: true, procPerNode: \"1\"}\n"
                   "  elastic: {enable: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}")
        m.new((JOB % {"name": "grow", "spec": options, "replicas": replica("node", FOREVER)})
              .replace("command: [sh, -c]", "command: [python]"))
        wait_for(lambda: len(pods(m, "grow")) == 2, "two pods")
        pod = pods(m, "grow")[0]
        command = pod["spec"]["containers"][0]["command"]
        check(command[:2] == ["torchrun", "--nnodes=1:4"] and FOREVER in command, str(command))
        name = pod["metadata"]["annotations"]["pod-group-name"]
        wait_for(lambda: m.get("podgroup", name), f"pod group {name}")
        group = m.get("podgroup", name)["spec"]
        check((group["queue"], group["priorityClassName"], group["minMember"], group["preemptibility"])
              == ("lab", "tensorstack-70", 1, "preemptible"), str(group))
        patch(m, "grow", {"elastic": {"expectedReplicas": 3}})
        wait_for(lambda: len(pods(m, "grow")) == 3, "a third pod")
        larger = '{"spec":{"elastic":{"maxReplicas":9}}}'
        done = m.kubectl("patch", "pytorchtrainingjob", "grow", "--type=merge", "-p", larger, ok=False)
        check("spec.elastic.maxReplicas" in done.stderr, done.stderr)


def test_real_torchrun_on_two_replicas():
    with Muster(nodes=2, path_first=os.path.dirname(python_of_ranks())) as m:
        script = os.path.join(EXAMPLES, "trainjob", "allreduce.py")
        # A port of its own: pods share the machine's network, and torchrun takes whoever listens there for its store.
        options = ('torchrunConfig: {enabled: true, procPerNode: "2", extraOptions: ["--monitor_interval=0.2", '
                   f'"--rdzv_endpoint=reduce-worker-0:{free_port()}"]}}')
        m.new((JOB % {"name": "reduce", "spec": options, "replicas": replica("worker", script, 2)})
              .replace("command: [sh, -c]", "command: [python]"))
        wait_for(lambda: phase(m, "reduce") == "Succeeded", "the training to succeed", 120)
        logs = m.kubectl("logs", "-l", "tensorstack.dev/owner-name=reduce", "--tail=-1").stdout
        # Not by lines: torchrun runs Python unbuffered, and two ranks' lines may share one.
        check(len(re.findall(r"of 4: sum 6(?!\d)", logs)) == 4, logs)


def test_debians_torchrun_needs_no_flags_of_its_own():
    if not any(python == "/usr/bin/python3" and version.startswith("1.") for python, version in torch_pythons()):
        raise Skip("/usr/bin/python3 has no PyTorch 1")
    with Muster(path_first="/usr/bin") as m:
        create(m, "old", [replica("worker", "true")],
               "runPolicy: {cleanUpPolicy: None}\n"
               '  torchrunConfig: {enabled: true, procPerNode: "2", extraOptions: ["--monitor_interval=0.2", "--no_python", '
               '"--rdzv_endpoint=localhost:0"]}')
        wait_for(lambda: phase(m, "old") in ("Succeeded", "Failed"), "the training to end", 120)
        logs = m.kubectl("logs", "-l", "tensorstack.dev/owner-name=old", "--tail=-1").stdout
        check(phase(m, "old") == "Succeeded" and "AttributeError" not in logs, logs)


BOARD = """tensorboardSpec: {logDir: {pvc: [{name: logs, subPath: [run]}]}, resources: {limits: {cpu: 1}}}"""


def tensorboard_folder():
    """Where a Python's tensorboard program is; None when nobody has one."""
    try:
        return os.path.dirname(python_with("tensorboard"))
    except Skip:
        return None


def test_tensorboard():
    with Muster(path_first=tensorboard_folder()) as m:
        m.apply("""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: logs}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
""")
        create(m, "show", [replica("worker", FOREVER)], BOARD)
        board = wait_for(lambda: status(m, "show").get("tensorboard"), "its status")
        check(board.get("dependent", {}).get("kind") == "TensorBoard" or board["action"] == "CreateDependent"
              or board["reason"] == "TensorBoardNotInstalled", str(board))
        program = shutil.which("tensorboard", path=m.env["PATH"])
        if not program:
            wait_for(lambda: status(m, "show")["tensorboard"]["reason"] == "TensorBoardNotInstalled", "the clear word", 60)
            check("pip install tensorboard" in status(m, "show")["tensorboard"]["note"], str(status(m, "show")["tensorboard"]))
            return
        wait_for(lambda: status(m, "show")["tensorboard"]["ready"], "TensorBoard to be ready", 90)
        address = m.get("pod", "show-tensorboard")["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:6006/", timeout=30) as answer:
            check(answer.status == 200 and b"TensorBoard" in answer.read(), "the page")
        m.kubectl("delete", "pytorchtrainingjob", "show")
        wait_for(lambda: m.get("pod", "show-tensorboard") is None, "TensorBoard to go with its job", 60)


def test_a_tensorboard_is_no_rank_of_the_gang():
    """Two workers of 8 GPUs on 8 GPUs: none of them starts, whatever runs beside them."""
    with Muster(gpus_per_node=8) as m:
        m.apply("""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: logs}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
""")
        whole = replica("worker", FOREVER, 2).replace("image: x,", "image: x, resources: {limits: {nvidia.com/gpu: 8}},")
        create(m, "half", [whole], "tensorboardSpec: {logDir: {pvc: [{name: logs, subPath: [run]}]}}")

        def places():
            """The node of each pod of the job, "waits" once the scheduler has said that there is none; None: not known yet."""
            found = {p["metadata"]["name"]: p for p in m.get("pods") if p["metadata"]["name"].startswith("half-")}
            said = {name: {c["type"]: c["status"] for c in p["status"].get("conditions", [])} for name, p in found.items()}
            return {name: p["spec"].get("nodeName") or ("waits" if said[name].get("PodScheduled") == "False" else None)
                    for name, p in found.items()}

        wait_for(lambda: places().get("half-tensorboard") not in (None, "waits"), "the TensorBoard to have a node", 60)
        wait_for(lambda: len(places()) == 3 and all(places().values()), "the workers to be placed or to wait")
        got = places()
        check(got["half-worker-0"] == got["half-worker-1"] == "waits", f"half a gang holds GPUs: {got}")
        groups = {p["metadata"]["name"]: p["metadata"]["annotations"]["pod-group-name"] for p in m.get("pods")}
        check(groups["half-worker-0"] == groups["half-worker-1"] != groups["half-tensorboard"], str(groups))


def test_what_cannot_work_is_refused():
    cases = [
        ("runPolicy: {backoffLimit: -1}", "spec.runPolicy.backoffLimit"),
        ("runPolicy: {activeDeadlineSeconds: 0}", "spec.runPolicy.activeDeadlineSeconds"),
        ("runPolicy: {cleanUpPolicy: Some}", "spec.runPolicy.cleanUpPolicy"),
        ("scheduler: {t9kScheduler: {priority: 5}}", "spec.scheduler.t9kScheduler.queue"),
        ("scheduler: {t9kScheduler: {queue: a, priority: 101}}", "spec.scheduler.t9kScheduler.priority"),
        ("elastic: {enabled: true, minReplicas: 1, maxReplicas: 2}", "spec.torchrunConfig"),
        ("torchrunConfig: {enabled: true}\n  elastic: {enabled: true, minReplicas: 3, maxReplicas: 2}",
         "spec.elastic.maxReplicas"),
        ("torchrunConfig: {enabled: true}\n  elastic: {enabled: true, minReplicas: 1, maxReplicas: 2, expectedReplicas: 3}",
         "spec.elastic.expectedReplicas"),
        ("runMode: {debug: {enabled: true}, pause: {enabled: true}}", "spec.runMode.pause"),
        ("torchrunConfig: {enabled: true, procPerNode: many}", "spec.torchrunConfig.procPerNode"),
        ("runMode: {debug: {enabled: true, replicaSpecs: [{type: other}]}}", "spec.runMode.debug.replicaSpecs"),
    ]
    with Muster() as m:
        for spec, field in cases:
            text = JOB % {"name": "x", "spec": spec, "replicas": replica("worker", "true")}
            done = m.kubectl("create", "-f", "-", ok=False, input=text)
            check(done.returncode != 0 and field in done.stderr, f"{spec}: {done.stderr}")
