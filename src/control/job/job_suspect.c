#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/suspect.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a job says of its nodes, and what it does when something is said of one (api/suspect.h). */

/* Words of a program whose card, link or disk failed it. Most failures are the program's own and say
 * nothing of a node: an exception, too little memory, an assertion. Whoever writes beyond a tensor
 * may say one of these as well, so one job alone proves nothing. */
static const char *const device_words[] = {
    "uncorrectable ECC error",
    "CUDA error: unspecified launch failure",
    "CUDA error: an illegal memory access",
    "CUDA error: unknown error",
    "CUDA error: the launch timed out",
    "CUDA error: hardware stack error",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "ncclUnhandledCudaError",
    "ncclSystemError",
    "GPU is lost",
    "Input/output error",
};

/* 128 + SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV: who ends so was ended. */
static const int64_t signal_codes[] = {132, 134, 135, 136, 137, 139};

bool job_is_preflight(const struct job_failure *failure)
{
    return str_starts(failure->message, STR(LAUNCH_PREFLIGHT));
}

const char *job_blame_word(const struct job_failure *failure)
{
    if (str_is(failure->reason, JOB_REASON_HUNG))
        return "Hung";
    if (str_is(failure->reason, "OOMKilled") || failure->evidence > JOB_EVIDENCE_OWN ||
        job_broken_program(failure).len)
        return NULL;
    if (job_is_preflight(failure))
        return SUSPECT_PREFLIGHT;
    for (size_t i = 0; i < COUNT_OF(device_words); i++)
        if (str_contains(failure->message, str_from(device_words[i])))
            return "Device";
    for (size_t i = 0; i < COUNT_OF(signal_codes); i++)
        if (failure->exit_code == signal_codes[i])
            return "Killed";
    return NULL;
}

void job_blame_node(const struct control_input *input,
                    const struct job_blamer *who,
                    const struct job_failure *failure,
                    int64_t at_ms,
                    struct arena *arena,
                    struct actions *actions)
{
    const char *word = job_blame_word(failure);
    const struct object *node = cache_get(input->cache, &kind_node, STR(""), failure->node);
    struct suspect_blame blames[SUSPECT_BLAMES_MAX];
    struct str line = str_sub(failure->message, 0, str_find(failure->message, '\n'));

    if (!input->config->node_health || !word || !node)
        return;
    struct str key = suspect_blame_key(arena, who->uid);
    struct str before = object_annotation(node, str_c(arena, key));
    if (!before.len && suspect_blames(node, blames) >= SUSPECT_BLAMES_MAX)
        return;
    struct json *patch = json_new_object(arena);
    struct str words = str_printf(arena, STR_FMT "/" STR_FMT ": " STR_FMT, STR_ARG(who->ns),
                                  STR_ARG(who->name), STR_ARG(line));
    struct str text = suspect_blame_text(arena, at_ms, word, words);
    if (str_eq(before, text))
        return;
    json_set(json_make_path(arena, patch, "metadata.annotations"), key, json_new_str(arena, text));
    action_patch(actions, node, patch);
    /* Whoever may not write on nodes still has jobs to restart. */
    actions->list.items[actions->list.count - 1].lossy = true;
}

void job_blame(struct job_run *run, const struct job_failure *failure)
{
    const struct object *job = run->model.object;
    struct job_blamer who = {.ns = job->ns, .name = job->name, .uid = job->uid};

    job_blame_node(run->input, &who, failure, run->input->now_ms, run->arena, &run->actions);
}

/* Whether pods that leave a node have anywhere to go. */
static bool has_other_node(const struct job_run *run, struct str but)
{
    const struct object *node;
    size_t cursor = 0;

    while ((node = cache_next(run->input->cache, &kind_node, STR(""), &cursor))) {
        if (str_eq(node->name, but) || suspect_is_named(node))
            continue;
        const struct json *tree = object_json(node, run->arena);
        if (condition_is_true(json_get(tree, "status"), "Ready") &&
            !json_bool_or(json_at(tree, "spec.unschedulable"), false))
            return true;
    }
    return false;
}

static void observe(const struct job_run *run, struct job_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        struct job_member *member = &members->items[i];
        const struct object *node = cache_get(run->input->cache, &kind_node, STR(""), member->node);

        /* One that is suspended has given up its GPUs: it comes back as it went. */
        if (!node || (member->phase > JOB_POD_RUNNING && !member->held) || member->away ||
            member->suspend.len || !suspect_is_named(node))
            continue;
        member->suspected = true;
        struct str why = suspect_leave(object_json(node, run->arena));
        if (why.len && has_other_node(run, node->name))
            member->sick = str_printf(run->arena, "node " STR_FMT " is not well (" STR_FMT ")",
                                      STR_ARG(node->name), STR_ARG(why));
    }
}

void job_suspect_observe(struct job_run *run)
{
    observe(run, &run->members);
    observe(run, &run->spares);
}
