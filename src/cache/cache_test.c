#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "cache/cache.h"
#include "test.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct object *put(struct cache *cache,
                                struct arena *arena,
                                const char *ns,
                                const char *name,
                                int revision,
                                const char *owner)
{
    struct object *object = NULL;
    struct str raw =
        str_printf(arena,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"resourceVersion\":\"%d\","
                   "\"ownerReferences\":[{\"uid\":\"%s\",\"name\":\"o\",\"kind\":\"K\"}]}}",
                   ns, name, revision, owner);

    int r = object_new(&kind_pod, raw, &object, NULL);
    assert(r == 0);
    cache_put(cache, object);
    arena_defer(arena, object_release, object);
    return object;
}

static void cache_freep(struct cache **cache)
{
    cache_free(*cache);
}

TEST(cache_walks_in_order_of_first_appearance)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);

    put(cache, &arena, "a", "one", 1, "u");
    put(cache, &arena, "b", "two", 2, "u");
    put(cache, &arena, "a", "three", 3, "v");
    put(cache, &arena, "a", "one", 4, "u");

    size_t cursor = 0;
    EXPECT(str_is(cache_next(cache, &kind_pod, STR(""), &cursor)->name, "one"));
    EXPECT(str_is(cache_next(cache, &kind_pod, STR(""), &cursor)->name, "two"));
    EXPECT(str_is(cache_next(cache, &kind_pod, STR(""), &cursor)->name, "three"));
    EXPECT(cache_next(cache, &kind_pod, STR(""), &cursor) == NULL);
    EXPECT(cache_next(cache, &kind_pod, STR(""), &cursor) == NULL);

    cursor = 0;
    EXPECT(cache_next(cache, &kind_pod, STR("a"), &cursor)->revision == 4);
    EXPECT(str_is(cache_next(cache, &kind_pod, STR("a"), &cursor)->name, "three"));
    EXPECT(cache_next(cache, &kind_pod, STR("a"), &cursor) == NULL);
    EXPECT(cache_count(cache, &kind_pod) == 3);
    EXPECT(cache_count(cache, &kind_node) == 0);
}

TEST(cache_ignores_what_is_older_than_what_it_holds)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);

    put(cache, &arena, "a", "one", 5, "u");
    const struct object *stale = put(cache, &arena, "a", "one", 3, "u");
    EXPECT(cache_get(cache, &kind_pod, STR("a"), STR("one"))->revision == 5);
    cache_drop(cache, stale);
    EXPECT(cache_get(cache, &kind_pod, STR("a"), STR("one")) != NULL);
    EXPECT(cache_get(cache, &kind_pod, STR("b"), STR("one")) == NULL);
}

TEST(cache_owner_index_follows_changes_of_owner)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);

    put(cache, &arena, "a", "one", 1, "u");
    const struct object *last = put(cache, &arena, "a", "one", 2, "v");
    size_t cursor = 0;
    EXPECT(cache_next_owned(cache, &kind_pod, STR("u"), &cursor) == NULL);
    cursor = 0;
    EXPECT(cache_next_owned(cache, &kind_pod, STR("v"), &cursor) == last);
    cache_drop(cache, last);
    cursor = 0;
    EXPECT(cache_next_owned(cache, &kind_pod, STR("v"), &cursor) == NULL);
    EXPECT(cache_count(cache, &kind_pod) == 0);
}

static struct object *made(const struct kind *kind,
                           const char *name,
                           int revision,
                           const char *group)
{
    struct arena arena = {0};
    struct object *object = NULL;
    struct str raw = str_printf(&arena,
                                "{\"metadata\":{\"namespace\":\"a\",\"name\":\"%s\","
                                "\"resourceVersion\":\"%d\",\"annotations\":{"
                                "\"" GROUP_ANNOTATION "\":\"%s\"}}}",
                                name, revision, group);

    int r = object_new(kind, raw, &object, NULL);
    assert(r == 0);
    arena_done(&arena);
    return object;
}

static void take(struct cache *cache, struct object *object)
{
    cache_put(cache, object);
    object_unref(object);
}

