#include "sched/hold.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/event.h"
#include "sched/explain.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/leaving.h"
#include "sched/node.h"
#include "sched/pending.h"
#include "sched/pod.h"
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

/* The name of the pod that a stand-in stands in for. */
static struct str stand_in_name(const struct pod *pod)
{
    struct str name = pod_name(pod);

    return str_sub(name, 0, str_find(name, '/'));
}

/* ---- the end of a hold ---- */

static bool stand_in_stays(const struct sched *sched, const struct pod *pod)
{
    const struct group *group = pod->group;
    const struct node *node = pod->node;

    return pod->status == ST_RUNNING && group && group->known && group->queue && !group->over_ms &&
           queue_runs(group->queue, SCHED_ACTION_RESERVE) && pod->set != SET_NONE && node &&
           node->known && node->schedulable && stand_in_until(pod) > sched->now_ms;
}

/* It goes on ending as any pod does. */
static void staying_over(struct sched *sched, struct pod *pod)
{
    pod->staying = false;
    if (pod->status == ST_RUNNING)
        pod_set(sched, pod, ST_RELEASING, pod->node, pod_shares(pod), pod->share_count);
    leaving_note(sched, pod, pod->deleted_ms);
}

void holds_judge(struct sched *sched)
{
    size_t kept = 0;

    holds_revived(sched);
    for (size_t i = 0; i < sched->holds.count; i++) {
        struct pod *pod = sched->holds.items[i];
        int64_t until_ms = 0;

        if (!pod->stand_in) {
            until_ms = hold_until(sched, pod, true);
            if (!until_ms) {
                staying_over(sched, pod);
                continue;
            }
        } else {
            if (!pod->rare->held_since_ms)
                pod->rare->held_since_ms = sched->now_ms;
            if (stand_in_stays(sched, pod))
                until_ms = stand_in_until(pod);
            else
                pod_set(sched, pod, ST_FAILED, NULL, NULL, 0);
        }
        if (until_ms)
            sched_wake(sched, until_ms);
        sched->holds.items[kept++] = pod;
    }
    sched->holds.count = kept;
}

/* ---- taking the places ---- */

struct places {
    struct pod_vec pods;  /* stand-ins of the group */
    struct node **nodes;  /* where they stood */
    uint8_t *share_count; /* shares are not put back: their slots may be another's by then */
    bool *taken;
};

/* Those of the group leave their places, in the journal. */
static struct places places_cleared(struct sched *sched, const struct group *group)
{
    struct places places = {0};

    for (size_t i = 0; i < sched->holds.count; i++) {
        struct pod *pod = sched->holds.items[i];

        if (pod->stand_in && pod->group == group && pod->status == ST_RUNNING)
            VEC_PUSH(sched->arena, &places.pods, pod);
    }
    places.nodes = ARENA_ARRAY(sched->arena, struct node *, places.pods.count + 1);
    places.share_count = ARENA_ARRAY(sched->arena, uint8_t, places.pods.count + 1);
    places.taken = ARENA_ARRAY(sched->arena, bool, places.pods.count + 1);
    for (size_t i = 0; i < places.pods.count; i++) {
        places.nodes[i] = places.pods.items[i]->node;
        places.share_count[i] = places.pods.items[i]->share_count;
        pod_set(sched, places.pods.items[i], ST_FAILED, NULL, NULL, 0);
    }
    return places;
}

/* The place of its predecessor, else of one alike; NULL: there is none. */
static struct node *place_take(struct places *places, const struct pod *task)
{
    size_t found = places->pods.count;

    for (size_t i = 0; i < places->pods.count; i++) {
        const struct pod *pod = places->pods.items[i];

        if (places->taken[i] || pod->shape != task->shape)
            continue;
        if (str_eq(stand_in_name(pod), pod_name(task))) {
            found = i;
            break;
        }
        found = found < places->pods.count ? found : i;
    }
    if (found == places->pods.count)
        return NULL;
    places->taken[found] = true;
    return places->nodes[found];
}

