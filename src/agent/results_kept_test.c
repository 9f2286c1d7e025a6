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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UPLOAD "\"torchrun.ai/workspace\":\"upload\""
#define ENDED  "\"completionTime\":\"2001-09-09T01:46:40Z\""

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

/* Whoever is given a namespace whose name another one had. */
TEST(results_of_an_earlier_namespace_are_not_those_of_the_next)
{
    struct scene scene;
    struct results_kept_request request = {.ns = STR("ns"), .pod = STR("job-worker-0")};
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char kept[128];
    static const struct {
        const char *generation, *uid;
        int64_t since_ms;
        bool there;
    } rows[] = {
        {"0", "u1", 0, true},          {"0", "u1", 1000900, true},
        {"0", "u1", 1001000, false},   {"newest", "u1", 1001000, false},
        {"newest", "", 1000000, true}, {"newest", "", 1001000, false},
    };

    scene_make(&scene);
    scene_bury(&scene, "0", "first");
    (void)snprintf(kept, sizeof(kept), "%s/results/ns_job-worker-0_0_u1", scene.data);
    EXPECT(utimensat(AT_FDCWD, kept, times, 0) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].generation);
        request.generation = str_from(rows[i].generation);
        request.job_uid = str_from(rows[i].uid);
        request.since_ms = rows[i].since_ms;
        int fd = results_kept_open(scene.data, &request);
        EXPECT((fd >= 0) == rows[i].there);
        if (fd >= 0)
            close(fd);
    }
    files_remove(scene.data);
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
    EXPECT(scene_keeps(&scene, "newest", "u1", "second")); /* by number, not by the clock */
    EXPECT(scene_keeps(&scene, "newest", "", "second") && scene_keeps(&scene, "0", "", "first"));
    EXPECT(!scene_keeps(&scene, "newest", "u2", "second"));
    scene.burial.job_is_there = false; /* deleted, and nobody has said that its files may go */
    scene_bury(&scene, "2", "third");
    EXPECT(scene_keeps(&scene, "0", "u1", "first") && scene_keeps(&scene, "2", "u1", "third"));
    scene.burial.settled = true; /* they are at home, or not wanted */
    scene_bury(&scene, "2", "third");
    EXPECT(!scene_keeps(&scene, "0", "u1", "first"));
    EXPECT(!scene_keeps(&scene, "1", "u1", "second"));
    EXPECT(!scene_keeps(&scene, "2", "u1", "third"));
    files_remove(scene.data);
}

/* A member of an elastic job is replaced within its generation. */
TEST(what_a_pod_wrote_stays_when_one_of_its_name_and_generation_comes_after_it)
{
    struct scene scene;

    scene_make(&scene);
    scene_bury(&scene, "0", "first");
    scene_bury(&scene, "0", "second");
    EXPECT(scene_keeps(&scene, "0", "u1", "second"));
    EXPECT(scene_keeps(&scene, "0", "u1", RESULTS_EARLIER "1/first"));
    scene_bury(&scene, "0", RESULTS_EARLIER "1"); /* a file of its own */
    EXPECT(scene_keeps(&scene, "0", "u1", RESULTS_EARLIER "1"));
    EXPECT(scene_keeps(&scene, "0", "u1", RESULTS_EARLIER "2/" RESULTS_EARLIER "1/first"));
    files_remove(scene.data);
}

TEST(results_of_a_job_in_another_namespace_stay)
{
    struct scene scene;

    scene_make(&scene);
    scene_bury(&scene, "0", "first");
    scene.burial.job_is_there = false; /* a pod elsewhere says that this job is its owner */
    scene.burial.settled = true;
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

TEST(of_a_pod_that_wrote_nothing_nothing_is_kept)
{
    struct scene scene;
    char path[1024];

    scene_make(&scene);
    EXPECT(files_make_folder(scene.burial.from, 0755, NULL) == 0);
    (void)snprintf(scene.burial.name, sizeof(scene.burial.name), "ns_job-worker-0_0_u1");
    results_burial_run(&scene.burial, &scene.trash);
    (void)snprintf(path, sizeof(path), "%s/results/%s", scene.data, scene.burial.name);
    EXPECT(access(path, F_OK) < 0);
    files_remove(scene.data);
}

/* Of one who sent a folder, when its job is over; a job that waits or is suspended needs it again. */
TEST(what_was_shipped_goes_from_the_claim_of_a_job_that_is_over)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *status;
        const char *uid;
        bool done;
    } rows[] = {
        {"it is over", UPLOAD, ENDED, "u1", true},
        {"it runs, or is suspended", UPLOAD, "", "u1", false},
        {"its files came from elsewhere", "", ENDED, "u1", false},
        {"another job of that name", UPLOAD, ENDED, "u0", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct results_burial burial = {.claim = true};
        struct object *job = NULL;
        char text[512];

        test_case(rows[i].why);
        (void)snprintf(burial.job_uid, sizeof(burial.job_uid), "%s", rows[i].uid);
        (void)snprintf(text, sizeof(text),
                       "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\","
                       "\"metadata\":{\"name\":\"job\",\"namespace\":\"ns\",\"uid\":\"u1\","
                       "\"annotations\":{%s}},\"status\":{%s}}",
                       rows[i].annotations, rows[i].status);
        EXPECT(object_new(&kind_torchrunjob, str_from(text), &job, NULL) == 0);
        EXPECT(results_claim_is_done(&burial, &(struct api_result){.object = job}) == rows[i].done);
        object_unref(job);
    }
    EXPECT(!results_claim_is_done(&(struct results_burial){.job_uid = "u1"},
                                  &(struct api_result){.code = -ENOENT}));
}

