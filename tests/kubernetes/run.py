#!/usr/bin/env python3
"""run.py [--list] [WORD...]: tests against a real Kubernetes control plane on loopback.

Runs the test_*.py of this folder and, of ../e2e, the suites that need no processes in pods, whose Muster is then a
Cluster. Programs come from binaries.sh; without them everything is skipped with one line, and that is no
failure. Ends with `N passed, N failed, N skipped`.
"""

import importlib.util
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
E2E = os.path.join(os.path.dirname(HERE), "e2e")
sys.path[:0] = [HERE, E2E]

import harness  # noqa: E402
from cluster import Cluster  # noqa: E402
from controlplane import ControlPlane  # noqa: E402

# Suites of ../e2e whose tests look at objects only.
SHARED = ("scheduling", "queues", "jobs", "kinds")


def load(folder, file):
    spec = importlib.util.spec_from_file_location(f"{os.path.basename(folder)}_{file[:-3]}",
                                                  os.path.join(folder, file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests():
    for folder in (HERE, E2E):
        for file in sorted(os.listdir(folder)):
            if not (file.startswith("test_") and file.endswith(".py")):
                continue
            if folder == E2E and file[5:-3] not in SHARED:
                continue
            module = load(folder, file)
            for name, value in list(vars(module).items()):
                if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                    yield f"{file[5:-3]}.{name[5:]}", value


def run_all(chosen):
    passed, failed, skipped = 0, [], 0
    for name, test in chosen:
        start = time.monotonic()
        try:
            test()
            result, passed = "ok", passed + 1
        except harness.Skip as e:
            result, skipped = f"skipped: {e}", skipped + 1
        except KeyboardInterrupt:
            raise
        except BaseException:
            traceback.print_exc()
            result = "FAILED"
            failed.append(name)
        print(f"{name}: {result} ({time.monotonic() - start:.1f} s)", flush=True)
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed else 0


def main(argv):
    words = [a for a in argv if not a.startswith("-")]
    harness.Muster = Cluster  # before the suites import it
    chosen = [(n, t) for n, t in tests() if not words or any(w in n for w in words)]
    if "--list" in argv:
        print("\n".join(n for n, _ in chosen))
        return 0
    try:
        with ControlPlane() as plane:
            Cluster.plane = plane
            return run_all(chosen)
    except harness.Skip as reason:
        print(f"skipped: no Kubernetes here: {reason}")
        print(f"0 passed, 0 failed, {len(chosen)} skipped")
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
