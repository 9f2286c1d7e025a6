// curves: numbers of a training over its steps: those that it reports, the time of its steps as the node's agent sees it, and
// the scalars in TensorBoard event files that it wrote into its folder, which the node's agent reads and thins, with the viewer's
// rights to the pod's results.
import { h, s } from "./dom.js";
import { askJson } from "./link.js";

/** @typedef {import("./model.js").Job} Job */
/** @typedef {Map<string, [number, number][]>} Series points by name: step (or seconds) and value */

const FOLDERS_MAX = 4, SERIES_MAX = 32, POINTS_MAX = 4000, DRAWN_MAX = 300, NAME_MAX = 100;
const AGAIN_MS = 15000;

/** @param {Series} series @param {string} name @param {number} x @param {number} y */
function add(series, name, x, y) {
    if (!name || !Number.isFinite(y) || !Number.isFinite(x) || (!series.has(name) && series.size >= SERIES_MAX))
        return;
    const points = series.get(name) ?? [];
    series.set(name, points);
    if (points.length >= POINTS_MAX) // every second one of the older half
        points.splice(0, POINTS_MAX / 2, ...points.slice(0, POINTS_MAX / 2).filter((_, i) => i % 2));
    points.push([x, y]);
}

/** The curves of one job, as long as its view is open. */
export class Curves {
    constructor() {
        /** @type {Series} */
        this.told = new Map();
        /** @type {Series} */
        this.files = new Map();
        this.askedAt = 0;
        this.asking = false;
        this.seen = "";
    }

    /** What the job says of itself now. @param {Job} job @param {number} now */
    note(job, now) {
        const report = job.object.status?.trainerStatus;
        const ranks = job.pods.map(p => p.metadata.annotations?.["muster.dev/ranks"] ?? "").join("");
        const seen = JSON.stringify(report ?? "") + ranks;
        if (seen === this.seen)
            return;
        this.seen = seen;
        const at = Math.round((now - (job.started || job.created)) / 1000);
        for (const metric of report?.metrics ?? [])
            add(this.told, `${metric.name} (reported)`.slice(0, NAME_MAX), at, Number(metric.value));
        for (const pod of job.pods) {
            try {
                for (const rank of JSON.parse(pod.metadata.annotations?.["muster.dev/ranks"] ?? "[]"))
                    if (rank.step > 0 && rank.rank === 0)
                        add(this.told, "seconds a step (rank 0)", rank.steps, rank.step / 1000);
            } catch { /* not ours to read */ }
        }
    }

    /** @param {Job} job @param {number} now @param {() => void} redraw */
    fetch(job, now, redraw) {
        const pod = job.pods.find(p => p.spec?.nodeName && p.status?.phase !== "Pending");
        if (!pod || this.asking || now - this.askedAt < AGAIN_MS || (this.askedAt && job.ended && this.askedAt > job.ended + AGAIN_MS))
            return;
        this.askedAt = now;
        this.asking = true;
        this.look(`/api/v1/namespaces/${encodeURIComponent(job.ns)}/pods/${encodeURIComponent(pod.metadata.name)}`)
            .then(redraw, () => { /* no right to its files, or no such answer on this cluster: there are no curves */ })
            .finally(() => { this.asking = false; });
    }

    /** The folders of a pod that can be read from outside are its emptyDirs. @param {string} path */
    async look(path) {
        const { spec } = await askJson(path);
        const names = new Set((spec.volumes ?? []).filter(/** @param {any} v */ v => v.emptyDir).map(/** @param {any} v */ v => v.name));
        /** @type {string[]} */
        const folders = (spec.containers?.[0]?.volumeMounts ?? []).filter(/** @param {any} m */ m => names.has(m.name)).map(/** @param {any} m */ m => m.mountPath);
        /** @type {Series} */
        const found = new Map();
        for (const folder of folders.slice(0, FOLDERS_MAX)) {
            /** @type {{series: {run: string, name: string, points: [number, number][]}[]}} */
            const { series } = await askJson(`${path}/results?curves=true&folder=${encodeURIComponent(folder)}`);
            const runs = new Set(series.map(one => one.run));
            for (const { run, name, points } of series)
                found.set(runs.size > 1 ? `${name} (${run || folder})` : name, points);
        }
        this.files = found;
    }

    /** @returns {HTMLElement[]} */
    draw() {
        return [...this.files, ...this.told].filter(([, points]) => points.length > 1).map(([name, points]) => curve(name, points));
    }
}

/** @param {number} value */
const short = value => Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(Math.round(value * 1e4) / 1e4);

/** @param {string} name @param {[number, number][]} points */
function curve(name, points) {
    const every = Math.ceil(points.length / DRAWN_MAX);
    const drawn = points.filter((_, i) => i % every === 0 || i === points.length - 1);
    const xs = drawn.map(p => p[0]), ys = drawn.map(p => p[1]);
    const left = Math.min(...xs), right = Math.max(...xs), low = Math.min(...ys), high = Math.max(...ys);
    const path = drawn.map(([x, y], i) => `${i ? "L" : "M"}${((x - left) / (right - left || 1) * 100).toFixed(2)} ${(38 - (y - low) / (high - low || 1) * 36).toFixed(2)}`).join("");
    const last = ys[ys.length - 1];
    const words = `${name}: ${short(last)} at ${short(xs[xs.length - 1])}, between ${short(low)} and ${short(high)}`;
    return h("figure", { class: "curve", key: name },
        h("figcaption", null, h("span", null, name), h("b", null, short(last))),
        s("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": words }, s("title", null, words), s("path", { d: path })),
        h("p", { class: "sub" }, `${short(low)} to ${short(high)}, ${short(left)} to ${short(right)}`));
}
