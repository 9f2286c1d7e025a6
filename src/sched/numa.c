#include "sched/numa.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct zone_list {
    struct str node; /* heap */
    size_t count;
    struct sched_zone_part *parts; /* heap, and their texts */
};

#define SETS_MAX 100000 /* sets of zones that one search looks at */

/* ---- what a pod wants of zones ---- */

/* CPUs, memory and huge pages are aligned for Guaranteed pods alone; devices always are. */
static bool kind_is_device(struct str kind)
{
    return !str_is(kind, "cpu") && !str_is(kind, "memory") && !str_starts(kind, STR("hugepages-"));
}

static bool list_has(struct str list, struct str word)
{
    struct str part;

    while (str_cut(&list, ',', &part))
        if (str_eq(str_trim(part), word))
            return true;
    return false;
}

/* CPUs are given out whole, or not from a zone at all. */
static int64_t aligned(struct str kind, int64_t amount)
{
    return str_is(kind, "cpu") && amount % 1000 ? 0 : amount;
}

static int64_t amounts_of(const struct sched_amount *amounts, size_t count, struct str kind)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(amounts[i].name, kind))
            return amounts[i].amount;
    return 0;
}

/* A pod of one container: what it asks for is what the container does. */
static int64_t total_of(const struct sched_pod *pod, struct str kind)
{
    if (str_is(kind, "cpu"))
        return aligned(kind, pod->cpu_milli);
    if (str_is(kind, "memory"))
        return pod->memory_bytes;
    if (str_is(kind, "nvidia.com/gpu") || str_is(kind, "amd.com/gpu"))
        return pod->gpus;
    return amounts_of(pod->amounts, pod->amount_count, kind);
}

/* The containers together, or the greatest init container with the sidecars before it. */
static int64_t pod_wants_of(const struct sched_pod *pod, struct str kind)
{
    int64_t sidecars = 0;
    int64_t peak = 0;
    int64_t sum = 0;

    if (!pod->container_count)
        return total_of(pod, kind);
    for (size_t i = 0; i < pod->container_count; i++) {
        const struct sched_container *c = &pod->containers[i];
        int64_t amount = aligned(kind, amounts_of(c->amounts, c->amount_count, kind));

        if (c->role == SCHED_CONTAINER_SIDECAR)
            sidecars += amount;
        else if (c->role == SCHED_CONTAINER_INIT)
            peak = i64_max(peak, amount + sidecars);
        else
            sum += amount;
    }
    return i64_max(peak, sum + sidecars);
}

/* By kind: what zones have to give, 0 where they need not. False: nothing. */
struct wants {
    int64_t amounts[NUMA_KINDS_MAX];
};

static bool kind_matters(const struct numa *numa,
                         uint32_t kind,
                         const struct sched_pod *pod,
                         struct str ignore)
{
    return (pod->guaranteed || kind_is_device(numa->kinds[kind])) &&
           !list_has(ignore, numa->kinds[kind]);
}

/* Of one container, or with NULL of the pod. */
static bool wants_of(const struct numa *numa,
                     const struct sched_pod *pod,
                     const struct sched_container *c,
                     struct str ignore,
                     struct wants *ret)
{
    bool any = false;

    for (uint32_t k = 0; k < numa->kind_count; k++) {
        struct str kind = numa->kinds[k];
        int64_t amount = 0;

        if (kind_matters(numa, k, pod, ignore))
            amount = c ? aligned(kind, amounts_of(c->amounts, c->amount_count, kind))
                       : pod_wants_of(pod, kind);
        ret->amounts[k] = amount;
        any = any || amount > 0;
    }
    return any;
}

/* ---- policies ---- */
struct search {
    const struct numa *numa;
    const struct wants *wants;
    numa_row *left; /* by zone: what is still available */
    struct numa_taken *taken;
};

/* As much as the zone has of what is still wanted. */
static void zone_take(struct search *search, uint32_t zone, struct wants *rest)
{
    for (uint32_t k = 0; k < search->numa->kind_count; k++) {
        int64_t amount = i64_min(rest->amounts[k], i64_max(0, search->left[zone][k]));

        rest->amounts[k] -= amount;
        search->left[zone][k] -= amount;
        search->taken->amounts[zone][k] += amount;
    }
}

