#include "base/count.h"
#include "plugin/kubectl.h"
#include "plugin/plugin.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

/* A context that no kubeconfig has, and a token in the place of one, are refused by kubectl. */
TEST(kubectl_is_told_of_a_file_and_a_context_only_where_there_are_some)
{
    static const struct {
        const char *why;
        struct kube_config config;
        const char *words[8];
    } rows[] = {
        {"of a file",
         {.source = "/home/ann/config", .context = "lab", .ns = "ann"},
         {"kubectl", "--kubeconfig", "/home/ann/config", "--context", "lab", "-n", "ann", "exec"}},
        {"in a pod",
         {.source = "/var/run/token", .context = "in-cluster", .ns = "ann", .in_cluster = true},
         {"kubectl", "-n", "ann", "exec"}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct session session = {.config = rows[i].config};
        struct kubectl_args args = {0};

        test_case(rows[i].why);
        kubectl_begin(&args, &session, "exec");
        for (size_t word = 0; word < COUNT_OF(rows[i].words); word++) {
            const char *expected = rows[i].words[word];

            EXPECT((expected != NULL) == (word < args.count));
            if (expected && word < args.count)
                EXPECT(strcmp(args.items[word], expected) == 0);
        }
    }
}
