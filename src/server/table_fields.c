#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "server/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds whose columns show what stands in their fields. */

#define FIRST_MAX 3 /* of a list; how many more there are is a number */

struct source {
    struct arena *arena;
    const struct object *object;
    const struct json *root;
    int64_t now_ms;
};

struct field_column {
    const char *name;
    const char *type; /* "Name:type:priority" of table.c in parts */
    int priority;
    const char *path;      /* what is shown; of a list its items with a comma between them */
    const char *otherwise; /* the text where nothing is there; behind a '=': JSON */
    struct str (*text)(const struct source *from, const struct json *value);
};

static struct str join(struct arena *arena, struct str so_far, const char *between, struct str next)
{
    return so_far.len
               ? str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(so_far), between, STR_ARG(next))
               : next;
}

static struct str plain(const struct json *value)
{
    return json_is(value, JSON_NUMBER) ? json_number_text(value) : json_str(value);
}

/* Of each item a member, of the first ones only where there are more. */
static struct str items(const struct source *from,
                        const struct json *list,
                        const char *member,
                        size_t max)
{
    struct str text = STR("");
    size_t count = 0;

    JSON_FOREACH(list, item)
        if (count++ < max)
            text = join(from->arena, text, ",", plain(member ? json_at(item, member) : item));
    return count > max
               ? str_printf(from->arena, STR_FMT " + %zu more...", STR_ARG(text), count - max)
               : text;
}

static struct str age(const struct source *from, const struct json *value)
{
    int64_t then = from->object->created_ms;

    (void)value;
    return then ? time_age(from->arena, from->now_ms > then ? from->now_ms - then : 0)
                : STR("<unknown>");
}

static struct str made(const struct source *from, const struct json *value)
{
    char text[TIME_TEXT_BYTES];

    (void)value;
    return str_dup(from->arena, time_format(from->object->created_ms, text));
}

static struct str pairs(const struct source *from, const struct json *map)
{
    struct str text = STR("");

    JSON_FOREACH(map, pair)
        text = join(from->arena, text, ",",
                    str_printf(from->arena, STR_FMT "=" STR_FMT, STR_ARG(json_key(pair)),
                               STR_ARG(json_str(pair))));
    return text;
}

/* As kubectl takes it: "a=b,c in (d,e),!f". */
static struct str selector(const struct source *from, const struct json *value)
{
    struct str text = pairs(from, json_get(value, "matchLabels"));

    JSON_FOREACH(json_get(value, "matchExpressions"), item) {
        struct str key = json_str(json_get(item, "key"));
        struct str operator= json_str(json_get(item, "operator"));
        struct str values = items(from, json_get(item, "values"), NULL, SIZE_MAX);
        bool in = str_is(operator, "In");

        if (in || str_is(operator, "NotIn"))
            key = str_printf(from->arena, STR_FMT " %s (" STR_FMT ")", STR_ARG(key),
                             in ? "in" : "notin", STR_ARG(values));
        else if (str_is(operator, "DoesNotExist"))
            key = str_printf(from->arena, "!" STR_FMT, STR_ARG(key));
        text = join(from->arena, text, ",", key);
    }
    return text;
}

static struct str count(const struct source *from, const struct json *list)
{
    return str_printf(from->arena, "%zu", json_count(list));
}

static struct str names(const struct source *from, const struct json *list)
{
    return items(from, list, "name", SIZE_MAX);
}

static struct str images(const struct source *from, const struct json *list)
{
    return items(from, list, "image", SIZE_MAX);
}

static struct str audiences(const struct source *from, const struct json *list)
{
    return items(from, list, "audience", SIZE_MAX);
}

/* "KIND/NAME", with the group behind the kind where there is one. */
static struct str reference(const struct source *from, const struct json *value)
{
    struct str group = json_str(json_get(value, "apiGroup"));

    return json_is_null(value)
               ? STR("")
               : str_printf(from->arena, STR_FMT "%s" STR_FMT "/" STR_FMT,
                            STR_ARG(json_str(json_get(value, "kind"))), group.len ? "." : "",
                            STR_ARG(group), STR_ARG(json_str(json_get(value, "name"))));
}

