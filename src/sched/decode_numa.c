#include "api/decode.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/decode.h"
#include "sched/spec.h"

#include <stddef.h>
#include <stdint.h>

/* A NodeResourceTopology: the NUMA zones of the node of the same name. */

#define NANO_PER_MILLI 1000000
#define NANO_PER_UNIT  1000000000

struct attribute {
    struct str name;
    struct str value;
};

struct resource {
    struct str name;
    struct quantity allocatable;
    struct quantity available;
};

struct zone {
    struct str name;
    struct str type;
    const struct resource *resources;
    size_t resource_count;
};

struct topology {
    const struct str *policies;
    size_t policy_count;
    const struct attribute *attributes;
    size_t attribute_count;
    const struct zone *zones;
    size_t zone_count;
};

static const struct decode_field attribute_fields[] = {
    DECODE_FIELD(struct attribute, name, "name", STR, .required = true),
    DECODE_FIELD(struct attribute, value, "value", STR),
};
static const struct decode_table attribute_table =
    DECODE_TABLE(struct attribute, NULL, attribute_fields);
static const struct decode_field resource_fields[] = {
    DECODE_FIELD(struct resource, name, "name", STR, .required = true),
    DECODE_FIELD(struct resource, allocatable, "allocatable", QUANTITY, .required = true),
    DECODE_FIELD(struct resource, available, "available", QUANTITY, .required = true),
};
static const struct decode_table resource_table =
    DECODE_TABLE(struct resource, NULL, resource_fields);
static const struct decode_field zone_fields[] = {
    DECODE_FIELD(struct zone, name, "name", STR, .required = true),
    DECODE_FIELD(struct zone, type, "type", STR, .required = true),
    DECODE_ITEMS(struct zone,
                 resources,
                 resource_count,
                 "resources",
                 LIST,
                 .table = &resource_table),
};
static const struct decode_table zone_table = DECODE_TABLE(struct zone, NULL, zone_fields);
static const struct decode_field topology_fields[] = {
    DECODE_ITEMS(struct topology, policies, policy_count, "topologyPolicies", STRS),
    DECODE_ITEMS(struct topology,
                 attributes,
                 attribute_count,
                 "attributes",
                 LIST,
                 .table = &attribute_table),
    DECODE_ITEMS(struct topology, zones, zone_count, "zones", LIST, .table = &zone_table),
};
static const struct decode_table topology_table =
    DECODE_TABLE(struct topology, NULL, topology_fields);

static const struct decode_note carried[] = {
    {"zones[].parent", "Zones inside of zones are not looked at."},
    {"zones[].costs", "How far zones are from each other is not asked."},
    {"zones[].attributes", "Nothing here depends on them."},
    {"zones[].resources[].capacity", "What pods can have is allocatable."},
    {NULL, NULL},
};

const struct decode_kind numa_decode_kind = {.crd = "noderesourcetopologies.topology.node.k8s.io",
                                             .uses = {{&topology_table, NULL}},
                                             .carried = carried};

/* How a kubelet gives out zones; the older topologyPolicies say it and the scope in one word. */
static const struct {
    const char *word;
    const char *older;
    enum sched_numa_policy policy;
} policies[] = {{"single-numa-node", "SingleNUMANode", SCHED_NUMA_SINGLE},
                {"restricted", "Restricted", SCHED_NUMA_RESTRICTED},
                {"best-effort", "BestEffort", SCHED_NUMA_BEST_EFFORT}};

static void rules_of(const struct topology *topology, struct sched_numa *ret)
{
    struct str older = topology->policy_count ? topology->policies[0] : STR_NONE;
    struct str policy = STR_NONE;
    struct str scope = STR_NONE;

    for (size_t i = 0; i < topology->attribute_count; i++) {
        if (str_is(topology->attributes[i].name, "topologyManagerPolicy"))
            policy = topology->attributes[i].value;
        else if (str_is(topology->attributes[i].name, "topologyManagerScope"))
            scope = topology->attributes[i].value;
    }
    for (size_t i = 0; i < COUNT_OF(policies); i++)
        if (policy.len ? str_is(policy, policies[i].word)
                       : str_starts(older, str_from(policies[i].older)))
            ret->policy = policies[i].policy;
    if (!policy.len)
        scope = str_ends(older, STR("PodLevel")) ? STR("pod") : STR("container");
    ret->by_container = !str_is(scope, "pod");
}

/* CPUs in thousandths, the rest in units, as of nodes. */
static int64_t amount_of(struct str name, struct quantity quantity)
{
    return (int64_t)(quantity.nano / (str_is(name, "cpu") ? NANO_PER_MILLI : NANO_PER_UNIT));
}

static struct sched_zone zone_of(struct arena *arena, const struct zone *zone)
{
    size_t count = zone->resource_count;
    struct sched_amount *allocatable = ARENA_ARRAY(arena, struct sched_amount, count + 1);
    struct sched_amount *available = ARENA_ARRAY(arena, struct sched_amount, count + 1);

    for (size_t i = 0; i < count; i++) {
        const struct resource *r = &zone->resources[i];
        allocatable[i] = (struct sched_amount){r->name, amount_of(r->name, r->allocatable)};
        available[i] = (struct sched_amount){r->name, amount_of(r->name, r->available)};
    }
    return (struct sched_zone){.name = zone->name,
                               .allocatable = allocatable,
                               .allocatable_count = count,
                               .available = available,
                               .available_count = count};
}

void decode_numa(struct decode *decode, struct sched_numa *ret)
{
    struct topology topology = {0};
    struct err err = {0};

    *ret = (struct sched_numa){.node = decode->object->name};
    if (decode_over(&topology_table, decode->arena, decode->tree, &topology, &err) < 0)
        (void)decode_error(decode, "%s", err.text);
    struct sched_zone *zones =
        ARENA_ARRAY(decode->arena, struct sched_zone, topology.zone_count + 1);
    for (size_t i = 0; i < topology.zone_count; i++)
        if (str_is(topology.zones[i].type, "Node"))
            zones[ret->zone_count++] = zone_of(decode->arena, &topology.zones[i]);
    ret->zones = zones;
    rules_of(&topology, ret);
}
