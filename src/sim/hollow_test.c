#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "sim/hollow.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <uv.h>

#define NODE_LEASES "kube-node-lease"
#define BEATS_MAX   100 /* a second */

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

/* A node controller calls it Unknown while it is silent, and leaves it so until the node says otherwise. */
TEST(hollow_nodes_whose_heartbeat_failed_say_again_that_they_are_ready)
{
    struct hollow *hollow = NULL;
    struct harness h;
    bool ready = false;

    harness_open(&h, NULL);
    EXPECT(hollow_start(&(struct hollow_options){.loop = &h.loop,
                                                 .api = h.api,
                                                 .nodes = 1,
                                                 .prefix = "hollow",
                                                 .pods = 1,
                                                 .heartbeat_ms = 10},
                        &hollow, NULL) == 0);
    for (int i = 0; i < BEATS_MAX && harness_get(&h, &kind_lease, NODE_LEASES, "hollow-0"); i++)
        (void)uv_run(&h.loop, UV_RUN_ONCE);
    EXPECT(harness_call(
               &h, &(struct api_request){.verb = API_PATCH,
                                         .kind = &kind_node,
                                         .name = STR("hollow-0"),
                                         .subresource = STR("status"),
                                         .patch = API_PATCH_MERGE,
                                         .body = STR("{\"status\":{\"conditions\":null}}")}) == 0);
    EXPECT(harness_delete(&h, &kind_lease, NODE_LEASES, "hollow-0", NULL) == 0);
    for (int i = 0; i < BEATS_MAX && !ready; i++) {
        (void)uv_run(&h.loop, UV_RUN_ONCE);
        ready = harness_get(&h, &kind_node, "", "hollow-0") == 0 &&
                strcmp(harness_text(&h, "status.conditions.0.status"), "") != 0;
    }
    EXPECT(ready);
    hollow_stop(hollow);
    harness_settle(&h);
    harness_close(&h);
}
