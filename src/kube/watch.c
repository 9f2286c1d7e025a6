#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/kube_internal.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

/* One watch. An informer (from_revision 0) goes round:
 *
 *     LIST page after page -> FOLLOW from the list's revision -> (connection lost, server's
 * time-out) ^                        |        ^________________________________________|
 *       |________ 410 ___________|
 *
 * It remembers every object it has told (`known`), so that a list which follows another one can be
 * told as a difference. A watch from a given revision only follows, and ends with CLOSED at a 410.
 */

#define LINE_BYTES_MAX  ((size_t)8 << 20) /* one event; etcd's objects end at 1.5 MB */
#define FOLLOW_MIN_S    300 /* the server is asked to end a watch after 5 to 10 minutes */
#define FOLLOW_SPREAD_S 300
#define FOLLOW_SHORT_MS 1000 /* a stream that ended earlier is a failure, not a time-out */
/* A kind whose objects we know is believed to be gone only when the server says so for this long:
 * an API server that is starting may not serve its custom resources yet. */
#define GONE_MS 10000

enum phase {
    PHASE_LIST,
    PHASE_FOLLOW,
};

struct known {
    const struct object *object;
    uint64_t epoch; /* of the list that last had it */
    char key[];
};

struct api_watch {
    struct api_watch *next;
    struct api_watch *prev;
    struct kube *kube;
    const struct kind *kind;
    struct buf ns;
    struct buf label_selector;
    struct buf field_selector;
    api_watch_fn *fn;
    void *user;
    struct client_call *call;
    uv_timer_t *timer;
    enum phase phase;
    bool informer;
    bool bookmarks;
    bool synced;  /* SYNCED was told */
    bool stopped; /* while inside a callback: free when it returns */
    bool closed;  /* CLOSED was told */
    unsigned int busy;
    struct map known;
    uint64_t epoch;
    uint64_t revision; /* everything up to here has been told */
    uint64_t list_revision;
    struct buf continue_token;
    struct buf line; /* the part of an event that has arrived */
    int64_t started_ms;
    int64_t backoff_ms;
    int64_t missing_since_ms; /* the server says it does not have the kind; 0: it has */
};

static void start(struct api_watch *watch);

/* ---- telling ---- */

static void tell(struct api_watch *watch, const struct api_change *change)
{
    if (watch->stopped || watch->closed)
        return;
    watch->busy++;
    watch->fn(watch->user, change);
    watch->busy--;
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
static void pass_on(struct api_watch *watch, enum api_event event, const struct object *object)
{
    tell(watch,
         &(struct api_change){.event = event, .object = object, .revision = object->revision});
}

static void forget(struct api_watch *watch, struct known *known, const struct object *last)
{
    (void)map_remove(&watch->known, str_from(known->key));
    tell(watch, &(struct api_change){.event = API_DELETED,
                                     .object = last ? last : known->object,
                                     .revision = last ? last->revision : watch->list_revision});
    known_free(known);
}

/* The object is there, in this state. */
static void learn(struct api_watch *watch, const struct object *object)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct str key = object_key(&text, object);
    struct known *known = map_get(&watch->known, key);
    const struct object *previous = known ? known->object : NULL;

    /* Deleted and made again while we did not look: two objects, not one that changed. */
    if (known && !str_eq(previous->uid, object->uid)) {
        forget(watch, known, NULL);
        known = NULL;
        previous = NULL;
    }
    if (known) {
        known->epoch = watch->epoch;
        if (previous->revision == object->revision)
            return;
        known->object = object_ref(object);
    } else {
        known = mem_alloc(sizeof(*known) + key.len + 1);
        memcpy(known->key, key.p, key.len);
        known->epoch = watch->epoch;
        known->object = object_ref(object);
        map_set(&watch->known, str_from(known->key), known);
    }
    tell(watch, &(struct api_change){.event = previous ? API_MODIFIED : API_ADDED,
                                     .object = object,
                                     .previous = previous,
                                     .revision = object->revision});
    object_unref(previous);
}

static void unlearn(struct api_watch *watch, const struct object *object)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct known *known = map_get(&watch->known, object_key(&text, object));

    if (known)
        forget(watch, known, object);
}

/* ---- trying again ---- */

static void watch_free(struct api_watch *watch);

static void on_timer(uv_timer_t *timer)
{
    start(timer->data);
}

static void again_in(struct api_watch *watch, int64_t wait_ms)
{
    uv_timer_start(watch->timer, on_timer, (uint64_t)wait_ms, 0);
}

