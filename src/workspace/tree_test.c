#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"
#include "workspace/outbox.h"
#include "workspace/scan.h"
#include "workspace/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of its own for each test, gone afterwards. */
struct place {
    char path[64];
    struct tree tree;
};

static void place_done(struct place *place)
{
    tree_done(&place->tree);
    (void)disk_remove_path(place->path);
}

static void place_open(struct place *place)
{
    (void)snprintf(place->path, sizeof(place->path), "/tmp/muster-tree-XXXXXX");
    EXPECT(mkdtemp(place->path) != NULL);
    EXPECT(tree_open(&place->tree, place->path, false, NULL) == 0);
}

static struct ws_entry file(const char *path, const char *content)
{
    return (struct ws_entry){.type = WS_FILE,
                             .path = str_from(path),
                             .mode = 0644,
                             .size = strlen(content),
                             .hash = hash_of(str_from(content))};
}

static struct ws_entry folder(const char *path)
{
    return (struct ws_entry){.type = WS_DIR, .path = str_from(path), .mode = 0755};
}

static int send(struct tree *tree, const char *content)
{
    return tree_blob(tree,
                     &(struct frame_blob){.hash = hash_of(str_from(content)),
                                          .size = strlen(content),
                                          .mode = 0644,
                                          .bytes = str_from(content)},
                     NULL);
}

static int send_to(struct tree *tree, const char *path, const char *content)
{
    return tree_blob(tree,
                     &(struct frame_blob){.hash = hash_of(str_from(content)),
                                          .size = strlen(content),
                                          .mode = 0644,
                                          .path = str_from(path),
                                          .bytes = str_from(content)},
                     NULL);
}

/* As if the process had ended and another one had started. */
static void reopen(struct place *place)
{
    tree_done(&place->tree);
    EXPECT(tree_open(&place->tree, place->path, false, NULL) == 0);
}

/* Commit exactly these entries. */
static int commit(struct tree *tree, const struct ws_entry *entries, size_t count, struct err *err)
{
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    struct delta delta = {0};
    int r;

    for (size_t i = 0; i < count; i++)
        manifest_add(manifest, &entries[i]);
    (void)manifest_finish(manifest, NULL);
    (void)delta_frame(
        &delta,
        &(struct frame){.type = FRAME_BEGIN, .begin = {.target = manifest->revision, .full = true}},
        NULL);
    for (size_t i = 0; i < count; i++)
        (void)delta_frame(&delta, &(struct frame){.type = FRAME_ENTRY, .entry = entries[i]}, NULL);
    r = tree_commit(tree, &delta, err);
    delta_done(&delta);
    return r;
}

static bool holds(const struct place *place, const char *name, const char *content)
{
    char path[200];
    char text[100] = "";
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return content == NULL;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got < 0)
        return content == NULL; /* a folder */
    return content && got == (ssize_t)strlen(content) && strcmp(text, content) == 0;
}

TEST(tree_becomes_what_the_manifest_says)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry first[] = {folder("d"), file("d/one", "1"), file("two", "2"),
                               file("copy", "2")};
    struct ws_entry second[] = {file("d", "now a file"),
                                file("moved", "1"),
                                file("two", "22"),
                                {.type = WS_LINK, .path = STR("link"), .target = STR("two")}};
    char link[32] = "";
    char path[200];

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && send(&place.tree, "2") == 0);
    EXPECT(commit(&place.tree, first, 4, NULL) == 0);
    EXPECT(holds(&place, "d/one", "1") && holds(&place, "two", "2") && holds(&place, "copy", "2"));
    /* "1" is not sent again: it is in the tree under another name. */
    EXPECT(send(&place.tree, "now a file") == 0 && send(&place.tree, "22") == 0);
    EXPECT(commit(&place.tree, second, 4, NULL) == 0);
    EXPECT(holds(&place, "d", "now a file") && holds(&place, "moved", "1"));
    EXPECT(holds(&place, "two", "22") && holds(&place, "copy", NULL));
    (void)snprintf(path, sizeof(path), "%s/link", place.path);
    EXPECT(readlink(path, link, sizeof(link) - 1) == 3 && strcmp(link, "two") == 0);
}

