"""A disk that is full, and has room again: nothing acknowledged is lost, and nobody has to restart anything."""

import os
import shutil
import subprocess
import tempfile

from harness import Muster, Skip, check, wait_for
from pods import apply, container, pod
from test_rights import Client

MAPS = "/api/v1/namespaces/default/configmaps"


class SmallDisk:
    """A file system of some megabytes for the data folder of a muster."""

    def __init__(self, muster, options="size=96m"):
        self.folder = muster.data
        os.mkdir(self.folder, 0o700)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "muster-test", self.folder],
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise Skip(f"no file system can be mounted here: {done.stderr.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder])
        shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)

    def fill(self):
        with open(os.path.join(self.folder, "filler"), "ab", buffering=0) as f:
            try:
                while f.write(b"x" * (1 << 16)):
                    pass
            except OSError:
                pass

    def free(self):
        os.unlink(os.path.join(self.folder, "filler"))


def test_a_full_disk_takes_deletes_and_is_written_to_again_when_there_is_room():
    m = Muster()
    with SmallDisk(m) as disk, m:
        owner = Client(m)
        owner.says(201, "POST", MAPS, {"metadata": {"name": "old"}})
        numbers = iter(range(1000))
        text = "x" * 500000

        def refused():
            disk.fill()  # what was given up must not be room for others
            code, answer = owner.ask("POST", MAPS, {"metadata": {"name": f"c{next(numbers)}"}, "data": {"a": text}})
            check(code in (201, 503), f"{code} {answer}")
            return answer if code == 503 else None
        answer = wait_for(refused, "a write that finds no room")
        check("full" in answer["message"] and "but for deletes" in answer["message"], str(answer))
        os.truncate(os.path.join(disk.folder, "filler"), os.path.getsize(os.path.join(disk.folder, "filler")) - (8 << 20))
        code, answer = owner.ask("GET", "/readyz")
        check(code == 503 and "full" in str(answer), f"readyz: {code} {answer}")
        owner.says(200, "GET", "/healthz")
        owner.says(503, "POST", MAPS, {"metadata": {"name": "new"}})
        owner.says(200, "DELETE", MAPS + "/old")
        owner.says(404, "GET", MAPS + "/old")
        disk.free()
        owner.says(201, "POST", MAPS, {"metadata": {"name": "new"}})
        check(owner.says(200, "GET", "/readyz") == "ok", "it is ready again")
        with open(m.log) as f:
            log = f.read()
        check(log.count("event=store.read_only") == 1 and log.count("event=store.writable") == 1, log[-2000:])


def test_a_pod_that_makes_files_until_there_are_no_inodes_is_evicted():
    m = Muster()
    with SmallDisk(m, "nr_inodes=4000") as disk, m:
        many = "i=0; while true > /d/$i; do i=$((i+1)); done; sleep 300"  # empty ones: bytes they have none
        apply(m, pod("calm", container("sleep 300"), terminationGracePeriodSeconds=0),
              pod("hog", container(many, volumeMounts=[{"name": "d", "mountPath": "/d"}]),
                  volumes=[{"name": "d", "emptyDir": {"sizeLimit": "1Gi"}}]))

        def told():
            conditions = m.get("nodes")[0]["status"]["conditions"]
            return next((c for c in conditions if c["type"] == "DiskPressure" and c["status"] == "True"), None)
        pressure = wait_for(told, "the node to tell of it")
        check("inodes" in pressure["message"], str(pressure))
        wait_for(lambda: m.get("pod", "hog")["status"].get("reason") == "Evicted", "the pod that has them all to go", 60)
        said = m.get("pod", "hog")["status"]["message"]
        check("low on resource inodes" in said, said)
        wait_for(lambda: os.statvfs(disk.folder).f_favail > 2000, "what it made to be gone")
        apply(m, pod("late", container("true")))
        wait_for(lambda: m.get("pod", "late")["status"].get("phase") == "Succeeded", "a pod that comes later to run", 60)
        check(m.get("pod", "calm")["status"]["phase"] == "Running", "a pod that made none goes on")


def test_pods_that_end_on_a_full_disk_are_told_as_they_ended_when_there_is_room():
    count = int(os.environ.get("MUSTER_TEST_PODS", "10"))  # 100: the whole of it, by hand
    m = Muster(flags=["--max-pods", "1000"])
    outside = tempfile.mkdtemp(prefix="muster-test-outside-")
    script = ("echo began >> /h/$0; while [ ! -e /h/go ]; do sleep 0.2; done; echo ended >> /h/$0; exit $1")
    try:
        with SmallDisk(m, "size=192m") as disk, m:
            names = [f"p{i}" for i in range(count)]
            for start in range(0, count, 10):
                apply(m, *[pod(n, container(["sh", "-c", script, n, str(i % 3)],
                                            volumeMounts=[{"name": "h", "mountPath": "/h"}]),
                               volumes=[{"name": "h", "hostPath": {"path": outside}}])
                           for i, n in list(enumerate(names))[start:start + 10]])
                batch = names[start:start + 10]
                wait_for(lambda: all(os.path.exists(os.path.join(outside, n)) for n in batch), "pods to begin", 60)

            def lines(name):
                with open(os.path.join(outside, name)) as f:
                    return f.read().split()
            disk.fill()
            open(os.path.join(outside, "go"), "w").close()
            wait_for(lambda: all(lines(n) == ["began", "ended"] for n in names), "all pods to end", 60)
            disk.fill()  # what is given up to write down how they ended is no room for others
            disk.free()
            def told(name, code):
                found = m.get("pod", name)["status"]
                ends = [c["state"].get("terminated") for c in found.get("containerStatuses", [])]
                return ends and ends[0] and ends[0]["exitCode"] == code and \
                    found["phase"] == ("Failed" if code else "Succeeded")
            for i, name in enumerate(names):
                wait_for(lambda: told(name, i % 3), f"{name} to be told with exit code {i % 3}", 60)
            check(all(lines(n) == ["began", "ended"] for n in names), "nothing was started twice")
            check(m.process.poll() is None, "and nobody restarted muster")
    finally:
        shutil.rmtree(outside, ignore_errors=True)
