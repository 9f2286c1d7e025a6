#include "workspace/sync_call.h"

#include "base/count.h"
#include "workspace/facts.h"
#include "workspace/httpd.h"

#include <stddef.h>

enum call call_of(const struct httpd_request *request)
{
    static const struct {
        const char *method;
        const char *path;
        enum call call;
    } calls[] = {
        {"GET", "/v1/state", CALL_STATE},     {"POST", "/v1/missing", CALL_MISSING},
        {"POST", "/v1/blobs", CALL_BLOBS},    {"POST", "/v1/commit", CALL_COMMIT},
        {"POST", "/v1/pull", CALL_PULL},      {"GET", "/v1/wait", CALL_WAIT},
        {"POST", "/v1/ack", CALL_ACK},        {"POST", "/v1/restart", CALL_OTHER},
        {"GET", "/healthz", CALL_OTHER},      {"POST", "/v1/log", CALL_LOG},
        {"GET", "/v1/log", CALL_LOG},         {"POST", "/v1/results", CALL_RESULTS},
        {"GET", "/v1/results", CALL_RESULTS},
    };

    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (str_is(request->method, calls[i].method) && str_is(request->path, calls[i].path))
            return calls[i].call;
    if (str_starts(request->path, STR(CALL_KEYS_PATH)))
        return CALL_KEYS;
    return facts_has(request->path) ? CALL_OTHER : CALL_NONE;
}

bool call_needs_secret(enum call call, struct str path)
{
    return call != CALL_NONE && call != CALL_KEYS && !str_is(path, "/healthz") && !facts_has(path);
}
