#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cmd/operator.h"
#include "exec/scheduler.h"
#include "http/server.h"
#include "kube/kube.h"
#include "sched/policy.h"
#include "sched/shadow.h"
#include "tool/clock.h"

/* /debug/snapshot: what a person attaches to "why did it decide that". The objects are collected by
 * reference in one turn of the loop, so that they belong together, and written as fast as the
 * reader takes them. */

#define PIECE_BYTES ((size_t)256 << 10) /* written between two looks at the reader */

static const struct kind *const told[] = {&kind_queue,        &kind_priorityclass,
                                          &kind_topology,     &kind_node,
                                          &kind_storageclass, &kind_csidriver,
                                          &kind_csinode,      &kind_csistoragecapacity,
                                          &kind_pv,           &kind_pvc,
                                          &kind_namespace,    &kind_podgroup,
                                          &kind_pod,          NULL};

struct snapshot {
    VEC(const struct object *) objects;
    size_t next;
};

static void snapshot_free(struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->objects.count; i++)
        object_unref(snapshot->objects.items[i]);
    VEC_DONE(&snapshot->objects);
    mem_free(snapshot);
}

/* Up to the first item. */
static void write_head(struct http_exchange *x, const struct operator* op)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *head = json_make(&arena, "{apiVersion: 'v1', kind: 'List', time: $}",
                                  time_text(&arena, clock_now_ms()));

    if (op->scheduler)
        json_set(head, STR("config"), policy_tell(&arena, scheduler_core(op->scheduler)));
    struct str text = json_text(&arena, head);
    http_write(x, str_sub(text, 0, text.len - 1)); /* without its brace */
    http_write(x, STR(",\"items\":["));
}

static void write_more(struct http_exchange *x)
{
    struct snapshot *snapshot = x->user;

    while (snapshot->next < snapshot->objects.count && http_pending(x) < PIECE_BYTES) {
        if (snapshot->next > 0)
            http_write(x, STR(","));
        http_write(x, snapshot->objects.items[snapshot->next++]->raw);
    }
    if (snapshot->next < snapshot->objects.count)
        return;
    x->on_drain = NULL;
    x->on_close = NULL;
    x->user = NULL;
    snapshot_free(snapshot);
    http_write(x, STR("]}\n"));
    http_end(x);
}

static void on_close(struct http_exchange *x)
{
    snapshot_free(x->user);
    x->user = NULL;
}

/* What the shadow found: for people, or with ?output=json. */
static void tell_shadow(struct http_exchange *x, const struct shadow *shadow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf body = {0};

    if (!shadow) {
        http_reply(x, 404, "text/plain", STR("this operator is no shadow: see --shadow\n"));
    } else if (str_is(x->head.query, "output=json")) {
        http_reply(x, 200, "application/json", json_text(&arena, shadow_json(shadow, &arena)));
    } else {
        shadow_write(shadow, &arena, &body);
        http_reply(x, 200, "text/plain; charset=utf-8", buf_str(&body));
    }
}

static void on_request(void *user, struct http_exchange *x)
{
    struct operator* op = user;
    struct snapshot *snapshot;

    if (str_is(x->head.method, "GET") && str_is(x->head.path, "/shadow")) {
        tell_shadow(x, scheduler_shadow(op->scheduler));
        return;
    }
    if (!str_is(x->head.method, "GET") || !str_is(x->head.path, "/debug/snapshot")) {
        http_reply(x, 404, "text/plain",
                   STR("GET /debug/snapshot and GET /shadow are all there is here\n"));
        return;
    }
    snapshot = MEM_NEW(struct snapshot);
    for (size_t i = 0; told[i]; i++) {
        const struct object *object;
        size_t cursor = 0;

        while ((object = kube_known(op->kube, told[i], &cursor)))
            VEC_PUSH(NULL, &snapshot->objects, object_ref(object));
    }
    x->user = snapshot;
    x->on_drain = write_more;
    x->on_close = on_close;
    http_begin(x, 200, "application/json");
    write_head(x, op);
    write_more(x);
}

int operator_debug_start(struct operator* op, const char *listen, struct err *err)
{
    char address[OPERATOR_ADDRESS_BYTES];
    uint16_t port;
    int r;

    if (!listen || !*listen)
        return 0;
    r = operator_listen_parse("--debug-listen", listen, address, &port, err);
    if (r < 0)
        return r;
    return http_server_start(
        &(struct http_server_options){
            .loop = &op->loop, .address = address, .port = port, .handle = on_request, .user = op},
        &op->debug, err);
}
