// live: a job that is submitted while the page is open appears, runs, logs and ends, without a reload; what it says stays text.
import { job, kubectl, link, main } from "./browser.mjs";

const MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>";

const EVENTS = `
import struct, os
def field(n, b): return bytes([n << 3 | 2, len(b)]) + b
os.makedirs("runs", exist_ok=True)
with open("runs/events.out.tfevents.1.host", "wb") as f:
    for step in range(10):
        value = field(1, b"train/loss") + bytes([2 << 3 | 5]) + struct.pack("<f", 1 / (step + 1))
        event = bytes([1 << 3 | 1]) + struct.pack("<d", 1.0) + bytes([2 << 3, step]) + field(5, field(1, value))
        f.write(struct.pack("<QI", len(event), 0) + event + struct.pack("<I", 0))
    f.write(b"\\xff" * 30)
`;

/** The job with an emptyDir at /out: such folders can be read from outside. */
function withFolder(text) {
    const object = JSON.parse(text);
    const { spec } = object.spec.pytorchReplicaSpecs.Worker.template;
    spec.volumes = [{ name: "out", emptyDir: {} }];
    spec.containers[0].volumeMounts = [{ name: "out", mountPath: "/out" }];
    return JSON.stringify(object);
}

/** Waits until the browser has complained of it; these complaints were wanted. */
async function noticed(troubles, words) {
    while (!troubles.some(t => words.test(t)))
        await new Promise(done => setTimeout(done, 20)); // the whole test has a limit
    troubles.splice(0);
}

await main(async ({ page, troubles }) => {
    await page.goto(link);
    await page.locator("main[data-view=overview] .tiles").waitFor();
    if (/[0-9a-f]{64}/.test(page.url()))
        throw new Error(`the code stays in the address: ${page.url()}`);
    await page.evaluate("window.same = true");
    kubectl(["apply", "-f", "-"], job("seen-live", `echo 'hello ${MARKUP}'`, 0, { labels: { user: null }, annotations: { "torchrun.ai/user": MARKUP } }));
    kubectl(["create", "-f", "-"], JSON.stringify({
        apiVersion: "v1", kind: "Event", metadata: { name: "marked", namespace: "default" }, type: "Warning", reason: MARKUP, message: `it says ${MARKUP}`,
        involvedObject: { apiVersion: "kubeflow.org/v1", kind: "PyTorchJob", namespace: "default", name: "seen-live" }, lastTimestamp: new Date().toISOString(),
    }));
    await page.getByRole("link", { name: "seen-live" }).first().click();
    await page.locator("main[data-view=job] h1", { hasText: "seen-live" }).waitFor();
    await page.locator(".log", { hasText: `hello ${MARKUP}` }).waitFor();
    await page.locator(".pill.done").waitFor();
    await page.locator(".facts a", { hasText: MARKUP }).waitFor();
    await page.locator("td", { hasText: `it says ${MARKUP}` }).waitFor();
    await page.locator("summary", { hasText: "Manifest" }).click();
    await page.locator(".manifest", { hasText: "onerror=alert(2)" }).waitFor();
    await page.getByLabel("Search this log").fill("no such words");
    await page.getByText("0 lines of 1").waitFor();
    // What is drawn again keeps the focus.
    kubectl(["label", "pytorchjob", "seen-live", "user=ben", "--overwrite"]);
    await page.locator(".facts", { hasText: "ben" }).first().waitFor();
    if (!await page.getByLabel("Search this log").evaluate(e => e === document.activeElement))
        throw new Error("the field lost the focus when the view was drawn again");
    if (!await page.evaluate("window.same"))
        throw new Error("the page was loaded again");
    if (await page.locator("main script, main img[src=x]").count())
        throw new Error("what a job said became markup");
    // In addresses too.
    await page.goto(`${process.env.MUSTER_URL}/ui/user/${encodeURIComponent(MARKUP)}`);
    await page.locator("h1", { hasText: MARKUP }).waitFor();
    await page.goto(`${process.env.MUSTER_URL}/ui/job/default/PyTorchJob/${encodeURIComponent(MARKUP)}`);
    await page.locator("h1", { hasText: MARKUP }).waitFor();
    if (await page.locator("main script, main img[src=x]").count())
        throw new Error("an address became markup");
    // What the policy forbids is noticed: such a thing in the page would fail this test.
    await page.evaluate(() => document.body.append(Object.assign(document.createElement("img"), { src: "https://elsewhere.invalid/x.png" })));
    await noticed(troubles, /Content.Security/);
    await page.evaluate(() => { try { document.body.innerHTML = "<b>no</b>"; } catch (e) { console.error(String(e)); } });
    await noticed(troubles, /Trusted/);
    // Curves of the event files that a job wrote, as TensorBoard reads them; broken bytes at the end do no harm.
    kubectl(["apply", "-f", "-"], withFolder(job("curved", `cd /out; python3 -c '${EVENTS}'; sleep 600`)));
    await page.goto(`${process.env.MUSTER_URL}/ui/job/default/PyTorchJob/curved`);
    const loss = page.locator("figure.curve", { hasText: "train/loss" });
    await loss.waitFor();
    if (!/train\/loss: 0.1 at 9, between 0.1 and 1$/.test(await loss.locator("svg").getAttribute("aria-label")))
        throw new Error(`the curve says ${await loss.locator("svg").getAttribute("aria-label")}`);
});