static struct str role(const struct source *from, const struct json *value)
{
    return str_printf(from->arena, STR_FMT "/" STR_FMT, STR_ARG(json_str(json_get(value, "kind"))),
                      STR_ARG(json_str(json_get(value, "name"))));
}

static struct str subjects(const struct source *from,
                           const struct json *list,
                           const char *kind,
                           bool inside)
{
    struct str text = STR("");

    JSON_FOREACH(list, item) {
        struct str name = json_str(json_get(item, "name"));

        if (!str_is(json_str(json_get(item, "kind")), kind))
            continue;
        if (inside)
            name = str_printf(from->arena, STR_FMT "/" STR_FMT,
                              STR_ARG(json_str(json_get(item, "namespace"))), STR_ARG(name));
        text = join(from->arena, text, ", ", name);
    }
    return text;
}

static struct str users(const struct source *from, const struct json *list)
{
    return subjects(from, list, "User", false);
}

static struct str groups(const struct source *from, const struct json *list)
{
    return subjects(from, list, "Group", false);
}

static struct str accounts(const struct source *from, const struct json *list)
{
    return subjects(from, list, "ServiceAccount", true);
}

/* "RESOURCE.GROUP/NAMESPACE/NAME", of those that are said. */
static struct str parent(const struct source *from, const struct json *value)
{
    struct str group = json_str(json_get(value, "group"));
    struct str ns = json_str(json_get(value, "namespace"));

    return str_printf(from->arena, STR_FMT "%s" STR_FMT "/" STR_FMT "%s" STR_FMT,
                      STR_ARG(json_str(json_get(value, "resource"))), group.len ? "." : "",
                      STR_ARG(group), STR_ARG(ns), ns.len ? "/" : "",
                      STR_ARG(json_str(json_get(value, "name"))));
}

static struct str slice_ports(const struct source *from, const struct json *list)
{
    return items(from, list, "port", FIRST_MAX);
}

static struct str slice_addresses(const struct source *from, const struct json *list)
{
    struct json *all = json_new_array(from->arena);

    JSON_FOREACH(list, endpoint)
        JSON_FOREACH(json_get(endpoint, "addresses"), address)
            (void)json_push(all, json_new_str(from->arena, json_str(address)));
    return items(from, all, NULL, FIRST_MAX);
}

static struct str hosts(const struct source *from, const struct json *list)
{
    struct json *all = json_new_array(from->arena);

    JSON_FOREACH(list, rule)
        if (json_str(json_get(rule, "host")).len)
            (void)json_push(all, json_new_str(from->arena, json_str(json_get(rule, "host"))));
    return items(from, all, NULL, FIRST_MAX);
}

static struct str addresses(const struct source *from, const struct json *list)
{
    struct str text = STR("");

    JSON_FOREACH(list, item) {
        struct str ip = json_str(json_get(item, "ip"));

        text = join(from->arena, text, ",", ip.len ? ip : json_str(json_get(item, "hostname")));
    }
    return text;
}

static struct str web_ports(const struct source *from, const struct json *tls)
{
    (void)from;
    return json_count(tls) ? STR("80, 443") : STR("80");
}

/* Whether the priority level that it names is missing. */
static struct str dangling(const struct source *from, const struct json *conditions)
{
    (void)from;
    JSON_FOREACH(conditions, condition)
        if (str_is(json_str(json_get(condition, "type")), "Dangling"))
            return json_str(json_get(condition, "status"));
    return STR("");
}

static struct str shares(const struct source *from, const struct json *spec)
{
    const struct json *limited = json_at(spec, "limited.nominalConcurrencyShares");

    (void)from;
    return plain(limited ? limited : json_at(spec, "exempt.nominalConcurrencyShares"));
}

static struct str parameters(const struct source *from, const struct json *value)
{
    struct str ns = json_str(json_get(value, "namespace"));

    return join(from->arena, ns, "/", json_str(json_get(value, "name")));
}

static struct str param_kind(const struct source *from, const struct json *value)
{
    return join(from->arena, json_str(json_get(value, "apiVersion")), "/",
                json_str(json_get(value, "kind")));
}

