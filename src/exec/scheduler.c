#include "exec/scheduler.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/group_name.h"
#include "estimate/band.h"
#include "exec/kai_config.h"
#include "exec/queue_writer.h"
#include "exec/reservations.h"
#include "exec/scheduler_apply.h"
#include "exec/scheduler_config.h"
#include "exec/scheduler_estimate.h"
#include "exec/scheduler_metrics.h"
#include "exec/scheduler_queues.h"
#include "exec/scheduler_report.h"
#include "exec/scheduler_rest.h"
#include "exec/scheduler_shadow.h"
#include "exec/scheduler_shards.h"
#include "exec/suspender.h"
#include "sched/sched.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Flow: on_change() feeds the core and the cache; the timer brings scheduler_turn(), which runs a
 * cycle and hands the plan to scheduler_apply.c. */

static const struct kind *const watched[] = {&kind_queue,
                                             &kind_priorityclass,
                                             &kind_topology,
                                             &kind_node,
                                             &kind_deviceclass,
                                             &kind_noderesourcetopology,
                                             &kind_resourceslice,
                                             &kind_resourceclaim,
                                             &kind_namespace,
                                             &kind_storageclass,
                                             &kind_csidriver,
                                             &kind_csinode,
                                             &kind_csistoragecapacity,
                                             &kind_pv,
                                             &kind_pvc,
                                             &kind_podgroup,
                                             &kind_pod};
#define REPORT_RETRY_MS 1000 /* after a write of a queue's status failed */
#define WATCHES         COUNT_OF(watched)

struct watch {
    struct scheduler *scheduler;
    struct api_watch *watch;
    bool synced;
};

struct scheduler {
    uv_loop_t *loop;
    struct timer *timer;
    struct applier *applier;
    struct reservations *reservations; /* NULL: devices are not reserved */
    struct suspender *suspender;       /* NULL: nothing is suspended by us */
    struct reporter *reporter;
    struct estimator *estimator; /* NULL: nobody asks when things start (the simulator) */
    struct queue_writer *writer;
    struct shadower *shadower; /* NULL: what is decided is done */
    struct mute_api mute;      /* of a shadow */
    struct shards *shards;
    struct config_watcher *config;
    struct scheduler_options options;
    struct sched_config base; /* as started; its names are in base_arena */
    struct arena base_arena;
    struct api *api;
    struct sched *core;
    struct cache *cache;
    const struct log *log;
    int64_t (*now)(void *user);
    void *now_user;
    struct watch watches[WATCHES];
    size_t watches_synced;
    bool held;
    int64_t report_ms; /* when queues were last told how they are */
    bool report_due;
    int64_t shards_ms;   /* when the shards want a turn */
    int64_t reserved_ms; /* when the reservations do */
    int64_t wake_ms;     /* what the core asked for; 0: nothing */
    size_t waiting;      /* groups that there are, by the last plan */
    int64_t rested_ms;   /* no cycle before this: the last one was long */
    struct scheduler_stats stats;
};

static int64_t clock_of(const struct scheduler *scheduler)
{
    return scheduler->now ? scheduler->now(scheduler->now_user) : clock_now_ms();
}

static void on_timer(void *user)
{
    struct scheduler *scheduler = user;
    const struct turn_piece piece = {STR("scheduler"), STR("cycle"), STR("")};

    turn_enter(scheduler->loop, &piece);
    (void)scheduler_turn(scheduler);
    turn_leave(scheduler->loop, &piece);
}

static void arm(struct scheduler *scheduler, int64_t at_ms)
{
    if (!scheduler->loop)
        return;
    int64_t delay = at_ms - clock_of(scheduler);
    if (delay < 0)
        delay = 0;
    if (timer_due_in_ms(scheduler->timer) > delay)
        timer_in(scheduler->timer, delay, on_timer);
}

static bool recorder_is_full(const struct scheduler *scheduler)
{
    const struct scheduler_recorder *recorder = scheduler->options.recorder;

    return recorder && recorder->is_full && recorder->is_full(recorder->user);
}

