"""The objects that requests are made of: valid ones of every kind that Kubernetes has and we serve, with much in them."""

SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
PLAIN = {"matchLabels": {"a": "b"}}
ENV = [{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
       {"name": "R", "valueFrom": {"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}},
       {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
       {"name": "S", "valueFrom": {"secretKeyRef": {"name": "m", "key": "k", "optional": True}}}]
TERM = {"labelSelector": SELECTOR, "topologyKey": "zone", "namespaces": ["d"]}
NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
             "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
POD = {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "activeDeadlineSeconds": 50, "dnsPolicy": "None",
    "nodeSelector": {"a": "b"}, "serviceAccountName": "default", "automountServiceAccountToken": False,
    "hostname": "h", "subdomain": "s", "schedulerName": "nobody", "enableServiceLinks": True, "setHostnameAsFQDN": False,
    "imagePullSecrets": [{"name": "r"}], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x.y"]}],
    "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}]},
    "readinessGates": [{"conditionType": "a.b/c"}], "schedulingGates": [{"name": "a.b/g"}],
    "securityContext": {"runAsUser": 1, "runAsGroup": 1, "fsGroup": 1, "supplementalGroups": [1], "runAsNonRoot": True,
                        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}], "fsGroupChangePolicy": "Always",
                        "seccompProfile": {"type": "RuntimeDefault"}},
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
                         "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": NODE_TERM}]},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM],
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": TERM}]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
                    {"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                   "labelSelector": SELECTOR, "minDomains": 1, "nodeAffinityPolicy": "Honor",
                                   "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["k"]}],
    "containers": [{
        "name": "c", "image": "registry:5000/a/b", "command": ["a"], "args": ["b"], "workingDir": "/w", "env": ENV,
        "envFrom": [{"prefix": "P", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "m", "optional": True}}],
        "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}, {"containerPort": 81}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "livenessProbe": {"httpGet": {"port": 80, "path": "/x", "scheme": "HTTP", "httpHeaders": [{"name": "a", "value": "b"}]},
                          "timeoutSeconds": 2, "periodSeconds": 5, "failureThreshold": 2, "initialDelaySeconds": 1},
        "readinessProbe": {"grpc": {"port": 81, "service": "s"}, "successThreshold": 2},
        "startupProbe": {"exec": {"command": ["true"]}, "terminationGracePeriodSeconds": 3},
        "lifecycle": {"preStop": {"httpGet": {"port": "http"}}, "postStart": {"exec": {"command": ["a"]}}},
        "volumeMounts": [{"name": "e", "mountPath": "/e", "subPath": "a", "readOnly": True},
                         {"name": "h", "mountPath": "/h", "mountPropagation": "None"}],
        "terminationMessagePolicy": "File", "terminationMessagePath": "/x", "imagePullPolicy": "Always",
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        "securityContext": {"runAsUser": 1, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}, "procMount": "Default",
                            "allowPrivilegeEscalation": True, "seccompProfile": {"type": "Localhost",
                        "localhostProfile": "p"}}}],
    "initContainers": [{"name": "i", "image": "busybox:1", "restartPolicy": "Always",
                        "startupProbe": {"tcpSocket": {"port": 80}}}],
    "volumes": [
        {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"name": "h", "hostPath": {"path": "/x",
            "type": "Directory"}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 256, "items": [{"key": "k", "path": "p", "mode": 256}]}},
        {"name": "m", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        {"name": "d", "downwardAPI": {"items": [
            {"path": "p", "fieldRef": {"fieldPath": "metadata.labels['a']"}},
            {"path": "q", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}}]}},
        {"name": "p", "projected": {"defaultMode": 256, "sources": [
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 700, "audience": "a"}}, {"configMap": {"name": "c"}},
            {"secret": {"name": "c"}}, {"downwardAPI": {"items": [{"path": "p",
                "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
        {"name": "n", "nfs": {"server": "s", "path": "/p"}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "x", "csi": {"driver": "a.b"}},
        {"name": "g", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
        {"name": "q", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0}}]}
SMALL = {"automountServiceAccountToken": False, "schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
LARGE = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD, "restartPolicy": "Always"}}
LARGE["spec"].pop("activeDeadlineSeconds")
ONCE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x",
         "volumeMode": "Filesystem"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}
RBAC = "rbac.authorization.k8s.io"
POD_METRIC = {"type": "Pods", "pods": {"metric": {"name": "m", "selector": PLAIN}, "target": {"type": "AverageValue",
    "averageValue": "1"}}}
CPU_METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}

