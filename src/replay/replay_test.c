#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "replay/policy.h"
#include "replay/queues.h"
#include "replay/recording.h"
#include "replay/replay.h"
#include "replay/result.h"
#include "replay/trace.h"
#include "test.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static volatile sig_atomic_t never;

static struct trace parsed(struct arena *arena, const char *text)
{
    struct trace trace = {0};
    struct err err = {0};

    EXPECT(trace_parse(arena, "t.csv", str_from(text), &trace, &err) == 0);
    return trace;
}

static struct replay_result played(struct arena *arena,
                                   const struct trace *trace,
                                   const struct trace_nodes *nodes,
                                   const char *policy)
{
    struct replay_options options = {.world = {.policy = replay_policy_named(str_from(policy)),
                                               .trace = trace,
                                               .nodes = nodes,
                                               .reserve_after_ms = -1},
                                     .seed = 3,
                                     .stop = &never};
    struct replay_result result;

    if (trace->ends)
        replay_time(arena, &options, &result);
    else
        replay_fill(arena, &options, &result);
    return result;
}

TEST(a_trace_is_read_by_the_names_of_its_columns)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "timestamp,duration,num_gpus,gpu_time,cluster\r\n"
                                        "2017-10-09 07:01:55,66.5,16,1,vc2\n"
                                        "2017-10-09 07:01:50,5,1,1,vc1\n");

    EXPECT(trace.ends && trace.jobs.count == 2);
    EXPECT(str_is(trace.jobs.items[0].queue, "vc1"));
    EXPECT(trace.jobs.items[1].submit_ms - trace.jobs.items[0].submit_ms == 5000);
    EXPECT(trace.jobs.items[1].run_ms == 66500 && trace.jobs.items[1].gpus == 16);
    trace = parsed(&arena, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,12000,16384,1,460\n"
                           "b,8000,100,0,0\n");
    EXPECT(!trace.ends && trace.jobs.items[0].gpu_milli == 460);
    EXPECT(trace.jobs.items[1].gpus == 0 && trace.jobs.items[1].cpu_milli == 8000);
    arena_done(&arena);
}

TEST(a_trace_that_cannot_be_read_says_where)
{
    static const struct {
        const char *text;
        const char *says;
        const char *why;
    } rows[] = {
        {"", "is empty", "nothing there"},
        {"name,run\na,1\n", "no column \"gpus\"", "no GPUs"},
        {"gpus,run\n1,5\nx,6\n", "line 3: gpus: \"x\"", "not a number"},
        {"gpus,gpu_milli\n2,500\n", "line 2: gpu_milli", "a share of two GPUs"},
        {"gpus\n", "has no jobs", "only a head"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct trace trace = {0};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(trace_parse(&arena, "t.csv", str_from(rows[i].text), &trace, &err) < 0);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].says)));
        arena_done(&arena);
    }
}

/* Two GPUs; a long job, one that needs both, and a short one that comes last. */
TEST(first_come_first_served_lets_nobody_overtake_and_kai_does)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "submit,run,gpus,queue\n0,100,1,q\n1,10,2,q\n2,5,1,q\n");
    struct trace_nodes nodes = {0};

    trace_make_nodes(&arena, 1, 2, &nodes);
    struct replay_result fifo = played(&arena, &trace, &nodes, "fifo");
    struct replay_result kai = played(&arena, &trace, &nodes, "kai");
    EXPECT(fifo.jobs[1].start_ms == 100000 && fifo.jobs[2].start_ms == 110000);
    EXPECT(kai.jobs[2].start_ms == 2000 && kai.jobs[1].start_ms == 100000);
    EXPECT(fifo.makespan_ms == 115000 && kai.makespan_ms == 110000);
    arena_done(&arena);
}

/* One GPU, jobs that wait 0, 1, 2 and 12 hours. */
TEST(the_99th_percentile_of_a_few_jobs_is_the_longest)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "submit,run,gpus,queue\n0,7200,1,q\n3600,3600,1,q\n"
                                        "3601,39599,1,q\n3602,5,1,q\n");
    struct trace_nodes nodes = {0};
    struct replay_waits waits;

    trace_make_nodes(&arena, 1, 1, &nodes);
    struct replay_result result = played(&arena, &trace, &nodes, "fifo");
    replay_waits(&(struct replay_report){.arena = &arena, .trace = &trace}, &result, NULL, NULL,
                 &waits);
    EXPECT(waits.count == 4 && waits.longest > 12.9 && waits.median < 1.1);
    EXPECT(!(waits.p99 < waits.longest) && !(waits.completion_p99 < waits.longest));
    arena_done(&arena);
}

