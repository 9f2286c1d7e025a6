#include "sched/explain.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/claim.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/hold.h"
#include "sched/hopeless.h"
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
#include "sched/tenant.h"
#include "sched/volume.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Why a group waits: a record for programs, and one sentence that says what it needs and what there
 * is. Both are kept with the group. They are worked out again when something about the matter
 * changes (the digest), or when they are old; a cycle that changes nothing for a group costs it a
 * comparison. */

/* ---- the matter ---- */
/* What is looked at to say why a group waits. */
struct matter {
    struct sched *sched;
    struct group *group;
    struct pod_vec tasks;          /* what has to be placed next */
    const struct failure *failure; /* of this cycle; NULL: it was not tried */
    struct pod *pod;               /* that did not fit, or that cannot be used */
    struct sched_why why;
    const struct queue *queue; /* that stands in the way; NULL: its own */
};

static const uint32_t resources[SCHED_RESOURCES] = {RES_CPU, RES_MEMORY, RES_GPU};

static int64_t unit_of(int r)
{
    return r == SCHED_GPU ? GPU_MILLI : 1;
}

static int64_t units_of(int r, double amount)
{
    return (int64_t)(r == SCHED_GPU ? amount * GPU_MILLI : amount);
}

/* A pod that can never be placed as it is. */
static struct pod *invalid_pod(const struct matter *matter)
{
    for (size_t i = 0; i < matter->tasks.count; i++)
        if (matter->tasks.items[i]->shape->spec.invalid.len ||
            matter->tasks.items[i]->shape->spec.legacy_mig)
            return matter->tasks.items[i];
    return NULL;
}

static bool short_in_sum(struct matter *matter)
{
    struct sched_why *why = &matter->why;

    for (int r = SCHED_RESOURCES; r-- > 0;) {
        if (why->request[r] <= why->free[r])
            continue;
        why->resource = (enum sched_resource)r;
        why->missing = why->request[r] - why->free[r];
        return true;
    }
    return false;
}

/* The least that is missing on any node that could hold the pod, of what it is short of there. */
static void short_on_node(struct matter *matter, bool when_empty)
{
    const struct pool *pool = matter->group->queue->pool;
    const struct pod *pod = matter->pod;
    int64_t best = INT64_MAX;

    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];

        if (!filter_allowed(matter->sched, pod->shape, node))
            continue;
        for (size_t w = 0; w < pod->want_count; w++) {
            uint32_t res = pod->wants[w].res;
            int64_t room = when_empty ? node->total[res] : node->idle[res];
            int64_t missing = pod->wants[w].amount - room;

            if (missing <= 0 || res >= RES_PODS)
                continue;
            int r = res == RES_GPU ? SCHED_GPU : res == RES_CPU ? SCHED_CPU : SCHED_MEMORY;
            if (missing * unit_of(r) >= best && r == (int)matter->why.resource)
                continue;
            if (r < (int)matter->why.resource && best != INT64_MAX)
                continue; /* GPUs say more than memory, memory more than CPU */
            best = missing * unit_of(r);
            matter->why.resource = (enum sched_resource)r;
            matter->why.missing = best;
        }
    }
}

/* The first resource besides CPU, memory and GPUs of which no node has what the pod asks for. */
static void other_short(struct matter *matter, bool when_empty)
{
    const struct pool *pool = matter->group->queue->pool;
    const struct pod *pod = matter->pod;

    for (size_t w = 0; w < pod->want_count; w++) {
        uint32_t res = pod->wants[w].res;
        int64_t most = 0;

        for (size_t i = 0; i < pool->nodes.count; i++) {
            const struct node *node = pool->nodes.items[i];
            int64_t room = when_empty ? node->total[res] : node->idle[res];

            if (filter_allowed(matter->sched, pod->shape, node) && room > most)
                most = room;
        }
        if (res < RES_FIRST_OTHER || most >= pod->wants[w].amount)
            continue;
        matter->why.other = matter->sched->resources.items[res];
        matter->why.other_asked = pod->wants[w].amount;
        matter->why.other_most = most;
        return;
    }
}

