#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kind;
struct object;

/* feed: the bytes of lists and watches as objects.
 *
 * What kept.h keeps is asked for as protobuf (FEED_ACCEPT) and everything else as JSON; a server
 * may answer either way, and an answer says itself which it is: an envelope or a frame never begins
 * with what JSON begins with. Objects are trimmed to what is kept, so they are the same from both;
 * `whole` leaves them as they are, and asks for JSON. */
#define FEED_PROTOBUF_ACCEPT    "application/vnd.kubernetes.protobuf,application/json"
#define FEED_EVENT_BYTES_MAX    ((size_t)8 << 20) /* one event; etcd's objects end at 1.5 MB */
#define FEED_INITIAL_ANNOTATION "k8s.io/initial-events-end"

/* NULL: JSON, as for any other request. */
const char *feed_accept(const struct kind *kind, bool whole);

/* ---- a page of a list ---- */
struct feed_page {
    uint64_t revision;
    struct buf continue_token; /* the caller's */
    bool whole;                /* set by the caller: objects are not trimmed */
};
/* Gives each object in turn, borrowed; stops early when `give` says false. Objects before a broken
 * one were given. */
int feed_page_read(const struct kind *kind,
                   struct str body,
                   struct feed_page *ret,
                   bool (*give)(void *user, const struct object *object),
                   void *user,
                   struct err *err);

/* ---- the events of a watch ---- */
enum feed_type {
    FEED_ADDED,
    FEED_MODIFIED,
    FEED_DELETED,
    FEED_BOOKMARK,
    FEED_ERROR,
};

struct feed_event {
    enum feed_type type;
    struct object *object; /* of the first three; the caller's to drop */
    uint64_t revision;     /* of a bookmark */
    bool initial_end;      /* a bookmark: everything that existed was told */
    int status;            /* of an error: Kubernetes' code, words in err */
};

/* Cuts a stream into events. Zeroed is ready; feed_stream_done() frees. */
struct feed_stream {
    struct buf part; /* of an event that has not arrived whole */
    bool given;      /* the part was handed out whole */
    bool begun;
    bool framed;
};

/* The next event's bytes, valid until the next call: 1; 0: `bytes` are used up, more must come;
 * -EMSGSIZE: longer than FEED_EVENT_BYTES_MAX. */
int feed_stream_next(struct feed_stream *stream,
                     struct str *bytes,
                     struct str *ret_message,
                     struct err *err);
void feed_stream_reset(struct feed_stream *stream);
void feed_stream_done(struct feed_stream *stream);

int feed_event_read(const struct kind *kind,
                    bool whole,
                    struct str message,
                    struct feed_event *ret,
                    struct err *err);
