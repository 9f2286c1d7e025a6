#include "exec/runner.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/memory.h"
#include "control/grouping/group.h"
#include "exec/executor.h"
#include "exec/job_counts.h"
#include "exec/learner.h"
#include "exec/runner_internal.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

/* Flow: on_change() puts an object into the cache and marks keys dirty; the loop's timer brings
 * runner_turn(), which reconciles dirty keys that are not busy; on_done() makes a key idle again.
 *
 * Invariants: a work is in its unit's map from the first event until it is idle, and in the dirty
 * queue at most once (work->queued); nothing reconciles before every watch has synced. */

#define WORKS_SLOTS_KEPT 1024 /* 20 KiB a controller */
#define KEY_BYTES        512  /* of nearly every key: 63 of a namespace, 253 of a name */

int64_t runner_clock(const struct runner *runner)
{
    return runner->now ? runner->now(runner->now_user) : clock_now_ms();
}

static void on_timer(void *user)
{
    (void)runner_turn(user);
}

/* A turn no later than `at_ms`. */
static void arm(struct runner *runner, int64_t at_ms)
{
    if (!runner->loop)
        return;
    int64_t delay = at_ms == 0 ? 0 : at_ms - runner_clock(runner);
    if (delay < 0)
        delay = 0;
    if (delay > RUNNER_LOOK_AGAIN_MAX)
        delay = RUNNER_LOOK_AGAIN_MAX;
    if (timer_due_in_ms(runner->timer) > delay)
        timer_in(runner->timer, delay, on_timer);
}

static struct str work_ns(const struct work *work)
{
    return (struct str){work->text, work->ns_len};
}

static struct str work_name(const struct work *work)
{
    return (struct str){work->text + work->ns_len + 1, work->text_len - work->ns_len - 1};
}

/* "namespace/name" in `text`, which has room for it; its length. */
static size_t key_write(char *text, struct str ns, struct str name)
{
    if (ns.len)
        memcpy(text, ns.p, ns.len);
    text[ns.len] = '/';
    if (name.len)
        memcpy(text + ns.len + 1, name.p, name.len);
    return ns.len + 1 + name.len;
}

/* NULL: nothing is known of the key. */
static struct work *work_find(const struct unit *unit, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char text[KEY_BYTES];
    size_t len = ns.len + 1 + name.len;
    char *key = len <= sizeof(text) ? text : ARENA_ARRAY(&arena, char, len);

    return map_get(&unit->works, (struct str){key, key_write(key, ns, name)});
}

static struct work *work_make(struct unit *unit, struct str ns, struct str name)
{
    struct work *work = work_find(unit, ns, name);

    if (work)
        return work;
    work = mem_alloc(sizeof(*work) + ns.len + 1 + name.len);
    work->unit = unit;
    work->ns_len = ns.len;
    work->text_len = key_write(work->text, ns, name);
    map_set(&unit->works, (struct str){work->text, work->text_len}, work);
    return work;
}

static void work_free(struct work *work)
{
    execution_forget(work->execution);
    mem_free((void *)(uintptr_t)work->refusal.p);
    mem_free((void *)(uintptr_t)work->told.p);
    arena_done(&work->arena);
    VEC_DONE(&work->awaits);
    mem_free(work);
}

static void work_drop_if_idle(struct work *work)
{
    if (work->dirty || work->queued || work->execution || work->due_ms || work->failures ||
        work->lingers)
        return;
    /* Forgotten now, the next event of its key would be looked at without what it wrote. */
    if (work->awaits.count) {
        work->lingers = true;
        VEC_PUSH(NULL, &work->unit->runner->lingering, work);
        return;
    }
    struct unit *unit = work->unit;
    map_remove(&unit->works, (struct str){work->text, work->text_len});
    /* A map keeps the room of the most it ever held, and the start alone brings every pod. */
    if (!unit->works.count && unit->works.slot_count > WORKS_SLOTS_KEPT)
        map_done(&unit->works);
    work_free(work);
}

static void enqueue(struct work *work)
{
    struct runner *runner = work->unit->runner;

    work->dirty = true;
    if (!work->queued && !work->execution) {
        work->queued = true;
        VEC_PUSH(NULL, &runner->queue, work);
    }
    arm(runner, 0);
}

