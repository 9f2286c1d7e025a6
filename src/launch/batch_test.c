#include "api/launch.h"
#include "base/str.h"
#include "launch/batch.h"
#include "test.h"

#include <stddef.h>
#include <stdlib.h>

static const char *const names[] = {"SLURM_GPUS_ON_NODE", "SLURM_SUBMIT_DIR", "SLURM_JOB_ID",
                                    "SLURM_JOBID",        "SLURM_JOB_NAME",   LAUNCH_ENV_JOB,
                                    LAUNCH_ENV_APP_DIR};

static bool says(const char *name, const char *text)
{
    const char *value = getenv(name);

    return text ? value && str_is(str_from(value), text) : !value;
}

TEST(a_batch_script_finds_its_id_its_name_and_its_folder)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unsetenv(names[i]);
    (void)setenv(LAUNCH_ENV_JOB, "team/resnet-x7k2p", 1);
    (void)setenv(LAUNCH_ENV_APP_DIR, "/app", 1);
    batch_environment();
    EXPECT(says("SLURM_JOB_ID", NULL)); /* no batch script */
    (void)setenv("SLURM_GPUS_ON_NODE", "2", 1);
    (void)setenv("SLURM_JOB_NAME", "mine", 1);
    batch_environment();
    EXPECT(says("SLURM_JOB_ID", "resnet-x7k2p") && says("SLURM_JOBID", "resnet-x7k2p"));
    EXPECT(says("SLURM_SUBMIT_DIR", "/app") && says("SLURM_JOB_NAME", "mine"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unsetenv(names[i]);
}
