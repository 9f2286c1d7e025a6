"""An object of each served kind with every field set, made from the table of types (src/api/types; types.h says its form).

Values follow from a field's type and name, so that the rules of the API server hold. What cannot be set together with the
rest, or would have somebody act on the object, is left out by name, with the reason."""

import glob
import os

TYPES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src", "api", "types")
TIME, MICROTIME = "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.006007Z"


class Field:
    def __init__(self, line):
        self.name, self.type, number, *words = line.split(" # ")[0].split()
        self.number = int(number)
        self.list, self.map, self.inline = "list" in words, "map" in words, "inline" in words
        self.elsewhere = "elsewhere" in words


class Message:
    def __init__(self, version, line):
        name, *words = line.split(" # ")[0].split()[1:]
        self.version, self.name, self.kind, self.bare = version, name, "kind" in words, "bare" in words
        self.fields = []


def messages():
    """{"v1.PodSpec": Message}"""
    out, version, message = {}, "", None
    for path in sorted(glob.glob(os.path.join(TYPES, "*.txt"))):
        with open(path) as f:
            for line in f:
                if line.startswith("version "):
                    version = line.split()[1]
                elif line.startswith("message "):
                    message = Message(version, line)
                    out[f"{version}.{message.name}"] = message
                elif line.startswith("  ") and line.strip() and not line.strip().startswith("#"):
                    message.fields.append(Field(line))
    return out


# Messages of which one field is set at a time (None), or one of some fields. Where they stand in a list, an item has each
# of them; elsewhere they take turns, over as many objects as that needs.
UNIONS = {
    "v1.VolumeSource": None, "v1.PersistentVolumeSource": None, "v1.EnvVarSource": None, "v1.ProbeHandler": None,
    "v1.LifecycleHandler": None, "v1.ContainerState": None, "v1.VolumeProjection": None,
    "networking.k8s.io/v1.IngressBackend": None, "storage.k8s.io/v1.VolumeAttachmentSource": None,
    "policy/v1.PodDisruptionBudgetSpec": ("minAvailable", "maxUnavailable"),
    "batch/v1.PodFailurePolicyRule": ("onExitCodes", "onPodConditions"),
    "authorization.k8s.io/v1.SubjectAccessReviewSpec": ("resourceAttributes", "nonResourceAttributes"),
    "authorization.k8s.io/v1.SelfSubjectAccessReviewSpec": ("resourceAttributes", "nonResourceAttributes"),
    "admissionregistration.k8s.io/v1.ParamRef": ("name", "selector"),
    "admissionregistration.k8s.io/v1.WebhookClientConfig": ("service", "url"),
}

# By message and field, or by field alone: a text that is not the field's name, a number that is not 7. "X.f.key" is the key of
# the map.
# A request for a certificate of the user jo; its key is nowhere.
REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1HOENBUUF3RFRFTE1Ba0dBMVVFQXd3Q2FtOHdXVEFUQmdjcWhrak9QUU"
    "lCQmdncWhrak9QUU1CQndOQwpBQVE4RERNQ0ZyeTlzWk1xdmNHYU52dVRqMkRUWGt6MkNORXo3OWVDelJHLzY1THFUaW1DZi91R0RUYlI5bnI4"
    "Ck1QNjg4R0k1RWRVcUxlc0RqUlkrWjhYZW9BQXdDZ1lJS29aSXpqMEVBd0lEU0FBd1JRSWhBS1YrMUVEQ2E3YzQKSEthaVdZU0lHdFI1aklmVy"
    "tMNVZYL3hLaWZlcmUweG5BaUF2ODhjT01CVkwyYUFzUmdnR0Fhbkc1dW9IT0JoLwpVT1JWQURRZEEyNXk2dz09Ci0tLS0tRU5EIENFUlRJRklD"
    "QVRFIFJFUVVFU1QtLS0tLQo=")