static void due_at(struct work *work, int64_t at_ms)
{
    struct runner *runner = work->unit->runner;

    if (work->due_ms && work->due_ms <= at_ms)
        return;
    work->due_ms = at_ms;
    if (at_ms < runner->next_due_ms)
        runner->next_due_ms = at_ms;
    arm(runner, at_ms);
}

/* A change concerns the work. Moments are rounded up, so that all that settles does so together. */
static void touch(struct work *work)
{
    const struct runner *runner = work->unit->runner;
    const struct controller *controller = work->unit->controller;

    if (!controller->settle || !runner->started) {
        enqueue(work);
    } else if (!work->dirty) {
        const struct control_key key = {work_ns(work), work_name(work)};
        int64_t at_ms = runner_clock(runner) + controller->settle(runner->cache, &key);

        due_at(work,
               (at_ms + RUNNER_SETTLE_STEP_MS - 1) / RUNNER_SETTLE_STEP_MS * RUNNER_SETTLE_STEP_MS);
    }
}

static struct str heap_dup(struct str s)
{
    char *copy = mem_alloc(s.len + 1);

    if (s.len)
        memcpy(copy, s.p, s.len);
    return (struct str){copy, s.len};
}

static void wanting_clear(struct watch *watch)
{
    for (size_t i = 0; i < watch->wanting.count; i++) {
        mem_free((void *)(uintptr_t)watch->wanting.items[i].ns.p);
        mem_free((void *)(uintptr_t)watch->wanting.items[i].name.p);
    }
    VEC_DONE(&watch->wanting);
}

static bool watches_kind(const struct unit *unit, const struct kind *kind)
{
    for (size_t i = 0; unit->controller->watches[i]; i++)
        if (unit->controller->watches[i] == kind)
            return true;
    for (size_t i = 0; i < unit->more.count; i++)
        if (unit->more.items[i] == kind)
            return true;
    return false;
}

static bool passes_by(const struct controller *controller, const struct api_change *change)
{
    return controller->passes_by && change->event == API_MODIFIED && change->previous &&
           controller->passes_by(change->previous, change->object);
}

/* Whether the change is what the controller wrote at its last look at this key. */
static bool is_own(const struct unit *unit,
                   const struct control_key *key,
                   const struct api_change *change)
{
    const struct work *work = NULL;

    if (!unit->controller->ignores_own || !change)
        return false;
    work = work_find(unit, key->ns, key->name);
    for (size_t i = 0; work && i < work->awaits.count; i++)
        if (work->awaits.items[i].watch->kind == change->object->kind &&
            work->awaits.items[i].revision == change->revision)
            return true;
    return false;
}

/* `change`: what brought the object; NULL: something else. */
static void mark_unit(struct unit *unit,
                      const struct object *object,
                      const struct api_change *change,
                      struct arena *arena)
{
    struct control_keys keys = {.arena = arena};

    unit->controller->keys(unit->runner->cache, object, &keys);
    for (size_t i = 0; i < keys.list.count; i++)
        if (!is_own(unit, &keys.list.items[i], change))
            touch(work_make(unit, keys.list.items[i].ns, keys.list.items[i].name));
}

static void mark(struct runner *runner, const struct kind *kind, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t u = 0; u < runner->units.count; u++)
        if (watches_kind(runner->units.items[u], kind))
            mark_unit(runner->units.items[u], object, NULL, &arena);
}

/* Of what was, and of what is. */
static void mark_change(struct runner *runner,
                        const struct kind *kind,
                        const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t u = 0; u < runner->units.count; u++) {
        struct unit *unit = runner->units.items[u];

        if (!watches_kind(unit, kind) || passes_by(unit->controller, change))
            continue;
        if (change->previous)
            mark_unit(unit, change->previous, change, &arena);
        mark_unit(unit, change->object, change, &arena);
    }
}

static void start(struct runner *runner)
{
    runner->started = true;
    for (size_t i = 0; i < runner->units.count; i++)
        if (runner->units.items[i]->controller->at_start)
            enqueue(work_make(runner->units.items[i], STR(""), STR("")));
    arm(runner, 0);
    log_info(runner->log, "runner.synced", LOG_I64("kinds", (int64_t)runner->watches.count),
             LOG_I64("controllers", (int64_t)runner->units.count));
}

