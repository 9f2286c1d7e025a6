#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

/* pytorch_job: what is read of a PyTorchJob besides the common part (kubeflow.h). */
struct pytorch_elastic {
    int64_t min; /* 0: not said */
    int64_t max;
    struct str backend;
    int64_t port; /* 0: the training's own */
    struct str host;
    struct str id;
    const struct json *conf;
    bool standalone;
    int64_t nproc;        /* 0: not said */
    int64_t max_restarts; /* -1: not said */
    const struct json *metrics;
};

struct pytorch_spec {
    struct str nproc; /* auto, cpu, gpu or a number */
    const struct json *elastic_policy;
    struct pytorch_elastic elastic;
};

extern const struct decode_table pytorch_elastic_table;
extern const struct decode_table pytorch_spec_table;
