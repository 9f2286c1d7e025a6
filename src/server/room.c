#include "http/server.h"
#include "server/fair.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>

/* Half a message is kept for everybody; a client that leaves many of them unfinished keeps more. */
#define PIECE_BYTES ((size_t)64 << 10)

bool request_has_room(struct request *request)
{
    return !request->load_user.len ||
           fair_pending(&request->server->fair, request->load_user, &request->pending,
                        http_pending(request->x) + request->held + request->unfinished);
}

bool request_may_keep(struct request *request, size_t bytes)
{
    request->unfinished = bytes;
    return request_has_room(request) || bytes <= PIECE_BYTES;
}
