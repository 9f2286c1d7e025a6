#include "store/collect.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/batch.h"
#include "store/custom.h"
#include "store/edit.h"
#include "store/host.h"
#include "store/remaining.h"
#include "store/shelf.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What follows from a deletion: dependents go, or are set free, or are waited for; namespaces are
 * emptied. Driven by committed changes; decided on the newest state; carried out as ordinary
 * writes, so nothing here is special to a watcher.
 *
 * A uid that is due is looked at in both roles: as a dependent whose owners may be gone, and as an
 * owner that waits for its dependents. Looking too often is harmless. */

#define COLLECT_PER_TURN 256

#define FINALIZER_FOREGROUND STR("foregroundDeletion")
/* CronJob, Job, Pod and what a pod owns are four; an object has one owner, seldom two. */
#define OWNERS_DEPTH_MAX 8
#define FINALIZER_ORPHAN STR("orphan")

/* Names of objects whose dependents, owners or contents must be looked at. */
struct due {
    struct due *next;
    char text[];
};

static void due_push(struct store *store, struct str uid)
{
    if (!uid.len)
        return;
    struct due *due = mem_alloc(sizeof(*due) + uid.len + 1);
    memcpy(due->text, uid.p, uid.len);
    if (store->collect_last)
        store->collect_last->next = due;
    else
        store->collect_first = due;
    store->collect_last = due;
}

static bool owned_by(const struct object *object, struct str uid)
{
    for (size_t i = 0; object && i < object->owner_count; i++)
        if (str_eq(object->owners[i].uid, uid))
            return true;
    return false;
}

/* An instance is gone: its definition may wait for that. */
static void look_at_crd(struct store *store, const struct kind *kind)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = str_printf(&arena, "%s.%s", kind->plural, kind->group);
    const struct entry *entry = shelf_find(shelf_of(store, &kind_crd), STR(""), name);

    if (entry && entry->committed && entry->committed->deleted_ms)
        due_push(store, entry->committed->uid);
}

void collect_committed(struct store *store,
                       const struct change *change,
                       const struct object *previous)
{
    const struct object *object = change->object;
    const struct kind *kind = change->entry->shelf->kind;

    if (change->event == API_DELETED) {
        const struct owned *owned = map_get(&store->owned, object->uid);

        for (size_t i = 0; owned && i < owned->entries.count; i++)
            if (owned->entries.items[i]->committed)
                due_push(store, owned->entries.items[i]->committed->uid);
        for (size_t i = 0; i < object->owner_count; i++)
            due_push(store, object->owners[i].uid);
    } else {
        if (object->deleted_ms || (object->owner_count && (!previous || store->collect_refused)))
            due_push(store, object->uid);
        /* It let go of an owner, which may have waited for that. */
        for (size_t i = 0; previous && i < previous->owner_count; i++)
            if (!owned_by(object, previous->owners[i].uid))
                due_push(store, previous->owners[i].uid);
    }
    /* What a policy refused may go now: everything is looked at anew. */
    if (store->collect_refused &&
        (kind == &kind_admissionpolicy || kind == &kind_admissionbinding)) {
        store->collect_refused = false;
        collect_all(store);
    }
    if (kind == &kind_crd && change->event == API_DELETED)
        custom_unregister(store, object);
    else if (kind == &kind_crd)
        custom_register(store, object);
    if (kind->custom && change->event == API_DELETED)
        look_at_crd(store, kind);
    if (kind == &kind_namespace && object->deleted_ms && change->event != API_DELETED)
        map_set(&store->terminating, change->entry->name, change->entry);
    if (kind == &kind_namespace && change->event == API_DELETED)
        map_remove(&store->terminating, change->entry->name);
    if (store->terminating.count &&
        (kind == &kind_namespace || map_get(&store->terminating, object->ns)))
        store->terminating_due = true;
}

/* ---- writes ---- */
static void drop_finalizer(struct json *root, const void *what)
{
    json_drop_items(json_at(root, "metadata.finalizers"), NULL, *(const struct str *)what);
}

static void drop_spec_finalizers(struct json *root, const void *what)
{
    (void)what;
    json_remove(json_get(root, "spec"), STR("finalizers"));
}

/* ---- owners ---- */
/* What has a namespace owns nothing in another one: who may write there cannot make it wait. */
static bool is_owner_in(const struct object *owner, struct str ns)
{
    return !owner->ns.len || !ns.len || str_eq(owner->ns, ns);
}

