// views: the overview, GPUs, and the pages of a queue, a node and a user.
import { h, keep, s } from "./dom.js";
import { amount, bytes, duration, plural, quantity, time } from "./format.js";
import { byText, nodeGpus, nodeTrouble, queueGpus, uidOf } from "./model.js";
import { card, empty, facts, jobTable, shareBar, table, tile } from "./parts.js";

/** @typedef {import("./model.js").Job} Job */
/** @typedef {import("./model.js").Obj} Obj */
/**
 * @typedef {object} Context
 * @property {import("./model.js").Model} model
 * @property {number} now
 * @property {string[]} params of the address
 * @property {string} filter
 * @property {any[]} events of the cluster, newest first; empty until asked for
 * @property {Record<string, any>} state of this view, kept while it is open
 * @property {() => void} redraw
 * @property {boolean} cluster whether the API server is another one than muster's own
 */
/** @typedef {(context: Context) => HTMLElement} View */

const FAILED_MS = 24 * 3600 * 1000; // how long a failure is an alarm
export const SHOWN_MAX = 200; // rows of a table; the filter finds the rest

/** @param {Context} context @param {Job[]} jobs */
export function chosen(context, jobs) {
    const word = context.filter.toLowerCase();
    return !word ? jobs : jobs.filter(j => [j.name, j.ns, j.queue, j.user, j.kindName, j.message].some(t => t.toLowerCase().includes(word)));
}

/** @param {Context} context @param {Job[]} jobs @param {string} caption @param {HTMLElement} nothing */
function listed(context, jobs, caption, nothing) {
    if (!jobs.length)
        return context.filter ? empty(`Nothing here matches "${context.filter}".`) : nothing;
    return [jobTable(jobs.slice(0, SHOWN_MAX), context.now, caption, context.state),
        jobs.length > SHOWN_MAX ? empty(`${SHOWN_MAX} of ${jobs.length} are shown; the filter finds the others.`) : null];
}

/** @param {Obj} queue @param {number} total GPUs of the cluster */
function shareOf(queue, total) {
    const gpu = queue.spec?.resources?.gpu ?? {};
    const fair = queueGpus(queue, "fairShare");
    return {
        held: queueGpus(queue, "allocated"), asked: queueGpus(queue, "requested"),
        fair: fair < 0 ? total : fair, quota: gpu.quota ?? 0, limit: gpu.limit ?? -1, most: gpu.limit > 0 ? gpu.limit : total,
        weight: gpu.overQuotaWeight ?? 1,
    };
}

/** Why a queue has the share it has, in sentences. @param {Obj} queue @param {Obj[]} queues @param {number} total */
function explainShare(queue, queues, total) {
    const q = shareOf(queue, total);
    const above = queue.spec?.parentQueue;
    const beside = queues.filter(o => o.spec?.parentQueue === above && o !== queue && queueGpus(o, "requested") > 0);
    const rest = q.fair - Math.max(0, Math.min(q.quota, q.asked));
    const words = [
        q.quota < 0 ? "It is guaranteed as much as it asks for." : `It is guaranteed ${plural(q.quota, "GPU")}${above ? ` of what ${above} has` : ""}, and asks for ${amount(q.asked)}.`,
    ];
    if (q.quota >= 0 && rest > 0)
        words.push(`Of what others leave, it gets ${amount(rest)} more by its weight of ${q.weight}.`);
    if (q.asked < q.quota)
        words.push(`The ${amount(q.quota - q.asked)} that it does not ask for go to others until it does.`);
    words.push(beside.length ? `It shares with ${beside.map(o => o.metadata.name).join(", ")}.` : "Nobody beside it asks for anything.");
    if (q.limit >= 0)
        words.push(`It never gets more than ${q.limit}.`);
    if (q.held > q.fair)
        words.push(`It holds ${amount(q.held - q.fair)} above its fair share, which others may reclaim.`);
    else if (q.asked > q.held)
        words.push(`It is owed ${amount(Math.max(0, Math.min(q.fair, q.asked) - q.held))} that it does not hold yet.`);
    return words.join(" ");
}

