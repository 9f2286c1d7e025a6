// model: the objects of the cluster as the API tells them, and what the views read from them.
import { plural, quantity, time } from "./format.js";

/** @typedef {any} Obj an object of the API */

/**
 * @typedef {object} JobKind
 * @property {string} kind
 * @property {string} path group/version of its address
 * @property {string} plural
 * @property {string} suspend where its manifest says that it waits
 */

/** The kinds of jobs, in the order of the menu. @type {JobKind[]} */
export const JOB_KINDS = [
    { kind: "TorchrunJob", path: "torchrun.ai/v1alpha1", plural: "torchrunjobs", suspend: "spec.suspend" },
    { kind: "PyTorchJob", path: "kubeflow.org/v1", plural: "pytorchjobs", suspend: "spec.runPolicy.suspend" },
    { kind: "TFJob", path: "kubeflow.org/v1", plural: "tfjobs", suspend: "spec.runPolicy.suspend" },
    { kind: "XGBoostJob", path: "kubeflow.org/v1", plural: "xgboostjobs", suspend: "spec.runPolicy.suspend" },
    { kind: "JAXJob", path: "kubeflow.org/v1", plural: "jaxjobs", suspend: "spec.runPolicy.suspend" },
    { kind: "PaddleJob", path: "kubeflow.org/v1", plural: "paddlejobs", suspend: "spec.runPolicy.suspend" },
    { kind: "MPIJob", path: "kubeflow.org/v1", plural: "mpijobs", suspend: "spec.runPolicy.suspend" },
    { kind: "TrainJob", path: "trainer.kubeflow.org/v1alpha1", plural: "trainjobs", suspend: "spec.suspend" },
    { kind: "JobSet", path: "jobset.x-k8s.io/v1alpha2", plural: "jobsets", suspend: "spec.suspend" },
    { kind: "Job", path: "batch/v1", plural: "jobs", suspend: "spec.suspend" },
    { kind: "PyTorchTrainingJob", path: "batch.tensorstack.dev/v1beta1", plural: "pytorchtrainingjobs", suspend: "" },
];

/** What the one stream of a tab watches. */
export const WATCHES = [
    "v1/nodes", "scheduling.run.ai/v2/queues", "scheduling.run.ai/v2alpha2/podgroups", "v1/pods",
    ...JOB_KINDS.map(k => `${k.path}/${k.plural}`), "kai.scheduler/v1alpha1/topologies",
];
const PODS = 3, TOPOLOGIES = WATCHES.length - 1;
const HOST_LABEL = "kubernetes.io/hostname";
/** Where nodes are when no Topology says what their labels mean. */
const PLACE_LABELS = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "muster.dev/rack"];

/**
 * @typedef {object} Job
 * @property {string} uid
 * @property {JobKind | null} kind null: a gang that nothing owns
 * @property {string} kindName
 * @property {string} ns
 * @property {string} name
 * @property {Obj} object
 * @property {Obj | null} group
 * @property {Obj[]} pods
 * @property {"running" | "waiting" | "done" | "failed" | "suspended" | "ending"} state
 * @property {string} phase
 * @property {string} message
 * @property {string} queue
 * @property {string} user
 * @property {number} gpus asked for
 * @property {number} held GPUs
 * @property {number} created
 * @property {number} started 0: not yet
 * @property {number} ended 0: not yet
 * @property {[number, number][]} runs from, to; 0: it goes on
 * @property {number} restarts
 * @property {number} preemptions
 * @property {number} colour
 * @property {string} href
 */

/**
 * @typedef {object} Card a GPU of a node
 * @property {number} index
 * @property {{job: Job | undefined, pod: Obj, share: number}[]} users
 * @property {string[]} suspended who had it and gave it up for a while
 * @property {string} reserved for whom it is kept; "": nobody
 * @property {boolean} unhealthy
 * @property {number} use percent of the time it was busy; -1: nobody measured
 * @property {number} mib of its memory in use
 */

const GPU = "nvidia.com/gpu";
const COLOURS = 12;
const GONE_MAX = 1000; // jobs that are no more, of which something is still remembered

/** @param {Obj} object */
export const uidOf = object => object.metadata.uid;

/** @param {string} text */
function hash(text) {
    let value = 2166136261;
    for (let i = 0; i < text.length; i++)
        value = Math.imul(value ^ text.charCodeAt(i), 16777619);
    return value >>> 0;
}

