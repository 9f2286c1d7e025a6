"""The requests that differ.py sends: of every object of objects.py creates, updates, every kind of patch, applies by two
managers, status and scale, deletes with options, lists and watches; a change of make.py in each, or a shape of a request.
"""

import functools
import json
import random
import urllib.parse
import zlib

import make
from objects import OBJECTS

NS = "differ"
JSON, MERGE, STRATEGIC, PATCH, APPLY = ("application/json", "application/merge-patch+json",
                                        "application/strategic-merge-patch+json", "application/json-patch+json",
                                        "application/apply-patch+yaml")
SHARED = {"v1.PodTemplateSpec", "v1.PodSpec", "meta.k8s.io/v1.ObjectMeta", "meta.k8s.io/v1.LabelSelector",
          "v1.PersistentVolumeClaimSpec", "v1.NodeSelector"}  # tried whole where they stand first, a part elsewhere


class Request:
    """`about`: what is the same for all requests that differ by a value only. `edit`: the body is an object of the list with a
    value put into it: (which, its name, path, value)."""

    def __init__(self, about, method, path, body=None, media=JSON, edit=None):
        self.about, self.method, self.path, self.media, self.edit, self.said = about, method, path, media, edit, body

    @property
    def body(self):
        """Made when it is asked for: there are many of them."""
        if not self.edit:
            return self.said
        which, name, path, value = self.edit
        return make.changed(named(OBJECTS[which], name), path, value)

    def line(self):
        body = self.body
        if self.edit:
            which, name, path, value = self.edit
            body = {"of": [which, name, list(path)] + ([] if value is make.GONE else [value])}
        return [self.about, self.method, self.path, self.media, body]

    @staticmethod
    def read(about, method, path, media, body):
        edit = None
        if isinstance(body, dict) and list(body) == ["of"]:
            which, name, steps, *value = body["of"]
            edit = (which, name, tuple(steps), value[0] if value else make.GONE)
        return Request(about, method, path, body, media, edit)


def home(namespaced):
    return namespaced if isinstance(namespaced, str) else NS


def place(version, plural, namespaced):
    root = "/apis/" + version if "/" in version else "/api/" + version
    return f"{root}/namespaces/{home(namespaced)}/{plural}" if namespaced else f"{root}/{plural}"


TEXTS = {}


def named(row, name):
    version, kind, _, namespaced, rest = row
    if (id(row), name) not in TEXTS:
        rest = json.loads(json.dumps(rest).replace("{name}", name).replace("{address}",
                "10.66.0.%d" % (zlib.crc32(name.encode()) % 250 + 1)))
        meta = {"name": name, **rest.get("metadata", {}), **({"namespace": home(namespaced)} if namespaced else {})}
        TEXTS[id(row), name] = json.dumps({"apiVersion": version, "kind": kind, **rest, "metadata": meta})
    return json.loads(TEXTS[id(row), name])


@functools.lru_cache(None)
def called(i, name="b"):
    """Of some kinds the name follows from what they are about."""
    return named(OBJECTS[i], f"{name}{i}")["metadata"]["name"]


def message_of(version, kind):
    return f"{version}.{kind}"


def changes(types, row, chance, seen, name):
    """(path, value) of an object: all of what was not seen in another kind, and of that a part."""
    version, kind = row[:2]
    base = named(row, name)
    message = message_of(version, kind)
    for path, value in make.below(types, message, base, ()):
        at, shared = message, False
        for step in path[:-1]:
            if isinstance(step, int):
                continue
            field = next((f for f in make.fields(types, at) if f.name == step), None)
            if not field:
                break
            at = field.kind
            shared = shared or (at in SHARED and at in seen)
        if path[0] in ("apiVersion", "kind", "status") or path == ("metadata", "name") or path == ("metadata", "namespace"):
            continue
        if not shared or chance.random() < 0.15:
            yield base, path, value


def creates(types, chance):
    seen = set()
    for i, row in enumerate(OBJECTS):
        version, kind, plural, namespaced, _ = row
        where = place(version, plural, namespaced) + "?dryRun=All"
        yield Request(f"create {kind}", "POST", where, named(row, f"x{i}"))
        for _, path, value in changes(types, row, chance, seen, f"x{i}"):
            yield Request(f"create {kind} {make.text(path)}", "POST", where, edit=(i, f"x{i}", path, value))
        if i != 1:
            seen |= {message for message in SHARED if uses(types, message_of(version, kind), message, set())}


def uses(types, message, wanted, seen):
    if message == wanted:
        return True
    seen.add(message)
    return any(field.kind not in seen and uses(types, field.kind, wanted, seen) for field in types.get(message, []))


def nested(path, value):
    """A merge patch that sets it."""
    for step in reversed(path):
        value = {step: None if value is make.GONE else value}
    return value


def pointer(path):
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


