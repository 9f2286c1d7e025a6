#!/usr/bin/env python3
"""alternate.py [EXPERIMENT...]: on a machine with an NVIDIA GPU, jobs that give way keep what they have computed.

Starts `muster up` and lets PyTorch programs be suspended, by hand and by preemption: what is on the card goes to host
memory and comes back. Prints a line per observation; ends with `N passed, N failed`. Needs the programs (MUSTER_BUILD,
default: build/), root, a driver of 570 or newer and a Python that can import torch.

    hold GIB       one program of that size: out, nothing on the card, in; seconds of both
    turns GIB N    two programs of that size take the card from each other N times, by priority
    notebook GIB   one of that size rests and gives way because nobody uses the card, to one that waits; and returns
"""

import json
import subprocess
import sys
import time
import traceback
import urllib.request

import run

STEP_S = 0.01
PROGRAM = """
import hashlib, os, sys, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
gib, steps, seed, pause = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
rests = sys.argv[5:] == ["rests"]
torch.manual_seed(seed)
torch.use_deterministic_algorithms(True)
ballast = [torch.full(((1 << 30) // 8,), i * 7919 + seed, dtype=torch.int64, device="cuda") for i in range(gib)]
model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, steps + 1):
    loss = model(torch.randn(64, 512, device="cuda")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step % 20 == 0 or step == steps:
        torch.cuda.synchronize()
        print("step", step, flush=True)
    time.sleep(pause)
    if rests and step == steps // 2: # until it was suspended: a part of a second took much longer
        print("rests", flush=True)
        last = time.monotonic()
        while time.monotonic() - last < 3:
            last = time.monotonic()
            time.sleep(0.2)
whole = all(bool((piece == i * 7919 + seed).all()) for i, piece in enumerate(ballast))
weights = hashlib.sha256(model.weight.detach().cpu().numpy().tobytes()).hexdigest()[:16]
print("weights", weights, "ballast", whole, flush=True)
"""


def patch(c, name, metadata):
    request = urllib.request.Request(c.server + f"/api/v1/namespaces/default/pods/{name}", method="PATCH",
                                     data=json.dumps({"metadata": metadata}).encode(),
                                     headers={"Authorization": "Bearer " + c.token,
                                              "Content-Type": "application/merge-patch+json"})
    with urllib.request.urlopen(request, context=c.tls, timeout=30) as answer:
        answer.read()


def reason(c, name):
    conditions = c.get(name)["status"].get("conditions", [])
    found = [x for x in conditions if x["type"] == "Suspended"]
    if found and found[0]["reason"] == "SuspendFailed":
        raise AssertionError(f"{name}: {found[0]['message']}")
    if c.get(name)["status"].get("reason"):
        raise AssertionError(f"{name}: {c.get(name)['status']}")
    return found[0]["reason"] if found else None


def step(c, name):
    lines = [line for line in c.logs(name).splitlines() if line.startswith("step ")]
    return int(lines[-1].split()[1]) if lines else 0


def used_mib():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], text=True,
                         stdout=subprocess.PIPE, check=False).stdout
    return int(out.split()[0])