static bool zones_single(struct search *search)
{
    for (uint32_t z = 0; z < search->numa->zone_count; z++) {
        bool fits = true;

        for (uint32_t k = 0; k < search->numa->kind_count && fits; k++)
            fits = !search->wants->amounts[k] || search->left[z][k] >= search->wants->amounts[k];
        if (fits) {
            struct wants rest = *search->wants;
            zone_take(search, z, &rest);
            return true;
        }
    }
    return false;
}

/* The fewest zones that could hold so much of a kind if they were empty; 0: all are too few. */
static uint32_t kind_width(const struct numa *numa, uint32_t kind, int64_t amount)
{
    bool used[NUMA_ZONES_MAX] = {0};

    for (uint32_t width = 1; width <= numa->zone_count; width++) {
        uint32_t most = NUMA_ZONES_MAX;

        for (uint32_t z = 0; z < numa->zone_count; z++)
            if (!used[z] && (most == NUMA_ZONES_MAX ||
                             numa->allocatable[z][kind] > numa->allocatable[most][kind]))
                most = z;
        used[most] = true;
        amount -= numa->allocatable[most][kind];
        if (amount <= 0)
            return width;
    }
    return 0;
}

static bool set_covers(const struct search *search, const uint32_t *set, uint32_t width)
{
    for (uint32_t k = 0; k < search->numa->kind_count; k++) {
        int64_t missing = search->wants->amounts[k];

        for (uint32_t i = 0; i < width; i++)
            missing -= i64_max(0, search->left[set[i]][k]);
        if (missing > 0)
            return false;
    }
    return true;
}

/* The next set of so many zones in order; false: that was the last. */
static bool set_next(uint32_t *set, uint32_t width, uint32_t zones)
{
    for (uint32_t i = width; i-- > 0;)
        if (set[i] < zones - width + i) {
            set[i]++;
            for (uint32_t j = i + 1; j < width; j++)
                set[j] = set[j - 1] + 1;
            return true;
        }
    return false;
}

/* Every kind needs as many zones as the others, and those are the first that have all of it. */
static bool zones_restricted(struct search *search)
{
    uint32_t set[NUMA_ZONES_MAX];
    uint32_t width = 0;

    for (uint32_t k = 0; k < search->numa->kind_count; k++) {
        if (!search->wants->amounts[k])
            continue;
        uint32_t own = kind_width(search->numa, k, search->wants->amounts[k]);
        if (!own || (width && own != width))
            return false;
        width = own;
    }
    for (uint32_t i = 0; i < width; i++)
        set[i] = i;
    for (int tries = 0; tries < SETS_MAX; tries++) {
        if (set_covers(search, set, width)) {
            struct wants rest = *search->wants;
            for (uint32_t i = 0; i < width; i++)
                zone_take(search, set[i], &rest);
            return true;
        }
        if (!set_next(set, width, search->numa->zone_count))
            break;
    }
    return false;
}

/* How much of what is wanted the zone has, as a sum of parts. */
static double zone_cover(const struct search *search, uint32_t zone, const struct wants *rest)
{
    double cover = 0;

    for (uint32_t k = 0; k < search->numa->kind_count; k++) {
        int64_t covered = i64_min(rest->amounts[k], i64_max(0, search->left[zone][k]));

        if (rest->amounts[k] > 0)
            cover += (double)covered / (double)search->wants->amounts[k];
    }
    return cover;
}

/* Never refuses: the zone that has most of it, and so on. */
static void zones_best_effort(struct search *search)
{
    struct wants rest = *search->wants;

    for (uint32_t n = 0; n < search->numa->zone_count; n++) {
        double best = 0;
        uint32_t zone = 0;

        for (uint32_t z = 0; z < search->numa->zone_count; z++) {
            double cover = zone_cover(search, z, &rest);
            if (cover > best) {
                best = cover;
                zone = z;
            }
        }
        if (best <= 0)
            return;
        zone_take(search, zone, &rest);
    }
}

static bool zones_find(struct search *search)
{
    switch (search->numa->policy) {
    case SCHED_NUMA_SINGLE: return zones_single(search);
    case SCHED_NUMA_RESTRICTED: return zones_restricted(search);
    case SCHED_NUMA_BEST_EFFORT: zones_best_effort(search); return true;
    case SCHED_NUMA_NONE: break;
    }
    return true;
}

/* One after the other: containers and sidecars share the zones, an init container has them alone. */
static bool containers_find(struct search *search,
                            const numa_row *available,
                            const struct sched_pod *pod,
                            struct str ignore)
{
    struct numa_taken unused = {0};

