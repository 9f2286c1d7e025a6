#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct rules;
struct schema;

/* kind: what can be stored and served.
 *
 * The kinds that our own code names are constants here (&kind_pod); kinds that arrive as
 * CustomResourceDefinitions are made at run time and join the same registry (struct kinds, below).
 * A kind lives as long as the process, so `const struct kind *` is its identity: compare pointers.
 */
struct kind_column {
    const char *name;
    const char *type;        /* string, integer, date, ... as in a CRD's printer column */
    const char *path;        /* ".status.phase"; subset of JSONPath, see api/column.h */
    const char *description; /* may be NULL */
    int priority;            /* > 0: only with -o wide */
};

struct kind {
    const char *group; /* "" is the core group */
    const char *version;
    const char *name; /* "Pod" */
    const char *plural;
    const char *singular;
    const char *short_names; /* "po", or "tj,trj"; "" if none */
    const char *categories;  /* "all", or "" */
    bool namespaced;
    bool status; /* has a status subresource: main writes leave status alone and the other way round
                  */
    bool strategic;                    /* built in: strategic merge patches are understood */
    bool custom;                       /* defined by a CRD: schema validates, defaults and prunes */
    const struct kind_column *columns; /* of a CRD that came at run time; read kind_columns() */
    size_t column_count;
};

/* What a CRD says about one version of a kind; held by the registry, replaced when the CRD is. */
struct kind_crd {
    const struct schema *schema;   /* api/schema.h */
    uint64_t revision;             /* of the CRD: what was written later has its defaults */
    const struct rules *rules;     /* cel/rules.h; NULL: none */
    const struct json *openapi;    /* the openAPIV3Schema it was compiled from, for `explain` */
    const struct json *selectable; /* selectableFields of the version; NULL: none */
    const char *deprecation;       /* what to tell who uses the version; NULL: nothing */
    const struct json *webhook;    /* spec.conversion.webhook; NULL: versions differ in name only */
    const struct kind *storage;    /* the version that is stored; NULL in a cluster's registry */
    /* JSON paths of the scale subresource, as in the CRD; NULL: there is none. */
    const char *scale_spec;
    const char *scale_status;
    const char *scale_selector; /* may be NULL when the others are not */
};

/* KINDS(X): every kind our code refers to by name.
 * X(symbol, group, version, Kind, plural, singular, short, categories, namespaced, status, custom)
 * Discovery has their groups in this order, and kubectl takes the first that has a name: plain
 * "podgroups" are those of scheduling.run.ai.
 */
