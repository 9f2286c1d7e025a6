#pragma once

#include "base/str.h"

#include <stdint.h>

struct arena;
struct json;
struct training_kind;

/* queue_rules: what queues say of those who use them, besides how much there is: whose work
 * they take, and how long a job may run. For the latter a Queue says it for itself and those below it, a TorchrunQueue for jobs that name it, and the
 * namespace of a person (api/people.h) for all that is hers; the shortest holds. Pure. */

/* The objects around: by kind ("Queue", "TorchrunQueue", "Namespace"), namespace (empty: cluster-scoped)
 * and name, or NULL. */
struct queue_around {
    const struct json *(*find)(void *user, const char *kind, struct str ns, struct str name);
    void *user;
};

struct longest {
    int64_t ms;       /* 0: no end */
    struct str text;  /* as it is written there, "4h" */
    const char *kind; /* whose it is: "queue", "person" */
    struct str name;
};

/* Takes the limit of the scheduling queue and of those above it, if it is shorter. */
void longest_of_queue(struct longest *longest, const struct queue_around *around, struct str name);
/* Of the TorchrunQueue, and of the scheduling queue that it names. */
void longest_of_torchrun(struct longest *longest,
                         const struct queue_around *around,
                         struct str ns,
                         struct str name);
/* Of the person whose namespace it is. */
void longest_of_person(struct longest *longest, const struct queue_around *around, struct str ns);

/* The queue, of the scheduling queue and those above it, that takes no work of the namespace; empty: all
 * of them take it, or are not there. */
struct str queue_refuses(struct arena *arena,
                         const struct queue_around *around,
                         struct str name,
                         struct str ns);

/* The fewest thousandths of GPUs that the queue or one above it may ever have; -1: no limit. */
int64_t queue_gpus_most(const struct queue_around *around, struct str name, struct str *ret_queue);
/* How many a TorchrunJob needs at once to start. */
int64_t torchrun_gpus_least(const struct json *job, const struct json *queue);
/* How many a training of kubeflow.org does; 0: it says itself how few of its pods may do. */
int64_t training_gpus_least(const struct training_kind *kind, const struct json *job);

/* The scheduling queue of a TorchrunQueue called `name`. */
struct str queue_of_torchrun(const struct json *queue, struct str name);
/* The TorchrunQueue of a TorchrunJob. */
struct str queue_of_torchrun_job(const struct json *job);
/* The scheduling queue that labels of the object, or of its template, name; empty: none. */
struct str queue_of_labels(const struct json *object);
