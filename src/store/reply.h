#pragma once

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>

struct admit;
struct kind;
struct object;
struct shelf;
struct store;

/* reply: an answer on its way, and the memory of its request. */
struct reply {
    struct reply *next;
    struct arena arena;
    struct err err;
    struct api_result result;
    const struct object *kept; /* the result's, or NULL */
    bool staged;               /* it is to be called when its batch is committed */
    api_done_fn *done;         /* NULL: nobody wants to know */
    void *user;
};

struct replies {
    struct reply *first;
    struct reply *last;
};

struct reply *reply_new(struct store *store, api_done_fn *done, void *user);
/* Will be called, with what its result says, at the next turn. */
void reply_queue(struct store *store, struct reply *reply);
/* Will be called when the open batch is committed, or at once when nothing was staged for it. */
void reply_settle(struct store *store, struct reply *reply);
/* The reply keeps `object` alive and gives it out. */
void reply_object(struct reply *reply, const struct object *object);
/* The same in another version of its kind, see convert_object(). */
void reply_object_as(struct reply *reply,
                     const struct shelf *shelf,
                     const struct object *object,
                     const struct kind *kind);
/* The failure in Kubernetes' words. Returns the result's code, negative. */
int reply_fail(struct reply *reply, int http_status, const char *reason, const char *fmt, ...)
    _printf_(4, 5);
/* The same of words that may be long: those of err are cut. They live as long as the reply. */
int reply_fail_whole(struct reply *reply, int http_status, const char *reason, struct str message);
/* The first cause: an object that cannot be read as one of its kind. */
int reply_misfit(struct reply *reply,
                 const struct kind *kind,
                 const char *prefix,
                 const struct admit *admit);
/* All causes, as Kubernetes writes it: Pod "p" is invalid: [a: ..., b: ...]; of one, without []. */
int reply_invalid(struct reply *reply,
                  const struct kind *kind,
                  struct str name,
                  const struct admit *admit);
/* A parameter of the request that must be said. */
int reply_missing(struct reply *reply, const char *field, const char *why);
/* A field of the request that cannot be so. */
int reply_wrong(struct reply *reply, const char *field, const char *why);
/* What failed as a bad request was made by a patch: that is what is wrong. kubectl shows causes only. */
int reply_patch(struct reply *reply);
void reply_free(struct reply *reply);
int reply_not_found(struct reply *reply, const struct kind *kind, struct str name);
/* "pods", or "queues.scheduling.run.ai". */
struct str kind_resource(struct arena *arena, const struct kind *kind);
