#include "sched/group.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pod groups: where they stand to their minimum, and their orders. */

/* Calls the group ns/name. Its key leaves the namespace out where that does not count. */
void group_call(struct sched *sched, struct group *group, struct str ns, struct str name)
{
    struct str old = group->ns;
    size_t len = ns.len + 1 + name.len;
    char *text = mem_alloc(len + 1);

    (void)sched_key(text, len + 1, ns, name);
    group->ns = (struct str){text, ns.len};
    group->name = (struct str){text + ns.len + 1, name.len};
    group->key = QUIRK(sched, GROUP_BY_NAME) ? (struct str){text + ns.len, name.len + 1}
                                             : (struct str){text, len};
    map_set(&sched->groups_by_key, group->key, group);
    heap_str_free(old);
}

struct group *group_get(struct sched *sched, struct str ns, struct str name, bool make)
{
    char text[KEY_BYTES];
    struct str key =
        sched_key(text, sizeof(text), QUIRK(sched, GROUP_BY_NAME) ? STR_NONE : ns, name);
    struct group *group = map_get(&sched->groups_by_key, key);

    if (group || !make)
        return group;
    group = MEM_NEW(struct group);
    group->id = ++sched->group_next_id;
    group->in_pending = group->in_active = group->in_queue = group->in_frail = LIST_NONE;
    group->in_strays = (uint32_t)sched->strays.count;
    VEC_PUSH(NULL, &sched->strays, group);
    group_call(sched, group, ns, name);
    return group;
}

static uint32_t set_find(const struct group *group, struct str name)
{
    for (uint32_t i = 0; i < group->set_count; i++)
        if (group->sets[i].leaf && str_eq(group->sets[i].name, name))
            return i;
    return SET_NONE;
}

/* The leaf a pod belongs to: the one of its label; a group without subgroups has a single leaf that
 * takes every pod. */
uint32_t pod_find_set(const struct group *group, struct str subgroup)
{
    if (!group->set_count)
        return SET_NONE;
    if (!group->detail || !group->detail->subgroup_count)
        return 1;
    uint32_t set = set_find(group, subgroup);
    return set == SET_NONE && !subgroup.len ? set_find(group, STR("default")) : set;
}

/* ---- what a group lacks ---- */
int64_t set_active(const struct set *set)
{
    return set->count[ST_PIPELINED] + set->count[ST_BINDING] + set->count[ST_BOUND] +
           set->count[ST_RUNNING];
}

/* Pods of a leaf that count. */
enum counted {
    COUNT_ACTIVE,
    COUNT_LEFT,  /* without those that the search under way has proposed as victims */
    COUNT_USED,  /* and those on their way out */
    COUNT_READY, /* and those that wait */
};

static bool set_holds(const struct group *group, uint32_t set, enum counted counted);

/* What is held against the set's minimum: pods of a leaf, satisfied members of an inner set. */
static int64_t set_measure(const struct group *group, uint32_t index, enum counted counted)
{
    const struct set *set = &group->sets[index];
    int64_t count = 0;

    /* Pods of a part that are done need no room: the other parts do not wait for them. */
    if (set->leaf && group->set_count > 2)
        count = i64_min(set->count[ST_SUCCEEDED], i64_max(0, set->min - set_active(set)));
    if (set->leaf)
        return count + set_active(set) - (counted == COUNT_LEFT ? set->taken : 0) +
               (counted == COUNT_USED ? set->count[ST_RELEASING] + set->count[ST_STUCK] : 0) +
               (counted == COUNT_READY ? set->count[ST_PENDING] : 0);
    for (uint32_t child = set->first_child; child; child = group->sets[child].next)
        count += set_holds(group, child, counted);
    return count;
}

static bool set_holds(const struct group *group, uint32_t set, enum counted counted)
{
    /* Most groups are a root with one leaf. */
    if (group->set_count == 2)
        set = 1;
    return set_measure(group, set, counted) >= group->sets[set].min;
}

