#include "page/session.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Looks at every byte whatever the first ones are: how long it takes says nothing of a secret. */
static bool secret_is(const char *secret, struct str given)
{
    unsigned differs = 0;

    if (given.len != SESSION_SECRET_BYTES)
        return false;
    for (size_t i = 0; i < SESSION_SECRET_BYTES; i++)
        differs |= (unsigned)(unsigned char)secret[i] ^ (unsigned)(unsigned char)given.p[i];
    return differs == 0;
}

static void secret_copy(char *into, struct str secret)
{
    memcpy(into, secret.p, secret.len < SESSION_SECRET_BYTES ? secret.len : SESSION_SECRET_BYTES);
}

static char *token_copy(struct str token)
{
    char *copy = mem_alloc(token.len + 1);

    if (token.len)
        memcpy(copy, token.p, token.len);
    copy[token.len] = '\0';
    return copy;
}

static void session_drop(struct session *items, size_t *count, size_t at)
{
    mem_free(items[at].token);
    mem_free(items[at].who);
    memmove(&items[at], &items[at + 1], (*count - at - 1) * sizeof(*items));
    (*count)--;
}

/* What is over goes, and the oldest where there are too many. */
static void session_trim(struct session *items, size_t *count, size_t max, int64_t now_ms)
{
    for (size_t i = *count; i-- > 0;)
        if (items[i].ends_ms <= now_ms)
            session_drop(items, count, i);
    while (*count >= max)
        session_drop(items, count, 0);
}

/* Room for one more of this user. */
static void user_trim(struct session *items, size_t *count, struct str who, size_t max)
{
    size_t found = 0;

    for (size_t i = *count; i-- > 0;)
        if (str_is(who, items[i].who) && ++found >= max)
            session_drop(items, count, i);
}

void sessions_add_link(struct sessions *sessions,
                       struct str code,
                       struct str token,
                       struct str who,
                       int64_t now_ms)
{
    struct session link = {.token = token_copy(token),
                           .who = token_copy(who),
                           .ends_ms = now_ms + SESSION_LINK_MS_MAX};

    secret_copy(link.id, code);
    user_trim(sessions->links.items, &sessions->links.count, who, SESSION_LINKS_A_USER);
    session_trim(sessions->links.items, &sessions->links.count, SESSION_LINK_MAX, now_ms);
    VEC_PUSH(NULL, &sessions->links, link);
}

bool sessions_use_link(struct sessions *sessions,
                       struct arena *arena,
                       struct str code,
                       int64_t now_ms,
                       struct str *ret_token)
{
    for (size_t i = 0; i < sessions->links.count; i++) {
        const struct session *link = &sessions->links.items[i];

        if (!secret_is(link->id, code) || link->ends_ms <= now_ms)
            continue;
        *ret_token = str_dup(arena, str_from(link->token));
        session_drop(sessions->links.items, &sessions->links.count, i);
        return true;
    }
    return false;
}

void sessions_open(struct sessions *sessions,
                   struct str id,
                   struct str key,
                   struct str token,
                   struct str who,
                   int64_t now_ms)
{
    struct session session = {
        .token = token_copy(token), .who = token_copy(who), .ends_ms = now_ms + SESSION_MS_MAX};

    secret_copy(session.id, id);
    secret_copy(session.key, key);
    user_trim(sessions->open.items, &sessions->open.count, who, SESSION_PER_USER_MAX);
    session_trim(sessions->open.items, &sessions->open.count, SESSION_MAX, now_ms);
    VEC_PUSH(NULL, &sessions->open, session);
}

static const struct session *session_get(const struct sessions *sessions,
                                         struct str id,
                                         struct str key,
                                         int64_t now_ms)
{
    for (size_t i = 0; i < sessions->open.count; i++) {
        const struct session *session = &sessions->open.items[i];

        if (secret_is(session->id, id) && secret_is(session->key, key) && session->ends_ms > now_ms)
            return session;
    }
    return NULL;
}

struct str sessions_find(const struct sessions *sessions,
                         struct str id,
                         struct str key,
                         int64_t now_ms)
{
    const struct session *session = session_get(sessions, id, key, now_ms);

    return session ? str_from(session->token) : STR_NONE;
}

struct str sessions_who(const struct sessions *sessions,
                        struct str id,
                        struct str key,
                        int64_t now_ms)
{
    const struct session *session = session_get(sessions, id, key, now_ms);

    return session ? str_from(session->who) : STR_NONE;
}

void sessions_close(struct sessions *sessions, struct str id)
{
    for (size_t i = sessions->open.count; i-- > 0;)
        if (secret_is(sessions->open.items[i].id, id))
            session_drop(sessions->open.items, &sessions->open.count, i);
}

void sessions_done(struct sessions *sessions)
{
    while (sessions->open.count)
        session_drop(sessions->open.items, &sessions->open.count, 0);
    while (sessions->links.count)
        session_drop(sessions->links.items, &sessions->links.count, 0);
    VEC_DONE(&sessions->open);
    VEC_DONE(&sessions->links);
}
