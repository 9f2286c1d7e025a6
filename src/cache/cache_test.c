#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cache/cache.h"
#include "test.h"

#include <assert.h>
#include <stddef.h>

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
