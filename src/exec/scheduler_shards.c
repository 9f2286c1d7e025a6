#include "exec/scheduler_shards.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/status.h"
#include "exec/shard.h"
#include "exec/usage.h"
#include "exec/usage_prometheus.h"
#include "sched/sched.h"
#include "tool/log.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SHARD_API  "kai.scheduler/v1"
#define SHARD_KIND "SchedulingShard"

#define KIND_AGAIN_MS    200
#define KIND_PATIENCE_MS 30000

/* The books of one queue. */
struct book {
    struct usage usage;
    size_t len;
    char name[];
};

struct shards {
    struct shards_options options;
    struct sched_config base;
    struct api_watch *watch;
    struct map objects; /* shards by name: struct object */
    struct arena arena; /* of the shard in use */
    struct shard shard;
    struct map books;
    struct prometheus *prometheus;
    int64_t born_ms;
    int64_t counted_ms; /* up to here */
    int64_t next_ms;    /* 0: no books are kept */
};

/* ---- which shard ---- */

static void ignore(void *user, const struct api_result *result)
{
    (void)user;
    (void)result;
}

static const struct object *shard_in_use(const struct shards *shards)
{
    const struct object *found = NULL;

    MAP_FOREACH(&shards->objects, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *object = entry->value;
        struct json *tree = object_json(object, &arena);

        if (json_str_at(tree, "spec.partitionLabelValue").len)
            continue;
        if (!found || str_is(object->name, "default"))
            found = object;
    }
    return found;
}

static void tell(struct shards *shards, const struct object *object, struct str ignored, bool used)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *before = json_get(object_json(object, &arena), "status");
    struct json *after = before ? json_clone(&arena, before) : json_new_object(&arena);
    struct condition condition = {"Applied", "True", "Applied", STR("everything took effect")};

    if (!used)
        condition = (struct condition){
            "Applied", "True", "PoolOnly",
            STR("nodes, queues and groups of this pool are kept together; its other settings are "
                "those of the shard without a partitionLabelValue")};
    else if (ignored.len)
        condition = (struct condition){"Applied", "False", "PartlyIgnored", ignored};
    condition_set(&arena, after, &condition, shards->options.now(shards->options.user));
    struct json *patch = merge_diff(&arena, before, after);
    if (!patch)
        return;
    struct json *body = json_new_object(&arena);
    json_set(body, STR("status"), patch);
    api_call(shards->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = object->kind,
                                   .name = object->name,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_MERGE,
                                   .uid = object->uid,
                                   .body = json_text(&arena, body)},
             ignore, NULL);
}

static void use_prometheus(struct shards *shards)
{
    prometheus_free(shards->prometheus);
    shards->prometheus = NULL;
    if (shards->shard.usage.prometheus.len && shards->options.loop)
        shards->prometheus = prometheus_new(shards->options.loop, shards->shard.usage.prometheus,
                                            shards->options.log);
}

static void configure(struct shards *shards)
{
    const struct shards_options *options = &shards->options;
    const struct object *object = shard_in_use(shards);
    struct shard_usage before = shards->shard.usage;
    struct str url = before.prometheus.len ? before.prometheus : STR("");
    _cleanup_(arena_done) struct arena old = TAKE(shards->arena, (struct arena){0});

    (void)old; /* goes at the end: what was read from it is in use until then */
    if (object) {
        arena_defer(&shards->arena, object_release, object_ref(object));
        shard_read(object_json(object, &shards->arena), &shards->base, &shards->arena,
                   &shards->shard);
    } else {
        shards->shard = (struct shard){.config = shards->base};
    }
    sched_configure(options->core, &shards->shard.config);
    if (!str_eq(url, shards->shard.usage.prometheus))
        use_prometheus(shards);
    if (before.window_ms != shards->shard.usage.window_ms) {
        MAP_FOREACH(&shards->books, entry)
            mem_free(entry->value);
        map_clear(&shards->books);
    }
    if (!shards->shard.usage.on) {
        shards->next_ms = 0;
        sched_forget_usage(options->core);
    } else if (!shards->next_ms) {
        shards->counted_ms = options->now(options->user);
        shards->next_ms = shards->counted_ms + shards->shard.usage.every_ms;
    }
    if (object)
        tell(shards, object, shards->shard.ignored, true);
    log_info(options->log, "scheduler.shard",
             LOG_STR("name", object ? object->name : STR("(none)")),
             LOG_STR("ignored", shards->shard.ignored));
    options->changed(options->user);
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
    if (same)
        return;
    configure(shards);
    if (change->event != API_DELETED &&
        shard_in_use(shards) != map_get(&shards->objects, object->name))
        tell(shards, map_get(&shards->objects, object->name), STR_NONE, false);
}

/* ---- the books ---- */

