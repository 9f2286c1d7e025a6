#include "api/account_run.h"

#include "api/account.h"
#include "api/ranks.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Moments of a page are those of another clock, so the same one is told with a small difference. */
#define SAME_MS 2000

/* ---- what is told ---- */

static bool run_is_another(const struct account_run *run, const struct rank_report *report)
{
    return report->began_ms > run->began_ms + SAME_MS &&
           (report->pid != run->pid || report->steps < run->steps ||
            report->began_ms > run->last_ms);
}

static void run_begin(struct account_run *run, const struct rank_report *report)
{
    if (run->first_ms && run->base + run->steps > run->top)
        run->top = run->base + run->steps;
    /* Started again by its own launcher: the job has never left this state. */
    if (run->told && run->running && report->began_ms > run->from_ms)
        run->from_ms = report->began_ms;
    run->before_ms = run->last_ms;
    run->began_ms = report->began_ms;
    run->pid = report->pid;
    run->told = 1;
    run->hung_ms = run->woke_ms = run->first_ms = run->last_ms = run->steps = 0;
    run->saving_ms = run->saving_before_ms = run->caught_ms = 0;
}

/* Where it begins is known with its first step. */
static void run_place(struct account_run *run, const struct rank_report *report, int64_t created_ms)
{
    run->first_ms = report->first_ms;
    run->runs++;
    if (report->resumed)
        run->base = report->resumed - 1;
    else if (run->runs > 1 && run->mark && report->loaded_ms >= created_ms)
        run->base = run->mark - 1;
    else
        run->base = run->runs > 1 ? run->origin : 0;
    if (run->runs == 1)
        run->origin = run->base;
    else if (run->base < run->top)
        run->caught_ms = ACCOUNT_NOT_YET;
}

/* When it made the last of the steps that had been lost, between two reports. */
static int64_t run_caught(const struct account_run *run, const struct rank_report *report)
{
    int64_t lost = run->top - run->base;
    int64_t steps = run->steps ? run->steps : 1;
    int64_t at_ms = run->steps ? run->last_ms : run->first_ms;

    struct rank_early next = {report->steps, report->last_ms};

    if (report->steps < lost)
        return ACCOUNT_NOT_YET;
    for (size_t i = 0; i < report->early_count; i++) {
        const struct rank_early *early = &report->early[i];

        if (early->steps >= lost) {
            next = *early;
            break;
        }
        if (early->steps > steps && early->ms > at_ms) {
            steps = early->steps;
            at_ms = early->ms;
        }
    }
    if (next.steps <= steps || next.ms <= at_ms || lost <= steps)
        return at_ms;
    return at_ms + (int64_t)((__int128)(next.ms - at_ms) * (lost - steps) / (next.steps - steps));
}

/* When it made the first step after it hung: what a report tells of is the last one so far. A hook that is
 * older does not say when the step that took so long was over. */
static int64_t run_woke(const struct account_run *run, const struct rank_report *report)
{
    if (report->late_ms > run->last_ms && report->late_ms <= report->last_ms)
        return report->late_ms;
    int64_t further = report->steps - run->steps - 1;
    int64_t room_ms = report->last_ms - run->last_ms;
    int64_t step_ms = report->step_ms > 0 ? report->step_ms : 0;

    return further > 0 && further < room_ms / (step_ms + 1) ? report->last_ms - further * step_ms
                                                            : report->last_ms;
}

static void run_advance(struct account_run *run,
                        const struct rank_report *report,
                        int64_t created_ms)
{
    if (report->first_ms && !run->first_ms)
        run_place(run, report, created_ms);
    if (!run->first_ms || report->steps < run->steps)
        return;
    if (run->caught_ms == ACCOUNT_NOT_YET)
        run->caught_ms = run_caught(run, report);
    if (run->hung_ms && !run->woke_ms && report->act == RANK_STEPPING && report->steps > run->steps)
        run->woke_ms = run_woke(run, report);
    run->steps = report->steps;
    run->last_ms = report->last_ms;
    if (report->mark)
        run->mark = run->base + report->mark;
}

bool account_hear(struct account_run *run,
                  const struct rank_report *reports,
                  size_t count,
                  int64_t created_ms)
{
    struct account_run before = *run;

    for (size_t i = 0; i < count; i++) {
        const struct rank_report *report = &reports[i];

        if (report->rank != 0 || !report->began_ms)
            continue;
        if (!run->began_ms || run_is_another(run, report))
            run_begin(run, report);
        else if (report->began_ms + SAME_MS < run->began_ms)
            continue; /* one that is history */
        run_advance(run, report, created_ms);
    }
    for (size_t i = 0; i < count; i++)
        if (run->told && reports[i].began_ms > run->before_ms &&
            reports[i].saving_ms > run->saving_ms)
            run->saving_ms = reports[i].saving_ms;
    return memcmp(&before, run, sizeof(before)) != 0;
}

/* ---- the account ---- */

/* What it has, whatever it does with it. */
struct held {
    int64_t gpus;
    int64_t spare_gpus;
};

static void note(struct account *account,
                 int64_t at_ms,
                 int64_t now_ms,
                 struct held held,
                 enum account_state state)
{
    (void)account_note(account, (struct account_event){.at_ms = at_ms < now_ms ? at_ms : now_ms,
                                                       .gpus = held.gpus,
                                                       .state = state,
                                                       .spare_gpus = held.spare_gpus});
}

