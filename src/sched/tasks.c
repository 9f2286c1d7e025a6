#include "sched/tasks.h"

#include "base/arena.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_waiting(const struct pod *pod, bool search)
{
    return pod->ours &&
           (pod->status == ST_PENDING || (search && pod->victim && pod->status == ST_RELEASING));
}

/* How tasks are looked for. */
struct looking {
    bool search;    /* those that the search under way evicted, too */
    bool any_order; /* how many and how much is all that is asked */
};

static void leaf_tasks(struct sched *sched,
                       const struct group *group,
                       uint32_t leaf,
                       int64_t most,
                       struct looking looking,
                       struct pod_vec *ret)
{
    if (group->pods.count == 1) { /* most groups are */
        if (group->pods.items[0]->set == leaf && is_waiting(group->pods.items[0], looking.search))
            VEC_PUSH(sched->arena, ret, group->pods.items[0]);
        return;
    }
    const int32_t *count = group->sets[leaf].count;
    int64_t left = count[ST_PENDING] + (looking.search ? count[ST_RELEASING] : 0);
    bool line = !looking.any_order || left > most;
    struct pod *const *pods = line ? group_pods_in_line(group) : group->pods.items;

    left = i64_min(left, most);
    if (left > 0)
        VEC_RESERVE(sched->arena, ret, ret->count + (size_t)left);
    for (size_t i = line ? group->line->first : 0; left > 0 && i < group->pods.count; i++) {
        sched->steps++;
        if (pods[i]->set != leaf || !is_waiting(pods[i], looking.search))
            continue;
        VEC_PUSH(sched->arena, ret, pods[i]);
        left--;
    }
}

/* Members of a set, those that are satisfied behind the others, in the arena. */
static uint32_t *members_in_order(struct sched *sched,
                                  const struct group *group,
                                  uint32_t set,
                                  size_t *ret_count)
{
    uint32_t *members = ARENA_ARRAY(sched->arena, uint32_t, group->set_count);
    size_t count = 0;

    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next) {
        size_t at = count++;

        while (at && set_start_order(group, child, members[at - 1]) < 0) {
            members[at] = members[at - 1];
            at--;
        }
        members[at] = child;
    }
    *ret_count = count;
    return members;
}

/* The next pods of a set: what it lacks of its minimum, all at once; where it has that, the first
 * of what is above. An inner member that need not start still starts as a gang of its own. */
static void set_tasks(struct sched *sched,
                      const struct group *group,
                      uint32_t index,
                      struct looking looking,
                      struct pod_vec *ret)
{
    const struct set *set = &group->sets[index];
    size_t before = ret->count;
    size_t count = 0;

    if (set->leaf) {
        int64_t missing = set->min - set_active(set);

        leaf_tasks(sched, group, index, missing > 0 ? missing : 1, looking, ret);
        return;
    }
    const uint32_t *members = members_in_order(sched, group, index, &count);
    if (set_satisfied(group, index)) {
        for (size_t i = 0; i < count && ret->count == before; i++)
            if (group->sets[members[i]].leaf)
                leaf_tasks(sched, group, members[i], 1, looking, ret);
            else
                set_tasks(sched, group, members[i], looking, ret);
        return;
    }
    int64_t missing = set->min;
    for (size_t i = 0; i < count; i++)
        missing -= set_satisfied(group, members[i]);
    for (size_t i = 0; i < count && missing > 0; i++)
        if (!set_satisfied(group, members[i])) {
            set_tasks(sched, group, members[i], looking, ret);
            missing--;
        }
}

static void tasks_of(struct sched *sched,
                     const struct group *group,
                     struct looking looking,
                     struct pod_vec *ret)
{
    ret->count = 0;
    if (group->set_count)
        set_tasks(sched, group, group->set_count == 2 ? 1 : 0, looking, ret);
}

void group_tasks(struct sched *sched, const struct group *group, bool search, struct pod_vec *ret)
{
    tasks_of(sched, group, (struct looking){.search = search}, ret);
}

void group_tasks_unordered(struct sched *sched, const struct group *group, struct pod_vec *ret)
{
    tasks_of(sched, group, (struct looking){.any_order = true}, ret);
}

int64_t task_need(const struct sched *sched, const struct pod_vec *tasks, size_t index, size_t want)
{
    const struct pod *pod = tasks->items[index];
    size_t own = pod->shape->want_count;

    if (want < own)
        return pod->wants[want].amount;
    for (size_t i = 0; i < index && !QUIRK(sched, CLAIM_PER_POD); i++)
        for (size_t c = 0; c < tasks->items[i]->claim_count; c++)
            if (tasks->items[i]->claims[c] == pod->claims[want - own])
                return 0;
    return claim_need(sched, pod, want - own);
}

const struct claim *tasks_claim_missing(const struct pod_vec *tasks, struct pod **ret_pod)
{
    for (size_t i = 0; i < tasks->count; i++)
        for (size_t c = 0; c < tasks->items[i]->claim_count; c++)
            if (!tasks->items[i]->claims[c]->known) {
                *ret_pod = tasks->items[i];
                return tasks->items[i]->claims[c];
            }
    return NULL;
}

const struct volume *tasks_volume_missing(const struct pod_vec *tasks, struct pod **ret_pod)
{
    for (size_t i = 0; i < tasks->count; i++) {
        const struct pod_volumes *volumes = pod_volumes(tasks->items[i]);

        for (uint32_t v = 0; v < volumes->count; v++)
            if (pod_volume_trouble(tasks->items[i], volumes->items[v]) != VOLUME_TROUBLE_NONE) {
                *ret_pod = tasks->items[i];
                return volumes->items[v];
            }
    }
    return NULL;
}

const struct claim *tasks_claim_trouble(const struct pod_vec *tasks)
{
    for (size_t i = 0; i < tasks->count; i++)
        for (size_t c = 0; c < tasks->items[i]->claim_count; c++)
            if (tasks->items[i]->claims[c]->trouble.len)
                return tasks->items[i]->claims[c];
    return NULL;
}

void tasks_request(const struct sched *sched,
                   const struct pod_vec *tasks,
                   int64_t ret[static SCHED_RESOURCES])
{
    memset(ret, 0, SCHED_RESOURCES * sizeof(*ret));
    for (size_t i = 0; i < tasks->count; i++) {
        const struct pod *pod = tasks->items[i];

        for (int r = 0; r < SCHED_RESOURCES; r++)
            ret[r] += pod->ask[r];
        for (size_t c = 0; c < pod->claim_count; c++)
            if (pod->claims[c]->gpu)
                ret[SCHED_GPU] += (task_need(sched, tasks, i, pod->shape->want_count + c) -
                                   claim_ask(sched, pod, c)) *
                                  GPU_MILLI;
    }
}

void tasks_least(const struct sched *sched,
                 const struct pod_vec *tasks,
                 int64_t ret[static SCHED_RESOURCES])
{
    tasks_request(sched, tasks, ret);
    for (size_t i = 0; i < tasks->count; i++)
        ret[SCHED_GPU] -= pod_ask_spared(sched, tasks->items[i]);
}
