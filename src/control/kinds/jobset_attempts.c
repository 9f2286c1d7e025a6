#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* restartStrategy InPlaceRestart with an agent of JobSet in every pod, which a kubelet restarts by
 * restartPolicyRules. An agent writes the attempt that its pod is at into an annotation. When all pods
 * are at the same one, it is the current attempt, and the agents let their programs start. Else those
 * that are behind the furthest must start again: the attempt before that one is the previous one. */

struct attempts {
    int64_t pods; /* that say at which they are */
    int64_t first;
    int64_t last;
    int64_t restarts; /* of the container that was restarted most often */
};

static void look_at(struct attempts *a, const struct json *pod, struct str word)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};
    int64_t attempt = -1;

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod, lists[i]), container) {
            int64_t count = json_i64_or(json_get(container, "restartCount"), 0);

            a->restarts = count > a->restarts ? count : a->restarts;
        }
    if (!str_to_i64(word, &attempt) || attempt < 0 || attempt > INT32_MAX)
        return;
    a->first = !a->pods || attempt < a->first ? attempt : a->first;
    a->last = attempt > a->last ? attempt : a->last;
    a->pods++;
}

static struct attempts look(const struct jobset *set)
{
    struct attempts a = {0};

    for (size_t i = 0; i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++) {
            const struct object *job = set->parts.items[i].jobs.items[j].object;
            const struct object *pod = NULL;
            size_t cursor = 0;

            while ((pod = cache_next_owned(set->input->cache, &kind_pod, job->uid, &cursor)))
                look_at(&a, object_json(pod, set->arena),
                        object_annotation(pod, JOBSET_POD_ATTEMPT));
        }
    return a;
}

static int64_t pods_wanted(const struct jobset *set)
{
    int64_t sum = 0;

    for (size_t i = 0; i < set->parts.count; i++)
        sum += set->parts.items[i].replicas *
               json_i64_or(json_at(set->parts.items[i].spec->template, "spec.parallelism"), 1);
    return sum;
}

bool jobset_attempts(struct jobset *set)
{
    if (!set->agents || set->suspended)
        return false;
    struct attempts a = look(set);
    int64_t free =
        jobset_restarts(set) - json_i64_or(json_get(set->status, "restartsCountTowardsMax"), 0);
    if (a.restarts > set->spec.max_restarts || a.last - free > set->spec.max_restarts) {
        jobset_finish(set, false, "ReachedMaxRestarts",
                      str_printf(set->arena,
                                 "the pods were restarted in place more often than maxRestarts "
                                 "(%lld) allows",
                                 (long long)set->spec.max_restarts));
        return true;
    }
    if (a.pods == pods_wanted(set) && a.pods && a.first == a.last)
        json_add_i64(set->arena, set->status, JOBSET_ROUND_DONE, a.last);
    else if (a.last - 1 > json_i64_or(json_get(set->status, JOBSET_ROUND_PAST), -1))
        json_add_i64(set->arena, set->status, JOBSET_ROUND_PAST, a.last - 1);
    return false;
}
