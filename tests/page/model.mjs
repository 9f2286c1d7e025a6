// model: what the views read from objects, without a browser: the states of GPUs, where nodes are, and that a change that is
// taken in by itself leads to what the same objects lead to at once. The folder of web/ is the argument.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "muster-model-")); // node takes .js for modules only where a package.json says so
cpSync(process.argv[2], folder, { recursive: true });
writeFileSync(join(folder, "package.json"), '{"type": "module"}');
const { accountSums, JOB_KINDS, lastAccount, Model, WATCHES, observed, ranFor, runsOf, waitedFor } = await import(join(folder, "model.js"));
rmSync(folder, { recursive: true });

const GPU = "nvidia.com/gpu";
const [NODES, QUEUES, GROUPS, PODS] = [0, 1, 2, 3], JOBS = 4 + JOB_KINDS.findIndex(k => k.kind === "PyTorchJob"), TOPOLOGIES = WATCHES.length - 1;
const node = (name, gpus, more = {}) => ({
    metadata: { uid: `node ${name}`, name, labels: more.labels, annotations: more.annotations },
    status: { capacity: { [GPU]: String(gpus) }, allocatable: { [GPU]: String(more.healthy ?? gpus) }, conditions: [{ type: "Ready", status: "True" }] },
});
const pod = (name, on, more = {}) => ({
    metadata: { uid: more.uid ?? `pod ${name}`, name, namespace: "team", annotations: more.annotations ?? {}, ownerReferences: more.owner ? [{ uid: more.owner, controller: true }] : [] },
    spec: { nodeName: on, containers: [{ name: "c", resources: { limits: { [GPU]: String(more.gpus ?? 1) } } }] },
    status: { phase: more.phase ?? "Running", nominatedNodeName: more.nominated, conditions: more.conditions, startTime: "2026-01-01T00:00:00Z" },
});
const job = (name, more = {}) => ({ metadata: { uid: `job ${name}`, name, namespace: "team", creationTimestamp: "2026-01-01T00:00:00Z", labels: more.labels }, spec: {}, status: {} });
const group = (name, owner, more = {}) => ({ metadata: { uid: `group ${name}`, name, namespace: "team", ownerReferences: owner ? [{ uid: owner, controller: true }] : [] }, spec: { queue: "q" }, status: more });

/** @param {[number, any][]} objects */
function modelOf(objects) {
    const model = new Model();
    model.begin();
    for (const [number, object] of objects)
        model.change(number, "ADDED", object, "");
    WATCHES.forEach((_, i) => model.change(i, "SYNCED", null, ""));
    assert(model.ready);
    return model;
}

function gpusHaveTheirStates() {
    const on = { "torchrun.ai/gpu-devices": "0" };
    const model = modelOf([
        [NODES, node("n", 6, { healthy: 5, annotations: { "muster.dev/gpu-use": "85/40960,0/0" } })],
        [JOBS, job("train")], [GROUPS, group("pg", "job train")],
        [PODS, pod("train-0", "n", { owner: "job train", annotations: { ...on, "pod-group-name": "pg" } })],
        [PODS, pod("half-a", "n", { annotations: { "torchrun.ai/gpu-devices": "1", "gpu-fraction": "0.5" } })],
        [PODS, pod("half-b", "n", { annotations: { "torchrun.ai/gpu-devices": "1", "gpu-fraction": "0.25" } })],
        [PODS, pod("paused", "n", { annotations: { "torchrun.ai/gpu-devices": "2" }, conditions: [{ type: "Suspended", status: "True" }] })],
        [PODS, pod("ended", "n", { annotations: { "torchrun.ai/gpu-devices": "3" }, phase: "Succeeded" })],
        [PODS, pod("next", undefined, { nominated: "n", phase: "Pending" })],
    ]);
    const cards = model.cards(model.nodes[0], model.jobOfPod());
    assert.deepEqual(cards.map(c => c.users.map(u => u.pod.metadata.name)), [["train-0"], ["half-a", "half-b"], [], [], [], []]);
    assert.equal(cards[0].users[0].job.name, "train");
    assert.deepEqual([cards[0].use, cards[0].mib, cards[1].use, cards[2].use], [85, 40960, 0, -1]);
    assert.deepEqual(cards.map(c => c.suspended), [[], [], ["paused"], [], [], []]);
    assert.deepEqual(cards.map(c => c.reserved), ["", "", "next", "", "", ""]);
    assert.deepEqual(cards.map(c => c.unhealthy), [false, false, false, false, false, true]);
}

