#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/world_test.h"
#include "test.h"

#include <stddef.h>

/* Shared devices as bound pods name them, where reservation pods hold them. */

static void observe_share(struct cluster *cluster,
                          const char *name,
                          const char *notes,
                          const char *labels,
                          const char *node)
{
    struct object *object = NULL;
    struct str text =
        str_printf(&cluster->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"namespace\":"
                   "\"ns\",\"name\":\"%s\",\"uid\":\"%s\",\"labels\":{%s},\"annotations\":{"
                   "\"pod-group-name\":\"g\",\"runai/shared-gpu-configmap\":\"c\",%s}},"
                   "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"name\":\"c\"}]}}",
                   name, name, labels, notes, node);

    EXPECT(object_new(&kind_pod, text, &object, NULL) == 0);
    EXPECT(sched_observe(cluster->sched, SCHED_PUT, object, NULL) == 0);
    object_unref(object);
}

TEST(every_group_of_a_pod_with_shares_of_several_devices_is_known_again)
{
    struct sched_config config;
    struct cluster c;

    sched_config_default(&config);
    config.devices = SCHED_DEVICES_RESERVED;
    cluster_open_as(&c, &config);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 2);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .priority = 50});
    observe_share(&c, "both", "\"gpu-fraction\":\"0.3\",\"gpu-fraction-num-devices\":\"2\"",
                  "\"runai-gpu-group/one\":\"one\",\"runai-gpu-group/two\":\"two\"", "a");
    observe_share(&c, "first", "\"gpu-fraction\":\"0.6\"", "", "");
    observe_share(&c, "second", "\"gpu-fraction\":\"0.6\"", "", "");
    cluster_decide(&c, 1000);
    for (size_t i = 0; i < c.plan.bind_count; i++) {
        const struct sched_bind *bind = &c.plan.binds[i];

        if (bind->gpu_group_count)
            EXPECT(str_is(bind->gpu_groups[0], "one") || str_is(bind->gpu_groups[0], "two"));
    }
    EXPECT(cluster_bound(&c, "first") && cluster_bound(&c, "second"));
    cluster_close(&c);
}