static void arm_for_change(struct scheduler *scheduler)
{
    if (scheduler->watches_synced < WATCHES ||
        (!sched_needs_cycle(scheduler->core) && !recorder_is_full(scheduler)))
        return;
    arm(scheduler, scheduler->rested_ms);
}

static bool is_reservation(const struct scheduler *scheduler, const struct object *object)
{
    return scheduler->reservations && object->kind == &kind_pod &&
           reservations_has(scheduler->reservations, object);
}

static int core_observe(struct scheduler *scheduler,
                        enum sched_change what,
                        const struct object *object,
                        struct err *err)
{
    return scheduler->shadower
               ? shadower_observe(scheduler->shadower, what, object, clock_of(scheduler), err)
               : sched_observe(scheduler->core, what, object, err);
}

/* An object only: it needs no place, takes none, and is not counted. One that has a node is no such
 * thing, whatever its label says. */
static bool is_stand_in(const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return object && object->kind == &kind_pod && object_label(object, GROUP_STAND_IN).len &&
           !json_str_at(object_json(object, &arena), "spec.nodeName").len;
}

static void on_change(void *user, const struct api_change *change)
{
    struct watch *watch = user;
    struct scheduler *scheduler = watch->scheduler;
    enum sched_change what = change->event == API_DELETED ? SCHED_DROP : SCHED_PUT;
    struct err err = {0};

    if (change->event != API_DELETED && is_stand_in(change->object))
        return;
    if (scheduler->shadower && what == SCHED_PUT && change->object &&
        shadower_is_early(scheduler->shadower, change->object))
        (void)scheduler_turn(scheduler);
    switch (change->event) {
    case API_ADDED:
    case API_MODIFIED:
    case API_DELETED:
        if (change->event == API_DELETED)
            cache_drop(scheduler->cache, change->object);
        else
            cache_put(scheduler->cache, change->object);
        reporter_observe(scheduler->reporter, what, change->object);
        if (scheduler->estimator && change->object->kind == &kind_podgroup)
            estimator_observe(scheduler->estimator, change->object, what == SCHED_DROP,
                              clock_of(scheduler));
        if (!is_reservation(scheduler, change->object) &&
            core_observe(scheduler, what, change->object, &err) < 0)
            log_warn(scheduler->log, "scheduler.odd_object",
                     LOG_C("kind", change->object->kind->name),
                     LOG_STR("namespace", change->object->ns),
                     LOG_STR("name", change->object->name), LOG_ERR(&err));
        if (scheduler->reservations && change->object->kind == &kind_pod)
            reservations_observe(scheduler->reservations, what, change->object);
        if (scheduler->suspender && change->object->kind == &kind_pod)
            suspender_observe(scheduler->suspender, what, change->object);
        break;
    case API_SYNCED:
        if (!watch->synced && ++scheduler->watches_synced == WATCHES)
            log_info(scheduler->log, "scheduler.synced", LOG_I64("kinds", (int64_t)WATCHES));
        watch->synced = true;
        break;
    case API_BOOKMARK:
    case API_CLOSED: break;
    }
    if (applier_awaits_volumes(scheduler->applier))
        arm(scheduler, 0);
    arm_for_change(scheduler);
}

/* A write of the plan came back. */
static void on_written(void *user, const struct applier_outcome *outcome)
{
    struct scheduler *scheduler = user;
    int64_t now_ms = clock_of(scheduler);

    sched_written(scheduler->core, outcome->ns, outcome->group, outcome->code != 0, now_ms);
    if (!outcome->code) {
        if (!outcome->evict)
            scheduler_stats_bound(&scheduler->stats, outcome->pod_count,
                                  now_ms - outcome->planned_ms);
        return;
    }
    if (!outcome->evict)
        scheduler->stats.bind_failures += outcome->pod_count;
    for (size_t i = 0; i < outcome->pod_count; i++) {
        const struct sched_pod_ref *pod = &outcome->pods[i];

        if (outcome->refused)
            sched_evict_refused(scheduler->core, pod, now_ms);
        else if (outcome->evict)
            sched_evict_failed(scheduler->core, pod);
        else if (outcome->undone && outcome->undone[i])
            sched_bind_undone(scheduler->core, pod);
        else
            sched_bind_failed(scheduler->core, pod);
    }
    arm_for_change(scheduler);
}

