#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "workspace/disk.h"
#include "workspace/manifest.h"
#include "workspace/source.h"
#include "workspace/tree.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is fetched from elsewhere, with a program "aws" that the test wrote. */
struct place {
    char path[64];
    char root[80];
    char *paths; /* as they were */
    char notes[256];
    struct tree tree;
};

/* aws s3 sync --quiet URL FOLDER. */
static const char aws[] = "#!/bin/sh\n"
                          "mkdir \"$5/sub\" && echo one > \"$5/a\" && echo two > \"$5/sub/b\"\n"
                          "ln -s /etc/passwd \"$5/out\"\n"
                          "case $4 in */denied/) exit 3;; esac\n"
                          "case $4 in */lost/) rm -r \"$5/../stage\";; esac\n";

static void place_open(struct place *place)
{
    char program[80], paths[4096];

    *place = (struct place){.path = "/tmp/muster-source-XXXXXX"};
    EXPECT(mkdtemp(place->path));
    (void)snprintf(program, sizeof(program), "%s/aws", place->path);
    FILE *file = fopen(program, "we");
    EXPECT(file && fputs(aws, file) >= 0 && fclose(file) == 0 && chmod(program, 0755) == 0);
    place->paths = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    (void)snprintf(paths, sizeof(paths), "%s:%s", place->path, place->paths);
    EXPECT(setenv("PATH", paths, 1) == 0);
    (void)snprintf(place->root, sizeof(place->root), "%s/root", place->path);
    EXPECT(mkdir(place->root, 0700) == 0 && tree_open(&place->tree, place->root, false, NULL) == 0);
}

static void place_close(struct place *place)
{
    tree_done(&place->tree);
    EXPECT(setenv("PATH", place->paths, 1) == 0);
    free(place->paths);
    (void)disk_remove_path(place->path);
}

static void note(void *user, const char *text)
{
    struct place *place = user;

    (void)snprintf(place->notes, sizeof(place->notes), "%s", text);
}

static int fetch(struct place *place, const char *url, struct err *err)
{
    return source_fetch(&place->tree, place->root,
                        &(struct source){.kind = "s3", .url = url, .note = note, .user = place},
                        err);
}

static bool has(const struct place *place, const char *name)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/%s", place->root, name);
    return access(path, F_OK) == 0;
}

TEST(a_source_becomes_the_first_revision_without_links_that_lead_out)
{
    struct place place;
    struct err err = {0};

    place_open(&place);
    EXPECT(fetch(&place, "s3://bucket/good/", &err) == 0);
    EXPECT(place.tree.current->entries.count == 3); /* a, sub, sub/b */
    EXPECT(has(&place, "a") && has(&place, "sub/b") && !has(&place, "out"));
    EXPECT(strstr(place.notes, "out: a link that points outside"));
    EXPECT(!has(&place, WS_PRIVATE_DIR "/source"));
    place_close(&place);
}

TEST(a_source_that_cannot_be_fetched_or_kept_is_no_revision_and_says_why)
{
    struct place place;
    struct err err = {0};

    place_open(&place);
    EXPECT(fetch(&place, "s3://bucket/denied/", &err) < 0);
    EXPECT(strstr(err.text, "fetching s3://bucket/denied/ failed with status 3"));
    EXPECT(fetch(&place, "s3://bucket/lost/", &err) < 0); /* the place for contents is gone */
    EXPECT(str_starts(str_from(err.text), STR("content ")));
    EXPECT(strstr(err.text, "No such file"));
    EXPECT(!place.tree.current->entries.count && !has(&place, "a"));
    place_close(&place);
}