/**
 * @param {Obj} object
 * @param {string} path
 * @returns {any}
 */
export const at = (object, path) => path.split(".").reduce((value, name) => value?.[name], object);

/**
 * Objects by a word of theirs. A change costs as much as the words of one object, however many there are; `touched` says when
 * the objects of a word last changed, so that what is made of them is made again only then.
 */
class Index {
    /** @param {(object: Obj) => string[]} words */
    constructor(words) {
        this.words = words;
        /** @type {Map<string, Map<string, Obj>>} */
        this.objects = new Map();
        /** @type {Map<string, number>} */
        this.touches = new Map();
    }

    clear() {
        this.objects.clear();
        this.touches.clear();
    }

    /** @param {Obj | undefined} old @param {Obj | undefined} object @param {number} version */
    change(old, object, version) {
        const words = object ? this.words(object) : [];
        for (const word of old ? this.words(old) : []) {
            this.touches.set(word, version);
            const found = this.objects.get(word);
            if (words.includes(word) || !found) // it keeps its place among the others
                continue;
            found.delete(uidOf(old));
            if (!found.size)
                this.objects.delete(word);
        }
        for (const word of words) {
            const found = this.objects.get(word) ?? new Map();
            this.objects.set(word, found.set(uidOf(object), object));
            this.touches.set(word, version);
        }
    }

    /** @param {string} word @returns {Obj[]} */
    get(word) { return [...this.objects.get(word)?.values() ?? []]; }
    /** @param {string} word */
    touched(word) { return this.touches.get(word) ?? 0; }
}

/** @param {Obj} object */
const ownersOf = object => (object.metadata.ownerReferences ?? []).map(/** @param {Obj} o */ o => o.uid);

/** @param {Obj} pod by the name of their group, and by their owner's uid */
function gangWords(pod) {
    const named = pod.spec?.schedulingGroup?.podGroupName; // its group is told with its node
    const group = pod.metadata.annotations?.["pod-group-name"] ?? (named && `podgroup-${named}`);
    return group ? [...ownersOf(pod), `${pod.metadata.namespace}/${group}`] : ownersOf(pod);
}

/** @param {Obj} pod */
const nodeWords = pod => pod.spec?.nodeName && !isOver(pod) ? [pod.spec.nodeName] : [];
/** @param {Obj} pod one for which room is kept */
const nominatedWords = pod => !pod.spec?.nodeName && pod.status?.nominatedNodeName && !isOver(pod) ? [pod.status.nominatedNodeName] : [];

export class Model {
    constructor() {
        /** @type {Map<string, Obj>[]} */
        this.kinds = WATCHES.map(() => new Map());
        /** @type {string[]} what the viewer may not see, in the server's words */
        this.refused = [];
        /** Pods of others are not seen: those of one namespace, or none at all. */
        this.partial = false;
        this.synced = 0;
        this.told = 0;
        this.version = 0;
        this.nodeVersion = 0;
        this.gangs = new Index(gangWords);
        this.byNode = new Index(nodeWords);
        this.forNode = new Index(nominatedWords);
        this.groupsOf = new Index(ownersOf);
        /** @type {{version: number, jobs: Job[]}} */
        this.derived = { version: -1, jobs: [] };
        /** @type {Map<string, {job: Job, version: number}>} by uid: what was made, and when */
        this.made = new Map();
        /** @type {{version: number, nodes: Obj[]}} */
        this.sorted = { version: -1, nodes: [] };
        /** @type {{version: number, map: Map<string, Job>}} */
        this.owners = { version: -1, map: new Map() };
    }

    /** @param {boolean} partial */
    begin(partial = false) {
        this.partial = partial;
        for (const objects of [...this.kinds, this.gangs, this.byNode, this.forNode, this.groupsOf, this.made])
            objects.clear();
        this.refused = [];
        this.told = 0;
        this.nodeVersion = ++this.version;
    }

    /**
     * @param {number} number of the watch
     * @param {string} type
     * @param {Obj} object
     * @param {string} message
     */
    change(number, type, object, message) {
        this.version++;
        if (object)
            this.keep(number, object, type === "DELETED");
        else
            this.told++;
        if (type === "FORBIDDEN" && number !== TOPOLOGIES) // without it there is a guess
            this.refused.push(message);
        if (type === "FORBIDDEN" && number === PODS)
            this.partial = true;
    }

