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
import functools
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

from harness import Muster, Skip  # noqa: E402
from objects import OBJECTS  # noqa: E402
from shapes import APPLY, JSON, MERGE, NS, Request, all_requests, called, named, place  # noqa: E402, F401

RECORDED = os.path.join(HERE, "recorded.txt")
LIST = os.path.join(TESTS, "expected", "differ.txt")


class Server:
    """One connection a thread."""

    def __init__(self, url, context, headers):
        self.host, self.context, self.headers = url.split("//")[1], context, headers
        self.local = threading.local()

    def ask(self, method, path, body=None, media=JSON):
        """`media`: of the body, and behind " > " of the answer that is asked for."""
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        for _ in range(1 if "watch=" in path else 3):
            try:
                if getattr(self.local, "open", None) is None or "watch=" in path:  # nothing to tell is an answer too
                    self.local.open = http.client.HTTPSConnection(self.host, context=self.context,
                            timeout=5 if "watch=" in path else 60)
                sort, _, accept = media.partition(" > ")
                head = dict(self.headers, **({"Content-Type": sort} if data is not None else {}),
                        **({"Accept": accept} if " > " in media else {}))
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


@functools.lru_cache(None)
def digest_of(which):
    return digest(OBJECTS[which])


class Answers:
    """What Kubernetes said, in a file; without a path, nothing."""

    def __init__(self, path):
        self.file = sqlite3.connect(path or ":memory:", check_same_thread=False)
        self.file.execute("PRAGMA synchronous = OFF")  # what is lost is asked again
        self.file.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, status INTEGER, said BLOB)")
        self.lock = threading.Lock()

    @staticmethod
    def key(request):
        """Of the request and of the object that it changes."""
        about = re.search(r"\bb(\d+)\b", request.path)
        base = request.edit[0] if request.edit else int(about.group(1)) if about else None
        return digest([request.line()[1:], digest_of(base) if base is not None else ""])

    def get(self, request):
        with self.lock:
            row = self.file.execute("SELECT status, said FROM answers WHERE request = ?", (self.key(request),)).fetchone()
        return row and (row[0], zlib.decompress(row[1]).decode())

    def put(self, request, status, said):
        with self.lock:
            self.file.execute("REPLACE INTO answers VALUES (?, ?, ?)", (self.key(request), status,
                    zlib.compress(said.encode())))
            self.file.commit()


# ---- answers ----

CHOSEN = {"uid", "creationTimestamp", "resourceVersion", "selfLink", "managedFields", "generation", "deletionTimestamp",
          "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort",
          "status"}  # controllers write it: Kubernetes' are not there
UID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
OF_OTHERS = {"Age", "AGE", "Last Seen", "First Seen", "Created At", "Requestor", "Cluster-IP",  # chosen
             "Status", "Request", "Limit", "MissingPL"}  # controllers write it
TOKEN = re.compile(r"^kube-api-access-\w{5}$")


def plain(value):
    """Without what each server chooses; empty texts, zeros and nulls are as if they were not there."""
    if isinstance(value, dict):
        out = {key: plain(inner) for key, inner in value.items() if key not in CHOSEN}
        if isinstance(out.get("generateName"), str) and re.match(re.escape(out["generateName"][:58]) + r"\w{5}$",
                str(out.get("name"))):
            out["name"] = "GENERATED"
        return {key: inner for key, inner in out.items() if inner not in (None, {}, [], "", 0, False)}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return "UID" if isinstance(value, str) and UID.match(value) else \
        "TOKEN" if isinstance(value, str) and TOKEN.match(value) else value


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


def listed(answer):
    """Of a list the objects that prepare() made, of a table what its columns are and what stands in them."""
    if answer.get("kind") == "Table":
        columns = [[column.get(key) for key in ("name", "type", "format",
                "priority")] for column in answer.get("columnDefinitions") or []]
        rows = [[re.sub(UID.pattern.strip("^$"), "UID", str(cell)) for cell, column in zip(row["cells"], columns)
                 if column[0] not in OF_OTHERS] for row in answer.get("rows") or []]
        return {**flat(columns, ".columns", {}), **(flat(rows, ".rows", {}) if len(rows) == 1 else {})}
    names = [(item.get("metadata") or {}).get("name", "") for item in answer.get("items") or []]
    made = {called(i) for i, row in enumerate(OBJECTS) if row[1] + "List" == answer.get("kind")}
    return {".items": " ".join(name for name in names if name in made), ".kind": answer.get("kind")}


def judged(status, said):
    """[code, reason, causes, {path: value}]"""
    try:
        answer = json.loads(said)
    except ValueError:
        return [status, "no JSON", [], {}]
    if not isinstance(answer, dict):
        return [status, "no object", [], {}]
    details = answer.get("details") or {}
    if status >= 400:
        causes = details.get("causes") or []
        return [status, answer.get("reason", ""), sorted({f"{c.get('reason', '')} {c.get('field', '')}" for c in causes}), {}]
    if answer.get("kind") == "Status":
        return [status, answer.get("status", ""), [], {}]
    if answer.get("kind", "").endswith("List") or "items" in answer or answer.get("kind") == "Table":
        return [status, "", [], listed(answer)]
    if set(answer) == {"type", "object"}:  # of a watch
        return [status, answer["type"], *judged(status, json.dumps(answer["object"]))[2:]]
    return [status, "", [], flat(plain(answer), "", {})]


INDEX = re.compile(r"\[\d+\]")
KEY = re.compile(r"\[[^\]]*\]")


def how_causes_differ(real, ours):
    """In the place of an item Kubernetes sometimes names its list. Of one fault the one or the other tells more."""
    bare, ours_bare = ({KEY.sub("", c) for c in causes} for causes in (real, ours))
    if bare == ours_bare and sum(map(len, real)) <= sum(map(len, ours)):
        return "lists, "
    if {next((c for c in real if is_inside(cause, c)), cause) for cause in ours} == set(real):
        return "lists, "
    if ours and ours_bare < bare:
        return "further causes, "
    if real and bare < ours_bare:
        return "more causes, "
    return "causes "


def is_inside(ours, real):
    """For the same reason, of an item of a list or a member of what Kubernetes names, or of both."""
    return ours.startswith(real) and re.fullmatch(r"(\[[^\]]*\])?(\.\w+)?", ours[len(real):])


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
        status, said = server.ask("PATCH", place(version, plural, namespaced) + f"/{called(i)}?fieldManager=one", named(row,
            f"b{i}"), APPLY)
        if status >= 300:
            print(f"{version} {kind} b{i} is not there: {status} {said[:600]}")


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
            plane = ControlPlane(controllers=False)
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
