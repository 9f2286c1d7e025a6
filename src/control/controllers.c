#include "control/core/controllers.h"

#include "control/core/control.h"

#include <stddef.h>

const struct controller *const controllers[] = {
    &defaults_controller,        &torchrun_queue_controller,
    &torchrun_job_controller,    &torchrun_notify_controller,
    &jobset_controller,          &trainjob_controller,
    &runtimes_controller,        &tensorstack_job_controller,
    &tensorboard_controller,     &mirrors_controller,
    &pytorch_job_controller,     &tf_job_controller,
    &mpi_job_controller,         &xgboost_job_controller,
    &jax_job_controller,         &paddle_job_controller,
    &group_controller,           &group_status_controller,
    &gang_status_controller,     &provisioning_controller,
    &unused_controller,          &node_health_controller,
    &blame_controller,           &batch_job_controller,
    &serviceaccounts_controller, &root_ca_controller,
    &endpoints_controller,       &claims_controller,
    &disruption_controller,      &group_protection_controller,
    &deployment_controller,      &replicaset_controller,
    &statefulset_controller,     &daemonset_controller,
    &cronjob_controller,         &replicationcontroller_controller,
    &quota_controller,           &apiserver_controller,
    &apiservices_controller,     &extension_auth_controller,
    &taints_controller,          &nodes_controller,
    &resource_claims_controller, NULL};
