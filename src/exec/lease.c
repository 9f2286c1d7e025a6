#include "exec/lease.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/time.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#define RELEASE_MS      1500 /* an orderly stop does not wait longer for the server */
#define RELEASE_LOOK_MS 20   /* so often it looks whether the last requests are answered */

enum held {
    HELD_NO,
    HELD_YES,
    HELD_DOUBT, /* it was ours, and may still be */
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
    int64_t seen_ms;     /* when it last changed, as far as the server could tell us */
    int64_t heard_ms;    /* when it was last read */
    bool deaf;           /* since then the server has told nothing */
    int64_t due_ms;      /* of the timer, where there is none */
    int64_t give_up_ms;  /* handing it back */
    bool handed;         /* it has been tried */
    void (*released)(void *user);
    void *released_user;
};

static void on_timer(void *user);

/* On a clock that nobody sets. */
static int64_t now_ms(const struct lease *lease)
{
    return lease->options.now ? lease->options.now(lease->options.user) : clock_monotonic_ms();
}

static void in(struct lease *lease, int64_t wait_ms)
{
    lease->due_ms = now_ms(lease) + wait_ms;
    if (lease->timer)
        timer_in(lease->timer, wait_ms, on_timer);
}

/* `object` is what the server has now. Only a change counts as a sign of life. */
static void see(struct lease *lease, const struct object *object)
{
    if (!object)
        return;
    if (!lease->seen || lease->seen->revision != object->revision)
        lease->seen_ms = now_ms(lease);
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
    bool again = lease->held == HELD_DOUBT;

    if (lease->held == HELD_YES)
        return;
    lease->held = HELD_YES;
    if (again)
        log_info(lease->options.log, "lease.renewed", LOG_C("identity", lease->options.identity));
    else
        log_info(lease->options.log, "lease.won", LOG_C("identity", lease->options.identity));
    lease->options.won(lease->options.user);
}

static void doubt(struct lease *lease)
{
    lease->held = HELD_DOUBT;
    log_warn(lease->options.log, "lease.doubt", LOG_C("identity", lease->options.identity),
             LOG_C("why", "it could not be renewed in time; nothing is written until it is clear "
                          "who leads"));
    lease->options.doubt(lease->options.user);
}

static void lost(struct lease *lease, const char *why)
{
    if (lease->held != HELD_YES && lease->held != HELD_DOUBT)
        return;
    lease->held = HELD_NO;
    log_error(lease->options.log, "lease.lost", LOG_C("identity", lease->options.identity),
              LOG_C("why", why));
    lease->options.lost(lease->options.user);
}

/* ---- requests ---- */

/* One that gets no answer leaves time for another before the doubt. */
static int64_t request_ms(const struct lease *lease)
{
    return lease->options.times.renew_ms * 3 / 5;
}

static void send_request(struct lease *lease, const struct api_request *request, api_done_fn *done)
{
    assert(!lease->flight);
    lease->flight = MEM_NEW(struct flight);
    lease->flight->lease = lease;
    lease->sent_ms = now_ms(lease);
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

static void on_write(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);

    if (!lease)
        return;
    if (lease->held == HELD_RELEASING) { /* a renewal that was under way when we began to stop */
        see(lease, result->object);
        in(lease, 0);
        return;
    }
    if (result->code == 0) {
        see(lease, result->object);
        lease->renewed_ms = lease->sent_ms;
        if (now_ms(lease) - lease->sent_ms < lease->options.times.renew_ms)
            won(lease);
        else
            forget(lease); /* an answer that took so long: others may have waited for it to end */
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

    (void)time_format_micro(lease->options.now ? now_ms(lease) : clock_now_ms(), now);
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
              release ? LEASE_RELEASED_S : lease->options.times.duration_ms / 1000,
              str_dup(arena, str_from(now)),
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
                     .timeout_ms = request_ms(lease),
                 },
                 done);
    arena_done(&arena);
}

/* Whether nobody holds it, or we do, or its holder has not been heard of for too long. */
static bool is_free(const struct lease *lease, bool *ret_mine)
{
    struct arena arena = {0};
    struct json *root = object_json(lease->seen, &arena);
    struct str holder = json_str_at(root, "spec.holderIdentity");
    int64_t seconds = json_i64_or(json_at(root, "spec.leaseDurationSeconds"), 0);
    bool mine = str_is(holder, lease->options.identity);
    bool empty = holder.len == 0;

    arena_done(&arena);
    *ret_mine = mine;
    return mine || empty || now_ms(lease) - lease->seen_ms >= seconds * 1000;
}

