#include "exec/suspender.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/kind.h"
#include "api/limit.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/cluster/suspension.h"
#include "control/core/status.h"
#include "exec/event.h"
#include "exec/scheduler_apply.h"
#include "sched/sched.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct suspender {
    struct suspender_options options;
    struct map entries; /* "namespace/pod" */
    size_t running;     /* commands */
    size_t calls;       /* that will still come back */
    bool stopped;
};

/* A pod that is suspended, or was to be. */
struct entry {
    struct suspender *owner;
    struct arena arena;      /* of the step under way */
    struct suspension order; /* the step under way */
    struct str uid;
    bool busy;
    struct str why; /* it is evicted for */
    int tries;
    int64_t mib;
    int64_t next_ms; /* not before; 0: at once */
    uint64_t wrote;  /* revision of the pod: nothing is decided before the cache has it */
    struct str ns;
    struct str name;
    struct str key;
    char text[];
};

static void step(struct entry *entry);

static int64_t now_of(const struct suspender *suspender)
{
    return suspender->options.now(suspender->options.user);
}

static const struct object *pod_of(const struct entry *entry)
{
    return cache_get(entry->owner->options.cache, &kind_pod, entry->ns, entry->name);
}

static struct entry *entry_get(struct suspender *suspender, const struct object *pod, bool make)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(pod->ns), STR_ARG(pod->name));
    struct entry *entry = map_get(&suspender->entries, key);

    if (entry || !make)
        return entry;
    entry = mem_alloc(sizeof(*entry) + key.len);
    *entry = (struct entry){.owner = suspender};
    memcpy(entry->text, key.p, key.len);
    entry->key = (struct str){entry->text, key.len};
    entry->ns = str_sub(entry->key, 0, pod->ns.len);
    entry->name = str_sub(entry->key, pod->ns.len + 1, key.len);
    map_set(&suspender->entries, entry->key, entry);
    return entry;
}

static void entry_free(struct entry *entry)
{
    (void)map_remove(&entry->owner->entries, entry->key);
    arena_done(&entry->arena);
    mem_free(entry);
}

static void maybe_free(struct suspender *suspender)
{
    if (!suspender->stopped || suspender->calls)
        return;
    MAP_FOREACH(&suspender->entries, item)
        entry_free(item->value);
    map_done(&suspender->entries);
    mem_free(suspender);
}

/* ---- what is written ---- */

static void tell(const struct entry *entry, const char *reason, struct str words, bool warning)
{
    event_send(entry->owner->options.api, &(struct event){.kind = &kind_pod,
                                                          .ns = entry->ns,
                                                          .name = entry->name,
                                                          .uid = entry->uid,
                                                          .reason = str_from(reason),
                                                          .message = words,
                                                          .warning = warning,
                                                          .component = APPLIER_COMPONENT,
                                                          .now_ms = now_of(entry->owner)});
}

/* Strategic, because a pod's conditions are everybody's: each is merged by its type. */
static void write_status(struct entry *entry, struct json *status, api_done_fn *done)
{
    struct json *body = json_new_object(&entry->arena);

    json_set(body, STR("status"), status);
    entry->owner->calls++;
    api_call(entry->owner->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_pod,
                                   .ns = entry->ns,
                                   .name = entry->name,
                                   .uid = entry->uid,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_STRATEGIC,
                                   .body = json_text(&entry->arena, body)},
             done, entry);
}

static void say(struct entry *entry,
                const char *status,
                const char *reason,
                struct str message,
                api_done_fn *done)
{
    write_status(entry,
                 suspension_status(&entry->arena, status, reason, message, now_of(entry->owner)),
                 done);
}

/* The step is over: what follows from it is decided when the pod has changed. */
static void rest(struct entry *entry, bool failed)
{
    entry->busy = false;
    entry->next_ms = failed ? now_of(entry->owner) + SUSPENSION_RETRY_MS : 0;
    arena_done(&entry->arena);
    entry->arena = (struct arena){0};
    entry->why = STR_NONE;
    if (!failed)
        entry->tries = 0;
    if (!pod_of(entry))
        entry_free(entry);
}

/* Somebody is back: others may go. */
static bool came_back(struct suspender *suspender)
{
    suspender->calls--;
    if (suspender->stopped) {
        maybe_free(suspender);
        return false;
    }
    suspender->options.again(suspender->options.user);
    return true;
}

static void on_written(void *user, const struct api_result *result)
{
    struct entry *entry = user;
    struct suspender *suspender = entry->owner;
    bool gone = result->code && result->err && result->err->http_status == 404;

    if (!came_back(suspender))
        return;
    if (result->code && !gone)
        log_warn(suspender->options.log, "suspender.write", LOG_STR("pod", entry->key),
                 LOG_ERR(result->err));
    if (!result->code && result->object)
        entry->wrote = result->object->revision;
    rest(entry, result->code && !gone);
}

