#!/usr/bin/env python3
"""differ.py [--seed N] [--requests N] [--answers FILE [--known]] [--record | --recorded] [--verbose]: the same requests to a
real kube-apiserver and to `muster up`.

objects.py has valid objects, make.py what is changed in them. Compared are code, reason, reason and path of each cause, and
the object that is answered. What differs and is in no line of tests/expected/differ.txt fails. Writes are dry runs, so
requests do not disturb each other; what deletes leave behind is tried on objects of their own.

--answers keeps what Kubernetes said in a file, so that it is asked once; with --known only what is in there is compared.

--record writes a part of the requests that are answered alike, and how, to recorded.txt; --recorded plays these against
`muster up` alone, which `make test` does. Ends with `N passed, N failed`.
"""

import argparse
import base64
import collections
import concurrent.futures
import contextlib
import copy
import hashlib
import http.client
import json
import os
import random
import re
import sqlite3
import ssl
import sys
import threading
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "kubernetes"), os.path.join(TESTS, "e2e")]

import make  # noqa: E402
from harness import Muster, Skip  # noqa: E402
from objects import OBJECTS  # noqa: E402

RECORDED = os.path.join(HERE, "recorded.txt")
LIST = os.path.join(TESTS, "expected", "differ.txt")
NS = "differ"
JSON, MERGE, STRATEGIC, PATCH, APPLY = ("application/json", "application/merge-patch+json",
                                        "application/strategic-merge-patch+json", "application/json-patch+json",
                                        "application/apply-patch+yaml")
SHARED = {"v1.PodTemplateSpec", "v1.PodSpec", "meta.k8s.io/v1.ObjectMeta", "meta.k8s.io/v1.LabelSelector",
          "v1.PersistentVolumeClaimSpec", "v1.NodeSelector"}  # tried whole where they stand first, a part elsewhere


class Server:
    """One connection a thread."""

    def __init__(self, url, context, headers):
        self.host, self.context, self.headers = url.split("//")[1], context, headers
        self.local = threading.local()

    def ask(self, method, path, body=None, media=JSON):
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        for _ in range(3):
            try:
                if getattr(self.local, "open", None) is None:
                    self.local.open = http.client.HTTPSConnection(self.host, context=self.context, timeout=60)
                head = dict(self.headers, **({"Content-Type": media} if data is not None else {}))
                self.local.open.request(method, path, body=data, headers=head)
                answer = self.local.open.getresponse()
                first = "watch=" in path and answer.status == 200
                said = (answer.readline() if first else answer.read()).decode("utf-8", "replace")
                if first:
                    self.local.open = None  # which ends the watch
                return answer.status, said
            except (http.client.HTTPException, ConnectionError, OSError):
                self.local.open = None
        return 0, ""  # it hangs up on this one, whoever asks


def server_of(kubeconfig):
    """Of a kubeconfig whose values stand on lines of their own, or in braces."""
    with open(kubeconfig) as f:
        said = f.read()

    def value(name):
        found = re.search(name + r'"?: *"?([^",}\s]+)', said)
        return found.group(1) if found else None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # loopback, and whose port it is we know
    headers = {"User-Agent": "differ/1"}
    if value("token"):
        headers["Authorization"] = "Bearer " + value("token")
    else:
        path = kubeconfig + ".pem"
        with open(path, "wb") as f:
            for name in ("client-certificate-data", "client-key-data"):
                f.write(base64.b64decode(value(name)))
        context.load_cert_chain(path)
    return Server(value("server"), context, headers)


