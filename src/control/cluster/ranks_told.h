#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;

/* ranks told: what a pod tells of its own ranks where no agent of ours could look, POST of the text
 * that the annotation has (api/ranks.h), and who may tell it.
 *
 * The caller is that very pod: its token is bound to it, and its audience is this one path, so that it
 * is good for nothing else (torchrun_pods.c puts it there, muster-launch uses it). */
#define RANKS_TOLD_BYTES_MAX ((size_t)64 << 10) /* of a body: three times RANKS_MAX reports */
#define RANKS_TOLD_MS        1000               /* a pod is heard so often, half of what it sends */

/* What follows /api/ in the path, and the audience of the tokens:
 * "v1/namespaces/NS/pods/NAME/ranks". */
struct str ranks_told_path(struct arena *arena, struct str ns, struct str pod);

/* The merge patch of the pod that a body asks for. Of what it says only reports of ranks are taken,
 * written anew. -EINVAL with words, and http_status 422 where it is JSON that tells of no rank; an
 * empty list is fine. */
int ranks_told_patch(struct arena *arena, struct str body, struct str *ret, struct err *err);

/* Whether the API server's answer to progress_review() lets the caller tell of that pod: the token is
 * for the audience, and bound to the pod. *ret_uid is the pod's, of the answer. */
bool ranks_told_allows(const struct json *review,
                       struct str ns,
                       struct str pod,
                       struct str audience,
                       struct str *ret_uid);

/* Pods that have told, by the audience of their tokens. A token that was found to be good is not asked
 * about again for RANKS_TOLD_KNOWN_MS: the pod may be gone meanwhile, but then nothing with its uid
 * is there to be written to. */
#define RANKS_TOLD_PODS_MAX 4096 /* at some 1.5 KiB each; the one silent for longest gives way */
#define RANKS_TOLD_KNOWN_MS 300000

struct ranks_told {
    struct map pods;
};

/* The uid of the pod whose token this is known to be; empty: not known. */
struct str ranks_told_known(const struct ranks_told *told,
                            struct str audience,
                            struct str token,
                            int64_t now_ms);
void ranks_told_learn(struct ranks_told *told,
                      struct str audience,
                      struct str token,
                      struct str uid,
                      int64_t now_ms);
/* Whether one that is known may tell now, and if so, that it does. */
bool ranks_told_may(struct ranks_told *told, struct str audience, int64_t now_ms);
void ranks_told_done(struct ranks_told *told);
