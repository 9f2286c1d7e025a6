#pragma once

#include "base/str.h"
#include "page/proxied.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct err;
struct kube_config;
struct log;
struct portal;
struct server_whatif;
struct tls_identity;
struct uv_loop_s;

/* portal: the web page on somebody's cluster, served by the operator.
 *
 * It has no rights to give. What a viewer asks of the API goes to the API server in his own name: with
 * the token that he signed in with, or, where a proxy in front has said who he is, as an
 * impersonation. The change stream alone is told from the operator's informers, so that viewers cost
 * the API server no watches, and each kind only after the API server has said that this viewer may
 * list and watch it; that is asked again every minute.
 *
 * The addresses are those of the page of `muster up` (server/page.c), without links that sign in. */
struct portal_options {
    struct uv_loop_s *loop;
    struct api *api;                  /* whose watches tell what changes */
    const struct kube_config *config; /* of the API server; needed only during the call */
    const char *address;
    uint16_t port;
    struct tls_identity *tls;   /* NULL: plain HTTP */
    bool secure;                /* browsers come by HTTPS, by ours or that of who is in front */
    const char *const *names;   /* as page_names of server_options; lives as long as the portal */
    struct proxied_rules proxy; /* strings live as long as the portal */
    const struct log *log;      /* may be NULL */
};

int portal_start(const struct portal_options *options, struct portal **ret, struct err *err);
uint16_t portal_port(const struct portal *portal);
/* Another certificate for connections from now on. */
void portal_set_tls(struct portal *portal, struct tls_identity *tls);
/* As server_set_whatif(). */
void portal_set_whatif(struct portal *portal,
                       void (*ask)(void *user, const struct server_whatif *question),
                       void *user);
/* Ends every connection and request; run the loop once more. NULL is fine. */
void portal_stop(struct portal *portal);
