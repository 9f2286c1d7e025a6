#include "exec/claims_write.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTECTION "resource.kubernetes.io/delete-protection"
#define EXTENDED   "resource.kubernetes.io/extended-resource-claim"
#define GPU_NAME   "nvidia.com/gpu"

struct claim_change {
    struct claims_write *write;
    struct str ns;
    struct str name;
    struct str uid;
    struct str node;
    struct sched_bind_device *devices;
    size_t device_count;
    bool everywhere;
    bool written;
    bool reserved; /* by a try before this one, which is not to be taken back with this one */
    bool extended; /* it is made for GPUs that the pod has not claimed */
    VEC(struct sched_pod_ref) pods;
};

struct claims_write {
    struct arena *arena;
    struct api *api;
    const struct cache *cache;
    VEC(struct claim_change *) changes;
    int64_t now_ms;
    size_t pending;
    bool stopped;
    int code;
    struct err err;
    void (*done)(void *user, int code, const struct err *err);
    void *user;
};

/* ---- what is to be written ---- */

static struct claim_change *change_new(struct claims_write *write,
                                       const struct sched_bind *bind,
                                       const struct sched_bind_claim *claim)
{
    struct arena *arena = write->arena;
    struct claim_change *change = ARENA_NEW(arena, struct claim_change);

    *change = (struct claim_change){.write = write,
                                    .ns = str_dup(arena, bind->pod.ns),
                                    .name = str_dup(arena, claim->name),
                                    .node = str_dup(arena, bind->node),
                                    .everywhere = claim->everywhere,
                                    .device_count = claim->device_count};
    change->devices = ARENA_ARRAY(arena, struct sched_bind_device, claim->device_count + 1);
    for (size_t i = 0; i < claim->device_count; i++)
        change->devices[i] =
            (struct sched_bind_device){.request = str_dup(arena, claim->devices[i].request),
                                       .class = str_dup(arena, claim->devices[i].class),
                                       .driver = str_dup(arena, claim->devices[i].driver),
                                       .pool = str_dup(arena, claim->devices[i].pool),
                                       .device = str_dup(arena, claim->devices[i].device)};
    VEC_PUSH(arena, &write->changes, change);
    return change;
}

static void change_user(struct claim_change *change, const struct sched_bind *bind)
{
    struct arena *arena = change->write->arena;

    VEC_PUSH(arena, &change->pods,
             (struct sched_pod_ref){.ns = change->ns,
                                    .name = str_dup(arena, bind->pod.name),
                                    .uid = str_dup(arena, bind->pod.uid)});
}

/* The same name each time: what is tried again finds what it made. */
static void change_whole(struct claims_write *write, const struct sched_bind *bind)
{
    const struct sched_bind_more *more = bind->more;
    struct str name =
        str_printf(write->arena, STR_FMT "-extended-resources-%05llx", STR_ARG(bind->pod.name),
                   (unsigned long long)(str_hash(bind->pod.uid, 1) & 0xfffff));
    struct claim_change *change =
        change_new(write, bind,
                   &(struct sched_bind_claim){
                       .name = name, .devices = more->whole, .device_count = more->whole_count});

    change->extended = true;
    change_user(change, bind);
    if ((int64_t)more->whole_count < more->whole_gpus)
        write->code = err_set(&write->err, -EAGAIN,
                              "pod " STR_FMT ": devices of node " STR_FMT
                              " that count as its GPUs are claimed in other ways",
                              STR_ARG(bind->pod.name), STR_ARG(bind->node));
}

struct claims_write *claims_write_new(struct arena *arena,
                                      const struct sched_bind *binds,
                                      size_t count,
                                      int64_t now_ms)
{
    struct claims_write *write = NULL;
    struct map known = {0};

    for (size_t i = 0; i < count; i++) {
        const struct sched_bind_more *more = binds[i].more;

        if (!more)
            continue;
        if (!write && (more->claim_count || more->whole_gpus)) {
            write = ARENA_NEW(arena, struct claims_write);
            *write = (struct claims_write){.arena = arena, .now_ms = now_ms};
        }
        if (more->whole_gpus)
            change_whole(write, &binds[i]);
        for (size_t c = 0; c < more->claim_count; c++) {
            struct claim_change *change = map_get(&known, more->claims[c].name);
            if (!change) {
                change = change_new(write, &binds[i], &more->claims[c]);
                map_set(&known, change->name, change);
            }
            change_user(change, &binds[i]);
        }
    }
    map_done(&known);
    return write;
}

/* ---- documents ---- */