REQUEST = (  # for a certificate
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1HNENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQlpNQk1HQnlxR1NNNDlBZ0"
    "VHQ0NxR1NNNDlBd0VIQTBJQQpCSXg1VlZVU1JxSHVVSWl1UUdvd0dLdlBwR3VhTVhzOEtiS0YwVTJhMTNTMkljd3JITFdTREZRRHlRR0tpMk5j"
    "ClE1dWNvN2RiMzhDSHpITjVZMTAxOVZ1Z0FEQUtCZ2dxaGtqT1BRUURBZ05KQURCR0FpRUE0ZHFBY3lIY1U1SDIKQ1dQZTNUYUNUSTVKVEtMdU"
    "N1SlhPdXdIa2owUUg5MENJUUNMVmE1aktHM1RSRnVpSnhJK0lKK0F4M2FmYUFMSApsQjBRKzJrUWZjUU9xdz09Ci0tLS0tRU5EIENFUlRJRklD"
    "QVRFIFJFUVVFU1QtLS0tLQo=")
RESOURCES = {"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"],
             "scope": "Namespaced"}
MATCH = {"namespaceSelector": PLAIN, "objectSelector": PLAIN, "matchPolicy": "Exact"}
WEBHOOK = {"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
           "timeoutSeconds": 3, "rules": [RESOURCES], **MATCH, "matchConditions": [{"name": "m", "expression": "true"}],
           "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/p", "port": 443}}}

BOUNDS = "differ-bounds"  # a namespace of their own: what bounds pods would refuse them before anything else is looked at