#define AGE                             \
    {                                   \
        "Age", "string", 0, "", "", age \
    }
#define MADE                                  \
    {                                         \
        "Created At", "date", 0, "", "", made \
    }
#define QUEUEING "spec.limited.limitResponse.queuing."

static const struct {
    const struct kind *kind;
    struct field_column columns[9];
} kinds[] = {
    {&kind_limitrange, {MADE}},
    {&kind_crd, {MADE}},
    {&kind_csistoragecapacity, {MADE}},
    {&kind_role, {MADE}},
    {&kind_clusterrole, {MADE}},
    {&kind_lease, {{"Holder", "string", 0, "spec.holderIdentity", "", NULL}, AGE}},
    {&kind_secret,
     {{"Type", "string", 0, "type", "Opaque", NULL},
      {"Data", "string", 0, "data", "=0", count},
      AGE}},
    {&kind_serviceaccount, {{"Secrets", "string", 0, "secrets", "=0", count}, AGE}},
    {&kind_priorityclass,
     {{"Value", "integer", 0, "value", "=0", NULL},
      {"Global-Default", "boolean", 0, "globalDefault", "=false", NULL},
      AGE,
      {"PreemptionPolicy", "string", 0, "preemptionPolicy", "PreemptLowerPriority", NULL}}},
    {&kind_storageclass,
     {{"Provisioner", "string", 0, "provisioner", "", NULL},
      {"ReclaimPolicy", "string", 0, "reclaimPolicy", "Delete", NULL},
      {"VolumeBindingMode", "string", 0, "volumeBindingMode", "Immediate", NULL},
      {"AllowVolumeExpansion", "string", 0, "allowVolumeExpansion", "=false", NULL},
      AGE}},
    {&kind_podtemplate,
     {{"Containers", "string", 0, "template.spec.containers", "", names},
      {"Images", "string", 0, "template.spec.containers", "", images},
      {"Pod Labels", "string", 0, "template.metadata.labels", "<none>", pairs}}},
    {&kind_endpointslice,
     {{"AddressType", "string", 0, "addressType", "", NULL},
      {"Ports", "string", 0, "ports", "<unset>", slice_ports},
      {"Endpoints", "string", 0, "endpoints", "<unset>", slice_addresses},
      AGE}},
    {&kind_runtimeclass, {{"Handler", "string", 0, "handler", "", NULL}, AGE}},
    {&kind_rolebinding,
     {{"Role", "string", 0, "roleRef", "", role},
      AGE,
      {"Users", "string", 1, "subjects", "", users},
      {"Groups", "string", 1, "subjects", "", groups},
      {"ServiceAccounts", "string", 1, "subjects", "", accounts}}},
    {&kind_clusterrolebinding,
     {{"Role", "string", 0, "roleRef", "", role},
      AGE,
      {"Users", "string", 1, "subjects", "", users},
      {"Groups", "string", 1, "subjects", "", groups},
      {"ServiceAccounts", "string", 1, "subjects", "", accounts}}},
    {&kind_ingress,
     {{"Class", "string", 0, "spec.ingressClassName", "<none>", NULL},
      {"Hosts", "string", 0, "spec.rules", "*", hosts},
      {"Address", "string", 0, "status.loadBalancer.ingress", "", addresses},
      {"Ports", "string", 0, "spec.tls", "", web_ports},
      AGE}},
    {&kind_ingressclass,
     {{"Controller", "string", 0, "spec.controller", "", NULL},
      {"Parameters", "string", 0, "spec.parameters", "<none>", reference},
      AGE}},
    {&kind_networkpolicy,
     {{"Pod-Selector", "string", 0, "spec.podSelector", "<none>", selector}, AGE}},
    {&kind_flowschema,
     {{"PriorityLevel", "string", 0, "spec.priorityLevelConfiguration.name", "", NULL},
      {"MatchingPrecedence", "string", 0, "spec.matchingPrecedence", "=0", NULL},
      {"DistinguisherMethod", "string", 0, "spec.distinguisherMethod.type", "<none>", NULL},
      AGE,
      {"MissingPL", "string", 0, "status.conditions", "?", dangling}}},
    {&kind_prioritylevel,
     {{"Type", "string", 0, "spec.type", "", NULL},
      {"NominalConcurrencyShares", "string", 0, "spec", "=\"<none>\"", shares},
      {"Queues", "string", 0, QUEUEING "queues", "<none>", NULL},
      {"HandSize", "string", 0, QUEUEING "handSize", "<none>", NULL},
      {"QueueLengthLimit", "string", 0, QUEUEING "queueLengthLimit", "<none>", NULL},
      AGE}},
    {&kind_csidriver,
     {{"AttachRequired", "boolean", 0, "spec.attachRequired", "=true", NULL},
      {"PodInfoOnMount", "boolean", 0, "spec.podInfoOnMount", "=false", NULL},
      {"StorageCapacity", "boolean", 0, "spec.storageCapacity", "=false", NULL},
      {"TokenRequests", "string", 0, "spec.tokenRequests", "<unset>", audiences},
      {"RequiresRepublish", "boolean", 0, "spec.requiresRepublish", "=false", NULL},
      {"Modes", "string", 0, "spec.volumeLifecycleModes", "<none>", NULL},
      AGE}},
    {&kind_csinode, {{"Drivers", "integer", 0, "spec.drivers", "=0", count}, AGE}},
    {&kind_volumeattachment,
     {{"Attacher", "string", 0, "spec.attacher", "", NULL},
      {"PV", "string", 0, "spec.source.persistentVolumeName", "", NULL},
      {"Node", "string", 0, "spec.nodeName", "", NULL},
      {"Attached", "boolean", 0, "status.attached", "=false", NULL},
      AGE}},
    {&kind_mutatingwebhooks, {{"Webhooks", "integer", 0, "webhooks", "=0", count}, AGE}},
    {&kind_validatingwebhooks, {{"Webhooks", "integer", 0, "webhooks", "=0", count}, AGE}},
    {&kind_admissionpolicy,
     {{"Validations", "integer", 0, "spec.validations", "=0", count},
      {"ParamKind", "string", 0, "spec.paramKind", "<unset>", param_kind},
      AGE}},
    {&kind_admissionbinding,
     {{"PolicyName", "string", 0, "spec.policyName", "", NULL},
      {"ParamRef", "string", 0, "spec.paramRef", "<unset>", parameters},
      AGE}},
    {&kind_servicecidr, {{"CIDRs", "string", 0, "spec.cidrs", "", NULL}, AGE}},
    {&kind_ipaddress, {{"ParentRef", "string", 0, "spec.parentRef", "<none>", parent}, AGE}},
};

