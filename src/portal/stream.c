#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "kube/client.h"
#include "portal/portal_internal.h"
#include "server/page_parts.h"
#include "server/queue.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The change stream of a tab, as server/page_stream.c describes its lines. What it tells comes from
 * the operator's informers, which all tabs share; each kind only when the API server has said that
 * the viewer may list and watch it, in the namespace that he chose or in all. */
#define WATCHES_MAX 24
#define EVENTS_MAX  4096
#define PING_MS     15000
#define RIGHTS_MS   60000 /* rights that were taken away are noticed after this */
#define SILENT_MS   20000 /* the operator itself has not read a kind by then: the page says so */

/* What the page shows. Whatever else a viewer may read is no reason for the operator to hold it. */
static const char *const shown[] = {
    "v1/nodes",
    "v1/pods",
    "scheduling.run.ai/v2/queues",
    "scheduling.run.ai/v2alpha2/podgroups",
    "torchrun.ai/v1alpha1/torchrunjobs",
    "kubeflow.org/v1/pytorchjobs",
    "kubeflow.org/v1/tfjobs",
    "kubeflow.org/v1/xgboostjobs",
    "kubeflow.org/v1/jaxjobs",
    "kubeflow.org/v1/paddlejobs",
    "kubeflow.org/v1/mpijobs",
    "trainer.kubeflow.org/v1alpha1/trainjobs",
    "jobset.x-k8s.io/v1alpha2/jobsets",
    "batch/v1/jobs",
    "batch.tensorstack.dev/v1beta1/pytorchtrainingjobs",
    "kai.scheduler/v1alpha1/topologies",
};

enum check {
    CHECK_LIST,
    CHECK_WATCH,
    CHECKS,
};
static const char *const check_verbs[CHECKS] = {"list", "watch"};

struct tab;
struct tab_check {
    struct tab_watch *watch;
    struct client_call *call; /* NULL: answered */
};
struct tab_watch {
    struct tab *tab;
    const struct kind *kind;
    struct api_watch *watch; /* NULL: not allowed, or not yet */
    struct tab_check checks[CHECKS];
    size_t number;
    unsigned allowed; /* of the checks of this round */
    bool told;        /* SYNCED, or why not */
};

struct tab {
    struct visit *visit;
    struct http_exchange *x;
    struct tab_watch watches[WATCHES_MAX];
    size_t count;
    size_t untold;
    struct queue queue;
    struct timer *timer;
    struct timer *pace; /* set: it was told something less than PAGE_PACE_MS ago */
    struct str ns;
    int64_t turns; /* of the timer */
    bool over;
};

static void tab_stop(struct tab *tab)
{
    for (size_t i = 0; i < tab->count; i++) {
        struct tab_watch *watch = &tab->watches[i];

        for (size_t k = 0; k < CHECKS; k++) {
            client_cancel(watch->checks[k].call);
            watch->checks[k].call = NULL;
        }
        if (watch->watch)
            api_watch_stop(tab->visit->portal->api, watch->watch);
        watch->watch = NULL;
    }
}

static void tab_free(struct tab *tab)
{
    if (tab->over)
        return;
    tab->over = true;
    tab_stop(tab);
    queue_done(&tab->queue);
    timer_free(tab->timer);
    timer_free(tab->pace);
    tab->visit->portal->streams--;
}

static void tab_pump(struct tab *tab)
{
    if (!queue_pump(&tab->queue, tab->x, page_line_write, &tab->visit->portal->lines))
        return;
    tab_free(tab);
    http_end(tab->x);
}

/* All that waits is dropped for one line: the tab lists again. */
static void tab_again(struct tab *tab)
{
    tab_stop(tab);
    queue_clear(&tab->queue);
    queue_push(&tab->queue, (struct queue_item){.event = API_CLOSED});
    tab_pump(tab);
}

static void on_pace(void *user)
{
    struct tab *tab = user;

    if (!queue_count(&tab->queue))
        return;
    timer_in(tab->pace, PAGE_PACE_MS, on_pace);
    tab_pump(tab);
}