TEST(tree_leaves_alone_what_the_job_wrote)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {folder("d"), file("d/one", "1")};
    char path[200];
    int fd;

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, entries, 2, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/d/checkpoint", place.path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0);
    close(fd);
    EXPECT(commit(&place.tree, entries, 0, NULL) == 0);
    EXPECT(holds(&place, "d/one", NULL) && holds(&place, "d/checkpoint", ""));
}

/* What a job does in its folder. NULL: it removes the file. */
static void job_writes(const struct place *place, const char *name, const char *content)
{
    char path[200];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    EXPECT(unlink(path) == 0 || errno == ENOENT);
    if (!content)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && disk_write(fd, str_from(content)) == 0);
    close(fd);
}

/* A commit of one file, or of none (NULL), in a folder in which a job runs. */
static int ship(struct place *place, const char *content)
{
    struct ws_entry entry = file("f", content ? content : "");

    if (content)
        EXPECT(send(&place->tree, content) == 0);
    return commit(&place->tree, &entry, content ? 1 : 0, NULL);
}

TEST(what_the_job_wrote_is_never_replaced_or_removed_by_ours)
{
    static const struct {
        const char *why;
        const char *first;  /* shipped; NULL: nothing is */
        const char *job;    /* what the job makes of it; NULL: it removes it */
        const char *second; /* shipped then; NULL: it is gone here */
        const char *third;  /* shipped at last, or gone; "-": nothing is */
        const char *found;  /* NULL: nothing is there */
        size_t kept;        /* in the last commit */
    } cases[] = {
        {"an older checkpoint that came home", NULL, "job 2", "job 1", "-", "job 2", 1},
        {"a file that both changed", "one", "job", "two", "-", "job", 1},
        {"and again, later", "one", "job", "two", "three", "job", 1},
        {"a file that was deleted here", "one", "job", NULL, "-", "job", 1},
        {"as shipped: it follows", "one", "one", "two", "-", "two", 0},
        {"as shipped: it goes", "one", "one", NULL, "-", NULL, 0},
        {"what came home and was sent back is still the job's", NULL, "job", "job", NULL, "job", 1},
        {"unless it was changed here after that", NULL, "job", "job", "edited", "edited", 0},
        {"and then it goes like any other", "one", "job", "job", "-", "job", 0},
        {"what the job removed comes again when it changes", "one", NULL, "two", "-", "two", 0},
        {"and is no trouble when it goes", "one", NULL, NULL, "-", NULL, 0},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(place_done) struct place place;

        test_case(cases[i].why);
        place_open(&place);
        place.tree.shared = true;
        EXPECT(ship(&place, cases[i].first) == 0);
        job_writes(&place, "f", cases[i].job);
        EXPECT(ship(&place, cases[i].second) == 0);
        reopen(&place); /* what is whose outlives the process */
        place.tree.shared = true;
        if (!cases[i].third || strcmp(cases[i].third, "-") != 0) {
            EXPECT(ship(&place, cases[i].third) == 0);
            EXPECT(place.tree.kept_count == cases[i].kept);
        }
        EXPECT(holds(&place, "f", cases[i].found));
    }
}

TEST(files_of_the_jobs_that_stay_are_named)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {file("a", "ours"), file("b", "ours"), file("c", "ours")};

    place_open(&place);
    place.tree.shared = true;
    EXPECT(commit(&place.tree, entries, 0, NULL) == 0);
    job_writes(&place, "a", "job");
    job_writes(&place, "c", "job");
    EXPECT(send(&place.tree, "ours") == 0 && commit(&place.tree, entries, 3, NULL) == 0);
    EXPECT(place.tree.kept_count == 2 && str_is(buf_str(&place.tree.kept), "a\nc\n"));
    EXPECT(holds(&place, "b", "ours"));
    EXPECT(commit(&place.tree, entries, 3, NULL) == 0 && place.tree.kept_count == 0);
}

