#!/usr/bin/env python3
"""torch_test.py: what tests/torch.sh does on machines of several kinds, with a pip, a disk and a processor that are made up.
Ends with `N passed, N failed, N skipped`."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

# What `python3 -m venv FOLDER` makes: a Python that notes what it was called with. `-m pip` does what $PIP says.
PYTHON = r"""#!/bin/sh
if [ "$2" = venv ]; then
    mkdir -p "$3/bin" "$3/lib"
    cp "$0" "$3/bin/python3"
    exit 0
fi
if [ "$2" = pip ]; then
    echo "$*" >> "$NOTES"
    eval "$PIP"
    exit
fi
echo 9.9.9
"""


class TorchScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-torch-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cache = os.path.join(folder.name, "cache")
        self.notes = os.path.join(folder.name, "notes")
        os.mkdir(os.path.join(folder.name, "bin"))
        self.program("python3", PYTHON)

    def program(self, name, text):
        path = os.path.join(self.folder, "bin", name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def start(self, machine="x86_64", free_gb=50, pip="true", index="", args=()):
        self.program("uname", f"#!/bin/sh\necho {machine}\n")
        self.program("df", f"#!/bin/sh\necho header\necho /dev/x 0 0 {free_gb * 1048576} 0% /\n")
        env = dict(os.environ, PATH=os.path.join(self.folder, "bin") + ":" + os.environ["PATH"], MUSTER_TORCH_CACHE=self.cache,
                   MUSTER_TORCH_INDEX=index, NOTES=self.notes, PIP=pip)
        return subprocess.Popen([os.path.join(HERE, "torch.sh"), *args], env=env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, **how):
        process = self.start(**how)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def asked(self):
        """What pip was asked to install, a line a call."""
        if not os.path.exists(self.notes):
            return []
        with open(self.notes) as f:
            return f.read().splitlines()

    def test_x86_64_gets_the_plain_package_with_what_it_depends_on(self):
        status, out, err = self.call()
        self.assertEqual((status, out.strip()), (0, os.path.join(self.cache, "bin", "python3")), err)
        self.assertEqual(len(self.asked()), 1, self.asked())
        self.assertTrue(self.asked()[0].endswith(" torch numpy"), self.asked())
        self.assertNotIn("--no-deps", self.asked()[0])
        status, out, err = self.call(args=["--cached"])
        self.assertEqual((status, err, len(self.asked())), (0, "", 1))

    def test_a_full_disk_is_told_and_nothing_is_installed(self):
        status, out, err = self.call(free_gb=9)
        self.assertEqual((status, out, self.asked()), (3, "", []), err)
        self.assertIn("needs 10 GB free", err)

    def test_an_index_with_a_cpu_build_needs_no_cuda(self):
        status, _, err = self.call(free_gb=9, index="https://index.example/cpu")
        self.assertEqual(status, 0, err)
        self.assertIn("--no-deps --index-url https://index.example/cpu torch", self.asked()[0])

    def test_another_processor_has_a_cpu_build_by_name(self):
        self.assertEqual(self.call(machine="aarch64", free_gb=9)[0], 0)
        self.assertTrue(self.asked()[0].endswith("--no-deps torch"), self.asked())

    def test_without_a_network_it_is_skipped_and_nothing_half_made_is_left(self):
        status, out, err = self.call(pip="echo no network; false")
        self.assertEqual((status, out), (3, ""), err)
        self.assertIn("no network", err)
        self.assertFalse(os.path.exists(os.path.join(self.cache, "bin")))
        self.assertEqual(self.call()[0], 0)

    def test_a_limit_from_outside_ends_pip_too_and_leaves_nothing_half_made(self):
        mark = os.path.join(self.folder, "pid")
        process = self.start(pip=f'echo $$ > "{mark}.new"; mv "{mark}.new" "{mark}"; exec sleep 300')
        deadline = time.monotonic() + 60
        while not os.path.exists(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (3, ""), err)
        self.assertFalse(os.path.exists(os.path.join(self.cache, "bin")))
        with open(mark) as f:
            pid = int(f.read())
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    sys.exit(bool(bad))
