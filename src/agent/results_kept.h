#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_result;
struct pod;
struct trash;

/* results_kept: what the pods of a job wrote, after they are gone.
 *
 *     results/<namespace>_<pod>_<generation>_<job uid>/folder
 *
 * When a worker pod of a job is removed, whatever ended it (a restart, an eviction, a limit, the job's own
 * deletion), what is as it was shipped goes and the volume with its working folder moves there: a rename, whatever
 * its size. Of a pod that wrote nothing, nothing is kept. So `pods/NAME/results?generation=N&job=UID` still answers;
 * generation=newest: the newest there is, without a job of any job of that name. What its owner has at home, or
 * wanted to be gone (RESULTS_ANNOTATION of api/launch.h), goes with the job.
 *
 * What was shipped is on the disk while the job needs it: in the claim of its sync pod, from where pods get it, and
 * in the folder of each pod. What is as it was shipped goes from a pod's folder when the pod has ended, and from the claim when the
 * sync pod of a job ends that is over; who sent it has it.
 *
 * Kept are RESULTS_KEPT_BYTES_MAX a namespace, as much as `submit` copies home by itself, for RESULTS_KEPT_AGE_MS. The
 * oldest go first, and each is named RESULTS_KEPT_NOTICE_MS before in an event of its job: so nothing goes that is
 * younger than that. */
#define RESULTS_KEPT_DAY_MS    ((int64_t)24 * 3600 * 1000)
#define RESULTS_KEPT_AGE_MS    (7 * RESULTS_KEPT_DAY_MS)
#define RESULTS_KEPT_NOTICE_MS RESULTS_KEPT_DAY_MS
#define RESULTS_KEPT_BYTES_MAX ((uint64_t)20 << 30)
#define RESULTS_KEPT_LOOK_MS   ((int64_t)3600 * 1000) /* so often is looked through them */
#define RESULTS_KEPT_SAID_MAX  16 /* that are named at once; the others at the next look */
#define RESULTS_KEPT_FOLDER    "results"
#define RESULTS_KEPT_PATH      4096
#define RESULTS_KEPT_NAME      768
#define RESULTS_EARLIER        "earlier-" /* with a number: what a pod of the same name wrote before it */
#define RESULTS_NEWEST_WORD    "newest"

/* What is done with the folder of a pod that is removed; prepared in the loop, done in a worker
 * thread. */
struct results_burial {
    char from[RESULTS_KEPT_PATH]; /* the volume; empty: it is none that is kept */
    char all[RESULTS_KEPT_PATH];  /* the folder of all that is kept */
    char name[RESULTS_KEPT_NAME]; /* in it */
    char job[300];
    char job_uid[64];
    bool job_is_there;
    bool settled; /* it is at home, or is not wanted */
    bool claim;   /* `from` is that of a sync pod: nothing moves */
    bool strip;   /* what is as it was shipped goes, and no more is done */
};

/* False: nothing of this pod is kept. */
bool results_burial_prepare(const struct pod *pod, struct results_burial *ret);
/* For a pod that has ended, and stays: what is as it was shipped goes, from a claim when its job is over. False: it has
 * nothing of that kind. */
bool results_strip_prepare(const struct pod *pod, struct results_burial *ret);
/* What a look for the job of a claim says: it was sent by somebody, and nobody needs it any more. */
bool results_claim_is_done(const struct results_burial *burial, const struct api_result *result);
/* What a look for the job says. An answer that is none says nothing of the job, which may be there: its
 * files stay. */
bool results_job_is_there(const struct results_burial *burial, const struct api_result *result);
/* Moves the volume, or, where the job is gone and that is settled, removes all that was kept of it in its
 * namespace. */
void results_burial_run(const struct results_burial *burial, struct trash *trash);

struct results_kept_request {
    struct str ns;
    struct str pod;
    struct str generation;
    struct str job_uid; /* empty: of any job of that name, the last one */
    int64_t since_ms;   /* what is older is of an earlier namespace of the name */
};
/* A descriptor of what is kept, or -errno. */
int results_kept_open(const char *data_dir, const struct results_kept_request *request);

/* What goes next, and why. */
struct results_said {
    char name[RESULTS_KEPT_NAME];
    uint64_t bytes;
    bool too_much; /* else too old */
};

struct results_kept_limits {
    int64_t now_ms;
    uint64_t bytes; /* a namespace */
};
/* Removes what was named long enough ago, and names what goes next: how many it wrote to `said`. */
size_t results_kept_prune(const char *folder,
                          const struct results_kept_limits *limits,
                          struct results_said said[RESULTS_KEPT_SAID_MAX],
                          struct trash *trash);