/* The folder has d/f, d/g and l, then a job does something to it, then all of it changes. */
TEST(nothing_that_a_job_does_keeps_a_revision_from_arriving)
{
    static const struct {
        const char *why;
        const char *does; /* in the folder */
        size_t kept;
        const char *f; /* what d/f holds in the end */
    } cases[] = {
        {"it removes the folder", "rm -r d", 0, "2"},
        {"it makes a folder of a file", "rm d/f; mkdir d/f; touch d/f/x", 1, NULL},
        {"it makes a file of the folder", "rm -r d; echo job > d", 3, NULL},
        {"it makes a link of the folder", "rm -r d; ln -s /tmp d", 3, NULL},
        {"it makes a link of a file", "ln -sf /dev/null d/f", 1, ""},
        {"it makes a file of the link", "rm l; echo job > l", 1, "2"},
        {"it removes a file whose mode changes", "rm m", 0, "2"},
        {"it makes a link of a file whose mode changes", "ln -sf /tmp m", 1, "2"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(place_done) struct place place;
        struct ws_entry link = {.type = WS_LINK, .path = STR("l"), .target = STR("d")};
        struct ws_entry one[] = {folder("d"), file("d/f", "1"), file("d/g", "1"),
                                 link,        file("m", "1"),   file("z", "1")};
        struct ws_entry two[] = {folder("d"), file("d/f", "2"), file("d/g", "2"),
                                 link,        file("m", "1"),   file("z", "2")};
        char line[300];

        two[0].mode = two[4].mode = 0700;
        two[3].target = STR("z");
        test_case(cases[i].why);
        place_open(&place);
        place.tree.shared = true;
        EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, one, 6, NULL) == 0);
        (void)snprintf(line, sizeof(line), "cd %s && { %s; }", place.path, cases[i].does);
        EXPECT(system(line) == 0);
        EXPECT(send(&place.tree, "2") == 0 && commit(&place.tree, two, 6, NULL) == 0);
        EXPECT(place.tree.kept_count == cases[i].kept);
        EXPECT(holds(&place, "d/f", cases[i].f) && holds(&place, "z", "2"));
        EXPECT(send(&place.tree, "3") == 0);
        two[5] = file("z", "3");
        EXPECT(commit(&place.tree, two, 6, NULL) == 0 && holds(&place, "z", "3"));
    }
}

TEST(a_folder_that_has_files_of_the_jobs_makes_no_way_for_a_file)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry first[] = {folder("d"), file("d/f", "1")};
    struct ws_entry second[] = {file("d", "2"), file("z", "2")};

    place_open(&place);
    place.tree.shared = true;
    EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, first, 2, NULL) == 0);
    job_writes(&place, "d/checkpoint", "job");
    EXPECT(send(&place.tree, "2") == 0 && commit(&place.tree, second, 2, NULL) == 0);
    EXPECT(holds(&place, "d/checkpoint", "job") && holds(&place, "d/f", NULL));
    EXPECT(holds(&place, "z", "2") && str_is(buf_str(&place.tree.kept), "d\n"));
}

