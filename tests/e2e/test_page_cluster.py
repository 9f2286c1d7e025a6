"""The web page as the operator serves it: sign-in by token or proxy, and every request in the viewer's name.

The embedded server is the cluster here; tests/kubernetes/test_portal.py has a real control plane."""

import contextlib
import http.client
import json
import os
import subprocess
import urllib.error
import urllib.request

from harness import Muster, binary, check, need_kubectl, run, wait_for
from test_page import Browser

SECRET = "a secret of the proxy in front"


class Visitor(Browser):
    """A browser at the operator's page: plain HTTP at 127.0.0.1, as kubectl port-forward gives it."""

    def __init__(self, muster, url, token=None):
        self.context, self.headers, self.url = None, {}, url
        if token is not None:
            code, self.said = self.ask("POST", "/ui/session", {"token": token})
            self.entered = code

    def ask(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **self.headers, **headers}
        request = urllib.request.Request(self.url + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                code, text, cookie = answer.status, answer.read(), answer.headers["Set-Cookie"]
        except urllib.error.HTTPError as e:
            code, text, cookie = e.code, e.read(), None
        try:
            said = json.loads(text)
        except ValueError:
            said = text.decode()
        if cookie and code == 201:
            self.headers = {"Cookie": cookie.split(";")[0], "X-Muster-Key": said["key"]}
        return code, said

    def lines(self, query, **headers):
        """Lines of the change stream, as they come, less those that only say that it is there."""
        request = urllib.request.Request(self.url + "/ui/stream?" + query, headers={**self.headers, **headers})
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in map(json.loads, answer):
                if line["t"] != "PING":
                    yield line


@contextlib.contextmanager
def operator(muster, *flags):
    """One that decides nothing (--shadow) and serves the page; its address."""
    log = os.path.join(muster.folder, "operator.log")
    with open(log, "w") as out:
        process = subprocess.Popen([binary("muster"), "operator", "--kubeconfig", muster.kubeconfig, "--shadow", "--listen", "",
                                    "--debug-listen", "", "--page-listen", "127.0.0.1:0", *flags],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def port():
        check(process.poll() is None, f"the operator ended: {open(log).read()}")
        with open(log) as f:
            words = [line for line in f if "page.ready" in line]
        return words and words[0].split("port=")[1].split()[0]

    try:
        yield f"http://127.0.0.1:{wait_for(port, 'the page of the operator')}"
    finally:
        process.terminate()
        process.wait()


def viewer(muster, name):
    """The token of an account that may see pods, nodes and ConfigMaps of default, and nothing else."""
    muster.kubectl("create", "serviceaccount", name)
    muster.kubectl("create", "role", name, "--verb=get,list,watch", "--resource=pods,configmaps")
    muster.kubectl("create", "rolebinding", name, f"--role={name}", f"--serviceaccount=default:{name}")
    return muster.kubectl("create", "token", name).stdout.strip()


def told(lines, wanted):
    """What the stream says until it has spoken of `wanted` watches."""
    seen = []
    while len({line["w"] for line in seen if line["t"] in ("SYNCED", "FORBIDDEN", "ABSENT")}) < wanted:
        seen.append(next(lines))
    return seen


def test_page_of_the_operator_is_read_with_the_viewers_own_token():
    need_kubectl(24)
    with Muster(nodes=1) as m, operator(m) as url:
        token = viewer(m, "ann")
        nobody = Visitor(m, url)
        nobody.says(401, "GET", "/ui/session")
        nobody.says(401, "GET", "/ui/api/v1/nodes")
        check("<html" in nobody.ask("GET", "/ui/gpus")[1], "the views have no document")
        check(Visitor(m, url, "no-such-token").entered == 401, "a wrong token signed in")
        check(Visitor(m, url, "two\nlines").entered == 401, "a header was smuggled in a token")
        ann = Visitor(m, url, token)
        check(ann.entered == 201, f"a good token: {ann.entered} {ann.said}")
        check(ann.said["user"] == "system:serviceaccount:default:ann", f"who it is: {ann.said}")
        check(token not in json.dumps(ann.headers), "the browser keeps the token")
        check(ann.says(200, "GET", "/ui/session")["user"] == ann.said["user"], "the session is another's")
        # The API server decides, as it does for kubectl.
        ann.says(200, "GET", "/ui/api/v1/namespaces/default/pods")
        refusal = ann.says(403, "GET", "/ui/api/v1/nodes")
        check("system:serviceaccount:default:ann" in refusal["message"], f"in whose name: {refusal}")
        ann.says(403, "DELETE", "/ui/api/v1/namespaces/default/configmaps/none")
        ann.says(403, "GET", "/ui/api/v1/namespaces/default/pods/x/proxy/")
        ann.says(400, "GET", "/ui/api/v1/namespaces/default/pods/x%2Fproxy/")  # to an API server the same
        ann.says(400, "GET", "/ui/api/v1/namespaces/default/pods/x%2fproxy")
        ann.says(403, "GET", "/ui/api/v1/namespaces/default/pods/x/%70roxy/")
        cut = http.client.HTTPConnection(url.split("//")[1], timeout=60)
        cut.request("GET", "/ui/api/v1/namespaces/default/pods/x/proxy#", headers=ann.headers)
        check(cut.getresponse().status == 400, "a path that ends early on its way to the API server")
        ann.says(403, "GET", "/ui/api/v1/nodes", **{"Sec-Fetch-Site": "cross-site"})
        ann.says(421, "GET", "/ui/", Host="evil.example.org")
        # The stream tells what the viewer may see, live.
        query = "namespace=default&watch=v1/pods&watch=v1/nodes&watch=v1/secrets"
        lines = ann.lines(query)
        seen = told(lines, 3)
        words = {line["w"]: line["t"] for line in seen}
        check(words == {0: "SYNCED", 1: "FORBIDDEN", 2: "ABSENT"}, f"pods, nodes, secrets: {seen}")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "seen"},
               "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}}
        m.apply(json.dumps(pod))
        first = next(lines)
        check(first["t"] == "ADDED" and first["o"]["metadata"]["name"] == "seen", f"a pod was made: {first}")
        # A token that is no longer good ends its session.
        m.kubectl("delete", "serviceaccount", "ann")
        wait_for(lambda: ann.ask("GET", "/ui/session")[0] == 401, "the session of a deleted account to end")


def test_page_of_the_operator_believes_its_proxy_and_nobody_else():
    need_kubectl(24)
    with Muster(nodes=1) as m:
        secret = os.path.join(m.folder, "secret")
        with open(secret, "w") as f:
            f.write(SECRET + "\n")
        viewer(m, "role-for-ann")
        m.kubectl("create", "rolebinding", "people", "--role=role-for-ann", "--group=ml")
        page = {"Sec-Fetch-Site": "same-origin"}
        ann = {"X-Muster-Proxy-Secret": SECRET, "X-Remote-User": "ann", "X-Remote-Group": "ml", **page}
        pods, nodes = "/ui/api/v1/namespaces/default/pods", "/ui/api/v1/nodes"
        with operator(m, "--page-proxy-secret-file", secret) as url:
            at = Visitor(m, url)
            check(at.says(200, "GET", "/ui/session", **ann)["user"] == "ann", "the proxy's user is another")
            at.says(200, "GET", pods, **ann)
            refusal = at.says(403, "GET", nodes, **ann)
            check('"ann"' in refusal["message"], f"in whose name: {refusal}")
            seen = told(at.lines("namespace=default&watch=v1/pods&watch=v1/nodes", **ann), 2)
            check({line["w"]: line["t"] for line in seen} == {0: "SYNCED", 1: "FORBIDDEN"}, f"the stream of ann: {seen}")
            # Forged: without the secret, with a wrong one, with rights that no person has, from another site.
            at.says(403, "GET", pods, **{**ann, "X-Muster-Proxy-Secret": "guessed, guessed"})
            at.says(403, "GET", nodes, **{"X-Remote-User": "admin", "X-Remote-Group": "system:masters", **page})
            at.says(403, "GET", nodes, **{**ann, "X-Remote-Group": "system:masters"})
            at.says(403, "GET", pods, **{**ann, "Sec-Fetch-Site": "cross-site"})
            at.says(403, "GET", pods, **{k: v for k, v in ann.items() if k != "Sec-Fetch-Site"})
            at.says(401, "GET", pods)
        with operator(m) as url:  # nothing is configured: headers say nothing
            Visitor(m, url).says(401, "GET", pods, **ann)


def begun(url, visitor, method, path, **headers):
    """A connection on which a request was begun, and the status of its answer; None: it waits for a body."""
    link = http.client.HTTPConnection(url.split("//")[1], timeout=60)
    link.putrequest(method, path)
    for name, value in {**visitor.headers, **headers}.items():
        link.putheader(name, value)
    link.endheaders()
    return link, None if headers else link.getresponse().status


def test_one_viewer_leaves_tabs_and_requests_of_the_page_to_others():
    need_kubectl(24)
    with Muster(nodes=1) as m, operator(m) as url:
        m.kubectl("create", "namespace", "other")
        m.kubectl("create", "serviceaccount", "bob", "-n", "other")
        ann = Visitor(m, url, viewer(m, "ann"))
        again = Visitor(m, url, viewer(m, "eve"))  # of the same namespace: who has ann's token can make this one
        bob = Visitor(m, url, m.kubectl("create", "token", "bob", "-n", "other").stdout.strip())
        tab = "/ui/stream?watch=v1/secrets"
        tabs = [begun(url, ann, "GET", tab) for _ in range(32)]
        check({status for _, status in tabs} == {200}, f"32 tabs are open: {tabs}")
        for visitor in (ann, again):
            check(begun(url, visitor, "GET", tab)[1] == 429, "one viewer has more tabs than 32")
        check("you have 32 tabs open" in ann.says(429, "GET", tab)["message"], "what is told")
        check(begun(url, bob, "GET", tab)[1] == 200, "another viewer has no tab")
        tabs.pop()[0].close()
        wait_for(lambda: begun(url, ann, "GET", tab)[1] == 200, "a tab that was closed to make room")
        made = "/ui/api/v1/namespaces/default/configmaps"
        bodies = [begun(url, ann, "POST", made, **{"Content-Length": str(3 << 20)}) for _ in range(10)]  # that never come
        wait_for(lambda: ann.ask("POST", made, {"data": {"k": "x" * (2 << 20)}})[0] == 429, "ten bodies to be as many as may be")
        bob.says(403, "POST", made, {"data": {"k": "x" * (2 << 20)}})
        for link, _ in bodies:
            link.close()
        wait_for(lambda: ann.ask("POST", made, {"data": {"k": "x" * (2 << 20)}})[0] == 403, "what was closed to be forgotten")


def test_page_of_the_operator_is_not_served_in_clear_text_by_accident():
    with Muster(nodes=1) as m:
        for flags, words in ((["--page-listen", "0.0.0.0:0"], "clear text"),
                             (["--page-listen", "127.0.0.1:0", "--page-certificate", "a"], "--page-key"),
                             (["--page-listen", "127.0.0.1:0", "--page-proxy-client-ca", "a"], "--page-proxy-client-name")):
            done = run([binary("muster"), "operator", "--kubeconfig", m.kubeconfig, "--shadow", "--listen", "",
                        "--debug-listen", "", *flags], ok=False)
            check(done.returncode == 1 and words in done.stderr, f"{flags}: {done.returncode} {done.stderr}")
