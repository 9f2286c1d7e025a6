// app: signing in, addresses, the frame around the views, and drawing them when something changes.
import { h, morph } from "./dom.js";
import { askJson, signIn, signOut, stream } from "./link.js";
import { Model, WATCHES } from "./model.js";
import * as views from "./views.js";
import { timeline } from "./timeline.js";
import { act, job } from "./job.js";
import { whatif } from "./whatif.js";

/** @type {Record<string, {title: string, draw: views.View, key?: string}>} */
const VIEWS = {
    "": { title: "Overview", draw: views.overview, key: "1" },
    gpus: { title: "GPUs", draw: views.gpus, key: "2" },
    timeline: { title: "Timeline", draw: timeline, key: "3" },
    whatif: { title: "What if", draw: whatif, key: "4" },
    job: { title: "Job", draw: job },
    queue: { title: "Queue", draw: views.queue },
    node: { title: "Node", draw: views.node },
    user: { title: "User", draw: views.user },
};
const DRAW_MS_MIN = 60; // between two drawings; more when drawing is slow: at most a third of the time is spent on it

const model = new Model();
const top_ = /** @type {HTMLElement} */ (document.getElementById("top"));
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const said = /** @type {HTMLElement} */ (document.getElementById("said"));

const app = {
    /** @type {{user: string, owner: boolean, version: string, cluster?: boolean} | null} */
    who: null,
    live: { state: "connecting", why: "" },
    filter: "",
    /** @type {any[]} */
    events: [],
    eventsAt: 0,
    /** @type {Record<string, any>} */
    state: {},
    address: "",
    stop: () => {},
    due: 0,
    cost: 0,
    last: 0,
};

/** @param {string} text */
const say = text => { said.textContent = text; };
const namespace = () => new URLSearchParams(location.search).get("ns") ?? "";

/* ---- addresses ---- */

