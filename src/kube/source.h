#pragma once

#include "api/api.h"

#include <stdbool.h>
#include <stddef.h>

struct kube;
struct object;

/* source: one list and watch at the API server, healing itself. watch.c shares it among those who
 * ask for the same.
 *
 * From revision 0 it is an informer: it takes what there is, follows what happens, and takes what
 * there is again when the server says 410. A lost connection and the server's time-out only make it
 * follow again, from where it was.
 *
 * What there is comes as the first events of a watch (sendInitialEvents) where the server does
 * that, else as a list, page after page. Pods and nodes come as protobuf (feed.h).
 *
 * It remembers every object it has reported, so that it can report the next list as a
 * difference: DELETED for what vanished, ADDED or MODIFIED for what is new, nothing for the rest.
 * From a given revision it only follows, and ends with CLOSED at a 410. */
struct source;

/* `tell` is called from the loop, never from inside source_new(). */
struct source *source_new(struct kube *kube,
                          const struct api_watch_request *request,
                          api_watch_fn *tell,
                          void *user);
/* Nothing is told any more. May be called from inside `tell`. */
void source_free(struct source *source);

/* The server is back. If it waits to try again after a failure, it does so now; what fails of now on is
 * no part of what failed before. */
void source_hurry(struct source *source);
/* Whether SYNCED was told; whether it also has what the server has now, as far as one can know. */
bool source_synced(const struct source *source);
bool source_current(const struct source *source);
/* Walk what it has told and not taken back; start with *cursor = 0, NULL ends. */
const struct object *source_next(const struct source *source, size_t *cursor);
