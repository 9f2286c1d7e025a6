#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/event.h"
#include "sched/explain.h"
#include "sched/group.h"
#include "sched/link.h"
#include "sched/lists.h"
#include "sched/names.h"
#include "sched/pack.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Pod groups and the tree of their subgroups. */

static void set_adopt(struct group *group, uint32_t parent, uint32_t child)
{
    uint32_t *link = &group->sets[parent].first_child;

    while (*link)
        link = &group->sets[*link].next;
    *link = child;
    group->sets[child].parent = parent;
    group->sets[parent].leaf = false;
}

/* Members of an inner set that have to be satisfied. More than there are mean all. */
static int64_t set_least(const struct group *group, uint32_t set, int64_t asked)
{
    int64_t count = 0;

    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next)
        count++;
    return asked < 0 ? 0 : asked == 0 ? count : i64_min(asked, count);
}

/* Builds the tree: set 0 is the root, then the subgroups in their order. `spec` is what is kept of
 * it, where anything is. A subgroup whose parent is
 * unknown hangs below the root; circles cannot hang anywhere and are left out. */
static void group_sets(struct group *group, const struct sched_group *spec)
{
    static const struct sched_topology_want anywhere = {0};
    uint32_t count = (uint32_t)spec->subgroup_count;

    group->set_count = count ? count + 1 : 2;
    group->sets = mem_alloc(group->set_count * sizeof(*group->sets));
    group->sets[0] =
        (struct set){.min = 1, .topology = group->detail ? &spec->topology : &anywhere};
    if (!count) {
        group->sets[1] = (struct set){.name = STR("default"),
                                      .topology = &anywhere,
                                      .leaf = true,
                                      .min = i64_max(1, spec->min_member)};
        group->sets[0].first_child = 1;
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        group->sets[i + 1] = (struct set){.name = spec->subgroups[i].name,
                                          .leaf = true,
                                          .min = i64_max(0, spec->subgroups[i].min_member),
                                          .topology = &spec->subgroups[i].topology};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = 0;

        for (uint32_t j = 0; spec->subgroups[i].parent.len && j < count; j++)
            if (j != i && str_eq(spec->subgroups[j].name, spec->subgroups[i].parent))
                parent = j + 1;
        for (uint32_t up = parent, steps = 0; up; up = group->sets[up].parent)
            if (up == i + 1 || ++steps > count) {
                parent = 0;
                break;
            }
        set_adopt(group, parent, i + 1);
    }
    for (uint32_t i = 0; i <= count; i++)
        if (!group->sets[i].leaf)
            group->sets[i].min =
                set_least(group, i, i ? spec->subgroups[i - 1].min_subgroup : spec->min_subgroup);
}

static void group_count(struct group *group)
{
    memset(group->count, 0, sizeof(group->count));
    for (uint32_t i = 0; i < group->set_count; i++)
        memset(group->sets[i].count, 0, sizeof(group->sets[i].count));
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];
        pod->set = pod_find_set(group, name_text(pod->subgroup));
        if (pod->set == SET_NONE)
            continue;
        assert(pod->set < group->set_count);
        group->sets[pod->set].count[pod->status]++;
        group->count[pod->status]++;
    }
}

static void group_drop_spec(struct sched *sched, struct group *group)
{
    name_unref(sched, group->queue_name);
    name_unref(sched, group->pool_name);
    name_unref(sched, group->class_name);
    name_unref(sched, group->user_name);
    name_unref(sched, group->refusal);
    group->queue_name = group->pool_name = group->class_name = group->user_name = NULL;
    group->refusal = NULL;
    mem_free(group->detail);
    group->detail = NULL;
    mem_free(group->sets);
    group->sets = NULL;
    group->set_count = 0;
}

/* Whether the event says nothing new: most events about a group tell of its status, which is ours
 * to write. Groups with subgroups or a topology are taken as new. */
static bool group_says(const struct group *group, const struct sched_group *spec)
{
    if (!group->known || group->detail || spec->subgroup_count || spec->topology.topology.len)
        return false;
    return str_eq(group->ns, spec->ns) && str_eq(name_text(group->queue_name), spec->queue) &&
           str_eq(name_text(group->pool_name), spec->pool) &&
           str_eq(name_text(group->class_name), spec->priority_class) &&
           str_eq(name_text(group->user_name), spec->user) &&
           str_eq(name_text(group->refusal), spec->refusal) &&
           group->created_ms == spec->created_ms && group->expected_ms == spec->expected_ms &&
           group->own_priority == spec->priority && group->has_priority == spec->has_priority &&
           group->stale_grace_ms == spec->stale_grace_ms &&
           group->has_stale_grace == spec->has_stale_grace && group->held == spec->held &&
           group->preempt_delay_ms == spec->preempt_delay_ms &&
           group->max_run_ms == spec->max_run_ms && group->requeue == spec->requeue &&
           group->over_ms == spec->over_ms && group->last_eviction_ms >= spec->last_eviction_ms &&
           group->preemptibility == spec->preemptibility && group->whole == spec->whole &&
           group->hold_until_ms == spec->hold_until_ms && group->loss == spec->loss &&
           group->single == spec->single &&
           (!spec->last_start_ms || group->last_start_ms == spec->last_start_ms) &&
           group->stale_since_ms == spec->stale_since_ms &&
           group->sets[1].min == i64_max(1, spec->min_member);
}

