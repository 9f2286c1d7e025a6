#pragma once

#include "base/str.h"
#include "server/extension.h"

#include <stdbool.h>
#include <stddef.h>

struct aggregate;
struct arena;
struct err;
struct extension;
struct request;
struct server;
struct server_options;
struct service_place;
struct tls_client_options;

/* aggregate: other API servers behind this one, as kube-aggregator has them. An APIService with
 * spec.service says which Service serves a version of a group; requests below /apis/GROUP/VERSION
 * go there (server/extension_proxy.c), in the name of whoever asked.
 *
 * Each is asked now and then, and when its Service or the addresses of it change, what it serves:
 * that is the condition Available of the APIService, and what discovery tells of the group. A group
 * version that this server serves itself stays its own. */
#define AGGREGATE_MAX      256 /* APIServices with a Service; further ones are not available */
#define AGGREGATE_EVERY_MS 10000
#define AGGREGATE_CHECK_MS 5000 /* for an answer, as in Kubernetes */
#define AGGREGATE_DOCUMENT 6    /* every so many checks it is asked for its OpenAPI document too */

struct aggregate *aggregate_new(struct server *server, const struct server_options *options);
/* What is under way ends. NULL is fine. */
void aggregate_free(struct aggregate *aggregate);

/* The one that serves the group version; NULL: nobody, or this server itself. `aggregate` may be
 * NULL. Good until the next turn of the loop. */
const struct extension *aggregate_find(const struct aggregate *aggregate,
                                       struct str group,
                                       struct str version);
/* The next one in the order of discovery, from *at = 0 on; NULL: no more. */
const struct extension *aggregate_next(const struct aggregate *aggregate, size_t *at);
const struct extension_spec *extension_spec(const struct extension *extension);
bool extension_is_available(const struct extension *extension);
/* What it serves, as last heard: "[...]" of extension_resources(). */
struct str extension_serves(const struct extension *extension);
/* Where its OpenAPI document is (extension_document()); empty: it has none. */
struct str extension_openapi(const struct extension *extension);

/* A request did not get through: look at it. */
void aggregate_doubt(struct aggregate *aggregate, struct str group, struct str version);

/* How we meet the server of one. Strings live as long as the arena and the aggregate. */
void aggregate_tls(const struct aggregate *aggregate,
                   struct arena *arena,
                   const struct extension_spec *spec,
                   struct tls_client_options *ret);
/* A socket to where the Service leads, connected or about to be, or -errno with words. */
int aggregate_dial(struct server *server,
                   struct str ns,
                   const struct service_place *place,
                   struct err *err);

/* extension_proxy.c: streams its body, so it is called when the head is there. */
void extension_begin(struct request *request, const struct extension *extension);
