#pragma once

#include "control/grouping/grouping.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct training_kind;

/* grouping_rule: what the files with rules share. A rule starts from what the common part filled in
 * (grouping_common) and changes what is different for its kind. */
struct grouping_rule {
    const char *name;                     /* kind */
    const char *group;                    /* API group; NULL: any */
    const char *priority;                 /* default priority class; NULL: train */
    const struct training_kind *training; /* Kubeflow: its row */
    const char *strict[3];                /* roles without which strict_roles refuses it */
    bool skip;                            /* the owner below is the one that counts */
    int (*apply)(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err);
};

typedef int grouping_apply_fn(const struct grouping_input *input,
                              const struct grouping_rule *rule,
                              const struct json *owner,
                              struct grouping *ret,
                              struct err *err);

grouping_apply_fn grouping_kubeflow;
grouping_apply_fn grouping_pytorch;
grouping_apply_fn grouping_mpi;
grouping_apply_fn grouping_jobset;
grouping_apply_fn grouping_lws;
grouping_apply_fn grouping_ray;
grouping_apply_fn grouping_grove;
grouping_apply_fn grouping_torchrun;
grouping_apply_fn grouping_tensorstack;
grouping_apply_fn grouping_job;
grouping_apply_fn grouping_cronjob;
grouping_apply_fn grouping_deployment;
grouping_apply_fn grouping_knative;
grouping_apply_fn grouping_runaijob;
grouping_apply_fn grouping_aml;

/* A kind that has no rule, where a Karta describes it; nothing changes where none does. */
int grouping_karta(const struct grouping_input *input,
                   const struct json *owner,
                   struct grouping *ret,
                   struct err *err);

/* What is the same for all rules: owner, names, queue, priority, labels, annotations, topology. */
void grouping_common(const struct grouping_input *input,
                     const struct grouping_rule *rule,
                     const struct json *owner,
                     struct grouping *ret);
/* "apps" of "apps/v1"; empty for the core group. */
struct str grouping_api_group(struct str api_version);
/* metadata.labels[key] and metadata.annotations[key], whatever dots the key has. */
struct str grouping_label(const struct json *object, const char *key);
struct str grouping_annotation(const struct json *object, const char *key);
struct str grouping_meta(const struct json *object, const char *key);
/* The queue that the labels of the owner or the pod name; empty: none. */
struct str grouping_queue(const struct grouping_input *input, const struct json *owner);
/* The constraint that annotations say, with keys <prefix>required-placement and so on; `fallback`
 * is asked for the topology's name where `object` does not say it. */
struct grouping_topology grouping_topology_of(const struct json *annotations,
                                              const char *required,
                                              const char *preferred,
                                              const struct json *fallback);
/* Take `object` as the owner of the group. */
void grouping_own(struct grouping *ret, const struct json *object);
/* One group a pod, owned by it. */
void grouping_per_pod(const struct grouping_input *input, struct grouping *ret);
/* The annotation kai.scheduler/batch-min-member of `object` as a number; `fallback` where there is
 * none. -EINVAL with words where it is not a number, or below `least`. */
int grouping_batch_min(const struct json *object,
                       int64_t fallback,
                       int64_t least,
                       int64_t *ret,
                       struct err *err);
/* More segments than that are refused: each is a subgroup. */
#define GROUPING_SEGMENTS_MAX 10000
int grouping_segments(int64_t pods, int64_t size, int64_t *ret, struct err *err);
void grouping_sub_add(const struct grouping_input *input,
                      struct grouping *ret,
                      const struct grouping_sub *sub);
