#!/usr/bin/env python3
"""run_test.py: what tests/run.py counts, that nothing is lost in its total, and what is repeated (tests/e2e/flaky.py).
Ends with `N passed, N failed, N skipped`."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "e2e"), os.path.join(HERE, "kubernetes")]

import commits  # noqa: E402
import conformance  # noqa: E402
import conformance_cmd  # noqa: E402
import counted  # noqa: E402
import flaky  # noqa: E402
import guard  # noqa: E402
import result as results  # noqa: E402
import run  # noqa: E402


def suite(name, script, timeout=60):
    return {"name": name, "cmd": ["sh", "-c", script], "env": {}, "timeout": timeout, "priority": 0, "suite": []}


class Judged(unittest.TestCase):
    """judge(): output, exit status -> passed, failed, skipped and the reasons."""

    def test_a_suite_without_counts_is_one_test(self):
        self.assertEqual(run.judge("fine\n", 0, False), (1, 0, 0, 0, []))
        self.assertEqual(run.judge("broken\n", 1, False), (0, 1, 0, 0, []))

    def test_exit_77_is_skipped_and_its_last_line_is_the_reason(self):
        self.assertEqual(run.judge("looking\nno recorded scenarios here\n", 77, False),
                         (0, 0, 1, 0, ["skipped: no recorded scenarios here"]))
        self.assertEqual(run.judge("", 77, False), (0, 0, 1, 0, ["skipped: it does not say why"]))

    def test_a_suite_that_did_not_come_to_its_end_says_how_it_ended(self):
        self.assertEqual(run.judge("slow: a (1.0 s)\n", 134, False), (0, 1, 0, 0, ["it was ended by signal 6"]))
        self.assertEqual(run.judge("", -9, False), (0, 1, 0, 0, ["it was ended by signal 9"]))
        self.assertEqual(run.judge("", 143, True), (0, 1, 0, 0, ["it did not end in time"]))

    def test_a_failure_is_not_hidden_by_exit_77(self):
        self.assertEqual(run.judge("3 passed, 1 failed\n", 77, False)[:3], (3, 1, 0))
        self.assertEqual(run.judge("x\n", 77, True)[:3], (0, 1, 0))

    def test_skipped_tests_of_a_suite_are_counted_with_their_reasons(self):
        output = "a.b: ok (1.0 s)\na.c: skipped: no GPU here (0.1 s)\n1 passed, 0 failed, 1 skipped\n"
        self.assertEqual(run.judge(output, 0, False), (1, 0, 1, 0, ["a.c: skipped: no GPU here (0.1 s)"]))

    def test_a_suite_that_skips_everything_says_so(self):
        output = "skipped: no Kubernetes here: no Go\n0 passed, 0 failed, 14 skipped\n"
        self.assertEqual(run.judge(output, 0, False), (0, 0, 14, 0, ["skipped: no Kubernetes here: no Go"]))
        self.assertEqual(run.judge("0 passed, 0 failed, 2 skipped\n", 0, False)[4], ["skipped: 2 without a reason"])

    def test_a_suite_that_ran_nothing_failed(self):
        self.assertEqual(run.judge("0 passed, 0 failed\n", 0, False)[:3], (0, 1, 0))
        self.assertEqual(run.judge("0 passed, 0 failed, 0 skipped\n", 0, False)[:3], (0, 1, 0))

    def test_flaky_tests_have_a_column_and_are_named(self):
        output = "flaky: a.b\n9 passed, 0 failed, 0 skipped, 1 flaky\n"
        self.assertEqual(run.judge(output, 0, False), (9, 0, 0, 1, ["flaky: a.b"]))
        self.assertEqual(run.judge(output, 1, False)[:4], (9, 1, 0, 1))

    def test_an_exit_status_or_a_limit_is_a_failure_whatever_was_counted(self):
        self.assertEqual(run.judge("5 passed, 0 failed\n", 1, False)[:3], (5, 1, 0))
        self.assertEqual(run.judge("5 passed, 0 failed\n", -9, True)[:3], (5, 1, 0))


class Total(unittest.TestCase):
    """main(): what is printed last, and the exit status."""

    def run_all(self, *suites, budgets=None):
        budgets = {**{f"build/{test['name']}": 60 for test in suites}, **(budgets or {})}
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            before = run.ROOT, run.suites, run.read_budgets
            run.ROOT, run.suites, run.read_budgets = folder, lambda build, again: suites, lambda: budgets
            os.makedirs(os.path.join(folder, "build"))
            try:
                status = run.main(["--only", "build"])
            finally:
                run.ROOT, run.suites, run.read_budgets = before
        return status, out.getvalue().splitlines()

    def test_the_total_has_all_three_and_the_reasons_are_shown(self):
        status, lines = self.run_all(suite("a", "echo 4 passed, 0 failed"), suite("b", "echo nothing beside it; exit 77"),
                                     suite("c", "true"))
        self.assertEqual((status, lines[-1]), (0, "5 passed, 0 failed, 1 skipped, 0 flaky"))
        self.assertIn("build/b: skipped: nothing beside it", lines)
        self.assertTrue(any(line.startswith("build/b: 0 passed, 0 failed, 1 skipped, 0 flaky (") for line in lines), lines)

    def test_one_failure_fails_the_run(self):
        status, lines = self.run_all(suite("a", "echo 4 passed, 0 failed"), suite("b", "echo why; exit 1"))
        self.assertEqual((status, lines[-1]), (1, "4 passed, 1 failed, 0 skipped, 0 flaky"))
        self.assertIn("why", lines)

    def test_what_failed_is_named_again_at_the_end(self):
        named = "for i in $(seq 99); do echo $i; done; echo FAIL x; echo failed: y; echo 1 passed, 2 failed; seq 99; exit 1"
        status, lines = self.run_all(suite("a", named), suite("b", "echo why; exit 1"), suite("c", "true"))
        self.assertEqual(status, 1)
        self.assertEqual(lines[-5:-2], ["failed: build/a: x", "failed: build/a: y",
                                        "failed: build/b: 0 passed, 1 failed, 0 skipped, 0 flaky"])

    def test_what_was_skipped_or_flaky_is_not_named_as_failed(self):
        status, lines = self.run_all(suite("a", "echo x: skipped: no GPU here; echo flaky: y; "
                                                "echo 1 passed, 0 failed, 1 skipped, 1 flaky; exit 1"))
        self.assertEqual(status, 1)
        self.assertEqual([line for line in lines if line.startswith("failed: ")],
                         ["failed: build/a: 1 passed, 1 failed, 1 skipped, 1 flaky"])
        self.assertIn("build/a: x: skipped: no GPU here", lines)

    def test_a_run_in_which_everything_was_skipped_proves_nothing(self):
        status, lines = self.run_all(suite("a", "exit 77"))
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 1 skipped, 0 flaky"))

    def test_suites_run_beside_each_other_and_those_that_fill_the_machine_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            meet = f"touch {folder}/$0; for i in $(seq 600); do test -e {folder}/$1 && exit 0; sleep 0.1; done; exit 1"
            both = [{**suite(a, ""), "cmd": ["sh", "-c", meet, a, b]} for a, b in (("a", "b"), ("b", "a"))]
            alone = {**suite("c", f"test -e {folder}/a && test -e {folder}/b"), "priority": -1}
            cores, os.cpu_count = os.cpu_count, lambda: 2
            try:
                status, lines = self.run_all(alone, *both)
            finally:
                os.cpu_count = cores
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed, 0 skipped, 0 flaky"))
        ended = [line for line in lines if line.startswith("build/")]
        self.assertTrue(ended[-1].startswith("build/c: "), lines)

    def test_units_run_in_parts_that_are_all_of_them(self):
        made = list(run.parts({**suite("unit", ""), "cmd": ["unit"]}, 2))
        self.assertEqual([test["name"] for test in made], ["unit-1", "unit-2"])
        self.assertEqual([test["cmd"] for test in made], [["unit", "--part", "1/2"], ["unit", "--part", "2/2"]])

    def test_a_suite_is_ended_at_its_limit(self):
        status, lines = self.run_all(suite("a", "echo 1 passed, 0 failed; exec sleep 600", timeout=1))
        self.assertEqual((status, lines[-1].split(", ", 1)[1]), (1, "1 failed, 0 skipped, 0 flaky"))
        self.assertTrue(any(line.startswith("ended after its limit") for line in lines), lines)


    def test_a_suite_above_its_budget_of_processor_time_fails_with_what_to_do(self):
        status, lines = self.run_all(suite("a", "exit 0"), suite("b", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
                                     budgets={"build/b": 0.05 / run.PATIENCE})
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 0 skipped, 0 flaky"))
        said = [line for line in lines if line.startswith("failed: build/b: ")]
        self.assertRegex(said[0], r"took \d+\.\d s of processor time, its budget .* a target of its own")

    def test_what_a_suite_leaves_to_others_counts_as_its_processor_time(self):
        burn = "setsid sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; touch done'"
        status, _ = self.run_all(suite("a", f"({burn} &); while ! test -e done; do sleep 0.1; done"),
                                 budgets={"build/a": 0.2 / run.PATIENCE})
        self.assertEqual(status, 1)

    def test_what_nobody_waits_for_counts_too(self):
        with counted.Counted() as group:
            if not group.folder:
                self.skipTest("no control group counts here")
        alone = "import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nif os.fork(): os.wait()\nsum(range(9000000))"
        status, lines = self.run_all(suite("a", f"{sys.executable} -c '{alone}' 2> /dev/null; echo 1 passed, 0 failed"),
                                     budgets={"build/a": 0.25 / run.PATIENCE})
        self.assertEqual(status, 1, lines)

    def test_a_suite_without_a_budget_fails(self):
        self.assertEqual(run.over_budget("build/a", 1, {"build/a": 2 / run.PATIENCE}), [])
        self.assertRegex(run.over_budget("build/a", 1, {})[0], "has no line in tests/budgets.txt")

    def test_the_slowest_tests_of_all_suites_are_named(self):
        said = "".join(f"echo t{i}: ok '({i}.0 s)';" for i in range(40)) + "echo slow: u '(99.5 s)'; echo 41 passed, 0 failed"
        _, lines = self.run_all(suite("a", said))
        slowest = [line for line in lines if line.startswith("slowest: ")]
        self.assertEqual((slowest[0], slowest[1], len(slowest)),
                         ("slowest:   99.5 s build/a: u", "slowest:   39.0 s build/a: t39", run.SLOWEST_SHOWN))

    def test_an_unknown_flag_and_help_run_nothing(self):
        for argv, status in ((["--help"], 0), (["-h"], 0), (["--chek"], 2), (["unit"], 2), (["--only"], 2)):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(run.main(argv), status, argv)
            self.assertTrue(out.getvalue().startswith("run.py [--only BUILD"), argv)

    def test_every_suite_of_meson_has_a_line_and_every_line_a_suite(self):
        if not os.path.exists(os.path.join(run.ROOT, "build", "build.ninja")):
            self.skipTest("no build folder")
        wanted = {f"build/{test['name']}" for test in run.suites("build", False)}
        self.assertEqual(set(run.read_budgets()), wanted | {"build-asan/unit", "build-asan/e2e-again"})


class Guarded(unittest.TestCase):
    """guard.py: nothing is left of a command, however it ends."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder])

    def start(self, script):
        """A command that leaves a process of another session, which holds `lock`, and tells who is who."""
        leave = "setsid sh -c 'exec 9> lock; flock 9; echo $$ > left; exec sleep 600' &"
        process = subprocess.Popen([guard.__file__, "sh", "-c", f"{leave} while ! test -s left; do :; done; {script}"],
                                   cwd=self.folder, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60 * run.PATIENCE
        while not os.path.exists(os.path.join(self.folder, "told")) and time.monotonic() < deadline:
            time.sleep(0.02)
        return process

    def free(self):
        """Whether what was left is gone; waits for it, bounded."""
        return subprocess.run(["flock", "-w", str(60 * run.PATIENCE), os.path.join(self.folder, "lock"), "true"]).returncode == 0

    def test_what_a_command_leaves_is_ended_and_its_status_is_kept(self):
        process = self.start("touch told; exit 7")
        said, _ = process.communicate()
        self.assertEqual((process.returncode, self.free()), (7, True))
        self.assertEqual(said, "guard: left behind and removed: 1 processes, 0 mounts, 0 control groups\n")

    def test_whoever_is_killed_nothing_is_left(self):
        tell = "echo $$ $PPID > told.new; mv told.new told; exec sleep 600"
        for victim in ("the first", "the second", "the command"):
            with self.subTest(victim):
                process = self.start(tell)
                with open(os.path.join(self.folder, "told")) as f:
                    command, second = map(int, f.read().split())
                os.kill({"the first": process.pid, "the second": second, "the command": command}[victim], signal.SIGKILL)
                if victim == "the second":  # then it is for the command to clean up, and this one is a shell
                    with open(os.path.join(self.folder, "left")) as f:
                        os.kill(int(f.read()), signal.SIGKILL)
                process.communicate()
                self.assertTrue(self.free())
                for name in ("told", "left"):
                    os.remove(os.path.join(self.folder, name))


class Commits(unittest.TestCase):
    """commits.judge(): a commit that a person can read."""

    def test_large_ones_say_why(self):
        self.assertEqual(commits.judge("A: b", "Because.", 1000), [])
        self.assertRegex(commits.judge("A: b", "Because.", 1001)[0], "1001 lines")
        self.assertEqual(commits.judge("A: b", "The 2,000 lines are one table.", 2000), [])

    def test_a_subject_has_72_characters_and_there_is_a_body(self):
        self.assertEqual(len(commits.judge("x" * 73, "", 1)), 2)

    def test_what_programs_write_is_not_counted(self):
        self.assertEqual(commits.lines_of("3\t4\tsrc/a.c\n900\t900\tdocs/reference/messages.md\n-\t-\tdocs/a.png\n"), 7)


class Expected(unittest.TestCase):
    """result.judge(): a long suite beside the list of what is known to fail."""

    def test_what_is_on_the_list_may_fail_and_nothing_else(self):
        output = "failed: a\nfailed: b\n7 passed, 2 failed, 0 skipped\n"
        self.assertEqual(results.judge(output, 1, {"a", "b"}), (0, []))
        self.assertEqual(results.judge(output, 1, {"a"}), (1, ["regression: b"]))
        self.assertEqual(results.judge("9 passed, 0 failed\n", 0, {"a"}), (1, ["passes now, take it off the list: a"]))

    def test_a_suite_that_broke_is_not_as_expected(self):
        self.assertEqual(results.judge("", 0, set())[0], 1)
        self.assertEqual(results.judge("7 passed, 0 failed\n", 1, set())[0], 1)
        self.assertEqual(results.judge("nothing here\n", 77, {"a"})[0], 77)


class Conformance(unittest.TestCase):
    """What a test of Kubernetes said -> what became of it, and why."""

    def test_one_that_ran_passed_and_one_that_did_not_is_not_applicable(self):
        ran = "Ran 1 of 6741 Specs in 2 seconds\n"
        self.assertEqual(conformance.Suite.judge(ran, 0, False, 9), ("passed", ""))
        self.assertEqual(conformance.Suite.judge("  [SKIPPED] no cloud\nRan 0 of 6741 Specs\n", 0, False, 9),
                         ("not applicable", "no cloud"))

    def test_the_reason_is_the_message_not_the_place(self):
        said = "  [FAILED] in [It] - x.go:1\n\n  [FAILED] no such kind\n  In [It] at: x.go:1\nRan 1 of 6741 Specs\n"
        self.assertEqual(conformance.Suite.judge(said, 1, False, 9), ("failed", "no such kind"))
        self.assertEqual(conformance.Suite.judge("", -15, True, 9), ("failed", "not done after 9 s: ended with -15"))

    def test_names_are_one_word_in_their_group(self):
        name = conformance.short("[sig-cli] Kubectl  logs works [Conformance]")
        self.assertEqual((name, conformance.group_of(name)), ("[sig-cli]_Kubectl_logs_works", "cli"))
        self.assertEqual(conformance.group_of("test-cmd run_pod_tests"), "test-cmd")

    def test_an_assertion_that_failed_is_known_by_its_place(self):
        said = "core.sh:7: FAIL!\nGet pods\n  Expected: a\n" + "FAIL!\nmessage:x\nhas not:y\n12 /k/test/cmd/get.sh\n"
        self.assertEqual([where for where, _ in conformance_cmd.failures(said)], ["core.sh:7", "get.sh:12"])

    def test_the_scripts_are_those_of_the_kubernetes_that_is_built(self):
        with open(os.path.join(HERE, "kubernetes", "binaries.sh")) as f:
            self.assertRegex(conformance_cmd.version(f.read()), r"^v1\.\d+\.\d+$")


class Known(unittest.TestCase):
    """tests/e2e/times.txt: what is long where nothing has been measured."""

    def test_every_name_is_a_test(self):
        listed = subprocess.run([sys.executable, os.path.join(HERE, "e2e", "run.py"), "--list"], text=True, check=True,
                                stdout=subprocess.PIPE).stdout.split()
        self.assertEqual(sorted(set(flaky.known_times()) - set(listed)), [])

    def test_the_longest_begin_first_and_new_ones_in_between(self):
        names = flaky.Run(["quick", "new", "long"], None, {"quick": 1, "long": 100}).left
        self.assertEqual(names, ["long", "new", "quick"])


class Repeated(unittest.TestCase):
    """flaky.Run: what is repeated, and what it then counts as."""

    def play(self, script, jobs=2):
        """`script`: {name: exit statuses in turn, the last one for ever}. The Run, its exit status and its lines."""
        calls, lock = {name: 0 for name in script}, threading.Lock()

        def once(name):
            with lock:
                at = min(calls[name], len(script[name]) - 1)
                calls[name] += 1
            return name, script[name][at], f"{name} said {script[name][at]}\n", 0.1
        self.calls = calls
        with contextlib.redirect_stdout(io.StringIO()) as out:
            played = flaky.Run(list(script), once, {})
            played.all(jobs)
            status = played.summary()
        return played, status, out.getvalue().splitlines()

    def test_what_fails_once_and_then_passes_is_flaky_and_listed(self):
        script = {"a": [1, 0], **{f"t{i}": [0] for i in range(20)}}
        played, status, lines = self.play(script)
        self.assertEqual((status, lines[-1]), (0, "20 passed, 0 failed, 0 skipped, 1 flaky"))
        self.assertIn("flaky: a", lines)
        with tempfile.TemporaryDirectory() as folder:
            played.write_flaky(os.path.join(folder, "logs", "flaky.txt"))
            with open(os.path.join(folder, "logs", "flaky.txt")) as f:
                self.assertEqual(f.read(), "a: passed after 1 failures; the first one said:\na said 1\n\n")

    def test_tests_that_need_the_same_thing_run_one_at_a_time(self):
        under_way, most = [], []

        def once(name):
            under_way.append(name)
            most.append(sum(other.startswith("p") for other in under_way))
            time.sleep(0.01)
            under_way.remove(name)
            return name, 0, "", 0.1
        names = ["p0", "p1", "p2", "a", "b"]
        with contextlib.redirect_stdout(io.StringIO()):
            played = flaky.Run(names, once, {}, {name: "port" for name in names if name[0] == "p"})
            played.all(4)
        self.assertEqual((played.named("ok"), max(most)), (sorted(names), 1))

    def test_what_fails_each_time_failed(self):
        played, status, lines = self.play({"a": [1], "b": [0]})
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped, 0 flaky"))
        self.assertEqual(self.calls["a"], 1 + flaky.REPEATS)
        self.assertIn("failed: a", lines)

    def test_more_than_one_in_a_hundred_fail_the_run(self):
        few = {f"f{i}": [1, 0] for i in range(2)}
        self.assertEqual(self.play({**few, **{f"t{i}": [0] for i in range(198)}})[1], 0)
        self.assertEqual(self.play({**few, **{f"t{i}": [0] for i in range(197)}})[1], 1)

    def test_a_skip_does_not_hide_a_failure(self):
        _, status, lines = self.play({"a": [1, 77], "b": [77]})
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 1 skipped, 0 flaky"))

    def test_when_very_many_fail_they_are_not_repeated(self):
        script = {f"f{i}": [1, 0] for i in range(flaky.REPEATED_MAX + 3)}
        _, status, lines = self.play(script, jobs=1)
        self.assertEqual((status, lines[-1]), (1, f"0 passed, 3 failed, 0 skipped, {flaky.REPEATED_MAX} flaky"))

    def test_a_repeat_at_the_end_runs_beside_others_again(self):
        beside = threading.Event()
        second = threading.Event()

        def once(name):
            if name == "a" and second.is_set():
                beside.wait(60)  # passes because something else runs meanwhile
                return name, 0 if beside.is_set() else 1, "", 0.1
            if name == "a":
                second.set()
                return name, 1, "", 0.1
            if second.is_set() and played.results["b"] == "ok":
                beside.set()
            return name, 0, "", 0.1
        with contextlib.redirect_stdout(io.StringIO()):
            played = flaky.Run(["b", "a"], once, {"b": 2, "a": 1})
            played.all(2)
        self.assertEqual(played.results, {"a": "flaky", "b": "ok"})

    def test_a_test_that_breaks_the_runner_failed(self):
        def once(name):
            raise OSError("no more processes")
        with contextlib.redirect_stdout(io.StringIO()):
            played = flaky.Run(["a"], once, {})
            played.all(2)
        self.assertEqual(played.results, {"a": "FAILED"})
        self.assertIn("no more processes", played.said["a"])


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bool(bad))