TEST(files_of_a_commit_that_was_cut_are_ours)
{
    _cleanup_(place_done) struct place place;
    _cleanup_(buf_done) struct buf note = {0};
    struct ws_entry first[] = {file("a", "1"), file("b", "1"), file("gone", "1")};
    struct ws_entry second[] = {file("a", "2"), file("b", "2")};
    struct ws_entry third[] = {file("a", "3"), file("b", "3")};
    char path[200];

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, first, 3, NULL) == 0);
    /* The process ended when one file was in its place, and one had gone. */
    frame_add_entry(&note, &second[0]);
    frame_add_entry(&note, &second[1]);
    frame_add_gone(&note, STR("gone"));
    (void)snprintf(path, sizeof(path), "%s/.muster/commit", place.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && disk_write(fd, buf_str(&note)) == 0);
    close(fd);
    job_writes(&place, "a", "2");
    job_writes(&place, "gone", NULL);
    reopen(&place);
    place.tree.shared = true;
    EXPECT(access(path, F_OK) < 0 && place.tree.current->entries.count == 2);
    EXPECT(send(&place.tree, "3") == 0 && commit(&place.tree, third, 2, NULL) == 0);
    EXPECT(holds(&place, "a", "3") && holds(&place, "b", "3") && place.tree.kept_count == 0);
}

TEST(content_that_is_not_where_the_manifest_says_is_asked_for_again)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry first[] = {file("a", "1")};
    struct ws_entry moved[] = {file("b", "1")};
    uint64_t offset;

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, first, 1, NULL) == 0);
    job_writes(&place, "a", "torn");
    EXPECT(tree_has(&place.tree, moved[0].hash, 1, &offset));
    EXPECT(commit(&place.tree, moved, 1, NULL) == -ENOENT);
    EXPECT(!tree_has(&place.tree, moved[0].hash, 1, &offset));
    EXPECT(send(&place.tree, "1") == 0 && commit(&place.tree, moved, 1, NULL) == 0);
    EXPECT(holds(&place, "b", "1"));
}

TEST(tree_refuses_a_commit_whose_contents_are_missing)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {file("here", "1"), file("missing", "2")};
    struct err err = {0};

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0);
    EXPECT(commit(&place.tree, entries, 2, &err) == -ENOENT);
    EXPECT(strstr(err.text, "missing"));
    EXPECT(holds(&place, "here", NULL));
    EXPECT(send(&place.tree, "2") == 0 && commit(&place.tree, entries, 2, NULL) == 0);
}

TEST(tree_refuses_content_with_another_hash)
{
    _cleanup_(place_done) struct place place;
    struct frame_blob blob = {.hash = hash_of(STR("good")), .size = 4, .bytes = STR("evil")};
    uint64_t offset;

    place_open(&place);
    EXPECT(tree_blob(&place.tree, &blob, NULL) == -EILSEQ);
    blob.bytes = STR("ev");
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0);
    blob.bytes = STR("il");
    blob.offset = 2;
    EXPECT(tree_blob(&place.tree, &blob, NULL) == -EILSEQ);
    EXPECT(!tree_has(&place.tree, blob.hash, 4, &offset) && offset == 0);
}

TEST(tree_takes_large_content_in_pieces_and_goes_on_where_it_was)
{
    _cleanup_(place_done) struct place place;
    struct frame_blob blob = {.hash = hash_of(STR("abcdef")), .size = 6, .bytes = STR("abc")};
    uint64_t offset;

    place_open(&place);
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0);
    EXPECT(!tree_has(&place.tree, blob.hash, 6, &offset) && offset == 3);
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0); /* repeated: ignored */
    blob.offset = 4;
    blob.bytes = STR("ef");
    EXPECT(tree_blob(&place.tree, &blob, NULL) == -EPROTO); /* a hole */
    blob.offset = 3;
    blob.bytes = STR("def");
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0);
    EXPECT(tree_has(&place.tree, blob.hash, 6, &offset));
    blob.size = 5;
    EXPECT(tree_blob(&place.tree, &blob, NULL) == -EPROTO); /* beyond its end */
}

static int take(void *user, const struct frame *frame, struct err *err)
{
    return tree_blob(user, &frame->blob, err);
}