static void back_off(struct api_watch *watch)
{
    watch->kube->stats.watch_failures++;
    again_in(watch, kube_jitter(watch->kube, watch->backoff_ms));
    watch->backoff_ms *= 2;
    if (watch->backoff_ms > KUBE_BACKOFF_MAX_MS)
        watch->backoff_ms = KUBE_BACKOFF_MAX_MS;
}

static void list_again(struct api_watch *watch)
{
    watch->phase = PHASE_LIST;
    buf_clear(&watch->continue_token);
    if (watch->synced && !watch->missing_since_ms)
        watch->kube->stats.relists++;
}

static void close_with(struct api_watch *watch, const struct err *err)
{
    tell(watch, &(struct api_change){.event = API_CLOSED, .revision = watch->revision, .err = err});
    watch->closed = true;
}

static void log_failure(struct api_watch *watch, const struct err *err)
{
    log_warn(watch->kube->log, "watch.failed", LOG_C("resource", watch->kind->plural),
             LOG_C("group", watch->kind->group), LOG_I64("status", err->http_status), LOG_ERR(err));
}

/* ---- listing ---- */

static void tell_synced(struct api_watch *watch)
{
    if (watch->synced)
        return;
    watch->synced = true;
    tell(watch, &(struct api_change){.event = API_SYNCED, .revision = watch->revision});
}

/* The last page is in: what no page had is gone. */
static void list_done(struct api_watch *watch)
{
    watch->revision = watch->list_revision;
    MAP_FOREACH(&watch->known, entry) {
        struct known *known = entry->value;

        if (known->epoch != watch->epoch)
            forget(watch, known, NULL);
        if (watch->stopped)
            return;
    }
    watch->phase = PHASE_FOLLOW;
    watch->backoff_ms = KUBE_BACKOFF_MIN_MS;
    tell_synced(watch);
}

static int take_page(struct api_watch *watch, struct str body, struct err *err)
{
    struct arena arena = {0};
    struct json *root = NULL;
    struct json *meta;
    int r = json_parse(&arena, body, &root, err);

    if (r < 0)
        goto out;
    meta = json_get(root, "metadata");
    (void)str_to_u64(json_str(json_get(meta, "resourceVersion")), &watch->list_revision);
    for (struct json *item = json_first(json_get(root, "items")), *next; item; item = next) {
        struct object *object = NULL;

        next = json_next(item);
        r = kube_object(&arena, watch->kind, item, &object, err);
        if (r < 0)
            goto out;
        learn(watch, object);
        object_unref(object);
        if (watch->stopped)
            goto out;
    }
    buf_clear(&watch->continue_token);
    buf_add(&watch->continue_token, json_str(json_get(meta, "continue")));
out:
    arena_done(&arena);
    return r;
}

/* The server does not know the kind: as good as empty, until it does. */
static void kind_missing(struct api_watch *watch)
{
    int64_t now_ms = clock_monotonic_ms();

    if (!watch->missing_since_ms)
        watch->missing_since_ms = now_ms;
    if (watch->known.count == 0 || now_ms - watch->missing_since_ms >= GONE_MS)
        list_done(watch);
    if (watch->stopped)
        return;
    list_again(watch);
    again_in(watch, kube_jitter(watch->kube, KUBE_RELIST_MS));
}

static void on_list(void *user, const struct transport_reply *reply)
{
    struct api_watch *watch = user;
    struct arena arena = {0};
    struct api_result result = {0};
    struct err err = {0};

    watch->call = NULL;
    watch->busy++;
    if (reply->code || reply->status != 200) {
        kube_failure(&arena, reply, &result, &err);
        if (reply->status == 404) {
            kind_missing(watch);
        } else {
            if (reply->status != 410) /* the continue token is too old: from the first page */
                log_failure(watch, &err);
            list_again(watch);
            back_off(watch);
        }
    } else {
        watch->missing_since_ms = 0;
        if (take_page(watch, reply->body, &err) < 0) {
            log_failure(watch, &err);
            list_again(watch);
            back_off(watch);
        } else if (!watch->stopped) {
            if (watch->continue_token.len == 0)
                list_done(watch);
            if (!watch->stopped)
                start(watch);
        }
    }
    arena_done(&arena);
    watch->busy--;
    if (watch->stopped && !watch->busy)
        watch_free(watch);
}

static void add_selectors(struct api_watch *watch, struct buf *path, bool *first)
{
    kube_path(path, watch->kind, buf_str(&watch->ns), STR_NONE, STR_NONE);
    kube_query(path, first, "labelSelector", buf_str(&watch->label_selector));
    kube_query(path, first, "fieldSelector", buf_str(&watch->field_selector));
}

