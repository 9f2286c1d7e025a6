#include "api/protobuf_fields.h"

#include "base/str.h"

#include <stddef.h>

static const struct protobuf_field owner_fields[] = {
    {1, "kind", PB_STRING, 0, NULL},
    {3, "name", PB_STRING, 0, NULL},
    {4, "uid", PB_STRING, 0, NULL},
    {5, "apiVersion", PB_STRING, 0, NULL},
    {6, "controller", PB_BOOL, PB_KEEP, NULL},
    {7, "blockOwnerDeletion", PB_BOOL, PB_KEEP, NULL},
    {0},
};

const struct protobuf_field protobuf_meta[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "generateName", PB_STRING, 0, NULL},
    {3, "namespace", PB_STRING, 0, NULL},
    {5, "uid", PB_STRING, 0, NULL},
    {6, "resourceVersion", PB_STRING, 0, NULL},
    {7, "generation", PB_INT, 0, NULL},
    {8, "creationTimestamp", PB_TIME, 0, NULL},
    {9, "deletionTimestamp", PB_TIME, 0, NULL},
    {10, "deletionGracePeriodSeconds", PB_INT, PB_KEEP, NULL},
    {11, "labels", PB_STRING, PB_MAP, NULL},
    {12, "annotations", PB_STRING, PB_MAP, NULL},
    {13, "ownerReferences", PB_MESSAGE, PB_LIST, owner_fields},
    {14, "finalizers", PB_STRING, PB_LIST, NULL},
    {0},
};

static const struct protobuf_field reference_fields[] = {
    {1, "kind", PB_STRING, 0, NULL},       {2, "namespace", PB_STRING, 0, NULL},
    {3, "name", PB_STRING, 0, NULL},       {4, "uid", PB_STRING, 0, NULL},
    {5, "apiVersion", PB_STRING, 0, NULL}, {6, "resourceVersion", PB_STRING, 0, NULL},
    {7, "fieldPath", PB_STRING, 0, NULL},  {0},
};

static const struct protobuf_field local_reference_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field requirement_fields[] = {
    {1, "key", PB_STRING, 0, NULL},
    {2, "operator", PB_STRING, 0, NULL},
    {3, "values", PB_STRING, PB_LIST, NULL},
    {0},
};

const struct protobuf_field protobuf_selector[] = {
    {1, "matchLabels", PB_STRING, PB_MAP, NULL},
    {2, "matchExpressions", PB_MESSAGE, PB_LIST, requirement_fields},
    {0},
};

static const struct protobuf_field configmap_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "data", PB_STRING, PB_MAP, NULL},
    {3, "binaryData", PB_BYTES, PB_MAP, NULL},
    {4, "immutable", PB_BOOL, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field secret_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "data", PB_BYTES, PB_MAP, NULL},
    {3, "type", PB_STRING, 0, NULL},
    {4, "stringData", PB_STRING, PB_MAP, NULL},
    {5, "immutable", PB_BOOL, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field plain_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {0},
};

static const struct protobuf_field serviceaccount_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "secrets", PB_MESSAGE, PB_LIST, reference_fields},
    {3, "imagePullSecrets", PB_MESSAGE, PB_LIST, local_reference_fields},
    {4, "automountServiceAccountToken", PB_BOOL, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field service_port_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "protocol", PB_STRING, 0, NULL},
    {3, "port", PB_INT, 0, NULL},
    {4, "targetPort", PB_INT_OR_STRING, 0, NULL},
    {5, "nodePort", PB_INT, 0, NULL},
    {6, "appProtocol", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field service_spec_fields[] = {
    {1, "ports", PB_MESSAGE, PB_LIST, service_port_fields},
    {2, "selector", PB_STRING, PB_MAP, NULL},
    {3, "clusterIP", PB_STRING, 0, NULL},
    {4, "type", PB_STRING, 0, NULL},
    {5, "externalIPs", PB_STRING, PB_LIST, NULL},
    {7, "sessionAffinity", PB_STRING, 0, NULL},
    {8, "loadBalancerIP", PB_STRING, 0, NULL},
    {10, "externalName", PB_STRING, 0, NULL},
    {11, "externalTrafficPolicy", PB_STRING, 0, NULL},
    {13, "publishNotReadyAddresses", PB_BOOL, 0, NULL},
    {17, "ipFamilyPolicy", PB_STRING, PB_KEEP, NULL},
    {18, "clusterIPs", PB_STRING, PB_LIST, NULL},
    {19, "ipFamilies", PB_STRING, PB_LIST, NULL},
    {0},
};

static const struct protobuf_field service_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, service_spec_fields},
    {0},
};