function route() {
    const parts = location.pathname.replace(/^\/ui\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
    const name = parts[0] ?? "";
    return { name, view: VIEWS[name], params: parts.slice(1) };
}

/** @param {string} href */
function go(href) {
    const url = new URL(href, location.href);
    if (namespace() && !url.searchParams.has("ns"))
        url.searchParams.set("ns", namespace());
    history.pushState(null, "", url);
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
    draw();
}

/* ---- drawing ---- */

function later() {
    if (app.due)
        return;
    const pause = Math.max(DRAW_MS_MIN, app.cost * 2) - (performance.now() - app.last);
    app.due = setTimeout(() => { app.due = 0; draw(); }, Math.max(0, pause));
}

function frame() {
    const { name } = route();
    const { state, why } = app.live;
    const words = state === "live" ? "Live" : state === "connecting" ? "Connecting…" : "Not connected, trying again";
    const ns = namespace();
    return h("header", { id: "top" },
        h("a", { class: "brand", href: "/ui/" }, h("img", { src: "/ui/a/icon.svg", alt: "", width: 22, height: 22 }), "Muster"),
        h("nav", { "aria-label": "Views" }, Object.entries(VIEWS).filter(([, v]) => v.key).map(([key, v]) =>
            h("a", { href: `/ui/${key}`, "aria-current": key === name ? "page" : null, "aria-keyshortcuts": v.key }, v.title))),
        h("label", { class: "filter" }, h("span", { class: "aside" }, "Filter"), h("input", { type: "search", id: "filter", placeholder: "Filter ( / )", autocomplete: "off", "aria-keyshortcuts": "/" })),
        h("span", { class: `live ${state}`, title: why || words, role: "status" }, h("i", { "aria-hidden": "true" }), words),
        ns ? h("a", { class: "chip", href: location.pathname, "data-do": "all", title: "Show all namespaces" }, `namespace ${ns} ×`) : null,
        h("details", { class: "menu" }, h("summary", { "aria-label": "Menu" }, "⋯"), h("div", null,
            h("p", { class: "sub" }, app.who ? `Signed in as ${app.who.user}` : ""),
            h("button", { type: "button", "data-do": "namespace" }, "One namespace…"),
            h("button", { type: "button", "data-do": "theme" }, "Light or dark"),
            h("button", { type: "button", "data-do": "help" }, "Keys"),
            h("button", { type: "button", "data-do": "sign-out" }, "Sign out"),
            h("p", { class: "sub" }, app.who ? `Muster ${app.who.version}` : ""))));
}

function refusedNote() {
    if (!model.refused.length)
        return null;
    return h("details", { class: "note warn", key: "refused" }, h("summary", null, `You may not see everything here (${model.refused.length} kinds).`,
        namespace() ? "" : " If your rights are in one namespace, choose it:", " ", h("button", { type: "button", "data-do": "namespace" }, "One namespace…")),
    h("p", null, `You are ${app.who?.user}; rights come from role bindings for that name or its groups.`), h("ul", null, model.refused.map(m => h("li", null, m))));
}

function draw() {
    if (!app.who)
        return;
    const began = performance.now();
    const { view, params, name } = route();
    if (app.address !== location.pathname) {
        app.state.pane?.stop();
        app.address = location.pathname;
        app.state = {};
    }
    const title = view ? [params[params.length - 1], view.title].filter(Boolean).join(" · ") : "Not found";
    document.title = `${title} · Muster`;
    morph(top_, frame());
    let inside;
    if (!view)
        inside = h("section", { class: "card" }, h("h1", null, "There is no such view"), h("a", { href: "/ui/" }, "Back to the overview"));
    else if (!model.ready && !model.synced)
        inside = h("p", { class: "quiet" }, app.live.state === "lost" ? `${app.live.why}; trying again…` : "Loading…");
    else
        inside = view.draw({ model, now: Date.now(), params, filter: app.filter, events: app.events, state: app.state, redraw: later, cluster: !!app.who.cluster });
    if (model.ready)
        model.synced = 1;
    morph(main, h("main", { id: "main", tabindex: -1, "data-view": name || "overview" }, model.ready ? refusedNote() : null, inside));
    if (name === "timeline" && Date.now() - app.eventsAt > 10000)
        fetchEvents();
    app.last = performance.now();
    app.cost = app.last - began;
}

async function fetchEvents() {
    app.eventsAt = Date.now();
    const where = namespace() ? `/api/v1/namespaces/${encodeURIComponent(namespace())}/events` : "/api/v1/events";
    try {
        app.events = (await askJson(where + "?limit=2000")).items ?? [];
        later();
    } catch { /* the view says that nobody was evicted as far as it knows */ }
}

/* ---- what people do ---- */

/** @type {Record<string, (value: string) => void>} */
const DOES = {
    "sign-out": async () => { app.stop(); await signOut(); location.assign("/ui/"); },
    theme: () => {
        const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
        localStorage.setItem("muster-theme", document.documentElement.dataset.theme = dark ? "light" : "dark");
    },
    namespace: () => askNamespace(),
    all: () => { history.pushState(null, "", location.pathname); connect(); },
    help: () => tell("Keys", [["1, 2, 3, 4", "overview, GPUs, timeline, what if"], ["/", "filter"], ["Esc", "leave the filter, close what is open"], ["?", "this list"]]),
    act: value => {
        const [ns, kind, name] = route().params;
        const found = model.jobs.find(j => j.ns === ns && j.name === name && j.kindName === kind);
        if (found)
            act(value, found, say);
    },
    log: value => { app.state.pod = value; app.state.previous = false; app.state.generation = undefined; draw(); },
    generation: value => { app.state.generation = Number(value); app.state.previous = false; draw(); },
    container: value => { app.state.container = value; draw(); },
    previous: () => { app.state.previous = !app.state.previous; draw(); },
    span: value => { app.state.span = Number(value); draw(); },
};

/** @param {string} title @param {[string, string][]} rows */
function tell(title, rows) {
    const close = h("button", { type: "button" }, "Close");
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": title }, h("h2", null, title),
        h("dl", { class: "facts" }, rows.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v)))), h("div", { class: "buttons" }, close)));
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

function askNamespace() {
    const input = /** @type {HTMLInputElement} */ (h("input", { value: namespace(), "aria-label": "Namespace", autocomplete: "off", spellcheck: "false" }));
    const ok = h("button", { type: "button", class: "main" }, "Show");
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": "One namespace" }, h("h2", null, "One namespace"),
        h("p", null, "Only what is in it is shown. Empty: all of them."), input, h("div", { class: "buttons" }, ok)));
    const done = () => {
        const url = new URL(location.href);
        url.search = input.value.trim() ? "?ns=" + encodeURIComponent(input.value.trim()) : "";
        history.pushState(null, "", url);
        dialog.close();
        connect();
    };
    ok.addEventListener("click", done);
    input.addEventListener("keydown", e => e.key === "Enter" && done());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