/* Pods of an elastic gang that are still to come find their places held. */
static void places_restored(struct sched *sched, const struct places *places)
{
    for (size_t i = 0; i < places->pods.count; i++)
        if (!places->taken[i] && !places->share_count[i])
            pod_set(sched, places->pods.items[i], ST_RUNNING, places->nodes[i], NULL, 0);
}

/* All that can start now: the gang at once, then what is above its minimum one by one. */
static bool group_resume(struct sched *sched, struct group *group, struct places *places)
{
    bool in_place = true;
    bool any = false;

    while (group->count[ST_PENDING]) {
        struct pod_vec tasks = {0};
        struct failure failure;
        bool placed = in_place;

        group_tasks(sched, group, false, &tasks);
        if (!tasks.count)
            break;
        struct node **nodes = ARENA_ARRAY(sched->arena, struct node *, tasks.count);
        for (size_t i = 0; i < tasks.count; i++) {
            nodes[i] = place_take(places, tasks.items[i]);
            placed = placed && nodes[i];
        }
        if (any && !placed)
            break; /* what never had a place stands in line */
        placed = placed && allocate_at(sched, group, &tasks, nodes, &failure);
        in_place = placed;
        if (!placed && (any || !allocate_tasks(sched, group, &tasks, false, &failure)))
            break;
        any = true;
    }
    if (any && in_place)
        places_restored(sched, places);
    return any;
}

static void group_take_places(struct sched *sched, struct group *group)
{
    struct mark mark = journal_mark(sched);
    struct places places = places_cleared(sched, group);

    if (!places.pods.count || !group_allowed(sched, group)) {
        journal_rollback(sched, mark);
        return;
    }
    bool placed = group_resume(sched, group, &places);
    sched->tally[SCHED_ACTION_RESERVE].tried++;
    if (placed && group_must_wait(group)) {
        journal_rollback(sched, mark);
        return;
    }
    /* Where it does not fit any more, its places are of no use to it: it stands in line. */
    sched->tally[SCHED_ACTION_RESERVE].placed += placed;
    journal_commit(sched);
}

void holds_resume(struct sched *sched)
{
    size_t count = sched->holds.count;

    for (size_t i = 0; i < count; i++) {
        struct group *group = sched->holds.items[i]->group;

        if (!group || !group->stand_ins || group->held_in == sched->cycle ||
            !group->count[ST_PENDING])
            continue;
        group->held_in = sched->cycle;
        group_take_places(sched, group);
    }
}

/* ---- words ---- */

uint64_t holds_digest(const struct sched *sched)
{
    uint64_t digest = sched->holds.count;

    for (size_t i = 0; i < sched->holds.count; i++)
        if (sched->holds.items[i]->stand_in)
            digest = digest * 31 + (uint64_t)stand_in_until(sched->holds.items[i]);
    return digest;
}

struct str holds_text(const struct sched *sched, const struct group *group, bool gpus)
{
    int r = gpus ? SCHED_GPU : SCHED_CPU;
    const struct group *first = NULL;
    bool others = false;
    int64_t until_ms = 0;
    int64_t sum = 0;

    for (size_t i = 0; i < sched->holds.count; i++) {
        const struct pod *pod = sched->holds.items[i];

        if (!pod->stand_in || pod->status != ST_RUNNING || pod->group == group ||
            pod->group->queue->pool != group->queue->pool || !pod->charge[r])
            continue;
        others = others || (first && first != pod->group);
        first = first ? first : pod->group;
        until_ms = i64_max(until_ms, stand_in_until(pod));
        sum += pod->charge[r];
    }
    if (!first)
        return STR_NONE;
    return str_printf(sched->arena,
                      "; " STR_FMT " %s held for the restart of " STR_FMT "/" STR_FMT
                      "%s until " STR_FMT,
                      STR_ARG(explain_amount(sched->arena, r, sum)),
                      sum == GPU_MILLI ? "is" : "are", STR_ARG(first->ns), STR_ARG(first->name),
                      others ? " and others" : "", STR_ARG(time_text(sched->arena, until_ms)));
}