static void add_number(struct buf *path, bool *first, const char *key, uint64_t value)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "%" PRIu64, value);
    kube_query(path, first, key, str_from(number));
}

static void send_list(struct api_watch *watch)
{
    _cleanup_(buf_done) struct buf path = {0};
    bool first = true;

    if (watch->continue_token.len == 0)
        watch->epoch++;
    add_selectors(watch, &path, &first);
    add_number(&path, &first, "limit", KUBE_PAGE);
    kube_query(&path, &first, "continue", buf_str(&watch->continue_token));
    watch->call = client_send(watch->kube->client, &(struct client_request){
                                                       .class = LIMITER_READ,
                                                       .method = "GET",
                                                       .path = buf_str(&path),
                                                       .done = on_list,
                                                       .user = watch,
                                                   });
}

/* ---- following ---- */

static int take_object(struct api_watch *watch,
                       struct arena *arena,
                       enum api_event event,
                       struct json *item,
                       struct err *err)
{
    struct object *object = NULL;
    int r = kube_object(arena, watch->kind, item, &object, err);

    if (r < 0)
        return r;
    if (!watch->informer)
        pass_on(watch, event, object);
    else if (event == API_DELETED)
        unlearn(watch, object);
    else
        learn(watch, object);
    if (object->revision > watch->revision)
        watch->revision = object->revision;
    object_unref(object);
    return 0;
}

/* One line of the stream. -ESTALE: the revision is too old. */
static int take_line(struct api_watch *watch, struct str line, struct err *err)
{
    struct arena arena = {0};
    struct json *root = NULL;
    int r = json_parse(&arena, line, &root, err);
    struct str type = json_str(json_get(root, "type"));
    struct json *item = json_get(root, "object");

    if (r < 0) {
        (void)err_wrap(err, r, "event of the watch");
    } else if (str_is(type, "ADDED")) {
        r = take_object(watch, &arena, API_ADDED, item, err);
    } else if (str_is(type, "MODIFIED")) {
        r = take_object(watch, &arena, API_MODIFIED, item, err);
    } else if (str_is(type, "DELETED")) {
        r = take_object(watch, &arena, API_DELETED, item, err);
    } else if (str_is(type, "BOOKMARK")) {
        (void)str_to_u64(json_str_at(item, "metadata.resourceVersion"), &watch->revision);
        if (watch->bookmarks)
            tell(watch, &(struct api_change){.event = API_BOOKMARK, .revision = watch->revision});
    } else {
        struct str message = json_str(json_get(item, "message"));
        int64_t code = json_i64_or(json_get(item, "code"), 500);

        r = err_set(err, code == 410 ? -ESTALE : -EIO, STR_FMT, STR_ARG(message));
        if (err)
            err->http_status = (int)code;
    }
    arena_done(&arena);
    return r;
}

/* The stream cannot be believed any more: end it and go on as `r` says. */
static void follow_failed(struct api_watch *watch, int r, const struct err *err)
{
    client_cancel(watch->call);
    watch->call = NULL;
    buf_clear(&watch->line);
    if (r == -ESTALE && !watch->informer) {
        close_with(watch, err);
        return;
    }
    if (r == -ESTALE)
        list_again(watch);
    else
        log_failure(watch, err);
    back_off(watch);
}

static void on_stream(void *user, struct str bytes)
{
    struct api_watch *watch = user;
    struct err err = {0};
    int r = 0;

    watch->busy++;
    watch->backoff_ms = KUBE_BACKOFF_MIN_MS;
    while (bytes.len > 0 && r == 0 && !watch->stopped) {
        size_t end = str_find(bytes, '\n');
        struct str line = str_sub(bytes, 0, end);
        bool whole = end < bytes.len;

        bytes = str_sub(bytes, end + 1, bytes.len);
        if (!whole || watch->line.len > 0) {
            buf_add(&watch->line, line);
            if (watch->line.overflow)
                r = err_set(&err, -EMSGSIZE, "one event has more than %zu bytes", LINE_BYTES_MAX);
            line = buf_str(&watch->line);
        }
        if (r == 0 && whole && line.len > 0) {
            r = take_line(watch, line, &err);
            buf_clear(&watch->line);
        }
    }
    if (r < 0 && !watch->stopped)
        follow_failed(watch, r, &err);
    watch->busy--;
    if (watch->stopped && !watch->busy)
        watch_free(watch);
}

