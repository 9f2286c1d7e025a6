#include "agent/shipped.h"
#include "agent/trash.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Claims of jobs, each with what was sent. */
struct scene {
    char data[64];
    struct trash trash;
    struct shipped_original originals[3];
    size_t count;
};

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){0};
    (void)snprintf(scene->data, sizeof(scene->data), "/tmp/muster-shipped-XXXXXX");
    EXPECT(mkdtemp(scene->data) != NULL);
}

static void scene_write(const struct scene *scene, const char *path, const char *text, mode_t mode)
{
    char whole[256];
    char *slash;

    (void)snprintf(whole, sizeof(whole), "%s/%s", scene->data, path);
    slash = strrchr(whole, '/');
    *slash = '\0';
    EXPECT(files_make_folder(whole, 0755, NULL) == 0);
    *slash = '/';
    int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static void scene_claim(struct scene *scene, const char *ns, const char *name)
{
    struct shipped_original *original = &scene->originals[scene->count++];
    char folder[128];

    (void)snprintf(folder, sizeof(folder), "%s/%s_%s", scene->data, ns, name);
    memcpy(original->folder, folder, sizeof(folder));
    original->namespace_len = strlen(ns) + 1;
    original->changed_ms = 1000 * (int64_t)scene->count;
}

static size_t scene_share(struct scene *scene, int64_t since_ms)
{
    char room[128];

    (void)snprintf(room, sizeof(room), "%s/" SHIPPED_FOLDER, scene->data);
    return shipped_share(scene->originals, scene->count, since_ms, room, &scene->trash);
}

static ino_t scene_file(const struct scene *scene, const char *path)
{
    char whole[256];
    struct stat st;

    (void)snprintf(whole, sizeof(whole), "%s/%s", scene->data, path);
    EXPECT(stat(whole, &st) == 0);
    return st.st_ino;
}

TEST(what_two_jobs_were_sent_is_on_the_disk_once)
{
    static const struct {
        const char *why, *first, *second;
        mode_t mode;
        bool one;
    } rows[] = {
        {"the same", "weights", "weights", 0644, true},
        {"as long, and another", "weights", "wEights", 0644, false},
        {"shorter", "weights", "weight", 0644, false},
        {"of another mode", "weights", "weights", 0600, false},
        {"empty", "", "", 0644, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_claim(&scene, "ns", "a");
        scene_claim(&scene, "ns", "b");
        scene_write(&scene, "ns_a/d/file", rows[i].first, 0644);
        scene_write(&scene, "ns_b/d/file", rows[i].second, rows[i].mode);
        EXPECT(scene_share(&scene, 0) == (rows[i].one ? 1 : 0));
        EXPECT((scene_file(&scene, "ns_a/d/file") == scene_file(&scene, "ns_b/d/file")) ==
               rows[i].one);
        EXPECT(scene_share(&scene, 0) == 0); /* once */
        files_remove(scene.data);
    }
}

TEST(what_is_sent_later_leaves_the_other_job_its_own)
{
    struct scene scene;
    char next[256], place[256], text[16] = "";

    scene_open(&scene);
    scene_claim(&scene, "ns", "a");
    scene_claim(&scene, "ns", "b");
    scene_write(&scene, "ns_a/file", "first", 0644);
    scene_write(&scene, "ns_b/file", "first", 0644);
    EXPECT(scene_share(&scene, 0) == 1);
    /* As a sync pod does it: beside it, and renamed. */
    scene_write(&scene, "ns_b/.muster/new", "later", 0644);
    (void)snprintf(next, sizeof(next), "%s/ns_b/.muster/new", scene.data);
    (void)snprintf(place, sizeof(place), "%s/ns_b/file", scene.data);
    EXPECT(rename(next, place) == 0);
    (void)snprintf(place, sizeof(place), "%s/ns_a/file", scene.data);
    FILE *file = fopen(place, "re");
    EXPECT(file && fread(text, 1, sizeof(text) - 1, file) == 5 && strcmp(text, "first") == 0);
    if (file)
        (void)fclose(file);
    files_remove(scene.data);
}

TEST(only_originals_of_one_namespace_share_and_only_what_was_sent)
{
    struct scene scene;

    scene_open(&scene);
    scene_claim(&scene, "ns", "a");
    scene_claim(&scene, "nsx", "b");
    scene_claim(&scene, "ns", "c");
    for (size_t i = 0; i < 3; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "%s/file", strrchr(scene.originals[i].folder, '/') + 1);
        scene_write(&scene, path, "same", 0644);
        (void)snprintf(path, sizeof(path), "%s/.muster/manifest",
                       strrchr(scene.originals[i].folder, '/') + 1);
        scene_write(&scene, path, "ours", 0644);
    }
    EXPECT(scene_share(&scene, 3000) == 0); /* nothing is newer than the last look */
    EXPECT(scene_share(&scene, 2000) == 1);
    EXPECT(scene_file(&scene, "ns_a/file") == scene_file(&scene, "ns_c/file"));
    EXPECT(scene_file(&scene, "ns_a/file") != scene_file(&scene, "nsx_b/file"));
    EXPECT(scene_file(&scene, "ns_a/.muster/manifest") !=
           scene_file(&scene, "ns_c/.muster/manifest"));
    files_remove(scene.data);
}

#define ROUNDS    30
#define REVISIONS 9
static atomic_bool scene_synced;

/* A sync pod that has one revision after the other, every second the same as the other job's. */
static void *scene_sync(void *user)
{
    const struct scene *scene = user;
    char next[256], place[256], text[32];

    (void)snprintf(next, sizeof(next), "%s/ns_b/new", scene->data);
    (void)snprintf(place, sizeof(place), "%s/ns_b/file", scene->data);
    for (int i = 1; i <= REVISIONS; i++) {
        (void)snprintf(text, sizeof(text), "%08d", i % 2 ? i : 0);
        int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        EXPECT(fd >= 0 && write(fd, text, 8) == 8 && close(fd) == 0);
        EXPECT(rename(next, place) == 0);
    }
    atomic_store(&scene_synced, true);
    return NULL;
}

TEST(a_revision_that_comes_meanwhile_stays)
{
    struct scene scene;
    char place[256];

    scene_open(&scene);
    scene_claim(&scene, "ns", "a");
    scene_claim(&scene, "ns", "b");
    scene_write(&scene, "ns_a/file", "00000000", 0644);
    (void)snprintf(place, sizeof(place), "%s/ns_b/file", scene.data);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        char text[16] = "";

        scene_write(&scene, "ns_b/file", "00000000", 0644);
        atomic_store(&scene_synced, false);
        EXPECT(pthread_create(&thread, NULL, scene_sync, &scene) == 0);
        while (!atomic_load(&scene_synced))
            (void)scene_share(&scene, 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        int fd = open(place, O_RDONLY | O_CLOEXEC);
        EXPECT(fd >= 0 && read(fd, text, sizeof(text) - 1) == 8 && close(fd) == 0);
        EXPECT(strtol(text, NULL, 10) == REVISIONS);
        EXPECT(unlink(place) == 0);
    }
    files_remove(scene.data);
}
