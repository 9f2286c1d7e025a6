#include "replay/estimates.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/band.h"
#include "estimate/forecast.h"
#include "replay/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define HOUR_MS 3600000.0

void estimates_arrive(struct estimates *estimates, struct arena *arena, uint32_t job)
{
    if (estimates->step && job % estimates->step == 0)
        VEC_PUSH(arena, &estimates->due, job);
}

static void asked_learn(struct estimates *estimates,
                        struct estimates_asked *asked,
                        int64_t start_ms,
                        int64_t now_ms)
{
    enum band_outcome outcome;

    if (asked->learned || !band_judge(&asked->band, start_ms, now_ms, &outcome))
        return;
    asked->learned = true;
    band_learn(&estimates->memory, asked->band.reach, outcome);
}

static bool goes_on(void *user)
{
    const struct estimates *estimates = user;

    return !*estimates->stop;
}

void estimates_ask(struct estimates *estimates,
                   struct arena *arena,
                   uint32_t job,
                   const struct forecast_state *state,
                   const struct runtimes *runtimes,
                   struct str name)
{
    struct arena work = {0};
    struct forecast forecast;
    struct estimates_asked asked = {.job = job};
    struct band_memory nothing;
    size_t index = 0;

    for (size_t i = 0; i < BAND_REACHES; i++)
        nothing.reach[i].low = nothing.reach[i].high = 1;
    for (size_t i = 0; i < estimates->asked.count; i++)
        if (!estimates->asked.items[i].started)
            asked_learn(estimates, &estimates->asked.items[i], 0, state->now_ms);
    forecast_make(
        &work, state, runtimes,
        &(struct forecast_options){
            .seed = 1, .draws = ESTIMATES_DRAWS, .only = name, .go_on = goes_on, .user = estimates},
        &forecast);
    while (index < state->groups.count && !forecast.after_ms[index])
        index++;
    if (index == state->groups.count) {
        arena_done(&work);
        return;
    }
    struct band_draws draws = {.after_ms = forecast.after_ms[index],
                               .count = forecast.draws,
                               .similar = forecast.similar,
                               .unknown = forecast.unknown > 0};
    band_make(&estimates->memory, &draws, state->now_ms, &asked.band);
    band_make(&nothing, &draws, state->now_ms, &asked.raw);
    if (!*estimates->stop)
        VEC_PUSH(arena, &estimates->asked, asked);
    arena_done(&work);
}

void estimates_started(struct estimates *estimates, uint32_t job, int64_t now_ms)
{
    struct replay_estimates *result = estimates->result;

    for (size_t i = estimates->asked.count; i-- > 0;) {
        struct estimates_asked *asked = &estimates->asked.items[i];
        enum band_outcome outcome;

        if (asked->job != job || asked->started)
            continue;
        asked->started = true;
        result->asked++;
        asked_learn(estimates, asked, now_ms, now_ms);
        if (!band_judge(&asked->band, now_ms, now_ms, &outcome)) {
            result->none++;
            return;
        }
        result->inside += outcome == BAND_INSIDE;
        result->early += outcome == BAND_EARLY;
        result->late += outcome == BAND_LATE;
        if (band_judge(&asked->raw, now_ms, now_ms, &outcome))
            result->raw_inside += outcome == BAND_INSIDE;
        return;
    }
}

static int by_value(const void *a, const void *b)
{
    const double *l = a;
    const double *r = b;

    return *l < *r ? -1 : *l > *r;
}

void estimates_close(struct estimates *estimates, struct arena *arena)
{
    double *widths = ARENA_ARRAY(arena, double, estimates->asked.count + 1);
    size_t count = 0;

    for (size_t i = 0; i < estimates->asked.count; i++) {
        const struct band *band = &estimates->asked.items[i].band;

        if (estimates->asked.items[i].started && band->kind == BAND_BETWEEN)
            widths[count++] = (double)(band->latest_ms - band->earliest_ms) / HOUR_MS;
    }
    qsort(widths, count, sizeof(*widths), by_value);
    estimates->result->width_hours = count ? widths[count / 2] : 0;
}
