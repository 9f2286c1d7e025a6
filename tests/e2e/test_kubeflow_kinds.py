"""The training kinds of kubeflow.org: what becomes of a job of each kind."""

from harness import Muster, check, wait_for
from kubeflow import CLAIM, KINDS, conditions, create, job, once, pods, refused, status, wait_condition

NODES = ("--cpus-per-node", "64", "--memory-per-node", "64Gi")


def test_jobs_of_every_kind_succeed_and_fail():
    with Muster(flags=NODES) as m:
        for kind in KINDS:
            low = kind.lower()
            chief = "exit 0" if KINDS[kind][2] else None
            create(m, job(kind, f"{low}-fine", chief=chief, worker="exit 0", workers=2, run={"cleanPodPolicy": "All"}),
                   job(kind, f"{low}-bad", worker="exit 7", restart="Never"),
                   job(kind, f"{low}-brief", chief=chief, worker="exit 0", run={"ttlSecondsAfterFinished": 0}),
                   job(kind, f"{low}-late", run={"activeDeadlineSeconds": 1}))
        for kind in KINDS:
            low = kind.lower()
            seen = wait_condition(m, kind, f"{low}-fine", "Succeeded")
            check(seen["exitCode"] == 0 and seen["completionTime"], f"{kind}: {seen}")
            check(seen["conditions"][-1]["reason"] == f"{kind}Succeeded", f"{kind}: {seen['conditions']}")
            wait_for(lambda: not pods(m, f"{low}-fine"), f"the pods of {low}-fine to go")
            seen = wait_condition(m, kind, f"{low}-bad", "Failed")
            check(seen["failure"]["exitCode"] == 7, f"{kind}: {seen}")
            check("exit status 7" in seen["message"], f"{kind}: {seen['message']}")
            check(conditions(m, kind, f"{low}-bad").get("Running") != "True", "a failed job still says Running")
            wait_for(lambda: m.get(KINDS[kind][0], f"{low}-brief") is None, f"{low}-brief to be removed")
            seen = wait_condition(m, kind, f"{low}-late", "Failed")
            check(seen["phase"] == "TimedOut", f"{kind}: {seen}")
            wait_for(lambda: not pods(m, f"{low}-late"), f"the pods of {low}-late to be stopped")


def test_jobs_of_every_kind_restart():
    with Muster(flags=NODES) as m:
        create(m, CLAIM)
        for kind in KINDS:
            low = kind.lower()
            create(m, job(kind, f"{low}-again", worker=once(f"{low}-again", 3), run={"backoffLimit": 3}),
                   job(kind, f"{low}-signal", worker=once(f"{low}-signal", 137), restart="ExitCode"),
                   job(kind, f"{low}-over", worker="exit 3", run={"backoffLimit": 0}))
        for kind in KINDS:
            low = kind.lower()
            # A container that is restarted in place counts as well as a pod that is made anew.
            wait_for(lambda: sum(status(m, kind, f"{low}-again").get(k, 0)
                                 for k in ("restarts", "containerRestarts")) == 1
                     and conditions(m, kind, f"{low}-again").get("Running") == "True",
                     f"{low}-again to run again", 60)
            wait_for(lambda: status(m, kind, f"{low}-signal").get("restarts") == 1
                     and conditions(m, kind, f"{low}-signal").get("Running") == "True",
                     f"{low}-signal to run again", 60)
            wait_condition(m, kind, f"{low}-over", "Failed")


def test_jobs_of_every_kind_are_suspended_resumed_and_scaled():
    with Muster(flags=NODES) as m:
        for kind in KINDS:
            create(m, job(kind, kind.lower(), workers=2))
        for kind in KINDS:
            plural, member, chief, _ = KINDS[kind]
            name = kind.lower()
            count = 3 if chief else 2
            wait_for(lambda: list(pods(m, name).values()) == ["Running"] * count, f"{name} to run whole", 60)
            m.kubectl("patch", plural, name, "--type=merge", "-p", '{"spec":{"runPolicy":{"suspend":true}}}')
            wait_condition(m, kind, name, "Suspended")
            check(conditions(m, kind, name)["Running"] == "False", f"{kind}: {conditions(m, kind, name)}")
            wait_for(lambda: not [p for p in m.get("pods") if p["metadata"]["name"].startswith(name + "-")],
                     f"the pods of {name} to go")
            m.kubectl("patch", plural, name, "--type=merge", "-p",
                      '{"spec":{"runPolicy":{"suspend":false},"%s":{"Worker":{"replicas":3}}}}' % member)
            wait_for(lambda: list(pods(m, name).values()) == ["Running"] * (count + 1), f"{name} to run larger", 60)
            wait_for(lambda: conditions(m, kind, name) == {"Created": "True", "Running": "True", "Suspended": "False"},
                     f"{name} to say that it runs")
            state = m.kubectl("get", plural, name, "--no-headers").stdout.split()
            check(state[1] == "Running", f"the column says {state}")