static bool may_bind(void *user, struct str ns, struct str group)
{
    const struct scheduler *scheduler = user;

    return sched_may_bind(scheduler->core, ns, group);
}

static bool is_promised(void *user, struct str ns, struct str pod, struct str *ret_node)
{
    const struct scheduler *scheduler = user;

    return sched_promised(scheduler->core, ns, pod, ret_node);
}

static enum sched_volumes volumes_of(void *user,
                                     const struct sched_pod_ref *pod,
                                     struct str node,
                                     struct str *ret_claim)
{
    const struct scheduler *scheduler = user;

    return sched_volumes(scheduler->core, pod, node, ret_claim);
}

static bool keeps_starts(void *user)
{
    const struct scheduler *scheduler = user;

    return sched_counts_starts(scheduler->core);
}

static void on_ready(void *user)
{
    arm_for_change(user);
}

/* Not after every cycle of a burst; the last one is always reported, by a cycle of its own. */
static void report_queues(struct scheduler *scheduler,
                          const struct sched_plan *plan,
                          int64_t now_ms)
{
    if (now_ms < scheduler->report_ms + SCHEDULER_QUEUES_MS) {
        scheduler->report_due = true;
        return;
    }
    scheduler->report_due = false;
    scheduler->report_ms = now_ms;
    scheduler_queues_report(scheduler->writer, scheduler->cache, scheduler->core, plan);
}

/* The moment at which a turn is due without any event. */
static int64_t arm_for_later(struct scheduler *scheduler)
{
    int64_t next = scheduler->wake_ms ? scheduler->wake_ms : INT64_MAX;
    int64_t report = scheduler->report_ms + SCHEDULER_QUEUES_MS;

    if (scheduler->report_due && report < next)
        next = report;
    if (reporter_due_ms(scheduler->reporter) < next)
        next = reporter_due_ms(scheduler->reporter);
    if (scheduler->shards_ms < next)
        next = scheduler->shards_ms;
    if (scheduler->reserved_ms < next)
        next = scheduler->reserved_ms;
    if (next != INT64_MAX)
        arm(scheduler, next);
    return next;
}

static void on_again(void *user)
{
    (void)arm_for_later(user);
}

static void on_queue_again(void *user, bool failed)
{
    struct scheduler *scheduler = user;

    scheduler->report_due = true;
    if (failed)
        scheduler->report_ms = clock_of(scheduler) + REPORT_RETRY_MS;
    (void)arm_for_later(scheduler);
}

static void on_shards(void *user)
{
    arm_for_change(user);
    (void)arm_for_later(user);
}

static int64_t now_of(void *user)
{
    return clock_of(user);
}

/* Tells the core everything there is, as it is, or takes it all away: last what others name. */
static void feed_all(struct scheduler *scheduler, enum sched_change what)
{
    for (size_t i = 0; i < WATCHES; i++) {
        const struct kind *kind = watched[what == SCHED_PUT ? i : WATCHES - 1 - i];
        const struct object *object;
        size_t cursor = 0;

        while ((object = cache_next(scheduler->cache, kind, STR(""), &cursor)))
            if (what == SCHED_PUT && is_reservation(scheduler, object))
                reservations_observe(scheduler->reservations, what, object);
            else
                (void)core_observe(scheduler, what, object, NULL);
    }
}

/* Pods that the core knows of: reservations are not its business. */
static size_t core_pods(const struct scheduler *scheduler)
{
    const struct object *pod;
    size_t cursor = 0;
    size_t count = 0;

    while ((pod = cache_next(scheduler->cache, &kind_pod, STR(""), &cursor)))
        if (!is_reservation(scheduler, pod))
            count++;
    return count;
}

