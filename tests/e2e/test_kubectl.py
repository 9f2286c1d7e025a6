"""Every family of kubectl's commands, with every kubectl there is, as a user would type them."""

import json
import os
import subprocess
import urllib.request

from harness import Failure, Muster, Skip, check, free_port, run, wait_for
from kubectls import kubectls

# Pods share the machine's loopback network: a port that nothing else uses.
PORT = free_port()
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web, tier: front}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: any
    command: [bash, -c, 'echo first; echo second; cd /tmp; exec python3 -m http.server {PORT} --bind "$ADDRESS"']
    env: [{{name: ADDRESS, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}]
    ports: [{{containerPort: {PORT}}}]
"""

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.local}
spec:
  group: test.local
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wg]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Colour, type: string, jsonPath: .spec.colour, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: what the widget should be
            properties:
              size: {type: integer, minimum: 0, description: how large it is}
              colour: {type: string, enum: [red, green], default: red}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""

WIDGET = """
apiVersion: test.local/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
"""


class Client:
    """One kubectl with one muster."""

    def __init__(self, muster, version, path):
        self.muster, self.version, self.path = muster, version, path
        self.new = version >= (1, 25)

    def __call__(self, *argv, ok=True, input=None, limit=60, env=None):
        merged = dict(self.muster.env, **(env or {}))
        return run([self.path, *argv], env=merged, ok=ok, input=input, limit=limit)

    def out(self, *argv, **options):
        return self(*argv, **options).stdout

    def says(self, text, *argv, **options):
        """The command succeeds and prints `text`."""
        done = self(*argv, **options)
        check(text in done.stdout + done.stderr,
              f"{self.path} {' '.join(argv)}: no {text!r} in\n{done.stdout}{done.stderr}")
        return done

    def fails(self, text, *argv, code=1, **options):
        done = self(*argv, ok=False, **options)
        check(done.returncode == code and text in done.stdout + done.stderr,
              f"{self.path} {' '.join(argv)}: exit {done.returncode}, expected {code} and {text!r} in\n"
              f"{done.stdout}{done.stderr}")


def with_every_kubectl(steps):
    found = kubectls()
    if not found:
        raise Skip("no kubectl on PATH")
    for version, path in found:
        with Muster(nodes=2, gpus_per_node=2) as m:
            try:
                steps(Client(m, version, path))
            except Exception as e:
                raise Failure(f"kubectl {version[0]}.{version[1]}: {e}") from e


def test_discovery_and_explain():
    def steps(k):
        k.says("Server Version", "version")
        k.says("is running at", "cluster-info")
        k.says("torchrun.ai/v1alpha1", "api-versions")
        k.says("torchrunjobs", "api-resources")
        k.says("pods", "api-resources", "--namespaced=true", "-o", "name")
        k.says('"gitVersion"', "get", "--raw", "/version")
        check(k.out("get", "--raw", "/readyz") == "ok", "readyz")
        k.says("containers", "explain", "pod.spec")
        k.says("environment variables", "explain", "pods.spec.containers.env")
        k.says("numGPUs", "explain", "torchrunjob.spec")
        k.says("restartPolicy", "explain", "pod", "--recursive")
        k.fails("doesn't have a resource type", "get", "nonsense")
    with_every_kubectl(steps)


def test_create_and_get():
    def steps(k):
        k.says("created", "create", "configmap", "cm", "--from-literal=a=b")
        k.says("created", "create", "secret", "generic", "s", "--from-literal=password=x")
        k.says("created", "create", "namespace", "other")
        k.says("created", "create", "serviceaccount", "bot")
        k.says("created", "create", "service", "clusterip", "svc", "--tcp=80:8080")
        k.says("created", "create", "priorityclass", "high", "--value=1000")
        if k.new:
            k.says("created", "create", "pdb", "budget", "--selector=app=web", "--min-available=1")
        k.fails('configmaps "cm" already exists', "create", "configmap", "cm")
        check(k.out("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "b", "configmap data")
        check(k.out("get", "secret", "s", "-o", "jsonpath={.data.password}") == "eA==", "secret data")
        check(k.out("get", "svc", "svc", "-o", "jsonpath={.spec.ports[0].targetPort}") == "8080", "service port")
        k.says("created", "create", "-f", "-", input=POD)
        wait_for(lambda: "Running" in k.out("get", "pod", "web"), "the pod to run")
        header = k.out("get", "pods").splitlines()[0].split()
        check(header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], f"columns {header}")
        k.says("NOMINATED NODE", "get", "pods", "-o", "wide")
        k.says("app=web", "get", "pods", "--show-labels")
        k.says("TIER", "get", "pods", "-L", "tier")
        check("web" in k.out("get", "pods", "-l", "app in (web,x),!foo"), "selector")
        check(k.out("get", "pods", "-l", "app!=web", "--no-headers", "-o", "name") == "", "selector")
        check("web" in k.out("get", "pods", "--field-selector", "metadata.name=web,status.phase!=Failed"), "fields")
        check(k.out("get", "pods", "-o", "name").strip() == "pod/web", "-o name")
        k.says("kind: Pod", "get", "pods", "-o", "yaml")
        check(json.loads(k.out("get", "pods", "-o", "json"))["items"][0]["kind"] == "Pod", "-o json")
        check(k.out("get", "pod", "web", "-o", "custom-columns=N:.metadata.name", "--no-headers").strip() == "web",
              "custom columns")
        check(k.out("get", "pod", "web", "-o", "go-template={{.metadata.name}}") == "web", "go-template")
        k.says("default", "get", "pods", "-A")
        k.says("NAMESPACE", "get", "cm", "-A")
        for i in range(5):
            k("create", "configmap", f"many-{i}", "-n", "other")
        check(len(k.out("get", "cm", "-n", "other", "--chunk-size=2", "-o", "name").split()) >= 5, "chunks")
        names = k.out("get", "cm", "-n", "other", "--sort-by=.metadata.name", "-o", "name").split()
        check(names == sorted(names), "sorted")
        k.says("pod/web", "get", "pods,cm")
        k.says("pod/web", "get", "all")
        k.says("No resources found", "get", "pods", "-n", "other")
        k.fails('pods "nope" not found', "get", "pod", "nope")
        k.says("node-0", "describe", "node", "node-0")
        k.says("Scheduled", "describe", "pod", "web")
        k.says("TargetPort", "describe", "service", "svc")
        k.says("Scheduled", "get", "events")
        if k.new:
            k.says("Scheduled", "events", "--for", "pod/web")
        k.says("pod/r1 created", "run", "r1", "--image=any", "--restart=Never", "--", "true")
        k.says("service/web exposed", "expose", "pod", "web", "--port=80", f"--target-port={PORT}")
    with_every_kubectl(steps)


def test_apply_patch_and_edit():
    def steps(k):
        one = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: "1"}\n'
        two = one.replace('"1"', '"2"')
        k.says("created", "apply", "-f", "-", input=one)
        k.says("unchanged", "apply", "-f", "-", input=one)
        k.fails('+  a: "2"', "diff", "-f", "-", input=two)
        k.says("server dry run", "apply", "--dry-run=server", "-f", "-", input=two)
        check(k.out("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "1", "a dry run changes nothing")
        k.says("configured", "apply", "-f", "-", input=two)
        k("diff", "-f", "-", input=two)
        k.says("labeled", "label", "cm", "cm", "x=y")
        k.fails("already has a value", "label", "cm", "cm", "x=z")
        k.says("labeled", "label", "cm", "cm", "x=z", "--overwrite")
        k.says("", "label", "cm", "cm", "x-")
        k.says("annotated", "annotate", "cm", "cm", "note=hello")
        k.says("patched", "patch", "cm", "cm", "-p", '{"data":{"b":"3"}}')
        k.says("patched", "patch", "cm", "cm", "--type=merge", "-p", '{"data":{"b":null}}')
        k.says("patched", "patch", "cm", "cm", "--type=json", "-p",
               '[{"op":"add","path":"/data/c","value":"4"}]')
        k.says("edited", "edit", "cm", "cm", env={"EDITOR": "sed -i s/hello/goodbye/"})
        data = json.loads(k.out("get", "cm", "cm", "-o", "json"))
        check(data["data"] == {"a": "2", "c": "4"} and data["metadata"]["annotations"]["note"] == "goodbye",
              f"after the patches: {data}")
        k.says("replaced", "replace", "-f", "-", input=one)
        old = json.dumps(dict(data, data={"a": "9"}))
        k.fails("the object has been modified", "replace", "-f", "-", input=old)
        k.says("replaced", "replace", "--force", "-f", "-", input=one)
        # mistakes are named
        bad = POD.replace("image: any", "imagee: any")
        done = k("apply", "-f", "-", input=bad, ok=False)
        check(done.returncode == 1 and "imagee" in done.stderr, f"unknown field: {done.stderr}")
        k.fails("is invalid", "apply", "-f", "-", input=POD.replace("name: web,", "name: Web_,"))
        # set and create with several documents
        k.says("created", "apply", "-f", "-", input=POD)
        k.says("image updated", "set", "image", "pod/web", "c=another")
    with_every_kubectl(steps)


def test_custom_resources():
    def steps(k):
        k.says("created", "apply", "-f", "-", input=CRD)
        k.says("condition met", "wait", "--for=condition=established", "crd/widgets.test.local", "--timeout=20s")
        k.says("created", "apply", "-f", "-", input=WIDGET)
        check(k.out("get", "wg").split()[:4] == ["NAME", "SIZE", "w", "3"], k.out("get", "wg"))
        k.says("red", "get", "wg", "-o", "wide")
        k.says("how large it is", "explain", "widget.spec")
        done = k("apply", "-f", "-", input=WIDGET.replace("3", "-3"), ok=False)
        check("spec.size" in done.stderr and "is invalid" in done.stderr, done.stderr)
        k.says("configured", "apply", "-f", "-", input=WIDGET.replace("3", "4"))
        k.says("patched", "patch", "wg", "w", "--type=merge", "-p", '{"spec":{"colour":"green"}}')
        k.says("Colour", "describe", "wg", "w")
        k.says("deleted", "delete", "crd", "widgets.test.local")
        wait_for(lambda: k("get", "wg", ok=False).returncode != 0, "the kind to be gone")
    with_every_kubectl(steps)


def test_watch_wait_and_delete():
    def steps(k):
        k("apply", "-f", "-", input=POD)
        k.says("condition met", "wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
        log = os.path.join(k.muster.folder, "watch")
        with open(log, "w") as out:
            watch = subprocess.Popen([k.path, "get", "pod", "web", "-w"], env=k.muster.env, stdout=out,
                                     stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: "Running" in open(log).read(), "the watch to begin")
            k("annotate", "pod", "web", "seen=1")
            wait_for(lambda: open(log).read().count("Running") >= 2, "the change")
            k("delete", "pod", "web")
            wait_for(lambda: "Terminating" in open(log).read(), "the deletion")
        finally:
            watch.kill()
            watch.wait()
        k.fails("NotFound", "get", "pod", "web")
        k.fails("not found", "delete", "pod", "web")
        k("delete", "pod", "web", "--ignore-not-found")
        for flags in (["--now"], ["--force", "--grace-period=0"], ["--cascade=orphan"], ["--wait=false"]):
            k("apply", "-f", "-", input=POD)
            k.says("deleted", "delete", "-f", "-", *flags, input=POD, limit=60)
            wait_for(lambda: k("get", "pod", "web", ok=False).returncode != 0, "the pod to be gone")
        k("create", "configmap", "a")
        k("label", "configmap", "a", "x=y")
        k.says("server dry run", "delete", "cm", "a", "--dry-run=server")
        k.says("deleted", "delete", "cm", "-l", "x=y")
        k("create", "namespace", "temp")
        k("create", "configmap", "b", "-n", "temp")
        k.says("deleted", "delete", "namespace", "temp", limit=60)
        k.fails("NotFound", "get", "ns", "temp")
        if k.new:
            k("apply", "-f", "-", input=POD)
            k.says("condition met", "wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=30s")
    with_every_kubectl(steps)


def test_logs_exec_copy_and_ports():
    def steps(k):
        k("apply", "-f", "-", input=POD)
        k("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
        wait_for(lambda: "second" in k.out("logs", "web"), "the log")
        check(k.out("logs", "web", "-c", "c").splitlines()[:2] == ["first", "second"], "the whole log")
        check(k.out("logs", "web", "--tail=1").strip() == "second", "tail")
        check(k.out("logs", "web", "--limit-bytes=3") == "fir", "limit")
        check(k.out("logs", "web", "--timestamps", "--tail=1").split()[0].endswith("Z"), "timestamps")
        check("first" in k.out("logs", "-l", "app=web"), "by selector")
        check("first" in k.out("logs", "web", "--all-containers"), "all containers")
        k.fails("previous terminated container", "logs", "web", "--previous")
        k.fails("nope", "logs", "web", "-c", "nope")
        check(k.out("exec", "web", "--", "echo", "hello world").strip() == "hello world", "exec")
        k.fails("exit code 7", "exec", "web", "--", "bash", "-c", "echo oops >&2; exit 7", code=7)
        check(k.out("exec", "-i", "web", "--", "cat", input="through stdin") == "through stdin", "stdin")
        source = os.path.join(k.muster.folder, "source")
        with open(source, "wb") as f:
            f.write(os.urandom(3_000_000))
        k("cp", source, "default/web:/tmp/copied")
        k("cp", "default/web:/tmp/copied", source + ".back")
        check(open(source, "rb").read() == open(source + ".back", "rb").read(), "copied there and back")
        port = free_port()
        forward = subprocess.Popen([k.path, "port-forward", "pod/web", f"{port}:{PORT}"], env=k.muster.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            for _ in range(3):
                body = wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read(),
                                "an answer through the forwarded port")
                check(b"Directory listing" in body, "what the pod serves")
        finally:
            forward.kill()
            forward.wait()
        k.says("Directory listing", "get", "--raw", f"/api/v1/namespaces/default/pods/web:{PORT}/proxy/")
        k.says("Directory listing", "get", "--raw", "/api/v1/namespaces/default/pods/web/proxy/")  # its first port
        k.fails("nobody", "get", "--raw", f"/api/v1/namespaces/default/pods/nobody:{PORT}/proxy/")
    with_every_kubectl(steps)


def test_nodes_and_rights():
    def steps(k):
        k.says("cordoned", "cordon", "node-1")
        k.says("SchedulingDisabled", "get", "node", "node-1")
        k.says("uncordoned", "uncordon", "node-1")
        k.says("tainted", "taint", "node", "node-1", "a=b:NoSchedule")
        k.says("untainted", "taint", "node", "node-1", "a-")
        k.says("labeled", "label", "node", "node-1", "zone=x")
        k("apply", "-f", "-", input=POD)
        k("wait", "--for=condition=Ready", "pod/web", "--timeout=30s")
        node = k.out("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}")
        k.says("evict", "drain", node, "--force", "--ignore-daemonsets", "--timeout=60s", limit=90)
        k.fails("NotFound", "get", "pod", "web")
        k("uncordon", node)
        k.says("yes", "auth", "can-i", "create", "pods")
        k.says("*.*", "auth", "can-i", "--list")
        k("create", "serviceaccount", "bot")
        k("create", "role", "reader", "--verb=get,list", "--resource=pods")
        k("create", "rolebinding", "bots", "--role=reader", "--serviceaccount=default:bot")
        bot = "--as=system:serviceaccount:default:bot"
        wait_for(lambda: "yes" in k("auth", "can-i", "list", "pods", bot, ok=False).stdout, "the binding")
        k.fails("no", "auth", "can-i", "delete", "pods", bot)
        k.fails("no", "auth", "can-i", "list", "pods", "-n", "kube-system", bot)
        if k.new:
            k.says("muster:owner", "auth", "whoami")
            token = k.out("create", "token", "bot").strip()
            limited = ["--token", token, "--kubeconfig", token_config(k)]
            k.says("No resources found", "get", "pods", *limited)
            k.fails("forbidden", "get", "secrets", *limited)
            k.fails("forbidden", "get", "pods", "-n", "kube-system", *limited)
    with_every_kubectl(steps)


def token_config(k):
    """The kubeconfig without its own token."""
    path = os.path.join(k.muster.folder, "anonymous")
    with open(k.muster.kubeconfig) as f, open(path, "w") as out:
        out.write("".join(line for line in f if "token:" not in line))
    return path


def test_scale_and_autoscale():
    def steps(k):
        k("apply", "-f", "-", input=CRD)
        k("wait", "--for=condition=established", "crd/widgets.test.local", "--timeout=20s")
        k("apply", "-f", "-", input=WIDGET)
        k.says("scaled", "scale", "wg", "w", "--replicas=5")
        check(k.out("get", "wg", "w", "-o", "jsonpath={.spec.size}") == "5", "the field that the CRD names")
        k.fails("Expected replicas to be 3", "scale", "wg", "w", "--current-replicas=3", "--replicas=6")
        k.says("scaled", "scale", "wg", "w", "--current-replicas=5", "--replicas=6")
        k("create", "configmap", "cm")
        k.fails("scale", "scale", "cm", "cm", "--replicas=1")
        k.says("autoscaled", "autoscale", "wg", "w", "--max=4", "--cpu-percent=50")
        check(k.out("get", "hpa").split()[:6] == ["NAME", "REFERENCE", "TARGETS", "MINPODS", "MAXPODS", "REPLICAS"],
              k.out("get", "hpa"))
        for version, path in (("v1", "{.spec.targetCPUUtilizationPercentage}"),
                              ("v2", "{.spec.metrics[0].resource.target.averageUtilization}")):
            found = k.out("get", f"horizontalpodautoscalers.{version}.autoscaling", "w", "-o", f"jsonpath={path}")
            check(found == "50", f"the target in autoscaling/{version}: {found}")
        # a client of v1 does not lose what only v2 can say
        k("patch", "horizontalpodautoscalers.v2.autoscaling", "w", "--type=merge", "-p", json.dumps({"spec": {"metrics": [
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization",
                                                                           "averageUtilization": 9}}}]}}))
        k("patch", "horizontalpodautoscalers.v1.autoscaling", "w", "--type=merge", "-p", '{"spec":{"maxReplicas":7}}')
        found = k.out("get", "horizontalpodautoscalers.v2.autoscaling", "w", "-o",
                      "jsonpath={.spec.maxReplicas} {.spec.metrics[*].resource.name}")
        check(found == "7 memory", found)
    with_every_kubectl(steps)


def test_server_side_apply_keeps_owners_apart():
    def steps(k):
        def manifest(**data):
            return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data})

        def apply(manager, *flags, ok=True, **data):
            return k("apply", "--server-side", f"--field-manager={manager}", *flags, "-f", "-", input=manifest(**data),
                     ok=ok)
        apply("one", a="1", b="1")
        apply("two", c="2")
        done = apply("two", ok=False, a="2", c="2")
        check(done.returncode == 1 and 'conflict with "one"' in done.stderr and ".data.a" in done.stderr, done.stderr)
        apply("two", "--force-conflicts", a="2", c="2")
        done = apply("one", ok=False, a="3", b="1")
        check(done.returncode == 1 and 'conflict with "two"' in done.stderr, done.stderr)
        apply("one", b="1")  # gives up what it lost; nothing else changes
        check(json.loads(k.out("get", "cm", "shared", "-o", "json"))["data"] == {"a": "2", "b": "1", "c": "2"}, "merged")
        apply("two", c="2")  # the last owner of a takes it away
        check(json.loads(k.out("get", "cm", "shared", "-o", "json"))["data"] == {"b": "1", "c": "2"}, "removed")
        # an ordinary write owns too
        k("patch", "cm", "shared", "--type=merge", "-p", '{"data":{"b":"9"}}')
        done = apply("one", ok=False, b="1")
        check(done.returncode == 1 and "conflict" in done.stderr, done.stderr)
    with_every_kubectl(steps)


def test_mistakes_are_named():
    twice = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1","a":"2"},"x":1}'
    waiting = POD.replace("spec:", "spec:\n  nodeSelector: {no: where}", 1)

    def steps(k):
        # kubectl itself keeps one of two members of a name, so the text goes as it is
        k.fails('strict decoding error: unknown field "x", duplicate field "data.a"', "create", "--raw",
                "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", "-f", "-", input=twice)
        if k.new:
            done = k("create", "-f", "-", "--validate=warn", input=twice)
            check('Warning: unknown field "x"' in done.stderr, done.stderr)
            k("delete", "cm", "twice")
            done = k("create", "-f", "-", "--validate=ignore", input=twice)
            check("Warning" not in done.stderr, done.stderr)
        k.fails("field label not supported: spec.nodename", "get", "pods", "--field-selector", "spec.nodename=x")
        k.fails("field label not supported", "get", "pods", "-w", "--field-selector", "spec.nodename=x")
        k.fails("limit", "get", "--raw", "/api/v1/pods?limit=many")
        k.fails("resource version", "get", "--raw", "/api/v1/pods?resourceVersion=new")
        k.fails("Too large resource version", "get", "--raw", "/api/v1/pods?resourceVersion=99999999")
        k.says("PodList", "get", "--raw", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact")
        k.fails("resourceVersionMatch", "get", "--raw", "/api/v1/pods?resourceVersionMatch=Exact")
        k.says("PodList", "get", "--raw", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=NotOlderThan")
        k("create", "configmap", "cm", "--from-literal=a=1")
        for path, patch in (("/data/a", '[{"op":"test","path":"/data/a","value":"2"}]'),
                            ("/data/z", '[{"op":"remove","path":"/data/z"}]')):
            # An older client prints the causes of a refusal alone, and Kubernetes gives none here.
            k.fails(path if k.new else "The request is invalid", "patch", "cm", "cm", "--type=json", "-p", patch)
        k.fails("the server could not find the requested resource", "get", "--raw", "/apis/batch/v1/nothings")
        # a pod that waits for a node has no log yet, and nothing to enter
        k("apply", "-f", "-", input=waiting)
        check(k.out("logs", "web") == "", "the log of a waiting pod")
        k.fails("does not have a host assigned", "exec", "web", "--", "true")
        k.fails("Unsupported value", "apply", "-f", "-", input="""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: odd}
