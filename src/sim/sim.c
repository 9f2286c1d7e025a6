#include "sim/sim.h"

#include "api/api.h"
#include "api/limit.h"
#include "api/share.h"
#include "base/err.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/str.h"
#include "sim/check.h"
#include "sim/inside.h"
#include "sim/link.h"
#include "sim/machines.h"
#include "sim/plane.h"
#include "sim/process.h"
#include "sim/work.h"
#include "store/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <uv.h>

/* Flow: sim_step() does one thing: something moves on a link, a part takes its turn, time passes,
 * or somebody outside does something. When nothing can move, time jumps to the next moment at which
 * something is due.
 *
 * The parts are the real ones and know nothing of this: the runner and the scheduler are turned by
 * hand (their loop is NULL) and read the virtual clock; the store's loop has no timer and is run
 * until the store is idle whenever it was given something. */

#define START_MS          1800000000000 /* some day in 2027 */
#define CRASH_OF_10000    20            /* of steps, in a random run */
#define POWER_OF_10000    8
#define PRESSURE_OF_10000 20 /* in a wide run */
#define FULL_OF_10000     6  /* in a wide run */
#define FULL_MS           60000
#define OPERATOR_OF_10000 20 /* with two operators */
#define OPERATOR_MS       15000
#define SLOW_OF_1000      30 /* requests of operators */
#define TICK_MS           20 /* the most that passes between two things by itself */
#define OFF_MS            45000
#define REST_MS           (20 * 60 * 1000) /* nothing may go on for longer than this */
#define MACHINES_MAX      6
#define TEXT_BYTES        600
#define STORY_EVERY_MS    20000
#define PLANES            2

struct sim {
    const struct sim_options *options;
    struct sim_result *result;
    struct rng rng;  /* the order of things, and what machines do */
    struct rng luck; /* crashes and power; a step draws the same whatever happened before */
    int64_t now_ms;
    uv_loop_t loop;
    struct store *store;
    struct plane *planes[PLANES]; /* the control plane; or two operators, the older one first */
    size_t plane_count;
    struct link *fields; /* of the machines */
    struct machines *machines;
    struct inside *inside; /* NULL: nothing is suspended on a cluster */
    struct work *work;
    struct check *check;
    size_t machine_count;
    int64_t gpus;
    int64_t work_ms;               /* when somebody does something next; INT64_MAX: never */
    int64_t back_ms[MACHINES_MAX]; /* when the power returns; 0: it is on */
    int64_t away_ms[MACHINES_MAX]; /* when others notice that it is off; 0: they have */
    int64_t room_ms;               /* when the full disk has room again; 0: it has */
    size_t story_step;
    uint64_t admitted;                  /* pods with shares */
    uint64_t events[SIM_EVENT_CLASSES]; /* that came up */
    bool faults;
    bool begun; /* the cluster is set up: what happens from here on is the story */
};

static int64_t virtual_now(void *user)
{
    const struct sim *sim = user;

    return sim->now_ms;
}

static void sim_trace(void *user, const char *text)
{
    struct sim *sim = user;
    char line[TEXT_BYTES];

    (void)snprintf(line, sizeof(line), "%7" PRIu64 " %9.3f %s", sim->result->steps,
                   (double)(sim->now_ms - START_MS) / 1000, text);
    sim->result->hash = str_hash(str_from(line), sim->result->hash);
    if (sim->options->trace)
        sim->options->trace(sim->options->user, line);
}

__attribute__((format(printf, 2, 3))) static void tell(struct sim *sim, const char *fmt, ...)
{
    char text[TEXT_BYTES], sentence[TEXT_BYTES + 32];
    va_list args;

    if (!sim->options->tell)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)snprintf(sentence, sizeof(sentence), "%9.3f s  %s",
                   (double)(sim->now_ms - START_MS) / 1000, text);
    sim->options->tell(sim->options->user, sentence);
}

static void sim_tell(void *user, const char *sentence)
{
    struct sim *sim = user;

    if (sim->begun)
        tell(sim, "%s", sentence);
}

/* Something from outside comes up: whether it happens in this run. */
static bool sim_happens(struct sim *sim, enum sim_event_class class)
{
    const struct sim_options *options = sim->options;
    struct sim_event event = {class, ++sim->events[class]};
    bool chosen = !options->only;

    for (size_t i = 0; i < options->only_count && !chosen; i++)
        chosen = options->only[i].class == class && options->only[i].number == event.number;
    if (chosen && options->happened)
        options->happened(options->user, event);
    return chosen;
}

