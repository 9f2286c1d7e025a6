"""Who may do what: accounts with few rights that try to get more, as against a Kubernetes API server."""

import base64
import json
import os
import ssl
import urllib.error
import urllib.request

from harness import ROOT, Muster, check, wait_for

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = RBAC + "/namespaces/default/roles"
BINDINGS = RBAC + "/namespaces/default/rolebindings"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """Requests with a token; the owner's where none is given."""

    def __init__(self, muster, token=None, **headers):
        with open(muster.kubeconfig) as f:
            text = f.read()
        authority = base64.b64decode(text.split("certificate-authority-data: ")[1].split()[0]).decode()
        self.context = ssl.create_default_context(cadata=authority)
        self.url = "https://" + muster.listen
        self.headers = {"Authorization": "Bearer " + (token or text.split("token: ")[1].split()[0]), **headers}

    def ask(self, method, path, body=None, **headers):
        """The status and the object of the answer (its text where it is none)."""
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **self.headers, **headers}
        request = urllib.request.Request(self.url + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                code, text = answer.status, answer.read()
        except urllib.error.HTTPError as e:
            code, text = e.code, e.read()
        try:
            return code, json.loads(text)
        except ValueError:
            return code, text.decode()

    def says(self, wanted, method, path, body=None, **headers):
        code, answer = self.ask(method, path, body, **headers)
        check(code == wanted, f"{method} {path}: {code} instead of {wanted}: {answer}")
        return answer


def rule(verbs, resources, group="", **more):
    return {"verbs": verbs.split(","), "apiGroups": [group], "resources": resources.split(","), **more}


def role(name, *rules):
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name, account, to="Role", role_name=None):
    return {"metadata": {"name": name}, "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": to, "name": role_name or name}}