static const struct protobuf_field env_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "value", PB_STRING, 0, NULL},
    {0},
};

const struct protobuf_field protobuf_port[] = {
    {1, "name", PB_STRING, 0, NULL},       {2, "hostPort", PB_INT, 0, NULL},
    {3, "containerPort", PB_INT, 0, NULL}, {4, "protocol", PB_STRING, 0, NULL},
    {5, "hostIP", PB_STRING, 0, NULL},     {0},
};

const struct protobuf_field protobuf_resources[] = {
    {1, "limits", PB_QUANTITY, PB_MAP, NULL},
    {2, "requests", PB_QUANTITY, PB_MAP, NULL},
    {0},
};

static const struct protobuf_field mount_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "readOnly", PB_BOOL, 0, NULL},
    {3, "mountPath", PB_STRING, 0, NULL},
    {4, "subPath", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field container_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "image", PB_STRING, 0, NULL},
    {3, "command", PB_STRING, PB_LIST, NULL},
    {4, "args", PB_STRING, PB_LIST, NULL},
    {5, "workingDir", PB_STRING, 0, NULL},
    {6, "ports", PB_MESSAGE, PB_LIST, protobuf_port},
    {7, "env", PB_MESSAGE, PB_LIST, env_fields},
    {8, "resources", PB_MESSAGE, 0, protobuf_resources},
    {9, "volumeMounts", PB_MESSAGE, PB_LIST, mount_fields},
    {13, "terminationMessagePath", PB_STRING, 0, NULL},
    {14, "imagePullPolicy", PB_STRING, 0, NULL},
    {16, "stdin", PB_BOOL, 0, NULL},
    {17, "stdinOnce", PB_BOOL, 0, NULL},
    {18, "tty", PB_BOOL, 0, NULL},
    {20, "terminationMessagePolicy", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field pod_spec_fields[] = {
    {2, "containers", PB_MESSAGE, PB_LIST, container_fields},
    {3, "restartPolicy", PB_STRING, 0, NULL},
    {4, "terminationGracePeriodSeconds", PB_INT, PB_KEEP, NULL},
    {5, "activeDeadlineSeconds", PB_INT, PB_KEEP, NULL},
    {6, "dnsPolicy", PB_STRING, 0, NULL},
    {7, "nodeSelector", PB_STRING, PB_MAP, NULL},
    {8, "serviceAccountName", PB_STRING, 0, NULL},
    {10, "nodeName", PB_STRING, 0, NULL},
    {11, "hostNetwork", PB_BOOL, 0, NULL},
    {16, "hostname", PB_STRING, 0, NULL},
    {17, "subdomain", PB_STRING, 0, NULL},
    {19, "schedulerName", PB_STRING, 0, NULL},
    {20, "initContainers", PB_MESSAGE, PB_LIST, container_fields},
    {24, "priorityClassName", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field template_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, pod_spec_fields},
    {0},
};

static const struct protobuf_field job_spec_fields[] = {
    {1, "parallelism", PB_INT, PB_KEEP, NULL},
    {2, "completions", PB_INT, PB_KEEP, NULL},
    {3, "activeDeadlineSeconds", PB_INT, PB_KEEP, NULL},
    {4, "selector", PB_MESSAGE, 0, protobuf_selector},
    {5, "manualSelector", PB_BOOL, PB_KEEP, NULL},
    {6, "template", PB_MESSAGE, 0, template_fields},
    {7, "backoffLimit", PB_INT, PB_KEEP, NULL},
    {8, "ttlSecondsAfterFinished", PB_INT, PB_KEEP, NULL},
    {9, "completionMode", PB_STRING, PB_KEEP, NULL},
    {10, "suspend", PB_BOOL, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field job_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, job_spec_fields},
    {0},
};

static const struct protobuf_field rule_fields[] = {
    {1, "verbs", PB_STRING, PB_LIST, NULL},
    {2, "apiGroups", PB_STRING, PB_LIST, NULL},
    {3, "resources", PB_STRING, PB_LIST, NULL},
    {4, "resourceNames", PB_STRING, PB_LIST, NULL},
    {5, "nonResourceURLs", PB_STRING, PB_LIST, NULL},
    {0},
};

static const struct protobuf_field aggregation_fields[] = {
    {1, "clusterRoleSelectors", PB_MESSAGE, PB_LIST, protobuf_selector},
    {0},
};

static const struct protobuf_field role_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "rules", PB_MESSAGE, PB_LIST, rule_fields},
    {3, "aggregationRule", PB_MESSAGE, 0, aggregation_fields},
    {0},
};

