#include "sched/numa.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "conformance/conformance.h"
#include "sched/decode.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* NUMA zones of scenarios, and the function that gives them out, case by case. */

static int64_t amount_of(struct str name, const struct json *value)
{
    int64_t amount = 0;

    if (str_is(name, "cpu"))
        (void)quantity_milli_json(value, &amount, NULL);
    else
        (void)quantity_whole_json(value, &amount, NULL);
    return amount;
}

static const struct sched_amount *amounts_of(struct arena *arena,
                                             const struct json *from,
                                             size_t *ret_count)
{
    struct sched_amount *all = ARENA_ARRAY(arena, struct sched_amount, json_count(from) + 1);

    JSON_FOREACH(from, value)
        all[(*ret_count)++] =
            (struct sched_amount){json_key(value), amount_of(json_key(value), value)};
    return all;
}

static struct sched_numa numa_of(struct arena *arena, struct str node, const struct json *from)
{
    struct str policy = json_str(json_get(from, "policy"));
    const struct json *zones = json_get(from, "zones");
    struct sched_zone *all = ARENA_ARRAY(arena, struct sched_zone, json_count(zones) + 1);
    struct sched_numa numa = {
        .node = node,
        .policy = str_is(policy, "single-numa-node") ? SCHED_NUMA_SINGLE
                  : str_is(policy, "restricted")     ? SCHED_NUMA_RESTRICTED
                  : str_is(policy, "best-effort")    ? SCHED_NUMA_BEST_EFFORT
                                                     : SCHED_NUMA_NONE,
        .by_container = !str_is(json_str(json_get(from, "scope")), "pod"),
        .zones = all,
    };

    JSON_FOREACH(zones, zone) {
        struct sched_zone *to = &all[numa.zone_count++];

        to->name = json_str(json_get(zone, "id"));
        to->allocatable = amounts_of(arena, json_get(zone, "allocatable"), &to->allocatable_count);
        to->available = amounts_of(arena, json_get(zone, "available"), &to->available_count);
    }
    return numa;
}

void numa_put_node(struct arena *arena, struct sched *sched, const struct json *node)
{
    const struct json *from = json_get(node, "numa_topology");

    if (json_is_null(from))
        return;
    struct sched_numa numa = numa_of(arena, json_str(json_get(node, "name")), from);
    sched_put_numa(sched, &numa);
}

void numa_fill_pod(struct arena *arena, const struct json *task, struct sched_pod *pod)
{
    struct str text =
        json_str(json_get(json_get(task, "annotations"), "kai.scheduler/numa-placement-observed"));
    struct sched_zone_part *parts;
    struct json *list = NULL;
    size_t most = 1;

    pod->guaranteed = str_is(json_str(json_get(task, "qos_class")), "Guaranteed");
    if (!text.len || json_parse(arena, text, &list, NULL) < 0)
        return;
    JSON_FOREACH(list, item)
        most += json_count(json_get(item, "amount"));
    parts = ARENA_ARRAY(arena, struct sched_zone_part, most);
    JSON_FOREACH(list, item)
        JSON_FOREACH(json_get(item, "amount"), value)
            parts[pod->zone_part_count++] =
                (struct sched_zone_part){json_str(json_get(item, "zone")), json_key(value),
                                         amount_of(json_key(value), value)};
    pod->zone_parts = parts;
}

/* The zones are numbered in the order of the node. */
static bool zone_wanted(const struct numa *numa, const struct json *wanted, struct str zone)
{
    JSON_FOREACH(wanted, index) {
        int64_t i = json_i64_or(index, -1);
        if (i >= 0 && i < numa->zone_count && str_eq(numa->zones[i], zone))
            return true;
    }
    return false;
}

bool numa_match_pod(const struct json *test,
                    struct sched *sched,
                    struct str ns,
                    struct str name,
                    const struct json *wanted)
{
    const struct pod *pod = pod_get(sched, ns, name);
    size_t count = 0;
    const struct sched_zone_part *parts = pod ? numa_parts(pod, &count) : NULL;
    size_t zones = 0;

    if (!json_is(wanted, JSON_ARRAY))
        return true;
    for (size_t i = 0; i < count; i++) {
        if (!pod->node || !pod->node->numa || !zone_wanted(pod->node->numa, wanted, parts[i].zone))
            return differs(test, "pod " STR_FMT " is in zone " STR_FMT, STR_ARG(name),
                           STR_ARG(parts[i].zone));
        zones += !i || !str_eq(parts[i].zone, parts[i - 1].zone);
    }
    return zones == json_count(wanted) ||
           differs(test, "pod " STR_FMT " is in %zu zones", STR_ARG(name), zones);
}

