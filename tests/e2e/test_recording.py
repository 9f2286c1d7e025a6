"""muster up --record: what the scheduler saw and decided is repeated to the same plans by muster replay."""

import os

from harness import Muster, binary, check, run, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: i, command: [sleep, "600"], resources: {limits: {nvidia.com/gpu: 2}}}]
"""


def test_what_was_recorded_is_decided_again():
    m = Muster(nodes=2, gpus_per_node=2)
    records = os.path.join(m.folder, "records")
    m.flags += ["--record", records]
    with m:
        for name in ("first", "second", "third"):
            m.apply(POD.replace("NAME", name))
        wait_for(lambda: [p["status"].get("phase") for p in m.get("pods")].count("Running") == 2, "two of the pods to run")
        m.kubectl("delete", "pod", "first", "second", "--wait=false")
        wait_for(lambda: [p["status"].get("phase") for p in m.get("pods")] == ["Running"], "the third to run")
        m.kill()
        (name,) = os.listdir(records)
        recording = os.path.join(records, name)

        said = run([binary("muster"), "replay", recording]).stdout
        check("3 binds" in said and "as recorded" in said and "NOT" not in said, said)
        said = run([binary("muster"), "replay", recording, "--policy", "random"]).stdout
        check("random decides otherwise" in said and "as recorded" in said, said)
        refused = run([binary("muster"), "replay", recording, "--policy", "fifo"], ok=False)
        check(refused.returncode == 1 and "--policy: fifo" in refused.stderr, refused.stderr)
        with open(recording, "a") as f:
            f.write('{"cycle":1,"plan":"0","binds":0,"evicts":0}\n')
        refused = run([binary("muster"), "replay", recording], ok=False)
        check(refused.returncode == 1 and "not what was recorded" in refused.stderr, refused.stderr)
        m.start()  # pods go as ever


def test_a_recording_that_is_full_is_followed_by_one_that_stands_on_its_own():
    m = Muster(nodes=2, gpus_per_node=2)
    records = os.path.join(m.folder, "records")
    m.flags += ["--record", records, "--record-mib", "1"]
    with m:
        m.apply(POD.replace("NAME", "runs"))
        wait_for(lambda: [p["status"].get("phase") for p in m.get("pods")] == ["Running"], "the pod to run")
        for i in range(60):  # what is recorded of each is some 200 kB, and a file ends at 1 MiB
            if len(os.listdir(records)) >= 3:
                break
            m.kubectl("annotate", "pod", "runs", "--overwrite", f"filler={i}" + "x" * 100000)
        m.apply(POD.replace("NAME", "late"))
        wait_for(lambda: [p["status"].get("phase") for p in m.get("pods")] == ["Running"] * 2, "the second to run")
        m.kill()
        names = sorted(os.listdir(records))
        check(3 <= len(names) <= 4, names)
        for name in names:
            said = run([binary("muster"), "replay", os.path.join(records, name)]).stdout
            check("as recorded" in said and "NOT" not in said, said)
        check("1 binds" in said, said)  # in the last one: the pod that was there is not bound again
        m.start()  # pods go as ever


def test_a_recording_that_begins_with_more_than_its_size_is_not_begun_again_with_every_change():
    m = Muster(nodes=1, gpus_per_node=14)
    records = os.path.join(m.folder, "records")
    m.flags += ["--record", records, "--record-mib", "1"]

    small = POD.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: 2, cpu: 10m, memory: 64Mi")  # all of them fit on any machine

    def begun():
        return max(int(name.rsplit("-", 1)[1].split(".")[0]) for name in os.listdir(records))
    with m:
        names = [f"large-{i}" for i in range(6)]
        for name in names:
            m.apply(small.replace("NAME", name))
        wait_for(lambda: [p["status"].get("phase") for p in m.get("pods")] == ["Running"] * 6, "the pods to run", 60)
        for name in names:  # what there is has more than 1 MiB then
            m.kubectl("annotate", "pod", name, *[f"filler-{i}=" + "x" * 100000 for i in range(2)])
        before = begun()
        m.apply(small.replace("NAME", "small"))
        for i in range(6):
            m.kubectl("annotate", "pod", "small", "--overwrite", f"n={i}")
        wait_for(lambda: m.get("pod", "small")["status"].get("phase") == "Running", "the last one to run", 60)
        check(begun() - before <= 2, f"{before} recordings, and {begun()} after a few small changes")
