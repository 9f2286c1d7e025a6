// job: the page of one job: why it waits or how it runs, its ranks, their logs, and what can be done with it.
import { Curves } from "./curves.js";
import { h, own } from "./dom.js";
import { amount, clock, duration, plural, time } from "./format.js";
import { ask, askJson, lines, patch, Refused } from "./link.js";
import { accountSums, at, isSync, JOB_KINDS, lastAccount, observed, podGpus, ranFor, uidOf, waitedFor } from "./model.js";
import { card, empty, facts, pill, place, since, starts, table } from "./parts.js";
import { missing } from "./views.js";

/** @typedef {import("./model.js").Job} Job */
/** @typedef {import("./model.js").Obj} Obj */

const LINES_MAX = 5000; // of a log in the page; the download has all
const GENERATIONS_MAX = 8; // before this one, whose logs can be chosen

/** @param {Job} job */
const apiPath = job => (job.kind ? `/apis/${job.kind.path}/namespaces/${encodeURIComponent(job.ns)}/${job.kind.plural}` :
    `/apis/scheduling.run.ai/v2alpha2/namespaces/${encodeURIComponent(job.ns)}/podgroups`) + `/${encodeURIComponent(job.name)}`;

/**
 * @typedef {object} Action
 * @property {string} word
 * @property {(job: Job) => string} question
 * @property {(job: Job, value: string) => Promise<unknown>} run
 * @property {(job: Job) => boolean} fits
 * @property {(job: Job) => string} [value] what the field of its question begins with
 * @property {boolean} [grave]
 */

/** @param {Job} job */
const isOver = job => job.state === "done" || job.state === "failed";

/** @param {string} path @param {any} value */
const nested = (path, value) => path.split(".").reduceRight((inside, name) => ({ [name]: inside }), value);

/** @type {Record<string, Action>} */
export const ACTIONS = {
    suspend: {
        word: "Suspend", fits: job => !!job.kind?.suspend && !isOver(job) && !at(job.object, job.kind.suspend),
        question: job => `${job.name} stops and frees ${plural(job.held, "GPU")}. Its pods are deleted, with the files in their folders; volumes stay.`,
        run: job => patch(apiPath(job), nested(job.kind?.suspend ?? "", true)),
    },
    resume: {
        word: "Resume", fits: job => !!job.kind?.suspend && !isOver(job) && !!at(job.object, job.kind.suspend),
        question: job => `${job.name} waits for its GPUs again and then starts from its beginning or its last checkpoint.`,
        run: job => patch(apiPath(job), nested(job.kind?.suspend ?? "", false)),
    },
    scale: {
        word: "Scale", fits: job => job.kind?.kind === "TorchrunJob" && !isOver(job),
        question: job => `How many GPUs should ${job.name} have? It starts again with the new number.`,
        value: job => String(job.object.spec?.numGPUs ?? job.gpus),
        run: (job, value) => {
            if (!/^[1-9]\d*$/.test(value))
                throw new Error(`"${value}" is not a number of GPUs`);
            return patch(apiPath(job), { spec: { numGPUs: Number(value), numNodes: null } });
        },
    },
    restart: {
        word: "Restart", fits: job => !!job.kind && !isOver(job) && job.pods.some(p => p.spec?.nodeName),
        question: job => `The pods of ${job.name} are deleted, and new ones are made and scheduled again.`,
        run: job => Promise.all(job.pods.filter(p => !isSync(p)).map(p =>
            ask(`/api/v1/namespaces/${encodeURIComponent(job.ns)}/pods/${encodeURIComponent(p.metadata.name)}`, { method: "DELETE" }))),
    },
    priority: {
        word: "Priority", fits: job => !!job.group && !isOver(job),
        question: job => `The priority class of ${job.name}, such as train, build or inference. It is the job's from now on, after a restart too.`,
        value: job => job.group?.spec?.priorityClassName ?? "",
        run: async (job, value) => {
            const none = new Error(`There is no priority class "${value}"; kubectl get priorityclasses lists them.`);
            if (!value) // the question below would be one for all of them
                throw none;
            await ask(`/apis/scheduling.k8s.io/v1/priorityclasses/${encodeURIComponent(value)}`).catch(e => {
                if (e instanceof Refused && e.status === 404) // whoever may not read them may still name one
                    throw none;
            });
            return patch(apiPath(job), job.kind ? { metadata: { labels: { priorityClassName: value } } } : { spec: { priorityClassName: value } });
        },
    },
    remove: {
        word: "Delete", fits: job => !!job.kind, grave: true,
        question: job => `${job.name} is deleted with its pods, their logs and its history. This cannot be undone.`,
        run: job => ask(apiPath(job), { method: "DELETE" }),
    },
};

