#include "server/aggregate.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/podio.h"
#include "api/service_find.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "http/tls_client.h"
#include "http1/response.h"
#include "server/extension.h"
#include "server/peer.h"
#include "server/remote_user.h"
#include "server/request.h"
#include "server/server.h"
#include "server/virtual.h"
#include "tool/clock.h"
#include "tool/dial.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <uv.h>

#define DISCOVERY_BYTES_MAX \
    ((size_t)1 << 20)   /* all of Kubernetes' groups together are half of it */
#define TRIES_MAX  3    /* of one check, at an address each */
#define AGAIN_MS   1000 /* after the first that failed; then twice as long */
#define CHANGED_MS 20   /* Services, slices and Endpoints change one after another */

struct extension {
    struct aggregate *aggregate;
    struct arena arena; /* of `spec` */
    struct object *object;
    struct extension_spec spec;
    bool available;
    bool too_many;
    struct buf serves;
    struct buf openapi;
    unsigned passes;
    struct check *check; /* under way; or NULL */
    bool again;          /* something changed meanwhile */
    unsigned failures;
    size_t turn;
    struct timer *timer;
};

struct aggregate {
    struct server *server;
    struct api *api;
    struct api_watch *watches[4];
    struct buf certificate; /* by which others know that it is us who say who asks */
    struct buf key;
    VEC(struct extension *) items; /* in the order of discovery */
};

/* ---- what is there ---- */

const struct extension_spec *extension_spec(const struct extension *extension)
{
    return &extension->spec;
}

bool extension_is_available(const struct extension *extension)
{
    return extension->available;
}

struct str extension_serves(const struct extension *extension)
{
    return extension->serves.len ? buf_str(&extension->serves) : STR("[]");
}

struct str extension_openapi(const struct extension *extension)
{
    return extension->available ? buf_str(&extension->openapi) : STR("");
}

static bool is_local(const struct aggregate *aggregate, const struct extension_spec *spec)
{
    const struct kinds *kinds = aggregate->api->kinds;
    const struct virtual_group *virtual = virtual_group(spec->group);

    if (virtual && str_is(spec->version, virtual->version))
        return true;
    for (size_t i = 0; i < kinds_count(kinds); i++)
        if (str_is(spec->group, kinds_at(kinds, i)->group) &&
            str_is(spec->version, kinds_at(kinds, i)->version))
            return true;
    return false;
}

static struct extension *find(const struct aggregate *aggregate,
                              struct str group,
                              struct str version)
{
    for (size_t i = 0; aggregate && i < aggregate->items.count; i++) {
        struct extension *extension = aggregate->items.items[i];

        if (str_eq(extension->spec.group, group) && str_eq(extension->spec.version, version))
            return extension;
    }
    return NULL;
}

const struct extension *aggregate_find(const struct aggregate *aggregate,
                                       struct str group,
                                       struct str version)
{
    const struct extension *extension = find(aggregate, group, version);

    return extension && !is_local(aggregate, &extension->spec) ? extension : NULL;
}

const struct extension *aggregate_next(const struct aggregate *aggregate, size_t *at)
{
    while (aggregate && *at < aggregate->items.count) {
        const struct extension *extension = aggregate->items.items[(*at)++];

        if (!is_local(aggregate, &extension->spec))
            return extension;
    }
    return NULL;
}

/* ---- how to get there ---- */

void aggregate_tls(const struct aggregate *aggregate,
                   struct arena *arena,
                   const struct extension_spec *spec,
                   struct tls_client_options *ret)
{
    *ret = (struct tls_client_options){
        .server_name = str_c(arena, str_printf(arena, STR_FMT "." STR_FMT ".svc",
                                               STR_ARG(spec->service), STR_ARG(spec->ns))),
        .insecure = spec->insecure,
        .ca = spec->ca,
        .certificate = buf_str(&aggregate->certificate),
        .key = buf_str(&aggregate->key)};
}

int aggregate_dial(struct server *server,
                   struct str ns,
                   const struct service_place *place,
                   struct err *err)
{
    struct podio *podio = server->podio;
    _cleanup_(arena_done) struct arena arena = {0};

    if (place->pod.len && podio)
        return podio->ops->dial(podio, ns, place->pod, place->port, err);
    int fd = dial_address(str_c(&arena, place->ip), place->port);
    return fd < 0 ? err_set(err, fd, "dial tcp " STR_FMT ":%u: %s", STR_ARG(place->ip),
                            (unsigned)place->port, uv_strerror(fd))
                  : fd;
}

/* ---- one check ---- */

