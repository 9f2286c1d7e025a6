#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/authz.h"
#include "server/page_parts.h"
#include "server/queue.h"
#include "server/rbac.h"
#include "server/request.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The page's change stream: several watches in one answer, so that a tab holds one connection.
 *
 *     GET /ui/stream?watch=v1/nodes&watch=scheduling.run.ai/v2/queues&namespace=team
 *
 * A line of JSON each: {"w":0,"t":"ADDED","o":{...}}, w being the place of the watch in the address;
 * SYNCED when all there is was told; FORBIDDEN and ABSENT, with words, for a watch that the viewer
 * may not have or whose kind is not known; PING now and then; AGAIN at the end, when the tab fell
 * behind or may see something else than before: it asks again. */
#define WATCHES_MAX 24
#define EVENTS_MAX  4096
#define PING_MS     15000 /* and whether the session still holds */

struct page_watch {
    struct page_stream *stream;
    struct api_watch *watch; /* NULL: not allowed, or not known */
    const struct kind *kind;
    size_t number;
};

struct page_stream {
    struct request *request;
    struct http_exchange *x;
    struct page_watch watches[WATCHES_MAX];
    size_t count;
    size_t unsynced;
    struct queue queue; /* an item's number: that of its watch; CLOSED: AGAIN */
    struct timer *timer;
    struct timer *pace; /* set: it was told something less than PAGE_PACE_MS ago */
    struct str ns;
    bool over;
};

static void stream_stop(struct page_stream *stream)
{
    struct api *api = stream->request->server->api;

    for (size_t i = 0; i < stream->count; i++)
        if (stream->watches[i].watch) {
            api_watch_stop(api, stream->watches[i].watch);
            stream->watches[i].watch = NULL;
        }
}

static void stream_free(struct page_stream *stream)
{
    if (stream->over)
        return;
    stream->over = true;
    stream_stop(stream);
    queue_done(&stream->queue);
    timer_free(stream->timer);
    timer_free(stream->pace);
}

/* All that waits is dropped for one line: the tab lists again. */
static void stream_again(struct page_stream *stream)
{
    stream_stop(stream);
    queue_clear(&stream->queue);
    queue_push(&stream->queue, (struct queue_item){.event = API_CLOSED});
}

static void stream_pump(struct page_stream *stream)
{
    if (!request_has_room(stream->request) && queue_count(&stream->queue))
        stream_again(stream);
    bool over = queue_pump(&stream->queue, stream->x, page_line_write,
                           page_lines(stream->request->server->page));
    (void)request_has_room(stream->request);
    if (!over)
        return;
    stream_free(stream);
    http_end(stream->x);
}

static void on_pace(void *user)
{
    struct page_stream *stream = user;

    if (!queue_count(&stream->queue))
        return;
    timer_in(stream->pace, PAGE_PACE_MS, on_pace);
    stream_pump(stream);
}

static void on_change(void *user, const struct api_change *change)
{
    struct page_watch *watch = user;
    struct page_stream *stream = watch->stream;

    if (change->event == API_BOOKMARK)
        return;
    if (change->event == API_CLOSED) {
        stream_again(stream);
        stream_pump(stream);
        return;
    }
    queue_push(&stream->queue, (struct queue_item){change->event, watch->number, change->object});
    if (change->event == API_SYNCED && stream->unsynced && --stream->unsynced == 0)
        queue_mark_initial(&stream->queue);
    if (!stream->unsynced && queue_is_behind(&stream->queue, EVENTS_MAX))
        stream_again(stream);
    else if (!stream->unsynced && timer_is_set(stream->pace))
        return;
    timer_in(stream->pace, PAGE_PACE_MS, on_pace);
    stream_pump(stream);
}

static void on_drain(struct http_exchange *x)
{
    struct page_stream *stream = ((struct request *)x->user)->stream;

    if (stream && !stream->over)
        stream_pump(stream);
}

static void on_close(struct http_exchange *x)
{
    struct page_stream *stream = ((struct request *)x->user)->stream;

    if (stream)
        stream_free(stream);
}

