#pragma once

#include "base/str.h"
#include "plugin/home.h"
#include "plugin/results.h"
#include "workspace/results.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct home_record;

/* home_plan: where each file of a job goes in the folder that it came from (plugin/home.h): a look at the folder
 * before anything is written. */
struct home_item {
    enum home_verdict verdict;
    struct str as;         /* where it goes; another path than its own where that is taken */
    struct results_id old; /* what it replaces; no inode: nothing */
    bool own;              /* that came from the job before */
    bool came;             /* it is there now */
    bool failed;           /* it could not be put there, and that is noted */
};

#define HOME_FAILED_MAX 5
struct home_plan {
    struct arena *arena;
    const char *job;
    struct home_record *record; /* what came before, and what comes */
    const char *id;             /* of the record, which is written meanwhile; NULL: it is not */
    int64_t noted_ms;
    struct str below;        /* where in the record's folder, with a slash at its end, or empty */
    struct result_list list; /* of the job's files, by path */
    struct home_item *items; /* for each */
    struct results_sink *sink;
    struct home_item *now; /* that is being written */
    size_t aside_count;
    size_t same_count;
    size_t failed_count;                /* that could not be put in their places */
    struct str failed[HOME_FAILED_MAX]; /* why, of the first of them */
    uint64_t bytes;                     /* of those that come */
};

enum home_verdict home_judge(const struct home_place *place, int64_t since_ns);
/* Fills the items; `folder` with `below`. */
int home_plan_make(struct home_plan *plan, const char *folder, struct err *err);
/* What comes goes there, and is noted in the record one by one, which is written every HOME_NOTE_MS: what came is
 * known, however the rest ends. */
#define HOME_NOTE_MS 1000
void home_plan_sink(struct home_plan *plan, struct results_sink *sink);
/* As results_wants_fn, for that sink. */
bool home_plan_wants(void *user, struct str path, struct str *ret_as);
/* What was replaced in the folder is kept for a while. */
#define HOME_REPLACED_S ((int64_t)7 * 24 * 3600)
void home_plan_forget(const char *folder, int64_t now_s);
