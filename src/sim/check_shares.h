#pragma once

#include "base/str.h"

struct api;
struct check_report;
struct sim_process;

/* check_shares: what must hold for shared GPUs where reservation pods hold them
 * (exec/reservations.h). Part of check.c.
 *   - the shares of one group on a node never pass a whole device, as soon as they are bound;
 *   - a device that a machine has given away whole runs nobody's share, and the shares that run on
 *     one never pass it: what processes read from their ConfigMaps counts, not what was planned;
 *   - at rest every group with users has one reservation pod, and every reservation pod has users;
 *   - when people have deleted everything, no reservation pod is left. */
struct check_shares;

struct check_shares *check_shares_new(struct api *api, struct check_report *report);
/* NULL is fine. */
void check_shares_free(struct check_shares *shares);

void check_shares_started(struct check_shares *shares, const struct sim_process *process);
/* It has given up its share and stays, or has it back. */
void check_shares_moved(struct check_shares *shares, struct str uid, bool out);
void check_shares_ended(struct check_shares *shares, struct str uid);
void check_shares_now(struct check_shares *shares);
void check_shares_at_rest(struct check_shares *shares);
void check_shares_clean(struct check_shares *shares);
