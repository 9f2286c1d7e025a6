#pragma once

#include "api/api.h"
#include "kube/kube.h"
#include "kube/refusals.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct buf;
struct client;
struct json;
struct timer;
struct transport_reply;

/* What the files of the backend share: call.c (requests), watch.c (informers), bind.c (gangs). */
struct kube {
    struct api api;
    struct uv_loop_s *loop;
    struct client *client;
    struct kinds *kinds;
    const struct log *log;
    struct kube_call *calls;      /* under way */
    struct kube_hub *hubs;        /* watches, by what they watch */
    struct kube_gang *gangs;      /* being bound */
    struct kube_lesson *lessons;  /* kinds that are asked for */
    struct kube_learned *learned; /* kinds of others that were found; as long as this lives */
    size_t learned_count;
    struct kube_stats stats;
    struct refusals refusals;
    uint64_t random;        /* of jitter */
    bool no_initial_events; /* the server refused sendInitialEvents once */
    bool settling_said;     /* what a server that has just come back refuses: said once */
    bool whole;             /* objects are told whole */
    bool closing;
    struct timer *trim; /* see kube_settles() */
    int64_t trimmed_ms;
};

/* ---- addresses ---- */
/* /apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/SUBRESOURCE]], each part escaped. */
void kube_path(struct buf *buf,
               const struct kind *kind,
               struct str ns,
               struct str name,
               struct str subresource);
/* As a part of a path or query. */
void kube_escape(struct buf *buf, struct str text);
/* "?a=b" or "&a=b"; nothing when the value is empty. *first turns false. */
void kube_query(struct buf *buf, bool *first, const char *key, struct str value);

/* ---- answers ---- */
/* Words and code for an answer that is not 2xx, or that did not come. Fills result's code, err,
 * reason and causes; what they point to is in the arena. */
void kube_failure(struct arena *arena,
                  const struct transport_reply *reply,
                  struct api_result *ret,
                  struct err *err);
/* One item of a list or watch as an object: apiVersion and kind added where they are missing (lists
 * of built-in kinds leave them out) and managedFields dropped. */
int kube_object(struct arena *arena,
                const struct kind *kind,
                struct json *item,
                struct object **ret,
                struct err *err);

/* A list was taken in, or the last of many calls has come back. The bytes and trees of such a burst
 * are several times what is kept of it, and what the heap has of them now it would have for ever: a
 * moment later, when everybody has looked, free pages go back to the system. */
void kube_settles(struct kube *kube);

/* 0.5 to 1.5 times `ms`. */
int64_t kube_jitter(struct kube *kube, int64_t ms);
/* How long to wait after an answer of this status (0: none); `backoff_ms` is what comes after it. */
int64_t kube_back_off(int64_t *backoff_ms, int status);
/* Whether a gang that is not bound has been told "not now" for too long; `not_now_ms`: since when, 0 at
 * first. What has no answer begins anew. */
bool kube_bind_is_late(int64_t *not_now_ms, bool answered, int64_t now_ms);

/* ---- the files that serve struct api: call.c, watch.c, bind.c, learn.c ---- */
void kube_call(struct api *api, const struct api_request *request, api_done_fn *done, void *user);
/* Those under way, or of them those of a leader, are told of `err`, and forgotten. */
void kube_calls_close(struct kube *kube, bool led_only, const struct err *err);
struct api_watch *kube_watch(struct api *api,
                             const struct api_watch_request *request,
                             api_watch_fn *fn,
                             void *user);
void kube_watch_stop(struct api *api, struct api_watch *watch);
void kube_watches_free(struct kube *kube);
/* The server is back: whoever waits to try again does so now. */
void kube_watches_hurry(struct kube *kube);
void kube_watches_count(const struct kube *kube, struct kube_stats *ret);
void kube_bind(struct api *api,
               const struct api_binding *bindings,
               size_t count,
               api_done_fn *done,
               void *user);
/* Told of `err`, and forgotten. */
void kube_gangs_close(struct kube *kube, const struct err *err);
void kube_learn(struct api *api,
                struct str api_version,
                struct str kind,
                api_done_fn *done,
                void *user);
/* Told of `err`, and forgotten. */
void kube_lessons_close(struct kube *kube, const struct err *err);
void kube_learned_free(struct kube *kube);
