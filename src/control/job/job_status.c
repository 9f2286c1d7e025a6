#include "api/kind.h"
#include "api/object.h"
#include "api/suspect.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What all kinds of jobs share besides the engine: the part of the status that the engine
 * remembers, and the keys that a change touches. */

static int64_t moment(const struct json *status, const char *key)
{
    int64_t ms = 0;

    (void)time_parse(json_str(json_get(status, key)), &ms);
    return ms;
}

static void read_abnormal(const struct json *status, struct job_state *ret)
{
    JSON_FOREACH(json_get(status, "abnormalPods"), entry)
        if (ret->abnormal_count < JOB_ABNORMAL_MAX)
            ret->abnormal[ret->abnormal_count++] =
                (struct job_abnormal){.pod = json_str(json_get(entry, "pod")),
                                      .reason = json_str(json_get(entry, "reason"))};
}

static void write_abnormal(const struct job_state *state, struct json *status, struct arena *arena)
{
    json_remove(status, STR("abnormalPods"));
    if (!state->abnormal_count)
        return;
    struct json *list = json_add_array(arena, status, "abnormalPods");
    for (size_t i = 0; i < state->abnormal_count; i++) {
        json_push(list, json_make(arena, "{pod: $, reason: $}", state->abnormal[i].pod,
                                  state->abnormal[i].reason));
    }
}

void job_state_read(const struct json *status, struct job_state *ret)
{
    const struct json *failure = json_get(status, "failure");

    *ret = (struct job_state){
        .phase = job_phase_parse(json_str(json_get(status, "phase"))),
        .message = json_str(json_get(status, "message")),
        .generation = json_i64_or(json_get(status, "generation"), 0),
        .restarts = json_i64_or(json_get(status, "restarts"), 0),
        .disruptions = json_i64_or(json_get(status, "preemptions"), 0),
        .round = json_i64_or(json_get(status, "round"), 0),
        .stayed = json_i64_or(json_get(status, "restartsInPlace"), 0),
        .start_ms = moment(status, "startTime"),
        .completion_ms = moment(status, "completionTime"),
        .run_start_ms = moment(status, "runStartTime"),
        .run_ms = json_i64_or(json_get(status, "runSeconds"), 0) * 1000,
        .exit_code = json_i64_or(json_get(status, "exitCode"), -1),
        .failure = {.pod = json_str(json_get(failure, "pod")),
                    .node = json_str(json_get(failure, "node")),
                    .has_rank = json_get(failure, "rank") != NULL,
                    .rank = json_i64_or(json_get(failure, "rank"), 0),
                    .exit_code = json_i64_or(json_get(failure, "exitCode"), 0),
                    .reason = json_str(json_get(failure, "reason")),
                    .message = json_str(json_get(failure, "message")),
                    .time_ms = moment(failure, "time")},
    };
    read_abnormal(status, ret);
}

static void write_moment(struct arena *arena, struct json *to, const char *key, int64_t ms)
{
    if (ms)
        json_add_str(arena, to, key, time_text(arena, ms));
    else
        json_remove(to, str_from(key));
}

static void write_failure(const struct job_state *state, struct json *status, struct arena *arena)
{
    if (!state->failure.time_ms)
        return;
    struct json *failure = json_add_object(arena, status, "failure");
    json_fill(arena, failure, "{pod: $, exitCode: $, reason: $, message: $}", state->failure.pod,
              state->failure.exit_code, state->failure.reason, state->failure.message);
    if (state->failure.node.len)
        json_add_str(arena, failure, "node", state->failure.node);
    if (state->failure.has_rank)
        json_add_i64(arena, failure, "rank", state->failure.rank);
    write_moment(arena, failure, "time", state->failure.time_ms);
}

void job_state_write(const struct job_state *state, struct json *status, struct arena *arena)
{
    json_fill(arena, status,
              "{phase: $, message: $, generation: $, restarts: $, preemptions: $, "
              "runSeconds: $}",
              job_phase_word(state->phase), state->message, state->generation, state->restarts,
              state->disruptions, state->run_ms / 1000);
    if (state->stayed) {
        json_add_i64(arena, status, "round", state->round);
        json_add_i64(arena, status, "restartsInPlace", state->stayed);
    }
    if (state->exit_code >= 0)
        json_add_i64(arena, status, "exitCode", state->exit_code);
    write_moment(arena, status, "startTime", state->start_ms);
    write_moment(arena, status, "runStartTime", state->run_start_ms);
    write_moment(arena, status, "completionTime", state->completion_ms);
    write_failure(state, status, arena);
    write_abnormal(state, status, arena);
}

/* ---- keys ---- */

static bool node_is_ready(const struct object *node)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return condition_is_true(json_get(object_tree(node, &arena), "status"), "Ready");
}

/* Heartbeats of one that is only suspected move nobody. */
static bool node_is_left(const struct object *node)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return suspect_is_named(node) && suspect_leave(object_tree(node, &arena)).len;
}

static void unfinished(const struct kind *kind, const struct cache *cache, struct control_keys *ret)
{
    const struct object *job;
    size_t cursor = 0;

    while ((job = cache_next(cache, kind, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str phase = json_str_at(object_json(job, &arena), "status.phase");

        if (!job_phase_is_final(job_phase_parse(phase)))
            control_keys_add(ret, job->ns, job->name);
    }
}

void job_keys(const struct kind *kind,
              const struct cache *cache,
              const struct object *object,
              struct control_keys *ret)
{
    if (object->kind == kind) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    if (object->kind == &kind_node) {
        /* Heartbeats are many; what matters is a node that goes, falls silent or is not well. */
        if (!cache_get(cache, &kind_node, STR(""), object->name) || node_is_left(object) ||
            !node_is_ready(object))
            unfinished(kind, cache, ret);
        return;
    }
    const struct object_owner *owner = object_controller(object);
    char version[KIND_API_VERSION_BYTES];
    if (owner && str_is(owner->kind, kind->name) &&
        str_eq(owner->api_version, kind_api_version(kind, version)))
        control_keys_add(ret, object->ns, owner->name);
}
