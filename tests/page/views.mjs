// views: every view with real jobs, wide and at 360 pixels: nothing sticks out, and axe-core finds nothing serious.
import { axe, job, kubectl, link, main } from "./browser.mjs";

await main(async ({ page, troubles }) => {
    kubectl(["apply", "-f", "-"], job("steady", "while :; do echo step; sleep 2; done"));
    kubectl(["apply", "-f", "-"], job("broken", "echo no", 3));
    await page.goto(link);
    await page.locator("main[data-view=overview] .pill.running").first().waitFor();
    await page.locator(".alarms", { hasText: "broken" }).waitFor();
    const views = ["", "gpus", "timeline", "whatif", "job/default/PyTorchJob/steady", "job/default/PyTorchJob/broken", "queue/default-queue",
        "node/node-0", "user/ann", "job/default/PyTorchJob/nothing", "nowhere"];
    for (const view of views)
        for (const [width, scheme] of [[1280, "light"], [1280, "dark"], [360, "light"]]) {
            await page.setViewportSize({ width, height: 800 });
            await page.emulateMedia({ colorScheme: scheme });
            await page.goto(`${process.env.MUSTER_URL}/ui/${view}`);
            await page.locator(".live.live").waitFor();
            await page.locator("main .card").first().waitFor();
            const wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
            if (wide > 0)
                troubles.push(`/ui/${view} is ${wide} pixels wider than ${width}`);
            troubles.push(...(await axe(page)).map(t => `/ui/${view} ${scheme} ${width}: ${t}`));
        }
    // GPUs: the fill is what was measured, which an agent tells where cards are real.
    kubectl(["annotate", "node", "node-0", "node-1", "muster.dev/gpu-use=85/40960,0/0,0/0,0/0"]);
    await page.goto(`${process.env.MUSTER_URL}/ui/gpus`);
    await page.locator(".gpu.measured").first().waitFor();
    const said = await page.locator(".gpu.measured").first().getAttribute("aria-label");
    if (!/busy (85|0) % of the time/.test(said))
        troubles.push(`a GPU that was measured says "${said}"`);
    troubles.push(...(await axe(page)).map(t => `measured GPUs: ${t}`));
    // What if: one more job, and one that cannot fit, decided by the scheduler itself.
    await page.goto(`${process.env.MUSTER_URL}/ui/whatif`);
    await page.getByLabel("One more job").fill("gangs:\n- {name: maybe, queue: default-queue, pods: 2, gpus: 2}\n- {name: huge, queue: default-queue, pods: 9, gpus: 4}\n");
    await page.getByRole("button", { name: "What would happen?" }).click();
    await page.getByText("2 pods would start or move, 0 pods would be evicted, 1 group would wait.").waitFor();
    await page.getByLabel("One more job").fill("gangs: [");
    await page.getByRole("button", { name: "What would happen?" }).click();
    await page.locator(".answer .note.bad").waitFor();
    // Keys lead everywhere.
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(`${process.env.MUSTER_URL}/ui/`);
    await page.locator("main[data-view=overview] .tiles").waitFor();
    await page.keyboard.press("2");
    await page.locator("main[data-view=gpus]").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("no-such-node");
    await page.getByText('No node or job matches "no-such-node".').waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("1");
    await page.locator("main[data-view=overview]").waitFor();
});
