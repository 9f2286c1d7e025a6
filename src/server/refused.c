#include "server/refused.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct refused_user {
    int64_t since_ms;
    uint64_t seen;
    char name[];
};

static struct refused_user *refused_user_make(struct refused *refused,
                                              struct str name,
                                              int64_t now_ms)
{
    struct refused_user *user = map_get(&refused->users, name);

    if (user)
        return user;
    if (refused->users.count >= REFUSED_USERS_MAX && name.len)
        return refused_user_make(refused, STR(""), now_ms);
    user = mem_alloc(sizeof(*user) + name.len);
    *user = (struct refused_user){.since_ms = now_ms};
    if (name.len)
        memcpy(user->name, name.p, name.len);
    (void)map_set(&refused->users, (struct str){user->name, name.len}, user);
    return user;
}

bool refused_takes(struct refused *refused, struct str name, int64_t now_ms, uint64_t *ret_left_out)
{
    struct refused_user *user = refused_user_make(refused, name, now_ms);

    *ret_left_out = 0;
    if (now_ms - user->since_ms >= REFUSED_WINDOW_MS) {
        *ret_left_out = user->seen > REFUSED_LINES_MAX ? user->seen - REFUSED_LINES_MAX : 0;
        user->since_ms = now_ms;
        user->seen = 0;
    }
    return user->seen++ < REFUSED_LINES_MAX;
}

void refused_done(struct refused *refused)
{
    MAP_FOREACH(&refused->users, entry)
        mem_free(entry->value);
    map_done(&refused->users);
}