def account(m, owner, name, *rules, cluster=False):
    """A client that is a ServiceAccount with these rules, once they hold."""
    owner.says(201, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    kind, roles, bindings = ("ClusterRole", RBAC + "/clusterroles", RBAC + "/clusterrolebindings") if cluster else \
        ("Role", ROLES, BINDINGS)
    owner.says(201, "POST", roles, role(name, *rules))
    owner.says(201, "POST", bindings, binding(name, name, kind))
    token = owner.says(201, "POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {})["status"]["token"]
    client = Client(m, token)
    wait_for(lambda: client.ask("GET", "/version")[0] == 200 and held(client, rules), f"the rights of {name}")
    return client


def grants(role):
    return {(group, resource, verb) for r in role["rules"] for group in r["apiGroups"] for resource in r["resources"] for verb in
            r["verbs"]}


def held(client, rules):
    review = {"spec": {"namespace": "default"}}
    code, answer = client.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    return code == 201 and all(any(has["verbs"] == r["verbs"] and has["resources"] == r["resources"]
                                   for has in answer["status"]["resourceRules"]) for r in rules if "resources" in r)


def test_nobody_grants_rights_that_he_does_not_hold():
    with Muster() as m:
        owner = Client(m)
        bot = account(m, owner, "bot", rule("create,update,patch,get", "roles,rolebindings", "rbac.authorization.k8s.io"),
                      rule("get", "configmaps"))
        everything = rule("*", "*", "*")
        answer = bot.says(403, "POST", ROLES, role("all", everything))
        check(answer["message"] == 'roles.rbac.authorization.k8s.io "all" is forbidden: user '
              '"system:serviceaccount:default:bot" (groups=["system:serviceaccounts" "system:serviceaccounts:default" '
              '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
              '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}', answer["message"])
        bot.says(201, "POST", ROLES, role("some", rule("get", "configmaps")))
        bot.says(403, "PUT", ROLES + "/some", role("some", everything))
        bot.says(403, "PATCH", ROLES + "/some", {"rules": [everything]}, **{"Content-Type": "application/merge-patch+json"})
        bot.says(403, "PATCH", ROLES + "/new?fieldManager=x", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                                                               **role("new", everything)},
                 **{"Content-Type": "application/apply-patch+yaml"})
        bot.says(200, "PATCH", ROLES + "/some", {"metadata": {"labels": {"a": "b"}}},
                 **{"Content-Type": "application/merge-patch+json"})
        # nor by binding somebody else's role
        owner.says(201, "POST", ROLES, role("strong", rule("get", "secrets")))
        wait_for(lambda: bot.ask("POST", BINDINGS, binding("strong", "bot"))[0] == 403, "the role is known")
        bot.says(403, "POST", BINDINGS, binding("admins", "bot", "ClusterRole", "cluster-admin"))
        bot.says(404, "POST", BINDINGS, binding("nothing", "bot"))
        bot.says(201, "POST", BINDINGS, binding("some", "bot"))
        # but with escalate and bind he may
        binder = account(m, owner, "binder", rule("create", "roles,rolebindings", "rbac.authorization.k8s.io"),
                         rule("escalate,bind", "roles", "rbac.authorization.k8s.io", resourceNames=["strong", "mine"]))
        binder.says(201, "POST", ROLES, role("mine", everything))
        binder.says(403, "POST", ROLES, role("other", everything))
        binder.says(201, "POST", BINDINGS, binding("strong", "binder"))


def test_applying_what_is_not_there_needs_the_right_to_create():
    with Muster() as m:
        owner = Client(m)
        bot = account(m, owner, "bot", rule("get,patch", "configmaps"))
        apply = {"Content-Type": "application/apply-patch+yaml"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
        answer = bot.says(403, "PATCH", CONFIGMAPS + "/c?fieldManager=x", body, **apply)
        check(answer["message"] == 'configmaps "c" is forbidden: User "system:serviceaccount:default:bot" cannot create '
              'resource "configmaps" in API group "" in the namespace "default"', answer["message"])
        bot.says(404, "GET", CONFIGMAPS + "/c")
        owner.says(201, "PATCH", CONFIGMAPS + "/c?fieldManager=x", body, **apply)
        bot.says(200, "PATCH", CONFIGMAPS + "/c?fieldManager=y&force=true", {**body, "data": {"a": "c"}}, **apply)


def test_names_in_a_rule_hold_for_lists_of_that_name_only():
    with Muster() as m:
        owner = Client(m)
        for name in ("mine", "yours"):
            owner.says(201, "POST", CONFIGMAPS, {"metadata": {"name": name}})
        bot = account(m, owner, "bot", rule("*", "configmaps", resourceNames=["mine"]))
        bot.says(200, "GET", CONFIGMAPS + "/mine")
        bot.says(403, "GET", CONFIGMAPS + "/yours")
        bot.says(403, "GET", CONFIGMAPS)
        answer = bot.says(200, "GET", CONFIGMAPS + "?fieldSelector=metadata.name%3Dmine")
        check([o["metadata"]["name"] for o in answer["items"]] == ["mine"], str(answer))
        bot.says(403, "GET", CONFIGMAPS + "?fieldSelector=metadata.name%3Dyours")
        bot.says(403, "DELETE", CONFIGMAPS + "?fieldSelector=metadata.name%3Dmine")
        bot.says(403, "POST", CONFIGMAPS, {"metadata": {"name": "mine"}})


def test_only_who_may_impersonate_asks_in_another_name():
    with Muster() as m:
        owner = Client(m)
        whoami = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        bot = account(m, owner, "bot", rule("impersonate", "users", resourceNames=["joe"]),
                      rule("impersonate", "userextras/scopes", "authentication.k8s.io"), cluster=True)
        answer = bot.says(403, "GET", CONFIGMAPS, **{"Impersonate-User": "eve"})
        check(answer["message"] == 'users "eve" is forbidden: User "system:serviceaccount:default:bot" cannot impersonate '
              'resource "users" in API group "" at the cluster scope', answer["message"])
        who = bot.says(201, *whoami, **{"Impersonate-User": "joe", "Impersonate-Extra-Scopes": "all"})["status"]["userInfo"]
        check(who == {"username": "joe", "groups": ["system:authenticated"], "extra": {"scopes": ["all"]}}, str(who))
        for headers in ({"Impersonate-Group": "system:masters"}, {"Impersonate-Uid": "1"}, {"Impersonate-Extra-Other": "x"}):
            bot.says(403, *whoami, **{"Impersonate-User": "joe", **headers})
        bot.says(403, *whoami, **{"Impersonate-User": "system:serviceaccount:default:bot"})
        bot.says(400, *whoami, **{"Impersonate-Group": "system:masters"})
        who = owner.says(201, *whoami, **{"Impersonate-User": "system:serviceaccount:a:b"})["status"]["userInfo"]
        check(who["groups"] == ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"], str(who))
        owner.says(403, "GET", CONFIGMAPS, **{"Impersonate-User": "eve"})
        owner.says(200, "GET", CONFIGMAPS, **{"Impersonate-User": "eve", "Impersonate-Group": "system:masters"})


JOB = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: past, namespace: %s}
spec: {jobQueue: none, command: "true", numGPUs: 1}
"""


def test_reviews_and_metrics_are_for_those_who_may():
    with Muster() as m:
        owner = Client(m)
        group = "/apis/authorization.k8s.io/v1"
        bot = account(m, owner, "bot", rule("create", "localsubjectaccessreviews,subjectaccessreviews",
                                            "authorization.k8s.io"), rule("list", "pods"))
        answer = bot.says(403, "GET", "/metrics")
        check('cannot get path "/metrics"' in answer["message"], str(answer))
        answer = bot.says(403, "GET", "/accounts")
        check('cannot get path "/accounts"' in answer["message"], str(answer))
        # What is kept of deleted jobs is for whoever may list the jobs of their namespace, and of no other.
        for ns in ("default", "kube-public"):
            m.apply(JOB % ns)
            m.kubectl("delete", "torchrunjob", "past", "-n", ns)
        lister = account(m, owner, "lister", rule("list", "torchrunjobs", "torchrun.ai"))
        for path in ("/history", "/accounts"):
            wait_for(lambda: "past" in str(lister.ask("GET", f"{path}?namespace=default")[1]), "the right to list jobs")
            said = str(lister.says(200, "GET", f"{path}?namespace=default"))
            check("default" in said and "kube-public" not in said, said)
            lister.says(403, "GET", path)
            lister.says(403, "GET", f"{path}?namespace=kube-public")
            lister.says(403, "GET", f"{path}?namespace=")
            bot.says(403, "GET", f"{path}?namespace=default")
            wait_for(lambda: "kube-public" in str(owner.says(200, "GET", path)), "the owner to have all", 20)
        seer = account(m, owner, "seer", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, cluster=True)
        wait_for(lambda: seer.ask("GET", "/metrics")[0] == 200, "the right to read metrics")

        def review(ns, **more):
            return {"spec": {"user": "system:serviceaccount:default:bot", **more,
                             "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": ns}}}
        local = group + "/namespaces/default/localsubjectaccessreviews"
        check(bot.says(201, "POST", local, review("default"))["status"]["allowed"] is True, "its own right")
        bot.says(422, "POST", local, review("kube-system"))
        bot.says(422, "POST", local, review(""))
        bot.says(404, "POST", group + "/namespaces/default/subjectaccessreviews", review("kube-system"))
        bot.says(403, "POST", group + "/subjectaccessreviews", review("default"))
        owner.says(404, "POST", group + "/localsubjectaccessreviews", review("default"))
        answer = owner.says(201, "POST", group + "/subjectaccessreviews", review("", user="x", groups=["system:masters"]))
        check(answer["status"]["allowed"] is True, "masters may do everything")
        owner.says(422, "POST", group + "/subjectaccessreviews", {"spec": {"user": "x"}})
        bot.says(400, "POST", group + "/selfsubjectrulesreviews", {"spec": {}})


def test_the_usual_cluster_roles_are_there_and_gather_rules():
    with Muster() as m:
        owner = Client(m)
        roles = RBAC + "/clusterroles"

        def allows(name, verb, resource, group=""):
            code, answer = owner.ask("GET", f"{roles}/{name}")
            return code == 200 and any(verb in r["verbs"] and resource in r.get("resources", ()) and
                                       group in r.get("apiGroups", ()) for r in answer.get("rules") or ())
        wait_for(lambda: allows("admin", "create", "roles", "rbac.authorization.k8s.io") and
                 allows("admin", "create", "torchrunjobs", "torchrun.ai") and allows("admin", "list", "pods"), "admin's rules")
        shipped = json.loads("[" + m.kubectl("create", "--dry-run=client", "-o", "json", "-f", os.path.join(
            ROOT, "deploy", "rbac", "users.yaml")).stdout.replace("\n}\n{", "\n},\n{") + "]")
        for wanted in shipped:
            here = owner.says(200, "GET", f"{roles}/{wanted['metadata']['name']}")
            check(grants(here) == grants(wanted), f"{wanted['metadata']['name']} is as on a cluster: {here['rules']}")
        check(not allows("edit", "create", "roles", "rbac.authorization.k8s.io"), "who edits may not grant")
        check(not allows("view", "get", "secrets") and allows("view", "get", "pods/log"), "who views reads no secrets")
        mine = role("mine", rule("get", "widgets", "example.com"))
        mine["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        owner.says(201, "POST", roles, mine)
        wait_for(lambda: allows("admin", "get", "widgets", "example.com"), "a rule that view, edit and admin gather")
        owner.says(200, "DELETE", roles + "/mine")
        wait_for(lambda: not allows("admin", "get", "widgets", "example.com"), "it is gone")
        # whoever may edit a namespace works in it and hands out nothing
        owner.says(201, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "bot"}})
        owner.says(201, "POST", BINDINGS, binding("bot", "bot", "ClusterRole", "edit"))
        bot = Client(m, owner.says(201, "POST", "/api/v1/namespaces/default/serviceaccounts/bot/token", {})["status"]["token"])
        wait_for(lambda: bot.ask("GET", CONFIGMAPS)[0] == 200, "the right to edit")
        bot.says(201, "POST", CONFIGMAPS, {"metadata": {"name": "c"}})
        bot.says(403, "POST", ROLES, role("x"))
        bot.says(403, "GET", "/api/v1/namespaces/kube-system/configmaps")
        aggregated = {**role("a"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}
        writer = account(m, owner, "writer", rule("create", "clusterroles", "rbac.authorization.k8s.io"), cluster=True)
        answer = writer.says(403, "POST", roles, aggregated)
        check("must have cluster-admin privileges to use an aggregationRule" in answer["message"], str(answer))
