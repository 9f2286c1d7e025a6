// signin: a person signs in at the issuer, comes back to the view that was asked for, and signs out; what went wrong is a page, too.
// MUSTER_ISSUER is its address: it signs in whoever comes, as alice.
import { main } from "./browser.mjs";

const issuer = process.env.MUSTER_ISSUER;

await main(async ({ page, troubles }) => {
    const button = page.getByRole("button", { name: `Sign in at ${new URL(issuer).host}` });
    await page.goto(`${process.env.MUSTER_URL}/ui/gpus`);
    await button.click();
    await page.locator("main[data-view=gpus]").waitFor();
    if (!page.url().endsWith("/ui/gpus"))
        throw new Error(`came back to ${page.url()}`);
    if (!/Signed in as oidc:alice@lab/.test(await page.locator(".menu").textContent()))
        throw new Error(`it is not alice: ${await page.locator(".menu").textContent()}`);
    await page.reload();
    await page.locator("main[data-view=gpus]").waitFor();
    await page.locator(".menu summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await button.waitFor();
    await page.goto(`${process.env.MUSTER_URL}/ui/callback?code=x&state=y`);
    await page.getByRole("alert").getByText("begun in another browser").waitFor();
    await page.getByRole("link", { name: "Sign in again" }).click();
    await button.waitFor();
    troubles.splice(0, Infinity, ...troubles.filter(t => !t.startsWith(`outside request: ${issuer}/`)));
});
