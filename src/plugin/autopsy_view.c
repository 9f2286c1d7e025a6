#include "plugin/autopsy_view.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define PODS_SHOWN 4
#define NAME_WIDTH 28

/* One stack: of a rank's main thread, or of what else there is. */
struct item {
    int64_t rank; /* -1: none */
    struct str pod;
    const struct json *process;
    const struct json *thread; /* NULL: nothing is known of it */
    struct str key;            /* equal stacks have equal ones */
};

struct items VEC_FIELDS(struct item);

struct group {
    struct str key;
    struct items items; /* by rank */
};

struct groups VEC_FIELDS(struct group);

/* ---- words ---- */

static struct str path_base(struct str path)
{
    size_t at = path.len;

    while (at && path.p[at - 1] != '/')
        at--;
    return str_sub(path, at, path.len);
}

/* "data.py:88 (get)" */
static struct str frame_words(struct arena *arena, const struct json *frame)
{
    struct str file = path_base(json_str(json_get(frame, "file")));
    int64_t line = json_i64_or(json_get(frame, "line"), 0);
    struct str function = json_str(json_get(frame, "function"));

    if (line)
        return str_printf(arena, STR_FMT ":%lld (" STR_FMT ")", STR_ARG(file), (long long)line,
                          STR_ARG(function));
    return str_printf(arena, STR_FMT " (" STR_FMT ")", STR_ARG(file), STR_ARG(function));
}

static struct str state_words(struct arena *arena, const struct json *thread)
{
    static const struct {
        char state;
        const char *words;
    } rows[] = {
        {'R', "runs"},       {'S', "sleeps"},          {'D', "waits for the kernel"},
        {'T', "is stopped"}, {'t', "is being traced"}, {'Z', "has ended"},
        {'X', "has ended"},
    };
    struct str state = json_str(json_get(thread, "state"));
    struct str call = json_str(json_get(thread, "syscall"));
    const char *words = "";

    for (size_t i = 0; i < COUNT_OF(rows) && state.len; i++)
        if (rows[i].state == state.p[0])
            words = rows[i].words;
    if (!call.len)
        call = json_str(json_get(thread, "wchan"));
    if (call.len && (str_is(state, "S") || str_is(state, "D")))
        return str_printf(arena, "%s in " STR_FMT, words, STR_ARG(call));
    return str_from(words);
}

static struct str item_where(struct arena *arena, const struct item *item)
{
    struct str why = json_str(json_get(item->process, "why"));
    const struct json *frame = json_at(item->thread, "frames.0");

    if (frame)
        return frame_words(arena, frame);
    return why.len ? why : STR("outside of Python");
}

/* ---- groups ---- */

/* Running and sleeping are the same here: who spins in a collective does both. Being stopped, or
 * held by the kernel, is not. */
static struct str item_key(struct arena *arena, const struct item *item)
{
    struct str state = json_str(json_get(item->thread, "state"));
    struct buf text = {0};

    if (str_is(state, "T") || str_is(state, "t") || str_is(state, "D") || str_is(state, "Z"))
        buf_addf(&text, STR_FMT "\n", STR_ARG(state));
    JSON_FOREACH(json_get(item->thread, "frames"), frame)
        buf_addf(&text, STR_FMT "\t" STR_FMT "\t%lld\n", STR_ARG(json_str(json_get(frame, "file"))),
                 STR_ARG(json_str(json_get(frame, "function"))),
                 (long long)json_i64_or(json_get(frame, "line"), 0));
    if (!json_count(json_get(item->thread, "frames")))
        buf_add(&text, json_str(json_get(item->process, "why")));
    struct str key = str_dup(arena, buf_str(&text));
    buf_done(&text);
    return key;
}

static void items_add(struct arena *arena,
                      struct items *out,
                      const struct json *pod,
                      const struct json *process,
                      const struct json *thread)
{
    struct item item = {.rank = json_i64_or(json_get(process, "rank"), -1),
                        .pod = json_str(json_get(pod, "pod")),
                        .process = process,
                        .thread = thread};

    item.key = item_key(arena, &item);
    VEC_PUSH(arena, out, item);
}

