#include "exec/scheduler_shadow.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/scheduler_name.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sched/decode.h"
#include "sched/shadow.h"
#include "sched/spec.h"
#include "tool/log.h"

#include <inttypes.h>
#include <stddef.h>

struct shadower {
    struct shadower_options options;
    struct shadow *shadow;
    struct arena names;
};

/* ---- nothing is written ---- */

static void mute_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    if (request->verb == API_GET || request->verb == API_LIST)
        api_call(((struct mute_api *)api)->below, request, done, user);
    else
        done(user, &(struct api_result){0});
}

static void mute_bind(struct api *api,
                      const struct api_binding *bindings,
                      size_t count,
                      api_done_fn *done,
                      void *user)
{
    (void)api;
    (void)bindings;
    (void)count;
    done(user, &(struct api_result){0});
}

static struct api_watch *mute_watch(struct api *api,
                                    const struct api_watch_request *request,
                                    api_watch_fn *fn,
                                    void *user)
{
    return api_watch(((struct mute_api *)api)->below, request, fn, user);
}

static void mute_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct mute_api *)api)->below, watch);
}

struct api *mute_api_init(struct mute_api *mute, struct api *below)
{
    static const struct api_ops ops = {
        .call = mute_call, .bind = mute_bind, .watch = mute_watch, .watch_stop = mute_watch_stop};

    *mute = (struct mute_api){.api = {.ops = &ops, .kinds = below->kinds}, .below = below};
    return &mute->api;
}

/* ---- what is seen ---- */

struct shadower *shadower_new(const struct shadower_options *options)
{
    struct shadower *shadower = MEM_NEW(struct shadower);

    shadower->options = *options;
    shadower->options.default_queue = str_dup(&shadower->names, options->default_queue);
    shadower->options.default_parent = str_dup(&shadower->names, options->default_parent);
    shadower->shadow = shadow_new(options->seed);
    return shadower;
}

void shadower_free(struct shadower *shadower)
{
    if (!shadower)
        return;
    shadow_free(shadower->shadow);
    arena_done(&shadower->names);
    mem_free(shadower);
}

const struct shadow *shadower_shadow(const struct shadower *shadower)
{
    return shadower->shadow;
}

static struct str alone_name(struct arena *arena, const struct object *pod)
{
    return str_printf(arena, "pg-" STR_FMT, STR_ARG(pod->name));
}

/* False: the pod is another scheduler's, of which the shadow takes no notice. */
static bool read_pod(const struct shadower *shadower,
                     const struct object *object,
                     struct arena *arena,
                     struct sched_pod *ret)
{
    const struct sched_config *config = sched_config(shadower->options.core);
    struct decode decode = {
        .config = config, .arena = arena, .object = object, .tree = object_json(object, arena)};

    decode_pod(&decode, ret);
    return scheduler_places(config->scheduler_name, ret->scheduler);
}

static struct shadow_pod seen_as(const struct object *object,
                                 const struct sched_pod *pod,
                                 struct arena *arena,
                                 bool gone)
{
    return (struct shadow_pod){.ns = pod->ns,
                               .group = pod->group.len ? pod->group : alone_name(arena, object),
                               .name = pod->name,
                               .node = pod->node,
                               .gone = gone || pod->phase == SCHED_SUCCEEDED ||
                                       pod->phase == SCHED_FAILED};
}

bool shadower_is_early(struct shadower *shadower, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sched_pod pod;

    if (object->kind != &kind_pod || !read_pod(shadower, object, &arena, &pod))
        return false;
    struct shadow_pod seen = seen_as(object, &pod, &arena, false);
    return shadow_is_early(shadower->shadow, &seen);
}

static void tell_compared(const struct shadower *shadower, const struct shadow_gang *gang)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (!shadow_verdict_differs(gang->verdict)) {
        log_debug(shadower->options.log, "shadow.agrees",
                  LOG_C("verdict", shadow_verdict_word(gang->verdict)),
                  LOG_STR("namespace", gang->ns), LOG_STR("group", gang->name));
        return;
    }
    log_info(shadower->options.log, "shadow.differs",
             LOG_C("verdict", shadow_verdict_word(gang->verdict)), LOG_STR("namespace", gang->ns),
             LOG_STR("group", gang->name),
             LOG_STR("ours", shadow_places_text(&arena, &gang->ours.places)),
             LOG_STR("theirs", shadow_places_text(&arena, &gang->theirs.places)),
             LOG_STR("reason", gang->ours.reason), LOG_STR("message", gang->ours.message));
}

static struct str label_of(const struct object *object, struct str key)
{
    for (size_t i = 0; i < object->label_count; i++)
        if (str_eq(object->labels[i].key, key))
            return object->labels[i].value;
    return STR_NONE;
}

