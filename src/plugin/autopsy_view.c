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

void autopsy_group(struct arena *arena, struct json *document)
{
    struct groups groups = groups_of(arena, items_of(arena, document, false));
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

static void add_frames(struct buf *out, const struct item *item)
{
    size_t count = 0;

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
    add_silent(out, document);
}