function aJobSaysWhetherItIsObserved() {
    const told = JSON.stringify([{ rank: 0, act: "stepping" }, { rank: 1, act: "stepping" }]), why = JSON.stringify([{ unwatched: "it is so; do that" }]);
    const by = (pods, more = {}) => observed({ state: "running", started: 1000, pods, ...more }, more.now ?? 2000);
    const trained = annotations => ({ ...pod("p", "n", { annotations }), metadata: { annotations, labels: { "torchrun.ai/role": "worker" } } });
    const rows = [[[""], "not yet"], [[told, told], "yes, 4 ranks"], [[why, why], "no: it is so; do that"], [[told, why], "in part: it is so; do that"],
        [["no json"], "not yet"], [["{}"], "not yet"]];
    for (const [pods, words] of rows)
        assert.equal(by(pods.map(ranks => trained({ "muster.dev/ranks": ranks }))), words);
    assert.match(by([trained({ "muster.dev/observe": "off" })]), /^no: the annotation/);
    assert.match(by([trained({})], { now: 200e3 }), /^no: nobody tells/);
    assert.equal(by([trained({})], { state: "done" }), "");
    assert.equal(by([pod("p", "n")]), "", "no training");
}

function nodesArePlacedByTopologyOrAGuess() {
    const labels = { "topology.kubernetes.io/zone": "z", "example.org/block": "b", "example.org/rack": "r" };
    const levels = ["example.org/block", "example.org/rack", "kubernetes.io/hostname"].map(nodeLabel => ({ nodeLabel }));
    const topology = { metadata: { uid: "t", name: "t" }, spec: { levels } };
    assert(modelOf([[NODES, node("n", 1, { labels })]]).places.includes("topology.kubernetes.io/zone"));
    assert.deepEqual(modelOf([[NODES, node("n", 1, { labels })], [TOPOLOGIES, topology]]).places, ["example.org/block", "example.org/rack"]);
    assert(modelOf([[NODES, node("n", 1)], [TOPOLOGIES, topology]]).places.includes("topology.kubernetes.io/zone"), "no node has the labels of this one");
    const model = modelOf([]);
    model.change(TOPOLOGIES, "FORBIDDEN", null, "you may not");
    assert.deepEqual(model.refused, [], "the page can do without");
}

/** A few random changes: what was kept of before must not show. */
function changesLeadToTheSameAsTheState() {
    let seed = 7;
    const random = n => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const live = modelOf([]);
    /** @type {Map<string, [number, any]>} */
    const all = new Map();
    for (let step = 0; step < 3000; step++) {
        const j = random(6);
        const [number, object] = [
            () => [JOBS, job(`j${j}`, { labels: { user: `u${random(3)}` } })],
            () => [GROUPS, group(`g${j}`, random(4) ? `job j${j}` : undefined, { running: random(2), succeeded: random(2) })],
            () => [PODS, pod(`p${j}-${random(4)}`, random(3) ? `n${random(3)}` : undefined, {
                owner: random(2) ? `job j${j}` : undefined, gpus: random(3), phase: ["Running", "Pending", "Succeeded"][random(3)], nominated: `n${random(3)}`,
                annotations: random(2) ? { "pod-group-name": `g${random(6)}` } : {},
            })],
            () => [NODES, node(`n${random(3)}`, random(5))],
        ][random(4)]();
        const gone = random(5) === 0;
        live.change(number, gone ? "DELETED" : "MODIFIED", object, "");
        gone ? all.delete(object.metadata.uid) : all.set(object.metadata.uid, [number, object]);
        if (step % 10)
            continue;
        const fresh = modelOf([...all.values()]);
        const told = model => [model.nodes.map(n => [n.metadata.name, model.podsOn(n.metadata.name).map(p => p.metadata.name).sort(), model.podsFor(n.metadata.name).map(p => p.metadata.name).sort()]),
            model.jobs.map(x => [x.uid, x.kindName, x.state, x.user, x.gpus, x.held, x.group?.metadata.uid ?? "", x.pods.map(p => p.metadata.uid).sort()]).sort()];
        assert.deepEqual(told(live), told(fresh), `after ${step} changes`);
        assert.deepEqual([...live.jobOfPod()].map(([uid, x]) => [uid, x.uid]).sort(), [...fresh.jobOfPod()].map(([uid, x]) => [uid, x.uid]).sort());
    }
}