/* Whether all of them are too much for the cluster as it is, with every node empty. */
static bool too_large(struct matter *matter)
{
    struct sched_why *why = &matter->why;
    int64_t count = (int64_t)matter->tasks.count;

    for (int r = SCHED_RESOURCES; r-- > 0;)
        if (why->request[r] > why->total[r]) {
            why->resource = (enum sched_resource)r;
            why->missing = why->request[r] - why->total[r];
            return true;
        }
    int64_t held = tasks_held_empty(matter->sched, matter->group->queue->pool, &matter->tasks);
    if (held >= count)
        return false;
    why->resource = why->request[SCHED_GPU] ? SCHED_GPU : SCHED_CPU;
    why->missing = why->request[why->resource] / count * (count - held);
    return true;
}

/* A pod found no node: which of the many reasons for that binds. */
static enum sched_reason no_node_reason(struct matter *matter)
{
    uint32_t *nodes = matter->why.nodes;
    const uint32_t turned[] = {SCHED_FILTER_UNREADY, SCHED_FILTER_SELECTOR, SCHED_FILTER_TAINT,
                               SCHED_FILTER_GPU_TYPE, SCHED_FILTER_VOLUME};
    uint32_t all = 0;
    uint32_t out = 0;

    place_count(matter->sched, matter->pod, nodes);
    for (size_t i = 0; i <= SCHED_FILTER_COUNT; i++)
        all += nodes[i];
    for (size_t i = 0; i < COUNT_OF(turned); i++)
        out += nodes[turned[i]];
    if (out == all)
        return SCHED_REASON_NO_NODE;
    if (out + nodes[SCHED_FILTER_TOO_SMALL] == all) {
        short_on_node(matter, true);
        other_short(matter, true);
        return SCHED_REASON_TOO_BIG;
    }
    if (matter->tasks.count > 1 && too_large(matter))
        return SCHED_REASON_TOO_LARGE;
    bool some = nodes[SCHED_FILTER_COUNT] > 0;
    if (!some && nodes[SCHED_FILTER_RESERVED])
        return SCHED_REASON_RESERVED;
    if (!some && nodes[SCHED_FILTER_SHUT])
        return SCHED_REASON_NO_NODE;
    if (!some &&
        (nodes[SCHED_FILTER_AFFINITY] || nodes[SCHED_FILTER_SPREAD] || nodes[SCHED_FILTER_PORT]))
        return SCHED_REASON_AFFINITY;
    if (short_in_sum(matter))
        return SCHED_REASON_NO_ROOM;
    if (!some && nodes[SCHED_FILTER_OTHER]) {
        other_short(matter, false);
        if (matter->why.other.len)
            return SCHED_REASON_NO_ROOM;
    }
    if (!matter->pod->shape->local) /* some have room for one: the pods keep each other away */
        return SCHED_REASON_AFFINITY;
    if (matter->pod->shape->shared || !matter->tasks.count)
        return SCHED_REASON_FRAGMENTED;
    short_on_node(matter, false);
    return SCHED_REASON_FRAGMENTED;
}

static enum sched_reason failure_reason(struct matter *matter)
{
    const struct failure *failure = matter->failure;
    struct sched_why *why = &matter->why;
    int r = (int)failure->resource;

    if (failure->reason == SCHED_REASON_OVER_LIMIT || failure->reason == SCHED_REASON_OVER_QUOTA) {
        bool limit = failure->reason == SCHED_REASON_OVER_LIMIT;
        const struct queue *queue = failure->queue;
        double most = limit ? queue->spec.quota[r].limit : queue->spec.quota[r].quota;
        int64_t used =
            limit ? queue->allocated[r] + queue->kept[r] : queue->fixed[r] + queue->kept_fixed[r];

        int64_t missing = used + why->request[r] - units_of(r, most);
        if (missing <= 0 &&
            why->request
                [r]) { /* somebody of the queue lost room since: it is tried again at once */
            matter->sched->undone = true;
            return SCHED_REASON_IN_LINE;
        }
        matter->queue = queue;
        why->resource = failure->resource;
        why->missing = missing;
        return failure->reason;
    }
    if (failure->reason != SCHED_REASON_NO_ROOM)
        return failure->reason;
    matter->pod = failure->pod;
    return no_node_reason(matter);
}

