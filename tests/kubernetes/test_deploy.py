"""What is shipped to be applied can be applied, by kubectl and by helm."""

import contextlib
import json
import os
import re
import shlex
import tempfile

from cluster import RBAC, ROOT, Cluster, Operator
from controlplane import ACCOUNT, binaries
from harness import Failure, check, free_port, run, wait_for
from test_rbac import said_by, shipped, stream

CHART = os.path.join(ROOT, "deploy", "chart", "muster")


def applied(plane, text):
    """Accepted by the server, with unknown fields refused."""
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)


def test_the_plain_manifests_are_accepted():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "rbac", "role.yaml"))
    plane.kubectl("create", "namespace", "kai-resource-reservation", ok=False)
    for file in ("deployment.yaml", "webhooks.yaml", "rbac/webhook.yaml", "rbac/sharing.yaml"):
        with open(os.path.join(ROOT, "deploy", file)) as f:
            applied(plane, f.read())


def commands_of(page):
    """The `kubectl apply` lines of a page that install something of deploy/, in their order."""
    with open(os.path.join(ROOT, page)) as f:
        blocks = re.findall(r"^```sh\n(.*?)^```", f.read(), re.M | re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("kubectl apply") and "deploy/" in line]


def take_every_right_away(plane):
    """Of the operator's account: what a cluster has that nothing was applied to."""
    plane.kubectl("delete", "rolebinding", "--all", "-n", "muster-system", ok=False)
    bindings = plane.kubectl("get", "clusterrolebinding", "-o", "name").stdout.split()
    ours = [name for name in bindings if "/muster" in name]
    if ours:
        plane.kubectl("delete", *ours)
    plane.kubectl("delete", "lease", "--all", "-n", "muster-system", ok=False)
    plane.kubectl("delete", "secret", "muster-webhook", "-n", "muster-system", "--ignore-not-found", ok=False)


@contextlib.contextmanager
def operator_of_the_deployment(plane):
    """One replica of deploy/deployment.yaml, with its flags and its account."""
    with open(os.path.join(ROOT, "deploy", "deployment.yaml")) as f:
        args = template_of(plane, f.read())["spec"]["containers"][0]["args"]
    flags = [a.replace("$(POD_NAMESPACE)", "muster-system") for a in args[1:] if not a.startswith("--webhook-listen")]
    check(len(flags) < len(args) - 1, f"the Deployment serves webhooks: {args}")
    account = plane.user(ACCOUNT, ["system:serviceaccounts", "system:authenticated"])
    with tempfile.TemporaryDirectory(prefix="muster-deploy-") as folder:
        operator = Operator("operator", folder, account, [*flags, f"--webhook-listen=127.0.0.1:{free_port()}"]).start()
        try:
            yield operator
        finally:
            operator.stop()


def test_the_commands_of_the_pages_install_what_becomes_ready():
    plane = Cluster.plane
    for page in ("README.md", "docs/getting-started.md", "docs/cluster.md"):
        commands = commands_of(page)
        check(commands, f"{page} has commands that install")
        take_every_right_away(plane)
        try:
            for command in commands:
                files = [os.path.join(ROOT, word) if word.startswith("deploy/") else word for word in command]
                plane.kubectl(*files)
            with operator_of_the_deployment(plane) as operator:
                wait_for(lambda: said_by(operator) == "ok\n", f"the operator of {page}", 60)
        finally:
            for file in ("webhooks.yaml", "deployment.yaml"):
                plane.kubectl("delete", "-f", os.path.join(ROOT, "deploy", file), "--ignore-not-found", "--wait=false",
                              ok=False)
            plane.kubectl("apply", "-f", RBAC)


def test_readyz_names_the_right_that_is_missing():
    plane = Cluster.plane
    take_every_right_away(plane)
    try:
        plane.kubectl("apply", "-f", os.path.join(RBAC, "role.yaml"))
        with operator_of_the_deployment(plane) as operator:
            wait_for(lambda: re.search(r'cannot (list|watch) resource "mutatingwebhookconfigurations"', said_by(operator)),
                     "the missing right in /readyz", 60)
            check("deploy/rbac/role.yaml, and webhook.yaml" in said_by(operator), f"what to apply: {said_by(operator)}")
            plane.kubectl("apply", "-f", os.path.join(RBAC, "webhook.yaml"))
            wait_for(lambda: said_by(operator) == "ok\n", "the operator, once it has its rights", 90)
    finally:
        plane.kubectl("apply", "-f", RBAC)


