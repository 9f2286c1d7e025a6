#pragma once

#include "base/str.h"
#include "control/kubeflow_fields.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

/* pytorch_job: what is read of a PyTorchJob besides the common part (kubeflow.h). */
struct pytorch_elastic { /* 0 is not said; of max_restarts it is -1 */
    PYTORCH_ELASTIC_MEMBERS
};

struct pytorch_spec {
    PYTORCH_SPEC_MEMBERS
    struct pytorch_elastic elastic;
};

extern const struct decode_table pytorch_elastic_table;
extern const struct decode_table pytorch_spec_table;