static void on_marked(void *user, const struct api_result *result)
{
    struct entry *entry = user;
    struct json *body = json_new_object(&entry->arena);

    (void)result; /* the words are for people */
    if (!came_back(entry->owner))
        return;
    json_fill(&entry->arena, body,
              "{apiVersion: 'policy/v1', kind: 'Eviction', metadata: {namespace: $, name: $}}",
              entry->ns, entry->name);
    entry->owner->calls++;
    api_call(entry->owner->options.api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_pod,
                                   .ns = entry->ns,
                                   .name = entry->name,
                                   .subresource = STR("eviction"),
                                   .uid = entry->uid,
                                   .body = json_text(&entry->arena, body)},
             on_written, entry);
}

/* With the condition that Kubernetes' own scheduler sets, so that whoever owns the pod can say why. */
static void evict(struct entry *entry, struct str words)
{
    static const char *const types[] = {"DisruptionTarget", CONDITION_EVICTED};
    struct json *status = json_new_object(&entry->arena);

    for (size_t i = 0; i < COUNT_OF(types); i++)
        condition_set(&entry->arena, status,
                      &(struct condition){types[i], "True", "PreemptionByScheduler", words},
                      now_of(entry->owner));
    tell(entry, "Evict", words, true);
    write_status(entry, status, on_marked);
}

/* ---- commands ---- */

static void on_failure_said(void *user, const struct api_result *result)
{
    struct entry *entry = user;

    (void)result; /* if it was not written, the way out is tried again by whoever follows */
    if (came_back(entry->owner))
        evict(entry, entry->why);
}

static void fail_out(struct entry *entry, struct str why, bool lose)
{
    entry->why = str_printf(&entry->arena, "The pod cannot be suspended: " STR_FMT, STR_ARG(why));
    if (!lose)
        tell(entry, SUSPEND_FAILED, entry->why, true);
    say(entry, "False", SUSPEND_FAILED, why, lose ? on_failure_said : on_written);
}

static void say_out(struct entry *entry)
{
    struct str words = suspension_words(&entry->arena, &entry->order, entry->mib);

    tell(entry, SUSPEND_MOVED,
         str_printf(&entry->arena, "%lld MiB of GPU memory are in host memory",
                    (long long)entry->mib),
         false);
    say(entry, "True", SUSPEND_MOVED, words, on_written);
}

static void finish(struct entry *entry, const struct suspension_end *end)
{
    struct str words = str_trim(str_dup(&entry->arena, end->words));
    const struct object *pod = pod_of(entry);
    struct str wish = pod ? object_annotation(pod, SUSPEND_ANNOTATION) : STR_NONE;

    switch (suspension_after(end, wish)) {
    case SUSPENSION_AGAIN:
        log_warn(entry->owner->options.log, "suspender.unreached", LOG_STR("pod", entry->key),
                 LOG_STR("error", words));
        if (end->tries == SUSPENSION_TRIES_OUT)
            tell(entry, "Unreached",
                 str_printf(&entry->arena,
                            "the pod's container cannot be reached to move its GPU memory, and is "
                            "tried again: " STR_FMT,
                            STR_ARG(words)),
                 true);
        rest(entry, true);
        break;
    case SUSPENSION_LOSE:
        if (end->out)
            fail_out(entry, words, true);
        else
            evict(entry,
                  str_printf(&entry->arena, "The pod cannot be resumed: " STR_FMT, STR_ARG(words)));
        break;
    case SUSPENSION_SAY:
        if (end->out && end->status)
            fail_out(entry, words, false);
        else if (end->out)
            say_out(entry);
        else
            say(entry, "False", SUSPEND_RESUMED, STR("the pod runs and has its GPUs"), on_written);
        break;
    }
}

/* "ok out 1 400" */
static int64_t moved_mib(struct str output)
{
    struct str rest = str_trim(output), word = STR_NONE;
    int64_t mib = 0;

    while (str_cut(&rest, ' ', &word))
        ;
    return str_to_i64(word, &mib) && mib > 0 ? mib : 0;
}

static void on_ended(void *user, int code, int status, struct str output, struct str errors)
{
    struct entry *entry = user;
    struct suspender *suspender = entry->owner;
    const struct object *pod;

    suspender->running--;
    if (!came_back(suspender))
        return;
    pod = pod_of(entry);
    if (!pod || !str_eq(pod->uid, entry->uid)) { /* another of its name is decided about anew */
        rest(entry, true);
        return;
    }
    entry->tries++;
    bool out = entry->order.step == SUSPENSION_OUT;
    if (out && !code && !status)
        entry->mib = moved_mib(output);
    finish(entry, &(struct suspension_end){.out = out,
                                           .reached = code == 0,
                                           .status = status,
                                           .words = errors.len ? errors : STR("no words"),
                                           .mib = entry->mib,
                                           .tries = entry->tries});
}

