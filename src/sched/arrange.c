#include "sched/arrange.h"

#include "base/arena.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/allocate.h"
#include "sched/filter.h"
#include "sched/fit.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/names.h"
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
#include "sched/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- putting one pod somewhere ---- */
/* The placement is its old room: the same shared devices, or any whole one where its own is still
 * free for it. */
static bool can_stay(const struct pod *pod, const struct placement *placement)
{
    const struct node *node = placement->node;
    const uint8_t *slots = pod_shares(pod);
    int64_t memory = share_memory(pod, node);

    for (uint8_t i = 0; i < pod->share_count; i++) {
        const struct share *share = &node->shares[slots[i]];
        if (placement->shares[i] == slots[i])
            continue;
        if (placement->shares[i] != SHARES_MAX)
            return false;
        if (node->gpu_memory - share->allocated - share->pipelined < memory ||
            fit_promised(node, share))
            return false;
    }
    return true;
}

void attempt_put(struct attempt *attempt, struct pod *pod, struct placement *placement)
{
    struct sched *sched = attempt->sched;
    struct node *node = placement->node;

    if (pod->victim && pod->status == ST_RELEASING && pod->node == node &&
        can_stay(pod, placement)) {
        enum status was = pod->was != ST_PIPELINED             ? pod->was
                          : ST_IN(pod->observed, ST_ALLOCATED) ? pod->observed
                                                               : ST_BINDING;
        pod_set(sched, pod, was, node, pod_shares(pod), pod->share_count);
        return;
    }
    for (uint8_t i = 0; i < placement->share_count; i++) {
        if (placement->shares[i] != SHARES_MAX)
            continue;
        /* One that goes on has the device it had, not any: so it is named now. */
        bool own = pod->home && placement->fit == FIT_IDLE;
        placement->shares[i] = share_open(node, own ? pod->sharing->names[i] : NULL);
        if (own) {
            pod->sharing->named_shares[i] = placement->shares[i];
            pod->sharing->named_node = node;
        }
    }
    pod_set(sched, pod, placement->fit == FIT_IDLE && !attempt->later ? ST_BINDING : ST_PIPELINED,
            node, placement->shares, placement->share_count);
    pod->placed_in = sched->cycle;
    pod->lent_for = placement->lent_for;
    if (pod->shape->spec.affinity_count)
        sched->near_in = sched->cycle;
}

/* ---- the ways there are ---- */
/* Chooses the domain of a set, or the node of a pod. */
struct step {
    struct pod *pod; /* NULL: a domain */
    uint32_t set;
    struct pod_vec tasks;           /* domain: of the set */
    struct node_sets domains;       /* to choose from */
    struct place_choice *choices;   /* the same of a pod */
    size_t count, next;             /* of either */
    struct mark mark;               /* before it */
    int64_t need[SCHED_RESOURCES];  /* pod: what it and those behind it ask for, of one set */
    int64_t least[SCHED_RESOURCES]; /* and the least that any of them does */
    bool like_last;                 /* pod: to nobody does it matter which of the two is where */
    bool entered;
    uint32_t kind; /* pod, in any order: alike are those of one kind */
    size_t swap;   /* the step whose pod it has instead of its own; 0: it has its own */
    uint64_t key;  /* what it put where */
};

struct arranging {
    struct attempt *attempt;
    const struct node_set *within;
    struct node_set *chosen; /* by set */
    struct step *steps;
    size_t count;
    int64_t looks; /* at nodes, that are left */
    bool plain;    /* one node is as good as another that has the same */
    uint64_t
        *seen; /* in any order: states that led nowhere, ARRANGE_SEEN at most; NULL: one order */
    uint64_t placed; /* the keys of all steps that were taken, in sum */
};

static const uint32_t resources[SCHED_RESOURCES] = {RES_CPU, RES_MEMORY, RES_GPU};

/* Without what it claims, which others may claim with it. */
static int64_t pod_wants(const struct pod *pod, uint32_t res)
{
    int64_t amount = 0;

    for (size_t i = 0; i < pod->shape->want_count; i++)
        amount += pod->wants[i].res == res ? pod->wants[i].amount : 0;
    return amount;
}

