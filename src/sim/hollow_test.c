#include "api/kind.h"
#include "base/count.h"
#include "sim/hollow.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static void on_ready(void *user)
{
    *(bool *)user = true;
}

/* Also of nodes that are there from before, and with what the API server has put there itself. */
TEST(hollow_nodes_keep_pods_away_that_do_not_tolerate_them_if_they_are_to)
{
    static const struct {
        const char *why;
        bool before;
        bool taint;
        const char *key;
    } rows[] = {
        {"new, with the taint", false, true, HOLLOW_TAINT},
        {"new, without", false, false, ""},
        {"from before, with the taint", true, true, HOLLOW_TAINT},
        {"from before, without", true, false, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hollow *hollow = NULL;
        struct harness h;
        bool ready = false;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        if (rows[i].before)
            EXPECT(harness_create(&h, &kind_node, "",
                                  "{\"metadata\":{\"name\":\"hollow-0\"},\"spec\":{\"taints\":[{"
                                  "\"key\":\"node.kubernetes.io/not-ready\",\"effect\":"
                                  "\"NoSchedule\"}]}}") == 0);
        EXPECT(hollow_start(&(struct hollow_options){.loop = &h.loop,
                                                     .api = h.api,
                                                     .nodes = 1,
                                                     .prefix = "hollow",
                                                     .cpus = 1,
                                                     .memory_gib = 1,
                                                     .pods = 1,
                                                     .taint = rows[i].taint,
                                                     .ready = on_ready,
                                                     .user = &ready},
                            &hollow, NULL) == 0);
        harness_settle(&h);
        EXPECT(ready);
        EXPECT(harness_get(&h, &kind_node, "", "hollow-0") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.taints.0.key"), rows[i].key) == 0);
        EXPECT(strcmp(harness_text(&h, "spec.taints.1.key"), "") == 0);
        hollow_stop(hollow);
        harness_settle(&h);
        harness_close(&h);
    }
}
