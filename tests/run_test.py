#!/usr/bin/env python3
"""run_test.py: what tests/run.py counts, and that nothing is lost in its total. Ends with `N passed, N failed, N skipped`."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import run  # noqa: E402


def suite(name, script, timeout=60):
    return {"name": name, "cmd": ["sh", "-c", script], "env": {}, "timeout": timeout, "priority": 0, "suite": []}


class Judged(unittest.TestCase):
    """judge(): output, exit status -> passed, failed, skipped and the reasons."""

    def test_a_suite_without_counts_is_one_test(self):
        self.assertEqual(run.judge("fine\n", 0, False), (1, 0, 0, []))
        self.assertEqual(run.judge("broken\n", 1, False), (0, 1, 0, []))

    def test_exit_77_is_skipped_and_its_last_line_is_the_reason(self):
        self.assertEqual(run.judge("looking\nno recorded scenarios here\n", 77, False),
                         (0, 0, 1, ["skipped: no recorded scenarios here"]))
        self.assertEqual(run.judge("", 77, False), (0, 0, 1, ["skipped: it does not say why"]))

    def test_a_failure_is_not_hidden_by_exit_77(self):
        self.assertEqual(run.judge("3 passed, 1 failed\n", 77, False)[:3], (3, 1, 0))
        self.assertEqual(run.judge("x\n", 77, True)[:3], (0, 1, 0))

    def test_skipped_tests_of_a_suite_are_counted_with_their_reasons(self):
        output = "a.b: ok (1.0 s)\na.c: skipped: no GPU here (0.1 s)\n1 passed, 0 failed, 1 skipped\n"
        self.assertEqual(run.judge(output, 0, False), (1, 0, 1, ["a.c: skipped: no GPU here (0.1 s)"]))

    def test_a_suite_that_skips_everything_says_so(self):
        output = "skipped: no Kubernetes here: no Go\n0 passed, 0 failed, 14 skipped\n"
        self.assertEqual(run.judge(output, 0, False), (0, 0, 14, ["skipped: no Kubernetes here: no Go"]))
        self.assertEqual(run.judge("0 passed, 0 failed, 2 skipped\n", 0, False)[3], ["skipped: 2 without a reason"])

    def test_a_suite_that_ran_nothing_failed(self):
        self.assertEqual(run.judge("0 passed, 0 failed\n", 0, False)[:3], (0, 1, 0))
        self.assertEqual(run.judge("0 passed, 0 failed, 0 skipped\n", 0, False)[:3], (0, 1, 0))

    def test_an_exit_status_or_a_limit_is_a_failure_whatever_was_counted(self):
        self.assertEqual(run.judge("5 passed, 0 failed\n", 1, False)[:3], (5, 1, 0))
        self.assertEqual(run.judge("5 passed, 0 failed\n", -9, True)[:3], (5, 1, 0))


class Total(unittest.TestCase):
    """main(): what is printed last, and the exit status."""

    def run_all(self, *suites):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            root, listed = run.ROOT, run.suites
            run.ROOT, run.suites = folder, lambda build, again: suites
            os.makedirs(os.path.join(folder, "build"))
            try:
                status = run.main(["--only", "build"])
            finally:
                run.ROOT, run.suites = root, listed
        return status, out.getvalue().splitlines()

    def test_the_total_has_all_three_and_the_reasons_are_shown(self):
        status, lines = self.run_all(suite("a", "echo 4 passed, 0 failed"), suite("b", "echo nothing beside it; exit 77"),
                                     suite("c", "true"))
        self.assertEqual((status, lines[-1]), (0, "5 passed, 0 failed, 1 skipped"))
        self.assertIn("build/b: skipped: nothing beside it", lines)
        self.assertTrue(any(line.startswith("build/b: 0 passed, 0 failed, 1 skipped (") for line in lines), lines)

    def test_one_failure_fails_the_run(self):
        status, lines = self.run_all(suite("a", "echo 4 passed, 0 failed"), suite("b", "echo why; exit 1"))
        self.assertEqual((status, lines[-1]), (1, "4 passed, 1 failed, 0 skipped"))
        self.assertIn("why", lines)

    def test_a_run_in_which_everything_was_skipped_proves_nothing(self):
        status, lines = self.run_all(suite("a", "exit 77"))
        self.assertEqual((status, lines[-1]), (1, "0 passed, 0 failed, 1 skipped"))

    def test_a_suite_is_ended_at_its_limit(self):
        status, lines = self.run_all(suite("a", "echo 1 passed, 0 failed; exec sleep 600", timeout=1))
        self.assertEqual((status, lines[-1].split(", ", 1)[1]), (1, "1 failed, 0 skipped"))
        self.assertTrue(any(line.startswith("ended after its limit") for line in lines), lines)


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bool(bad))