def render(*flags):
    helm = os.path.join(binaries("helm"), "helm")
    return run([helm, "template", "muster", CHART, "--namespace", "muster-system", "--kube-version", "1.33.0", *flags],
               ok=False)


def test_the_chart_renders_to_what_the_server_accepts():
    plane = Cluster.plane
    done = render("--set", "standInLabels.control-plane=kubeflow-training-operator", "--set", "operator.replicaCount=1",
                  "--set", "global.imagePullSecrets[0].name=s", "--set", "global.nodeSelector.a=b")
    check(done.returncode == 0, done.stderr)
    plane.kubectl("create", "namespace", "muster-system", ok=False)
    applied(plane, done.stdout)
    try:
        plane.kubectl("apply", "-f", "-", input=done.stdout)
        labelled = plane.kubectl("get", "deployment", "muster-operator", "-n", "muster-system", "-o",
                                 "jsonpath={.spec.template.metadata.labels}").stdout
        check("kubeflow-training-operator" in labelled, f"stand-in labels are there: {labelled}")
    finally:
        plane.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", input=done.stdout)


def test_the_chart_grants_what_the_files_grant():
    def granted(objects):
        return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): json.dumps(o.get("rules", o.get("roleRef")))
                for o in objects if o["apiVersion"].startswith("rbac.")}
    plane = Cluster.plane
    files = granted(shipped(plane))
    wanted = [part for name in ("gpuSharing", "gpuMemoryLimits", "gpuSuspend", "nodeHealth", "mpi", "queueSecrets") for part in
              ("--set", f"global.{name}=true")] + ["--set", "global.selfTestImage=i,global.provisioningClass=c"]
    unasked = ("muster-sharing", "muster-reservation", "muster-suspend", "muster-health", "muster-self-test", "muster-mpijob",
               "muster-mpi-exec", "muster-secrets", "muster-provisioning")
    for flags, left_out in ((wanted, ()), ([], unasked), (["--set", "admission.enabled=false"], (*unasked, "muster-webhook")),
                            (["--set", "operator.controllers={-tfjob,-jobset}"], (*unasked, "muster-tfjob", "muster-jobset")),
                            ([*wanted, "--set", "operator.controllers={-mpijob}"], ("muster-mpijob", "muster-mpi-exec"))):
        text = render(*flags).stdout
        chart = granted(stream(plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=text).stdout))
        check(chart == {k: v for k, v in files.items() if k[2] not in left_out}, f"{flags}: {set(chart) ^ set(files)}")
    only = render("--set", "operator.controllers={torchrunjob,torchrunqueue}").stdout
    check("name: muster-torchrunjob\n" in only and "name: muster-jobset\n" not in only, "of two controllers, the rights of two")


def test_commands_are_run_in_the_namespaces_that_are_named():
    text = render(*(part for value in ("gpuSharing=true", "gpuMemoryLimits=true", "gpuSuspend=true", "mpi=true",
                                       "execNamespaces={a,b}") for part in ("--set", f"global.{value}"))).stdout
    objects = stream(Cluster.plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=text).stdout)
    bound = {(o["kind"], o["metadata"].get("namespace")) for o in objects
             if o["kind"].endswith("RoleBinding") and o["metadata"]["name"] in ("muster-suspend", "muster-mpi-exec")}
    check(bound == {("RoleBinding", "a"), ("RoleBinding", "b")}, f"there and nowhere else: {bound}")
    done = render("--set", "operator.controllers={mpijob}")
    check(done.returncode != 0 and "global.mpi" in done.stderr, f"MPI without its rights: {done.stderr[-300:]}")


NAMESPACES = ("default", "muster-system", "kai-resource-reservation", "a")


