#pragma once

#include "base/str.h"
#include "control/builtin/workload.h"

#include <stdint.h>

struct json;
struct object;

/* revision: the templates that a StatefulSet or a DaemonSet ever had, each in a ControllerRevision:
 * what `kubectl rollout history` lists and `kubectl rollout undo` goes back to.
 *
 * data is the patch that brings the template back: {"spec":{"template":{"$patch":"replace",...}}}.
 */
#define REVISION_LABEL "controller-revision-hash" /* of pods, and of a DaemonSet's revisions */

struct revisions {
    struct workload_objects list; /* of the owner, in no order */
    struct str name;              /* of the present template's: <owner>-<hash> */
    struct str hash;
};

/* Find the revision of the present template, or make it; the present one has the highest number. */
void revisions_open(struct workload *w, struct revisions *ret);
/* The template of a revision; the present one of the owner when there is no such revision. */
const struct json *revision_template(struct workload *w,
                                     const struct revisions *revisions,
                                     struct str name);
/* Delete old ones beyond spec.revisionHistoryLimit, but for those that are `used`. */
void revisions_trim(struct workload *w,
                    const struct revisions *revisions,
                    bool (*used)(const void *user, const struct object *revision),
                    const void *user);