static bool link_happens(void *user, enum link_fault fault)
{
    static const enum sim_event_class classes[] = {[LINK_REFUSE] = SIM_EVENT_REFUSE,
                                                   [LINK_LOSE] = SIM_EVENT_LOSE,
                                                   [LINK_BREAK] = SIM_EVENT_BREAK};

    return sim_happens(user, classes[fault]);
}

__attribute__((format(printf, 2, 3))) static void fail(struct sim *sim, const char *fmt, ...)
{
    va_list args;

    if (sim->result->failed)
        return;
    sim->result->failed = true;
    va_start(args, fmt);
    (void)vsnprintf(sim->result->text, sizeof(sim->result->text), fmt, args);
    va_end(args);
    sim_trace(sim, sim->result->text);
    tell(sim, "This must not be: %s.", sim->result->text);
}

static void sim_settle(void *user)
{
    struct sim *sim = user;

    while (!store_is_idle(sim->store))
        (void)uv_run(&sim->loop, UV_RUN_NOWAIT);
}

/* ---- the control plane lives and dies ---- */

/* What the webhook of a cluster makes of a pod with shares, and what the store makes of any. */
static void admit_pod(void *user, struct json *pod, struct arena *arena)
{
    struct sim *sim = user;

    if (sim->options->one_by_one && share_wanted(pod)) {
        if (sim->options->suspend)
            limit_mutate(arena, pod, STR("muster"));
        share_mutate(arena, pod, sim->admitted++);
        /* An API server adds its defaults behind webhooks, the store before this. */
        JSON_FOREACH(json_at(pod, "spec.volumes"), volume)
            if (json_get(volume, "configMap") && !json_at(volume, "configMap.defaultMode"))
                json_add_i64(arena, json_get(volume, "configMap"), "defaultMode", 0644);
    }
    for (size_t i = 0; i < sim->plane_count; i++)
        if (plane_leads(sim->planes[i]))
            plane_admit(sim->planes[i], pod, arena);
}

static void plane_failed(void *user, const char *text)
{
    fail(user, "the control plane does not start: %s", text);
}

/* Who leads; without one, the one that is there last. */
static struct plane *leading(struct sim *sim)
{
    return sim->plane_count > 1 && plane_leads(sim->planes[0]) ? sim->planes[0]
                                                               : sim->planes[sim->plane_count - 1];
}

static void sim_crash(void *user)
{
    struct sim *sim = user;

    sim->result->crashes++;
    if (sim->options->operators) {
        plane_trouble(leading(sim), PLANE_KILLED, 0);
        return;
    }
    sim_trace(sim, "the control plane dies and starts again");
    tell(sim, "The control plane dies, and starts again with nothing but the store.");
    plane_kill(sim->planes[0]);
    plane_start(sim->planes[0]);
}

static void operator_trouble(struct sim *sim)
{
    size_t index = rng_below(&sim->luck, PLANES);
    uint64_t trouble = rng_below(&sim->luck, PLANE_TROUBLES);
    int64_t ms = (int64_t)rng_below(&sim->luck, OPERATOR_MS);

    if (sim_happens(sim, SIM_EVENT_OPERATOR))
        plane_trouble(sim->planes[index], (enum plane_trouble)trouble, ms);
}

/* ---- machines ---- */

static void on_started(void *user, const struct sim_process *process)
{
    struct sim *sim = user;
    char text[TEXT_BYTES];

    sim->result->pods++;
    (void)snprintf(text, sizeof(text), "process of " STR_FMT " starts", STR_ARG(process->name));
    sim_trace(sim, text);
    tell(sim, "The process of pod " STR_FMT " starts on " STR_FMT ".", STR_ARG(process->name),
         STR_ARG(process->node));
    check_started(sim->check, process);
}

static void on_binding(void *user, const struct api_binding *binding)
{
    struct sim *sim = user;

    check_binding(sim->check, binding);
}

static void on_evicted(void *user, struct str ns, struct str name)
{
    struct sim *sim = user;

    check_evicted(sim->check, ns, name);
}

static void on_refused(void *user, const struct sim_process *process)
{
    struct sim *sim = user;

    check_refused(sim->check, process);
}

