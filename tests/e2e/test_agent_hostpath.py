"""A hostPath shows the machine's files, and never muster's own: the data folder, the owner's token, kubeconfigs."""

import os
import subprocess

from harness import Muster, Skip, check
from pods import apply, container, ended, logs, pod, wait_phase

LOOK = "cat /h/token /h/*/token /h/*/*/token /h/kubeconfig /h 2>/dev/null; find /h -name 'store.db*' -o -name token; echo looked"


def secret(m):
    with open(os.path.join(m.data, "token")) as f:
        return f.read().strip()


def looker(name, path, command=LOOK, sub=None):
    """A pod that looks for secrets below a hostPath."""
    mount = {"name": "h", "mountPath": "/h", **({"subPath": sub} if sub else {})}
    return pod(name, container(command, volumeMounts=[mount]), volumes=[{"name": "h", "hostPath": {"path": path}}])


def seen(m, name):
    """What it saw; "" where it never started."""
    wait_phase(m, name, "Succeeded", "Failed")
    found = m.get("pod", name)["status"]
    if found.get("reason") == "NotPermitted" or ended(m, name)["reason"] == "StartError":
        return ""
    out = logs(m, name)
    check("looked" in out, f"{name}: {out}")
    return out


def words(m, name):
    found = m.get("pod", name)["status"]
    return found.get("message") or ended(m, name)["message"]


def check_hidden(m):
    """What every muster must hide, with root and without."""
    link = os.path.join(m.folder, "link")
    os.symlink(m.data, link)
    os.mkdir(os.path.join(m.folder, "plain"))
    os.chmod(os.path.join(m.folder, "plain"), 0o777)
    refused = {"self": m.data, "inside": os.path.join(m.data, "pods"), "file": os.path.join(m.data, "token"),
               "link": link, "new": os.path.join(m.data, "made"), "kubeconfig": m.kubeconfig}
    below = {"parent": (m.folder, "data"), "root": ("/", os.path.relpath(m.data, "/"))}
    apply(m, *[looker(name, path) for name, path in refused.items()], looker("sub", m.folder, sub="data"),
          *[looker(name, path, f"cd /h/{at}/..; ls -AR data; cat data/token kubeconfig; touch data/x; echo looked")
            for name, (path, at) in below.items()],
          looker("plain", os.path.join(m.folder, "plain"), "echo kept > /h/x; echo looked"))
    for name, path in refused.items():
        out = seen(m, name)
        check(out == "", f"a hostPath of {path} is refused: {out}")
        check("muster" in words(m, name) and "hostPath" in words(m, name), f"in words: {words(m, name)}")
    check(not os.path.exists(os.path.join(m.data, "made")), "nor is anything made there")
    out = seen(m, "sub")
    check(out == "", f"a subPath does not lead there: {out}")
    for name in below:
        out = seen(m, name)
        check(out and secret(m) not in out and "store.db" not in out, f"{name}: {out}")
        check(not os.path.exists(os.path.join(m.data, "x")), "nothing is written there")
    check(seen(m, "plain") == "looked\n", "any other folder is as before")
    with open(os.path.join(m.folder, "plain", "x")) as f:
        check(f.read() == "kept\n", "for writing too")


def test_the_data_folder_is_hidden_itself_and_in_its_parents():
    with Muster() as m:
        check_hidden(m)


def test_the_data_folder_is_hidden_in_a_second_mount():
    with Muster() as m:
        places = {name: os.path.join(m.folder, name) for name in ("again", "part", "above")}
        made = []
        try:
            for name, source in (("again", m.data), ("part", os.path.join(m.data, "tls")), ("above", m.folder)):
                os.mkdir(places[name])
                if subprocess.run(["mount", "--bind", source, places[name]]).returncode:
                    raise Skip("mounting takes root")
                made.append(places[name])
            # Without any volume: the machine's own file systems are seen, and so are those that show it twice.
            plain = container(f"cat {places['again']}/token {places['above']}/data/token; "
                              f"find {m.folder} -name '*.key' -o -name 'store.db*'; echo looked")
            apply(m, *[looker(name, place) for name, place in places.items()], pod("none", plain),
                  looker("all", m.folder, "find /h -name '*.key'; " + LOOK))
            for name in ("again", "part"):
                out = seen(m, name)
                check(out == "", f"{name}: {out}")
            for name in ("above", "all", "none"):
                out = seen(m, name)
                check(out and not any(word in out for word in (secret(m), "store.db", ".key")), f"{name}: {out}")
        finally:
            for place in reversed(made):
                subprocess.run(["umount", "-l", place], check=True)


def privileged_pods():
    return {"privileged": pod("privileged", container("true", securityContext={"privileged": True})),
            "hostPID": pod("hostpid", container("true"), hostPID=True),
            "SYS_ADMIN": pod("sysadmin", container("true", securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}})),
            "DAC_READ_SEARCH": pod("all", container("true", securityContext={"capabilities": {"add": ["ALL"]}})),
            "/proc": pod("proc", container("true", volumeMounts=[{"name": "h", "mountPath": "/h"}]),
                         volumes=[{"name": "h", "hostPath": {"path": "/proc"}}])}


def test_what_would_see_through_is_refused_unless_allowed():
    with Muster() as m:
        made = privileged_pods()
        apply(m, *made.values(), pod("fine", container("true", securityContext={"capabilities": {"add": ["SYS_NICE"]}})))
        for word, one in made.items():
            name = one["metadata"]["name"]
            wait_phase(m, name, "Failed", "Succeeded")
            found = m.get("pod", name)["status"]
            check(found.get("reason") == "NotPermitted", f"{name}: {found}")
            check(word in found["message"] and "--allow-privileged" in found["message"], found["message"])
        wait_phase(m, "fine", "Succeeded")


def test_privileged_pods_run_where_they_are_allowed():
    with Muster(flags=["--allow-privileged"]) as m:
        made = privileged_pods()
        apply(m, *made.values())
        for one in made.values():
            wait_phase(m, one["metadata"]["name"], "Succeeded")
