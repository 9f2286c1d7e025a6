// parts: what several views are made of.
import { h, keep, s } from "./dom.js";
import { amount, duration, time } from "./format.js";
import { ranFor } from "./model.js";

/** @typedef {import("./model.js").Job} Job */

const STATES = /** @type {Record<Job["state"], string>} */ ({
    running: "Running", waiting: "Queued", done: "Done", failed: "Failed", suspended: "Suspended", ending: "Ending",
});

/** @param {Job} job */
export const pill = job => h("span", { class: `pill ${job.state}` }, STATES[job.state]);

/** @param {Job} job */
export const jobLink = job => h("a", { href: job.href, class: "job" },
    h("span", { class: `dot c${job.colour}`, "aria-hidden": "true" }), job.name);

/** @param {string} title @param {...import("./dom.js").Child} inside */
export const card = (title, ...inside) => h("section", { class: "card", key: title }, h("h2", null, title), inside);

/** @param {string} what @param {...import("./dom.js").Child} next */
export const empty = (what, ...next) => h("p", { class: "quiet" }, what, next.length ? " " : null, next);

/** @param {string} label @param {import("./dom.js").Child} value @param {import("./dom.js").Child} [more] */
export const tile = (label, value, more) => h("div", { class: "tile" },
    h("span", { class: "label" }, label), h("strong", null, value), more ? h("span", { class: "more" }, more) : null);

/** @param {[string, import("./dom.js").Child][]} rows */
export const facts = rows => h("dl", { class: "facts" }, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false)
    .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

/** @typedef {{key: string, cells: import("./dom.js").Child[], class?: string}} Row */

/** @param {string[]} heads @param {Row} row */
const tableRow = (heads, row) => h("tr", { key: row.key, class: row.class },
    row.cells.map((cell, i) => i ? h("td", { "data-label": heads[i] }, cell) : h("th", { scope: "row" }, cell)));

/**
 * A table. Rows are arrays of cells, whose keys name them, or rows as tableRow() makes them.
 * @param {string} caption for screen readers
 * @param {string[]} heads
 * @param {(Row | HTMLElement)[]} rows
 * @param {string} [look] a class
 */
export const table = (caption, heads, rows, look = "") => h("div", { class: `scroll ${look}`.trim(), tabindex: 0, role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "aside" }, caption),
        h("thead", null, h("tr", null, heads.map(t => h("th", { scope: "col" }, t)))),
        h("tbody", null, rows.map(row => row instanceof HTMLElement ? row : tableRow(heads, row)))));

/**
 * What a queue holds of what it may: use solid, demand behind it, fair share and quota as marks.
 * @param {{held: number, asked: number, fair: number, quota: number, most: number}} q
 */
export function shareBar(q) {
    const scale = Math.max(q.most, q.held, q.asked, q.fair, q.quota, 1);
    /** @param {number} v */
    const x = v => Math.max(0, Math.min(100, v / scale * 100));
    const over = Math.max(0, q.held - q.fair);
    const words = `holds ${amount(q.held)}, asks for ${amount(q.asked)}, fair share ${amount(q.fair)}, quota ${amount(q.quota)} GPUs`;
    return s("svg", { class: "share", viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img", "aria-label": words },
        s("title", null, words),
        s("rect", { class: "all", x: 0, y: 3, width: 100, height: 8, rx: 1 }),
        s("rect", { class: "asked", x: 0, y: 3, width: x(q.asked), height: 8 }),
        s("rect", { class: "held", x: 0, y: 3, width: x(q.held), height: 8 }),
        over ? s("rect", { class: "over", x: x(q.fair), y: 3, width: x(q.held) - x(q.fair), height: 8 }) : null,
        q.fair > 0 ? s("path", { class: "fair", d: `M${Math.min(99.8, x(q.fair))} 0V14` }) : null,
        q.quota > 0 ? s("path", { class: "quota", d: `M${Math.min(99.8, x(q.quota))} 0V14` }) : null);
}

/**
 * @param {Job} job
 * @param {number} now
 */
export function since(job, now) {
    if (job.ended)
        return `ran ${duration(ranFor(job, now))}`;
    return job.state === "waiting" ? `for ${duration(now - job.created)}` : `for ${duration(now - (job.started || job.created))}`;
}

/** @param {Job} job */
export function place(job) {
    const record = job.group?.status?.explanation;
    return record?.place && job.state === "waiting" ? `number ${record.place}` : ""; // how long the line is changes behind it
}

/**
 * When a job that waits will start, as the scheduler expects it; the words of `muster explain`.
 * @param {any} estimate
 * @param {number} now
 */
export function starts(estimate, now) {
    const from = time(estimate?.earliest), to = time(estimate?.latest);
    if (!from)
        return estimate?.message ?? "";
    if (!to)
        return `in ${duration(from - now)} at the earliest`;
    return to <= now ? "was expected by now" : `in ${from <= now ? "0 s" : duration(from - now)} to ${duration(to - now)} (${estimate.percent} %)`;
}

const JOB_HEADS = ["Job", "State", "GPUs", "Queue", "Who", "Since", "Says"];

/** Without the column of who, where nobody is told. @param {boolean} who @param {any[]} cells */
const columns = (who, cells) => cells.filter((_, i) => who || JOB_HEADS[i] !== "Who");

/** @param {Job} job @param {string} since @param {boolean} who */
const jobRow = (job, since, who) => tableRow(columns(who, JOB_HEADS), {
    key: job.uid,
    cells: columns(who, [
        [jobLink(job), h("span", { class: "sub" }, `${job.ns} · ${job.kindName}`)], pill(job),
        job.state === "running" && job.held !== job.gpus ? `${amount(job.held)} of ${amount(job.gpus)}` : amount(job.gpus),
        job.queue ? h("a", { href: `/ui/queue/${encodeURIComponent(job.queue)}` }, job.queue) : "",
        job.user ? h("a", { href: `/ui/user/${encodeURIComponent(job.user)}` }, job.user) : "",
        since, h("span", { class: "says" }, place(job) ? h("b", null, `${place(job).replace("n", "N")} in line. `) : null, job.message),
    ]),
});

/**
 * @param {Job[]} jobs
 * @param {number} now
 * @param {string} caption
 * @param {Record<string, any>} state of the view: what its rows are kept in
 */
export function jobTable(jobs, now, caption, state) {
    /** @type {Record<string, import("./dom.js").Kept>} */
    const all = state.rows ??= {};
    const shown = new Set(jobs.map(j => j.uid));
    const kept = all[caption] = new Map([...all[caption] ?? []].filter(([uid]) => shown.has(uid)));
    const who = jobs.some(job => job.user);
    return table(caption, columns(who, JOB_HEADS), jobs.map(job => {
        const text = since(job, now);
        return keep(kept, job.uid, [job, text, who], () => jobRow(job, text, who));
    }), "jobs");
}