/* What drivers are told: what the classes say, each for its request, then what the claim says. */
static struct json *config_of(const struct claim_change *change,
                              const struct json *claim,
                              struct arena *arena)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < change->device_count; i++) {
        const struct sched_bind_device *device = &change->devices[i];
        const struct object *class =
            cache_get(change->write->cache, &kind_deviceclass, STR(""), device->class);

        if (!class || (i && str_eq(device->request, change->devices[i - 1].request)))
            continue;
        JSON_FOREACH(json_at(object_json(class, arena), "spec.config"), item)
            json_push(list,
                      json_make(arena, "{source: 'FromClass', requests: [$], opaque: $}",
                                device->request, json_clone(arena, json_get(item, "opaque"))));
    }
    JSON_FOREACH(json_at(claim, "spec.devices.config"), item) {
        struct json *entry = json_make(arena, "{source: 'FromClaim', opaque: $}",
                                       json_clone(arena, json_get(item, "opaque")));

        if (json_count(json_get(item, "requests")))
            json_set(entry, STR("requests"), json_clone(arena, json_get(item, "requests")));
        json_push(list, entry);
    }
    return list;
}

static const struct json *request_named(const struct json *claim, struct str name)
{
    size_t slash = str_find(name, '/');

    JSON_FOREACH(json_at(claim, "spec.devices.requests"), request) {
        if (!str_eq(json_str(json_get(request, "name")), str_sub(name, 0, slash)))
            continue;
        if (slash == name.len)
            return json_get(request, "exactly");
        JSON_FOREACH(json_get(request, "firstAvailable"), choice)
            if (str_eq(json_str(json_get(choice, "name")), str_sub(name, slash + 1, name.len)))
                return choice;
    }
    return NULL;
}

static struct json *allocation_of(const struct claim_change *change,
                                  const struct json *claim,
                                  struct arena *arena)
{
    struct json *results = json_new_array(arena);
    struct json *config = config_of(change, claim, arena);

    for (size_t i = 0; i < change->device_count; i++) {
        const struct sched_bind_device *device = &change->devices[i];
        const struct json *wanted = request_named(claim, device->request);
        struct json *result =
            json_make(arena, "{request: $, driver: $, pool: $, device: $}", device->request,
                      device->driver, device->pool, device->device);

        if (json_count(json_get(wanted, "tolerations")))
            json_set(result, STR("tolerations"),
                     json_clone(arena, json_get(wanted, "tolerations")));
        json_push(results, result);
    }
    struct json *allocation = json_make(arena, "{devices: {results: $}, allocationTimestamp: $}",
                                        results, time_text(arena, change->write->now_ms));
    if (json_count(config))
        json_set(json_get(allocation, "devices"), STR("config"), config);
    if (!change->everywhere)
        json_set(allocation, STR("nodeSelector"),
                 json_make(arena,
                           "{nodeSelectorTerms: [{matchFields: [{key: 'metadata.name', "
                           "operator: 'In', values: [$]}]}]}",
                           change->node));
    return allocation;
}

static bool is_reserved(const struct json *claim, struct str uid)
{
    JSON_FOREACH(json_at(claim, "status.reservedFor"), user)
        if (str_eq(json_str(json_get(user, "uid")), uid))
            return true;
    return false;
}

/* ---- GPUs that were not claimed ---- */

static int64_t gpus_of(const struct json *container)
{
    const struct json *resources = json_get(container, "resources");
    const struct json *amount = json_get(json_get(resources, "requests"), GPU_NAME);
    int64_t gpus = 0;

    if (json_is_null(amount))
        amount = json_get(json_get(resources, "limits"), GPU_NAME);
    (void)quantity_whole_json(amount, &gpus, NULL);
    return gpus;
}

/* A request for each container that asks for GPUs; its devices are the next ones. */
static struct json *whole_requests(struct claim_change *change,
                                   const struct json *pod,
                                   struct arena *arena,
                                   struct json *mappings)
{
    struct json *requests = json_new_array(arena);
    size_t next = 0;
    int index = 0;

    JSON_FOREACH(json_at(pod, "spec.containers"), container) {
        int64_t gpus = gpus_of(container);
        struct str name = str_printf(change->write->arena, "container-%d-request-0", index++);

        if (gpus <= 0)
            continue;
        struct str class = next < change->device_count ? change->devices[next].class : STR("");
        json_push(requests, json_make(arena,
                                      "{name: $, exactly: {deviceClassName: $, allocationMode: "
                                      "'ExactCount', count: $}}",
                                      name, class, gpus));
        json_push(mappings, json_make(arena, "{containerName: $, resourceName: $, requestName: $}",
                                      json_str(json_get(container, "name")), GPU_NAME, name));
        for (int64_t i = 0; i < gpus && next < change->device_count; i++)
            change->devices[next++].request = name;
    }
    return requests;
}