def test_a_controller_that_is_switched_off_leaves_its_kind_alone():
    with Muster(flags=(*NODES, "--controllers=-tfjob,-mpijob")) as m:
        create(m, job("TFJob", "theirs"), job("JAXJob", "ours"))
        wait_condition(m, "JAXJob", "ours", "Running")
        check(status(m, "TFJob", "theirs") == {} and not pods(m, "theirs"), "a controller that is off did something")


def without(body, *path):
    """The object less one field."""
    at = body
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    return body


def changed(body, value, *path):
    at = body
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return body


def test_what_cannot_work_is_refused_with_the_name_of_the_field():
    def pytorch(**more):
        return job("PyTorchJob", "bad", **more)
    master, worker = ("spec", "pytorchReplicaSpecs", "Master"), ("spec", "pytorchReplicaSpecs", "Worker")
    first = ("template", "spec", "containers", 0)
    rows = [
        (without(pytorch(), *master, "replicas"), "spec.pytorchReplicaSpecs.Master.replicas"),
        (changed(pytorch(), 2, *master, "replicas"), "spec.pytorchReplicaSpecs.Master.replicas"),
        (changed(pytorch(), "main", *worker, *first, "name"), 'must be named "pytorch"'),
        (without(pytorch(), *worker, *first, "image"), "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image"),
        (changed(pytorch(), [], *worker, "template", "spec", "containers"), "containers"),
        (changed(pytorch(), {}, "spec", "pytorchReplicaSpecs"), "spec.pytorchReplicaSpecs"),
        (changed(pytorch(), pytorch()["spec"]["pytorchReplicaSpecs"]["Worker"], "spec", "pytorchReplicaSpecs", "worker"),
         'supported values: "Master", "Worker"'),
        (changed(pytorch(), "Sometimes", *worker, "restartPolicy"), "restartPolicy"),
        (changed(pytorch(), "1st", "metadata", "name"), "metadata.name"),
        (pytorch(run={"managedBy": "me"}), "spec.runPolicy.managedBy"),
        (pytorch(run={"cleanPodPolicy": "Some"}), "spec.runPolicy.cleanPodPolicy"),
        (pytorch(run={"backoffLimit": -1}), "spec.runPolicy.backoffLimit"),
        (pytorch(elasticPolicy={"minReplicas": 3, "maxReplicas": 2}), "spec.elasticPolicy.maxReplicas"),
        (pytorch(elasticPolicy={"rdzvBackend": "zeus"}), "spec.elasticPolicy.rdzvBackend"),
        (pytorch(elasticPolicy={"nProcPerNode": 2}, nprocPerNode="2"), "spec.elasticPolicy.nProcPerNode"),
        (without(pytorch(elasticPolicy={"minReplicas": 1}), *worker), "spec.elasticPolicy"),
        (pytorch(nprocPerNode="many"), "spec.nprocPerNode"),
        (changed(job("TFJob", "bad"), 2, "spec", "tfReplicaSpecs", "Chief", "replicas"), "spec.tfReplicaSpecs.Chief.replicas"),
        (without(job("XGBoostJob", "bad"), "spec", "xgbReplicaSpecs", "Master"), "spec.xgbReplicaSpecs.Master"),
        (without(job("MPIJob", "bad"), "spec", "mpiReplicaSpecs", "Launcher"), "spec.mpiReplicaSpecs.Launcher"),
        (changed(job("JAXJob", "bad"), "x", "spec", "jaxReplicaSpecs", "Worker", *first, "name"), 'must be named "jax"'),
        (changed(job("PaddleJob", "bad"), "x", "spec", "paddleReplicaSpecs", "Worker", *first, "name"),
         'must be named "paddle"'),
    ]
    with Muster(flags=NODES) as m:
        for body, words in rows:
            said = refused(m, body)
            check(words in said, f"{words!r} is not in {said!r}")
        # What Kubeflow's webhook means to keep as it is, and does not.
        create(m, job("PyTorchJob", "fixed", run={"suspend": True, "managedBy": "kubeflow.org/training-operator",
                                                  "schedulingPolicy": {"queue": "a"}}))
        for patch in ('{"spec":{"runPolicy":{"managedBy":"kueue.x-k8s.io/multikueue"}}}',
                      '{"spec":{"runPolicy":{"schedulingPolicy":{"queue":"b"}}}}'):
            done = m.kubectl("patch", "pytorchjob", "fixed", "--type=merge", "-p", patch, ok=False)
            check(done.returncode != 0 and "immutable" in done.stderr, f"{patch}: {done.stdout}{done.stderr}")
