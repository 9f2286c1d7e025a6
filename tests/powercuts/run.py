#!/usr/bin/env python3
"""run.py [--long] [--seed S] RECORDER_SO PLAY SHIM: every moment of a workload, made into what a power cut could leave of it.

The programs run under the recorder (recorder.c), which writes down what they do to files and what they tell others. disk.py makes
images of each moment between two of these: nothing but what was synced, all, names without contents, contents without names,
and random ones with writes in any order and torn. Each image is opened by the same programs (play.h; the real shim), and then:

the store: all that was acknowledged is there, as it was or as a write under way made it; no check finds a problem; it goes on.
files that are replaced: the old or the new one, whole; the new one once that was acknowledged.
the sync side: it opens, has what it says that it has, and takes the newest revision.
the shim: a container that ran is not started again, and an end that was told is in its file.

Without --long so many random images are made that all takes some seconds. Ends with `N passed, N failed, N skipped`.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import disk

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torture"))
import run as torture  # noqa: E402 (the shim's other half is there)

Broken = torture.Broken
LIMIT_S = torture.LIMIT_S
BATCH = 200  # images that one process looks at
LOOKS_MAX = 40  # images of one play, unless --long; opening a store takes some 20 ms


def images(state, log, rng, count, blind=False):
    """(number of records before it, what was said until then, image), each image once for what was said. blind: as if nothing
    had ever been synced."""
    said, seen = [], set()
    records = [r for r in disk.read_log(log) if not blind or r[0] != "sync"]
    for at in range(len(records) + 1):
        kinds = [(disk.none_of, disk.synced), (disk.all_of, disk.whole), (disk.all_of, disk.synced), (disk.none_of, disk.whole)]
        kinds += [(disk.first_of(rng), disk.torn(rng)) for _ in range(count)]
        for names, contents in kinds:
            image = state.image(names, contents)
            key = hashlib.blake2b(str(len(said)).encode())
            for path, content in sorted(image.items()):
                key.update(f"\n{path} {-1 if content is None else len(content)}\n".encode() + (content or b""))
            key = key.digest()
            if key not in seen:
                seen.add(key)
                yield at, list(said), image
        if at < len(records):
            if records[at][0] == "say":
                said += records[at][2].decode(errors="replace").splitlines()
            else:
                state.take(records[at])


def lay_out(image, folder):
    os.makedirs(folder)
    for path, content in sorted(image.items()):
        if content is None:
            os.makedirs(os.path.join(folder, path), exist_ok=True)
        else:
            with open(os.path.join(folder, path), "wb") as f:
                f.write(content)


def play(recorder, folder, argv, **more):
    env = dict(os.environ, LD_PRELOAD=recorder, CUTS_UNDER=folder, CUTS_LOG=folder + ".log")
    done = subprocess.run([*argv, folder], env=env, text=True, timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, **more)
    if done.returncode or "failed " in done.stdout:
        raise Broken(f"without a power cut: {done.stdout}{done.stderr}")


def nothing_unseen(folder, state, leave):
    """All records together make the folder as it is: else the recorder has missed something, and the images mean nothing."""
    for record in disk.read_log(folder + ".log"):
        if record[0] != "say":
            state.take(record)
    image = {p: c for p, c in state.image(disk.all_of, disk.whole).items() if c and not leave(p)}
    real = {}
    for where, _, files in os.walk(folder):
        for name in files:
            path = os.path.relpath(os.path.join(where, name), folder)
            with open(os.path.join(where, name), "rb") as f:
                content = f.read()
            if content and not leave(path):
                real[path] = content
    if image != real:
        wrong = sorted(p for p in {*image, *real} if image.get(p) != real.get(p))
        raise Broken(f"the recorder did not see everything that was done to {wrong}")


def expect(said, has):
    """What is there against what was said: the last acknowledged value of a name, or one that was asked for since."""
    tried, acknowledged = {}, {}
    for line in said:
        word, name, value = line.split()
        if word == "try":
            tried.setdefault(name, ["0"]).append(value)
        elif word == "ack":
            tried[name] = tried[name][tried[name].index(value):]
            acknowledged[name] = value
    for name, values in tried.items():
        if has.get(name, "0") not in values:
            raise Broken(f"{name} is {has.get(name, 'not there')}; acknowledged: {acknowledged.get(name)}, asked for: {values}")
    if set(has) - set(tried):
        raise Broken(f"what nobody asked for is there: {sorted(set(has) - set(tried))}")


def look(program, name, batch, top, check):
    folders = []
    for number, (_, _, image) in enumerate(batch):
        folders.append(os.path.join(top, f"i{number}"))
        lay_out(image, folders[-1])
    done = subprocess.run([program, "look", name, *folders], text=True, timeout=LIMIT_S * 10, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    said = done.stdout.split("image ")[1:]
    for (at, before, image), lines in zip(batch, said):
        lines = lines.splitlines()[1:]
        wrong = [line for line in lines if line.startswith("failed ")]
        try:
            if wrong:
                raise Broken("; ".join(wrong))
            check(before, dict(line.split()[1:3] for line in lines if line.startswith("has ")))
        except Broken as e:
            sizes = {p: len(c) for p, c in image.items() if c is not None}
            raise Broken(f"power cut behind record {at}: {e}; found {sizes}") from e
    if done.returncode or len(said) != len(batch):
        raise Broken(f"exit {done.returncode} at image {len(said)}: {done.stderr} {said[-1] if said else ''}")
    for folder in folders:
        shutil.rmtree(folder)


def bites(cut):
    """The same without the syncs must be noticed: else the looks see nothing."""
    result = cut(False)
    try:
        cut(True)
    except Broken:
        return result + "; without the syncs it is noticed"
    raise Broken("as if nothing had ever been synced, and nothing is lost: the power cuts do not bite")


def cuts(args, name, count, more, check, blind=False):
    top = tempfile.mkdtemp(prefix="muster-powercuts-")
    folder = os.path.join(top, "f")
    os.mkdir(folder)
    # SQLite's shared memory is mapped and made anew; the reserve and the lock have no content that counts.
    leave = lambda path: path.endswith(("-shm", "-reserve", ".lock"))
    try:
        state, again = disk.Disk(folder), disk.Disk(folder)
        play(args.recorder, folder, [args.play, name, str(count)])
        nothing_unseen(folder, again, leave)
        batch, total, points = [], 0, set()
        every = list(images(state, folder + ".log", random.Random(args.seed), more, blind))
        for at, said, image in sampled(args, every):
            batch.append((at, said, {p: c for p, c in image.items() if not leave(p)}))
            total += 1
            points.add(at)
            if len(batch) == BATCH:
                look(args.play, name, batch, top, check)
                batch = []
        if batch:
            look(args.play, name, batch, top, check)
        return f"{len(points)} moments, {total} images"
    finally:
        shutil.rmtree(top, ignore_errors=True)


def sampled(args, every):
    step = 1 if args.long else max(1, len(every) // LOOKS_MAX)
    return every[args.seed % step::step]


def record_shim(args, folder):
    """What a shim does from its start to its end, and the disk before it; the container says itself that it ran."""
    states = []
    log = folder + ".log"
    shim = torture.Shim(args.shim, folder, {"LD_PRELOAD": args.recorder, "CUTS_UNDER": folder, "CUTS_LOG": log},
                        f"printf 'say 4\\nran\\n' >> {log}; exit 7", lambda: states.append(disk.Disk(folder)))
    try:
        shim.say("start main 0")
        shim.hear("exited")
        shim.end("stop")
    finally:
        shim.kill()
    return states[0], log


def look_shim(args, folder, said):
    """The pod after the power is back: its agent asks for the same container."""
    shim = torture.Shim(args.shim, folder, {}, "echo ran >> ran; exit 7")
    try:
        shim.say("start main 0")
        shim.say("state")
        heard = []
        while not heard or not heard[-1].startswith("synced"):
            heard.append(shim.hear("running", "exited", "ended", "synced"))
        shim.end("stop")
        if "ran" in said and (shim.read("ran") or any(h.startswith("running") for h in heard)):
            raise Broken(f"the container ran before and was started again: {heard}")
        told = any(line.startswith("exited main 0") for line in said)
        text = shim.read("c/main/0.exit")
        if told and (text is None or not text.startswith("7 ")):
            raise Broken(f"its end was told, and the file says {text!r}")
    finally:
        shim.kill()


def cuts_shim(args, more, blind=False):
    top = tempfile.mkdtemp(prefix="muster-powercuts-")
    try:
        state, log = record_shim(args, os.path.join(top, "f"))
        every = sampled(args, list(images(state, log, random.Random(args.seed), more, blind)))
        ran = 0
        for number, (at, said, image) in enumerate(every):
            folder = os.path.join(top, f"i{number}")
            lay_out(image, folder)
            ran += "ran" in said
            try:
                look_shim(args, folder, said)
            except Broken as e:
                raise Broken(f"power cut behind record {at}: {e}; found {sorted(image)}") from e
            shutil.rmtree(folder)
        if not ran:
            raise Broken("no image is of a time after the container ran: nothing was shown")
        return f"{len({at for at, _, _ in every})} moments, {len(every)} images, {ran} of them after the container ran"
    finally:
        shutil.rmtree(top, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="more work and fifty random images of each moment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="this play alone")
    parser.add_argument("recorder")
    parser.add_argument("play")
    parser.add_argument("shim")
    args = parser.parse_args()
    args.recorder, args.play, args.shim = (os.path.abspath(p) for p in (args.recorder, args.play, args.shim))
    print(f"powercuts: seed {args.seed}")
    passed, failed = 0, 0
    more = 50 if args.long else 2
    size = 10 if args.long else 1
    for name, check in (
            ("store", lambda: bites(lambda blind: cuts(args, "store", 9 * size, more, expect, blind))),
            ("files", lambda: bites(lambda blind: cuts(args, "files", 4 * size, more, expect, blind))),
            ("sync side", lambda: cuts(args, "tree", 4 * size, more, lambda said, has: None)),
            ("shim", lambda: bites(lambda blind: cuts_shim(args, more, blind)))):
        if args.only not in (None, name):
            continue
        start = time.monotonic()
        try:
            result, passed = check(), passed + 1
        except Broken as e:
            result, failed = f"FAILED: {e}", failed + 1
        print(f"powercuts {name}: {result} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
