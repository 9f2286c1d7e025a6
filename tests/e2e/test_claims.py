"""Devices of drivers, claimed by pods (resource.k8s.io), on the embedded API server."""

from harness import Muster, check, needs, wait_for

DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]
  config: [{opaque: {driver: gpu.example.com, parameters: {mode: whole}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  nodeName: %(node)s
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices:
    - {name: gpu-0, attributes: {model: {string: small}}}
    - {name: gpu-1, attributes: {model: {string: large}}}
    - {name: gpu-2, attributes: {model: {string: large}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large}
spec:
  spec:
    devices:
      requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.example.com
            selectors: [{cel: {expression: "device.attributes['gpu.example.com'].model == 'large'"}}]
"""
GANG = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: default-queue}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, %(group)slabels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimTemplateName: large}]
  containers: [{name: main, image: any, command: [sleep, "600"], resources: {claims: [{name: gpu}]}}]
"""
SHARING = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: sharing, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: large}]
"""
GPU_POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: any, command: [sh, -c, "%(command)s"], resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def given(claim):
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [result["device"] for result in results]


def phases(m, *names):
    return [m.get("pod", name).get("status", {}).get("phase") for name in names]


@needs("devices that pods claim, given and taken back")
def test_a_gang_gets_the_devices_that_it_claims_and_gives_them_back():
    with Muster() as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        m.apply(DEVICES % {"node": node})
        m.apply(GANG + "".join(POD % {"name": f"p{i}", "group": "annotations: {pod-group-name: gang}, "} for i in range(2)))
        wait_for(lambda: phases(m, "p0", "p1") == ["Running", "Running"], "both pods to run")
        claims = m.get("resourceclaims")
        check(sorted(sum(map(given, claims), [])) == ["gpu-1", "gpu-2"], f"each has a large one: {claims}")
        for claim in claims:
            allocation = claim["status"]["allocation"]
            owner = claim["metadata"]["ownerReferences"][0]["name"]
            check([user["name"] for user in claim["status"]["reservedFor"]] == [owner], f"it is its pod's: {claim}")
            check(allocation["devices"]["config"][0]["source"] == "FromClass", f"what the class tells drivers: {claim}")
            fields = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"]
            check(fields[0]["values"] == [node], f"it is on its node: {claim}")
        check("allocated,reserved" in m.kubectl("get", "resourceclaims").stdout, "kubectl shows its state")

        m.apply(POD % {"name": "late", "group": ""})
        wait_for(lambda: "not able to serve its resource claim" in str(m.get("pod", "late").get("status", {}).get("conditions")),
                 "the third pod to say that no device is left")
        m.kubectl("delete", "pod", "p0", "--wait=false")
        wait_for(lambda: phases(m, "late") == ["Running"], "what a pod leaves behind to be given to the next")
        m.kubectl("delete", "pod", "p1", "late", "--wait=false")
        wait_for(lambda: not m.get("resourceclaims"), "claims to go with their pods")


@needs("devices that a group of pods shares")
def test_the_pods_of_a_group_share_its_claim_and_wait_for_one_that_does_not_exist():
    with Muster() as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        m.apply(DEVICES % {"node": node})
        pod = POD.replace("  restartPolicy:", "  schedulingGroup: {podGroupName: sharing}\n  restartPolicy:")
        m.apply(SHARING + "".join(pod % {"name": f"s{i}", "group": ""} for i in range(2)))
        wait_for(lambda: phases(m, "s0", "s1") == ["Running", "Running"], "both pods to run")
        claims = m.get("resourceclaims")
        check(len(claims) == 1 and len(given(claims[0])) == 1, f"one claim of one device: {claims}")
        check(sorted(user["name"] for user in claims[0]["status"]["reservedFor"]) == ["s0", "s1"], f"both have it: {claims}")
        group = m.get("podgroups.scheduling.k8s.io", "sharing")
        check([s["resourceClaimName"] for s in group["status"]["resourceClaimStatuses"]] == [claims[0]["metadata"]["name"]],
              f"the group names it: {group}")
        m.apply(POD.replace("resourceClaimTemplateName: large", "resourceClaimName: nowhere") % {"name": "lost", "group": ""})
        wait_for(lambda: "nowhere, which does not exist" in
                 str(m.get("pod", "lost").get("status", {}).get("conditions")), "the pod to name the claim that is missing")
        m.kubectl("delete", "pod", "s0", "s1", "--wait=false")
        wait_for(lambda: not given(m.get("resourceclaims")[0]), "the claim to give its device back")
        m.kubectl("delete", "podgroups.scheduling.k8s.io", "sharing", "--wait=false")
        wait_for(lambda: not m.get("resourceclaims"), "the claim to go with its group")


@needs("GPUs of drivers, asked for as nvidia.com/gpu")
def test_gpus_that_a_driver_publishes_are_had_by_their_old_name():
    with Muster() as m:
        node = m.get("nodes")[0]["metadata"]["name"]
        devices = DEVICES % {"node": node}
        m.apply(devices.replace("config:", "extendedResourceName: nvidia.com/gpu\n  config:"))
        m.apply(GPU_POD.replace("gpu: 1", "gpu: 2") % {"name": "plain", "command": "sleep 600"})
        wait_for(lambda: phases(m, "plain") == ["Running"], "the pod to run")
        claim = m.get("resourceclaims")[0]
        check(given(claim) == ["gpu-0", "gpu-1"], f"its devices: {claim}")
        told = m.get("pod", "plain")["status"]["extendedResourceClaimStatus"]
        check(told["resourceClaimName"] == claim["metadata"]["name"], f"the pod knows its claim: {told}")
        check(told["requestMappings"] == [{"containerName": "main", "resourceName": "nvidia.com/gpu",
                                           "requestName": "container-0-request-0"}], f"and which container has it: {told}")
        m.apply(GPU_POD % {"name": "brief", "command": "true"})
        wait_for(lambda: phases(m, "brief") == ["Succeeded"], "a pod with the last device to end")
        wait_for(lambda: sum(map(given, m.get("resourceclaims")), []) == ["gpu-0", "gpu-1"], "its device to be given back")
        m.kubectl("delete", "pod", "plain", "brief", "--wait=false")
        wait_for(lambda: not m.get("resourceclaims"), "the claim to go with its pod")
