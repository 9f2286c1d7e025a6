// browser: a Chromium that the tests drive. playwright-core and axe-core come from the cache of tests/page/tools.sh.
// In the environment: MUSTER_URL, MUSTER_CHROMIUM, MUSTER_PAGE_CACHE, KUBECONFIG, MUSTER_TEST_PATIENCE.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";

const require = createRequire(process.env.MUSTER_PAGE_CACHE + "/");
const { chromium } = require("playwright-core");
const LIMIT_MS = 60000 * Number(process.env.MUSTER_TEST_PATIENCE ?? 1);

/** kubectl, with what it reads on standard input. */
export const kubectl = (args, input) => execFileSync("kubectl", args, { input, encoding: "utf8", timeout: LIMIT_MS });
/** The link of muster open. */
export const link = () => execFileSync("muster", ["open", "--print"], { encoding: "utf8", timeout: LIMIT_MS }).trim();

/** A browser; what it says of broken policies, errors of the page, and requests that go elsewhere, is collected. */
export async function open({ width = 1280, height = 900, dark = false } = {}) {
    const browser = await chromium.launch({
        executablePath: process.env.MUSTER_CHROMIUM, timeout: LIMIT_MS, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    });
    const context = await browser.newContext({
        ignoreHTTPSErrors: true, viewport: { width, height }, colorScheme: dark ? "dark" : "light", acceptDownloads: true,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(LIMIT_MS);
    // Tests beside this one make and remove network interfaces, and Chromium then gives a load up. A link is made anew.
    const goto = page.goto.bind(page);
    page.goto = async (url, left = 20) => {
        try {
            return await goto(typeof url === "function" ? url() : url);
        } catch (e) {
            if (left === 0 || !/ERR_NETWORK_CHANGED/.test(e.message))
                throw e;
            return page.goto(url, left - 1);
        }
    };
    const troubles = [];
    page.on("pageerror", e => troubles.push(`error: ${e.message}`));
    page.on("console", m => m.type() === "error" && /Content.Security|Refused to|Trusted/i.test(m.text()) && troubles.push(m.text()));
    page.on("request", r => {
        if (!r.url().startsWith(process.env.MUSTER_URL) && !r.url().startsWith("blob:"))
            troubles.push(`outside request: ${r.url()}`);
    });
    page.on("dialog", d => { troubles.push(`a dialog: ${d.message()}`); d.dismiss(); });
    return { browser, context, page, troubles };
}

/** What axe-core calls serious or critical. It runs in the page's isolated world, which the policy does not bind. */
export async function axe(page) {
    const session = await page.context().newCDPSession(page);
    const { frameTree } = await session.send("Page.getFrameTree");
    const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
    const evaluate = async expression => {
        const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
        if (exceptionDetails)
            throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
    };
    await evaluate(require("axe-core").source + "; 1");
    const found = JSON.parse(await evaluate("axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))"));
    await session.detach();
    return found.filter(v => v.impact === "serious" || v.impact === "critical")
        .map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.target.join(" ")).join("; ")}`);
}

/** A job that runs a command and ends with `code`. */
export const job = (name, command, code = 0, { gpus = 1, labels = {}, annotations = {} } = {}) => JSON.stringify({
    apiVersion: "kubeflow.org/v1", kind: "PyTorchJob",
    metadata: { name, namespace: "default", labels: { user: "ann", "kai.scheduler/queue": "default-queue", ...labels }, annotations },
    spec: {
        runPolicy: { cleanPodPolicy: "None" },
        pytorchReplicaSpecs: {
            Worker: {
                replicas: 1, restartPolicy: "Never", template: {
                    spec: {
                        terminationGracePeriodSeconds: 0,
                        containers: [{ name: "pytorch", image: "x", command: ["sh", "-c", `${command}; exit ${code}`], resources: { limits: { "nvidia.com/gpu": gpus } } }],
                    },
                },
            },
        },
    },
});

/** Runs a test to its end; says what went wrong and exits 1. */
export async function main(test) {
    const at = await open();
    try {
        await test(at);
        if (at.troubles.length)
            throw new Error(at.troubles.join("\n"));
    } catch (e) {
        console.error(e.stack ?? e);
        console.error("the page says: " + (await at.page.evaluate("document.body.innerText").catch(() => "nothing")).slice(0, 2000));
        process.exitCode = 1;
    } finally {
        await at.browser.close();
    }
}
