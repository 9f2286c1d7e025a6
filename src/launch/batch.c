#include "launch/batch.h"

#include "api/launch.h"

#include <stdlib.h>
#include <string.h>

void batch_environment(void)
{
    const char *job = getenv(LAUNCH_ENV_JOB);
    const char *folder = getenv(LAUNCH_ENV_APP_DIR);
    const char *slash = job ? strrchr(job, '/') : NULL;

    if (!getenv("SLURM_GPUS_ON_NODE"))
        return;
    if (folder)
        (void)setenv("SLURM_SUBMIT_DIR", folder, 0);
    if (!slash)
        return;
    (void)setenv("SLURM_JOB_ID", slash + 1, 0);
    (void)setenv("SLURM_JOBID", slash + 1, 0); /* its old name, still in many scripts */
    (void)setenv("SLURM_JOB_NAME", slash + 1, 0);
}
