#include "plugin/array.h"

#include "api/array.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/job.h"
#include "plugin/plugin.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLLOW_PAUSE_MS 300

bool array_is(const struct json *job)
{
    return !json_is_null(json_at(job, "spec.array"));
}

static int64_t array_index(const struct object *job)
{
    int64_t index = -1;

    (void)str_to_i64(object_label(job, ARRAY_LABEL_INDEX), &index);
    return index;
}

static int array_by_index(const void *a, const void *b)
{
    int64_t x = array_index(*(const struct object *const *)a);
    int64_t y = array_index(*(const struct object *const *)b);

    return (x > y) - (x < y);
}

int array_jobs(struct session *session,
               const char *array,
               const struct object ***ret,
               size_t *ret_count,
               struct err *err)
{
    int r =
        session_list(session, &kind_torchrunjob, session->config.ns,
                     str_printf(&session->arena, ARRAY_LABEL "=%s", array).p, ret, ret_count, err);

    if (r == 0 && *ret_count > 1)
        qsort(*ret, *ret_count, sizeof(**ret), array_by_index);
    return r;
}

int array_all(struct session *session,
              const char *array,
              struct str indexes,
              struct array_job **ret,
              size_t *ret_count,
              struct err *err)
{
    struct array_indexes all = {0};
    const struct object **jobs = NULL;
    size_t count = 0;
    size_t at = 0;
    int r = array_jobs(session, array, &jobs, &count, err);

    if (r == 0)
        r = array_parse(&session->arena, indexes, &all, err);
    if (r < 0)
        return r;
    *ret = ARENA_ARRAY(&session->arena, struct array_job, all.count);
    *ret_count = all.count;
    for (size_t i = 0; i < all.count; i++) {
        while (at < count && array_index(jobs[at]) < all.items[i])
            at++;
        (*ret)[i] = (struct array_job){
            str_printf(&session->arena, "%s-%lld", array, (long long)all.items[i]).p,
            at < count && array_index(jobs[at]) == all.items[i] ? jobs[at] : NULL};
    }
    return 0;
}

/* Phases that were told, by index. */
struct array_told {
    char phase[ARRAY_INDEX_MAX + 1][16];
};

static int array_tell(struct session *session,
                      const char *array,
                      struct array_told *told,
                      struct err *err)
{
    const struct object **jobs;
    size_t count;
    int r = array_jobs(session, array, &jobs, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct str phase = json_str_at(object_json(jobs[i], &session->arena), "status.phase");
        int64_t index = array_index(jobs[i]);

        if (index < 0 || index > ARRAY_INDEX_MAX || !phase.len || str_is(phase, told->phase[index]))
            continue;
        (void)snprintf(told->phase[index], sizeof(told->phase[index]), STR_FMT, STR_ARG(phase));
        (void)printf(STR_FMT " " STR_FMT "\n", STR_ARG(jobs[i]->name), STR_ARG(phase));
        (void)fflush(stdout);
    }
    return r;
}

int array_follow(struct session *session, const char *array, struct err *err)
{
    _cleanup_(arena_done) struct arena kept = {0};
    struct array_told *told = ARENA_NEW(&kept, struct array_told);

    for (;;) {
        _cleanup_(object_unrefp) struct object *job = NULL;
        int r = session_get(session, &kind_torchrunjob, array, &job, err);

        if (r == 0) /* after the array itself was read: its last news are in it */
            r = array_tell(session, array, told, err);
        if (r < 0)
            return r;
        struct json *tree = object_json(job, &session->arena);
        struct str message = json_str_at(tree, "status.message");
        if (job_is_over(json_str_at(tree, "status.phase"))) {
            session_say(session, "job %s: " STR_FMT, array, STR_ARG(message));
            return job_exit_status(tree);
        }
        arena_done(&session->arena);
        session_pause(session, FOLLOW_PAUSE_MS);
    }
}
