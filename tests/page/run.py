#!/usr/bin/env python3
"""run.py [--have] [WORD...]: the page in a real Chromium, on a real muster up; ends with "N passed, N failed, N skipped".

Each .mjs beside this file is a test: live, views, actions, decisions, signin, and model, which needs no browser; "types" has the
TypeScript compiler check the JSDoc types of web/. What cannot be had here (Chromium, or the packages of tools.sh) is
skipped, and counted. With --have nothing is fetched. `shots FOLDER` makes pictures of every view instead: light, dark and
narrow. docs/page has some of them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from harness import PATIENCE, Failure, Muster, Skip, wait_for  # noqa: E402
from oidc_issuer import Issuer  # noqa: E402
from test_oidc import flags_of  # noqa: E402

# Pictures show something: queues with shares, jobs that run, wait, failed. (name, namespace, queue, pods, GPUs a pod, user)
QUEUES = (("research", "", 32, -1), ("vision", "research", 16, -1), ("language", "research", 16, -1), ("product", "", 16, 24))
JOBS = (("resnet-sweep", "team-vision", "vision", 2, 4, "ann"), ("vit-large", "team-vision", "vision", 1, 8, "ben"),
        ("llama-pretrain", "team-language", "language", 2, 8, "cleo"), ("sft-chat", "team-language", "language", 1, 4, "dan"),
        ("ranker", "team-product", "product", 2, 2, "eve"), ("reward-model", "team-language", "language", 3, 8, "cleo"),
        ("segment-huge", "team-vision", "vision", 4, 8, "ann"))
SHOTS = ("", "gpus", "timeline", "whatif", "job/team-vision/PyTorchJob/segment-huge",
         "job/team-language/PyTorchJob/llama-pretrain", "queue/vision", "node/node-0", "user/cleo")
TESTS = ("types", "model", "live", "views", "actions", "decisions", "signin")
LIMIT_S = 240


def cache(have):
    done = subprocess.run([os.path.join(HERE, "tools.sh"), *(["--have"] if have else [])], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Skip(done.stderr.strip() or "tools.sh failed")
    return done.stdout.strip()


def chromium():
    found = os.environ.get("MUSTER_CHROMIUM") or shutil.which("chromium")
    if not found:
        raise Skip("there is no chromium; Debian's package chromium has it")
    return found


def node(script, muster, folder, *argv):
    """Runs a script beside this file against a muster; Failure with what it said unless it ends well."""
    env = dict(muster.env, MUSTER_URL="https://" + muster.listen, MUSTER_CHROMIUM=chromium(), MUSTER_PAGE_CACHE=folder)
    done = subprocess.run(["node", os.path.join(HERE, script), *argv], env=env, text=True, timeout=LIMIT_S * PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f"{script}:\n{done.stdout}")


def run(name, have=False):
    if name == "model":
        if not shutil.which("node"):
            raise Skip("there is no node")
        done = subprocess.run(["node", os.path.join(HERE, "model.mjs"), os.path.join(HERE, "..", "..", "web")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failure(done.stdout)
        return
    folder = cache(have)
    if name == "types":
        done = subprocess.run([os.path.join(folder, "node_modules/.bin/tsc"), "-p", os.path.join(HERE, "tsconfig.json")],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failure(done.stdout)
        return
    chromium()
    if name == "signin":
        signin(folder)
        return
    with Muster(nodes=2, gpus_per_node=4) as m:
        node(name + ".mjs", m, folder)


def signin(folder):
    if not shutil.which("openssl"):
        raise Skip("needs openssl to make keys")
    with tempfile.TemporaryDirectory() as top, Issuer(top) as issuer, Muster(flags=flags_of(issuer, issuer.url)) as m:
        issuer.new_key("one")
        issuer.person = {"email": "alice@lab", "groups": ["vision"], "hd": "lab"}
        m.env["MUSTER_ISSUER"] = issuer.url
        node("signin.mjs", m, folder)


def queue(name, parent, quota, limit):
    free = {"quota": -1, "limit": -1}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
            "spec": {**({"parentQueue": parent} if parent else {}),
                     "resources": {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}, "cpu": free, "memory": free}}}


def job(name, ns, queue_name, pods, gpus, user):
    command = "i=0; while :; do echo step $i; i=$((i+1)); sleep 5; done"
    container = {"name": "pytorch", "image": "x", "command": ["sh", "-c", command],
                 "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": {"name": name, "namespace": ns, "labels": {"kai.scheduler/queue": queue_name, "user": user}},
            "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": pods, "template": {"spec": {"containers": [container]}}}}}}


def shots(into):
    folder = cache(False)
    with Muster(nodes=6, gpus_per_node=8, flags=("--cpus-per-node", "64")) as m:
        for ns in sorted({ns for _, ns, *_ in JOBS}):
            m.kubectl("create", "namespace", ns)
        items = [queue(*q) for q in QUEUES] + [job(*j) for j in JOBS]
        m.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        wait_for(lambda: len([p for p in m.get("pods", ns="team-language") if p["status"]["phase"] == "Running"]) == 3,
                 "the jobs of the pictures to run")
        link = subprocess.run(["muster", "open", "--print"], env=m.env, text=True, check=True,
                              stdout=subprocess.PIPE).stdout.strip()
        node("shots.mjs", m, folder, into, link, *SHOTS)


def main(argv):
    have = "--have" in argv
    words = [a for a in argv if a != "--have"]
    if words[:1] == ["shots"]:
        shots(os.path.abspath(words[1]))
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in TESTS:
        if words and not any(word in name for word in words):
            continue
        try:
            run(name, have)
            result = "passed"
            print(f"page.{name}: ok", flush=True)
        except Skip as e:
            result = "skipped"
            print(f"page.{name}: skipped: {e}", flush=True)
        except (Failure, subprocess.TimeoutExpired) as e:
            result = "failed"
            print(f"page.{name}: FAILED: {e}", flush=True)
        counts[result] += 1
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
