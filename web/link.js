// link: requests to this server as the viewer, and the one change stream of this tab.

const KEY = "muster-key";

export class Refused extends Error {
    /**
     * @param {number} status
     * @param {string} message
     */
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

/** @param {Response} answer */
async function refusal(answer) {
    const text = await answer.text();
    try {
        return new Refused(answer.status, JSON.parse(text).message || text);
    } catch {
        return new Refused(answer.status, text || answer.statusText);
    }
}

/**
 * @param {string} path below /ui
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
export async function ask(path, options = {}) {
    const headers = { ...options.headers, "X-Muster-Key": localStorage.getItem(KEY) ?? "" };
    const answer = await fetch("/ui" + path, { ...options, headers, credentials: "same-origin", redirect: "error" });
    if (!answer.ok)
        throw await refusal(answer);
    return answer;
}

/** @param {string} path */
export const askJson = async path => (await ask(path)).json();

/**
 * @param {string} path
 * @param {object} patch
 */
export const patch = (path, patch) => ask(path, {
    method: "PATCH", body: JSON.stringify(patch), headers: { "Content-Type": "application/merge-patch+json" },
});

/**
 * Signs in with the code of a link, or a token.
 * @param {{code?: string, token?: string}} what
 */
export async function signIn(what) {
    const answer = await ask("/session", {
        method: "POST", body: JSON.stringify(what), headers: { "Content-Type": "application/json" },
    });
    const { key, ...who } = await answer.json();
    localStorage.setItem(KEY, key);
    return who;
}

export async function signOut() {
    await ask("/session", { method: "DELETE" }).catch(() => {});
    localStorage.removeItem(KEY);
}

/**
 * The text of an answer that goes on, line by line. Ends with the answer, or when `signal` says so.
 * @param {string} path
 * @param {(line: string) => void} line
 * @param {AbortSignal} signal
 */
export async function lines(path, line, signal) {
    const answer = await ask(path, { signal });
    if (!answer.body)
        return;
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
        const { value, done } = await reader.read();
        if (done)
            break;
        const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = parts.pop() ?? "";
        for (const part of parts)
            line(part);
    }
    if (rest)
        line(rest);
}

/**
 * @typedef {object} StreamEvents
 * @property {(number: number, type: string, object: any, message: string) => void} change
 * @property {() => void} begin  everything is told anew
 * @property {(state: "live" | "connecting" | "lost" | "signed-out", why: string) => void} state
 */

const RETRY_MS_MAX = 15000;
const SILENCE_MS_MAX = 40000; // the server says PING every 15 s

/**
 * The change stream; comes back by itself when it breaks. Returns what ends it.
 * @param {string[]} watches
 * @param {string} namespace
 * @param {StreamEvents} events
 */
export function stream(watches, namespace, events) {
    const stop = new AbortController();
    let failures = 0;
    const query = watches.map(w => "watch=" + encodeURIComponent(w)).join("&") +
        (namespace ? "&namespace=" + encodeURIComponent(namespace) : "");

    const once = async () => {
        const quiet = new AbortController();
        let heard = Date.now();
        const timer = setInterval(() => Date.now() - heard > SILENCE_MS_MAX && quiet.abort(), 5000);
        const end = () => quiet.abort();
        stop.signal.addEventListener("abort", end);
        let first = true;
        try {
            await lines("/stream?" + query, text => {
                heard = Date.now();
                if (first) {
                    first = false;
                    failures = 0;
                    events.begin();
                    events.state("live", "");
                }
                const { w, t, o, message } = JSON.parse(text);
                if (t !== "PING" && t !== "AGAIN")
                    events.change(w, t, o, message ?? "");
            }, quiet.signal);
        } finally {
            clearInterval(timer);
            stop.signal.removeEventListener("abort", end);
        }
    };
    const run = async () => {
        events.state("connecting", "");
        while (!stop.signal.aborted) {
            let why = "the server ended the stream";
            try {
                await once();
            } catch (e) {
                if (e instanceof Refused && e.status === 401) {
                    events.state("signed-out", e.message);
                    return;
                }
                why = e instanceof Refused ? e.message : "the server cannot be reached";
            }
            if (stop.signal.aborted)
                return;
            failures++;
            const pause = Math.min(RETRY_MS_MAX, 250 * 2 ** Math.min(failures, 6));
            events.state("lost", why);
            await new Promise(done => setTimeout(done, pause));
        }
    };
    run();
    return () => stop.abort();
}