def edits(types, chance, part):
    """Updates and patches of objects that are there."""
    seen = set(SHARED)
    for i, row in enumerate(OBJECTS):
        version, kind, plural, namespaced, _ = row
        where = place(version, plural, namespaced) + f"/{called(i)}"
        for _, path, value in changes(types, row, chance, seen, f"b{i}"):
            ways = [("update", "PUT", JSON), ("jsonpatch", "PATCH", PATCH), ("apply", "PATCH", APPLY)]
            if not any(isinstance(step, int) for step in path):
                ways += [("merge", "PATCH", MERGE), ("strategic", "PATCH", STRATEGIC)]
            for way, method, media in ways:
                if chance.random() >= part:
                    continue
                about, query = f"{way} {kind} {make.text(path)}", "?dryRun=All"
                if media == APPLY:
                    query += "&fieldManager=two" + ("&force=true" if chance.random() < 0.5 else "")
                if media in (MERGE, STRATEGIC):
                    yield Request(about, method, where + query, nested(path, value), media)
                elif media == PATCH:
                    step = [{"op": "remove", "path": pointer(path)}] if value is make.GONE else \
                           [{"op": "add", "path": pointer(path), "value": value}]
                    yield Request(about, method, where + query, step, media)
                else:
                    yield Request(about, method, where + query, media=media, edit=(i, f"b{i}", path, value))


def fixed():
    """What is tried of every kind in the same way: names and kinds that do not fit, status, scale, options, pages."""
    for i, row in enumerate(OBJECTS):
        version, kind, plural, namespaced, _ = row
        root, dry = place(version, plural, namespaced), "dryRun=All"
        where, base = f"{root}/{called(i)}", named(row, f"b{i}")
        apply = f"{where}?{dry}&fieldManager=two"
        other = {**base, "metadata": {**base["metadata"], "name": "other"}}
        for about, body in (("another name", other), ("no kind", {k: v for k, v in base.items() if k != "kind"}),
                            ("no apiVersion", {k: v for k, v in base.items() if k != "apiVersion"}),
                            ("an unknown field", {**base, "noSuch": 1}), ("another kind", {**base, "kind": "Other"}),
                            ("managedFields", {**base, "metadata": {**base["metadata"], "managedFields": [{"manager": "x"}]}}),
                            ("empty managedFields", {**base, "metadata": {**base["metadata"], "managedFields": []}}),
                            ("no metadata", {k: v for k, v in base.items() if k != "metadata"}),
                            ("another uid", {**base, "metadata": {**base["metadata"], "uid": "x"}}),
                            ("an old version", {**base, "metadata": {**base["metadata"], "resourceVersion": "1"}})):
            yield Request(f"apply {kind} with {about}", "PATCH", apply, body, APPLY)
            yield Request(f"update {kind} with {about}", "PUT", f"{where}?{dry}", body)
            yield Request(f"create {kind} with {about}", "POST", f"{root}?{dry}",
                          {**body, "metadata": {**body["metadata"], "name": "n"}} if "metadata" in body else body)
        yield Request(f"apply {kind} without a manager", "PATCH", f"{where}?{dry}", base, APPLY)
        yield Request(f"apply {kind} of what is not there", "PATCH", f"{root}/new{i}?{dry}&fieldManager=two", named(row,
            f"new{i}"), APPLY)
        for label in ("labels", "annotations", "finalizers"):
            yield Request(f"status {kind} with {label}", "PATCH", f"{where}/status?{dry}",
                          {"metadata": {label: ["a.b/x"] if label == "finalizers" else {"new": "x"}}}, MERGE)
            yield Request(f"status {kind} updates {label}", "PUT", f"{where}/status?{dry}", {
                **base, "metadata": {**base["metadata"], label: ["a.b/x"] if label == "finalizers" else {"new": "x"}}})
        for body in ({"spec": {"replicas": 2}}, {"spec": {"replicas": -1}}, {"spec": {"replicas": "x"}}, {"spec": {}},
            {"metadata": {"name": "y"}}):
            yield Request(f"scale {kind} by a merge", "PATCH", f"{where}/scale?{dry}", body, MERGE)
            yield Request(f"scale {kind} by a strategic patch", "PATCH", f"{where}/scale?{dry}", body, STRATEGIC)
        for name in (f"b{i}", "other", ""):
            yield Request(f"scale {kind} named {name[:1] or 'nothing'}", "PUT", f"{where}/scale?{dry}", {
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": home(namespaced)},
                    "spec": {"replicas": 3}})
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": called(i)}, "spec": {"replicas": 3}}
        for manager in ("one", "two", "two&force=true"):
            for change in ({}, {"spec": {"replicas": 0}}, {"spec": {}}, {"metadata": {"name": "other"}}, {"kind": "Other"},
                    {"noSuch": 1},
                           {"status": {"replicas": 5}}, {"metadata": {"name": called(i), "labels": {"a": "b"}}}):
                yield Request(f"apply {kind} as a scale by {manager} with {json.dumps(change)}", "PATCH",
                              f"{where}/scale?{dry}&fieldManager={manager}", {**scale, **change}, APPLY)
        for query in ("propagationPolicy=Orphan", "propagationPolicy=Nothing", "gracePeriodSeconds=x", "gracePeriodSeconds=0",
                      "gracePeriodSeconds=-1", "orphanDependents=true", "orphanDependents=true&propagationPolicy=Orphan",
                      "dryRun=All&dryRun=All", "dryRun=Some", ""):
            yield Request(f"delete {kind} {query}", "DELETE",
                f"{where}?{query}&{dry}" if "dryRun" not in query else f"{where}?{query}")
        for body in ({"propagationPolicy": "Nothing"}, {"gracePeriodSeconds": "x"}, {"orphanDependents": True,
            "propagationPolicy": "Orphan"},
                     {"preconditions": {"uid": "x"}}, {"preconditions": {"resourceVersion": "1"}}, {"dryRun": ["Some"]},
                         {"kind": "Pod"},
                     {"dryRun": ["All"], "propagationPolicy": "Foreground"}, {"dryRun": ["All"], "orphanDependents": False}):
            body = {"dryRun": ["All"], **body}  # beside a body, Kubernetes does not look at the address
            yield Request(f"delete {kind} with {json.dumps(body)}", "DELETE", where, body)
        for query in ("limit=1", "limit=-1", "limit=x", "continue=x", "labelSelector=a", "labelSelector=a%20in%20(b",
            "labelSelector==",
                      "fieldSelector=metadata.name%3Db0", "fieldSelector=no.such%3Dx", "resourceVersionMatch=Exact",
                      "resourceVersion=0&resourceVersionMatch=Exact", "resourceVersion=x", "resourceVersion=0",
                          "timeoutSeconds=x"):
            yield Request(f"list {kind} {query}", "GET", f"{root}?{query}")
        for query in ("", "&sendInitialEvents=true", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                      "&resourceVersionMatch=Exact", "&resourceVersion=x", "&resourceVersion=0", "&labelSelector=a%20in%20(b",
                      "&fieldSelector=no.such%3Dx", "&timeoutSeconds=x", "&allowWatchBookmarks=x", "&limit=-1", "&continue=x"):
            only = "" if "Selector" in query else f"&fieldSelector=metadata.name%3D{called(i)}"
            yield Request(f"watch {kind} {query}", "GET", f"{root}?watch=1{only}{query}")
        for op in ([{"op": "replace", "path": "/metadata/labels/none", "value": "x"}], [{"op": "add", "path": "",
                "value": base}],
                   [{"op": "test", "path": "/kind", "value": "x"}], [{"op": "no"}], [{"op": "remove", "path": "/none"}], {},
                           []):
            said = json.dumps(op)[:60] if op and op[0].get("path") else "whole" if op else "nothing"
            yield Request(f"jsonpatch {kind} {said}",
                          "PATCH", f"{where}?{dry}", op, PATCH)
        for patch in ("[]", "{", "null", '{"metadata":{"name":"y"}}', '{"metadata":{"uid":"y"}}',
            '{"metadata":{"resourceVersion":"1"}}',
                      '{"kind":"Other"}', '{"metadata":{"labels":null}}', '{"metadata":{"labels":{"a":null,"b":"c"}}}'):
            yield Request(f"merge {kind} {patch}", "PATCH", f"{where}?{dry}", patch, MERGE)
            yield Request(f"strategic {kind} {patch}", "PATCH", f"{where}?{dry}", patch, STRATEGIC)


