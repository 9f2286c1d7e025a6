#include "kube/lease.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/time.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <assert.h>
#include <stdio.h>

#define RELEASE_MS 1500 /* an orderly stop does not wait longer for the server */

enum held {
    HELD_NO,
    HELD_YES,
    HELD_LOST,
    HELD_RELEASING,
};

/* A call that is still under way when the lease is freed finds its lease gone. */
struct flight {
    struct lease *lease;
};

struct lease {
    struct lease_options options;
    struct timer *timer;
    struct flight *flight; /* the one request under way */
    enum held held;
    int64_t renewed_ms;  /* monotonic: when the last renewal that succeeded was sent */
    int64_t sent_ms;     /* when the request under way was sent */
    struct object *seen; /* the lease as last read or written */
    int64_t seen_ms;     /* when it last changed */
    void (*released)(void *user);
    void *released_user;
};

static void on_timer(void *user);

static void in(struct lease *lease, int64_t wait_ms)
{
    timer_in(lease->timer, wait_ms, on_timer);
}

/* `object` is what the server has now. Only a change counts as a sign of life. */
static void see(struct lease *lease, const struct object *object)
{
    if (!object)
        return;
    if (!lease->seen || lease->seen->revision != object->revision)
        lease->seen_ms = clock_monotonic_ms();
    object_unref(lease->seen);
    lease->seen = object_ref(object);
}

static void forget(struct lease *lease)
{
    object_unref(lease->seen);
    lease->seen = NULL;
}

static void won(struct lease *lease)
{
    if (lease->held != HELD_NO)
        return;
    lease->held = HELD_YES;
    log_info(lease->options.log, "lease.won", LOG_C("identity", lease->options.identity));
    lease->options.won(lease->options.user);
}

static void lost(struct lease *lease, const char *why)
{
    lease->held = HELD_LOST;
    timer_cancel(lease->timer);
    log_error(lease->options.log, "lease.lost", LOG_C("identity", lease->options.identity),
              LOG_C("why", why));
    lease->options.lost(lease->options.user);
}

/* ---- requests ---- */

static void send_request(struct lease *lease, const struct api_request *request, api_done_fn *done)
{
    assert(!lease->flight);
    lease->flight = MEM_NEW(struct flight);
    lease->flight->lease = lease;
    lease->sent_ms = clock_monotonic_ms();
    api_call(lease->options.api, request, done, lease->flight);
}

/* The lease behind an answer, or NULL when it is gone. */
static struct lease *landed(void *user)
{
    struct flight *flight = user;
    struct lease *lease = flight->lease;

    mem_free(flight);
    if (lease)
        lease->flight = NULL;
    return lease;
}

static void write_lease(struct lease *lease, bool release, api_done_fn *done);
static void on_released(void *user, const struct api_result *result);

static void on_write(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);

    if (!lease || lease->held == HELD_LOST)
        return;
    if (lease->held == HELD_RELEASING) { /* a renewal that was under way when we began to stop */
        see(lease, result->object);
        write_lease(lease, true, on_released);
        return;
    }
    if (result->code == 0) {
        see(lease, result->object);
        lease->renewed_ms = lease->sent_ms;
        won(lease);
    } else {
        /* Somebody else wrote, or we do not know whether we did: look before the next try. */
        log_debug(lease->options.log, "lease.write", LOG_ERR(result->err));
        forget(lease);
    }
}

static struct str lease_body(struct arena *arena, const struct lease *lease, bool release)
{
    struct json *old = lease->seen ? object_json(lease->seen, arena) : NULL;
    struct json *root = json_new_object(arena);
    struct json *meta;
    struct json *spec;
    struct str holder = json_str_at(old, "spec.holderIdentity");
    bool mine = str_is(holder, lease->options.identity);
    int64_t transitions = json_i64_or(json_at(old, "spec.leaseTransitions"), 0);
    char now[TIME_TEXT_BYTES];
    struct str acquired = json_str_at(old, "spec.acquireTime");

