#include "server/table.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "server/column.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
    struct arena *arena;
    struct buf *buf;
    const struct object *object;
    const struct json *root;
    int64_t now_ms;
    size_t count;
};

static void cell(struct row *row, struct str text)
{
    if (row->count++)
        buf_addc(row->buf, ',');
    json_write_string(row->buf, text);
}

static void cell_i64(struct row *row, int64_t number)
{
    if (row->count++)
        buf_addc(row->buf, ',');
    buf_addf(row->buf, "%lld", (long long)number);
}

static void cell_or(struct row *row, struct str text, const char *otherwise)
{
    cell(row, text.len ? text : str_from(otherwise));
}

static void cell_at(struct row *row, const char *path, const char *otherwise)
{
    cell_or(row, json_str(json_at(row->root, path)), otherwise);
}

static struct str age_since(const struct row *row, int64_t then_ms)
{
    if (!then_ms)
        return STR("<unknown>");
    return time_age(row->arena, row->now_ms > then_ms ? row->now_ms - then_ms : 0);
}

static void cell_age(struct row *row)
{
    cell(row, age_since(row, row->object->created_ms));
}

/* ---- one function a kind, filling exactly the columns of its table below ---- */
static void pod_row(struct row *row)
{
    struct pod_summary pod;
    const struct json *gates = json_at(row->root, "spec.readinessGates");

    pod_summarize(row->arena, row->root, &pod);
    cell(row, str_printf(row->arena, "%lld/%lld", (long long)pod.ready, (long long)pod.total));
    cell(row, str_from(pod.status));
    if (pod.restarts && pod.restarted_ms) {
        struct str age = age_since(row, pod.restarted_ms);
        cell(row, str_printf(row->arena, "%lld (" STR_FMT " ago)", (long long)pod.restarts,
                             STR_ARG(age)));
    } else {
        cell(row, str_printf(row->arena, "%lld", (long long)pod.restarts));
    }
    cell_age(row);
    cell_at(row, "status.podIP", "<none>");
    cell_at(row, "spec.nodeName", "<none>");
    cell_at(row, "status.nominatedNodeName", "<none>");
    cell(row, gates ? str_printf(row->arena, "0/%zu", json_count(gates)) : STR("<none>"));
}

static struct str node_status(struct row *row)
{
    struct buf text = {0};
    bool found = false;

    JSON_FOREACH(json_at(row->root, "status.conditions"), condition) {
        if (!str_is(json_str(json_get(condition, "type")), "Ready"))
            continue;
        found = true;
        buf_add(&text, str_is(json_str(json_get(condition, "status")), "True") ? STR("Ready")
                                                                               : STR("NotReady"));
    }
    if (!found)
        buf_add(&text, STR("Unknown"));
    if (json_bool_or(json_at(row->root, "spec.unschedulable"), false))
        buf_add(&text, STR(",SchedulingDisabled"));
    struct str result = str_dup(row->arena, buf_str(&text));
    buf_done(&text);
    return result;
}

static void node_row(struct row *row)
{
    struct buf roles = {0};
    struct str address[2] = {STR_NONE, STR_NONE};

    for (size_t i = 0; i < row->object->label_count; i++) {
        struct str key = row->object->labels[i].key;
        struct str prefix = STR("node-role.kubernetes.io/");

        if (!str_starts(key, prefix))
            continue;
        if (roles.len)
            buf_addc(&roles, ',');
        buf_add(&roles, str_sub(key, prefix.len, key.len));
    }
    JSON_FOREACH(json_at(row->root, "status.addresses"), item) {
        struct str type = json_str(json_get(item, "type"));
        if (str_is(type, "InternalIP") && !address[0].len)
            address[0] = json_str(json_get(item, "address"));
        if (str_is(type, "ExternalIP") && !address[1].len)
            address[1] = json_str(json_get(item, "address"));
    }
    cell(row, node_status(row));
    cell_or(row, buf_str(&roles), "<none>");
    buf_done(&roles);
    cell_age(row);
    cell_at(row, "status.nodeInfo.kubeletVersion", "");
    cell_or(row, address[0], "<none>");
    cell_or(row, address[1], "<none>");
    cell_at(row, "status.nodeInfo.osImage", "<unknown>");
    cell_at(row, "status.nodeInfo.kernelVersion", "<unknown>");
    cell_at(row, "status.nodeInfo.containerRuntimeVersion", "<unknown>");
}

