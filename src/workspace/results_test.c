#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/results.h"
#include "workspace/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A job's folder and the one its results go to, gone afterwards. */
struct place {
    char top[64];
    char job[80];
    char to[80];
};

static void place_done(struct place *place)
{
    (void)disk_remove_path(place->top);
}

static void place_open(struct place *place)
{
    (void)snprintf(place->top, sizeof(place->top), "/tmp/muster-results-XXXXXX");
    EXPECT(mkdtemp(place->top) != NULL);
    (void)snprintf(place->job, sizeof(place->job), "%s/job", place->top);
    (void)snprintf(place->to, sizeof(place->to), "%s/to", place->top);
    EXPECT(mkdir(place->job, 0755) == 0);
}

static void write_file(const char *folder, const char *name, const char *content)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    _cleanup_(disk_closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    EXPECT(fd >= 0 && disk_write(fd, str_from(content)) == 0);
}

static bool has(const char *folder, const char *name, const char *content)
{
    char path[256], text[64] = "";
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    _cleanup_(disk_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    return got >= 0 && strcmp(text, content) == 0;
}

/* Everything that a reader of the folder gets, in one piece. */
static int read_all(const char *folder, const struct results_request *request, struct buf *ret)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct results *results = results_new(fd, request);
    struct err err = {0};
    int r = 1;
    while (r == 1) {
        _cleanup_(buf_done) struct buf out = {0};
        r = results_turn(results, &out, &err);
        EXPECT(out.len <= RESULTS_TURN_BYTES + FRAME_BYTES_MAX);
        buf_add(ret, buf_str(&out));
    }
    results_free(results);
    return r;
}

struct seen {
    struct results_sink *sink; /* may be NULL */
    char files[512];
    char words[1024];
    size_t file_count;
    bool ended;
};

static int see(void *user, const struct frame *frame, struct err *err)
{
    struct seen *seen = user;
    char *to = frame->type == FRAME_GONE ? seen->words : seen->files;
    size_t room = frame->type == FRAME_GONE ? sizeof(seen->words) : sizeof(seen->files);
    struct str text = frame->type == FRAME_GONE    ? frame->path
                      : frame->type == FRAME_ENTRY ? frame->entry.path
                                                   : frame->blob.path;
    seen->ended = frame->type == FRAME_COMMIT;
    if (frame->type == FRAME_COMMIT)
        return 0;
    if (frame->type != FRAME_GONE)
        seen->file_count++;
    size_t len = strlen(to);
    (void)snprintf(to + len, room - len, STR_FMT ";", STR_ARG(text));
    if (frame->type == FRAME_ENTRY && seen->sink)
        return results_put_link(seen->sink, &frame->entry, err);
    return frame->type == FRAME_BLOB && seen->sink ? results_put(seen->sink, &frame->blob, err) : 0;
}

static struct seen look(const char *folder, const struct results_request *request)
{
    _cleanup_(buf_done) struct buf all = {0};
    struct seen seen = {0};
    EXPECT(read_all(folder, request, &all) == 0);
    EXPECT(frame_read_all(buf_str(&all), see, &seen, NULL) == 0);
    EXPECT(seen.ended);
    return seen;
}

/* What the sync service brings, as a worker has it. */
static void ship(const char *folder, const char *path, const char *content)
{
    struct tree tree;
    struct ws_entry entry = {.type = WS_FILE,
                             .path = str_from(path),
                             .mode = 0644,
                             .size = strlen(content),
                             .hash = hash_of(str_from(content))};
    EXPECT(tree_open(&tree, folder, false, NULL) == 0);
    EXPECT(tree_blob(&tree,
                     &(struct frame_blob){.hash = entry.hash,
                                          .size = entry.size,
                                          .mode = 0644,
                                          .bytes = str_from(content)},
                     NULL) == 0);
    struct manifest *target = manifest_new();
    for (size_t i = 0; i < tree.current->entries.count; i++)
        manifest_add(target, &tree.current->entries.items[i]);
    manifest_add(target, &entry);
    EXPECT(manifest_finish(target, NULL) == 0);
    struct delta delta = {0};
    EXPECT(delta_frame(&delta,
                       &(struct frame){
                           .type = FRAME_BEGIN,
                           .begin = {.target = target->revision, .base = tree.current->revision}},
                       NULL) == 0);
    EXPECT(delta_frame(&delta, &(struct frame){.type = FRAME_ENTRY, .entry = entry}, NULL) == 0);
    EXPECT(tree_commit(&tree, &delta, NULL) == 0);
    delta_done(&delta);
    manifest_unref(target);
    tree_done(&tree);
}

