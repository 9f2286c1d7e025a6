#include "sched/topology.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Topology: which parts of the cluster a group of pods may be kept together in.
 *
 * A tree per topology and pool, made from node labels and kept until a node or topology changes; a
 * node is in it when it carries every level's label. For one group the tree is weighed (what is
 * free in each domain, how many of the pods fit), its children sorted tightest first, and the
 * domains of the levels in question are tried from the deepest level up, left to right. */

#define LEVELS_MAX 16

struct domain {
    struct str id; /* label values joined by '.', as KAI calls it; two may have the same */
    int level;     /* -1: the root */
    uint32_t parent;
    VEC(uint32_t) children;
    VEC(struct node *) nodes; /* lowest level only, by rank */
};

struct tree {
    struct tree *next;
    const struct topology *topology;
    const struct pool *pool;
    struct arena arena;
    VEC(struct domain) domains; /* parents before children; 0 is the root */
};

struct topology_cache {
    uint64_t version;
    struct tree *trees;
};

void topology_cache_free(struct topology_cache *cache)
{
    while (cache && cache->trees) {
        struct tree *tree = cache->trees;
        cache->trees = tree->next;
        arena_done(&tree->arena);
        mem_free(tree);
    }
    mem_free(cache);
}

/* `joined`: known by its id alone, whatever it is in. */
static uint32_t domain_get(struct tree *tree,
                           struct map *ids,
                           bool joined,
                           uint32_t parent,
                           struct str value)
{
    const struct domain *above = &tree->domains.items[parent];
    struct str id = above->id.len ? str_printf(&tree->arena, STR_FMT "." STR_FMT,
                                               STR_ARG(above->id), STR_ARG(value))
                                  : str_dup(&tree->arena, value);
    int level = above->level + 1;
    struct str key =
        joined ? str_printf(&tree->arena, "%d/" STR_FMT, level, STR_ARG(id))
               : str_printf(&tree->arena, "%u/" STR_FMT, (unsigned)parent, STR_ARG(value));
    const void *known = map_get(ids, key);
    uint32_t index = (uint32_t)(uintptr_t)known;

    if (index)
        return index;
    index = (uint32_t)tree->domains.count;
    VEC_PUSH(&tree->arena, &tree->domains,
             (struct domain){.id = id, .level = level, .parent = parent});
    VEC_PUSH(&tree->arena, &tree->domains.items[parent].children, index);
    map_set(ids, key, (void *)(uintptr_t)index);
    return index;
}

static void tree_fill(struct tree *tree, bool joined)
{
    const struct sched_topology *spec = &tree->topology->spec;
    struct map ids = {0};

    VEC_PUSH(&tree->arena, &tree->domains, (struct domain){.level = -1});
    for (size_t i = 0; i < tree->pool->nodes.count; i++) {
        struct node *node = tree->pool->nodes.items[i];
        uint32_t domain = 0;
        size_t level = 0;

        for (; level < spec->level_count; level++)
            if (!str_is_set(node_label(node, spec->levels[level])))
                break;
        if (level < spec->level_count)
            continue;
        for (level = 0; level < spec->level_count; level++)
            domain = domain_get(tree, &ids, joined, domain, node_label(node, spec->levels[level]));
        VEC_PUSH(&tree->arena, &tree->domains.items[domain].nodes, node);
    }
    map_done(&ids);
}

static struct tree *tree_get(struct sched *sched,
                             const struct topology *topology,
                             const struct pool *pool)
{
    if (sched->topology_cache && sched->topology_cache->version != sched->nodes_version) {
        topology_cache_free(sched->topology_cache);
        sched->topology_cache = NULL;
    }
    if (!sched->topology_cache) {
        sched->topology_cache = MEM_NEW(struct topology_cache);
        sched->topology_cache->version = sched->nodes_version;
    }
    for (struct tree *tree = sched->topology_cache->trees; tree; tree = tree->next)
        if (tree->topology == topology && tree->pool == pool)
            return tree;
    struct tree *tree = MEM_NEW(struct tree);
    tree->topology = topology;
    tree->pool = pool;
    tree->next = sched->topology_cache->trees;
    sched->topology_cache->trees = tree;
    tree_fill(tree, QUIRK(sched, JOINED_DOMAINS));
    return tree;
}

/* ---- weighing ---- */
struct weight {
    int64_t *free; /* by resource */
    int64_t pods;  /* how many of the group's pods the domain holds */
    double ratio;  /* request / free of the scarcest resource; above 1: does not fit */
    bool held;     /* pods of the group run here already */
    bool any;      /* has a node of the set */
    uint32_t *children;
    size_t child_count;
};