def may(plane, namespace, account):
    """{(resource, verb)} that `kubectl auth can-i --list` says; of named objects the resource is RESOURCE=NAME."""
    said = plane.kubectl("auth", "can-i", "--list", "--no-headers", f"--as={account}", "-n", namespace).stdout
    found = set()
    for line in said.splitlines():
        resource, names, verbs = re.fullmatch(r"(\S*) +\[.*?\] +\[(.*?)\] +\[(.*?)\]", line.rstrip()).groups()
        found |= {(f"{resource}={name}" if name else resource, verb)
                  for name in names.split(" ") for verb in verbs.split() if resource}
    return found


def rights(plane):
    """{"WHERE RESOURCE: VERBS"}, WHERE a namespace or `everywhere`, of the operator; what everybody may do left out."""
    of = {name: may(plane, name, ACCOUNT) - may(plane, name, "system:serviceaccount:default:nobody") for name in NAMESPACES}
    of["everywhere"] = set.intersection(*of.values())
    return {(where, *right) for where, held in of.items() for right in held
            if where == "everywhere" or right not in of["everywhere"]}


def rows(held, sign=""):
    by_resource = {}
    for where, resource, verb in sorted(held):
        by_resource.setdefault((where, resource), []).append(verb)
    return [f"{sign}{where} {resource}: {' '.join(verbs)}" for (where, resource), verbs in by_resource.items()]


def expected_rights():
    """{values of the chart: rows}; the first has all of them, the others what is more and less than there."""
    with open(os.path.join(ROOT, "tests", "expected", "rights.txt")) as f:
        sections = re.split(r"^== (.*)\n", re.sub(r"^#.*\n|^\n", "", f.read(), flags=re.M), flags=re.M)[1:]
    return {values: listed.splitlines() for values, listed in zip(sections[::2], sections[1::2])}


def test_the_operator_may_do_what_its_values_ask_for_and_no_more():
    plane, default, held, found = Cluster.plane, set(), set(), []
    for name in NAMESPACES:
        plane.kubectl("create", "namespace", name, ok=False)
    take_every_right_away(plane)
    for values, listed in expected_rights().items():
        text = render(*(part for value in values.split() if value != "default" for part in ("--set", value))).stdout
        roles = "---\n".join(part for part in re.split(r"^---\n", text, flags=re.M)
                            if re.search(r"^kind: (Cluster)?Role(Binding)?$", part, re.M))
        plane.kubectl("apply", "-f", "-", input=roles)

        def as_listed():  # the server reads roles a moment later
            held.clear()
            held.update(rights(plane))
            found[:] = rows(held - default, "+ ") + rows(default - held, "- ")
            return found == listed
        try:
            wait_for(as_listed, f"the rights with {values}", 10)
        except Failure:
            check(False, f"with {values} the operator has other rights than tests/expected/rights.txt says:\n== {values}\n" +
                  "\n".join(found))
        finally:
            plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=roles)
        default = default or set(held)


