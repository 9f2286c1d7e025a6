#pragma once

#include "api/account.h"
#include "api/account_run.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct json;
struct kind;
struct object;
struct selector;

/* spent: what jobs spent their time on (api/account.h), a line of JSON each, in the file `accounts`
 * of the data folder.
 *
 * `muster up` adds the whole line of a job when its state changes, so the last line of a job counts,
 * and serves them to `report`: they stay when the job is deleted. The file has at most SPENT_BYTES_MAX
 * bytes; then it is written anew with the last line of each job, and of those the newer half where
 * that is not enough: some 10,000 jobs. No I/O here. */
#define SPENT_FILE      "accounts"
#define SPENT_BYTES_MAX ((size_t)8 << 20)
#define SPENT_NODES_MAX 64 /* of one job; its GPU time on further nodes counts for those */
#define SPENT_WHY_BYTES 240
#define SPENT_UID_BYTES 64
#define SPENT_NOTES_MAX 10 /* jobs that a table names which were not observed */

struct spent {
    struct str uid;
    struct str kind;
    struct str ns;
    struct str name;
    struct str queue;
    struct str user;
    const struct json *labels; /* NULL: none */
    struct str nodes[SPENT_NODES_MAX];
    size_t node_count;
    struct account account;
    struct account_run run; /* what its ranks do while it goes on */
    /* Whether its ranks were told of (api/ranks.h), and why those of one of its pods are not: */
    bool observed;
    char why[SPENT_WHY_BYTES]; /* empty: they are, or nobody knows yet */
    char why_pod[SPENT_UID_BYTES];
};

/* The kinds that are counted; NULL behind the last one. Those that are made of others come before
 * them: TrainJob, JobSet, Job. */
const struct kind *spent_kind(size_t index);
/* The one that an owner reference names, of any version; NULL: it is not counted. */
const struct kind *spent_kind_of(struct str api_version, struct str name);
/* Whether its pods say how it is: it has no phase of the job engine. */
bool spent_is_by_pods(const struct kind *kind);
/* Whether this one counts. Not a batch Job without GPUs: there are many, and few are trainings; nor an array, whose jobs
 * do. */
bool spent_is_counted(const struct kind *kind, const struct json *job);
/* Who and what a job is, without nodes and account. Points into the tree. */
void spent_describe(struct spent *spent, const struct kind *kind, const struct json *job);
/* GPUs that a job wants, of all its pods. Of a TrainJob what it says itself: its JobSet knows more. */
int64_t spent_gpus(const struct json *job);

/* How it is, by what it says. */
struct spent_state {
    struct str
        phase; /* of the job engine; of others Suspended, Restarting, Succeeded, Failed or empty */
    bool hung;
    int64_t failed_hung_ms; /* as struct account_seen has it */
    int64_t start_ms;       /* 0: not known, as the next */
    int64_t end_ms;
    int64_t run_ms;       /* of its runs that are over; -1: not known */
    int64_t run_start_ms; /* of the one that goes on; 0: none */
    int64_t gpus;
};
void spent_state_read(const struct kind *kind, const struct json *job, struct spent_state *ret);
/* What its status alone tells, where nobody has watched (account_from()). */
void spent_from_status(struct spent *spent,
                       const struct json *job,
                       const struct spent_state *state,
                       int64_t now_ms);
/* What a pod of it says of being observed. True: that is new. */
bool spent_hear(struct spent *spent, const struct object *pod);
/* "yes", "no: WHY", "in part: WHY"; empty: nobody knows yet. */
struct str spent_observed(struct arena *arena, const struct spent *spent);
/* Adds a node; true: it was not there. */
bool spent_add_node(struct spent *spent, struct str node);

/* The namespace of its queue: of a TorchrunQueue that of the job; empty: queues of the cluster have none. */
struct str spent_queue_ns(const struct spent *spent);

void spent_write(struct buf *out, const struct spent *spent);
/* Points into the line and the arena. False: this is no such line. */
bool spent_read(struct arena *arena, struct str line, struct spent *ret);
/* The last lines, the newer half of them if they are too long. On the arena. */
struct str spent_trim(struct arena *arena, struct str text);

enum spent_by {
    SPENT_BY_QUEUE,
    SPENT_BY_USER,
    SPENT_BY_NODE,
    SPENT_BY_JOB,
};

enum spent_form {
    SPENT_TABLE,
    SPENT_CSV,
    SPENT_JSON,
    SPENT_YAML,
};

struct spent_options {
    enum spent_by by;
    enum spent_form form;
    const struct selector *selector; /* jobs with these labels; NULL: all */
    unsigned wraps_at;               /* of struct term */
    int64_t from_ms;
    int64_t until_ms;
};

/* The report of a text of lines. Returns how many rows it has, the last one for all not counted. */
size_t spent_report(struct buf *out,
                    struct arena *arena,
                    struct str text,
                    const struct spent_options *options);
/* "queued 12s, starting 3s, training 4m: ETTR 93.1 %"; empty: no time has passed. */
struct str spent_words(struct arena *arena, const struct spent *spent, int64_t now_ms);
