#include "exec/usage.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/str.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text: "v1 LENGTH NUMBER:held,held,held/there,there,there ...", amounts in whole units. */

static int64_t length_of(const struct usage_params *params)
{
    int64_t length = params->window_ms / USAGE_BUCKETS;

    return length > 0 ? length : 1;
}

static bool is_current(const struct usage_bucket *bucket, int64_t newest)
{
    return bucket->number && bucket->number > newest - USAGE_BUCKETS && bucket->number <= newest;
}

void usage_add(struct usage *usage,
               const struct usage_params *params,
               int64_t now_ms,
               double seconds,
               const double held[static SCHED_RESOURCES],
               const double there[static SCHED_RESOURCES])
{
    int64_t number = now_ms / length_of(params);
    struct usage_bucket *bucket = &usage->buckets[number % USAGE_BUCKETS];

    if (bucket->number != number)
        *bucket = (struct usage_bucket){.number = number};
    for (size_t r = 0; r < SCHED_RESOURCES; r++) {
        bucket->held[r] += held[r] * seconds;
        bucket->there[r] += there[r] * seconds;
    }
}

void usage_shares(const struct usage *usage,
                  const struct usage_params *params,
                  int64_t now_ms,
                  double ret[static SCHED_RESOURCES])
{
    int64_t length = length_of(params);
    double held[SCHED_RESOURCES] = {0};
    double there[SCHED_RESOURCES] = {0};

    for (size_t i = 0; i < USAGE_BUCKETS; i++) {
        const struct usage_bucket *bucket = &usage->buckets[i];
        double age = (double)(now_ms / length - bucket->number) * (double)length;
        double weight = params->half_life_ms > 0 ? exp2(-age / (double)params->half_life_ms) : 1.0;

        if (!is_current(bucket, now_ms / length))
            continue;
        for (size_t r = 0; r < SCHED_RESOURCES; r++) {
            held[r] += bucket->held[r] * weight;
            there[r] += bucket->there[r] * weight;
        }
    }
    for (size_t r = 0; r < SCHED_RESOURCES; r++)
        ret[r] = there[r] > 0 ? held[r] / there[r] : 0;
}

struct str usage_write(const struct usage *usage,
                       const struct usage_params *params,
                       struct arena *arena)
{
    struct str text = str_printf(arena, "v1 %lld", (long long)length_of(params));

    for (size_t i = 0; i < USAGE_BUCKETS; i++) {
        const struct usage_bucket *bucket = &usage->buckets[i];

        if (!bucket->number)
            continue;
        text = str_printf(arena, STR_FMT " %lld:%.0f,%.0f,%.3f/%.0f,%.0f,%.3f", STR_ARG(text),
                          (long long)bucket->number, bucket->held[SCHED_CPU],
                          bucket->held[SCHED_MEMORY], bucket->held[SCHED_GPU],
                          bucket->there[SCHED_CPU], bucket->there[SCHED_MEMORY],
                          bucket->there[SCHED_GPU]);
    }
    return text;
}

static bool read_amounts(struct str text, double ret[static SCHED_RESOURCES])
{
    static const enum sched_resource order[] = {SCHED_CPU, SCHED_MEMORY, SCHED_GPU};
    struct str part;

    for (size_t i = 0; i < SCHED_RESOURCES; i++) {
        struct quantity quantity;

        if (!str_cut(&text, ',', &part) || quantity_parse(part, &quantity, NULL) < 0 ||
            quantity.nano < 0)
            return false;
        ret[order[i]] = (double)quantity.nano / 1e9;
    }
    return true;
}

void usage_read(struct str text, const struct usage_params *params, struct usage *ret)
{
    struct str part;
    int64_t length = 0;

    *ret = (struct usage){0};
    if (!str_cut(&text, ' ', &part) || !str_is(part, "v1") || !str_cut(&text, ' ', &part) ||
        !str_to_i64(part, &length) || length != length_of(params))
        return;
    while (text.len && str_cut(&text, ' ', &part)) {
        struct usage_bucket bucket = {0};
        struct str number;
        struct str held;

        if (!str_cut(&part, ':', &number) || !str_to_i64(number, &bucket.number) ||
            bucket.number <= 0 || !str_cut(&part, '/', &held) || !read_amounts(held, bucket.held) ||
            !read_amounts(part, bucket.there))
            continue;
        ret->buckets[bucket.number % USAGE_BUCKETS] = bucket;
    }
}
