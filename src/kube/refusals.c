#include "kube/refusals.h"

#include "base/err.h"

#include <stdio.h>

#define FORBIDDEN 403

static struct refusal *refusal_find(struct refusals *refusals,
                                    int verb,
                                    const struct kind *kind,
                                    bool subresource)
{
    for (size_t i = 0; i < refusals->count; i++) {
        struct refusal *it = &refusals->items[i];

        if (it->verb == verb && it->kind == kind && it->subresource == subresource)
            return it;
    }
    return NULL;
}

void refusals_note(struct refusals *refusals,
                   int verb,
                   const struct kind *kind,
                   bool subresource,
                   const struct err *err)
{
    struct refusal *it = refusal_find(refusals, verb, kind, subresource);

    if (err && err->http_status != FORBIDDEN)
        return;
    if (!err) {
        if (it)
            *it = refusals->items[--refusals->count];
        return;
    }
    if (!it) {
        if (refusals->count == REFUSALS_MAX)
            return;
        it = &refusals->items[refusals->count++];
        *it = (struct refusal){.verb = verb, .kind = kind, .subresource = subresource};
    }
    (void)snprintf(it->text, sizeof(it->text), "%s", err->text);
}
