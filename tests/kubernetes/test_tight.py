"""Namespaces as careful administrators make them: Pod Security `restricted`, and quotas."""

from cluster import Cluster
from harness import wait_for

TIGHT = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: all, namespace: tight}
spec: {hard: {requests.cpu: "32", requests.memory: 64Gi}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: team, namespace: tight}
spec:
  nodeResources: {gpus: 8, cpus: 8, memory: 16Gi}
  podSecurityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: careful, namespace: tight}
spec:
  jobQueue: team
  command: python train.py
  numGPUs: 16
  distributed: {rdzvBackend: etcd-v2}
"""


def test_a_restricted_namespace_with_a_quota_runs_a_job_with_a_sync_pod():
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=["--launcher-image=muster:1"]) as m:
        m.kubectl("create", "namespace", "tight")
        try:
            m.kubectl("label", "namespace", "tight", "pod-security.kubernetes.io/enforce=restricted")
            wait_for(lambda: m.get("serviceaccount", "default", ns="tight"), "the account of pods", 60)
            m.apply(TIGHT)

            def names():
                return sorted(p["metadata"]["name"] for p in m.get("pods", ns="tight"))
            wait_for(lambda: names() == ["careful-sync-0", "careful-worker-0", "careful-worker-1"],
                     "the sync pod and the workers", 90)
        finally:
            m.kubectl("delete", "namespace", "tight", "--wait=false", ok=False)
