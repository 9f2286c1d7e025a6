#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_result;
struct pod;
struct trash;

/* results_kept: what a job wrote in generations that are over.
 *
 *     results/<namespace>_<pod>_<generation>_<job uid>/
 *
 * When the first pod of a job is removed and the job is not (it was restarted, evicted, suspended),
 * the volume with its working folder moves there, whole: a rename, whatever its size. Other pods'
 * folders go with them. Kept as long as the job, for RESULTS_KEPT_AGE_MS, the newest
 * RESULTS_KEPT_MAX and RESULTS_KEPT_BYTES_MAX (as much as `submit` copies home by itself); so
 * `pods/NAME/results?generation=N&job=UID` still answers. */
#define RESULTS_KEPT_AGE_MS    ((int64_t)7 * 24 * 3600 * 1000)
#define RESULTS_KEPT_MAX       200
#define RESULTS_KEPT_BYTES_MAX ((uint64_t)20 << 30)
#define RESULTS_KEPT_FOLDER    "results"
#define RESULTS_KEPT_PATH      4096

/* What is done with the folder of a pod that is removed; prepared in the loop, done in a worker
 * thread. */
struct results_burial {
    char from[RESULTS_KEPT_PATH]; /* the volume; empty: it is none that is kept */
    char all[RESULTS_KEPT_PATH];  /* the folder of all that is kept */
    char name[768];               /* in it */
    char job[300];
    char job_uid[64];
    bool job_is_there;
};

/* False: nothing of this pod is kept. */
bool results_burial_prepare(const struct pod *pod, struct results_burial *ret);
/* What a look for the job says. An answer that is none says nothing of the job, which may be there: its
 * files stay. */
bool results_job_is_there(const struct results_burial *burial, const struct api_result *result);
/* Moves the volume, or, where the job is gone, removes all that was kept of it in its namespace. */
void results_burial_run(const struct results_burial *burial, struct trash *trash);

struct results_kept_request {
    struct str ns;
    struct str pod;
    struct str generation;
    struct str job_uid;
};
/* A descriptor of what is kept, or -errno. */
int results_kept_open(const char *data_dir, const struct results_kept_request *request);

struct results_kept_limits {
    int64_t since_ms; /* what is older goes */
    size_t count;
    uint64_t bytes;
};
void results_kept_prune(const char *folder,
                        const struct results_kept_limits *limits,
                        struct trash *trash);