static void namespace_row(struct row *row)
{
    cell_at(row, "status.phase", "Active");
    cell_age(row);
}

static void ports_cell(struct row *row)
{
    struct buf text = {0};

    JSON_FOREACH(json_at(row->root, "spec.ports"), port) {
        struct str protocol = json_str(json_get(port, "protocol"));

        buf_addf(&text, "%s%lld", text.len ? "," : "",
                 (long long)json_i64_or(json_get(port, "port"), 0));
        if (json_get(port, "nodePort"))
            buf_addf(&text, ":%lld", (long long)json_i64_or(json_get(port, "nodePort"), 0));
        buf_addf(&text, "/" STR_FMT, STR_ARG(protocol.len ? protocol : STR("TCP")));
    }
    cell_or(row, buf_str(&text), "<none>");
    buf_done(&text);
}

static void pairs_cell(struct row *row, const struct json *map)
{
    struct buf text = {0};

    JSON_FOREACH(map, pair)
        buf_addf(&text, "%s" STR_FMT "=" STR_FMT, text.len ? "," : "", STR_ARG(json_key(pair)),
                 STR_ARG(json_str(pair)));
    cell_or(row, buf_str(&text), "<none>");
    buf_done(&text);
}

static void service_row(struct row *row)
{
    cell_at(row, "spec.type", "ClusterIP");
    cell_at(row, "spec.clusterIP", "<none>");
    struct str outside = json_str_at(row->root, "status.loadBalancer.ingress.0.ip");
    if (!outside.len)
        outside = json_str_at(row->root, "spec.externalIPs.0");
    cell_or(row, outside.len ? outside : json_str_at(row->root, "spec.externalName"), "<none>");
    ports_cell(row);
    cell_age(row);
    pairs_cell(row, json_at(row->root, "spec.selector"));
}

static void endpoints_row(struct row *row)
{
    struct buf text = {0};

    JSON_FOREACH(json_get(row->root, "subsets"), subset) {
        JSON_FOREACH(json_get(subset, "addresses"), address) {
            struct str ip = json_str(json_get(address, "ip"));
            int64_t port = json_i64_or(json_at(subset, "ports.0.port"), 0);

            buf_addf(&text, "%s" STR_FMT, text.len ? "," : "", STR_ARG(ip));
            if (port)
                buf_addf(&text, ":%lld", (long long)port);
        }
    }
    cell_or(row, buf_str(&text), "<none>");
    buf_done(&text);
    cell_age(row);
}

static void configmap_row(struct row *row)
{
    cell_i64(row, (int64_t)(json_count(json_get(row->root, "data")) +
                            json_count(json_get(row->root, "binaryData"))));
    cell_age(row);
}

static void modes_cell(struct row *row, const char *path)
{
    static const char *const modes[][2] = {{"ReadWriteOnce", "RWO"},
                                           {"ReadOnlyMany", "ROX"},
                                           {"ReadWriteMany", "RWX"},
                                           {"ReadWriteOncePod", "RWOP"}};
    struct buf text = {0};

    JSON_FOREACH(json_at(row->root, path), mode)
        for (size_t i = 0; i < COUNT_OF(modes); i++)
            if (str_is(json_str(mode), modes[i][0]))
                buf_addf(&text, "%s%s", text.len ? "," : "", modes[i][1]);
    cell(row, buf_str(&text));
    buf_done(&text);
}

static void pvc_row(struct row *row)
{
    bool deleting = row->object->deleted_ms != 0;

    cell(row, deleting ? STR("Terminating") : json_str(json_at(row->root, "status.phase")));
    cell_at(row, "spec.volumeName", "");
    cell_at(row, "status.capacity.storage", "");
    modes_cell(row, "status.accessModes");
    cell_at(row, "spec.storageClassName", "");
    cell_at(row, "spec.volumeAttributesClassName", "<unset>");
    cell_age(row);
    cell_at(row, "spec.volumeMode", "<unset>");
}

