#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

/* Kinds of scheduling.k8s.io/v1beta1: what is filled in, refused and kept. */

#define GROUP(spec) "{\"metadata\":{\"name\":\"g\"},\"spec\":{" spec "}}"
#define GANG        "\"schedulingPolicy\":{\"gang\":{\"minCount\":2}}"
#define WORKLOAD(templates) \
    "{\"metadata\":{\"name\":\"w\"},\"spec\":{\"podGroupTemplates\":[" templates "]}}"

TEST(a_pod_group_of_kubernetes_gets_its_defaults_its_priority_and_its_finalizer)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_priorityclass, "",
                          "{\"metadata\":{\"name\":\"high\"},\"value\":7}") == 0);
    EXPECT(harness_create(&h, &kind_podgroup_k8s, "default",
                          GROUP(GANG ",\"priorityClassName\":\"high\"")) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.disruptionMode"), "{\"single\":{}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.priority"), "7") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.finalizers.0"),
                  "scheduling.k8s.io/podgroup-protection") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.generation"), "1") == 0);
    EXPECT(harness_patch(&h, &kind_podgroup_k8s, "default", "g",
                         "{\"spec\":{\"schedulingPolicy\":{\"gang\":{\"minCount\":3}}}}") == 0);
    EXPECT(harness_patch(&h, &kind_podgroup_k8s, "default", "g",
                         "{\"spec\":{\"disruptionMode\":{\"single\":null,\"all\":{}}}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.disruptionMode"));
    EXPECT(harness_patch(&h, &kind_podgroup_k8s, "default", "g",
                         "{\"spec\":{\"schedulingPolicy\":{\"gang\":null,\"basic\":{}}}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.schedulingPolicy"));
    harness_close(&h);
}

#define JOB(scheduling, template)                                                                 \
    "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"completions\":2,\"parallelism\":2,"               \
    "\"scheduling\":" scheduling                                                                  \
    ",\"template\":{\"spec\":{" template "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":" \
                                         "\"c\",\"image\":\"i\"}]}}}}"

TEST(how_a_job_is_scheduled_is_said_once_but_for_its_minimum)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_job, "default",
                          JOB("{\"schedulingPolicy\":{\"gang\":{\"minCount\":2}}}", "")) == 0);
    EXPECT(harness_patch(&h, &kind_job, "default", "j",
                         "{\"spec\":{\"scheduling\":{\"schedulingPolicy\":{\"gang\":{"
                         "\"minCount\":1}}}}}") == 0);
    EXPECT(harness_patch(&h, &kind_job, "default", "j", "{\"spec\":{\"scheduling\":null}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.scheduling"));
    EXPECT(harness_patch(&h, &kind_job, "default", "j",
                         "{\"spec\":{\"scheduling\":{\"disruptionMode\":{\"all\":{}}}}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.scheduling.disruptionMode"));
    harness_close(&h);
}