struct check {
    struct extension *extension; /* NULL: nobody wants to know any more */
    struct server *server;
    struct arena arena;
    struct timer *timer;
    struct peer *peer;
    unsigned open; /* calls that come back: of the search, of the connection */
    unsigned tries;
    bool documents; /* it passes: where are its OpenAPI documents? */
    int status;
    struct buf body;
    struct str path;
    struct str url;
};

static void check_now(struct extension *extension);
static void check_try(struct check *check);

static void check_unref(struct check *check)
{
    if (--check->open)
        return;
    buf_done(&check->body);
    arena_done(&check->arena);
    mem_free(check);
}

static void on_due(void *user)
{
    check_now(user);
}

static void check_in(struct extension *extension, int64_t delay_ms)
{
    timer_in(extension->timer, delay_ms, on_due);
    timer_unref(extension->timer);
}

static void write_condition(struct extension *extension, const struct condition *condition)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(extension->object, &arena);
    struct json *patch =
        condition_patch(&arena, json_get(root, "status"), condition, clock_now_ms());

    if (!patch)
        return;
    struct json *body = json_new_object(&arena);
    json_set(body, STR("status"), patch);
    api_call(extension->aggregate->api,
             &(struct api_request){.verb = API_PATCH,
                                   .patch = API_PATCH_STRATEGIC,
                                   .kind = &kind_apiservice,
                                   .name = extension->object->name,
                                   .uid = extension->object->uid,
                                   .subresource = STR("status"),
                                   .field_manager = STR("muster"),
                                   .body = json_text(&arena, body)},
             api_ignore, NULL);
}

static void extension_note(struct extension *extension, const struct condition *condition)
{
    bool passes = str_is(str_from(condition->status), "True");

    extension->available = passes;
    write_condition(extension, condition);
    extension->failures = passes ? 0 : extension->failures + 1;
    int64_t delay_ms = AGGREGATE_EVERY_MS;
    if (!passes && extension->failures < 5 && AGAIN_MS << (extension->failures - 1) < delay_ms)
        delay_ms = AGAIN_MS << (extension->failures - 1);
    check_in(extension, extension->again ? CHANGED_MS : delay_ms);
    extension->again = false;
}

/* Lets go of the connection; NULL: without a verdict. */
static void check_end(struct check *check, const struct condition *condition)
{
    struct extension *extension = check->extension;

    if (!extension)
        return;
    check->extension = NULL;
    extension->check = NULL;
    timer_free(check->timer);
    check->timer = NULL;
    peer_close(check->peer);
    if (condition)
        extension_note(extension, condition);
    check_unref(check);
}

static void check_passes(struct check *check)
{
    struct condition condition = extension_passes();

    check_end(check, &condition);
}

static void check_fails(struct check *check, const char *why)
{
    if (!check->extension)
        return;
    if (check->documents) { /* which it need not have */
        buf_clear(&check->extension->openapi);
        check_passes(check);
        return;
    }
    if (check->timer && ++check->tries < TRIES_MAX) {
        peer_close(check->peer);
        check->peer = NULL;
        check_try(check);
        return;
    }
    struct condition condition = extension_fails(
        str_printf(&check->arena, "failing or missing response from " STR_FMT ": %s",
                   STR_ARG(check->url), why));
    check_end(check, &condition);
}

static void on_late(void *user)
{
    struct check *check = user;

    check->tries = TRIES_MAX;
    check_fails(check, "no answer in time");
}

static void on_head(void *user, const struct http_response *response)
{
    ((struct check *)user)->status = response->status;
}

static void on_body(void *user, struct str bytes)
{
    struct check *check = user;

    buf_add(&check->body, bytes);
    if (check->body.overflow) {
        check->tries = TRIES_MAX;
        check_fails(check, "its list of resources has more than 1 MiB");
    }
}

static void on_end(void *user, const char *why)
{
    struct check *check = user;
    struct extension *extension = check->extension;

    if (!extension)
        return;
    if (why || check->status < 200 || check->status > 299) {
        check_fails(check, why ? why
                               : str_printf(&check->arena, "bad status from " STR_FMT ": %d",
                                            STR_ARG(check->url), check->status)
                                     .p);
        return;
    }
    if (check->documents) {
        struct str url = extension_document(&check->arena, &extension->spec, buf_str(&check->body));

        buf_clear(&extension->openapi);
        buf_add(&extension->openapi, url);
        check_passes(check);
        return;
    }
    struct buf serves = {0};
    if (extension_resources(&check->arena, &extension->spec, buf_str(&check->body), &serves)) {
        buf_done(&extension->serves);
        extension->serves = serves;
    }
    check->documents = extension->passes++ % AGGREGATE_DOCUMENT == 0;
    check->peer = NULL;
    if (check->documents)
        check_try(check);
    else
        check_passes(check);
}

