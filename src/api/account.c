#include "api/account.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

const char *const account_words[ACCOUNT_STATES] = {
#define ACCOUNT_STATE_WORD(name, word, help) word,
    ACCOUNT_STATE_LIST(ACCOUNT_STATE_WORD)
#undef ACCOUNT_STATE_WORD
};

enum account_state account_state_of(const struct account_seen *seen)
{
    if (str_is(seen->phase, "Suspended"))
        return ACCOUNT_IDLE;
    if (str_is(seen->phase, "Running"))
        return seen->hung ? ACCOUNT_HUNG : ACCOUNT_TRAINING;
    if (str_is(seen->phase, "Restarting") || seen->bound)
        return ACCOUNT_STARTING;
    return ACCOUNT_QUEUED;
}

int64_t account_gpus(int64_t gpus)
{
    if (gpus < 0)
        return 0;
    return gpus < ACCOUNT_GPUS_MAX ? gpus : ACCOUNT_GPUS_MAX;
}

/* Its time, and what of it was saving, is that of the stay before it. */
static void account_remove(struct account *account, size_t index)
{
    account->saving_ms[index - 1] += account->saving_ms[index];
    memmove(&account->saving_ms[index], &account->saving_ms[index + 1],
            (account->count - index - 1) * sizeof(account->saving_ms[0]));
    account->saving_ms[account->count - 1] = 0;
    memmove(&account->events[index], &account->events[index + 1],
            (account->count - index - 1) * sizeof(account->events[0]));
    account->count--;
}

/* Never the first, which is the creation, nor the last, whose end is not known. */
static void account_shorten(struct account *account)
{
    size_t shortest = 1;

    for (size_t i = 1; i + 1 < account->count; i++)
        if (account->events[i + 1].at_ms - account->events[i].at_ms <
            account->events[shortest + 1].at_ms - account->events[shortest].at_ms)
            shortest = i;
    account_remove(account, shortest);
}

bool account_note(struct account *account, struct account_event event)
{
    struct account_event *last = account->count ? &account->events[account->count - 1] : NULL;

    event.gpus = account_gpus(event.gpus);
    event.spare_gpus = account_gpus(event.spare_gpus);
    if (last && last->state == event.state && last->gpus == event.gpus &&
        last->spare_gpus == event.spare_gpus)
        return false;
    if (last && event.at_ms < last->at_ms)
        event.at_ms = last->at_ms;
    if (account->count == ACCOUNT_EVENTS_MAX)
        account_shorten(account);
    account->events[account->count++] = event;
    return true;
}

/* What `part_ms` of a stay has of its saving. */
static int64_t account_saving(const struct account *account,
                              size_t index,
                              int64_t part_ms,
                              int64_t to_ms)
{
    int64_t from_ms = account->events[index].at_ms;
    int64_t whole_ms =
        (index + 1 < account->count ? account->events[index + 1].at_ms : to_ms) - from_ms;
    int64_t saving_ms = account->saving_ms[index];

    if (saving_ms >= whole_ms)
        return part_ms;
    return (int64_t)((__int128)saving_ms * part_ms / whole_ms);
}

void account_add(const struct account *account,
                 int64_t from_ms,
                 int64_t to_ms,
                 struct account_sums *sums)
{
    if (account->end_ms && account->end_ms < to_ms)
        to_ms = account->end_ms;
    for (size_t i = 0; i < account->count; i++) {
        const struct account_event *event = &account->events[i];
        int64_t begin = event->at_ms > from_ms ? event->at_ms : from_ms;
        int64_t end = i + 1 < account->count && event[1].at_ms < to_ms ? event[1].at_ms : to_ms;

        if (end <= begin)
            continue;
        int64_t saving = account_saving(account, i, end - begin, to_ms);
        sums->wall_ms[event->state] += end - begin - saving;
        sums->gpu_ms[event->state] += (end - begin - saving) * event->gpus;
        sums->wall_ms[ACCOUNT_SAVING] += saving;
        sums->gpu_ms[ACCOUNT_SAVING] += saving * event->gpus;
        sums->gpu_ms[ACCOUNT_IDLE] += (end - begin) * event->spare_gpus;
        sums->held_ms += (end - begin) * event->spare_gpus;
        if (event->state != ACCOUNT_QUEUED && event->state != ACCOUNT_IDLE)
            sums->held_ms += (end - begin) * event->gpus;
    }
}

/* Moments of a status are whole seconds, and so are its runs, each cut to them. */
#define TOLD_SLACK_MS 2000