static void on_ended(void *user, struct str ns, struct str name, struct str uid)
{
    struct sim *sim = user;
    char text[TEXT_BYTES];

    (void)snprintf(text, sizeof(text), "process of " STR_FMT " ends", STR_ARG(name));
    sim_trace(sim, text);
    tell(sim, "The process of pod " STR_FMT " ends.", STR_ARG(name));
    check_ended(sim->check, ns, name, uid);
}

static void on_moved(void *user, struct str uid, bool out)
{
    struct sim *sim = user;

    check_moved(sim->check, uid, out);
}

static void power_off(struct sim *sim)
{
    size_t index = rng_below(&sim->luck, sim->machine_count);
    int64_t more_ms = (int64_t)rng_below(&sim->luck, OFF_MS * 8);

    if (sim->back_ms[index] || !sim_happens(sim, SIM_EVENT_POWER))
        return;
    sim_trace(sim, "a machine loses power");
    tell(sim, "Machine machine-%zu loses power.", index);
    machines_power(sim->machines, index, false, sim->now_ms);
    sim->away_ms[index] = sim->now_ms + OFF_MS / 2;
    sim->back_ms[index] = sim->now_ms + OFF_MS + more_ms;
}

/* A node that was away is told so, and told ready again when it is back. */
static int64_t power_turn(struct sim *sim)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < sim->machine_count; i++) {
        if (sim->away_ms[i] && sim->now_ms >= sim->away_ms[i]) {
            sim->away_ms[i] = 0;
            work_ready(sim->work, i, false);
        }
        if (sim->back_ms[i] && sim->now_ms >= sim->back_ms[i]) {
            sim->back_ms[i] = 0;
            machines_power(sim->machines, i, true, sim->now_ms);
            work_ready(sim->work, i, true);
        }
        if (sim->away_ms[i] && sim->away_ms[i] < next)
            next = sim->away_ms[i];
        if (sim->back_ms[i] && sim->back_ms[i] < next)
            next = sim->back_ms[i];
    }
    return next;
}

/* A machine is short of memory: one of its pods has to go. */
static void pressure(struct sim *sim)
{
    size_t index = rng_below(&sim->luck, sim->machine_count);

    if (sim->back_ms[index] || !sim_happens(sim, SIM_EVENT_PRESSURE))
        return;
    sim_trace(sim, "a machine is short of memory");
    tell(sim, "Machine machine-%zu is short of memory, and ends a pod.", index);
    machines_evict(sim->machines, index, sim->now_ms);
}

static void disk_set_full(struct sim *sim, bool full)
{
    sim_trace(sim, full ? "the disk is full" : "the disk has room again");
    tell(sim, full ? "The disk of the store is full." : "The disk of the store has room again.");
    for (size_t i = 0; i < sim->plane_count; i++)
        link_set_full(plane_link(sim->planes[i]), full);
    link_set_full(sim->fields, full);
}

static void disk_fills_up(struct sim *sim)
{
    int64_t ms = 1 + (int64_t)rng_below(&sim->luck, FULL_MS);

    if (sim->room_ms || !sim_happens(sim, SIM_EVENT_FULL))
        return;
    sim->room_ms = sim->now_ms + ms;
    disk_set_full(sim, true);
}

static int64_t disk_turn(struct sim *sim)
{
    if (sim->room_ms && sim->now_ms >= sim->room_ms) {
        sim->room_ms = 0;
        disk_set_full(sim, false);
    }
    return sim->room_ms ? sim->room_ms : INT64_MAX;
}

/* ---- one step ---- */

static int64_t outside_turn(struct sim *sim)
{
    int64_t next = machines_turn(sim->machines, sim->now_ms);
    int64_t power = power_turn(sim);
    int64_t room = disk_turn(sim);
    int64_t inside = inside_turn(sim->inside);

    if (sim->now_ms >= sim->work_ms) {
        if (sim->options->story == SIM_GANG) {
            bool more = work_story(sim->work, sim->story_step++);

            sim->work_ms = more ? sim->now_ms + STORY_EVERY_MS : INT64_MAX;
        } else {
            work_something(sim->work, sim_happens(sim, SIM_EVENT_PEOPLE));
            sim->work_ms = sim->now_ms + work_pause_ms(sim->work);
        }
    }
    sim_settle(sim);
    if (power < next)
        next = power;
    if (room < next)
        next = room;
    if (inside < next)
        next = inside;
    return sim->work_ms < next ? sim->work_ms : next;
}

