"""No field is accepted and ignored: every kind that discovery names, every field that OpenAPI knows of it, at every depth and
inside every template, with a misspelt name, a wrong type and a value out of range. No kind and no field is left out by a list.

    MUSTER_BUILD=FOLDER tests/e2e/run.py typos      another program under the same test

A name that nobody knows stands beside the fields of every object there is: Strict refuses it with its path, Warn warns, Ignore
does neither. A place that takes any name (x-kubernetes-preserve-unknown-fields) must say what becomes of it. Values are tried
once for each field of each definition in each kind, as a definition is the same wherever it stands.
"""

import collections
import http.client
import json

from harness import Muster, check, needs, wait_for
from rest import AGGREGATED

TYPO = "misspelt"
BATCH = 20  # misspelt names in one object: as many as one answer tells
REFERENCE = "#/components/schemas/"
SHOWN = 40  # findings that are printed

Place = collections.namedtuple("Place", "path node definition")
Attempt = collections.namedtuple("Attempt", "path value shape told")
# What says nothing without another field: Kubernetes takes it away then, and so do we.
BESIDE = {("spec", "sessionAffinityConfig"): (("spec", "sessionAffinity"), "ClientIP")}
ANY_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}  # where OpenAPI says that an object of any kind stands


def text_of(path):
    out = ""
    for part in path:
        out += part if part == "[0]" else ("." if out else "") + part
    return out


class Kind:
    def __init__(self, group, version, resource):
        self.base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self.api_version = f"{group}/{version}" if group else version
        self.name = resource["responseKind"]["kind"]
        namespace = "/namespaces/default" if resource["scope"] == "Namespaced" else ""
        self.url = f"{self.base}{namespace}/{resource['resource']}"
        self.status = any(s["subresource"] == "status" for s in resource.get("subresources", []))
        self.gvk = {"group": group, "version": version, "kind": self.name}

    def __str__(self):
        return f"{self.name} of {self.api_version}"


def kinds_of(rest):
    """Everything that can be created, as discovery has it."""
    for root in ("/api", "/apis"):
        status, text = rest.ask("GET", root, accept=AGGREGATED)
        check(status == 200, text)
        for group in json.loads(text)["items"]:
            for version in group["versions"]:
                for resource in version["resources"]:
                    if "create" in resource.get("verbs", []):
                        yield Kind(group["metadata"].get("name", ""), version["version"], resource)


class Schemas:
    """The schemas of one group and version, with what they refer to."""

    def __init__(self, rest, base):
        self.all = (rest.get("/openapi/v3" + base) or {}).get("components", {}).get("schemas", {})

    def of(self, kind):
        for name, schema in self.all.items():
            if kind.gvk in schema.get("x-kubernetes-group-version-kind", []):
                return name, schema
        return None, None

    def resolve(self, node):
        """(name of the definition, schema)"""
        reference = node.get("$ref") or next((s["$ref"] for s in node.get("allOf", []) if "$ref" in s), None)
        if not reference:
            return None, node
        return reference[len(REFERENCE):], self.all[reference[len(REFERENCE):]]

    def places(self, node, path=(), above=()):
        """Every object below, itself first; a definition that holds itself is not entered again."""
        name, schema = self.resolve(node)
        if name in above:
            return
        above += (name,) if name else ()
        if "items" in schema:
            yield from self.places(schema["items"], path + ("[0]",), above)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            yield from self.places(values, path + ("key",), above)
        elif schema.get("type") == "object" or schema.get("properties"):
            yield Place(path, schema, name)
        for field, below in schema.get("properties", {}).items():
            yield from self.places(below, path + (field,), above)


def wrong_values(schema):
    """(shape, value) of values that do not fit."""
    kind, form = schema.get("type"), schema.get("format")
    if "pattern" in schema or form == "quantity":
        yield "range", "~ no such text"
    if schema.get("x-kubernetes-int-or-string") or form == "int-or-string":
        yield "type", {TYPO: 1}
    elif kind == "integer":
        yield "type", "many"
        yield "range", schema["minimum"] - 1 if "minimum" in schema else -2**31 - 1 if form == "int32" else -2**63 - 1
        yield "range", schema["maximum"] + 1 if "maximum" in schema else 2**31 if form == "int32" else 2**63
    elif kind == "string":
        yield "type", [7]
        if form == "date-time":
            yield "range", "yesterday"
        if "enum" in schema:
            yield "range", TYPO
        if "maxLength" in schema:
            yield "range", "x" * (schema["maxLength"] + 1)
        if schema.get("minLength"):
            yield "range", ""
    elif kind in ("boolean", "number", "array", "object"):
        yield "type", "words"


def put(body, path, value):
    """The value at a path of the body; whatever is on the way is made."""
    at = body
    for part, following in zip(path, path[1:]):
        empty = [] if following == "[0]" else {}
        if part == "[0]":
            at += [] if at else [empty]
            at = at[0]
        else:
            at = at.setdefault(part, empty)
    if path[-1] == "[0]":
        at[:] = [value]
    else:
        at[path[-1]] = value