static void on_follow_end(void *user, const struct transport_reply *reply)
{
    struct api_watch *watch = user;
    struct arena arena = {0};
    struct api_result result = {0};
    struct err err = {0};

    watch->call = NULL;
    watch->busy++;
    if (reply->code || reply->status != 200) {
        kube_failure(&arena, reply, &result, &err);
        /* 404: the kind was taken away; a list says so for certain. */
        if (reply->status == 404 && watch->informer)
            list_again(watch);
        follow_failed(watch, reply->status == 410 ? -ESTALE : result.code, &err);
    } else if (clock_monotonic_ms() - watch->started_ms < FOLLOW_SHORT_MS) {
        buf_clear(&watch->line);
        back_off(watch);
    } else {
        buf_clear(&watch->line);
        watch->backoff_ms = KUBE_BACKOFF_MIN_MS;
        again_in(watch, 0);
    }
    arena_done(&arena);
    watch->busy--;
    if (watch->stopped && !watch->busy)
        watch_free(watch);
}

static void send_follow(struct api_watch *watch)
{
    _cleanup_(buf_done) struct buf path = {0};
    bool first = true;
    uint64_t seconds =
        FOLLOW_MIN_S + (uint64_t)kube_jitter(watch->kube, FOLLOW_SPREAD_S) % FOLLOW_SPREAD_S;

    add_selectors(watch, &path, &first);
    kube_query(&path, &first, "watch", STR("true"));
    kube_query(&path, &first, "allowWatchBookmarks", STR("true"));
    add_number(&path, &first, "resourceVersion", watch->revision);
    add_number(&path, &first, "timeoutSeconds", seconds);
    watch->started_ms = clock_monotonic_ms();
    watch->call = client_send(watch->kube->client, &(struct client_request){
                                                       .class = LIMITER_READ,
                                                       .method = "GET",
                                                       .path = buf_str(&path),
                                                       .data = on_stream,
                                                       .done = on_follow_end,
                                                       .user = watch,
                                                   });
}

static void start(struct api_watch *watch)
{
    if (watch->phase == PHASE_LIST)
        send_list(watch);
    else
        send_follow(watch);
}

/* ---- open and close ---- */

struct api_watch *kube_watch(struct api *api,
                             const struct api_watch_request *request,
                             api_watch_fn *fn,
                             void *user)
{
    struct kube *kube = (struct kube *)api;
    struct api_watch *watch = MEM_NEW(struct api_watch);

    watch->kube = kube;
    watch->kind = request->kind;
    buf_add(&watch->ns, request->ns);
    buf_add(&watch->label_selector, request->label_selector);
    buf_add(&watch->field_selector, request->field_selector);
    watch->fn = fn;
    watch->user = user;
    watch->informer = request->from_revision == 0;
    watch->phase = watch->informer ? PHASE_LIST : PHASE_FOLLOW;
    watch->revision = request->from_revision;
    watch->bookmarks = request->bookmarks;
    watch->backoff_ms = KUBE_BACKOFF_MIN_MS;
    watch->line.bytes_max = LINE_BYTES_MAX;
    watch->known.seed = kube->random;
    watch->timer = MEM_NEW(uv_timer_t);
    uv_timer_init(kube->loop, watch->timer);
    watch->timer->data = watch;
    watch->next = kube->watches;
    if (kube->watches)
        kube->watches->prev = watch;
    kube->watches = watch;
    start(watch);
    return watch;
}

static void on_timer_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

static void watch_free(struct api_watch *watch)
{
    *(watch->prev ? &watch->prev->next : &watch->kube->watches) = watch->next;
    if (watch->next)
        watch->next->prev = watch->prev;
    client_cancel(watch->call);
    uv_close((uv_handle_t *)watch->timer, on_timer_closed);
    MAP_FOREACH(&watch->known, entry)
        known_free(entry->value);
    map_done(&watch->known);
    buf_done(&watch->ns);
    buf_done(&watch->label_selector);
    buf_done(&watch->field_selector);
    buf_done(&watch->continue_token);
    buf_done(&watch->line);
    mem_free(watch);
}

void kube_watch_stop(struct api *api, struct api_watch *watch)
{
    (void)api;
    watch->stopped = true;
    if (!watch->busy)
        watch_free(watch);
}

void kube_watches_free(struct kube *kube)
{
    while (kube->watches) {
        assert(!kube->watches->busy);
        watch_free(kube->watches);
    }
}

void kube_watches_count(const struct kube *kube, struct kube_stats *ret)
{
    ret->watches = ret->watches_synced = 0;
    for (const struct api_watch *watch = kube->watches; watch; watch = watch->next) {
        ret->watches++;
        if (watch->synced && (watch->phase == PHASE_FOLLOW || watch->missing_since_ms))
            ret->watches_synced++;
    }
}
