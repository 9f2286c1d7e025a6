#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct http_head;

/* gate: which requests of a browser the page takes at all, before anybody asks who the viewer is.
 * Pure: looks at the head only. */

/* A name in Host that nobody gave this server may be an outsider's whose address was turned to ours
 * (DNS rebinding): only numbers, localhost and `names` are taken. */
bool gate_host(struct str host, const char *const *names, size_t name_count);
/* Whether a request that carries a session comes from the page itself: browsers say so in
 * Sec-Fetch-Site, and in Origin. Programs that say neither are told apart by the session's key. */
bool gate_same_origin(const struct http_head *head);
/* The value of a cookie; STR_NONE: there is none of that name. */
struct str gate_cookie(const struct http_head *head, struct str name);
