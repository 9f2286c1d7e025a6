#!/usr/bin/env python3
"""conformance.py [--list] [--write] [--jobs N] [--together N] [--limit SECONDS] [FOCUS]: Kubernetes' conformance tests.

e2e.test, agnhost and kubectl are built from the pinned Go module (binaries.sh); the images that the tests name are made of
agnhost and of this machine's programs (conformance_images.py). Every test marked [Conformance] runs in a process of its own,
two at a time, those marked [Serial] alone and last. With --together N that many share a process, which saves its start, unless
they take long; what does not pass there runs again alone, and that counts. FOCUS is a regular expression that finds the tests to
run in their names; without it these are the groups whose results tests/expected/conformance.txt lists (lines `#= GROUP: ...`).
kubectl's command-line tests (conformance_cmd.py) come last and are called `test-cmd NAME`; a FOCUS that begins with test-cmd asks
for these alone, and needs neither e2e.test nor images.

What a test said is in build/logs/conformance/NAME.log. A test is not applicable when it skips itself, or when NOT_HERE has it.
Prints passed, failed and not applicable by group, how many passed only when they were repeated, and a line `failed: NAME` for
each that failed; the list has those that are known to, with the reason, and the counts, which a run of all is held to. --write
puts the counts of such a run, its commit and its day into the list. Exit 77 when the programs cannot be had, or pods cannot run
from images here.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
sys.path.insert(0, os.path.join(ROOT, "tests"))

import conformance_cmd  # noqa: E402
import conformance_images  # noqa: E402
import result  # noqa: E402
from harness import BUILD, Muster, Skip  # noqa: E402

EXPECTED = os.path.join(ROOT, "tests", "expected", "conformance.txt")
LOGS = os.path.join(BUILD, "logs", "conformance")
EXIT_SKIPPED = 77
EXIT_ENDED = 124  # as timeout says it
CANNOT_BE_HAD = 3  # of binaries.sh
JOBS = 2
# Most tests take seconds. A pod that never starts would be waited for five minutes by each of them.
LIMIT_S = 180
# These wait for minutes by design: a liveness probe that must not restart, a schedule that must not begin.
LONG = re.compile(r"CronJob should not schedule|there exists conflict|CronJob should replace|"
                  r"should have monotonically increasing restart count|should \*not\* be restarted|\[Slow\]|taint|Taint|"
                  r"service account.*(rotat|expir)")
LONG_S = 600
TOGETHER_S = 30  # more for each of those that share a process
# {regular expression: why}: what needs something that a machine without a cloud, or this kind of node, does not have.
NOT_HERE = {
    r"original version has been compacted away": "lists go on from their token here as long as history is kept, which is by "
                                                 "size; the test waits for a compaction by the clock",
}
if not shutil.which("busybox"):
    NOT_HERE["read only busybox container"] = "the test wants the words of busybox' shell: install busybox-static"
# The message of a failure, up to four lines of it; before it stands the place alone.
WHY = re.compile(r"\[(?:FAILED|PANICKED|TIMEDOUT|INTERRUPTED)\] (?!in \[|\[)(.*(?:\n(?!\s*(?:$|\n|In \[)).*){0,3})")
COMMAND_PROGRAMS = ("kubectl", "kubectl-convert")
PROGRAMS = ("e2e.test", "agnhost", "nonewprivs", "webserver", *COMMAND_PROGRAMS)
NODES = 2
FLAGS = ("--nodes", str(NODES), "--images", "oci", "--allow-privileged", "--pod-network", "bridge")


class Ended(Skip):
    """Somebody ended this run, a limit for instance. What it started ends with it."""


def end_with_signals():
    def ended(number, frame):
        signal.signal(number, signal.SIG_IGN)  # once is enough: the way out takes its time
        raise Ended(signal.Signals(number).name)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ended)


def programs(names):
    """The folder of the programs; None when they cannot be had."""
    done = subprocess.run([os.path.join(HERE, "binaries.sh"), *names], text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode == CANNOT_BE_HAD:
        return None
    done.check_returncode()
    return done.stdout.strip()


def short(text):
    """A test's name as the list of expected failures has it: one word."""
    return re.sub(r"\s+", "_", re.sub(r"\s*\[Conformance\]\s*$", "", text.strip()))


