#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/feed.h"
#include "test.h"
#include "tool/file.h"

#include <errno.h>
#include <stddef.h>

/* Bytes that a kube-apiserver 1.33 sent, the same state in both forms (tests/corpus/feed): a pod
 * and a node with every field that is kept, and more; a list and a watch with sendInitialEvents. */

#define OBJECTS_MAX 8

struct got {
    const struct object *objects[OBJECTS_MAX];
    size_t count;
    struct feed_page page;
    size_t events;
    bool initial_end;
    uint64_t revision;
};

static struct str recorded(struct arena *arena, const char *name)
{
    struct str text = STR_NONE;
    struct err err = {0};

    EXPECT(file_read(arena, str_printf(arena, CORPUS_FOLDER "/feed/%s", name).p, &text, &err) == 0);
    return text;
}

static bool take(void *user, const struct object *object)
{
    struct got *got = user;

    if (got->count < OBJECTS_MAX)
        got->objects[got->count++] = object_ref(object);
    return true;
}

static void got_done(struct got *got)
{
    for (size_t i = 0; i < got->count; i++)
        object_unref(got->objects[i]);
    buf_done(&got->page.continue_token);
}

static void read_page(const struct kind *kind, struct str body, struct got *got)
{
    struct err err = {0};

    EXPECT(feed_page_read(kind, body, &got->page, take, got, &err) == 0);
    EXPECT(err.text[0] == '\0');
}

/* The stream in pieces of `step` bytes. */
static void read_stream(const struct kind *kind, struct str bytes, size_t step, struct got *got)
{
    struct feed_stream stream = {0};
    struct err err = {0};
    int r = 0;

    for (size_t at = 0; at < bytes.len && r >= 0; at += step) {
        struct str piece = str_sub(bytes, at, step);
        struct str message;

        while ((r = feed_stream_next(&stream, &piece, &message, &err)) > 0) {
            struct feed_event event;

            EXPECT(feed_event_read(kind, false, message, &event, &err) == 0);
            got->events++;
            if (event.object) {
                (void)take(got, event.object);
                object_unref(event.object);
            }
            if (event.type == FEED_BOOKMARK && event.initial_end) {
                got->initial_end = true;
                got->revision = event.revision;
            }
        }
    }
    EXPECT(r == 0);
    feed_stream_done(&stream);
}

static void expect_same(const struct got *a, const struct got *b)
{
    EXPECT(a->count == b->count && a->count > 0);
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        EXPECT(a->objects[i]->revision == b->objects[i]->revision);
        if (!json_equal(object_json(a->objects[i], &arena), object_json(b->objects[i], &arena))) {
            EXPECT(str_eq(a->objects[i]->raw, b->objects[i]->raw)); /* shows both */
        }
    }
}

TEST(feed_gives_the_same_objects_from_protobuf_and_from_json)
{
    static const struct {
        const struct kind *kind;
        const char *name;
    } rows[] = {{&kind_pod, "pods"}, {&kind_node, "nodes"}};

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct got lists[2] = {0};
        struct got streams[2] = {0};
        static const char *const forms[] = {"pb", "json"};

        for (size_t f = 0; f < 2; f++) {
            struct str name = str_printf(&arena, "%s.%s", rows[i].name, forms[f]);
            struct str watch = str_printf(&arena, "%s.watch.%s", rows[i].name, forms[f]);

            test_case(forms[f]);
            read_page(rows[i].kind, recorded(&arena, name.p), &lists[f]);
            EXPECT(lists[f].page.revision > 0);
            read_stream(rows[i].kind, recorded(&arena, watch.p), 1000, &streams[f]);
            EXPECT(streams[f].initial_end && streams[f].revision > 0);
        }
        expect_same(&lists[0], &lists[1]);
        expect_same(&streams[0], &streams[1]);
        expect_same(&lists[0], &streams[0]);
        for (size_t f = 0; f < 2; f++) {
            got_done(&lists[f]);
            got_done(&streams[f]);
        }
    }
}