static void watch_told(struct tab_watch *watch)
{
    struct tab *tab = watch->tab;

    if (watch->told)
        return;
    watch->told = true;
    if (tab->untold && --tab->untold == 0)
        queue_mark_initial(&tab->queue);
}

static void on_change(void *user, const struct api_change *change)
{
    struct tab_watch *watch = user;
    struct tab *tab = watch->tab;

    if (change->event == API_BOOKMARK || change->event == API_CLOSED)
        return;
    if (change->object && watch->kind->namespaced && tab->ns.len &&
        !str_eq(change->object->ns, tab->ns))
        return;
    queue_push(&tab->queue, (struct queue_item){change->event, watch->number, change->object});
    if (change->event == API_SYNCED)
        watch_told(watch);
    if (!tab->untold && queue_is_behind(&tab->queue, EVENTS_MAX)) {
        tab_again(tab);
        return;
    }
    if (!tab->untold && timer_is_set(tab->pace))
        return;
    timer_in(tab->pace, PAGE_PACE_MS, on_pace);
    tab_pump(tab);
}

/* ---- rights ---- */

static void watch_refuse(struct tab_watch *watch, const char *word, struct str text)
{
    page_line_tell(watch->tab->x, watch->number, word, text);
    watch_told(watch);
}

static void watch_open(struct tab_watch *watch)
{
    if (watch->watch || watch->allowed < CHECKS)
        return;
    watch->watch = api_watch(watch->tab->visit->portal->api,
                             &(struct api_watch_request){.kind = watch->kind}, on_change, watch);
}

static bool review_allows(const struct transport_reply *reply)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *review = NULL;

    return json_parse(&arena, reply->body, &review, NULL) == 0 &&
           json_bool_or(json_at(review, "status.allowed"), false);
}

static void on_reviewed(void *user, const struct transport_reply *reply)
{
    struct tab_check *check = user;
    struct tab_watch *watch = check->watch;
    struct tab *tab = watch->tab;
    struct arena *arena = &tab->x->arena;

    check->call = NULL;
    if (!reply->code && reply->status == 401)
        visit_sign_out(tab->visit);
    if (reply->code ||
        reply->status >= 300) { /* not known: the tab asks again, less and less often */
        tab_again(tab);
        return;
    }
    if (review_allows(reply)) {
        watch->allowed++;
        watch_open(watch);
    } else if (watch->watch) { /* no longer */
        tab_again(tab);
    } else if (!watch->told) {
        watch_refuse(watch, "FORBIDDEN",
                     str_printf(arena, "you may not %s %s%s%s%s",
                                check_verbs[check - watch->checks], watch->kind->plural,
                                *watch->kind->group ? "." : "", watch->kind->group,
                                tab->ns.len ? " in this namespace" : " in all namespaces"));
    }
}

