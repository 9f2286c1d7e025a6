#include "store/custom.h"

#include "api/admit.h"
#include "api/api.h"
#include "api/crd.h"
#include "api/crd_builtin.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/rules.h"
#include "store/edit.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/watch.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A CRD is registered when its write is committed, before the writer is told: who got the answer
 * can use the kind. Kinds named in the code (kind_torchrunjob) keep their address and only get a
 * schema; others are made here and live as long as the store. */

/* The memory behind one version of one CRD. Kinds and schemas may be looked at by anybody, so a
 * block that a newer one replaced stays until the store is closed. */
struct custom_block {
    struct custom_block *next;
    struct arena arena;
};

static struct kind *made_kind(const struct store *store, const struct kind *kind)
{
    for (size_t i = 0; i < store->made_kinds.count; i++) {
        struct kind *made = store->made_kinds.items[i];

        if (strcmp(made->group, kind->group) == 0 && strcmp(made->version, kind->version) == 0 &&
            strcmp(made->plural, kind->plural) == 0)
            return made;
    }
    return NULL;
}

/* With its rules, which are compiled here: the arena lives as long as the store. */
static struct kind_crd *crd_with_rules(struct arena *arena, const struct crd_version *version)
{
    struct kind_crd *crd = ARENA_NEW(arena, struct kind_crd);

    *crd = version->crd;
    crd->rules = rules_compile(arena, crd->schema, NULL, STR(""));
    return crd;
}

/* The kind of a version, which is told to the registry with `crd`. */
static const struct kind *register_version(struct store *store,
                                           const struct crd_version *version,
                                           const struct kind_crd *crd)
{
    const struct kind *kind =
        kinds_by_plural(store->api.kinds, str_from(version->kind.group),
                        str_from(version->kind.version), str_from(version->kind.plural));
    struct kind *made = made_kind(store, &version->kind);

    if (made) {
        *made = version->kind;
        kind = made;
    } else if (!kind) {
        made = MEM_NEW(struct kind);
        *made = version->kind;
        VEC_PUSH(NULL, &store->made_kinds, made);
        kind = made;
    }
    if (version->served) {
        kinds_add(store->api.kinds, kind);
        kinds_set_crd(store->api.kinds, kind, crd);
    } else {
        kinds_remove(store->api.kinds, kind);
    }
    return kind;
}

/* Versions that the CRD no longer has. */
static void drop_versions(struct store *store, const struct crd *crd)
{
    for (size_t i = store->made_kinds.count; i-- > 0;) {
        const struct kind *made = store->made_kinds.items[i];
        const struct kind *like = &crd->versions[0].kind;
        bool there = false;

        if (strcmp(made->group, like->group) != 0 || strcmp(made->plural, like->plural) != 0)
            continue;
        for (size_t j = 0; j < crd->version_count; j++)
            there |= strcmp(crd->versions[j].kind.version, made->version) == 0;
        if (!there)
            kinds_remove(store->api.kinds, made);
    }
}

/* From now on objects are stored in this version; those that are there keep theirs until they are
 * written. Whoever watches has to ask again when others begin to convert, or no longer do. */
static void set_storage(struct store *store, const struct kind *kind, bool webhook)
{
    struct shelf *shelf = shelf_add(store, kind);

    shelf->kind = kind;
    if (shelf->webhook != webhook)
        watches_refuse(store, shelf);
    shelf->webhook = webhook;
}

void custom_register(struct store *store, const struct object *object)
{
    struct custom_block *block = MEM_NEW(struct custom_block);
    struct crd *crd = NULL;

    block->next = store->customs;
    store->customs = block;
    arena_defer(&block->arena, object_release, object_ref(object));
    /* It was checked when it was written; what an older program let in and this one does not take
     * is not served. */
    if (crd_parse(&block->arena, object_json(object, &block->arena), &crd, NULL) < 0 ||
        !crd->version_count)
        return;
    struct kind_crd **made = ARENA_ARRAY(&block->arena, struct kind_crd *, crd->version_count);
    const struct kind *storage = NULL;
    for (size_t i = 0; i < crd->version_count; i++) {
        made[i] = crd_with_rules(&block->arena, &crd->versions[i]);
        const struct kind *kind = register_version(store, &crd->versions[i], made[i]);

        if (crd->versions[i].storage)
            storage = kind;
    }
    for (size_t i = 0; i < crd->version_count; i++) {
        made[i]->storage = storage;
        made[i]->webhook = crd->webhook;
    }
    if (storage)
        set_storage(store, storage, crd->webhook != NULL);
    drop_versions(store, crd);
}