static void count_nodes(const struct shards *shards, double ret[static SCHED_RESOURCES])
{
    const struct object *node;
    size_t cursor = 0;

    while ((node = cache_next(shards->options.cache, &kind_node, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *has = json_at(object_json(node, &arena), "status.allocatable");
        int64_t amount = 0;

        if (quantity_milli_json(json_get(has, "cpu"), &amount, NULL) == 0)
            ret[SCHED_CPU] += (double)amount;
        if (quantity_whole_json(json_get(has, "memory"), &amount, NULL) == 0)
            ret[SCHED_MEMORY] += (double)amount;
        if (quantity_whole_json(json_get(has, "nvidia.com/gpu"), &amount, NULL) == 0)
            ret[SCHED_GPU] += (double)amount;
    }
}

static struct book *book_of(struct shards *shards,
                            const struct object *queue,
                            const struct usage_params *params)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct book *book = map_get(&shards->books, queue->name);

    if (book)
        return book;
    book = mem_alloc(sizeof(*book) + queue->name.len);
    book->len = queue->name.len;
    memcpy(book->name, queue->name.p, queue->name.len);
    usage_read(json_str_at(object_json(queue, &arena), "status.usageHistory"), params,
               &book->usage);
    map_set(&shards->books, (struct str){book->name, book->len}, book);
    return book;
}

static void write_usage(struct shards *shards,
                        const struct object *queue,
                        const double shares[static SCHED_RESOURCES],
                        struct str history)
{
    static const char *const names[SCHED_RESOURCES] = {
        [SCHED_CPU] = "cpu", [SCHED_MEMORY] = "memory", [SCHED_GPU] = "gpu"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body = json_new_object(&arena);
    struct json *usage = json_make_path(&arena, body, "status.usage");

    for (size_t r = 0; r < SCHED_RESOURCES; r++)
        json_set(usage, str_from(names[r]),
                 json_new_number(&arena, str_printf(&arena, "%.4f", shares[r])));
    if (history.len)
        json_add_str(&arena, json_get(body, "status"), "usageHistory", history);
    api_call(shards->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_queue,
                                   .name = queue->name,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_MERGE,
                                   .uid = queue->uid,
                                   .body = json_text(&arena, body)},
             ignore, NULL);
}

static void keep_books(struct shards *shards, int64_t now_ms)
{
    const struct shards_options *options = &shards->options;
    struct usage_params params = {.half_life_ms = shards->shard.usage.half_life_ms,
                                  .window_ms = shards->shard.usage.window_ms};
    double seconds = (double)(now_ms - shards->counted_ms) / 1000;
    double there[SCHED_RESOURCES] = {0};
    const struct object *queue;
    size_t cursor = 0;

    count_nodes(shards, there);
    while ((queue = cache_next(options->cache, &kind_queue, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct book *book = book_of(shards, queue, &params);
        struct sched_queue_view view;
        double shares[SCHED_RESOURCES];

        if (!sched_queue_view(options->core, queue->name, &view))
            continue;
        usage_add(&book->usage, &params, now_ms, seconds, view.allocated, there);
        usage_shares(&book->usage, &params, now_ms, shares);
        sched_set_usage(options->core, queue->name, shares);
        write_usage(shards, queue, shares, usage_write(&book->usage, &params, &arena));
    }
    shards->counted_ms = now_ms;
}

/* Answers of the last question count now; the next one is asked. */
static void ask_prometheus(struct shards *shards)
{
    const struct shards_options *options = &shards->options;
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(options->cache, &kind_queue, STR(""), &cursor))) {
        double shares[SCHED_RESOURCES];

        if (!prometheus_usage(shards->prometheus, queue->name, shares))
            continue;
        sched_set_usage(options->core, queue->name, shares);
        write_usage(shards, queue, shares, STR_NONE);
    }
    prometheus_ask(shards->prometheus, shards->shard.usage.half_life_ms,
                   shards->shard.usage.window_ms, options->now(options->user));
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

int64_t shards_turn(struct shards *shards, int64_t now_ms)
{
    if (!is_watching(shards) && now_ms < shards->born_ms + KIND_PATIENCE_MS)
        return now_ms + KIND_AGAIN_MS;
    if (!shards->next_ms)
        return INT64_MAX;
    if (now_ms >= shards->next_ms) {
        if (shards->prometheus)
            ask_prometheus(shards);
        else
            keep_books(shards, now_ms);
        shards->next_ms = now_ms + shards->shard.usage.every_ms;
    }
    return shards->next_ms;
}

struct shards *shards_new(const struct shards_options *options)
{
    struct shards *shards = MEM_NEW(struct shards);

    shards->options = *options;
    shards->base = *options->base;
    shards->objects.seed = shards->books.seed = options->base->seed;
    shards->shard.config = *options->base;
    shards->born_ms = options->now(options->user);
    (void)is_watching(shards);
    return shards;
}

void shards_free(struct shards *shards)
{
    if (!shards)
        return;
    api_watch_stop(shards->options.api, shards->watch);
    prometheus_free(shards->prometheus);
    MAP_FOREACH(&shards->objects, entry)
        object_unref(entry->value);
    MAP_FOREACH(&shards->books, entry)
        mem_free(entry->value);
    map_done(&shards->objects);
    map_done(&shards->books);
    arena_done(&shards->arena);
    mem_free(shards);
}
