#include "sim/machines.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/pod.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/time.h"
#include "control/cluster/sharing.h"
#include "control/job/job.h"
#include "sim/hollow.h"
#include "sim/hollow_body.h"
#include "sim/process.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define RETRY_MS    500
#define START_MS    2000  /* the longest that a start takes */
#define STOP_MS     3000  /* the longest that a process takes to end when it is asked to */
#define RUN_MS      40000 /* the longest that a process runs by itself */
#define FAIL_OF_100 12    /* of processes that end by themselves */
#define KILLED      137
#define TROUBLE_OF  20     /* reservation pods: one of them fails, one does not tell its device */
#define STAND_MS    2000   /* the longest that it takes to suspend a pod, or to let it go on */
#define STAND_FAILS 15     /* one of so many pods cannot be suspended */
#define HOLD_MS     600000 /* a pod whose program has ended waits so long to be told to go on */
#define RUNTIME     "muster-shim://sim"
#define FOREVER     ((int64_t)1 << 50)
#define MAP_SEED    11
#define NAME_BYTES  32

enum phase {
    PHASE_WAITING,
    PHASE_RUNNING,
    PHASE_ENDED,
};

/* Whether a process runs or stands still, as its pod's annotation asks. */
enum stand {
    STAND_NEVER, /* was asked for: it runs */
    STAND_GOING, /* it still runs */
    STAND_STILL,
    STAND_WAKING,  /* it still stands */
    STAND_RESUMED, /* it runs again, or was not stopped after all */
    STAND_FAILED,  /* it runs on */
};

struct machine {
    char name[NAME_BYTES];
    bool off;
    bool registered;
    bool calling;
    int64_t due_ms;
    uint64_t devices; /* that processes have, a bit each */
};

struct process {
    struct machines *machines;
    struct machine *machine;
    const struct object *pod; /* newest */
    enum phase phase;
    enum phase told;
    int64_t due_ms;   /* of what it does next by itself */
    int64_t retry_ms; /* no call before this */
    int64_t code;
    uint64_t devices; /* whole GPUs that it has, a bit each */
    bool reserves;    /* one of them for others */
    bool device_told; /* the API knows which */
    bool calling;
    enum stand stand;
    enum stand stand_sent;
    enum stand stand_told;
    int64_t stand_ms; /* when it stands, or goes on */
    int64_t left_ms;  /* of its time to run, when it goes on */
    bool evicted;
    bool halted; /* in a pod that stays: its program has ended, and waits to be started again */
    bool halted_told;
    bool halted_sent;
    int64_t halted_ms;
    int64_t round; /* how often it was started again */
    int64_t round_told;
    int64_t round_sent;
    bool released; /* the API knows that the machine needs the pod no longer */
    bool gone;     /* the API has no such pod any more */
    struct str uid;
};

struct machines {
    struct machines_options options;
    struct hollow_options shape;
    struct machine *list;
    struct map processes; /* by uid */
    struct api_watch *watch;
    int64_t now_ms;
    bool hurry;
};

static void process_free(struct process *process)
{
    map_remove(&process->machines->processes, process->uid);
    object_unref(process->pod);
    mem_free(process);
}

static void process_end(struct process *process, int64_t code)
{
    const struct machines_options *options = &process->machines->options;
    bool ran = process->phase == PHASE_RUNNING;

    process->phase = PHASE_ENDED;
    process->due_ms = FOREVER;
    process->machine->devices &= ~process->devices;
    process->devices = 0;
    process->code = code;
    if (ran)
        options->ended(options->user, process->pod->ns, process->pod->name, process->uid);
}

/* ---- standing still ---- */

static bool stands(const struct process *process)
{
    return process->stand == STAND_STILL || process->stand == STAND_WAKING;
}

/* A process that begins or goes on beside another that runs on one of its whole GPUs: what the
 * plan must never lead to. */