TEST(a_job_larger_than_a_node_is_a_gang_that_starts_whole)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "submit,run,gpus,queue\n0,50,9,q\n0,10,16,q\n");
    struct trace_nodes nodes = {0};

    trace_make_nodes(&arena, 2, 8, &nodes);
    for (size_t p = 0; p < replay_policy_count; p++) {
        test_case(replay_policies[p].name);
        struct replay_result result = played(&arena, &trace, &nodes, replay_policies[p].name);
        int64_t last = result.jobs[0].end_ms > result.jobs[1].end_ms ? result.jobs[0].end_ms
                                                                     : result.jobs[1].end_ms;
        EXPECT(last == 60000 && result.decisions == 4);
    }
    arena_done(&arena);
}

TEST(filling_up_is_the_same_for_a_seed_and_never_gives_a_gpu_twice)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "name,cpu_milli,memory_mib,gpus,gpu_milli,models\n"
                                        "a,4000,8000,1,810,\nb,12000,16000,1,1000,A\n"
                                        "c,30000,8000,4,1000,\nd,1000,1000,1,190,A|B\n");
    struct trace_nodes nodes = {0};
    struct err err = {0};

    EXPECT(trace_parse_nodes(&arena, "n.csv",
                             STR("sn,cpu_milli,memory_mib,gpu,model\nn1,96000,393216,8,A\n"
                                 "n2,32000,131072,4,B\nn3,64000,131072,2,A\n"),
                             &nodes, &err) == 0);
    for (size_t p = 0; p < replay_policy_count; p++) {
        test_case(replay_policies[p].name);
        struct replay_result one = played(&arena, &trace, &nodes, replay_policies[p].name);
        struct replay_result two = played(&arena, &trace, &nodes, replay_policies[p].name);

        EXPECT(one.at_130 > 0.5 && one.at_130 <= 1 && one.decisions == two.decisions);
        EXPECT(!(one.at_100 < two.at_100) && !(one.at_100 > two.at_100));
    }
    arena_done(&arena);
}

TEST(a_report_has_every_policy_in_every_form)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "submit,run,gpus,queue\n0,100,1,q\n1,10,2,q\n");
    struct trace_nodes nodes = {0};
    struct replay_results results = {0};
    void (*const forms[])(struct buf *, const struct replay_report *) = {report_table, report_json,
                                                                         report_csv, report_page};

    trace_make_nodes(&arena, 1, 2, &nodes);
    VEC_PUSH(&arena, &results, played(&arena, &trace, &nodes, "kai"));
    VEC_PUSH(&arena, &results, played(&arena, &trace, &nodes, "fifo"));
    struct replay_report report = {.arena = &arena,
                                   .trace = &trace,
                                   .trace_name = "t.csv",
                                   .gpus = 2,
                                   .node_count = 1,
                                   .results = &results};
    for (size_t i = 0; i < 4; i++) {
        _cleanup_(buf_done) struct buf out = {0};

        forms[i](&out, &report);
        EXPECT(str_contains(buf_str(&out), STR("kai")) && str_contains(buf_str(&out), STR("fifo")));
    }
    arena_done(&arena);
}

/* Two GPUs that one queue has for 100 seconds; then the other, which is entitled to one, has one. */
TEST(fairness_says_what_the_worst_served_queue_has_of_its_entitlement)
{
    struct arena arena = {0};
    struct trace trace = parsed(&arena, "submit,run,gpus,queue\n0,100,2,a\n1,100,1,b\n150,1,1,a\n");
    struct trace_nodes nodes = {0};

    trace_make_nodes(&arena, 1, 2, &nodes);
    struct replay_result result = played(&arena, &trace, &nodes, "kai");
    for (size_t i = 0; i < result.samples.count; i++) {
        const struct replay_sample *sample = &result.samples.items[i];
        double seconds = sample->at * 3600;

        if (seconds > 2 && seconds < 99)
            EXPECT(!(sample->least > 0) && sample->fair < 0.9);
        if (seconds > 101 && seconds < 149)
            EXPECT(!(sample->least < 1));
    }
    EXPECT(result.samples.count > 100 && result.least > 0 && result.least < 1);
    arena_done(&arena);
}

/* One GPU; jobs of ten minutes come faster than they go. */
TEST(estimates_of_jobs_that_run_alike_come_true_and_change_nothing)
{
    struct arena arena = {0};
    struct buf text = {0};
    struct trace trace;
    struct trace_nodes nodes = {0};

    buf_add(&text, STR("submit,run,gpus,queue\n"));
    for (int i = 0; i < 60; i++)
        buf_addf(&text, "%d,600,1,q\n", i * 400);
    buf_addc(&text, '\0');
    trace = parsed(&arena, text.p);
    trace_make_nodes(&arena, 1, 1, &nodes);
    struct replay_options options = {.world = {.policy = replay_policy_named(STR("fifo")),
                                               .trace = &trace,
                                               .nodes = &nodes,
                                               .reserve_after_ms = -1},
                                     .estimates = 60,
                                     .stop = &never};
    struct replay_result result;
    struct replay_result plain = played(&arena, &trace, &nodes, "fifo");
    replay_time(&arena, &options, &result);
    const struct replay_estimates *of = &result.estimates;
    EXPECT(of->asked > 50 && of->inside + of->early + of->late + of->none == of->asked);
    EXPECT(of->inside * 2 > of->asked);
    for (size_t i = 0; i < trace.jobs.count; i++)
        EXPECT(result.jobs[i].start_ms == plain.jobs[i].start_ms);
    buf_done(&text);
    arena_done(&arena);
}

