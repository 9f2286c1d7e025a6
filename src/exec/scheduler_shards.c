#include "exec/scheduler_shards.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/applied.h"
#include "exec/ledger.h"
#include "exec/queue_writer.h"
#include "exec/shard.h"
#include "sched/sched.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHARD_API  "kai.scheduler/v1"
#define SHARD_KIND "SchedulingShard"

#define KIND_AGAIN_MS    200
#define KIND_PATIENCE_MS 30000
#define CLEAR_EVERY_MS   1000
#define CLEAR_TIMES      15

/* A node pool that a shard names. */
struct pool {
    const struct object *shard; /* the one that holds for it, a reference */
    int64_t generation;         /* of the shard as it was applied; 0: not yet */
    struct str ignored;         /* in `arena` */
    struct str note;            /* where use over time comes from; in `arena` */
    struct arena arena;
    struct ledger *ledger;
    size_t len;
    char name[];
};

struct shards {
    struct shards_options options;
    struct sched_policy base;
    struct api_watch *watch;
    struct map objects;    /* shards by name: struct object */
    struct map pools;      /* by name: struct pool */
    struct buf prometheus; /* of shards that name none */
    int64_t born_ms;
    int64_t clear_ms; /* when shares that nobody works out are looked for next */
    int clear_left;   /* so many times more */
};

/* ---- what a shard is told ---- */

static void tell(struct shards *shards, const struct object *object, const struct pool *pool)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct applied applied = {0};

    if (pool->shard != object)
        applied = (struct applied){"PoolTaken",
                                   str_printf(&arena,
                                              "the pool of this partitionLabelValue is run by "
                                              "SchedulingShard " STR_FMT,
                                              STR_ARG(pool->shard->name))};
    else if (pool->ignored.len)
        applied = (struct applied){"PartlyIgnored", pool->ignored};
    else
        applied.message = pool->note;
    applied_tell(shards->options.api, object, &applied, shards->options.now(shards->options.user));
}

/* ---- which shard for which pool ---- */

static struct pool *pool_make(struct shards *shards, struct str name)
{
    struct pool *pool = map_get(&shards->pools, name);

    if (pool)
        return pool;
    pool = mem_alloc(sizeof(*pool) + name.len);
    *pool = (struct pool){.len = name.len};
    if (name.len)
        memcpy(pool->name, name.p, name.len);
    map_set(&shards->pools, (struct str){pool->name, pool->len}, pool);
    return pool;
}

static void pool_free(struct pool *pool)
{
    ledger_free(pool->ledger);
    object_unref(pool->shard);
    arena_done(&pool->arena);
    mem_free(pool);
}

static struct str pool_of(const struct object *shard, struct arena *arena)
{
    struct str name = json_str_at(object_json(shard, arena), "spec.partitionLabelValue");

    return name.len ? name : STR("");
}

/* Of two shards of one pool the one named "default" holds, else the first by name. */
static bool holds_before(const struct object *a, const struct object *b)
{
    if (str_is(a->name, "default") || str_is(b->name, "default"))
        return str_is(a->name, "default");
    return str_cmp(a->name, b->name) < 0;
}

static void choose(struct shards *shards)
{
    MAP_FOREACH(&shards->pools, entry) {
        struct pool *pool = entry->value;

        object_unref(pool->shard);
        pool->shard = NULL;
    }
    MAP_FOREACH(&shards->objects, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *object = entry->value;
        struct pool *pool = pool_make(shards, pool_of(object, &arena));

        if (pool->shard && !holds_before(object, pool->shard))
            continue;
        object_unref(pool->shard);
        pool->shard = object_ref(object);
    }
}

/* A shard with a new name starts at generation 1 as well: uid and generation in one. */
static int64_t version_of(const struct object *shard)
{
    return (int64_t)(str_hash(shard->uid, (uint64_t)shard->generation) >> 1) | 1;
}

static struct str usage_note(const struct shard_usage *usage, struct arena *arena)
{
    if (!usage->on)
        return STR_NONE;
    if (usage->prometheus.len)
        return str_printf(arena,
                          "everything took effect; use over time comes from Prometheus at " STR_FMT,
                          STR_ARG(usage->prometheus));
    return usage->wants_prometheus
               ? STR("everything took effect; neither connectionString nor kai-config's "
                     "prometheus.externalPrometheusUrl names a Prometheus, so use over time comes "
                     "from Muster's own records")
               : STR("everything took effect; use over time comes from Muster's own records");
}

static void pool_run(struct shards *shards, struct pool *pool)
{
    const struct shards_options *options = &shards->options;
    struct str name = {pool->name, pool->len};
    struct shard shard;

    if (pool->generation == version_of(pool->shard))
        return;
    pool->generation = version_of(pool->shard);
    arena_done(&pool->arena);
    pool->arena = (struct arena){0};
    arena_defer(&pool->arena, object_release, object_ref(pool->shard));
    shard_read(object_json(pool->shard, &pool->arena), &shards->base, &pool->arena, &shard);
    pool->ignored = shard.ignored;
    sched_set_policy(options->core, name, &shard.policy);
    if (!pool->ledger)
        pool->ledger = ledger_new(&(struct ledger_options){.loop = options->loop,
                                                           .writer = options->writer,
                                                           .cache = options->cache,
                                                           .core = options->core,
                                                           .pool = name,
                                                           .log = options->log,
                                                           .stats = options->stats});
    if (shard.usage.wants_prometheus && !shard.usage.prometheus.len)
        shard.usage.prometheus = buf_str(&shards->prometheus);
    pool->note = usage_note(&shard.usage, &pool->arena);
    ledger_use(pool->ledger, &shard.usage, options->now(options->user));
    log_info(options->log, "scheduler.shard", LOG_STR("name", pool->shard->name),
             LOG_STR("pool", name), LOG_STR("ignored", shard.ignored));
}