/* What asks for most first; those that are alike beside each other. */
static int by_size(const void *a, const void *b)
{
    const struct pod *l = *(struct pod *const *)a;
    const struct pod *r = *(struct pod *const *)b;

    for (size_t i = SCHED_RESOURCES; i-- > 0;) {
        int64_t m = pod_wants(l, resources[i]);
        int64_t n = pod_wants(r, resources[i]);
        if (m != n)
            return m > n ? -1 : 1;
    }
    if (l->shape != r->shape)
        return l->shape->id < r->shape->id ? -1 : 1;
    return pod_order(l, r);
}

static bool same_labels(const struct pod *a, const struct pod *b)
{
    return a->label_count == b->label_count &&
           (!a->label_count ||
            memcmp(a->labels, b->labels, a->label_count * sizeof(*a->labels)) == 0);
}

static bool interchangeable(const struct sched *sched, const struct pod *a, const struct pod *b)
{
    return a->shape == b->shape && !a->claim_count && !b->claim_count && !a->home && !b->home &&
           a->status == b->status && a->status == ST_PENDING && a->nominated == b->nominated &&
           ((a->shape->local && !sched->anti_pods.count) || same_labels(a, b));
}

static void add_pods(struct arranging *a, uint32_t set, const struct pod_vec *tasks)
{
    struct sched *sched = a->attempt->sched;
    struct pod **pods = ARENA_ARRAY(sched->arena, struct pod *, tasks->count);
    size_t first = a->count;

    memcpy(pods, tasks->items, tasks->count * sizeof(*pods));
    qsort(pods, tasks->count, sizeof(*pods), by_size);
    for (size_t i = 0; i < tasks->count; i++) {
        struct step *step = &a->steps[a->count++];

        *step = (struct step){
            .pod = pods[i],
            .set = set,
            .like_last = i && interchangeable(sched, pods[i - 1], pods[i]),
        };
    }
    for (size_t i = a->count; i-- > first;)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            struct step *step = &a->steps[i];
            int64_t own = pod_wants(step->pod, resources[r]);
            bool last = i + 1 == a->count;

            step->need[r] = own + (last ? 0 : step[1].need[r]);
            step->least[r] = last ? own : i64_min(own, step[1].least[r]);
        }
}

static struct pod_vec tasks_of_set(const struct arranging *a,
                                   const struct pod_vec *tasks,
                                   uint32_t set)
{
    struct pod_vec some = {0};

    for (size_t i = 0; i < tasks->count; i++)
        if (set_below(a->attempt->group, tasks->items[i]->set, set))
            VEC_PUSH(a->attempt->sched->arena, &some, tasks->items[i]);
    return some;
}

static int64_t tasks_size(const struct pod_vec *tasks)
{
    int64_t size = 0;

    for (size_t i = 0; i < tasks->count; i++)
        size += pod_wants(tasks->items[i], RES_GPU) * (INT64_C(1) << 30) +
                pod_wants(tasks->items[i], RES_CPU);
    return size;
}

static bool set_constrained(const struct set *set)
{
    return set->topology->topology.len &&
           (set->topology->required.len || set->topology->preferred.len);
}

static bool parts_constrained(const struct group *group)
{
    for (uint32_t i = 1; i < group->set_count; i++)
        if (set_constrained(&group->sets[i]))
            return true;
    return false;
}

/* What is below a set, the largest first. */
struct child {
    uint32_t set;
    int64_t size;
    struct pod_vec tasks;
};

/* The steps of a set and of all below it; where nothing below it has a domain of its own, its pods
 * are one lot. */