static void pv_row(struct row *row)
{
    struct str claim = json_str(json_at(row->root, "spec.claimRef.name"));

    cell_at(row, "spec.capacity.storage", "");
    modes_cell(row, "spec.accessModes");
    cell_at(row, "spec.persistentVolumeReclaimPolicy", "Retain");
    cell(row, row->object->deleted_ms ? STR("Terminating")
                                      : json_str(json_at(row->root, "status.phase")));
    cell(row, claim.len
                  ? str_printf(row->arena, STR_FMT "/" STR_FMT,
                               STR_ARG(json_str(json_at(row->root, "spec.claimRef.namespace"))),
                               STR_ARG(claim))
                  : STR(""));
    cell_at(row, "spec.storageClassName", "");
    cell_at(row, "spec.volumeAttributesClassName", "<unset>");
    cell_at(row, "status.reason", "");
    cell_age(row);
    cell_at(row, "spec.volumeMode", "<unset>");
}

/* Of the first of these members that is a time. */
static struct str age_of(struct row *row, const char *first, const char *second, const char *third)
{
    int64_t then = 0;

    if (!time_parse(json_str_at(row->root, first), &then) &&
        !time_parse(json_str_at(row->root, second), &then) &&
        !time_parse(json_str_at(row->root, third), &then))
        then = row->object->created_ms;
    return age_since(row, then);
}

static struct str either(const struct row *row, const char *first, const char *second)
{
    struct str text = json_str_at(row->root, first);

    return text.len ? text : json_str_at(row->root, second);
}