static void process_alone(struct process *process)
{
    const struct machines_options *options = &process->machines->options;
    uint64_t mine = hollow_devices(process->pod);

    if (!options->suspend || object_annotation(process->pod, GPU_ANNOTATION_PORTION).len)
        return;
    MAP_FOREACH(&process->machines->processes, entry) {
        struct process *other = entry->value;

        if (other == process || other->machine != process->machine ||
            other->phase != PHASE_RUNNING || stands(other) || !(hollow_devices(other->pod) & mine))
            continue;
        options->refused(options->user,
                         &(struct sim_process){.ns = process->pod->ns,
                                               .name = process->pod->name,
                                               .uid = process->uid,
                                               .node = str_from(process->machine->name)});
    }
}

static void stand_enter(struct process *process, enum stand stand)
{
    struct machines *machines = process->machines;

    process->stand = stand;
    process->stand_ms = stand == STAND_GOING || stand == STAND_WAKING
                            ? machines->now_ms + rng_between(machines->options.rng, 1, STAND_MS)
                            : FOREVER;
}

/* It was to stand: it does, or cannot, and leaves where others wait for its GPUs. */
static void stand_due(struct process *process)
{
    struct machines *machines = process->machines;
    bool yield = str_is(object_annotation(process->pod, SUSPEND_ANNOTATION), SUSPEND_YIELD);

    if (!machines->hurry && rng_below(machines->options.rng, STAND_FAILS) == 0) {
        stand_enter(process, STAND_FAILED);
        if (yield)
            process_end(process, KILLED);
        return;
    }
    process->left_ms = process->due_ms - machines->now_ms;
    process->due_ms = FOREVER;
    stand_enter(process, STAND_STILL);
}

static void stand_turn(struct process *process)
{
    struct machines *machines = process->machines;
    bool wish = object_annotation(process->pod, SUSPEND_ANNOTATION).len > 0;
    bool due = machines->now_ms >= process->stand_ms;

    if (!machines->options.suspend || machines->options.device_plugin ||
        process->phase != PHASE_RUNNING || process->pod->deleted_ms)
        return;
    switch (process->stand) {
    case STAND_NEVER:
    case STAND_RESUMED:
        if (wish && process->told == PHASE_RUNNING)
            stand_enter(process, STAND_GOING);
        break;
    case STAND_FAILED:
        if (!wish)
            stand_enter(process, STAND_RESUMED);
        break;
    case STAND_GOING:
        if (!wish)
            stand_enter(process, STAND_RESUMED);
        else if (due)
            stand_due(process);
        break;
    case STAND_STILL:
        if (!wish)
            stand_enter(process, STAND_WAKING);
        break;
    case STAND_WAKING:
        if (!due)
            break;
        stand_enter(process, STAND_RESUMED);
        process->due_ms = machines->now_ms + process->left_ms;
        process_alone(process);
        break;
    }
}

static void stand_add_condition(const struct process *process,
                                struct arena *arena,
                                struct json *status)
{
    static const char *const reasons[] = {[STAND_GOING] = SUSPEND_SUSPENDING,
                                          [STAND_STILL] = SUSPEND_FROZEN,
                                          [STAND_WAKING] = SUSPEND_RESUMING,
                                          [STAND_RESUMED] = SUSPEND_RESUMED,
                                          [STAND_FAILED] = SUSPEND_FAILED};

    if (process->stand == STAND_NEVER || process->machines->options.device_plugin)
        return;
    json_push(json_get(status, "conditions"),
              json_make(arena, "{type: $, status: $, reason: $, lastTransitionTime: $}",
                        SUSPEND_CONDITION, stands(process) ? "True" : "False",
                        reasons[process->stand], time_text(arena, process->machines->now_ms)));
}

/* ---- what the API tells ---- */

static struct machine *machine_named(struct machines *machines, struct str name)
{
    for (size_t i = 0; i < machines->options.count; i++)
        if (str_is(name, machines->list[i].name))
            return &machines->list[i];
    return NULL;
}

static void pod_appeared(struct machines *machines, const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(pod, &arena);
    struct machine *machine = machine_named(machines, json_str_at(root, "spec.nodeName"));

    if (!machine || pod_is_over(root))
        return;
    struct process *process = mem_alloc(sizeof(*process));
    *process = (struct process){.machines = machines, .machine = machine, .pod = object_ref(pod)};
    process->uid = process->pod->uid;
    process->reserves =
        str_is(pod->ns, SHARING_NAMESPACE) && str_is(object_label(pod, "app"), SHARING_APP);
    process->due_ms = machines->now_ms + rng_between(machines->options.rng, 1, START_MS);
    map_set(&machines->processes, process->uid, process);
}

