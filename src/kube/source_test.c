#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http/server.h"
#include "kube/kube.h"
#include "kube/kube_internal.h"
#include "kube/kubeconfig.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

/* A watch at a server of the test's own, over real connections. The server plays a script: one line
 * a request, in order. What arrives is what a line begins with, what is answered stands behind the
 * arrow:
 *
 *     initial > 400              a watch that wants to begin with everything
 *     list > a@5 b@6 !7          a page: objects with their revisions, and that of the list
 *     list > a@5 !7 +next        a page that is not the last one; the next asks for "next"
 *     list next > b@6 !7
 *     follow 7 > c@8 -a@9 =12    a watch from 7: changed, deleted, a bookmark; then it ends
 *     follow 12 > c@13 cut       ... the connection breaks
 *     follow 13 > 410            ... the server says in the stream that 13 is too old
 *     follow 13 > hold           ... nothing more happens
 *
 * "a.2" is the object a with another uid; "==12" a bookmark that ends what there was. */
#define LIMIT_MS 30000

struct bench {
    uv_loop_t loop;
    uv_timer_t limit;
    struct http_server *server;
    struct kube *kube;
    struct api_watch *watch;
    const char *script; /* what is left of it */
    struct buf told;
    struct buf wrong; /* requests that the script had not foreseen */
    struct http_exchange *held;
    bool stop_at_first;
    bool informer;
    bool over;
    bool late;
    bool hurried; /* while it asks, it is told that the server is back */
};

/* ---- the server ---- */

static struct str next_word(struct str *line)
{
    struct str word = STR_NONE;

    *line = str_trim(*line);
    (void)str_cut(line, ' ', &word);
    return word;
}

/* "a.2@5" as an object. */
static void add_object(struct buf *to, struct str word)
{
    struct str revision = word;
    struct str name = STR_NONE;
    struct str uid = STR_NONE;

    (void)str_cut(&revision, '@', &uid);
    struct str rest = uid;
    (void)str_cut(&rest, '.', &name);
    buf_addf(to,
             "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" STR_FMT
             "\",\"namespace\":\"n\",\"uid\":\"" STR_FMT "\",\"resourceVersion\":\"" STR_FMT "\"}}",
             STR_ARG(name), STR_ARG(uid), STR_ARG(revision));
}

static void answer_list(struct http_exchange *x, struct str line)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf meta = {0};
    const char *between = "";

    buf_add(&text, STR("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMapList\",\"items\":["));
    for (struct str word; (word = next_word(&line)).len;) {
        if (word.p[0] == '!' || word.p[0] == '+') {
            buf_addf(&meta, "%s\"%s\":\"" STR_FMT "\"", meta.len ? "," : "",
                     word.p[0] == '!' ? "resourceVersion" : "continue",
                     STR_ARG(str_sub(word, 1, word.len)));
            continue;
        }
        buf_addf(&text, "%s", between);
        add_object(&text, word);
        between = ",";
    }
    buf_addf(&text, "],\"metadata\":{" STR_FMT "}}", STR_ARG(buf_str(&meta)));
    http_reply(x, 200, "application/json", buf_str(&text));
}

static void write_event(struct http_exchange *x, struct str word)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (str_is(word, "410")) {
        buf_add(&text, STR("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
                           "\"reason\":\"Expired\",\"message\":\"too old\"}}\n"));
    } else if (word.p[0] == '=') {
        bool last = word.p[1] == '=';

        buf_addf(&text,
                 "{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
                 "\"metadata\":{\"resourceVersion\":\"" STR_FMT "\"%s}}}\n",
                 STR_ARG(str_sub(word, last ? 2 : 1, word.len)),
                 last ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
    } else {
        bool gone = word.p[0] == '-';

        buf_addf(&text, "{\"type\":\"%s\",\"object\":", gone ? "DELETED" : "MODIFIED");
        add_object(&text, gone ? str_sub(word, 1, word.len) : word);
        buf_add(&text, STR("}\n"));
    }
    http_write(x, buf_str(&text));
}

static void on_held_closed(struct http_exchange *x)
{
    struct bench *bench = x->user;

    if (bench->held == x)
        bench->held = NULL;
}

