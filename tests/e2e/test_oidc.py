"""People whom an OpenID Connect issuer signs in."""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import tempfile

from harness import PATIENCE, Muster, Skip, binary, check, python_with, run, wait_for
from oidc_issuer import Issuer
from test_page import Browser
from test_plugin_commands import need_torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: vision, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "oidc:vision"}]
"""


def as_token(m, token, *argv):
    server = ["--server", f"https://{m.listen}", "--certificate-authority", f"{m.data}/tls/ca.crt", "--kubeconfig", "/dev/null"]
    return run(["kubectl", *server, "--token", token, *argv], env=m.env, ok=False)


def flags_of(issuer, url):
    return ["--oidc-issuer-url", url, "--oidc-client-id", "muster", "--oidc-ca-file", issuer.crt,
            "--oidc-username-claim", "email", "--oidc-username-prefix", "oidc:",
            "--oidc-groups-claim", "groups", "--oidc-groups-prefix", "oidc:",
            "--oidc-required-claim", "hd=lab"]


def test_an_issuer_signs_people_in():
    if not shutil.which("openssl"):
        raise Skip("needs openssl to make keys")
    folder = tempfile.mkdtemp(prefix="muster-oidc-")
    alice = {"email": "alice@lab", "groups": ["vision", "system:masters"], "hd": "lab"}
    with Issuer(folder) as issuer, Muster(flags=flags_of(issuer, issuer.url)) as m:
        m.apply(ROLE)
        issuer.new_key("one")
        # The issuer had no key when muster asked first; a token that names one makes it ask again.
        token = issuer.token("one", **alice)
        wait_for(lambda: as_token(m, token, "get", "pods").returncode == 0, "alice to be known", 60)
        who = json.loads(as_token(m, token, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
        check(who["username"] == "oidc:alice@lab", f"{who}")
        check(sorted(who["groups"]) == ["oidc:system:masters", "oidc:vision", "system:authenticated"], f"{who}")
        check(as_token(m, token, "get", "nodes").returncode != 0, "what no role gives her is refused")
        for why, other in {"of somebody else": {"aud": "other"}, "over": {"exp": 1}, "not hers": {"hd": "x"},
                           "of another issuer": {"iss": "https://other"}, "not looked at": {"email_verified": False}}.items():
            said = as_token(m, issuer.token("one", **{**alice, **other}), "get", "pods")
            check(said.returncode != 0 and "nauthorized" in said.stderr, f"{why}: {said.stdout} {said.stderr}")
        issuer.new_key("two")
        kept, issuer.keys = issuer.keys, {"two": issuer.keys["two"]}
        asked = len(issuer.asked)
        forged = issuer.token("two", **alice)
        wait_for(lambda: as_token(m, forged, "get", "pods").returncode == 0, "the new key to be known", 60)
        check(as_token(m, token, "get", "pods").returncode != 0, "the old key is none any more")
        for _ in range(5):
            as_token(m, token, "get", "pods")
        check(len(issuer.asked) - asked <= 4, f"the issuer is not asked for every token: {issuer.asked}")
        check(len(kept) == 2, "both keys were served")
    shutil.rmtree(folder)


def exec_config(m, issuer, token):
    """The kubeconfig of docs/operations.md, with a program that asks nobody."""
    plugin, config = os.path.join(issuer.folder, "plugin"), os.path.join(issuer.folder, "config")
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    with open(plugin, "w") as f:
        f.write(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    os.chmod(plugin, 0o755)
    cluster = {"server": f"https://{m.listen}", "certificate-authority": f"{m.data}/tls/ca.crt"}
    me = {"exec": {"apiVersion": credential["apiVersion"], "interactiveMode": "IfAvailable", "command": plugin}}
    with open(config, "w") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
                   "clusters": [{"name": "lab", "cluster": cluster}],
                   "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "vision"}}],
                   "users": [{"name": "me", "user": me}]}, f)
    return dict(m.env, KUBECONFIG=config)


def test_a_group_of_the_issuer_works_in_a_queue_of_its_own():
    """As docs/operations.md says it."""
    need_torch()
    folder = tempfile.mkdtemp(prefix="muster-oidc-")
    with Issuer(folder) as issuer, Muster(gpus_per_node=1, flags=[*flags_of(issuer, issuer.url), "--pod-network=bridge"]) as m:
        issuer.new_key("one")
        run([binary("muster"), "user", "add", "vision", "--uid", "70005", "--home", m.folder, "--queue", "vision",
             "--kubeconfig", m.kubeconfig])
        m.kubectl("create", "rolebinding", "vision", "-n", "vision", "--clusterrole", "edit", "--group", "oidc:vision")
        m.kubectl("create", "clusterrolebinding", "vision", "--clusterrole", "muster:person", "--group", "oidc:vision")
        m.kubectl("patch", "queues.scheduling.run.ai", "vision", "--type", "merge", "-p", '{"spec":{"namespaces":["vision"]}}')
        env = exec_config(m, issuer, issuer.token("one", email="ann@lab", groups=["vision"], hd="lab"))
        wait_for(lambda: run(["kubectl", "get", "pods"], env=env, ok=False).returncode == 0, "ann to be known", 60)
        done = run([binary("kubectl-torchrun"), "submit", "--no-workspace", "--queue", "vision", "--gpus", "1", "id -u"], env=env,
                   cwd=folder)
        check("[rank0] 70005" in done.stdout, f"{done.stdout} {done.stderr}")
        said = m.kubectl("run", "x", "--image", "x", "--labels", "kai.scheduler/queue=vision", ok=False).stderr
        check("queue vision takes no work of namespace default" in said, said)
        wait_for(lambda: "oidc:ann@lab" in m.torchrun("report", "--by", "user").stdout, "her name in the report", 30)
    shutil.rmtree(folder)


def test_an_issuer_that_others_wrote_signs_people_in():
    python = python_with("oidc_provider_mock")
    folder = tempfile.mkdtemp(prefix="muster-oidc-")
    with Issuer(folder) as ours:  # for its certificate
        package = os.path.join(HERE, "oidc_package.py")
        theirs = subprocess.Popen([python, "-W", "ignore", package, ours.crt, ours.crt[:-3] + "key"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            secret = os.path.join(folder, "secret")
            with open(secret, "w") as f:
                f.write("any")  # this issuer takes any, and wants one
            flags = [*flags_of(ours, theirs.stdout.readline().strip()), "--oidc-client-secret-file", secret]
            with Muster(flags=flags) as m:
                m.apply(ROLE)
                theirs.stdin.write("alice\n")
                theirs.stdin.flush()
                token = theirs.stdout.readline().strip()
                wait_for(lambda: as_token(m, token, "get", "pods").returncode == 0, "alice to be known", 60)
                who = json.loads(as_token(m, token, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
                check(who["username"] == "oidc:alice@lab" and "oidc:vision" in who["groups"], f"{who}")
                check(as_token(m, token[:-8] + "AAAAAAAA", "get", "pods").returncode != 0, "another signature is none")
                nobody = Browser(m, {"token": "none"})
                begun = nobody.raw("GET", "/ui/login")
                theirs.stdin.write(f"alice {begun.getheader('Location')}\n")
                theirs.stdin.flush()
                back = theirs.stdout.readline().strip()[len(f"https://{m.listen}"):]
                browser = signed_in(m, come_back(nobody, begun.getheader("Set-Cookie").split(";")[0], back))
                check(browser.said["user"] == "oidc:alice@lab", f"{browser.said}")
        finally:
            theirs.stdin.close()
            theirs.kill()
            theirs.wait()
    shutil.rmtree(folder)


def test_an_issuer_that_makes_no_sense_is_refused_at_the_start():
    client = ("--oidc-client-id", "m")
    issuer = ("--oidc-issuer-url", "https://i", *client)
    for flags, words in {
            ("--oidc-issuer-url", "http://i", *client): "must be an address of https",
            client: "--oidc-issuer-url is missing",
            (*issuer, "--oidc-signing-algs", "HS256"): "must be RS256, ES256",
            ("--oidc-client-secret-file", "/dev/null"): "--oidc-client-secret-file: /dev/null is empty",
            (*issuer, "--oidc-client-secret-file", "/gone"): "--oidc-client-secret-file: /gone",
            (*issuer, "--oidc-ca-file", "/gone"): "--oidc-ca-file: /gone"}.items():
        with tempfile.TemporaryDirectory() as data:
            said = run([binary("muster"), "up", "--data-dir", data, "--listen", "127.0.0.1:0", *flags], ok=False)
            check(said.returncode != 0 and words in said.stderr, f"{flags}: {said.stderr}")


def follow(m, issuer, browser):
    """A browser that goes from the page to the issuer and is about to come back: its cookie, and the path that it comes with."""
    begun = browser.raw("GET", "/ui/login")
    check(begun.status == 302, f"/ui/login: {begun.status} {begun.text}")
    cookie = begun.getheader("Set-Cookie")
    for word in ("HttpOnly", "SameSite=Lax", "Secure", "Path=/ui/callback;"):
        check(word in cookie, f"the cookie is not {word}: {cookie}")
    back = redirect_of(issuer, begun.getheader("Location"))
    check(back.startswith(f"https://{m.listen}/ui/callback?"), f"the issuer sends it to {back}")
    return cookie.split(";")[0], back[len(f"https://{m.listen}"):]


def redirect_of(issuer, address):
    connection = http.client.HTTPSConnection(issuer.url.split("//")[1], timeout=60 * PATIENCE,
                                             context=ssl.create_default_context(cafile=issuer.crt))
    connection.request("GET", address[len(issuer.url):])
    answer = connection.getresponse()
    answer.read()
    connection.close()
    check(answer.status == 302, f"{address}: {answer.status}")
    return answer.getheader("Location")


def come_back(browser, cookie, path):
    return browser.raw("GET", path, headers={"Cookie": cookie} if cookie else {})


def signed_in(m, answer):
    """The session that the answer of the callback leads to."""
    location = answer.getheader("Location") or ""
    check(answer.status == 302 and location.startswith("/ui/enter#"), f"{answer.status} {location} {answer.text}")
    check("Max-Age=0" in answer.getheader("Set-Cookie"), "the cookie of the way there is taken away")
    return Browser(m, {"code": location.split("#")[1]})


def test_people_sign_in_on_the_page_at_their_issuer():
    if not shutil.which("openssl"):
        raise Skip("needs openssl to make keys")
    folder = tempfile.mkdtemp(prefix="muster-oidc-")
    alice = {"email": "alice@lab", "groups": ["vision"], "hd": "lab"}
    secret = os.path.join(folder, "secret")
    with open(secret, "w") as f:
        f.write("a+b c\n")
    with Issuer(folder) as issuer:
        issuer.new_key("one")
        issuer.secret = "a+b c"
        with Muster(flags=[*flags_of(issuer, issuer.url), "--oidc-client-secret-file", secret]) as m:
            m.apply(ROLE)
            nobody = Browser(m, {"token": "none"})
            offered = json.loads(nobody.raw("GET", "/ui/login/issuer").text)
            check(offered == {"issuer": issuer.url}, f"{offered}")
            wait_for(lambda: nobody.raw("GET", "/ui/login").status == 302, "the issuer to be known", 60)
            cookie, back = follow(m, issuer, nobody)
            said = come_back(nobody, cookie, back)
            check(said.status == 400 and "access_denied &lt;b&gt;not today&lt;/b&gt;" in said.text, f"{said.status} {said.text}")
            issuer.person = alice
            cookie, back = follow(m, issuer, nobody)
            for why, other, path in (("no cookie", None, back), ("another browser", follow(m, issuer, nobody)[0], back),
                                     ("another state", cookie, back.replace("state=", "state=x")),
                                     ("no code", cookie, back.replace("code=", "other=")),
                                     ("another issuer", cookie, back.replace("iss=", "iss=x"))):
                said = come_back(nobody, other, path)
                check(said.status == 400 and "Nobody is signed in" in said.text, f"{why}: {said.status} {said.text}")
            browser = signed_in(m, come_back(nobody, cookie, back))
            check(browser.said["user"] == "oidc:alice@lab" and not browser.said["owner"], f"{browser.said}")
            browser.says(200, "GET", "/ui/api/v1/namespaces/default/pods")
            browser.says(403, "GET", "/ui/api/v1/nodes")
            said = come_back(nobody, cookie, back)
            check(said.status == 403 and "no such code" in said.text, f"a code is good once: {said.status} {said.text}")
            for why, claims, words in (("another sign-in's", {"nonce": "x"}, "of another sign-in"),
                                       ("not of the lab", {"hd": "x"}, "does not have the claim hd=lab"),
                                       ("not looked at", {"email_verified": False}, "alice@lab is not verified"),
                                       ("no name", {"email": ""}, "has no claim &quot;email&quot;")):
                issuer.claims = claims
                said = come_back(nobody, *follow(m, issuer, nobody))
                check(said.status == 403 and words in said.text, f"{why}: {said.status} {said.text}")
            issuer.claims = {}
            # A key that is newer than what the server knows.
            issuer.keys = {}
            issuer.new_key("two")
            again = signed_in(m, come_back(nobody, *follow(m, issuer, nobody)))
            check(again.said["user"] == "oidc:alice@lab", f"{again.said}")
            issuer.secret = "other"
            said = come_back(nobody, *follow(m, issuer, nobody))
            check(said.status == 403 and "HTTP status 401" in said.text, f"a wrong secret: {said.status} {said.text}")
            again.says(200, "DELETE", "/ui/session")
            again.says(401, "GET", "/ui/session")
    shutil.rmtree(folder)


def test_a_page_without_an_issuer_says_so():
    with Muster() as m:
        nobody = Browser(m, {"token": "none"})
        check(json.loads(nobody.raw("GET", "/ui/login/issuer").text) == {"issuer": ""}, "there is none")
        for path, status in (("/ui/login", 404), ("/ui/callback?code=x&state=y", 400)):
            said = nobody.raw("GET", path)
            check(said.status == status and "Nobody is signed in" in said.text, f"{path}: {said.status} {said.text}")
