"""Jobs of kubeflow.org for tests: short to write down, and what became of them."""

import json

from harness import check, wait_for

KINDS = {
    # kind: (plural, member of spec, chief, container)
    "PyTorchJob": ("pytorchjobs", "pytorchReplicaSpecs", "Master", "pytorch"),
    "TFJob": ("tfjobs", "tfReplicaSpecs", "Chief", "tensorflow"),
    "MPIJob": ("mpijobs", "mpiReplicaSpecs", "Launcher", "mpi"),
    "XGBoostJob": ("xgboostjobs", "xgbReplicaSpecs", "Master", "xgboost"),
    "JAXJob": ("jaxjobs", "jaxReplicaSpecs", None, "jax"),
    "PaddleJob": ("paddlejobs", "paddleReplicaSpecs", "Master", "paddle"),
}
# A container that waits, and ends at once when it is told to: PID 1 does not hear SIGTERM unless it listens.
WAIT = "trap 'exit 0' TERM; sleep 600 & wait"


# What one pod leaves behind for the next: /kept is a volume.
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "kept"},
         "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}}


def once(name, code):
    """A command that fails the first time and waits the second; needs CLAIM."""
    return f"mkdir /kept/{name} 2>/dev/null && exit {code}; {WAIT}"


def role(container, command, replicas=1, restart="OnFailure"):
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    main = {"name": container, "image": "none", "command": argv}
    spec = {"containers": [main]}
    if "/kept" in str(command):
        main["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
        spec["volumes"] = [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]
    return {"replicas": replicas, "restartPolicy": restart, "template": {"spec": spec}}


def job(kind, name, chief=WAIT, worker=WAIT, workers=1, restart="OnFailure", run=None, annotations=None, **spec):
    """One chief (where the kind has one) and `workers`; the shell commands that they run."""
    _, member, title, container = KINDS[kind]
    roles = {"Worker": role(container, worker, workers, restart)}
    if title:
        roles[title] = role(container, chief, 1, restart)
    return {"apiVersion": "kubeflow.org/v1", "kind": kind,
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {member: roles, "runPolicy": run or {}, **spec}}


def create(m, *objects):
    m.new(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def refused(m, *objects):
    """The message with which the server refuses an object."""
    done = m.kubectl("create", "-f", "-", ok=False,
                     input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    check(done.returncode != 0, f"accepted: {objects}")
    return done.stderr


def status(m, kind, name):
    return (m.get(KINDS[kind][0], name) or {}).get("status", {})


def conditions(m, kind, name):
    """{type: status} of a job."""
    return {c["type"]: c["status"] for c in status(m, kind, name).get("conditions", [])}


def wait_condition(m, kind, name, which, limit=60):
    wait_for(lambda: conditions(m, kind, name).get(which) == "True", f"{kind} {name} to be {which}", limit)
    return status(m, kind, name)


def pods(m, name):
    """{name: phase} of the pods of a job that are not being deleted."""
    return {p["metadata"]["name"]: p["status"].get("phase") for p in m.get("pods")
            if p["metadata"]["labels"].get("training.kubeflow.org/job-name") == name
            and "deletionTimestamp" not in p["metadata"]}
