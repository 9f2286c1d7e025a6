#!/usr/bin/env python3
"""against.py [--only REGEX] [--record | --recorded]: rules of CRDs, to a real kube-apiserver and to `muster up`.

rules.txt has the rules, one a line, OBJECTS what they are asked about. Each rule is a CRD of its own first, in a dry run: whether
it is taken, and what is wrong with it where. Those that both take stand together in a few CRDs then, and objects are made and
changed: which rules fail about each, and which cannot be evaluated. The words are not compared. What differs and is in no line of
tests/expected/cel-rules.txt fails.

--record writes what Kubernetes said to recorded.txt; --recorded asks `muster up` alone. Ends with `N passed, N failed`.
"""

import argparse
import json
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TESTS, "differ"), os.path.join(TESTS, "kubernetes"), os.path.join(TESTS, "e2e")]

from differ import server_of  # noqa: E402
from harness import PATIENCE, Failure, Muster, Skip  # noqa: E402

RECORDED = os.path.join(HERE, "recorded.txt")
LIST = os.path.join(TESTS, "expected", "cel-rules.txt")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOGETHER = 40  # rules of a CRD


def text(size=20, **more):
    return {"type": "string", "maxLength": size, **more}


def listed(items, size=5, **more):
    return {"type": "array", "maxItems": size, "items": items, **more}


def record(**properties):
    return {"type": "object", "properties": properties}


def table(values):
    return {"type": "object", "maxProperties": 5, "additionalProperties": values}


