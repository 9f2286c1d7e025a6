"""The operator while the API server, or the way to it, fails."""

import json
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


def test_resumes_after_the_api_server_was_killed_and_restarted():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        m.apply(QUEUE)
        operator = m.leader()
        m.plane.apiserver.kill()
        m.plane.start_apiserver()
        wait_for(lambda: m.leader() or not operator.alive(), "the operator to lead again, or to have ended", 30)
        if not operator.alive():  # it could not renew in time: its pod would be started again
            m.start_operator(1)
        m.apply(job("after", 8))
        workers(m, "after", 1)


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
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=1, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        m.apply(QUEUE)
        proxy.partition()
        m.apply(job("meanwhile", 8))
        time.sleep(seconds)  # the length of the partition is what is tested
        proxy.heal()
        workers(m, "meanwhile", 1)
        operator = m.operators[0]
        check(operator.alive(), "the operator lives")
        wait_for(lambda: operator.ready(), "every watch to have resumed", 60)


def test_partition_of_1_second_heals():
    partition_of(1)


def test_partition_of_10_seconds_heals():
    partition_of(10)


def test_partition_of_60_seconds_heals():
    partition_of(60)


def test_a_leader_cut_off_ends_before_another_leads():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=1, gpus_per_node=8, kubeconfig=proxy.kubeconfig) as m:
        cut = m.operators[0]
        m.operator_kubeconfig = m.plane.kubeconfig
        other = m.start_operator(1)
        proxy.partition()
        wait_for(lambda: other.leading(), "the other replica to lead", 20)
        check(not cut.alive(), "the one that was cut off had ended by then")
        m.apply(QUEUE)
        m.apply(job("after", 8))
        workers(m, "after", 1)


def test_one_request_in_ten_failing_loses_no_job():
    with Proxy(Cluster.plane) as proxy, Cluster(nodes=2, gpus_per_node=8, kubeconfig=proxy.kubeconfig,
                                                operator_flags=["--leader-elect=false"]) as m:
        m.apply(QUEUE)
        proxy.faults(percent=10, seed=int(time.time()) % 1000)
        print(f"seed {int(time.time()) % 1000}")
        for i in range(10):
            m.apply(job(f"job-{i}", 16))
        for i in range(10):
            workers(m, f"job-{i}", 2)
        check(sum(proxy.injected.values()) > 0, "faults were injected")
        names = [p["metadata"]["name"] for p in m.get("pods")]
        check(len(names) == len(set(names)) == 20, f"each pod once: {sorted(names)}")


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
