#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* spec.notify: a document goes to a person's address when their job starts and when it ends.
 *
 * A controller of its own: an address that does not answer holds up nothing but its own news. What
 * was sent is in status.notify, written after it: a crash in between sends it twice, never not at
 * all. What cannot be sent is tried again, less and less often, for NOTIFY_TRY_MS; then it is given
 * up, and an event says so. */
#define NOTIFY_TRY_MS ((int64_t)300000)

struct notify_news {
    const char *event;
    int64_t at_ms;
    const char *known; /* member of status.notify with what became of it */
};

static int64_t notify_moment(const struct json *status, const char *key)
{
    int64_t ms = 0;

    (void)time_parse(json_str(json_get(status, key)), &ms);
    return ms;
}

/* What there is to tell and has not been; false: nothing. */
static bool notify_find(const struct json *status, struct notify_news *ret)
{
    const struct json *known = json_get(status, "notify");
    enum job_phase phase = job_phase_parse(json_str(json_get(status, "phase")));
    int64_t start_ms = notify_moment(status, "startTime");

    if (start_ms && !json_str(json_get(known, "start")).len) {
        *ret = (struct notify_news){"Started", start_ms, "start"};
        return true;
    }
    *ret =
        (struct notify_news){job_phase_word(phase), notify_moment(status, "completionTime"), "end"};
    return job_phase_is_final(phase) && !json_str(json_get(known, "end")).len;
}

static bool notify_is_wanted(const struct torchrun_spec *spec, const char *event)
{
    if (!spec->notify_event_count)
        return true;
    for (size_t i = 0; i < spec->notify_event_count; i++)
        if (str_is(spec->notify_events[i], event))
            return true;
    return false;
}

static struct str notify_text(struct arena *arena,
                              const struct object *job,
                              const struct json *status,
                              const char *event)
{
    struct str message = json_str(json_get(status, "message"));

    return str_printf(arena, "job " STR_FMT "/" STR_FMT ": %s%s" STR_FMT, STR_ARG(job->ns),
                      STR_ARG(job->name), event, message.len ? ": " : "", STR_ARG(message));
}

static struct json *notify_body(struct arena *arena,
                                const struct object *job,
                                const struct notify_news *news)
{
    const struct json *tree = object_json(job, arena);
    const struct json *status = json_get(tree, "status");
    struct json *body = json_new_object(arena);
    static const char *const copied[] = {"phase",       "message",        "queue",    "numGPUs",
                                         "startTime",   "completionTime", "exitCode", "restarts",
                                         "preemptions", "generation"};

    json_fill(arena, body, "{event: $, time: $, namespace: $, job: $, uid: $, text: $}",
              news->event, time_text(arena, news->at_ms), job->ns, job->name, job->uid,
              notify_text(arena, job, status, news->event));
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        const struct json *value = json_get(status, copied[i]);

        if (!json_is_null(value))
            json_set(body, str_from(copied[i]), json_clone(arena, value));
    }
    return body;
}

static void notify_write(struct actions *actions,
                         const struct object *job,
                         const struct notify_news *news,
                         const char *word)
{
    struct json *patch = json_new_object(actions->arena);

    json_add_c(actions->arena, json_make_path(actions->arena, patch, "status.notify"), news->known,
               word);
    action_patch_status(actions, job, patch);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *job = cache_get(input->cache, &kind_torchrunjob, key->ns, key->name);
    struct torchrun_spec spec = {0};
    struct notify_news news;

    if (!job || job->deleted_ms)
        return;
    arena_defer(actions->arena, object_release, object_ref(job));
    const struct json *tree = object_json(job, actions->arena);
    (void)torchrun_spec_read(actions->arena, NULL, tree, &spec, NULL);
    if (!spec.notify_url.len || !notify_find(json_get(tree, "status"), &news))
        return;
    if (!notify_is_wanted(&spec, news.event)) {
        notify_write(actions, job, &news, "NotWanted");
        return;
    }
    if (input->now_ms >= news.at_ms + NOTIFY_TRY_MS) {
        struct str why = input->refusal.len ? input->refusal : STR("it did not answer in time");

        action_warn(actions, job, "NotifyFailed",
                    str_printf(actions->arena,
                               "spec.notify.url could not be told that the job has %s: " STR_FMT,
                               news.event, STR_ARG(why)));
        notify_write(actions, job, &news, "GivenUp");
        return;
    }
    action_post(actions, job->ns, spec.notify_url, notify_body(actions->arena, job, &news));
    notify_write(actions, job, &news, "Sent");
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    control_keys_add(ret, object->ns, object->name);
}

static const struct kind *const watches[] = {&kind_torchrunjob, NULL};

const struct controller torchrun_notify_controller = {.name = "notify",
                                                      .watches = watches,
                                                      .keys = keys,
                                                      .reconcile = reconcile};
