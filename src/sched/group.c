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

/* Pods below a set that hold room, for choosing among children of an inner set. */
static int64_t set_active_below(const struct group *group, uint32_t set)
{
    int64_t active = 0;

    if (group->sets[set].leaf)
        return set_active(&group->sets[set]);
    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next)
        active += set_active_below(group, child);
    return active;
}

/* Of an inner set with minSubGroup, only that many children have to start: those that have pods
 * already, then the first ones. */
static bool child_required(const struct group *group, uint32_t parent, uint32_t set)
{
    int64_t own = set_active_below(group, set);
    int64_t before = 0;
    bool seen = false;

    if (group->sets[parent].min <= 0)
        return true;
    for (uint32_t child = group->sets[parent].first_child; child; child = group->sets[child].next) {
        int64_t active = set_active_below(group, child);

        seen = seen || child == set;
        before += child != set && (active > own || (active == own && !seen));
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
    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        if (set->leaf && set_active(set) + set->count[ST_PENDING] < set->min &&
            set_required(group, i))
            return false;
    }
    return group->set_count > 0;
}

bool group_satisfied(const struct group *group)
{
    for (uint32_t i = 1; i < group->set_count; i++)
        if (group->sets[i].leaf && set_active(&group->sets[i]) < group->sets[i].min &&
            set_required(group, i))
            return false;
    return true;
}

static int group_elastic_as(const struct group *group, bool proposed)
{
    bool above = false;

    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        int64_t active = set_active(set) - (proposed ? set->taken : 0);

        if (!set->leaf)
            continue;
        if (active < set->min && set_required(group, i))
            return -1;
        above = above || active > set->min;
    }
    return above ? 1 : 0;
}

int group_elastic(const struct group *group)
{
    return group_elastic_as(group, false);
}

int group_elastic_left(const struct group *group)
{
    return group_elastic_as(group, true);
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

int64_t group_waits_since(const struct group *group)
{
    int64_t since = group->created_ms;

    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->status == ST_PENDING)
            since = i64_max(since, group->pods.items[i]->created_ms);
    return since;
}

bool group_kept(const struct sched *sched, const struct group *group)
{
    return group->kept_in == sched->cycle && group->kept_in;
}

/* ---- orders ---- */
int set_order(const struct group *group, uint32_t a, uint32_t b)
{
    const struct set *l = &group->sets[a];
    const struct set *r = &group->sets[b];
    int64_t active_l = set_active(l) - l->taken;
    int64_t active_r = set_active(r) - r->taken;
    bool lacks_l = active_l < l->min;
    bool lacks_r = active_r < r->min;

    if (lacks_l != lacks_r)
        return lacks_l ? -1 : 1;
    if (!lacks_l) {
        __int128 ratio_l = (__int128)active_l * i64_max(1, r->min);
        __int128 ratio_r = (__int128)active_r * i64_max(1, l->min);
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
