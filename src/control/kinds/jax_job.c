#include "api/kind.h"
#include "api/training.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/kinds/kubeflow.h"

#include <stddef.h>
#include <stdint.h>

/* JAXJob: workers only; worker 0 coordinates. */

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    kubeflow_env(arena, list, "PYTHONUNBUFFERED", STR("1"));
    kubeflow_env(arena, list, "COORDINATOR_ADDRESS", job_pod_name(model, pod->role, 0, arena));
    kubeflow_env_i64(arena, list, "COORDINATOR_PORT", kubeflow_port(k, pod->role));
    kubeflow_env_i64(arena, list, "NUM_PROCESSES", (int64_t)pod->pods);
    kubeflow_env_i64(arena, list, "PROCESS_ID", (int64_t)pod->index);
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_JAX],
    .env = env,
};

KUBEFLOW_JOB_KIND(jaxjob, description);

JOB_CONTROLLER(jax_job_controller,
               "jaxjob",
               jaxjob,
               &kind_jaxjob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
