"""What may a rule of a CRD cost: the same CRDs to a real kube-apiserver and to `muster up`. Both must take or refuse them, in the
same words. The words have the factor by which an estimate is over its bound, so that the estimates themselves are compared."""

import itertools
import re

from cluster import Cluster
from harness import check
from test_decisions import own_server, real_server

Embedded = Cluster.__bases__[0]  # `muster up`; harness.Muster is the cluster here
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SIZES = (None, 1, 30, 1000, 40000, 1000000)
REFUSED_LEAST = 0.1  # of them, and as many taken
# One version's schema is called the first there.
SAME_SCHEMA = re.compile(r"spec\.(?:validation|versions\[0\]\.schema)\.openAPIV3Schema")

RULES = (
    "self.text == 'abc'", "self.text != self.other", "self.text < self.other", "self.text.contains(self.other)",
    "self.text.startsWith('a') && self.other.endsWith(self.text)", "self.text.matches('^[a-z]+([-][a-z]+)*$')",
    "self.text.lowerAscii().trim() == self.other.upperAscii()", "(self.text + self.other).size() > 3",
    "self.text.replace('a', 'bcd') == self.other", "self.text.replace(self.other, self.other) == self.text",
    "self.text.split(',').all(x, x == self.other)", "self.text.split(',', 3).exists(x, x.startsWith('a'))",
    "self.texts.join(',') == self.text", "self.texts.map(x, x + 'a').isSorted()", "self.text.find('a+b') == self.other",
    "self.text.findAll('a').size() < 3", "'%s-%d'.format([self.text, self.number]) == self.other",
    "strings.quote(self.text) == self.other", "bytes(self.text) == self.raw", "string(self.raw) == self.text",
    "string(self.number) == self.text", "self.texts.all(x, x == self.text)", "self.texts.exists(x, x in self.texts)",
    "self.texts.exists_one(x, x == 'a')", "self.texts.filter(x, x.size() > 1).all(x, x != self.text)",
    "self.texts.map(x, x.size() > 1, x.size()).sum() > 3", "self.texts.isSorted()", "self.texts.indexOf('a') == 1",
    "self.texts == self.others", "self.text in self.texts", "self.text in self.map", "self.map.all(k, self.map[k] == k)",
    "self.map.all(k, v, v == self.text)", "self.texts.all(i, v, i < 3 && v != '')",
    "self.texts.transformList(i, v, v + 'x').all(x, x != self.text)", "self.map.transformMap(k, v, v.size()).size() < 3",
    "self.objects.all(x, x.name == self.text)", "self.objects.all(x, self.objects.exists(y, x.name == y.name))",
    "self.objects.all(x, x.list.all(y, y != x.name))", "self.objects.map(x, x.name).all(n, n.startsWith('a'))",
    "self.objects.all(x, x.list.all(y, y in self.texts))", "self.objects[0].name == self.objects[1].name",
    "self.map['a'] == self.text", "has(self.text) && has(self.objects) ? self.text == 'a' : self.other == 'b'",
    "sets.contains(self.texts, self.others)", "sets.equivalent(self.texts, ['a', 'b'])",
    "quantity(self.text).isGreaterThan(quantity('1Gi'))", "quantity(self.text) == quantity(self.other)",
    "quantity(self.text) != quantity(self.other)", "ip(self.text) == ip(self.other)", "ip.isCanonical(self.text)",
    "cidr(self.text).containsIP(self.other)", "cidr(self.text).containsCIDR(cidr(self.other))",
    "url(self.text) == url(self.other)", "url(self.text).getHost() == self.other", "isQuantity(self.text) || isIP(self.other)",
    "!format.dns1123Label().validate(self.text).hasValue()",
    "self.either == 3 || self.either == 'a'", "type(self.either) == string && self.either == self.text",
    "self.moment > timestamp(self.text)", "self.span < duration('1h')", "self.raw == b'abc'",
    "self.?text.orValue('') == self.other", "self.?text.optMap(x, x.size()).orValue(0) > 3", "self.texts[?0].orValue('') == ''",
    "oldSelf.texts.all(x, x in self.texts)", "self == oldSelf", "dyn(self.text) == 'a'", "{'a': self.text}.a == self.other",
    "[self.text, 'b'].all(x, x == self.other)", "!(self.number > 3) || -self.number < 2",
    "self.texts.all(x, self.texts.all(y, x != y || self.texts.all(z, z == x)))",
)


