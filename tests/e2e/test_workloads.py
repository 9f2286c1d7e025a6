"""Kinds that charts contain, on the embedded API server, with real kubectl."""

import json

from harness import Muster, check, need_kubectl, needs, wait_for

TEMPLATE = """
  selector: {matchLabels: {app: %(name)s}}
  template:
    metadata: {labels: {app: %(name)s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "any:1", command: [sleep, "600"]}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {kubernetes.io/change-cause: first}}
spec:
  replicas: 2
""" + TEMPLATE.replace('"600"]', '"600"], resources: {requests: {cpu: 10m, memory: 8Mi}}') % {"name": "web"}
SETS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
""" + TEMPLATE % {"name": "db"} + """
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
""" + TEMPLATE % {"name": "agent"}
CRON = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: any, command: ["true"]}]
"""
CLAIMING = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s}
spec:
  resourceClaims: [{name: device, %(how)s: none}]
  containers: [{name: main, image: any, command: ["true"], resources: {claims: [{name: device}]}}]
"""
OLD_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: relics.test.local}
spec:
  group: test.local
  scope: Namespaced
  names: {plural: relics, kind: Relic}
  versions:
  - {name: v1, served: true, storage: true, deprecated: true, deprecationWarning: let it rest,
     schema: {openAPIV3Schema: {type: object}}}
"""
TWO_MAPS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, labels: {app: maps}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pruned, labels: {app: maps}}
"""


def image(m, kind, name):
    return m.get(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]


def pods(m, app):
    return [p for p in m.get("pods") if p["metadata"]["labels"].get("app") == app]


@needs("the controllers of a controller-manager on one machine")
def test_a_deployment_is_rolled_out_and_back_with_kubectl():
    with Muster() as m:
        m.apply(DEPLOYMENT)
        m.kubectl("rollout", "status", "deployment/web", "--timeout=60s", limit=90)
        m.kubectl("set", "image", "deployment/web", "main=any:2")
        m.kubectl("rollout", "status", "deployment/web", "--timeout=60s", limit=90)
        wait_for(lambda: [p["spec"]["containers"][0]["image"] for p in pods(m, "web")] == ["any:2"] * 2, "the new pods")
        history = m.kubectl("rollout", "history", "deployment/web").stdout
        check([line.split()[0] for line in history.splitlines()[2:] if line.strip()] == ["1", "2"], history)
        m.kubectl("rollout", "undo", "deployment/web")
        m.kubectl("rollout", "status", "deployment/web", "--timeout=60s", limit=90)
        check(image(m, "deployment", "web") == "any:1", "it went back to another template")
        check(m.get("deployment", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3",
              "a rollback is a revision of its own")
        m.kubectl("rollout", "restart", "deployment/web")
        m.kubectl("rollout", "status", "deployment/web", "--timeout=60s", limit=90)
        m.kubectl("scale", "deployment/web", "--replicas=1")
        wait_for(lambda: len(pods(m, "web")) == 1, "one pod to be left")
        shown = m.kubectl("get", "deployment", "web").stdout.split()
        check(shown[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"] and shown[6] == "1/1", str(shown))
        m.kubectl("delete", "deployment", "web", "--timeout=30s")
        wait_for(lambda: not pods(m, "web") and not m.get("replicasets"), "its pods to go with it")


@needs("the controllers of a controller-manager on one machine")
def test_sets_jobs_at_moments_and_quotas():
    need_kubectl(21)
    with Muster() as m:
        m.apply(SETS)
        m.kubectl("rollout", "status", "statefulset/db", "--timeout=60s", limit=90)
        m.kubectl("rollout", "status", "daemonset/agent", "--timeout=60s", limit=90)
        check(sorted(p["metadata"]["name"] for p in pods(m, "db")) == ["db-0", "db-1"], "names of the pods")
        check(len(pods(m, "agent")) == len(m.get("nodes")), "a pod on every node")
        m.apply(CRON)
        m.kubectl("create", "job", "--from=cronjob/nightly", "now")
        m.kubectl("wait", "job/now", "--for=condition=complete", "--timeout=60s", limit=90)
        refused = m.kubectl("create", "cronjob", "odd", "--image=any", "--schedule=61 * * * *", ok=False)
        check('"61" is not a minute' in refused.stderr, refused.stderr)

        for name, how in (("names", "resourceClaimName"), ("makes", "resourceClaimTemplateName")):
            m.apply(CLAIMING % {"name": name, "how": how})
            wait_for(lambda: "ResourceClaim" in json.dumps(m.get("pod", name).get("status", {}).get("conditions", [])),
                     "the pod to say that its claim is not there")
            check(m.get("pod", name)["status"]["phase"] == "Pending", "a pod runs without its claim")
            m.kubectl("delete", "pod", name, "--timeout=30s")

        m.kubectl("create", "quota", "few", "--hard=pods=3")
        wait_for(lambda: m.get("quota", "few").get("status", {}).get("used", {}).get("pods") == "3",
                 "what is taken to be counted")
        refused = m.kubectl("run", "more", "--image=any", "--restart=Never", ok=False)
        check("exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3" in refused.stderr, refused.stderr)
        m.kubectl("delete", "statefulset/db", "daemonset/agent", "--timeout=30s")


@needs("the pods that stand for other operators on one machine")
def test_pods_that_stand_for_others_are_for_who_asks_for_them():
    with Muster() as m:
        m.kubectl("wait", "--for=condition=ready", "pod", "--all", "-n", "kai-scheduler", "--timeout=60s", limit=90)
        m.kubectl("wait", "--for=condition=ready", "pod/training-operator", "-n", "kubeflow", "--timeout=60s", limit=90)
        check("No resources found" in m.kubectl("get", "pods", "-A").stderr, "pods that do not run are shown")
        everything = json.loads(m.kubectl("get", "pods", "-A", "-o", "json").stdout)["items"]
        check(not everything, f"pods that do not run are listed: {[p['metadata']['name'] for p in everything]}")
        check("scheduler" in m.kubectl("get", "pods", "-n", "kai-scheduler").stdout, "who asks for them sees them")
        check("binder" in m.kubectl("get", "pods", "-A", "-l", "app=binder").stdout, "and who asks by label")
        nodes = {n["metadata"]["name"] for n in m.get("nodes")}
        metrics = m.kubectl("get", "--raw", "/metrics").stdout
        named = {line.split('node="')[1].split('"')[0] for line in metrics.splitlines() if 'node="' in line}
        check(named <= nodes, f"metrics of nodes that there are not: {named - nodes}")


@needs("the controllers of a controller-manager on one machine")
def test_small_answers_of_the_api_server():
    need_kubectl(25)
    with Muster() as m:
        service = wait_for(lambda: m.get("service", "kubernetes"), "the Service of the API server")
        check(service["spec"]["ports"][0]["port"] == 443, "the Service of the API server has another port")
        m.kubectl("apply", "-f", "-", input=TWO_MAPS)
        m.kubectl("apply", "--prune", "-l", "app=maps", "-f", "-", input=TWO_MAPS.split("---")[0])
        check(m.get("configmap", "kept") and not m.get("configmap", "pruned"), "what is no longer in the manifest")
        uid = m.get("configmap", "kept")["metadata"]["uid"]
        gone = json.loads(m.kubectl("delete", "--raw", "/api/v1/namespaces/default/configmaps/kept").stdout)
        check(gone["kind"] == "Status" and gone["details"]["uid"] == uid, f"the answer to a delete: {gone}")

        document = json.loads(m.kubectl("get", "--raw", "/openapi/v2").stdout)
        check(document["swagger"] == "2.0" and "apps.v1.Deployment" in document["definitions"], "OpenAPI 2 as JSON")
        check("ai.torchrun.v1alpha1.TorchrunJob" in document["definitions"], "custom kinds by Kubernetes' name for them")
        refused = m.kubectl("get", "--raw", "/api/v1/pods?timeout=soon", ok=False)
        check("invalid timeout" in refused.stderr, refused.stderr)
        m.apply(OLD_CRD)
        m.kubectl("wait", "--for=condition=established", "crd/relics.test.local", "--timeout=20s")
        told = m.kubectl("get", "relics").stderr
        check("Warning: let it rest" in told, told)