/* From a folder through the frames into a tree: 3 MiB of holes around two bytes. */
TEST(a_sparse_file_stays_sparse_and_its_holes_do_not_travel)
{
    _cleanup_(place_done) struct place place;
    _cleanup_(place_done) struct place from;
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf frames = {0};
    struct outbox outbox;
    struct stat st;
    char path[200];

    place_open(&from);
    place_open(&place);
    (void)snprintf(path, sizeof(path), "%s/sparse", from.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    EXPECT(fd >= 0 && pwrite(fd, "a", 1, 1 << 20) == 1 && pwrite(fd, "b", 1, 2 << 20) == 1);
    EXPECT(ftruncate(fd, 3 << 20) == 0);
    close(fd);
    EXPECT(scan_folder(from.path, &(struct scan_options){0}, manifest, NULL) == 0);
    EXPECT(outbox_open(&outbox, from.path, manifest, NULL) == 0);
    EXPECT(outbox_next(&outbox, &frames, (size_t)16 << 20, NULL) == 0);
    outbox_done(&outbox);
    EXPECT(frames.len < (size_t)5 << 19); /* two of three pieces have something in them */
    EXPECT(frame_read(&frames, take, &place.tree, NULL) == 0 && frames.len == 0);
    EXPECT(commit(&place.tree, manifest->entries.items, 1, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/sparse", place.path);
    EXPECT(stat(path, &st) == 0 && st.st_size == 3 << 20 && st.st_blocks * 512 < 1 << 20);
}

TEST(tree_goes_on_after_a_restart_in_the_middle_of_a_large_file)
{
    _cleanup_(place_done) struct place place;
    struct frame_blob blob = {.hash = hash_of(STR("abcdef")), .size = 6, .bytes = STR("abc")};
    uint64_t offset;

    place_open(&place);
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0);
    reopen(&place);
    EXPECT(!tree_has(&place.tree, blob.hash, 6, &offset) && offset == 3);
    blob.offset = 3;
    blob.bytes = STR("def");
    EXPECT(tree_blob(&place.tree, &blob, NULL) == 0);
    reopen(&place);
    EXPECT(tree_has(&place.tree, blob.hash, 6, &offset));
}

TEST(tree_first_commit_takes_what_was_laid_out)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {folder("d"),          folder("d/e"),    file("d/e/one", "1"),
                                 file("a-copy", "1"),  file("two", "2"), file("z-copy", "1"),
                                 file("renamed", "3"), folder("empty"),  file("d/late", "4")};
    uint64_t offset;

    place_open(&place);
    EXPECT(send_to(&place.tree, "d/e/one", "1") == 0 && send_to(&place.tree, "two", "2") == 0);
    /* Moved, or gone, between the sending and the commit; another content in the same place. */
    EXPECT(send_to(&place.tree, "old/name", "3") == 0);
    EXPECT(send_to(&place.tree, "gone/x", "never wanted") == 0);
    EXPECT(send_to(&place.tree, "two", "4") == 0);
    reopen(&place); /* nothing of it is lost */
    EXPECT(tree_has(&place.tree, hash_of(STR("1")), 1, &offset));
    EXPECT(commit(&place.tree, entries, 9, NULL) == 0);
    EXPECT(holds(&place, "d/e/one", "1") && holds(&place, "a-copy", "1"));
    EXPECT(holds(&place, "z-copy", "1") && holds(&place, "two", "2"));
    EXPECT(holds(&place, "renamed", "3") && holds(&place, "d/late", "4"));
    EXPECT(holds(&place, "old/name", NULL) && holds(&place, "gone/x", NULL));
    EXPECT(faccessat(place.tree.root_fd, "old", F_OK, 0) < 0);
    EXPECT(faccessat(place.tree.root_fd, "gone", F_OK, 0) < 0);
    EXPECT(faccessat(place.tree.root_fd, "empty", F_OK, 0) == 0);
    reopen(&place);
    EXPECT(holds(&place, "two", "2") && !hash_is_zero(place.tree.current->revision));
}

TEST(tree_first_commit_keeps_what_the_job_has_in_the_same_folder)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {folder("d"), file("d/one", "1"), file("two", "2")};

    place_open(&place);
    EXPECT(mkdirat(place.tree.root_fd, "d", 0700) == 0);
    EXPECT(mkdirat(place.tree.root_fd, "d/checkpoints", 0700) == 0);
    EXPECT(send_to(&place.tree, "d/one", "1") == 0 && send_to(&place.tree, "two", "2") == 0);
    EXPECT(commit(&place.tree, entries, 3, NULL) == 0);
    EXPECT(holds(&place, "d/one", "1") && holds(&place, "two", "2"));
    EXPECT(faccessat(place.tree.root_fd, "d/checkpoints", F_OK, 0) == 0);
}