/* Of both groups, which call what it is about, and what is said, by other names. */
static void event_row(struct row *row)
{
    struct str instance = either(row, "source.host", "deprecatedSource.host");
    struct str source = either(row, "source.component", "deprecatedSource.component");
    const struct json *count = json_at(row->root, "series.count");
    char *kind = str_c(row->arena, either(row, "involvedObject.kind", "regarding.kind"));

    for (char *c = kind; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c + ('a' - 'A'));
    cell(row, age_of(row, "lastTimestamp", "deprecatedLastTimestamp", "eventTime"));
    cell_at(row, "type", "");
    cell_at(row, "reason", "");
    cell(row, str_printf(row->arena, "%s/" STR_FMT, kind,
                         STR_ARG(either(row, "involvedObject.name", "regarding.name"))));
    cell(row, either(row, "involvedObject.fieldPath", "regarding.fieldPath"));
    if (!source.len)
        source = either(row, "reportingComponent", "reportingController");
    if (!instance.len)
        instance = json_str_at(row->root, "reportingInstance");
    cell(row, str_printf(row->arena, STR_FMT "%s" STR_FMT, STR_ARG(source),
                         instance.len ? ", " : "", STR_ARG(instance)));
    cell(row, str_trim(either(row, "message", "note")));
    cell(row, age_of(row, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime"));
    if (!count)
        count = json_at(row->root, "count");
    if (!count)
        count = json_at(row->root, "deprecatedCount");
    cell_i64(row, json_i64_or(count, 1));
    cell(row, row->object->name);
}

static void hpa_targets(struct row *row)
{
    struct buf text = {0};

    JSON_FOREACH(json_at(row->root, "spec.metrics"), metric) {
        struct str name = json_str_at(metric, "resource.name");
        const struct json *share = json_at(metric, "resource.target.averageUtilization");

        buf_addf(&text, "%s", text.len ? ", " : "");
        if (name.len && share)
            buf_addf(&text, STR_FMT ": <unknown>/" STR_FMT "%%", STR_ARG(name),
                     STR_ARG(json_number_text(share)));
        else
            buf_addf(&text, "<unknown>");
    }
    cell_or(row, buf_str(&text), "<unknown>");
    buf_done(&text);
}

/* Nothing measures here, so no current value is ever known. */
static void hpa_row(struct row *row)
{
    const struct json *spec = json_get(row->root, "spec");
    struct str kind = json_str_at(spec, "scaleTargetRef.kind");
    struct str name = json_str_at(spec, "scaleTargetRef.name");

    cell(row, str_printf(row->arena, STR_FMT "/" STR_FMT, STR_ARG(kind), STR_ARG(name)));
    hpa_targets(row);
    cell_i64(row, json_i64_or(json_get(spec, "minReplicas"), 1));
    cell_i64(row, json_i64_or(json_get(spec, "maxReplicas"), 0));
    cell_i64(row, json_i64_or(json_at(row->root, "status.currentReplicas"), 0));
    cell_age(row);
}

/* Containers and images of a template, and who is chosen: for -o wide. */
static void containers_cells(struct row *row, const char *path)
{
    static const char *const members[] = {"name", "image"};

    for (size_t i = 0; i < COUNT_OF(members); i++) {
        struct buf text = {0};

        JSON_FOREACH(json_at(row->root, path), container)
            buf_addf(&text, "%s" STR_FMT, text.len ? "," : "",
                     STR_ARG(json_str(json_get(container, members[i]))));
        cell(row, buf_str(&text));
        buf_done(&text);
    }
}

static void template_cells(struct row *row)
{
    containers_cells(row, "spec.template.spec.containers");
    const struct json *labels = json_at(row->root, "spec.selector.matchLabels");
    pairs_cell(row, labels ? labels : json_at(row->root, "spec.selector"));
}

static void job_row(struct row *row)
{
    int64_t completions = json_i64_or(json_at(row->root, "spec.completions"), 1);
    int64_t started = 0;
    int64_t ended = row->now_ms;
    const char *status = "Running";

    JSON_FOREACH(json_at(row->root, "status.conditions"), condition) {
        struct str type = json_str(json_get(condition, "type"));
        if (!str_is(json_str(json_get(condition, "status")), "True"))
            continue;
        if (str_is(type, "Complete"))
            status = "Complete";
        else if (str_is(type, "Failed"))
            status = "Failed";
        else if (str_is(type, "Suspended"))
            status = "Suspended";
    }
    cell(row, str_from(row->object->deleted_ms ? "Terminating" : status));
    cell(row, str_printf(row->arena, "%lld/%lld",
                         (long long)json_i64_or(json_at(row->root, "status.succeeded"), 0),
                         (long long)completions));
    (void)time_parse(json_str(json_at(row->root, "status.completionTime")), &ended);
    bool known = time_parse(json_str(json_at(row->root, "status.startTime")), &started);
    cell(row, known ? time_age(row->arena, ended > started ? ended - started : 0) : STR(""));
    cell_age(row);
    template_cells(row);
}

static void deployment_row(struct row *row)
{
    const struct json *status = json_get(row->root, "status");

    cell(row, str_printf(row->arena, "%lld/%lld",
                         (long long)json_i64_or(json_get(status, "readyReplicas"), 0),
                         (long long)json_i64_or(json_at(row->root, "spec.replicas"), 0)));
    cell_i64(row, json_i64_or(json_get(status, "updatedReplicas"), 0));
    cell_i64(row, json_i64_or(json_get(status, "availableReplicas"), 0));
    cell_age(row);
    template_cells(row);
}

static void replicaset_row(struct row *row)
{
    cell_i64(row, json_i64_or(json_at(row->root, "spec.replicas"), 0));
    cell_i64(row, json_i64_or(json_at(row->root, "status.replicas"), 0));
    cell_i64(row, json_i64_or(json_at(row->root, "status.readyReplicas"), 0));
    cell_age(row);
    template_cells(row);
}

static void statefulset_row(struct row *row)
{
    cell(row, str_printf(row->arena, "%lld/%lld",
                         (long long)json_i64_or(json_at(row->root, "status.readyReplicas"), 0),
                         (long long)json_i64_or(json_at(row->root, "spec.replicas"), 0)));
    cell_age(row);
    containers_cells(row, "spec.template.spec.containers");
}

static void daemonset_row(struct row *row)
{
    static const char *const members[] = {"desiredNumberScheduled", "currentNumberScheduled",
                                          "numberReady", "updatedNumberScheduled",
                                          "numberAvailable"};

    for (size_t i = 0; i < COUNT_OF(members); i++)
        cell_i64(row, json_i64_or(json_get(json_get(row->root, "status"), members[i]), 0));
    pairs_cell(row, json_at(row->root, "spec.template.spec.nodeSelector"));
    cell_age(row);
    template_cells(row);
}

static void controllerrevision_row(struct row *row)
{
    const struct object_owner *owner = object_controller(row->object);

    cell(row, owner ? str_printf(row->arena, STR_FMT "/" STR_FMT, STR_ARG(owner->kind),
                                 STR_ARG(owner->name))
                    : STR("<none>"));
    cell_i64(row, json_i64_or(json_get(row->root, "revision"), 0));
    cell_age(row);
}

static void cronjob_row(struct row *row)
{
    int64_t last = 0;

    cell_at(row, "spec.schedule", "");
    cell_at(row, "spec.timeZone", "<none>");
    cell(row, json_bool_or(json_at(row->root, "spec.suspend"), false) ? STR("True") : STR("False"));
    cell_i64(row, (int64_t)json_count(json_at(row->root, "status.active")));
    cell(row, time_parse(json_str_at(row->root, "status.lastScheduleTime"), &last)
                  ? age_since(row, last)
                  : STR("<none>"));
    cell_age(row);
    containers_cells(row, "spec.jobTemplate.spec.template.spec.containers");
    pairs_cell(row, json_at(row->root, "spec.jobTemplate.spec.selector.matchLabels"));
}

/* "pods: 1/10, requests.cpu: 500m/4", those of requests and limits apart. */
static void used_cell(struct row *row, bool limits)
{
    struct buf text = {0};

    JSON_FOREACH(json_at(row->root, "status.hard"), hard) {
        struct str used = json_str(json_get_str(json_at(row->root, "status.used"), json_key(hard)));

        if (str_starts(json_key(hard), STR("limits.")) == limits)
            buf_addf(&text, "%s" STR_FMT ": " STR_FMT "/" STR_FMT, text.len ? ", " : "",
                     STR_ARG(json_key(hard)), STR_ARG(used.len ? used : STR("0")),
                     STR_ARG(json_is(hard, JSON_NUMBER) ? json_number_text(hard) : json_str(hard)));
    }
    cell(row, buf_str(&text));
    buf_done(&text);
}

static void quota_row(struct row *row)
{
    used_cell(row, false);
    used_cell(row, true);
    cell_age(row);
}

/* "Local", or NAMESPACE/NAME of who serves it; and whether that one answers, or why not. */
static void apiservice_row(struct row *row)
{
    const struct json *service = json_at(row->root, "spec.service");
    struct str available = STR("Unknown");

    JSON_FOREACH(json_at(row->root, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), "Available")) {
            struct str reason = json_str(json_get(condition, "reason"));

            available = json_str(json_get(condition, "status"));
            if (reason.len && !str_is(available, "True"))
                available = str_printf(row->arena, STR_FMT " (" STR_FMT ")", STR_ARG(available),
                                       STR_ARG(reason));
        }
    cell(row, json_is_null(service) ? STR("Local")
                                    : str_printf(row->arena, STR_FMT "/" STR_FMT,
                                                 STR_ARG(json_str(json_get(service, "namespace"))),
                                                 STR_ARG(json_str(json_get(service, "name")))));
    cell(row, available);
    cell_age(row);
}

static struct str csr_words(struct row *row)
{
    static const char *const types[] = {"Denied", "Approved", "Failed"};
    struct str words = STR("");

    for (size_t i = 0; i < COUNT_OF(types); i++)
        JSON_FOREACH(json_at(row->root, "status.conditions"), condition)
            if (str_is(json_str(json_get(condition, "type")), types[i]))
                words = str_printf(row->arena, STR_FMT "%s%s", STR_ARG(words), words.len ? "," : "",
                                   types[i]);
    if (!words.len)
        words = STR("Pending");
    return json_str_at(row->root, "status.certificate").len
               ? str_printf(row->arena, STR_FMT ",Issued", STR_ARG(words))
               : words;
}

static void csr_row(struct row *row)
{
    int64_t seconds = json_i64_or(json_at(row->root, "spec.expirationSeconds"), 0);

    cell_age(row);
    cell_at(row, "spec.signerName", "<none>");
    cell_at(row, "spec.username", "");
    cell(row, seconds ? time_age(row->arena, seconds * 1000) : STR("<none>"));
    cell(row, csr_words(row));
}

static void pdb_row(struct row *row)
{
    static const char *const paths[] = {"spec.minAvailable", "spec.maxUnavailable"};

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const struct json *value = json_at(row->root, paths[i]);
        struct str text = json_is(value, JSON_NUMBER) ? json_number_text(value) : json_str(value);
        cell_or(row, text, "N/A");
    }
    cell_i64(row, json_i64_or(json_at(row->root, "status.disruptionsAllowed"), 0));
    cell_age(row);
}

