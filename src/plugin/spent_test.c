#include "api/account.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/spent.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HOUR 3600000LL

/* Two hours: half an hour of waiting, then training on 4 GPUs of two nodes. */
static void write_job(struct buf *out, const char *uid, const char *name, const char *queue)
{
    struct spent spent = {.uid = str_from(uid),
                          .kind = STR("TorchrunJob"),
                          .ns = STR("team"),
                          .name = str_from(name),
                          .queue = str_from(queue),
                          .user = STR("ann")};

    (void)spent_add_node(&spent, STR("n1"));
    (void)spent_add_node(&spent, STR("n2"));
    (void)spent_add_node(&spent, STR("n1"));
    (void)account_note(&spent.account, (struct account_event){HOUR, 4, ACCOUNT_QUEUED, 0});
    spent_write(out, &spent); /* as it was then: the next line counts */
    (void)account_note(&spent.account,
                       (struct account_event){HOUR + HOUR / 2, 4, ACCOUNT_TRAINING, 0});
    spent.account.end_ms = 3 * HOUR;
    spent_write(out, &spent);
}

TEST(report_of_queues_adds_up_to_all_time)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct spent_options options = {.by = SPENT_BY_QUEUE, .until_ms = 9 * HOUR};

    write_job(&text, "1", "a", "blue");
    write_job(&text, "2", "b", "blue");
    write_job(&text, "3", "c", "red");
    buf_add(&text, STR("{\"cut"));
    EXPECT(spent_report(&out, &arena, buf_str(&text), &options) == 2);
    EXPECT(str_is(buf_str(&out),
                  "QUEUE   NAMESPACE   JOBS   GPU-H   QUEUED   STARTING   TRAINING   SAVING   "
                  "HUNG   RECOMPUTING   IDLE   ETTR%\n"
                  "blue    team        2      12.0    4.0      0.0        12.0       0.0      "
                  "0.0    0.0           0.0    75.0\n"
                  "red     team        1      6.0     2.0      0.0        6.0        0.0      "
                  "0.0    0.0           0.0    75.0\n"
                  "(all)   -           3      18.0    6.0      0.0        18.0       0.0      "
                  "0.0    0.0           0.0    75.0\n"));
}

TEST(report_of_nodes_users_and_windows)
{
    static const struct {
        const char *why;
        enum spent_by by;
        int64_t from_ms;
        const char *words;
    } rows[] = {
        {"a node has its part, waiting is nobody's", SPENT_BY_NODE, 0,
         "\nn1,1,0.000,0.000,10800.000,"},
        {"waiting", SPENT_BY_NODE, 0, "\n(none),1,7200.000,0.000,0.000,"},
        {"a user", SPENT_BY_USER, 0, "\nann,1,7200.000,0.000,21600.000,"},
        {"a job", SPENT_BY_JOB, 0, "\nteam/a,1,"},
        {"and what it held, whose it is", SPENT_BY_JOB, 0, ",0,21600.000,team,blue,ann\n"},
        {"a queue is its namespace's", SPENT_BY_QUEUE, 0, ",0,21600.000,team\n"},
        {"the last half hour alone", SPENT_BY_QUEUE, 2 * HOUR + HOUR / 2,
         "\nblue,1,0.000,0.000,7200.000,"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf text = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct spent_options options = {
            .by = rows[i].by, .form = SPENT_CSV, .from_ms = rows[i].from_ms, .until_ms = 9 * HOUR};

        test_case(rows[i].why);
        write_job(&text, "1", "a", "blue");
        (void)spent_report(&out, &arena, buf_str(&text), &options);
        EXPECT(str_contains(buf_str(&out), str_from(rows[i].words)));
    }
}

TEST(queues_of_one_name_are_as_many_as_there_are_namespaces)
{
    static const struct {
        const char *kind;
        const char *says; /* of both jobs */
    } rows[] = {
        {"TorchrunJob", "default,1,7200.000,0.000,0.000,0.000,0.000,0.000,0.000,3600.000,0.000,"
                        "0.000,0.000,0.000,0.000,0.000,0.000,0,0.000,ann\ndefault,1,"},
        {"PyTorchJob", "default,2,14400.000,"}, /* in a queue of the cluster */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf text = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct spent_options options = {
            .by = SPENT_BY_QUEUE, .form = SPENT_CSV, .until_ms = 2 * HOUR};
        struct spent spent = {.kind = str_from(rows[i].kind),
                              .name = STR("a"),
                              .queue = STR("default"),
                              .user = STR("u")};

        test_case(rows[i].kind);
        (void)account_note(&spent.account, (struct account_event){HOUR, 2, ACCOUNT_QUEUED, 0});
        spent.uid = spent.ns = STR("ann");
        spent_write(&text, &spent);
        spent.uid = spent.ns = STR("bob");
        spent_write(&text, &spent);
        (void)spent_report(&out, &arena, buf_str(&text), &options);
        EXPECT(str_contains(buf_str(&out), str_from(rows[i].says)));
    }
}

TEST(report_as_csv_quotes_what_is_no_plain_field)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct spent_options options = {.by = SPENT_BY_QUEUE, .form = SPENT_CSV, .until_ms = 9 * HOUR};

    write_job(&text, "1", "a", "so \"red\", and\nblue");
    (void)spent_report(&out, &arena, buf_str(&text), &options);
    EXPECT(str_contains(buf_str(&out), STR("\n\"so \"\"red\"\", and\nblue\",1,7200.000,")));
}