struct weighing {
    struct sched *sched;
    struct tree *tree;
    const struct pod_vec *tasks;
    struct weight *weights; /* by domain */
    int64_t *request;       /* sum, by resource */
    int64_t *largest;       /* of one pod */
    bool alike;             /* they are counted, not only added up; see weigh_alike() */
    size_t resources;
};

/* Pods that are all alike need places, of which `largest` says how many there are; what uneven ones
 * need is only known in sum. KAI counts places for all that ask for the same kinds of resources. */
static bool weigh_alike(const struct weighing *w)
{
    bool kai = QUIRK(w->sched, LARGEST_POD);
    size_t kinds = 0;

    for (size_t r = 0; r < w->resources; r++)
        kinds += w->largest[r] > 0;
    for (size_t i = 0; i < w->tasks->count; i++) {
        const struct pod *pod = w->tasks->items[i];

        if (kai ? pod->want_count + (pod->shape->shared ? 1 : 0) != kinds
                : pod->shape != w->tasks->items[0]->shape || pod->claim_count || pod->shape->shared)
            return false;
    }
    return true;
}

static void weigh_request(struct weighing *w)
{
    struct arena *arena = w->sched->arena;

    w->resources = w->sched->resources.count;
    w->request = ARENA_ARRAY(arena, int64_t, w->resources);
    w->largest = ARENA_ARRAY(arena, int64_t, w->resources);
    for (size_t i = 0; i < w->tasks->count; i++) {
        const struct pod *pod = w->tasks->items[i];

        for (size_t j = 0; j < pod->want_count; j++) {
            uint32_t res = pod->wants[j].res;
            int64_t need = task_need(w->sched, w->tasks, i, j);

            w->request[res] += need;
            w->largest[res] = i64_max(w->largest[res], need);
        }
        if (pod->shape->shared && QUIRK(w->sched, LARGEST_POD)) { /* as far as whole ones go */
            w->request[RES_GPU] += pod->shape->devices;
            w->largest[RES_GPU] = i64_max(w->largest[RES_GPU], pod->shape->devices);
        }
    }
    w->alike = weigh_alike(w);
}

/* What is free, or will be; of a node on which more is kept than that, nothing. */
static int64_t room_of(const struct weighing *w, const struct node *node, size_t r)
{
    int64_t room = node->idle[r] + node->releasing[r];

    return room > 0 || QUIRK(w->sched, LARGEST_POD) ? room : 0;
}

static int64_t pods_on(const struct weighing *w, const struct node *node)
{
    int64_t most = INT64_MAX;

    for (size_t r = 0; r < w->resources; r++)
        if (w->largest[r] > 0)
            most = i64_min(most, room_of(w, node, r) / w->largest[r]);
    return i64_max(0, most == INT64_MAX ? (int64_t)w->tasks->count : most);
}

static double ratio_of(const struct weighing *w, const struct weight *weight)
{
    double ratio = 0;

    for (size_t r = 0; r < w->resources; r++) {
        double part = 1000;

        if (w->request[r] <= 0)
            continue;
        if (weight->free[r] > 0)
            part = (double)w->request[r] / (double)weight->free[r];
        ratio = part > ratio ? part : ratio;
    }
    return ratio;
}

static bool in_set(const struct sched *sched,
                   const struct node_set *within,
                   const struct node *node)
{
    return !within->nodes || node->mark == sched->mark_now;
}

static bool domain_tighter(const struct weighing *w, uint32_t a, uint32_t b)
{
    const struct weight *l = &w->weights[a];
    const struct weight *r = &w->weights[b];

    if (l->ratio > r->ratio || l->ratio < r->ratio)
        return l->ratio > r->ratio;
    return str_cmp(w->tree->domains.items[a].id, w->tree->domains.items[b].id) < 0;
}

static void sort_domains(const struct weighing *w, uint32_t *items, size_t count)
{
    if (count < 2)
        return;
    uint32_t *copy = ARENA_ARRAY(w->sched->arena, uint32_t, count);
    size_t half = count / 2;

    sort_domains(w, items, half);
    sort_domains(w, items + half, count - half);
    for (size_t i = 0, l = 0, r = half; i < count; i++)
        copy[i] = r >= count || (l < half && !domain_tighter(w, items[r], items[l])) ? items[l++]
                                                                                     : items[r++];
    for (size_t i = 0; i < count; i++)
        items[i] = copy[i];
}