def focus_of(texts):
    """A regular expression that finds exactly these tests."""
    return "(" + "|".join(re.escape(text).replace("/", ".") for text in texts) + ")$"


def group_of(name):
    found = re.match(r"\[sig-([a-z-]+)\]", name)
    return found.group(1) if found else re.split(r"[_ ]", name)[0]


def all_tests(folder):
    """The full text of every conformance test that e2e.test has."""
    listed = subprocess.run([os.path.join(folder, "e2e.test"), "--list-tests"], text=True, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout
    found = re.findall(r"(\[sig-[^\n]*\[Conformance\])", listed)
    return sorted(set(found))


class Suite:
    def __init__(self, folder, limit, together=1):
        self.muster, self.folder, self.limit, self.together = None, folder, limit, together
        self.results = {}  # {name: (verdict, why, seconds)}
        self.counted = {}  # {group: passed assertions that have no name}
        self.repeated = []  # passed alone, and not beside others
        self.known = result.read_expected(EXPECTED)
        self.running, self.lock, self.ended = set(), threading.Lock(), False

    def command(self, texts, limit):
        return [os.path.join(self.folder, "e2e.test"), "--kubeconfig", self.muster.kubeconfig, "--provider=skeleton",
                "--kubectl-path", os.path.join(self.folder, "kubectl"), "--dump-logs-on-failure=false", "--disable-log-dump",
                "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.seed=1", f"--ginkgo.timeout={limit + 30}s",
                "--system-pods-startup-timeout=30s", "--node-schedulable-timeout=30s",
                f"--ginkgo.focus={focus_of(texts)}"]

    def log_folder(self):
        return LOGS

    def limit_of(self, text):
        return max(LONG_S, self.limit) if LONG.search(text) else self.limit

    def one(self, text):
        """Runs one test: (verdict, why)."""
        name = short(text)
        for pattern, why in NOT_HERE.items():
            if re.search(pattern, text):
                return "not applicable", why
        path, limit = self.log_of(name), self.limit_of(text)
        status, late = self.process(self.command([text], limit), path, limit)
        with open(path, errors="replace") as log:
            said = log.read()
        return self.judge(said, status, late, limit)

    def log_of(self, name):
        return os.path.join(self.log_folder(), re.sub(r"[^\w.-]+", "-", name)[:150].strip("-") + ".log")

    def process(self, command, path, limit, env=None, folder=None):
        """Runs it; (exit status, whether it had to be ended)."""
        with open(path, "w") as log:
            with self.lock:
                if self.ended:
                    raise Ended("nothing begins any more")
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env or self.muster.env,
                                           cwd=folder or self.muster.folder, start_new_session=True)
                self.running.add(process)
            late = self.wait(process, limit)
            with self.lock:
                self.running.remove(process)
        return process.returncode, late

    def several(self, texts):
        """[(text, (verdict, why), seconds)] of tests that share a process first."""
        shared = [text for text in texts if not any(re.search(pattern, text) for pattern in NOT_HERE)]
        passed = self.passed_together(shared) if len(shared) > 1 else {}
        done = [(text, ("passed", ""), seconds) for text, seconds in passed.items()]
        for text in texts:
            if text not in passed:
                start = time.monotonic()
                verdict = self.one(text)
                if len(shared) > 1 and verdict[0] == "passed":
                    self.repeated.append(short(text))
                done.append((text, verdict, time.monotonic() - start))
        return done

    def passed_together(self, texts):
        """{text: seconds} of those that passed in one process."""
        path, limit = self.log_of("together-" + short(texts[0])), max(map(self.limit_of, texts)) + TOGETHER_S * len(texts)
        report = path.removesuffix(".log") + ".json"
        if os.path.exists(report):
            os.unlink(report)
        self.process([*self.command(texts, limit), f"--ginkgo.json-report={report}"], path, limit)
        try:
            with open(report) as f:
                specs = json.load(f)[0]["SpecReports"]
        except (OSError, ValueError, LookupError):
            return {}
        found = {short(" ".join([*(s["ContainerHierarchyTexts"] or []), s["LeafNodeText"]])): s["RunTime"] / 1e9
                 for s in specs if s["State"] == "passed" and s["LeafNodeType"] == "It"}
        return {text: found[short(text)] for text in texts if short(text) in found}

    @staticmethod
    def wait(process, limit):
        """Waits for a test's end; whether it had to be ended, with all that it started."""
        try:
            process.wait(limit)
            return False
        except subprocess.TimeoutExpired:
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True

    @staticmethod
    def judge(said, status, late, limit):
        ran = re.search(r"^Ran (\d+) of \d+ Specs", said, re.MULTILINE)
        whys = WHY.findall(said)
        why = re.sub(r"\s+", " ", whys[0]) if whys else f"ended with {status}"
        if late:
            return "failed", f"not done after {limit} s: {why}"
        if status == 0 and ran and ran.group(1) == "1":
            return "passed", ""
        if status == 0:
            skipped = re.search(r"\[SKIPPED\] (.*)", said)
            return "not applicable", skipped.group(1) if skipped else "it did not run"
        return "failed", why

    def record(self, name, verdict, why, seconds):
        self.results[name] = (verdict, why, seconds)
        print(f"{verdict}: {name} ({seconds:.0f} s){': ' + why[:300] if why else ''}", flush=True)

    def count(self, group, passed):
        with self.lock:
            self.counted[group] = self.counted.get(group, 0) + passed

    def play(self, texts, jobs):
        long, short_ones = [t for t in texts if LONG.search(t)], [t for t in texts if not LONG.search(t)]
        parts = [[text] for text in long]
        parts += [short_ones[i:i + self.together] for i in range(0, len(short_ones), self.together)]

        def record(done):
            for text, (verdict, why), seconds in done:
                self.record(short(text), verdict, why, seconds)
        self.in_pool(jobs, [(self.several, part) for part in parts], record)

    def in_pool(self, jobs, calls, take):
        """Calls [(function, argument)] so many at a time; `take` gets what each gives. Whoever ends the run ends them all."""
        pool = concurrent.futures.ThreadPoolExecutor(jobs)
        try:
            for done in concurrent.futures.as_completed([pool.submit(*call) for call in calls]):
                take(done.result())
        except Ended:
            self.ended = True
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            with self.lock:
                for process in self.running:
                    os.killpg(process.pid, signal.SIGKILL)
            pool.shutdown()

    def play_all(self, texts, jobs):
        if not texts:
            return
        with Muster(nodes=NODES, flags=FLAGS[2:]) as m:
            self.muster = m
            conformance_images.provide(m, self.folder)
            self.play([text for text in texts if "[Serial]" not in text], jobs)
            self.play([text for text in texts if "[Serial]" in text], 1)

    def groups(self):
        """{group: (passed, failed, not applicable)}"""
        groups = {group: ["passed"] * passed for group, passed in self.counted.items()}
        for name, (verdict, _, _) in self.results.items():
            groups.setdefault(group_of(name), []).append(verdict)
        return {group: tuple(verdicts.count(v) for v in VERDICTS) for group, verdicts in sorted(groups.items())}

    def summary(self):
        """Prints what became of each group; the number of those that failed."""
        groups = self.groups()
        for group, counts in groups.items():
            print(f"{group}: {counted(counts)}")
        for name in self.repeated:
            print(f"repeated: {name}")
        total = [sum(column) for column in zip(*groups.values())] or [0, 0, 0]
        print(f"{counted(total)}; {len(self.repeated)} passed only when they were repeated")
        return total[1]


