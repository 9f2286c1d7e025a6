#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* CronJobs: moments, places, and what is kept of the past. */

#define CRON(schedule, extra)                                                                 \
    "{'metadata':{'name':'s','creationTimestamp':'2026-11-16T10:00:30Z'},'spec':{'schedule':" \
    "'" schedule "'," extra "'jobTemplate':{'spec':{'template':{}}}}}"
#define TEN_OCLOCK INT64_C(1794823200000) /* 2026-11-16T10:00:00Z */
#define SCHEDULED  "batch.kubernetes.io/cronjob-scheduled-timestamp"

static void at_second(struct scene *scene, int64_t second)
{
    scene->now_ms = TEN_OCLOCK + second * 1000;
    scene_run(scene, &cronjob_controller, "s");
}

TEST(a_cronjob_that_runs_every_so_often_counts_from_its_last_run)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON("@every 90s", ""));
    at_second(&scene, 119);
    EXPECT(cache_count(scene.whole, &kind_job) == 0);
    at_second(&scene, 120);
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-1794823320"));
    at_second(&scene, 150);
    EXPECT(cache_count(scene.whole, &kind_job) == 1);
    /* 03:30, 05:00, 06:30, 08:00 and 09:30 were missed: the last one is made up for. */
    at_second(&scene, 600);
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-1794823320 s-1794823770"));
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_cronjob, "s"), "status.lastScheduleTime"),
                  "2026-11-16T10:09:30Z"));
}

TEST(a_cronjob_whose_moment_does_not_come_makes_nothing)
{
    static const struct {
        const char *why;
        const char *text;
        const char *event;
    } rows[] = {
        {"February 30", CRON("0 0 30 2 *", ""), "InvalidSchedule"},
        {"no schedule", CRON("whenever", ""), ""},
        {"a place that nobody knows", CRON("* * * * *", "'timeZone':'Mars/Olympus',"),
         "UnknownTimeZone"},
        {"it goes",
         "{'metadata':{'name':'s','creationTimestamp':'2026-11-16T10:00:30Z','deletionTimestamp':"
         "'2026-11-16T10:00:40Z'},'spec':{'schedule':'* * * * *'}}",
         ""},
        {"it is gone", "{'metadata':{'name':'other'},'spec':{'schedule':'* * * * *'}}", ""},
        {"made in the future",
         "{'metadata':{'name':'s','creationTimestamp':'2027-11-16T10:00:30Z'},'spec':{'schedule':"
         "'* * * * *'}}",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct str events = STR("");

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_cronjob, rows[i].text);
        scene.now_ms = TEN_OCLOCK + 600000;
        (void)scene_turn(&scene, &cronjob_controller, "s");
        for (size_t j = 0; j < scene.actions.list.count; j++)
            if (scene.actions.list.items[j].type == ACTION_EVENT)
                events = scene.actions.list.items[j].reason;
        EXPECT(str_is(events, rows[i].event));
        EXPECT(cache_count(scene.whole, &kind_job) == 0);
    }
}

/* ---- places ---- */

