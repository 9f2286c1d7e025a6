#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "store/harness.h"
#include "store/store_test.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void watch_rules(struct harness *h)
{
    struct harness_watch all;
    struct harness_watch some;
    struct harness_watch later;

    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"a\"}}") == 0);
    uint64_t revision = h->object->revision;
    harness_watch(h, &all, &(struct api_watch_request){.kind = &kind_configmap});
    harness_watch(h, &some,
                  &(struct api_watch_request){
                      .kind = &kind_configmap, .ns = STR("default"), .label_selector = STR("l")});
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"b\"}}") == 0);
    EXPECT(harness_patch(h, &kind_configmap, "default", "a",
                         "{\"metadata\":{\"labels\":{\"l\":\"1\"}}}") == 0);
    EXPECT(harness_patch(h, &kind_configmap, "default", "a",
                         "{\"metadata\":{\"labels\":{\"l\":\"2\"}}}") == 0);
    EXPECT(harness_patch(h, &kind_configmap, "default", "a", "{\"metadata\":{\"labels\":null}}") ==
           0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "a", "") == 0);
    harness_settle(h);
    EXPECT(strcmp(all.heard, "+a = +b ~a ~a ~a -a") == 0);
    EXPECT(strcmp(some.heard, "= +a ~a -a") == 0);

    harness_watch(h, &later,
                  &(struct api_watch_request){.kind = &kind_configmap, .from_revision = revision});
    harness_settle(h);
    EXPECT(strcmp(later.heard, "+b ~a ~a ~a -a") == 0);
    api_watch_stop(h->api, all.watch);
    api_watch_stop(h->api, some.watch);
    api_watch_stop(h->api, later.watch);

    harness_watch(h, &later,
                  &(struct api_watch_request){.kind = &kind_configmap, .from_revision = 1U << 30});
    harness_settle(h);
    EXPECT(strcmp(later.heard, "!") == 0 && later.closed == 410);
    api_watch_stop(h->api, later.watch);
}

TEST(watches_tell_in_order_and_follow_selectors)
{
    rules_each(watch_rules);
}

static struct str label_heard;

static void on_label(void *user, const struct api_change *change)
{
    struct arena *arena = user;

    if (change->event == API_DELETED)
        label_heard = str_dup(arena, json_text(arena, object_json(change->object, arena)));
}

static void left_rules(struct harness *h)
{
    struct arena arena = {0};

    label_heard = STR("");
    EXPECT(harness_create(h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"m\",\"labels\":{\"l\":\"old\"}}}") == 0);
    struct api_watch *watch = api_watch(
        h->api,
        &(struct api_watch_request){.kind = &kind_configmap, .label_selector = STR("l=old")},
        on_label, &arena);
    EXPECT(harness_patch(h, &kind_configmap, "default", "m",
                         "{\"metadata\":{\"labels\":{\"l\":\"new\"}}}") == 0);
    char version[64];
    (void)snprintf(version, sizeof(version), "\"resourceVersion\":\"%llu\"",
                   (unsigned long long)h->object->revision);
    harness_settle(h);
    EXPECT(str_contains(label_heard, STR("\"l\":\"old\"")));
    EXPECT(str_contains(label_heard, str_from(version)));
    api_watch_stop(h->api, watch);
    harness_settle(h);
    arena_done(&arena);
}

TEST(who_leaves_a_selection_is_told_as_last_seen)
{
    rules_each(left_rules);
}

/* 40 states of 1 MB are more than what is remembered. */
static void compaction_rules(struct harness *h)
{
    struct harness_watch watch;
    size_t bytes = (size_t)1 << 20;
    char *body = malloc(bytes + 128);

    EXPECT(body);
    if (!body)
        return;
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"big\"}}") == 0);
    uint64_t first = h->object->revision;
    for (int i = 0; i < 40; i++) {
        int len = snprintf(body, 128, "{\"data\":{\"n\":\"%d\",\"x\":\"", i);

        memset(body + len, 'x', bytes);
        (void)snprintf(body + (size_t)len + bytes, 8, "\"}}");
        EXPECT(harness_patch(h, &kind_configmap, "default", "big", body) == 0);
    }
    uint64_t last = h->object->revision;
    free(body);
    harness_watch(h, &watch,
                  &(struct api_watch_request){.kind = &kind_configmap, .from_revision = first});
    harness_settle(h);
    EXPECT(strcmp(watch.heard, "!") == 0 && watch.closed == 410);
    api_watch_stop(h->api, watch.watch);
    harness_watch(h, &watch,
                  &(struct api_watch_request){.kind = &kind_configmap, .from_revision = last - 1});
    harness_settle(h);
    EXPECT(strcmp(watch.heard, "~big") == 0);
    api_watch_stop(h->api, watch.watch);
}

TEST(old_changes_are_forgotten_and_watches_from_then_end_with_410)
{
    rules_each(compaction_rules);
}

static void bookmark_rules(struct harness *h)
{
    struct harness_watch watch;

    harness_watch(h, &watch,
                  &(struct api_watch_request){.kind = &kind_configmap, .bookmarks = true});
    for (int i = 0; i < 600; i++)
        EXPECT(harness_patch(h, &kind_namespace, "", "kube-public",
                             i % 2 ? "{\"metadata\":{\"annotations\":{\"x\":\"a\"}}}"
                                   : "{\"metadata\":{\"annotations\":{\"x\":\"b\"}}}") == 0);
    harness_settle(h);
    EXPECT(strcmp(watch.heard, "= .") == 0);
    api_watch_stop(h->api, watch.watch);
}

TEST(a_quiet_watch_gets_bookmarks)
{
    rules_each(bookmark_rules);
}
