#pragma once

#include "api/api.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct kind;
struct schema;

/* admit: what happens to an object between a client's request and the store: defaults are filled in
 * and the object is checked, by rules per kind.
 *
 * `object` is changed in place. Whatever is wrong becomes a cause (field, reason, message), all of
 * them at once, so a user repairs a manifest in one go. */
#define ADMIT_CAUSES_MAX 50
/* Some fifty sentences; what would come behind them is not said: each goes into a header. */
#define ADMIT_WARNINGS_BYTES_MAX 8192

struct admit {
    struct arena *arena;
    const struct kind *kind;
    struct json *object;
    const struct json *old;      /* NULL: creation */
    struct str subresource;      /* "status", "ephemeralcontainers": only those change */
    const struct schema *schema; /* of a custom kind, or NULL */
    const struct schema *shape;  /* of a built-in kind, or NULL */
    int64_t now_ms;              /* for moments that are filled in; 0: none are */
    VEC(struct api_cause) causes;
    struct str warnings; /* one a line: what is admitted, and hardly meant */
};

/* Further causes are not kept: nothing need be made for them. */
static inline bool admit_is_full(const struct admit *admit)
{
    return admit->causes.count == ADMIT_CAUSES_MAX;
}

/* Fields the client left out. -E2BIG: they are more than fit (schema_default()). */
int admit_default(struct admit *admit, struct err *err);
/* Then, what the server adds of its own: it is nobody's in managedFields. */
void admit_add(struct admit *admit);
/* All rules; look at admit->causes afterwards. */
void admit_validate(struct admit *admit);

/* For the rules. `field` is copied; values are quoted in the message as Kubernetes does:
 * Invalid value: "x": must be ... */
void admit_required(struct admit *admit, struct str field, const char *detail);
void admit_invalid(struct admit *admit,
                   struct str field,
                   const struct json *value,
                   const char *detail);
void admit_forbidden(struct admit *admit, struct str field, const char *detail);
/* A name that must be there; `wrong` says what is wrong with one, or NULL. */
void admit_name_at(struct admit *admit,
                   const struct json *object,
                   struct str path,
                   const char *key,
                   const char *(*wrong)(struct str text));
void admit_unsupported(struct admit *admit,
                       struct str field,
                       const struct json *value,
                       const char *allowed);
/* Admitted with a word. */
void admit_warn(struct admit *admit, struct str text);
void admit_duplicate(struct admit *admit, struct str field, const struct json *value);
/* What is named is not in this object. */
void admit_not_found(struct admit *admit,
                     struct str field,
                     const struct json *value,
                     const char *why);
void admit_too_many(struct admit *admit, struct str field, size_t count, size_t max);
void admit_too_long(struct admit *admit, struct str field, size_t max);

/* A default: where nothing is said. */
void admit_fill_c(struct admit *admit, struct json *object, const char *key, const char *text);
void admit_fill_i64(struct admit *admit, struct json *object, const char *key, int64_t number);

/* admit_meta.c */
void admit_metadata(struct admit *admit);
void admit_annotations(struct admit *admit, const struct json *annotations, struct str path);
/* An owner that is named twice in the same words is one. */
void admit_owners(struct admit *admit);
/* admit_names.c: the texts that the items of a list have as `key`, compared in n log n: a list may
 * have as many items as fit into a request. */
struct admit_names {
    struct str *sorted; /* without the empty ones */
    size_t *first;      /* the index of the first item that has it */
    size_t count;
    bool *again; /* by index: an item before has the same */
};
struct admit_names admit_names(struct arena *arena, const struct json *list, const char *key);
/* The index of the first item that has it; SIZE_MAX: none. */
size_t admit_names_find(const struct admit_names *names, struct str text);
bool admit_names_have(const struct admit_names *names, struct str text);
/* hostname, subdomain and hostAliases: they become lines of /etc/hosts. And names of sysctls. */
void admit_pod_names(struct admit *admit, const struct json *spec, struct str path);

/* admit_pod.c */
/* -E2BIG: more items than any pod that can be stored has. */
int admit_pod_bound(const struct json *spec, struct err *err);
void admit_pod_default(struct admit *admit);
/* The same of a template's spec. */
void admit_template_default(struct admit *admit, struct json *spec);
void admit_pod_add(struct admit *admit);
void admit_pod_account(struct admit *admit, struct json *spec);
void admit_pod_validate(struct admit *admit, const struct json *spec, struct str path);
/* Of resources, by name. */
void admit_amounts(struct admit *admit, const struct json *amounts, struct str path);
/* Limits and requests, and whether they go together. */
void admit_resources(struct admit *admit, const struct json *resources, struct str path);
/* What a machine has by itself goes without a domain; anything else has one. */
bool admit_resource_known(struct str resource);
#define ADMIT_RESOURCE_UNKNOWN \
    "must be a standard resource type or fully qualified, such as nvidia.com/gpu"