    /** @param {number} number @param {Obj} object @param {boolean} gone */
    keep(number, object, gone) {
        const objects = this.kinds[number];
        const old = objects.get(uidOf(object));
        const next = gone ? undefined : object;
        if (gone)
            objects.delete(uidOf(object));
        else
            objects.set(uidOf(object), object);
        if (number === 0)
            this.nodeVersion = this.version;
        if (number === 2)
            this.groupsOf.change(old, next, this.version);
        if (number === PODS)
            for (const index of [this.gangs, this.byNode, this.forNode])
                index.change(old, next, this.version);
    }

    /** All watches told their state, or why they do not. */
    get ready() { return this.told >= WATCHES.length; }
    get queues() { return [...this.kinds[1].values()].sort(byName); }
    /** GPUs that are held. Those of pods that are not seen are known from the queues they are charged to. */
    get held() {
        const seen = this.jobs.reduce((sum, job) => sum + job.held, 0);
        const charged = this.queues.filter(q => !q.spec?.parentQueue).reduce((sum, q) => sum + quantity(q.status?.allocated?.[GPU]), 0);
        return this.partial ? Math.max(seen, charged) : seen;
    }

    get groups() { return [...this.kinds[2].values()]; }
    get pods() { return [...this.kinds[3].values()]; }

    get nodes() {
        if (this.sorted.version !== this.nodeVersion)
            this.sorted = { version: this.nodeVersion, nodes: [...this.kinds[0].values()].sort(byName) };
        return this.sorted.nodes;
    }

    /** Labels that say where a node is, widest first: those of the first Topology that a node has. @returns {string[]} */
    get places() {
        /** @type {string[][]} */
        const told = [...this.kinds[TOPOLOGIES].values()].sort(byName).map(t => (t.spec?.levels ?? []).map(/** @param {Obj} l */ l => l.nodeLabel).filter(/** @param {string} l */ l => l !== HOST_LABEL));
        return told.find(labels => this.nodes.some(n => labels.some(l => n.metadata.labels?.[l]))) ?? PLACE_LABELS;
    }

    /** @returns {Job[]} the newest first */
    get jobs() {
        if (this.derived.version !== this.version)
            this.derived = { version: this.version, jobs: this.makeJobs() };
        return this.derived.jobs;
    }

    /** @returns {Job[]} */
    makeJobs() {
        const taken = new Set();
        /** @type {Job[]} */
        const jobs = [];
        JOB_KINDS.forEach((kind, i) => {
            for (const object of this.kinds[4 + i].values()) {
                if (object.metadata.ownerReferences?.some(/** @param {Obj} o */ o => o.controller))
                    continue; // part of another job
                const groups = this.groupsOf.get(uidOf(object));
                const group = groups.filter(g => !g.status?.succeeded).pop() ?? groups[0] ?? null;
                if (group)
                    taken.add(uidOf(group));
                jobs.push(this.jobOf(kind, object, group));
            }
        });
        const owners = new Set(jobs.map(j => j.uid));
        /** @param {Obj} object */
        const isPart = object => ownersOf(object).some(/** @param {string} uid */ uid => owners.has(uid));
        for (const group of this.groups) {
            const pods = this.gangs.get(`${group.metadata.namespace}/${group.metadata.name}`);
            // The sync pod of a job has a group of its own, and is no job.
            if (!taken.has(uidOf(group)) && !isPart(group) && !(pods.length && pods.every(isPart)))
                jobs.push(this.jobOf(null, group, group));
        }
        if (this.made.size > jobs.length + GONE_MAX) {
            this.made.clear();
            this.gangs.touches.clear();
        }
        return jobs.sort((a, b) => b.created - a.created || (a.name < b.name ? -1 : 1));
    }

    /** One that as few as possible have of the jobs that are not over. @param {string} uid */
    colourFor(uid) {
        const uses = new Array(COLOURS).fill(0);
        for (const { job } of this.made.values())
            uses[job.colour] += job.ended ? 0.01 : 1;
        const first = hash(uid) % COLOURS;
        let best = first;
        for (let i = 1; i < COLOURS; i++)
            if (uses[(first + i) % COLOURS] < uses[best])
                best = (first + i) % COLOURS;
        return best;
    }

