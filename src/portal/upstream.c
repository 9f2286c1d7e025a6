#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/server.h"
#include "kube/client.h"
#include "portal/portal_internal.h"

#include <stddef.h>

/* Whose name a request carries. The headers of an impersonation are short by page/proxied.h: one
 * that the transport would leave out for its length would make the request ours. */
static struct str name_headers(struct visit *visit)
{
    struct arena *arena = request_arena(&visit->request);
    const struct proxied_user *user = &visit->viewer.proxied;
    _cleanup_(buf_done) struct buf lines = {0};

    if (visit->name_headers.len)
        return visit->name_headers;
    if (visit->viewer.token.len)
        buf_addf(&lines, "Authorization: Bearer " STR_FMT, STR_ARG(visit->viewer.token));
    else
        buf_addf(&lines, "Impersonate-User: " STR_FMT, STR_ARG(user->name));
    for (size_t i = 0; i < user->group_count; i++)
        buf_addf(&lines, "\nImpersonate-Group: " STR_FMT, STR_ARG(user->groups[i]));
    visit->name_headers = str_dup(arena, buf_str(&lines));
    return visit->name_headers;
}

struct client_call *upstream_send(struct visit *visit, const struct upstream_request *request)
{
    struct portal *portal = visit->portal;

    return client_send(visit->viewer.token.len ? portal->viewers : portal->own,
                       &(struct client_request){
                           .class = LIMITER_NORMAL,
                           .method = request->method,
                           .path = request->path,
                           .content_type = request->content_type,
                           .accept = request->accept,
                           .body = request->body,
                           .header = name_headers(visit),
                           .data = request->data,
                           .done = request->done,
                           .user = request->user,
                       });
}
