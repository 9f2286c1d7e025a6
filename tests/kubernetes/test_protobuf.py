"""Pods and nodes as protobuf and as JSON, from a real API server: the same objects once they are kept."""

import json
import os
import ssl
import urllib.request

from cluster import Cluster
from harness import binary, check, run, wait_for
from test_operator import QUEUE, job

PROTOBUF = "application/vnd.kubernetes.protobuf"
TIME = "2026-01-02T03:04:05Z"

# Every field that informers keep (api/kept.h), and some that they do not.
EVERYTHING = """
apiVersion: v1
kind: Pod
metadata:
  name: everything
  namespace: default
  labels: {app: x, empty: ""}
  annotations: {words: "a\\tb \\u2028 \\U0001F600 \\"quoted\\""}
  finalizers: [example.com/hold]
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: j, uid: 11111111-1111-1111-1111-111111111111, controller: true}
spec:
  schedulerName: nobody
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  activeDeadlineSeconds: 100
  hostname: h
  subdomain: s
  hostNetwork: true
  nodeSelector: {a: b, c: ""}
  schedulingGates: [{name: wait}]
  resourceClaims: [{name: c1, resourceClaimName: rc}, {name: c2, resourceClaimTemplateName: rct}]
  tolerations: [{operator: Exists}, {key: k, operator: Equal, value: v, effect: NoExecute, tolerationSeconds: 5}]
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: zone
    whenUnsatisfiable: DoNotSchedule
    minDomains: 2
    labelSelector: {matchLabels: {app: x}}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{key: zone, operator: In, values: [a, b]}, {key: x, operator: Exists}]
        - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 10, preference: {matchExpressions: [{key: q, operator: Gt, values: ["1"]}]}}
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        namespaceSelector: {}
        labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [other]}]}
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: zone, namespaces: [other], labelSelector: {}}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: i, image: busybox, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
  containers:
  - name: c
    image: registry.example.com/train:1
    command: [python, train.py]
    env: [{name: TOKEN, value: hunter2}]
    ports: [{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1, name: http, protocol: UDP}]
    resources: {limits: {cpu: "1", memory: 1Gi, nvidia.com/gpu: "1"}, requests: {cpu: 250m}, claims: [{name: c1}]}
    volumeMounts: [{name: v, mountPath: /v}]
  - {name: d, image: x}
"""
ENDED = {"exitCode": -1, "signal": 9, "reason": "OOMKilled", "message": "last words", "startedAt": TIME,
         "finishedAt": TIME, "containerID": "c://1"}
STATUS = {"phase": "Running", "message": "words", "reason": "Evicted", "podIP": "10.1.0.2", "hostIP": "10.0.0.1",
          "podIPs": [{"ip": "10.1.0.2"}], "startTime": TIME, "nominatedNodeName": "n1",
          "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME},
                         {"type": "DisruptionTarget", "status": "False", "reason": "R", "message": "m",
                          "lastProbeTime": TIME}],
          "resourceClaimStatuses": [{"name": "c1", "resourceClaimName": "rc-1"}, {"name": "c2"}],
          "initContainerStatuses": [{"name": "i", "ready": True, "restartCount": 2, "image": "b", "imageID": "x",
                                     "state": {"running": {"startedAt": TIME}},
                                     "lastState": {"terminated": {"exitCode": 0}}}],
          "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "x", "imageID": "",
                                 "state": {"terminated": ENDED}},
                                {"name": "d", "ready": False, "restartCount": 0, "image": "", "imageID": "",
                                 "state": {"waiting": {"reason": "ContainerCreating"}}}]}


def fetch(plane, resource, accept):
    tls = ssl.create_default_context(cafile=plane.certs.path("ca.crt"))
    tls.load_cert_chain(plane.certs.path("admin.crt"), plane.certs.path("admin.key"))
    request = urllib.request.Request(f"{plane.server}/api/v1/{resource}", headers={"Accept": accept})
    with urllib.request.urlopen(request, context=tls, timeout=20) as answer:
        return answer.read()


def kept(folder, resource, body):
    path = os.path.join(folder, "body")
    with open(path, "wb") as f:
        f.write(body)
    lines = run([binary("tests/kubernetes/kept"), resource, path]).stdout.strip().split("\n")
    return {o["metadata"]["name"]: o for o in map(json.loads, lines)}


def test_objects_are_the_same_from_protobuf_and_from_json():
    with Cluster(nodes=3, gpus_per_node=8) as m:
        m.apply(QUEUE)
        m.apply(job("one", 16))
        m.apply(EVERYTHING)
        m.kubectl("patch", "pod", "everything", "--subresource=status", "--type=merge", "-p",
                  json.dumps({"status": STATUS}))
        wait_for(lambda: m.phase("one") == "Running", "the job to run")

        def both(resource):
            """In both forms, of one moment: no object changed in between."""
            def try_once():
                a = kept(m.folder, resource, fetch(m.plane, resource, PROTOBUF))
                b = kept(m.folder, resource, fetch(m.plane, resource, "application/json"))
                versions = [{n: o["metadata"]["resourceVersion"] for n, o in x.items()} for x in (a, b)]
                return versions[0] == versions[1] and (a, b)
            return wait_for(try_once, f"{resource} to stand still")
        for resource, least in (("pods", 3), ("nodes", 3)):
            protobuf, plain = both(resource)
            check(len(protobuf) >= least, f"{resource}: {sorted(protobuf)}")
            for name in protobuf:
                check(protobuf[name] == plain[name], f"{name}:\n{protobuf[name]}\n{plain[name]}")
        pod = both("pods")[0]["everything"]
        text = json.dumps(pod)
        check(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "last words", text)
        check("hunter2" not in text and "train.py" not in text and "managedFields" not in text, text)
        small, large = (len(fetch(m.plane, "pods", a)) for a in (PROTOBUF, "application/json"))
        print(f"a list of {len(both('pods')[0])} pods: {small} bytes of protobuf, {large} of JSON")
