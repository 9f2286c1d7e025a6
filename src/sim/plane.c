#include "sim/plane.h"

#include "api/api.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/sharing.h"
#include "exec/lease.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sim/inside.h"
#include "sim/sim.h"
#include "sim/version.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define SCHEDULER_NAME "kai-scheduler"
#define IDENTITY_BYTES 64
#define TEXT_BYTES     300

static_assert(PLANE_LATE_MS <= LEASE_DURATION_MS - LEASE_RENEW_MS - LEASE_RETRY_MS,
              "what was sent has arrived before another leads");

struct plane {
    struct plane_options options;
    struct link *link;
    struct lease *lease; /* NULL: it leads alone, or there is no process */
    struct runner *runner;
    struct scheduler *scheduler;
    char identity[IDENTITY_BYTES];
    unsigned starts;
    int64_t back_ms; /* when there is a process again; 0: there is one */
    int64_t well_ms; /* when it goes on, or is reached again; 0: it is well */
    bool asleep;
    bool won;      /* the lease, or lost it, or handed it back: to be acted on */
    bool in_doubt; /* it starts nothing; heeded */
    bool doubts;
    bool lost;
    bool released;
    bool steady;
    bool woke; /* its lease may have run out meanwhile */
};

static int64_t plane_now(const struct plane *plane)
{
    return plane->options.link.now(plane->options.link.user);
}

static int64_t lease_now(void *user)
{
    return plane_now(user);
}

__attribute__((format(printf, 2, 3))) static void tell(const struct plane *plane,
                                                       const char *fmt,
                                                       ...)
{
    char words[TEXT_BYTES], text[TEXT_BYTES + 64];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    (void)snprintf(text, sizeof(text), "%.60s %s", plane->options.link.name, words);
    plane->options.link.trace(plane->options.link.user, text);
    if (plane->options.link.tell)
        plane->options.link.tell(plane->options.link.user, text);
}

/* Nobody guesses a simulated secret, and a seed must play the same run again. */
static int same_again(struct buf *out, size_t count, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < 2 * count; i++)
        buf_addc(out, '0');
    return 0;
}

/* ---- a process ---- */

static void parts_start(struct plane *plane)
{
    static const struct sharing_settings sharing = {
        .ns = STR(SHARING_NAMESPACE), .image = STR("muster"), .service_account = STR("default")};
    const struct sim_options *options = plane->options.sim;
    const struct link_options *link = &plane->options.link;
    struct inside *inside = plane->options.inside;
    struct err err = {0};
    struct sched_config config;

    sched_config_default(&config);
    config.seed = options->seed;
    if (options->one_by_one) {
        config.scheduler_name = STR(SCHEDULER_NAME);
        config.devices = SCHED_DEVICES_RESERVED;
        config.quirks |= SCHED_QUIRK(TWO_POD_SLOTS);
    }
    int r =
        runner_start(NULL, link_api(plane->link),
                     &(struct runner_options){.config = {.scheduler_name = STR(SCHEDULER_NAME),
                                                         .other_schedulers = options->one_by_one},
                                              .without = link->older ? version_without : NULL,
                                              .embedded = true,
                                              .seed = options->seed,
                                              .now = link->now,
                                              .now_user = link->user,
                                              .draw = same_again},
                     &plane->runner, &err);
    if (r == 0)
        r = scheduler_start(
            NULL, link_api(plane->link),
            &(struct scheduler_options){.config = &config,
                                        .sharing = options->one_by_one ? &sharing : NULL,
                                        .inside = inside ? inside_commands(inside) : NULL,
                                        .seed = options->seed,
                                        .now = link->now,
                                        .now_user = link->user},
            &plane->scheduler, &err);
    if (r < 0)
        plane->options.fail(link->user, err.text);
    link->settle(link->user);
}

static void parts_stop(struct plane *plane)
{
    scheduler_stop(plane->scheduler);
    runner_stop(plane->runner);
    plane->scheduler = NULL;
    plane->runner = NULL;
}

static void on_won(void *user)
{
    struct plane *plane = user;

    plane->won = true;
}

static void on_doubt(void *user)
{
    struct plane *plane = user;

    plane->doubts = true;
}

static void on_lost(void *user)
{
    struct plane *plane = user;

    plane->lost = true;
}

static void on_released(void *user)
{
    struct plane *plane = user;

    plane->released = true;
}

static bool is_busy(void *user)
{
    const struct plane *plane = user;

    return link_is_writing(plane->link);
}

void plane_start(struct plane *plane)
{
    plane->back_ms = 0;
    if (!plane->options.competes) {
        parts_start(plane);
        return;
    }
    (void)snprintf(plane->identity, sizeof(plane->identity), "%s_%u", plane->options.link.name,
                   ++plane->starts);
    plane->lease = lease_start(&(struct lease_options){.api = link_api(plane->link),
                                                       .ns = "default",
                                                       .name = "muster-operator",
                                                       .identity = plane->identity,
                                                       .won = on_won,
                                                       .doubt = on_doubt,
                                                       .lost = on_lost,
                                                       .busy = is_busy,
                                                       .now = lease_now,
                                                       .user = plane});
}

static void set_doubt(struct plane *plane, bool in_doubt)
{
    plane->in_doubt = in_doubt;
    link_hold(plane->link, in_doubt);
}

