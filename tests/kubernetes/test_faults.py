"""The operator while the API server, or the way to it, fails."""

import http.client
import json
import os
import signal
import ssl
import threading
import time
import urllib.request

from cluster import Cluster
from harness import check, wait_for
from proxy import Proxy
from test_operator import QUEUE, job


def etcd(plane, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{plane.etcd_port}{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def workers(m, name, count):
    def there():
        pods = [p for p in m.get("pods") if p["metadata"]["name"].startswith(name + "-worker-")]
        return len(pods) == count and pods
    return wait_for(there, f"{count} pods of {name}", 90)


class Lives:
    """Every pod there ever was, by a watch of its own at the API server: {name: {uid}}, who was bound, and who had a node
    while another was there."""

    def __init__(self, plane):
        self.plane, self.uids, self.bound, self.over = plane, {}, set(), False
        self.on, self.crowded = {}, []
        self.context = ssl.create_default_context(cafile=plane.certs.path("ca.crt"))
        self.context.load_cert_chain(plane.certs.path("admin.crt"), plane.certs.path("admin.key"))
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self):
        while not self.over:
            try:
                self._stream()
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.05)  # the server is away: what happens meanwhile is in what it begins with

    def _stream(self):
        url = f"{self.plane.server}/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=300"
        with urllib.request.urlopen(url, context=self.context, timeout=20) as answer:
            self.on.clear()
            for line in answer:
                event = json.loads(line)
                pod = event["object"]
                if pod.get("kind") != "Pod":
                    return
                self._see(event["type"], pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName"))

    def _see(self, what, name, uid, node):
        self.uids.setdefault(name, set()).add(uid)
        if not node:
            return
        self.bound.add(uid)
        there = self.on.setdefault(node, {})
        there[uid] = name
        if what == "DELETED":
            del there[uid]
        if len(there) > 1:
            self.crowded.append((node, sorted(there.values())))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.over = True

    def settled(self, names):
        """Each of these was bound, and so was all that is there; who was deleted before, with its gang, is not waited for."""
        there = json.loads(self.plane.kubectl("get", "pods", "-n", "default", "-o", "json").stdout)["items"]
        return all(self.uids.get(name, set()) & self.bound for name in names) and \
            {p["metadata"]["uid"] for p in there} <= self.bound

    def check_once(self, names, again=lambda: 0):
        """These pods, each made once and bound: nothing was lost, nothing ran twice, no gang is there in part. `again()`: so
        many were made again, of gangs that were undone."""
        wait_for(lambda: self.settled(names), "every pod to be bound", 90)
        twice = {name: uids for name, uids in self.uids.items() if len(uids) != 1}
        if sum(len(uids) - 1 for uids in twice.values()) <= again():
            twice = {}
        check(set(self.uids) == set(names) and not twice, f"each pod once: {sorted(self.uids)}, twice: {twice}")


def resumed(operator):
    """Every watch follows again."""
    wait_for(operator.ready, "the operator to be ready", 60)
    wait_for(lambda: operator.metric("muster_watches") == operator.metric("muster_watches_synced"),
             "every watch to have resumed", 60)


def test_resumes_after_the_api_server_was_killed_and_restarted():
    with Cluster(nodes=4, gpus_per_node=8) as m, Lives(m.plane) as lives:
        m.apply(QUEUE)
        m.apply(job("before", 16))
        workers(m, "before", 2)
        wait_for(lambda: len(bound(m)) == 2, "both of them to be bound", 60)
        operator = m.leader()
        m.plane.apiserver.kill()
        m.plane.start_apiserver()
        wait_for(lambda: operator.leading(), "the operator to lead again", 30)
        m.apply(job("after", 16))
        workers(m, "after", 2)
        lives.check_once([f"{name}-worker-{i}" for name in ("before", "after") for i in range(2)])
        resumed(m.leader())
        said = operator.tail(1000)
        check(said.count("event=watch.failed") < 12, f"a server that is away is not the story of every watch:\n{said}")
        check("event=api.answers" in said, f"and that it is back is said:\n{said}")


def test_relists_after_compaction_without_missing_what_vanished():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=1, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        operator = m.operators[0]
        m.apply(QUEUE)
        m.apply(job("gone", 8))
        workers(m, "gone", 1)
        before = operator.metric("muster_watch_relists_total")
        proxy.partition()
        m.kubectl("delete", "torchrunjob", "gone", "--wait=false")
        m.apply(job("made", 8))
        revision = etcd(m.plane, "/v3/maintenance/status", {})["header"]["revision"]
        etcd(m.plane, "/v3/kv/compaction", {"revision": revision, "physical": True})
        m.plane.apiserver.kill()
        m.plane.start_apiserver()
        proxy.drop()
        proxy.heal()
        workers(m, "made", 1)
        check(operator.metric("muster_watch_relists_total") > before, "the watches listed again")


def partition_of(seconds):
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig, operator_flags=[
            "--leader-elect=false"]) as m, Lives(m.plane) as lives:
        m.apply(QUEUE)
        m.apply(job("before", 16))
        workers(m, "before", 2)
        wait_for(lambda: len(bound(m)) == 2, "both of them to be bound", 60)
        proxy.partition()
        m.apply(job("meanwhile", 16))
        time.sleep(seconds)  # the length of the partition is what is tested
        proxy.heal()
        workers(m, "meanwhile", 2)
        operator = m.operators[0]
        check(operator.alive(), "the operator lives")
        lives.check_once([f"{name}-worker-{i}" for name in ("before", "meanwhile") for i in range(2)])
        resumed(operator)


