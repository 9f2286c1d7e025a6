#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct auth;
struct err;
struct kube_config;
struct uv_loop_s;

/* wire: one connection to a Kubernetes API server, upgraded to a WebSocket: for commands in
 * containers (kube/inside.h) and for ports of pods (kube/forward.h). The caller polls. */
enum {
    WIRE_BINARY = 2,
    WIRE_CLOSE = 8,
    WIRE_PING = 9,
    WIRE_PONG = 10
};

/* The credentials, for any number of connections one after the other. */
struct wire_door {
    struct uv_loop_s *loop;
    struct auth *auth;
    bool changed;
};
int wire_door_open(struct wire_door *door,
                   struct uv_loop_s *loop,
                   const struct kube_config *config,
                   struct err *err);
void wire_door_close(struct wire_door *door);

struct wire_request {
    struct str path;                   /* with the query, behind the server's own path */
    const char *protocols;             /* that we speak, the best one first */
    bool patient;                      /* what is sent may be taken an hour later */
    const volatile sig_atomic_t *stop; /* set by a signal: -EINTR; or NULL */
};

struct wire {
    struct arena arena;
    const volatile sig_atomic_t *stop;
    void *easy; /* curl's */
    int socket;
    struct buf in;
    struct buf out;
    struct buf going; /* of `out`: what curl could not take yet must be offered again unchanged */
    int64_t pinged_ms;
    bool five;   /* version 5 of the channels: the end of one can be told */
    bool closed; /* by the server */
};

/* Connects, and waits until the server has agreed. To be closed whatever it returns. -EACCES: the
 * server refuses it, in words. */
int wire_open(struct wire *wire,
              struct wire_door *door,
              const struct wire_request *request,
              struct err *err);
void wire_close(struct wire *wire);
void wire_send_channel(struct wire *wire, unsigned channel, struct str data);
/* Proxies on the way close what is silent for long, and a dead peer is noticed by what is sent. */
void wire_ping(struct wire *wire);
/* What can go out now. Who waits here for the rest would not read, and the server might wait for
 * just that. */
int wire_push(struct wire *wire, struct err *err);
/* What has come, into `in`; 0: nothing more for now. */
int wire_receive(struct wire *wire);
/* What of it is whole: `message` gets what the server says, a channel's number in front. */
int wire_take(struct wire *wire,
              void (*message)(void *user, struct str data),
              void *user,
              struct err *err);
/* To wait for: what comes, and room where something is to go out. */
short wire_events(const struct wire *wire);

/* ---- for tests: the client's side of RFC 6455 ---- */

struct wire_frame {
    unsigned opcode;
    struct str data; /* of the buffer */
    size_t bytes;    /* of the whole frame: consume them afterwards */
};
#define WIRE_FRAME_MAX ((uint64_t)4 << 20)
/* 1: there is one at the start of the bytes; 0: not yet; -EPROTO: this is none, or too large. */
int wire_frame_next(struct str bytes, struct wire_frame *ret);
/* A masked frame, as clients must send them. */
void wire_frame_add(struct buf *out, unsigned opcode, const unsigned char mask[4], struct str data);