/**
 * Asks before it acts; says what came of it.
 * @param {string} name
 * @param {Job} job
 * @param {(text: string) => void} say
 */
export function act(name, job, say) {
    const action = ACTIONS[name];
    const input = action.value ? h("input", { name: "value", value: action.value(job), "aria-label": action.word, autocomplete: "off" }) : null;
    const trouble = h("p", { class: "note bad", hidden: true, role: "alert" });
    const go = /** @type {HTMLButtonElement} */ (h("button", { type: "button", class: action.grave ? "grave" : "main" }, action.word));
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-labelledby": "question" }, h("h2", { id: "question" }, `${action.word} ${job.ns}/${job.name}?`),
        h("p", null, action.question(job)), input, trouble,
        h("div", { class: "buttons" }, h("button", { type: "button", class: "cancel" }, "Cancel"), go)));
    dialog.querySelector(".cancel")?.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    const run = async () => {
        go.disabled = true;
        try {
            await action.run(job, /** @type {HTMLInputElement | null} */ (input)?.value.trim() ?? "");
            say(`${action.word}: ${job.name}. Done.`);
            dialog.close();
        } catch (e) {
            trouble.hidden = false;
            trouble.textContent = e instanceof Refused && e.status === 403 ? `You may not do that: ${e.message}` : String(/** @type {Error} */ (e).message);
            go.disabled = false;
        }
    };
    go.addEventListener("click", run);
    input?.addEventListener("keydown", e => /** @type {KeyboardEvent} */ (e).key === "Enter" && run());
    document.body.append(dialog);
    dialog.showModal();
}

/** A log that is followed, with search and download. It lives as long as its view. */
export class LogPane {
    constructor() {
        /** @type {string[]} */
        this.lines = [];
        this.left = 0;
        this.key = "";
        this.path = "";
        this.word = "";
        this.following = new AbortController();
        this.text = h("pre", { class: "log", tabindex: 0, role: "log", "aria-label": "Log", "aria-live": "off" });
        this.state = h("span", { class: "sub", role: "status" });
        this.search = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "Search this log", "aria-label": "Search this log" }));
        const download = h("button", { type: "button" }, "Download");
        this.element = h("div", { class: "logpane", key: "own" }, h("div", { class: "bar" }, this.search, download, this.state), this.text);
        this.search.addEventListener("input", () => { this.word = this.search.value.toLowerCase(); this.draw(); });
        download.addEventListener("click", () => this.download());
    }

    /** @param {string} key what is shown @param {string} path of its log, without follow */
    show(key, path) {
        if (key === this.key)
            return;
        this.stop();
        this.key = key;
        this.path = path;
        this.lines = [];
        this.left = 0;
        this.draw();
        this.follow(this.following = new AbortController());
    }

    /** @param {AbortController} control */
    async follow(control) {
        this.state.textContent = "Following…";
        try {
            await lines(`${this.path}&follow=true&tailLines=${LINES_MAX}`, line => {
                if (control.signal.aborted)
                    return;
                if (this.lines.at(-1)?.endsWith("\r")) // a progress bar: what comes next stands in its place
                    this.lines.pop();
                this.lines.push(line);
                if (this.lines.length > LINES_MAX) {
                    this.lines.shift();
                    this.left++;
                }
                this.later();
            }, control.signal);
            this.state.textContent = this.lines.length ? "The log ended." : "It has written nothing.";
        } catch (e) {
            if (!control.signal.aborted)
                this.state.textContent = `No log: ${/** @type {Error} */ (e).message}`;
        }
    }

    later() {
        if (this.waiting)
            return;
        this.waiting = true;
        setTimeout(() => { this.waiting = false; this.draw(); }, 100);
    }

    draw() {
        const { text } = this;
        const below = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
        const shown = this.word ? this.lines.filter(l => l.toLowerCase().includes(this.word)) : this.lines;
        text.textContent = shown.join("\n");
        if (below)
            text.scrollTop = text.scrollHeight;
        if (this.word)
            this.state.textContent = `${plural(shown.length, "line")} of ${this.lines.length}`;
    }

    async download() {
        try {
            const blob = await (await ask(this.path)).blob();
            const link = /** @type {HTMLAnchorElement} */ (h("a", { href: URL.createObjectURL(blob), download: this.key.replace(/[^\w.-]+/g, "-") + ".log" }));
            link.click();
            setTimeout(() => URL.revokeObjectURL(link.href), 1000);
        } catch (e) {
            this.state.textContent = `The download failed: ${/** @type {Error} */ (e).message}`;
        }
    }

    stop() { this.following.abort(); }
}