VERDICTS = ("passed", "failed", "not applicable")


def counted(counts):
    return ", ".join(f"{count} {verdict}" for count, verdict in zip(counts, VERDICTS))


def hold_counts(groups, text):
    """What the list says was counted, and was not now."""
    for group, said in re.findall(r"^#= ([\w-]+): (.*)$", text, re.MULTILINE):
        now = counted(groups.get(group, (0, 0, 0)))
        if now != said:
            yield f"counts-of-{group}: the list says {said}; now these are {now}"


def written(groups, text, commit, day):
    """The list with these counts."""
    text = re.sub(r"^#@ .*\n", "", text, flags=re.MULTILINE)
    for group, counts in groups.items():
        text = re.sub(rf"^#= {re.escape(group)}: .*$", f"#= {group}: {counted(counts)}", text, flags=re.MULTILINE)
    return text.replace("#= ", f"#@ {commit} {day} {' '.join(FLAGS)}\n#= ", 1)


def listed():
    """The groups whose results are known."""
    with open(EXPECTED) as f:
        return set(re.findall(r"^#= ([\w-]+):", f.read(), re.MULTILINE))


def choose(names, focus):
    """Those that FOCUS finds; without it those of the listed groups, and a word about the others."""
    if focus:
        return [name for name in names if re.search(focus, name)]
    known = listed()
    for group in sorted({group_of(name) for name in names} - known):
        print(f"{group}: not listed yet; CONFORMANCE_FOCUS='{group}' runs it")
    return [name for name in names if group_of(name) in known]