spec: {accessModes: [Sometimes], resources: {requests: {storage: 1Gi}}}
""")
    with_every_kubectl(steps)


def test_services_have_addresses_at_once():
    def steps(k):
        k.says("created", "create", "service", "clusterip", "svc", "--tcp=80:8080")
        address = k.out("get", "svc", "svc", "-o", "jsonpath={.spec.clusterIP}")
        check(address.count(".") == 3 and k.out("get", "svc").split().count(address) == 1, k.out("get", "svc"))
        k.fails("may not change once set", "patch", "svc", "svc", "-p", '{"spec":{"clusterIP":"None"}}')
        k.says("", "patch", "svc", "svc", "-p", '{"spec":{"clusterIP":""}}')
        check(k.out("get", "svc", "svc", "-o", "jsonpath={.spec.clusterIP}") == address, "kept")
        k.fails("failed to allocate", "create", "service", "clusterip", "odd", "--clusterip=1.2.3.4", "--tcp=80")
        k.says("created", "create", "service", "clusterip", "headless", "--clusterip=None")
        check(k.out("get", "svc", "headless", "-o", "jsonpath={.spec.clusterIP}") == "None", "headless")
        k.says("created", "create", "service", "externalname", "ext", "--external-name=a.example")
        k.says("a.example", "get", "svc", "ext")
        k.says(address, "describe", "svc", "svc")
    with_every_kubectl(steps)


def test_attach():
    echo = """
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: any, stdin: true, stdinOnce: true, command: [sh, -c, 'while read x; do echo "got $x"; done; echo end']}
"""

    def steps(k):
        k("apply", "-f", "-", input=echo)
        k("wait", "--for=condition=Ready", "pod/echo", "--timeout=30s")
        k.says("got hello", "attach", "-i", "echo", "-c", "c", input="hello\n", limit=30)
        wait_for(lambda: k.out("get", "pod", "echo", "-o", "jsonpath={.status.phase}") == "Succeeded",
                 "the end of its input to end it")
        check("end" in k.out("logs", "echo"), "the log has it too")
        k.fails("completed pod", "attach", "echo")
        k.says("through a pod", "run", "-i", "--rm", "once", "--image=any", "--restart=Never", "--", "cat",
               input="through a pod\n", limit=60)
        k.fails("NotFound", "get", "pod", "once")
    with_every_kubectl(steps)


def test_a_token_bound_to_a_pod_ends_with_it():
    def steps(k):
        if not k.new:
            return
        k("apply", "-f", "-", input=POD)
        k("create", "serviceaccount", "bot")
        k.fails("not found", "create", "token", "bot", "--bound-object-kind=Pod", "--bound-object-name=nope")
        token = k.out("create", "token", "bot", "--bound-object-kind=Pod", "--bound-object-name=web").strip()
        free = k.out("create", "token", "bot").strip()
        config = token_config(k)
        k.says("serviceaccount:default:bot", "auth", "whoami", "--token", token, "--kubeconfig", config)
        k("delete", "pod", "web", "--now")
        wait_for(lambda: "logged in" in k("auth", "whoami", "--token", token, "--kubeconfig", config, ok=False).stderr,
                 "the token to be refused")
        k.says("serviceaccount:default:bot", "auth", "whoami", "--token", free, "--kubeconfig", config)
    with_every_kubectl(steps)


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set"}, "spec": {
    "replicas": 1, "selector": {"matchLabels": {"a": "set"}},
    "template": {"metadata": {"labels": {"a": "set"}}, "spec": {"terminationGracePeriodSeconds": 600, "containers": [
        {"name": "c", "image": "any", "command": ["bash", "-c", "trap '' TERM; while :; do sleep 1; done"]}]}}}}


def test_what_the_address_of_a_delete_says_holds():
    """Clients in Python, and curl, put the options there."""
    with Muster() as m:
        where = "/apis/apps/v1/namespaces/default/replicasets/set"
        m.kubectl("apply", "-f", "-", input=json.dumps(SET))
        m.kubectl("wait", "--for=condition=Ready", "pod", "-l", "a=set", "--timeout=60s")
        pod = m.kubectl("get", "pod", "-l", "a=set", "-o", "name").stdout.strip().split("/")[1]
        for wrong in ("propagationPolicy=Nothing", "propagationPolicy=Orphan&orphanDependents=true"):
            status, said = m.rest.ask("DELETE", f"{where}?{wrong}")
            check(status == 422 and b'"propagationPolicy"' in said, f"{wrong}: {status} {said}")
        status, said = m.rest.ask("DELETE", f"{where}?gracePeriodSeconds=x")
        check(status == 400, f"{status} {said}")
        status, said = m.rest.ask("DELETE", f"{where}?propagationPolicy=Orphan")
        check(status == 200, f"{status} {said}")
        wait_for(lambda: m.rest.get(where) is None, "the set to be gone")
        kept = m.rest.get(f"/api/v1/namespaces/default/pods/{pod}")
        check(kept and not kept["metadata"].get("deletionTimestamp") and not kept["metadata"].get("ownerReferences"), str(kept))
        check(m.rest.ask("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0")[0] == 200, "deleted")
        wait_for(lambda: m.rest.get(f"/api/v1/namespaces/default/pods/{pod}") is None, "the pod to be gone", 20)
