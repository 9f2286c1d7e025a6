// shots: pictures of the views, for docs/page and for people to look at: light, dark and narrow.
// node shots.mjs FOLDER LINK ADDRESS... (MUSTER_URL, MUSTER_CHROMIUM and MUSTER_PAGE_CACHE in the environment)
import { open } from "./browser.mjs";

const [folder, link, ...addresses] = process.argv.slice(2);
const { browser, page, troubles } = await open();
await page.goto(link);
await page.locator("main[data-view=overview] .tiles").waitFor();
for (const address of addresses) {
    const name = address ? address.replace(/^job\/.*\//, "job-").replace(/\//g, "-") : "overview";
    for (const [form, width, scheme] of [["light", 1280, "light"], ["dark", 1280, "dark"], ["narrow", 360, "light"]]) {
        await page.setViewportSize({ width, height: form === "narrow" ? 760 : 860 });
        await page.emulateMedia({ colorScheme: scheme });
        await page.goto(`${process.env.MUSTER_URL}/ui/${address}`);
        await page.locator(".grid").waitFor();
        await page.waitForLoadState("load");
        await page.locator(".live.live").waitFor();
        await page.screenshot({ path: `${folder}/${name}-${form}.png` });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0)
            troubles.push(`${address} ${form}: ${wide} pixels wider than the screen`);
    }
}
await browser.close();
for (const trouble of troubles)
    console.error(trouble);
process.exit(troubles.length ? 1 : 0);
