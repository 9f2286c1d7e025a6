#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/manifest.h"
#include "workspace/rules.h"
#include "workspace/scan.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder with files in it, what is sent of it, and what is said. */
struct place {
    char path[64];
    char said[2000];
    struct manifest *sent;
};

static void place_done(struct place *place)
{
    manifest_unref(place->sent);
    (void)disk_remove_path(place->path);
}

static void place_open(struct place *place)
{
    *place = (struct place){.path = "/tmp/muster-rules-XXXXXX"};
    EXPECT(mkdtemp(place->path));
}

static void put(const struct place *place, const char *name, const char *text)
{
    char path[200];
    char *slash;

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    slash = strrchr(path, '/');
    *slash = '\0';
    EXPECT(disk_make_folders(path) == 0);
    *slash = '/';
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    EXPECT(fd >= 0 && disk_write(fd, str_from(text)) == 0);
    close(fd);
}

static void say(struct place *place, const char *format, ...) _printf_(2, 3);
static void say(struct place *place, const char *format, ...)
{
    size_t len = strlen(place->said);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(place->said + len, sizeof(place->said) - len, format, args);
    va_end(args);
}

static void on_left(void *user, const struct rules_left *left)
{
    say(user, STR_FMT "%s by " STR_FMT ": " STR_FMT "\n", STR_ARG(left->path),
        left->folder ? "/" : "", STR_ARG(left->file), STR_ARG(left->rule));
}

static void on_note(void *user, const char *text)
{
    say(user, "%s\n", text);
}

/* Scans the folder `name` of the place. */
static void scan(struct place *place, const char *name, struct scan_options options)
{
    struct err err = {0};
    char path[200];

    (void)snprintf(path, sizeof(path), "%s/%s", place->path, name);
    place->said[0] = '\0';
    manifest_unref(place->sent);
    place->sent = manifest_new();
    options.rules.repository = true;
    options.rules.left = on_left;
    options.rules.note = on_note;
    options.rules.user = place;
    EXPECT(scan_folder(path, &options, place->sent, &err) == 0);
}

static bool sends(const struct place *place, const char *path)
{
    return manifest_find(place->sent, str_from(path)) != NULL;
}

TEST(rules_of_the_repository_hold_in_its_subfolders)
{
    _cleanup_(place_done) struct place place;

    place_open(&place);
    put(&place, ".git/info/exclude", "notes.txt\n");
    put(&place, ".gitignore", "*.pt\n/secret\n/sub/deep/key\n");
    put(&place, "sub/.gitignore", "!keep.pt\n");
    put(&place, "sub/deep/train.py", "");
    put(&place, "sub/deep/model.pt", "");
    put(&place, "sub/deep/keep.pt", "");
    put(&place, "sub/deep/key", "");
    put(&place, "sub/deep/secret", "");
    put(&place, "sub/deep/notes.txt", "");
    scan(&place, "sub/deep", (struct scan_options){0});
    EXPECT(sends(&place, "train.py") && sends(&place, "keep.pt") && sends(&place, "secret"));
    EXPECT(!sends(&place, "model.pt") && !sends(&place, "key") && !sends(&place, "notes.txt"));
    EXPECT(strstr(place.said, "model.pt by .gitignore: *.pt\n"));
    EXPECT(strstr(place.said, "notes.txt by .git/info/exclude: notes.txt\n"));
    /* One path of it, as `sync --watch` looks. */
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/sub/deep", place.path);
    _cleanup_(manifest_unrefp) struct manifest *one = manifest_new();
    EXPECT(scan_path(path, STR("model.pt"), &(struct scan_options){.rules = {.repository = true}},
                     one, NULL) == 0 &&
           one->entries.count == 0);
}

TEST(rules_of_a_repository_do_not_count_in_a_folder_that_they_leave_out)
{
    _cleanup_(place_done) struct place place;

    place_open(&place);
    put(&place, ".git/HEAD", "");
    put(&place, ".gitignore", "/build/\n*.pt\n");
    put(&place, "build/deep/model.pt", "");
    scan(&place, "build/deep", (struct scan_options){0});
    EXPECT(sends(&place, "model.pt"));
    EXPECT(strstr(place.said, "leaves out this very folder"));
}