LONG = "a" * 300
NAMES = ("Upper", "a_b", "-a", "a-", "a..b", ".", "a/b", "a%b", "a b", "\u00e4", LONG, "", None, 7, "a" * 253, "a" * 64, "1",
        "a.b")
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
METADATA = [  # of which each is merged into an object's own
    {"generateName": "g-", "name": None}, {"generateName": LONG, "name": None}, {"generateName": "G_", "name": None},
    {"generateName": "", "name": None}, {"generateName": "g-"}, {"namespace": "elsewhere"}, {"namespace": ""},
            {"namespace": NS},
    {"finalizers": ["a"]}, {"finalizers": ["a.b/c", "a.b/c"]}, {"finalizers": ["kubernetes"]}, {"finalizers": ["a.b/C d"]},
    {"finalizers": ["orphan", "foregroundDeletion"]}, {"finalizers": ["orphan"]}, {"finalizers": [""]},
    {"ownerReferences": [OWNER]}, {"ownerReferences": [OWNER, OWNER]}, {"ownerReferences": [{**OWNER, "uid": ""}]},
    {"ownerReferences": [{**OWNER, "name": ""}]}, {"ownerReferences": [{**OWNER, "kind": ""}]},
    {"ownerReferences": [{**OWNER, "apiVersion": ""}]}, {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
    {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]},
    {"ownerReferences": [{**OWNER, "apiVersion": "events.k8s.io/v1", "kind": "Event"}]}, {"ownerReferences": [{}]},
    {"ownerReferences": [{**OWNER, "blockOwnerDeletion": True}]}, {"ownerReferences": [{**OWNER, "noSuch": 1}]},
    {"labels": {"a": "\u00e4"}}, {"labels": {"a/b/c": ""}}, {"labels": {"a": "b" * 64}}, {"labels": {"A.B/C_d": "e.F-g_h"}},
    {"labels": {"x" * 64: ""}}, {"labels": {"y" * 254 + "/z": ""}}, {"labels": {"UP/z": ""}}, {"labels": {"a": " b"}},
    {"annotations": {"a": "\u00e4\n"}}, {"annotations": {"UP/z": ""}}, {"annotations": {"a": "b" * 270000}},
    {"annotations": {"a b": ""}}, {"resourceVersion": "0"}, {"resourceVersion": "x"}, {"resourceVersion": ""}, {"uid": ""},
    {"deletionTimestamp": "2026-01-02T03:04:05Z"}, {"deletionGracePeriodSeconds": 5}, {"generation": 5}, {"selfLink": "/x"},
    {"creationTimestamp": "2026-01-02T03:04:05Z"}, {"creationTimestamp": "2026-01-02T03:04:05.5+02:00"},
            {"creationTimestamp": 5},
    {"managedFields": [{}]}, {"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1",
                                                "fieldsV1": {"f:metadata": {"f:labels": {}}}}]},
    {"managedFields": [{"manager": "m", "operation": "Other"}]}, {"managedFields": [{"fieldsType": "FieldsV2"}]},
    {"managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"x": {}}}]},
    {"managedFields": None}]