static struct json *whole_claim(struct claim_change *change,
                                const struct object *pod,
                                struct arena *arena)
{
    struct json *mappings = json_new_array(arena);
    struct json *requests = whole_requests(change, object_json(pod, arena), arena, mappings);
    /* It does not block the pod's deletion, as in Kubernetes: where that has to be allowed
     * (OwnerReferencesPermissionEnforcement), it takes a right to all pods' finalizers. */
    struct json *meta = json_make(arena,
                                  "{name: $, namespace: $, finalizers: [$], ownerReferences: "
                                  "[{apiVersion: 'v1', kind: 'Pod', name: $, uid: $, controller: "
                                  "true}]}",
                                  change->name, change->ns, PROTECTION, str_dup(arena, pod->name),
                                  str_dup(arena, pod->uid));

    json_add_c(arena, json_add_object(arena, meta, "annotations"), EXTENDED, "true");
    return json_make(arena,
                     "{apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim', metadata: $, "
                     "spec: {devices: {requests: $}}}",
                     meta, requests);
}

/* ---- the writes ---- */

static void change_done(struct claim_change *change, int code, const struct err *err)
{
    struct claims_write *write = change->write;

    if (code && !write->code) {
        write->code = code;
        if (err)
            write->err = *err;
        (void)err_wrap(&write->err, code, "ResourceClaim " STR_FMT, STR_ARG(change->name));
    }
    if (--write->pending)
        return;
    if (write->code && !write->stopped)
        claims_write_undo(write);
    write->done(write->user, write->code, write->code ? &write->err : NULL);
}

static void on_told(void *user, const struct api_result *result)
{
    struct claim_change *change = user;

    change_done(change, result->code, result->err);
}

/* The pod learns which claim its containers' GPUs are. */
static void tell_pod(struct claim_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct sched_pod_ref *pod = &change->pods.items[0];
    const struct object *object = cache_get(change->write->cache, &kind_pod, pod->ns, pod->name);
    struct json *mappings = json_new_array(&arena);

    if (object)
        (void)whole_requests(change, object_json(object, &arena), &arena, mappings);
    struct json *body = json_make(&arena,
                                  "{status: {extendedResourceClaimStatus: {resourceClaimName: $, "
                                  "requestMappings: $}}}",
                                  change->name, mappings);
    api_call(change->write->api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_pod,
                                   .ns = pod->ns,
                                   .name = pod->name,
                                   .uid = pod->uid,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_STRATEGIC,
                                   .body = json_text(&arena, body)},
             on_told, change);
}

static void on_status(void *user, const struct api_result *result)
{
    struct claim_change *change = user;

    change->written = !result->code && !change->reserved;
    if (change->written && change->extended && !change->write->stopped)
        tell_pod(change);
    else
        change_done(change, result->code, result->err);
}

static void send_patch(const struct claim_change *change,
                       const char *subresource,
                       enum api_patch patch,
                       struct str body,
                       void (*done)(void *user, const struct api_result *result))
{
    api_call(change->write->api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_resourceclaim,
                                   .ns = change->ns,
                                   .name = change->name,
                                   .uid = change->uid,
                                   .subresource = str_from(subresource),
                                   .patch = patch,
                                   .body = body},
             done, done == api_ignore ? NULL : (void *)(uintptr_t)change);
}

static void send_status(struct claim_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object =
        cache_get(change->write->cache, &kind_resourceclaim, change->ns, change->name);
    const struct json *claim = object ? object_json(object, &arena) : NULL;
    struct json *users = json_new_array(&arena);
    struct json *status = json_new_object(&arena);

    change->reserved = object && !change->device_count;
    for (size_t i = 0; i < change->pods.count; i++) {
        change->reserved = change->reserved && is_reserved(claim, change->pods.items[i].uid);
        json_push(users, json_make(&arena, "{resource: 'pods', name: $, uid: $}",
                                   change->pods.items[i].name, change->pods.items[i].uid));
    }
    if (change->device_count)
        json_set(status, STR("allocation"), allocation_of(change, claim, &arena));
    json_set(status, STR("reservedFor"), users);
    struct json *body = json_make(&arena, "{status: $}", status);
    /* The try before may be taking back both this and the devices, unseen yet: then this fails. */
    if (change->reserved)
        json_add_str(&arena, json_make_path(&arena, body, "metadata"), "resourceVersion",
                     str_printf(&arena, "%llu", (unsigned long long)object->revision));
    /* Strategic: who else has it is kept, and who has it already is there once. */
    send_patch(change, "status", API_PATCH_STRATEGIC, json_text(&arena, body), on_status);
}

