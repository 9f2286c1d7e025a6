#pragma once

#include "api/api.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct arena;
struct kind;
struct object;
struct store;

/* harness: a store on a loop of its own, called as if it were synchronous, for tests. */
struct harness {
    uv_loop_t loop;
    struct store *store;
    struct api *api;
    int64_t now_ms; /* of harness_open_at(): its time, which the test moves */
    /* Of the last call: */
    bool answered;
    int code;
    int status; /* HTTP; 0: fine */
    char text[256];
    char reason[64];
    char causes[1024]; /* "field: message\n"... */
    char warnings[256];
    char continue_token[256];
    struct object *object; /* with a reference */
    size_t item_count;
    uint64_t revision;
    uint64_t remaining;
    bool created;
    char names[4096]; /* of a list, separated by blanks */
};

/* `path` NULL: in memory. */
void harness_open(struct harness *harness, const char *path);
/* In memory, with a time of its own. */
void harness_open_at(struct harness *harness, int64_t now_ms);
/* The same, with events that go after this time. */
void harness_open_expiring(struct harness *harness, int64_t now_ms, int64_t event_ttl_ms);
/* Whatever it lost. */
void harness_open_after_loss(struct harness *harness, const char *path);
void harness_close(struct harness *harness);
/* Runs the loop until the answer is there. Returns its code. */
int harness_call(struct harness *harness, const struct api_request *request);
int harness_create(struct harness *harness,
                   const struct kind *kind,
                   const char *ns,
                   const char *body);
int harness_patch(struct harness *harness,
                  const struct kind *kind,
                  const char *ns,
                  const char *name,
                  const char *body);
int harness_get(struct harness *harness, const struct kind *kind, const char *ns, const char *name);
int harness_delete(struct harness *harness,
                   const struct kind *kind,
                   const char *ns,
                   const char *name,
                   const char *options);
int harness_list(struct harness *harness, const struct kind *kind, const char *ns);
int harness_bind(struct harness *harness, const struct api_binding *bindings, size_t count);
/* Runs the loop until nothing is left to do at once. */
void harness_settle(struct harness *harness);
/* Runs the loop until the peer of this connection ends it, or `until` (NULL: nothing) has come from there:
 * what came, at most `bytes_max` of it. */
struct str harness_received(struct harness *harness,
                            struct arena *arena,
                            int fd,
                            const char *until,
                            size_t bytes_max);
/* The text of a member of the last object; "" when absent. Lives until the next call. */
const char *harness_text(struct harness *harness, const char *path);

/* A watch that writes what it hears: "+a ~a -a =" (= is SYNCED, ! CLOSED, . BOOKMARK). */
struct harness_watch {
    struct api_watch *watch;
    char heard[4096];
    uint64_t revision;
    int closed; /* HTTP status */
};
void harness_watch(struct harness *harness,
                   struct harness_watch *watch,
                   const struct api_watch_request *request);
