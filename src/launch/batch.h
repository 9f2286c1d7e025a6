#pragma once

/* batch: what a batch script of Slurm's asks of its environment besides the numbers that `run` puts there: the job's id and name,
 * which is the same here, and the folder that it was submitted from, which is the copy of it. Only where there is
 * SLURM_GPUS_ON_NODE; what is there stays. */
void batch_environment(void);