TEST(a_claim_and_an_ended_pod_stay_in_their_place_with_what_was_written)
{
    struct scene scene;

    for (int claim = 0; claim < 2; claim++) {
        char path[RESULTS_KEPT_PATH + 8];

        scene_make(&scene);
        scene.burial.claim = claim;
        scene.burial.strip = true;
        scene_bury(&scene, "0", "model");
        (void)snprintf(path, sizeof(path), "%s/model", scene.burial.from);
        EXPECT(access(path, F_OK) == 0 && !scene_keeps(&scene, "0", "u1", "model"));
        files_remove(scene.data);
    }
}

/* The table of docs/results.md, as the node sees it: what becomes of a folder when its pod goes. */
TEST(whatever_ends_a_job_what_its_pods_wrote_is_kept_until_somebody_has_it)
{
    static const struct {
        const char *why;
        bool job_is_there;
        bool settled;
        bool kept;
    } rows[] = {
        {"success, and its pods are cleaned up", true, false, true},
        {"success, all of it came home, and its pods are cleaned up", true, true, true},
        {"failure, and another try", true, false, true},
        {"time limit or deadline: its pods are told to end", true, false, true},
        {"preemption: it waits for another place", true, false, true},
        {"suspended", true, false, true},
        {"cancelled before its last words came home", false, false, true},
        {"deleted by somebody who asked nobody", false, false, true},
        {"its time to live is over", false, false, true},
        {"its queue, its user or its namespace was removed", false, false, true},
        {"deleted or out of time, and all of it came home", false, true, false},
        {"deleted by its owner, who was told what goes", false, true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        scene_make(&scene);
        scene.burial.job_is_there = rows[i].job_is_there;
        scene.burial.settled = rows[i].settled;
        scene_bury(&scene, "0", "model");
        EXPECT(scene_keeps(&scene, "newest", "u1", "model") == rows[i].kept);
        files_remove(scene.data);
    }
}

#define DAY RESULTS_KEPT_DAY_MS

/* Some bytes of a namespace, kept so many days ago. */
static void scene_keep(struct scene *scene, const char *name, int64_t now_ms, int days)
{
    struct timespec times[2] = {{.tv_sec = (now_ms - days * DAY) / 1000},
                                {.tv_sec = (now_ms - days * DAY) / 1000}};
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/results/%s/folder/deep", scene->data, name);
    scene_write(path, "file", 4000);
    (void)snprintf(path, sizeof(path), "%s/results/%s", scene->data, name);
    EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static bool scene_has(const struct scene *scene, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/results/%s", scene->data, name);
    return access(path, F_OK) == 0;
}

TEST(results_go_by_age_and_bytes_of_a_namespace_a_day_after_that_was_said)
{
    const int64_t now = 20000 * DAY;
    struct results_said said[RESULTS_KEPT_SAID_MAX];
    struct results_kept_limits limits = {.now_ms = now, .bytes = 10000}; /* two of them */
    struct scene scene;

    scene_make(&scene);
    scene_keep(&scene, "a_p_0_u", now, 3);
    scene_keep(&scene, "a_p_1_u", now, 2);
    scene_keep(&scene, "a_p_2_u", now, 0);
    scene_keep(&scene, "b_p_0_u", now, 5); /* alone in its namespace */
    EXPECT(results_kept_prune(scene.burial.all, &limits, said, &scene.trash) == 1);
    EXPECT(strcmp(said[0].name, "a_p_0_u") == 0 && said[0].too_much);
    EXPECT(scene_has(&scene, "a_p_0_u")); /* named, not gone */
    limits.now_ms = now + DAY - 1000;
    EXPECT(results_kept_prune(scene.burial.all, &limits, said, &scene.trash) == 0);
    EXPECT(scene_has(&scene, "a_p_0_u"));
    limits.now_ms = now + DAY;
    EXPECT(results_kept_prune(scene.burial.all, &limits, said, &scene.trash) == 1);
    EXPECT(strcmp(said[0].name, "b_p_0_u") == 0 && !said[0].too_much); /* six days old */
    EXPECT(!scene_has(&scene, "a_p_0_u") && scene_has(&scene, "a_p_1_u"));
    limits.now_ms = now + 2 * DAY;
    (void)results_kept_prune(scene.burial.all, &limits, said, &scene.trash);
    EXPECT(!scene_has(&scene, "b_p_0_u") && scene_has(&scene, "a_p_2_u"));
    files_remove(scene.data);
}

TEST(results_younger_than_a_day_stay_however_many_there_are)
{
    const int64_t now = 20000 * DAY;
    struct results_said said[RESULTS_KEPT_SAID_MAX];
    struct results_kept_limits limits = {.now_ms = now, .bytes = 1};
    struct scene scene;

    scene_make(&scene);
    scene_keep(&scene, "a_p_0_u", now, 0);
    scene_keep(&scene, "a_p_1_u", now, 0);
    EXPECT(results_kept_prune(scene.burial.all, &limits, said, &scene.trash) == 2);
    limits.now_ms = now + DAY - 1000;
    EXPECT(results_kept_prune(scene.burial.all, &limits, said, &scene.trash) == 0);
    EXPECT(scene_has(&scene, "a_p_0_u") && scene_has(&scene, "a_p_1_u"));
    files_remove(scene.data);
}