/* Bottom up: what each domain has free, then the order of its children. */
static void weigh_tree(struct weighing *w, const struct node_set *within)
{
    struct arena *arena = w->sched->arena;
    size_t count = w->tree->domains.count;

    w->weights = ARENA_ARRAY(arena, struct weight, count);
    for (size_t d = count; d-- > 0;) {
        const struct domain *domain = &w->tree->domains.items[d];
        struct weight *weight = &w->weights[d];

        if (!weight->free)
            weight->free = ARENA_ARRAY(arena, int64_t, w->resources);
        for (size_t i = 0; i < domain->nodes.count; i++) {
            const struct node *node = domain->nodes.items[i];

            if (!in_set(w->sched, within, node))
                continue;
            weight->any = true;
            weight->pods += pods_on(w, node);
            for (size_t r = 0; r < w->resources; r++)
                weight->free[r] += room_of(w, node, r);
        }
        weight->ratio = ratio_of(w, weight);
        weight->children = ARENA_ARRAY(arena, uint32_t, domain->children.count + 1);
        for (size_t i = 0; i < domain->children.count; i++)
            if (w->weights[domain->children.items[i]].any)
                weight->children[weight->child_count++] = domain->children.items[i];
        sort_domains(w, weight->children, weight->child_count);
        if (d == 0)
            continue;
        struct weight *above = &w->weights[domain->parent];
        if (!above->free)
            above->free = ARENA_ARRAY(arena, int64_t, w->resources);
        above->any = above->any || weight->any;
        above->pods += weight->pods;
        for (size_t r = 0; r < w->resources; r++)
            above->free[r] += weight->free[r];
    }
}

static bool domain_fits(const struct weighing *w, uint32_t domain)
{
    const struct weight *weight = &w->weights[domain];

    return w->alike ? weight->pods >= (int64_t)w->tasks->count : weight->ratio <= 1;
}

/* ---- choosing ---- */
struct domain_list VEC_FIELDS(uint32_t);

/* Domains of `level` below `domain`, left to right. */
static void domains_at(const struct weighing *w,
                       uint32_t domain,
                       int level,
                       struct domain_list *ret)
{
    const struct weight *weight = &w->weights[domain];

    if (w->tree->domains.items[domain].level == level) {
        VEC_PUSH(w->sched->arena, ret, domain);
        return;
    }
    for (size_t i = 0; i < weight->child_count; i++)
        domains_at(w, weight->children[i], level, ret);
}

struct ranked {
    struct node *node;
    double bonus;
};
struct ranked_vec VEC_FIELDS(struct ranked);

static void nodes_below(const struct weighing *w,
                        const struct node_set *within,
                        uint32_t domain,
                        double bonus,
                        struct ranked_vec *ret)
{
    const struct domain *at = &w->tree->domains.items[domain];

    for (size_t i = 0; i < at->nodes.count; i++)
        if (in_set(w->sched, within, at->nodes.items[i]))
            VEC_PUSH(w->sched->arena, ret, (struct ranked){at->nodes.items[i], bonus});
    for (size_t i = 0; i < at->children.count; i++)
        nodes_below(w, within, at->children.items[i], bonus, ret);
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked *l = a;
    const struct ranked *r = b;

    return l->node->rank < r->node->rank ? -1 : l->node->rank > r->node->rank;
}

/* The nodes of a domain, by name; with a preferred level, those of its roomier domains score more.
 */
static struct node_set domain_set(const struct weighing *w,
                                  const struct node_set *within,
                                  uint32_t domain,
                                  int preferred)
{
    struct arena *arena = w->sched->arena;
    struct domain_list parts = {0};
    struct ranked_vec ranked = {0};

    if (preferred > w->tree->domains.items[domain].level)
        domains_at(w, domain, preferred, &parts);
    else
        VEC_PUSH(arena, &parts, domain);
    for (size_t i = 0; i < parts.count; i++) {
        /* Ten steps, rounded down as KAI does: of more than ten domains, neighbours share one. */
        size_t step = 10 * (i + 1) / parts.count;

        nodes_below(w, within, parts.items[i], 10000.0 * (double)step, &ranked);
    }
    if (ranked.count > 1)
        qsort(ranked.items, ranked.count, sizeof(*ranked.items), by_rank);
    struct node **nodes = ARENA_ARRAY(arena, struct node *, ranked.count + 1);
    double *bonus = ARENA_ARRAY(arena, double, ranked.count + 1);
    for (size_t i = 0; i < ranked.count; i++) {
        nodes[i] = ranked.items[i].node;
        bonus[i] = ranked.items[i].bonus;
    }
    return (struct node_set){
        .nodes = nodes, .count = ranked.count, .bonus = preferred >= 0 ? bonus : NULL};
}