static int64_t lacking_pods(const struct group *group, const struct set **ret)
{
    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        int64_t have = set_active(set) + set->count[ST_PENDING];

        *ret = set;
        if (set->leaf && have < set->min && set_required(group, i))
            return set->min - have;
    }
    return 0;
}

static enum sched_reason reason_of(struct matter *matter)
{
    const struct group *group = matter->group;
    const struct queue *queue = group->queue;
    const struct set *set = NULL;

    if (!group->known)
        return SCHED_REASON_NO_GROUP;
    if (group->refusal)
        return SCHED_REASON_INVALID;
    if (!queue)
        return SCHED_REASON_NO_QUEUE;
    if (queue->broken || queue->children.count ||
        !str_eq(name_text(group->pool_name), queue->spec.pool))
        return SCHED_REASON_QUEUE_BROKEN;
    if (tenant_refused(matter->sched, group))
        return SCHED_REASON_NAMESPACE;
    if (group->held || group->over_ms || matter->sched->now_ms < group->retry_ms)
        return SCHED_REASON_HELD;
    if (group->stand_ins)
        return SCHED_REASON_NOT_READY;
    if (!group_ready(group)) {
        matter->why.missing = lacking_pods(group, &set);
        return set && set->count[ST_GATED] >= matter->why.missing && matter->why.missing
                   ? SCHED_REASON_GATED
                   : SCHED_REASON_NOT_READY;
    }
    if (group->count[ST_PIPELINED])
        return SCHED_REASON_TERMINATING;
    matter->pod = invalid_pod(matter);
    if (matter->pod)
        return SCHED_REASON_INVALID;
    if (tasks_claim_missing(&matter->tasks, &matter->pod))
        return SCHED_REASON_NO_CLAIM;
    if (tasks_volume_missing(&matter->tasks, &matter->pod))
        return SCHED_REASON_VOLUME;
    if (!matter->failure || matter->failure->reason == SCHED_REASON_NONE)
        return SCHED_REASON_IN_LINE;
    return failure_reason(matter);
}

/* ---- sentences ---- */
/* What a request is named after: GPUs where it has any. */
static int main_resource(const struct matter *matter)
{
    const int64_t *request = matter->why.request;

    return request[SCHED_GPU] ? SCHED_GPU : request[SCHED_CPU] ? SCHED_CPU : SCHED_MEMORY;
}

/* What is short, where one of the three is, else what the request is named after. */
static int short_resource(const struct matter *matter)
{
    return matter->why.missing ? (int)matter->why.resource : main_resource(matter);
}

/* "1 GPU", "1 GPU and 64 GiB of memory" where it is memory that stands in the way; "2 of
 * example.com/fpga". A request for nothing of the kind is not spelt as zero of it. */
static struct str request_text(struct matter *matter)
{
    struct arena *arena = matter->sched->arena;
    const struct sched_why *why = &matter->why;
    int main = main_resource(matter);
    int lacks = short_resource(matter);
    struct str text =
        why->request[main] ? explain_amount(arena, main, why->request[main]) : STR_NONE;

    if (lacks != main && why->request[lacks])
        text = str_printf(arena, STR_FMT " and " STR_FMT, STR_ARG(text),
                          STR_ARG(explain_amount(arena, lacks, why->request[lacks])));
    if (why->other.len)
        text =
            str_printf(arena, STR_FMT "%s%lld of " STR_FMT, STR_ARG(text), text.len ? " and " : "",
                       (long long)why->other_asked, STR_ARG(why->other));
    return text.len ? text : STR("a place");
}

static struct str needs_text(struct matter *matter)
{
    struct arena *arena = matter->sched->arena;
    struct str amount = request_text(matter);

