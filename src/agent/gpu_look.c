#include "agent/gpu_look.h"

#include "agent/core.h"
#include "agent/gpu.h"
#include "agent/node.h"
#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct gpu_sample {
    uv_work_t work;
    struct agent *agent;
    struct gpus gpus; /* a copy: the thread sees nothing of the agent */
    struct gpu_use uses[GPU_MAX];
    size_t count;
    bool known;
    const char *pretend; /* a file that says what is measured of simulated cards; NULL: none does */
};

/* "0/0,88/4096": percent and MiB of each card. */
static bool sample_pretend(struct gpu_sample *sample)
{
    FILE *file = fopen(sample->pretend, "re");
    long long mib = 0;

    sample->count = 0;
    while (file && sample->count < GPU_MAX &&
           fscanf(file, "%d/%lld,", &sample->uses[sample->count].percent, &mib) == 2)
        sample->uses[sample->count++].mib = mib;
    if (file)
        (void)fclose(file);
    return sample->count > 0;
}

static void sample_take(uv_work_t *work)
{
    struct gpu_sample *sample = work->data;

    sample->count = sample->gpus.count;
    sample->known =
        sample->pretend ? sample_pretend(sample) : gpu_measure(&sample->gpus, sample->uses);
}

/* A card that did nothing, and on which nobody took or gave back memory. */
static void node_judge_use(struct node *node, const struct gpu_use *uses, size_t count)
{
    int64_t now_ms = agent_now_ms();

    for (size_t i = 0; i < count && i < AGENT_GPUS_MAX; i++) {
        bool used = uses[i].percent != 0 || uses[i].peak != 0 || uses[i].mib != node->gpu_mib[i];

        node->gpu_mib[i] = uses[i].mib;
        node->gpu_unused_ms[i] = used                     ? 0
                                 : node->gpu_unused_ms[i] ? node->gpu_unused_ms[i]
                                                          : now_ms;
    }
}

static void node_unused_text(const struct node *node,
                             size_t count,
                             char out[static GPU_UNUSED_TEXT])
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR_NONE;

    for (size_t i = 0; i < count && i < GPU_MAX; i++)
        text = str_printf(
            &arena, STR_FMT "%s" STR_FMT, STR_ARG(text), i ? "," : "",
            STR_ARG(node->gpu_unused_ms[i] ? time_text(&arena, node->gpu_unused_ms[i]) : STR("-")));
    (void)snprintf(out, GPU_UNUSED_TEXT, STR_FMT, STR_ARG(text));
}

static void sample_told(void *user, const struct api_result *result)
{
    struct node *node = user;

    if (result->code) /* the next one says it again */
        node->gpu_use_told = false;
}

/* Empty: it is not known, and what was said before, by an earlier muster too, is not true any more. */
static void node_tell_use(struct agent *agent,
                          struct node *node,
                          const char *text,
                          const char *unused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = json_new_object(&arena);
    struct json *metadata = json_add_object(&arena, patch, "metadata");
    struct json *annotations = json_add_object(&arena, metadata, "annotations");

    if (node->gpu_use_told && strcmp(node->gpu_use, text) == 0 &&
        strcmp(node->gpu_unused, unused) == 0)
        return;
    (void)snprintf(node->gpu_use, sizeof(node->gpu_use), "%s", text);
    (void)snprintf(node->gpu_unused, sizeof(node->gpu_unused), "%s", unused);
    node->gpu_use_told = true;
    (void)json_set(annotations, STR(GPU_ANNOTATION_USE),
                   *text ? json_new_str(&arena, str_from(text)) : json_new_null(&arena));
    (void)json_set(annotations, STR(GPU_ANNOTATION_UNUSED),
                   *unused ? json_new_str(&arena, str_from(unused)) : json_new_null(&arena));
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_node,
                                  .name = str_from(node->name),
                                  .patch = API_PATCH_MERGE,
                                  .body = json_text(&arena, patch)};
    agent_call(agent, &request, sample_told, node);
}

static void sample_taken(uv_work_t *work, int status)
{
    struct gpu_sample *sample = work->data;
    struct agent *agent = sample->agent;

    for (uint32_t i = 0; status == 0 && !agent->stopping && i < agent->options.node_count; i++) {
        size_t from = (size_t)i * agent->gpus_per_node;
        char text[GPU_USE_TEXT] = "", unused[GPU_UNUSED_TEXT] = "";

        if (from + agent->gpus_per_node > sample->count)
            break;
        if (sample->known) {
            gpu_use_text(&sample->uses[from], agent->gpus_per_node, text);
            node_judge_use(&agent->nodes[i], &sample->uses[from], agent->gpus_per_node);
            node_unused_text(&agent->nodes[i], agent->gpus_per_node, unused);
        }
        node_tell_use(agent, &agent->nodes[i], text, unused);
    }
    mem_free(sample);
    agent->gpu_looking = false;
    agent->streams_open--;
    agent_maybe_free(agent);
}

void gpu_look_begin(struct agent *agent)
{
    const char *pretend = agent->gpus_real ? NULL : getenv(GPU_LOOK_PRETEND);

    if ((!agent->gpus_real && !pretend) || agent->gpu_looking || !agent->gpus_per_node)
        return;
    struct gpu_sample *sample = MEM_NEW(struct gpu_sample);
    sample->agent = agent;
    sample->work.data = sample;
    sample->gpus = agent->machine.gpus;
    sample->pretend = pretend;
    if (uv_queue_work(agent->loop, &sample->work, sample_take, sample_taken) < 0) {
        mem_free(sample);
        return;
    }
    agent->gpu_looking = true;
    agent->streams_open++;
}
