#!/usr/bin/env python3
"""strict.py CONFORMANCE: what the conformance program does not know, it does not pass.

Begins with cases of our own that pass, changes one thing in each, and says what must become of it: "passed", "failed", or
"skipped". Ends with `N passed, N failed, N skipped`.
"""

import copy
import json
import re
import subprocess
import sys
import tempfile

QUOTA = {"quota": -1, "limit": -1, "over_quota_weight": 1}
REQUEST = {"type": "Regular", "gpus": 1, "gpu_devices": 1, "cpu_milli": 1000, "memory_bytes": 1000000}
SCENARIO = {
    "id": "own#0", "mode": "single_action", "actions": ["allocate"],
    "config": {"plugins": "default", "predicates_enabled": True},
    "nodes": [{"name": "n", "gpus": 1, "allocatable_gpus": 1, "cpu_milli": 10000, "memory_bytes": 1000000000, "max_pods": 10}],
    "queues": [{"name": "q", "parent": "d", "gpu": QUOTA, "cpu": QUOTA, "memory": QUOTA},
               {"name": "d", "parent": None, "gpu": QUOTA, "cpu": QUOTA, "memory": QUOTA}],
    "topologies": [],
    "jobs": [{"name": "j", "namespace": "", "queue": "q", "priority": 50, "preemptible": True, "min_member": 1,
              "root_subgroup": {"groups": [], "pod_sets": [{"name": "default", "min_available": 1}]},
              "tasks": [{"name": "j-0", "state": "Pending", "request": REQUEST}]}],
    "expected": {"tasks": {"j-0": {"status": "Binding", "node": "n"}}, "counts": {"bindings": 1}},
}
SHARE = {"deserved": 2, "max_allowed": -1, "over_quota_weight": 1, "request": 2, "fair_share": 0}
DIVISION = {"id": "own#1", "function": "set_resource_share", "resource": "gpu", "total": 4, "k_value": 1,
            "queues": [{"key": "q", "uid": "q", "gpu": SHARE}], "expected": {"fair_share": {"q": {"gpu": 2}}}}
QUEUE = {"key": "q", "uid": "q", "gpu": dict(SHARE, allocated=0, fair_share=2), "cpu": dict(SHARE, deserved=-1),
         "memory": dict(SHARE, deserved=-1)}
RECLAIM = {"id": "own#2", "checks": [{"function": "can_reclaim_resources", "queues": [QUEUE], "expected": True,
                                      "reclaimer": {"queue": "q", "required": {"gpus": 1}}}]}
STRATEGY = {"id": "own#3", "strategy": "maintain_fair_share", "reclaimer_queue": QUEUE, "reclaimee_queue": QUEUE,
            "reclaimer_resources": {"gpus": 1}, "reclaimee_remaining_share": {"gpus": 4}, "expected": {"reclaimable": True}}
POD = {"apiVersion": "v1", "kind": "Pod",
       "metadata": {"name": "p", "namespace": "ns", "labels": {"kai.scheduler/queue": "team-a"}}}
GROUPING = {"id": "own#4", "rule": "default", "config": {"queue_label_key": "kai.scheduler/queue"}, "cluster_objects": [],
            "cases": [{"owner": POD, "pod": POD, "other_owners": [],
                       "expected": {"error": False, "podgroup": [{"path": "spec.queue", "op": "equal", "value": "team-a"}]}}]}
TASK = ("jobs", 0, "tasks", 0)
CLAIM = ("cases", 0, "expected", "podgroup", 0)

