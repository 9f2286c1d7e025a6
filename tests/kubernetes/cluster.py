"""Muster on a real control plane: the same methods as the end-to-end harness, another server below.

    with Cluster(plane, nodes=4, gpus_per_node=8) as m:
        m.apply(...)
        m.kubectl("get", "pods")

Nodes are hollow (`muster hollow-nodes`), so pods turn Running and end but nothing runs in them. One control plane
serves all tests of a run; each Cluster begins and leaves it empty. The operator has exactly the shipped rights
(deploy/rbac), and a test in which the server refused it something fails; a `kubeconfig` of a test's own is another's.
"""

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import harness  # noqa: E402
from harness import Failure, Skip, binary, free_port, run, wait_for  # noqa: E402
from controlplane import ACCOUNT, Process  # noqa: E402

# What a test may leave behind, in the order of removal: owners first.
LEFT_BEHIND = ("torchrunjobs.torchrun.ai", "torchrunqueues.torchrun.ai", "trainjobs.trainer.kubeflow.org",
               "jobsets.jobset.x-k8s.io", "pytorchtrainingjobs.batch.tensorstack.dev", "pytorchjobs.kubeflow.org",
               "mpijobs.kubeflow.org", "jobs.batch", "pods",
               "podgroups.scheduling.run.ai", "queues.scheduling.run.ai", "schedulingshards.kai.scheduler",
               "configs.kai.scheduler", "topologies.kai.scheduler", "services", "persistentvolumeclaims", "storageclasses",
               "configmaps")
KEPT = {"kubernetes", "kube-root-ca.crt"}
RBAC = os.path.join(ROOT, "deploy", "rbac")


def words(event):
    """A refused request of the audit log."""
    ref = event.get("objectRef", {})
    sub = "/" + ref["subresource"] if ref.get("subresource") else ""
    return f"{event['verb']} {ref.get('resource')}{sub}: {event['responseStatus'].get('message', '')}"


