// timeline: jobs over time, when those that wait will start, and who made room for whom.
import { h, s } from "./dom.js";
import { clock, plural, time } from "./format.js";
import { card, empty, jobLink, table } from "./parts.js";
import { chosen, SHOWN_MAX } from "./views.js";

/** @typedef {import("./model.js").Job} Job */
/** @typedef {import("./views.js").Context} Context */
/**
 * @typedef {object} Loss pods of a job that gave way at one moment
 * @property {number} at
 * @property {Job | undefined} job whose they were; undefined: it is gone
 * @property {string} pod one of them
 * @property {number} pods
 * @property {Job | undefined} by who has their room
 * @property {string} byName
 * @property {string} message
 */

const SPANS = /** @type {[string, number][]} */ ([["15 minutes", 900e3], ["1 hour", 3600e3], ["6 hours", 6 * 3600e3], ["24 hours", 24 * 3600e3], ["7 days", 7 * 86400e3]]);
const DAY_SPAN = 3; // of these
const LOSSES_SHOWN = 50;
/* The scheduler's words, as src/sched/plan.c has them: "preempted by PyTorchJob team/urgent of queue q". */
const FOR_WHOM = /(?:preempted by|reclaimed for|room for|kept for) (?:(\w+) )?([^/ ]+)\/(\S+) of queue/;

/**
 * The job that a pod was of, although the pod may be gone.
 * @param {Job[]} jobs
 * @param {Map<string, Job>} byPod
 * @param {string} ns
 * @param {string} pod
 */
function jobOfName(jobs, byPod, ns, pod) {
    return byPod.get(`${ns}/${pod}`) ?? jobs.filter(j => j.ns === ns && pod.startsWith(j.name + "-")).sort((a, b) => b.name.length - a.name.length)[0];
}

/** @param {Context} context @param {number} from @returns {Loss[]} the newest first */
function losses(context, from) {
    const { jobs } = context.model;
    const byPod = new Map(jobs.flatMap(j => j.pods.map(p => /** @type {[string, Job]} */ ([`${j.ns}/${p.metadata.name}`, j]))));
    /** @type {Map<string, Loss>} */
    const found = new Map();
    for (const e of context.events) {
        const at = time(e.lastTimestamp ?? e.eventTime);
        if (e.involvedObject?.kind !== "Pod" || !/^(Evict|Suspend)$/.test(e.reason ?? "") || at < from)
            continue;
        const { namespace: ns, name: pod } = e.involvedObject;
        const job = jobOfName(jobs, byPod, ns, pod);
        const key = `${job?.uid ?? `${ns}/${pod}`} ${Math.floor(at / 1000)} ${e.message}`;
        const [, kind, byNs, byName] = FOR_WHOM.exec(e.message ?? "") ?? [];
        const before = found.get(key);
        found.set(key, {
            at, job, pod: `${ns}/${pod}`, pods: (before?.pods ?? 0) + 1, message: e.message ?? "", byName: byName ? `${byNs}/${byName}` : "",
            by: jobs.find(j => j.ns === byNs && (kind ? j.kindName === kind && j.name === byName : j.group?.metadata.name === byName)),
        });
    }
    return [...found.values()].sort((a, b) => b.at - a.at);
}

/** @param {Loss} loss @param {(t: number) => number} x */
function lossMark(loss, x) {
    const words = `${clock(loss.at)}: ${plural(loss.pods, "pod")} gave way: ${loss.message}`;
    return s("g", null, s("title", null, words), s("rect", { class: "evicted", x: x(loss.at) - 0.25, y: 0, width: 0.5, height: 20 }),
        loss.by ? s("rect", { class: `f${loss.by.colour} by`, x: x(loss.at) + 0.25, y: 6, width: 1.4, height: 8 }) : null);
}

