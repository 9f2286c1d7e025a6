"""Runs tests beside each other and repeats those that fail, so that what fails now and then is seen and counted.

A test that failed is repeated under the same load: among those still to run, and while there are none left, beside repeats
of tests that passed, which count for nothing. If it passes then (of REPEATS tries) it is neither passed nor failed but flaky.
More than one flaky test, and more than FLAKY_SHARE of what ran, fail the run.
"""

import os
import threading
import traceback

LIMIT_S = 300  # for one test
EXIT_SKIPPED = 77
FLAKY_SHARE = 0.01
REPEATS = 2  # of a test that failed
REPEATED_MAX = 8  # tests; when more fail that is no matter of a crowded machine, and further ones are not repeated
USUAL_S = 10  # of a test that has not been measured
BALLAST_S = 15  # a test that took longer is not run again only to keep the load up


def known_times():
    """{name: seconds} of the tests that are known to be long, where none has run yet (times.txt)."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "times.txt")) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    return {name: float(seconds) for name, seconds in lines}


def too_many(flaky, ran):
    return flaky > max(1, ran * FLAKY_SHARE)


def say(passed, failed, skipped, flaky):
    """The last line of a suite; its exit status."""
    bad = too_many(flaky, passed + failed + flaky)
    if bad:
        print(f"{flaky} tests are flaky, more than {FLAKY_SHARE:.0%}: mend them")
    print(f"{passed} passed, {failed} failed, {skipped} skipped, {flaky} flaky")
    return 1 if failed or bad or passed + failed + skipped + flaky == 0 else 0


class Run:
    """`run(name)` runs one test and returns (name, exit status, output, seconds); `before`: seconds of earlier runs; `apart`:
    {name: a word}, and of those with the same word one runs at a time."""

    def __init__(self, names, run, before, apart=None):
        self.run = run
        self.apart = apart or {}
        # The longest first, so that nothing long is left at the end: those that must not run beside each other are one long test.
        chains = {}
        for name in names:
            word = self.apart.get(name) or name
            chains[word] = chains.get(word, 0) + before.get(name, USUAL_S)
        self.left = sorted(names, key=lambda name: (-chains[self.apart.get(name) or name], -before.get(name, USUAL_S)))
        self.results = {name: "FAILED" for name in names}  # or "ok", "flaky", "skipped"
        self.times = {}
        self.said = {}  # name: output of its first failure
        self.tries = {}  # name: how often it has failed
        self.under_way = set()
        self.ballast = []  # what passed and runs at no time
        self.changed = threading.Condition()

    def all(self, jobs):
        """Run everything; returns when the last repeat is over."""
        threads = [threading.Thread(target=self._work) for _ in range(max(jobs, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self):
        while taken := self._take():
            name, counts = taken
            try:
                done = self.run(name)
            except Exception:
                done = name, 1, traceback.format_exc(), 0
            with self.changed:
                if counts:
                    self._put(*done)
                else:
                    self.ballast.append(name)
                self.changed.notify_all()

    def _take(self):
        """(a name, whether it counts), or None at the end. Waits while something runs that may have to be repeated."""
        with self.changed:
            while not (name := self._next()):
                if not self.under_way:
                    return None
                if not self.left and self.ballast and any(name in self.tries for name in self.under_way):
                    return self.ballast.pop(0), False
                self.changed.wait()
            self.left.remove(name)
            self.under_way.add(name)
            self.changed.notify_all()
            return name, True

    def _next(self):
        """The first that may run beside what is under way."""
        taken = {self.apart.get(name) for name in self.under_way} - {None}
        return next((name for name in self.left if self.apart.get(name) not in taken), None)

    def _put(self, name, status, output, seconds):
        self.under_way.remove(name)
        self.times[name] = seconds
        word = self._judge(name, status, output)
        if status not in (0, EXIT_SKIPPED):
            print(output, end="")
        print(f"{name}: {word} ({seconds:.1f} s)", flush=True)

    def _judge(self, name, status, output):
        """Takes the result in; the word for it."""
        if status == EXIT_SKIPPED and name not in self.tries:
            self.results[name] = "skipped"
            return f"skipped: {output.strip()}"
        if status == 0:
            self.results[name] = "flaky" if name in self.tries else "ok"
            if name not in self.tries and self.times[name] <= BALLAST_S and not self.apart.get(name):
                self.ballast.append(name)
            return self.results[name]
        self.said.setdefault(name, output)
        self.tries[name] = self.tries.get(name, 0) + 1
        if self.tries[name] > REPEATS or len(self.tries) > REPEATED_MAX:
            return "FAILED"
        self.left.append(name)
        return "failed, and is repeated"

    def named(self, word):
        return sorted(name for name, result in self.results.items() if result == word)

    def write_flaky(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            for name in self.named("flaky"):
                f.write(f"{name}: passed after {self.tries[name]} failures; the first one said:\n{self.said[name]}\n")

    def summary(self):
        """Prints what became of all; the exit status."""
        for word in ("FAILED", "flaky"):
            for name in self.named(word):
                print(f"{word.lower()}: {name}")
        return say(*(len(self.named(word)) for word in ("ok", "FAILED", "skipped", "flaky")))
