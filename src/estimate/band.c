#include "estimate/band.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "estimate/forecast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MINUTE_MS  INT64_C(60000)
#define HOUR_MS    (60 * MINUTE_MS)
#define DAY_MS     (24 * HOUR_MS)
#define FACTOR_MAX 1000.0
#define SOON_MS    MINUTE_MS /* a band ends no sooner: pods take that long to come up */

static const int64_t reaches_ms[BAND_REACHES - 1] = {10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS,
                                                     7 * DAY_MS};

static unsigned reach_of(int64_t after_ms)
{
    unsigned reach = 0;

    while (reach < COUNT_OF(reaches_ms) && after_ms > reaches_ms[reach])
        reach++;
    return reach;
}

static double factor_or(double factor, double prior)
{
    return factor > 0 ? factor : prior;
}

static int64_t stretched(int64_t after_ms, double factor)
{
    double ms = (double)after_ms * factor;

    return ms < (double)(1000 * DAY_MS) ? (int64_t)ms : 1000 * DAY_MS;
}

void band_make(const struct band_memory *memory,
               const struct band_draws *draws,
               int64_t now_ms,
               struct band *ret)
{
    size_t last = draws->count ? draws->count - 1 : 0;
    enum band_kind never = draws->unknown ? BAND_UNKNOWN : BAND_STUCK;

    *ret = (struct band){.kind = BAND_LARGE};
    if (!draws->count)
        return;
    int64_t low = draws->after_ms[last / 10];
    int64_t middle = draws->after_ms[last / 2];
    int64_t high = draws->after_ms[last - last / 10];
    *ret = (struct band){.kind = never, .similar = (int64_t)draws->similar};
    if (low == FORECAST_NEVER)
        return;
    ret->reach = reach_of(middle == FORECAST_NEVER ? low : middle);
    ret->earliest_ms =
        now_ms + stretched(low, factor_or(memory->reach[ret->reach].low, 1 / BAND_PRIOR));
    ret->kind = BAND_OPEN;
    if (high == FORECAST_NEVER)
        return;
    high = stretched(high, factor_or(memory->reach[ret->reach].high, BAND_PRIOR));
    ret->latest_ms = now_ms + (high > SOON_MS ? high : SOON_MS);
    if (ret->earliest_ms > ret->latest_ms)
        ret->earliest_ms = ret->latest_ms;
    ret->kind = BAND_BETWEEN;
}

bool band_judge(const struct band *band, int64_t start_ms, int64_t now_ms, enum band_outcome *ret)
{
    int64_t at = start_ms ? start_ms : now_ms;

    if (band->kind != BAND_BETWEEN || (!start_ms && now_ms <= band->latest_ms))
        return false;
    *ret = at < band->earliest_ms ? BAND_EARLY : at > band->latest_ms ? BAND_LATE : BAND_INSIDE;
    return true;
}

static double factor_within(double factor)
{
    if (factor > FACTOR_MAX)
        return FACTOR_MAX;
    return factor < 1 / FACTOR_MAX ? 1 / FACTOR_MAX : factor;
}

void band_learn(struct band_memory *memory, unsigned reach, enum band_outcome outcome)
{
    double low = factor_or(memory->reach[reach].low, 1 / BAND_PRIOR);
    double high = factor_or(memory->reach[reach].high, BAND_PRIOR);
    bool coarse = memory->reach[reach].count++ < BAND_COARSE;
    double step = coarse ? BAND_COARSE_STEP : BAND_STEP;
    double back = coarse ? BAND_COARSE_BACK : BAND_BACK;

    low = outcome == BAND_EARLY ? low / step : low * back;
    high = outcome == BAND_LATE ? high * step : high / back;
    memory->reach[reach].low = factor_within(low);
    memory->reach[reach].high = factor_within(high);
}

static bool time_differs(int64_t a, int64_t b, int64_t now_ms)
{
    int64_t off = a > b ? a - b : b - a;
    int64_t far = a > b ? a - now_ms : b - now_ms;

    return off > MINUTE_MS && off > far / 8;
}

bool band_differs(const struct band *a, const struct band *b, int64_t now_ms)
{
    return a->kind != b->kind || time_differs(a->earliest_ms, b->earliest_ms, now_ms) ||
           time_differs(a->latest_ms, b->latest_ms, now_ms);
}

