#include "cmd/idle.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tool/clock.h"
#include "tool/timer.h"

#include <stddef.h>
#include <uv.h>

#define LOOKS_A_PERIOD 10
#define LOOK_MS_MIN    100
#define LOOK_MS_MAX    10000
#define PAGE_MAX       5000 /* more than these is not idle */

struct idle {
    struct idle_options options;
    struct timer *timer;
    int64_t busy_ms; /* the last moment at which there was work */
    bool stopped;    /* goes with the answer that is on its way */
    bool asking;
};

static bool idle_job_works(const struct object *job)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str phase = json_str_at(object_json(job, &arena), "status.phase");

    return !str_is(phase, "Succeeded") && !str_is(phase, "Failed") && !str_is(phase, "TimedOut") &&
           !str_is(phase, "Suspended");
}

/* Pods of a TorchrunJob are its own affair: the one that keeps its logs may outlive its end. Those
 * that stand for parts of muster itself (control/cluster/mirrors.h) are no work. */
static bool idle_pod_works(const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str phase = json_str_at(object_json(pod, &arena), "status.phase");

    return !object_label(pod, "torchrun-job-name").len &&
           !str_is(object_label(pod, "app.kubernetes.io/managed-by"), "muster") &&
           !str_is(phase, "Succeeded") && !str_is(phase, "Failed");
}

static bool idle_answer(struct idle *idle,
                        const struct api_result *result,
                        bool (*works)(const struct object *))
{
    idle->asking = false;
    if (idle->stopped) {
        mem_free(idle);
        return false;
    }
    bool busy = result->code < 0 || result->continue_token.len;
    for (size_t i = 0; i < result->item_count && !busy; i++)
        busy = works(result->items[i]);
    if (busy)
        idle->busy_ms = clock_monotonic_ms();
    return !busy;
}

static void on_pods(void *user, const struct api_result *result)
{
    struct idle *idle = user;

    if (idle_answer(idle, result, idle_pod_works) &&
        clock_monotonic_ms() - idle->busy_ms >= idle->options.period_ms) {
        timer_cancel(idle->timer);
        idle->options.done(idle->options.user);
    }
}

static void idle_ask(struct idle *idle, const struct kind *kind, api_done_fn *done)
{
    idle->asking = true;
    api_call(idle->options.api,
             &(struct api_request){.verb = API_LIST, .kind = kind, .limit = PAGE_MAX}, done, idle);
}

static void on_jobs(void *user, const struct api_result *result)
{
    struct idle *idle = user;

    if (idle_answer(idle, result, idle_job_works))
        idle_ask(idle, &kind_pod, on_pods);
}

static void on_look(void *user)
{
    struct idle *idle = user;

    if (!idle->asking)
        idle_ask(idle, &kind_torchrunjob, on_jobs);
}

struct idle *idle_start(struct uv_loop_s *loop, const struct idle_options *options)
{
    struct idle *idle = MEM_NEW(struct idle);
    int64_t every_ms = options->period_ms / LOOKS_A_PERIOD;

    every_ms = every_ms < LOOK_MS_MIN   ? LOOK_MS_MIN
               : every_ms > LOOK_MS_MAX ? LOOK_MS_MAX
                                        : every_ms;
    idle->options = *options;
    idle->busy_ms = clock_monotonic_ms();
    idle->timer = timer_new(loop, idle);
    timer_every(idle->timer, every_ms, every_ms, on_look);
    return idle;
}

void idle_stop(struct idle *idle)
{
    if (!idle)
        return;
    timer_free(idle->timer);
    idle->stopped = true;
    if (!idle->asking)
        mem_free(idle);
}
