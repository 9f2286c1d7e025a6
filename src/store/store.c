#include "store/store.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/service.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cel/cel.h"
#include "store/batch.h"
#include "store/bind.h"
#include "store/collect.h"
#include "store/custom.h"
#include "store/db.h"
#include "store/delete.h"
#include "store/evict.h"
#include "store/history.h"
#include "store/host.h"
#include "store/patch.h"
#include "store/read.h"
#include "store/reply.h"
#include "store/reserve.h"
#include "store/scale.h"
#include "store/shelf.h"
#include "store/space.h"
#include "store/state.h"
#include "store/sums.h"
#include "store/turn.h"
#include "store/watch.h"
#include "store/write.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <uv.h>

static void on_check(uv_check_t *handle)
{
    turn_run(handle->data);
}

static void on_committed(uv_async_t *handle)
{
    /* The check of this same round of the loop does the work. */
    (void)handle;
}

/* ---- calls ---- */
static int write_call(struct store *store, struct reply *reply, const struct api_request *request)
{
    struct write write;
    struct delete_options options;
    int r = write_open(&write, store, reply, request);

    if (r < 0)
        return r;
    if (request->verb == API_CREATE && str_is(request->subresource, "binding"))
        return bind_pod(&write, request);
    if (request->verb == API_CREATE && str_is(request->subresource, "eviction"))
        return evict_pod(&write, request);
    if (str_is(request->subresource, "scale") &&
        (request->verb == API_UPDATE || request->verb == API_PATCH))
        return scale_write(&write, request);
    /* Namespaces are finalized through an address of their own, by people in need. */
    if (request->kind == &kind_namespace && str_is(request->subresource, "finalize"))
        write.subresource = write.owned_part = STR("");
    else if (request->subresource.len && !kind_has_part(write.kind, request->subresource))
        return reply_fail(reply, 404, "NotFound", "%s has no subresource " STR_FMT,
                          request->kind->plural, STR_ARG(request->subresource));
    /* A part of an object is changed, never made or deleted: that would be a way around the checks
     * of whole objects. */
    if (request->subresource.len && request->verb != API_UPDATE && request->verb != API_PATCH)
        return reply_fail(reply, 405, "MethodNotAllowed",
                          "%s/" STR_FMT " can be read and changed only", request->kind->plural,
                          STR_ARG(request->subresource));
    if (request->subresource.len && !write.old)
        return reply_not_found(reply, request->kind, request->name);
    switch (request->verb) {
    case API_CREATE: return write_create(&write, request);
    case API_UPDATE: return write_update(&write, request);
    case API_PATCH: return write_patch(&write, request);
    case API_DELETE:
        r = delete_parse(reply, request, &options);
        return r < 0 ? r : delete_object(&write, &options);
    case API_GET:
    case API_LIST:
    case API_DELETE_COLLECTION: break;
    }
    return reply_fail(reply, 405, "MethodNotAllowed", "this verb does not exist");
}

/* NULL: the call made none. */
static struct object *made_pod(const struct store *store,
                               const struct reply *reply,
                               const struct api_request *request)
{
    bool made = store->made_pod && request->verb == API_CREATE && request->kind == &kind_pod &&
                reply->staged && reply->result.created;

    return made ? object_ref(reply->result.object) : NULL;
}

static void store_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct store *store = (struct store *)api;
    struct reply *reply = reply_new(store, done, user);

    switch (request->verb) {
    case API_GET: read_get(store, reply, request); return;
    case API_LIST: read_list(store, reply, request); return;
    case API_DELETE_COLLECTION: delete_collection(store, reply, request); return;
    case API_CREATE:
    case API_UPDATE:
    case API_PATCH:
    case API_DELETE: (void)write_call(store, reply, request); break;
    }
    struct object *made = made_pod(store, reply, request);
    reply_settle(store, reply);
    if (made)
        store->made_pod(store->made_user, made);
    object_unref(made);
}

static const struct api_ops ops = {
    .call = store_call,
    .bind = store_bind,
    .watch = store_watch,
    .watch_stop = store_watch_stop,
};

/* ---- start ---- */
/* "group/plural/namespace/name" */
static bool key_parts(struct str key, struct str parts[static 4])
{
    for (size_t i = 0; i < 3; i++)
        if (!str_cut(&key, '/', &parts[i]))
            return false;
    parts[3] = key;
    return key.len > 0;
}

static struct shelf *shelf_by_key(const struct store *store, const struct str parts[static 4])
{
    for (size_t i = 0; i < store->shelves.count; i++)
        if (str_is(parts[1], store->shelves.items[i]->kind->plural) &&
            str_is(parts[0], store->shelves.items[i]->kind->group))
            return store->shelves.items[i];
    return NULL;
}

/* What the walks over the file share. */
struct loading {
    struct store *store;
    struct arena arena;
    struct map last; /* key -> its newest object in the log so far */
};

/* The object that a change without a value is about: the newest of its key. */
static int object_newest(const struct shelf *shelf,
                         const struct str parts[static 4],
                         const struct db_row *row,
                         struct object **ret,
                         struct err *err)
{
    const struct entry *entry = shelf_find(shelf, parts[2], parts[3]);

