#include "api/patch.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Recursion follows the documents, whose depth json_parse() bounds. */
// NOLINTNEXTLINE(misc-no-recursion)
struct json *patch_merge(struct arena *arena, struct json *target, const struct json *patch)
{
    if (!json_is(patch, JSON_OBJECT))
        return json_clone(arena, patch);
    if (!json_is(target, JSON_OBJECT))
        target = json_new_object(arena);
    _cleanup_(json_names_done) struct json_names names = {.object = target};
    JSON_FOREACH(patch, member) {
        struct str key = json_key(member);
        struct json *old = json_names_get(&names, key);

        if (json_is_null(member)) {
            json_names_drop(&names, key);
            continue;
        }
        struct json *merged = patch_merge(arena, old, member);
        if (merged != old)
            (void)json_names_put(&names, str_dup(arena, key), merged);
    }
    return target;
}

/* ---- RFC 6902 ---- */

/* One patch in progress: what the messages name and the growth is counted against. */
struct work {
    struct arena *arena;
    struct json *root;
    size_t nodes;
    size_t bytes;
    size_t steps;
    struct err *err;
};

/* ~1 is '/', ~0 is '~'. */
static struct str unescape(struct arena *arena, struct str part)
{
    if (str_find(part, '~') == part.len)
        return part;
    char *text = str_c(arena, part);
    size_t len = 0;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.p[i];

        if (c == '~' && i + 1 < part.len && (part.p[i + 1] == '0' || part.p[i + 1] == '1'))
            c = part.p[++i] == '0' ? '~' : '/';
        text[len++] = c;
    }
    return (struct str){text, len};
}

static bool to_index(struct str part, size_t *ret)
{
    uint64_t index = 0;

    if (!str_to_u64(part, &index) || (part.len > 1 && part.p[0] == '0'))
        return false;
    *ret = (size_t)index;
    return true;
}

/* Before a child of `parent` is looked for: a list is walked to the index, a map to the name. */
static int count_steps(struct work *work, const struct json *parent, struct str part)
{
    size_t count = json_count(parent);
    size_t index = 0;

    if (json_is(parent, JSON_ARRAY)) {
        if (!to_index(part, &index))
            return 0;
        count = index < count ? index : count;
    }
    if (count > PATCH_STEPS_MAX - work->steps)
        return err_set(work->err, -E2BIG,
                       "JSON patch: its paths lead past more than %zu items; send its operations "
                       "in several patches",
                       PATCH_STEPS_MAX);
    work->steps += count;
    return 0;
}

static struct json *child(const struct json *parent, struct str last)
{
    size_t index = 0;

    if (json_is(parent, JSON_ARRAY))
        return to_index(last, &index) ? json_index(parent, index) : NULL;
    return json_get_str(parent, last);
}

/* The parent of what `path` names, and the last step. The root has no parent: *ret_parent NULL. */
static int find(struct work *work, struct str path, struct json **ret_parent, struct str *ret_last)
{
    struct json *at = NULL;
    struct str rest = path;
    struct str part;

    *ret_parent = NULL;
    if (!path.len)
        return 0;
    if (path.p[0] != '/')
        return err_set(work->err, -EINVAL, "JSON patch: path \"" STR_FMT "\" must start with '/'",
                       STR_ARG(path));
    (void)str_cut(&rest, '/', &part);
    at = work->root;
    while (str_cut(&rest, '/', &part)) {
        int r = count_steps(work, at, part);

        if (r < 0)
            return r;
        part = unescape(work->arena, part);
        if (!rest.p) {
            *ret_parent = at;
            *ret_last = part;
            break;
        }
        at = child(at, part);
        if (!at)
            break;
    }
    if (*ret_parent && (*ret_parent)->type >= JSON_ARRAY)
        return 0;
    return err_set(work->err, -ENOENT, "JSON patch: there is no path \"" STR_FMT "\"",
                   STR_ARG(path));
}

static int look_up(struct work *work, struct str path, struct json **ret)
{
    struct json *parent = NULL;
    struct str last = STR_NONE;
    int r = find(work, path, &parent, &last);

    if (r < 0)
        return r;
    *ret = parent ? child(parent, last) : work->root;
    if (!*ret)
        return err_set(work->err, -ENOENT, "JSON patch: there is no path \"" STR_FMT "\"",
                       STR_ARG(path));
    return 0;
}

struct size {
    size_t nodes;
    size_t bytes; /* of texts and names */
};

/* Adds what is below and with `value`. False when it nests deeper than `depth_left`. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool measure(const struct json *value, size_t depth_left, struct size *size)
{
    if (!depth_left)
        return false;
    size->nodes++;
    size->bytes += json_is(value, JSON_NUMBER) ? json_number_text(value).len : json_str(value).len;
    JSON_FOREACH(value, item) {
        size->bytes += json_key(item).len;
        if (!measure(item, depth_left - 1, size))
            return false;
    }
    return true;
}

/* A copy into a deep place must not nest deeper than what json_parse() would take. What is moved
 * takes no memory, but is walked. */