    if (matter->tasks.count <= 1)
        return str_printf(arena, "needs " STR_FMT, STR_ARG(amount));
    return str_printf(arena, "needs " STR_FMT " in a gang of %zu pods", STR_ARG(amount),
                      matter->tasks.count);
}

static struct str free_text(const struct matter *matter, int r)
{
    struct arena *arena = matter->sched->arena;
    const struct sched_why *why = &matter->why;
    int64_t unused = why->free[r];
    struct str all = explain_amount(arena, r, why->total[r]);

    if (why->other.len)
        return why->other_most
                   ? str_printf(arena, "no node has more than %lld%s", (long long)why->other_most,
                                why->reason == SCHED_REASON_TOO_BIG ? "" : " free")
                   : str_printf(arena, "no node has %s",
                                why->reason == SCHED_REASON_TOO_BIG ? "any" : "any free");
    if (r == SCHED_GPU)
        return str_printf(arena, "%lld of " STR_FMT " %s free", (long long)(unused / GPU_MILLI),
                          STR_ARG(all), matter->why.total[r] == GPU_MILLI ? "is" : "are");
    return str_printf(arena, STR_FMT " of " STR_FMT " are free",
                      STR_ARG(explain_amount(arena, r, unused)), STR_ARG(all));
}

static const char *sched_filter_text(enum sched_filter filter)
{
#define X_TEXT(name, word, text) [SCHED_FILTER_##name] = text,
    static const char *const texts[SCHED_FILTER_COUNT] = {SCHED_FILTERS(X_TEXT)};
#undef X_TEXT
    return texts[filter];
}

/* "3 nodes short of GPUs, 1 node with a taint the pod does not tolerate" */
static struct str nodes_text(const struct matter *matter)
{
    struct arena *arena = matter->sched->arena;
    const uint32_t *nodes = matter->why.nodes;
    struct str text = STR_NONE;

    for (unsigned f = 0; f < SCHED_FILTER_COUNT; f++)
        if (nodes[f])
            text = str_printf(arena, STR_FMT "%s%u node%s %s", STR_ARG(text), text.len ? ", " : "",
                              nodes[f], nodes[f] == 1 ? "" : "s",
                              sched_filter_text((enum sched_filter)f));
    if (nodes[SCHED_FILTER_COUNT])
        return str_printf(arena, STR_FMT "%s%u node%s with room for one pod", STR_ARG(text),
                          text.len ? ", " : "", nodes[SCHED_FILTER_COUNT],
                          nodes[SCHED_FILTER_COUNT] == 1 ? "" : "s");
    return text.len ? text : str_printf(arena, "there are no nodes");
}

static struct str too_large_text(struct matter *matter)
{
    struct arena *arena = matter->sched->arena;
    const struct pool *pool = matter->group->queue->pool;
    const struct sched_why *why = &matter->why;
    int r = (int)why->resource;
    struct str where = pool->name.len ? str_printf(arena, "node pool " STR_FMT, STR_ARG(pool->name))
                                      : STR("the cluster");

    if (why->request[r] > why->total[r])
        return str_printf(arena, STR_FMT "; " STR_FMT " has " STR_FMT " in all",
                          STR_ARG(needs_text(matter)), STR_ARG(where),
                          STR_ARG(explain_amount(arena, r, why->total[r])));
    return str_printf(arena,
                      STR_FMT "; even with every node empty, " STR_FMT
                              " has room for %lld of them (" STR_FMT ")",
                      STR_ARG(needs_text(matter)), STR_ARG(where),
                      (long long)tasks_held_empty(matter->sched, pool, &matter->tasks),
                      STR_ARG(nodes_text(matter)));
}

/* What would keep it waiting even if its queue allowed it: a shortage of something else. */
static struct str besides_text(struct matter *matter)
{
    static const enum sched_filter filters[SCHED_RESOURCES] = {
        SCHED_FILTER_CPU, SCHED_FILTER_MEMORY, SCHED_FILTER_GPU};
    struct arena *arena = matter->sched->arena;
    struct sched_why *why = &matter->why;
    int limited = (int)why->resource;

