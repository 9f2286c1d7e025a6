#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "control/cluster/coexist.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

TEST(coexist_knows_others_by_what_runs)
{
    static const struct {
        const char *labels;
        const char *container;
        const char *image;
        const char *phase;
        const char *other; /* NULL: nobody's operator */
        const char *why;
    } rows[] = {
        {"", "training-operator", "kubeflow/training-operator:v1-abc", "Running",
         "kubeflow-training-operator", "by its image"},
        {"", "x", "registry.local:5000/mirror/training-operator@sha256:00", "Pending",
         "kubeflow-training-operator", "from a mirror, by digest, not running yet"},
        {"\"control-plane\":\"kubeflow-training-operator\"", "training-operator", "team/own-build",
         "Running", "kubeflow-training-operator", "by label and container's name"},
        {"\"control-plane\":\"kubeflow-training-operator\"", "operator", "registry/muster:0.1",
         "Running", NULL, "our own pod that wears its label"},
        {"\"control-plane\":\"kubeflow-training-operator\"", "app", "nginx", "Running", NULL,
         "the label alone"},
        {"", "c", "team/not-a-training-operator", "Running", NULL, "the end of a longer name"},
        {"", "training-operator", "kubeflow/training-operator:v1", "Succeeded", NULL, "it ended"},
        {"", "manager", "registry.k8s.io/jobset/jobset:v0.8.0", "Running", "jobset", "JobSet"},
        {"", "manager", "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.0.0", "Running",
         "kubeflow-trainer", "trainer"},
        {"", "scheduler", "ghcr.io/nvidia/kai-scheduler/scheduler:v0.9.0", "Running",
         "kai-scheduler", "KAI"},
        {"", "kube-scheduler", "registry.k8s.io/kube-scheduler:v1.33.0", "Running", NULL,
         "another scheduler"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *pod = NULL;
        struct str text = str_printf(
            &arena,
            "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"labels\":{%s}},\"spec\":{"
            "\"containers\":[{\"name\":\"%s\",\"image\":\"%s\"}]},\"status\":{\"phase\":\"%s\"}}",
            rows[i].labels, rows[i].container, rows[i].image, rows[i].phase);

        test_case(rows[i].why);
        EXPECT(object_new(&kind_pod, text, &pod, NULL) == 0);
        int found = coexist_find(pod);
        EXPECT((found >= 0) == (rows[i].other != NULL));
        if (found >= 0 && rows[i].other)
            EXPECT(strcmp(coexist_others[found].name, rows[i].other) == 0);
    }
}

TEST(coexist_names_controllers_that_exist)
{
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        for (size_t k = 0; coexist_others[i].controllers[k]; k++) {
            bool known = false;

            test_case(coexist_others[i].controllers[k]);
            for (size_t c = 0; controllers[c]; c++)
                known =
                    known || strcmp(controllers[c]->name, coexist_others[i].controllers[k]) == 0;
            EXPECT(known);
        }
}
