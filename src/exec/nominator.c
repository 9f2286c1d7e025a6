#include "exec/nominator.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/pod_write.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct nominator {
    struct nominator_options options;
    struct map nominated; /* pods that may have a nominated node: struct nomination */
    bool looked;          /* for those that an earlier process nominated */
};

struct nomination {
    uint64_t told; /* which node the pod was told last, as node_hash() */
    size_t ns_len;
    size_t len;
    char key[]; /* "namespace/pod" */
};

/* The hash of a node's name; 0: none. */
static uint64_t node_hash(struct str node)
{
    return node.len ? str_hash(node, 1) | 1 : 0;
}

static void remember(struct nominator *nominator, struct str ns, struct str name, struct str node)
{
    size_t len = ns.len + 1 + name.len;
    struct nomination *nomination = mem_alloc(sizeof(*nomination) + len);

    *nomination = (struct nomination){.told = node_hash(node), .ns_len = ns.len, .len = len};
    memcpy(nomination->key, ns.p, ns.len);
    nomination->key[ns.len] = '/';
    memcpy(nomination->key + ns.len + 1, name.p, name.len);
    struct str key = {nomination->key, len};
    if (nominator->nominated.count >= NOMINATED_MAX || map_get(&nominator->nominated, key))
        mem_free(nomination);
    else
        map_set(&nominator->nominated, key, nomination);
}

/* What an earlier process nominated. */
static void remember_earlier(struct nominator *nominator)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next(nominator->options.cache, &kind_pod, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str node = STR_NONE;

        /* Few pods have one: parsing them all would cost more than looking for the word. */
        if (str_contains(pod->raw, STR("\"nominatedNodeName\"")))
            node = json_str_at(object_json(pod, &arena), "status.nominatedNodeName");
        if (node.len)
            remember(nominator, pod->ns, pod->name, node);
    }
}

/* Says on the pod where it will go; an empty node: nowhere yet. */
static void nominate(struct nominator *nominator, struct nomination *nomination, struct str node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str ns = {nomination->key, nomination->ns_len};
    struct str name = {nomination->key + ns.len + 1, nomination->len - ns.len - 1};
    const struct object *pod = cache_get(nominator->options.cache, &kind_pod, ns, name);
    struct json *status = json_new_object(&arena);

    if (nomination->told == node_hash(node) || !pod || pod->deleted_ms)
        return;
    nomination->told = node_hash(node);
    json_set(status, STR("nominatedNodeName"),
             node.len ? json_new_str(&arena, node) : json_new_null(&arena));
    pod_patch_status(nominator->options.api, pod, &arena, status);
}

void nominator_apply(struct nominator *nominator, const struct sched_plan *plan)
{
    const struct nominator_options *options = &nominator->options;

    if (!nominator->looked)
        remember_earlier(nominator);
    nominator->looked = true;
    for (size_t i = 0; i < plan->nominate_count; i++)
        remember(nominator, plan->nominates[i].pod.ns, plan->nominates[i].pod.name, STR(""));
    MAP_FOREACH(&nominator->nominated, entry) {
        struct nomination *nomination = entry->value;
        struct str ns = {nomination->key, nomination->ns_len};
        struct str name = {nomination->key + ns.len + 1, nomination->len - ns.len - 1};
        struct str node = STR("");
        bool promised = options->is_promised(options->user, ns, name, &node);

        nominate(nominator, nomination, node);
        if (promised)
            continue;
        map_remove(&nominator->nominated, entry->key);
        mem_free(nomination);
    }
}

struct nominator *nominator_new(const struct nominator_options *options)
{
    struct nominator *nominator = MEM_NEW(struct nominator);

    nominator->options = *options;
    return nominator;
}

void nominator_free(struct nominator *nominator)
{
    if (!nominator)
        return;
    MAP_FOREACH(&nominator->nominated, entry)
        mem_free(entry->value);
    map_done(&nominator->nominated);
    mem_free(nominator);
}