    if (!entry || !entry->committed || entry->committed->revision != row->revision)
        return err_set(err, -EIO,
                       "store: the object of change %" PRIu64 " of \"" STR_FMT
                       "\" is missing: see `muster store check`",
                       row->revision, STR_ARG(row->key));
    *ret = object_ref(entry->committed);
    return 0;
}

/* The object of a row and its shelf; *ret_shelf NULL: of a kind that is no longer there. */
static int read_row(const struct store *store,
                    const struct db_row *row,
                    struct shelf **ret_shelf,
                    struct object **ret,
                    struct err *err)
{
    struct str parts[4];

    *ret_shelf = NULL;
    if (!key_parts(row->key, parts))
        return err_set(err, -EIO, "store: damaged key \"" STR_FMT "\"", STR_ARG(row->key));
    struct shelf *shelf = shelf_by_key(store, parts);
    if (!shelf)
        return 0;
    *ret_shelf = shelf;
    if (!row->value.p)
        return object_newest(shelf, parts, row, ret, err);
    if (object_new(custom_version(store, shelf, row->value), row->value, ret, err) < 0)
        return err_wrap(err, -EIO, "store: damaged object \"" STR_FMT "\"", STR_ARG(row->key));
    return 0;
}

static int load_object(void *user, const struct db_row *row, struct err *err)
{
    struct store *store = ((struct loading *)user)->store;
    struct shelf *shelf = NULL;
    struct object *object = NULL;
    int r = read_row(store, row, &shelf, &object, err);

    if (r < 0 || !shelf)
        return r;
    assert(object);
    if (shelf->kind == &kind_crd)
        custom_register(store, object);
    struct change change = {
        .event = API_ADDED, .entry = shelf_make(shelf, object->ns, object->name), .object = object};
    object_unref(shelf_commit(store, &change));
    object_unref(object);
    return 0;
}

static int load_log(void *user, const struct db_row *row, struct err *err)
{
    struct loading *loading = user;
    struct shelf *shelf = NULL;
    struct object *object = NULL;
    int r = read_row(loading->store, row, &shelf, &object, err);

    if (r < 0 || !shelf)
        return r;
    const struct object *previous =
        row->event == API_ADDED ? NULL : map_get(&loading->last, row->key);
    history_add(loading->store, &(struct history_item){.revision = row->revision,
                                                       .at_ms = row->at_ms,
                                                       .event = (enum api_event)row->event,
                                                       .shelf = shelf,
                                                       .object = object,
                                                       .previous = previous});
    /* The arena holds the reference until the walk is over. */
    arena_defer(&loading->arena, object_release, object);
    map_set(&loading->last, str_dup(&loading->arena, row->key), object);
    return 0;
}

#define CRD_KEYS "apiextensions.k8s.io/customresourcedefinitions/"

static int store_load(struct store *store, struct err *err)
{
    struct loading loading = {.store = store, .last = {.seed = store->seed}};
    int r = db_revisions(store->db, &store->revision, &store->history.compacted, err);

    store->staged_revision = store->revision;
    store->compact_due = store->history.compacted;
    /* Definitions first: they make the shelves that the others go to. */
    if (r == 0)
        r = db_objects(store->db, STR(CRD_KEYS), load_object, &loading, err);
    if (r == 0)
        r = db_objects(store->db, STR(""), load_object, &loading, err);
    if (r == 0)
        r = db_log(store->db, load_log, &loading, err);
    if (r == 0)
        history_compact(store);
    map_done(&loading.last);
    arena_done(&loading.arena);
    return r;
}

static void first_objects(struct store *store)
{
    static const char *const namespaces[] = {"default", "kube-system", "kube-public",
                                             "kube-node-lease"};

    for (size_t i = 0; i < COUNT_OF(namespaces); i++) {
        char body[64];
        int len = snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"%s\"}}", namespaces[i]);

        store_call(&store->api,
                   &(struct api_request){
                       .verb = API_CREATE, .kind = &kind_namespace, .body = {body, (size_t)len}},
                   NULL, NULL);
    }
}

static void start_handles(struct store *store)
{
    (void)uv_check_init(store->loop, &store->check);
    (void)uv_idle_init(store->loop, &store->idle);
    (void)uv_async_init(store->loop, &store->committed, on_committed);
    store->check.data = store->idle.data = store->committed.data = store;
    (void)uv_check_start(&store->check, on_check);
    store->handles_open = 3;
    (void)uv_mutex_init(&store->mutex);
    (void)uv_cond_init(&store->cond);
}

static void free_store(struct store *store)
{
    history_done(&store->history);
    watches_free(store);
    object_trees_done(&store->trees);
    collect_done(store);
    sums_forget(store);
    space_forget(store);
    shelves_free(store);
    kinds_free(store->api.kinds);
    custom_done(store);
    arena_done(&store->shapes);
    db_close(store->db);
    uv_mutex_destroy(&store->mutex);
    uv_cond_destroy(&store->cond);
    mem_free(store);
}

