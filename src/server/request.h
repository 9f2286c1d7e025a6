#pragma once

#include "api/api.h"
#include "base/buf.h"
#include "base/str.h"
#include "http/server.h"
#include "server/accept.h"
#include "server/fair.h"
#include "server/route.h"
#include "server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct aggregate;
struct arena;
struct audit;
struct authz;
struct http_exchange;
struct kind;
struct log;
struct object;
struct page;
struct page_lines;
struct podio;
struct server_options;
struct timer;

/* request: one API request inside src/server, from its head to its answer. Lives in the exchange's
 * arena and as long as that. */
#define SERVER_GROUPS_MAX 32
#define SERVER_EXTRAS_MAX 16

struct server {
    struct http_server *http;
    uv_loop_t *loop;
    struct api *api;
    struct podio *podio;
    void (*metrics)(void *user, struct buf *text); /* NULL: none */
    void *metrics_user;
    void (*accounts)(void *user, struct str uid, struct buf *out); /* NULL: none */
    void (*history)(void *user, struct buf *out);                  /* NULL: none */
    void *accounts_user;                                           /* of both */
    const char *(*not_ready)(void *user);                          /* NULL: always ready */
    void *not_ready_user;
    struct authz *authz;
    const struct log *log;
    bool kubelet;
    struct buf token;
    struct buf token_key;
    struct fair fair;
    struct page *page;           /* page.c; NULL: none is served */
    struct aggregate *aggregate; /* NULL: nothing is handed on to other API servers */
    struct audit *audit;         /* NULL: nothing is written down */
    uint64_t audited;
    uint64_t answered[SERVER_METHODS][SERVER_CLASSES]; /* requests; server_counts() */
    struct request *bearers; /* requests that came with a token of an account, while they last */
    struct oidc *oidc;       /* NULL: none */
    struct timer *expiry;    /* until the first of their tokens is over; NULL: none was any */
    unsigned refs;           /* requests may outlive the listener by some turns */
};

struct user {
    struct str name;
    struct str uid;     /* of an account its own */
    struct str pod_uid; /* of the pod that its token is for; empty: it is for none */
    int64_t expires_ms; /* of its token; 0: never */
    struct str groups[SERVER_GROUPS_MAX];
    size_t group_count;
    struct user_extra {
        struct str key;
        struct str value;
    } extras[SERVER_EXTRAS_MAX]; /* of a token or an impersonation; rules do not look at them */
    size_t extra_count;
    bool owner; /* may do everything */
};

/* How a request came. */
enum page_way {
    PAGE_NOT, /* not through the page */
    PAGE_OWN, /* for the page itself: a file, a session, its change stream */
    PAGE_API, /* from the page to the API: /ui/api/..., as whom the session says */
};

enum include {
    INCLUDE_METADATA, /* the table's rows carry metadata */
    INCLUDE_OBJECT,
    INCLUDE_NONE,
};

struct request {
    struct server *server;
    struct http_exchange *x;
    struct route route;
    const struct kind *kind;
    bool handed_on; /* another API server answers (server/aggregate.h) */
    enum page_way page;
    struct user user;         /* without a name: not asked yet, or a file of the page */
    struct user impersonator; /* who asks in the name of `user`; without a name: nobody */
    struct accept accept;     /* view_accept() */
    int64_t received_ms;
    uint64_t number;       /* of the audited ones */
    struct str from;       /* of those, the address of who asked */
    bool audited;          /* it has a line in the audit log */
    struct fair_load load; /* what it counts with; of load_user, empty: nobody's */
    struct str load_user;
    size_t pending;    /* of all below and its answer, as counted for load_user */
    size_t held;       /* bytes that came and wait for a pod to take them */
    size_t unfinished; /* bytes of a message that is not complete yet */
    enum include include;
    struct api_request call;
    struct api_guard guard; /* guard.c */
    struct api_user writer; /* the user, as the API below knows him */
    bool no_warnings;       /* fieldValidation=Ignore */
    void *stream;           /* of the file that answers in pieces */
    struct request *next;   /* of server->bearers */
    struct request **at;    /* what points to it there; NULL: it is none of them */
};

static inline struct arena *request_arena(const struct request *request)
{
    return &request->x->arena;
}

/* ---- answer.c: an object in the form that was asked for ---- */
/* "299 - ..." in the header Warning of the answer, one a line of `lines`. */
void request_warn(struct request *request, struct str lines);
/* An object, from its JSON, in the form of request->accept; in JSON where it has no such form. */
void answer_send(struct request *request, int code, struct str text);
/* The same of one that is not stored, such as a Status, whatever request->accept says: in the form
 * that the client asks for if it has that one. */
void answer_reply(struct request *request, int code, struct str text);

