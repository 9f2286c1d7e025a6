#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "exec/lease.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Replicas that compete for a lease in a store, on a clock that the test moves. */
struct bench {
    struct harness h;
    int64_t now_ms;
};

struct replica {
    struct bench *bench;
    struct lease *lease;
    bool leads;
    unsigned won;
    bool doubts;
    bool lost;
    bool released;
    bool busy;
};

static int64_t now(void *user)
{
    return ((struct replica *)user)->bench->now_ms;
}

static void on_won(void *user)
{
    struct replica *replica = user;

    replica->leads = true;
    replica->doubts = false;
    replica->won++;
}

static void on_doubt(void *user)
{
    ((struct replica *)user)->leads = false;
    ((struct replica *)user)->doubts = true;
}

static void on_lost(void *user)
{
    struct replica *replica = user;

    replica->leads = replica->doubts = false;
    replica->lost = true;
}

static void on_released(void *user)
{
    ((struct replica *)user)->released = true;
}

static bool is_busy(void *user)
{
    return ((struct replica *)user)->busy;
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
}

static void start(struct bench *bench, struct replica *replica, const char *identity)
{
    *replica = (struct replica){.bench = bench};
    replica->lease = lease_start(&(struct lease_options){.api = bench->h.api,
                                                         .ns = "default",
                                                         .name = "l",
                                                         .identity = identity,
                                                         .won = on_won,
                                                         .doubt = on_doubt,
                                                         .lost = on_lost,
                                                         .busy = is_busy,
                                                         .now = now,
                                                         .user = replica});
}

/* `ms` pass; `b` may be NULL, as one that stands still. */
static void pass(struct bench *bench, int64_t ms, struct replica *a, struct replica *b)
{
    for (int64_t end_ms = bench->now_ms + ms; bench->now_ms < end_ms; bench->now_ms += 20) {
        (void)lease_turn(a->lease);
        harness_settle(&bench->h);
        if (b)
            (void)lease_turn(b->lease);
        harness_settle(&bench->h);
    }
}

static void close_bench(struct bench *bench, struct replica *a, struct replica *b)
{
    lease_free(a->lease);
    lease_free(b->lease);
    harness_settle(&bench->h);
    harness_close(&bench->h);
}

/* Both are there, and a leads. */
static void open_led(struct bench *bench, struct replica *a, struct replica *b)
{
    open_bench(bench);
    start(bench, a, "a");
    pass(bench, 500, a, NULL);
    start(bench, b, "b");
    pass(bench, 500, a, b);
}

TEST(lease_one_of_two_leads_and_the_other_follows_when_it_is_gone)
{
    struct bench bench;
    struct replica a, b;

    open_bench(&bench);
    start(&bench, &a, "a");
    pass(&bench, 500, &a, NULL);
    start(&bench, &b, "b");
    pass(&bench, 20000, &a, &b);
    EXPECT(a.leads && !b.leads);
    pass(&bench, LEASE_DURATION_MS - LEASE_RETRY_MS - 100, &b, NULL); /* nothing is heard of a */
    EXPECT(!b.leads);
    pass(&bench, 2 * LEASE_RETRY_MS + 200, &b, NULL);
    EXPECT(b.leads);
    (void)lease_turn(a.lease); /* its timer is overdue: before anything else it knows */
    EXPECT(a.doubts && !a.lost);
    pass(&bench, 2 * LEASE_RETRY_MS, &a, &b);
    EXPECT(a.lost && b.leads);
    close_bench(&bench, &a, &b);
}

struct waiting {
    api_done_fn *done;
    void *user;
};

/* An API server that takes its time for a write, and what was last written. */
struct slow {
    struct api api;
    struct api *below;
    struct bench *bench;
    int64_t ms;
    bool away; /* nobody answers */
    struct waiting waiting[2];
    size_t waiting_count;
    struct arena arena;
    struct str body;
};

static void slow_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    struct slow *slow = (struct slow *)api;

    if (slow->away) {
        EXPECT(slow->waiting_count < 2);
        slow->waiting[slow->waiting_count++] = (struct waiting){done, user};
        return;
    }
    if (request->verb != API_GET) {
        slow->bench->now_ms += slow->ms;
        slow->body = str_dup(&slow->arena, request->body);
    }
    api_call(slow->below, request, done, user);
}