class Typos:
    def __init__(self, muster):
        self.rest = muster.rest
        self.counts = collections.Counter()
        self.findings = []

    def send(self, kind, body, validation):
        """(status, message, warnings)"""
        own, self.last = self.rest.own, json.dumps(body)[:200]
        own.connection.request("POST", f"{kind.url}?dryRun=All&fieldValidation={validation}", json.dumps(body),
                               {"Content-Type": "application/json", "Accept": "application/json", **own.headers})
        answer = own.connection.getresponse()
        text = answer.read()
        self.counts["requests"] += 1
        message = json.loads(text).get("message", "") if answer.status >= 400 else ""
        return answer.status, message, "\n".join(answer.headers.get_all("Warning") or [])

    def body(self, kind, attempts):
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "typo"}}
        for attempt in attempts:
            put(body, attempt.path, attempt.value)
            if BESIDE.get(attempt.path[:2]):
                put(body, *BESIDE[attempt.path[:2]])
        return body

    def find(self, kind, path, what):
        self.findings.append(f"{kind}: {text_of(path)}: {what}")

    def names(self, kind, places):
        attempts = [Attempt(p.path, {**ANY_KIND, TYPO: "x"}, "name", p.path + (TYPO,)) if p.node.get("title") == "any kind"
                    else Attempt(p.path + (TYPO,), "x", "name", p.path + (TYPO,)) for p in places]
        self.counts["misspelt names"] += len(attempts)
        for at in range(0, len(attempts), BATCH):
            some = attempts[at:at + BATCH]
            body = self.body(kind, some)
            strict, warned, ignored = (self.send(kind, body, v) for v in ("Strict", "Warn", "Ignore"))
            for attempt in some:
                field = f'unknown field \\"{text_of(attempt.told)}\\"'
                if field.replace("\\", "") not in strict[1]:
                    self.lone_name(kind, attempt)
                elif field not in warned[2]:
                    self.find(kind, attempt.told, f"Warn does not warn: {warned}")
            if TYPO in ignored[2] or (ignored[0] == 400 and "unknown field" in ignored[1]):
                self.find(kind, some[0].path, f"Ignore does not ignore: {ignored}")

    def lone_name(self, kind, attempt):
        """A name that was not told among others: alone, or as one that is said to have no effect."""
        status, message, warnings = self.send(kind, self.body(kind, [attempt]), "Strict")
        places = [text_of(attempt.told[:n]) + ": has no effect" for n in range(1, len(attempt.told) + 1)]
        if any(place in warnings for place in places):
            self.counts["kept, and said to have no effect"] += 1
        elif f'unknown field "{text_of(attempt.told)}"' not in message:
            self.find(kind, attempt.told, f"misspelt, and accepted: {status} {message[:200]} {warnings[:200]}")

    def values(self, kind, schemas, places):
        seen = set()
        for place in places:
            for field, below in place.node.get("properties", {}).items():
                if (place.definition or place.path, field) in seen or (kind.status and (*place.path, field) == ("status",)):
                    continue
                seen.add((place.definition or place.path, field))
                self.counts["fields"] += 1
                self.field(kind, place.path + (field,), schemas.resolve(below)[1], schemas)

    def field(self, kind, path, schema, schemas):
        for shape, value in wrong_values(schema):
            self.value(kind, Attempt(path, value, shape, path))
        inner = schema.get("items") or schema.get("additionalProperties")
        if isinstance(inner, dict):
            inner = schemas.resolve(inner)[1]
            for shape, value in wrong_values(inner):
                below = path + ("[0]" if "items" in schema else "key",)
                self.value(kind, Attempt(below, value, shape, below))

    def value(self, kind, attempt):
        self.counts["wrong types" if attempt.shape == "type" else "out of range"] += 1
        status, message, _ = self.send(kind, self.body(kind, [attempt]), "Ignore")
        if status < 400:
            self.find(kind, attempt.path, f"{json.dumps(attempt.value)[:40]} is accepted")
        elif text_of(attempt.path) not in message.replace("[key]", ".key"):
            self.find(kind, attempt.path, f"{json.dumps(attempt.value)[:40]} is refused without its path: {message[:200]}")

    def kind(self, kind, schemas):
        name, schema = schemas.of(kind)
        if not schema:
            self.findings.append(f"{kind}: OpenAPI does not have it")
            return
        self.counts["kinds"] += 1
        places = [p for p in schemas.places(schema) if not (kind.status and p.path[:1] == ("status",))]
        self.counts["objects in them"] += len(places)
        self.names(kind, places)
        self.values(kind, schemas, places)


@needs("an API server that answers thousands of questions a second, and fields that this one knows")
def test_no_field_of_any_kind_is_accepted_and_ignored():
    with Muster(nodes=1) as m:
        typos, schemas = Typos(m), {}
        for kind in kinds_of(m.rest):
            if kind.base not in schemas:
                schemas[kind.base] = Schemas(m.rest, kind.base)
            try:
                typos.kind(kind, schemas[kind.base])
            except (http.client.HTTPException, OSError) as e:  # the rest of the kind is not tried
                typos.findings.append(f"{kind}: {typos.last}: the server ended: {e!r}")
                wait_for(lambda: m.process.poll() is not None, "the server to end")
                m.start()
        print(", ".join(f"{count} {what}" for what, count in typos.counts.items()))
        print(f"{len(typos.findings)} accepted and ignored, or refused without a word why")
        check(not typos.findings, "\n".join(typos.findings[:SHOWN]))