    for (size_t i = 0; i < pod->container_count; i++) {
        numa_row alone[NUMA_ZONES_MAX];
        struct wants wants;
        struct search one = {search->numa, &wants, search->left, search->taken};

        if (!wants_of(search->numa, pod, &pod->containers[i], ignore, &wants))
            continue;
        if (pod->containers[i].role == SCHED_CONTAINER_INIT) {
            memcpy(alone, available, search->numa->zone_count * sizeof(*alone));
            one.left = alone;
            one.taken = &unused;
        }
        if (!zones_find(&one))
            return false;
    }
    return true;
}

bool numa_evaluate(const struct numa *numa,
                   const numa_row *available,
                   const struct sched_pod *pod,
                   struct str ignore,
                   struct numa_taken *ret)
{
    numa_row left[NUMA_ZONES_MAX];
    struct wants wants;
    struct search search = {numa, &wants, left, ret};
    bool found = true;

    ret->span = 0;
    memset(ret->amounts, 0, numa->zone_count * sizeof(*ret->amounts));
    if (numa->policy == SCHED_NUMA_NONE)
        return true;
    memcpy(left, available, numa->zone_count * sizeof(*left));
    if (numa->by_container && pod->container_count)
        found = containers_find(&search, available, pod, ignore);
    else if (wants_of(numa, pod, NULL, ignore, &wants))
        found = zones_find(&search);
    for (uint32_t z = 0; z < numa->zone_count; z++)
        for (uint32_t k = 0; k < numa->kind_count; k++)
            if (ret->amounts[z][k]) {
                ret->span++;
                break;
            }
    return found;
}

/* ---- a node's zones ---- */

void numa_idle(const struct numa *numa, numa_row *ret)
{
    for (uint32_t z = 0; z < numa->zone_count; z++)
        for (uint32_t k = 0; k < numa->kind_count; k++)
            ret[z][k] = i64_min(numa->free[z][k], numa->soon[z][k]);
}

bool numa_counts(const struct sched *sched, const struct node *node)
{
    return sched->numa_nodes && node->pool->policy.numa;
}

/* ---- lists of parts ---- */
static void zone_list_free(struct zone_list *list)
{
    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++) {
        heap_str_free(list->parts[i].zone);
        heap_str_free(list->parts[i].name);
    }
    heap_str_free(list->node);
    mem_free(list->parts);
    mem_free(list);
}

static struct zone_list *zone_list_new(struct str node,
                                       const struct sched_zone_part *parts,
                                       size_t count)
{
    struct zone_list *list = MEM_NEW(struct zone_list);

    list->node = heap_str(node);
    list->count = count;
    list->parts = mem_alloc((count + 1) * sizeof(*list->parts));
    for (size_t i = 0; i < count; i++)
        list->parts[i] = (struct sched_zone_part){heap_str(parts[i].zone), heap_str(parts[i].name),
                                                  parts[i].amount};
    return list;
}

/* The zones the pod gets on that node as things are. */
static struct zone_list *zone_list_chosen(const struct pod *pod, const struct node *node)
{
    struct sched_zone_part parts[NUMA_ZONES_MAX * NUMA_KINDS_MAX];
    const struct numa *numa = node->numa;
    numa_row available[NUMA_ZONES_MAX];
    struct numa_taken taken;
    size_t count = 0;

    if (pod->status == ST_PIPELINED)
        memcpy(available, numa->soon, numa->zone_count * sizeof(*available));
    else
        numa_idle(numa, available);
    (void)numa_evaluate(numa, available, &pod->shape->spec,
                        str_from(node->pool->policy.numa_ignore), &taken);
    for (uint32_t z = 0; z < numa->zone_count; z++)
        for (uint32_t k = 0; k < numa->kind_count; k++)
            if (taken.amounts[z][k])
                parts[count++] =
                    (struct sched_zone_part){numa->zones[z], numa->kinds[k], taken.amounts[z][k]};
    return count ? zone_list_new(node->name, parts, count) : NULL;
}

static uint32_t text_find(const struct str *texts, uint32_t count, struct str text)
{
    uint32_t i = 0;

    while (i < count && !str_eq(texts[i], text))
        i++;
    return i;
}