static void slow_time_out(struct slow *slow)
{
    struct err err = {0};

    (void)err_set(&err, -ETIMEDOUT, "nobody answered");
    while (slow->waiting_count) {
        struct waiting *waiting = &slow->waiting[--slow->waiting_count];

        waiting->done(waiting->user, &(struct api_result){.code = -ETIMEDOUT, .err = &err});
    }
}

static void pass_away(struct slow *slow, int64_t ms, struct replica *a, struct replica *b)
{
    slow->away = true;
    for (; ms > 0; ms -= 200) {
        pass(slow->bench, 20, a, b);
        slow_time_out(slow);
        slow->bench->now_ms += 180;
    }
    slow->away = false;
}

static void slow_open(struct slow *slow, struct bench *bench, int64_t ms)
{
    static const struct api_ops ops = {.call = slow_call};

    *slow = (struct slow){.api = {.ops = &ops, .kinds = bench->h.api->kinds},
                          .below = bench->h.api,
                          .bench = bench,
                          .ms = ms};
}

TEST(lease_that_is_answered_too_late_is_not_won_by_that)
{
    struct bench bench;
    struct replica a, b;
    struct slow slow;

    open_bench(&bench);
    slow_open(&slow, &bench, LEASE_RENEW_MS);
    bench.h.api = &slow.api;
    start(&bench, &a, "a");
    bench.h.api = slow.below;
    start(&bench, &b, "b");
    (void)lease_turn(a.lease);
    harness_settle(&bench.h);
    EXPECT(!a.leads && !a.lost);
    slow.ms = LEASE_RENEW_MS - 1000;
    pass(&bench, 2 * LEASE_RETRY_MS, &a, NULL);
    EXPECT(a.leads);
    close_bench(&bench, &a, &b);
    arena_done(&slow.arena);
}

TEST(lease_stays_where_it_was_when_the_server_was_away)
{
    struct bench bench;
    struct replica a, b;
    struct slow slow;

    open_bench(&bench);
    slow_open(&slow, &bench, 0);
    bench.h.api = &slow.api;
    start(&bench, &a, "a");
    pass(&bench, 100, &a, NULL);
    start(&bench, &b, "b");
    pass(&bench, 1200, &a, &b);
    bench.h.api = slow.below;
    pass_away(&slow, LEASE_RENEW_MS - LEASE_RETRY_MS, &a, &b);
    EXPECT(a.leads && !b.leads);
    pass_away(&slow, 2 * LEASE_RETRY_MS, &a, &b);
    EXPECT(a.doubts && !a.leads && !a.lost);
    pass_away(&slow, 120000, &a, &b);
    EXPECT(!a.leads && !b.leads && !a.lost);
    pass(&bench, LEASE_RETRY_MS, &b, NULL); /* it is the first to hear that the server is back */
    pass(&bench, 2 * LEASE_RETRY_MS, &a, &b);
    EXPECT(a.leads && a.won == 2 && !a.lost && !b.leads);
    close_bench(&bench, &a, &b);
    arena_done(&slow.arena);
}

TEST(lease_that_another_took_meanwhile_is_lost_and_competed_for)
{
    struct bench bench;
    struct replica a, b;

    open_led(&bench, &a, &b);
    pass(&bench, LEASE_DURATION_MS + LEASE_RETRY_MS, &b, NULL); /* a stands still */
    EXPECT(b.leads && a.leads);
    pass(&bench, 20, &a, &b); /* it goes on, and before anything else it knows */
    EXPECT(!a.leads);
    pass(&bench, 2 * LEASE_RETRY_MS, &a, &b);
    EXPECT(a.lost && !a.leads && b.leads);
    lease_release(b.lease, on_released, &b);
    pass(&bench, 2 * LEASE_RETRY_MS, &a, &b);
    EXPECT(a.leads && a.won == 2);
    close_bench(&bench, &a, &b);
}

TEST(lease_times_that_could_let_two_lead_are_refused)
{
    struct err err = {0};

    EXPECT(lease_check(&(struct lease_times){8000, 5000, 1000}, &err) == 0);
    EXPECT(lease_check(&(struct lease_times){15000, 10000, 2000}, &err) == 0);
    EXPECT(lease_check(&(struct lease_times){8500, 5000, 1000}, &err) < 0);
    EXPECT(lease_check(&(struct lease_times){6000, 5000, 1000}, &err) < 0);
    EXPECT(lease_check(&(struct lease_times){60000, 5000, 3000}, &err) < 0);
}

