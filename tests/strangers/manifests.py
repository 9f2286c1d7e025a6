"""Manifests that others publish beside their programs, applied as they are: of KAI Scheduler, Kubeflow's training operator and
Trainer, and JobSet. Their text comes from their Go modules, by version; manifests.txt names each and what must become of
it:

    from MODULE VERSION FOLDER          those of this folder follow; one of them that is not named is a failure
    PATH        pods N [WORDS]          applied, and so many pods are there, each with a node; kubectl warns with the words
    PATH        waits N WORDS           so many pods without a node, and an event or a status has the words
    PATH        objects                 applied, and it asks for no pods
    PATH        warns WORDS             the same, and kubectl prints a warning with the words
    PATH        refused WORDS           kubectl fails with the words
    PATH        values                  no manifest: input of another program

None may be taken and lead to nothing without a word: "objects" is for what asks for nothing else.
"""

import glob
import os
import re
import subprocess
import sys

from harness import NOT_YET, ROOT, Failure, Muster, Skip, check, wait_for

sys.path.insert(0, os.path.join(ROOT, "tests", "seeds"))
import crds  # noqa: E402

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "manifests.txt")
# No image is there: what a pod has got is its node, and nothing in it ends.
FLAGS = ("--images", "oci", "--cpus-per-node", "256", "--memory-per-node", "2048Gi")
NODES = 4
SETTLED_S = 40


def listed():
    """{(module, version, folder): {path: (verdict, rest)}}"""
    found, here = {}, None
    with open(LIST) as f:
        for line in f:
            words = line.split(None, 2)
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "from":
                here = found.setdefault(tuple(line.split()[1:]), {})
            else:
                here[words[0]] = (words[1], words[2].strip() if len(words) > 2 else "")
    return found


def said(m):
    """Everything that events and statuses of the current namespace say."""
    return m.kubectl("get", "events,jobsets,trainjobs", "-o", "json", ok=False).stdout


def one(m, path, verdict, rest, pods_of):
    with open(path) as f:
        verb = "create" if "generateName:" in f.read() else "apply"
    done = m.kubectl(verb, "-f", path, ok=False)
    words = re.sub(r"\s+", " ", done.stdout + done.stderr)
    if verdict == "refused":
        check(done.returncode and rest in words, f"exit {done.returncode}: {words[-600:]}")
        return
    check(done.returncode == 0, words[-600:])
    count, _, expected = rest.partition(" ")
    warning = {"warns": rest, "pods": expected}.get(verdict)
    check(not warning or ("Warning: " in words and warning in words), words[-600:])

    def settled():
        pods = pods_of()
        bound = [p for p in pods if p["spec"].get("nodeName")]
        if verdict == "pods":
            return len(pods) == int(count) == len(bound)
        if verdict == "waits":
            return len(pods) == int(count) and not bound and expected in said(m)
        return not pods
    try:
        wait_for(settled, f"{verdict} {rest}", SETTLED_S)
    except Failure as e:
        pods = [(p["metadata"]["name"], p["spec"].get("nodeName"), p["status"].get("phase")) for p in pods_of()]
        raise Failure(f"{verdict} {rest}: {words[-200:]}; pods: {pods}") from e


def namespace(m, path, number):
    """What gives the pods in the namespace of the manifest, or in one of its own, which is the current one then."""
    with open(path) as f:
        told = re.search(r"(?m)^  namespace: *\"?([\w-]+)", f.read())
    ns = told.group(1) if told else f"m{number}"
    m.kubectl("create", "namespace", ns, ok=False)
    m.kubectl("config", "set-context", "--current", "--namespace", ns)
    before = {p["metadata"]["name"] for p in m.get("pods", ns=ns)}  # such as those that stand for other operators'
    return lambda: [p for p in m.get("pods", ns=ns) if p["metadata"]["name"] not in before]


def clean(m, path, pods_of):
    m.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", path, ok=False)
    m.kubectl("delete", "pods", "--all", "--now", "--wait=false", ok=False)
    wait_for(lambda: not pods_of(), "the pods to go", SETTLED_S)


def play(word):
    """Yields (name, verdict, why) of every manifest of the modules with the word in their path."""
    for (module, version, folder), names in listed().items():
        if word not in module:
            continue
        where = crds.module(module, version, folder)
        if not where:
            raise Skip(f"{module} {version} cannot be had here")
        there = {os.path.relpath(path, where) for path in glob.glob(os.path.join(where, "**", "*.y*ml"), recursive=True)}
        for name in sorted(there - set(names)):
            yield name, "failed", "it is not in manifests.txt"
        with Muster(nodes=NODES, gpus_per_node=8, flags=FLAGS) as m:
            for number, (name, (verdict, rest)) in enumerate(sorted(names.items())):
                if verdict == "values":
                    continue
                path = os.path.join(where, name)
                pods_of = namespace(m, path, number)
                try:
                    one(m, path, verdict, rest, pods_of)
                    yield name, "passed", ""
                except (Failure, OSError, subprocess.SubprocessError, *NOT_YET) as e:
                    yield name, "failed", re.sub(r"\s+", " ", str(e))[:600]
                finally:
                    clean(m, path, pods_of)
