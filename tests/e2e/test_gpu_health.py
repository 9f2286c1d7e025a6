"""What the driver says against a GPU keeps new pods away from its node: with a library that stands in for NVIDIA's."""

import os
import shutil
import subprocess
import tempfile

from harness import Muster, Skip, binary, check, run, wait_for

DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = CARDS; return 0; }
static char card[CARDS];
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &card[i]; return 0; }
int nvmlDeviceGetHandleByUUID(const char *u, void **d) { *d = &card[u[strlen(u) - 1] - '0']; return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { (void)d; snprintf(s, n, "NVIDIA H200"); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-5f1c2a7%d", (int)((char *)d - card)); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { (void)d; m[0] = 1ULL << 37; m[1] = m[0]; m[2] = 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *r) { (void)d; r[0] = r[1] = 0; return 0; }
int nvmlDeviceGetMinorNumber(void *d, unsigned *m) { *m = (unsigned)((char *)d - card); return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.1"); return 0; }
int nvmlEventSetCreate(void **s) { *s = card; return 0; }
int nvmlDeviceRegisterEvents(void *d, unsigned long long t, void *s) { (void)d; (void)t; (void)s; return 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *up) { (void)d; *up = 1; return link < 4 ? 0 : 2; }
int nvmlDeviceGetNvLinkErrorCounter(void *d, unsigned link, int counter, unsigned long long *n)
{
    char path[4096];
    (void)d;
    snprintf(path, sizeof(path), "%s.link", getenv("FAKE_XID_FILE"));
    *n = 5 + (link == 3 && counter == 1 && access(path, F_OK) == 0); /* recoveries */
    snprintf(path, sizeof(path), "%s.read", getenv("FAKE_XID_FILE"));
    if (link == 3 && counter == 2)
        fclose(fopen(path, "w"));
    return 0;
}
struct event { void *device; unsigned long long type, data; unsigned a, b; };
int nvmlEventSetWait_v2(void *s, struct event *e, unsigned ms)
{
    char which[2] = "0";
    FILE *f = fopen(getenv("FAKE_XID_FILE"), "r");
    (void)s; (void)ms;
    if (!f || unlink(getenv("FAKE_XID_FILE")) != 0)
        return 10;
    if (fread(which, 1, 1, f) != 1)
        which[0] = '0';
    fclose(f);
    memset(e, 0, sizeof(*e));
    e->device = &card[which[0] - '0']; e->type = 8; e->data = 79;
    return 0;
}
"""


def make_driver(folder, cards=1):
    """The library, in the folder; the file that has it report XID 79 of the card whose number is in it (empty: 0). With
    `.link` behind its name it is a file that has a link recover, with `.read` one that is there when links were looked at."""
    source = os.path.join(folder, "nvml.c")
    with open(source, "w") as f:
        f.write(DRIVER)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DCARDS={cards}", "-o", os.path.join(folder, "libnvidia-ml.so.1"), source],
                   check=True)
    return os.path.join(folder, "xid")


def test_a_card_that_fell_off_the_bus_keeps_pods_away():
    if not shutil.which("cc"):
        raise Skip("no compiler for a library that stands in for NVIDIA's")
    with tempfile.TemporaryDirectory(prefix="muster-nvml-") as folder:
        xid = make_driver(folder)
        m = Muster(env={"LD_LIBRARY_PATH": folder, "FAKE_XID_FILE": xid})
        m.flags = ["--nodes", "1"]
        with m:
            def condition():
                return next((c for c in m.get("nodes")[0]["status"]["conditions"] if c["type"] == "GPUsHealthy"), {})
            wait_for(lambda: condition().get("status") == "True", "a card that is well", 60)
            check("FAULT" not in run([binary("muster"), "gpu"], env=m.env).stdout, "nothing is said against it")
            open(xid, "w").close()
            told = wait_for(lambda: condition().get("status") == "False" and condition(), "the fault to be told", 60)
            check(told["reason"] == "XID" and told["message"].startswith("GPU 0: the driver reported XID 79 (it has"), f"{told}")
            taint = {"key": "muster.dev/gpu-unhealthy", "value": "XID", "effect": "NoSchedule"}
            wait_for(lambda: [t for t in m.get("nodes")[0]["spec"].get("taints", []) if taint.items() <= t.items()], "the taint")
            shown = run([binary("muster"), "gpu"], env=m.env).stdout
            check("FAULT" in shown and "GPU 0: the driver reported XID 79" in shown, shown)
            # A self-test that could not look at the card ends nothing that the driver said of it.
            tested = wait_for(lambda: m.get("nodes")[0]["metadata"].get("annotations", {}).get("muster.dev/self-test"),
                              "the self-test", 60)
            check(tested.startswith("passed ") and "GPUs were not tested: there is no driver here" in tested, tested)
            left = [t["key"] for t in m.get("nodes")[0]["spec"]["taints"]]
            check(left == ["muster.dev/gpu-unhealthy"], f"{left}")


def test_a_link_that_recovers_keeps_pods_away():
    if not shutil.which("cc"):
        raise Skip("no compiler for a library that stands in for NVIDIA's")
    with tempfile.TemporaryDirectory(prefix="muster-nvml-") as folder:
        xid = make_driver(folder)
        m = Muster(env={"LD_LIBRARY_PATH": folder, "FAKE_XID_FILE": xid})
        m.flags = ["--nodes", "1"]
        with m:
            def condition():
                return next((c for c in m.get("nodes")[0]["status"]["conditions"] if c["type"] == "GPUsHealthy"), {})
            wait_for(lambda: os.path.exists(xid + ".read"), "the first look", 60)
            wait_for(lambda: condition().get("status") == "True", "a card that is well, whatever was counted before", 60)
            open(xid + ".link", "w").close()
            told = wait_for(lambda: condition().get("status") == "False" and condition(), "the fault to be told", 60)
            check(told["reason"] == "NVLink" and told["message"].startswith("GPU 0: NVLink 3 had to recover 1 time; "), f"{told}")
            taint = {"key": "muster.dev/gpu-unhealthy", "value": "NVLink", "effect": "NoSchedule"}
            wait_for(lambda: [t for t in m.get("nodes")[0]["spec"].get("taints", []) if taint.items() <= t.items()], "the taint")
            shown = run([binary("muster"), "gpu"], env=m.env).stdout
            check("FAULT" in shown and "GPU 0: NVLink 3 had to recover" in shown, shown)