CASES = [  # (case, path of what is changed, its new value, what must become of it)
    (SCENARIO, None, None, "passed"),
    (SCENARIO, ("expected", "tasks", "j-0", "status"), "Pending", "failed"),
    (SCENARIO, ("expected", "tasks", "j-0", "status"), "StuckInReleasing", "failed"),
    (SCENARIO, ("expected", "tasks", "j-0", "node"), "m", "failed"),
    (SCENARIO, ("expected", "tasks", "j-0", "numa_zones"), [0], "failed"),
    (SCENARIO, ("expected", "tasks", "j-0", "numa_zones"), [], "passed"),
    (SCENARIO, ("expected", "tasks", "j-0", "error_message"), "no room", "skipped"),
    (SCENARIO, ("expected", "tasks", "j-0", "gpus_accepted"), 1, "skipped"),
    (SCENARIO, ("expected", "tasks", "j-0", "last_start_older_than_seconds"), 1, "skipped"),
    (SCENARIO, ("expected", "no_solver_attempt"), True, "failed"),
    (SCENARIO, ("expected", "counts", "bindings"), 0, "failed"),
    (SCENARIO, ("expected", "counts", "resizes"), 1, "failed"),
    (SCENARIO, ("expected", "nodes"), {"n": {"idle_gpus": 0, "releasing_gpus": 0}}, "passed"),
    (SCENARIO, ("expected", "nodes"), {"n": {"idle_gpus": 0, "numa_zones_available": {"0": 1}}}, "failed"),
    (SCENARIO, ("mode",), "sideways", "failed"),
    (SCENARIO, ("actions",), ["allocate", "defragment"], "failed"),
    (SCENARIO, ("surprise",), {"a": 1}, "failed"),
    (SCENARIO, ("feature",), "where it is from", "passed"),
    (SCENARIO, ("config", "scenario_search_budgets_ns"), [1], "failed"),
    (SCENARIO, ("config", "plugins"), [{"name": "numa", "arguments": {}}], "failed"),
    (SCENARIO, ("config", "plugins"), "some", "failed"),
    (SCENARIO, ("nodes", 0, "numa_topology"), {"policy": "restricted"}, "failed"),
    (SCENARIO, ("nodes", 0, "numa_topology"), {"policy": "sideways", "zones": [{"id": "z"}]}, "failed"),
    (SCENARIO, ("nodes", 0, "taints"), [{"key": "k"}], "failed"),
    (SCENARIO, ("nodes", 0, "mig"), {"strategy": "dual"}, "failed"),
    (SCENARIO, ("queues", 0, "reclaim_min_runtime_seconds"), 5, "passed"),
    (SCENARIO, ("topologies",), [{"name": "t", "levels": ["rack"], "aliases": {"a": "b"}}], "failed"),
    (SCENARIO, ("jobs", 0, "preemption_delay_seconds"), 5, "passed"),
    (SCENARIO, ("jobs", 0, "root_subgroup", "min_sub_group"), 1, "passed"),
    (SCENARIO, (*TASK, "state"), "StuckInReleasing", "failed"),
    (SCENARIO, (*TASK, "qos_class"), "Guaranteed", "passed"),
    (SCENARIO, (*TASK, "qos_class"), "Golden", "failed"),
    (SCENARIO, (*TASK, "annotations"), {"colour": "red"}, "failed"),
    (SCENARIO, (*TASK, "request", "type"), "Half", "failed"),
    (SCENARIO, (*TASK, "request", "hugepages"), 5, "failed"),
    (DIVISION, None, None, "passed"),
    (DIVISION, ("expected", "fair_share", "q", "gpu"), 3, "failed"),
    (DIVISION, ("function",), "numa_evaluate", "failed"),
    (DIVISION, ("function",), "get_queues_by_priority", "skipped"),
    (DIVISION, ("resource",), "disk", "failed"),
    (DIVISION, ("expected", "result"), True, "failed"),
    (RECLAIM, None, None, "passed"),
    (RECLAIM, ("checks", 0, "expected"), False, "failed"),
    (RECLAIM, ("checks", 0, "function"), "filter_victim", "failed"),
    (RECLAIM, ("victim_queue",), "q", "failed"),
    (STRATEGY, None, None, "passed"),
    (STRATEGY, ("expected", "reclaimable"), False, "failed"),
    (STRATEGY, ("strategy",), "whatever", "failed"),
    (GROUPING, None, None, "passed"),
    (GROUPING, (*CLAIM, "value"), "team-b", "failed"),
    (GROUPING, (*CLAIM, "op"), "contains", "passed"),
    (GROUPING, (*CLAIM,), {"path": "spec.queue", "op": "contains", "value": "eam-"}, "passed"),
    (GROUPING, (*CLAIM,), {"path": "spec.queue", "op": "contains", "value": "eam-b"}, "failed"),
    (GROUPING, (*CLAIM, "op"), "resembles", "failed"),
    (GROUPING, ("cases", 0, "expected", "error_contains"), ["x"], "failed"),
    (GROUPING, ("rule",), "Karta", "failed"),
    (GROUPING, ("config", "colour"), "red", "failed"),
    ({"id": "own#5"}, None, None, "failed"),
]


def changed(case, path, value):
    made = copy.deepcopy(case)
    at = made
    for step in path[:-1] if path else ():
        at = at[step]
    if path:
        at[path[-1]] = value
    return made


def outcome(program, case):
    """(what became of it, what the program said)"""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([case], file)
        file.flush()
        done = subprocess.run([program, file.name], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    counts = re.search(r"^(\d) passed, (\d) failed, (\d) skipped$", done.stdout, re.M)
    word = dict(zip(("100", "010", "001"), ("passed", "failed", "skipped"))).get("".join(counts.groups())) if counts else None
    agrees = word and (done.returncode != 0) == (word == "failed")
    return word if agrees else f"exit {done.returncode}", done.stdout.strip()


def main(program):
    passed, failed = 0, 0
    for case, path, value, wanted in CASES:
        got, said = outcome(program, changed(case, path, value))
        if got == wanted:
            passed += 1
            continue
        failed += 1
        print(f"{case['id']} with {'.'.join(map(str, path or ['nothing']))} = {value!r}: {got}, not {wanted}\n{said}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
