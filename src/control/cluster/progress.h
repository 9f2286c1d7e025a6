#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;

/* progress: what a training reports, POST {"trainerStatus": {...}} to the status of its
 * TrainJob, and who may report it.
 *
 * The caller is a pod of that job, with a token whose audience is that one path, so that it is good
 * for nothing else (trainjob_progress.c puts it there). Kubeflow's SDK and Hugging Face's trainer
 * report so when they find the variables KUBEFLOW_TRAINER_SERVER_*. */
#define PROGRESS_BYTES_MAX ((size_t)64 << 10) /* of a body, as Kubeflow's own server */

/* What follows /apis/ in the path, and the audience of the tokens:
 * "trainer.kubeflow.org/v1alpha1/namespaces/NS/trainjobs/NAME/status". */
struct str progress_path(struct arena *arena, struct str ns, struct str name);

/* The merge patch of the TrainJob that a body asks for; lastUpdatedTime is `now_ms` unless it says
 * another. -EINVAL with words, and http_status 422 where the words are about a field. */
int progress_patch(struct arena *arena,
                   struct str body,
                   int64_t now_ms,
                   struct str *ret,
                   struct err *err);

/* A TokenReview: whose token is this, and is it for that audience? */
struct str progress_review(struct arena *arena, struct str token, struct str audience);
/* Whether the API server's answer to it lets the caller tell of a TrainJob of that namespace: the
 * token is for the audience, and of a ServiceAccount there. */
bool progress_allows(const struct json *review, struct str ns, struct str audience);
