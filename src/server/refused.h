#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* refused: how much of what one user is refused is written down. Who is refused ten thousand times a
 * second must not push everybody's lines out of a log that is bounded. Pure.
 *
 * So many of a user's refusals a minute have a line; of the others the number is told. */
#define REFUSED_LINES_MAX 120
#define REFUSED_WINDOW_MS 60000
#define REFUSED_USERS_MAX 1024 /* looked at apart; beyond that all together */

struct refused {
    struct map users; /* name -> struct refused_user */
};

/* Is this refusal written down? *ret_left_out: how many of that user's were not, in the minute that
 * is over; 0: nothing to tell. */
bool refused_takes(struct refused *refused,
                   struct str user,
                   int64_t now_ms,
                   uint64_t *ret_left_out);
void refused_done(struct refused *refused);