static void observe_pod(struct shadower *shadower,
                        enum sched_change what,
                        const struct object *object,
                        int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sched *core = shadower->options.core;
    struct shadow_gang gang;
    struct sched_pod pod;
    bool ours = read_pod(shadower, object, &arena, &pod);
    struct str alone = alone_name(&arena, object);

    if (ours && !pod.group.len && what == SCHED_PUT) {
        struct str queue = label_of(object, sched_config(core)->queue_label);

        pod.group = alone;
        sched_put_group(core, &(struct sched_group){
                                  .ns = pod.ns,
                                  .name = alone,
                                  .queue = queue.len ? queue : shadower->options.default_queue,
                                  .created_ms = pod.created_ms,
                                  .min_member = 1});
    } else if (ours && (what == SCHED_DROP || !str_eq(pod.group, alone))) {
        /* It has ended, or somebody has put it into a group since. */
        sched_drop_group(core, pod.ns, alone);
        if (what == SCHED_PUT)
            shadow_forget(shadower->shadow, pod.ns, alone);
    }
    if (what == SCHED_PUT)
        sched_put_pod(core, &pod);
    else
        sched_drop_pod(core, object->ns, object->name);
    struct shadow_pod seen = seen_as(object, &pod, &arena, what == SCHED_DROP);
    if (ours && shadow_pod(shadower->shadow, &seen, now_ms, &gang))
        tell_compared(shadower, &gang);
}

int shadower_observe(struct shadower *shadower,
                     enum sched_change what,
                     const struct object *object,
                     int64_t now_ms,
                     struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (object->kind == &kind_podgroup && what == SCHED_PUT) {
        struct decode decode = {.config = sched_config(shadower->options.core),
                                .arena = &arena,
                                .object = object,
                                .tree = object_json(object, &arena)};
        struct sched_group group;

        decode_group(&decode, &group);
        shadow_need(shadower->shadow, group.ns, group.name, group.min_member);
    }
    if (object->kind != &kind_pod)
        return sched_observe(shadower->options.core, what, object, err);
    observe_pod(shadower, what, object, now_ms);
    return 0;
}

static void put_missing(struct shadower *shadower, struct str name, struct str parent)
{
    struct sched_queue queue = {.name = name,
                                .parent = parent,
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    if (!name.len || cache_get(shadower->options.cache, &kind_queue, STR(""), name))
        return;
    for (size_t r = 0; r < COUNT_OF(queue.quota); r++)
        queue.quota[r] = (struct sched_quota){0, SCHED_UNLIMITED, 1};
    sched_put_queue(shadower->options.core, &queue);
}

void shadower_open(struct shadower *shadower)
{
    put_missing(shadower, shadower->options.default_parent, STR_NONE);
    put_missing(shadower, shadower->options.default_queue, shadower->options.default_parent);
}

/* ---- what is decided ---- */

/* A promise of room that is still in use is no bind that could fail: the pod begins anew. */
static void take_back_promise(struct shadower *shadower, const struct sched_pod_ref *ref)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object = cache_get(shadower->options.cache, &kind_pod, ref->ns, ref->name);
    struct sched_pod pod;

    if (!object || !read_pod(shadower, object, &arena, &pod))
        return;
    if (!pod.group.len)
        pod.group = alone_name(&arena, object);
    sched_drop_pod(shadower->options.core, ref->ns, ref->name);
    sched_put_pod(shadower->options.core, &pod);
}

void shadower_plan(struct shadower *shadower, const struct sched_plan *plan, int64_t now_ms)
{
    struct sched *core = shadower->options.core;

    shadow_plan(shadower->shadow, plan, now_ms);
    for (size_t i = 0; i < plan->bind_count; i++)
        sched_bind_failed(core, &plan->binds[i].pod);
    for (size_t i = 0; i < plan->evict_count; i++)
        sched_evict_failed(core, &plan->evicts[i].pod);
    for (size_t i = 0; i < plan->nominate_count; i++)
        take_back_promise(shadower, &plan->nominates[i].pod);
}

void shadower_metrics(const struct shadower *shadower, struct buf *buf)
{
    buf_addf(buf, "# HELP muster_shadow_compared_total Gangs that the other scheduler placed, by "
                  "what Muster would have done\n"
                  "# TYPE muster_shadow_compared_total counter\n");
    for (size_t v = 0; v < SHADOW_VERDICT_COUNT; v++)
        buf_addf(buf, "muster_shadow_compared_total{verdict=\"%s\"} %" PRIu64 "\n",
                 shadow_verdict_word((enum shadow_verdict)v),
                 shadow_compared(shadower->shadow, (enum shadow_verdict)v));
    buf_addf(
        buf,
        "# HELP muster_shadow_evicting_total Gangs for which Muster would have evicted others\n"
        "# TYPE muster_shadow_evicting_total counter\n"
        "muster_shadow_evicting_total %" PRIu64 "\n",
        shadow_evictions(shadower->shadow));
}