/** @param {Obj[]} queues the tree as rows: [queue, depth] @returns {[Obj, number][]} */
function queueTree(queues) {
    const names = new Set(queues.map(q => q.metadata.name));
    /** @type {[Obj, number][]} */
    const rows = [];
    /** @param {string | undefined} parent @param {number} depth */
    const below = (parent, depth) => {
        for (const queue of queues) {
            const above = names.has(queue.spec?.parentQueue) ? queue.spec.parentQueue : undefined;
            if (above === parent && depth < 16 && !rows.some(([q]) => q === queue)) {
                rows.push([queue, depth]);
                below(queue.metadata.name, depth + 1);
            }
        }
    };
    below(undefined, 0);
    return rows;
}

/** Those that every muster has stay out of sight until somebody uses them. @param {Obj} queue */
const isUsed = queue => !/^default(-parent)?-queue$/.test(queue.metadata.name) || queueGpus(queue, "allocated") > 0 || queueGpus(queue, "requested") > 0 || queue.status?.pendingGroups > 0;

/** @param {Context} context @param {[Obj, number][]} rows */
function queueRows(context, rows) {
    const total = context.model.nodes.reduce((sum, n) => sum + nodeGpus(n), 0);
    const queues = context.model.queues;
    return h("div", { class: "queues" }, rows.map(([queue, depth]) => {
        const q = shareOf(queue, total);
        const name = queue.metadata.name;
        const waits = queue.status?.pendingGroups ?? 0;
        return h("details", { key: uidOf(queue), class: `queue depth${Math.min(depth, 4)}` },
            h("summary", null,
                h("span", { class: "name" }, name),
                h("span", { class: "numbers" }, h("b", null, amount(q.held)), ` of ${amount(q.fair)}`,
                    waits ? h("span", { class: "waits" }, `${waits} waiting`) : null),
                shareBar(q)),
            h("div", { class: "why" }, h("p", null, explainShare(queue, queues, total)),
                facts([["Quota", amount(q.quota)], ["Fair share", amount(q.fair)], ["In use", amount(q.held)], ["Asked for", amount(q.asked)], ["Limit", amount(q.limit)]]),
                h("a", { href: `/ui/queue/${encodeURIComponent(name)}` }, `All of ${name}`)));
    }));
}

const shareLegend = () => h("p", { class: "legend" }, h("span", { class: "key held" }, "in use"), h("span", { class: "key over" }, "above its share"),
    h("span", { class: "key asked" }, "asked for"), h("span", { class: "key fair" }, "fair share"), h("span", { class: "key quota" }, "quota"));

/** @param {Context} context */
function alarms(context) {
    const { model, now } = context;
    /** @type {HTMLElement[]} */
    const list = [];
    for (const node of model.nodes) {
        const trouble = nodeTrouble(node);
        if (trouble)
            list.push(h("li", { class: "bad", key: uidOf(node) }, h("a", { href: `/ui/node/${encodeURIComponent(node.metadata.name)}` }, node.metadata.name), ` ${trouble}`));
    }
    for (const job of model.jobs) {
        const link = h("a", { href: job.href }, `${job.ns}/${job.name}`);
        if (job.state === "failed" && now - (job.ended || job.created) < FAILED_MS)
            list.push(h("li", { class: "bad", key: job.uid }, link, ` failed ${duration(now - (job.ended || job.created))} ago: ${job.message || job.phase}`));
        else if (job.state === "running" && job.restarts >= 3)
            list.push(h("li", { class: "warn", key: job.uid }, link, ` has started again ${job.restarts} times; its log says why`));
    }
    return list.slice(0, 20);
}

