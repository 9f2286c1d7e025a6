"""kubectl's command-line tests (test/cmd of the Kubernetes module) against `muster up`.

The scripts are copied out of the module; they begin with a function each, of which every one runs in a shell of its own, in a
cluster whose node and storage class were deleted: they were written for an API server alone, with a node of their own that runs
nothing. What they would fetch from the module's repository is taken from the module. An
assertion that fails does not end its function here, so that all of them are seen; each that fails is a test
`test-cmd_FILE:LINE` of the runner, and what passed is counted. A function that ends early, or takes too long, fails under its
own name.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time

from harness import PATIENCE, Muster

GROUP = "test-cmd"
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
kube::util::trap_add stop-proxy EXIT
export KUBE_TEMP=$3 HOME=$3 CONTEXT=test SUPPORTED_RESOURCES=("*") WHAT=$2
kubectl config set-credentials test-admin --token "$4"
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
kubectl config use-context "${CONTEXT}"
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


def copy(folder, programs, token):
    """The scripts, with our token, without the end at the first failure."""
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
        text = text.replace("admin-token", token).replace(REPOSITORY, "")
        if name == "legacy-script.sh":
            text = text.replace('record_command "run_${pkg}_tests"', 'record_command "${pkg}"')
        else:
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


def one(muster, folder, name, logs, limit, token):
    """(assertions that passed, [(name, why)] of those that did not)"""
    home = os.path.join(muster.folder, "home-" + name)
    os.makedirs(home, exist_ok=True)
    path = os.path.join(logs, f"{GROUP}-{name}.log")
    env = {**muster.env, "SECURE_API_PORT": muster.listen.rsplit(":", 1)[1], "ALLOW_SKEW": "1", "KUBE_JUNIT_REPORT_DIR": home,
           "KUBECACHEDIR": os.path.join(muster.folder, "kubecache")}
    env.pop("KUBECONFIG", None)
    with open(path, "w") as log:
        process = subprocess.Popen(["bash", "-c", DRIVER, "driver", folder, name, home, token], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, env=env, cwd=folder, start_new_session=True)
        late = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    with open(path, errors="replace") as log:
        said = COLOUR.sub("", log.read())
    failed = [(f"{GROUP}_{where}", why) for where, why in failures(said)]
    if late:
        failed.append((f"{GROUP}_{name}", f"not done after {limit} s"))
    elif "FAILED TESTS" in said and not failed:
        failed.append((f"{GROUP}_{name}", "it ended with an error"))
    elif "the function came to its end" not in said and "FAILED TESTS" not in said:
        failed.append((f"{GROUP}_{name}", "it ended early"))
    return len(re.findall(r"^\W*(?:[\w.-]+:\d+: )?Successful", said, re.MULTILINE)), failed


def play(suite, programs, logs, names):
    """Runs these functions and adds what became of their assertions to the suite."""
    if not names:
        return
    with Muster() as m:
        token = m.kubectl("config", "view", "--raw", "-o", "jsonpath={.users[0].user.token}").stdout
        folder = os.path.join(m.folder, "kubernetes")
        copy(folder, programs, token)
        m.kubectl("delete", "node", *(node["metadata"]["name"] for node in m.get("nodes")))
        m.kubectl("delete", "storageclass", *(found["metadata"]["name"] for found in m.get("storageclasses")))
        m.kubectl("create", "-f", "-", input=json.dumps(NODE))
        # Their server has --authorization-mode=RBAC,AlwaysAllow.
        m.kubectl("create", "clusterrolebinding", "everybody", "--clusterrole=cluster-admin", "--group=system:authenticated",
                  "--group=system:unauthenticated")
        for name in names:
            start = time.monotonic()
            name = name.split()[-1]
            passed, failed = one(m, folder, name, logs, int(LIMIT_S * PATIENCE), token)
            seconds = time.monotonic() - start
            print(f"{GROUP} {name}: {passed} assertions passed, {len(failed)} failed ({seconds:.0f} s)", flush=True)
            suite.count(GROUP, passed)
            for where, why in failed:
                suite.record(where, "failed", why, seconds)
