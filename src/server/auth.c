#include "base/buf.h"
#include "base/str.h"
#include "http/parse.h"
#include "http/server.h"
#include "server/request.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>

/* Takes as long whatever the bytes are; only the length shows. */
static bool equal_in_constant_time(struct str a, struct str b)
{
    return a.len == b.len && a.len && gnutls_memcmp(a.p, b.p, a.len) == 0;
}

static void identify_owner(struct user *user)
{
    *user = (struct user){.name = STR("muster:owner"),
                          .uid = STR("owner"),
                          .groups = {STR("system:masters"), STR("system:authenticated")},
                          .group_count = 2,
                          .owner = true};
}

bool auth_identify(struct request *request)
{
    struct str header = http_head_get(&request->x->head, "Authorization");
    struct str scheme = str_sub(header, 0, sizeof("Bearer ") - 1);

    request->user = (struct user){.name = STR("system:anonymous"),
                                  .groups = {STR("system:unauthenticated")},
                                  .group_count = 1};
    if (!http_equal_nocase(scheme, STR("Bearer ")))
        return false;
    struct str token = str_trim(str_sub(header, scheme.len, header.len));
    if (equal_in_constant_time(token, buf_str(&request->server->token))) {
        identify_owner(&request->user);
        return true;
    }
    return false;
}
