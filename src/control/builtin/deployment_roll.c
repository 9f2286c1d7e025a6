#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/deployment.h"
#include "control/core/control.h"

#include <assert.h>

/* How many pods each ReplicaSet of a Deployment should have now. */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t sum_replicas(const struct deployment *d)
{
    int64_t sum = 0;

    for (size_t i = 0; i < d->sets.count; i++)
        sum += d->sets.items[i].replicas;
    return sum;
}

/* ---- rolling ---- */

/* True: it was scaled, and the others wait for the next look. */
static bool grow_newest(struct deployment *d)
{
    struct deployment_set *set = d->newest;
    int64_t room = d->replicas + d->surge - sum_replicas(d);

    if (set->replicas == d->replicas)
        return false;
    if (set->replicas > d->replicas) {
        deployment_scale(d, set, d->replicas);
        return true;
    }
    if (room <= 0)
        return false;
    deployment_scale(d, set, set->replicas + least(room, d->replicas - set->replicas));
    return true;
}

/* Pods of old ReplicaSets that do not serve go first: they are missed by nobody. */
static void shrink_unhealthy(struct deployment *d, int64_t *room)
{
    for (size_t i = 0; i<d->sets.count && * room> 0; i++) {
        struct deployment_set *set = &d->sets.items[i];
        int64_t count = least(*room, set->replicas - set->available);

        if (set == d->newest || count <= 0)
            continue;
        deployment_scale(d, set, set->replicas - count);
        *room -= count;
    }
}

static void shrink_old(struct deployment *d)
{
    int64_t keep = d->replicas - d->gone;
    int64_t missing = d->newest->replicas - d->newest->available;
    int64_t room = sum_replicas(d) - keep - (missing > 0 ? missing : 0);
    int64_t available = 0;

    if (room <= 0)
        return;
    shrink_unhealthy(d, &room);
    for (size_t i = 0; i < d->sets.count; i++)
        available += least(d->sets.items[i].available, d->sets.items[i].replicas);
    room = available - keep;
    for (size_t i = 0; i < d->sets.count && room > 0; i++) {
        struct deployment_set *set = &d->sets.items[i];
        int64_t count = least(room, set->replicas);

        if (set == d->newest || count <= 0)
            continue;
        deployment_scale(d, set, set->replicas - count);
        room -= count;
    }
}

/* ---- all at once ---- */

/* Pods of an old ReplicaSet that have not ended yet. */
static bool old_pods_run(const struct deployment *d)
{
    for (size_t i = 0; i < d->sets.count; i++) {
        const struct object *pod = NULL;
        size_t cursor = 0;

        if (&d->sets.items[i] == d->newest)
            continue;
        while ((pod = cache_next_owned(d->w.input->cache, &kind_pod, d->sets.items[i].object->uid,
                                       &cursor)))
            if (!pod_is_over(object_json(pod, d->w.arena)))
                return true;
    }
    return false;
}

void deployment_roll(struct deployment *d)
{
    bool shrunk = false;

    if (!d->recreate) {
        if (d->newest && !grow_newest(d))
            shrink_old(d);
        return;
    }
    for (size_t i = 0; i < d->sets.count; i++)
        if (&d->sets.items[i] != d->newest && d->sets.items[i].replicas) {
            deployment_scale(d, &d->sets.items[i], 0);
            shrunk = true;
        }
    if (!shrunk && !old_pods_run(d) && d->newest && d->newest->replicas != d->replicas)
        deployment_scale(d, d->newest, d->replicas);
}

/* ---- a change of the number alone ---- */

static int64_t number_at(const struct object *object, const char *annotation)
{
    int64_t number = -1;

    (void)str_to_i64(object_annotation(object, annotation), &number);
    return number;
}

static bool is_resized(const struct deployment *d)
{
    for (size_t i = 0; i < d->sets.count; i++) {
        const struct deployment_set *set = &d->sets.items[i];
        int64_t before = number_at(set->object, DEPLOYMENT_DESIRED);

        if (set->replicas > 0 && before >= 0 && before != d->replicas)
            return true;
    }
    return false;
}

/* The largest that has not had its part; of equals the later one grows first and shrinks last. */
static size_t largest_left(const struct deployment *d, const bool *served, bool grows)
{
    size_t found = d->sets.count;

    for (size_t i = 0; i < d->sets.count; i++) {
        int64_t size = d->sets.items[i].replicas;
        int64_t best = found < d->sets.count ? d->sets.items[found].replicas : 0;

        if (size && !served[i] && (size > best || (size == best && grows)))
            found = i;
    }
    return found;
}

/* What a ReplicaSet gains or loses when its part of the whole stays the same, rounded to the
 * nearest; the whole is what it was when it got its size. */
static int64_t part_of(const struct deployment *d, const struct deployment_set *set, int64_t most)
{
    int64_t whole = number_at(set->object, DEPLOYMENT_MAX);

    if (whole <= 0)
        whole = json_i64_or(json_get(d->w.before, "replicas"), 0);
    return whole > 0 ? (2 * set->replicas * most + whole) / (2 * whole) - set->replicas : 0;
}

/* Each gets its part as long as there is something left; the largest takes what is over then. */
static void spread(struct deployment *d, int64_t most)
{
    size_t count = d->sets.count;
    bool *served = ARENA_ARRAY(d->w.arena, bool, count);
    int64_t *parts = ARENA_ARRAY(d->w.arena, int64_t, count);
    int64_t change = most - sum_replicas(d);
    int64_t left = change;
    size_t first = largest_left(d, served, change > 0);

    for (size_t i = first; i < count; i = largest_left(d, served, change > 0)) {
        int64_t part = left ? part_of(d, &d->sets.items[i], most) : 0;

        if (change > 0 ? part > left : part < left)
            part = left;
        served[i] = true;
        parts[i] = part;
        left -= part;
    }
    assert(first < count); /* more than one has pods */
    parts[first] += left;
    for (size_t i = 0; i < count; i++) {
        int64_t wanted = d->sets.items[i].replicas + parts[i];

        if (served[i])
            deployment_scale(d, &d->sets.items[i], wanted > 0 ? wanted : 0);
    }
}

/* All new pods are there and serve: an old ReplicaSet that was adopted meanwhile has no business. */
static bool is_saturated(const struct deployment *d)
{
    return d->newest && d->newest->replicas == d->replicas && d->newest->available == d->replicas &&
           number_at(d->newest->object, DEPLOYMENT_DESIRED) == d->replicas;
}

bool deployment_spread(struct deployment *d)
{
    size_t active = 0;
    struct deployment_set *one = NULL;

    if (!is_resized(d))
        return false;
    for (size_t i = 0; i < d->sets.count; i++)
        if (d->sets.items[i].replicas > 0) {
            active++;
            one = &d->sets.items[i];
        }
    if (active == 1) { /* one has pods, or it was not resized */
        deployment_scale(d, one, d->replicas);
        return true;
    }
    if (d->recreate)
        return false;
    if (!is_saturated(d)) {
        spread(d, d->replicas ? d->replicas + d->surge : 0);
        return true;
    }
    for (size_t i = 0; i < d->sets.count; i++)
        if (&d->sets.items[i] != d->newest && d->sets.items[i].replicas)
            deployment_scale(d, &d->sets.items[i], 0);
    return true;
}