TEST(tree_refuses_contents_for_a_place_outside)
{
    static const char *const places[] = {"../x", "/etc/x", "a/../../x", ".muster/manifest", "a//b"};
    _cleanup_(place_done) struct place place;

    place_open(&place);
    for (size_t i = 0; i < COUNT_OF(places); i++)
        EXPECT(send_to(&place.tree, places[i], "x") == -EINVAL);
}

TEST(tree_does_not_write_through_links)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {folder("d"), file("d/x", "1")};
    char path[200];
    char outside[64] = "/tmp/muster-outside-XXXXXX";

    place_open(&place);
    EXPECT(mkdtemp(outside) != NULL);
    /* The job itself put a link where a folder of ours will be. */
    (void)snprintf(path, sizeof(path), "%s/d", place.path);
    EXPECT(symlink(outside, path) == 0);
    EXPECT(send(&place.tree, "1") == 0);
    EXPECT(commit(&place.tree, entries, 2, NULL) < 0);
    (void)snprintf(path, sizeof(path), "%s/x", outside);
    EXPECT(access(path, F_OK) < 0);
    (void)rmdir(outside);
}

TEST(tree_takes_a_small_change_by_its_base)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry first[] = {file("a", "1"), file("b", "2")};
    struct ws_entry b = file("b", "22");
    struct delta delta = {0};
    struct hash base;
    struct hash target;

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && send(&place.tree, "2") == 0);
    EXPECT(commit(&place.tree, first, 2, NULL) == 0 && send(&place.tree, "22") == 0);
    base = place.tree.current->revision;
    target =
        hash_plus(hash_minus(hash_minus(base, ws_entry_hash(&first[1])), ws_entry_hash(&first[0])),
                  ws_entry_hash(&b));
    EXPECT(
        delta_frame(&delta,
                    &(struct frame){.type = FRAME_BEGIN, .begin = {.target = target, .base = base}},
                    NULL) == 0);
    EXPECT(delta_frame(&delta, &(struct frame){.type = FRAME_GONE, .path = STR("a")}, NULL) == 0);
    EXPECT(delta_frame(&delta, &(struct frame){.type = FRAME_ENTRY, .entry = b}, NULL) == 0);
    EXPECT(tree_commit(&place.tree, &delta, NULL) == 0);
    EXPECT(holds(&place, "a", NULL) && holds(&place, "b", "22"));
    EXPECT(hash_eq(place.tree.current->revision, target));
    EXPECT(tree_commit(&place.tree, &delta, NULL) == -ESTALE);
    delta_done(&delta);

    /* Another process finds the same revision on disk. */
    tree_done(&place.tree);
    EXPECT(tree_open(&place.tree, place.path, false, NULL) == 0);
    EXPECT(hash_eq(place.tree.current->revision, target));
}

