"""The API of a cluster over one connection that is kept, for what tests ask again and again while they wait.

kubectl is a program to start for each question: on a small machine most of a test's time went there. Where kubectl itself
is what is tested, it is used (Muster.kubectl); here is only what its `get -o json`, `logs` and `delete` would ask for.
"""

import base64
import http.client
import json
import os
import re
import ssl
import tempfile
import threading
import urllib.parse

# v2beta1: before Kubernetes 1.30
AGGREGATED = ", ".join(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1"))
LOST = (http.client.HTTPException, ConnectionError, ssl.SSLError)  # a connection that was kept, and whose server is gone


class Refused(OSError):
    """An answer that is no success; an OSError, as wait_for() asks again after those."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


class Rest:
    def __init__(self, kubeconfig, timeout):
        self.kubeconfig, self.timeout = kubeconfig, timeout
        self.own = threading.local()  # a connection belongs to one thread
        self.kinds = {}  # any name that kubectl takes: (path of its group and version, plural, whether it has namespaces)

    def _config(self, key):
        """A value of the kubeconfig, which has one cluster and one user."""
        with open(self.kubeconfig) as f:
            found = re.search(rf'\b{key}: *"?([^\s",}}]+)', f.read())
        return found and found.group(1)

    def server(self):
        found = self._config("server")
        if not found:
            raise OSError(f"{self.kubeconfig} names no server")
        return found

    def _context(self):
        authority = base64.b64decode(self._config("certificate-authority-data")).decode()
        context = ssl.create_default_context(cadata=authority)
        if self._config("client-certificate-data"):
            with tempfile.NamedTemporaryFile() as file:
                for key in ("client-certificate-data", "client-key-data"):
                    file.write(base64.b64decode(self._config(key)))
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def _connect(self):
        at = urllib.parse.urlsplit(self.server())
        self.own.headers = {"Authorization": f"Bearer {self._config('token')}"} if self._config("token") else {}
        self.own.connection = http.client.HTTPSConnection(at.hostname, at.port, timeout=self.timeout, context=self._context())
        self.own.process = os.getpid()

    def _ask(self, method, path, body, accept, content):
        headers = {"Accept": accept, **self.own.headers, **({"Content-Type": content} if body else {})}
        self.own.connection.request(method, path, body, headers)
        answer = self.own.connection.getresponse()
        return answer.status, answer.read()

    def ask(self, method, path, body=None, accept="application/json", content="application/json"):
        """(status, body) of one request."""
        kept = getattr(self.own, "connection", None)
        if kept and self.own.process == os.getpid():
            try:
                return self._ask(method, path, body, accept, content)
            except LOST:
                kept.close()
        try:
            self._connect()
            return self._ask(method, path, body, accept, content)
        except LOST as e:
            self.own.connection = None
            raise OSError(f"{method} {path}: {e!r}") from e
        except OSError:
            self.own.connection = None
            raise

    def get(self, path):
        """A document; None when it does not exist."""
        status, text = self.ask("GET", path)
        if status == 404 and b'"NotFound"' in text:
            return None
        if status != 200:
            raise Refused(status, text.decode(errors="replace"))
        return json.loads(text)

    @staticmethod
    def place(path, item):
        """Where an item of the list of all namespaces at `path` is."""
        start, plural = path.rsplit("/", 1)
        meta = item["metadata"]
        within = f"{start}/namespaces/{meta['namespace']}/{plural}" if "namespace" in meta else path
        return f"{within}/{meta['name']}"

    def delete_item(self, path, item, **options):
        """An item of the list of all namespaces at `path`."""
        body = json.dumps({"apiVersion": "v1", "kind": "DeleteOptions", **options})
        status, text = self.ask("DELETE", self.place(path, item), body)
        if status not in (200, 202, 404):
            raise Refused(status, text.decode(errors="replace"))

    def _discover(self):
        short = {}
        for root in ("/api", "/apis"):
            status, text = self.ask("GET", root, accept=AGGREGATED)
            if status != 200:
                raise Refused(status, text.decode(errors="replace"))
            for group in json.loads(text)["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    path = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                    for resource in version["resources"]:
                        where = (path, resource["resource"], resource["scope"] == "Namespaced")
                        for word in (resource["resource"], resource.get("singularResource")):
                            if word:
                                self.kinds.setdefault(word, where)
                                self.kinds.setdefault(f"{word}.{name}", where)
                                self.kinds.setdefault(f"{word}.{version['version']}.{name}", where)
                        for word in resource.get("shortNames", []):
                            short.setdefault(word, where)
        for word, where in short.items():
            self.kinds.setdefault(word, where)

    def path(self, resource, name=None, ns=None):
        """Where it is; None for what is no resource here, or more than one."""
        if resource not in self.kinds and resource.replace(".", "").replace("-", "").isalnum():
            self.kinds = {}  # definitions may have come since
            self._discover()
        if resource not in self.kinds:
            return None
        path, plural, namespaced = self.kinds[resource]
        path += f"/namespaces/{ns}/{plural}" if namespaced and ns else f"/{plural}"
        return f"{path}/{name}" if name else path

    def log(self, pod, ns="default", **query):
        asked = urllib.parse.urlencode({key: value for key, value in query.items() if value is not None})
        status, text = self.ask("GET", f"/api/v1/namespaces/{ns}/pods/{pod}/log?{asked}", accept="*/*")
        if status != 200:
            raise Refused(status, text.decode(errors="replace"))
        return text.decode(errors="replace")