/* NULL: the viewer may list and watch it; else the sentence of a refusal. */
static const char *watch_refusal(const struct page_stream *stream,
                                 struct arena *arena,
                                 const struct user *viewer,
                                 const struct kind *kind)
{
    const struct authz *authz = stream->request->server->authz;
    static const char *const verbs[] = {"list", "watch"};

    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        struct rbac_request wanted = {.verb = str_from(verbs[i]),
                                      .group = str_from(kind->group),
                                      .resource = str_from(kind->plural),
                                      .ns = kind->namespaced ? stream->ns : STR("")};

        if (!authz_allows(authz, arena, viewer, &wanted))
            return str_c(arena, authz_sentence(arena, viewer, &wanted));
    }
    return NULL;
}

/* Rights may have been taken away, or the session is over. A tab may stay for weeks: what is looked
 * up here is not kept with the request. */
static void on_ping(void *user)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct page_stream *stream = user;
    struct user viewer = {0};
    bool holds = page_viewer(stream->request, &arena, &viewer);

    for (size_t i = 0; holds && i < stream->count; i++)
        holds = !stream->watches[i].watch ||
                !watch_refusal(stream, &arena, &viewer, stream->watches[i].kind);
    if (!holds)
        stream_again(stream);
    else if (!queue_count(&stream->queue))
        queue_push(&stream->queue, (struct queue_item){.event = API_BOOKMARK});
    stream_pump(stream);
}

/* "v1/pods", "scheduling.run.ai/v2/queues". */
static const struct kind *watch_kind(struct request *request, struct str name)
{
    struct str rest = name;
    struct str parts[3] = {STR(""), STR(""), STR("")};
    size_t count = 0;

    while (count < 3 && str_cut(&rest, '/', &parts[count]))
        count++;
    if (count == 2)
        return kinds_by_plural(request->server->api->kinds, STR(""), parts[0], parts[1]);
    return count == 3 ? kinds_by_plural(request->server->api->kinds, parts[0], parts[1], parts[2])
                      : NULL;
}

static void watch_start(struct page_stream *stream, size_t number, struct str name)
{
    struct request *request = stream->request;
    struct page_watch *watch = &stream->watches[number];
    const struct kind *kind = watch_kind(request, name);

    *watch = (struct page_watch){.stream = stream, .kind = kind, .number = number};
    if (!kind) {
        page_line_tell(stream->x, number, "ABSENT",
                       str_printf(request_arena(request), "there is no kind \"" STR_FMT "\" here",
                                  STR_ARG(str_sub(name, 0, 128))));
        return;
    }
    const char *refusal = watch_refusal(stream, request_arena(request), &request->user, kind);
    if (refusal) {
        page_line_tell(stream->x, number, "FORBIDDEN", str_from(refusal));
        return;
    }
    stream->unsynced++;
    watch->watch = api_watch(
        request->server->api,
        &(struct api_watch_request){.kind = kind, .ns = kind->namespaced ? stream->ns : STR("")},
        on_change, watch);
}

void page_stream_begin(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str names[WATCHES_MAX];
    size_t count = http_query_all(arena, query, "watch", names, WATCHES_MAX);

    if (!count || count > WATCHES_MAX) {
        request_fail(request, 400, "BadRequest", "watch: name 1 to %d kinds, such as v1/pods",
                     WATCHES_MAX);
        return;
    }
    struct page_stream *stream = ARENA_NEW(arena, struct page_stream);
    stream->request = request;
    stream->x = request->x;
    stream->ns = http_query(arena, query, "namespace");
    if (!stream->ns.p)
        stream->ns = STR("");
    stream->count = count;
    request->stream = stream;
    request->x->on_drain = on_drain;
    request->x->on_close = on_close;
    http_begin(request->x, 200, "application/x-ndjson");
    stream->queue.pending_bytes_max = PAGE_PENDING_BYTES_MAX;
    stream->pace = timer_new(request->server->loop, stream);
    for (size_t i = 0; i < count; i++)
        watch_start(stream, i, names[i]);
    stream->timer = timer_new(request->server->loop, stream);
    timer_every(stream->timer, PING_MS, PING_MS, on_ping);
}
