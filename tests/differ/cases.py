"""What settled.py has controllers settle: steps that make and change objects. What a pod does stands in its annotation `does`:
`ready` (as without it), `runs` and is never ready, `waits` for a node, `succeeds`, `fails:CODE`."""

APPS, BATCH, POLICY, DISCOVERY = "apps/v1", "batch/v1", "policy/v1", "discovery.k8s.io/v1"
NODES = ("settled-a", "settled-b")
LABELS = {"app": "x"}
SELECTOR = {"matchLabels": LABELS}


class Case:
    """`least`: seconds after each step, where something happens by the clock."""

    def __init__(self, name, *steps, least=0):
        self.name, self.steps, self.least = name, steps, least


def template(does="ready", image="i:1", labels=None, **spec):
    return {"metadata": {"labels": labels or LABELS, "annotations": {"does": does}}, "spec": {
        "schedulerName": "nobody", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80, "name": "http"}]}], **spec}}


def workload(version, kind, plural, does="ready", name="w", more=None, **spec):
    made = template(does, **(more or {}))
    body = {"kind": kind, "metadata": {"name": name}, "spec": {"selector": SELECTOR, "template": made, **spec}}
    return lambda w: w.make(version, plural, body)


def deployment(does="ready", **spec):
    return workload(APPS, "Deployment", "deployments", does, **spec)


def stateful(does="ready", **spec):
    return workload(APPS, "StatefulSet", "statefulsets", does, serviceName="s", **spec)


def daemon(does="ready", **spec):
    return workload(APPS, "DaemonSet", "daemonsets", does, more={"nodeSelector": {"settled": "here"}}, **spec)


def replicas(does="ready", **spec):
    return workload(APPS, "ReplicaSet", "replicasets", does, **spec)


def job(does="succeeds", **spec):
    return lambda w: w.make(BATCH, "jobs", {"kind": "Job", "metadata": {"name": "w"}, "spec": {
        "template": template(does, restartPolicy="Never"), **spec}})


def cron(**spec):
    return lambda w: w.make(BATCH, "cronjobs", {"kind": "CronJob", "metadata": {"name": "w"}, "spec": {
        "schedule": "0 0 30 2 *", "jobTemplate": {"spec": {"template": template("succeeds", restartPolicy="Never")}}, **spec}})


def change(plural, spec, version=APPS, name="w"):
    return lambda w: w.patch(version, plural, name, {"spec": spec})


def image(plural, tag):
    """Another template."""
    return change(plural, {"template": {"metadata": {"annotations": {"tag": tag}}}})


def delete(plural, version=APPS, name="w", **options):
    return lambda w: w.delete(version, plural, name, options)


def pod(name="p", does="ready", labels=None, finalizers=(), **spec):
    made = template(does, labels=labels, **spec)
    made["metadata"].update(name=name, finalizers=list(finalizers))
    return lambda w: w.make("v1", "pods", {"kind": "Pod", **made})


def service(**spec):
    return lambda w: w.make("v1", "services", {"kind": "Service", "metadata": {"name": "s"}, "spec": {
        "ports": [{"port": 80, "name": "a", "targetPort": "http"}], "selector": LABELS, **spec}})


def budget(**spec):
    return lambda w: w.make(POLICY, "poddisruptionbudgets", {"kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                                                             "spec": {"selector": SELECTOR, **spec}})


def quota(**spec):
    return lambda w: w.make("v1", "resourcequotas", {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec})


def config(name="m", finalizers=()):
    return lambda w: w.make("v1", "configmaps", {"kind": "ConfigMap", "metadata": {"name": name, "finalizers": list(finalizers)}})


def all_of(*steps):
    return lambda w: [step(w) for step in steps]


def no_namespace(w):
    w.must("DELETE", f"/api/v1/namespaces/{w.ns}")


ENDPOINTS = {"kind": "Endpoints", "metadata": {"name": "s"}, "subsets": [{
    "addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": [{"port": 80, "name": "a"}]}]}
CLAIM = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                                            "resources": {"requests": {"storage": "1Gi"}}}}
EXITS = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}
IGNORES = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}

