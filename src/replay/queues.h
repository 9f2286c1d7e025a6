#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/spec.h"

/* The queues of a replay as people write them: manifests of scheduling.run.ai Queue, alone, several
 * in a file, or a List, as `kubectl get queues -o yaml` prints it. */
struct replay_queues VEC_FIELDS(struct sched_queue);

/* Errors name the file and the queue. What is returned lives as long as `arena`. Refused: other
 * kinds, one name twice, a parent that is not in the file. */
int replay_queues_parse(struct arena *arena,
                        const char *path,
                        struct str text,
                        struct replay_queues *ret,
                        struct err *err);
