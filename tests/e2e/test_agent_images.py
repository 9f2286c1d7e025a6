"""--images=oci: images are imported, containers run from them by crun, and a missing one is named."""

import os
import shutil
import tarfile

from harness import Muster, Skip, binary, check, run, wait_for
from images import docker_archive, host_files, layer, oci_layout, registry
from pods import apply, ended, events, logs, phase, pod, run_pod, status, wait_phase

FLAGS = ("--images", "oci")


def needed():
    if os.geteuid() != 0 or not shutil.which("crun"):
        raise Skip("images need root and crun")


def image(m, *argv, ok=True):
    return run([binary("muster"), "image", *argv, "--data-dir", m.data], env=m.env, ok=ok)


def container(image_name, name="main", **more):
    return {"name": name, "image": image_name, **more}


def small(m, name="small"):
    """An image of two layers: the second removes one file of the first and replaces another."""
    folder = oci_layout(os.path.join(m.folder, "layout"), name, [
        layer(host_files(), {"etc/first": "1\n", "etc/both": "old\n", "etc/passwd": "web:x:1234:55::/:/bin/sh\n"}),
        layer(texts={"etc/both": "new\n", "etc/.wh.first": ""})],
        Entrypoint=["/bin/sh", "-c"], Cmd=["echo $GREETING; id -u; id -g; pwd"], Env=["GREETING=hello", "PATH=/bin"],
        User="web", WorkingDir="/etc")
    return image(m, "import", folder)


