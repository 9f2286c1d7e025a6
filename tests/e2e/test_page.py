"""The web page's server side: who gets in, what is refused, and the change stream. Views are tests/page's."""

import http.client
import importlib.util
import json
import os
import re
import ssl

from harness import ROOT, Muster, binary, check, need_kubectl, run, wait_for
from test_rights import Client


class Browser(Client):
    """Requests as the page makes them: a cookie, a key, no Authorization."""

    def __init__(self, muster, what):
        super().__init__(muster)
        self.headers = {}
        self.cookie = ""
        answer = self.raw("POST", "/ui/session", json.dumps(what).encode(), {"Content-Type": "application/json"})
        self.entered, self.said = answer.status, json.loads(answer.text)
        if answer.status == 201:
            self.set_cookie = answer.getheader("Set-Cookie")
            self.cookie = self.set_cookie.split(";")[0]
            self.headers = {"Cookie": self.cookie, "X-Muster-Key": self.said["key"]}

    def raw(self, method, path, body=None, headers=None, host=None):
        """The answer itself; its body in .text."""
        where, port = self.url.split("//")[1].split(":")
        connection = http.client.HTTPSConnection(where, int(port), context=self.context, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"{where}:{port}")
        for name, value in {"Content-Length": str(len(body or b"")), **(headers or {})}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def stream(self, query):
        """Lines of the change stream, as they come."""
        where, port = self.url.split("//")[1].split(":")
        connection = http.client.HTTPSConnection(where, int(port), context=self.context, timeout=60)
        connection.request("GET", "/ui/stream?" + query, headers=self.headers)
        answer = connection.getresponse()
        check(answer.status == 200, f"the stream answered {answer.status}")
        rest = b""
        while piece := answer.read1(65536):
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(json.loads, lines)


def link_of(muster):
    with open(muster.log) as f:
        return re.findall(r"/ui/enter#([0-9a-f]{64})", f.read())[-1]


def test_page_the_address_alone_leads_a_browser_to_the_page():
    with Muster() as m:
        for accept, status in (("text/html,*/*;q=0.8", 302), ("application/json", 401)):
            asked = http.client.HTTPSConnection(m.listen, context=ssl._create_unverified_context(), timeout=20)
            asked.request("GET", "/", headers={"Accept": accept})
            answer = asked.getresponse()
            check(answer.status == status, f"{accept}: {answer.status}")
            check(status != 302 or answer.getheader("Location") == "/ui/", f"{answer.getheaders()}")
            asked.close()


def test_page_a_link_signs_in_once_and_gives_what_the_token_may():
    need_kubectl(24)
    with Muster() as m:
        owner = Browser(m, {"code": link_of(m)})
        check(owner.entered == 201, f"the link of muster up: {owner.entered} {owner.said}")
        for word in ("HttpOnly", "SameSite=Strict", "Secure", "Path=/ui"):
            check(word in owner.set_cookie, f"the cookie is not {word}: {owner.set_cookie}")
        check(Browser(m, {"code": link_of(m)}).entered == 401, "the link was good twice")
        check(owner.says(200, "GET", "/ui/api/v1/nodes")["items"], "the owner sees no nodes")
        check(owner.says(200, "GET", "/ui/session")["owner"], "the owner is not known as such")
        # Another link, in the name of the kubeconfig.
        link = run([binary("muster"), "open", "--print"], env=m.env).stdout.strip()
        check(link.startswith(f"https://{m.listen}/ui/enter#"), f"muster open printed {link}")
        check(Browser(m, {"code": link.split("#")[1]}).entered == 201, "the link of muster open is not good")
        # Somebody without rights gets in, and sees nothing.
        m.kubectl("create", "serviceaccount", "nobody")
        token = m.kubectl("create", "token", "nobody").stdout.strip()
        nobody = Browser(m, {"token": token})
        check(nobody.entered == 201, f"a token: {nobody.entered} {nobody.said}")
        nobody.says(403, "GET", "/ui/api/v1/nodes")
        nobody.says(403, "DELETE", "/ui/api/v1/namespaces/default/pods/x")
        # What if: with the viewer's rights, decided on what is there.
        gang = {"manifest": "gangs:\n- {name: huge, queue: default-queue, pods: 2, gpus: 8}\n"}
        waits = owner.says(200, "POST", "/ui/whatif", gang)["waiting"]
        check([w["group"] for w in waits] == ["huge"], f"a gang that cannot fit: {waits}")
        refusal = nobody.says(422, "POST", "/ui/whatif", gang)
        check("forbidden" in refusal["message"], f"nobody asks what if: {refusal}")
        refusal = owner.says(422, "POST", "/ui/whatif", {"drain": "no-such-node"})
        check('no node "no-such-node"' in refusal["message"], f"a node that is not there: {refusal}")
        first = next(nobody.stream("watch=v1/pods&watch=v1/nodes"))
        check(first["t"] == "FORBIDDEN" and "cannot list" in first["message"], f"the stream of nobody: {first}")
        # A token that is no longer good ends its sessions.
        m.kubectl("delete", "serviceaccount", "nobody")
        wait_for(lambda: nobody.ask("GET", "/ui/session")[0] == 401, "the session of a deleted account to end")
        owner.says(200, "DELETE", "/ui/session")
        owner.says(401, "GET", "/ui/api/v1/nodes")


