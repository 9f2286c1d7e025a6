#pragma once

#include "agent/env.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct arena;
struct buf;
struct err;
struct pod;

/* ranks: how the ranks of a pod get on (api/ranks.h), seen from outside.
 *
 * Containers of training pods have a folder for pages (api/rank_page.h) and hook.py as their
 * sitecustomize, at the front of PYTHONPATH. Every RANKS_LOOK_MS the pages are read; the processes
 * of a rank only while it is silent. What changed its meaning goes to an annotation of the pod, at
 * most every RANKS_TELL_MS, and seldom for one that changes all the time. */
#define RANKS_LOOK_MS 1000
#define RANKS_TELL_MS 2000

/* hook.py in the data folder. */
int ranks_start(struct agent *agent, struct err *err);
/* Before a container is started: its folder. */
int ranks_make(const struct pod *pod, size_t index, struct err *err);
/* After the user's own environment. */
void ranks_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env);
void ranks_mounts(const struct pod *pod, size_t index, struct buf *records);

/* In the folder of the pages: the container that waits (agent/standby.h) is to go on. */
#define RANKS_GO_FILE "go"
/* That folder, as the container sees it. */
void ranks_folder(const struct pod *pod, size_t index, char *ret, size_t bytes);
/* A rank of the present container has made a step. */
bool ranks_have_stepped(const struct pod *pod);

/* A container of the pod runs: look at it from now on. */
void ranks_begin(struct pod *pod);
/* A container of the pod has ended: how far its ranks came is told before anything else of that. */
void ranks_end(struct pod *pod, size_t index);
/* At all of them, as every RANKS_LOOK_MS. */
void ranks_look(struct agent *agent, int64_t now_ms);
/* The pod goes. */
void ranks_free(struct pod *pod);
