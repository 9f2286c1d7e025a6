#include "kube/source.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/feed.h"
#include "kube/kube_internal.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define FOLLOW_MIN_S    300 /* the server is asked to end a watch after 5 to 10 minutes */
#define FOLLOW_SPREAD_S 300
/* One that has not ended so much later is held open by something between us and the server. */
#define FOLLOW_GRACE_S  30
#define FOLLOW_SHORT_MS 1000 /* a stream that ended earlier is a failure, not a time-out */
/* A kind whose objects we know is believed to be gone only when the server says so for this long:
 * an API server that is starting may not serve its custom resources yet. */
#define GONE_MS 10000
#define SOON_MS 1000 /* until then it is asked so often, as it may be back */
/* A stream that was to begin with everything there is, and has said nothing for so long: the server
 * does not do that after all. */
#define INITIAL_MS 60000

enum phase {
    PHASE_LIST,    /* what there is, page by page, or by INITIAL where the server does that */
    PHASE_INITIAL, /* what there is as the first events of a watch, up to a marked bookmark */
    PHASE_FOLLOW,
};

struct known {
    const struct object *object;
    uint64_t epoch; /* of the list that last had it */
    char key[];
};

struct source {
    struct kube *kube;
    const struct kind *kind;
    struct buf ns;
    struct buf label_selector;
    struct buf field_selector;
    api_watch_fn *tell;
    void *user;
    struct client_call *call;
    struct timer *timer;
    enum phase phase;
    bool informer;
    bool synced;  /* SYNCED was told */
    bool stopped; /* while inside a callback: free when it returns */
    bool closed;  /* CLOSED was told */
    unsigned int busy;
    struct map known;
    uint64_t epoch;
    uint64_t revision; /* everything up to here has been told */
    uint64_t list_revision;
    struct feed_page page;
    struct feed_stream stream;
    int64_t started_ms;
    int64_t backoff_ms;
    int64_t missing_since_ms; /* the server says it does not have the kind; 0: it has */
};

static void start(struct source *source);

/* ---- telling ---- */

static void tell(struct source *source, const struct api_change *change)
{
    if (source->stopped || source->closed)
        return;
    source->busy++;
    source->tell(source->user, change);
    source->busy--;
}

static void known_free(struct known *known)
{
    object_unref(known->object);
    mem_free(known);
}

static struct str object_key(struct buf *buf, const struct object *object)
{
    buf_clear(buf);
    buf_add(buf, object->ns);
    buf_addc(buf, '/');
    buf_add(buf, object->name);
    return buf_str(buf);
}

/* Not an informer: nothing is remembered. */
static void pass_on(struct source *source, enum api_event event, const struct object *object)
{
    tell(source,
         &(struct api_change){.event = event, .object = object, .revision = object->revision});
}

/* What there is is told once more, page by page. */
static bool is_relisting(const struct source *source)
{
    return source->synced && source->phase != PHASE_FOLLOW;
}

static void forget(struct source *source, struct known *known, const struct object *last)
{
    (void)map_remove(&source->known, str_from(known->key));
    tell(source, &(struct api_change){.event = API_DELETED,
                                      .object = last ? last : known->object,
                                      .revision = last ? last->revision : source->list_revision,
                                      .unordered = is_relisting(source)});
    known_free(known);
}

/* The object is there, in this state. */
static void learn(struct source *source, const struct object *object)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct str key = object_key(&text, object);
    struct known *known = map_get(&source->known, key);
    const struct object *previous = known ? known->object : NULL;

    /* Deleted and made again while we did not look: two objects, not one that changed. */
    if (known && !str_eq(previous->uid, object->uid)) {
        forget(source, known, NULL);
        known = NULL;
        previous = NULL;
    }
    if (known) {
        known->epoch = source->epoch;
        if (previous->revision == object->revision)
            return;
        known->object = object_ref(object);
    } else {
        known = mem_alloc(sizeof(*known) + key.len + 1);
        memcpy(known->key, key.p, key.len);
        known->epoch = source->epoch;
        known->object = object_ref(object);
        map_set(&source->known, str_from(known->key), known);
    }
    tell(source, &(struct api_change){.event = previous ? API_MODIFIED : API_ADDED,
                                      .object = object,
                                      .previous = previous,
                                      .revision = object->revision,
                                      .unordered = is_relisting(source)});
    object_unref(previous);
}