TEST(results_are_what_differs_from_what_was_shipped)
{
    _cleanup_(place_done) struct place place;
    char path[128];
    place_open(&place);
    ship(place.job, "train.py", "print(1)");
    ship(place.job, "config", "old");
    EXPECT(look(place.job, &(struct results_request){.list = true}).file_count == 0);
    write_file(place.job, "config", "new"); /* the same size */
    (void)snprintf(path, sizeof(path), "%s/out", place.job);
    EXPECT(mkdir(path, 0755) == 0);
    write_file(place.job, "out/model", "weights");
    (void)snprintf(path, sizeof(path), "%s/__pycache__", place.job);
    EXPECT(mkdir(path, 0755) == 0);
    write_file(place.job, "__pycache__/train.pyc", "x");

    struct seen seen = look(place.job, &(struct results_request){.list = true});
    EXPECT(seen.file_count == 2 && strstr(seen.files, "config;") &&
           strstr(seen.files, "out/model;"));
    EXPECT(!seen.words[0]);
    seen = look(place.job, &(struct results_request){.path = STR("out"), .list = true});
    EXPECT(strcmp(seen.files, "out/model;") == 0);
    seen = look(place.job, &(struct results_request){.path = STR("out/model"), .list = true});
    EXPECT(strcmp(seen.files, "out/model;") == 0);
    seen = look(place.job, &(struct results_request){.path = STR("__pycache__"), .list = true});
    EXPECT(strcmp(seen.files, "__pycache__/train.pyc;") == 0);
}

TEST(results_without_a_manifest_are_everything_and_a_broken_one_hides_nothing_else)
{
    _cleanup_(place_done) struct place place;
    char path[128];
    place_open(&place);
    write_file(place.job, "a", "1");
    write_file(place.job, "empty", "");
    EXPECT(look(place.job, &(struct results_request){0}).file_count == 2);
    (void)snprintf(path, sizeof(path), "%s/.muster", place.job);
    EXPECT(mkdir(path, 0700) == 0);
    write_file(place.job, ".muster/manifest", "no frames at all");
    EXPECT(look(place.job, &(struct results_request){0}).file_count == 2);
}