TEST(feed_keeps_what_is_read_and_nothing_that_is_private)
{
    static const struct {
        const char *path;
        const char *text;
    } rows[] = {
        {"metadata.annotations.words", "a\tb \xe2\x80\xa8 \xf0\x9f\x98\x80"},
        {"metadata.finalizers.0", "example.com/hold"},
        {"spec.containers.0.resources.requests.cpu", "250m"},
        {"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
         ".nodeSelectorTerms.1.matchFields.0.values.0",
         "n1"},
        {"status.containerStatuses.0.state.terminated.message", "last words"},
        {"status.containerStatuses.0.state.terminated.finishedAt", "2026-01-02T03:05:05Z"},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    struct got got = {0};

    read_page(&kind_pod, recorded(&arena, "pods.pb"), &got);
    EXPECT(got.count > 0 && str_is(got.objects[0]->name, "full"));
    struct json *pod = object_json(got.objects[0], &arena);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].path);
        EXPECT(str_is(json_str_at(pod, rows[i].path), rows[i].text));
    }
    EXPECT(json_i64_or(json_at(pod, "status.containerStatuses.0.state.terminated.exitCode"), 0) ==
           -1);
    EXPECT(!str_contains(got.objects[0]->raw, STR("hunter2")));
    EXPECT(!str_contains(got.objects[0]->raw, STR("train.py")));
    EXPECT(!str_contains(got.objects[0]->raw, STR("managedFields")));
    got_done(&got);
}

TEST(feed_cuts_a_stream_the_same_wherever_its_pieces_end)
{
    static const char *const names[] = {"pods.watch.pb", "pods.watch.json"};

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str bytes = recorded(&arena, names[i]);
        struct got whole = {0};

        test_case(names[i]);
        read_stream(&kind_pod, bytes, bytes.len, &whole);
        for (size_t step = 1; step < 8; step++) {
            struct got got = {0};

            read_stream(&kind_pod, bytes, step, &got);
            EXPECT(got.events == whole.events);
            expect_same(&got, &whole);
            got_done(&got);
        }
        got_done(&whole);
    }
}

TEST(feed_tells_an_error_of_the_watch_with_its_code)
{
    static const char *const messages[] = {
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too "
        "old\"}}",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":99999}}",
        "{\"type\":\"ERROR\"}",
    };
    static const int codes[] = {410, 500, 500};

    for (size_t i = 0; i < 3; i++) {
        struct feed_event event;
        struct err err = {0};

        test_case(messages[i]);
        EXPECT(feed_event_read(&kind_pod, false, str_from(messages[i]), &event, &err) == 0);
        EXPECT(event.type == FEED_ERROR && event.status == codes[i] && err.text[0] != '\0');
    }
}

TEST(feed_refuses_what_is_no_event_and_says_so)
{
    static const char *const messages[] = {
        "{",
        "{}",
        "{\"type\":\"SOMETHING\",\"object\":{}}",
        "{\"type\":\"ADDED\",\"object\":{}}",
        "{\"type\":\"BOOKMARK\",\"object\":{}}",
        "\n\x05\x41",
        "no",
    };

    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        struct feed_event event;
        struct err err = {0};

        test_case(messages[i]);
        EXPECT(feed_event_read(&kind_pod, false, str_from(messages[i]), &event, &err) < 0);
        EXPECT(err.text[0] != '\0' && !event.object);
    }
}

TEST(feed_refuses_an_event_that_never_ends)
{
    static const char frame[] = {0, (char)0xff, (char)0xff, (char)0xff, 'x'};
    struct feed_stream stream = {0};
    struct str bytes = {frame, sizeof(frame)};
    struct str message;
    struct err err = {0};

    EXPECT(feed_stream_next(&stream, &bytes, &message, &err) == -EMSGSIZE);
    feed_stream_done(&stream);
}
