#include "api/apply.h"

#include "api/apply_set.h"
#include "api/kind.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>

#define FIRST_MANAGER  "before-first-apply"
#define LAST_APPLIED   "kubectl.kubernetes.io/last-applied-configuration"
#define OPERATION_MINE "Apply"
#define OWN_MANAGER    "muster" /* our controllers say no name */

static struct fields fields_for(const struct apply *apply)
{
    return (struct fields){.arena = apply->arena,
                           .bytes_end = apply->arena->bytes_used + APPLY_BYTES_MAX};
}

static struct fields_at root_of(const struct apply *apply)
{
    return (struct fields_at){
        .place = type_place_root(apply->kind), .schema = apply->schema, .root = true};
}

static struct json *new_entry(const struct apply *apply,
                              struct str manager,
                              const char *operation,
                              struct json *set)
{
    struct arena *arena = apply->arena;
    struct json *entry = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, entry,
              "{manager: $, operation: $, apiVersion: $, time: $, "
              "fieldsType: 'FieldsV1', fieldsV1: $}",
              manager, operation, str_dup(arena, kind_api_version(apply->kind, version)),
              time_text(arena, apply->now_ms), set ? set : json_new_object(arena));
    if (apply->subresource.len)
        json_add_str(arena, entry, "subresource", apply->subresource);
    return entry;
}

/* The set of an entry; NULL when it is empty (which FieldsV1 writes as {}). */
static const struct json *set_of(const struct json *entry)
{
    const struct json *set = json_get(entry, "fieldsV1");

    return json_count(set) ? set : NULL;
}

static bool is_mine(const struct apply *apply, const struct json *entry, const char *operation)
{
    struct str manager = apply->manager.len ? apply->manager : STR(OWN_MANAGER);

    return str_eq(json_str(json_get(entry, "manager")), manager) &&
           str_is(json_str(json_get(entry, "operation")), operation) &&
           str_eq(json_str(json_get(entry, "subresource")), apply->subresource);
}

struct json *apply_first(struct apply *apply, const struct json *config)
{
    struct fields f = fields_for(apply);
    struct json *list = json_new_array(apply->arena);

    json_push(list, new_entry(apply, apply->manager, OPERATION_MINE,
                              fields_of(&f, config, root_of(apply))));
    apply->too_large = f.too_large;
    return f.too_large ? NULL : list;
}

struct json *apply_created(struct apply *apply, const struct json *object)
{
    struct fields f = fields_for(apply);
    struct json *list = json_new_array(apply->arena);
    const struct type *type = type_place_root(apply->kind).type;

    f.whole = true;
    struct json *set = fields_changed(&f, object, type_empty(apply->arena, type), root_of(apply));
    if (set)
        json_push(list, new_entry(apply, apply->manager, "Update", set));
    apply->too_large = f.too_large;
    return f.too_large ? NULL : list;
}

/* What kubectl's own client-side apply wrote down, as a set of fields; NULL: nothing. */
static struct json *last_applied(const struct apply *apply,
                                 struct fields *f,
                                 const struct json *live)
{
    struct str last = json_str(json_get(json_at(live, "metadata.annotations"), LAST_APPLIED));
    struct json *config = NULL;

    if (!last.len || json_parse(apply->arena, last, &config, NULL) < 0)
        return NULL;
    return fields_of(f, config, root_of(apply));
}

/* What nobody applied belongs to nobody in particular, except what kubectl's own client-side apply
 * wrote down: that is the applier's already. */
static struct json *first_entries(const struct apply *apply,
                                  struct fields *f,
                                  const struct json *live)
{
    struct json *list = json_new_array(apply->arena);
    struct json *set =
        fields_minus(f, fields_of(f, live, root_of(apply)), last_applied(apply, f, live));

    if (set)
        json_push(list, new_entry(apply, STR(FIRST_MANAGER), "Update", set));
    return list;
}

struct conflicting {
    struct apply *apply;
    struct str manager;
};

static bool add_conflict(void *user, struct str field)
{
    struct conflicting *conflicting = user;
    struct apply *apply = conflicting->apply;

    if (apply->conflicts.count == APPLY_CONFLICTS_MAX)
        return false;
    VEC_PUSH(apply->arena, &apply->conflicts,
             (struct apply_conflict){.manager = conflicting->manager, .field = field});
    return true;
}

/* Others own some of `changed`: a conflict, or theirs no longer. Returns the entries of the others
 * as they are afterwards. */