static void unlearn(struct source *source, const struct object *object)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct known *known = map_get(&source->known, object_key(&text, object));

    if (known)
        forget(source, known, object);
}

/* ---- trying again ---- */

static void source_release(struct source *source);

static void on_timer(void *user)
{
    start(user);
}

static void again_in(struct source *source, int64_t wait_ms)
{
    timer_in(source->timer, wait_ms, on_timer);
}

static void back_off(struct source *source, const struct err *err)
{
    source->kube->stats.watch_failures++;
    again_in(source, kube_jitter(source->kube,
                                 kube_back_off(&source->backoff_ms, err ? err->http_status : 0)));
}

void source_hurry(struct source *source)
{
    bool waits = !source->call && source->backoff_ms != KUBE_BACKOFF_MIN_MS;

    if (source->stopped || source->closed || source->missing_since_ms)
        return;
    source->backoff_ms = KUBE_BACKOFF_MIN_MS;
    if (waits)
        again_in(source, kube_jitter(source->kube, KUBE_BACKOFF_MIN_MS));
}

static void list_again(struct source *source)
{
    source->phase = PHASE_LIST;
    buf_clear(&source->page.continue_token);
    if (source->synced && !source->missing_since_ms)
        source->kube->stats.relists++;
}

static void close_with(struct source *source, const struct err *err)
{
    tell(source,
         &(struct api_change){.event = API_CLOSED, .revision = source->revision, .err = err});
    source->closed = true;
}

/* Once for all watches while a server that was away finds its rules again; what lasts is tried
 * again soon, and said then. */
static void log_failure(struct source *source, const struct err *err)
{
    bool settling = client_is_settling(source->kube->client);

    refusals_note(&source->kube->refusals, REFUSALS_WATCH, source->kind, false, err);
    if (settling && source->kube->settling_said)
        return;
    source->kube->settling_said = settling;
    log_warn(source->kube->log, "watch.failed", LOG_C("resource", source->kind->plural),
             LOG_C("group", source->kind->group), LOG_I64("status", err->http_status),
             LOG_ERR(err));
}

/* ---- listing ---- */

static void tell_synced(struct source *source)
{
    if (source->synced)
        return;
    source->synced = true;
    tell(source, &(struct api_change){.event = API_SYNCED, .revision = source->revision});
}

/* The last page is in: what no page had is gone. */
static void list_done(struct source *source)
{
    source->revision = source->list_revision;
    MAP_FOREACH(&source->known, entry) {
        struct known *known = entry->value;

        if (known->epoch != source->epoch)
            forget(source, known, NULL);
        if (source->stopped)
            return;
    }
    source->phase = PHASE_FOLLOW;
    refusals_note(&source->kube->refusals, REFUSALS_WATCH, source->kind, false, NULL);
    kube_settles(source->kube);
    tell_synced(source);
}

static bool on_item(void *user, const struct object *object)
{
    struct source *source = user;

    learn(source, object);
    return !source->stopped;
}

static int take_page(struct source *source, struct str body, struct err *err)
{
    int r = feed_page_read(source->kind, body, &source->page, on_item, source, err);

    source->list_revision = source->page.revision;
    return r;
}

