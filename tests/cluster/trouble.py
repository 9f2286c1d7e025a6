"""What goes wrong, beside a gang that trains for long: two pods, each a whole node."""

import contextlib
import json
import os
import time
import urllib.request

from harness import PATIENCE, Skip, check, wait_for
from jobs import QUEUE
from lab import SYSTEM
from upkeep import WRONG

LONG = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
print(f"began: rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
while True:
    dist.all_reduce(torch.ones(1))
    time.sleep(0.5)
"""
AWAY = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def began(lab, after=frozenset()):
    """Both ranks trained since, in containers that are not in `after`."""
    now = [p for p in lab.running() if p["metadata"]["name"].startswith("long-worker-")]
    if len(now) != 2 or {p["metadata"]["uid"] for p in now} & set(after):
        return None
    return all("began: rank" in lab.logs(p["metadata"]["name"], "-c", "trainer") for p in now) and uids(now)


def uids(pods):
    return {p["metadata"]["uid"] for p in pods}


def start_long(lab):
    lab.apply(QUEUE.replace("NAMESPACE", "default").replace("NAME", "long"))
    code = lab.source(train=LONG)
    lab.torchrun("submit", "--queue", "long", "--nodes", "2", "--name", "long", "--detach", "python3 train.py", cwd=code)
    wait_for(lambda: began(lab), "the long gang to train", 200)

    def pods():
        return sorted((p["metadata"]["uid"], s["restartCount"]) for p in lab.pods()
                      if p["metadata"]["name"].startswith("long-worker-") for s in p["status"]["containerStatuses"])
    lab.long_pods = pods


def beside_sync(lab):
    """The node without the sync pod, whose folder is where its node is."""
    sync = lab.get("pod", "long-sync-0")["spec"]["nodeName"]
    return next(node for node in lab.nodes if node.name != sync)


def waits(lab, before):
    """What the job says while its gang, of other pods than before, has too little room."""
    status = lab.get("torchrunjob", "long")["status"]
    now = uids(p for p in lab.pods() if p["metadata"]["name"].startswith("long-worker-"))
    return len(now) == 2 and not now & set(before) and "GPUs" in status.get("message", "") and status["message"]


def drain(lab):
    node, before = beside_sync(lab), began(lab)
    lab.kubectl("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
                f"--timeout={120 * PATIENCE:.0f}s",
                limit=150)
    lab.wait_until_led()

    said = wait_for(lambda: waits(lab, before), "new pods to wait, and the job to say for what", 90)
    lab.kubectl("uncordon", node.name)
    at = time.monotonic()
    wait_for(lambda: began(lab, before), "the gang to train again", 200)
    lab.say(f"it waited ({said}) and trained again {time.monotonic() - at:.0f} s after uncordon")


def stopped_kubelet(lab):
    node, before = beside_sync(lab), began(lab)
    at = time.monotonic()
    node.kubelet.kill()
    wait_for(lambda: any(t["key"] in AWAY for t in lab.get("node", node.name)["spec"].get("taints", [])),
             "the node to be away", 120)
    away = time.monotonic() - at

    said = wait_for(lambda: waits(lab, before), "new pods to wait, and the job to say for what", 120)
    took = time.monotonic() - at
    node.start_kubelet()
    node.plugin.stop()  # a plugin has to tell each kubelet anew
    node.start_plugin()
    back = time.monotonic()
    wait_for(lambda: began(lab, before), "the gang to train again", 240)
    lab.say(f"away after {away:.0f} s, new pods wait after {took:.0f} s ({said}); "
            f"trained again {time.monotonic() - back:.0f} s after it was back")


def killed_leader(lab):
    before = lab.long_pods()
    killed = lab.kill_leader()
    at = time.monotonic()
    wait_for(lambda: lab.leader() != killed, "another replica to lead", 90, slowest=0.1)
    took = time.monotonic() - at
    lab.binds("after-leader")
    check(lab.long_pods() == before, "the gang trained on")
    wait_for(lambda: len(lab.operators()) == 2, "the killed replica to be back", 120)
    lab.say(f"another replica led {took:.1f} s after kill -9 of {killed}, and bound; the gang trained on")


def killed_server(lab):
    before, restarts = lab.long_pods(), lab.restarts()
    lab.plane.apiserver.kill()
    lab.plane.start_apiserver()
    at = time.monotonic()
    lab.binds("after-server", 120)
    took = time.monotonic() - at
    check(lab.restarts() == restarts, f"no replica restarted: {restarts}, {lab.restarts()}")
    check(lab.long_pods() == before, "the gang trained on")
    lab.say(f"a pod ran {took:.1f} s after the API server was ready again; no replica restarted, the gang trained on")


def compact(lab):
    """What an API server does every five minutes: etcd forgets all but the newest of each object."""
    def etcd(path, body):
        asked = urllib.request.Request(f"http://127.0.0.1:{lab.plane.etcd_port}/v3/{path}", data=json.dumps(body).encode())
        with urllib.request.urlopen(asked, timeout=15) as answer:
            return json.load(answer)
    revision = etcd("kv/range", {"key": "AA=="})["header"]["revision"]
    etcd("kv/compaction", {"revision": revision, "physical": True})


def nft(node, *words):
    node.run(node.program("nft"), *words)


def silent_webhooks(lab):
    """What the API server sends to them is lost on the way, as to a node that is away."""
    def written():
        at = time.monotonic()
        queue = QUEUE.replace("NAMESPACE", "default").replace("NAME", "silent")
        lab.kubectl("create", "--dry-run=server", "-f", "-", input=queue)
        return time.monotonic() - at
    first = lab.nodes[0]  # where it runs
    before = written()
    nft(first, "add", "table", "ip", "silent")
    nft(first, "add", "chain", "ip", "silent", "way", "{ type filter hook output priority 0 ; }")
    nft(first, "add", "rule", "ip", "silent", "way", "tcp", "dport", "9443", "drop")
    try:
        took = [written() for _ in range(2)]
    finally:
        nft(first, "delete", "table", "ip", "silent")
    lab.refused(WRONG, "its own parent")
    lab.say(f"a queue was written after {before:.1f} s, and while no webhook answered after {took[0]:.1f} s and {took[1]:.1f} s")


@contextlib.contextmanager
def cut_off(lab, pods):
    """What these pods send to the API server is lost on the way."""
    for node in lab.nodes:
        nft(node, "add", "table", "ip", "cut")
        nft(node, "add", "chain", "ip", "cut", "way", "{ type filter hook prerouting priority -300 ; }")
        for pod in pods:
            nft(node, "add", "rule", "ip", "cut", "way", "ip", "saddr", pod["status"]["podIP"], "tcp", "dport", "443", "drop")
    try:
        yield
    finally:
        for node in lab.nodes:
            nft(node, "delete", "table", "ip", "cut")


def too_old_watch(lab):
    """Both replicas hear nothing while objects come and go, and the server that they ask then remembers none of it."""
    restarts, relists = lab.restarts(), lab.metric("muster_watch_relists_total")
    with cut_off(lab, lab.operators()):
        lab.kubectl("label", "nodes", "--all", "example.com/touched=yes")
        lab.plane.apiserver.kill()
        compact(lab)
        lab.plane.start_apiserver()
    wait_for(lambda: len(lab.operators()) == 2, "both replicas to be ready", 120)
    lab.wait_until_led()
    lab.binds("after-410", 120)
    again = lab.metric("muster_watch_relists_total") - relists
    check(lab.restarts() == restarts, f"no replica restarted: {restarts}, {lab.restarts()}")
    check(again > 0, f"watches began anew: {again:.0f}")
    lab.say(f"{again:.0f} watches began anew, and a pod was bound")


def wrong_clock(lab):
    """The operator's is five minutes ahead, by a library in front of libc: its certificate too, which is made anew."""
    if not os.path.exists(FAKETIME):
        raise Skip(f"there is no {FAKETIME} (Debian: faketime); the machine's own clock is everybody's")
    before = lab.long_pods()
    variables = [f"LD_PRELOAD=/host{FAKETIME}", "FAKETIME=+300", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
    lab.kubectl("set", "env", "deployment/muster-operator", "-n", SYSTEM, *variables)
    lab.kubectl("rollout", "status", "deployment/muster-operator", "-n", SYSTEM, f"--timeout={180 * PATIENCE:.0f}s",
                limit=200)
    lab.kubectl("delete", "secret", "muster-webhook", "-n", SYSTEM)
    lab.wait_until_led()
    lab.binds("after-clock")
    check(lab.long_pods() == before, "the gang trained on")
    lab.kubectl("set", "env", "deployment/muster-operator", "-n", SYSTEM, *[v.split("=")[0] + "-" for v in variables])
    lab.kubectl("rollout", "status", "deployment/muster-operator", "-n", SYSTEM, f"--timeout={180 * PATIENCE:.0f}s",
                limit=200)
    lab.say("a pod was bound by operators whose clock is five minutes ahead")