void plane_kill(struct plane *plane)
{
    parts_stop(plane);
    lease_free(plane->lease);
    plane->lease = NULL;
    plane->won = plane->doubts = plane->lost = plane->released = false;
    if (plane->asleep) {
        plane->asleep = false;
        plane->well_ms = 0;
        link_set_way(plane->link, LINK_OPEN);
    }
    inside_cut(plane->options.inside);
    if (plane->options.competes)
        link_abandon(plane->link);
    else
        link_cut(plane->link);
    set_doubt(plane, false);
    plane->back_ms = INT64_MAX;
}

/* Acts on what the election has said. */
static void heed(struct plane *plane)
{
    if (plane->doubts) {
        plane->doubts = false;
        tell(plane, "is in doubt whether it leads, and starts nothing.");
        set_doubt(plane, true);
    }
    if (plane->lost) {
        plane->lost = false;
        tell(plane, "has lost the lease, and waits for it.");
        parts_stop(plane);
        inside_cut(plane->options.inside);
        link_abandon(plane->link);
        set_doubt(plane, false);
    }
    if (plane->released) {
        bool retired = plane->back_ms == INT64_MAX;
        int64_t back_ms = plane->back_ms;

        tell(plane, "has stopped.");
        plane_kill(plane);
        plane->back_ms = retired ? INT64_MAX : back_ms;
    } else if (plane->won) {
        plane->won = false;
        tell(plane, plane->in_doubt ? "leads as before." : "leads from now on.");
        if (plane->in_doubt)
            set_doubt(plane, false);
        else
            parts_start(plane);
    }
}

static void stop_in_order(struct plane *plane, int64_t back_ms)
{
    if (plane->back_ms) { /* there is none, or it is being stopped */
        plane->back_ms = back_ms;
        return;
    }
    plane->back_ms = back_ms;
    parts_stop(plane);
    lease_release(plane->lease, on_released, plane);
}

/* ---- what befalls it ---- */

static void get_well(struct plane *plane)
{
    if (!plane->well_ms)
        return;
    tell(plane, plane->asleep ? "goes on." : "is reached again.");
    plane->well_ms = 0;
    plane->asleep = false;
    plane->woke = true;
    link_set_way(plane->link, LINK_OPEN);
}

void plane_trouble(struct plane *plane, enum plane_trouble trouble, int64_t ms)
{
    int64_t until_ms = plane_now(plane) + ms + 1;

    if (plane->well_ms || plane->back_ms)
        return;
    switch (trouble) {
    case PLANE_KILLED:
        tell(plane, "is killed.");
        plane_kill(plane);
        plane->back_ms = until_ms;
        break;
    case PLANE_REPLACED:
        tell(plane, "is told to stop.");
        stop_in_order(plane, until_ms);
        break;
    case PLANE_PAUSED:
        tell(plane, "stands still.");
        plane->well_ms = until_ms;
        plane->asleep = true;
        link_set_way(plane->link, LINK_ASLEEP);
        break;
    case PLANE_CUT_OFF:
    case PLANE_TROUBLES:
        tell(plane, "is cut off from the API server.");
        plane->well_ms = until_ms;
        link_set_way(plane->link, LINK_CLOSED);
        break;
    }
}

void plane_repair(struct plane *plane)
{
    if (plane->well_ms)
        plane->well_ms = plane_now(plane);
    if (plane->back_ms && !plane->lease)
        plane->back_ms = plane_now(plane);
    plane->steady = true;
}

void plane_retire(struct plane *plane)
{
    if (plane->well_ms)
        get_well(plane);
    tell(plane, "is told to stop, and is not started again.");
    stop_in_order(plane, INT64_MAX);
}

/* ---- turns ---- */

bool plane_leads(const struct plane *plane)
{
    return plane->scheduler && !plane->asleep && !plane->in_doubt;
}

void plane_admit(struct plane *plane, struct json *pod, struct arena *arena)
{
    if (plane->runner)
        runner_admit_pod(plane->runner, pod, arena);
}

bool plane_step(struct plane *plane)
{
    bool moved = link_step(plane->link);

    heed(plane);
    return moved;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t plane_time(struct plane *plane)
{
    int64_t now_ms = plane_now(plane);
    int64_t next = INT64_MAX;

    if (plane->well_ms && now_ms >= plane->well_ms)
        get_well(plane);
    if (plane->back_ms && now_ms >= plane->back_ms && !plane->lease && plane->options.competes)
        plane_start(plane);
    /* The timer of a process that stood still is overdue when it goes on, and the first to fire. */
    if (plane->lease && !plane->asleep && (plane->woke || !(plane->steady && plane_leads(plane)))) {
        plane->woke = false;
        next = lease_turn(plane->lease);
        heed(plane);
    }
    if (plane->well_ms)
        next = sooner(next, plane->well_ms);
    if (plane->back_ms && !plane->lease)
        next = sooner(next, plane->back_ms);
    return sooner(next, link_due(plane->link));
}

int64_t plane_control(struct plane *plane)
{
    return plane->runner && !plane->asleep && !plane->in_doubt ? runner_turn(plane->runner)
                                                               : INT64_MAX;
}

int64_t plane_schedule(struct plane *plane)
{
    return plane_leads(plane) ? scheduler_turn(plane->scheduler) : INT64_MAX;
}

/* ---- beginning and end ---- */

struct link *plane_link(struct plane *plane)
{
    return plane->link;
}

struct plane *plane_new(const struct plane_options *options)
{
    struct plane *plane = MEM_NEW(struct plane);

    plane->options = *options;
    plane->link = link_new(&options->link);
    return plane;
}

void plane_free(struct plane *plane)
{
    if (!plane)
        return;
    plane_kill(plane);
    link_free(plane->link);
    mem_free(plane);
}
