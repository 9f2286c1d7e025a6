#include "sim/check_shares.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/share.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/cluster/sharing.h"
#include "sim/check_report.h"
#include "sim/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAP_SEED    19
#define MICRO       1000000
#define DEVICES_MAX 64

/* A process that runs on GPUs. */
struct holder {
    uint64_t whole;
    uint64_t shared;
    int64_t micro; /* of each shared one */
    bool reserves; /* for others: its device may be shared */
    bool away;     /* its memory is off its share */
    struct str node;
    struct str uid;
    char text[]; /* node and uid */
};

struct check_shares {
    struct api *api;
    struct check_report *report;
    struct api_watch *pods;
    struct api_watch *configs;
    struct cache *cache;
    struct map holders; /* by uid */
    bool dirty;
};

/* One group on one node, counted anew whenever something changed. */
struct tally {
    int64_t micro;
    size_t users;
    size_t reservations;
};

static void on_change(void *user, const struct api_change *change)
{
    struct check_shares *shares = user;

    if (!change->object)
        return;
    shares->dirty = true;
    if (change->event == API_DELETED)
        cache_drop(shares->cache, change->object);
    else
        cache_put(shares->cache, change->object);
}

/* ---- what is bound ---- */

/* It has said so, and was not told to go on. */
static bool is_suspended(const struct object *pod, const struct json *root)
{
    const struct json *condition = condition_find(json_get(root, "status"), SUSPEND_CONDITION);

    return object_annotation(pod, SUSPEND_ANNOTATION).len &&
           str_is(json_str(json_get(condition, "status")), "True");
}

static void count_pod(struct map *tallies, struct arena *arena, const struct object *pod)
{
    const struct json *root = object_json(pod, arena);
    struct str node = json_str_at(root, "spec.nodeName");
    bool reserves = str_is(pod->ns, SHARING_NAMESPACE);
    int64_t micro = share_micro(object_annotation(pod, GPU_ANNOTATION_PORTION));
    size_t count = 0;
    const struct str *groups = sharing_groups(arena, pod, &count);

    if (!node.len || pod_is_over(root))
        return;
    for (size_t i = 0; i < count; i++) {
        struct str key = str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(node), STR_ARG(groups[i]));
        struct tally *tally = map_get(tallies, key);

        if (!tally) {
            tally = ARENA_NEW(arena, struct tally);
            map_set(tallies, key, tally);
        }
        tally->reservations += reserves;
        tally->users += !reserves;
        tally->micro += reserves || is_suspended(pod, root) ? 0 : micro;
    }
}

static void count_all(struct check_shares *shares, struct map *tallies, struct arena *arena)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next(shares->cache, &kind_pod, STR(""), &cursor)))
        count_pod(tallies, arena, pod);
}

void check_shares_now(struct check_shares *shares)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct map tallies = {.seed = MAP_SEED};

    if (!shares->dirty)
        return;
    shares->dirty = false;
    count_all(shares, &tallies, &arena);
    MAP_FOREACH(&tallies, entry) {
        const struct tally *tally = entry->value;

        if (tally->micro > MICRO)
            check_fail(shares->report,
                       "the device of " STR_FMT " is shared beyond itself: %lld "
                       "millionths",
                       STR_ARG(entry->key), (long long)tally->micro);
    }
    map_done(&tallies);
}

void check_shares_at_rest(struct check_shares *shares)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct map tallies = {.seed = MAP_SEED};

    count_all(shares, &tallies, &arena);
    MAP_FOREACH(&tallies, entry) {
        const struct tally *tally = entry->value;

        if (!tally->users)
            check_fail(shares->report, "a reservation pod holds " STR_FMT " for nobody",
                       STR_ARG(entry->key));
        if (tally->reservations != 1)
            check_fail(shares->report, STR_FMT " has users and %zu reservation pods",
                       STR_ARG(entry->key), tally->reservations);
    }
    map_done(&tallies);
}

void check_shares_clean(struct check_shares *shares)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next(shares->cache, &kind_pod, STR(SHARING_NAMESPACE), &cursor)))
        check_fail(shares->report, "reservation pod " STR_FMT " is still there",
                   STR_ARG(pod->name));
}

/* ---- what runs ---- */

/* "GPU-<node>-<number>"; DEVICES_MAX: not one of this node's. */
static uint64_t device_number(struct str uuid, struct str node)
{
    uint64_t number = DEVICES_MAX;

    if (!str_starts(uuid, STR("GPU-")) || !str_starts(str_sub(uuid, 4, uuid.len), node) ||
        !str_to_u64(str_sub(uuid, 5 + node.len, uuid.len), &number))
        return DEVICES_MAX;
    return number;
}