static void replace_pod(struct process *process, const struct object *pod)
{
    const struct object *before = process->pod;

    /* The key points into the object. */
    map_remove(&process->machines->processes, process->uid);
    process->pod = object_ref(pod);
    process->uid = process->pod->uid;
    map_set(&process->machines->processes, process->uid, process);
    object_unref(before);
}

static void on_pod(void *user, const struct api_change *change)
{
    struct machines *machines = user;

    if (!change->object)
        return;
    struct process *process = map_get(&machines->processes, change->object->uid);
    if (change->event == API_DELETED) {
        if (!process)
            return;
        if (process->phase != PHASE_ENDED)
            process_end(process, KILLED);
        process->gone = true;
        if (!process->calling)
            process_free(process);
        return;
    }
    if (!process) {
        pod_appeared(machines, change->object);
        return;
    }
    bool was_deleted = process->pod->deleted_ms != 0;
    replace_pod(process, change->object);
    if (process->phase == PHASE_RUNNING && process->due_ms > FOREVER / 4 &&
        object_annotation(change->object, END_ANNOTATION).len)
        process->due_ms = machines->now_ms + rng_between(machines->options.rng, 1, STOP_MS);
    if (!change->object->deleted_ms || was_deleted || process->phase == PHASE_ENDED)
        return;
    if (process->phase == PHASE_WAITING)
        process_end(process, KILLED);
    else
        process->due_ms = machines->now_ms + rng_between(machines->options.rng, 1, STOP_MS);
}

/* ---- what processes do ---- */

static int64_t number_of(const struct object *pod, const char *annotation, int64_t otherwise)
{
    int64_t number;

    return str_to_i64(object_annotation(pod, annotation), &number) ? number : otherwise;
}

static int64_t run_ms(struct machines *machines, const struct object *pod)
{
    int64_t longest = machines->hurry ? RUN_MS / 10 : RUN_MS;
    int64_t otherwise = rng_between(machines->options.rng, 100, longest);

    /* A job's helper runs until the job needs it no longer, a reservation as long as its users. */
    if (str_ends(pod->name, STR("-sync-0")) || str_is(pod->ns, SHARING_NAMESPACE) ||
        str_is(object_label(pod, JOB_LABEL_ROLE), JOB_ROLE_SPARE))
        otherwise = object_annotation(pod, END_ANNOTATION).len ? STOP_MS : FOREVER / 2;
    return number_of(pod, HOLLOW_RUN_MS, otherwise);
}

static int64_t exit_code(struct machines *machines, const struct object *pod)
{
    bool unlucky = rng_below(machines->options.rng, 100) < FAIL_OF_100;

    if (pod->deleted_ms)
        return KILLED;
    return number_of(pod, HOLLOW_EXIT_CODE, unlucky && !machines->hurry ? 1 : 0);
}

/* A reservation pod that the node cannot start, or that never finds out which device it has. */
static bool has_trouble(struct process *process)
{
    uint64_t dice =
        process->reserves ? rng_below(process->machines->options.rng, TROUBLE_OF) : TROUBLE_OF;

    if (process->machines->hurry)
        return false;
    if (dice == 1)
        process->device_told = true;
    return dice == 0;
}

static void process_start(struct process *process)
{
    struct machines *machines = process->machines;
    const struct machines_options *options = &machines->options;
    struct sim_process about = {.ns = process->pod->ns,
                                .name = process->pod->name,
                                .uid = process->uid,
                                .node = str_from(process->machine->name)};

    if (options->device_plugin && !hollow_take_gpus(&process->machine->devices, options->gpus,
                                                    hollow_gpus(process->pod), &process->devices)) {
        options->refused(options->user, &about);
        process_end(process, 1);
        return;
    }
    if (options->device_plugin && has_trouble(process)) {
        process_end(process, 1);
        return;
    }
    about.devices = process->devices;
    process->phase = PHASE_RUNNING;
    process->due_ms = machines->now_ms + run_ms(machines, process->pod);
    options->started(options->user, &about);
    process_alone(process);
}