static void something_bad(struct sim *sim)
{
    if (!sim->faults || sim->options->story != SIM_RANDOM)
        return;
    uint64_t dice = rng_below(&sim->luck, 10000);
    if (dice >= CRASH_OF_10000 && dice < CRASH_OF_10000 + POWER_OF_10000)
        power_off(sim);
    else if (sim->options->wide && dice >= 10000 - PRESSURE_OF_10000)
        pressure(sim);
    else if (sim->options->wide && dice >= 10000 - PRESSURE_OF_10000 - FULL_OF_10000)
        disk_fills_up(sim);
    else if (sim->options->operators && dice >= CRASH_OF_10000 + POWER_OF_10000 &&
             dice < CRASH_OF_10000 + POWER_OF_10000 + OPERATOR_OF_10000)
        operator_trouble(sim);
    else if (dice < CRASH_OF_10000 && sim_happens(sim, SIM_EVENT_CRASH))
        sim_crash(sim);
}

static int64_t planes_time(struct sim *sim)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < sim->plane_count; i++) {
        int64_t at = plane_time(sim->planes[i]);

        if (at < next)
            next = at;
    }
    return next;
}

/* Everybody has their turn. Returns when something is due, if nothing moves. */
static int64_t turn_all(struct sim *sim)
{
    int64_t next = outside_turn(sim);
    int64_t at = planes_time(sim);

    for (size_t i = 0; i < sim->plane_count; i++) {
        if (at < next)
            next = at;
        at = plane_control(sim->planes[i]);
        if (at < next)
            next = at;
        at = plane_schedule(sim->planes[i]);
    }
    return at < next ? at : next;
}

static bool step_any(struct sim *sim)
{
    for (size_t i = 0; i < sim->plane_count; i++)
        if (plane_step(sim->planes[i]))
            return true;
    return link_step(sim->fields);
}

static void sim_step(struct sim *sim, int64_t until_ms)
{
    uint64_t choice = rng_below(&sim->rng, 12);
    struct plane *plane =
        sim->planes[sim->plane_count > 1 ? rng_below(&sim->rng, sim->plane_count) : 0];
    bool moved = true;

    sim->result->steps++;
    something_bad(sim);
    if (choice < 6)
        moved = plane_step(plane);
    else if (choice < 8)
        moved = link_step(sim->fields);
    else if (choice == 8)
        (void)plane_control(plane);
    else if (choice == 9)
        (void)plane_schedule(plane);
    else
        sim->now_ms += (int64_t)rng_below(&sim->rng, TICK_MS);
    if (choice >= 10) {
        (void)planes_time(sim);
        (void)outside_turn(sim);
    }
    sim_settle(sim);
    if (!moved && !step_any(sim)) {
        int64_t next = turn_all(sim);

        sim_settle(sim);
        if (!step_any(sim)) {
            if (next > until_ms)
                next = until_ms;
            if (next > sim->now_ms)
                sim->now_ms = next;
        }
        sim_settle(sim);
    }
    if (sim->plane_count > 1 && plane_leads(sim->planes[0]) && plane_leads(sim->planes[1]))
        fail(sim, "two operators lead");
    const char *wrong = check_now(sim->check, sim->now_ms);
    if (wrong)
        fail(sim, "%s", wrong);
    if (sim->result->steps >= SIM_STEPS_MAX)
        fail(sim, "it does not come to rest within %d steps", SIM_STEPS_MAX);
}

static void run_for(struct sim *sim, int64_t ms)
{
    int64_t until_ms = sim->now_ms + ms;

    while (sim->now_ms < until_ms && !sim->result->failed)
        sim_step(sim, until_ms);
}

static void set_faults(struct sim *sim, bool on)
{
    static const struct link_faults none = {0};
    /* Each seed has its own bad luck; some have none. */
    uint32_t bad = on ? (uint32_t)rng_below(&sim->luck, 4) : 0;
    struct link_faults some = {.refuse = bad * 15, .lose_answer = bad * 10, .break_watch = bad * 3};

    sim->faults = on;
    if (sim->inside)
        inside_set_faults(sim->inside, on && bad);
    if (sim->options->story != SIM_RANDOM)
        some = none;
    if (sim->options->one_by_one == false)
        some.lose_answer = 0; /* in one process an answer is never lost */
    for (size_t i = 0; i < sim->plane_count; i++) {
        struct link_faults mine = on ? some : none;

        mine.slow = on && sim->options->operators ? SLOW_OF_1000 : 0;
        link_set_faults(plane_link(sim->planes[i]), &mine);
    }
    link_set_faults(sim->fields, on ? &some : &none);
}