    /**
     * The job as it was made before, unless something of it has changed.
     * @param {JobKind | null} kind
     * @param {Obj} object
     * @param {Obj | null} group
     */
    jobOf(kind, object, group) {
        const uid = uidOf(object);
        const gang = group ? `${group.metadata.namespace}/${group.metadata.name}` : "";
        const changed = Math.max(this.gangs.touched(uid), this.gangs.touched(gang));
        const before = this.made.get(uid);
        if (before && before.version >= changed && before.job.object === object && before.job.group === group)
            return before.job;
        const pods = new Map([...this.gangs.get(uid), ...this.gangs.get(gang)].map(p => [uidOf(p), p]));
        const job = makeJob(kind, object, group, [...pods.values()].sort(byName));
        job.colour = before?.job.colour ?? this.colourFor(uid);
        this.made.set(uid, { job, version: this.version });
        return job;
    }

    /**
     * The GPUs of a node, each with who holds it.
     * @param {Obj} node
     * @param {Map<string, Job>} jobOfPod
     */
    cards(node, jobOfPod) {
        const count = Math.round(quantity(node.status?.capacity?.[GPU]));
        const healthy = Math.round(quantity(node.status?.allocatable?.[GPU]));
        const told = node.metadata.annotations?.["muster.dev/gpu-use"]?.split(",") ?? [];
        /** @type {Card[]} */
        const cards = Array.from({ length: count }, (_, index) => {
            const measured = /^(\d+)\/(\d+)$/.exec(told[index] ?? "");
            return { index, users: [], suspended: [], reserved: "", unhealthy: index >= healthy,
                use: measured ? Number(measured[1]) : -1, mib: measured ? Number(measured[2]) : 0 };
        });
        /** @type {[Obj, number][]} */
        const placeless = [];
        for (const pod of this.podsOn(node.metadata.name)) {
            const share = Number(pod.metadata.annotations?.["gpu-fraction"] ?? 1);
            const devices = pod.metadata.annotations?.["torchrun.ai/gpu-devices"];
            const job = jobOfPod.get(uidOf(pod));
            if (isSuspended(pod)) { // holds no GPU; where it had one, it is said
                for (const index of devices?.split(",").map(Number) ?? [])
                    cards[index]?.suspended.push(job?.name ?? pod.metadata.name);
                continue;
            }
            if (devices)
                for (const index of devices.split(",").map(Number))
                    cards[index]?.users.push({ job, pod, share });
            else if (podGpus(pod) > 0)
                placeless.push([pod, Math.ceil(podGpus(pod))]);
        }
        for (const [pod, wanted] of placeless) {
            const free = cards.filter(c => !c.users.length).slice(0, wanted);
            for (const card of free)
                card.users.push({ job: jobOfPod.get(uidOf(pod)), pod, share: Math.min(1, podGpus(pod)) });
        }
        for (const pod of this.podsFor(node.metadata.name))
            for (const card of cards.filter(c => !c.users.length && !c.reserved).slice(0, Math.ceil(podGpus(pod))))
                card.reserved = jobOfPod.get(uidOf(pod))?.name ?? pod.metadata.name;
        return cards;
    }

    /** Pods for which room is kept on a node. @param {string} name */
    podsFor(name) { return this.forNode.get(name); }
    /** @param {string} name */
    podsOn(name) { return this.byNode.get(name); }

    /** When something of a node's GPUs last changed: its pods, those that room is kept for, or whose they are. @param {string} name */
    touchedOn(name) {
        const pods = [...this.podsOn(name), ...this.podsFor(name)];
        const owners = this.jobOfPod();
        return [this.byNode.touched(name), this.forNode.touched(name), pods.filter(p => owners.has(uidOf(p))).length].join();
    }

    jobOfPod() {
        if (this.owners.version !== this.version) {
            /** @type {Map<string, Job>} */
            const map = new Map();
            for (const job of this.jobs)
                for (const pod of job.pods)
                    map.set(uidOf(pod), job);
            this.owners = { version: this.version, map };
        }
        return this.owners.map;
    }
}

/** One that knows numbers: making one for each comparison costs more than the comparison. */
const collator = new Intl.Collator(undefined, { numeric: true });
/** @param {string} a @param {string} b */
export const byText = (a, b) => collator.compare(a, b);
/** @param {Obj} a @param {Obj} b */
const byName = (a, b) => byText(a.metadata.name, b.metadata.name);

/** A pod that gave its GPUs up and stays. @param {Obj} pod */
export const isSuspended = pod => (pod.status?.conditions ?? []).some(/** @param {Obj} c */ c => c.type === "Suspended" && c.status === "True");

/** @param {Obj} pod */
export const isOver = pod => pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";

