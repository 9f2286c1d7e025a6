"""Environment and volumes: what a pod is given."""

import base64
import os
import time

from harness import Muster, check, wait_for
from pods import apply, container, events, logs, phase, pod, run_pod, status, wait_phase

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
          "data": {"COLOUR": "green", "file.txt": "hello\n"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
          "data": {"PASSWORD": base64.b64encode(b"hunter2").decode()}}


def test_the_environment_is_put_together_as_kubernetes_does():
    with Muster() as m:
        apply(m, CONFIG, SECRET)
        env = [{"name": "PLAIN", "value": "x"},
               {"name": "BOTH", "value": "$(PLAIN)-$(COLOUR)-$$(PLAIN)-$(NOPE)"},
               {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "COLOUR"}}},
               {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "PASSWORD"}}},
               {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
               {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
               {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
               {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
               {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}]
        apply(m, pod("a", container("echo $PLAIN $BOTH $KEY $PASS $NODE $LABEL $CPU $MEM $COLOUR $1; echo $IP",
                                    env=env, envFrom=[{"configMapRef": {"name": "c"}}],
                                    args=["zero", "$(PLAIN)!"],
                                    resources={"limits": {"cpu": "1500m", "memory": "64Mi"}}),
                     labels={"app": "web"}))
        wait_phase(m, "a", "Succeeded")
        words = logs(m, "a").splitlines()
        check(words[0] == "x x-green-$(PLAIN)-$(NOPE) green hunter2 node-0 web 1500 67108864 green x!", words[0])
        check(words[1] == m.get("pod", "a")["status"]["podIP"], words[1])


def test_a_pod_waits_for_what_it_refers_to():
    with Muster() as m:
        apply(m, pod("a", container("echo $V", env=[
            {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "COLOUR"}}}])))
        wait_for(lambda: "CreateContainerConfigError" in str(status(m, "a")), "the pod to say what is missing")
        check(phase(m, "a") == "Pending", phase(m, "a"))
        apply(m, CONFIG)
        wait_phase(m, "a", "Succeeded")
        check(logs(m, "a") == "green\n", logs(m, "a"))


def test_a_path_of_a_variable_is_waited_for_until_it_is_right():
    with Muster() as m:
        apply(m, pod("a", container("ls /all", env=[{"name": "SUB", "valueFrom": {"fieldRef": {
                  "fieldPath": "metadata.annotations['sub']"}}}],
                                    volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "$(SUB)/x"},
                                                  {"name": "v", "mountPath": "/all"}]),
                     volumes=[{"name": "v", "emptyDir": {}}]))
        reason = wait_for(lambda: status(m, "a").get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError"
                          and m.get("pod", "a")["status"], "the pod to wait")
        check(reason["phase"] == "Pending" and "must be relative" in
              reason["containerStatuses"][0]["state"]["waiting"]["message"], f"{reason}")
        m.kubectl("annotate", "pod", "a", "sub=there")
        wait_phase(m, "a", "Succeeded")
        check(logs(m, "a") == "there\n", logs(m, "a"))