TEST(rules_of_our_own_leave_out_what_is_nobodys_code)
{
    _cleanup_(place_done) struct place place;
    struct rules_hidden hidden = {.name = ".ssh", .what = "your keys"};
    struct stat st;
    char path[200];

    place_open(&place);
    put(&place, "train.py", "");
    put(&place, ".ssh/id", "");
    put(&place, "project/.ssh/config", "");
    put(&place, "data/muster/store.db", "");
    put(&place, "data/muster/lock", "");
    put(&place, ".venv/pyvenv.cfg", "");
    put(&place, "tools/env/pyvenv.cfg", "");
    put(&place, ".muster-pull-77", "");
    (void)snprintf(path, sizeof(path), "%s/.ssh", place.path);
    EXPECT(stat(path, &st) == 0);
    hidden.device = st.st_dev;
    hidden.inode = st.st_ino;
    struct scan_options options = {.rules = {.hidden = &hidden, .hidden_count = 1}};
    scan(&place, "", options);
    EXPECT(sends(&place, "train.py") && sends(&place, "data") && sends(&place, "tools"));
    EXPECT(!sends(&place, ".ssh") && sends(&place, "project/.ssh/config"));
    EXPECT(!sends(&place, "data/muster") && !sends(&place, ".muster-pull-77"));
    EXPECT(!sends(&place, ".venv") && !sends(&place, "tools/env"));
    EXPECT(strstr(place.said, ".ssh/ by : your keys\n"));
    EXPECT(strstr(place.said, "data/muster/ by : the data folder of a muster\n"));
    EXPECT(strstr(place.said, ".muster-pull-77 by : a copy that was cut\n"));
    /* What is asked for is sent: by a rule, or by the command. */
    put(&place, ".torchrunignore", "!.venv/\n");
    options.rules.command = "exec ./tools/env/bin/python train.py";
    scan(&place, "", options);
    EXPECT(sends(&place, ".venv/pyvenv.cfg") && sends(&place, "tools/env/pyvenv.cfg"));
    options.rules.command = "./mytools/env/bin/python train.py";
    scan(&place, "", options);
    EXPECT(!sends(&place, "tools/env"));
}

TEST(links_out_of_the_folder_are_sent_with_their_whole_path)
{
    _cleanup_(place_done) struct place place;
    const struct ws_entry *entry;
    char path[200];
    char want[200];

    place_open(&place);
    put(&place, "datasets/one", "");
    put(&place, "project/in/train.py", "");
    (void)snprintf(path, sizeof(path), "%s/project/absolute", place.path);
    EXPECT(symlink("/datasets", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/project/in/climbs", place.path);
    EXPECT(symlink("../../datasets", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/project/in/inside", place.path);
    EXPECT(symlink("../absolute", path) == 0);
    scan(&place, "project", (struct scan_options){.links_out = true});
    entry = manifest_find(place.sent, STR("absolute"));
    EXPECT(entry && str_is(entry->target, "/datasets"));
    (void)snprintf(want, sizeof(want), "%s/datasets", place.path);
    entry = manifest_find(place.sent, STR("in/climbs"));
    EXPECT(entry && str_is(entry->target, want));
    entry = manifest_find(place.sent, STR("in/inside"));
    EXPECT(entry && str_is(entry->target, "../absolute"));
    scan(&place, "project", (struct scan_options){0});
    EXPECT(!sends(&place, "absolute") && !sends(&place, "in/climbs") && sends(&place, "in/inside"));
    EXPECT(strstr(place.said, "absolute: a link that points outside"));
}

TEST(a_link_out_of_the_folder_is_sent_though_git_is_not_to_know_it)
{
    _cleanup_(place_done) struct place place;
    const struct scan_options options = {.links_out = true};
    char path[200];

    place_open(&place);
    put(&place, "project/.gitignore", "data\nmodels\nhere\n");
    put(&place, "project/.torchrunignore", "models\n");
    put(&place, "project/train.py", "");
    (void)snprintf(path, sizeof(path), "%s/project/data", place.path);
    EXPECT(symlink("/datasets", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/project/models", place.path);
    EXPECT(symlink("/models", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/project/here", place.path);
    EXPECT(symlink("train.py", path) == 0);
    scan(&place, "project", options);
    EXPECT(sends(&place, "data") && !strstr(place.said, "data by"));
    EXPECT(!sends(&place, "models") && strstr(place.said, "models by .torchrunignore: models"));
    EXPECT(!sends(&place, "here") && strstr(place.said, "here by .gitignore: here"));
}

/* As somebody who is not root, to whom everything is readable. */
static int scan_as_nobody(struct place *place)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) < 0)
            _exit(9);
        scan(place, "", (struct scan_options){0});
        bool said = strstr(place->said, "locked: the folder cannot be read") &&
                    strstr(place->said, "key: the file cannot be read");
        _exit(sends(place, "train.py") && !sends(place, "key") && !sends(place, "locked") && said
                  ? 0
                  : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}

TEST(what_cannot_be_read_is_left_out_and_named)
{
    _cleanup_(place_done) struct place place;
    char path[200];

    place_open(&place);
    put(&place, "train.py", "");
    put(&place, "key", "");
    put(&place, "locked/one", "");
    EXPECT(chmod(place.path, 0755) == 0);
    (void)snprintf(path, sizeof(path), "%s/key", place.path);
    EXPECT(chmod(path, 0000) == 0);
    (void)snprintf(path, sizeof(path), "%s/locked", place.path);
    EXPECT(chmod(path, 0000) == 0);
    EXPECT(scan_as_nobody(&place) == 0);
    EXPECT(chmod(path, 0755) == 0);
}