/* The server does not know the kind: as good as empty, until it does. */
static void kind_missing(struct source *source)
{
    int64_t now_ms = clock_monotonic_ms();
    bool was_there = source->synced;

    if (!source->missing_since_ms)
        source->missing_since_ms = now_ms;
    bool gone = now_ms - source->missing_since_ms >= GONE_MS;
    if (source->known.count == 0 || gone)
        list_done(source);
    if (source->stopped)
        return;
    list_again(source);
    again_in(source, kube_jitter(source->kube, was_there && !gone ? SOON_MS : KUBE_RELIST_MS));
}

static void on_list(void *user, const struct transport_reply *reply)
{
    struct source *source = user;
    struct arena arena = {0};
    struct api_result result = {0};
    struct err err = {0};

    source->call = NULL;
    source->busy++;
    if (reply->code || reply->status != 200) {
        kube_failure(&arena, reply, &result, &err);
        if (reply->status == 404) {
            kind_missing(source);
        } else {
            if (reply->status != 410) /* the continue token is too old: from the first page */
                log_failure(source, &err);
            list_again(source);
            back_off(source, &err);
        }
    } else {
        source->missing_since_ms = 0;
        if (take_page(source, reply->body, &err) < 0) {
            log_failure(source, &err);
            list_again(source);
            back_off(source, &err);
        } else if (!source->stopped) {
            if (source->page.continue_token.len == 0) {
                source->kube->stats.listed++;
                list_done(source);
            }
            if (!source->stopped)
                start(source);
        }
    }
    arena_done(&arena);
    source->busy--;
    if (source->stopped && !source->busy)
        source_release(source);
}

static void add_selectors(struct source *source, struct buf *path, bool *first)
{
    kube_path(path, source->kind, buf_str(&source->ns), STR_NONE, STR_NONE);
    kube_query(path, first, "labelSelector", buf_str(&source->label_selector));
    kube_query(path, first, "fieldSelector", buf_str(&source->field_selector));
}

static void add_number(struct buf *path, bool *first, const char *key, uint64_t value)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "%" PRIu64, value);
    kube_query(path, first, key, str_from(number));
}

static void send_list(struct source *source)
{
    _cleanup_(buf_done) struct buf path = {0};
    bool first = true;

    if (source->page.continue_token.len == 0)
        source->epoch++;
    add_selectors(source, &path, &first);
    add_number(&path, &first, "limit", KUBE_PAGE);
    kube_query(&path, &first, "continue", buf_str(&source->page.continue_token));
    source->call = client_send(source->kube->client,
                               &(struct client_request){
                                   .class = LIMITER_READ,
                                   .method = "GET",
                                   .path = buf_str(&path),
                                   .accept = feed_accept(source->kind, source->kube->whole),
                                   .done = on_list,
                                   .user = source,
                               });
}

/* ---- following ---- */

static void take_object(struct source *source, enum api_event event, const struct object *object)
{
    if (!source->informer)
        pass_on(source, event, object);
    else if (event == API_DELETED)
        unlearn(source, object);
    else
        learn(source, object);
    /* What there is comes in no order: only the bookmark behind it says how far that is. */
    if (source->phase == PHASE_FOLLOW && object->revision > source->revision)
        source->revision = object->revision;
}

static void take_bookmark(struct source *source, const struct feed_event *event)
{
    if (source->phase == PHASE_INITIAL) {
        if (!event->initial_end)
            return;
        timer_cancel(source->timer);
        source->list_revision = event->revision;
        source->kube->stats.streamed++;
        list_done(source);
        return;
    }
    source->revision = event->revision;
    tell(source, &(struct api_change){.event = API_BOOKMARK, .revision = source->revision});
}

/* One event of the stream. -ESTALE: the revision is too old. */
static int take_message(struct source *source, struct str message, struct err *err)
{
    static const enum api_event events[] = {API_ADDED, API_MODIFIED, API_DELETED};
    struct feed_event event;
    int r = feed_event_read(source->kind, source->kube->whole, message, &event, err);

    if (r < 0)
        return r;
    switch (event.type) {
    case FEED_ADDED:
    case FEED_MODIFIED:
    case FEED_DELETED:
        take_object(source, events[event.type], event.object);
        object_unref(event.object);
        break;
    case FEED_BOOKMARK: take_bookmark(source, &event); break;
    case FEED_ERROR:
        if (err)
            err->http_status = event.status;
        return event.status == 410 ? -ESTALE : -EIO;
    }
    return 0;
}