ACCESS, OPERATION = "ReadWriteOnce", "CREATE"
VALUES = {
    "ConfigMap.data.key": "a", "ConfigMap.binaryData.key": "a", "Secret.data.key": "a",
    "imagePullPolicy": "Always", "pullPolicy": "Always", "terminationMessagePolicy": "File", "protocol": "UDP",
    "restartPolicy": "Always", "dnsPolicy": "None", "ip": "10.0.0.7", "operator": "In", "preemptionPolicy": "Never",
    "priorityClassName": "whole", "serviceAccount": "serviceaccountname", "hostIP": "10.0.0.8", "podIP": "10.0.0.7",
    "replicas": 1, "LimitRangeItem.type": "Container", "LimitRangeItem.maxLimitRequestRatio": "1",
    "accessModes": ACCESS, "PersistentVolumeSpec.capacity.key": "storage", "persistentVolumeReclaimPolicy": "Retain",
    "VolumeResourceRequirements.requests.key": "storage", "VolumeResourceRequirements.limits.key": "storage",
    "scopes": "PriorityClass", "scopeName": "PriorityClass",
    "ServiceSpec.type": "LoadBalancer", "operations": OPERATION, "failurePolicy": "Ignore", "matchPolicy": "Exact",
    "admissionregistration.k8s.io/v1.MatchCondition.expression": "true", "Validation.expression": "true",
    "Validation.messageExpression": "'m'", "Variable.expression": "1", "AuditAnnotation.valueExpression": "'v'",
    "LabelSelector.matchLabels": "labels", "LabelSelectorRequirement.key": "a.b/c", "LabelSelectorRequirement.values": "labels",
    "ReplicationControllerSpec.selector": "labels", "VolumeMount.name": "name-0", "VolumeDevice.name": "name-0",
    "DeploymentStrategy.type": "RollingUpdate", "DaemonSetUpdateStrategy.type": "RollingUpdate",
    "StatefulSetUpdateStrategy.type": "RollingUpdate", "podManagementPolicy": "Parallel", "whenDeleted": "Delete",
    "whenScaled": "Delete", "progressDeadlineSeconds": 70, "schedule": "0 0 1 1 *", "concurrencyPolicy": "Forbid",
    "timeZone": "Europe/Berlin", "completionMode": "Indexed", "PodFailurePolicyRule.action": "Ignore",
    "podReplacementPolicy": "Failed", "succeededIndexes": "0-3", "succeededCount": 3, "pathType": "Exact",
    "policyTypes": "Ingress", "ResourceAttributes.namespace": "default",
    "MutatingWebhook.name": "a.example.com", "ValidatingWebhook.name": "a.example.com",
    "WebhookClientConfig.url": "https://a.example.com/b", "sideEffects": "None", "admissionReviewVersions": "v1",
    "reinvocationPolicy": "Never", "Rule.scope": "Namespaced", "ServiceReference.path": "/path",
    "CertificateSigningRequestSpec.request": REQUEST, "CertificateSigningRequestSpec.usages": "client auth",
    "CertificateSigningRequestSpec.signerName": "a.example.com/b", "CertificateSigningRequestSpec.expirationSeconds": 700,
    "Validation.reason": "Invalid", "validationActions": "Warn", "parameterNotFoundAction": "Allow",
}

# What is not set, and why: by message and field, or by field of every message.
LEFT_OUT = {
    "ObjectMeta.uid": "the server sets it",
    "ObjectMeta.resourceVersion": "the server sets it",
    "ObjectMeta.generation": "the server sets it",
    "ObjectMeta.creationTimestamp": "the server sets it",
    "ObjectMeta.deletionTimestamp": "the server sets it",
    "ObjectMeta.deletionGracePeriodSeconds": "the server sets it",
    "ObjectMeta.managedFields": "the server sets it",
    "ObjectMeta.selfLink": "nobody sets it any more",
    "ObjectMeta.finalizers": "nobody would remove them",
    "ObjectMeta.ownerReferences": "an object whose owner is not there is collected",
    "ServiceSpec.clusterIP": "the server gives one",
    "ServiceSpec.clusterIPs": "the server gives one",
    "JobSpec.selector": "the server makes it",
    "RollingUpdateDaemonSet.maxSurge": "not beside maxUnavailable, which has a default",
    "PodSpec.ephemeralContainers": "they are added to a pod that is there",
    "CertificateSigningRequestSpec.username": "the server sets it",
    "CertificateSigningRequestSpec.uid": "the server sets it",
    "CertificateSigningRequestSpec.groups": "the server sets it",
    "CertificateSigningRequestSpec.extra": "the server sets it",
    "CertificateSigningRequestStatus.certificate": "only a signer writes it",
    "CertificateSigningRequestStatus.conditions": "is written at /approval",
    "Secret.stringData": "is written only, and comes back in data",
}
# What they name and must be there.
PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "whole"}, "value": 7,
            "preemptionPolicy": "Never"}
