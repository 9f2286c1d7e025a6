#include "api/group.h"

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SUBGROUPS_MAX  256 /* directly below one; further ones do not count */
#define SUBGROUPS_DEEP 16

#define NAMED_PREFIX "podgroup-"
#define NAME_LEN     (GROUP_NAME_BYTES - 1) /* of an object's name, at most */
#define HASH_BYTES   9                      /* "-" and eight digits, of a name that is too long */
#define HASH_SEED    17

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

/* How many of the subgroups below something must start; -1: all. */
static int64_t few_of(const struct json *owner)
{
    const struct json *few = json_get(owner, "minSubGroup");

    return json_is_null(few) ? -1 : json_i64_or(few, -1);
}

/* What the subgroups below `parent` need at least: all of them, or the smallest `few`. */
static int64_t minimum_below(const struct json *subgroups,
                             struct str parent,
                             int64_t few,
                             size_t depth)
{
    int64_t sizes[SUBGROUPS_MAX];
    int64_t sum = 0;
    size_t count = 0;

    JSON_FOREACH(subgroups, each) {
        struct str name = json_str(json_get(each, "name"));

        if (!str_eq(json_str(json_get(each, "parent")), parent) || count == SUBGROUPS_MAX)
            continue;
        if (depth && group_is_parent(subgroups, name))
            sizes[count] = minimum_below(subgroups, name, few_of(each), depth - 1);
        else
            sizes[count] = json_i64_or(json_get(each, "minMember"), 1);
        count++;
    }
    if (few >= 0 && (size_t)few < count) {
        qsort(sizes, count, sizeof(sizes[0]), size_compare);
        count = (size_t)few;
    }
    for (size_t i = 0; i < count; i++)
        sum += sizes[i];
    return sum;
}

int64_t group_minimum(const struct json *spec)
{
    const struct json *subgroups = json_get(spec, "subGroups");

    if (!json_count(subgroups))
        return json_i64_or(json_get(spec, "minMember"), 1);
    size_t depth = json_count(subgroups) < SUBGROUPS_DEEP ? json_count(subgroups) : SUBGROUPS_DEEP;
    int64_t all = minimum_below(subgroups, STR(""), few_of(spec), depth);
    return all > 0 ? all : 1; /* a circle has nothing at its top */
}
