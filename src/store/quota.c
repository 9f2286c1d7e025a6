#include "store/quota.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/quota.h"
#include "api/ranges.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/sums.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>

/* ResourceQuotas hold what a namespace may take: a write that would take more is refused. Counted
 * from the staged state, so two writes of one turn cannot both have the last bit. */

/* What the others of the namespace take; the object that is written is left out. */
static __int128 taken_by_others(const struct write *write,
                                const struct object *quota,
                                const struct json *spec,
                                struct str resource)
{
    const struct entry *entry =
        write->name.len ? shelf_find(write->shelf, write->ns, write->name) : NULL;

    return sums_taken(write->store, write->shelf, quota, spec, resource) -
           sums_of(write->shelf, spec, resource, entry_latest(entry));
}

static void add_amount(struct write *write,
                       struct buf *buf,
                       struct str resource,
                       struct quantity amount)
{
    struct str text = quantity_text(write->arena, amount);

    buf_addf(buf, "%s" STR_FMT "=" STR_FMT, buf->len ? "," : "", STR_ARG(resource), STR_ARG(text));
}

static struct str check_quota(struct write *write,
                              const struct admit *admit,
                              const struct object *quota)
{
    const struct json *spec = json_get(object_json(quota, write->arena), "spec");
    const struct kind *kind = write->shelf->kind;
    _cleanup_(buf_done) struct buf requested = {0};
    _cleanup_(buf_done) struct buf used = {0};
    _cleanup_(buf_done) struct buf limited = {0};

    if (!quota_covers(spec, kind, admit->object))
        return STR_NONE;
    JSON_FOREACH(json_get(spec, "hard"), hard) {
        struct str resource = json_key(hard);
        struct quantity limit = {0};

        if (!quota_concerns(resource, kind) || quantity_parse_json(hard, &limit, NULL) < 0)
            continue;
        struct str silent =
            kind == &kind_pod && !admit->old ? quota_silent(resource, admit->object) : STR_NONE;
        if (silent.p)
            return str_printf(write->arena,
                              "failed quota: " STR_FMT ": must specify " STR_FMT " for: " STR_FMT,
                              STR_ARG(quota->name), STR_ARG(resource), STR_ARG(silent));
        __int128 takes = quota_taken(resource, kind, admit->object);
        __int128 took = admit->old ? quota_taken(resource, kind, admit->old) : 0;
        if (takes <= took)
            continue;
        __int128 others = taken_by_others(write, quota, spec, resource);
        if (others + takes <= limit.nano)
            continue;
        add_amount(write, &requested, resource, (struct quantity){takes - took, limit.format});
        add_amount(write, &used, resource, (struct quantity){others + took, limit.format});
        add_amount(write, &limited, resource, limit);
    }
    if (!limited.len)
        return STR_NONE;
    return str_printf(write->arena,
                      "exceeded quota: " STR_FMT ", requested: " STR_FMT ", used: " STR_FMT
                      ", limited: " STR_FMT,
                      STR_ARG(quota->name), STR_ARG(buf_str(&requested)), STR_ARG(buf_str(&used)),
                      STR_ARG(buf_str(&limited)));
}

/* ---- LimitRanges ---- */

/* The spec of each LimitRange of the namespace in turn; NULL: there are no more. */
static const struct json *next_range(const struct write *write, size_t *at)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_limitrange);

    for (; *at < shelf->entries.count; (*at)++) {
        const struct entry *entry = shelf->entries.items[*at];

        if (!str_eq(entry->ns, write->ns))
            return NULL;
        if (!entry_latest(entry))
            continue;
        (*at)++;
        return json_get(object_json(entry_latest(entry), write->arena), "spec");
    }
    return NULL;
}

void quota_fill(struct write *write, struct json *pod)
{
    size_t at = shelf_lower(shelf_of(write->store, &kind_limitrange), write->ns, STR(""));
    const struct json *spec;

    while ((spec = next_range(write, &at)))
        ranges_fill(write->arena, spec, pod);
}

static struct str check_ranges(struct write *write, const struct admit *admit)
{
    size_t at = shelf_lower(shelf_of(write->store, &kind_limitrange), write->ns, STR(""));
    _cleanup_(buf_done) struct buf problems = {0};
    const struct json *spec;

    while ((spec = next_range(write, &at)))
        ranges_check(write->arena, spec, write->kind, admit->object, &problems);
    return problems.len ? str_printf(write->arena, "[" STR_FMT "]", STR_ARG(buf_str(&problems)))
                        : STR_NONE;
}

struct str quota_refusal(struct write *write, const struct admit *admit)
{
    const struct shelf *shelf = shelf_of(write->store, &kind_resourcequota);
    struct str words = STR_NONE;

    if (!write->kind->namespaced || write->subresource.len)
        return STR_NONE;
    if (!admit->old)
        words = check_ranges(write, admit);
    for (size_t at = shelf_lower(shelf, write->ns, STR(""));
         !words.len && at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];
        const struct object *quota = entry_latest(entry);

        if (!str_eq(entry->ns, write->ns))
            break;
        if (quota)
            words = check_quota(write, admit, quota);
    }
    return words;
}