static void on_synced(struct watch *watch)
{
    struct runner *runner = watch->runner;

    if (watch->synced)
        return;
    watch->synced = true;
    runner->watches_synced++;
    for (size_t i = 0; i < watch->wanting.count; i++) {
        struct wanting *wanting = &watch->wanting.items[i];

        enqueue(work_make(wanting->unit, wanting->ns, wanting->name));
    }
    wanting_clear(watch);
    if (!runner->started && runner->watches_synced == runner->watches.count)
        start(runner);
}

/* For the numbers: what there was at the start did not happen since. */
static void count_job(struct watch *watch, const struct api_change *change)
{
    const struct object *object = change->object;

    if (!watch->synced || !object || change->event > API_DELETED)
        return;
    job_counts_see(&watch->runner->job_counts,
                   cache_get(watch->runner->cache, watch->kind, object->ns, object->name),
                   change->event == API_DELETED ? NULL : object);
}

static void on_change(void *user, const struct api_change *change)
{
    struct watch *watch = user;
    struct runner *runner = watch->runner;

    if (change->revision > watch->seen && !change->unordered)
        watch->seen = change->revision;
    count_job(watch, change);
    switch (change->event) {
    case API_ADDED:
    case API_MODIFIED:
        cache_put(runner->cache, change->object);
        mark_change(runner, watch->kind, change);
        break;
    case API_DELETED:
        cache_drop(runner->cache, change->object);
        mark(runner, watch->kind, change->object);
        break;
    case API_SYNCED: on_synced(watch); break;
    case API_BOOKMARK: arm(runner, 0); break;
    case API_CLOSED: break;
    }
}

struct watch *runner_watch(const struct runner *runner, const struct kind *kind)
{
    for (size_t i = 0; i < runner->watches.count; i++)
        if (runner->watches.items[i]->kind == kind)
            return runner->watches.items[i];
    return NULL;
}

static bool sees_own_writes(struct work *work, int64_t now_ms)
{
    for (size_t i = work->awaits.count; i-- > 0;)
        if (work->awaits.items[i].watch->seen >= work->awaits.items[i].revision)
            VEC_REMOVE_SWAP(&work->awaits, i);
    if (now_ms >= work->await_until_ms)
        work->awaits.count = 0;
    return work->awaits.count == 0;
}

static void back_off(struct work *work, const struct executor_result *result)
{
    const struct runner *runner = work->unit->runner;
    bool busy = result->err && result->err->http_status == 429;
    int64_t max_ms = busy ? RUNNER_BUSY_MAX_MS : RUNNER_BACKOFF_MAX_MS;
    int64_t delay = RUNNER_BACKOFF_MIN_MS;

    for (uint32_t i = 0; i < work->failures && delay < max_ms; i++)
        delay *= 2;
    if (delay > max_ms)
        delay = max_ms;
    work->failures++;
    work->dirty = true;
    work->not_before_ms = runner_clock(runner) + delay;
    due_at(work, work->not_before_ms);
    log_warn(runner->log, "reconcile.failed", LOG_C("controller", work->unit->controller->name),
             LOG_STR("key", ((struct str){work->text, work->text_len})), LOG_I64("again_ms", delay),
             LOG_ERR(result->err));
}

static void on_done(void *user, const struct executor_result *result)
{
    struct work *work = user;
    struct runner *runner = work->unit->runner;

    work->execution = NULL;
    runner->under_way--;
    runner_hear_refusal(work, result);
    arena_done(&work->arena); /* thousands of works may wait, each with a block of its own */
    work->awaits.count = 0;
    work->await_until_ms = runner_clock(runner) + RUNNER_OWN_WRITE_MS;
    for (size_t i = 0; i < result->write_count; i++) {
        struct watch *watch = runner_watch(runner, result->writes[i].kind);

        if (watch)
            VEC_PUSH(NULL, &work->awaits, (struct await){watch, result->writes[i].revision});
    }
    if (result->lost)
        log_warn(runner->log, "reconcile.lost", LOG_C("controller", work->unit->controller->name),
                 LOG_STR("key", ((struct str){work->text, work->text_len})), LOG_ERR(result->lost));
    if (!result->code)
        work->failures = 0;
    else if (result->stale && work->failures++ == 0)
        due_at(work, runner_clock(runner) + RUNNER_BACKOFF_MIN_MS);
    else
        back_off(work, result);
    if (work->dirty)
        enqueue(work);
    else
        work_drop_if_idle(work);
    arm(runner, 0);
}