    if (!matter->tasks.count)
        return STR_NONE;
    place_count(matter->sched, matter->tasks.items[0], why->nodes);
    if (!why->nodes[SCHED_FILTER_COUNT] && !why->nodes[filters[limited]])
        return str_printf(arena, "; besides, no node has room for %s (" STR_FMT ")",
                          matter->tasks.count == 1 ? "it" : "one of them",
                          STR_ARG(nodes_text(matter)));
    for (int r = SCHED_RESOURCES; r-- > 0;)
        if (r != limited && why->request[r] > why->free[r])
            return str_printf(arena, "; besides, " STR_FMT, STR_ARG(free_text(matter, r)));
    return STR_NONE;
}

static struct str quota_text(struct matter *matter, enum sched_reason reason)
{
    static const char *const names[SCHED_RESOURCES] = {"CPU", "memory", "GPU"};
    struct arena *arena = matter->sched->arena;
    const struct queue *queue = matter->queue;
    int r = (int)matter->why.resource;
    bool limit = reason == SCHED_REASON_OVER_LIMIT;
    double most = limit ? queue->spec.quota[r].limit : queue->spec.quota[r].quota;
    struct str used = explain_amount(arena, r, limit ? queue->allocated[r] : queue->fixed[r]);
    struct str bound = explain_amount(arena, r, units_of(r, most));
    int64_t kept = limit ? queue->kept[r] : queue->kept_fixed[r];
    struct str held =
        kept && !matter->group->keep
            ? str_printf(arena, ", " STR_FMT " of it reserved for groups that waited longer",
                         STR_ARG(explain_amount(arena, r, kept)))
            : STR_NONE;

    if (limit)
        return str_printf(arena,
                          STR_FMT "; queue " STR_FMT " uses " STR_FMT
                                  " and its %s limit is " STR_FMT STR_FMT STR_FMT,
                          STR_ARG(needs_text(matter)), STR_ARG(queue->name), STR_ARG(used),
                          names[r], STR_ARG(bound), STR_ARG(held), STR_ARG(besides_text(matter)));
    return str_printf(arena,
                      STR_FMT " and is not preemptible; queue " STR_FMT " uses " STR_FMT
                              " of its %s quota of " STR_FMT " for such work" STR_FMT STR_FMT,
                      STR_ARG(needs_text(matter)), STR_ARG(queue->name), STR_ARG(used), names[r],
                      STR_ARG(bound), STR_ARG(held), STR_ARG(besides_text(matter)));
}

static struct str not_ready_text(const struct matter *matter)
{
    const struct group *group = matter->group;
    const struct set *set = NULL;
    int64_t missing = lacking_pods(group, &set);

    if (group->stand_ins)
        return str_printf(matter->sched->arena,
                          "its room is held while it restarts; waiting for all of its pods");
    if (!set)
        return STR("has no pods");
    return str_printf(matter->sched->arena,
                      "%lld pod%s found while %lld required for gang " STR_FMT,
                      (long long)(set->min - missing), set->min - missing == 1 ? "" : "s",
                      (long long)set->min, STR_ARG(group->set_count > 2 ? set->name : group->name));
}

static struct str gated_text(const struct matter *matter)
{
    int64_t gated = matter->group->count[ST_GATED];

    if (group_suspended(matter->sched, matter->group))
        return STR("suspended until somebody resumes it; its pods keep their memory and place");
    return str_printf(matter->sched->arena,
                      "%lld pod%s of the gang %s scheduling gates that must be removed",
                      (long long)gated, gated == 1 ? "" : "s", gated == 1 ? "has" : "have");
}

static struct str kept_text(const struct matter *matter)
{
    const struct group *group = matter->group;

    if (!group_kept(matter->sched, group))
        return STR_NONE;
    int r = (int)group->kept_resource;
    if (!group->kept_blocked)
        return STR("; room is reserved for it");
    return str_printf(
        matter->sched->arena, "; room is reserved for it, of which others still use " STR_FMT,
        STR_ARG(explain_amount(matter->sched->arena, r, group->kept_blocked * unit_of(r))));
}