bool set_satisfied(const struct group *group, uint32_t set)
{
    return set_holds(group, set, COUNT_ACTIVE);
}

/* Which of two members of a set is started first: one that has all its pods, so that what never
 * comes holds nobody back. */
int set_start_order(const struct group *group, uint32_t a, uint32_t b)
{
    bool ready_a = set_holds(group, a, COUNT_READY);
    bool ready_b = set_holds(group, b, COUNT_READY);
    bool full_a = set_satisfied(group, a);
    bool full_b = set_satisfied(group, b);

    if (full_a == full_b && ready_a != ready_b)
        return ready_a ? -1 : 1;
    return set_order(group, a, b);
}

/* Of a set that needs only some of its members: those that are satisfied already, then those that
 * are started first. */
static bool child_required(const struct group *group, uint32_t parent, uint32_t set)
{
    bool own = set_satisfied(group, set);
    int64_t before = 0;

    for (uint32_t child = group->sets[parent].first_child; child; child = group->sets[child].next) {
        bool full = set_satisfied(group, child);

        before += child != set && (full != own ? full : set_start_order(group, child, set) < 0);
    }
    return before < group->sets[parent].min;
}

bool set_required(const struct group *group, uint32_t set)
{
    while (set) {
        uint32_t parent = group->sets[set].parent;
        if (!child_required(group, parent, set))
            return false;
        set = parent;
    }
    return true;
}

bool set_below(const struct group *group, uint32_t set, uint32_t ancestor)
{
    while (set && set != ancestor)
        set = group->sets[set].parent;
    return set == ancestor;
}

bool group_ready(const struct group *group)
{
    return group->set_count > 0 && set_holds(group, 0, COUNT_READY);
}

bool group_satisfied(const struct group *group)
{
    return !group->set_count || set_holds(group, 0, COUNT_ACTIVE);
}

bool group_whole(const struct group *group)
{
    return !group->set_count || set_holds(group, 0, COUNT_USED);
}

static bool set_above(const struct group *group, uint32_t index, enum counted counted)
{
    if (group->set_count == 2)
        index = 1;
    const struct set *set = &group->sets[index];

    if (set_measure(group, index, counted) > set->min)
        return true;
    for (uint32_t child = set->leaf ? 0 : set->first_child; child; child = group->sets[child].next)
        if (set_above(group, child, counted))
            return true;
    return false;
}

bool set_surplus(const struct group *group, uint32_t set)
{
    return set_above(group, set, COUNT_LEFT);
}

bool set_left(const struct group *group, uint32_t set)
{
    return set_holds(group, set, COUNT_LEFT) && group->sets[set].min > 0;
}

static int group_elastic_as(const struct group *group, enum counted counted)
{
    if (!group->set_count)
        return 0;
    if (!set_holds(group, 0, counted))
        return -1;
    return set_above(group, 0, counted) ? 1 : 0;
}

int group_elastic(const struct group *group)
{
    return group_elastic_as(group, COUNT_ACTIVE);
}

int group_elastic_left(const struct group *group)
{
    return group_elastic_as(group, COUNT_LEFT);
}

bool group_must_wait(const struct group *group)
{
    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        if (set->leaf && set->count[ST_PIPELINED] &&
            set_active(set) - set->count[ST_PIPELINED] < set->min)
            return true;
    }
    return false;
}

int64_t group_delayed_until(const struct sched *sched, const struct group *group)
{
    int64_t end = i64_max(group->created_ms, group->last_eviction_ms) + group->preempt_delay_ms;

    return group->preempt_delay_ms > 0 && sched->now_ms < end ? end : 0;
}

bool group_timed_out(const struct sched *sched, const struct group *group)
{
    return group->max_run_ms > 0 && group->last_start_ms &&
           sched->now_ms >= group->last_start_ms + group->max_run_ms;
}