class Operator(Process):
    """One replica of `muster operator`."""

    def __init__(self, name, folder, kubeconfig, flags=()):
        self.port, self.debug_port = free_port(), free_port()
        super().__init__(name, [binary("muster"), "operator", "--kubeconfig", kubeconfig, "--listen",
                                f"127.0.0.1:{self.port}", "--debug-listen",
                                f"127.0.0.1:{self.debug_port}", *flags], os.path.join(folder, name + ".log"))

    def fetch(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def metric(self, name):
        for line in self.fetch("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise Failure(f"/metrics has no {name}")

    def ready(self):
        self.check()
        try:
            return self.fetch("/readyz").startswith("ok")
        except urllib.error.HTTPError:
            return False

    def unguarded(self):
        """Writes of its life so far that could have met another object than they meant."""
        try:
            return self.metric("muster_api_unguarded_total") if self.alive() else 0
        except OSError:
            return 0

    def leading(self):
        return self.alive() and self.metric("muster_leading") == 1


class Cluster(harness.Muster):
    plane = None  # set by run.py: the control plane of this run
    runs_batch_jobs = False

    def __init__(self, nodes=1, gpus_per_node=0, flags=(), env=None, path_first=None, pytorch=False, kubeconfig=None,
                 node_flags=(), operators=1, operator_flags=(), start_limit=30,
                 quiet=False):
        self.folder = tempfile.mkdtemp(prefix="muster-cluster-")
        # A copy: what a test changes in it (the namespace of the context) is over with the test.
        self.kubeconfig = shutil.copy(self.plane.kubeconfig, os.path.join(self.folder, "kubeconfig"))
        self.operator_kubeconfig = kubeconfig or self.plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
        self.audited = None  # where the audit log was when this began
        self.env = dict(os.environ, KUBECONFIG=self.kubeconfig, NO_COLOR="1", HOME=self.folder)
        self.env.update(env or {})
        self.env["PATH"] = harness.BUILD + ":" + self.env["PATH"]
        if flags:
            raise Skip(f"flags of `muster up` do not apply to a cluster: {' '.join(flags)}")
        self.nodes, self.gpus = nodes, gpus_per_node
        self.node_flags, self.operator_flags = list(node_flags), list(operator_flags)
        self.operator_count, self.start_limit, self.quiet = operators, start_limit, quiet
        self.hollow, self.operators = None, []
        self.log = os.path.join(self.folder, "operator-0.log")

    def __enter__(self):
        try:
            return super().__enter__()
        except BaseException as e:
            self.__exit__(type(e), e, e.__traceback__)
            raise

    def start(self):
        self.kubectl("apply", "-f", RBAC)
        self.kubectl("delete", "lease", "--all", "-n", "muster-system")
        if self.audited is None:
            self.audited = self.plane.refusals()[1]
        self.start_nodes()
        for i in range(self.operator_count):
            self.start_operator(i)
        if not self.operator_count:
            return
        wait_for(lambda: self.leader(), "an operator to lead", self.start_limit)
        wait_for(lambda: self.leader().ready(), "the operator to be ready", self.start_limit)

    def kubectl(self, *argv, **options):
        if argv and argv[0] in ("exec", "logs", "attach", "cp", "port-forward"):
            raise Skip(f"hollow nodes run nothing that kubectl {argv[0]} could reach")
        return super().kubectl(*argv, **options)

    def said(self, *_, **__):
        raise Skip("hollow nodes run nothing that could be read")

    def torchrun(self, *argv, **options):
        if argv and argv[0] in ("submit", "sync", "exec"):
            raise Skip(f"hollow nodes run no sync pod for kubectl torchrun {argv[0]}")
        return super().torchrun(*argv, **options)

    def start_nodes(self):
        self.hollow = Process("hollow-nodes", [
            binary("muster"), "hollow-nodes", str(self.nodes), "--kubeconfig", self.kubeconfig,
            "--gpus-per-node", str(self.gpus), "--run-jobs-for", "1s", "--stop-delay", "2s", "--taint=false",
            *self.node_flags], os.path.join(self.folder, "hollow.log")).start()
        wait_for(lambda: self.hollow.check() and "hollow.ready" in self.hollow.tail(1000),
                 f"{self.nodes} hollow nodes", 60)

    def start_operator(self, index=0):
        operator = Operator(f"operator-{index}", self.folder, self.operator_kubeconfig, self.operator_flags)
        self.operators.append(operator.start())
        return operator

    def leader(self):
        for operator in self.operators:
            try:
                if operator.leading():
                    return operator
            except OSError:
                pass
        return None

    def dump(self):
        if self.quiet:  # a test that wants the failure
            return
        super().dump()
        for operator in self.operators:
            print(f"--- {operator.name}\n{operator.tail(40)}", file=sys.stderr)

    def stop(self):
        unguarded = sum(operator.unguarded() for operator in self.operators)
        for operator in self.operators:
            operator.stop()
        self.operators = []
        for resource in LEFT_BEHIND:
            self._remove_all(resource)
        if self.hollow:
            self.hollow.stop()
        for resource in ("nodes", "events"):
            self._remove_all(resource)
        self.found_nothing()
        self.refused_nothing()
        if unguarded and not self.quiet:
            raise Failure(f"{unguarded:.0f} writes named neither uid nor resourceVersion: see muster_api_unguarded_total")

    def refused_nothing(self):
        refused = [words(e) for e in self.plane.refusals(self.audited)[0]] if self.audited is not None else []
        if refused and not self.quiet:
            raise Failure("the shipped roles are not enough: " + "\n".join(refused[:5]))

    def _remove_all(self, resource):
        """Delete what is left of a resource, finalizers or not: nobody is left to act on them."""
        options = {"gracePeriodSeconds": 0} if resource == "pods" else {}
        try:
            path = self.rest.path(resource)
            found = path and self.rest.get(path)
            for item in found["items"] if found else ():
                if item["metadata"]["name"] in KEPT:
                    continue
                if item["metadata"].get("finalizers"):
                    self.rest.ask("PATCH", self.rest.place(path, item), '{"metadata":{"finalizers":null}}',
                                  content="application/merge-patch+json")
                self.rest.delete_item(path, item, propagationPolicy="Background", **options)
        except OSError as e:  # of a test that ended the server
            print(e, file=sys.stderr)
