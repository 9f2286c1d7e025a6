#include "server/upgrade.h"

#include "base/str.h"
#include "http/parse.h"
#include "http/server.h"
#include "http/websocket.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>

bool upgrade_wants(const struct request *request, const char *what)
{
    const struct http_head *head = &request->x->head;

    return head->upgrade && http_token_in(http_head_get(head, "Upgrade"), what);
}

/* Clients repeat the header or list several in one. */
static const char *choose(const struct request *request,
                          const char *header,
                          const char *const *protocols)
{
    const struct http_head *head = &request->x->head;

    for (; *protocols; protocols++)
        for (size_t i = 0; i < head->header_count; i++)
            if (http_equal_nocase(head->headers[i].name, str_from(header)) &&
                http_token_in(head->headers[i].value, *protocols))
                return *protocols;
    return NULL;
}

const char *upgrade_websocket(struct request *request, const char *const *protocols)
{
    const struct http_head *head = &request->x->head;
    struct str key = http_head_get(head, "Sec-WebSocket-Key");
    const char *protocol = choose(request, "Sec-WebSocket-Protocol", protocols);
    char accept[WEBSOCKET_ACCEPT_BYTES];

    if (!key.len || !str_is(http_head_get(head, "Sec-WebSocket-Version"), "13") || !protocol) {
        request_fail(request, 400, "BadRequest",
                     "WebSocket: version 13 and one of our subprotocols (such as %s) are needed",
                     protocols[0]);
        return NULL;
    }
    websocket_accept_key(key, accept);
    http_header(request->x, "Sec-WebSocket-Accept", str_from(accept));
    http_header(request->x, "Sec-WebSocket-Protocol", str_from(protocol));
    http_upgrade(request->x, "websocket");
    return protocol;
}

const char *upgrade_spdy(struct request *request, const char *const *protocols)
{
    const char *protocol = choose(request, "X-Stream-Protocol-Version", protocols);

    if (!protocol) {
        request_fail(request, 403, "Forbidden",
                     "SPDY: none of the stream protocols offered is spoken here; %s is",
                     protocols[0]);
        return NULL;
    }
    http_header(request->x, "X-Stream-Protocol-Version", str_from(protocol));
    http_upgrade(request->x, "SPDY/3.1");
    return protocol;
}