static void answer_watch(struct bench *bench, struct http_exchange *x, struct str line)
{
    http_begin(x, 200, "application/json");
    for (struct str word; (word = next_word(&line)).len;) {
        if (str_is(word, "cut")) {
            x->on_drain = http_abort; /* once what stands before it has left */
            return;
        }
        if (str_is(word, "hold")) {
            x->user = bench;
            x->on_close = on_held_closed;
            bench->held = x;
            return;
        }
        write_event(x, word);
    }
    http_end(x);
}

/* What the request is, in the words of the script. */
static struct str request_words(struct http_exchange *x)
{
    struct str query = x->head.query;
    struct str from = http_query(&x->arena, query, "resourceVersion");
    struct str token = http_query(&x->arena, query, "continue");

    if (!http_query_bool(query, "watch"))
        return str_printf(&x->arena, "list%s" STR_FMT, token.len ? " " : "", STR_ARG(token));
    if (http_query_bool(query, "sendInitialEvents"))
        return STR("initial");
    return str_printf(&x->arena, "follow " STR_FMT, STR_ARG(from));
}

static void on_request(void *user, struct http_exchange *x)
{
    struct bench *bench = user;
    struct str rest = str_from(bench->script);
    struct str line = STR_NONE;
    struct str words = request_words(x);
    int64_t status = 0;

    if (bench->hurried)
        kube_watches_hurry(bench->kube);
    (void)str_cut(&rest, '\n', &line);
    size_t arrow = str_find(line, '>');
    if (!line.len || !str_eq(str_trim(str_sub(line, 0, arrow)), words)) {
        buf_addf(&bench->wrong, "asked " STR_FMT ", expected " STR_FMT "; ", STR_ARG(words),
                 STR_ARG(line));
        http_reply(x, 503, "text/plain", STR("not in the script\n"));
        return;
    }
    bench->script = rest.p ? rest.p : "";
    line = str_trim(str_sub(line, arrow + 1, line.len));
    bench->over = !*bench->script;
    if (str_to_i64(line, &status) && !str_starts(words, STR("follow")))
        http_reply(x, (int)status, "application/json", STR("{\"kind\":\"Status\"}"));
    else if (str_starts(words, STR("list")))
        answer_list(x, line);
    else
        answer_watch(bench, x, line);
}

/* ---- the watch ---- */

static void on_change(void *user, const struct api_change *change)
{
    static const char marks[] = {[API_ADDED] = '+', [API_MODIFIED] = '~', [API_DELETED] = '-'};
    struct bench *bench = user;

    if (change->object)
        buf_addf(&bench->told, "%c" STR_FMT "@%llu ", marks[change->event],
                 STR_ARG(change->object->uid), (unsigned long long)change->object->revision);
    else if (change->event == API_SYNCED)
        buf_addf(&bench->told, "synced@%llu ", (unsigned long long)change->revision);
    else if (change->event == API_CLOSED)
        buf_addf(&bench->told, "closed ");
    if (bench->stop_at_first && bench->watch) {
        api_watch_stop(kube_api(bench->kube), bench->watch);
        bench->watch = NULL;
        bench->over = true;
    }
}

static void on_late(uv_timer_t *timer)
{
    struct bench *bench = timer->data;

    bench->late = true;
}

static void bench_open(struct bench *bench, const char *script, uint64_t from_revision)
{
    struct err err = {0};
    char server[64];

    bench->script = script;
    bench->informer = from_revision == 0;
    EXPECT(uv_loop_init(&bench->loop) == 0);
    uv_timer_init(&bench->loop, &bench->limit);
    bench->limit.data = bench;
    EXPECT(http_server_start(&(struct http_server_options){.loop = &bench->loop,
                                                           .address = "127.0.0.1",
                                                           .handle = on_request,
                                                           .user = bench},
                             &bench->server, &err) == 0);
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%u",
                   (unsigned)http_server_port(bench->server));
    const struct kube_config config = {.source = "test", .server = server};
    EXPECT(kube_open(&bench->loop, &(struct kube_options){.config = &config}, &bench->kube, &err) ==
           0);
    bench->watch = api_watch(
        kube_api(bench->kube),
        &(struct api_watch_request){.kind = &kind_configmap, .from_revision = from_revision},
        on_change, bench);
}