def test_page_refuses_what_a_browser_is_made_to_send():
    with Muster() as m:
        owner = Browser(m, {"code": link_of(m)})
        both = owner.headers
        nodes = "/ui/api/v1/nodes"

        def refused(code, why, path=nodes, method="GET", host=None, body=None, **headers):
            answer = owner.raw(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()}, host)
            check(answer.status == code, f"{why}: {answer.status} instead of {code}: {answer.text}")

        refused(200, "the page itself", **both)
        refused(401, "nobody is signed in")
        refused(401, "only the cookie, as another site sends it", Cookie=both["Cookie"])
        refused(401, "only the key", X_Muster_Key=both["X-Muster-Key"])
        refused(401, "another key", Cookie=both["Cookie"], X_Muster_Key="0" * 64)
        refused(403, "another site", Sec_Fetch_Site="cross-site", **both)
        refused(403, "another port of this host", Origin="https://127.0.0.1:1", **both)
        refused(421, "a name that was turned to our address", host="evil.example.org", **both)
        refused(421, "the document by such a name", path="/ui/", host="evil.example.org")
        refused(401, "the cookie outside /ui", path="/api/v1/nodes", **both)
        pod = "/ui/api/v1/namespaces/default/pods/x"
        refused(403, "into a pod, whose answer would be of our origin", path=pod + "/proxy/", **both)
        refused(403, "a command in a pod", path=pod + "/exec?command=sh", method="POST", **both)
        refused(403, "a form of another site", path="/ui/session", method="POST", body=b"{}", Content_Type="text/plain")
        json_type = {"Content_Type": "application/json"}
        refused(401, "a wrong token", path="/ui/session", method="POST", body=b'{"token":"no"}', **json_type)
        refused(401, "a link for nobody", path="/ui/link", method="POST", **both)
        refused(404, "a file that is not the page's", path="/ui/a/../../etc/passwd")
        refused(405, "a write to a view", path="/ui/gpus", method="POST", **both)
        refused(400, "a stream of nothing", path="/ui/stream", **both)
        for path in ("/ui/", "/ui/job/a/b/c", "/ui/a/app.js"):
            answer = owner.raw("GET", path)
            policy = answer.getheader("Content-Security-Policy") or ""
            check(answer.status == 200, f"{path}: {answer.status}")
            check("default-src 'none'" in policy and "unsafe" not in policy, f"{path}: {policy}")
            check("frame-ancestors 'none'" in policy and answer.getheader("X-Frame-Options") == "DENY", f"{path} may be framed")
        sandbox = owner.raw("GET", nodes, headers=both).getheader("Content-Security-Policy")
        check("sandbox" in sandbox, f"an answer of the API may run: {sandbox}")


def test_watches_of_a_tab_count_among_the_streams_of_a_user():
    need_kubectl(24)
    with Muster() as m:
        m.kubectl("create", "serviceaccount", "eve")
        eve = Browser(m, {"token": m.kubectl("create", "token", "eve").stdout.strip()})
        where, port = eve.url.split("//")[1].split(":")
        tabs = []
        for _ in range(42):  # 24 watches each: 1008
            tabs.append(http.client.HTTPSConnection(where, int(port), context=eve.context, timeout=60))
            tabs[-1].request("GET", "/ui/stream?" + "&".join(["watch=v1/nothing"] * 24), headers=eve.headers)
        codes = [tab.getresponse().status for tab in tabs]
        check(sorted(codes) == [200] * 41 + [429], f"42 tabs: {codes}")
        owner = Browser(m, {"code": link_of(m)})
        check(next(owner.stream("watch=v1/nothing"))["t"] == "ABSENT", "another has no tab")


def test_page_streams_what_changes():
    with Muster() as m:
        owner = Browser(m, {"code": link_of(m)})
        lines = owner.stream("watch=v1/configmaps&watch=v1/nodes&watch=v1/nothing&namespace=default")
        seen = [next(lines)]
        while sum(line["t"] == "SYNCED" for line in seen) < 2:
            seen.append(next(lines))
        check([line["w"] for line in seen if line["t"] == "ABSENT"] == [2], f"of a kind that is not there: {seen}")
        check(any(line["w"] == 1 and line["t"] == "ADDED" for line in seen), "the node was not told")
        m.kubectl("create", "configmap", "later")
        m.kubectl("create", "configmap", "elsewhere", "-n", "kube-system")
        m.kubectl("delete", "configmap", "later")
        told = []
        while not told or told[-1]["t"] != "DELETED":
            line = next(lines)
            if line["t"] != "PING" and line["w"] == 0:
                told.append(line)
        # A controller may put kube-root-ca.crt there only now.
        check({line["o"]["metadata"]["namespace"] for line in told} == {"default"}, f"another namespace was told: {told}")
        check([line["t"] for line in told if line["o"]["metadata"]["name"] == "later"] == ["ADDED", "DELETED"], f"{told}")


def test_page_shows_a_job_in_a_browser():
    """A job that is submitted while the page is open; where a Chromium and the packages of make test-page are there."""
    spec = importlib.util.spec_from_file_location("page_run", os.path.join(ROOT, "tests", "page", "run.py"))
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    page.run("live", have=True)
