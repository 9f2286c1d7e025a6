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

/* ranks: how the ranks of a node's pods get on (observe/ranks.h), told in an annotation of each pod
 * (api/ranks.h). */

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
/* At all of them, as every OBSERVED_LOOK_MS. */
void ranks_look(struct agent *agent, int64_t now_ms);
/* The pod goes. */
void ranks_free(struct pod *pod);
