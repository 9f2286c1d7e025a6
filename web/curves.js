// curves: numbers of a training over its steps: those that it reports, the time of its steps as the node's agent sees it, and
// the scalars in TensorBoard event files that it wrote into its folder. The files are read here, in bounded pieces, with the
// viewer's rights to the pod's results.
import { h, s } from "./dom.js";
import { ask, askJson } from "./link.js";

/** @typedef {import("./model.js").Job} Job */
/** @typedef {Map<string, [number, number][]>} Series points by name: step (or seconds) and value */

const FOLDERS_MAX = 4, FILES_MAX = 4, FILE_BYTES_MAX = 8 << 20, LIST_BYTES_MAX = 4 << 20;
const SERIES_MAX = 32, POINTS_MAX = 4000, DRAWN_MAX = 300, NAME_MAX = 100;
const AGAIN_MS = 15000;

/**
 * At most `max` bytes of an answer; the rest is not fetched.
 * @param {string} path
 * @param {number} max
 */
async function some(path, max) {
    const stop = new AbortController();
    const reader = (await ask(path, { signal: stop.signal })).body?.getReader();
    const bytes = new Uint8Array(max);
    let size = 0;
    while (reader && size < max) {
        const { value, done } = await reader.read();
        if (done)
            break;
        const part = value.subarray(0, max - size);
        bytes.set(part, size);
        size += part.length;
    }
    stop.abort();
    return bytes.subarray(0, size);
}

/** @param {Uint8Array} bytes */
const viewOf = bytes => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/**
 * The frames of pods/results: one byte of type, four of length, the payload.
 * @param {Uint8Array} bytes
 * @returns {Generator<[string, Uint8Array]>}
 */
function* frames(bytes) {
    for (let at = 0; at + 5 <= bytes.length;) {
        const size = viewOf(bytes).getUint32(at + 1);
        yield [String.fromCharCode(bytes[at]), bytes.subarray(at + 5, at + 5 + size)];
        at += 5 + size;
    }
}

/**
 * The fields of a protobuf message: number, wire type, and the number or bytes.
 * @param {Uint8Array} bytes
 * @returns {Generator<[number, number, Uint8Array, number]>}
 */
function* fields(bytes) {
    let at = 0;
    const varint = () => {
        let value = 0;
        for (let shift = 0; at < bytes.length && shift < 70; shift += 7) {
            const byte = bytes[at++];
            value += (byte & 127) * 2 ** shift;
            if (byte < 128)
                return value;
        }
        at = bytes.length;
        return 0;
    };
    while (at < bytes.length) {
        const key = varint(), wire = key & 7;
        let size = 0, number = 0;
        if (wire === 0)
            number = varint();
        else if (wire === 1)
            size = 8;
        else if (wire === 5)
            size = 4;
        else if (wire === 2)
            size = varint();
        else
            return;
        if (at + size > bytes.length)
            return;
        yield [key >>> 3, wire, bytes.subarray(at, at + size), number];
        at += size;
    }
}

/** The float of a TensorProto with one value. @param {Uint8Array} bytes */
function tensorValue(bytes) {
    let type = 0, value = NaN;
    for (const [field, , part, number] of fields(bytes)) {
        if (field === 1)
            type = number;
        if ((field === 4 || field === 5) && part.length === 4)
            value = viewOf(part).getFloat32(0, true);
    }
    return type === 1 ? value : NaN;
}

/**
 * The scalars of an event file; a record that is cut or is none ends it.
 * @param {Uint8Array} bytes
 * @param {Series} into
 */
export function readEvents(bytes, into) {
    const view = viewOf(bytes);
    for (let at = 0; at + 16 <= bytes.length;) {
        const size = view.getUint32(at, true);
        if (view.getUint32(at + 4, true) || at + 16 + size > bytes.length)
            return;
        let step = 0;
        /** @type {Uint8Array[]} */
        const values = [];
        for (const [field, wire, part, number] of fields(bytes.subarray(at + 12, at + 12 + size))) {
            if (field === 2 && wire === 0)
                step = number;
            else if (field === 5 && wire === 2)
                for (const [inner, , value] of fields(part))
                    if (inner === 1)
                        values.push(value);
        }
        for (const value of values) {
            let tag = "", number = NaN;
            for (const [field, wire, part] of fields(value)) {
                if (field === 1 && wire === 2)
                    tag = new TextDecoder().decode(part.subarray(0, NAME_MAX));
                else if (field === 2 && wire === 5)
                    number = viewOf(part).getFloat32(0, true);
                else if (field === 8 && wire === 2)
                    number = tensorValue(part);
            }
            add(into, tag, step, number);
        }
        at += 16 + size;
    }
}

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
        for (const folder of folders.slice(0, FOLDERS_MAX))
            await this.read(`${path}/results?folder=${encodeURIComponent(folder)}`, found);
        this.files = found;
    }

    /** @param {string} path @param {Series} found */
    async read(path, found) {
        /** @type {string[]} */
        const names = [];
        for (const [type, payload] of frames(await some(path + "&list=true", LIST_BYTES_MAX))) {
            if (type !== "E" || payload.length < 29)
                continue;
            const name = new TextDecoder().decode(payload.subarray(29, 29 + viewOf(payload).getUint16(27)));
            if (/(^|\/)events\.out\.tfevents\.[^/]*$/.test(name))
                names.push(name);
        }
        for (const name of names.sort().slice(-FILES_MAX)) {
            const whole = new Uint8Array(FILE_BYTES_MAX);
            let size = 0;
            for (const [type, payload] of frames(await some(`${path}&path=${encodeURIComponent(name)}`, FILE_BYTES_MAX))) {
                if (type !== "B" || payload.length < 36)
                    continue;
                const part = payload.subarray(36 + viewOf(payload).getUint16(34)).subarray(0, FILE_BYTES_MAX - size);
                whole.set(part, size);
                size += part.length;
            }
            readEvents(whole.subarray(0, size), found);
        }
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
