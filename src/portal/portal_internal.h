#pragma once

#include "base/str.h"
#include "page/proxied.h"
#include "page/session.h"
#include "page/turns.h"
#include "server/fair.h"
#include "server/page_lines.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>

struct api;
struct client;
struct client_call;
struct http_server;
struct log;
struct server_whatif;
struct transport_reply;
struct uv_loop_s;

/* What the files of the portal share. */
#define PORTAL_SIGN_INS_MAX 16  /* at once: each is a question to the API server by nobody yet */
#define PORTAL_FORWARDS_MAX 256 /* requests of viewers under way */
#define PORTAL_STREAMS_MAX  512 /* open tabs */
/* Of these one viewer has an eighth and a sixteenth: a browser has six requests under way at a
 * time, and whoever has more tabs does not look at them. */
#define PORTAL_VIEWER_REQUESTS_MAX 32
#define PORTAL_VIEWER_STREAMS_MAX  32

struct portal {
    struct uv_loop_s *loop;
    struct api *api;
    const struct log *log;
    struct http_server *http;
    struct client *viewers; /* carries no credential of ours: each request brings its viewer's */
    struct client *own;     /* ours, for impersonations; NULL: no proxy was configured */
    struct sessions sessions;
    struct turns turns;
    struct fair fair; /* what each viewer has under way */
    unsigned refs;    /* its own, and one a visit that counts there */
    struct page_lines lines;
    const char *const *names;
    size_t name_count;
    struct proxied_rules proxy;
    void (*whatif)(void *user, const struct server_whatif *question); /* NULL: not here */
    void *whatif_user;
    size_t sign_ins;
    size_t forwards;
    size_t streams;
    bool secure; /* browsers come by HTTPS */
    char cookie[24];
};

/* Who asks: by a token, or by what a proxy said. */
struct viewer {
    struct str token; /* empty: by `proxied` */
    struct str who;   /* whose share of the page is used: base/account.h */
    struct proxied_user proxied;
};

/* One request to the portal; lives in the exchange's arena. */
struct visit {
    struct request request; /* for what src/server answers with; its server is NULL */
    struct portal *portal;
    struct viewer viewer;
    struct str name_headers; /* upstream.c */
    struct fair_load load;   /* what it counts as */
    bool api;                /* behind /ui: a path of the API */
};

/* upstream.c: a request to the API server in the viewer's name. Words of the head must live until
 * `done`; path and body are copied. */
struct upstream_request {
    const char *method;
    struct str path;
    const char *content_type; /* NULL: no body */
    const char *accept;       /* NULL: JSON */
    struct str body;
    void (*data)(void *user, struct str bytes); /* set: the answer in pieces */
    void (*done)(void *user, const struct transport_reply *reply);
    void *user;
};
struct client_call *upstream_send(struct visit *visit, const struct upstream_request *request);

/* forward.c: a path of the API. */
void forward_begin(struct visit *visit);
/* stream.c: the change stream. */
void stream_begin(struct visit *visit);
/* Whether the session of a request goes on, as far as is known here. */
bool visit_holds(struct visit *visit);
/* The session that a request shows is over: its token is not good any more. */
void visit_sign_out(struct visit *visit);