/* ---- a run ---- */

enum seed_use {
    SEED_ORDER,
    SEED_LUCK,
    SEED_PLANE,
    SEED_FIELDS,
    SEED_PEOPLE,
    SEED_NEWER,
};

/* One sequence for each use, so that more or less of one of them moves no other. */
static uint64_t seed_for(const struct sim_options *options, enum seed_use use)
{
    struct rng rng = {options->seed};
    uint64_t seed = rng_next(&rng);

    for (unsigned i = 0; i < use; i++)
        seed = rng_next(&rng);
    return use == SEED_ORDER ? seed + options->order : seed;
}

static void open_planes(struct sim *sim, const struct link_options *link)
{
    const struct sim_options *options = sim->options;
    struct plane_options plane = {.sim = options,
                                  .link = *link,
                                  .competes = options->operators,
                                  .inside = sim->inside,
                                  .fail = plane_failed};

    sim->plane_count = options->operators ? PLANES : 1;
    if (options->operators) {
        plane.link.name = "The older operator";
        plane.link.older = true;
        plane.link.slow_ms = PLANE_LATE_MS;
    }
    sim->planes[0] = plane_new(&plane);
    if (!options->operators)
        return;
    plane.link.name = "The newer operator";
    plane.link.older = false;
    plane.link.seed = seed_for(options, SEED_NEWER);
    sim->planes[1] = plane_new(&plane);
}

static int open_all(struct sim *sim, struct err *err)
{
    const struct sim_options *options = sim->options;
    bool whole = !options->one_by_one;

    if (uv_loop_init(&sim->loop) < 0)
        return err_set(err, -1, "cannot create a loop");
    int r = store_open(
        &(struct store_options){
            .loop = &sim->loop, .seed = options->seed + 1, .now_ms = virtual_now, .now_user = sim},
        &sim->store, err);
    if (r < 0)
        return r;
    struct api *api = store_api(sim->store);
    sim_settle(sim);
    struct link_options link = {.below = api,
                                .rng = &sim->rng,
                                .seed = seed_for(options, SEED_PLANE),
                                .name = "The control plane",
                                .ordered = whole,
                                .whole_gangs = whole,
                                .trace = sim_trace,
                                .tell = options->tell ? sim_tell : NULL,
                                .happens = link_happens,
                                .crash = sim_crash,
                                .binding = on_binding,
                                .evicted = on_evicted,
                                .settle = sim_settle,
                                .now = virtual_now,
                                .user = sim};
    struct link_options plane = link;
    link.seed = seed_for(options, SEED_FIELDS);
    link.name = "A machine";
    sim->fields = link_new(&link);
    sim->check =
        check_new(&(struct check_options){.api = api, .reserved = !whole, .whole_gangs = whole});
    sim->work = work_new(&(struct work_options){.api = api,
                                                .seed = seed_for(options, SEED_PEOPLE),
                                                .machines = sim->machine_count,
                                                .gpus = sim->gpus,
                                                .suspend = options->suspend,
                                                .cluster = options->one_by_one,
                                                .wide = options->wide,
                                                .trace = sim_trace,
                                                .tell = options->tell ? sim_tell : NULL,
                                                .user = sim});
    sim->machines = machines_new(&(struct machines_options){.api = link_api(sim->fields),
                                                            .rng = &sim->rng,
                                                            .count = sim->machine_count,
                                                            .gpus = sim->gpus,
                                                            .device_plugin = options->one_by_one,
                                                            .suspend = options->suspend,
                                                            .wide = options->wide,
                                                            .started = on_started,
                                                            .refused = on_refused,
                                                            .ended = on_ended,
                                                            .moved = on_moved,
                                                            .user = sim},
                                 sim->now_ms);
    if (options->suspend && options->one_by_one)
        sim->inside = inside_new(&(struct inside_options){.machines = sim->machines,
                                                          .rng = &sim->rng,
                                                          .now = virtual_now,
                                                          .trace = sim_trace,
                                                          .tell = options->tell ? sim_tell : NULL,
                                                          .user = sim});
    open_planes(sim, &plane);
    store_set_admit_pod(sim->store, admit_pod, sim);
    for (size_t i = 0; i < sim->plane_count; i++)
        plane_start(sim->planes[i]);
    return 0;
}

