#include "control/builtin/revision.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static int64_t number_of(const struct workload *w, const struct object *revision)
{
    return json_i64_or(json_get(object_json(revision, w->arena), "revision"), 0);
}

static int name_compare(const void *a, const void *b)
{
    return str_cmp(json_key(*(const struct json *const *)a),
                   json_key(*(const struct json *const *)b));
}

/* Members by name, without those that are null. */
static struct json *ordered(struct arena *arena, const struct json *value)
{
    struct json *copy = NULL;

    if (json_is(value, JSON_ARRAY)) {
        copy = json_new_array(arena);
        JSON_FOREACH(value, item)
            json_push(copy, ordered(arena, item));
        return copy;
    }
    if (!json_is(value, JSON_OBJECT))
        return json_clone(arena, value);
    const struct json **members = ARENA_ARRAY(arena, const struct json *, json_count(value) + 1);
    size_t count = 0;
    JSON_FOREACH(value, member)
        if (!json_is_null(member))
            members[count++] = member;
    qsort(members, count, sizeof(*members), name_compare);
    copy = json_new_object(arena);
    for (size_t i = 0; i < count; i++)
        json_append(copy, str_dup(arena, json_key(members[i])), ordered(arena, members[i]));
    return copy;
}

/* The template as Kubernetes' own controllers write it: its tools compare the bytes of a revision
 * with those that they make of the template. Go writes members by name, and these two always. */
static struct json *template_plain(struct arena *arena, const struct json *template)
{
    static const char *const lists[] = {"containers", "initContainers"};
    struct json *plain = json_clone(arena, template);
    struct json *meta = json_make_path(arena, plain, "metadata");

    json_remove(plain, STR("$patch"));
    json_remove(meta, STR("creationTimestamp"));
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(json_get(plain, "spec"), lists[i]), container)
            if (json_is_null(json_get(container, "resources")))
                json_set(container, STR("resources"), json_new_object(arena));
    return ordered(arena, plain);
}

static struct json *template_patch(struct arena *arena, const struct json *plain)
{
    struct json *patch = json_new_object(arena);
    struct json *meta = json_new_object(arena);

    json_add_c(arena, patch, "$patch", "replace");
    JSON_FOREACH(json_get(plain, "metadata"), member) {
        if (!json_get(meta, "creationTimestamp") &&
            str_cmp(json_key(member), STR("creationTimestamp")) > 0)
            json_set(meta, STR("creationTimestamp"), json_new_null(arena));
        json_set(meta, json_key(member), json_clone(arena, member));
    }
    if (!json_get(meta, "creationTimestamp"))
        json_set(meta, STR("creationTimestamp"), json_new_null(arena));
    json_set(patch, STR("metadata"), meta);
    JSON_FOREACH(plain, member)
        if (!str_is(json_key(member), "metadata"))
            json_set(patch, json_key(member), json_clone(arena, member));
    return patch;
}

static struct json *template_of(const struct workload *w, const struct object *revision)
{
    struct json *template = json_at(object_json(revision, w->arena), "data.spec.template");

    json_remove(template, STR("$patch"));
    return template;
}

static void revision_make(struct workload *w, const struct revisions *revisions, int64_t number)
{
    struct arena *arena = w->arena;
    struct json *body = owner_make(arena, w->owner, &kind_controllerrevision, revisions->name);
    const struct json *labels = json_at(w->spec, "template.metadata.labels");
    struct json *meta = json_get(body, "metadata");

    json_set(meta, STR("labels"), labels ? json_clone(arena, labels) : json_new_object(arena));
    json_add_str(arena, json_get(meta, "labels"),
                 w->owner->kind == &kind_statefulset ? "controller.kubernetes.io/hash"
                                                     : REVISION_LABEL,
                 revisions->hash);
    struct str cause = object_annotation(w->owner, "kubernetes.io/change-cause");
    if (cause.len)
        json_add_str(arena, json_add_object(arena, meta, "annotations"),
                     "kubernetes.io/change-cause", str_dup(arena, cause));
    json_set(json_make_path(arena, body, "data.spec"), STR("template"),
             template_patch(arena, template_plain(arena, json_get(w->spec, "template"))));
    json_add_i64(arena, body, "revision", number);
    action_create(w->actions, &kind_controllerrevision, body);
}

void revisions_open(struct workload *w, struct revisions *ret)
{
    const struct json *template = json_get(w->spec, "template");
    const struct json *plain = template_plain(w->arena, template);
    const struct object *present = NULL;
    struct str text = json_text(w->arena, template);
    int64_t most = 0;

    *ret = (struct revisions){.list = workload_objects(w, &kind_controllerrevision)};
    for (size_t i = 0; i < ret->list.count; i++) {
        const struct object *revision = ret->list.items[i];

        if (!present && json_equal(template_plain(w->arena, template_of(w, revision)), plain))
            present = revision;
        else if (number_of(w, revision) > most)
            most = number_of(w, revision);
    }
    if (present) {
        ret->name = present->name;
        ret->hash = str_sub(present->name, w->owner->name.len + 1, SIZE_MAX);
        if (number_of(w, present) > most)
            return;
        struct json *patch = json_new_object(w->arena);
        json_add_i64(w->arena, patch, "revision", most + 1);
        action_patch(w->actions, present, patch);
        return;
    }
    /* A name that somebody else's has is passed over. */
    for (int64_t i = 0;; i++) {
        ret->hash = workload_hash(
            w->arena, i ? str_printf(w->arena, "%lld" STR_FMT, (long long)i, STR_ARG(text)) : text);
        ret->name =
            str_printf(w->arena, STR_FMT "-" STR_FMT, STR_ARG(w->owner->name), STR_ARG(ret->hash));
        if (!cache_get(w->input->cache, &kind_controllerrevision, w->owner->ns, ret->name))
            break;
    }
    revision_make(w, ret, most + 1);
}

const struct json *revision_template(struct workload *w,
                                     const struct revisions *revisions,
                                     struct str name)
{
    for (size_t i = 0; i < revisions->list.count; i++)
        if (str_eq(revisions->list.items[i]->name, name))
            return template_of(w, revisions->list.items[i]);
    return json_get(w->spec, "template");
}

void revisions_trim(struct workload *w,
                    const struct revisions *revisions,
                    bool (*used)(const void *user, const struct object *revision),
                    const void *user)
{
    int64_t keep = json_i64_or(json_get(w->spec, "revisionHistoryLimit"), 10);
    struct workload_objects idle = {0};

    for (size_t i = 0; i < revisions->list.count; i++) {
        const struct object *revision = revisions->list.items[i];

        if (!str_eq(revision->name, revisions->name) && !used(user, revision))
            VEC_PUSH(w->arena, &idle, revision);
    }
    for (int64_t extra = (int64_t)idle.count - keep; extra > 0 && idle.count; extra--) {
        size_t lowest = 0;

        for (size_t i = 1; i < idle.count; i++)
            if (number_of(w, idle.items[i]) < number_of(w, idle.items[lowest]))
                lowest = i;
        action_delete(w->actions, idle.items[lowest]);
        VEC_REMOVE_SWAP(&idle, lowest);
    }
}
