"""kr8s: objects with methods: create, wait, logs, exec, scale, delete."""

import kr8s
from kr8s.objects import Deployment, Namespace, Pod

NS = "kr8s"


def main():
    api = kr8s.api()
    assert api.version()["major"] == "1"
    Namespace({"metadata": {"name": NS}}).create()
    pod = Pod({"metadata": {"name": "p", "namespace": NS}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": "any", "command": ["sh", "-c", "echo begun; sleep 1000"]}]}})
    pod.create()
    pod.wait("condition=Ready", timeout=120)
    assert list(pod.logs()) == ["begun"], list(pod.logs())
    assert pod.exec(["echo", "said"]).stdout == b"said\n"
    pod.label(seen="yes")
    assert [found.name for found in api.get("pods", namespace=NS, label_selector={"seen": "yes"})] == ["p"]
    deployment = Deployment({"metadata": {"name": "d", "namespace": NS}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "d"}}, "template": {"metadata": {"labels": {"a": "d"}}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "any", "command": ["sleep", "1000"]}]}}}})
    deployment.create()
    deployment.scale(2)
    deployment.wait("condition=Available", timeout=120)
    assert len(deployment.pods()) == 2, deployment.pods()
    pod.delete()
    pod.wait("delete", timeout=120)
    Namespace.get(NS).delete()


main()