/** @param {Obj} pod */
function podEnd(pod) {
    const state = pod.status?.containerStatuses?.[0]?.state;
    const end = state?.terminated;
    if (end)
        return end.exitCode ? `exit ${end.exitCode}${end.reason && end.reason !== "Error" ? `, ${end.reason}` : ""}` : "exit 0";
    return state?.waiting?.reason ?? "";
}

/** @param {import("./views.js").Context} context @param {Job} job */
function ranks(context, job) {
    if (!job.pods.length)
        return empty(job.state === "suspended" ? "It is suspended and has no pods." : job.state === "waiting" ? "Its pods are not made yet." : "Its pods are gone.");
    const chosen = context.state.pod ?? "";
    return table("Pods of this job", ["Number", "Pod", "State", "Node", "GPUs", "Restarts", "Log"], [...job.pods].sort((a, b) => Number(isSync(a)) - Number(isSync(b))).map(pod => ({
        key: uidOf(pod), class: pod.metadata.name === chosen ? "chosen" : "",
        cells: [pod.metadata.labels?.["torchrun.ai/index"] ?? "–",
            [pod.metadata.name, h("span", { class: "sub" }, `generation ${pod.metadata.labels?.["torchrun.ai/generation"] ?? 0}`)],
            [pod.metadata.deletionTimestamp ? "Ending" : pod.status?.phase ?? "", podEnd(pod) ? h("span", { class: "sub" }, podEnd(pod)) : null],
            pod.spec?.nodeName ? h("a", { href: `/ui/node/${encodeURIComponent(pod.spec.nodeName)}` }, pod.spec.nodeName) : "",
            pod.metadata.annotations?.["torchrun.ai/gpu-devices"] ? `${amount(podGpus(pod))} (${pod.metadata.annotations["torchrun.ai/gpu-devices"]})` : amount(podGpus(pod)),
            String((pod.status?.containerStatuses ?? []).reduce(/** @param {number} n @param {Obj} c */ (n, c) => n + (c.restartCount ?? 0), 0)),
            h("button", { type: "button", "data-do": "log", "data-value": pod.metadata.name, "aria-label": `Log of ${pod.metadata.name}`, "aria-pressed": String(pod.metadata.name === chosen) }, "Log")],
    })));
}