CASES = [
    Case("deployment ready", deployment(replicas=3)),
    Case("deployment not ready", deployment("runs", replicas=2)),
    Case("deployment paused", deployment(replicas=1, paused=True)),
    Case("deployment changed", deployment(replicas=3), image("deployments", "2")),
    Case("deployment changed and not ready", deployment(replicas=3), change("deployments", {
        "template": {"metadata": {"annotations": {"does": "runs"}}}})),
    Case("deployment recreated", deployment(replicas=2, strategy={"type": "Recreate"}), image("deployments", "2")),
    Case("deployment scaled to none", deployment(replicas=2), change("deployments", {"replicas": 0})),
    Case("deployment scaled down", deployment(replicas=3), change("deployments", {"replicas": 1})),
    Case("deployment changed back", deployment(replicas=1), image("deployments", "2"), image("deployments", None)),
    Case("deployment with one old set", deployment(replicas=1, revisionHistoryLimit=1), image("deployments", "2"),
         image("deployments", "3"), image("deployments", "4")),
    Case("deployment that is late", deployment("runs", replicas=1, progressDeadlineSeconds=2), least=8),
    Case("deployment paused and changed", deployment(replicas=1), all_of(change("deployments", {"paused": True}),
                                                                        image("deployments", "2"))),
    Case("deployment whose pods are left alone", deployment(replicas=2), delete("deployments", propagationPolicy="Orphan")),
    Case("deployment that is gone", deployment(replicas=2), delete("deployments", propagationPolicy="Foreground")),
    Case("replicas ready", replicas(replicas=2)),
    Case("replicas not ready", replicas("runs", replicas=2)),
    Case("replicas that adopt a pod", pod("alone"), replicas(replicas=2)),
    Case("replicas without a pod's label", replicas(replicas=1), lambda w: w.patch(
        "v1", "pods", w.items("v1", "pods")[0]["metadata"]["name"], {"metadata": {"labels": {"app": "y"}}})),
    Case("replicas of pods that end", replicas("ready", replicas=1), lambda w: w.patch(
        "v1", "pods", w.items("v1", "pods")[0]["metadata"]["name"], {"status": {"phase": "Failed"}}, "/status")),
    Case("replicas scaled down", replicas(replicas=3), change("replicasets", {"replicas": 1})),
    Case("set ready", stateful(replicas=3)),
    Case("set not ready", stateful("runs", replicas=3)),
    Case("set in parallel", stateful("runs", replicas=3, podManagementPolicy="Parallel")),
    Case("set with claims", stateful(replicas=2, volumeClaimTemplates=[CLAIM])),
    Case("set from another number", stateful(replicas=2, ordinals={"start": 5})),
    Case("set scaled down", stateful(replicas=3), change("statefulsets", {"replicas": 1})),
    Case("set changed", stateful(replicas=2), image("statefulsets", "2")),
    Case("set changed in part", stateful(replicas=3, updateStrategy=ROLLING), image("statefulsets", "2")),
    Case("set changed on delete", stateful(replicas=2, updateStrategy={"type": "OnDelete"}), image("statefulsets", "2")),
    Case("set changed and not ready", stateful(replicas=2), change("statefulsets", {
        "template": {"metadata": {"annotations": {"does": "runs"}}}})),
    Case("daemons ready", daemon()),
    Case("daemons not ready", daemon("runs")),
    Case("daemons nowhere", workload(APPS, "DaemonSet", "daemonsets", more={"nodeSelector": {"no": "where"}})),
    Case("daemons changed", daemon(), image("daemonsets", "2")),
    Case("daemons changed on delete", daemon(updateStrategy={"type": "OnDelete"}), image("daemonsets", "2")),
    Case("daemons changed and not ready", daemon(), change("daemonsets", {
        "template": {"metadata": {"annotations": {"does": "runs"}}}})),
    Case("job done", job(completions=2, parallelism=2)),
    Case("job runs", job("runs", completions=3, parallelism=2)),
    Case("job ready", job("ready", parallelism=2)),
    Case("job by index", job(completions=2, parallelism=2, completionMode="Indexed")),
    Case("job suspended", job(suspend=True)),
    Case("job suspended later", job("runs", parallelism=2), change("jobs", {"suspend": True}, BATCH)),
    Case("job resumed", job(suspend=True), change("jobs", {"suspend": False}, BATCH)),
    Case("job failed", job("fails:1", backoffLimit=0)),
    Case("job failed by its policy", job("fails:3", backoffLimit=5, podFailurePolicy=EXITS)),
    Case("job failed by index", job("fails:1", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0)),
    Case("job failed with too many indexes", job("fails:1", completions=3, parallelism=3, completionMode="Indexed",
                                                 backoffLimitPerIndex=0, maxFailedIndexes=1)),
    Case("job that is late", job("runs", activeDeadlineSeconds=1), least=4),
    Case("job of which one is enough", job(completions=3, parallelism=1, completionMode="Indexed",
                                           successPolicy={"rules": [{"succeededCount": 1}]})),
    Case("job that is gone when it is done", job(ttlSecondsAfterFinished=0), least=4),
    Case("job with less parallelism", job("runs", parallelism=3), change("jobs", {"parallelism": 1}, BATCH)),
    Case("job of an outside controller", job(managedBy="acme.io/x")),
    Case("job deleted with its pods", job("runs"), delete("jobs", BATCH, propagationPolicy="Background")),
    Case("cron suspended", cron(suspend=True)),
    Case("cron that never fires", cron()),
    Case("cron every minute", cron(schedule="* * * * *", successfulJobsHistoryLimit=1),
         change("cronjobs", {"suspend": True}, BATCH), least=62),
    Case("endpoints", all_of(service(), pod("a"), pod("b", "runs"), pod("c", labels={"app": "y"}))),
    Case("endpoints before they are ready", all_of(service(publishNotReadyAddresses=True), pod("a", "runs"))),
    Case("endpoints with names", all_of(service(clusterIP="None"), pod("a", hostname="h", subdomain="s"),
                                        pod("b", hostname="h2", subdomain="t"))),
    Case("endpoints of two ports", all_of(service(ports=[{"port": 80, "name": "a", "targetPort": "http"},
                                                         {"port": 81, "name": "b"}]), pod("a"))),
    Case("endpoints of nobody", service()),
    Case("endpoints that end", all_of(service(), pod("a", finalizers=["a.b/c"])), delete("pods", "v1", "a")),
    Case("endpoints by hand", all_of(service(selector=None), lambda w: w.make("v1", "endpoints", ENDPOINTS))),
    Case("endpoints of a service that is gone", all_of(service(), pod("a")), delete("services", "v1", "s")),
    Case("budget of a deployment", all_of(deployment(replicas=3), budget(maxUnavailable=1))),
    Case("budget of a deployment that waits", all_of(deployment("waits", replicas=3), budget(minAvailable=1))),
    Case("budget by share", all_of(stateful(replicas=3), budget(minAvailable="50%"))),
    Case("budget of single pods", all_of(pod("a"), pod("b"), budget(minAvailable=1))),
    Case("budget of single pods without a number", all_of(pod("a"), pod("b"), budget(maxUnavailable=1))),
    Case("budget of a job", all_of(job("ready", parallelism=2), lambda w: w.make(
        POLICY, "poddisruptionbudgets", {"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {
            "selector": SELECTOR, "maxUnavailable": 1}}))),
    Case("budget of nothing", budget(maxUnavailable=1)),
    Case("budget without a selector", budget(maxUnavailable=1, selector=None)),
    Case("budget of a job that is done", all_of(job(completions=2, parallelism=2), budget(minAvailable=1))),
    Case("quota of pods", all_of(quota(hard={"pods": "5", "requests.cpu": "2"}), lambda w: pod("a", containers=[
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}])(w))),
    Case("quota of counts", all_of(quota(hard={"count/configmaps": "9", "count/deployments.apps": "3", "services": "4",
                                               "secrets": "2"}), config(), deployment(replicas=1), service())),
    Case("quota of the best effort", all_of(quota(hard={"pods": "5"}, scopes=["BestEffort"]), pod("a"))),
    Case("quota after a delete", all_of(quota(hard={"pods": "5", "count/configmaps": "9"}), config(), pod("a")),
         all_of(delete("pods", "v1", "a"), delete("configmaps", "v1", "m")), least=3),
    Case("quota of pods that ended", all_of(quota(hard={"pods": "5"}), pod("a", "succeeds", restartPolicy="Never")), least=3),
    Case("namespace that a finalizer keeps", config(finalizers=["a.b/c"]), no_namespace, least=15),
    Case("namespace that a pod keeps", pod("a", finalizers=["a.b/c", "a.b/d"]), no_namespace, least=15),
    Case("namespace that is gone", all_of(config(), deployment(replicas=1)), no_namespace),
]