/* ---- restarts in place ---- */

static struct place place_of(const struct process *process)
{
    return process->machines->options.wide && !process->pod->deleted_ms
               ? place_parse(object_annotation(process->pod, PLACE_ANNOTATION))
               : (struct place){0};
}

static bool is_told_to_stop(const struct process *process, const struct place *place)
{
    return place->set && !place->go && place->round > process->round;
}

/* A program that fails in a pod that stays, or was told to stop, leaves the pod as it is. */
static bool place_halts(struct process *process, int64_t code)
{
    struct place place = place_of(process);
    bool told = is_told_to_stop(process, &place);

    if (!place.set || (!code && !told))
        return false;
    process->halted = true;
    process->halted_ms = process->machines->now_ms;
    process->code = told ? KILLED : code;
    process->due_ms = FOREVER;
    return true;
}

static void place_turn(struct process *process)
{
    struct machines *machines = process->machines;
    struct place place = place_of(process);
    int64_t now_ms = machines->now_ms;

    if (!machines->options.wide || process->phase != PHASE_RUNNING || stands(process))
        return;
    if (process->halted && (!place.set || now_ms >= process->halted_ms + HOLD_MS)) {
        process_end(process, process->code);
    } else if (process->halted && place.go && place.round > process->round) {
        process->halted = false;
        process->round = place.round;
        process->due_ms = now_ms + run_ms(machines, process->pod);
    } else if (!process->halted && is_told_to_stop(process, &place) &&
               process->due_ms > now_ms + STOP_MS) {
        process->due_ms = now_ms + rng_between(machines->options.rng, 1, STOP_MS);
    }
}

/* A pod that is kept runs, and its containers have ended. */
static void place_add_status(struct process *process, struct arena *arena, struct json *status)
{
    process->halted_sent = process->halted;
    process->round_sent = process->round;
    if (process->phase == PHASE_RUNNING && process->halted)
        json_set(status, STR("phase"), json_new_str(arena, STR("Running")));
    JSON_FOREACH(json_get(status, "containerStatuses"), container)
        json_set(container, STR("restartCount"), json_new_i64(arena, process->round));
    if (process->evicted && process->phase == PHASE_ENDED)
        json_fill(arena, status,
                  "{reason: 'Evicted', message: 'The node was low on resource: memory.'}");
}

static void do_next(struct process *process)
{
    struct machines *machines = process->machines;

    if (process->phase == PHASE_WAITING) {
        process_start(process);
    } else if (process->phase == PHASE_RUNNING) {
        int64_t code = exit_code(machines, process->pod);

        if (!place_halts(process, code))
            process_end(process, code);
    }
}

static void on_told(void *user, const struct api_result *result)
{
    struct process *process = user;

    process->calling = false;
    if (process->gone) {
        process_free(process);
        return;
    }
    if (result->code)
        process->retry_ms = process->machines->now_ms + RETRY_MS;
}

static void on_released(void *user, const struct api_result *result)
{
    struct process *process = user;

    process->released = !result->code;
    on_told(user, result);
}

static void on_status_told(void *user, const struct api_result *result)
{
    struct process *process = user;

    /* What was told is what the answer shows. */
    if (!result->code && result->object) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str phase = json_str_at(object_json(result->object, &arena), "status.phase");

        process->told = str_is(phase, "Running") ? PHASE_RUNNING : PHASE_ENDED;
        process->stand_told = process->stand_sent;
        process->halted_told = process->halted_sent;
        process->round_told = process->round_sent;
    }
    on_told(user, result);
}

static void on_device_told(void *user, const struct api_result *result)
{
    struct process *process = user;

    process->device_told = !result->code;
    on_told(user, result);
}

static bool must_tell_device(const struct process *process)
{
    return process->reserves && process->devices && !process->device_told &&
           process->phase == PHASE_RUNNING && process->told == PHASE_RUNNING;
}

