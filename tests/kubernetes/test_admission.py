"""What the shipped admission policies refuse, in words, and what they leave alone."""

import os

from cluster import ROOT, Cluster
from harness import check, wait_for

POLICIES = os.path.join(ROOT, "deploy", "admission.yaml")
SHARE = """
apiVersion: v1
kind: Pod
metadata: {name: share, namespace: default, annotations: {gpu-fraction: "0.5"}}
spec:
  schedulerName: SCHEDULER
  containers: [{name: c, image: i}]
"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: policy-test}
spec: SPEC
"""


def refused(plane, manifest, words):
    done = plane.kubectl("create", "--dry-run=server", "-f", "-", input=manifest, ok=False)
    return done.returncode != 0 and words in done.stderr


def test_policies_refuse_what_cannot_work_and_leave_foreign_pods_alone():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", POLICIES)
    try:
        ours = SHARE.replace("SCHEDULER", "kai-scheduler")
        wait_for(lambda: refused(plane, ours, "sharing a GPU is not possible"), "a share to be refused")
        check(not refused(plane, SHARE.replace("SCHEDULER", "default-scheduler"), ""), "a foreign pod is let through")
        resources = "{gpu: {quota: 1, limit: 1, overQuotaWeight: 1}}"
        check(refused(plane, QUEUE.replace("SPEC", f"{{parentQueue: policy-test, resources: {resources}}}"),
                      "cannot be its own parent"), "a queue below itself is refused")
        check(not refused(plane, QUEUE.replace("SPEC", f"{{resources: {resources}}}"), ""), "a good queue is let through")
    finally:
        plane.kubectl("delete", "-f", POLICIES)
