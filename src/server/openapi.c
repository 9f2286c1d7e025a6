#include "base/str.h"
#include "http/server.h"
#include "server/request.h"

/* kubectl insists on /openapi/v2 in protobuf before it creates or applies; an empty document says
 * "nothing known, validate on the server", which is what happens. */
void openapi_v2(struct request *request)
{
    http_reply(request->x, 200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
               STR(""));
}

void openapi_v3(struct request *request)
{
    request_not_found(request);
}

void openapi_document(struct request *request)
{
    request_not_found(request);
}