struct usage {
    struct str queue;
    double used[SCHED_RESOURCES];
};
struct usages VEC_FIELDS(struct usage);

/* A recording that is full is followed by another, which must be of use without it: so the core
 * begins anew as well, as it would if the program was started again. A shadow has told it of more
 * than objects, and is recorded no further. */
static void record_anew(struct scheduler *scheduler)
{
    const struct scheduler_recorder *recorder = scheduler->options.recorder;
    _cleanup_(arena_done) struct arena arena = {0};
    struct usages usages = {0};
    struct usage usage;
    size_t cursor = 0;

    if (!recorder_is_full(scheduler) || scheduler->shadower ||
        !sched_is_settled(scheduler->core, core_pods(scheduler)))
        return;
    while (sched_next_usage(scheduler->core, &cursor, &usage.queue, usage.used)) {
        usage.queue = str_dup(&arena, usage.queue);
        VEC_PUSH(&arena, &usages, usage);
    }
    sched_restart(scheduler->core);
    recorder->begin(recorder->user, scheduler->core);
    feed_all(scheduler, SCHED_PUT);
    for (size_t i = 0; i < usages.count; i++)
        sched_set_usage(scheduler->core, usages.items[i].queue, usages.items[i].used);
}

static struct str or_else(struct str said, struct str base)
{
    return said.len ? said : base;
}

static void on_config(void *user, const struct kai_config *config)
{
    struct scheduler *scheduler = user;
    const struct sched_config *now = sched_config(scheduler->core);
    const struct sched_config *base = &scheduler->base;
    _cleanup_(arena_done) struct arena arena = {0};
    bool several = str_find(base->scheduler_name, ',') < base->scheduler_name.len;
    /* Where every pod is ours, or those of several names, no name makes fewer so. */
    struct str name = base->scheduler_name.len
                          ? or_else(config->scheduler_name, base->scheduler_name)
                          : base->scheduler_name;

    if (several && config->scheduler_name.len)
        name = str_printf(&arena, STR_FMT "," STR_FMT, STR_ARG(config->scheduler_name),
                          STR_ARG(base->scheduler_name));
    struct str queue = or_else(config->queue_label, base->queue_label);
    struct str pool = or_else(config->pool_label, base->pool_label);

    if (!str_eq(name, now->scheduler_name) || !str_eq(queue, now->queue_label) ||
        !str_eq(pool, now->pool_label)) {
        feed_all(scheduler, SCHED_DROP);
        sched_set_names(scheduler->core, name, queue, pool);
        feed_all(scheduler, SCHED_PUT);
    }
    shards_set_prometheus(scheduler->shards, config->prometheus);
    if (scheduler->options.renamed)
        scheduler->options.renamed(
            scheduler->options.renamed_user,
            &(struct scheduler_names){config->scheduler_name, config->queue_label});
    log_info(scheduler->log, "scheduler.config", LOG_STR("queue_label", queue),
             LOG_STR("pool_label", pool), LOG_STR("ignored", config->ignored));
    arm_for_change(scheduler);
}

static void on_turn_wanted(void *user)
{
    struct scheduler *scheduler = user;

    if (scheduler->watches_synced == WATCHES)
        arm(scheduler, 0);
}

/* Behind a cycle that began and ended then, by clock_monotonic_us(). Time that is moved by hand
 * does not pass meanwhile. */
static void rest_from(struct scheduler *scheduler,
                      int64_t began_us,
                      int64_t ended_us,
                      bool did_something)
{
    int64_t took_us = scheduler->loop ? ended_us - began_us : 0;
    int64_t rest_ms = scheduler_rest_ms(took_us, did_something);

    scheduler->rested_ms = rest_ms ? clock_of(scheduler) + rest_ms : 0;
}

