#include "base/count.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* Whose work a queue takes. Groups of the test are in namespace "ns". */

static void put(struct cluster *c, const struct sched_tenants *tenants, bool above)
{
    struct sched_queue queue = {.name = STR("q"), .parent = above ? STR("top") : STR("")};
    struct sched_queue top = {.name = STR("top")};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = top.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    if (above) {
        top.tenants = *tenants;
        sched_put_queue(c->sched, &top);
    } else {
        queue.tenants = *tenants;
    }
    sched_put_queue(c->sched, &queue);
}

TEST(a_queue_takes_work_of_namespaces_by_name_and_label)
{
    static const struct str names[] = {STR("other"), STR("ns")};
    static const struct str team = STR("blue");
    static const struct sched_expression blue = {STR("team"), SCHED_IN, &team, 1};
    static const struct {
        const char *why;
        struct sched_tenants tenants;
        const char *label; /* of the namespace; NULL: it is not known */
        bool above;
        bool takes;
    } rows[] = {
        {"everybody's where it says nothing", {0}, "red", false, true},
        {"by name", {true, names, 2, {0}}, "red", false, true},
        {"not another's", {true, names, 1, {0}}, "red", false, false},
        {"nobody's", {true, NULL, 0, {0}}, "red", false, false},
        {"by a label", {true, NULL, 0, {&blue, 1, true}}, "blue", false, true},
        {"that is another", {true, NULL, 0, {&blue, 1, true}}, "red", false, false},
        {"of a namespace that is not known", {true, NULL, 0, {&blue, 1, true}}, NULL, false, false},
        {"one of the two is enough", {true, names, 2, {&blue, 1, true}}, "red", false, true},
        {"a queue above says it", {true, names, 1, {0}}, "red", true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;
        struct sched_label label = {STR("team"), str_from(rows[i].label ? rows[i].label : "")};

        test_case(rows[i].why);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        cluster_node(&c, "n", 8);
        put(&c, &rows[i].tenants, rows[i].above);
        if (rows[i].label)
            sched_put_namespace(c.sched, &(struct sched_namespace){STR("ns"), &label, 1});
        cluster_put(&c, &(struct job){.name = "a", .gpus = 1});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "a-0") == rows[i].takes);
        const struct sched_waiting *waits = cluster_waiting(&c, "a");
        EXPECT(rows[i].takes || (waits && waits->reason == SCHED_REASON_NAMESPACE));
        if (waits)
            EXPECT(str_contains(waits->message, STR(" takes no work of namespace ns")));
        /* What is opened later takes it, and what runs then goes on. */
        put(&c, &(struct sched_tenants){0}, rows[i].above);
        cluster_decide(&c, 1000);
        EXPECT(rows[i].takes || cluster_bound(&c, "a-0"));
        put(&c, &(struct sched_tenants){.closed = true}, rows[i].above);
        cluster_decide(&c, 1000);
        EXPECT(!cluster_evicted(&c, "a-0"));
        cluster_close(&c);
    }
}

TEST(who_names_a_queue_that_is_not_there_is_told_those_that_would_take_the_work)
{
    static const char *const names[] = {"a", "closed", "b", "c", "d", "e", "f"};
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    sched_put_queue(c.sched, &(struct sched_queue){.name = STR("top")});
    cluster_put(&c, &(struct job){.name = "j", .queue = "q7", .gpus = 1});
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        cluster_decide(&c, SCHED_WHY_MS);
        if (i == 3)
            EXPECT(str_is(cluster_waiting(&c, "j")->message,
                          "queue \"q7\" does not exist; those that would take it: a, b"));
        sched_put_queue(c.sched, &(struct sched_queue){.name = str_from(names[i]),
                                                       .parent = STR("top"),
                                                       .tenants = {.closed = i == 1}});
    }
    cluster_decide(&c, SCHED_WHY_MS);
    EXPECT(str_is(cluster_waiting(&c, "j")->message,
                  "queue \"q7\" does not exist; those that would take it: a, b, c, d, e, ..."));
    cluster_close(&c);
}