/* ---- told ---- */
static const char *none_words(enum band_kind kind)
{
    switch (kind) {
    case BAND_UNKNOWN:
        return "no estimate: no job like those before it has ended yet; set maxRunTime";
    case BAND_STUCK:
        return "no estimate: it does not start even when everything that runs now has ended";
    case BAND_LARGE: return "no estimate: the cluster is too large to look ahead";
    case BAND_NONE:
    case BAND_BETWEEN:
    case BAND_OPEN: break;
    }
    return NULL;
}

struct json *band_json(struct arena *arena, const struct band *band)
{
    struct json *json = json_new_object(arena);
    const char *words = none_words(band->kind);
    bool between = band->kind == BAND_BETWEEN;

    /* What is not there is taken away: this is written as a merge patch. */
    json_set(json, STR("earliest"),
             between || band->kind == BAND_OPEN
                 ? json_new_str(arena, time_text(arena, band->earliest_ms))
                 : json_new_null(arena));
    json_set(json, STR("latest"),
             between ? json_new_str(arena, time_text(arena, band->latest_ms))
                     : json_new_null(arena));
    json_fill(arena, json, "{percent: $, similarJobs: $}", (int64_t)BAND_PERCENT, band->similar);
    json_set(json, STR("message"),
             words ? json_new_str(arena, str_from(words)) : json_new_null(arena));
    return json;
}

/* One unit for both ends where that can be read: "20-45 min", "1-3 h", "40 min to 3 h". */
static struct str span_text(struct arena *arena, int64_t low_ms, int64_t high_ms)
{
    static const struct {
        const char *word;
        int64_t ms;
        int64_t most; /* from here on the next unit */
    } units[] = {{"min", MINUTE_MS, 120}, {"h", HOUR_MS, 48}, {"days", DAY_MS, INT64_MAX}};
    size_t low = 0;
    size_t high = 0;

    while (high_ms / units[high].ms >= units[high].most)
        high++;
    while (low_ms / units[low].ms >= units[low].most)
        low++;
    int64_t last = (high_ms + units[high].ms - 1) / units[high].ms;
    if (low_ms < units[high].ms / 2 || low == high) {
        int64_t first = low == high ? low_ms / units[low].ms : 0;
        return first >= last ? str_printf(arena, "%lld %s", (long long)last, units[high].word)
                             : str_printf(arena, "%lld-%lld %s", (long long)first, (long long)last,
                                          units[high].word);
    }
    return str_printf(arena, "%lld %s to %lld %s", (long long)(low_ms / units[low].ms),
                      units[low].word, (long long)last, units[high].word);
}

/* What is past counts as now. */
static int64_t time_left(const struct json *estimate, const char *key, int64_t now_ms)
{
    int64_t at = 0;

    if (!time_parse(json_str(json_get(estimate, key)), &at))
        return -1;
    return at > now_ms ? at - now_ms : 0;
}

struct str band_words(struct arena *arena, const struct json *estimate, int64_t now_ms)
{
    int64_t low = time_left(estimate, "earliest", now_ms);
    int64_t high = time_left(estimate, "latest", now_ms);
    int64_t similar = json_i64_or(json_get(estimate, "similarJobs"), 0);
    struct str from = STR(", from maxRunTime alone");

    if (low < 0)
        return json_str(json_get(estimate, "message"));
    if (high < 0)
        return str_printf(arena,
                          "starts in " STR_FMT
                          " at the earliest; how long some jobs before it run is not known",
                          STR_ARG(span_text(arena, low, low)));
    if (high == 0)
        return STR("was expected to start by now; a new estimate follows");
    if (similar)
        from = str_printf(arena, ", from %lld similar job%s", (long long)similar,
                          similar == 1 ? "" : "s");
    return str_printf(arena, "starts in about " STR_FMT " (%d %%)" STR_FMT,
                      STR_ARG(span_text(arena, low, high)), BAND_PERCENT, STR_ARG(from));
}

struct str band_short(struct arena *arena, const struct json *estimate, int64_t now_ms)
{
    int64_t low = time_left(estimate, "earliest", now_ms);
    int64_t high = time_left(estimate, "latest", now_ms);

    if (low < 0)
        return STR("-");
    if (high < 0)
        return str_printf(arena, "%s" STR_FMT, ">", STR_ARG(span_text(arena, low, low)));
    return span_text(arena, low, high);
}
