"""SchedulingShards, options of scheduling, and queues' use over time, while muster runs."""

import http.server
import json
import tempfile
import threading
import urllib.parse

from harness import Muster, check, run, wait_for, binary

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %(name)s
  labels: {kai.scheduler/queue: %(queue)s}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command: ["sleep", "3600"]
    resources: {limits: {nvidia.com/gpu: %(gpus)d}}
"""

QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: department}
spec: {resources: &free {cpu: {quota: 0, limit: -1, overQuotaWeight: 1}, gpu: {quota: 0, limit: -1, overQuotaWeight: 1},
       memory: {quota: 0, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec: {parentQueue: department, resources: {cpu: {quota: 0, limit: -1, overQuotaWeight: 1},
       gpu: {quota: 0, limit: -1, overQuotaWeight: 1}, memory: {quota: 0, limit: -1, overQuotaWeight: 1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-b}
spec: {parentQueue: department, resources: {cpu: {quota: 0, limit: -1, overQuotaWeight: 1},
       gpu: {quota: 0, limit: -1, overQuotaWeight: 1}, memory: {quota: 0, limit: -1, overQuotaWeight: 1}}}
"""

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec:
  partitionLabelValue: ""
%s
"""


def create(m, name, queue="default-queue", gpus=1):
    m.new(POD % {"name": name, "queue": queue, "gpus": gpus})


def node_of(m, name):
    pod = m.get("pod", name)
    return pod and pod["status"].get("phase") == "Running" and pod["spec"]["nodeName"]


def applied(m, name="default"):
    conditions = m.get("schedulingshard", name).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Applied"), None)


def test_placement_changes_without_a_restart():
    with Muster(nodes=2, gpus_per_node=4) as m:
        for name in ("one", "two"):
            create(m, name)
            wait_for(lambda: node_of(m, name), f"{name} to run")
        check(node_of(m, "one") == node_of(m, "two"), "binpack put two pods on two nodes")
        m.apply(SHARD % "  placementStrategy: {gpu: spread, cpu: spread}")
        wait_for(lambda: (applied(m) or {}).get("status") == "True", "the shard to be applied")
        create(m, "three")
        wait_for(lambda: node_of(m, "three"), "three to run")
        check(node_of(m, "three") != node_of(m, "one"), "spread put the third pod onto the fuller node")
        m.kubectl("delete", "schedulingshard", "default")


ZONES = """
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: %s}
attributes:
- {name: topologyManagerPolicy, value: single-numa-node}
- {name: topologyManagerScope, value: pod}
zones:
- {name: node-0, type: Node, resources: [{name: nvidia.com/gpu, capacity: "2", allocatable: "2", available: "2"}]}
- {name: node-1, type: Node, resources: [{name: nvidia.com/gpu, capacity: "2", allocatable: "2", available: "2"}]}
"""


def test_pods_go_where_one_numa_zone_holds_them():
    with Muster(gpus_per_node=4) as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        m.apply(ZONES % node)
        m.apply(SHARD % "  plugins: {numa: {enabled: true}}")
        wait_for(lambda: (applied(m) or {}).get("status") == "True", "the shard to be applied")
        for name, gpus, zone in (("one", 1, "node-0"), ("two", 2, "node-1")):
            create(m, name, gpus=gpus)
            wait_for(lambda: node_of(m, name), f"{name} to run")
            said = m.get("pod", name)["metadata"]["annotations"]["kai.scheduler/numa-placement-predicted"]
            check(json.loads(said) == [{"zone": zone, "amount": {"nvidia.com/gpu": str(gpus)}}], said)
        m.kubectl("delete", "pod", "one", "two", "--wait=true")
        create(m, "third", gpus=3)
        why = wait_for(lambda: [c["message"] for c in m.get("pod", "third")["status"].get("conditions", [])
                                if c["type"] == "PodScheduled" and "NUMA" in c.get("message", "")], "the zones to be the reason")
        check(not node_of(m, "third"), f"a pod of three GPUs runs in zones of two: {why}")
        m.kubectl("delete", "noderesourcetopology", node)
        wait_for(lambda: node_of(m, "third"), "third to run where nobody speaks of zones")


def test_a_shard_says_what_it_cannot_do():
    with Muster(gpus_per_node=1) as m:
        m.apply(SHARD % "  usageDBConfig: {clientType: prometheus, usageParams: {windowSize: 1y}}\n"
                        "  actions: {mycustomaction: {enabled: true}}")
        said = wait_for(lambda: (applied(m) or {}).get("message"), "the shard to say so")
        check("1y" in said and "mycustomaction" in said, said)
        check(applied(m)["status"] == "False", "it is said to have taken effect")


def test_switched_off_preemption_comes_back_when_it_is_switched_on():
    with Muster(gpus_per_node=1) as m:
        m.apply(QUEUES)
        m.apply(SHARD % "  actions: {preempt: {enabled: false}, reclaim: {enabled: false}, consolidation: {enabled: false}}")
        wait_for(lambda: applied(m), "the shard to be applied")
        create(m, "low", "team-a")
        wait_for(lambda: node_of(m, "low"), "low to run")
        high = (POD % {"name": "high", "queue": "team-a", "gpus": 1}).replace(
            "team-a}", "team-a, priorityClassName: build-preemptible}")
        m.new(high)
        wait_for(lambda: [c for c in m.get("pod", "high")["status"].get("conditions", [])
                          if c["type"] == "PodScheduled" and c["status"] == "False"], "high to wait")
        check(node_of(m, "low"), "low was preempted although that is switched off")
        m.kubectl("delete", "schedulingshard", "default")
        wait_for(lambda: node_of(m, "high"), "high to preempt low")


def test_use_over_time_is_kept_over_a_restart_and_moves_the_fair_share():
    shard = SHARD % ("  kValue: 1\n  usageDBConfig: {clientType: muster, usageParams: "
                     "{windowSize: 96s, halfLifePeriod: 3s, fetchInterval: 200ms}}")
    with Muster(gpus_per_node=2) as m:
        m.apply(QUEUES)
        m.apply(shard)
        create(m, "a", "team-a", 2)
        wait_for(lambda: node_of(m, "a"), "team-a's pod to run")

        def used(queue):
            return m.get("queue", queue)["status"].get("usage", {}).get("gpu", 0)
        wait_for(lambda: used("team-a") > 0.9, "team-a to have used the cluster")
        check(used("team-b") == 0, f"team-b used {used('team-b')}")
        wait_for(lambda: used("department") > 0.9, "what a team uses to be counted above it")
        m.kill()
        m.start()
        wait_for(lambda: m.get("queue", "team-a")["status"].get("usageHistory"), "the books to be there")
        # Both ask for everything: without the past they would share; with it team-b has the right to all.
        create(m, "b", "team-b", 2)
        wait_for(lambda: node_of(m, "b"), "team-b to get its turn", 60)
        m.kubectl("delete", "schedulingshard", "default")
        wait_for(lambda: "usage" not in m.get("queue", "team-a")["status"], "shares that nobody works out to go")


class Prometheus(http.server.BaseHTTPRequestHandler):
    asked = []

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["query"][0]
        self.asked.append(query)
        rows = [{"metric": {"queue_name": "team-a"}, "value": [1, "0.75"]}] if "gpus" in query else []
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_use_over_time_can_come_from_prometheus():
    server = http.server.HTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Muster(gpus_per_node=1) as m:
            m.apply(QUEUES)
            m.apply(SHARD % ("  usageDBConfig: {clientType: prometheus, connectionString: 'http://127.0.0.1:%d', usageParams: "
                             "{windowSize: 1h, halfLifePeriod: 30m, fetchInterval: 200ms}}" % server.server_port))
            wait_for(lambda: m.get("queue", "team-a")["status"].get("usage", {}).get("gpu") == 0.75,
                     "Prometheus' number to arrive")
            check(any("kai_queue_allocated_gpus" in q and "0.5 ^" in q for q in Prometheus.asked), Prometheus.asked[:1])
    finally:
        server.shutdown()


def test_an_unknown_quirk_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        done = run([binary("muster"), "up", "--data-dir", folder, "--listen", "127.0.0.1:0", "--quirk", "odd"], ok=False)
    check(done.returncode != 0 and "--quirk" in done.stderr, done.stderr)


POOLS = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: wide}
spec:
  partitionLabelValue: wide
  placementStrategy: {gpu: spread, cpu: spread}
  actions: {preempt: {enabled: false}}
  queueDepthPerAction: {allocate: 1}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: wide, labels: {kai.scheduler/node-pool: wide}}
spec: {resources: {cpu: {quota: -1, limit: -1}, gpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


def test_every_pool_follows_its_own_shard():
    with Muster(nodes=4, gpus_per_node=2) as m:
        nodes = [n["metadata"]["name"] for n in m.get("nodes")]
        for node in nodes[2:]:
            m.kubectl("label", "node", node, "kai.scheduler/node-pool=wide")
        m.apply(POOLS)
        wait_for(lambda: (applied(m, "wide") or {}).get("status") == "True", "the shard to be applied")
        pool = (POD % {"name": "%s", "queue": "wide", "gpus": 1}).replace("wide}", "wide, kai.scheduler/node-pool: wide%s}")
        for name in ("one", "two"):
            m.new(pool % (name, ""))
            create(m, "other-" + name)
        for name in ("one", "two", "other-one", "other-two"):
            wait_for(lambda: node_of(m, name), f"{name} to run")
        check(node_of(m, "one") != node_of(m, "two"), "the pool's shard says spread")
        check(node_of(m, "other-one") == node_of(m, "other-two"), "spread reached a pool of another shard")
        check({node_of(m, "one"), node_of(m, "two")} == set(nodes[2:]), "a pod left its pool")
        # A second shard for the same pool is told who holds it.
        m.apply(POOLS.replace("{name: wide}\nspec:\n  part", "{name: wider}\nspec:\n  part").split("---")[0])
        said = wait_for(lambda: (applied(m, "wider") or {}).get("message"), "the second shard to be told")
        check(applied(m, "wider")["reason"] == "PoolTaken" and "SchedulingShard wide" in said, said)
        # Preemption is off in this pool alone.
        for name in ("three", "four"):
            m.new(pool % (name, ""))
            wait_for(lambda: node_of(m, name), f"{name} to run")
        m.new(pool % ("high", ", priorityClassName: build-preemptible"))
        wait_for(lambda: [c for c in m.get("pod", "high")["status"].get("conditions", [])
                          if c["type"] == "PodScheduled" and c["status"] == "False"], "high to wait")
        check(all(node_of(m, n) for n in ("one", "two", "three", "four")), "somebody was preempted")
        m.kubectl("delete", "schedulingshard", "wide", "wider")
        wait_for(lambda: node_of(m, "high"), "high to preempt once the shard is gone")


CONFIG = """
apiVersion: kai.scheduler/v1
kind: Config
metadata: {name: %s}
spec:
  namespace: kai-system
  global: {replicaCount: 2, queueLabelKey: team, nodePoolLabelKey: pool}
