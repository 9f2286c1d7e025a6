#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

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
 * `muster up` reads the folder itself, whether the pod runs or has ended. On any other cluster a
 * running pod is asked, as `kubectl exec` does. A kubelet gives nobody the folder of a pod that has
 * ended: the first pod of a job leaves what it wrote with the job's sync pod, which stays for a
 * while. */
struct result_file {
    struct str path; /* checked: it stays inside the folder */
    uint64_t size;
};

struct result_list {
    VEC(struct result_file) files; /* sorted by path; on the session's arena */
    uint64_t bytes;
    VEC(struct str) words; /* what was left out, and why */
};

/* The worker pods of a job that are there, by number. */
int results_pods(struct session *session,
                 const char *job,
                 const struct object ***ret,
                 size_t *ret_count,
                 struct err *err);
/* Of JOB-worker-N: N. Ranks of one pod share its folder. */
int64_t results_index(const struct object *pod, const char *job);
/* Which of the pods, sorted by number as results_pods() gives them, has this rank of the training;
 * `count`: none. */
size_t results_pod_of_rank(struct arena *arena,
                           const struct object *const *pods,
                           size_t count,
                           const char *job,
                           int64_t rank);
int results_list(struct session *session,
                 const struct object *pod,
                 struct str path,
                 struct result_list *ret,
                 struct err *err);
/* What is kept of the first pod of an earlier generation. -ENOENT: nothing is. */
struct results_kept {
    struct str ns;
    const char *pod;
    struct str folder;
    struct str job_uid;
    int64_t generation;
};
int results_list_kept(struct session *session,
                      const struct results_kept *kept,
                      struct str path,
                      struct result_list *ret,
                      struct err *err);
int results_read_kept(struct session *session,
                      const struct results_kept *kept,
                      struct str path,
                      struct results_sink *sink,
                      struct err *err);
/* Contents, into the sink. */
int results_read(struct session *session,
                 const struct object *pod,
                 struct str path,
                 struct results_sink *sink,
                 struct err *err);
/* The same for all files of which `wants` says so; the contents of others are dropped as they come. */
int results_read_some(struct session *session,
                      const struct object *pod,
                      struct results_sink *sink,
                      bool (*wants)(void *user, struct str path),
                      void *user,
                      struct err *err);
/* A name that a job has chosen, fit for a terminal: control characters become '?'. */
const char *results_name(struct session *session, struct str path);
