"""The operator's web page on a real API server, with exactly the rights of deploy/rbac: every request is the viewer's own."""

import json
import os

from cluster import Cluster
from harness import check, free_port, wait_for
from test_page_cluster import SECRET, Visitor, told

ALL = ("v1/pods", "v1/nodes", "scheduling.run.ai/v2/queues", "torchrun.ai/v1alpha1/torchrunjobs", "batch/v1/jobs",
       "trainer.kubeflow.org/v1alpha1/trainjobs")


def test_the_page_shows_what_the_viewers_token_may_see():
    port = free_port()
    with Cluster(nodes=2, gpus_per_node=8, operator_flags=[f"--page-listen=127.0.0.1:{port}"]) as m:
        url = f"http://127.0.0.1:{port}"
        m.kubectl("create", "serviceaccount", "reader", "-n", "default", ok=False)
        m.kubectl("create", "clusterrolebinding", "page-reader", "--clusterrole=cluster-admin", "--serviceaccount=default:reader",
                  ok=False)
        try:
            reader = Visitor(m, url, m.kubectl("create", "token", "reader", "-n", "default").stdout.strip())
            check(reader.entered == 201, f"a token of this cluster: {reader.said}")
            seen = told(reader.lines("&".join("watch=" + w for w in ALL)), len(ALL))
            check({line["t"] for line in seen if "o" not in line} == {"SYNCED"}, f"all kinds are told: {seen[-8:]}")
            nodes = [line for line in seen if line["w"] == 1 and "o" in line]
            check(len(nodes) >= 2 and "images" not in nodes[0]["o"]["status"], f"the nodes: {nodes}")
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "by-the-page"}}
            reader.says(201, "POST", "/ui/api/v1/namespaces/default/configmaps", made)
            reader.says(200, "DELETE", "/ui/api/v1/namespaces/default/configmaps/by-the-page")
            # Without the right to it, neither the API nor the stream says anything.
            m.kubectl("delete", "clusterrolebinding", "page-reader")
            wait_for(lambda: reader.ask("GET", "/ui/api/v1/nodes")[0] == 403, "the right to be gone")
            seen = told(reader.lines("watch=v1/pods&watch=v1/nodes"), 2)
            check({line["t"] for line in seen} == {"FORBIDDEN"}, f"what is not his to see: {seen}")
        finally:
            m.kubectl("delete", "clusterrolebinding", "page-reader", "--ignore-not-found")
            m.kubectl("delete", "serviceaccount", "reader", "-n", "default", "--ignore-not-found")


def test_a_proxy_names_the_viewer_and_the_operator_needs_the_right_for_it():
    port = free_port()
    rights = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "muster-page-proxy"},
              "rules": [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]}
    with Cluster(nodes=1, operators=0, quiet=True) as m:  # refusals of what ann may not are wanted
        secret = os.path.join(m.folder, "secret")
        with open(secret, "w") as f:
            f.write(SECRET)
        m.operator_flags = [f"--page-listen=127.0.0.1:{port}", f"--page-proxy-secret-file={secret}"]
        operator = m.start_operator()
        wait_for(lambda: operator.check() and "page.ready" in operator.tail(4000), "the page of the operator")
        ann = {"X-Muster-Proxy-Secret": SECRET, "X-Remote-User": "ann", "X-Remote-Group": "page-people",
               "Sec-Fetch-Site": "same-origin"}
        at = Visitor(m, f"http://127.0.0.1:{port}")
        nodes = "/ui/api/v1/nodes"
        try:
            refusal = at.says(403, "GET", nodes, **ann)
            check("impersonate" in refusal["message"], f"the operator may not speak for others by itself: {refusal}")
            m.apply(json.dumps(rights))
            m.kubectl("create", "clusterrolebinding", "muster-page-proxy", "--clusterrole=muster-page-proxy",
                      "--serviceaccount=muster-system:muster-operator")
            wait_for(lambda: '"ann"' in str(at.ask("GET", nodes, **ann)[1]), "the API server to know that right")
            m.kubectl("create", "clusterrolebinding", "page-people", "--clusterrole=cluster-admin", "--group=page-people")
            wait_for(lambda: at.ask("GET", nodes, **ann)[0] == 200, "what ann's group may")
            check(at.says(200, "GET", "/ui/session", **ann)["user"] == "ann", "the viewer is another")
            at.says(403, "GET", nodes, **{**ann, "X-Muster-Proxy-Secret": "of somebody else"})
        finally:
            for name in ("muster-page-proxy", "page-people"):
                m.kubectl("delete", "clusterrolebinding", name, "--ignore-not-found")
            m.kubectl("delete", "clusterrole", "muster-page-proxy", "--ignore-not-found")
