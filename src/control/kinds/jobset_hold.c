#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/hold.h"
#include "control/core/status.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JobSet that restarts keeps its room, as a gang of the job engine does (job/job_hold.c). Its pods
 * are other Jobs' in each attempt and have other names: places of pods that ask for the same are as
 * good. */

void jobset_hold_mark(const struct jobset *set, struct json *template)
{
    int64_t ms = hold_ms(set->object, set->arena, NULL);

    if (ms && jobset_may_restart(set))
        hold_mark(set->arena, template, ms);
}

static int64_t condition_ms(const struct json *status, const char *type)
{
    int64_t ms = 0;

    if (condition_is_true(status, type))
        (void)time_parse(json_str(json_get(condition_find(status, type), "lastTransitionTime")),
                         &ms);
    return ms;
}

/* When the last of the Jobs failed that a restart has made a thing of the past; 0: none is left. Those
 * of a set that was to restart in place go before they fail. */
static int64_t stale_failed_ms(const struct jobset *set)
{
    int64_t last_ms =
        set->stays && set->stale.count ? condition_ms(set->status, "RestartingJobSet") : 0;

    for (size_t i = 0; i < set->stale.count; i++) {
        const struct json *status =
            json_get(object_json(set->stale.items[i], set->arena), "status");
        int64_t ms = condition_ms(status, "Failed");

        last_ms = ms > last_ms ? ms : last_ms;
    }
    return last_ms;
}

static bool all_run(const struct jobset *set)
{
    for (size_t i = 0; i < set->parts.count; i++)
        if (set->parts.items[i].ready + set->parts.items[i].succeeded <
            set->parts.items[i].replicas)
            return false;
    return !set->stale.count;
}

/* It failed for good, and its pods may have said that their room is held. */
static int64_t failed_for_good_ms(const struct jobset *set)
{
    return set->spec.may_fail ? condition_ms(set->status, "Failed") : 0;
}

/* Until when a group is to be told to hold its room; `told_ms`: as it is. 0: it is not to be told. */
static int64_t hold_due_ms(const struct jobset *set, bool over, int64_t told_ms)
{
    int64_t now_ms = set->input->now_ms / 1000 * 1000;
    int64_t failed_ms = 0;

    if (over || set->suspended) {
        failed_ms = over ? failed_for_good_ms(set) : 0;
        bool untold = told_ms < failed_ms && now_ms < failed_ms + HOLD_MAX_MS;

        return told_ms > now_ms || untold ? now_ms : told_ms;
    }
    failed_ms = stale_failed_ms(set);
    int64_t until_ms = failed_ms + hold_ms(set->object, set->arena, NULL);
    if (failed_ms && until_ms > failed_ms && until_ms > now_ms && told_ms < until_ms)
        return until_ms;
    return told_ms && all_run(set) ? 0 : told_ms;
}

void jobset_hold(struct jobset *set, bool over)
{
    const struct object *group;
    size_t cursor = 0;

    while (
        (group = cache_next_owned(set->input->cache, &kind_podgroup, set->object->uid, &cursor))) {
        int64_t told_ms = hold_told_ms(group);
        int64_t due_ms = hold_due_ms(set, over, told_ms);

        if (due_ms != told_ms)
            hold_write(set->actions, group, due_ms);
    }
}