/** @param {Obj} pod */
export function podGpus(pod) {
    const fraction = Number(pod.metadata.annotations?.["gpu-fraction"] ?? 0);
    if (fraction)
        return fraction * Number(pod.metadata.annotations?.["gpu-fraction-num-devices"] ?? 1);
    return (pod.spec?.containers ?? []).reduce(
        /** @param {number} sum @param {Obj} c */ (sum, c) => sum + quantity(c.resources?.limits?.[GPU] ?? c.resources?.requests?.[GPU]), 0);
}

/** @param {Obj} object the last condition that is true */
function lastCondition(object) {
    return (object.status?.conditions ?? []).filter(/** @param {Obj} c */ c => c.status === "True").pop();
}

/** @param {string} phase @param {Obj} object @param {Obj | null} group @returns {Job["state"]} */
function stateOf(phase, object, group) {
    const over = (object.status?.conditions ?? []).find(/** @param {Obj} c */ c =>
        c.status === "True" && /^(Complete|Completed|Succeeded|Failed)$/.test(c.type));
    if (/fail|error/i.test(phase) || over?.type === "Failed")
        return "failed";
    if (/succe|complete|done/i.test(phase) || over)
        return "done";
    if (object.metadata.deletionTimestamp)
        return "ending";
    if (/suspend|paused/i.test(phase))
        return "suspended";
    if (group?.status?.running || /^running/i.test(phase))
        return "running";
    return "waiting";
}

const SLACK_MS = 2000; // a status has whole seconds

/**
 * When a job ran, by what its status tells: account_from() of src/api/account.c, which `status` and `history` count by.
 * @param {Obj} status
 * @param {number} end 0: it is not over
 * @param {number} first when a pod of it began, for kinds that tell no start; 0: none has
 * @returns {[number, number][]} from, to; 0: it goes on
 */
export function runsOf(status, end, first) {
    const start = time(status.startTime) || first;
    const told = status.runSeconds !== undefined;
    const before = (status.runSeconds ?? 0) * 1000;
    const last = time(status.runStartTime);
    if (!start)
        return [];
    if (!told)
        return [[last || first || start, end]];
    if (end) {
        const ran = before + (last && end > last ? end - last : 0);
        return ran > 0 ? [[end - ran > start + SLACK_MS ? end - ran : start, end]] : [];
    }
    /** @type {[number, number][]} */
    const runs = before > 0 ? [[start, start + before]] : [];
    return last ? [...runs, [last, 0]] : runs;
}

/**
 * How long it ran, of all of its time; the rest it waited.
 * @param {Job} job
 * @param {number} now
 */
export const ranFor = (job, now) => job.runs.reduce((sum, [from, to]) => sum + Math.max(0, (to || now) - from), 0);

/**
 * @param {Job} job
 * @param {number} now
 */
export const waitedFor = (job, now) => Math.max(0, (job.ended || now) - job.created - ranFor(job, now));

/**
 * The same of a job whose account is kept, by account_add() of src/api/account.c; null: it is not.
 * @param {{events?: [number, string, number, number?, number?][], end?: number} | null | undefined} account
 * @param {number} now
 * @returns {{waited: number, ran: number, gpu: number} | null} milliseconds; of each GPU that it held
 */
export function accountSums(account, now) {
    const events = account?.events ?? [], until = account?.end || now;
    if (!events.length)
        return null;
    const sums = { waited: 0, ran: 0, gpu: 0 };
    events.forEach(([from, state, gpus, , spare], i) => {
        const span = Math.max(0, Math.min(events[i + 1]?.[0] ?? until, until) - from), waits = state === "queued" || state === "idle";
        sums[waits ? "waited" : "ran"] += span;
        sums.gpu += span * ((waits ? 0 : gpus) + (spare ?? 0));
    });
    return sums;
}

/**
 * The last of the lines is what counts. Where nobody keeps accounts, the answer is a page.
 * @param {string} lines of /accounts, of one job
 */
export const lastAccount = lines => {
    const line = lines.trim().split("\n").pop();
    return line?.startsWith('{"uid"') ? JSON.parse(line).account ?? null : null;
};

/**
 * Anybody who may edit a pod can write it.
 * @param {string | undefined} text
 * @returns {any[]}
 */
function list(text) {
    try {
        const found = JSON.parse(text || "[]");
        return Array.isArray(found) ? found : [];
    } catch {
        return [];
    }
}

const TOLD_MS = 120e3; // by then a node has told of the ranks of a container, or why it cannot

