#include "http/server.h"
#include "server/fair.h"
#include "server/request.h"

#include <stdbool.h>

bool request_has_room(struct request *request)
{
    return !request->load_user.len || fair_pending(&request->server->fair, request->load_user,
                                                   &request->pending, http_pending(request->x));
}