/* Of scheduling.k8s.io; those of scheduling.run.ai have the columns of their CRD. */
static void podgroup_row(struct row *row)
{
    const struct json *conditions = json_at(row->root, "status.conditions");
    struct str state = STR("Pending");

    JSON_FOREACH(conditions, condition) {
        struct str type = json_str(json_get(condition, "type"));
        bool is_true = str_is(json_str(json_get(condition, "status")), "True");

        if (str_is(type, "PodGroupInitiallyScheduled"))
            state = is_true ? STR("Scheduled") : STR("Unschedulable");
        else if (str_is(type, "DisruptionTarget") && is_true)
            state = json_str(json_get(condition, "reason"));
        else
            continue;
        if (str_is(type, "DisruptionTarget"))
            break;
    }
    cell(row, json_is_null(json_at(row->root, "spec.schedulingPolicy.gang")) ? STR("Basic")
                                                                             : STR("Gang"));
    cell_or(row, json_str_at(row->root, "spec.workloadRef.workloadName"), "<none>");
    cell(row, state);
    cell_age(row);
}

static void resourceclaim_row(struct row *row)
{
    bool allocated = !json_is_null(json_at(row->root, "status.allocation"));
    bool reserved = json_count(json_at(row->root, "status.reservedFor")) > 0;
    bool deleted = json_str_at(row->root, "metadata.deletionTimestamp").len > 0;

    cell(row, str_printf(row->arena, "%s%s%s", deleted ? "deleted," : "",
                         allocated ? "allocated" : "pending", reserved ? ",reserved" : ""));
    cell_age(row);
}

