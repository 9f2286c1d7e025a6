"""muster explain: the reason of a wait in words and as a record, and both gone when it is over."""

import json

from harness import Muster, binary, check, run, wait_for

PODS = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {kai.scheduler/queue: default-queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
        - {name: c, image: i, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 4}}}
"""


def test_a_wait_is_explained_in_words_and_as_a_record():
    with Muster(nodes=1, gpus_per_node=4) as m:
        def explain(*flags):
            return run([binary("muster"), "explain", *flags, "default/second"], env=m.env).stdout

        m.apply(PODS.replace("NAME", "first"))
        wait_for(lambda: any(p["status"].get("phase") == "Running" for p in m.get("pods")), "the first to run")
        m.apply(PODS.replace("NAME", "second"))
        wait_for(lambda: any(g.get("status", {}).get("explanation") for g in m.get("podgroups")), "a record")

        text = explain()
        for words in ("Job", "needs 4 GPUs", "Would help", "1 of 1 that wait in its queue", "default-queue"):
            check(words in text, f"no {words!r} in\n{text}")
        record = json.loads(explain("-o", "json"))
        check(record["kind"] == "Job" and record["queue"] == "default-queue", record)
        why = record["explanation"]
        check(why["request"]["gpu"] == 4 and why["free"]["gpu"] == 0 and why["total"]["gpu"] == 4, why)
        check(why["place"] == 1 and why["queue"]["allocated"]["gpu"] == 4, why)

        m.kubectl("delete", "job", "first", "--wait=false")
        wait_for(lambda: all("explanation" not in g.get("status", {}) and not g.get("status", {}).get("message")
                             for g in m.get("podgroups") if "second" in g["metadata"]["name"]), "the record to go")
        check("Would help" not in explain(), explain())
