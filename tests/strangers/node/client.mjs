// @kubernetes/client-node: objects, an informer, a patch, a command in a pod, its log.
import { PassThrough, Writable } from "node:stream";
import assert from "node:assert/strict";
import * as k8s from "@kubernetes/client-node";

const NS = "node-client";
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);

async function until(condition, what) {
    const deadline = Date.now() + 120000;
    for (;;) {
        const found = await condition();
        if (found) return found;
        if (Date.now() > deadline) throw new Error("waited for " + what);
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}

function collector() {
    const chunks = [];
    const stream = new Writable({ write(chunk, _, done) { chunks.push(chunk); done(); } });
    return { stream, text: () => Buffer.concat(chunks).toString() };
}

async function informed() {
    const seen = [];
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${NS}/configmaps`,
        () => core.listNamespacedConfigMap({ namespace: NS }));
    for (const event of ["add", "update", "delete"])
        informer.on(event, (o) => { if (o.metadata.name === "c") seen.push(event); });
    informer.on("error", () => informer.start());
    await informer.start();
    await core.createNamespacedConfigMap({ namespace: NS, body: { metadata: { name: "c" }, data: { a: "1" } } });
    await until(() => seen.includes("add"), "the informer to see it");
    await core.patchNamespacedConfigMap({ namespace: NS, name: "c", body: [{ op: "replace", path: "/data/a", value: "2" }] },
        k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.JsonPatch));
    await until(() => seen.includes("update"), "the informer to see the change");
    await core.deleteNamespacedConfigMap({ namespace: NS, name: "c" });
    await until(() => seen.includes("delete"), "the informer to see the end");
    await informer.stop();
    assert.deepEqual(seen, ["add", "update", "delete"]);
}

async function inPod() {
    await core.createNamespacedPod({ namespace: NS, body: { metadata: { name: "p" }, spec: { terminationGracePeriodSeconds: 1,
        containers: [{ name: "main", image: "any", command: ["sh", "-c", "echo begun; sleep 1000"] }] } } });
    await until(async () => (await core.readNamespacedPod({ namespace: NS, name: "p" })).status?.phase === "Running", "the pod");
    const said = collector(), wrong = collector(), typed = new PassThrough();
    const status = await new Promise((resolve, reject) => {
        new k8s.Exec(config).exec(NS, "p", "main", ["sh"], said.stream, wrong.stream, typed, false, resolve).catch(reject);
        typed.write("echo grüße; exit 3\n");
    });
    assert.equal(said.text(), "grüße\n");
    assert.equal(status.details?.causes?.[0]?.message, "3");
    const log = collector();
    await new k8s.Log(config).log(NS, "p", "main", log.stream, { tailLines: 10 });
    await until(() => log.text() === "begun\n", "its log");
}

async function deployed() {
    const objects = k8s.KubernetesObjectApi.makeApiClient(config);
    await objects.create({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "d", namespace: NS }, spec: { replicas: 1,
        selector: { matchLabels: { a: "d" } }, template: { metadata: { labels: { a: "d" } }, spec: { terminationGracePeriodSeconds: 1,
            containers: [{ name: "main", image: "any", command: ["sleep", "1000"] }] } } } });
    await until(async () => (await apps.readNamespacedDeployment({ namespace: NS, name: "d" })).status?.availableReplicas === 1,
        "the deployment");
}

await core.createNamespace({ body: { metadata: { name: NS } } });
await informed();
await inPod();
await deployed();
await core.deleteNamespace({ name: NS });
process.exit(0);