void admit_pod_update(struct admit *admit);
/* Fields of a later Kubernetes that are known, but not acted on: a pod must not run without what it
 * asks for. */
void admit_pod_elsewhere(struct admit *admit);
/* admit_claim.c: kinds of resource.k8s.io */
void admit_claim_validate(struct admit *admit);
void admit_claimtemplate_validate(struct admit *admit);
void admit_deviceclass_validate(struct admit *admit);
void admit_slice_validate(struct admit *admit);
/* admit_csr.c */
void admit_csr_add(struct admit *admit);
void admit_csr_validate(struct admit *admit);
/* admit_ephemeral.c */
void admit_ephemeral_validate(struct admit *admit);
/* The same when they come through pods/ephemeralcontainers: old ones stay as they are. */
void admit_ephemeral_update(struct admit *admit);
/* admit_job.c */
void admit_job_default(struct admit *admit);
void admit_job_add(struct admit *admit);
void admit_job_validate(struct admit *admit);
/* The spec of a Job inside another kind, at `path`; restartPolicy may be left out. */
void admit_job_spec(struct admit *admit, const struct json *spec, struct str path);
/* admit_apps.c */
void admit_apps_default(struct admit *admit); /* of a kind with nothing but a template */
void admit_deployment_validate(struct admit *admit);
void admit_replicaset_validate(struct admit *admit);
void admit_replicationcontroller_default(struct admit *admit);
void admit_replicationcontroller_validate(struct admit *admit);
void admit_statefulset_default(struct admit *admit);
void admit_statefulset_validate(struct admit *admit);
void admit_daemonset_validate(struct admit *admit);
/* admit_quota.c */
void admit_resourcequota_validate(struct admit *admit);
void admit_limitrange_default(struct admit *admit);
void admit_limitrange_validate(struct admit *admit);
/* admit_stored.c */
void admit_podtemplate_default(struct admit *admit);
void admit_podtemplate_validate(struct admit *admit);
void admit_hpa_default(struct admit *admit);
void admit_hpa_v1_default(struct admit *admit);
void admit_networkpolicy_default(struct admit *admit);
void admit_networkpolicy_validate(struct admit *admit);
void admit_ingress_validate(struct admit *admit);
void admit_apiservice_validate(struct admit *admit);
void admit_storagecapacity_validate(struct admit *admit);
/* admit_webhook.c: both kinds of webhook configurations */
void admit_webhook_default(struct admit *admit);
void admit_webhook_validate(struct admit *admit);
/* A clientConfig: where a webhook is. */
void admit_webhook_client(struct admit *admit, const struct json *client, struct str path);
/* admit_cron.c */
void admit_cronjob_default(struct admit *admit);
void admit_cronjob_validate(struct admit *admit);
/* admit_sets.c */
void admit_jobset_validate(struct admit *admit);
/* admit_service.c */
void admit_service_default(struct admit *admit);
void admit_service_add(struct admit *admit);
void admit_service_validate(struct admit *admit);
/* admit_tensorstack.c */
void admit_tensorstack_validate(struct admit *admit);
/* admit_torchrun.c: jobs and queues of torchrun.ai */
void admit_torchrun_validate(struct admit *admit);
/* admit_trainer.c */
void admit_trainjob_default(struct admit *admit);
void admit_trainjob_validate(struct admit *admit);
void admit_runtime_validate(struct admit *admit);
/* admit_scheduling.c */
void admit_queue_validate(struct admit *admit);
/* Why a queue cannot be deleted: its status names others below it. Empty: it can. */
struct str admit_queue_stays(struct arena *arena, const struct json *queue);
void admit_podgroup_validate(struct admit *admit);
void admit_topology_validate(struct admit *admit);
/* admit_workload.c: kinds of scheduling.k8s.io/v1beta1, and how a pod names one */
void admit_group_validate(struct admit *admit);
void admit_workload_validate(struct admit *admit);
/* spec.scheduling of a Job; `before`: its spec as it was, NULL when it is created. */
void admit_job_scheduling(struct admit *admit,
                          const struct json *spec,
                          const struct json *before,
                          struct str path);
void admit_pod_group(struct admit *admit, const struct json *spec, struct str path);
/* admit_kubeflow.c: kinds of kubeflow.org; nothing for others of that group. */
void admit_kubeflow(struct admit *admit);
