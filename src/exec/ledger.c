#include "exec/ledger.h"

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
#include "exec/queue_writer.h"
#include "exec/shard.h"
#include "exec/usage.h"
#include "exec/usage_prometheus.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The books of one queue. */
struct book {
    struct usage usage;
    size_t len;
    char name[];
};

struct ledger {
    struct ledger_options options;
    struct shard_usage usage;
    struct map books;
    struct prometheus *prometheus;
    char *url;          /* the connection string, which usage.prometheus points to */
    int64_t counted_ms; /* up to here */
    int64_t next_ms;    /* 0: no books are kept */
};

struct str ledger_pool_of(const struct sched *core, const struct object *object)
{
    struct str label = sched_config(core)->pool_label;
    struct str pool = STR("");

    for (size_t i = 0; i < object->label_count; i++)
        if (str_eq(object->labels[i].key, label))
            pool = object->labels[i].value;
    return pool;
}

static const struct object *next_of(const struct ledger *ledger,
                                    const struct kind *kind,
                                    size_t *cursor)
{
    const struct object *object;

    while ((object = cache_next(ledger->options.cache, kind, STR(""), cursor)))
        if (str_eq(ledger_pool_of(ledger->options.core, object), ledger->options.pool))
            return object;
    return NULL;
}

static void count_nodes(const struct ledger *ledger, double ret[static SCHED_RESOURCES])
{
    const struct object *node;
    size_t cursor = 0;

    while ((node = next_of(ledger, &kind_node, &cursor))) {
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

static struct book *book_of(struct ledger *ledger,
                            const struct object *queue,
                            const struct usage_params *params)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct book *book = map_get(&ledger->books, queue->name);

    if (book)
        return book;
    book = mem_alloc(sizeof(*book) + queue->name.len);
    book->len = queue->name.len;
    memcpy(book->name, queue->name.p, queue->name.len);
    usage_read(json_str_at(object_json(queue, &arena), "status.usageHistory"), params,
               &book->usage);
    map_set(&ledger->books, (struct str){book->name, book->len}, book);
    return book;
}

static void write_usage(struct ledger *ledger,
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
    queue_writer_patch(ledger->options.writer, queue, json_text(&arena, body));
}

static void keep_books(struct ledger *ledger, int64_t now_ms)
{
    const struct ledger_options *options = &ledger->options;
    struct usage_params params = {.half_life_ms = ledger->usage.half_life_ms,
                                  .window_ms = ledger->usage.window_ms};
    double seconds = (double)(now_ms - ledger->counted_ms) / 1000;
    double there[SCHED_RESOURCES] = {0};
    const struct object *queue;
    size_t cursor = 0;

    count_nodes(ledger, there);
    while ((queue = next_of(ledger, &kind_queue, &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct book *book = book_of(ledger, queue, &params);
        struct sched_queue_view view;
        double shares[SCHED_RESOURCES];

        if (!sched_queue_view(options->core, queue->name, &view))
            continue;
        usage_add(&book->usage, &params, now_ms, seconds, view.allocated, there);
        usage_shares(&book->usage, &params, now_ms, shares);
        sched_set_usage(options->core, queue->name, shares);
        write_usage(ledger, queue, shares, usage_write(&book->usage, &params, &arena));
    }
    ledger->counted_ms = now_ms;
}

/* Answers of the last question count now; the next one is asked. */
static void ask_prometheus(struct ledger *ledger, int64_t now_ms)
{
    const struct ledger_options *options = &ledger->options;
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = next_of(ledger, &kind_queue, &cursor))) {
        double shares[SCHED_RESOURCES];

        if (!prometheus_usage(ledger->prometheus, queue->name, shares))
            continue;
        sched_set_usage(options->core, queue->name, shares);
        write_usage(ledger, queue, shares, STR_NONE);
    }
    prometheus_ask(ledger->prometheus, ledger->usage.half_life_ms, ledger->usage.window_ms, now_ms);
}

static void books_clear(struct ledger *ledger)
{
    MAP_FOREACH(&ledger->books, entry)
        mem_free(entry->value);
    map_clear(&ledger->books);
}

static void use_url(struct ledger *ledger, struct str url)
{
    if (str_eq(url, ledger->usage.prometheus))
        return;
    prometheus_free(TAKE_PTR(ledger->prometheus));
    mem_free(TAKE_PTR(ledger->url));
    ledger->usage.prometheus = STR_NONE;
    if (!url.len)
        return;
    ledger->url = mem_alloc(url.len);
    memcpy(ledger->url, url.p, url.len);
    ledger->usage.prometheus = (struct str){ledger->url, url.len};
    if (ledger->options.loop)
        ledger->prometheus =
            prometheus_new(&(struct prometheus_options){.loop = ledger->options.loop,
                                                        .url = ledger->usage.prometheus,
                                                        .log = ledger->options.log,
                                                        .stats = ledger->options.stats});
}

void ledger_use(struct ledger *ledger, const struct shard_usage *usage, int64_t now_ms)
{
    use_url(ledger, usage->prometheus);
    if (usage->window_ms != ledger->usage.window_ms)
        books_clear(ledger);
    struct str url = ledger->usage.prometheus;
    ledger->usage = *usage;
    ledger->usage.prometheus = url;
    if (!usage->on) {
        ledger->next_ms = 0;
        sched_forget_usage(ledger->options.core, ledger->options.pool);
    } else if (!ledger->next_ms) {
        ledger->counted_ms = now_ms;
        ledger->next_ms = now_ms + usage->every_ms;
    }
}

bool ledger_is_kept(const struct ledger *ledger)
{
    return ledger->next_ms != 0;
}

int64_t ledger_turn(struct ledger *ledger, int64_t now_ms)
{
    if (!ledger->next_ms)
        return INT64_MAX;
    if (now_ms >= ledger->next_ms) {
        if (ledger->prometheus)
            ask_prometheus(ledger, now_ms);
        else
            keep_books(ledger, now_ms);
        ledger->next_ms = now_ms + ledger->usage.every_ms;
    }
    return ledger->next_ms;
}

struct ledger *ledger_new(const struct ledger_options *options)
{
    struct ledger *ledger = MEM_NEW(struct ledger);

    ledger->options = *options;
    ledger->books.seed = sched_config(options->core)->seed;
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    sched_forget_usage(ledger->options.core, ledger->options.pool);
    prometheus_free(ledger->prometheus);
    books_clear(ledger);
    map_done(&ledger->books);
    mem_free(ledger->url);
    mem_free(ledger);
}