def test_partition_of_1_second_heals():
    partition_of(1)


def test_partition_of_10_seconds_heals():
    partition_of(10)


def test_partition_of_60_seconds_heals():
    partition_of(60)


def test_a_server_that_stands_still_costs_no_process_and_no_decision():
    """Longer than the lease: the leader stops deciding, stays, and is quick when the server is well."""
    with Cluster(nodes=4, gpus_per_node=8) as m, Lives(m.plane) as lives:
        first = m.operators[0]
        second = m.start_operator(1)
        m.apply(QUEUE)
        m.apply(job("before", 16))
        workers(m, "before", 2)
        wait_for(lambda: len(bound(m)) == 2, "both of them to be bound", 60)
        pid = m.plane.apiserver.process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(lambda: not first.leading(), "the leader to be in doubt", 30)
            time.sleep(10)  # the length of the outage is what is tested: the lease has ended meanwhile
            check(first.alive() and second.alive() and not first.leading() and not second.leading(), "nobody leads or ends")
        finally:
            os.kill(pid, signal.SIGCONT)
        began = time.monotonic()
        m.apply(job("after", 16))
        wait_for(lambda: len(bound(m)) == 4, "the next two to be bound", 60)
        print(f"first binds {time.monotonic() - began:.1f} s after the server was well")
        check(first.alive() and second.alive() and first.leading(), f"the leader leads as before:\n{first.tail(40)}")
        check("event=lease.doubt" in first.tail(1000), "it says that it was in doubt")
        lives.check_once([f"{name}-worker-{i}" for name in ("before", "after") for i in range(2)])


def test_a_server_that_is_late_and_refuses_costs_no_process_and_no_second_bind():
    """Two minutes of answers ten seconds late, then 40 s of 429s, each with a restart in the middle, for two replicas. A pod is a
    whole node."""
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=20, gpus_per_node=8, kubeconfig=proxy.kubeconfig) as m, \
            Lives(m.plane) as lives:
        operators = [m.operators[0], m.start_operator(1)]
        m.apply(QUEUE)
        names = []

        def more(name):
            m.apply(job(name, 16))
            names.extend(f"{name}-worker-{i}" for i in range(2))

        def trouble(name):
            for i in range(4):  # the length of the trouble is what is tested
                more(f"{name}-{i}")
                time.sleep(30 if name == "late" else 10)
                if i == 1:
                    m.plane.apiserver.kill()
                    m.plane.start_apiserver()

        def first_bind(name):
            began, before = time.monotonic(), set(lives.bound)
            more(name)
            wait_for(lambda: lives.bound - before, "a pod to be bound", 60, slowest=0.05)
            return time.monotonic() - began
        proxy.late = 10
        trouble("late")
        proxy.late = 0
        after_late = first_bind("after-late")
        lives.check_once(names)
        proxy.faults(percent=60, seed=3, kinds=("429",), only=lambda method, path: True)
        trouble("refused")
        refused = proxy.injected.get("429", 0)
        proxy.clear()
        well = time.monotonic()
        after_refused = first_bind("after-refused")
        check(refused > 0, "requests were refused")
        check(all(o.alive() for o in operators), "no replica ended")

        def undone():
            return sum(o.metric("muster_gangs_undone_total") for o in operators)
        lives.check_once(names, again=lambda: 2 * undone())
        check(not lives.crowded, f"no node has two: {lives.crowded}")
        print(f"first bind {after_late:.1f} s after two minutes of late answers, {after_refused:.1f} s after {refused} answers "
              f"of 429; all {time.monotonic() - well:.1f} s after those; {undone():.0f} gangs were undone; "
              f"load {os.getloadavg()[0]:.0f}")
        check(sum(o.leading() for o in operators) == 1, "one of them leads")


