"""May this user do that: the same Roles and bindings in a real kube-apiserver and in `muster up`, the same questions to both.

Rules, subjects and requests are drawn from few words, so that they often meet; SEED repeats a run. Three kinds of questions:
SubjectAccessReviews (RBAC's own decision), writing roles and bindings (nobody grants what he does not hold), and plain
requests (what verb and name an HTTP request has)."""

import base64
import http.client
import json
import os
import random
import ssl

from cluster import Cluster
from harness import check, wait_for

Embedded = Cluster.__bases__[0]  # `muster up`; harness.Muster is the cluster here
SEED = int(os.environ.get("SEED", "22"))
REVIEWS, GRANTS, REQUESTS = 600, 200, 200
ALLOWED_LEAST = 0.15  # of the questions, and as many refused: both answers are compared

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = ("d-one", "d-two")
USERS = ("ann", "bob", "system:serviceaccount:d-one:bot", "system:serviceaccount:d-two:bot")
GROUPS = ("red", "blue", "system:serviceaccounts", "system:serviceaccounts:d-one", "system:authenticated")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "impersonate",
         "*")
API_GROUPS = ("", "apps", "batch", "example.com", "rbac.authorization.k8s.io", "*")
RESOURCES = ("pods", "configmaps", "secrets", "pods/log", "pods/exec", "*/log", "*/scale", "jobs/scale", "jobs", "roles",
             "clusterroles", "*")
NAMES = ("mine", "yours", "*")
PATHS = ("/metrics", "/metrics/*", "/healthz", "/healthz*", "/api/**", "/logs/x", "*")
ASKED_PATHS = ("/metrics", "/metrics/x", "/healthz", "/healthz/etcd", "/api", "/api/v1", "/apis/batch", "/logs/x", "/logs", "/",
               "")
ROLE_REF = "rbac.authorization.k8s.io"