def test_volumes_of_every_kind():
    with Muster() as m:
        host = os.path.join(m.folder, "host")
        os.mkdir(host)
        os.chmod(host, 0o777)
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
                 "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        apply(m, CONFIG, SECRET, claim)
        volumes = [{"name": "disk", "emptyDir": {}},
                   {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                   {"name": "host", "hostPath": {"path": host}},
                   {"name": "conf", "configMap": {"name": "c", "defaultMode": 0o400}},
                   {"name": "sec", "secret": {"secretName": "s", "items": [{"key": "PASSWORD", "path": "a/b"}]}},
                   {"name": "down", "downwardAPI": {"items": [
                       {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                   {"name": "proj", "projected": {"sources": [{"configMap": {"name": "c"}},
                                                              {"secret": {"name": "s"}}]}},
                   {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}]
        command = "; ".join(["echo d > /disk/x && cat /disk/x", "cat /conf/file.txt /sec/a/b /down/labels",
                             "echo; stat -c %a /conf/file.txt", "ls /proj | tr '\\n' ' '", "echo h > /host/x",
                             "echo c > /claim/x", "touch /conf/new 2>&1 | grep -o 'Read-only'",
                             "dd if=/dev/zero of=/mem/x bs=1M count=3 2>&1 | grep -o 'No space'",
                             "touch /ro/x 2>&1 | grep -o 'Read-only'", "true"])
        mounts = [{"name": v["name"], "mountPath": "/" + v["name"]} for v in volumes]
        mounts.append({"name": "disk", "mountPath": "/ro", "readOnly": True})
        out = run_pod(m, "a", command, volumes=volumes, labels={"app": "web"}, container={"volumeMounts": mounts})
        check(out.split() == ["d", "hello", 'hunter2app="web"', "400", "COLOUR", "PASSWORD", "file.txt",
                              "Read-only", "No", "space", "Read-only"], out)
        check(open(os.path.join(host, "x")).read() == "h\n", "hostPath reaches the host")
        check(run_pod(m, "b", "cat /claim/x", volumes=volumes[-1:], container={"volumeMounts": [
            {"name": "claim", "mountPath": "/claim"}]}) == "c\n", "a claim outlives the pod")


def test_memory_volumes_are_shared_by_the_containers_of_a_pod():
    with Muster() as m:
        mounts = [{"name": "mem", "mountPath": "/mem"}]
        apply(m, pod("a", container("until test -e /mem/x; do sleep 0.1; done; cat /mem/x", volumeMounts=mounts),
                     container("echo shared > /mem/y; mv /mem/y /mem/x", name="other", volumeMounts=mounts),
                     volumes=[{"name": "mem", "emptyDir": {"medium": "Memory"}}]))
        wait_phase(m, "a", "Succeeded")
        check(logs(m, "a", "-c", "main") == "shared\n", logs(m, "a", "-c", "main"))


def test_a_claim_that_does_not_exist_is_named():
    with Muster() as m:
        apply(m, pod("a", container("true"), volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}]))
        wait_for(lambda: any("nope" in text for _, text in events(m, "a")), "an event that names the claim")


def test_files_follow_their_objects_while_the_pod_runs():
    with Muster() as m:
        apply(m, CONFIG, SECRET)
        volumes = [{"name": "c", "configMap": {"name": "c"}},
                   {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}},
                   {"name": "o", "configMap": {"name": "later", "optional": True}},
                   {"name": "d", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]
        apply(m, pod("a", container("sleep 1000", volumeMounts=[{"name": n, "mountPath": "/" + n} for n in "cpod"]),
                     volumes=volumes, terminationGracePeriodSeconds=0))
        wait_phase(m, "a", "Running")
        m.kubectl("patch", "configmap", "c", "--type=merge", "-p",
                  '{"data": {"COLOUR": "blue", "file.txt": null, "new": "n"}}')
        m.kubectl("patch", "secret", "s", "--type=merge", "-p", '{"stringData": {"PASSWORD": "changed"}}')

        def seen():
            return m.kubectl("exec", "a", "--", "sh", "-c", "cat /c/COLOUR; echo; ls /c; cat /p/PASSWORD").stdout.split()
        wait_for(lambda: seen() == ["blue", "COLOUR", "new", "changed"], "the files to follow")
        m.kubectl("label", "pod", "a", "shape=round")
        wait_for(lambda: 'shape="round"' in m.kubectl("exec", "a", "--", "cat", "/d/l").stdout, "the pod's own labels")
        optional = lambda: m.kubectl("exec", "a", "--", "ls", "/o").stdout.split()
        check(optional() == [], "a volume of nothing")
        m.kubectl("create", "configmap", "later", "--from-literal=x=y")
        wait_for(lambda: optional() == ["x"], "the file of what came later")
        m.kubectl("delete", "configmap", "later")
        wait_for(lambda: optional() == [], "the file to go with it")


def test_a_claims_folder_is_kept_or_removed_by_its_reclaim_policy():
    with Muster() as m:
        classes = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": policy.lower()},
                    "provisioner": "muster.local/folder", "reclaimPolicy": policy} for policy in ("Retain", "Delete")]
        apply(m, *classes)
        for name in ("retain", "delete"):
            apply(m, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                      "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": name,
                               "resources": {"requests": {"storage": "1Gi"}}}})
            wait_for(lambda: m.get("pvc", name)["status"].get("phase") == "Bound", f"claim {name} to be bound")
            run_pod(m, name, "echo x > /v/x", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
                    container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})
            m.kubectl("delete", "pod", name, "--wait=true")
            m.kubectl("delete", "pvc", name, "--wait=true")

        def folders():
            return [f.split("_")[1] for f in os.listdir(os.path.join(m.data, "volumes"))]
        wait_for(lambda: folders() == ["retain"], "the folder of the other claim to go")


