"""kubectl's command-line tests (test/cmd of the Kubernetes module) against `muster up`.

The scripts are copied out of the module; they begin with a function each, of which every one runs in a shell of its own, in a
namespace of its own, in a cluster whose node and storage class were deleted: they were written for an API server alone, with a
node of their own that runs nothing. What they would fetch from the module's repository is taken from the module.

A function ends at its first command that fails, as its own `set -o errexit` says, and is a test `test-cmd_FUNCTION` of the
runner. One that fails, and is not known to, is run again in a cluster of its own; when it fails there as well it counts, with the
place where it ended. Then it is run to its end: each assertion that fails there is a test `test-cmd-checks_FILE:LINE`. Assertions
that passed are counted, of a function that failed those of its last run. A function that takes too long, or ends without a word,
fails under its name.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import time

from harness import PATIENCE, Muster

GROUP, CHECKS = "test-cmd", "test-cmd-checks"
# Their set-up makes it, and no kubelet stands behind it there either: their controller manager says that nothing is known of it.
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "127.0.0.1", "annotations": {"save-managers": "true"}},
        "status": {"capacity": {"memory": "1Gi"},
                   "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}]}}
COLOUR = re.compile(r"\x1b[\[(][0-9;]*[A-Za-z]")  # the scripts end on a terminal without any
LIMIT_S = 180
REPOSITORY = "https://raw.githubusercontent.com/kubernetes/kubernetes/master/"
PARTS = ("hack/lib", "hack/testdata", "test/cmd", "test/fixtures", "test/e2e/testing-manifests", "third_party/forked/shell2junit")
# A shell with everything that `runTests` of the scripts expects, but against a server that is there already.
DRIVER = """
export TERM=xterm
cd "$1"
source hack/lib/init.sh
source hack/lib/test.sh
set +o errexit
source test/cmd/legacy-script.sh
set +o errexit
set -o errtrace
trap 'echo "$LINENO ${BASH_LINENO[*]} | ${BASH_SOURCE[*]##*/}" >> "$FAILED_AT"' ERR
kube::util::trap_add stop-proxy EXIT
export KUBE_TEMP=$3 HOME=$3 CONTEXT=test SUPPORTED_RESOURCES=("*") WHAT=$2
kubectl config set-credentials test-admin --token "$4"
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
kubectl config use-context "${CONTEXT}"
create_and_use_new_namespace
SED=sed
runTests
echo "the function came to its end"
"""


def version(text):
    """The Kubernetes that binaries.sh takes when it is told nothing."""
    return re.search(r"^kubernetes=\$\{\w+:-(\S+)\}", text, re.MULTILINE).group(1)


def module_folder():
    """Where the module's files are; None when it is not in the module cache."""
    found = subprocess.run(["go", "env", "GOMODCACHE"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                           env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/local/go/bin"}).stdout.strip()
    with open(os.path.join(os.path.dirname(__file__), "binaries.sh")) as f:
        folder = os.path.join(found, "k8s.io", "kubernetes@" + version(f.read()))
    return folder if found and os.path.isdir(folder) else None


def tests():
    """The names of all functions."""
    folder = module_folder()
    if not folder:
        return []
    with open(os.path.join(folder, "test/cmd/legacy-script.sh")) as f:
        found = re.findall(r"^\s*record_command (run_\w+)", f.read(), re.MULTILINE)
    return [f"{GROUP} {name}" for name in dict.fromkeys(found)]


def copy(folder, programs, token, to_the_end):
    """The scripts, with our token; `to_the_end`: a failure does not end a function."""
    module = module_folder()
    for part in PARTS:
        shutil.copytree(os.path.join(module, part), os.path.join(folder, part), copy_function=shutil.copyfile)
    bins = os.path.join(folder, "_output/bin")
    os.makedirs(bins)
    for program in ("kubectl", "kubectl-convert"):
        if os.path.exists(os.path.join(programs, program)):
            os.symlink(os.path.join(programs, program), os.path.join(bins, program))
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o755)
    for name in os.listdir(os.path.join(folder, "test/cmd")):
        if not name.endswith(".sh"):
            continue
        with open(os.path.join(folder, "test/cmd", name)) as f:
            text = f.read()
        text = text.replace("admin-token", token).replace(REPOSITORY, "").replace("/tmp/tmp-", folder + "/tmp-")
        if name == "legacy-script.sh":
            text = text.replace('record_command "run_${pkg}_tests"', 'record_command "${pkg}"')
        elif to_the_end:
            text = text.replace("set -o errexit", "set +o errexit")
        with open(os.path.join(folder, "test/cmd", name), "w") as f:
            f.write(text)


def failures(said):
    """[(FILE:LINE, why)] of the assertions that failed in an output."""
    found, lines = {}, said.splitlines()
    for i, line in enumerate(lines):
        if "FAIL!" not in line and line.strip() != "FAIL":
            continue
        place = re.match(r"\W*([\w.-]+\.sh:\d+): FAIL!", line)
        rest = lines[i + 1:i + 60]
        if not place:
            called = next((re.match(r"(\d+) \S*?([\w.-]+\.sh)\s*$", l) for l in rest if re.match(r"\d+ \S*\.sh\s*$", l)), None)
            where = f"{called.group(2)}:{called.group(1)}" if called else "unknown"
        else:
            where = place.group(1)
        found.setdefault(where, " ".join(" ".join(rest[:4]).split()))
    return list(found.items())


def ended_at(path, folder):
    """FILE:LINE and what stands there, of the last command in a script of theirs that failed; None: there is none."""
    found = None
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                lines, files = (half.split() for half in line.split("|"))
                found = next((place for place in zip(files, lines) if place[0] != "legacy-script.sh" and
                              os.path.exists(os.path.join(folder, "test/cmd", place[0]))), found)
    if not found:
        return None
    with open(os.path.join(folder, "test/cmd", found[0])) as f:
        text = f.read().splitlines()[int(found[1]) - 1]
    return f"{found[0]}:{found[1]}: {text.strip()}"


def without_nodes(names):
    """Nodes that are deleted stay away: who runs them would register them again."""
    head, group = {"name": "no-nodes"}, "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}
    return ({"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": head, "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": f"!(object.metadata.name in {json.dumps(names)})"}]}},
            {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": head, "spec": {
                "policyName": "no-nodes", "validationActions": ["Deny"]}})