# Somebody must be able to do what is asked for plainly.
WORKERS = [(RBAC + "/clusterroles", {"metadata": {"name": "d-works"}, "rules": [
    {"verbs": ["get", "list", "watch", "patch", "delete"], "apiGroups": [""], "resources": ["configmaps"]},
    {"verbs": ["create"], "apiGroups": [ROLE_REF], "resources": ["roles", "rolebindings"]}]}),
    (RBAC + "/clusterroles", {"metadata": {"name": "d-named"}, "rules": [
        {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"]},
        {"verbs": ["*"], "apiGroups": [ROLE_REF], "resources": ["roles", "rolebindings", "clusterroles"]}]})]
WORKERS += [(RBAC + "/clusterrolebindings", {
    "metadata": {"name": name}, "roleRef": {"apiGroup": ROLE_REF, "kind": "ClusterRole", "name": name},
    "subjects": [{"kind": kind, "apiGroup": ROLE_REF, "name": to} for kind, to in subjects]})
    for name, subjects in (("d-works", (("User", "ann"), ("Group", "red"), ("Group", "system:serviceaccounts"))),
                           ("d-named", (("User", "bob"), ("Group", "blue"))))]


class Server:
    def __init__(self, host, port, context, headers):
        self.connect = lambda: http.client.HTTPSConnection(host, port, context=context, timeout=60)
        self.connection = self.connect()
        self.headers = headers

    def ask(self, method, path, body=None, headers=()):
        data = None if body is None else json.dumps(body)
        given = {"Content-Type": "application/json", **self.headers, **dict(headers)}
        try:
            self.connection.request(method, path, data, given)
            answer = self.connection.getresponse()
        except (http.client.HTTPException, OSError):  # it closed a connection that was idle
            self.connection = self.connect()
            self.connection.request(method, path, data, given)
            answer = self.connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def allowed(self, spec):
        code, answer = self.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                                {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
        return answer["status"].get("allowed", False) if code == 201 else f"{code} {answer.get('reason')}"


def real_server(plane):
    context = ssl.create_default_context(cafile=plane.certs.path("ca.crt"))
    context.load_cert_chain(plane.certs.path("admin.crt"), plane.certs.path("admin.key"))
    host, port = plane.server.removeprefix("https://").split(":")
    return Server(host, int(port), context, {})


def own_server(muster):
    with open(muster.kubeconfig) as f:
        text = f.read()
    authority = base64.b64decode(text.split("certificate-authority-data: ")[1].split()[0]).decode()
    host, port = muster.listen.split(":")
    return Server(host, int(port), ssl.create_default_context(cadata=authority),
                  {"Authorization": "Bearer " + text.split("token: ")[1].split()[0]})


def some(draw, words, most=3):
    return draw.sample(words, draw.randint(1, most))


def rule(draw, cluster):
    if cluster and draw.random() < 0.3:
        return {"verbs": draw.choice((["get"], ["*"], ["get", "post"])), "nonResourceURLs": some(draw, PATHS, 2)}
    rule = {"verbs": some(draw, VERBS, 4), "apiGroups": some(draw, API_GROUPS, 2), "resources": some(draw, RESOURCES)}
    if draw.random() < 0.25:
        rule["resourceNames"] = some(draw, NAMES, 2)
    return rule


def subject(draw, ns):
    kind = draw.choice(("User", "Group", "ServiceAccount"))
    if kind == "ServiceAccount":
        return {"kind": kind, "name": "bot", "namespace": ns or draw.choice(NAMESPACES)}
    return {"kind": kind, "apiGroup": ROLE_REF, "name": draw.choice(USERS if kind == "User" else GROUPS[:4])}


def role_objects(draw):
    """(path, object), bindings after the roles that they name."""
    cluster_roles = [f"d-{i}" for i in range(6)]
    for name in cluster_roles:
        rules = [rule(draw, True) for _ in range(draw.randint(1, 2))]
        yield RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": rules}
    for ns in NAMESPACES:
        for i in range(6):
            rules = [rule(draw, False) for _ in range(2)]
            yield f"{RBAC}/namespaces/{ns}/roles", {"metadata": {"name": f"d-{i}"}, "rules": rules}
    for i in range(14):
        ns = draw.choice(("", *NAMESPACES, *NAMESPACES, *NAMESPACES))
        kind = draw.choice(("Role", "ClusterRole")) if ns else "ClusterRole"
        yield (f"{RBAC}/namespaces/{ns}/rolebindings" if ns else RBAC + "/clusterrolebindings",
               {"metadata": {"name": f"d-{i}"},
                "roleRef": {"apiGroup": ROLE_REF, "kind": kind, "name": f"d-{draw.randint(0, 5)}"},
                "subjects": [subject(draw, ns) for _ in range(draw.randint(1, 2))]})


class Draw(random.Random):
    """Knows what is granted, so that about half of the questions are about that, with a thing or two changed."""

    objects = ()

    def granted(self):
        """(who, the namespace of the binding, a rule)"""
        bindings = [(path, o) for path, o in self.objects if path.endswith("bindings")]
        path, binding = self.choice(bindings)
        ns = path.split("/")[5] if "/namespaces/" in path else ""
        kind = binding["roleRef"]["kind"]
        roles = RBAC + "/clusterroles" if kind == "ClusterRole" else f"{RBAC}/namespaces/{ns}/roles"
        role = next(o for p, o in self.objects if p == roles and o["metadata"]["name"] == binding["roleRef"]["name"])
        subject = self.choice(binding["subjects"])
        if subject["kind"] == "Group":
            person = {"user": "carl", "groups": [subject["name"]]}
        elif subject["kind"] == "User":
            person = {"user": subject["name"], "groups": []}
        else:
            person = {"user": f"system:serviceaccount:{subject['namespace']}:{subject['name']}", "groups": []}
        return person, ns, self.choice(role["rules"])


def who(draw):
    if draw.random() < 0.6:
        return draw.granted()[0]
    return {"user": draw.choice((*USERS, "carl")), "groups": draw.sample(GROUPS, draw.randint(0, 2))}


def one_of(draw, given, words):
    """One of those given, where "*" is any; now and then any at all."""
    word = draw.choice(given)
    return draw.choice(words) if draw.random() < 0.15 or (word == "*" and draw.random() < 0.7) else word


def granted_review(draw):
    person, ns, rule = draw.granted()
    if "nonResourceURLs" in rule:
        path = one_of(draw, rule["nonResourceURLs"], ASKED_PATHS).replace("*", draw.choice(("", "x")))
        return {**person, "nonResourceAttributes": {"verb": one_of(draw, rule["verbs"], ("get", "post")), "path": path}}
    resource, _, sub = one_of(draw, rule["resources"], RESOURCES).partition("/")
    wanted = {"verb": one_of(draw, rule["verbs"], VERBS), "group": one_of(draw, rule["apiGroups"], API_GROUPS),
              "resource": draw.choice(("pods", "jobs")) if resource == "*" and sub else resource,
              "namespace": ns or draw.choice((*NAMESPACES, "")),
              "name": one_of(draw, rule.get("resourceNames", ("",)), ("", *NAMES))}
    return {**person, "resourceAttributes": {**wanted, "subresource": sub} if sub else wanted}


def review(draw):
    if draw.random() < 0.6:
        return granted_review(draw)
    spec = who(draw)
    if draw.random() < 0.2:
        return {**spec, "nonResourceAttributes": {"verb": draw.choice(("get", "post", "*")), "path": draw.choice(ASKED_PATHS)}}
    resource, _, sub = draw.choice(RESOURCES).partition("/")
    wanted = {"verb": draw.choice(VERBS), "group": draw.choice(API_GROUPS), "resource": resource,
              "namespace": draw.choice((*NAMESPACES, *NAMESPACES, "")), "name": draw.choice(("", "", *NAMES))}
    if sub or draw.random() < 0.2:
        wanted["subresource"] = sub or draw.choice(("log", "scale", "exec"))
    return {**spec, "resourceAttributes": wanted}


def as_user(spec):
    """Impersonation headers; urllib would join several groups, so there is one at most."""
    headers = {"Impersonate-User": spec["user"]}
    if spec["groups"]:
        headers["Impersonate-Group"] = spec["groups"][0]
    return headers


def grant(draw, number):
    """A role or binding that somebody tries to write: (path, object, headers)."""
    ns = draw.choice(NAMESPACES)
    name = draw.choice((f"new-{number}", "mine"))
    if draw.random() < 0.5:
        return (f"{RBAC}/namespaces/{ns}/roles?dryRun=All",
                {"metadata": {"name": name}, "rules": [rule(draw, False)]}, as_user(who(draw)))
    kind = draw.choice(("Role", "ClusterRole"))
    return (f"{RBAC}/namespaces/{ns}/rolebindings?dryRun=All",
            {"metadata": {"name": name}, "subjects": [subject(draw, ns)],
             "roleRef": {"apiGroup": ROLE_REF, "kind": kind, "name": f"d-{draw.randint(0, 7)}"}}, as_user(who(draw)))


def plain(draw):
    """A request for ConfigMaps: (method, path, object, headers)."""
    ns = draw.choice(NAMESPACES)
    path = f"/api/v1/namespaces/{ns}/configmaps"
    name = draw.choice(("mine", "yours", "none"))
    select = draw.choice(("", f"?fieldSelector=metadata.name%3D{name}", f"?fieldSelector=metadata.name!%3D{name}"))
    watch = ("&" if select else "?") + "watch=true&timeoutSeconds=1&resourceVersion=0"
    body = {"metadata": {"name": name}, "data": {"a": "b"}}
    apply = {"apiVersion": "v1", "kind": "ConfigMap", **body}
    method, path, body, more = draw.choice((
        ("GET", path + select, None, {}), ("GET", path + select, None, {}), ("GET", f"{path}/{name}", None, {}),
        ("GET", path + select + watch, None, {}),
        ("POST", path + "?dryRun=All", {"metadata": {"name": "new"}}, {}), ("PUT", f"{path}/{name}?dryRun=All", body, {}),
        ("PATCH", f"{path}/{name}?dryRun=All", {"data": {"a": "c"}}, {"Content-Type": "application/merge-patch+json"}),
        ("PATCH", f"{path}/{name}?dryRun=All&fieldManager=x&force=true", apply, {"Content-Type": "application/apply-patch+yaml"}),
        ("DELETE", f"{path}/{name}?dryRun=All", None, {}), ("DELETE", path + (select or "?") + "&dryRun=All", None, {})))
    return method, path, body, {**as_user(who(draw)), **more}


def prepare(server, objects):
    for ns in NAMESPACES:
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": ns}})
        for name in ("mine", "yours"):
            code, answer = server.ask("POST", f"/api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": name}})
            check(code in (201, 409), f"{code} {answer}")
    for path, body in objects:
        code, answer = server.ask("POST", path, body)
        check(code in (201, 409), f"{path}: {code} {answer}")
    last = {"metadata": {"name": "d-last"}, "rules": [{"verbs": ["use"], "apiGroups": [""], "resources": ["last"]}]}
    server.ask("POST", RBAC + "/clusterroles", last)
    server.ask("POST", RBAC + "/clusterrolebindings", {
        "metadata": {"name": "d-last"}, "subjects": [{"kind": "User", "apiGroup": ROLE_REF, "name": "last"}],
        "roleRef": {"apiGroup": ROLE_REF, "kind": "ClusterRole", "name": "d-last"}})
    wait_for(lambda: server.allowed({"user": "last", "resourceAttributes": {"verb": "use", "resource": "last"}}) is True,
             "the last binding to hold")