static void on_protected(void *user, const struct api_result *result)
{
    struct claim_change *change = user;

    if (result->code || change->write->stopped)
        change_done(change, result->code, result->err);
    else
        send_status(change);
}

static void on_made(void *user, const struct api_result *result)
{
    struct claim_change *change = user;
    bool there = result->err && result->err->http_status == 409; /* tried before */
    const struct object *known =
        cache_get(change->write->cache, &kind_resourceclaim, change->ns, change->name);
    const struct object *claim = there ? known : result->object;

    /* What it is given is for this claim, not for a later one of that name. */
    if (claim)
        change->uid = str_dup(change->write->arena, claim->uid);
    if ((result->code && !(there && claim)) || change->write->stopped)
        change_done(change, result->code, result->err);
    else
        send_status(change);
}

static void whole_send(struct claim_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *pod =
        cache_get(change->write->cache, &kind_pod, change->ns, change->pods.items[0].name);
    struct err err = {0};

    if (!pod) {
        (void)err_set(&err, -ENOENT, "its pod is gone");
        change_done(change, -ENOENT, &err);
        return;
    }
    api_call(change->write->api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_resourceclaim,
                                   .ns = change->ns,
                                   .body = json_text(&arena, whole_claim(change, pod, &arena))},
             on_made, change);
}

static void change_send(struct claim_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object =
        cache_get(change->write->cache, &kind_resourceclaim, change->ns, change->name);
    struct err err = {0};

    if (change->extended) {
        whole_send(change);
        return;
    }
    if (!object || object->deleted_ms) {
        (void)err_set(&err, -ENOENT, "it is gone");
        change_done(change, -ENOENT, &err);
        return;
    }
    change->uid = str_dup(change->write->arena, object->uid);
    const struct json *finalizers = json_at(object_json(object, &arena), "metadata.finalizers");
    struct json *list = json_new_array(&arena);
    bool there = !change->device_count;
    JSON_FOREACH(finalizers, item) {
        there = there || str_is(json_str(item), PROTECTION);
        json_push(list, json_clone(&arena, item));
    }
    if (there) {
        send_status(change);
        return;
    }
    json_push(list, json_new_str(&arena, STR(PROTECTION)));
    send_patch(change, "", API_PATCH_MERGE,
               json_text(&arena, json_make(&arena, "{metadata: {finalizers: $}}", list)),
               on_protected);
}

void claims_write_send(struct claims_write *write,
                       struct api *api,
                       const struct cache *cache,
                       void (*done)(void *user, int code, const struct err *err),
                       void *user)
{
    write->api = api;
    write->cache = cache;
    write->done = done;
    write->user = user;
    /* One more than there are, so that the last one to end is not the first. */
    size_t count = write->code ? 0 : write->changes.count; /* hopeless from the start */
    write->pending = count + 1;
    for (size_t i = 0; i < count; i++)
        change_send(write->changes.items[i]);
    if (--write->pending == 0) {
        if (write->code)
            claims_write_undo(write);
        write->done(write->user, write->code, write->code ? &write->err : NULL);
    }
}

void claims_write_stop(struct claims_write *write)
{
    write->stopped = true;
    if (!write->code)
        write->code = err_set(&write->err, -ECANCELED, "the scheduler ends");
}

void claims_write_undo(struct claims_write *write)
{
    for (size_t i = 0; i < write->changes.count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct claim_change *change = write->changes.items[i];
        struct json *users = json_new_array(&arena);
        struct json *status = json_new_object(&arena);

        if (!change->written)
            continue;
        change->written = false;
        for (size_t p = 0; p < change->pods.count; p++) {
            struct json *user = json_make(&arena, "{uid: $}", change->pods.items[p].uid);

            json_set(user, STR("$patch"), json_new_str(&arena, STR("delete")));
            json_push(users, user);
        }
        json_set(status, STR("reservedFor"), users);
        /* What it was given by us, nobody else can have come to use meanwhile. */
        if (change->device_count)
            json_set(status, STR("allocation"), json_new_null(&arena));
        send_patch(change, "status", API_PATCH_STRATEGIC,
                   json_text(&arena, json_make(&arena, "{status: $}", status)), api_ignore);
    }
}