    (void)time_format_micro(clock_now_ms(), now);
    json_add_c(arena, root, "apiVersion", "coordination.k8s.io/v1");
    json_add_c(arena, root, "kind", "Lease");
    meta = json_add_object(arena, root, "metadata");
    json_add_c(arena, meta, "name", lease->options.name);
    json_add_c(arena, meta, "namespace", lease->options.ns);
    if (old)
        json_add_str(arena, meta, "resourceVersion", json_str_at(old, "metadata.resourceVersion"));
    spec = json_add_object(arena, root, "spec");
    json_fill(arena, spec,
              "{holderIdentity: $, leaseDurationSeconds: $, renewTime: $, "
              "acquireTime: $, leaseTransitions: $}",
              release ? "" : lease->options.identity,
              release ? LEASE_RELEASED_S : LEASE_DURATION_MS / 1000, str_dup(arena, str_from(now)),
              mine && acquired.len > 0 ? acquired : str_dup(arena, str_from(now)),
              old && !mine ? transitions + 1 : transitions);
    return json_text(arena, root);
}

static void write_lease(struct lease *lease, bool release, api_done_fn *done)
{
    struct arena arena = {0};

    send_request(lease,
                 &(struct api_request){
                     .verb = lease->seen ? API_UPDATE : API_CREATE,
                     .kind = &kind_lease,
                     .ns = str_from(lease->options.ns),
                     .name = lease->seen ? str_from(lease->options.name) : STR_NONE,
                     .body = lease_body(&arena, lease, release),
                 },
                 done);
    arena_done(&arena);
}

/* Whether nobody holds it, or we do, or its holder has not been heard of for too long. */
static bool is_free(const struct lease *lease)
{
    struct arena arena = {0};
    struct json *root = object_json(lease->seen, &arena);
    struct str holder = json_str_at(root, "spec.holderIdentity");
    int64_t seconds = json_i64_or(json_at(root, "spec.leaseDurationSeconds"), 0);
    bool mine = str_is(holder, lease->options.identity);
    bool empty = holder.len == 0;

    arena_done(&arena);
    return mine || empty || clock_monotonic_ms() - lease->seen_ms >= seconds * 1000;
}

static void on_read(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);

    if (!lease || lease->held == HELD_LOST || lease->held == HELD_RELEASING)
        return;
    if (result->code == 0) {
        see(lease, result->object);
        if (is_free(lease))
            write_lease(lease, false, on_write);
        else if (lease->held == HELD_YES)
            lost(lease, "another replica holds the lease");
    } else if (result->err->http_status == 404) {
        forget(lease);
        write_lease(lease, false, on_write);
    } else {
        log_warn(lease->options.log, "lease.read", LOG_ERR(result->err));
    }
}

static void read_lease(struct lease *lease)
{
    send_request(lease,
                 &(struct api_request){.verb = API_GET,
                                       .kind = &kind_lease,
                                       .ns = str_from(lease->options.ns),
                                       .name = str_from(lease->options.name)},
                 on_read);
}

/* ---- the round ---- */

static void on_timer(void *user)
{
    struct lease *lease = user;
    int64_t age_ms = clock_monotonic_ms() - lease->renewed_ms;

    if (lease->held == HELD_RELEASING) {
        lease->released(lease->released_user);
        return;
    }
    if (lease->held == HELD_YES && age_ms >= LEASE_RENEW_MS) {
        lost(lease, "it could not be renewed in time");
        return;
    }
    in(lease, LEASE_RETRY_MS);
    if (lease->flight)
        return;
    if (lease->held == HELD_YES && lease->seen)
        write_lease(lease, false, on_write);
    else
        read_lease(lease);
}

static void on_released(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);

    if (!lease)
        return;
    if (result->code)
        log_warn(lease->options.log, "lease.release", LOG_ERR(result->err));
    in(lease, 0);
}

void lease_release(struct lease *lease, void (*done)(void *user), void *user)
{
    bool held = lease->held == HELD_YES;

    lease->held = HELD_RELEASING;
    lease->released = done;
    lease->released_user = user;
    in(lease, held ? RELEASE_MS : 0);
    if (held && lease->seen && !lease->flight)
        write_lease(lease, true, on_released);
}

struct lease *lease_start(const struct lease_options *options)
{
    struct lease *lease = MEM_NEW(struct lease);

    lease->options = *options;
    lease->timer = timer_new(options->loop, lease);
    in(lease, 0);
    return lease;
}

void lease_free(struct lease *lease)
{
    if (!lease)
        return;
    if (lease->flight)
        lease->flight->lease = NULL;
    timer_free(lease->timer);
    forget(lease);
    mem_free(lease);
}
