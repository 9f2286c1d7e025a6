"""lightkube: typed objects, server-side apply, subresources, a generic resource, waiting."""

from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import CascadeType, PatchType

NS = "lightkube"


def main():
    client = Client(namespace=NS, field_manager="stranger")
    client.create(Namespace(metadata=ObjectMeta(name=NS)))
    client.apply(ConfigMap(metadata=ObjectMeta(name="c"), apiVersion="v1", kind="ConfigMap", data={"a": "1"}))
    other = ConfigMap(metadata=ObjectMeta(name="c"), apiVersion="v1", kind="ConfigMap", data={"a": "2"})
    try:
        client.apply(other, field_manager="other")
        raise AssertionError("two managers own one field")
    except ApiError as e:
        assert e.status.code == 409, e.status
    assert client.apply(other, field_manager="other", force=True).data == {"a": "2"}
    client.patch(ConfigMap, "c", [{"op": "add", "path": "/data/b", "value": "3"}], patch_type=PatchType.JSON)
    assert client.get(ConfigMap, "c").data == {"a": "2", "b": "3"}
    Job = create_namespaced_resource("torchrun.ai", "v1alpha1", "TorchrunJob", "torchrunjobs")
    assert list(client.list(Job)) == []
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(restartPolicy="Never", containers=[
        Container(name="main", image="any", command=["sh", "-c", "echo one; echo two"])]))
    client.create(pod)
    client.wait(Pod, "p", for_conditions=["PodReadyToStartContainers", "Initialized"])
    for event, seen in client.watch(Pod, fields={"metadata.name": "p"}):
        if seen.status and seen.status.phase == "Succeeded":
            break
    assert list(client.log("p")) == ["one\n", "two\n"], list(client.log("p"))
    client.delete(Namespace, NS, cascade=CascadeType.FOREGROUND)


main()