static const struct field_column *columns_of(const struct kind *kind)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i].kind == kind)
            return kinds[i].columns;
    return NULL;
}

bool table_field_column(const struct kind *kind, size_t index, struct table_column *ret)
{
    const struct field_column *columns = columns_of(kind);

    if (!columns || !columns[index].name)
        return false;
    *ret = (struct table_column){columns[index].name, columns[index].type, columns[index].priority};
    return true;
}

bool table_field_cells(struct arena *arena,
                       struct buf *buf,
                       const struct object *object,
                       const struct json *root,
                       int64_t now_ms)
{
    const struct source from = {arena, object, root, now_ms};
    const struct field_column *column = columns_of(object->kind);

    if (!column)
        return false;
    for (; column->name; column++) {
        const struct json *value = column->path[0] ? json_at(root, column->path) : NULL;
        bool is_raw = column->otherwise[0] == '=';
        struct str text = STR("");

        buf_addc(buf, ',');
        if (column->text)
            text = column->text(&from, value);
        else if (json_is(value, JSON_ARRAY))
            text = items(&from, value, NULL, SIZE_MAX);
        else if (json_is(value, JSON_BOOL))
            text = json_bool_or(value, false) ? STR("true") : STR("false");
        else
            text = plain(value);
        if (is_raw || json_is(value, JSON_NUMBER))
            buf_add(buf, text.len ? text : str_from(column->otherwise + 1));
        else
            json_write_string(buf, text.len ? text : str_from(column->otherwise));
    }
    return true;
}