/** @type {View} */
export function overview(context) {
    const { model } = context;
    const jobs = chosen(context, model.jobs);
    const running = jobs.filter(j => j.state === "running" || j.state === "ending");
    const waiting = jobs.filter(j => j.state === "waiting" || j.state === "suspended")
        .sort((a, b) => (a.group?.status?.explanation?.place ?? 1e9) - (b.group?.status?.explanation?.place ?? 1e9) || a.created - b.created);
    const over = jobs.filter(j => j.state === "done" || j.state === "failed").sort((a, b) => b.ended - a.ended);
    const total = model.nodes.reduce((sum, n) => sum + nodeGpus(n), 0);
    const { held } = model;
    const ready = model.nodes.filter(n => !nodeTrouble(n)).length;
    const asked = waiting.filter(j => j.state === "waiting").reduce((sum, j) => sum + j.gpus, 0);
    const list = alarms(context);
    const tree = queueTree(model.queues.filter(q => isUsed(q) || model.queues.some(below => below.spec?.parentQueue === q.metadata.name && isUsed(below))));
    return h("div", { class: "grid" },
        h("h1", { class: "aside" }, "Overview"),
        h("div", { class: "tiles", key: "tiles" },
            tile("GPUs in use", [amount(held), h("small", null, ` of ${amount(total)}`)], total ? `${Math.round(held / total * 100)} %` : "no GPUs here"),
            tile("Running", String(running.length), plural(running.reduce((n, j) => n + j.pods.length, 0), "pod")),
            tile("Queued", String(waiting.length), asked ? `for ${plural(asked, "GPU")}` : waiting.length ? "for no GPUs" : "nobody waits"),
            tile("Nodes", [String(ready), h("small", null, ` of ${model.nodes.length}`)], ready === model.nodes.length ? "all ready" : "see below")),
        list.length ? h("section", { class: "card alarms", key: "alarms" }, h("h2", null, "Needs attention"), h("ul", null, list)) : null,
        h("section", { class: "card", key: "running" }, h("h2", null, "Running ", h("span", { class: "count" }, running.length)),
            listed(context, running, "Jobs that run", empty("Nothing runs. Submit a job:", h("code", null, "muster run --gpus 2 train.py")))),
        h("section", { class: "card", key: "waiting" }, h("h2", null, "Queued ", h("span", { class: "count" }, waiting.length)),
            listed(context, waiting, "Jobs that wait", empty("Nobody waits."))),
        over.length ? h("section", { class: "card", key: "over" }, h("h2", null, "Ended ", h("span", { class: "count" }, over.length)),
            listed(context, over, "Jobs that ended", empty("None yet."))) : null,
        h("section", { class: "card wide", key: "queues" }, h("h2", null, "Queues"), tree.length
            ? [queueRows(context, tree), shareLegend()]
            : empty("There are no queues that you may see. A queue is made by", h("code", null, "kubectl apply -f queue.yaml"), ".")));
}