def bound(name, size):
    return {} if size is None else {name: size}


def schema(size, other):
    text = {"type": "string", **bound("maxLength", size)}
    texts = {"type": "array", "items": text, **bound("maxItems", other)}
    item = {"type": "object", "required": ["name"], "properties": {"name": text, "list": texts}}
    return {"type": "object", "properties": {
        "text": text, "other": {"type": "string", **bound("maxLength", other)}, "number": {"type": "integer"}, "texts": texts,
        "others": {"type": "array", "items": {"type": "string"}, **bound("maxItems", size)},
        "map": {"type": "object", "additionalProperties": text, **bound("maxProperties", other)},
        "objects": {"type": "array", "items": item, **bound("maxItems", other)},
        "raw": {"type": "string", "format": "byte", **bound("maxLength", size)}, "either": {"x-kubernetes-int-or-string": True},
        "moment": {"type": "string", "format": "date-time"}, "span": {"type": "string", "format": "duration"}}}


def crd(properties):
    return {"metadata": {"name": "costs.rules.example.com"}, "spec": {
        "group": "rules.example.com", "scope": "Namespaced", "names": {"plural": "costs", "kind": "Cost"},
        "versions": [{"name": "v1", "served": True, "storage": True,
                      "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}}


def crds():
    for rule, (size, other) in itertools.product(RULES, zip(SIZES, SIZES[:1] + SIZES[:0:-1])):
        spec = schema(size, other)
        yield rule, size, other, crd({"spec": {**spec, "x-kubernetes-validations": [{"rule": rule}]}})
    for rule, size, below in itertools.product(("self.text == 'abc'", "self.texts.all(x, x == self.text)"), SIZES,
                                               ("array", "object")):  # it counts once for each member
        spec = {**schema(100, 10), "x-kubernetes-validations": [{"rule": rule, "messageExpression": "self.text + self.other"}]}
        many = {"type": "array", "items": spec, **bound("maxItems", size)} if below == "array" else {
            "type": "object", "additionalProperties": spec, **bound("maxProperties", size)}
        yield rule, size, below, crd({"spec": {"type": "object", "properties": {"many": many}}})
    for count in (5, 12, 40):  # each is within its bound, and all together are not
        spec = {**schema(1000, 1000), "x-kubernetes-validations": [{"rule": "self.texts.all(x, x + 'a' == self.text)"}] * count}
        yield "many", count, None, crd({"spec": spec})


def answer(server, body):
    code, said = server.ask("POST", CRDS + "?dryRun=All", body)
    if code == 201:
        return [str(code)]
    causes = said.get("details", {}).get("causes", ())
    return [str(code), *sorted(f"{SAME_SCHEMA.sub('schema', c['field'])}: {c['reason']}: {c['message']}" for c in causes)]


def test_estimated_costs_are_those_of_kubernetes():
    different, refused, asked = [], 0, 0
    with Embedded() as muster:
        real, own = real_server(Cluster.plane), own_server(muster)
        for rule, size, other, body in crds():
            theirs, ours = answer(real, body), answer(own, body)
            asked += 1
            refused += theirs != ["201"]
            if theirs != ours:
                different.append(f"{rule} ({size}, {other}):\n  Kubernetes {theirs}\n  ours       {ours}")
    print(f"costs: {asked} asked, {refused} refused, {len(different)} answered differently")
    check(not different, "\n".join(different[:20]))
    check(REFUSED_LEAST < refused / asked < 1 - REFUSED_LEAST, f"{refused} of {asked} are refused")
