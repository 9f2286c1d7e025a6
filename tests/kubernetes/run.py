#!/usr/bin/env python3
"""run.py [--list] [--jobs N] [--e2e | --own | --quick] [WORD...]: tests against a real Kubernetes control plane on loopback.

Runs the test_*.py of this folder (--own: only these) and those of ../e2e (--e2e) that are about Kubernetes' API
and not about our own server: scheduling, jobs of every kind, the plugin. Their Muster is then a ProcessCluster
(processes.py): the real API server, `muster operator`, and nodes whose pods are processes of this machine. Tests
marked with needs() say what a cluster has not got, and are skipped with that line.

--quick is what every change is tried with: a test or two of each matter, none begun later than QUICK_S.

Programs come from binaries.sh; without them everything is skipped with one line, and that is no failure. Each of the
--jobs (1 unless told) has a control plane of its own. What failed is repeated, and counted as flaky when it passes then
(../e2e/flaky.py says how many may be). A word that no test has is an error. Ends with `N passed, N failed, N skipped, N flaky`.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
E2E = os.path.join(os.path.dirname(HERE), "e2e")
sys.path[:0] = [HERE, E2E]

import harness  # noqa: E402
from flaky import say  # noqa: E402
from cluster import Cluster  # noqa: E402
from controlplane import ControlPlane, binaries, die_with_parent, workload_options  # noqa: E402
from processes import ProcessCluster, free_network  # noqa: E402

# Suites of ../e2e that are about what a Kubernetes API server serves.
SHARED = ("scheduling", "scheduling_examples", "scheduling_manifests", "shards", "explain", "batch_job", "skeleton",
          "torchrun_examples", "torchrun_jobs", "torchrun_promise", "torchrun_survival", "torchrun_trouble",
          "plugin_commands", "plugin_kept", "plugin_network", "plugin_open", "plugin_source", "plugin_storage",
          "plugin_sync", "plugin_terminal", "pytorchjob", "kubeflow_kinds", "trainjob", "jobset", "tensorstack",
          "kind_examples", "careless")
QUICK = ("operator.makes", "operator.metrics", "operator.second_replica_follows_an_orderly", "gangs.a_gang_that_does_not_fit",
         "gangs.a_gang_with_one", "kubeflow.the_operator", "rbac.the_shipped", "deploy.the_plain",
         "e2e/scheduling.default_queues", "e2e/scheduling.plain_pods", "e2e/scheduling.build_pod", "e2e/scheduling.two_halves",
         "e2e/plugin_commands.every_command", "e2e/jobset.")
OPTIONS = ("--list", "--jobs", "--e2e", "--own", "--quick", "--worker")
QUICK_S = 200  # the limit of the suite in meson.build is this and the longest test
LIMIT_S = 900  # for one test; the real node's is the longest
RETRY_LIMIT = 8  # more failures than this are no matter of a crowded machine


def load(folder, file):
    spec = importlib.util.spec_from_file_location(file[:-3] if folder == HERE else f"e2e_{file[:-3]}",
                                                  os.path.join(folder, file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests(folders):
    for folder in folders:
        harness.Muster = Cluster if folder == HERE else ProcessCluster  # before the suites import it
        for file in sorted(os.listdir(folder)):
            if not (file.startswith("test_") and file.endswith(".py")):
                continue
            if folder == E2E and file[5:-3] not in SHARED:
                continue
            module = load(folder, file)
            for name, value in list(vars(module).items()):
                if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                    yield f"{'e2e/' if folder == E2E else ''}{file[5:-3]}.{name[5:]}", value


def late(*_):
    raise harness.Failure(f"not over after {LIMIT_S * harness.PATIENCE:.0f} s")


def run_one(name, test):
    """'ok', 'FAILED' or 'skipped: why'; prints the line."""
    start = time.monotonic()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(int(LIMIT_S * harness.PATIENCE))
    try:
        if getattr(test, "needs", None):
            raise harness.Skip(f"needs {test.needs}")
        test()
        result = "ok"
    except harness.Skip as e:
        result = f"skipped: {e}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        traceback.print_exc()
        result = "FAILED"
    finally:
        signal.alarm(0)
    print(f"{name}: {result} ({time.monotonic() - start:.1f} s)", flush=True)
    return result


def serve(folders):
    """A worker: names come on stdin, one a line; a result line and a mark go to stdout for each."""
    chosen = dict(tests(folders))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    with ControlPlane(network=free_network(), **workload_options()) as plane:
        Cluster.plane = plane
        print("\x1eready", flush=True)
        for line in sys.stdin:
            sys.stderr.flush()
            print("\x1e" + run_one(line.strip(), chosen[line.strip()]), flush=True)


class Worker:
    def __init__(self, folders):
        flag = {1: ["--own"] if folders == [HERE] else ["--e2e"], 2: []}[len(folders)]
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", *flag], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        errors="replace", preexec_fn=die_with_parent)
        output, mark = self.answer()
        if mark != "ready":
            print(output)
            raise harness.Failure("no control plane")

    def answer(self):
        """(what it printed, the mark behind it)"""
        lines = []
        for line in self.process.stdout:
            if line.startswith("\x1e"):
                return "".join(lines), line[1:].strip()
            lines.append(line)
        self.process.wait()
        return "".join(lines), "FAILED"

    def run(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self.answer()

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def run_all(names, folders, jobs, limit_s=None):
    """{name: result} of all, with `jobs` control planes; those that could not begin within the limit are skipped."""
    left, results, lock = list(names), {}, threading.Lock()
    begun = time.monotonic()

    def work():
        worker = Worker(folders)
        while True:
            with lock:
                if limit_s and time.monotonic() - begun > limit_s * harness.PATIENCE:
                    results.update({name: "skipped" for name in left})
                    for name in left:
                        print(f"{name}: skipped: not begun within {limit_s * harness.PATIENCE:.0f} s")
                    left.clear()
                name = left.pop(0) if left else None
            if name is None:
                break
            output, result = worker.run(name)
            with lock:
                results[name] = result
                print(output, end="", flush=True)
            if not worker.alive():
                worker = Worker(folders)
        worker.stop()
    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(left)) or 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: results.get(name, "FAILED") for name in names}


def main(argv):
    unknown = [a for a in argv if a.startswith("-") and a not in OPTIONS]
    if unknown:
        print(__doc__.strip())
        return 0 if unknown[0] in ("-h", "--help") else f"run.py: there is no option {unknown[0]}"
    folders = [HERE] if "--own" in argv else [E2E] if "--e2e" in argv else [HERE, E2E]
    if "--worker" in argv:
        return serve(folders)
    jobs = int(argv.pop(argv.index("--jobs") + 1)) if "--jobs" in argv else 1
    quick = "--quick" in argv
    words = [a for a in argv if not a.startswith("-")] or (QUICK if quick else ())
    every = [n for n, _ in tests(folders)]
    unknown = [w for w in words if not any(w in n for n in every)]
    if unknown and not (quick and len(folders) < 2):
        sys.exit(f"run.py: no test has {' or '.join(unknown)} in its name; --list prints them all")
    names = [n for n in every if not words or any(w in n for w in words)]
    if "--list" in argv:
        print("\n".join(names))
        return 0
    try:
        binaries("etcd", "kube-apiserver", "kube-controller-manager")
    except harness.Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
        return say(0, 0, len(names), 0)
    harness.know_torch()
    results = run_all(names, folders, jobs, QUICK_S if quick else None)
    failed = [n for n, r in results.items() if r == "FAILED"]
    if failed and len(failed) <= RETRY_LIMIT:
        print(f"once more: {' '.join(failed)}")
        again = run_all(failed, folders, jobs)
        results.update({name: "flaky" if result == "ok" else "FAILED" for name, result in again.items()})
        failed = [n for n, r in results.items() if r == "FAILED"]
    flaky = [n for n, r in results.items() if r == "flaky"]
    for word, names in (("failed", failed), ("flaky", flaky)):
        for name in names:
            print(f"{word}: {name}")
    skipped = sum(r.startswith("skipped") for r in results.values())
    return say(len(results) - len(failed) - len(flaky) - skipped, len(failed), skipped, len(flaky))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
