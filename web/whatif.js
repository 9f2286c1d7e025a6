// whatif: what would happen with one more job, without a node, or with another quota. The server answers with the code of
// `muster simulate --live`, in the viewer's name; nothing is changed.
import { h, own } from "./dom.js";
import { plural } from "./format.js";
import { ask } from "./link.js";
import { empty, table } from "./parts.js";

/** @typedef {import("./model.js").Model} Model */

/** One that can be asked as it stands: of a queue that jobs go to. @param {Model} model */
const example = model => {
    const above = new Set(model.queues.map(q => q.spec?.parentQueue));
    const queue = model.queues.find(q => !above.has(q.metadata.name) && q.metadata.name !== "default-queue")?.metadata.name ?? "default-queue";
    return `# A job of two pods with one GPU each; a TorchrunJob's manifest does as well.
gangs:
- {name: my-job, queue: ${queue}, pods: 2, gpus: 1}
`;
};

/** The form and its answer. It lives as long as its view. */
export class WhatIf {
    /** @param {Model} model */
    constructor(model) {
        this.model = model;
        this.manifest = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "manifest", rows: 10, spellcheck: "false" }, example(model)));
        this.drain = /** @type {HTMLInputElement} */ (h("input", { id: "drain", list: "nodes", autocomplete: "off", placeholder: "none" }));
        this.quota = /** @type {HTMLInputElement} */ (h("input", { id: "quota", autocomplete: "off", placeholder: "as they are; QUEUE=GPUS" }));
        this.go = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "What would happen?"));
        this.answer = h("div", { class: "answer", role: "region", "aria-live": "polite", "aria-label": "What would happen" });
        const form = h("form", { class: "whatif" },
            h("div", null, h("label", { for: "manifest" }, "One more job: a manifest, or the shorthand of muster simulate"), this.manifest),
            h("div", { class: "fields" }, h("label", { for: "drain" }, "Without the node"), this.drain, h("label", { for: "quota" }, "With another quota"), this.quota, this.go),
            h("datalist", { id: "nodes" }, model.nodes.map(n => h("option", { value: n.metadata.name }))));
        form.addEventListener("submit", event => { event.preventDefault(); this.run(); });
        this.element = h("div", { key: "own" }, form, this.answer);
    }

    async run() {
        this.go.disabled = true;
        this.answer.replaceChildren(empty("Deciding…"));
        try {
            const body = JSON.stringify({ manifest: this.manifest.value.trim() ? this.manifest.value : "", drain: this.drain.value.trim(), quota: this.quota.value.trim() });
            const reply = await ask("/whatif", { method: "POST", body, headers: { "Content-Type": "application/json" } });
            this.answer.replaceChildren(...this.tell(await reply.json()));
        } catch (e) {
            this.answer.replaceChildren(h("p", { class: "note bad", role: "alert" }, /** @type {Error} */ (e).message));
        }
        this.go.disabled = false;
    }

    /** @param {{pods: any[], evictions: any[], waiting: any[]}} result */
    tell(result) {
        const now = new Map(this.model.pods.map(p => [`${p.metadata.namespace}/${p.metadata.name}`, p.spec?.nodeName ?? ""]));
        const starts = result.pods.filter(p => p.state === "Running" && now.get(`${p.namespace}/${p.name}`) !== p.node);
        const ends = result.evictions.filter(e => !e.moved);
        const words = `${plural(starts.length, "pod")} would start or move, ${plural(result.evictions.length, "pod")} would be evicted, ${plural(result.waiting.length, "group")} would wait.`;
        return [h("p", { class: "lead" }, words),
            starts.length ? table("Pods that would start or move", ["Pod", "Group", "Node"], starts.slice(0, 200).map(p => ({ key: p.name, cells: [p.name, p.group, p.node] }))) : null,
            result.evictions.length ? [h("h3", null, ends.length ? "Evicted" : "Moved"), table("Pods that would be evicted", ["Pod", "By", "Why"], result.evictions.slice(0, 200).map((e, i) =>
                ({ key: `${i}`, cells: [e.pod, e.moved ? `${e.action}, and moved` : e.action, e.message] })))] : null,
            result.waiting.length ? [h("h3", null, "Would be queued"), table("Groups that would wait", ["Group", "Place", "Why", "Would help"], result.waiting.slice(0, 200).map(w =>
                ({ key: w.group, cells: [w.group, w.place ? `${w.place} of ${w.line}` : "", w.message, w.change ?? ""] })))] : null,
        ].flat().filter(part => part !== null);
    }
}

/** @type {import("./views.js").View} */
export function whatif(context) {
    const form = context.state.whatif ??= new WhatIf(context.model);
    return h("div", { class: "grid" }, h("section", { class: "card", key: "whatif" }, h("h1", null, "What if"),
        h("p", { class: "quiet" }, "The scheduler decides on the cluster as it is now, with your change. Nothing is changed."), own(form.element)));
}