void custom_unregister(struct store *store, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(object, &arena);
    struct str group = json_str_at(root, "spec.group");
    struct str plural = json_str_at(root, "spec.names.plural");

    for (size_t i = kinds_count(store->api.kinds); i-- > 0;) {
        const struct kind *kind = kinds_at(store->api.kinds, i);

        if (!kind->custom || !str_is(group, kind->group) || !str_is(plural, kind->plural))
            continue;
        struct shelf *shelf = shelf_of(store, kind);
        kinds_remove(store->api.kinds, kind);
        if (!shelf)
            continue;
        shelf->dropped = true;
        watches_refuse(store, shelf);
    }
}

const struct kind *custom_version(const struct store *store,
                                  const struct shelf *shelf,
                                  struct str raw)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct kind *kind = shelf->kind;
    struct json *root = NULL;

    if (!kind->custom || json_parse(&arena, raw, &root, NULL) < 0)
        return kind;
    struct str version = json_str(json_get(root, "apiVersion"));
    size_t slash = str_find(version, '/');
    if (slash == version.len)
        return kind;
    version = str_sub(version, slash + 1, version.len);
    if (str_is(version, kind->version))
        return kind;
    assert(kind->group && kind->plural);
    const struct kind *served =
        kinds_by_plural(store->api.kinds, str_from(kind->group), version, str_from(kind->plural));
    const struct kind *made = made_kind(store, &(struct kind){.group = kind->group,
                                                              .version = str_c(&arena, version),
                                                              .plural = kind->plural});
    return served ? served : made ? made : kind;
}

static bool same_spec(const struct object *object, const struct json *wanted)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return json_equal(json_get(object_json(object, &arena), "spec"), json_get(wanted, "spec"));
}

static void replace_spec(struct json *root, const void *what)
{
    /* The edit is written out before `what`, which belongs to an arena of the caller, goes. */
    json_set(root, STR("spec"), (struct json *)(uintptr_t)what);
}

static void apply_one(struct store *store, const struct crd_builtin *builtin)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str body = {builtin->text, builtin->text_len};
    struct json *root = NULL;
    const struct entry *entry =
        shelf_find(shelf_of(store, &kind_crd), STR(""), str_from(builtin->name));

    int r = json_parse(&arena, body, &root, NULL);
    assert(r == 0);
    /* Defaults are part of what is stored. */
    r = schema_default(&arena, store_shape(store, &kind_crd), root, NULL);
    assert(r == 0);
    (void)r;
    crd_default(&(struct admit){.arena = &arena, .kind = &kind_crd, .object = root});
    if (!entry_latest(entry))
        api_call(&store->api,
                 &(struct api_request){.verb = API_CREATE, .kind = &kind_crd, .body = body}, NULL,
                 NULL);
    else if (!same_spec(entry_latest(entry), root))
        collect_edit(store, entry, replace_spec, json_get(root, "spec"));
}

void custom_apply_builtin(struct store *store)
{
    store->compiled_in = true;
    for (size_t i = 0; i < crd_builtin_count; i++)
        apply_one(store, &crd_builtins[i]);
    store->compiled_in = false;
}

static void drop_cleanup(struct json *root, const void *what)
{
    (void)what;
    json_drop_items(json_at(root, "metadata.finalizers"), NULL, STR(CRD_FINALIZER));
}

void custom_empty(struct store *store, const struct entry *entry)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object = entry_latest(entry);
    size_t left = 0;

    if (!object || !object->deleted_ms)
        return;
    arena_defer(&arena, object_release, object_ref(object));
    const struct json *root = object_json(object, &arena);
    for (size_t i = 0; i < store->shelves.count; i++) {
        const struct shelf *shelf = store->shelves.items[i];

        if (shelf->dropped || !str_is(json_str_at(root, "spec.group"), shelf->kind->group) ||
            !str_is(json_str_at(root, "spec.names.plural"), shelf->kind->plural))
            continue;
        for (size_t j = 0; j < shelf->entries.count; j++) {
            const struct object *latest = entry_latest(shelf->entries.items[j]);

            left++;
            if (latest && !latest->deleted_ms)
                collect_delete(store, shelf->entries.items[j], STR("Background"));
        }
    }
    if (!left)
        collect_edit(store, entry, drop_cleanup, NULL);
}

void custom_done(struct store *store)
{
    while (store->customs) {
        struct custom_block *block = store->customs;

        store->customs = block->next;
        arena_done(&block->arena);
        mem_free(block);
    }
    for (size_t i = 0; i < store->made_kinds.count; i++)
        mem_free(store->made_kinds.items[i]);
    VEC_DONE(&store->made_kinds);
}