static struct json *settle_others(struct apply *apply,
                                  struct fields *f,
                                  const struct json *entries,
                                  const struct json *changed,
                                  const struct json *allowed)
{
    struct json *list = json_new_array(apply->arena);

    JSON_FOREACH(entries, entry) {
        struct json *kept = json_clone(apply->arena, entry);

        if (is_mine(apply, entry, OPERATION_MINE))
            continue;
        const struct json *clash = fields_both(f, set_of(entry), changed);
        struct conflicting conflicting = {.apply = apply,
                                          .manager = json_str(json_get(entry, "manager"))};
        const struct json *dispute = fields_minus(f, clash, allowed);
        /* One's own updates are no conflict; what one applied elsewhere, a scale, is. */
        bool own = str_eq(conflicting.manager, apply->manager) &&
                   str_is(json_str(json_get(entry, "operation")), "Update");
        if (dispute && !apply->force && !own)
            (void)fields_each(apply->arena, dispute, STR(""), add_conflict, &conflicting);
        if (clash) {
            struct json *left = fields_minus(f, set_of(entry), clash);

            if (!left)
                continue;
            json_set(kept, STR("fieldsV1"), left);
        }
        json_push(list, kept);
    }
    return list;
}

static struct json *merge(struct apply *apply,
                          struct fields *f,
                          struct json *live,
                          const struct json *config)
{
    const struct json *entries = json_at(live, "metadata.managedFields");
    struct json *set = fields_of(f, config, root_of(apply));
    const struct json *changed = fields_changed(f, config, live, root_of(apply));
    const struct json *mine = NULL;

    if (!json_count(entries))
        entries = first_entries(apply, f, live);
    JSON_FOREACH(entries, entry)
        if (is_mine(apply, entry, OPERATION_MINE))
            mine = set_of(entry);
    /* Who comes from kubectl's client-side apply owns what he applied that way. */
    struct json *allowed = str_is(apply->manager, "kubectl") ? last_applied(apply, f, live) : NULL;
    struct json *list = settle_others(apply, f, entries, changed, allowed);
    if (f->too_large || apply->conflicts.count)
        return NULL;

    /* What I said before and no longer say goes, unless somebody else says it. */
    struct json *gone = fields_minus(f, mine, set);
    JSON_FOREACH(list, entry)
        if (gone)
            gone = fields_minus(f, gone, set_of(entry));
    if (gone)
        fields_remove(f, live, gone, root_of(apply));
    live = fields_merge(f, live, config, root_of(apply));
    json_push(list, new_entry(apply, apply->manager, OPERATION_MINE, set));
    json_set(json_make_path(apply->arena, live, "metadata"), STR("managedFields"), list);
    return live;
}

struct json *apply_merge(struct apply *apply, struct json *live, const struct json *config)
{
    struct fields f = fields_for(apply);
    struct json *merged = merge(apply, &f, live, config);

    apply->too_large = f.too_large;
    return f.too_large ? NULL : merged;
}

/* The entries as they are afterwards. */
static struct json *track(struct apply *apply,
                          struct fields *f,
                          const struct json *entries,
                          const struct json *before,
                          const struct json *after)
{
    f->whole = true;
    struct json *changed = fields_changed(f, after, before, root_of(apply));
    const struct json *there = fields_of(f, after, root_of(apply));
    struct json *list = json_new_array(apply->arena);
    struct json *mine = NULL;

    JSON_FOREACH(entries, entry) {
        /* Fields that are gone are nobody's; those that changed are the writer's. */
        struct json *left = fields_both(f, set_of(entry), there);

        /* Who changes nothing keeps the time of the last change. */
        if (changed && is_mine(apply, entry, "Update")) {
            mine = left;
            continue;
        }
        left = fields_minus(f, left, changed);
        if (!left)
            continue;
        struct json *kept = json_push(list, json_clone(apply->arena, entry));
        json_set(kept, STR("fieldsV1"), left);
    }
    if (changed)
        json_push(list, new_entry(apply, apply->manager.len ? apply->manager : STR(OWN_MANAGER),
                                  "Update", fields_union(f, mine, changed)));
    return list;
}

struct json *apply_track(struct apply *apply, const struct json *before, const struct json *after)
{
    struct fields f = fields_for(apply);
    const struct json *entries = json_at(before, "metadata.managedFields");

    if (!json_count(entries))
        return NULL;
    struct json *list = track(apply, &f, entries, before, after);
    apply->too_large = f.too_large;
    return f.too_large ? NULL : list;
}
