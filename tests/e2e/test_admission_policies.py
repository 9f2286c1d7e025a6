"""ValidatingAdmissionPolicies, as kubectl shows them."""

from harness import Muster, check, need_kubectl

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owned}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - expression: has(object.metadata.labels) && 'owner' in object.metadata.labels
    message: every ConfigMap needs an owner
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: owned-in-default}
spec:
  policyName: owned
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
"""


def test_a_policy_refuses_with_its_message():
    need_kubectl(24)
    with Muster() as m:
        m.apply(POLICY)
        done = m.kubectl("create", "configmap", "a", "--from-literal=x=1", ok=False)
        check(done.returncode != 0 and "ValidatingAdmissionPolicy 'owned' with binding 'owned-in-default' denied request: "
              "every ConfigMap needs an owner" in done.stderr, done.stderr)
        m.kubectl("create", "configmap", "a", "--from-literal=x=1", "-n", "kube-system")
        m.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {owner: me}}\n")
        shown = m.kubectl("get", "validatingadmissionpolicies", "-o", "name").stdout
        check("validatingadmissionpolicy.admissionregistration.k8s.io/owned" in shown, shown)