TEST(a_recording_is_repeated_to_the_same_plans_and_says_where_it_is_not)
{
    static const char *const lines[] = {
        "{\"muster\":1,\"settings\":{}}",
        "{\"put\":{\"apiVersion\":\"scheduling.run.ai/"
        "v2\",\"kind\":\"Queue\",\"metadata\":{\"name\":"
        "\"q\"},\"spec\":{}}}",
        "{\"usage\":[\"q\",\"0000000000000000\",\"0000000000000000\",\"3fe0000000000000\"]}",
        "{\"cycle\":1800000000000,\"plan\":\"0000000000000000\",\"binds\":0,\"evicts\":0}",
    };
    struct player *player = player_new(&(struct player_options){0});
    struct player_result result;
    struct err err = {0};

    EXPECT(recording_is(str_from(lines[0])) && !recording_is(STR("submit,run,gpus")));
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        EXPECT(player_line(player, str_from(lines[i]), &err) == 0);
    player_result(player, &result);
    EXPECT(result.events == 2 && result.cycles == 1);
    EXPECT(result.wrong == 1 && result.wrong_line == 4);
    EXPECT(player_line(player, STR("{\"else\":1}"), &err) < 0);
    EXPECT(str_contains(str_from(err.text), STR("line 5")));
    player_free(player);
}

/* Stands for the rules of the controller. */
static struct json *vision_of(struct arena *arena, const struct object *queue)
{
    struct json *manifest = json_new_object(arena);

    EXPECT(str_is(queue->name, "b"));
    json_fill(arena, manifest,
              "{apiVersion: 'scheduling.run.ai/v2', kind: 'Queue', metadata: {name: 'vision'},"
              " spec: {parentQueue: 'default', resources: {gpu: {quota: $}}}}",
              (int64_t)3);
    return manifest;
}

static const char queue_manifests[] =
    "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: top}\nspec: {}\n---\n"
    "apiVersion: v1\nkind: List\nitems:\n"
    "- apiVersion: scheduling.run.ai/v2\n  kind: Queue\n  metadata: {name: a}\n"
    "  spec: {parentQueue: top, resources: {gpu: {quota: 1, limit: 1, overQuotaWeight: 2}}}\n"
    "---\napiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\nmetadata: {name: b, namespace: "
    "n}\n"
    "spec: {queue: {name: vision}}\n";

TEST(queues_of_a_replay_come_from_manifests)
{
    struct arena arena = {0};
    struct replay_queues queues = {0};
    struct err err = {0};

    EXPECT(replay_queues_parse(&arena, "q.yaml", str_from(queue_manifests), vision_of, &queues,
                               &err) == 0);
    EXPECT(queues.count == 3 && str_is(queues.items[1].parent, "top"));
    EXPECT(queues.items[1].quota[SCHED_GPU].limit < 1.5);
    EXPECT(str_is(queues.items[2].name, "vision") && !queues.items[2].parent.len);
    EXPECT(queues.items[2].quota[SCHED_GPU].quota > 2.5);

    /* Two jobs of one GPU: on two GPUs both run at once, unless their queue may have one. */
    struct trace trace = parsed(&arena, "submit,run,queue,gpus\n0,100,a,1\n0,100,a,1\n");
    struct trace_nodes nodes = {0};
    trace_make_nodes(&arena, 1, 2, &nodes);
    struct replay_result free_for_all = played(&arena, &trace, &nodes, "muster");
    struct replay_options options = {.world = {.policy = replay_policy_named(STR("muster")),
                                               .trace = &trace,
                                               .nodes = &nodes,
                                               .queues = queues.items,
                                               .queue_count = queues.count,
                                               .preemptible = true,
                                               .reserve_after_ms = -1},
                                     .window = 32,
                                     .stop = &never};
    struct replay_result limited;
    replay_time(&arena, &options, &limited);
    EXPECT(limited.makespan_ms == free_for_all.makespan_ms + 100000);
    arena_done(&arena);
}

TEST(queues_of_a_replay_that_cannot_be_are_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } cases[] = {
        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "is no queue"},
        {"apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\n"
         "spec: {parentQueue: b}\n",
         "queue a: spec.parentQueue: b is not in the file"},
        {"", "has no queue"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena = {0};
        struct replay_queues queues = {0};
        struct err err = {0};

        EXPECT(replay_queues_parse(&arena, "q.yaml", str_from(cases[i].text), vision_of, &queues,
                                   &err) < 0);
        EXPECT(str_starts(str_from(err.text), STR("q.yaml: ")));
        EXPECT(strstr(err.text, cases[i].says) != NULL);
        arena_done(&arena);
    }
}