/* A zone or a resource that the node does not have counts nothing. */
static void list_weigh(struct numa *numa,
                       const struct zone_list *list,
                       enum status status,
                       int64_t sign)
{
    bool now = status != ST_PIPELINED;
    bool soon = status != ST_RELEASING;

    for (size_t i = 0; i < list->count; i++) {
        uint32_t z = text_find(numa->zones, numa->zone_count, list->parts[i].zone);
        uint32_t k = text_find(numa->kinds, numa->kind_count, list->parts[i].name);

        if (z == numa->zone_count || k == numa->kind_count)
            continue;
        numa->free[z][k] -= now ? sign * list->parts[i].amount : 0;
        numa->soon[z][k] -= soon ? sign * list->parts[i].amount : 0;
    }
}

static bool list_is_of(const struct zone_list *list, const struct node *node)
{
    return list && str_eq(list->node, node->name);
}

bool numa_stays(const struct pod *pod, const struct node *node)
{
    const struct zone_list *list = pod->zones ? pod->zones->seen : NULL;
    const struct numa *numa = node->numa;

    for (size_t i = 0; list_is_of(list, node) && i < list->count; i++) {
        uint32_t z = text_find(numa->zones, numa->zone_count, list->parts[i].zone);
        uint32_t k = text_find(numa->kinds, numa->kind_count, list->parts[i].name);

        if (z < numa->zone_count && k < numa->kind_count &&
            numa->soon[z][k] < list->parts[i].amount)
            return false;
    }
    return true;
}

void numa_attach(struct sched *sched, struct pod *pod, struct node *node)
{
    bool chosen = ST_IN(pod->status, ST_BIT(ST_BINDING) | ST_BIT(ST_PIPELINED)) && node->numa &&
                  numa_counts(sched, node) && !pod->home;
    struct zone_list *now = NULL;

    if (pod->zones && list_is_of(pod->zones->seen, node))
        now = pod->zones->seen;
    else if (chosen)
        now = zone_list_chosen(pod, node);
    if (!now)
        return;
    if (!pod->zones)
        pod->zones = MEM_NEW(struct pod_zones);
    pod->zones->now = now;
    if (node->numa)
        list_weigh(node->numa, now, pod->status, 1);
}

void numa_detach(struct pod *pod, struct node *node)
{
    struct zone_list *now = pod->zones ? pod->zones->now : NULL;

    if (!now)
        return;
    if (node->numa)
        list_weigh(node->numa, now, pod->status, -1);
    pod->zones->now = NULL;
    if (now != pod->zones->seen)
        zone_list_free(now);
}

void numa_weigh_left(struct pod *pod, struct node *node, int64_t sign)
{
    if (node->numa && pod->zones && list_is_of(pod->zones->seen, node))
        list_weigh(node->numa, pod->zones->seen, ST_RELEASING, sign);
}

/* ---- events ---- */
bool numa_says(const struct pod *pod, const struct sched_pod *spec)
{
    const struct zone_list *list = pod->zones ? pod->zones->seen : NULL;

    if (!spec->zone_part_count)
        return true; /* what the plan chose holds until somebody says better */
    if (!list || list->count != spec->zone_part_count || !str_eq(list->node, spec->node))
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (!str_eq(list->parts[i].zone, spec->zone_parts[i].zone) ||
            !str_eq(list->parts[i].name, spec->zone_parts[i].name) ||
            list->parts[i].amount != spec->zone_parts[i].amount)
            return false;
    return true;
}

void numa_seen(struct pod *pod, const struct sched_pod *spec, bool stays)
{
    if (!spec->zone_part_count && stays)
        return;
    numa_forget(pod);
    if (!spec->zone_part_count || !spec->node.len)
        return;
    pod->zones = MEM_NEW(struct pod_zones);
    pod->zones->seen = zone_list_new(spec->node, spec->zone_parts, spec->zone_part_count);
}

void numa_forget(struct pod *pod)
{
    if (!pod->zones)
        return;
    if (pod->zones->now != pod->zones->seen)
        zone_list_free(pod->zones->now);
    zone_list_free(pod->zones->seen);
    mem_free(pod->zones);
    pod->zones = NULL;
}

const struct sched_zone_part *numa_bound(struct pod *pod, size_t *ret_count)
{
    if (pod->zones && pod->zones->now && pod->zones->now != pod->zones->seen) {
        zone_list_free(pod->zones->seen);
        pod->zones->seen = pod->zones->now;
    }
    return numa_parts(pod, ret_count);
}

