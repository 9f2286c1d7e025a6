#include "api/kept.h"

#include "api/kind.h"
#include "api/protobuf.h"
#include "api/protobuf_fields.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* The tables. Numbers are those of Kubernetes' core/v1; PB_KEEP marks what its JSON form shows even
 * when empty, and what is optional in its type. */

static const struct protobuf_field requirement[] = {
    {1, "key", PB_STRING, PB_KEEP, NULL},
    {2, "operator", PB_STRING, PB_KEEP, NULL},
    {3, "values", PB_STRING, PB_LIST, NULL},
    {0},
};

static const struct protobuf_field node_term[] = {
    {1, "matchExpressions", PB_MESSAGE, PB_LIST, requirement},
    {2, "matchFields", PB_MESSAGE, PB_LIST, requirement},
    {0},
};

static const struct protobuf_field node_selector[] = {
    {1, "nodeSelectorTerms", PB_MESSAGE, PB_LIST, node_term},
    {0},
};

static const struct protobuf_field node_preference[] = {
    {1, "weight", PB_INT, PB_KEEP, NULL},
    {2, "preference", PB_MESSAGE, PB_KEEP, node_term},
    {0},
};

static const struct protobuf_field node_affinity[] = {
    {1, "requiredDuringSchedulingIgnoredDuringExecution", PB_MESSAGE, PB_KEEP, node_selector},
    {2, "preferredDuringSchedulingIgnoredDuringExecution", PB_MESSAGE, PB_LIST, node_preference},
    {0},
};

static const struct protobuf_field pod_term[] = {
    {1, "labelSelector", PB_MESSAGE, PB_KEEP, protobuf_selector},
    {2, "namespaces", PB_STRING, PB_LIST, NULL},
    {3, "topologyKey", PB_STRING, PB_KEEP, NULL},
    {4, "namespaceSelector", PB_MESSAGE, PB_KEEP, protobuf_selector},
    {0},
};

static const struct protobuf_field pod_preference[] = {
    {1, "weight", PB_INT, PB_KEEP, NULL},
    {2, "podAffinityTerm", PB_MESSAGE, PB_KEEP, pod_term},
    {0},
};

static const struct protobuf_field pod_affinity[] = {
    {1, "requiredDuringSchedulingIgnoredDuringExecution", PB_MESSAGE, PB_LIST, pod_term},
    {2, "preferredDuringSchedulingIgnoredDuringExecution", PB_MESSAGE, PB_LIST, pod_preference},
    {0},
};

static const struct protobuf_field affinity[] = {
    {1, "nodeAffinity", PB_MESSAGE, PB_KEEP, node_affinity},
    {2, "podAffinity", PB_MESSAGE, PB_KEEP, pod_affinity},
    {3, "podAntiAffinity", PB_MESSAGE, PB_KEEP, pod_affinity},
    {0},
};

