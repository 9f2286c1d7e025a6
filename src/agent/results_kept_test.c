#include "agent/results_kept.h"
#include "agent/trash.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A data folder, and the volume of a pod that is removed. */
struct scene {
    char data[64];
    struct trash trash;
    struct results_burial burial;
};

static void scene_write(const char *folder, const char *name, size_t bytes)
{
    _cleanup_(buf_done) struct buf text = {0};
    char path[256];

    while (text.len < bytes)
        buf_addc(&text, 'x');
    EXPECT(files_make_folder(folder, 0755, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    EXPECT(files_write(path, buf_str(&text), 0644, NULL) == 0);
}

static void scene_make(struct scene *scene)
{
    *scene = (struct scene){.burial = {.job_uid = "u1", .job_is_there = true}};
    (void)snprintf(scene->data, sizeof(scene->data), "/tmp/muster-results-XXXXXX");
    EXPECT(mkdtemp(scene->data) != NULL);
    EXPECT(trash_open(&scene->trash, scene->data, NULL) == 0);
    (void)snprintf(scene->burial.all, sizeof(scene->burial.all), "%s/results", scene->data);
    (void)snprintf(scene->burial.from, sizeof(scene->burial.from), "%s/volume", scene->data);
}

static void scene_bury(struct scene *scene, const char *generation, const char *file)
{
    scene_write(scene->burial.from, file, 100);
    (void)snprintf(scene->burial.name, sizeof(scene->burial.name), "ns_job-worker-0_%s_%s",
                   generation, scene->burial.job_uid);
    results_burial_run(&scene->burial, &scene->trash);
}

static bool scene_keeps(const struct scene *scene,
                        const char *generation,
                        const char *uid,
                        const char *file)
{
    struct results_kept_request request = {.ns = STR("ns"),
                                           .pod = STR("job-worker-0"),
                                           .generation = str_from(generation),
                                           .job_uid = str_from(uid)};
    int fd = results_kept_open(scene->data, &request);
    bool there = fd >= 0 && faccessat(fd, file, R_OK, 0) == 0;

    if (fd >= 0)
        close(fd);
    return there;
}

TEST(results_of_each_generation_are_kept_while_the_job_is_there)
{
    struct scene scene;

    scene_make(&scene);
    scene_bury(&scene, "0", "first");
    scene_bury(&scene, "1", "second");
    EXPECT(access(scene.burial.from, F_OK) < 0); /* moved, not copied */
    EXPECT(scene_keeps(&scene, "0", "u1", "first"));
    EXPECT(scene_keeps(&scene, "1", "u1", "second"));
    EXPECT(!scene_keeps(&scene, "0", "u2", "first")); /* a namesake's */
    EXPECT(!scene_keeps(&scene, "../results/ns_job-worker-0_0", "u1", "first"));
    EXPECT(!scene_keeps(&scene, "2", "u1", "first"));
    scene.burial.job_is_there = false; /* deleted: so are its files */
    scene_bury(&scene, "2", "third");
    EXPECT(!scene_keeps(&scene, "0", "u1", "first"));
    EXPECT(!scene_keeps(&scene, "1", "u1", "second"));
    EXPECT(!scene_keeps(&scene, "2", "u1", "third"));
    files_remove(scene.data);
}

TEST(results_of_a_job_in_another_namespace_stay)
{
    struct scene scene;

    scene_make(&scene);
    scene_bury(&scene, "0", "first");
    scene.burial.job_is_there = false; /* a pod elsewhere says that this job is its owner */
    (void)snprintf(scene.burial.name, sizeof(scene.burial.name), "n_any_0_u1");
    results_burial_run(&scene.burial, &scene.trash);
    EXPECT(scene_keeps(&scene, "0", "u1", "first"));
    files_remove(scene.data);
}

TEST(results_go_only_when_the_job_is_known_to_be_gone)
{
    struct object *job = NULL;
    struct results_burial own = {.job_uid = "u1"};
    struct results_burial older = {.job_uid = "u0"};

    EXPECT(object_new(&kind_torchrunjob,
                      STR("{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\","
                          "\"metadata\":{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"u1\"}}"),
                      &job, NULL) == 0);
    EXPECT(results_job_is_there(&own, &(struct api_result){.object = job}));
    EXPECT(!results_job_is_there(&older, &(struct api_result){.object = job}));
    EXPECT(!results_job_is_there(&own, &(struct api_result){.code = -ENOENT}));
    EXPECT(results_job_is_there(&own, &(struct api_result){.code = -ECANCELED}));
    EXPECT(results_job_is_there(&own, &(struct api_result){.code = -EIO}));
    object_unref(job);
}

TEST(results_that_are_kept_are_bounded_in_age_count_and_bytes)
{
    static const struct {
        const char *why;
        struct results_kept_limits limits;
        bool left[3];
    } rows[] = {
        {"all fit", {.since_ms = 0, .count = 3, .bytes = 1 << 20}, {true, true, true}},
        {"too old", {.since_ms = 1001500, .count = 3, .bytes = 1 << 20}, {false, false, true}},
        {"too many", {.since_ms = 0, .count = 2, .bytes = 1 << 20}, {false, true, true}},
        {"too large, deep below too", {.count = 3, .bytes = 5000}, {false, false, true}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        scene_make(&scene);
        for (int n = 0; n < 3; n++) {
            struct timespec times[2] = {{.tv_sec = 1000 + n}, {.tv_sec = 1000 + n}};
            char path[256];

            (void)snprintf(path, sizeof(path), "%s/results/ns_p_%d_u/folder/deep", scene.data, n);
            scene_write(path, "file", 4000);
            (void)snprintf(path, sizeof(path), "%s/results/ns_p_%d_u", scene.data, n);
            EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
        }
        results_kept_prune(scene.burial.all, &rows[i].limits, &scene.trash);
        for (int n = 0; n < 3; n++) {
            char path[256];

            (void)snprintf(path, sizeof(path), "%s/results/ns_p_%d_u", scene.data, n);
            EXPECT((access(path, F_OK) == 0) == rows[i].left[n]);
        }
        files_remove(scene.data);
    }
}
