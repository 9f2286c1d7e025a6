// live: a job that is submitted while the page is open appears, runs, logs and ends, without a reload; what it says stays text.
import { job, kubectl, link, main } from "./browser.mjs";

const MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>";

await main(async ({ page }) => {
    await page.goto(link);
    await page.locator("main[data-view=overview] .tiles").waitFor();
    if (/[0-9a-f]{64}/.test(page.url()))
        throw new Error(`the code stays in the address: ${page.url()}`);
    await page.evaluate("window.same = true");
    kubectl(["apply", "-f", "-"], job("seen-live", `echo 'hello ${MARKUP}'`));
    await page.getByRole("link", { name: "seen-live" }).first().click();
    await page.locator("main[data-view=job] h1", { hasText: "seen-live" }).waitFor();
    await page.locator(".log", { hasText: `hello ${MARKUP}` }).waitFor();
    await page.locator(".pill.done").waitFor();
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
});