static void close_all(struct sim *sim)
{
    if (sim->store) {
        store_set_admit_pod(sim->store, NULL, NULL);
        if (sim->machines)
            machines_stop(sim->machines);
        for (size_t i = 0; i < sim->plane_count; i++)
            plane_free(sim->planes[i]);
        inside_free(sim->inside);
        link_free(sim->fields);
        machines_free(sim->machines);
        work_free(sim->work);
        check_free(sim->check);
        sim_settle(sim);
        store_close(sim->store);
    }
    (void)uv_run(&sim->loop, UV_RUN_DEFAULT);
    int r = uv_loop_close(&sim->loop);
    assert(r == 0);
    (void)r;
}

/* Nothing on the links and nothing due for a long while. */
static void come_to_rest(struct sim *sim)
{
    set_faults(sim, false);
    sim->work_ms = INT64_MAX;
    for (size_t i = 0; i < sim->machine_count; i++)
        if (sim->back_ms[i])
            sim->back_ms[i] = sim->now_ms;
    if (sim->room_ms)
        sim->room_ms = sim->now_ms;
    if (sim->options->operators) { /* the upgrade is over */
        plane_retire(sim->planes[0]);
        plane_repair(sim->planes[1]);
    }
    machines_hurry(sim->machines);
    work_release_all(sim->work);
    run_for(sim, REST_MS);
}

static void sim_play(struct sim *sim)
{
    const struct sim_options *options = sim->options;
    uint64_t steps = options->steps ? options->steps : SIM_STEPS;

    run_for(sim, 1000); /* the first objects, the nodes */
    if (!machines_are_registered(sim->machines))
        run_for(sim, 10000);
    work_queues(sim->work);
    sim->begun = true;
    set_faults(sim, true);
    link_crash_at(plane_link(leading(sim)),
                  link_writes(plane_link(leading(sim))) + options->crash_at,
                  (enum link_crash)options->crash_when);
    sim->work_ms = sim->now_ms;
    if (options->story == SIM_GANG)
        run_for(sim, STORY_EVERY_MS * 8);
    else
        while (sim->result->steps < steps && !sim->result->failed)
            sim_step(sim, INT64_MAX);
    for (size_t i = 0; i < sim->plane_count; i++)
        sim->result->writes += link_writes(plane_link(sim->planes[i]));
    sim_trace(sim, "everything is repaired");
    if (!sim->result->failed)
        tell(sim, "Everything is repaired; from now on nothing goes wrong.");
    come_to_rest(sim);
    sim->result->suspended = check_suspended(sim->check);
    const char *wrong = sim->result->failed ? NULL : check_at_rest(sim->check, sim->now_ms);
    if (wrong)
        fail(sim, "at rest: %s", wrong);
    if (sim->result->failed)
        return;
    sim_trace(sim, "people delete everything");
    tell(sim, "People delete everything that they brought.");
    work_delete_all(sim->work);
    run_for(sim, REST_MS);
    wrong = sim->result->failed ? NULL : check_clean(sim->check);
    if (wrong)
        fail(sim, "after everything was deleted: %s", wrong);
}

void sim_run(const struct sim_options *options, struct sim_result *ret)
{
    struct sim sim = {.options = options,
                      .result = ret,
                      .rng = {seed_for(options, SEED_ORDER)},
                      .luck = {seed_for(options, SEED_LUCK)},
                      .now_ms = START_MS,
                      .work_ms = INT64_MAX};
    struct err err = {0};

    *ret = (struct sim_result){0};
    sim.machine_count = options->story == SIM_GANG ? 2 : 2 + rng_below(&sim.luck, MACHINES_MAX - 1);
    sim.gpus = options->story == SIM_GANG ? 2 : 1 + (int64_t)rng_below(&sim.luck, 4);
    if (options->suspend && options->one_by_one) { /* so few that shares get in each other's way */
        sim.machine_count = 2;
        sim.gpus = 1 + sim.gpus % 2;
    }
    tell(&sim, "There are %zu machines with %" PRId64 " GPUs each.", sim.machine_count, sim.gpus);
    if (open_all(&sim, &err) < 0)
        fail(&sim, "%s", err.text);
    else
        sim_play(&sim);
    ret->virtual_ms = sim.now_ms - START_MS;
    close_all(&sim);
}
