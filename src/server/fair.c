#include "server/fair.h"

#include "base/account.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define TEXT_(number) #number
#define TEXT(number)  TEXT_(number)

struct fair_user {
    size_t requests;
    size_t streams;
    size_t body_bytes;
    size_t pending_bytes;
    size_t name_len;
    char name[];
};

static const struct fair_limits of_the_server = {
    .requests_max = FAIR_REQUESTS_MAX,
    .streams_max = FAIR_STREAMS_MAX,
    .requests_full = TEXT(FAIR_REQUESTS_MAX) " requests under way",
    .streams_full = TEXT(FAIR_STREAMS_MAX) " watches and streams open",
};

static struct fair_user *user_make(struct fair *fair, struct str name)
{
    struct fair_user *user = map_get(&fair->users, name);

    if (user)
        return user;
    user = mem_alloc(sizeof(*user) + name.len);
    *user = (struct fair_user){.name_len = name.len};
    if (name.len)
        memcpy(user->name, name.p, name.len);
    (void)map_set(&fair->users, (struct str){user->name, name.len}, user);
    return user;
}

static void user_drop(struct fair *fair, struct fair_user *user)
{
    if (user->requests || user->streams || user->body_bytes)
        return;
    (void)map_remove(&fair->users, (struct str){user->name, user->name_len});
    mem_free(user);
}

const char *fair_enter(struct fair *fair, struct str name, const struct fair_load *load)
{
    const struct fair_limits *limits = fair->limits ? fair->limits : &of_the_server;
    struct fair_user *user = user_make(fair, account_share(name));
    const char *full = NULL;

    if (load->streams && user->streams + load->streams > limits->streams_max)
        full = limits->streams_full;
    else if (!load->streams && user->requests >= limits->requests_max)
        full = limits->requests_full;
    /* One that is too large alone is a matter of body_max. */
    else if (user->body_bytes && load->body_bytes > FAIR_BODY_BYTES_MAX - user->body_bytes)
        full = "32 MiB of requests under way";
    if (full) {
        user_drop(fair, user);
        return full;
    }
    user->streams += load->streams;
    user->requests += !load->streams;
    user->body_bytes += load->body_bytes;
    return NULL;
}

void fair_leave(struct fair *fair, struct str name, const struct fair_load *load)
{
    struct fair_user *user = map_get(&fair->users, account_share(name));

    assert(user);
    user->streams -= load->streams;
    user->requests -= !load->streams;
    user->body_bytes -= load->body_bytes;
    user_drop(fair, user);
}

bool fair_pending(struct fair *fair, struct str name, size_t *counted, size_t now)
{
    struct fair_user *user = map_get(&fair->users, account_share(name));

    assert(user && user->pending_bytes >= *counted);
    user->pending_bytes += now - *counted;
    *counted = now;
    return user->pending_bytes < FAIR_PENDING_BYTES_MAX;
}

void fair_done(struct fair *fair)
{
    MAP_FOREACH(&fair->users, entry)
        mem_free(entry->value);
    map_done(&fair->users);
}
