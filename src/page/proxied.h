#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct http_head;

/* proxied: who a request is from, where a proxy in front has asked for that and says it in headers.
 * Pure: looks at the head, and at the name of the client certificate that the connection proved.
 *
 * Anybody can write headers. So a proxy shows that it is the one that was configured, by a secret in
 * a header or by its certificate, and what comes without that is refused, not ignored: somebody
 * tries, or the proxy is not set up. It must replace these headers of its own clients; a second
 * header with the user's name is the sign of one that does not. */
#define PROXIED_SECRET_HEADER "X-Muster-Proxy-Secret"
#define PROXIED_SECRET_MIN    16 /* bytes: not to be guessed over a network */
#define PROXIED_NAME_MAX      256
#define PROXIED_GROUPS_MAX    32

struct proxied_rules {
    const char *user_header;
    const char *group_header;
    struct str secret;     /* empty: none is good */
    const char *peer_name; /* common name of the proxy's certificate; NULL or empty: none is good */
};

struct proxied_user {
    struct str name;
    struct str groups[PROXIED_GROUPS_MAX];
    size_t group_count;
};

/* Whether a proxy may say who somebody is. */
bool proxied_is_on(const struct proxied_rules *rules);
/* 1: *ret says who it is from. 0: no proxy says anything. -EPERM: it is to be refused; *ret_why says
 * why. `peer` is "CN\0O1..." of http_peer_identity(). Names stay in the head; of several groups in
 * one header the parts. */
int proxied_read(const struct proxied_rules *rules,
                 const struct http_head *head,
                 struct str peer,
                 struct proxied_user *ret,
                 const char **ret_why);
