#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct zone;

/* cron: the schedule of a CronJob: five fields (minute, hour, day of the month, month, day of the
 * week), each with lists, ranges, steps and, for months and days of the week, names; or @hourly,
 * @daily, @midnight, @weekly, @monthly, @yearly, @annually, @every <duration>.
 *
 * As everywhere, a day matches when both of its fields do, or, when neither is a star, one of them.
 */
struct cron {
    uint64_t minutes; /* a bit each */
    uint64_t hours;
    uint64_t days;     /* 1..31 */
    uint64_t months;   /* 1..12 */
    uint64_t weekdays; /* 0..6, Sunday first */
    bool any_day;
    bool any_weekday;
    int64_t every_ms; /* @every; the rest is not used then */
};

/* -EINVAL with words. */
int cron_parse(struct str text, struct cron *ret, struct err *err);
/* The first moment behind `after_ms` by the clocks of a place. A time that its clocks leave out is
 * left out, one that they show twice comes twice, as in Kubernetes. 0: there is none within five years (February 30th). */
int64_t cron_next(const struct cron *cron, int64_t after_ms, const struct zone *zone);