bool account_from(const struct account_told *told, struct account *ret)
{
    struct account_event event = {.at_ms = told->created_ms, .gpus = told->gpus};
    int64_t begin_ms = told->start_ms;

    *ret = (struct account){0};
    if (!told->created_ms)
        return false;
    (void)account_note(ret, event);
    if (told->start_ms && told->end_ms) {
        int64_t run_ms = told->run_ms < 0 ? told->end_ms - told->start_ms : told->run_ms;

        if (told->run_ms >= 0 && told->run_start_ms && told->end_ms > told->run_start_ms)
            run_ms += told->end_ms - told->run_start_ms; /* it was deleted while it ran */
        /* When it waited in between is not told: its runs are the last of its time. */
        if (told->end_ms - run_ms > told->start_ms + TOLD_SLACK_MS)
            begin_ms = told->end_ms - run_ms;
        event.state = run_ms > 0 || told->run_ms < 0 ? ACCOUNT_TRAINING : ACCOUNT_QUEUED;
        event.at_ms = begin_ms;
        (void)account_note(ret, event);
    } else if (told->start_ms) {
        if (told->run_ms > 0) {
            event = (struct account_event){told->start_ms, told->gpus, ACCOUNT_TRAINING, 0};
            (void)account_note(ret, event);
            event = (struct account_event){told->start_ms + told->run_ms, told->gpus,
                                           ACCOUNT_QUEUED, 0};
            (void)account_note(ret, event);
        }
        begin_ms = told->run_ms < 0     ? told->start_ms
                   : told->run_start_ms ? told->run_start_ms
                   : told->run_ms > 0   ? told->start_ms + told->run_ms
                                        : told->start_ms;
        event = (struct account_event){begin_ms, told->gpus, told->state, 0};
        (void)account_note(ret, event);
    }
    int64_t last_ms = ret->events[ret->count - 1].at_ms;
    if (told->end_ms)
        ret->end_ms = told->end_ms > last_ms ? told->end_ms : last_ms;
    return true;
}

int64_t account_waited(const int64_t ms[ACCOUNT_STATES])
{
    return ms[ACCOUNT_QUEUED] + ms[ACCOUNT_IDLE];
}

int64_t account_ran(const int64_t ms[ACCOUNT_STATES])
{
    return account_total(ms) - account_waited(ms);
}

int64_t account_total(const int64_t ms[ACCOUNT_STATES])
{
    int64_t total = 0;

    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        total += ms[i];
    return total;
}

int64_t account_ettr(const struct account_sums *sums)
{
    const int64_t *ms = account_total(sums->gpu_ms) ? sums->gpu_ms : sums->wall_ms;
    int64_t total = account_total(ms);

    return total ? (int64_t)((__int128)ms[ACCOUNT_TRAINING] * 1000 / total) : -1;
}

/* ---- as JSON ---- */

struct json *account_json(struct arena *arena, const struct account *account)
{
    struct json *out = json_new_object(arena);
    struct json *events = json_add_array(arena, out, "events");

    for (size_t i = 0; i < account->count; i++) {
        const struct account_event *event = &account->events[i];
        struct json *item = json_push(events, json_new_array(arena));

        (void)json_push(item, json_new_i64(arena, event->at_ms));
        (void)json_push(item, json_new_str(arena, str_from(account_words[event->state])));
        (void)json_push(item, json_new_i64(arena, event->gpus));
        if (account->saving_ms[i] || event->spare_gpus)
            (void)json_push(item, json_new_i64(arena, account->saving_ms[i]));
        if (event->spare_gpus)
            (void)json_push(item, json_new_i64(arena, event->spare_gpus));
    }
    if (account->end_ms)
        json_add_i64(arena, out, "end", account->end_ms);
    return out;
}

#define TIME_MAX 253402300800000LL /* the year 10000 */

static bool event_read(const struct json *item, struct account_event *ret)
{
    struct str word = json_str(json_index(item, 1));

    ret->at_ms = json_i64_or(json_index(item, 0), -1);
    ret->gpus = json_i64_or(json_index(item, 2), -1);
    ret->spare_gpus = json_i64_or(json_index(item, 4), 0);
    if (ret->at_ms < 0 || ret->at_ms > TIME_MAX || ret->gpus < 0 || ret->gpus > ACCOUNT_GPUS_MAX)
        return false;
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        if (str_is(word, account_words[i])) {
            ret->state = (enum account_state)i;
            return true;
        }
    return false;
}

bool account_read(const struct json *json, struct account *ret)
{
    struct account account = {0};
    struct account_event event;

    JSON_FOREACH(json_get(json, "events"), item)
        if (event_read(item, &event)) {
            int64_t saving_ms = json_i64_or(json_index(item, 3), 0);

            (void)account_note(&account, event);
            if (saving_ms > 0 && saving_ms < TIME_MAX)
                account.saving_ms[account.count - 1] = saving_ms;
        }
    if (!account.count)
        return false;
    account.end_ms = json_i64_or(json_get(json, "end"), 0);
    if (account.end_ms && account.end_ms < account.events[account.count - 1].at_ms)
        account.end_ms = account.events[account.count - 1].at_ms;
    *ret = account;
    return true;
}