static void add_set(struct arranging *a, uint32_t set, const struct pod_vec *tasks, bool parts)
{
    const struct group *group = a->attempt->group;
    struct child *children = NULL;
    size_t count = 0;

    a->steps[a->count++] = (struct step){.set = set, .tasks = *tasks};
    if (group->sets[set].leaf || !parts) {
        add_pods(a, set, tasks);
        return;
    }
    children = ARENA_ARRAY(a->attempt->sched->arena, struct child, group->set_count);
    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next) {
        struct pod_vec some = tasks_of_set(a, tasks, child);
        int64_t size = tasks_size(&some);
        size_t at = some.count ? count++ : 0;

        if (!some.count)
            continue;
        for (; at && children[at - 1].size < size; at--)
            children[at] = children[at - 1];
        children[at] = (struct child){.set = child, .size = size, .tasks = some};
    }
    for (size_t i = 0; i < count; i++)
        add_set(a, children[i].set, &children[i].tasks, parts);
}

/* ---- in any order ---- */
/* Domains are chosen first, and then each step takes a pod of any kind that is left: where a pod may go
 * depends on who is there already, of whatever set. */
static void any_order(struct arranging *a)
{
    struct sched *sched = a->attempt->sched;
    struct step *steps = ARENA_ARRAY(sched->arena, struct step, a->count);
    size_t count = 0;

    for (int pods = 0; pods < 2; pods++)
        for (size_t i = 0; i < a->count; i++)
            if (!a->steps[i].pod == !pods)
                steps[count++] = a->steps[i];
    for (size_t i = 1; i < count; i++) {
        steps[i].kind =
            steps[i - 1].kind + !(steps[i].like_last && steps[i].set == steps[i - 1].set);
        steps[i].like_last = false;
        memset(steps[i].need, 0, sizeof(steps[i].need)); /* whoever is behind it */
    }
    a->steps = steps;
    a->seen = ARENA_ARRAY(sched->arena, uint64_t, ARRANGE_SEEN);
}

static void swap_pods(struct step *a, struct step *b)
{
    struct step was = *a;

    a->pod = b->pod;
    a->set = b->set;
    a->kind = b->kind;
    b->pod = was.pod;
    b->set = was.set;
    b->kind = was.kind;
}

/* Gives the step a pod of another kind, of those behind it; false: all have been there, and it has its
 * own again. */
static bool other_kind(struct arranging *a, struct step *step)
{
    struct step *end = a->steps + a->count;
    struct step *next = step->swap ? a->steps + step->swap : step;

    if (!a->seen || !step->pod)
        return false;
    if (step->swap)
        swap_pods(step, next);
    step->swap = 0;
    while (++next < end) {
        const struct step *same = step;

        while (same->kind != next->kind)
            same++;
        if (same < next)
            continue;
        swap_pods(step, next);
        step->swap = (size_t)(next - a->steps);
        return true;
    }
    return false;
}

static uint64_t mixed(uint64_t key, uint64_t more)
{
    key = (key * 31 + more + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 29;
}

/* Whether the same pods were in the same places before, in whatever order they came there. */
static bool was_seen(struct arranging *a, struct step *step, const struct placement *at)
{
    uint64_t key = mixed(mixed(0, step->kind), at->node->slot);
    uint64_t *seen = NULL;

    if (!a->seen)
        return false;
    for (uint8_t i = 0; i < at->share_count; i++)
        key = mixed(key, at->shares[i]);
    seen = &a->seen[mixed(a->placed + key, 1) % ARRANGE_SEEN];
    if (*seen == a->placed + key)
        return true;
    *seen = a->placed + key;
    step->key = key;
    a->placed += key;
    return false;
}

/* ---- trying them ---- */
/* Whether what is left of the set's nodes is enough in sum for all pods that are left of it: of nodes
 * that have less than any of them asks for nothing counts. */
static bool enough_left(const struct arranging *a, const struct step *step)
{
    const struct pool *pool = a->attempt->group->queue->pool;
    const struct node_set *set = &a->chosen[step->set];
    struct node *const *nodes = set->nodes ? set->nodes : pool->nodes.items;
    size_t count = set->nodes ? set->count : pool->nodes.count;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        int64_t left = 0;

        for (size_t i = 0; i < count && left < step->need[r]; i++) {
            int64_t room = nodes[i]->idle[resources[r]] + nodes[i]->releasing[resources[r]];

            left += room > 0 && room >= step->least[r] ? room : 0;
        }
        if (left < step->need[r])
            return false;
    }
    return true;
}