/* The pool has no shard any more. */
static void pool_leave(struct shards *shards, struct pool *pool)
{
    struct str name = {pool->name, pool->len};

    sched_set_policy(shards->options.core, name, name.len ? NULL : &shards->base);
    log_info(shards->options.log, "scheduler.shard", LOG_C("name", "(none)"),
             LOG_STR("pool", name));
    ledger_use(pool->ledger, &(struct shard_usage){0}, shards->options.now(shards->options.user));
    map_remove(&shards->pools, name);
    pool_free(pool);
}

static bool keeps_books(const struct shards *shards, const struct object *queue)
{
    const struct pool *pool = map_get(&shards->pools, ledger_pool_of(shards->options.core, queue));

    return pool && pool->ledger && ledger_is_kept(pool->ledger);
}

/* Shares that nobody works out any more are not left standing; the books may be taken up again. */
static void clear_usage(const struct shards *shards)
{
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(shards->options.cache, &kind_queue, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};

        /* Few have one: looking for the word costs less than parsing them all. */
        if (str_contains(queue->raw, STR("\"usage\"")) && !keeps_books(shards, queue) &&
            json_at(object_json(queue, &arena), "status.usage"))
            queue_writer_patch(shards->options.writer, queue, STR("{\"status\":{\"usage\":null}}"));
    }
}

/* More than once: the last write of a share may be under way, and not be seen yet. */
static int64_t clear_turn(struct shards *shards, int64_t now_ms)
{
    if (shards->clear_left && now_ms >= shards->clear_ms) {
        clear_usage(shards);
        shards->clear_left--;
        shards->clear_ms = now_ms + CLEAR_EVERY_MS;
    }
    return shards->clear_left ? shards->clear_ms : INT64_MAX;
}

static void configure(struct shards *shards)
{
    choose(shards);
    shards->clear_ms = shards->options.now(shards->options.user) + CLEAR_EVERY_MS;
    shards->clear_left = CLEAR_TIMES;
    for (struct pool *gone = NULL;; gone = NULL) {
        MAP_FOREACH(&shards->pools, entry)
            if (!((struct pool *)entry->value)->shard)
                gone = entry->value;
        if (!gone)
            break;
        pool_leave(shards, gone);
    }
    MAP_FOREACH(&shards->pools, entry)
        pool_run(shards, entry->value);
    MAP_FOREACH(&shards->objects, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *object = entry->value;

        tell(shards, object, map_get(&shards->pools, pool_of(object, &arena)));
    }
    shards->options.changed(shards->options.user);
}

static void on_change(void *user, const struct api_change *change)
{
    struct shards *shards = user;
    const struct object *object = change->object;

    if (!object)
        return;
    const struct object *before = map_get(&shards->objects, object->name);
    /* Only what people wrote, not what tell() did. */
    bool same = before && change->event != API_DELETED && before->generation == object->generation;
    if (before)
        map_remove(&shards->objects, before->name);
    if (change->event != API_DELETED) {
        struct object *kept = object_ref(object);

        map_set(&shards->objects, kept->name, kept);
    }
    object_unref(before);
    if (!same)
        configure(shards);
}

/* CRDs become kinds a moment after the start; where the API has no shards they never do. */
static bool is_watching(struct shards *shards)
{
    const struct shards_options *options = &shards->options;
    const struct kind *kind = kinds_by_name(options->api->kinds, STR(SHARD_API), STR(SHARD_KIND));

    if (!shards->watch && kind)
        shards->watch =
            api_watch(options->api, &(struct api_watch_request){.kind = kind}, on_change, shards);
    return shards->watch != NULL;
}

void shards_set_prometheus(struct shards *shards, struct str url)
{
    if (str_eq(buf_str(&shards->prometheus), url))
        return;
    buf_clear(&shards->prometheus);
    buf_add(&shards->prometheus, url);
    MAP_FOREACH(&shards->pools, entry)
        ((struct pool *)entry->value)->generation = 0;
    configure(shards);
}

int64_t shards_turn(struct shards *shards, int64_t now_ms)
{
    int64_t next = clear_turn(shards, now_ms);

    if (!is_watching(shards) && now_ms < shards->born_ms + KIND_PATIENCE_MS)
        return now_ms + KIND_AGAIN_MS;
    MAP_FOREACH(&shards->pools, entry) {
        int64_t due = ledger_turn(((struct pool *)entry->value)->ledger, now_ms);

        next = due < next ? due : next;
    }
    return next;
}

struct shards *shards_new(const struct shards_options *options)
{
    struct shards *shards = MEM_NEW(struct shards);

    shards->options = *options;
    shards->base = options->base->policy;
    shards->objects.seed = shards->pools.seed = options->base->seed;
    shards->born_ms = options->now(options->user);
    (void)is_watching(shards);
    return shards;
}

void shards_free(struct shards *shards)
{
    if (!shards)
        return;
    api_watch_stop(shards->options.api, shards->watch);
    MAP_FOREACH(&shards->objects, entry)
        object_unref(entry->value);
    MAP_FOREACH(&shards->pools, entry)
        pool_free(entry->value);
    buf_done(&shards->prometheus);
    map_done(&shards->objects);
    map_done(&shards->pools);
    mem_free(shards);
}
