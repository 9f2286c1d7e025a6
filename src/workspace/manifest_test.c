#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"
#include "workspace/manifest.h"

#include <errno.h>
#include <stddef.h>

static struct ws_entry file(const char *path, const char *content)
{
    return (struct ws_entry){.type = WS_FILE,
                             .path = str_from(path),
                             .mode = 0644,
                             .size = str_from(content).len,
                             .hash = hash_of(str_from(content))};
}

static struct ws_entry folder(const char *path)
{
    return (struct ws_entry){.type = WS_DIR, .path = str_from(path), .mode = 0755};
}

static const struct {
    const char *why;
    const char *path;
    bool ok;
} paths[] = {
    {"a plain name", "train.py", true},
    {"a name in a folder", "a/b/c.py", true},
    {"unicode is bytes", "données/训练.py", true},
    {"dots inside a name are nothing special", "a..b/...", true},
    {"empty", "", false},
    {"absolute", "/etc/passwd", false},
    {"up and out", "../x", false},
    {"up in the middle", "a/../../x", false},
    {"a dot part", "a/./b", false},
    {"an empty part", "a//b", false},
    {"a slash at the end", "a/", false},
    {"our own folder", ".muster/manifest", false},
    {"our own folder itself", ".muster", false},
    {"our folder's name further down is the user's", "a/.muster", true},
};

TEST(workspace_paths_stay_inside_the_folder)
{
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct err err = {0};

        test_case(paths[i].why);
        EXPECT((manifest_check_path(str_from(paths[i].path), &err) == 0) == paths[i].ok);
        EXPECT(paths[i].ok || err.text[0]);
    }
    EXPECT(manifest_check_path((struct str){"a\0b", 3}, NULL) == -EINVAL);
}

static const struct {
    const char *why;
    const char *path;
    const char *target;
    bool ok;
} links[] = {
    {"beside it", "a", "b", true},
    {"down", "a", "b/c", true},
    {"up, but still inside", "a/b/c", "../../d", true},
    {"to the top itself", "a/b", "..", true},
    {"one too far up", "a/b", "../..", false},
    {"down, then out", "a", "b/../../c", false},
    {"absolute", "a", "/etc/passwd", false},
    {"nothing", "a", "", false},
};

TEST(workspace_links_point_inside_only)
{
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        test_case(links[i].why);
        EXPECT((manifest_check_link(str_from(links[i].path), str_from(links[i].target), NULL) ==
                0) == links[i].ok);
    }
}

TEST(manifest_revision_depends_on_content_alone)
{
    _cleanup_(manifest_unrefp) struct manifest *a = manifest_new();
    _cleanup_(manifest_unrefp) struct manifest *b = manifest_new();
    struct ws_entry one = file("d/one", "1");
    struct ws_entry two = file("two", "2");
    struct ws_entry d = folder("d");

    manifest_add(a, &d);
    manifest_add(a, &one);
    manifest_add(a, &two);
    manifest_add(b, &two);
    manifest_add(b, &one);
    manifest_add(b, &d);
    EXPECT(manifest_finish(a, NULL) == 0 && manifest_finish(b, NULL) == 0);
    EXPECT(hash_eq(a->revision, b->revision));
    EXPECT(a->bytes == 2);

    struct ws_entry changed = file("two", "3");
    manifest_set(b, &changed);
    EXPECT(!hash_eq(a->revision, b->revision));
    manifest_set(b, &two);
    EXPECT(hash_eq(a->revision, b->revision));
    changed.mode = 0755;
    manifest_set(b, &changed);
    manifest_remove(b, STR("two"));
    manifest_remove(a, STR("two"));
    EXPECT(hash_eq(a->revision, b->revision));
    EXPECT(a->entries.count == 2 && manifest_find(a, STR("d/one")) &&
           !manifest_find(a, STR("two")));
}

TEST(manifest_of_an_empty_folder_is_not_nothing)
{
    _cleanup_(manifest_unrefp) struct manifest *empty = manifest_new();

    EXPECT(hash_is_zero(empty->revision));
    EXPECT(manifest_finish(empty, NULL) == 0);
    EXPECT(!hash_is_zero(empty->revision));
}

TEST(manifest_refuses_what_cannot_be_a_folder)
{
    static const struct {
        const char *why;
        struct ws_entry entries[2];
    } cases[] = {
        {"the same path twice",
         {{.type = WS_FILE, .path = STR("a"), .mode = 0644},
          {.type = WS_DIR, .path = STR("a"), .mode = 0755}}},
        {"a file below a file",
         {{.type = WS_FILE, .path = STR("a"), .mode = 0644},
          {.type = WS_FILE, .path = STR("a/b"), .mode = 0644}}},
        {"a file below a link",
         {{.type = WS_LINK, .path = STR("a"), .target = STR("b")},
          {.type = WS_FILE, .path = STR("a/b"), .mode = 0644}}},
        {"a file in a folder that is not there",
         {{.type = WS_FILE, .path = STR("x/b"), .mode = 0644},
          {.type = WS_FILE, .path = STR("y"), .mode = 0644}}},
        {"a set-uid bit",
         {{.type = WS_FILE, .path = STR("a"), .mode = 04755},
          {.type = WS_FILE, .path = STR("y"), .mode = 0644}}},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
        struct err err = {0};

        test_case(cases[i].why);
        manifest_add(manifest, &cases[i].entries[0]);
        manifest_add(manifest, &cases[i].entries[1]);
        EXPECT(manifest_finish(manifest, &err) == -EINVAL);
        EXPECT(err.text[0]);
    }
}

struct seen {
    int gone;
    int new;
    int changed;
};

static int see(void *user, const struct ws_entry *before, const struct ws_entry *after)
{
    struct seen *seen = user;

    seen->gone += !after;
    seen->new += !before;
    seen->changed += before && after;
    return 0;
}

TEST(manifest_diff_tells_only_what_differs)
{
    _cleanup_(manifest_unrefp) struct manifest *a = manifest_new();
    _cleanup_(manifest_unrefp) struct manifest *b = manifest_new();
    struct ws_entry entries[] = {file("same", "1"), file("gone", "2"), file("changed", "3")};
    struct ws_entry changed = file("changed", "4");
    struct ws_entry new = file("new", "5");
    struct seen seen = {0};

    for (size_t i = 0; i < 3; i++)
        manifest_add(a, &entries[i]);
    manifest_add(b, &entries[0]);
    manifest_add(b, &changed);
    manifest_add(b, &new);
    EXPECT(manifest_finish(a, NULL) == 0 && manifest_finish(b, NULL) == 0);
    EXPECT(manifest_diff(a, b, see, &seen) == 0);
    EXPECT(seen.gone == 1 && seen.new == 1 && seen.changed == 1);
}
