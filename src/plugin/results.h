#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct object;
struct results_sink;
struct session;

/* results: what the pods of a job wrote into their folders (workspace/results.h), asked for by
 * `pull` and by `delete`.
 *
 * `muster up` reads the folder itself, whether the pod runs, has ended or is gone. On any other cluster a
 * running pod is asked, as `kubectl exec` does. A kubelet gives nobody the folder of a pod that has
 * ended: the first pod of a job leaves what it wrote with the job's sync pod, which stays for a
 * while. */
struct result_file {
    struct str path; /* checked: it stays inside the folder */
    uint64_t size;
    struct hash shipped; /* its content as it was shipped; zero: it was not, or nobody says */
    struct str target;   /* of a link, which stays inside; empty: a file */
};

struct result_list {
    VEC(struct result_file) files; /* sorted by path; on the session's arena */
    uint64_t bytes;
    VEC(struct str) words; /* what was left out, and why */
};

/* What is kept of a pod that is gone. */
struct results_kept {
    struct str ns;
    const char *pod;
    struct str folder;
    struct str job_uid;      /* empty: of whichever job of that name was the last */
    int64_t generation;      /* RESULTS_NEWEST: the newest of which something is kept */
    int64_t last_generation; /* that it may be, for a cluster, which is asked for one at a time */
};
#define RESULTS_NEWEST         (-2)
#define RESULTS_GENERATIONS    16 /* that a cluster is asked for, from the last one down */
#define RESULTS_SOURCES_MAX    4096
#define RESULTS_SOURCES_UNSEEN 16 /* pods of a job that is gone: nobody says how many it had */

/* Where one folder of a job is. */
struct results_source {
    const struct object *pod; /* NULL: it is gone, and perhaps something is kept of it */
    struct results_kept kept;
    const char *name; /* of the pod */
    int64_t index;    /* of JOB-worker-N: N. Ranks of one pod share its folder */
};

/* The worker pods of a job that are there, by number. */
int results_pods(struct session *session,
                 const char *job,
                 const struct object ***ret,
                 size_t *ret_count,
                 struct err *err);
/* The same with those that are gone. `object` NULL: the job was deleted. */
int results_sources(struct session *session,
                    const char *job,
                    const struct object *object,
                    struct results_source **ret,
                    size_t *ret_count,
                    struct err *err);
/* A job is said to be over before its pods are told to end, and what they save then counts. Waits until all pods of a job that
 * is over have ended, or the first has; not for ever. */
int results_await_end(struct session *session,
                      const char *job,
                      const struct object *object,
                      bool all,
                      struct err *err);
/* Which of the pods, sorted by number as results_pods() gives them, has this rank of the training;
 * `count`: none. */
size_t results_pod_of_rank(struct arena *arena,
                           const struct object *const *pods,
                           size_t count,
                           const char *job,
                           int64_t rank);
/* -ENOENT of a pod that is gone: nothing is kept of it. */
int results_list(struct session *session,
                 const struct results_source *source,
                 struct str path,
                 struct result_list *ret,
                 struct err *err);
/* Contents, into the sink. */
int results_read(struct session *session,
                 const struct results_source *source,
                 struct str path,
                 struct results_sink *sink,
                 struct err *err);
/* The same for what `wants` says, under the path that it gives; the contents of others are dropped as they
 * come. */
typedef bool results_wants_fn(void *user, struct str path, struct str *ret_as);
int results_read_some(struct session *session,
                      const struct results_source *source,
                      struct results_sink *sink,
                      results_wants_fn *wants,
                      void *user,
                      struct err *err);
/* What becomes of what the pods wrote when they go: annotation of a pod (agent/results_kept.h). */
void results_mark(struct session *session, const struct object *pod, const char *word);
/* A name that a job has chosen, fit for a terminal: control characters become '?'. */
const char *results_name(struct session *session, struct str path);