TEST(gpus_of_a_job_that_nobody_can_have_are_bounded)
{
    static const char *const specs[] = {
        "{\"spec\":{\"numGPUs\":9223372036854775807}}",
        "{\"spec\":{\"pytorchReplicaSpecs\":{\"Worker\":{\"replicas\":9223372036854775807,"
        "\"template\":{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":"
        "\"9223372036854775807\"}}},{\"resources\":{\"limits\":{\"nvidia.com/gpu\":"
        "\"9223372036854775807\"}}}]}}}}}}",
    };

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *job = NULL;

        EXPECT(json_parse(&arena, str_from(specs[i]), &job, NULL) == 0);
        EXPECT(spent_gpus(job) == ACCOUNT_GPUS_MAX);
    }
}

TEST(report_of_a_status_that_nobody_watched)
{
    struct spent_state state;
    _cleanup_(arena_done) struct arena arena = {0};
    struct spent spent = {0};
    struct json *job = NULL;

    EXPECT(json_parse(
               &arena,
               STR("{\"metadata\":{\"uid\":\"7\",\"name\":\"j\",\"namespace\":\"ns\","
                   "\"labels\":{\"user\":\"forged\"},"
                   "\"creationTimestamp\":\"1970-01-01T01:00:00Z\"},\"spec\":{"
                   "\"pytorchReplicaSpecs\":{\"Worker\":{\"replicas\":3,\"template\":{\"spec\":{"
                   "\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}}}},"
                   "\"status\":{\"phase\":\"Succeeded\",\"startTime\":\"1970-01-01T01:30:00Z\","
                   "\"completionTime\":\"1970-01-01T03:00:00Z\"}}"),
               &job, NULL) == 0);
    spent_describe(&spent, &kind_torchrunjob, job);
    spent_state_read(&kind_torchrunjob, job, &state);
    spent_from_status(&spent, job, &state, 9 * HOUR);
    EXPECT(spent_gpus(job) == 6 && spent.account.end_ms == 3 * HOUR);
    EXPECT(str_is(spent.queue, "default-queue") && str_is(spent.user, "ns"));
    EXPECT(str_is(spent_words(&arena, &spent, 9 * HOUR), "queued 30m, training 90m: ETTR 75.0 %"));
}

TEST(accounts_that_are_too_long_keep_the_last_line_of_the_newer_jobs)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct spent spent;
    size_t jobs = 0;

    while (text.len <= SPENT_BYTES_MAX + 1000) {
        char uid[32];

        (void)snprintf(uid, sizeof(uid), "uid-%zu", jobs++);
        write_job(&text, uid, "a", "blue");
    }
    struct str kept = spent_trim(&arena, buf_str(&text));
    struct str line;
    size_t lines = 0;
    EXPECT(kept.len <= SPENT_BYTES_MAX / 2 + 1 && kept.len > SPENT_BYTES_MAX / 4);
    while (str_cut(&kept, '\n', &line))
        if (line.len && lines++ == 0) {
            EXPECT(spent_read(&arena, line, &spent));
            EXPECT(spent.account.end_ms == 3 * HOUR && !str_is(spent.uid, "uid-0"));
        }
    EXPECT(lines > 1000 && lines < jobs);
}