static bool is_current(const struct bench *bench)
{
    struct kube_stats stats = {0};

    kube_stats(bench->kube, &stats);
    return !bench->informer || bench->stop_at_first || stats.watches_synced == 1;
}

/* Until the script is over, `told` has been told and the watch has what the server has. */
static void bench_run(struct bench *bench, const char *told)
{
    uv_timer_start(&bench->limit, on_late, LIMIT_MS, 0);
    while (!bench->late && !bench->wrong.len &&
           !(bench->over && str_is(buf_str(&bench->told), told) && is_current(bench)))
        uv_run(&bench->loop, UV_RUN_ONCE);
    uv_timer_stop(&bench->limit);
    EXPECT(!bench->late);
    if (bench->late || bench->wrong.len)
        test_fail(__FILE__, __LINE__,
                  bench->wrong.len ? bench->wrong.p : (bench->told.p ? bench->told.p : "silence"));
}

static void bench_close(struct bench *bench)
{
    api_watch_stop(kube_api(bench->kube), bench->watch);
    kube_close(bench->kube);
    http_server_stop(bench->server);
    uv_close((uv_handle_t *)&bench->limit, NULL);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&bench->loop) == 0);
    buf_done(&bench->told);
    buf_done(&bench->wrong);
}

/* ---- the rules ---- */

TEST(a_watch_tells_what_there_is_once_and_then_what_happens)
{
    static const struct {
        const char *why;
        const char *script;
        const char *told;
        uint64_t relists;
    } rows[] = {
        {"page after page where the server lists",
         "initial > 400\nlist > a@5 !9 +next\nlist next > b@6 !9\nfollow 9 > c@10 -a@11 hold",
         "+a@5 +b@6 synced@9 +c@10 -a@11 ", 0},
        {"as the first events of the watch where the server does that",
         "initial > b@6 a@5 ==9 c@10 hold", "+b@6 +a@5 synced@9 +c@10 ", 0},
        {"a stream that breaks goes on from the last event",
         "initial > a@5 ==9 a@12 cut\nfollow 12 > b@13 hold", "+a@5 synced@9 ~a@12 +b@13 ", 0},
        {"and from the last bookmark", "initial > ==9 a@12 =40 cut\nfollow 40 > b@41 hold",
         "synced@9 +a@12 +b@41 ", 0},
        {"a time-out of the server too", "initial > ==9 =20\nfollow 20 > a@21 hold",
         "synced@9 +a@21 ", 0},
        {"what there is, cut short, is no deletion of the rest",
         "initial > a@5 b@6 ==9 410\ninitial > a@5 cut\ninitial > a@5 b@6 ==12 hold",
         "+a@5 +b@6 synced@9 ", 2},
        {"a revision that is too old: only the difference is told",
         "initial > a@5 b@6 c@7 ==9 410\ninitial > a@5 c@15 d@16 ==20 hold",
         "+a@5 +b@6 +c@7 synced@9 ~c@15 +d@16 -b@6 ", 1},
        {"the same by lists",
         "initial > 400\nlist > a@5 b@6 !9\nfollow 9 > 410\nlist > b@6 c@12 !15\nfollow 15 > hold",
         "+a@5 +b@6 synced@9 +c@12 -a@5 ", 1},
        {"another object of the same name is not a change",
         "initial > a.1@5 ==9 410\ninitial > a.2@15 ==20 hold", "+a.1@5 synced@9 -a.1@5 +a.2@15 ",
         1},
        {"a page token that is too old: from the first page, and nothing twice",
         "initial > 400\nlist > a@5 !9 +old\nlist old > 410\nlist > a@5 !12 +new\n"
         "list new > b@6 !12\nfollow 12 > hold",
         "+a@5 +b@6 synced@12 ", 0},
        {"a server that fails twice is asked a third time",
         "initial > 400\nlist > 500\nlist > 429\nlist > a@5 !9\nfollow 9 > hold", "+a@5 synced@9 ",
         0},
        {"a kind that is not there is as good as empty", "initial > 404", "synced@0 ", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bench bench = {0};
        struct kube_stats stats = {0};

        test_case(rows[i].why);
        bench_open(&bench, rows[i].script, 0);
        bench_run(&bench, rows[i].told);
        kube_stats(bench.kube, &stats);
        EXPECT(stats.relists == rows[i].relists);
        bench_close(&bench);
    }
}

TEST(a_watch_from_a_revision_ends_when_that_is_too_old)
{
    struct bench bench = {0};

    bench_open(&bench, "follow 7 > a@8 cut\nfollow 8 > 410", 7);
    bench_run(&bench, "~a@8 closed ");
    bench_close(&bench);
}

TEST(a_watch_may_be_stopped_from_what_it_tells)
{
    static const char *const scripts[] = {"initial > a@5 b@6 ==9 hold",
                                          "initial > 400\nlist > a@5 b@6 !9"};

    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        struct bench bench = {.stop_at_first = true};

        test_case(scripts[i]);
        bench_open(&bench, scripts[i], 0);
        bench_run(&bench, "+a@5 ");
        bench_close(&bench);
    }
}

