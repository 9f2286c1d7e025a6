"""What a provisioner of folders of a node does: a claim that names its node gets a folder there, and a volume that is used from
that node alone. It looks every half second, and knows of no claim before a scheduler has chosen the node.
"""

import json
import os
import threading

PROVISIONER = "folders.example.com"
SELECTED = "volume.kubernetes.io/selected-node"
CLASS = f"""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: folders, annotations: {{storageclass.kubernetes.io/is-default-class: "true"}}}}
provisioner: {PROVISIONER}
volumeBindingMode: WaitForFirstConsumer
"""
PERIOD_S = 0.5


class Provisioner(threading.Thread):
    """made: {namespace/claim: node}"""

    def __init__(self, plane, folder, class_name="folders"):
        super().__init__(daemon=True)
        self.plane, self.folder, self.class_name = plane, folder, class_name
        self.made = {}
        self.ended = threading.Event()

    def make(self, claim):
        meta = claim["metadata"]
        path = os.path.join(self.folder, "folder-" + meta["uid"])
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
        here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [meta["annotations"][SELECTED]]}]
        self.plane.request("POST", "/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {
                "name": "folder-" + meta["uid"], "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
            "spec": {"capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
                     "storageClassName": self.class_name, "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": path},
                     "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"],
                                  "name": meta["name"], "uid": meta["uid"]},
                     "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}}}})
        self.made[f"{meta['namespace']}/{meta['name']}"] = meta["annotations"][SELECTED]

    def look(self):
        for claim in json.loads(self.plane.request("GET", "/api/v1/persistentvolumeclaims"))["items"]:
            meta = claim["metadata"]
            if (claim["spec"].get("storageClassName") == self.class_name and SELECTED in meta.get("annotations", {}) and
                    not claim["spec"].get("volumeName") and f"{meta['namespace']}/{meta['name']}" not in self.made):
                self.make(claim)

    def run(self):
        while not self.ended.wait(PERIOD_S):
            try:
                self.look()
            except OSError:
                pass  # the server is away, or somebody wrote the same volume: it is looked at again

    def stop(self):
        self.ended.set()
        self.join()