/* Known, and the unit is told of changes: another's watch alone would leave it in the dark. */
static bool is_watched(const void *user, const struct kind *kind)
{
    const struct unit *unit = user;
    const struct watch *watch = runner_watch(unit->runner, kind);

    return watch && watch->synced && watches_kind(unit, kind);
}

static struct watch *watch_add(struct runner *runner, const struct kind *kind)
{
    struct watch *watch = MEM_NEW(struct watch);

    *watch = (struct watch){.runner = runner, .kind = kind};
    VEC_PUSH(NULL, &runner->watches, watch);
    return watch;
}

static void watch_begin(struct watch *watch)
{
    watch->watch = api_watch(watch->runner->api,
                             &(struct api_watch_request){.kind = watch->kind, .bookmarks = true},
                             on_change, watch);
}

/* A controller met a kind that it needs to know. */
static void watch_for(struct work *work, const struct kind *kind)
{
    struct runner *runner = work->unit->runner;
    struct watch *watch = runner_watch(runner, kind);

    if (!watches_kind(work->unit, kind))
        VEC_PUSH(NULL, &work->unit->more, kind);
    if (watch && watch->synced) {
        work->dirty = true; /* queued when its actions have come back: never twice under way */
        return;
    }
    if (!watch) {
        watch = watch_add(runner, kind);
        watch_begin(watch);
    }
    VEC_PUSH(NULL, &watch->wanting,
             (struct wanting){work->unit, heap_dup(work_ns(work)), heap_dup(work_name(work))});
}

/* A kind of others was asked for. One that is not served may be soon: its CRD is on the way. */
static void on_learned(void *user, const struct learner_key *key, bool found)
{
    struct runner *runner = user;
    struct work *work = work_make(key->unit, key->ns, key->name);

    if (found)
        enqueue(work);
    else
        due_at(work, runner_clock(runner) + RUNNER_LEARN_AGAIN_MS);
}

static void learn(struct work *work, const struct action *action)
{
    learner_ask(work->unit->runner->learner, action->api_version, action->name,
                &(struct learner_key){work->unit, work_ns(work), work_name(work)});
}

/* Once for a kind, however many of its jobs find out. */
static void tell_foreign(struct runner *runner, const struct action *action)
{
    if (!str_is(action->reason, MEMORY_REASON))
        return;
    for (size_t i = 0; i < runner->foreign.count; i++)
        if (runner->foreign.items[i] == action->kind)
            return;
    VEC_PUSH(NULL, &runner->foreign, action->kind);
    log_warn(runner->log, "crd.foreign", LOG_C("kind", action->kind->name),
             LOG_STR("message", action->message));
}

static void reconcile(struct work *work, int64_t now_ms)
{
    struct runner *runner = work->unit->runner;
    struct control_key key = {work_ns(work), work_name(work)};
    struct control_input input = {.cache = runner->cache,
                                  .config = &runner->config,
                                  .now_ms = now_ms,
                                  .kinds = runner->api->kinds,
                                  .learns = runner->api->ops->learn != NULL,
                                  .is_watched = is_watched,
                                  .user = work->unit,
                                  .refusal = work->refusal,
                                  .without = runner->without};
    struct err err = {0};

    work->dirty = false;
    work->due_ms = 0;
    work->not_before_ms = 0;
    arena_reset(&work->arena);
    work->actions = (struct actions){.arena = &work->arena};
    struct turn_piece piece = {str_from(work->unit->controller->name), STR("reconcile"),
                               (struct str){work->text, work->text_len}};
    turn_enter(runner->loop, &piece);
    work->unit->controller->reconcile(&input, &key, &work->actions);
    turn_leave(runner->loop, &piece);
    for (size_t i = 0; i < work->actions.list.count; i++) {
        const struct action *action = &work->actions.list.items[i];

        if (action->type == ACTION_LOOK_AGAIN)
            due_at(work, action->at_ms);
        else if (action->type == ACTION_WATCH)
            watch_for(work, action->kind);
        else if (action->type == ACTION_LEARN)
            learn(work, action);
        else if (action->type == ACTION_EVENT)
            tell_foreign(runner, action);
    }
    int r = executor_run(&(struct executor_call){.api = runner->api,
                                                 .cache = runner->cache,
                                                 .component = "muster",
                                                 .now_ms = now_ms,
                                                 .draw = runner->draw,
                                                 .post = runner->post,
                                                 .done = on_done,
                                                 .user = work},
                         &work->actions, &work->execution, &err);
    if (work->execution) {
        runner->under_way++;
        return;
    }
    arena_done(&work->arena);
    if (r < 0)
        back_off(work, &(struct executor_result){.code = r, .err = &err});
    else
        work->failures = 0;
    if (work->dirty)
        enqueue(work);
    else
        work_drop_if_idle(work);
}