static void run_note(struct account *account,
                     const struct account_run *run,
                     struct held held,
                     int64_t now_ms)
{
    int64_t begin_ms = run->first_ms > run->from_ms ? run->first_ms : run->from_ms;

    if (run->told && (!run->first_ms || begin_ms > run->from_ms))
        note(account, run->from_ms, now_ms, held, ACCOUNT_STARTING);
    if (run->told && !run->first_ms)
        return;
    if (run->told && run->caught_ms > begin_ms)
        note(account, begin_ms, now_ms, held, ACCOUNT_RECOMPUTING);
    if (!run->told || run->caught_ms <= begin_ms)
        note(account, begin_ms, now_ms, held, ACCOUNT_TRAINING);
    else if (run->caught_ms != ACCOUNT_NOT_YET)
        note(account, run->caught_ms, now_ms, held, ACCOUNT_TRAINING);
}

/* What was spent in saving is a part of its stays, of the later ones first. */
static void run_save(struct account *account, const struct account_run *run, int64_t now_ms)
{
    int64_t left_ms = run->saving_ms - run->saving_before_ms;
    int64_t end_ms = now_ms;

    for (size_t i = account->count; i > 1 && account->events[i - 1].at_ms >= run->from_ms; i--) {
        const struct account_event *event = &account->events[i - 1];
        int64_t part_ms = left_ms < end_ms - event->at_ms ? left_ms : end_ms - event->at_ms;

        end_ms = event->at_ms;
        if ((event->state != ACCOUNT_TRAINING && event->state != ACCOUNT_RECOMPUTING) ||
            part_ms <= 0)
            continue;
        account->saving_ms[i - 1] = part_ms;
        left_ms -= part_ms;
    }
}

static void run_write(struct account *account,
                      const struct account_run *run,
                      struct held held,
                      int64_t now_ms)
{
    while (account->count > 1 && account->events[account->count - 1].at_ms >= run->from_ms)
        account->saving_ms[--account->count] = 0;
    run_note(account, run, held, now_ms);
    if (run->hung_ms)
        note(account, run->hung_ms > run->from_ms ? run->hung_ms : run->from_ms, now_ms, held,
             ACCOUNT_HUNG);
    run_save(account, run, now_ms);
}

/* From now on it is another stay, of the same run or the next. */
static void run_enter(struct account *account, struct account_run *run, int64_t now_ms)
{
    int64_t last_ms = account->count ? account->events[account->count - 1].at_ms : 0;

    run->from_ms = now_ms > last_ms ? now_ms : last_ms;
    run->hung_ms = run->woke_ms = 0;
}

static struct held account_held(const struct account *account)
{
    const struct account_event *last = &account->events[account->count - 1];

    return (struct held){last->gpus, last->spare_gpus};
}

static void run_leave(struct account *account,
                      struct account_run *run,
                      const struct account_seen *seen,
                      int64_t now_ms)
{
    /* A status has whole seconds. */
    if (run->told && run->last_ms && !run->hung_ms && seen->failed_hung_ms + 1000 > run->from_ms) {
        run->hung_ms = run->last_ms;
        run_write(account, run, account_held(account), now_ms);
    }
    run->running = run->told = 0;
}

void account_done(struct account *account, struct account_run *run, int64_t now_ms)
{
    *run = (struct account_run){.running = run->running};
    run_enter(account, run, now_ms);
}

static bool account_is(const struct account *account, const struct account *other)
{
    if (account->count != other->count)
        return false;
    for (size_t i = 0; i < account->count; i++)
        if (account->events[i].at_ms != other->events[i].at_ms ||
            account->events[i].gpus != other->events[i].gpus ||
            account->events[i].state != other->events[i].state ||
            account->events[i].spare_gpus != other->events[i].spare_gpus ||
            account->saving_ms[i] != other->saving_ms[i])
            return false;
    return true;
}

bool account_take(struct account *account,
                  struct account_run *run,
                  const struct account_seen *seen,
                  int64_t gpus,
                  int64_t now_ms)
{
    enum account_state state = account_state_of(seen);
    bool hung = state == ACCOUNT_HUNG;
    struct account before = *account;
    struct held held = {account_gpus(gpus), account_gpus(seen->spare_gpus)};
    struct held last = account->count ? account_held(account) : held;

    if (state != ACCOUNT_TRAINING && !hung) {
        if (run->running && account->count)
            run_leave(account, run, seen, now_ms);
        note(account, now_ms, now_ms, held, state);
        return !account_is(account, &before);
    }
    if (!run->running) {
        run_enter(account, run, now_ms);
        run->saving_before_ms = run->told ? 0 : run->saving_ms;
        run->running = 1;
    } else if ((!hung && run->hung_ms) || last.gpus != held.gpus ||
               last.spare_gpus != held.spare_gpus) {
        run_enter(account, run,
                  !hung && run->woke_ms && run->woke_ms < now_ms ? run->woke_ms : now_ms);
        run->saving_before_ms = run->saving_ms;
    }
    if (hung && !run->hung_ms)
        run->hung_ms = run->told && run->last_ms ? run->last_ms : now_ms;
    run_write(account, run, held, now_ms);
    return !account_is(account, &before);
}

/* ---- as JSON ---- */

struct json *account_run_json(struct arena *arena, const struct account_run *run)
{
    struct json *out = json_new_object(arena);

#define RUN_WRITE(member, what) \
    if (run->member)            \
        json_add_i64(arena, out, #member, run->member);
    ACCOUNT_RUN_MEMBERS(RUN_WRITE)
#undef RUN_WRITE
    return out;
}

static int64_t number(const struct json *json, const char *key)
{
    int64_t value = json_i64_or(json_get(json, key), 0);

    return value < 0 ? 0 : value;
}

void account_run_read(const struct json *json, struct account_run *ret)
{
#define RUN_READ(member, what) ret->member = number(json, #member);
    ACCOUNT_RUN_MEMBERS(RUN_READ)
#undef RUN_READ
}