/** @param {import("./views.js").Context} context @param {Job} job */
function logs(context, job) {
    const { state } = context;
    const pane = state.pane ??= new LogPane();
    // The one that failed first, else the first that has ranks.
    const failed = job.object.status?.failure?.pod;
    const pod = job.pods.find(p => p.metadata.name === state.pod) ?? job.pods.find(p => p.metadata.name === failed) ??
        job.pods.find(p => p.spec?.nodeName && !isSync(p)) ?? job.pods.find(p => p.spec?.nodeName) ?? job.pods[0];
    if (!pod)
        return null;
    state.pod = pod.metadata.name;
    const containers = (pod.spec?.containers ?? []).map(/** @param {Obj} c */ c => c.name);
    const container = containers.includes(state.container) ? state.container : containers[0] ?? "";
    const generation = Number(pod.metadata.labels?.["torchrun.ai/generation"] ?? 0);
    const older = state.generation !== undefined && state.generation < generation ? state.generation : generation;
    const before = older === generation && (pod.status?.containerStatuses ?? []).some(/** @param {Obj} c */ c => c.restartCount > 0);
    const path = `/api/v1/namespaces/${encodeURIComponent(job.ns)}/pods/${encodeURIComponent(pod.metadata.name)}/log?container=${encodeURIComponent(container)}${older < generation ? `&generation=${older}` : state.previous && before ? "&previous=true" : ""}`;
    if (pod.status?.phase !== "Pending" || older < generation)
        pane.show(`${pod.metadata.name} ${container}${older < generation ? ` generation ${older}` : state.previous && before ? " before" : ""} ${uidOf(pod)}`, path);
    return card("Log", h("div", { class: "choices" }, h("span", { class: "sub" }, `of ${pod.metadata.name}`),
        containers.length > 1 ? containers.map(/** @param {string} name */ name => h("button", { type: "button", "data-do": "container", "data-value": name, "aria-pressed": String(name === container) }, name)) : null,
        before ? h("button", { type: "button", "data-do": "previous", "aria-pressed": String(!!state.previous) }, "Before its last restart") : null,
        generation > 0 && !context.cluster ? Array.from({ length: Math.min(generation, GENERATIONS_MAX) + 1 }, (_, i) => generation - i).reverse().map(n =>
            h("button", { type: "button", "data-do": "generation", "data-value": n, "aria-pressed": String(n === older) }, n === generation ? "This generation" : `Generation ${n}`)) : null),
    own(pane.element),
    generation > 0 && context.cluster
        ? h("p", { class: "quiet" }, "Nodes of a cluster keep no logs of pods that are gone; the sync pod of a job that was submitted with a folder does:", " ", h("code", null, `kubectl torchrun logs -n ${job.ns} ${job.name} --generation 0`)) : null);
}

/** @param {import("./views.js").Context} context @param {Job} job */
function waitCard(context, job) {
    const record = job.group?.status?.explanation;
    if (job.state !== "waiting" || !record)
        return null;
    return card("Why it waits", h("p", { class: "lead" }, record.message),
        facts([["In line", place(job)], ["Starts", starts(record.estimate, context.now)], ["Would help", record.change], ["Missing", Object.entries(record.missing ?? {}).filter(([, v]) => Number(v) > 0).map(([k, v]) => `${amount(Number(v))} ${k === "gpu" ? "GPUs" : k}`).join(", ")],
            ["Free now", record.free ? `${amount(record.free.gpu)} of ${amount(record.total?.gpu)} GPUs` : ""],
            ["Nodes", Object.entries(record.nodes ?? {}).map(([k, v]) => `${v} ${k === "gpu" ? "short of GPUs" : k === "possible" ? "with room for a pod" : k}`).join(", ")],
            ["Starts by", record.startsBy ? clock(time(record.startsBy)) : ""], ["Room kept since", record.roomKeptSince ? clock(time(record.roomKeptSince)) : ""]]));
}

/** @param {import("./views.js").Context} context @param {Job} job */
function fetchMore(context, job) {
    const { state } = context;
    const seen = `${job.object.metadata.resourceVersion}`;
    if (state.seen === seen || state.asking)
        return;
    state.seen = seen;
    state.asking = true;
    const names = new Set([job.name, job.group?.metadata.name, ...job.pods.map(p => p.metadata.name)]);
    const kept = `/accounts?uid=${encodeURIComponent(job.uid)}`;
    Promise.allSettled([askJson(`/api/v1/namespaces/${encodeURIComponent(job.ns)}/events?limit=500`),
        ask(apiPath(job), { headers: { Accept: "application/yaml" } }).then(a => a.text()),
        ask(kept).catch(() => ask(`${kept}&namespace=${encodeURIComponent(job.ns)}`)).then(a => a.text())]).then(([events, manifest, account]) => {
        state.asking = false;
        if (account.status === "fulfilled") // a cluster keeps none: what the status tells counts
            state.account = lastAccount(account.value);
        if (events.status === "fulfilled")
            state.events = (events.value.items ?? []).filter(/** @param {Obj} e */ e => names.has(e.involvedObject?.name))
                .sort(/** @param {Obj} a @param {Obj} b */ (a, b) => time(b.lastTimestamp ?? b.eventTime) - time(a.lastTimestamp ?? a.eventTime));
        state.eventsTrouble = events.status === "rejected" ? String(events.reason.message) : "";
        if (manifest.status === "fulfilled")
            state.manifest = manifest.value;
        context.redraw();
    });
}

