#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct object;

/* coexist: other operators of the kinds that we could act on.
 *
 * Two that act on one kind undo each other's work. So where Kubeflow's operators, JobSet's
 * controller or KAI Scheduler run, their kinds are theirs. They are known by what runs: a pod that
 * has their program's image, or their label on a pod whose container has their name; manifests,
 * namespaces and release names differ from one installation to the next. CRDs say nothing: ours are
 * the same. A pod that is our own is never theirs, whatever labels it has for scripts that wait
 * for them. */
struct coexist_other {
    const char *name;  /* for people, and in metrics */
    const char *image; /* what the image's repository ends with, whole segments */
    const char *label; /* key, value and the container's name: all three */
    const char *value;
    const char *container;
    const char *const *controllers; /* of ours that stay off while it runs; NULL-terminated */
    bool schedules;                 /* our scheduler stays off as well */
};

#define COEXIST_OTHERS 5
extern const struct coexist_other coexist_others[COEXIST_OTHERS];

/* Which of them this pod is, and runs: an index, or -1. */
int coexist_find(const struct object *pod);