static void resourceslice_row(struct row *row)
{
    cell_or(row, json_str_at(row->root, "spec.nodeName"), "<unset>");
    cell(row, json_str_at(row->root, "spec.driver"));
    cell(row, json_str_at(row->root, "spec.pool.name"));
    cell_age(row);
}

static void age_row(struct row *row)
{
    cell_age(row);
}

/* "Name:type:priority", behind the Name column that every table has. */
struct builtin {
    const struct kind *kind;
    void (*fill)(struct row *row);
    const char *columns;
};

#define TEMPLATE_COLUMNS "Containers:string:1,Images:string:1,Selector:string:1"

static const struct builtin builtins[] = {
    {&kind_pod, pod_row,
     "Ready:string:0,Status:string:0,Restarts:string:0,Age:string:0,IP:string:1,Node:string:1,"
     "Nominated Node:string:1,Readiness Gates:string:1"},
    {&kind_node, node_row,
     "Status:string:0,Roles:string:0,Age:string:0,Version:string:0,Internal-IP:string:1,"
     "External-IP:string:1,OS-Image:string:1,Kernel-Version:string:1,Container-Runtime:string:1"},
    {&kind_namespace, namespace_row, "Status:string:0,Age:string:0"},
    {&kind_service, service_row,
     "Type:string:0,Cluster-IP:string:0,External-IP:string:0,Port(s):string:0,Age:string:0,"
     "Selector:string:1"},
    {&kind_endpoints, endpoints_row, "Endpoints:string:0,Age:string:0"},
    {&kind_configmap, configmap_row, "Data:string:0,Age:string:0"},
    {&kind_pvc, pvc_row,
     "Status:string:0,Volume:string:0,Capacity:string:0,Access Modes:string:0,"
     "StorageClass:string:0,VolumeAttributesClass:string:0,Age:string:0,VolumeMode:string:1"},
    {&kind_pv, pv_row,
     "Capacity:string:0,Access Modes:string:0,Reclaim Policy:string:0,Status:string:0,"
     "Claim:string:0,StorageClass:string:0,VolumeAttributesClass:string:0,Reason:string:0,"
     "Age:string:0,VolumeMode:string:1"},
    {&kind_job, job_row,
     "Status:string:0,Completions:string:0,Duration:string:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_deployment, deployment_row,
     "Ready:string:0,Up-to-date:string:0,Available:string:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_replicaset, replicaset_row,
     "Desired:integer:0,Current:integer:0,Ready:integer:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_replicationcontroller, replicaset_row,
     "Desired:integer:0,Current:integer:0,Ready:integer:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_statefulset, statefulset_row,
     "Ready:string:0,Age:string:0,Containers:string:1,Images:string:1"},
    {&kind_daemonset, daemonset_row,
     "Desired:integer:0,Current:integer:0,Ready:integer:0,Up-to-date:integer:0,"
     "Available:integer:0,Node Selector:string:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_controllerrevision, controllerrevision_row,
     "Controller:string:0,Revision:string:0,Age:string:0"},
    {&kind_cronjob, cronjob_row,
     "Schedule:string:0,Timezone:string:0,Suspend:boolean:0,Active:integer:0,"
     "Last Schedule:string:0,Age:string:0," TEMPLATE_COLUMNS},
    {&kind_resourcequota, quota_row, "Request:string:0,Limit:string:0,Age:string:0"},
    {&kind_hpa, hpa_row,
     "Reference:string:0,Targets:string:0,MinPods:string:0,MaxPods:string:0,Replicas:string:0,"
     "Age:string:0"},
    {&kind_csr, csr_row,
     "Age:string:0,SignerName:string:0,Requestor:string:0,RequestedDuration:string:0,"
     "Condition:string:0"},
    {&kind_apiservice, apiservice_row, "Service:string:0,Available:string:0,Age:string:0"},
    {&kind_podgroup_k8s, podgroup_row,
     "Policy:string:0,Workload:string:0,Status:string:0,Age:string:0"},
    {&kind_resourceclaim, resourceclaim_row, "State:string:0,Age:string:0"},
    {&kind_resourceslice, resourceslice_row,
     "Node:string:0,Driver:string:0,Pool:string:0,Age:string:0"},
    {&kind_pdb, pdb_row,
     "Min Available:string:0,Max Unavailable:string:0,Allowed Disruptions:integer:0,"
     "Age:string:0"},
};

