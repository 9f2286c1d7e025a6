#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;

/* precheck: what can be known to fail before a job is sent. precheck_job() (plugin/plugin.h) asks
 * the cluster; here are the rules. No I/O. */
struct precheck_wanted {
    int64_t gpus;   /* in all; 0: not known, or none */
    int64_t in_pod; /* of the largest pod */
    struct str kai; /* the scheduling queue */
    int64_t pods;   /* 0: not known */
};

struct precheck_cluster {
    bool limited; /* there is a limit of GPUs */
    int64_t limit;
    struct str limit_queue; /* whose */
    int64_t largest;        /* GPUs of the largest node */
    int64_t total;          /* of all nodes; 0: nodes cannot be seen, so nothing is said */
};

/* What a job asks for, from its spec and its TorchrunQueue. */
struct precheck_wanted precheck_wanted(const struct json *spec, const struct json *queue);
/* Whether the cluster could ever run it; in words, with the nearest that would work. */
int precheck_fits(const struct precheck_wanted *wanted,
                  const struct precheck_cluster *cluster,
                  struct err *err);
/* What a pod needs of its node besides GPUs; 0 and empty: nothing said. */
struct precheck_needs {
    int64_t memory_bytes;
    int64_t cpu_milli;
    struct str gpu_type;
    int64_t pods;
};
struct precheck_needs precheck_needs(const struct json *spec, const struct json *queue);
/* Whether one of the nodes has that much, and GPUs of that type; in words, with the most there is. */
int precheck_nodes_fit(const struct precheck_needs *needs,
                       const struct json *const *nodes,
                       size_t count,
                       struct err *err);
/* What the embedded agent cannot give on a node it says in a condition: PodsIsolated (volumes, which every job has),
 * LimitsEnforced. *ret_words is what it said. */
bool precheck_node_lacks(const struct json *node, const char *condition, struct str *ret_words);