class Answers:
    """What Kubernetes said, in a file; without a path, nothing."""

    def __init__(self, path):
        self.file = sqlite3.connect(path or ":memory:", check_same_thread=False)
        self.file.execute("PRAGMA synchronous = OFF")  # what is lost is asked again
        self.file.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, status INTEGER, said BLOB)")
        self.lock = threading.Lock()

    @staticmethod
    def key(request):
        about = re.search(r"/b(\d+)\b", request.path)
        there = named(OBJECTS[int(about.group(1))], about.group(0)[1:]) if about else None
        return digest([request.method, request.path, request.media, request.body, there])

    def get(self, request):
        with self.lock:
            row = self.file.execute("SELECT status, said FROM answers WHERE request = ?", (self.key(request),)).fetchone()
        return row and (row[0], zlib.decompress(row[1]).decode())

    def put(self, request, status, said):
        with self.lock:
            self.file.execute("REPLACE INTO answers VALUES (?, ?, ?)", (self.key(request), status, zlib.compress(said.encode())))
            self.file.commit()


class Request:
    """`about`: what is the same for all requests that differ by a value only. `edit`: the body is an object of the list with a
    value put into it: (which, its name, path, value)."""

    def __init__(self, about, method, path, body=None, media=JSON, edit=None):
        self.about, self.method, self.path, self.media, self.edit = about, method, path, media, edit
        self.body = make.changed(named(OBJECTS[edit[0]], edit[1]), edit[2], edit[3]) if edit else body

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


def named(row, name):
    version, kind, _, namespaced, rest = row
    meta = {"name": name, **rest.get("metadata", {}), **({"namespace": home(namespaced)} if namespaced else {})}
    return {"apiVersion": version, "kind": kind, **copy.deepcopy(rest), "metadata": meta}


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
        where = place(version, plural, namespaced) + f"/b{i}"
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
        where, base = f"{root}/b{i}", named(row, f"b{i}")
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
        for name in (f"b{i}", "other", ""):
            yield Request(f"scale {kind} named {name[:1] or 'nothing'}", "PUT", f"{where}/scale?{dry}", {
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": home(namespaced)},
                    "spec": {"replicas": 3}})
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
            only = "" if "Selector" in query else f"&fieldSelector=metadata.name%3Db{i}"
            yield Request(f"watch {kind} {query}", "GET", f"{root}?watch=1{only}{query}")
        for op in ([{"op": "replace", "path": "/metadata/labels/none", "value": "x"}], [{"op": "add", "path": "", "value": base}],
                   [{"op": "test", "path": "/kind", "value": "x"}], [{"op": "no"}], [{"op": "remove", "path": "/none"}], {}, []):
            said = json.dumps(op)[:60] if op and op[0].get("path") else "whole" if op else "nothing"
            yield Request(f"jsonpatch {kind} {said}",
                          "PATCH", f"{where}?{dry}", op, PATCH)
        for patch in ("[]", "{", "null", '{"metadata":{"name":"y"}}', '{"metadata":{"uid":"y"}}',
            '{"metadata":{"resourceVersion":"1"}}',
                      '{"kind":"Other"}', '{"metadata":{"labels":null}}', '{"metadata":{"labels":{"a":null,"b":"c"}}}'):
            yield Request(f"merge {kind} {patch}", "PATCH", f"{where}?{dry}", patch, MERGE)
            yield Request(f"strategic {kind} {patch}", "PATCH", f"{where}?{dry}", patch, STRATEGIC)


# ---- answers ----

CHOSEN = {"uid", "creationTimestamp", "resourceVersion", "selfLink", "managedFields", "generation", "deletionTimestamp",
          "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort",
          "status"}  # controllers write it: Kubernetes' are not there
UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def plain(value):
    """Without what each server chooses; empty texts, zeros and nulls are as if they were not there."""
    if isinstance(value, dict):
        out = {key: plain(inner) for key, inner in value.items() if key not in CHOSEN}
        return {key: inner for key, inner in out.items() if inner not in (None, {}, [], "", 0, False)}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return "UID" if isinstance(value, str) and UID.match(value) else value


def flat(value, path, out):
    if isinstance(value, dict):
        for key, inner in value.items():
            flat(inner, f"{path}.{key}", out)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            flat(inner, f"{path}[{i}]", out)
    else:
        out[path] = value
    return out