static void on_sent(void *user)
{
    (void)user;
}

static void on_closed(void *user)
{
    check_unref(user);
}

static void check_ask(struct check *check, int fd)
{
    static const struct user aggregator = {
        .name = STR("system:kube-aggregator"), .groups = {STR("system:masters")}, .group_count = 1};
    const struct extension_spec *spec = &check->extension->spec;
    struct peer_reader reader = {on_head, on_body, on_end, on_sent, on_closed, check};
    _cleanup_(buf_done) struct buf text = {0};
    struct tls_client_options tls;
    struct err err = {0};

    aggregate_tls(check->extension->aggregate, &check->arena, spec, &tls);
    check->status = 0;
    buf_clear(&check->body);
    check->peer = peer_open(
        &(struct peer_options){.loop = check->server->loop, .fd = fd, .tls = &tls}, &reader, &err);
    if (!check->peer) {
        check_fails(check, err.text);
        return;
    }
    check->open++;
    buf_addf(&text,
             "GET " STR_FMT " HTTP/1.1\r\nHost: %s\r\nAccept: application/json"
             "\r\nUser-Agent: muster-aggregator\r\nConnection: close\r\n",
             STR_ARG(check->path), tls.server_name);
    (void)remote_user_write(&text, &aggregator);
    buf_add(&text, STR("\r\n"));
    peer_send(check->peer, buf_str(&text));
}

static void on_place(void *user, const struct service_place *place)
{
    struct check *check = user;
    struct err err = {0};

    if (check->extension && place->lack && check->documents) {
        check_fails(check, "");
    } else if (check->extension && place->lack) {
        struct condition condition = extension_lacks(&check->arena, &check->extension->spec, place);

        check_end(check, &condition);
    } else if (check->extension) {
        const struct extension_spec *spec = &check->extension->spec;

        check->path = check->documents ? STR("/openapi/v3")
                                       : str_printf(&check->arena, "/apis/" STR_FMT "/" STR_FMT,
                                                    STR_ARG(spec->group), STR_ARG(spec->version));
        check->url = str_printf(&check->arena, "https://" STR_FMT ":%u" STR_FMT, STR_ARG(place->ip),
                                (unsigned)place->port, STR_ARG(check->path));
        int fd = aggregate_dial(check->server, spec->ns, place, &err);
        if (fd < 0)
            check_fails(check, err.text);
        else
            check_ask(check, fd);
    }
    check_unref(check);
}

static void check_try(struct check *check)
{
    struct extension *extension = check->extension;
    const struct extension_spec *spec = &extension->spec;

    check->open++;
    service_find(
        check->server->api,
        &(struct service_wish){.ns = spec->ns,
                               .name = spec->service,
                               .port = str_printf(&check->arena, "%lld", (long long)spec->port),
                               .turn = extension->turn++},
        on_place, check);
}

static void check_now(struct extension *extension)
{
    struct aggregate *aggregate = extension->aggregate;
    struct condition local = {
        "Available", "False", "ServedLocally",
        STR("this server serves the group version itself; delete the CustomResourceDefinitions of "
            "the version, or this APIService")};
    struct condition too_many = {
        "Available", "False", "TooManyAPIServices",
        STR("requests are handed on for at most 256 APIServices; delete those not needed")};

    if (extension->check) {
        extension->again = true;
        return;
    }
    if (extension->too_many || is_local(aggregate, &extension->spec)) {
        extension_note(extension, extension->too_many ? &too_many : &local);
        return;
    }
    struct check *check = MEM_NEW(struct check);
    check->extension = extension;
    check->server = aggregate->server;
    check->open = 1; /* until its end */
    check->body.bytes_max = DISCOVERY_BYTES_MAX;
    check->timer = timer_new(aggregate->server->loop, check);
    timer_in(check->timer, AGGREGATE_CHECK_MS, on_late);
    timer_unref(check->timer);
    extension->check = check;
    check_try(check);
}

void aggregate_doubt(struct aggregate *aggregate, struct str group, struct str version)
{
    struct extension *extension = find(aggregate, group, version);

    if (extension && extension->available)
        check_in(extension, CHANGED_MS);
}

/* ---- changes ---- */

static void extension_free(struct extension *extension)
{
    if (extension->check)
        check_end(extension->check, NULL);
    timer_free(extension->timer);
    object_unref(extension->object);
    buf_done(&extension->serves);
    buf_done(&extension->openapi);
    arena_done(&extension->arena);
    mem_free(extension);
}