/* Marks the domains in which pods below `set` hold room. */
static bool mark_held(const struct weighing *w, const struct group *group, uint32_t set)
{
    const struct sched_topology *spec = &w->tree->topology->spec;
    bool any = false;

    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->set == SET_NONE || !set_below(group, pod->set, set) ||
            !ST_IN(pod->status, ST_ACTIVE) || !pod->node)
            continue;
        any = true;
        for (size_t d = 1; d < w->tree->domains.count; d++) {
            const struct domain *domain = &w->tree->domains.items[d];
            if (domain->level != (int)spec->level_count - 1)
                continue;
            for (size_t n = 0; n < domain->nodes.count; n++)
                if (domain->nodes.items[n] == pod->node)
                    for (uint32_t up = (uint32_t)d; up; up = w->tree->domains.items[up].parent)
                        w->weights[up].held = true;
        }
    }
    return any;
}

/* By the level's label or its alias, which no other level of the topology has as either. */
static int level_of(const struct topology *topology, struct str word)
{
    const struct sched_topology *spec = &topology->spec;

    for (size_t i = 0; word.len && i < spec->level_count && i < LEVELS_MAX; i++)
        if (str_eq(spec->levels[i], word) || (spec->aliases && str_eq(spec->aliases[i], word)))
            return (int)i;
    return -1;
}

struct str topology_label(const struct sched *sched, const struct sched_topology_want *want)
{
    const struct topology *topology = map_get(&sched->topologies, want->topology);
    int level = topology ? level_of(topology, want->required) : -1;

    return level >= 0 ? topology->spec.levels[level] : want->required;
}

static bool failure_refuse(struct failure *failure, struct str text)
{
    failure->reason = SCHED_REASON_TOPOLOGY;
    failure->text = text;
    return false;
}

/* Domains from the preferred (or required) level up to the required one (or the root). */
static void domains_choose(const struct weighing *w,
                           const struct node_set *within,
                           int required,
                           int preferred,
                           bool only_held,
                           struct node_sets *ret)
{
    int deepest = preferred >= 0 ? preferred : required;

    for (int level = deepest; level >= required; level--) {
        struct domain_list domains = {0};

        domains_at(w, 0, level, &domains);
        for (size_t i = 0; i < domains.count; i++) {
            uint32_t domain = domains.items[i];
            if (!domain_fits(w, domain) || (only_held && !w->weights[domain].held))
                continue;
            VEC_PUSH(w->sched->arena, ret, domain_set(w, within, domain, preferred));
        }
    }
}

static void mark_nodes(struct sched *sched, const struct node_set *within)
{
    sched->mark_now++;
    for (size_t i = 0; i < within->count; i++)
        within->nodes[i]->mark = sched->mark_now;
}

bool topology_subsets(struct sched *sched,
                      struct group *group,
                      uint32_t set,
                      const struct pod_vec *tasks,
                      const struct node_set *within,
                      struct node_sets *ret,
                      struct failure *failure)
{
    const struct sched_topology_want *want = group->sets[set].topology;
    const struct topology *topology = NULL;

    if (!want->topology.len || (!want->required.len && !want->preferred.len)) {
        VEC_PUSH(sched->arena, ret, *within);
        return true;
    }
    topology = map_get(&sched->topologies, want->topology);
    if (!topology)
        return failure_refuse(failure,
                              str_printf(sched->arena, "topology \"" STR_FMT "\" does not exist",
                                         STR_ARG(want->topology)));
    int required = level_of(topology, want->required);
    int preferred = level_of(topology, want->preferred);
    if ((want->required.len && required < 0) || (want->preferred.len && preferred < 0))
        return failure_refuse(
            failure, str_printf(sched->arena, "topology " STR_FMT " has no level \"" STR_FMT "\"",
                                STR_ARG(want->topology),
                                STR_ARG(required < 0 && want->required.len ? want->required
                                                                           : want->preferred)));
    struct weighing w = {
        .sched = sched, .tree = tree_get(sched, topology, group->queue->pool), .tasks = tasks};
    mark_nodes(sched, within);
    weigh_request(&w);
    weigh_tree(&w, within);
    bool held = required >= 0 && mark_held(&w, group, set);
    domains_choose(&w, within, required, preferred, held, ret);
    if (ret->count)
        return true;
    return failure_refuse(failure,
                          str_printf(sched->arena,
                                     "no domain of level " STR_FMT " in topology " STR_FMT
                                     " has room for %zu pods",
                                     STR_ARG(want->required.len ? want->required : want->preferred),
                                     STR_ARG(want->topology), tasks->count));
}
