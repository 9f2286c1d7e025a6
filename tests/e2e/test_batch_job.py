"""batch/v1 Jobs: counted once, retried, indexed, suspended, removed after their time."""

from harness import Muster, check, wait_for
from kubeflow import CLAIM, create as objects

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %(name)s}
spec:
  %(spec)s
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: ubuntu, command: [sh, -c, '%(command)s']}]
"""


def create(m, name, command, spec="backoffLimit: 6"):
    m.new(JOB % {"name": name, "command": command, "spec": spec})


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


def test_policies_and_deletion():
    with Muster() as m:
        indexed = "completionMode: Indexed\n  completions: 3\n  parallelism: 3\n  "
        create(m, "perindex", "test $JOB_COMPLETION_INDEX != 1", indexed + "backoffLimitPerIndex: 0")
        wait_for(lambda: condition(m, "perindex", "Failed"), "the job with a bad index to fail", 60)
        got = status(m, "perindex")
        check(condition(m, "perindex", "Failed")[0]["reason"] == "FailedIndexes", str(got))
        check((got["completedIndexes"], got["failedIndexes"]) == ("0,2", "1"), str(got))

        create(m, "toomany", "exit 1", indexed + "backoffLimitPerIndex: 0\n  maxFailedIndexes: 1")
        wait_for(lambda: condition(m, "toomany", "Failed"), "too many indexes to fail", 60)
        check(condition(m, "toomany", "Failed")[0]["reason"] == "MaxFailedIndexesExceeded", str(status(m, "toomany")))

        rule = "podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}"
        create(m, "final", "exit 42", rule)
        wait_for(lambda: condition(m, "final", "Failed"), "the final exit code to end the job", 60)
        check(condition(m, "final", "Failed")[0]["reason"] == "PodFailurePolicy", str(status(m, "final")))

        create(m, "leader", "test $JOB_COMPLETION_INDEX = 0 || sleep 600",
               indexed + 'successPolicy: {rules: [{succeededIndexes: "0"}]}')
        m.kubectl("wait", "job/leader", "--for=condition=complete", "--timeout=60s", limit=90)
        wait_for(lambda: not status(m, "leader").get("active"), "the other indexes to be ended")

        create(m, "gone", "sleep 600", "parallelism: 2")
        wait_for(lambda: status(m, "gone").get("ready") == 2, "the job to run")
        m.kubectl("delete", "job", "gone", "--timeout=30s")
        create(m, "gone", "true", "backoffLimit: 0")
        m.kubectl("wait", "job/gone", "--for=condition=complete", "--timeout=60s", limit=90)
        wait_for(lambda: len([p for p in m.get("pods") if p["metadata"]["name"].startswith("gone")]) == 1,
                 "the pods of the deleted job to go")


def test_a_failed_pod_is_tried_again_and_parallelism_follows():
    with Muster() as m:
        objects(m, CLAIM)
        kept = "volumes: [{name: kept, persistentVolumeClaim: {claimName: kept}}]\n      containers"
        text = JOB % {"name": "again", "command": "mkdir /kept/again && exit 3; exit 0", "spec": "backoffLimit: 2"}
        text = text.replace("      containers", "      " + kept).replace(
            "image: ubuntu", "image: ubuntu, volumeMounts: [{name: kept, mountPath: /kept}]")
        m.new(text)
        m.kubectl("wait", "job/again", "--for=condition=complete", "--timeout=90s", limit=120)
        check((status(m, "again")["failed"], status(m, "again")["succeeded"]) == (1, 1), str(status(m, "again")))

        create(m, "wide", "sleep 600", "parallelism: 2")
        wait_for(lambda: status(m, "wide").get("ready") == 2, "two pods")
        for count in (4, 1):
            m.kubectl("patch", "job", "wide", "-p", '{"spec":{"parallelism":%d}}' % count)
            wait_for(lambda: status(m, "wide").get("ready") == count and status(m, "wide").get("active") == count,
                     f"{count} pods", 60)


def test_what_cannot_work_is_refused():
    cases = [
        ("completionMode: Indexed\n  parallelism: 2", "spec.completions"),
        ("parallelism: -1", "spec.parallelism"),
        ("backoffLimitPerIndex: 1", "spec.backoffLimitPerIndex"),
        ("completionMode: Some", "spec.completionMode"),
        ("podFailurePolicy: {rules: [{action: Explode, onExitCodes: {operator: In, values: [1]}}]}",
         "spec.podFailurePolicy.rules[0].action"),
        ("podFailurePolicy: {rules: [{action: Ignore}]}", "spec.podFailurePolicy.rules[0]"),
        ("successPolicy: {rules: []}\n  completionMode: Indexed\n  completions: 1", "spec.successPolicy.rules"),
    ]
    with Muster() as m:
        for spec, field in cases:
            done = m.kubectl("create", "-f", "-", ok=False, input=JOB % {"name": "x", "command": "true", "spec": spec})
            check(done.returncode != 0 and field in done.stderr, f"{spec}: {done.stderr}")
        create(m, "x", "sleep 600")
        done = m.kubectl("patch", "job", "x", ok=False, *[
            "-p", '{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}'])
        check("spec.template" in done.stderr and "immutable" in done.stderr, done.stderr)