/** Somebody who sees one namespace is not told that what others hold is free. */
function whatOthersHoldIsCounted() {
    const charged = (name, parentQueue, gpus) => ({ metadata: { uid: `queue ${name}`, name }, spec: { parentQueue }, status: { allocated: { [GPU]: String(gpus) } } });
    const model = modelOf([[NODES, node("n", 4)], [QUEUES, charged("lab", undefined, 3)], [QUEUES, charged("hers", "lab", 1)],
        [JOBS, job("train")], [GROUPS, group("pg", "job train", { running: 1 })], [PODS, pod("train-0", "n", { owner: "job train" })]]);
    assert.deepEqual([model.partial, model.held], [false, 1], "all pods are seen");
    model.change(PODS, "FORBIDDEN", null, "you may not");
    assert.deepEqual([model.partial, model.held], [true, 3], "hers, and two of others");
    model.begin(true);
    assert.equal(model.partial, true, "one namespace is chosen");
    model.begin();
    assert.equal(model.partial, false);
}

// The rows of src/api/account_test.c: seconds of the minute, created at 1, now at 100.
function timesAddUp() {
    const stamp = s => s ? new Date(s * 1000).toISOString() : undefined;
    for (const [why, { start, run, runStart, end = 0 }, waited, ran] of [
        ["it waits", { run: 0 }, 99, 0],
        ["it runs", { start: 41, run: 0, runStart: 41 }, 40, 59],
        ["it was evicted, and waits again", { start: 11, run: 20 }, 79, 20],
        ["it was evicted, waited, and runs again", { start: 11, run: 20, runStart: 91 }, 70, 29],
        ["it was evicted, waited, ran again and has ended", { start: 11, run: 30, end: 95 }, 64, 30],
        ["it was deleted while it ran", { start: 11, run: 20, runStart: 51, end: 61 }, 30, 30],
        ["a kind that tells no runs", { start: 11, end: 31 }, 10, 20],
        ["whole seconds of a run that is never cut short", { start: 11, run: 19, end: 31 }, 10, 20],
    ]) {
        const found = { created: 1000, ended: end * 1000, runs: runsOf({ startTime: stamp(start), runSeconds: run, runStartTime: stamp(runStart) }, end * 1000, 0) };
        assert.deepEqual([waitedFor(found, 100e3), ranFor(found, 100e3)], [waited * 1000, ran * 1000], why);
    }
}

// As account_add() has it: idle is no time of its ranks, and spare GPUs are held all the same.
function accountsAddUp() {
    const events = [[1000, "queued", 2], [4000, "starting", 2], [5000, "training", 2, 100, 1], [9000, "queued", 2], [11000, "training", 2], [12000, "idle", 2]];
    assert.deepEqual(accountSums({ events }, 14000), { waited: 7000, ran: 6000, gpu: 16000 });
    assert.deepEqual(accountSums({ events, end: 11500 }, 99000), { waited: 5000, ran: 5500, gpu: 15000 });
    assert.equal(accountSums(lastAccount(""), 99000), null);
    assert.equal(lastAccount("<!doctype html>\n</html>\n"), null); // of a portal on a cluster
    assert.deepEqual(lastAccount(`{"uid":"u","account":{"events":[]}}\n{"uid":"u","account":{"events":[],"end":3}}\n`), { events: [], end: 3 });
}

gpusHaveTheirStates();
accountsAddUp();
aJobSaysWhetherItIsObserved();
timesAddUp();
whatOthersHoldIsCounted();
nodesArePlacedByTopologyOrAGuess();
changesLeadToTheSameAsTheState();