def open_failures():
    """What failed of groups that are not listed whole."""
    with open(EXPECTED) as f:
        return set(re.findall(r"^#! (\S+)", f.read(), re.MULTILINE))


def compare(suite, whole=()):
    """For a part of the tests, what tests/result.py says of all of them. Of groups that ran whole, what passed counts as well."""
    lines = [f"failed: {name}" for name, (verdict, _, _) in suite.results.items() if verdict == "failed"]
    known = result.read_expected(EXPECTED) | open_failures()
    ran = {name for name in known if name in suite.results or group_of(name) in whole}
    verdict, said = result.judge("\n".join([*lines, "0 passed, 0 failed"]), 0, ran)
    for line in said:
        print(f"conformance: {line}")
    return verdict


def finish(suite, failed, write):
    """Of a run of all."""
    with open(EXPECTED) as f:
        text = f.read()
    if write:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], text=True, check=True,
                                stdout=subprocess.PIPE).stdout.strip()
        with open(EXPECTED, "w") as f:
            f.write(written(suite.groups(), text, commit, time.strftime("%Y-%m-%d")))
        return 1 if failed else 0
    others = list(hold_counts(suite.groups(), text))
    for line in others:
        print(f"failed: {line}")
    return 1 if failed or others else 0


def number(argv, flag, otherwise):
    if flag not in argv:
        return otherwise
    at = argv.index(flag)
    value = int(argv[at + 1])
    del argv[at:at + 2]
    return value


def play(suite, texts, commands, jobs):
    """Runs them; whether none was left out because somebody ended the run. What came before its end counts."""
    os.makedirs(LOGS, exist_ok=True)
    end_with_signals()
    try:
        suite.play_all(texts, jobs)
        conformance_cmd.play(suite, suite.folder, LOGS, commands, jobs)
    except Ended as e:
        print(f"conformance: ended by {e}; what follows is of the tests before that")
        return False
    return True


def main(argv):
    jobs, limit, together = number(argv, "--jobs", JOBS), number(argv, "--limit", LIMIT_S), number(argv, "--together", 1)
    focus = next((a for a in argv if not a.startswith("-")), "")
    only_commands = focus.startswith(conformance_cmd.GROUP)
    if not only_commands and (os.geteuid() != 0 or not shutil.which("crun")):
        print("conformance: pods run from images here, which needs root and crun")
        return EXIT_SKIPPED
    folder = programs(COMMAND_PROGRAMS if only_commands else PROGRAMS)
    if not folder:
        print(f"conformance: {COMMAND_PROGRAMS[0] if only_commands else PROGRAMS[0]} cannot be had here")
        return EXIT_SKIPPED
    texts = [] if only_commands else choose(all_tests(folder), focus)
    commands = choose(conformance_cmd.tests(), focus) if focus else conformance_cmd.tests()  # counted or not
    if "--list" in argv:
        print("\n".join(texts + commands))
        return 0
    suite = Suite(folder, limit, together)
    done = play(suite, texts, commands, jobs)
    failed = suite.summary()
    if not done:
        return EXIT_ENDED
    whole = {conformance_cmd.GROUP, conformance_cmd.CHECKS} if commands == conformance_cmd.tests() else ()
    return compare(suite, whole) if focus else finish(suite, failed, "--write" in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