static void on_read(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);
    bool mine = false;

    if (!lease || lease->held == HELD_RELEASING)
        return;
    if (result->code && result->err->http_status != 404) {
        lease->deaf = true;
        log_warn(lease->options.log, "lease.read", LOG_ERR(result->err));
        return;
    }
    if (lease->deaf) /* whether the holder renewed it meanwhile, nobody could have told us */
        lease->seen_ms += now_ms(lease) - lease->heard_ms;
    lease->deaf = false;
    lease->heard_ms = now_ms(lease);
    if (result->code) {
        forget(lease);
        lost(lease, "it was deleted");
        write_lease(lease, false, on_write);
        return;
    }
    see(lease, result->object);
    bool is_ours_to_take = is_free(lease, &mine);
    if (!mine)
        lost(lease, "another replica holds it, or has held it");
    if (is_ours_to_take)
        write_lease(lease, false, on_write);
}

static void read_lease(struct lease *lease)
{
    send_request(lease,
                 &(struct api_request){.verb = API_GET,
                                       .kind = &kind_lease,
                                       .ns = str_from(lease->options.ns),
                                       .name = str_from(lease->options.name),
                                       .timeout_ms = request_ms(lease)},
                 on_read);
}

/* ---- the round ---- */

static void on_released(void *user, const struct api_result *result)
{
    struct lease *lease = landed(user);

    if (!lease)
        return;
    if (result->code)
        log_warn(lease->options.log, "lease.release", LOG_ERR(result->err));
    lease->handed = true;
    in(lease, 0);
}

/* Nobody may lead while something of ours is on its way: who follows would not know of it. */
static void hand_back(struct lease *lease)
{
    bool busy = lease->options.busy && lease->options.busy(lease->options.user);

    if (lease->handed || now_ms(lease) >= lease->give_up_ms) {
        if (!lease->handed && busy)
            log_warn(lease->options.log, "lease.kept",
                     LOG_C("why", "requests are not answered; others wait for the lease to end"));
        lease->due_ms = INT64_MAX;
        lease->released(lease->released_user);
        return;
    }
    in(lease, RELEASE_LOOK_MS);
    if (!busy && !lease->flight && lease->seen)
        write_lease(lease, true, on_released);
}

static void on_timer(void *user)
{
    struct lease *lease = user;
    int64_t age_ms = now_ms(lease) - lease->renewed_ms;

    if (lease->held == HELD_RELEASING) {
        hand_back(lease);
        return;
    }
    if (lease->held == HELD_YES && age_ms >= lease->options.times.renew_ms)
        doubt(lease);
    in(lease, lease->options.times.retry_ms);
    if (lease->flight)
        return;
    if (lease->held == HELD_YES && lease->seen)
        write_lease(lease, false, on_write);
    else
        read_lease(lease);
}

int64_t lease_turn(struct lease *lease)
{
    if (now_ms(lease) >= lease->due_ms)
        on_timer(lease);
    return lease->due_ms;
}

void lease_release(struct lease *lease, void (*done)(void *user), void *user)
{
    lease->handed =
        lease->held != HELD_YES && lease->held != HELD_DOUBT; /* there is nothing to hand back */
    lease->held = HELD_RELEASING;
    lease->released = done;
    lease->released_user = user;
    lease->give_up_ms = now_ms(lease) + RELEASE_MS;
    in(lease, 0);
}

int lease_check(const struct lease_times *times, struct err *err)
{
    if (times->duration_ms % 1000)
        return err_set(err, -EINVAL,
                       "--leader-elect-lease-duration: a Lease has whole seconds, not %lld ms",
                       (long long)times->duration_ms);
    if (times->renew_ms < 2 * times->retry_ms)
        return err_set(err, -EINVAL,
                       "--leader-elect-renew-deadline: it must be at least twice "
                       "--leader-elect-retry-period, or one lost answer stops the leader");
    if (times->duration_ms < times->renew_ms + times->retry_ms + LEASE_GAP_MS)
        return err_set(err, -EINVAL,
                       "--leader-elect-lease-duration: it must be at least "
                       "--leader-elect-renew-deadline, --leader-elect-retry-period and %d s, or "
                       "another replica could lead while requests of the last leader arrive",
                       LEASE_GAP_MS / 1000);
    return 0;
}

struct lease *lease_start(const struct lease_options *options)
{
    struct lease *lease = MEM_NEW(struct lease);

    lease->options = *options;
    if (!options->times.duration_ms)
        lease->options.times =
            (struct lease_times){LEASE_DURATION_MS, LEASE_RENEW_MS, LEASE_RETRY_MS};
    if (options->loop)
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
