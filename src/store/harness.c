#include "store/harness.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/store.h"
#include "test.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <uv.h>

#define SEED           20261115
#define STILL_ROUNDS   3
#define ROUNDS_MAX     1000000
#define RECEIVE_MS_MAX 30000

static int64_t harness_now(void *user)
{
    const struct harness *harness = user;

    return harness->now_ms;
}

static void harness_open_with(struct harness *harness, const struct store_options *options)
{
    struct store_options own = *options;
    struct err err = {0};

    EXPECT(uv_loop_init(&harness->loop) == 0);
    own.loop = &harness->loop;
    own.seed = SEED;
    own.now_ms = harness->now_ms ? harness_now : NULL;
    own.now_user = harness;
    int r = store_open(&own, &harness->store, &err);
    if (r < 0) {
        harness->code = r;
        (void)snprintf(harness->text, sizeof(harness->text), "%s", err.text);
        return;
    }
    harness->api = store_api(harness->store);
    harness_settle(harness);
}

void harness_open(struct harness *harness, const char *path)
{
    *harness = (struct harness){0};
    harness_open_with(harness, &(struct store_options){.path = path});
}

void harness_open_at(struct harness *harness, int64_t now_ms)
{
    harness_open_expiring(harness, now_ms, 0);
}

void harness_open_expiring(struct harness *harness, int64_t now_ms, int64_t event_ttl_ms)
{
    *harness = (struct harness){.now_ms = now_ms};
    harness_open_with(harness, &(struct store_options){.event_ttl_ms = event_ttl_ms});
}

void harness_open_after_loss(struct harness *harness, const char *path)
{
    *harness = (struct harness){0};
    harness_open_with(harness, &(struct store_options){.path = path, .accept_loss = true});
}

void harness_close(struct harness *harness)
{
    object_unrefp(&harness->object);
    harness->object = NULL;
    store_close(harness->store);
    (void)uv_run(&harness->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&harness->loop) == 0);
}

static void copy(char *out, size_t size, struct str text)
{
    (void)snprintf(out, size, STR_FMT, STR_ARG(text));
}

static void on_done(void *user, const struct api_result *result)
{
    struct harness *harness = user;

    harness->answered = true;
    harness->code = result->code;
    harness->status = result->err ? result->err->http_status : 0;
    copy(harness->text, sizeof(harness->text), str_from(result->err ? result->err->text : ""));
    copy(harness->reason, sizeof(harness->reason), result->reason);
    copy(harness->warnings, sizeof(harness->warnings), result->warnings);
    copy(harness->continue_token, sizeof(harness->continue_token), result->continue_token);
    object_unref(harness->object);
    harness->object = object_ref(result->object);
    harness->item_count = result->item_count;
    harness->revision = result->revision;
    harness->remaining = result->remaining_count;
    harness->created = result->created;
    harness->names[0] = harness->causes[0] = '\0';
    for (size_t i = 0; i < result->item_count; i++) {
        size_t len = strlen(harness->names);

        (void)snprintf(harness->names + len, sizeof(harness->names) - len, "%s" STR_FMT,
                       len ? " " : "", STR_ARG(result->items[i]->name));
    }
    for (size_t i = 0; i < result->cause_count; i++) {
        size_t len = strlen(harness->causes);

        (void)snprintf(harness->causes + len, sizeof(harness->causes) - len,
                       STR_FMT ": " STR_FMT "\n", STR_ARG(result->causes[i].field),
                       STR_ARG(result->causes[i].message));
    }
}

static void wait_for_answer(struct harness *harness)
{
    EXPECT(!harness->answered);
    for (int i = 0; i < ROUNDS_MAX && !harness->answered; i++)
        (void)uv_run(&harness->loop, UV_RUN_ONCE);
    EXPECT(harness->answered);
}

int harness_call(struct harness *harness, const struct api_request *request)
{
    harness->answered = false;
    api_call(harness->api, request, on_done, harness);
    wait_for_answer(harness);
    return harness->code;
}

int harness_bind(struct harness *harness, const struct api_binding *bindings, size_t count)
{
    harness->answered = false;
    api_bind(harness->api, bindings, count, on_done, harness);
    wait_for_answer(harness);
    return harness->code;
}