/* What the container reads: the devices of its share, a bit each. */
static uint64_t devices_told(struct check_shares *shares,
                             const struct object *pod,
                             const struct sim_process *process)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str prefix = object_annotation(pod, GPU_ANNOTATION_CONFIG);
    const struct object *config = NULL;
    struct share_target target;
    uint64_t bits = 0;
    struct str uuid;

    if (share_find_target(object_json(pod, &arena), &target))
        config = cache_get(shares->cache, &kind_configmap, pod->ns,
                           share_config_name(&arena, prefix, target));
    if (!config) {
        check_fail(shares->report, "pod " STR_FMT " runs without the ConfigMap of its share",
                   STR_ARG(pod->name));
        return 0;
    }
    struct str rest =
        json_str(json_get(json_get(object_json(config, &arena), "data"), SHARE_VISIBLE));
    while (rest.len && str_cut(&rest, ',', &uuid)) {
        uint64_t number = device_number(uuid, process->node);

        if (number >= DEVICES_MAX)
            check_fail(shares->report, "pod " STR_FMT " on " STR_FMT " was told device " STR_FMT,
                       STR_ARG(pod->name), STR_ARG(process->node), STR_ARG(uuid));
        else
            bits |= UINT64_C(1) << number;
    }
    return bits;
}

static void check_device(struct check_shares *shares, struct str node, size_t device)
{
    uint64_t bit = UINT64_C(1) << device;
    size_t whole = 0;
    int64_t micro = 0;

    MAP_FOREACH(&shares->holders, entry) {
        const struct holder *holder = entry->value;

        if (!str_eq(holder->node, node) || holder->away)
            continue;
        whole += (holder->whole & bit) && !holder->reserves;
        micro += holder->shared & bit ? holder->micro : 0;
    }
    if (whole > 1 || (whole && micro) || micro > MICRO)
        check_fail(shares->report,
                   "GPU %zu of node " STR_FMT " runs %zu pods that have it whole, and shares of "
                   "%lld millionths",
                   device, STR_ARG(node), whole, (long long)micro);
}

void check_shares_started(struct check_shares *shares, const struct sim_process *process)
{
    const struct object *pod = cache_get(shares->cache, &kind_pod, process->ns, process->name);
    struct holder *holder = mem_alloc(sizeof(*holder) + process->node.len + process->uid.len);

    memcpy(holder->text, process->node.p, process->node.len);
    memcpy(holder->text + process->node.len, process->uid.p, process->uid.len);
    holder->node = (struct str){holder->text, process->node.len};
    holder->uid = (struct str){holder->text + process->node.len, process->uid.len};
    holder->whole = process->devices;
    holder->reserves = str_is(process->ns, SHARING_NAMESPACE);
    if (pod && str_eq(pod->uid, process->uid) &&
        object_annotation(pod, GPU_ANNOTATION_CONFIG).len) {
        holder->shared = devices_told(shares, pod, process);
        holder->micro = share_micro(object_annotation(pod, GPU_ANNOTATION_PORTION));
    }
    map_set(&shares->holders, holder->uid, holder);
    for (size_t i = 0; i < DEVICES_MAX; i++)
        if ((holder->whole | holder->shared) >> i & 1)
            check_device(shares, holder->node, i);
}

void check_shares_moved(struct check_shares *shares, struct str uid, bool out)
{
    struct holder *holder = map_get(&shares->holders, uid);

    if (!holder)
        return;
    holder->away = out;
    for (size_t i = 0; !out && i < DEVICES_MAX; i++)
        if (holder->shared >> i & 1)
            check_device(shares, holder->node, i);
}

void check_shares_ended(struct check_shares *shares, struct str uid)
{
    struct holder *holder = map_get(&shares->holders, uid);

    if (!holder)
        return;
    map_remove(&shares->holders, uid);
    mem_free(holder);
}

struct check_shares *check_shares_new(struct api *api, struct check_report *report)
{
    struct check_shares *shares = MEM_NEW(struct check_shares);

    shares->api = api;
    shares->report = report;
    shares->cache = cache_new(MAP_SEED);
    shares->holders.seed = MAP_SEED;
    shares->pods =
        api_watch(api, &(struct api_watch_request){.kind = &kind_pod}, on_change, shares);
    shares->configs =
        api_watch(api, &(struct api_watch_request){.kind = &kind_configmap}, on_change, shares);
    return shares;
}

void check_shares_free(struct check_shares *shares)
{
    if (!shares)
        return;
    api_watch_stop(shares->api, shares->pods);
    api_watch_stop(shares->api, shares->configs);
    MAP_FOREACH(&shares->holders, entry)
        mem_free(entry->value);
    map_done(&shares->holders);
    cache_free(shares->cache);
    mem_free(shares);
}