/**
 * Whether its ranks are told of; if not, why, and what to do.
 * @param {Job} job
 * @param {number} now
 */
export function observed(job, now) {
    let ranks = 0, why = "", nobody = "";
    for (const pod of job.pods) {
        const { labels } = pod.metadata;
        if (!labels?.["torchrun.ai/role"] && !labels?.["jobset.sigs.k8s.io/jobset-name"])
            continue;
        nobody ||= job.state !== "running" ? "" : now - job.started < TOLD_MS ? "not yet" :
            "no: nobody tells of its ranks; on a cluster those of TorchrunJobs alone are told of";
        const told = list(pod.metadata.annotations?.["muster.dev/ranks"]);
        if (pod.metadata.annotations?.["muster.dev/observe"] === "off")
            why ||= 'the annotation muster.dev/observe is "off"; take it off';
        else if (told[0]?.unwatched)
            why ||= told[0].unwatched;
        else
            ranks += told.length;
    }
    return why ? `${ranks ? "in part" : "no"}: ${why}` : ranks ? `yes, ${plural(ranks, "rank")}` : nobody;
}

/**
 * @param {JobKind | null} kind
 * @param {Obj} object
 * @param {Obj | null} group
 * @param {Obj[]} pods
 * @returns {Job}
 */
function makeJob(kind, object, group, pods) {
    const status = object.status ?? {};
    const suspended = kind?.suspend && at(object, kind.suspend);
    const last = lastCondition(object);
    const phase = status.phase ?? (suspended ? "Suspended" : status.terminalState || last?.type || group?.status?.phase || "Pending");
    const state = suspended && !/succe|complete|fail/i.test(phase) ? "suspended" : stateOf(phase, object, group);
    const live = pods.filter(p => !isOver(p));
    const asked = quantity(status.numGPUs ?? at(group, "status.resourcesStatus.requested")?.[GPU]) ||
        live.reduce((sum, p) => sum + podGpus(p), 0);
    const starts = pods.map(p => time(p.status?.startTime)).filter(Boolean);
    const end = time(status.completionTime ?? status.finishTime) ||
        (state === "done" || state === "failed" ? time(last?.lastTransitionTime) : 0);
    const runs = state === "waiting" && status.runSeconds === undefined ? [] : runsOf(status, end, starts.length ? Math.min(...starts) : 0);
    const labels = { ...group?.metadata.labels, ...object.metadata.labels };
    const { namespace: ns, name, uid } = object.metadata;
    const kindName = kind?.kind ?? "PodGroup";
    return {
        uid, kind, kindName, ns, name, object, group, pods, state, phase,
        message: state === "waiting" ? group?.status?.message || status.message || last?.message || "" : status.message || last?.message || "",
        queue: group?.spec?.queue ?? labels["kai.scheduler/queue"] ?? object.spec?.jobQueue ?? "",
        user: labels.user ?? object.metadata.annotations?.["torchrun.ai/user"] ?? "",
        gpus: asked,
        held: live.filter(p => p.spec?.nodeName).reduce((sum, p) => sum + podGpus(p), 0),
        created: time(object.metadata.creationTimestamp),
        started: state === "waiting" ? 0 : runs.length ? runs[runs.length - 1][0] : 0,
        ended: end,
        runs,
        restarts: status.restarts ?? 0,
        preemptions: status.preemptions ?? 0,
        colour: 0, // the model gives it one
        href: `/ui/job/${encodeURIComponent(ns)}/${kindName}/${encodeURIComponent(name)}`,
    };
}

/**
 * GPUs that a queue's status tells under `field`.
 * @param {Obj} queue
 * @param {string} field
 */
export const queueGpus = (queue, field) => quantity(queue.status?.[field]?.[GPU]);

/** @param {Obj} node */
export function nodeTrouble(node) {
    const ready = (node.status?.conditions ?? []).find(/** @param {Obj} c */ c => c.type === "Ready");
    if (ready?.status !== "True")
        return `is not ready: ${ready?.message ?? "it says nothing"}`;
    return node.spec?.unschedulable ? "is cordoned: nothing new starts there" : "";
}

/** What has a job's folder and no rank of it. @param {Obj} pod */
export const isSync = pod => pod.metadata.labels?.["torchrun.ai/role"] === "sync" || /-sync-\d+$/.test(pod.metadata.name);

/** @param {Obj} node */
export const nodeGpus = node => quantity(node.status?.capacity?.[GPU]);
