#include "api/training.h"

#include "api/kind.h"

#include <stddef.h>

const struct training_kind training_kinds[TRAININGS] = {
    [TRAINING_PYTORCH] = {.kind = &kind_pytorchjob,
                          .framework = "pytorch",
                          .specs = "pytorchReplicaSpecs",
                          .roles = {"Master", "Worker"},
                          .chiefs = {"Master"},
                          .single = {"Master"},
                          .container = "pytorch",
                          .port_name = "pytorchjob-port",
                          .port = 23456,
                          .restart = "OnFailure",
                          .clean = "",
                          .counted = true},
    [TRAINING_TENSORFLOW] = {.kind = &kind_tfjob,
                             .framework = "tensorflow",
                             .specs = "tfReplicaSpecs",
                             .roles = {"Chief", "Master", "PS", "Worker", "Evaluator"},
                             .chiefs = {"Chief", "Master"},
                             .single = {"Chief", "Master"},
                             .container = "tensorflow",
                             .port_name = "tfjob-port",
                             .port = 2222,
                             .restart = "Never",
                             .clean = ""},
    [TRAINING_XGBOOST] = {.kind = &kind_xgboostjob,
                          .framework = "xgboost",
                          .specs = "xgbReplicaSpecs",
                          .roles = {"Master", "Worker"},
                          .chiefs = {"Master"},
                          .single = {"Master"},
                          .required = {"Master"},
                          .container = "xgboost",
                          .port_name = "xgboostjob-port",
                          .port = 9999,
                          .restart = "Never",
                          .clean = "",
                          .counted = true},
    [TRAINING_JAX] = {.kind = &kind_jaxjob,
                      .framework = "jax",
                      .specs = "jaxReplicaSpecs",
                      .roles = {"Worker"},
                      .required = {"Worker"},
                      .container = "jax",
                      .port_name = "jaxjob-port",
                      .port = 6666,
                      .restart = "Never",
                      .clean = ""},
    [TRAINING_PADDLE] = {.kind = &kind_paddlejob,
                         .framework = "paddle",
                         .specs = "paddleReplicaSpecs",
                         .roles = {"Master", "Worker"},
                         .chiefs = {"Master"},
                         .container = "paddle",
                         .port_name = "master",
                         .port = 36543,
                         .restart = "OnFailure",
                         .clean = ""},
    [TRAINING_MPI] = {.kind = &kind_mpijob,
                      .framework = "mpi",
                      .specs = "mpiReplicaSpecs",
                      .roles = {"Launcher", "Worker"},
                      .chiefs = {"Launcher"},
                      .single = {"Launcher"},
                      .required = {"Launcher"},
                      .restart = "Never",
                      .clean = ""},
};

const struct training_kind *training_of(const struct kind *kind)
{
    for (size_t i = 0; i < TRAININGS; i++)
        if (training_kinds[i].kind == kind)
            return &training_kinds[i];
    return NULL;
}