/* Of the ranks the main threads; or, `others`, all other threads of Python. */
static struct items items_of(struct arena *arena, const struct json *document, bool others)
{
    struct items items = {0};

    JSON_FOREACH(json_get(document, "pods"), pod)
        JSON_FOREACH(json_get(pod, "processes"), process) {
            bool chief = json_bool_or(json_get(process, "main"), false);
            const struct json *threads = json_get(process, "threads");
            bool first = true;

            if (chief && !others)
                items_add(arena, &items, pod, process, json_first(threads));
            JSON_FOREACH(threads, thread) {
                if (others && !(chief && first) && json_count(json_get(thread, "frames")))
                    items_add(arena, &items, pod, process, thread);
                first = false;
            }
        }
    return items;
}

static int item_compare(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return str_cmp(x->pod, y->pod);
}

static int group_compare(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;

    if (x->items.count != y->items.count)
        return x->items.count < y->items.count ? -1 : 1;
    return item_compare(&x->items.items[0], &y->items.items[0]);
}

static struct groups groups_of(struct arena *arena, struct items items)
{
    struct groups groups = {0};

    if (items.count)
        qsort(items.items, items.count, sizeof(items.items[0]), item_compare);
    for (size_t i = 0; i < items.count; i++) {
        struct group *group = NULL;

        for (size_t j = 0; j < groups.count && !group; j++)
            if (str_eq(groups.items[j].key, items.items[i].key))
                group = &groups.items[j];
        if (!group) {
            VEC_PUSH(arena, &groups, (struct group){.key = items.items[i].key});
            group = &groups.items[groups.count - 1];
        }
        VEC_PUSH(arena, &group->items, items.items[i]);
    }
    if (groups.count)
        qsort(groups.items, groups.count, sizeof(groups.items[0]), group_compare);
    return groups;
}

/* "rank 3", "ranks 0-2,4", "pod a"; sorted by rank, each once. */
static struct str group_ranks(struct arena *arena, const struct group *group)
{
    struct buf text = {0};
    size_t count = group->items.count;
    size_t named = 0;

    for (size_t i = 0; i < count;) {
        int64_t first = group->items.items[i].rank;
        int64_t last = first;

        for (i++; i < count && group->items.items[i].rank <= last + 1 && first >= 0; i++)
            last = group->items.items[i].rank;
        if (first < 0)
            continue;
        buf_addf(&text, named++ ? ",%lld" : "%lld", (long long)first);
        if (last > first)
            buf_addf(&text, "%c%lld", last == first + 1 ? ',' : '-', (long long)last);
        named += last > first;
    }
    struct str out;
    if (named)
        out =
            str_printf(arena, "%s " STR_FMT, named > 1 ? "ranks" : "rank", STR_ARG(buf_str(&text)));
    else if (count == 1)
        out = str_printf(arena, "pod " STR_FMT, STR_ARG(group->items.items[0].pod));
    else
        out = str_printf(arena, "%zu processes", count);
    buf_done(&text);
    return out;
}

/* ---- collectives ---- */

#define COLLECTIVE_GROUPS_MAX 64

/* "#4712 nccl:all_reduce started [[8]], main.py:43 (train)" */
static struct str collective_words(struct arena *arena, const struct json *entry)
{
    struct str where = json_str(json_get(entry, "where"));

    return str_printf(
        arena, "#%lld " STR_FMT " " STR_FMT " " STR_FMT "%s" STR_FMT,
        (long long)json_i64_or(json_get(entry, "seq"), -1),
        STR_ARG(json_str(json_get(entry, "op"))), STR_ARG(json_str(json_get(entry, "state"))),
        STR_ARG(json_str(json_get(entry, "sizes"))), where.len ? ", " : "", STR_ARG(where));
}