WRITES = ("fieldManager=" + "a" * 129, "fieldManager=a%00", "fieldManager=", "fieldManager=m", "fieldValidation=Strict",
          "fieldValidation=Warn", "fieldValidation=Ignore", "fieldValidation=x", "fieldValidation=", "dryRun=", "dryRun=Some",
          "dryRun=All&dryRun=All", "dryRun=All&dryRun=Some", "pretty=true", "pretty=x", "noSuch=x", "force=true", "force=x",
          "resourceVersion=x", "limit=x")
SELECTORS = ("a%20in%20(b,c)", "!a", "a,b", "a%3Db,c!%3Dd", "a%20notin%20(x)", "a>1", "a<x", "a%3D", "a%3D%3Db",
        "a%20in%20()", "a%20in",
             "a%3Db,,c", "%20a%20%3D%20b%20", "a%3Db%20c", "A/b%3Dc", "a/b/c", "a%3D" + "b" * 64, "x" * 64, "!a,!b",
                     "a%20in%20(,b)", ",",
             "a%3D%C3%A4", "-a", "a!b", "(a)", "in", "notin%3Dx", "a%20in%20(b", "in%20in%20(in)", "a%3Db%3Dc")
FIELDS = ("metadata.name%3D%3Db", "metadata.name!%3Dx", "metadata.name%3Da,metadata.namespace%3Db",
        "metadata.namespace%3Ddiffer",
          "metadata.uid%3Dx", "metadata.labels.a%3Db", "spec.nodeName%3D", "status.phase%3DActive", "type%3DOpaque",
                  "spec.type%3DClusterIP",
          "reason%3DR", "involvedObject.kind%3DPod", "metadata.name", "metadata.name%3D%5C", "%3Dx", "metadata.name%3Da%5C,b",
                  "spec.clusterIP%3DNone",
          "spec.restartPolicy%3DNever", "spec.schedulerName%3Dnobody", "status.successful%3D0", "spec.unschedulable%3Dfalse",
                  "regarding.kind%3DPod",
          "spec.signerName%3Dexample.com/x", "status.replicas%3D0", "status.podIP%3D", "source%3Dc", "type%3DNormal",
          "reportingController%3Da.b/c", "spec.serviceAccountName%3Ddefault", "spec.hostNetwork%3Dfalse",
                  "status.nominatedNodeName%3D")
LISTS = ("limit=0", "limit=5", "limit=9223372036854775808", "limit=", "continue=", "continue=e30", "limit=1&continue=x",
         "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=x&resourceVersion=1",
                 "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
         "resourceVersion=0&resourceVersionMatch=NotOlderThan", "resourceVersion=-1", "resourceVersion=",
                 "allowWatchBookmarks=true",
         "allowWatchBookmarks=x", "sendInitialEvents=true", "sendInitialEvents=false", "watch=0", "watch=x",
                 "timeoutSeconds=5", "timeoutSeconds=-1",
         "pretty=1", "noSuch=1")
PARTIAL, TABLE = "application/json;as=%s;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1"
ACCEPTED = ("application/xml", "text/plain", "*/*", "application/*", "", "application/json;as=Nope;g=meta.k8s.io;v=v1", TABLE,
            TABLE[:-2] + "v2", PARTIAL % "PartialObjectMetadata", PARTIAL % "PartialObjectMetadataList",
                    "application/xml, application/json",
            "application/json;q=0.1", TABLE + ", application/json", "application/yaml", "application/json;stream=watch")
BODIES = ("", "{", "null", "[]", "7", '"x"', "{}", "{} {}", '{"kind":1}', "\u00e4", "[" * 20000,
        '{"apiVersion":"v1","kind":"Status"}')
