#!/usr/bin/env python3
"""run.py [--list] [--quick] [WORD...]: ordinary days (days.py) against the built programs and a real PyTorch, those whose name
contains a word; --quick: those that `make test` has. JOURNEY_PYTHON names another Python with torch. Prints what counts, and
`failed: NAME` of those that fail.
"""

import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import days  # noqa: E402
import people  # noqa: E402
from journey import Day, Skip, torch_pythons  # noqa: E402
from harness import know_torch, python_of_ranks  # noqa: E402


def journeys():
    return {name: f for module in (days, people) for name, f in vars(module).items()
            if callable(f) and getattr(f, "journey", False)}


def play(name, function):
    """"passed", "failed" or "skipped"."""
    start = time.monotonic()
    try:
        with Day() as day:
            function(day)
        word = "passed"
    except Skip as e:
        word = f"skipped: {e}"
    except Exception:
        traceback.print_exc(file=sys.stdout)
        print(f"failed: {name}")
        word = "failed"
    print(f"{name}: {word} ({time.monotonic() - start:.1f} s)", flush=True)
    return word.partition(":")[0]


def main(argv):
    words = [word for word in argv if not word.startswith("-")]
    if set(argv) - set(words) - {"--list", "--quick"}:
        print(__doc__.strip())
        return 0 if "--help" in argv else 2
    found = {name: f for name, f in journeys().items()
             if (not words or any(word in name for word in words)) and ("--quick" not in argv or f.quick)}
    if "--list" in argv:
        print("\n".join(found))
        return 0
    if "--quick" in argv and torch_pythons() and "JOURNEY_PYTHON" not in os.environ:
        know_torch()
        os.environ["JOURNEY_PYTHON"] = python_of_ranks()
    ends = [play(name, f) for name, f in found.items()]
    print(f"{ends.count('passed')} passed, {ends.count('failed')} failed, {ends.count('skipped')} skipped")
    return 1 if "failed" in ends or not ends else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