/* Nine refusals in a row are worth 51 s of waiting to who takes them for one outage. */
TEST(what_fails_when_the_server_is_back_is_no_part_of_what_failed_before)
{
    struct bench bench = {.hurried = true};

    bench_open(&bench,
               "initial > 500\ninitial > 500\ninitial > 500\ninitial > 500\ninitial > 500\n"
               "initial > 500\ninitial > 500\ninitial > 500\ninitial > 500\ninitial > ==9 hold",
               0);
    bench_run(&bench, "synced@9 ");
    bench_close(&bench);
}

TEST(waits_are_spread_so_that_replicas_do_not_come_together)
{
    struct kube one = {.random = 1};
    struct kube other = {.random = 2};
    int alike = 0;

    for (int i = 0; i < 100; i++) {
        int64_t a = kube_jitter(&one, 1000);
        int64_t b = kube_jitter(&other, 1000);

        EXPECT(a >= 500 && a <= 1500);
        alike += a == b;
    }
    EXPECT(alike < 10);
}

/* It is well again when it no longer says so, and nobody tells of that. */
TEST(who_is_told_that_the_server_is_busy_asks_again_within_two_seconds)
{
    static const struct {
        const char *why;
        int statuses[10];
        int64_t last_ms;
    } rows[] = {
        {"busy for long", {429, 429, 429, 429, 429, 429, 429, 429, 429, 429}, 2000},
        {"away for long", {0, 0, 0, 0, 503, 503, 503, 503, 503, 503}, KUBE_BACKOFF_MAX_MS},
        {"away, then busy", {0, 0, 0, 0, 0, 0, 0, 0, 0, 429}, 2000},
        {"away for long, and then what we know is too old for it",
         {0, 0, 0, 0, 0, 0, 0, 0, 0, 410},
         2000},
        {"busy, then away", {429, 429, 429, 429, 429, 429, 429, 429, 0, 0}, 4000},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t backoff_ms = KUBE_BACKOFF_MIN_MS;
        int64_t wait_ms = 0;

        test_case(rows[i].why);
        for (size_t n = 0; n < COUNT_OF(rows[i].statuses); n++)
            wait_ms = kube_back_off(&backoff_ms, rows[i].statuses[n]);
        EXPECT(wait_ms == rows[i].last_ms);
    }
}

TEST(a_gang_is_undone_for_what_the_server_says_and_not_for_the_time_it_was_away)
{
    static const struct {
        const char *why;
        const char *answers; /* one a second: n "not now", . none */
        size_t late;         /* so many of them came too late */
    } rows[] = {
        {"away for long, and then starting", "...................n", 0},
        {"a busy server gets ten seconds", "nnnnnnnnnn", 0},
        {"and no more", "nnnnnnnnnnnn", 2},
        {"away between", "nnnnnnnn...nnnnnnnn", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t not_now_ms = 0;
        size_t late = 0;

        test_case(rows[i].why);
        for (size_t n = 0; rows[i].answers[n]; n++)
            late += kube_bind_is_late(&not_now_ms, rows[i].answers[n] == 'n',
                                      1000000 + (int64_t)n * 1000);
        EXPECT(late == rows[i].late);
    }
}
