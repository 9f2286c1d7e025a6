"""kubectl top: what nodes and pods use, as a metrics-server tells it."""

import json

from harness import Muster, check, wait_for
from pods import apply, container, pod, wait_phase


def test_kubectl_top_shows_what_pods_and_nodes_use():
    with Muster() as m:
        apply(m, pod("busy", container("exec python3 -c \"x = b'x' * 60000000\nwhile True: pass\""),
                     container("exec sleep 300", name="idle", resources={"limits": {"memory": "50Mi", "cpu": "100m"}}),
                     labels={"app": "busy"}, terminationGracePeriodSeconds=0),
              pod("other", container("exec sleep 300"), terminationGracePeriodSeconds=0))
        wait_phase(m, "busy", "Running")
        wait_phase(m, "other", "Running")

        def used():
            rows = [line.split() for line in
                    m.kubectl("top", "pod", "--containers", "--no-headers", "-l", "app=busy").stdout.splitlines()]
            return {row[1]: (int(row[2].rstrip("m")), int(row[3].rstrip("Mi"))) for row in rows}
        wait_for(lambda: used().get("main", (0, 0))[0] > 50 and used()["main"][1] > 55, "the busy container shows")
        wait_for(lambda: used().get("idle", (50, 0))[0] < 50, "the idle container's start to be over")
        check(set(used()) == {"main", "idle"}, f"{used()}")
        check("other" in m.kubectl("top", "pod").stdout, "all pods of the namespace")
        check("node-0" in m.kubectl("top", "node").stdout, m.kubectl("top", "node").stdout)
        one = json.loads(m.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes/node-0").stdout)
        check(one["kind"] == "NodeMetrics" and one["usage"]["cpu"].endswith("n"), f"{one}")
        missing = m.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/none", ok=False)
        check("not found" in missing.stderr, missing.stderr)
        service = m.kubectl("get", "apiservice", "v1beta1.metrics.k8s.io").stdout
        check("True" in service, service)
        m.kubectl("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=20s")
