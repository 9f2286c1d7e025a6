#include "api/autoscale.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "exec/scheduler.h"
#include "exec/scheduler_report.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What the scheduler lets Cluster Autoscaler and Karpenter know, through a store. */
struct bench {
    struct harness h;
    struct scheduler *scheduler;
    int64_t now_ms;
};

static int64_t now(void *user)
{
    return ((struct bench *)user)->now_ms;
}

static void settle(struct bench *bench)
{
    for (int i = 0; i < 6; i++) {
        harness_settle(&bench->h);
        (void)scheduler_turn(bench->scheduler);
    }
    harness_settle(&bench->h);
}

static void add(struct bench *bench, const struct kind *kind, const char *ns, const char *body)
{
    EXPECT(harness_create(&bench->h, kind, ns, body) == 0);
}

static void add_group(struct bench *bench, const char *name, const char *queue, int min)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"minMember\":%d,\"queue\":\"%s\"}}",
                   name, min, queue);
    add(bench, &kind_podgroup, "default", body);
}

static void add_pod(struct bench *bench,
                    const char *name,
                    const char *group,
                    int gpus,
                    const char *annotations)
{
    char body[512];

    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"pod-group-name\":\"%s\"%s}},"
                   "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":"
                   "{\"limits\":{\"nvidia.com/gpu\":%d}}}]}}",
                   name, group, annotations, gpus);
    add(bench, &kind_pod, "default", body);
}

static void open_bench(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
    add(bench, &kind_queue, "", "{\"metadata\":{\"name\":\"q\"},\"spec\":{}}");
    add(bench, &kind_queue, "",
        "{\"metadata\":{\"name\":\"small\"},\"spec\":{\"resources\":{\"gpu\":"
        "{\"quota\":0,\"limit\":0,\"overQuotaWeight\":1}}}}");
    add(bench, &kind_node, "",
        "{\"metadata\":{\"name\":\"n\"},\"status\":{\"allocatable\":{\"cpu\":\"8\",\"memory\":"
        "\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":\"4\"},\"conditions\":"
        "[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
    EXPECT(scheduler_start(NULL, bench->h.api,
                           &(struct scheduler_options){
                               .now = now, .now_user = bench, .seed = 1, .autoscalers = true},
                           &bench->scheduler, NULL) == 0);
    settle(bench);
}

static void close_bench(struct bench *bench)
{
    scheduler_stop(bench->scheduler);
    harness_close(&bench->h);
}

/* They add nodes for what is Unschedulable; nobody could use nodes that were added for the others. */
TEST(autoscalers_are_told_only_of_pods_that_lack_nodes)
{
    static const struct {
        const char *why;
        const char *queue;
        int min;
        int gpus;
        const char *reason;
    } rows[] = {
        {"its queue has a limit", "small", 1, 1, "OverLimit"},
        {"no node is so large", "q", 1, 8, "Unschedulable"},
        {"others of the gang are missing", "q", 2, 1, "NotReady"},
        {"there is no such queue", "none", 1, 1, "QueueDoesNotExist"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct bench bench;

        test_case(rows[i].why);
        open_bench(&bench);
        add_group(&bench, "g", rows[i].queue, rows[i].min);
        add_pod(&bench, "p", "g", rows[i].gpus, "");
        settle(&bench);
        bench.now_ms += REPORTER_PATIENCE_MS;
        settle(&bench);
        EXPECT(harness_get(&bench.h, &kind_pod, "default", "p") == 0);
        EXPECT(strcmp(harness_text(&bench.h, "status.conditions.0.type"), "PodScheduled") == 0);
        EXPECT(strcmp(harness_text(&bench.h, "status.conditions.0.status"), "False") == 0);
        EXPECT(strcmp(harness_text(&bench.h, "status.conditions.0.reason"), rows[i].reason) == 0);
        close_bench(&bench);
    }
}

static bool has_note(struct bench *bench, const char *pod, const char *key, const char *value)
{
    EXPECT(harness_get(&bench->h, &kind_pod, "default", pod) == 0);
    EXPECT(strcmp(harness_text(&bench->h, "spec.nodeName"), "n") == 0);
    return str_is(object_annotation(bench->h.object, key), value);
}

TEST(autoscalers_leave_the_pods_of_a_gang_where_they_are)
{
    struct bench bench;

    open_bench(&bench);
    add_group(&bench, "g", "q", 2);
    add_group(&bench, "alone", "q", 1);
    add_pod(&bench, "a", "g", 1, "");
    add_pod(&bench, "b", "g", 1, ",\"" AUTOSCALE_SAFE "\":\"true\"");
    add_pod(&bench, "c", "alone", 1, "");
    settle(&bench);
    EXPECT(has_note(&bench, "a", AUTOSCALE_SAFE, AUTOSCALE_SAFE_NOT));
    EXPECT(has_note(&bench, "a", AUTOSCALE_DISRUPT, AUTOSCALE_DISRUPT_NEVER));
    /* A person's word counts. */
    EXPECT(has_note(&bench, "b", AUTOSCALE_SAFE, "true"));
    EXPECT(has_note(&bench, "b", AUTOSCALE_DISRUPT, AUTOSCALE_DISRUPT_NEVER));
    EXPECT(has_note(&bench, "c", AUTOSCALE_SAFE, "") &&
           has_note(&bench, "c", AUTOSCALE_DISRUPT, ""));
    close_bench(&bench);
}