TEST(scan_and_outbox_bring_a_folder_over_unchanged)
{
    _cleanup_(place_done) struct place from;
    _cleanup_(place_done) struct place to;
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf out = {0};
    struct ws_entry first[] = {folder("d"), folder("empty"), file("d/one", "1"), file("two", "2")};
    const struct scan_options options = {0};
    struct outbox outbox;

    place_open(&from);
    place_open(&to);
    EXPECT(send(&from.tree, "1") == 0 && send(&from.tree, "2") == 0);
    EXPECT(commit(&from.tree, first, 4, NULL) == 0);
    EXPECT(scan_folder(from.path, &options, manifest, NULL) == 0);
    EXPECT(outbox_open(&outbox, from.path, manifest, NULL) == 0);
    EXPECT(outbox_next(&outbox, &out, 1 << 20, NULL) == 0);
    outbox_done(&outbox);
    EXPECT(manifest_finish(manifest, NULL) == 0);
    EXPECT(hash_eq(manifest->revision, from.tree.current->revision));
    EXPECT(out.len > 2);
    EXPECT(send(&to.tree, "1") == 0 && send(&to.tree, "2") == 0);
    EXPECT(commit(&to.tree, manifest->entries.items, manifest->entries.count, NULL) == 0);
    EXPECT(holds(&to, "d/one", "1") && holds(&to, "two", "2"));
    EXPECT(hash_eq(to.tree.current->revision, from.tree.current->revision));
}

/* What stands in the file of that name below the place, as a power cut may leave it. */
static void damage(const struct place *place, const char *name, struct str text)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    _cleanup_(disk_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && disk_write(fd, text) == 0);
}

TEST(scan_of_a_path_finds_what_is_there_unless_it_is_ignored)
{
    static const struct {
        const char *path;
        size_t entries;
        int result;
        const char *why;
    } rows[] = {
        {"two", 1, 0, "a file at the top"},
        {"d/one", 1, 0, "one below"},
        {"d", 2, 0, "a folder, with what is in it"},
        {"d/e/three", 0, 0, "in a folder that is gone"},
        {"two/three", 0, 0, "below a file"},
        {"four", 0, 0, "nothing"},
        {"log/one", 0, 0, "in a folder that is ignored"},
        {"log", 0, 0, "that folder itself"},
        {"d/x.tmp", 0, 0, "ignored by the folder that it is in"},
        {"../two", 0, -EINVAL, "outside"},
    };
    _cleanup_(place_done) struct place place;
    struct ws_entry first[] = {
        folder("d"),          folder("log"),        file("d/one", "1"),          file("two", "2"),
        file("log/one", "1"), file("d/x.tmp", "2"), file(".gitignore", "log/\n")};

    place_open(&place);
    EXPECT(send(&place.tree, "1") == 0 && send(&place.tree, "2") == 0);
    EXPECT(send(&place.tree, "log/\n") == 0);
    EXPECT(commit(&place.tree, first, COUNT_OF(first), NULL) == 0);
    damage(&place, "d/.torchrunignore", STR("*.tmp\n.torchrunignore\n"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
        const struct scan_options options = {0};

        test_case(rows[i].why);
        EXPECT(scan_path(place.path, str_from(rows[i].path), &options, manifest, NULL) ==
               rows[i].result);
        EXPECT(manifest->entries.count == rows[i].entries);
    }
}

TEST(after_a_power_cut_a_tree_says_what_is_there)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {file("lost", "one"), file("torn", "two"), file("whole", "three")};
    uint64_t have = 0;

    place_open(&place);
    EXPECT(send(&place.tree, "one") == 0 && send(&place.tree, "two") == 0);
    EXPECT(send(&place.tree, "three") == 0 && commit(&place.tree, entries, 3, NULL) == 0);
    /* In this run of the machine nothing is read again: files that the job changes are its own. */
    damage(&place, "torn", STR("job"));
    reopen(&place);
    EXPECT(tree_has(&place.tree, hash_of(STR("two")), 3, &have));
    damage(&place, "torn", (struct str){"\0\0\0", 3});
    damage(&place, "lost", STR(""));
    damage(&place, WS_PRIVATE_DIR "/boot", STR("another"));
    reopen(&place);
    EXPECT(!tree_has(&place.tree, hash_of(STR("one")), 3, &have));
    EXPECT(!tree_has(&place.tree, hash_of(STR("two")), 3, &have));
    EXPECT(tree_has(&place.tree, hash_of(STR("three")), 5, &have));
    EXPECT(send(&place.tree, "one") == 0 && send(&place.tree, "two") == 0);
    EXPECT(commit(&place.tree, entries, 3, NULL) == 0);
    EXPECT(holds(&place, "lost", "one") && holds(&place, "torn", "two"));
}

