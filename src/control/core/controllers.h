#pragma once

/* controllers: every controller, one a file; controllers.c lists them. */
struct controller;

/* Every controller there is, in the order they are started; NULL-terminated. */
extern const struct controller *const controllers[];

extern const struct controller defaults_controller;        /* default queues, priority classes */
extern const struct controller torchrun_queue_controller;  /* TorchrunQueue */
extern const struct controller torchrun_job_controller;    /* TorchrunJob */
extern const struct controller torchrun_notify_controller; /* spec.notify of TorchrunJobs */
extern const struct controller jobset_controller;          /* JobSet */
extern const struct controller pytorch_job_controller;     /* PyTorchJob */
extern const struct controller tf_job_controller;          /* TFJob */
extern const struct controller mpi_job_controller;         /* MPIJob */
extern const struct controller xgboost_job_controller;     /* XGBoostJob */
extern const struct controller jax_job_controller;         /* JAXJob */
extern const struct controller paddle_job_controller;      /* PaddleJob */
extern const struct controller trainjob_controller;        /* TrainJob */
extern const struct controller tensorstack_job_controller; /* PyTorchTrainingJob */
extern const struct controller tensorboard_controller;     /* TensorBoard */
extern const struct controller mirrors_controller;         /* pods that stand for parts of this */
extern const struct controller runtimes_controller;        /* default ClusterTrainingRuntimes */
extern const struct controller group_status_controller;    /* status of pod groups */
extern const struct controller group_controller;           /* pod groups */
extern const struct controller gang_status_controller;     /* PodGroups of scheduling.k8s.io */
extern const struct controller provisioning_controller;    /* nodes for whole gangs */
extern const struct controller unused_controller;          /* work whose GPUs nobody uses */
extern const struct controller node_health_controller;     /* nodes that jobs fail on */
extern const struct controller blame_controller;           /* batch Jobs that blame a node */

/* What a controller-manager does; only where there is none. */
extern const struct controller batch_job_controller;   /* batch/v1 Job */
extern const struct controller deployment_controller;  /* apps/v1 Deployment */
extern const struct controller replicaset_controller;  /* apps/v1 ReplicaSet */
extern const struct controller statefulset_controller; /* apps/v1 StatefulSet */
extern const struct controller daemonset_controller;   /* apps/v1 DaemonSet */
extern const struct controller cronjob_controller;     /* batch/v1 CronJob */
extern const struct controller replicationcontroller_controller;
extern const struct controller quota_controller;           /* status of ResourceQuotas */
extern const struct controller apiserver_controller;       /* Service kubernetes in default */
extern const struct controller taints_controller;          /* NoExecute: who leaves a node */
extern const struct controller nodes_controller;           /* nodes that are away; their pods */
extern const struct controller serviceaccounts_controller; /* "default" in every namespace */
extern const struct controller root_ca_controller;         /* kube-root-ca.crt in every namespace */
extern const struct controller apiservices_controller;    /* of what the API server serves itself */
extern const struct controller extension_auth_controller; /* how other API servers know this one */
extern const struct controller endpoints_controller;      /* addresses of Services */
extern const struct controller claims_controller;         /* PersistentVolumeClaims */
extern const struct controller disruption_controller;     /* PodDisruptionBudgets */
extern const struct controller group_protection_controller; /* finalizer of PodGroups */
extern const struct controller resource_claims_controller;  /* ResourceClaims of templates */