class Cluster:
    """A muster as their server is."""

    def __init__(self, suite, muster, programs):
        self.suite, self.muster = suite, muster
        self.token = muster.kubectl("config", "view", "--raw", "-o", "jsonpath={.users[0].user.token}").stdout
        authority = muster.kubectl("config", "view", "--raw", "-o",
                                   "jsonpath={.clusters[0].cluster.certificate-authority-data}").stdout
        self.certificates = os.path.join(muster.folder, "certificates")  # --cert-dir of their server, and their TMPDIR
        os.makedirs(self.certificates)
        with open(os.path.join(self.certificates, "apiserver.crt"), "wb") as f:
            f.write(base64.b64decode(authority))
        self.folders = {}
        for to_the_end in (False, True):
            self.folders[to_the_end] = os.path.join(muster.folder, "to-the-end" if to_the_end else "kubernetes")
            copy(self.folders[to_the_end], programs, self.token, to_the_end)
        names = [node["metadata"]["name"] for node in muster.get("nodes")]
        for body in without_nodes(names):
            muster.kubectl("create", "-f", "-", input=json.dumps(body))
        muster.kubectl("delete", "node", *names)
        muster.kubectl("delete", "storageclass", *(found["metadata"]["name"] for found in muster.get("storageclasses")))
        muster.kubectl("create", "-f", "-", input=json.dumps(NODE))
        # Their server has --authorization-mode=RBAC,AlwaysAllow.
        muster.kubectl("create", "clusterrolebinding", "everybody", "--clusterrole=cluster-admin",
                       "--group=system:authenticated", "--group=system:unauthenticated", "--user=bob")

    def run(self, name, path, to_the_end=False):
        """(why it failed or "", what it said)"""
        muster, folder = self.muster, self.folders[to_the_end]
        home = os.path.join(muster.folder, f"home-{to_the_end}-{name}")
        failed_at = os.path.join(home, "failed-at")
        os.makedirs(home, exist_ok=True)
        env = {**muster.env, "SECURE_API_PORT": muster.listen.rsplit(":", 1)[1], "ALLOW_SKEW": "1", "KUBE_JUNIT_REPORT_DIR": home,
               "KUBECACHEDIR": os.path.join(muster.folder, "kubecache"), "FAILED_AT": failed_at,
               "TMPDIR": self.certificates}
        env.pop("KUBECONFIG", None)
        limit = int(LIMIT_S * PATIENCE)
        _, late = self.suite.process(["bash", "-c", DRIVER, "driver", folder, name, home, self.token], path, limit, env, folder)
        with open(path, errors="replace") as log:
            said = COLOUR.sub("", log.read())
        if late:
            return f"not done after {limit} s", said
        if "FAILED TESTS" in said:
            return ended_at(failed_at, folder) or "it ended with an error", said
        return "" if "the function came to its end" in said else "it ended early", said


def assertions(said):
    return len(re.findall(r"^\W*(?:[\w.-]+:\d+: )?Successful", said, re.MULTILINE))


def again(suite, programs, name, logs, to_the_end):
    with Muster() as m:
        return Cluster(suite, m, programs).run(name, os.path.join(logs, f"{GROUP}-{name}-{'all' if to_the_end else 'again'}.log"),
                                        to_the_end)


def one(suite, cluster, programs, logs, name):
    """Runs a function and adds what became of it and of its assertions to the suite."""
    start = time.monotonic()
    why, said = cluster.run(name, os.path.join(logs, f"{GROUP}-{name}.log"))
    if why and f"{GROUP}_{name}" not in suite.known:
        print(f"once more, alone: {GROUP}_{name}: {why}", flush=True)
        why, said = again(suite, programs, name, logs, False)
        if not why:
            suite.repeated.append(f"{GROUP}_{name}")
    if why:
        _, said = again(suite, programs, name, logs, True)
    suite.count(CHECKS, assertions(said))
    for where, what in failures(said):
        suite.record(f"{CHECKS}_{where}", "failed", what, 0)
    suite.record(f"{GROUP}_{name}", "failed" if why else "passed", why, time.monotonic() - start)


def play(suite, programs, logs, names, jobs):
    """Runs these functions in as many clusters."""
    def part(mine):
        with Muster() as m:
            cluster = Cluster(suite, m, programs)
            for name in mine:
                one(suite, cluster, programs, logs, name.split()[-1])
    suite.in_pool(jobs, [(part, names[i::jobs]) for i in range(min(jobs, len(names)))], lambda done: None)