/* One that nobody changed is read all the same: that takes as many turns as it is long. */
TEST(results_compare_only_so_much_in_a_turn)
{
    enum {
        BYTES = 3 * RESULTS_TURN_HASHED
    };
    _cleanup_(place_done) struct place place;
    char *content = mem_alloc(BYTES + 1);
    struct err err = {0};
    int turns = 0;

    place_open(&place);
    memset(content, 'x', BYTES);
    content[BYTES] = '\0';
    ship(place.job, "large", content);
    mem_free(content);
    int fd = open(place.job, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct results *results = results_new(fd, &(struct results_request){0});
    for (int r = 1; r == 1; turns++) {
        _cleanup_(buf_done) struct buf out = {0};
        r = results_turn(results, &out, &err);
        EXPECT(r >= 0 && out.len < 1024); /* it is what was shipped: nothing of it travels */
    }
    EXPECT(turns >= 3 && turns <= 5);
    results_free(results);
}

/* A reader that follows a link reads the machine's own files; one that opens a pipe hangs. */
TEST(results_never_lead_out_of_the_folder)
{
    _cleanup_(place_done) struct place place;
    char path[128];
    place_open(&place);
    write_file(place.top, "secret", "of the machine");
    (void)snprintf(path, sizeof(path), "%s/file-link", place.job);
    EXPECT(symlink("../secret", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/folder-link", place.job);
    EXPECT(symlink("..", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/pipe", place.job);
    EXPECT(mkfifo(path, 0644) == 0);
    (void)snprintf(path, sizeof(path), "%s/.muster", place.job);
    EXPECT(symlink("..", path) == 0);

    struct seen seen = look(place.job, &(struct results_request){0});
    EXPECT(seen.file_count == 0);
    EXPECT(strstr(seen.words, "file-link is a link that leads out of the folder") &&
           strstr(seen.words, "folder-link is a link that leads out of the folder"));
    EXPECT(strstr(seen.words, "pipe is a pipe"));
    static const char *const outside[] = {"..",
                                          "../secret",
                                          "/etc/passwd",
                                          "folder-link/secret",
                                          "a/../../secret",
                                          ".muster/secret",
                                          "nothing"};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        _cleanup_(buf_done) struct buf all = {0};
        test_case(outside[i]);
        EXPECT(read_all(place.job, &(struct results_request){.path = str_from(outside[i])}, &all) <
               0);
        EXPECT(all.len && !memmem(all.p, all.len, "of the machine", 14));
    }
}

/* latest -> checkpoint-9: as every training library leaves it. */
TEST(links_that_a_job_made_inside_its_folder_come_along)
{
    _cleanup_(place_done) struct place place;
    _cleanup_(buf_done) struct buf all = {0};
    struct results_sink sink;
    struct seen seen = {.sink = &sink};
    char path[128];
    char target[64] = "";

    place_open(&place);
    write_file(place.job, "checkpoint-9", "weights");
    (void)snprintf(path, sizeof(path), "%s/latest", place.job);
    EXPECT(symlink("checkpoint-9", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/out", place.job);
    EXPECT(symlink("/etc", path) == 0);
    EXPECT(read_all(place.job, &(struct results_request){0}, &all) == 0);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    EXPECT(frame_read_all(buf_str(&all), see, &seen, NULL) == 0 && seen.ended);
    EXPECT(results_put_link(
               &sink,
               &(struct ws_entry){.type = WS_LINK, .path = STR("evil"), .target = STR("../../x")},
               NULL) < 0);
    results_sink_done(&sink);
    EXPECT(sink.file_count == 2 && has(place.to, "latest", "weights"));
    (void)snprintf(path, sizeof(path), "%s/latest", place.to);
    EXPECT(readlink(path, target, sizeof(target) - 1) > 0 && strcmp(target, "checkpoint-9") == 0);
    EXPECT(strstr(seen.words, "out is a link that leads out of the folder"));
}

/* Of many files: what says so is large, and goes from memory before the folder is walked. */
TEST(links_as_they_were_shipped_are_no_results)
{
    enum {
        FILES = 20000
    };
    _cleanup_(place_done) struct place place;
    _cleanup_(buf_done) struct buf text = {0};
    char path[128];

    place_open(&place);
    frame_add_entry(&text, &(struct ws_entry){.type = WS_LINK,
                                              .path = STR("data"),
                                              .target = STR("/nowhere/datasets")});
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof(path), "file-%d-which-is-in-another-folder-by-now", i);
        frame_add_entry(&text, &(struct ws_entry){.type = WS_FILE, .path = str_from(path)});
    }
    (void)snprintf(path, sizeof(path), "%s/data", place.job);
    EXPECT(symlink("/nowhere/datasets", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/.muster", place.job);
    EXPECT(mkdir(path, 0700) == 0);
    (void)snprintf(path, sizeof(path), "%s/.muster/manifest", place.job);
    _cleanup_(disk_closep) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && disk_write(fd, buf_str(&text)) == 0);
    struct seen seen = look(place.job, &(struct results_request){.list = true});
    EXPECT(seen.file_count == 0 && !seen.words[0]);
}

TEST(what_is_as_it_was_shipped_can_be_removed_and_the_rest_stays)
{
    _cleanup_(place_done) struct place place;
    struct results_request request = {.list = true, .strip = true};

    place_open(&place);
    ship(place.job, "data", "large");
    ship(place.job, "config", "old");
    write_file(place.job, "config", "new");
    write_file(place.job, "model", "weights");
    EXPECT(look(place.job, &request).file_count == 2);
    EXPECT(!has(place.job, "data", "large"));
    EXPECT(has(place.job, "config", "new") && has(place.job, "model", "weights"));
    EXPECT(look(place.job, &(struct results_request){.list = true}).file_count == 2);
}

/* A checkpoint that is written anew in its place while somebody copies it: half of each would be no checkpoint. */
TEST(a_file_that_is_rewritten_while_it_is_read_does_not_come_and_one_that_grows_does)
{
    enum {
        BYTES = 3 * RESULTS_TURN_BYTES
    };
    static const struct {
        const char *why;
        int flags;
        int size;
        int64_t comes; /* bytes; -1: it does not */
    } rows[] = {
        {"as large as before", O_TRUNC, BYTES, -1},
        {"larger than before", O_TRUNC, BYTES + 64, -1},
        {"shorter than before", O_TRUNC, BYTES / 2, -1},
        {"not all of it, in its place", 0, BYTES / 2, -1},
        {"more of it, behind its end", O_APPEND, 64, BYTES},
    };
    char *content = mem_alloc(BYTES + 65);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(place_done) struct place place;
        struct results_sink sink;
        struct seen seen = {.sink = &sink};
        char path[128];
        struct stat st;

        test_case(rows[i].why);
        place_open(&place);
        memset(content, 'o', BYTES);
        content[BYTES] = '\0';
        write_file(place.job, "model", content);
        EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
        struct results *results = results_new(open(place.job, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                              &(struct results_request){0});
        int r = 1;
        for (int turn = 0; r == 1; turn++) {
            _cleanup_(buf_done) struct buf out = {0};

            r = results_turn(results, &out, NULL);
            EXPECT(frame_read_all(buf_str(&out), see, &seen, NULL) == 0);
            if (turn > 0)
                continue;
            memset(content, 'n', BYTES + 64);
            (void)snprintf(path, sizeof(path), "%s/model", place.job);
            _cleanup_(disk_closep) int fd = open(path, O_WRONLY | O_CLOEXEC | rows[i].flags);
            EXPECT(fd >= 0 && disk_write(fd, (struct str){content, (size_t)rows[i].size}) == 0);
        }
        results_free(results);
        results_sink_done(&sink);
        (void)snprintf(path, sizeof(path), "%s/model", place.to);
        EXPECT(r == 0 && (stat(path, &st) == 0 ? (int64_t)st.st_size : -1) == rows[i].comes);
        EXPECT(sink.cut_count == (rows[i].comes < 0));
        EXPECT((strstr(seen.words, "model ") && strstr(seen.words, RESULTS_MEANWHILE)) ==
               (rows[i].comes < 0));
    }
    mem_free(content);
}

TEST(results_larger_than_a_turn_arrive_whole_and_a_hole_costs_nothing_to_refuse)
{
    _cleanup_(place_done) struct place place;
    _cleanup_(buf_done) struct buf all = {0};
    struct results_sink sink;
    struct seen seen = {.sink = &sink};
    struct stat st;
    char path[128];
    place_open(&place);
    (void)snprintf(path, sizeof(path), "%s/large", place.job);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && ftruncate(fd, 5 << 20) == 0 && pwrite(fd, "end", 3, (5 << 20) - 3) == 3);
    close(fd);
    (void)snprintf(path, sizeof(path), "%s/hole", place.job);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && ftruncate(fd, (off_t)WS_BYTES_MAX + 1) == 0);
    close(fd);
    EXPECT(read_all(place.job, &(struct results_request){0}, &all) == 0);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    EXPECT(frame_read_all(buf_str(&all), see, &seen, NULL) == 0);
    EXPECT(sink.file_count == 1 && sink.cut_count == 0);
    results_sink_done(&sink);
    (void)snprintf(path, sizeof(path), "%s/large", place.to);
    EXPECT(stat(path, &st) == 0 && st.st_size == 5 << 20);
    EXPECT(strstr(seen.words, "hole reports an impossible size"));
}

static int put(struct results_sink *sink, const char *path, const char *content)
{
    return results_put(sink,
                       &(struct frame_blob){.path = str_from(path),
                                            .size = strlen(content),
                                            .mode = 0644,
                                            .bytes = str_from(content)},
                       NULL);
}

TEST(pulled_files_land_in_their_folder_and_nowhere_else)
{
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    char path[128];
    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, true, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/out", place.to);
    EXPECT(symlink("..", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/link", place.to);
    EXPECT(symlink("../evil", path) == 0);
    static const char *const outside[] = {
        "../evil", "/tmp/muster-evil", "a/../../evil", "out/evil", ".muster/x", "", "a//b", "."};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        test_case(outside[i]);
        EXPECT(put(&sink, outside[i], "x") < 0);
    }
    EXPECT(put(&sink, "link", "inside") == 0); /* --force: the link itself is replaced */
    EXPECT(has(place.to, "link", "inside") && !has(place.top, "evil", "inside"));
    results_sink_done(&sink);
    EXPECT(access("/tmp/muster-evil", F_OK) < 0);
}

/* What a data preparation leaves behind. */
TEST(ten_thousand_small_files_arrive_all)
{
    _cleanup_(place_done) struct place place;
    _cleanup_(buf_done) struct buf all = {0};
    struct results_sink sink;
    struct seen seen = {.sink = &sink};
    struct err err = {0};
    char name[128];

    place_open(&place);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "%s/d%d", place.job, i);
        EXPECT(mkdir(name, 0755) == 0);
    }
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(name, sizeof(name), "d%d/f%d", i % 100, i);
        write_file(place.job, name, name);
    }
    EXPECT(read_all(place.job, &(struct results_request){0}, &all) == 0);
    EXPECT(results_sink_open(&sink, place.to, false, &err) == 0);
    EXPECT(frame_read_all(buf_str(&all), see, &seen, &err) == 0 && seen.ended);
    results_sink_done(&sink);
    EXPECT(sink.file_count == 10000 && sink.cut_count == 0);
    EXPECT(has(place.to, "d0/f0", "d0/f0") && has(place.to, "d99/f9999", "d99/f9999"));
}

TEST(pulled_files_replace_nothing_unless_told_to)
{
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    EXPECT(put(&sink, "a/b", "first") == 0 && has(place.to, "a/b", "first"));
    EXPECT(results_exists(sink.root_fd, STR("a/b")) && !results_exists(sink.root_fd, STR("a/c")));
    EXPECT(results_exists(sink.root_fd, STR("a/b/c"))); /* its folder is a file */
    EXPECT(put(&sink, "a/b", "second") == -EEXIST && has(place.to, "a/b", "first"));
    sink.force = true;
    EXPECT(put(&sink, "a/b", "second") == 0 && has(place.to, "a/b", "second"));
    results_sink_done(&sink);
}

static struct results_id id_of(const struct results_sink *sink, const char *name)
{
    struct stat st;

    EXPECT(fstatat(sink->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
    return results_id(&st);
}

/* Between the look and the rename somebody saves the file. */
TEST(only_the_very_file_that_was_looked_at_is_replaced_and_it_is_kept)
{
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    struct results_id seen;

    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    sink.aside = ".job";
    write_file(place.to, "a", "mine");
    seen = id_of(&sink, "a");
    sink.expect = &seen;
    EXPECT(put(&sink, "a", "theirs") == 0 && has(place.to, "a", "theirs"));
    EXPECT(has(place.to, RESULTS_REPLACED "/job/a", "mine"));
    seen = id_of(&sink, "a");
    write_file(place.to, "a", "edited");
    EXPECT(put(&sink, "a", "newer") == 0 && has(place.to, "a", "edited"));
    EXPECT(has(place.to, "a.job", "newer"));
    seen = id_of(&sink, "a.job"); /* it came from the job, and is not kept */
    sink.drop = true;
    EXPECT(put(&sink, "a.job", "newest") == 0 && has(place.to, "a.job", "newest"));
    EXPECT(has(place.to, RESULTS_REPLACED "/job/a", "mine"));
    sink.expect = NULL; /* nothing was there, and now something is */
    write_file(place.to, "b", "mine");
    EXPECT(put(&sink, "b", "theirs") == 0 && has(place.to, "b", "mine"));
    EXPECT(has(place.to, "b.job", "theirs") && sink.file_count == 4);
    results_sink_done(&sink);
}

static void count_same(void *user)
{
    ++*(unsigned *)user;
}

static size_t count_below(const char *folder, const char *prefix)
{
    DIR *dir = opendir(folder);
    size_t count = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[512];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.200s", folder, e->d_name);
        count += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
        count += count_below(path, prefix);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* One file comes in two pieces over one that is kept, and one where nothing was. */
struct copy {
    const struct place *place;
    struct results_id seen;
    bool whole;
};

static void copy_both(void *user)
{
    const struct copy *copy = user;
    struct frame_blob first = {.path = STR("a"), .size = 6, .mode = 0644, .bytes = STR("the")};
    struct frame_blob last = {.path = STR("a"), .size = 6, .offset = 3, .bytes = STR("irs")};
    struct results_sink sink;

    EXPECT(results_sink_open(&sink, copy->place->to, false, NULL) == 0);
    sink.aside = ".job";
    sink.expect = &copy->seen;
    EXPECT(results_put(&sink, &first, NULL) == 0);
    EXPECT(!copy->whole || results_put(&sink, &last, NULL) == 0);
    sink.expect = NULL;
    EXPECT(!copy->whole || put(&sink, "b", "new") == 0);
    if (copy->whole)
        results_sink_done(&sink); /* else it is at work when it ends */
}

TEST(a_copy_that_is_killed_at_any_moment_leaves_nothing_and_loses_nothing)
{
    struct copy copy = {.whole = false};
    int ended = 0;

    for (unsigned steps = 0; ended == 0 && steps < 1000; steps++) {
        _cleanup_(place_done) struct place place;
        struct stat st;
        char path[128];

        place_open(&place);
        copy.place = &place;
        copy.whole = steps > 0;
        EXPECT(mkdir(place.to, 0755) == 0);
        write_file(place.to, "a", "mine");
        (void)snprintf(path, sizeof(path), "%s/a", place.to);
        EXPECT(stat(path, &st) == 0);
        copy.seen = results_id(&st);
        ended = test_killed(copy_both, &copy, copy.whole ? steps : 1000);
        EXPECT(ended >= 0);
        EXPECT(count_below(place.to, ".muster-pull-") == 0);
        EXPECT(has(place.to, "a", "mine") ||
               (has(place.to, "a", "theirs") && has(place.to, RESULTS_REPLACED "/job/a", "mine")));
        ended = copy.whole ? ended : 0;
    }
    EXPECT(ended == 1);
}

TEST(what_a_killed_copy_left_where_it_needs_a_name_goes_with_the_next)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    char name[64];
    int status;
    pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    EXPECT(dead > 0 && waitpid(dead, &status, 0) == dead);
    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    sink.named = true;
    (void)snprintf(name, sizeof(name), ".muster-pull-%d", (int)dead);
    write_file(place.to, name, "cut");
    EXPECT(utimensat(sink.root_fd, name, long_ago, 0) == 0);
    write_file(place.to, ".muster-pull-x", "somebody's"); /* no number: none of ours */
    EXPECT(utimensat(sink.root_fd, ".muster-pull-x", long_ago, 0) == 0);
    (void)snprintf(name, sizeof(name), ".muster-pull-%d", (int)getppid());
    write_file(place.to, name, "at work");
    EXPECT(utimensat(sink.root_fd, name, long_ago, 0) == 0);
    EXPECT(count_below(place.to, ".muster-pull-") == 3);
    EXPECT(put(&sink, "a", "theirs") == 0 && has(place.to, "a", "theirs"));
    EXPECT(count_below(place.to, ".muster-pull-") == 2 && has(place.to, name, "at work"));
    results_sink_done(&sink);
}

TEST(what_comes_beside_a_file_with_the_same_bytes_is_not_needed)
{
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    unsigned same = 0;

    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    sink.aside = ".job";
    sink.twin = "a";
    sink.same = count_same;
    sink.placed_user = &same;
    write_file(place.to, "a", "both");
    EXPECT(put(&sink, "a.job", "both") == 0 && !results_exists(sink.root_fd, STR("a.job")));
    EXPECT(same == 1 && sink.file_count == 0 && sink.cut_count == 0);
    EXPECT(put(&sink, "a.job", "else") == 0 && has(place.to, "a.job", "else"));
    EXPECT(same == 1 && sink.file_count == 1 && has(place.to, "a", "both"));
    results_sink_done(&sink);
}

TEST(pulled_pieces_out_of_order_or_beyond_the_limit_are_refused)
{
    _cleanup_(place_done) struct place place;
    struct results_sink sink;
    struct frame_blob first = {.path = STR("a"), .size = 4, .mode = 04777, .bytes = STR("ab")};
    struct frame_blob far = {.path = STR("a"), .size = 4, .offset = 3, .bytes = STR("d")};
    struct frame_blob much = {.path = STR("a"), .size = 4, .offset = 2, .bytes = STR("cde")};
    struct frame_blob last = {.path = STR("a"), .size = 4, .offset = 2, .bytes = STR("cd")};
    struct stat st;
    char path[128];
    place_open(&place);
    EXPECT(results_sink_open(&sink, place.to, false, NULL) == 0);
    EXPECT(results_put(&sink, &last, NULL) == -EPROTO);
    EXPECT(results_put(&sink, &first, NULL) == 0 && results_put(&sink, &far, NULL) == -EPROTO);
    EXPECT(results_put(&sink, &first, NULL) == 0 && results_put(&sink, &much, NULL) == -EPROTO);
    EXPECT(results_put(&sink, &first, NULL) == 0 && put(&sink, "b", "x") == 0);
    EXPECT(sink.cut_count == 3 && !results_exists(sink.root_fd, STR("a")));
    EXPECT(results_put(&sink, &first, NULL) == 0 && results_put(&sink, &last, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/a", place.to);
    EXPECT(has(place.to, "a", "abcd") && stat(path, &st) == 0 && !(st.st_mode & 07000));
    sink.bytes_max = sink.bytes + 3;
    EXPECT(put(&sink, "c", "four") == -EFBIG && !results_exists(sink.root_fd, STR("c")));
    results_sink_done(&sink);
}