#define KINDS(X)                                                                                   \
    X(namespace, "", "v1", "Namespace", "namespaces", "namespace", "ns", "", false, true, false)   \
    X(node, "", "v1", "Node", "nodes", "node", "no", "", false, true, false)                       \
    X(pod, "", "v1", "Pod", "pods", "pod", "po", "all", true, true, false)                         \
    X(service, "", "v1", "Service", "services", "service", "svc", "all", true, true, false)        \
    X(endpoints, "", "v1", "Endpoints", "endpoints", "endpoints", "ep", "", true, false, false)    \
    X(configmap, "", "v1", "ConfigMap", "configmaps", "configmap", "cm", "", true, false, false)   \
    X(secret, "", "v1", "Secret", "secrets", "secret", "", "", true, false, false)                 \
    X(serviceaccount, "", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount", "sa", "",   \
      true, false, false)                                                                          \
    X(pvc, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim",   \
      "pvc", "", true, true, false)                                                                \
    X(pv, "", "v1", "PersistentVolume", "persistentvolumes", "persistentvolume", "pv", "", false,  \
      true, false)                                                                                 \
    X(event, "", "v1", "Event", "events", "event", "ev", "", true, false, false)                   \
    X(lease, "coordination.k8s.io", "v1", "Lease", "leases", "lease", "", "", true, false, false)  \
    X(storageclass, "storage.k8s.io", "v1", "StorageClass", "storageclasses", "storageclass",      \
      "sc", "", false, false, false)                                                               \
    X(csidriver, "storage.k8s.io", "v1", "CSIDriver", "csidrivers", "csidriver", "", "", false,    \
      false, false)                                                                                \
    X(csinode, "storage.k8s.io", "v1", "CSINode", "csinodes", "csinode", "", "", false, false,     \
      false)                                                                                       \
    X(csistoragecapacity, "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities",    \
      "csistoragecapacity", "", "", true, false, false)                                            \
    X(crd, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",  \
      "customresourcedefinition", "crd,crds", "api-extensions", false, true, false)                \
    X(pdb, "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget",   \
      "pdb", "", true, true, false)                                                                \
    X(endpointslice, "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "endpointslice", \
      "", "", true, false, false)                                                                  \
    X(event_k8s, "events.k8s.io", "v1", "Event", "events", "event", "ev", "", true, false, false)  \
    X(runtimeclass, "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "runtimeclass", "", "", \
      false, false, false)                                                                         \
    X(role, "rbac.authorization.k8s.io", "v1", "Role", "roles", "role", "", "", true, false,       \
      false)                                                                                       \
    X(rolebinding, "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings",               \
      "rolebinding", "", "", true, false, false)                                                   \
    X(clusterrole, "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles",               \
      "clusterrole", "", "", false, false, false)                                                  \
    X(clusterrolebinding, "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding",                 \
      "clusterrolebindings", "clusterrolebinding", "", "", false, false, false)                    \
    X(hpa, "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",             \
      "horizontalpodautoscaler", "hpa", "all", true, true, false)                                  \
    X(hpa_v1, "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",          \
      "horizontalpodautoscaler", "hpa", "all", true, true, false)                                  \
    X(job, "batch", "v1", "Job", "jobs", "job", "", "all", true, true, false)                      \
    X(admissionpolicy, "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy",          \
      "validatingadmissionpolicies", "validatingadmissionpolicy", "", "api-extensions", false,     \
      true, false)                                                                                 \
    X(admissionbinding, "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding",  \
      "validatingadmissionpolicybindings", "validatingadmissionpolicybinding", "",                 \
      "api-extensions", false, false, false)                                                       \
    X(torchrunqueue, "torchrun.ai", "v1alpha1", "TorchrunQueue", "torchrunqueues",                 \
      "torchrunqueue", "trq", "", true, true, true)                                                \
    X(torchrunjob, "torchrun.ai", "v1alpha1", "TorchrunJob", "torchrunjobs", "torchrunjob",        \
      "tj,trj", "all", true, true, true)                                                           \
    X(jobset, "jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", "jobset", "", "", true, true,    \
      true)                                                                                        \
    X(trainjob, "trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", "trainjob", "", "",   \
      true, true, true)                                                                            \
    X(trainingruntime, "trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes",  \
      "trainingruntime", "", "", true, false, true)                                                \
    X(clustertrainingruntime, "trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime",        \
      "clustertrainingruntimes", "clustertrainingruntime", "", "", false, false, true)             \
    X(pytorchjob, "kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", "pytorchjob", "", "all",      \
      true, true, true)                                                                            \
    X(tfjob, "kubeflow.org", "v1", "TFJob", "tfjobs", "tfjob", "", "all", true, true, true)        \
    X(mpijob, "kubeflow.org", "v1", "MPIJob", "mpijobs", "mpijob", "", "all", true, true, true)    \
    X(xgboostjob, "kubeflow.org", "v1", "XGBoostJob", "xgboostjobs", "xgboostjob", "", "all",      \
      true, true, true)                                                                            \
    X(jaxjob, "kubeflow.org", "v1", "JAXJob", "jaxjobs", "jaxjob", "", "all", true, true, true)    \
    X(paddlejob, "kubeflow.org", "v1", "PaddleJob", "paddlejobs", "paddlejob", "", "all", true,    \
      true, true)                                                                                  \
    X(pytorchtrainingjob, "batch.tensorstack.dev", "v1beta1", "PyTorchTrainingJob",                \
      "pytorchtrainingjobs", "pytorchtrainingjob", "pj", "", true, true, true)                     \
    X(tensorboard, "tensorstack.dev", "v1beta1", "TensorBoard", "tensorboards", "tensorboard", "", \
      "", true, true, true)                                                                        \
    X(topology, "kai.scheduler", "v1alpha1", "Topology", "topologies", "topology", "", "", false,  \
      false, true)                                                                                 \
    X(noderesourcetopology, "topology.node.k8s.io", "v1alpha2", "NodeResourceTopology",            \
      "noderesourcetopologies", "noderesourcetopology", "node-res-topo", "", false, false, true)   \
    X(schedulingshard, "kai.scheduler", "v1", "SchedulingShard", "schedulingshards",               \
      "schedulingshard", "", "", false, true, true)                                                \
    X(kaiconfig, "kai.scheduler", "v1", "Config", "configs", "config", "", "", false, true, true)  \
    X(queue, "scheduling.run.ai", "v2", "Queue", "queues", "queue", "", "", false, true, true)     \
    X(podgroup, "scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", "podgroup", "pg", "",    \
      true, true, true)                                                                            \
    X(priorityclass, "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses",                \
      "priorityclass", "pc", "", false, false, false)                                              \
    X(podgroup_k8s, "scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", "podgroup", "", "",   \
      true, true, false)                                                                           \
    X(resourceclaim, "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", "resourceclaim",  \
      "", "", true, true, false)                                                                   \
    X(resourceslice, "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", "resourceslice",  \
      "", "", false, false, false)                                                                 \
    X(deviceclass, "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", "deviceclass", "", "", \
      false, false, false)                                                                         \
    X(karta, "run.ai", "v1alpha1", "Karta", "kartas", "karta", "", "", false, false, true)

/* KINDS_EMBEDDED(X): kinds of Kubernetes that only the embedded API server serves and our own
 * controllers act on. On a cluster they are the cluster's: nothing here reads them there, so the
 * operator needs no right to. */
#define KINDS_EMBEDDED(X)                                                                          \
    X(deployment, "apps", "v1", "Deployment", "deployments", "deployment", "deploy", "all", true,  \
      true, false)                                                                                 \
    X(replicaset, "apps", "v1", "ReplicaSet", "replicasets", "replicaset", "rs", "all", true,      \
      true, false)                                                                                 \
    X(statefulset, "apps", "v1", "StatefulSet", "statefulsets", "statefulset", "sts", "all", true, \
      true, false)                                                                                 \
    X(daemonset, "apps", "v1", "DaemonSet", "daemonsets", "daemonset", "ds", "all", true, true,    \
      false)                                                                                       \
    X(controllerrevision, "apps", "v1", "ControllerRevision", "controllerrevisions",               \
      "controllerrevision", "", "", true, false, false)                                            \
    X(replicationcontroller, "", "v1", "ReplicationController", "replicationcontrollers",          \
      "replicationcontroller", "rc", "all", true, true, false)                                     \
    X(workload, "scheduling.k8s.io", "v1beta1", "Workload", "workloads", "workload", "", "", true, \
      false, false)                                                                                \
    X(claimtemplate, "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates",   \
      "resourceclaimtemplate", "", "", true, false, false)                                         \
    X(cronjob, "batch", "v1", "CronJob", "cronjobs", "cronjob", "cj", "all", true, true, false)    \
    X(resourcequota, "", "v1", "ResourceQuota", "resourcequotas", "resourcequota", "quota", "",    \
      true, true, false)                                                                           \
    X(limitrange, "", "v1", "LimitRange", "limitranges", "limitrange", "limits", "", true, false,  \
      false)                                                                                       \
    X(podtemplate, "", "v1", "PodTemplate", "podtemplates", "podtemplate", "", "", true, false,    \
      false)                                                                                       \
    X(ingress, "networking.k8s.io", "v1", "Ingress", "ingresses", "ingress", "ing", "", true,      \
      true, false)                                                                                 \
    X(ingressclass, "networking.k8s.io", "v1", "IngressClass", "ingressclasses", "ingressclass",   \
      "", "", false, false, false)                                                                 \
    X(networkpolicy, "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies",                \
      "networkpolicy", "netpol", "", true, false, false)                                           \
    X(ipaddress, "networking.k8s.io", "v1", "IPAddress", "ipaddresses", "ipaddress", "ip", "",     \
      false, false, false)                                                                         \
    X(servicecidr, "networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", "servicecidr", "",    \
      "", false, true, false)                                                                      \
    X(flowschema, "flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", "flowschema", \
      "", "", false, true, false)                                                                  \
    X(prioritylevel, "flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration",           \
      "prioritylevelconfigurations", "prioritylevelconfiguration", "", "", false, true, false)     \
    X(apiservice, "apiregistration.k8s.io", "v1", "APIService", "apiservices", "apiservice", "",   \
      "api-extensions", false, true, false)                                                        \
    X(mutatingwebhooks, "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration",      \
      "mutatingwebhookconfigurations", "mutatingwebhookconfiguration", "", "api-extensions",       \
      false, false, false)                                                                         \
    X(validatingwebhooks, "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",  \
      "validatingwebhookconfigurations", "validatingwebhookconfiguration", "", "api-extensions",   \
      false, false, false)                                                                         \
    X(csr, "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", \
      "certificatesigningrequest", "csr", "", false, true, false)                                  \
    X(volumeattachment, "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments",           \
      "volumeattachment", "", "", false, true, false)

#define KIND_DECLARE(symbol, ...) extern const struct kind kind_##symbol;
KINDS(KIND_DECLARE)
KINDS_EMBEDDED(KIND_DECLARE)
#undef KIND_DECLARE

/* "v1" or "group/version", in `out`. */
#define KIND_API_VERSION_BYTES 320
struct str kind_api_version(const struct kind *kind, char out[static KIND_API_VERSION_BYTES]);

/* It has a part of that name that is read and changed as the object is: "status" and the like.
 * "scale" is an object of its own. */
bool kind_has_part(const struct kind *kind, struct str subresource);

/* The code itself reads and writes objects of this kind, in whatever version. */
bool kind_is_known(struct str group, struct str plural);

/* Columns of the server-side table, NULL when there are none: name and age, or special code. */
const struct kind_column *kind_columns(const struct kind *kind, size_t *ret_count);

/* The registry: built-in kinds plus those added from CRDs. */
struct kinds;
struct kinds *kinds_new(void);
/* The same for the API server of a cluster: without KINDS_EMBEDDED. */
struct kinds *kinds_new_cluster(void);
void kinds_free(struct kinds *kinds);
/* By URL: group and version exactly, and the plural name. NULL when unknown. */
const struct kind *kinds_by_plural(const struct kinds *kinds,
                                   struct str group,
                                   struct str version,
                                   struct str plural);
/* By apiVersion ("v1", "torchrun.ai/v1alpha1") and kind. */
const struct kind *kinds_by_name(const struct kinds *kinds,
                                 struct str api_version,
                                 struct str kind);
/* Add or replace by group/version/plural; the registry keeps the pointer, the caller keeps it alive
 * for the life of the process. */
void kinds_add(struct kinds *kinds, const struct kind *kind);
/* All of them, in the order they were added. */
size_t kinds_count(const struct kinds *kinds);
const struct kind *kinds_at(const struct kinds *kinds, size_t index);
/* It is no longer served; the kind itself stays. */
void kinds_remove(struct kinds *kinds, const struct kind *kind);
/* What the CRD of a kind says; NULL for built-in kinds and before the CRD is there. The registry
 * keeps the pointer only. */
const struct kind_crd *kinds_crd(const struct kinds *kinds, const struct kind *kind);
/* Its scale subresource, of a CRD or of a built-in kind; NULL: it has none. */
const struct kind_crd *kinds_scale(const struct kinds *kinds, const struct kind *kind);
void kinds_set_crd(struct kinds *kinds, const struct kind *kind, const struct kind_crd *crd);