DELETES = ("null", "{}", "{} {}", '{"apiVersion":"v1","kind":"Status"}')  # options: Kubernetes does not look at the address then


def with_metadata(base, change):
    metadata = {key: value for key, value in {**base["metadata"], **change}.items() if key != "name" or value is not None}
    return {**base, "metadata": metadata}


def doubled(base, key):
    """Its text, with a key of the object twice."""
    said = json.dumps(base)
    return said[:-1] + f', "{key}": {json.dumps(base.get(key))}}}'


def of_metadata(i, row, root, dry):
    """What an object's metadata says, and what it is named."""
    kind, made, there = row[1], named(row, "n"), named(row, f"b{i}")
    for change in METADATA:
        about = f"{kind} with metadata {json.dumps(change)[:90]}"
        yield Request("create " + about, "POST", f"{root}?{dry}", with_metadata(made, change))
        if "name" not in change:
            yield Request("update " + about, "PUT", f"{root}/{called(i)}?{dry}", with_metadata(there, change))
            yield Request("apply " + about, "PATCH", f"{root}/{called(i)}?{dry}&fieldManager=two", with_metadata(there,
                    change), APPLY)
            yield Request("merge " + about, "PATCH", f"{root}/{called(i)}?{dry}", {"metadata": change}, MERGE)
    for name in NAMES:
        yield Request(f"create {kind} named {json.dumps(name)[:20]}", "POST", f"{root}?{dry}", {
            **made, "metadata": {**made["metadata"], "name": name}})
        if isinstance(name, str) and name not in ("", "."):
            at = f"{root}/{urllib.parse.quote(name, safe='')}"
            yield Request(f"get {kind} named {json.dumps(name)[:20]}", "GET", at)
            yield Request(f"delete {kind} named {json.dumps(name)[:20]}", "DELETE", f"{at}?{dry}")
            yield Request(f"apply {kind} named {json.dumps(name)[:20]}", "PATCH", f"{at}?{dry}&fieldManager=two", named(row,
                    name), APPLY)
            yield Request(f"update {kind} named {json.dumps(name)[:20]}", "PUT", f"{at}?{dry}", named(row, name))


def of_bodies(i, row, root, dry):
    """Options of writes, and bodies that are none, or of another media type."""
    kind, made, there = row[1], named(row, "n"), named(row, f"b{i}")
    at = f"{root}/{called(i)}"
    for query in WRITES:
        query = query if "dryRun" in query else f"{dry}&{query}"
        about = f"{kind} {query[:60]}"
        yield Request("create " + about, "POST", f"{root}?{query}", {**made, "noSuch": 1})
        yield Request("update " + about, "PUT", f"{at}?{query}", {**there, "noSuch": 1})
        yield Request("merge " + about, "PATCH", f"{at}?{query}", {"noSuch": 1, "metadata": {"labels": {"l": "m"}}}, MERGE)
        yield Request("strategic " + about, "PATCH", f"{at}?{query}", {"noSuch": 1, "metadata": {"labels": {"l": "m"}}},
                STRATEGIC)
        yield Request("jsonpatch " + about, "PATCH", f"{at}?{query}", [{"op": "add", "path": "/noSuch", "value": 1}], PATCH)
        yield Request("apply " + about, "PATCH", f"{at}?{query}" + ("" if "fieldManager" in query else "&fieldManager=two"),
                there, APPLY)
    for body in BODIES:
        about = f"{kind} with the body {body[:40]}"
        yield Request("create " + about, "POST", f"{root}?{dry}", body)
        yield Request("update " + about, "PUT", f"{at}?{dry}", body)
        if body not in DELETES:
            yield Request("delete " + about, "DELETE", f"{at}?{dry}", body)
        for way, media in (("merge", MERGE), ("strategic", STRATEGIC), ("jsonpatch", PATCH), ("apply", APPLY)):
            yield Request(f"{way} {about}", "PATCH", f"{at}?{dry}&fieldManager=two", body, media)
    for media in ("text/plain", "application/xml", "", "application/json; charset=utf-8", "application/yaml", JSON, MERGE, "x"):
        yield Request(f"create {kind} as {media}", "POST", f"{root}?{dry}", made, media)
        yield Request(f"update {kind} as {media}", "PUT", f"{at}?{dry}", there, media)
        yield Request(f"patch {kind} as {media}", "PATCH", f"{at}?{dry}&fieldManager=two",
                {"metadata": {"labels": {"l": "m"}}}, media)
    for key in ("metadata", "kind", "spec"):
        if key in made:
            for strict in ("", "&fieldValidation=Strict"):
                yield Request(f"create {kind} with {key} twice {strict}", "POST", f"{root}?{dry}{strict}", doubled(made, key))
                yield Request(f"update {kind} with {key} twice {strict}", "PUT", f"{at}?{dry}{strict}", doubled(there, key))
                yield Request(f"apply {kind} with {key} twice {strict}", "PATCH", f"{at}?{dry}&fieldManager=two{strict}",
                        doubled(there, key), APPLY)
    for value in ("1.0", "1e2", "1.5", "1E400", "99999999999999999999", "-0", "01", "1_0", "0x1", "NaN", "true"):
        body = f'{{"metadata": {{"generation": {value}}}}}'
        yield Request(f"merge {kind} of {value}", "PATCH", f"{at}?{dry}", body, MERGE)
        yield Request(f"strategic {kind} of {value}", "PATCH", f"{at}?{dry}", body, STRATEGIC)
    bare = {key: there[key] for key in ("apiVersion", "kind")}
    name = {"metadata": {"name": called(i), "labels": {"l": "m"}}}
    for manager in ("one", "two"):
        for force in ("", "&force=true", "&force=false"):
            to = f"{at}?{dry}&fieldManager={manager}{force}"
            yield Request(f"apply {kind} of nothing by {manager} {force}", "PATCH", to, {**bare,
                    "metadata": {"name": called(i)}}, APPLY)
            yield Request(f"apply {kind} of a label by {manager} {force}", "PATCH", to, {**bare, **name}, APPLY)
            yield Request(f"apply {kind} of all by {manager} {force}", "PATCH", to, there, APPLY)
            yield Request(f"apply {kind} of its status by {manager} {force}", "PATCH", to.replace("?", "/status?"), {**bare,
                    **name, "status": {}}, APPLY)