def test_a_pod_runs_from_an_image():
    needed()
    with Muster(flags=FLAGS) as m:
        small(m)
        check("small:latest" in image(m, "list").stdout, "the image is listed")
        apply(m, pod("a", container("small")))
        wait_phase(m, "a", "Succeeded", "Failed")
        check(logs(m, "a").split() == ["hello", "1234", "55", "/etc"], f"{logs(m, 'a')} {ended(m, 'a')}")
        ask = "cat both; ls; touch /x; ls /; echo $$$$; hostname; cat /etc/hosts; grep Seccomp: /proc/self/status"
        out = run_pod(m, "b", ask, hostname="inside",
                      container={"image": "small", "securityContext": {"runAsUser": 0}})
        check(out.startswith("new\n") and "first" not in out.split(), out)
        check("x" in out.split() and "work" not in out.split(), f"the image's own root: {out}")
        check("\n1\n" in out and "inside" in out, f"its own processes and host name: {out}")
        check("Seccomp:\t2" in out, f"calls are filtered as in any container: {out}")
        with open("/etc/hosts") as f:
            hosts = f.read()
        out = run_pod(m, "n", "cat /etc/hosts", hostNetwork=True, container={"image": "small"})
        check(out == hosts, f"on the machine's network a pod knows the machine's names: {out}")
        out = run_pod(m, "c", "touch /x || echo fixed; touch /v/y && ls /v", volumes=[{"name": "v", "emptyDir": {}}],
                      container={"image": "small", "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                                 "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": True}})
        check("fixed" in out.split() and "y" in out.split(), f"readOnlyRootFilesystem: {out}")


def test_containers_of_images_keep_the_rest_of_a_pod():
    needed()
    with Muster(flags=FLAGS) as m:
        small(m)
        apply(m, pod("a", container("small", command=["sh", "-c", "echo said > /dev/termination-log; cat /v/x; sleep 1000"],
                                    volumeMounts=[{"name": "v", "mountPath": "/v"}],
                                    securityContext={"runAsUser": 0}),
                     initContainers=[container("small", "first", command=["sh", "-c", "echo shared > /v/x"],
                                               securityContext={"runAsUser": 0},
                                               volumeMounts=[{"name": "v", "mountPath": "/v"}])],
                     volumes=[{"name": "v", "emptyDir": {}}], terminationGracePeriodSeconds=1))
        wait_phase(m, "a", "Running")
        wait_for(lambda: logs(m, "a", "-c", "main") == "shared\n", "the volume to be shared")
        ask = "echo in; id -u; ls /v; grep CapEff /proc/self/status"
        out = m.kubectl("exec", "a", "-c", "main", "--", "sh", "-c", ask).stdout
        check(out.split()[:3] == ["in", "0", "x"], out)
        check(out.split()[-1] != "000001ffffffffff", f"capabilities are dropped: {out}")
        m.kill()
        m.start()
        check(phase(m, "a") == "Running", "it outlives muster")
        m.kubectl("delete", "pod", "a", "--wait=true")
        apply(m, pod("b", container("small", command=["sh", "-c", "exit 7"])),
              pod("c", container("small", command=["nope"])))
        wait_phase(m, "b", "Failed")
        check(ended(m, "b")["exitCode"] == 7, str(ended(m, "b")))
        wait_phase(m, "c", "Failed")
        check(ended(m, "c")["reason"] == "StartError" and "nope" in ended(m, "c")["message"], str(ended(m, "c")))


def test_a_missing_image_is_named_and_waited_for():
    needed()
    with Muster(flags=FLAGS) as m:
        apply(m, pod("a", container("registry.example/team/small:latest", command=["sh", "-c", "echo there"])),
              pod("b", container("other", imagePullPolicy="Never")))
        wait_for(lambda: status(m, "a")["state"].get("waiting", {}).get("reason") == "ImagePullBackOff", "pod a to say so")
        wait_for(lambda: status(m, "b")["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull", "pod b to say so")
        check("muster image" in status(m, "a")["state"]["waiting"]["message"], str(status(m, "a")))
        check(any("registry.example/team/small" in text for _, text in events(m, "a")), str(events(m, "a")))
        small(m, "registry.example/team/small:latest")
        wait_phase(m, "a", "Succeeded")
        check(logs(m, "a") == "there\n", logs(m, "a"))


def test_archives_and_their_names():
    needed()
    with Muster(flags=FLAGS) as m:
        path = docker_archive(os.path.join(m.folder, "saved.tar"), "registry.example/library/tiny:1", [layer(host_files())],
                              Cmd=["/bin/sh", "-c", "echo docker"], Env=["PATH=/bin"])
        image(m, "import", path)
        check(run_pod(m, "a", None, container={"image": "tiny:1"}) == "docker\n", "by its short name")
        image(m, "import", path, "--name", "again")
        image(m, "rm", "tiny:1")
        names = image(m, "list").stdout
        check("again:latest" in names and "tiny" not in names, names)
        image(m, "rm", "again")
        check(os.listdir(os.path.join(m.data, "images")) == ["names"], str(os.listdir(os.path.join(m.data, "images"))))
        gone = image(m, "rm", "again", ok=False)
        check(gone.returncode == 1 and "again" in gone.stderr, gone.stderr)


def test_hostile_images_stay_inside():
    needed()
    with Muster(flags=FLAGS) as m:
        def link(name, target, kind=tarfile.SYMTYPE):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            return info
        outside = os.path.join(m.folder, "outside")
        os.mkdir(outside)
        device = tarfile.TarInfo("dev/disk")
        device.type, device.devmajor, device.devminor = tarfile.BLKTYPE, 8, 0
        folder = oci_layout(os.path.join(m.folder, "evil"), "evil", [
            layer(extra=[link("way", outside), link("up", "../../../../../../.."), device]),
            layer(texts={"way/a": "x", f"up{outside}/b": "x", "../../../../c": "x", f"..{outside}/d": "x", "/e": "x",
                         ".wh..": "", "way/.wh.kept": ""})])
        with open(os.path.join(outside, "kept"), "w") as f:
            f.write("k")
        done = image(m, "import", folder, ok=False)
        check(os.listdir(outside) == ["kept"], f"outside the image: {os.listdir(outside)} {done.stderr}")
        damaged = oci_layout(os.path.join(m.folder, "damaged"), "damaged", [layer(texts={"a": "b"})])
        blobs = os.path.join(damaged, "blobs", "sha256")
        for name in os.listdir(blobs):
            with open(os.path.join(blobs, name), "ab") as f:
                f.write(b" ")
        done = image(m, "import", damaged, ok=False)
        check(done.returncode == 1 and "damaged" in done.stderr, done.stderr)
        with open(os.path.join(m.folder, "junk.tar"), "wb") as f:
            f.write(os.urandom(4096))
        done = image(m, "import", os.path.join(m.folder, "junk.tar"), ok=False)
        check(done.returncode == 1 and "tar" in done.stderr, done.stderr)
        check(not [n for n in os.listdir(os.path.join(m.data, "images")) if n.startswith("tmp") or n.endswith(".new")],
              "nothing half done is left")


def test_an_image_is_pulled_through_skopeo():
    needed()
    if not shutil.which("skopeo"):
        raise Skip("skopeo is not installed: muster image pull not tried")
    with Muster(flags=FLAGS) as m:
        folder = oci_layout(os.path.join(m.folder, "layout"), "1", [layer(host_files(), {"etc/x": "pulled\n"})],
                            Cmd=["/bin/cat", "/etc/x"])
        with registry(folder) as address:
            # The registry speaks plain HTTP, which skopeo has to be told.
            os.makedirs(os.path.join(m.env["HOME"], ".config/containers"))
            with open(os.path.join(m.env["HOME"], ".config/containers/registries.conf"), "w") as f:
                f.write(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
            apply(m, pod("waits", container(f"{address}/team/small:1")))
            wait_for(lambda: status(m, "waits") and "waiting" in status(m, "waits")["state"] and
                     "muster image pull" in status(m, "waits")["state"]["waiting"].get("message", ""),
                     "the pod to say what it waits for")
            image(m, "pull", f"{address}/team/small:1")
        check(f"{address}/team/small:1" in image(m, "list").stdout, image(m, "list").stdout)
        wait_phase(m, "waits", "Succeeded")
        check(logs(m, "waits") == "pulled\n", logs(m, "waits"))
        # Whatever else skopeo reads from, under a name of its own.
        image(m, "pull", f"oci:{folder}:1", "--name", "mine:2")
        apply(m, pod("mine", container("mine:2")))
        wait_phase(m, "mine", "Succeeded")
        check(logs(m, "mine") == "pulled\n", logs(m, "mine"))
        said = image(m, "pull", f"oci:{folder}:1", ok=False)
        check(said.returncode != 0 and "--name" in said.stderr, said.stderr)
        said = image(m, "pull", "127.0.0.1:1/none", ok=False)
        check(said.returncode != 0 and "skopeo could not fetch 127.0.0.1:1/none" in said.stderr, said.stderr)
