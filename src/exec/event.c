#include "exec/event.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/shorten.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Flow: create; when the name is taken the event was told before: read it and count it up. The name
 * carries a hash of what is said, so the same words meet the same object. */
#define HASH_SEED   0x6d75737465720001ULL
#define DEFAULT_NS  "default" /* where events about cluster-scoped objects live */
#define NAME_LENGTH 200       /* of the object's name in the event's, so that 253 is not passed */

struct repeat {
    struct api *api;
    int64_t now_ms;
    size_t ns_len;
    size_t name_len;
    char text[]; /* namespace, name */
};

static struct str repeat_ns(const struct repeat *repeat)
{
    return (struct str){repeat->text, repeat->ns_len};
}

static struct str repeat_name(const struct repeat *repeat)
{
    return (struct str){repeat->text + repeat->ns_len, repeat->name_len};
}

static void on_read(void *user, const struct api_result *result)
{
    struct repeat *repeat = user;
    _cleanup_(arena_done) struct arena arena = {0};

    if (!result->code && result->object) {
        const struct json *old = object_json(result->object, &arena);
        struct json *patch = json_make(&arena, "{count: $, lastTimestamp: $}",
                                       json_i64_or(json_get(old, "count"), 1) + 1,
                                       time_text(&arena, repeat->now_ms));

        api_call(repeat->api,
                 &(struct api_request){.verb = API_PATCH,
                                       .kind = &kind_event,
                                       .ns = repeat_ns(repeat),
                                       .name = repeat_name(repeat),
                                       .uid = result->object->uid,
                                       .patch = API_PATCH_MERGE,
                                       .body = json_text(&arena, patch)},
                 api_ignore, NULL);
    }
    mem_free(repeat);
}

static void on_created(void *user, const struct api_result *result)
{
    struct repeat *repeat = user;

    if (!str_is(result->reason, "AlreadyExists")) {
        mem_free(repeat);
        return;
    }
    api_call(repeat->api,
             &(struct api_request){.verb = API_GET,
                                   .kind = &kind_event,
                                   .ns = repeat_ns(repeat),
                                   .name = repeat_name(repeat)},
             on_read, repeat);
}

static struct json *subject(struct arena *arena, const struct event *event)
{
    struct json *about = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, about, "apiVersion",
                 str_dup(arena, kind_api_version(event->kind, version)));
    json_add_c(arena, about, "kind", event->kind->name);
    if (event->ns.len)
        json_add_str(arena, about, "namespace", event->ns);
    json_add_str(arena, about, "name", event->name);
    json_add_str(arena, about, "uid", event->uid);
    return about;
}

void event_send(struct api *api, const struct event *event)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body = json_new_object(&arena);
    struct json *meta = json_add_object(&arena, body, "metadata");
    struct str ns = event->ns.len ? event->ns : STR(DEFAULT_NS);
    struct str message = str_shorten(&arena, event->message, EVENT_MESSAGE_BYTES_MAX);
    struct str now = time_text(&arena, event->now_ms);

    uint64_t hash = str_hash(event->uid, HASH_SEED);
    hash = str_hash(event->reason, hash);
    hash = str_hash(message, hash);
    struct str name =
        str_printf(&arena, STR_FMT ".%016llx", STR_ARG(str_sub(event->name, 0, NAME_LENGTH)),
                   (unsigned long long)hash);
    json_fill(&arena, body,
              "{apiVersion: 'v1', kind: 'Event', involvedObject: $, reason: $, "
              "message: $, type: $, count: 1, firstTimestamp: $, lastTimestamp: $, "
              "source: {component: $}}",
              subject(&arena, event), event->reason, message, event->warning ? "Warning" : "Normal",
              now, now, event->component);
    json_fill(&arena, meta, "{namespace: $, name: $}", ns, name);

    struct repeat *repeat = mem_alloc(sizeof(*repeat) + ns.len + name.len);
    *repeat = (struct repeat){
        .api = api, .now_ms = event->now_ms, .ns_len = ns.len, .name_len = name.len};
    memcpy(repeat->text, ns.p, ns.len);
    memcpy(repeat->text + ns.len, name.p, name.len);
    api_call(
        api,
        &(struct api_request){
            .verb = API_CREATE, .kind = &kind_event, .ns = ns, .body = json_text(&arena, body)},
        on_created, repeat);
}

bool event_budget_take(struct event_budget *budget, int64_t now_ms)
{
    int64_t passed = now_ms - budget->at_ms;

    /* One event a second is one thousandth of an event a millisecond. */
    if (passed > 0) {
        int64_t back = passed < EVENT_BURST * 1000 ? passed * EVENT_PER_SECOND : budget->spent;
        budget->spent = back < budget->spent ? budget->spent - back : 0;
        budget->at_ms = now_ms;
    }
    if (budget->spent > (EVENT_BURST - 1) * 1000)
        return false;
    budget->spent += 1000;
    return true;
}
