#!/usr/bin/env python3
"""run.py [--list] [WORD...]: run the end-to-end tests whose file or name contains one of the words.

A test is a function test_* in a file test_*.py of this folder. Ends with `N passed, N failed, N skipped`.
"""

import importlib
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from harness import Skip  # noqa: E402


def tests():
    for file in sorted(os.listdir(HERE)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = importlib.import_module(file[:-3])
        for name, value in list(vars(module).items()):
            if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                yield f"{file[5:-3]}.{name[5:]}", value


def main(argv):
    words = [a for a in argv if not a.startswith("-")]
    chosen = [(n, t) for n, t in tests() if not words or any(w in n for w in words)]
    if "--list" in argv:
        print("\n".join(n for n, _ in chosen))
        return 0
    passed, failed, skipped = 0, [], 0
    for name, test in chosen:
        start = time.monotonic()
        try:
            test()
            result, passed = "ok", passed + 1
        except Skip as e:
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
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
