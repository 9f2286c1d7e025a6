#include "api/crd_builtin.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/home.h"
#include "plugin/submit.h"
#include "test.h"
#include "workspace/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

TEST(a_time_is_read_as_people_and_as_sbatch_write_it)
{
    static const struct {
        const char *text;
        int64_t seconds; /* 0: refused */
    } rows[] = {
        {"90m", 5400},
        {"1h30m", 5400},
        {"45s", 45},
        {"90", 5400},
        {"2:30", 150},
        {"2:30:00", 9000},
        {"1-0", 86400},
        {"1-12:30", 131400},
        {"1-12:30:15", 131415},
        {"0", 0},
        {"", 0},
        {"soon", 0},
        {"-5", 0},
        {"1:2:3:4", 0},
        {"1:x", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err err = {0};
        int64_t ms = 0;

        test_case(rows[i].text);
        int r = submit_time(rows[i].text, &ms, &err);
        EXPECT(r == (rows[i].seconds ? 0 : -EINVAL));
        EXPECT(ms == rows[i].seconds * 1000);
    }
}

/* Paths that the schema of TorchrunJobs does not have: the server refuses a job with such a field. */
static struct schema_unknown job_unknown(struct arena *arena, struct json *job)
{
    struct schema_unknown unknown = {0};
    const struct schema *schema = NULL;
    struct json *crd = NULL;

    for (size_t i = 0; i < crd_builtin_count; i++)
        if (strcmp(crd_builtins[i].name, "torchrunjobs.torchrun.ai") == 0)
            EXPECT(json_parse(arena, (struct str){crd_builtins[i].text, crd_builtins[i].text_len},
                              &crd, NULL) == 0);
    EXPECT(schema_compile(arena, json_at(crd, "spec.versions.0.schema.openAPIV3Schema"), &schema,
                          NULL) == 0);
    schema_prune(arena, schema, json_clone(arena, job), &unknown);
    for (size_t i = 0; i < unknown.count; i++)
        printf("unknown field " STR_FMT "\n", STR_ARG(unknown.items[i]));
    return unknown;
}

TEST(every_flag_is_a_field_of_the_job)
{
    static const char *writes[] = {"/data/out"};
    static const char *volumes[] = {"sets:/sets"};
    static const char *after[] = {"first"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct submit_values values = {.queue = "q",
                                   .gpus = 2,
                                   .priority = "high",
                                   .preemptibility = "semi-preemptible",
                                   .time = "2h",
                                   .requeue = true,
                                   .array = "0-9%2",
                                   .notify = "https://chat.example/hook",
                                   .after = {.items = after, .count = 1},
                                   .image = "torch:2",
                                   .memory = "64Gi",
                                   .cpus = "8",
                                   .gpu_type = "NVIDIA-H200",
                                   .writes = {.items = writes, .count = 1},
                                   .volumes = {.items = volumes, .count = 1}};
    struct submit_request request = {.name = "job",
                                     .ns = "ns",
                                     .command = STR("python x.py"),
                                     .folder = "/home/me",
                                     .host = "box",
                                     .record = "5"};
    static const struct {
        const char *path;
        const char *value;
    } rows[] = {
        {"metadata.name", "job"},
        {"metadata.namespace", "ns"},
        {"spec.jobQueue", "q"},
        {"spec.command", "python x.py"},
        {"spec.maxRunTime", "7200s"},
        {"spec.after.0.job", "first"},
        {"spec.array.indexes", "0-9"},
        {"spec.notify.url", "https://chat.example/hook"},
        {"spec.image", "torch:2"},
        {"spec.scheduling.priorityClassName", "high"},
        {"spec.nodeResources.memory", "64Gi"},
        {"spec.nodeResources.cpus", "8"},
        {"spec.nodeResources.gpuType", "NVIDIA-H200"},
        {"spec.volumes.additionalVolumes.0.hostPath.path", "/data/out"},
        {"spec.volumes.additionalMounts.0.mountPath", "/data/out"},
        {"spec.volumes.additionalVolumes.1.persistentVolumeClaim.claimName", "sets"},
        {"spec.volumes.additionalMounts.1.mountPath", "/sets"},
    };
    struct json *job = json_new_object(&arena);
    struct err err = {0};

    EXPECT(submit_job(&arena, &values, &request, job, &err) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].path);
        EXPECT(str_is(json_str_at(job, rows[i].path), rows[i].value));
    }
    EXPECT(job_unknown(&arena, job).count == 0);
    const struct json *annotations = json_at(job, "metadata.annotations");
    EXPECT(str_is(json_str(json_get(annotations, HOME_FOLDER)), "/home/me"));
    EXPECT(str_is(json_str(json_get(annotations, HOME_HOST)), "box"));
    EXPECT(str_is(json_str(json_get(annotations, HOME_RECORD)), "5"));
    EXPECT(str_is(json_str(json_get(annotations, "kai.scheduler/preemptibility")),
                  "semi-preemptible"));

    EXPECT(json_i64_or(json_at(job, "spec.array.limit"), 0) == 2);
    static const char *const wrong[] = {"", "9-0", "0-9%", "0-9%0", "0-9%x", "%2", "0-1000"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        test_case(wrong[i]);
        values.array = wrong[i];
        EXPECT(submit_job(&arena, &values, &request, json_new_object(&arena), &err) == -EINVAL);
    }
    values.array = NULL;

    values.preemptibility = "sometimes";
    EXPECT(submit_job(&arena, &values, &request, json_new_object(&arena), &err) == -EINVAL);
    values.preemptibility = NULL;
    values.writes.items[0] = "data/out";
    EXPECT(submit_job(&arena, &values, &request, json_new_object(&arena), &err) == -EINVAL);
    writes[0] = "/data/out";
    volumes[0] = "sets";
    EXPECT(submit_job(&arena, &values, &request, json_new_object(&arena), &err) == -EINVAL);
}