/* Nodes that have the same, and the same free, for pods that look at nothing else. */
static bool nodes_alike(const void *user, const struct node *x, const struct node *y)
{
    const struct arranging *a = user;
    const struct sched *sched = a->attempt->sched;
    size_t bytes = sched->resources.count * sizeof(*x->idle);

    if (!a->plain || x->share_count || y->share_count || x->numa || y->numa || x->keep || y->keep ||
        memcmp(x->idle, y->idle, bytes) != 0 || memcmp(x->releasing, y->releasing, bytes) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->steps[i].pod && filter_allowed(sched, a->steps[i].pod->shape, x) !=
                                   filter_allowed(sched, a->steps[i].pod->shape, y))
            return false;
    return true;
}

static void step_enter(struct arranging *a, struct step *step)
{
    struct sched *sched = a->attempt->sched;
    struct group *group = a->attempt->group;
    const struct node_set *set = &a->chosen[step->set];
    struct failure scratch = {0};

    step->entered = true;
    step->mark = journal_mark(sched);
    step->next = step->count = 0;
    if (!step->pod) {
        step->domains = (struct node_sets){0};
        a->looks--;
        if (topology_subsets(sched, group, step->set, &step->tasks,
                             step->set ? &a->chosen[group->sets[step->set].parent] : a->within,
                             &step->domains, &scratch))
            step->count = step->domains.count;
        return;
    }
    a->looks -= (int64_t)(set->nodes ? set->count : group->queue->pool->nodes.count);
    if (!enough_left(a, step))
        return;
    if (!step->choices)
        step->choices = ARENA_ARRAY(sched->arena, struct place_choice, ARRANGE_CHOICES);
    struct place_choices choices = {
        .items = step->choices, .most = ARRANGE_CHOICES, .alike = nodes_alike, .user = a};
    place_choose(sched, step->pod, set, &choices);
    step->count = choices.count;
    a->attempt->failure->cut = a->attempt->failure->cut || choices.more;
}

/* A pod just like this one was there, and that did not help: nor would this one there. */
static bool known_in_vain(const struct step *step, const struct placement *there)
{
    for (; step->like_last; step--)
        for (size_t i = 0; i + 1 < step[-1].next; i++) {
            const struct placement *tried = &step[-1].choices[i].placement;

            if (tried->node == there->node && tried->share_count == there->share_count &&
                memcmp(tried->shares, there->shares, there->share_count) == 0)
                return true;
        }
    return false;
}

/* Takes the next choice of the step; false: there is none. */
static bool step_next(struct arranging *a, struct step *step)
{
    while (step->next < step->count) {
        size_t at = step->next++;

        if (!step->pod) {
            a->chosen[step->set] = step->domains.items[at];
            step->key = mixed(mixed(1, step->set), at); /* what was seen was seen there */
            a->placed += step->key;
            return true;
        }
        if (known_in_vain(step, &step->choices[at].placement) ||
            was_seen(a, step, &step->choices[at].placement))
            continue;
        struct placement placement = step->choices[at].placement;
        attempt_put(a->attempt, step->pod, &placement);
        return true;
    }
    return false;
}

static void step_undo(struct arranging *a, struct step *step)
{
    journal_rollback(a->attempt->sched, step->mark);
    a->placed -= step->key;
    step->key = 0;
}

/* All have a place: whoever else has to be placed beside them says whether it will do. */
static bool steps_will_do(struct arranging *a)
{
    struct mark mark = journal_mark(a->attempt->sched);

    if (!a->attempt->accept || a->attempt->accept(a->attempt->user))
        return true;
    journal_rollback(a->attempt->sched, mark);
    a->looks -= a->attempt->cost;
    return false;
}

static bool steps_take(struct arranging *a)
{
    for (size_t at = 0;;) {
        if (at == a->count && steps_will_do(a))
            return true;
        at -= at == a->count;
        struct step *step = &a->steps[at];

        if (!step->entered)
            step_enter(a, step);
        else
            step_undo(a, step);
        if (a->looks < 0) {
            a->attempt->failure->cut = true;
            return false;
        }
        if (step_next(a, step)) {
            at++;
            continue;
        }
        step->entered = false;
        if (!other_kind(a, step) && !at--)
            return false;
    }
}

