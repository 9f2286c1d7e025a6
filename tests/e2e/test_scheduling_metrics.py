"""/metrics and docs/reference/metrics.md say the same, both ways; counters of the scheduler count."""

import json
import os
import re
import subprocess
import urllib.request

from harness import ROOT, Muster, binary, check, free_port, needs, wait_for
from test_scheduling_status import QUEUE, create, running

PAGE = os.path.join(ROOT, "docs", "reference", "metrics.md")
OPERATOR = "Only of the operator"
UP = "Only of `muster up`"


def documented():
    """{metric: (type, labels, heading)} of the page."""
    found, heading = {}, None
    with open(PAGE) as f:
        for line in f:
            if line.startswith("## "):
                heading = line[3:].strip()
            row = re.match(r"\| `(\w+)` \| (\w+) \| ([\w, ]*)\|", line)
            if row:
                labels = {label.strip() for label in row.group(3).split(",") if label.strip()}
                found[row.group(1)] = (row.group(2), labels, heading)
    return found


def served(text):
    """{metric: (type, labels)}; labels is None where there is no line yet."""
    found = {name: (kind, None) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)}
    for name, labels in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$", text, re.M):
        check(name in found, f"{name} has a line but no # TYPE")
        found[name] = (found[name][0], set(re.findall(r"(\w+)=", labels or "")) - {"le"})
    return found


def compare(text, page):
    told = served(text)
    check(set(told) == set(page), f"only served: {sorted(set(told) - set(page))}; only on the page: "
                                  f"{sorted(set(page) - set(told))}")
    for name, (kind, labels) in told.items():
        check(kind == page[name][0], f"{name} is a {kind}; the page says {page[name][0]}")
        check(labels is None or labels == page[name][1], f"{name} has labels {labels}; the page says {page[name][1]}")


def metrics(m):
    return m.kubectl("get", "--raw", "/metrics").stdout


@needs("the metrics of muster up")
def test_muster_up_serves_what_the_page_lists():
    with Muster(gpus_per_node=1) as m:
        create(m, "one")
        wait_for(lambda: running(m, "one"), "one to run")
        compare(metrics(m), {n: row for n, row in documented().items() if row[2] != OPERATOR})


@needs("an operator of its own")
def test_the_operator_serves_all_of_the_page():
    with Muster(gpus_per_node=1) as m:
        port = free_port()
        operator = subprocess.Popen([binary("muster"), "operator", "--kubeconfig", m.kubeconfig, "--leader-elect=false",
                                     "--listen", f"127.0.0.1:{port}"], env=m.env, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def fetch():
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
                return "kai_queue_info{" in text and text
            compare(wait_for(fetch, "the operator to know the queues"),
                    {n: row for n, row in documented().items() if row[2] != UP})
        finally:
            operator.terminate()
            operator.wait(20)


def value(m, line):
    found = [l.rsplit(" ", 1)[1] for l in metrics(m).splitlines() if l.startswith(line + " ")]
    return float(found[0]) if found else None


@needs("the metrics of muster up")
def test_actions_waits_and_steps_are_counted():
    with Muster(gpus_per_node=1) as m:
        m.apply(QUEUE)
        create(m, "low", queue="small")
        wait_for(lambda: running(m, "low"), "low to run")
        for line, least in (('kai_podgroups_acted_on_by_action{action="allocate"}', 1),
                            ('kai_podgroups_scheduled_by_action{action="allocate"}', 1),
                            ("kai_task_scheduling_latency_milliseconds_count", 1),
                            ('muster_scheduler_step_seconds_total{step="allocate"}', 0.000001)):
            check(value(m, line) >= least, f"{line} is {value(m, line)}")
        check(value(m, 'kai_scenarios_simulation_by_action{action="preempt"}') == 0, "nothing had to be preempted yet")
        create(m, "large", queue="small", gpus="nvidia.com/gpu: 2")
        wait_for(lambda: value(m, 'muster_scheduler_waiting_groups{reason="OverLimit"}') == 1,
                 "the pod beyond the limit to be counted")
        m.kubectl("delete", "pod", "large", "--force", "--grace-period=0")
        wait_for(lambda: value(m, 'muster_scheduler_waiting_groups{reason="OverLimit"}') == 0,
                 "it to be counted no more")
        create(m, "high", queue="small", priority="build-preemptible")
        wait_for(lambda: running(m, "high"), "high to run")
        for line in ('kai_podgroups_scheduled_by_action{action="preempt"}',
                     'kai_scenarios_simulation_by_action{action="preempt"}',
                     'kai_pod_group_evicted_pods_total{action="preempt"}', "kai_total_preemption_attempts"):
            check(value(m, line) >= 1, f"{line} is {value(m, line)}")


def test_dashboard_and_alerts_name_metrics_of_the_page():
    folder = os.path.join(ROOT, "deploy", "monitoring")
    with open(os.path.join(folder, "dashboard.json")) as f:
        expressions = [t["expr"] for panel in json.load(f)["panels"] for t in panel["targets"]]
    with open(os.path.join(folder, "alerts.yaml")) as f:
        expressions += re.findall(r"expr: (.*)", f.read())
    named = {re.sub("_bucket$", "", name) for e in expressions for name in re.findall(r"\b(?:muster|kai)_\w+", e)}
    check(named and named <= set(documented()), f"not on the page: {sorted(named - set(documented()))}")
