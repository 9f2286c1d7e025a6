#include "control/cluster/reservation.h"

#include <stdbool.h>
#include <stddef.h>

/* The two tables of reservation.h. */

static enum reservation_state state_shown(const struct reservation_shown *shown)
{
    if (shown->ending)
        return RESERVATION_ENDING;
    if (shown->over)
        return RESERVATION_OVER;
    return shown->device.len ? RESERVATION_HOLDING : RESERVATION_STARTING;
}

static enum reservation_state state_seen(enum reservation_state state,
                                         const struct reservation_shown *shown)
{
    enum reservation_state now = state_shown(shown);

    if (state == RESERVATION_RELEASING)
        return state; /* until it is gone, or the deletion failed */
    if (state == RESERVATION_LATE && now == RESERVATION_STARTING)
        return state;
    return now;
}

enum reservation_state reservation_after(enum reservation_state state,
                                         enum reservation_input input,
                                         const struct reservation_shown *shown)
{
    bool asked = state == RESERVATION_ASKED || state == RESERVATION_DOUBTFUL;

    switch (input) {
    case RESERVATION_IN_SEEN: return state_seen(state, shown);
    case RESERVATION_IN_REPLACED: return state_shown(shown);
    case RESERVATION_IN_GONE: return asked ? state : RESERVATION_NONE;
    case RESERVATION_IN_ASK: return RESERVATION_ASKED;
    case RESERVATION_IN_REFUSED: return asked ? RESERVATION_NONE : state;
    case RESERVATION_IN_UNANSWERED: /* one that is seen was made, whatever the answer says */
        return asked || state == RESERVATION_NONE ? RESERVATION_DOUBTFUL : state;
    case RESERVATION_IN_RELEASE: return RESERVATION_RELEASING;
    case RESERVATION_IN_KEPT: return state == RESERVATION_RELEASING ? state_shown(shown) : state;
    case RESERVATION_IN_TIME_IS_UP: return state == RESERVATION_STARTING ? RESERVATION_LATE : state;
    }
    return state;
}

enum reservation_todo reservation_todo(enum reservation_state state, size_t users, size_t claims)
{
    bool wanted = users || claims;

    switch (state) {
    case RESERVATION_NONE:
        return users    ? RESERVATION_DO_EVICT
               : claims ? RESERVATION_DO_CREATE
                        : RESERVATION_DO_NOTHING;
    case RESERVATION_OVER:
        return users ? RESERVATION_DO_EVICT : claims ? RESERVATION_DO_FAIL : RESERVATION_DO_RELEASE;
    case RESERVATION_STARTING: return wanted ? RESERVATION_DO_NOTHING : RESERVATION_DO_RELEASE;
    case RESERVATION_LATE:
        /* Not its claims one by one as their own time is up: others would come meanwhile, and one
         * that never tells would never be given up. */
        return !wanted ? RESERVATION_DO_RELEASE
               : users ? RESERVATION_DO_NOTHING
                       : RESERVATION_DO_FAIL;
    case RESERVATION_HOLDING:
        return !wanted  ? RESERVATION_DO_RELEASE
               : claims ? RESERVATION_DO_GO_ON
                        : RESERVATION_DO_NOTHING;
    case RESERVATION_ASKED:
    case RESERVATION_DOUBTFUL:
    case RESERVATION_RELEASING:
    case RESERVATION_ENDING: break; /* what comes of it is seen */
    }
    return RESERVATION_DO_NOTHING;
}