def test_muster_ends_at_once_while_a_large_claim_is_removed():
    with Muster() as m:
        apply(m, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "big"},
                  "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        run_pod(m, "a", "touch /d/x", container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
                volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "big"}}])
        m.kubectl("delete", "pod", "a")
        folder = os.path.join(m.data, "volumes")
        folder = os.path.join(folder, os.listdir(folder)[0])
        for i in range(40000):
            os.mknod(f"{folder}/{i}", 0o644)
        m.kubectl("delete", "pvc", "big")
        wait_for(lambda: not os.path.exists(folder), "the folder of the claim to be out of sight")
        begun = time.monotonic()
        m.process.terminate()
        m.process.wait(20)
        check(time.monotonic() - begun < 10, f"muster up took {time.monotonic() - begun:.1f} s to end")
        m.start()
        wait_for(lambda: not os.listdir(os.path.join(m.data, "trash")), "the rest to go after the restart", 60)


# What Kubernetes' own admission mounts, and manifests write out.
TOKEN_VOLUME = {"name": "t", "projected": {"sources": [
    {"serviceAccountToken": {"path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}


def test_the_usual_token_volume_has_its_three_files():
    with Muster() as m:
        out = run_pod(m, "a", "cat /t/ca.crt; test -s /t/token && echo; cat /t/namespace", volumes=[TOKEN_VOLUME],
                      container={"volumeMounts": [{"name": "t", "mountPath": "/t"}]})
        check("BEGIN CERTIFICATE" in out and out.endswith("\ndefault\n"), out)
        shown = m.kubectl("describe", "pod", "a").stdout
        check("TokenExpirationSeconds:  3600" in shown, shown)


MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_a_pod_shows_the_volume_of_its_token_unless_it_or_its_account_wants_none():
    with Muster() as m:
        wait_for(lambda: m.get("serviceaccount", "default"), "the default ServiceAccount")
        m.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: shy}\nautomountServiceAccountToken: false\n")
        look = f"ls {MOUNT} 2>/dev/null || true"
        rows = [("plain", {}, True), ("opted-out", {"automountServiceAccountToken": False}, False),
                ("shy", {"serviceAccountName": "shy"}, False),
                ("shy-asks", {"serviceAccountName": "shy", "automountServiceAccountToken": True}, True)]
        for name, more, wanted in rows:
            out = run_pod(m, name, look, **more)
            check(out == ("ca.crt\nnamespace\ntoken\n" if wanted else ""), f"{name}: {out}")
            spec = m.get("pod", name)["spec"]
            volumes = [v["name"] for v in spec.get("volumes", [])]
            mounts = [(x["name"], x["mountPath"], x["readOnly"]) for x in spec["containers"][0].get("volumeMounts", [])]
            check(bool(volumes) == wanted, f"{name}: {volumes}")
            check(mounts == [(volumes[0], MOUNT, True)] if wanted else mounts == [], f"{name}: {mounts}")
            check(all(v.startswith("kube-api-access-") for v in volumes), f"{volumes}")
        # Whoever mounts something else there keeps it.
        out = run_pod(m, "own", f"ls -A {MOUNT}; echo end", volumes=[{"name": "e", "emptyDir": {}}],
                      container={"volumeMounts": [{"name": "e", "mountPath": MOUNT}]})
        check(out == "end\n", out)
        check([v["name"] for v in m.get("pod", "own")["spec"]["volumes"]] == ["e"], "and no volume is added")


def test_a_pod_waits_for_its_service_account_and_says_so():
    with Muster() as m:
        apply(m, pod("early", container(f"test -s {MOUNT}/token && echo there"), serviceAccountName="late"))
        wait_for(lambda: any("serviceaccount \"late\" not found" in text for _, text in events(m, "early")),
                 "the reason why it waits")
        m.kubectl("create", "serviceaccount", "late")
        wait_phase(m, "early", "Succeeded")
        check(m.kubectl("logs", "early").stdout == "there\n", "its token")


def test_every_namespace_keeps_the_certificate_of_the_api_server():
    with Muster() as m:
        def data(ns):
            found = m.get("configmap", "kube-root-ca.crt", ns)
            return found and found["data"]
        wait_for(lambda: data("default"), "the ConfigMap of the namespace default")
        right = data("default")
        check(list(right) == ["ca.crt"] and "BEGIN CERTIFICATE" in right["ca.crt"], f"{right}")
        m.kubectl("create", "namespace", "x")
        wait_for(lambda: data("x") == right, "the ConfigMap of a new namespace")
        m.kubectl("patch", "cm", "kube-root-ca.crt", "-n", "x", "--type=merge", "-p", '{"data":{"ca.crt":"no","y":"z"}}')
        wait_for(lambda: data("x") == right, "an edit to be undone")
        m.kubectl("delete", "cm", "kube-root-ca.crt", "-n", "x")
        wait_for(lambda: data("x") == right, "it to come back")
        m.kubectl("delete", "namespace", "x", "--wait=false")
        wait_for(lambda: m.get("namespace", "x") is None, "the namespace to go with it")


SOURCES = {
    "emptyDir": {}, "hostPath": {"path": "/x"}, "configMap": {"name": "c"}, "secret": {"secretName": "s"},
    "persistentVolumeClaim": {"claimName": "c"}, "nfs": {"server": "s", "path": "/x"},
    "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}},
                              {"path": "b", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}]},
    "projected": {"sources": TOKEN_VOLUME["projected"]["sources"] + [{"secret": {"name": "s"}}]},
    "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
                                                   "resources": {"requests": {"storage": "1Gi"}}}}},
    "csi": {"driver": "d"}, "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.x", "lun": 0}, "fc": {"targetWWNs": ["x"]},
    "flexVolume": {"driver": "d"}, "glusterfs": {"endpoints": "e", "path": "p"},
    "rbd": {"monitors": ["m"], "image": "i"}, "cephfs": {"monitors": ["m"]}, "cinder": {"volumeID": "v"},
    "flocker": {"datasetName": "d"}, "gitRepo": {"repository": "r"}, "awsElasticBlockStore": {"volumeID": "v"},
    "gcePersistentDisk": {"pdName": "p"}, "azureDisk": {"diskName": "d", "diskURI": "u"},
    "azureFile": {"secretName": "s", "shareName": "n"}, "vsphereVolume": {"volumePath": "p"},
    "quobyte": {"registry": "r", "volume": "v"}, "portworxVolume": {"volumeID": "v"},
    "photonPersistentDisk": {"pdID": "p"}, "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}},
    "storageos": {"volumeName": "v"}, "image": {"reference": "r"},
}


