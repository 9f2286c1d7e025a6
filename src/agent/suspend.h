#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct arena;
struct json;
struct pod;

/* suspend: a pod gives up its GPUs and stays, as its annotation says (api/suspend.h).
 *
 *     none -> out -> freezing -> frozen -> in -> none
 *
 * What it has on GPUs goes first, while its processes still answer the driver (a helper process does
 * that, agent/checkpoint.h), then they are frozen; back the other way round. Simulated GPUs have
 * nothing that could go. Each stage is on the disk before it begins and may be begun again, so that a
 * muster that was killed goes on where it was. What fails on the way out is taken back; a pod that was
 * to make room for others is then evicted, one that was suspended by hand runs on. What fails on the
 * way in ends the pod. While a pod is not in stage `none` nothing of it is started, probed or timed. */

/* True: the pod stands still, and nothing else is to be done with it now. */
bool suspend_step(struct pod *pod, int64_t now_ms, int64_t *wake_ms);
/* Somebody wants to work in it: one that gave way because its GPUs were unused is back in line. True:
 * it is such a one. */
bool suspend_want(struct pod *pod);
/* The stage that an earlier muster left it in. */
void suspend_recover(struct pod *pod);
/* It is to end: a process that is frozen would not. */
void suspend_drop(struct pod *pod);
/* Of one that nobody knows any more, by its folder. */
void suspend_wake_orphan(struct agent *agent, const char *folder);
/* The pod is freed; the helper goes on alone. */
void suspend_forget(struct pod *pod);
/* Its condition, where it was ever suspended. */
void suspend_add_condition(const struct pod *pod, struct arena *arena, struct json *conditions);
/* What this machine can do, as a label says it; NULL: nothing. */
const char *suspend_ability(const struct agent *agent);
