"""JobSets: several Jobs that succeed, fail, restart, stop and go together."""

from harness import Muster, check, wait_for

SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %(name)s, labels: {kai.scheduler/queue: default-queue}}
spec:
  %(spec)s
  replicatedJobs: [%(parts)s]
"""
PART = """{name: %(name)s, replicas: %(replicas)d, %(more)s template: {spec: {parallelism: %(pods)d, completions: %(pods)d,
  backoffLimit: 0, template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [
  {name: main, image: ubuntu, command: [sh, -c, '%(command)s']}]}}}}}"""


def part(name, command, replicas=1, pods=1, more=""):
    return PART % {"name": name, "command": command, "replicas": replicas, "pods": pods, "more": more}


def create(m, name, parts, spec="suspend: false"):
    m.new(SET % {"name": name, "spec": spec, "parts": ", ".join(parts)})


def status(m, name):
    return (m.get("jobset", name) or {}).get("status", {})


def condition(m, name, kind):
    found = [c for c in status(m, name).get("conditions", []) if c["type"] == kind and c["status"] == "True"]
    return found[0] if found else None


def pods(m, name):
    return [p for p in m.get("pods") if p["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == name]


def counts(m, name, part, *keys, seen=None):
    for entry in (seen or status(m, name)).get("replicatedJobsStatus", []):
        if entry["name"] == part:
            return tuple(entry[k] for k in keys)
    return None


def test_pods_find_each_other_as_one_gang_and_the_set_completes():
    with Muster() as m:
        look = "until getent hosts fine-w-0-1.fine && getent hosts fine-w-1-0.fine; do :; done; echo met; sleep 600"
        create(m, "fine", [part("w", look, replicas=2, pods=2), part("end", "until test -e /tmp/end-of-it; do :; done")],
               "successPolicy: {operator: All, targetReplicatedJobs: [end]}")
        wait_for(lambda: counts(m, "fine", "w", "ready") == (2,), "the pods to run")
        selector = "jobset.sigs.k8s.io/jobset-name=fine,jobset.sigs.k8s.io/replicatedjob-name=w"
        wait_for(lambda: m.kubectl("logs", "-l", selector, "--tail=-1").stdout.count("met") == 4, "the pods to find each other")
        groups = {p["metadata"]["annotations"]["pod-group-name"] for p in pods(m, "fine")}
        check(len(groups) == 1, f"one gang: {groups}")
        group = m.get("podgroup", groups.pop())
        least = {s["name"]: (s.get("minSubGroup"), s.get("minMember")) for s in group["spec"]["subGroups"]}
        check(group["spec"]["minSubGroup"] == 2 and group["spec"]["queue"] == "default-queue", str(group["spec"]))
        check(least == {"w": (2, None), "w-replica-0": (None, 2), "w-replica-1": (None, 2), "end": (1, None),
                        "end-replica-0": (None, 1)}, str(least))
        end = [p["metadata"]["name"] for p in pods(m, "fine") if "-end-" in p["metadata"]["name"]][0]
        m.kubectl("exec", end, "--", "touch", "/tmp/end-of-it", ok=False)  # the end may come before the answer
        m.kubectl("wait", "jobset/fine", "--for=condition=Completed", "--timeout=60s", limit=90)
        check(counts(m, "fine", "end", "succeeded", "failed") == (1, 0), str(status(m, "fine")))
        check(status(m, "fine")["terminalState"] == "Completed", str(status(m, "fine")))
        table = m.kubectl("get", "jobset").stdout.split()
        check(table[:5] == ["NAME", "TERMINALSTATE", "RESTARTS", "COMPLETED", "SUSPENDED"] and "Completed" in table, str(table))
        wait_for(lambda: not [p for p in pods(m, "fine") if p["status"]["phase"] == "Running"], "the rest to be ended")
        m.kubectl("delete", "jobset", "fine", "--timeout=30s")
        wait_for(lambda: not pods(m, "fine") and not m.get("jobs") and not m.get("service", "fine"), "all of it to go")


def test_failure_restart_and_rules():
    with Muster() as m:
        create(m, "bad", [part("w", "exit 3"), part("v", "sleep 600")])
        wait_for(lambda: condition(m, "bad", "Failed"), "the set to fail", 60)
        check(condition(m, "bad", "Failed")["reason"] == "FailedJobs", str(status(m, "bad")))
        wait_for(lambda: not [p for p in pods(m, "bad") if p["status"]["phase"] == "Running"], "the other part to be ended")

        once = "test $JOB_ATTEMPT != 0 || exit 3"
        spec = "failurePolicy: {maxRestarts: 2, restartStrategy: BlockingRecreate}"
        label = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
        env = f", env: [{{name: JOB_ATTEMPT, valueFrom: {{fieldRef: {{fieldPath: \"{label}\"}}}}}}]"
        create(m, "again", [part("w", once).replace("]}]", "]" + env + "}]"), part("v", "true")], spec)
        m.kubectl("wait", "jobset/again", "--for=condition=Completed", "--timeout=60s", limit=90)
        got = status(m, "again")
        check((got["restarts"], got["restartsCountTowardsMax"]) == (1, 1), str(got))
        events = m.kubectl("get", "events").stdout
        check("RestartJobSetFailurePolicyAction" in events, events)

        late = part("w", "sleep 600").replace("backoffLimit: 0", "backoffLimit: 0, activeDeadlineSeconds: 1")
        create(m, "late", [late, part("v", "sleep 600")])
        wait_for(lambda: condition(m, "late", "Failed"), "a Job's deadline to end the set", 60)
        check("DeadlineExceeded" in condition(m, "late", "Failed")["message"], str(status(m, "late")))
        wait_for(lambda: not [p for p in pods(m, "late") if p["status"]["phase"] == "Running"], "its pods to be ended")

        create(m, "never", [part("w", "exit 3")], "failurePolicy: {maxRestarts: 1}")
        wait_for(lambda: condition(m, "never", "Failed"), "the restarts to be used up", 60)
        check(condition(m, "never", "Failed")["reason"] == "ReachedMaxRestarts", str(status(m, "never")))


def test_suspend_resume_order_and_time_to_live():
    with Muster() as m:
        create(m, "later", [part("w", "sleep 600", pods=2)], "suspend: true")
        wait_for(lambda: condition(m, "later", "Suspended"), "the set to be suspended")
        check(not pods(m, "later"), "a suspended set has pods")
        m.kubectl("patch", "jobset", "later", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        wait_for(lambda: counts(m, "later", "w", "ready") == (1,), "the set to run")
        m.kubectl("patch", "jobset", "later", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_for(lambda: not pods(m, "later") and counts(m, "later", "w", "suspended", "active") == (1, 0), "the pods to go")
        m.kubectl("delete", "jobset", "later", "--timeout=30s")

        parts = [part("first", "sleep 2"), part("second", "true", more="dependsOn: [{name: first, status: Complete}],")]
        create(m, "order", parts, "ttlSecondsAfterFinished: 1")

        def first_runs():
            seen = status(m, "order")
            return counts(m, "order", "first", "active", seen=seen) == (1,) and seen
        seen = wait_for(first_runs, "the first part to run")
        check(counts(m, "order", "second", "active", "succeeded", seen=seen) == (0, 0), "the second did not wait")
        wait_for(lambda: m.get("jobset", "order") is None, "the finished set to be removed", 60)

        create(m, "inorder", [part("first", "sleep 600"), part("second", "sleep 600")],
               "startupPolicy: {startupPolicyOrder: InOrder}")
        wait_for(lambda: condition(m, "inorder", "StartupPolicyCompleted"), "both parts to start")
        m.kubectl("delete", "jobset", "inorder", "--cascade=foreground", "--timeout=30s")
        check(not pods(m, "inorder"), "pods outlive a foreground deletion")


def test_what_cannot_work_is_refused():
    cases = [
        ("successPolicy: {operator: All, targetReplicatedJobs: [x]}", "spec.successPolicy.targetReplicatedJobs"),
        ("coordinator: {replicatedJob: x}", "spec.coordinator.replicatedJob"),
        ("coordinator: {replicatedJob: w, jobIndex: 1}", "spec.coordinator.jobIndex"),
        ("failurePolicy: {rules: [{action: Explode}]}", "spec.failurePolicy.rules[0].action"),
        ("failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: [\"(\"]}]}", "onJobFailureMessagePatterns"),
        ("managedBy: nobody", "spec.managedBy"),
        ("startupPolicy: {startupPolicyOrder: Some}", "spec.startupPolicy.startupPolicyOrder"),
    ]
    with Muster() as m:
        for spec, field in cases:
            done = m.kubectl("create", "-f", "-", ok=False, input=SET % {"name": "x", "spec": spec, "parts": part("w", "true")})
            check(done.returncode != 0 and field in done.stderr, f"{spec}: {done.stderr}")
        bad = [part("w", "true", more="dependsOn: [{name: later, status: Ready}],"), part("later", "true")]
        wrong = SET % {"name": "x", "spec": "suspend: false", "parts": ", ".join(bad)}
        done = m.kubectl("create", "-f", "-", ok=False, input=wrong)
        check("spec.replicatedJobs[0].dependsOn" in done.stderr, done.stderr)
        long = SET % {"name": "x" * 60, "spec": "suspend: false", "parts": part("worker", "true")}
        check("63 characters" in m.kubectl("create", "-f", "-", ok=False, input=long).stderr, "a long name was accepted")
        create(m, "x", [part("w", "sleep 600")])
        done = m.kubectl("patch", "jobset", "x", "--type=merge", "-p", '{"spec":{"successPolicy":{"operator":"Any"}}}', ok=False)
        check("spec.successPolicy" in done.stderr and "immutable" in done.stderr, done.stderr)