/** @param {Context} context @param {Obj} node @param {Map<string, Job>} owners */
export function gpuSquares(context, node, owners) {
    const trouble = nodeTrouble(node);
    return h("div", { class: "cards" }, context.model.cards(node, owners).map(card => {
        const bad = card.unhealthy || /not ready/.test(trouble);
        const [first] = card.users;
        const busy = card.use >= 0 ? `, busy ${card.use} % of the time, ${bytes(card.mib * 1024 ** 2)} in use` : "";
        const words = `GPU ${card.index}: ` + (bad ? "cannot be used" : first ? card.users.map(u => u.job ? `${u.job.ns}/${u.job.name}` : u.pod.metadata.name).join(" and ")
            : card.reserved ? `kept for ${card.reserved}` : context.model.partial ? "free, or somebody else's" : "free") + (card.suspended.length ? `; ${card.suspended.join(", ")} had it and is suspended` : "") + busy;
        if (!first || bad)
            return h("span", { class: `gpu ${bad ? "bad" : trouble ? "held" : card.reserved ? "kept" : context.model.partial ? "unseen" : "free"}${card.suspended.length ? " paused" : ""}`, title: words, role: "img", "aria-label": words });
        const shared = card.users.length > 1 || first.share < 1;
        const inside = shared ? shares(card.users) : card.use >= 0
            ? s("rect", { class: `f${first.job?.colour ?? 0}`, x: 0, y: 10 - card.use / 10, width: 10, height: card.use / 10 }) : null;
        return h("a", { class: `gpu ${shared ? "shared" : inside ? `measured o${first.job?.colour ?? 0}` : `c${first.job?.colour ?? 0}`}${card.suspended.length ? " paused" : ""}`,
            href: first.job?.href ?? `/ui/node/${encodeURIComponent(node.metadata.name)}`, title: words, "aria-label": words },
        inside ? s("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, inside) : null);
    }));
}

/** @param {{job: Job | undefined, share: number}[]} users */
function shares(users) {
    let y = 10;
    return users.map(u => {
        const height = Math.min(y, u.share * 10);
        y -= height;
        return s("rect", { class: `f${u.job?.colour ?? 0}`, x: 0, y, width: 10, height });
    });
}

/** @param {Context} context @param {Obj} node @param {Map<string, Job>} owners */
const nodeSquares = (context, node, owners) => h("article", { class: nodeTrouble(node) ? "node trouble" : "node", key: uidOf(node) },
    h("a", { class: "name", href: `/ui/node/${encodeURIComponent(node.metadata.name)}` }, node.metadata.name),
    h("span", { class: "sub" }, nodeTrouble(node) || node.metadata.labels?.["nvidia.com/gpu.product"] || ""),
    gpuSquares(context, node, owners));

/** @type {View} */
export function gpus(context) {
    const { model } = context;
    const owners = model.jobOfPod();
    const word = context.filter.toLowerCase();
    const places = model.places;
    const nodes = model.nodes.filter(n => nodeGpus(n) > 0 && (!word || n.metadata.name.includes(word) ||
        model.podsOn(n.metadata.name).some(p => owners.get(uidOf(p))?.name.toLowerCase().includes(word))));
    /** @type {Map<string, Obj[]>} */
    const zones = new Map();
    for (const node of nodes) {
        const zone = places.map(label => node.metadata.labels?.[label]).filter(Boolean).join(" › ") || "elsewhere";
        const members = zones.get(zone);
        if (members)
            members.push(node);
        else
            zones.set(zone, [node]);
    }
    const shownNodes = new Set(nodes.map(uidOf));
    /** @type {import("./dom.js").Kept} */
    const kept = context.state.kept = new Map([...context.state.kept ?? []].filter(([uid]) => shownNodes.has(uid)));
    const shown = model.jobs.filter(j => j.held > 0).slice(0, 24);
    return h("div", { class: "grid" }, h("h1", { class: "aside" }, "GPUs"),
        h("section", { class: "card", key: "map" }, h("h2", null, "GPUs ", h("span", { class: "count" }, nodes.reduce((sum, n) => sum + nodeGpus(n), 0))),
            nodes.length ? null : empty(word ? `No node or job matches "${context.filter}".` : "No node here has GPUs. `muster up --gpus-per-node 4` pretends to have some."),
            [...zones].sort(([a], [b]) => byText(a, b)).map(([zone, members]) => h("div", { key: zone, class: "zone" }, zones.size > 1 || zone !== "elsewhere" ? h("h3", null, zone, h("span", { class: "count" }, ` ${plural(members.length, "node")}, ${plural(members.reduce((sum, n) => sum + nodeGpus(n), 0), "GPU")}`)) : null,
                h("div", { class: "nodes" }, members.map(node =>
                    keep(kept, uidOf(node), [node, model.touchedOn(node.metadata.name)], () => nodeSquares(context, node, owners)))))),
            h("p", { class: "legend" }, model.partial ? h("span", { class: "key unseen" }, "free, or somebody else's") : h("span", { class: "key free" }, "free"), h("span", { class: "key usekey" }, "how busy, where it is measured"), h("span", { class: "key sharedkey" }, "shared"), h("span", { class: "key keptkey" }, "kept for a job"), h("span", { class: "key pausedkey" }, "a job here is suspended"), h("span", { class: "key heldback" }, "cordoned"), h("span", { class: "key badkey" }, "cannot be used")),
            shown.length ? h("p", { class: "legend jobs" }, shown.map(j => h("a", { key: j.uid, href: j.href, class: "job" }, h("span", { class: `dot c${j.colour}`, "aria-hidden": "true" }), j.name))) : null));
}

/** @type {View} */
export function queue(context) {
    const name = context.params[0] ?? "";
    const { model } = context;
    const found = model.queues.find(q => q.metadata.name === name);
    if (!found)
        return missing(context, "queue", name);
    const total = model.nodes.reduce((sum, n) => sum + nodeGpus(n), 0);
    const q = shareOf(found, total);
    const below = new Set(queueTree(model.queues).filter(([o]) => o.metadata.name === name || o.spec?.parentQueue === name).map(([o]) => o.metadata.name));
    const jobs = chosen(context, model.jobs.filter(j => below.has(j.queue)));
    return h("div", { class: "grid" },
        h("section", { class: "card", key: "queue" }, h("p", { class: "path" }, found.spec?.parentQueue ? [h("a", { href: `/ui/queue/${encodeURIComponent(found.spec.parentQueue)}` }, found.spec.parentQueue), " / "] : "Queue"),
            h("h1", null, name), shareBar(q), shareLegend(), h("p", null, explainShare(found, model.queues, total)),
            facts([["Quota", amount(q.quota)], ["Fair share", amount(q.fair)], ["In use", amount(q.held)], ["Asked for", amount(q.asked)], ["Limit", amount(q.limit)], ["Weight", amount(q.weight)],
                ["Priority", found.spec?.priority ?? ""], ["Queued", String(found.status?.pendingGroups ?? 0)]])),
        below.size > 1 ? card("Queues below", queueRows(context, queueTree(model.queues).filter(([o]) => o.spec?.parentQueue === name).map(([o]) => [o, 0]))) : null,
        card("Jobs", listed(context, jobs, `Jobs of ${name}`, empty("No job is in this queue."))));
}

/** @type {View} */
export function node(context) {
    const name = context.params[0] ?? "";
    const { model, now } = context;
    const found = model.nodes.find(n => n.metadata.name === name);
    if (!found)
        return missing(context, "node", name);
    const owners = model.jobOfPod();
    const trouble = nodeTrouble(found);
    const { capacity = {}, nodeInfo = {} } = found.status ?? {};
    return h("div", { class: "grid" },
        h("section", { class: "card", key: "node" }, h("p", { class: "path" }, "Node"), h("h1", null, name),
            trouble ? h("p", { class: "note bad" }, `This node ${trouble}.`) : null, gpuSquares(context, found, owners),
            facts([["GPUs", `${amount(nodeGpus(found))} ${found.metadata.labels?.["nvidia.com/gpu.product"] ?? ""}`], ["CPUs", capacity.cpu], ["Memory", bytes(quantity(capacity.memory))],
                ["Pods", `${model.podsOn(name).length} of ${capacity.pods}`], ["System", nodeInfo.osImage], ["Kernel", nodeInfo.kernelVersion], ["Agent", nodeInfo.kubeletVersion]])),
        card("Pods", model.podsOn(name).length ? table(`Pods on ${name}`, ["Pod", "Job", "State", "GPUs", "Since"], model.podsOn(name).map(pod => {
            const job = owners.get(uidOf(pod));
            return { key: uidOf(pod), cells: [[pod.metadata.name, h("span", { class: "sub" }, pod.metadata.namespace)], job ? h("a", { href: job.href }, job.name) : "", pod.metadata.deletionTimestamp ? "Ending" : pod.status?.phase ?? "",
                pod.metadata.annotations?.["torchrun.ai/gpu-devices"] ?? "", duration(now - time(pod.status?.startTime ?? pod.metadata.creationTimestamp))] };
        })) : empty("No pod runs here.")),
        card("Conditions", table(`Conditions of ${name}`, ["Condition", "Is", "Says"], (found.status?.conditions ?? []).map(/** @param {Obj} c */ c => ({ key: c.type, cells: [c.type, c.status, c.message] })))));
}

/** @type {View} */
export function user(context) {
    const name = context.params[0] ?? "";
    const mine = context.model.jobs.filter(j => j.user === name);
    const spent = mine.filter(j => j.started).reduce((sum, j) => sum + j.gpus * ((j.ended || context.now) - j.started), 0);
    return h("div", { class: "grid" },
        h("section", { class: "card", key: "user" }, h("p", { class: "path" }, "User"), h("h1", null, name),
            facts([["Holds", plural(mine.reduce((sum, j) => sum + j.held, 0), "GPU")], ["Running", String(mine.filter(j => j.state === "running").length)],
                ["Queued", String(mine.filter(j => j.state === "waiting").length)], ["GPU hours of these jobs", (spent / 3600e3).toFixed(1)]])),
        card("Jobs", listed(context, chosen(context, mine), `Jobs of ${name}`, empty(`No job carries the label user=${name}.`))));
}

/** @param {Context} context @param {string} what @param {string} name */
export function missing(context, what, name) {
    return h("div", { class: "grid" }, h("section", { class: "card" }, h("h1", null, `No ${what} "${name}"`),
        empty(context.model.refused.length ? "It may be there and not be yours to see." : "It does not exist, or it was deleted.", h("a", { href: "/ui/" }, "Back to the overview"))));
}