void sched_put_group(struct sched *sched, const struct sched_group *spec)
{
    struct group *group = group_get(sched, spec->ns, spec->name, true);

    if (group_says(group, spec))
        return;
    group_weigh(group, -1);
    group_unlink(group);
    group_drop_spec(sched, group);
    if (!str_eq(group->ns, spec->ns)) /* its pods named another namespace */
        group_call(sched, group, spec->ns, spec->name);
    group->known = true;
    group->queue_name = name_get(sched, spec->queue);
    group->pool_name = name_get(sched, spec->pool);
    group->class_name = name_get(sched, spec->priority_class);
    group->user_name = name_get(sched, spec->user);
    group->refusal = spec->refusal.len ? name_get(sched, spec->refusal) : NULL;
    group->created_ms = spec->created_ms;
    group->expected_ms = spec->expected_ms;
    group->own_priority = spec->priority;
    group->has_priority = spec->has_priority;
    group->stale_grace_ms = spec->stale_grace_ms;
    group->has_stale_grace = spec->has_stale_grace;
    group->preempt_delay_ms = spec->preempt_delay_ms;
    group->requeue = spec->requeue;
    /* What the plan decided counts until the annotation says so; it ends with the limit. */
    if (group->max_run_ms != spec->max_run_ms || !group->over_ms || spec->over_ms)
        group->over_ms = spec->max_run_ms > 0 && !spec->requeue ? spec->over_ms : 0;
    group->max_run_ms = spec->max_run_ms;
    if (group->max_run_ms > 0 && !group->in_limited) {
        group->in_limited = true;
        VEC_PUSH(NULL, &sched->limited, group);
    }
    group->last_eviction_ms = i64_max(group->last_eviction_ms, spec->last_eviction_ms);
    bool holds = spec->hold_until_ms > group->hold_until_ms;
    group->hold_until_ms = spec->hold_until_ms;
    group->held = spec->held;
    group->whole = spec->whole;
    group->single = spec->single;
    group->preemptibility = spec->preemptibility;
    group->loss = spec->loss;
    if (spec->subgroup_count || spec->topology.topology.len)
        group->detail = pack_group(spec);
    group->trial.digest = 0;
    if (spec->last_start_ms)
        group->last_start_ms = spec->last_start_ms;
    group->stale_since_ms = spec->stale_since_ms;
    if (group->stale_since_ms && !group->in_stale) {
        group->in_stale = true;
        VEC_PUSH(NULL, &sched->stale, group);
    }
    group_sets(group, group->detail ? group->detail : spec);
    group_count(group);
    group_resolve(sched, group);
    if (holds)
        holds_regroup(sched, group);
    sched->changed = true;
}

void sched_written(struct sched *sched, struct str ns, struct str name, bool failed, int64_t now_ms)
{
    struct group *group = group_get(sched, ns, name, false);

    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_WRITTEN,
                                        .ns = ns,
                                        .name = name,
                                        .failed = failed,
                                        .now_ms = now_ms});
    if (!group || now_ms < group->retry_ms) /* another write of the same plan has failed */
        return;
    if (!failed) {
        group->failures = 0;
        return;
    }
    group->retry_ms = now_ms + rest_ms(&group->failures, SCHED_RETRY_MIN_MS, SCHED_RETRY_MAX_MS);
    sched->changed = true;
}

void group_free(struct sched *sched, struct group *group)
{
    group_unlink(group);
    group_unstray(sched, group);
    for (size_t i = 0; group->in_limited && i < sched->limited.count; i++)
        if (sched->limited.items[i] == group) {
            VEC_REMOVE_SWAP(&sched->limited, i);
            break;
        }
    for (size_t i = 0; group->in_stale && i < sched->stale.count; i++)
        if (sched->stale.items[i] == group) {
            VEC_REMOVE_SWAP(&sched->stale, i);
            break;
        }
    map_remove(&sched->groups_by_key, group->key);
    VEC_DONE(&group->pods);
    group_drop_spec(sched, group);
    heap_str_free(group->ns);
    if (group->told) {
        heap_str_free(group->told->message);
        heap_str_free(group->told->queue);
    }
    mem_free(group->told);
    mem_free(group->failure);
    mem_free(group->kept_at);
    if (group->line)
        mem_free(group->line->pods);
    mem_free(group->line);
    mem_free(group);
}

void group_release(struct sched *sched, struct group *group)
{
    if (group && !group->known && !group->pods.count)
        group_free(sched, group);
}

void sched_drop_group(struct sched *sched, struct str ns, struct str name)
{
    struct group *group = group_get(sched, ns, name, false);

    if (!group || !group->known)
        return;
    holds_dropped(sched, group);
    group_weigh(group, -1);
    group_unlink(group);
    if (group->in_strays == LIST_NONE)
        group_stray(sched, group);
    group->known = false;
    group_drop_spec(sched, group);
    group->created_ms = group->due_ms = group->expected_ms = group->deadline_ms = 0;
    group->preempt_delay_ms = group->last_eviction_ms = group->max_run_ms = group->over_ms = 0;
    group->hold_until_ms = 0;
    group->has_priority = group->has_stale_grace = group->held = false;
    group->whole = group->single = false;
    group->preemptibility = SCHED_BY_PRIORITY;
    group->loss = SCHED_LOSS_UNSET;
    group_count(group);
    group_charge_core(group);
    for (size_t i = 0; i < group->pods.count; i++) /* they guard nothing any more */
        claims_settled(sched, group->pods.items[i]);
    sched->changed = true;
    group_release(sched, group);
}