/* The last collective of each rank in that group; `thread` of an item is what is told of it. */
static struct items collectives_of(struct arena *arena,
                                   const struct json *document,
                                   struct str name)
{
    struct items items = {0};

    JSON_FOREACH(json_get(document, "pods"), pod)
        JSON_FOREACH(json_get(pod, "processes"), process)
            JSON_FOREACH(json_at(process, "flight.groups"), group) {
                const struct json *last = NULL;

                if (!str_eq(json_str(json_get(group, "group")), name))
                    continue;
                JSON_FOREACH(json_get(group, "last"), entry)
                    last = entry;
                if (last)
                    VEC_PUSH(arena, &items,
                             (struct item){.rank = json_i64_or(json_get(process, "rank"), -1),
                                           .pod = json_str(json_get(pod, "pod")),
                                           .process = process,
                                           .thread = last,
                                           .key = collective_words(arena, last)});
            }
    return items;
}

static int64_t item_sequence(const struct item *item)
{
    return json_i64_or(json_get(item->thread, "seq"), -1);
}

/* Those that are at, or before, that collective; of those at it, in that state, if one is named. */
static struct str ranks_at(struct arena *arena,
                           const struct items *items,
                           int64_t sequence,
                           bool before,
                           const char *state)
{
    struct group some = {0};

    for (size_t i = 0; i < items->count; i++) {
        const struct item *item = &items->items[i];

        if ((item_sequence(item) < sequence) == before &&
            (!state || str_is(json_str(json_get(item->thread, "state")), state)))
            VEC_PUSH(arena, &some.items, *item);
    }
    return some.items.count ? group_ranks(arena, &some) : STR_NONE;
}

/* Where the ranks differ; empty: they do not. Sorted by rank. */
static struct str collectives_say(struct arena *arena, const struct items *items)
{
    const struct item *first = &items->items[0];
    bool alike = true;

    for (size_t i = 1; i < items->count; i++)
        if (item_sequence(&items->items[i]) > item_sequence(first))
            first = &items->items[i];
    int64_t top = item_sequence(first);
    struct str op = json_str(json_get(first->thread, "op"));
    struct str behind = ranks_at(arena, items, top, true, NULL);
    if (behind.len)
        return str_printf(arena, STR_FMT " did not call #%lld (" STR_FMT "), which " STR_FMT " did",
                          STR_ARG(behind), (long long)top, STR_ARG(op),
                          STR_ARG(ranks_at(arena, items, top, false, NULL)));
    for (size_t i = 0; i < items->count; i++)
        alike = alike && str_eq(json_str(json_get(items->items[i].thread, "op")), op) &&
                str_eq(json_str(json_get(items->items[i].thread, "sizes")),
                       json_str(json_get(first->thread, "sizes")));
    if (!alike)
        return str_printf(arena, "the ranks called different collectives as #%lld", (long long)top);
    struct str waits = ranks_at(arena, items, top, false, "scheduled");
    struct str runs = ranks_at(arena, items, top, false, "started");
    if (waits.len && runs.len)
        return str_printf(arena,
                          STR_FMT " called #%lld (" STR_FMT
                                  ") and did not start it on the GPU, " STR_FMT " did",
                          STR_ARG(waits), (long long)top, STR_ARG(op), STR_ARG(runs));
    return STR_NONE;
}

static void add_collective_group(struct arena *arena, struct json *out, struct items items)
{
    struct json *ranks = json_add_array(arena, out, "ranks");
    struct groups groups = groups_of(arena, items);

    for (size_t i = 0; i < groups.count; i++) {
        struct json *line = json_push(ranks, json_new_object(arena));

        json_add_str(arena, line, "ranks", group_ranks(arena, &groups.items[i]));
        json_add_str(arena, line, "last", groups.items[i].key);
    }
    json_add_str(arena, out, "says", collectives_say(arena, &items));
}

