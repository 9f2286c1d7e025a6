// bench: what a person waits for at the page of a large cluster; prints one line of JSON. bench.py starts it.
// MUSTER_URL, MUSTER_CHROMIUM and MUSTER_PAGE_CACHE as for the tests; MUSTER_TOKEN writes; MUSTER_JOB is a running PyTorchJob.
import https from "node:https";
import { link, open } from "./browser.mjs";

const LOADS = 5, CHANGES = 10;
const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false });

/** A write, and when it was answered: then it is committed. */
function label(value) {
    const url = `${process.env.MUSTER_URL}/apis/kubeflow.org/v1/namespaces/team-0/pytorchjobs/${process.env.MUSTER_JOB}`;
    return new Promise((done, fail) => {
        const request = https.request(url, {
            method: "PATCH", agent, headers: { Authorization: `Bearer ${process.env.MUSTER_TOKEN}`, "Content-Type": "application/merge-patch+json" },
        }, answer => {
            const at = Date.now();
            answer.resume();
            answer.on("end", () => answer.statusCode === 200 ? done(at) : fail(new Error(`a change was answered ${answer.statusCode}`)));
        });
        request.on("error", fail);
        request.end(JSON.stringify({ metadata: { labels: { user: value } } }));
    });
}

const { browser, page } = await open();
await page.goto(link);
await page.locator("main[data-view=overview] .tiles").waitFor();
const paints = [], whole = [], seen = [], views = {};
for (let i = 0; i < LOADS; i++) {
    await page.goto(`${process.env.MUSTER_URL}/ui/`);
    await page.locator("main[data-view=overview] .tiles").waitFor();
    const [paint, data] = await page.evaluate(() => {
        const [nav] = performance.getEntriesByType("navigation");
        const first = performance.getEntriesByName("first-contentful-paint")[0];
        return [first.startTime - nav.responseEnd, performance.now() - nav.responseEnd];
    });
    paints.push(paint);
    whole.push(data);
}
// The job's own page is open: its user is drawn there. A running page looks at every frame.
await page.goto(`${process.env.MUSTER_URL}/ui/job/team-0/PyTorchJob/${process.env.MUSTER_JOB}`);
await page.locator(".facts").first().waitFor();
for (let i = 0; i < CHANGES; i++) {
    const name = `user-${i}-${Date.now()}`;
    const shown = page.evaluate(word => new Promise(done => {
        const look = () => document.querySelector(`a[href="/ui/user/${word}"]`) ? done(Date.now()) : requestAnimationFrame(look);
        look();
    }), name);
    const committed = await label(name);
    seen.push(Math.max(0, await shown - committed));
    await new Promise(done => setTimeout(done, 300));
}
for (const view of ["gpus", "timeline"]) {
    const began = Date.now();
    await page.goto(`${process.env.MUSTER_URL}/ui/${view}`);
    await page.locator(`main[data-view=${view}] .card`).first().waitFor();
    views[view] = Date.now() - began;
}
await browser.close();
console.log(JSON.stringify({ paints, whole, seen, views }));