/* Of what was last written: who leads, since when, how often that changed, and for how long. */
static void expect_written(struct slow *slow,
                           const char *holder,
                           const char *since,
                           int64_t changes,
                           int64_t seconds)
{
    struct json *root = NULL;

    EXPECT(json_parse(&slow->arena, slow->body, &root, NULL) == 0);
    EXPECT(str_is(json_str_at(root, "apiVersion"), "coordination.k8s.io/v1"));
    EXPECT(str_is(json_str_at(root, "kind"), "Lease"));
    EXPECT(str_is(json_str_at(root, "metadata.name"), "l"));
    EXPECT(str_is(json_str_at(root, "metadata.namespace"), "default"));
    EXPECT(str_is(json_str_at(root, "spec.holderIdentity"), holder));
    EXPECT(str_is(json_str_at(root, "spec.acquireTime"), since));
    EXPECT(json_i64_or(json_at(root, "spec.leaseTransitions"), -1) == changes);
    EXPECT(json_i64_or(json_at(root, "spec.leaseDurationSeconds"), -1) == seconds);
}

TEST(lease_says_who_leads_since_when_and_how_often_that_changed)
{
    struct bench bench;
    struct replica a, b;
    struct slow slow;

    open_bench(&bench);
    slow_open(&slow, &bench, 0);
    bench.h.api = &slow.api;
    start(&bench, &a, "a");
    start(&bench, &b, "b");
    bench.h.api = slow.below;
    pass(&bench, 100, &a, NULL);
    expect_written(&slow, "a", "1970-01-01T00:16:40.000000Z", 0, LEASE_DURATION_MS / 1000);
    struct str first = slow.body;
    pass(&bench, 2 * LEASE_RETRY_MS, &a, NULL);
    EXPECT(!str_eq(slow.body, first)); /* it was renewed */
    expect_written(&slow, "a", "1970-01-01T00:16:40.000000Z", 0, LEASE_DURATION_MS / 1000);
    lease_release(a.lease, on_released, &a);
    pass(&bench, 100, &a, NULL);
    expect_written(&slow, "", "1970-01-01T00:16:40.000000Z", 0, LEASE_RELEASED_S);
    bench.now_ms = 3600000;
    pass(&bench, 100, &b, NULL);
    expect_written(&slow, "b", "1970-01-01T01:00:00.000000Z", 1, LEASE_DURATION_MS / 1000);
    close_bench(&bench, &a, &b);
    arena_done(&slow.arena);
}

TEST(lease_is_handed_back_and_followed_at_once)
{
    struct bench bench;
    struct replica a, b;

    open_led(&bench, &a, &b);
    lease_release(a.lease, on_released, &a);
    pass(&bench, LEASE_RETRY_MS + 100, &a, &b);
    EXPECT(a.released && b.leads);
    close_bench(&bench, &a, &b);
}

TEST(lease_is_not_handed_back_while_requests_have_no_answer)
{
    struct bench bench;
    struct replica a, b;

    open_led(&bench, &a, &b);
    a.busy = true;
    lease_release(a.lease, on_released, &a);
    pass(&bench, 1200, &a, &b);
    EXPECT(!a.released && !b.leads);
    a.busy = false; /* the last answer has come */
    pass(&bench, 100, &a, &b);
    EXPECT(a.released && !b.leads);
    pass(&bench, LEASE_RETRY_MS, &a, &b);
    EXPECT(b.leads);
    close_bench(&bench, &a, &b);
}

/* What was sent may still arrive: who follows waits as for one that was killed. */
TEST(lease_with_requests_that_are_never_answered_is_left_to_end)
{
    struct bench bench;
    struct replica a, b;

    open_led(&bench, &a, &b);
    a.busy = true;
    lease_release(a.lease, on_released, &a);
    pass(&bench, 2000, &a, &b);
    EXPECT(a.released && !b.leads);
    pass(&bench, LEASE_DURATION_MS - 2000 - 2 * LEASE_RETRY_MS, &b, NULL);
    EXPECT(!b.leads);
    pass(&bench, 3 * LEASE_RETRY_MS, &b, NULL);
    EXPECT(b.leads);
    close_bench(&bench, &a, &b);
}