MADE_BY_EDITORS = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: theirs, namespace: default}
spec: {jobQueue: q, command: python train.py, numGPUs: 1}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: theirs, namespace: default}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i}]}}}}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: theirs, namespace: default}
spec: {runtimeRef: {name: plain}}
---
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: theirs, namespace: default}
spec: {replicaSpecs: [{type: master, replicas: 1, template: {spec: {containers: [{name: pytorch, image: i}]}}}]}
"""


def test_who_may_edit_a_namespace_makes_jobs_there_and_no_queues():
    plane = Cluster.plane
    plane.kubectl("apply", "-f", os.path.join(ROOT, "deploy", "crds"))
    plane.kubectl("apply", "-f", os.path.join(RBAC, "users.yaml"))
    objects = stream(plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=MADE_BY_EDITORS).stdout)
    for role in ("edit", "view"):
        plane.kubectl("create", "serviceaccount", role, "-n", "default", ok=False)
        plane.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--serviceaccount=default:{role}", "-n", "default",
                      ok=False)

    def may(role, verb, resource, namespace="default"):
        who = f"--as=system:serviceaccount:default:{role}"
        return plane.kubectl("auth", "can-i", verb, resource, "-n", namespace, who, ok=False).stdout.strip() == "yes"
    try:
        wait_for(lambda: may("view", "list", "torchrunjobs.torchrun.ai") and may("edit", "create", "torchrunjobs.torchrun.ai"),
                 "the API server to gather the rules")
        plane.kubectl("create", "-f", "-", "--as=system:serviceaccount:default:edit", input=MADE_BY_EDITORS)
        for o in objects:
            kind = o["kind"].lower() + "s." + o["apiVersion"].split("/")[0]
            seen = plane.kubectl("get", kind, "theirs", "-n", "default", "--as=system:serviceaccount:default:view", "-o", "name")
            check(seen.stdout.strip(), f"who views sees it: {kind}")
            check(not may("view", "delete", kind), f"and deletes none: {kind}")
        for resource in ("queues.scheduling.run.ai", "torchrunqueues.torchrun.ai", "schedulingshards.kai.scheduler"):
            check(not may("edit", "create", resource), f"what shares the cluster is not theirs: {resource}")
        check(not may("edit", "create", "torchrunjobs.torchrun.ai", "kube-system"), "nor is another namespace")
    finally:
        plane.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", input=MADE_BY_EDITORS)
        for role in ("edit", "view"):
            plane.kubectl("delete", "serviceaccount,rolebinding", role, "-n", "default", "--ignore-not-found")


def test_helm_installs_upgrades_and_removes_it():
    plane = Cluster.plane
    env = dict(os.environ, KUBECONFIG=plane.kubeconfig, HOME=plane.folder)

    def helm(*argv):
        return run([os.path.join(binaries("helm"), "helm"), *argv, "--namespace", "muster-helm"], env=env).stdout

    def there(*what):
        return plane.kubectl("get", *what, "-n", "muster-helm", "-o", "name", ok=False).stdout.split()

    def deployment():
        return json.loads(plane.kubectl("get", "deployment", "muster-operator", "-n", "muster-helm", "-o", "json").stdout)["spec"]
    plane.kubectl("delete", "-f", RBAC, "--ignore-not-found", limit=120)
    told = helm("install", "muster", CHART, "--create-namespace", "--set", "global.gpuSharing=true")
    try:
        check("kubectl get queues" in told and "Shares of GPUs are on" in told, f"what to do next is said: {told}")
        check(deployment()["replicas"] == 2 and there("clusterrole", "muster-sharing"), "two replicas, and sharing's role")
        helm("upgrade", "muster", CHART, "--set", "operator.replicaCount=3,defaultQueue.childName=team-a")
        check(deployment()["replicas"] == 3, "an upgrade changes it")
        check("--default-queue=team-a" in deployment()["template"]["spec"]["containers"][0]["args"], "and its flags")
        check(not there("clusterrole", "muster-sharing"), "what is not wanted any more is gone")
        helm("upgrade", "muster", CHART, "--set", "admission.enabled=false")
        helm("rollback", "muster", "2")
        check(deployment()["replicas"] == 3 and there("mutatingwebhookconfiguration", "muster"), "a rollback brings it back")
    finally:
        helm("uninstall", "muster")
    left = there("deployment,service,poddisruptionbudget,role,rolebinding") + [
        o for o in there("clusterrole,clusterrolebinding,mutatingwebhookconfiguration,validatingwebhookconfiguration")
        if "/muster" in o]
    check(not left, f"nothing is left of it: {left}")
    check(there("namespace", "kai-resource-reservation"), "what holds shared GPUs stays while they are used")
    check("customresourcedefinition.apiextensions.k8s.io/torchrunjobs.torchrun.ai" in there("crd"), "kinds and objects stay")
    helm("install", "another", CHART, "--set", "global.gpuSharing=true")
    try:
        check(there("clusterrole", "muster-sharing"), "a release of another name finds that namespace, and leaves it as it is")
        helm("upgrade", "another", CHART, "--set", "global.gpuSharing=true")
    finally:
        helm("uninstall", "another")
    check(there("namespace", "kai-resource-reservation"), "and it stays again")


def test_wrong_values_are_refused_by_their_names():
    for value, words in (("global.gpusharing=true", "gpusharing"), ("operator.replicaCount=two", "operator.replicaCount"),
                         ("operator.logLevel=loud", "operator.logLevel"),
                         ("serviceMonitor.interval=soon", "serviceMonitor.interval"),
                         ("global.imagePullSecrets[0]=s", "global.imagePullSecrets.0"), ("admision.enabled=false", "admision"),
                         ("defaultQueue.childName=My Queue", "defaultQueue.childName"),
                         ("global.nodeSelector=a", "global.nodeSelector"),
                         ("scheduler.placementStrategy=spread", "scheduler")):
        done = render("--set", value)
        check(done.returncode != 0 and words in done.stderr, f"{value}: {done.stdout[:200]}{done.stderr[-300:]}")


def template_of(plane, text):
    """The pod template of the Deployment in a manifest."""
    objects = stream(plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=text).stdout)
    return next(o for o in objects if o["kind"] == "Deployment")["spec"]["template"]


def test_values_reach_the_operator():
    plane = Cluster.plane
    sets = ("global.schedulerName=other", "podgrouper.queueLabelKey=team/queue", "defaultQueue.parentName=org",
            "defaultQueue.childName=team-a", "operator.controllers[0]=-mpijob", "operator.qps=77", "clusterDomain=lab.local",
            "global.tolerations[0].operator=Exists", "global.requireDefaultPodAntiAffinityTerm=true",
            "serviceMonitor.enabled=true", "serviceMonitor.interval=7s", "global.namespaceLabelSelector.team=a",
            "global.podLabelSelector.share=yes", "operator.resources.limits.memory=3Gi")
    text = render(*(part for value in sets for part in ("--set", value))).stdout
    for words in ("interval: 7s", 'matchLabels: {"team":"a"}', 'objectSelector: {matchLabels: {"share":"yes"}}', "memory: 3Gi",
                  "object.spec.schedulerName == 'other'", "requiredDuringScheduling"):
        check(words in text, f"{words} is rendered")
    text = "---\n".join(d for d in text.split("---\n") if "monitoring.coreos.com" not in d)  # no such kind here
    pod = template_of(plane, text)
    flags = [a for a in pod["spec"]["containers"][0]["args"]
             if not a.startswith(("operator", "--namespace", "--webhook", "--launch"))]
    with Cluster(nodes=1, gpus_per_node=8, operator_flags=flags) as m:
        wait_for(lambda: m.get("queue", "team-a")["spec"]["parentQueue"] == "org", "the default queue, by its name")
        m.apply("""
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, labels: {team/queue: team-a}}
spec: {schedulerName: other, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
""")
        wait_for(lambda: m.get("pod", "p")["status"]["phase"] == "Running", "a pod of the other scheduler's name to run")
        check(m.get("podgroups")[0]["spec"]["queue"] == "team-a", "in the queue of the other label")


def test_its_pods_pass_the_restricted_pod_security_standard():
    plane = Cluster.plane
    plane.kubectl("create", "namespace", "restricted", ok=False)
    plane.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    plane.kubectl("create", "serviceaccount", "muster-operator", "-n", "restricted", ok=False)
    with open(os.path.join(ROOT, "deploy", "deployment.yaml")) as f:
        plain = f.read()
    for text in (plain, render("--set", "global.gpuSharing=true").stdout):
        pod = {"apiVersion": "v1", "kind": "Pod", **template_of(plane, text)}
        pod["metadata"] = {"name": "p", "namespace": "restricted"}
        plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))
        container = pod["spec"]["containers"][0]["securityContext"]
        check(container["readOnlyRootFilesystem"] and container["capabilities"] == {"drop": ["ALL"]}, f"{container}")
        del container["capabilities"]
        done = plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod), ok=False)
        check("restricted" in done.stderr, f"a pod that keeps capabilities is refused: {done.stderr}")


def test_sharing_and_webhooks_are_rendered_where_they_are_wanted():
    plane = Cluster.plane
    done = render("--set", "global.gpuSharing=true")
    check(done.returncode == 0, done.stderr)
    for words in ("--gpu-sharing=true", "--webhook-listen", "name: muster-sharing", "matchConditions", "kind: Namespace"):
        check(words in done.stdout, f"{words} is there")
    for namespace in ("muster-system", "kai-resource-reservation"):
        plane.kubectl("create", "namespace", namespace, ok=False)
    applied(plane, done.stdout)
    off = render("--set", "admission.enabled=false").stdout
    check("WebhookConfiguration" not in off and "--webhook-listen" not in off, "webhooks can be left out")
    done = render("--set", "admission.enabled=false", "--set", "global.gpuSharing=true")
    check(done.returncode != 0 and "admission.enabled" in done.stderr, done.stderr[-500:])
    check("--gpu-memory-limits" not in render("--set", "global.gpuSharing=true").stdout, "shares are no limits unless asked")
    done = render("--set", "global.gpuSharing=true", "--set", "global.gpuMemoryLimits=true")
    check("--gpu-memory-limits" in done.stdout, done.stderr[-500:])
    check("muster-suspend" not in done.stdout and "--gpu-suspend" not in done.stdout, "nobody may run commands unless asked")
    done = render("--set", "global.gpuMemoryLimits=true")
    check(done.returncode != 0 and "global.gpuSharing" in done.stderr, done.stderr[-500:])
    done = render("--set", "global.gpuSharing=true", "--set", "global.gpuMemoryLimits=true", "--set", "global.gpuSuspend=true")
    check("--gpu-suspend" in done.stdout and "name: muster-suspend" in done.stdout, done.stderr[-500:])
    done = render("--set", "global.gpuSharing=true", "--set", "global.gpuSuspend=true")
    check(done.returncode != 0 and "global.gpuMemoryLimits" in done.stderr, done.stderr[-500:])
    plain = render().stdout
    check("--node-health" not in plain and "muster-health" not in plain, "nobody may change nodes unless asked")
    done = render("--set", "global.nodeHealth=true", "--set", "global.selfTestImage=registry.example.org/torch:2")
    check("--self-test-image=registry.example.org/torch:2" in done.stdout and "name: muster-health" in done.stdout,
          done.stderr[-500:])
    done = render("--set", "global.selfTestImage=registry.example.org/torch:2")
    check(done.returncode != 0 and "global.nodeHealth" in done.stderr, done.stderr[-500:])
    old = render("--kube-version", "1.26.0").stdout
    check("matchConditions:" not in old and "failurePolicy: Fail" not in old, "an old server waits for nobody")


def test_alerts_and_dashboard_are_installed_where_they_are_wanted():
    plain = render().stdout
    check("PrometheusRule" not in plain and "muster-dashboard" not in plain, "nobody gets them unasked")
    text = render("--set", "alerts.enabled=true", "--set", "alerts.labels.release=prometheus", "--set", "dashboard.enabled=true",
                  "--set", "dashboard.namespace=grafana").stdout
    check("kind: PrometheusRule" in text and "release: prometheus" in text and "MusterNobodyLeads" in text, "the alerts")
    board = "---\n" + next(d for d in text.split("---\n") if "name: muster-dashboard" in d)
    made = json.loads(Cluster.plane.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", input=board).stdout)
    check(made["metadata"]["namespace"] == "grafana" and made["metadata"]["labels"]["grafana_dashboard"] == "1", "its place")
    check(json.loads(made["data"]["muster.json"])["panels"], "the dashboard as it is in deploy/monitoring")


def test_dashboard_and_alerts_name_only_metrics_that_exist():
    with Cluster(nodes=1, gpus_per_node=8) as m:
        told = set(re.findall(r"^# TYPE (\S+)", m.leader().fetch("/metrics"), re.M))
    folder = os.path.join(ROOT, "deploy", "monitoring")
    for file in os.listdir(folder):
        with open(os.path.join(folder, file)) as f:
            text = f.read()
        if file.endswith(".json"):
            text = " ".join(t["expr"] for p in json.loads(text)["panels"] for t in p["targets"])
        else:
            text = " ".join(re.findall(r"expr: (.*)", text))
        named = {re.sub("_bucket$", "", name) for name in re.findall(r"\b(?:muster|kai)_[a-z_0-9]+", text)}
        check(named and named <= told, f"{file} names what /metrics does not tell: {named - told}")
