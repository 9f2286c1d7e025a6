"""Gangs that lack nodes ask Cluster Autoscaler for all of them: the objects, on a real API server. Nobody plays the autoscaler; a
node that grows stands for those that it adds."""

import json

from cluster import Cluster
from harness import check, wait_for

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: provisioningrequests.autoscaling.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/autoscaler/pull/5848"}
spec:
  group: autoscaling.x-k8s.io
  scope: Namespaced
  names: {kind: ProvisioningRequest, plural: provisioningrequests, singular: provisioningrequest, shortNames: [provreq]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: NAME, namespace: default}
spec: {minMember: 2, queue: default-queue}
""" + "".join(f"""---
apiVersion: v1
kind: Pod
metadata: {{name: NAME-{i}, namespace: default, annotations: {{pod-group-name: NAME}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]
""" for i in range(2))


def gang(name):
    return GANG.replace("NAME", name)


class Provisioning(Cluster):
    """Its nodes are too small, and the API server has the autoscaler's kind."""
    flags = ["--provisioning-class", CLASS]

    def __init__(self, **options):
        super().__init__(nodes=1, gpus_per_node=1, operator_flags=self.flags, **options)

    def start(self):
        self.kubectl("apply", "-f", "-", input=CRD)
        self.kubectl("wait", "--for=condition=Established", "crd/provisioningrequests.autoscaling.x-k8s.io", "--timeout=30s")
        super().start()

    def stop(self):
        super().stop()
        self.kubectl("delete", "podtemplates", "--all", "--ignore-not-found")
        self.kubectl("delete", "crd", "provisioningrequests.autoscaling.x-k8s.io", "--ignore-not-found")

    def request(self, name):
        done = self.kubectl("get", "provreq", name, "-o", "json", ok=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def annotated(self, name):
        return [p["metadata"]["name"] for p in self.get("pods") if p["metadata"].get("annotations", {}).get(CONSUMES) == name]


def test_a_gang_that_lacks_nodes_asks_for_all_of_them_and_no_longer_than_it_does():
    with Provisioning() as m:
        m.apply(gang("g"))
        request = wait_for(lambda: m.request("g"), "the gang to ask for its nodes", 60)
        sets = request["spec"]["podSets"]
        check(request["spec"]["provisioningClassName"] == CLASS and [s["count"] for s in sets] == [2], f"both pods: {request}")
        check(request["metadata"]["ownerReferences"][0]["kind"] == "PodGroup", f"it goes with its group: {request}")
        template = m.get("podtemplate", sets[0]["podTemplateRef"]["name"])["template"]["spec"]
        check(template["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4", f"what a pod needs: {template}")
        wait_for(lambda: m.annotated("g") == ["g-0", "g-1"], "the pods to name the request", 30)
        m.kubectl("patch", "node", "hollow-0", "--subresource=status", "--type=merge", "-p",
                  json.dumps({"status": {kind: {"nvidia.com/gpu": "8"} for kind in ("capacity", "allocatable")}}))
        wait_for(lambda: all(p["spec"].get("nodeName") for p in m.get("pods")), "the gang to be bound", 60)
        wait_for(lambda: not m.request("g"), "the request to go", 30)