def start(c, name, gib, steps, seed, priority, annotations=None, words=()):
    body = {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {"muster.dev/on-preemption": "suspend"},
                         "labels": {"kai.scheduler/queue": "default-queue", "priorityClassName": priority}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "schedulerName": "kai-scheduler",
                     "containers": [{"name": "main", "image": "none",
                                     "command": [sys.executable, "-c", PROGRAM, str(gib), str(steps), str(seed),
                                                 str(STEP_S), *words],
                                     "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    c.call("POST", "/api/v1/namespaces/default/pods", body)


def undisturbed(steps, seed):
    done = subprocess.run([sys.executable, "-c", PROGRAM, "0", str(steps), str(seed), "0"], text=True, timeout=300,
                          stdout=subprocess.PIPE, check=True)
    return done.stdout.split("weights ")[1].split()[0]


def finish(c, name, steps, seed, limit=600):
    c.wait(lambda: c.get(name)["status"]["phase"] in ("Succeeded", "Failed"), f"{name} to end", limit)
    text = c.logs(name)
    status = c.get(name)["status"]
    assert status["phase"] == "Succeeded", f"{status}\n{text[-2000:]}"
    weights, ballast = text.split("weights ")[1].split()[0], text.split("ballast ")[1].split()[0]
    alone = undisturbed(steps, seed)
    steps_seen = [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]
    print(f"    {name}: weights {weights}, undisturbed {alone}, ballast whole: {ballast}", flush=True)
    assert weights == alone and ballast == "True", text[-500:]
    assert steps_seen == sorted(set(steps_seen)), f"a step was done twice: {steps_seen}"
    c.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")


def hold(c, gib):
    gib, steps = int(gib), 2000
    start(c, "held", gib, steps, 1, "train")
    c.wait(lambda: step(c, "held") > 0, "the program to train", 300)
    before, begun = used_mib(), time.monotonic()
    patch(c, "held", {"annotations": {"muster.dev/suspend": "hold"}})
    c.wait(lambda: reason(c, "held") == "Checkpointed", "the program to leave the card", 300)
    out_s, away = time.monotonic() - begun, used_mib()
    stood = step(c, "held")
    begun = time.monotonic()
    patch(c, "held", {"annotations": {"muster.dev/suspend": "yield"}})
    c.wait(lambda: reason(c, "held") == "Resumed", "the program to be back", 300)
    in_s = time.monotonic() - begun
    c.wait(lambda: step(c, "held") > stood, "it to go on")
    print(f"    {gib} GiB: {before} -> {away} -> {used_mib()} MiB on the card; out {out_s:.1f} s, in {in_s:.1f} s",
          flush=True)
    assert away < 600, f"{away} MiB are still on the card"
    finish(c, "held", steps, 1)


def turns(c, gib, count):
    gib, count = int(gib), int(count)
    names, steps = ("one", "two"), int((30 + 4 * count) / STEP_S)
    start(c, "one", gib, steps, 1, "train")
    c.wait(lambda: step(c, "one") > 0, "the first program to train", 300)
    start(c, "two", gib, steps, 2, "build-preemptible")
    c.wait(lambda: step(c, "two") > 0, "the second program to train", 300)
    assert reason(c, "one") == "Checkpointed", c.get("one")["status"]
    seconds = []
    for turn in range(count - 1):
        away, back = names[(turn + 1) % 2], names[turn % 2]
        stood, begun = step(c, back), time.monotonic()
        patch(c, away, {"labels": {"priorityClassName": "train"}})
        patch(c, back, {"labels": {"priorityClassName": "build-preemptible"}})
        c.wait(lambda: reason(c, away) == "Checkpointed", f"{away} to give way", 300)
        out_s = time.monotonic() - begun
        c.wait(lambda: step(c, back) > stood, f"{back} to go on", 300)
        seconds.append((out_s, time.monotonic() - begun - out_s))
    print(f"    {gib} GiB, {count} turns: out " + " ".join(f"{o:.1f}" for o, _ in seconds) +
          " s; in and on " + " ".join(f"{i:.1f}" for _, i in seconds) + " s", flush=True)
    for name, seed in zip(names, (1, 2)):
        finish(c, name, steps, seed)


def events(c, name, reason):
    return [e for e in c.call("GET", "/api/v1/namespaces/default/events")["items"]
            if e["involvedObject"]["name"] == name and e["reason"] == reason]


def notebook(c, gib):
    gib, steps = int(gib), 1000
    start(c, "notebook", gib, steps, 1, "train", {"muster.dev/suspend-unused-after": "30s"}, ("rests",))
    c.wait(lambda: "rests" in c.logs("notebook"), "the notebook to rest", 300)
    rested = time.monotonic()
    start(c, "train", gib, steps, 2, "train")
    told = c.wait(lambda: events(c, "notebook", "GpusUnused"), "it to be announced", 120)
    print(f"    announced {time.monotonic() - rested:.0f} s after its last step: {told[0]['message']}", flush=True)
    c.wait(lambda: reason(c, "notebook") == "Checkpointed", "the notebook to give way", 300)
    print(f"    off the card {time.monotonic() - rested:.0f} s after its last step", flush=True)
    c.wait(lambda: step(c, "train") > 0, "the other one to train", 300)
    patch(c, "notebook", {"annotations": {"muster.dev/resumed-at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}})
    c.wait(lambda: events(c, "notebook", "Wanted"), "the notebook to be in line", 60)
    assert reason(c, "notebook") == "Checkpointed", c.get("notebook")["status"]
    finish(c, "train", steps, 2)
    begun = time.monotonic()
    c.wait(lambda: reason(c, "notebook") == "Resumed", "the notebook to be back", 300)
    print(f"    back on the card {time.monotonic() - begun:.1f} s after the other one had ended", flush=True)
    finish(c, "notebook", steps, 1)


def main():
    words, plan = sys.argv[1:], []
    while words:
        take = {"hold": 2, "turns": 3, "notebook": 2}[words[0]]
        plan.append(words[:take])
        words = words[take:]
    failed = passed = 0
    for name, *arguments in plan or [["hold", "4"], ["turns", "4", "4"]]:
        print("==", name, *arguments, flush=True)
        c = run.Cluster()
        try:
            globals()[name](c, *arguments)
            passed += 1
        except Exception:
            traceback.print_exc()
            c.log.seek(0)
            print("-- muster up\n" + c.log.read()[-3000:], flush=True)
            failed += 1
        finally:
            c.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