static int check_growth(struct work *work, struct str path, const struct json *value, bool copied)
{
    size_t depth = 0;
    struct size size = {0};

    for (size_t i = 0; i < path.len; i++)
        depth += path.p[i] == '/' ? 1 : 0;
    if (depth >= JSON_DEPTH_MAX || !measure(value, JSON_DEPTH_MAX - depth, &size) ||
        size.nodes > PATCH_NODES_MAX - work->nodes)
        return err_set(work->err, -E2BIG,
                       "JSON patch: it adds more than %d values, or nests deeper than %d",
                       PATCH_NODES_MAX, JSON_DEPTH_MAX);
    work->nodes += size.nodes;
    if (!copied)
        return 0;
    if (size.bytes > PATCH_BYTES_MAX - work->bytes)
        return err_set(work->err, -E2BIG,
                       "JSON patch: it adds and copies more than %zu bytes; make fewer copies",
                       PATCH_BYTES_MAX);
    work->bytes += size.bytes;
    return 0;
}

/* `value` itself goes to `path`. */
static int place(struct work *work, struct str path, struct json *value)
{
    struct json *parent = NULL;
    struct str last = STR_NONE;
    int r = find(work, path, &parent, &last);

    if (r < 0)
        return r;
    if (!parent) {
        work->root = value;
    } else if (parent->type == JSON_OBJECT) {
        json_set(parent, str_dup(work->arena, last), value);
    } else {
        size_t index = json_count(parent);

        if (!str_is(last, "-") && (!to_index(last, &index) || index > json_count(parent)))
            return err_set(work->err, -ENOENT,
                           "JSON patch: index in \"" STR_FMT "\" is outside the list",
                           STR_ARG(path));
        if (index == json_count(parent))
            json_push(parent, value);
        else
            json_insert(parent, index, value);
    }
    return 0;
}

static int add(struct work *work, struct str path, const struct json *value)
{
    int r = check_growth(work, path, value, true);

    return r < 0 ? r : place(work, path, json_clone(work->arena, value));
}

static int drop(struct work *work, struct str path)
{
    struct json *parent = NULL;
    struct str last = STR_NONE;
    struct json *old = NULL;
    size_t index = 0;
    int r = look_up(work, path, &old);

    if (r == 0)
        r = find(work, path, &parent, &last);
    if (r < 0)
        return r;
    if (!parent)
        work->root = json_new_null(work->arena);
    else if (parent->type == JSON_OBJECT)
        json_remove(parent, last);
    else if (to_index(last, &index))
        json_remove_index(parent, index);
    return 0;
}

static int replace(struct work *work, struct str path, const struct json *value)
{
    struct json *parent = NULL;
    struct str last = STR_NONE;
    int r = find(work, path, &parent, &last);

    /* What an object does not have is put there, as Kubernetes does; an item must be there. */
    if (r == 0 && parent && parent->type == JSON_ARRAY)
        r = drop(work, path);
    return r < 0 ? r : add(work, path, value);
}

static int copy_or_move(struct work *work, const struct json *operation, struct str path, bool move)
{
    struct str from = json_str(json_get(operation, "from"));
    struct json *value = NULL;

    if (!from.p)
        return err_set(work->err, -EINVAL, "JSON patch: %s needs \"from\"", move ? "move" : "copy");
    int r = look_up(work, from, &value);
    if (r < 0)
        return r;
    if (!move)
        return add(work, path, value);
    if (str_starts(path, from) && path.len > from.len && path.p[from.len] == '/')
        return err_set(work->err, -EINVAL, "JSON patch: cannot move \"" STR_FMT "\" into itself",
                       STR_ARG(from));
    r = check_growth(work, path, value, false);
    if (r == 0)
        r = drop(work, from);
    return r < 0 ? r : place(work, path, value);
}

static int apply(struct work *work, const struct json *operation)
{
    struct str op = json_str(json_get(operation, "op"));
    const struct json *path = json_get(operation, "path");
    const struct json *value = json_get(operation, "value");
    struct str at = json_str(path);
    struct json *found = NULL;

    if (!json_is(path, JSON_STRING))
        return err_set(work->err, -EINVAL, "JSON patch: an operation needs \"path\"");
    if (str_is(op, "remove"))
        return drop(work, at);
    if (str_is(op, "move") || str_is(op, "copy"))
        return copy_or_move(work, operation, at, str_is(op, "move"));
    if (!str_is(op, "add") && !str_is(op, "replace") && !str_is(op, "test"))
        return err_set(work->err, -EINVAL,
                       "JSON patch: op must be add, remove, replace, move, copy or test");
    if (!value)
        return err_set(work->err, -EINVAL,
                       "JSON patch: " STR_FMT " of \"" STR_FMT "\" needs \"value\"", STR_ARG(op),
                       STR_ARG(at));
    if (str_is(op, "add"))
        return add(work, at, value);
    if (str_is(op, "replace"))
        return replace(work, at, value);
    int r = look_up(work, at, &found);
    if (r < 0)
        return r;
    return json_equal(found, value)
               ? 0
               : err_set(work->err, -EILSEQ,
                         "JSON patch: testing path \"" STR_FMT "\" value failed", STR_ARG(at));
}

int patch_json(struct arena *arena,
               struct json *target,
               const struct json *operations,
               struct json **ret,
               struct err *err)
{
    struct work work = {.arena = arena, .root = target, .err = err};

    if (!json_is(operations, JSON_ARRAY))
        return err_set(err, -EINVAL, "JSON patch: must be a list of operations");
    if (json_count(operations) > PATCH_OPERATIONS_MAX)
        return err_set(err, -E2BIG, "JSON patch: at most %d operations", PATCH_OPERATIONS_MAX);
    JSON_FOREACH(operations, operation) {
        int r = apply(&work, operation);

        if (r < 0)
            return r;
    }
    *ret = work.root;
    return 0;
}
