#include "page/proxied.h"

#include "base/str.h"
#include "http1/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

bool proxied_is_on(const struct proxied_rules *rules)
{
    return rules->secret.len || (rules->peer_name && *rules->peer_name);
}

/* Every byte is looked at, whatever the first ones are: the time it takes tells nothing. */
static bool secret_is(struct str secret, struct str given)
{
    unsigned differs = given.len != secret.len;

    for (size_t i = 0; i < secret.len && given.len; i++)
        differs |=
            (unsigned)(unsigned char)secret.p[i] ^ (unsigned)(unsigned char)given.p[i % given.len];
    return secret.len && given.len && differs == 0;
}

static bool proxy_is_proven(const struct proxied_rules *rules,
                            const struct http_head *head,
                            struct str peer)
{
    struct str name = peer.len ? str_sub(peer, 0, str_find(peer, '\0')) : STR_NONE;

    if (rules->peer_name && *rules->peer_name && name.len && str_is(name, rules->peer_name))
        return true;
    return secret_is(rules->secret, http_head_get(head, PROXIED_SECRET_HEADER));
}

/* It goes on as a header to the API server, where the prefix names what the cluster itself is. */
static bool name_is_fit(struct str name)
{
    if (!name.len || name.len > PROXIED_NAME_MAX || str_starts(name, STR("system:")))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.p[i] < 0x20 || name.p[i] > 0x7e)
            return false;
    return true;
}

static int groups_read(struct str value, struct proxied_user *ret, const char **ret_why)
{
    struct str part;

    while (str_cut(&value, ',', &part)) {
        struct str name = str_trim(part);

        if (!name.len)
            continue;
        if (!name_is_fit(name) || ret->group_count == PROXIED_GROUPS_MAX) {
            *ret_why = "the proxy names a group that begins with \"system:\", is longer than 256 "
                       "bytes or not ASCII, or more than 32 groups";
            return -EPERM;
        }
        ret->groups[ret->group_count++] = name;
    }
    return 0;
}

int proxied_read(const struct proxied_rules *rules,
                 const struct http_head *head,
                 struct str peer,
                 struct proxied_user *ret,
                 const char **ret_why)
{
    size_t users = 0;
    bool said = http_head_get(head, PROXIED_SECRET_HEADER).len > 0;

    *ret = (struct proxied_user){0};
    if (!proxied_is_on(rules))
        return 0;
    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *header = &head->headers[i];
        bool user = http_equal_nocase(header->name, str_from(rules->user_header));
        bool group = http_equal_nocase(header->name, str_from(rules->group_header));

        said = said || user || group;
        users += user;
        if (user)
            ret->name = str_trim(header->value);
        if (group && groups_read(header->value, ret, ret_why) < 0)
            return -EPERM;
    }
    if (!said)
        return 0;
    *ret_why = "headers say who asks, and nothing shows that they are the proxy's";
    if (!proxy_is_proven(rules, head, peer))
        return -EPERM;
    *ret_why = "the proxy says twice who asks; it has to replace what its clients send";
    if (users > 1)
        return -EPERM;
    *ret_why = "the proxy names no user, or one that begins with \"system:\", is longer than 256 "
               "bytes or not ASCII";
    return name_is_fit(ret->name) ? 1 : -EPERM;
}
