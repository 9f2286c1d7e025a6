#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/vec.h"
#include "plugin/line.h"
#include "plugin/plugin.h"
#include "workspace/keep.h"

#include <errno.h>
#include <stdlib.h>

/* Logs of a generation whose pods are gone: the job's sync pod has kept what its ranks printed. */
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
    return err_set(
        err, -ENOENT,
        "the pods of that generation were deleted, and so was the sync pod that kept their logs: "
        "it exists while the job runs and, for a restarted job, until the job is deleted");
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int kept_show(struct session *session,
                     const struct follow_options *options,
                     int64_t pod,
                     struct err *err)
{
    struct str text;
    struct str line;
    int r = kept_ask(session, options->job,
                     str_printf(&session->arena, "generation=%lld&rank=%lld",
                                (long long)options->generation, (long long)pod),
                     &text, err);
    struct str name = str_printf(&session->arena, "worker-%lld", (long long)pod);

    if (r < 0)
        return r;
    text = line_tail(text, options->tail);
    while (str_cut(&text, '\n', &line))
        follow_show_line(session, options->rank, name, line);
    return 0;
}

int kept_logs(struct session *session, const struct follow_options *options, struct err *err)
{
    VEC(int64_t) pods = {0};
    struct str list;
    struct str line;
    int r = kept_ask(session, options->job,
                     str_printf(&session->arena, "generation=%lld", (long long)options->generation),
                     &list, err);

    while (r == 0 && str_cut(&list, '\n', &line)) {
        int64_t pod;

        if (str_to_i64(line, &pod))
            VEC_PUSH(&session->arena, &pods, pod);
    }
    if (r == 0 && pods.count == 0)
        return err_set(
            err, -ENOENT,
            "no logs are kept of generation %lld of job %s (only of the last %d generations)",
            (long long)options->generation, options->job, KEEP_GENERATIONS_MAX);
    if (pods.count)
        qsort(pods.items, pods.count, sizeof(pods.items[0]), by_number);
    for (size_t i = 0; r == 0 && i < pods.count; i++)
        r = kept_show(session, options, pods.items[i], err);
    return r;
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
