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

/* XGBoostJob: a master (the tracker) and workers, with the addresses of all (LightGBM wants them).
 */

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    const struct job_role *master = kubeflow_role(model, "Master");
    const struct job_role *worker = kubeflow_role(model, "Worker");
    struct str all = STR_NONE;

    kubeflow_env(arena, list, "PYTHONUNBUFFERED", STR("1"));
    kubeflow_env_i64(arena, list, "WORLD_SIZE", (int64_t)pod->pods);
    kubeflow_env_i64(arena, list, "RANK", (int64_t)kubeflow_rank(model, pod));
    if (master) {
        kubeflow_env_i64(arena, list, "MASTER_PORT", kubeflow_port(k, master));
        kubeflow_env(arena, list, "MASTER_ADDR", job_pod_name(model, master, 0, arena));
    }
    if (!worker || !worker->count)
        return;
    for (size_t i = 0; i < worker->count; i++)
        all = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(all), all.len ? "," : "",
                         STR_ARG(job_pod_name(model, worker, i, arena)));
    kubeflow_env_i64(arena, list, "WORKER_PORT", kubeflow_port(k, worker));
    kubeflow_env(arena, list, "WORKER_ADDRS", all);
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_XGBOOST],
    .env = env,
};

KUBEFLOW_JOB_KIND(xgboostjob, description);

JOB_CONTROLLER(xgboost_job_controller,
               "xgboostjob",
               xgboostjob,
               &kind_xgboostjob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
