#pragma once

#include "base/str.h"
#include "plugin/plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct manifest;

/* submit: what `submit` and `run` share: their flags, the job that these make, and the way from a
 * folder to the end of its training. */
struct submit_values {
    struct common_values common;
    const char *queue;
    int64_t gpus;
    int64_t nodes;
    int64_t min_nodes;
    int64_t max_nodes;
    const char *name;
    struct option_list env;
    const char *setup;
    const char *dir;
    bool no_workspace;
    bool detach;
    bool follow;
    bool dry_run;
    const char *file;
    int output;
    const char *priority;
    const char *preemptibility;
    const char *time;
    bool requeue;
    struct option_list after;
    const char *array;
    const char *notify;
    const char *image;
    const char *memory;
    const char *cpus;
    const char *gpu_type;
    struct option_list volumes;
    struct option_list writes;
    bool results;
    const char *results_max;
    const char *max_restarts;
    bool module;          /* of run: -m */
    bool one_rank;        /* of run: one process, however many GPUs */
    int64_t kept_seconds; /* after its end the job goes by itself; 0: it stays */
};

#define SUBMIT_FLAG(name, letter, type, field, placeholder, words)          \
    {                                                                       \
        name, letter, OPTION_##type, offsetof(struct submit_values, field), \
            .value = placeholder, .help = words, .flag_only = true          \
    }

/* What both commands have. */
#define SUBMIT_OPTIONS                                                                             \
    SUBMIT_FLAG("name", 0, STR, name, "NAME",                                                      \
                "name of the job (default: the folder's name and a few letters)"),                 \
        SUBMIT_FLAG("env", 'e', LIST, env, "NAME=VALUE",                                           \
                    "environment variable of the training; NAME alone copies the value from this " \
                    "shell"),                                                                      \
        SUBMIT_FLAG("setup", 0, STR, setup, "CMD",                                                 \
                    "command to run in every pod before torchrun, in the same shell"),             \
        {"dir",                                                                                    \
         'd',                                                                                      \
         OPTION_STR,                                                                               \
         offsetof(struct submit_values, dir),                                                      \
         .value = "DIR",                                                                           \
         .help = "folder to send, and to copy results back to (default: the current one)",         \
         .flag_only = true},                                                                       \
        {"results",          0,                                                                    \
         OPTION_BOOL,        offsetof(struct submit_values, results),                              \
         .fallback = "true", .help = "copy what the job wrote into the folder when it ends",       \
         .flag_only = true},                                                                       \
        SUBMIT_FLAG("results-max", 0, STR, results_max, "QUANTITY",                                \
                    "copy no more than this by itself, such as 50Gi (default: 20Gi)"),             \
        SUBMIT_FLAG("write", 'w', LIST, writes, "PATH",                                            \
                    "folder of this machine that the job may write to, with your own rights"),     \
        SUBMIT_FLAG("volume", 0, LIST, volumes, "CLAIM:PATH",                                      \
                    "PersistentVolumeClaim to mount at PATH"),                                     \
        SUBMIT_FLAG("priority", 0, STR, priority, "CLASS", "PriorityClass of the job"),            \
        SUBMIT_FLAG("preemptibility", 0, STR, preemptibility, "WORD",                              \
                    "what of the job may be stopped for others: preemptible (all), "               \
                    "non-preemptible (nothing; needs quota) or semi-preemptible (pods above "      \
                    "--min-nodes; the others need quota); default: by its priority"),              \
        SUBMIT_FLAG("time", 't', STR, time, "DURATION",                                            \
                    "longest time the job may run, such as 90m or 2h (Slurm's 2:00:00 too)"),      \
        SUBMIT_FLAG("requeue", 0, BOOL, requeue, NULL,                                             \
                    "after --time the job is queued again, instead of being over"),                \
        SUBMIT_FLAG(                                                                               \
            "max-restarts", 0, STR, max_restarts, "N",                                             \
            "how often the job starts again when it fails (default: 3, but once where the "        \
            "same mistake ends it before its first step)"),                                        \
        SUBMIT_FLAG("after", 0, LIST, after, "JOB,...",                                            \
                    "start when these jobs have succeeded; afterany:JOB: when it has ended"),      \
        SUBMIT_FLAG(                                                                               \
            "array", 0, STR, array, "INDEXES%N",                                                   \
            "make an array of jobs, such as 0-9, each with its MUSTER_ARRAY_INDEX; %N: at "        \
            "most N at a time"),                                                                   \
        SUBMIT_FLAG("notify", 0, STR, notify, "URL",                                               \
                    "POST a JSON document there when the job starts and when it ends"),            \
        SUBMIT_FLAG("image", 0, STR, image, "IMAGE", "image of the training container"),           \
        SUBMIT_FLAG("memory", 0, STR, memory, "QUANTITY",                                          \
                    "memory of a pod that has all GPUs of its node, such as 64Gi; one with fewer " \
                    "GPUs gets its part"),                                                         \
        SUBMIT_FLAG("cpus", 'c', STR, cpus, "N", "CPUs of such a pod"),                            \
        SUBMIT_FLAG("gpu-type", 0, STR, gpu_type, "TYPE",                                          \
                    "product of the GPUs, as nodes are labelled: NVIDIA-H200")

/* Who asks, and for what. */
struct submit_request {
    const char *name;
    const char *ns;
    struct str command; /* empty: the file's */
    const char *folder; /* absolute, NULL: none is sent */
    const char *host;   /* name of this machine */
    const char *record; /* of where it came from (plugin/home_record.h); NULL: results stay there */
};

/* What the flags say, put over what `job` has already. No I/O, but for the values of --env. */
int submit_job(struct arena *arena,
               const struct submit_values *values,
               const struct submit_request *request,
               struct json *job,
               struct err *err);
/* Where the command names a script of the folder by its whole path, as in "python -u /home/me/p/train.py": with the
 * script's name in the folder, if it is one that is sent. So what runs is what was submitted, and not what is in that
 * place when the job starts. What has something of the shell before it stays: it may go to another folder first. */
struct str submit_script(struct arena *arena,
                         struct str command,
                         const char *folder,
                         const struct manifest *sent);
/* "90m", "1h30m" as they are; "2:30:00", "1-12:00:00" and "90" (minutes) as sbatch reads them.
 * Milliseconds; -EINVAL in words. */
int submit_time(const char *text, int64_t *ret_ms, struct err *err);

/* One --after: "a,b", or as sbatch has it "afterok:a:b,afterany:c"; entries of spec.after. */
int submit_after(struct arena *arena, const char *text, struct json *after, struct err *err);

/* The way itself. Returns the exit status, or -errno. `run`: Ctrl-C cancels the job. */
int submit_go(struct session *session,
              const struct submit_values *values,
              struct str command,
              bool run,
              struct err *err);
