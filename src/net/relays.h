#pragma once

#include <stddef.h>

/* relays: who gives way when as many connections to services are passed on as can be.
 *
 * They are all namespaces' together, and the API server's is one of them: one namespace must not
 * have all. Its oldest goes for a new one of a namespace that has fewer. */

/* `spaces`: the namespaces of those that are open, oldest first. The index of the one that goes for
 * a new one of `ns`; `count`: none does, and the new one is refused. */
size_t relays_loser(const char *const *spaces, size_t count, const char *ns);