TEST(staged_contents_that_a_power_cut_tore_are_sent_again)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {file("a", "one")};
    char name[64] = STAGE_DIR "/";
    uint64_t have = 0;

    place_open(&place);
    EXPECT(send(&place.tree, "one") == 0);
    (void)hash_hex(hash_of(STR("one")), name + strlen(name));
    damage(&place, name, (struct str){"\0\0\0", 3});
    damage(&place, WS_PRIVATE_DIR "/boot", STR("another"));
    reopen(&place);
    EXPECT(!tree_has(&place.tree, hash_of(STR("one")), 3, &have));
    EXPECT(send(&place.tree, "one") == 0 && commit(&place.tree, entries, 1, NULL) == 0);
    EXPECT(holds(&place, "a", "one"));
}

/* A second revision: contents that come under their hash, and one that moves. */
static int take_second(struct place *place)
{
    struct ws_entry second[] = {file("a", "new"), file("b", "old"), file("c", "more")};
    int r = send(&place->tree, "new");

    if (r == 0)
        r = send(&place->tree, "more");
    if (r == 0 && !stage_find(&place->tree.stage, hash_of(STR("old"))) &&
        !tree_locate(&place->tree, hash_of(STR("old")), 3))
        r = send(&place->tree, "old");
    return r == 0 ? commit(&place->tree, second, COUNT_OF(second), NULL) : r;
}

static void take_second_alone(void *user)
{
    struct place *place = user;

    EXPECT(take_second(place) == 0);
}

TEST(a_worker_that_is_killed_at_any_moment_takes_the_revision_when_it_is_back)
{
    int ended = 0;

    for (unsigned steps = 1; ended == 0 && steps < 2000; steps++) {
        _cleanup_(place_done) struct place place;
        struct ws_entry first[] = {file("a", "old"), file("d", "same")};
        char words[32];

        (void)snprintf(words, sizeof(words), "%u steps", steps);
        test_case(words);
        place_open(&place);
        EXPECT(send(&place.tree, "old") == 0 && send(&place.tree, "same") == 0);
        EXPECT(commit(&place.tree, first, COUNT_OF(first), NULL) == 0);
        ended = test_killed(take_second_alone, &place, steps);
        EXPECT(ended >= 0);
        reopen(&place);
        EXPECT(take_second(&place) == 0);
        EXPECT(holds(&place, "a", "new") && holds(&place, "b", "old") &&
               holds(&place, "c", "more"));
        EXPECT(holds(&place, "d", NULL));
    }
    EXPECT(ended == 1);
}

TEST(a_manifest_that_breaks_off_counts_up_to_there)
{
    _cleanup_(place_done) struct place place;
    struct ws_entry entries[] = {file("a", "one"), file("b", "two")};
    char path[200];
    uint64_t have = 0;
    struct stat st;

    place_open(&place);
    EXPECT(send(&place.tree, "one") == 0 && send(&place.tree, "two") == 0);
    EXPECT(commit(&place.tree, entries, 2, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/" WS_PRIVATE_DIR "/manifest", place.path);
    EXPECT(stat(path, &st) == 0 && truncate(path, st.st_size - 3) == 0);
    reopen(&place);
    EXPECT(tree_has(&place.tree, hash_of(STR("one")), 3, &have));
    EXPECT(!tree_has(&place.tree, hash_of(STR("two")), 3, &have));
    EXPECT(send(&place.tree, "two") == 0 && commit(&place.tree, entries, 2, NULL) == 0);
    reopen(&place);
    EXPECT(tree_has(&place.tree, hash_of(STR("two")), 3, &have));
}