TEST(what_a_job_waits_for_is_written_as_sbatch_has_it)
{
    static const struct {
        const char *text;
        const char *want; /* NULL: refused */
    } rows[] = {
        {"a", "a+"},
        {"a,b", "a+ b+"},
        {"afterok:a:b,afterany:c", "a+ b+ c*"},
        {"torchrunjob.torchrun.ai/a", "a+"},
        {"afternotok:a", NULL},
        {"afterok:", NULL},
        {"a,,b", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *after = json_new_array(&arena);
        struct err err = {0};
        struct str text = STR_NONE;

        test_case(rows[i].text);
        int r = submit_after(&arena, rows[i].text, after, &err);
        EXPECT(r == (rows[i].want ? 0 : -EINVAL));
        JSON_FOREACH(after, entry)
            text = str_printf(&arena, STR_FMT "%s" STR_FMT "%s", STR_ARG(text), text.len ? " " : "",
                              STR_ARG(json_str(json_get(entry, "job"))),
                              str_is(json_str(json_get(entry, "when")), "Ended") ? "*" : "+");
        EXPECT(r < 0 || str_is(text, rows[i].want));
    }
}

TEST(large_files_are_named_before_they_are_sent)
{
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    const struct ws_entry entries[] = {
        {.path = STR("data"), .type = WS_DIR},
        {.path = STR("data/large"), .type = WS_FILE, .size = UPLOAD_LARGE_BYTES},
        {.path = STR("data/small"), .type = WS_FILE, .size = UPLOAD_LARGE_BYTES - 1},
        {.path = STR("larger"), .type = WS_FILE, .size = 3 * UPLOAD_LARGE_BYTES},
    };
    size_t at = 0;

    for (size_t i = 0; i < COUNT_OF(entries); i++)
        manifest_add(manifest, &entries[i]);
    const struct ws_entry *first = upload_next_large(manifest, &at);
    EXPECT(first && str_is(first->path, "data/large"));
    const struct ws_entry *second = upload_next_large(manifest, &at);
    EXPECT(second && str_is(second->path, "larger"));
    EXPECT(!upload_next_large(manifest, &at));
}

TEST(a_script_by_its_whole_path_is_the_one_that_is_sent)
{
    static const struct {
        const char *why, *command, *sent;
    } rows[] = {
        {"alone", "/home/me/p/train.py", "train.py"},
        {"of Python", "python -u /home/me/p/a/b.py --lr 1 'x y'", "python -u a/b.py --lr 1 'x y'"},
        {"with a variable", "LR=1 python /home/me/p/train.py", "LR=1 python train.py"},
        {"one that is not sent", "python /home/me/p/other.py", NULL},
        {"a folder", "ls /home/me/p/a", NULL},
        {"a neighbour", "python /home/me/pq/train.py", NULL},
        {"somewhere else", "cd /tmp && python /home/me/p/train.py", NULL},
        {"in quotes", "bash -c \"cd /tmp; python /home/me/p/train.py\"", NULL},
        {"in a folder of a variable", "python $X /home/me/p/train.py", NULL},
        {"nothing", "", NULL},
    };
    static const struct ws_entry entries[] = {
        {.path = STR("a"), .type = WS_DIR, .mode = 0755},
        {.path = STR("a/b.py"), .type = WS_FILE, .mode = 0644},
        {.path = STR("train.py"), .type = WS_FILE, .mode = 0644},
    };
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(entries); i++)
        manifest_add(manifest, &entries[i]);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str command = str_from(rows[i].command);

        test_case(rows[i].why);
        EXPECT(str_is(submit_script(&arena, command, "/home/me/p", manifest),
                      rows[i].sent ? rows[i].sent : rows[i].command));
    }
}