/* Whose moment has come becomes dirty; finds the next one. */
static void collect_due(struct runner *runner, int64_t now_ms)
{
    if (now_ms < runner->next_due_ms)
        return;
    runner->next_due_ms = INT64_MAX;
    for (size_t u = 0; u < runner->units.count; u++)
        MAP_FOREACH(&runner->units.items[u]->works, entry) {
            struct work *work = entry->value;

            if (!work->due_ms)
                continue;
            if (work->due_ms <= now_ms) {
                work->due_ms = 0;
                enqueue(work);
            } else if (work->due_ms < runner->next_due_ms) {
                runner->next_due_ms = work->due_ms;
            }
        }
}

void runner_hold(struct runner *runner, bool held)
{
    runner->held = held;
    if (!held)
        arm(runner, 0);
}

void runner_rename(struct runner *runner, struct str scheduler_name, struct str queue_label_key)
{
    struct arena old = runner->names;

    runner->names = (struct arena){0};
    runner->config = runner->started_config;
    if (scheduler_name.len)
        runner->config.scheduler_name = str_dup(&runner->names, scheduler_name);
    if (queue_label_key.len)
        runner->config.queue_label_key = str_dup(&runner->names, queue_label_key);
    arena_done(&old);
}

void runner_set_trainer(struct runner *runner, struct str url, struct str ca)
{
    struct arena old = runner->trainer;
    const struct object *job = NULL;
    size_t cursor = 0;

    runner->trainer = (struct arena){0};
    runner->config.trainer_url = str_dup(&runner->trainer, url);
    runner->config.trainer_ca = str_dup(&runner->trainer, ca);
    runner->started_config.trainer_url = runner->config.trainer_url;
    runner->started_config.trainer_ca = runner->config.trainer_ca;
    arena_done(&old);
    while ((job = cache_next(runner->cache, &kind_trainjob, STR(""), &cursor)))
        mark(runner, &kind_trainjob, job);
}

static void drop_lingering(struct runner *runner, int64_t now_ms)
{
    for (size_t i = runner->lingering.count; i-- > 0;) {
        struct work *work = runner->lingering.items[i];

        if (!sees_own_writes(work, now_ms))
            continue;
        work->lingers = false;
        VEC_REMOVE_SWAP(&runner->lingering, i);
        work_drop_if_idle(work);
    }
}

int64_t runner_turn(struct runner *runner)
{
    int64_t now_ms = runner_clock(runner);

    if (!runner->started || runner->held)
        return INT64_MAX;
    drop_lingering(runner, now_ms);
    collect_due(runner, now_ms);

    /* What cannot be looked at yet stays in the queue, in its order. */
    size_t count = runner->queue.count;
    size_t kept = 0;
    size_t done = 0;
    bool over = false; /* what this turn may do */
    for (size_t i = 0; i < count; i++) {
        struct work *work = runner->queue.items[i];

        if (work->not_before_ms > now_ms) {
            work->queued = false;
            due_at(work, work->not_before_ms); /* it may be here by an earlier moment of its own */
            continue;
        }
        if (over || runner->under_way >= RUNNER_UNDER_WAY_MAX || !sees_own_writes(work, now_ms)) {
            runner->queue.items[kept++] = work;
            continue;
        }
        work->queued = false;
        done++;
        reconcile(work, now_ms);
        over = done >= RUNNER_TURN_KEYS_MAX || runner_clock(runner) - now_ms >= RUNNER_TURN_MS;
    }
    /* Behind them comes what was queued meanwhile. */
    for (size_t i = count; i < runner->queue.count; i++)
        runner->queue.items[kept++] = runner->queue.items[i];
    runner->queue.count = kept;

    bool more = kept && runner->under_way < RUNNER_UNDER_WAY_MAX;
    int64_t next = more && over ? 0 : runner->next_due_ms;
    if ((more || runner->lingering.count) && next > now_ms + RUNNER_OWN_WRITE_MS)
        next = now_ms + RUNNER_OWN_WRITE_MS;
    if (next != INT64_MAX)
        arm(runner, next);
    return next;
}

