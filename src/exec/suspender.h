#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stddef.h>
#include <stdint.h>

struct api;
struct cache;
struct log;
struct object;

/* suspender: suspended pods on a cluster whose kubelets are not ours, carried out
 * (control/cluster/suspension.h decides). What it knows it learns from pods alone, so a new leader
 * knows it too. It decides about a pod only when it has seen what it wrote of it. */
#define SUSPENDER_RUNNING_MAX 8 /* commands at a time: each is a connection */

/* A command in a container, as kubectl exec runs it. */
struct suspender_command {
    struct str ns;
    struct str pod;
    struct str container;
    const char *const *words;
    size_t count;
};
/* `code` 0: it ended with `status`; -errno: whether it ran is not known, and `errors` says why. */
typedef void suspender_ended_fn(void *user,
                                int code,
                                int status,
                                struct str output,
                                struct str errors);
struct suspender_inside {
    /* `ended` comes once, from the loop and never at once, also when everything is stopped. */
    void (*run)(void *user,
                const struct suspender_command *command,
                suspender_ended_fn *ended,
                void *ended_user);
    void *user;
};

struct suspender_options {
    struct api *api;
    const struct cache *cache; /* pods */
    const struct suspender_inside *inside;
    int64_t (*now)(void *user);
    void (*again)(void *user); /* wants a turn soon */
    void *user;
    const struct log *log;
    uint64_t seed;
};

struct suspender;

struct suspender *suspender_new(const struct suspender_options *options);
/* NULL is fine. What is under way is another's to go on with. */
void suspender_free(struct suspender *suspender);
/* Every pod, after the cache has it. */
void suspender_observe(struct suspender *suspender,
                       enum sched_change change,
                       const struct object *pod);
/* Goes on with what is due; call once every pod is known. Returns when it wants the next turn;
 * INT64_MAX for never. */
int64_t suspender_turn(struct suspender *suspender, int64_t now_ms);
