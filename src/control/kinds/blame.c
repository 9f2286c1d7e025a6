#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/suspect.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What batch Jobs, and so JobSets and TrainJobs, say of their nodes: the same as the job engine does of
 * its own (job/job_suspect.c). Their controllers count pods that failed and do not ask why, so this one
 * looks at pods. A key is a batch Job.
 *
 * Of the pods of a gang that have failed so far, the one to blame is that of job_is_worse(). One that
 * comes later may be more to blame; then the job blames two nodes, which counts against neither.
 *
 * A pod that failed is there for long, and is looked at again. So what is said has the moment of the
 * failure, and is said while that is news: what was forgotten, after a test or a day, is not said anew. */
#define NEWS_MS  120000
#define PODS_MAX 256 /* that failed, of one gang: the next one would say nothing new */

/* Cheap, of the text alone: most pods have not failed. Those that their node keeps run on. */
static bool may_have_failed(const struct object *pod)
{
    return str_contains(pod->raw, STR("\"phase\":\"Failed\"")) ||
           (object_annotation(pod, PLACE_ANNOTATION).len &&
            str_contains(pod->raw, STR("\"terminated\"")));
}

struct gang {
    const struct control_input *input;
    struct arena *arena;
    size_t count;
    bool found;
    struct job_member worst;
};

/* What was told to go did not fail by itself. */
static void look_at(struct gang *gang, const struct object *job)
{
    static const struct job_model nobody;
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_owned(gang->input->cache, &kind_pod, job->uid, &cursor))) {
        if (pod->deleted_ms || !may_have_failed(pod) || gang->count >= PODS_MAX)
            continue;
        gang->count++;
        struct job_member member = job_observe_pod(gang->input, &nobody, pod, gang->arena);
        if (member.phase != JOB_POD_FAILED || member.taken ||
            gang->input->now_ms - member.failure.time_ms > NEWS_MS ||
            !job_is_worse(&member, gang->found ? &gang->worst : NULL))
            continue;
        gang->worst = member;
        gang->found = true;
    }
}

/* "passed TIME: words", later than the failure. */
static bool is_cleared(const struct gang *gang)
{
    const struct object *node =
        cache_get(gang->input->cache, &kind_node, STR(""), gang->worst.node);
    struct str rest = node ? object_annotation(node, SUSPECT_TESTED) : STR("");
    struct str word = STR_NONE;
    struct str moment = STR_NONE;
    int64_t at_ms = 0;

    return str_cut(&rest, ' ', &word) && str_is(word, "passed") && str_cut(&rest, ' ', &moment) &&
           moment.len && time_parse(str_sub(moment, 0, moment.len - 1), &at_ms) &&
           at_ms >= gang->worst.failure.time_ms;
}

static const struct object *set_of(const struct cache *cache, const struct object *job)
{
    const struct object_owner *owner = object_controller(job);
    const struct object *set = owner && str_is(owner->kind, kind_jobset.name)
                                   ? cache_get(cache, &kind_jobset, job->ns, owner->name)
                                   : NULL;

    return set && str_eq(set->uid, owner->uid) ? set : NULL;
}

/* The topmost: a CronJob blames a node once, however many Jobs it makes. */
static struct job_blamer blamer_of(const struct cache *cache,
                                   const struct object *job,
                                   const struct object *set)
{
    const struct object *above = set ? jobset_above(cache, set) : NULL;
    const struct object *top = above ? above : set ? set : job;
    const struct object_owner *owner = object_controller(top);

    return (struct job_blamer){.ns = top->ns,
                               .name = owner ? owner->name : top->name,
                               .uid = owner ? owner->uid : top->uid};
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *job = cache_get(input->cache, &kind_job, key->ns, key->name);
    const struct object *set = job ? set_of(input->cache, job) : NULL;
    struct gang gang = {.input = input, .arena = actions->arena};
    const struct object *part;
    size_t cursor = 0;

    if (!job || !input->config->node_health)
        return;
    if (!set)
        look_at(&gang, job);
    while (set && (part = cache_next_owned(input->cache, &kind_job, set->uid, &cursor)))
        look_at(&gang, part);
    if (!gang.found || is_cleared(&gang))
        return;
    struct job_blamer who = blamer_of(input->cache, job, set);
    job_blame_node(input, &who, &gang.worst.failure, gang.worst.failure.time_ms, actions->arena,
                   actions);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);

    (void)cache;
    if (owner && str_is(owner->kind, kind_job.name) && object->kind == &kind_pod &&
        may_have_failed(object))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_pod,      &kind_job,  &kind_jobset,
                                             &kind_trainjob, &kind_node, NULL};

const struct controller blame_controller = {.name = "blame",
                                            .embedded = true,
                                            .watches = watches,
                                            .keys = keys,
                                            .reconcile = reconcile};
