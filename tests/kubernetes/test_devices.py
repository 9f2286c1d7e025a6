"""Devices that pods claim (resource.k8s.io/v1), where Kubernetes' own controllers make the claims and take them back."""

from cluster import Cluster
from harness import Skip, check, wait_for
from test_claims import DEVICES, GANG, GPU_POD, POD, given, phases

KINDS = "deviceclasses,resourceslices,resourceclaimtemplates"


class Devices(Cluster):
    """A cluster whose node has three devices; skipped where the server has no such kinds."""

    def __enter__(self):
        if "resource.k8s.io/v1\n" not in self.plane.kubectl("api-versions").stdout:
            raise Skip("the server does not serve resource.k8s.io/v1, which Kubernetes has since 1.34; "
                       "MUSTER_KUBE_VERSION=v1.37.1 takes one that does")
        return super().__enter__()

    def stop(self):
        self.kubectl("delete", KINDS, "--all", ok=False)
        self._remove_all("resourceclaims")
        super().stop()


def test_a_gang_gets_devices_and_the_next_pod_what_it_leaves():
    with Devices() as m:
        m.apply(DEVICES % {"node": "hollow-0"})
        m.apply(GANG + "".join(POD % {"name": f"p{i}", "group": "annotations: {pod-group-name: gang}, "} for i in range(2)))
        wait_for(lambda: phases(m, "p0", "p1") == ["Running", "Running"], "both pods to run")
        claims = m.get("resourceclaims")
        check(sorted(sum(map(given, claims), [])) == ["gpu-1", "gpu-2"], f"each has a large one: {claims}")
        for claim in claims:
            owner = claim["metadata"]["ownerReferences"][0]["name"]
            check([user["name"] for user in claim["status"]["reservedFor"]] == [owner], f"it is its pod's: {claim}")
        m.apply(POD % {"name": "late", "group": ""})
        wait_for(lambda: "not able to serve its resource claim" in str(m.get("pod", "late").get("status", {}).get("conditions")),
                 "the third pod to say that no device is left")
        m.kubectl("delete", "pod", "p0", "--wait=false")
        wait_for(lambda: phases(m, "late") == ["Running"], "what a pod leaves behind to be given to the next", 60)


def test_gpus_of_a_driver_are_had_by_their_old_name():
    with Devices() as m:
        m.apply((DEVICES % {"node": "hollow-0"}).replace("config:", "extendedResourceName: nvidia.com/gpu\n  config:"))
        m.apply(GPU_POD.replace("gpu: 1", "gpu: 2") % {"name": "plain", "command": "sleep 600"})
        wait_for(lambda: phases(m, "plain") == ["Running"], "the pod to run")
        claim = m.get("resourceclaims")[0]
        check(len(given(claim)) == 2, f"its devices: {claim}")
        told = m.get("pod", "plain")["status"]["extendedResourceClaimStatus"]
        check(told["resourceClaimName"] == claim["metadata"]["name"], f"the pod knows its claim: {told}")
