#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct api_binding;
struct rng;

/* link: the way between a client and the store in the simulator, as slow and broken as the seed
 * wants it. It is a struct api on top of another one.
 *
 * Nothing passes on its own: requests, answers and the events of watches lie on the link until
 * link_step() carries one of them, chosen by the random numbers. Events of one watch keep their
 * order, as do requests where `ordered` says so; everything else overtakes. On the way a request
 * may be refused, an answer may be lost (the client hears that nobody answered, the write has
 * happened), and a watch may break: it then heals itself from the state, as every informer does.
 *
 * Every request that changes something is a "write" and has a number, counted from 1; a crash can
 * be asked for at one of them, before or after it takes effect. */
struct link;

struct link_faults { /* of 1000 */
    uint32_t refuse;
    uint32_t lose_answer;
    uint32_t break_watch;
    uint32_t slow; /* requests that take up to slow_ms to arrive */
};

enum link_fault {
    LINK_REFUSE,
    LINK_LOSE,
    LINK_BREAK,
};

enum link_crash {
    LINK_CRASH_NEVER,
    LINK_CRASH_BEFORE, /* the write does not happen */
    LINK_CRASH_AFTER,  /* it has happened, nobody was told */
};

/* What passes: all; only requests that are on their way, since the client stands still; nothing. */
enum link_way {
    LINK_OPEN,
    LINK_ASLEEP,
    LINK_CLOSED,
};

struct link_options {
    struct api *below;
    struct rng *rng;  /* chooses what moves next */
    uint64_t seed;    /* of what goes wrong */
    const char *name; /* of its client, as sentences begin: "The control plane" */
    bool ordered;
    bool older;      /* its client does not know what came later: version.h */
    int64_t slow_ms; /* the longest that a request is on its way, where some are slow */
    /* A gang's binds are one transaction. Otherwise they go one by one, each of them a write, and
     * are undone when one of them cannot be, as on a cluster. */
    bool whole_gangs;
    /* Everything that happens, in words; and what of it is told to people, or NULL. */
    void (*trace)(void *user, const char *text);
    void (*tell)(void *user, const char *sentence);
    /* Something is to go wrong: false if it is left out this time. */
    bool (*happens)(void *user, enum link_fault fault);
    /* The write that was asked for has come: the client is to be stopped and link_cut() called. */
    void (*crash)(void *user);
    /* A pod is about to be bound; may be NULL. */
    void (*binding)(void *user, const struct api_binding *binding);
    /* A pod was evicted; may be NULL. */
    void (*evicted)(void *user, struct str ns, struct str name);
    /* Let the store finish what it was given. */
    void (*settle)(void *user);
    int64_t (*now)(void *user);
    void *user;
};

struct link *link_new(const struct link_options *options);
/* Answers what is still out, as link_cut() does. NULL is fine. */
void link_free(struct link *link);
struct api *link_api(struct link *link);

void link_set_faults(struct link *link, const struct link_faults *faults);
/* The store's disk is full, or is no more: what does not make room is refused, as the store does. */
void link_set_full(struct link *link, bool full);
void link_crash_at(struct link *link, uint64_t write, enum link_crash when);
uint64_t link_writes(const struct link *link);

void link_set_way(struct link *link, enum link_way way);
/* Held: the client is in doubt whether it leads, as kube_hold() has it: writes of a leader wait, and it
 * hears of those that were sent that nobody answered; some of them arrive all the same. */
void link_hold(struct link *link, bool held);
/* A write of the client, leases aside, has no answer yet. */
bool link_is_writing(const struct link *link);
/* When the next slow request may arrive; INT64_MAX: none is on the way. */
int64_t link_due(const struct link *link);

/* Carry one thing. False: nothing is on the way that may move now. */
bool link_step(struct link *link);
/* As link_cut(), but some of the writes that the client has sent arrive all the same, within
 * slow_ms of when they were sent. Nobody hears their answers. */
void link_abandon(struct link *link);
/* The client is dead (its watches have been stopped): requests on the way are dropped, and every
 * call is answered once more, with a failure, so that what belongs to it can be freed. */
void link_cut(struct link *link);
