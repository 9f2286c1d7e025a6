#pragma once

#include "base/str.h"
#include "control/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct control_input;
struct decode_table;
struct json;
struct object;
struct torchrun_resource;
struct torchrun_spec;

/* torchrun: TorchrunQueue and TorchrunJob, in all their spellings.
 *
 * Three dialects of both kinds exist; every reader here accepts all of them, the seed's first:
 *   queue   spec.kaiQueue, spec.parentKaiQueue      or spec.queue.{name,parentQueue,resources}
 *   job     spec.jobQueue                           or spec.queue
 *   size    spec.numGPUs                            or spec.numNodes
 *   shape   spec.nodeResources                      or the trainer container of spec.podTemplate
 *   volumes spec.storage.workspace                  or spec.workspaceStorage
 * What a job says wins over what its queue says. */
#define TORCHRUN_TRAINER   "trainer"
#define TORCHRUN_PARENT    "default"
#define TORCHRUN_MOUNT     "/app"
#define TORCHRUN_IMAGE     "pytorch/pytorch:latest"
#define TORCHRUN_WORKSPACE "torchrun.ai/workspace"          /* annotation: "upload" */
#define TORCHRUN_REVISION  "torchrun.ai/workspace-revision" /* annotation: set after the upload */
#define TORCHRUN_GPU_TYPE  "torchrun.ai/gpu-type"           /* node label */
#define TORCHRUN_GPU       "nvidia.com/gpu"

/* Name of the TorchrunQueue that a job names; empty when it names none. */
struct str torchrun_job_queue(struct arena *arena, const struct json *job);

/* The scheduling queue that a TorchrunQueue maps to. */
struct torchrun_names {
    struct str queue;
    struct str parent;
    const struct json *shares; /* what it is entitled to; NULL: nothing said */
    bool named;                /* `queue` was said; else it is the TorchrunQueue's own name */
};
struct torchrun_names torchrun_queue_map(struct arena *arena,
                                         const struct object *queue,
                                         const struct json *tree);
/* The scheduling queue that is made for it, as a manifest. */
struct json *torchrun_queue_manifest(struct arena *arena, const struct object *queue);
/* Why a TorchrunQueue cannot have the scheduling queue it maps to, in words: another TorchrunQueue
 * made it, perhaps one of the same name in another namespace. Empty: it can. Two may share one by
 * naming it both, if the second says nothing of what it is entitled to. */
struct str torchrun_queue_conflict(const struct cache *cache,
                                   const struct object *queue,
                                   const struct torchrun_names *names,
                                   struct arena *arena);
extern const struct decode_table torchrun_job_names;
extern const struct decode_table torchrun_queue_names;

/* What is wrong with a queue's pod template, in words; empty when nothing is. */
struct str torchrun_template_problem(const struct json *template, struct arena *arena);

/* How many GPUs each pod gets. One pod if they fit on a node, else the fewest pods, as even as
 * possible: 12 on nodes of 8 are 6+6, 17 are 6+6+5. Returns the number of pods (at most `max`). */
size_t torchrun_split(int64_t gpus, int64_t gpus_per_node, int64_t *ret_gpus, size_t max);

/* Name of an object of spec.resources: as given, or behind the queue's with nameMode prefix. */
struct str torchrun_resource_name(const struct object *queue,
                                  const struct torchrun_resource *resource,
                                  struct arena *arena);
/* Make and keep the objects of spec.resources; says in `status` how they are. False: not all there.
 */
bool torchrun_resources(const struct control_input *input,
                        const struct object *queue,
                        const struct torchrun_spec *spec,
                        struct actions *actions,
                        struct json *status);

extern const struct job_kind torchrun_job_kind;