def test_hollow_nodes_that_were_silent_are_ready_again():
    with Cluster(nodes=2, gpus_per_node=8, operators=0) as m:
        def ready():
            return [c["status"] for n in m.get("nodes") for c in n["status"]["conditions"] if c["type"] == "Ready"]
        wait_for(lambda: ready() == ["True", "True"], "the nodes to be ready", 30)
        os.kill(m.hollow.process.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: ready() == ["Unknown", "Unknown"], "the nodes to be given up", 120)
        finally:
            os.kill(m.hollow.process.pid, signal.SIGCONT)
        wait_for(lambda: ready() == ["True", "True"], "the nodes to be ready again", 60)


def test_a_leader_cut_off_decides_nothing_before_another_leads():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=1, gpus_per_node=8, kubeconfig=proxy.kubeconfig) as m:
        cut = m.operators[0]
        m.operator_kubeconfig = m.plane.kubeconfig
        other = m.start_operator(1)
        proxy.partition()
        wait_for(lambda: other.leading(), "the other replica to lead", 20)
        check(cut.alive() and not cut.leading(), "the one that was cut off lives, and had stopped by then")
        proxy.heal()
        wait_for(lambda: "event=lease.lost" in cut.tail(100), "it to know that it has lost", 30)
        m.apply(QUEUE)
        m.apply(job("after", 8))
        workers(m, "after", 1)


def test_one_request_in_ten_failing_loses_no_job():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=20, gpus_per_node=8, kubeconfig=proxy.kubeconfig, operator_flags=[
            "--leader-elect=false"]) as m, Lives(m.plane) as lives:
        m.apply(QUEUE)
        seed = int(time.time()) % 1000
        print(f"seed {seed}")
        proxy.faults(percent=10, seed=seed)
        for i in range(10):
            m.apply(job(f"job-{i}", 16))
        for i in range(10):
            workers(m, f"job-{i}", 2)
        lives.check_once([f"job-{i}-worker-{k}" for i in range(10) for k in range(2)])
        print(f"injected {proxy.injected}")
        check(sum(proxy.injected.values()) > 0, "faults were injected")
        proxy.clear()
        resumed(m.operators[0])


def test_watches_that_one_time_in_five_fail_tell_everything_in_the_end():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=10, gpus_per_node=8, kubeconfig=proxy.kubeconfig, operator_flags=[
            "--leader-elect=false"]) as m, Lives(m.plane) as lives:
        m.apply(QUEUE)
        proxy.faults(percent=20, seed=7, kinds=("429", "500", "reset-before"), only=lambda method, path: method == "GET")
        for i in range(5):
            proxy.drop()
            m.apply(job(f"job-{i}", 16))
        for i in range(5):
            workers(m, f"job-{i}", 2)
        lives.check_once([f"job-{i}-worker-{k}" for i in range(5) for k in range(2)])
        proxy.clear()
        resumed(m.operators[0])


def bound(m):
    return [p["metadata"]["name"] for p in m.get("pods") if p["spec"].get("nodeName")]


def test_a_leader_killed_in_the_middle_of_a_gang_leaves_no_half():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig) as m:
        first = m.operators[0]
        m.operator_kubeconfig = m.plane.kubeconfig
        second = m.start_operator(1)
        asked = []

        def from_the_third_bind_on(method, path):
            if path.split("?")[0].endswith("/binding"):
                asked.append(path)
                return len(asked) > 2
            return False
        proxy.faults(percent=100, kinds=("timeout-before",), only=from_the_third_bind_on)
        m.apply(QUEUE)
        m.apply(job("gang", 32))
        wait_for(lambda: len(bound(m)) == 2 and len(asked) >= 4, "half of the gang to be bound", 60)
        first.kill()
        began = time.monotonic()
        wait_for(lambda: second.leading(), "the other replica to lead", 20)
        check(time.monotonic() - began < 10, f"it took {time.monotonic() - began:.1f} s")
        wait_for(lambda: len(bound(m)) == 4, "the whole gang to be bound", 60)
        names = [p["metadata"]["name"] for p in m.get("pods")]
        check(sorted(names) == [f"gang-worker-{i}" for i in range(4)], f"each pod once: {sorted(names)}")


def test_a_gang_that_the_server_refuses_in_part_is_undone_and_comes_again():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=4, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        operator = m.operators[0]
        m.apply(QUEUE)
        refused = []

        def the_last_of_the_first_gang(method, path):
            if path.split("?")[0].endswith("worker-3/binding") and not refused:
                refused.append(path)
                return True
            return False
        proxy.faults(percent=100, kinds=("404",), only=the_last_of_the_first_gang)
        m.apply(job("gang", 32))
        wait_for(lambda: refused, "a bind to be refused", 60)
        wait_for(lambda: operator.metric("muster_gangs_undone_total") >= 1, "the gang to be undone", 60)
        wait_for(lambda: len(bound(m)) == 4, "the whole gang to be bound in the end", 90)