def judged(status, said):
    """[code, reason, causes, {path: value}]"""
    try:
        answer = json.loads(said)
    except ValueError:
        return [status, "no JSON", [], {}]
    if status >= 400:
        causes = (answer.get("details") or {}).get("causes") or []
        return [status, answer.get("reason", ""), sorted({f"{c.get('reason', '')} {c.get('field', '')}" for c in causes}), {}]
    if answer.get("kind") == "Status":
        return [status, answer.get("status", ""), [], {}]
    if answer.get("kind", "").endswith("List") or "items" in answer:
        return [status, "", [], {}]
    return [status, "", [], flat(plain(answer), "", {})]


INDEX = re.compile(r"\[\d+\]")
KEY = re.compile(r"\[[^\]]*\]")


def how_causes_differ(real, ours):
    """In the place of an item Kubernetes sometimes names its list. Of one fault the one or the other tells more."""
    bare, ours_bare = ({KEY.sub("", c) for c in causes} for causes in (real, ours))
    if bare == ours_bare and sum(map(len, real)) <= sum(map(len, ours)):
        return "lists, "
    if ours and ours_bare < bare:
        return "further causes, "
    return "causes "


def compared(request, real, ours):
    """Lines: what differs."""
    if real[:2] != ours[:2]:
        def word(answer):
            return f"{answer[0]} {answer[1]}".strip() + ("".join(f" {c}" for c in answer[2][:2]) if answer[0] == 422 else "")
        yield f"{request.about}: {word(real)} in Kubernetes, {word(ours)} here"
    elif real[2] != ours[2]:
        yield (f"{request.about}: {how_causes_differ(real[2], ours[2])}{', '.join(INDEX.sub('[]', c) for c in real[2])} "
               f"in Kubernetes, {', '.join(INDEX.sub('[]', c) for c in ours[2])} here")
    else:
        for path in sorted(real[3].keys() | ours[3].keys()):
            if real[3].get(path) != ours[3].get(path):
                yield (f"{request.about}: stored {INDEX.sub('[]', path)} is {json.dumps(real[3].get(path))[:60]} in Kubernetes, "
                       f"{json.dumps(ours[3].get(path))[:60]} here")


def read_list():
    """[(regular expression, reason)]"""
    rows = []
    if os.path.exists(LIST):
        with open(LIST) as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    pattern, reason = line.rstrip("\n").split("  # ", 1)
                    rows.append((re.compile(pattern.strip()), reason.strip()))
    return rows


class Verdict:
    def __init__(self, verbose):
        self.rows, self.verbose = read_list(), verbose
        self.used, self.new, self.first = collections.Counter(), collections.Counter(), {}
        self.requests = 0

    def take(self, request, real, ours):
        """How many differences."""
        self.requests += 1
        lines = list(compared(request, real, ours))
        for line in lines:
            row = next((pattern.pattern for pattern, _ in self.rows if pattern.search(line)), None)
            if row:
                self.used[row] += 1
                continue
            self.new[line] += 1
            self.first.setdefault(line, request)
        return len(lines)

    def tell(self, seed):
        for line, count in sorted(self.new.items(), key=lambda each: (-each[1], each[0])):
            print(f"{count:5} {line}")
            if self.verbose:
                print(f"      {json.dumps(self.first[line].line())[:2000]}")
        idle = [pattern.pattern for pattern, _ in self.rows if not self.used[pattern.pattern]]
        for pattern in idle:
            print(f"nothing needed: {pattern}")
        print(f"seed {seed}: {self.requests} requests; {sum(self.used.values())} differences by {len(self.used)} of "
              f"{len(self.rows)} lines with a reason, {len(self.new)} others")
        print(f"{self.requests - sum(self.new.values())} passed, {sum(self.new.values())} failed")
        return 1 if self.new else 0


# ---- runs ----