static const struct protobuf_field spread[] = {
    {1, "maxSkew", PB_INT, PB_KEEP, NULL},
    {2, "topologyKey", PB_STRING, PB_KEEP, NULL},
    {3, "whenUnsatisfiable", PB_STRING, PB_KEEP, NULL},
    {4, "labelSelector", PB_MESSAGE, PB_KEEP, protobuf_selector},
    {5, "minDomains", PB_INT, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field toleration[] = {
    {1, "key", PB_STRING, 0, NULL},
    {2, "operator", PB_STRING, 0, NULL},
    {3, "value", PB_STRING, 0, NULL},
    {4, "effect", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field container[] = {
    {1, "name", PB_STRING, PB_KEEP, NULL},
    {2, "image", PB_STRING, 0, NULL},
    {6, "ports", PB_MESSAGE, PB_LIST, protobuf_port},
    {8, "resources", PB_MESSAGE, PB_KEEP, protobuf_resources},
    {24, "restartPolicy", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field name_only[] = {
    {1, "name", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field claim[] = {
    {1, "name", PB_STRING, PB_KEEP, NULL},
    {3, "resourceClaimName", PB_STRING, PB_KEEP, NULL},
    {4, "resourceClaimTemplateName", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field pod_spec[] = {
    {2, "containers", PB_MESSAGE, PB_LIST, container},
    {3, "restartPolicy", PB_STRING, 0, NULL},
    {4, "terminationGracePeriodSeconds", PB_INT, PB_KEEP, NULL},
    {5, "activeDeadlineSeconds", PB_INT, PB_KEEP, NULL},
    {7, "nodeSelector", PB_STRING, PB_MAP, NULL},
    {10, "nodeName", PB_STRING, 0, NULL},
    {11, "hostNetwork", PB_BOOL, 0, NULL},
    {16, "hostname", PB_STRING, 0, NULL},
    {17, "subdomain", PB_STRING, 0, NULL},
    {18, "affinity", PB_MESSAGE, PB_KEEP, affinity},
    {19, "schedulerName", PB_STRING, 0, NULL},
    {20, "initContainers", PB_MESSAGE, PB_LIST, container},
    {22, "tolerations", PB_MESSAGE, PB_LIST, toleration},
    {24, "priorityClassName", PB_STRING, 0, NULL},
    {25, "priority", PB_INT, PB_KEEP, NULL},
    {31, "preemptionPolicy", PB_STRING, PB_KEEP, NULL},
    {32, "overhead", PB_QUANTITY, PB_MAP, NULL},
    {33, "topologySpreadConstraints", PB_MESSAGE, PB_LIST, spread},
    {38, "schedulingGates", PB_MESSAGE, PB_LIST, name_only},
    {39, "resourceClaims", PB_MESSAGE, PB_LIST, claim},
    {0},
};

static const struct protobuf_field condition[] = {
    {1, "type", PB_STRING, PB_KEEP, NULL},       {2, "status", PB_STRING, PB_KEEP, NULL},
    {4, "lastTransitionTime", PB_TIME, 0, NULL}, {5, "reason", PB_STRING, 0, NULL},
    {6, "message", PB_STRING, 0, NULL},          {0},
};

/* Whole: a change of one condition is written as the list of all. */
static const struct protobuf_field pod_condition[] = {
    {1, "type", PB_STRING, PB_KEEP, NULL},      {2, "status", PB_STRING, PB_KEEP, NULL},
    {3, "lastProbeTime", PB_TIME, 0, NULL},     {4, "lastTransitionTime", PB_TIME, 0, NULL},
    {5, "reason", PB_STRING, 0, NULL},          {6, "message", PB_STRING, 0, NULL},
    {7, "observedGeneration", PB_INT, 0, NULL}, {0},
};

static const struct protobuf_field waiting[] = {
    {1, "reason", PB_STRING, 0, NULL},
    {2, "message", PB_STRING, 0, NULL},
    {0},
};

static const struct protobuf_field running[] = {
    {1, "startedAt", PB_TIME, 0, NULL},
    {0},
};

static const struct protobuf_field terminated[] = {
    {1, "exitCode", PB_INT, PB_KEEP, NULL},
    {2, "signal", PB_INT, 0, NULL},
    {3, "reason", PB_STRING, 0, NULL},
    {4, "message", PB_STRING, 0, NULL},
    {5, "startedAt", PB_TIME, 0, NULL},
    {6, "finishedAt", PB_TIME, 0, NULL},
    {0},
};

static const struct protobuf_field state[] = {
    {1, "waiting", PB_MESSAGE, PB_KEEP, waiting},
    {2, "running", PB_MESSAGE, PB_KEEP, running},
    {3, "terminated", PB_MESSAGE, PB_KEEP, terminated},
    {0},
};

static const struct protobuf_field container_status[] = {
    {1, "name", PB_STRING, PB_KEEP, NULL},        {2, "state", PB_MESSAGE, PB_KEEP, state},
    {3, "lastState", PB_MESSAGE, PB_KEEP, state}, {4, "ready", PB_BOOL, PB_KEEP, NULL},
    {5, "restartCount", PB_INT, PB_KEEP, NULL},   {0},
};

static const struct protobuf_field claim_status[] = {
    {1, "name", PB_STRING, PB_KEEP, NULL},
    {2, "resourceClaimName", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field pod_status[] = {
    {1, "phase", PB_STRING, 0, NULL},
    {2, "conditions", PB_MESSAGE, PB_LIST, pod_condition},
    {3, "message", PB_STRING, 0, NULL},
    {4, "reason", PB_STRING, 0, NULL},
    {5, "hostIP", PB_STRING, 0, NULL},
    {6, "podIP", PB_STRING, 0, NULL},
    {7, "startTime", PB_TIME, 0, NULL},
    {8, "containerStatuses", PB_MESSAGE, PB_LIST, container_status},
    {10, "initContainerStatuses", PB_MESSAGE, PB_LIST, container_status},
    {11, "nominatedNodeName", PB_STRING, 0, NULL},
    {15, "resourceClaimStatuses", PB_MESSAGE, PB_LIST, claim_status},
    {0},
};

static const struct protobuf_field pod[] = {
    {1, "metadata", PB_MESSAGE, PB_KEEP, protobuf_meta},
    {2, "spec", PB_MESSAGE, PB_KEEP, pod_spec},
    {3, "status", PB_MESSAGE, PB_KEEP, pod_status},
    {0},
};

static const struct protobuf_field taint[] = {
    {1, "key", PB_STRING, PB_KEEP, NULL},
    {2, "value", PB_STRING, 0, NULL},
    {3, "effect", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field node_spec[] = {
    {4, "unschedulable", PB_BOOL, 0, NULL},
    {5, "taints", PB_MESSAGE, PB_LIST, taint},
    {0},
};

static const struct protobuf_field address[] = {
    {1, "type", PB_STRING, PB_KEEP, NULL},
    {2, "address", PB_STRING, PB_KEEP, NULL},
    {0},
};

static const struct protobuf_field node_status[] = {
    {1, "capacity", PB_QUANTITY, PB_MAP, NULL},
    {2, "allocatable", PB_QUANTITY, PB_MAP, NULL},
    {4, "conditions", PB_MESSAGE, PB_LIST, condition},
    {5, "addresses", PB_MESSAGE, PB_LIST, address},
    {0},
};

static const struct protobuf_field node[] = {
    {1, "metadata", PB_MESSAGE, PB_KEEP, protobuf_meta},
    {2, "spec", PB_MESSAGE, PB_KEEP, node_spec},
    {3, "status", PB_MESSAGE, PB_KEEP, node_status},
    {0},
};

static const struct protobuf_field *fields_of(const struct kind *kind)
{
    if (kind == &kind_pod)
        return pod;
    return kind == &kind_node ? node : NULL;
}

bool kept_is(const struct kind *kind)
{
    return fields_of(kind) != NULL;
}

/* ---- either form ---- */

/* The whole manifest once more, environments included: kubectl's note to itself. */
static void drop_notes(struct json *tree)
{
    struct json *meta = json_get(tree, "metadata");
    struct json *annotations = json_get(meta, "annotations");

    if (json_remove(annotations, STR("kubectl.kubernetes.io/last-applied-configuration")) &&
        json_count(annotations) == 0)
        (void)json_remove(meta, STR("annotations"));
}

static const struct protobuf_field *find(const struct protobuf_field *fields, struct str name)
{
    for (; fields->number; fields++)
        if (str_is(name, fields->name))
            return fields;
    return NULL;
}

static void trim(const struct protobuf_field *fields, struct json *object)
{
    if (!json_is(object, JSON_OBJECT))
        return;
    for (struct json *member = json_first(object), *next; member; member = next) {
        const struct protobuf_field *field = find(fields, json_key(member));

        next = json_next(member);
        if (!field || json_is_null(member)) {
            (void)json_remove(object, json_key(member));
        } else if (field->type == PB_MESSAGE && (field->flags & PB_LIST)) {
            JSON_FOREACH(member, item)
                trim(field->fields, item);
        } else if (field->type == PB_MESSAGE) {
            trim(field->fields, member);
        }
    }
}

void kept_trim(const struct kind *kind, struct json *tree)
{
    const struct protobuf_field *fields = fields_of(kind);

    if (!fields)
        return;
    for (const struct protobuf_field *field = fields; field->number; field++)
        trim(field->fields, json_get(tree, field->name));
    drop_notes(tree);
}

int kept_decode(struct arena *arena,
                const struct kind *kind,
                struct str message,
                struct json **ret,
                struct err *err)
{
    struct json *tree = NULL;
    int r = protobuf_decode(arena, fields_of(kind), message, &tree, err);

    if (r < 0)
        return err_wrap(err, r, "%s", kind->name);
    drop_notes(tree);
    *ret = tree;
    return 0;
}
