"""Seconds of processor time of all that a command starts, counted by the kernel in a control group of its own. What nobody waited
for counts like the rest: the ranks that end with a pod's namespace of processes are half of what the end-to-end tests take. Where
no such group can be made, what was waited for is all that is known.
"""

import glob
import os
import resource
import tempfile

PREFIX = "muster-counted"
# The tree of groups that only counts. Where it is one with that of limits, or all are one, muster moves pods out of a group here.
TREE = "/sys/fs/cgroup/cpuacct"


def _place():
    """The folder of this process's own group there, None where there is no such tree."""
    if os.path.islink(TREE):
        return None
    with open("/proc/self/cgroup") as f:
        own = [path for _, names, path in (line.rstrip("\n").split(":", 2) for line in f) if names == "cpuacct"]
    return TREE + own[0].rstrip("/") if own else None


def remove(folder):
    """A group with those inside, which nobody should be in any more."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass  # somebody is


def remove_all(run):
    """The groups of a run (guard.py) that are left."""
    for folder in glob.glob(os.path.join(_place() or "/nowhere", f"{PREFIX}-{run}-*")):
        remove(folder)


class Counted:
    """with Counted() as counted: started by counted.argv(), or by a child that says counted.enter(); then counted.seconds()."""

    def __enter__(self):
        place = _place()
        try:
            self.folder = place and tempfile.mkdtemp(prefix=f"{PREFIX}-{os.environ.get('MUSTER_TEST_RUN', '')}-", dir=place)
        except OSError:
            self.folder = None
        return self

    def __exit__(self, *_):
        if self.folder:
            remove(self.folder)

    def enter(self):
        """This process, and what it starts, is counted here from now on."""
        if self.folder:
            with open(os.path.join(self.folder, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))

    def argv(self, command):
        """A command that enters first."""
        if not self.folder:
            return command
        return ["sh", "-c", 'echo $$ > "$0"; exec "$@"', os.path.join(self.folder, "cgroup.procs"), *command]

    def seconds(self, waited=None):
        """What was used so far; where that is not counted, what was waited for: of all children unless `waited` has it."""
        if not self.folder:
            usage = waited or resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime
        with open(os.path.join(self.folder, "cpuacct.usage")) as f:
            return int(f.read()) / 1e9