def clean(server):
    for path in (RBAC + "/clusterroles", RBAC + "/clusterrolebindings"):
        for o in server.ask("GET", path)[1].get("items", ()):
            if o["metadata"]["name"].startswith("d-"):
                server.ask("DELETE", f"{path}/{o['metadata']['name']}")
    for ns in NAMESPACES:
        server.ask("DELETE", f"/api/v1/namespaces/{ns}")


def compare(what, questions, real, own):
    """Asks both; every difference is told."""
    different, yes = [], 0
    for question in questions:
        theirs, ours = real(question), own(question)
        yes += theirs is True or theirs in (200, 201, 404)
        if theirs != ours:
            different.append(f"{json.dumps(question)}: Kubernetes {theirs}, ours {ours}")
    print(f"{what}: {len(questions)} asked, {yes} allowed, {len(different)} answered differently (SEED={SEED})")
    check(not different, f"{what}: " + "\n".join(different[:20]))
    check(ALLOWED_LEAST < yes / len(questions) < 1 - ALLOWED_LEAST, f"{what}: {yes} of {len(questions)} are allowed")


def test_decisions_are_those_of_kubernetes():
    draw = Draw(SEED)
    objects = draw.objects = [*role_objects(draw), *WORKERS]
    with Embedded() as muster:
        real, own = real_server(Cluster.plane), own_server(muster)
        try:
            prepare(real, objects)
            prepare(own, objects)
            compare("reviews", [review(draw) for _ in range(REVIEWS)], real.allowed, own.allowed)
            compare("requests", [plain(draw) for _ in range(REQUESTS)], lambda q: real.ask(*q)[0], lambda q: own.ask(*q)[0])
            compare("grants", [grant(draw, i) for i in range(GRANTS)], lambda q: real.ask("POST", *q)[0],
                    lambda q: own.ask("POST", *q)[0])
        finally:
            clean(real)