/* It may not take room from others yet. */
static struct str delay_text(const struct matter *matter)
{
    int64_t until_ms = group_delayed_until(matter->sched, matter->group);
    struct arena *arena = matter->sched->arena;

    if (!until_ms)
        return STR_NONE;
    return str_printf(arena, "; its preemptionDelay lets it evict nobody before " STR_FMT,
                      STR_ARG(time_text(arena, until_ms)));
}

/* Where a queue goes by its users: what this one has of it. */
static struct str user_text(const struct matter *matter)
{
    const struct group *group = matter->group;
    struct arena *arena = matter->sched->arena;
    int r = matter->why.request[SCHED_GPU] ? SCHED_GPU : SCHED_CPU;

    if (!group->payer || !group->payer->user.len)
        return STR_NONE;
    return str_printf(arena, "; user " STR_FMT " holds " STR_FMT " of its queue, where users share",
                      STR_ARG(group->payer->user),
                      STR_ARG(explain_amount(arena, r, group->payer->held[r])));
}

/* Where a gang may fit although no way was found. */
static struct str cut_text(const struct matter *matter)
{
    if (!matter->failure || !matter->failure->cut)
        return STR_NONE;
    return str_printf(matter->sched->arena,
                      "; not every way to arrange its %zu pods was tried, there are too many",
                      matter->tasks.count);
}

static struct str trouble_text(struct matter *matter)
{
    const struct claim *claim = tasks_claim_trouble(&matter->tasks);

    if (matter->pod && matter->why.nodes[SCHED_FILTER_VOLUME])
        return volume_names_text(matter->sched->arena, matter->pod);
    return claim ? str_printf(matter->sched->arena, "; claim " STR_FMT ": " STR_FMT,
                              STR_ARG(claim_name(claim)), STR_ARG(claim->trouble))
                 : STR("");
}

/* What is needed and what there is. Groups that ask for the same and meet the same are told the same:
 * the last sentence of the cycle is kept with what it was made from. */
struct stem {
    uint32_t cycle;
    size_t tasks;
    bool pod;
    struct sched_why why;
    struct str text;
};

static struct str stem_make(struct matter *matter)
{
    struct arena *arena = matter->sched->arena;
    struct str needs = needs_text(matter);
    struct str unused = free_text(matter, short_resource(matter));

    if (!matter->pod)
        return str_printf(arena, STR_FMT "; " STR_FMT, STR_ARG(needs), STR_ARG(unused));
    return str_printf(arena, STR_FMT "; " STR_FMT " (" STR_FMT ")", STR_ARG(needs), STR_ARG(unused),
                      STR_ARG(nodes_text(matter)));
}

static struct str stem_text(struct matter *matter)
{
    struct sched *sched = matter->sched;
    struct stem *last = sched->stem;
    bool pod = matter->pod != NULL;

    /* Bytes that are not equal though the values are only cost the sentence anew. */
    if (last && last->cycle == sched->cycle && last->tasks == matter->tasks.count &&
        last->pod == pod && memcmp(&last->why, &matter->why, sizeof(last->why)) == 0)
        return last->text;
    if (!last)
        last = sched->stem = MEM_NEW(struct stem);
    *last = (struct stem){
        .cycle = sched->cycle, .tasks = matter->tasks.count, .pod = pod, .text = stem_make(matter)};
    memcpy(&last->why, &matter->why, sizeof(last->why));
    return last->text;
}

static struct str room_text(struct matter *matter)
{
    struct str tails[] = {kept_text(matter),
                          delay_text(matter),
                          holds_text(matter->sched, matter->group, matter->why.request[SCHED_GPU]),
                          user_text(matter),
                          trouble_text(matter),
                          cut_text(matter)};
    struct str text = stem_text(matter);

    for (size_t i = 0; i < COUNT_OF(tails); i++)
        if (tails[i].len)
            text =
                str_printf(matter->sched->arena, STR_FMT STR_FMT, STR_ARG(text), STR_ARG(tails[i]));
    return text;
}

static struct str reason_text(struct matter *matter, enum sched_reason reason)
{
    struct arena *arena = matter->sched->arena;
    const struct group *group = matter->group;

