#include "api/group.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_PREFIX "podgroup-"
#define NAME_LEN     (GROUP_NAME_BYTES - 1) /* of an object's name, at most */
#define HASH_BYTES   9                      /* "-" and eight digits, of a name that is too long */
#define HASH_SEED    17

struct str group_name_make(struct arena *arena, struct str name, struct str uid)
{
    size_t rest = strlen("pg--") + uid.len;
    size_t room = NAME_LEN > rest ? NAME_LEN - rest : 0;
    char hash[HASH_BYTES + 1] = "";

    if (name.len > room && room > HASH_BYTES) {
        (void)snprintf(hash, sizeof(hash), "-%08x", (unsigned)str_hash(name, HASH_SEED));
        name = str_sub(name, 0, room - HASH_BYTES);
        while (name.len && (name.p[name.len - 1] == '.' || name.p[name.len - 1] == '-'))
            name.len--;
    }
    return str_printf(arena, "pg-" STR_FMT "%s-" STR_FMT, STR_ARG(name), hash, STR_ARG(uid));
}

struct str group_named_by(const struct json *pod)
{
    const struct json *notes = json_at(pod, "metadata.annotations");

    return str_is(json_str(json_get(notes, GROUP_IGNORE_WORKLOAD)), "true")
               ? STR_NONE
               : json_str_at(pod, "spec.schedulingGroup.podGroupName");
}

struct str group_for_named(struct str named, char out[static GROUP_NAME_BYTES])
{
    size_t room = NAME_LEN - (sizeof(NAMED_PREFIX) - 1);
    struct str head = named;
    char hash[HASH_BYTES + 1] = "";

    if (named.len > room) {
        head.len = room - HASH_BYTES;
        while (head.len && (head.p[head.len - 1] == '.' || head.p[head.len - 1] == '-'))
            head.len--;
        (void)snprintf(hash, sizeof(hash), "-%08x",
                       (unsigned)(str_hash(named, HASH_SEED) & UINT32_MAX));
    }
    int len = snprintf(out, GROUP_NAME_BYTES, NAMED_PREFIX STR_FMT "%s", STR_ARG(head), hash);
    return (struct str){out, (size_t)len};
}

struct str group_of_pod(const struct json *pod, char out[static GROUP_NAME_BYTES])
{
    struct str told = json_str(json_get(json_at(pod, "metadata.annotations"), GROUP_ANNOTATION));
    struct str named = told.len ? STR_NONE : group_named_by(pod);

    return named.len ? group_for_named(named, out) : told;
}

bool group_is_parent(const struct json *subgroups, struct str name)
{
    JSON_FOREACH(subgroups, each)
        if (str_eq(json_str(json_get(each, "parent")), name))
            return true;
    return false;
}

static int size_compare(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* A subgroup, or at the top the group itself. */
struct part {
    const struct json *source;
    struct part *below; /* the first of those below it */
    struct part *next;  /* of those beside it */
};

/* What must start at least of what is below: all of it, or the smallest of as many as are asked for. */
// NOLINTNEXTLINE(misc-no-recursion)
static int64_t minimum_below(struct arena *arena, const struct part *part, size_t depth)
{
    const struct json *few = json_get(part->source, "minSubGroup");
    VEC(int64_t) sizes = {0};
    int64_t sum = 0;

    for (const struct part *each = part->below; each; each = each->next)
        VEC_PUSH(arena, &sizes,
                 depth && each->below ? minimum_below(arena, each, depth - 1)
                                      : json_i64_or(json_get(each->source, "minMember"), 1));
    int64_t count = json_is_null(few) ? -1 : json_i64_or(few, -1);
    if (count < 0 || (size_t)count > sizes.count)
        count = (int64_t)sizes.count;
    if (sizes.count)
        qsort(sizes.items, sizes.count, sizeof(sizes.items[0]), size_compare);
    for (int64_t i = 0; i < count; i++)
        sum += sizes.items[i];
    return sum;
}

int64_t group_minimum(const struct json *spec)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *subgroups = json_get(spec, "subGroups");
    struct part *parts = ARENA_ARRAY(&arena, struct part, json_count(subgroups) + 1);
    /* Where they lie is nothing a peer can know. */
    _cleanup_(map_done) struct map named = {.seed = (uintptr_t)parts};
    size_t count = 0;

    if (!json_count(subgroups))
        return json_i64_or(json_get(spec, "minMember"), 1);
    parts[count++].source = spec;
    JSON_FOREACH(subgroups, each) {
        parts[count].source = each;
        map_set(&named, json_str(json_get(each, "name")), &parts[count++]);
    }
    map_set(&named, STR(""), &parts[0]);
    for (size_t i = 1; i < count; i++) {
        struct part *up = map_get(&named, json_str(json_get(parts[i].source, "parent")));

        if (!up)
            continue;
        parts[i].next = up->below;
        up->below = &parts[i];
    }
    int64_t all = minimum_below(&arena, &parts[0], GROUP_DEPTH_MAX);
    return all > 0 ? all : 1; /* a circle has nothing at its top */
}