static int items_order(const void *a, const void *b)
{
    const struct extension *const *x = a;
    const struct extension *const *y = b;

    return extension_compare(&(*x)->spec, &(*y)->spec);
}

/* Takes in what the object says; true: it leads elsewhere than before. */
static bool extension_update(struct extension *extension, const struct object *object)
{
    struct arena arena = {0};
    struct extension_spec spec;
    struct object *kept = object_ref(object);
    bool changed = !extension->object || !str_eq(extension->object->uid, object->uid) ||
                   extension->object->generation != object->generation;

    (void)extension_read(&arena, object_json(kept, &arena), &spec);
    object_unref(extension->object);
    arena_done(&extension->arena);
    extension->object = kept;
    extension->arena = arena;
    extension->spec = spec;
    return changed;
}

static size_t index_of(const struct aggregate *aggregate, struct str name)
{
    for (size_t i = 0; i < aggregate->items.count; i++)
        if (str_eq(aggregate->items.items[i]->object->name, name))
            return i;
    return SIZE_MAX;
}

static void on_apiservice(void *user, const struct api_change *change)
{
    struct aggregate *aggregate = user;
    _cleanup_(arena_done) struct arena arena = {0};
    struct extension_spec spec;

    if (!change->object)
        return;
    const struct json *root = object_json(change->object, &arena);
    bool wanted = change->event != API_DELETED && extension_read(&arena, root, &spec);
    size_t index = index_of(aggregate, change->object->name);
    if (!wanted && index != SIZE_MAX) {
        struct extension *extension = aggregate->items.items[index];

        VEC_REMOVE_SWAP(&aggregate->items, index);
        extension_free(extension);
    } else if (wanted && index == SIZE_MAX) {
        struct extension *extension = MEM_NEW(struct extension);

        extension->aggregate = aggregate;
        extension->timer = timer_new(aggregate->server->loop, extension);
        extension->too_many = aggregate->items.count >= AGGREGATE_MAX;
        extension->available = condition_is_true(json_get(root, "status"), "Available");
        (void)extension_update(extension, change->object);
        VEC_PUSH(NULL, &aggregate->items, extension);
        check_in(extension, 0);
    } else if (wanted && extension_update(aggregate->items.items[index], change->object)) {
        check_in(aggregate->items.items[index], 0);
    }
    if (aggregate->items.count)
        qsort(aggregate->items.items, aggregate->items.count, sizeof(struct extension *),
              items_order);
}

/* A Service, or addresses of one. */
static void on_place_change(void *user, const struct api_change *change)
{
    struct aggregate *aggregate = user;

    if (!change->object || !aggregate->items.count)
        return;
    struct str service = change->object->kind == &kind_endpointslice
                             ? object_label(change->object, "kubernetes.io/service-name")
                             : change->object->name;
    for (size_t i = 0; i < aggregate->items.count; i++) {
        struct extension *extension = aggregate->items.items[i];

        if (str_eq(extension->spec.ns, change->object->ns) &&
            str_eq(extension->spec.service, service))
            check_in(extension, CHANGED_MS);
    }
}

struct aggregate *aggregate_new(struct server *server, const struct server_options *options)
{
    static const struct kind *const places[] = {&kind_service, &kind_endpoints,
                                                &kind_endpointslice};
    struct aggregate *aggregate = MEM_NEW(struct aggregate);

    aggregate->server = server;
    aggregate->api = server->api;
    buf_add(&aggregate->certificate, options->proxy_certificate);
    buf_add(&aggregate->key, options->proxy_key);
    aggregate->watches[0] =
        api_watch(aggregate->api, &(struct api_watch_request){.kind = &kind_apiservice},
                  on_apiservice, aggregate);
    for (size_t i = 0; i < 3; i++)
        aggregate->watches[i + 1] =
            api_watch(aggregate->api, &(struct api_watch_request){.kind = places[i]},
                      on_place_change, aggregate);
    return aggregate;
}

void aggregate_free(struct aggregate *aggregate)
{
    if (!aggregate)
        return;
    for (size_t i = 0; i < 4; i++)
        api_watch_stop(aggregate->api, aggregate->watches[i]);
    for (size_t i = 0; i < aggregate->items.count; i++)
        extension_free(aggregate->items.items[i]);
    VEC_DONE(&aggregate->items);
    buf_done(&aggregate->certificate);
    buf_done(&aggregate->key);
    mem_free(aggregate);
}