static bool uid_lives(const struct store *store, struct str uid, struct str ns)
{
    const struct entry *entry = map_get(&store->by_uid, uid);
    const struct object *latest = entry_latest(entry);

    return latest && str_eq(latest->uid, uid) && is_owner_in(latest, ns);
}

/* An owner of a kind that is not served here cannot be looked up: it counts as there. `ns` is that
 * of the dependent. */
static bool owner_lives(const struct store *store, const struct object_owner *owner, struct str ns)
{
    return !kinds_by_name(store->api.kinds, owner->api_version, owner->kind) ||
           uid_lives(store, owner->uid, ns);
}

struct dependent {
    const struct store *store;
    struct str ns;
};

static bool is_living_owner(const struct json *item, const void *user)
{
    const struct dependent *dependent = user;
    struct object_owner owner = {.api_version = json_str(json_get(item, "apiVersion")),
                                 .kind = json_str(json_get(item, "kind")),
                                 .uid = json_str(json_get(item, "uid"))};

    return owner_lives(dependent->store, &owner, dependent->ns);
}

/* Owner references to `uids`-less owners go; what is asked is whether each one lives. */
static void drop_dead_owners(struct json *root, const void *what)
{
    json_filter(json_at(root, "metadata.ownerReferences"), is_living_owner,
                &(struct dependent){what, json_str_at(root, "metadata.namespace")});
}

static void look_as_dependent(struct store *store, const struct entry *entry)
{
    const struct object *object = entry_latest(entry);
    size_t dead = 0;

    if (!object || object->deleted_ms)
        return;
    for (size_t i = 0; i < object->owner_count; i++)
        dead += owner_lives(store, &object->owners[i], object->ns) ? 0 : 1;
    if (dead && dead == object->owner_count)
        collect_delete(store, entry, STR("Background"));
    else if (dead)
        collect_edit(store, entry, drop_dead_owners, store);
}

static void drop_owner(struct json *root, const void *what)
{
    json_drop_items(json_at(root, "metadata.ownerReferences"), "uid", *(const struct str *)what);
}

static bool has_finalizer(const struct json *root, struct str name)
{
    JSON_FOREACH(json_at(root, "metadata.finalizers"), item)
        if (str_eq(json_str(item), name))
            return true;
    return false;
}

static bool owner_blocks(struct arena *arena, const struct object *object, struct str uid)
{
    JSON_FOREACH(json_at(object_json(object, arena), "metadata.ownerReferences"), item)
        if (str_eq(json_str(json_get(item, "uid")), uid))
            return json_bool_or(json_get(item, "blockOwnerDeletion"), false);
    return false;
}

/* An owner besides `uid` that stays. */
static bool owned_elsewhere(const struct store *store, const struct object *object, struct str uid)
{
    for (size_t i = 0; object && i < object->owner_count; i++) {
        const struct object_owner *owner = &object->owners[i];
        const struct object *other = entry_latest(map_get(&store->by_uid, owner->uid));

        if (!str_eq(owner->uid, uid) && owner_lives(store, owner, object->ns) &&
            !(other && other->deleted_ms))
            return true;
    }
    return false;
}

/* Whether `uid` owns the object through others. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool owner_above(const struct store *store,
                        const struct object *object,
                        struct str uid,
                        unsigned depth)
{
    for (size_t i = 0; object && depth && i < object->owner_count; i++) {
        struct str above = object->owners[i].uid;

        if (str_eq(above, uid) ||
            owner_above(store, entry_latest(map_get(&store->by_uid, above)), uid, depth - 1))
            return true;
    }
    return false;
}

/* An owner with the foreground finalizer goes after its dependents; with orphan it lets them go.
 * Objects that own one another in a circle would wait for ever: they do not block each other. */