/* The stream cannot be believed any more: end it and go on as `r` says. */
static void follow_failed(struct source *source, int r, const struct err *err)
{
    client_cancel(source->call);
    source->call = NULL;
    feed_stream_reset(&source->stream);
    if (r == -ESTALE && !source->informer) {
        close_with(source, err);
        return;
    }
    if (r != -ESTALE)
        log_failure(source, err);
    if (r == -ESTALE || source->phase == PHASE_INITIAL)
        list_again(source);
    back_off(source, err);
}

/* The server does not begin a watch with what there is: it lists. */
static void without_initial(struct source *source)
{
    source->kube->no_initial_events = true;
    client_cancel(source->call);
    source->call = NULL;
    feed_stream_reset(&source->stream);
    list_again(source);
    again_in(source, 0);
}

static void on_initial_late(void *user)
{
    without_initial(user);
}

static bool refuses_initial(const struct source *source, const struct transport_reply *reply)
{
    return source->phase == PHASE_INITIAL && !reply->code &&
           (reply->status == 400 || reply->status == 405 || reply->status == 422);
}

static void on_stream(void *user, struct str bytes)
{
    struct source *source = user;
    struct str message;
    struct err err = {0};
    int r = 0;

    source->busy++;
    source->missing_since_ms = 0;
    if (source->phase == PHASE_INITIAL)
        timer_in(source->timer, INITIAL_MS, on_initial_late);
    while (!source->stopped &&
           (r = feed_stream_next(&source->stream, &bytes, &message, &err)) > 0) {
        if ((r = take_message(source, message, &err)) < 0)
            break;
        /* What it followed makes sense; that a list came in does not say that much. */
        if (source->phase == PHASE_FOLLOW) {
            source->backoff_ms = KUBE_BACKOFF_MIN_MS;
            refusals_note(&source->kube->refusals, REFUSALS_WATCH, source->kind, false, NULL);
        }
    }
    if (r < 0 && !source->stopped)
        follow_failed(source, r, &err);
    source->busy--;
    if (source->stopped && !source->busy)
        source_release(source);
}

static void on_follow_end(void *user, const struct transport_reply *reply)
{
    struct source *source = user;
    struct arena arena = {0};
    struct api_result result = {0};
    struct err err = {0};

    source->call = NULL;
    source->busy++;
    timer_cancel(source->timer);
    if (reply->status == 200 && clock_monotonic_ms() - source->started_ms >= FOLLOW_SHORT_MS)
        source->backoff_ms = KUBE_BACKOFF_MIN_MS; /* it stood for a while */
    if (refuses_initial(source, reply)) {
        without_initial(source);
    } else if (reply->status == 404 && source->phase == PHASE_INITIAL) {
        kind_missing(source);
    } else if (reply->code || reply->status != 200) {
        kube_failure(&arena, reply, &result, &err);
        /* 404: the kind was taken away; a list says so for certain. */
        if (reply->status == 404 && source->informer)
            list_again(source);
        follow_failed(source, reply->status == 410 ? -ESTALE : result.code, &err);
    } else if (source->phase == PHASE_INITIAL) {
        feed_stream_reset(&source->stream);
        list_again(source);
        back_off(source, NULL);
    } else if (clock_monotonic_ms() - source->started_ms < FOLLOW_SHORT_MS) {
        feed_stream_reset(&source->stream);
        back_off(source, NULL);
    } else {
        feed_stream_reset(&source->stream);
        again_in(source, 0);
    }
    arena_done(&arena);
    source->busy--;
    if (source->stopped && !source->busy)
        source_release(source);
}

