// decisions: what the scheduler decided, and why, with real jobs: shares explained on a click, a place in line, when a job that
// waits will start, who made room for whom, and GPUs by where their nodes are.
import { axe, job, kubectl, link, main } from "./browser.mjs";

const STEADY = "while :; do echo step; sleep 2; done";
const limited = { "muster.dev/max-run-time": "30m" };

await main(async ({ page, troubles }) => {
    const url = process.env.MUSTER_URL;
    kubectl(["apply", "-f", "-"], job("first", STEADY, 0, { gpus: 4, labels: { priorityClassName: "build-preemptible" }, annotations: limited }));
    kubectl(["apply", "-f", "-"], job("yields", STEADY, 0, { gpus: 4, annotations: limited }));
    await page.goto(link);
    await page.locator("main[data-view=overview] tr", { hasText: "yields" }).locator(".pill.running").waitFor();
    kubectl(["apply", "-f", "-"], job("urgent", STEADY, 0, { gpus: 4, labels: { priorityClassName: "build-preemptible" }, annotations: limited }));
    await page.locator("tr", { hasText: "urgent" }).locator(".pill.running").waitFor();
    await page.locator("tr", { hasText: "yields" }).locator(".pill.waiting").waitFor();
    await page.locator("tr", { hasText: "yields" }).getByText("Number 1 in line.").waitFor();

    // A click explains the share of a queue.
    await page.locator(".queue summary", { hasText: "default-queue" }).click();
    await page.locator(".queue[open] .why", { hasText: "and asks for 12" }).waitFor();

    // The job's own page: why, where in line, and until when.
    await page.goto(`${url}/ui/job/default/PyTorchJob/yields`);
    const why = page.locator(".card", { hasText: "Why it waits" });
    await why.locator(".facts > div", { hasText: "In line" }).getByText("number 1").waitFor();
    await why.locator(".facts > div", { hasText: "Starts" }).getByText(/^in .* to .*\(\d+ %\)$/).waitFor();
    troubles.push(...(await axe(page)).map(t => `a job that waits: ${t}`));

    // The timeline: a band where it will start, and who made room for whom.
    await page.goto(`${url}/ui/timeline`);
    const line = page.locator(".line", { hasText: "yields" });
    await line.locator(".evicted").first().waitFor({ state: "attached" });
    await line.locator(".estimate").waitFor({ state: "attached" });
    const said = await line.locator("svg").getAttribute("aria-label");
    if (!/expected to start between .* and .*, gave way at .* to default\/urgent/.test(said))
        troubles.push(`the line of a job that gave way says "${said}"`);
    // It ran until it gave way, and waits since: that is drawn, and counted.
    const [run, gave, wait] = await Promise.all(["rect.waiting", "rect.evicted", "rect.wait"].map(part =>
        line.locator(part).evaluateAll(found => found.map(e => ["x", "width"].map(name => Number(e.getAttribute(name)))))));
    if (run.length !== 1 || run[0][0] + run[0][1] > gave[0][0] + 1 || run[0][1] >= wait[0][1])
        troubles.push(`the line of a job that gave way draws runs ${JSON.stringify(run)}, gave way at ${JSON.stringify(gave)}, waits ${JSON.stringify(wait)}`);
    const row = page.locator("section", { hasText: "Who made room for whom" }).locator("tbody tr").first();
    await row.locator("a", { hasText: "yields" }).waitFor();
    await row.locator("a", { hasText: "urgent" }).waitFor();
    troubles.push(...(await axe(page)).map(t => `timeline: ${t}`));

    // GPUs by topology; a cordoned node's free cards are told from others.
    const levels = ["example.org/block", "example.org/rack", "kubernetes.io/hostname"].map(nodeLabel => ({ nodeLabel }));
    kubectl(["apply", "-f", "-"], JSON.stringify({ apiVersion: "kai.scheduler/v1alpha1", kind: "Topology", metadata: { name: "hall" }, spec: { levels } }));
    kubectl(["label", "node", "node-0", "example.org/block=b1", "example.org/rack=r1"]);
    kubectl(["label", "node", "node-1", "example.org/block=b1", "example.org/rack=r2"]);
    await page.goto(`${url}/ui/gpus`);
    await page.getByRole("heading", { name: "b1 › r2 1 node, 4 GPUs" }).waitFor();
    kubectl(["delete", "pytorchjob", "first", "urgent", "yields"]);
    kubectl(["cordon", "node-1"]);
    await page.locator(".node", { hasText: "node-1" }).locator(".gpu.held").first().waitFor();
    await page.locator(".node", { hasText: "node-0" }).locator(".gpu.free").first().waitFor();
});