/** @type {import("./views.js").View} */
export function job(context) {
    const [ns, kind, name] = context.params;
    const { model, now, state } = context;
    const found = model.jobs.find(j => j.ns === ns && j.name === name && j.kindName === kind);
    if (!found)
        return missing(context, JOB_KINDS.some(k => k.kind === kind) ? kind : "job", `${ns}/${name}`);
    fetchMore(context, found);
    /** @type {Curves} */
    const curves = state.curves ??= new Curves();
    curves.note(found, now);
    curves.fetch(found, now, context.redraw);
    const drawn = curves.draw();
    const ran = ranFor(found, now);
    const spent = accountSums(state.account, now) ?? { waited: waitedFor(found, now), ran, gpu: ran * found.gpus };
    const causes = (state.events ?? []).filter(/** @param {Obj} e */ e => /restart|evict|preempt|fail|hung/i.test(`${e.reason} ${e.message}`));
    return h("div", { class: "grid" },
        h("section", { class: "card", key: "head" }, h("p", { class: "path" }, `${found.ns} / ${found.kindName}`),
            h("div", { class: "headline" }, h("h1", null, h("span", { class: `dot c${found.colour}`, "aria-hidden": "true" }), found.name), pill(found), h("span", { class: "sub" }, since(found, now))),
            found.message && found.state !== "waiting" ? h("p", { class: found.state === "failed" ? "note bad" : "lead" }, found.message) : null,
            h("div", { class: "buttons", role: "group", "aria-label": "What to do with this job" }, Object.entries(ACTIONS).filter(([, a]) => a.fits(found)).map(([key, a]) =>
                h("button", { type: "button", "data-do": "act", "data-value": key, key, class: a.grave ? "grave" : "" }, a.word))),
            facts([["GPUs", found.held && found.held !== found.gpus ? `${amount(found.held)} of ${amount(found.gpus)}` : amount(found.gpus)],
                ["Queue", found.queue ? h("a", { href: `/ui/queue/${encodeURIComponent(found.queue)}` }, found.queue) : ""],
                ["User", found.user ? h("a", { href: `/ui/user/${encodeURIComponent(found.user)}` }, found.user) : ""], ["Priority", found.group?.spec?.priorityClassName ?? ""],
                ["Waited", duration(spent.waited)], ["Ran", spent.ran ? duration(spent.ran) : ""], ["GPU time", spent.gpu ? `${(spent.gpu / 3600e3).toFixed(2)} GPU hours` : ""],
                ["Starts again", found.restarts ? plural(found.restarts, "time") : ""], ["Evicted", found.preemptions ? plural(found.preemptions, "time") : ""],
                ["Observed", observed(found, now)],
                ["Gang", found.group?.spec?.minMember > 1 ? `starts with ${found.group?.spec?.minMember} pods or not at all` : ""]])),
        waitCard(context, found),
        card("Ranks", ranks(context, found)),
        logs(context, found),
        drawn.length ? card("Curves", h("div", { class: "curves" }, drawn)) : null,
        causes.length ? card("Restarts and their causes", eventTable(causes, "Causes of restarts")) : null,
        card("Events", state.events?.length ? eventTable(state.events.slice(0, 100), "Events of this job") : empty(state.eventsTrouble ? `The events cannot be read: ${state.eventsTrouble}` : "Nothing was reported.")),
        state.manifest ? h("section", { class: "card", key: "manifest" }, h("details", null, h("summary", null, h("h2", null, "Manifest")), h("pre", { class: "manifest", tabindex: 0 }, state.manifest))) : null);
}

/** @param {Obj[]} events @param {string} caption */
const eventTable = (events, caption) => table(caption, ["When", "Reason", "About", "Says"], events.map(e => ({
    key: uidOf(e), class: e.type === "Warning" ? "warning" : "",
    cells: [clock(time(e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp)), e.reason, e.involvedObject?.name, e.message],
})));
