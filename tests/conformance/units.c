#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "conformance/conformance.h"
#include "sched/queue.h"
#include "sched/reclaim.h"
#include "sched/resource.h"
#include "sched/share.h"
#include "sched/spec.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Cases about the arithmetic alone: fair-share division and the rules of reclaim. */

static const char *const resources[SCHED_RESOURCES] = {"cpu", "memory", "gpu"};

static double number(const struct json *value)
{
    struct str text = json_number_text(value);
    char copy[64];

    if (!text.len || text.len >= sizeof(copy))
        return 0;
    for (size_t i = 0; i < text.len; i++)
        copy[i] = text.p[i];
    copy[text.len] = 0;
    return strtod(copy, NULL);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static struct share_queue share_of(const struct json *queue, const char *resource)
{
    const struct json *share = json_get(queue, resource);

    return (struct share_queue){
        .name = json_str(json_get(queue, "uid")),
        .created_ms = json_i64_or(json_get(queue, "creation_order"), 0),
        .priority = json_i64_or(json_get(queue, "priority"), 0),
        .quota = number(json_get(share, "deserved")),
        .limit = number(json_get(share, "max_allowed")),
        .weight = number(json_get(share, "over_quota_weight")),
        .asked = number(json_get(share, "request")),
        .usage = number(json_get(share, "usage")),
        .fair = number(json_get(share, "fair_share")),
    };
}

static bool check_division(struct arena *arena,
                           const struct json *test,
                           const char *resource,
                           double total,
                           bool over_quota)
{
    const struct json *queues = json_get(test, "queues");
    const struct json *expected = json_get(test, "expected");
    size_t count = json_count(queues);
    struct share_queue *shares = ARENA_ARRAY(arena, struct share_queue, count + 1);
    double k = number(json_get(test, "k_value"));
    size_t i = 0;

    JSON_FOREACH(queues, queue)
        shares[i++] = share_of(queue, resource);
    double left = over_quota ? share_over_quota(shares, count, total, k)
                             : share_divide(shares, count, total, k);
    i = 0;
    JSON_FOREACH(queues, queue) {
        struct str key = json_str(json_get(queue, "key"));
        const struct json *want =
            json_get(json_get_str(json_get(expected, "fair_share"), key), resource);
        if (want && !near(shares[i].fair, number(want)))
            return differs(test, "%s of queue " STR_FMT ": fair share %g, expected %g", resource,
                           STR_ARG(key), shares[i].fair, number(want));
        i++;
    }
    const struct json *remaining = json_get(expected, "remaining");
    if (remaining && !near(left, number(remaining)))
        return differs(test, "%g remain, expected %g", left, number(remaining));
    return true;
}

static bool run_division(struct arena *arena, const struct json *test, struct str function)
{
    const struct json *total = json_get(test, "total");

    if (str_is(function, "get_queues_by_priority")) {
        /* How priorities are kept is ours to choose; the divisions test the order. */
        leave_out(test, "the order of priorities is not compared");
        return true;
    }
    if (!str_is(function, "set_resources_share"))
        return check_division(arena, test, str_c(arena, json_str(json_get(test, "resource"))),
                              number(total), str_is(function, "divide_over_quota"));
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!check_division(arena, test, resources[r], number(json_get(total, resources[r])),
                            false))
            return false;
    return true;
}

/* ---- fair shares through a tree ---- */
static bool divide_below(struct arena *arena,
                         const struct json *test,
                         struct str parent,
                         double total)
{
    const struct json *queues = json_get(test, "queues");
    const struct json *expected = json_at(test, "expected.gpu_fair_share");
    struct share_queue *shares = ARENA_ARRAY(arena, struct share_queue, json_count(queues) + 1);
    size_t count = 0;

    JSON_FOREACH(queues, queue) {
        struct str own = json_str(json_get(queue, "parent"));
        if (str_eq(own, parent))
            shares[count++] = share_of(queue, "gpu");
    }
    if (!count)
        return true;
    (void)share_divide(shares, count, total, number(json_get(test, "k_value")));
    for (size_t i = 0; i < count; i++) {
        const struct json *want = json_get_str(expected, shares[i].name);

        if (want && !near(number(want), shares[i].fair))
            return differs(test, "queue " STR_FMT ": fair share %g, expected %g",
                           STR_ARG(shares[i].name), shares[i].fair, number(want));
        if (!divide_below(arena, test, shares[i].name, shares[i].fair))
            return false;
    }
    return true;
}