static void on_closed(uv_handle_t *handle)
{
    struct store *store = handle->data;

    if (--store->handles_open == 0)
        free_store(store);
}

static void close_handles(struct store *store)
{
    store->closing = true;
    uv_close((uv_handle_t *)&store->check, on_closed);
    uv_close((uv_handle_t *)&store->idle, on_closed);
    uv_close((uv_handle_t *)&store->committed, on_closed);
}

static void add_shape(struct store *store, const struct kind *kind)
{
    const struct type *type = type_place_root(kind).type;
    struct shape shape = {.kind = kind};

    if (kind->custom || !type)
        return;
    shape.schema = type_schema(&store->shapes, type);
    VEC_PUSH(&store->shapes, &store->kind_shapes, shape);
}

/* Where the disk is full, the reserve is given up first: then it opens, read-only but for deletes. */
static int open_file(struct store *store, const struct store_options *options, struct err *err)
{
    const char *path = options->path;

    reserve_open(&store->reserve, path);
    int r = db_open(path, options->accept_loss, &store->db, err);
    if ((r == -ENOSPC || r == -EIO) && !reserve_has_room(&store->reserve)) {
        reserve_give_up(&store->reserve);
        r = db_open(path, options->accept_loss, &store->db, err);
        if (r == 0)
            turn_read_only(store, -ENOSPC,
                           &(struct err){.text = "store: database or disk is full"});
        else if (r == -ENOSPC || r == -EIO)
            r = err_set(err, -ENOSPC, "%s: the disk is full: free some space, then start again",
                        path);
    }
    return r;
}

int store_open(const struct store_options *options, struct store **ret, struct err *err)
{
    struct store *store = MEM_NEW(struct store);
    uint64_t seed = options->seed;

    if (!seed && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)time(NULL);
    store->api = (struct api){.ops = &ops, .kinds = kinds_new()};
    store->loop = options->loop;
    store->services = SERVICE_LOOPBACK;
    store->now_ms = options->now_ms;
    store->now_user = options->now_user;
    store->event_ttl_ms = options->event_ttl_ms;
    store->trouble = options->trouble;
    store->trouble_user = options->trouble_user;
    store->seed = seed;
    store->by_uid.seed = store->owned.seed = store->terminating.seed = seed;
    start_handles(store);
    store->meta_shape =
        type_schema(&store->shapes, type_named(STR("meta.k8s.io/v1"), STR("ObjectMeta")));
    for (size_t i = 0; i < kinds_count(store->api.kinds); i++) {
        (void)shelf_add(store, kinds_at(store->api.kinds, i));
        add_shape(store, kinds_at(store->api.kinds, i));
    }

    int r = options->path ? open_file(store, options, err) : 0;
    if (r == 0 && store->db)
        r = store_load(store, err);
    if (r == 0)
        r = turn_start(store, err);
    if (r == 0 && store->db && !store->full)
        reserve_take(&store->reserve);
    if (r < 0) {
        close_handles(store);
        return r;
    }
    /* A second life must not give out the uids of the first. */
    store->random = seed ^ (store->revision * 0xd1342543de82ef95U);
    if (!store->revision)
        first_objects(store);
    custom_apply_builtin(store);
    collect_all(store);
    store_wake(store);
    *ret = store;
    return 0;
}

struct api *store_api(struct store *store)
{
    return &store->api;
}

void store_set_services(struct store *store, struct service_network network)
{
    store->services = network;
}

void store_set_api_address(struct store *store, struct str address)
{
    store->api_address = address;
}

void store_set_admit_pod(struct store *store, store_admit_fn *admit, void *user)
{
    store->admit_pod = admit;
    store->admit_user = user;
}

void store_set_zones(bool (*read)(struct arena *arena, struct str name, struct str *ret_bytes))
{
    cel_set_zones(read);
}

void store_set_pod_tokens(struct store *store)
{
    store->pod_tokens = true;
}

void store_set_made_pod(struct store *store, store_made_fn *made, void *user)
{
    store->made_pod = made;
    store->made_user = user;
}

void store_stats(const struct store *store, struct store_stats *ret)
{
    *ret = (struct store_stats){.revision = store->revision};
    for (size_t i = 0; i < store->shelves.count; i++)
        ret->objects += store->shelves.items[i]->entries.count;
}

const char *store_read_only(const struct store *store)
{
    return store->read_only[0] ? store->read_only : NULL;
}

bool store_is_idle(const struct store *store)
{
    return !uv_is_active((const uv_handle_t *)&store->idle) && !store->open && !store->writing;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    /* What is staged becomes durable and its callers are told; what they start then is refused. */
    store->full = false;
    if (!store->read_only[0])
        (void)snprintf(store->read_only, sizeof(store->read_only), "the store is being closed");
    while (store->open || store->writing || store->ready.first) {
        turn_run(store);
        if (!store->db || !store->writing)
            continue;
        uv_mutex_lock(&store->mutex);
        while (!store->finished)
            uv_cond_wait(&store->cond, &store->mutex);
        uv_mutex_unlock(&store->mutex);
    }
    turn_stop(store);
    close_handles(store);
}