int harness_create(struct harness *harness,
                   const struct kind *kind,
                   const char *ns,
                   const char *body)
{
    return harness_call(
        harness, &(struct api_request){
                     .verb = API_CREATE, .kind = kind, .ns = str_from(ns), .body = str_from(body)});
}

int harness_patch(struct harness *harness,
                  const struct kind *kind,
                  const char *ns,
                  const char *name,
                  const char *body)
{
    return harness_call(harness, &(struct api_request){.verb = API_PATCH,
                                                       .kind = kind,
                                                       .ns = str_from(ns),
                                                       .name = str_from(name),
                                                       .body = str_from(body)});
}

int harness_get(struct harness *harness, const struct kind *kind, const char *ns, const char *name)
{
    return harness_call(
        harness, &(struct api_request){
                     .verb = API_GET, .kind = kind, .ns = str_from(ns), .name = str_from(name)});
}

int harness_delete(struct harness *harness,
                   const struct kind *kind,
                   const char *ns,
                   const char *name,
                   const char *options)
{
    return harness_call(harness, &(struct api_request){.verb = API_DELETE,
                                                       .kind = kind,
                                                       .ns = str_from(ns),
                                                       .name = str_from(name),
                                                       .body = str_from(options)});
}

int harness_list(struct harness *harness, const struct kind *kind, const char *ns)
{
    return harness_call(harness,
                        &(struct api_request){.verb = API_LIST, .kind = kind, .ns = str_from(ns)});
}

/* Nothing is staged, being written or to be told, and the loop has nothing that it could do at once. What only comes of what was
 * told last is seen in the next round. */
void harness_settle(struct harness *harness)
{
    for (int i = 0, still = 0; i < ROUNDS_MAX && still < STILL_ROUNDS; i++) {
        bool busy = !store_is_idle(harness->store);

        (void)uv_run(&harness->loop, busy ? UV_RUN_ONCE : UV_RUN_NOWAIT);
        busy = !store_is_idle(harness->store) || uv_backend_timeout(&harness->loop) == 0;
        still = busy ? 0 : still + 1;
    }
}

const char *harness_text(struct harness *harness, const char *path)
{
    static char text[1024];
    struct arena arena = {0};

    text[0] = '\0';
    if (harness->object) {
        const struct json *value = json_at(object_json(harness->object, &arena), path);

        if (json_is(value, JSON_STRING))
            copy(text, sizeof(text), json_str(value));
        else if (value)
            copy(text, sizeof(text), json_text(&arena, value));
    }
    arena_done(&arena);
    return text;
}

static void on_change(void *user, const struct api_change *change)
{
    static const char marks[] = {[API_ADDED] = '+',  [API_MODIFIED] = '~', [API_DELETED] = '-',
                                 [API_SYNCED] = '=', [API_BOOKMARK] = '.', [API_CLOSED] = '!'};
    struct harness_watch *watch = user;
    size_t len = strlen(watch->heard);

    EXPECT(change->event == API_ADDED || change->revision >= watch->revision);
    watch->revision = change->revision;
    if (change->event == API_CLOSED)
        watch->closed = change->err ? change->err->http_status : 1;
    (void)snprintf(watch->heard + len, sizeof(watch->heard) - len, "%s%c" STR_FMT, len ? " " : "",
                   marks[change->event],
                   STR_ARG((change->object ? change->object->name : STR(""))));
}

void harness_watch(struct harness *harness,
                   struct harness_watch *watch,
                   const struct api_watch_request *request)
{
    *watch = (struct harness_watch){0};
    watch->watch = api_watch(harness->api, request, on_change, watch);
    EXPECT(!watch->heard[0]);
}

struct str harness_received(struct harness *harness,
                            struct arena *arena,
                            int fd,
                            const char *until,
                            size_t bytes_max)
{
    struct buf text = {.bytes_max = bytes_max};
    ssize_t got = -1;

    for (int ms = 0; ms < RECEIVE_MS_MAX && got != 0; ms++) {
        (void)uv_run(&harness->loop, UV_RUN_NOWAIT);
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1);
        char piece[65536];
        while ((got = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
            buf_add(&text, (struct str){piece, (size_t)got});
        if (until && str_contains(buf_str(&text), str_from(until)))
            break;
    }
    struct str result = str_dup(arena, buf_str(&text));
    buf_done(&text);
    return result;
}