static int64_t cycle_turn(struct scheduler *scheduler)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t now_ms = clock_of(scheduler);
    struct sched_plan plan = {0};

    if (scheduler->watches_synced < WATCHES || applier_is_waiting(scheduler->applier))
        return INT64_MAX;
    record_anew(scheduler);
    scheduler->shards_ms = shards_turn(scheduler->shards, now_ms);
    config_watcher_turn(scheduler->config);
    bool due = (scheduler->wake_ms && now_ms >= scheduler->wake_ms) ||
               (scheduler->report_due && now_ms >= scheduler->report_ms + SCHEDULER_QUEUES_MS) ||
               now_ms >= reporter_due_ms(scheduler->reporter);
    /* A timer may fire a moment early: then it is set again. */
    if (!sched_needs_cycle(scheduler->core) && !due)
        return arm_for_later(scheduler);
    if (scheduler->shadower)
        shadower_open(scheduler->shadower);
    int64_t began_us = clock_monotonic_us();
    scheduler_stats_begin(&scheduler->stats);
    sched_cycle(scheduler->core, now_ms, &arena, &plan);
    bool did_something = plan.bind_count || plan.evict_count;
    int64_t decided_us = clock_monotonic_us();
    scheduler->wake_ms = plan.next_wake_ms;
    scheduler->waiting = estimator_waiting(&plan);
    if (scheduler->shadower) {
        shadower_plan(scheduler->shadower, &plan, now_ms);
        rest_from(scheduler, began_us, decided_us, did_something);
        return arm_for_later(scheduler);
    }
    scheduler_stats_plan(&scheduler->stats, &plan, now_ms);
    applier_apply(scheduler->applier, &plan, now_ms);
    reporter_apply(scheduler->reporter, &plan, now_ms);
    report_queues(scheduler, &plan, now_ms);
    rest_from(scheduler, began_us, did_something ? decided_us : clock_monotonic_us(),
              did_something);
    if (did_something)
        log_debug(scheduler->log, "scheduler.cycle", LOG_I64("binds", (int64_t)plan.bind_count),
                  LOG_I64("evictions", (int64_t)plan.evict_count),
                  LOG_I64("waiting", (int64_t)plan.waiting_count));
    return arm_for_later(scheduler);
}

static bool tell_estimate(void *user, struct str ns, struct str group, const struct band *band)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scheduler *scheduler = user;

    return reporter_estimate(scheduler->reporter, ns, group, &arena, band_json(&arena, band),
                             clock_of(scheduler));
}

static bool is_known_pod(void *user, const struct object *pod)
{
    return !is_reservation(user, pod);
}

static void estimate_turn(struct scheduler *scheduler)
{
    int64_t due_ms = INT64_MAX;

    if (!scheduler->estimator || scheduler->watches_synced < WATCHES)
        return;
    due_ms = estimator_turn(scheduler->estimator, scheduler->waiting, clock_of(scheduler));
    if (due_ms != INT64_MAX)
        arm(scheduler, due_ms);
}

static void on_estimated(void *user)
{
    estimate_turn(user);
}

/* Reservations come behind the cycle: one that nobody uses may be what the cycle asks for. */
void scheduler_hold(struct scheduler *scheduler, bool held)
{
    scheduler->held = held;
    if (!held)
        arm(scheduler, clock_of(scheduler));
}

int64_t scheduler_turn(struct scheduler *scheduler)
{
    int64_t suspended_ms = INT64_MAX;

    if (scheduler->held)
        return INT64_MAX;
    int64_t next = cycle_turn(scheduler);
    int64_t applied_ms = applier_turn(scheduler->applier, clock_of(scheduler));

    if (applied_ms < next) {
        arm(scheduler, applied_ms);
        next = applied_ms;
    }
    estimate_turn(scheduler);
    if (!scheduler->reservations || scheduler->watches_synced < WATCHES)
        return next;
    scheduler->reserved_ms = reservations_turn(scheduler->reservations, clock_of(scheduler));
    if (scheduler->suspender)
        suspended_ms = suspender_turn(scheduler->suspender, clock_of(scheduler));
    if (suspended_ms < scheduler->reserved_ms)
        scheduler->reserved_ms = suspended_ms;
    if (scheduler->reserved_ms == INT64_MAX)
        return next;
    arm(scheduler, scheduler->reserved_ms);
    return scheduler->reserved_ms < next ? scheduler->reserved_ms : next;
}

