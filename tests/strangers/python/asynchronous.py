"""kubernetes_asyncio: many requests at once, a watch, and a command in a pod."""

import asyncio

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.stream import WsApiClient

NS = "asynchronous"


async def run_pod(core):
    await core.create_namespaced_pod(NS, {"metadata": {"name": "p"}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "any", "command": ["sleep", "1000"]}]}})
    async with watch.Watch() as w:
        async for event in w.stream(core.list_namespaced_pod, NS, timeout_seconds=120):
            if event["object"].status.phase == "Running":
                return
    raise AssertionError("the pod does not run")


async def main():
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace({"metadata": {"name": NS}})
        await asyncio.gather(*(core.create_namespaced_config_map(NS, {"metadata": {"name": f"c{i}"}}) for i in range(20)))
        found = await core.list_namespaced_config_map(NS, field_selector="metadata.name!=kube-root-ca.crt")
        assert len(found.items) == 20, len(found.items)
        await run_pod(core)
        async with WsApiClient() as talking:
            said = await client.CoreV1Api(talking).connect_get_namespaced_pod_exec(
                "p", NS, command=["echo", "said"], stderr=True, stdin=False, stdout=True, tty=False)
        assert said == "said\n", repr(said)
        deployed = client.AppsV1Api(api)
        await deployed.create_namespaced_deployment(NS, {"metadata": {"name": "d"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "d"}}, "template": {"metadata": {"labels": {"a": "d"}}, "spec": {
                "containers": [{"name": "main", "image": "any", "command": ["sleep", "1000"]}]}}}})
        async with watch.Watch() as w:
            async for event in w.stream(deployed.list_namespaced_deployment, NS, timeout_seconds=120):
                if (event["object"].status.available_replicas or 0) == 1:
                    break
        await core.delete_namespace(NS)


asyncio.run(main())