/* ---- reclaim ---- */
static struct reclaim_queue reclaim_of(const struct json *queue)
{
    struct reclaim_queue to = {.parent = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        const struct json *share = json_get(queue, resources[r]);
        to.quota[r] = number(json_get(share, "deserved"));
        to.limit[r] = number(json_get(share, "max_allowed"));
        to.fair[r] = number(json_get(share, "fair_share"));
        to.allocated[r] = number(json_get(share, "allocated"));
        to.fixed[r] = number(json_get(share, "allocated_not_preemptible"));
    }
    return to;
}

void unit_quota(const struct json *from, struct queue *ret)
{
    struct reclaim_queue read = reclaim_of(from);

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double unit = r == SCHED_GPU ? GPU_MILLI : 1;

        ret->spec.quota[r] = (struct sched_quota){read.quota[r], read.limit[r], 1};
        if (!json_get(from, resources[r]))
            ret->spec.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        ret->allocated[r] = (int64_t)(read.allocated[r] * unit + 0.5);
        ret->fixed[r] = (int64_t)(read.fixed[r] * unit + 0.5);
    }
}

static void amounts_of(const struct json *value, double ret[static SCHED_RESOURCES])
{
    ret[SCHED_CPU] = number(json_get(value, "milli_cpu"));
    ret[SCHED_MEMORY] = number(json_get(value, "memory"));
    ret[SCHED_GPU] = number(json_get(value, "gpus"));
    if (json_get(value, "cpu_milli")) { /* as those of 0.17 are written */
        ret[SCHED_CPU] = number(json_get(value, "cpu_milli"));
        ret[SCHED_MEMORY] = number(json_get(value, "memory_bytes"));
    }
    if (json_get(value, "gpu")) {
        ret[SCHED_CPU] = number(json_get(value, "cpu"));
        ret[SCHED_GPU] = number(json_get(value, "gpu"));
    }
}

static int index_of(const struct json *queues, struct str key)
{
    int i = 0;

    JSON_FOREACH(queues, queue) {
        if (str_eq(json_str(json_get(queue, "key")), key))
            return i;
        i++;
    }
    return -1;
}