static void start_suspender(struct scheduler *scheduler, const struct scheduler_options *options)
{
    if (!options->inside)
        return;
    scheduler->suspender = suspender_new(&(struct suspender_options){.api = scheduler->api,
                                                                     .cache = scheduler->cache,
                                                                     .inside = options->inside,
                                                                     .now = now_of,
                                                                     .again = on_turn_wanted,
                                                                     .user = scheduler,
                                                                     .log = options->log,
                                                                     .seed = options->seed});
}

static void start_reservations(struct scheduler *scheduler, const struct scheduler_options *options)
{
    scheduler->reservations =
        reservations_new(&(struct reservations_options){.api = scheduler->api,
                                                        .cache = scheduler->cache,
                                                        .core = scheduler->core,
                                                        .settings = *options->sharing,
                                                        .now = now_of,
                                                        .again = on_turn_wanted,
                                                        .user = scheduler,
                                                        .log = options->log,
                                                        .seed = options->seed});
    start_suspender(scheduler, options);
}

static void start_shadow(struct scheduler *scheduler)
{
    const struct scheduler_options *options = &scheduler->options;

    if (!options->shadow)
        return;
    scheduler->shadower =
        shadower_new(&(struct shadower_options){.core = scheduler->core,
                                                .cache = scheduler->cache,
                                                .log = options->log,
                                                .default_queue = options->default_queue,
                                                .default_parent = options->default_parent,
                                                .seed = options->seed});
}

/* What SchedulingShards and the Config say. */
static void start_settings(struct scheduler *scheduler)
{
    scheduler->shards_ms = INT64_MAX;
    scheduler->writer =
        queue_writer_new(&(struct queue_writer_options){.api = scheduler->api,
                                                        .again = on_queue_again,
                                                        .user = scheduler,
                                                        .seed = scheduler->options.seed});
    scheduler->shards = shards_new(&(struct shards_options){.loop = scheduler->loop,
                                                            .writer = scheduler->writer,
                                                            .api = scheduler->api,
                                                            .cache = scheduler->cache,
                                                            .core = scheduler->core,
                                                            .base = sched_config(scheduler->core),
                                                            .log = scheduler->log,
                                                            .now = now_of,
                                                            .stats = &scheduler->stats,
                                                            .changed = on_shards,
                                                            .user = scheduler});
    scheduler->config = config_watcher_new(&(struct config_options){
        .api = scheduler->api, .now = now_of, .changed = on_config, .user = scheduler});
}

static void keep_base(struct scheduler *scheduler, const struct sched_config *config)
{
    scheduler->base = *config;
    scheduler->base.scheduler_name = str_dup(&scheduler->base_arena, config->scheduler_name);
    scheduler->base.queue_label = str_dup(&scheduler->base_arena, config->queue_label);
    scheduler->base.pool_label = str_dup(&scheduler->base_arena, config->pool_label);
}

static void take_config(const struct scheduler_options *options, struct sched_config *ret)
{
    if (options->config)
        *ret = *options->config;
    else
        sched_config_default(ret);
    ret->volumes = true;
}

int scheduler_start(uv_loop_t *loop,
                    struct api *api,
                    const struct scheduler_options *options,
                    struct scheduler **ret,
                    struct err *err)
{
    struct scheduler *scheduler = MEM_NEW(struct scheduler);
    struct sched_config config;