def of_reads(i, row, root):
    """Lists, watches and what else is asked of an address."""
    kind, at = row[1], f"{root}/{called(i)}"
    for selector in SELECTORS:
        yield Request(f"list {kind} with labels {selector[:30]}", "GET", f"{root}?labelSelector={selector}")
    for field in FIELDS:
        yield Request(f"list {kind} with the field {field}", "GET", f"{root}?fieldSelector={field}")
    for query in LISTS:
        if query == "watch=x":  # which begins a watch
            query += f"&fieldSelector=metadata.name%3D{called(i)}"
        if query != "sendInitialEvents=true":
            yield Request(f"list {kind} {query}", "GET", f"{root}?{query}")
    for query in ("resourceVersion=x", "resourceVersion=0", "resourceVersion=-1", "resourceVersionMatch=Exact",
            "labelSelector=(", "pretty=1"):
        yield Request(f"get {kind} {query}", "GET", f"{at}?{query}")
    for accept in ACCEPTED:
        yield Request(f"get {kind} as {accept}", "GET", at, media=f"{JSON} > {accept}")
        yield Request(f"list {kind} as {accept}", "GET", f"{root}?fieldSelector=metadata.name%3D{called(i)}",
                media=f"{JSON} > {accept}")
        yield Request(f"delete {kind} as {accept}", "DELETE", f"{at}?dryRun=All", media=f"{JSON} > {accept}")
        yield Request(f"watch {kind} as {accept}", "GET", f"{root}?watch=1&fieldSelector=metadata.name%3D{called(i)}",
                media=f"{JSON} > {accept}")
    for include in ("None", "Metadata", "Object", "x"):
        yield Request(f"get {kind} as a table of {include}", "GET", f"{at}?includeObject={include}", media=f"{JSON} > {TABLE}")
    for method, path in (("POST", at), ("PUT", root), ("PATCH", root), ("OPTIONS", root), ("HEAD", at), ("HEAD", root),
            ("TRACE", at), ("GET", at + "/nope"),
                         ("GET", at + "/status"), ("GET", at + "/scale"), ("DELETE", at + "/status"), ("POST",
                                 at + "/status"), ("GET", at + "/"),
                         ("GET", root + "/"), ("GET", at + "/status/x"), ("PUT", at + "/nope"), ("GET", f"{root}/none")):
        yield Request(f"{method.lower()} {kind} at {path.replace(root, '')}", method, f"{path}?dryRun=All",
                {} if method in ("POST", "PUT", "PATCH") else None)
    for query in ("dryRun=All", "dryRun=Some", "dryRun=All&propagationPolicy=x", "dryRun=All&labelSelector=(",
            "dryRun=All&fieldSelector=no.such%3Dx",
                  "dryRun=All&limit=x", "dryRun=All&gracePeriodSeconds=x", "dryRun=All&labelSelector=no%3Done",
                          "dryRun=All&limit=1", "dryRun=All&continue=x",
                  "dryRun=All&resourceVersion=x", "dryRun=All&orphanDependents=true&propagationPolicy=Orphan"):
        yield Request(f"deletecollection {kind} {query}", "DELETE", f"{root}?{query}")
    for body in ({"dryRun": ["All"], "propagationPolicy": "x"}, {"dryRun": ["All"], "kind": "Pod"}, "[]", {"dryRun": "All"},
            {"dryRun": ["All"], "no": 1}):
        yield Request(f"deletecollection {kind} with {json.dumps(body)}", "DELETE", f"{root}?dryRun=All", body)