static bool has_group(const struct json *list, struct str name)
{
    JSON_FOREACH(list, group)
        if (str_eq(json_str(json_get(group, "group")), name))
            return true;
    return false;
}

/* One entry for each group that any rank tells of. */
static void add_collectives(struct arena *arena, struct json *document)
{
    struct json *list = json_new_array(arena);

    JSON_FOREACH(json_get(document, "pods"), pod)
        JSON_FOREACH(json_get(pod, "processes"), process)
            JSON_FOREACH(json_at(process, "flight.groups"), group) {
                struct str name = json_str(json_get(group, "group"));

                if (has_group(list, name) || json_count(list) >= COLLECTIVE_GROUPS_MAX)
                    continue;
                struct items items = collectives_of(arena, document, name);
                struct json *out = json_push(list, json_new_object(arena));
                json_add_str(arena, out, "group", name);
                if (items.count)
                    add_collective_group(arena, out, items);
            }
    if (json_count(list))
        (void)json_set(document, STR("collectives"), list);
}

void autopsy_group(struct arena *arena, struct json *document)
{
    struct groups groups = groups_of(arena, items_of(arena, document, false));

    add_collectives(arena, document);
    struct json *list = json_add_array(arena, document, "groups");

    for (size_t i = 0; i < groups.count; i++) {
        const struct group *group = &groups.items[i];
        const struct item *one = &group->items.items[0];
        struct json *out = json_push(list, json_new_object(arena));
        struct json *ranks = json_add_array(arena, out, "ranks");
        struct json *pods = json_add_array(arena, out, "pods");
        struct str before = STR_NONE;

        for (size_t j = 0; j < group->items.count; j++) {
            const struct item *item = &group->items.items[j];

            if (item->rank >= 0)
                (void)json_push(ranks, json_new_i64(arena, item->rank));
            if (!str_eq(item->pod, before))
                (void)json_push(pods, json_new_str(arena, item->pod));
            before = item->pod;
        }
        json_add_str(arena, out, "where", item_where(arena, one));
        json_add_str(arena, out, "state", state_words(arena, one->thread));
        if (json_get(one->thread, "frames"))
            (void)json_set(out, STR("frames"), json_clone(arena, json_get(one->thread, "frames")));
        if (json_get(one->thread, "native"))
            (void)json_set(out, STR("native"), json_clone(arena, json_get(one->thread, "native")));
    }
}

/* ---- text ---- */

static struct str pod_node(const struct json *document, struct str name)
{
    JSON_FOREACH(json_get(document, "pods"), pod)
        if (str_eq(json_str(json_get(pod, "pod")), name))
            return json_str(json_get(pod, "node"));
    return STR("");
}

static void add_pods(struct buf *out, const struct json *document, const struct group *group)
{
    struct str before = STR_NONE;
    size_t count = 0;

    for (size_t i = 0; i < group->items.count; i++) {
        struct str pod = group->items.items[i].pod;

        if (str_eq(pod, before))
            continue;
        before = pod;
        if (count++ < PODS_SHOWN)
            buf_addf(out, "%s" STR_FMT " (" STR_FMT ")", count > 1 ? ", " : "  on ", STR_ARG(pod),
                     STR_ARG(pod_node(document, pod)));
    }
    if (count > PODS_SHOWN)
        buf_addf(out, " and %zu pods more", count - PODS_SHOWN);
    if (group->items.count == 1) {
        const struct item *item = &group->items.items[0];
        struct str python = json_str(json_get(item->process, "python"));

        buf_addf(out, ", process %lld", (long long)json_i64_or(json_get(item->process, "pid"), 0));
        if (python.len)
            buf_addf(out, ", Python " STR_FMT, STR_ARG(python));
    }
    buf_addc(out, '\n');
}