static void send_follow(struct source *source)
{
    _cleanup_(buf_done) struct buf path = {0};
    bool first = true;
    uint64_t seconds =
        FOLLOW_MIN_S + (uint64_t)kube_jitter(source->kube, FOLLOW_SPREAD_S) % FOLLOW_SPREAD_S;

    add_selectors(source, &path, &first);
    kube_query(&path, &first, "watch", STR("true"));
    kube_query(&path, &first, "allowWatchBookmarks", STR("true"));
    if (source->phase == PHASE_INITIAL) {
        source->epoch++;
        kube_query(&path, &first, "sendInitialEvents", STR("true"));
        kube_query(&path, &first, "resourceVersionMatch", STR("NotOlderThan"));
        timer_in(source->timer, INITIAL_MS, on_initial_late);
    } else {
        add_number(&path, &first, "resourceVersion", source->revision);
    }
    add_number(&path, &first, "timeoutSeconds", seconds);
    source->started_ms = clock_monotonic_ms();
    source->call = client_send(source->kube->client,
                               &(struct client_request){
                                   .class = LIMITER_READ,
                                   .method = "GET",
                                   .path = buf_str(&path),
                                   .accept = feed_accept(source->kind, source->kube->whole),
                                   .timeout_ms = (int64_t)(seconds + FOLLOW_GRACE_S) * 1000,
                                   .data = on_stream,
                                   .done = on_follow_end,
                                   .user = source,
                               });
}

static void start(struct source *source)
{
    if (source->phase == PHASE_LIST && source->page.continue_token.len == 0 &&
        !source->kube->no_initial_events)
        source->phase = PHASE_INITIAL;
    if (source->phase == PHASE_LIST)
        send_list(source);
    else
        send_follow(source);
}

/* ---- open and close ---- */

struct source *source_new(struct kube *kube,
                          const struct api_watch_request *request,
                          api_watch_fn *tell_fn,
                          void *user)
{
    struct source *source = MEM_NEW(struct source);

    source->kube = kube;
    source->kind = request->kind;
    source->page.whole = kube->whole;
    buf_add(&source->ns, request->ns);
    buf_add(&source->label_selector, request->label_selector);
    buf_add(&source->field_selector, request->field_selector);
    source->tell = tell_fn;
    source->user = user;
    source->informer = request->from_revision == 0;
    source->phase = source->informer ? PHASE_LIST : PHASE_FOLLOW;
    source->revision = request->from_revision;
    source->backoff_ms = KUBE_BACKOFF_MIN_MS;
    source->known.seed = kube->random;
    source->timer = timer_new(kube->loop, source);
    start(source);
    return source;
}

static void source_release(struct source *source)
{
    client_cancel(source->call);
    timer_free(source->timer);
    MAP_FOREACH(&source->known, entry)
        known_free(entry->value);
    map_done(&source->known);
    buf_done(&source->ns);
    buf_done(&source->label_selector);
    buf_done(&source->field_selector);
    buf_done(&source->page.continue_token);
    feed_stream_done(&source->stream);
    mem_free(source);
}

void source_free(struct source *source)
{
    if (!source)
        return;
    source->stopped = true;
    if (!source->busy)
        source_release(source);
}

bool source_synced(const struct source *source)
{
    return source->synced;
}

bool source_current(const struct source *source)
{
    return source->synced && (source->phase == PHASE_FOLLOW || source->missing_since_ms);
}

const struct object *source_next(const struct source *source, size_t *cursor)
{
    struct map_entry *entry = *cursor < source->known.entry_count
                                  ? map_live(&source->known, &source->known.entries[*cursor])
                                  : NULL;

    if (!entry)
        return NULL;
    *cursor = (size_t)(entry - source->known.entries) + 1;
    return ((const struct known *)entry->value)->object;
}