/* A file of a zone with nothing but the rule. */
static struct str file_of(struct arena *arena, const char *rule)
{
    static const char head[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                               "\0\0\0\0\0\0\0\1\0\0\0\4\0\0\0\0\0\0LMT";
    char text[256];

    memcpy(text, head, sizeof(head));
    memcpy(text + sizeof(head), head, sizeof(head));
    int len = snprintf(text + 2 * sizeof(head), 64, "\n%s\n", rule);
    return str_dup(arena, (struct str){text, 2 * sizeof(head) + (size_t)len});
}

static bool zone(struct arena *arena, struct str name, struct str *ret_bytes)
{
    if (str_is(name, "Europe/Berlin"))
        *ret_bytes = file_of(arena, "CET-1CEST,M3.5.0,M10.5.0/3");
    else if (str_is(name, "America/St_Johns"))
        *ret_bytes = file_of(arena, "NST3:30NDT,M3.2.0,M11.1.0");
    else if (str_is(name, "Broken/File"))
        *ret_bytes = STR("TZif");
    else
        return false;
    return true;
}

TEST(a_cronjob_follows_the_clocks_of_its_place)
{
    static const struct {
        const char *zone;
        const char *schedule;
        const char *scheduled; /* what its Job says; "": none is made by 10:05 UTC */
    } rows[] = {
        {"", "3 10 * * *", "2026-11-16T10:03:00Z"},
        {"UTC", "3 10 * * *", "2026-11-16T10:03:00Z"},
        {"Etc/UTC", "3 10 * * *", "2026-11-16T10:03:00Z"},
        {"Europe/Berlin", "3 11 * * *", "2026-11-16T11:03:00+01:00"},
        {"Europe/Berlin", "3 10 * * *", ""},
        {"America/St_Johns", "33 6 * * *", "2026-11-16T06:33:00-03:30"},
        {"Broken/File", "* * * * *", ""},
        {"No/Where", "* * * * *", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct control_config config = {.zone = zone};
        const struct json *body = NULL;
        struct control_key key = {STR("n"), STR("s")};

        test_case(rows[i].zone);
        scene_open(&scene);
        scene_put(
            &scene, &kind_cronjob,
            str_printf(&scene.arena, CRON("%s", "'timeZone':'%s',"), rows[i].schedule, rows[i].zone)
                .p);
        struct control_input input = {
            .cache = scene.cache, .config = &config, .now_ms = TEN_OCLOCK + 300000};
        struct actions actions = {.arena = &scene.arena};
        cronjob_controller.reconcile(&input, &key, &actions);
        for (size_t j = 0; j < actions.list.count; j++)
            if (actions.list.items[j].type == ACTION_CREATE)
                body = actions.list.items[j].body;
        EXPECT(str_is(json_str(json_get(json_at(body, "metadata.annotations"), SCHEDULED)),
                      rows[i].scheduled));
        EXPECT(!body == !*rows[i].scheduled);
    }
}

/* ---- the past ---- */

#define OWNED                                                                                    \
    "'ownerReferences':[{'apiVersion':'batch/v1','kind':'CronJob','name':'s','uid':'u-s','contr" \
    "oller':true}]"
#define ENDED(name, created, type, completed)                                             \
    "{'metadata':{'name':'" name "','creationTimestamp':'2026-11-16T" created "Z'," OWNED \
    "},'status':{'conditions':[{'type':'" type "','status':'True'}],'completionTime':'20" \
    "26-11-16T" completed "Z'}}"

TEST(a_cronjob_keeps_one_failed_job_and_tells_the_last_success)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON("0 0 1 1 *", ""));
    scene_put(&scene, &kind_job, ENDED("bad2", "08:02:00", "Failed", ""));
    scene_put(&scene, &kind_job, ENDED("bad1", "08:01:00", "Failed", ""));
    scene_put(&scene, &kind_job, ENDED("bad3", "08:03:00", "Failed", ""));
    scene_put(&scene, &kind_job, ENDED("good1", "08:00:00", "Complete", "09:05:00"));
    scene_put(&scene, &kind_job, ENDED("good2", "08:00:00", "Complete", "09:03:00"));
    scene_put(&scene, &kind_job, ENDED("good3", "08:00:00", "Complete", "later"));
    at_second(&scene, 60);
    EXPECT(str_is(scene_names(&scene, &kind_job), "bad3 good1 good2 good3"));
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_cronjob, "s"), "status.lastSuccessfulTime"),
                  "2026-11-16T09:05:00Z"));
    /* What is known of the past stays when its Job is forgotten. */
    scene_drop(&scene, &kind_job, "good1");
    at_second(&scene, 61);
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_cronjob, "s"), "status.lastSuccessfulTime"),
                  "2026-11-16T09:05:00Z"));
}

TEST(a_job_of_that_moment_that_is_there_is_not_made_again)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_cronjob, CRON("* * * * *", ""));
    scene_put(&scene, &kind_job, "{'metadata':{'name':'s-29913721','labels':{'mine':'yes'}}}");
    at_second(&scene, 60);
    EXPECT(str_is(scene_names(&scene, &kind_job), "s-29913721"));
    EXPECT(scene.events.len == 0);
}
