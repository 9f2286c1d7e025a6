// actions: what can be done with a job, behind a question and with the viewer's rights only.
import { job, kubectl, link, main } from "./browser.mjs";

/** Waits for what kubectl tells; the whole test has a limit. */
async function until(holds) {
    while (!holds())
        await new Promise(done => setTimeout(done, 200));
}

await main(async ({ page, context }) => {
    kubectl(["apply", "-f", "-"], job("acted-on", "while :; do echo step; sleep 2; done"));
    await page.goto(link);
    await page.getByRole("link", { name: "acted-on" }).first().click();
    await page.locator(".pill.running").waitFor();
    // Cancelled: nothing happens.
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    if (kubectl(["get", "pytorchjob", "acted-on", "-o", "jsonpath={.spec.runPolicy.suspend}"]) === "true")
        throw new Error("it was suspended although the question was cancelled");
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
    await page.locator(".pill.suspended").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.locator(".pill.running").waitFor();
    // Another priority, new pods.
    const said = (args) => kubectl(["get", ...args]).trim();
    await page.getByRole("button", { name: "Priority" }).click();
    await page.getByRole("dialog").getByLabel("Priority").fill("no-such-class");
    await page.getByRole("dialog").getByRole("button", { name: "Priority" }).click();
    await page.getByRole("alert").getByText('There is no priority class "no-such-class"').waitFor();
    await page.getByRole("dialog").getByLabel("Priority").fill("build");
    await page.getByRole("dialog").getByRole("button", { name: "Priority" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.locator(".facts > div", { hasText: "Priority" }).getByText("build", { exact: true }).waitFor();
    const uids = () => said(["pods", "-l", "training.kubeflow.org/job-name=acted-on", "-o", "jsonpath={.items[*].metadata.uid}"]);
    const before = uids();
    await page.getByRole("button", { name: "Restart" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await until(() => uids() && uids() !== before);
    await page.locator(".pill.running").waitFor();
    await page.locator(".facts > div", { hasText: "Priority" }).getByText("build", { exact: true }).waitFor(); // it is the job's now
    // Another number of GPUs; what is none is refused before anybody is asked.
    const torchrun = (kind, name, spec) => kubectl(["apply", "-f", "-"],
        JSON.stringify({ apiVersion: "torchrun.ai/v1alpha1", kind, metadata: { name, namespace: "default" }, spec }));
    torchrun("TorchrunQueue", "cards", { nodeResources: { gpus: 2, cpus: 1, memory: "1Gi" } });
    torchrun("TorchrunJob", "scaled", { numGPUs: 1, jobQueue: "cards", suspend: true, command: "sleep 600" });
    await page.goto(`${process.env.MUSTER_URL}/ui/job/default/TorchrunJob/scaled`);
    await page.getByRole("button", { name: "Scale" }).click();
    await page.getByRole("dialog").getByLabel("Scale").fill("many");
    await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
    await page.getByRole("alert").getByText('"many" is not a number of GPUs').waitFor();
    await page.getByRole("dialog").getByLabel("Scale").fill("2");
    await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await until(() => said(["torchrunjob", "scaled", "-o", "jsonpath={.spec.numGPUs}"]) === "2");

    // Who may only look is told so, and the job runs on.
    kubectl(["create", "serviceaccount", "looks"]);
    kubectl(["create", "clusterrolebinding", "looks", "--clusterrole=view", "--serviceaccount=default:looks"]);
    const token = kubectl(["create", "token", "looks"]).trim();
    await context.clearCookies();
    await page.goto(`${process.env.MUSTER_URL}/ui/job/default/PyTorchJob/acted-on`);
    await page.getByLabel("Token").fill("not a token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("is not good").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator(".pill.running").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("alert").getByText("You may not do that").waitFor();

    // Who has no rights at all sees nothing, and reads why.
    kubectl(["create", "serviceaccount", "nobody"]);
    await context.clearCookies();
    await page.goto(`${process.env.MUSTER_URL}/ui/`);
    await page.getByLabel("Token").fill(kubectl(["create", "token", "nobody"]).trim());
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("You may not see everything here").waitFor();
    if (await page.getByText("acted-on").count())
        throw new Error("somebody without rights sees a job");

    // The owner deletes it.
    await context.clearCookies();
    await page.goto(link);
    await page.getByRole("link", { name: "acted-on" }).first().click();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText('No PyTorchJob "default/acted-on"').waitFor();
});
