#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct object;

/* job: what the commands read from a TorchrunJob and write into one. No I/O. */
#define JOB_WORKSPACE "torchrun.ai/workspace"          /* annotation: "upload" */
#define JOB_REVISION  "torchrun.ai/workspace-revision" /* annotation: what it was sent last */

/* The job that an argument names: "a", or "torchrunjob.torchrun.ai/a" as -o name prints it. Part of
 * the text. */
const char *job_arg(const char *text);
/* Whether a job of this phase never runs again. */
bool job_is_over(struct str phase);
/* The exit status of a job that is over; 1 where it failed without one. */
int job_exit_status(const struct json *job);
/* Whether the folder that was promised has not come yet. */
bool job_awaits_folder(const struct object *job);
/* The TorchrunQueue of a job: spec.jobQueue, or spec.queue as older files call it. */
struct str job_queue(const struct json *job);
/* The first JOB_LABELS_MAX labels of a job, copied: enough to choose jobs by, in a line of bounded
 * length. NULL: there are none. */
#define JOB_LABELS_MAX 16
struct json *job_labels(struct arena *arena, const struct json *labels);
/* Whether a pod is the job's: who may make pods here may label one as anybody's, so its owner says. */
bool job_owns(const char *job, const struct object *pod);

/* A name for a job from its folder's: "my_project" and "x7k2p" give "my-project-x7k2p". */
struct str job_name(struct arena *arena, const char *folder, const char *suffix);
/* One argument is a command for the shell as it is; several are words, each quoted. */
struct str job_command(struct arena *arena, const char *const *args, size_t count);
/* Words for a shell, quoted where it would read something into them. */
struct str job_words(struct arena *arena, const char *const *args, size_t count);
/* spec.env from NAME=VALUE and from NAME, whose value `lookup` knows. -EINVAL: neither. */
int job_add_env(struct arena *arena,
                struct json *spec,
                const char *const *items,
                size_t count,
                char *(*lookup)(const char *name),
                struct err *err);
