#include "api/field.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

TEST(fields_of_a_kind_are_taken_by_their_stored_names_and_others_refused)
{
    static const struct {
        const struct kind *kind;
        const char *text;
        const char *path; /* NULL: refused */
        const char *why;
    } rows[] = {
        {&kind_pod, "spec.nodeName=n", "spec.nodeName", "what drain asks"},
        {&kind_pod, "spec.nodename=n", NULL, "misspelt"},
        {&kind_pod, "involvedObject.name=n", NULL, "of another kind"},
        {&kind_node, "metadata.namespace=n", NULL, "a node is in none"},
        {&kind_lease, "metadata.namespace=n", "metadata.namespace", "every kind with namespaces"},
        {&kind_event, "involvedObject.name=n", "involvedObject.name", "core events"},
        {&kind_event, "regarding.name=n", NULL, "the word of the other group"},
        {&kind_event_k8s, "regarding.name!=n", "involvedObject.name", "stored as core events"},
        {&kind_event_k8s, "reportingController=n", "reportingComponent", "stored as core events"},
        {&kind_event_k8s, "involvedObject.name=n", NULL, "the word of the other group"},
        {&kind_job, "status.successful=1", "status.succeeded", "its label has another name"},
        {&kind_csr, "spec.signerName=a.io/b", "spec.signerName", "what a signer watches by"},
        {&kind_torchrunjob, "spec.nodes=1", NULL, "custom kinds name their own"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};
        struct err err = {0};

        test_case(rows[i].why);
        int r = field_selector_parse(&arena, rows[i].kind, NULL, str_from(rows[i].text), &selector,
                                     &err);
        EXPECT((r == 0) == (rows[i].path != NULL));
        if (rows[i].path)
            EXPECT(selector.term_count == 1 && str_is(selector.terms[0].key, rows[i].path));
        else
            EXPECT(r == -EINVAL && strstr(err.text, "field label not supported"));
    }
}

TEST(a_crd_names_the_fields_to_select_by)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *fields = NULL;
    struct selector selector = {0};

    EXPECT(json_parse(&arena, STR("[{\"jsonPath\":\".spec.color\"}]"), &fields, NULL) == 0);
    struct kind_crd crd = {.selectable = fields};
    EXPECT(field_selector_parse(&arena, &kind_torchrunjob, &crd, STR("spec.color=red"), &selector,
                                NULL) == 0);
    EXPECT(field_selector_parse(&arena, &kind_torchrunjob, &crd, STR("spec.colour=red"), &selector,
                                NULL) == -EINVAL);
}

TEST(a_field_that_is_not_there_is_selected_by_what_it_counts_as)
{
    static const struct {
        const struct kind *kind;
        const char *text;
        const char *object;
        bool matches;
        const char *why;
    } rows[] = {
        {&kind_node, "spec.unschedulable=false", "{\"spec\":{}}", true, "as e2e tests ask"},
        {&kind_node, "spec.unschedulable!=true", "{\"spec\":{}}", true, "the same, turned round"},
        {&kind_node, "spec.unschedulable!=false", "{\"spec\":{}}", false, "not cordoned"},
        {&kind_node, "spec.unschedulable=false", "{\"spec\":{\"unschedulable\":true}}", false,
         "cordoned"},
        {&kind_pod, "spec.hostNetwork=false", "{}", true, "a pod with its own network"},
        {&kind_job, "status.successful=0", "{\"status\":{}}", true, "no pod has succeeded"},
        {&kind_job, "status.successful=1", "{\"status\":{}}", false, "no pod has succeeded"},
        {&kind_pod, "spec.nodeName=", "{\"spec\":{}}", true, "bound to nothing"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct selector selector = {0};
        struct object object = {.raw = str_from(rows[i].object)};

        test_case(rows[i].why);
        EXPECT(field_selector_parse(&arena, rows[i].kind, NULL, str_from(rows[i].text), &selector,
                                    NULL) == 0);
        EXPECT(selector_matches_fields(&selector, &object) == rows[i].matches);
    }
}
