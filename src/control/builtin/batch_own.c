#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/batch_job.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"

#include <stdbool.h>
#include <stddef.h>

/* Which pods are a Job's: one that nobody controls and that the Job's selector chooses is taken
 * over, with the finalizer that holds it until it is counted; one that the selector no longer
 * chooses is let go, without it. */

/* Whether the Job has a selector, and it says this of the pod. */
static bool selector_says(const struct object *job, const struct object *pod, bool chosen)
{
    const struct selector *selector = object_selector(job);

    return selector && selector->term_count &&
           selector_matches(selector, pod->labels, pod->label_count) == chosen;
}

bool batch_lost(const struct object *job, const struct object *pod)
{
    return selector_says(job, pod, false);
}

/* The patch that makes the pod the job's, or no longer so. */
static void patch_claim(struct actions *actions,
                        const struct object *job,
                        const struct object *pod,
                        bool adopt)
{
    struct arena *arena = actions->arena;
    const struct json *meta = json_get(object_json(pod, arena), "metadata");
    struct json *patch = json_new_object(arena);
    struct json *wanted = json_add_object(arena, patch, "metadata");

    if (adopt)
        owner_set(arena, wanted, job);
    struct json *owners = adopt ? json_get(wanted, "ownerReferences")
                                : json_add_array(arena, wanted, "ownerReferences");
    JSON_FOREACH(json_get(meta, "ownerReferences"), entry)
        if (!str_eq(json_str(json_get(entry, "uid")), job->uid))
            json_push(owners, json_clone(arena, entry));
    struct json *finalizers = json_add_array(arena, wanted, "finalizers");
    JSON_FOREACH(json_get(meta, "finalizers"), item)
        if (!str_is(json_str(item), BATCH_FINALIZER))
            json_push(finalizers, json_new_str(arena, str_dup(arena, json_str(item))));
    if (adopt)
        json_push(finalizers, json_new_str(arena, STR(BATCH_FINALIZER)));
    action_patch(actions, pod, patch);
}

void batch_release(const struct object *job, const struct object *pod, struct actions *actions)
{
    patch_claim(actions, job, pod, false);
}

static bool job_is_over(const struct json *tree)
{
    JSON_FOREACH(json_at(tree, "status.conditions"), condition) {
        struct str type = json_str(json_get(condition, "type"));

        if ((str_is(type, "Complete") || str_is(type, "Failed")) &&
            str_is(json_str(json_get(condition, "status")), "True"))
            return true;
    }
    return false;
}

const struct object *batch_adopter(const struct cache *cache,
                                   const struct object *pod,
                                   struct arena *arena)
{
    const struct object *job = NULL;
    size_t cursor = 0;

    if (object_controller(pod) || pod->deleted_ms || !cache_count(cache, &kind_job))
        return NULL;
    while ((job = cache_next(cache, &kind_job, pod->ns, &cursor)))
        if (!job->deleted_ms && selector_says(job, pod, true) &&
            !job_is_over(object_json(job, arena)))
            return job;
    return NULL;
}

void batch_adopt(const struct cache *cache, const struct object *pod, struct actions *actions)
{
    const struct object *job = pod ? batch_adopter(cache, pod, actions->arena) : NULL;

    if (job)
        patch_claim(actions, job, pod, true);
}
