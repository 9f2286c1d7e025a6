"""batch/v1 Jobs: counted once, retried, indexed, suspended, removed after their time."""

from harness import Muster, check, wait_for

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %(name)s}
spec:
  %(spec)s
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: ubuntu, command: [sh, -c, '%(command)s']}]
"""


def create(m, name, command, spec="backoffLimit: 6"):
    m.kubectl("create", "-f", "-", input=JOB % {"name": name, "command": command, "spec": spec})


def status(m, name):
    return (m.get("job", name) or {}).get("status", {})


def condition(m, name, kind):
    return [c for c in status(m, name).get("conditions", []) if c["type"] == kind and c["status"] == "True"]


def test_jobs():
    with Muster() as m:
        create(m, "fine", "echo index $JOB_COMPLETION_INDEX", "completionMode: Indexed\n  completions: 3\n  parallelism: 2")
        m.kubectl("wait", "job/fine", "--for=condition=complete", "--timeout=60s", limit=90)
        check(status(m, "fine")["completedIndexes"] == "0-2", f"indexes: {status(m, 'fine')}")
        logs = m.kubectl("logs", "-l", "job-name=fine", "--tail=-1").stdout
        check(sorted(logs.split()) == sorted("index 0 index 1 index 2".split()), f"logs: {logs}")
        wait_for(lambda: not any(p["metadata"].get("finalizers") for p in m.get("pods")),
                 "counted pods to lose their finalizer")

        create(m, "bad", "exit 3", "backoffLimit: 0")
        wait_for(lambda: condition(m, "bad", "Failed"), "the failing job to fail", 60)
        check(condition(m, "bad", "Failed")[0]["reason"] == "BackoffLimitExceeded", str(status(m, "bad")))
        check(status(m, "bad")["failed"] == 1, str(status(m, "bad")))

        create(m, "sleepy", "sleep 600", "suspend: true")
        wait_for(lambda: condition(m, "sleepy", "Suspended"), "the job to be suspended")
        check(not [p for p in m.get("pods") if p["metadata"]["name"].startswith("sleepy")],
              "a suspended job has pods")
        m.kubectl("patch", "job", "sleepy", "-p", '{"spec":{"suspend":false}}')
        wait_for(lambda: status(m, "sleepy").get("ready") == 1, "the resumed job to run")
        m.kubectl("patch", "job", "sleepy", "-p", '{"spec":{"activeDeadlineSeconds":1}}')
        wait_for(lambda: condition(m, "sleepy", "Failed"), "the deadline to pass")
        check(condition(m, "sleepy", "Failed")[0]["reason"] == "DeadlineExceeded", str(status(m, "sleepy")))

        create(m, "brief", "true", "ttlSecondsAfterFinished: 1")
        wait_for(lambda: m.get("job", "brief") is None, "the finished job to be removed", 60)
        wait_for(lambda: not [p for p in m.get("pods") if p["metadata"]["name"].startswith("brief")],
                 "its pods to go with it")
