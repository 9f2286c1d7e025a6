#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/shadow.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TEST(two_sides_of_a_gang_are_compared)
{
    static struct shadow_place on_a[] = {{{"a", 1}, 2}};
    static struct shadow_place on_ab[] = {{{"a", 1}, 1}, {{"b", 1}, 1}};
    const struct shadow_places a = {on_a, 1, 1};
    const struct shadow_places ab = {on_ab, 2, 2};
    const struct {
        struct shadow_side ours;
        struct shadow_side theirs;
        enum shadow_verdict verdict;
        const char *why;
    } rows[] = {
        {{.asked = true}, {0}, SHADOW_BOTH_WAIT, "neither placed it"},
        {{0}, {0}, SHADOW_BOTH_WAIT, "and nobody was asked"},
        {{.asked = true, .placed_ms = 1, .places = a}, {0}, SHADOW_ONLY_OURS, "they wait"},
        {{.asked = true}, {.placed_ms = 1, .places = a}, SHADOW_ONLY_THEIRS, "we would wait"},
        {{0}, {.placed_ms = 1, .places = a}, SHADOW_UNASKED, "they were faster than our question"},
        {{.asked = true, .placed_ms = 5, .places = a},
         {.placed_ms = 1, .places = a},
         SHADOW_SAME,
         "the moment does not matter"},
        {{.asked = true, .placed_ms = 1, .places = a},
         {.placed_ms = 1, .places = ab},
         SHADOW_ELSEWHERE,
         "as many pods on other nodes"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (shadow_compare(&rows[i].ours, &rows[i].theirs) != rows[i].verdict)
            test_fail(__FILE__, __LINE__, rows[i].why);
}

static bool sees(struct shadow *shadow,
                 const char *name,
                 const char *node,
                 int64_t now_ms,
                 struct shadow_gang *ret)
{
    const struct shadow_pod pod = {
        .ns = STR("ns"), .group = STR("g"), .name = str_from(name), .node = str_from(node)};

    return shadow_pod(shadow, &pod, now_ms, ret);
}

static struct sched_bind bind_of(const char *pod, const char *node)
{
    return (struct sched_bind){
        .pod = {.ns = STR("ns"), .name = str_from(pod)}, .group = STR("g"), .node = str_from(node)};
}

TEST(a_gang_is_compared_once_when_the_others_have_bound_what_it_needs)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_bind binds[] = {bind_of("p0", "b"), bind_of("p1", "a")};
    struct shadow_gang gang;

    shadow_need(shadow, STR("ns"), STR("g"), 2);
    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    EXPECT(!sees(shadow, "p1", "", 10, &gang));
    shadow_plan(shadow, &(struct sched_plan){.binds = binds, .bind_count = 2}, 20);
    EXPECT(!sees(shadow, "p0", "a", 30, &gang));
    EXPECT(sees(shadow, "p1", "b", 40, &gang));
    EXPECT(gang.verdict == SHADOW_SAME); /* pods of a gang are alike */
    EXPECT(gang.ours.placed_ms == 20 && gang.theirs.placed_ms == 40);
    EXPECT(!sees(shadow, "p1", "b", 50, &gang));
    EXPECT(shadow_compared(shadow, SHADOW_SAME) == 1);
    shadow_free(shadow);
}

TEST(a_gang_that_we_would_let_wait_says_why)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_waiting waiting = {.ns = STR("ns"),
                                          .group = STR("g"),
                                          .queue = STR("q"),
                                          .reason = SCHED_REASON_OVER_LIMIT,
                                          .message = STR("its queue is at its limit")};
    struct arena arena = {0};
    struct shadow_gang gang;
    struct buf text = {0};

    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    shadow_plan(shadow, &(struct sched_plan){.waiting = &waiting, .waiting_count = 1}, 20);
    EXPECT(sees(shadow, "p0", "a", 30, &gang));
    EXPECT(gang.verdict == SHADOW_ONLY_THEIRS);
    EXPECT(str_is(gang.ours.reason, "OverLimit"));
    shadow_write(shadow, &arena, &text);
    EXPECT(
        str_contains(buf_str(&text), STR("ns/g: onlyTheirs\n  ours:   its queue is at its limit")));
    struct json *json = shadow_json(shadow, &arena);
    EXPECT(str_is(json_str_at(json, "gangs.0.ours.reason"), "OverLimit"));
    EXPECT(json_i64_or(json_at(json, "compared.onlyTheirs"), 0) == 1);
    buf_done(&text);
    arena_done(&arena);
    shadow_free(shadow);
}

