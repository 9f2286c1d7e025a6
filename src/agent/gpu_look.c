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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

struct gpu_sample {
    uv_work_t work;
    struct agent *agent;
    struct gpus gpus; /* a copy: the thread sees nothing of the agent */
    struct gpu_use uses[GPU_MAX];
    bool known;
};

static void sample_take(uv_work_t *work)
{
    struct gpu_sample *sample = work->data;

    sample->known = gpu_measure(&sample->gpus, sample->uses);
}

static void sample_told(void *user, const struct api_result *result)
{
    struct node *node = user;

    if (result->code) /* the next one says it again */
        node->gpu_use_told = false;
}

/* Empty: it is not known, and what was said before, by an earlier muster too, is not true any more. */
static void node_tell_use(struct agent *agent, struct node *node, const char *text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = json_new_object(&arena);
    struct json *metadata = json_add_object(&arena, patch, "metadata");
    struct json *annotations = json_add_object(&arena, metadata, "annotations");

    if (node->gpu_use_told && strcmp(node->gpu_use, text) == 0)
        return;
    (void)snprintf(node->gpu_use, sizeof(node->gpu_use), "%s", text);
    node->gpu_use_told = true;
    (void)json_set(annotations, STR(GPU_ANNOTATION_USE),
                   *text ? json_new_str(&arena, str_from(text)) : json_new_null(&arena));
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
        char text[GPU_USE_TEXT] = "";

        if (from + agent->gpus_per_node > sample->gpus.count)
            break;
        if (sample->known)
            gpu_use_text(&sample->uses[from], agent->gpus_per_node, text);
        node_tell_use(agent, &agent->nodes[i], text);
    }
    mem_free(sample);
    agent->gpu_looking = false;
    agent->streams_open--;
    agent_maybe_free(agent);
}

void gpu_look_begin(struct agent *agent)
{
    if (!agent->gpus_real || agent->gpu_looking || !agent->gpus_per_node)
        return;
    struct gpu_sample *sample = MEM_NEW(struct gpu_sample);
    sample->agent = agent;
    sample->work.data = sample;
    sample->gpus = agent->machine.gpus;
    if (uv_queue_work(agent->loop, &sample->work, sample_take, sample_taken) < 0) {
        mem_free(sample);
        return;
    }
    agent->gpu_looking = true;
    agent->streams_open++;
}