def prepare(server):
    """The objects that updates and patches are about, made by one manager that applies."""
    for ns in sorted({NS} | {row[3] for row in OBJECTS if isinstance(row[3], str)}):
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
        for _ in range(100):  # Kubernetes refuses pods before the account is there
            if server.ask("GET", f"/api/v1/namespaces/{ns}/serviceaccounts/default")[0] == 200:
                break
            server.ask("POST", f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "default"}})
    for i, row in enumerate(OBJECTS):
        version, kind, plural, namespaced, _ = row
        status, said = server.ask("PATCH", place(version, plural, namespaced) + f"/b{i}?fieldManager=one", named(row,
            f"b{i}"), APPLY)
        if status >= 300:
            print(f"{version} {kind} b{i} is not there: {status} {said[:600]}")


def all_requests(seed, part):
    chance = random.Random(seed)
    types = make.tables()
    yield from fixed()
    yield from creates(types, chance)
    yield from edits(types, chance, part)


def chosen(options, answers):
    requests = list(all_requests(options.seed, options.part))
    random.Random(options.seed).shuffle(requests)
    if options.only:
        requests = [r for r in requests if re.search(options.only, r.about)]
    if options.known:
        requests = [r for r in requests if answers.get(r)]
    return requests[:options.requests or None]


def live(options):
    from controlplane import ControlPlane
    answers, verdict, lines = Answers(options.answers), Verdict(options.verbose), []
    requests = chosen(options, answers)
    with contextlib.ExitStack() as stack:
        real = None
        if not all(answers.get(r) for r in requests):
            plane = ControlPlane(controllers=False, apiserver_flags=["--disable-admission-plugins=ServiceAccount"])
            real = server_of(stack.enter_context(plane).kubeconfig)
            prepare(real)
        ours = server_of(stack.enter_context(Muster(flags=["--allow-privileged"])).kubeconfig)
        prepare(ours)

        def ask(request):
            asked = request.method, request.path, request.body, request.media
            theirs = answers.get(request)
            if not theirs:
                theirs = real.ask(*asked)
                answers.put(request, *theirs)
            return request, judged(*theirs), judged(*ours.ask(*asked))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for request, theirs, mine in pool.map(ask, requests):
                if theirs[0] and not verdict.take(request, theirs, mine):
                    lines.append((request, theirs))
    if options.record:
        record(lines, options.seed)
    return verdict.tell(options.seed)


RECORDED_MAX = 3000


def digest(fields):
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


def record(lines, seed):
    """One request in many of each sort that is answered alike; of an object that is answered a digest."""
    random.Random(seed).shuffle(lines)
    seen, kept = collections.Counter(), 0
    with open(RECORDED, "w") as f:
        f.write("# What a kube-apiserver answered to requests of differ.py, which writes this file with --record: what one is\n"
                "# about, method, path, media type, body (or which of objects.py, and what is changed in it); code, reason,\n"
                "# causes, and a digest of what was stored.\n")
        for request, answer in lines:
            sort = (*request.about.split(" ")[:2], answer[0], tuple(answer[2][:1]))
            seen[sort] += 1
            if seen[sort] > 2 or kept >= RECORDED_MAX or answer[0] >= 500:
                continue
            kept += 1
            f.write(json.dumps([*request.line(), answer[:3], digest(answer[3])], separators=(",", ":")) + "\n")


def recorded(options):
    verdict = Verdict(options.verbose)
    with Muster(flags=["--allow-privileged"]) as muster:
        ours = server_of(muster.kubeconfig)
        prepare(ours)
        with open(RECORDED) as f:
            lines = [json.loads(line) for line in f if not line.startswith("#")]
        for *parts, answer, stored in lines:
            request = Request.read(*parts)
            mine = judged(*ours.ask(request.method, request.path, request.body, request.media))
            verdict.take(request, [*answer, {"": stored}], [*mine[:3], {"": digest(mine[3])}])
    return verdict.tell("recorded")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=0, help="at most; 0: all")
    parser.add_argument("--part", type=float, default=1, help="of updates and patches")
    parser.add_argument("--only", default="")
    parser.add_argument("--answers", default="", help="a file with what Kubernetes answered; what is missing is added")
    parser.add_argument("--known", action="store_true", help="only what is in that file")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    try:
        return recorded(options) if options.recorded else live(options)
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