/* What `muster reserve-gpu` does in a reservation pod. */
static void tell_device(struct process *process, struct api_request *request)
{
    _cleanup_(arena_done) struct arena arena = {0};

    request->verb = API_PATCH;
    request->patch = API_PATCH_MERGE;
    request->body = str_printf(&arena, "{\"metadata\":{\"annotations\":{\"%s\":\"GPU-%s-%d\"}}}",
                               GPU_ANNOTATION_RESERVED, process->machine->name,
                               __builtin_ctzll(process->devices));
    api_call(process->machines->options.api, request, on_device_told, process);
}

static void process_report(struct process *process)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *pod = process->pod;
    struct api_request request = {
        .kind = &kind_pod, .ns = pod->ns, .name = pod->name, .uid = pod->uid};
    struct hollow_moment moment = {
        .now_ms = process->machines->now_ms,
        .code = process->phase == PHASE_ENDED || process->halted ? process->code : -1};

    process->calling = true;
    if (process->told == PHASE_ENDED) {
        request.verb = API_DELETE;
        request.body = STR("{\"gracePeriodSeconds\":0}");
        api_call(process->machines->options.api, &request, on_released, process);
        return;
    }
    if (must_tell_device(process)) {
        tell_device(process, &request);
        return;
    }
    struct json *root = json_new_object(&arena);
    struct json *status = hollow_pod_status(&arena, pod, &moment);
    stand_add_condition(process, &arena, status);
    place_add_status(process, &arena, status);
    process->stand_sent = process->stand;
    json_set(root, STR("status"), status);
    request.verb = API_PATCH;
    request.subresource = STR("status");
    /* Where operators have conditions on pods, too, these are merged by their types. */
    request.patch = process->machines->options.suspend && process->machines->options.device_plugin
                        ? API_PATCH_STRATEGIC
                        : API_PATCH_MERGE;
    request.body = json_text(&arena, root);
    api_call(process->machines->options.api, &request, on_status_told, process);
}

static bool has_news(const struct process *process)
{
    return process->told < process->phase || must_tell_device(process) ||
           (process->phase == PHASE_RUNNING && process->stand != process->stand_told &&
            !process->machines->options.device_plugin) ||
           (process->phase == PHASE_RUNNING &&
            (process->halted != process->halted_told || process->round != process->round_told)) ||
           (process->phase == PHASE_ENDED && process->pod->deleted_ms && !process->released);
}

/* ---- nodes ---- */

static void on_registered(void *user, const struct api_result *result)
{
    struct machine *machine = user;

    machine->calling = false;
    machine->registered = !result->code || (result->err && result->err->http_status == 409);
}

static void register_machine(struct machines *machines, struct machine *machine)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t index = (size_t)(machine - machines->list);
    struct json *body =
        hollow_node(&arena, &machines->shape, str_from(machine->name), index, machines->now_ms);
    if (machines->options.wide)
        json_set(json_at(body, "status.nodeInfo"), STR("containerRuntimeVersion"),
                 json_new_str(&arena, STR(RUNTIME)));

    machine->calling = true;
    machine->due_ms = machines->now_ms + RETRY_MS;
    api_call(machines->options.api,
             &(struct api_request){
                 .verb = API_CREATE, .kind = &kind_node, .body = json_text(&arena, body)},
             on_registered, machine);
}

int64_t machines_turn(struct machines *machines, int64_t now_ms)
{
    int64_t next = INT64_MAX;

    machines->now_ms = now_ms;
    for (size_t i = 0; i < machines->options.count; i++) {
        struct machine *machine = &machines->list[i];

        if (machine->registered || machine->calling)
            continue;
        if (now_ms >= machine->due_ms)
            register_machine(machines, machine);
        else if (machine->due_ms < next)
            next = machine->due_ms;
    }
    MAP_FOREACH(&machines->processes, entry) {
        struct process *process = entry->value;

        if (process->machine->off)
            continue;
        stand_turn(process);
        place_turn(process);
        if (now_ms >= process->due_ms)
            do_next(process);
        if (!process->calling && has_news(process)) {
            if (now_ms >= process->retry_ms)
                process_report(process);
            else if (process->retry_ms < next)
                next = process->retry_ms;
        }
        if (process->due_ms < next)
            next = process->due_ms;
        if (process->phase == PHASE_RUNNING && process->stand_ms && process->stand_ms < next)
            next = process->stand_ms;
    }
    return next >= FOREVER / 4 ? INT64_MAX : next;
}