def test_kubectl_describes_pods_with_every_source_of_files_and_values():
    """It follows pointers that Kubernetes fills in; a field that is not there is a panic."""
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
           {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
           {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
           {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    probes = {"livenessProbe": {"grpc": {"port": 1}}, "readinessProbe": {"httpGet": {"port": 1}},
              "startupProbe": {"tcpSocket": {"port": 1}},
              "lifecycle": {"preStop": {"httpGet": {"port": 1}}, "postStart": {"exec": {"command": ["x"]}}}}
    with Muster() as m:
        # Nobody runs it: no node has that label.
        apply(m, pod("a", container("true", env=env, envFrom=[{"configMapRef": {"name": "c"}}], ports=[
            {"containerPort": 1}], **probes), nodeSelector={"no": "such"},
            volumes=[{"name": name.lower(), name: source} for name, source in SOURCES.items()] + [{"name": "plain"}]))
        shown = m.kubectl("describe", "pod", "a").stdout
        for name in SOURCES:
            check(f"{name.lower()}:" in shown, f"{name}: {shown}")
        volumes = {v["name"]: v for v in m.get("pod", "a")["spec"]["volumes"]}
        check(volumes["hostpath"]["hostPath"] == {"path": "/x", "type": ""}, f"{volumes['hostpath']}")
        check(volumes["plain"]["emptyDir"] == {}, f"{volumes['plain']}")
        check("panic" not in shown, shown)

def claim(name, **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def volume(name, **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain", **spec}}


def waiting_class(name, provisioner):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"}


def mounts(at="/v"):
    return {"volumeMounts": [{"name": "v", "mountPath": at}]}


def of_claim(name, **more):
    return [{"name": "v", "persistentVolumeClaim": {"claimName": name, **more}}]


def test_a_volume_that_was_made_by_hand_is_the_path_that_it_names():
    with Muster() as m:
        data = os.path.join(m.folder, "dataset")
        os.mkdir(data)
        os.chmod(data, 0o777)
        with open(os.path.join(data, "x"), "w") as f:
            f.write("mine\n")
        apply(m, volume("dataset", storageClassName="", hostPath={"path": data}), claim("dataset", storageClassName=""),
              volume("gone", storageClassName="here", local={"path": data + "-gone"}), claim("gone", storageClassName="here"),
              volume("far", storageClassName="far", nfs={"server": "s", "path": "/x"}), claim("far", storageClassName="far"))
        check(run_pod(m, "a", "cat /v/x; echo y > /v/y", volumes=of_claim("dataset"), container=mounts()) == "mine\n",
              "the pod sees what is in the folder")
        check(open(os.path.join(data, "y")).read() == "y\n", "and writes into it")
        out = run_pod(m, "b", "touch /v/z 2>&1 | grep -o 'Read-only'; true", volumes=of_claim("dataset", readOnly=True),
                      container=mounts())
        check(out == "Read-only\n", f"a claim that is mounted to be read: {out}")
        for name, words in (("gone", "is not a directory"), ("far", "neither a hostPath nor a local path")):
            apply(m, pod(name, container("true", **mounts()), volumes=of_claim(name)))
            wait_for(lambda: any(words in text for _, text in events(m, name)), f"an event of {name} that says {words}")


SCHEDULED = {"node": None, "schedulerName": "kai-scheduler"}  # by our scheduler


def test_claims_that_wait_for_their_first_consumer_and_those_that_are_made_for_a_pod():
    with Muster() as m:
        disk = os.path.join(m.folder, "disk")
        os.mkdir(disk)
        os.chmod(disk, 0o777)
        here = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [
            m.get("node", "node-0")["metadata"]["labels"]["kubernetes.io/hostname"]]}]}]}
        apply(m, waiting_class("waits", "muster.local/folder"), waiting_class("disks", "kubernetes.io/no-provisioner"),
              claim("made", storageClassName="waits"), claim("given", storageClassName="disks"),
              volume("disk", storageClassName="disks", local={"path": disk}, nodeAffinity={"required": here}))
        for name in ("made", "given"):
            check(m.get("pvc", name)["status"]["phase"] == "Pending", f"{name} waits")
            out = run_pod(m, name, "echo x > /v/x; cat /v/x", volumes=of_claim(name), container=mounts(), **SCHEDULED)
            check(out == "x\n", f"{name}: {out}")
        check(m.get("pvc", "given")["spec"]["volumeName"] == "disk" and os.path.exists(disk + "/x"), "the disk is the claim's")

        own = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim("")["spec"]}}}
        out = run_pod(m, "own", "echo x > /v/x; cat /v/x", volumes=[own], container=mounts(), **SCHEDULED)
        check(out == "x\n", f"a volume of its own: {out}")
        made = m.get("pvc", "own-v")
        check(made["metadata"]["ownerReferences"][0]["uid"] == m.get("pod", "own")["metadata"]["uid"], f"{made}")
        m.kubectl("delete", "pod", "own")
        wait_for(lambda: m.get("pvc", "own-v") is None, "its claim to go with it")

        # A claim of that name which is not the pod's is not written into.
        apply(m, claim("other-v"))
        wait_for(lambda: m.get("pvc", "other-v")["status"]["phase"] == "Bound", "the claim to have its volume")
        apply(m, pod("other", container("true", **mounts()), volumes=[own], **SCHEDULED))
        wait_for(lambda: any("other-v, which was not made for it" in c.get("message", "")
                             for c in m.get("pod", "other")["status"].get("conditions", [])), "the pod to say so")

        # Nobody has a disk for this one, and the pod says which claim it is.
        apply(m, claim("more", storageClassName="disks"),
              pod("late", container("true", **mounts()), volumes=of_claim("more"), **SCHEDULED))
        wait_for(lambda: any("PersistentVolumeClaim more" in c.get("message", "")
                             for c in m.get("pod", "late")["status"].get("conditions", [])), "the pod to name its claim")