    switch (reason) {
    case SCHED_REASON_NO_GROUP:
        if (matter->why.elsewhere)
            return STR("waits for the scheduler that schedulerName of its pods names");
        return str_printf(arena, "pod group " STR_FMT " does not exist yet", STR_ARG(group->name));
    case SCHED_REASON_NO_QUEUE: return tenant_unknown_text(matter->sched, group);
    case SCHED_REASON_QUEUE_BROKEN:
    case SCHED_REASON_NAMESPACE: return tenant_text(matter->sched, group);
    case SCHED_REASON_NO_CLAIM:
        return str_printf(
            arena, "pod " STR_FMT " waits for the ResourceClaim " STR_FMT ", which does not exist",
            STR_ARG(pod_name(matter->pod)),
            STR_ARG(tasks_claim_missing(&matter->tasks, &matter->pod)->key));
    case SCHED_REASON_VOLUME:
        return volume_waits_text(arena, matter->pod,
                                 tasks_volume_missing(&matter->tasks, &matter->pod));
    case SCHED_REASON_HELD:
        if (group->over_ms)
            return str_printf(arena,
                              "has run for its maxRunTime of " STR_FMT " and is not started again",
                              STR_ARG(time_age(arena, group->max_run_ms)));
        return group->held
                   ? STR("held back by schedulingBackoff until its node pool changes")
                   : STR("the decision on it could not be written; it is tried again in a moment");
    case SCHED_REASON_NOT_READY: return not_ready_text(matter);
    case SCHED_REASON_GATED: return gated_text(matter);
    case SCHED_REASON_TERMINATING:
        return STR("room is reserved; waiting for the pods that use it to end");
    case SCHED_REASON_INVALID:
        if (group->refusal)
            return name_text(group->refusal);
        assert(matter->pod);
        return str_printf(arena, "pod " STR_FMT " cannot be placed: " STR_FMT,
                          STR_ARG(pod_name(matter->pod)),
                          STR_ARG(matter->pod->shape->spec.invalid.len
                                      ? matter->pod->shape->spec.invalid
                                      : STR("an annotation asks for a MIG profile; ask for the "
                                            "resource nvidia.com/mig-... instead")));
    case SCHED_REASON_OVER_LIMIT:
    case SCHED_REASON_OVER_QUOTA: return quota_text(matter, reason);
    case SCHED_REASON_TOO_LARGE: return too_large_text(matter);
    case SCHED_REASON_TOPOLOGY:
        return str_printf(arena, STR_FMT "; " STR_FMT STR_FMT STR_FMT, STR_ARG(needs_text(matter)),
                          STR_ARG(matter->failure->text), STR_ARG(kept_text(matter)),
                          STR_ARG(cut_text(matter)));
    case SCHED_REASON_IN_LINE: {
        uint32_t depth = group_policy(matter->group)->depth[SCHED_ACTION_ALLOCATE];

        if (depth)
            return str_printf(arena,
                              STR_FMT "; in line: queueDepthPerAction looks at the first %u of its "
                                      "queue",
                              STR_ARG(needs_text(matter)), (unsigned)depth);
        return str_printf(arena, STR_FMT "; in line", STR_ARG(needs_text(matter)));
    }
    case SCHED_REASON_NO_NODE:
    case SCHED_REASON_TOO_BIG:
    case SCHED_REASON_NO_ROOM:
    case SCHED_REASON_FRAGMENTED:
    case SCHED_REASON_AFFINITY:
    case SCHED_REASON_RESERVED:
    case SCHED_REASON_NONE:
    case SCHED_REASON_COUNT: break;
    }
    return room_text(matter);
}

static struct str reason_sentence(struct matter *matter, enum sched_reason reason)
{
    const struct pod *pod = group_suspended(matter->sched, matter->group);
    struct str text = reason_text(matter, reason);

    if (!pod || reason == SCHED_REASON_GATED)
        return text;
    return str_printf(matter->sched->arena,
                      "suspended on node " STR_FMT
                      ", where it goes on when it has its GPUs again: " STR_FMT,
                      STR_ARG(pod->home->text), STR_ARG(text));
}