    (void)err; /* nothing of it fails today */
    take_config(options, &config);
    scheduler->loop = loop;
    if (options->shadow)
        api = mute_api_init(&scheduler->mute, api);
    scheduler->api = api;
    scheduler->log = options->log;
    scheduler->now = options->now;
    scheduler->now_user = options->now_user;
    scheduler->options = *options;
    keep_base(scheduler, &config);
    scheduler->core = sched_new(&config);
    if (options->recorder) {
        options->recorder->begin(options->recorder->user, scheduler->core);
        sched_tap(scheduler->core, options->recorder->saw, options->recorder->user);
    }
    sched_measure(scheduler->core, scheduler_stats_step, &scheduler->stats);
    scheduler->cache = cache_new(options->seed);
    scheduler->reserved_ms = INT64_MAX;
    start_shadow(scheduler);
    if (options->sharing)
        start_reservations(scheduler, options);
    scheduler->applier =
        applier_new(&(struct applier_options){.api = api,
                                              .cache = scheduler->cache,
                                              .reservations = scheduler->reservations,
                                              .autoscalers = options->autoscalers,
                                              .suspends = scheduler->suspender != NULL,
                                              .done = on_written,
                                              .may_bind = may_bind,
                                              .keeps_starts = keeps_starts,
                                              .is_promised = is_promised,
                                              .ready = on_ready,
                                              .again = on_turn_wanted,
                                              .volumes = volumes_of,
                                              .user = scheduler});
    scheduler->reporter = reporter_new(&(struct reporter_options){.api = api,
                                                                  .cache = scheduler->cache,
                                                                  .core = scheduler->core,
                                                                  .component = APPLIER_COMPONENT,
                                                                  .seed = options->seed,
                                                                  .again = on_again,
                                                                  .user = scheduler});
    if (loop)
        scheduler->timer = timer_new(loop, scheduler);
    if (loop && !options->shadow)
        scheduler->estimator = estimator_new(&(struct estimator_options){.loop = loop,
                                                                         .cache = scheduler->cache,
                                                                         .core = scheduler->core,
                                                                         .seed = 1,
                                                                         .learned = options->taught,
                                                                         .is_known = is_known_pod,
                                                                         .tell = tell_estimate,
                                                                         .again = on_estimated,
                                                                         .user = scheduler,
                                                                         .log = options->log});
    start_settings(scheduler);
    for (size_t i = 0; i < WATCHES; i++) {
        scheduler->watches[i].scheduler = scheduler;
        scheduler->watches[i].watch =
            api_watch(api, &(struct api_watch_request){.kind = watched[i]}, on_change,
                      &scheduler->watches[i]);
    }
    *ret = scheduler;
    return 0;
}

void scheduler_metrics(const struct scheduler *scheduler, struct buf *buf)
{
    scheduler_metrics_write(buf, scheduler->core, scheduler->cache, &scheduler->stats);
    if (scheduler->shadower)
        shadower_metrics(scheduler->shadower, buf);
}

const struct shadow *scheduler_shadow(const struct scheduler *scheduler)
{
    return scheduler && scheduler->shadower ? shadower_shadow(scheduler->shadower) : NULL;
}

void scheduler_teach(struct scheduler *scheduler, const struct runtimes_like *like, int64_t run_ms)
{
    if (scheduler->estimator)
        estimator_teach(scheduler->estimator, like, run_ms);
}

const struct sched *scheduler_core(const struct scheduler *scheduler)
{
    return scheduler->core;
}

void scheduler_stop(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    for (size_t i = 0; i < WATCHES; i++)
        api_watch_stop(scheduler->api, scheduler->watches[i].watch);
    applier_free(scheduler->applier);
    estimator_free(scheduler->estimator);
    reservations_free(scheduler->reservations);
    suspender_free(scheduler->suspender);
    reporter_free(scheduler->reporter);
    config_watcher_free(scheduler->config);
    shards_free(scheduler->shards);
    queue_writer_free(scheduler->writer);
    shadower_free(scheduler->shadower);
    arena_done(&scheduler->base_arena);
    sched_free(scheduler->core);
    cache_free(scheduler->cache);
    timer_free(scheduler->timer);
    mem_free(scheduler);
}
