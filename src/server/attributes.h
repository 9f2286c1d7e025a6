#pragma once

#include "base/str.h"
#include "server/rbac.h"

struct arena;
struct route;

/* attributes: what a request is, in RBAC's words: verb, resource, name. Pure.
 *
 * As in Kubernetes, with two rules that are stricter. To open a stream into a pod (exec, attach,
 * portforward) takes the verb create, by whichever method: a WebSocket is opened by GET, and who
 * may only look must not get a shell by that. And pods/results and pods/stacks, which Kubernetes does
 * not have, are what `cat` and a debugger in the pod would print: they take the right to exec. */
struct rbac_request attributes_of(struct arena *arena,
                                  const struct route *route,
                                  struct str method,
                                  struct str path,
                                  struct str query);
/* What a proxy leads to: "NAME", "NAME:PORT", "https:NAME:PORT". What is left out is empty. */
struct attributes_target {
    struct str scheme;
    struct str name;
    struct str port;
};
struct attributes_target attributes_split_name(struct str text);
/* "GET": get; of ASCII only. Paths that are no resources are asked for by their method's name. */
struct str attributes_lower(struct arena *arena, struct str word);