TEST(a_bind_that_comes_before_any_decision_of_ours_is_early)
{
    struct shadow *shadow = shadow_new(1);
    const struct shadow_pod bound = {
        .ns = STR("ns"), .group = STR("g"), .name = STR("p0"), .node = STR("a")};
    const struct sched_bind bind = bind_of("p0", "b");
    struct shadow_gang gang;

    EXPECT(!shadow_is_early(shadow, &bound)); /* bound when it was first seen: nobody was asked */
    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    EXPECT(shadow_is_early(shadow, &bound));
    shadow_plan(shadow, &(struct sched_plan){.binds = &bind, .bind_count = 1}, 20);
    EXPECT(!shadow_is_early(shadow, &bound));
    EXPECT(shadow_pod(shadow, &bound, 30, &gang) && gang.verdict == SHADOW_ELSEWHERE);
    shadow_free(shadow);
}

TEST(what_others_would_lose_for_a_gang_is_counted_once)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_evict evicts[] = {{.for_ns = STR("ns"), .for_group = STR("g")},
                                         {.for_ns = STR("ns"), .for_group = STR("g")}};
    const struct sched_plan plan = {.evicts = evicts, .evict_count = COUNT_OF(evicts)};
    struct shadow_gang gang;

    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    shadow_plan(shadow, &plan, 20);
    shadow_plan(shadow, &plan, 30);
    EXPECT(shadow_evictions(shadow) == 1);
    EXPECT(sees(shadow, "p0", "a", 40, &gang) && gang.ours.evicts == 2);
    shadow_free(shadow);
}

TEST(of_a_group_whose_pods_have_ever_new_names_not_all_are_kept)
{
    struct arena arena = {0};
    struct buf out = {0};
    struct shadow *shadow = shadow_new(1);
    struct shadow_gang gang;

    for (int i = 0; i < 3000; i++)
        (void)sees(shadow, str_c(&arena, str_printf(&arena, "p%d", i)), "a", 10, &gang);
    shadow_write(shadow, &arena, &out);
    EXPECT(str_contains(buf_str(&out), STR("1000")) && !str_contains(buf_str(&out), STR("3000")));
    buf_done(&out);
    shadow_free(shadow);
    arena_done(&arena);
}

TEST(verdicts_differ_where_one_side_placed_a_gang_and_the_other_did_not_or_elsewhere)
{
    static const bool differs[SHADOW_VERDICT_COUNT] = {
        [SHADOW_ELSEWHERE] = true, [SHADOW_ONLY_OURS] = true, [SHADOW_ONLY_THEIRS] = true};

    for (int v = 0; v < SHADOW_VERDICT_COUNT; v++)
        EXPECT(shadow_verdict_differs((enum shadow_verdict)v) == differs[v]);
}

/* Pods that others bound already are there for both; the rest of the gang is ours to place. */
TEST(a_gang_that_is_half_bound_is_placed_around_what_is_there)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_bind bind = bind_of("p1", "b");
    struct shadow_gang gang;

    shadow_need(shadow, STR("ns"), STR("g"), 2);
    EXPECT(!sees(shadow, "p1", "", 10, &gang));
    EXPECT(!sees(shadow, "p0", "a", 10, &gang));
    shadow_plan(shadow, &(struct sched_plan){.binds = &bind, .bind_count = 1}, 20);
    EXPECT(sees(shadow, "p1", "c", 30, &gang) && gang.verdict == SHADOW_ELSEWHERE);
    struct arena arena = {0};
    EXPECT(str_is(shadow_places_text(&arena, &gang.ours.places), "a, b"));
    EXPECT(str_is(shadow_places_text(&arena, &gang.theirs.places), "a, c"));
    EXPECT(str_is(shadow_places_text(&arena, &(struct shadow_places){0}), "-"));
    arena_done(&arena);
    shadow_free(shadow);
}

/* Decisions about gangs that nobody has seen, or that were compared before, count no more. */
TEST(a_plan_says_nothing_new_of_a_gang_that_was_compared)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_bind binds[] = {
        bind_of("p0", "a"),
        {.pod = {.ns = STR("ns"), .name = STR("x")}, .group = STR("unseen"), .node = STR("a")}};
    const struct sched_evict evicts[] = {{.for_ns = STR("ns"), .for_group = STR("g")},
                                         {.for_ns = STR("ns"), .for_group = STR("unseen")}};
    const struct sched_waiting waits[] = {{.ns = STR("ns"),
                                           .group = STR("g"),
                                           .queue = STR("q"),
                                           .reason = SCHED_REASON_NO_ROOM,
                                           .message = STR("no room")},
                                          {.ns = STR("ns"), .group = STR("unseen")}};
    const struct sched_plan plan = {.binds = binds,
                                    .bind_count = COUNT_OF(binds),
                                    .evicts = evicts,
                                    .evict_count = COUNT_OF(evicts),
                                    .waiting = waits,
                                    .waiting_count = COUNT_OF(waits)};
    struct arena arena = {0};
    struct shadow_gang gang;

    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    shadow_plan(shadow, &(struct sched_plan){.binds = binds, .bind_count = 1}, 20);
    EXPECT(sees(shadow, "p0", "b", 30, &gang) && gang.verdict == SHADOW_ELSEWHERE);
    shadow_plan(shadow, &plan, 40);
    EXPECT(shadow_evictions(shadow) == 0);
    struct json *json = shadow_json(shadow, &arena);
    EXPECT(json_count(json_at(json, "gangs")) == 1);
    EXPECT(str_is(json_str_at(json, "gangs.0.verdict"), "elsewhere"));
    EXPECT(!json_at(json, "gangs.0.ours.reason"));
    arena_done(&arena);
    shadow_free(shadow);
}