# (apiVersion, kind, plural, namespaced (or in which namespace), the object)
OBJECTS = [
    ("v1", "Pod", "pods", True, {"metadata": {"labels": {"p": "q"}, "annotations": {"x": "y"}, "finalizers": ["a.b/c"]},
        "spec": POD}),
    ("v1", "Pod", "pods", True, {"spec": SMALL}),
    ("v1", "Service", "services", True, {"spec": {
        "ports": [{"port": 80, "name": "a", "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}, {"port": 81,
            "name": "b"}],
        "selector": {"a": "b"}, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
        "internalTrafficPolicy": "Cluster", "externalIPs": ["1.2.3.4"], "publishNotReadyAddresses": True}}),
    ("v1", "Service", "services", True, {"spec": {"clusterIP": "None", "ports": [{"port": 80, "name": "x", "targetPort": "y"}],
                                                  "selector": {"a": "b"}}}),
    ("v1", "Service", "services", True, {"spec": {"type": "ExternalName", "externalName": "a.b"}}),
    ("v1", "Namespace", "namespaces", False, {}),
    ("v1", "ConfigMap", "configmaps", True, {"data": {"a": "b"}, "binaryData": {"c": "Yg=="}, "immutable": False}),
    ("v1", "Secret", "secrets", True, {"data": {"a": "Yg=="}, "type": "Opaque", "stringData": {"c": "d"}}),
    ("v1", "Secret", "secrets", True, {"data": {"tls.crt": "", "tls.key": ""}, "type": "kubernetes.io/tls"}),
    ("v1", "ServiceAccount", "serviceaccounts", True, {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "a"}]}),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, {"spec": {
        **CLAIM, "selector": SELECTOR, "dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}}),
    ("v1", "PersistentVolume", "persistentvolumes", False, {"spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"},
        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "x", "volumeMode": "Filesystem",
        "claimRef": {"name": "c", "namespace": "default"}, "mountOptions": ["ro"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}}}}),
    ("v1", "Node", "nodes", False, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "value": "b"}],
        "podCIDR": "10.9.0.0/24"}}),
    ("v1", "Endpoints", "endpoints", True, {"subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": "h"}],
                                                        "ports": [{"port": 80, "name": "a", "protocol": "TCP"}]}]}),
    ("v1", "ReplicationController", "replicationcontrollers", True, {"spec": {"replicas": 0, "selector": {"a": "b"},
        "template": TEMPLATE}}),
    ("v1", "PodTemplate", "podtemplates", True, {"template": LARGE}),
    ("v1", "ResourceQuota", "resourcequotas", BOUNDS, {"spec": {
        "hard": {"pods": "100", "requests.cpu": "1000"}, "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["p"]}]}}}),
    ("v1", "LimitRange", "limitranges", BOUNDS, {"spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"},
         "maxLimitRequestRatio": {"memory": "2"}}]}}),
    ("coordination.k8s.io/v1", "Lease", "leases", True, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 10,
                                                                  "leaseTransitions": 1,
                        "renewTime": "2026-01-02T03:04:05.000006Z"}}),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False, {"value": 7, "preemptionPolicy": "Never",
        "description": "d"}),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", False, {
        "provisioner": "a.b/c", "parameters": {"a": "b"}, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        "mountOptions": ["ro"], "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}]}),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True, {"spec": {
        "minAvailable": 1, "selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True, {"spec": {"maxUnavailable": "10%",
        "selector": SELECTOR}}),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", True, {
        "addressType": "IPv4", "ports": [{"port": 80, "name": "a", "protocol": "TCP", "appProtocol": "http"}, {"port": 81,
            "name": "b"}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "hostname": "h", "nodeName": "n", "zone": "z",
                       "targetRef": {"kind": "Pod", "name": "p"}, "hints": {"forZones": [{"name": "z"}]}}]}),
    ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", False, {
        "handler": "h", "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists",
            "effect": "NoSchedule"}]}}),
    (RBAC + "/v1", "Role", "roles", True, {"rules": [RULE]}),
    (RBAC + "/v1", "ClusterRole", "clusterroles", False, {
        "rules": [RULE, {"nonResourceURLs": ["/x"], "verbs": ["get"]}]}),
    (RBAC + "/v1", "RoleBinding", "rolebindings", True, {
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": RBAC},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "d"}, {"kind": "User", "name": "u"}]}),
    (RBAC + "/v1", "ClusterRoleBinding", "clusterrolebindings", False, {
        "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "Group", "name": "u"}]}),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": {
        "scaleTargetRef": TARGET, "maxReplicas": 3, "minReplicas": 1, "metrics": [CPU_METRIC, POD_METRIC],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                                   "policies": [{"type": "Percent", "value": 10, "periodSeconds": 15}]}}}}),
    ("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, {"spec": {
        "scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}),
    ("batch/v1", "Job", "jobs", True, {"spec": {"template": ONCE, "suspend": True, "backoffLimit": 1, "parallelism": 1,
        "completions": 1,
                                               "activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 100}}),
    ("batch/v1", "Job", "jobs", True, {"spec": {
        "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1, "template": ONCE,
            "suspend": True,
        "podReplacementPolicy": "Failed", "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 2]}}]}}}),
    ("apps/v1", "Deployment", "deployments", True, {"spec": {
        "selector": PLAIN, "template": LARGE, "replicas": 0, "minReadySeconds": 1, "revisionHistoryLimit": 1, "paused": True,
        "progressDeadlineSeconds": 50, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%",
            "maxUnavailable": 1}}}}),
    ("apps/v1", "ReplicaSet", "replicasets", True, {"spec": {"selector": PLAIN, "template": TEMPLATE, "replicas": 0,
        "minReadySeconds": 1}}),
    ("apps/v1", "DaemonSet", "daemonsets", True, {"spec": {
        "selector": PLAIN, "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"no": "where"}}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}}}),
    ("apps/v1", "StatefulSet", "statefulsets", True, {"spec": {
        "selector": PLAIN, "template": TEMPLATE, "serviceName": "s", "replicas": 0, "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}, "ordinals": {"start": 1},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": CLAIM}]}}),
    ("apps/v1", "ControllerRevision", "controllerrevisions", True, {"revision": 1, "data": {"a": "b"}}),
    ("batch/v1", "CronJob", "cronjobs", True, {"spec": {
        "schedule": "* * * * *", "suspend": True, "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 50,
            "timeZone": "Etc/UTC",
        "successfulJobsHistoryLimit": 1, "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": ONCE}}}}),
    ("networking.k8s.io/v1", "Ingress", "ingresses", True, {"spec": {
        "ingressClassName": "c", "tls": [{"hosts": ["a.b"], "secretName": "s"}], "rules": [{"host": "a.b",
            "http": {"paths": [PATH]}}],
        "defaultBackend": {"service": {"name": "s", "port": {"name": "http"}}}}}),
    ("networking.k8s.io/v1", "IngressClass", "ingressclasses", False, {"spec": {
        "controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Cluster"}}}),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", True, {"spec": {
        "podSelector": SELECTOR, "policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"port": "http"}],
            "to": [{"podSelector": PLAIN}]}],
        "ingress": [{"ports": [{"port": 80, "endPort": 90, "protocol": "UDP"}],
                     "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                        {"namespaceSelector": PLAIN}]}]}}),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas", False, {"spec": {
        "priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": 5,
            "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "u"}}],
                   "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}]}]}}),
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", False, {"spec": {
        "type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {
            "type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}}}}}),
    ("storage.k8s.io/v1", "CSIDriver", "csidrivers", False, {"spec": {"attachRequired": True, "fsGroupPolicy": "File",
                                                                     "tokenRequests": [{"audience": "a",
                        "expirationSeconds": 700}]}}),
    ("storage.k8s.io/v1", "CSINode", "csinodes", False, {"spec": {"drivers": [{"name": "a.b", "nodeID": "n",
        "allocatable": {"count": 5},
                                                                              "topologyKeys": ["a"]}]}}),
    ("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", False, {"spec": {
        "attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
    ("events.k8s.io/v1", "Event", "events", True, {
        "regarding": {"kind": "Pod", "name": "a", "namespace": "differ"}, "reason": "R", "type": "Normal", "action": "Act",
        "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "a.b/c", "reportingInstance": "i", "note": "n"}),
    ("v1", "Event", "events", True, {
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "differ"}, "reason": "R", "type": "Normal", "message": "m",
        "firstTimestamp": "2026-01-02T03:04:05Z", "count": 1, "source": {"component": "c"}}),
    ("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", False, {"spec": {
        "request": REQUEST, "signerName": "example.com/x", "usages": ["client auth"], "expirationSeconds": 7200}}),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, {"spec": {
        "failurePolicy": "Fail", "matchConstraints": {**MATCH, "resourceRules": [RESOURCES]},
        "variables": [{"name": "v", "expression": "object.spec"}], "matchConditions": [{"name": "m", "expression": "true"}],
        "validations": [{"expression": "true", "message": "m", "reason": "Invalid", "messageExpression": "'a'"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}]}}),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False,
            {"spec": {
        "policyName": "p", "validationActions": ["Deny"], "matchResources": MATCH,
        "paramRef": {"name": "a", "namespace": "b", "parameterNotFoundAction": "Allow"}}}),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False,
        {"webhooks": [WEBHOOK]}),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False,
        {"webhooks": [{**WEBHOOK, "reinvocationPolicy": "Never"}]}),
    ("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", False, {"spec": {"cidrs": ["10.77.0.0/24"]}}),
    ("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", True, {
        "storageClassName": "x", "nodeTopology": SELECTOR, "capacity": "1Gi", "maximumVolumeSize": "1Gi"}),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False, {
        "metadata": {"name": "nones.{name}.example.com"}, "spec": {
            "group": "{name}.example.com", "scope": "Namespaced", "preserveUnknownFields": False,
            "names": {"plural": "nones", "singular": "none", "kind": "None", "listKind": "NoneList", "shortNames": ["no"],
                    "categories": ["all"]},
            "versions": [{"name": "v1", "served": True, "storage": True, "deprecated": False, "subresources": {"status": {},
                    "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
                        "priority": 1}],
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "schema": {"openAPIV3Schema": {"type": "object", "description": "d", "properties": {"spec": {"type": "object",
                        "required": ["a"],
                    "x-kubernetes-validations": [{"rule": "true", "message": "m", "reason": "FieldValueInvalid",
                            "fieldPath": ".a"}], "properties": {
                        "a": {"type": "string", "enum": ["x", "y"], "minLength": 1, "maxLength": 5, "pattern": "^[a-z]$",
                                "default": "x", "nullable": True},
                        "n": {"type": "number", "minimum": 1, "maximum": 5, "exclusiveMinimum": True, "multipleOf": 2,
                                "format": "double"},
                        "m": {"type": "array", "items": {"type": "object", "required": ["k"],
                                "properties": {"k": {"type": "string"}}},
                              "minItems": 1, "maxItems": 5, "x-kubernetes-list-type": "map",
                                      "x-kubernetes-list-map-keys": ["k"]},
                        "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "minProperties": 1,
                                "maxProperties": 3},
                        "p": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
                        "i": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}}}}}]}}),
    ("apiregistration.k8s.io/v1", "APIService", "apiservices", False, {"metadata": {"name": "v1.{name}.example.com"}, "spec": {
        "group": "{name}.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "insecureSkipTLSVerify": True,
        "service": {"name": "s", "namespace": "n", "port": 443}}}),
    ("networking.k8s.io/v1", "IPAddress", "ipaddresses", False, {"metadata": {"name": "{address}"}, "spec": {"parentRef": {
        "group": "", "resource": "services", "namespace": "n", "name": "s"}}}),
]