/* What is below the first line of Python: where in C and C++ it waits. */
static void add_native(struct buf *out, const struct item *item)
{
    size_t count = 0;

    JSON_FOREACH(json_get(item->thread, "native"), frame) {
        struct str function = json_str(json_get(frame, "function"));
        struct str file = json_str(json_get(frame, "file"));

        if (count++ == AUTOPSY_NATIVE_MAX) {
            buf_add(out, STR("    ... (-o json has all)\n"));
            return;
        }
        buf_addf(out, "    %-*.*s " STR_FMT "%s" STR_FMT "\n", NAME_WIDTH,
                 STR_ARG(function.len ? function : STR("?")), STR_ARG(file), file.len ? "+" : "",
                 STR_ARG(json_str(json_get(frame, "at"))));
    }
}

static void add_frames(struct buf *out, const struct item *item)
{
    size_t count = 0;

    add_native(out, item);
    JSON_FOREACH(json_get(item->thread, "frames"), frame) {
        int64_t line = json_i64_or(json_get(frame, "line"), 0);

        if (count++ == AUTOPSY_FRAMES_MAX) {
            buf_add(out, STR("    ... (-o json has all)\n"));
            return;
        }
        buf_addf(out, "    %-*.*s " STR_FMT, NAME_WIDTH,
                 STR_ARG(json_str(json_get(frame, "function"))),
                 STR_ARG(json_str(json_get(frame, "file"))));
        if (line)
            buf_addf(out, ":%lld", (long long)line);
        buf_addc(out, '\n');
    }
}

static void add_group(struct buf *out,
                      struct arena *arena,
                      const struct json *document,
                      const struct group *group)
{
    const struct item *one = &group->items.items[0];
    struct str state = state_words(arena, one->thread);

    buf_addf(out, STR_FMT ": " STR_FMT, STR_ARG(group_ranks(arena, group)),
             STR_ARG(item_where(arena, one)));
    if (state.len)
        buf_addf(out, ", " STR_FMT, STR_ARG(state));
    buf_addc(out, '\n');
    add_pods(out, document, group);
    add_frames(out, one);
    buf_addc(out, '\n');
}

static void add_recorders(struct buf *out, const struct json *document)
{
    JSON_FOREACH(json_get(document, "collectives"), group) {
        struct str says = json_str(json_get(group, "says"));

        buf_addf(out,
                 "Last collectives of group " STR_FMT ", as PyTorch's flight recorder has them:\n",
                 STR_ARG(json_str(json_get(group, "group"))));
        JSON_FOREACH(json_get(group, "ranks"), line)
            buf_addf(out, "  " STR_FMT ": " STR_FMT "\n",
                     STR_ARG(json_str(json_get(line, "ranks"))),
                     STR_ARG(json_str(json_get(line, "last"))));
        if (says.len)
            buf_addf(out, "  " STR_FMT "\n", STR_ARG(says));
        buf_addc(out, '\n');
    }
}

static void add_silent(struct buf *out, const struct json *document)
{
    JSON_FOREACH(json_get(document, "pods"), pod) {
        struct str error = json_str(json_get(pod, "error"));
        struct str left = json_str(json_get(pod, "left"));

        if (error.len)
            buf_addf(out, "pod " STR_FMT ": " STR_FMT "\n", STR_ARG(json_str(json_get(pod, "pod"))),
                     STR_ARG(error));
        if (left.len)
            buf_addf(out, "pod " STR_FMT ": " STR_FMT "\n", STR_ARG(json_str(json_get(pod, "pod"))),
                     STR_ARG(left));
    }
}

void autopsy_text(struct buf *out, struct arena *arena, const struct json *document, bool all)
{
    struct groups groups = groups_of(arena, items_of(arena, document, false));

    for (size_t i = 0; i < groups.count; i++)
        add_group(out, arena, document, &groups.items[i]);
    if (all) {
        groups = groups_of(arena, items_of(arena, document, true));
        if (groups.count)
            buf_add(out, STR("Other threads, and processes that ranks have started:\n\n"));
        for (size_t i = 0; i < groups.count; i++)
            add_group(out, arena, document, &groups.items[i]);
    }
    add_recorders(out, document);
    add_silent(out, document);
}
