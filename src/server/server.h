#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct buf;
struct err;
struct log;
struct oidc_options;
struct podio;
struct server;
struct tls_identity;

/* server: the Kubernetes API over HTTP, on top of struct api.
 *
 * Only HTTP lives here: routes, discovery, OpenAPI, tables, authentication, watch streams, and the
 * bytes of pods (log, proxy, exec) through struct podio. What an object may be and what a write
 * means is decided below struct api, so that in-process callers and HTTP clients get the same. */
struct server_options {
    const char *address;
    uint16_t port;                 /* 0: a free one */
    struct tls_identity *tls;      /* NULL: plain HTTP, loopback only, tokens still asked for */
    struct str token;              /* of the owner, who may do everything */
    struct str token_key;          /* signs ServiceAccount tokens */
    bool kubelet;                  /* serve what a node serves, and nothing else */
    const struct log *log;         /* may be NULL */
    const char *const *page_names; /* under which browsers may know the page, besides localhost and
                                    * numbers; NULL-terminated, or NULL. Lives as long as the server */
    struct str proxy_certificate;  /* PEM: by it other API servers know who hands requests on to */
    struct str proxy_key;          /* them (server/aggregate.h); may be empty */
    const struct oidc_options *oidc; /* server/oidc.h; NULL: nobody else signs people in */
    const char *audit_log;           /* file for who wrote what (server/audit.h); NULL: none */
};

/* Strings of the options are copied. */
int server_start(uv_loop_t *loop,
                 struct api *api,
                 const struct server_options *options,
                 struct server **ret,
                 struct err *err);
uint16_t server_port(const struct server *server);
/* Logs, exec and proxy answer 503 until this is told, because the agent wants to know our port
 * first. NULL takes it away again: before the agent stops. */
void server_set_podio(struct server *server, struct podio *podio);
/* Requests that are over, by the method and the first digit of the answer. */
#define SERVER_METHODS    6 /* the last: all others */
#define SERVER_CLASSES    5 /* 1xx to 5xx */
#define SERVER_COUNTS_MAX (SERVER_METHODS * SERVER_CLASSES)
struct server_count {
    const char *method;
    unsigned code; /* 2 for 2xx */
    uint64_t count;
};
/* Those that there were any of; how many. */
size_t server_counts(const struct server *server,
                     struct server_count ret[static SERVER_COUNTS_MAX]);

/* What GET /metrics answers, for the owner and whom a role lets see that path; until then there is
 * no such path. `write` NULL takes it away again. */
void server_set_metrics(struct server *server,
                        void (*write)(void *user, struct buf *text),
                        void *user);
/* What GET /accounts answers, for the same people: what jobs spent their time on, lines of JSON; with
 * ?uid= of one job alone; and GET /history: the jobs that have ended. With ?namespace=, of its jobs alone, and
 * for whoever may list jobs there, or in all. NULL takes them away again. */
void server_set_accounts(struct server *server,
                         void (*write)(void *user, struct str uid, struct buf *out),
                         void (*history)(void *user, struct buf *out),
                         void *user);
/* What GET /readyz answers, with 503; `why` says NULL while all is well. Until told, it is ready. */
void server_set_ready(struct server *server, const char *(*why)(void *user), void *user);
/* What the page asks under "What if": a manifest, a node to empty, another quota (QUEUE=GPUS); each
 * may be empty. Strings live until `ask` returns. `done` is called once, at any time: `trouble` says
 * what is wrong, or is empty, and `json` is what would happen. */
struct server_whatif {
    struct str token; /* of the viewer: it is asked with his rights */
    struct str manifest;
    struct str drain;
    struct str quota;
    void (*done)(void *user, struct str trouble, struct str json);
    void *done_user;
};
void server_set_whatif(struct server *server,
                       void (*ask)(void *user, const struct server_whatif *question),
                       void *user);
/* The code of a link that signs the owner in at the page, once: URL/ui/enter#CODE. */
#define SERVER_LINK_BYTES 64
int server_page_link(struct server *server, char ret_code[SERVER_LINK_BYTES + 1], struct err *err);
/* Ends every connection. NULL is fine. */
void server_stop(struct server *server);