document.addEventListener("click", event => {
    const target = /** @type {Element} */ (event.target);
    const doer = /** @type {HTMLElement | null} */ (target.closest("[data-do]"));
    const menu = /** @type {HTMLDetailsElement | null} */ (document.querySelector(".menu[open]"));
    if (menu && (!menu.contains(target) || doer))
        menu.open = false;
    if (doer?.dataset.do) {
        event.preventDefault();
        DOES[doer.dataset.do]?.(doer.dataset.value ?? "");
        return;
    }
    const link = /** @type {HTMLAnchorElement | null} */ (target.closest("a[href]"));
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0 && link.getAttribute("href")?.startsWith("/ui/")) {
        event.preventDefault();
        go(link.href);
    }
});
document.addEventListener("input", event => {
    const target = /** @type {HTMLInputElement} */ (event.target);
    if (target.id === "filter") {
        app.filter = target.value.trim();
        later();
    }
});
document.addEventListener("keydown", event => {
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
        return;
    if (event.key === "Escape" && target.id === "filter") {
        /** @type {HTMLInputElement} */ (target).value = app.filter = "";
        target.blur();
        later();
    } else if (!typing && event.key === "/") {
        event.preventDefault();
        document.getElementById("filter")?.focus();
    } else if (!typing && event.key === "?") {
        DOES.help("");
    } else if (!typing) {
        const chosen = Object.entries(VIEWS).find(([, v]) => v.key === event.key);
        if (chosen)
            go(`/ui/${chosen[0]}`);
    }
});
addEventListener("popstate", () => draw());

/* ---- beginning ---- */

function connect() {
    app.stop();
    app.stop = stream(WATCHES, namespace(), {
        begin: () => model.begin(!!namespace()),
        change: (number, type, object, message) => { model.change(number, type, object, message); later(); },
        state: (state, why) => {
            if (state === "lost" && app.live.state === "live")
                say("The connection is lost. What you see is as it was; trying again.");
            else if (state === "live" && app.live.state === "lost")
                say("Connected again.");
            app.live = { state, why };
            if (state === "signed-out")
                enter(why);
            else
                later();
        },
    });
}

const BACK = "muster-back"; // where the viewer was before the way to the issuer

/** The way over an issuer that signs people in, where there is one. @param {HTMLElement} into */
async function offer(into) {
    const { issuer } = await askJson("/login/issuer").catch(() => ({ issuer: "" }));
    if (!issuer)
        return;
    const button = h("button", { type: "button", class: "main" }, `Sign in at ${new URL(issuer).host}`);
    button.addEventListener("click", () => {
        sessionStorage.setItem(BACK, location.pathname + location.search);
        location.assign("/ui/login");
    });
    into.replaceChildren(h("div", { class: "buttons" }, button), h("p", { class: "sub" }, "Or with a token:"));
    button.focus();
}

/** The form for a token. @param {string} why */
function enter(why) {
    app.who = null;
    const other = h("div");
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false" }));
    const trouble = h("p", { class: "note bad", role: "alert", hidden: !why }, why);
    const form = h("form", { class: "card enter" }, h("h1", null, "Muster"),
        h("p", null, "Paste a token. With muster up, ", h("code", null, "muster open"), " prints a link that needs none."),
        trouble, other, h("label", { for: "token" }, "Token"), input, h("div", { class: "buttons" }, h("button", { class: "main" }, "Sign in")),
        h("p", { class: "sub" }, "A ServiceAccount's token: ", h("code", null, "kubectl create token NAME"), ". You see and do what it may, and nothing else."));
    form.addEventListener("submit", async event => {
        event.preventDefault();
        try {
            app.who = await signIn({ token: input.value.trim() });
            begin();
        } catch (e) {
            trouble.hidden = false;
            trouble.textContent = /** @type {Error} */ (e).message;
        }
    });
    top_.replaceChildren();
    main.replaceChildren(form);
    document.title = "Sign in · Muster";
    input.focus();
    offer(other);
}

function begin() {
    main.replaceChildren(h("p", { class: "quiet" }, "Loading…"));
    connect();
    draw();
    setInterval(() => document.hidden || later(), 5000); // durations go on
}

async function start() {
    const theme = localStorage.getItem("muster-theme");
    if (theme)
        document.documentElement.dataset.theme = theme;
    const code = location.pathname === "/ui/enter" ? location.hash.slice(1) : "";
    try {
        if (code) {
            const back = sessionStorage.getItem(BACK);
            sessionStorage.removeItem(BACK);
            history.replaceState(null, "", back ?? "/ui/" + location.search); // used up: it does not stay in the address
            app.who = await signIn({ code });
        } else {
            app.who = await askJson("/session");
        }
    } catch (e) {
        if (location.pathname === "/ui/enter")
            history.replaceState(null, "", "/ui/");
        enter(code ? /** @type {Error} */ (e).message : "");
        return;
    }
    begin();
}

start();