# By kind: what its rules ask of a pod.
PODS = {"Job": {"restartPolicy": "Never"}, "CronJob": {"restartPolicy": "Never"},
        **{kind: {"activeDeadlineSeconds": None} for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
                                                              "ReplicationController")}}
SCALARS = {"int32": 7, "int64": 7, "bool": True, "double": 0.5, "time": TIME, "microtime": MICROTIME, "bytes": "AP8=",
           "quantity": "1500m", "int-or-string": "25%", "json": {"a": ["b", 1]}}


class Maker:
    """Makes objects; `used` has the members of unions that were set."""

    def __init__(self):
        self.messages, self.turns, self.used = messages(), {}, set()

    def left_out(self, message, field):
        return (f"{message.name}.{field.name}" in LEFT_OUT or field.name in LEFT_OUT
                or f"{message.version}.{message.name}.{field.name}" in LEFT_OUT or field.elsewhere)

    def scalar(self, message, field):
        for key in (f"{message.version}.{message.name}.{field.name}", f"{message.name}.{field.name}", field.name):
            if key in VALUES:
                return VALUES[key]
        return SCALARS.get(field.type, field.name.lower())

    def named(self, message, type_name):
        return self.messages.get(type_name) or self.messages[f"{message.version}.{type_name}"]

    def value(self, message, field, above):
        if field.type in SCALARS or field.type == "string":
            return self.scalar(message, field)
        inner = self.named(message, field.type)
        if above.count(inner) > 0:
            return None  # schemas hold schemas
        return self.fill(inner, {}, above + [inner])

    def alternatives(self, message):
        """The fields that are always set, and those of which one is."""
        fields = [f for f in message.fields if not self.left_out(message, f)]
        key = f"{message.version}.{message.name}"
        if key not in UNIONS:
            return fields, []
        apart = [f for f in fields if UNIONS[key] is None or f.name in UNIONS[key]]
        return [f for f in fields if f not in apart], apart

    def union(self, message):
        """The union among the fields of a message, or the message itself."""
        if f"{message.version}.{message.name}" in UNIONS:
            return message
        for field in message.fields:
            if field.inline:
                inner = self.union(self.named(message, field.type))
                if inner:
                    return inner
        return None

    def items(self, message, field, above):
        inner = None if field.type in SCALARS or field.type == "string" else self.named(message, field.type)
        union = self.union(inner) if inner else None
        if not union:
            return [self.value(message, field, above)]
        out = []
        for index in range(len(self.alternatives(union)[1])):
            item = self.value(message, field, above)
            if "name" in item:
                item["name"] = f"{item['name']}-{index}"
            if "mountPath" in item:
                item["mountPath"] += f"-{index}"
            out.append(item)
        return out

    def members(self, message):
        """The fields to set; of a union the one whose turn it is."""
        fields, apart = self.alternatives(message)
        key = f"{message.version}.{message.name}"
        if not apart:
            return fields
        turn = self.turns.get(key, 0)
        self.turns[key] = turn + 1
        chosen = apart[turn % len(apart)]
        self.used.add((key, chosen.name))
        return fields + [chosen]

    def fill(self, message, out, above):
        for field in self.members(message):
            if field.inline:
                self.fill(self.named(message, field.type), out, above)
                continue
            if field.list:
                value = [v for v in self.items(message, field, above) if v is not None]
            else:
                value = self.value(message, field, above)
                if field.map and value is not None:
                    value = {VALUES.get(f"{message.name}.{field.name}.key", "a.b/c"): value}
            if value is not None and value != []:
                out[field.name] = value
        if message.bare:
            return list(out.values())[-1]
        if message.name == "PodSpec":
            for name, value in PODS.get(above[0].name, {}).items():
                out[name] = value
                if value is None:
                    del out[name]
        return out

    def objects(self, version, kind):
        """Objects of a kind, as many as the unions in it need."""
        message, out = self.messages[f"{version}.{kind}"], []
        while True:
            before = len(self.used)
            out.append({"apiVersion": version, "kind": kind, **self.fill(message, {}, [message])})
            if len(out) > 1 and len(self.used) == before:
                return out[:-1]
            if before == len(self.used):
                return out