/* Events show when they last happened first; their name only with -o wide. */
static const struct builtin event_table = {
    &kind_event, event_row,
    "Last Seen:string:0,Type:string:0,Reason:string:0,Object:string:0,Subobject:string:1,"
    "Source:string:1,Message:string:0,First Seen:string:1,Count:string:1,Name:string:1"};
static const struct builtin plain_table = {NULL, age_row, "Age:string:0"};

static const struct builtin *find(const struct kind *kind)
{
    if (kind == &kind_event || kind == &kind_event_k8s)
        return &event_table;
    for (size_t i = 0; i < COUNT_OF(builtins); i++)
        if (builtins[i].kind == kind)
            return &builtins[i];
    return &plain_table;
}

static void column(struct buf *buf,
                   struct str name,
                   struct str type,
                   int priority,
                   const char *description)
{
    buf_add(buf, buf->p[buf->len - 1] == '[' ? STR("{\"name\":") : STR(",{\"name\":"));
    json_write_string(buf, name);
    buf_add(buf, STR(",\"type\":"));
    json_write_string(buf, type);
    buf_addf(buf, ",\"format\":\"%s\",\"description\":", str_is(name, "Name") ? "name" : "");
    json_write_string(buf, str_from(description ? description : ""));
    buf_addf(buf, ",\"priority\":%d}", priority);
}

void table_columns(struct buf *buf, const struct kind *kind)
{
    const struct builtin *builtin = find(kind);
    struct str rest = str_from(builtin->columns);
    struct str item;
    size_t custom_count = 0;
    const struct kind_column *custom = kind_columns(kind, &custom_count);

    buf_addc(buf, '[');
    if (builtin != &event_table)
        column(buf, STR("Name"), STR("string"), 0, "name of the object, unique in its namespace");
    if (custom) {
        for (size_t i = 0; i < custom_count; i++)
            column(buf, str_from(custom[i].name), str_from(custom[i].type), custom[i].priority,
                   custom[i].description);
        buf_addc(buf, ']');
        return;
    }
    struct table_column shown;
    size_t index = 0;
    while (table_field_column(kind, index, &shown)) {
        column(buf, str_from(shown.name), str_from(shown.type), shown.priority, NULL);
        index++;
    }
    while (!index && str_cut(&rest, ',', &item)) {
        struct str name;
        struct str type;
        (void)str_cut(&item, ':', &name);
        (void)str_cut(&item, ':', &type);
        column(buf, name, type, str_is(item, "1"), NULL);
    }
    buf_addc(buf, ']');
}

void table_cells(struct arena *arena,
                 struct buf *buf,
                 const struct object *object,
                 const struct json *root,
                 int64_t now_ms)
{
    struct row row = {.arena = arena, .buf = buf, .object = object, .root = root, .now_ms = now_ms};
    const struct builtin *builtin = find(object->kind);
    size_t custom_count = 0;
    const struct kind_column *custom = kind_columns(object->kind, &custom_count);

    if (builtin != &event_table)
        cell(&row, object->name);
    if (!custom && !table_field_cells(arena, buf, object, root, now_ms))
        builtin->fill(&row);
    for (size_t i = 0; i < custom_count; i++) {
        buf_addc(buf, ',');
        column_cell(arena, buf, &custom[i], root, now_ms);
    }
}