/* Fewer pods than it needs are no decision of ours; a place that we had found stays said. */
TEST(a_gang_that_waits_for_its_pods_has_not_been_decided_on)
{
    struct shadow *shadow = shadow_new(1);
    struct sched_waiting waits = {
        .ns = STR("ns"), .group = STR("g"), .queue = STR("q"), .reason = SCHED_REASON_NOT_READY};
    const struct sched_plan plan = {.waiting = &waits, .waiting_count = 1};
    const struct shadow_pod bound = {
        .ns = STR("ns"), .group = STR("g"), .name = STR("p0"), .node = STR("a")};
    const struct sched_bind bind = bind_of("p0", "a");
    struct shadow_gang gang;

    EXPECT(!sees(shadow, "p0", "", 10, &gang));
    shadow_plan(shadow, &plan, 20);
    EXPECT(shadow_is_early(shadow, &bound));
    shadow_plan(shadow, &(struct sched_plan){.binds = &bind, .bind_count = 1}, 30);
    waits.reason = SCHED_REASON_NO_ROOM;
    shadow_plan(shadow, &plan, 40);
    EXPECT(shadow_pod(shadow, &bound, 50, &gang) && gang.verdict == SHADOW_SAME);
    EXPECT(!shadow_is_early(shadow, &bound));
    shadow_free(shadow);
}

/* Gangs of which a pod lives are kept; of the others the oldest goes for one that is new. */
TEST(a_report_is_bounded_and_keeps_what_lives)
{
    struct arena arena = {0};
    struct shadow *shadow = shadow_new(1);
    struct shadow_gang gang;

    for (int i = 0; i < SHADOW_GANGS_MAX; i++) {
        struct shadow_pod pod = {.ns = STR("ns"),
                                 .group = str_printf(&arena, "g%d", i),
                                 .name = STR("p"),
                                 .gone = i == 7};
        (void)shadow_pod(shadow, &pod, 10, &gang);
    }
    struct shadow_pod next = {.ns = STR("ns"), .group = STR("new"), .name = STR("p")};
    EXPECT(!shadow_pod(shadow, &next, 20, &gang)); /* g7 makes room */
    next.node = STR("a");
    EXPECT(shadow_pod(shadow, &next, 30, &gang) && gang.verdict == SHADOW_UNASKED);
    next.group = STR("newer"); /* all of them live: nothing is kept of it */
    EXPECT(!shadow_pod(shadow, &next, 40, &gang));
    shadow_need(shadow, STR("ns"), STR("newer"), 3);
    EXPECT(json_count(json_at(shadow_json(shadow, &arena), "gangs")) == SHADOW_GANGS_MAX);
    /* One that comes back lives again, and one that is forgotten leaves its place. */
    next = (struct shadow_pod){.ns = STR("ns"), .group = STR("g3"), .name = STR("p"), .gone = true};
    (void)shadow_pod(shadow, &next, 50, &gang);
    (void)shadow_pod(shadow, &next, 50, &gang);
    next.gone = false;
    (void)shadow_pod(shadow, &next, 60, &gang);
    next.group = STR("newer");
    next.node = STR("a");
    EXPECT(!shadow_pod(shadow, &next, 70, &gang));
    shadow_forget(shadow, STR("ns"), STR("g3"));
    shadow_forget(shadow, STR("ns"), STR("g3"));
    EXPECT(shadow_pod(shadow, &next, 80, &gang));
    shadow_free(shadow);
    shadow_free(NULL);
    arena_done(&arena);
}

TEST(a_gang_for_which_others_would_go_says_so_for_people_and_programs)
{
    struct shadow *shadow = shadow_new(1);
    const struct sched_evict evict = {.for_ns = STR("ns"), .for_group = STR("g")};
    const struct sched_bind bind = bind_of("p0", "a");
    struct arena arena = {0};
    struct buf text = {0};
    struct shadow_gang gang;

    EXPECT(!sees(shadow, "p0", "", 1000, &gang));
    shadow_plan(
        shadow,
        &(struct sched_plan){.binds = &bind, .bind_count = 1, .evicts = &evict, .evict_count = 1},
        2000);
    shadow_write(shadow, &arena, &text);
    EXPECT(
        str_contains(buf_str(&text),
                     STR("ns/g: onlyOurs\n  ours:   a, at 1970-01-01T00:00:02Z, for which 1 pods "
                         "of others would go\n  theirs: -\n")));
    EXPECT(json_i64_or(json_at(shadow_json(shadow, &arena), "gangs.0.ours.evicts"), 0) == 1);
    buf_done(&text);
    arena_done(&arena);
    shadow_free(shadow);
}
