#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/vec.h"
#include "plugin/line.h"
#include "plugin/plugin.h"
#include "workspace/keep.h"

#include <errno.h>
#include <stdlib.h>

/* Logs of a generation whose pods are gone. The job's sync pod has kept what its ranks printed; where
 * there is none (the job is over, or was made without a workspace), the nodes of `muster up` have. The nodes of a
 * cluster keep nothing of a pod that was deleted. */
#define LOG_LIMIT_MS 60000

static int kept_ask(struct session *session,
                    const char *job,
                    struct str query,
                    struct str *ret_body,
                    struct err *err)
{
    struct str path = str_printf(&session->arena, STR_FMT "?" STR_FMT,
                                 STR_ARG(sync_path(session, job, "log")), STR_ARG(query));
    int status = sync_http(
        session, job,
        &(struct session_request){.method = "GET", .path = path, .timeout_ms = LOG_LIMIT_MS},
        ret_body, err);

    if (status == 200 || status < 0)
        return status < 0 ? status : 0;
    if (status == 401)
        return err_set(err, -EACCES, "the sync pod answered: " STR_FMT,
                       STR_ARG(session_error_text(session, *ret_body)));
    return err_set(err, -ENOENT,
                   "the pods of that generation are gone, and job %s has no sync pod that kept "
                   "their logs: give it a workspace (submit, or workspaceStorage.source: "
                   "existing); on a cluster it keeps them for 24 hours after the job's end. "
                   "`status` has what failed last",
                   job);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void kept_print(struct session *session,
                       const struct follow_options *options,
                       int64_t pod,
                       struct str text)
{
    struct str name = str_printf(&session->arena, "worker-%lld", (long long)pod);
    struct str line;

    text = line_tail(text, options->rank, options->tail);
    while (text.len && str_cut(&text, '\n', &line))
        follow_show_line(session, options->rank, name, line);
}

static int kept_show(struct session *session,
                     const struct follow_options *options,
                     int64_t pod,
                     struct err *err)
{
    struct str text;
    int r = kept_ask(session, options->job,
                     str_printf(&session->arena, "generation=%lld&rank=%lld",
                                (long long)options->generation, (long long)pod),
                     &text, err);

    if (r == 0)
        kept_print(session, options, pod, text);
    return r;
}

/* Whose logs the sync pod has, in order; -ENOENT: nobody's, or there is no sync pod. */
struct kept_pods VEC_FIELDS(int64_t);

static int kept_list(struct session *session,
                     const struct follow_options *options,
                     struct kept_pods *ret,
                     struct err *err)
{
    struct str list;
    struct str line;
    int r = kept_ask(session, options->job,
                     str_printf(&session->arena, "generation=%lld", (long long)options->generation),
                     &list, err);

    while (r == 0 && str_cut(&list, '\n', &line)) {
        int64_t pod;

        if (str_to_i64(line, &pod))
            VEC_PUSH(&session->arena, ret, pod);
    }
    if (r == 0 && ret->count == 0)
        return err_set(
            err, -ENOENT,
            "no logs are kept of generation %lld of job %s (only of the last %d generations)",
            (long long)options->generation, options->job, KEEP_GENERATIONS_MAX);
    if (ret->count)
        qsort(ret->items, ret->count, sizeof(ret->items[0]), by_number);
    return r;
}

/* ---- what the nodes keep ---- */

/* Another API server does not know `generation`, and would answer with the log of today's pod. */
static bool nodes_keep(struct session *session)
{
    struct str body;
    int status =
        session_http(session,
                     &(struct session_request){
                         .method = "GET", .path = STR("/version"), .timeout_ms = LOG_LIMIT_MS},
                     &body, NULL);

    return status == 200 && str_contains(body, STR("+muster-"));
}

/* 1: shown; 0: there is none. */
static int node_show(struct session *session,
                     const struct follow_options *options,
                     int64_t pod,
                     struct err *err)
{
    struct str text;
    struct str path = str_printf(
        &session->arena, "/api/v1/namespaces/%s/pods/%s-worker-%lld/log?generation=%lld",
        session->config.ns, options->job, (long long)pod, (long long)options->generation);
    int status = session_http(
        session,
        &(struct session_request){.method = "GET", .path = path, .timeout_ms = LOG_LIMIT_MS}, &text,
        err);

    if (status < 0)
        return status;
    if (status == 404)
        return 0;
    if (status != 200)
        return err_set(err, -EIO, "pod %s-worker-%lld: " STR_FMT, options->job, (long long)pod,
                       STR_ARG(session_error_text(session, text)));
    kept_print(session, options, pod, text);
    return 1;
}

static int kept_size(struct session *session, const char *job, int64_t *ret, struct err *err)
{
    struct object *object = NULL;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return r;
    *ret = json_i64_or(json_at(object_json(object, &session->arena), "status.numNodes"), 0);
    object_unref(object);
    return 0;
}

/* Pods of the generation; it may have been larger than the job is now. 1: some were shown. */
static int nodes_logs(struct session *session,
                      const struct follow_options *options,
                      struct err *err)
{
    int64_t size = 0;
    int r = kept_size(session, options->job, &size, err);
    bool any = false;

    for (int64_t pod = 0; r >= 0 && (pod < size || r > 0); pod++) {
        r = node_show(session, options, pod, err);
        any = any || r > 0;
    }
    return r < 0 ? r : any;
}

int kept_logs(struct session *session, const struct follow_options *options, struct err *err)
{
    struct kept_pods pods = {0};
    int r = kept_list(session, options, &pods, err);

    if (r == -ENOENT && nodes_keep(session)) {
        r = nodes_logs(session, options, err);
        if (r == 0)
            return err_set(err, -ENOENT,
                           "no logs are kept of generation %lld of job %s: its pods printed "
                           "nothing, or are gone for too long",
                           (long long)options->generation, options->job);
        return r < 0 ? r : 0;
    }
    for (size_t i = 0; r == 0 && i < pods.count; i++)
        r = kept_show(session, options, pods.items[i], err);
    return r;
}

/* Whether one of the pods is the worker of that number. */
static bool pods_have(const struct object *const *pods, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(pods[i]->name, name))
            return true;
    return false;
}

int kept_of_gone(struct session *session, const struct follow_options *options, struct err *err)
{
    struct follow_options gone = *options;
    const struct object **pods = NULL;
    size_t count = 0;
    int64_t size = 0;
    bool asked = false;
    int r = kept_size(session, options->job, &size, err);

    if (r == 0)
        r = kept_generation(session, options->job, &gone.generation, err);
    if (r == 0)
        r = session_list_pods(session, options->job, &pods, &count, err);
    for (int64_t pod = 0; r >= 0 && pod < size; pod++) {
        struct str name =
            str_printf(&session->arena, "%s-worker-%lld", options->job, (long long)pod);

        if (pods_have(pods, count, name))
            continue;
        if (!asked && !nodes_keep(session))
            break;
        asked = true;
        r = node_show(session, &gone, pod, err);
    }
    return r < 0 ? r : 0;
}

int kept_generation(struct session *session, const char *job, int64_t *ret_current, struct err *err)
{
    struct object *object = NULL;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return r;
    *ret_current =
        json_i64_or(json_at(object_json(object, &session->arena), "status.generation"), 0);
    object_unref(object);
    return 0;
}
