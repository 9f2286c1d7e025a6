#include "api/pace.h"

#include "api/ranks.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int64_t pace_median(const struct pace *pace)
{
    int64_t sorted[PACE_TIMES];
    size_t count = pace->time_count < PACE_TIMES ? pace->time_count : PACE_TIMES;

    for (size_t i = 0; i < count; i++) {
        size_t at = i;

        for (; at > 0 && sorted[at - 1] > pace->times[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = pace->times[i];
    }
    return count ? sorted[count / 2] : 0;
}

static int64_t silent_after_ms(const struct pace *pace)
{
    int64_t steps_ms = PACE_STEPS * pace->report.step_ms;

    return steps_ms > PACE_SILENT_MS ? steps_ms : PACE_SILENT_MS;
}

bool pace_is_silent(const struct pace *pace, const struct pace_sample *sample)
{
    int64_t from_ms = sample->last_ms ? sample->last_ms : sample->started_ms;

    return sample->now_ms - from_ms >= silent_after_ms(pace);
}

/* Steps since the last sample: their time, and how long it had been idle before them. */
static void take_steps(struct pace *pace, const struct pace_sample *sample)
{
    if (sample->steps <= pace->steps)
        return;
    if (pace->last_ms) {
        int64_t each = (sample->last_ms - pace->last_ms) / (int64_t)(sample->steps - pace->steps);
        bool was_quiet = pace->report.act == RANK_IDLE || pace->report.act == RANK_LOCKED;
        int64_t quiet = pace->seen_ms - pace->active_ms;

        pace->times[pace->time_count++ % PACE_TIMES] = each > 0 ? each : 0;
        if (was_quiet && quiet > pace->report.quiet_ms)
            pace->report.quiet_ms = quiet;
    }
    pace->steps = sample->steps;
    pace->last_ms = sample->last_ms;
    pace->report.step_ms = pace_median(pace);
}

/* Remembers when the process last did something. */
static void take_work(struct pace *pace, const struct pace_sample *sample)
{
    int64_t used = sample->cpu_ms - pace->cpu_ms;
    int64_t window = sample->now_ms - pace->cpu_at_ms;

    pace->ran = sample->looked && pace->cpu_at_ms && used * PACE_IDLE_PART > window;
    if (!sample->looked) {
        pace->cpu_at_ms = 0;
        pace->active_ms = sample->now_ms;
        return;
    }
    /* Seen to run twice in a row it lacks CPU time, once it may have woken for a moment. Less time
     * than before: a child has ended, which is something. Who writes to a disk that is far away needs
     * hardly any. */
    if (!pace->cpu_at_ms || (sample->working && pace->working) || used < 0 ||
        used * PACE_IDLE_PART > window || sample->io_bytes - pace->io_bytes >= PACE_IO_BYTES)
        pace->active_ms = sample->now_ms;
    pace->working = sample->working;
    pace->cpu_ms = sample->cpu_ms;
    pace->io_bytes = sample->io_bytes;
    pace->cpu_at_ms = sample->now_ms;
}

static void take_lock(struct pace *pace, const struct pace_sample *sample)
{
    pace->unsure = sample->looked && sample->unsure ? pace->unsure + 1 : 0;
    if (!sample->looked || (!sample->locked && !sample->unsure) || pace->unsure > PACE_UNSURE)
        pace->locked_ms = 0;
    else if (sample->locked && !pace->locked_ms)
        pace->locked_ms = sample->now_ms;
    if (sample->locked)
        pace->meets = sample->meets;
}

static enum rank_act pace_act(const struct pace *pace, const struct pace_sample *sample)
{
    bool quiet = sample->now_ms - pace->active_ms >= PACE_IDLE_MS;

    bool ended = sample->state == 'Z' || sample->state == 'X';

    /* Who has done its work waits for nothing but its parent, which may look for others first. */
    if (sample->looked && (!sample->there || (ended && !sample->failed)))
        return RANK_GONE;
    /* Who is stopped in turns (cpulimit) is found so in many looks, and runs between them. */
    if (sample->looked && sample->state == 'T' && !pace->ran)
        return RANK_STOPPED;
    if (sample->looked && sample->state == 't')
        return RANK_TRACED;
    if (sample->looked && ended)
        return RANK_ZOMBIE;
    if (!sample->steps)
        return RANK_STARTING;
    if (!sample->looked || !pace_is_silent(pace, sample))
        return RANK_STEPPING;
    return !quiet ? RANK_BUSY : pace->locked_ms ? RANK_LOCKED : RANK_IDLE;
}

static bool times_differ(int64_t a, int64_t b, int64_t part)
{
    int64_t apart = a > b ? a - b : b - a;

    return apart > (a > b ? a : b) / part;
}

/* Small changes are none, so that a verdict on it does not come and go. True: it is to be told. */
static bool take_own(struct pace *pace, const struct pace_sample *sample)
{
    struct rank_report *report = &pace->report;

    if (times_differ(sample->own_us, report->own_us, PACE_SAME_PART) ||
        times_differ(sample->own_part, report->own_part, PACE_SAME_PART)) {
        report->own_us = sample->own_us;
        report->own_part = sample->own_part;
        report->own_spread = sample->own_spread;
    }
    if (!times_differ(report->own_us, pace->told_own_us, PACE_TELL_PART) &&
        !times_differ(report->own_part, pace->told_own_part, PACE_TELL_PART))
        return false;
    pace->told_own_us = report->own_us;
    pace->told_own_part = report->own_part;
    return true;
}

/* The account is made from the steps of the first rank, and what lies between two reports is taken
 * for even. The first steps are not, and they are where a restart makes up for what it lost. */
static void take_early(struct rank_report *report)
{
    size_t count = report->early_count;

    if (report->rank == 0 && count < RANKS_EARLY_MAX &&
        report->steps > (count ? report->early[count - 1].steps : 0))
        report->early[report->early_count++] = (struct rank_early){report->steps, report->last_ms};
}

bool pace_wants_line(const struct pace *pace)
{
    enum rank_act act = pace->report.act;

    return act == RANK_IDLE || act == RANK_LOCKED || act == RANK_BUSY;
}

void pace_line(struct pace *pace, uint64_t stack, const char *line, int64_t now_ms)
{
    if (!pace_wants_line(pace))
        return;
    if (!pace->line[0] || pace->stack != stack)
        pace->line_ms = now_ms;
    pace->stack = stack;
    (void)snprintf(pace->line, sizeof(pace->line), "%s", line);
}

/* Of who works it is told only once it stays the same: it is another one with every look. */
static bool take_line(struct pace *pace, const struct pace_sample *sample)
{
    struct rank_report *report = &pace->report;
    char before[RANKS_LINE_BYTES];

    memcpy(before, pace->shown, sizeof(before));
    if (!pace_wants_line(pace))
        pace->line[0] = '\0';
    if (report->act == RANK_BUSY && sample->now_ms - pace->line_ms < PACE_LINE_MS)
        pace->shown[0] = '\0';
    else
        memcpy(pace->shown, pace->line, sizeof(pace->shown));
    report->line = str_from(pace->shown);
    report->line_ms = report->line.len ? pace->line_ms : 0;
    return strcmp(before, pace->shown) != 0;
}

/* Where nobody looked for a while, as of a machine that stood still, two looks say nothing of the time
 * between them. */
static void take_gap(struct pace *pace, const struct pace_sample *sample)
{
    int64_t apart = sample->now_ms - pace->seen_ms;

    if (!pace->seen_ms || (apart >= 0 && apart < PACE_GAP_MS))
        return;
    pace->cpu_at_ms = 0;
    pace->locked_ms = 0;
    pace->unsure = 0;
}

bool pace_take(struct pace *pace, const struct pace_sample *sample)
{
    struct rank_report *report = &pace->report;
    struct rank_report before = *report;
    bool first = !pace->seen_ms;
    bool waits;
    bool changed;
    bool told;

    take_steps(pace, sample);
    take_gap(pace, sample);
    take_work(pace, sample);
    take_lock(pace, sample);
    report->act = pace_act(pace, sample);
    report->steps = (int64_t)sample->steps;
    report->last_ms = sample->last_ms;
    take_early(report);
    report->phase = report->act == RANK_LOCKED && pace->meets && sample->phase == RANK_PHASE_CODE
                        ? RANK_PHASE_MEET
                        : sample->phase;
    waits = report->act == RANK_IDLE || report->act == RANK_LOCKED;
    report->seen_ms =
        report->act == RANK_LOCKED || report->act == RANK_STOPPED ? sample->now_ms : 0;
    changed = first || before.act != report->act;
    told = take_own(pace, sample);
    if (waits)
        report->since_ms = report->act == RANK_LOCKED && pace->locked_ms > pace->active_ms
                               ? pace->locked_ms
                               : pace->active_ms;
    else if (changed)
        report->since_ms = sample->now_ms;
    if (report->act == RANK_STOPPED || waits) {
        changed = changed || before.phase != report->phase || strcmp(pace->wait, sample->wait) != 0;
        memcpy(pace->wait, sample->wait, sizeof(pace->wait));
    } else {
        pace->wait[0] = '\0';
    }
    report->wait = str_from(pace->wait);
    if (before.phase != report->phase) /* it is elsewhere than when that was read */
        pace->line[0] = '\0';
    changed = take_line(pace, sample) || changed;
    pace->seen_ms = sample->now_ms;
    return changed || told;
}
