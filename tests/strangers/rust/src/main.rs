//! kube: typed and dynamic objects, server-side apply, a watcher and a reflector's wait, a command in a pod, its log.
use std::error::Error;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, ApiResource, AttachParams, DeleteParams, DynamicObject, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{conditions::is_pod_running, wait::await_condition, watcher, WatchStreamExt};
use kube::Client;
use serde_json::{from_value, json};
use tokio::io::AsyncReadExt;

const NS: &str = "rust";
const LIMIT: Duration = Duration::from_secs(120);

type Done = Result<(), Box<dyn Error>>;

async fn applied(client: &Client) -> Done {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NS);
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": value}});
    let config = watcher::Config::default().fields("metadata.name=c");
    let mut seen = watcher(maps.clone(), config).default_backoff().applied_objects().boxed();
    maps.patch("c", &PatchParams::apply("one"), &Patch::Apply(map("1"))).await?;
    match maps.patch("c", &PatchParams::apply("two"), &Patch::Apply(map("2"))).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 409),
        other => panic!("two managers own one field: {other:?}"),
    }
    maps.patch("c", &PatchParams::apply("two").force(), &Patch::Apply(map("2"))).await?;
    while let Some(found) = tokio::time::timeout(LIMIT, seen.try_next()).await?? {
        if found.data.and_then(|data| data.get("a").cloned()).as_deref() == Some("2") {
            return Ok(());
        }
    }
    Err("the watcher ended".into())
}

async fn dynamic(client: &Client) -> Done {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("torchrun.ai", "v1alpha1", "TorchrunQueue"));
    let queues: Api<DynamicObject> = Api::namespaced_with(client.clone(), NS, &resource);
    let queue = |image: &str| from_value::<DynamicObject>(json!({"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue",
        "metadata": {"name": "q"}, "spec": {image: "any"}}));
    let strict = PostParams { dry_run: true, ..Default::default() };
    queues.create(&strict, &queue("image")?).await?;
    queues.create(&PostParams::default(), &queue("image")?).await?;
    assert_eq!(queues.list(&ListParams::default()).await?.items[0].data["spec"]["image"], "any");
    Ok(())
}

async fn in_pod(client: &Client) -> Done {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NS);
    pods.create(&PostParams::default(), &from_value(json!({"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", "echo begun; sleep 1000"]}]}}))?).await?;
    tokio::time::timeout(LIMIT, await_condition(pods.clone(), "p", is_pod_running())).await??;
    let mut process = pods.exec("p", ["sh", "-c", "echo grüße; exit 3"], &AttachParams::default().stderr(false)).await?;
    let status = process.take_status().ok_or("no status")?;
    let mut said = String::new();
    process.stdout().ok_or("no output")?.read_to_string(&mut said).await?;
    assert_eq!(said, "grüße\n");
    let causes = status.await.and_then(|s| s.details).and_then(|d| d.causes).ok_or("no exit status")?;
    assert_eq!(causes[0].message.as_deref(), Some("3"));
    assert_eq!(pods.logs("p", &LogParams::default()).await?, "begun\n");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let client = Client::try_default().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &from_value(json!({"metadata": {"name": NS}}))?).await?;
    applied(&client).await?;
    dynamic(&client).await?;
    in_pod(&client).await?;
    namespaces.delete(NS, &DeleteParams::foreground()).await?;
    Ok(())
}