int64_t group_waits_since(const struct group *group)
{
    int64_t since = group->created_ms;

    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->status == ST_PENDING)
            since = i64_max(since, group->pods.items[i]->created_ms);
    return since;
}

const struct pod *group_suspended(const struct sched *sched, const struct group *group)
{
    for (size_t i = 0; sched->homed.count && i < group->pods.count; i++)
        if (group->pods.items[i]->home)
            return group->pods.items[i];
    return NULL;
}

bool group_resuming(const struct sched *sched, const struct group *group)
{
    if (!sched->resuming && !sched->homed.count)
        return false;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->resuming || (pod->home && ST_IN(pod->status, ST_ALLOCATED)))
            return true;
    }
    return false;
}

bool group_kept(const struct sched *sched, const struct group *group)
{
    return group->kept_in == sched->cycle && group->kept_in;
}

/* ---- orders ---- */
/* The ratio counts where both have their minimum. */
int set_order(const struct group *group, uint32_t a, uint32_t b)
{
    const struct set *l = &group->sets[a];
    const struct set *r = &group->sets[b];
    int64_t have_l = set_measure(group, a, COUNT_LEFT);
    int64_t have_r = set_measure(group, b, COUNT_LEFT);
    bool lacks_l = have_l < l->min;
    bool lacks_r = have_r < r->min;

    if (lacks_l != lacks_r)
        return lacks_l ? -1 : 1;
    if (!lacks_l && (l->min > 0) != (r->min > 0))
        return l->min > 0 ? -1 : 1;
    if (!lacks_l) {
        __int128 ratio_l = (__int128)have_l * i64_max(1, r->min);
        __int128 ratio_r = (__int128)have_r * i64_max(1, l->min);
        if (ratio_l != ratio_r)
            return ratio_l < ratio_r ? -1 : 1;
    }
    return str_cmp(l->name, r->name);
}

int group_order(const struct group *a, int a_elastic, const struct group *b, int b_elastic)
{
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a_elastic != b_elastic)
        return a_elastic < b_elastic ? -1 : 1;
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return str_cmp(a->key, b->key);
}

int group_line(const struct group *a, int a_elastic, const struct group *b, int b_elastic)
{
    static const enum sched_resource counted[] = {SCHED_GPU, SCHED_CPU};

    for (size_t i = 0; i < 2 && a->payer && b->payer && a->priority == b->priority; i++) {
        int64_t l = a->payer->held[counted[i]];
        int64_t r = b->payer->held[counted[i]];

        if (l != r)
            return l < r ? -1 : 1;
    }
    return group_order(a, a_elastic, b, b_elastic);
}

/* ---- the pods in line ---- */
struct pod *const *group_pods_in_line(const struct group *group)
{
    struct line *line = group->line;

    if (!line->valid) {
        mem_free(line->pods);
        line->pods = mem_alloc(group->pods.count * sizeof(*line->pods));
        memcpy(line->pods, group->pods.items, group->pods.count * sizeof(*line->pods));
        qsort(line->pods, group->pods.count, sizeof(*line->pods), pod_order_qsort);
        for (size_t i = 0; i < group->pods.count; i++)
            line->pods[i]->line_index = (uint32_t)i;
        line->first = 0;
        line->valid = true;
    }
    while (line->first < group->pods.count &&
           !ST_IN(line->pods[line->first]->status, ST_BIT(ST_PENDING) | ST_BIT(ST_RELEASING)))
        line->first++;
    return line->pods;
}

void group_line_forget(const struct group *group)
{
    if (group->line)
        group->line->valid = false;
}

void group_line_note(const struct pod *pod)
{
    struct line *line = pod->group ? pod->group->line : NULL;

    if (line && line->valid && pod->line_index < line->first &&
        ST_IN(pod->status, ST_BIT(ST_PENDING) | ST_BIT(ST_RELEASING)))
        line->first = pod->line_index;
}
