#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/operator.h"
#include "control/cluster/coexist.h"
#include "control/core/controllers.h"
#include "exec/event.h"
#include "kube/kube.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Which other operators run here (control/cluster/coexist.h), seen through the watch of pods that
 * there is anyway. One counts as gone when none of its pods was there for OTHERS_GONE_MS: while it
 * is being updated it may have none for a moment, and a kind that changes hands twice gains
 * nothing. */

#define OTHERS_GONE_MS 30000
#define UID_BYTES      64

struct seen {
    char uid[UID_BYTES];
    int other;
};

struct operator_others {
    struct operator* op;
    struct api_watch *watch;
    struct timer *timer;
    void (*changed)(struct operator* op);
    VEC(struct seen) pods; /* of theirs, as far as they run */
    bool left[COEXIST_OTHERS];
    int64_t gone_ms[COEXIST_OTHERS]; /* monotonic: since when none is there; 0: there are some */
    bool synced;
};

static bool is_there(const struct operator_others *others, int other)
{
    for (size_t i = 0; i < others->pods.count; i++)
        if (others->pods.items[i].other == other)
            return true;
    return false;
}

static struct str names_of(const struct coexist_other *other, struct buf *buf)
{
    for (size_t i = 0; other->controllers[i]; i++)
        buf_addf(buf, "%s%s", i ? "," : "", other->controllers[i]);
    if (other->schedules)
        buf_addf(buf, ",scheduler");
    return buf_str(buf);
}

static void tell_left(const struct operator_others *others, int other, const struct object *pod)
{
    _cleanup_(buf_done) struct buf names = {0};
    _cleanup_(buf_done) struct buf words = {0};
    const struct coexist_other *it = &coexist_others[other];
    struct str list = names_of(it, &names);

    log_warn(&others->op->log, "others.left", LOG_C("operator", it->name),
             LOG_STR("controllers", list), LOG_STR("namespace", pod->ns),
             LOG_STR("pod", pod->name));
    buf_addf(&words,
             "This pod runs %s, so Muster leaves to it what it could do itself: " STR_FMT
             ". Remove one of the two, or start Muster with --other-operators=ignore",
             it->name, STR_ARG(list));
    event_send(kube_api(others->op->kube), &(struct event){.kind = &kind_pod,
                                                           .ns = pod->ns,
                                                           .name = pod->name,
                                                           .uid = pod->uid,
                                                           .reason = STR("LeftToOtherOperator"),
                                                           .message = buf_str(&words),
                                                           .component = "muster",
                                                           .now_ms = clock_now_ms()});
}

static void tell_taken(const struct operator_others *others, int other)
{
    _cleanup_(buf_done) struct buf names = {0};

    log_info(&others->op->log, "others.gone", LOG_C("operator", coexist_others[other].name),
             LOG_STR("controllers", names_of(&coexist_others[other], &names)));
}

/* ---- coming and going ---- */

static void on_timer(void *user);

static void wait_for_gone(struct operator_others *others)
{
    int64_t next = INT64_MAX;
    int64_t now_ms = clock_monotonic_ms();

    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        if (others->left[i] && others->gone_ms[i] && others->gone_ms[i] + OTHERS_GONE_MS < next)
            next = others->gone_ms[i] + OTHERS_GONE_MS;
    if (next == INT64_MAX)
        timer_cancel(others->timer);
    else
        timer_in(others->timer, next - now_ms, on_timer);
}

static void on_timer(void *user)
{
    struct operator_others *others = user;
    int64_t now_ms = clock_monotonic_ms();
    bool changed = false;

    for (int i = 0; i < COEXIST_OTHERS; i++) {
        if (!others->left[i] || !others->gone_ms[i] || now_ms - others->gone_ms[i] < OTHERS_GONE_MS)
            continue;
        others->left[i] = false;
        changed = true;
        tell_taken(others, i);
    }
    wait_for_gone(others);
    if (changed)
        others->changed(others->op);
}

static void forget(struct operator_others *others, const struct object *pod)
{
    for (size_t i = 0; i < others->pods.count; i++) {
        int other = others->pods.items[i].other;

        if (!str_is(pod->uid, others->pods.items[i].uid))
            continue;
        VEC_REMOVE_SWAP(&others->pods, i);
        if (!is_there(others, other))
            others->gone_ms[other] = clock_monotonic_ms();
        wait_for_gone(others);
        return;
    }
}

static bool learn(struct operator_others *others, const struct object *pod, int other)
{
    struct seen seen = {.other = other};
    bool news = !others->left[other];

    forget(others, pod);
    if (pod->uid.len >= sizeof(seen.uid))
        return false;
    memcpy(seen.uid, pod->uid.p, pod->uid.len);
    VEC_PUSH(NULL, &others->pods, seen);
    others->gone_ms[other] = 0;
    others->left[other] = true;
    if (news)
        tell_left(others, other, pod);
    return news;
}

static void on_change(void *user, const struct api_change *change)
{
    struct operator_others *others = user;
    bool changed = false;
    int other;

    switch (change->event) {
    case API_ADDED:
    case API_MODIFIED:
        other = coexist_find(change->object);
        if (other < 0)
            forget(others, change->object);
        else
            changed = learn(others, change->object, other);
        break;
    case API_DELETED: forget(others, change->object); break;
    case API_SYNCED:
        changed = !others->synced;
        others->synced = true;
        break;
    case API_BOOKMARK:
    case API_CLOSED: break;
    }
    if (changed && others->synced)
        others->changed(others->op);
}

void operator_others_start(struct operator* op, void (*changed)(struct operator* op))
{
    struct operator_others *others = MEM_NEW(struct operator_others);

    others->op = op;
    others->changed = changed;
    others->timer = timer_new(&op->loop, others);
    op->others = others;
    others->watch = api_watch(kube_api(op->kube), &(struct api_watch_request){.kind = &kind_pod},
                              on_change, others);
}

bool operator_leaves(const struct operator* op, size_t other)
{
    return op->others && op->others->left[other];
}

void operator_others_stop(struct operator* op)
{
    struct operator_others *others = op->others;

    if (!others)
        return;
    op->others = NULL;
    api_watch_stop(kube_api(op->kube), others->watch);
    timer_free(others->timer);
    VEC_DONE(&others->pods);
    mem_free(others);
}