def of_pods(i, row, root):
    """What else a pod has: an eviction, a node, more containers, another size."""
    at, dry = f"{root}/{called(i)}", "dryRun=All"
    meta = {"name": f"b{i}", "namespace": NS}
    for body in ({}, {"metadata": meta}, {"metadata": {**meta, "name": "x"}}, {"metadata": {**meta, "namespace": "x"}},
            {"kind": "Pod"},
                 {"metadata": meta, "deleteOptions": {"dryRun": ["All"]}}, {"metadata": meta,
                         "deleteOptions": {"dryRun": ["x"]}},
                 {"metadata": meta, "deleteOptions": {"gracePeriodSeconds": -1}}, {"metadata": meta,
                         "deleteOptions": {"propagationPolicy": "x"}},
                 {"metadata": meta, "deleteOptions": {"preconditions": {"uid": "x"}}}, {"metadata": meta, "noSuch": 1},
                         {"metadata": 7}, "{", "",
                 {"metadata": meta, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}}):
        for version in ("policy/v1", "policy/v1beta1", "v1"):
            full = {"apiVersion": version, "kind": "Eviction", **body} if isinstance(body, dict) else body
            yield Request(f"evict Pod {version} {json.dumps(body)}", "POST", f"{at}/eviction?{dry}", full)
        yield Request(f"evict Pod that is not there {json.dumps(body)}", "POST", f"{root}/none/eviction?{dry}", full)
    for target in (None, {}, {"name": "none"}, {"name": "b12"}, {"kind": "Pod", "name": "b12"}, {"kind": "Node",
            "name": "b12"}, {"name": ""},
                   {"name": "A_"}, {"apiVersion": "v2", "name": "b12"}, {"name": 7}, {"name": "b12", "uid": "x"},
                           {"name": "b12", "namespace": "x"}):
        for named_as in (meta, {}, {**meta, "name": "x"}, {**meta, "uid": "x"}, {**meta, "namespace": "x"}, {**meta,
                "annotations": {"a": "b"}}):
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": named_as, "target": target}
            yield Request(f"bind Pod to {json.dumps(target)} as {json.dumps(named_as)}", "POST", f"{at}/binding?{dry}", body)
            yield Request(f"bind Pod by a Binding to {json.dumps(target)} as {json.dumps(named_as)}", "POST",
                    f"{root[:-4]}bindings?{dry}", body)
    here = named(row, f"b{i}")
    new = {"name": "e", "image": "i"}
    for extra in ([], [new], [new, new], [{**new, "name": "c"}], [{**new, "name": "A"}], [{"name": "e"}], [{**new,
            "ports": [{"containerPort": 80}]}],
                  [{**new, "targetContainerName": "c"}], [{**new, "targetContainerName": "no"}], [{**new,
                          "livenessProbe": {"exec": {"command": ["a"]}}}],
                  [{**new, "resources": {"limits": {"cpu": "1"}}}], [{**new, "lifecycle": {}}], [{**new,
                          "volumeMounts": [{"name": "no", "mountPath": "/x"}]}],
                  [{**new, "stdin": True, "tty": True}], [{**new, "restartPolicy": "Always"}], [{**new, "noSuch": 1}], "x",
                          [None], [{}]):
        spec = {**here, "spec": {**here["spec"], "ephemeralContainers": extra}}
        yield Request(f"debug Pod with {json.dumps(extra)}", "PUT", f"{at}/ephemeralcontainers?{dry}", spec)
        yield Request(f"debug Pod by a patch {json.dumps(extra)}", "PATCH", f"{at}/ephemeralcontainers?{dry}", {
            "spec": {"ephemeralContainers": extra}}, STRATEGIC)
        yield Request(f"debug Pod by a merge {json.dumps(extra)}", "PATCH", f"{at}/ephemeralcontainers?{dry}", {
            "spec": {"ephemeralContainers": extra}}, MERGE)
        yield Request(f"debug Pod in its spec {json.dumps(extra)}", "PATCH", f"{at}?{dry}",
                {"spec": {"ephemeralContainers": extra}}, STRATEGIC)
    for of in ({"requests": {"cpu": "500m"}}, {"limits": {"cpu": "2"}}, {"requests": {"cpu": "x"}},
            {"limits": {"memory": "2Gi"}}, {"limits": None},
               {"limits": {"example.com/gpu": "1"}}, {"requests": {"cpu": "3"}}, {"requests": {"cpu": "-1"}},
                       {"claims": [{"name": "x"}]}, {}):
        body = {"spec": {"containers": [{"name": "c", "resources": of}]}}
        yield Request(f"resize Pod to {json.dumps(of)}", "PATCH", f"{at}/resize?{dry}", body, STRATEGIC)
        yield Request(f"resize Pod in its spec to {json.dumps(of)}", "PATCH", f"{at}?{dry}", body, STRATEGIC)
    for body in ({"spec": {"containers": [{"name": "c", "image": "new"}]}}, {"spec": {"nodeName": "x"}},
            {"metadata": {"labels": {"a": "z"}}}):
        for sub in ("resize", "ephemeralcontainers", "status", "binding", "eviction"):
            yield Request(f"patch Pod {sub} with {json.dumps(body)}", "PATCH", f"{at}/{sub}?{dry}", body, STRATEGIC)