/* ---- status.c: answers that are not objects ---- */
struct status {
    int code;
    const char *reason;
    struct str message;
    const struct kind *kind; /* details; may be NULL */
    struct str name;
    struct str uid;
    const struct api_cause *causes;
    size_t cause_count;
    int64_t retry_after_s; /* 0: not said */
};

/* {"kind":"Status",...} */
void status_write(struct buf *buf, const struct status *status);
void status_reply(struct request *request, const struct status *status);
/* The common failures in one line. */
void request_fail(struct request *request, int code, const char *reason, const char *fmt, ...)
    _printf_(4, 5);
/* A number of the address; false: it is none, which is answered. `ret` stays where nothing is said. */
bool request_number(struct request *request, const char *name, int64_t *ret);
/* 422: what is wrong with a field or option. (Old kubectls show causes only, so there is one.) */
void request_invalid(struct request *request, const char *field, const char *fmt, ...)
    _printf_(3, 4);
void request_not_found(struct request *request);
/* The failure of a struct api call. */
void request_fail_result(struct request *request, const struct api_result *result);
/* Kubernetes' reason for an HTTP status. */
const char *status_reason(int code);

/* ---- the parts, one file each; every one of them answers the request ---- */
void discovery_api(struct request *request);
void discovery_apis(struct request *request);
void discovery_group(struct request *request);
void discovery_group_version(struct request *request);
void version_get(struct request *request);
void openapi_v2(struct request *request);
void openapi_v3(struct request *request);
void openapi_document(struct request *request);
void resource_handle(struct request *request);
/* The body as JSON in request->call.body, whatever it came as. False when answered. */
bool request_take_body(struct request *request);
/* False when the request is no review. */
bool review_handle(struct request *request);
/* False when it is not about metrics.k8s.io. */
bool usage_handle(struct request *request);
void watch_begin(struct request *request);
void pod_log(struct request *request);
void pod_results(struct request *request);
void pod_stack_traces(struct request *request);
void exec_handle(struct request *request); /* and attach */
void forward_handle(struct request *request);

/* Streams its body, so it is called when the head is there. */
void proxy_begin(struct request *request);
/* peer.c: why polling a connection to a pod failed. libuv says EBADF of every error; the socket knows
 * more, once. */
const char *pod_socket_trouble(int fd, int status);

/* view.c: the answer for an object or list in the form the client asked for. view_accept() says
 * which that is, and false when it is none that is there and 406 was the answer. */
bool view_accept(struct request *request);
void view_object(struct request *request, int code, const struct object *object);
void view_list(struct request *request, const struct api_result *result);
/* One object as the view shows it, for watches. `first` tells a table to name its columns. */
void view_write(struct request *request, struct buf *buf, const struct object *object, bool first);

/* guard.c: rights that only the written object shows. Before a write of somebody who is not the
 * owner. */
void guard_set(struct request *request);

/* room.c: whether the user's streams may have more text waiting; what waits in this one is counted.
 * The owner's may. */
bool request_has_room(struct request *request);
/* The same with so many bytes of a message whose rest has not come; false: cut it off. */
bool request_may_keep(struct request *request, size_t bytes);

/* identify.c: who is asking. False when nobody known; then 401 is the answer. */
bool identify(struct request *request);
/* The Impersonate-* headers: `user` becomes whom they name, if he may. False when answered. */
bool identify_as(struct request *request);
/* The token of an Authorization header; empty: it has none. */
struct str identify_bearer(const struct request *request);
/* A token that is good for `audience`; empty: for the API. */
bool identify_token(struct server *server,
                    struct arena *arena,
                    struct str token,
                    struct str audience,
                    struct user *ret);

/* progress.c: what a training tells of itself. A body is at most PROGRESS_BYTES_MAX (body_max). */
bool progress_is(const struct request *request);
/* A token of the TrainJob's namespace brought it; a certificate says nothing about a TrainJob. */
bool progress_is_from(const struct request *request);
struct str progress_audience(const struct request *request);
/* Its token is known to be good. Uses nothing of request->server. */
void progress_handle(struct request *request, struct api *api);

/* page.c: what is under /ui. True: answered. */
bool page_begin(struct request *request);
/* The whole request is there. */
void page_handle(struct request *request);
/* Whom the session of a request names now; false: nobody, any more. */
bool page_viewer(struct request *request, struct arena *arena, struct user *ret);
/* How many watches a change stream of the page asks for; 0: it is none. */
size_t page_stream_watches(const struct request *request);
struct page_lines *page_lines(struct page *page);
struct page *page_new(struct server *server, const struct server_options *options);
void page_free(struct page *page);
/* page_stream.c */
void page_stream_begin(struct request *request);