TEST(pod_groups_and_workloads_that_could_not_be_meant_are_refused_with_the_field)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *body;
        int status;
        const char *cause;
    } rows[] = {
        {"neither one by one nor together", &kind_podgroup_k8s, GROUP("\"schedulingPolicy\":{}"),
         422, "spec.schedulingPolicy"},
        {"both", &kind_podgroup_k8s,
         GROUP("\"schedulingPolicy\":{\"basic\":{},\"gang\":{\"minCount\":1}}"), 422,
         "must specify one of"},
        {"a gang of nobody", &kind_podgroup_k8s,
         GROUP("\"schedulingPolicy\":{\"gang\":{\"minCount\":0}}"), 422,
         "spec.schedulingPolicy.gang.minCount"},
        {"a gang without a number", &kind_podgroup_k8s, GROUP("\"schedulingPolicy\":{\"gang\":{}}"),
         422, "spec.schedulingPolicy.gang.minCount"},
        {"two labels", &kind_podgroup_k8s,
         GROUP(GANG ",\"schedulingConstraints\":{\"topology\":[{\"key\":\"a\"},{\"key\":\"b\"}]}"),
         422, "spec.schedulingConstraints.topology"},
        {"a part of something larger", &kind_podgroup_k8s,
         GROUP(GANG ",\"parentCompositePodGroupName\":\"p\""), 422,
         "spec.parentCompositePodGroupName"},
        {"devices of two claims at once", &kind_podgroup_k8s,
         GROUP(GANG ",\"resourceClaims\":[{\"name\":\"c\",\"resourceClaimName\":\"c\","
                    "\"resourceClaimTemplateName\":\"t\"}]"),
         422, "spec.resourceClaims[0]"},
        {"devices of no claim", &kind_podgroup_k8s,
         GROUP(GANG ",\"resourceClaims\":[{\"name\":\"c\"}]"), 422, "spec.resourceClaims[0]"},
        {"a claim with an odd name", &kind_podgroup_k8s,
         GROUP(GANG ",\"resourceClaims\":[{\"name\":\"C.\",\"resourceClaimName\":\"c\"}]"), 422,
         "spec.resourceClaims[0].name"},
        {"who does not stop others", &kind_podgroup_k8s,
         GROUP(GANG ",\"preemptionPolicy\":\"Sometimes\""), 422, "spec.preemptionPolicy"},
        {"half a reference", &kind_podgroup_k8s,
         GROUP(GANG ",\"workloadRef\":{\"workloadName\":\"w\"}"), 422,
         "spec.workloadRef.templateName"},
        {"a class that is not there", &kind_podgroup_k8s,
         GROUP(GANG ",\"priorityClassName\":\"none\""), 403, ""},
        {"a number that no class has", &kind_podgroup_k8s, GROUP(GANG ",\"priority\":9"), 403, ""},
        {"work of nothing", &kind_workload, "{\"metadata\":{\"name\":\"w\"},\"spec\":{}}", 422,
         "podGroupTemplates"},
        {"a name twice", &kind_workload,
         WORKLOAD("{\"name\":\"a\"," GANG "},{\"name\":\"a\"," GANG "}"), 422,
         "spec.podGroupTemplates[1]"},
        {"two priorities", &kind_workload,
         WORKLOAD("{\"name\":\"a\"," GANG "},{\"name\":\"b\",\"priority\":3," GANG "}"), 422,
         "must be identical"},
        {"more than run at once", &kind_job,
         JOB("{\"schedulingPolicy\":{\"gang\":{\"minCount\":3}}}", ""), 422,
         "spec.scheduling.schedulingPolicy.gang.minCount"},
        {"two groups", &kind_job, JOB("{}", "\"schedulingGroup\":{\"podGroupName\":\"g\"},"), 422,
         "spec.scheduling"},
        {"groups of groups", &kind_workload,
         "{\"metadata\":{\"name\":\"w\"},\"spec\":{\"compositePodGroupTemplates\":[{\"name\":"
         "\"a\"}]}}",
         422, "spec.compositePodGroupTemplates"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, rows[i].kind, "default", rows[i].body) < 0);
        EXPECT(h.status == rows[i].status && strstr(h.causes, rows[i].cause));
        harness_close(&h);
    }
}

TEST(a_workload_keeps_its_templates_and_a_pod_its_group)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_workload, "default", WORKLOAD("{\"name\":\"a\"," GANG "}")) ==
           0);
    EXPECT(strstr(h.warnings, "has templates only"));
    EXPECT(harness_patch(&h, &kind_workload, "default", "w",
                         "{\"spec\":{\"podGroupTemplates\":[{\"name\":\"a\",\"schedulingPolicy\":{"
                         "\"gang\":{\"minCount\":5}}}]}}") == 0);
    EXPECT(harness_patch(&h, &kind_workload, "default", "w",
                         "{\"spec\":{\"podGroupTemplates\":[{\"name\":\"b\"," GANG "}]}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "may not be added or removed"));
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"schedulingGroup\":{},"
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.schedulingGroup"));
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"schedulingGroup\":{"
                          "\"podGroupName\":\"g\"},\"containers\":[{\"name\":\"c\",\"image\":"
                          "\"i\"}]}}") == 0);
    EXPECT(harness_patch(&h, &kind_pod, "default", "p",
                         "{\"spec\":{\"schedulingGroup\":{\"podGroupName\":\"h\"}}}") < 0);
    EXPECT(h.status == 422);
    harness_close(&h);
}