NUMBER = {"type": "integer"}
SPEC = record(
    s=text(), t=text(), n=NUMBER, k=NUMBER, d={"type": "number"}, b={"type": "boolean"}, nums=listed(NUMBER),
    names=listed(text(), **{"x-kubernetes-list-type": "set"}),
    items=listed({**record(name=text(), v=NUMBER), "required": ["name"]},
                 **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    labels=table(text()), deep=table(record(x=NUMBER)), o=record(a=text(), b={**NUMBER, "nullable": True}),
    maybe=text(nullable=True), either={"x-kubernetes-int-or-string": True, "maxLength": 10}, when=text(30, format="date-time"),
    day=text(30, format="date"), span=text(format="duration"), raw=text(format="byte"),
    any={**record(known=NUMBER), "x-kubernetes-preserve-unknown-fields": True},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    **{"def": {"type": "boolean", "default": True}, "a-b": NUMBER, "in": NUMBER, "for": NUMBER, "dotted.name": NUMBER,
       "double__x": NUMBER})
FULL = {"s": "abc", "t": "d", "n": 3, "k": 2, "d": 1.5, "b": True, "nums": [1, 2], "names": ["a", "b"],
        "items": [{"name": "x", "v": 1}, {"name": "y"}], "labels": {"a": "x"}, "deep": {"a": {"x": 1}}, "o": {"a": "q", "b": 4},
        "maybe": "x", "either": 5, "when": "2026-01-02T03:04:05Z", "day": "2026-01-02", "span": "90s", "raw": "YWJj",
        "any": {"known": 1, "other": "y"}, "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}},
        "a-b": 1, "in": 2, "for": 1, "dotted.name": 3, "double__x": 4}
OBJECTS = {
    "full": FULL, "empty": {}, "nulls": {**FULL, "maybe": None, "o": {"b": None}},
    "others": {**FULL, "s": "Zürich", "t": "", "n": -7, "k": 0, "d": -0.25, "b": False, "nums": [], "names": ["b", "a"],
               "items": [], "labels": {}, "either": "five", "any": {}},
    "numbers": {**FULL, "s": "12", "t": "(", "n": 9223372036854775807, "d": 3, "nums": [5, 4, 4], "either": "7"},
    "times": {**FULL, "when": "2026-07-01T22:30:00.5+02:00", "day": "2024-02-29", "span": "-1.5h", "s": "1h", "raw": "/w=="},
    "said": {**FULL, "s": "10.0.0.0/8", "t": "1.2.3.4", "labels": {"a": "x", "nosuch": "a"}, "deep": {"a": {}}}}
CHANGED = ("full", "others")  # from the one into each of the others


def crd(plural, rules):
    spec = {**SPEC, "x-kubernetes-validations": [{"rule": rule, "message": f"R{number}"} for number, rule in rules]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.rules.example.com"},
            "spec": {"group": "rules.example.com", "scope": "Namespaced",
                     "names": {"plural": plural, "kind": plural.title(), "listKind": plural.title() + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}}


PLACE = re.compile(r"^.*x-kubernetes-validations\[\d+\]\.?|^spec\.(?:validation|versions\[0\]\.schema)\.(?=openAPI)")


# Of a rule that could not be evaluated; why is said in words of each.
NO_ANSWER = re.compile(r"evaluating rule: |call arguments did not match|call cost exceeds limit")


def causes_of(said):
    return [(cause.get("field", ""), cause.get("message", "")) for cause in (said.get("details") or {}).get("causes") or []]


class World:
    def __init__(self, server):
        self.server = server

    def ask(self, method, path, body=None):
        status, said = self.server.ask(method, path, body)
        try:
            return status, json.loads(said)
        except ValueError:
            return status, {"message": said}  # before a kind is served, for instance

    def taken(self, number, rule):
        """[] or what is wrong: of the rule, its message and so on."""
        status, said = self.ask("POST", CRDS + "?dryRun=All", crd(f"r{number}", [(number, rule)]))
        if status < 300:
            return []
        if status != 422:
            raise Failure(f"{rule}: {status} {said}")
        return sorted({PLACE.sub("", field) for field, _ in causes_of(said)})

    def establish(self, plural, rules):
        status, said = self.ask("POST", CRDS, crd(plural, rules))
        if status >= 300:
            raise Failure(f"{plural}: {status} {said}")
        path, end = f"/apis/rules.example.com/v1/namespaces/default/{plural}", time.monotonic() + 60 * PATIENCE
        while self.ask("GET", path)[0] != 200:
            if time.monotonic() > end:
                raise Failure(f"{plural} is not served")
            time.sleep(0.1)
        return path

    @staticmethod
    def failed(status, said):
        """{number of a rule: whether it fails, or cannot be evaluated}"""
        if status < 300:
            return {}
        found = {}
        for _, message in causes_of(said):
            rule = re.search(r"\bR(\d+)$", message)
            if not rule:
                raise Failure(f"{status} {message}")
            found[int(rule.group(1))] = "error" if NO_ANSWER.search(message) else "fails"
        if not found:
            raise Failure(f"{status} {said}")
        return found

    def judged(self, rules):
        """{number: {object: how it failed}}"""
        out = {number: {} for number, _ in rules}

        def keep(name, answer):
            for number, how in self.failed(*answer).items():
                out[number][name] = how
        for at in range(0, len(rules), TOGETHER):
            part = rules[at:at + TOGETHER]
            plural = f"some{at}"
            path = self.establish(plural, part)
            head = {"apiVersion": "rules.example.com/v1", "kind": plural.title()}
            for name, spec in OBJECTS.items():
                keep(name, self.ask("POST", path + "?dryRun=All", {**head, "metadata": {"name": name}, "spec": spec}))
        for number, rule in rules:
            if "oldSelf" not in rule:
                continue
            path = self.establish(f"old{number}", [(number, rule)])
            head = {"apiVersion": "rules.example.com/v1", "kind": f"Old{number}"}
            for before in CHANGED:
                status, said = self.ask("POST", path, {**head, "metadata": {"name": before}, "spec": OBJECTS[before]})
                if status >= 300:
                    raise Failure(f"{rule}: {status} {said}")
                for name, spec in OBJECTS.items():
                    meta = {"name": before, "resourceVersion": said["metadata"]["resourceVersion"]}
                    body = {**head, "metadata": meta, "spec": spec}
                    keep(f"{before} to {name}", self.ask("PUT", f"{path}/{before}?dryRun=All", body))
        return out


def ours(ask):
    with Muster() as muster:
        return ask(World(server_of(muster.kubeconfig)))


def theirs(ask):
    from controlplane import ControlPlane
    with ControlPlane(controllers=False) as plane:
        return ask(World(server_of(plane.kubeconfig)))


def answers(rules, refused):
    """What a server says of them: {rule: {"refused": [...]} or {"failed": {...}}}; those in `refused` are not asked about
    objects."""
    def ask(world):
        said = {rule: world.taken(number, rule) for number, rule in rules}
        both = [(number, rule) for number, rule in rules if not said[rule] and rule not in refused]
        failed = world.judged(both)
        return {rule: {"refused": said[rule]} if said[rule] or rule in refused else {"failed": failed[number]}
                for number, rule in rules}
    return ask


def read_rules():
    with open(os.path.join(HERE, "rules.txt")) as f:
        return [(number, line.strip()) for number, line in enumerate(f) if line.strip() and not line.startswith("#")]


def read_list():
    rows = []
    if os.path.exists(LIST):
        with open(LIST) as f:
            rows = [re.compile(line.split("  # ", 1)[0].strip()) for line in f if line.strip() and not line.startswith("#")]
    return rows


def differences(rule, real, mine):
    if "refused" in real or "refused" in mine:
        if real != mine:
            yield f"{rule}: Kubernetes: {real.get('refused') or 'taken'}; here: {mine.get('refused') or 'taken'}"
        return
    for name in sorted(real["failed"].keys() | mine["failed"].keys()):
        a, b = real["failed"].get(name), mine["failed"].get(name)
        if a != b:
            yield f"{rule}: of {name}: Kubernetes: {a or 'holds'}; here: {b or 'holds'}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    options = parser.parse_args()
    rules = [(number, rule) for number, rule in read_rules() if re.search(options.only, rule)]
    try:
        if options.recorded:
            with open(RECORDED) as f:
                real = dict(json.loads(line) for line in f if not line.startswith("#"))
            rules = [(number, rule) for number, rule in rules if rule in real]
        else:
            real = theirs(answers(rules, ()))
        refused = {rule for rule, said in real.items() if "refused" in said}
        mine = ours(answers(rules, refused))
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    if options.record:
        with open(RECORDED, "w") as f:
            f.write("# What against.py heard of a kube-apiserver 1.33: a rule of rules.txt, what of it is refused, or where it "
                    "fails or has an error.\n")
            f.writelines(json.dumps([rule, said]) + "\n" for rule, said in real.items())
    rows, failed, known = read_list(), 0, 0
    for _, rule in rules:
        lines = list(differences(rule, real[rule], mine[rule]))
        left = [line for line in lines if not any(row.search(line) for row in rows)]
        known += bool(lines) and not left
        failed += bool(left)
        for line in left:
            print(line, flush=True)
    print(f"{len(rules)} rules, {len(refused)} of them refused by Kubernetes; {known} differ as {len(rows)} lines say")
    print(f"{len(rules) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