static struct json *parsed(struct arena *arena, const char *text)
{
    char *copy = ARENA_ARRAY(arena, char, str_from(text).len + 1);
    struct json *json = NULL;

    for (size_t i = 0; text[i]; i++)
        copy[i] = text[i] == '\'' ? '"' : text[i];
    EXPECT(json_parse(arena, (struct str){copy, str_from(text).len}, &json, NULL) == 0);
    return json;
}

#define TWO_GPUS \
    "'template':{'spec':{'containers':[{'resources':{'limits':{'nvidia.com/gpu':2}}}]}}"

TEST(gpus_of_kinds_that_are_made_of_others)
{
    static const struct {
        const char *why;
        const char *spec;
        int64_t gpus;
    } rows[] = {
        {"a Job has one pod", "{" TWO_GPUS "}", 2},
        {"or as many at a time as it says", "{'parallelism':3,'completions':9," TWO_GPUS "}", 6},
        {"but not more than are to be completed", "{'parallelism':9,'completions':3," TWO_GPUS "}",
         6},
        {"a JobSet has those of all Jobs",
         "{'replicatedJobs':[{'replicas':2,'template':{'spec':{'parallelism':3," TWO_GPUS
         "}}},{'template':{'spec':{" TWO_GPUS "}}}]}",
         14},
        {"a TrainJob says what a node has",
         "{'trainer':{'numNodes':4,'resourcesPerNode':{'requests':{'nvidia.com/gpu':'8'}}}}", 32},
        {"a PyTorchTrainingJob has a list of roles",
         "{'replicaSpecs':[{'replicas':3," TWO_GPUS "}]}", 6},
        {"or none", "{'parallelism':3}", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *job = json_new_object(&arena);

        test_case(rows[i].why);
        (void)json_set(job, STR("spec"), parsed(&arena, rows[i].spec));
        EXPECT(spent_gpus(job) == rows[i].gpus);
        EXPECT(spent_is_counted(&kind_job, job) == (rows[i].gpus > 0));
        EXPECT(spent_is_counted(&kind_jobset, job));
        EXPECT(spent_is_counted(&kind_torchrunjob, job));
        (void)json_set(json_get(job, "spec"), STR("array"), json_new_object(&arena));
        EXPECT(!spent_is_counted(&kind_torchrunjob, job)); /* its jobs are */
    }
}

TEST(states_of_kinds_that_have_no_phase)
{
    static const struct {
        const char *why;
        const char *job;
        const char *phase;
        int64_t end_ms;
    } rows[] = {
        {"nothing is known", "{}", "", 0},
        {"suspended", "{'spec':{'suspend':true}}", "Suspended", 0},
        {"a set that removes its Jobs",
         "{'status':{'conditions':[{'type':'RestartingJobSet','status':'True'}]}}", "Restarting",
         0},
        {"and one that has",
         "{'status':{'conditions':[{'type':'RestartingJobSet','status':'False'}]}}", "", 0},
        {"a Job that waits before it makes the next pod", "{'status':{'failed':2,'active':0}}",
         "Restarting", 0},
        {"a Job is over",
         "{'spec':{'suspend':true},'status':{'conditions':[{'type':'Complete','status':"
         "'True','lastTransitionTime':'1970-01-01T01:00:00Z'}]}}",
         "Succeeded", HOUR},
        {"a set is over", "{'status':{'conditions':[{'type':'Completed','status':'True'}]}}",
         "Succeeded", 0},
        {"failed", "{'status':{'failed':1,'conditions':[{'type':'Failed','status':'True'}]}}",
         "Failed", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct spent_state state;

        test_case(rows[i].why);
        spent_state_read(&kind_jobset, parsed(&arena, rows[i].job), &state);
        EXPECT(str_is(state.phase, rows[i].phase));
        EXPECT(state.end_ms == rows[i].end_ms);
    }
}

TEST(a_job_of_another_group_is_not_ours)
{
    EXPECT(spent_kind_of(STR("batch/v1"), STR("Job")) == &kind_job);
    EXPECT(spent_kind_of(STR("jobset.x-k8s.io/v1alpha2"), STR("JobSet")) == &kind_jobset);
    EXPECT(!spent_kind_of(STR("batch.volcano.sh/v1alpha1"), STR("Job")));
    EXPECT(!spent_kind_of(STR("v1"), STR("Job")) &&
           !spent_kind_of(STR("batch/v1"), STR("CronJob")));
}

/* A pod with these annotations, with ' for ". */
static struct object *pod_with(const char *uid, const char *annotations)
{
    char text[1024];
    struct object *pod = NULL;

    (void)snprintf(text, sizeof(text),
                   "{'metadata':{'name':'p','namespace':'team','uid':'%s','annotations':{%s}}}",
                   uid, annotations);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    EXPECT(object_new(&kind_pod, str_from(text), &pod, NULL) == 0);
    return pod;
}

#define TOLD      "'muster.dev/ranks':'[{\\'rank\\':0,\\'act\\':\\'stepping\\'}]'"
#define UNWATCHED "'muster.dev/ranks':'[{\\'unwatched\\':\\'it is so; do that\\'}]'"

TEST(whether_a_job_is_observed_is_said_and_if_not_why)
{
    static const struct {
        const char *why;
        const char *pods[3][2]; /* uid, annotations */
        const char *says;
        const char *note; /* of the report */
    } rows[] = {
        {"nobody knows yet", {{"1", ""}}, "", NULL},
        {"its ranks tell of themselves", {{"1", TOLD}, {"2", TOLD}}, "yes", NULL},
        {"they do not",
         {{"1", UNWATCHED}, {"2", UNWATCHED}},
         "no: it is so; do that",
         "team/a is not observed, so its time is training unless it waits: it is so; do that\n"},
        {"those of one pod do not",
         {{"1", TOLD}, {"2", UNWATCHED}, {"1", TOLD}},
         "in part: it is so; do that",
         "team/a is only in part observed, so"},
        {"they do by now", {{"1", UNWATCHED}, {"1", TOLD}}, "yes", NULL},
        {"nobody is to look",
         {{"1", "'muster.dev/observe':'off'"}},
         "no: the annotation muster.dev/observe is \"off\"; take it off",
         "team/a is not observed, so its time is training unless it waits: the annotation"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf text = {0}, out = {0};
        struct spent spent = {.uid = STR("u"), .ns = STR("team"), .name = STR("a")}, read;

        test_case(rows[i].why);
        (void)account_note(&spent.account, (struct account_event){HOUR, 4, ACCOUNT_TRAINING, 0});
        for (size_t j = 0; j < COUNT_OF(rows[i].pods) && rows[i].pods[j][0]; j++) {
            _cleanup_(object_unrefp) struct object *pod =
                pod_with(rows[i].pods[j][0], rows[i].pods[j][1]);

            (void)spent_hear(&spent, pod);
        }
        spent_write(&text, &spent);
        EXPECT(spent_read(&arena, buf_str(&text), &read));
        EXPECT(str_is(spent_observed(&arena, &read), rows[i].says));
        for (enum spent_form form = SPENT_TABLE; form <= SPENT_JSON; form++) {
            struct spent_options options = {.by = SPENT_BY_JOB, .form = form, .until_ms = 9 * HOUR};

            buf_clear(&out);
            (void)spent_report(&out, &arena, buf_str(&text), &options);
            const char *words = form == SPENT_TABLE
                                    ? rows[i].note ? rows[i].note : "training unless"
                                : form == SPENT_CSV ? ",1.000,1,"
                                                    : "\"unobservedJobs\": 1";
            EXPECT(str_contains(buf_str(&out), str_from(words)) == (rows[i].note != NULL));
        }
    }
}