/** @param {Context} context @param {Job} job @param {Loss[]} mine @param {(t: number) => number} x */
function line(context, job, mine, x) {
    const { now } = context;
    const record = job.group?.status?.explanation;
    const startsBy = time(record?.estimate?.latest) || time(record?.startsBy);
    const startsFrom = Math.max(now, time(record?.estimate?.earliest));
    const band = job.state === "waiting" && startsBy > now;
    const words = `${job.name}: ${job.state}, asked for at ${clock(job.created)}` + (job.started ? `, began at ${clock(job.started)}` : "") + (job.ended ? `, ended at ${clock(job.ended)}` : "") +
        (band ? `, expected to start between ${clock(startsFrom)} and ${clock(startsBy)}` : "") + mine.map(l => `, gave way at ${clock(l.at)}${l.byName ? ` to ${l.byName}` : ""}`).join("");
    return h("div", { class: "line", key: job.uid },
        h("a", { href: job.href, class: "job" }, h("span", { class: `dot c${job.colour}`, "aria-hidden": "true" }), job.name, h("span", { class: "sub" }, job.queue)),
        s("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": words }, s("title", null, words),
            s("rect", { class: "now", x: x(now), y: 0, width: 0.15, height: 20 }),
            s("rect", { class: "wait", x: x(job.created), y: 7, width: Math.max(0.2, x(job.ended || now) - x(job.created)), height: 6 }),
            job.runs.map(([from, to]) => s("rect", { class: `f${job.colour} ${job.state}`, x: x(from), y: 3, width: Math.max(0.3, x(to || now) - x(from)), height: 14 })),
            band ? s("rect", { class: "estimate", x: x(startsFrom), y: 6, width: Math.max(0.5, x(startsBy) - x(startsFrom)), height: 8 }) : null,
            mine.map(loss => lossMark(loss, x))));
}

/** The shortest time that has the oldest job that is not over; a day at most. @param {Job[]} jobs @param {number} now */
function fittingSpan(jobs, now) {
    const oldest = jobs.filter(j => !j.ended).reduce((least, j) => Math.min(least, j.created), now);
    const found = SPANS.findIndex(([, ms]) => now - oldest <= ms * 0.9);
    return found < 0 ? DAY_SPAN : Math.min(found, DAY_SPAN);
}

/** @type {import("./views.js").View} */
export function timeline(context) {
    const { model, now } = context;
    const chosenSpan = context.state.span ??= fittingSpan(model.jobs, now);
    const span = SPANS[chosenSpan][1];
    const ahead = span * 0.12;
    const from = now - span;
    /** @param {number} t */
    const x = t => Math.max(0, Math.min(100, (t - from) / (span + ahead) * 100));
    const jobs = chosen(context, model.jobs).filter(j => (j.ended || now) >= from).slice(0, SHOWN_MAX)
        .sort((a, b) => a.queue.localeCompare(b.queue) || a.created - b.created);
    const lost = losses(context, from);
    const ticks = Array.from({ length: 5 }, (_, i) => from + span / 4 * i);
    return h("div", { class: "grid" }, h("h1", { class: "aside" }, "Timeline"),
        h("section", { class: "card", key: "timeline" },
            h("h2", null, "Timeline"),
            h("div", { class: "choices", role: "group", "aria-label": "How far back" }, SPANS.map(([name], i) =>
                h("button", { type: "button", "data-do": "span", "data-value": i, "aria-pressed": String(i === chosenSpan) }, name))),
            jobs.length ? h("div", { class: "rows" },
                h("div", { class: "axis", "aria-hidden": "true" }, ticks.map((t, i) => h("span", { class: `tick t${i}` }, i === 4 ? "now" : clock(t)))),
                jobs.map(job => line(context, job, lost.filter(l => l.job === job), x))) : empty(context.filter ? "Nothing matches." : "No job ran or waited in this time."),
            h("p", { class: "legend" }, h("span", { class: "key waitkey" }, "waits"), h("span", { class: "key runkey" }, "runs (in its own colour)"), h("span", { class: "key evictedkey" }, "gave way (to the job of the colour beside)"), h("span", { class: "key estimatekey" }, "starts, as expected"))),
        card("Who made room for whom", lost.length ? table("Who made room for whom", ["When", "Gave way", "Pods", "To", "Why"], lost.slice(0, LOSSES_SHOWN).map(l => ({
            key: `${l.at} ${l.pod} ${l.message}`, cells: [clock(l.at), l.job ? jobLink(l.job) : l.pod, String(l.pods), l.by ? jobLink(l.by) : l.byName || "–", l.message],
        }))) : empty("Nobody gave way in this time.")));
}
