#include "api/gpus.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/job.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(a_jobs_name_is_its_folders_made_fit_for_kubernetes)
{
    static const struct {
        const char *folder;
        const char *name;
    } rows[] = {
        {"my_project", "my-project-x"},
        {"My Project (2)", "my-project-2-x"},
        {"__init__", "init-x"},
        {"2024-runs", "job-2024-runs-x"},
        {"", "job-x"},
        {"...", "job-x"},
        {"a-name-that-is-longer-than-forty-characters-can-hold",
         "a-name-that-is-longer-than-forty-charact-x"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].folder);
        EXPECT(str_is(job_name(&arena, rows[i].folder, "x"), rows[i].name));
    }
}

TEST(one_argument_is_a_command_and_several_are_quoted_words)
{
    static const char *const one[] = {"python train.py | tee log"};
    static const char *const many[] = {"python", "train.py", "--name=it's", "a b", ""};
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT(str_is(job_command(&arena, one, 1), "python train.py | tee log"));
    EXPECT(str_is(job_command(&arena, many, 5), "'python' 'train.py' '--name=it'\\''s' 'a b' ''"));
}

static char *lookup_home(const char *name)
{
    static char home[] = "/home/me";

    return strcmp(name, "HOME") == 0 ? home : NULL;
}

TEST(the_environment_of_a_job_is_given_or_taken_from_here)
{
    static const char *const good[] = {"A=1", "B=", "C=x=y", "HOME"};
    static const char *const bad[] = {"ABSENT", "=x", ""};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *spec = json_new_object(&arena);
    struct err err = {0};

    EXPECT(job_add_env(&arena, spec, good, 4, lookup_home, &err) == 0);
    EXPECT(
        str_is(json_text(&arena, spec),
               "{\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"\"},"
               "{\"name\":\"C\",\"value\":\"x=y\"},{\"name\":\"HOME\",\"value\":\"/home/me\"}]}"));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        test_case(bad[i]);
        EXPECT(job_add_env(&arena, json_new_object(&arena), &bad[i], 1, lookup_home, &err) ==
               -EINVAL);
        EXPECT(str_starts(str_from(err.text), STR("--env: ")));
    }
    spec = json_new_object(&arena);
    EXPECT(job_add_env(&arena, spec, (const char *const[]){"P=pa$$w0rd$(HOME)$1"}, 1, lookup_home,
                       &err) == 0);
    EXPECT(str_is(json_str_at(spec, "env.0.value"), "pa$$$w0rd$$(HOME)$1"));
    spec = json_new_object(&arena);
    EXPECT(job_add_env(&arena, spec, NULL, 0, lookup_home, NULL) == 0);
    EXPECT(!json_get(spec, "env"));
}

TEST(a_job_is_over_when_it_never_runs_again)
{
    static const char *const over[] = {"Succeeded", "Failed", "TimedOut"};
    static const char *const not_over[] = {"", "Pending", "Running", "Suspended", "Restarting"};

    for (size_t i = 0; i < COUNT_OF(over); i++)
        EXPECT(job_is_over(str_from(over[i])));
    for (size_t i = 0; i < COUNT_OF(not_over); i++)
        EXPECT(!job_is_over(str_from(not_over[i])));
}

TEST(a_pod_is_a_jobs_by_its_owner_and_not_by_a_label)
{
#define OWNER(kind, version, more)                                           \
    ",\"ownerReferences\":[{\"apiVersion\":\"" version "\",\"kind\":\"" kind \
    "\",\"name\":\"j\",\"uid\":\"1\"" more "}]"
#define CONTROLLER ",\"controller\":true"
    static const struct {
        const char *why;
        const char *meta;
        bool own;
    } rows[] = {
        {"its controller", OWNER("TorchrunJob", "torchrun.ai/v1alpha1", CONTROLLER), true},
        {"a label", "", false},
        {"any owner", OWNER("TorchrunJob", "torchrun.ai/v1alpha1", ""), false},
        {"another kind", OWNER("PyTorchJob", "kubeflow.org/v1", CONTROLLER), false},
        {"another group", OWNER("TorchrunJob", "else.ai/v1", CONTROLLER), false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text = str_printf(
            &arena, "{\"metadata\":{\"name\":\"p\",\"labels\":{\"torchrun-job-name\":\"j\"}%s}}",
            rows[i].meta);
        _cleanup_(object_unrefp) struct object *pod = NULL;

        test_case(rows[i].why);
        EXPECT(object_new(&kind_pod, text, &pod, NULL) == 0);
        EXPECT(job_owns("j", pod) == rows[i].own);
        EXPECT(!job_owns("jo", pod));
    }
#undef OWNER
#undef CONTROLLER
}

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *json = NULL;

    EXPECT(json_parse(arena, str_from(text), &json, NULL) == 0);
    return json;
}

TEST(gpus_are_counted_as_text_or_as_a_number)
{
    static const struct {
        const char *resources;
        int64_t gpus;
    } rows[] = {
        {"{\"nvidia.com/gpu\":\"8\"}", 8},
        {"{\"nvidia.com/gpu\":4}", 4},
        {"{\"nvidia.com/gpu\":\"x\"}", 0},
        {"{\"cpu\":\"8\"}", 0},
        {"{}", 0},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].resources);
        EXPECT(gpus_of(parse(&arena, rows[i].resources)) == rows[i].gpus);
    }
    EXPECT(gpus_of(NULL) == 0);
}

TEST(the_queue_of_a_job_may_have_its_older_name)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT(
        str_is(job_queue(parse(&arena, "{\"spec\":{\"jobQueue\":\"a\",\"queue\":\"b\"}}")), "a"));
    EXPECT(str_is(job_queue(parse(&arena, "{\"spec\":{\"queue\":\"b\"}}")), "b"));
    EXPECT(job_queue(parse(&arena, "{}")).len == 0);
}

TEST(a_job_awaits_its_folder_until_it_was_told_a_revision)
{
    static const struct {
        const char *annotations;
        bool awaits;
        const char *why;
    } rows[] = {
        {"{\"torchrun.ai/workspace\":\"upload\"}", true, "promised, and not there"},
        {"{\"torchrun.ai/workspace\":\"upload\",\"torchrun.ai/workspace-revision\":\"a1\"}", false,
         "it came"},
        {"{}", false, "nobody promised one"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *job = NULL;

        test_case(rows[i].why);
        EXPECT(object_new(&kind_torchrunjob,
                          str_printf(&arena, "{\"metadata\":{\"name\":\"a\",\"annotations\":%s}}",
                                     rows[i].annotations),
                          &job, NULL) == 0);
        EXPECT(job_awaits_folder(job) == rows[i].awaits);
    }
}

TEST(a_job_may_be_named_as_list_prints_it)
{
    static const struct {
        const char *text;
        const char *job;
    } rows[] = {
        {"a", "a"},
        {"torchrunjob.torchrun.ai/a", "a"},
        {"torchrunjobs.torchrun.ai/a", "a"},
        {"torchrunjob/a", "a"},
        {"torchrunjobs/a", "a"},
        {"pod/a", "pod/a"},
        {"torchrunjob.example.com/a", "torchrunjob.example.com/a"},
        {"torchrunjob", "torchrunjob"},
        {"/a", "/a"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].text);
        EXPECT(strcmp(job_arg(rows[i].text), rows[i].job) == 0);
    }
}
