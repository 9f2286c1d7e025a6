#!/usr/bin/env python3
"""run.py [--list] [--jobs N] [WORD...]: run the end-to-end tests whose file or name contains one of the words.

A test is a function test_* in a file test_*.py of this folder. Tests mostly wait, so several run beside each
other (--jobs, or MUSTER_TEST_JOBS; three times the cores unless told), each in a process of its own with its own
server. A word or a flag that nobody knows is an error. However the run ends, nothing of it is left: tests/guard.py.

A test that failed is repeated under the same load, and counted as flaky when it passes then (flaky.py); what it said is in
BUILD/logs/e2e-flaky.txt. Ends with `N passed, N failed, N skipped, N flaky`.
"""

import importlib
import json
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import guard  # noqa: E402
from counted import Counted  # noqa: E402
from guard import PR_SET_CHILD_SUBREAPER, prctl  # noqa: E402
from flaky import EXIT_SKIPPED, LIMIT_S, Run, known_times  # noqa: E402
from harness import BUILD, PATIENCE, Skip, know_torch  # noqa: E402

TIMES = os.path.join(BUILD, "logs", "e2e-times.json")
GRACE_S = 20  # for a test to end by itself after SIGTERM
BUSIEST_SHOWN = 30
FLAKY = os.path.join(BUILD, "logs", "e2e-flaky.txt")


def tests():
    for file in sorted(os.listdir(HERE)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        module = importlib.import_module(file[:-3])
        for name, value in list(vars(module).items()):
            if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                yield f"{file[5:-3]}.{name[5:]}", value


def run_one(name):
    """The test of exactly this name, in this process; its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the test cleans up behind itself
    file, test = name.split(".")
    try:
        getattr(importlib.import_module(f"test_{file}"), f"test_{test}")()
    except Skip as e:
        print(e)
        return EXIT_SKIPPED
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def become(name, output):
    """The process of a test, from its fork to its end."""
    status = 1
    try:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        status = run_one(name)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def reap(pid, limit_s):
    """The exit status of a child, None when it has not ended in time. What its own children leave is reaped here, and counted."""
    def late(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == pid:
                return os.waitstatus_to_exitcode(status)
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def stop(pid):
    """Ends a child: first so that it cleans up behind itself, which ends what the test started."""
    os.kill(pid, signal.SIGTERM)
    if reap(pid, GRACE_S) is None:
        os.kill(pid, signal.SIGKILL)
        reap(pid, GRACE_S)


def run_apart(name):
    """The test in a process of its own, which has everything imported: (name, exit status, output, seconds), and seconds of
    processor time of all that it started."""
    start, limit_s = time.monotonic(), LIMIT_S * PATIENCE
    with tempfile.TemporaryFile() as output, Counted() as counted:
        before_s = counted.seconds()
        pid = os.fork()
        if pid == 0:
            counted.enter()
            become(name, output)
        signal.signal(signal.SIGTERM, lambda *_: (stop(pid), os._exit(1)))
        status = reap(pid, limit_s)
        if late := status is None:
            stop(pid)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output.seek(0)
        text = output.read().decode(errors="replace") + (f"ended after {limit_s:.0f} s\n" if late else "")
        used_s = counted.seconds() - before_s
    return (name, 1 if late else status, text, time.monotonic() - start), used_s


class Workers:
    """Processes of one thread each, forked before there is a second one here: what they fork holds nobody's locks."""

    def __init__(self, count):
        self.pids, self.idle, self.used_s, self.ending = [], queue.SimpleQueue(), {}, False
        for _ in range(count):
            ours, theirs = multiprocessing.Pipe()
            pid = os.fork()
            if pid == 0:
                ours.close()
                self.work(theirs)
            theirs.close()
            self.pids.append(pid)
            self.idle.put(ours)

    @staticmethod
    def work(connection):
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            while name := connection.recv():
                connection.send(run_apart(name))
        finally:
            os._exit(0)

    def run(self, name):
        worker = self.idle.get()
        try:
            worker.send(name)
            done, self.used_s[name] = worker.recv()
            return done
        except EOFError:
            if self.ending:
                threading.Event().wait()  # until all of this has ended
            raise
        finally:
            self.idle.put(worker)

    def close(self):
        for pid in self.pids:
            self.idle.get().send("")
        for pid in self.pids:
            os.waitpid(pid, 0)

    def end(self, *_):
        """SIGTERM: so that every test cleans up behind itself."""
        self.ending = True
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        for pid in self.pids:
            os.waitpid(pid, 0)
        os._exit(1)


def read_times():
    """Seconds of each test the last time it ran here."""
    try:
        with open(TIMES) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def write_times(times):
    os.makedirs(os.path.dirname(TIMES), exist_ok=True)
    with open(TIMES, "w") as f:
        json.dump(times, f, indent=1, sort_keys=True)


def choose(names, words):
    """The names that have one of the words; SystemExit when a word is in none."""
    unknown = [word for word in words if not any(word in name for name in names)]
    if unknown:
        sys.exit(f"run.py: no test has {' or '.join(unknown)} in its name; --list prints them all")
    return [name for name in names if not words or any(word in name for word in words)]


def main(argv):
    jobs = int(os.environ.get("MUSTER_TEST_JOBS") or 3 * (os.cpu_count() or 1))
    words = list(argv)
    if "--jobs" in words[:-1] and words[words.index("--jobs") + 1].isdigit():
        at = words.index("--jobs")
        jobs = int(words[at + 1])
        del words[at:at + 2]
    if any(word.startswith("-") and word != "--list" for word in words):
        print(__doc__.strip())
        return 0 if "--help" in words or "-h" in words else 2
    found = dict(tests())
    chosen = choose(list(found), [word for word in words if word != "--list"])
    if "--list" in words:
        print("\n".join(chosen))
        return 0
    if guard.RUN not in os.environ:
        os.execv(guard.__file__, [guard.__file__, *sys.argv[:1], *argv])
    know_torch()
    workers = Workers(min(jobs, len(chosen)))
    signal.signal(signal.SIGTERM, workers.end)
    before = {**known_times(), **read_times()}
    run = Run(chosen, workers.run, before, {name: getattr(found[name], "apart", None) for name in chosen})
    run.all(jobs)
    workers.close()
    for name in sorted(workers.used_s, key=workers.used_s.get, reverse=True)[:BUSIEST_SHOWN]:
        print(f"busiest: {workers.used_s[name]:.1f} s of processor time: {name}")
    write_times({**read_times(), **run.times})
    run.write_flaky(FLAKY)
    return run.summary()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
