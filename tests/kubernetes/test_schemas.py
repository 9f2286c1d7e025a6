"""The schemas that Muster publishes of Kubernetes' types, held against those of a real kube-apiserver, field by field: the same
fields of the same types, required or not, with the same keys, sets and atomic parts."""

import json
import re

from cluster import Cluster
from harness import check

Muster = Cluster.__mro__[1]  # `muster up`, which Cluster stands in for

# io.k8s.api.rbac.v1.Role is rbac.authorization.k8s.io.v1.Role here: packages of Go and what API groups are called.
PACKAGE = re.compile(r"io\.k8s\.(?:api|apimachinery\.pkg\.apis|apiextensions-apiserver\.pkg\.apis|kube-aggregator\.pkg\.apis)"
                     r"\.([a-z]+)\.(v\w+)\.(\w+)$")
GROUPS = {"meta": "meta.k8s.io", "rbac": "rbac.authorization.k8s.io", "flowcontrol": "flowcontrol.apiserver.k8s.io",
          **{name: name + ".k8s.io" for name in (
              "admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "coordination",
              "discovery", "events", "networking", "node", "scheduling", "storage")}}
# Types that are one value in JSON; here they are written where they stand.
ANYTHING = "apiextensions.k8s.io.v1.JSON"
PLAIN = {"meta.k8s.io.v1.Time": "string date-time", "meta.k8s.io.v1.MicroTime": "string date-time",
         "io.k8s.apimachinery.pkg.api.resource.Quantity": "string", "meta.k8s.io.v1.FieldsV1": ANYTHING,
         "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "string int-or-string",
         "io.k8s.apimachinery.pkg.runtime.RawExtension": ANYTHING,
         **{f"apiextensions.k8s.io.v1.JSONSchemaPropsOr{name}": ANYTHING for name in ("Bool", "Array", "StringArray")}}

# What differs, and why: part of "type field fact", reason.
KNOWN = [
    (r"^core\.v1\.\S+ \S+ is ours alone", "of a Pod of Kubernetes 1.37, or of what it has in it"),
    (r"^batch\.v1\.JobSpec scheduling is ours alone", "of Kubernetes 1.37"),
    (r"^apiextensions\S+\.JSONSchemaPropsOr", "one value: see above"),
    (r" x-kubernetes-patch-strategy of Kubernetes is '(retainKeys|replace)'", "clients send the directive that it stands for"),
    (r"ControllerRevision data x-kubernetes-map-type", "is so in Kubernetes, and not said: test_types.py"),
]


def our_name(name):
    parts = PACKAGE.match(name)
    return f"{GROUPS.get(parts[1], parts[1])}.{parts[2]}.{parts[3]}" if parts else name


def schemas(kubectl):
    out = {}
    for path in json.loads(kubectl("get", "--raw", "/openapi/v3").stdout)["paths"].values():
        whole = json.loads(kubectl("get", "--raw", path["serverRelativeURL"]).stdout)
        out.update({our_name(name): schema for name, schema in whole.get("components", {}).get("schemas", {}).items()})
    return out


def type_of(value):
    if "allOf" in value:
        return type_of(value["allOf"][0])
    if "$ref" in value:
        name = our_name(value["$ref"].split("/")[-1])
        return PLAIN.get(name, name)
    return " ".join(filter(None, (value.get("type"), value.get("format"))))


def facts(field):
    """What matters of a field, by name."""
    out = {name: value for name, value in field.items() if name.startswith("x-kubernetes")}
    if field.get("type") == "string":
        out.pop("x-kubernetes-list-type", None)  # bytes are a list to Go
    if "x-kubernetes-patch-strategy" in out:
        out["x-kubernetes-patch-strategy"] = out["x-kubernetes-patch-strategy"].replace("merge,retainKeys", "merge")
    out["type"] = type_of(field)
    if out["type"] == "object" and out.get("x-kubernetes-map-type") == "granular":
        del out["x-kubernetes-map-type"]  # so is every map of which nothing is said
    for name in ("items", "additionalProperties"):
        if isinstance(field.get(name), dict):
            out[name] = type_of(field[name])
    return out


def differences(name, real, ours):
    ours_fields, real_fields = ours.get("properties", {}), real.get("properties", {})
    if real.get("x-kubernetes-map-type") != ours.get("x-kubernetes-map-type"):
        yield f"{name} is {real.get('x-kubernetes-map-type')} in Kubernetes"
    for field in sorted(set(real.get("required", [])) ^ set(ours.get("required", []))):
        yield f"{name} {field} is required only {'in Kubernetes' if field in real.get('required', []) else 'here'}"
    for field in sorted(real_fields.keys() ^ ours_fields.keys()):
        yield f"{name} {field} is {'ours' if field in ours_fields else 'theirs'} alone"
    for field in sorted(real_fields.keys() & ours_fields.keys()):
        theirs, mine = facts(real_fields[field]), facts(ours_fields[field])
        for fact in sorted(theirs.keys() | mine.keys()):
            if theirs.get(fact) != mine.get(fact):
                yield f"{name} {field} {fact} of Kubernetes is {theirs.get(fact)!r}, here {mine.get(fact)!r}"


def test_schemas_of_kubernetes_types_are_those_of_kubernetes():
    real = schemas(Cluster.plane.kubectl)
    with Muster() as m:
        ours = schemas(m.kubectl)
        both = sorted(real.keys() & ours.keys())
        check(len(both) > 350, f"only {len(both)} schemas have the same name: {sorted(ours)[:50]}")
        found = [line for name in both for line in differences(name, real[name], ours[name])
                 if not any(re.search(part, line) for part, _ in KNOWN)]
        check(not found, "\n".join(found))