const struct sched_zone_part *numa_parts(const struct pod *pod, size_t *ret_count)
{
    const struct zone_list *now = pod->zones ? pod->zones->now : NULL;

    *ret_count = now ? now->count : 0;
    return now ? now->parts : NULL;
}

void numa_free(struct numa *numa)
{
    if (!numa)
        return;
    for (uint32_t z = 0; z < numa->zone_count; z++)
        heap_str_free(numa->zones[z]);
    for (uint32_t k = 0; k < numa->kind_count; k++)
        heap_str_free(numa->kinds[k]);
    mem_free(numa->zones);
    mem_free(numa->allocatable);
    mem_free(numa);
}

static void zone_put(struct numa *numa,
                     const struct sched_amount *amounts,
                     size_t count,
                     numa_row row)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t k = text_find(numa->kinds, numa->kind_count, amounts[i].name);

        if (k == NUMA_KINDS_MAX)
            continue; /* more than any node has */
        if (k == numa->kind_count)
            numa->kinds[numa->kind_count++] = heap_str(amounts[i].name);
        row[k] = amounts[i].amount;
    }
}

static struct numa *numa_new(const struct sched_numa *spec)
{
    struct numa *numa = MEM_NEW(struct numa);

    numa->policy = spec->policy;
    numa->by_container = spec->by_container;
    numa->zone_count = (uint32_t)i64_min((int64_t)spec->zone_count, NUMA_ZONES_MAX);
    numa->zones = mem_alloc(numa->zone_count * sizeof(*numa->zones));
    numa->allocatable = mem_alloc(4 * numa->zone_count * sizeof(numa_row));
    numa->reported = numa->allocatable + numa->zone_count;
    numa->free = numa->reported + numa->zone_count;
    numa->soon = numa->free + numa->zone_count;
    for (uint32_t i = 0; i < numa->zone_count; i++) {
        const struct sched_zone *zone = &spec->zones[i];

        numa->zones[i] = heap_str(zone->name);
        zone_put(numa, zone->allocatable, zone->allocatable_count, numa->allocatable[i]);
        zone_put(numa, zone->available, zone->available_count, numa->reported[i]);
    }
    return numa;
}

/* What pods hold of the zones, as they are described now: added, or taken off again. */
static void zones_weigh(struct sched *sched, struct node *node, int64_t sign)
{
    MAP_FOREACH(&sched->pods_by_key, entry) {
        struct pod *pod = entry->value;

        if (!pod->zones)
            continue;
        if (pod->node == node && pod->zones->now)
            list_weigh(node->numa, pod->zones->now, pod->status, sign);
        if (pod->left == node)
            numa_weigh_left(pod, node, sign);
    }
}

/* Zones are free where no pod is known to be, or as far as the node says: then the pods that it
 * counted already are added first, since they are counted here as well. */
static void zones_begin(struct node *node)
{
    struct numa *numa = node->numa;
    bool reported = node->pool->policy.numa_reported;

    numa->as_reported = reported;
    for (uint32_t z = 0; z < numa->zone_count; z++)
        for (uint32_t k = 0; k < numa->kind_count; k++)
            numa->free[z][k] = numa->soon[z][k] =
                reported ? numa->reported[z][k] : numa->allocatable[z][k];
    for (size_t i = 0; reported && i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];

        if (pod->observed == ST_RUNNING && pod->observed_node == node && pod->zones &&
            pod->zones->now) {
            list_weigh(numa, pod->zones->now, ST_RUNNING, -1);
        }
    }
}

static uint32_t zones_most(const struct sched *sched)
{
    uint32_t most = 0;

    for (size_t i = 0; i < sched->nodes.count; i++) {
        const struct node *node = sched->nodes.items[i];
        if (node && node->numa && node->numa->zone_count > most)
            most = node->numa->zone_count;
    }
    return most;
}

void numa_policy_changed(struct sched *sched, struct node *node)
{
    if (!node->numa || node->numa->as_reported == node->pool->policy.numa_reported)
        return;
    zones_begin(node);
    zones_weigh(sched, node, 1);
}

void numa_describe(struct sched *sched, struct node *node, const struct sched_numa *spec)
{
    sched->numa_nodes -= node->numa ? 1 : 0;
    numa_free(node->numa);
    node->numa = spec && spec->zone_count ? numa_new(spec) : NULL;
    if (node->numa) {
        sched->numa_nodes++;
        zones_begin(node);
        zones_weigh(sched, node, 1);
    }
    sched->numa_zones = zones_most(sched);
}
