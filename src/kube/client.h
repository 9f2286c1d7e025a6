#pragma once

#include "base/err.h"
#include "base/str.h"
#include "kube/limiter.h"
#include "kube/transport.h"

#include <stdbool.h>
#include <stdint.h>

struct log;
struct uv_loop_s;

/* client: requests to one Kubernetes API server, in order of importance and with credentials.
 *
 * Adds to transport.h what every request to an API server needs: the credential of the moment (a
 * 401 is asked again once with a fresh one), the limiter, a pause when the server says 429, and a
 * monitor that probes a connection that was silent for CLIENT_SILENCE_MS. It never
 * repeats a write on its own: what a failure means is the caller's business.
 *
 * An urgent request whose time was over is followed by one on a connection of its own. When that is
 * answered, and the others have said nothing since the first was sent, they lead nowhere and are closed.
 * A server that answers late is not asked anew for what it is about to answer. */
#define CLIENT_SILENCE_MS  15000
#define CLIENT_PROBE_MS    15000 /* limit of the probe, hence silence is noticed in 30 s */
#define CLIENT_REQUEST_MS  30000 /* limit of an ordinary request */
#define CLIENT_WAITING_MAX 65536 /* requests that wait for the limiter; more fail with -EBUSY */
#define CLIENT_EVENTS_MAX  1024  /* of them events: they are the first to be dropped */

struct client;
struct client_call;
struct kube_config;

struct client_options {
    struct uv_loop_s *loop;
    const struct kube_config *config; /* copied */
    const char *user_agent;
    int64_t per_second;
    int64_t burst;
    size_t under_way_max;
    void (*back)(
        void *user); /* from the loop: the server answers after it was away; NULL: nobody asks */
    void *user;
    bool of_many; /* requests of many users: who is told to wait (429) does so alone */
    const struct log *log;
};

struct client_request {
    enum limiter_class class;
    const char *method;
    struct str path;
    const char *content_type;
    const char *accept;
    struct str body;
    struct str header; /* more, "Name: value", one a line; lives until the call has ended */
    int64_t
        timeout_ms; /* counted from the moment it is sent; 0: CLIENT_REQUEST_MS, none for streams */
    bool led;       /* client_hold() is about it */
    void (*data)(void *user,
                 struct str bytes); /* set: a stream, which holds no slot of the limiter */
    void (*done)(void *user, const struct transport_reply *reply);
    void *user;
};

/* What /metrics tells about it. */
struct client_stats {
    uint64_t requests;
    uint64_t failures;     /* no answer */
    uint64_t throttled;    /* 429 */
    uint64_t by_status[6]; /* [2]: 2xx ... */
    uint64_t resets;
    size_t waiting;
    size_t under_way;
};

int client_new(const struct client_options *options, struct client **ret, struct err *err);
/* Nothing is called any more. Run the loop once more before freeing it. */
void client_free(struct client *client);
struct client_call *client_send(struct client *client, const struct client_request *request);
/* NULL is fine. Nothing is called any more; a write may have taken effect all the same. */
void client_cancel(struct client_call *call);
/* Of a stream: transport_pause(). */
void client_pause(struct client_call *call, bool paused);
/* Held: what is `led` is not sent, and what of it was sent and has no answer ends with -ECONNRESET, told
 * from here. */
void client_hold(struct client *client, bool held);
/* Requests without an answer that are no GET, also those that wait; leases and events
 * do not count. */
size_t client_writes(const struct client *client);
void client_stats(const struct client *client, struct client_stats *ret);
/* The server is back after it was away: for a moment it refuses what it will allow. */
bool client_is_settling(const struct client *client);
