#include "control/cluster/certificates.h"

#include <stdbool.h>
#include <stdint.h>

/* The moment at which two thirds of its time are over. */
static int64_t due(const struct certificates_span *span)
{
    return span->start_ms + (span->end_ms - span->start_ms) / 3 * 2;
}

enum certificates_todo certificates_decide(const struct certificates_facts *facts,
                                           int64_t *ret_at_ms)
{
    const struct certificates_span *authority = &facts->authority;
    const struct certificates_span *certificate = &facts->certificate;
    int64_t settled_ms = authority->start_ms + CERTIFICATES_SETTLE_MS;
    bool serving = certificate->start_ms && facts->now_ms < certificate->end_ms;

    *ret_at_ms = facts->now_ms;
    if (!authority->start_ms || facts->now_ms >= due(authority))
        return CERTIFICATES_MAKE;
    if (!facts->told)
        return CERTIFICATES_TELL;
    if (!serving || (facts->fits && facts->now_ms >= due(certificate)))
        return CERTIFICATES_SIGN;
    if (!facts->fits) {
        if (facts->now_ms >= settled_ms)
            return CERTIFICATES_SIGN;
        *ret_at_ms = settled_ms;
        return CERTIFICATES_WAIT;
    }
    *ret_at_ms = due(certificate) < due(authority) ? due(certificate) : due(authority);
    return CERTIFICATES_WAIT;
}