static const struct protobuf_field subject_fields[] = {
    {1, "kind", PB_STRING, 0, NULL},
    {2, "apiGroup", PB_STRING, 0, NULL},
    {3, "name", PB_STRING, 0, NULL},
    {4, "namespace", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field role_ref_fields[] = {
    {1, "apiGroup", PB_STRING, 0, NULL},
    {2, "kind", PB_STRING, 0, NULL},
    {3, "name", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field binding_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "subjects", PB_MESSAGE, PB_LIST, subject_fields},
    {3, "roleRef", PB_MESSAGE, 0, role_ref_fields},
    {0},
};

static const struct protobuf_field pdb_spec_fields[] = {
    {1, "minAvailable", PB_INT_OR_STRING, 0, NULL},
    {2, "selector", PB_MESSAGE, PB_KEEP, protobuf_selector},
    {3, "maxUnavailable", PB_INT_OR_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field pdb_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, pdb_spec_fields},
    {0},
};

static const struct protobuf_field priorityclass_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "value", PB_INT, PB_KEEP, NULL},
    {3, "globalDefault", PB_BOOL, 0, NULL},
    {4, "description", PB_STRING, 0, NULL},
    {5, "preemptionPolicy", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field lease_spec_fields[] = {
    {1, "holderIdentity", PB_STRING, PB_KEEP, NULL},
    {2, "leaseDurationSeconds", PB_INT, PB_KEEP, NULL},
    {3, "acquireTime", PB_MICROTIME, 0, NULL},
    {4, "renewTime", PB_MICROTIME, 0, NULL},
    {5, "leaseTransitions", PB_INT, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field lease_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, lease_spec_fields},
    {0},
};

static const struct protobuf_field source_fields[] = {
    {1, "component", PB_STRING, 0, NULL},
    {2, "host", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field event_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "involvedObject", PB_MESSAGE, 0, reference_fields},
    {3, "reason", PB_STRING, 0, NULL},
    {4, "message", PB_STRING, 0, NULL},
    {5, "source", PB_MESSAGE, 0, source_fields},
    {6, "firstTimestamp", PB_TIME, 0, NULL},
    {7, "lastTimestamp", PB_TIME, 0, NULL},
    {8, "count", PB_INT, 0, NULL},
    {9, "type", PB_STRING, 0, NULL},
    {10, "eventTime", PB_MICROTIME, 0, NULL},
    {12, "action", PB_STRING, 0, NULL},
    {13, "related", PB_MESSAGE, 0, reference_fields},
    {14, "reportingComponent", PB_STRING, 0, NULL},
    {15, "reportingInstance", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field events_event_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "eventTime", PB_MICROTIME, 0, NULL},
    {4, "reportingController", PB_STRING, 0, NULL},
    {5, "reportingInstance", PB_STRING, 0, NULL},
    {6, "action", PB_STRING, 0, NULL},
    {7, "reason", PB_STRING, 0, NULL},
    {8, "regarding", PB_MESSAGE, 0, reference_fields},
    {9, "related", PB_MESSAGE, 0, reference_fields},
    {10, "note", PB_STRING, 0, NULL},
    {11, "type", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field pod_binding_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "target", PB_MESSAGE, 0, reference_fields},
    {0},
};

static const struct protobuf_field scale_target_fields[] = {
    {1, "kind", PB_STRING, 0, NULL},
    {2, "name", PB_STRING, 0, NULL},
    {3, "apiVersion", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field hpa_spec_fields[] = {
    {1, "scaleTargetRef", PB_MESSAGE, 0, scale_target_fields},
    {2, "minReplicas", PB_INT, PB_KEEP, NULL},
    {3, "maxReplicas", PB_INT, 0, NULL},
    {4, "targetCPUUtilizationPercentage", PB_INT, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field hpa_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, hpa_spec_fields},
    {0},
};

static const struct protobuf_field resource_attributes_fields[] = {
    {1, "namespace", PB_STRING, 0, NULL}, {2, "verb", PB_STRING, 0, NULL},
    {3, "group", PB_STRING, 0, NULL},     {4, "version", PB_STRING, 0, NULL},
    {5, "resource", PB_STRING, 0, NULL},  {6, "subresource", PB_STRING, 0, NULL},
    {7, "name", PB_STRING, 0, NULL},      {0},
};

static const struct protobuf_field path_attributes_fields[] = {
    {1, "path", PB_STRING, 0, NULL},
    {2, "verb", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field access_spec_fields[] = {
    {1, "resourceAttributes", PB_MESSAGE, 0, resource_attributes_fields},
    {2, "nonResourceAttributes", PB_MESSAGE, 0, path_attributes_fields},
    {0},
};

static const struct protobuf_field access_review_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, access_spec_fields},
    {0},
};

static const struct protobuf_field rules_spec_fields[] = {
    {1, "namespace", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field rules_review_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, rules_spec_fields},
    {0},
};

static const struct protobuf_field bound_object_fields[] = {
    {1, "kind", PB_STRING, 0, NULL},
    {2, "apiVersion", PB_STRING, 0, NULL},
    {3, "name", PB_STRING, 0, NULL},
    {4, "uid", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field token_request_spec_fields[] = {
    {1, "audiences", PB_STRING, PB_LIST, NULL},
    {3, "boundObjectRef", PB_MESSAGE, 0, bound_object_fields},
    {4, "expirationSeconds", PB_INT, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field token_request_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, token_request_spec_fields},
    {0},
};

static const struct protobuf_field token_review_spec_fields[] = {
    {1, "token", PB_STRING, 0, NULL},
    {2, "audiences", PB_STRING, PB_LIST, NULL},
    {0},
};

static const struct protobuf_field token_review_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, token_review_spec_fields},
    {0},
};

static const struct protobuf_field pod_fields[] = {
    {1, "metadata", PB_MESSAGE, 0, protobuf_meta},
    {2, "spec", PB_MESSAGE, 0, pod_spec_fields},
    {0},
};

static const struct protobuf_field cause_fields[] = {
    {1, "reason", PB_STRING, 0, NULL},
    {2, "message", PB_STRING, 0, NULL},
    {3, "field", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field details_fields[] = {
    {1, "name", PB_STRING, 0, NULL},
    {2, "group", PB_STRING, 0, NULL},
    {3, "kind", PB_STRING, 0, NULL},
    {4, "causes", PB_MESSAGE, PB_LIST, cause_fields},
    {5, "retryAfterSeconds", PB_INT, 0, NULL},
    {6, "uid", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field status_fields[] = {
    {2, "status", PB_STRING, 0, NULL}, {3, "message", PB_STRING, 0, NULL},
    {4, "reason", PB_STRING, 0, NULL}, {5, "details", PB_MESSAGE, 0, details_fields},
    {6, "code", PB_INT, 0, NULL},      {0},
};

static const struct {
    const char *api_version;
    const char *kind;
    const struct protobuf_field *fields;
} kinds[] = {
    {"v1", "Status", status_fields},
    {"v1", "ConfigMap", configmap_fields},
    {"v1", "Secret", secret_fields},
    {"v1", "Namespace", plain_fields},
    {"v1", "ServiceAccount", serviceaccount_fields},
    {"v1", "Service", service_fields},
    {"v1", "Pod", pod_fields},
    {"v1", "Event", event_fields},
    {"v1", "Binding", pod_binding_fields},
    {"batch/v1", "Job", job_fields},
    {"coordination.k8s.io/v1", "Lease", lease_fields},
    {"policy/v1", "PodDisruptionBudget", pdb_fields},
    {"scheduling.k8s.io/v1", "PriorityClass", priorityclass_fields},
    {"events.k8s.io/v1", "Event", events_event_fields},
    {"rbac.authorization.k8s.io/v1", "Role", role_fields},
    {"rbac.authorization.k8s.io/v1", "ClusterRole", role_fields},
    {"rbac.authorization.k8s.io/v1", "RoleBinding", binding_fields},
    {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", binding_fields},
    {"autoscaling/v1", "HorizontalPodAutoscaler", hpa_fields},
    {"authorization.k8s.io/v1", "SelfSubjectAccessReview", access_review_fields},
    {"authorization.k8s.io/v1", "SelfSubjectRulesReview", rules_review_fields},
    {"authentication.k8s.io/v1", "SelfSubjectReview", plain_fields},
    {"authentication.k8s.io/v1", "TokenRequest", token_request_fields},
    {"authentication.k8s.io/v1", "TokenReview", token_review_fields},
};

const struct protobuf_field *protobuf_fields_of(struct str api_version, struct str kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (str_is(api_version, kinds[i].api_version) && str_is(kind, kinds[i].kind))
            return kinds[i].fields;
    return NULL;
}
