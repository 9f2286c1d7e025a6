#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/spec.h"

struct json;
struct object;

/* The queues of a replay as people write them: manifests of scheduling.run.ai Queue or of
 * TorchrunQueue, alone, several in a file, or a List, as `kubectl get queues -o yaml` prints it. */
struct replay_queues VEC_FIELDS(struct sched_queue);

/* The Queue of a TorchrunQueue; its rules are those of the controller that makes it. */
typedef struct json *replay_queue_of_fn(struct arena *arena, const struct object *torchrun_queue);

/* Errors name the file and the queue. What is returned lives as long as `arena`. Refused: other
 * kinds, one name twice, a parent that is not in the file (but for
 * `default`, which TorchrunQueues without one have). */
int replay_queues_parse(struct arena *arena,
                        const char *path,
                        struct str text,
                        replay_queue_of_fn *queue_of,
                        struct replay_queues *ret,
                        struct err *err);
