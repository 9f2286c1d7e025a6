#pragma once

#include <stdbool.h>
#include <stdint.h>

struct api;
struct err;
struct log;
struct uv_loop_s;

/* lease: at most one of several replicas leads, by a coordination.k8s.io Lease.
 *
 * The holder renews every LEASE_RETRY_MS and starts nothing any more when it could not for
 * LEASE_RENEW_MS (`doubt`); the others take over when they saw no renewal for LEASE_DURATION_MS.
 * Renewals are judged by when they were seen, on this process's own clock, so clocks of machines need
 * not agree; the gap between RENEW and DURATION is what a slow holder has to stop. Every write carries
 * the resourceVersion, so two that try at once cannot both win.
 *
 * A holder in doubt goes on asking. Is the lease still its own, nobody else has led meanwhile, since
 * only a holder writes its own name: it leads on with what it knows. Else it has lost, and competes as
 * all others do. Time in which the API server told nothing says nothing about the holder, so nobody
 * else counts it: after an outage the lease stays where it was.
 *
 * A holder that stops in order hands the lease back once its last requests are answered, and is
 * followed at once: one that arrived later would meet what its follower has done. */
#define LEASE_DURATION_MS 8000
#define LEASE_RENEW_MS    5000
#define LEASE_RETRY_MS    1000
/* Of a lease that was handed back: nobody needs to wait for it. */
#define LEASE_RELEASED_S 1
/* At least so much of the gap is for requests that were sent before the doubt. */
#define LEASE_GAP_MS 1000

struct lease;

struct lease_times {
    int64_t duration_ms;
    int64_t renew_ms;
    int64_t retry_ms;
};

struct lease_options {
    struct uv_loop_s *loop; /* NULL: no timer; the caller turns it by hand (the simulator does) */
    struct api *api;
    const char *ns;
    const char *name;
    const char *identity; /* of this replica; unique */
    /* From the loop: it leads; after doubt: it has led all the time. */
    void (*won)(void *user);
    /* From the loop, after won: another may lead from now on. Nothing may be started until won or
     * lost; what is under way cannot be taken back. */
    void (*doubt)(void *user);
    /* From the loop, after won or doubt: another leads, or has led. It competes again. */
    void (*lost)(void *user);
    struct lease_times times; /* zeros: those above */
    /* Whether requests of this replica, other than those of the lease, have no answer yet; NULL: none
     * ever does. */
    bool (*busy)(void *user);
    int64_t (*now)(void *user); /* NULL: the clocks of this machine */
    void *user;
    const struct log *log;
};

/* Strings must outlive it. */
struct lease *lease_start(const struct lease_options *options);
/* One turn, without a loop. Returns when the next is due. */
int64_t lease_turn(struct lease *lease);
/* Hand it back if it is held; `done` comes from the loop, also when that did not work in time, or
 * requests had no answer by then: others wait for it as for one that was killed. Only `done` is called after this. */
void lease_release(struct lease *lease, void (*done)(void *user), void *user);
void lease_free(struct lease *lease);
/* Whether two replicas with these times never lead at once, if what was sent arrives in time. */
int lease_check(const struct lease_times *times, struct err *err);
