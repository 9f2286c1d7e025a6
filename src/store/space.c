#include "store/space.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct space {
    size_t bytes;
    struct str ns;
    char text[];
};

static size_t shelf_bytes(const struct shelf *shelf, struct str ns)
{
    size_t bytes = 0;

    for (size_t at = shelf_lower(shelf, ns, STR("")); at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];
        const struct object *object = entry_latest(entry);

        if (!str_eq(entry->ns, ns))
            break;
        bytes += object ? object->raw.len : 0;
    }
    return bytes;
}

static struct space *space_of(struct store *store, struct str ns)
{
    struct space *space = map_get(&store->spaces.names, ns);

    if (space)
        return space;
    space = mem_alloc(sizeof(*space) + ns.len);
    memcpy(space->text, ns.p, ns.len);
    space->ns = (struct str){space->text, ns.len};
    space->bytes = 0;
    for (size_t i = 0; i < store->shelves.count; i++)
        space->bytes += shelf_bytes(store->shelves.items[i], ns);
    (void)map_set(&store->spaces.names, space->ns, space);
    return space;
}

/* What the namespace may have. */
static size_t most_of(const struct write *write)
{
    const struct object *ns =
        entry_latest(shelf_find(shelf_of(write->store, &kind_namespace), STR(""), write->ns));
    struct str told = ns ? object_annotation(ns, SPACE_ANNOTATION) : STR_NONE;
    int64_t bytes = 0;

    return told.len && quantity_whole(told, &bytes, NULL) == 0 && bytes >= 0 ? (size_t)bytes
                                                                             : SPACE_BYTES_MAX;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the document, which json_parse() bounds
size_t space_least(const struct json *value)
{
    size_t bytes = 2;

    if (json_is(value, JSON_STRING) || json_is(value, JSON_NUMBER))
        return value->len;
    JSON_FOREACH(json_count(value) ? value : NULL, inside)
        bytes += space_least(inside) + json_key(inside).len + 1;
    return bytes;
}

/* At most `most`, and one more where there are more. */
// NOLINTNEXTLINE(misc-no-recursion): as deep as the document, which json_parse() bounds
static size_t values_of(const struct json *value, const struct json *without, size_t most)
{
    size_t count = 1;

    JSON_FOREACH(json_count(value) && value != without ? value : NULL, inside) {
        if (count > most)
            break;
        count += values_of(inside, without, most - count);
    }
    return count;
}

int space_check_values(struct write *write, const struct json *root)
{
    size_t most = write->kind == &kind_crd ? SPACE_VALUES_CRD_MAX
                  : write->kind->custom    ? SPACE_VALUES_CUSTOM_MAX
                                           : SPACE_VALUES_MAX;

    const struct json *managed = json_at(root, "metadata.managedFields");

    if (!write->user)
        return 0;
    if (values_of(managed, NULL, 2 * most) > 2 * most)
        return reply_fail(write->reply, 413, "RequestEntityTooLarge",
                          "%s \"" STR_FMT
                          "\" is too large: metadata.managedFields has more than %zu values: use "
                          "fewer field managers",
                          write->kind->name, STR_ARG(write->name), 2 * most);
    if (values_of(root, managed, most) <= most)
        return 0;
    return reply_fail(write->reply, 413, "RequestEntityTooLarge",
                      "%s \"" STR_FMT
                      "\" is too large: it has more than %zu values (fields and items "
                      "of lists): make several of it",
                      write->kind->name, STR_ARG(write->name), most);
}

int space_check_size(struct write *write, size_t bytes)
{
    if (bytes <= SPACE_OBJECT_BYTES_MAX)
        return 0;
    return reply_fail(write->reply, 413, "RequestEntityTooLarge",
                      "%s \"" STR_FMT "\" is too large: %zu bytes, at most %zu", write->kind->name,
                      STR_ARG(write->name), bytes, SPACE_OBJECT_BYTES_MAX);
}

int space_check(struct write *write, size_t bytes)
{
    size_t before = write->old ? write->old->raw.len : 0;

    if (!write->kind->namespaced || bytes <= before || (write->old && !write->user))
        return 0;
    size_t most = most_of(write);
    size_t taken = space_of(write->store, write->ns)->bytes;
    if (taken + (bytes - before) <= most)
        return 0;
    return reply_fail(
        write->reply, 403, "Forbidden",
        "%s \"" STR_FMT "\" is forbidden: namespace " STR_FMT
        " is full: its objects have %zu bytes, %zu with this one, at most %zu; delete "
        "some, or let the owner set " SPACE_ANNOTATION " on the Namespace",
        write->kind->plural, STR_ARG(write->name), STR_ARG(write->ns), taken,
        taken + (bytes - before), most);
}

void space_follow(struct store *store, const struct object *before, const struct object *now)
{
    const struct object *either = now ? now : before;
    struct space *space =
        either && either->ns.len ? map_get(&store->spaces.names, either->ns) : NULL;

    if (space)
        space->bytes += (now ? now->raw.len : 0) - (before ? before->raw.len : 0);
}

void space_forget(struct store *store)
{
    MAP_FOREACH(&store->spaces.names, entry)
        mem_free(entry->value);
    map_done(&store->spaces.names);
}
