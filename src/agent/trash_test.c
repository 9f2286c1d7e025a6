#include "agent/trash.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEP  1500 /* folders inside each other: their path is longer than any call takes */
#define FILES 300

struct scene {
    char data[32];
    char victim[64];
    struct trash trash;
};

static void scene_open(struct scene *scene)
{
    *scene = (struct scene){0};
    (void)snprintf(scene->data, sizeof(scene->data), "/tmp/muster-trash-XXXXXX");
    EXPECT(mkdtemp(scene->data) != NULL);
    EXPECT(trash_open(&scene->trash, scene->data, NULL) == 0);
    (void)snprintf(scene->victim, sizeof(scene->victim), "%s/victim", scene->data);
    EXPECT(mkdir(scene->victim, 0755) == 0);
}

static void add(const struct scene *scene, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", scene->victim, name);
    EXPECT(files_write(path, STR("x"), 0600, NULL) == 0);
}

static bool there(const struct scene *scene, const char *name)
{
    char path[128];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s", scene->data, name);
    return lstat(path, &st) == 0;
}

TEST(trash_removes_what_is_deep_closed_or_a_link_and_nothing_else)
{
    struct scene scene;
    char path[128];
    scene_open(&scene);
    (void)snprintf(path, sizeof(path), "%s/kept", scene.data);
    EXPECT(files_write(path, STR("x"), 0600, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/link", scene.victim);
    EXPECT(symlink("../kept", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/up", scene.victim);
    EXPECT(symlink("..", path) == 0);
    (void)snprintf(path, sizeof(path), "%s/closed", scene.victim);
    EXPECT(mkdir(path, 0755) == 0);
    add(&scene, "closed/file");
    EXPECT(chmod(path, 0500) == 0);
    int at = open(scene.victim, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEEP && at >= 0; i++) {
        EXPECT(mkdirat(at, "deep", 0755) == 0);
        int next = openat(at, "deep", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    trash_put(&scene.trash, scene.victim);
    EXPECT(!there(&scene, "victim"));
    EXPECT(trash_empty(&scene.trash));
    EXPECT(there(&scene, "kept"));
    files_remove(scene.data);
}

TEST(trash_stops_when_told_and_goes_on_after_a_restart)
{
    struct scene scene;
    scene_open(&scene);
    for (int i = 0; i < FILES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        add(&scene, name);
    }
    trash_put(&scene.trash, scene.victim);
    atomic_store(&scene.trash.stop, true);
    EXPECT(!trash_empty(&scene.trash));
    struct trash next = {0};
    EXPECT(trash_open(&next, scene.data, NULL) == 0);
    EXPECT(trash_empty(&next));
    EXPECT(rmdir(next.folder) == 0);
    files_remove(scene.data);
}
