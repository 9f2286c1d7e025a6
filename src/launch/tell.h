#pragma once

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct observed;

/* tell: how the ranks of this container get on (observe/ranks.h) is told to the operator, where no
 * node agent of ours looks at them: on a cluster whose pods kubelets run.
 *
 * The ranks get the hook and a folder for pages as from the agent, so nothing of it is in their
 * processes but that page. A report goes out when its meaning changes, and once a minute. It leaves by a
 * Python of its own (tell.py), because HTTPS needs a library that every Python has and a static
 * program does not; it lives for one report, TELL_LIMIT_MS at most. Where nobody answers, it is tried
 * again ever more seldom, and nothing is said: the training goes on as it would. An operator that has
 * heard of the pod too lately (ranks_told.h) is there: that is no failure, and the last one waits for
 * its turn. */
#define TELL_LIMIT_MS     10000
#define TELL_RETRY_MS     2000 /* doubled with every failure */
#define TELL_RETRY_MAX_MS 60000
#define TELL_LAST_MS      4000 /* the end of the container waits so long for the last one */
#define TELL_NOT_NOW      75   /* the exit status of a report that came too soon (tell.py) */

struct tell {
    struct observed *seen; /* NULL: nothing is told */
    char *url;
    char folder[PATH_MAX]; /* the run's: hook, pages, authority, and which Python */
    sigset_t mask;         /* of children */
    unsigned long turns;
    int64_t look_ms; /* when they are looked at next */
    pid_t child;     /* the report that is under way; 0: none */
    int64_t kill_ms;
    unsigned failures; /* in a row */
    int64_t retry_ms;
};

/* By the environment (api/launch.h), which is then as the ranks are to have it. */
void tell_start(struct tell *tell, const char *run_dir, const sigset_t *mask);
/* Ranks are started anew, and those before have ended. */
void tell_restart(struct tell *tell);
/* INT64_MAX: there is nothing to do. */
int64_t tell_next_ms(const struct tell *tell);
/* `now_ms` is of CLOCK_MONOTONIC, as everywhere here. */
void tell_turn(struct tell *tell, int64_t now_ms);
/* A child has ended; false: it is none of this. */
bool tell_reaped(struct tell *tell, pid_t pid, int status, int64_t now_ms);
/* The ranks have ended: how far they came is told, unless nobody has answered before. It waits so long
 * for it to be taken. */
void tell_last(struct tell *tell, int64_t limit_ms);
void tell_done(struct tell *tell);
