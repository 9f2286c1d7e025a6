#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_config;
struct err;
struct json;

/* grouping: which pod group a pod belongs to, and what that group should be. Pure decisions on
 * trees; control/grouping/group.c is the controller around it.
 *
 * The group follows from the pod's top owner, found by going up the owner references. Every kind
 * of owner has a rule (the table in grouping.c); an unknown kind gets the common one: one group an
 * owner, named pg-<name>-<uid>, that starts with one pod. */
#define GROUPING_OWNERS_MAX 16 /* levels above a pod */

struct grouping_topology {
    struct str topology; /* empty: no constraint */
    struct str required;
    struct str preferred;
};

struct grouping_sub {
    struct str name;
    int64_t min;
    struct str parent; /* empty: top */
    struct grouping_topology topology;
    bool inner;      /* has subgroups below it: min says nothing */
    int64_t min_sub; /* inner: how many of them must start */
};

struct grouping_owner {
    struct str api_version;
    struct str kind;
    struct str name;
    struct str uid;
};

#define GROUPING_NEVER "876000h" /* as a preemptionDelay: a century, it stops nobody */

/* What the group should be. Strings live in the input's arena or in its trees. */
struct grouping {
    struct str name;
    struct str ns;
    struct grouping_owner owner;
    struct json *labels;
    struct json *annotations;
    int64_t min_member;
    int64_t min_sub; /* how many of the top subgroups must start, instead of min_member; 0: unset */
    struct str queue;
    struct str priority;
    struct str preemptibility; /* empty: by priority */
    struct str preempt_delay;  /* durations; empty: none is said */
    struct str stale_grace;
    struct str max_run;
    bool requeue; /* after max_run */
    bool endless; /* serves a job, and has no limit of its own or of a queue */
    struct grouping_topology topology;
    VEC(struct grouping_sub) subs;
    bool crowded;       /* there were more of them than a group can have */
    struct str pod_sub; /* subgroup of the pod at hand; empty: none */
    struct str warning; /* what was not followed, for whoever reads events; empty: nothing */
};

struct grouping_input {
    struct arena *arena;
    const struct control_config *config;
    const struct json *pod;
    /* The pod's owners as objects, top first; none: the pod is its own. */
    const struct json *owners[GROUPING_OWNERS_MAX];
    size_t owner_count;
    /* Objects around: by kind name ("Job", "PriorityClass"), namespace (empty: cluster-scoped) and
     * name, or NULL; and a walk over the objects of a kind in a namespace, cursor from 0. */
    const struct json *(*find)(void *user, const char *kind, struct str ns, struct str name);
    const struct json *(*next)(void *user, const char *kind, struct str ns, size_t *cursor);
    void *user;
    struct str defaults; /* JSON list of {typeName, group, priorityName, preemptibility}; or none */
    bool knative_gang;   /* a revision is a gang, not pods one by one */
    bool legacy_jobs;    /* honour groups that older versions made for Jobs */
    bool old_groups;     /* as KAI up to 0.14: a group a pod of a Job, JobSets without subgroups */
    bool strict_roles;   /* as KAI: a role of a training job must say that it has replicas */
    /* TorchrunJob: pods of the gang, and where its queue or spec wants them. */
    int64_t torchrun_min;
    struct grouping_topology torchrun_topology;
};

struct grouping_rule;

/* By the kind's name alone ("PyTorchJob", "default", ...); NULL when there is none. */
const struct grouping_rule *grouping_rule_named(struct str name);

/* Decide. -EINVAL with words when the owner makes no sense (a gang of nothing, say). `rule` NULL:
 * the owner's. */
int grouping_decide(const struct grouping_input *input,
                    const struct grouping_rule *rule,
                    struct grouping *ret,
                    struct err *err);

/* The group of pods that name `group`, a PodGroup of scheduling.k8s.io. The topology that its
 * constraint stands for has the one label as its only level, and a name of its own. */
void grouping_workload(const struct grouping_input *input,
                       const struct json *group,
                       struct grouping *ret);
struct str grouping_label_topology(struct arena *arena, struct str label);
struct json *grouping_topology_manifest(struct arena *arena, struct str label);

/* Whether a component of the Karta is of that kind. */
bool grouping_karta_names(const struct json *karta, struct str api_version, struct str kind);

/* Whether the pod, or an owner of it, asks that no group is made for it. */
bool grouping_skips(const struct grouping_input *input);

/* What an owner or the pod says of preemptibility and priority that means nothing, in a sentence;
 * empty: all of it means something. */
struct str grouping_odd_words(const struct grouping_input *input);

/* The PodGroup, ready to be created. */
struct json *grouping_manifest(const struct grouping *grouping, struct arena *arena);