/* ---- whether it is worth a try ---- */
/* Pods that are all alike, and at most keep each other out of one kind of domain: wherever the first
 * ones are, as many find a place. */
static bool all_alike(const struct attempt *attempt, const struct pod_vec *tasks)
{
    const struct sched *sched = attempt->sched;
    const struct pod *first = tasks->items[0];
    const struct sched_pod *spec = &first->shape->spec;

    for (size_t i = 1; i < tasks->count; i++)
        if (!interchangeable(sched, first, tasks->items[i]))
            return false;
    return !first->shape->shared && !first->shape->mounts && !spec->affinity_count &&
           spec->anti_affinity_count <= 1 && (!spec->spread_count || QUIRK(sched, NO_SPREAD)) &&
           !sched->numa_nodes &&
           (attempt->group->set_count == 2 || !parts_constrained(attempt->group));
}

static bool enough_in_pool(const struct attempt *attempt, const struct pod_vec *tasks)
{
    const struct pool *pool = attempt->group->queue->pool;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        int64_t need = 0;

        for (size_t i = 0; i < tasks->count; i++)
            for (size_t w = 0; w < tasks->items[i]->want_count; w++)
                if (tasks->items[i]->wants[w].res == resources[r])
                    need += task_need(attempt->sched, tasks, i, w);
        if (need > pool->room[resources[r]])
            return false;
    }
    return true;
}

static bool all_plain(const struct arranging *a, const struct pod_vec *tasks, bool parts)
{
    const struct sched *sched = a->attempt->sched;

    for (size_t i = 0; i < tasks->count; i++)
        if (!tasks->items[i]->shape->local || tasks->items[i]->claim_count ||
            tasks->items[i]->shape->shared || tasks->items[i]->home)
            return false;
    return !parts && !a->attempt->accept && !sched->anti_pods.count && !sched->homed.count &&
           !queue_has_models(a->attempt->group->queue);
}

/* Whether where a pod may go depends on who went before it. */
static bool order_matters(const struct sched *sched, const struct pod_vec *tasks)
{
    for (size_t i = 0; i < tasks->count; i++)
        if (affinity_in_order(sched, tasks->items[i]->shape))
            return true;
    return false;
}

bool arrange(struct attempt *attempt, const struct pod_vec *tasks, const struct node_set *within)
{
    struct sched *sched = attempt->sched;
    const struct group *group = attempt->group;
    struct failure *failure = attempt->failure;
    bool lacks_room =
        failure->reason == SCHED_REASON_NO_ROOM || failure->reason == SCHED_REASON_TOPOLOGY;

    /* Most turn back at the first of these, which costs nothing. */
    if (QUIRK(sched, GREEDY_GANG) || (!attempt->accept && (tasks->count < 2 || !lacks_room)) ||
        !enough_in_pool(attempt, tasks) || (!attempt->accept && all_alike(attempt, tasks)))
        return false;
    size_t nodes = within->nodes ? within->count : group->queue->pool->nodes.count;
    int64_t each = (int64_t)(tasks->count * nodes);
    int64_t looks = i64_min(sched->arrange_left, i64_max(ARRANGE_LOOKS, 2 * each));
    if (each > ARRANGE_LARGE || looks <= 0) {
        failure->cut = true;
        return false;
    }
    bool parts = parts_constrained(group);
    struct arranging a = {.attempt = attempt, .within = within, .looks = looks};
    a.chosen = ARENA_ARRAY(sched->arena, struct node_set, group->set_count);
    a.steps = ARENA_ARRAY(sched->arena, struct step, tasks->count + group->set_count + 1);
    a.plain = all_plain(&a, tasks, parts);
    struct mark mark = journal_mark(sched);
    add_set(&a, 0, tasks, parts);
    if (order_matters(sched, tasks))
        any_order(&a);
    bool placed = steps_take(&a);
    sched->arrange_left -= looks - i64_max(a.looks, 0);
    if (!placed)
        journal_rollback(sched, mark);
    return placed;
}
