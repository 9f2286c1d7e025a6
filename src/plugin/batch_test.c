#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "plugin/batch.h"
#include "test.h"

#include <stddef.h>

static void add_file(struct manifest *manifest, const char *path, uint64_t size)
{
    manifest_add(manifest, &(struct ws_entry){.type = WS_FILE,
                                              .path = str_from(path),
                                              .size = size,
                                              .hash = hash_of(str_from(path)),
                                              .mode = 0644});
}

static void add_folder(struct manifest *manifest, const char *path)
{
    manifest_add(manifest,
                 &(struct ws_entry){.type = WS_DIR, .path = str_from(path), .mode = 0755});
}

/* The other side: a/ with x and y, a-b, z. */
static struct manifest *other_side(void)
{
    struct manifest *have = manifest_new();

    add_folder(have, "a");
    add_file(have, "a/x", 1);
    add_file(have, "a/y", 1);
    add_file(have, "a-b", 1);
    add_file(have, "z", 1);
    EXPECT(manifest_finish(have, NULL) == 0);
    return have;
}

TEST(a_path_is_below_a_folder_by_whole_names)
{
    EXPECT(batch_is_below(STR("a"), STR("a")));
    EXPECT(batch_is_below(STR("a/x"), STR("a")));
    EXPECT(batch_is_below(STR("a/x/y"), STR("a/x")));
    EXPECT(!batch_is_below(STR("a-b"), STR("a")));
    EXPECT(!batch_is_below(STR("ab"), STR("a")));
    EXPECT(!batch_is_below(STR("a"), STR("a/x")));
}

TEST(a_changed_path_is_covered_by_any_folder_above_it_that_changed)
{
    static const struct str paths[] = {{"a", 1}, {"a-b", 3}, {"a/x", 3}, {"a/x/y", 5}, {"b/x", 3}};

    EXPECT(!batch_is_covered(paths, COUNT_OF(paths), 0));
    EXPECT(!batch_is_covered(paths, COUNT_OF(paths), 1));
    EXPECT(batch_is_covered(paths, COUNT_OF(paths), 2));
    EXPECT(batch_is_covered(paths, COUNT_OF(paths), 3));
    EXPECT(!batch_is_covered(paths, COUNT_OF(paths), 4));
}

/* After the change the other side must have what a scan of the folder gives. */
static void expect_reaches(const struct batch *batch, struct manifest *have, struct manifest *want)
{
    EXPECT(manifest_finish(want, NULL) == 0);
    EXPECT(hash_eq(batch->revision, want->revision));
    for (size_t i = 0; i < batch->gone.count; i++)
        manifest_remove(have, batch->gone.items[i]);
    for (size_t i = 0; i < batch->set.count; i++)
        manifest_set(have, &batch->set.items[i]);
    EXPECT(hash_eq(have->revision, want->revision));
}

TEST(a_batch_sets_what_is_new_or_changed_and_nothing_else)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(manifest_unrefp) struct manifest *have = other_side();
    _cleanup_(manifest_unrefp) struct manifest *now = manifest_new();
    _cleanup_(manifest_unrefp) struct manifest *want = other_side();
    static const struct str paths[] = {{"a/x", 3}, {"new", 3}, {"z", 1}};
    struct batch batch;

    add_file(now, "a/x", 2);
    add_file(now, "new", 1);
    add_file(now, "z", 1); /* touched, not changed */
    manifest_sort(now);
    batch_compare(&arena, have, now, paths, 3, &batch);
    EXPECT(batch.gone.count == 0 && batch.set.count == 2);
    manifest_set(want, manifest_find(now, STR("a/x")));
    manifest_set(want, manifest_find(now, STR("new")));
    expect_reaches(&batch, have, want);
}

TEST(a_folder_that_is_gone_takes_what_was_below_it_once)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const struct {
        struct str paths[4];
        size_t count;
        const char *why;
    } rows[] = {
        {{{"a", 1}}, 1, "the folder alone"},
        {{{"a", 1}, {"a/x", 3}, {"a/y", 3}}, 3, "and its files"},
        {{{"a", 1}, {"a-b", 3}, {"a/x", 3}, {"a/y", 3}}, 4, "with a name that sorts between"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(manifest_unrefp) struct manifest *have = other_side();
        _cleanup_(manifest_unrefp) struct manifest *now = manifest_new();
        _cleanup_(manifest_unrefp) struct manifest *want = manifest_new();
        struct batch batch;

        test_case(rows[i].why);
        add_file(now, "a-b", 1);
        batch_compare(&arena, have, now, rows[i].paths, rows[i].count, &batch);
        EXPECT(batch.set.count == 0 && batch.gone.count == 3);
        add_file(want, "a-b", 1);
        add_file(want, "z", 1);
        expect_reaches(&batch, have, want);
    }
}
