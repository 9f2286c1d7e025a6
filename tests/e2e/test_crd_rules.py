"""Rules in CEL of a CRD (x-kubernetes-validations), as kubectl shows them."""

import json

from harness import Muster, check

RULES = [{"rule": "self.min <= self.max", "message": "min must not be above max"},
         {"rule": "self.name == oldSelf.name", "message": "name is fixed", "fieldPath": ".name",
          "reason": "FieldValueForbidden"}]


def crd(rules):
    spec = {"type": "object", "x-kubernetes-validations": rules, "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"}}}
    return json.dumps({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ranges.test.local"},
        "spec": {"group": "test.local", "scope": "Namespaced", "names": {"kind": "Range", "plural": "ranges"},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})


def span(low, high, name):
    return json.dumps({"apiVersion": "test.local/v1", "kind": "Range", "metadata": {"name": "r"},
                       "spec": {"min": low, "max": high, "name": name}})


def test_rules_of_a_crd_are_compiled_and_evaluated():
    with Muster() as m:
        def refused(text):
            done = m.kubectl("apply", "--validate=false", "-f", "-", input=text, ok=False)
            check(done.returncode != 0, f"it was taken: {done.stdout}")
            return done.stderr

        words = refused(crd([{"rule": "self.z > 1"}]))
        check("undefined field 'z'" in words, words)
        words = refused(crd([{"rule": "self.min >"}]))
        check("Syntax error" in words, words)
        words = refused(crd([{"rule": "self.name.contains(self.name)"}]))  # by estimate: nothing bounds the name
        check("estimated rule cost exceeds budget by factor of more than 100x" in words and "maxLength" in words, words)
        m.kubectl("apply", "-f", "-", input=crd(RULES))
        m.kubectl("wait", "--for=condition=Established", "crd/ranges.test.local")
        words = refused(span(3, 2, "a"))
        check('spec: Invalid value: "object": min must not be above max' in words, words)
        m.kubectl("apply", "-f", "-", input=span(1, 2, "a"))
        words = refused(span(1, 2, "b"))
        check("spec.name: Forbidden: name is fixed" in words, words)


def versions(*names):
    made = json.loads(crd([]))
    one = made["spec"]["versions"][0]
    made["spec"]["versions"] = [{**one, "name": name, "storage": name == names[-1]} for name in names]
    return json.dumps(made)


def test_a_version_that_was_stored_stays_until_the_status_lets_it_go():
    with Muster() as m:
        def stored():
            return m.get("crd", "ranges.test.local")["status"]["storedVersions"]

        m.kubectl("apply", "-f", "-", input=versions("v1"))
        m.kubectl("apply", "-f", "-", input=versions("v1", "v2"))
        check(stored() == ["v1", "v2"], f"{stored()}")
        done = m.kubectl("apply", "-f", "-", input=versions("v2"), ok=False)
        check(done.returncode != 0 and 'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions' in
              done.stderr, done.stdout + done.stderr)
        whole = m.get("crd", "ranges.test.local")
        whole["status"]["storedVersions"] = ["v2"]
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ranges.test.local/status"
        m.kubectl("replace", "--raw", path, "-f", "-", input=json.dumps(whole))
        m.kubectl("apply", "-f", "-", input=versions("v2"))
        check(stored() == ["v2"], f"{stored()}")