"""


def test_kai_config_renames_labels_without_a_restart_and_says_what_it_ignores():
    with Muster(nodes=2, gpus_per_node=2) as m:
        m.apply(QUEUES)
        m.apply(CONFIG % "kai-config")

        def said(name):
            conditions = (m.get("config.kai.scheduler", name) or {}).get("status", {}).get("conditions", [])
            return next((c for c in conditions if c["type"] == "Applied"), {})
        wait_for(lambda: said("kai-config").get("reason") == "PartlyIgnored", "the Config to be answered")
        message = said("kai-config")["message"]
        check("namespace" in message and "global.replicaCount" in message and "queueLabelKey" not in message, message)
        m.apply(CONFIG % "other")
        wait_for(lambda: said("other").get("reason") == "NotRead", "a Config of another name to be told so")
        # The new labels hold: of a pod's queue, and of nodes' and queues' pools.
        renamed = (POD % {"name": "renamed", "queue": "x", "gpus": 1}).replace("kai.scheduler/queue: x", "team: team-a")
        m.new(renamed)
        wait_for(lambda: node_of(m, "renamed"), "the pod to run")
        check([g["spec"]["queue"] for g in m.get("podgroups")] == ["team-a"], m.get("podgroups"))
        nodes = [n["metadata"]["name"] for n in m.get("nodes")]
        m.kubectl("label", "nodes", *nodes, "pool=elsewhere")
        create(m, "waits", "team-a")
        wait_for(lambda: [c for c in m.get("pod", "waits")["status"].get("conditions", [])
                          if c["type"] == "PodScheduled" and c["status"] == "False"], "the pod to find no node of its pool")
        m.kubectl("delete", "config.kai.scheduler", "kai-config")
        wait_for(lambda: node_of(m, "waits"), "the pod to run once the pools are named as before")
