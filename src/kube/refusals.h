#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct kind;

/* refusals: the rights that the API server said are missing (403) and has not granted since.
 *
 * An entry is one verb on one kind (or on a subresource of it): a later refusal of the same
 * replaces its words, a success removes it. So what is listed is what an administrator still has to
 * grant. */
#define REFUSALS_MAX   16 /* further ones are not kept: the first to be granted make room */
#define REFUSALS_BYTES 240
#define REFUSALS_WATCH 100 /* beside enum api_verb: a watch, and the list that begins it */

struct refusals {
    struct refusal {
        int verb; /* enum api_verb or REFUSALS_WATCH */
        const struct kind *kind;
        bool subresource;
        char text[REFUSALS_BYTES]; /* the server's words */
    } items[REFUSALS_MAX];
    size_t count;
};

/* What became of one request. `err` NULL: it succeeded. A failure that is no 403 changes nothing.
 */
void refusals_note(struct refusals *refusals,
                   int verb,
                   const struct kind *kind,
                   bool subresource,
                   const struct err *err);
