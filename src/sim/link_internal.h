#pragma once

#include "api/api.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/vec.h"
#include "sim/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;
struct parcel;

/* What the files of the link share: link.c (calls, and what moves next), link_watch.c. */

struct told {
    enum api_event event;
    const struct object *object;
    const struct object *previous;
    uint64_t revision;
    bool unordered;
};

/* What a watch has told its client of one object. */
struct seen {
    const struct object *object;
    bool listed; /* while healing: still there */
    size_t len;
    char text[];
};

struct api_watch {
    struct link *link;
    struct api_watch *below;
    struct api_watch_request request;
    struct arena arena;
    api_watch_fn *fn;
    void *user;
    VEC(struct told) queue;
    size_t head;
    struct map seen; /* "ns/name" -> struct seen: as queued, not as told */
    bool broken;     /* nothing arrives until it heals */
    bool healing;
    bool synced; /* has queued SYNCED once */
    bool stopped;
};

struct link {
    struct api api;
    struct link_options options;
    struct link_faults faults;
    struct rng luck;
    VEC(struct parcel *) parcels;
    VEC(struct api_watch *) watches;
    uint64_t writes;
    uint64_t crash_at;
    enum link_crash crash_when;
    enum link_way way;
    bool full;
    bool holding;
};

__attribute__((format(printf, 2, 3))) void link_trace(const struct link *link,
                                                      const char *fmt,
                                                      ...);
/* To people. */
__attribute__((format(printf, 2, 3))) void link_tell(const struct link *link, const char *fmt, ...);

struct api_watch *link_watch_start(struct api *api,
                                   const struct api_watch_request *request,
                                   api_watch_fn *fn,
                                   void *user);
void link_watch_stop(struct api *api, struct api_watch *watch);
/* The next event of its queue. */
void link_watch_tell(struct api_watch *watch);
void link_watch_break(struct api_watch *watch);
void link_watch_heal(struct api_watch *watch);
/* Those that were stopped are freed. */
void link_watches_sweep(struct link *link);