static uint32_t kind_named(const struct numa *numa, struct str name)
{
    uint32_t k = 0;

    while (k < numa->kind_count && !str_eq(numa->kinds[k], name))
        k++;
    return k;
}

bool numa_match_node(const struct json *test,
                     struct sched *sched,
                     struct str name,
                     const struct json *wanted)
{
    const struct node *node = node_get(sched, name, false);
    const struct numa *numa = node ? node->numa : NULL;

    JSON_FOREACH(wanted, zone) {
        int64_t z = -1;

        if (!numa || !str_to_i64(json_key(zone), &z) || z < 0 || z >= numa->zone_count)
            return differs(test, "node " STR_FMT " has no such zone", STR_ARG(name));
        JSON_FOREACH(zone, value) {
            uint32_t k = kind_named(numa, json_key(value));
            int64_t left = k < numa->kind_count ? numa->soon[z][k] : 0;

            if (left != amount_of(json_key(value), value))
                return differs(test, "zone %lld of node " STR_FMT " has %lld of " STR_FMT " left",
                               (long long)z, STR_ARG(name), (long long)left,
                               STR_ARG(json_key(value)));
        }
    }
    return true;
}

/* ---- the function ---- */
static bool placement_is(const struct json *test,
                         const struct numa *numa,
                         const struct numa_taken *taken)
{
    const struct json *wanted = json_at(test, "expected.placement");

    for (uint32_t z = 0; json_is(wanted, JSON_OBJECT) && z < numa->zone_count; z++) {
        char index[16];
        const struct json *zone;

        (void)snprintf(index, sizeof(index), "%u", z);
        zone = json_get(wanted, index);
        for (uint32_t k = 0; k < numa->kind_count; k++) {
            const struct json *value = NULL;

            JSON_FOREACH(zone, one)
                if (str_eq(json_key(one), numa->kinds[k]))
                    value = one;
            if (taken->amounts[z][k] != (value ? amount_of(numa->kinds[k], value) : 0))
                return differs(test, "zone %u gives %lld of " STR_FMT, z,
                               (long long)taken->amounts[z][k], STR_ARG(numa->kinds[k]));
        }
    }
    return true;
}

/* A pod as the API has it, or one container for each list of requests of a Guaranteed pod. */
static struct sched_pod pod_of(struct arena *arena, const struct json *test)
{
    const struct json *requests = json_get(test, "requests");
    struct sched_pod pod = {.guaranteed = true};

    if (!json_is_null(json_get(test, "pod"))) {
        struct json *tree = json_clone(arena, json_get(test, "pod"));
        struct object object = {.kind = &kind_pod, .name = STR("p"), .ns = STR("d")};
        struct sched_config config;
        sched_config_default(&config);
        struct decode decode = {.config = &config, .arena = arena, .object = &object, .tree = tree};

        decode_pod(&decode, &pod);
        return pod;
    }
    struct sched_container *all =
        ARENA_ARRAY(arena, struct sched_container, json_count(requests) + 1);
    JSON_FOREACH(requests, request) {
        struct sched_container *to = &all[pod.container_count++];
        to->amounts = amounts_of(arena, request, &to->amount_count);
    }
    pod.containers = all;
    return pod;
}

bool run_numa_unit(struct arena *arena, const struct json *test)
{
    struct sched_numa spec = numa_of(arena, STR("n"), json_get(test, "topology"));
    struct sched_pod pod = pod_of(arena, test);
    struct str ignored = STR_NONE;
    struct sched_config config;
    struct numa_taken taken;
    bool good = false;

    JSON_FOREACH(json_get(test, "ignore"), name)
        ignored = str_printf(arena, STR_FMT "," STR_FMT, STR_ARG(ignored), STR_ARG(json_str(name)));
    sched_config_default(&config);
    struct sched *sched = sched_new(&config);
    sched_put_numa(sched, &spec);
    const struct numa *numa = node_get(sched, STR("n"), false)->numa;
    bool admitted = !numa || numa_evaluate(numa, numa->reported, &pod, ignored, &taken);
    if (admitted != json_bool_or(json_at(test, "expected.admit"), false))
        (void)differs(test, "it is %s", admitted ? "admitted" : "refused");
    else
        good = !admitted || !numa || placement_is(test, numa, &taken);
    sched_free(sched);
    return good;
}
