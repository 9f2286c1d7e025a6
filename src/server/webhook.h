#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct kinds;

/* webhook: answers AdmissionReviews of a Kubernetes API server with the rules of src/api, the ones
 * that the embedded server applies itself, so that a manifest is taken or refused alike.
 *
 *   WEBHOOK_PODS   pods: a wish for a share of a GPU is checked and prepared (api/share.h); GPU
 *                  pods get a RuntimeClass if one is set; a pod without owners learns its pod group
 *   WEBHOOK_KINDS  everything else: queues, pod groups and the job kinds are checked
 *   WEBHOOK_MARKS  pods and pod groups: what the scheduler wrote down is nobody else's (api/marks.h)
 *
 * What is being deleted, and an update that leaves the spec alone, is let through: an object that
 * was there before a rule was must not be stuck. */
#define WEBHOOK_PODS  "/mutate/pods"
#define WEBHOOK_KINDS "/validate"
#define WEBHOOK_MARKS "/validate/marks"

struct webhook_rules {
    const struct kinds *kinds;
    struct str scheduler_name; /* pods of others are left alone; empty: all are ours */
    bool shares;               /* GPU sharing is on; off: a wish for a share is refused */
    struct str limit_image;   /* shares are limits, by a library of this image (api/limit.h); empty:
                                 they are not */
    struct str runtime_class; /* of pods with GPUs that name none; empty: left out */
    struct str namespace;     /* of the operator: its ServiceAccounts are ours; empty: none are */
    struct str administrators; /* groups, with commas between: their marks are taken, as those of
                                  MARKS_ADMINISTRATORS are */
    const char *const
        *without; /* controllers that stay off; that of a job kind has its singular as name */
    size_t without_count;
    bool own_devices; /* pods see the GPUs they ask for alone (api/device_access.h) */
};

/* Whether anything answers at this path. */
bool webhook_serves(struct str path);
/* From the request's body to the answer's. -EINVAL with words for what is no AdmissionReview. Pure:
 * the same review gives the same answer. */
int webhook_answer(struct arena *arena,
                   const struct webhook_rules *rules,
                   struct str path,
                   struct str body,
                   struct str *ret,
                   struct err *err);
