#include "stacks/flight.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "stacks/pickle.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZES_SHOWN 4 /* tensors, and dimensions of each */
#define FRAMES_SEEN 100

/* ---- words ---- */

static struct str name_of(struct arena *arena, const struct pickle_value *value)
{
    struct str text = str_sub(pickle_str(value), 0, FLIGHT_TEXT_MAX);

    return str_dup(arena, text);
}

/* "default_pg", "0" where a group has no name of its own. */
static struct str group_of(struct arena *arena, const struct pickle_value *entry)
{
    const struct pickle_value *group = pickle_get(entry, "process_group");
    struct str words = name_of(arena, pickle_at(group, 1));

    if (!words.len || str_is(words, "undefined"))
        words = name_of(arena, pickle_at(group, 0));
    if (!words.len)
        words = str_printf(arena, "%lld", (long long)pickle_i64(pickle_get(entry, "pg_id"), 0));
    return words;
}

/* "[[8, 4], [2]]" */
static struct str sizes_of(struct arena *arena, const struct pickle_value *sizes)
{
    _cleanup_(buf_done) struct buf text = {0};

    buf_addc(&text, '[');
    for (size_t i = 0; i <= SIZES_SHOWN && pickle_at(sizes, i); i++) {
        const struct pickle_value *one = pickle_at(sizes, i);

        buf_addf(&text, "%s%s", i ? ", " : "", i == SIZES_SHOWN ? "..." : "[");
        for (size_t j = 0; i < SIZES_SHOWN && j <= SIZES_SHOWN && pickle_at(one, j); j++)
            if (j == SIZES_SHOWN)
                buf_add(&text, STR(", ..."));
            else
                buf_addf(&text, "%s%lld", j ? ", " : "",
                         (long long)pickle_i64(pickle_at(one, j), 0));
        if (i < SIZES_SHOWN)
            buf_addc(&text, ']');
    }
    buf_addc(&text, ']');
    return str_dup(arena, buf_str(&text));
}

/* The innermost frame that is not PyTorch's own: "main.py:43 (train)". */
static struct str where_of(struct arena *arena, const struct pickle_value *frames)
{
    const struct pickle_value *frame = pickle_at(frames, 0);

    for (size_t i = 0; i < FRAMES_SEEN && pickle_at(frames, i); i++) {
        struct str file = pickle_str(pickle_get(pickle_at(frames, i), "filename"));

        if (file.len && !str_contains(file, STR("/torch/"))) {
            frame = pickle_at(frames, i);
            break;
        }
    }
    struct str file = pickle_str(pickle_get(frame, "filename"));
    if (!file.len)
        return STR_NONE;
    for (size_t at = file.len; at > 0; at--)
        if (file.p[at - 1] == '/') {
            file = str_sub(file, at, file.len);
            break;
        }
    return str_printf(arena, STR_FMT ":%lld (" STR_FMT ")",
                      STR_ARG(str_sub(file, 0, FLIGHT_TEXT_MAX)),
                      (long long)pickle_i64(pickle_get(frame, "line"), 0),
                      STR_ARG(name_of(arena, pickle_get(frame, "name"))));
}

/* ---- the document ---- */

static int64_t sequence(const struct pickle_value *entry)
{
    const struct pickle_value *number = pickle_get(entry, "collective_seq_id");

    return pickle_i64(number ? number : pickle_get(entry, "seq_id"), -1);
}

static struct json *group_get(struct arena *arena, struct json *groups, struct str name)
{
    JSON_FOREACH(groups, group)
        if (str_eq(json_str(json_get(group, "group")), name))
            return json_get(group, "last");
    if (json_count(groups) >= FLIGHT_GROUPS_MAX)
        return NULL;
    struct json *group = json_push(groups, json_new_object(arena));
    json_add_str(arena, group, "group", name);
    return json_add_array(arena, group, "last");
}

/* Entries are told from the last one back, and stand in the order of time. */
static void add_entry(struct arena *arena, struct json *groups, const struct pickle_value *entry)
{
    struct json *last = group_get(arena, groups, group_of(arena, entry));

    if (!last || json_count(last) >= FLIGHT_LAST)
        return;
    struct json *item = json_new_object(arena);
    struct str where = where_of(arena, pickle_get(entry, "frames"));
    json_add_i64(arena, item, "seq", sequence(entry));
    json_add_str(arena, item, "op", name_of(arena, pickle_get(entry, "profiling_name")));
    json_add_str(arena, item, "state", name_of(arena, pickle_get(entry, "state")));
    json_add_str(arena, item, "sizes", sizes_of(arena, pickle_get(entry, "input_sizes")));
    if (where.len)
        json_add_str(arena, item, "where", where);
    json_insert(last, 0, item);
}

struct json *flight_decode(struct arena *arena, struct str bytes, struct err *err)
{
    _cleanup_(arena_done) struct arena scratch = {0};
    const struct pickle_value *root = pickle_read(&scratch, bytes, err);
    const struct pickle_value *entries = pickle_get(root, "entries");

    if (!root)
        return NULL;
    if (!entries || entries->type != PICKLE_LIST) {
        (void)err_set(err, -EINVAL, "it has no entries");
        return NULL;
    }
    struct json *out = json_new_object(arena);
    json_add_str(arena, out, "version", name_of(arena, pickle_get(root, "version")));
    struct json *groups = json_add_array(arena, out, "groups");
    for (size_t i = entries->items.count; i > 0; i--) {
        const struct pickle_value *entry = entries->items.items[i - 1];

        if (sequence(entry) >= 0 && !pickle_i64(pickle_get(entry, "is_p2p"), 0))
            add_entry(arena, groups, entry);
    }
    return out;
}
