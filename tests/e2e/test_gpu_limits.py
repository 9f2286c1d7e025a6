"""Shares of a GPU as limits: the library that holds a container to its memory is preloaded into it, and into no other."""

import os
import shutil

from harness import Failure, Muster, binary, check, needs, run, wait_for
from pods import apply, container, logs, pod, wait_phase
from test_agent_plain import Plain

LIBRARY = "/.muster-gpu/libmuster-gpu.so"
REGION = "/.muster-gpu-region/region"
LOOK = "echo preload=$LD_PRELOAD region=$MUSTER_GPU_REGION limit=$MUSTER_GPU_MEMORY_MIB; sleep 600"


def stand_in(folder):
    """Any library will do to see where it arrives: the loader's own threads library, which is empty by now."""
    path = os.path.join(folder, "stand-in.so")
    for name in ("libdl.so.2", "libpthread.so.0"):
        for place in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"):
            if os.path.exists(os.path.join(place, name)):
                return shutil.copy(os.path.join(place, name), path)
    raise Failure("no library to preload")


class Limited(Muster):
    def __init__(self, **more):
        super().__init__(gpus_per_node=2, **more)
        self.library = stand_in(self.folder)
        self.flags += ["--gpu-share-library", self.library]


def share(name, annotations, *containers, **spec):
    made = pod(name, *containers, annotations=annotations, schedulerName="kai-scheduler",
               labels={"kai.scheduler/queue": "default-queue"}, **spec)
    del made["spec"]["nodeName"]
    return made


def said(m, name, which="main"):
    wait_for(lambda: "limit=" in m.said(name, container=which, ok=False), f"{name} to speak")
    line = m.said(name, container=which)
    return dict(part.split("=", 1) for part in line.split())


def inside(m, name, command, which="main"):
    return m.kubectl("exec", name, "-c", which, "--", "sh", "-c", command).stdout


@needs("the node agent of muster up, which preloads the library")
def test_a_container_with_a_share_has_the_library_its_limit_and_its_region():
    with Limited() as m:
        apply(m, share("half", {"gpu-fraction": "0.5"}, container(LOOK), container(LOOK, name="side")),
              share("mib", {"gpu-memory": "2000"},
                    container(LOOK, env=[{"name": "LD_PRELOAD", "value": m.library},
                                         {"name": "MUSTER_GPU_MEMORY_MIB", "value": "99999"}])))
        half = said(m, "half")
        check(half == {"preload": LIBRARY, "region": REGION, "limit": "40960"}, str(half))
        check(LIBRARY in inside(m, "half", "cat /proc/self/maps"), "it is loaded, for programs of an exec too")
        check("denied" in inside(m, "half", f"echo x >> {LIBRARY} || echo denied"), "nobody can write to the library")
        check("counted" in inside(m, "half", f"printf x >> {REGION} && echo counted"), "the region can be written to")
        check(said(m, "half", "side")["preload"] == "", "the other container is left alone")
        check("no" in inside(m, "half", f"test -e {LIBRARY} || echo no", "side"), "and has no file of it")
        mib = said(m, "mib")
        check(mib["preload"] == f"{m.library}:{LIBRARY}", f"what was preloaded before stays: {mib}")
        check(mib["limit"] == "2000", f"the limit is the scheduler's, not the manifest's: {mib}")
        check("x" not in inside(m, "mib", f"cat {REGION}"), "each pod has a region of its own")


@needs("the node agent of muster up, which preloads the library")
def test_pods_without_a_share_and_those_that_opt_out_are_left_alone():
    with Limited() as m:
        apply(m, pod("plain", container(LOOK)),
              share("out", {"gpu-fraction": "0.25", "torchrun.ai/gpu-memory-enforced": "false"}, container(LOOK)))
        for name, limit in (("plain", ""), ("out", "20480")):
            check(said(m, name) == {"preload": "", "region": "", "limit": limit}, f"{name}: {said(m, name)}")
        apply(m, share("whole", {}, container(LOOK, resources={"limits": {"nvidia.com/gpu": "1"}})))
        check(said(m, "whole") == {"preload": "", "region": "", "limit": ""}, str(said(m, "whole")))


@needs("the node agent of muster up, which preloads the library")
def test_the_region_outlives_a_restart_of_the_container_and_of_muster():
    with Limited() as m:
        once = f"test -s {REGION} || {{ printf counted > {REGION}; exit 1; }}; {LOOK}"
        apply(m, share("again", {"gpu-fraction": "0.5"}, container(once), restart="Always"))
        said(m, "again")
        check(inside(m, "again", f"cat {REGION}") == "counted", "what the first instance wrote is there")
        m.kill()
        m.start()
        check(inside(m, "again", f"cat {REGION}") == "counted", "a new muster finds it as it was")


@needs("the node agent of muster up, which preloads the library")
def test_without_a_library_shares_are_counted_only_and_a_wrong_name_is_said():
    with Muster(gpus_per_node=1, flags=["--gpu-share-library", ""]) as m:
        apply(m, share("half", {"gpu-fraction": "0.5"}, container(LOOK)))
        check(said(m, "half") == {"preload": "", "region": "", "limit": "40960"}, str(said(m, "half")))
        done = run([binary("muster"), "up", "--data-dir", os.path.join(m.folder, "other"), "--listen", "127.0.0.1:0",
                    "--gpu-share-library", "/nowhere.so"], ok=False)
        check(done.returncode != 0 and "--gpu-share-library: /nowhere.so" in done.stderr, done.stderr)
        check("GPU shares" in run([binary("muster"), "doctor", "--data-dir", m.data], env=m.env, ok=False).stdout,
              "doctor has a line about it")


@needs("the node agent of muster up, which preloads the library")
def test_what_a_container_allocates_above_its_share_is_refused():
    """With a driver of our own (tests/preload): the pods' processes are what NVIDIA's would be asked by."""
    checks, driver = binary("tests/preload/preload-checks"), [{"name": "LD_LIBRARY_PATH", "value": binary("tests/preload")}]
    held = {"gpu-memory": "100"}  # LIMIT_MIB of checks.c
    free = {**held, "torchrun.ai/gpu-memory-enforced": "false"}
    with Muster(gpus_per_node=1) as m:
        for name, annotations in (("limit", held), ("fork", held), ("killed", held), ("nvml", held), ("inert", free)):
            apply(m, share(name, annotations, container([checks, name], env=driver)))
        for name in ("limit", "fork", "killed", "nvml", "inert"):
            ended = wait_phase(m, name, "Succeeded", "Failed", limit=60)
            check(ended == "Succeeded", f"{name}: {logs(m, name)}")


@needs("the node agent of muster up, which preloads the library")
def test_a_plain_process_is_held_to_its_share_where_nothing_can_be_mounted():
    with Plain(gpus_per_node=1) as m:
        apply(m, share("limit", {"gpu-memory": "100"}, container([binary("tests/preload/preload-checks"), "limit"],
                       env=[{"name": "LD_LIBRARY_PATH", "value": binary("tests/preload")}])))
        ended = wait_phase(m, "limit", "Succeeded", "Failed", limit=60)
        check(ended == "Succeeded", logs(m, "limit"))