TEST(cache_finds_pods_by_their_group_as_long_as_they_are_in_it)
{
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);
    size_t cursor = 0;

    EXPECT(cache_count_grouped(cache, &kind_pod, STR("g")) == 0);
    EXPECT(!cache_next_grouped(cache, &kind_pod, STR("g"), &cursor));
    take(cache, made(&kind_pod, "one", 1, "g"));
    take(cache, made(&kind_pod, "two", 2, "g"));
    take(cache, made(&kind_pod, "three", 3, ""));
    EXPECT(cache_count_grouped(cache, &kind_pod, STR("g")) == 2);
    EXPECT(str_is(cache_next_grouped(cache, &kind_pod, STR("g"), &cursor)->name, "one"));
    EXPECT(str_is(cache_next_grouped(cache, &kind_pod, STR("g"), &cursor)->name, "two"));
    EXPECT(!cache_next_grouped(cache, &kind_pod, STR("g"), &cursor));
    take(cache, made(&kind_pod, "one", 4, "h"));
    EXPECT(cache_count_grouped(cache, &kind_pod, STR("g")) == 1);
    EXPECT(cache_count_grouped(cache, &kind_pod, STR("h")) == 1);
    _cleanup_(object_unrefp) struct object *last = made(&kind_pod, "one", 5, "h");
    cache_drop(cache, last);
    EXPECT(cache_count_grouped(cache, &kind_pod, STR("h")) == 0);
    EXPECT(cache_count_grouped(cache, &kind_pod, STR("none")) == 0);
}

TEST(cache_walks_on_behind_what_was_dropped)
{
    static const char *const names[] = {"one", "two", "three"};
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);
    size_t cursor = 0;

    for (size_t i = 0; i < 3; i++)
        take(cache, made(&kind_pod, names[i], 1, ""));
    EXPECT(str_is(cache_next(cache, &kind_pod, STR("a"), &cursor)->name, "one"));
    for (size_t i = 1; i < 3; i++) {
        _cleanup_(object_unrefp) struct object *gone = made(&kind_pod, names[i], 2, "");
        cache_drop(cache, gone);
        cache_drop(cache, gone); /* a second time, nothing happens */
    }
    EXPECT(!cache_next(cache, &kind_pod, STR("a"), &cursor));
    EXPECT(!cache_next(cache, &kind_pod, STR("nobody"), &cursor));
    EXPECT(!cache_next_owned(cache, &kind_node, STR("u"), &cursor));
    EXPECT(!cache_next(cache, &kind_node, STR(""), &cursor));
}

TEST(cache_has_one_table_of_a_kind_that_is_told_again)
{
    static const struct {
        const char *group;
        const char *version;
        const char *plural;
        bool same;
        const char *why;
    } rows[] = {
        {"x.org", "v1", "things", true, "a CRD that was read again"},
        {"y.org", "v1", "things", false, "of another group"},
        {"x.org", "v2", "things", false, "of another version"},
        {"x.org", "v1", "others", false, "of another name"},
    };
    struct kind first = {.group = "x.org", .version = "v1", .plural = "things", .namespaced = true};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(cache_freep) struct cache *cache = cache_new(7);
        struct kind again = {.group = rows[i].group,
                             .version = rows[i].version,
                             .plural = rows[i].plural,
                             .namespaced = true};

        test_case(rows[i].why);
        take(cache, made(&first, "one", 1, ""));
        EXPECT((cache_get(cache, &again, STR("a"), STR("one")) != NULL) == rows[i].same);
        take(cache, made(&again, "two", 2, ""));
        EXPECT(cache_count(cache, &first) == (rows[i].same ? 2 : 1));
    }
}

TEST(cache_leaves_names_out_that_nothing_can_have)
{
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);
    char name[2000];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    take(cache, made(&kind_pod, name, 1, ""));
    EXPECT(cache_count(cache, &kind_pod) == 0);
    EXPECT(!cache_get(cache, &kind_pod, STR("a"), str_from(name)));
    EXPECT(!cache_get(cache, &kind_pod, STR(""), STR("")));
    cache_free(NULL);
}

static bool walk_is(const struct cache *cache, const char *ns, const char *names)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str walked = STR_NONE;
    const struct object *object;
    size_t cursor = 0;

    while ((object = cache_next(cache, &kind_pod, str_from(ns), &cursor)))
        walked = str_printf(&arena, STR_FMT STR_FMT " ", STR_ARG(walked), STR_ARG(object->name));
    return str_is(walked, names);
}

/* The map of namespaces is made when somebody first asks, and followed from then on. */
TEST(cache_walks_a_namespace_alike_before_and_after_it_was_first_asked_for)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(cache_freep) struct cache *cache = cache_new(7);

    put(cache, &arena, "a", "one", 1, "u");
    const struct object *two = put(cache, &arena, "a", "two", 2, "u");
    put(cache, &arena, "b", "other", 3, "u");
    cache_drop(cache, put(cache, &arena, "a", "gone", 4, "u"));
    EXPECT(walk_is(cache, "a", "one two "));
    put(cache, &arena, "a", "three", 5, "u");
    put(cache, &arena, "a", "one", 6, "u");
    cache_drop(cache, two);
    EXPECT(walk_is(cache, "a", "one three "));
    EXPECT(walk_is(cache, "b", "other ") && walk_is(cache, "c", ""));
    EXPECT(walk_is(cache, "", "one other three "));
}