static void run(struct entry *entry, bool out)
{
    static const char *const out_words[] = {LIMIT_HELPER, "gpu-memory", "out"};
    static const char *const in_words[] = {LIMIT_HELPER, "gpu-memory", "in"};
    const struct suspender_inside *inside = entry->owner->options.inside;

    entry->owner->calls++;
    entry->owner->running++;
    inside->run(inside->user,
                &(struct suspender_command){.ns = entry->ns,
                                            .pod = entry->name,
                                            .container = entry->order.container,
                                            .words = out ? out_words : in_words,
                                            .count = COUNT_OF(out_words)},
                on_ended, entry);
}

static void on_said(void *user, const struct api_result *result)
{
    struct entry *entry = user;

    if (!came_back(entry->owner))
        return;
    if (result->code) /* it must be known before it is done */
        rest(entry, true);
    else
        run(entry, entry->order.step == SUSPENSION_OUT);
}

/* ---- steps ---- */

/* The condition first: who follows finds there what was under way. */
static void begin(struct entry *entry, const struct object *pod)
{
    bool out = entry->order.step == SUSPENSION_OUT;
    const struct json *condition =
        condition_find(json_get(object_json(pod, &entry->arena), "status"), SUSPEND_CONDITION);
    bool away = str_is(json_str(json_get(condition, "status")), "True");

    if (!str_to_i64(str_sub(json_str(json_get(condition, "message")), 0,
                            str_find(json_str(json_get(condition, "message")), ' ')),
                    &entry->mib))
        entry->mib = 0;
    if (out)
        say(entry, "False", SUSPEND_SUSPENDING, STR("the pod's GPU memory is moved to host memory"),
            on_said);
    else if (away)
        say(entry, "True", SUSPEND_RESUMING,
            suspension_words(&entry->arena, &entry->order, entry->mib), on_said);
    else
        run(entry, false);
}

static void step(struct entry *entry)
{
    struct suspender *suspender = entry->owner;
    const struct object *pod = pod_of(entry);

    if (entry->busy || suspender->stopped || now_of(suspender) < entry->next_ms)
        return;
    if (!pod) {
        entry_free(entry);
        return;
    }
    if (pod->revision < entry->wrote)
        return;
    struct suspension order = suspension_decide(pod, &entry->arena);
    bool runs = order.step == SUSPENSION_OUT || order.step == SUSPENSION_IN;
    if (order.step == SUSPENSION_NONE || (runs && suspender->running >= SUSPENDER_RUNNING_MAX)) {
        arena_done(&entry->arena);
        entry->arena = (struct arena){0};
        return;
    }
    entry->busy = true;
    entry->uid = str_dup(&entry->arena, pod->uid);
    entry->order = (struct suspension){.step = order.step,
                                       .container = str_dup(&entry->arena, order.container),
                                       .started = str_dup(&entry->arena, order.started),
                                       .why = str_dup(&entry->arena, order.why)};
    if (runs)
        begin(entry, pod);
    else if (order.step == SUSPENSION_EVICT)
        evict(entry, str_printf(&entry->arena, "The pod cannot stay suspended: " STR_FMT,
                                STR_ARG(entry->order.why)));
    else if (order.step == SUSPENSION_REFUSE)
        fail_out(entry, entry->order.why,
                 str_is(object_annotation(pod, SUSPEND_ANNOTATION), SUSPEND_YIELD));
    else
        say(entry, "False", SUSPEND_RESUMED, STR("the pod runs and has its GPUs"), on_written);
}

void suspender_observe(struct suspender *suspender,
                       enum sched_change change,
                       const struct object *pod)
{
    bool mine =
        change == SCHED_PUT &&
        (object_annotation(pod, SUSPEND_ANNOTATION).len ||
         (suspension_prepared(pod) && str_contains(pod->raw, STR("\"" SUSPEND_CONDITION "\""))));
    struct entry *entry = entry_get(suspender, pod, mine);

    if (!entry || entry->busy)
        return;
    if (!mine)
        entry_free(entry);
    else /* from a turn: then everything is known */
        suspender->options.again(suspender->options.user);
}

int64_t suspender_turn(struct suspender *suspender, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    MAP_FOREACH(&suspender->entries, item)
        step(item->value);
    MAP_FOREACH(&suspender->entries, item) {
        const struct entry *entry = item->value;

        if (!entry->busy && entry->next_ms > now_ms && entry->next_ms < next_ms)
            next_ms = entry->next_ms;
    }
    return next_ms;
}

struct suspender *suspender_new(const struct suspender_options *options)
{
    struct suspender *suspender = MEM_NEW(struct suspender);

    suspender->options = *options;
    suspender->entries.seed = options->seed;
    return suspender;
}

void suspender_free(struct suspender *suspender)
{
    if (!suspender)
        return;
    suspender->stopped = true;
    maybe_free(suspender);
}
