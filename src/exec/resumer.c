#include "exec/resumer.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resumer {
    struct resumer_options options;
    struct resume *first;
};

struct resume {
    struct resumer *owner; /* NULL once it is gone */
    struct resume *next;
    struct arena arena;
    struct str ns;
    struct str name;
    struct str uid;
    struct str body;
    bool under_way;
    bool unsure;    /* some try was not answered */
    bool asks;      /* the pod is read, not written */
    int64_t due_ms; /* the next try, unless one is under way; 0: not known yet */
    api_done_fn *done;
    void *user;
};

static void send(struct resume *resume);

static struct str body_of(const struct object *known, struct arena *arena)
{
    struct json *patch = json_new_object(arena);
    struct json *meta = json_add_object(arena, patch, "metadata");

    if (known)
        json_add_str(arena, meta, "resourceVersion",
                     str_printf(arena, "%llu", (unsigned long long)known->revision));
    json_set(json_add_object(arena, meta, "annotations"), STR(SUSPEND_ANNOTATION),
             json_new_null(arena));
    return json_text(arena, patch);
}

static void resume_free(struct resume *resume)
{
    struct resume **link = resume->owner ? &resume->owner->first : NULL;

    while (link && *link != resume)
        link = &(*link)->next;
    if (link)
        *link = resume->next;
    arena_done(&resume->arena);
    mem_free(resume);
}

static void end(struct resume *resume, const struct api_result *result)
{
    resume->done(resume->user, result);
    resume_free(resume);
}

/* Nobody answered, or somebody who may not know. */
static bool is_unsure(const struct api_result *result)
{
    return result->code &&
           (!result->err || !result->err->http_status || result->err->http_status >= 500);
}

/* The pod as it is: what was sent before has happened, or cannot any more, for it names the
 * revision that the pod had. */
static void on_read(struct resume *resume, const struct api_result *result)
{
    const struct object *pod = result->object;
    bool happened = !result->code && pod && str_eq(pod->uid, resume->uid) && !pod->deleted_ms &&
                    !object_annotation(pod, SUSPEND_ANNOTATION).len;
    struct err err = {0};

    if (happened || result->code) {
        end(resume, result);
        return;
    }
    int code = err_set(&err, -EBUSY, "the pod has changed, and is still suspended");
    err.http_status = 409;
    end(resume, &(struct api_result){.code = code, .err = &err, .reason = STR("Conflict")});
}

static void on_answer(void *user, const struct api_result *result)
{
    struct resume *resume = user;
    bool conflict = result->err && result->err->http_status == 409;

    resume->under_way = false;
    if (resume->owner && is_unsure(result)) {
        resume->unsure = resume->unsure || !resume->asks;
        resume->due_ms = 0;
        resume->owner->options.again(resume->owner->options.user);
    } else if (resume->owner && resume->asks) {
        on_read(resume, result);
    } else if (resume->owner && resume->unsure && conflict) {
        resume->asks = true;
        send(resume);
    } else {
        end(resume, result);
    }
}

static void send(struct resume *resume)
{
    resume->under_way = true;
    api_call(resume->owner->options.api,
             &(struct api_request){.verb = resume->asks ? API_GET : API_PATCH,
                                   .kind = &kind_pod,
                                   .ns = resume->ns,
                                   .name = resume->name,
                                   .uid = resume->asks ? STR_NONE : resume->uid,
                                   .patch = API_PATCH_MERGE,
                                   .body = resume->asks ? STR_NONE : resume->body},
             on_answer, resume);
}

void resumer_send(struct resumer *resumer,
                  const struct sched_pod_ref *pod,
                  api_done_fn *done,
                  void *user)
{
    struct resume *resume = MEM_NEW(struct resume);

    resume->owner = resumer;
    resume->done = done;
    resume->user = user;
    resume->ns = str_dup(&resume->arena, pod->ns);
    resume->name = str_dup(&resume->arena, pod->name);
    resume->uid = str_dup(&resume->arena, pod->uid);
    resume->body =
        body_of(cache_get(resumer->options.cache, &kind_pod, pod->ns, pod->name), &resume->arena);
    resume->next = resumer->first;
    resumer->first = resume;
    send(resume);
}

int64_t resumer_turn(struct resumer *resumer, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    for (struct resume *resume = resumer->first, *next; resume; resume = next) {
        next = resume->next;
        if (resume->under_way)
            continue;
        if (!resume->due_ms)
            resume->due_ms = now_ms + RESUMER_RETRY_MS;
        if (resume->due_ms <= now_ms)
            send(resume);
        else if (resume->due_ms < next_ms)
            next_ms = resume->due_ms;
    }
    return next_ms;
}

struct resumer *resumer_new(const struct resumer_options *options)
{
    struct resumer *resumer = MEM_NEW(struct resumer);

    resumer->options = *options;
    return resumer;
}

void resumer_free(struct resumer *resumer)
{
    if (!resumer)
        return;
    for (struct resume *resume = resumer->first, *next; resume; resume = next) {
        next = resume->next;
        resume->owner = NULL;
        if (!resume->under_way)
            end(resume, &(struct api_result){.code = -ECANCELED});
    }
    mem_free(resumer);
}