static void watch_check(struct tab_watch *watch)
{
    struct tab *tab = watch->tab;
    _cleanup_(arena_done) struct arena arena = {0};

    watch->allowed = 0;
    for (size_t i = 0; i < CHECKS; i++) {
        struct json *body = json_make(
            &arena,
            "{apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: "
            "{resourceAttributes: {verb: $, group: $, resource: $, namespace: $?}}}",
            check_verbs[i], watch->kind->group, watch->kind->plural,
            watch->kind->namespaced ? tab->ns : STR_NONE);

        client_cancel(watch->checks[i].call);
        watch->checks[i].watch = watch;
        watch->checks[i].call = upstream_send(
            tab->visit, &(struct upstream_request){
                            .method = "POST",
                            .path = STR("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
                            .content_type = "application/json",
                            .body = json_text(&arena, body),
                            .done = on_reviewed,
                            .user = &watch->checks[i],
                        });
    }
}

/* ---- a tab ---- */

static void tab_look_for_silent(struct tab *tab)
{
    for (size_t i = 0; i < tab->count; i++)
        if (tab->watches[i].watch && !tab->watches[i].told)
            watch_refuse(&tab->watches[i], "ABSENT",
                         str_printf(&tab->x->arena,
                                    "the operator has not read %s yet; its /readyz says why",
                                    tab->watches[i].kind->plural));
}

static void on_turn(void *user)
{
    struct tab *tab = user;
    int64_t rounds = RIGHTS_MS / PING_MS;

    tab->turns++;
    if (tab->turns * PING_MS >= SILENT_MS)
        tab_look_for_silent(tab);
    if (!visit_holds(tab->visit)) {
        tab_again(tab);
        return;
    }
    for (size_t i = 0; tab->turns % rounds == 0 && i < tab->count; i++)
        if (tab->watches[i].watch)
            watch_check(&tab->watches[i]);
    if (!queue_count(&tab->queue))
        queue_push(&tab->queue, (struct queue_item){.event = API_BOOKMARK});
    tab_pump(tab);
}

static void on_drain(struct http_exchange *x)
{
    struct tab *tab = ((struct visit *)x->user)->request.stream;

    if (!tab->over)
        tab_pump(tab);
}

static void on_close(struct http_exchange *x)
{
    tab_free(((struct visit *)x->user)->request.stream);
}

/* "v1/pods", "scheduling.run.ai/v2/queues": of those that are shown. */
static const struct kind *watch_kind(const struct portal *portal, struct str name)
{
    struct str rest = name;
    struct str parts[3] = {STR(""), STR(""), STR("")};
    size_t count = 0;
    size_t i = 0;

    while (i < COUNT_OF(shown) && !str_is(name, shown[i]))
        i++;
    if (i == COUNT_OF(shown))
        return NULL;
    while (count < 3 && str_cut(&rest, '/', &parts[count]))
        count++;
    if (count == 2)
        return kinds_by_plural(portal->api->kinds, STR(""), parts[0], parts[1]);
    return kinds_by_plural(portal->api->kinds, parts[0], parts[1], parts[2]);
}

void stream_begin(struct visit *visit)
{
    struct http_exchange *x = visit->request.x;
    struct arena *arena = &x->arena;
    struct str names[WATCHES_MAX];
    size_t count = http_query_all(arena, x->head.query, "watch", names, WATCHES_MAX);

    if (!count || count > WATCHES_MAX) {
        request_fail(&visit->request, 400, "BadRequest",
                     "watch: name 1 to %d kinds, such as v1/pods", WATCHES_MAX);
        return;
    }
    if (visit->portal->streams >= PORTAL_STREAMS_MAX) {
        request_fail(&visit->request, 429, "TooManyRequests",
                     "%d tabs are open here, which is as many as there may be; close some",
                     PORTAL_STREAMS_MAX);
        return;
    }
    struct tab *tab = ARENA_NEW(arena, struct tab);
    tab->visit = visit;
    tab->x = x;
    tab->ns = http_query(arena, x->head.query, "namespace");
    tab->count = tab->untold = count;
    visit->request.stream = tab;
    visit->portal->streams++;
    x->on_drain = on_drain;
    x->on_close = on_close;
    http_begin(x, 200, "application/x-ndjson");
    tab->queue.pending_bytes_max = PAGE_PENDING_BYTES_MAX;
    tab->pace = timer_new(visit->portal->loop, tab);
    tab->timer = timer_new(visit->portal->loop, tab);
    timer_every(tab->timer, PING_MS, PING_MS, on_turn);
    for (size_t i = 0; i < count; i++) {
        struct tab_watch *watch = &tab->watches[i];

        *watch = (struct tab_watch){
            .tab = tab, .number = i, .kind = watch_kind(visit->portal, names[i])};
        if (watch->kind)
            watch_check(watch);
        else
            watch_refuse(watch, "ABSENT",
                         str_printf(arena, "the page does not show \"" STR_FMT "\"",
                                    STR_ARG(str_sub(names[i], 0, 128))));
    }
}
