#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct patience;

/* flight: the last collectives of a rank, from what PyTorch's flight recorder wrote (versions 1.x of
 * PyTorch 2.3 to 2.10 of 2.15):
 *
 *     {"version": "2.10", "groups": [{"group": "default_pg", "last": [
 *         {"seq": 4712, "op": "nccl:all_reduce", "state": "started", "sizes": "[[8]]",
 *          "where": "main.py:43 (train)"}]}]}
 *
 * The last one of a group is the last of its list. Sends and receives are left out. */
#define FLIGHT_GROUPS_MAX 16
#define FLIGHT_LAST       3   /* collectives a group */
#define FLIGHT_TEXT_MAX   200 /* bytes of any name */

/* NULL: it is no such file, and why. Pure. */
struct json *flight_decode(struct arena *arena, struct str bytes, struct err *err);

/* Ask a rank for a new one, where it listens to that (TORCH_NCCL_DEBUG_INFO_PIPE_FILE): true, it was
 * told, and writes it beside all else that it does. */
bool flight_ask(int64_t pid, struct str rank);
/* The youngest that the rank has written since it was started, where its environment says that it does,
 * or in PyTorch's own places; NULL: there is none. One that was asked for at `asked_ms` (of the calendar)
 * is waited for with `patience` (proc.h). "why" in place of groups: it cannot be read. */
struct json *flight_of(struct arena *arena,
                       int64_t pid,
                       struct str rank,
                       int64_t asked_ms,
                       const struct patience *patience);