static bool run_check(struct arena *arena, const struct json *test, const struct json *check)
{
    const struct json *queues = json_get(check, "queues");
    const struct json *reclaimer = json_get(check, "reclaimer");
    struct reclaim reclaim = {
        .queues = ARENA_ARRAY(arena, struct reclaim_queue, json_count(queues) + 1),
        .queue_count = json_count(queues),
        .queue = index_of(queues, json_str(json_get(reclaimer, "queue"))),
        .preemptible = json_bool_or(json_get(reclaimer, "preemptible"), true),
        .saturation = number(json_get(check, "saturation_multiplier")),
    };
    struct reclaim_unit units[256];
    size_t count = 0;
    size_t i = 0;

    JSON_FOREACH(queues, queue) {
        reclaim.queues[i] = reclaim_of(queue);
        reclaim.queues[i++].parent = index_of(queues, json_str(json_get(queue, "parent")));
    }
    amounts_of(json_get(reclaimer, "required"), reclaim.request);
    JSON_FOREACH(json_get(check, "reclaimee_resources_by_queue"), list)
        JSON_FOREACH(list, amount) {
            units[count].queue = index_of(queues, json_key(list));
            amounts_of(amount, units[count++].amount);
        }
    bool got = str_is(json_str(json_get(check, "function")), "reclaimable")
                   ? reclaim_valid(&reclaim, units, count)
                   : reclaim_may_start(&reclaim);
    bool want = json_bool_or(json_get(check, "expected"), false);
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

static bool run_strategy(const struct json *test)
{
    struct reclaim_queue to = reclaim_of(json_get(test, "reclaimer_queue"));
    struct reclaim_queue from = reclaim_of(json_get(test, "reclaimee_queue"));
    double request[SCHED_RESOURCES] = {0};
    double remaining[SCHED_RESOURCES] = {0};

    amounts_of(json_get(test, "reclaimer_resources"), request);
    amounts_of(json_get(test, "reclaimee_remaining_share"), remaining);
    bool got = str_is(json_str(json_get(test, "strategy")), "maintain_fair_share")
                   ? reclaim_keeps_fair_share(&from, remaining, NULL)
                   : reclaim_guarantees_quota(&to, request, &from, remaining, NULL);
    bool want = json_bool_or(json_at(test, "expected.reclaimable"), false);
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

/* Whether a queue can be taken from at all. */
static bool run_candidate(struct arena *arena, const struct json *test)
{
    const struct json *queues = json_get(test, "queues");
    const struct json *reclaimer = json_get(test, "reclaimer");
    struct reclaim reclaim = {
        .queues = ARENA_ARRAY(arena, struct reclaim_queue, json_count(queues) + 1),
        .queue_count = json_count(queues),
        .queue = index_of(queues, json_str(json_get(reclaimer, "queue"))),
    };
    size_t i = 0;

    amounts_of(json_get(reclaimer, "required"), reclaim.request);
    JSON_FOREACH(queues, queue) {
        reclaim.queues[i] = reclaim_of(queue);
        reclaim.queues[i++].parent = index_of(queues, json_str(json_get(queue, "parent")));
    }
    struct reclaim_queue from = reclaim_of(json_get(test, "reclaimee"));
    bool got = queues ? reclaim_could_take(
                            &reclaim, index_of(queues, json_str(json_get(test, "victim_queue"))))
                      : reclaim_above_quota(reclaim.request, &from);
    bool want = json_bool_or(json_at(test, "expected.result"), false);
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

static bool run_keeps(const struct json *test)
{
    struct reclaim_queue from = reclaim_of(json_get(test, "reclaimee"));
    double remaining[SCHED_RESOURCES] = {0};

    amounts_of(json_get(test, "reclaimee_remaining"), remaining);
    bool got = reclaim_keeps_fair_share(&from, remaining, NULL);
    bool want = json_bool_or(json_at(test, "expected.result"), false);
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

/* The rule by which a queue gets its quota back, or half of it: who is not there stands in nobody's
 * way. */
static bool run_deserved(const struct json *test)
{
    struct reclaim_queue to = reclaim_of(json_get(test, "reclaimer"));
    struct reclaim_queue from = reclaim_of(json_get(test, "reclaimee"));
    double request[SCHED_RESOURCES] = {0};
    double remaining[SCHED_RESOURCES] = {1, 1, 1};

    amounts_of(json_get(test, "required"), request);
    if (json_get(test, "reclaimee"))
        amounts_of(json_get(test, "reclaimee_remaining"), remaining);
    for (int r = 0; r < SCHED_RESOURCES && !json_get(test, "reclaimer"); r++)
        to.quota[r] = SCHED_UNLIMITED;
    bool got = reclaim_guarantees_quota(&to, request, &from, remaining, NULL);
    bool want = json_bool_or(json_at(test, "expected.result"), false);
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

bool run_unit(struct arena *arena, const struct json *test)
{
    struct str function = json_str(json_get(test, "function"));
    bool good = true;

    if (str_is(function, "filter_victim") || str_is(function, "deserved_quota_candidate"))
        return run_candidate(arena, test);
    if (str_is(function, "reclaimer_fits_deserved_quota") ||
        str_is(function, "fits_guarantee_deserved_quota"))
        return run_deserved(test);
    if (case_is_017(test) && !str_is(function, "fits_maintain_fair_share"))
        return run_unit_017(arena, test, function);
    if (str_is(function, "fits_maintain_fair_share"))
        return run_keeps(test);
    if (function.len)
        return run_division(arena, test, function);
    if (json_get(test, "strategy"))
        return run_strategy(test);
    if (json_at(test, "expected.gpu_fair_share"))
        return divide_below(arena, test, STR_NONE, number(json_at(test, "total.gpu")));
    if (!json_get(test, "checks"))
        return differs(test, "a kind of case this program does not know");
    JSON_FOREACH(json_get(test, "checks"), check)
        good = run_check(arena, test, check) && good;
    return good;
}
