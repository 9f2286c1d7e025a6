#!/usr/bin/env python3
"""workloads.py [--kube-scheduler] [FOCUS]: Kubernetes 1.37's own specs of gangs, with our scheduler.

A control plane of that version with the gates of the Workload API on (binaries.sh builds it, and the specs as a program),
hollow nodes, and `muster operator` as the scheduler of every pod that names none: the specs make such pods. They are those
of test/e2e/scheduling with the gate GenericWorkload: gang_scheduling, workload and workload_aware_preemption. FOCUS is a
regular expression that finds some of them by name. --kube-scheduler runs them with Kubernetes' own scheduler, to see what
the nodes here cannot show.

What a spec said is in build/logs/workloads/NAME.log. Prints a line for each, `failed: NAME` for those that failed, and
`N passed, N failed, N not applicable`. The operator has exactly the shipped rights; a request that the server refused it
counts as a failure. Exit 77 when the programs cannot be had.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("MUSTER_KUBE_VERSION", "v1.37.1")

from cluster import Cluster, words  # noqa: E402
from conformance import EXIT_SKIPPED, Suite, focus_of  # noqa: E402
from controlplane import WORKLOAD_GATES, WORKLOAD_SERVED, ControlPlane, binaries  # noqa: E402
from harness import BUILD, Skip  # noqa: E402

LOGS = os.path.join(BUILD, "logs", "workloads")
NODES = 3
LIMIT_S = 300  # a pod that does not start is waited for five minutes by the specs themselves
GATE = "GenericWorkload"
RIGHTS = "the_shipped_rights"


def plane(apiserver_flags=(), **options):
    return ControlPlane(gates=WORKLOAD_GATES, apiserver_flags=[WORKLOAD_SERVED, *apiserver_flags], **options)


def specs(program):
    """The full text of every spec of the gate."""
    listed = subprocess.run([program, "--list-tests"], text=True, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout
    return sorted(set(re.findall(rf"(\[sig-scheduling\][^\n]*{GATE}[^\n]*)", listed)))


class Specs(Suite):
    """As conformance.py's, with the specs' own program, and a cluster below."""

    def command(self, texts, limit):
        return [os.path.join(self.folder, "scheduling-e2e"), "--kubeconfig", self.muster.kubeconfig, "--provider=skeleton",
                "--dump-logs-on-failure=false", "--disable-log-dump", "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.seed=1",
                f"--ginkgo.timeout={limit + 30}s", "--node-schedulable-timeout=30s",
                f"--ginkgo.focus={focus_of(texts)}"]

    def log_folder(self):
        return LOGS

    def limit_of(self, text):
        return self.limit

    def play_all(self, texts, jobs):
        """Each spec takes the resources of a node of its own choice, so one at a time."""
        with Cluster(nodes=NODES, operators=jobs, operator_flags=["--scheduler-name", "default-scheduler"],
                     quiet=True) as m:
            self.muster = m
            self.play(texts, 1)
            refused = [words(event) for event in m.plane.refusals(m.audited)[0]]
        if jobs:
            self.record(RIGHTS, "failed" if refused else "passed", "; ".join(refused[:3]), 0)


def main(argv):
    own = "--kube-scheduler" not in argv
    focus = next((a for a in argv if not a.startswith("-")), "")
    try:
        folder = binaries("etcd", "kube-apiserver", "kube-controller-manager", "scheduling-e2e",
                          *([] if own else ["kube-scheduler"]))
    except Skip as reason:
        print(f"workloads: {reason}")
        return EXIT_SKIPPED
    texts = [text for text in specs(os.path.join(folder, "scheduling-e2e")) if re.search(focus, text)]
    if not texts:
        sys.exit(f"workloads.py: no spec of the gate {GATE} has {focus!r} in its name")
    os.makedirs(LOGS, exist_ok=True)
    suite = Specs(folder, LIMIT_S)
    with plane(scheduler=not own) as k:
        Cluster.plane = k
        suite.play_all(texts, 1 if own else 0)
    return 1 if suite.summary() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