static void look_as_owner(struct store *store, const struct entry *entry)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object = entry_latest(entry);

    if (!object || !object->deleted_ms)
        return;
    arena_defer(&arena, object_release, object_ref(object));
    const struct json *root = object_json(object, &arena);
    bool foreground = has_finalizer(root, FINALIZER_FOREGROUND);
    bool orphan = has_finalizer(root, FINALIZER_ORPHAN);
    if (!foreground && !orphan)
        return;
    const struct owned *owned = map_get(&store->owned, object->uid);
    size_t waiting = 0;
    for (size_t i = 0; owned && i < owned->entries.count; i++) {
        const struct entry *dependent = owned->entries.items[i];
        const struct object *latest = entry_latest(dependent);

        if (!is_owner_in(object, dependent->ns))
            continue;
        bool let_go = orphan || owned_elsewhere(store, latest, object->uid);
        if (let_go && owned_by(latest, object->uid))
            collect_edit(store, dependent, drop_owner, &object->uid);
        else if (foreground && latest && !latest->deleted_ms)
            collect_delete(store, dependent, STR("Foreground"));
        /* What is staged is not gone yet: its commit brings us here again. */
        bool circle = owner_above(store, object, dependent->committed->uid, OWNERS_DEPTH_MAX);
        bool blocks = !circle && owner_blocks(&arena, dependent->committed, object->uid);
        waiting += orphan || blocks ? 1 : 0;
    }
    if (waiting)
        return;
    struct str name = foreground ? FINALIZER_FOREGROUND : FINALIZER_ORPHAN;
    collect_edit(store, entry, drop_finalizer, &name);
}

/* ---- namespaces ---- */
/* Each is deleted; how many entries there are. What waits for a grace period or a finalizer is told.
 */
static size_t empty_shelf(struct store *store,
                          const struct shelf *shelf,
                          struct str ns,
                          struct remaining *remaining)
{
    size_t before = remaining->objects;
    size_t left = 0;

    for (size_t at = shelf_lower(shelf, ns, STR("")); at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];
        const struct object *latest = entry_latest(entry);

        if (!str_eq(entry->ns, ns))
            break;
        left++;
        if (latest && !latest->deleted_ms)
            collect_delete(store, entry, STR("Background"));
        if (entry_latest(entry))
            remaining_object(remaining, entry_latest(entry));
    }
    remaining_kind(remaining, shelf->kind, remaining->objects - before);
    return left;
}

static void tell_remaining(struct json *root, const void *what)
{
    struct remaining *remaining = *(struct remaining *const *)what;

    remaining_tell(remaining, json_make_path(remaining->arena, root, "status"));
}

static void empty_namespace(struct store *store, const struct entry *entry)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct remaining remaining = {.arena = &arena, .now_ms = store_now(store)};
    struct remaining *told = &remaining;
    size_t left = 0;

    for (size_t i = 0; i < store->shelves.count; i++)
        if (store->shelves.items[i]->kind->namespaced)
            left += empty_shelf(store, store->shelves.items[i], entry->name, &remaining);
    if (!entry_latest(entry))
        return;
    if (!left)
        collect_edit(store, entry, drop_spec_finalizers, NULL);
    else if (remaining.objects)
        collect_edit_status(store, entry, tell_remaining, &told);
}

static void empty_namespaces(struct store *store)
{
    store->terminating_due = false;
    MAP_FOREACH(&store->terminating, at)
        empty_namespace(store, at->value);
}

bool collect_run(struct store *store)
{
    for (size_t i = 0; i < COLLECT_PER_TURN && store->collect_first; i++) {
        struct due *due = store->collect_first;
        const struct entry *entry = map_get(&store->by_uid, str_from(due->text));

        store->collect_first = due->next;
        if (!store->collect_first)
            store->collect_last = NULL;
        if (entry) {
            look_as_dependent(store, entry);
            look_as_owner(store, entry);
            if (entry->shelf->kind == &kind_crd)
                custom_empty(store, entry);
        }
        mem_free(due);
    }
    if (store->terminating_due)
        empty_namespaces(store);
    return store->collect_first != NULL;
}

void collect_all(struct store *store)
{
    for (size_t i = 0; i < store->shelves.count; i++) {
        const struct shelf *shelf = store->shelves.items[i];

        for (size_t j = 0; j < shelf->entries.count; j++) {
            struct entry *entry = shelf->entries.items[j];
            const struct object *object = entry->committed;

            if (!object)
                continue;
            if (object->owner_count || object->deleted_ms)
                due_push(store, object->uid);
            if (shelf->kind == &kind_namespace && object->deleted_ms) {
                map_set(&store->terminating, entry->name, entry);
                store->terminating_due = true;
            }
        }
    }
}

void collect_done(struct store *store)
{
    while (store->collect_first) {
        struct due *due = store->collect_first;

        store->collect_first = due->next;
        mem_free(due);
    }
    map_done(&store->terminating);
}