def of_accounts(i, root):
    for spec in ({}, {"audiences": ["a"]}, {"audiences": []}, {"expirationSeconds": 600}, {"expirationSeconds": 599},
            {"expirationSeconds": 0},
                 {"expirationSeconds": 4294967297}, {"expirationSeconds": "x"}, {"boundObjectRef": {"kind": "Pod",
                         "apiVersion": "v1", "name": "none"}},
                 {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "b1", "uid": "x"}},
                         {"boundObjectRef": {"kind": "ConfigMap", "name": "x"}},
                 {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}, {"boundObjectRef": {}},
                         {"noSuch": 1}, None,
                 {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "none"}}, {"audiences": "a"},
                         {"audiences": [""]}):
        for more in ({}, {"metadata": {"name": "x"}}, {"metadata": {"namespace": "x"}}, {"kind": "Pod"}, {"apiVersion": "v1"}):
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec, **more}
            yield Request(f"token ServiceAccount {json.dumps(spec)} {json.dumps(more)}", "POST",
                    f"{root}/{called(i)}/token?dryRun=All", body)
    yield Request("token ServiceAccount that is not there", "POST", f"{root}/none/token", {"spec": {}})


AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
VERB = {"verb": "get", "resource": "pods", "namespace": NS}
REVIEWS = [  # (version, kind, plural, namespaced, a spec)
    (AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", False, {"user": "u", "groups": ["g"],
            "resourceAttributes": VERB}),
    (AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", True, {"user": "u", "resourceAttributes": VERB}),
    (AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, {"resourceAttributes": VERB}),
    (AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, {"namespace": NS}),
    (AUTHENTICATION, "TokenReview", "tokenreviews", False, {"token": "t"}),
    (AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", False, {}),
]


def of_reviews(types):
    """Questions: created, and kept nowhere."""
    for version, kind, plural, namespaced, spec in REVIEWS:
        to = place(version, plural, namespaced)
        base = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        for path, value in make.below(types, f"{version}.{kind}", base, ()):
            if path[0] not in ("apiVersion", "kind", "status"):
                yield Request(f"create {kind} {make.text(path)}", "POST", to, make.changed(json.loads(json.dumps(base)), path,
                        value))
        for more in ({"user": "", "groups": []}, {"user": "", "groups": ["g"]}, {"resourceAttributes": None},
                     {"nonResourceAttributes": {"path": "/", "verb": "get"}}, {"resourceAttributes": None,
                             "nonResourceAttributes": {"path": "/x", "verb": "get"}},
                     {"resourceAttributes": {**VERB, "namespace": "x"}}, {"resourceAttributes": {"verb": "*", "resource": "*"}},
                     {"resourceAttributes": {**VERB, "fieldSelector": {"rawSelector": "a=b"}}}, {"namespace": ""},
                             {"audiences": ["a"]},
                     {"resourceAttributes": {**VERB, "labelSelector": {"requirements": [{"key": "a", "operator": "In",
                             "values": []}]}}}):
            for query in ("", "?dryRun=All", "?fieldValidation=Strict"):
                yield Request(f"create {kind} with {json.dumps(more)[:60]} {query}", "POST", to + query, {**base,
                        "spec": {**spec, **more}})
        for body in BODIES:
            yield Request(f"create {kind} with the body {body[:40]}", "POST", to, body)
        for change in METADATA[:16]:
            yield Request(f"create {kind} with metadata {json.dumps(change)[:60]}", "POST", to, {**base, "metadata": change})
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            yield Request(f"{method.lower()} {kind}", method, to, {} if method in ("PUT", "PATCH") else None)
            yield Request(f"{method.lower()} {kind} by name", method, to + "/x", {} if method in ("PUT", "PATCH") else None)


def many(types, chance, part):
    """More shapes of requests: of some kinds all, of the others a part."""
    for i, row in enumerate(OBJECTS):
        root = place(*row[:1], *row[2:4])
        whole = row[1] in ("ConfigMap", "Deployment") or i == 0
        for each in (of_metadata(i, row, root, "dryRun=All"), of_bodies(i, row, root, "dryRun=All"), of_reads(i, row, root)):
            yield from (request for request in each if whole or chance.random() < part)
        if row[1] == "Pod":
            yield from of_pods(i, row, root)
        elif row[1] == "ServiceAccount":
            yield from of_accounts(i, root)
    yield from of_reviews(types)


def all_requests(seed, part):
    """Schemas of custom kinds are left out: some of them end kube-apiserver's connection, and other tests are about them."""
    chance = random.Random(seed)
    types = make.tables()
    for each in (fixed(), many(types, chance, part * 0.3), creates(types, chance), edits(types, chance, part)):
        yield from (request for request in each if "openAPIV3Schema" not in request.about)