static void config_defaults(struct control_config *config)
{
    if (!config->scheduler_name.len)
        config->scheduler_name = STR("kai-scheduler");
    if (!config->queue_label_key.len)
        config->queue_label_key = STR("kai.scheduler/queue");
    if (!config->default_queue.len)
        config->default_queue = STR("default-queue");
    if (!config->default_parent.len)
        config->default_parent = STR("default-parent-queue");
    if (!config->cluster_domain.len)
        config->cluster_domain = STR("cluster.local");
}

static bool is_without(const struct runner_options *options, const char *name)
{
    for (size_t i = 0; options->without && options->without[i]; i++)
        if (strcmp(options->without[i], name) == 0)
            return true;
    return false;
}

static void unit_add(struct runner *runner, const struct controller *controller, uint64_t seed)
{
    struct unit *unit = MEM_NEW(struct unit);

    *unit = (struct unit){.runner = runner, .controller = controller, .works = {.seed = seed}};
    VEC_PUSH(NULL, &runner->units, unit);
    runner->groups = runner->groups || controller == &group_controller;
    for (size_t i = 0; controller->watches[i]; i++) {
        if (!runner_watch(runner, controller->watches[i]))
            watch_add(runner, controller->watches[i]);
    }
}

int runner_start(uv_loop_t *loop,
                 struct api *api,
                 const struct runner_options *options,
                 struct runner **ret,
                 struct err *err)
{
    struct runner *runner = MEM_NEW(struct runner);

    (void)err; /* nothing of it fails today */
    *runner = (struct runner){.loop = loop,
                              .api = api,
                              .config = options->config,
                              .cache = cache_new(options->seed),
                              .log = options->log,
                              .now = options->now,
                              .now_user = options->now_user,
                              .draw = options->draw,
                              .post = options->post,
                              .without = options->without,
                              .next_due_ms = INT64_MAX};
    config_defaults(&runner->config);
    runner->started_config = runner->config;
    runner->learner = learner_new(&(struct learner_options){
        .api = api, .log = options->log, .told = on_learned, .user = runner});
    if (loop)
        runner->timer = timer_new(loop, runner);
    for (size_t i = 0; controllers[i]; i++)
        if (!is_without(options, controllers[i]->name) &&
            (options->embedded || !controllers[i]->embedded) &&
            (!controllers[i]->is_wanted || controllers[i]->is_wanted(&runner->config)))
            unit_add(runner, controllers[i], options->seed);
    for (size_t i = 0; i < runner->watches.count; i++) {
        struct watch *watch = runner->watches.items[i];

        watch->watch =
            api_watch(api, &(struct api_watch_request){.kind = watch->kind, .bookmarks = true},
                      on_change, watch);
    }
    *ret = runner;
    return 0;
}

void runner_write_metrics(const struct runner *runner, struct buf *buf)
{
    job_counts_write(&runner->job_counts, buf);
}

void runner_stop(struct runner *runner)
{
    if (!runner)
        return;
    learner_free(runner->learner);
    for (size_t i = 0; i < runner->watches.count; i++) {
        api_watch_stop(runner->api, runner->watches.items[i]->watch);
        wanting_clear(runner->watches.items[i]);
        mem_free(runner->watches.items[i]);
    }
    for (size_t i = 0; i < runner->units.count; i++) {
        MAP_FOREACH(&runner->units.items[i]->works, entry)
            work_free(entry->value);
        map_done(&runner->units.items[i]->works);
        VEC_DONE(&runner->units.items[i]->more);
        mem_free(runner->units.items[i]);
    }
    VEC_DONE(&runner->watches);
    VEC_DONE(&runner->units);
    VEC_DONE(&runner->queue);
    VEC_DONE(&runner->lingering);
    VEC_DONE(&runner->foreign);
    cache_free(runner->cache);
    arena_done(&runner->names);
    arena_done(&runner->trainer);
    job_counts_done(&runner->job_counts);
    timer_free(runner->timer);
    mem_free(runner);
}