/* ---- keeping the record ---- */
static uint64_t digest_mixed(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ (digest >> 29);
}

/* Everything about the matter but the numbers that change all the time. */
static uint64_t digest_of(const struct sched *sched, const struct group *group)
{
    const struct failure *failure = group->failure;
    uint64_t digest = digest_mixed(1, group->known);

    digest = digest_mixed(digest, group->queue ? group->queue->index + 1 : 0);
    for (int s = 0; s < ST_COUNT; s++)
        digest = digest_mixed(digest, (uint64_t)group->count[s]);
    digest = digest_mixed(digest, group_kept(sched, group));
    digest = digest_mixed(digest, group->held);
    digest = digest_mixed(digest, group->refusal || tenant_refused(sched, group));
    digest = digest_mixed(digest, holds_digest(sched));
    digest = digest_mixed(digest, group->over_ms != 0);
    if (group_suspended(sched, group))
        digest = digest_mixed(digest, 2);
    digest = digest_mixed(digest, sched->now_ms < group->retry_ms);
    digest = digest_mixed(digest, (uint64_t)group_delayed_until(sched, group));
    if (!failure || failure->cycle != sched->cycle)
        return digest;
    digest = digest_mixed(digest, failure->reason);
    digest = digest_mixed(digest, failure->queue ? failure->queue->index + 1 : 0);
    digest = digest_mixed(digest, failure->resource);
    digest = digest_mixed(digest, failure->cut);
    digest = digest_mixed(digest, failure->pod ? failure->pod->shape->id : 0);
    for (size_t i = 0; i < failure->text.len; i++)
        digest = digest_mixed(digest, (unsigned char)failure->text.p[i]);
    /* Too few GPUs in all are one matter, enough of them in the wrong places another. */
    if (failure->pod && group->queue)
        digest = digest_mixed(digest, ((int64_t)failure->placed + 1) * failure->pod->gpus >
                                          group->queue->pool->idle[RES_GPU]);
    return digest_mixed(digest, sched->nodes_version);
}

static void fill_amounts(struct matter *matter)
{
    struct sched_why *why = &matter->why;
    const struct group *group = matter->group;

    if (!group->queue || !group->known)
        return;
    /* A large gang is explained with every batch of its pods that arrives: only when it is whole
     * does it matter which of them comes first. */
    if (group_ready(group))
        group_tasks(matter->sched, group, false, &matter->tasks);
    else
        group_tasks_unordered(matter->sched, group, &matter->tasks);
    tasks_request(matter->sched, &matter->tasks, why->request);
    why->pods = (uint32_t)matter->tasks.count;
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        why->free[r] = group->queue->pool->idle[resources[r]] * unit_of(r);
        why->total[r] = group->queue->pool->whole[resources[r]] * unit_of(r);
    }
}

bool explain_group(struct sched *sched, struct group *group)
{
    uint64_t digest = digest_of(sched, group);
    struct matter matter = {.sched = sched, .group = group};

    struct told *told = group->told;

    if (told && told->digest == digest && sched->now_ms < told->why.at_ms + SCHED_WHY_MS)
        return false;
    if (!told)
        told = group->told = MEM_NEW(struct told);
    if (group->failure && group->failure->cycle == sched->cycle)
        matter.failure = group->failure;
    fill_amounts(&matter);
    matter.why.reason = reason_of(&matter); /* reason_sentence() reads it too */
    matter.why.at_ms = sched->now_ms;
    matter.why.elsewhere = group->pods.count && !group->pods.items[0]->ours;
    struct str message = reason_sentence(&matter, matter.why.reason);
    bool changed = !str_eq(told->message, message);
    told->why = matter.why;
    told->digest = digest;
    heap_str_free(told->queue);
    told->queue = matter.queue ? heap_str(matter.queue->name) : STR_NONE;
    if (changed) {
        heap_str_free(told->message);
        told->message = heap_str(message);
    }
    return changed;
}