bool machines_are_registered(const struct machines *machines)
{
    for (size_t i = 0; i < machines->options.count; i++)
        if (!machines->list[i].registered)
            return false;
    return true;
}

enum machines_moved machines_move(struct machines *machines,
                                  struct str ns,
                                  struct str pod,
                                  bool out)
{
    const struct machines_options *options = &machines->options;
    struct process *process = NULL;

    MAP_FOREACH(&machines->processes, entry) {
        struct process *one = entry->value;

        if (str_eq(one->pod->ns, ns) && str_eq(one->pod->name, pod) && !one->machine->off &&
            one->phase == PHASE_RUNNING && !one->pod->deleted_ms)
            process = one;
    }
    if (!process)
        return MACHINES_UNREACHED;
    if (out == stands(process))
        return MACHINES_MOVED;
    if (!out) {
        process->stand = STAND_RESUMED;
        process->due_ms = machines->now_ms + process->left_ms;
    } else if (!machines->hurry && rng_below(options->rng, STAND_FAILS) == 0) {
        return MACHINES_STAYED;
    } else {
        process->stand = STAND_STILL;
        process->left_ms = process->due_ms - machines->now_ms;
        process->due_ms = FOREVER;
    }
    options->moved(options->user, process->uid, out);
    return MACHINES_MOVED;
}

void machines_power(struct machines *machines, size_t index, bool on, int64_t now_ms)
{
    struct machine *machine = &machines->list[index];

    machines->now_ms = now_ms;
    machine->off = !on;
    MAP_FOREACH(&machines->processes, entry) {
        struct process *process = entry->value;

        /* A reservation pod is started again with the device it had: a kubelet keeps book of them.
         */
        if (process->machine == machine && process->phase != PHASE_ENDED && !process->reserves)
            process_end(process, KILLED);
    }
}

void machines_evict(struct machines *machines, size_t index, int64_t now_ms)
{
    struct machine *machine = &machines->list[index];

    machines->now_ms = now_ms;
    MAP_FOREACH(&machines->processes, entry) {
        struct process *process = entry->value;

        if (process->machine != machine || process->phase != PHASE_RUNNING || process->reserves)
            continue;
        process->evicted = true;
        process_end(process, KILLED);
        return;
    }
}

void machines_hurry(struct machines *machines)
{
    machines->hurry = true;
    MAP_FOREACH(&machines->processes, entry) {
        struct process *process = entry->value;

        if (process->phase == PHASE_RUNNING && process->due_ms < FOREVER / 4)
            process->due_ms = machines->now_ms + rng_between(machines->options.rng, 1, RUN_MS / 10);
        if (stands(process) && process->left_ms < FOREVER / 4)
            process->left_ms = RUN_MS / 10;
    }
}

struct machines *machines_new(const struct machines_options *options, int64_t now_ms)
{
    static const char *const can_suspend[] = {SUSPEND_LABEL "=" SUSPEND_LABEL_FREEZE, NULL};
    struct machines *machines = MEM_NEW(struct machines);

    machines->options = *options;
    machines->now_ms = now_ms;
    machines->processes.seed = MAP_SEED;
    machines->shape = (struct hollow_options){
        .gpus = options->gpus,
        .gpu_memory_mib = 16000,
        .cpus = 16,
        .memory_gib = 64,
        .pods = 110,
        .labels = options->suspend && !options->device_plugin ? can_suspend : NULL};
    machines->list = mem_alloc(options->count * sizeof(machines->list[0]));
    for (size_t i = 0; i < options->count; i++)
        (void)snprintf(machines->list[i].name, NAME_BYTES, "machine-%zu", i);
    machines->watch =
        api_watch(options->api, &(struct api_watch_request){.kind = &kind_pod}, on_pod, machines);
    return machines;
}

void machines_stop(struct machines *machines)
{
    api_watch_stop(machines->options.api, TAKE_PTR(machines->watch));
}

void machines_free(struct machines *machines)
{
    if (!machines)
        return;
    assert(!machines->watch);
    MAP_FOREACH(&machines->processes, entry)
        process_free(entry->value);
    map_done(&machines->processes);
    mem_free(machines->list);
    mem_free(machines);
}
